"""A second network trained beside the Trainer's model, with its own DDP wrapper, optimizer, scheduler and gradient
scaler.

The Trainer and accelerate do not know about it: accelerate has one gradient scaler for all prepared optimizers and
unscales them all at once, and one DDP wrapper around both nets cannot express alternating phases. `zero_grad`,
`backward` and `apply` are separate calls, so that an update can use gradients from several places.
"""

from __future__ import annotations

import contextlib
from typing import Any, cast

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import get_scheduler

from .loss_net import LossNet
from .optimizer import RowAdamW, clip_grad_norm


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
        compile_options: arguments of `torch.compile` for the forward of `__call__`; None leaves it eager. `net` itself
            stays eager and keeps its parameters' names, so that calling it frozen causes no recompilation.
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
        compile_options: dict[str, Any] | None = None,
        finds_unused_parameters: bool = False,
    ):
        self.net = net.to(accelerator.device)
        self.accelerator = accelerator
        self.max_grad_norm = max_grad_norm
        self.parameters = [p for group in param_groups for p in group["params"]]
        forward_net: nn.Module = self.net
        if compile_options is not None:
            forward_net = cast(nn.Module, torch.compile(self.net, **compile_options))  # a compiled module is a module
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
            compile_options=args.loss_net_compile_options,
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
        """Accumulate the gradient of `loss` (scaled in fp16). ValueError if it is no scalar."""
        if loss.dim() > 0:
            raise ValueError(f"The energy loss gave {tuple(loss.shape)}; expected a scalar, the mean over the batch.")
        self.scaler.scale(loss).backward()

    def accumulate(self, synchronise: bool) -> contextlib.AbstractContextManager[None]:
        """Context of one forward and backward; gradients are averaged over the processes only if `synchronise`."""
        if synchronise or not isinstance(self.forward_net, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.forward_net.no_sync()

    def apply(self) -> None:
        """Unscale, clip, step, schedule: one update from the accumulated gradients."""
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
