"""Quantised bases: weights of 8 bits (Dettmers et al. 2022a) or 4 bits (QLoRA, Dettmers et al. 2023) by bitsandbytes.

No gradient changes such weights, so both nets train adapters of PEFT on them. The head stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, BitsAndBytesConfig, PreTrainedModel
from transformers.models.auto.auto_factory import _BaseAutoModelClass

from ...utils.options import check_value

QUANTIZATIONS = ("4bit", "8bit")
LIBRARY = "bitsandbytes"


def quantized(
    quantization: str, auto_class: type[_BaseAutoModelClass], name: str, dtype: torch.dtype, **hub: Any
) -> BitsAndBytesConfig:
    """The `quantization_config` for a base of a folder or repo: 4-bit NormalFloat, or LLM.int8(), but for the head.

    Args:
        dtype: in which 4-bit weights are multiplied.

    Raises:
        ValueError: another `quantization`, or bitsandbytes is not installed.
    """
    check_value("quantization", quantization, QUANTIZATIONS)
    _check_library(f"`quantization` is {quantization!r}, but")
    code = {"trust_remote_code": hub.get("trust_remote_code", False)}
    with torch.device("meta"):
        whole = auto_class.from_config(AutoConfig.from_pretrained(name, **{**hub, **code}), **code)
    options: dict[str, Any] = {"llm_int8_skip_modules": head_modules(whole)}
    if quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True, **options)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype, **options)


def head_modules(model: PreTrainedModel) -> list[str]:
    """The names of the modules outside the base, which hold a classifier's fresh weights. A net that is its own base
    has none."""
    if model.base_model is model:
        return []
    children = model.named_children()
    return [
        name for name, module in children if module is not model.base_model and any(True for _ in module.parameters())
    ]


def quantization_of(model: nn.Module) -> str | None:
    """`4bit`, `8bit`, or the name of a method other than bitsandbytes; None if the weights are not quantised."""
    if not getattr(model, "is_quantized", False):
        return None
    found = as_json(model)
    if found["quant_method"] != LIBRARY:
        return str(found["quant_method"])
    return "4bit" if found["load_in_4bit"] else "8bit"


def as_json(model: Any) -> dict[str, Any]:
    """The quantisation of a model as plain values, from which [`from_json`] loads its base again."""
    config: Any = model.config.quantization_config
    values = config if isinstance(config, dict) else config.to_dict()
    return {name: getattr(value, "value", value) for name, value in values.items() if not name.startswith("_")}


def from_json(values: dict[str, Any], name: str) -> BitsAndBytesConfig:
    """The `quantization_config` that [`as_json`] describes, saved in the folder or repo `name`.

    Raises:
        ValueError: it is not of bitsandbytes, or that is not installed.
    """
    if not isinstance(values, dict) or values.get("quant_method") != LIBRARY:
        raise ValueError(f"{name}: `quantization_config` is {values!r}; expected one of {LIBRARY}. Save it anew.")
    _check_library(f"The base of {name} was quantised, but")
    return BitsAndBytesConfig.from_dict(values)


def check_quantised(model: nn.Module, has_peft: bool) -> None:
    """Raises ValueError for a quantised task-net that cannot be trained: one without adapters of PEFT, or by another
    library than bitsandbytes."""
    found = quantization_of(model)
    if found is None:
        return
    if found not in QUANTIZATIONS:
        raise ValueError(
            f"The task-net is quantised by {found!r}, which seal_hf does not support. Load it with "
            f"quantization={QUANTIZATIONS[0]!r} or {QUANTIZATIONS[1]!r}, or not quantised."
        )
    if not has_peft:
        raise ValueError(
            f"The task-net's weights are quantised ({found}), so that training cannot change them. Train an adapter of "
            "PEFT on them: adapter='lora' (--adapter lora)."
        )


def keep_layout(model: nn.Module) -> None:
    """Keep weights of 4 bits as they are. On a processor with AVX512-BF16, bitsandbytes would pack them anew at the
    first evaluation, and training after that has no gradient through them."""
    layers: Iterable[Any] = model.modules() if quantization_of(model) == "4bit" else ()
    for layer in layers:
        if hasattr(layer, "support_avx512bf16_for_cpu"):
            layer.support_avx512bf16_for_cpu = False


def _check_library(what: str) -> None:
    """Raises ValueError, which begins with `what`, if bitsandbytes is not installed. From here on it reports no more on
    every product of 8-bit weights with inputs in float32, one line for each layer and step."""
    if find_spec(LIBRARY) is None:
        raise ValueError(f"{what} {LIBRARY} is not installed: pip install 'seal_hf[{LIBRARY}]'.")
    logging.getLogger(f"{LIBRARY}.autograd._functions").setLevel(logging.ERROR)
