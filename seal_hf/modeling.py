"""Task-net and loss-net together: SealForMultiLabel. And the small MLP task-net for feature data.

A saved folder is the plain task-net at the root, which any Hugging Face code loads, and the loss-net under
`_loss_net/`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub import HfApi, snapshot_download
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForSequenceClassification, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import find_adapter_config_file, logging

from .backbones import LIBRARIES, library_of, with_adapter
from .checkpoints import CONFIG, LOSS_NET_FOLDER, load_loss_net_weights
from .encoders import MLPConfig, MLPEncoder, MLPPreTrainedModel, task_features
from .export import ADAPTER_FILES, PLAIN_FILES, save_nets
from .loss_net import LossNet, LossNetConfig, aligned, encoder_options, without_pooler
from .spaces import SPARSE_FROM, MultiLabelSpace

logger = logging.get_logger(__name__)


class MLPForMultiLabel(MLPPreTrainedModel):
    """The MLP task-net F(x) = G T_F(x): an MLP and a label table, without bias unless `config.label_bias` (SEAL §4; the
    authors' feedforward task-net)."""

    def __init__(self, config: MLPConfig):
        super().__init__(config)
        self.encoder = MLPEncoder(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels, bias=config.label_bias)
        self.classifier.is_label_table = True
        self.post_init()

    def forward(
        self, features: Tensor, labels: Tensor | None = None, output_hidden_states: bool | None = None, **kwargs
    ) -> SequenceClassifierOutput:
        """features (B, input_size) -> logits (B, L). With `labels` (B, L), also the loss: cross-entropy summed over
        labels."""
        outputs = self.encoder(features, output_hidden_states=output_hidden_states)
        logits = self.classifier(outputs.last_hidden_state)
        loss = MultiLabelSpace().task_loss(logits, labels) if labels is not None else None
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


AutoModelForSequenceClassification.register(MLPConfig, MLPForMultiLabel)


class SealForMultiLabel(nn.Module):
    """A multi-label task-net and its loss-net.

    Args:
        task_net: any model with logits (B, L) and a config.
        loss_net: see [`LossNet`].
    """

    def __init__(self, task_net: PreTrainedModel, loss_net: LossNet):
        super().__init__()
        self.task_net = task_net
        self.loss_net = loss_net
        self.space = MultiLabelSpace()

    @property
    def config(self):
        """The task-net's configuration."""
        return self.task_net.config

    def forward(self, **inputs: Tensor) -> SequenceClassifierOutput:
        """The task-net alone, as at prediction time."""
        return self.task_net(**inputs)

    def energy(self, y: Tensor, **inputs: Tensor) -> Tensor:
        """Energies of label sets.

        Args:
            y: (B, L) or (B, S, L), entries in [0, 1].
            inputs: the task-net's inputs, without labels.

        Returns:
            (B,) or (B, S), lower = better.
        """
        features = None
        if self.loss_net.config.encoder_mode == "shared":
            outputs = self.task_net(**inputs, output_hidden_states=True)
            features = task_features(outputs, inputs, type(self.task_net).__name__)
        energies = self.loss_net(y if y.dim() == 3 else y.unsqueeze(1), None, inputs, features)
        return energies if y.dim() == 3 else energies.squeeze(1)

    @torch.no_grad()
    def predict(self, threshold: float | None = None, **inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities (B, L), and decisions (B, L) at `threshold`; default: the tuned one of the config, else 0.5.

        Without dropout: the task-net is put into evaluation mode, where training had left it in the other.
        """
        logits = self.task_net.eval()(**inputs).logits
        if threshold is None:
            tuned = getattr(self.config, "threshold", None)
            threshold = 0.5 if tuned is None else tuned
        return self.space.relax(logits), self.space.decode(logits, threshold)

    # --- building ----------------------------------------------------------------------------------------------------

    @classmethod
    def for_data(
        cls,
        data,
        model_name_or_path: str | None = None,
        *,
        loss_net_encoder: str = "separate",
        adapter: Any = None,
        global_size: int = 200,
        hidden_size: int = 400,
        num_layers: int = 2,
        dropout: float = 0.0,
        label_bias: bool | None = None,
        **kwargs,
    ) -> SealForMultiLabel:
        """Both nets for a data set of [`load_multilabel`].

        Args:
            data: has `kind` and `label_names`; `num_features` and `scaling` for features; `label_rates` where the
                output layer has a bias.
            model_name_or_path: a Hugging Face encoder or classifier; for text data.
            loss_net_encoder, adapter: see [`from_pretrained`]; features take `separate` or `shared`, and no adapter.
            global_size: width of the loss-net's global term.
            hidden_size, num_layers, dropout: of the MLPs, for feature data.
            label_bias: whether the MLP task-net has a bias, which starts at the labels' log-odds; default: from
                `SPARSE_FROM` labels on, where samples must hold few of them.

        Raises:
            ValueError: text data without `model_name_or_path`; adapters for feature data.
        """
        names = list(data.label_names)
        labels = {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}
        if model_name_or_path is not None:
            return cls.from_pretrained(
                model_name_or_path,
                loss_net_encoder=loss_net_encoder,
                adapter=adapter,
                global_size=global_size,
                num_labels=len(names),
                label_rates=data.label_rates,
                **labels,
                **kwargs,
            )
        if data.kind != "features":
            raise ValueError(
                f"`model_name_or_path` is missing: {data.name!r} is text and needs a Hugging Face encoder, "
                "for example --model_name_or_path distilbert-base-uncased."
            )
        if adapter is not None or loss_net_encoder in LIBRARIES:
            raise ValueError(
                f"`adapter` is {adapter!r} and `loss_net_encoder` {loss_net_encoder!r}, but {data.name!r} is feature "
                "data: its MLP has no pretrained base to adapt. Use loss_net_encoder='separate' or 'shared'."
            )
        config = MLPConfig(
            input_size=data.num_features,
            hidden_size=hidden_size,
            num_layers=num_layers,
            dropout=dropout,
            label_bias=len(names) >= SPARSE_FROM if label_bias is None else label_bias,
            problem_type=MultiLabelSpace.problem_type,
            **labels,
        )
        task_net = MLPForMultiLabel(config)
        if config.label_bias:
            _set_bias(task_net.classifier.bias, data.label_rates)
        seal = cls(task_net, cls._fresh_loss_net(task_net, None, loss_net_encoder, global_size))
        if data.scaling is not None:
            for encoder in (net.encoder for net in (task_net, seal.loss_net) if net.encoder is not None):
                encoder.set_scaling(data.scaling)
        return seal

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | Path,
        *,
        loss_net_encoder: str | None = None,
        adapter: Any = None,
        adapter_rank: int | None = None,
        adapter_targets: str | list[str] | None = None,
        global_size: int = 200,
        label_rates: np.ndarray | None = None,
        **kwargs,
    ) -> SealForMultiLabel:
        """Both nets from a saved SEAL folder or repo; or a plain encoder or classifier, with a fresh loss-net, which
        is said. In evaluation mode, and from safetensors only, as nothing is unpickled.

        Args:
            model_name_or_path: folder or Hub id.
            loss_net_encoder: `separate` (default for a fresh loss-net), `shared`, `peft` or `adapters`; a saved
                loss-net of another kind is refused.
            adapter: train an adapter on a frozen base, not the whole task-net: `lora`, `dora`, `ia3` or a PEFT
                configuration; `pfeiffer`, `houlsby`, `parallel` with the `adapters` library. With `peft` and `adapters`
                the loss-net has a second one of the same kind in the same base; the first of its list is the default.
            adapter_rank: of a LoRA (default 8), or the width of a bottleneck (default: a sixteenth of the encoder's).
            adapter_targets: the modules a LoRA sits in, as PEFT takes them: names, or `all-linear`.
            global_size: width of a fresh loss-net's global term.
            label_rates: (L,) share of the training rows with each label, in (0, 1): where a fresh classifier starts, if
                it has a bias (Lin et al. 2017, §3.3), instead of at one half.
            kwargs: for the task-net's `from_pretrained` (`num_labels`, `id2label`, `revision`, `token`, ...).

        Raises:
            ValueError: the saved nets are of another kind than asked for, or for another number of labels.
            OSError: no such folder or repo, or no safetensors in it.
        """
        kwargs = {
            "problem_type": MultiLabelSpace.problem_type,
            "dtype": torch.float32,
            **kwargs,
            "use_safetensors": True,
        }
        name = str(model_name_or_path)
        hub = {key: kwargs[key] for key in ("revision", "token", "cache_dir", "local_files_only") if key in kwargs}
        try:
            task_net, loading = _load_task_net(name, kwargs, hub)
        except RuntimeError as error:
            raise ValueError(
                f"The weights in {model_name_or_path} do not have the shapes asked for (num_labels="
                f"{kwargs.get('num_labels', 'as saved')}). For another label set than the saved classifier's, pass "
                f"ignore_mismatched_sizes=True: the classifier then starts anew. {error}"
            ) from error
        if label_rates is not None:
            _start_at_rates(task_net, loading, label_rates)
        folder = _find_loss_net(name, hub)
        if folder is None or LossNetConfig.from_pretrained(folder).encoder_mode not in LIBRARIES:
            task_net = with_adapter(task_net, loss_net_encoder, adapter, adapter_rank, adapter_targets)
        if folder is None:
            mode = loss_net_encoder or "separate"
            logger.warning(f"No {LOSS_NET_FOLDER}/ in {model_name_or_path}: built a fresh loss-net (encoder: {mode}).")
            loss_net = cls._fresh_loss_net(task_net, name, mode, global_size, hub)
            return aligned(cls(task_net, loss_net)).eval()
        loss_net = _load_loss_net(task_net, folder)
        found, labels = loss_net.config.encoder_mode, loss_net.config.num_labels
        if loss_net_encoder not in (None, found) or labels != task_net.config.num_labels:
            raise ValueError(
                f"The loss-net in {model_name_or_path} has encoder {found!r} and {labels} labels; asked for "
                f"{loss_net_encoder or found!r} and {task_net.config.num_labels}. Remove {LOSS_NET_FOLDER}/ to "
                f"start a fresh one."
            )
        return aligned(cls(task_net, loss_net)).eval()

    @staticmethod
    def _fresh_loss_net(
        task_net: PreTrainedModel, pretrained: str | None, mode: str, global_size: int, hub: dict | None = None
    ) -> LossNet:
        """A loss-net for this task-net. A separate encoder starts from the same pretrained weights, if there are
        any."""
        encoder, config = None, task_net.config
        if mode == "separate" and pretrained is not None:
            encoder = AutoModel.from_pretrained(pretrained, dtype=torch.float32, use_safetensors=True, **(hub or {}))
            config = encoder.config
        feature_size = config.hidden_size
        loss_net = LossNet(
            LossNetConfig(
                space=MultiLabelSpace.name,
                encoder_mode=mode,
                encoder_config=encoder_options(config) if mode == "separate" else None,
                feature_size=feature_size,
                head_layers=1 if mode == "shared" else 0,
                hidden_size=feature_size,
                global_size=global_size,
                num_labels=task_net.config.num_labels,
            )
        )
        loss_net.config.id2label, loss_net.config.label2id = task_net.config.id2label, task_net.config.label2id
        if mode in LIBRARIES:
            loss_net.attach(LIBRARIES[mode].loss_adapter(task_net))
        if encoder is not None:
            loss_net.encoder = without_pooler(encoder)
        return loss_net

    # --- saving ------------------------------------------------------------------------------------------------------

    def save_pretrained(self, folder: str | Path, *, adapter_export: str = "auto", **kwargs) -> None:
        """The plain task-net at the root of `folder`, the loss-net in `_loss_net/`; both as safetensors. Adapters are
        merged where they can be, unless `adapter_export="adapter"`; see [`save_nets`]."""
        save_nets(self.task_net, self.loss_net, folder, adapter_export, **kwargs)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        include_loss_net: bool = False,
        adapter_export: str = "auto",
        private: bool | None = None,
        token: str | None = None,
    ) -> str:
        """Push the task-net, a plain model, to the Hub; with `include_loss_net`, the loss-net too. Returns the repo's
        URL. A loss-net pushed before belongs to another task-net: it is replaced, or removed where none is included."""
        api = HfApi(token=token)
        url = api.create_repo(repo_id, private=private, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder, adapter_export=adapter_export)
            api.upload_folder(
                repo_id=url.repo_id,
                folder_path=folder,
                commit_message="Upload SEAL task-net" + (" and loss-net" if include_loss_net else ""),
                ignore_patterns=None if include_loss_net else [f"{LOSS_NET_FOLDER}/*"],
                delete_patterns=[f"{LOSS_NET_FOLDER}/*", *ADAPTER_FILES, *PLAIN_FILES],
            )
        return str(url)


def _start_at_rates(task_net: PreTrainedModel, loading: dict, rates: np.ndarray) -> None:
    """The bias of the output layer, the last one of L values, becomes the labels' log-odds if no file held it."""
    mismatched = (key if isinstance(key, str) else key[0] for key in loading["mismatched_keys"])  # 5 adds both shapes
    fresh = {*loading["missing_keys"], *mismatched}
    biases = [
        parameter
        for name, parameter in task_net.named_parameters()
        if name in fresh and name.endswith("bias") and parameter.shape == (len(rates),)
    ]
    if biases:
        _set_bias(biases[-1], rates)


def _set_bias(bias: nn.Parameter, rates: np.ndarray) -> None:
    bias.data.copy_(torch.logit(torch.as_tensor(rates)))


def _load_task_net(name: str, kwargs: dict, hub: dict) -> tuple[nn.Module, dict]:
    """The task-net of a folder or repo, and what transformers says of the loading: plain, or adapters on their base."""
    if find_adapter_config_file(name, **hub) is None:
        return AutoModelForSequenceClassification.from_pretrained(name, **kwargs, output_loading_info=True)
    patterns = [*ADAPTER_FILES, f"{LOSS_NET_FOLDER}/config.json"]
    folder = Path(name) if Path(name).is_dir() else Path(snapshot_download(name, allow_patterns=patterns, **hub))
    if (folder / LOSS_NET_FOLDER / CONFIG).is_file():  # no configuration lies beside an adapter: the labels' names do
        labels = LossNetConfig.from_pretrained(folder / LOSS_NET_FOLDER)
        kwargs = {"id2label": labels.id2label, "label2id": labels.label2id, **kwargs}
    options = {key: value for key, value in kwargs.items() if key not in ("revision", "token")}  # they are the folder's
    for library in LIBRARIES.values():
        task_net = library.from_folder(folder, **options)
        if task_net is not None:
            return task_net, {"missing_keys": [], "mismatched_keys": []}
    raise OSError(f"{name} has an adapter_config.json, but no adapter's weights as safetensors beside it.")


def _load_loss_net(task_net: nn.Module, folder: str) -> LossNet:
    """The loss-net of `folder`; one that encodes through an adapter needs the base of the task-net beside it."""
    config = LossNetConfig.from_pretrained(folder)
    if config.encoder_mode not in LIBRARIES:
        return LossNet.from_pretrained(folder, dtype=torch.float32, use_safetensors=True)
    library = LIBRARIES[config.encoder_mode]
    if library_of(task_net) is not library:
        raise ValueError(
            f"The loss-net in {folder} is an adapter ({library.mode}) in the frozen base of its task-net, but the "
            f"task-net beside it is plain. Remove {LOSS_NET_FOLDER}/ to start a fresh loss-net."
        )
    loss_net = LossNet(config).attach(library.loss_adapter(task_net, config.encoder_config))
    load_loss_net_weights(loss_net, Path(folder).parent)
    return loss_net


def _find_loss_net(name: str, hub: dict) -> str | None:
    """Path of the loss-net's folder, of a local folder or a Hub repo; None where there is none."""
    root = Path(name)
    if not root.is_dir():
        root = Path(
            snapshot_download(
                name, allow_patterns=[f"{LOSS_NET_FOLDER}/config.json", f"{LOSS_NET_FOLDER}/*.safetensors"], **hub
            )
        )
    folder = root / LOSS_NET_FOLDER
    return str(folder) if (folder / "config.json").is_file() else None
