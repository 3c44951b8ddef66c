"""The raw results in recipes/results/: the one module that reads and writes them.

    python benchmarks/results_store.py unpack bibtex_finals            # to runs/compare/bibtex_finals
    python benchmarks/results_store.py pack runs/compare/bibtex_finals
    python benchmarks/results_store.py merge ../theirs/recipes/results

`recipes.jsonl` and `defaults.jsonl` hold the runs of recipes and those without any flag, `decision_rule.jsonl` figures
of rules, `unlabelled.jsonl` runs with texts without labels, `comparisons.jsonl` what the runs of each comparison share,
and its searches. A folder per data set holds the runs of its comparisons as JSON lines (see `KINDS`), and
`scores.txt.xz`: the F1 of each test row, in a column per run and decoder (see `results_texts.py`), and commands. A run
names its scores and its command by the first digits of their SHA-256. Lines are sorted, so that a new seed is a new
line, and the same results give the same bytes. Figures are kept with seven digits. Those that no page shows are left
out.

`unpack` writes a comparison as `examples/compare_losses.py` keeps it in its --output_dir, which goes on from there.
`pack` takes such a folder, or one of a recipe's seedN.json, into the results. `merge` takes those of another checkout.
The same run with the same content is one. The same run with another content stops all three before anything is
written, and --conflict says which of the two stays.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock
from results_texts import read_texts, write_texts

from seal_hf.lab.compare.runner import Runs, read_run, write_json
from seal_hf.utils.files import whole_file

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "recipes" / "results"
KINDS = {  # name of a file -> the keys that tell its lines apart
    "recipes": ("name", "seed"),  # a run of a recipe; the name is the recipe's and perhaps a suffix
    "comparisons": ("comparison", "name"),  # what its runs have in common, without a name; what a method's search found
    "runs": ("comparison", "name", "seed"),  # a run of a method
    "defaults": ("name", "loss", "seed"),  # a run with no flag but the data, see defaults.py
    "decision_rule": ("name", "way", "rows"),  # figures of rules for a model and a number of rows, see decision_rule.py
    "unlabelled": ("name", "way", "rows", "seed"),  # a run of unlabelled.py
}
OF_ALL = ("recipes", "defaults", "decision_rule", "unlabelled", "comparisons")  # kinds with one file for all data sets
ALL = ""  # in place of a data set's name
COMMON = ""  # in place of a method's name
MEASURED = ("eval_", "test_", "train_")  # begin the names of figures
# in the names of figures that no page shows
UNREAD = re.compile("_precision_|_recall_|_(per_second|runtime|never_empty)$")
SCORES = "scores.txt.xz"
ROWS = "test_rows"  # key of a run: by decoder, its scores, or in its line what they are found by
COMMAND = "command"  # key of a run, likewise
DIGITS = 16  # of what a text is found by
CONFLICTS = ("stop", "keep", "replace")
SHOWN = 5  # conflicts in a message

Record = dict[str, Any]
Lines = dict[tuple, Record]  # by what tells them apart


class Conflict(ValueError):
    """The same run with another content."""


class Store:
    """The results in a folder, or in none yet."""

    def __init__(self, folder: Path = RESULTS):
        self.folder = Path(folder)
        self._forget()

    def _forget(self) -> None:
        self._lines: dict[tuple[str, str], Lines] = {}
        self._whole: dict[tuple[str, str], dict[str, str]] = {}  # commands that stand in lines of older checkouts
        self._scores: dict[str, dict[str, str]] = {}
        self._recipes: dict[str, list[Record]] | None = None

    def data_sets(self) -> list[str]:
        """Those with comparisons."""
        return sorted({file.parent.name for file in self.folder.glob("*/*.jsonl")})

    def files(self) -> list[tuple[str, str]]:
        """What `lines` takes: the data set and the kind of each file."""
        one_each = [(data, kind) for data in self.data_sets() for kind in KINDS if kind not in OF_ALL]
        return [*((ALL, kind) for kind in OF_ALL), *one_each]

    def lines(self, data: str, kind: str) -> Lines:
        """A file's lines, as they are. `data` is `ALL` for the kinds `OF_ALL`."""
        if (data, kind) not in self._lines:
            self._lines[data, kind], self._whole[data, kind] = read_lines(self.folder / data / f"{kind}.jsonl", kind)
        return self._lines[data, kind]

    def scores(self, data: str) -> dict[str, str]:
        """The scores of test rows and the commands, by what a run's line calls them."""
        if data not in self._scores:
            self.lines(data, "runs")
            kept = read_texts(self.folder / data / SCORES)
            self._scores[data] = {digest(text): text for text in kept} | self._whole[data, "runs"]
        return self._scores[data]

    def recipes(self) -> dict[str, list[Record]]:
        """The runs of recipes by name, each name's by seed."""
        if self._recipes is None:
            self._recipes = {}
            for (name, _), line in sorted(self.lines(ALL, "recipes").items()):
                self._recipes.setdefault(name, []).append(without(line, "name"))
        return self._recipes

    def ways(self, data: str) -> set[str]:
        """The `WAYS` of `defaults.py` that have runs on a data set."""
        return {loss for name, loss, _ in self.lines(ALL, "defaults") if name == data}

    def defaults(self, data: str, loss: str) -> dict[int, Record]:
        """The runs of `defaults.py` on a data set, by seed; `loss` is one of its `WAYS`."""
        lines = self.lines(ALL, "defaults")
        return {seed: line for (name, found, seed), line in sorted(lines.items()) if (name, found) == (data, loss)}

    def comparisons(self) -> dict[str, str]:
        """The data set of each comparison."""
        lines = sorted(self.lines(ALL, "comparisons").items())
        return {name: data_of(line) for (name, method), line in lines if method == COMMON}

    def comparison(self, name: str) -> Stored:
        return Stored(self, self.comparisons()[name], name)

    def add(
        self,
        new: Mapping[tuple[str, str], Iterable[Record]],
        scores: Mapping[str, Mapping[str, str]] | None = None,
        conflict: str = "stop",
    ) -> list[str]:
        """Unites the results with these lines, by file as `files` has them, and these scores, by data set.

        Returns:
            The lines that are new or replaced, in words.

        Raises:
            Conflict: lines are there with another content. Nothing was written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / ".lock"):
            self._forget()  # another program may have written since
            changed, conflicts, united = [], [], {}
            for (data, kind), added in new.items():
                lines = united[data, kind] = dict(self.lines(data, kind))
                for line in map(compact, added):
                    key = key_of(kind, line)
                    name, theirs = f"{data or 'all'}/{kind}: {' '.join(map(str, key))}", lines.get(key)
                    if theirs is not None and to_line(kind, theirs) == to_line(kind, line):
                        continue
                    if theirs is not None:
                        conflicts.append(f"{name} ({' '.join(differing(theirs, line)[:SHOWN])})")
                    if theirs is None or conflict == "replace":
                        lines[key] = line
                        changed.append(name)
            if conflicts and conflict == "stop":
                more = f"; {len(conflicts) - SHOWN} more" * (len(conflicts) > SHOWN)
                raise Conflict(
                    f"{self.folder} has other content for the same: {'; '.join(conflicts[:SHOWN])}{more}. Choose with "
                    "--conflict keep (what is there) or --conflict replace."
                )
            for (data, kind), lines in united.items():
                if kind == "runs":  # before the lines that name them
                    self._write_scores(data, lines, (scores or {}).get(data, {}))
                self._write_lines(data, kind, lines)
            self._recipes = None
        return changed

    def missing(self) -> list[str]:
        """The runs whose scores or command are not there."""
        return [
            " ".join(map(str, key))
            for data in self.data_sets()
            for key, line in self.lines(data, "runs").items()
            if not self.scores(data).keys() >= set(texts(line))
        ]

    def _write_lines(self, data: str, kind: str, lines: Lines) -> None:
        self._lines[data, kind] = lines
        file, content = self.folder / data / f"{kind}.jsonl", b""
        for key in sorted(lines):
            content += to_line(kind, lines[key]).encode() + b"\n"
        if lines and not (file.is_file() and file.read_bytes() == content):
            with whole_file(file) as unfinished:
                unfinished.write_bytes(content)

    def _write_scores(self, data: str, lines: Lines, new: Mapping[str, str]) -> None:
        """The scores and commands that a line names, in the lines' order."""
        found = self.scores(data) | new
        kept = {name: found[name] for key in sorted(lines) for name in texts(lines[key]) if name in found}
        write_texts(self.folder / data / SCORES, kept.values())
        self._scores[data] = kept


