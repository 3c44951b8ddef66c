"""Masks: SealForSegmentation, over the small FCN or any Hugging Face semantic-segmentation model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSemanticSegmentation, PretrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from ...core.task import DECISIONS
from ...data import SegmentationData, load_masks
from ...data.table_sources import loaded
from ...data.tensors.images import CROP_SIZE, load_image_processor
from ...saving.batches import at_size, check_one_kind, image_batches
from ...saving.loading import for_other_labels, hub_options, label_maps, place_of
from ...saving.model import SealModel, SealModelT
from ...utils.gate import config_of
from ...utils.messages import check_unread
from .fcn import FCNConfig, FCNForSemanticSegmentation, check_crops
from .space import PixelSpace, mask_space


class SealForSegmentation(SealModel):
    """A segmentation net with C classes, logits (B, C, h, w), and its loss-net, which reads the images directly. Two
    classes are background and foreground."""

    auto_class = AutoModelForSemanticSegmentation
    space_class = PixelSpace
    labels_dim = 1

    @classmethod
    def space_of(cls, task_net: PreTrainedModel) -> type[PixelSpace]:
        return mask_space(task_net.config)

    @torch.no_grad()
    def predict(
        self,
        images: Iterable[Any] | None = None,
        *,
        decoder: str | float | None = None,
        batch_size: int = 32,
        **inputs: Tensor,
    ) -> tuple[Any, Any]:
        """Masks, by the task-net without dropout.

        Args:
            images: N paths of image files, PIL images or uint8 arrays (H, W, 3), of any sizes; or
            inputs: the task-net's inputs, `pixel_values` (N, 3, H, W), all in one batch.
            decoder: for two classes `fixed`, `threshold`, or a threshold; for several only `fixed`, the likeliest
                class. Default: the saved one, or else `fixed`, for two classes at 0.5.
            batch_size: images per batch; consecutive images of one size form a batch.

        Returns:
            N tensors of probabilities, each at its image's own size, and N masks (H, W), int64, on the CPU; for
            `inputs` both in one tensor, (N, ...). Probabilities of two classes are those of foreground, (H, W); of
            several (C, H, W).

        Raises:
            ValueError: there are neither images nor inputs, or one image in place of a list; or the decoder is unknown.
            DataError: an entry is not an image.
        """
        decide = self._decider(decoder)
        check_one_kind("images", images, inputs)
        if images is not None:
            found = list(self.predict_each(images, decoder=decoder, batch_size=batch_size))
            return [probabilities for probabilities, _ in found], [mask for _, mask in found]
        logits = self.space.fit(self.task_net.eval()(**inputs).logits, inputs["pixel_values"][:, 0])
        relaxed = self.space.relax(logits)
        return relaxed, decide(relaxed)

    @torch.no_grad()
    def predict_each(
        self, images: Iterable[Any], *, decoder: str | float | None = None, batch_size: int = 32
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The same as [`predict`], one image at a time: yields its probabilities and its mask. Only one batch is in
        memory."""
        decide, net = self._decider(decoder), self.task_net.eval()
        for pixel_values, sizes in image_batches(images, self.processor, batch_size):
            logits = self.space.fit(net(pixel_values=pixel_values.to(net.device, net.dtype)).logits, pixel_values[:, 0])
            for p, size in zip(self.space.relax(logits).float().cpu(), sizes, strict=True):
                probabilities = at_size(p, size)
                yield probabilities, decide(probabilities)

    def _decider(self, decoder: str | float | None) -> Callable[[Tensor], Tensor]:
        """Probabilities -> masks, by the stored decisions."""
        decisions: Any = DECISIONS[self.space.name]
        return decisions.from_config(self.config).decider(decoder)

    def _load_processor(self, name: str, hub: dict[str, Any]) -> Any:
        return load_image_processor(name, **hub)

    @classmethod
    def from_pretrained(
        cls: type[SealModelT], model_name_or_path: str | Path, *, loss_net_encoder: str | None = None, **kwargs: Any
    ) -> SealModelT:
        """As [`SealModel.from_pretrained`].

        Raises:
            ValueError: as there; for a `loss_net_encoder` other than `separate`; for a model whose output is no logit
                map, such as Mask2Former's.
        """
        _check_encoder(loss_net_encoder)
        name = place_of(model_name_or_path)
        try:
            saved = config_of(name, hub_options(kwargs))
        except OSError:  # which the loader reports
            saved = {}
        check_logit_map(name, next(iter(saved.get("architectures") or ("",))))
        return super().from_pretrained(name, loss_net_encoder=loss_net_encoder, **kwargs)

    @classmethod
    def from_task_net(cls: type[SealModelT], task_net: PreTrainedModel, **options: Any) -> SealModelT:
        """As [`SealModel.from_task_net`]. Raises ValueError also for a net whose output is no logit map."""
        check_logit_map("The task-net", type(task_net).__name__)
        _check_encoder(options.get("loss_net_encoder"))
        return super().from_task_net(task_net, **options)

    @classmethod
    def for_data(
        cls,
        data: SegmentationData | Any,
        model_name_or_path: str | None = None,
        *,
        loss_net_encoder: str | None = None,
        crop_size: int | None = CROP_SIZE,
        crop_offsets: Sequence[int] | int | None = None,
        energy: str | None = None,
        energy_options: dict | None = None,
        **kwargs: Any,
    ) -> SealForSegmentation:
        """Both nets for a data set of [`load_masks`].

        Args:
            data: a data set with `label_names`, whose first of two is the background; or an argument of [`load_masks`],
                which is then loaded.
            model_name_or_path: a Hugging Face semantic-segmentation model or encoder; default: the FCN.
            loss_net_encoder: only `separate`, since the energy reads the image directly.
            crop_size: a fresh FCN predicts by averaging over crops of this size; train it on such crops ([`MaskRows`]).
                None: whole images.
            crop_offsets: where these crops begin, or how many there are along a side, see
                `data.tensors.images.crop_offsets`.
            energy, energy_options: the energy is `grid`, or `class_grid` for several classes; the options are
                `channels`, `dropout` and `width` of the [`GridEnergy`].
            kwargs: for `from_pretrained`.

        Raises:
            ValueError: another `loss_net_encoder`, energy or energy option; crops that do not fit the images of `data`;
                `kwargs` for a fresh FCN; a model that does not read images in colour; or as `from_pretrained`.
        """
        _check_encoder(loss_net_encoder)
        data = loaded(data, load_masks)
        labels: dict[str, Any] = label_maps(data.label_names)
        if model_name_or_path is not None:
            name = place_of(model_name_or_path)
            labels |= {"num_labels": len(data.label_names), "ignore_mismatched_sizes": True}
            labels |= for_other_labels(name, labels["id2label"], kwargs)
            labels |= {"energy": energy, "energy_options": energy_options}
            seal = cls.from_pretrained(name, **(labels | kwargs))
            _check_colour(seal.config, name)
            return seal
        check_unread(kwargs, "a fresh FCN")
        config = FCNConfig(crop_size=crop_size, crop_offsets=crop_offsets, **labels)
        check_crops(config, getattr(data, "image_size", ()))
        task_net = FCNForSemanticSegmentation(config)
        return cls(task_net, cls._fresh_loss_net(task_net, None, "separate", 0, energy, energy_options))


