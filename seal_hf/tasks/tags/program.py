"""Tagging with an energy network as a loss function: parts of speech, entities, citation fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...cli.train.arguments import Arguments, OriginArguments, RunArguments
from ...cli.train.program import Prepared, Program, labelled_rows
from ...core.energy import energies_of
from ...data import TagDataArguments, TagSequenceData, load_tags
from ...data.tensors.vocabulary import Vocabulary
from ...nets.adapters import METHODS, QUANTIZATIONS
from ...saving import take_loss_net
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from .report import print_notes
from .taggers import close, kind, prepared, ranges, rows_of_splits, tagger


@dataclass
class TaggerArguments(OriginArguments):
    """The two nets."""

    model_name_or_path: str | None = field(default=None, metadata={"help": "Hugging Face encoder; default: a BiLSTM."})
    adapter: str | None = field(default=None, metadata={"help": f"Train only an adapter: {', '.join(METHODS)}."})
    quantization: str | None = field(
        default=None, metadata={"help": f"Base of the adapter in: {', '.join(QUANTIZATIONS)}."}
    )
    max_length: int | None = field(default=None, metadata={"help": "Longest sentence, in sub-words."})
    truncation: bool = field(default=False, metadata={"help": "Cut longer ones; cut words get the first tag (O)."})
    energy: str = field(
        default="chain", metadata={"help": f"Energy of the loss-net: {', '.join(energies_of('tag_sequence'))}."}
    )
    global_size: int = field(default=128, metadata={"help": "Width of its tag language models or attention."})
    language_model_weight: float = field(default=1.0, metadata={"help": "γ of chain_ge_c."})
    word_vectors: str | None = field(default=None, metadata={"help": "BiLSTM: a file of vectors, or a package's name."})
    train_word_embeddings: bool | None = field(
        default=None, metadata={"help": "BiLSTM: train the word vectors too; default: true."}
    )
    word_features: str = field(default="", metadata={"help": "BiLSTM: columns to read, separated by commas; and case."})
    characters: bool = field(default=False, metadata={"help": "BiLSTM: read words by their characters too."})
    hidden_size: int | None = field(
        default=None, metadata={"help": "BiLSTM: width, both directions together; default: 200."}
    )
    num_layers: int | None = field(default=None, metadata={"help": "BiLSTM: layers; default: 1."})
    dropout: float | None = field(default=None, metadata={"help": "BiLSTM: dropout; default: 0.3."})
    loss_net_path: str | None = field(
        default=None, metadata={"help": "A trained loss-net to use; frozen with --loss_net_steps 0 (SEAL-static)."}
    )


ARGUMENTS = (TagDataArguments, TaggerArguments, RunArguments, SealTrainingArguments)
OPTIONS = "adapter quantization energy global_size hidden_size num_layers dropout train_word_embeddings".split()


def make_trainer(data: TagSequenceData, arguments: Arguments, **options: Any) -> Prepared:
    """The trainer of both nets; `options` are further ones of the trainer."""
    nets, training = arguments.nets, arguments.training
    features = nets.word_features.split(",") if nets.word_features else []
    if not all(map(str.strip, features)):
        raise ValueError(
            f"`word_features` is {nets.word_features!r}; it must be names of columns, or case, between commas."
        )
    words = {"word_vectors": nets.word_vectors, "word_features": features, "characters": nets.characters}
    cuts = {"max_length": nets.max_length, "truncation": nets.truncation}

    def fresh_vocabulary(vectors: Any) -> Vocabulary:
        read = {"vectors": vectors, "features": features, "characters": nets.characters}
        return Vocabulary.from_data(data.train, data.other_splits, **read)

    both = tagger(data, arguments, OPTIONS, cuts, words, fresh_vocabulary)
    take_loss_net(both.model, nets.loss_net_path, training)
    check_was_trained(both.model.loss_net, training)
    splits = rows_of_splits(both, eval=data.validation, test=data.test, **data.extra_tests)
    train_rows, _ = labelled_rows(data, arguments, both.model, both.rows_of)
    print_notes(data.name, train_rows, splits, arguments.say)
    return prepared(data, arguments, both, train_rows, splits, **options)


PROGRAM = Program(
    ARGUMENTS,
    task="tags",
    metric="accuracy",
    recipes={"BiLSTM": "tagging", "encoder": "tagging_text"},
    kind=kind,
    loader=load_tags,
    ranges=ranges,
    make_trainer=make_trainer,
    close=close,
)
main = PROGRAM.main
