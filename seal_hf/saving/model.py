"""Task-net and loss-net together, for any kind of output: building, loading, saving, pushing.

A saved folder holds the plain task-net, which any Hugging Face code can load, and the loss-net in `_loss_net/`.
"""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.utils import ModelOutput, logging

from ..core.energy import ENERGIES, energy_of
from ..core.space import OutputSpace
from ..core.task import TASKS
from ..loss_net.loss_net import LOSS_NET_FOLDER, LossNet, LossNetConfig, aligned
from ..nets.adapters import LIBRARIES, check_adapters, library_of, with_adapter
from ..nets.adapters.peft import keep_layout
from ..nets.encoders import ENCODER_MODES, encoder_options, task_features, without_pooler
from ..nets.heads import MEAN, pooling_for, reads_images, with_features
from ..nets.task_nets import check_is_pretrained_model, check_num_labels, encoder_for, encoder_of, feature_size
from ..utils.gate import check_trust, load_net
from ..utils.modules import without_wrapper
from ..utils.options import check_value
from .export import save_nets, upload_nets
from .loading import (
    check_kind,
    check_label_order,
    check_same_net,
    held_report,
    hub_options,
    load_task_net,
    place_of,
    said_plainly,
)
from .loss_net import find_loss_net, loss_net_of

if TYPE_CHECKING:
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

logger = logging.get_logger(__name__)

SealModelT = TypeVar("SealModelT", bound="SealModel")


