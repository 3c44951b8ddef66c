"""Tables of runs of recipes, made by `run_recipes.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from results_store import ROOT
from run_recipes import LINEAR, flags

from . import runs
from .markdown import bash, table

RECIPES = ROOT / "recipes"
# flags that change no method: the folder of the encoder's weights, and half precision on a CPU
NO_METHOD = {"model_name_or_path model", "bf16 true", "use_cpu true"}


def recipe_of(name: str) -> Path:
    """The file of a recipe that a name without its suffix stands for."""
    stem = next(iter(runs.of_recipe(name).values()))["recipe"]
    return next(RECIPES.glob(f"*/{stem}.yaml"))


def extra_of(name: str) -> list[str]:
    """The further words of the command of these runs."""
    return next(iter(runs.of_recipe(name).values())).get("extra", [])


def about(name: str, flagged: bool = True) -> str:
    """What a run is: the end of its recipe's first line, or if `flagged` the flags that make it another method."""
    recipe = recipe_of(name)
    if flagged and (own := [flag for flag in flags(extra_of(name)) if flag not in NO_METHOD]):
        return f"`{' '.join(f'--{flag}' for flag in own)}`"
    said = recipe.read_text(encoding="utf-8").split("\n", 1)[0].rsplit(": ", 1)[-1].rstrip(".")
    return f"{said}; a logistic regression in the net" if name == recipe.stem + LINEAR else said


def table_of(
    names: Sequence[str], figures: Mapping[str, str], against: Mapping[str, str], judged: str, flagged: bool = True
) -> str:
    """A row per recipe: its figures in percent, and the paired difference to each of `against`.

    Args:
        figures: title -> key of a run.
        against: name -> what it is, for the head of the column.
        judged: the key that differences are of.
    """
    rows = []
    for name in names:
        found = runs.of_recipe(name)
        cells = [f"`{name}`: {about(name, flagged)}", str(len(found))]
        cells += [runs.figure(found, key) for key in figures.values()]
        for other in against:
            cells += runs.gain_cells(None if name == other else runs.gain(found, runs.of_recipe(other), judged))
        rows.append(cells)
    head = ["runs", "seeds", *figures]
    head += [title for other in against.values() for title in (f"difference to {other}", "seeds ahead")]
    return table(head, rows)


def commands(names: Sequence[str]) -> str:
    """The commands behind rows, one for recipes with the same seeds and flags."""
    together: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        recipe, seeds = recipe_of(name), " ".join(str(seed) for seed in runs.of_recipe(name))
        suffix, extra = name.removeprefix(recipe.stem), " ".join(f"--{flag}" for flag in flags(extra_of(name)))
        end = [f"--seeds {seeds}"]
        end += [f"--suffix {suffix}"] if suffix else []
        end += [f"--extra {extra}"] if extra else []
        together.setdefault(tuple(end), []).append(str(recipe.relative_to(ROOT)))
    start = "python benchmarks/run_recipes.py"
    return bash(*(" ".join([start, *files, "--data_dir PATH", *end]) for end, files in together.items()))


def names(pattern: str, first: str) -> list[str]:
    """Names of runs that match, the one to which others are compared at the top."""
    found = sorted(name for name in runs.STORE.recipes() if Path(name).match(pattern))
    return sorted(found, key=lambda name: name != first)
