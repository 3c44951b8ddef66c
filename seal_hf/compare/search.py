"""The hyper-parameter search of one method: `Trainer.hyperparameter_search` with Optuna, trial by trial, resumable."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..meters import NonFiniteLossError
from .methods import Choice, LogUniform
from .runs import METRIC

STARTUP = 4
SOUGHT = "sought"  # attribute of a study


class BestSoFar:
    """The objective of a trial: the best of its evaluations, not the last, as the best checkpoint is what is taken."""

    def __init__(self, metric: str = METRIC):
        self.metric, self.best = metric, float("-inf")

    def __call__(self, metrics: Mapping[str, float]) -> float:
        self.best = max(self.best, metrics[f"eval_{self.metric}"])
        return self.best


def search(
    make_trainer: Callable[[str], Any],
    space: Mapping[str, LogUniform | Choice],
    first: Mapping[str, Any],
    name: str,
    budget: int,
    folder: str | Path,
    say: Callable[[str], None] = print,
    metric: str = METRIC,
    sought: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Trials until `budget` of them are finished; those of an earlier start, which was cut off, count.

    Args:
        make_trainer: output folder -> a trainer with a `model_init`, made anew for each trial.
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

    Returns:
        `settings` of the best trial, its `value` (the metric on validation, in [0, 1]), `trials`, and the `metric`'s
        name.
    """
    check_optuna()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    trials = folder / f"trials_{name}"
    storage = _storage(folder)
    study = _study(storage, name, dict(sought or {}), say)
    while (done := _finished(study)) < budget:
        if not any(trial.state.name in ("COMPLETE", "WAITING") for trial in study.trials):  # also if it was cut off
            study.enqueue_trial({key: values.read(first[key]) for key, values in space.items() if key in first})
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
        say(f"{name}: trial {done + 1} of {budget}: {100 * last.value:.2f}, best {100 * study.best_value:.2f}")
    return {"settings": study.best_params, "value": study.best_value, "trials": _finished(study), "metric": metric}


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


def _study(storage: str, name: str, sought: dict[str, Any], say: Callable[[str], None]):
    """The study of that name, with its trials if it was of the same search."""
    import optuna

    study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    if study.trials and study.user_attrs.get(SOUGHT, {}) != sought:
        say(f"{name}: {_finished(study)} trials of an earlier search, which was another, are given up")
        optuna.delete_study(study_name=name, storage=storage)
        study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    study.set_user_attr(SOUGHT, sought)
    return study


def _finished(study) -> int:
    return sum(trial.state.name == "COMPLETE" for trial in study.trials)
