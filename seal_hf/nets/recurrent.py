"""The recurrent task-net for tag sequences: a bidirectional LSTM over words, characters and features (Ma & Hovy 2016;
the feature and inference networks of InfNet+, section 6).

The settings of InfNet+ are configurations: *NER* reads only words, with `train_word_embeddings=False`; *NER+* trains
their embeddings and has `feature_sizes` for `case`, `pos`, `chunk`; *NER++* also has `char_vocab_size`.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, TokenClassifierOutput

from ..core.tensors import take
from ..utils.options import check_value

PADDING = 0  # id in every vocabulary: words, characters, features; 1 is unknown


class BiLSTMConfig(PretrainedConfig):
    """Configuration of the recurrent net.

    Args:
        vocab_size: number of word ids, including padding (0) and unknown (1).
        word_size: width of the word embeddings.
        train_word_embeddings: False keeps them at the pretrained vectors.
        char_vocab_size: number of character ids, including padding and unknown; 0: no character CNN.
        char_size, char_filters, char_kernel: width of the character embeddings, of the CNN's output, and of its window
            (odd). Ma & Hovy: 30, 30, 3.
        feature_sizes: number of ids and width of each categorical feature. With `{"pos": [47, 25]}` the net takes
            `pos_ids`. Features are concatenated in the order of their names.
        predicate_size: width of the embedding of `token_type_ids`, which mark a predicate by 1; 0: no marker.
        hidden_size: H, the width of every layer's output, half from each direction. InfNet+'s "hidden size 128" is 256
            here.
        num_layers: number of bidirectional layers.
        dropout: dropout rate in [0, 1) of the character embeddings, of the LSTM's inputs, between its layers and
            before the label table.

    Raises:
        ValueError: a size is below 1, `dropout` is out of its range, `hidden_size` is odd, or `char_kernel` is even.
    """

    model_type = "seal_bilstm"

    def __init__(
        self,
        vocab_size: int = 2,
        word_size: int = 100,
        train_word_embeddings: bool = True,
        char_vocab_size: int = 0,
        char_size: int = 30,
        char_filters: int = 30,
        char_kernel: int = 3,
        feature_sizes: dict[str, list[int]] | None = None,
        predicate_size: int = 0,
        hidden_size: int = 200,
        num_layers: int = 1,
        dropout: float = 0.0,
        **kwargs: Any,
    ):
        for name, size in (("hidden_size", hidden_size), ("num_layers", num_layers), ("word_size", word_size)):
            check_value(name, size, least=1)
        check_value("dropout", dropout, least=0, below=1)
        if hidden_size % 2:
            raise ValueError(f"`hidden_size` is {hidden_size}; it must be even: each direction has half of it.")
        if char_kernel % 2 == 0:
            raise ValueError(f"`char_kernel` is {char_kernel}; it must be odd: windows are centred on a character.")
        self.vocab_size = vocab_size
        self.word_size = word_size
        self.train_word_embeddings = train_word_embeddings
        self.char_vocab_size = char_vocab_size
        self.char_size = char_size
        self.char_filters = char_filters
        self.char_kernel = char_kernel
        self.feature_sizes = {name: list(sizes) for name, sizes in sorted((feature_sizes or {}).items())}
        self.predicate_size = predicate_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.dropout = dropout
        super().__init__(**kwargs)

    @property
    def input_size(self) -> int:
        """Width of a token's vector, the first layer's input."""
        features = sum(width for _, width in self.feature_sizes.values())
        return self.word_size + (self.char_filters if self.char_vocab_size else 0) + features + self.predicate_size


class FrozenEmbedding(nn.Embedding):
    """A table that is never trained, even after loading: `from_pretrained` of transformers 5 creates new parameters,
    which would all require a gradient."""

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        if param is not None:
            param.requires_grad_(False)
        super().register_parameter(name, param)


class CharacterCNN(nn.Module):
    """Characters of a word -> one vector: embeddings, convolution, maximum over the characters (Ma & Hovy 2016,
    section 2.1). Windows centred on padding are left out, so a word's padded width does not matter."""

    def __init__(self, config: BiLSTMConfig):
        super().__init__()
        self.embeddings = nn.Embedding(config.char_vocab_size, config.char_size, padding_idx=PADDING)
        self.dropout = nn.Dropout(config.dropout)
        self.convolution = nn.Conv1d(
            config.char_size, config.char_filters, config.char_kernel, padding=config.char_kernel // 2
        )

    def forward(self, char_ids: Tensor) -> Tensor:
        """char_ids (B, T, W), 0 = padding -> (B, T, char_filters); zeros for a word without characters."""
        ids = char_ids.flatten(0, 1)  # (B T, W)
        real = (ids != PADDING).unsqueeze(1)  # (B T, 1, W)
        windows = self.convolution(self.dropout(self.embeddings(ids)).transpose(1, 2))  # (B T, char_filters, W)
        words = windows.masked_fill(~real, torch.finfo(windows.dtype).min).amax(-1)
        return words.masked_fill(~real.any(-1), 0.0).unflatten(0, char_ids.shape[:2])


