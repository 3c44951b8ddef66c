"""Tagging with few tags and a reward: citation fields from 5, 10 or 50 tagged references, and rules for the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from datasets import concatenate_datasets

from ...data import TagDataArguments, TagSequenceData, load_tags
from ...data.tensors.semi_supervised import reward_rows
from ...data.tensors.vocabulary import Vocabulary
from ...reports.page.rewards import reward_facts
from ...spaces import RewardSpace
from ...spaces.rewards import FunctionReward, Reward, RuleReward, read_function
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from . import taggers
from .arguments import Arguments, RunArguments
from .program import Prepared, Program
from .taggers import prepared, ranges, rows_of_splits, tagger


@dataclass
class RewardArguments:
    """The rules and the nets."""

    rules: str | None = field(default=None, metadata={"help": "YAML file of rules, see seal_hf/spaces/rewards.py."})
    reward: str | None = field(
        default=None,
        metadata={"help": "MODULE:FUNCTION in place of rules: (words, tags) -> [0, 1]; not in recipes."},
    )
    repeat_labelled: int = field(default=1, metadata={"help": "How often each tagged row occurs among the rows."})
    model_name_or_path: str | None = field(default=None, metadata={"help": "Hugging Face encoder; default: a BiLSTM."})
    energy: str = field(default="chain", metadata={"help": "Energy of the loss-net."})
    word_vectors: str | None = field(default=None, metadata={"help": "BiLSTM: a file of vectors, or a package's name."})
    hidden_size: int | None = field(
        default=None, metadata={"help": "BiLSTM: width, both directions together; default: 200."}
    )
    dropout: float | None = field(default=None, metadata={"help": "BiLSTM: dropout; default: 0.3."})


ARGUMENTS = (TagDataArguments, RewardArguments, RunArguments, SealTrainingArguments)


def make_reward(arguments: Arguments, label_names: list[str]) -> Reward:
    """The given function, or else the rules."""
    if arguments.nets.reward is not None:
        if "reward" not in arguments.given:
            raise ValueError(
                "`reward` is in the recipe, but it names code that runs: give --reward on the command line."
            )
        return FunctionReward(read_function(arguments.nets.reward), label_names)
    if arguments.nets.rules is None:
        raise ValueError("`rules` is missing: give a YAML file of rules (--rules FILE), or --reward MODULE:FUNCTION.")
    return RuleReward(arguments.nets.rules, label_names)


def make_trainer(data: TagSequenceData, arguments: Arguments) -> Prepared:
    """The trainer of both nets, on rows with tags and rows with a reward."""
    if data.unlabelled is None:
        raise ValueError(f"{data.name} has no unlabelled rows; load it with `num_labelled` (--num_labelled 10).")
    seen = [rows.select_columns("words") for rows in (data.train, data.unlabelled)]
    reward = make_reward(arguments, data.label_names)

    def fresh_vocabulary(vectors: Any) -> Vocabulary:
        return Vocabulary.from_data(
            concatenate_datasets(seen),
            data.other_splits,
            vectors=vectors,
            features=["case"],
            characters=True,
            zero_digits=vectors is None,
        )

    words = {"word_vectors": arguments.nets.word_vectors}
    both = tagger(data, arguments, ("energy", "hidden_size", "dropout"), {}, words, fresh_vocabulary)
    check_was_trained(both.model.loss_net, arguments.training)
    space = RewardSpace.from_arguments(arguments.training, both.model.task_net, reward)
    rows = reward_rows(data, both.rows_of, reward, repeat_labelled=arguments.nets.repeat_labelled)
    arguments.training.task_weight /= rows.gold_share  # λ2 of a mean over tagged rows only
    splits = rows_of_splits(both, eval=data.validation, test=data.test)
    return prepared(data, arguments, both, rows, splits, space=space)


def close(prepared: Prepared, data: TagSequenceData, arguments: Arguments) -> dict[str, float]:
    """Evaluate, save and report, also on the reward."""
    figures = taggers.close(prepared, data, arguments)
    rows, _ = prepared.splits["eval"]
    prepared.trainer.report_facts["rewards"] = reward_facts(prepared.trainer, data, rows)
    return figures


PROGRAM = Program(
    ARGUMENTS,
    output="tag_sequence",
    metric="accuracy",
    recipes={"tags": "rewards"},
    loader=load_tags,
    ranges=ranges,
    make_trainer=make_trainer,
    close=close,
    shares=False,
)
main = PROGRAM.main
