"""A frozen encoder's outputs, computed once for each row of a data set and kept on disk: those of the loss-net's
encoder, and those of the task-net's, on which its head trains.

A file holds a chunk of rows. Its name is a hash of everything it was computed from: the encoder's weights and
configuration, the contents of the rows, the libraries' versions and the device. So nothing stale is ever read. It is
written under another name and then renamed: an interrupted run continues where it stopped, and processes may share a
folder.

The head of a task-net is everything that reads the encoder's outputs: the classifier, the encoder's own pooler if it
has one, and a loss-net that shares the features. Three things are kept: the last hidden state of one token, which is
the last token if the head reads that one and else the first; the mean over the tokens; and the pooled output, unless a
pooler of the encoder makes it from the first token. The task-net itself stays whole, so that it is saved, loaded and
evaluated like any other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions
from transformers.utils import logging

from ..core.space import REWARD_CODES, SAMPLE_WEIGHT
from ..data.tensors.collators import TensorRows, longest_first
from ..utils.files import whole_file
from ..utils.modules import in_evaluation
from .encoders import encoder_options, inputs_of, vector
from .heads import FIRST, LAST, MEAN, alike, own_pooler

logger = logging.get_logger(__name__)


FEATURES = "loss_net_features"  # the column with the loss-net's features
CHUNK = 512  # rows per file: the most that an interruption loses

Read = Callable[[Any, Mapping[str, Tensor]], Tensor]  # an encoder's outputs and its inputs -> features


@torch.no_grad()
def cached_features(
    encoder: PreTrainedModel,
    rows: TensorRows,
    folder: str | Path,
    batch_size: int = 64,
    kind: str = "pooled",
    read: Read | None = None,
    trained: str | None = None,
) -> Tensor:
    """Features of all rows, by default the mean over their tokens, without dropout: float32 (N, ...) on the CPU.

    Args:
        encoder: gives `last_hidden_state`; it must not change while the features are in use.
        rows: its inputs; `labels` are not read.
        folder: the cache; made if missing, and shared by any number of encoders and data sets.
        batch_size: rows per forward. Padding changes the last bit of a feature, so the files depend on the batches of
            the run that wrote them.
        kind: what the features are called in the cache: a name for each `read`.
        read: a function from the encoder's outputs and inputs to features (B, ...).
        trained: prefix of the names of parameters that do not affect the features.
    """
    read = read or partial(_pooled, MEAN, encoder)
    home = Path(folder) / _encoder_key(encoder, kind, trained)
    home.mkdir(parents=True, exist_ok=True)
    features = []
    for start in range(0, len(rows), CHUNK):
        indices = range(start, min(start + CHUNK, len(rows)))
        file = home / f"{_rows_key(rows, indices)}.safetensors"
        chunk = _read(file)
        if chunk is None:
            batches = [indices[i : i + batch_size] for i in range(0, len(indices), batch_size)]
            with in_evaluation(encoder):
                chunk = torch.cat([_encode(encoder, rows.batch(batch), read) for batch in batches])
            with whole_file(file) as unfinished:
                save_file({FEATURES: chunk}, unfinished)
        features.append(chunk)
    return torch.cat(features)


def with_cached_features(
    encoder: PreTrainedModel, rows: TensorRows, folder: str | Path, pooling: str = MEAN
) -> TensorRows:
    """A copy of the rows with one more column, `loss_net_features`, which has a vector for each row."""
    kind = "pooled" if pooling == MEAN else pooling
    features = cached_features(encoder, rows, folder, kind=kind, read=partial(_pooled, pooling, encoder))
    extended = copy(rows)
    extended.dense = {**rows.dense, FEATURES: features}
    return extended


def _pooled(pooling: str, encoder: PreTrainedModel, outputs: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """As [`LossNet.encode`] pools: (B, H)."""
    return vector(outputs.last_hidden_state, inputs, pooling, encoder.config)


def _encode(encoder: PreTrainedModel, batch: dict[str, Tensor], read: Read) -> Tensor:
    inputs = inputs_of(encoder, batch)
    return read(encoder(**inputs), inputs).float().cpu()


def _read(file: Path) -> Tensor | None:
    try:
        return load_file(file)[FEATURES] if file.is_file() else None
    except (SafetensorError, KeyError):
        logger.warning(f"{file} is damaged; its rows are encoded again.")
        return None


def _encoder_key(encoder: PreTrainedModel, read: str, trained: str | None) -> str:
    digest = hashlib.sha256()
    facts = [type(encoder).__name__, torch.__version__, transformers.__version__, encoder.device.type, read]
    digest.update(json.dumps([facts, encoder_options(encoder.config)], sort_keys=True, default=str).encode())
    weights = {k: v for k, v in encoder.state_dict().items() if trained is None or not k.startswith(trained)}
    for name, value in sorted(weights.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]


def _rows_key(rows: TensorRows, indices: range) -> str:
    digest, span = hashlib.sha256(), slice(indices.start, indices.stop)
    for name in sorted(set(rows.column_names) - {"labels"}):
        digest.update(name.encode())
        if name in rows.dense:
            digest.update(rows.dense[name][span].contiguous().numpy().data)
        else:
            flat, offsets = rows.ragged[name]
            digest.update((offsets[indices.start : indices.stop + 1] - offsets[indices.start]).numpy().data)
            digest.update(flat[offsets[indices.start] : offsets[indices.stop]].numpy().data)
    return digest.hexdigest()[:32]


# A task-net with a frozen encoder.

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
        """The poolings of the last hidden states that are kept: the head's, the mean, and the loss-net's."""
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
        """Inputs of a single token. Nothing reads them, but the task-net's forward requires some."""
        ids = torch.zeros(len(outputs), 1, dtype=torch.long, device=outputs.device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    @contextmanager
    def giving(self, outputs: Tensor) -> Iterator[None]:
        """Make the encoder return these outputs for any input while the block runs."""
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
