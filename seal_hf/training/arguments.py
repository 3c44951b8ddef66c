"""The arguments of trainers: those of a run's length and of an earlier run, for all of them; and
`SealTrainingArguments`, the Trainer's and the loss-net's in one flat class, checked at construction."""

from __future__ import annotations

import copy
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any

from accelerate.utils import DynamoBackend
from transformers import SchedulerType, Trainer, TrainingArguments
from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION
from transformers.trainer_pt_utils import AcceleratorConfig

from ..core.label_sets import SPARSE_FROM
from ..core.task import choices, task_losses
from ..energy_losses import CROSS_ENTROPY, ENERGY_LOSSES, NCE, EnergyLoss
from ..extensions.cost_augmented import PARAMETERIZATIONS
from ..extensions.hypergradient import METHODS, Hypergradient
from ..loss_net.energy_weight import SCHEDULES
from ..nets.adapters import LIBRARIES
from ..nets.encoders import ENCODER_MODES
from ..saving.checkpoints import as_pickled
from ..saving.export import ADAPTER_EXPORTS
from ..utils.messages import brief
from ..utils.options import check_arguments, check_class, check_value
from ..utils.recorded import recorded, remember
from .loss_weights import LossWeightArguments

LIMITS: dict[str, dict[str, Any]] = {  # of the Trainer's own arguments; transformers checks some others
    "learning_rate weight_decay adam_epsilon max_grad_norm num_train_epochs logging_steps eval_steps eval_delay "
    "dataloader_num_workers neftune_noise_alpha": {"least": 0},
    "save_total_limit per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps "
    "eval_accumulation_steps dataloader_prefetch_factor ddp_bucket_cap_mb ddp_timeout": {"least": 1},
    "min_steps": {"least": 0},
    "seed data_seed": {"least": 0, "most": 2**32 - 1, "whole": True},  # as numpy takes them
    "adam_beta1 adam_beta2": {"least": 0, "below": 1},
    "save_steps": {"above": 0},
    "max_steps local_rank": {"least": -1},
}
FILES = ("accelerator_config", "fsdp_config")  # arguments that may name a JSON file in place of JSON


@dataclass
class GuardedArguments(TrainingArguments):
    """[`~transformers.TrainingArguments`], how many steps a run takes at least, and what it may do with an earlier run.

    Parameters that control how long a run takes:
        min_steps (`int`, default 0): with few training rows `num_train_epochs` grows, until the run has so many
            updates. With `max_steps`, and for streams without a length, it changes nothing.

    Parameters that control an earlier run in the output folder:
        resume_from_checkpoint (`str`, optional): the folder of a checkpoint; `true`, the last complete one in the
            output folder; or `last`, the same, but a run without checkpoints starts anew. Programs read it; in Python
            it is an argument of `train`, as with the Trainer.
        resume_changed (`bool`, default False): resume although arguments, rows or nets differ from those of the
            checkpoint's run, which are in its `_run.json`. Without it, such a resume is a ValueError.
        overwrite_output_dir (`bool`, default False): programs replace the run that the output folder holds. The
            trainers, like the Trainer of transformers 5, do not check the folder.
    """

    min_steps: int = 0
    resume_from_checkpoint: str | None = None
    resume_changed: bool = False
    overwrite_output_dir: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return as_pickled(vars(self))

    def to_dict(self) -> dict[str, Any]:
        """The arguments for logs and services, as the Trainer gives them, but without secrets."""
        return recorded(super().to_dict())

    def __post_init__(self) -> None:
        check_arguments(self, LIMITS)  # before the Trainer computes with them
        if self.max_steps == 0:
            raise ValueError("`max_steps` is 0; it must be at least 1, or -1 for all of `num_train_epochs`.")
        for name in self._VALID_DICT_FIELDS:
            if isinstance(text := getattr(self, name), str):
                _check_json(name, text)
        if self.optim_args and not all(part.count("=") == 1 for part in self.optim_args.split(",")):
            raise ValueError(f"`optim_args` is {brief(self.optim_args)}; it must be key=value, with commas between.")
        if self.torch_compile_backend is not None:
            backends = [backend.value.lower() for backend in DynamoBackend]
            check_value("torch_compile_backend", self.torch_compile_backend.lower(), backends)
        if self.torch_compile_mode is not None and self.torch_compile_backend in (None, "inductor"):
            from torch._inductor import list_mode_options  # takes a second to import

            check_value("torch_compile_mode", self.torch_compile_mode, list_mode_options())
        super().__post_init__()
        remember(vars(self))
        _check_optim_args(self)
        build: Any = TYPE_TO_SCHEDULER_FUNCTION[SchedulerType(self.lr_scheduler_type)]
        takes = inspect.signature(build).parameters
        unknown = [key for key in self.lr_scheduler_kwargs or {} if key not in takes]
        if unknown and not any(each.kind is each.VAR_KEYWORD for each in takes.values()):
            schedule = SchedulerType(self.lr_scheduler_type).value  # its function would not get the key
            raise ValueError(
                f"`lr_scheduler_kwargs` has {unknown[0]!r}, which the schedule {schedule!r} does not take."
            )


