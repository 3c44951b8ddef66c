"""Tag sequences in `seal-hf predict` and `seal-hf evaluate`.

Predictions are lines of JSON or columns, by the suffix of the output. Columns are those of the input, or its words,
followed by the tag. For semantic roles, each sentence appears once for each predicate, and the columns of frame and
sense name only that predicate. Lines of JSON have the fields of the input, or the `line` where the row begins, and

* `text`: the raw text, or the words with blanks between; `words` and `tags`: lists of T strings;
* `entities`: `label`, `score`, the mean probability of the tags of its words, `text`, and the characters `start` to
  `end` of the row's text. Spans are read as conlleval does; for tags without a scheme, each word is a span, unless its
  tag is O;
* `probabilities`, if asked for: of the chosen tag of each word (`top`), or of all tags of each word by name (`all`);
* `energy`, if asked for: of the tags; null for a sentence that was read in several windows.

A field of the input with one of these names keeps it; ours then begins with `predicted_`.
"""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ...cli.output_kind import Evaluation, OutputKind, each_chunk, origin_of
from ...core.tag_schemes import given_types, scheme_of_model, spans
from ...data.common import DataError
from ...data.row_tables import Chunk, Reader
from ...data.sentences import Needs, Sentence
from ...data.tag_files import SentenceFile
from ...data.tensors.vocabulary import Vocabulary
from ...data.writers import Rows, Writer, add_text, table_writer
from ...nets.recurrent import BiLSTMConfig
from ...utils.files import whole_file
from ...utils.messages import check_owner, for_eyes, results_table
from .chains import tied_crf
from .decisions import TagDecisions
from .model import SealForTokenClassification, Tagged, Tagger
from .report import Judged, judged_tags
from .space import TagSequenceSpace
from .task_losses import CRFLoss

LEFT_OUT = {"0": "LABEL_0", "1": "LABEL_1"}  # the names that transformers does not save
DIGITS = 6  # decimals of probabilities and energies
COLUMNS = (".conll", ".iob", ".iob2", ".bio", ".txt", ".tsv")


