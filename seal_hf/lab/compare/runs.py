"""The runs of a comparison on disk: one JSON file per method and seed, written atomically; no run is done twice."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import seal_hf

from ...cli.tuning.search import has_trials
from ...utils.files import whole_file
from ...utils.messages import RETIRED
from ...utils.recorded import command_line, recorded
from .kinds import CONSTANT

METHOD = "method"  # key of a run: its method's settings
LOST = "lost"  # key of a run with a non-finite loss: the reason; such a run has no figures
ROWS = "test_rows"  # key of a run: by figure, its test rows as text, see rows.py
OUTPUT = "--output_dir"
SECONDS, AUC = "train_seconds_per_epoch", "eval_energy_auc"  # keys of a run


class Runs:
    """The results of a comparison in `folder`: METHOD/seedN.json, and METHOD/settings.json with what the search found.

    A run that diverged is recorded as lost and not tried again; delete its file to try.

    Nets and the search's data base are under `work/`, which may be deleted: nets still needed are trained anew.

    Args:
        folder: made with the first result.
        origin: what every run that is saved says of where it comes from, see [`origin`].
    """

    def __init__(self, folder: str | os.PathLike[str], origin: Mapping[str, Any] | None = None):
        self.folder, self.origin = Path(folder), origin or {}

    def work(self, *names: str) -> Path:
        """A folder for what need not be kept."""
        return self.folder.joinpath("work", *names)

    def load(self, method: str, seed: int) -> dict[str, Any] | None:
        """The figures of a finished run, or why it was lost, or None."""
        return read_run(self._file(method, seed))

    def save(self, method: str, seed: int, figures: Mapping[str, Any]) -> None:
        write_json(self._file(method, seed), {**figures, **self.origin})

    def settings(self, method: str) -> dict[str, Any] | None:
        """What the search of a method found (`settings`, `trials`, `value`) and what it searched, or None."""
        return read_settings(self.folder / method)

    def save_settings(self, method: str, found: Mapping[str, Any]) -> None:
        write_json(self.folder / method / "settings.json", found)

    def identity(self) -> dict[str, Any] | None:
        """What all results of the folder have in common: data, settings, budget; None before the first run."""
        return read_identity(self.folder)

    def save_identity(self, identity: Mapping[str, Any]) -> None:
        write_json(self.folder / "comparison.json", identity)

    def all(self) -> dict[str, list[dict[str, Any]]]:
        """Every run of every method, by seed, the lost ones too."""
        found: dict[str, list[dict[str, Any]]] = {}
        for file in sorted(self.folder.glob("*/seed*.json")):
            if (run := read_run(file)) is not None:
                found.setdefault(file.parent.name, []).append(run)
        return {method: sorted(runs, key=lambda run: run["seed"]) for method, runs in found.items()}

    def any(self) -> bool:
        """True if something took work: a run of a trained method, or a finished search."""
        files = (file for files in ("*/seed*.json", "*/settings.json") for file in self.folder.glob(files))
        return any(file.parent.name != CONSTANT for file in files)

    def clear(self) -> None:
        """Remove what took no work or need not be kept."""
        for folder in (self.work(), self.folder / CONSTANT):
            shutil.rmtree(folder, ignore_errors=True)

    def _file(self, method: str, seed: int) -> Path:
        return self.folder / method / f"seed{seed}.json"


def origin(program: str, words: Sequence[str]) -> dict[str, str]:
    """The origin of a run: the command without the folder of its results, the version, and in a checkout git's commit,
    with `-dirty` if a program differs from it.

    Args:
        program: how the command begins, such as `seal-hf compare tagging`.
        words: its flags.
    """
    befores = zip(["", *words], words, strict=False)
    said = [word for before, word in befores if OUTPUT not in (before, word) and not word.startswith(f"{OUTPUT}=")]
    checkout = Path(seal_hf.__file__).parents[1]
    git = partial(subprocess.run, cwd=checkout, capture_output=True, text=True)
    found = {"command": command_line([*program.split(), *said]), "version": seal_hf.__version__}
    with suppress(OSError):  # no git
        if (checkout / ".git").exists() and (commit := git(["git", "rev-parse", "HEAD"]).stdout.strip()):
            dirty = git(["git", "diff", "--quiet", "HEAD", "--", "seal_hf", "examples"]).returncode
            found["commit"] = commit + "-dirty" * bool(dirty)
    return found


def write_json(file: Path, content: Any) -> None:
    """Write a file completely, or leave it unchanged. It holds no secrets."""
    text = json.dumps(recorded(_without_nan(content)), indent=1, allow_nan=False) + "\n"
    with whole_file(file) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def read_run(file: Path) -> dict[str, Any] | None:
    """A run from its file, METHOD/seedN.json; None without a file. Raises ValueError as `_read`."""
    seed = int(file.stem.removeprefix("seed")) if file.stem.removeprefix("seed").isdigit() else file.stem
    return _read(file, "seed", lambda value: value == seed, "Delete it, and that run is done again.")


def read_settings(folder: Path) -> dict[str, Any] | None:
    """The result of a method's search, from the method's folder; None without one."""
    advice = f"Put a whole copy back, or delete all of {folder}, and the method is searched and run again."
    return _read(folder / "settings.json", "settings", lambda value: isinstance(value, dict), advice)


def read_identity(folder: Path) -> dict[str, Any] | None:
    """The common settings of the results in a comparison's folder; None without a record."""
    advice = "Put a whole copy back, or choose another --output_dir."
    return _read(folder / "comparison.json", "data", lambda value: isinstance(value, str), advice)


def _read(file: Path, key: str, valid: Callable[[Any], bool], advice: str) -> dict[str, Any] | None:
    """The content that `write_json` wrote; None without a file.

    Raises:
        ValueError: another content, such as a truncated copy.
    """
    if not file.is_file():
        return None
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:  # UnicodeDecodeError too
        raise ValueError(f"{file} is no JSON, as a comparison writes it: {error}. {advice}") from None
    if not isinstance(content, dict) or not valid(content.get(key)):
        found = content.get(key) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"{file} is no result of a comparison, which has `{key}`: found {found!r}. {advice}")
    return content


def _without_nan(content: Any) -> Any:
    """Replace NaN by null, as JSON has no NaN."""
    if isinstance(content, Mapping):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_without_nan(value) for value in content]
    return None if isinstance(content, float) and math.isnan(content) else content


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
NO_FIGURE = {"logging_steps", *RETIRED}  # settings that change no figure; of retired ones, the rows tell
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
    keys = sorted((ours.keys() | theirs.keys()) - NO_FIGURE, key=lambda key: (key == "contents", key))
    return next((key for key in keys if not _same(theirs.get(key), ours.get(key))), None)


def _same(a: Any, b: Any) -> bool:
    """True for equal values; 0.001 and 1e-3 are the same number, also as texts."""
    try:
        return a == b or float(a) == float(b)
    except (TypeError, ValueError):
        return False
