"""A resumable search for settings by Optuna, for `--tune` and for each method of a comparison: its space, with ranges
that suit our nets, and its trials. A trial is a run, and its value is the run's best evaluation."""

from __future__ import annotations

import math
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any, Protocol

from ..training.base import StructuredTrainer
from ..training.meters import NonFiniteLossError
from ..utils.faults import AGAIN, writing

Settings = Mapping[str, Any]


class Range(ABC):
    """The values of a searched setting."""

    @abstractmethod
    def suggest(self, trial: Any, name: str) -> Any:
        """The value that a trial gives it."""

    @abstractmethod
    def at(self, share: float) -> Any:
        """The value below which this share of the range lies; `share` is in [0, 1)."""

    @abstractmethod
    def including(self, name: str, value: Any) -> Range:
        """The range, widened to include `value`."""

    def settings(self, name: str, value: Any) -> Settings:
        """The settings of a trial with this value."""
        return {name: value}


@dataclass(frozen=True)
class Interval(Range):
    """Numbers from `low` to `high`."""

    low: float
    high: float

    def including(self, name: str, value: Any) -> Interval:
        return replace(self, low=min(self.low, float(value)), high=max(self.high, float(value)))


@dataclass(frozen=True)
class LogUniform(Interval):
    """A positive number whose logarithm is uniform."""

    def suggest(self, trial: Any, name: str) -> float:
        return trial.suggest_float(name, self.low, self.high, log=True)

    def at(self, share: float) -> float:
        return self.low * (self.high / self.low) ** share

    def including(self, name: str, value: Any) -> Interval:
        """Widen as in the base class.

        Raises:
            ValueError: `value` is not above 0, so it has no logarithm.
        """
        if value <= 0:
            raise ValueError(f"`{name}` is {value}, but the search draws its logarithm: give a number above 0.")
        return super().including(name, value)


@dataclass(frozen=True)
class Uniform(Interval):
    """A uniform number."""

    def suggest(self, trial: Any, name: str) -> float:
        return trial.suggest_float(name, self.low, self.high)

    def at(self, share: float) -> float:
        return self.low + (self.high - self.low) * share


@dataclass(frozen=True)
class Choice(Range):
    """One of several values."""

    values: tuple

    def suggest(self, trial: Any, name: str) -> Any:
        return trial.suggest_categorical(name, list(self.values))

    def at(self, share: float) -> Any:
        return self.values[int(share * len(self.values))]

    def including(self, name: str, value: Any) -> Choice:
        return self if value in self.values else replace(self, values=(*self.values, value))


@dataclass(frozen=True)
class Group(Range):
    """One of several groups of settings; a value is the name of a group."""

    groups: Mapping[str, Settings]

    def suggest(self, trial: Any, name: str) -> Any:
        return trial.suggest_categorical(name, list(self.groups))

    def at(self, share: float) -> str:
        return list(self.groups)[int(share * len(self.groups))]

    def including(self, name: str, value: Any) -> Group:
        assert value in self.groups, f"{value!r} names no group"
        return self

    def settings(self, name: str, value: Any) -> Settings:
        return self.groups[value]


SPREAD_SEED = 33  # of those below 40, the first two of three trials are farthest apart

Space = Mapping[str, Range]  # key of a setting, or name for groups of settings -> range

RATE, DROPOUT_RANGE = LogUniform(3e-4, 5e-3), Uniform(0.0, 0.8)  # for nets trained from scratch
TEXT_RATE = LogUniform(2e-5, 3e-4)  # for pretrained encoders; with some hundred steps 2e-4 is far ahead of 5e-5
HEAD_RATE = LogUniform(1e-3, 3e-2)  # for a fresh head beside a pretrained encoder
FINE_TUNED = {"learning_rate": TEXT_RATE, "head_learning_rate": HEAD_RATE}
ENERGY_RATES = {"learning_rate": LogUniform(3e-5, 3e-3), "inference_learning_rate": LogUniform(0.007, 0.5)}


def widened(space: Space, given: Sequence[Settings]) -> dict[str, Range]:
    """The space, widened to include the values of every given trial."""
    wide = dict(space)
    for values in given:
        for name, value in values.items():
            wide[name] = wide[name].including(name, value)
    return wide


def spread(space: Space, number: int) -> list[dict[str, Any]]:
    """The values of `number` trials that cover each range evenly (a Latin hypercube; McKay et al. 1979). Few random
    trials often lie close together."""
    from scipy.stats.qmc import LatinHypercube  # takes a second to import

    rows = LatinHypercube(len(space), scramble=False, rng=SPREAD_SEED).random(number).tolist()
    return [{name: space[name].at(share) for name, share in zip(space, row, strict=True)} for row in rows]


