"""Classifiers of texts whose head reads one vector of an encoder's tokens: their mean, or the first or last one.

They are for encoders whose own classifier in transformers reads something else. A head is one linear layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from ..utils.options import check_value
from .encoders import encoder_options, vector, without_pooler
from .heads import FIRST, LAST, MEAN, POOLINGS, label_loss, read_tokens

PooledNet = TypeVar("PooledNet", bound="PooledForSequenceClassification")

IN_WORDS = {
    FIRST: "the first token",
    LAST: "the last token",
    MEAN: "the mean of the tokens",
    None: "what transformers' own classifier reads",
}
OF_QUANTISED = ("is_quantized", "is_loaded_in_4bit", "is_loaded_in_8bit", "quantization_method", "hf_quantizer")


class PooledConfig(PretrainedConfig):
    """Configuration of a classifier whose head reads one vector of an encoder's tokens.

    Args:
        encoder_config: configuration of the encoder as a dict with `model_type`.
        pooling: what the head reads: the `mean` of the tokens, or the `first` or `last` one.
        classifier_dropout: dropout rate in [0, 1) before the classifier.

    Raises:
        ValueError: an unknown `pooling`.
    """

    model_type = "seal_pooled"

    def __init__(
        self,
        encoder_config: dict[str, Any] | None = None,
        pooling: str = MEAN,
        classifier_dropout: float = 0.1,
        **kwargs: Any,
    ):
        check_value("pooling", pooling, POOLINGS)
        self.encoder_config = encoder_config or {"model_type": "bert"}
        self.pooling = pooling
        self.classifier_dropout = classifier_dropout
        kwargs.setdefault("pad_token_id", self.encoder_config.get("pad_token_id"))
        super().__init__(**kwargs)

    @property
    def hidden_size(self) -> int:
        """Width of the features, the same as the encoder's."""
        return self.of_encoder().hidden_size

    @property
    def vocab_size(self) -> int:
        """Number of tokens that the encoder knows."""
        return self.of_encoder().vocab_size

    def of_encoder(self) -> PretrainedConfig:
        """The configuration of the encoder."""
        options = dict(self.encoder_config)
        return AutoConfig.for_model(options.pop("model_type"), **options)

    def reading(self) -> dict[str, Any]:
        """How the head reads an encoder, as plain values, from which [`read_by`] builds it again."""
        return {"pooling": self.pooling, "classifier_dropout": self.classifier_dropout}


class PooledForSequenceClassification(PreTrainedModel):
    """A classifier of texts: label sets from one vector of the encoder's tokens."""

    config_class: Any = PooledConfig
    config: PooledConfig
    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True  # where the encoder does

    def __init__(self, config: PooledConfig):
        super().__init__(config)
        self.take(self.fresh_encoder(config))
        self.dropout = nn.Dropout(config.classifier_dropout)
        assert config.num_labels is not None
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @classmethod
    def fresh_encoder(cls, config: Any) -> PreTrainedModel:
        """An encoder with random weights."""
        return AutoModel.from_config(config.of_encoder(), trust_remote_code=False)

    @classmethod
    def around(cls: type[PooledNet], encoder: PreTrainedModel, config: Any) -> PooledNet:
        """A fresh head on this encoder itself, which `config` must describe."""
        with torch.device("meta"):
            net = cls(config)
        net.take(encoder)
        net.classifier.to_empty(device=encoder.device).to(encoder.dtype)
        net._init_weights(net.classifier)
        if getattr(encoder, "is_quantized", False):
            config.quantization_config = encoder.config.quantization_config
            for name in OF_QUANTISED:
                if hasattr(encoder, name):
                    setattr(net, name, getattr(encoder, name))
        return net.eval()

    def take(self, encoder: PreTrainedModel) -> None:
        """Read this encoder, without its pooler."""
        setattr(self, self.base_model_prefix, without_pooler(encoder))
        self.reads = frozenset(signature(encoder.forward).parameters)

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise the classifier; the encoder is already initialised."""
        if module is getattr(self, "classifier", None):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    def get_input_embeddings(self) -> nn.Module:
        encoder: Any = self.base_model
        return encoder.get_input_embeddings()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_key_values: Any = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """The encoder's inputs (B, T), padded on either side -> logits (B, L). With `labels` (B, L), also the loss:
        cross-entropy summed over labels. Prefixes of PEFT (`past_key_values`) are no tokens that are pooled."""
        given: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        given |= {"token_type_ids": token_type_ids, "inputs_embeds": inputs_embeds, "use_cache": False}
        inputs = {name: value for name, value in given.items() if value is not None and name in self.reads}
        inputs |= {} if past_key_values is None else {"past_key_values": past_key_values}
        encoder: Any = self.base_model
        outputs = encoder(**inputs, output_hidden_states=output_hidden_states)
        hidden = outputs.last_hidden_state
        mask = {} if attention_mask is None else {"attention_mask": attention_mask[:, -hidden.shape[1] :]}
        features = vector(hidden, mask, self.config.pooling, self.config)
        logits = self.classifier(self.dropout(features))
        loss = label_loss(logits, labels) if labels is not None else None
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


def can_be_pooled(config: Mapping[str, Any]) -> bool:
    """True for the saved configuration of an encoder, or decoder, of transformers itself. Code of its own could not be
    loaded again, and an encoder-decoder does not run on the input alone."""
    kind: Any = config.get("model_type")
    if kind not in CONFIG_MAPPING:
        return False
    return not config.get("is_encoder_decoder", AutoConfig.for_model(kind).is_encoder_decoder)


def classifier_reads(task_net: PreTrainedModel) -> str | None:
    """What a classifier of texts reads of its encoder's tokens, one of `POOLINGS`; None: something else. A mean may be
    weighted. Of one that reads windows: what it reads of each."""
    config = task_net.config
    return config.pooling if isinstance(config, PooledConfig) else read_tokens(task_net, through_pooler=True)


def described(encoder: PreTrainedModel) -> dict[str, Any]:
    """The part of a [`PooledConfig`] that an encoder determines."""
    dropout = getattr(encoder.config, "hidden_dropout_prob", None)
    return {
        "encoder_config": encoder_options(encoder.config) | {"model_type": encoder.config.model_type},
        "classifier_dropout": PooledConfig().classifier_dropout if dropout is None else dropout,
    }


AutoConfig.register(PooledConfig.model_type, PooledConfig)
AutoModelForSequenceClassification.register(PooledConfig, PooledForSequenceClassification)
