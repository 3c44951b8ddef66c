"""The card that goes with a pushed task-net: data, loss, figures, threshold, a snippet to use it. Nothing is invented:
what was not measured is left out."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from string import Template
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from transformers import PreTrainedModel

from ..adapters import library_of
from ..energy_losses import ENERGY_LOSSES
from ..nets.fcn import FCNConfig
from ..nets.recurrent import BiLSTMConfig
from ..saving.export import saves_merged
from ..spaces import BinaryMaskSpace, OutputSpace, TagSequenceSpace
from ..task_losses.labels import TASK_LOSSES
from ..task_losses.tags import TAG_TASK_LOSSES
from ..training.arguments import CROSS_ENTROPY
from .card_kinds import KINDS, CardKind

TEMPLATE = Path(__file__).parent / "model_card_template.md"
MAX_LABELS = 100  # in the card's table; config.json has them all
CARD_ARGUMENTS = ("learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps", "seed")
LOSS_NET_ARGUMENTS = ("energy_weight", "loss_net_steps", "batch_repeats")
IF_CHANGED = ("task_weight", "energy_weight_balance", "energy_weight_schedule", "loss_net_every", "hypergradient")


def model_card(
    *,
    model_name: str,
    base_model: str | None,
    dataset: str | None,
    loss: str,
    loss_net_encoder: str | None,
    metrics: Mapping[str, float],
    threshold: float | None,
    label_names: Sequence[str],
    library_snippet: str,
    hyperparameters: Mapping[str, Any],
    task_loss: str = "cross_entropy",
    crf: bool = False,
    constrained_decoding: bool = False,
    language: str | list[str] | None = None,
    license: str | None = None,
    tags: str | Sequence[str] | None = None,
) -> str:
    """Markdown with YAML metadata: the README.md of a task-net.

    Args:
        model_name: repo id or name, as the snippet loads it.
        base_model: the checkpoint the task-net began from; None for one trained from scratch.
        dataset: name, Hub id or folder of the data; a folder is shown by its last part only.
        loss: the energy loss, or "ce" for the task loss alone.
        loss_net_encoder: "separate" or "shared"; None with "ce".
        metrics: as `evaluate_multilabel`, `evaluate_tags` or `evaluate_masks` returns;
            keys that are missing or not finite are left out.
        threshold: tuned on validation; None leaves it out, and the snippet decides at 0.5.
        label_names: L names in the order of the logits.
        library_snippet: one of `KINDS`: "text" (pipeline), "features" (the MLP, which needs `seal_hf` imported), or
            "peft" and "adapters": a repo that holds an adapter alone, which needs the number of labels to be loaded;
            of tags "tokens", "tokens_peft", "tokens_adapters", and "words" (the BiLSTM, which needs `seal_hf`); of
            masks "images" (pipeline), and "images_fcn" (the FCN, for which the pipeline needs `seal_hf` imported).
        hyperparameters: shown in a table; names that end in "token" are left out.
        task_loss: the task-net's own loss, see `TASK_LOSSES` and `TAG_TASK_LOSSES`.
        crf: whether the task-net has a CRF.
        constrained_decoding: whether tags are decoded within their scheme.
        language, license, tags: added to the metadata, as the Hub knows them.

    Raises:
        ValueError: an unknown `library_snippet`.
    """
    if library_snippet not in KINDS:
        raise ValueError(f"library_snippet is {library_snippet!r}, expected one of {', '.join(KINDS)}")
    kind = KINDS[library_snippet]
    if threshold is not None and not math.isfinite(threshold):
        threshold = None
    base_model, dataset = _public_name(base_model), _public_name(dataset)
    figures = {key: value for key, value in metrics.items() if _is_number(value)}
    task_loss = {"cross_entropy": "cross-entropy"}.get(task_loss, f"the {task_loss} task loss")
    facts = {
        "data": dataset,
        "began from": base_model,
        "loss": task_loss if loss == "ce" else f"SEAL, {loss} energy loss beside {task_loss}",
        "loss-net encoder": loss_net_encoder if loss != "ce" else None,
        "labels": len(label_names),
        "CRF": "SealForTokenClassification of seal_hf decodes with it, a pipeline without" if crf else None,
        "decoding": "within the tags' scheme by SealForTokenClassification of seal_hf, a pipeline does not keep to it"
        if constrained_decoding
        else None,
    }
    place = (
        " (`threshold` in `config.json`)" if kind.library_name == "transformers" else ""
    )  # adapters have no such file
    values = {
        "metadata": _metadata(
            model_name,
            base_model,
            dataset,
            figures,
            kind,
            language=language,
            license=license,
            tags=[tags] if isinstance(tags, str) else list(tags or ()),
        ),
        "title": _escape(model_name),
        "task": kind.task.replace("classification", "classifier").replace("segmentation", "segmentation net"),
        "loss": _escape(task_loss) if loss == "ce" else f"the {_escape(loss)} energy loss",
        "method": "" if loss == "ce" else " (SEAL: a loss-net trained beside the task-net scores its output)",
        "facts": "\n".join(f"| {name} | {_escape(value)} |" for name, value in facts.items() if value is not None),
        "figures": _figures(figures, kind),
        "threshold": "" if threshold is None else _THRESHOLD.format(threshold, place) + kind.decides,
        "usage": _usage(kind, model_name, base_model, len(label_names), threshold),
        "labels": _labels(label_names),
        "hyperparameters": _hyperparameters(hyperparameters),
    }
    # Template.substitute does not look at what it put in: a `$` in a label name stays a `$`
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(values)


def run_card(
    trainer: Any,
    *,
    metrics: Mapping[str, float] | None = None,
    dataset: str | Sequence[str] | None = None,
    finetuned_from: str | None = None,
    model_name: str | None = None,
    **facts: Any,
) -> str:
    """The card of a trainer's model as it is now: what the trainer knows, and what only its user knows.

    Args:
        trainer: a [`SealTrainer`].
        metrics: as `evaluate_multilabel` returns; default: the last evaluation of these weights, if any.
        dataset, finetuned_from, model_name: as `Trainer.create_model_card` takes them. The repo's id, where there is
            one, wins over `model_name`: the snippet loads it.
        facts: the same for `language`, `license`, `tags`, `dataset_tags`; its others are known here and not read.
    """
    args, state, model = trainer.args, trainer.state, trainer.accelerator.unwrap_model(trainer.model)
    if metrics is None:
        step = state.best_global_step if args.load_best_model_at_end and state.best_global_step else state.global_step
        evaluations = [entry for entry in state.log_history if "eval_loss" in entry and entry["step"] == step]
        metrics = evaluations[-1] if evaluations else {}
    dataset = dataset or facts.get("dataset_tags")
    names = model.config.id2label
    return model_card(
        model_name=trainer.hub_model_id or args.hub_model_id or model_name or Path(args.output_dir).resolve().name,
        base_model=finetuned_from or model.config._name_or_path or None,
        dataset=dataset if dataset is None or isinstance(dataset, str) else ", ".join(dataset),
        loss=args.energy_loss,
        task_loss=_task_loss(trainer),
        loss_net_encoder=args.loss_net_encoder,
        metrics=metrics,
        threshold=getattr(model.config, "threshold", None),
        label_names=[names[i] for i in sorted(names)],
        library_snippet=_library_snippet(model, args.adapter_export, trainer.space),
        crf=getattr(model.config, "crf", False),
        constrained_decoding=getattr(model.config, "constrained_decoding", False),
        hyperparameters=_settings(trainer),
        **{name: facts.get(name) for name in ("language", "license", "tags")},
    )


def _task_loss(trainer: Any) -> str:
    """The name of the task loss that trains, or its class's if it has none; of masks it has no class."""
    kind: Any = type(getattr(trainer.space, "loss", None))
    if kind is type(None):
        return trainer.args.task_loss
    names = {loss: name for name, loss in (*TASK_LOSSES.items(), *TAG_TASK_LOSSES.items())}
    return names.get(kind, kind.__name__)


