"""The hyper-parameter search of one method: `Trainer.hyperparameter_search` with Optuna, trial by trial, resumable."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any, Protocol

from ..training.meters import NonFiniteLossError
from .methods import Choice, LogUniform
from .runs import METRIC

STARTUP = 4
SOUGHT = "sought"  # attribute of a study


class MakeTrainer(Protocol):
    """What [`search`] is given."""

    def __call__(self, folder: str, *, seed: int) -> Any: ...


class BestSoFar:
    """The objective of a trial: the best of its evaluations, not the last, as the best checkpoint is what is taken."""

    def __init__(self, metric: str = METRIC):
        self.metric, self.best = metric, float("-inf")

    def __call__(self, metrics: Mapping[str, float]) -> float:
        self.best = max(self.best, metrics[f"eval_{self.metric}"])
        return self.best


def search(
    make_trainer: MakeTrainer,
    space: Mapping[str, LogUniform | Choice],
    first: Mapping[str, Any],
    name: str,
    budget: int,
    folder: str | Path,
    say: Callable[[str], None] = print,
    metric: str = METRIC,
    sought: Mapping[str, Any] | None = None,
    finalists: int = 1,
    seeds: Sequence[int] = (1, 2, 3),
) -> dict[str, Any]:
    """Trials until `budget` of them are finished; those of an earlier start, which was cut off, count. Then the best
    of them once more by other seeds, as what one seed likes best may be luck.

    Args:
        make_trainer: (output folder, seed) -> a trainer with a `model_init`, made anew for each trial.
        space: what is searched, by recipe key: by a tree-structured Parzen estimator (Optuna's default) after `STARTUP`
            trials, the given first one and random ones, with the number of finished ones as seed, so that a trial that
            was cut off is repeated. Every trial runs to its end; one whose loss is no longer finite has the value 0.
        first: the values of the first trial, by key.
        name: of the study.
        budget: number of trials, >= 1.
        folder: for Optuna's data base and the trials' checkpoints, which are deleted.
        say: takes a line per trial.
        metric: what trials are chosen by, as the trainer's `compute_metrics` names it.
        sought: what the search is of, texts and numbers; the trials of another one of that name are deleted.
        finalists: how many of the best trials are run by every seed, >= 1; the highest mean wins. 1: none is run again.
        seeds: the first is that of all trials, the others are the finalists'.

    Returns:
        `settings` of the best trial, its `value` (the metric on validation, in [0, 1]; of finalists the mean over
        seeds), `trials`, the `metric`'s name, and `tried`: `settings` and `values`, by seed, of each trial.
    """
    first = {key: values.read(first[key]) for key, values in space.items() if key in first}
    run = partial(_trials, space=space, folder=Path(folder), say=say, metric=metric)
    trials = run(partial(make_trainer, seed=seeds[0]), name, budget, [first], sought=dict(sought or {}))
    tried = [{"settings": trial.params, "values": [trial.value]} for trial in trials]
    best = sorted(tried, key=lambda one: -one["values"][0])[:finalists]
    again = [one["settings"] for one in best]
    for seed in seeds[1:] if finalists > 1 else ():
        of_these = {**(sought or {}), "seed": seed, "finalists": again}
        trials = run(partial(make_trainer, seed=seed), f"{name}_seed{seed}", len(again), again, sought=of_these)
        for one, trial in zip(best, trials, strict=True):
            one["values"].append(trial.value)
    won = max(best, key=lambda one: mean(one["values"]))
    value = mean(won["values"])
    if finalists > 1:
        say(f"{name}: best mean of {len(seeds)} seeds {100 * value:.2f}; its first {100 * won['values'][0]:.2f}")
    return {"settings": won["settings"], "value": value, "trials": budget, "metric": metric, "tried": tried}


def _trials(
    make_trainer: Callable[[str], Any],
    name: str,
    number: int,
    given: Sequence[Mapping[str, Any]],
    space: Mapping[str, LogUniform | Choice],
    folder: Path,
    say: Callable[[str], None],
    metric: str,
    sought: dict[str, Any],
) -> list:
    """`number` finished trials of a study, the first ones of what is `given`, in that order."""
    check_optuna()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    trials = folder / f"trials_{name}"
    storage = _storage(folder)
    study = _study(storage, name, sought, say)
    while (done := len(_finished(study))) < number:
        waiting = any(trial.state.name == "WAITING" for trial in study.trials)
        if done < len(given) and not waiting:  # also if it was cut off
            study.enqueue_trial(given[done])
        try:
            make_trainer(str(trials)).hyperparameter_search(
                hp_space=lambda trial: {key: values.suggest(trial, key) for key, values in space.items()},
                compute_objective=BestSoFar(metric),
                n_trials=1,
                direction="maximize",
                backend="optuna",
                storage=storage,
                study_name=name,
                load_if_exists=True,
                sampler=optuna.samplers.TPESampler(seed=done, n_startup_trials=STARTUP, multivariate=True),
                pruner=optuna.pruners.NopPruner(),
            )
        except NonFiniteLossError:
            lost = study.trials[-1]
            study.add_trial(optuna.trial.create_trial(params=lost.params, distributions=lost.distributions, value=0.0))
        shutil.rmtree(trials, ignore_errors=True)
        last = study.trials[-1]
        say(f"{name}: trial {done + 1} of {number}: {100 * last.value:.2f}, best {100 * study.best_value:.2f}")
    return _finished(study)[:number]


def check_optuna() -> None:
    """Raises ValueError where Optuna is missing."""
    if find_spec("optuna") is None:
        raise ValueError("a search needs Optuna: pip install 'seal_hf[optuna]', or --budget 0 for none")


def has_trials(folder: str | Path) -> bool:
    """Whether a search in this folder has finished a trial."""
    return any(_finished(study) for study in _studies(folder))


def begun(folder: str | Path, name: str, sought: Mapping[str, Any]) -> dict[str, Any]:
    """What the search of that name that is there is of, if it has trials and is of what is `sought`; else nothing."""
    for study in _studies(folder):
        theirs = study.user_attrs.get(SOUGHT, {})
        if study.study_name == name and study.trials and all(theirs.get(key) == sought[key] for key in sought):
            return theirs
    return {}


def _studies(folder: str | Path) -> list:
    if not (Path(folder) / "search.db").is_file():
        return []
    check_optuna()
    import optuna

    storage = _storage(folder)
    return [optuna.load_study(study_name=name, storage=storage) for name in optuna.get_all_study_names(storage)]


def _storage(folder: str | Path) -> str:
    """An address, in which `?` and `%` of a folder's name have another meaning."""
    from sqlalchemy import URL  # comes with Optuna

    return str(URL.create("sqlite", database=str(Path(folder) / "search.db")))


def _study(storage: str, name: str, sought: dict[str, Any], say: Callable[[str], None]) -> Any:
    """The study of that name, with its trials if it was of the same search."""
    import optuna

    study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    if study.trials and study.user_attrs.get(SOUGHT, {}) != sought:
        say(f"{name}: {len(_finished(study))} trials of an earlier search, which was another, are given up")
        optuna.delete_study(study_name=name, storage=storage)
        study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    study.set_user_attr(SOUGHT, sought)
    return study


def _finished(study: Any) -> list:
    return [trial for trial in study.trials if trial.state.name == "COMPLETE"]
