"""Texts longer than an encoder's limit: read in overlapping windows, whose features are pooled in the forward.

A window is what the tokenizer would make of its part of the text: special tokens, words, special tokens. The features
of a window are the mean over its tokens, those of a text the mean over its windows. A mean has the same scale for one
window and for twenty, and gives every window a gradient; a maximum grows with the number of windows and teaches the
encoder one window per feature. No window is short: the last has at least the words that it shares with the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
from transformers.utils import find_adapter_config_file

from ..data.tensors.words import load_tokenizer, positions
from ..spaces import MultiLabelSpace
from ..structures.sequences import pack
from ..utils.gate import load_net
from .encoders import encoder_options, pool, without_pooler

OVERLAP = 0.25  # share of a window's words that the next one reads again


class WindowedConfig(PretrainedConfig):
    """Configuration of an encoder that reads texts in windows.

    Args:
        encoder_config: configuration of the encoder as a dict with `model_type`.
        window_size: tokens per window, including special ones.
        stride: tokens from the beginning of a window to that of the next; default: three quarters of its words.
        before, after: ids of the special tokens before and after the words of a window.
        classifier_dropout: dropout rate in [0, 1) before the classifier.

    Raises:
        ValueError: a window has no room for a word, or the stride is below 1 or so long that words are left out.
    """

    model_type = "seal_windows"

    def __init__(
        self,
        encoder_config: dict[str, Any] | None = None,
        window_size: int = 128,
        stride: int | None = None,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
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
        self.encoder_config = encoder_config or {"model_type": "bert"}
        self.window_size = window_size
        self.stride = stride
        self.before, self.after = list(before), list(after)
        self.classifier_dropout = classifier_dropout
        kwargs.setdefault("pad_token_id", self.encoder_config.get("pad_token_id"))
        super().__init__(**kwargs)

    @property
    def hidden_size(self) -> int:
        """Width of the features, the same as the encoder's."""
        return self.of_encoder().hidden_size

    def of_encoder(self) -> PretrainedConfig:
        """The configuration of the encoder."""
        options = dict(self.encoder_config)
        return AutoConfig.for_model(options.pop("model_type"), **options)


class WindowedPreTrainedModel(PreTrainedModel):
    """Common part of the models that read windows."""

    config_class = WindowedConfig
    config: WindowedConfig
    base_model_prefix = "windows"
    supports_gradient_checkpointing = True  # where the encoder does
    takes_adapters = False  # a saved adapter names its base, which would be the encoder without windows

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise the classifier; the encoder is already initialised."""
        if module is getattr(self, "classifier", None):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)


class WindowedEncoder(WindowedPreTrainedModel):
    """Token ids of whole texts -> features (B, H): the mean over their windows."""

    def __init__(self, config: WindowedConfig):
        super().__init__(config)
        self.encoder = without_pooler(AutoModel.from_config(config.of_encoder(), trust_remote_code=False))
        self.post_init()

    @classmethod
    def around(cls, encoder: PreTrainedModel, config: WindowedConfig) -> WindowedEncoder:
        """Wrap this encoder itself, with the windows of `config`, which must describe the same encoder."""
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
        features = pool(pool(hidden, flat_inside).unflatten(0, exists.shape), exists)  # (B, H)
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


class WindowedForSequenceClassification(WindowedPreTrainedModel):
    """A classifier of whole texts, read in windows: label sets from the mean of their features."""

    def __init__(self, config: WindowedConfig):
        super().__init__(config)
        self.windows = WindowedEncoder(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        assert config.num_labels is not None
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.windows.get_input_embeddings()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """The encoder's inputs -> logits (B, L). With `labels` (B, L), also the loss: cross-entropy summed over
        labels."""
        outputs = self.windows(input_ids, attention_mask, output_hidden_states=output_hidden_states)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        loss = MultiLabelSpace().task_loss(logits, labels) if labels is not None else None
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


def load_windowed(
    name: str, window_size: int | None = None, hub: dict[str, Any] | None = None, **kwargs: Any
) -> WindowedForSequenceClassification:
    """A fresh classifier of whole texts over a saved encoder, whose tokenizer is saved beside it.

    Args:
        name: folder or Hub id of an encoder, or of a classifier, whose encoder is used.
        window_size: tokens per window; default and maximum: the encoder's limit.
        hub: options for access to the Hub, such as `revision` and `token`.
        kwargs: for the configuration, such as `num_labels`; `dtype` and others go to the encoder.

    Raises:
        ValueError: there is no tokenizer, `name` is an adapter, or the encoder has no limit and `window_size` is
            missing.
    """
    hub = hub or {}
    if find_adapter_config_file(name, **hub) is not None:
        raise ValueError(f"{name} is an adapter, which cannot read windows. Use a plain encoder, or long_texts='cut'.")
    labels = {key: kwargs.pop(key) for key in ("num_labels", "id2label", "label2id", "problem_type") if key in kwargs}
    encoder = load_net(AutoModel, name, **kwargs)
    code = {key: kwargs[key] for key in ("trust_remote_code", "code_revision") if key in kwargs}
    tokenizer = load_tokenizer(name, **hub, **code)
    if (size := min(filter(None, (window_size, most_tokens(tokenizer, encoder.config))), default=None)) is None:
        raise ValueError(f"`window_size` is missing: {name} does not state its encoder's limit of tokens.")
    before, after = special_ids(tokenizer)
    dropout = getattr(encoder.config, "hidden_dropout_prob", None)
    config = WindowedConfig(
        encoder_options(encoder.config) | {"model_type": encoder.config.model_type},
        size,
        before=before,
        after=after,
        pad_token_id=tokenizer.pad_token_id,
        classifier_dropout=WindowedConfig().classifier_dropout if dropout is None else dropout,
        name_or_path=name,
        **labels,
    )
    model = WindowedForSequenceClassification(config)
    model.windows = WindowedEncoder.around(encoder, config)
    return model


def reads_whole(config: PretrainedConfig) -> bool:
    """True if a net reads texts of any length, in windows."""
    return isinstance(config, WindowedConfig)


def most_tokens(tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> int | None:
    """The limit of tokens that a net reads at once; None if neither its tokenizer nor its configuration states it."""
    if isinstance(config, WindowedConfig):
        return config.window_size
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
