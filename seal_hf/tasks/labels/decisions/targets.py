"""The figures of label sets by which a decoder is chosen, and how `--target` names one. Each gives the rows (N,) scores
whose mean is the figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.decisions import ratio_scores
from ....utils.messages import few
from ....utils.options import check_value
from ..metrics import decided_and_gold, example_f1


def _f1(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    return example_f1(decided, np.where(known, gold, -1), empty_score)


def _jaccard(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    either = (decided | gold).sum(1)
    return np.where(either > 0, (decided & gold).sum(1) / np.maximum(either, 1), empty_score)


def _exact_match(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    return (decided == gold).all(1).astype(np.float64)


def _micro_f1(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    return ratio_scores(2.0 * (decided & gold).sum(1), (decided.sum(1) + gold.sum(1)).astype(np.float64))


def _macro_f1(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    labels = zip((decided & gold).T, decided.T, gold.T, strict=True)
    scores = (ratio_scores(2.0 * hits, both * 1.0 + either) for hits, both, either in labels)
    return np.sum(np.fromiter(scores, dtype=(np.float64, len(gold))), axis=0) / gold.shape[1]


def _hamming(decided: np.ndarray, gold: np.ndarray, known: np.ndarray, empty_score: float) -> np.ndarray:
    """Of 1 minus the Hamming loss: the share of right decisions on known labels."""
    right = ((decided == gold) & known).sum(1)
    return ratio_scores(right.astype(np.float64), known.sum(1).astype(np.float64))


F1_EXAMPLE, F1_MICRO, F1_MACRO = "f1_example", "f1_micro", "f1_macro"
JACCARD, EXACT_MATCH, HAMMING = "jaccard", "exact_match", "hamming"
COST = "cost"  # the only target that needs more than its name
# name of a figure -> (decided, gold, known: (N, L) bool, score of an empty set where none is gold) -> (N,)
TARGETS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]] = {
    F1_EXAMPLE: _f1,
    JACCARD: _jaccard,
    EXACT_MATCH: _exact_match,
    F1_MICRO: _micro_f1,
    F1_MACRO: _macro_f1,
    HAMMING: _hamming,
}
NAMES = (*TARGETS, COST)
LOWER_IS_BETTER = {HAMMING: "hamming_loss", COST: "cost"}  # target -> the figure that is reported for it


def reported(target: str, score: float) -> float:
    """The figure that is reported for a mean score: the Hamming loss, or the mean cost of a row, for these targets."""
    return {HAMMING: 1 - score, COST: -score}.get(target, score)


def target_of(args: Any, usual: str = F1_EXAMPLE) -> str:
    """The target of a run's arguments; `usual` if they have none."""
    return _words(getattr(args, "target", usual))[0]


def options_of(target: str | Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
    """The options `target` and `costs` of `LabelDecisions.fit`, from the words of `--target`.

    Raises:
        ValueError: an unknown target; a file of costs that is missing or superfluous, or see [`read_costs`].
    """
    name, *files = _words(target)
    check_value("target", name, NAMES)
    if len(files) != (name == COST):
        expected = "a file of costs after it: --target cost FILE" if name == COST else "nothing after it"
        raise ValueError(f"`target` is {' '.join((name, *files))!r}; expected {expected}.")
    return {"target": name, "costs": read_costs(files[0], labels) if files else None}


def names_in(config: Any) -> list[str]:
    """The names of a task-net's labels."""
    return [config.id2label[i] for i in range(config.num_labels)]


def _words(target: str | Sequence[str]) -> list[str]:
    return target.split(maxsplit=1) if isinstance(target, str) else [*target]


def read_costs(file: str, labels: Sequence[str]) -> list[list[float]]:
    """The costs (2, L) of deciding each label wrongly and of missing it; a line for `*` is that of other labels.

    Raises:
        ValueError: names the file, and the line or the label.
    """
    from ....data.table_sources import open_table

    table, columns = open_table(file), ("label", "false_positive", "false_negative")
    if missing := [column for column in columns if column not in table.columns]:
        raise ValueError(f"{file} has no column {missing[0]!r}; expected {', '.join(columns)}.")
    found: dict[str, list[float]] = {}
    for number, row in table:
        if (label := str(row["label"])) in found:
            raise ValueError(f"{table.place(number)}: a second line of {label!r}. Keep one.")
        try:
            found[label] = [float(row[column]) for column in columns[1:]]
            if not all(0 <= cost < np.inf for cost in found[label]) or not any(found[label]):
                raise ValueError
        except (TypeError, ValueError):
            values = ", ".join(str(row[column]) for column in columns[1:])
            expected = "two numbers that are at least 0, not both 0"
            raise ValueError(f"{table.place(number)}: the costs are {values}; expected {expected}.") from None
    usual = found.pop("*", None)
    if other := [label for label in found if label not in labels]:
        raise ValueError(f"{file} has costs of {few([*map(repr, other)], 5)}, which are no labels here.")
    if usual is None and (left := [label for label in labels if label not in found]):
        raise ValueError(f"{file} has no costs of {few([*map(repr, left)], 5)}. Add them, or a line for the label *.")
    costs = [found.get(label, usual) for label in labels]
    return [[cost[i] for cost in costs if cost is not None] for i in range(2)]


def target_scores(
    target: str, decided: np.ndarray, labels: np.ndarray, empty_score: float, costs: np.ndarray | None = None
) -> np.ndarray:
    """(N,) the score of each row by one of `TARGETS`, or by `COST`; higher is better. Those of F1 over all rows, or by
    label, are linear in the row: their mean is the figure, their deviation its own to first order.

    Args:
        decided, labels: (N, L), 0 or 1; labels -1 or NaN are unknown.
        costs: (2, L) for `COST`, of deciding each label where it is not gold, and of missing it where it is. A row's
            score is minus the sum of its costs.
    """
    if target == F1_EXAMPLE:  # without a copy of the labels
        return example_f1(decided, labels, empty_score)
    sets, gold, known = decided_and_gold(decided, labels)
    if target == COST:
        assert costs is not None, "`fit` asks for them"
        return -((sets & ~gold & known) @ costs[0] + (gold & ~sets) @ costs[1])
    return TARGETS[target](sets, gold, known, empty_score)
