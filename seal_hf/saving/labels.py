"""The labels of a saved classifier, and what happens if the data has others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers.utils import logging

from ..utils.gate import config_of
from ..utils.messages import few
from .export import read_decisions

logger = logging.get_logger(__name__)


def label_maps(names: Sequence[str]) -> dict[str, dict]:
    """`id2label` and `label2id` for a config."""
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


def hub_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The options of `from_pretrained` for access to the Hub, such as `revision` and `token`."""
    return {key: kwargs[key] for key in ("revision", "token", "cache_dir", "local_files_only") if key in kwargs}


def check_place(name: str) -> None:
    """Raises OSError for a path that is not a folder and cannot be an id on the Hub."""
    path = Path(name)
    if not path.exists() and (path.is_absolute() or name.startswith(".") or name.count("/") > 1):
        raise OSError(f"{name}: no such folder.")


def check_label_order(name: str, asked: dict[int, str] | None, hub: dict) -> None:
    """Check the requested labels against those of a saved classifier, whose rows are in its own order. Other labels
    give a warning, and training starts from these rows.

    Raises:
        ValueError: the requested labels are the same in another order.
    """
    if not asked or not (config := _saved_classifier(name, hub)):
        return
    saved = [label for _, label in sorted((config.get("id2label") or {}).items(), key=lambda item: int(item[0]))]
    labels = [asked[i] for i in sorted(asked)]
    if saved == labels or len(saved) != len(labels) or all(x == f"LABEL_{i}" for i, x in enumerate(saved)):
        return
    shown = few(saved, 5)
    if sorted(saved) == sorted(labels):
        raise ValueError(
            f"The classifier in {name} has the data's labels in another order: {shown}. Give the data's labels in "
            "this order, or start from an encoder without a classifier."
        )
    logger.warning(f"The classifier in {name} was trained for other labels ({shown}): training starts from its rows.")


def for_other_labels(name: str, asked: dict[int, str], kwargs: dict[str, Any]) -> dict[str, bool]:
    """Options of `from_pretrained` for a saved classifier whose number of labels differs from the data's. Classifier
    and loss-net then start from fresh weights, with a warning.

    Raises:
        ValueError: the data's labels are only some of the classifier's, which would be lost needlessly, unless
            `ignore_mismatched_sizes` is set; or the classifier is saved with an adapter and cannot be replaced.
        OSError: there is no such folder.
    """
    check_place(name)
    config = _saved_classifier(name, hub_options(kwargs))
    saved = list((config.get("id2label") or {}).values())
    if not saved or len(saved) == len(asked):
        return {}
    wanted = set(asked.values())
    missing = [label for label in saved if label not in wanted]
    if len(missing) == len(saved) - len(asked) and "ignore_mismatched_sizes" not in kwargs:
        raise ValueError(
            f"The classifier in {name} has {len(saved)} labels, but the data lacks {', '.join(missing[:5])}. Name "
            f"all {len(saved)} in the data, in the classifier's order, or start from an encoder without a classifier."
        )
    if "architectures" not in config:  # an adapter's
        raise ValueError(
            f"The classifier in {name} has {len(saved)} labels, the data {len(asked)}, but it is saved with an "
            "adapter and cannot be replaced. Start from the model that the adapter is for."
        )
    logger.warning(f"The classifier in {name} has {len(saved)} labels, the data {len(asked)}: it gets fresh weights.")
    return {"ignore_mismatched_sizes": True, "fresh_loss_net": True}


def _saved_classifier(name: str, hub: dict) -> dict:
    """The configuration with the labels of a saved classifier's rows; empty if there is none."""
    try:
        config = config_of(name, hub)
    except OSError:  # transformers 4 on an adapter's folder; or it is missing, which the loader reports
        config = {}
    if not config:  # an adapter's folder
        return read_decisions(name, hub)
    return config if any("For" in architecture for architecture in config.get("architectures") or ()) else {}
