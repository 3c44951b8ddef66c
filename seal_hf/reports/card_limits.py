"""A card's section on the limits of a task-net, from facts of its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..utils.messages import few
from .card_kinds import CardKind

SHOWN_LABELS = 10  # the most that a sentence names


def limits_section(
    kind: CardKind,
    decisions: Mapping[str, Any],
    *,
    chosen: bool,
    dataset: str | None,
    rows: Mapping[str, int],
    inputs: Mapping[str, Any],
    unseen_labels: Sequence[str],
    missed_labels: Sequence[str],
    num_labels: int,
    best_epoch: bool,
    with_loss_net: bool,
    crf: bool,
) -> str:
    """A list of facts, or "" without any. Arguments as for `model_card`, names escaped."""
    lines = []
    if "train" in rows:
        source = "" if dataset is None else f" of {dataset}"
        lines.append(f"It was trained on {rows['train']:,} rows{source}. Its quality on other data was not measured.")
    if inputs.get("max_length"):
        lines.append(f"Training cut each {kind.unit} at {inputs['max_length']} tokens.")
    if unseen_labels:
        shown = few(unseen_labels, SHOWN_LABELS)
        lines.append(f"Labels without a training row: {len(unseen_labels)} of {num_labels} ({shown}).")
    if missed_labels:
        shown = few(missed_labels, SHOWN_LABELS)
        lines.append(f"Labels with an F1 of 0: {len(missed_labels)} of {num_labels} ({shown}).")
    if tuned := [*["decisions"] * _are_tuned(kind, decisions, chosen), *["epoch"] * best_epoch]:
        verb = "depends" if tuned == ["epoch"] else "depend"
        lines.append(f"The {' and the '.join(tuned)} {verb} on the validation rows: their figures are optimistic.")
    if kind.is_ours:
        lines.append("The architecture is one of `seal_hf`. `transformers` alone cannot load it.")
    elif crf:
        lines.append("Only `seal_hf` decodes by the CRF. A plain pipeline ignores it.")
    elif decisions and decisions["decoder"] not in kind.plain:
        lines.append(f"The decoder `{decisions['decoder']}` needs `seal_hf`.")
    if with_loss_net:
        lines.append("The loss-net is not part of this repository. Prediction does not need it.")
    return "\n".join(["", "## Limits", "", *(f"- {line}" for line in lines), ""]) if lines else ""


def _are_tuned(kind: CardKind, decisions: Mapping[str, Any], chosen: bool) -> bool:
    """True if validation rows chose the decoder or its numbers."""
    return bool(decisions) and (chosen or kind.has_numbers(decisions.get("folded") or decisions["decoder"]))
