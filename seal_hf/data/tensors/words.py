"""Batches of sentences with a tag per word: word ids for the BiLSTM, sub-words for a Hugging Face encoder, and
overlapping windows of sentences that are too long for an encoder.

The data has columns `words` (lists of strings), `tags` (lists of ints of the same length; -1 is a word without a tag),
perhaps feature columns (lists of strings) and `predicate` (the index of the predicate among the words).

A window holds whole words. If two windows overlap, the outputs for the first half of the shared words come from the
earlier window, the others from the later one: each word is read with its neighbours on both sides.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from datasets import Dataset, Features, List, Value
from transformers import AutoTokenizer, BatchEncoding, PretrainedConfig, PreTrainedTokenizerBase

from ...core.space import UNLABELLED
from ...core.tensors import IGNORED
from ...utils.files import loading
from ...utils.gate import TOKENIZER, check_origin, check_trust, no_questions
from ...utils.messages import one_line
from ...utils.options import check_value
from ..common import DataError
from .collators import TensorRows, padding_id
from .vocabulary import Vocabulary

STRINGS, INTEGERS = ("string", "large_string"), ("int64", "int32", "int16", "int8")
PREDICATE_MARKERS = ("token_type", "segment")
POSITIONS_AFTER_PADDING = frozenset(  # encoders whose first position is `pad_token_id` + 1
    "camembert data2vec-text esm ibert layoutlmv3 lilt longformer luke markuplm mpnet roberta roberta-prelayernorm "
    "xlm-roberta xlm-roberta-xl xmod".split()
)
PADDING = {"input_ids": 0, "attention_mask": 0, "token_type_ids": 0, "char_ids": 0, "labels": IGNORED}


def saved_tokenizer(name: str, **kwargs: Any) -> PreTrainedTokenizerBase:
    """The tokenizer saved beside an existing model: most failures mean that it is missing.

    Raises:
        ValueError: the tokenizer is missing.
    """
    try:
        return load_tokenizer(name, **kwargs)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{name} lacks a tokenizer for raw inputs. Save the one that the model was trained with there: "
            f"tokenizer.save_pretrained(folder). What was found: {one_line(str(error).splitlines()[0], 300)}"
        ) from error


def load_tokenizer(name: str, *, trust_remote_code: bool = False, **kwargs: Any) -> PreTrainedTokenizerBase:
    """`AutoTokenizer.from_pretrained`, with an error for a folder without tokenizer, where it returns one without words
    (transformers 4: fails).

    Args:
        trust_remote_code: True runs the code that the folder or repo names.

    Raises:
        ValueError: the tokenizer is missing or damaged, or does not pass the gate, see [`check_origin`].
    """
    code = check_trust(name, trust_remote_code, kwargs.get("revision"))
    check_origin(name, kwargs, files=TOKENIZER)
    with loading(name, "a tokenizer"), no_questions(name, kwargs):
        try:
            tokenizer = AutoTokenizer.from_pretrained(name, **{**kwargs, **code})
        except TypeError:  # a vocabulary file's name is None
            tokenizer = None
    if tokenizer is None or len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ValueError(
            f"{name} lacks a tokenizer: all words would be unknown. Save the one that the model was trained with "
            "there: tokenizer.save_pretrained(folder)."
        )
    return tokenizer


class WordRows(TensorRows):
    """[`TensorRows`] of tagged sentences.

    The i-th position with a label in a row is the row's i-th word; words after the last such position were cut.

    Attributes:
        data: the sentences that they were made of.
        num_words: number of words in each row before cutting, (N,) int64: metrics count cut words too.
        num_cut: number of cut words in all rows.
        num_unknown: number of words that became the unknown token, since the tokenizer gave nothing for them.
    """

    def __init__(
        self, dataset: Dataset, padding: dict[str, int], data: Dataset, num_cut: int = 0, num_unknown: int = 0
    ):
        super().__init__(dataset, padding)
        self.data = data
        self.num_words = _lengths(data)
        self.num_cut = num_cut
        self.num_unknown = num_unknown

    @property
    def notes(self) -> list[str]:
        """Notes for the user on what the rows lost."""
        return [
            f"{count} of {self.num_words.sum()} words {what}."
            for count, what in (
                (self.num_cut, "were cut off, and count as tagged with the first tag"),
                (self.num_unknown, "gave the tokenizer no sub-word, and became its unknown token"),
            )
            if count
        ]


def encode_words(dataset: Dataset, vocabulary: Vocabulary) -> WordRows:
    """Rows for the BiLSTM: `input_ids`, `attention_mask`, `labels` (B, T); and if vocabulary and data have them,
    `char_ids` (B, T, W), `<feature>_ids` and `token_type_ids` (B, T), 1 at the predicate.

    Raises:
        DataError: a column is missing, or a row's values do not match its words.
    """
    columns = [name for name in vocabulary.features if name != "case"]
    check_words(dataset, columns)
    marked = "predicate" in dataset.column_names
    names = ["input_ids", "attention_mask", "labels", *(["token_type_ids"] if marked else [])]
    names += [f"{name}_ids" for name in vocabulary.features]
    types = {name: List(Value("int64")) for name in names}
    if vocabulary.chars:
        types["char_ids"] = List(List(Value("int32"), length=vocabulary.word_width))

    def encode(rows: dict[str, list]) -> dict[str, list]:
        lengths = [len(words) for words in rows["words"]]
        words, ends = list(chain.from_iterable(rows["words"])), np.cumsum(lengths)[:-1]
        flat = {"input_ids": vocabulary.word_ids(words), "attention_mask": np.ones(len(words), np.int64)}
        for name in vocabulary.features:
            values = words if name == "case" else list(chain.from_iterable(rows[name]))
            flat[f"{name}_ids"] = vocabulary.feature_ids(name, values)
        if vocabulary.chars:
            flat["char_ids"] = vocabulary.char_ids(words)
        if marked:
            flat["token_type_ids"] = np.zeros(len(words), np.int64)
            starts = np.cumsum([0, *lengths[:-1]])
            flat["token_type_ids"][starts + np.array(rows["predicate"])] = 1
        return {"labels": rows["tags"]} | {name: np.split(values, ends) for name, values in flat.items()}

    encoded = dataset.map(encode, batched=True, remove_columns=dataset.column_names, features=Features(types))
    return WordRows(encoded, PADDING | dict.fromkeys(names, 0) | {"labels": IGNORED}, dataset)


def positions(config: Any) -> int | None:
    """The number of tokens with positions in the encoder: RoBERTa's kin start them after the padding token's id."""
    config = config.of_encoder() if hasattr(config, "of_encoder") else config
    size = getattr(config, "max_position_embeddings", None)
    after_padding = size is not None and getattr(config, "model_type", None) in POSITIONS_AFTER_PADDING
    return size - config.pad_token_id - 1 if after_padding else size


def tokenize_words(
    dataset: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int | None = None,
    *,
    truncation: bool = False,
    predicate_marker: str | None = None,
    config: PretrainedConfig | None = None,
) -> WordRows:
    """Rows for a Hugging Face encoder: the first sub-word of each word has its label, all others -100.

    Args:
        tokenizer: a fast one; RoBERTa's kind must be loaded with `add_prefix_space=True`.
        max_length: most tokens of a row, with special ones; the limits of tokenizer and encoder also apply.
        truncation: cut longer rows at their end and count them; default: an error.
        predicate_marker: how the data's `predicate` is shown. `token_type`: its sub-words have token type 1; a cut row
            may lose it. `segment`: it follows the sentence as a second segment, "[CLS] words [SEP] predicate [SEP]"
            (BERT-SRL, Shi & Lin 2019); a cut row keeps it. Default: `token_type`, or `segment` if `config` is of an
            encoder without a second token type.
        config: the encoder's configuration, to check against: `type_vocab_size`, `max_position_embeddings`.

    Raises:
        ValueError: the tokenizer is slow, or lacks an unknown token that is needed; rows are too long; the encoder
            lacks a second token type.
        DataError: a column is missing, or a row's values do not match its words.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"{type(tokenizer).__name__} is not a fast tokenizer: it cannot tell the word of a sub-word.")
    check_words(dataset)
    predicate_marker = marker_of(predicate_marker, config)
    marker = predicate_marker if "predicate" in dataset.column_names else None
    _check_marker(marker, predicate_marker, config)
    least = tokenizer.num_special_tokens_to_add(pair=marker == "segment") + (2 if marker == "segment" else 1)
    if max_length is not None and max_length < least:
        raise ValueError(f"`max_length` is {max_length}; with special tokens a row has at least {least}.")
    limits = (max_length, tokenizer.model_max_length, positions(config))
    limit = min([sys.maxsize, *(value for value in limits if value is not None and value > 0)])
    options: dict[str, Any] = {"limit": limit, "truncation": truncation, "marker": marker}
    encoded = dataset.map(
        lambda rows: _encode_rows(rows, tokenizer, **options), batched=True, remove_columns=dataset.column_names
    )
    lengths = np.array(encoded["num_tokens"][:], dtype=np.int64)
    if (lengths > limit).any() and not truncation:
        longest = int(lengths.argmax())
        begins = " ".join(dataset[longest]["words"][:5])
        raise ValueError(
            f"{(lengths > limit).sum()} of {len(lengths)} rows have more than {limit} tokens. The longest, row "
            f"{longest} with {lengths[longest]}, begins {begins!r}. Split them, give a larger "
            "`max_length` if the encoder allows it, or cut them: `truncation=True` (--truncation true)."
        )
    counts = {f"num_{name}": sum(encoded[f"num_{name}"][:]) for name in ("cut", "unknown")}
    unread = ["token_type_ids"] if _token_types(config) < 2 else []
    encoded = encoded.remove_columns(
        [name for name in encoded.column_names if name.startswith("num_") or name in unread]
    )
    padding = {**PADDING, "input_ids": padding_id(tokenizer)}
    rows = WordRows(encoded, {name: padding[name] for name in encoded.column_names}, dataset, **counts)
    rows.inputs = {"predicate_marker": marker} if marker else None
    return rows


