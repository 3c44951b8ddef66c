"""An energy loss by name, with those of the options that it has: for tests that run over all of them."""

from dataclasses import fields

from seal_hf import ENERGY_LOSSES

# without mutual learning, which is for label sets alone and has no energy of an output (test_mutual_learning.py)
LOSSES_OF_ENERGIES = [name for name, loss in ENERGY_LOSSES.items() if not loss.reads_single_labels]


def energy_loss(name, **options):
    kind = ENERGY_LOSSES[name]
    known = {field.name for field in fields(kind)}
    return kind(**{option: value for option, value in options.items() if option in known})
