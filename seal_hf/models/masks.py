"""Binary masks: SealForSegmentation, over the small FCN or any Hugging Face semantic-segmentation model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSemanticSegmentation, PreTrainedModel

from ..data import SegmentationData, load_masks
from ..data.given import loaded
from ..data.tensors.images import load_image_processor
from ..energies import check_energy
from ..inference.decisions import MaskDecisions
from ..nets.fcn import FCNConfig, FCNForSemanticSegmentation, check_crops
from ..second_net.loss_net import LossNet, LossNetConfig
from ..spaces import BinaryMaskSpace
from ..utils.messages import check_unread
from .base import SealModel, SealModelT
from .batches import at_size, check_one_kind, image_batches
from .labels import label_maps


class SealForSegmentation(SealModel):
    """A segmentation net with two classes, logits (B, 2, h, w), and its loss-net, which reads the images directly."""

    auto_class = AutoModelForSemanticSegmentation
    space_class = BinaryMaskSpace
    default_energy = "grid"
    labels_dim = 1

    @torch.no_grad()
    def predict(
        self,
        images: Sequence[Any] | None = None,
        *,
        decoder: str | float | None = None,
        batch_size: int = 32,
        **inputs: Tensor,
    ) -> tuple[Any, Any]:
        """Masks, by the task-net without dropout.

        Args:
            images: N paths of image files, PIL images or uint8 arrays (H, W, 3), of any sizes; or
            inputs: the task-net's inputs, `pixel_values` (N, 3, H, W), all in one batch.
            decoder: `fixed`, `threshold`, or a threshold; default: the saved one, or else 0.5.
            batch_size: images per batch; consecutive images of one size form a batch.

        Returns:
            For images: N tensors of foreground probabilities (H, W), each at its image's own size, and N masks (H, W),
            int64, 0 or 1, on the CPU. For `inputs`: both (N, H, W).

        Raises:
            ValueError: there are neither images nor inputs, or the decoder is unknown.
            DataError: an entry is not an image.
        """
        cut, net = MaskDecisions.from_config(self.config).cut(decoder), self.task_net.eval()
        check_one_kind("images", images, inputs)
        if images is None:
            logits = self.space.fit(net(**inputs).logits, inputs["pixel_values"][:, 0])
            relaxed = self.space.relax(logits)
            return relaxed, (relaxed.double() >= cut).long()  # the threshold was tuned in float64
        probabilities: list[Tensor] = []
        for pixel_values, sizes in image_batches(images, self.processor, batch_size):
            logits = self.space.fit(net(pixel_values=pixel_values.to(net.device, net.dtype)).logits, pixel_values[:, 0])
            found = self.space.relax(logits).float().cpu()
            probabilities += [at_size(p, size) for p, size in zip(found, sizes, strict=True)]
        return probabilities, [(p.double() >= cut).long() for p in probabilities]

    def _load_processor(self, name: str, hub: dict[str, Any]) -> Any:
        return load_image_processor(name, **hub)

    @classmethod
    def from_pretrained(
        cls: type[SealModelT], model_name_or_path: str | Path, *, loss_net_encoder: str | None = None, **kwargs: Any
    ) -> SealModelT:
        """As [`SealModel.from_pretrained`].

        Raises:
            ValueError: as there, and for a `loss_net_encoder` other than `separate`.
        """
        _check_encoder(loss_net_encoder)
        return super().from_pretrained(model_name_or_path, loss_net_encoder=loss_net_encoder, **kwargs)

    @classmethod
    def for_data(
        cls,
        data: SegmentationData | Any,
        model_name_or_path: str | None = None,
        *,
        loss_net_encoder: str | None = None,
        crop_size: int | None = 24,
        crop_offsets: Sequence[int] | int | None = None,
        energy: str | None = None,
        energy_options: dict | None = None,
        **kwargs: Any,
    ) -> SealForSegmentation:
        """Both nets for a data set of [`load_masks`].

        Args:
            data: has `label_names`, background first; or an argument of [`load_masks`], which is then loaded.
            model_name_or_path: a Hugging Face semantic-segmentation model or encoder; default: the FCN.
            loss_net_encoder: only `separate`: the energy reads the image directly.
            crop_size: a fresh FCN predicts by averaging over crops of this size; train it on such crops ([`MaskRows`]).
                None: whole images.
            crop_offsets: where these crops begin, or how many there are along a side, see `rows.crops.crop_offsets`.
            energy, energy_options: only `grid`; `channels`, `dropout` and `width` of the [`GridEnergy`].
            kwargs: for `from_pretrained`.

        Raises:
            ValueError: another `loss_net_encoder`, energy or energy option; crops that do not fit the images of `data`;
                `kwargs` for a fresh FCN; or as `from_pretrained`.
        """
        _check_encoder(loss_net_encoder)
        data = loaded(data, load_masks)
        labels: dict[str, Any] = label_maps(data.label_names)
        if model_name_or_path is not None:
            labels |= {"num_labels": len(data.label_names), "ignore_mismatched_sizes": True}
            labels |= {"energy": energy, "energy_options": energy_options}
            return cls.from_pretrained(model_name_or_path, **labels, **kwargs)
        check_unread(kwargs, "a fresh FCN")
        config = FCNConfig(crop_size=crop_size, crop_offsets=crop_offsets, **labels)
        check_crops(config, getattr(data, "image_size", ()))
        task_net = FCNForSemanticSegmentation(config)
        return cls(task_net, cls._fresh_loss_net(task_net, None, "separate", 0, energy, energy_options))

    @classmethod
    def _fresh_loss_net(
        cls,
        task_net: PreTrainedModel,
        pretrained: str | PreTrainedModel | None,
        mode: str | None,
        global_size: int | None = None,
        energy: str | None = None,
        energy_options: dict | None = None,
        hub: dict | None = None,
        feature_size: int | None = None,
    ) -> LossNet:
        """A loss-net for images and masks, whose energy needs no encoder.

        Raises:
            ValueError: the encoder mode is not `separate`, or the energy is for other outputs.
        """
        _check_encoder(mode)
        energy = energy or cls.default_energy
        check_energy(cls.space_class.name, energy)
        config = LossNetConfig(
            space=cls.space_class.name,
            energy=energy,
            energy_options=energy_options,
            num_labels=task_net.config.num_labels,
        )
        config.id2label, config.label2id = task_net.config.id2label, task_net.config.label2id
        return LossNet(config)


def _check_encoder(mode: str | None) -> None:
    if mode not in (None, "separate"):
        raise ValueError(
            f"`loss_net_encoder` is {mode!r}, but the energy of masks is a convolutional net over the images "
            "themselves. Use 'separate'."
        )
