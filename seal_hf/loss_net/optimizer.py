"""AdamW for tables of which each step touches only a few rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

ROWS_AT_ONCE = 256  # on a CPU: they stay in its cache, which takes 0.6 of the time of all rows at once


class RowAdamW(torch.optim.AdamW):
    """AdamW that also supports row-sparse gradients, and then updates only these rows.

    A parameter with a dense gradient gets the stock update. With a sparse gradient, every row has its own time: its
    moments decay, its weight decays and its step is counted only when it has a gradient. So a row with a gradient in
    every step moves exactly as under AdamW, and a rare row as if its own steps were the only ones. Dense AdamW, in
    contrast, keeps moving a row by its old momentum. torch's SparseAdam does not, but it corrects the bias by the
    steps of the whole table, so that the first step of a late row is up to (1-β₁)/√(1-β₂) = 3 times as long, and it
    lacks weight decay.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]  # overloads
        """One update. In fp16 an overflow in the gradient leaves sparse rows unchanged, like dense ones."""
        sparse = [(p, group) for group in self.param_groups for p in group["params"] if _is_sparse(p.grad)]
        overflow = getattr(self, "found_inf", None)  # set by a GradScaler if the optimizer must do the skipping
        gradients = [p.grad for p, _ in sparse]
        for p, group in sparse:
            if overflow is None or not overflow.item():
                self._step_rows(p, p.grad, group)
            p.grad = None  # hidden from the stock update
        for state in (self.state[p] for group in self.param_groups for p in group["params"] if p.grad is not None):
            if state and state["step"].dim():  # a run resumed with dense gradients: one count for the table
                state["step"] = state["step"].max()
        loss = super().step(closure)
        for (p, _), gradient in zip(sparse, gradients, strict=True):
            p.grad = gradient
        return loss

    def _step_rows(self, p: nn.Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[p]
        if not state:
            state["step"] = p.new_zeros(p.shape[0], dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        if not state["step"].dim():  # a run resumed with sparse gradients: a count for each row
            state["step"] = state["step"].to(p.device).repeat(p.shape[0])
        gradient = gradient.coalesce()
        size = ROWS_AT_ONCE if p.device.type == "cpu" else p.shape[0]
        parts = gradient.indices()[0].split(size), gradient.values().split(size)
        for rows, g in zip(*parts, strict=True):  # (U,), (U, D)
            self._step_some(p, rows, g, group, **state)

    @staticmethod
    def _step_some(
        p: nn.Parameter,
        rows: Tensor,
        g: Tensor,
        group: dict[str, Any],
        *,
        step: Tensor,
        exp_avg: Tensor,
        exp_avg_sq: Tensor,
    ) -> None:
        """AdamW (Loshchilov & Hutter 2019, algorithm 2) on rows of a table, with both bias corrections moved into the
        rate:

        rate m̂ / (√v̂ + ε) = rate c / (1 - β₁ᵗ) · m / (√v + c ε),  c = √(1 - β₂ᵗ)
        """
        (beta1, beta2), rate = group["betas"], group["lr"]
        steps = step[rows] + 1
        count = steps.to(p.dtype).unsqueeze(1)  # (U, 1)
        mean = exp_avg.index_select(0, rows).lerp_(g, 1 - beta1)
        square = exp_avg_sq.index_select(0, rows).mul_(beta2).addcmul_(g, g, value=1 - beta2)
        correction = (1 - beta2**count).sqrt_()
        move = mean / square.sqrt().add_(correction * group["eps"])
        values = p.index_select(0, rows)
        if group["weight_decay"]:
            values.mul_(1 - rate * group["weight_decay"])
        values.sub_(move.mul_(correction * rate / (1 - beta1**count)))
        for table, new in ((step, steps), (exp_avg, mean), (exp_avg_sq, square), (p, values)):
            table.index_copy_(0, rows, new)


def clip_grad_norm(parameters: list[nn.Parameter], limit: float) -> Tensor:
    """`torch.nn.utils.clip_grad_norm_`, whose norm counts a row-sparse gradient by its coalesced values.

    Returns:
        The norm of all gradients before clipping, a scalar on the device.
    """
    for p in parameters:
        if _is_sparse(p.grad):
            p.grad = p.grad.coalesce()  # a row may occur twice: the norm is of the sum
    dense = [p for p in parameters if not _is_sparse(p.grad)]
    values = [gradient.values() for p in parameters if _is_sparse(gradient := p.grad)]
    if not values:
        return torch.nn.utils.clip_grad_norm_(dense, limit)
    gradients = [p.grad for p in dense if p.grad is not None] + values
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    scale = (limit / (norm + 1e-6)).clamp_max(1.0)
    for gradient in gradients:
        gradient.mul_(scale)
    return norm


def _is_sparse(gradient: Tensor | None) -> TypeGuard[Tensor]:
    return gradient is not None and gradient.is_sparse


def with_own_rate(optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter], rate: float) -> None:
    """Move these parameters of `optimizer` into groups of their own, which differ only in the rate. Call it before a
    scheduler is made, since a scheduler remembers the rates that it finds."""
    own = {id(p) for p in parameters}
    for group in list(optimizer.param_groups):
        moved = [p for p in group["params"] if id(p) in own]
        if moved:
            group["params"] = [p for p in group["params"] if id(p) not in own]
            optimizer.add_param_group({**group, "params": moved, "lr": rate})
            if not group["params"]:
                optimizer.param_groups.remove(group)
