"""A card's section on decisions: how the stored decoder decides, and code that applies it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

from ..core.decisions import FIXED, THRESHOLD
from ..tasks.labels.decisions.label_decisions import (
    CALIBRATED_CLOSED,
    CALIBRATED_JACCARD,
    CLOSED,
    NEVER_EMPTY,
    SEEN,
    SEEN_F1,
)
from ..tasks.labels.decisions.targets import JACCARD
from ..tasks.masks.decisions import ClassMaskDecisions, MaskDecisions
from ..tasks.tags.decisions import CONSTRAINED, CONSTRAINED_VITERBI, INDEPENDENT, UNIQUE_ROLES, VITERBI, TagDecisions
from .card_kinds import CardKind
from .common import predict_command

BEST_SET = "It decides the label set with the highest expected example F1"
BEST_CLOSED_SET = f"{BEST_SET} among the sets that contain all ancestors of their labels"
DECIDES = {
    "thresholds": "Each label has its own threshold, see the table of labels.",
    "expected_f1": f"{BEST_SET}.",
    CLOSED: f"{BEST_CLOSED_SET}.",
    INDEPENDENT: "Each word gets its own likeliest tag.",
    CONSTRAINED: "A sentence gets its likeliest sequence of tags within the tags' scheme.",
    VITERBI: "A sentence gets the CRF's best sequence of tags.",
    CONSTRAINED_VITERBI: "A sentence gets the CRF's best sequence of tags within the tags' scheme.",
    UNIQUE_ROLES: "A predicate gets the best sequence of tags within the tags' scheme that repeats no core role.",
}
WITH_ANCESTORS = "If that gives no label, it decides the likeliest one and its ancestors."
NEVER = {
    "thresholds": "If that gives no label, it decides the one nearest to its threshold.",
    CLOSED: WITH_ANCESTORS,
    CALIBRATED_CLOSED: WITH_ANCESTORS,
    "": "If that gives no label, it decides the likeliest one.",
}
OF_TRAINING = "The label sets of the training rows count by their frequency. It decides the"
CALIBRATED = {
    "calibrated_f1": BEST_SET,
    CALIBRATED_JACCARD: BEST_SET.replace("example F1", "Jaccard index"),
    CALIBRATED_CLOSED: BEST_CLOSED_SET,
    SEEN: f"{OF_TRAINING} most probable set",
    SEEN_F1: f"{OF_TRAINING} set with the highest expected {{of}}",
}
CROSS_FITTED = """\
Five-fold cross-fitting on the validation rows chose it: numbers fitted on the other folds decided each fold. Only a
decoder that is clearly better there replaces the usual one."""
REFITTED = "Its numbers were then fitted on all validation rows."
CHOSEN = "It was chosen on the validation rows. Only a decoder that is clearly better there replaces the usual one."
A_TEXT = {name: '"a text to label"' for name in ("piped", "given")} | {"tokenized": '["a text to label"]'}
A_PAIR = {
    "piped": '{"text": "a text", "text_pair": "the other one"}',
    "given": '("a text", "the other one")',
    "tokenized": '["a text"], ["the other one"]',
}
FOLDED = """\
The classifier's bias holds the decision `{}`, fitted on the validation rows. Any pipeline that cuts at 0.5 therefore
decides as validation chose. This shifts the scores: they are not the trained probabilities."""


def decisions_section(
    kind: CardKind, decisions: Mapping[str, Any], figures: Mapping[str, float], *, chosen: bool = True
) -> str:
    """The section on how the stored decoder decides.

    Args:
        decisions: as `config.decisions`.
        figures: `{split}_{figure}`.
        chosen: True if validation chose the decoder, False if the user did.

    Raises:
        ValueError: the decisions lack the decoder's numbers.
    """
    stored = kind.decisions.of_saved(decisions)
    name = stored.named()
    if _is_folded(decisions):
        lines = [FOLDED.format(stored.folded), _figure(kind, stored.folded, figures)]
    else:
        how = _chosen(kind, name) if chosen else ""
        lines = [f"The stored decoder is `{name}`. {_in_words(kind, name, decisions)}", how]
        lines += [_figure(kind, name, figures), _others(kind, [other for other in stored.names if other != name])]
    return "\n".join(["", "## Decisions", *(f"\n{line}" for line in lines if line), ""])


def usage_section(
    kind: CardKind,
    decisions: Mapping[str, Any],
    *,
    model_name: str,
    base: str | None,
    num_labels: int,
    max_length: int | None,
    columns: Sequence[str] = (),
    pairs: bool = False,
) -> str:
    """Code and a command that apply the stored decoder.

    Args:
        base: the checkpoint that an adapter belongs to.
        max_length: length in tokens at which training cut texts.
        columns: columns that sentences need beside their words.
        pairs: True if a row has two texts.
    """
    decoder = kind.decisions.of_saved(decisions).named()
    snippet = kind.seal if columns else kind.plain.get(decoder, kind.seal)
    name, base = (json.dumps(value, ensure_ascii=False) for value in (model_name, base))
    code = Template(snippet).substitute(
        name=name,
        base=base,
        num_labels=num_labels,
        threshold=number(decisions["threshold"] if decoder == THRESHOLD else 0.5),
        cut=f", truncation=True, max_length={max_length}" if max_length else "",
        columns=_columns(columns),
        **(A_PAIR if pairs else A_TEXT),
    )
    source, target = ("new.srl", kind.files[1]) if "predicate" in columns else kind.files
    command = predict_command(" ".join(model_name.split()), source, target)
    said = f"\n{kind.plainly}\n" if kind.plainly and snippet == kind.seal else ""
    if columns and not kind.is_ours:
        said = f"\nA plain `transformers` pipeline cannot read {_listed([f'`{name}`' for name in columns])}.\n"
    return f"```python\n{code}```\n{said}\nOr, with `seal_hf`, from a shell:\n\n```bash\n{command}\n```\n"


def has_numbers(decoder: str) -> bool:
    """True if a decoder has numbers that were fitted on validation rows."""
    return decoder.removesuffix(NEVER_EMPTY) in (THRESHOLD, "thresholds", *CALIBRATED)


def number(value: float) -> str:
    """The shortest text of a number that keeps its value."""
    short = f"{value:g}"
    return short if math.isclose(float(short), value, rel_tol=1e-9) else repr(float(value))


def _is_folded(decisions: Mapping[str, Any]) -> bool:
    """True if a bias holds the decision; a cut at 0.5 needs no bias."""
    return decisions.get("folded", FIXED) not in ("", FIXED)


def _in_words(kind: CardKind, name: str, decisions: Mapping[str, Any]) -> str:
    """How a decoder decides."""
    plain = name.removesuffix(NEVER_EMPTY)
    if kind.decisions is ClassMaskDecisions:
        said = "A pixel gets its likeliest class."
    elif plain in (FIXED, THRESHOLD):
        tuned = plain == THRESHOLD
        threshold = f"**{number(decisions['threshold'])}**, tuned on validation" if tuned else "0.5"
        begin = "A pixel is foreground" if kind.decisions is MaskDecisions else "A label is decided"
        said = f"{begin} if its probability is at least {threshold}."
    elif plain in CALIBRATED:
        scale, shift = (float(f"{decisions['calibration'][key]:.4g}") for key in ("scale", "shift"))
        formula = f"σ({scale:g} · logit(p) {'-+'[shift >= 0]} {abs(shift):g})"
        of = "Jaccard index" if decisions.get("target") == JACCARD else "example F1"
        said = f"{CALIBRATED[plain].format(of=of)}, on calibrated probabilities: {formula}."
    else:
        said = DECIDES[plain]
    return said if name == plain else f"{said} {NEVER.get(plain, NEVER[''])}"


def _chosen(kind: CardKind, name: str) -> str:
    """How validation chose a decoder."""
    if kind.decisions is TagDecisions:
        return CHOSEN
    return f"{CROSS_FITTED} {REFITTED}" if has_numbers(name) else CROSS_FITTED


def _others(kind: CardKind, names: Sequence[str]) -> str:
    """The other stored decoders."""
    if not names:
        return ""
    file = "config.json" if kind.library_name == "transformers" else "seal_decisions.json"
    takes = f"`--decoder {names[0]}` selects it" if len(names) == 1 else "`--decoder NAME` selects one of them"
    return f"`{file}` also holds {_listed([f'`{name}`' for name in names])}: {takes}."


def _figure(kind: CardKind, decoder: str, figures: Mapping[str, float]) -> str:
    """The figure of the stored decoder on validation and test; empty if it was not measured."""
    for key in kind.decided(decoder):
        values = {"validation": figures.get(f"eval_{key}"), "test": figures.get(f"test_{key}")}
        shown = [f"{value:.4f} on {split}" for split, value in values.items() if value is not None]
        if shown:
            name = kind.figures[key]
            return f"{name[0].upper()}{name[1:]}: {', '.join(shown)}."
    return ""


def _columns(columns: Sequence[str]) -> str:
    """The argument of `predict` for further columns of a sentence."""
    if not columns:
        return ""
    values = {name: "[3]" if name == "predicate" else '[["?"] * len(words)]' for name in columns}
    return ", columns={" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in values.items()) + "}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
