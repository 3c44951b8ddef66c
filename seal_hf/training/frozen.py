"""Frozen encoders: their outputs are computed once for each row, before the run begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data.tensors.collators import TensorRows
from ..nets.adapters import library_of
from ..nets.feature_cache import with_cached_features
from ..nets.frozen_encoder import FrozenEncoder
from ..nets.heads import MEAN
from .checks import check_feature_cache, each_dataset

FEATURE_FOLDER = "_features"  # in the output folder; the Trainer's push to the Hub skips names that begin with `_`


def cache_features(trainer: Any) -> None:
    """With `loss_net_feature_cache`, freeze the loss-net's encoder; with `freeze_encoder`, both. Their outputs are then
    read from disk."""
    args, loss_net = trainer.args, trainer.loss_net
    rows = {"train_dataset": trainer.train_dataset, "eval_dataset": trainer.eval_dataset}
    rows = {name: dataset for name, dataset in rows.items() if dataset is not None}
    of_loss_net = loss_net is not None and (args.loss_net_feature_cache or args.freeze_encoder)
    if args.freeze_encoder and rows:
        check_freezing(trainer, **rows)
        pooling = loss_net.pooling if loss_net is not None else None
        first: Any = next(part for _, part in each_dataset(rows))
        trainer.frozen_encoder = FrozenEncoder(trainer.model, first, pooling or MEAN)
        of_loss_net = of_loss_net and loss_net.config.encoder_mode != "shared"
    if of_loss_net:
        check_feature_cache(loss_net, trainer.model_init, **rows)
        loss_net.encoder.requires_grad_(False)
    trainer.loss_net_is_cached = bool(of_loss_net)
    for name, dataset in rows.items():
        said = trainer.contents_of(name) if trainer.frozen_encoder is not None else None  # with the texts
        setattr(trainer, name, kept_rows(trainer, dataset))
        if said is not None:
            trainer._contents[name] = getattr(trainer, name), said


def kept_rows(trainer: Any, dataset: Any) -> Any:
    """A data set with what the trainer's frozen encoders give for its rows; itself if none is frozen."""
    args, kept = trainer.args, dataset
    if isinstance(dataset, dict):
        return {name: kept_rows(trainer, part) for name, part in dataset.items()}
    if trainer.frozen_encoder is None and not trainer.loss_net_is_cached:
        return dataset
    folder = args.loss_net_feature_cache or Path(args.output_dir, FEATURE_FOLDER)
    with args.main_process_first(desc="what frozen encoders give"):
        if trainer.loss_net_is_cached:
            kept = with_cached_features(trainer.loss_net.encoder, dataset, folder, trainer.loss_net.pooling)
        if trainer.frozen_encoder is not None:
            kept = trainer.frozen_encoder.rows(dataset, folder, kept)
    return kept


def check_freezing(trainer: Any, **datasets: Any) -> None:
    """Raises ValueError if the task-net's encoder cannot be frozen with its outputs kept: `model_init`, adapters, data
    sets that give rows one by one, or options that run the encoder in another way."""
    args = trainer.args
    others = {
        "`model_init` makes new nets": trainer.model_init is not None,
        "the task-net trains an adapter in the encoder": library_of(trainer.model) is not None,
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
