"""Scores of labels by any model, and gold labels of the same rows, from tables and arrays.

A table has a column for each label; or one column with the scores of a row by name, as pipelines of transformers,
GLiNER and `seal-hf predict` write them; or a line for each row and label (columns `label` and `score`). JSON may have a
list for each row, without a name. An `.npz` has the array `probabilities`, (N, L), with `labels`, and perhaps `ids`; so
has an `.npy` without names. Gold labels are read as in training: a column of sets, or a column of 0 and 1 for each
label, also of ARFF; or a line for each row and label; or the array `gold`.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import sigmoid
from ..utils.messages import few
from .column_choice import INDEXES, LABELS, is_number, need_column, usual_column
from .common import WRITE_ZERO, DataError
from .label_cells import label_cell
from .label_columns import column_labels, has_marks
from .label_matrix import gold_labels, in_order
from .late import pa, parquet
from .row_tables import FIRST, LineTable, ParquetTable, Table
from .separators import SEPARATORS
from .stored_arrays import arrays_of
from .table_sources import open_table

IDS = ("id", "ids", "idx", "row_id")  # names of the column that tells rows apart
SCORES = ("scores", "probabilities", "predictions")  # of a column with the scores of a row by name
LONG_LABELS = ("label", "class")  # of the column of labels, one in each line
LOGARITHMS = ("logprob", "log_probability")  # of a column of the logarithms of probabilities, of one label in each line
LONG_SCORES = ("score", "probability", "prob", "p", "logit", *LOGARITHMS)  # of the column of scores beside it
MARKS = ("gold", "value", "y")  # of a column of 0 and 1 beside the column of labels
OF_PREDICT = "probability_"  # begins the columns that `seal-hf predict --probabilities all` writes
ARRAYS = ("probabilities", "scores", "logits", "arr_0")  # in an .npz; without a name, np.savez writes arr_0
NAMES = ("labels", "label_names", "classes")
GOLD = ("gold", "labels", "y", "arr_0")
BINARY = (".npz", ".npy")
ROUNDING = 1e-6
EMPTY: tuple[Any, ...] = (None, "", [], {})


class Scores(NamedTuple):
    """Scores of N rows and L labels.

    Attributes:
        source: the file.
        labels: L names.
        values: (N, L) float64 probabilities.
        ids: N different ids, or None: rows are known by their order.
        notes: what was chosen or left out.
    """

    source: str
    labels: list[str]
    values: np.ndarray
    ids: list[str] | None
    notes: list[str]


def read_scores(
    name: str, *, logits: bool = False, id_column: str | None = None, labels: Sequence[str] | None = None
) -> Scores:
    """The scores in a file, a folder or a data set of the Hub.

    Args:
        logits: True if a sigmoid makes probabilities of the scores.
        id_column: tells the rows apart; default: `id`, `ids`, `idx` or `row_id`, in any case, if it is there.
        labels: the labels to read, in this order; default: all, in the order of the file.

    Raises:
        DataError: names the file, and the row and label of a value that is no score.
    """
    if Path(name).suffix.lower() in BINARY:
        found, place = _of_arrays(name, logits), lambda row: f"{name}, row {row} (counting from 0)"
    else:
        found, place = _of_table(name, logits, id_column)
    if labels is not None:
        found = _chosen(found, labels)
    values = found.values if logits else probabilities(found.values)
    found = found._replace(values=values)
    wrong = ~np.isfinite(values) if logits else ~((values >= 0) & (values <= 1))
    if wrong.any():
        row, label = (int(i) for i in np.argwhere(wrong)[0])
        expected = "a number." if logits else f"a probability from 0 to 1.{_remedy(values, wrong, found.labels)}"
        raise DataError(
            f"{place(row)}: the score of {found.labels[label]!r} is {values[row, label]:.7g}; expected {expected}"
        )
    check_ids(name, found.ids)
    if not logits:
        only = " They look like decisions: give the probabilities that they were made from."
        notes = [f"{name}: all scores are 0 or 1.{only}"] if ((values == 0) | (values == 1)).all() else []
        return found._replace(notes=[*found.notes, *notes])
    notes = [f"{name}: all logits are from 0 to 1. If they are probabilities, leave --logits out."]
    notes = notes if ((values >= 0) & (values <= 1)).all() else []
    return found._replace(values=sigmoid(values), notes=[*found.notes, *notes])


def probabilities(values: np.ndarray) -> np.ndarray:
    """The values, of which those outside of [0, 1] by a rounding error, as of a sum in float32, are 0 or 1."""
    inside = values.clip(0, 1)
    return np.where(np.abs(values - inside) <= ROUNDING, inside, values)


def _remedy(values: np.ndarray, wrong: np.ndarray, labels: Sequence[str]) -> str:
    """What to do about scores that are no probabilities."""
    if not np.isfinite(values).all():
        return " Correct the row, or leave it out."
    columns = wrong.any(0)
    if len(labels) > 1 and columns.sum() == 1:
        return f" If {labels[int(columns.argmax())]!r} is no label, leave this column out."
    if values.min() >= 0 and values.max() <= 100:
        return " Are these percent? Then divide them by 100."
    return " Are these logits? Then give --logits true."


def _chosen(found: Scores, labels: Sequence[str]) -> Scores:
    place = {label: i for i, label in enumerate(found.labels)}
    missing = [label for label in labels if label not in place]
    if missing:
        raise DataError(
            f"{found.source} has no scores of {len(missing)} of {len(labels)} labels: {few([*map(repr, missing)], 5)}; "
            f"it has {few([*map(repr, found.labels)], 5)}."
        )
    left = [label for label in found.labels if label not in set(labels)]
    notes = found.notes + [f"{found.source}: scores of other labels are left out: {few(left)}."] * bool(left)
    values = found.values[:, [place[label] for label in labels]]
    return found._replace(labels=list(labels), values=values, notes=notes)


# --- arrays -----------------------------------------------------------------------------------------------------------


def _named(arrays: dict[str, np.ndarray], names: Iterable[str]) -> np.ndarray | None:
    return next((arrays[name] for name in names if name in arrays), None)


def ids_of_arrays(name: str, arrays: dict[str, np.ndarray], num_rows: int) -> list[str] | None:
    """The ids of the rows; None without an array of them. Raises DataError for another number of ids."""
    if (key := usual_column(IDS, arrays)) is None:
        return None
    if (ids := arrays[key]).shape != (num_rows,):
        raise DataError(f"{name}: ids of shape {ids.shape} for {num_rows} rows; expected one each.")
    return [*map(id_of, ids.tolist())]


def _of_arrays(name: str, logits: bool) -> Scores:
    arrays = arrays_of(name)
    values, names = (_named(arrays, known) for known in (ARRAYS, NAMES))
    is_list = values is arrays.get("arr_0") and getattr(arrays.get("arr_1"), "ndim", 0) > 1  # np.savez of a list
    if values is None or values.ndim != 2 or values.dtype.kind not in "fiu" or not values.size or is_list:
        found = few([f"{key} {array.shape}" for key, array in arrays.items()]) or "none"
        hint = " Of a list p with an array (rows, 2) for each label, save np.stack([a[:, 1] for a in p], 1)."
        hint = hint if is_list or (values is not None and values.ndim == 3) else ""
        raise DataError(
            f"{name}: its arrays are {found}; expected probabilities, numbers of shape (rows, labels).{hint}"
        )
    labels = [str(i) for i in range(values.shape[1])] if names is None else [*map(str, names.ravel().tolist())]
    if len(labels) != values.shape[1] or len(set(labels)) < len(labels):
        raise DataError(f"{name}: {len(set(labels))} different names for {values.shape[1]} labels; expected one each.")
    notes = [f"{name} has no array `labels`: the labels are called 0, 1, 2, ..."] if names is None else []
    return Scores(name, labels, values.astype(np.float64), ids_of_arrays(name, arrays, len(values)), notes)


# --- tables -----------------------------------------------------------------------------------------------------------


def _of_table(name: str, logits: bool, id_column: str | None) -> tuple[Scores, Callable[[int], str]]:
    """The scores of a table, and the place of a row."""
    if (lists := _lists_of(Path(name))) is not None:
        cells = [scores_by_name(row, f"{name}, row {i} (counting from 0)") for i, row in enumerate(lists)]
        return _joined(name, cells, None, logits, []), lambda row: f"{name}, row {row} (counting from 0)"
    table = open_table(name)
    first = [row for _, row in islice(table, FIRST)]
    if not first:
        raise DataError(f"{table.source} has no rows.")
    id_column = id_column_of(table.columns, id_column, table.source)
    notes = [table.note] if table.note else []
    others = [column for column in table.columns if column != id_column and column not in INDEXES]
    labels = [column for column in others if column.startswith(OF_PREDICT)]
    labels = labels or [c for c in others if c not in LABELS and _has_number(first, c)]
    if labels and all("." in label and _is_number(label) for label in labels):
        raise DataError(
            f"{table.source} has no header: its first line is {few(table.columns, 5)}. Put the names of the columns "
            "above it."
        )
    begin = len(OF_PREDICT) if labels and labels[0].startswith(OF_PREDICT) else 0
    named = next((column for column in LONG_LABELS if column in table.columns), None)
    long = next((column for column in LONG_SCORES if column in table.columns), None)
    is_long = named is not None and long is not None
    if named is not None and is_long and _is_of_columns(table, named, id_column, labels):
        labels, is_long = [column for column in labels if column not in (named, long)], False
    left = [column for column in others if column not in labels]
    if is_long and id_column is None:
        raise DataError(
            f"{table.source} has a label in each line, but no column {' or '.join(IDS)} that tells the rows apart; its "
            f"columns are {few(table.columns)}. Name the right one with --id_column."
        )
    numbers: list[int] = []
    rows: list[dict[str, Any]] = []

    def place(row: int) -> str:
        return table.place(numbers[row] if numbers else next(islice(table, row, None))[0])

    are_plain = bool(labels) and not is_long and all(any(row[c] not in EMPTY for row in first) for c in left)
    are_plain = are_plain and not any(_is_by_name(first, column) for column in others)
    at_once = columns_at_once(table, id_column, labels) if are_plain else None
    if at_once is not None:
        values, ids = at_once
    else:
        for number, row in table:
            numbers.append(number)
            rows.append(row)
        if is_long:
            assert named is not None and long is not None and id_column is not None, "see above"
            return _of_lines(table.source, rows, (id_column, named, long), logits, place, notes)
        ids = None if id_column is None else [id_of(row[id_column]) for row in rows]
        by_name = next(
            (column for column in (*SCORES, *others) if column in others and _is_by_name(rows, column)), None
        )
        if by_name is not None:
            cells = [scores_by_name(_with_names(row, by_name), place(i)) for i, row in enumerate(rows)]
            return _joined(table.source, cells, ids, logits, notes), place
        if not labels:
            raise _no_scores(table, rows, place(0), others)
        values = np.empty((len(rows), len(labels)))
        for i, row in enumerate(rows):
            try:
                values[i] = [row[label] for label in labels]
            except (TypeError, ValueError):
                values[i] = [_number(row[label], label[begin:], place(i)) for label in labels]
    if left and not begin:
        notes.append(f"{table.source}: {len(labels)} labels, a column each; not read: {few(left)}.")
    return Scores(table.source, [label[begin:] for label in labels], values, ids, notes), place


def _is_of_columns(table: Any, named: str, id_column: str | None, labels: Sequence[str]) -> bool:
    """True if the names in a column are labels with a column each, and no row occurs twice: the column names the
    likeliest label of a row, and a line is a row."""
    if not all(str(row[named]) in labels for _, row in table):
        return False
    return id_column is None or _different(table, id_column) is not None


def _no_scores(table: Any, rows: Sequence[dict[str, Any]], where: str, columns: Sequence[str]) -> DataError:
    """The error for a table without scores. Numbers of another notation are named."""
    for column in columns:
        if re.fullmatch(r"-?\d*,\d+|-?\d+([.,]\d+)?\s*%", cell := str(rows[0][column]).strip()):
            return DataError(
                f"{where}: the score of {column!r} is {cell!r}; expected a number with a point and without a unit, "
                "such as 0.25."
            )
    return DataError(
        f"{table.source} has no scores: no column of numbers, and none with the scores of a row by name; its columns "
        f"are {few(table.columns)}."
    )


def columns_at_once(
    table: Any, id_column: str | None, columns: Sequence[str]
) -> tuple[np.ndarray, list[str] | None] | None:
    """Columns of numbers, (N, L) float64, and the ids of the rows, of a csv, tsv or parquet file, without a loop over
    its cells; None for a file that this cannot read. Such a file is read row by row, which names the place of a
    mistake."""
    names = [*columns] if id_column is None else [id_column, *columns]
    if isinstance(table, ParquetTable):
        with suppress(pa.ArrowException, OSError):
            read = pa.concat_tables(
                [parquet.read_table(file, columns=names, use_threads=False) for file in table.files]
            )
            types = [read.schema.field(name).type for name in columns]
            if all(pa.types.is_floating(each) or pa.types.is_integer(each) for each in types):
                return _as_arrays(read, id_column, columns)
        return None
    path = table.path if isinstance(table, LineTable) else Path()
    if path.suffix.lower() not in (".csv", ".tsv") or b'"' in (content := path.read_bytes()):
        return None
    from pyarrow import csv

    types_of = dict.fromkeys(columns, pa.float64()) | ({} if id_column is None else {id_column: pa.string()})
    mark = "," if path.suffix.lower() == ".csv" else "\t"
    with suppress(pa.ArrowException):
        read = csv.read_csv(
            pa.BufferReader(content.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")),  # the header is the first line
            csv.ReadOptions(use_threads=False, skip_rows=1, column_names=table.columns),
            csv.ParseOptions(delimiter=mark, quote_char=False),
            csv.ConvertOptions(column_types=types_of, include_columns=names, null_values=[]),
        )
        return _as_arrays(read, id_column, columns)
    return None


def _as_arrays(
    read: pa.Table, id_column: str | None, columns: Sequence[str]
) -> tuple[np.ndarray, list[str] | None] | None:
    if any(read.column(name).null_count for name in columns):
        return None
    values = np.empty((read.num_rows, len(columns)))
    for i, name in enumerate(columns):
        values[:, i] = np.concatenate([np.from_dlpack(part) for part in read.column(name).chunks])  # without pandas
    return values, None if id_column is None else [*map(id_of, read.column(id_column).to_pylist())]


def id_column_of(columns: Sequence[str], asked: str | None, source: str) -> str | None:
    """The column that tells rows apart; None if there is none. DataError if the one asked for is missing."""
    if asked is not None:
        need_column(asked, columns, "id_column", source)
    return asked if asked is not None else usual_column(IDS, columns)


def shared_ids(
    name: str, gold: str, asked: str | None, never: Sequence[str | None] = ()
) -> tuple[str | None, list[str]]:
    """The column of ids of two files, and notes: the one asked for; if neither file has a usual one, a column that
    differs in each row and has the same values in both; else None. Columns that are `never` ids hold labels."""
    if asked is not None or not (Path(name).exists() and Path(gold).exists()):  # a data set of the Hub is read once
        return asked, []
    with suppress(DataError):  # arrays have no columns; the reader of a damaged file says what is wrong
        tables = open_table(gold), open_table(name)
        columns = [column for column in tables[1].columns if column in tables[0].columns]
        if any(usual_column(IDS, table.columns) for table in tables):
            return None, []
        for column in sorted(columns, key=INDEXES.__contains__):  # an index may only count the rows of a file
            ids = None if column in (*LABELS, *LONG_LABELS, *never) else _different(tables[0], column)
            if ids and (column in INDEXES or ids - {"0", "1", "-1"}) and ids == _different(tables[1], column):
                what = "the index of pandas" if column in INDEXES else f"the column {column!r}"
                return column, [f"rows are matched by {what}, which has the same values in both files."]
    return None, []


def _different(table: Any, column: str) -> set[str] | None:
    """The values of a column; None if two rows have the same one, or a cell is empty or no text or number."""
    found: set[str] = set()
    for _, row in table:
        value = row[column]
        if not isinstance(value, (str, int, float)) or value == "" or id_of(value) in found:
            return None
        found.add(id_of(value))
    return found


def check_ids(source: str, ids: Sequence[str] | None) -> None:
    """Raises DataError if two rows have the same id."""
    if ids is not None and len(set(ids)) < len(ids):
        twice = next(one for one, count in Counter(ids).items() if count > 1)
        raise DataError(f"{source}: two rows have the id {twice!r}. Give each row an id of its own.")


def id_of(value: Any) -> str:
    """The id of a row as text. Pandas writes a whole number as 1.0 if another one is missing."""
    return re.sub(r"^(-?\d+)\.0+$", r"\1", str(value))


def _has_number(rows: Sequence[dict[str, Any]], column: str) -> bool:
    """True if one of the first values of a column is a number."""
    return any(_is_number(row[column]) for row in rows)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return is_number(value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: Any, label: str, where: str) -> float:
    if not _is_number(value):
        raise DataError(f"{where}: the score of {label!r} is {str(value)[:60]!r}; expected a number.")
    return float(value)


def parsed(value: Any) -> Any:
    """A cell that holds JSON, as its value."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            pass
    return value


