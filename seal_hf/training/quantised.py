"""What a run cannot do on a quantised base."""

from __future__ import annotations

from accelerate import Accelerator
from torch import nn

from ..nets.adapters.quantised import quantization_of
from .arguments import SealTrainingArguments
from .launchers import SHARDED


def check_quantised_run(args: SealTrainingArguments, model: nn.Module, accelerator: Accelerator) -> None:
    """Raises ValueError for a launcher that shards quantised weights, and for a Hessian through them, which lack a
    second derivative."""
    found = quantization_of(model)
    if found is None:
        return
    if accelerator.distributed_type in SHARDED:
        raise ValueError(
            f"The task-net is quantised ({found}), which {accelerator.distributed_type.value} cannot shard. Launch it "
            "with DDP, or load it without quantization."
        )
    if args.hypergradient != "none" and args.hypergradient_parameters != "head":
        raise ValueError(
            f"`hypergradient_parameters` is {args.hypergradient_parameters!r}, but quantised weights ({found}) have no "
            "second derivative. Use 'head'."
        )
