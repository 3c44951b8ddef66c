"""The form in which nets are saved: plain weights for others, only adapters in checkpoints and on request."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import cached_file, logging

from ..core.decisions import FOLDABLE
from ..core.masks import log_odds
from ..core.task import DECISIONS
from ..loss_net.loss_net import LOSS_NET_FOLDER, LossNet
from ..nets.adapters import LIBRARIES, AdapterLibrary, LossAdapter, check_adapters, library_of
from ..nets.adapters.peft import as_json, quantization_of
from ..nets.encoders import encoder_options, without_pooler
from ..nets.heads import blank_images, reads_images
from ..nets.text_pooling import PooledConfig
from ..utils.faults import writing
from ..utils.files import json_object
from ..utils.modules import in_evaluation
from .loss_net import save_loss_net

logger = logging.get_logger(__name__)


ADAPTER_EXPORTS = ("auto", "merged", "adapter")
# as patterns; large weights come in shards
PLAIN_FILES = ("config.json", "model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
DECISIONS_FILE = "seal_decisions.json"  # the part of the task-net's config that an adapter's files cannot hold
ADAPTER_FILES = (
    *("adapter_config.json", "adapter_model.safetensors", "adapter.safetensors"),
    *("head_config.json", "model_head.safetensors", DECISIONS_FILE),
)
# keys of a task-net's config about its predictions; `pad_token_id`: a decoder's, by which its head finds the last token
SAID_BESIDE = ("decisions", "label_hierarchy", "inputs", "constrained_decoding", "pad_token_id", "verdict")
READING = "reading"  # beside them: how a classifier of ours reads the tokens of the adapter's base
QUANTIZATION = "quantization_config"  # beside them: how the base of an adapter was quantised

ADAPTER_IS_NOT_FOLDED = (
    "`fold_decision` is True, but the task-net is saved as an adapter, whose library loads its own classifier. "
    "Use adapter_export='merged', if its adapters can be merged, or leave it out."
)


def saves_merged(task_net: nn.Module, adapter_export: str) -> bool:
    """Whether the task-net is saved as plain weights.

    It is, unless it has an adapter that is to be kept or cannot be merged.

    Raises:
        ValueError: `adapter_export` is "merged", but the adapters cannot be merged.
    """
    library = library_of(task_net)
    if library is None or adapter_export == "adapter":
        return library is None
    if adapter_export == "merged" and not library.mergeable(task_net):
        bits = quantization_of(task_net)
        why = f": their base is quantised, and the sum would be rounded to {bits} again" if bits else ""
        raise ValueError(
            f"`adapter_export` is 'merged', but the task-net's adapters ({library.mode}) cannot be merged into plain "
            f"weights{why}. Use 'adapter', or 'auto'."
        )
    return library.mergeable(task_net)


def save_nets(
    task_net: PreTrainedModel,
    loss_net: LossNet | None,
    folder: str | Path,
    adapter_export: str = "auto",
    fold_decision: bool = False,
    keep_loss_net: bool = False,
    **kwargs: Any,
) -> None:
    """Write the task-net to `folder` and the loss-net to `folder/_loss_net/`, as safetensors.

    Merged, both nets are plain: the loss-net gets its own encoder, the frozen base with its adapter merged, since the
    merged base is the task-net's alone. A folder has one form: files of the other form, from an earlier save, are
    removed.

    Args:
        adapter_export: `merged`, `adapter`, or `auto`: merged if possible. Without effect if there are no adapters.
        fold_decision: save a classifier whose bias holds the stored decision, see [`folded`].
        keep_loss_net: without a loss-net to write, leave the folder's own.
        kwargs: for the task-net's `save_pretrained`, if it is plain.

    Raises:
        ValueError: the adapters cannot be saved in this form, no bias can hold the decision, or `folder` is a file.
    """
    if Path(folder).is_file():  # transformers logs it and saves nothing
        raise ValueError(f"`folder` is {str(folder)!r}, which is a file. Give a folder.")
    check_adapters(task_net)
    library = library_of(task_net)
    merged = saves_merged(task_net, adapter_export)
    if library is None:
        _save_plain(task_net, folder, fold_decision, kwargs)
    elif not merged:
        if fold_decision:
            raise ValueError(ADAPTER_IS_NOT_FOLDED)
        library.save(task_net, folder)
        _write_decisions(task_net, folder)
    else:
        _save_plain(library.merged(task_net), folder, fold_decision, kwargs)
        if loss_net is not None and loss_net.config.encoder_mode in LIBRARIES:
            loss_net = _with_own_encoder(loss_net, library)
    for pattern in ADAPTER_FILES if merged else PLAIN_FILES:
        for old in Path(folder).glob(pattern):
            old.unlink()
    if loss_net is not None or not keep_loss_net:
        save_loss_net(loss_net, folder)


def _save_plain(task_net: PreTrainedModel, folder: str | Path, fold_decision: bool, kwargs: dict[str, Any]) -> None:
    with folded(task_net) if fold_decision else nullcontext(), writing(folder):
        task_net.save_pretrained(folder, **kwargs)


def _write_decisions(task_net: PreTrainedModel, folder: str | Path) -> None:
    """Write label names and decisions of a task-net that is saved as an adapter. A configuration file beside an adapter
    would make the folder a plain model."""
    config = task_net.config
    said = {name: value for name in SAID_BESIDE if (value := getattr(config, name, None)) is not None}
    if isinstance(config, PooledConfig):
        said[READING] = config.reading()
    if quantization_of(task_net) is not None:
        said[QUANTIZATION] = as_json(task_net)
    text = json.dumps({"id2label": config.id2label, **said}, indent=1, ensure_ascii=False)
    Path(folder, DECISIONS_FILE).write_text(text + "\n", encoding="utf-8")


def read_decisions(name: str, hub: dict) -> dict:
    """The decisions that [`save_nets`] wrote beside an adapter, from a folder or repo; empty if there are none.

    Raises:
        ValueError: the file does not hold a JSON object.
    """
    try:
        path = str(cached_file(name, DECISIONS_FILE, **hub))
    except (OSError, HFValidationError):  # missing, or neither a folder nor an id; the loader reports it
        return {}
    return json_object(Path(path), "Was it saved completely?")


def upload_nets(
    folder: str,
    repo_id: str,
    include_loss_net: bool,
    private: bool | None,
    token: str | None,
    revision: str | None,
    commit_message: str | None,
) -> str:
    """Upload what [`save_nets`] wrote, and return the URL of the repo.

    It replaces the nets in the repo. A branch that does not exist is made.
    """
    api = HfApi(token=token)
    url = api.create_repo(repo_id, private=private, exist_ok=True)
    make_branch(url.repo_id, revision, token)
    api.upload_folder(
        repo_id=url.repo_id,
        folder_path=folder,
        revision=revision,
        commit_message=commit_message or "Upload SEAL task-net" + " and loss-net" * include_loss_net,
        ignore_patterns=None if include_loss_net else [f"{LOSS_NET_FOLDER}/*"],
        delete_patterns=[f"{LOSS_NET_FOLDER}/*", *ADAPTER_FILES, *PLAIN_FILES],
    )
    tell_local_base(folder)
    return str(url)


def tell_local_base(folder: str | Path) -> None:
    """Warn if `folder` holds an adapter that others cannot load, since its base is a folder of this machine."""
    file = Path(folder, "adapter_config.json")
    said = json_object(file, "Was it saved completely?") if file.is_file() else {}
    base = said.get("base_model_name_or_path") or said.get("model_name")  # of PEFT; of `adapters`
    if base and Path(base).is_dir():
        logger.warning(
            f"The adapter was pushed without its base {base}, a folder of this machine, so that others cannot load it. "
            "Push it with adapter_export='merged', or push the base too and train from its name on the Hub."
        )


def make_branch(repo_id: str, revision: str | None, token: str | None = None) -> None:
    """Make the branch to push to if it is missing, as `PreTrainedModel.push_to_hub` does but the Trainer does not."""
    if revision is not None and not revision.startswith("refs/"):
        HfApi(token=token).create_branch(repo_id, branch=revision, exist_ok=True)


def remove_stale(repo_id: str, merged: bool, token: str | None = None, revision: str | None = None) -> None:
    """Delete what the next push to a repo does not replace.

    That is a loss-net, and the task-net in its other form: the adapter if `merged`, else the plain weights.
    """
    api = HfApi(token=token)
    others = ADAPTER_FILES if merged else PLAIN_FILES
    there = api.list_repo_files(repo_id, revision=revision)
    stale = [name for name in there if any(fnmatch(name, old) for old in (*others, f"{LOSS_NET_FOLDER}/*"))]
    if stale:
        message = "Remove files of an earlier push"
        api.delete_files(repo_id, delete_patterns=stale, revision=revision, commit_message=message)


def _with_own_encoder(loss_net: LossNet, library: AdapterLibrary) -> LossNet:
    """A `separate` loss-net with the same energies."""
    assert isinstance(loss_net.encoder, LossAdapter)
    encoder = cast(PreTrainedModel, library.merged(loss_net.encoder.model, loss_adapter=True).base_model)
    config = copy.deepcopy(loss_net.config)
    config.encoder_mode, config.encoder_config = "separate", encoder_options(encoder.config)
    plain = LossNet(config)
    plain.encoder = without_pooler(encoder)
    plain.head.load_state_dict(loss_net.head.state_dict())
    plain.energy.load_state_dict(loss_net.energy.state_dict())
    return plain


# An export whose classifier's bias holds the decision: code that cuts scores at 0.5 then decides as validation chose.
# σ(z) >= t if and only if σ(z - logit(t)) >= 1/2. So the bias of a label is lowered by the logit of its threshold; for
# masks, the bias of the foreground's channel is.


@contextmanager
def folded(task_net: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """The task-net with its stored decision in the bias, and a config that says so; restored when the block ends.

    Raises:
        ValueError: no decision is stored, it is not a threshold, masks have several classes, or no bias can hold the
            decision, see [`check_foldable`].
    """
    config: Any = task_net.config
    of_masks = "masks" if config.num_labels > 2 else "binary_mask"
    kind: Any = DECISIONS["multi_label" if _of_labels(task_net) else of_masks]
    kind.check_has_threshold()
    decisions = kind.from_config(config)
    saved = getattr(config, "decisions", None)
    if saved is None:
        raise ValueError(
            "`fold_decision` is True, but no decision is stored: call `trainer.fit_decisions(validation_rows)` first."
        )
    if decisions.decoder not in FOLDABLE:
        raise ValueError(
            f"`fold_decision` is True, but the decoder is {decisions.decoder!r}, not a threshold, so no bias can "
            f"hold it. Fit one of {', '.join(FOLDABLE)}: `trainer.fit_decisions(rows, decoder='threshold')`, or "
            "--decoder threshold."
        )
    offsets = torch.as_tensor(decisions.offsets(), dtype=torch.float32, device=task_net.device)
    if offsets.dim() and len(offsets) != config.num_labels:
        raise ValueError(
            f"`config.decisions` has {len(offsets)} thresholds, but the task-net has {config.num_labels} labels: fit "
            "the decisions again."
        )
    with _lowered(task_net, offsets) if offsets.any() else nullcontext():
        config.decisions = (decisions if decisions.folded else decisions.after_folding()).as_json()
        try:
            yield task_net
        finally:
            config.decisions = saved


def check_foldable(task_net: PreTrainedModel) -> None:
    """Raises ValueError if no bias can hold a threshold: none shifts the scores by the amount it is changed, or its
    precision is too coarse."""
    with _lowered(task_net, torch.tensor(1.0, device=task_net.device)):
        pass


@contextmanager
def _lowered(task_net: PreTrainedModel, offsets: Tensor) -> Iterator[None]:
    """The task-net with its scores lowered by `offsets`, one number or one per label; for masks, the foreground's."""
    config: Any = task_net.config
    if task_net.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"`fold_decision` is True, but the weights are {str(task_net.dtype).removeprefix('torch.')}, too coarse "
            "for a bias to hold a threshold. Save the net as float32 (model.float()), or leave it out."
        )
    if getattr(config, "crop_size", None):
        raise ValueError(
            "`fold_decision` is True, but the net averages over crops, and no bias shifts their mean by the amount it "
            "is changed. Leave it out."
        )
    by = torch.zeros(config.num_labels, device=task_net.device)
    by[slice(None) if _of_labels(task_net) else -1] = offsets
    layer, bias = _found_bias(task_net, by, offsets)
    kept, values = layer.bias, bias.detach().clone()
    layer.bias = bias
    bias.data -= by.to(bias.dtype)
    if kept is None:
        config.label_bias = True
    try:
        yield
    finally:
        layer.bias, bias.data = kept, values
        if kept is None:
            config.label_bias = False