class SealModel(nn.Module):
    """A task-net and its loss-net.

    Args:
        task_net: a model with a config, whose outputs have the logits that the output space expects.
        loss_net: see [`LossNet`]; None suffices for predictions.

    Attributes:
        processor: reads raw inputs: a tokenizer, a [`Vocabulary`] or an image processor. It can be set; otherwise the
            first use loads it from the task-net's folder or repo.
        auto_class: the Auto class that loads a plain task-net of this kind.
        space_class: the kind of output; `space_of` gives the class for one task-net.
        default_global_size: width of the global term of a fresh loss-net.
        labels_dim: the dimension of the logits that runs over the labels.
    """

    auto_class: type[_BaseAutoModelClass]
    space_class: type[OutputSpace]
    default_global_size = 200
    labels_dim = -1

    def __init__(self, task_net: PreTrainedModel, loss_net: LossNet | None):
        super().__init__()
        self.task_net = task_net
        self.loss_net: Any = loss_net
        self.space = self.space_of(task_net).for_model(task_net)
        self.source: tuple[str, dict[str, Any]] | None = None  # folder or repo, and the Hub's options
        self.fresh: list[str] = []  # the task-net's parameters that the source lacked
        self._processor: Any = None

    @property
    def config(self) -> PretrainedConfig:
        """The task-net's configuration."""
        return self.task_net.config

    @property
    def processor(self) -> Any:
        if self._processor is None:
            if self.source is None:
                raise ValueError(
                    "These nets were not loaded from a folder or repo, so there is no processor to read raw inputs. "
                    "Set `model.processor`, for example to a tokenizer, or give the task-net's own inputs."
                )
            self._processor = self._load_processor(*self.source)
        return self._processor

    @processor.setter
    def processor(self, processor: Any) -> None:
        self._processor = processor

    @abstractmethod
    def _load_processor(self, name: str, hub: dict[str, Any]) -> Any:
        """The processor that was saved beside the task-net."""

    def forward(self, **inputs: Tensor) -> ModelOutput:
        """Run the task-net alone, as at prediction time."""
        return self.task_net(**inputs)

    def energy(self, y: Tensor, mask: Tensor | None = None, **inputs: Tensor) -> Tensor:
        """Energies of structures.

        Args:
            y: (B, ...) one structure per input, or (B, S, ...) candidates; entries in [0, 1].
            mask: (B, ...) True at positions that count; None: all count.
            inputs: the task-net's inputs, without labels.

        Returns:
            (B,) or (B, S), lower = better.

        Raises:
            ValueError: there is no loss-net; `y` has another shape.
        """
        if self.loss_net is None:
            raise ValueError("There is no loss-net to compute the energy: load both nets (with_loss_net=True).")
        dims, labels, features = self.space.structure_dims, self.task_net.config.num_labels, None
        if y.dim() - dims not in (1, 2) or (self.space.label_dim == -1 and y.shape[-1] != labels):
            raise ValueError(
                f"`y` has shape {tuple(y.shape)}; it must be (batch, *structure) or (batch, candidates, *structure). A "
                f"structure has {dims} dimension{'s' * (dims > 1)} here, and {labels} labels."
            )
        if self.loss_net.config.encoder_mode == "shared":
            outputs = with_features(self.task_net, inputs)
            features = task_features(outputs, inputs, self.task_net, self.loss_net.pooling)
        single = y.dim() == 1 + dims
        energies = self.loss_net(y.unsqueeze(1) if single else y, mask, inputs, features)
        return energies.squeeze(1) if single else energies

    @classmethod
    def space_of(cls, task_net: PreTrainedModel) -> type[OutputSpace]:
        """The class of this task-net's output space."""
        return cls.space_class

    # --- building ----------------------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(
        cls: type[SealModelT],
        model_name_or_path: str | Path,
        *,
        loss_net_encoder: str | None = None,
        adapter: Any = None,
        adapter_rank: int | None = None,
        adapter_targets: str | list[str] | None = None,
        quantization: str | None = None,
        energy: str | None = None,
        energy_options: dict[str, Any] | None = None,
        global_size: int | None = None,
        label_rates: np.ndarray | None = None,
        fresh_loss_net: bool = False,
        with_loss_net: bool = True,
        trust_remote_code: bool = False,
        **kwargs: Any,
    ) -> SealModelT:
        """Load both nets from a saved folder or repo. A plain encoder or classifier gets a fresh loss-net, and the log
        says so. The nets are in evaluation mode. Only safetensors are read. Nothing is unpickled, and no code of the
        folder runs unless `trust_remote_code` is True.

        Args:
            model_name_or_path: folder or Hub id.
            loss_net_encoder: encoder of a fresh loss-net: `separate` (default), `shared`, `peft` or `adapters`.
            adapter: train an adapter on a frozen base instead of the whole task-net: `lora`, `dora`, `ia3` or a PEFT
                configuration; `pfeiffer`, `houlsby`, `parallel` with the `adapters` library. With `peft` and `adapters`
                the loss-net has a second adapter of that kind in the same base; default: `lora` or `pfeiffer`.
            adapter_rank: rank of a LoRA (default 8), or width of a bottleneck (default: a sixteenth of the encoder's).
            adapter_targets: modules that get a LoRA, as in PEFT: names, or `all-linear`; default: PEFT's for the
                architecture, if it has any, or else `all-linear`.
            quantization: `4bit` or `8bit`: quantise the base by bitsandbytes. It needs an adapter of PEFT.
            energy, energy_options: energy of a fresh loss-net, one of `ENERGIES`, and its own arguments.
            global_size: width of a fresh loss-net's global term; default: `default_global_size`. A saved loss-net keeps
                its encoder and energy; a warning says so if others are requested.
            label_rates: (L,) share of training rows with each label, in (0, 1). The bias of a fresh classifier starts
                at these rates (Lin et al. 2017, §3.3) instead of at one half.
            fresh_loss_net: ignore a saved loss-net.
            with_loss_net: False loads only the task-net, which suffices for `predict`.
            trust_remote_code: True runs the code that the folder or repo names (`auto_map`). A Hub id then needs a
                `revision`, the commit whose code you have read.
            kwargs: for the task-net's `from_pretrained` (`num_labels`, `id2label`, `revision`, `token`, ...).

        Raises:
            ValueError: the saved nets are of another kind than requested, or have another number of labels; or a
                configuration leads elsewhere or states sizes without end, see `utils/gate.py`.
            TypeError: `model_name_or_path` is neither a folder nor a Hub id.
            OSError: the folder or repo does not exist, or lacks safetensors.
        """
        if "subfolder" in kwargs:
            raise ValueError("`subfolder` is not supported: the two nets are at the top. Give that folder itself.")
        if "torch_dtype" in kwargs:  # its name before transformers 5
            kwargs["dtype"] = kwargs.pop("torch_dtype")
        kwargs = {"dtype": torch.float32, **kwargs, "use_safetensors": True}
        kwargs |= {} if quantization is None else {"quantization": quantization}
        if cls.space_class.problem_type is not None:
            kwargs.setdefault("problem_type", cls.space_class.problem_type)
        name = place_of(model_name_or_path)
        hub = hub_options(kwargs)
        code = check_trust(name, trust_remote_code, hub.get("revision"))
        kwargs |= code
        with said_plainly(name, cls.__name__, kwargs, hub):
            check_kind(name, cls, hub, fresh_loss_net)
            check_label_order(name, kwargs.get("id2label"), hub)
            task_net, loading = cls._load_task_net(name, kwargs, hub)
        check_same_net(name, task_net, loading)
        keep_layout(task_net)
        if any(not key.startswith(f"{task_net.base_model_prefix}.") for key in _fresh(loading)):
            for said in ("decisions", "verdict"):  # of another output layer
                vars(task_net.config).pop(said, None)
        if label_rates is not None:
            _start_at_rates(task_net, loading, label_rates)
        source = (name, {**hub, **code})
        folder = find_loss_net(name, hub) if with_loss_net and not fresh_loss_net else None
        if folder is None or LossNetConfig.from_pretrained(folder).encoder_mode not in LIBRARIES:
            fresh = (adapter, adapter_rank, adapter_targets, hub.get("revision"))
            task_net = with_adapter(task_net, loss_net_encoder if with_loss_net else None, *fresh)
        if not with_loss_net:
            return aligned(cls(task_net, None))._from(source, loading)
        check_adapters(task_net)
        if folder is None:
            mode = loss_net_encoder or cls._usual_mode(task_net, energy)
            if not fresh_loss_net:
                said = f"No {LOSS_NET_FOLDER}/ in {model_name_or_path}: built a fresh loss-net (encoder: {mode})."
                logger.warning(said)
            if library_of(task_net) is not None and (base := task_net.config._name_or_path) not in ("", name):
                name, hub = base, {key: value for key, value in hub.items() if key != "revision"}  # of a saved adapter
            made = (mode, global_size, energy, energy_options, {**hub, **code, "variant": kwargs.get("variant")})
            return aligned(cls(task_net, cls._fresh_loss_net(task_net, name, *made)))._from(source, loading)
        loss_net = loss_net_of(task_net, folder, cls.space_of(task_net).name)
        asked = {"encoder_mode": loss_net_encoder, "energy": energy, "energy_options": energy_options}
        for option, wanted in {**asked, "global_size": global_size}.items():
            if wanted not in (None, saved := getattr(loss_net.config, option)):
                said = "loss_net_encoder" if option == "encoder_mode" else option
                logger.warning(f"The loss-net in {name} keeps its {said} {saved!r}; {wanted!r} is ignored.")
        return aligned(cls(task_net, loss_net))._from(source, loading)

    @classmethod
    def from_task_net(
        cls: type[SealModelT],
        task_net: PreTrainedModel,
        *,
        loss_net_encoder: str | None = None,
        energy: str | None = None,
        energy_options: dict[str, Any] | None = None,
        global_size: int | None = None,
        inputs: dict[str, Tensor] | None = None,
    ) -> SealModelT:
        """Put a fresh loss-net of matching sizes beside your own, unchanged task-net. Both are in evaluation mode.

        Args:
            task_net: a Hugging Face model whose outputs have `logits`; it may have an adapter of PEFT or `adapters`.
            loss_net_encoder: `separate` (default): a trainable copy of the task-net's encoder with its current weights;
                `shared`; `peft` or `adapters`, if the task-net has an adapter of that library.
            energy, energy_options, global_size: of the loss-net, as in [`from_pretrained`].
            inputs: a batch of the task-net's inputs, from which its sizes are measured. Default: its `dummy_inputs` if
                it accepts them, otherwise the sizes come from its config.

        Raises:
            TypeError: the task-net is not a Hugging Face model.
            ValueError: the number of labels differs from `config.num_labels`, there is no encoder to copy, or the
                feature size is unknown.
        """
        check_is_pretrained_model(task_net, f"{cls.__name__}.from_task_net")
        keep_layout(task_net)
        mode, energy = loss_net_encoder or "separate", energy_of(cls.space_of(task_net).name, energy)
        check_num_labels(task_net, inputs, cls.labels_dim)
        encoder, size = None, None
        if ENERGIES[energy].reads is None:
            encoder = encoder_for(task_net, mode)
            size = feature_size(task_net, encoder, inputs)
        options = (global_size, energy, energy_options)
        seal = cls(task_net, cls._fresh_loss_net(task_net, encoder, mode, *options, size=size))
        seal.loss_net.to(task_net.device)
        return aligned(seal).eval()

    def _from(self: SealModelT, source: tuple[str, dict[str, Any]], loading: dict[str, Any]) -> SealModelT:
        """The nets in evaluation mode, with their source recorded."""
        self.source = source
        self.fresh = sorted(_fresh(loading))
        return self.eval()

    @classmethod
    def _load_task_net(cls, name: str, kwargs: dict, hub: dict) -> tuple[PreTrainedModel, dict]:
        """The task-net of a folder or repo, and transformers' loading info."""
        return load_task_net(cls._auto_class_of(name, hub), name, kwargs, hub)

    @classmethod
    def _auto_class_of(cls, name: str, hub: dict) -> type[_BaseAutoModelClass]:
        """The Auto class for the task-net of a folder or repo."""
        return cls.auto_class

    @classmethod
    def _load_encoder(cls, task_net: PreTrainedModel, name: str, read: dict) -> PreTrainedModel:
        """The separate encoder of a loss-net for this task-net; `read` has the Hub's options and `variant`."""
        encoder = load_net(AutoModel, name, dtype=torch.float32, **read)
        if encoder.config.model_type not in CONFIG_MAPPING:
            raise ValueError(
                f"`loss_net_encoder` is 'separate', but the encoder of {name} has code of its own, so that a saved "
                "loss-net could not be loaded again. Use 'shared' or 'peft'."
            )
        return encoder

    @classmethod
    def _usual_mode(cls, task_net: PreTrainedModel, energy: str | None) -> str:
        """The encoder of a fresh loss-net beside a loaded task-net: a copy of its encoder, unless that has code of its
        own, which no saved loss-net could load."""
        reads = ENERGIES[energy_of(cls.space_of(task_net).name, energy)].reads
        return "separate" if reads is not None or task_net.config.model_type in CONFIG_MAPPING else "shared"

    @classmethod
    def _fresh_loss_net(
        cls,
        task_net: PreTrainedModel,
        pretrained: str | PreTrainedModel | None,
        mode: str | None,
        global_size: int | None = None,
        energy: str | None = None,
        energy_options: dict | None = None,
        read: dict | None = None,
        size: int | None = None,
    ) -> LossNet:
        """A loss-net for this task-net. Its separate encoder is loaded from the folder or repo `pretrained`, or is the
        given encoder itself."""
        mode, energy = mode or "separate", energy_of(cls.space_of(task_net).name, energy)
        check_value("loss_net_encoder", mode, (*ENCODER_MODES, *LIBRARIES))
        encoder: Any = None
        options: dict[str, Any] = {}
        if ENERGIES[energy].reads is None:  # else it reads an input itself, without features
            config = task_net.config
            if mode == "separate" and pretrained is not None:
                encoder = pretrained
                if isinstance(encoder, str):
                    with held_report() as report:
                        encoder = cls._load_encoder(task_net, encoder, read or {})
                        report.clear()  # it calls the head unexpected; what is missing stands in the task-net's report
                config = encoder.config
            if size is None and reads_images(task_net):  # encoders of images state the width in many ways
                size = feature_size(task_net, None if mode == "shared" else encoder_of(task_net))
            size = size or config.hidden_size
            options = {
                "encoder_config": encoder_options(config) if mode == "separate" else None,
                "feature_size": size,
                "head_layers": 1 if mode == "shared" else 0,
                "hidden_size": size,
                "global_size": cls.default_global_size if global_size is None else global_size,
                "pooling": pooling_for(task_net, mode) if ENERGIES[energy].pooled else MEAN,
            }
        loss_net = LossNet(
            LossNetConfig(
                space=ENERGIES[energy].space,
                energy=energy,
                energy_options=energy_options,
                encoder_mode=mode,
                num_labels=task_net.config.num_labels,
                **options,
            )
        )
        loss_net.config.id2label, loss_net.config.label2id = task_net.config.id2label, task_net.config.label2id
        if mode in LIBRARIES:
            loss_net.attach(LIBRARIES[mode].loss_adapter(task_net))
        if encoder is not None:
            loss_net.encoder = without_pooler(encoder)
        return loss_net

    # --- saving ------------------------------------------------------------------------------------------------------

    def save_pretrained(
        self, folder: str | Path, *, adapter_export: str = "auto", fold_decision: bool = False, **kwargs: Any
    ) -> None:
        """Save the task-net in `folder` and the loss-net in `folder/_loss_net/`, as safetensors. Adapters are merged if
        possible, unless `adapter_export="adapter"`. `fold_decision` puts the stored decision into the bias of the saved
        classifier; see [`save_nets`]. The processor, such as a tokenizer, is saved too, if it is known. A loss-net
        that was not loaded stays in the folder that these nets were loaded from."""
        source = self.source[0] if self.loss_net is None and self.source is not None else ""
        keeps = bool(source) and Path(source).resolve() == Path(folder).resolve()
        processor = self._known_processor()
        save_nets(self.task_net, self.loss_net, folder, adapter_export, fold_decision, keep_loss_net=keeps, **kwargs)
        if processor is not None:
            processor.save_pretrained(folder)

    def _known_processor(self) -> Any:
        """The processor, or None without one."""
        try:
            return self.processor
        except (ImportError, OSError, ValueError):
            return None

    def push_to_hub(
        self,
        repo_id: str,
        *,
        include_loss_net: bool = False,
        adapter_export: str = "auto",
        fold_decision: bool = False,
        private: bool | None = None,
        token: str | None = None,
        revision: str | None = None,
        commit_message: str | None = None,
    ) -> str:
        """Push the task-net and its processor to the Hub, with `include_loss_net` the loss-net too, and return the
        repo's URL. A loss-net that was pushed earlier belongs to another task-net, so it is replaced or removed.
        `revision` is a branch, which is made if it is missing. A model card is not written."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder, adapter_export=adapter_export, fold_decision=fold_decision)
            return upload_nets(folder, repo_id, include_loss_net, private, token, revision, commit_message)


def model_classes() -> tuple[type[SealModel], ...]:
    """The [`SealModel`] classes of all tasks."""
    return tuple(dict.fromkeys(task.model for task in TASKS.values() if task.model is not None))


def kind_of(model: SealModel | PreTrainedModel, space: OutputSpace | None = None) -> type[SealModel] | None:
    """The [`SealModel`] class for a task-net: that of `space`, or else the one that the name of the task-net's class
    and its `config.problem_type` imply; None if they do not."""
    if isinstance(model, SealModel):
        return type(model)
    if space is not None:
        return next((kind for kind in model_classes() if isinstance(space, kind.space_class)), None)
    name = type(without_wrapper(model)).__name__
    for task in TASKS.values():
        task.check_net("`model`", name)
    named = (task.model for task in TASKS.values() if name.endswith(task.heads))
    problem_type = getattr(getattr(model, "config", None), "problem_type", None)
    typed = (kind for kind in model_classes() if problem_type and kind.space_class.problem_type == problem_type)
    return next(chain(named, typed), None)


def _start_at_rates(task_net: PreTrainedModel, loading: dict, rates: np.ndarray) -> None:
    """Set the bias of a fresh output layer to the labels' log-odds. It is the last fresh bias with L values."""
    fresh = _fresh(loading)
    biases = [
        parameter
        for name, parameter in task_net.named_parameters()
        if name in fresh and name.endswith("bias") and parameter.shape == (len(rates),)
    ]
    if biases:
        set_bias(biases[-1], rates)


def _fresh(loading: dict) -> set[str]:
    """The names of the parameters that are not among the saved ones."""
    mismatched = (key if isinstance(key, str) else key[0] for key in loading["mismatched_keys"])  # 5 adds both shapes
    return {*loading["missing_keys"], *mismatched}


def set_bias(bias: nn.Parameter, rates: np.ndarray) -> None:
    bias.data.copy_(torch.logit(torch.as_tensor(rates)))
