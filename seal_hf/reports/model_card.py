"""The card of a pushed task-net: data, loss, figures, decisions, a code snippet, limits, papers. It leaves out what was
not measured or is not known."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import yaml
from huggingface_hub import EvalResult, ModelCardData, metadata_load, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError

from ..energy_losses import CROSS_ENTROPY
from ..utils.messages import few, printable
from ..utils.recorded import recorded
from .card_kinds import KINDS, CardKind, decisions_section, number, usage_section
from .common import task_loss_in_words

TEMPLATE = Path(__file__).parent / "model_card_template.md"
MAX_LABELS = 100  # in the card's table; config.json has them all
WIDGETS = ("text-classification", "token-classification")  # pipelines that take a text
HUB_METRIC = re.compile(r"(exact_match|mean_iou|precision|recall|f1|(?:pixel_)?accuracy)(?:_|$)")
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
        reads: what the classifier reads, such as "the mean of the tokens".
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
    task_loss = task_loss_in_words(task_loss)
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
            language=language or (origin.language if origin is not None else None),
            license=license,
            plain=not columns and "pairs" not in inputs,
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
    plain: bool,
    tags: list[str],
) -> str:
    """The metadata; `plain` if one text is all that the model reads."""
    results = [
        EvalResult(
            task_type=kind.pipeline_tag or "other",
            task_name=kind.task,
            dataset_type=dataset,
            dataset_name=dataset,
            dataset_split="test",
            metric_type=hub_metric,
            metric_name=name,
            metric_value=round(float(figures[f"test_{key}"]), 4),
        )
        for key, name in kind.figures.items()
        if f"test_{key}" in figures and key not in kind.baselines and dataset is not None
        if (hub_metric := _hub_metric(key)) is not None
    ]
    has_widget = plain and not kind.is_ours and kind.pipeline_tag in WIDGETS and bool(kind.widget)
    more: dict[str, Any] = {"widget": [{"text": text} for text in kind.widget]} if has_widget else {}
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
        **more,
    )
    return f"---\n{data.to_yaml()}\n---\n"


def _hub_metric(figure: str) -> str | None:
    """The Hub's name of a metric; None if the Hub does not know it, such as the Jaccard index."""
    found = HUB_METRIC.match(figure)
    return None if found is None else found[1].removeprefix("pixel_")


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


SHOWN_LABELS = 10  # the most that a sentence names


def limits_section(
    kind: CardKind,
    decisions: Mapping[str, Any],
    *,
    chosen: bool,
    dataset: str | None,
    rows: Mapping[str, int],
    inputs: Mapping[str, Any],
    unseen_labels: Sequence[str],
    missed_labels: Sequence[str],
    num_labels: int,
    best_epoch: bool,
    with_loss_net: bool,
    crf: bool,
) -> str:
    """A list of facts, or "" without any. The arguments are those of `model_card`, with names escaped."""
    lines = []
    if "train" in rows:
        source = "" if dataset is None else f" of {dataset}"
        lines.append(f"It was trained on {rows['train']:,} rows{source}. Its quality on other data was not measured.")
    if inputs.get("max_length"):
        lines.append(f"Training cut each {kind.unit} at {inputs['max_length']} tokens.")
    if unseen_labels:
        shown = few(unseen_labels, SHOWN_LABELS)
        lines.append(f"Labels without a training row: {len(unseen_labels)} of {num_labels} ({shown}).")
    if missed_labels:
        shown = few(missed_labels, SHOWN_LABELS)
        lines.append(f"Labels with an F1 of 0: {len(missed_labels)} of {num_labels} ({shown}).")
    if tuned := [*["decisions"] * _are_tuned(kind, decisions, chosen), *["epoch"] * best_epoch]:
        verb = "depends" if tuned == ["epoch"] else "depend"
        lines.append(f"The {' and the '.join(tuned)} {verb} on the validation rows: their figures are optimistic.")
    if kind.is_ours:
        lines.append("The architecture is one of `seal_hf`. `transformers` alone cannot load it.")
    elif crf:
        lines.append("Only `seal_hf` decodes by the CRF. A plain pipeline ignores it.")
    elif decisions and decisions["decoder"] not in kind.plain:
        lines.append(f"The decoder `{decisions['decoder']}` needs `seal_hf`.")
    if with_loss_net:
        lines.append("The loss-net is not part of this repository. Prediction does not need it.")
    return "\n".join(["", "## Limits", "", *(f"- {line}" for line in lines), ""]) if lines else ""


def _are_tuned(kind: CardKind, decisions: Mapping[str, Any], chosen: bool) -> bool:
    """True if validation rows chose the decoder or its numbers."""
    return bool(decisions) and (chosen or kind.has_numbers(decisions.get("folded") or decisions["decoder"]))


class Paper(NamedTuple):
    """A paper whose method a run may use.

    Attributes:
        says: what a run takes from the paper.
        title, authors, year, url: the paper's.
        key: of its BibTeX entry.
        venue: BibTeX field and its value.
        energy_losses: the paper's energy losses; empty: all.
    """

    says: str
    title: str
    authors: str
    year: int
    url: str
    key: str
    venue: tuple[str, str]
    energy_losses: Collection[str] = ()

    def as_bibtex(self) -> str:
        kind = "inproceedings" if self.venue[0] == "booktitle" else "misc"
        fields = {"title": f"{{{self.title}}}", "author": self.authors, self.venue[0]: self.venue[1]}
        lines = [f"  {name} = {{{value}}}," for name, value in (fields | {"year": self.year, "url": self.url}).items()]
        return "\n".join([f"@{kind}{{{self.key},", *lines, "}"])


