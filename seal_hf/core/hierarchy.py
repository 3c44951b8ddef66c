"""A hierarchy of labels: a forest, or a directed acyclic graph in which a label may have several parents.

A label set is closed if it holds all ancestors of each of its labels.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

CONFIG_KEY = "label_hierarchy"  # in a task-net's config: L lists of ids


@dataclass(frozen=True)
class Hierarchy:
    """The parents of each of L labels.

    Attributes:
        parents: L tuples of ids, counted from 0; a root has an empty tuple.

    Raises:
        ValueError: an id is outside 0 .. L - 1, or there is a cycle; the message gives its path.
    """

    parents: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for label, above in enumerate(self.parents):
            if wrong := [parent for parent in above if not 0 <= parent < len(self.parents)]:
                raise ValueError(
                    f"label {label} of the hierarchy has parent {wrong[0]}, expected 0 to {len(self.parents) - 1}"
                )
        if cycle := find_cycle(dict(enumerate(self.parents))):
            raise ValueError(f"the hierarchy of labels has a cycle: {' -> '.join(map(str, cycle))}")

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[int, int]], num_labels: int) -> Hierarchy:
        """The hierarchy with these (child, parent) pairs of ids. A pair may occur more than once."""
        parents: list[dict[int, None]] = [{} for _ in range(num_labels)]
        for child, parent in pairs:
            parents[child][int(parent)] = None
        return cls(tuple(map(tuple, parents)))

    @cached_property
    def order(self) -> np.ndarray:
        """The ids (L,), parents before their children."""
        children: list[list[int]] = [[] for _ in self.parents]
        for label, above in enumerate(self.parents):
            for parent in above:
                children[parent].append(label)
        missing = [len(above) for above in self.parents]
        ready, found = [label for label, above in enumerate(self.parents) if not above][::-1], []
        while ready:
            found.append(label := ready.pop())
            for child in reversed(children[label]):
                missing[child] -= 1
                if not missing[child]:
                    ready.append(child)
        return np.array(found, dtype=np.int64)

    @property
    def root(self) -> int | None:
        """The label that is an ancestor of all others; None if no label is, or if there is only one label."""
        roots = [label for label, above in enumerate(self.parents) if not above]
        return roots[0] if len(roots) == 1 < len(self.parents) else None

    def raised(self, values: np.ndarray) -> np.ndarray:
        """Give each label the highest value of itself and its descendants: (N, L) -> (N, L). For label sets this is
        their closure."""
        columns = np.array(np.asarray(values).T, order="C")
        for label in self.order[::-1]:
            for parent in self.parents[label]:
                np.maximum(columns[parent], columns[label], out=columns[parent])
        return np.ascontiguousarray(columns.T)

    def closed(self, labels: np.ndarray, derived: Sequence[int] = ()) -> np.ndarray:
        """Add all ancestors to label sets (N, L): a label with a present descendant becomes 1. All others stay as they
        are, also -1 for unknown. But labels in `derived`, about which the data say nothing, become -1 where a
        descendant is unknown and none is present."""
        found = np.where(self.raised(labels > 0), labels.dtype.type(1), labels)
        if len(derived):
            unknown = self.raised(labels < 0)[:, derived] & (found[:, derived] <= 0)
            found[:, derived] = np.where(unknown, -1, found[:, derived])
        return found

    def reordered(self, places: Sequence[int]) -> Hierarchy:
        """The same hierarchy of the labels in another order: first the one that stood at `places[0]`, ..."""
        now = {place: i for i, place in enumerate(places)}
        return Hierarchy(tuple(tuple(now[parent] for parent in self.parents[place]) for place in places))

    def as_json(self) -> list[list[int]]:
        """The parents of each label, for a config."""
        return [list(above) for above in self.parents]

    @classmethod
    def of_saved(cls, saved: Any) -> Hierarchy:
        """The hierarchy that `as_json` gave.

        Raises:
            ValueError: `saved` is not a list of lists of ids, or not a hierarchy.
        """
        if not isinstance(saved, list) or not all(_is_ids(above) for above in saved):
            raise ValueError(
                f"`config.{CONFIG_KEY}` is {reprlib.repr(saved)}; expected a list of the parents' ids for each label, "
                "such as [[], [0], [0]]."
            )
        try:
            return cls(tuple(map(tuple, saved)))
        except ValueError as error:
            raise ValueError(f"`config.{CONFIG_KEY}`: {error}.") from error


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value)


def find_cycle(parents: Mapping[Any, Sequence[Any]]) -> list[Any]:
    """A path from a label over its parents back to itself, such as `[a, b, a]`; empty if there is no cycle.

    Args:
        parents: label -> its parents.
    """
    try:
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        return error.args[1][::-1]  # there each label is a parent of the next one
    return []


def hierarchy_of(config: Any) -> Hierarchy | None:
    """The hierarchy in `config.label_hierarchy` of a task-net; None if the config lacks one.

    Raises:
        ValueError: it is not a hierarchy, or has another number of labels than the task-net.
    """
    saved = getattr(config, CONFIG_KEY, None)
    if saved is None:
        return None
    hierarchy, names = Hierarchy.of_saved(saved), getattr(config, "id2label", None)
    if names and len(names) != len(hierarchy.parents):
        raise ValueError(
            f"`config.{CONFIG_KEY}` has {len(hierarchy.parents)} labels, but the task-net has {len(names)}. Remove "
            "it, or use the hierarchy of these labels."
        )
    return hierarchy


def store_hierarchy(config: Any, hierarchy: Hierarchy | None) -> None:
    """Write the hierarchy into a task-net's config. None removes an earlier one, which may be for other labels."""
    vars(config).pop(CONFIG_KEY, None)
    if hierarchy is not None:
        setattr(config, CONFIG_KEY, hierarchy.as_json())
