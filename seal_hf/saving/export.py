"""The form in which nets are saved: plain weights for others, only adapters in checkpoints and on request."""

from __future__ import annotations

import copy
import json
from contextlib import nullcontext
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, cast

from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import cached_file, logging

from ..loss_net.loss_net import LOSS_NET_FOLDER, LossNet
from ..nets.adapters import LIBRARIES, AdapterLibrary, LossAdapter, check_adapters, library_of
from ..nets.adapters.quantised import as_json, quantization_of
from ..nets.encoders import encoder_options, without_pooler
from ..nets.text_pooling import PooledConfig
from ..utils.faults import writing
from ..utils.files import json_object
from .fold import folded
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
# keys of a task-net's config about its predictions; `threshold`: of nets saved before there were decoders;
# `pad_token_id`: a decoder's, by which its head finds the last token
DECISIONS = ("decisions", "label_hierarchy", "inputs", "constrained_decoding", "threshold", "pad_token_id", "verdict")
READING = "reading"  # beside them: how a classifier of ours reads the tokens of the adapter's base
QUANTIZATION = "quantization_config"  # beside them: how the base of an adapter was quantised

ADAPTER_IS_NOT_FOLDED = (
    "`fold_decision` is True, but the task-net is saved as an adapter, whose library loads its own classifier. "
    "Use adapter_export='merged', if its adapters can be merged, or leave it out."
)


def saves_merged(task_net: nn.Module, adapter_export: str) -> bool:
    """True if the task-net is saved as plain weights: always, unless it has an adapter that is wanted or unmergeable.

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
        ValueError: the adapters cannot be saved in this form, or no bias can hold the decision.
    """
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
    said = {name: value for name in DECISIONS if (value := getattr(config, name, None)) is not None}
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
    """Upload what [`save_nets`] wrote, in place of the nets in the repo; its URL. A missing branch is made."""
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
    """Delete from a repo a loss-net, and the files of the form in which the task-net is not pushed."""
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
