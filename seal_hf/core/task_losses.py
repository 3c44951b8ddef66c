"""What the task losses of all outputs share, and a user's own loss, given as a function instead of a class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from torch import Tensor
from transformers.utils import ModelOutput

Loss = TypeVar("Loss")


class OwnTaskLoss:
    """A task loss that calls a function, for any space.

    For an unknown label of a label set, the function gets the label 0 and a constant logit of -10⁴: an absent label of
    probability 0, which costs nothing in a loss that is 0 for right answers. Tag positions that do not count have the
    label -100 and pixels 255, as in the data.

    Args:
        function: (logits, labels) -> the loss of each row, (B,), differentiable. The shapes are those of the space.
    """

    draws = False
    crf = None

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]):
        self.function = function

    def __call__(self, logits: Tensor, labels: Tensor, samples: Any = None, weight: Tensor | None = None) -> Tensor:
        """The mean over the batch, with row weights `weight` (B,): scalar.

        Raises:
            ValueError: the function returns another shape than (B,).
        """
        losses = self.function(logits, labels)
        found = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        if found != (len(logits),):
            raise ValueError(
                f"`task_loss` gave {found} for logits of shape {tuple(logits.shape)}; expected ({len(logits)},), the "
                "loss of each row. Sum over the labels of a row, not over the rows."
            )
        return mean(losses, weight)

    def weigh(self, weights: dict[str, Tensor]) -> None:
        """Raises ValueError: a function must apply class weights itself."""
        refuse(weights, "your own `task_loss`")


class OwnBatchLoss(OwnTaskLoss):
    """The task loss of the Trainer's `compute_loss_func`.

    Args:
        function: (outputs, labels, num_items_in_batch) -> scalar. The outputs have only `logits`, as in
            [`OwnTaskLoss`]. The number counts the labels other than -100 in this micro-batch on this process. The
            scalar should be a mean: like every task loss here, it is averaged over micro-batches and processes.
    """

    function: Callable[..., Any]

    def __call__(self, logits: Tensor, labels: Tensor, samples: Any = None, weight: Tensor | None = None) -> Tensor:
        """Raises ValueError if the function does not return a scalar, or if rows have weights."""
        if weight is not None:
            raise ValueError(
                "The rows have a column `sample_weight`, but `compute_loss_func` gives one number for a whole batch. "
                "Use `task_loss=` instead, with a function that gives the loss of each row, (B,)."
            )
        count = (labels != -100).sum()
        loss = self.function(ModelOutput(logits=logits), labels, num_items_in_batch=count)
        found = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        if found != ():
            raise ValueError(
                f"`compute_loss_func` gave {found} for logits of shape {tuple(logits.shape)}; expected (), a mean over "
                "the batch. Pass a function that gives the loss of each row as `task_loss=`."
            )
        return loss


def loss_named(args: Any, losses: Mapping[str, Loss], outputs: str) -> Loss:
    """The entry of `losses` that `args.task_loss` names. Raises ValueError if there is none for these `outputs`, which
    the message calls by that name."""
    if args.task_loss not in losses:
        raise ValueError(f"`task_loss` is {args.task_loss!r}; for {outputs} it must be one of {', '.join(losses)}.")
    return losses[args.task_loss]


def mean(losses: Tensor, weight: Tensor | None = None) -> Tensor:
    """Σ_i w_i ℓ_i / B for losses ℓ (B,) and row weights w (B,), default 1: scalar. Raises ValueError for losses of
    another shape."""
    if losses.dim() != 1:
        raise ValueError(
            f"`per_example` gave {tuple(losses.shape)}; expected (B,), the loss of each row. Sum over the labels or "
            "words of a row, not over the rows."
        )
    return losses.mean() if weight is None else (losses * weight.to(losses.dtype)).mean()


def refuse(weights: dict[str, Tensor], loss: str) -> None:
    """Raises ValueError for class weights that a loss does not support."""
    raise ValueError(
        f"`{next(iter(weights))}` is set, but {loss} takes no class weights. Leave it out, or choose another "
        "`task_loss` (--task_loss)."
    )
