"""The section on errors of label sets: the wrong rows of which the net was most confident, with their energies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from markupsafe import Markup, escape
from scipy.special import logit

from ...data.common import PAIR
from ..common import row_origin
from .energies import energies, has_energies
from .page import Number, Section, Table

MOST_ERRORS = 20
TEXT = 300  # characters of a row's text
NAMES = 40  # labels of a set that the page lists
LEAST = 1e-12  # probabilities are cut to [LEAST, 1 - LEAST] before their log-odds
BLOCK = 1 << 21  # entries (row, label) at once, so that temporaries stay small


@dataclass(frozen=True)
class Judged:
    """The rows on which the page judges decisions: those of `test`, or of `eval` if `test` has no labels.

    Attributes:
        split: `test` or `eval`.
        probabilities: (N, L) in [0, 1].
        labels: (N, L), 0 or 1, or -1 or NaN for unknown.
        decided: (N, L) bool.
    """

    split: str
    probabilities: np.ndarray
    labels: np.ndarray
    decided: np.ndarray

    @cached_property
    def wrong(self) -> np.ndarray:
        """The rows with a wrong decision on a known label, ascending."""
        return np.flatnonzero((self.differences(slice(None)) != 0).any(1))

    def differences(self, rows: Any) -> np.ndarray:
        """(n, L) int8: 1 at labels that are decided and not gold, -1 at those that are gold and not decided; 0 if an
        entry is right or unknown."""
        labels = self.labels[rows]
        return np.where(labels >= 0, self.decided[rows].astype(np.int8) - (labels > 0), 0)


def row_facts(data: Any, split: str, rows: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Where each of these rows came from, and its texts, if it has any."""
    dataset, name = (data.test, "test") if split == "test" else (data.validation, "validation")
    texts = {column: dataset[column] for column in PAIR if column in dataset.column_names}
    for row in rows:
        yield {**row_origin(data, name, row), **{column: found[row] for column, found in texts.items()}}


def confidence(judged: Judged, rows: np.ndarray) -> np.ndarray:
    """log P(decided) - log P(gold) of these rows, (n,), by the net's probabilities p of independent labels: the sum of
    ln(p / (1 - p)) over labels that are decided and not gold, less that over labels that are gold and not decided. Each
    p is cut to [1e-12, 1 - 1e-12]. Unknown labels do not count."""
    parts = []
    for part in np.array_split(rows, 1 + len(rows) * judged.labels.shape[1] // BLOCK):
        p = np.asarray(judged.probabilities[part], dtype=np.float64).clip(LEAST, 1 - LEAST)
        parts.append((judged.differences(part) * logit(p)).sum(1))
    return np.concatenate(parts)


def error_facts(trainer: Any, data: Any, judged: Judged) -> dict[str, Any]:
    """The wrong rows of which the net was most confident, as JSON. Called in the main process alone.

    Args:
        trainer: its `eval_dataset` and `test_dataset` are the rows of `data`.
        data: from [`load_multilabel`].
    """
    scores = confidence(judged, judged.wrong)
    places = np.argsort(-scores, kind="stable")[:MOST_ERRORS]
    rows = judged.wrong[places].tolist()
    known = judged.labels[rows] >= 0
    sets = np.stack([judged.labels[rows] > 0, judged.decided[rows] & known], axis=1)  # (n, 2, L)
    found: list[dict[str, Any]] = []
    for score, pair, said in zip(scores[places].tolist(), sets, row_facts(data, judged.split, rows), strict=True):
        texts = {name: _cut(said.pop(name)) for name in PAIR if name in said}
        gold, decided = ([data.label_names[i] for i in np.flatnonzero(one)] for one in pair)
        found.append({"from": said, **texts, "gold": gold, "decided": decided, "confidence": score})
    if rows and has_energies(trainer):
        batch = (trainer.test_dataset if judged.split == "test" else trainer.eval_dataset).batch(rows)
        pairs = energies(trainer, batch, torch.from_numpy(sets).float())
        for error, (of_gold, of_decided) in zip(found, pairs or [], strict=pairs is not None):
            error |= {"energy_gold": of_gold, "energy_decided": of_decided}
    return {"wrong": len(judged.wrong), "rows": found}


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def errors_section(errors: Mapping[str, Any], split: str) -> Section:
    """The section of the page.

    Args:
        errors: from `error_facts`.
        split: its name for readers.
    """
    found = errors["rows"]
    if not found:
        return Section("Errors", [f"No row of {split} has a wrong label."])
    columns = {"confidence": "confidence", "energy_gold": "E(gold)", "energy_decided": "E(decided)"}
    rows = [
        {name: _place(value) for name, value in error["from"].items() if name != "source"}
        | {name: error[name] for name in PAIR if name in error}
        | {name: _names(error, name) for name in ("gold", "decided")}
        | {column: Number(error[name], f"{error[name]:.2f}") for name, column in columns.items() if name in error}
        for error in found
    ]
    sources = " and ".join(dict.fromkeys(str(error["from"]["source"]) for error in found if "source" in error["from"]))
    caption = (
        f"{errors['wrong']:,} rows of {split} have a wrong label. These are the {len(rows)} of which the net was most "
        "confident. Some may be mislabelled. Confidence is log P(decided) - log P(gold), in nats, by the net's "
        "probabilities of independent labels. Labels in red are in one of the two sets only."
    )
    if "energy_gold" in found[0]:
        lower = sum(error["energy_gold"] < error["energy_decided"] for error in found)
        caption += (
            f" A lower energy E is better: of these rows, the energy prefers gold in {lower}, and the decision in "
            f"{len(found) - lower}."
        )
    if sources:
        caption += f" The rows are those of {sources}."
    return Section("Errors", [Table(rows, caption)])


def _place(value: Any) -> Any:
    """The number of a line or row, or an id, as a cell: numbers without a comma."""
    return Number(value, str(value)) if isinstance(value, int) else str(value)


def _names(error: Mapping[str, Any], which: str) -> Markup:
    """The labels of a set, those first that the other set lacks, in red."""
    own, other = error[which], set(error["decided" if which == "gold" else "gold"])
    ordered = sorted(own, key=lambda name: name in other)
    shown = [escape(name) if name in other else Markup('<b class="bad">{}</b>').format(name) for name in ordered]
    more = [f"{len(shown) - NAMES:,} more"] if len(shown) > NAMES else []
    return Markup(", ").join([*shown[:NAMES], *more]) if shown else Markup("<i>none</i>")
