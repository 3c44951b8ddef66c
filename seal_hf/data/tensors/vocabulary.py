"""Words, characters and features as ids, saved beside the model as `vocabulary.json`.

In every list, id 0 is padding and id 1 stands for unknown values.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers.utils import cached_file, logging

from ...utils.gate import HUB, check_origin
from .. import DataError
from .word_vectors import WordVectors

logger = logging.get_logger(__name__)

FILE_NAME = "vocabulary.json"
SPECIAL = ["<pad>", "<unk>"]  # ids 0 and 1
CASES = [*SPECIAL, "lower", "upper", "other"]  # case of a word's first character
DIGIT = re.compile(r"\d")


@dataclass
class Vocabulary:
    """The ids of words, characters and feature values.

    Attributes:
        words: `words[i]` is the word with id i, in the form from `normalize`.
        chars: characters of the original words; empty: no character ids.
        features: values of each categorical column, by its name. `case` needs no column: it is the case of a word's
            first character.
        lowercase: words are looked up in lower case.
        zero_digits: words are looked up with every digit as 0.
        word_width: W, characters that are read of a word; longer words are cut.

    Raises:
        ValueError: a list does not begin with the two special values, or repeats a value.
    """

    words: list[str]
    chars: list[str] = field(default_factory=list)
    features: dict[str, list[str]] = field(default_factory=dict)
    lowercase: bool = True
    zero_digits: bool = False
    word_width: int = 20
    model_input_names = ("input_ids",)  # the Trainer groups rows by its length

    def __post_init__(self) -> None:
        if self.word_width < 1:
            raise ValueError(f"`word_width` is {self.word_width}; it must be at least 1.")
        lists = {"words": self.words, **({"chars": self.chars} if self.chars else {}), **self.features}
        for name, values in lists.items():
            if values[:2] != SPECIAL:
                raise ValueError(f"`{name}` begins with {values[:2]}; ids 0 and 1 of a vocabulary are {SPECIAL}.")
            value, count = Counter(values).most_common(1)[0]
            if count > 1:
                raise ValueError(f"`{name}` has {value!r} {count} times; every value has one id. Remove the others.")
        self._ids = {name: {value: i for i, value in enumerate(values)} for name, values in lists.items()}

    @classmethod
    def from_data(
        cls,
        train: Dataset,
        others: Iterable[Dataset] = (),
        *,
        vectors: WordVectors | None = None,
        features: Sequence[str] = (),
        characters: bool = False,
        min_count: int = 1,
        **options: Any,
    ) -> Vocabulary:
        """The vocabulary of data sets with a column `words`, lists of strings.

        Args:
            train: words that occur here at least `min_count` times are known; so are its characters and feature values.
            others: validation and test: their words, and rare words of train, are known if they have a pretrained
                vector. Labels are not read.
            vectors: pretrained vectors.
            features: columns, lists of one value per word; and `case`.
            characters: True to read words by characters too.
            options: `lowercase`, `zero_digits`, `word_width`.

        Raises:
            DataError: a column is missing.
        """
        empty = cls(list(SPECIAL), **options)
        counts = Counter(chain.from_iterable(column(train, "words")))
        normal: Counter[str] = Counter()
        for word, count in counts.items():
            normal[empty.normalize(word)] += count
        known = {word for word, count in normal.items() if count >= min_count}
        if vectors is not None:
            heard = chain.from_iterable(chain.from_iterable(column(rows, "words")) for rows in others)
            known |= ({empty.normalize(word) for word in set(heard)} | normal.keys()) & set(vectors.words)
        values = {name: set(chain.from_iterable(column(train, name))) for name in features if name != "case"}
        return cls(
            words=_numbered(known),
            chars=_numbered(set(chain.from_iterable(counts))) if characters else [],
            features={name: CASES if name == "case" else _numbered(values[name]) for name in features},
            **options,
        )

    # --- words into ids ----------------------------------------------------------------------------------------------

    def normalize(self, word: str) -> str:
        """The form of a word for the look-up."""
        word = word.lower() if self.lowercase else word
        return DIGIT.sub("0", word) if self.zero_digits else word

    def word_ids(self, words: Sequence[str]) -> np.ndarray:
        """Ids of N words, (N,) int64."""
        return self._lookup("words", [self.normalize(word) for word in words])

    def char_ids(self, words: Sequence[str]) -> np.ndarray:
        """Ids of the characters of N words, (N, word_width) int64, 0 = padding."""
        ids, table = np.zeros((len(words), self.word_width), np.int64), self._ids["chars"]
        for row, word in zip(ids, words, strict=True):
            row[: len(word)] = [table.get(char, 1) for char in word[: self.word_width]]
        return ids

    def feature_ids(self, name: str, values: Sequence[str]) -> np.ndarray:
        """Ids of a feature of N words, (N,) int64; for `case`, the values are the words."""
        return self._lookup(name, [_case(word) for word in values] if name == "case" else values)

    def _lookup(self, name: str, values: Sequence[str]) -> np.ndarray:
        table = self._ids[name]
        return np.fromiter((max(1, table.get(value, 1)) for value in values), np.int64, len(values))

    def word_matrix(self, vectors: WordVectors, seed: int = 0) -> tuple[np.ndarray, int]:
        """The initial word table, (V, D) float32, and the number of its words with a pretrained vector.

        Words without one get uniform values in +-sqrt(3 / D) (Ma & Hovy 2016, section 3.2); padding gets zeros.
        """
        width = vectors.matrix.shape[1]
        bound = (3 / width) ** 0.5
        matrix = np.random.default_rng(seed).uniform(-bound, bound, (len(self.words), width)).astype(np.float32)
        matrix[0] = 0
        rows = {word: i for i, word in enumerate(vectors.words)}
        pairs = np.array([(i, rows[word]) for i, word in enumerate(self.words) if i > 1 and word in rows], np.int64)
        if len(pairs):
            matrix[pairs[:, 0]] = vectors.matrix[pairs[:, 1]]
        return matrix, len(pairs)

    # --- files -------------------------------------------------------------------------------------------------------

    def save_pretrained(self, folder: str | Path, **kwargs: Any) -> None:
        """Write `folder/vocabulary.json`. A Trainer does so with every checkpoint: `processing_class=vocabulary`."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, FILE_NAME).write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1), encoding="utf-8")

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, asked: Mapping[str, Any] | None = None, **hub: Any) -> Vocabulary:
        """Read a vocabulary that `save_pretrained` wrote to a folder, or that was pushed to the Hub.

        Args:
            asked: the `word_vectors`, `word_features` and `characters` that a program was called with. A saved net
                keeps its own; a warning tells if they differ.
            hub: `revision`, `token` and so on, as for any `from_pretrained`.

        Raises:
            DataError: the file does not exist, or is not a vocabulary.
        """
        hub = {key: value for key, value in hub.items() if key in HUB}  # no code is read
        path = Path(folder, FILE_NAME)
        if Path(folder).is_dir():
            check_origin(folder, files=())
        else:
            with contextlib.suppress(OSError):
                path = Path(str(cached_file(str(folder), FILE_NAME, **hub)))
        if not path.is_file():
            raise DataError(
                f"{path} is missing. Save the vocabulary into the model's folder: `save_pretrained(folder)`."
            )
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{path} is not JSON ({error}). Save the vocabulary again.") from error
        checks = {
            "words": _is_list_of_strings,
            "chars": _is_list_of_strings,
            "features": lambda value: isinstance(value, dict) and all(map(_is_list_of_strings, value.values())),
            "lowercase": lambda value: isinstance(value, bool),
            "zero_digits": lambda value: isinstance(value, bool),
            "word_width": lambda value: isinstance(value, int) and not isinstance(value, bool),
        }
        names = {option.name for option in fields(cls)}
        if not isinstance(found, dict) or found.keys() != names:
            keys = sorted(found) if isinstance(found, dict) else type(found).__name__
            raise DataError(f"{path} has {keys}; a vocabulary has {sorted(names)}. Save the vocabulary again.")
        wrong = [name for name, fits in checks.items() if not fits(found[name])]
        if wrong:
            raise DataError(f"{path}: `{wrong[0]}` has another type than in a vocabulary. Save the vocabulary again.")
        try:
            vocabulary = cls(**found)
        except ValueError as error:
            raise DataError(f"{path}: {error}") from error
        vocabulary._say_what_stays(str(folder), asked or {})
        return vocabulary

    def _say_what_stays(self, folder: str, asked: Mapping[str, Any]) -> None:
        if vectors := asked.get("word_vectors"):
            logger.warning(f"The BiLSTM in {folder} keeps its word table: `word_vectors` {vectors!r} is ignored.")
        features = list(asked.get("word_features") or [])
        if features and set(features) != self.features.keys():
            found = list(self.features)
            logger.warning(f"The BiLSTM in {folder} keeps its `word_features` {found}; {features} is ignored.")
        if asked.get("characters") and not self.chars:
            logger.warning(f"The BiLSTM in {folder} does not read `characters`: the flag is ignored.")


def column(dataset: Dataset, name: str) -> list[list]:
    """The rows of a column.

    Raises:
        DataError: the column does not exist.
    """
    if name not in dataset.column_names:
        raise DataError(f"The data has no column `{name}` (its columns: {', '.join(dataset.column_names)}). Add it.")
    return dataset[name][:]


def _numbered(values: Iterable[str]) -> list[str]:
    """The two special values, and all others sorted: every process has the same ids."""
    return SPECIAL + sorted(set(values) - set(SPECIAL))


def _case(word: str) -> str:
    return "upper" if word[:1].isupper() else "lower" if word[:1].islower() else "other"


def _is_list_of_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
