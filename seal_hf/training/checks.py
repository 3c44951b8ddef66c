"""Checks of a run, at its start and in its steps: whether nets and arguments go together. Checks of arguments alone
stand in `arguments.py`, those of data in `rows.py`, and those of launchers in `launchers.py`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from accelerate import Accelerator
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel, TrainingArguments
from transformers.utils import logging

from ..core.energy import ENERGIES
from ..core.space import OutputSpace
from ..core.task import SPACES
from ..data.tensors.collators import TensorRows
from ..data.tensors.images import ImageRows
from ..energy_losses import CROSS_ENTROPY
from ..extensions.implicit_gradients import check_hypergradient
from ..loss_net.loss_net import LossNet
from ..nets.adapters import LossAdapter, check_adapters, library_of
from ..nets.adapters.peft import quantization_of
from ..nets.encoders import MLPEncoder
from ..nets.heads import reads_images
from ..nets.task_nets import feature_size
from ..saving.export import saves_merged
from ..saving.model import model_classes
from ..utils.messages import did_you_mean
from .arguments import SealTrainingArguments
from .epochs import WindowRepeatSampler
from .evaluation import check_decoder
from .launchers import SHARDED, check_launched_net, check_launcher
from .rows import each_dataset

if TYPE_CHECKING:
    from transformers import Trainer

logger = logging.get_logger(__name__)
HIDDEN_STATES = "output_hidden_states"


def check_run(trainer: Any) -> None:
    """Raises ValueError if a trainer's nets, arguments and launcher do not go together."""
    args, model, space, loss = trainer.args, trainer.model, trainer.space, trainer.energy_loss
    check_launcher(args, trainer.accelerator, trainer.loss_net and trainer.loss_net.config.encoder_mode)
    check_given_space(trainer._given_space, trainer.model_init)
    check_launched_net(args, trainer.accelerator, model)
    check_task_net(model, space)
    check_quantised_run(args, model, trainer.accelerator)
    check_loss_net(trainer.loss_net, args, model)
    check_export(model, args)
    check_decoder(model, space, args)
    if loss is not None:
        space.check_loss(loss, model.config.num_labels)
        check_balance(args, space)
        check_hypergradient(args, model, space, trainer.accelerator.distributed_type)
    space.check_cost(args.margin_cost)


def check_given_space(space: OutputSpace | None, model_init: Callable | None) -> None:
    """Raises ValueError for a space with the CRF of one net if `model_init` makes others."""
    if model_init is not None and getattr(getattr(space, "loss", None), "crf", None) is not None:
        raise ValueError(
            "`space` decodes by the CRF of one net, but `model_init` makes new ones. Leave `space` out, and set "
            "task_loss='crf' in the arguments; or give the nets as `model`."
        )


def warn_of_other_rows(args: TrainingArguments, checkpoint: str | None) -> None:
    """Warn if the Trainer resumes a run from `checkpoint` with other rows than the uninterrupted run would see."""
    launching: Any = args.accelerator_config
    found = {
        "ignore_data_skip": args.ignore_data_skip,
        "dispatch_batches": bool(launching.dispatch_batches),
        "dataloader_in_order=False": args.dataloader_num_workers > 1
        and not vars(args).get("dataloader_in_order", True),
    }
    names = [name for name, is_inexact in found.items() if is_inexact]
    if checkpoint is not None and names:
        logger.warning(
            f"The resumed run sees its rows in another order than without the interruption, because of "
            f"{' and '.join(names)}: its figures will differ."
        )


def check_embeddings(model: PreTrainedModel, args: TrainingArguments) -> None:
    """Raises ValueError for noise on embeddings if the net has no embeddings."""
    if args.neftune_noise_alpha is not None and model.get_input_embeddings() is None:
        raise ValueError(
            f"`neftune_noise_alpha` is {args.neftune_noise_alpha}, but the model, {type(model).__name__}, embeds no "
            "tokens. Leave it out."
        )


def check_task_net(model: PreTrainedModel, space: OutputSpace) -> None:
    """Raises ValueError if the model's problem type is not the space's, if it was loaded in shards, or if its adapters
    cannot be saved."""
    if any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        raise ValueError(
            "The task-net was loaded in shards (tensor parallelism), which seal_hf does not support: load it without "
            "tp_plan, device_mesh or distributed_config, and let the launcher shard it (FSDP2)."
        )
    check_adapters(model)
    found = model.config.problem_type
    if found != space.problem_type:
        raise ValueError(
            f"The task-net's config.problem_type is {found!r}, expected {space.problem_type!r}. Load it with "
            f"from_pretrained(..., problem_type={space.problem_type!r}, num_labels=...)."
        )


