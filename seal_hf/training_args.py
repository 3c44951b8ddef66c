"""SealTrainingArguments: the Trainer's arguments and those of the loss-net, flat, validated at construction."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from transformers import SchedulerType, TrainingArguments

from .encoders import ENCODER_MODES
from .energy_losses import ENERGY_LOSSES
from .spaces import COSTS, SPARSE_FROM

CROSS_ENTROPY = "ce"  # the same trainer with no loss-net


@dataclass
class SealTrainingArguments(TrainingArguments):
    """[`~transformers.TrainingArguments`], and the arguments of the method. Sources: SEAL = Lee et al. 2022.

    Parameters that control the energy loss, and how strongly it teaches:
        energy_loss (`str`, default `"nce"`, flag `--loss`): loss of the loss-net: `nce`, `ranking`, `margin`,
            `regression`, `regression_s` (SEAL §2.3), or `ce`, cross-entropy with no loss-net at all.
        num_samples (`int`, default 20): K, samples per input for `nce` and `ranking`; structures for `regression_s`
            (SEAL Eq. 8).
        energy_weight (`float`, default 1.0): λ1, weight of the energy in the task-net's loss (SEAL Eq. 1). With
            cross-entropy summed over labels, useful values found by the authors lie between 0.002 and 10.
        task_weight (`float`, default 1.0): λ2, weight of cross-entropy in the task-net's loss.
        margin_cost (`str`, default `"f1"`): Δ of `margin`: `f1` = 1 - soft F1, `l1` = summed distance, `l1_mean` = per
            label.
        perturbation_std (`float`, default 1.0): standard deviation of the logit noise of `regression_s`.

    Parameters that control large label sets:
        sparse_labels_from (`int`, default 2000): from so many labels on, candidates are lists of labels: samples are
            exact and cost what they hold, gradients of the loss-net's tables have the rows of these labels alone, and
            the task-net's relaxed output enters the energy cut to its largest entries.
        relaxed_mass (`float`, default 0.99): share of Σ ŷ that the cut output keeps, in (0, 1].
        relaxed_width (`int`, default 256): the most labels that the cut output keeps; `dropped_mass` in the log is what
            both left out, in labels per row.

    Parameters that control the alternation:
        loss_net_steps (`int`, default 1): n_E, loss-net updates before each task-net update; 0 keeps the loss-net as
            it is (SEAL-static).
        batch_repeats (`int`, default 1): n_F, how often each accumulation window is repeated (the authors' inner loop).
        loss_net_fresh_outputs (`bool`, default False): run the task-net anew, with new dropout, for every loss-net
            update, as the authors' code does, instead of once per step.

    Parameters that control the loss-net and its optimizer (AdamW; betas and epsilon are the Trainer's):
        loss_net_encoder (`str`, default `"separate"`): `separate` gives the loss-net its own encoder, `shared` the
            task-net's detached features. Read where the nets are built (`SealForMultiLabel`); the trainer refuses a
            loss-net of the other kind.
        loss_net_learning_rate (`float`, default 1e-3), loss_net_weight_decay (`float`, default 0.0).
        loss_net_encoder_learning_rate (`float`, optional): rate of the loss-net's own encoder; default:
            `loss_net_learning_rate`. A pretrained encoder wants a small one (the authors: 1e-5 beside 1e-4 for the
            head).
        loss_net_warmup_steps (`int`, default 0): in loss-net updates.
        loss_net_lr_scheduler_type (`str`, default `"constant"`): as the authors; any schedule of `transformers`
            without extra arguments.
        loss_net_max_grad_norm (`float`, default 10.0): gradient clipping of the loss-net; 0 = none.
    """

    energy_loss: str = field(
        default="nce",
        metadata={
            "aliases": ["--loss"],
            "help": f"Loss of the loss-net: {', '.join(ENERGY_LOSSES)}; or ce (no loss-net).",
        },
    )
    num_samples: int = field(default=20, metadata={"help": "K, samples per input."})
    energy_weight: float = field(default=1.0, metadata={"help": "λ1, weight of the energy in the task-net's loss."})
    task_weight: float = field(default=1.0, metadata={"help": "λ2, weight of cross-entropy in the task-net's loss."})
    margin_cost: str = field(default="f1", metadata={"help": f"Δ of the margin loss: {', '.join(COSTS)}."})
    perturbation_std: float = field(default=1.0, metadata={"help": "Standard deviation of regression_s' logit noise."})

    sparse_labels_from: int = field(
        default=SPARSE_FROM, metadata={"help": "Number of labels from which candidates are sparse."}
    )
    relaxed_mass: float = field(default=0.99, metadata={"help": "Sparse labels: share of the output's mass to keep."})
    relaxed_width: int = field(default=256, metadata={"help": "Sparse labels: most labels of the output to keep."})

    loss_net_steps: int = field(default=1, metadata={"help": "n_E, loss-net updates per task-net update."})
    batch_repeats: int = field(default=1, metadata={"help": "n_F, repetitions of each accumulation window."})
    loss_net_fresh_outputs: bool = field(
        default=False, metadata={"help": "Run the task-net anew for every loss-net update."}
    )

    loss_net_encoder: str = field(default="separate", metadata={"help": f"One of {', '.join(ENCODER_MODES)}."})
    loss_net_learning_rate: float = field(default=1e-3, metadata={"help": "Learning rate of the loss-net."})
    loss_net_encoder_learning_rate: float | None = field(
        default=None, metadata={"help": "Learning rate of the loss-net's own encoder; default: loss_net_learning_rate."}
    )
    loss_net_weight_decay: float = field(default=0.0, metadata={"help": "Weight decay of the loss-net."})
    loss_net_warmup_steps: int = field(default=0, metadata={"help": "Warm-up, in loss-net updates."})
    loss_net_lr_scheduler_type: str = field(default="constant", metadata={"help": "Schedule of the loss-net's rate."})
    loss_net_max_grad_norm: float = field(
        default=10.0, metadata={"help": "Gradient clipping of the loss-net; 0 = none."}
    )

    def __post_init__(self):
        super().__post_init__()
        self._check_choice("energy_loss", [*ENERGY_LOSSES, CROSS_ENTROPY])
        self._check_choice("margin_cost", COSTS)
        self._check_choice("loss_net_encoder", ENCODER_MODES)
        without_arguments = [
            s.value for s in SchedulerType if s.value not in ("reduce_lr_on_plateau", "warmup_stable_decay")
        ]
        self._check_choice("loss_net_lr_scheduler_type", without_arguments)
        self._check_range("num_samples", 1)
        for name in ("batch_repeats", "sparse_labels_from", "relaxed_width"):
            self._check_range(name, 1)
        self._check_range("relaxed_mass", 0)
        if not 0 < self.relaxed_mass <= 1:
            raise ValueError(f"`relaxed_mass` is {self.relaxed_mass}; it is a share, above 0 and at most 1.")
        for name in (
            "loss_net_steps energy_weight task_weight perturbation_std loss_net_learning_rate "
            "loss_net_encoder_learning_rate "
            "loss_net_weight_decay loss_net_warmup_steps loss_net_max_grad_norm"
        ).split():
            self._check_range(name, 0)
        if self.energy_weight == 0 and self.task_weight == 0:
            raise ValueError(
                "`energy_weight` and `task_weight` are both 0: the task-net would have no loss. Set one of them."
            )
        self._check_launchers()

    def _check_launchers(self) -> None:
        if self.deepspeed or self.fsdp:
            name = "deepspeed" if self.deepspeed else "fsdp"
            raise ValueError(
                f"`{name}` is set, but seal_hf does not support it yet. Use DDP: torchrun or accelerate launch."
            )

    def _check_choice(self, name: str, choices) -> None:
        value = getattr(self, name)
        if value not in choices:
            raise ValueError(f"`{name}` is {value!r}; it must be one of {', '.join(choices)}.")

    def _check_range(self, name: str, least: float) -> None:
        value = getattr(self, name)
        if value is not None and not (math.isfinite(value) and value >= least):
            raise ValueError(f"`{name}` is {value}; it must be a finite number, at least {least}.")
