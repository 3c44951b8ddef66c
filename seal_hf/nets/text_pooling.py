"""Classifiers of texts whose head reads one vector of an encoder's tokens: their mean, or the first or last one. They
are for encoders whose own classifier in transformers reads something else. A head is one linear layer.

Texts longer than an encoder's limit are read in overlapping windows, whose features are pooled in the forward. A window
is what the tokenizer would make of its part of the text: special tokens, words, special tokens. The features of a
window are those of its tokens as `pooling` says, those of a text the mean over its windows. A mean has the same scale
for one window and for twenty, and gives every window a gradient; a maximum grows with the number of windows and teaches
the encoder one window per feature. No window is short: the last has at least the words that it shares with the one
before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    PreTrainedTokenizerBase,
)
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput

from ..core.tensors import pack
from ..utils.options import check_value
from .encoders import encoder_options, pool, vector, without_pooler
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
        cross-entropy summed over labels. The prefixes of PEFT (`past_key_values`) are not pooled."""
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


# Texts longer than an encoder's limit.

OVERLAP = 0.25  # share of a window's words that the next one reads again


class WindowedConfig(PooledConfig):
    """Configuration of an encoder that reads texts in windows, and of a classifier on it.

    Args:
        encoder_config: configuration of the encoder as a dict with `model_type`.
        window_size: tokens per window, including special ones.
        stride: tokens from the beginning of a window to that of the next; default: three quarters of its words.
        before, after: ids of the special tokens before and after the words of a window.
        pooling: what is read of a window: the `mean` of its tokens, or the `first` or `last` one.
        classifier_dropout: dropout rate in [0, 1) before the classifier.

    Raises:
        ValueError: a window has no room for a word, the stride is below 1 or so long that words are left out, or
            `pooling` is unknown.
    """

    model_type = "seal_windows"

    def __init__(
        self,
        encoder_config: dict[str, Any] | None = None,
        window_size: int = 128,
        stride: int | None = None,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
        pooling: str = MEAN,
        classifier_dropout: float = 0.1,
        **kwargs: Any,
    ):
        room = window_size - len(before) - len(after)
        if room < 1:
            raise ValueError(
                f"`window_size` is {window_size}; with special tokens it must be at least {window_size - room + 1}."
            )
        stride = max(1, round(room * (1 - OVERLAP))) if stride is None else stride
        if not 1 <= stride <= room:
            raise ValueError(f"`stride` is {stride}; it must be from 1 to the number of words in a window, {room}.")
        self.window_size = window_size
        self.stride = stride
        self.before, self.after = list(before), list(after)
        super().__init__(encoder_config, pooling, classifier_dropout, **kwargs)