def check_balance(args: SealTrainingArguments, space: OutputSpace) -> None:
    """Raises ValueError for `energy_weight_balance` if rows lack the gold that the task loss needs."""
    if args.energy_weight_balance and not space.has_all_gold:
        raise ValueError(
            "`energy_weight_balance` makes the energy pull as hard as the task loss, but rows with a reward instead of "
            "gold have no task loss: they would teach nothing. Leave it out, and set `energy_weight`."
        )


def check_loss_net(loss_net: LossNet | None, args: SealTrainingArguments, model: PreTrainedModel) -> None:
    """Check that the loss-net suits the arguments and the task-net.

    Raises:
        ValueError: an energy loss lacks a loss-net; its encoder differs from that in the arguments; its number of
            labels differs from the task-net's; or it is an adapter in another task-net.
    """
    if args.energy_loss == CROSS_ENTROPY:
        return
    loss_net = given_loss_net(loss_net, args, model)
    if args.loss_net_encoder not in (None, loss_net.config.encoder_mode):
        raise ValueError(
            f"`loss_net_encoder` is {args.loss_net_encoder!r}, but the loss-net was built as "
            f"{loss_net.config.encoder_mode!r}. Build it with "
            f"loss_net_encoder={args.loss_net_encoder!r}, or change the argument."
        )
    if not any(parameter.requires_grad for parameter in loss_net.parameters()):
        raise ValueError(
            "No parameter of the loss-net requires a gradient. Leave requires_grad as it is: loss_net_steps=0 already "
            "keeps the loss-net fixed."
        )
    num_labels = model.config.num_labels
    if loss_net.config.num_labels != num_labels:
        raise ValueError(
            f"The loss-net has {loss_net.config.num_labels} labels, the task-net {num_labels}. Build both for the same "
            "labels."
        )
    check_feature_size(loss_net, model)
    check_hidden_states(loss_net, model)
    if args.loss_net_gradient_checkpointing and not getattr(loss_net.encoder, "supports_gradient_checkpointing", False):
        encoder = "no encoder of its own" if loss_net.encoder is None else type(loss_net.encoder).__name__
        raise ValueError(
            f"`loss_net_gradient_checkpointing` is set, but the loss-net has {encoder}: no layers to recompute. Leave "
            "it out, or give the loss-net a transformer encoder (loss_net_encoder='separate')."
        )
    if isinstance(loss_net.encoder, LossAdapter) and loss_net.encoder.model is not model:
        built_by = SPACES[loss_net.config.space].model_name
        raise ValueError(
            f"The loss-net (loss_net_encoder={loss_net.config.encoder_mode!r}) is an adapter in another task-net than "
            f"this `model`. Build both together: {built_by}.for_data or from_pretrained, also in `model_init`."
        )


def given_loss_net(loss_net: LossNet | None, args: SealTrainingArguments, model: Any) -> LossNet:
    """The loss-net. ValueError if it is None."""
    if loss_net is None:
        wrap = ", ".join(f"{kind.__name__}.from_task_net" for kind in model_classes())
        raise ValueError(
            f"energy_loss={args.energy_loss!r} needs a loss-net, but `model` lacks one. Its class name, "
            f"{type(model).__name__}, and config.problem_type do not tell which outputs it has: wrap it by one of "
            f"{wrap}; or pass `loss_net=`; or train with energy_loss='ce'."
        )
    return loss_net


def check_feature_size(loss_net: LossNet, model: Any) -> None:
    """Raises ValueError if the loss-net was built for another feature size than that of its encoder or the task-net."""
    if ENERGIES[loss_net.config.energy].reads is not None:
        return
    separate, expected = loss_net.config.encoder_mode == "separate", loss_net.config.feature_size
    net: Any = loss_net.encoder if separate else model
    if getattr(net.config, "hidden_size", None) == expected:
        return
    try:
        found = feature_size(model, net if separate else None)
    except ValueError:  # unknown before the first step
        return
    if found != expected:
        owner = "its own encoder" if separate else f"the task-net, {type(model).__name__},"
        raise ValueError(
            f"The loss-net reads features of size {expected}, but {owner} gives {found}. Build it with "
            f"LossNetConfig(feature_size={found}, ...), or leave `loss_net` out to have it built for this task-net."
        )


