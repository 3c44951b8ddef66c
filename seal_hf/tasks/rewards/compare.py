"""The programs of `compare rewards`: what rows without gold teach, beside the energy that learns rewards.

Each is the program `train rewards` of its kind with other training rows. An epoch has the same number of rows in all of
them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field, make_dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from datasets import Dataset, concatenate_datasets
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ...cli.search import RATE, Choice, LogUniform, Range, Uniform
from ...cli.train.flags import Arguments
from ...cli.train.program import Program
from ...core.masks import IGNORE
from ...core.space import REWARD_CODES, UNLABELLED, UNLABELLED_PIXEL, UNLABELLED_SET, OutputSpace
from ...core.tensors import IGNORED
from ...data import MultiLabelData, SegmentationData, TagSequenceData
from ...lab.compare.kinds import BASELINE, CONSTANT, LOSS_NET_RATE, NET, SEAL, TASK_NET, WEIGHT, Kind, Method
from ...nets.frozen_encoder import encoder_inputs
from ...saving.model import kind_of
from ...utils.options import check_value
from ..labels.compare import LABEL_SETS
from ..masks.compare import MASKS
from ..tags.compare import TAGGING
from . import program as rewards
from .page import gold_of
from .program import make_reward, rewarded_rows
from .reward import NoReward, Reward
from .rules import read_rules
from .semi_supervised import inputs_of, repeats_of, reward_rows

# The methods for few labelled rows, many unlabelled ones and rules. All read the same labelled rows.
#
# `rewards` is ours: the energy learns gold and rewards, and teaches on all rows. The others are what it must beat.

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


# kind of data -> labels of rows without gold, labels that no loss reads
MARKS: dict[type, tuple[int, int]] = {
    MultiLabelData: (UNLABELLED_SET, -1),
    TagSequenceData: (UNLABELLED, IGNORED),
    SegmentationData: (UNLABELLED_PIXEL, IGNORE),
}
AT_ONCE = 32  # rows through a teacher
MOST_VALUES = 1 << 23  # of the candidates of a part
SILENT = ("unknown", "usual")
Labeller = Callable[[dict[str, Tensor], Tensor], Tensor]  # a batch, where gold is missing -> labels, as in the batch


@dataclass
class MethodArguments:
    """Flags that only some methods of the comparison read."""

    teacher_path: str | None = field(default=None, metadata={"help": "Task-net that labels rows (self-training)."})
    confidence: float = field(default=0.9, metadata={"help": "Its least probability of a label (self-training)."})
    silent: str = field(default="unknown", metadata={"help": "Labels that no rule votes on: " + ", ".join(SILENT)})
    reward_weight: float = field(default=1.0, metadata={"help": "Weight of the expected reward."})


def programs_of(program: Program) -> dict[str, Program]:
    """Maps what the methods train to the program that does so, for the outputs of this `train rewards`."""
    data, nets, *others = program.arguments
    own = make_dataclass(nets.__name__, [], bases=(MethodArguments, nets))
    arguments: Any = (data, own, *others)
    rows_of = {
        FEW: few_rows,
        SELF_TRAINING: self_trained_rows,
        RULES_AS_LABELS: rule_labelled_rows,
        EXPECTED_REWARD: expected_reward_rows,
        NO_RULES: partial(rewarded_rows, make=lambda arguments, data: NoReward(data.label_names)),
    }
    make: Any = program.make_trainer
    made = {
        name: replace(program, arguments=arguments, make_trainer=partial(make, train_on=rows))
        for name, rows in rows_of.items()
    }
    return made | {RULES: program}


# --- training rows: (data, arguments, model, encode) -> rows, options of the trainer ----------------------------------


def few_rows(data: Any, arguments: Arguments, model: Any, encode: Callable[[Any], Any]) -> tuple[Any, dict[str, Any]]:
    """The labelled rows alone, repeated so that an epoch has as many rows as with the other methods."""
    size = repeats_of(data, arguments.nets.repeat_labelled) * len(data.train) + len(data.unlabelled)
    return encode(_repeated(data.train, -(-size // len(data.train)))), {}


def self_trained_rows(
    data: Any, arguments: Arguments, model: Any, encode: Callable[[Any], Any]
) -> tuple[Any, dict[str, Any]]:
    """All rows. Unlabelled ones get the labels, tags or pixels that a teacher is at least `confidence` sure of;
    elsewhere they teach nothing (Lee 2013)."""
    nets = arguments.nets
    check_value("confidence", nets.confidence, least=0, below=1)
    rows, kind = _all_rows(data, arguments, encode, NoReward(data.label_names)), kind_of(model)
    assert kind is not None, "a SealModel"
    teacher = kind.from_pretrained(
        nets.teacher_path, with_loss_net=False, **arguments.origin(nets.teacher_path)
    ).task_net
    teacher = teacher.to(arguments.training.device).eval()
    space = kind.space_of(teacher).for_model(teacher)
    label(rows, data, partial(_confident, teacher, space, nets.confidence, MARKS[type(data)][1]))
    return rows, {}


def _confident(
    teacher: Any, space: OutputSpace, confidence: float, ignored: int, batch: dict[str, Tensor], missing: Tensor
) -> Tensor:
    device = getattr(teacher, "device", "cpu")
    with torch.no_grad():
        inputs = {name: values.to(device) for name, values in encoder_inputs(batch).items()}
        logits = space.fit(teacher(**inputs).logits.cpu(), batch["labels"])
        p = space.of(batch).relax(logits)
    if p.dim() == missing.dim():  # of one value: label sets and masks of two classes
        sure, found = torch.maximum(p, 1 - p), (p >= 0.5).long()
    else:
        sure, found = p.max(space.label_dim)
    return found.masked_fill(sure < confidence, ignored)


def rule_labelled_rows(
    data: Any, arguments: Arguments, model: Any, encode: Callable[[Any], Any]
) -> tuple[Any, dict[str, Any]]:
    """All training rows, in which unlabelled ones have the outputs of the rules as labels, see [`decided_by_rules`].
    Positions on which no rule votes are unknown or, with `silent` = usual, what they mostly are in the labelled
    rows."""
    check_value("silent", arguments.nets.silent, SILENT)
    reward, ignored = make_reward(arguments, data), MARKS[type(data)][1]
    rows, decide = _all_rows(data, arguments, encode, reward), by_rules(reward, data)

    def labeller(batch: dict[str, Tensor], missing: Tensor) -> Tensor:
        found, voted = decide(batch[REWARD_CODES], missing)
        return found if arguments.nets.silent == "usual" else found.masked_fill(~voted, ignored)

    label(rows, data, labeller)
    return rows, {}


def expected_reward_rows(
    data: Any, arguments: Arguments, model: Any, encode: Callable[[Any], Any]
) -> tuple[Any, dict[str, Any]]:
    """The rows of the energy that learns rewards. But the task loss includes the expected reward of the task-net's
    samples."""
    rows, options = rewarded_rows(data, arguments, model, encode)
    options["space"].expecting(arguments.nets.reward_weight, arguments.training.num_samples)
    return rows, options


def _all_rows(data: Any, arguments: Arguments, encode: Callable[[Any], Any], reward: Reward) -> Any:
    return reward_rows(data, encode, reward, repeat_labelled=arguments.nets.repeat_labelled)


def _repeated(rows: Any, times: int) -> Any:
    if isinstance(rows, Dataset):
        return concatenate_datasets([rows] * times)
    return rows.take(np.tile(np.arange(len(rows)), times))


def label(rows: Any, data: Any, labeller: Labeller) -> None:
    """Give rows without gold the labels of `labeller`, in place."""
    mark, plain = MARKS[type(data)][0], rows.unaugmented()
    for begin in range(rows.num_labelled, len(rows), AT_ONCE):
        end = min(begin + AT_ONCE, len(rows))
        batch = plain.batch(range(begin, end))
        missing = batch["labels"] == mark
        found = torch.where(missing, labeller(batch, missing).to(batch["labels"].dtype), batch["labels"])
        if "labels" in rows.dense:
            rows.dense["labels"][begin:end] = found.to(rows.dense["labels"].dtype)
        else:
            flat, offsets = rows.ragged["labels"]
            lengths = offsets[begin + 1 : end + 1] - offsets[begin:end]
            flat[offsets[begin] : offsets[end]] = found[torch.arange(found.shape[1]) < lengths.unsqueeze(1)]


# --- the rules as a predictor -----------------------------------------------------------------------------------------


MARGIN = 1e-6  # rewards that differ by less count as equal
MOST_SWEEPS = 50


@torch.no_grad()
def most_rewarded(
    reward: Reward, codes: Tensor, mask: Tensor, start: Tensor, num_values: int, is_set: bool = False
) -> tuple[Tensor, Tensor]:
    """Local maxima of a reward, by coordinate ascent from `start`. A sweep finds the positions whose change alone
    raises the reward. It changes all of them, or only the best one if that gives more. The ascent ends when no change
    helps.

    For a reward by rules, the change of a position raises the reward if the weighted vote of the rules is for it.

    Args:
        codes: of B inputs, as [`Reward.codes`] has them.
        mask: (B, n) bool, the positions that count: words, or labels.
        start: (n,) int64, or (B, n): the first value of each position.
        num_values: C, the values of a position: tags, or 2 for a label.
        is_set: True for label sets: candidates are (B, S, n) of 0 and 1, not one-hot (B, S, n, C).

    Returns:
        the values (B, n) int64, and where the reward has an opinion on them: (B, n) bool, True where another value
        alone would change the reward.
    """
    ids = start.expand(mask.shape).clone()
    size = ids.shape[1]
    values = torch.arange(num_values).repeat(size)  # of each change
    changed = torch.eye(size, dtype=torch.bool).repeat_interleave(num_values, 0)  # (n C, n)

    def rewards(y: Tensor) -> Tensor:
        return reward(codes, y.float() if is_set else F.one_hot(y, num_values).float(), mask)

    for sweep in range(MOST_SWEEPS + 1):
        found = rewards(torch.where(changed, values[:, None], ids[:, None])).view(*ids.shape, num_values)
        found = found.masked_fill(~mask.unsqueeze(2), 0)
        now = found.gather(2, ids.unsqueeze(2))  # (B, n, 1), without a change
        gain, best = (found - now).max(2)
        raises = gain > MARGIN
        if sweep == MOST_SWEEPS or not raises.any():
            break
        one = F.one_hot(gain.argmax(1), size).bool() & raises
        steps = torch.where(torch.stack([raises, one], 1), best[:, None], ids[:, None])  # (B, 2, n)
        ids = steps[torch.arange(len(ids)), rewards(steps).argmax(1)]
    return ids, (found - now).abs().amax(2) > MARGIN


@torch.no_grad()
def most_rewarded_of(reward: Reward, codes: Tensor, mask: Tensor, candidates: Tensor) -> Tensor:
    """The index of the candidate with the highest reward, (B,), the first of equal ones: for masks, whose pixels no
    rule speaks about one by one.

    Args:
        codes, mask: as for [`most_rewarded`].
        candidates: (S, ...), the same for all inputs, in the form that the reward reads.
    """
    return reward(codes, candidates.expand(len(codes), *candidates.shape), mask).argmax(1)


def rules_applied(arguments: Arguments, data: Any) -> Callable[[Any], Any]:
    """A function that gives the outputs of a split by the rules, see [`decided_by_rules`]. Raises ValueError if the
    rules do not fit the data."""
    return partial(decided_by_rules, make_reward(arguments, data), data)


def decided_by_rules(reward: Reward, data: Any, split: Any) -> Any:
    """The outputs of a reward for the inputs of a split, without a net: N tag sequences by names, or an array.

    - Label sets: from the labels of most labelled rows, labels are added and removed while that raises the reward.
    - Tags: from the most frequent tag at every word, tags are changed while that raises the reward.
    - Masks: the mask with the highest reward, among those of the labelled images and what most of them have.
    """
    codes = [torch.tensor(row, dtype=torch.long) for row in reward.codes(inputs_of(split))]
    parts: list[Any] = []
    decide = by_rules(reward, data)
    for begin in range(0, len(codes), AT_ONCE):
        part = codes[begin : begin + AT_ONCE]
        if isinstance(data, TagSequenceData):
            lengths = torch.tensor([len(row) for row in part])
            padded = pad_sequence(part, batch_first=True)
            mask = torch.arange(padded.shape[1]) < lengths.unsqueeze(1)
            found, _ = decide(padded, mask)
            parts += [
                [data.label_names[tag] for tag in row[own].tolist()] for row, own in zip(found, mask, strict=True)
            ]
        else:
            shape = (len(data.label_names),) if isinstance(data, MultiLabelData) else split.masks.shape[1:]
            mask = torch.ones(len(part), *shape, dtype=torch.bool)
            parts.append(decide(torch.stack(part), mask)[0].numpy())
    return parts if isinstance(data, TagSequenceData) else np.concatenate(parts)


def by_rules(reward: Reward, data: Any) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A function from codes and `mask` (B, ...) to the outputs of a reward, as ids in the shape of `mask`, and to the
    places where the reward has an opinion on them."""
    if isinstance(data, SegmentationData):
        return _masks_by_rules(reward, data)
    is_set, names = isinstance(data, MultiLabelData), data.label_names
    if is_set:
        start, values = torch.from_numpy((gold_of(data.train, names) > 0).mean(0) >= 0.5).long(), 2
    else:
        tags = np.concatenate(data.train["tags"][:]).astype(np.int64)
        start, values = torch.tensor([np.bincount(tags, minlength=len(names)).argmax()]), len(names)

    def decide(codes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        size = mask.shape[1]
        step = max(1, MOST_VALUES // max(1, size * size * values * (1 if is_set else values)))
        parts = [slice(i, i + step) for i in range(0, len(codes), step)]
        found = [most_rewarded(reward, codes[part], mask[part], start, values, is_set) for part in parts]
        ids, voted = (torch.cat(each) for each in zip(*found, strict=True))
        return ids, voted

    return decide


def _masks_by_rules(reward: Reward, data: SegmentationData) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    gold, classes = gold_of(data.train, data.label_names), len(data.label_names)
    known = np.where(gold == IGNORE, 0, gold).astype(np.int64)
    counts = np.stack([(known == one).mean(0) for one in range(classes)])
    ids = torch.from_numpy(np.concatenate([counts.argmax(0)[None], known]))
    candidates = torch.nn.functional.one_hot(ids, classes).movedim(-1, 1) if classes > 2 else ids

    def decide(codes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        rows = (slice(i, i + 1) for i in range(len(codes)))
        best = [most_rewarded_of(reward, codes[row], mask[row], candidates.float()) for row in rows]
        return ids[torch.cat(best)], torch.ones_like(mask)

    return decide


def rules_in(settings: Mapping[str, Any]) -> dict[str, str]:
    """A hash of the rules in the file that these settings name, for the record of a folder's results. Their lines do
    not count."""
    if (file := settings.get("rules")) is None:
        return {}
    said = [astuple(replace(rule, line=None)) for rule in read_rules(file)]
    return {"rules_contents": hashlib.sha256(repr(said).encode()).hexdigest()[:16]}


# Few labelled rows, many unlabelled ones and rules: the kinds of `compare rewards`.

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
        without_net={RULES: rules_applied},
        contents=rules_in,
    )


REWARDED: dict[str, Kind] = {  # the kind's own word -> with rewards
    "mlc": _kind(LABEL_SETS, rewards.LABEL_PROGRAM, NET, {}, DIVERGENCE, NCE),
    "tagging": _kind(TAGGING, rewards.PROGRAM, {"learning_rate": RATE}, {}, DIVERGENCE, NCE),
    "segmentation": _kind(
        MASKS, rewards.MASK_PROGRAM, {"learning_rate": RATE}, {"crop_size": 0, "num_samples": 8}, FIELD, FIELD
    ),
}
KINDS = tuple(REWARDED.values())
