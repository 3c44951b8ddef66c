"""Trees in brackets, as treebanks write them: reading with file and line, what is removed, and writing.

    ( (S (NP-SBJ (DT the) (NN cat)) (VP (VBD slept) (NP (-NONE- *)))))

Reading removes traces (`-NONE-`) with the constituents that they leave empty, the function tags and indices of labels
(`NP-SBJ-1` becomes `NP`), their features (`NN##case=nom##` becomes `NN`), and a root without a label or called ROOT,
TOP, S1 or VROOT above a single tree. Unary chains stay.
Words are read without their escapes: `-LRB-` is `(`, and `\\/` is `/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..core.tag_schemes import Span
from ..core.trees import ROOT, tree_spans, tree_tags
from .common import DataError

TRACE = "-NONE-"
ROOTS = ("", ROOT, "TOP", "S1", "VROOT")  # labels of the root
FEATURES = re.compile("##.*##$")  # behind a label, as in SPMRL: `NN##case=nom##`
UNKNOWN_POS = "XX"  # written for a word whose part of speech is not known
ESCAPES = {"(": "-LRB-", ")": "-RRB-"}
_WORDS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_TOKEN = re.compile(r"[()]|[^\s()]+")


class Tree(NamedTuple):
    """A tree over n words.

    Attributes:
        words, pos: n words and their parts of speech.
        spans: the constituents in preorder; for n > 1 the first covers all words.
        line: the line where it begins, counted from 1.
    """

    words: list[str]
    pos: list[str]
    spans: list[Span]
    line: int = 1

    @property
    def tags(self) -> list[str]:
        """Its n tags, see `core/trees.py`."""
        return tree_tags(self.spans, len(self.words))

    def __str__(self) -> str:
        """The tree in brackets, on one line."""
        opened: list[list[str]] = [[] for _ in self.words]
        closed = [0] * len(self.words)
        for label, start, end in self.spans:
            opened[start].append(f"({label} ")
            closed[end - 1] += 1
        leaves = (f"({pos} {_escaped(word)})" for word, pos in zip(self.words, self.pos, strict=True))
        return " ".join(
            "".join(before) + leaf + ")" * after for before, leaf, after in zip(opened, leaves, closed, strict=True)
        )


def tags_to_tree(words: Sequence[str], tags: Sequence[str], pos: Sequence[str] | None = None) -> str:
    """The tree of any sequence of n tags, in brackets, on one line.

    Args:
        words: n words.
        tags: n tags, as a model of trees predicts them.
        pos: n parts of speech; default: XX.

    Raises:
        ValueError: a tag is not one of a tree.
    """
    return str(Tree(list(words), list(pos or [UNKNOWN_POS] * len(words)), tree_spans(tags)))


def read_brackets(data: bytes, source: str) -> Iterator[Tree]:
    """The trees of a file.

    Args:
        data: its content.
        source: its name, for messages.

    Raises:
        DataError: a line is not UTF-8; a bracket is not closed, not opened or empty; text stands outside brackets, as
            in a file with tags in columns; a word has no part of speech; a tree has no words. Names file and line.
    """
    opened: list[_Node] = []
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        where = f"{source}, line {number}"
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{where}: not UTF-8 text ({error.reason} at byte {error.start}). Save the whole file as UTF-8: it may "
                "have lines in several encodings."
            ) from error
        for token in _TOKEN.findall(line):
            if token == "(":
                opened.append(_Node(number))
            elif not opened:
                raise DataError(
                    f"{where}: {'a bracket that closes none' if token == ')' else repr(line.strip()[:60])} outside of "
                    "a tree; expected '('. A file holds trees in brackets alone; tags in columns are read by `seal-hf "
                    "train tagging`."
                )
            elif token == ")":
                node = opened.pop()
                if not node.children and node.word is None:
                    raise DataError(
                        f"{where}: the bracket ({node.label} has neither a word nor a constituent. Remove it."
                    )
                if opened and opened[-1].word is not None:
                    raise DataError(_mixed(where, opened[-1], str(opened[-1].word)))
                if opened:
                    opened[-1].children.append(node)
                else:
                    yield _tree(node, source)
            else:
                opened[-1].read(token, where)
    if opened:
        raise DataError(
            f"{source}, line {opened[0].line}: the tree that begins here is not closed when the file ends; "
            f"{len(opened)} closing bracket{'s are' if len(opened) > 1 else ' is'} missing."
        )


class _Node:
    """A bracket: a constituent, or a word with its part of speech."""

    def __init__(self, line: int):
        self.line = line
        self.label = ""
        self.word: str | None = None
        self.children: list[_Node] = []

    def read(self, token: str, where: str) -> None:
        """Take a label or a word."""
        if not self.label and not self.children:
            self.label = FEATURES.sub("", token) or token
        elif self.children or self.word is not None:
            raise DataError(_mixed(where, self, token))
        else:
            self.word = token


def _mixed(where: str, node: _Node, word: str) -> str:
    return (
        f"{where}: {word!r} in the bracket ({node.label} stands beside a constituent or another word; expected one "
        "word with its part of speech in a bracket of its own, such as (NN cat)."
    )


def _tree(root: _Node, source: str) -> Tree:
    """The tree of a bracket, after the removals."""
    words: list[str] = []
    pos: list[str] = []
    spans: list[Span] = []
    entered: list[tuple[_Node, int, int]] = []  # node, its first word, its place in `spans`
    waiting: list[_Node | None] = [root]  # None: the last entered node ends
    while waiting:
        node = waiting.pop()
        if node is None:
            done, start, place = entered.pop()
            if len(words) > start:
                spans[place] = Span(_label(done), start, len(words))
            else:
                del spans[place:]
        elif node.word is None:
            entered.append((node, len(words), len(spans)))
            spans.append(Span("", 0, 0))
            waiting += [None, *reversed(node.children)]
        elif node.label != TRACE:
            words.append(_WORDS.get(node.word, re.sub(r"\\([/*])", r"\1", node.word)))
            pos.append(node.label)
    if not words:
        raise DataError(f"{source}, line {root.line}: the sentence has no words, or only traces. Remove it.")
    while spans and spans[0].type in ROOTS and _is_single(spans, len(words)):
        del spans[0]
    if len(words) > 1 and spans[0].type in ROOTS:
        spans[0] = spans[0]._replace(type=ROOT)
    return Tree(words, pos, spans, root.line)


def _label(node: _Node) -> str:
    """The label of a constituent without function tags and indices."""
    return re.split("[-=]", node.label)[0] or node.label


def _is_single(spans: Sequence[Span], length: int) -> bool:
    """True if the root has one child."""
    return length == 1 or (len(spans) > 1 and spans[1].start == 0 and spans[1].end == length)


def _escaped(word: str) -> str:
    """A word that brackets can hold."""
    return re.sub(r"[()\s]", lambda found: ESCAPES.get(found[0], "_"), word)