def check_hidden_states(loss_net: LossNet, model: PreTrainedModel) -> None:
    """Raises ValueError if the loss-net shares features of a task-net that gives no hidden states."""
    known = inspect.signature(model.forward).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    if loss_net.config.encoder_mode != "shared" or reads_images(model) or takes_any or HIDDEN_STATES in known:
        return
    raise ValueError(
        f"`loss_net_encoder` is 'shared', but `{type(model).__name__}.forward` does not take `{HIDDEN_STATES}`. "
        "Add that parameter, and return `hidden_states`; or use 'separate'."
    )


def check_begun(learner: object, args: SealTrainingArguments, callbacks: Iterable) -> None:
    """Raises ValueError in a step if a subclass skipped the trainer's start of the run or its order of rows."""
    if learner is None and args.energy_loss != CROSS_ENTROPY:
        raise ValueError(
            f"energy_loss={args.energy_loss!r}, but the loss-net has no learner, which `create_scheduler` makes. Call "
            "`train`, if no run has begun. Else a subclass overrides it, or `create_optimizer_and_scheduler`: call "
            "super().create_scheduler(...) there; pass your own schedule as `optimizers=(optimizer, scheduler)`."
        )
    if args.batch_repeats > 1 and not any(
        isinstance(getattr(callback, "told", None), WindowRepeatSampler) for callback in callbacks
    ):
        raise ValueError(
            f"`batch_repeats` is {args.batch_repeats}, but your own `get_train_dataloader` or `_get_train_sampler` "
            "does not repeat batches. Leave one of them out."
        )


def check_is_in_step(learner: object, args: SealTrainingArguments, has_begun: bool) -> None:
    """Raises ValueError if a subclass computes a loss in a step of its own, in which the loss-net is not trained."""
    if learner is not None and args.loss_net_steps > 0 and not has_begun:
        raise ValueError(
            "A subclass overrides `training_step` and does not call super().training_step(...), which trains the "
            "loss-net. Call it there, or train without a loss-net (energy_loss='ce')."
        )


def check_computed(trainer: Any, model: nn.Module) -> None:
    """Raises ValueError after a step in which the trainer did not compute the loss, so that the energy had no place."""
    if trainer.has_computed or trainer.learner is None or trainer.energy_weight.is_never_used:
        return
    if not model.training:
        raise ValueError("The task-net stays in evaluation mode in a training step. Does it override `train`?")
    raise ValueError(
        "A subclass overrides `compute_loss` and does not call super().compute_loss(...), so that the energy does not "
        "reach the task-net. Call it, and add to its loss. Or pass your own loss as `task_loss` or "
        "`compute_loss_func`, or train without a loss-net (energy_loss='ce')."
    )


def check_was_trained(loss_net: LossNet, args: SealTrainingArguments) -> None:
    """Raises ValueError if the loss-net is fresh and is not to be trained. Only the programs call this."""
    if args.loss_net_steps == 0 and args.energy_loss != CROSS_ENTROPY and not loss_net.name_or_path:
        raise ValueError(
            "`loss_net_steps` is 0, which keeps the loss-net fixed, but it is fresh: its energies mean nothing. Name a "
            "trained one (--loss_net_path where the program has it, or a --model_name_or_path with both nets), or "
            "leave --loss_net_steps out."
        )


def check_export(model: PreTrainedModel, args: SealTrainingArguments) -> None:
    """Raises ValueError if the task-net's adapters cannot be saved or pushed as the arguments ask, or
    if there are none to save alone."""
    if library_of(model) is None and args.adapter_export == "adapter":
        raise ValueError(
            "`adapter_export` is 'adapter', but the task-net has no adapter. Train one by `adapter` of `for_data` or "
            "`from_pretrained` (--adapter), or leave it out."
        )
    if library_of(model) is None or not (saves_merged(model, args.adapter_export) and args.push_to_hub):
        return
    if args.hub_strategy != "end":
        logger.warning("The task-net's adapters are merged at the end of the run: nothing is pushed before.")
    strategy: Any = args.hub_strategy
    if "checkpoint" in strategy:
        raise ValueError(
            f"`hub_strategy` is {strategy.value!r}, but a repo with merged weights cannot hold a checkpoint of "
            "adapters. Use adapter_export='adapter', or hub_strategy='end'."
        )


