"""A user's own task loss: a function in place of a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from transformers.utils import ModelOutput


class OwnTaskLoss:
    """The task loss of a function, for any space.

    Where a label of a label set is unknown, the function gets the label 0 and a constant logit of -10⁴: an absent label
    of probability 0, which costs nothing in a loss of right answers. Positions of tags that do not count are -100,
    pixels 255, as in the data.

    Args:
        function: logits and labels, of the shapes that the space has, -> the loss of each row, (B,); differentiable.
    """

    draws = False
    crf = None

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]):
        self.function = function

    def __call__(self, logits: Tensor, labels: Tensor, samples: Any = None, weight: Tensor | None = None) -> Tensor:
        """The mean over the batch, of rows that count by `weight` (B,): scalar.

        Raises:
            ValueError: the function gives another shape than (B,).
        """
        losses = self.function(logits, labels)
        found = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        if found != (len(logits),):
            raise ValueError(
                f"`task_loss` gave {found} for logits of shape {tuple(logits.shape)}; expected ({len(logits)},), the "
                "loss of each row. Sum over the labels of a row, and not over the rows."
            )
        return mean(losses, weight)

    def weigh(self, weights: dict[str, Tensor]) -> None:
        """Raises ValueError: the function has weights of its own, if any."""
        refuse(weights, "a `task_loss` of one's own")


class OwnBatchLoss(OwnTaskLoss):
    """The task loss of the Trainer's `compute_loss_func`.

    Args:
        function: (outputs, labels, num_items_in_batch) -> scalar. The outputs have `logits` alone, as of
            [`OwnTaskLoss`]; the number is that of the labels other than -100 of this micro-batch, on this process. The
            scalar should be a mean: those of micro-batches and processes are averaged, as of every task loss here.
    """

    function: Callable[..., Any]

    def __call__(self, logits: Tensor, labels: Tensor, samples: Any = None, weight: Tensor | None = None) -> Tensor:
        """Raises ValueError: the function gives no scalar, or rows have weights."""
        if weight is not None:
            raise ValueError(
                "The rows have a column `sample_weight`, but `compute_loss_func` gives one number for a whole batch. "
                "Give `task_loss=`, a function that gives the loss of each row, (B,)."
            )
        count = (labels != -100).sum()
        loss = self.function(ModelOutput(logits=logits), labels, num_items_in_batch=count)
        found = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        if found != ():
            raise ValueError(
                f"`compute_loss_func` gave {found} for logits of shape {tuple(logits.shape)}; expected (), a mean over "
                "the batch. A function that gives the loss of each row is `task_loss=`."
            )
        return loss


def mean(losses: Tensor, weight: Tensor | None = None) -> Tensor:
    """Σ_i w_i ℓ_i / B of the losses (B,) of rows with weights (B,), or all of weight 1: scalar."""
    return losses.mean() if weight is None else (losses * weight.to(losses.dtype)).mean()


def refuse(weights: dict[str, Tensor], loss: str) -> None:
    """Raises ValueError for weights of classes that a loss does not take."""
    raise ValueError(
        f"`{next(iter(weights))}` is set, but {loss} takes no weights of classes. Leave it out, or choose another "
        "`task_loss` (--task_loss)."
    )
