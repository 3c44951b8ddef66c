"""Rows of images for a program that trains: their processor, size and augmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datasets import Dataset

from ...data import MultiLabelData
from ...data.common import IMAGE
from ...data.tensors.crops import resize_to
from ...data.tensors.images import AUGMENTATIONS, ImageRows, load_image_processor
from ...nets.cnn import cnn_image_processor

LARGEST = 64  # side in pixels of images for the convolutional net, unless another is asked for


def processor_of(data: MultiLabelData, model_name_or_path: str | None, image_size: int | None, **origin: Any) -> Any:
    """The image processor of a pretrained model, or one for the convolutional net.

    Args:
        image_size: side in pixels of the square to which it resizes; default: as it is, and for the convolutional net
            the size of the first image, or 64 if that is larger.
        origin: `revision` and `trust_remote_code`, as for [`load_image_processor`].

    Raises:
        ValueError: there is no image processor.
    """
    asked = None if image_size is None else (image_size, image_size)
    if model_name_or_path is not None:
        processor = load_image_processor(model_name_or_path, **origin)
        return processor if asked is None else resize_to(processor, asked)
    width, height = data.train[0][IMAGE].size
    return cnn_image_processor(asked or ((height, width) if max(height, width) <= LARGEST else (LARGEST, LARGEST)))


def image_rows_of(processor: Any, augmentation: str, seed: int) -> tuple[Callable[[Dataset], ImageRows], ...]:
    """Functions from a split to its rows, for training and for evaluation."""
    augment = AUGMENTATIONS[augmentation]
    return lambda rows: ImageRows(rows, processor, augment, seed), lambda rows: ImageRows(rows, processor)
