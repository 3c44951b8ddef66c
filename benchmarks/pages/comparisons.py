"""The page of trees, and sections of the page of masks: comparisons that one command runs again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from seal_hf.compare import comparison
from seal_hf.compare.kinds import KINDS
from seal_hf.compare.kinds.masks import CLASS_FIGURES
from seal_hf.compare.table import legend, markdown

from . import runs
from .markdown import bash, page, prose, section
from .published import beside


class Compared(NamedTuple):
    """A comparison of the results.

    Attributes:
        name: of the comparison.
        kind: the word of its kind of output.
        flags: of its command, without methods and seeds.
    """

    name: str
    kind: str
    flags: str

    def table(self, decoder: str) -> dict[str, Any]:
        """The content of its table, with differences of a figure."""
        return _table(self, decoder)

    def command(self) -> str:
        """The command that runs it again."""
        found = runs.stored(self.name).all()
        methods = [method for method in KINDS[self.kind].methods if method in found]
        seeds = sorted({run["seed"] for each in found.values() for run in each})
        words = f"--losses {' '.join(methods)} --seeds {' '.join(map(str, seeds))}"
        return f"seal-hf compare {self.kind} {self.flags} --output_dir runs/compare/{self.name} {words}"

    def blocks(self, decoder: str) -> tuple[str, ...]:
        """Its table, the legend and the command."""
        found = self.table(decoder)
        return markdown(found, with_legend=False).strip(), legend(found), bash(self.command())


PARSING = Compared("parsing_ptb_nltk", "parsing", "--dataset ptb_nltk --data_dir PATH --characters true")
WEIZMANN = Compared(
    "segmentation_weizmann",
    "segmentation",
    "--dataset weizmann --data_dir PATH --recipe recipes/segmentation/weizmann_ce.yaml",
)
STREETS = (
    "--dataset camvid --data_dir PATH --ignore_index 11 --class_names sky building pole road pavement tree sign fence "
    "car pedestrian bicyclist --crop_size 96 --test_crop_size 0 --per_device_eval_batch_size 8 --num_train_epochs 80 "
    "--patience 15"
)
CAMVID = Compared("segmentation_camvid", "segmentation", f"{STREETS} --num_samples 4")
SEGFORMER = Compared(
    "segmentation_camvid_segformer",
    "segmentation",
    f"{STREETS} --model_name_or_path runs/segformer_small --learning_rate 1e-3 --lr_scheduler_type cosine "
    "--warmup_steps 184",
)


@cache
def _table(compared: Compared, decoder: str) -> dict[str, Any]:
    stored, kind = runs.stored(compared.name), KINDS[compared.kind]
    identity: Mapping[str, Any] = stored.identity()
    figures = CLASS_FIGURES if compared.kind == "segmentation" and identity["labels"] > 2 else kind.figures
    return comparison(stored.all(), figures, kind.methods, decoder, identity["metric"])


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
            IoU over Dice or soft IoU. Both energies leave fewer pieces than cross-entropy. The seeds of a method differ
            more than most methods do."""),
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
