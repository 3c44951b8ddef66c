"""What every analysis reads: both nets of a folder, and rows of the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.utils import CONFIG_NAME

from ...data import DataError
from ...data.tensors.collators import TensorRows
from ...loss_net.loss_net import LOSS_NET_FOLDER, LossNetConfig
from ...saving.model import SealModel, SealModelT


@dataclass
class AnalysisArguments:
    """What to look at."""

    output_dir: str = field(default="analysis", metadata={"help": "Folder for the results."})
    figure: bool = field(default=True, metadata={"help": "Also draw a figure (needs matplotlib)."})
    batch_size: int = field(default=64, metadata={"help": "Validation rows at a time."})
    max_rows: int = field(default=500, metadata={"help": "Most validation rows; for tags with an LSTM take fewer."})
    max_labels: int = field(default=200, metadata={"help": "hessian: number of labels, the most frequent ones."})
    num_pairs: int = field(default=4, metadata={"help": "gradients: number of labels, each beside two others."})
    num_samples: int = field(default=1000, metadata={"help": "gradients: number of samples from Uniform(0, 1)^L."})
    energy_weight: float = field(default=1.0, metadata={"help": "gradients: λ1 of the run."})
    max_length: int | None = field(default=None, metadata={"help": "Longest text, in tokens; default: as in the run."})
    seed: int = field(default=0, metadata={"help": "Seed of the samples, and of splits that the data does not fix."})


def load_nets(kind: type[SealModelT], folder: str) -> SealModelT:
    """Both nets of a saved folder, frozen, for evaluation."""
    if not Path(folder, LOSS_NET_FOLDER, CONFIG_NAME).is_file():
        raise ValueError(
            f"{folder} has no {LOSS_NET_FOLDER}/, so there is no energy to analyse. Give the output_dir or a "
            "checkpoint of a run with a loss-net. `hessian` and `gradients` also take an energy network's folder."
        )
    check_space(LossNetConfig.from_pretrained(Path(folder, LOSS_NET_FOLDER)), kind, folder)
    return kind.from_pretrained(folder).eval().requires_grad_(False)


def check_space(config: LossNetConfig, kind: type[SealModel], folder: str) -> None:
    """Raises ValueError if a loss-net is for another kind of output."""
    if config.space != kind.space_class.name:
        raise ValueError(
            f"The loss-net in {folder} is for outputs of the kind {config.space}, but this command is for "
            f"{kind.space_class.name}: `hessian` and `gradients` analyse label sets, `tags` tag sequences."
        )


def check_names(seal: Any, data: Any, folder: str) -> None:
    """Raises DataError if the nets, configured by `seal.config`, were trained on other labels than the data have."""
    known: dict = seal.config.id2label or {}  # a configuration object has numbers as keys
    names = [known[i] for i in range(len(known))]
    if names != list(data.label_names):
        raise DataError(
            f"{folder} was trained on other labels ({len(names)}: {', '.join(names[:3])}, ...) than {data.name} has "
            f"({len(data.label_names)}: {', '.join(data.label_names[:3])}, ...). Give the run's own data set, with its "
            "options."
        )


def batches(rows: TensorRows, args: AnalysisArguments) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """Inputs and labels of the first validation rows."""
    for start in range(0, min(len(rows), args.max_rows), args.batch_size):
        batch = rows.batch(range(start, min(start + args.batch_size, len(rows), args.max_rows)))
        yield batch, batch.pop("labels")


@torch.no_grad()
def outputs_of(seal: SealModel, inputs: dict[str, Tensor]) -> Tensor:
    """The logits of the task-net."""
    return seal.task_net(**inputs).logits
