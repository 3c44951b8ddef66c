"""The card of a pushed task-net: data, loss, figures, decisions, a code snippet, limits, papers. It leaves out what was
not measured or is not known."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from ..energy_losses import CROSS_ENTROPY
from ..utils.messages import printable
from ..utils.recorded import recorded
from .card_decisions import decisions_section, usage_section
from .card_kinds import KINDS, CardKind, number
from .card_limits import limits_section
from .card_origin import Origin, is_hub_id, is_local, last_part, origin_of
from .card_papers import papers_section

TEMPLATE = Path(__file__).parent / "model_card_template.md"
MAX_LABELS = 100  # in the card's table; config.json has them all
SECOND_LOSS = {"mutual": "mutual learning"}  # energy loss -> its words, if they are not its name


def model_card(
    *,
    model_name: str,
    base_model: str | None,
    dataset: str | None,
    loss: str,
    loss_net_encoder: str | None,
    metrics: Mapping[str, float],
    decisions: Mapping[str, Any] | None,
    label_names: Sequence[str],
    library_snippet: str,
    hyperparameters: Mapping[str, Any],
    rows: Mapping[str, int] | None = None,
    task_loss: str = "cross_entropy",
    crf: bool = False,
    chosen: bool = True,
    verdict: Sequence[str] = (),
    label_columns: Mapping[str, Sequence[str]] | None = None,
    unseen_labels: Sequence[str] = (),
    missed_labels: Iterable[str] = (),
    inputs: Mapping[str, Any] | None = None,
    columns: Sequence[str] = (),
    versions: Mapping[str, str] | None = None,
    reads: str | None = None,
    best_epoch: bool = False,
    language: str | list[str] | None = None,
    license: str | None = None,
    tags: str | Sequence[str] | None = None,
) -> str:
    """Markdown with YAML metadata: the README.md of a task-net.

    Args:
        model_name: repo id or name, which the snippet loads.
        base_model: the checkpoint that the task-net began from, an id or a folder (only its last part is shown);
            None if it was trained from scratch.
        dataset: name, Hub id or folder of the data (only a folder's last part is shown).
        loss: the energy loss; "ce" for the task loss alone, and if the loss-net never taught.
        loss_net_encoder: "separate" or "shared"; None with "ce".
        metrics: as `evaluate_multilabel`, `evaluate_tags` or `evaluate_masks` returns;
            missing and non-finite values are left out.
        decisions: as `config.decisions`; None leaves them out, and the snippet decides at 0.5.
        label_names: L names in the order of the logits.
        library_snippet: one of `KINDS`. For label sets: "text" (pipeline), "text_pooled" (pipeline, needs `seal_hf`
            imported), "features" (the MLP, needs `seal_hf`), "peft" and "adapters" (a repo with an adapter alone, which
            needs the number of labels to load), "peft_pooled" and "adapters_pooled" (needs `seal_hf`); of images
            "image_labels" (pipeline), "image_labels_cnn" (the small convolutional net, needs `seal_hf` imported) and
            "image_labels_peft". For tags: "tokens", "tokens_peft", "tokens_adapters", and "words" (the BiLSTM, needs
            `seal_hf`); with "trees_" before these for trees. For masks: "images" (pipeline), and "images_fcn" (the FCN,
            where the pipeline needs `seal_hf` imported); for several classes "class_images" and "class_images_fcn".
        hyperparameters: shown in a table; secrets are left out.
        rows: split -> number of rows.
        task_loss: the task-net's own loss, see `TASK_LOSSES` and `TAG_TASK_LOSSES`.
        crf: True if the task-net has a CRF.
        chosen: True if validation chose the decoder, False if the user did.
        verdict: sentences on the run, as [`seal_hf.training.hints`] forms them.
        label_columns: title -> L cells in Markdown, further columns of the table of labels.
        unseen_labels: labels without a training row.
        missed_labels: labels that no gold row gets, though rows were judged that have them.
        inputs: as `config.inputs`; `max_length`, in tokens, is where texts were cut; `pairs` means two texts per row;
            `image_size` is the height and width in pixels at which images are read.
        reads: what a classifier of texts reads, such as "the mean of the tokens".
        columns: columns that a sentence needs beside its words.
        versions: package -> version.
        best_epoch: True if validation chose the epoch.
        language, license, tags: added to the metadata, by the Hub's names.

    Raises:
        ValueError: an unknown `library_snippet`, or `decisions` without their decoder's numbers.
    """
    if library_snippet not in KINDS:
        raise ValueError(f"library_snippet is {library_snippet!r}, expected one of {', '.join(KINDS)}")
    kind, origin = KINDS[library_snippet], origin_of(base_model)
    dataset = last_part(dataset) if dataset is not None and is_local(dataset) else dataset
    figures = {key: value for key, value in metrics.items() if _is_number(value)}
    decisions, rows, inputs = decisions or {}, rows or {}, inputs or {}
    max_length = inputs.get("max_length")
    task_loss = {"cross_entropy": "cross-entropy"}.get(task_loss, f"the {task_loss} task loss")
    with_loss_net, second = loss != CROSS_ENTROPY, SECOND_LOSS.get(loss, f"{loss} energy loss")
    facts = {
        "data": dataset,
        "rows": ", ".join(f"{count:,} {split}" for split, count in rows.items()) or None,
        "began from": _began_from(origin),
        "loss": f"SEAL, {second} beside {task_loss}" if with_loss_net else task_loss,
        "loss-net encoder": loss_net_encoder if with_loss_net else None,
        "labels": len(label_names),
        "classifier reads": reads,
        f"{kind.unit}s cut at": f"{max_length} tokens" if max_length else None,
        "images read at": "{} x {} pixels".format(*size) if (size := inputs.get("image_size")) else None,
        "license": license,
    }
    values = {
        "metadata": _metadata(
            model_name,
            origin,
            dataset,
            figures,
            kind,
            language=language,
            license=license,
            tags=[
                *["seal"] * with_loss_net,
                kind.task.replace(" ", "-"),
                *([tags] if isinstance(tags, str) else tags or ()),
            ],
        ),
        "title": _escape(model_name),
        "task": kind.task.replace("classification", "classifier")
        .replace("segmentation", "segmentation net")
        .replace("parsing", "parser"),
        "loss": f"the {_escape(second)}" if with_loss_net else _escape(task_loss),
        "method": " (SEAL: a loss-net trained beside the task-net scores its output)" if with_loss_net else "",
        "verdict": "".join(f"\n- {_escape(sentence)}" for sentence in verdict) + "\n" * bool(verdict),
        "facts": _table(facts),
        "figures": _figures(figures, kind, decisions),
        "decisions": decisions_section(kind, decisions, figures, chosen=chosen) if decisions else "",
        "usage": usage_section(
            kind,
            decisions,
            model_name=model_name,
            base=origin.name if origin is not None else None,
            num_labels=len(label_names),
            max_length=max_length,
            columns=columns,
            pairs="pairs" in inputs,
        ),
        "labels": _labels(label_names, {**_thresholds(decisions), **(label_columns or {})}),
        "training": _training(hyperparameters, versions or {}),
        "limits": limits_section(
            kind,
            decisions,
            chosen=chosen,
            dataset=None if dataset is None else _escape(dataset),
            rows=rows,
            inputs=inputs,
            unseen_labels=[_escape(name) for name in unseen_labels],
            missed_labels=[_escape(name) for name in missed_labels],
            num_labels=len(label_names),
            best_epoch=best_epoch,
            with_loss_net=with_loss_net,
            crf=crf,
        ),
        "papers": papers_section(loss, hyperparameters),
    }
    # Template.substitute does not read substituted text: a `$` in a label name stays a `$`
    return printable(Template(TEMPLATE.read_text(encoding="utf-8")).substitute(values)).rstrip() + "\n"


def _metadata(
    model_name: str,
    origin: Origin | None,
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
            task_type=kind.pipeline_tag or "other",
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
        pipeline_tag=kind.pipeline_tag or None,
        tags=list(dict.fromkeys(tags)),
        base_model=_base_of(origin, kind),
        datasets=[dataset] if dataset is not None and is_hub_id(dataset) else None,
        model_name=model_name if results else None,
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml()}\n---\n"


def _base_of(origin: Origin | None, kind: CardKind) -> str | None:
    """The base for the Hub, which accepts only ids. An adapter's base must be the very model that it belongs to."""
    if origin is None or (kind.library_name != "transformers" and origin.hub_id != origin.name):
        return None
    return origin.hub_id


def _began_from(origin: Origin | None) -> str | None:
    if origin is None or origin.hub_id in (None, origin.name):
        return None if origin is None else origin.name
    return f"{origin.name}, trained from {origin.hub_id}"


def _figures(figures: Mapping[str, float], kind: CardKind, decisions: Mapping[str, Any]) -> str:
    """The table of figures, with those of the stored decoder first."""
    lines = []
    for key, name in kind.ordered_figures(kind.decoder(decisions)).items():
        pair = [figures.get(f"{split}_{key}") for split in ("eval", "test")]
        if any(value is not None for value in pair):
            shown = ("-" if value is None else f"{value:.4f}" for value in pair)
            lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(["", "## Figures", "", "| | validation | test |", "|---|---|---|", *lines, ""]) if lines else ""


def _thresholds(decisions: Mapping[str, Any]) -> dict[str, list[str]]:
    """A column of thresholds, if each label has its own."""
    if not decisions.get("decoder", "").startswith("thresholds"):
        return {}
    return {"threshold": [number(value) for value in decisions["thresholds"]]}


def _labels(label_names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> str:
    """The table of ids and labels, with further columns of Markdown."""
    ids, names = map(str, range(len(label_names))), map(_escape, label_names)
    rows = list(zip(ids, names, *columns.values(), strict=True))
    head = ("id", "label", *columns)
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows[:MAX_LABELS])]
    more = len(label_names) - MAX_LABELS
    rest = f"\nand {more} more: see `id2label` in `config.json`.\n" if more > 0 else ""
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:], rest])


def _training(hyperparameters: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    shown = recorded(hyperparameters) | {
        "versions": ", ".join(f"{name} {found}" for name, found in versions.items()) or None
    }
    table = _table(shown)
    return "\n".join(["", "## Training", "", "| | |", "|---|---|", table, ""]) if table else ""


def _table(facts: Mapping[str, Any]) -> str:
    """The lines of a table with two columns, without values of None."""
    return "\n".join(f"| {_escape(name)} | {_escape(value)} |" for name, value in facts.items() if value is not None)


def _escape(text: Any) -> str:
    """Any value as plain text for a Markdown table cell: one line, active characters escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#~&$])", r"\\\1", " ".join(str(text).split()))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
