"""What is refused at the start of a run, with the reason: task-nets, loss-nets, columns. Launchers: launchers.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from accelerate.utils import DistributedType
from datasets import Dataset
from torch import nn
from torch.distributed.tensor import DTensor
from torch.utils.data import IterableDataset
from transformers import PreTrainedModel, TrainingArguments
from transformers.trainer_utils import has_length
from transformers.utils import logging

from ..adapters import LossAdapter, check_adapters, library_of
from ..data.tensors.collators import TensorRows
from ..implicit.hypergradient import FINITE_DIFFERENCES
from ..implicit.task_function import FUSED_ATTENTION, select_parameters
from ..nets.encoders import MLPEncoder
from ..saving.export import saves_merged
from ..second_net.loss_net import LossNet
from ..spaces import SPACES, MultiLabelSpace, OutputSpace
from ..utils.messages import closest, did_you_mean
from .arguments import CROSS_ENTROPY, SealTrainingArguments
from .batch_repeats import NewEpoch
from .decisions import check_decoder
from .launchers import check_crf, check_launcher

logger = logging.get_logger(__name__)
LOOKED_AT = 1000  # rows of a data set that is no tensor


def tell_problem_type(model: PreTrainedModel, space: OutputSpace) -> None:
    """Give a task-net that does not say so the space's problem type: pipelines decode by it."""
    if model.config.problem_type is None or space.problem_type is None:  # or its head has none, and reads it nowhere
        config: Any = model.config
        config.problem_type = space.problem_type


def check_run(trainer: Any) -> None:
    """Raises ValueError for what of a trainer's nets, arguments and launcher does not go together."""
    args, model, space, loss = trainer.args, trainer.model, trainer.space, trainer.energy_loss
    check_launcher(args, trainer.accelerator)
    check_given_space(trainer._given_space, trainer.model_init)
    check_crf(args, trainer.accelerator, model)
    check_task_net(model, space)
    check_loss_net(trainer.loss_net, args, model)
    check_export(model, args)
    check_decoder(model, space, args)
    if loss is not None:
        space.check_loss(loss, model.config.num_labels)
        check_balance(args, space)
        check_hypergradient(args, model, trainer.loss_net, space, trainer.accelerator.distributed_type)
    space.check_cost(args.margin_cost)


def check_given_space(space: OutputSpace | None, model_init: Callable | None) -> None:
    """Raises ValueError for a space with the CRF of one net, where `model_init` makes others."""
    if model_init is not None and getattr(getattr(space, "loss", None), "crf", None) is not None:
        raise ValueError(
            "`space` decodes by the CRF of one net, but `model_init` makes new ones. Leave `space` out, and set "
            "task_loss='crf' in the arguments; or give the nets as `model`."
        )


def check_repeats(args: SealTrainingArguments, train_dataset: Any) -> None:
    """Raises ValueError for batch repeats over a data set without rows by index, or in another order than shuffled."""
    if args.batch_repeats == 1:
        return
    order = getattr(args, "train_sampling_strategy", "random")  # of transformers 5
    if order != "random" or getattr(args, "group_by_length", False):
        name = f"train_sampling_strategy={order!r}" if order != "random" else "group_by_length=True"
        raise ValueError(
            f"`batch_repeats` is {args.batch_repeats}, whose sampler shuffles the rows, but {name}. Leave one of them "
            "out."
        )
    if isinstance(train_dataset, IterableDataset):
        raise ValueError(
            f"`batch_repeats` is {args.batch_repeats}, but the training data is an iterable data set: batches are "
            "repeated by a sampler, which needs rows by index. Use a data set with a length, or batch_repeats=1."
        )


def check_saving(args: SealTrainingArguments) -> None:
    """Raises ValueError for a checkpoint on SIGTERM, which transformers 5 writes in the middle of a step."""
    if vars(args).get("enable_jit_checkpoint"):
        raise ValueError(
            "`enable_jit_checkpoint` is True, but it saves between the update of the loss-net and that of the "
            "task-net, where no run can go on exactly. Save every few steps instead (save_strategy='steps', "
            "save_steps=N): a checkpoint survives a kill at any moment."
        )


def check_own_loss(args: TrainingArguments, compute_loss_func: Callable | None) -> None:
    """Raises ValueError for what changes the Trainer's own loss, which ours is not."""
    given = {"label_smoothing_factor": args.label_smoothing_factor, "compute_loss_func": compute_loss_func}
    for name, value in given.items():
        if value:
            raise ValueError(
                f"`{name}` is {value!r}, but it changes the loss that a Trainer computes by itself, which this one "
                "does not minimise. Leave it out; `task_loss` (--task_loss) names others, a `space` may have your own."
            )


