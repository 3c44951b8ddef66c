"""Feature networks T_F and T_E: the MLP for feature data, any Hugging Face encoder for text, and pooling of
features."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
from transformers.utils import ModelOutput

from ..utils.options import check_value
from .heads import FIRST, MEAN, label_loss

ENCODER_MODES = ("separate", "shared")  # a loss-net may also have an adapter: `adapters.LIBRARIES`


class MLPConfig(PretrainedConfig):
    """Configuration of the small MLP for feature data.

    Args:
        input_size: number of input features.
        hidden_size: H, the width of every layer.
        num_layers: number of layers, each linear -> softplus -> dropout; 0: none, so that the label table reads the
            normalised features, and `hidden_size` is `input_size`.
        dropout: dropout rate in [0, 1) after every layer except the last.
        label_bias: True if the task-net's label table has a bias. The authors' table lacks one; with thousands of
            labels a bias must start at the labels' rates, or else samples hold half of all labels.
        linear_skip: True if the task-net's logits have a linear term too, see [`MLPForMultiLabel.average_with`].

    Raises:
        ValueError: a size is below 1, or the dropout rate is outside [0, 1).
    """

    model_type = "seal_mlp"

    def __init__(
        self,
        input_size: int = 1,
        hidden_size: int = 400,
        num_layers: int = 2,
        dropout: float = 0.0,
        label_bias: bool = False,
        linear_skip: bool = False,
        **kwargs: Any,
    ):
        sizes = {"input_size": (input_size, 1), "hidden_size": (hidden_size, 1), "num_layers": (num_layers, 0)}
        for name, (size, least) in sizes.items():
            check_value(name, size, least=least)
        check_value("dropout", dropout, least=0, below=1)
        self.input_size = input_size
        self.hidden_size = hidden_size if num_layers else input_size
        self.num_layers = num_layers
        self.dropout = dropout
        self.label_bias = label_bias
        self.linear_skip = linear_skip
        super().__init__(**kwargs)


class MLPPreTrainedModel(PreTrainedModel):
    """Common part of the MLP models: the initialisation the authors use (Kaiming uniform, zero bias)."""

    config_class = MLPConfig
    base_model_prefix = "encoder"
    main_input_name = "features"

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            if getattr(module, "is_label_table", False):
                nn.init.xavier_uniform_(module.weight)
            elif getattr(module, "is_linear_skip", False):
                nn.init.zeros_(module.weight)
            else:
                nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, MLPEncoder):
            nn.init.zeros_(module.shift)
            nn.init.ones_(module.scale)

    def get_input_embeddings(self) -> None:  # type: ignore[override]  # only nets of tokens have a module
        """None: features are not tokens. FSDP2 asks for the table to shard it separately."""


class MLPEncoder(MLPPreTrainedModel):
    """`num_layers` x (linear -> softplus -> dropout), without dropout after the last layer (SEAL appendix C; the
    authors' FeedForward). It takes raw features; their normalisation, (x - shift) * scale, is saved with the
    weights."""

    shift: Tensor
    scale: Tensor

    def __init__(self, config: MLPConfig):
        super().__init__(config)
        sizes = [config.input_size] + [config.hidden_size] * config.num_layers
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:], strict=True))
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("shift", torch.zeros(config.input_size))
        self.register_buffer("scale", torch.ones(config.input_size))
        self.post_init()

    def set_scaling(self, scaling: Any) -> None:
        """Use a data set's normalisation: `shift` and `scale`, both (input_size,)."""
        for name in ("shift", "scale"):
            getattr(self, name).copy_(torch.as_tensor(getattr(scaling, name)))

    def normalised(self, features: Tensor) -> Tensor:
        """What the first layer reads of raw features, (B, input_size).

        Raises:
            ValueError: the features have another shape.
        """
        features = torch.as_tensor(features, device=self.shift.device)
        if features.dim() != 2 or features.shape[1] != len(self.shift):
            raise ValueError(
                f"`features` has shape {tuple(features.shape)}; this net reads (batch, {len(self.shift)}): the raw "
                "features that it was trained on."
            )
        x = (features.float() - self.shift) * self.scale
        return x.to(next(self.layers.parameters(), x).dtype)

    def forward(self, features: Tensor, output_hidden_states: bool | None = None, **kwargs: Any) -> BaseModelOutput:
        """features (B, input_size) -> last hidden state (B, H). Errors are those of `normalised`."""
        hidden = self.normalised(features)
        states = [] if self.layers else [hidden]
        for i, layer in enumerate(self.layers):
            hidden = nn.functional.softplus(layer(hidden))
            if i < len(self.layers) - 1:
                hidden = self.dropout(hidden)
            states.append(hidden)
        return BaseModelOutput(last_hidden_state=hidden, hidden_states=tuple(states) if output_hidden_states else None)


class MLPForMultiLabel(MLPPreTrainedModel):
    """The MLP task-net F(x) = G T_F(x): an MLP and a label table, with a bias only if `config.label_bias` (SEAL §4; the
    authors' feedforward task-net). With `config.linear_skip` it has a linear term: F(x) = G T_F(x) + W x + b, where x
    is normalised."""

    def __init__(self, config: MLPConfig):
        super().__init__(config)
        self.encoder = MLPEncoder(config)
        assert config.num_labels is not None
        self.classifier = nn.Linear(config.hidden_size, config.num_labels, bias=config.label_bias)
        self.classifier.is_label_table = True  # type: ignore[assignment]  # a mark, not a tensor
        self.skip = self._new_skip() if config.linear_skip else None
        self.post_init()

    def _new_skip(self) -> nn.Linear:
        skip = nn.Linear(self.config.input_size, self.classifier.out_features)
        skip.is_linear_skip = True  # type: ignore[assignment]  # a mark, not a tensor
        return skip

    @torch.no_grad()
    def average_with(self, weight: Tensor, bias: Tensor) -> None:
        """Replace the logits of every input by the mean of these and of `weight @ features + bias`.

        Args:
            weight, bias: (L, input_size) and (L,), of a linear model of raw features.
        """
        if self.skip is None:
            self.skip, self.config.linear_skip = self._new_skip().to(self.classifier.weight), True
            self._init_weights(self.skip)
        shift, scale = self.encoder.shift.to(weight), self.encoder.scale.to(weight)
        of_normalised = torch.where(scale != 0, weight / scale, 0.0)  # a constant feature has scale 0 and no weight
        self.skip.weight.add_(of_normalised.to(self.skip.weight))
        self.skip.bias.add_((bias + weight @ shift).to(self.skip.bias))
        for parameter in (*self.classifier.parameters(), *self.skip.parameters()):
            parameter.div_(2)

    def forward(
        self, features: Tensor, labels: Tensor | None = None, output_hidden_states: bool | None = None, **kwargs: Any
    ) -> SequenceClassifierOutput:
        """features (B, input_size) -> logits (B, L). With `labels` (B, L), also the loss: cross-entropy summed over
        labels."""
        outputs = self.encoder(features, output_hidden_states=output_hidden_states)
        logits = self.classifier(outputs.last_hidden_state)
        if self.skip is not None:
            logits = logits + self.skip(self.encoder.normalised(features))
        loss = label_loss(logits, labels) if labels is not None else None
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


def pool(hidden: Tensor, attention_mask: Tensor | None = None, pooled: Tensor | None = None) -> Tensor:
    """One vector per input: (B, H) stays; (B, T, H) -> masked mean over the T tokens, (B, H); feature maps
    (B, H, h, w) -> the encoder's own `pooled` output, or else the mean over the image, (B, H)."""
    if hidden.dim() == 2:
        return hidden
    if hidden.dim() == 4:
        found = hidden if pooled is None else pooled
        return found if found.dim() == 2 else found.flatten(2).mean(2)
    if attention_mask is None:
        return hidden.mean(1)
    mask = attention_mask.to(hidden.dtype).unsqueeze(-1)  # (B, T, 1)
    return (hidden * mask).sum(1) / mask.sum(1).clamp_min(1)


def vector(
    hidden: Tensor,
    inputs: Mapping[str, Tensor],
    pooling: str,
    config: PretrainedConfig,
    pooled: Tensor | None = None,
) -> Tensor:
    """Pool hidden states to one vector per input, (B, H).

    Tokens (B, T, H) are pooled by one of `POOLINGS`, and hidden states of any other shape as in [`pool`].

    Args:
        inputs: the inputs of the net that has this `config`. The last token is found by the padding token of the
            config, as transformers' heads find it, or by `attention_mask` if the config has none.
    """
    mask, ids = inputs.get("attention_mask"), inputs.get("input_ids")
    if hidden.dim() != 3 or pooling == MEAN:
        return pool(hidden, mask, pooled)
    if pooling == FIRST:
        return hidden[:, 0]
    padding = getattr(config.get_text_config(), "pad_token_id", None)
    real = mask if ids is None or padding is None else ids != padding
    if real is None:
        return hidden[:, -1]
    places = torch.arange(hidden.shape[1], device=hidden.device)
    return hidden[torch.arange(len(hidden), device=hidden.device), (places * real.to(hidden.device)).argmax(-1)]


def task_features(
    outputs: ModelOutput, inputs: Mapping[str, Tensor], task_net: nn.Module, pooling: str | None = MEAN
) -> Tensor:
    """The task-net's detached features, which a `shared` loss-net reads: float32 (B, H), or unpooled (B, T, H).

    Raises:
        ValueError: the task-net returned no hidden states.
    """
    with torch.no_grad():
        features = last_features(outputs, inputs, task_net, pooling)
        return features.detach().float()  # DeepSpeed keeps a task-net in bf16, without autocast around the loss-net


def last_features(
    outputs: ModelOutput, inputs: Mapping[str, Tensor], task_net: nn.Module, pooling: str | None = MEAN
) -> Tensor:
    """The task-net's last hidden state with its graph: one vector per input, (B, H), by one of `POOLINGS`; if `pooling`
    is None, one per token, (B, T, H).

    Raises:
        ValueError: the task-net returned no hidden states, or has more or fewer positions than its input.
    """
    states, name = getattr(outputs, "hidden_states", None), type(task_net).__name__
    encoded = getattr(outputs, "encoder_last_hidden_state", None)  # of an encoder-decoder, such as T5
    if not states and encoded is not None:
        states = (encoded,)
    if not states:
        raise ValueError(
            f"A shared network (loss_net_encoder or cost_augmented_network) reads the task-net's hidden states, but "
            f"{name} returned none for output_hidden_states=True. Use loss_net_encoder='separate', "
            "cost_augmented_network='stacked'."
        )
    mask, hidden = inputs.get("attention_mask"), states[-1]
    if mask is not None and hidden.dim() == 3 and hidden.shape[1] != mask.shape[1]:
        raise ValueError(
            f"A shared network (loss_net_encoder or cost_augmented_network) reads the task-net's hidden states, but "
            f"those of {name} have {hidden.shape[1]} positions, but its input has {mask.shape[1]}, as with "
            "virtual tokens. Use loss_net_encoder='separate', cost_augmented_network='stacked'."
        )
    net: Any = task_net
    return hidden if pooling is None else vector(hidden, inputs, pooling, net.config)


def inputs_of(net: PreTrainedModel, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The entries of a batch that the net's forward names, without labels, on its device."""
    names = set(signature(net.forward).parameters) - {"labels"}
    return {name: value.to(net.device) for name, value in batch.items() if name in names}


def encoder_options(config: PretrainedConfig) -> dict[str, Any]:
    """The configuration an encoder is rebuilt from: architecture only, no label names."""
    options = config.to_dict()
    drop = "id2label label2id num_labels problem_type architectures transformers_version _name_or_path"
    drop += " dtype torch_dtype constrained_decoding decisions verdict inputs quantization_config"
    return {key: value for key, value in options.items() if key not in drop.split()}


def without_pooler(encoder: PreTrainedModel) -> PreTrainedModel:
    """The encoder without its pooler. Features are means over tokens, so no gradient would reach the pooler's weights,
    but DDP waits for all gradients. Tokens that only pretraining puts in the place of patches are frozen."""
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = nn.Identity()  # not None: some architectures call it unasked
    for name, parameter in encoder.named_parameters():
        if name.endswith("mask_token"):
            parameter.requires_grad_(False)
    return encoder


AutoConfig.register(MLPConfig.model_type, MLPConfig)
AutoModel.register(MLPConfig, MLPEncoder)
AutoModelForSequenceClassification.register(MLPConfig, MLPForMultiLabel)