class Stored:
    """A comparison of the results. It is read as `seal_hf.lab.compare.runner.Runs` is."""

    def __init__(self, store: Store, data: str, name: str):
        self.store, self.data, self.name = store, data, name

    def identity(self) -> Record:
        return without(self.store.lines(ALL, "comparisons")[self.name, COMMON], "comparison", "name")

    def settings(self) -> dict[str, Record]:
        """What the search of each method found."""
        lines = self.store.lines(ALL, "comparisons")
        methods = [method for name, method in sorted(lines) if name == self.name and method != COMMON]
        return {method: without(lines[self.name, method], "comparison", "name") for method in methods}

    def all(self) -> dict[str, list[Record]]:
        """Every run of every method, by seed."""
        lines, scores, found = self.store.lines(self.data, "runs"), self.store.scores(self.data), {}
        for key in (key for key in sorted(lines) if key[0] == self.name):
            run = without(lines[key], "comparison", "name")
            if not scores.keys() >= set(texts(run)):
                raise ValueError(
                    f"{self.store.folder / self.data / SCORES} lacks scores or the command of "
                    f"{' '.join(map(str, key))}. Merge the results that have them, or put a whole copy back."
                )
            found.setdefault(key[1], []).append(with_texts(run, scores.__getitem__))
        return found