def settings_of(space: Space, values: Settings) -> dict[str, Any]:
    """The settings of a trial with these values, by the names of the space."""
    groups = [space[name].settings(name, value) for name, value in values.items()]
    return {key: setting for group in groups for key, setting in group.items()}


STARTUP = 4
SOUGHT = "sought"  # attribute of a study
DATABASE = "search.db"


class Run(Protocol):
    """Trains with some settings, in a folder of its own, and returns the value it reaches; for [`search`]."""

    def __call__(self, settings: Settings, *, seed: int, folder: str) -> float: ...


@dataclass(frozen=True)
class Goal:
    """The figure by which trials are chosen.

    Attributes:
        metric: a validation figure of `compute_metrics`, or `loss`.
        larger: True if more is better; the figure is then a share in [0, 1].
    """

    metric: str
    larger: bool = True

    @property
    def worst(self) -> float:
        """The value of a trial whose loss became non-finite."""
        return 0.0 if self.larger else float("inf")

    def rank(self, value: float) -> float:
        """A number that is larger for a better value."""
        return value if self.larger else -value

    def shown(self, value: float) -> str:
        """A share in percent, or a loss."""
        return f"{100 * value:.2f}" if self.larger else f"{value:.4f}"

    def reached(self, trainer: StructuredTrainer) -> float:
        """The value that a finished run reached, that of its best evaluation."""
        return float(self.best_evaluation(trainer)[f"eval_{self.metric}"])

    def best_evaluation(self, trainer: StructuredTrainer) -> Mapping[str, float]:
        """The figures of a finished run's best evaluation, not its last, since the best checkpoint is used. A run
        without evaluations is evaluated now.

        Raises:
            ValueError: the evaluations lack the figure.
        """
        key = f"eval_{self.metric}"
        logged = [log for log in trainer.state.log_history if "eval_loss" in log or key in log]
        evaluations = logged or [trainer.evaluate()]
        if key not in evaluations[0]:
            known = [name.removeprefix("eval_") for name in evaluations[0] if name.startswith("eval_")]
            raise ValueError(
                f"`metric_for_best_model` is {self.metric!r}, but no evaluation of this run has it. It must be one of "
                f"{', '.join(known)}."
            )
        return max(evaluations, key=lambda log: self.rank(log[key]))  # of equal ones the first, as a Trainer keeps it


def search(
    run: Run,
    space: Space,
    given: Sequence[Settings],
    name: str,
    budget: int,
    folder: str | Path,
    goal: Goal,
    say: Callable[[str], None] = print,
    sought: Mapping[str, Any] | None = None,
    finalists: int = 1,
    seeds: Sequence[int] = (1, 2, 3),
) -> dict[str, Any]:
    """Run trials until `budget` of them are finished; trials of an earlier, interrupted start count. Then repeat the
    best trials with other seeds, since one seed's best may be luck.

    Args:
        run: makes one training anew for each trial.
        space: the searched settings. The first `STARTUP` trials are the given ones and some that cover the space
            evenly; later ones come from a tree-structured Parzen estimator (Optuna's default), whose seed is the
            number of finished trials: an interrupted trial is repeated. Every trial runs to its end; after a
            non-finite loss, its value is `goal.worst`.
        given: the values of the first trials, by the names of `space`, which is widened to include them.
        name: of the study.
        budget: number of trials, >= 1.
        folder: for Optuna's data base and the trials' checkpoints, which are deleted.
        goal: the figure by which trials are chosen.
        say: prints a line per trial.
        sought: texts and numbers that identify the search; trials of another search with that name are deleted.
        finalists: number of best trials to run with every seed, >= 1; the best mean wins. 1: no trial is repeated.
        seeds: all trials have the first; finalists also run with the others.

    Returns:
        `settings` of the best trial, its `value` (the metric on validation; for finalists the mean over seeds),
        `trials`, the `metric`'s name, and `tried`: `settings` and `values`, by seed, of each trial.

    Raises:
        ValueError: Optuna is missing, or a given value cannot be in its range.
    """
    with writing(Path(folder), AGAIN):
        space = widened(space, given)
        trials = partial(_trials, run, space=space, folder=Path(folder), goal=goal, say=say)
        start = [*given, *spread(space, max(0, STARTUP - len(given)))][:budget]
        found = trials(name, budget, start, seed=seeds[0], sought=dict(sought or {}))
        tried = [{"values": [trial.value], "params": trial.params} for trial in found]
        best = sorted(tried, key=lambda one: goal.rank(one["values"][0]), reverse=True)[:finalists]
        again = [one["params"] for one in best]
        for seed in seeds[1:] if finalists > 1 else ():
            of_these = {**(sought or {}), "seed": seed, "finalists": again}
            found = trials(f"{name}_seed{seed}", len(again), again, seed=seed, sought=of_these)
            for one, trial in zip(best, found, strict=True):
                one["values"].append(trial.value)
        won = max(best, key=lambda one: goal.rank(mean(one["values"])))
        value = mean(won["values"])
        if finalists > 1:
            first = goal.shown(won["values"][0])
            say(f"{name}: best mean of {len(seeds)} seeds {goal.shown(value)}; its first {first}")
        for one in tried:
            one["settings"] = settings_of(space, one.pop("params"))
        return {"settings": won["settings"], "value": value, "trials": budget, "metric": goal.metric, "tried": tried}


