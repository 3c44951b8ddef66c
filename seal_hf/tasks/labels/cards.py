"""Model cards of label sets: decoders in words, code that loads the net, and a card for each way to save it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.decisions import FIXED, THRESHOLD
from ...core.space import OutputSpace
from ...nets.cnn import CNNConfig
from ...nets.heads import reads_images
from ...nets.text_pooling import PooledConfig, classifier_reads, reading_in_words
from ...reports.card_kinds import ADAPTERS_LIBRARY, OURS, PEFT_LIBRARY, CardKind, cut_in_words
from .decisions.label_decisions import (
    CALIBRATED_CLOSED,
    CALIBRATED_JACCARD,
    CLOSED,
    NEVER_EMPTY,
    SEEN,
    SEEN_F1,
    LabelDecisions,
)
from .decisions.targets import JACCARD
from .evaluation import BESIDE_FIGURES, FIGURES

# --- how the decoders decide, in words --------------------------------------------------------------------------------

BEST_SET = "It decides the label set with the highest expected example F1"
BEST_CLOSED_SET = f"{BEST_SET}, and adds all ancestors of its labels"
DECIDES = {
    "thresholds": "Each label has its own threshold, see the table of labels.",
    "expected_f1": f"{BEST_SET}.",
    CLOSED: f"{BEST_CLOSED_SET}.",
}
WITH_ANCESTORS = "If that gives no label, it decides the likeliest one and its ancestors."
NEVER = {
    "thresholds": "If that gives no label, it decides the one nearest to its threshold.",
    CLOSED: WITH_ANCESTORS,
    CALIBRATED_CLOSED: WITH_ANCESTORS,
    "": "If that gives no label, it decides the likeliest one.",
}
OF_TRAINING = "The label sets of the training rows count by their frequency. It decides the"
CALIBRATED = {
    "calibrated_f1": BEST_SET,
    CALIBRATED_JACCARD: BEST_SET.replace("example F1", "Jaccard index"),
    CALIBRATED_CLOSED: BEST_CLOSED_SET,
    SEEN: f"{OF_TRAINING} most probable set",
    SEEN_F1: f"{OF_TRAINING} set with the highest expected {{of}}",
}


def _in_words(name: str, decisions: Mapping[str, Any]) -> str:
    plain = name.removesuffix(NEVER_EMPTY)
    if plain in (FIXED, THRESHOLD):
        said = cut_in_words("A label is decided", plain, decisions)
    elif plain in CALIBRATED:
        scale, shift = (float(f"{decisions['calibration'][key]:.4g}") for key in ("scale", "shift"))
        formula = f"σ({scale:g} · logit(p) {'-+'[shift >= 0]} {abs(shift):g})"
        of = "Jaccard index" if decisions.get("target") == JACCARD else "example F1"
        said = f"{CALIBRATED[plain].format(of=of)}, on calibrated probabilities: {formula}."
    else:
        said = DECIDES[plain]
    return said if name == plain else f"{said} {NEVER.get(plain, NEVER[''])}"


# --- code that loads and applies the net ------------------------------------------------------------------------------

PEFT = """\
import torch
from peft import AutoPeftModelForSequenceClassification
from transformers import AutoTokenizer

model = AutoPeftModelForSequenceClassification.from_pretrained($name, num_labels=$num_labels).eval()
inputs = AutoTokenizer.from_pretrained($name)($tokenized$cut, return_tensors="pt")
with torch.no_grad():
    probabilities = model(**inputs).logits.sigmoid()
labels = (probabilities >= $threshold).nonzero()[:, 1]  # ids of the table below
"""
ADAPTERS = """\
import adapters
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

model = AutoModelForSequenceClassification.from_pretrained($base, num_labels=$num_labels)
adapters.init(model)
model.load_adapter($name, set_active=True, use_safetensors=True)
inputs = AutoTokenizer.from_pretrained($name)($tokenized$cut, return_tensors="pt")
with torch.no_grad():
    probabilities = model.eval()(**inputs).logits.sigmoid()
labels = (probabilities >= $threshold).nonzero()[:, 1]  # ids of the table below
"""
SEAL = """\
from seal_hf import SealForMultiLabel

model = SealForMultiLabel.from_pretrained($name, with_loss_net=False)
probabilities, decisions = model.predict([{}])
labels = [model.config.id2label[i] for i, decided in enumerate(decisions[0].tolist()) if decided]
"""
SEAL_FEATURES = """\
import torch
from seal_hf import SealForMultiLabel

model = SealForMultiLabel.from_pretrained($name, with_loss_net=False)
features = torch.zeros(1, model.config.input_size)  # your rows, raw: the model normalises them
probabilities, decisions = model.predict(features=features)
labels = [model.config.id2label[i] for i, decided in enumerate(decisions[0].tolist()) if decided]
"""
IMAGE_LABELS_PEFT = """\
import torch
from peft import PeftModel
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageClassification

base = AutoModelForImageClassification.from_pretrained($base, num_labels=$num_labels, ignore_mismatched_sizes=True)
model = PeftModel.from_pretrained(base, $name).eval()
image = Image.open("image.png").convert("RGB")
inputs = AutoImageProcessor.from_pretrained($name)(image, return_tensors="pt")
with torch.no_grad():
    probabilities = model(**inputs).logits.sigmoid()