def _is_by_name(rows: Sequence[dict[str, Any]], column: str) -> bool:
    value = next((found for row in rows if (found := parsed(row[column])) not in EMPTY), None)
    if isinstance(value, list):
        return isinstance(value[0], (dict, list, tuple)) or (column in SCORES and _is_number(value[0]))
    return isinstance(value, dict)


def _with_names(row: dict[str, Any], column: str) -> Any:
    """A cell of scores. Numbers alone get the names in the column `labels`, as a zero-shot pipeline gives them, or are
    called 0, 1, 2, ..."""
    value, names = parsed(row[column]), parsed(row.get("labels"))
    if not isinstance(value, list) or not value or not all(map(_is_number, value)):
        return value
    names = names if isinstance(names, list) and len(names) == len(value) else range(len(value))
    return [*zip(names, value, strict=True)]


def _lists_of(path: Path) -> list[list[Any]] | None:
    """The rows of a file of lists, one for each text, as GLiNER and pipelines give them; None for any other file."""
    if path.suffix.lower() not in (".json", ".jsonl") or not path.is_file():
        return None
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
        if text[:1] != "[":
            return None
        found = json.loads(text) if path.suffix.lower() == ".json" else [*map(json.loads, text.splitlines())]
    except (ValueError, RecursionError):
        return None  # the reader of tables says what is wrong
    return found if all(isinstance(row, list) for row in found) else None


