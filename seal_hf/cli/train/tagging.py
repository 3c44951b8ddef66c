"""Tagging with an energy network as a loss function: parts of speech, entities, citation fields."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import set_seed

from ...adapters import METHODS
from ...data import TagDataArguments, TagSequenceData, load_tags
from ...data.tensors.vocabulary import Vocabulary
from ...data.tensors.word_vectors import load_word_vectors
from ...data.tensors.words import WordRows, encode_words, load_tokenizer, tokenize_words
from ...energies import energies_of
from ...metrics import tagging_compute_metrics
from ...models import SealForTokenClassification, is_bilstm
from ...reports import close_tags, print_notes
from ...saving import take_loss_net
from ...trainer import SealTrainer
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from ...utils.messages import check_owner
from ..flags import check_flags
from ..programs import early_stopping
from ..recipes import packaged_recipe, parse_recipe


@dataclass
class TaggerArguments:
    """The two nets."""

    model_name_or_path: str | None = field(default=None, metadata={"help": "Hugging Face encoder; default: a BiLSTM."})
    adapter: str | None = field(default=None, metadata={"help": f"Train an adapter only: {', '.join(METHODS)}."})
    max_length: int | None = field(default=None, metadata={"help": "Longest sentence, in sub-words."})
    truncation: bool = field(default=False, metadata={"help": "Cut longer ones; a cut word gets the first tag (O)."})
    energy: str = field(
        default="chain", metadata={"help": f"Of the loss-net: {', '.join(energies_of('tag_sequence'))}."}
    )
    global_size: int = field(default=128, metadata={"help": "Width of its tag language models or attention."})
    language_model_weight: float = field(default=1.0, metadata={"help": "γ of chain_ge_c."})
    word_vectors: str | None = field(default=None, metadata={"help": "BiLSTM: a file of vectors, or a package's name."})
    train_word_embeddings: bool | None = field(
        default=None, metadata={"help": "BiLSTM: train the word vectors too; default: true."}
    )
    word_features: str = field(default="", metadata={"help": "BiLSTM: columns to read, by commas; and case."})
    characters: bool = field(default=False, metadata={"help": "BiLSTM: read words by their characters too."})
    hidden_size: int | None = field(
        default=None, metadata={"help": "BiLSTM: width, both directions together; default: 200."}
    )
    num_layers: int | None = field(default=None, metadata={"help": "BiLSTM: layers; default: 1."})
    dropout: float | None = field(default=None, metadata={"help": "BiLSTM: dropout; default: 0.3."})
    loss_net_path: str | None = field(
        default=None, metadata={"help": "A trained loss-net to use; frozen with --loss_net_steps 0 (SEAL-static)."}
    )
    patience: int = field(default=0, metadata={"help": "Stop after so many evaluations without gain; 0: never."})


ARGUMENTS = (TagDataArguments, TaggerArguments, SealTrainingArguments)
SIZES, DROPOUT = ("hidden_size", "num_layers", "dropout", "train_word_embeddings"), 0.3  # of a BiLSTM


def build(
    data: TagSequenceData, net_args: TaggerArguments, args: SealTrainingArguments
) -> tuple[SealForTokenClassification, Callable[[Dataset], WordRows], Any]:
    """Both nets, a function from a split to the rows they read, and what is saved with them."""
    nets: dict[str, Any] = {name: getattr(net_args, name) for name in ("adapter", "energy", "global_size")}
    nets |= {"loss_net_encoder": args.loss_net_encoder, "crf": args.task_loss == "crf" or None}
    if net_args.energy == "chain_ge_c":
        nets["energy_options"] = {"language_model_weight": net_args.language_model_weight}
    sizes = {name: getattr(net_args, name) for name in SIZES}
    name = net_args.model_name_or_path
    features = [feature for feature in net_args.word_features.split(",") if feature]
    words = {"word_vectors": net_args.word_vectors, "word_features": features, "characters": net_args.characters}
    cuts: dict[str, Any] = {"max_length": net_args.max_length, "truncation": net_args.truncation}
    if name is not None and not is_bilstm(name):
        check_owner(words, "a BiLSTM", f"`model_name_or_path` is {name!r}")
        model = SealForTokenClassification.for_data(data, name, **sizes, **nets)
        tokenizer = load_tokenizer(name, add_prefix_space=True)
        return model, lambda split: tokenize_words(split, tokenizer, config=model.config, **cuts), tokenizer
    check_owner(cuts, "a Hugging Face encoder", "the task-net is a BiLSTM")
    if name is not None:
        vocabulary = Vocabulary.from_pretrained(name, asked=words)
        model = SealForTokenClassification.for_data(data, name, **sizes, **nets)
    else:
        vectors = load_word_vectors(net_args.word_vectors) if net_args.word_vectors else None
        characters = net_args.characters
        vocabulary = Vocabulary.from_data(
            data.train, data.other_splits, vectors=vectors, features=features, characters=characters
        )
        sizes["dropout"] = DROPOUT if sizes["dropout"] is None else sizes["dropout"]
        model = SealForTokenClassification.for_data(data, vocabulary=vocabulary, vectors=vectors, **sizes, **nets)
    return model, lambda split: encode_words(split, vocabulary), vocabulary


def main(argv: list[str] | None = None) -> dict[str, float]:

    def default(given: Namespace) -> Path:
        name = given.model_name_or_path
        return packaged_recipe("tagging" if name is None or is_bilstm(name) else "tagging_text")

    data_args, net_args, args = parse_recipe(ARGUMENTS, argv, default_recipe=default)
    check_flags(args, argv, "tag_sequence")
    set_seed(args.seed)
    data = load_tags(**vars(data_args), seed=args.data_seed or 0)
    for note in data.notes:
        print(f"{data.name}: {note}")
    model, rows_of, words = build(data, net_args, args)
    take_loss_net(model, net_args.loss_net_path, args)
    check_was_trained(model.loss_net, args)
    splits = {"eval": data.validation, "test": data.test, **data.extra_tests}
    splits = {split: (rows_of(dataset), dataset) for split, dataset in splits.items() if dataset is not None}
    train_rows = rows_of(data.train)
    print_notes(data.name, train_rows, splits)
    trainer = SealTrainer(
        model,
        args,
        train_dataset=train_rows,
        eval_dataset=splits["eval"][0],
        compute_metrics=tagging_compute_metrics(data.label_names, data.kind),
        decode_predictions=True,
        callbacks=early_stopping(args, net_args.patience),
        processing_class=words,
    )
    result = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_metrics("train", result.metrics)
    facts = {"dataset": data.name, "finetuned_from": net_args.model_name_or_path}
    return close_tags(trainer, splits, data, facts)