def _settings(trainer: Any) -> dict[str, Any]:
    """What the run was trained with and for how long; of the losses and the loss-net, what was read."""
    args, state, loss = trainer.args, trainer.state, getattr(trainer.space, "loss", None)
    settings = {name: getattr(args, name) for name in CARD_ARGUMENTS}
    if state.global_step:
        settings |= {"epochs": round(state.epoch, 2), "steps": state.global_step}
    own = {each.name: getattr(loss, each.name) for each in fields(loss)} if is_dataclass(loss) else {}
    settings |= {name: value for name, value in own.items() if isinstance(value, (int, float, str))}
    if args.energy_loss != CROSS_ENTROPY:
        settings |= {name: getattr(args, name) for name in LOSS_NET_ARGUMENTS}
        defaults = {field.name: field.default for field in fields(args)}
        settings |= {name: getattr(args, name) for name in IF_CHANGED if getattr(args, name) != defaults[name]}
        settings |= {name: getattr(args, name) for name in sorted(ENERGY_LOSSES[args.energy_loss].read(args))}
        if args.loss_net_steps:
            settings["loss_net_learning_rate"] = args.loss_net_learning_rate
    return settings


def _library_snippet(model: PreTrainedModel, adapter_export: str, space: OutputSpace) -> str:
    tags = isinstance(space, TagSequenceSpace)
    if isinstance(space, BinaryMaskSpace):
        return "images_fcn" if model.config.model_type == FCNConfig.model_type else "images"
    library = library_of(model)
    if library is not None and not saves_merged(model, adapter_export):
        return f"tokens_{library.mode}" if tags else library.mode
    if tags:
        return "words" if model.config.model_type == BiLSTMConfig.model_type else "tokens"
    return "features" if model.main_input_name == "features" else "text"


