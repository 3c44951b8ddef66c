"""Constituency trees: files, folders and archives of bracketed trees as splits of words and tags, and as sentences to
parse anew or to evaluate on.

[`load_trees`] reads the embedded grammar (`toy_trees`, the default), a file of trees, or a folder or .zip of them. The
files of a folder are those named like TREE_FILES, in it and in its folders and archives.
"""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np

from .brackets import Tree, read_brackets
from .columns import is_conll_2012
from .common import SPLITS, DataError, find_data
from .embedded import toy_trees
from .row_tables import Chunk, parts
from .sentences import ORIGINS, Rows, Sentence, collected, taken
from .splits import PARTS, check_numbers, complete_splits
from .table_sources import is_stored, split_of
from .tags import TagSequenceData, build

TREE_FILES = (".mrg", ".ptb", ".trees", ".tree", ".brackets", ".parse")
MOST_BYTES = 2**30  # of an archive's files, unpacked; they are read into memory


class TreeFile(NamedTuple):
    """A file of trees: its folder or archive, its name there, and its content."""

    source: str
    name: str
    data: bytes

    def trees(self) -> Iterator[Tree]:
        """See [`read_brackets`]."""
        return read_brackets(_of_columns(self.data), f"{self.source}/{self.name}" if self.source else self.name)

    def sentences(self) -> Iterator[Sentence]:
        """The sentences of its trees, with gold tags and the feature `pos`."""
        for tree in self.trees():
            place = ({"file": self.name} if self.source else {}) | {"line": tree.line, "pos": tree.pos}
            where, more = f"{self.name}, line {tree.line}", {"features": {"pos": tree.pos}, "gold": tree.tags}
            yield Sentence.of_words(tree.words, where, place, tree.words, **more)


def _of_columns(data: bytes) -> bytes:
    """The trees of a file of CoNLL-2012 in brackets, on the same lines; other files unchanged."""
    first = next((line for line in data[:4096].split(b"\n") if line.strip() and not line.startswith(b"#")), b"")
    if not is_conll_2012(first.decode("utf-8", "replace").split()):
        return data
    lines = []
    for line in data.split(b"\n"):
        cells = line.split()
        if line.startswith(b"#") or len(cells) < 12:
            lines.append(b"")
        else:
            word = cells[3].replace(b"(", b"-LRB-").replace(b")", b"-RRB-")
            lines.append(cells[5].replace(b"*", b" (%s %s)" % (cells[4], word)))
    return b"\n".join(lines)


def load_trees(
    dataset: str | None = None,
    *,
    data_dir: str | None = None,
    max_train_rows: int | None = None,
    seed: int = 0,
) -> TagSequenceData:
    """Load bracketed trees as tag sequences, one tag per word, see `core/trees.py`. `brackets.py` says what reading
    removes. The rows have the columns `words`, `tags` and `pos`, the parts of speech, which no tag holds.

    Files whose names contain train, dev and test are these splits; without dev, a tenth of train is. A single file is
    split 80/10/10 at random, with `seed`. Other files are ordered by the numbers in their names and split 80/10/10, so
    that a document is in one split; `notes` has the first and the last file of each.

    Args:
        dataset: `toy_trees` (default), a file, folder or .zip, or a name under `data_dir`.
        data_dir: folder of named data sets, searched two levels deep; default: the environment variable SEAL_HF_DATA.
        max_train_rows, seed: as for [`load_tags`].

    Raises:
        DataError: tells what is wrong, where, and what to do; of a tree, the file and the line.
    """
    check_numbers(max_train_rows=max_train_rows)
    notes: list[str] = []
    path = find_data(None if dataset is None else str(dataset), data_dir, (), ("toy_trees",))
    if dataset in (None, "toy_trees"):
        name = source = "toy_trees"
        splits = toy_trees(seed)
    else:
        source = str(dataset)
        if path is None:
            raise DataError(f"{source}: no such file or folder, and trees are not read from the Hub. Give a file.")
        name, files = path.stem, list(tree_files(path))
        splits = {split: _rows(part) for split, part in _by_name(files, source, notes).items()}
        without = {split: np.empty((len(rows["words"]), 0)) for split, rows in splits.items()}  # no labels to split by
        splits = taken(splits, complete_splits(without, seed, notes))
    return build(name, splits, source, "plain", max_train_rows, "first", None, seed, notes)


