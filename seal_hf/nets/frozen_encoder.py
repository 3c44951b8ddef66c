"""A task-net with a frozen encoder: the encoder's outputs are computed once for each row, and the head trains on them.

The head is everything that reads the encoder's outputs: the classifier, the encoder's own pooler if it has one, and a
loss-net that shares the features. Kept are the last hidden state of one token, the last if the head reads that one and
else the first; the mean over the tokens; and the pooled output unless a pooler of the encoder makes it from the first
token. The task-net itself stays whole, so that it is saved, loaded and evaluated like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions

from ..core.space import REWARD_CODES, SAMPLE_WEIGHT
from ..data.tensors.collators import TensorRows
from ..data.tensors.length_order import longest_first
from ..utils.modules import in_evaluation
from .encoders import inputs_of, vector
from .feature_cache import FEATURES, cached_features
from .heads import FIRST, LAST, MEAN, alike, own_pooler

OUTPUTS = "encoder_outputs"  # the column with the outputs of the task-net's encoder
BESIDE_INPUTS = ("labels", FEATURES, OUTPUTS, REWARD_CODES, SAMPLE_WEIGHT)  # columns that no encoder reads
OF_ENCODER = ("input_ids", "attention_mask", "token_type_ids")  # columns that only the encoder reads
PROBED = 4  # rows used to find out what the head reads


class FrozenEncoder:
    """The frozen encoder of a task-net, and the stored outputs that replace it for the head.

    Args:
        task_net: a classifier with an encoder (`base_model`) that reads tokens. The encoder's parameters are frozen,
            except the pooler's.
        rows: some rows, used to find out what the head reads.
        pooling: how a `shared` loss-net makes one vector of the tokens.

    Raises:
        ValueError: there is no encoder, or the head reads more of it than is kept.
    """

    def __init__(self, task_net: PreTrainedModel, rows: TensorRows, pooling: str = MEAN):
        self.task_net = task_net
        self.base: Any = task_net.base_model
        name = type(task_net).__name__
        if self.base is task_net or task_net.main_input_name != "input_ids":
            raise ValueError(
                f"`freeze_encoder` is True, but {name} has no token encoder separate from its head. Leave it out."
            )
        self.pooling, self.flat = pooling, False
        self.pooler: nn.Module | None = None
        order = longest_first(rows) or range(len(rows))
        with in_evaluation(task_net):
            self._look_at(name, rows.batch(order[:PROBED]))
        self.base.requires_grad_(False)
        if self.pooler is not None:
            self.pooler.requires_grad_(True)

    @torch.no_grad()
    def _look_at(self, name: str, batch: dict[str, Tensor]) -> None:
        """Find out what the head reads, by checking that the logits stay the same."""
        inputs = inputs_of(self.base, batch)
        expected, given = self.task_net(**inputs).logits, self.base(**inputs)
        self.flat = given.last_hidden_state.dim() == 2
        self.pooler = own_pooler(self.base, given)
        try:
            for self.read in (FIRST, LAST, MEAN):
                if alike(self(self.kept(given, inputs)).logits, expected):
                    return
        except Exception as error:  # from a head that looks for tokens, but gets only one
            raise _unfit(name) from error
        raise _unfit(name)

    @property
    def poolings(self) -> list[str]:
        """What is kept of the last hidden states: what the head reads, the mean, and what the loss-net reads."""
        return list(dict.fromkeys((self.read, MEAN, self.pooling)))

    def kept(self, outputs: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        """The part of the encoder's outputs that the heads read: (B, 1 to 4, H)."""
        hidden, config = outputs.last_hidden_state, self.task_net.config
        parts = [vector(hidden, inputs, pooling, config) for pooling in self.poolings]
        pooled = getattr(outputs, "pooler_output", None)
        if self.pooler is None and pooled is not None and pooled.dim() == 2:
            parts.append(pooled)
        return torch.stack(parts, dim=1)

    def rows(self, rows: TensorRows, folder: str | Path, beside: TensorRows) -> TensorRows:
        """`beside` with a column of the encoder's outputs for `rows`, (N, 1 to 4, H), in place of their tokens."""
        pooler = next((f"{name}." for name, module in self.base.named_children() if module is self.pooler), None)
        kind = ", ".join(["kept", *self.poolings])
        outputs = cached_features(self.base, rows, folder, kind=kind, read=self.kept, trained=pooler)
        extended = copy(beside)
        extended.dense = {name: column for name, column in beside.dense.items() if name not in OF_ENCODER}
        extended.dense[OUTPUTS] = outputs
        extended.ragged = {name: column for name, column in beside.ragged.items() if name not in OF_ENCODER}
        return extended

    def __call__(self, outputs: Tensor, **kwargs: Any) -> Any:
        """The task-net's outputs, from stored outputs of its encoder, (B, 1 to 4, H)."""
        with self.giving(outputs):
            return self.task_net(**self.stand_ins(outputs), **kwargs)

    def stand_ins(self, outputs: Tensor) -> dict[str, Tensor]:
        """Inputs of a single token, which nothing reads; the task-net's forward requires them."""
        ids = torch.zeros(len(outputs), 1, dtype=torch.long, device=outputs.device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    @contextmanager
    def giving(self, outputs: Tensor) -> Iterator[None]:
        """Inside, the encoder returns these outputs for any input."""
        parts = outputs.to(self.base.dtype).unbind(1)
        by_pooling = dict(zip(self.poolings, parts, strict=False))
        pooled, shared, read = parts[len(by_pooling) :], by_pooling[self.pooling], by_pooling[self.read]
        last = read if self.flat else read.unsqueeze(1)  # (B, 1, H): the head reads its only token
        before = self.base.__dict__.get("forward")

        def forward(*args: Any, **kwargs: Any) -> BaseModelOutputWithPoolingAndCrossAttentions:
            made = self.pooler(last) if self.pooler is not None else next(iter(pooled), None)
            # the only output that heads of encoders and of decoders both take: it has `past_key_values`
            return BaseModelOutputWithPoolingAndCrossAttentions(
                last_hidden_state=last, pooler_output=made, hidden_states=(shared,)
            )

        self.base.forward = forward
        try:
            yield
        finally:
            del self.base.forward
            if before is not None:
                self.base.forward = before


def _unfit(name: str) -> ValueError:
    return ValueError(
        f"`freeze_encoder` is True, but the head of {name} reads more of its encoder than the features of the first or "
        "last token and the pooled output, which are kept. Leave it out, or use an encoder whose head reads only "
        "these, such as BERT, RoBERTa, DistilBERT or Qwen."
    )


def encoder_inputs(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The columns of a batch that an encoder reads."""
    return {name: value for name, value in batch.items() if name not in BESIDE_INPUTS}
