"""Bracketed trees as sentences: to parse anew, and with their gold tags for evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

from .chunks import Chunk
from .common import DataError
from .sentences import Sentence
from .table_sources import is_stored, split_of
from .trees import TREE_FILES, TreeFile, tree_files


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
        sentences = iter(self)
        while part := list(islice(sentences, size)):
            yield Chunk([one.kept for one in part], part, [one.gold for one in part] if self.gold else None)

    def __iter__(self) -> Iterator[Sentence]:
        found = False
        for file in self._files():
            for sentence in self._sentences(file):
                found = True
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

    def _sentences(self, file: TreeFile) -> Iterator[Sentence]:
        for tree in file.trees():
            place = ({"file": file.name} if file.source else {}) | {"line": tree.line, "pos": tree.pos}
            features = {name: tree.pos for name in self.features}
            gold = tree.tags if self.gold else None
            where = f"{file.name}, line {tree.line}"
            yield Sentence.of_words(tree.words, where, place, tree.words, features=features, gold=gold)
