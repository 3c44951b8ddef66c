"""The hyper-parameter search of one method: `Trainer.hyperparameter_search` with Optuna, trial by trial, resumable."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .methods import Method
from .runs import METRIC

STARTUP = 4


class BestSoFar:
    """The objective of a trial: the best of its evaluations, not the last, as the best checkpoint is what is taken."""

    def __init__(self, metric: str = METRIC):
        self.metric, self.best = metric, float("-inf")

    def __call__(self, metrics: Mapping[str, float]) -> float:
        self.best = max(self.best, metrics[f"eval_{self.metric}"])
        return self.best


def search(
    make_trainer: Callable[[Mapping[str, Any], str], Any],
    settings: Mapping[str, Any],
    method: Method,
    name: str,
    budget: int,
    folder: str | Path,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Trials until `budget` of them are finished; those of an earlier start, which was cut off, count.

    Args:
        make_trainer: (settings, output folder) -> a trainer with a `model_init`, made anew for each trial.
        settings: recipe keys of every trial, beside what is searched; of what is searched, the first trial's values.
        method: its `space` is searched, by a tree-structured Parzen estimator (Optuna's default) after `STARTUP` random
            trials, with the trial's number as seed; every trial runs to its end.
        name: of the study.
        budget: number of trials, >= 1.
        folder: for Optuna's data base and the trials' checkpoints, which are deleted.
        say: takes a line per trial.

    Returns:
        `settings` of the best trial, its `value` (example F1 on validation at the threshold tuned there), `trials`, and
        the `metric`'s name.
    """
    try:
        import optuna
    except ImportError as error:
        raise ValueError("a search needs Optuna: pip install 'seal_hf[optuna]', or --budget 0 for none") from error

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    trials = folder / f"trials_{name}"
    storage = f"sqlite:///{folder / 'search.db'}"
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    if not study.trials:
        given = [key for key in method.space if key in settings]
        study.enqueue_trial({key: method.space[key].read(settings[key]) for key in given})
    while (done := _finished(study)) < budget:
        trainer = make_trainer(settings, str(trials))
        trainer.hyperparameter_search(
            hp_space=lambda trial: {key: values.suggest(trial, key) for key, values in method.space.items()},
            compute_objective=BestSoFar(),
            n_trials=1,
            direction="maximize",
            backend="optuna",
            storage=storage,
            study_name=name,
            load_if_exists=True,
            sampler=optuna.samplers.TPESampler(seed=done, n_startup_trials=STARTUP, multivariate=True),
            pruner=optuna.pruners.NopPruner(),
        )
        shutil.rmtree(trials, ignore_errors=True)
        last = study.trials[-1]
        say(f"{name}: trial {done + 1} of {budget}: {100 * last.value:.2f}, best {100 * study.best_value:.2f}")
    return {"settings": study.best_params, "value": study.best_value, "trials": _finished(study), "metric": METRIC}


def _finished(study) -> int:
    return sum(trial.state.name == "COMPLETE" for trial in study.trials)
