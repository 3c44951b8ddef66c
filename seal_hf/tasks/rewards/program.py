"""Few rows with gold and a reward for the others: label sets, tags or masks, as the rules or the first word say.

First comes what these programs share: the reward, the rows, and how a run ends. Then come the programs. Tags are, for
example, citation fields from 5, 10 or 50 tagged references, with rules for the others. `seal-hf rules check RULES
--dataset ...` comes last. It shows what each rule does on a data set before anything is trained.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from datasets import concatenate_datasets

from ...cli.programs import UsageError
from ...cli.recipes import parse_recipe, read_recipe, recipe_named
from ...cli.train.flags import Arguments, OriginArguments, RunArguments
from ...cli.train.program import Prepared, Program
from ...data import (
    DataArguments,
    MaskDataArguments,
    MultiLabelData,
    SegmentationData,
    TagDataArguments,
    TagSequenceData,
)
from ...data.tensors.vocabulary import Vocabulary
from ...reports.common import Ending
from ...saving.model import kind_of
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from ...utils.messages import did_you_mean, printable, results_table
from ...utils.options import check_given
from ..labels import program as mlc
from ..labels.program import ModelArguments as LabelModelArguments
from ..masks import program as segmentation
from ..masks.program import ModelArguments as MaskModelArguments
from ..tags import program as tagging
from ..tags.program import prepared, rows_of_splits, tagger
from .label_rules import LabelRuleReward
from .mask_rules import MaskRuleReward
from .page import first_rows, followed, gold_of, reward_facts
from .reward import Conflict, LabelFunctionReward, MaskFunctionReward, Reward, Rules, TagFunctionReward, read_function
from .rules import in_words, output_of_rules
from .semi_supervised import inputs_of, reward_rows
from .space import reward_space
from .tag_rules import TagRuleReward

FLAGS = ("rules", "reward", "batch_reward")  # each makes the reward


@dataclass
class RuleArguments:
    """The reward of rows without gold."""

    rules: str | None = field(
        default=None, metadata={"help": "YAML file of rules; seal-hf rules check FILE shows what they do."}
    )
    reward: str | None = field(
        default=None,
        metadata={"help": "MODULE:FUNCTION in place of rules: (input, output) -> [0, 1]; not in recipes."},
    )
    batch_reward: str | None = field(
        default=None,
        metadata={"help": "The same for many at once: (N inputs, candidates (N, S, ...)) -> (N, S); not in recipes."},
    )
    repeat_labelled: int | None = field(
        default=None,
        metadata={
            "help": "How often each labelled row occurs; default: so often that a quarter of the rows have labels."
        },
    )


def make_reward(arguments: Arguments, data: Any) -> Reward:
    """The reward that the flags name: a function, or else the rules.

    Raises:
        ValueError: none is given or two are, a recipe names a function, or the rules do not fit the data.
    """
    nets, names = arguments.nets, data.label_names
    given = [name for name in FLAGS if getattr(nets, name) is not None]
    if len(given) > 1:
        raise ValueError(f"`{given[0]}` and `{given[1]}` are both given, but a run has one reward. Leave one out.")
    if not given:
        raise ValueError(
            "`rules` is missing: give a YAML file of rules (--rules FILE), or --reward MODULE:FUNCTION, or "
            "--batch_reward MODULE:FUNCTION."
        )
    (flag,) = given
    if flag != "rules":
        if flag not in arguments.given:
            raise ValueError(
                f"`{flag}` is in the recipe, but it names code that runs: give --{flag} on the command line."
            )
        kinds = {MultiLabelData: LabelFunctionReward, SegmentationData: MaskFunctionReward}
        kind: Any = kinds.get(type(data), TagFunctionReward)
        return kind(read_function(getattr(nets, flag), flag), names, batched=flag == "batch_reward")
    return rule_reward(nets.rules, data)


def rule_reward(file: str, data: Any) -> Any:
    """A reward by the rules of a file, for the outputs of these data. Raises ValueError as its class does."""
    if isinstance(data, MultiLabelData):
        return LabelRuleReward(file, data.label_names, data.hierarchy)
    return (MaskRuleReward if isinstance(data, SegmentationData) else TagRuleReward)(file, data.label_names)


def rewarded_rows(
    data: Any,
    arguments: Arguments,
    model: Any,
    encode: Callable[[Any], Any],
    make: Callable[[Arguments, Any], Reward] = make_reward,
) -> tuple[Any, dict[str, Any]]:
    """The training rows, with gold or with the reward that `make` gives, and the trainer's options. λ2 is divided by
    the share of rows with gold, so that the task loss is a mean over them."""
    if data.unlabelled is None:
        raise ValueError(
            f"{data.name} has no unlabelled rows; load it with `num_labelled` (--num_labelled 10), or give them: "
            "--unlabelled FILE."
        )
    reward = make(arguments, data)
    kind: Any = kind_of(model)
    space = reward_space(arguments.training, model.task_net, reward, kind.space_of(model.task_net))
    rows = reward_rows(data, encode, reward, repeat_labelled=arguments.nets.repeat_labelled)
    arguments.training.task_weight /= rows.gold_share
    return rows, {"space": space}


def with_reward(program: Program, arguments: tuple[type, type, type, type], **changes: Any) -> Program:
    """A program that trains on rows with gold, with a reward for the other rows, which it also reports.

    Args:
        arguments: its dataclasses of flags, with [`RuleArguments`] among those of the nets.
        changes: to its other attributes.
    """
    make: Any = program.make_trainer

    def evaluate(prepared: Prepared, data: Any, given: Arguments) -> Ending:
        facts = lambda: {"rewards": reward_facts(prepared.trainer, data, prepared.splits["eval"])}  # noqa: E731
        return replace(program.evaluate(prepared, data, given), afterwards=facts)

    made: dict[str, Any] = {"make_trainer": partial(make, train_on=rewarded_rows), "evaluate": evaluate}
    return replace(program, arguments=arguments, shares=False, **made, **changes)


@dataclass
class RewardArguments(RuleArguments, OriginArguments):
    """The reward, and the two nets."""

    model_name_or_path: str | None = field(default=None, metadata={"help": "Hugging Face encoder; default: a BiLSTM."})
    energy: str = field(default="chain", metadata={"help": "Energy of the loss-net."})
    word_vectors: str | None = field(default=None, metadata={"help": "BiLSTM: a file of vectors, or a package's name."})
    hidden_size: int | None = field(default=None, metadata={"help": "BiLSTM: width, both directions together."})
    dropout: float | None = field(default=None, metadata={"help": "BiLSTM: dropout."})


ARGUMENTS = (TagDataArguments, RewardArguments, RunArguments, SealTrainingArguments)


def make_trainer(data: TagSequenceData, arguments: Arguments, train_on: Any = rewarded_rows) -> Prepared:
    """The trainer of both nets, on rows with tags and rows with a reward. `train_on` makes the training rows, as
    [`rewarded_rows`]."""
    seen = [rows.select_columns("words") for rows in (data.train, data.unlabelled) if rows is not None]

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
    rows, options = train_on(data, arguments, both.model, both.rows_of)
    splits = rows_of_splits(both, eval=data.validation, test=data.test)
    return prepared(data, arguments, both, rows, splits, **options)


PROGRAM = with_reward(
    replace(tagging.PROGRAM, recipes={"BiLSTM": "rewards", "encoder": "rewards_text"}, make_trainer=make_trainer),
    ARGUMENTS,
)


@dataclass
class LabelRewardArguments(RuleArguments, LabelModelArguments):
    """The reward, and the two nets."""


LABEL_ARGUMENTS = (DataArguments, LabelRewardArguments, RunArguments, SealTrainingArguments)
LABEL_RECIPES = {kind: f"{name} rewards_labels" for kind, name in mlc.PROGRAM.recipes.items()}
LABEL_PROGRAM = with_reward(
    mlc.PROGRAM, LABEL_ARGUMENTS, recipes=LABEL_RECIPES, before=lambda prepared, data, arguments: False
)


@dataclass
class MaskRewardArguments(RuleArguments, MaskModelArguments):
    """The reward, and the two nets."""


MASK_ARGUMENTS = (MaskDataArguments, MaskRewardArguments, RunArguments, SealTrainingArguments)
MASK_RECIPES = {kind: f"{name} rewards_masks" for kind, name in segmentation.PROGRAM.recipes.items()}
MASK_PROGRAM = with_reward(segmentation.PROGRAM, MASK_ARGUMENTS, recipes=MASK_RECIPES)
PROGRAMS: Mapping[str, Program] = {  # first word of the command line -> program
    "mlc": LABEL_PROGRAM,
    "tagging": PROGRAM,
    "segmentation": MASK_PROGRAM,
}
WORDS = {"label sets": "mlc", "tags": "tagging", "masks": "segmentation"}  # outputs of rules -> that word


def program_of(words: Sequence[str]) -> tuple[Program, list[str]]:
    """The program that a command line asks for, and its flags. The first word names it. Otherwise the rules, named by
    `--rules` or by the recipe, say which outputs they are for. Without rules, it is the program of tags.

    Raises:
        UsageError, ValueError: another first word, or as [`output_of_rules`].
    """
    if words and not words[0].startswith("-") and words[0] not in PROGRAMS:
        hint = did_you_mean(words[0], PROGRAMS)
        raise UsageError(f"no kind of output {words[0]!r}.{hint} All of them: {', '.join(PROGRAMS)}.")
    if words and words[0] in PROGRAMS:
        return PROGRAMS[words[0]], list(words[1:])
    joined = [part for word in words for part in (word.split("=", 1) if word.startswith("--rules=") else [word])]
    file = next((b for a, b in zip(joined, joined[1:], strict=False) if a == "--rules"), None)
    if file is None and (recipe := recipe_named(words)) is not None:
        file = read_recipe(recipe).get("rules")
    return PROGRAMS["tagging" if file is None else WORDS[output_of_rules(file)]], list(words)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Run a command line."""
    program, words = program_of(sys.argv[1:] if argv is None else argv)
    return program.main(words)


