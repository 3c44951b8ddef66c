"""Refuses [`SealTrainingArguments`] that contradict each other."""

from __future__ import annotations

from typing import Any

from ..energy_losses import CROSS_ENTROPY, ENERGY_LOSSES, EnergyLoss

CONSTANT_WEIGHT = {"energy_weight_schedule": "constant", "energy_weight_balance": False}  # of a constant λ1


def check_weight(args: Any) -> None:
    """Raises ValueError for a λ1 that changes within a run, if the energy loss reads it too; or that a rule chooses, if
    evaluations do not measure what the rule reads."""
    if args.energy_loss == CROSS_ENTROPY:
        return
    if args.energy_weight is None and getattr(args, "use_legacy_prediction_loop", False):  # of transformers 4
        raise ValueError(
            "`use_legacy_prediction_loop` is True: its evaluations do not measure by what the rule chooses λ1. Leave "
            "it out, or give `energy_weight`."
        )
    if not ENERGY_LOSSES[args.energy_loss].reads_weight:
        return
    changed = [name for name, kept in CONSTANT_WEIGHT.items() if getattr(args, name) != kept]
    if changed:
        raise ValueError(
            f"`{changed[0]}` is {getattr(args, changed[0])!r}, but with energy_loss={args.energy_loss!r} λ1 weighs a "
            "term of each net, and that of the second net is constant. Leave it out."
        )


def check_coherence(args: Any) -> None:
    """Raises ValueError for coherent samples if the energy loss draws no samples."""
    if args.energy_loss == CROSS_ENTROPY:  # it ignores options of energy losses
        return
    drawing = [name for name, loss in ENERGY_LOSSES.items() if loss.draws_samples()]
    if args.sample_coherence != "none" and args.energy_loss not in drawing:
        raise ValueError(
            f"`sample_coherence` is {args.sample_coherence!r}, but energy_loss={args.energy_loss!r} draws no "
            f"samples. Use one of {', '.join(drawing)} (--loss), or leave it out."
        )


def check_hypergradient(args: Any) -> None:
    """Raises ValueError for options that do not go with implicit gradients."""
    if args.hypergradient == "none" or args.energy_loss == CROSS_ENTROPY:
        return
    plain = [name for name, loss in ENERGY_LOSSES.items() if loss.task_row is EnergyLoss.task_row]
    those = [name for name in plain if ENERGY_LOSSES[name].reads_output and not ENERGY_LOSSES[name].reads_gold]
    if args.energy_loss not in those:
        raise ValueError(
            f"`hypergradient` is {args.hypergradient!r}, which needs an energy loss that reads the task-net's output "
            f"and teaches it by the plain energy; energy_loss={args.energy_loss!r} is not such a loss. Use one of "
            f"{', '.join(those)}."
        )
    if args.loss_net_steps == 0:
        raise ValueError(
            f"`hypergradient` is {args.hypergradient!r}, but `loss_net_steps` is 0: the loss-net is never updated. Set "
            "loss_net_steps=1, or hypergradient='none'."
        )
    if args.energy_weight_balance:
        raise ValueError(
            "`energy_weight_balance` changes λ1 with the gradients, but `hypergradient` needs a fixed inner loss. "
            "Leave one of them out."
        )
    if args.loss_net_torch_compile and args.hypergradient_product != "finite_differences":
        raise ValueError(
            f"`loss_net_torch_compile` is set, but a compiled loss-net lacks the second derivative that "
            f"hypergradient_product={args.hypergradient_product!r} needs. Use 'finite_differences', or leave "
            "`loss_net_torch_compile` out."
        )
