"""The steps that all programs that train share, and the parts in which they differ."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from datasets import disable_progress_bars
from transformers import set_seed
from transformers.utils.logging import disable_progress_bar

from ...reports.common import Ending
from ...reports.page import SHOWN
from ...saving.checkpoints import check_output_dir, remove_checkpoints
from ...training.base import StructuredTrainer
from ...utils.faults import RESUMED, writing
from ...utils.files import locked
from ...utils.messages import printable
from ...utils.options import default_of
from ..programs import given_flags, help_asked_for, is_first_process, program_name, without_help
from ..recipes import (
    command_line_alone,
    packaged_recipe,
    parse_recipe,
    read_recipe,
    recipe_keys,
    recipe_named,
    recipe_parser,
    saving_as_evaluated,
    values_under,
)
from ..search import Space
from ..tune import Tuning
from .closing import close_run, command_of, log_in_lines, reported, what_begins_anew, without_reports
from .flags import GROUPS, Arguments, Help, check_flags, of_other_tasks, recipes_that_hold

NO_SETTINGS = (
    "dataset",
    "data_dir",
    "trust_remote_code",
)  # arguments of data and nets that do not change what a run learns


@dataclass
class Prepared:
    """A trainer that is ready to train.

    Attributes:
        trainer: with the rows of training and validation.
        splits: name -> the rows that are evaluated after training: `eval`, and `test` and others, if any.
        baseline: a net that was fitted beside the trainer's, for comparison.
    """

    trainer: StructuredTrainer
    splits: Mapping[str, Any]
    baseline: Any = None


@dataclass(frozen=True)
class Program:
    """A program that trains, given by the parts in which programs differ. [`Program.main`] runs them.

    Attributes:
        arguments: the dataclasses of its flags: data, nets, run and training.
        task: a key of `TASKS`.
        metric: the validation figure by which `--tune` chooses, unless the run names another.
        recipes: kind of data or net, by its name in `--help` -> names of its default packaged recipes, the values of a
            later one over those of an earlier one; or None.
        from_scratch: kind of data or net -> argument of the nets -> its value in a net from scratch, if nothing else is
            given; a pretrained or saved net has its own.
        loader: (the data's arguments, `seed`) -> the data.
        ranges: arguments -> what `--tune` searches beside λ1.
        make_trainer: (data, arguments) -> what is ready to train.
        evaluate: (what has trained, data, arguments) -> the figures of the run, and how they are reported. It fits the
            decisions and stores them in the task-net; nothing is saved yet.
        kind: (command line) -> the kind, a key of `recipes`; default: the only one.
        shares: True if λ1 may be a share of the task loss's pull, which needs gold labels for all rows.
        settle: sets arguments that follow from others; ValueError for impossible ones.
        before: what is done with what is ready to train, before the training; True if nothing is left to train.
    """

    arguments: tuple[type, type, type, type]
    task: str
    metric: str
    recipes: Mapping[str, str | None]
    loader: Callable[..., Any]
    ranges: Callable[[Arguments], Space]
    make_trainer: Callable[[Any, Arguments], Prepared]
    evaluate: Callable[[Prepared, Any, Arguments], Ending]
    kind: Callable[[Namespace], str] | None = None
    shares: bool = True
    settle: Callable[[Arguments], None] = lambda arguments: None
    before: Callable[[Prepared, Any, Arguments], bool] = lambda prepared, data, arguments: False
    from_scratch: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def keys(self) -> set[str]:
        """The keys that its recipes may contain."""
        return recipe_keys(self.arguments)

    def parse(self, argv: Sequence[str] | None = None, recipe: Mapping[str, Any] | None = None) -> Arguments:
        """The arguments of a run: flags over a recipe, `--recipe FILE`, `recipe` or the packaged one.

        Args:
            argv: the command line without the program's name; default `sys.argv[1:]`.

        Raises:
            FileNotFoundError, ValueError: `parse_recipe` raises it.
            ValueError: the arguments are impossible.
        """
        words = list(sys.argv[1:] if argv is None else argv)
        flags = given_flags(words)

        def default(given: Namespace) -> Path | Mapping[str, Any] | None:
            name = self.recipes[self.kind_of(given)] if recipe is None else None
            return recipe if name is None else saving_as_evaluated(self._default_recipe(name), flags, given)

        data, nets, run, training = parse_recipe(self.arguments, words, default_recipe=default)
        arguments = Arguments(data, nets, run, training, flags)
        for name, value in self._own_sizes(arguments).items():
            if getattr(nets, name, value) is None:
                setattr(nets, name, value)
        if "num_train_epochs" in flags and "min_steps" not in flags:
            training.min_steps = 0  # a recipe's, which the flag overrides
        self.settle(arguments)
        return arguments

    def _default_recipe(self, names: str) -> Mapping[str, Any]:
        """Packaged recipes, each over those before."""
        recipes = [read_recipe(packaged_recipe(name)) for name in names.split()]
        return {key: value for recipe in recipes for key, value in recipe.items()}

    def _own_sizes(self, arguments: Arguments) -> Mapping[str, Any]:
        """The entry of `from_scratch` for a run's kind; empty if it names a pretrained or saved net."""
        named = [getattr(arguments.nets, name, None) for name in ("model_name_or_path", "task_net_path")]
        if not self.from_scratch or any(name is not None for name in named):
            return {}
        parts = (arguments.data, arguments.nets, arguments.training)
        given = Namespace(**{name: value for part in parts for name, value in vars(part).items()})
        return self.from_scratch.get(self.kind_of(given), {})

    def defaults(self, arguments: Arguments) -> dict[str, Any]:
        """The defaults of a run's arguments of data and nets."""
        found = [each for part in (arguments.data, arguments.nets) for each in fields(part)]
        return {each.name: default_of(each) for each in found} | dict(self._own_sizes(arguments))

    def kind_of(self, given: Namespace) -> str:
        """The kind of data or net of a command line, a key of `recipes`."""
        return next(iter(self.recipes)) if self.kind is None else self.kind(given)

    def help(self, words: Sequence[str]) -> Help:
        """The help, for the data or net that a command line already names."""
        named = recipe_named(words)
        if named is not None:
            values, note = {named: values_under(self.arguments, named)}, f" Defaults are those of {named}."
        else:
            rest = without_help(words)
            parser = recipe_parser(self.arguments)
            held = recipes_that_hold(rest, self.recipes, lambda: self.kind_of(command_line_alone(parser, rest)))
            files = {kind: None if name is None else self._default_recipe(name) for kind, name in held.items()}
            values = {kind: values_under(self.arguments, file) for kind, file in files.items()}
            for kind, found in values.items():
                own = self.from_scratch.get(kind, {})
                found.update({name: value for name, value in own.items() if found.get(name, value) is None})
            note = f" Defaults are those for {', '.join(values)}." if len(values) < len(self.recipes) else ""
        unread = of_other_tasks(self.arguments[-1], self.task)
        return Help(program_name(), self.arguments, values, values_under(self.arguments, None), unread, note)

    def load(self, arguments: Arguments) -> Any:
        """Load the data of a run."""
        return self.loader(**vars(arguments.data), seed=arguments.training.data_seed or 0)

    def main(self, argv: Sequence[str] | None = None) -> dict[str, float]:
        """Run a command line, from its arguments to its reports; with `--tune`, after a search.

        Returns:
            the figures, `{split}_{figure}`.
        """
        words = list(sys.argv[1:] if argv is None else argv)
        if (asked := help_asked_for(words, GROUPS)) is not None:
            print(printable(self.help(words).text(asked)))
            sys.exit(0)
        arguments = self.parse(argv)
        check_flags(arguments.training, argv, self.task, arguments.data, arguments.nets, arguments.run)
        with locked(arguments.training.output_dir) if is_first_process() else nullcontext():
            return self._run(argv, arguments, words)

    def _run(self, argv: Sequence[str] | None, arguments: Arguments, words: Sequence[str]) -> dict[str, float]:
        check_output_dir(arguments.training)
        tuning = None
        if arguments.run.tune:
            tuning = Tuning(partial(self.parse, argv), self.ranges, self.make_trainer, self.metric, self.shares)
        disable_progress_bar()  # of the few files of each checkpoint: it breaks that of the training
        if arguments.training.disable_tqdm:
            disable_progress_bars()  # of `datasets`
        set_seed(arguments.training.seed)
        data = self.load(arguments)
        for note in data.notes:
            arguments.say(f"{data.name}: {note}")
        if tuning is not None:
            arguments = tuning.best(data)
        set_seed(arguments.training.seed)
        with without_reports():
            prepared = self.make_trainer(data, arguments)
        name = getattr(arguments.nets, "model_name_or_path", None)
        if (said := what_begins_anew(prepared.trainer, name)) is not None:
            arguments.say(said)
        facts = run_facts(prepared, data, arguments, words)
        with (
            writing(arguments.training.output_dir, RESUMED),
            reported(prepared.trainer, facts, arguments.run.report) as shown,
        ):
            self._train(prepared, data, arguments)
            return close_run(prepared.trainer, self.evaluate(prepared, data, arguments), shown)

    def _train(self, prepared: Prepared, data: Any, arguments: Arguments) -> None:
        """Train, and write the figures of the training. If the arguments ask for it, replace an earlier run in the
        output folder."""
        trainer, training = prepared.trainer, arguments.training
        log_in_lines(trainer, arguments.run.log_dicts)
        trainer.record_settings(run_settings(data, arguments), self.defaults(arguments))
        if training.overwrite_output_dir and training.should_save and (removed := remove_checkpoints(training)):
            arguments.say(f"{training.output_dir}: replaced an earlier run. Removed: {', '.join(removed)}.")
        if self.before(prepared, data, arguments):
            return
        result = trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)
        if result.global_step > trainer.resumed_step or trainer.carried.earlier is not None:
            trainer.save_metrics("train", result.metrics)