class BiLSTMLayer(nn.Module):
    """One bidirectional layer over rows of unequal length, padded on the right. Its output equals that of torch's LSTM
    on packed rows.

    Packing needs the lengths on the host, which would wait for the device in every step. Here the second LSTM reads
    each row reversed within its length, so that both begin at a real token and reach padding only at the end."""

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.forward_lstm = nn.LSTM(input_size, hidden_size // 2, batch_first=True)
        self.backward_lstm = nn.LSTM(input_size, hidden_size // 2, batch_first=True)

    def forward(self, hidden: Tensor, mask: Tensor, reversal: Tensor) -> Tensor:
        """hidden (B, T, D), mask (B, T) and reversal (B, T), positions of the reversed rows -> (B, T, H), 0 at
        padding."""
        ahead, _ = self.forward_lstm(hidden)
        back, _ = self.backward_lstm(take(hidden, reversal))
        return torch.cat([ahead, take(back, reversal)], -1).masked_fill(~mask.unsqueeze(-1), 0.0)


class BiLSTMPreTrainedModel(PreTrainedModel):
    """Common part of the recurrent models: initialisation (Ma & Hovy 2016, section 3.2) and the word table."""

    config_class = BiLSTMConfig
    base_model_prefix = "encoder"
    main_input_name = "input_ids"

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Embeddings: uniform in +-sqrt(3 / width). Matrices: Xavier uniform. Biases: 0, but 1 for forget gates."""
        if isinstance(module, nn.Embedding):
            bound = (3 / module.embedding_dim) ** 0.5
            nn.init.uniform_(module.weight, -bound, bound)
            if module.padding_idx is not None:
                module.weight[module.padding_idx].zero_()
        elif isinstance(module, nn.LSTM):
            for name, parameter in module.named_parameters():
                if name.startswith("weight"):
                    nn.init.xavier_uniform_(parameter)
                elif not getattr(parameter, "_is_hf_initialized", False):  # already loaded from a file
                    nn.init.zeros_(parameter)
                    if name.startswith("bias_ih"):
                        parameter[module.hidden_size : 2 * module.hidden_size].fill_(1.0)
        elif isinstance(module, nn.Linear | nn.Conv1d):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    @property
    def input_names(self) -> list[str]:
        """Columns of a batch that the net reads, so that the Trainer does not remove them as unused."""
        config = self.config
        names = ["input_ids", "attention_mask", *(f"{name}_ids" for name in config.feature_sizes)]
        names += ["char_ids"] if config.char_vocab_size else []
        return names + (["token_type_ids"] if config.predicate_size else [])

    def get_input_embeddings(self) -> nn.Embedding:
        """The word table (vocab_size, word_size)."""
        return cast(BiLSTMEncoder, self.base_model).word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.base_model.word_embeddings = value

    @torch.no_grad()
    def set_word_vectors(self, vectors: np.ndarray | Tensor) -> None:
        """Start from pretrained vectors (vocab_size, word_size), see [`Vocabulary.word_matrix`].

        Raises:
            ValueError: the vectors have another shape.
        """
        vectors, table = torch.as_tensor(vectors), self.get_input_embeddings().weight
        if vectors.shape != table.shape:
            raise ValueError(
                f"The word vectors have shape {tuple(vectors.shape)}, but the word table has {tuple(table.shape)}. "
                "Set `vocab_size` and `word_size` of the configuration to those of the vectors."
            )
        table.copy_(vectors)
        table[PADDING].zero_()


class BiLSTMEncoder(BiLSTMPreTrainedModel):
    """Word, character, feature and predicate vectors of each token, concatenated -> `num_layers` bidirectional LSTMs.

    The LSTM of cuDNN and that of oneDNN lack second derivatives: to differentiate a gradient of this net, run its
    forward in `utils.modules.second_order`."""

    def __init__(self, config: BiLSTMConfig):
        super().__init__(config)
        table = nn.Embedding if config.train_word_embeddings else FrozenEmbedding
        self.word_embeddings = table(config.vocab_size, config.word_size, padding_idx=PADDING)
        self.characters = CharacterCNN(config) if config.char_vocab_size else None
        self.features = nn.ModuleDict(
            {
                name: nn.Embedding(number, width, padding_idx=PADDING)
                for name, (number, width) in sorted(config.feature_sizes.items())
            }
        )
        self.predicate = nn.Embedding(2, config.predicate_size) if config.predicate_size else None
        widths = [config.input_size] + [config.hidden_size] * config.num_layers
        self.layers = nn.ModuleList(BiLSTMLayer(a, b) for a, b in zip(widths[:-1], widths[1:], strict=True))
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()

    def embed(self, input_ids: Tensor, **inputs: Tensor) -> Tensor:
        """Vectors of the tokens: (B, T, input_size).

        Raises:
            ValueError: an input of the configuration is missing.
        """
        parts = [self.word_embeddings(input_ids)]
        if self.characters is not None:
            parts.append(self.characters(self._given("char_ids", inputs)))
        parts += [table(self._given(f"{name}_ids", inputs)) for name, table in self.features.items()]
        if self.predicate is not None:
            parts.append(self.predicate(self._given("token_type_ids", inputs)))
        return torch.cat(parts, -1)

    def _given(self, name: str, inputs: dict[str, Tensor]) -> Tensor:
        if inputs.get(name) is None:
            raise ValueError(
                f"The net's configuration has `{name}`, but the batch lacks it (found `input_ids` and "
                f"{', '.join(sorted(inputs)) or 'nothing else'}). Encode the data with the vocabulary and the columns "
                "that the net was built for."
            )
        return inputs[name]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **inputs: Tensor,
    ) -> BaseModelOutput:
        """input_ids (B, T) -> last hidden state (B, T, H), 0 at padding.

        Args:
            attention_mask: (B, T), 1 = real; padding is on the right. Default: all 1.
            inputs: `char_ids` (B, T, W), `<feature>_ids` (B, T), `token_type_ids` (B, T) 0/1, as configured.
        """
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        steps = torch.arange(input_ids.shape[1], device=input_ids.device)  # (T,)
        lengths = real.long().sum(1, keepdim=True)  # (B, 1)
        mask = steps < lengths
        reversal = torch.where(mask, lengths - 1 - steps, steps)  # its own inverse
        hidden = self.embed(input_ids, **inputs)
        states = [hidden]
        for layer in self.layers:
            hidden = layer(self.dropout(hidden), mask, reversal)
            states.append(hidden)
        return BaseModelOutput(last_hidden_state=hidden, hidden_states=tuple(states) if output_hidden_states else None)


class BiLSTMForTokenClassification(BiLSTMPreTrainedModel):
    """The recurrent task-net: a tag for each token."""

    reads_words = True  # every position of its attention mask is a word and has a tag

    def __init__(self, config: BiLSTMConfig):
        super().__init__(config)
        self.encoder = BiLSTMEncoder(config)
        self.dropout = nn.Dropout(config.dropout)
        assert config.num_labels is not None
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **inputs: Tensor,
    ) -> TokenClassifierOutput:
        """input_ids (B, T) -> logits (B, T, C). With `labels` (B, T), -100 where a position does not count, also the
        loss: cross-entropy summed over tokens, mean over the batch. [`BiLSTMEncoder`] describes the other inputs."""
        outputs = self.encoder(input_ids, attention_mask, output_hidden_states, **inputs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="sum")
            loss = loss / len(labels)
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


AutoConfig.register(BiLSTMConfig.model_type, BiLSTMConfig)
AutoModel.register(BiLSTMConfig, BiLSTMEncoder)
AutoModelForTokenClassification.register(BiLSTMConfig, BiLSTMForTokenClassification)