def _found_bias(task_net: PreTrainedModel, by: Tensor, offsets: Tensor) -> tuple[Any, nn.Parameter]:
    """The layer, and its bias (L,), that lowers the scores by `offsets` if it is lowered by `by`."""
    before = _scores(task_net)
    for layer, bias in _output_layers(task_net):
        kept, values = layer.bias, bias.detach().clone()
        layer.bias = bias
        bias.data -= by.to(bias.dtype)
        after = _scores(task_net)
        layer.bias, bias.data = kept, values
        if torch.allclose(before - after, offsets, atol=1e-4, rtol=1e-4):
            return layer, bias
    raise ValueError(
        f"`fold_decision` is True, but no bias of {type(task_net).__name__} shifts its scores by the amount it is "
        "changed: its last layer lacks one. Leave it out."
    )


def _output_layers(task_net: PreTrainedModel) -> Iterator[tuple[Any, nn.Parameter]]:
    """Layers that may give the scores, last first, each with its bias; a label table without a bias gets one."""
    layers: list[Any] = list(task_net.modules())
    for layer in reversed(layers):
        if task_net.config.num_labels in (getattr(layer, "out_features", None), getattr(layer, "out_channels", None)):
            if isinstance(layer.bias, nn.Parameter):
                yield layer, layer.bias
            elif getattr(layer, "is_label_table", False):
                yield layer, nn.Parameter(layer.weight.new_zeros(len(layer.weight)))


def _of_labels(task_net: PreTrainedModel) -> bool:
    """True if it decides label sets, False if masks."""
    return task_net.config.problem_type == "multi_label_classification"


@torch.no_grad()
def _scores(task_net: PreTrainedModel) -> Tensor:
    """The logits of some input, (1, L); for masks the foreground's log-odds, (1, h, w)."""
    config: Any = task_net.config
    if task_net.main_input_name == "features":
        inputs = {"features": torch.zeros(1, config.input_size)}
    elif reads_images(task_net):
        inputs = blank_images(task_net)
    else:
        inputs = {"input_ids": torch.arange(2, 10).unsqueeze(0), "attention_mask": torch.ones(1, 8, dtype=torch.long)}
    inputs = {name: value.to(task_net.device) for name, value in inputs.items()}
    forward = type(task_net).forward  # not accelerate's wrapper around it, which runs in half precision
    with in_evaluation(task_net):
        logits = forward(task_net, **inputs).logits.float()
    return log_odds(logits) if logits.dim() == 4 else logits
