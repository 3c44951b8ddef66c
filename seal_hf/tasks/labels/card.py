"""Cards of label sets: names for the Hub, figures, code snippets, and how their decoders decide, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.decisions import FIXED, THRESHOLD
from ...core.space import OutputSpace
from ...nets.cnn import CNNConfig
from ...nets.image_features import reads_images
from ...nets.text_pooling import PooledConfig, classifier_reads
from ...nets.text_windows import reading_in_words
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
from .report import FIGURES, LINEAR_FIGURES

TEXT = """\
from transformers import pipeline

classify = pipeline("text-classification", $name, top_k=None)
scores = classify([$piped]$cut)[0]
labels = [score["label"] for score in scores if score["score"] >= $threshold]
"""
TEXT_BY_LABEL = """\
from transformers import pipeline

classify = pipeline("text-classification", $name, top_k=None)
config = classify.model.config
thresholds = {config.id2label[i]: t for i, t in enumerate(config.decisions["thresholds"])}
scores = classify([$piped]$cut)[0]
labels = [score["label"] for score in scores if score["score"] >= thresholds[score["label"]]]
"""
IMPORTED = "import seal_hf  # registers the net with the Auto classes\n"
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
SEAL_TEXT = """\
from seal_hf import SealForMultiLabel

model = SealForMultiLabel.from_pretrained($name, with_loss_net=False)
probabilities, decisions = model.predict([$given])
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
IMAGE_LABELS = """\
from transformers import pipeline

classify = pipeline("image-classification", $name, top_k=$num_labels)
scores = classify("image.png")
labels = [score["label"] for score in scores if score["score"] >= $threshold]
"""
IMAGE_LABELS_BY_LABEL = """\
from transformers import pipeline

classify = pipeline("image-classification", $name, top_k=$num_labels)
config = classify.model.config
thresholds = {config.id2label[i]: t for i, t in enumerate(config.decisions["thresholds"])}
scores = classify("image.png")
labels = [score["label"] for score in scores if score["score"] >= thresholds[score["label"]]]
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
IMPORTED_CNN = "import seal_hf  # registers the convolutional net with the Auto classes\n"
SEAL_IMAGE_LABELS = """\
from seal_hf import SealForMultiLabel

model = SealForMultiLabel.from_pretrained($name, with_loss_net=False)
probabilities, decisions = model.predict(["image.png"])
labels = [model.config.id2label[i] for i, decided in enumerate(decisions[0].tolist()) if decided]
"""

BEST_SET = "It decides the label set with the highest expected example F1"
BEST_CLOSED_SET = f"{BEST_SET} among the sets that contain all ancestors of their labels"
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


def _decided_figures(decoder: str) -> list[str]:
    return [key for key in FIGURES if key.endswith("_decided")]


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


EXAMPLES = (  # texts, and a second one for models of pairs
    ("The parcel came two days late and the box was torn, but the lamp works.", "The lamp is broken."),
    ("What a match! I cannot stop smiling.", "The speaker is happy."),
    ("Prices of crude oil fell after the harvest of wheat was better than expected.", "Oil became dearer."),
)
LABELS: dict[str, Any] = {
    "seal": SEAL_TEXT,
    "plainly": "Without `seal_hf`, `transformers` gives the probability of each label and decides nothing.",
    "pipeline_tag": "text-classification",
    "task": "multi-label classification",
    "figures": FIGURES,
    "decided": _decided_figures,
    "baselines": frozenset(LINEAR_FIGURES),
    "decisions": LabelDecisions,
    "in_words": _in_words,
    "fitted": (THRESHOLD, "thresholds", *CALIBRATED),
    "unit": "text",
    "widget": tuple(text for text, _ in EXAMPLES),
}
FEATURES: dict[str, Any] = LABELS | {
    "seal": SEAL_FEATURES,
    "pipeline_tag": "tabular-classification",
    "unit": "row",
    "files": ("new.arff", "predictions.csv"),
}
IMAGE_SETS: dict[str, Any] = LABELS | {
    "seal": SEAL_IMAGE_LABELS,
    "pipeline_tag": "image-classification",
    "unit": "image",
    "files": ("new_images", "predictions.csv"),
}
POOLED = {FIXED: IMPORTED + TEXT, THRESHOLD: IMPORTED + TEXT, "thresholds": IMPORTED + TEXT_BY_LABEL}
CNN = {
    FIXED: IMPORTED_CNN + IMAGE_LABELS,
    THRESHOLD: IMPORTED_CNN + IMAGE_LABELS,
    "thresholds": IMPORTED_CNN + IMAGE_LABELS_BY_LABEL,
}
OF_IMAGES = {FIXED: IMAGE_LABELS, THRESHOLD: IMAGE_LABELS, "thresholds": IMAGE_LABELS_BY_LABEL}

CARDS = {
    "text": CardKind({FIXED: TEXT, THRESHOLD: TEXT, "thresholds": TEXT_BY_LABEL}, **LABELS),
    "peft": CardKind({FIXED: PEFT, THRESHOLD: PEFT}, **LABELS | PEFT_LIBRARY),
    "adapters": CardKind({FIXED: ADAPTERS, THRESHOLD: ADAPTERS}, **LABELS | ADAPTERS_LIBRARY),
    "features": CardKind(**FEATURES | OURS),
    "text_pooled": CardKind(**LABELS | OURS | {"plain": POOLED}),
    "peft_pooled": CardKind(**LABELS | OURS | PEFT_LIBRARY),
    "adapters_pooled": CardKind(**LABELS | OURS | ADAPTERS_LIBRARY),
    "image_labels": CardKind(OF_IMAGES, **IMAGE_SETS),
    "image_labels_cnn": CardKind(**IMAGE_SETS | OURS | {"plain": CNN}),
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
    return "features" if model.main_input_name == "features" else "text"


def reads_in_words(model: Any) -> str | None:
    """What a classifier of texts reads, in words; None for other nets."""
    is_of_text = model.main_input_name == "input_ids" and classifier_reads(model) is not None
    return reading_in_words(model) if is_of_text else None
