"""The common settings of all results in a folder, which make them fit for one table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...cli.tuning.search import has_trials
from ...utils.recorded import recorded
from .runs import METHOD, Runs

Settings = Mapping[str, Any]
EVERY_RUN = {  # the epoch is chosen on validation by one metric; nothing else is written
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 1,
    "save_only_model": True,
    "load_best_model_at_end": True,
    "greater_is_better": True,
    "push_to_hub": False,
    "report_to": "none",
    "disable_tqdm": True,
}
# what files say that were written before they said it; all of these are of label sets
EARLIER = {"finalists": 1, "held": "", "metric": "f1_example_tuned"}


def claim_folder(runs: Runs, ours: Settings) -> None:
    """Record in a folder the common settings of its results: data set, its settings, search and metric. Of the folders
    among them, such as an encoder's, it has the last two names. The record of a mistaken command is replaced if it left
    no run and no trial.

    Raises:
        ValueError: the folder's results have other settings (names the first), or no record.
    """
    theirs, begun = runs.identity(), runs.any() or has_trials(runs.work("search"))
    ours, theirs = without_places(ours), theirs and without_places(theirs)
    if theirs is None and begun:
        raise ValueError(
            f"{runs.folder} holds results, but lacks comparison.json with their settings. Put it back, or choose "
            "another --output_dir."
        )
    if theirs is not None:
        unsaid = {key: ours[key] for key in ("flags", "files", "contents")}
        theirs = _with_unsaid({**EARLIER, **unsaid, **theirs}, ours)
        key = _difference(theirs, ours)
        if key is None:
            return
        if begun:
            raise ValueError(
                f"{runs.folder} holds results with {key} = {theirs.get(key)!r}, not {ours.get(key)!r}: they "
                "do not belong in one table. Choose another --output_dir, or the same settings."
            )
        runs.clear()
    runs.save_identity(ours)


def check_methods(runs: Runs, methods: Mapping[str, tuple[Settings, Mapping[str, Settings], str]]) -> None:
    """Check that all runs of a method have the same settings and come from one search, since a recipe or method may
    have been edited. A file without these settings passes.

    Args:
        methods: name -> (the settings that define the method, the parts that identify its search, the method whose
            search it uses; that one's parts are checked with it).

    Raises:
        ValueError: names what differs.
    """
    finished = runs.all()
    for name, (own, sought, owner) in methods.items():
        found = runs.settings(owner) or {}
        searched = [run["seed"] for run in finished.get(name, ()) if run.get("searched")]
        if searched and not found:
            raise ValueError(
                f"{runs.folder / name} holds a run (seed {searched[0]}) with settings from a search, but "
                f"{'it' if owner == name else owner} lacks the search's settings.json: another seed would get others. "
                "Put it back, or delete that folder."
            )
        said = [(f"a search ({part})", found.get(part), ours) for part, ours in sought.items() if owner == name]
        for run in finished.get(name, ()):
            theirs = run.get(METHOD)
            if theirs is not None:  # perhaps a file of before these were the same in every run
                theirs = {key: value for key, value in theirs.items() if key not in (*EVERY_RUN, "seed")}
            said.append((f"a run (seed {run['seed']})", theirs, own))
            if found:
                said.append((f"a run (seed {run['seed']})", texts(run["searched"]), texts(found["settings"])))
        for what, theirs, ours in said:
            theirs = theirs and _with_unsaid(theirs, ours)
            if theirs is not None and (key := _difference(theirs, ours)):
                raise ValueError(
                    f"{runs.folder / name} holds {what} with {key} = {theirs.get(key)!r}, not {ours.get(key)!r}: the "
                    "two are not one method. Delete that folder, choose another --output_dir, or give the method "
                    "another name."
                )


def files_in(settings: Settings) -> str:
    """A hash of the files that settings name, such as word vectors, and of the configs and sizes of nets that they
    name, such as an encoder; "" without any. Rules have a hash of their own."""
    parts = []
    for path in (Path(value) for key, value in sorted(settings.items()) if isinstance(value, str) and key != "rules"):
        if path.is_file():
            parts.append(hashlib.sha256(path.read_bytes()).digest())
        elif (config := path / "config.json").is_file():
            sizes = sorted((file.name, file.stat().st_size) for file in path.iterdir() if file.suffix == ".safetensors")
            parts.append(config.read_bytes() + repr(sizes).encode())
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16] if parts else ""


def texts(settings: Settings) -> dict[str, str]:
    """Settings as texts, without secrets: runs with other tokens are of one method."""
    return recorded({key: str(value) for key, value in settings.items()})


def without_places(settings: Settings) -> dict[str, Any]:
    """Settings with the last two names of each folder on this machine."""
    places = {key for key, value in settings.items() if isinstance(value, str) and Path(value).is_absolute()}
    return {key: "/".join(Path(value).parts[-2:]) if key in places else value for key, value in settings.items()}


def _with_unsaid(theirs: Settings, ours: Settings) -> dict[str, Any]:
    """Settings on file with what was meant where they do not say how features are normalised."""
    return {**({"normalize": "none"} if "normalize" in ours else {}), **theirs}


def _difference(theirs: Settings, ours: Settings) -> str | None:
    """The first key with another value; `contents` comes last, since a hash tells least."""
    keys = sorted(ours.keys() | theirs.keys(), key=lambda key: (key == "contents", key))
    return next((key for key in keys if not _same(theirs.get(key), ours.get(key))), None)


def _same(a: Any, b: Any) -> bool:
    """True for equal values; 0.001 and 1e-3 are the same number, also as texts."""
    try:
        return a == b or float(a) == float(b)
    except (TypeError, ValueError):
        return False
