"""What the columns of a table hold: numbers, dates, ids, names of files, or texts; and the choice of those
with texts, features or images, and labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any, NamedTuple

from ..utils.messages import did_you_mean, few
from .common import IMAGE, DataError
from .hygiene import looks_like_data
from .image_files import IMAGE_SUFFIXES
from .label_columns import UNKNOWN, is_yes_no, is_zero_one

PROBABILITIES = "probabilities"  # a format of labels
LOOKED_AT = 1000  # rows that tell what a column holds
MOSTLY = 0.8  # share of values by which a column is one of numbers
FEW_ROWS = 10  # fewer rows tell nothing about repeated values

_DAY = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{1,2} \w{3,9}\.? \d{4})"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?(?:Z|[+-]\d{2}:?\d{2})?"
_KINDS = (  # the first that all values match
    ("dates", re.compile(rf"(?:{_DAY}(?:[T ]{_TIME})?|{_TIME})")),
    ("web addresses", re.compile(r"https?://\S+")),
    ("names of files", re.compile(r"\S.*\.(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{2,4}(?:\.gz)?")),
    ("lists of numbers", re.compile(r"\[[-+\d.,eE\s]*\]")),
    ("numbers with marks", re.compile(r"[-+(]?[$€£¥]? ?\d[\d.,  ]*\)? ?(?:[%$€£¥°]|[A-Za-z]{1,3}\b)?")),
)
_ID = re.compile(r"[A-Za-z0-9_.:/#-]*[0-9][A-Za-z0-9_.:/#-]*")  # a single word with a digit
OF_SPLIT = re.compile(r"(?i)is[_ .-]?(?:train|training|valid|validation|val|dev|test)")  # a column of 0 and 1
_ID_NAME = re.compile(r"(?i)(?:.*[_ .-])?(?:id|ids|idx|index|uuid|guid)|(?-i:.*[a-z]I[dD])")


def is_number(value: str) -> bool:
    """True for a text that is a number."""
    try:
        float(value)
        return True
    except ValueError:
        return False


def shown_values(values: Iterable[Any]) -> list[Any]:
    """The first values of a column that are not empty."""
    found: list[Any] = []
    for value in values:
        if value is not None and value == value and not (isinstance(value, str) and not value.strip()):
            found.append(value)
            if len(found) == LOOKED_AT:
                break
    return found


def are_numbers(values: Sequence[Any]) -> bool:
    """True if most values of a column are numbers, also as texts; the others are mistakes. Empty cells do not
    matter."""
    shown = shown_values(values)
    numbers = sum(isinstance(value, (int, float)) or (isinstance(value, str) and is_number(value)) for value in shown)
    return bool(shown) and MOSTLY * len(shown) <= numbers


def are_texts(values: Sequence[Any]) -> bool:
    """True if a column of strings may hold texts: its values are of no kind in [`kind_of_strings`]."""
    shown = shown_values(values)
    return any(isinstance(value, str) for value in shown) and not kind_of_strings(shown)


def kind_of_strings(values: Sequence[Any]) -> str:
    """What strings are in place of texts: `numbers`, `dates`, `web addresses`, `names of files`, `lists of numbers`,
    `numbers with marks` (`1,5`, `12 %`, `$1,000`), `ids` (single words with a digit, hardly one twice), `repeated
    words` (values of at most four words, few of them different); empty for texts."""
    shown = [value.strip() for value in shown_values(values) if isinstance(value, str)]
    if not shown:
        return ""
    if sum(map(is_number, shown)) >= MOSTLY * len(shown):
        return "numbers"
    for kind, pattern in _KINDS:
        if all(pattern.fullmatch(value) for value in shown):
            return kind
    distinct = len(set(shown))
    if all(map(_ID.fullmatch, shown)) and 10 * distinct >= 9 * len(shown) and distinct > 1:
        return "ids"
    if len(shown) >= FEW_ROWS and 4 * distinct <= len(shown) and all(len(value.split()) <= 4 for value in shown):
        return "repeated words"
    return ""


def are_sets(values: Sequence[Any]) -> bool:
    """True if a column holds lists of names, also as texts such as `['a', 'b']`, or objects with choices."""
    shown = [value for value in shown_values(values) if value not in ([], "[]")]
    return bool(shown) and all(map(_is_set, shown))


def _is_set(value: Any) -> bool:
    if isinstance(value, dict):
        return value.keys() == {"choices"}
    if isinstance(value, str):
        return re.fullmatch(r"""\[\s*['"].*['"]\s*\]""", value.strip(), re.DOTALL) is not None
    return isinstance(value, (list, tuple)) and all(isinstance(name, (str, dict)) for name in value)


def is_index(name: str, values: Sequence[Any]) -> bool:
    """True for a column of numbers that names rows: it is called so, or counts them."""
    if _ID_NAME.fullmatch(name):
        return True
    try:
        numbers = [float(value) for value in values[:LOOKED_AT]]
    except (TypeError, ValueError):
        return False
    return len(numbers) >= FEW_ROWS and all(after == before + 1 for before, after in pairwise(numbers))


def suffixes(values: Sequence[Any]) -> list[str]:
    """The suffixes of names of files, sorted."""
    return sorted({PurePath(value.replace("\\", "/")).suffix.lower() for value in values if isinstance(value, str)})


def valid_text(text: str, place: str) -> str:
    """The text, if it can be written. JSON may contain half of a surrogate pair, as in a text cut by bytes."""
    try:
        if not text.isascii():
            text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: {text[:60]!r} is not valid text ({error.reason}). Correct or remove it.") from error
    return text


# --- choice -----------------------------------------------------------------------------------------------------------

Rows = dict[str, Any]  # lists of N values by column; features are an array (N, F)
TEXTS, LABELS = ("text", "sentence"), ("labels", "label")  # usual names of these columns
SETS = ("cats", "accept")  # of spaCy and Prodigy: names of columns of label sets, if they hold mappings or lists
FEATURES = "features"
IDENTIFIERS = ("id", "idx", "")  # columns that are neither
ALL_BUT = "all_but"
NUMBERED = "label|tag|class|genre|topic|category"  # before a number: one of several columns with a label each
# pandas' names for the index of a frame, also of one that was saved several times
INDEXES = ("", "__index_level_0__", "Unnamed: 0", "Unnamed: 0.1", "Unnamed: 0.2", "Unnamed: 0.1.1")


class Columns(NamedTuple):
    """The columns to use, as in the arguments of [`load_multilabel`] with the same names."""

    text_column: str | None = None
    label_column: str | None = None
    label_columns: str | Sequence[str] | None = None
    label_format: str = "auto"
    sample_weight: str | None = None
    image_column: str | None = None
    label_separator: str | None = None


class Chosen(NamedTuple):
    """The chosen columns.

    Attributes:
        inputs: the column of texts or of images, two columns of pairs of texts, the column of lists of features, or the
            columns of numbers that are features.
        labels: the column of label sets; None: each label has a column.
        each: the columns of 0 and 1, one per label.
        note: tells what was chosen for the user, or is empty.
    """

    inputs: list[str]
    labels: str | None
    each: list[str]
    note: str


class Inputs(NamedTuple):
    """What the inputs of a table are.

    Attributes:
        kind: `text`, `features` or `images`.
        columns: the column of images or of lists of features, or the columns of numbers that are features; empty for
            texts, whose column [`choose`] finds.
    """

    kind: str
    columns: list[str]


def inputs_of(
    asked: Columns, rows: Mapping[str, Sequence[Any]], classes: Collection[str], lists: bool, image: str | None
) -> Inputs:
    """Tell what the inputs are, by the first rows.

    Texts are a column that is asked for, one with a usual name, or one whose strings may be texts. Features are a
    column `features` of lists; without texts, they are the columns of numbers beside the labels.

    Args:
        asked: the user's choice.
        rows: column -> first values.
        classes: columns whose values are known to be classes.
        lists: True if a column `features` holds lists of numbers.
        image: the column of images, if there is one.
    """
    if image is not None:
        return Inputs("images", [image])
    if asked.text_column is not None or usual_column(TEXTS, rows) is not None:
        return Inputs("text", [])
    if lists:
        return Inputs("features", [FEATURES])
    labels, each = _labels_asked(asked, rows, classes)
    taken = {labels, *each, asked.sample_weight, *INDEXES, *filter(OF_SPLIT.fullmatch, rows)}
    others = [name for name in rows if name not in taken]
    if any(are_texts(rows[name]) for name in others):
        return Inputs("text", [])
    numbers = [name for name in others if are_numbers(rows[name]) and not is_index(name, rows[name])]
    if labels is None and not each:
        each = _block_of_labels([name for name in others if name in numbers or is_zero_one(rows[name])], rows)
        numbers = [name for name in numbers if name not in each] if each else []
    return Inputs("features", numbers) if numbers else Inputs("text", [])


def usual_column(names: Sequence[str], columns: Collection[str]) -> str | None:
    """The first column with one of these names, also in upper case; None without one."""
    lower = {column.strip().lower(): column for column in columns}
    return next(
        (name for name in names if name in columns), next((lower[name] for name in names if name in lower), None)
    )


def usual_labels(rows: Mapping[str, Sequence[Any]]) -> str | None:
    """The column of label sets: one with a usual name, or the only one of lists of names if there are no columns of 0
    and 1; else None."""
    sets = (name for name in SETS if name in rows and any(isinstance(value, (list, dict)) for value in rows[name][:1]))
    found = usual_column(LABELS, rows) or next(sets, None)
    if found is not None or sum(is_zero_one(values[:LOOKED_AT]) for values in rows.values()) > 1:
        return found
    lists = [name for name, values in rows.items() if name.lower() not in TEXTS and are_sets(values)]
    return lists[0] if len(lists) == 1 else None


def _labels_asked(asked: Columns, rows: Mapping[str, Any], classes: Collection[str]) -> tuple[str | None, list[str]]:
    """The column of label sets, and the columns of labels, that are asked for or have usual names."""
    if asked.label_columns is not None:
        but, named = _named(asked.label_columns, rows)
        return None, [name for name in rows if name not in named] if but else named
    labels = asked.label_column or usual_labels(rows)
    return (next(iter(classes)) if labels is None and len(classes) == 1 else labels), []


def _block_of_labels(columns: Sequence[str], rows: Mapping[str, Sequence[Any]]) -> list[str]:
    """The columns of 0 and 1 alone, if they are several beside others, and all first or all last, as scikit-learn's
    users write label sets beside features."""
    binary = [name for name in columns if is_zero_one(rows[name])]
    ends = columns[: len(binary)], columns[len(columns) - len(binary) :]
    return binary if 1 < len(binary) < len(columns) and binary in ends else []


def choose(asked: Columns, rows: Rows, classes: Collection[str], source: str, inputs: Inputs) -> Chosen:
    """The columns that are asked for, else those with the usual names, else the only possible ones.

    Args:
        asked: the user's choice.
        rows: column -> values, of one split.
        classes: columns whose values are known to be classes.
        source: for messages.
        inputs: what the inputs are.

    Raises:
        DataError: a column is missing, or ambiguous.
    """
    if asked.label_columns is not None:
        return _each_label(asked, rows, source, inputs)
    labels = asked.label_column or usual_labels(rows)
    if labels is None and len(classes) == 1:
        (labels,) = classes
    if labels is None:
        return _found_zero_one(asked, rows, source, inputs)
    need_column(labels, rows, "label_column", source)
    several, what = _other_forms(rows) if labels not in classes and labels.lower() not in LABELS else ([], "")
    if labels in several:
        raise DataError(f"{source}: the column {labels!r} is one of several. The columns {few(several)} {what}")
    if labels not in classes and labels.lower() not in LABELS and is_yes_no(rows[labels]):
        shown = few(sorted({str(value) for value in rows[labels] if value not in UNKNOWN}))
        raise DataError(
            f"{source}: the column {labels!r} holds {shown} alone, which says whether a row has one label. Name the "
            f"columns that are labels by `label_columns` (--label_columns {labels},...), or all_but those that are no "
            "labels."
        )
    text = inputs.columns or text_columns(asked.text_column or find_text_column(rows, (labels,), source), rows)
    if labels in text:
        raise DataError(f"{source}: the column {labels!r} would be both the input and the labels. Name another one.")
    usual = text in (["text"], [FEATURES], [IMAGE]) and labels == "labels"
    said = (asked.text_column or asked.image_column) is not None and asked.label_column is not None
    chosen = "" if usual or said else f"{_inputs_in_words(inputs, text)}; labels: column {labels!r}"
    return Chosen(text, labels, [], _note(chosen, asked, rows, [*text, labels]))


def _each_label(asked: Columns, rows: Rows, source: str, inputs: Inputs) -> Chosen:
    for name, value in (("label_column", asked.label_column), ("label_format", asked.label_format)):
        if value not in (None, "auto", PROBABILITIES):
            raise DataError(f"`{name}` is for one column with all labels, but `label_columns` is set. Leave one out.")
    assert asked.label_columns is not None
    if _named(asked.label_columns, rows)[0]:
        text = inputs.columns or text_columns(asked.text_column or find_text_column(rows, (), source), rows)
        names = asked_columns(asked.label_columns, list(rows), (*text, asked.sample_weight, *INDEXES), source)
    else:
        names = asked_columns(asked.label_columns, list(rows), (), source)
        text = inputs.columns or text_columns(asked.text_column or find_text_column(rows, names, source), rows)
    chosen = f"{_inputs_in_words(inputs, text)}; {_labels_of(names)}"
    return Chosen(text, None, names, _note(chosen, asked, rows, [*text, *names]))


def _found_zero_one(asked: Columns, rows: Rows, source: str, inputs: Inputs) -> Chosen:
    """All columns beside the inputs, if there are several and they hold only 0 and 1."""
    check_header(rows, source, ", such as text,labels")
    never: tuple[str | None, ...] = (*INDEXES, asked.sample_weight, *filter(OF_SPLIT.fullmatch, rows))
    binary = [name for name, values in rows.items() if name not in never and is_zero_one(values)]
    why = ""
    try:
        text = inputs.columns or text_columns(asked.text_column or find_text_column(rows, binary, source), rows)
    except DataError as error:
        text, why = [], str(error)
    never = (*never, *text, *(name for name in rows if name.lower() in IDENTIFIERS))
    others = [name for name in rows if name not in never]
    labels = [name for name in binary if name in others]
    if inputs.kind == "features":  # beside them, other columns are left out
        others = [name for name in others if name in labels or is_zero_one(rows[name])]
    else:
        others = [name for name in others if name in labels or not _names_rows(name, rows[name])]
    if text and set(text) <= set(rows) and len(others) > 1 and others == labels:
        words = ", or yes and no" * any(is_yes_no(rows[name]) for name in others)
        what = f"no column 'labels', but the others hold only 0 and 1{words}: {_labels_of(others)}"
        chosen = f"{what}; {_inputs_in_words(inputs, text)}"
        return Chosen(text, None, others, _note(chosen, asked, rows, [*text, *others]))
    hint = ""
    others_of = {name: values for name, values in rows.items() if name not in (*never, *inputs.columns)}
    several, what = _other_forms(others_of)
    may_be_labels = len(binary) > 1 or (bool(binary) and not several)
    if may_be_labels:
        words = ", or yes and no" * any(is_yes_no(rows[name]) for name in binary)
        rest = [name for name in rows if name not in (*binary, *INDEXES)]
        forms = [",".join(binary), *([f"{ALL_BUT} {','.join(rest)}"] if rest and len(binary) > 1 else [])]
        flag = f'by `label_columns` (--label_columns "{min(forms, key=len)}")'
        hint = f" Columns that hold 0 and 1 alone{words} ({few(binary)}) can be a label each, named {flag}."
        then = inputs_of(asked._replace(label_columns=binary), rows, (), False, None)
        if inputs.kind != "images" and then.kind == "features":
            hint, why = f"{hint} Other columns of numbers are then features.", ""
    elif several or (several := _counts(others_of)):
        what = what or "may be counts: write 1 where enough people agree, else 0, and each is a label."
        hint = f" The columns {few(several)} {what}"
    if why:
        hint += f" It{why.removeprefix(source)}"
    elif may_be_labels and (other := [name for name in others if name not in labels]):
        hint += f" Without this, other columns are in the way: {few(other)}."
    objects = {name: values[0] for name, values in rows.items() if len(values) and isinstance(values[0], dict)}
    if fields := [f"{name}.{key}" for name, value in objects.items() for key in value]:
        hint += f" Fields inside objects ({few(fields)}) are not read: write them as fields of the row."
    if all(isinstance(value, str) for values in rows.values() for value in values[:1]):  # as in a file of lines
        hint += " If its first row is data, put a header above it."
    raise DataError(
        f"{source} has no column 'labels' or 'label'; its columns are {few([*rows], 20)}."
        f"{did_you_mean('labels', rows.keys() - {*several})} Name the right one by `label_column` "
        f"(--label_column).{hint}"
    )


def _other_forms(rows: Rows) -> tuple[list[str], str]:
    """Columns that may hold labels in another form, and what to do with them; empty for none."""
    numbered = [name for name in rows if re.fullmatch(rf"(?i)(?:{NUMBERED})s?[ _.-]?\d+", name)]
    if len(numbered) > 1:
        return numbered, "may each hold one: join them in a column labels, with | between names."
    shares = [name for name in rows if are_numbers(rows[name]) and _are_shares(rows[name])]
    if len(shares) > 1:
        return shares, (
            "may be probabilities: give them by `label_columns` (--label_columns), with label_format='probabilities' "
            "(--label_format probabilities)."
        )
    values = {name: {str(v) for v in shown_values(rows[name]) if not isinstance(v, (list, dict))} for name in rows}
    same = ([name for name in rows if values[name] == each] for each in values.values() if len(each) == 2)
    alike = next((names for names in same if len(names) > 1), [])
    if alike:
        words = " and ".join(sorted(values[alike[0]]))
        return alike, f"hold {words} alone: write 1 and 0 in them, and each is a label."
    marked = [name for name in rows if len(values[name]) == 1 and any(not shown_values([v]) for v in rows[name])]
    if len(marked) > 1:
        return marked, "hold one value or nothing: write 1 and 0 in them, and each is a label."
    return [], ""


def _counts(rows: Rows) -> list[str]:
    """The columns of small whole numbers from 0 on, if they are several."""
    texts = {name: {str(value) for value in shown_values(values)} for name, values in rows.items()}
    found = [name for name in rows if "0" in texts[name] and all(re.fullmatch("[0-9]{1,2}", v) for v in texts[name])]
    return found if len(found) > 1 else []


def _are_shares(values: Sequence[Any]) -> bool:
    return all(is_number(str(value)) and 0 <= float(value) <= 1 for value in shown_values(values))


def _names_rows(name: str, values: Sequence[Any]) -> bool:
    """True for a column of ids, dates, addresses or the like, which are neither texts nor labels."""
    return kind_of_strings(values) in ("ids", "dates", "web addresses", "names of files") or is_index(name, values)


def _inputs_in_words(inputs: Inputs, columns: Sequence[str]) -> str:
    """`texts: column 'a'`, or `features: 3 columns, a, b, c`."""
    noun = {"text": "texts"}.get(inputs.kind, inputs.kind)
    if inputs.kind == "features" and list(columns) != [FEATURES]:
        return f"features: {len(columns)} column{'s' * (len(columns) > 1)} of numbers, {few(list(columns), 5)}"
    return f"{noun}: column {','.join(columns)!r}"


def _note(chosen: str, asked: Columns, rows: Rows, taken: Sequence[str]) -> str:
    """What was chosen, with the columns that are left out and what they hold."""
    known = {*taken, asked.sample_weight, *INDEXES}
    left = [name for name in rows if name not in known and name.lower() not in IDENTIFIERS]
    if left:
        kinds = {name: kind_of_strings(rows[name]) for name in left}
        shown = few([f"{name} ({kinds[name]})" if kinds[name] else name for name in left], 5)
        chosen = f"{chosen}; left out: {shown}" if chosen else f"left out: {shown}"
    return f"{chosen}." if chosen else ""


def check_header(rows: Mapping[str, Any], source: str, remedy: str) -> None:
    """Raises DataError if the column names look like a row of data. `remedy` follows "Put a header above it"."""
    if looks_like_data(rows, (*TEXTS, FEATURES, *LABELS, *IDENTIFIERS)):
        raise DataError(
            f"{source}: its first row ({few(list(rows))}) looks like data, not like column names. Put a header above "
            f"it{remedy}."
        )


def need_column(name: str, known: Collection[str], argument: str, source: str, remedy: str = "") -> None:
    """Raises DataError if the column is missing. `remedy` is what else to do."""
    if name not in known:
        raise DataError(
            f"{source} has no column {name!r}; its columns are {few([*known], 20)}.{did_you_mean(name, known)} Name "
            f"the right one by `{argument}` (--{argument}).{remedy}"
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
            "text_column='premise,hypothesis' (--text_column premise,hypothesis)."
        )
    return names


def find_text_column(rows: Mapping[str, Sequence[Any]], labels: Collection[str], source: str) -> str:
    """The column of texts: the usual one, or the only one beside the `labels` whose strings may be texts.

    Raises:
        DataError: no such column, or several.
    """
    usual = usual_column(TEXTS, [name for name in rows if name not in labels])
    if usual is not None:
        return usual
    strings = {
        name: kind_of_strings(values)
        for name, values in rows.items()
        if name not in labels
        and name.lower() not in IDENTIFIERS
        and any(isinstance(v, str) and not is_number(v) for v in values[:100])
    }
    texts = [name for name, kind in strings.items() if not kind]
    if len(texts) == 1:
        if len(rows) == 1 and _is_prose(texts[0]):
            raise DataError(
                f"{source}: its only column is called {texts[0]!r}, which looks like a text. Put a header above the "
                "first row, such as text; or name the column by `text_column` (--text_column)."
            )
        return texts[0]
    several = f"{len(texts)} columns of text: {', '.join(texts)}"
    what = several if texts else f"no column of text among {', '.join(rows)}"
    hint = " If its first row is data, put a header above it." if any(map(_is_prose, strings)) else ""
    if not texts and strings:
        name, kind = next(iter(strings.items()))
        hint = f" {name!r} holds {kind}, such as {shown_values(rows[name])[0]!r}; if they are the texts, name it.{hint}"
        hint += {
            "numbers with marks": " Features are plain numbers, such as 1000.5.",
            "lists of numbers": f" They are features in a column called {FEATURES}: rename it.",
        }.get(kind, "")
        if kind == "ids" and re.search("(?i)image|img|photo|picture|scan", name):
            hint += f" Names of image files need their suffixes, such as {shown_values(rows[name])[0]}.png."
        if kind == "names of files" and (others := [end for end in suffixes(rows[name]) if end not in IMAGE_SUFFIXES]):
            hint = (
                f" {name!r} names files of type {few(others)}, which are not read; images are {few(IMAGE_SUFFIXES, 9)}."
            )
    elif not texts and (lists := [name for name in rows if name not in labels and _are_vectors(rows[name])]):
        hint = f" Lists of numbers are features in a column called {FEATURES}: rename {lists[0]!r}.{hint}"
    elif not texts and (lists := [name for name in rows if name not in labels and are_sets(rows[name])]):
        hint = f" {few(lists)} holds lists of words, which are no texts: join them with blanks.{hint}"
    elif not texts and (numbers := [name for name in rows if name not in labels and are_numbers(rows[name])]):
        hint = f" Numbers are no texts: {few(numbers)}.{hint}"
    raise DataError(f"{source} has {what}. Name the one to classify by `text_column` (--text_column).{hint}")


def _are_vectors(values: Sequence[Any]) -> bool:
    """True for a column of lists of numbers."""
    shown = shown_values(values[:FEW_ROWS])
    return bool(shown) and all(isinstance(v, (list, tuple)) and v and isinstance(v[0], (int, float)) for v in shown)


def check_texts(cells: Sequence[Any], name: str, source: str) -> None:
    """Raises DataError for a column of numbers."""
    values = shown_values(cells)
    if are_numbers(values) and all(isinstance(v, (int, float)) or is_number(str(v)) for v in values):
        shown = ", ".join(map(str, values[:3]))
        raise DataError(
            f"{source}: the column {name!r} holds numbers ({shown}, ...), which are no texts but ids or features. "
            "Name the column of texts by `text_column` (--text_column). Numbers are features if no column of texts is "
            "named and the others hold none."
        )


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


def _named(words: str | Sequence[str], known: Collection[str]) -> tuple[bool, list[str]]:
    """Whether `label_columns` names the columns without labels, and the names: each word is one, or several with commas
    between them."""
    words = [words] if isinstance(words, str) else list(words)
    but = bool(words) and words[0].split(" ")[0] == ALL_BUT
    if but:
        words = [words[0].removeprefix(ALL_BUT).strip(), *words[1:]]
    parts = [[word] if word in known else word.split(",") for word in words]
    return but, [name if name in known else name.strip() for part in parts for name in part if name.strip()]


def asked_columns(
    words: str | Sequence[str], known: Sequence[str], never: Collection[str | None], source: str
) -> list[str]:
    """The columns that `label_columns` asks for.

    Args:
        words: after `all_but`, the columns without labels; see [`_named`].
        known: the existing columns.
        never: columns that are never labels, for `all_but`.

    Raises:
        DataError: a column is missing or named twice, or none is left.
    """
    but, names = _named(words, known)
    for name in names:
        need_column(name, known, "label_columns", source, f" It takes a,b,c or {ALL_BUT} text,id.")
    if len(set(names)) < len(names):
        raise DataError(f"`label_columns` names {max(names, key=names.count)!r} twice. Name each column once.")
    chosen = [name for name in known if name not in names and name not in never] if but else names
    if not chosen:
        raise DataError(f"{source}: `label_columns` leaves no column. Name those that hold 0 and 1, one per label.")
    return chosen