def scores_by_name(value: Any, where: str) -> dict[str, float]:
    """Label -> score, from a mapping, from pairs, or from objects with `label` and `score`."""
    value = parsed(value)
    if isinstance(value, dict):
        pairs = [(label, score) for label, score in value.items() if score is not None]  # of a column of parquet
    else:
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) and value[0]:
            value = value[0] if isinstance(value[0][0], dict) else value  # a pipeline's list for a batch of one
        try:
            pairs = [
                (each["label"], each.get("score", each.get("probability"))) if isinstance(each, dict) else tuple(each)
                for each in value or ()
            ]
            if any(len(pair) != 2 for pair in pairs):
                raise ValueError
        except (TypeError, ValueError, KeyError):
            raise DataError(
                f"{where}: {str(value)[:60]!r} are no scores by name; expected an object of names and scores, or a "
                "list of objects with label and score."
            ) from None
    found: dict[str, float] = {}
    for label, score in pairs:
        number = _number(score, str(label), where)
        found[str(label)] = max(number, found.get(str(label), number))  # spans of one label: the surest
    return found


def _joined(
    source: str, cells: Sequence[dict[str, float]], ids: list[str] | None, logits: bool, notes: list[str]
) -> Scores:
    """Scores of rows by name. A label that a row does not name has the probability 0."""
    labels = list(dict.fromkeys(label for cell in cells for label in cell))
    if not labels:
        raise DataError(f"{source}: no row names a label with its score.")
    place = {label: i for i, label in enumerate(labels)}
    values = np.full((len(cells), len(labels)), -np.inf if logits else 0.0)
    for row, cell in enumerate(cells):
        values[row, [place[label] for label in cell]] = [*cell.values()]
    missing = len(cells) * len(labels) - sum(map(len, cells))
    if missing and logits:
        raise DataError(f"{source}: {missing} of {values.size} scores are missing; with --logits true all are needed.")
    if missing:
        best = " A pipeline gives those of all labels with top_k=None." if missing == values.size - len(cells) else ""
        notes.append(f"{source}: {missing} of {values.size} scores are not there; they count as 0.{best}")
    return Scores(source, labels, values, ids, notes)


