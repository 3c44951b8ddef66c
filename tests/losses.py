"""An energy loss by name, with those of the options that it has: for tests that run over all of them."""

from dataclasses import fields

from seal_hf import ENERGY_LOSSES


def energy_loss(name, **options):
    kind = ENERGY_LOSSES[name]
    known = {field.name for field in fields(kind)}
    return kind(**{option: value for option, value in options.items() if option in known})