SEAL = Paper(
    "The loss-net as a loss function:",
    "Structured Energy Network as a Loss Function",
    "Lee, Jay-Yoon and Patel, Dhruvesh and Goyal, Purujit and Zhao, Wenlong and Xu, Zhiyang and McCallum, Andrew",
    2022,
    "https://openreview.net/forum?id=F0DowhX7_x",
    "lee2022structured",
    ("booktitle", "Advances in Neural Information Processing Systems"),
)
INFERENCE_NETWORKS = Paper(
    "The joint training of the task-net as an inference network:",
    "Improving Joint Training of Inference Networks and Structured Prediction Energy Networks",
    "Tu, Lifu and Pang, Richard Yuanzhe and Gimpel, Kevin",
    2020,
    "https://aclanthology.org/2020.spnlp-1.8",
    "tu2020improving",
    ("booktitle", "Proceedings of the Fourth Workshop on Structured Prediction for NLP"),
    ("infnet", "infnet_plus"),
)
IMPLICIT_TRAINING = Paper(
    "Implicit gradients of the loss-net, and contrastive divergence:",
    "Implicit Training of Energy Model for Structured Prediction",
    "Shankar, Shiv and Piratla, Vihari",
    2022,
    "https://arxiv.org/abs/2211.11649",
    "shankar2022implicit",
    ("howpublished", "arXiv:2211.11649"),
    ("contrastive_divergence",),
)
MUTUAL_LEARNING = Paper(
    "Mutual learning of the task-net and a second classifier:",
    "Deep Mutual Learning",
    "Zhang, Ying and Xiang, Tao and Hospedales, Timothy M. and Lu, Huchuan",
    2018,
    "https://arxiv.org/abs/1706.00384",
    "zhang2018deep",
    ("booktitle", "IEEE Conference on Computer Vision and Pattern Recognition"),
    ("mutual",),
)


def papers_section(energy_loss: str, hyperparameters: Mapping[str, Any]) -> str:
    """The papers of a run, with BibTeX entries; empty for cross-entropy."""
    papers = papers_of(energy_loss, hyperparameters)
    if not papers:
        return ""
    lines = [f"- {paper.says} [{paper.title}]({paper.url}), {paper.year}." for paper in papers]
    entries = "\n\n".join(paper.as_bibtex() for paper in papers)
    return "\n".join(["", "## Papers", "", *lines, "", "```bibtex", entries, "```"])


def papers_of(energy_loss: str, hyperparameters: Mapping[str, Any]) -> list[Paper]:
    """The papers whose methods a run used; none for cross-entropy."""
    if energy_loss == CROSS_ENTROPY:
        return []
    implicit = hyperparameters.get("hypergradient", "none") != "none"
    return [
        paper
        for paper in (SEAL, INFERENCE_NETWORKS, IMPLICIT_TRAINING, MUTUAL_LEARNING)
        if not paper.energy_losses or energy_loss in paper.energy_losses or (paper is IMPLICIT_TRAINING and implicit)
    ]


HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
SNAPSHOT = re.compile(r"models--([^/\\]+)[/\\]snapshots[/\\]")  # in the Hub's cache
CHECKPOINT = re.compile(r"checkpoint-\d+")


class Origin(NamedTuple):
    """The checkpoint that a task-net began from.

    Attributes:
        name: an id on the Hub, or the last part of a local path.
        hub_id: that id; for a local folder, the id it was trained from by its own account; None if unknown.
    """

    name: str
    hub_id: str | None

    @property
    def language(self) -> str | None:
        """The language that its card on this machine names, if it is a single one."""
        try:
            cached = try_to_load_from_cache(self.hub_id or "", "README.md")
        except HFValidationError:
            return None
        found = _card(Path(cached).parent).get("language") if isinstance(cached, str) else None
        (found,) = found if isinstance(found, list) and len(found) == 1 else (found,)
        return found if isinstance(found, str) else None


def origin_of(name: str | Path | None) -> Origin | None:
    """The origin of a checkpoint by its name or path, without a request to the Hub."""
    place, first, seen = str(name or ""), "", set()
    while place and place not in seen:
        seen.add(place)
        if (hub_id := _hub_id(place)) is not None:
            return Origin(first or hub_id, hub_id)
        first = first or last_part(place)
        place = _trained_from(Path(place))
    return Origin(first, None) if first else None


def is_local(name: str) -> bool:
    """True for a path, False for an id or a plain name."""
    return Path(name).is_absolute() or name.startswith((".", "~")) or "\\" in name or Path(name).exists()


def is_hub_id(name: str) -> bool:
    """True for `owner/name`."""
    return HUB_ID.fullmatch(name) is not None


def last_part(path: str) -> str:
    """The last part of a path: others need not see the rest."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1] if not Path(path).exists() else Path(path).resolve().name


def _hub_id(name: str) -> str | None:
    if snapshot := SNAPSHOT.search(name):
        return snapshot[1].replace("--", "/")
    if is_local(name) or CHECKPOINT.search(name):
        return None
    if is_hub_id(name):
        return name
    try:  # an id without owner, such as `gpt2`, is known by the cache
        return name if isinstance(try_to_load_from_cache(name, "config.json"), str) else None
    except HFValidationError:
        return None


def _trained_from(folder: Path) -> str:
    """The base that a folder names in its card, or its adapter's or model's configuration; else ""."""
    for found in (
        _card(folder).get("base_model"),
        _json(folder / "adapter_config.json").get("base_model_name_or_path"),
        _json(folder / "config.json").get("_name_or_path"),
    ):
        if isinstance(found, list) and len(found) == 1:
            (found,) = found
        if isinstance(found, str) and found:
            return found
    return ""


def _card(folder: Path) -> dict:
    try:
        return metadata_load(folder / "README.md") or {}
    except (OSError, ValueError, yaml.YAMLError):
        return {}


def _json(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
