"""The pages of the losses that `text_screen.py` compares on texts: a summary, and a table per data set."""

from __future__ import annotations

from typing import NamedTuple

import text_screen

from seal_hf.compare.kinds.labels import METRIC
from seal_hf.compare.methods.labels import METHODS
from seal_hf.compare.table import legend, markdown

from . import runs
from .markdown import bash, page, prose, section


class Screen(NamedTuple):
    """Comparisons SET_NAME, one per data set.

    Attributes:
        name: of the comparisons, and of the page.
        title: of the page.
        about: what is compared, and what came out.
        flags: of the command, beside methods, seeds and trials.
    """

    name: str
    title: str
    about: str
    flags: str


CONTROLS = """
    In valueeval23, nlupp_banking and hoc the gold labels tell hardly more about each other than the text does. They are
    controls: a model of dependencies has nothing to give there."""
SCREENS = {
    screen.name: screen
    for screen in (
        Screen(
            "frozen",
            "Texts, on a frozen encoder",
            """
            What does a loss-net add to a pretrained text encoder? Here the encoder, MiniLM, stays as it is, so that a
            run takes seconds. Every method has the same number of trials on validation, scored by one seed. Training
            rows are the first 2,000. Here the classifier reads the first token and a second net the mean of all tokens.
            [What the nets read](texts-views.md) shows that the gains of second nets come from that.""",
            "--freeze_encoder true --per_device_train_batch_size 64",
        ),
        Screen(
            "finetuned",
            "Texts, with a fine-tuned encoder",
            """
            What does a loss-net add to an encoder that is fine-tuned? MiniLM is trained on the first 2,000 rows for 4
            epochs. Nothing is searched: every method has its first settings. For `nce_balanced` these are a share of
            0.5 of the task loss's pull, and that is far too much in 500 steps: it loses points on every set but
            brighter_eng. Search λ1, or let the default rule choose it. The runs shared one GPU, so the tables have no
            seconds.""",
            "--num_train_epochs 4",
        ),
    )
}


def screen_page(screen: Screen) -> str:
    tables = {data: runs.compared(f"{data}_{screen.name}") for data in _there(screen)}
    return page(
        screen.title,
        prose(screen.about),
        prose(CONTROLS),
        section("Summary", text_screen.summary(runs.STORE, screen.name, METRIC)),
        *(section(f"{data}_{screen.name}", markdown(found, False).strip()) for data, found in tables.items()),
        section("How to read the tables", legend(next(iter(tables.values())))),
        section("Commands", bash(*_commands(screen))),
    )


def _there(screen: Screen) -> list[str]:
    return [data for data in text_screen.SETS if runs.there([f"{data}_{screen.name}"])]


def _commands(screen: Screen) -> list[str]:
    """One for the data sets with the same methods, seeds and trials."""
    program = f"python benchmarks/text_screen.py {screen.name} --data_dir PATH --encoder FOLDER {screen.flags}"
    by_means: dict[str, list[str]] = {}
    for data in _there(screen):
        stored = runs.stored(f"{data}_{screen.name}")
        by_method = stored.all()
        seeds = sorted({run["seed"] for found in by_method.values() for run in found})
        means = f"--losses {' '.join(method for method in METHODS if method in by_method)}"
        means += f" --seeds {' '.join(map(str, seeds))} --budget {stored.identity()['budget']}"
        by_means.setdefault(means, []).append(data)
    return [f"{program} {means} --sets {' '.join(names)}" for means, names in by_means.items()]


def names() -> list[str]:
    """The pages that have runs."""
    return [f"texts-{screen.name}" for screen in SCREENS.values() if _there(screen)]


def all_pages() -> dict[str, str]:
    return {f"texts-{screen.name}": screen_page(screen) for screen in SCREENS.values() if _there(screen)}