def _of_lines(
    source: str,
    rows: Sequence[dict[str, Any]],
    columns: tuple[str, str, str],
    logits: bool,
    place: Callable[[int], str],
    notes: list[str],
) -> tuple[Scores, Callable[[int], str]]:
    """Scores from one line for each row and label: `columns` of ids, of labels and of scores."""
    cells: dict[str, dict[str, float]] = {}
    first: list[int] = []
    for i, row in enumerate(rows):
        one, label = id_of(row[columns[0]]), str(row[columns[1]])
        if one not in cells:
            first.append(i)
        cell = cells.setdefault(one, {})
        if label in cell:
            raise DataError(f"{place(i)}: a second score of {label!r} for the row {one!r}. Keep one.")
        score = _number(row[columns[2]], label, place(i))
        cell[label] = float(np.exp(score)) if columns[2] in LOGARITHMS else score
    return _joined(source, [*cells.values()], [*cells], logits, notes), lambda row: place(first[row])


# --- gold labels ------------------------------------------------------------------------------------------------------


def read_gold(
    name: str,
    scores: Scores,
    *,
    id_column: str | None = None,
    label_column: str | None = None,
    label_format: str = "auto",
) -> tuple[np.ndarray, list[str]]:
    """The gold labels of the rows of `scores`, by their ids if both have ids, else in their order; and notes.

    Args:
        id_column: as for [`read_scores`].
        label_column: of label sets; default: `labels` or `label`; without it each label has a column of 0 and 1.
        label_format: as in `label_matrix`.

    Returns:
        (N, L) int8: 1, 0, or -1 for unknown.

    Raises:
        DataError: rows or labels that do not match; no gold label at all; or a damaged file.
    """
    left: list[str] = []
    if Path(name).suffix.lower() in BINARY:
        gold, ids = _gold_arrays(name, scores.labels)
    else:
        gold, ids, left = _gold_table(name, scores, id_column, label_column, label_format)
    places, notes = matched(name, ids, len(gold), scores.source, scores.ids, len(scores.values))
    gold, notes = gold[places], [*left, *notes]
    for rows, said in ((gold.max(0, initial=0) < 1, "no row has"), (gold.min(0, initial=1) > 0, "all rows have")):
        if rows.any() and len(gold):
            of_one_class = [repr(scores.labels[i]) for i in np.flatnonzero(rows)]
            notes.append(f"{name}: {said} {few(of_one_class, 5)}, so that little can be fitted for it.")
    if not gold.max(initial=0) > 0:
        raise DataError(f"{name}: no row has a gold label, so there is nothing to fit or measure.")
    if not (gold == 0).any():
        raise DataError(f"{name}: labels are 1 or unknown, but never 0. {WRITE_ZERO}")
    return gold, notes


