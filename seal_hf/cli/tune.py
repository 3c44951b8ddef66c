"""`--tune N`: search the settings of a run, then train with the best ones as usual.

A trial is the run with other settings, in a folder of its own. The first trial is the run as given. If λ1 is searched,
the second is the same with λ1 = 0: a loss-net that does more harm than good is thus left out.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from transformers import set_seed
from transformers.trainer_callback import PrinterCallback
from transformers.utils import logging as hf_logging

from ..data.hygiene import fingerprint
from ..energy_losses import CROSS_ENTROPY
from ..loss_net.energy_weight import EnergyWeight
from ..training.task_net import head_rate
from ..utils.files import whole_file
from ..utils.messages import printable, results_table
from ..utils.options import default_of
from ..utils.recorded import recorded
from .programs import check_one_process
from .search import Goal, Group, Settings, Space, check_optuna, search
from .train.flags import Arguments

WEIGHTS = (0.0, 0.03, 0.1, 0.3, 1.0)  # λ1 beside the given one: cross-entropy alone, and shares of the task loss's pull
TRIALS = "_tune"  # folder of Optuna's data base; the Trainer does not push names with `_` in front
LAMBDA = "λ1"
NO_ENERGY = "0"  # name of the group of λ1 = 0
IN_A_TRIAL = {  # a trial saves and reports nothing
    "report_to": [],
    "push_to_hub": False,
    "disable_tqdm": True,
    "save_only_model": True,
    "resume_from_checkpoint": None,
}
# arguments that do not change what a trial reaches; data are compared by their contents
NO_SETTINGS = (
    "dataset data_dir output_dir run_name project report_to disable_tqdm resume_from_checkpoint resume_changed "
    "overwrite_output_dir"
).split()
NO_SETTINGS_OF = ("hub_", "push_to_hub", "log", "trackio_")  # prefixes of names


class Tuning:
    """The search for a run's settings.

    Args:
        parse: returns the arguments of the run, new objects at each call.
        ranges: arguments -> what is searched beside λ1.
        make_trainer: (data, arguments) -> what is ready to train, with a `trainer`.
        metric: figure by which trials are chosen, unless the run names another.
        shares: True if λ1 may be a share of the task loss's pull.

    Raises:
        ValueError: a launcher of several processes, no Optuna, or nothing to search.
    """

    def __init__(
        self,
        parse: Callable[[], Arguments],
        ranges: Callable[[Arguments], Space],
        make_trainer: Callable[[Any, Arguments], Any],
        metric: str,
        shares: bool = True,
    ):
        self.parse, self.make_trainer = parse, make_trainer
        self.arguments = parse()
        training, self.trials = self.arguments.training, self.arguments.run.tune
        check_one_process("--tune")
        check_optuna("--tune")
        self.folder, self.goal = Path(training.output_dir), goal_of(training, metric)
        space = dict(ranges(self.arguments))
        first = {name: self.arguments.value(name) for name in space}
        if "head_learning_rate" in space:
            first["head_learning_rate"] = head_rate(training)
        if getattr(training, "energy_loss", CROSS_ENTROPY) != CROSS_ENTROPY:
            space[LAMBDA], first[LAMBDA] = energy_weights(training, shares)
        flags = {LAMBDA: ("energy_weight", "energy_weight_balance")}  # setting -> flags with other names that fix it
        self.held = [name for name in space if self.arguments.given.intersection(flags.get(name, [name]))]
        self.space = {name: values for name, values in space.items() if name not in self.held}
        if not self.space:
            raise ValueError(
                f"`tune` is {self.trials}, but nothing is left to search: flags set {', '.join(self.held)}. Leave out "
                "one of these, or --tune."
            )
        self.first = [{name: first[name] for name in self.space}]
        if NO_ENERGY in getattr(self.space.get(LAMBDA), "groups", ()) and first[LAMBDA] != NO_ENERGY:
            self.first.append({**self.first[0], LAMBDA: NO_ENERGY})

    def best(self, data: Any) -> Arguments:
        """The arguments of the best trial after all have finished, also written to `tuning.json` in the output folder
        and printed. Trials of an earlier start count."""
        number = f"{self.trials} trial{'s' if self.trials > 1 else ''}"
        held = f"; fixed as given: {', '.join(self.held)}" if self.held else ""
        print(printable(f"tune: {number} of {', '.join(self.space)}, by {self.goal.metric} on validation{held}"))
        place = ("tune", self.trials, self.folder / TRIALS)
        sought, seeds = self._sought(data), [self.arguments.training.seed]
        run = partial(self._trial, data)
        found = search(run, self.space, self.first, *place, self.goal, print, sought, seeds=seeds)
        self._report(found)
        return self.parse().changed(found["settings"])

    def _trial(self, data: Any, settings: Settings, *, seed: int, folder: str) -> float:
        """The value that a run with these settings reaches."""
        with silence():
            arguments = self.parse().changed({**settings, **IN_A_TRIAL, "output_dir": folder})
            set_seed(seed)
            trainer = self.make_trainer(data, arguments).trainer
            trainer.remove_callback(PrinterCallback)
            trainer.train()
            return self.goal.reached(trainer)

    def _sought(self, data: Any) -> dict[str, Any]:
        """What identifies the search: the data, the run as given, the searched settings."""
        own = [settings_given(part) for part in (self.arguments.data, self.arguments.nets, self.arguments.training)]
        space = {name: str(values) for name, values in self.space.items()}
        return {
            "data": fingerprint(data),
            "settings": recorded({name: value for part in own for name, value in part.items()}),
            "patience": self.arguments.run.patience,
            "space": space,
            "goal": str(self.goal),
        }

    def _report(self, found: Mapping[str, Any]) -> None:
        """Write `tuning.json`, and print a table of the trials and the best one's flags."""
        trials = [{"settings": one["settings"], "value": one["values"][0]} for one in found["tried"]]
        best = next(i for i, one in enumerate(trials, 1) if one["settings"] == found["settings"])
        flags = flags_of(found["settings"])
        for trial in trials:
            trial["value"] = trial["value"] if math.isfinite(trial["value"]) else None  # lost
        content = {"metric": self.goal.metric, "best": best, "flags": flags, "held": self.held, "trials": trials}
        with whole_file(self.folder / "tuning.json") as unfinished:
            unfinished.write_text(json.dumps(recorded(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        columns: dict[str, Any] = dict.fromkeys(name for trial in trials for name in trial["settings"])
        rows = [{**columns, **shown(trial["settings"]), self.goal.metric: trial["value"]} for trial in trials]
        numbers = [f"{i}{'*' if i == best else ' '}" for i in range(1, len(trials) + 1)]
        table = results_table([{"trial": i, **row} for i, row in zip(numbers, rows, strict=True)])
        print(printable(f"{table}\n\n* the best, trained now; as flags: {flags}"))


def goal_of(training: Any, metric: str) -> Goal:
    """The goal of trials: the run's `metric_for_best_model`, or `metric` if the run names none."""
    named = training.metric_for_best_model
    return Goal(metric) if named is None else Goal(named.removeprefix("eval_"), training.greater_is_better)


def energy_weights(training: Any, shares: bool) -> tuple[Group, str]:
    """The values of λ1 that go with these arguments, as groups of settings, and the name of the given one. They include
    the rule only if it is given, since no flag asks for it."""
    weight, balance = training.energy_weight, training.energy_weight_balance
    if not EnergyWeight(training).is_ruled:
        weight = EnergyWeight(training).constant
    given = name_of_weight(weight, balance)
    groups = {given: weight_settings(weight, balance)}
    for share in WEIGHTS if shares else (0.0,):
        candidate = copy.copy(training)
        vars(candidate).update(weight_settings(share))
        with contextlib.suppress(ValueError):  # such as a share without a task loss
            candidate.check()
            groups.setdefault(name_of_weight(share), weight_settings(share))
    return Group(groups), given


def name_of_weight(weight: float | None, balance: bool = True) -> str:
    """λ1 in words: `rule`, `0`, `0.1 of the pull` or a number."""
    if not weight:
        return "rule" if weight is None else NO_ENERGY
    return f"{weight:g} of the pull" if balance else f"{weight:g}"


def weight_settings(weight: float | None, balance: bool = True) -> dict[str, Any]:
    """The arguments for the λ1 that `name_of_weight` names."""
    if not weight:
        return {"energy_weight": weight}
    return {"energy_weight": weight, "energy_weight_balance": balance}


def settings_given(arguments: Any) -> dict[str, str]:
    """Arguments with other values than their defaults, as texts, without those that do not change the result."""
    found = {}
    for field in fields(arguments):
        default = default_of(field)
        value = getattr(arguments, field.name, default)
        if value != default and field.name not in NO_SETTINGS and not field.name.startswith(NO_SETTINGS_OF):
            found[field.name] = str(value)
    return found


def flags_of(settings: Settings) -> str:
    """Settings as flags of a command line. None needs no flag."""
    words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in settings.items()}
    return " ".join(f"--{name} {word}" for name, word in words.items() if word is not None)


def shown(settings: Settings) -> dict[str, str]:
    """Settings as cells of a table: numbers to three digits; None, for λ1, means the rule."""

    def cell(value: Any) -> str:
        if value is None:
            return "rule"
        return f"{value:.3g}" if isinstance(value, float) else str(value).lower()

    return {name: cell(value) for name, value in settings.items()}


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Hide a trial's messages, since the run after the search repeats them; show errors."""
    library, verbosity = logging.getLogger("seal_hf"), hf_logging.get_verbosity()
    level, progress = library.level, hf_logging.is_progress_bar_enabled()
    library.setLevel(logging.ERROR)
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        library.setLevel(level)
        hf_logging.set_verbosity(verbosity)
        hf_logging.warning_once.cache_clear()  # the run after the search repeats the warnings
        if progress:
            hf_logging.enable_progress_bar()
