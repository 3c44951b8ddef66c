"""Few labelled rows, many unlabelled ones and rules: the kinds of `compare rewards`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...cli.train import label_rewards, mask_rewards, rewards
from ...cli.train.program import Program
from ...cli.tuning.ranges import RATE
from ..few_labels import programs_of
from ..methods.base import NET, TASK_NET
from ..methods.rewards import methods
from .base import Kind
from .labels import LABEL_SETS
from .masks import MASKS
from .tags import TAGGING

FIELD = {"energy_loss": "ranking", "sample_coherence": "field"}
DIVERGENCE, NCE = {"energy_loss": "contrastive_divergence"}, {"energy_loss": "nce"}
BASELINES = "few self_training rules_applied rules_as_labels expected_reward energy_no_rules".split()


def _kind(plain: Kind, program: Program, *of_methods: Mapping[str, Any]) -> Kind:
    return replace(
        plain,
        word=f"rewards {plain.word}",
        programs={TASK_NET: program, **programs_of(program)},
        methods=methods(*of_methods),
        usual=[*BASELINES, "rewards", "rewards_default"],
        identity={"kind": f"rewards {plain.word}"},
    )


REWARDED: dict[str, Kind] = {  # the kind's own word -> with rewards
    "mlc": _kind(LABEL_SETS, label_rewards.PROGRAM, NET, {}, DIVERGENCE, NCE),
    "tagging": _kind(TAGGING, rewards.PROGRAM, {"learning_rate": RATE}, {}, DIVERGENCE, NCE),
    "segmentation": _kind(
        MASKS, mask_rewards.PROGRAM, {"learning_rate": RATE}, {"crop_size": 0, "num_samples": 8}, FIELD, FIELD
    ),
}
