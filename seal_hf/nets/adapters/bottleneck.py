"""The `adapters` library (transformers 4.57): the bottlenecks of Houlsby et al. 2019 and Pfeiffer et al. 2021, as in
SEAL's Table 20. A bottleneck has a nonlinearity, so it cannot be merged: the saved task-net is the adapter."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from ...utils.modules import described_by_base
from .base import LOSS_ADAPTER, AdapterLibrary, LoadBase, LossAdapter, base_of

TASK_ADAPTER = "task"
CONFIG, WEIGHTS = "adapter_config.json", "adapter.safetensors"
HEAD_CONFIG, HEAD_WEIGHTS = "head_config.json", "model_head.safetensors"


class BottleneckLossAdapter(LossAdapter):
    """A second adapter of the `adapters` library, beside the task-net's."""

    model: Any  # the library adds its methods to the task-net

    def _add(self, config: dict[str, Any] | None) -> dict[str, Any]:
        import adapters

        task = _task_adapter(self.model)
        config = config or self.model.adapters_config.get(task).to_dict()
        self.model.add_adapter(LOSS_ADAPTER, config=adapters.AdapterConfig.load(config))
        self.model.set_active_adapters(task)
        return config

    @contextlib.contextmanager
    def _switched(self) -> Iterator[None]:
        from adapters import AdapterSetup

        with AdapterSetup(LOSS_ADAPTER):
            yield

    @property
    def encoder(self) -> PreTrainedModel:
        return self.model.base_model


class Adapters(AdapterLibrary):
    mode = "adapters"
    loss_adapter = BottleneckLossAdapter

    def methods(self) -> tuple[str, ...]:
        return ("pfeiffer", "houlsby", "parallel")

    def owns(self, model: nn.Module) -> bool:
        return hasattr(model, "adapters_config") and bool(model.active_adapters)

    def check(self, model: Any) -> None:
        if len(names := model.active_adapters.flatten()) > 1:
            raise ValueError(
                f"The task-net has the active adapters {', '.join(sorted(names))}, but only the first would be "
                "saved. Merge the others into the base, or activate only one."
            )

    def wrap(self, model: Any, method: Any, rank: int | None, targets: str | list[str] | None) -> PreTrainedModel:
        import adapters

        if targets is not None:
            raise ValueError(f"`adapter_targets` is {targets!r}, but bottlenecks follow whole layers. Leave it out.")
        names = {"pfeiffer": "seq_bn", "houlsby": "double_seq_bn", "parallel": "par_bn"}  # the library's own
        changes = {"reduction_factor": model.config.hidden_size / rank} if rank else {}
        config = adapters.AdapterConfig.load(names.get(method, method), **changes)
        _initialise(model)
        model.add_adapter(TASK_ADAPTER, config=config, set_active=True)
        model.train_adapter(TASK_ADAPTER)
        return model

    def mergeable(self, model: nn.Module) -> bool:
        return False

    def merged(self, model: nn.Module, loss_adapter: bool = False) -> PreTrainedModel:
        raise ValueError("Bottleneck adapters cannot be merged: save the task-net with adapter_export='adapter'.")

    def save(self, model: Any, folder: str | Path) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        model.save_adapter(str(folder), _task_adapter(model), with_head=True, use_safetensors=True)

    def load(self, model: Any, folder: str | Path) -> None:
        task = _task_adapter(model) if self.owns(model) else TASK_ADAPTER
        model.load_adapter(str(folder), load_as=task, set_active=True, use_safetensors=True)

    def from_folder(self, folder: str | Path, load: LoadBase, **kwargs: Any) -> PreTrainedModel | None:
        file = Path(folder) / CONFIG
        if not (file.is_file() and (Path(folder) / WEIGHTS).is_file()):
            return None
        if (Path(folder) / HEAD_CONFIG).is_file() and not (Path(folder) / HEAD_WEIGHTS).is_file():
            return None  # the library would unpickle a head that is not safetensors
        saved = json.loads(file.read_text(encoding="utf-8"))
        model: Any = base_of(saved["model_name"], load, kwargs)
        _initialise(model)
        self.load(model, folder)
        model.train_adapter(TASK_ADAPTER)
        return model


def _task_adapter(model: Any) -> str:
    return model.active_adapters.first()


def _initialise(model: Any) -> None:
    """Give a model the methods of the library."""
    import adapters

    with described_by_base(model):
        adapters.init(model)
