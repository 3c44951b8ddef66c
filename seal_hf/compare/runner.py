"""The comparison itself: for every method a search, then a run per seed; what is finished is never done again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from transformers import set_seed
from transformers.trainer_callback import PrinterCallback

from ..decoding import constant_probabilities
from ..meters import EpochClock
from ..report import predict_multilabel, score_decoders
from .methods import CONSTANT, METHODS, Method, space_of, with_requirements
from .runs import COMPARED, METRIC, Runs, thousandths
from .search import search

EVERY_RUN = {  # the epoch is chosen on validation by the one metric; nothing else is written
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 1,
    "save_only_model": True,
    "load_best_model_at_end": True,
    "metric_for_best_model": METRIC,
    "report_to": "none",
    "disable_tqdm": True,
}


METHOD = "method"  # key of a run's file: its method's settings


class Program(NamedTuple):
    """What trains a method: two functions of an example program, and what it knows.

    Attributes:
        parse: (command line, recipe) -> data, model and training arguments.
        make_trainer: (data, model arguments, training arguments, search) -> a trainer with a `test_dataset`; for a
            search, with a `model_init`.
        keys: the recipe keys it knows; a comparison's `base` is cut to them.
    """

    parse: Callable
    make_trainer: Callable
    keys: set[str]


class Comparison:
    """Methods on one data set, with equal trials, seeds and decoders.

    Args:
        runs: where the results are.
        data: of `load_multilabel`, with a test split that has labels.
        base: recipe keys of the data set: sizes, batch, epochs, patience.
        programs: by name, see [`Program`].
        methods: name -> method; default: all of ours.
        budget: trials of each method's search, >= 0; 0: none, its first values.
        say: takes a line of progress.

    Raises:
        ValueError: no test split with labels.
    """

    def __init__(
        self,
        runs: Runs,
        data,
        base: Mapping[str, Any],
        programs: Mapping[str, Program],
        methods: Mapping[str, Method] = METHODS,
        budget: int = 0,
        say: Callable[[str], None] = print,
    ):
        if data.test is None or "labels" not in data.test.column_names:
            raise ValueError(f"{data.name} has no test split with labels, by which methods could be compared.")
        if budget < 0:
            raise ValueError(f"`budget` is {budget}; it is a number of trials, at least 0.")
        self.runs, self.data, self.base, self.programs = runs, data, base, programs
        self.methods, self.budget, self.say = methods, budget, say

    def run(self, names: Iterable[str], seeds: Iterable[int]) -> None:
        """Everything that is not there yet, seed by seed, so that a table of few seeds comes early.

        Raises:
            ValueError: an unknown method, or results of other settings in the folder.
        """
        self._check_identity()
        names, seeds = with_requirements(list(names), self.methods), list(seeds)
        self._check_methods(names)
        start, left = time.monotonic(), [(s, n) for s in seeds for n in names if self.runs.load(n, s) is None]
        for done, (seed, name) in enumerate(left, 1):
            figures = self._one(name, seed, seeds[0])
            self.runs.save(name, seed, figures)
            minutes = (time.monotonic() - start) / done * (len(left) - done) / 60
            f1 = f"{name}, seed {seed}: test F1 {100 * figures[f'test_{METRIC}']:.2f} tuned"
            self.say(f"{f1}  (run {done} of {len(left)}, about {minutes:.0f} min left)")

    def settings(self, name: str, seed: int, searched: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The recipe keys of a run: the method's first values, the data set's over them, then the method's own, those
        of the search, and the nets that it takes from other methods."""
        method = self.methods[name]
        nets = {key: str(self._trained_net(other, seed)) for key, other in method.takes.items()}
        base = {key: value for key, value in self.base.items() if key in self.programs[method.program].keys}
        return {**method.first, **base, **EVERY_RUN, **method.settings, **(searched or {}), **nets, "seed": seed}

    def _one(self, name: str, seed: int, first_seed: int) -> dict[str, Any]:
        """The figures of one run."""
        return self._train(name, seed, first_seed) | {METHOD: self._own(name)}

    def _own(self, name: str) -> dict[str, str]:
        """The settings that make a method what it is: without a search, where it begins too."""
        method = self.methods[name]
        return {key: str(value) for key, value in {**({} if self.budget else method.first), **method.settings}.items()}

    def _train(self, name: str, seed: int, first_seed: int) -> dict[str, Any]:
        method = self.methods[name]
        if method.program == CONSTANT:
            return self._figures(seed, {}, *self._constant())
        found = self._search(name, first_seed)
        settings = self.settings(name, seed, found)
        folder = self._net(name, seed)
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was cut off
        trainer, clock = self._trainer(name, settings, str(folder)), EpochClock()
        trainer.add_callback(clock)
        trainer.train()
        predicted = predict_multilabel(trainer, trainer.eval_dataset, trainer.test_dataset)
        for checkpoint in folder.glob("checkpoint-*"):
            shutil.rmtree(checkpoint)
        if any(name in other.takes.values() for other in self.methods.values()):
            trainer.save_model()
        epochs = {"epochs": trainer.state.epoch, **clock.metrics}
        return self._figures(seed, found, predicted["eval"], predicted["test"]) | epochs

    def _search(self, name: str, seed: int) -> dict[str, Any]:
        """The best settings of a method; found once, on the first seed."""
        space, found = space_of(self.methods[name], self.data.kind), self.runs.settings(name)
        if self.budget and space and found is None:
            settings, folder = self.settings(name, seed), self.runs.work("search")
            program = self.programs[self.methods[name].program]
            _, model_args, args = program.parse([], {**settings, "output_dir": str(folder)})
            make_trainer = partial(self._trainer, name, settings, search=True)
            found = search(make_trainer, space, vars(model_args) | vars(args), name, self.budget, folder, self.say)
            self.runs.save_settings(name, found | {"seed": seed})
        return found["settings"] if found else {}

    def _trainer(self, name: str, settings: Mapping[str, Any], folder: str, search: bool = False):
        program = self.programs[self.methods[name].program]
        _, model_args, args = program.parse([], {**settings, "output_dir": folder})
        set_seed(args.seed)
        trainer = program.make_trainer(self.data, model_args, args, search)
        trainer.remove_callback(PrinterCallback)  # a line per run is enough
        return trainer

    def _net(self, name: str, seed: int) -> Path:
        return self.runs.work(name, f"seed{seed}")

    def _trained_net(self, name: str, seed: int) -> Path:
        """The folder of a net that another method takes; trained anew where `work/` was deleted."""
        folder = self._net(name, seed)
        if not (folder / "model.safetensors").is_file():
            self._one(name, seed, seed)
        return folder

    def _check_identity(self) -> None:
        """Results of one folder are of one data set, its settings, and one budget."""
        sizes = {split: len(getattr(self.data, split)) for split in ("train", "validation", "test")}
        base = {key: str(value) for key, value in self.base.items() if key not in ("output_dir", "data_dir", "dataset")}
        ours = {"data": self.data.name, "labels": len(self.data.label_names), **sizes, "budget": self.budget, **base}
        theirs = self.runs.identity()
        if theirs is None:
            self.runs.save_identity(ours)
            return
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                raise ValueError(
                    f"{self.runs.folder} holds results with {key} = {theirs.get(key)!r}, not {ours.get(key)!r}: they "
                    "do not belong in one table. Choose another --output_dir, or the same settings."
                )

    def _check_methods(self, names: Iterable[str]) -> None:
        """The runs of one method have one setting: a recipe may have been edited since."""
        finished = self.runs.all()
        for name in names:
            ours = self._own(name)
            for run in finished.get(name, ()):
                theirs = run.get(METHOD, ours)
                for key in sorted(ours.keys() | theirs.keys()):
                    if ours.get(key) != theirs.get(key):
                        raise ValueError(
                            f"{self.runs.folder / name} holds a run (seed {run['seed']}) with {key} = "
                            f"{theirs.get(key)!r}, not {ours.get(key)!r}: the two are not one method. Delete that "
                            "folder, choose another --output_dir, or give the method another name."
                        )

    def _constant(self):
        for rows in (self.data.validation, self.data.test):
            labels = rows.with_format("numpy")["labels"][:]
            yield constant_probabilities(self.data.label_rates, len(labels)), labels

    @staticmethod
    def _figures(seed: int, searched: Mapping[str, Any], validation, test) -> dict[str, Any]:
        metrics, rows = score_decoders(*validation, *test)
        rows = {key: thousandths(rows[key]) for key in COMPARED}
        return {"seed": seed, "searched": dict(searched), **metrics, "test_rows": rows}
