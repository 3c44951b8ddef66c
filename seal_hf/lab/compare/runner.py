"""The comparison itself: for every method a search, then a run per seed. The runs lie on disk, one JSON file per method
and seed, written atomically; finished work is never repeated."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from transformers import set_seed
from transformers.trainer_callback import PrinterCallback

import seal_hf

from ...cli.programs import message_of
from ...cli.search import Goal, begun, check_optuna, has_trials, search
from ...cli.train.flags import Arguments
from ...cli.train.program import Prepared
from ...data.hygiene import fingerprint
from ...training.meters import EpochClock, NonFiniteLossError
from ...utils.faults import AGAIN, DiskFullError, fault_of, writing
from ...utils.files import locked, whole_file
from ...utils.messages import RETIRED
from ...utils.options import check_value
from ...utils.recorded import command_line, recorded
from .kinds import CONSTANT, LINEAR, Kind, Methods, Scored, first_of, hold, space_of, with_requirements

logger = logging.getLogger(__name__)


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


def claim_folder(runs: Runs, ours: Settings) -> None:
    """Record in a folder what its results have in common: the data set with its settings, the search and the metric.

    Of a folder among the settings, such as an encoder's, the record keeps the last two names. A record is replaced if
    its command left no run and no trial, as a mistaken command does.

    Raises:
        ValueError: the results in the folder have other settings (the message names the first), or they have no
            record.
    """
    theirs, begun = runs.identity(), runs.any() or has_trials(runs.work("search"))
    ours, theirs = without_places(ours), theirs and without_places(theirs)
    if theirs is None and begun:
        raise ValueError(
            f"{runs.folder} holds results, but lacks comparison.json with their settings. Put it back, or choose "
            "another --output_dir."
        )
    if theirs is not None:
        theirs = _with_unsaid({"files": ours["files"], **theirs}, ours)
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
            said.append((f"a run (seed {run['seed']})", run.get(METHOD), own))
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
    """A hash of what settings name, or "" if they name nothing.

    Of files, such as word vectors, it covers the bytes; of nets, such as an encoder, the configuration and size. Rules
    have a hash of their own.
    """
    parts = []
    for path in (Path(value) for key, value in sorted(settings.items()) if isinstance(value, str) and key != "rules"):
        if path.is_file():
            parts.append(hashlib.sha256(path.read_bytes()).digest())
        elif (config := path / "config.json").is_file():
            sizes = sorted((file.name, file.stat().st_size) for file in path.iterdir() if file.suffix == ".safetensors")
            parts.append(config.read_bytes() + repr(sizes).encode())
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16] if parts else ""


def texts(settings: Settings) -> dict[str, str]:
    """Settings as texts, without secrets, so that runs which differ only in a token belong to one method."""
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


FURTHER = 2  # seeds of finalists beside that of all trials
PLACES = ("output_dir", "data_dir", "dataset")  # locations are not settings


class Comparison:
    """Methods on one data set, with equal trials, seeds and decoders.

    Args:
        runs: where the results are.
        data: as the kind's program loads them, with a labelled test split.
        base: recipe keys of the data set: sizes, batch, epochs, patience.
        kind: the kind of output.
        methods: name -> method; default: those of the kind that suit the data.
        budget: trials of each method's search, >= 0; 0: no search, only its first values.
        say: prints a line of progress.
        flags: recipe keys from the user, over `base` and over a method's first values.
        metric: one of `kind.metrics(data)`: the validation figure that chooses trials and epochs; default: the first.
        finalists: number of a search's best trials that two more seeds repeat, from 1 (none) to `budget`: the best mean
            of the three is chosen.
        held: keys that are not searched but keep the values of `flags` or a method's first values, for example those of
            a task-net that was searched without a loss-net.

    Raises:
        ValueError: no labelled test split; an impossible budget, number of finalists, metric or held key.
    """

    def __init__(
        self,
        runs: Runs,
        data: Any,
        base: Mapping[str, Any],
        kind: Kind,
        methods: Methods | None = None,
        budget: int = 0,
        say: Callable[[str], None] = print,
        flags: Mapping[str, Any] | None = None,
        metric: str | None = None,
        finalists: int = 1,
        held: Collection[str] = (),
    ):
        if not kind.is_labelled(data.test):
            raise ValueError(
                f"{data.name} has no test split with labels to compare methods on. Add one (a file or split of that "
                "name)."
            )
        if budget < 0:
            raise ValueError(f"`budget` is {budget}; it is a number of trials, at least 0.")
        if not 1 <= finalists <= max(budget, 1):
            raise ValueError(
                f"`finalists` is {finalists}; so many of the best trials of a search are run by two more seeds, from 1 "
                f"(none) to `budget`, which is {budget}."
            )
        if held and not budget:
            raise ValueError(f"{', '.join(held)} cannot be held, as nothing is searched: `budget` is 0.")
        metrics = kind.metrics(data)
        if metric is not None:
            check_value("metric", metric, metrics)
        methods = kind.methods_for(data) if methods is None else methods
        self.runs, self.data, self.base, self.kind = runs, data, base, kind
        self.methods, self.budget, self.say = hold(held, methods) if held else methods, budget, say
        self.flags, self.metric, self.finalists, self.held = flags or {}, metric or metrics[0], finalists, held
        self.own_ranges = kind.own_ranges(data, {**base, **self.flags})
        self.failed: dict[str, str] = {}  # methods of this run, and why

    def run(self, names: Iterable[str], seeds: Iterable[int], write: Callable[[], Any] = lambda: None) -> None:
        """Do all missing runs, seed by seed. `write` makes a table after each seed and on an interruption, so that a
        table of few seeds comes early.

        A run with a non-finite loss is recorded as lost, and methods that take its net are left out. A method that
        fails otherwise is left out too, but the next call tries it again.

        Raises:
            ValueError: an unknown method, a seed below 0, impossible settings for a method, results of other settings
                in the folder, or another process at work there; nothing was begun. At the end: names what failed.
        """
        names, seeds = with_requirements(list(names), self.methods), list(dict.fromkeys(seeds))
        for name in names:
            self.kind.check_method(name, self.methods[name], {**self.base, **self.flags})
        with locked(self.runs.folder), writing(self.runs.folder, AGAIN):
            self._rehearse(names, seeds)
            claim_folder(self.runs, self._identity)
            owners = {name: self.methods[name].search_of or name for name in names}
            check_methods(self.runs, {name: (self._own(name), self._sought(name), owners[name]) for name in names})
            progress, self.failed = self._progress(names, seeds), {}
            try:
                for seed in seeds:
                    for name in names:
                        if self.runs.load(name, seed) is None:
                            self.say(f"{name}, seed {seed}: {self._attempt(name, seed)}  {progress(name, seed)}")
                    write()
            except BaseException:
                write()
                raise
        if self.failed:
            those = "; ".join(f"{name}: {error}" for name, error in self.failed.items())
            raise ValueError(f"{those}. Started again, it tries these anew; all else is in {self.runs.folder}.")

    def settings(self, name: str, seed: int, searched: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The recipe keys of a run, each over those before: the data set's, the method's first values, the user's
        flags, the method's own, what every run has, those of the search, and the folders of the nets that it takes from
        other methods."""
        method = self.methods[name]
        nets = {key: str(self._net(other, seed)) for key, other in method.takes.items()}
        given = {**self.base, **first_of(method, self.own_ranges), **self.flags}
        given = {key: value for key, value in given.items() if key in self.kind.programs[method.program].keys}
        fixed = {**method.settings, **EVERY_RUN, "metric_for_best_model": self.metric}
        return {**given, **fixed, **(searched or {}), **nets, "seed": seed}

    def _progress(self, names: list[str], seeds: list[int]) -> Callable[[str, int], str]:
        """(finished method, seed) -> the number of that run, and the time left, by the mean of a trial and a run."""
        costs: dict[tuple[str, int], int] = {}
        trials = self.budget + (FURTHER * self.finalists if self.finalists > 1 else 0)
        for name, seed in ((name, seed) for seed in seeds for name in names if self.runs.load(name, seed) is None):
            searched = self.runs.settings(name) is not None or any(name == other for other, _ in costs)
            costs[name, seed] = 1 if searched or not self.methods[name].space else 1 + trials
        start, total, done = time.monotonic(), sum(costs.values()), []

        def progress(name: str, seed: int) -> str:
            done.append(costs[name, seed])
            minutes = (time.monotonic() - start) * (total / sum(done) - 1) / 60
            return f"(run {len(done)} of {len(costs)}, about {minutes:.0f} min left)"

        return progress

    def _attempt(self, name: str, seed: int) -> str:
        """Do and record one run; return its figures, or that it was lost, in words."""
        *needed, _ = with_requirements([name], self.methods)
        for other in (*needed, name):
            if other in self.failed:
                return f"left out, as {other} failed"
            if LOST in (self.runs.load(other, seed) or {}):
                return f"left out, as {other}, whose net it takes, was lost"
        try:
            figures = self._one(name, seed)
        except NonFiniteLossError as error:
            shutil.rmtree(self._net(name, seed), ignore_errors=True)
            searched = (self.runs.settings(name) or {}).get("settings", {})
            self.runs.save(name, seed, {"seed": seed, LOST: str(error), "searched": searched, METHOD: self._own(name)})
            return f"lost: {error}"
        except Exception as error:
            fault = fault_of(error)
            if isinstance(fault, DiskFullError):  # no other method could write its figures
                raise
            if message_of(error) is None:
                logger.error("%s, seed %d, failed", name, seed, exc_info=True)
            self.failed[name] = f"{type(error).__name__}: {error}" if fault is None else str(fault)
            return f"failed: {fault or error}"
        self.runs.save(name, seed, figures)
        shown = self._tested[0]
        return f"test {self.kind.figures.columns[shown]} {100 * figures[f'test_{shown}']:.2f}"

    @property
    def _tested(self) -> list[str]:
        """The figures whose differences are tested."""
        return self.kind.figures.tested_with(self.metric)

    def _one(self, name: str, seed: int) -> dict[str, Any]:
        """The figures of one run."""
        return self._train(name, seed) | {METHOD: self._own(name)}

    def _own(self, name: str) -> dict[str, str]:
        """The settings that define a method; without a search, its first values too."""
        method = self.methods[name]
        own = {**({} if self.budget else method.first), **method.settings}
        return texts({key: value for key, value in own.items() if key not in (*PLACES, *EVERY_RUN, "seed")})

    def _train(self, name: str, seed: int) -> dict[str, Any]:
        if self.methods[name].program == CONSTANT:
            return self._figures(seed, {}, self._decided(self.kind.constant(self.data)))
        if (decide := self.kind.without_net.get(self.methods[name].program)) is not None:
            arguments = self._arguments(name, self.settings(name, seed), str(self._net(name, seed)))
            return self._figures(seed, {}, self._decided(decide(arguments, self.data)))
        if self.methods[name].program == LINEAR:
            prepared = self._prepared(name, self.settings(name, seed), str(self._net(name, seed)))
            return self._figures(seed, {}, self.kind.linear(prepared.trainer, prepared.splits, self.data))
        self._train_nets(name, seed)
        found = self._search(name, seed)
        settings = self.settings(name, seed, found)
        folder = self._net(name, seed)
        shutil.rmtree(folder, ignore_errors=True)  # an interrupted run's
        prepared = self._prepared(name, settings, str(folder))
        trainer, splits = prepared.trainer, prepared.splits
        clock = EpochClock()
        trainer.add_callback(clock)
        trainer.train()
        chosen = Goal(self.metric).best_evaluation(trainer)
        figures = self._figures(seed, found, self.kind.score(trainer, splits, self.data))
        for checkpoint in folder.glob("checkpoint-*"):
            shutil.rmtree(checkpoint)
        if any(name in other.takes.values() for other in self.methods.values()):
            trainer.save_model()
        auc = {AUC: chosen[AUC]} if AUC in chosen else {}  # with a loss-net, and samples to tell from gold
        return figures | auc | {"epochs": trainer.state.epoch, **clock.metrics}

    def _decided(self, decide: Callable[[Any], Any]) -> Scored:
        """The figures of a method that decides without a net, by a function that gives the outputs of a split."""
        splits = {"eval": self.data.validation, "test": self.data.test}
        return self.kind.scored(self.data, {split: decide(rows) for split, rows in splits.items()})

    def _search(self, name: str, seed: int) -> dict[str, Any]:
        """The best settings of a method, searched once with its first seed."""
        if other := self.methods[name].search_of:
            return self._search(other, seed)
        space, found = space_of(self.methods[name], self.own_ranges), self.runs.settings(name)
        if self.budget and space and found is None:
            folder, sought = self.runs.work("search"), self._sought(name)
            seed = begun(folder, name, sought).get("seed", seed)  # that of trials which are there
            arguments = self._arguments(name, self.settings(name, seed), str(folder))
            first = {key: value for key in space if (value := arguments.value(key)) is not None}
            sought, seeds = {"seed": seed} | sought, range(seed, seed + 1 + FURTHER)
            found = search(
                *(partial(self._trial, name), space, [first], name, self.budget, folder, Goal(self.metric)),
                *(self.say, sought, self.finalists, seeds),
            )
            self.runs.save_settings(name, found | sought)
        return found["settings"] if found else {}

    def _trial(self, name: str, searched: Mapping[str, Any], *, seed: int, folder: str) -> float:
        """The value that a run with `seed` reaches."""
        self._train_nets(name, seed)
        trainer = self._prepared(name, self.settings(name, seed, searched), folder).trainer
        trainer.train()
        return Goal(self.metric).reached(trainer)

    def _sought(self, name: str) -> dict[str, Any]:
        """What identifies a search: the method, its search space, and its first values."""
        method = self.methods[name]
        return {
            METHOD: self._own(name),
            "space": texts(space_of(method, self.own_ranges)),
            "first": texts(first_of(method, self.own_ranges)),
        }

    def _arguments(self, name: str, settings: Mapping[str, Any], folder: str) -> Arguments:
        places = {"output_dir": folder, **self.kind.caches(settings, self.runs.work("features"))}
        return self.kind.programs[self.methods[name].program].parse([], {**settings, **places})

    def _prepared(self, name: str, settings: Mapping[str, Any], folder: str) -> Prepared:
        arguments = self._arguments(name, settings, folder)
        set_seed(arguments.training.seed)
        rehearsed = Path(folder) == self._rehearsal  # which shows a program's notes on the data, the same for each run
        with contextlib.nullcontext() if rehearsed else contextlib.redirect_stdout(io.StringIO()):
            prepared = self.kind.programs[self.methods[name].program].make_trainer(self.data, arguments)
        prepared.trainer.remove_callback(PrinterCallback)  # a line per run is enough
        return prepared

    @property
    def _rehearsal(self) -> Path:
        return self.runs.work("check")

    def _net(self, name: str, seed: int) -> Path:
        return self.runs.work(name, f"seed{seed}")

    def _train_nets(self, name: str, seed: int) -> None:
        """Train anew the nets that a method takes from others, if `work/` was deleted."""
        for other in self.methods[name].takes.values():
            if not (self._net(other, seed) / "model.safetensors").is_file():
                self._one(other, seed)

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """The common settings of all results in the folder: data, settings, search and metric."""
        sizes = {split: len(getattr(self.data, split)) for split in ("train", "validation", "test")}
        base = {key: value for key, value in {**self.base, **self.flags}.items() if key not in PLACES}
        base = {**self.kind.unsaid(self.data), **base}
        first = {key for method in self.methods.values() for key in method.first}
        return {
            **self.kind.identity,
            **{"data": self.data.name, "labels": len(self.data.label_names), **sizes, "budget": self.budget},
            **{"finalists": self.finalists, "held": " ".join(sorted(self.held))},
            **texts(base),
            **self.kind.contents(base),
            **{"metric": self.metric, "flags": " ".join(sorted(first & self.flags.keys()))},  # over a method's first
            "files": files_in(base),
            "contents": fingerprint(self.data),
        }

    def _rehearse(self, names: list[str], seeds: list[int]) -> None:
        """Raise errors early, before anything is written: check the seeds, Optuna and every method's settings, and make
        one trainer of each program."""
        if wrong := [seed for seed in seeds if seed < 0]:
            raise ValueError(f"`seeds` has {wrong[0]}; a seed is a number, at least 0.")
        if self.budget and any(self.methods[name].space and self.runs.settings(name) is None for name in names):
            check_optuna()
        folder, built = self._rehearsal, {CONSTANT, *self.kind.without_net}
        for name in (name for name in names if any(self.runs.load(name, seed) is None for seed in seeds)):
            method = self.methods[name]
            if method.program == CONSTANT:
                continue
            settings = self.settings(name, seeds[0])
            arguments = self._arguments(name, settings, str(folder))
            if method.program in self.kind.without_net:
                self.kind.without_net[method.program](arguments, self.data)
            if method.program not in built and not method.takes:  # such nets may not exist yet
                self._prepared(name, settings, str(folder))
                built.add(method.program)
        shutil.rmtree(folder, ignore_errors=True)

    def _figures(self, seed: int, searched: Mapping[str, Any], scored: Scored) -> dict[str, Any]:
        test_rows = {key: scored.rows[key].as_text() for key in self._tested}
        return {"seed": seed, "searched": dict(searched), **scored.metrics, ROWS: test_rows}
