"""Pages of comparisons by `seal-hf compare`, on texts, tags, trees, masks and rewards: a table per comparison."""

from __future__ import annotations

from typing import NamedTuple

import text_screen

from seal_hf.compare import comparison
from seal_hf.compare.kinds import KINDS, Kind
from seal_hf.compare.table import legend, markdown

from . import runs
from .markdown import bash, page, prose, section

FROZEN = "frozen"


class Shown(NamedTuple):
    """A page.

    Attributes:
        about: paragraphs above the tables.
        kind: word of the kind of output.
        comparisons: names, in order; a page shows those that have runs, and without any there is no page.
        command: that makes the runs, without `--losses`, `--seeds` and `--budget`, which are those of the runs.
        summary: name of a screen whose summary stands first.
    """

    title: str
    about: str
    kind: str
    comparisons: tuple[str, ...]
    command: str
    summary: str = ""


PAGES = {
    "texts-frozen": Shown(
        "Texts, on a frozen encoder",
        """
        What does a loss-net add to a pretrained text encoder? Here the encoder, MiniLM, stays as it is, so that a run
        takes seconds and every method has the same number of trials on validation, scored by one seed. Training rows
        are the first 2,000. In valueeval23, nlupp_banking and hoc the gold labels tell hardly more about each
        other than the text does; they are controls, on which a model of dependencies has nothing to give.""",
        "mlc",
        tuple(f"{data}_{FROZEN}" for data in text_screen.SETS),
        "python benchmarks/text_screen.py frozen --data_dir PATH --encoder FOLDER --freeze_encoder true "
        "--per_device_train_batch_size 64",
        FROZEN,
    ),
}


def compared(name: str, kind: Kind) -> dict:
    """A comparison's figures, with differences under what it was chosen by."""
    stored = runs.stored(name)
    metric = stored.identity().get("metric", kind.known_metrics[0])
    return comparison(stored.all(), kind.figures, kind.methods, metric, metric)


def shown(which: Shown) -> str:
    kind = KINDS[which.kind]
    tables = {name: compared(name, kind) for name in runs.there(which.comparisons)}
    summary = text_screen.summary(runs.STORE, which.summary, kind.known_metrics[0]) if which.summary else ""
    return page(
        which.title,
        prose(which.about),
        section("Summary", summary) if summary else "",
        *(section(name, markdown(found, with_legend=False).strip()) for name, found in tables.items()),
        section("How to read the tables", legend(next(iter(tables.values())))),
        section("Commands", bash(*_commands(which, kind))),
    )


def _commands(which: Shown, kind: Kind) -> list[str]:
    """One for the comparisons with the same methods, seeds and trials."""
    by_means: dict[str, list[str]] = {}
    for name in runs.there(which.comparisons):
        stored = runs.stored(name)
        by_method = stored.all()
        seeds = sorted({run["seed"] for found in by_method.values() for run in found})
        means = f"--losses {' '.join(method for method in kind.methods if method in by_method)}"
        means += f" --seeds {' '.join(map(str, seeds))} --budget {stored.identity()['budget']}"
        by_means.setdefault(means, []).append(name)
    commands = []
    for means, names in by_means.items():
        sets = ["--sets", *(name.removesuffix(f"_{which.summary}") for name in names)] if which.summary else []
        commands.append(" ".join([which.command, means, *sets]))
    return commands


def there() -> list[str]:
    """The pages that have runs."""
    return [name for name, which in PAGES.items() if runs.there(which.comparisons)]


def all_pages() -> dict[str, str]:
    return {name: shown(PAGES[name]) for name in there()}
