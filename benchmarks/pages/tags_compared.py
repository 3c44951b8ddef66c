"""Sections of the page of tags: every loss with every energy, and the best of them with several seeds."""

from __future__ import annotations

from typing import Any

from seal_hf.compare.methods.tags import BASELINES, LOSSES
from seal_hf.compare.table import percent
from seal_hf.energies import energies_of

from . import runs
from .comparisons import Compared
from .markdown import bash, prose, section, table

SCREEN = "twitter_pos_screen"
FINALS = {  # comparison -> title of its section, and what the data are
    "twitter_pos_finals": (
        "The best pairs on parts of speech",
        "Twitter POS, at most 40 epochs. No energy gains over a CRF; InfNet+ and ranking are between it and "
        "cross-entropy.",
    ),
    "wnut17_finals": (
        "The best pairs on named entities",
        "WNUT-17, at most 20 epochs. `constrained` decides within the scheme of the tags, a CRF by its chain, the "
        "others word by word. An energy beside a CRF is level with the CRF alone. Energies beside independent tags "
        "are behind cross-entropy.",
    ),
    "conll2000_finals": (
        "The best pairs on chunks",
        "CoNLL-2000: 2,000 of 8,042 training sentences, 894 for validation and 2,012 for test, with 11 types of chunks "
        "in BIO. At most 20 epochs.",
    ),
}


def every_pair() -> list[str]:
    """Test and validation accuracy of each pair of loss and energy, and of the baselines; nothing without runs."""
    if not runs.there([SCREEN]):
        return []
    compared = Compared(SCREEN, "tagging")
    found, energies = compared.table()["methods"], list(energies_of("tag_sequence"))
    names = {energies[0]: "{}", **{energy: f"{{}}_{energy}" for energy in energies[1:]}}  # the first is the default
    rows = [
        [f"`{loss}` {about}", *(_cell(found.get(name.format(loss))) for name in names.values())]
        for loss, (about, _) in LOSSES.items()
    ]
    baselines = [[f"`{name}` {found[name]['about']}", _cell(found[name])] for name in BASELINES if name in found]
    block = section(
        "Every loss with every energy",
        prose("""
            Twitter POS again. The BiLSTM reads characters too, so all figures are higher than above. A run has at most
            25 epochs, and every method its first settings. There is 1 seed. A cell is the accuracy on the test set and,
            in brackets, on validation rows. Two seeds of a method differ by some 0.2, so most differences here are
            chance: the table only says which pairs go on. A dash is a pair that was not run."""),
        table(["loss", *(f"`{energy}`" for energy in energies)], rows),
        table(["baseline", "accuracy"], baselines),
        bash(compared.command()),
    )
    return [block]


def _cell(row: Any) -> str:
    return "-" if row is None else f"{percent(row['accuracy'][0])} ({percent(row['validation'])})"


def finals() -> list[str]:
    """A section for each comparison of the best pairs that has runs."""
    sections = []
    for name in runs.there(FINALS):
        title, about = FINALS[name]
        sections.append(section(title, f"{about} Every search has three trials.", *Compared(name, "tagging").blocks()))
    return sections