def check_feature_cache(loss_net: LossNet, model_init: Callable | None, **datasets: Any) -> None:
    """Raises ValueError if features cannot be cached: the loss-net lacks a pretrained encoder of its own, a
    `model_init` makes the nets, or a data set gives its rows one by one."""
    if model_init is not None:
        raise ValueError(
            "`loss_net_feature_cache` keeps features of one frozen encoder, but `model_init` makes new encoders. Give "
            "the nets as `model`, or leave the cache out."
        )
    if loss_net.config.encoder_mode != "separate" or isinstance(loss_net.encoder, (MLPEncoder, type(None))):
        encoder = "no encoder" if loss_net.encoder is None else type(loss_net.encoder).__name__
        raise ValueError(
            "`loss_net_feature_cache` freezes the loss-net's own pretrained encoder, but this loss-net "
            f"({loss_net.config.encoder_mode}, {encoder}) lacks one. Leave it out, or build the "
            "nets from a Hugging Face encoder with loss_net_encoder='separate'."
        )
    if loss_net.pooling is None:
        raise ValueError(
            "`loss_net_feature_cache` keeps one vector per row, but this loss-net reads one per token. Leave it out."
        )
    for name, dataset in each_dataset(datasets):
        if isinstance(dataset, ImageRows):
            raise ValueError(
                f"`loss_net_feature_cache` keeps the features of texts, but `{name}` holds images. Leave it out."
            )
        if not isinstance(dataset, TensorRows):
            raise ValueError(
                f"`loss_net_feature_cache` needs TensorRows, but `{name}` is a {type(dataset).__name__}: wrap it, or "
                "use `tokenize`."
            )


def check_freezing(trainer: Trainer, **datasets: Any) -> None:
    """Raises ValueError if the task-net's encoder cannot be frozen with its outputs kept: `model_init`, adapters, data
    sets that give rows one by one, or options that run the encoder in another way."""
    args: Any = trainer.args
    model: Any = trainer.model
    others = {
        "`model_init` makes new nets": trainer.model_init is not None,
        "the task-net trains an adapter in the encoder": library_of(model) is not None,
        "`torch_compile` is set, which compiles the encoder": args.torch_compile,
        "`neftune_noise_alpha` is set, which changes what the encoder reads": args.neftune_noise_alpha is not None,
        f"`hypergradient` is {args.hypergradient!r}, which runs the encoder": args.hypergradient != "none",
        f"{trainer.accelerator.distributed_type.value} shards the task-net": trainer.is_fsdp_enabled
        or trainer.is_deepspeed_enabled,
        "`cost_augmented_network` is 'separated', which has an encoder of its own": args.energy_loss == "infnet_plus"
        and args.cost_augmented_network == "separated",
    }
    for what, is_so in others.items():
        if is_so:
            raise ValueError(f"`freeze_encoder` is True, but {what}. Leave one of them out.")
    for name, dataset in each_dataset(datasets):
        if not isinstance(dataset, TensorRows):
            raise ValueError(
                f"`freeze_encoder` needs TensorRows, but `{name}` is a {type(dataset).__name__}: use `tokenize`."
            )


# what an evaluation reports of the nets, beside the figures of `compute_metrics`
OF_EVALUATION = "loss energy_output energy_gold energy_auc task_net_auc energy_alignment".split()


def check_best_metric(args: TrainingArguments, compute_metrics: Callable | None, eval_dataset: Any) -> None:
    """Raises ValueError that lists the metrics if `metric_for_best_model` is unknown. Figures of a user's
    `compute_metrics` are not known before it runs: nothing is checked then."""
    wanted = args.metric_for_best_model
    figures = () if compute_metrics is None else getattr(compute_metrics, "figures", None)
    if wanted is None or figures is None or args.eval_strategy == "no":
        return
    known = [*figures, *(OF_EVALUATION if getattr(args, "energy_loss", "") != CROSS_ENTROPY else OF_EVALUATION[:1])]
    if isinstance(eval_dataset, dict):
        known = [f"{name}_{figure}" for name in eval_dataset for figure in known]
    found = wanted.removeprefix("eval_")
    if found not in known:
        raise ValueError(
            f"`metric_for_best_model` is {wanted!r}, which no evaluation of this run gives."
            f"{did_you_mean(found, known)} It must be one of {', '.join(known)}."
        )


def check_quantised_run(args: SealTrainingArguments, model: nn.Module, accelerator: Accelerator) -> None:
    """Raises ValueError for a launcher that shards quantised weights, and for a Hessian through them, which lack a
    second derivative."""
    found = quantization_of(model)
    if found is None:
        return
    if accelerator.distributed_type in SHARDED:
        raise ValueError(
            f"The task-net is quantised ({found}), which {accelerator.distributed_type.value} cannot shard. Launch it "
            "with DDP, or load it without quantization."
        )
    if args.hypergradient != "none" and args.hypergradient_parameters != "head":
        raise ValueError(
            f"`hypergradient_parameters` is {args.hypergradient_parameters!r}, but quantised weights ({found}) have no "
            "second derivative. Use 'head'."
        )