def matched(
    source: str, ids: list[str] | None, num_rows: int, other: str, wanted: list[str] | None, num_wanted: int
) -> tuple[np.ndarray, list[str]]:
    """The places of the rows of a file that belong to the wanted rows of another, and notes: by their ids if both have
    ids, else in their order.

    Raises:
        DataError: a row is missing, two rows have one id, or without ids the numbers of rows differ.
    """
    if ids is None or wanted is None:
        if num_rows != num_wanted:
            raise DataError(
                f"{source} has {num_rows} rows, but {other} has {num_wanted}. Give the same rows, or ids in both."
            )
        without = f"{source if ids is None else other} has no ids."
        if ids is wanted:
            without = f"{source} and {other} have no ids."
        return np.arange(num_rows), [f"rows are matched by their order: {without}"]
    place = {one: i for i, one in enumerate(ids)}
    check_ids(source, ids)
    check_ids(other, wanted)
    if missing := [one for one in wanted if one not in place]:
        raise DataError(
            f"{source} has no gold labels of {len(missing)} of the {len(wanted)} rows of {other}: ids "
            f"{few([*map(repr, missing)], 5)}; it has {few([*map(repr, ids)], 5)}. Add them, or leave these rows out; "
            "--id_column names the column of ids."
        )
    left = len(ids) - len(wanted)
    notes = [f"{source}: {left} rows without scores are left out."] if left else []
    return np.array([place[one] for one in wanted], dtype=np.int64), notes


