"""The small fully convolutional task-net for masks (Long et al. 2015, with the sizes of Gygli et al. 2017; SEAL,
appendix B.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSemanticSegmentation, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SemanticSegmenterOutput
from transformers.utils import is_vision_available

from ...utils.compat import image_processor_class
from .space import mask_space

if TYPE_CHECKING:  # not with the package, which does without pillow
    from transformers.image_processing_utils import BaseImageProcessor


class FCNConfig(PretrainedConfig):
    """Configuration of the FCN.

    Args:
        num_channels: number of the image's channels.
        hidden_sizes: channels of the three convolutions.
        crop_size: in evaluation mode, predictions are averaged over crops of this size, see [`crop_averaged`]; None:
            the whole image at once. The papers use 24. Training uses the images as given.
        crop_offsets: where these crops begin, or how many there are along a side, see [`crop_offsets`].
    """

    model_type = "seal_fcn"

    def __init__(
        self,
        num_channels: int = 3,
        hidden_sizes: Sequence[int] = (64, 128, 128),
        crop_size: int | None = None,
        crop_offsets: Sequence[int] | int | None = None,
        **kwargs: Any,
    ):
        self.num_channels = num_channels
        self.hidden_sizes = list(hidden_sizes)
        self.crop_size = crop_size
        self.crop_offsets = list(crop_offsets) if isinstance(crop_offsets, Sequence) else crop_offsets
        super().__init__(**kwargs)


class FCNForSemanticSegmentation(PreTrainedModel):
    """Three 5 x 5 convolutions with ReLU and strides 1, 2 and 2; a 1 x 1 convolution from each to class scores; and two
    4 x 4 transposed convolutions without bias, which double the coarse scores before the finer ones are added:

        z_2 = up(score(x_3)) + score(x_2),     logits = up(z_2) + score(x_1)

    Images may have any size; an odd side is rounded up on the way down, and cut on the way up.
    """

    config_class = FCNConfig
    base_model_prefix = "fcn"
    main_input_name = "pixel_values"
    noiseless_training = True  # the average over crops is for predictions only, not for inner losses

    def __init__(self, config: FCNConfig):
        super().__init__(config)
        sizes, classes = [config.num_channels, *config.hidden_sizes], config.num_labels
        assert classes is not None
        self.convolutions = nn.ModuleList(
            nn.Conv2d(sizes[i], sizes[i + 1], 5, stride=1 if i == 0 else 2, padding=2) for i in range(3)
        )
        self.scores = nn.ModuleList(nn.Conv2d(size, classes, 1) for size in sizes[1:])
        self.upsample = nn.ModuleList(
            nn.ConvTranspose2d(classes, classes, 4, stride=2, padding=1, bias=False) for _ in range(2)
        )
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """PyTorch's default initialisation, the authors' choice."""
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            module.reset_parameters()

    def get_input_embeddings(self) -> None:  # type: ignore[override]  # of a net of tokens alone it is a module
        """None: pixels are not tokens. FSDP2 asks for the table to shard it separately."""

    def forward(
        self,
        pixel_values: Tensor,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> SemanticSegmenterOutput:
        """pixel_values (B, 3, H, W) -> logits (B, num_labels, H, W). With `labels` (B, H, W) of class ids and 255, also
        cross-entropy, summed over pixels. `hidden_states`: the three feature maps of the whole image."""
        size, hidden_states = self.config.crop_size, None
        averaged = size is not None and not self.training and max(pixel_values.shape[2:]) > size
        if output_hidden_states or not averaged:
            logits, hidden_states = self._scores(pixel_values)
        if averaged:
            from ...data.tensors.images import crop_averaged

            logits = crop_averaged(lambda crops: self._scores(crops)[0], pixel_values, size, self.config.crop_offsets)
        loss = None
        if labels is not None:
            loss = mask_space(self.config).for_model(self).task_loss(logits, labels)
        return SemanticSegmenterOutput(
            loss=loss, logits=logits, hidden_states=hidden_states if output_hidden_states else None
        )

    def _scores(self, pixel_values: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        hidden, maps = pixel_values.to(self.dtype, memory_format=torch.channels_last), []  # faster convolutions
        for convolution in self.convolutions:
            hidden = F.relu(convolution(hidden))
            maps.append(hidden)
        fine, middle, logits = (score(hidden) for score, hidden in zip(self.scores, maps, strict=True))
        for upsample, finer in zip(self.upsample, (middle, fine), strict=True):
            logits = upsample(logits)[..., : finer.shape[2], : finer.shape[3]] + finer
        return logits, tuple(maps)


def set_test_crops(
    config: PretrainedConfig,
    image_size: tuple[int, int],
    crop_size: int | None = None,
    test_crop_size: int | None = None,
    offsets: Sequence[int] | None = None,
) -> None:
    """Set how a net with this config predicts, from the user's options.

    Args:
        config: an [`FCNConfig`], changed in place; other nets predict on whole images.
        image_size: (H, W) of the images to come.
        crop_size: the crops' size in training.
        test_crop_size: predictions are averaged over crops of this size; 0: the whole image at once; None: `crop_size`,
            or if that is None the config's value.
        offsets: where the crops begin, see [`crop_offsets`]; None: the config's value, if the crops keep their size.

    Raises:
        ValueError: the net does not average over crops, crops or offsets do not fit the images, or offsets are given
            for whole images.
    """
    if not isinstance(config, FCNConfig):
        if test_crop_size or offsets:
            raise ValueError(
                f"`{'test_crop_size' if test_crop_size else 'crop_offsets'}` is set, but only the FCN averages over "
                f"crops: a net of type {config.model_type!r} predicts on whole images. Leave it out."
            )
        return
    if test_crop_size is not None and not 0 <= test_crop_size <= min(image_size):
        raise ValueError(
            f"`test_crop_size` is {test_crop_size}, but the images are {image_size[0]} x {image_size[1]} pixels. Use "
            "smaller crops, or 0 for whole images."
        )
    wanted = crop_size if test_crop_size is None else test_crop_size
    if wanted == 0 and offsets:
        raise ValueError(
            "`crop_offsets` is set, but `test_crop_size` 0 means whole images, without crops. Leave it out, "
            "or give a `test_crop_size`, such as that of the training's crops."
        )
    if wanted is not None and (wanted or None) != config.crop_size:
        config.crop_size, config.crop_offsets = wanted or None, None
    if offsets is not None:
        config.crop_offsets = list(offsets)
    check_crops(config, image_size)


def check_crops(config: FCNConfig, image_size: Sequence[int]) -> None:
    """Raises ValueError if the config's crops do not fit images of (H, W) pixels; () means an unknown size."""
    if config.crop_size is not None:
        from ...data.tensors.images import check_crop_size, crop_offsets

        check_crop_size(config.crop_size)
        for side in image_size:
            crop_offsets(side, config.crop_size, config.crop_offsets)


def fcn_image_processor() -> BaseImageProcessor:
    """The image processor to save with the FCN, so that `pipeline("image-segmentation", folder)` runs. It keeps the
    size and scales pixels to [0, 1]. Give it to the Trainer as `processing_class`, or call its `save_pretrained`.

    Raises:
        ValueError: pillow, which reads the images, is not installed.
    """
    if not is_vision_available():
        raise ValueError("The image processor that is saved with the nets needs pillow: pip install 'seal_hf[vision]'.")
    return image_processor_class()(do_resize=False, do_rescale=True, do_normalize=False, do_reduce_labels=False)


AutoConfig.register(FCNConfig.model_type, FCNConfig)
AutoModelForSemanticSegmentation.register(FCNConfig, FCNForSemanticSegmentation)
