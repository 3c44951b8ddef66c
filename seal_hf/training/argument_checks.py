"""Arguments of [`SealTrainingArguments`] that do not go together."""

from __future__ import annotations

from typing import Any

from ..energy_losses import ENERGY_LOSSES

CROSS_ENTROPY = "ce"  # the same trainer with no loss-net


def check_coherence(args: Any) -> None:
    """Raises ValueError where samples are to be coherent, but the energy loss draws none."""
    if args.energy_loss == CROSS_ENTROPY:  # it leaves what is of energy losses aside
        return
    drawing = [name for name, loss in ENERGY_LOSSES.items() if loss.draws()]
    if args.sample_coherence != "none" and args.energy_loss not in drawing:
        raise ValueError(
            f"`sample_coherence` is {args.sample_coherence!r}, but energy_loss={args.energy_loss!r} draws no "
            f"samples that could be coherent. Use one of {', '.join(drawing)} (--loss), or leave it out."
        )


def check_hypergradient(args: Any) -> None:
    """Raises ValueError for what implicit gradients do not go together with."""
    if args.hypergradient == "none" or args.energy_loss == CROSS_ENTROPY:
        return
    those = [name for name, loss in ENERGY_LOSSES.items() if loss.reads_output and not loss.reads_gold]
    if args.energy_loss not in those:
        raise ValueError(
            f"`hypergradient` is {args.hypergradient!r}, which takes a loss of the task-net's output that leaves "
            f"the task-net the plain energy; energy_loss={args.energy_loss!r} is not such a loss. Use one of "
            f"{', '.join(those)}."
        )
    if args.loss_net_steps == 0:
        raise ValueError(
            f"`hypergradient` is {args.hypergradient!r}, but `loss_net_steps` is 0: the loss-net, which it is to "
            "train, is never updated. Set loss_net_steps=1, or hypergradient='none'."
        )
    if args.energy_weight_balance:
        raise ValueError(
            "`energy_weight_balance` moves λ1 with the gradients, and `hypergradient` needs an inner loss that "
            "stands still. Leave one of them out."
        )
    if args.loss_net_torch_compile and args.hypergradient_product != "finite_differences":
        raise ValueError(
            f"`loss_net_torch_compile` is set, but a compiled loss-net has no second derivative, which "
            f"hypergradient_product={args.hypergradient_product!r} takes. Use 'finite_differences', or leave it "
            "eager."
        )
