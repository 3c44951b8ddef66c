"""Label sets, tag sequences and masks of which some rows have gold and the others a reward.

A row without gold has the label `UNLABELLED` (-1) at each position of a tag sequence that counts, `UNLABELLED_SET` (-2)
at each label of a set, or `UNLABELLED_PIXEL` (254) at each pixel that counts. The batch also holds codes
(`REWARD_CODES`), what the reward must know about each row.
For a row without gold

* the task loss is 0;
* the score s(y) is the reward; for rows with gold it stays the agreement with the gold.

So `regression` teaches the loss-net both, and its energy teaches the task-net on all rows. For losses that contrast
candidates with the gold, such as `contrastive_divergence` (Shankar & Piratla's), the sample with the highest reward
replaces the missing gold y*, and the cost of another candidate is Δ(y, y*) = [reward(y*) - reward(y)]_+. Losses without
samples (`margin`, `infnet`) lack such a y* and are refused. In the log, `energy_gold` of rows without gold is the
energy of that sample, or of no labels, tags or classes at all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ...core.masks import IGNORE, counted, log_odds
from ...core.space import REWARD_CODES, UNLABELLED, UNLABELLED_PIXEL, UNLABELLED_SET, LossTraits, OutputSpace
from ...core.tensors import IGNORED, at_least_float32, wide
from ..labels.space import ABSENT, UNKNOWN, MultiLabelSpace
from ..masks.space import BinaryMaskSpace, MaskSpace, PixelSpace
from ..masks.task_losses import PixelLoss
from ..tags.space import TagSequenceSpace
from .reward import NoReward

RewardFunction = Callable[[Tensor, Tensor, Tensor], Tensor]


class Rewarded(OutputSpace):
    """Base class of spaces in which a reward stands in for missing gold. It stands before the space without a reward
    among the bases: `class RewardTagSpace(Rewarded, TagSequenceSpace)`.

    Args:
        reward: a function of codes (B, ...), candidates (B, S, ...) and mask: (B, S) in [0, 1]. Positions of rows with
            gold are masked: the value of such a row is not read.
        args, options: as for the space without a reward.

    Attributes:
        unlabelled: the label of a position that counts but lacks gold.
        uncounted_label: the label of a position that does not count.
        codes: of one batch, see `of`.
        without: which rows of that batch lack gold, (B,).
        expected: weight and number of samples of the expected reward in the task loss, see `expecting`; or None.
    """

    has_all_gold = False
    unlabelled: int
    uncounted_label: int

    def __init__(self, reward: RewardFunction, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.reward = reward
        self.codes: Tensor | None = None
        self.without: Tensor | None = None
        self.expected: tuple[float, int] | None = None

    def of(self, batch: dict[str, Tensor]) -> Any:
        """The space with the codes of this batch, if it has them."""
        given = super().of(batch)
        if REWARD_CODES not in batch:
            return given
        space: Any = copy(given)
        space.codes, space.without = batch[REWARD_CODES], self._without(batch["labels"])
        return space

    @property
    def _plain(self) -> Any:
        """The methods of the space without a reward."""
        return super()

    def check_loss(self, loss: LossTraits, num_labels: int) -> None:
        super().check_loss(loss, num_labels)
        if loss.needs_gold:
            raise ValueError(
                f"energy_loss={loss.name!r} contrasts the output with the gold, but rows with a reward lack gold. Use "
                "regression, or a loss with samples, such as contrastive_divergence."
            )
        if isinstance(self.reward, NoReward) and loss.reads_output:
            raise ValueError(
                f"energy_loss={loss.name!r} would learn from rows without gold that every output is good, since "
                "NoReward gives all outputs the same reward. Use nce or ranking."
            )

    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The gold as without a reward, and also zero where it is missing; and the mask of what counts."""
        return self._plain.gold(labels)[0], labels != self.uncounted_label

    def best(self, gold: Tensor, samples: Tensor | None, mask: Tensor | None = None) -> Tensor:
        """The gold (B, ...). For rows without gold, it is the sample with the highest reward."""
        if samples is None:
            return gold
        _, without = self._rewarded()
        place = self.rewards(samples, mask).argmax(1)  # (B,)
        found = self.of_counted(samples[torch.arange(len(samples), device=samples.device), place], mask)
        return torch.where(wide(without, gold), found, gold)

    @abstractmethod
    def of_counted(self, y: Tensor, mask: Tensor | None) -> Tensor:
        """One structure per row, (B, ...), 0 where it does not count."""

    def sample(self, logits: Tensor, num_samples: int, generator: torch.Generator) -> Any:
        """As without a reward; with [`NoReward`], zeros for rows without gold."""
        y = self._plain.sample(logits, num_samples, generator)
        if self.without is None or not isinstance(self.reward, NoReward):
            return y
        return y.masked_fill(wide(self.without, y), 0)

    def mix(self, logits: Tensor, gold: Tensor, share: float) -> Tensor:
        """As without a reward; rows without gold stay as they are. Raises ValueError as `rewards` does."""
        _, without = self._rewarded()
        mixed = self._plain.mix(logits, gold, share)
        return torch.where(wide(without, mixed), self.unmixed(logits, gold), mixed)

    @abstractmethod
    def unmixed(self, logits: Tensor, gold: Tensor) -> Tensor:
        """Logits as `mix` gives them, but without a share of the gold."""

    def rewards(self, y: Tensor, mask: Tensor | None) -> Tensor:
        """The rewards (B, S) of candidates (B, S, ...). In rows with gold all positions are masked, and the value means
        nothing.

        Raises:
            ValueError: the batch lacks codes for the reward.
        """
        codes, without = self._rewarded()
        assert mask is not None, "these structures have one"
        return self.reward(codes, y, mask & wide(without, mask)).to(y.dtype)

    def _rewarded(self) -> tuple[Tensor, Tensor]:
        """What `of` found in the batch: the codes, and which rows lack gold (B,)."""
        if self.codes is None or self.without is None:
            raise ValueError(
                f"The batch has no column `{REWARD_CODES}`, which the reward reads. Make the training rows with "
                "`reward_rows`, or for masks with `MaskRows(..., reward_codes=...)`."
            )
        return self.codes, self.without

    def has_gold(self, labels: Tensor) -> Tensor:
        return ~self._without(labels)

    def _without(self, labels: Tensor) -> Tensor:
        return (labels == self.unlabelled).flatten(1).any(1)

    def score(self, y_hat: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """The score against the gold `y` (B, ...), or for rows without gold the reward: (B, S)."""
        _, without = self._rewarded()
        return torch.where(without.unsqueeze(1), self.rewards(y_hat, mask), self._plain.score(y_hat, y, mask))

    def cost(self, y_hat: Tensor, y: Tensor, kind: str, mask: Tensor | None = None) -> Tensor:
        """Δ to the gold: (B, S). For rows without gold, it is by how much the reward of `y` is higher."""
        rewards = self.rewards(torch.cat([y.unsqueeze(1), y_hat.detach()], dim=1), mask)  # of one batch of candidates
        more = (rewards[:, :1] - rewards[:, 1:]).clamp_min(0)
        _, without = self._rewarded()
        return torch.where(without.unsqueeze(1), more, self._plain.cost(y_hat, y, kind, mask))

    def differs(self, y: Tensor, gold: Tensor, mask: Tensor | None = None) -> Tensor:
        """As without a reward; meaningless for rows without gold."""
        return self._plain.cost(y, gold, "l1", mask) > 0

    def expecting(self, weight: float, num_samples: int) -> None:
        """Add to the task loss of each row without gold `weight` times - E[reward(y)], y drawn from the task-net. This
        is posterior regularisation by the expected violation of rules, 1 - reward. Its gradient is estimated by
        `num_samples` K samples, with the mean reward of the other K - 1 as the baseline of each (Kool et al. 2019). The
        rule `rates`, by which a row's reward depends on the whole batch, is taken as if the batch's rate were constant.

        Raises:
            ValueError: K < 2.
        """
        if num_samples < 2:
            raise ValueError(f"`num_samples` is {num_samples}; the expected reward needs at least 2.")
        self.expected = weight, num_samples

    def task_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The loss of gold, as a mean over all rows, to which rows without gold add 0. So it does not depend on how a
        batch is divided among micro-batches and processes. In training it may include the expected reward, see
        `expecting`."""
        loss = self.gold_loss(logits, labels, generator)
        if self.expected is None or generator is None:
            return loss
        weight, size = self.expected
        mask, (_, without) = self.gold(labels)[1], self._rewarded()
        samples = self.sample(logits.detach(), size, generator)
        rewards = self.rewards(samples, mask)  # (B, K)
        advantage = (rewards - rewards.mean(1, keepdim=True)) * size / (size - 1)  # over the mean of the others
        gradient = (advantage * self.log_prob(logits, samples, mask)).mean(1)
        return loss - weight * ((rewards.mean(1) + gradient - gradient.detach()) * without).mean()

    def gold_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None) -> Tensor:
        """The task loss of the rows with gold, divided by the number of all rows."""
        without = wide(self._without(labels), labels)
        return self._plain.task_loss(logits, labels.masked_fill(without, self.uncounted_label), generator)


class RewardTagSpace(Rewarded, TagSequenceSpace):
    """Tag sequences with a reward in place of missing gold tags; `reward_rows` makes such rows, and says how to weigh
    the task loss.

    Args:
        reward: a function of codes (B, T), candidates (B, S, T, C) and mask (B, T): (B, S) in [0, 1], such as a
            [`TagRuleReward`].
        label_names, options: as for [`TagSequenceSpace`].
    """

    uncounted = (IGNORED, UNLABELLED)
    unlabelled, uncounted_label = UNLABELLED, IGNORED

    @classmethod
    def from_arguments(  # type: ignore[override]  # the caller also passes a reward
        cls, args: Any, task_net: PreTrainedModel, reward: RewardFunction
    ) -> RewardTagSpace:
        """As for tag sequences, with this reward."""
        plain = TagSequenceSpace.from_arguments(args, task_net)
        return cls(reward, plain.label_names, loss=plain.loss, constrained=args.constrained_decoding)

    def of_counted(self, y: Tensor, mask: Tensor | None) -> Tensor:
        return self._counted(y, mask)

    def unmixed(self, logits: Tensor, gold: Tensor) -> Tensor:
        return at_least_float32(logits).log_softmax(-1)


class RewardLabelSpace(Rewarded, MultiLabelSpace):
    """Label sets with a reward in place of missing gold sets; `reward_rows` makes such rows.

    Args:
        reward: a function of codes (B, ...), candidates (B, S, L) and mask (B, L): (B, S) in [0, 1], such as a
            [`LabelRuleReward`].
        options: as for [`MultiLabelSpace`].
    """

    unlabelled, uncounted_label = UNLABELLED_SET, UNKNOWN

    @classmethod
    def from_arguments(  # type: ignore[override]  # the caller also passes a reward
        cls, args: Any, task_net: PreTrainedModel, reward: RewardFunction
    ) -> RewardLabelSpace:
        """As for label sets, with this reward."""
        plain = MultiLabelSpace.from_arguments(args, task_net)
        return cls(reward, plain.sparse_from, plain.relaxed_mass, plain.relaxed_width, plain.loss)

    def check_loss(self, loss: LossTraits, num_labels: int) -> None:
        super().check_loss(loss, num_labels)
        if self.is_sparse(num_labels):
            raise ValueError(
                f"A reward reads all {num_labels} labels of a set, but label sets are sparse from {self.sparse_from} "
                "labels on. Set `sparse_labels_from` above the number of labels."
            )

    def check_values(self, labels: Tensor, where: str) -> None:
        super().check_values(self._with_gold(labels), where)

    def see(self, labels: Tensor | None) -> None:
        super().see(None if labels is None else self._with_gold(labels))

    def _with_gold(self, labels: Tensor) -> Tensor:
        """The labels with empty sets where gold is missing."""
        return labels.masked_fill(labels == UNLABELLED_SET, 0)

    def _known(self, labels: Tensor) -> Tensor | None:
        return super()._known(self._with_gold(labels))

    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor | None]:  # type: ignore[override]  # None: all are known
        """The gold as without a reward, and empty where it is missing."""
        return MultiLabelSpace.gold(self, self._with_gold(labels))

    def rewards(self, y: Tensor, mask: Tensor | None) -> Tensor:
        """As in the base class. All labels of a row without gold count."""
        return super().rewards(y, torch.ones_like(y[:, 0], dtype=torch.bool))

    def of_counted(self, y: Tensor, mask: Tensor | None) -> Tensor:
        return y

    def unmixed(self, logits: Tensor, gold: Tensor) -> Tensor:
        return self._held(logits.float())

    def gold_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None) -> Tensor:
        """As in the base class. Rows without gold add 0, as sets whose labels are all certainly absent."""
        without = self._without(labels).unsqueeze(1)
        logits = logits.masked_fill(without, ABSENT)
        return MultiLabelSpace.task_loss(self, logits, self._with_gold(labels), generator)


class RewardedPixels(Rewarded, PixelSpace):
    """What masks of two and of several classes share."""

    unlabelled, uncounted_label = UNLABELLED_PIXEL, IGNORE

    @classmethod
    def from_arguments(  # type: ignore[override]  # the caller also passes a reward
        cls, args: Any, task_net: PreTrainedModel, reward: RewardFunction
    ) -> RewardedPixels:
        """As for masks, with this reward."""
        return cls(reward, *cls.sizes_of(task_net), **cls.options_from(args))

    def check_values(self, labels: Tensor, where: str) -> None:
        super().check_values(labels.masked_fill(labels == UNLABELLED_PIXEL, IGNORE), where)

    def expecting(self, weight: float, num_samples: int) -> None:
        """As in the base class. Raises ValueError also for coherent samples, whose log-probability has no gradient."""
        if self.sample_coherence != "none":
            raise ValueError(
                f"The expected reward draws pixels independently, but `sample_coherence` is {self.sample_coherence!r}. "
                "Leave it out."
            )
        super().expecting(weight, num_samples)

    def of_counted(self, y: Tensor, mask: Tensor | None) -> Tensor:
        return counted(y, mask)

    def gold_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None) -> Tensor:
        """As in the base class, also where the task loss is a mean over the pixels with gold."""
        if not isinstance(self.loss, PixelLoss):
            return super().gold_loss(logits, labels, generator)
        without = [self._without(each) for each in self.window or [labels]]
        given = 1 - torch.stack([each.float().mean() for each in without]).mean()
        labels, *window = (each.masked_fill(wide(self._without(each), each), IGNORE) for each in (labels, *self.window))
        return self.loss(self, logits, labels, window, given)


class RewardBinaryMaskSpace(RewardedPixels, BinaryMaskSpace):
    """Binary masks with a reward in place of missing gold masks; `reward_rows` makes such rows.

    Args:
        reward: a function of codes (B, ...), candidates (B, S, H, W) and mask (B, H, W): (B, S) in [0, 1], such as a
            [`MaskRuleReward`].
        options: as for [`BinaryMaskSpace`].
    """

    def unmixed(self, logits: Tensor, gold: Tensor) -> Tensor:
        return log_odds(logits, gold.shape[-2:])


class RewardMaskSpace(RewardedPixels, MaskSpace):
    """Masks of several classes with a reward in place of missing gold masks; `reward_rows` makes such rows.

    Args:
        reward: a function of codes (B, ...), candidates (B, S, C, H, W) and mask (B, H, W): (B, S) in [0, 1], such as a
            [`MaskRuleReward`].
        num_classes: C, at most 254.
        options: as for [`MaskSpace`].

    Raises:
        ValueError: there are more than 254 classes; or as [`MaskSpace`].
    """

    def __init__(self, reward: RewardFunction, num_classes: int, **options: Any):
        if num_classes > UNLABELLED_PIXEL:
            raise ValueError(
                f"`num_classes` is {num_classes}; with a reward it is at most {UNLABELLED_PIXEL}, as the id "
                f"{UNLABELLED_PIXEL} marks missing gold."
            )
        super().__init__(reward, num_classes, **options)

    def unmixed(self, logits: Tensor, gold: Tensor) -> Tensor:
        return self.fit(logits, gold).log_softmax(1)


def reward_space(args: Any, task_net: PreTrainedModel, reward: RewardFunction, plain: type[OutputSpace]) -> Any:
    """The space with a reward that belongs to `plain`, the space of the same outputs without one.

    Raises:
        ValueError: there is none for these outputs.
    """
    for space in (RewardTagSpace, RewardLabelSpace, RewardBinaryMaskSpace, RewardMaskSpace):
        if issubclass(space, plain):
            return space.from_arguments(args, task_net, reward)
    raise ValueError(f"There is no reward for {plain.name} outputs. Give label sets, tag sequences or masks.")
