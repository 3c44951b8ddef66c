"""The methods for few labelled rows, many unlabelled ones and rules. All read the same labelled rows.

`rewards` is ours: the energy learns gold and rewards, and teaches on all rows. The others are what it must beat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...cli.tuning.ranges import Choice, LogUniform, Range, Uniform
from .base import BASELINE, CONSTANT, LOSS_NET_RATE, SEAL, WEIGHT, Method

# what a method trains
FEW, SELF_TRAINING, RULES_AS_LABELS = "few_labels", "self_training", "rules_as_labels"
EXPECTED_REWARD, NO_RULES, RULES = "expected_reward", "no_rules", "rules"
CE = {"energy_loss": "ce"}
SHARE = {"energy_weight": None}  # over a recipe that fixes it


def methods(
    space: Mapping[str, Range], first: Mapping[str, Any], reward_loss: Mapping[str, Any], gold_loss: Mapping[str, Any]
) -> dict[str, Method]:
    """All methods of a kind of output.

    Args:
        space: what is searched of its task-net.
        first: values of every method under the user's flags.
        reward_loss: settings of the energy that learns gold and rewards.
        gold_loss: those of an energy that learns gold alone.
    """

    def baseline(about: str, program: str, more: Mapping[str, Range] | None = None, **takes: str) -> Method:
        return Method(BASELINE, about, CE, {**space, **(more or {})}, first, program, takes)

    beside = {**space, "loss_net_learning_rate": LOSS_NET_RATE}
    given = {**first, "loss_net_learning_rate": 1e-3}
    weighted, with_weight = {**beside, "energy_weight": WEIGHT}, {**given, "energy_weight": 1.0}
    confidence = {"confidence": Uniform(0.5, 0.99)}
    return {
        "constant": Method(BASELINE, "what is frequent in the labelled rows", program=CONSTANT),
        "few": baseline("the few labels alone, cross-entropy", FEW),
        "self_training_once": baseline(
            "self-training, one round of pseudo-labels above a confidence",
            SELF_TRAINING,
            confidence,
            teacher_path="few",
        ),
        "self_training": Method(
            *(BASELINE, "self-training, two rounds with the settings of the first", CE),
            first=first,
            program=SELF_TRAINING,
            takes={"teacher_path": "self_training_once"},
            search_of="self_training_once",
        ),
        "rules_applied": Method(BASELINE, "the output of the highest reward, without a net", program=RULES),
        "rules_as_labels": baseline(
            "the rules' weighted vote as noisy labels, cross-entropy",
            RULES_AS_LABELS,
            {"silent": Choice(("unknown", "usual"))},
        ),
        "expected_reward": baseline(
            "cross-entropy and the expected reward (REINFORCE, leave-one-out)",
            EXPECTED_REWARD,
            {"reward_weight": LogUniform(0.03, 30.0)},
        ),
        "energy_no_rules": Method(
            BASELINE, "an energy of the few labels, acting on all rows", gold_loss, weighted, with_weight, NO_RULES
        ),
        "rewards": Method(SEAL, "an energy of gold and rewards, on all rows", reward_loss, weighted, with_weight),
        "rewards_default": Method(SEAL, "the same with the default λ1", {**reward_loss, **SHARE}, beside, given),
    }
