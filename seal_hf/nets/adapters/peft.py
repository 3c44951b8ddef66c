"""PEFT: LoRA and related methods. Mergeable adapters are merged when the task-net is saved as a plain model.

Bases may be quantised: weights of 8 bits (Dettmers et al. 2022a) or 4 bits (QLoRA, Dettmers et al. 2023) by
bitsandbytes. No gradient changes such weights, so both nets train adapters of PEFT on them. The head stays as it is.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from transformers import AutoConfig, BitsAndBytesConfig, PreTrainedModel
from transformers.models.auto.auto_factory import _BaseAutoModelClass
from transformers.utils import logging

from ...utils.modules import described_by_base
from ...utils.options import check_value
from .base import LOSS_ADAPTER, AdapterLibrary, LoadBase, LossAdapter, base_of

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel

logger = logging.get_logger(__name__)


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
    logging.get_logger(f"{LIBRARY}.autograd._functions").setLevel(logging.ERROR)


CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ALL_LINEAR = "all-linear"


class PeftLossAdapter(LossAdapter):
    """A second PEFT adapter, of the same kind as the task-net's. It is not in PEFT's list of adapters, so it is never
    saved, loaded or merged as one of the task-net's."""

    model: PeftModel  # type: ignore[assignment]  # it forwards the base's attributes

    def _add(self, config: dict[str, Any] | None) -> dict[str, Any]:
        from peft import PeftConfig, PeftModel
        from peft.tuners.tuners_utils import BaseTunerLayer

        if config is None:
            config = _jsonable(self.model.peft_config[self.model.active_adapter])
        config |= {"modules_to_save": None, "inference_mode": False}
        # PeftModel's own method: that of the class for sequence classification would add a second classifier
        with described_by_base(self.model.get_base_model()):
            PeftModel.add_adapter(self.model, LOSS_ADAPTER, PeftConfig.from_peft_type(**config))
        self.model.peft_config.pop(LOSS_ADAPTER)
        self._layers = [module for module in self.model.modules() if isinstance(module, BaseTunerLayer)]
        return config

    @contextlib.contextmanager
    def _switched(self) -> Iterator[None]:
        before = [layer.active_adapters for layer in self._layers]
        for layer in self._layers:
            layer.set_adapter([LOSS_ADAPTER])
        try:
            yield
        finally:
            for layer, active in zip(self._layers, before, strict=True):
                layer.set_adapter(active)

    @property
    def encoder(self) -> PreTrainedModel:
        return cast(PreTrainedModel, self.model.get_base_model().base_model)