def _check_optim_args(args: TrainingArguments) -> None:
    """Raises ValueError for a key of `optim_args` that changes nothing, whatever its value."""
    pairs = [part.split("=") for part in (args.optim_args or "").split(",") if part]
    for key, value in pairs:
        others = [f"{name}={given}" for name, given in pairs if name != key]
        found = {_optimizer(args, [*others, *own]) for own in ([], *([f"{key}={each}"] for each in (value, 0, 1)))}
        if len(found) == 1 and None not in found:
            optim = getattr(args.optim, "value", args.optim)
            raise ValueError(
                f"`optim_args` has {brief(key)}, which the optimizer {optim!r} does not read. Leave it out."
            )


def _optimizer(args: TrainingArguments, pairs: list[str]) -> str | None:
    """What the Trainer builds with these pairs as `optim_args`; None if it refuses them."""
    given = copy.copy(args)
    given.optim_args = ",".join(pairs)
    try:
        return repr(Trainer.get_optimizer_cls_and_kwargs(given))
    except Exception:  # it reads the key; or it says itself why it cannot build the optimizer
        return None


def _check_json(name: str, text: str) -> None:
    """Raises ValueError for a text that the Trainer shall read as JSON, or as the name of a JSON file, and cannot."""
    place, file = brief(text), Path(text)
    if name in FILES and not text.startswith("{"):
        if not file.is_file():
            raise ValueError(f'`{name}` is {place}, which is no file. Give JSON, {{"key": value}}, or a JSON file.')
        place = f"the file {place}"
    elif name == "deepspeed" and not text.startswith("{"):
        return  # its library also takes other forms
    try:
        found = json.loads(file.read_text(encoding="utf-8") if place.startswith("the file") else text)
        problem = "" if isinstance(found, dict) else f"that holds a {type(found).__name__}"
        if name == "accelerator_config" and not problem:
            known = [each.name for each in fields(AcceleratorConfig)]
            unknown = [key for key in found if key not in known]
            problem = f"with the unknown key {unknown[0]!r}; known are {', '.join(known)}" if unknown else ""
    except (ValueError, RecursionError) as error:
        problem = f"which is not JSON ({error})"
    if problem:
        raise ValueError(f'`{name}` is {place}, {problem}. Give keys and values: {{"key": value}}.')


def check_saving(args: TrainingArguments) -> None:
    """Refuse two ways of saving that transformers offers.

    Raises:
        ValueError: a checkpoint is asked for on SIGTERM, which transformers 5 writes in the middle of a step, or
            weights are to be saved as pickles, an option of transformers 4.
    """
    if not vars(args).get("save_safetensors", True):
        raise ValueError("`save_safetensors` is False, but saved nets are read as safetensors alone. Leave it out.")
    if vars(args).get("enable_jit_checkpoint"):
        raise ValueError(
            "`enable_jit_checkpoint` is True, but it saves between the updates of loss-net and task-net, where no run "
            "can resume exactly. Save every few steps instead (save_strategy='steps', save_steps=N): checkpoints "
            "survive a kill at any moment."
        )


def check_own_loss(args: TrainingArguments, compute_loss_func: Callable | None) -> None:
    """Raises ValueError for options that change the Trainer's own loss, which our trainers do not use."""
    given = {"label_smoothing_factor": args.label_smoothing_factor, "compute_loss_func": compute_loss_func}
    for name, value in given.items():
        if value:
            raise ValueError(
                f"`{name}` is {value!r}, but it changes the Trainer's own loss, which this trainer does not use. Leave "
                "it out; choose a loss by `task_loss` (--task_loss), or pass SealTrainer a function."
            )


