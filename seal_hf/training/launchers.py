"""The launchers that a run supports: one process, DDP, FSDP2 or DeepSpeed ZeRO-2 for the task-net. Others raise a
ValueError at the start, as does a launcher that would quietly do something else than asked.

The loss-net is not affected: it lives outside accelerate, under its own DDP wrapper, whatever shards the task-net.
"""

from __future__ import annotations

import os

from accelerate import Accelerator
from accelerate.utils import DistributedType, DynamoBackend
from torch import nn
from transformers import TrainingArguments

from ..energy_losses import ENERGY_LOSSES
from ..loss_net.energy_weight import EnergyWeight
from ..nets.adapters import library_of
from ..utils.compat import FSDP_ARGUMENT_IS_FSDP1
from .arguments import SealTrainingArguments

DDP = (DistributedType.MULTI_CPU, DistributedType.MULTI_GPU)
SHARDED = (DistributedType.FSDP, DistributedType.DEEPSPEED)
OWN_PARAMETERS = ("separate", "shared")  # encoder modes in which no parameter belongs to both nets


def check_launcher(
    args: SealTrainingArguments, accelerator: Accelerator | None = None, encoder_mode: str | None = None
) -> None:
    """Check the launcher of a run. It is called before the accelerator exists, and again with it.

    Args:
        encoder_mode: the loss-net's; default: the one in the arguments.

    Raises:
        ValueError: an unsupported launcher, or an unsupported option of it.
    """
    if not isinstance(args, SealTrainingArguments):
        raise ValueError(
            f"`args` is a {type(args).__name__}; SealTrainer takes SealTrainingArguments, which has all of its "
            "arguments: SealTrainingArguments('outputs', ...)."
        )
    _check_one_gpu(args)
    if args.fsdp and FSDP_ARGUMENT_IS_FSDP1:
        raise ValueError(
            "`fsdp` is set, which is FSDP1 in transformers 4. seal_hf supports FSDP2: leave the argument out, and use "
            "`accelerate launch` with fsdp_version: 2 in its configuration, as in examples/accelerate/fsdp2.yaml."
        )
    if accelerator is None:
        return
    kind = accelerator.distributed_type
    _check_processes(accelerator)
    _check_even(accelerator)
    _check_sharding_is_done(args, kind)
    if kind not in (DistributedType.NO, *DDP, *SHARDED):
        raise ValueError(
            f"The launcher chose {kind.value}, which seal_hf does not support. Use DDP: "
            "`accelerate launch --multi_gpu` or torchrun; or FSDP2 or DeepSpeed ZeRO-2 for the task-net."
        )
    _check_parallelism(accelerator)
    if kind in SHARDED:
        _check_sharded(args, accelerator, encoder_mode or args.loss_net_encoder or "separate")
    else:
        _check_fp16(accelerator)
    if accelerator.split_batches and args.batch_repeats > 1:
        raise ValueError("`split_batches` and `batch_repeats` > 1 do not go together: set split_batches to False.")


def check_launched_net(args: SealTrainingArguments, accelerator: Accelerator, task_net: nn.Module) -> None:
    """Raises ValueError for a task-net that its launcher does not go with: one with an adapter under FSDP, whose
    checkpoints fail; one with a CRF that is sharded, or that DDP searches for unused parameters, see [`spare_crf`]."""
    kind = accelerator.distributed_type
    if kind is DistributedType.FSDP and library_of(task_net) is not None:
        raise ValueError("The task-net has an adapter, whose checkpoints FSDP cannot write: use DDP, or no adapter.")
    if getattr(task_net, "crf", None) is None:
        return
    if kind in SHARDED:
        raise ValueError(
            f"The task-net has a CRF, which does not go with {kind.value}: use DDP, or no CRF "
            "(task_loss='cross_entropy', --task_loss cross_entropy)."
        )
    if kind in DDP and args.ddp_find_unused_parameters:
        raise ValueError(
            "`ddp_find_unused_parameters` is True, but DDP would take the task-net's CRF for unused. Leave the "
            "argument out."
        )


