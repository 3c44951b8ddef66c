"""What a card says of one kind of output and of saved model: names for the Hub, figures, a snippet to use it.

In a snippet `$name` is the repository, `$base` the checkpoint the model began from, as Python strings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from .masks import BASELINES as MASK_BASELINES
from .masks import FIGURES as MASK_FIGURES
from .multilabel import FIGURES
from .tags import FIGURES as TAG_FIGURES


class CardKind(NamedTuple):
    """What differs between cards.

    Attributes:
        snippet: Python that loads the model and decides.
        pipeline_tag, library_name: as the Hub knows them.
        task: what the model does, in words.
        figures: key of a figure, without its split -> what a reader calls it.
        baselines: those of them that are of no model: in the card, and not among the model's results on the Hub.
        decides: what is to be said beside a tuned threshold; the snippet of most kinds takes it.
    """

    snippet: str
    pipeline_tag: str = "text-classification"
    library_name: str = "transformers"
    task: str = "multi-label classification"
    figures: Mapping[str, str] = FIGURES
    baselines: Collection[str] = ()
    decides: str = ""


TAGS: dict[str, Any] = {"pipeline_tag": "token-classification", "task": "token classification", "figures": TAG_FIGURES}
MASKS: dict[str, Any] = {
    "pipeline_tag": "image-segmentation",
    "task": "binary image segmentation",
    "figures": MASK_FIGURES,
    "baselines": MASK_BASELINES,
    "decides": """\
The pipeline below does not read it: it gives each pixel its likelier class (argmax), which is a threshold of 0.5.
`SealForSegmentation.from_pretrained(...).predict(pixel_values=...)` of `seal_hf` decides at the tuned threshold.
""",
}

TEXT = """\
from transformers import pipeline

classify = pipeline("text-classification", $name, top_k=None)
scores = classify(["a text to label"])[0]
labels = [score["label"] for score in scores if score["score"] >= $threshold]
"""
PEFT = """\
import torch
from peft import AutoPeftModelForSequenceClassification
from transformers import AutoTokenizer

model = AutoPeftModelForSequenceClassification.from_pretrained($name, num_labels=$num_labels).eval()
inputs = AutoTokenizer.from_pretrained($name)(["a text to label"], return_tensors="pt")
with torch.no_grad():
    probabilities = model(**inputs).logits.sigmoid()
labels = (probabilities >= $threshold).nonzero()[:, 1]  # numbers of the rows of the table below
"""
ADAPTERS = """\
import adapters
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

model = AutoModelForSequenceClassification.from_pretrained($base, num_labels=$num_labels)
adapters.init(model)
model.load_adapter($name, set_active=True, use_safetensors=True)
inputs = AutoTokenizer.from_pretrained($name)(["a text to label"], return_tensors="pt")
with torch.no_grad():
    probabilities = model.eval()(**inputs).logits.sigmoid()
labels = (probabilities >= $threshold).nonzero()[:, 1]  # numbers of the rows of the table below
"""
FEATURES_OF_ROWS = """\
import seal_hf  # registers the MLP with the Auto classes
import torch
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained($name).eval()
features = torch.zeros(1, model.config.input_size)  # your rows, raw: the model normalises them
with torch.no_grad():
    probabilities = model(features=features).logits.sigmoid()
labels = [[model.config.id2label[i] for i, p in enumerate(row) if p >= $threshold] for row in probabilities.tolist()]
"""
TOKENS = """\
from transformers import pipeline

tag = pipeline("token-classification", $name, aggregation_strategy="first")  # a word has the tag of its first token
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
    tags = model(**inputs).logits.argmax(-1)  # of tokens, numbers of the rows of the table below
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
    tags = model.eval()(**inputs).logits.argmax(-1)  # of tokens, numbers of the rows of the table below
"""
WORDS = """\
from datasets import Dataset
from huggingface_hub import snapshot_download
from seal_hf import SealForTokenClassification, Vocabulary, encode_words

folder = snapshot_download($name)
model = SealForTokenClassification.from_pretrained(folder)  # its loss-net, a fresh one, is not read
words = "a sentence to tag".split()
rows = Dataset.from_dict({"words": [words], "tags": [[0] * len(words)]})  # and the feature columns of the data
batch = encode_words(rows, Vocabulary.from_pretrained(folder)).batch([0])
del batch["labels"]
_, tags = model.predict(**batch)
tags = [model.config.id2label[tag] for tag in tags[0].tolist()]
"""
IMAGES = """\
from transformers import pipeline

segment = pipeline("image-segmentation", $name)
masks = {part["label"]: part["mask"] for part in segment("image.png")}  # PIL images: 255 where a pixel has the label
"""

KINDS = {
    "text": CardKind(TEXT),
    "peft": CardKind(PEFT, library_name="peft"),
    "adapters": CardKind(ADAPTERS, library_name="adapter-transformers"),
    "features": CardKind(FEATURES_OF_ROWS, pipeline_tag="tabular-classification"),
    "tokens": CardKind(TOKENS, **TAGS),
    "tokens_peft": CardKind(TOKENS_PEFT, library_name="peft", **TAGS),
    "tokens_adapters": CardKind(TOKENS_ADAPTERS, library_name="adapter-transformers", **TAGS),
    "words": CardKind(WORDS, **TAGS),
    "images": CardKind(IMAGES, **MASKS),
    "images_fcn": CardKind("import seal_hf  # registers the FCN with the Auto classes\n" + IMAGES, **MASKS),
}