labels = (probabilities >= $threshold).nonzero()[:, 1]  # ids of the table below
"""
PIPED = '"text-classification", $name, top_k=None', "classify([$piped]$cut)[0]"
PIPED_IMAGES = '"image-classification", $name, top_k=$num_labels', 'classify("image.png")'
IMPORTED = "import seal_hf  # registers the {} with the Auto classes\n"


def _by_pipeline(pipeline: str, scores: str, imported: str = "") -> dict[str, str]:
    """Decoder -> code that applies it to the scores of a pipeline of transformers.

    Args:
        pipeline: its arguments.
        scores: an expression for the labels' scores.
        imported: a line before all others.
    """
    begin = f"{imported}from transformers import pipeline\n\nclassify = pipeline({pipeline})\n"
    decided = f'scores = {scores}\nlabels = [score["label"] for score in scores if score["score"] >= {{}}]\n'
    of_label = (
        "config = classify.model.config\n"
        'thresholds = {config.id2label[i]: t for i, t in enumerate(config.decisions["thresholds"])}\n'
    )
    one = begin + decided.format("$threshold")
    return {FIXED: one, THRESHOLD: one, "thresholds": begin + of_label + decided.format('thresholds[score["label"]]')}


# --- one for each way to save a net -----------------------------------------------------------------------------------

EXAMPLES = (  # texts, and a second one for models of pairs
    ("The parcel came two days late and the box was torn, but the lamp works.", "The lamp is broken."),
    ("What a match! I cannot stop smiling.", "The speaker is happy."),
    ("Prices of crude oil fell after the harvest of wheat was better than expected.", "Oil became dearer."),
)


def _decided_figures(decoder: str) -> list[str]:
    return [key for key in FIGURES if key.endswith("_decided")]


LABELS: dict[str, Any] = {
    "seal": SEAL.format("$given"),
    "plainly": "Without `seal_hf`, `transformers` gives the probability of each label and decides nothing.",
    "pipeline_tag": "text-classification",
    "task": "multi-label classification",
    "figures": FIGURES,
    "decided": _decided_figures,
    "baselines": frozenset(BESIDE_FIGURES),
    "decisions": LabelDecisions,
    "in_words": _in_words,
    "fitted": (THRESHOLD, "thresholds", *CALIBRATED),
    "unit": "text",
    "widget": tuple(text for text, _ in EXAMPLES),
}
OF_FEATURES: dict[str, Any] = LABELS | {
    "seal": SEAL_FEATURES,
    "pipeline_tag": "tabular-classification",
    "unit": "row",
    "files": ("new.arff", "predictions.csv"),
}
IMAGE_SETS: dict[str, Any] = LABELS | {
    "seal": SEAL.format('"image.png"'),
    "pipeline_tag": "image-classification",
    "unit": "image",
    "files": ("new_images", "predictions.csv"),
}
CARDS = {
    "text": CardKind(_by_pipeline(*PIPED), **LABELS),
    "peft": CardKind({FIXED: PEFT, THRESHOLD: PEFT}, **LABELS | PEFT_LIBRARY),
    "adapters": CardKind({FIXED: ADAPTERS, THRESHOLD: ADAPTERS}, **LABELS | ADAPTERS_LIBRARY),
    "features": CardKind(**OF_FEATURES | OURS),
    "feature_lines": CardKind(**OF_FEATURES | OURS | {"files": ("new.svm", "predictions.csv")}),
    "feature_table": CardKind(**OF_FEATURES | OURS | {"files": ("new.csv", "predictions.csv")}),
    "text_pooled": CardKind(**LABELS | OURS | {"plain": _by_pipeline(*PIPED, IMPORTED.format("net"))}),
    "peft_pooled": CardKind(**LABELS | OURS | PEFT_LIBRARY),
    "adapters_pooled": CardKind(**LABELS | OURS | ADAPTERS_LIBRARY),
    "image_labels": CardKind(_by_pipeline(*PIPED_IMAGES), **IMAGE_SETS),
    "image_labels_cnn": CardKind(
        **IMAGE_SETS | OURS | {"plain": _by_pipeline(*PIPED_IMAGES, IMPORTED.format("convolutional net"))}
    ),
    "image_labels_peft": CardKind(
        {FIXED: IMAGE_LABELS_PEFT, THRESHOLD: IMAGE_LABELS_PEFT}, **IMAGE_SETS | PEFT_LIBRARY
    ),
}


def card_of(model: Any, space: OutputSpace, library: str | None) -> str:
    """The key in `CARDS` for a task-net, see `Task.card_of`."""
    pooled = isinstance(model.config, PooledConfig)
    if library is not None:
        library = f"{library}_pooled" if pooled else library
        return f"image_labels_{library}" if reads_images(model) else library
    if reads_images(model):
        return "image_labels_cnn" if model.config.model_type == CNNConfig.model_type else "image_labels"
    if pooled:
        return "text_pooled"
    if model.main_input_name == "features":
        kinds = {"feature_columns": "feature_table", "first_index": "feature_lines"}
        inputs = getattr(model.config, "inputs", None) or {}
        return next((kind for key, kind in kinds.items() if key in inputs), "features")
    return "text"


def reads_in_words(model: Any) -> str | None:
    """What a classifier of texts reads, or an MLP that has taken in a logistic regression, in words; None for other
    nets."""
    if getattr(model.config, "linear_skip", False):
        return "the features, by an MLP and by a logistic regression, whose logits are added"
    is_of_text = model.main_input_name == "input_ids" and classifier_reads(model) is not None
    return reading_in_words(model) if is_of_text else None
