"""Tagging with few tags and a reward: citation fields from 5, 10 or 50 tagged references, rules for the others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from datasets import Dataset, concatenate_datasets
from transformers import set_seed

from ...data import TagDataArguments, TagSequenceData, load_tags
from ...data.tensors.semi_supervised import reward_rows
from ...data.tensors.vocabulary import Vocabulary
from ...data.tensors.word_vectors import load_word_vectors
from ...data.tensors.words import WordRows, encode_words, load_tokenizer, tokenize_words
from ...metrics import tagging_compute_metrics
from ...models import SealForTokenClassification, is_bilstm
from ...reports import close_tags
from ...spaces import RewardSpace
from ...spaces.rewards import FunctionReward, Reward, RuleReward, read_function
from ...trainer import SealTrainer
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from ...utils.messages import check_owner
from ..flags import check_flags
from ..recipes import packaged_recipe, parse_recipe


@dataclass
class RewardArguments:
    """The rules and the nets."""

    rules: str | None = field(default=None, metadata={"help": "YAML file of rules, see seal_hf/spaces/rewards.py."})
    reward: str | None = field(
        default=None,
        metadata={"help": "MODULE:FUNCTION for the rules: (words, tags) -> [0, 1]; in no recipe."},
    )
    repeat_labelled: int = field(default=1, metadata={"help": "How often each tagged row stands among the rows."})
    model_name_or_path: str | None = field(default=None, metadata={"help": "Hugging Face encoder; default: a BiLSTM."})
    energy: str = field(default="chain", metadata={"help": "Of the loss-net."})
    word_vectors: str | None = field(default=None, metadata={"help": "BiLSTM: a file of vectors, or a package's name."})
    hidden_size: int | None = field(
        default=None, metadata={"help": "BiLSTM: width, both directions together; default: 200."}
    )
    dropout: float | None = field(default=None, metadata={"help": "BiLSTM: dropout; default: 0.3."})


ARGUMENTS = (TagDataArguments, RewardArguments, SealTrainingArguments)
DROPOUT = 0.3  # of a BiLSTM


def make_reward(net_args: RewardArguments, label_names: list[str], argv: list[str]) -> Reward:
    """The function, else the rules."""
    if net_args.reward is not None:
        if not any(word.split("=")[0] == "--reward" for word in argv):
            raise ValueError("`reward` stands in the recipe, but it names code that is run: give --reward yourself.")
        return FunctionReward(read_function(net_args.reward), label_names)
    if net_args.rules is None:
        raise ValueError("`rules` is missing: a YAML file of rules (--rules FILE), or --reward MODULE:FUNCTION.")
    return RuleReward(net_args.rules, label_names)


def build(
    data: TagSequenceData, net_args: RewardArguments, args: SealTrainingArguments
) -> tuple[SealForTokenClassification, Callable[[Dataset], WordRows], Any]:
    """Both nets, a function from a split to the rows they read, and what is saved with them."""
    nets: dict[str, Any] = {"energy": net_args.energy, "loss_net_encoder": args.loss_net_encoder}
    nets |= {"crf": args.task_loss == "crf" or None, "hidden_size": net_args.hidden_size, "dropout": net_args.dropout}
    name = net_args.model_name_or_path
    words = {"word_vectors": net_args.word_vectors}
    if name is not None and not is_bilstm(name):
        check_owner(words, "a BiLSTM", f"`model_name_or_path` is {name!r}")
        seal = SealForTokenClassification.for_data(data, name, **nets)
        tokenizer = load_tokenizer(name, add_prefix_space=True)
        return seal, lambda split: tokenize_words(split, tokenizer, config=seal.config), tokenizer
    if name is not None:
        vocabulary = Vocabulary.from_pretrained(name, asked=words)
        seal = SealForTokenClassification.for_data(data, name, **nets)
    else:
        vectors = load_word_vectors(net_args.word_vectors) if net_args.word_vectors else None
        assert data.unlabelled is not None  # or `main` has refused it
        seen = concatenate_datasets([rows.select_columns("words") for rows in (data.train, data.unlabelled)])
        vocabulary = Vocabulary.from_data(
            seen, data.other_splits, vectors=vectors, features=["case"], characters=True, zero_digits=vectors is None
        )
        nets["dropout"] = DROPOUT if net_args.dropout is None else net_args.dropout
        seal = SealForTokenClassification.for_data(data, vocabulary=vocabulary, vectors=vectors, **nets)
    return seal, lambda split: encode_words(split, vocabulary), vocabulary


def main(argv: list[str] | None = None) -> dict[str, float]:
    argv = sys.argv[1:] if argv is None else argv
    data_args, net_args, args = parse_recipe(ARGUMENTS, argv, default_recipe=lambda given: packaged_recipe("rewards"))
    check_flags(args, argv, "tag_sequence")
    set_seed(args.seed)
    data = load_tags(**vars(data_args), seed=args.data_seed or 0)
    for note in data.notes:
        print(f"{data.name}: {note}")
    if data.unlabelled is None:
        raise ValueError(f"{data.name} has no unlabelled rows; load it with `num_labelled` (--num_labelled 10).")
    reward = make_reward(net_args, data.label_names, argv)
    seal, rows_of, words = build(data, net_args, args)
    check_was_trained(seal.loss_net, args)
    space = RewardSpace.from_arguments(args, seal.task_net, reward)
    rows = reward_rows(data, rows_of, reward, repeat_labelled=net_args.repeat_labelled)
    args.task_weight /= rows.gold_share  # of the mean over the tagged rows
    splits = {"eval": data.validation, "test": data.test}
    splits = {split: (rows_of(dataset), dataset) for split, dataset in splits.items() if dataset is not None}
    trainer = SealTrainer(
        seal,
        args,
        train_dataset=rows,
        eval_dataset=splits["eval"][0],
        space=space,
        compute_metrics=tagging_compute_metrics(data.label_names, data.kind),
        decode_predictions=True,
        processing_class=words,
    )
    result = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_metrics("train", result.metrics)
    facts = {"dataset": data.name, "finetuned_from": net_args.model_name_or_path}
    return close_tags(trainer, splits, data, facts)