def _trials(
    run: Run,
    name: str,
    number: int,
    given: Sequence[Settings],
    space: Space,
    folder: Path,
    goal: Goal,
    say: Callable[[str], None],
    seed: int,
    sought: dict[str, Any],
) -> list:
    """`number` finished trials of a study; the first ones have the `given` values, in order."""
    check_optuna()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)

    checkpoints = folder / f"trials_{name}"

    def objective(trial: Any) -> float:
        values = {key: values.suggest(trial, key) for key, values in space.items()}
        shutil.rmtree(checkpoints, ignore_errors=True)  # a killed trial's
        try:
            value = run(settings_of(space, values), seed=seed, folder=str(checkpoints))
            return value if math.isfinite(value) else goal.worst
        except NonFiniteLossError:
            return goal.worst
        finally:
            shutil.rmtree(checkpoints, ignore_errors=True)

    study = _study(_storage(folder), name, goal, sought, say)
    while (done := len(_finished(study))) < number:
        waiting = any(trial.state.name == "WAITING" for trial in study.trials)
        if done < len(given) and not waiting:  # also after an interruption
            study.enqueue_trial(dict(given[done]))
        study.sampler = optuna.samplers.TPESampler(seed=done, n_startup_trials=STARTUP, multivariate=True)
        study.optimize(objective, n_trials=1)
        last, best = (goal.shown(value) for value in (study.trials[-1].value, study.best_value))
        say(f"{name}: trial {done + 1} of {number}: {last}, best {best}")
    return _finished(study)[:number]


def check_optuna(flag: str = "--budget") -> None:
    """Raises ValueError if Optuna is missing; `flag` is the one that asks for a search."""
    if find_spec("optuna") is None:
        raise ValueError(f"a search needs Optuna: pip install 'seal_hf[optuna]', or {flag} 0 for none")


def has_trials(folder: str | Path) -> bool:
    """True if a search in this folder has finished a trial."""
    return any(_finished(study) for study in _studies(folder))


def begun(folder: str | Path, name: str, sought: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies the stored search of that name, if it has trials and matches `sought`; else empty."""
    for study in _studies(folder):
        theirs = study.user_attrs.get(SOUGHT, {})
        if study.study_name == name and study.trials and all(theirs.get(key) == sought[key] for key in sought):
            return theirs
    return {}


def _studies(folder: str | Path) -> list:
    if not (Path(folder) / DATABASE).is_file():
        return []
    check_optuna()
    import optuna

    storage = _storage(folder)
    return [optuna.load_study(study_name=name, storage=storage) for name in optuna.get_all_study_names(storage)]


def _storage(folder: str | Path) -> Any:
    """A folder's data base, opened once for all its studies; `?` and `%` of the folder's name are escaped."""
    from optuna.storages import RDBStorage
    from sqlalchemy import URL  # comes with Optuna

    return RDBStorage(str(URL.create("sqlite", database=str(Path(folder) / DATABASE))))


def _study(storage: Any, name: str, goal: Goal, sought: dict[str, Any], say: Callable[[str], None]) -> Any:
    """The study of that name; its trials are kept if they belong to the same search."""
    import optuna

    directions = optuna.study.StudyDirection
    direction = directions.MAXIMIZE if goal.larger else directions.MINIMIZE
    new = partial(optuna.create_study, storage=storage, study_name=name, direction=direction)
    study = new(load_if_exists=True)
    if study.trials and study.user_attrs.get(SOUGHT, {}) != sought:
        say(f"{name}: dropped {len(_finished(study))} trials of an earlier, different search")
        optuna.delete_study(study_name=name, storage=storage)
        study = new()
    study.set_user_attr(SOUGHT, sought)
    for trial in study.trials:
        if trial.state.name == "RUNNING":  # it was killed; else the next one would be drawn away from it
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def _finished(study: Any) -> list:
    return [trial for trial in study.trials if trial.state.name == "COMPLETE"]