def pack(store: Store, folder: Path, conflict: str = "stop") -> list[str]:
    """Takes a comparison's folder, or one of a recipe's runs, into the results; returns what is new."""
    folder = Path(folder).resolve()
    runs, files = Runs(folder), sorted(folder.glob("seed*.json"))
    if files:
        found = [named(without_folders(read_run(file)), name=folder.name) for file in files]
        if not any((ROOT / "recipes").glob(f"*/{found[0]['recipe']}.yaml")):
            raise ValueError(
                f"{folder} has runs of {found[0]['recipe']}, which is no recipe here. Put the recipe back."
            )
        return store.add({(ALL, "recipes"): found}, conflict=conflict)
    identity = runs.identity()
    if identity is None:
        raise ValueError(
            f"{folder} has no comparison.json and no seedN.json. Name one comparison's folder, or a recipe's."
        )
    name, data, scores = folder.name, data_of(identity), {}
    if store.comparisons().get(name, data) != data:
        raise ValueError(f"{name} is a comparison on {store.comparisons()[name]} in the results. Rename {folder}.")
    lines = []
    for method, run in ((method, without_folders(run)) for method, found in runs.all().items() for run in found):
        scores |= {digest(text): text for text in texts(run)}
        lines.append(named(with_texts(run, digest), comparison=name, name=method))
    searches = {file.parent.name: runs.settings(file.parent.name) for file in folder.glob("*/settings.json")}
    comparison = [
        named(found, comparison=name, name=method) for method, found in {COMMON: identity, **searches}.items()
    ]
    return store.add({(ALL, "comparisons"): comparison, (data, "runs"): lines}, {data: scores}, conflict)


def unpack(store: Store, name: str, folder: Path, conflict: str = "stop") -> None:
    """Writes a comparison, or the runs of a recipe, to a folder as the programs keep them. What is there and is not in
    the results stays."""
    runs = Runs(folder)
    if name in store.comparisons():
        stored = store.comparison(name)
        parts = [("comparison.json", runs.identity(), stored.identity(), runs.save_identity)]
        for method, found in stored.settings().items():
            parts.append((f"{method}'s search", runs.settings(method), found, partial(runs.save_settings, method)))
        for method, run in ((method, run) for method, found in stored.all().items() for run in found):
            seed = run["seed"]
            parts.append((f"{method}, seed {seed}", runs.load(method, seed), run, partial(runs.save, method, seed)))
    elif name in store.recipes():
        files = [(run, Path(folder) / f"seed{run['seed']}.json") for run in store.recipes()[name]]
        parts = [(file.name, read_run(file), run, partial(write_json, file)) for run, file in files]
    else:
        raise ValueError(
            f"{name} is not in the results. There are {', '.join([*store.comparisons(), *store.recipes()])}."
        )
    parts = [(what, theirs and compact(theirs), ours, save) for what, theirs, ours, save in parts]
    others = [what for what, theirs, ours, _ in parts if theirs not in (None, ours)]
    if others and conflict == "stop":
        raise Conflict(
            f"{folder} has other content for the same: {'; '.join(others[:SHOWN])}. Choose with --conflict keep (what "
            "is there) or --conflict replace."
        )
    for _, theirs, ours, save in parts:
        if theirs is None or (theirs != ours and conflict == "replace"):
            save(ours)


def merge(store: Store, folder: Path, conflict: str = "stop") -> list[str]:
    """Takes all results of another folder into these; returns what is new."""
    other = Store(folder)
    new = {place: other.lines(*place).values() for place in other.files()}
    if not any(new.values()):
        raise ValueError(f"{folder} has no results. Name the folder recipes/results of a checkout.")
    return store.add(new, {name: other.scores(name) for name in other.data_sets()}, conflict)


