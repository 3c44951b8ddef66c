"""Tagging with an energy network as a loss function: parts of speech, entities, citation fields. First comes what all
programs of tags share: both nets over words, the rows of each split, the trainer, how a run ends. Then come semantic
roles, the arguments of a given predicate, by a transformer. Constituency trees come last: a tag per word, decoded into
a tree."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from datasets import Dataset

from ...cli.search import FINE_TUNED, RATE, Space
from ...cli.train.flags import TOO_LONG, Arguments, OriginArguments, RunArguments
from ...cli.train.program import Prepared, Program, card_facts, labelled_rows
from ...core.energy import energies_of
from ...data import TagDataArguments, TagSequenceData, load_srl, load_tags, load_trees
from ...data.tensors.vocabulary import Vocabulary, load_word_vectors
from ...data.tensors.words import PREDICATE_MARKERS, WordRows, encode_words, load_tokenizer, tokenize_words
from ...nets.adapters import LIBRARIES, METHODS, QUANTIZATIONS
from ...nets.text_pooling import most_tokens
from ...reports.common import Ending
from ...saving import take_loss_net
from ...trainer import SealTrainer
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from ...utils.messages import check_owner
from ..trees.metrics import tree_compute_metrics
from ..trees.report import TREES
from .metrics import tagging_compute_metrics
from .model import FROM_SCRATCH, SealForTokenClassification, is_bilstm
from .report import judged_tags, print_notes, tag_ending


class BothNets(NamedTuple):
    """Both nets and what they read.

    Attributes:
        model: the nets.
        rows_of: split -> the rows that they read.
        words: a vocabulary or a tokenizer, saved with the nets.
    """

    model: SealForTokenClassification
    rows_of: Callable[[Dataset], WordRows]
    words: Any


def has_bilstm(nets: Any) -> bool:
    """True if the task-net is a BiLSTM, fresh or saved; False for a Hugging Face encoder."""
    name, revision = nets.model_name_or_path, getattr(nets, "revision", None)
    return name is None or is_bilstm(name, **({} if revision is None else {"revision": revision}))


def kind(given: Namespace) -> str:
    """The kind of net, `BiLSTM` or `encoder`, which decides on the packaged recipe."""
    return "BiLSTM" if has_bilstm(given) else "encoder"


def ranges(arguments: Arguments) -> Space:
    """What a search varies: the rates."""
    return {"learning_rate": RATE} if has_bilstm(arguments.nets) else FINE_TUNED


def tagger(
    data: TagSequenceData,
    arguments: Arguments,
    options: Sequence[str],
    cuts: Mapping[str, Any],
    words: Mapping[str, Any],
    fresh_vocabulary: Callable[[Any], Vocabulary],
) -> BothNets:
    """Nets with an encoder or a BiLSTM, as `model_name_or_path` says, from the arguments for either."""
    if not has_bilstm(arguments.nets):
        check_owner(words, "a BiLSTM", f"`model_name_or_path` is {arguments.nets.model_name_or_path!r}")
        return encoder_tagger(data, arguments, options, cuts)
    check_owner(cuts, "a Hugging Face encoder", "the task-net is a BiLSTM")
    return bilstm_tagger(data, arguments, options, words, fresh_vocabulary)


def encoder_tagger(
    data: TagSequenceData, arguments: Arguments, options: Sequence[str], cuts: Mapping[str, Any]
) -> BothNets:
    """Nets with a Hugging Face encoder.

    Args:
        options: names of the nets' arguments that `for_data` takes.
        cuts: options of `tokenize_words`.
    """
    name = arguments.nets.model_name_or_path
    model = SealForTokenClassification.for_data(data, name, **net_options(arguments, options))
    tokenizer = load_tokenizer(name, add_prefix_space=True, **arguments.origin(name))
    most, asked = most_tokens(tokenizer, model.config), cuts.get("max_length")
    if most is not None and asked is not None and asked > most:
        arguments.say(TOO_LONG.format(asked=asked, most=most))
    return BothNets(model, lambda split: tokenize_words(split, tokenizer, config=model.config, **cuts), tokenizer)


def bilstm_tagger(
    data: TagSequenceData,
    arguments: Arguments,
    options: Sequence[str],
    words: Mapping[str, Any],
    fresh_vocabulary: Callable[[Any], Vocabulary],
) -> BothNets:
    """Nets with a BiLSTM, fresh or saved.

    Args:
        options: names of the nets' arguments that `for_data` takes.
        words: the vocabulary's options, `word_vectors` and others, which tell what is read of a word.
        fresh_vocabulary: word vectors, or None -> the vocabulary of a fresh BiLSTM.
    """
    name, asked = arguments.nets.model_name_or_path, net_options(arguments, options)
    if name is not None:
        vocabulary = Vocabulary.from_pretrained(name, asked=words, **arguments.origin(name))
        model = SealForTokenClassification.for_data(data, name, **asked)
    else:
        vectors = load_word_vectors(words["word_vectors"]) if words["word_vectors"] else None
        vocabulary = fresh_vocabulary(vectors)
        model = SealForTokenClassification.for_data(data, vocabulary=vocabulary, vectors=vectors, **asked)
    return BothNets(model, lambda split: encode_words(split, vocabulary), vocabulary)


def net_options(arguments: Arguments, names: Sequence[str]) -> dict[str, Any]:
    """Options for `for_data`: the nets' arguments with these names, and what the training arguments imply."""
    nets, training = arguments.nets, arguments.training
    options = {name: getattr(nets, name) for name in names} | arguments.loss_net
    options |= arguments.origin(nets.model_name_or_path)
    return options | {"crf": training.task_loss == "crf" or None}  # None: as it was saved


