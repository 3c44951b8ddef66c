"""Features of a frozen encoder, computed once for a whole data set and kept on disk.

A file holds a chunk of rows. Its name is a hash of everything it was computed from: the encoder's weights and
configuration, the contents of the rows, the libraries' versions and the device. So nothing stale is ever read. It is
written under another name and then renamed: an interrupted run continues where it stopped, and processes may share a
folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging

from ..data.tensors.collators import TensorRows
from ..utils.files import whole_file
from ..utils.modules import in_evaluation
from .encoders import encoder_options, inputs_of, vector
from .heads import MEAN

FEATURES = "loss_net_features"  # the column with the loss-net's features
CHUNK = 512  # rows per file: the most that an interruption loses

logger = logging.get_logger(__name__)


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
    """The same rows with the further column `loss_net_features`, one vector per row; `rows` does not change."""
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