def _encode_rows(
    rows: dict[str, list], tokenizer: PreTrainedTokenizerBase, limit: int, truncation: bool, marker: str | None
) -> dict[str, list]:
    """A batch of `map`: token ids, labels, and counts per row."""
    places: list[int] = rows["predicate"] if marker else []
    sentences = [list(words) for words in rows["words"]]
    encoded = _call(tokenizer, sentences, places if marker == "segment" else None)
    columns: dict[str, list] = {"num_tokens": [len(ids) for ids in encoded["input_ids"]], "num_unknown": []}
    for i, words in enumerate(sentences):
        missing = set(range(len(words))) - set(_word_ids(encoded, i).tolist())
        columns["num_unknown"].append(len(missing))
        for place in missing:
            if tokenizer.unk_token is None:
                raise ValueError(
                    f"The tokenizer has no sub-word for the word {words[place]!r}, and lacks an unknown token. Replace "
                    "the word."
                )
            words[place] = tokenizer.unk_token
    cut = truncation and max(columns["num_tokens"], default=0) > limit
    if cut and marker == "segment":
        _check_room(tokenizer, sentences, places, limit)
    if cut or any(columns["num_unknown"]):
        encoded = _call(tokenizer, sentences, places if marker == "segment" else None, limit if truncation else None)
        columns["num_tokens"] = [len(ids) for ids in encoded["input_ids"]]
    columns |= {name: encoded[name] for name in ("input_ids", "attention_mask")}
    if marker == "segment" and "token_type_ids" in encoded:
        columns["token_type_ids"] = encoded["token_type_ids"]
    columns |= {"labels": [], "num_cut": []} | ({"token_type_ids": []} if marker == "token_type" else {})
    for i, words in enumerate(sentences):
        ids = _word_ids(encoded, i)  # (T,)
        first = (ids >= 0) & (ids != np.concatenate([[-1], ids[:-1]]))
        assert np.array_equal(ids[first], np.arange(first.sum())), f"words {ids[first]} of {words}"
        columns["labels"].append(np.where(first, np.array([*rows["tags"][i], 0])[ids], IGNORED))  # -1 reads the 0
        columns["num_cut"].append(len(words) - int(first.sum()))
        if marker == "token_type":
            columns["token_type_ids"].append((ids == places[i]).astype(np.int64))
    return columns


