"""The facts of a model card that a trainer knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from transformers import PreTrainedModel, TrainerState, TrainingArguments

from ..core.task import DECISIONS, Task, task_of
from ..data.tensors.collators import TensorRows
from ..energy_losses import CROSS_ENTROPY, ENERGY_LOSSES
from ..nets.adapters import library_of
from ..reports.common import Verdict, called_by
from ..reports.model_card import is_local, last_part, model_card
from ..reports.page import SHOWN
from ..saving.export import saves_merged
from .hints import verdict_of
from .loss_weights import WEIGHTS

CARD_ARGUMENTS = ("optim", "per_device_train_batch_size", "gradient_accumulation_steps", "seed")
LOSS_NET_ARGUMENTS = ("loss_net_steps", "batch_repeats")
IF_CHANGED = ("task_weight", "energy_weight_balance", "energy_weight_schedule", "loss_net_every", "hypergradient")
PACKAGES = ("seal_hf", "transformers", "torch", "datasets")


def run_card(
    trainer: Any,
    *,
    metrics: Mapping[str, float] | None = None,
    dataset: str | Sequence[str] | None = None,
    finetuned_from: str | None = None,
    model_name: str | None = None,
    rows: Mapping[str, int] | None = None,
    missed_labels: Mapping[str, int] | None = None,
    verdict: Verdict | None = None,
    **facts: Any,
) -> str:
    """The card of a trainer's current model, from what the trainer knows and what only its user knows.

    Args:
        trainer: a [`SealTrainer`].
        metrics: as `evaluate_multilabel` returns; default: the last evaluation of these weights, if any.
        dataset, finetuned_from, model_name: as for `Trainer.create_model_card`. A repo's id replaces `model_name`,
            since the snippet loads it.
        rows: split (`eval` is validation) -> number of rows, beside the trainer's data sets.
        missed_labels: from [`seal_hf.tasks.labels.report.missed_labels`].
        verdict: of the run; default: that on its training alone.
        facts: further arguments of `Trainer.create_model_card`: `language`, `license` (default: that of the arguments),
            `tags`, `dataset_tags`; others are ignored, since the trainer knows them.
    """
    args, model = trainer.args, trainer.accelerator.unwrap_model(trainer.model)
    dataset = dataset or facts.get("dataset_tags")
    names, config = model.config.id2label, model.config
    task = task_of(trainer.space)
    assert task is not None and task.cards, "of others the Trainer writes its own card"
    verdict = verdict or Verdict.saved_in(vars(config)) or verdict_of(trainer)
    counts = _rows(trainer.train_dataset, trainer.eval_dataset)
    name, shown = model_name or args.output_dir, _last_evaluation(args, trainer.state) if metrics is None else metrics
    return model_card(
        model_name=trainer.hub_model_id or args.hub_model_id or (last_part(name) if is_local(name) else name),
        base_model=finetuned_from or config._name_or_path or None,
        dataset=dataset if dataset is None or isinstance(dataset, str) else ", ".join(dataset),
        rows=counts | {SHOWN.get(split, split): count for split, count in (rows or {}).items()},
        loss=called_by(args.energy_loss, verdict.taught) or CROSS_ENTROPY,
        verdict=verdict.sentences,
        task_loss=trainer.task_loss_name,
        loss_net_encoder=trainer.loss_net.config.encoder_mode if trainer.loss_net else None,
        metrics=shown,
        decisions=_decisions(config, trainer.space, args.fold_decision),
        chosen=_was_chosen(trainer, config, task),
        label_names=[names[i] for i in sorted(names)],
        label_columns=task.label_columns(trainer.space, shown, [names[i] for i in sorted(names)]),
        unseen_labels=_unseen_labels(trainer.train_dataset, [names[i] for i in sorted(names)], task),
        missed_labels=missed_labels or {},
        library_snippet=_library_snippet(model, args.adapter_export, trainer.space, task),
        inputs=getattr(config, "inputs", None),
        reads=task.reads_in_words(model),
        columns=_columns(config),
        crf=getattr(config, "crf", False),
        hyperparameters=_settings(trainer),
        versions=versions(model),
        best_epoch=bool(args.load_best_model_at_end),
        license=facts.get("license") or args.license,
        **{name: facts.get(name) for name in ("language", "tags")},
    )


def _last_evaluation(args: TrainingArguments, state: TrainerState) -> dict[str, float]:
    """The figures of the last evaluation of the current weights; empty without one."""
    step = state.best_global_step if args.load_best_model_at_end and state.best_global_step else state.global_step
    evaluations = [entry for entry in state.log_history if "eval_loss" in entry and entry["step"] == step]
    return evaluations[-1] if evaluations else {}


def _rows(train: Any, validation: Any) -> dict[str, int]:
    """Split -> number of rows, if it can be counted; without a training set that repeats rows."""
    splits: dict[str, Any] = {"train": train if getattr(train, "gold_share", 1) == 1 else None}
    splits |= validation if isinstance(validation, dict) else {"validation": validation}
    return {split: len(rows) for split, rows in splits.items() if hasattr(rows, "__len__")}


def _unseen_labels(rows: Any, names: Sequence[str], task: Task) -> list[str]:
    """The labels that no training row has; empty (unknown) unless the rows are tensors."""
    if not isinstance(rows, TensorRows):
        return []
    present = task.labels_in(rows)
    return [name for i, name in enumerate(names) if i not in present]


def _decisions(config: Any, space: Any, folded: bool) -> dict[str, Any] | None:
    """How the stored decoder decides; None if nothing is stored.

    Args:
        folded: True if the saved classifier's bias holds the decision; never for tags.
    """
    if getattr(config, "decisions", None) is not None:
        kind: Any = DECISIONS[space.name]
        stored = kind.saved_in(config)
        return kind.of_saved(stored).after_folding().as_json() if folded else stored
    task = task_of(space)
    return {"decoder": space.decoder} if task is not None and task.decodes else None


def _was_chosen(trainer: Any, config: Any, task: Task) -> bool:
    """True if validation chose the decoder among several."""
    given = (trainer.given_decoder or trainer.args.decoder) is not None
    return getattr(config, "decisions", None) is not None and not given and task.may_choose(trainer.space, trainer.args)


def _columns(config: Any) -> list[str]:
    """Columns that sentences need beside their words: the predicate of roles, the features of a BiLSTM."""
    marked = "predicate_marker" in (getattr(config, "inputs", None) or {}) or getattr(config, "predicate_size", 0) > 0
    return [*["predicate"] * marked, *(name for name in getattr(config, "feature_sizes", {}) if name != "case")]


def _settings(trainer: Any) -> dict[str, Any]:
    """The settings and length of the run; for losses and loss-net, only the arguments that were read."""
    args, state, loss = trainer.args, trainer.state, getattr(trainer.space, "loss", None)
    if (head := getattr(trainer, "linear_head", None)) is not None:
        about = {"trained": "the last layer alone, as a logistic regression"}
        return about | {"C": float(f"{head.c:.2g}"), "class weights": "balanced" if head.balanced else "none"}
    settings = {"learning_rate": args.learning_rate, "lr_scheduler_type": args.lr_scheduler_type}
    settings |= {"warmup_steps": args.get_warmup_steps(state.max_steps)} if state.global_step else {}
    settings |= {name: getattr(args, name) for name in CARD_ARGUMENTS}
    settings |= {"freeze_encoder": True} if args.freeze_encoder else {}
    settings |= {"processes": args.world_size} if args.world_size > 1 else {}
    settings["precision"] = "bf16" if args.bf16 else "fp16" if args.fp16 else str(trainer.model.dtype).split(".")[-1]
    settings |= {"epochs": round(state.epoch, 2), "steps": state.global_step} if state.global_step else {}
    own = {each.name: getattr(loss, each.name) for each in fields(loss)} if is_dataclass(loss) else {}
    settings |= {name: value for name, value in own.items() if isinstance(value, (int, float, str))}
    weights = {name: value for name in WEIGHTS if (value := getattr(args, name)) is not None}
    settings |= {name: value if isinstance(value, str) else "given" for name, value in weights.items()}
    if args.energy_loss != CROSS_ENTROPY:
        weight = trainer.energy_weight
        ruled = f"by default, at the end {weight.share(state):.2g} of the task loss's pull" if weight.is_ruled else None
        settings["energy_weight"] = ruled or weight.constant
        settings |= {name: getattr(args, name) for name in LOSS_NET_ARGUMENTS}
        defaults = {field.name: field.default for field in fields(args)}
        settings |= {name: getattr(args, name) for name in IF_CHANGED if getattr(args, name) != defaults[name]}
        settings |= {name: getattr(args, name) for name in sorted(ENERGY_LOSSES[args.energy_loss].read(args))}
        if args.loss_net_steps:
            settings["loss_net_learning_rate"] = args.loss_net_learning_rate
    return {name: getattr(value, "value", value) for name, value in settings.items()}  # enumerations by value


def versions(model: PreTrainedModel) -> dict[str, str]:
    """Versions of the packages that trained the model."""
    library = library_of(model)
    found = {}
    for name in (*PACKAGES, *([library.mode] if library is not None else [])):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a source tree that is not installed
            continue
    return found


def _library_snippet(model: PreTrainedModel, adapter_export: str, space: Any, task: Task) -> str:
    """The key of the task's card for what is saved of a task-net."""
    library = library_of(model)
    alone = library is not None and not saves_merged(model, adapter_export)
    return task.card_of(model, space, library.mode if library is not None and alone else None)
