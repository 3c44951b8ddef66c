"""Constituency trees in `seal-hf predict` and `seal-hf evaluate`, for models whose tags are those of trees.

The input is what tags are predicted for, or trees in brackets, whose words and parts of speech are read. Predictions
are trees in brackets, one per line, or lines of JSON, by the suffix of the output; lines of JSON have the fields of the
input or its `line`, and

* `words` and `tags`: lists of T strings; `tree`: in brackets. A word whose part of speech the input does not give in a
  field `pos` has XX;
* `probabilities` and `energy`, if asked for, as for tags.

An evaluation needs trees. Its figures are those of `tasks/trees/metrics.py`.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any, ClassVar

from ...cli.output_kind import OutputKind
from ...data.brackets import tags_to_tree
from ...data.row_tables import Chunk, Reader
from ...data.sentences import Sentence
from ...data.trees import TREE_FILES, TreeSentences, holds_brackets
from ...data.writers import table_writer
from ..tags.files import TagOutput, line_writer
from ..tags.model import Tagged
from ..tags.report import Judged
from .report import TREES


class TreeOutput(TagOutput):
    """Constituency trees; the module says what is read and written."""

    formats: ClassVar[tuple[str, ...]] = (".jsonl", ".txt", *TREE_FILES)

    def __init__(self, options: Namespace, like: OutputKind | None = None):
        OutputKind.__init__(self, options, like)
        output = getattr(options, "output", None)
        numbers = getattr(options, "energy", False) or self.probabilities != "none"
        self.as_brackets = not numbers if output is None else Path(output).suffix.lower() != ".jsonl"
        self.as_columns = False
        if self.as_brackets and hasattr(options, "energy"):
            self.refuse_numbers("brackets", "a tree per line", "top", "all")

    def open_input(self, gold: bool) -> Reader:
        path = Path(self.options.input)
        if not gold and not holds_brackets(path):
            return super().open_input(gold=False)
        self.check_decoder()
        for name in ("word_column", "tag_column", "split"):
            if getattr(self.options, name, None) is not None:
                raise ValueError(f"`{name}` is given, but {path} holds trees in brackets. Leave it out.")
        self.reader: Any = TreeSentences(path, self.needs.features, gold)
        return self.reader

    def writer(self, path: Path | None) -> Any:
        return line_writer(path) if self.as_brackets else table_writer(path)

    def predict(self, chunk: Chunk) -> list[dict[str, Any]]:
        tagged = self.tagger(chunk.inputs, energy=self.options.energy)
        if self.as_brackets:
            return [{"lines": [_tree(*pair)]} for pair in zip(chunk.inputs, tagged, strict=True)]
        return [self._object(*row) for row in zip(chunk.rows, chunk.inputs, tagged, strict=True)]

    def _object(self, row: dict[str, Any], sentence: Sentence, tagged: Tagged) -> dict[str, Any]:
        found = super()._object(row, sentence, tagged)
        del found[self._name("entities")]
        return found | {self._name("tree"): _tree(sentence, tagged)}

    @property
    def judged(self) -> Judged:
        return TREES


def _tree(sentence: Sentence, tagged: Tagged) -> str:
    """The decided tree, with the parts of speech that the input gives."""
    pos = sentence.kept.get("pos")
    known = isinstance(pos, list) and len(pos) == len(sentence.words) and all(isinstance(part, str) for part in pos)
    return tags_to_tree(sentence.words, tagged.tags, pos if known else None)
