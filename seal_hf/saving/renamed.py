"""Weights of a folder under the names of a net.

transformers 5 renames tensors of many architectures (SegFormer, ESM, Nomic-BERT) when it loads them, and renames them
back when it saves them. Code that reads such a file directly, as the Trainer does, finds most of the net missing and
leaves it unchanged.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from ..utils.gate import check_origin


def are_renamed(net: PreTrainedModel, folder: str | Path) -> bool:
    """True if the safetensors of `folder` have tensor names that `net` lacks."""
    return not _files_by_name(folder).keys() <= net.state_dict().keys()


def read_renamed(net: PreTrainedModel, folder: str | Path) -> dict[str, Tensor]:
    """The tensors that `net.save_pretrained(folder)` wrote, under the names of `net.state_dict()`. Parts that the
    class itself lacks, such as a CRF, keep their names.

    Raises:
        ValueError: tensors are missing or superfluous, or have another shape.
    """
    check_origin(folder)
    try:
        loaded: Any = type(net).from_pretrained(
            folder, config=copy.deepcopy(net.config), dtype=net.dtype, use_safetensors=True, output_loading_info=True
        )
        saved, info = loaded  # because of `output_loading_info`
    except RuntimeError as error:  # shapes
        raise ValueError(f"The weights in {folder} do not fit this {type(net).__name__}: {error}") from error
    unknown = set(info["unexpected_keys"]) - net.state_dict().keys()
    for names, what in ((info["missing_keys"], "missing"), (unknown, "not part of it")):
        if names:
            raise ValueError(
                f"The weights in {folder} do not fit this {type(net).__name__}: {', '.join(sorted(names))} are {what}."
            )
    weights, files = saved.state_dict(), _files_by_name(folder)
    for name in net.state_dict().keys() - weights.keys():
        with safe_open(files[name], "pt") as tensors:
            weights[name] = tensors.get_tensor(name)
    return weights


def _files_by_name(folder: str | Path) -> dict[str, Path]:
    """The file of each tensor; empty if there are no safetensors."""
    folder = Path(folder)
    if (folder / SAFE_WEIGHTS_INDEX_NAME).is_file():
        index = json.loads((folder / SAFE_WEIGHTS_INDEX_NAME).read_text(encoding="utf-8"))["weight_map"]
        return {name: folder / file for name, file in index.items()}
    if not (folder / SAFE_WEIGHTS_NAME).is_file():
        return {}
    with safe_open(folder / SAFE_WEIGHTS_NAME, "pt") as tensors:
        return dict.fromkeys(tensors.keys(), folder / SAFE_WEIGHTS_NAME)
