"""Semantic roles with an energy network as a loss function: the arguments of a given predicate, by a transformer."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...cli.train.arguments import Arguments, OriginArguments, RunArguments
from ...cli.train.program import Prepared, Program, labelled_rows
from ...cli.tuning.ranges import FINE_TUNED
from ...core.energy import energies_of
from ...data import TagSequenceData, load_srl
from ...data.tensors.words import PREDICATE_MARKERS
from ...nets.adapters import METHODS, QUANTIZATIONS
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from .program import encoder_tagger, evaluate, has_bilstm, prepared, rows_of_splits
from .report import print_notes


@dataclass
class RoleDataArguments:
    """The arguments of [`load_srl`], which loads propositions, as flags of a program and keys of a recipe."""

    dataset: str = field(metadata={"help": "Folder, file, name under data_dir or Hub id."})
    data_dir: str | None = field(default=None, metadata={"help": "Folder of named data sets; default: $SEAL_HF_DATA."})
    scheme: str = field(default="auto", metadata={"help": "Tags in this scheme: auto (as found), bio or bioes."})
    max_train_rows: int | None = field(
        default=None, metadata={"help": "Train on this many propositions, drawn by the seed."}
    )


@dataclass
class RoleArguments(OriginArguments):
    """The two nets, and what they read."""

    model_name_or_path: str = field(metadata={"help": "Hugging Face encoder or token classifier."})
    max_eval_rows: int | None = field(
        default=None, metadata={"help": "Validate on this many first rows while training."}
    )
    adapter: str | None = field(default=None, metadata={"help": f"Train only an adapter: {', '.join(METHODS)}."})
    quantization: str | None = field(
        default=None, metadata={"help": f"Base of the adapter in: {', '.join(QUANTIZATIONS)}."}
    )
    predicate_marker: str | None = field(
        default=None,
        metadata={
            "help": f"One of {', '.join(PREDICATE_MARKERS)}; default: token_type, if the encoder has token types."
        },
    )
    max_length: int | None = field(default=None, metadata={"help": "Longest sentence, in sub-words."})
    truncation: bool = field(default=False, metadata={"help": "Cut longer ones; cut words get the first tag (O)."})
    energy: str = field(
        default="tag_attention", metadata={"help": f"Energy of the loss-net: {', '.join(energies_of('tag_sequence'))}."}
    )
    global_size: int = field(default=256, metadata={"help": "Width of its attention or tag language models."})


ARGUMENTS = (RoleDataArguments, RoleArguments, RunArguments, SealTrainingArguments)


def settle(arguments: Arguments) -> None:
    """Raises ValueError for a BiLSTM."""
    nets = arguments.nets
    if has_bilstm(nets):
        raise ValueError(f"{nets.model_name_or_path} holds a BiLSTM; this program needs a Hugging Face encoder.")


def make_trainer(data: TagSequenceData, arguments: Arguments) -> Prepared:
    """The trainer of both nets."""
    nets = arguments.nets
    reads: dict[str, Any] = {name: getattr(nets, name) for name in ("max_length", "truncation", "predicate_marker")}
    tagger = encoder_tagger(data, arguments, ("adapter", "quantization", "energy", "global_size"), reads)
    check_was_trained(tagger.model.loss_net, arguments.training)
    splits = rows_of_splits(tagger, eval=data.validation, test=data.test)
    (train_rows, _), watched = labelled_rows(data, arguments, tagger.model, tagger.rows_of), None
    print_notes(data.name, train_rows, splits, arguments.say)
    if nets.max_eval_rows is not None:
        watched = tagger.rows_of(data.validation.select(range(min(nets.max_eval_rows, len(data.validation)))))
    return prepared(data, arguments, tagger, train_rows, splits, watched)


PROGRAM = Program(
    ARGUMENTS,
    task="tags",
    metric="accuracy",
    recipes={"encoder": "tagging_text"},
    loader=partial(load_srl, train_subset="random"),
    ranges=lambda arguments: FINE_TUNED,
    make_trainer=make_trainer,
    evaluate=evaluate,
    settle=settle,
)
main = PROGRAM.main