def tree_files(path: Path) -> Iterator[TreeFile]:
    """The files of trees of a path.

    Raises:
        DataError: there are none, or an archive cannot be read.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder.")
    if path.is_file() and not is_zipfile(path):
        if path.suffix.lower() == ".zip":
            raise DataError(f"{path}: not a readable .zip. Is it whole?")
        yield TreeFile("", str(path), path.read_bytes())
        return
    found = 0
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.suffix.lower() in TREE_FILES and file.is_file():
            found += 1
            yield TreeFile(str(path), file.relative_to(path).as_posix(), file.read_bytes())
        elif file.is_file() and is_zipfile(file):
            for inner in _archived(file):
                found += 1
                yield inner
    if not found:
        raise DataError(f"{path}: no file of trees in it; expected names that end in {', '.join(TREE_FILES)}.")


def _archived(path: Path) -> Iterator[TreeFile]:
    try:
        with ZipFile(path) as archive:
            if (size := sum(info.file_size for info in archive.infolist())) > MOST_BYTES:
                raise DataError(f"{path}: {size:,} bytes unpacked, more than {MOST_BYTES:,}. Unpack it into a folder.")
            for name in archive.namelist():
                hidden = any(part.startswith(".") or part == "__MACOSX" for part in Path(name).parts)
                if Path(name).suffix.lower() in TREE_FILES and not hidden and not name.endswith("/"):
                    yield TreeFile(str(path), name, archive.read(name))
    except (BadZipFile, RuntimeError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path}: not a readable .zip ({error}). Is it whole?") from error


def _by_name(files: Sequence[TreeFile], source: str, notes: list[str]) -> dict[str, list[TreeFile]]:
    """Split -> files; `all` for a single one."""
    if len(files) == 1:
        return {"all": list(files)}
    named = _by_split(files, lambda path: path.parts[-1:])
    if not named:
        of_folders = _by_split(files, lambda path: path.parts[-2::-1])
        named = of_folders if len(of_folders) > 1 else {}  # a folder of all files says nothing
    if named:
        if "train" not in named or sum(map(len, named.values())) != len(files):
            raise DataError(
                f"{source}: {len(files)} files of trees, but {sum(map(len, named.values()))} name a split "
                f"({', '.join(named)}). Give a file for train, and perhaps for validation and test, or files with "
                "numbers alone, which are split 80/10/10."
            )
        return named
    numbers = {file: [int(digits) for digits in re.findall(r"\d+", file.name)] for file in files}
    bare = next((file for file in files if not numbers[file]), None)
    if bare is not None:
        raise DataError(
            f"{source}: the name of {bare.name} contains neither a split nor a number. Rename or remove it."
        )
    ordered = sorted(files, key=lambda file: (numbers[file], file.name))
    ends = np.cumsum([round(part * len(files)) for part in PARTS[:-1]])
    parts = zip(SPLITS, np.split(np.arange(len(files)), ends), strict=True)
    found = {split: [ordered[i] for i in places] for split, places in parts}
    ranges = (
        f"{split} {len(part)} ({Path(part[0].name).stem} to {Path(part[-1].name).stem})"
        for split, part in found.items()
        if part
    )
    notes.append(f"{len(files)} files split 80/10/10 by number: {', '.join(ranges)}.")
    return found


def _by_split(files: Sequence[TreeFile], words_of: Callable[[Path], Sequence[str]]) -> dict[str, list[TreeFile]]:
    """Split -> the files for which one of these words of their paths names it; the first such word decides."""
    named: dict[str, list[TreeFile]] = {}
    for file in files:
        if split := next((known for word in words_of(Path(file.name)) if (known := split_of(word))), None):
            named.setdefault(split, []).append(file)
    return named


def _rows(files: Sequence[TreeFile]) -> Rows:
    """Columns of the trees of files, with their places."""
    found = [[*file.sentences()] for file in files]
    rows = collected(chain.from_iterable(found), files[0].source or files[0].name)
    if files[0].source:
        several = len({file.source for file in files}) > 1
        names = [f"{file.source}/{file.name}" if several else file.name for file in files]
        rows[ORIGINS] = replace(rows[ORIGINS], files=np.repeat(np.array(names, dtype=object), [*map(len, found)]))
    return rows


def holds_brackets(path: Path) -> bool:
    """True for trees, not sentences: a file named like [`TREE_FILES`] or with a bracket in a bracket at its beginning,
    a .zip, or a folder without stored tables."""
    if path.is_dir():
        return not is_stored(path)
    named = path.suffix.lower() in (".zip", *TREE_FILES)
    if named or not path.is_file():
        return named
    with open(path, "rb") as file:
        return re.match(rb"(?:\xef\xbb\xbf)?\s*\(\s*[^\s()]*\s*\(", file.read(1000)) is not None


class TreeSentences:
    """A [`Reader`] of the sentences of bracketed trees: `inputs` are [`Sentence`]s, `gold` their lists of tags. The
    field `pos` of a row holds the parts of speech.

    Args:
        path: see [`tree_files`].
        features: the columns that the task-net reads beside words: `pos` or nothing.
        gold: True if gold tags are read.

    Raises:
        DataError: as [`tree_files`] and [`read_brackets`]; trees lack a column that the task-net reads.
    """

    columns: Sequence[str] = ()

    def __init__(self, path: Path, features: Sequence[str], gold: bool):
        missing = [name for name in features if name != "pos"]
        if missing:
            raise DataError(f"{path}: the model reads the column `{missing[0]}` beside the words, and trees lack it.")
        self.path, self.features, self.gold = path, features, gold
        self.notes: list[str] = []

    @cached_property
    def total(self) -> int:
        return sum(1 for _ in self)

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All sentences, `size` at a time."""
        for part in parts(self, size):
            yield Chunk([one.kept for one in part], part, [one.gold for one in part] if self.gold else None)

    def __iter__(self) -> Iterator[Sentence]:
        found = False
        for file in self._files():
            for sentence in file.sentences():
                found = True
                sentence.features = {name: sentence.features[name] for name in self.features}
                sentence.gold = sentence.gold if self.gold else None
                yield sentence
        if not found:
            raise DataError(f"{self.path}: no tree. Give at least one.")

    def _files(self) -> Iterator[TreeFile]:
        """All files; with gold, of a folder whose files are named by splits, those of the test."""
        files = tree_files(self.path)
        if not self.gold or self.path.is_file():
            return files
        every = list(files)
        of_test = [file for file in every if split_of(file.name) == "test"]
        note = f"the folder names splits: of its {len(every)} files, those of the test are read."
        if of_test and len(of_test) < len(every) and note not in self.notes:
            self.notes.append(note)
        return iter(of_test or every)
