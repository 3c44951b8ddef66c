"""Reports on a trained parser: those of tags, judged as trees."""

from __future__ import annotations

from typing import Any

from datasets import Dataset

from ...data.brackets import tags_to_tree
from ...data.tensors.words import WordRows
from ..tags.decisions import INDEPENDENT, VITERBI
from ..tags.metrics import Tags
from ..tags.report import Judged
from .metrics import label_report, tree_metrics
from .page import tree_facts

DECODED = {INDEPENDENT: "each tag by itself", VITERBI: "best sequence of the CRF"}
# key in the result files, without `eval_` or `test_` -> its name for readers
FIGURES = {
    "f1": "F1 of labelled brackets",
    "precision": "precision of labelled brackets",
    "recall": "recall of labelled brackets",
    "exact_match": "trees that match exactly",
    "accuracy": "accuracy of tags",
    **{f"f1_{decoder}": f"F1 of labelled brackets, {how}" for decoder, how in DECODED.items()},
}


def _page(
    trainer: Any, data: Any, rows: WordRows, dataset: Dataset, predicted: Tags, gold: Tags, origin: Any
) -> dict[str, Any]:
    by_label = label_report(predicted, gold, dataset["pos"][:])
    notes = [note for note in data.notes if "split 80/10/10" in note]
    return {"notes": notes, **tree_facts(predicted, gold, dataset, by_label, origin)}


TREES = Judged(
    "plain",
    FIGURES,
    ("f1",),
    figures=tree_metrics,
    report=label_report,
    page=_page,
    files=("new.txt", "trees.mrg"),
    section="trees",
    unit="label",
    rows="trees",
    shown=tags_to_tree,
)
