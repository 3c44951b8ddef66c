"""Flags of the command line that nothing of the run would read: they are refused, not left aside in silence. A recipe
may hold them, so that one file serves several losses; and cross-entropy (`--loss ce`) takes those of energy losses, so
that the baseline is one flag away."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields

from ..energy_losses import ENERGY_LOSSES
from ..task_losses.labels import TASK_LOSSES
from ..task_losses.tags import TAG_TASK_LOSSES
from ..training.arguments import CROSS_ENTROPY, SealTrainingArguments
from ..training.energy_arguments import EnergyTrainingArguments
from ..training.energy_methods import ENERGY_METHODS
from ..utils.options import options_idle, options_read

# flags that no loss names in its `options` -> the argument that says whether they are read, and its values then
READERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "soft_iou_weight": ("task_loss", ("soft_iou",)),
    "hypergradient_terms": ("hypergradient", ("neumann", "cg", "unrolled")),
    "hypergradient_scale": ("hypergradient", ("neumann", "unrolled")),
    "hypergradient_damping": ("hypergradient", ("neumann", "cg")),
    "hypergradient_product hypergradient_parameters": ("hypergradient", ("neumann", "cg", "unrolled")),
    "coherence_size": ("sample_coherence", ("field", "patches")),
    "independent_share": ("sample_coherence", ("patches",)),
    "input_noise_std": ("sample_coherence", ("inputs",)),
}
OF_ENERGY_LOSSES = {"energy_loss", "hypergradient", "sample_coherence"}
PARTNER = ("cost_augmented_network", "cost_augmented_task_weight")  # of a loss that has one
OUTPUTS = {  # flags of one kind of output -> its program
    "crf_learning_rate tag_score constrained_decoding": ("tag_sequence", "run_tagging.py"),
    "pixel_loss sample_coherence": ("binary_mask", "run_segmentation.py"),
    "sparse_labels_from relaxed_mass relaxed_width": ("multi_label", "run_mlc.py"),
}
Readers = dict[str, dict[str, list[str]]]  # flag -> argument -> its values under which the flag is read


def check_flags(args: SealTrainingArguments | EnergyTrainingArguments, argv: Sequence[str] | None, output: str) -> None:
    """Raises ValueError for a flag that nothing reads.

    Args:
        argv: the command line without the program's name; default `sys.argv[1:]`.
        output: the kind of output that the program is for, a key of `SPACES`.
    """
    words = sys.argv[1:] if argv is None else argv
    given = {word[2:].split("=")[0].replace("-", "_") for word in words if word.startswith("--")}
    given -= {field.name for field in fields(args) if getattr(args, field.name) == _default(field)}  # as not given
    read_by = readers(args)
    if getattr(args, "energy_loss", None) == CROSS_ENTROPY:
        given -= {name for name, switches in read_by.items() if switches.keys() & OF_ENERGY_LOSSES}
    for names, (kind, program) in OUTPUTS.items():
        for name in given.intersection(names.split()) if output != kind else ():
            raise ValueError(f"`{name}` is of another kind of output, {kind} ({program}). Leave it out.")
    for name, other in idle(args).items():
        if name in given and other in vars(args):
            found = getattr(args, other)
            raise ValueError(f"`{name}` is not read where {other} is {found!r}. Leave it out, or give --{other}.")
    for name, switches in read_by.items():
        if name in given and not any(getattr(args, switch) in values for switch, values in switches.items()):
            read = " or with ".join(f"{switch} {' or '.join(values)}" for switch, values in switches.items())
            found = " and ".join(f"{switch} is {getattr(args, switch)!r}" for switch in switches)
            give = " or ".join(f"--{switch}" for switch in switches)
            raise ValueError(f"`{name}` is read with {read}, but {found}. Leave it out, or give {give}.")


def readers(args: SealTrainingArguments | EnergyTrainingArguments) -> Readers:
    """What each flag that a loss, a method or an option reads depends on."""
    found: Readers = defaultdict(lambda: defaultdict(list))

    def note(switch: str, value: str, names: Iterable[str]) -> None:
        for name in names:
            found[name][switch].append(value)

    if isinstance(args, EnergyTrainingArguments):
        for value, method in ENERGY_METHODS.items():
            note("energy_method", value, {*method.options, *options_read(method.loss_class, args)})
        return found
    for value, loss in ENERGY_LOSSES.items():
        note("energy_loss", value, {*options_read(loss, args), *(PARTNER if loss.has_partner else ())})
    for value, loss in (*TASK_LOSSES.items(), *TAG_TASK_LOSSES.items()):
        note("task_loss", value, loss.options)
    for names, (switch, values) in READERS.items():
        for value in values:
            note(switch, value, names.split())
    return found


def idle(args: SealTrainingArguments | EnergyTrainingArguments) -> dict[str, str]:
    """What the loss of these arguments would read if another one, which is named, had another value."""
    if isinstance(args, EnergyTrainingArguments):
        return options_idle(ENERGY_METHODS[args.energy_method].loss_class, args)
    return {} if args.energy_loss == CROSS_ENTROPY else options_idle(ENERGY_LOSSES[args.energy_loss], args)


def _default(field):
    return field.default if field.default_factory is MISSING else field.default_factory()