_THRESHOLD = """
Decision threshold tuned on validation: **{0:g}**{1}.
"""


def _metadata(
    model_name: str,
    base_model: str | None,
    dataset: str | None,
    figures: Mapping[str, float],
    kind: CardKind,
    *,
    language: str | list[str] | None,
    license: str | None,
    tags: list[str],
) -> str:
    results = [
        EvalResult(
            task_type=kind.pipeline_tag,
            task_name=kind.task,
            dataset_type=dataset,
            dataset_name=dataset,
            dataset_split="test",
            metric_type=key,
            metric_name=name,
            metric_value=round(float(figures[f"test_{key}"]), 4),
        )
        for key, name in kind.figures.items()
        if f"test_{key}" in figures and key not in kind.baselines and dataset is not None
    ]
    data = ModelCardData(
        language=language,
        license=license,
        library_name=kind.library_name,
        pipeline_tag=kind.pipeline_tag,
        tags=list(dict.fromkeys(["seal", kind.task.replace(" ", "-"), *tags])),
        base_model=base_model if _is_hub_id(base_model) else None,  # the Hub refuses what is not an id
        datasets=[dataset] if dataset is not None and _is_hub_id(dataset) else None,
        model_name=model_name if results else None,
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml()}\n---\n"


def _figures(figures: Mapping[str, float], kind: CardKind) -> str:
    lines = []
    for key, name in kind.figures.items():
        pair = [figures.get(f"{split}_{key}") for split in ("eval", "test")]
        if any(value is not None for value in pair):
            shown = ("-" if value is None else f"{value:.4f}" for value in pair)
            lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(["", "## Figures", "", "| | validation | test |", "|---|---|---|", *lines, ""]) if lines else ""


def _usage(kind: CardKind, model_name: str, base_model: str | None, num_labels: int, threshold: float | None) -> str:
    name, base = (json.dumps(value, ensure_ascii=False) for value in (model_name, base_model))
    values = {"name": name, "base": base, "num_labels": num_labels}
    code = Template(kind.snippet).substitute(values, threshold=f"{0.5 if threshold is None else threshold:g}")
    return f"```python\n{code}```\n"


def _labels(label_names: Sequence[str]) -> str:
    lines = [f"| {i} | {_escape(name)} |" for i, name in enumerate(label_names[:MAX_LABELS])]
    more = len(label_names) - MAX_LABELS
    rest = f"\nand {more} more: see `id2label` in `config.json`.\n" if more > 0 else ""
    return "\n".join(["| id | label |", "|---|---|", *lines, rest])


def _hyperparameters(hyperparameters: Mapping[str, Any]) -> str:
    # a Trainer's arguments may hold the user's Hub token
    shown = {key: value for key, value in hyperparameters.items() if not key.endswith("token") and value is not None}
    if not shown:
        return ""
    lines = (f"| {_escape(key)} | {_escape(value)} |" for key, value in shown.items())
    return "\n".join(["", "## Hyper-parameters", "", "| | |", "|---|---|", *lines])


def _escape(text: Any) -> str:
    """Any value as plain text in one Markdown table cell: one line, every active character escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#~&$])", r"\\\1", " ".join(str(text).split()))


def _public_name(name: str | None) -> str | None:
    """A local path is nobody else's business: its last part. A Hub id or plain name stays."""
    if name is None or not (Path(name).is_absolute() or Path(name).exists() or name.startswith((".", "~"))):
        return name
    return Path(name).resolve().name


def _is_hub_id(name: str | None) -> bool:
    return name is not None and re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
