"""The arguments of a program that trains, as it is told them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from transformers import TrainerCallback

from ..programs import early_stopping


@dataclass
class RunArguments:
    """When a run stops, and how its settings are found."""

    patience: int = field(default=0, metadata={"help": "Stop after so many evaluations without gain; 0: never."})
    tune: int = field(
        default=0,
        metadata={"help": "Search rates, dropout and λ1 by so many trials first, and train the best; 0: no search."},
    )


class Arguments(NamedTuple):
    """What a run is told, by its flags over its recipe.

    Attributes:
        data: of the loader.
        nets: of the nets, and of what they read.
        run: when it stops, and how its settings are found.
        training: of the trainer.
        given: the names of the flags on the command line.
    """

    data: Any
    nets: Any
    run: RunArguments
    training: Any
    given: frozenset[str]

    @property
    def callbacks(self) -> list[TrainerCallback]:
        """Those that `--patience` asks for. A recipe's patience does not count in a run without evaluations."""
        waits = "patience" in self.given or self.training.eval_strategy != "no"
        return early_stopping(self.training, self.run.patience if waits else 0)

    def value(self, name: str) -> Any:
        """The value of the argument of that name."""
        return getattr(self._owner(name), name)

    def changed(self, settings: Mapping[str, Any]) -> Arguments:
        """These arguments themselves, with other values of some."""
        for name, value in settings.items():
            setattr(self._owner(name), name, value)
        return self

    def say(self, text: str) -> None:
        """Print a line, by one process of a run."""
        if self.training.process_index == 0:
            print(text)

    def _owner(self, name: str) -> Any:
        return next(part for part in (self.data, self.nets, self.run, self.training) if hasattr(part, name))
