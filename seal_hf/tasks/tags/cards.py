"""Model cards of tags: code that loads the net, decoders in words, and a card for each way to save it."""

from __future__ import annotations

from typing import Any

from ...nets.recurrent import BiLSTMConfig
from ...reports.card_kinds import ADAPTERS_LIBRARY, OURS, PEFT_LIBRARY, CardKind
from .decisions import (
    CONSTRAINED,
    CONSTRAINED_VITERBI,
    INDEPENDENT,
    UNIQUE_ROLES,
    VITERBI,
    TagDecisions,
)
from .report import FIGURES

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
DECIDES = {
    INDEPENDENT: "Each word gets its own likeliest tag.",
    CONSTRAINED: "A sentence gets its likeliest sequence of tags within the tags' scheme.",
    VITERBI: "A sentence gets the CRF's best sequence of tags.",
    CONSTRAINED_VITERBI: "A sentence gets the CRF's best sequence of tags within the tags' scheme.",
    UNIQUE_ROLES: "A predicate gets the best sequence of tags within the tags' scheme that repeats no core role.",
}

EXAMPLES = (
    "Ada Lovelace worked with Charles Babbage in London .",
    "The band of Maria Santos plays at the Harbour Festival in Porto on Friday .",
)

TAGS: dict[str, Any] = {
    "seal": SEAL_WORDS,
    "plainly": "Without `seal_hf`, each token gets its own likeliest tag.",
    "pipeline_tag": "token-classification",
    "task": "token classification",
    "figures": FIGURES,
    "decided": lambda decoder: [f"f1_{decoder}", f"accuracy_{decoder}"],
    "widget": EXAMPLES,
    "decisions": TagDecisions,
    "in_words": lambda name, decisions: DECIDES[name],
    "fitted": (),
    "how_chosen": "It was chosen on the validation rows. Only a decoder that is clearly better there replaces the "
    "usual one.",
    "unit": "sentence",
    "files": ("new.txt", "predictions.jsonl"),
}

CARDS = {
    "tokens": CardKind({INDEPENDENT: TOKENS}, **TAGS),
    "tokens_peft": CardKind({INDEPENDENT: TOKENS_PEFT}, **TAGS | PEFT_LIBRARY),
    "tokens_adapters": CardKind({INDEPENDENT: TOKENS_ADAPTERS}, **TAGS | ADAPTERS_LIBRARY),
    "words": CardKind(**TAGS | OURS),
}


def card_of(model: Any, library: str | None) -> str:
    """The key in `CARDS` for a task-net, see `Task.card_of`."""
    if library is not None:
        return f"tokens_{library}"
    return "words" if model.config.model_type == BiLSTMConfig.model_type else "tokens"