def check_label_names(args: TrainingArguments) -> None:
    """Raises ValueError for label columns of another name."""
    if args.label_names not in (None, ["labels"]):
        raise ValueError(
            f"`label_names` is {args.label_names!r}, but gold outputs are read from the column `labels`. Rename your "
            "column, and leave the argument out."
        )


@dataclass
class MaskArguments:
    """The arguments that only masks read.

    Parameters that control masks (tasks/masks/space.py):
        pixel_loss (`str`, default `"sum"`): cross-entropy over pixels: `sum`, as over labels, or `mean`. Choose λ1 anew
            when you change it.
        soft_iou_weight (`float`, default 1.0): weight of 1 - soft IoU in the task loss `soft_iou`.
        dice_weight (`float`, default 1.0): weight of 1 - soft F1 in the task loss `dice`.
        lovasz_weight (`float`, default 1.0): weight of the Lovász extension of 1 - IoU in the task loss `lovasz`.
        sample_coherence (`str`, default `"none"`): dependence between the pixels of a sample: `none`; `field`, a smooth
            random field; `patches`, one draw for all pixels of a patch. Each pixel keeps its probabilities. `inputs`:
            samples are the task-net's own masks for noisy copies of the image, with new dropout; nothing is drawn.
        coherence_size (`int`, default 4): scale of the field, or side of a patch, in pixels.
        independent_share (`float`, default 0.1): share of patches whose pixels are independent.
        input_noise_std (`float`, default 0.1): standard deviation of the noise of `inputs`, in the pixel units of the
            task-net; the FCN's range is 0 to 1.
    """

    pixel_loss: str = "sum"
    soft_iou_weight: float = 1.0
    dice_weight: float = 1.0
    lovasz_weight: float = 1.0
    sample_coherence: str = "none"
    coherence_size: int = 4
    independent_share: float = 0.1
    input_noise_std: float = 0.1


LOSS_NET_ENCODERS = (*ENCODER_MODES, *LIBRARIES)
# schedules that need a metric or extra arguments; unsupported for the loss-net
DEMANDING_SCHEDULES = "reduce_lr_on_plateau greedy warmup_stable_decay cosine_with_min_lr cosine_warmup_with_min_lr"
SCHEDULER_TYPES = [kind.value for kind in SchedulerType if kind.value not in DEMANDING_SCHEDULES.split()]


# argument -> its values, or a function that lists registered ones; options of energy losses: energy_losses/, and of
# tasks: `Task.choices`
CHOICES: dict[str, Any] = {
    "energy_loss": lambda: [*ENERGY_LOSSES, CROSS_ENTROPY],
    "task_loss": task_losses,
    "energy_weight_schedule": SCHEDULES,
    "cost_augmented_network": PARAMETERIZATIONS,
    "hypergradient": METHODS,
    "loss_net_encoder": LOSS_NET_ENCODERS,
    "adapter_export": ADAPTER_EXPORTS,
    "loss_net_lr_scheduler_type": SCHEDULER_TYPES,
}
AT_LEAST_0 = (
    "loss_net_steps energy_weight task_weight loss_net_learning_rate loss_net_encoder_learning_rate input_noise_std "
    "head_learning_rate crf_learning_rate independent_share "
    "cost_augmented_task_weight loss_net_weight_decay loss_net_warmup_steps loss_net_max_grad_norm "
    "hypergradient_scale hypergradient_damping"
)
AT_LEAST_1 = "batch_repeats loss_net_every coherence_size sparse_labels_from relaxed_width hypergradient_terms"
LEAST = {**dict.fromkeys(AT_LEAST_0.split(), 0), **dict.fromkeys(AT_LEAST_1.split(), 1)}


