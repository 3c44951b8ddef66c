"""Choose the columns of a table that hold texts and labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ..utils.messages import did_you_mean, few
from .column_labels import asked_columns, is_all_but, is_zero_one
from .common import IMAGE, DataError
from .hygiene import looks_like_data
from .label_cells import is_number, valid_text

Rows = dict[str, Any]  # lists of N values by column; features are an array (N, F)
TEXTS, LABELS = ("text", "sentence"), ("labels", "label")  # usual names of these columns
FEATURES = "features"
IDENTIFIERS = ("id", "idx", "")  # columns that are neither
INDEXES = ("", "Unnamed: 0", "__index_level_0__")  # pandas' names for the index of a frame


class Columns(NamedTuple):
    """The columns to use, as in the arguments of [`load_multilabel`] with the same names."""

    text_column: str | None = None
    label_column: str | None = None
    label_columns: str | Sequence[str] | None = None
    label_format: str = "auto"
    sample_weight: str | None = None
    image_column: str | None = None


class Chosen(NamedTuple):
    """The chosen columns.

    Attributes:
        text: the column of texts, of features or of images.
        labels: the column of label sets; None: each label has a column.
        each: the columns of 0 and 1, one per label.
        note: tells what was chosen for the user, or is empty.
    """

    text: str
    labels: str | None
    each: list[str]
    note: str


def choose(asked: Columns, rows: Rows, classes: Collection[str], source: str, inputs: str = "texts") -> Chosen:
    """The columns that are asked for, else those with the usual names, else the only possible ones.

    Args:
        asked: the user's choice.
        rows: column -> values, of one split.
        classes: columns whose values are known to be classes.
        source: for messages.
        inputs: what the column of texts holds, for the note.

    Raises:
        DataError: a column is missing, or ambiguous.
    """
    if asked.label_columns is not None:
        return _each_label(asked, rows, source, inputs)
    labels = asked.label_column or next((name for name in LABELS if name in rows), None)
    if labels is None and len(classes) == 1:
        (labels,) = classes
    if labels is None:
        return _found_zero_one(asked, rows, source, inputs)
    need_column(labels, rows, "label_column", source)
    text = asked.text_column or find_text_column(rows, (labels,), source)
    if labels in text_columns(text, rows):
        raise DataError(f"{source}: the column {labels!r} would be both the input and the labels. Name another one.")
    usual = text in ("text", FEATURES, IMAGE) and labels == "labels"
    said = (asked.text_column or asked.image_column) is not None and asked.label_column is not None
    return Chosen(text, labels, [], "" if usual or said else f"{inputs}: column {text!r}; labels: column {labels!r}.")


def _each_label(asked: Columns, rows: Rows, source: str, inputs: str) -> Chosen:
    for name, value in (("label_column", asked.label_column), ("label_format", asked.label_format)):
        if value not in (None, "auto"):
            raise DataError(f"`{name}` is for one column with all labels, but `label_columns` is set. Leave one out.")
    assert asked.label_columns is not None
    words = [asked.label_columns] if isinstance(asked.label_columns, str) else list(asked.label_columns)
    if is_all_but(words):
        text = asked.text_column or find_text_column(rows, (), source)
        names = asked_columns(words, list(rows), (*text_columns(text, rows), asked.sample_weight, *INDEXES), source)
    else:
        names = asked_columns(words, list(rows), (), source)
        text = asked.text_column or find_text_column(rows, names, source)
    return Chosen(text, None, names, f"{inputs}: column {text!r}; {_labels_of(names)}.")


def _found_zero_one(asked: Columns, rows: Rows, source: str, inputs: str) -> Chosen:
    """All columns beside the texts, if there are several and they hold only 0 and 1."""
    check_header(rows, source, ", such as text,labels")
    never: tuple[str | None, ...] = (*INDEXES, asked.sample_weight)
    binary = [name for name, values in rows.items() if name not in never and is_zero_one(values)]
    try:
        text = asked.text_column or find_text_column(rows, binary, source)
    except DataError:
        text = None
    texts = [] if text is None else text_columns(text, rows)
    never = (*never, *texts, *(name for name in rows if name.lower() in IDENTIFIERS))
    others = [name for name in rows if name not in never]
    if texts and set(texts) <= set(rows) and len(others) > 1 and others == [name for name in binary if name in others]:
        assert text is not None
        note = f"no column 'labels', but the others hold only 0 and 1: {_labels_of(others)}; {inputs}: column {text!r}."
        return Chosen(text, None, others, note)
    hint = f" Columns that hold 0 and 1 alone ({few(binary)}) can be a label each: --label_columns." if binary else ""
    if all(isinstance(value, str) for values in rows.values() for value in values[:1]):  # as in a file of lines
        hint += " If its first row is data, put a header above it."
    raise DataError(
        f"{source} has no column 'labels' or 'label'; its columns are {', '.join(rows)}.{did_you_mean('labels', rows)} "
        f"Name the right one with --label_column.{hint}"
    )


def check_header(rows: Mapping[str, Any], source: str, remedy: str) -> None:
    """Raises DataError if the column names look like a row of data. `remedy` follows "Put a header above it"."""
    if looks_like_data(rows, (*TEXTS, FEATURES, *LABELS, *IDENTIFIERS)):
        raise DataError(
            f"{source}: its first row ({few(list(rows))}) looks like data, not like column names. Put a header above "
            f"it{remedy}."
        )


def need_column(name: str, rows: Mapping[str, Any], argument: str, source: str, remedy: str = "") -> None:
    """Raises DataError if the column is missing. `remedy` is what else to do."""
    if name not in rows:
        raise DataError(
            f"{source} has no column {name!r}; its columns are {', '.join(rows)}.{did_you_mean(name, rows)} Name the "
            f"right one with --{argument}.{remedy}"
        )


def text_columns(name: str, known: Collection[str]) -> list[str]:
    """The columns that a name means: one column, or two separated by a comma, whose texts are pairs.

    Raises:
        DataError: more than two columns.
    """
    names = [name] if name in known else [part.strip() for part in name.split(",")]
    if len(names) > 2:
        raise DataError(
            f"`text_column` names {len(names)} columns, {', '.join(names)}. Name one, or two for pairs of texts: "
            "--text_column premise,hypothesis."
        )
    return names


def find_text_column(rows: Rows, labels: Collection[str], source: str) -> str:
    """The column of texts: the usual one, or the only string column beside the `labels`.

    Raises:
        DataError: no such column, or several.
    """
    usual = next((name for name in TEXTS if name in rows and name not in labels), None)
    if usual is not None:
        return usual
    strings = [
        name
        for name, values in rows.items()
        if name not in labels
        and name.lower() not in IDENTIFIERS
        and any(isinstance(v, str) and not is_number(v) for v in values[:100])
    ]
    if len(strings) == 1:
        if len(rows) == 1 and _is_prose(strings[0]):
            raise DataError(
                f"{source}: its only column is called {strings[0]!r}, which looks like a text. Put a header above the "
                "first row, such as text; or name the column by --text_column."
            )
        return strings[0]
    several = f"{len(strings)} columns of text: {', '.join(strings)}"
    what = several if strings else f"no column of text among {', '.join(rows)}"
    hint = " If its first row is data, put a header above it." if any(map(_is_prose, strings)) else ""
    raise DataError(f"{source} has {what}. Name the one to classify with --text_column.{hint}")


def _is_prose(name: str) -> bool:
    """True if the name of a column looks like a text."""
    return re.search(r"\s.*\s|[.!?]$", name) is not None


def text_cell(value: Any, place: str) -> str:
    """A cell as a text; "" for a missing one."""
    if not isinstance(value, (str, int, float, type(None))):
        raise DataError(f"{place}: the text is {str(value)[:60]!r}, a {type(value).__name__}; expected a string.")
    return "" if value is None else valid_text(str(value), place)


def _labels_of(names: Sequence[str]) -> str:
    return f"{len(names)} labels, a column each: {few(names)}"
