"""Tag sequences: one of C tags for each of T positions; `logits` (B, T, C), `labels` (B, T), candidates (B, S, T, C).

`labels` is -100 where a position does not count: padding, special tokens, the sub-words after a word's first. The
counted positions may have holes; the others affect no value and no gradient here.

The task-net's own distribution P, from which candidates come, is the one that it decodes by. If each tag is decided by
itself, P is the softmax of the logits at every position. With a CRF, P is its chain. If decoding stays within the tags'
scheme, P is restricted to the valid sequences, with a sum of 1 again: a chain with forbidden transitions. The decoder
`unique_roles` has this P too: that core roles do not repeat is a constraint on the decided sequence alone. A chain runs
over the positions that count, which it knows from the batch (`of`, `counting`); without them all count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from ...core.space import OutputSpace, all_counted, balanced_weights, mixed_logs, repeated_bits
from ...core.tag_schemes import allowed_transitions, core_roles, scheme_of
from ...core.tensors import IGNORED, at_least_float32, inverse_transform, uniform
from ...utils.messages import did_you_mean
from . import chains as crf
from .chains import FREE, LOWEST, unique_viterbi
from .decisions import CONSTRAINED, CONSTRAINED_VITERBI, INDEPENDENT, UNIQUE_ROLES, VITERBI, WITHIN_SCHEME
from .task_losses import CRFLoss, TagCrossEntropy, TagTaskLoss


class TagSequenceSpace(OutputSpace):
    """Tag sequences: y in {1..C}^T, one-hot. Outputs are independent categorical variables or a chain, see the
    docstring of the module.

    Args:
        label_names: the C tags.
        loss: the task-net's own loss, one of `TAG_TASK_LOSSES`; default: cross-entropy. A CRF also decodes its outputs.
        constrained: True if decoding allows only sequences that are valid in the tags' scheme (BIO, BIOES).

    Attributes:
        decoder: how outputs are decided, one of `decoders`; see [`TagDecisions`].
        decoders: the decoders available for these tags and this loss, simplest first.
        counted: (B, T) bool, the positions of one batch that count, which a chain runs over; None: all.
    """

    name = "tag_sequence"
    model_name = "SealForTokenClassification"
    problem_type = None
    structure_dims = 2
    weights = ("class_weight",)
    uncounted: tuple[int, ...] = (IGNORED,)  # label values that are not tag ids
    counted: Tensor | None = None

    def __init__(
        self,
        label_names: Sequence[str],
        loss: TagTaskLoss | None = None,
        constrained: bool = False,
    ):
        self.label_names = list(label_names)
        self.loss: Any = loss or TagCrossEntropy(self.label_names)
        allowed = [torch.from_numpy(table) for table in allowed_transitions(self.label_names)]
        self.constraints = [torch.zeros(table.shape).masked_fill(~table, -math.inf) for table in allowed]
        has_scheme, has_crf = scheme_of(self.label_names) != "plain", self.loss.crf is not None
        free, within = (VITERBI, CONSTRAINED_VITERBI) if has_crf else (INDEPENDENT, CONSTRAINED)
        roles = list(core_roles(self.label_names).values()) if has_scheme else []
        self.begun = torch.full((len(self.label_names),), FREE)  # the core role that a tag begins
        for role, tags in enumerate(roles):
            self.begun[tags] = role
        self.decoders = (free, *[within] * has_scheme, *[INDEPENDENT] * has_crf, *[UNIQUE_ROLES] * bool(roles))
        self.decoder = within if constrained else free

    @classmethod
    def for_model(cls, task_net: PreTrainedModel) -> TagSequenceSpace:
        """The space of a saved task-net, with its CRF and its decoder.

        Raises:
            ValueError: `config.decisions` is no mapping.
        """
        own_crf, config = getattr(task_net, "crf", None), task_net.config
        loss = None if own_crf is None else CRFLoss(_names(task_net), own_crf)
        space = cls(_names(task_net), loss, constrained=getattr(config, "constrained_decoding", False))
        decisions = getattr(config, "decisions", None) or {}
        if not isinstance(decisions, Mapping):
            raise ValueError(
                f"`config.decisions` is {decisions!r}; expected a mapping such as {{'decoder': 'viterbi'}}."
            )
        saved = decisions.get("decoder")
        return space.decided_by(saved if saved in space.decoders else None)  # its CRF may be left out

    def decided_by(self, decoder: str | None) -> TagSequenceSpace:
        """The space with another decoder. It returns itself for None and for its own decoder.

        Raises:
            ValueError: the decoder is not available for these tags or this task-net.
        """
        if decoder in (None, self.decoder):
            return self
        if decoder not in self.decoders:
            known = f"these decisions have {', '.join(self.decoders)}"
            raise ValueError(f"`decoder` is {decoder!r}; {known}.{did_you_mean(str(decoder), self.decoders)}")
        space = copy(self)
        space.decoder = decoder
        return space

    @classmethod
    def from_arguments(cls, args: Any, task_net: PreTrainedModel) -> TagSequenceSpace:
        """The space that [`SealTrainingArguments`] describe.

        Raises:
            ValueError: a CRF's rate without a CRF, constrained decoding of tags without a scheme, or another kind's
                task loss.
        """
        if args.crf_learning_rate is not None and getattr(task_net, "crf", None) is None:
            raise ValueError(
                "`crf_learning_rate` is set, but the task-net lacks a CRF. Leave it out, or use task_loss='crf'."
            )
        if args.constrained_decoding and scheme_of(_names(task_net)) == "plain":
            raise ValueError(
                "`constrained_decoding` needs tags with a scheme, such as B-PER and I-PER; these tags lack one: "
                f"{', '.join(_names(task_net)[:5])}. Leave it out."
            )
        loss = TagTaskLoss.from_arguments(args, _names(task_net), getattr(task_net, "crf", None))
        return cls(_names(task_net), loss, args.constrained_decoding)

    def decoding_options(self) -> dict[str, Any]:
        return {"constrained_decoding": self.decoder in WITHIN_SCHEME}

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters of the CRF, if it decodes."""
        decodes = self.loss.crf is not None and self.decoder != INDEPENDENT
        return [p for p in self.loss.crf.parameters() if p.requires_grad] if decodes else []

    def of(self, batch: dict[str, Tensor]) -> Any:
        """The space for this batch. If it decodes a chain, it knows which positions count."""
        given: Any = super().of(batch)
        return given if self.decoder == INDEPENDENT else given.counting(batch["labels"] != IGNORED)

    def counting(self, mask: Tensor | None) -> TagSequenceSpace:
        """The space of a batch in which the positions of `mask` (B, T) count; None: all."""
        space = copy(self)
        space.counted = mask
        return space

    @property
    def _chains(self) -> Any:
        """The functions of a chain: those of `chains.py`, for plain or for tied transitions."""
        return crf if self.loss.crf is None or self.loss.crf.tied is None else self.loss.crf.tied

    def _chain(self, logits: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
        """P as arguments of these functions: `transitions`, `start`, `end` and `mask`."""
        if self.constraints[0].device != logits.device:  # moved once, also for copies of the space
            self.constraints[:] = [table.to(logits.device) for table in self.constraints]
        chain = dict(zip(("transitions", "start", "end"), self.constraints, strict=True))
        if self.loss.crf is not None:
            learned, within = dict(self.loss.crf.named_parameters()), self.decoder in WITHIN_SCHEME
            chain = {name: learned[name] + table if within else learned[name] for name, table in chain.items()}
        if mask is None:
            mask = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
        return {**chain, "mask": mask}

    def check(self, logits: Tensor, labels: Tensor) -> None:
        """Logits must be (B, T, C) and labels (B, T).

        Raises:
            ValueError: the message names both shapes.
        """
        if logits.dim() != 3 or logits.shape[:2] != labels.shape or logits.shape[2] != len(self.label_names):
            raise ValueError(
                f"The task-net's logits have shape {tuple(logits.shape)} and `labels` have shape "
                f"{tuple(labels.shape)}; a token classifier of {len(self.label_names)} tags gives (batch, tokens, "
                f"{len(self.label_names)}) and takes one tag id per token, {IGNORED} where a token does not count: "
                "(batch, tokens). Check the model's `num_labels`, and that the labels are padded with the inputs."
            )

    def check_values(self, labels: Tensor, where: str) -> None:
        """Labels must be tag ids, or -100 where a position does not count.

        Raises:
            ValueError: the message names the wrong value.
        """
        count = len(self.label_names)
        wrong = labels[(labels >= count) | (labels < 0) & ~torch.isin(labels, labels.new_tensor(self.uncounted))]
        if len(wrong):
            raise ValueError(
                f"`labels` of `{where}` holds {wrong[0].item():g}, but there are {count} tags: ids are 0 to "
                f"{count - 1}, and {IGNORED} where a position does not count. Check the model's labels."
            )

    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Turn tag ids (B, T), -100 where a position does not count, into one-hot float32 (B, T, C), zero there, and
        the mask (B, T)."""
        mask = labels >= 0
        y = F.one_hot(labels.clamp_min(0), len(self.label_names)).float()
        return y * mask.unsqueeze(-1), mask

    def relax(self, logits: Tensor) -> Tensor:
        """ŷ, the probability of each tag at each position: (B, T, C), in float32 (float64 stays). For independent tags
        it is softmax(logits). For a chain it is its marginals P(y_t = c), which are 0 where a position does not count.
        """
        if self.decoder == INDEPENDENT:
            return torch.softmax(at_least_float32(logits), dim=-1)
        return self._chains.marginals(logits, **self._chain(logits, self.counted))

    def logits(self, y: Tensor) -> Tensor:
        """The logarithm of y, clipped to at least 1e-6."""
        return at_least_float32(y).clamp_min(1e-6).log()

    @torch.no_grad()
    def sample(self, logits: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        """One-hot sequences y ~ P: float32 (B, K, T, C). Positions that do not count are 0 if P is a chain. The noise
        of a position draws its tag, so that a chain without transitions gives the samples of independent tags."""
        logits = at_least_float32(logits)
        batch, length, number = logits.shape
        tied = self.decoder != INDEPENDENT and self._chains is not crf  # which draws a group, then a tag
        noise = uniform((batch, length, num_samples * (1 + tied)), logits, generator)
        if self.decoder == INDEPENDENT:
            tags = inverse_transform(self.relax(logits), noise).transpose(1, 2)  # (B, K, T)
        else:
            tags = self._chains.sample(logits, noise=noise, **self._chain(logits, self.counted))
        return F.one_hot(tags.clamp_min(0), number).to(logits.dtype) * (tags >= 0).unsqueeze(-1)

    @torch.no_grad()
    def perturb(self, logits: Tensor, num_samples: int, std: float, generator: torch.Generator) -> Tensor:
        """ŷ of logits + N(0, std²): float32 (B, K, T, C)."""
        batch, length, tags = logits.shape
        size = length * batch * num_samples * tags
        whole = size + -size % 16  # torch would draw a remainder of fewer than 16 in another way
        noise = torch.randn(whole, device=logits.device, generator=generator)[:size]
        noise = noise.view(length, batch, num_samples, tags).permute(1, 2, 0, 3)  # drawn T first, like samples
        moved = at_least_float32(logits).unsqueeze(1) + std * noise
        mask = None if self.counted is None else self.counted.repeat_interleave(num_samples, 0)
        return self.counting(mask).relax(moved.flatten(0, 1)).unflatten(0, (batch, num_samples))

    def mix(self, logits: Tensor, gold: Tensor, share: float) -> Tensor:
        """The log-probabilities of (1 - m) softmax(z) + m y*, m = `share` in (0, 1): (B, T, C). A chain takes them as
        its emissions: its samples then lie nearer the gold, and stay valid."""
        return mixed_logs(F.log_softmax(at_least_float32(logits), dim=-1), gold, share)

    def repeated(self, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """As in the base class. Two sequences are equal if they agree at all positions that count."""
        return repeated_bits(self._counted(y, mask).flatten(2))

    def log_prob(self, logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """log P(y) over the positions that count: (B, S). For independent tags Σ_t Σ_c y_tc log softmax(logits_t)_c.
        -inf if y breaks the scheme that decoding stays within."""
        if self.decoder != INDEPENDENT:
            return self._chains.log_probability(logits, y=y, **self._chain(logits, mask))
        log_p = self._counted(F.log_softmax(at_least_float32(logits), dim=-1), mask)
        return torch.einsum("bstc,btc->bs", y, log_p)

    def log_noise(self, logits: Tensor, y: Tensor, mask: Tensor | None = None, *, normalized: bool = False) -> Tensor:
        """log P(y): (B, S). For a chain it lacks log Z unless `normalized`. A low number stands for the -inf of a gold
        that breaks the scheme. No sample equals such a gold: NCE tells it from them with certainty and learns nothing.
        """
        if self.decoder == INDEPENDENT or normalized:
            return self.log_prob(logits, y, mask).clamp_min(LOWEST)
        return self._chains.sequence_score(logits, y=y, **self._chain(logits, mask)).clamp_min(LOWEST)

    def agreement(self, y_hat: Tensor, y: Tensor, kind: str, mask: Tensor | None = None) -> Tensor:
        """Soft accuracy, the only kind of agreement, called `f1`: the mean of ŷ_t·y_t over the positions that count, or
        1 if none counts. (B, S)."""
        hits = torch.einsum("bstc,btc->bs", y_hat, self._counted(y, mask).to(y_hat.dtype))
        size = self.num_counted(y, mask)
        return torch.where(size > 0, hits / size.clamp_min(1), torch.ones_like(hits))

    def sums(self, y_hat: Tensor, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        counted, gold = self._counted(y_hat, mask), self._counted(y, mask).to(y_hat.dtype)
        overlap = torch.einsum("bstc,btc->bs", counted, gold)
        return overlap, counted.sum((2, 3)) + gold.sum((1, 2)).unsqueeze(1)

    def num_counted(self, y: Tensor, mask: Tensor | None) -> Tensor:
        return all_counted(y, y.shape[1]) if mask is None else mask.sum(1, keepdim=True).float()

    def task_loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The chosen task loss: summed over the positions that count, mean over the batch."""
        weight = {} if self.sample_weight is None else {"weight": self.sample_weight}
        return self.loss(logits, labels, **weight)

    def balance(self, labels: Iterable[Tensor]) -> Tensor:
        """Weights for `class_weight`, (C,): the [`balanced_weights`] of the tags that count."""
        size = len(self.label_names)
        counts: Any = sum(torch.bincount(part[part >= 0], minlength=size) for part in labels)
        return balanced_weights(counts)

    def positions(self, task_net: PreTrainedModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """The positions to decode, which are those of the attention mask.

        Raises:
            ValueError: tags are decoded together, but the task-net reads sub-words, not all of which have a tag. (A net
                whose positions are words has `reads_words` = True.)
        """
        if self.decoder != INDEPENDENT and not getattr(task_net, "reads_words", False):
            raise ValueError(
                "`mask` is missing: the tags of a sentence are decoded together, but the inputs do not say which "
                "sub-words have a tag. Pass mask (batch, tokens), True at the first sub-word of each word, where "
                "`word_ids()` of the tokenizer's output is not None and differs from the one before. For a trainer, "
                "give `labels`: 0 there, and -100 elsewhere."
            )
        mask = inputs.get("attention_mask")
        return None if mask is None else mask.bool()

    def decode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """Tags, int64 (B, T): the likeliest at every position. With a CRF or constraints: the likeliest sequence over
        the positions that count, by Viterbi's algorithm, and -100 elsewhere. By `unique_roles`: the likeliest within
        the scheme that repeats no core role, see [`unique_viterbi`]."""
        if self.decoder == INDEPENDENT:
            return logits.argmax(-1)
        chain = self._chain(logits, mask)
        if self.decoder == UNIQUE_ROLES:
            return unique_viterbi(logits, roles=self.begun.to(logits.device), **chain)
        return self._chains.viterbi(logits, **chain)

    @staticmethod
    def _counted(values: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, C) or (B, S, T, C), zero where a position does not count."""
        if mask is None:
            return values
        mask = mask.unsqueeze(-1)
        return values * (mask if values.dim() == 3 else mask.unsqueeze(1))


def _names(task_net: PreTrainedModel) -> list[str]:
    names: dict = task_net.config.id2label or {}  # a configuration converts the keys to integers
    return [names[i] for i in range(len(names))]
