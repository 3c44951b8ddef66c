"""Tag sequences: load names, files, folders and Hub ids as splits of words and tags.

[`load_tags`] reads: nothing or `toy_tags` -> the embedded task; else, by `tag_files.py`, .srl -> `srl.py`; a file with
`<NEWREFERENCE>` -> `read_references`; .json, .jsonl, and what `table_sources.py` finds (tables in memory, parquet,
folders of `save_to_disk`, `owner/name` on the Hub) -> `tag_tables.py`; other files -> `columns.py`; a plain name ->
that folder under `data_dir`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from os import PathLike, fspath
from os.path import commonprefix
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

from ..core.tag_schemes import SCHEMES, convert, scheme_of, split_tag
from ..utils.messages import did_you_mean, few
from .column_choice import MOSTLY
from .common import SPLITS, DataError, Origins, check_splits, find_data
from .embedded import toy_rows
from .hygiene import repeat_notes
from .sentences import ORIGINS, PREDICATE, Needs, Rows, take
from .splits import add_unlabelled, check_numbers, limit_validation, parted
from .tag_files import Reading, SentenceFile, column_of, read_splits
from .tag_spelling import HAS_SPANS, OUTSIDE, are_types, counted, joined_types, usual_spelling


@dataclass
class TagSequenceData:
    """A data set of tag sequences.

    Attributes:
        name: short name, for logs and the model card.
        train, validation, test: data sets with the columns `words` (T strings), `tags` (T ids into `label_names`),
            perhaps further columns of T strings (`pos`, `chunk`), and for semantic roles `predicate`, the index of a
            word. `test` may be None.
        label_names: C tag names: `O` first, then by type.
        scheme: `plain`, `bio` or `bioes`.
        notes: what the loader did to the data, with counts.
        extra_tests: further test sets of the folder, by file name.
        unlabelled: with `num_labelled` or `unlabelled`, training rows without `tags`.
        origins: split or further test set -> where its rows were read; a line is that of the first word.
        columns: the columns of words and tags that were named, for `config.inputs`.
    """

    name: str
    train: Dataset
    validation: Dataset
    test: Dataset | None
    label_names: list[str]
    scheme: str
    notes: list[str] = field(default_factory=list)
    extra_tests: dict[str, Dataset] = field(default_factory=dict)
    unlabelled: Dataset | None = None
    origins: dict[str, Origins] = field(default_factory=dict)
    columns: dict[str, int | str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """`srl` for data with predicates, else the scheme; the kind for `tag_metrics`."""
        return "srl" if "predicate" in self.train.column_names else self.scheme

    @property
    def other_splits(self) -> list[Dataset]:
        """All splits except train, whose words a vocabulary may look up in pretrained vectors."""
        return [split for split in (self.validation, self.test, *self.extra_tests.values()) if split is not None]

    @property
    def feature_columns(self) -> list[str]:
        """Columns beside `words`, `tags` and `predicate`."""
        return [name for name in self.train.column_names if name not in ("words", "tags", "predicate")]


def load_tags(
    dataset: Any = None,
    *,
    data_dir: str | None = None,
    scheme: str = "auto",
    word_column: int | str = 0,
    tag_column: int | str = -1,
    max_train_rows: int | None = None,
    train_subset: str = "first",
    max_validation_rows: int | None = None,
    num_labelled: int | None = None,
    unlabelled: str | PathLike[str] | None = None,
    seed: int = 0,
) -> TagSequenceData:
    """Load a data set of tag sequences by name, folder, file or Hub id.

    A folder has a file for train, and perhaps files for dev (validation) and test, recognised by their names. Data
    without splits is split with `seed`, 80/10/10, stratified by tag; references at random, 60/20/20. Without a
    validation split, a tenth of train is.

    All splits together give the list of tags. A tag that train lacks is kept, and counted in `notes`. No example trains
    the network's output for it; metrics count it as gold and missed; the list does not depend on `max_train_rows`. Tags
    that break the scheme, and IOB1, are rewritten as the spans that CoNLL's conlleval reads in them, and counted.

    Args:
        dataset: `toy_tags` (default), a path, a name under `data_dir`, `owner/name` on the Hub; or a table in memory: a
            `datasets.Dataset` or `DatasetDict`, a pandas frame, or a mapping of split names to these. A row of a table
            is a sentence: a list of words and one of tags. Paths may be parquet, or folders of `save_to_disk`.
        data_dir: folder of named data sets, searched two levels deep; default: the environment variable SEAL_HF_DATA.
        scheme: of the result: `bio`, `bioes`; `plain`: each tag by itself, as written, and references as bare fields;
            `io`: types without prefixes, whose neighbours are read as one span, as `bio`; `auto`: as found, other
            spellings included (see `usual_spelling`), IOB1 as `bio`.
        word_column, tag_column: column numbers in a file of columns, negative from the last; elsewhere names, and the
            defaults look for `words` or `tokens`, and `tags`, `ner_tags`, `pos_tags` or `labels`.
        max_train_rows: train on only this many rows.
        train_subset: `first`, or `random`, drawn with `seed`; a smaller subset is part of a larger one.
        max_validation_rows: keep only this many rows of the validation split, drawn with `seed`.
        num_labelled: this many of these rows, drawn with `seed`, stay `train`; the others become `unlabelled`.
        unlabelled: a file of further training sentences without tags, which become `unlabelled`, too.
        seed: for all that the data does not fix.

    Raises:
        DataError: tells what is wrong, where, and what to do.
    """
    check_options(scheme, max_train_rows, train_subset, max_validation_rows, num_labelled)
    notes: list[str] = []
    if dataset is None or (isinstance(dataset, str) and dataset == "toy_tags"):
        find_data(dataset, data_dir, (), ("toy_tags",))
        for option, given in (("word_column", str(word_column) != "0"), ("tag_column", str(tag_column) != "-1")):
            if given and (option == "tag_column" or unlabelled is None):
                raise DataError(
                    f"`{option}` names a column, but toy_tags is embedded and has fixed columns. Leave it out."
                )
        name, source, splits = "toy_tags", "toy_tags", toy_rows(seed)
    else:
        reading = Reading(column_of(word_column), column_of(tag_column), scheme == "plain")
        name, source, splits = read_splits(dataset, data_dir, reading, seed, notes)
    column = None if word_column == 0 or word_column == "0" else word_column
    data = build(name, splits, source, scheme, max_train_rows, train_subset, num_labelled, seed, notes)
    limit_validation(data, max_validation_rows, seed)
    named = {"word_column": (column_of(word_column), 0), "tag_column": (column_of(tag_column), -1)}
    data.columns = {name: given for name, (given, usual) in named.items() if given != usual}
    return _with_sentences(data, unlabelled, column)


def load_srl(
    dataset: Any,
    *,
    data_dir: str | None = None,
    scheme: str = "auto",
    max_train_rows: int | None = None,
    train_subset: str = "first",
    seed: int = 0,
) -> TagSequenceData:
    """Load semantic roles from bracket columns (`srl.py`), in files with any suffix, or from tables with a column
    `predicate`; arguments and errors as for [`load_tags`].

    A row is a proposition: `max_train_rows=8000, train_subset="random"` is a fixed sample of propositions.
    """
    check_options(scheme, max_train_rows, train_subset)
    notes: list[str] = []
    name, source, splits = read_splits(dataset, data_dir, Reading(roles=True), seed, notes)
    return build(name, splits, source, scheme, max_train_rows, train_subset, None, seed, notes)


def _with_sentences(
    data: TagSequenceData, file: str | PathLike[str] | None, word_column: int | str | None
) -> TagSequenceData:
    """The data with the sentences of a file among its rows without tags, in place. The file is read as for `seal-hf
    predict`; tags in it are ignored."""
    if file is not None:
        names, predicate = data.feature_columns, PREDICATE in data.train.column_names
        sentences = [*SentenceFile(Path(file), Needs(names, predicate), word_column, usual="train")]
        rows: Rows = {"words": [one.words for one in sentences]}
        rows |= {name: [one.features[name] for one in sentences] for name in names}
        rows |= {PREDICATE: [one.predicate for one in sentences]} if predicate else {}
        add_unlabelled(data, _dataset(rows, {}), fspath(file), "sentences without tags")
    return data


def check_options(
    scheme: str,
    max_train_rows: int | None,
    train_subset: str,
    max_validation_rows: int | None = None,
    num_labelled: int | None = None,
) -> None:
    """Raises DataError for an option of [`load_tags`] with an impossible value."""
    for name, value, known in (
        ("scheme", scheme, ("auto", *SCHEMES, "io")),
        ("train_subset", train_subset, ("first", "random")),
    ):
        if value not in known:
            raise DataError(f"`{name}` is {value!r}; it must be one of {', '.join(known)}.{did_you_mean(value, known)}")
    check_numbers(max_train_rows=max_train_rows, max_validation_rows=max_validation_rows, num_labelled=num_labelled)


def build(
    name: str,
    splits: dict[str, Rows],
    source: str,
    scheme: str,
    max_train_rows: int | None,
    train_subset: str,
    num_labelled: int | None,
    seed: int,
    notes: list[str],
) -> TagSequenceData:
    """The data set of a loader, from the splits that it read; arguments and errors as for [`load_tags`]."""
    for split, rows in splits.items():
        if set(rows) != set(splits["train"]):
            raise DataError(
                f"{source}: the {split} split has the columns {_columns(rows)}, expected "
                f"{_columns(splits['train'])} as in train."
            )
    splits = {split: _without_empty(rows, split, notes) for split, rows in splits.items()}
    _check_words(splits, source)
    scheme = _convert_all(splits, scheme, source, notes)
    label_names = sorted({tag for rows in splits.values() for row in rows["tags"] for tag in row}, key=_order)
    size = len(splits["train"]["words"])
    if max_train_rows is not None and max_train_rows < size:
        rows_taken = np.arange(size) if train_subset == "first" else np.random.default_rng(seed).permutation(size)
        splits["train"] = take(splits["train"], np.sort(rows_taken[:max_train_rows]))
        notes.append(f"train: {train_subset} {max_train_rows} of {size} rows.")
    check_splits({split: len(rows["words"]) for split, rows in splits.items()}, source)
    unlabelled = None
    if num_labelled is not None:
        size = len(splits["train"]["words"])
        kept, others = parted(size, num_labelled, seed, source, notes)
        unlabelled = take(splits["train"], others)
        del unlabelled["tags"]
        splits["train"] = take(splits["train"], kept)
    seen = {tag for row in splits["train"]["tags"] for tag in row}
    unseen = [tag for tag in label_names if tag not in seen]
    if unseen:
        words = sum(tag not in seen for rows in splits.values() for row in rows["tags"] for tag in row)
        notes.append(f"tags that occur only outside train (kept): {few(unseen)} ({words} word{'s' * (words > 1)}).")
    notes += repeat_notes({split: _keys(rows) for split, rows in splits.items()})
    notes += _notes_on_words(splits)
    ids = {tag: i for i, tag in enumerate(label_names)}
    tables = {split: _dataset(rows, ids) for split, rows in splits.items() if rows["words"]}
    extra = {split: table for split, table in tables.items() if split not in SPLITS}
    return TagSequenceData(
        name,
        tables["train"],
        tables["validation"],
        tables.get("test"),
        label_names,
        scheme,
        notes,
        extra,
        _dataset(unlabelled, ids) if unlabelled and unlabelled["words"] else None,
        {split: splits[split][ORIGINS] for split in tables},
    )


def _keys(rows: Rows) -> list[tuple]:
    """Keys that identify the inputs of rows: words and predicate."""
    places = rows.get(PREDICATE) or [None] * len(rows["words"])
    return [(*words, place) for words, place in zip(rows["words"], places, strict=True)]


def _check_words(splits: dict[str, Rows], source: str) -> None:
    """Raises DataError if the words are tags such as B-X and O."""
    words = counted(splits["train"]["words"][:1000])
    tags = sum(count for word, count in words.items() if word in OUTSIDE or HAS_SPANS.fullmatch(word))
    if len(words) > 1 and words["O"] and tags >= MOSTLY * words.total():
        raise DataError(
            f"{source}: the words are tags, such as {few(sorted({*words} - {'O'}), 3)}. Name the columns of the words "
            "and of the tags: `word_column` and `tag_column` (--word_column, --tag_column)."
        )


def _notes_on_words(splits: dict[str, Rows]) -> list[str]:
    """A note on words with invisible characters at their ends, or that all begin alike, as `en:word`."""
    words = {word for row in splits["train"]["words"] for word in row}
    unseen = [word for word in words if unicodedata.category(word[0]) == "Cf" or unicodedata.category(word[-1]) == "Cf"]
    if unseen:
        return [
            f"{len(unseen)} different words begin or end with a character that is not seen, such as {unseen[0]!a}: "
            "they differ from the same words without it. Remove it."
        ]
    begin = re.match(r".*\W|", commonprefix([*words])) if len(words) > 10 else None
    if begin is None or len(begin[0]) < 2:
        return []
    return [f"every word begins with {begin[0]!r}, which words of other texts do not. Remove it from the words."]


def _without_empty(rows: Rows, split: str, notes: list[str]) -> Rows:
    kept = [i for i, words in enumerate(rows["words"]) if words]
    if len(kept) < len(rows["words"]):
        notes.append(f"{split}: {len(rows['words']) - len(kept)} empty sentences dropped.")
        return take(rows, kept)
    return rows


def _first(tags: list[str], splits: dict[str, Rows]) -> str:
    """Where one of these tags stands first, in a sentence."""
    for split, rows in splits.items():
        for number, (words, row) in enumerate(zip(rows["words"], rows["tags"], strict=True), start=1):
            at = next((i for i, tag in enumerate(row) if tag in tags), None)
            if at is not None:
                header = " If that is a line of headers, remove it." if number == 1 and at == 0 else ""
                return f"The first is {row[at]!r} of {words[at]!r}, in sentence {number} of {split}.{header}"
    raise AssertionError("it is one of theirs")


def spelled_alike(types: Iterable[str]) -> list[str]:
    """Those of the types that another one equals but for upper and lower case."""
    lower = Counter(each.lower() for each in types)
    return sorted(each for each in types if lower[each.lower()] > 1)


def _convert_all(splits: dict[str, Rows], scheme: str, source: str, notes: list[str]) -> str:
    """Rewrite the tags in place; return their scheme."""
    names = {tag for rows in splits.values() for row in rows["tags"] for tag in row}
    if scheme != "plain" and _respell(splits, scheme, names, notes):
        names = {tag for rows in splits.values() for row in rows["tags"] for tag in row}
    found = scheme_of(names)
    odd = sorted(name for name in names if scheme_of([name]) == "plain" and name != "O")
    if scheme != "plain" and 0 < 2 * len(odd) < len(names):  # a typo must not silently turn spans into plain tags
        raise DataError(
            f"{source}: most of the {len(names)} tags are O, B-X, I-X, ..., but these are not: {few(odd)}. "
            f"{_first(odd, splits)} Correct them, or read each tag by itself: scheme='plain' (--scheme plain)."
        )
    alike = sorted(name for name in names if HAS_SPANS.fullmatch(name))
    if scheme == "auto" and found == "plain" and 2 * len(alike) > len(names - {"O", "o"}):
        raise DataError(
            f"{source}: most of the {len(names)} tags look like B-X and I-X, but are written otherwise: {few(alike)}. "
            "Correct them, or read each tag by itself: scheme='plain' (--scheme plain)."
        )
    if scheme == "plain" or found == "plain":
        if scheme not in ("auto", "plain"):
            raise DataError(
                f"`scheme` is {scheme!r}, but the tags are plain: names without B- and I-. Use auto or plain."
            )
        notes += _notes_on_plain(splits, scheme)
        return "plain"
    target = "bio" if scheme == "io" else found if scheme == "auto" else scheme
    changed = 0
    for rows in splits.values():
        converted = [convert(row, target) for row in rows["tags"]]
        if target == found:
            pairs = zip(rows["tags"], converted, strict=True)
            changed += sum(tag != now for old, new in pairs if old != new for tag, now in zip(old, new, strict=True))
        rows["tags"] = converted
    if changed:
        notes.append(f"{changed} tags rewritten as well-formed {target}, spans as conlleval reads them (IOB1, BILOU).")
    alike = spelled_alike({split_tag(name)[1] for name in names})
    if alike:
        notes.append(f"types that differ in upper and lower case alone, kept as they are: {few(alike)}.")
    joined = sorted({kind for name in names if re.search(r"[|,;/ ][BIESLU]-", kind := split_tag(name)[1])})
    if joined:
        notes.append(f"a word has one tag: types such as {joined[0]!r}, which hold further ones, are read as they are.")
    if target != found:
        notes.append(f"tags converted from {found} to {target}.")
    return target


def _respell(splits: dict[str, Rows], scheme: str, names: set[str], notes: list[str]) -> bool:
    """Rewrite tags of spans in another spelling, in place; False if there are none."""
    changed, note = usual_spelling(names)
    if changed:
        notes.append(f"{note} scheme='plain' (--scheme plain) reads each as it is written.")
        for rows in splits.values():
            rows["tags"] = [[changed.get(tag, tag) for tag in row] for row in rows["tags"]]
        return True
    if "O" not in names or scheme_of(names) != "plain":
        return False
    if scheme != "io" and not are_types(counted(row for rows in splits.values() for row in rows["tags"])):
        return False
    notes.append(
        "types without B- and I-: neighbours of one type are read as one span, so touching spans of one type are "
        "one. scheme='plain' (--scheme plain) reads each word by itself."
    )
    for rows in splits.values():
        rows["tags"] = [joined_types(row) for row in rows["tags"]]
    return True


def _notes_on_plain(splits: dict[str, Rows], scheme: str) -> list[str]:
    """What may be wrong with tags that are read each by itself."""
    notes = []
    counts = counted(row for rows in splits.values() for row in rows["tags"])
    if scheme == "auto" and all(map(str.isdigit, counts)):
        notes.append(
            "tags are numbers, each read by itself. If they are ids of B-X and I-X, there are no spans: give the "
            "names in id2label.json or labels.txt beside the data, or a column of ClassLabel."
        )
    elif scheme == "auto" and (feature := next((tag for tag in counts if "=B-" in tag), None)):
        notes.append(
            f"tags are features such as {feature!r}, each read by itself, so there are no spans. Write what follows "
            "the = into a column of its own to read them."
        )
    elif scheme == "auto" and "O" in counts and len(counts) > 1:
        notes.append(
            "O stands beside names without B- and I-, and most words are not O: each tag is read by itself, so there "
            "are no spans and no F1 of spans. scheme='io' (--scheme io) reads neighbours of one type as one span."
        )
    for split, rows in splits.items():
        tag = rows["tags"][0][0] if rows["tags"] and rows["tags"][0] else ""
        if counts[tag] == 1 and len(counts) > 2 and sum(counts.values()) > 20:
            word = rows["words"][0][0]
            notes.append(
                f"the tag {tag!r} occurs once, of the first word of {split}, {word!r}: is it a line of headers?"
            )
    return notes


def _columns(rows: Rows) -> str:
    return ", ".join(name for name in rows if name != ORIGINS)


def _order(tag: str) -> tuple:
    prefix, kind = split_tag(tag)
    return (tag != "O", (kind or prefix).zfill(6) if tag.isdigit() else kind or prefix, prefix if kind else "")


def _dataset(rows: Rows, ids: dict[str, int]) -> Dataset:
    words = pa.list_(pa.string())
    others = ("tags", "predicate", ORIGINS)
    columns = {name: pa.array(values, type=words) for name, values in rows.items() if name not in others}
    if "tags" in rows:
        tags = pa.array(rows["tags"], type=words)
        numbers = pc.index_in(tags.flatten(), value_set=pa.array([*ids], type=pa.string())).cast(pa.int64())
        columns["tags"] = pa.ListArray.from_arrays(tags.offsets, numbers)
    if "predicate" in rows:
        columns["predicate"] = pa.array(rows["predicate"], type=pa.int64())
    return Dataset(pa.table(columns))
