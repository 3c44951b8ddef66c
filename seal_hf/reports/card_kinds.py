"""Parts of a card for each kind of output and saved model: names for the Hub, figures, code snippets.

In a snippet, `$name` is the repository and `$base` the checkpoint that the model began from, as Python strings.
`$num_labels` and `$threshold` are numbers. `$cut` and `$columns` are further arguments of a tokenizer and of `predict`,
after a comma, or empty. `$piped`, `$tokenized` and `$given` are a text, or a pair, as input of a pipeline, a tokenizer
and `predict`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from ..core.decisions import FIXED, THRESHOLD, Decisions
from ..tasks.labels.decisions.label_decisions import LabelDecisions
from ..tasks.labels.report import FIGURES, LINEAR_FIGURES
from ..tasks.masks.decisions import ClassMaskDecisions, MaskDecisions
from ..tasks.masks.report import BASELINES as MASK_BASELINES
from ..tasks.masks.report import CLASS_FIGURES
from ..tasks.masks.report import FIGURES as MASK_FIGURES
from ..tasks.tags.decisions import INDEPENDENT, TagDecisions
from ..tasks.tags.report import FIGURES as TAG_FIGURES
from ..tasks.trees.report import FIGURES as TREE_FIGURES

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
TOKENS = """\
from transformers import pipeline

tag = pipeline("token-classification", $name, aggregation_strategy="first")  # a word gets its first token's tag
spans = tag("a sentence to tag")
"""
TOKENS_PEFT = """\
import torch
from peft import AutoPeftModelForTokenClassification
from transformers import AutoTokenizer

model = AutoPeftModelForTokenClassification.from_pretrained($name, num_labels=$num_labels).eval()
words = "a sentence to tag".split()
inputs = AutoTokenizer.from_pretrained($name)(words, is_split_into_words=True, return_tensors="pt")
with torch.no_grad():
    tags = model(**inputs).logits.argmax(-1)  # of tokens, ids of the table below
"""
TOKENS_ADAPTERS = """\
import adapters
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

model = AutoModelForTokenClassification.from_pretrained($base, num_labels=$num_labels)
adapters.init(model)
model.load_adapter($name, set_active=True, use_safetensors=True)
words = "a sentence to tag".split()
inputs = AutoTokenizer.from_pretrained($name)(words, is_split_into_words=True, return_tensors="pt")
with torch.no_grad():
    tags = model.eval()(**inputs).logits.argmax(-1)  # of tokens, ids of the table below
"""
SEAL_WORDS = """\
from seal_hf import SealForTokenClassification

model = SealForTokenClassification.from_pretrained($name, with_loss_net=False)
words = "a sentence to tag".split()
probabilities, tags = model.predict([words]$columns)  # for each sentence: (words, tags), and a tag for each word
"""
SEAL_TREES = """\
from seal_hf import SealForTokenClassification, tags_to_tree

model = SealForTokenClassification.from_pretrained($name, with_loss_net=False)
words = "a sentence to parse".split()
probabilities, tags = model.predict([words]$columns)
tree = tags_to_tree(words, tags[0])  # in brackets
"""
IMAGES = """\
from transformers import pipeline

segment = pipeline("image-segmentation", $name)
masks = {part["label"]: part["mask"] for part in segment("image.png")}  # PIL images: 255 for pixels with the label
"""
IMAGES_FCN = "import seal_hf  # registers the FCN with the Auto classes\n" + IMAGES
SEAL_IMAGES = """\
from seal_hf import SealForSegmentation

model = SealForSegmentation.from_pretrained($name, with_loss_net=False)
probabilities, masks = model.predict(["image.png"])
mask = masks[0]  # (height, width): 1 for pixels with label 1 of the table below
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


def _of_label_decisions(decoder: str) -> list[str]:
    return [key for key in FIGURES if key.endswith("_decided")]


def _of_mask_decisions(decoder: str) -> list[str]:
    tuned = [key for key in MASK_FIGURES if key.endswith("_tuned")]
    return tuned if decoder == THRESHOLD else [key.removesuffix("_tuned") for key in tuned]


def _of_class_decisions(decoder: str) -> list[str]:
    return ["mean_iou", "pixel_accuracy"]


def _of_tag_decisions(decoder: str) -> list[str]:
    return [f"f1_{decoder}", f"accuracy_{decoder}"]


class CardKind(NamedTuple):
    """What differs between cards.

    Attributes:
        plain: decoder -> Python code that applies it, without `seal_hf` if possible.
        seal: Python code that applies any stored decoder with `seal_hf`.
        plainly: what other code does if `plain` lacks the decoder; "" if no other code loads the net.
        pipeline_tag, library_name: as the Hub knows them.
        task: what the model does, in words.
        figures: key of a figure, without its split -> its name for readers.
        decided: stored decoder -> keys of its figures; the first is the one that chooses it.
        baselines: figures that do not measure the model: the card has them, the model's results on the Hub do not.
        decisions: class that reads `config.decisions`.
        unit: the name of a data row.
        files: example input and output of `seal-hf predict`.
        is_ours: True if the architecture is one of `seal_hf`.
    """

    plain: Mapping[str, str]
    seal: str = SEAL_TEXT
    plainly: str = "Without `seal_hf`, `transformers` gives the probability of each label and decides nothing."
    pipeline_tag: str = "text-classification"
    library_name: str = "transformers"
    task: str = "multi-label classification"
    figures: Mapping[str, str] = FIGURES
    decided: Callable[[str], list[str]] = _of_label_decisions
    baselines: Collection[str] = frozenset(LINEAR_FIGURES)
    decisions: type[Decisions] = LabelDecisions
    unit: str = "text"
    files: tuple[str, str] = ("new.csv", "predictions.csv")
    is_ours: bool = False

    def ordered_figures(self, decoder: str) -> dict[str, str]:
        """`figures`, with those of the stored decoder first."""
        first = {key: self.figures[key] for key in self.decided(decoder) if key in self.figures}
        return first | dict(self.figures)