def check_label_names(args: TrainingArguments) -> None:
    """Raises ValueError for label columns of another name."""
    if args.label_names not in (None, ["labels"]):
        raise ValueError(
            f"`label_names` is {args.label_names!r}, but the gold outputs are read from a column `labels`. Rename the "
            "column, and leave the argument out."
        )


def check_embeddings(model: PreTrainedModel, args: TrainingArguments) -> None:
    """Raises ValueError for noise on the embeddings of a net that has none."""
    if args.neftune_noise_alpha is not None and model.get_input_embeddings() is None:
        raise ValueError(
            f"`neftune_noise_alpha` is {args.neftune_noise_alpha}, but the model, {type(model).__name__}, embeds no "
            "tokens. Leave it out."
        )


def check_task_net(model: PreTrainedModel, space: OutputSpace) -> None:
    """Raises ValueError where the model's config has another problem type than the space, the model was loaded in
    shards, or has adapters that cannot be saved."""
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
    """Raises ValueError for gradients that are to be balanced with those of a task loss that most batches lack."""
    if args.energy_weight_balance and not space.has_all_gold:
        raise ValueError(
            "`energy_weight_balance` makes the energy pull as hard as the task loss, which rows with a reward in the "
            "place of gold tags have not: they would teach nothing. Leave it out, and set `energy_weight`."
        )


def check_loss_net(loss_net: LossNet | None, args: SealTrainingArguments, model: PreTrainedModel) -> None:
    """Raises ValueError where an energy loss has no loss-net, or the loss-net is of another kind than the arguments
    say, has another number of labels than the task-net, or sits as an adapter in another task-net."""
    if args.energy_loss == CROSS_ENTROPY:
        return
    if loss_net is None:
        like = (space for space in SPACES.values() if space.head and type(model).__name__.endswith(space.head))
        space = next(like, MultiLabelSpace)
        raise ValueError(
            f"energy_loss={args.energy_loss!r} needs a loss-net. Pass a {space.model_name} as `model`, or "
            "`loss_net=`; or train with energy_loss='ce'."
        )
    if loss_net.config.encoder_mode != args.loss_net_encoder:
        raise ValueError(
            f"`loss_net_encoder` is {args.loss_net_encoder!r}, but the loss-net was built as "
            f"{loss_net.config.encoder_mode!r}. Build it with "
            f"loss_net_encoder={args.loss_net_encoder!r}, or change the argument."
        )
    if not any(parameter.requires_grad for parameter in loss_net.parameters()):
        raise ValueError(
            "No parameter of the loss-net requires a gradient. Leave them as they are: with loss_net_steps=0 none of "
            "them is trained."
        )
    num_labels = model.config.num_labels
    if loss_net.config.num_labels != num_labels:
        raise ValueError(
            f"The loss-net has {loss_net.config.num_labels} labels, the task-net {num_labels}. Build both for the same "
            "labels."
        )
    if args.loss_net_gradient_checkpointing and not getattr(loss_net.encoder, "supports_gradient_checkpointing", False):
        encoder = "no encoder of its own" if loss_net.encoder is None else type(loss_net.encoder).__name__
        raise ValueError(
            f"`loss_net_gradient_checkpointing` is set, but the loss-net has {encoder}, with no layers to "
            "recompute. Leave it out, or give the loss-net a transformer encoder (loss_net_encoder='separate')."
        )
    if isinstance(loss_net.encoder, LossAdapter) and loss_net.encoder.model is not model:
        built_by = SPACES[loss_net.config.space].model_name
        raise ValueError(
            f"The loss-net (loss_net_encoder={args.loss_net_encoder!r}) is an adapter in another task-net than this "
            f"`model`. Build both together: {built_by}.for_data or from_pretrained, also in `model_init`."
        )


def check_begun(learner: object, args: SealTrainingArguments, callbacks: Iterable) -> None:
    """Raises ValueError in a step of a run whose beginning, or order of rows, a subclass has kept from the trainer."""
    if learner is None and args.energy_loss != CROSS_ENTROPY:
        raise ValueError(
            f"energy_loss={args.energy_loss!r}, but the loss-net has no learner: it is made in `create_scheduler`, "
            "which a subclass, or its `create_optimizer_and_scheduler`, overrides. Call super().create_scheduler(...) "
            "there; give your own schedule as `optimizers=(optimizer, scheduler)`."
        )
    if args.batch_repeats > 1 and not any(isinstance(callback, NewEpoch) for callback in callbacks):
        raise ValueError(
            f"`batch_repeats` is {args.batch_repeats}, but a `get_train_dataloader` or `_get_train_sampler` of one's "
            "own is used, which does not repeat. Leave one of them out."
        )