def read_lines(file: Path, kind: str) -> tuple[Lines, dict[str, str]]:
    """The lines of a file, by what tells them apart; and the commands that stand in them as a whole, by their digits.

    Raises:
        ValueError: a line is no such JSON, or another one of the same run has another content.
    """
    lines: Lines = {}
    whole: dict[str, str] = {}
    for number, text in enumerate(file.read_text(encoding="utf-8").splitlines() if file.is_file() else (), 1):
        try:
            line = compact(json.loads(text))
            key = key_of(kind, line)
            if kind == "runs" and len(said := line.get(COMMAND, "")) > DIGITS:
                whole[digest(said)], line[COMMAND] = said, digest(said)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{file}, line {number}, is no result: {error!r}. Put a whole copy back.") from None
        if to_line(kind, lines.setdefault(key, line)) != to_line(kind, line):
            raise Conflict(f"{file} has {' '.join(map(str, key))} twice, with other content. Delete one of the lines.")
    return lines, whole


def data_of(identity: Record) -> str:
    """The name of a comparison's data set."""
    return Path(identity["data"]).stem


def key_of(kind: str, line: Record) -> tuple:
    return tuple(line[name] for name in KINDS[kind])


def to_line(kind: str, line: Record) -> str:
    """As JSON, with what tells it apart first, then sorted."""
    return json.dumps({name: line[name] for name in KINDS[kind]} | json.loads(json.dumps(line, sort_keys=True)))


def compact(line: Record) -> Record:
    """Figures that no page shows are left out. The others have seven digits, more than a table shows."""

    def short(key: str, value: Any) -> Any:
        return float(f"{value:.7g}") if isinstance(value, float) and key.startswith(MEASURED) else value

    unread = {key for key in line if key.startswith(MEASURED) and UNREAD.search(key)}
    return {key: short(key, value) for key, value in line.items() if key not in unread}


def without_folders(run: Record) -> Record:
    """The run, whose command has no `--data_dir` and only the last part of each absolute path."""
    words: list[str] = []
    for word in shlex.split(run.get(COMMAND, "")):
        if words[-1:] == ["--data_dir"]:
            words.pop()
        elif not word.startswith("--data_dir="):
            words.append(Path(word).name if Path(word).is_absolute() else word)
    return run | ({COMMAND: shlex.join(words)} if words else {})


def texts(run: Record) -> list[str]:
    """Its long texts, or what they are found by."""
    rows = [text for _, text in sorted(run.get(ROWS, {}).items())]
    return [*rows, run[COMMAND]] if COMMAND in run else rows


def with_texts(run: Record, found: Callable[[str], str]) -> Record:
    """The run with what `found` gives for each of its texts."""
    rows = {ROWS: {decoder: found(text) for decoder, text in run[ROWS].items()}} if ROWS in run else {}
    return run | rows | ({COMMAND: found(run[COMMAND])} if COMMAND in run else {})


def named(record: Record, **names: str) -> Record:
    """A line: what a program wrote, and what tells it apart."""
    if both := record.keys() & names.keys():
        raise ValueError(f"a record has `{both.pop()}`, which is a name of the results' own.")
    return {**record, **names}


def without(line: Record, *names: str) -> Record:
    return {name: value for name, value in line.items() if name not in names}


def differing(a: Record, b: Record) -> list[str]:
    return [name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("pack", "unpack", "merge"))
    parser.add_argument("names", nargs="+", help="folders; of unpack, names of comparisons or of recipes")
    parser.add_argument(
        "--to", type=Path, default=Path("runs", "compare"), help="where unpack writes a folder per name"
    )
    parser.add_argument("--store", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--conflict", choices=CONFLICTS, default="stop", help="the same run with another content")
    options = parser.parse_args(argv)
    store = Store(options.store)
    for name in options.names:
        try:
            if options.command == "unpack":
                unpack(store, name, options.to / name, options.conflict)
                print(f"{name}: written to {options.to / name}")
                continue
            changed = {"pack": pack, "merge": merge}[options.command](store, Path(name), options.conflict)
            missing = store.missing()
        except ValueError as error:
            sys.exit(f"{name}: {error}")
        print(f"{name}: {len(changed)} lines are new", *changed[:SHOWN], *["..."][: len(changed) - SHOWN], sep="\n  ")
        if missing:
            print(
                f"{len(missing)} runs lack scores or their command, as {missing[0]}. Merge the results that have them."
            )


if __name__ == "__main__":
    main()