def _check_room(tokenizer: PreTrainedTokenizerBase, sentences: list[list[str]], places: list[int], limit: int) -> None:
    """Raises ValueError if a predicate, which is never cut, leaves no room for a word."""
    predicates = [[words[place]] for words, place in zip(sentences, places, strict=True)]
    ids = tokenizer(predicates, is_split_into_words=True, add_special_tokens=False)["input_ids"]
    longest = max(range(len(ids)), key=lambda i: len(ids[i]))
    least = len(ids[longest]) + tokenizer.num_special_tokens_to_add(pair=True) + 1
    if least > limit:
        raise ValueError(
            f"`max_length` is {limit}, but with the predicate {predicates[longest][0]!r} as its second segment and "
            f"special tokens a row has at least {least}."
        )


def _call(
    tokenizer: PreTrainedTokenizerBase, sentences: list[list[str]], places: list[int] | None, limit: int | None = None
) -> BatchEncoding:
    second = [[words[place]] for words, place in zip(sentences, places, strict=True)] if places is not None else None
    cut: dict[str, Any] = {"truncation": "only_first", "max_length": limit} if limit is not None else {}
    return tokenizer(sentences, second, is_split_into_words=True, return_attention_mask=True, verbose=False, **cut)


def _word_ids(encoded: BatchEncoding, row: int) -> np.ndarray:
    """The word of each token, (T,); -1 for special tokens and for the second segment."""
    words, segments = encoded.word_ids(row), encoded.sequence_ids(row)
    return np.array(
        [-1 if word is None or segment != 0 else word for word, segment in zip(words, segments, strict=True)], np.int64
    )


