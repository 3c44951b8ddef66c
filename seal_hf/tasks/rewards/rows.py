"""What the programs that train with a reward share: the reward, the rows, and how a run ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...cli.train.arguments import Arguments
from ...cli.train.program import Prepared, Program
from ...data import MultiLabelData, SegmentationData
from ...reports.common import Ending
from ...saving.model import kind_of
from .functions import LabelFunctionReward, MaskFunctionReward, TagFunctionReward, read_function
from .label_rules import LabelRuleReward
from .mask_rules import MaskRuleReward
from .page import reward_facts
from .reward import Reward
from .semi_supervised import reward_rows
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
        metadata={"help": "MODULE:FUNCTION, too: (N inputs, candidates (N, S, ...)) -> (N, S); not in recipes."},
    )
    repeat_labelled: int | None = field(
        default=None,
        metadata={"help": "How often each labelled row occurs among the rows; default: until they are a quarter."},
    )


def make_reward(arguments: Arguments, data: Any) -> Reward:
    """The given function, or else the rules.

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
    """The rules of a file, for the outputs of these data. Raises ValueError as they do."""
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
    """The training rows with gold and with a reward, that of `make`, and the trainer's options. λ2 becomes that of a
    mean over rows with gold."""
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
        rows = prepared.splits["eval"]
        rows = rows[0] if isinstance(rows, tuple) else rows
        facts = lambda: {"rewards": reward_facts(prepared.trainer, data, rows)}  # noqa: E731
        return replace(program.evaluate(prepared, data, given), afterwards=facts)

    made: dict[str, Any] = {"make_trainer": partial(make, train_on=rewarded_rows), "evaluate": evaluate}
    return replace(program, arguments=arguments, shares=False, **made, **changes)
