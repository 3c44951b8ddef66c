"""Sections of the page of tags: every loss with every energy, and the best of them with several seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import text_screen

from seal_hf.core.energy import energies_of
from seal_hf.lab.compare.table import p_value, percent
from seal_hf.tasks.tags.compare import BASELINES, LOSSES

from . import runs
from .comparisons import Compared, how_to_read
from .markdown import bash, prose, section, table

SCREEN, TIMES, ACCURACY = "twitter_pos_screen", "twitter_pos_times", "test_accuracy"
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
        "do not gain over cross-entropy.",
    ),
    "conll2000_finals": (
        "The best pairs on chunks",
        "CoNLL-2000: 2,000 of 8,042 training sentences, 894 for validation and 2,012 for test, with 11 types of chunks "
        "in BIO. At most 20 epochs.",
    ),
}
WHOLE = {
    "conll2000_all": (
        "Chunks, with all training sentences",
        "CoNLL-2000, 8,042 training sentences. A CRF is ahead of cross-entropy, and NCE adds nothing to it.",
    )
}
MINILM = {
    "twitter_pos_minilm": ("Parts of speech with MiniLM", "Twitter POS. All methods are level."),
    "wnut17_minilm": (
        "Named entities with MiniLM",
        "WNUT-17, the first 2,000 of 3,394 training sentences. A CRF is ahead of cross-entropy, and NCE "
        "adds nothing to it.",
    ),
    "conll2000_minilm": (
        "Chunks with MiniLM",
        "CoNLL-2000, 2,000 training sentences as above. A CRF is ahead of cross-entropy, and NCE adds nothing to it.",
    ),
}
NETS = {"BiLSTM": FINALS, "MiniLM": MINILM}
# the columns of an energy beside a CRF -> key of the figure; None: the main one of the data
BESIDE = {"figure": None, "exact match": "test_exact_match"}


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
            chance: the table only says which pairs go on."""),
        table(["loss", *(f"`{energy}`" for energy in energies)], rows),
        table(["baseline", "accuracy"], baselines),
        bash(compared.command()),
    )
    return [block, *_times(list(names))]


def _times(energies: list[str]) -> list[str]:
    """The time of an epoch of each loss with the first energy, and of each other energy with NCE; nothing without
    runs."""
    if not runs.there([TIMES]):
        return []
    compared = Compared(TIMES, "tagging")
    found = compared.table()["methods"]
    losses = [(f"`{name}` {found[name]['about']}", name) for name in (*BASELINES, *LOSSES) if name in found]
    others = [(f"`nce` with `{energy}`", f"nce_{energy}") for energy in energies[1:]]
    rows = [[about, f"{found[name]['seconds']:.2f}"] for about, name in losses + others if name in found]
    about = prose(f"""
        Training alone, without evaluations, relative to cross-entropy: the median over seeds, each on one core. The
        energy is `{energies[0]}` where none is named. The BiLSTM takes few milliseconds a step, so a loss-net costs
        more here than beside an encoder. None of the dearer energies is ahead in the table above.""")
    return [section("The time of an epoch", about, table(["method", "time"], rows), bash(compared.command()))]


def _cell(row: Any) -> str:
    return "-" if row is None else f"{percent(row['accuracy'][0])} ({percent(row['validation'])})"


def finals() -> list[str]:
    """What NCE adds to a CRF, and a section for each comparison of the best pairs that has runs."""
    sections, found = [], []
    for compared, how in HOW:
        for name in runs.there(compared):
            title, about = compared[name]
            found.append(Compared(name, "tagging"))
            sections.append(section(title, f"{about} {how}", *found[-1].blocks(with_legend=False)))
    return [*beside_a_crf(), *sections, *([how_to_read(found)] if found else [])]


HOW = (
    (FINALS, "Every search has three trials."),
    (WHOLE, "At most 10 epochs. Every method has its first settings."),
    (
        MINILM,
        "Five epochs at most, in bfloat16. Every method has its first settings, and λ1 = 0.1. The head's "
        "[own rate](defaults.md#the-rate-of-a-fresh-head) is newer.",
    ),
)


def beside_a_crf() -> list[str]:
    """What NCE adds to a CRF on each data set, and on the mean of those with the same task-net."""
    rows = [row for net, names in NETS.items() for row in _gains(net, runs.there(names))]
    if not rows:
        return []
    about = prose("""
        Does an energy add anything to a CRF, which already knows its neighbours? The runs are those of the next
        sections. Differences are paired by seed. A mean has a 95 % interval by a bootstrap over data sets with seeds
        within, and the p of a t-test over the means of the sets. With a BiLSTM the gain is small on every set, and
        clear on none of them. With MiniLM there is no gain.""")
    head = ["task-net", "data", "figure", "seeds", "CRF", "with NCE", "difference"]
    return [
        section("An energy beside a CRF", about, table([*head, "CRF, exact match", "with NCE", "difference"], rows))
    ]


def _gains(net: str, names: list[str]) -> list[list[str]]:
    """A row per comparison, and one for the mean of several."""
    rows: list[list[str]] = []
    gains: dict[str, list[np.ndarray]] = {what: [] for what in BESIDE}
    for name in names:
        crf, ours = (runs.of_method(name, method) for method in ("crf", "crf_nce"))
        seeds, main = sorted(crf.keys() & ours.keys()), "test_f1" if "test_f1" in next(iter(crf.values())) else ACCURACY
        cells = [net, name.rpartition("_")[0], "F1 of spans" if main != ACCURACY else "accuracy", str(len(seeds))]
        for what, key in BESIDE.items():
            gains[what].append(100 * np.array([ours[seed][key or main] - crf[seed][key or main] for seed in seeds]))
            cells += [runs.figure({s: each[s] for s in seeds}, key or main) for each in (crf, ours)]
            cells.append(str(runs.of_differences(gains[what][-1].tolist())))
        rows.append(cells)
    if len(rows) > 1:
        means = [text_screen.interval(by_set) for by_set in gains.values()]
        over = [["", "", f"{one.mean:+.2f} [{one.low:+.2f}, {one.high:+.2f}], p = {p_value(one.p)}"] for one in means]
        rows.append([net, f"mean of the {len(rows)}", "", "", *over[0], *over[1]])
    return rows