def marker_of(asked: str | None, config: PretrainedConfig | None) -> str:
    """How a predicate is shown: as `asked`, by default as the encoder allows."""
    return asked or ("token_type" if _token_types(config) >= 2 else "segment")


def _token_types(config: PretrainedConfig | None) -> int:
    return 2 if config is None else getattr(config, "type_vocab_size", 0)


def _check_marker(marker: str | None, asked: str, config: Any) -> None:
    check_value("predicate_marker", asked, PREDICATE_MARKERS)
    types = _token_types(config)
    if marker == "token_type" and types < 2:
        raise ValueError(
            f"predicate_marker='token_type' needs two token types, but the encoder ({config.model_type}) has {types}. "
            "Use 'segment'."
        )


def check_words(dataset: Dataset, features: list[str] | tuple[str, ...] = ()) -> None:
    """Check that there are rows, and that each has words, as many tags and feature values, and a predicate among them.

    Raises:
        DataError: names what is missing, or the first wrong row.
    """
    missing = [name for name in ("words", "tags", *features) if name not in dataset.column_names]
    if missing:
        raise DataError(
            f"The data has no column `{missing[0]}` (its columns: {', '.join(dataset.column_names)}). Add it."
        )
    if not len(dataset):
        raise DataError("The data has no rows.")
    for name, kinds in {"words": STRINGS, "tags": INTEGERS, **dict.fromkeys(features, STRINGS)}.items():
        found = getattr(dataset.features[name], "feature", None)
        if getattr(found, "dtype", None) not in kinds:
            raise DataError(
                f"Column `{name}` is {dataset.features[name]}; it must be lists of {kinds[0]}, one per word."
            )
        if any(row is None or None in row for row in dataset[name][:]):
            raise DataError(f"Column `{name}` has missing values. Fill them in, or remove the rows.")
    lengths = _lengths(dataset)
    if lengths.min() < 1:
        raise DataError(f"Row {lengths.argmin()} has no words. Remove it.")
    for name in ("tags", *features):
        found = _lengths(dataset, name)
        if (found != lengths).any():
            row = (found != lengths).argmax()
            raise DataError(
                f"Row {row} has {lengths[row]} words but {found[row]} values in `{name}`; it must have one per word."
            )
    negative = [i for i, tags in enumerate(dataset["tags"][:]) if min(tags) < UNLABELLED]
    if negative:
        raise DataError(f"Row {negative[0]} has a negative tag; tags are ids from 0, or {UNLABELLED} without gold.")
    if "predicate" in dataset.column_names:
        places = np.array(dataset["predicate"][:], dtype=np.int64)
        outside = (places < 0) | (places >= lengths)
        if outside.any():
            row = outside.argmax()
            raise DataError(f"Row {row} has its predicate at {places[row]}, but {lengths[row]} words, numbered from 0.")