def check_was_trained(loss_net: LossNet, args: SealTrainingArguments) -> None:
    """For programs, whose loss-nets are fresh or loaded: raises ValueError where a fresh one is not to be trained."""
    if args.loss_net_steps == 0 and args.energy_loss != CROSS_ENTROPY and not loss_net.name_or_path:
        raise ValueError(
            "`loss_net_steps` is 0, which leaves the loss-net as it is, but it is a fresh one, whose energies mean "
            "nothing. Name a trained one (--loss_net_path, of the programs that have it, or a --model_name_or_path of "
            "both), or leave --loss_net_steps out."
        )


def check_hypergradient(
    args: SealTrainingArguments,
    model: PreTrainedModel,
    loss_net: LossNet,
    space: OutputSpace,
    distributed_type: DistributedType,
) -> None:
    """Raises ValueError where the task-net's Hessian cannot be had: of sparse label sets, of sharded parameters, of
    parameters that the task-net has not, through an attention kernel without a second derivative, or by finite
    differences through ReLUs of the energy."""
    if args.hypergradient == "none":
        return
    what = f"`hypergradient` is {args.hypergradient!r}, but"
    num_labels: Any = model.config.num_labels
    if space.is_sparse(num_labels):
        raise ValueError(
            f"{what} label sets are sparse at {num_labels} labels, where the output is cut to its largest "
            "entries. Set `sparse_labels_from` above the number of labels."
        )
    if distributed_type not in (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU):
        raise ValueError(f"{what} {distributed_type.value} shards the task-net. Launch it with DDP.")
    kernel = getattr(model.config, "_attn_implementation", None)
    exact = args.hypergradient_product != FINITE_DIFFERENCES
    if kernel in FUSED_ATTENTION and exact and args.hypergradient_parameters != "head":
        raise ValueError(
            f"{what} the task-net's attention, {kernel}, has no second derivative. Use "
            f"hypergradient_product={FINITE_DIFFERENCES!r}, hypergradient_parameters='head', or load the task-net with "
            "attn_implementation='sdpa'."
        )
    if not exact and _has_relus(loss_net.energy):
        raise ValueError(
            f"{what} the energy {loss_net.config.energy!r} is made of ReLUs, whose gradient jumps: products by "
            f"hypergradient_product={FINITE_DIFFERENCES!r} are then wrong by more than their own size. Use "
            "'double_backward'."
        )
    if not exact and _has_relus(model):
        logger.warning(
            f"{what} {type(model).__name__} has ReLUs, whose gradient jumps: where they depend on the parameters of "
            f"the Hessian, products by hypergradient_product={FINITE_DIFFERENCES!r} are wrong. Use 'double_backward'."
        )
    select_parameters(model, args.hypergradient_parameters)


def _has_relus(net: nn.Module) -> bool:
    return any(isinstance(module, (nn.ReLU, nn.ReLU6, nn.LeakyReLU)) for module in net.modules())


def check_export(model: PreTrainedModel, args: SealTrainingArguments) -> None:
    """Raises ValueError where the task-net's adapters cannot be saved or pushed as the arguments say."""
    if library_of(model) is None or not (saves_merged(model, args.adapter_export) and args.push_to_hub):
        return
    if args.hub_strategy != "end":
        logger.warning("The task-net's adapters are merged at the end of the run: nothing is pushed before.")
    strategy: Any = args.hub_strategy
    if "checkpoint" in strategy:
        raise ValueError(
            f"`hub_strategy` is {strategy.value!r}, but a checkpoint of adapters is no part of a repo with "
            "merged weights. Use adapter_export='adapter', or hub_strategy='end'."
        )