def _gold_arrays(name: str, labels: Sequence[str]) -> tuple[np.ndarray, list[str] | None]:
    arrays = arrays_of(name)
    gold = next((arrays[key] for key in GOLD if key in arrays and arrays[key].ndim == 2), None)
    names = _named(arrays, ("label_names", "classes"))
    if names is None and arrays.get("labels") is not None and arrays["labels"].ndim == 1:
        names = arrays["labels"]
    if gold is None or gold.dtype.kind not in "biuf" or not np.isin(gold, (0, 1, -1)).all():
        found = ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "none"
        raise DataError(f"{name}: its arrays are {found}; expected gold (rows, labels) of 0, 1, and -1 for unknown.")
    own = [*labels] if names is None else [*map(str, names.tolist())]
    if gold.shape[1] != len(own):
        raise DataError(f"{name}: gold labels of shape {gold.shape}; expected (rows, {len(own)}), a column per label.")
    _check_same(own, labels, name)
    return in_order(gold.astype(np.int8), own, labels), ids_of_arrays(name, arrays, len(gold))


def _arff(path: Path) -> Table:
    """A file whose attributes are labels."""
    from .arff import ArffFile  # which imports two libraries, for a rare format

    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    if (file := ArffFile(path)).class_index is not None:
        raise DataError(f"{path} has label sets of a hierarchy in one attribute. Give them as a table.")
    return file


