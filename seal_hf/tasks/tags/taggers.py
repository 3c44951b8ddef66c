"""Shared parts of the tagging programs: both nets over words, the rows of each split, the trainer, how a run ends."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from datasets import Dataset

from ...cli.train.arguments import Arguments
from ...cli.train.program import Prepared, card_facts
from ...cli.train.texts import TOO_LONG
from ...cli.tuning.ranges import FINE_TUNED, RATE, Space
from ...data import TagSequenceData
from ...data.tensors.vocabulary import Vocabulary
from ...data.tensors.word_vectors import load_word_vectors
from ...data.tensors.words import WordRows, encode_words, load_tokenizer, tokenize_words
from ...nets.text_windows import most_tokens
from ...trainer import SealTrainer
from ...utils.messages import check_owner
from .metrics import tagging_compute_metrics
from .model import SealForTokenClassification, is_bilstm
from .report import close_tags

Splits = dict[str, tuple[WordRows, Dataset]]  # name -> the rows that the nets read, and their data


class Tagger(NamedTuple):
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
    """`BiLSTM` or `encoder`: their packaged recipes differ."""
    return "BiLSTM" if has_bilstm(given) else "encoder"


def ranges(arguments: Arguments) -> Space:
    """The searched settings: the rates."""
    return {"learning_rate": RATE} if has_bilstm(arguments.nets) else FINE_TUNED


def tagger(
    data: TagSequenceData,
    arguments: Arguments,
    options: Sequence[str],
    cuts: Mapping[str, Any],
    words: Mapping[str, Any],
    fresh_vocabulary: Callable[[Any], Vocabulary],
) -> Tagger:
    """Nets with an encoder or a BiLSTM, by `model_name_or_path`, from the arguments of both."""
    if not has_bilstm(arguments.nets):
        check_owner(words, "a BiLSTM", f"`model_name_or_path` is {arguments.nets.model_name_or_path!r}")
        return encoder_tagger(data, arguments, options, cuts)
    check_owner(cuts, "a Hugging Face encoder", "the task-net is a BiLSTM")
    return bilstm_tagger(data, arguments, options, words, fresh_vocabulary)


def encoder_tagger(
    data: TagSequenceData, arguments: Arguments, options: Sequence[str], cuts: Mapping[str, Any]
) -> Tagger:
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
    return Tagger(model, lambda split: tokenize_words(split, tokenizer, config=model.config, **cuts), tokenizer)


def bilstm_tagger(
    data: TagSequenceData,
    arguments: Arguments,
    options: Sequence[str],
    words: Mapping[str, Any],
    fresh_vocabulary: Callable[[Any], Vocabulary],
) -> Tagger:
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
    return Tagger(model, lambda split: encode_words(split, vocabulary), vocabulary)


def net_options(arguments: Arguments, names: Sequence[str]) -> dict[str, Any]:
    """Options for `for_data`: the nets' arguments with these names, and those that the training arguments imply."""
    nets, training = arguments.nets, arguments.training
    options = {name: getattr(nets, name) for name in names} | arguments.loss_net
    options |= arguments.origin(nets.model_name_or_path)
    gamma = getattr(nets, "language_model_weight", 1.0)
    if nets.energy == "chain_ge_c":
        options["energy_options"] = {"language_model_weight": gamma}
    elif gamma != 1:
        raise ValueError(
            f"`language_model_weight` is {gamma}, but the energy {nets.energy!r} does not read it. Give --energy "
            "chain_ge_c, or leave it out."
        )
    return options | {"crf": training.task_loss == "crf" or None}  # None: as it was saved


def rows_of_splits(tagger: Tagger, **splits: Dataset | None) -> Splits:
    """The rows of each given split."""
    return {split: (tagger.rows_of(dataset), dataset) for split, dataset in splits.items() if dataset is not None}


def prepared(
    data: TagSequenceData,
    arguments: Arguments,
    tagger: Tagger,
    train_rows: WordRows,
    splits: Splits,
    watched: WordRows | None = None,
    **options: Any,
) -> Prepared:
    """The trainer of both nets.

    Args:
        watched: rows for evaluations during training; default: all of validation.
        options: of the trainer; by default the metrics are those of tags.
    """
    options = {"compute_metrics": tagging_compute_metrics(data.label_names, data.kind), **options}
    trainer = SealTrainer(
        tagger.model,
        arguments.training,
        train_dataset=train_rows,
        eval_dataset=splits["eval"][0] if watched is None else watched,
        decode_predictions=True,
        callbacks=arguments.callbacks,
        processing_class=tagger.words,
        **options,
    )
    return Prepared(trainer, splits)


def close(prepared: Prepared, data: TagSequenceData, arguments: Arguments) -> dict[str, float]:
    """Evaluate, save and report."""
    return close_tags(prepared.trainer, prepared.splits, data, card_facts(data, arguments))
