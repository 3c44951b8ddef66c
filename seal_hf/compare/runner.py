"""The comparison itself: for every method a search, then a run per seed; what is finished is never done again."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformers import set_seed
from transformers.trainer_callback import PrinterCallback

from ..meters import EpochClock, NonFiniteLossError
from ..metrics.decoding import constant_probabilities
from ..reports.multilabel import predict_multilabel, score_decoders
from .methods import CONSTANT, METHODS, Method, first_of, space_of, with_requirements
from .runs import LOST, METRIC, METRICS, Runs, thousandths
from .search import search
from .table import tested

EVERY_RUN = {  # the epoch is chosen on validation by one metric; nothing else is written
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 1,
    "save_only_model": True,
    "load_best_model_at_end": True,
    "report_to": "none",
    "disable_tqdm": True,
}


PLACES = ("output_dir", "data_dir", "dataset")  # where things lie is no setting
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
        flags: recipe keys that the user gave: over `base`, and over where a method begins.
        metric: one of `METRICS`: the figure on validation that trials and epochs are chosen by.

    Raises:
        ValueError: no test split with labels; a budget or a metric that cannot be.
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
        flags: Mapping[str, Any] | None = None,
        metric: str = METRIC,
    ):
        if data.test is None or "labels" not in data.test.column_names:
            raise ValueError(
                f"{data.name} has no test split with labels, by which methods could be compared. Add one (a file or "
                "split of that name)."
            )
        if budget < 0:
            raise ValueError(f"`budget` is {budget}; it is a number of trials, at least 0.")
        if metric not in METRICS:
            raise ValueError(f"`metric` is {metric!r}; it must be one of {', '.join(METRICS)}.")
        self.runs, self.data, self.base, self.programs = runs, data, base, programs
        self.methods, self.budget, self.say = methods, budget, say
        self.flags, self.metric = flags or {}, metric

    def run(self, names: Iterable[str], seeds: Iterable[int], after_seed: Callable[[], Any] = lambda: None) -> None:
        """Everything that is not there yet, seed by seed, so that a table of few seeds comes early: by `after_seed`.

        A run whose loss is no longer finite is on file as lost, and what takes its net is left out.

        Raises:
            ValueError: an unknown method, or results of other settings in the folder.
        """
        names, seeds = with_requirements(list(names), self.methods), list(dict.fromkeys(seeds))
        self._check_identity()
        self._check_methods(names)
        progress = self._progress(names, seeds)
        for seed in seeds:
            for name in names:
                if self.runs.load(name, seed) is None:
                    self.say(f"{name}, seed {seed}: {self._attempt(name, seed)}  {progress(name, seed)}")
            after_seed()

    def settings(self, name: str, seed: int, searched: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The recipe keys of a run, each over those before: the data set's, the method's first values, the user's
        flags, the method's own, those of the search, and the nets that it takes from other methods."""
        method = self.methods[name]
        nets = {key: str(self._trained_net(other, seed)) for key, other in method.takes.items()}
        given = {**self.base, **first_of(method, self.data.kind), **self.flags}
        given = {key: value for key, value in given.items() if key in self.programs[method.program].keys}
        fixed = {**EVERY_RUN, "metric_for_best_model": self.metric, **method.settings}
        return {**given, **fixed, **(searched or {}), **nets, "seed": seed}

    def _progress(self, names: list[str], seeds: list[int]) -> Callable[[str, int], str]:
        """(method, seed) that is done -> which run that was, and the time left by the mean of a trial and a run."""
        costs: dict[tuple[str, int], int] = {}
        for name, seed in ((name, seed) for seed in seeds for name in names if self.runs.load(name, seed) is None):
            searched = self.runs.settings(name) is not None or any(name == other for other, _ in costs)
            costs[name, seed] = 1 if searched or not self.methods[name].space else 1 + self.budget
        start, total, done = time.monotonic(), sum(costs.values()), []

        def progress(name: str, seed: int) -> str:
            done.append(costs[name, seed])
            minutes = (time.monotonic() - start) * (total / sum(done) - 1) / 60
            return f"(run {len(done)} of {len(costs)}, about {minutes:.0f} min left)"

        return progress

    def _attempt(self, name: str, seed: int) -> str:
        """One run, on file: its figures, or that it was lost; in words."""
        for other in with_requirements([name], self.methods)[:-1]:
            if LOST in (self.runs.load(other, seed) or {}):
                return f"left out, as {other}, whose net it takes, was lost"
        try:
            figures = self._one(name, seed)
        except NonFiniteLossError as error:
            shutil.rmtree(self._net(name, seed), ignore_errors=True)
            searched = (self.runs.settings(name) or {}).get("settings", {})
            self.runs.save(name, seed, {"seed": seed, LOST: str(error), "searched": searched, METHOD: self._own(name)})
            return f"lost: {error}"
        self.runs.save(name, seed, figures)
        return f"test F1 {100 * figures[f'test_{METRIC}']:.2f} tuned"

    def _one(self, name: str, seed: int) -> dict[str, Any]:
        """The figures of one run."""
        return self._train(name, seed) | {METHOD: self._own(name)}

    def _own(self, name: str) -> dict[str, str]:
        """The settings that make a method what it is: without a search, where it begins too."""
        method = self.methods[name]
        own = {**({} if self.budget else method.first), **method.settings}
        return _texts({key: value for key, value in own.items() if key not in PLACES})

    def _train(self, name: str, seed: int) -> dict[str, Any]:
        method = self.methods[name]
        if method.program == CONSTANT:
            return self._figures(seed, {}, *self._constant())
        found = self._search(name, seed)
        settings = self.settings(name, seed, found)
        folder = self._net(name, seed)
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was cut off
        trainer = self._trainer(name, settings, str(folder), search=self.budget > 0)  # then it is the best trial again
        clock = EpochClock()
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
        """The best settings of a method; found once, on the first seed that it is run with."""
        space, found = space_of(self.methods[name], self.data.kind), self.runs.settings(name)
        if self.budget and space and found is None:
            settings, folder = self.settings(name, seed), self.runs.work("search")
            program = self.programs[self.methods[name].program]
            _, model_args, args = program.parse([], {**settings, "output_dir": str(folder)})
            make_trainer, first = partial(self._trainer, name, settings, search=True), vars(model_args) | vars(args)
            sought = {"seed": seed} | self._sought(name)
            found = search(make_trainer, space, first, name, self.budget, folder, self.say, self.metric, sought)
            self.runs.save_settings(name, found | sought)
        return found["settings"] if found else {}

    def _sought(self, name: str) -> dict[str, dict[str, str]]:
        """What a search of the method is: the method, what is searched of it, and where it begins."""
        method, kind = self.methods[name], self.data.kind
        return {
            METHOD: self._own(name),
            "space": _texts(space_of(method, kind)),
            "first": _texts(first_of(method, kind)),
        }

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
            self._one(name, seed)
        return folder

    def _check_identity(self) -> None:
        """Results of one folder are of one data set, its settings, one budget and one metric."""
        sizes = {split: len(getattr(self.data, split)) for split in ("train", "validation", "test")}
        base = {**self.base, **self.flags}
        base = _texts({key: value for key, value in base.items() if key not in PLACES})
        ours = {"data": self.data.name, "labels": len(self.data.label_names), **sizes, "budget": self.budget, **base}
        first = {key for method in self.methods.values() for key in method.first}
        ours |= {"metric": self.metric, "flags": " ".join(sorted(first & self.flags.keys()))}  # over a method's first
        theirs = self.runs.identity()
        ours["contents"] = fingerprint(self.data)
        if theirs is not None:  # perhaps a file of before these were said
            theirs = {"metric": METRIC, "flags": ours["flags"], "contents": ours["contents"], **theirs}
        if theirs is None or not (theirs == ours or self.runs.any()):  # of a command that was mistaken
            shutil.rmtree(self.runs.work(), ignore_errors=True)  # perhaps a search of other settings
            self.runs.save_identity(ours)
            return
        for key in sorted(ours.keys() | theirs.keys(), key=lambda key: (key == "contents", key)):  # a hash says least
            if ours.get(key) != theirs.get(key):
                raise ValueError(
                    f"{self.runs.folder} holds results with {key} = {theirs.get(key)!r}, not {ours.get(key)!r}: they "
                    "do not belong in one table. Choose another --output_dir, or the same settings."
                )

    def _check_methods(self, names: Iterable[str]) -> None:
        """The runs of one method have one setting, and come from one search: a recipe or method may have been edited
        since. Where a file does not say, it is taken as it is."""
        finished = self.runs.all()
        for name in names:
            found = self.runs.settings(name) or {}
            said = [(f"a run (seed {run['seed']})", run.get(METHOD), self._own(name)) for run in finished.get(name, ())]
            said += [(f"a search ({key})", found.get(key), ours) for key, ours in self._sought(name).items()]
            for what, theirs, ours in said:
                for key in sorted(ours.keys() | theirs.keys()) if theirs is not None else ():
                    if ours.get(key) != theirs.get(key):
                        raise ValueError(
                            f"{self.runs.folder / name} holds {what} with {key} = {theirs.get(key)!r}, not "
                            f"{ours.get(key)!r}: the two are not one method. Delete that folder, choose another "
                            "--output_dir, or give the method another name."
                        )

    def _constant(self):
        for rows in (self.data.validation, self.data.test):
            labels = rows.with_format("numpy")["labels"][:]
            yield constant_probabilities(self.data.label_rates, len(labels)), labels

    def _figures(self, seed: int, searched: Mapping[str, Any], validation, test) -> dict[str, Any]:
        metrics, rows = score_decoders(*validation, *test)
        rows = {key: thousandths(rows[key]) for key in tested(self.metric)}
        return {"seed": seed, "searched": dict(searched), **metrics, "test_rows": rows}


def fingerprint(data) -> str:
    """16 digits that differ for other labels or inputs of any split, or another order of rows."""
    digest = hashlib.sha256(" ".join(data.label_names).encode())
    for rows in (data.train, data.validation, data.test):
        for name, values in sorted(rows.with_format("numpy")[:].items()):
            values = np.asarray(values)
            kind = {"f": np.float32, "b": np.int64, "i": np.int64, "u": np.int64}.get(values.dtype.kind)
            digest.update(name.encode())
            digest.update(repr(values.tolist()).encode() if kind is None else np.ascontiguousarray(values, dtype=kind))
    return digest.hexdigest()[:16]


def _texts(settings: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in settings.items()}