def _lengths(dataset: Dataset, name: str = "words") -> np.ndarray:
    """Length of each row of a column of lists, (N,) int64."""
    return np.array([len(row) for row in dataset[name][:]], dtype=np.int64)


# --- windows ----------------------------------------------------------------------------------------------------------

OVERLAP = 0.25  # largest share of a window for words of the window before


class Window(NamedTuple):
    """Words `start .. end - 1` of a sentence; it gives the outputs for words `first .. last - 1`."""

    start: int
    end: int
    first: int
    last: int


def windows_of(sizes: Sequence[int] | np.ndarray, room: int) -> list[Window]:
    """Windows of a sentence, from left to right; a single one if the sentence fits.

    Args:
        sizes: number of sub-words of each word, at least 1.
        room: most sub-words in a window.

    Raises:
        ValueError: a word has more than `room` sub-words.
    """
    if max(sizes) > room:
        word = int(np.argmax(sizes))
        raise ValueError(f"word {word} has {sizes[word]} sub-words, but the encoder reads at most {room} at once")
    ends = np.concatenate([[0], np.cumsum(sizes)])  # sub-words before each word, and in all
    bounds = [(0, _furthest(ends, 0, room))]
    while bounds[-1][1] < len(sizes):
        before, end = bounds[-1]
        start = int(np.searchsorted(ends, ends[end] - OVERLAP * room))
        while _furthest(ends, start, room) == end:  # the next word is too long for all of these
            start += 1
        bounds.append((start, _furthest(ends, start, room)))
    cuts = [0, *((later[0] + earlier[1]) // 2 for earlier, later in pairwise(bounds)), len(sizes)]
    return [Window(*bound, *cut) for bound, cut in zip(bounds, pairwise(cuts), strict=True)]


def _furthest(ends: np.ndarray, start: int, room: int) -> int:
    """The end of the longest window that begins at a word."""
    return int(np.searchsorted(ends, ends[start] + room, side="right")) - 1


def subword_counts(sentences: list[list[str]], tokenizer: PreTrainedTokenizerBase) -> list[np.ndarray]:
    """Numbers of sub-words of each word of N sentences; 1 for a word that becomes the unknown token."""
    encoded = tokenizer(sentences, is_split_into_words=True, add_special_tokens=False, verbose=False)
    counts = []
    for i, words in enumerate(sentences):
        found = np.array(encoded.word_ids(i), dtype=np.int64)
        counts.append(np.bincount(found, minlength=len(words)).clip(min=1))
    return counts