class TagOutput(OutputKind):
    """Tags of sentences of any length. A sentence longer than the encoder's limit is read in overlapping windows and
    decoded as a whole."""

    formats: ClassVar[tuple[str, ...]] = (".jsonl", *COLUMNS)
    default_probabilities: ClassVar[str] = "none"
    decided_unit: ClassVar[str] = "words"
    model: SealForTokenClassification

    def __init__(self, options: Namespace, like: OutputKind | None = None):
        super().__init__(options, like)
        self.as_columns = Path(getattr(options, "output", None) or "").suffix.lower() in COLUMNS
        if self.as_columns:
            self.refuse_numbers("columns", "a tag per word", "all")

    def refuse_numbers(self, what: str, held: str, *kinds: str) -> None:
        """Raises ValueError if energies or these kinds of probabilities are asked for in an output that cannot hold
        them."""
        if self.options.energy or self.probabilities in kinds:
            option = "energy" if self.options.energy else "probabilities"
            raise ValueError(
                f"`{option}` is {getattr(self.options, option)!r}, but {what}, as in the output "
                f"{self.options.output!r}, hold only {held}. Give an output of type .jsonl, or leave the option out."
            )

    @property
    def model_class(self) -> type[SealForTokenClassification]:
        return SealForTokenClassification

    @cached_property
    def tags(self) -> list[str]:
        """The names of the C tags."""
        names = self.config.get("id2label") or LEFT_OUT
        return [names[key] for key in sorted(names, key=int)]

    @cached_property
    def needs(self) -> Needs:
        """What the task-net reads beside words."""
        if self.config.get("model_type") == BiLSTMConfig.model_type:
            check_owner({"max_length": self.options.max_length}, "a Hugging Face encoder", "the task-net is a BiLSTM")
            features = Vocabulary.from_pretrained(self.options.model, **self.hub).features
            return Needs([name for name in features if name != "case"], (self.config.get("predicate_size") or 0) > 0)
        inputs = self.config.get("inputs")  # for older folders, the tags tell it
        return Needs(predicate="predicate_marker" in inputs if inputs else bool(given_types(self.tags)))

    def check_decoder(self) -> None:
        crf = CRFLoss(self.tags, tied_crf(self.tags)) if self.config.get("crf") else None
        TagSequenceSpace(self.tags, crf).decided_by(self.options.decoder)

    def open_input(self, gold: bool) -> Reader:
        self.check_decoder()
        columns = self.options.word_column, self.options.tag_column
        needs = self.needs._replace(tags=self.tags if gold else ())
        trained = self.config.get("inputs") or {}
        trained = {name: trained[name] for name in ("word_column", "tag_column") if trained.get(name) is not None}
        self.reader = SentenceFile(Path(self.options.input), needs, *columns, split=self.options.split, trained=trained)
        if not gold and not self.as_columns:
            ours = {"text", "words", "tags", "entities", *["energy"] * self.options.energy}
            ours |= {"probabilities"} if self.probabilities != "none" else set()
            for name in sorted(ours.intersection(self.reader.columns)):
                self.reader.notes.append(f"the input has a field {name!r}: ours is called {self._name(name)!r}.")
        return self.reader

    @cached_property
    def tagger(self) -> Tagger:
        return Tagger(self.model, self.options.decoder, self.options.batch_size)

    # --- predict -----------------------------------------------------------------------------------------------------

    def decided_values(self, chunk: Chunk) -> list[Any]:
        return [tagged.tags for tagged in self.tagger(chunk.inputs)]

    def writer(self, path: Path | None) -> Any:
        return line_writer(path, "\n") if path is not None and self.as_columns else table_writer(path)

    def predict(self, chunk: Chunk) -> list[dict[str, Any]]:
        sentences: Sequence[Sentence] = chunk.inputs
        tagged = self.tagger(sentences, energy=self.options.energy)
        if self.as_columns:
            return [self._columns(*pair) for pair in zip(sentences, tagged, strict=True)]
        return [self._object(*row) for row in zip(chunk.rows, sentences, tagged, strict=True)]

    def _columns(self, sentence: Sentence, tagged: Tagged) -> dict[str, Any]:
        wrong = next((word for word in sentence.words if re.search(r"[\t\n\r]", word)), None)
        if wrong is not None:
            raise DataError(
                f"{sentence.where}: the word {wrong!r} contains a tab or a line break, which columns cannot hold. Give "
                "an output of type .jsonl."
            )
        columns = [sentence.lines, tagged.tags]
        if self.probabilities == "top":
            columns.insert(1, [str(score) for score in self._scores(tagged)])
        return {"lines": [*sentence.before, *map(sentence.separator.join, zip(*columns, strict=True))]}

    def _object(self, row: dict[str, Any], sentence: Sentence, tagged: Tagged) -> dict[str, Any]:
        found: dict[str, Any] = {"text": sentence.text, "words": sentence.words, "tags": tagged.tags}
        found["entities"] = self.entities(sentence, tagged)
        if sentence.predicate is not None and "predicate" not in row:
            found["predicate"] = sentence.predicate
        if self.probabilities == "top":
            found["probabilities"] = self._scores(tagged)
        elif self.probabilities == "all":
            words = tagged.probabilities.astype(float).round(DIGITS).tolist()
            found["probabilities"] = [dict(zip(self.tags, word, strict=True)) for word in words]
        if self.options.energy:
            found["energy"] = None if tagged.energy is None else round(tagged.energy, DIGITS)
        return row | {self._name(name): value for name, value in found.items()}

    def _name(self, name: str) -> str:
        """The name of one of our fields."""
        return f"predicted_{name}" if name in self.reader.columns else name

    def _scores(self, tagged: Tagged) -> list[float]:
        """The probability of each word's tag."""
        ids = [self.tagger.numbers[tag] for tag in tagged.tags]
        return [round(float(word[i]), DIGITS) for word, i in zip(tagged.probabilities, ids, strict=True)]

    def entities(self, sentence: Sentence, tagged: Tagged) -> list[dict[str, Any]]:
        """The spans of a sentence's tags: `label`, `score`, `text`, `start`, `end`, as in the output."""
        scheme, scores = scheme_of_model(self.tags), self._scores(tagged)
        if scheme == "plain":
            found: Any = [(tag, i, i + 1) for i, tag in enumerate(tagged.tags) if tag != "O"]
        else:
            found = spans(tagged.tags, scheme, strict=False)
        entities = []
        for label, first, end in found:
            begin, stop = sentence.places[first][0], sentence.places[end - 1][1]
            score = round(sum(scores[first:end]) / (end - first), DIGITS)
            text = sentence.text[begin:stop]
            entities.append({"label": label, "score": score, "text": text, "start": begin, "end": stop})
        return entities

    # --- evaluate ----------------------------------------------------------------------------------------------------

    def evaluate(self, reader: Reader) -> Evaluation:
        space, options = self.tagger.space, self.options
        predicted: dict[str, list[list[str]]] = {name: [] for name in space.decoders}
        gold: list[list[str]] = []
        rows_of: list[dict[str, Any]] = []

        def decided(chunk: Chunk) -> tuple[dict[str, list[list[str]]], Any, list[dict[str, Any]]]:
            logits = self.tagger.logits(self.tagger.read(chunk.inputs))
            return {name: self.tagger.decide(logits, name) for name in space.decoders}, chunk.gold, chunk.rows

        for by_name, tags, rows in each_chunk(reader, self.rows_per_chunk, decided):
            for name, sequences in by_name.items():
                predicted[name] += sequences
            gold += tags
            rows_of += rows
        judged, chosen = self.judged, space.decoder
        pos = [row["pos"] for row in rows_of] if judged.reads_pos else None
        if options.refit:
            fit = TagDecisions.fit(predicted, gold, judged.kind, decoder=options.decoder, pos=pos)
            chosen = fit.decoder
        by_decoder = {name: judged.figures(rows, gold, pos) for name, rows in predicted.items()}
        results = {
            "model": options.model,
            "input": options.input,
            "rows": len(gold),
            "words": sum(map(len, gold)),
            "decoder": chosen,
            "decisions": {"origin": origin_of(options), "decoder": chosen},
            "figures": by_decoder[chosen],
            "decoders": by_decoder,
            f"{judged.unit}s": judged.report(predicted[chosen], gold, pos),
        }
        shown = {f"{Path(options.input).name}_{figure}": value for figure, value in by_decoder[chosen].items()}
        tables = [f"{len(gold)} {judged.rows}, decoder {chosen} (*), {origin_of(options)}"]
        if len(by_decoder) > 1:
            marked = {f"{name} *" if name == chosen else name: figures for name, figures in by_decoder.items()}
            tables.append(results_table([{"decoder": name, **figures} for name, figures in marked.items()]))
        return Evaluation(results, "\n\n".join([*tables, judged.tables(shown, predicted[chosen], gold, pos)]))

    @property
    def judged(self) -> Judged:
        """How decided tags are compared with gold ones."""
        return judged_tags("srl" if self.needs.predicate else scheme_of_model(self.tags))


class LineWriter(Writer):
    """Writes the `lines` of each row.

    Args:
        after: follows the lines of a row, such as an empty line.
    """

    def __init__(self, file: Any, after: str = ""):
        self.file, self.after = file, after

    def write(self, rows: Rows) -> None:
        for row in rows:
            self.file.writelines(line + "\n" for line in row["lines"])
            self.file.write(self.after)

    def add(self, part: Path) -> None:
        add_text(self.file, part)


@contextmanager
def line_writer(path: Path | None, after: str = "") -> Iterator[LineWriter]:
    """A writer to a file, which is written completely or not at all. Without a path, it writes to the standard
    output."""
    if path is None:
        yield LineWriter(for_eyes(sys.stdout), after)
        return
    with whole_file(path) as unfinished, open(unfinished, "w", encoding="utf-8", newline="") as file:
        yield LineWriter(file, after)