@dataclass
class SealTrainingArguments(MaskArguments, LossWeightArguments, GuardedArguments):
    """[`~transformers.TrainingArguments`], [`GuardedArguments`], and the arguments of the method. Those of masks alone
    are in [`MaskArguments`].

    Sources: SEAL = Lee et al. 2022.

    Parameters that control the energy loss, and how strongly it teaches:
        energy_loss (`str`, default `"nce"`, flag `--loss`): loss of the loss-net: `nce`, `ranking`, `margin`, `infnet`,
            `infnet_plus`, `regression`, `regression_s` (SEAL §2.3; InfNet+ Eq. 6), `contrastive_divergence` (Shankar &
            Piratla), `mutual` (mutual learning of two classifiers, label sets alone; Zhang et al. 2018), or `ce`,
            cross-entropy without a loss-net.
        num_samples (`int`, default 20): K, samples per input for `nce`, `ranking` and `contrastive_divergence`;
            structures for `regression_s` (SEAL Eq. 8).
        energy_weight (`float`, optional): λ1, weight of the energy in the task-net's loss (SEAL Eq. 1). With
            cross-entropy summed over labels, the authors' useful values lie between 0.002 and 10. Default: a rule
            chooses it as a share of the task loss's pull. The share starts at 0. An evaluation raises it, up to 0.5, if
            the energy pulls validation rows to their gold labels and the task loss no longer falls; it lowers it if the
            energy pulls them away (`ruled_share` in loss_net/energy_weight.py). Without evaluations it is 0.1. With
            rewards it is the whole pull on validation rows, as the last evaluation measured it. With `task_weight` 0,
            implicit gradients, mutual learning, or rewards without evaluations, λ1 is 1.0 by default.
        energy_weight_schedule (`str`, default `"constant"`): λ1 over the run: `constant`, `rise` from 0 or `fall` to
            0, both linear in the step.
        energy_weight_balance (`bool`, default False): multiply λ1 by ‖∂ task loss/∂ logits‖ / ‖∂ energy/∂ logits‖ of
            the micro-batch, as the rule does. With 0.3, the energy pulls at the logits 0.3 times as hard as the task
            loss on any data set; the authors' λ1 differ by four orders of magnitude between their data sets. The log's
            `energy_weight` is the product.
        task_weight (`float`, default 1.0): λ2, weight of the task loss; 0 leaves the energy alone (SEAL drafts,
            ablation).
        margin_cost (`str`, default `"f1"`): Δ of `margin`, `infnet`, `infnet_plus` and `contrastive_divergence`, and of
            `cost_weight`: `f1` = 1 - soft F1 for label sets, 1 - soft accuracy for tags, 1 - soft F1 (Dice) for masks;
            `iou` = 1 - soft IoU, for masks only; `l1` = summed distance, `l1_mean` = per label, tag or pixel.
        perturbation_std (`float`, default 1.0): standard deviation of the logit noise of `regression_s`.
        regression_samples (`str`, default `"continuous"`): structures of `regression_s`: `continuous`, perturbed; or
            `discrete`, drawn from the task-net as for `nce` (SEAL, appendix E.1).

    Parameters that control margins and inference networks:
        margin_type (`str`, default `"rescaled"`): the margin of `margin`, `infnet` and `infnet_plus`: `rescaled`,
            `slack`, `contrastive`, `perceptron` (equations: energy_losses/).
        inference_truncation (`bool`, default False): inference networks maximise the hinge, cut at 0 (Tu & Gimpel
            2018), instead of its uncut argument (InfNet+ §4.1).
        perceptron_weight (`float`, default 1.0): λ of `infnet_plus`, weight of the test-time network's term.
        cost_augmented_network (`str`, default `"stacked"`): F of `infnet_plus`: `separated`, `shared`, `stacked`
            (extensions/cost_augmented.py). It trains at the task-net's rate, held constant, with `energy_weight` as
            given (default 1.0), without schedule or balance. Only checkpoints hold it.
        cost_augmented_task_weight (`float`, default 0.0): weight of F's own task loss.

    Parameters that control the samples of `nce` and `ranking`:
        cost_weight (`float`, default 0.0): α; α Δ is added to the logit of each sample with cost Δ (softmax-margin,
            Gimpel & Smith 2010).
        distinct_samples (`bool`, default False): leave out a sample that equals the gold or an earlier sample.
        gold_mix (`float`, default 0.0): m in [0, 1): each entry of a sample is the gold's with probability m; their
            log-probability is that of the mixture. A CRF has the gold mixed into its emissions. This is a heuristic,
            see `Ranking`.

    Parameters that control the task loss, with a loss-net or, under `energy_loss="ce"`, alone:
        task_loss (`str`, default `"cross_entropy"`): the task-net's own loss: `cross_entropy`, `focal`, `asymmetric`,
            `zlpr`, `soft_f1`, or `ranking` on `num_samples` label sets drawn from the task-net
            (equations: `task_losses.py` of each task). The evaluation loss is the same; for `ranking`, which needs
            samples, it is cross-entropy. For tag sequences: `cross_entropy`, `crf`, or `unique_roles`, cross-entropy
            and the unique-core-role constraint. For masks: `cross_entropy`, or with a term of the whole mask
            `soft_iou`, `dice` or `lovasz`.
        soft_f1_weight (`float`, default 3.0): weight of 1 - soft F1 in `soft_f1`.
        unique_roles_weight (`float`, default 1.0): weight of that constraint.
        head_learning_rate (`float`, optional): rate of a fresh classifier beside a pretrained encoder that is trained;
            with adapters, of the one that `modules_to_save` holds. Fresh layers below it, such as a pooler that was not
            loaded, get a tenth, and all at least `learning_rate`. Default: 1e-2 with an optimizer of Adam's kind, whose
            steps are at most the rate, and `learning_rate` with others. A saved classifier, a head on a frozen encoder
            and a net from scratch learn at `learning_rate`. To train all at one rate, give that rate here too.
        crf_learning_rate (`float`, optional): rate of the CRF's transitions; default: that of a fresh classifier beside
            a pretrained encoder, also for a fresh CRF over a saved classifier, else `learning_rate`.

    Parameters that control tag sequences:
        constrained_decoding (`bool`, default False): evaluate the likeliest sequence that the tags' scheme (BIO,
            BIOES) allows, by Viterbi's algorithm, instead of the likeliest tag at every position. In training ŷ and
            samples then also keep to the scheme.

    Parameters that control large label sets:
        sparse_labels_from (`int`, default 2000): from this number of labels on, candidates are lists of labels. Samples
            are exact and cost memory for the labels they hold. Gradients of the loss-net's tables have rows for these
            labels only (all rows on several GPUs, as NCCL cannot add sparse ones). The energy reads the largest entries
            of the task-net's relaxed output.
        relaxed_mass (`float`, default 0.99): share of Σ ŷ that the cut output keeps, in (0, 1].
        relaxed_width (`int`, default 256): the most labels that the cut output keeps. The log's `dropped_mass` is what
            both limits cut, in labels per row.

    Parameters that control the alternation:
        loss_net_steps (`int`, default 1): n_E, loss-net updates before each task-net update; 0 keeps the loss-net as
            it is (SEAL-static).
        loss_net_every (`int`, default 1): k, task-net updates per loss-net phase; a phase precedes every k-th update
            (InfNet+ §4.3: inference-network steps per energy step).
        batch_repeats (`int`, default 1): n_F, how often each accumulation window is repeated (the authors' inner loop).

    Parameters that control implicit gradients (Shankar & Piratla; equations: extensions/hypergradient.py):
        hypergradient (`str`, default `"none"`): how the loss-net learns what its energy does to the task-net: `none`,
            not at all; or by the implicit function theorem, with the inverse Hessian of the task-net's loss as a
            `neumann` series or by conjugate gradient (`cg`). The energy loss must read the task-net's output: `margin`,
            `regression`, `regression_s`, `contrastive_divergence`.
        hypergradient_terms (`int`, default 5): terms of the series, or iterations.
        hypergradient_scale (`float`, optional): c divides the Hessian in the `neumann` series; it must exceed half the
            largest eigenvalue. A warning tells if it is too small, or far too large. Default: the c with the least
            residual in each term.
        hypergradient_damping (`float`, default 0.0): δ, added to the Hessian's diagonal.
        hypergradient_parameters (`str`, default `"head"`): the task-net's parameters that the Hessian runs over:
            `head`, `adapters`, `all`, or a regular expression on their names. The head is cheap: the encoder is not run
            again. A net without an encoder, such as the FCN, has no separate head. A CRF's transitions are held fixed.

    Parameters that control the loss-net and its optimizer (AdamW; betas and epsilon are the Trainer's):
        loss_net_encoder (`str`, optional): `separate` gives the loss-net its own encoder, `shared` the task-net's
            detached features, `peft` and `adapters` an adapter of its own in the frozen base that the task-net adapts
            too. Default: as the loss-net was built; a fresh one is `separate`. It is read where the nets are built; the
            trainer refuses a loss-net of another kind.
        freeze_encoder (`bool`, default False): train only the head of a text classifier, on features of its frozen
            encoder. They are computed once per row, without dropout, and kept in `loss_net_feature_cache`, or in
            `_features` in the output folder. The head, to which a pooler belongs, learns at the one `learning_rate`. A
            loss-net's own encoder (`separate`) is frozen too; a `shared` one reads the same features. The saved model
            is whole and plain.
        loss_net_feature_cache (`str`, optional): a folder. The loss-net's own pretrained encoder is frozen; its
            features are computed once for all rows and read from this folder.
        adapter_export (`str`, default `"auto"`): how a task-net with adapters is saved and pushed: `merged` into plain
            weights; `adapter`, the adapter alone in its library's format; or `auto`, merged if this kind of adapter can
            be. Checkpoints hold the adapters alone.
        loss_net_learning_rate (`float`, default 1e-3): rate of the loss-net.
        loss_net_weight_decay (`float`, default 0.0): weight decay of the loss-net.
        loss_net_encoder_learning_rate (`float`, optional): rate of the loss-net's own encoder or adapter; default: the
            task-net's `learning_rate`; for an MLP, BiLSTM or CNN `loss_net_learning_rate`. A pretrained encoder
            needs a small rate (the authors: 1e-5 beside 1e-4 for the head).
        loss_net_warmup_steps (`int`, default 0): the warm-up of this rate, in loss-net updates.
        loss_net_lr_scheduler_type (`str`, default `"constant"`): schedule of this rate, any of `transformers` without
            extra arguments. The authors' is constant.
        loss_net_max_grad_norm (`float`, default 10.0): gradient clipping of the loss-net; 0 = none.

    Parameters that control the decisions that are saved with the task-net, and its card:
        decoder (`str`, optional): for label sets `fixed` (0.5), `threshold`, `thresholds`, `expected_f1`,
            `calibrated_f1`, `seen`, `seen_f1`, for the target `jaccard` `calibrated_jaccard` or, with a hierarchy,
            `closed_f1`, `calibrated_closed_f1`; each may end in `+never_empty`, but only where it can decide for the
            empty set.
            For masks `fixed` or `threshold`; for tags `independent`, `constrained`, `viterbi`, `constrained_viterbi`
            or, for semantic roles, `unique_roles`.
            Default: a program chooses it at its end, or `fit_decisions` does, by cross-fitting on the validation rows.
        target (`str`, default `"f1_example"`): the figure of label sets on validation rows by which the decoder is
            chosen: `f1_example`, `jaccard`, `exact_match`, `f1_micro`, `f1_macro`, `hamming`; or `["cost", FILE]`, a
            table with the columns label, false_positive and false_negative.
        fold_decision (`bool`, default False): the model saved at the end holds the decision in its classifier's bias:
            any code that cuts at 0.5 then decides as validation chose. The choice is among thresholds only.
        license (`str`, optional): the license on the model card.

    Parameters that control time and memory (of the task-net: the Trainer's `gradient_checkpointing`, `torch_compile`):
        loss_net_gradient_checkpointing (`bool`, default False): the loss-net's own encoder recomputes its layers in the
            backward instead of keeping their activations; the result is the same.
    """

    energy_loss: str = field(default="nce", metadata={"aliases": ["--loss"]})
    num_samples: int = 20
    energy_weight: float | None = None
    task_weight: float = 1.0
    energy_weight_schedule: str = "constant"
    energy_weight_balance: bool = False
    margin_cost: str = "f1"
    perturbation_std: float = 1.0
    regression_samples: str = "continuous"

    margin_type: str = "rescaled"
    inference_truncation: bool = False
    perceptron_weight: float = 1.0
    cost_augmented_network: str = "stacked"
    cost_augmented_task_weight: float = 0.0

    cost_weight: float = 0.0
    distinct_samples: bool = False
    gold_mix: float = 0.0

    task_loss: str = "cross_entropy"
    soft_f1_weight: float = 3.0
    unique_roles_weight: float = 1.0
    head_learning_rate: float | None = None
    crf_learning_rate: float | None = None
    constrained_decoding: bool = False

    sparse_labels_from: int = SPARSE_FROM
    relaxed_mass: float = 0.99
    relaxed_width: int = 256

    loss_net_steps: int = 1
    loss_net_every: int = 1
    batch_repeats: int = 1

    hypergradient: str = "none"
    hypergradient_terms: int = Hypergradient.terms
    hypergradient_scale: float | None = Hypergradient.scale
    hypergradient_damping: float = Hypergradient.damping
    hypergradient_parameters: str = "head"

    loss_net_encoder: str | None = None
    freeze_encoder: bool = False
    loss_net_feature_cache: str | None = None
    adapter_export: str = "auto"
    loss_net_learning_rate: float = 1e-3
    loss_net_encoder_learning_rate: float | None = None
    loss_net_weight_decay: float = 0.0
    loss_net_warmup_steps: int = 0
    loss_net_lr_scheduler_type: str = "constant"
    loss_net_max_grad_norm: float = 10.0

    decoder: str | None = None
    target: str | list[str] = field(default_factory=lambda: ["f1_example"])
    fold_decision: bool = False
    license: str | None = None

    loss_net_gradient_checkpointing: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.target = self.target.split(maxsplit=1) if isinstance(self.target, str) else self.target
        if self.gradient_checkpointing and self.gradient_checkpointing_kwargs is None:
            self.gradient_checkpointing_kwargs = {"use_reentrant": False}  # reentrant skips adapters of a frozen base
        self.check()

    def check(self) -> None:
        """Raises ValueError for impossible values or combinations. A hyper-parameter search calls it again."""
        for name, values in (CHOICES | choices()).items():
            value = getattr(self, name)
            if value is not None or getattr(SealTrainingArguments, name, ()) is not None:
                value = value[0] if isinstance(value, list) and value else value
                check_value(name, value, values() if callable(values) else values)
        whole = {each.name for each in fields(self) if each.type in (int, "int")}
        for name, least in LEAST.items():
            check_value(name, getattr(self, name), least=least, whole=name in whole)
        for name, loss in ENERGY_LOSSES.items():
            check_class(f"The energy loss {name!r}", loss, EnergyLoss, NCE)
        for loss in (*ENERGY_LOSSES.values(), *chain.from_iterable(task_losses().values())):
            loss.check_values(self)
        if self.license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", self.license):
            raise ValueError(
                f"`license` is {brief(self.license)}; it must be an id as on the Hub, such as apache-2.0, or other."
            )
        check_coherence(self)
        check_weight(self)
        if self.loss_net_warmup_steps > 0 and self.loss_net_lr_scheduler_type == "constant":
            raise ValueError(
                f"`loss_net_warmup_steps` is {self.loss_net_warmup_steps}, but the schedule 'constant' has no warm-up. "
                "Set loss_net_lr_scheduler_type='constant_with_warmup', or another one."
            )
        if not 0 < self.relaxed_mass <= 1:
            raise ValueError(f"`relaxed_mass` is {self.relaxed_mass}; it must be a share above 0 and at most 1.")
        if self.hypergradient_scale == 0:
            raise ValueError("`hypergradient_scale` is 0, but it divides the Hessian: set it above 0, for example 100.")
        check_hypergradient(self)
        for name in ("energy_weight_schedule", "energy_weight_balance") if self.energy_weight is None else ():
            if getattr(self, name) != getattr(SealTrainingArguments, name):
                raise ValueError(
                    f"`{name}` is {getattr(self, name)!r}, but it only changes a given `energy_weight` "
                    f"(--energy_weight). Give one, or leave `{name}` out."
                )
        if self.energy_weight_balance and self.task_weight == 0:
            raise ValueError(
                "`energy_weight_balance` scales the energy's gradient to the task loss's, but `task_weight` is 0. "
                "Leave one of them out."
            )
        if self.task_weight == 0 and self.energy_loss == CROSS_ENTROPY:
            raise ValueError(
                "`task_weight` is 0 and `energy_loss` is 'ce': the task-net would have no loss. Leave `task_weight` "
                "out, or choose an energy loss."
            )
        if self.energy_weight == 0 and self.task_weight == 0:
            raise ValueError(
                "`energy_weight` and `task_weight` are both 0: the task-net would have no loss. Set one of them."
            )


CONSTANT_WEIGHT = {"energy_weight_schedule": "constant", "energy_weight_balance": False}  # of a constant λ1


def check_weight(args: Any) -> None:
    """Check that the rest of a run suits its choice of λ1.

    Raises:
        ValueError: λ1 changes within the run although the energy loss reads it too, or a rule chooses λ1 by a
            figure that the evaluations do not measure.
    """
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