def rows_of_splits(tagger: BothNets, **splits: Dataset | None) -> dict[str, WordRows]:
    """The rows of each given split."""
    return {split: tagger.rows_of(dataset) for split, dataset in splits.items() if dataset is not None}


def prepared(
    data: TagSequenceData,
    arguments: Arguments,
    tagger: BothNets,
    train_rows: WordRows,
    splits: Mapping[str, WordRows],
    watched: WordRows | None = None,
    **options: Any,
) -> Prepared:
    """The trainer of both nets.

    Args:
        watched: rows for evaluations during training; default: all of validation.
        options: of the trainer; by default the metrics are those of tags.
    """
    options = {"compute_metrics": tagging_compute_metrics(data.label_names, data.kind), **options}
    if data.columns:
        train_rows.inputs = {**(train_rows.inputs or {}), **data.columns}
    trainer = SealTrainer(
        tagger.model,
        arguments.training,
        train_dataset=train_rows,
        eval_dataset=splits["eval"] if watched is None else watched,
        decode_predictions=True,
        callbacks=arguments.callbacks,
        processing_class=tagger.words,
        **options,
    )
    return Prepared(trainer, splits)


def evaluate(prepared: Prepared, data: TagSequenceData, arguments: Arguments) -> Ending:
    """Judge all splits with the trained nets, and say how the figures are reported."""
    facts = card_facts(data, arguments)
    return tag_ending(prepared.trainer, prepared.splits, data, facts, judged_tags(data.kind))


@dataclass(kw_only=True)
class EncoderArguments(OriginArguments):
    """How an encoder is trained, and what it reads of a sentence."""

    adapter: str | None = field(default=None, metadata={"help": f"Train only an adapter: {', '.join(METHODS)}."})
    quantization: str | None = field(
        default=None, metadata={"help": f"Base of the adapter in: {', '.join(QUANTIZATIONS)}."}
    )
    max_length: int | None = field(default=None, metadata={"help": "Longest sentence, in sub-words."})
    truncation: bool = field(
        default=False, metadata={"help": "Cut longer sentences; words that are cut get the first tag (O)."}
    )


@dataclass
class TaggerArguments(EncoderArguments):
    """The two nets."""

    model_name_or_path: str | None = field(default=None, metadata={"help": "Hugging Face encoder; default: a BiLSTM."})
    energy: str = field(
        default="chain", metadata={"help": f"Energy of the loss-net: {', '.join(energies_of('tag_sequence'))}."}
    )
    global_size: int = field(default=128, metadata={"help": "Width of its tag language models or attention."})
    word_vectors: str | None = field(default=None, metadata={"help": "BiLSTM: a file of vectors, or a package's name."})
    word_features: str = field(default="", metadata={"help": "BiLSTM: columns to read, separated by commas; and case."})
    characters: bool = field(default=False, metadata={"help": "BiLSTM: read words by their characters too."})
    hidden_size: int | None = field(default=None, metadata={"help": "BiLSTM: width, both directions together."})
    num_layers: int | None = field(default=None, metadata={"help": "BiLSTM: layers."})
    dropout: float | None = field(default=None, metadata={"help": "BiLSTM: dropout."})
    loss_net_path: str | None = field(
        default=None, metadata={"help": "A trained loss-net to use; frozen with --loss_net_steps 0 (SEAL-static)."}
    )


ARGUMENTS = (TagDataArguments, TaggerArguments, RunArguments, SealTrainingArguments)
OPTIONS = "adapter quantization energy global_size hidden_size num_layers dropout".split()