def spare_crf(args: SealTrainingArguments, accelerator: Accelerator, task_net: nn.Module) -> None:
    """Keep DDP from looking for unused parameters if there is a CRF. The task loss reads the CRF outside of the
    task-net's forward: DDP would take it for unused, and its gradient would be an error."""
    if getattr(task_net, "crf", None) is None:
        return
    args.ddp_find_unused_parameters = False  # transformers 4 reads it when it wraps the model
    if accelerator.ddp_handler is not None:  # transformers 5 has read it
        accelerator.ddp_handler.find_unused_parameters = False


def check_data_parallel(args: TrainingArguments, accelerator: Accelerator | None = None) -> None:
    """Check the launcher of an energy network without a task-net, which trains in one process or with DDP.

    The trainer calls this before the accelerator exists, and again with it.

    Raises:
        ValueError: another launcher is used, or an option that is not tested.
    """
    _check_one_gpu(args)
    if args.torch_compile:
        raise ValueError(
            "`torch_compile` is set, but the energy network's forward runs gradient-based inference, which does not "
            "compile. Leave it out."
        )
    if accelerator is None:
        return
    _check_processes(accelerator)
    _check_even(accelerator)
    _check_sharding_is_done(args, accelerator.distributed_type)
    if accelerator.distributed_type not in (DistributedType.NO, *DDP):
        raise ValueError(
            f"The launcher chose {accelerator.distributed_type.value}; an energy network on its own is trained in one "
            "process or under DDP: `accelerate launch --multi_gpu` or torchrun."
        )
    _check_fp16(accelerator)


def check_resume(accelerator: Accelerator, checkpoint: str | bool | None) -> None:
    """Raises ValueError if a checkpoint would be unpickled: DeepSpeed's can run any code."""
    if checkpoint and accelerator.distributed_type is DistributedType.DEEPSPEED:
        raise ValueError(
            "resume_from_checkpoint is set under DeepSpeed, but seal_hf does not read its checkpoints: they are "
            "pickled and can run any code. Start a new run from the weights, which are safetensors: "
            "SealForMultiLabel.from_pretrained(checkpoint). Or use DDP or FSDP2, whose runs resume."
        )


def _check_one_gpu(args: TrainingArguments) -> None:
    if args.n_gpu > 1:
        raise ValueError(
            f"{args.n_gpu} GPUs are visible to one process (nn.DataParallel), which seal_hf does not support. Start "
            "one process per GPU with `accelerate launch` or `torchrun --nproc_per_node`, or set CUDA_VISIBLE_DEVICES."
        )


def _check_fp16(accelerator: Accelerator) -> None:
    if accelerator.mixed_precision == "fp16" and not accelerator.native_amp:
        raise ValueError(
            f"fp16 is set, but accelerate has no fp16 on {accelerator.device.type}: it would silently train in "
            "float32. Use bf16=True or no mixed precision."
        )


def _check_processes(accelerator: Accelerator) -> None:
    """Raises ValueError if processes do not know of each other, and so would train on the same rows."""
    found = accelerator.num_processes
    launched = int(os.environ.get("WORLD_SIZE", found)) if "LOCAL_RANK" in os.environ else found
    if launched != found or (found > 1 and accelerator.distributed_type is DistributedType.NO):
        raise ValueError(
            f"The launcher started {launched} processes (WORLD_SIZE), but accelerate chose "
            f"{accelerator.distributed_type.value} with {found}: gradients would not be averaged. On a machine without "
            "GPUs, set use_cpu=True (--use_cpu)."
        )


def _check_even(accelerator: Accelerator) -> None:
    """Raises ValueError if processes have unequal numbers of batches: those with more would wait for ever."""
    if accelerator.num_processes > 1 and not accelerator.even_batches:
        raise ValueError(
            "`even_batches` is False in `accelerator_config`, but then one process may have a batch more than the "
            "others and would wait for them forever. Leave it out, or set dataloader_drop_last for training."
        )


