"""Constituency parsing as tagging with an energy network as a loss function: one tag per word, decoded into a tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...cli.train.arguments import Arguments, RunArguments
from ...cli.train.program import Prepared, Program, card_facts
from ...data import TagSequenceData, load_trees
from ...reports.common import Ending
from ...training.arguments import SealTrainingArguments
from ..tags.model import FROM_SCRATCH
from ..tags.program import TaggerArguments, kind, ranges
from ..tags.program import make_trainer as make_tagger
from ..tags.report import tag_ending
from .metrics import tree_compute_metrics
from .report import TREES


@dataclass
class TreeDataArguments:
    """What to parse: the arguments of [`load_trees`], as flags of a program and keys of a recipe."""

    dataset: str | None = field(
        default=None, metadata={"help": "File, folder or .zip of bracketed trees; default: an embedded grammar."}
    )
    data_dir: str | None = field(default=None, metadata={"help": "Folder of named data sets; default: $SEAL_HF_DATA."})
    max_train_rows: int | None = field(default=None, metadata={"help": "Train on this many trees only."})


ARGUMENTS = (TreeDataArguments, TaggerArguments, RunArguments, SealTrainingArguments)


def make_trainer(data: TagSequenceData, arguments: Arguments) -> Prepared:
    """The trainer of both nets."""
    metrics = tree_compute_metrics(data.label_names, data.validation["pos"][:])
    return make_tagger(data, arguments, compute_metrics=metrics)


def evaluate(prepared: Prepared, data: TagSequenceData, arguments: Arguments) -> Ending:
    """The figures of all splits, and how they are reported."""
    return tag_ending(prepared.trainer, prepared.splits, data, card_facts(data, arguments), TREES)


PROGRAM = Program(
    ARGUMENTS,
    task="trees",
    metric="f1",
    recipes={"BiLSTM": "parsing", "encoder": "parsing_text"},
    from_scratch=FROM_SCRATCH,
    kind=kind,
    loader=load_trees,
    ranges=ranges,
    make_trainer=make_trainer,
    evaluate=evaluate,
)
main = PROGRAM.main
