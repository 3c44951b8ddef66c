"""The origin of a task-net: the Hub id behind a local folder, a cached snapshot, or a folder trained from one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import yaml
from huggingface_hub import metadata_load, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
SNAPSHOT = re.compile(r"models--([^/\\]+)[/\\]snapshots[/\\]")  # in the Hub's cache
CHECKPOINT = re.compile(r"checkpoint-\d+")


class Origin(NamedTuple):
    """The checkpoint that a task-net began from.

    Attributes:
        name: an id on the Hub, or the last part of a local path.
        hub_id: that id; for a local folder, the id it was trained from by its own account; None if unknown.
    """

    name: str
    hub_id: str | None


def origin_of(name: str | Path | None) -> Origin | None:
    """The origin of a checkpoint by its name or path, without a request to the Hub."""
    place, first, seen = str(name or ""), "", set()
    while place and place not in seen:
        seen.add(place)
        if (hub_id := _hub_id(place)) is not None:
            return Origin(first or hub_id, hub_id)
        first = first or last_part(place)
        place = _trained_from(Path(place))
    return Origin(first, None) if first else None


def is_local(name: str) -> bool:
    """True for a path, False for an id or a plain name."""
    return Path(name).is_absolute() or name.startswith((".", "~")) or "\\" in name or Path(name).exists()


def is_hub_id(name: str) -> bool:
    """True for `owner/name`."""
    return HUB_ID.fullmatch(name) is not None


def last_part(path: str) -> str:
    """The last part of a path: others need not see the rest."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1] if not Path(path).exists() else Path(path).resolve().name


def _hub_id(name: str) -> str | None:
    if snapshot := SNAPSHOT.search(name):
        return snapshot[1].replace("--", "/")
    if is_local(name) or CHECKPOINT.search(name):
        return None
    if is_hub_id(name):
        return name
    try:  # an id without owner, such as `gpt2`, is known by the cache
        return name if isinstance(try_to_load_from_cache(name, "config.json"), str) else None
    except HFValidationError:
        return None


def _trained_from(folder: Path) -> str:
    """The base that a folder names in its card, or its adapter's or model's configuration; else ""."""
    for found in (
        _card(folder).get("base_model"),
        _json(folder / "adapter_config.json").get("base_model_name_or_path"),
        _json(folder / "config.json").get("_name_or_path"),
    ):
        if isinstance(found, list) and len(found) == 1:
            (found,) = found
        if isinstance(found, str) and found:
            return found
    return ""


def _card(folder: Path) -> dict:
    try:
        return metadata_load(folder / "README.md") or {}
    except (OSError, ValueError, yaml.YAMLError):
        return {}


def _json(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
