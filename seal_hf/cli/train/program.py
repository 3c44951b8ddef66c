"""What the programs that train do, one after the other, and what each of them says for itself."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from transformers import set_seed

from ..flags import check_flags, given_flags
from ..recipes import packaged_recipe, parse_recipe, recipe_keys
from ..tuning import Space
from ..tuning.tune import Tuning
from .arguments import Arguments


class Prepared(NamedTuple):
    """What is ready to train.

    Attributes:
        trainer: with the rows of training and validation.
        splits: what it is evaluated on when it has trained, by name: `eval`, and `test` and others where there are any,
            each as the program's `close` reads it.
    """

    trainer: Any
    splits: Mapping[str, Any]


@dataclass(frozen=True)
class Program:
    """A program that trains, by the parts in which programs differ. [`Program.main`] runs them.

    Attributes:
        arguments: the dataclasses of its flags: of data, nets, run and training.
        output: its kind of output, a key of `SPACES`.
        metric: the figure on validation by which `--tune` chooses where the run names none.
        recipe: (command line) -> name of the packaged recipe that holds where no other is given; None: none.
        loader: takes the data's arguments and a `seed`, and gives the data.
        ranges: arguments -> what `--tune` searches, λ1 apart.
        make_trainer: (data, arguments) -> what is ready to train.
        close: (what has trained, data, arguments) -> the figures of the run, when all is saved and reported.
        shares: whether λ1 may be a share of the task loss's pull, which takes gold labels of all rows.
        settle: sets arguments that depend on others; raises ValueError for what cannot be.
    """

    arguments: tuple[type, type, type, type]
    output: str
    metric: str
    recipe: Callable[[Namespace], str | None]
    loader: Callable[..., Any]
    ranges: Callable[[Arguments], Space]
    make_trainer: Callable[[Any, Arguments], Prepared]
    close: Callable[[Prepared, Any, Arguments], dict[str, float]]
    shares: bool = True
    settle: Callable[[Arguments], None] = lambda arguments: None

    @cached_property
    def keys(self) -> set[str]:
        """The keys that its recipes may have."""
        return recipe_keys(self.arguments)

    def parse(self, argv: Sequence[str] | None = None, recipe: Mapping[str, Any] | None = None) -> Arguments:
        """The arguments of a run: flags over a recipe, `--recipe FILE`, `recipe` or the packaged one.

        Args:
            argv: the command line without the program's name; default `sys.argv[1:]`.

        Raises:
            FileNotFoundError, ValueError: as of `parse_recipe`; arguments that cannot be.
        """
        words = list(sys.argv[1:] if argv is None else argv)

        def default(given: Namespace) -> Path | Mapping[str, Any] | None:
            name = self.recipe(given) if recipe is None else None
            return recipe if name is None else packaged_recipe(name)

        data, nets, run, training = parse_recipe(self.arguments, words, default_recipe=default)
        arguments = Arguments(data, nets, run, training, given_flags(words))
        self.settle(arguments)
        return arguments

    def load(self, arguments: Arguments) -> Any:
        """The data of a run."""
        return self.loader(**vars(arguments.data), seed=arguments.training.data_seed or 0)

    def main(self, argv: Sequence[str] | None = None) -> dict[str, float]:
        """The run of a command line, from its arguments to its reports; with `--tune`, after a search.

        Returns:
            its figures, `{split}_{figure}`.
        """
        arguments = self.parse(argv)
        check_flags(arguments.training, argv, self.output)
        tuning = None
        if arguments.run.tune:
            tuning = Tuning(partial(self.parse, argv), self.ranges, self.make_trainer, self.metric, self.shares)
        set_seed(arguments.training.seed)
        data = self.load(arguments)
        for note in data.notes:
            arguments.say(f"{data.name}: {note}")
        if tuning is not None:
            arguments = tuning.best(data)
            set_seed(arguments.training.seed)
        prepared = self.make_trainer(data, arguments)
        result = prepared.trainer.train(resume_from_checkpoint=arguments.training.resume_from_checkpoint)
        prepared.trainer.save_metrics("train", result.metrics)
        return self.close(prepared, data, arguments)


def card_facts(data: Any, arguments: Arguments) -> dict[str, Any]:
    """What the model card says of where a task-net is from."""
    return {"dataset": data.name, "finetuned_from": arguments.nets.model_name_or_path}
