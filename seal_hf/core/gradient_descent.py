"""Gradient-based inference (GBI): the relaxed structure of lowest energy, by gradient descent on the structure itself.

    ŷ = argmin_{y in [0, 1]^L} f(x, y)

f is any objective: an energy, or an energy minus a cost (loss-augmented inference). Sources: SPEN = Belanger & McCallum
2016, §3; the steps, the clamp and the starts are those of the SEAL authors' code.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..utils.options import check_value
from .label_sets import LabelSets
from .tensors import wide

OPTIMIZERS = ("adam", "projected")
STARTS = ("zeros", "uniform", "random", "task_net")
BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam, the authors' values


class GradientBasedInference:
    """Minimises an objective over the box [0, 1]^L, from S starts per input at once.

    The best iterate is kept for each (input, start): the start and every step, including the last, are evaluated. (The
    authors' code never picks the last.)

    Args:
        steps: gradient steps, >= 0; there is one more evaluation than steps.
        learning_rate: step size in units of y, > 0. Adam's first step moves every entry by this much.
        optimizer: `adam`, clamped to the box after each step, or `projected` gradient descent, y <- Π(y - η ∇f).
        start: the first start: `zeros`, `uniform` (all entries 1/2), `random` (uniform in the box), or `task_net`, the
            relaxed output of a task-net.
        num_starts: S; all but the first are random.

    Raises:
        ValueError: an unknown name, or a number outside its range.
    """

    def __init__(
        self,
        steps: int = 20,
        learning_rate: float = 0.1,
        optimizer: str = "adam",
        start: str = "zeros",
        num_starts: int = 1,
    ):
        check_value("optimizer", optimizer, OPTIMIZERS)
        check_value("start", start, STARTS)
        if steps < 0 or num_starts < 1 or not learning_rate > 0:
            raise ValueError(
                f"`steps` is {steps}, `learning_rate` {learning_rate}, `num_starts` {num_starts}; expected `steps` >= "
                "0, `learning_rate` > 0 and `num_starts` >= 1."
            )
        self.steps, self.learning_rate, self.optimizer = steps, learning_rate, optimizer
        self.start, self.num_starts = start, num_starts

    def starts(
        self,
        shape: tuple[int, ...],
        device: torch.device | str = "cpu",
        generator: torch.Generator | None = None,
        output: Tensor | None = None,
    ) -> Tensor:
        """The starts, float32 (B, S, ...), for structures of shape (B, ...).

        Args:
            shape: the shape of one structure per input, batch first.
            generator: for random starts; required if there are any.
            output: (B, 1, ...) relaxed output of the task-net; required for `start="task_net"`.

        Raises:
            ValueError: a required argument is missing, or the output is a sparse label set.
        """
        if self.start == "task_net" and output is None:
            raise ValueError(
                "gradient-based inference starts from the task-net's output (start='task_net'), but it is missing. "
                f"Give a task-net, or start from one of {', '.join(STARTS[:-1])}."
            )
        _check_dense(output)
        y = torch.empty(shape[0], self.num_starts, *shape[1:], device=device)
        if self.num_starts > 1 or self.start == "random":
            y.uniform_(generator=generator)
        if self.start == "task_net" and output is not None:
            y[:, :1] = output
        elif self.start != "random":
            y[:, :1] = 0.0 if self.start == "zeros" else 0.5
        return y

    def __call__(self, objective: Callable[[Tensor], Tensor], starts: Tensor) -> tuple[Tensor, Tensor]:
        """Descend from all starts of all inputs together.

        Args:
            objective: (B, S, ...) -> (B, S), differentiable in y; the value of a candidate must not depend on the
                others. Only y gets gradients: parameters keep the `.grad` they have.
            starts: (B, S, ...); clamped to the box.

        Returns:
            The best iterate of the best start, (B, 1, ...), without gradient, and its value (B, 1). An iterate with
            value NaN is never the best.

        Raises:
            ValueError: sparse starts.
        """
        _check_dense(starts)
        y = starts.detach().float().clamp(0, 1)
        best, least = y, torch.full(y.shape[:2], float("inf"), device=y.device)
        state = (torch.zeros_like(y), torch.zeros_like(y))
        for step in range(self.steps + 1):
            with torch.set_grad_enabled(step < self.steps):  # even if the caller, an evaluation, disabled it
                y = y.detach().requires_grad_(step < self.steps)
                value = objective(y)
                if step < self.steps:
                    (gradient,) = torch.autograd.grad(value.sum(), y)
            y, value = y.detach(), value.detach()
            better = value < least
            best, least = torch.where(wide(better, y), y, best), torch.where(better, value, least)
            if step < self.steps:
                y = self._step(y, gradient, state, step + 1).clamp(0, 1)
        chosen = least.argmin(1, keepdim=True)  # (B, 1)
        index = wide(chosen, best).expand(-1, -1, *best.shape[2:])
        return best.gather(1, index), least.gather(1, chosen)

    def _step(self, y: Tensor, gradient: Tensor, state: tuple[Tensor, Tensor], t: int) -> Tensor:
        """One step downhill; `state` holds Adam's two moments, updated in place (Kingma & Ba 2015, Algorithm 1)."""
        if self.optimizer == "projected":
            return y - self.learning_rate * gradient
        first, second = state
        first.lerp_(gradient, 1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        scale = (second / (1 - BETAS[1] ** t)).sqrt_().add_(EPSILON)
        return y - (self.learning_rate / (1 - BETAS[0] ** t)) * first / scale


def _check_dense(y: Tensor | LabelSets | None) -> None:
    if isinstance(y, LabelSets):
        raise ValueError(
            "Gradient-based inference got a sparse label set, but it moves every entry of a structure, so it needs "
            "dense tensors (B, S, L). Use a space with dense label sets: MultiLabelSpace(sparse_from=num_labels + 1)."
        )