class WindowedEncoder(PreTrainedModel):
    """Token ids of whole texts -> features (B, H): the mean over their windows."""

    config_class = WindowedConfig
    config: WindowedConfig
    base_model_prefix = "windows"
    supports_gradient_checkpointing = True  # where the encoder does

    def __init__(self, config: WindowedConfig):
        super().__init__(config)
        self.encoder = without_pooler(AutoModel.from_config(config.of_encoder(), trust_remote_code=False))
        self.post_init()

    @classmethod
    def around(cls, encoder: PreTrainedModel, config: WindowedConfig) -> WindowedEncoder:
        """Wrap this encoder itself, with the windows of `config`, which must describe the same encoder."""
        with torch.device("meta"):
            windowed = cls(config)
        windowed.encoder = without_pooler(encoder)
        return windowed

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.get_input_embeddings()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """`input_ids` and `attention_mask` (B, T), as a tokenizer gives them for single texts, padded on either side ->
        last hidden state (B, H), which is also the only entry of `hidden_states`."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        windows, inside, exists = self.windows_of(input_ids, mask)
        flat, flat_inside = windows.flatten(0, 1), inside.flatten(0, 1).to(mask.dtype)  # (B * N, W)
        hidden = self.encoder(input_ids=flat, attention_mask=flat_inside).last_hidden_state
        each = vector(hidden, {"attention_mask": flat_inside}, self.config.pooling, self.config)  # (B * N, H)
        features = pool(each.unflatten(0, exists.shape), exists)  # (B, H)
        return BaseModelOutput(last_hidden_state=features, hidden_states=(features,) if output_hidden_states else None)

    def windows_of(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The windows of each text; all texts have as many as the longest may need.

        Returns:
            token ids (B, N, W); True if a token is read, (B, N, W); True if the text has the window, (B, N).
        """
        config: Any = self.config
        special = len(config.before) + len(config.after)
        _, ids = pack(attention_mask.bool(), input_ids)
        lengths = (attention_mask.sum(1) - special).clamp_min(0)[:, None]  # (B, 1) words
        room, longest = config.window_size - special, max(input_ids.shape[1] - special, 1)
        count = 1 + -(-max(longest - room, 0) // config.stride)
        starts = torch.arange(count, device=ids.device) * config.stride  # (N,)
        steps = torch.arange(min(room, longest) + special, device=ids.device)  # (W,)
        words = (lengths - starts).clamp(0, room)[..., None]  # (B, N, 1)
        windows = ids[:, (starts[:, None] + steps).clamp_max(ids.shape[1] - 1)]  # (B, N, W)
        behind = steps - len(config.before) - words  # (B, N, W): 0 at the first place after the words
        windows = windows.masked_fill(behind >= 0, config.pad_token_id or 0)
        for i, token in enumerate(config.before):
            windows[..., i] = token
        for i, token in enumerate(config.after):
            windows = windows.masked_fill(behind == i, token)
        inside = (behind < len(config.after)) | (steps == 0)  # attention over no tokens would be NaN
        exists = (starts < lengths - room + config.stride) | (starts == 0)
        return windows, inside, exists


class WindowedForSequenceClassification(PooledForSequenceClassification):
    """A classifier of whole texts, read in windows: label sets from the mean of their features."""

    config_class = WindowedConfig
    config: WindowedConfig
    base_model_prefix = "windows"
    takes_adapters = False  # a saved adapter names its base, which would be the encoder without windows

    @classmethod
    def fresh_encoder(cls, config: Any) -> PreTrainedModel:
        return WindowedEncoder(config)

    def take(self, encoder: PreTrainedModel) -> None:
        """Read this encoder in windows."""
        windows = encoder if isinstance(encoder, WindowedEncoder) else WindowedEncoder.around(encoder, self.config)
        super().take(windows)


def read_by(encoder: PreTrainedModel, reading: Mapping[str, Any], **options: Any) -> PooledForSequenceClassification:
    """Make a classifier of texts: this encoder with a new head.

    Args:
        reading: how texts are read. It holds `pooling` and, for windows, `window_size` and others that
            [`WindowedConfig`] lists.
        options: further values of the configuration, such as `num_labels`.

    Raises:
        ValueError: a value is one that the configuration refuses.
    """
    windows = reading.get("window_size") is not None
    kind: Any = WindowedForSequenceClassification if windows else PooledForSequenceClassification
    return kind.around(encoder, kind.config_class(**{**described(encoder), **reading}, **options))


def reads_whole(config: PretrainedConfig) -> bool:
    """True if a net reads texts of any length, in windows."""
    return isinstance(config, WindowedConfig)


def reading_in_words(task_net: PreTrainedModel) -> str:
    """What a classifier of texts reads, for a sentence, such as "the mean of the tokens"."""
    whole = " of each window, and their mean" if reads_whole(task_net.config) else ""
    return IN_WORDS[classifier_reads(task_net)] + whole


def most_tokens(tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> int | None:
    """The limit of tokens that a net reads at once; None if neither its tokenizer nor its configuration states it."""
    if isinstance(config, WindowedConfig):
        return config.window_size
    from ..data.tensors.words import positions

    said = tokenizer.model_max_length if tokenizer.model_max_length < 10**12 else None  # no limit: 10**30
    return min(filter(None, (said, positions(config))), default=None)


def special_ids(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The ids that a tokenizer puts before and after a text."""
    words, whole = (tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True))
    start = next(i for i in range(len(whole)) if whole[i : i + len(words)] == words)
    return whole[:start], whole[start + len(words) :]


AutoConfig.register(WindowedConfig.model_type, WindowedConfig)
AutoModel.register(WindowedConfig, WindowedEncoder)
AutoModelForSequenceClassification.register(WindowedConfig, WindowedForSequenceClassification)
