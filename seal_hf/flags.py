"""Flags of the command line that nothing of the run would read: they are refused, not left aside in silence. A recipe
may hold them, so that one file serves several losses; and cross-entropy (`--loss ce`) takes those of energy losses, so
that the baseline is one flag away."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields

from .energy_losses import ENERGY_LOSSES
from .training_args import CROSS_ENTROPY, SealTrainingArguments

# flags -> the argument that says whether they are read, and the values under which they are
READERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "perturbation_std regression_samples": ("energy_loss", ("regression_s",)),
    "cost_weight distinct_samples gold_mix": ("energy_loss", ("nce", "ranking")),
    "margin_type": ("energy_loss", ("margin", "infnet", "infnet_plus")),
    "inference_truncation": ("energy_loss", ("infnet", "infnet_plus")),
    "perceptron_weight cost_augmented_network cost_augmented_task_weight": ("energy_loss", ("infnet_plus",)),
    "focal_gamma": ("task_loss", ("focal",)),
    "asymmetric_gamma_negative asymmetric_gamma_positive asymmetric_clip": ("task_loss", ("asymmetric",)),
    "unique_roles_weight": ("task_loss", ("unique_roles",)),
    "soft_iou_weight": ("task_loss", ("soft_iou",)),
    "hypergradient_terms hypergradient_scale": ("hypergradient", ("neumann", "cg", "unrolled")),
    "hypergradient_damping": ("hypergradient", ("neumann", "cg")),
    "hypergradient_product hypergradient_parameters": ("hypergradient", ("neumann", "cg", "unrolled")),
    "coherence_size": ("sample_coherence", ("field", "patches")),
    "independent_share": ("sample_coherence", ("patches",)),
    "input_noise_std": ("sample_coherence", ("inputs",)),
}
OUTPUTS = {  # flags of one kind of output -> its program
    "crf_learning_rate tag_score constrained_decoding": ("tag_sequence", "run_tagging.py"),
    "pixel_loss sample_coherence": ("binary_mask", "run_segmentation.py"),
    "sparse_labels_from relaxed_mass relaxed_width": ("multi_label", "run_mlc.py"),
}


def check_flags(args: SealTrainingArguments, argv: Sequence[str] | None, output: str) -> None:
    """Raises ValueError for a flag that nothing reads.

    Args:
        argv: the command line without the program's name; default `sys.argv[1:]`.
        output: the kind of output that the program is for, a key of `SPACES`.
    """
    words = sys.argv[1:] if argv is None else argv
    given = {word[2:].split("=")[0].replace("-", "_") for word in words if word.startswith("--")}
    given -= {field.name for field in fields(args) if getattr(args, field.name) == field.default}  # as not given
    for names, (kind, program) in OUTPUTS.items():
        for name in given.intersection(names.split()) if output != kind else ():
            raise ValueError(f"`{name}` is of another kind of output, {kind} ({program}). Leave it out.")
    for names, (switch, values) in READERS.items():
        found = getattr(args, switch)
        if found in values or (switch == "energy_loss" and _takes(found, values)):
            continue
        for name in given.intersection(names.split()):
            raise ValueError(
                f"`{name}` is read with {switch} {' or '.join(values)}, but {switch} is {found!r}. Leave it out, or "
                f"give --{switch}."
            )


def _takes(energy_loss: str, readers: Sequence[str]) -> bool:
    """Whether it is cross-entropy, or a subclass of one of the readers under a name of its own."""
    kinds = tuple(ENERGY_LOSSES[name] for name in readers)
    return energy_loss == CROSS_ENTROPY or issubclass(ENERGY_LOSSES[energy_loss], kinds)
