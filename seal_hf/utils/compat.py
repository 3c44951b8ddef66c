"""Every check of the transformers version, each with its reason and the condition for its removal."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import transformers
from transformers import PreTrainedModel, TrainingArguments

TRANSFORMERS = tuple(int(part) for part in transformers.__version__.split(".")[:2])  # (major, minor)

# In 4.57 the argument `fsdp` always means FSDP1, whatever `fsdp_config` says; remove with transformers 4.
FSDP_ARGUMENT_IS_FSDP1 = TRANSFORMERS < (5, 0)
# Arguments that 5 renamed: old name -> new name. Recipes may use the old name on both; remove with transformers 4.
RENAMED_ARGUMENTS = {"warmup_ratio": "warmup_steps"} if TRANSFORMERS >= (5, 0) else {}


def with_later_names(args: TrainingArguments) -> dict[str, Any]:
    """The Trainer's arguments; those of 4.57 also under the names and values of 5. Remove with transformers 4."""
    values = dict(vars(args))
    if TRANSFORMERS < (5, 0):
        values["warmup_steps"] = values["warmup_steps"] or values["warmup_ratio"] or 0
        values["train_sampling_strategy"] = "group_by_length" if values["group_by_length"] else "random"
    values["lr_scheduler_kwargs"] = values["lr_scheduler_kwargs"] or None  # {} in 4.57
    return values


def enable_gradient_checkpointing(net: PreTrainedModel) -> None:
    """Recompute the layers of `net` in the backward instead of keeping their activations.

    The hook that makes the embeddings' output require a gradient is left out: only reentrant checkpointing needs it,
    and it would send every gradient of a frozen net through all of its layers.
    """
    if TRANSFORMERS >= (5, 23):  # renamed, and it sets the hook; remove the other branch with older lines
        net.activation_checkpointing_enable({"use_reentrant": False})
        net.disable_input_require_grads()
    else:
        net.gradient_checkpointing_enable({"use_reentrant": False})


def image_processor_class(family: str = "Segformer") -> type:
    """The image processor of a family of models, by its name in the class, that works without torchvision.

    transformers 5 gives it a separate name and warns if it falls back to it; remove with transformers 4. Both classes
    are saved under the name that both lines read.
    """
    try:
        module = import_module(f"transformers.models.{family.lower()}.image_processing_pil_{family.lower()}")
    except ImportError:
        return getattr(transformers, f"{family}ImageProcessor")
    return getattr(module, f"{family}ImageProcessorPil")


def without_torchvision() -> dict[str, Any]:
    """The option of `AutoImageProcessor.from_pretrained` for a processor that works without torchvision. transformers 5
    has backends, 4.57 has slow and fast classes; remove with transformers 4."""
    return {"backend": "pil"} if find_spec("transformers.image_processing_backends") else {"use_fast": False}
