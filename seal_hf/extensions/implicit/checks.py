"""What implicit gradients need of nets and launchers, checked at the start of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from accelerate.utils import DistributedType
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import logging

from ...core.space import OutputSpace
from ...loss_net.loss_net import LossNet
from .hypergradient import FINITE_DIFFERENCES
from .task_function import FUSED_ATTENTION, select_parameters

logger = logging.get_logger(__name__)
RELUS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU)


def check_hypergradient(
    args: Any,
    model: PreTrainedModel,
    loss_net: LossNet,
    space: OutputSpace,
    distributed_type: DistributedType,
) -> None:
    """Raises ValueError if the task-net's Hessian cannot be computed: for sparse label sets, for sharded parameters,
    for parameters that the task-net lacks, through a kernel of attention or of an LSTM without the derivative, or by
    finite differences through ReLUs of the energy."""
    if args.hypergradient == "none":
        return
    what = f"`hypergradient` is {args.hypergradient!r}, but"
    num_labels: Any = model.config.num_labels
    if space.is_sparse(num_labels):
        raise ValueError(
            f"{what} label sets are sparse at {num_labels} labels, which cuts the output to its largest entries. Set "
            "`sparse_labels_from` above the number of labels."
        )
    if distributed_type not in (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU):
        raise ValueError(f"{what} {distributed_type.value} shards the task-net. Launch it with DDP.")
    kernel = getattr(model.config, "_attn_implementation", None)
    exact = args.hypergradient_product != FINITE_DIFFERENCES
    if kernel in FUSED_ATTENTION and exact and args.hypergradient_parameters != "head":
        raise ValueError(
            f"{what} the task-net's attention, {kernel}, has no second derivative. Use "
            f"hypergradient_product={FINITE_DIFFERENCES!r}, hypergradient_parameters='head', or load the task-net with "
            "attn_implementation='sdpa'."
        )
    read = [loss_net.energy] if args.hypergradient_parameters == "head" else [loss_net.energy, model]
    if args.hypergradient_product == "forward_over_reverse" and args.device.type == "cuda" and _any(read, nn.RNNBase):
        raise ValueError(
            f"{what} CUDA has no forward-mode derivative of recurrent nets, which "
            f"hypergradient_product={args.hypergradient_product!r} needs. Use 'double_backward'; or, if the energy has "
            "none, hypergradient_parameters='head'."
        )
    if not exact and _any([loss_net.energy], RELUS):
        raise ValueError(
            f"{what} the energy {loss_net.config.energy!r} has ReLUs, whose gradient jumps: products by "
            f"hypergradient_product={FINITE_DIFFERENCES!r} are then wrong by more than their own size. Use "
            "'double_backward'."
        )
    if not exact and _any([model], RELUS):
        logger.warning(
            f"{what} {type(model).__name__} has ReLUs, whose gradient jumps: where they depend on the parameters of "
            f"the Hessian, products by hypergradient_product={FINITE_DIFFERENCES!r} are wrong. Use 'double_backward'."
        )
    select_parameters(model, args.hypergradient_parameters)


def _any(nets: Iterable[nn.Module], kinds: Any) -> bool:
    """True if a module of these kinds is in one of the nets."""
    return any(isinstance(module, kinds) for net in nets for module in net.modules())