def _gold_table(
    name: str, scores: Scores, id_column: str | None, label_column: str | None, label_format: str
) -> tuple[np.ndarray, list[str] | None, list[str]]:
    """Gold labels, the ids of their rows, and notes."""
    is_arff = Path(name).suffix.lower() == ".arff"
    table = _arff(Path(name)) if is_arff else open_table(name, label_column=label_column or LABELS[0])
    id_column = id_column_of(table.columns, id_column, table.source)
    column = label_column or usual_column((*LABELS, *LONG_LABELS), table.columns)
    own = [label for label in scores.labels if label in table.columns]
    notes = []
    if column is None and own:
        first = [row for _, row in islice(table, FIRST)]
        others = [each for each in table.columns if each not in (*own, id_column, *INDEXES)]
        if others := [each for each in others if all(str(row[each]) in ("0", "1", "-1") for row in first)]:
            notes = [f"{table.source}: no label of the scores, and not read: {few(others)}."]
        found = columns_at_once(table, id_column, own)
        if found is not None and np.isin(found[0], (0, 1, -1)).all():
            _check_same(own, scores.labels, table.source)
            return found[0].astype(np.int8), found[1], notes
    rows = list(table)
    ids = None if id_column is None else [id_of(row[id_column]) for _, row in rows]
    if ids is not None and column in LONG_LABELS and len(set(ids)) < len(ids):
        return (*_gold_lines(table, rows, ids, column, scores), notes)
    if column is not None:
        need_column(column, table.columns, "label_column", table.source)
        names = table.label_names(column)
        may_be_plain = label_format in ("auto", "names") and not names
        named = _named_sets([row[column] for _, row in rows], scores.labels) if may_be_plain else None
        if named is not None:
            return named, ids, notes
        cells = [label_cell(row[column], table.place(number)) for number, row in rows]
        return gold_labels(cells, scores.labels, names, label_format, table.source), ids, notes
    _check_same(own, scores.labels, table.source)
    columns = {label: [row[label] for _, row in rows] for label in own}
    marks = has_marks(columns.values())
    return column_labels(columns, lambda i: table.place(rows[i][0]), marks, table.classes).astype(np.int8), ids, notes