def _check_encoder(mode: str | None) -> None:
    if mode not in (None, "separate"):
        raise ValueError(
            f"`loss_net_encoder` is {mode!r}, but the energy of masks is a convolutional net over the images "
            "themselves. Use 'separate'."
        )


def check_logit_map(name: str, architecture: str) -> None:
    """Raises ValueError for a model of this class if its output is no logit map.

    Args:
        name: of the model, for the message.
    """
    maps = ("UNIVERSAL", "INSTANCE", "IMAGE")
    by_type: Any = [getattr(modeling_auto, f"MODEL_FOR_{kind}_SEGMENTATION_MAPPING_NAMES") for kind in maps]
    if any(architecture in names.values() for names in by_type):
        raise ValueError(
            f"{name} is a {architecture}, which gives a mask and a class for each of its queries, not a logit for each "
            "class and pixel. Give a model of semantic segmentation with a logit map, such as SegFormer, UPerNet, "
            "BEiT or DPT."
        )


def _check_colour(config: PretrainedConfig, name: str) -> None:
    """Raises ValueError for a net that does not read three channels."""
    channels = getattr(config, "num_channels", 3)
    if channels != 3:
        raise ValueError(
            f"{name} reads images of {channels} channels, but images are read in colour, with 3 channels (grey ones "
            "repeat theirs). Give a model with num_channels=3."
        )