class Peft(AdapterLibrary):
    mode = "peft"
    loss_adapter = PeftLossAdapter

    def methods(self) -> tuple[str, ...]:
        return ("lora", "dora", "ia3")

    def owns(self, model: nn.Module) -> bool:
        return hasattr(model, "peft_config") and hasattr(model, "get_base_model")

    def check(self, model: nn.Module) -> None:
        wrapped = cast("PeftModel", model)
        _check_prompts(config := wrapped.peft_config[wrapped.active_adapter])
        if wrapped.active_adapter != "default" and not config.is_prompt_learning:
            raise ValueError(
                f"The task-net's adapter is called {wrapped.active_adapter!r}, so PEFT would save it in a subfolder "
                "of that name, where it is not found. Leave adapter_name out, or set it to 'default'."
            )
        if config.task_type is None and not _saved(config) and not config.is_prompt_learning:
            logger.warning_once(
                "The task-net's adapter has neither `task_type` nor `modules_to_save`: PEFT freezes the classifier and "
                "does not save it. If the classifier is fresh, give the adapter's configuration "
                "task_type='SEQ_CLS', or 'TOKEN_CLS' for tags."
            )

    def wrap(
        self, model: PreTrainedModel, method: Any, rank: int | None, targets: str | list[str] | None
    ) -> PreTrainedModel:
        import peft

        config, heads = method, head_modules(model)
        if not isinstance(method, str) and getattr(config, "task_type", None) is None and not _saved(config):
            config = copy.deepcopy(config)
            config.modules_to_save = heads  # else a fresh classifier would be neither trained nor saved
        if isinstance(method, str):
            tokens = type(model).__name__.endswith("ForTokenClassification")
            common: dict[str, Any] = {"task_type": peft.TaskType.TOKEN_CLS if tokens else peft.TaskType.SEQ_CLS}
            common["modules_to_save"] = heads
            if model.main_input_name == "pixel_values":
                common, targets = {"modules_to_save": heads}, _layers(model, targets)
            elif targets is None and method != "ia3" and _architecture(model) not in _known_architectures():
                targets = ALL_LINEAR
            if targets is not None:
                common["target_modules"] = targets
            if targets == ALL_LINEAR:
                common["exclude_modules"] = rf"({'|'.join(map(re.escape, heads))})(\..*)?"  # PEFT knows few heads
            if method == "ia3":
                config = peft.IA3Config(**common)
            else:
                rank = rank or 8
                config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, use_dora=method == "dora", **common)
        with described_by_base(model):
            return _as_base(peft.get_peft_model(model, config))

    def pin(self, model: nn.Module, revision: str) -> None:
        for config in cast("PeftModel", model).peft_config.values():
            config.revision = revision

    def mergeable(self, model: nn.Module) -> bool:
        wrapped = cast("PeftModel", model)
        return (
            hasattr(wrapped.base_model, "merge_and_unload")
            and quantization_of(model) is None
            and not wrapped.peft_config[wrapped.active_adapter].is_prompt_learning
        )

    def merged(self, model: nn.Module, loss_adapter: bool = False) -> PreTrainedModel:
        copied = copy.deepcopy(cast("PeftModel", model))
        return copied.merge_and_unload(adapter_names=[LOSS_ADAPTER] if loss_adapter else None)

    def save(self, model: nn.Module, folder: str | Path) -> None:
        wrapped = cast("PeftModel", model)
        with described_by_base(wrapped.get_base_model()):  # PEFT compares it with that of the base's folder
            wrapped.save_pretrained(str(folder))

    def load(self, model: nn.Module, folder: str | Path) -> None:
        from peft import set_peft_model_state_dict
        from safetensors.torch import load_file

        wrapped = cast("PeftModel", model)
        set_peft_model_state_dict(wrapped, load_file(Path(folder) / WEIGHTS), adapter_name=wrapped.active_adapter)

    def from_folder(self, folder: str | Path, load: LoadBase, **kwargs: Any) -> PreTrainedModel | None:
        file = Path(folder) / CONFIG
        if not (file.is_file() and (Path(folder) / WEIGHTS).is_file()):
            return None
        import peft

        saved = json.loads(file.read_text(encoding="utf-8"))
        model = base_of(saved["base_model_name_or_path"], load, {**kwargs, "revision": saved.get("revision")})
        config = peft.PeftConfig.from_pretrained(str(folder))
        _check_prompts(config)
        with described_by_base(model):
            return _as_base(self._restored(model, folder, config))

    def _restored(self, model: PreTrainedModel, folder: str | Path, config: Any) -> PeftModel:
        import peft

        if config.is_prompt_learning:  # PEFT loads these only for inference
            config.inference_mode = False
            if getattr(config, "prompt_tuning_init", None) is not None:
                config.prompt_tuning_init = "RANDOM"  # PEFT would load a tokenizer to encode a text
            wrapped = peft.get_peft_model(model, config)
            self.load(wrapped, folder)
            return wrapped
        return peft.PeftModel.from_pretrained(model, folder, is_trainable=True, use_safetensors=True)


def _saved(config: PeftConfig) -> Any:
    """The modules that are trained and saved as a whole; None for kinds of adapters without such."""
    return getattr(config, "modules_to_save", None)


def _layers(model: PreTrainedModel, targets: str | list[str] | None) -> str | list[str]:
    """The layers of an image classifier that get a LoRA: those asked for, or all linear ones of its encoder, or in a
    net without these all convolutions. PEFT has no task type for images, and knows layers of text encoders alone."""
    if targets not in (None, ALL_LINEAR):
        return targets
    inside = {id(part) for part in model.base_model.modules()}
    parts = [(name, part) for name, part in model.named_modules() if id(part) in inside]
    linear = [name for name, part in parts if isinstance(part, nn.Linear)]
    return linear or [name for name, part in parts if isinstance(part, nn.Conv2d)]


def _as_base(model: nn.Module) -> PreTrainedModel:
    """The model as the type that callers expect: PEFT's wrapper forwards the base's attributes."""
    return cast(PreTrainedModel, model)


def _architecture(model: PreTrainedModel) -> str:
    with described_by_base(model):
        return model.config.model_type


def _known_architectures() -> Iterable[str]:
    """The types of models for which PEFT knows where a LoRA belongs."""
    from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING

    return TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING


def _check_prompts(config: PeftConfig) -> None:
    """Raises ValueError for prompts that come from an encoder. PEFT does not save the encoder, so loaded prompts would
    pass through a fresh one."""
    if config.peft_type == "P_TUNING" or getattr(config, "prefix_projection", False):
        kind = "P-tuning" if config.peft_type == "P_TUNING" else "prefix tuning with a projection"
        raise ValueError(
            f"The adapter is {kind}, whose prompt encoder PEFT does not save, so training could not be resumed from a "
            "folder. Use PromptTuningConfig, or PrefixTuningConfig without prefix_projection."
        )


def _jsonable(config: PeftConfig) -> dict[str, Any]:
    """A PEFT configuration as plain values: enumerations by value, sets as lists."""
    plain = {key: value.value if isinstance(value, Enum) else value for key, value in config.to_dict().items()}
    return {key: sorted(value) if isinstance(value, set) else value for key, value in plain.items()}