USAGE = "usage: seal-hf rules check RULES.yaml --dataset DATA [flags of the data: seal-hf train rewards --help]"
HELP_FLAGS = ("-h", "--help")
MOST_CHECKED = 5000  # of labelled and of unlabelled rows


@dataclass
class SeedArguments:
    """The seed of the data, as in training arguments."""

    data_seed: int = field(default=0, metadata={"help": "Draws the labelled rows, as in training."})


def check_main(argv: Sequence[str] | None = None) -> None:
    """Run a command line of `seal-hf rules`: print what the rules do."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in HELP_FLAGS or words[1:2] and words[1] in HELP_FLAGS:
        print(USAGE)
        return
    if words[0] != "check":
        raise ValueError(f"`rules` has no subcommand {words[0]!r}. Give check: {USAGE.removeprefix('usage: ')}")
    if len(words) < 2 or words[1].startswith("-"):
        raise ValueError(f"the file of rules is missing. {USAGE}")
    file = words[1]
    check_given({"rules": file}, {}, {})
    program = PROGRAMS[WORDS[output_of_rules(file)]]
    arguments, seed = parse_recipe([program.arguments[0], SeedArguments], words[2:])
    data = program.loader(**vars(arguments), seed=seed.data_seed)
    print(printable(check(file, data)))


def check(file: str | Path, data: Any) -> str:
    """What each rule of a file does on a data set, in words.

    Args:
        data: of any loader; its labelled rows are those of train.

    Raises:
        ValueError: the rules are wrong, or do not fit the data.
    """
    reward: Rules = rule_reward(str(file), data)
    labelled = first_rows(data.train, min(len(data.train), MOST_CHECKED))
    inputs, gold = inputs_of(labelled), {"gold": gold_of(labelled, data.label_names)}
    found = followed(reward, inputs, gold, data.label_names)
    everything = list(inputs)
    if data.unlabelled is not None:
        everything += list(inputs_of(first_rows(data.unlabelled, min(len(data.unlabelled), MOST_CHECKED))))
    codes = reward.codes(everything)
    shares = reward.coverage(codes)
    rows = []
    for rule, facts, share in zip(reward.ordered, found["rules"], shares, strict=True):
        rows.append(
            {
                "line": rule.line,
                "weight": f"{facts['weight']:g}",
                "applies": f"{100 * share:.1f} %",
                "gold follows": "-" if facts["gold"] is None else f"{100 * facts['gold']:.1f} %",
                "labelled rows": round(facts["applies"] * len(inputs)),
                "exactly": "-" if facts["gold"] is None else f"{100 * facts['exactly']['gold']:.1f} %",
                "rule": in_words(rule) + ("" if share else "  (it applies to no row)"),
            }
        )
    without = len(everything) - len(inputs)
    head = f"{file}: {len(rows)} rules on {data.name}, {len(inputs):,} labelled and {without:,} unlabelled rows"
    said = [head, "", results_table(sorted(rows, key=lambda row: row["line"])), ""]
    said.append(
        "applies: to this share of all these rows. Gold follows: the mean value on labelled rows it applies to, to "
        "which rows that break a rule by little add nearly 1; exactly: the share of these rows that follow it wholly."
    )
    said.append(
        f"The whole reward of gold is {100 * found['reward']['gold']:.1f} % on average; it can be at most 100 %."
    )
    conflicts = [conflict for conflict in reward.conflicts(codes) if conflict.rows != 0]
    said += ["", "No rules contradict each other." if not conflicts else "Contradictions:"]
    said += [_conflict_in_words(reward, conflict, len(everything)) for conflict in conflicts]
    return "\n".join(said)


def _conflict_in_words(reward: Rules, conflict: Conflict, size: int) -> str:
    names = [f"line {reward.ordered[i].line} ({in_words(reward.ordered[i])})" for i in conflict.rules]
    rows = "always" if conflict.rows is None else f"in {conflict.rows:,} of {size:,} rows"
    return f"- {rows}: {'; '.join(names)}: {conflict.why}."
