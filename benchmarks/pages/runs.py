"""The runs that pages show, by seed, and what they say of them: mean ± deviation, and paired differences."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from results_store import Store, Stored
from run_recipes import cell

from seal_hf.lab.compare.kinds import BASELINE, Method
from seal_hf.lab.compare.runner import LOST
from seal_hf.lab.compare.table import comparison
from seal_hf.tasks.labels.compare import FIGURES, METRIC
from seal_hf.tasks.labels.compare import METHODS as OFFERED

STORE = Store()
AT_HALF, CALIBRATED = "test_f1_example", "test_f1_example_calibrated"
TUNED = f"test_{METRIC}"
DECIDED = {"at 0.5": AT_HALF, "calibrated": CALIBRATED}  # as the papers decide, and as we do
# recorded runs name methods that are no longer offered, too
METHODS = {**OFFERED, "label_correlation": Method(BASELINE, "cross-entropy and a term on pairs of labels")}

Runs = Mapping[int, Mapping[str, Any]]  # the runs of one method, by seed


SCHEME = "_within_scheme"  # end of a key


class Gain(NamedTuple):
    """Figures of one method less those of another with the same seeds, in points.

    Attributes:
        mean, std: over seeds.
        ahead: number of seeds with a positive difference.
        seeds: number of seeds that both have.
    """

    mean: float
    std: float
    ahead: int
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.std:.2f}" if self.seeds > 1 else f"{self.mean:+.2f} (1 seed)"

    @property
    def won(self) -> str:
        return f"{self.ahead} of {self.seeds}"


def of_recipe(name: str) -> Runs:
    """Runs of a recipe, or of a recipe with a suffix."""
    return {run["seed"]: _within_scheme(run) for run in STORE.recipes().get(name, [])}


def _within_scheme(run: dict[str, Any]) -> dict[str, Any]:
    """A run of roles also has its figures under the decoder that only keeps to the scheme. Early runs had no other."""
    if "test_core_role_violations" not in run:
        return run
    by_decoder = any(key.startswith("test_f1_") for key in run)
    for key in ("test_f1", "test_core_role_violations"):
        names = [f"{key}_constrained_viterbi", f"{key}_constrained"] if by_decoder else [key]
        run = run | {f"{key}{SCHEME}": run[name] for name in names if name in run}
    return run


def of_method(name: str, method: str) -> Runs:
    """Finished runs of a method of a comparison."""
    return {run["seed"]: run for run in stored(name).all().get(method, []) if LOST not in run}


def of_defaults(data: str, loss: str) -> Runs:
    """Runs of `defaults.py`: `loss` is one of its `WAYS`."""
    return STORE.defaults(data, loss)


def stored(name: str) -> Stored:
    return STORE.comparison(name)


def there(names: Iterable[str]) -> list[str]:
    """The comparisons that have runs."""
    found = STORE.comparisons()
    return [name for name in names if name in found]


def compared(name: str, decoder: str = METRIC) -> dict[str, Any]:
    """A comparison's figures, with differences under a decoder."""
    return _compared(STORE, name, decoder)


@cache
def _compared(store: Store, name: str, decoder: str) -> dict[str, Any]:
    runs = store.comparison(name)
    return comparison(runs.all(), FIGURES, METHODS, decoder, runs.identity().get("metric", METRIC))


def figure(runs: Runs, key: str) -> str:
    """Mean ± standard deviation over seeds, in percent."""
    return cell(list(runs.values()), key)


def decided(runs: Runs) -> list[str]:
    """The number of seeds, and their figures by each of `DECIDED`."""
    return [str(len(runs)), *(figure(runs, key).removesuffix(" (1 seed)") for key in DECIDED.values())]


def gain(ours: Runs, theirs: Runs, key: str, their_key: str | None = None) -> Gain | None:
    """The paired difference over the seeds that both have; None if they have none in common."""
    seeds = [seed for seed in sorted(ours.keys() & theirs.keys()) if key in ours[seed]]
    values = [100 * (ours[seed][key] - theirs[seed][their_key or key]) for seed in seeds]
    return of_differences(values) if values else None


def of_differences(values: list[float]) -> Gain:
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return Gain(statistics.mean(values), std, sum(value > 0 for value in values), len(values))


def gain_cells(found: Gain | None) -> list[str]:
    """Difference, and the seeds that are ahead; dashes where there is no common seed."""
    return ["-", "-"] if found is None else [str(found), found.won]