def _check_sharding_is_done(args: TrainingArguments, kind: DistributedType) -> None:
    """Raises ValueError if accelerate has dropped FSDP or DeepSpeed, as it does without a GPU or with one process."""
    for asked, name, variable, wanted in (
        (args.fsdp, "fsdp", "ACCELERATE_USE_FSDP", DistributedType.FSDP),
        (args.deepspeed, "deepspeed", "ACCELERATE_USE_DEEPSPEED", DistributedType.DEEPSPEED),
    ):
        if (asked or os.environ.get(variable, "false").lower() == "true") and kind is not wanted:
            raise ValueError(
                f"{name} was asked for (argument `{name}`, or {variable} from `accelerate launch`), but accelerate "
                f"chose {kind.value}, which shards nothing: sharding needs several processes, each with a GPU. Start "
                f"them, or leave {name} out."
            )


def _check_parallelism(accelerator: Accelerator) -> None:
    config = accelerator.parallelism_config
    sizes = (
        {} if config is None else {f"{name}_size": getattr(config, f"{name}_size", 1) for name in ("tp", "cp", "sp")}
    )
    used = ", ".join(f"{name}={size}" for name, size in sizes.items() if (size or 1) > 1)
    if used:
        raise ValueError(
            f"`parallelism_config` has {used}: processes would share a row or a layer, but the loss-net needs each "
            "process to have rows of its own. Only data parallelism is supported: DDP, FSDP2 or DeepSpeed ZeRO-2."
        )


def _check_sharded(args: SealTrainingArguments, accelerator: Accelerator, encoder_mode: str) -> None:
    """Raises ValueError for options that are untested with a sharded task-net, or known to fail."""
    loss = ENERGY_LOSSES.get(args.energy_loss)
    has_partner = loss is not None and loss.has_partner
    balances = loss is not None and EnergyWeight(args).is_share
    name = "FSDP" if accelerator.distributed_type is DistributedType.FSDP else "DeepSpeed"
    refused = [
        (accelerator.mixed_precision == "fp16", "fp16", "use bf16"),
        (accelerator.state.dynamo_plugin.backend != DynamoBackend.NO, "torch.compile of the task-net", "leave it out"),
        (args.gradient_checkpointing, "gradient_checkpointing", "leave it out"),
        (has_partner, f"energy_loss={args.energy_loss!r}", "use infnet"),
        (
            args.fold_decision,
            "fold_decision",
            "fold what was saved, by from_pretrained(folder) and save_pretrained(folder, fold_decision=True)",
        ),
        (
            encoder_mode not in OWN_PARAMETERS,
            f"loss_net_encoder={encoder_mode!r}, which keeps loss-net parameters in the sharded task-net",
            f"use one of {', '.join(OWN_PARAMETERS)}",
        ),
    ]
    if name == "FSDP":
        plugin = accelerator.state.fsdp_plugin
        refused += [
            (plugin.fsdp_version != 2, f"fsdp_version {plugin.fsdp_version}", "set fsdp_version: 2"),
            (
                "FULL_STATE_DICT" not in str(plugin.state_dict_type),
                f"fsdp_state_dict_type {plugin.state_dict_type}, since from_pretrained cannot read what the Trainer "
                "then saves",
                "set fsdp_state_dict_type: FULL_STATE_DICT",
            ),
            (
                plugin.cpu_ram_efficient_loading,
                "fsdp_cpu_ram_efficient_loading, which loads the nets only on the first process and fails for a "
                "task-net with saved buffers",
                "set fsdp_cpu_ram_efficient_loading: false",
            ),
        ]
    else:
        plugin = accelerator.state.deepspeed_plugin
        own = [section for section in ("optimizer", "scheduler") if section in plugin.deepspeed_config]
        refused += [
            (plugin.zero_stage != 2, f"ZeRO stage {plugin.zero_stage}", "set zero_stage: 2"),
            (bool(own), f"its own {' and '.join(own)}", "leave them to the Trainer's arguments"),
            (balances, "a λ1 balanced with the task loss, the default", "set energy_weight alone"),
            (
                args.load_best_model_at_end,
                "load_best_model_at_end, since DeepSpeed reads checkpoints with pickle, which can run any code",
                "load the best checkpoint's folder yourself",
            ),
        ]
    for wrong, what, remedy in refused:
        if wrong:
            raise ValueError(f"{name} does not go with {what}: {remedy}.")