def make_trainer(data: TagSequenceData, arguments: Arguments, **options: Any) -> Prepared:
    """The trainer of both nets, which also gets `options`."""
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
    from_scratch=FROM_SCRATCH,
    kind=kind,
    loader=load_tags,
    ranges=ranges,
    make_trainer=make_trainer,
    evaluate=evaluate,
)
main = PROGRAM.main


# --- semantic roles ---------------------------------------------------------------------------------------------------


@dataclass
class RoleDataArguments:
    """The arguments of [`load_srl`], as flags of a program and keys of a recipe."""

    dataset: str = field(metadata={"help": "Folder, file, name under data_dir or Hub id."})
    data_dir: str | None = field(default=None, metadata={"help": "Folder of named data sets; default: $SEAL_HF_DATA."})
    scheme: str = field(default="auto", metadata={"help": "Tags in this scheme: auto (as found), bio or bioes."})
    max_train_rows: int | None = field(
        default=None, metadata={"help": "Train on this many propositions, drawn by the seed."}
    )


@dataclass
class RoleArguments(EncoderArguments):
    """The two nets, and what they read."""

    model_name_or_path: str = field(metadata={"help": "Hugging Face encoder or token classifier."})
    max_eval_rows: int | None = field(
        default=None, metadata={"help": "Validate on this many first rows while training."}
    )
    predicate_marker: str | None = field(
        default=None,
        metadata={
            "help": f"One of {', '.join(PREDICATE_MARKERS)}; default: token_type, if the encoder has token types."
        },
    )
    energy: str = field(
        default="tag_attention", metadata={"help": f"Energy of the loss-net: {', '.join(energies_of('tag_sequence'))}."}
    )
    global_size: int = field(default=256, metadata={"help": "Width of its attention or tag language models."})


ROLE_ARGUMENTS = (RoleDataArguments, RoleArguments, RunArguments, SealTrainingArguments)


def settle_roles(arguments: Arguments) -> None:
    """Let an adapter have cross-entropy, since a CRF is not saved with it. Raises ValueError for a BiLSTM, since roles
    need an encoder."""
    nets, training = arguments.nets, arguments.training
    if has_bilstm(nets):
        raise ValueError(f"{nets.model_name_or_path} holds a BiLSTM; this program needs a Hugging Face encoder.")
    adapted = nets.adapter is not None or training.loss_net_encoder in LIBRARIES
    if adapted and not arguments.given & {"task_loss", "recipe"}:
        training.task_loss = "cross_entropy"


def make_role_trainer(data: TagSequenceData, arguments: Arguments) -> Prepared:
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


ROLE_PROGRAM = Program(
    ROLE_ARGUMENTS,
    task="tags",
    metric="accuracy",
    recipes={"encoder": "tagging_text roles"},
    loader=partial(load_srl, train_subset="random"),
    ranges=lambda arguments: FINE_TUNED,
    make_trainer=make_role_trainer,
    evaluate=evaluate,
    settle=settle_roles,
)
role_main = ROLE_PROGRAM.main


# --- constituency trees -----------------------------------------------------------------------------------------------


@dataclass
class TreeDataArguments:
    """What to parse: the arguments of [`load_trees`], as flags of a program and keys of a recipe."""

    dataset: str | None = field(
        default=None, metadata={"help": "File, folder or .zip of bracketed trees; default: an embedded grammar."}
    )
    data_dir: str | None = field(default=None, metadata={"help": "Folder of named data sets; default: $SEAL_HF_DATA."})
    max_train_rows: int | None = field(default=None, metadata={"help": "Train on this many trees only."})


TREE_ARGUMENTS = (TreeDataArguments, TaggerArguments, RunArguments, SealTrainingArguments)


def make_tree_trainer(data: TagSequenceData, arguments: Arguments) -> Prepared:
    """The trainer of both nets."""
    metrics = tree_compute_metrics(data.label_names, data.validation["pos"][:])
    return make_trainer(data, arguments, compute_metrics=metrics)


def evaluate_trees(prepared: Prepared, data: TagSequenceData, arguments: Arguments) -> Ending:
    """Judge all splits with the trained nets, and say how the figures are reported."""
    return tag_ending(prepared.trainer, prepared.splits, data, card_facts(data, arguments), TREES)


TREE_PROGRAM = replace(
    PROGRAM,
    arguments=TREE_ARGUMENTS,
    task="trees",
    metric="f1",
    recipes={"BiLSTM": "parsing", "encoder": "parsing_text"},
    loader=load_trees,
    make_trainer=make_tree_trainer,
    evaluate=evaluate_trees,
)
tree_main = TREE_PROGRAM.main