TAGS: dict[str, Any] = {
    "seal": SEAL_WORDS,
    "plainly": "Without `seal_hf`, each token gets its own likeliest tag.",
    "pipeline_tag": "token-classification",
    "task": "token classification",
    "figures": TAG_FIGURES,
    "decided": _of_tag_decisions,
    "decisions": TagDecisions,
    "unit": "sentence",
    "files": ("new.txt", "predictions.jsonl"),
}
TREES: dict[str, Any] = {
    **TAGS,
    "plain": {},
    "seal": SEAL_TREES,
    "plainly": "Without `seal_hf`, each token gets its own likeliest tag, and no tree is made.",
    "task": "constituency parsing",
    "figures": TREE_FIGURES,
    "files": ("new.txt", "trees.mrg"),
}
MASKS: dict[str, Any] = {
    "seal": SEAL_IMAGES,
    "plainly": "A `transformers` pipeline gives each pixel its likelier class: a threshold of 0.5.",
    "pipeline_tag": "image-segmentation",
    "task": "binary image segmentation",
    "figures": MASK_FIGURES,
    "decided": _of_mask_decisions,
    "baselines": MASK_BASELINES,
    "decisions": MaskDecisions,
    "unit": "image",
    "files": ("images", "masks"),
}
CLASS_MASKS: dict[str, Any] = MASKS | {
    "plainly": "",
    "task": "semantic segmentation",
    "figures": CLASS_FIGURES,
    "decided": _of_class_decisions,
    "decisions": ClassMaskDecisions,
}
OURS: dict[str, Any] = {"plain": {}, "plainly": "", "is_ours": True}
PEFT_LIBRARY: dict[str, Any] = {"library_name": "peft"}
ADAPTERS_LIBRARY: dict[str, Any] = {"library_name": "adapter-transformers"}
FEATURES: dict[str, Any] = {
    "pipeline_tag": "tabular-classification",
    "unit": "row",
    "files": ("new.arff", "predictions.csv"),
}
IMAGE_SETS: dict[str, Any] = {
    "seal": SEAL_IMAGE_LABELS,
    "pipeline_tag": "image-classification",
    "unit": "image",
    "files": ("new_images", "predictions.csv"),
}

KINDS = {
    "text": CardKind({FIXED: TEXT, THRESHOLD: TEXT, "thresholds": TEXT_BY_LABEL}),
    "peft": CardKind({FIXED: PEFT, THRESHOLD: PEFT}, **PEFT_LIBRARY),
    "adapters": CardKind({FIXED: ADAPTERS, THRESHOLD: ADAPTERS}, **ADAPTERS_LIBRARY),
    "features": CardKind(seal=SEAL_FEATURES, **FEATURES, **OURS),
    "text_pooled": CardKind(
        {FIXED: IMPORTED + TEXT, THRESHOLD: IMPORTED + TEXT, "thresholds": IMPORTED + TEXT_BY_LABEL},
        plainly="",
        is_ours=True,
    ),
    "peft_pooled": CardKind(**PEFT_LIBRARY, **OURS),
    "adapters_pooled": CardKind(**ADAPTERS_LIBRARY, **OURS),
    "image_labels": CardKind(
        {FIXED: IMAGE_LABELS, THRESHOLD: IMAGE_LABELS, "thresholds": IMAGE_LABELS_BY_LABEL}, **IMAGE_SETS
    ),
    "image_labels_cnn": CardKind(
        {
            FIXED: IMPORTED_CNN + IMAGE_LABELS,
            THRESHOLD: IMPORTED_CNN + IMAGE_LABELS,
            "thresholds": IMPORTED_CNN + IMAGE_LABELS_BY_LABEL,
        },
        plainly="",
        is_ours=True,
        **IMAGE_SETS,
    ),
    "image_labels_peft": CardKind(
        {FIXED: IMAGE_LABELS_PEFT, THRESHOLD: IMAGE_LABELS_PEFT}, **PEFT_LIBRARY, **IMAGE_SETS
    ),
    "tokens": CardKind({INDEPENDENT: TOKENS}, **TAGS),
    "tokens_peft": CardKind({INDEPENDENT: TOKENS_PEFT}, **PEFT_LIBRARY, **TAGS),
    "tokens_adapters": CardKind({INDEPENDENT: TOKENS_ADAPTERS}, **ADAPTERS_LIBRARY, **TAGS),
    "words": CardKind(**TAGS | OURS),
    "trees_tokens": CardKind(**TREES),
    "trees_tokens_peft": CardKind(**TREES | PEFT_LIBRARY),
    "trees_tokens_adapters": CardKind(**TREES | ADAPTERS_LIBRARY),
    "trees_words": CardKind(**TREES | OURS),
    "images": CardKind({FIXED: IMAGES}, **MASKS),
    "images_fcn": CardKind({FIXED: IMAGES_FCN}, is_ours=True, **MASKS),
    "class_images": CardKind({FIXED: IMAGES}, **CLASS_MASKS),
    "class_images_fcn": CardKind({FIXED: IMAGES_FCN}, is_ours=True, **CLASS_MASKS),
}
