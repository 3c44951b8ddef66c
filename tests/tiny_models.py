"""The smallest nets and data that the tests of models and text train: built from configurations, seeded, offline."""

from __future__ import annotations

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import (
    AlbertConfig,
    BartConfig,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    GemmaConfig,
    LlamaConfig,
    ModernBertConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
    RobertaConfig,
)

from seal_hf import MLPConfig, SealTrainingArguments

LABELS = ["joy", "anger", "fear", "calm"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = "good bad dull bright film book song plot".split()
LABELLED = {"problem_type": "multi_label_classification", "id2label": dict(enumerate(LABELS))} | {
    "label2id": {name: i for i, name in enumerate(LABELS)}
}
DECODERS = {"qwen2": Qwen2Config, "qwen3": Qwen3Config, "llama": LlamaConfig, "gemma": GemmaConfig}
BART_SIDE = {"layers": 1, "attention_heads": 2, "ffn_dim": 16}


def tiny_config(kind: str, **changes) -> PretrainedConfig:
    """Configuration of a task-net of one of several Hugging Face families, or of the MLP; 16 wide."""
    common = {
        "vocab_size": len(SPECIAL + WORDS),
        "max_position_embeddings": 32,
        "pad_token_id": 0,
        **LABELLED,
        **changes,
    }
    usual = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, **common}
    if kind == "mlp":
        return MLPConfig(input_size=6, hidden_size=16, dropout=0.1, **LABELLED, **changes)
    if kind == "bert":
        return BertConfig(**usual)
    if kind in DECODERS:
        return DECODERS[kind](**{"num_key_value_heads": 1, "head_dim": 8, **usual})
    if kind == "deberta":
        relative = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8}
        return DebertaV2Config(**relative, pooler_hidden_size=usual["hidden_size"], **usual)
    if kind == "roberta":
        return RobertaConfig(**usual)
    if kind == "albert":
        return AlbertConfig(embedding_size=8, **usual)
    if kind == "electra":
        return ElectraConfig(embedding_size=8, **usual)
    if kind == "modernbert":
        special = {"bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
        return ModernBertConfig(**special, reference_compile=False, **usual)
    if kind == "bart":
        layers = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in BART_SIDE.items()}
        special = {"bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
        return BartConfig(d_model=16, **layers, **special, **common)
    if kind == "distilbert":
        return DistilBertConfig(dim=16, hidden_dim=32, n_layers=2, n_heads=2, **common)
    raise KeyError(kind)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """One id per word of WORDS."""
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(SPECIAL + WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", SPECIAL.index("[CLS]")), ("[SEP]", SPECIAL.index("[SEP]"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def tiny_texts(num_rows: int, seed: int = 0) -> Dataset:
    """Texts of 1 to 8 words; label i says whether word i or i + 4 is in the text."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for i in range(num_rows):
        ids = torch.randint(len(WORDS), (1 + (3 * i + seed) % 8,), generator=generator).tolist()
        labels = [float(any(word % len(LABELS) == label for word in ids)) for label in range(len(LABELS))]
        rows.append({"text": " ".join(WORDS[word] for word in ids), "labels": labels})
    return Dataset.from_list(rows)


def tiny_features(num_rows: int, seed: int = 0) -> Dataset:
    """Six features and four labels that are linear in them."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_rows, 6, generator=generator)
    labels = (x @ torch.randn(6, len(LABELS), generator=generator) > 0).float()
    return Dataset.from_dict({"features": x.numpy(), "labels": labels.numpy()})


def tiny_inputs(kind: str, num_rows: int = 5) -> dict[str, torch.Tensor]:
    """Inputs of a task-net of that kind, without labels; texts are padded."""
    if kind == "mlp":
        return {"features": torch.randn(num_rows, 6, generator=torch.Generator().manual_seed(1))}
    encoded = tiny_tokenizer()(tiny_texts(num_rows, seed=1)["text"][:], padding=True, return_tensors="pt")
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def tiny_arguments(output_dir, **changes) -> SealTrainingArguments:
    """Arguments of a short, silent run on the CPU."""
    defaults = {"max_steps": 4, "per_device_train_batch_size": 4, "learning_rate": 1e-3, "num_samples": 4}
    defaults["energy_weight"] = 1.0
    quiet = {"use_cpu": True, "report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_steps": 2}
    return SealTrainingArguments(output_dir=str(output_dir), **{**defaults, **quiet, **changes})