def _named_sets(cells: Sequence[Any], labels: Sequence[str]) -> np.ndarray | None:
    """Label sets as [`gold_labels`] gives them, (N, L), if each cell is a text of known names; else None."""
    place = {label: i for i, label in enumerate(labels)}
    if any(map(_is_number, labels)):  # they may be ids, or 0 and 1
        return None
    gold = np.zeros((len(cells), len(labels)), dtype=np.int8)
    for row, cell in enumerate(cells):
        if not isinstance(cell, str):
            return None
        mark = next((mark for mark in SEPARATORS if mark in cell), None)
        try:
            gold[row, [place[part.strip()] for part in cell.split(mark)] if mark else place[cell.strip()]] = 1
        except KeyError:
            if cell.strip():
                return None
    return gold


def _gold_lines(
    table: Any, rows: Sequence[tuple[int, Any]], ids: list[str], column: str, scores: Scores
) -> tuple[np.ndarray, list[str]]:
    """Gold labels from a line for each row and label. A column of 0 and 1 may stand beside; without it a line is a gold
    label, and a row of the scores without a line has none."""
    mark = next((each for each in MARKS if each in table.columns), None)
    known = [*dict.fromkeys(ids)] if mark else [*dict.fromkeys([*ids, *(scores.ids or ())])]
    places, names = {one: i for i, one in enumerate(known)}, {name: i for i, name in enumerate(scores.labels)}
    gold = np.zeros((len(known), len(names)), dtype=np.int8)
    for one, (number, row) in zip(ids, rows, strict=True):
        label, value = str(row[column]), "1" if mark is None else id_of(row[mark])
        if label not in names or value not in ("0", "1"):
            what = f"{label!r}, which has no scores" if label not in names else f"{mark} {value!r}; expected 0 or 1"
            raise DataError(f"{table.place(number)}: {what}.")
        gold[places[one], names[label]] = int(value)
    return gold, known


def _check_same(own: Sequence[str], labels: Sequence[str], source: str) -> None:
    missing, other = [x for x in labels if x not in set(own)], [x for x in own if x not in set(labels)]
    if missing or other:
        differ = "has no gold labels for" if missing else "has gold labels without scores:"
        raise DataError(
            f"{source} {differ} {few([*map(repr, missing or other)], 5)}. Give a column `labels` of label sets, or a "
            "column of 0 and 1 for each label."
        )
