"""A second network trained beside the Trainer's model, with its own DDP wrapper, optimizer, scheduler and gradient
scaler.

The Trainer and accelerate do not know about it: accelerate has one gradient scaler for all prepared optimizers and
unscales them all at once, and one DDP wrapper around both nets cannot express alternating phases. `zero_grad`,
`backward` and `apply` are separate calls, so that an update can use gradients from several places.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import get_scheduler

from .loss_net import LossNet


def reduces_sparse(accelerator: Accelerator) -> bool:
    """True if this launcher supports row-sparse gradients: one process need not average, gloo can, NCCL cannot."""
    return accelerator.num_processes == 1 or torch.distributed.get_backend() == "gloo"


class Learner:
    """Trains one network.

    Args:
        net: the network; the parameters that now require a gradient are trained.
        accelerator: gives device, precision and the processes; nothing is prepared with it.
        param_groups: parameter groups for AdamW (a list of dicts); together exactly the trainable parameters.
            Row-sparse gradients are supported, see [`RowAdamW`].
        scheduler_type: name of a `transformers` schedule.
        num_warmup_steps: in updates of this network.
        num_training_steps: updates of this network in the whole run.
        max_grad_norm: gradient norm clipping; 0 switches it off (the norm is still measured).
        betas, eps: those of AdamW.
        finds_unused_parameters: DDP looks for parameters that get no gradient in a step.
    """

    def __init__(
        self,
        net: nn.Module,
        accelerator: Accelerator,
        param_groups: list[dict[str, Any]],
        *,
        scheduler_type: str = "constant",
        num_warmup_steps: int = 0,
        num_training_steps: int = 1,
        max_grad_norm: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        finds_unused_parameters: bool = False,
    ):
        self.net = net.to(accelerator.device)
        self.accelerator = accelerator
        self.max_grad_norm = max_grad_norm
        self.parameters = [p for group in param_groups for p in group["params"]]
        forward_net: nn.Module = self.net
        if accelerator.num_processes > 1:
            device_ids = [accelerator.device.index] if accelerator.device.type == "cuda" else None
            forward_net = DistributedDataParallel(
                forward_net, device_ids=device_ids, find_unused_parameters=finds_unused_parameters
            )
        self.forward_net = forward_net
        rate = param_groups[-1].get("lr", 1e-3)  # every group has its own rate, but some schedules read the default
        self.optimizer = RowAdamW(param_groups, lr=rate, betas=betas, eps=eps, fused=True)
        self.scheduler = get_scheduler(
            scheduler_type, self.optimizer, num_warmup_steps=num_warmup_steps, num_training_steps=num_training_steps
        )
        self.scaler = torch.amp.GradScaler(accelerator.device.type, enabled=accelerator.mixed_precision == "fp16")
        self.grad_norm = torch.zeros((), device=accelerator.device)
        self.has_stepped = True  # False after an fp16 overflow, which skips an update, and the schedule with it

    @classmethod
    def of_loss_net(cls, loss_net: LossNet, accelerator: Accelerator, args: Any, num_training_steps: int) -> Learner:
        """The learner that [`SealTrainingArguments`] describe, for a run of `num_training_steps` task-net updates."""
        phases = -(-num_training_steps // args.loss_net_every)
        return cls(
            loss_net,
            accelerator,
            loss_net.parameter_groups(args),
            scheduler_type=args.loss_net_lr_scheduler_type,
            num_warmup_steps=args.loss_net_warmup_steps,
            num_training_steps=phases * args.loss_net_steps,
            max_grad_norm=args.loss_net_max_grad_norm,
            betas=(args.adam_beta1, args.adam_beta2),
            eps=args.adam_epsilon,
            finds_unused_parameters=loss_net.may_lack_gradients and not args.loss_net_gradient_checkpointing,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """One forward through the wrapper, in training mode and in the run's precision."""
        self.net.train()
        with self.accelerator.autocast():
            return self.forward_net(*args, **kwargs)

    def zero_grad(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of `loss`, scaled in fp16, to earlier ones. Raises ValueError if `loss` is no scalar."""
        if loss.dim() > 0:
            raise ValueError(f"The energy loss gave {tuple(loss.shape)}; expected a scalar, the mean over the batch.")
        self.scaler.scale(loss).backward()

    def accumulate(self, synchronise: bool) -> contextlib.AbstractContextManager[None]:
        """Context for one forward and backward. The gradients are averaged over the processes only if `synchronise` is
        True."""
        if synchronise or not isinstance(self.forward_net, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.forward_net.no_sync()

    def apply(self) -> None:
        """Make one update from the accumulated gradients: unscale, clip, step, schedule."""
        self.scaler.unscale_(self.optimizer)
        limit = self.max_grad_norm or float("inf")
        self.grad_norm = clip_grad_norm(self.parameters, limit)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.has_stepped = self.scaler.get_scale() >= scale
        if self.has_stepped:
            self.scheduler.step()

    @property
    def learning_rate(self) -> float:
        return self.scheduler.get_last_lr()[-1]

    def state_dict(self) -> dict[str, Any]:
        """Everything except the weights, which are saved as a model."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])


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
        """Make one update. In fp16, an overflow in the gradient leaves sparse rows unchanged, as it does dense ones."""
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