def labelled_rows(data: Any, arguments: Arguments, model: Any, encode: Callable[[Any], Any]) -> tuple[Any, dict]:
    """The training rows of a program that needs gold labels, and an empty dict of options for the trainer.

    Args:
        encode: split -> rows.
    """
    if data.unlabelled is not None:
        arguments.say(
            f"{data.name}: {len(data.unlabelled)} rows without labels are left out; seal-hf train rewards uses them."
        )
    return encode(data.train), {}


def run_facts(prepared: Prepared, data: Any, arguments: Arguments, words: Sequence[str]) -> dict[str, Any]:
    """Facts for the page of a run that its trainer does not know."""
    rows = {"train": prepared.trainer.train_dataset, **prepared.splits}
    return {
        "command": command_of(words, arguments.training.world_size),
        "dataset": data.name,
        "tuned": arguments.run.tune > 0,
        "rows": {SHOWN.get(split, split): len(found) for split, found in rows.items()},
    }


def run_settings(data: Any, arguments: Arguments) -> dict[str, Any]:
    """A program's settings that change what a run learns, beside its trainer's arguments."""
    own = {**vars(arguments.data), **vars(arguments.nets)}
    settings = {name: value for name, value in own.items() if name not in NO_SETTINGS}
    return {"dataset": data.name, **settings, "patience": arguments.run.patience}


def card_facts(data: Any, arguments: Arguments) -> dict[str, Any]:
    """Facts for the model card on the origin of a task-net."""
    return {"dataset": data.name, "finetuned_from": arguments.nets.model_name_or_path}
