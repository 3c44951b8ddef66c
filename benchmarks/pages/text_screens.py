"""The page of the losses that `text_screen.py` compares on texts: a summary, and a table per data set."""

from __future__ import annotations

import text_screen

from seal_hf.compare.kinds.labels import METRIC
from seal_hf.compare.methods.labels import METHODS
from seal_hf.compare.table import legend, markdown

from . import runs
from .markdown import bash, page, prose, section

PAGE, SCREEN = "texts-frozen", "frozen"
COMMAND = (
    f"python benchmarks/text_screen.py {SCREEN} --data_dir PATH --encoder FOLDER --freeze_encoder true "
    "--per_device_train_batch_size 64"
)
ABOUT = """
    What does a loss-net add to a pretrained text encoder? Here the encoder, MiniLM, stays as it is, so that a run takes
    seconds. Every method has the same number of trials on validation, scored by one seed. Training rows are the first
    2,000. In valueeval23, nlupp_banking and hoc the gold labels tell hardly more about each other than the text does.
    They are controls: a model of dependencies has nothing to give there."""


def frozen() -> str:
    tables = {data: runs.compared(_name(data)) for data in _there()}
    return page(
        "Texts, on a frozen encoder",
        prose(ABOUT),
        section("Summary", text_screen.summary(runs.STORE, SCREEN, METRIC)),
        *(section(_name(data), markdown(found, with_legend=False).strip()) for data, found in tables.items()),
        section("How to read the tables", legend(next(iter(tables.values())))),
        section("Commands", bash(*_commands())),
    )


def _name(data: str) -> str:
    return f"{data}_{SCREEN}"


def _there() -> list[str]:
    return [data for data in text_screen.SETS if runs.there([_name(data)])]


def _commands() -> list[str]:
    """One for the data sets with the same methods, seeds and trials."""
    by_means: dict[str, list[str]] = {}
    for data in _there():
        stored = runs.stored(_name(data))
        by_method = stored.all()
        seeds = sorted({run["seed"] for found in by_method.values() for run in found})
        means = f"--losses {' '.join(method for method in METHODS if method in by_method)}"
        means += f" --seeds {' '.join(map(str, seeds))} --budget {stored.identity()['budget']}"
        by_means.setdefault(means, []).append(data)
    return [f"{COMMAND} {means} --sets {' '.join(names)}" for means, names in by_means.items()]


def names() -> list[str]:
    """The pages that have runs."""
    return [PAGE] if _there() else []


def all_pages() -> dict[str, str]:
    return {name: frozen() for name in names()}