def check_feature_cache(loss_net: LossNet, model_init: Callable | None, **datasets: Any) -> None:
    """Raises ValueError where no frozen encoder's features can be cached: the loss-net has no pretrained encoder of its
    own or comes from a `model_init`, or a data set gives its rows one by one."""
    if model_init is not None:
        raise ValueError(
            "`loss_net_feature_cache` keeps what one frozen encoder says, but `model_init` makes new ones. Give the "
            "nets as `model`, or leave the cache out."
        )
    if loss_net.config.encoder_mode != "separate" or isinstance(loss_net.encoder, (MLPEncoder, type(None))):
        encoder = "no encoder" if loss_net.encoder is None else type(loss_net.encoder).__name__
        raise ValueError(
            "`loss_net_feature_cache` freezes the loss-net's own pretrained encoder, but this loss-net "
            f"({loss_net.config.encoder_mode}, {encoder}) has none. Leave it out, or build the "
            "nets from a Hugging Face encoder with loss_net_encoder='separate'."
        )
    if not loss_net.pooled:
        raise ValueError(
            "`loss_net_feature_cache` keeps one vector per row, but this loss-net reads one per token. Leave it out."
        )
    for name, dataset in datasets.items():
        if dataset is not None and not isinstance(dataset, TensorRows):
            raise ValueError(
                f"`loss_net_feature_cache` needs TensorRows, but `{name}` is a {type(dataset).__name__}: wrap it, or "
                "use `tokenize`."
            )


# what an evaluation says of itself, beside the figures of `compute_metrics`
OF_EVALUATION = (
    "loss energy_output energy_gold energy_auc task_net_auc energy_alignment runtime samples_per_second "
    "steps_per_second model_preparation_time jit_compilation_time"
).split()


def check_best_metric(args: TrainingArguments, compute_metrics: Callable | None, eval_dataset: Any) -> None:
    """Raises ValueError for a `metric_for_best_model` that no evaluation of the run gives, where the figures of
    `compute_metrics` are known."""
    wanted = args.metric_for_best_model
    figures = () if compute_metrics is None else getattr(compute_metrics, "figures", None)
    if wanted is None or figures is None or args.eval_strategy == "no":
        return
    known = [*figures, *OF_EVALUATION]
    if isinstance(eval_dataset, dict):
        known = [f"{name}_{figure}" for name in eval_dataset for figure in known]
    found = wanted.removeprefix("eval_")
    if found not in known:
        raise ValueError(
            f"`metric_for_best_model` is {wanted!r}, which no evaluation of this run gives."
            f"{did_you_mean(found, known)} It must be one of {', '.join(known)}."
        )


def check_columns(**datasets: Any) -> None:
    """Every data set that names its columns must have `labels`; so must each of a dictionary of data sets.

    Raises:
        ValueError: naming the data set, its columns and the closest match; an empty one.
    """
    for name, dataset in _each(datasets):
        columns = getattr(dataset, "column_names", None)
        if has_length(dataset) and len(dataset) == 0:
            raise ValueError(f"`{name}` is empty: it has no rows.")
        if isinstance(dataset, (list, tuple)) and isinstance(dataset[0], Mapping):
            columns = list(dataset[0])
        if columns is None or "labels" in columns:
            continue
        close = closest("labels", columns)
        hint = f" Did you mean `{close}`? Rename it: dataset.rename_column({close!r}, 'labels')." if close else ""
        raise ValueError(f"`{name}` has no column `labels`; it has {', '.join(columns)}.{hint}")


def check_label_values(space: OutputSpace, **datasets: Any) -> None:
    """Looks at the labels of every data set that has them at hand: of all [`TensorRows`], and of the first `LOOKED_AT`
    rows of others.

    Raises:
        ValueError: a value that is no label of this space, with its data set.
    """
    for name, dataset in _each(datasets):
        for labels in _labels(dataset):
            try:
                values = torch.as_tensor(labels)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"`labels` of `{name}` holds {labels!r}, where numbers were expected: 0 or 1 for each label, or "
                    "ids. Encode them first."
                ) from error
            space.check_values(values, name)


def _each(datasets: Mapping) -> Iterator[tuple[str, object]]:
    """Every data set that is there, those of a dictionary one by one, with what it is called."""
    for name, dataset in datasets.items():
        if isinstance(dataset, dict):
            yield from _each({f"{name}[{key!r}]": part for key, part in dataset.items()})
        elif dataset is not None:
            yield name, dataset


def _labels(dataset: Any) -> Iterator[Any]:
    """Tensors of many rows, or the labels of each row as they are."""
    if isinstance(dataset, TensorRows):
        if "labels" in dataset.dense:
            yield dataset.dense["labels"]
        elif "labels" in dataset.ragged and "labels" not in dataset.multi_hot:
            yield dataset.ragged["labels"][0]
    elif isinstance(dataset, Dataset):
        yield from dataset.select(range(min(len(dataset), LOOKED_AT))).with_format(None)["labels"][:]
    elif isinstance(dataset, (list, tuple)):
        yield from (row["labels"] for row in dataset[:LOOKED_AT])
