"""Texts longer than an encoder's limit: read in overlapping windows, whose features are pooled in the forward.

A window is what the tokenizer would make of its part of the text: special tokens, words, special tokens. The features
of a window are those of its tokens as `pooling` says, those of a text the mean over its windows. A mean has the same
scale for one window and for twenty, and gives every window a gradient; a maximum grows with the number of windows and
teaches the encoder one window per feature. No window is short: the last has at least the words that it shares with the
one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.modeling_outputs import BaseModelOutput

from ..core.sequences import pack
from .encoders import pool, vector, without_pooler
from .heads import MEAN
from .text_pooling import IN_WORDS, PooledConfig, PooledForSequenceClassification, classifier_reads, described

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
    """A classifier of texts with a fresh head on this encoder.

    Args:
        reading: `pooling`, and of windows also `window_size` and others, as in [`WindowedConfig`].
        options: further values of the configuration, such as `num_labels`.

    Raises:
        ValueError: as the configurations.
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
