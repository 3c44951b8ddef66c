"""Label sets of images: which saved nets read images, the small convolutional net, and images as a batch."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
)
from transformers.utils import find_adapter_config_file

from ...nets.cnn import CNNConfig, CNNForImageClassification
from ...utils.files import json_object
from ...utils.gate import config_of
from .space import MultiLabelSpace

HEAD = "ForImageClassification"
DROPOUT = 0.2  # of a fresh convolutional net


def is_of_images(name: str, hub: dict[str, Any]) -> bool:
    """True if a folder or repo holds an image classifier, an encoder of images, or an adapter on one of them; False
    also for one that cannot be read, which the loader reports."""
    try:
        file = find_adapter_config_file(name, **hub)
        if file is not None:
            adapter = json_object(Path(file), "Was it saved completely?")
            base = adapter.get("base_model_name_or_path") or adapter.get("model_name")  # of PEFT, of `adapters`
            return isinstance(base, str) and base != name and is_of_images(base, {})
        config = config_of(name, hub)
    except (OSError, ValueError):
        return False
    if any(architecture.endswith(HEAD) for architecture in config.get("architectures") or ()):
        return True
    model_type = config.get("model_type", "")
    if model_type not in CONFIG_MAPPING:
        return False
    kind = CONFIG_MAPPING[model_type]
    return kind in MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING and kind not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING


def fresh_cnn(labels: dict[str, Any], hidden_size: int | None, dropout: float | None) -> CNNForImageClassification:
    """The small convolutional net, untrained.

    Args:
        labels: `id2label` and `label2id`.
        hidden_size: width of its features; default: that of [`CNNConfig`].
        dropout: default: 0.2.
    """
    dropout = DROPOUT if dropout is None else dropout
    sizes: dict[str, Any] = {} if hidden_size is None else {"hidden_size": hidden_size}
    config = CNNConfig(dropout=dropout, problem_type=MultiLabelSpace.problem_type, **sizes, **labels)
    return CNNForImageClassification(config)


def check_images(images: Any) -> None:
    """Raises ValueError for one image in place of a list."""
    if isinstance(images, (str, PathLike)) or hasattr(images, "convert") or getattr(images, "ndim", 4) != 4:
        raise ValueError(
            f"`images` is one {type(images).__name__}; expected a list of images, such as ['a.png']: paths, PIL images "
            "or uint8 arrays (H, W, 3)."
        )
