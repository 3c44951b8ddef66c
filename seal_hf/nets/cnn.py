"""The small convolutional task-net for images with label sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForImageClassification, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, ImageClassifierOutput
from transformers.utils import is_vision_available

from ..utils.compat import image_processor_class
from ..utils.options import check_value
from .heads import label_loss

if TYPE_CHECKING:  # not with the package, which does without pillow
    from transformers.image_processing_utils import BaseImageProcessor

GROUPS = 4  # of channels that are normalised together


class CNNConfig(PretrainedConfig):
    """Configuration of the convolutional net.

    Args:
        num_channels: number of the image's channels.
        hidden_sizes: channels of the convolutions.
        grid: rows and columns into which the last feature map is averaged. With more of them, more of the positions is
            kept.
        hidden_size: H, width of the features.
        dropout: dropout rate in [0, 1) before the classifier.

    Raises:
        ValueError: a size is below 1, or the dropout rate is outside [0, 1).
    """

    model_type = "seal_cnn"

    def __init__(
        self,
        num_channels: int = 3,
        hidden_sizes: Sequence[int] = (16, 32, 64),
        grid: int = 4,
        hidden_size: int = 128,
        dropout: float = 0.0,
        **kwargs: Any,
    ):
        for name, size in (("grid", grid), ("hidden_size", hidden_size), ("hidden_sizes", min(hidden_sizes))):
            check_value(name, size, least=1)
        check_value("dropout", dropout, least=0, below=1)
        self.num_channels = num_channels
        self.hidden_sizes = list(hidden_sizes)
        self.grid = grid
        self.hidden_size = hidden_size
        self.dropout = dropout
        super().__init__(**kwargs)


class CNNPreTrainedModel(PreTrainedModel):
    """Common part of the two models: PyTorch's default initialisation."""

    config_class = CNNConfig
    base_model_prefix = "encoder"
    main_input_name = "pixel_values"

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Conv2d, nn.GroupNorm, nn.Linear)):
            module.reset_parameters()

    def get_input_embeddings(self) -> None:  # type: ignore[override]  # of a net of tokens alone it is a module
        """None: pixels are not tokens. FSDP2 asks for the table to shard it separately."""


class CNNEncoder(CNNPreTrainedModel):
    """3 x 3 convolutions, each with group normalisation and ReLU; between two of them, the maximum of 2 x 2 pixels.
    Then means over a grid, and a linear layer with ReLU and dropout. Images may have any size."""

    def __init__(self, config: CNNConfig):
        super().__init__(config)
        sizes = [config.num_channels, *config.hidden_sizes]
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(sizes))
        self.norms = nn.ModuleList(nn.GroupNorm(math.gcd(size, GROUPS), size) for size in sizes[1:])
        self.means = nn.AdaptiveAvgPool2d(config.grid)
        self.dense = nn.Linear(sizes[-1] * config.grid**2, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()

    def forward(self, pixel_values: Tensor, output_hidden_states: bool | None = None, **kwargs: Any) -> BaseModelOutput:
        """pixel_values (B, C, h, w) -> last hidden state (B, H), which is also the only entry of `hidden_states`."""
        hidden = pixel_values.to(self.dtype, memory_format=torch.channels_last)  # faster convolutions
        for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            if i > 0:
                hidden = nn.functional.max_pool2d(hidden, 2, ceil_mode=True)
            hidden = nn.functional.relu(norm(convolution(hidden)))
        features = self.dropout(nn.functional.relu(self.dense(self.means(hidden).flatten(1))))
        return BaseModelOutput(last_hidden_state=features, hidden_states=(features,) if output_hidden_states else None)


class CNNForImageClassification(CNNPreTrainedModel):
    """The encoder and a linear layer."""

    def __init__(self, config: CNNConfig):
        super().__init__(config)
        self.encoder = CNNEncoder(config)
        assert config.num_labels is not None
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        pixel_values: Tensor,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> ImageClassifierOutput:
        """pixel_values (B, C, h, w) -> logits (B, L). With `labels` (B, L), also the loss: cross-entropy summed over
        labels."""
        outputs = self.encoder(pixel_values, output_hidden_states=output_hidden_states)
        logits = self.classifier(outputs.last_hidden_state)
        loss = label_loss(logits, labels) if labels is not None else None
        return ImageClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


def cnn_image_processor(size: tuple[int, int]) -> BaseImageProcessor:
    """The image processor to save with the net, so that `pipeline("image-classification", folder)` runs. It resizes to
    `size`, height and width in pixels, and scales pixels to [0, 1].

    Raises:
        ValueError: pillow, which reads the images, is not installed.
    """
    if not is_vision_available():
        raise ValueError("The image processor that is saved with the nets needs pillow: pip install 'seal_hf[vision]'.")
    height, width = size
    return image_processor_class("ViT")(size={"height": height, "width": width}, do_normalize=False)


AutoConfig.register(CNNConfig.model_type, CNNConfig)
AutoModel.register(CNNConfig, CNNEncoder)
AutoModelForImageClassification.register(CNNConfig, CNNForImageClassification)
