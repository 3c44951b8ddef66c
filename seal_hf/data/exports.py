"""Exports of annotation tools as rows with plain fields: Label Studio, Prodigy, Argilla, doccano and Dataturks.

A row has the fields of the input; `labels`, the names of a label set; and `entities`, spans of the text as
`[start, end, type]` in characters, or `{"start": ..., "end": ..., "label": ...}`. Several questions of one row keep the
names of the questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from .common import DataError

Objects = Iterator[tuple[int, dict[str, Any]]]  # line and object
HEAD = 1000  # objects that tell which questions there are
RESPONSES = ".responses"  # end of Argilla's names of answers
# column -> values of rows that were answered, and of others, which have no gold
STATUS = {
    "answer": (("accept",), ("reject", "ignore")),
    "status": (("validated", "edited", "completed", "submitted"), ("discarded", "default", "pending", "draft")),
}
ENTITIES = "entities"


def plain_rows(objects: Objects, source: str, left_out: Counter[str]) -> Objects:
    """Rows of objects of a tool that is known by its fields; other objects unchanged.

    Args:
        source: the file, for messages.
        left_out: what is left out is counted here.
    """
    line, first = next(objects, (0, {}))
    rows = chain([(line, first)] if first else [], objects)
    if isinstance(first.get("data"), dict) and ("annotations" in first or "completions" in first):
        return _label_studio(*_peeked(rows), source, left_out)
    if any(name.endswith(RESPONSES) for name in first):
        return _argilla(*_peeked(rows))
    if "annotation" in first and "status" in first:
        return ((line, _of_argilla_1(row)) for line, row in rows)
    if isinstance(first.get("annotation"), list) and isinstance(first.get("content"), str):
        return ((line, _of_dataturks(row)) for line, row in rows)
    if "answer" in first and ("accept" in first or "spans" in first):
        return _prodigy(*_peeked(rows))
    return rows


def _peeked(objects: Objects) -> tuple[Objects, list[tuple[int, dict[str, Any]]]]:
    """The objects, and the first of them."""
    head = [*islice(objects, HEAD)]
    return chain(head, objects), head


def rejected(columns: dict[str, Any], taken: tuple[str | None, ...] = ()) -> tuple[str, tuple[str, ...]] | None:
    """The column by which annotators rejected rows, and the values of rows that were rejected or not answered, in lower
    case; None without such a column.

    Args:
        columns: name -> values.
        taken: columns that mean something else.
    """
    for name, (answered, others) in STATUS.items():
        values = columns.get(name, ())
        if name in taken or not all(isinstance(value, str) for value in values):
            continue
        words = {value.lower() for value in values}
        if words & set(others) and words <= {*answered, *others}:
            return name, others
    return None


# --- Label Studio ----------------------------------------------------------------------------------------------------


def _label_studio(rows: Objects, head: list[tuple[int, dict]], source: str, left_out: Counter[str]) -> Objects:
    found = [_results(row, Counter()) for _, row in head]
    choices = sorted({name for results in found for name, kind, _ in results or () if kind == "choices"})
    spans = any(kind == "spans" for results in found for _, kind, _ in results or ())
    fields = dict.fromkeys(name for _, row in head for name, value in row["data"].items() if _is_plain(value))
    for line, row in rows:
        results = _results(row, left_out)
        if results is None:
            continue
        new = {name: row["data"].get(name) for name in fields}
        for name in choices:
            own = "labels" if len(choices) == 1 else name
            new[own] = [label for of, kind, labels in results if kind == "choices" and of == name for label in labels]
        if spans:
            new[ENTITIES] = [span for _, kind, some in results if kind == "spans" for span in some]
        unknown = [name for name, kind, _ in results if kind == "choices" and name not in choices]
        if unknown or (not spans and any(kind == "spans" for _, kind, _ in results)):
            raise DataError(
                f"{source}, line {line}: results of {unknown[0] if unknown else 'spans'!r}, which the first {HEAD} "
                "tasks lack. Put such a task first."
            )
        yield line, new


def _results(row: dict[str, Any], left_out: Counter[str]) -> list[tuple[str, str, list]] | None:
    """Question, kind (`choices` or `spans`) and values of a task's first annotation; None without one."""
    given = row.get("annotations", row.get("completions")) or []
    kept = [each for each in given if isinstance(each, dict) and not each.get("was_cancelled")]
    kept.sort(key=lambda each: not each.get("ground_truth"))
    if not kept:
        left_out["tasks without an annotation left out"] += 1
        return None
    if len(kept) > 1:
        left_out["tasks have several annotations: the first is read"] += 1
    found = []
    for result in kept[0].get("result") or ():
        value, name = result.get("value") or {}, str(result.get("from_name"))
        if "choices" in value:
            found.append((name, "choices", list(value["choices"])))
        elif "taxonomy" in value:
            found.append((name, "choices", ["/".join(map(str, path)) for path in value["taxonomy"]]))
        elif {"start", "end"} <= value.keys():
            types = value.get("labels") or value.get("hypertextlabels") or []
            left_out["spans without a label left out"] += not types
            own = str(value.get("text") or "").replace("\\n", "\n")
            span = {"start": value["start"], "end": value["end"], "text": own}
            found.append((name, "spans", [{**span, "label": kind} for kind in types]))
    return found


# --- Prodigy and Argilla ---------------------------------------------------------------------------------------------


def _prodigy(rows: Objects, head: list[tuple[int, dict]]) -> Objects:
    """`accept` are the chosen options, `spans` of characters."""
    some = [row for _, row in head]
    spans = any("spans" in row for row in some)
    fields = ("text", "html", "image", "label", "accept", "answer")
    kept = dict.fromkeys(name for row in some for name in fields if name in row)
    for line, row in rows:
        new = {name: row.get(name) for name in kept}
        if spans:
            new[ENTITIES] = row.get("spans") or []
        yield line, new


def _argilla(rows: Objects, head: list[tuple[int, dict]]) -> Objects:
    """Version 2: of each question, the first response that was submitted."""
    names = dict.fromkeys(name for _, row in head for name in row)
    questions = [name.removesuffix(RESPONSES) for name in names if name.endswith(RESPONSES)]
    plain = [name for name in names if not any(name.startswith(f"{question}.") for question in questions)]
    answers = {name: [_answer(row, name) for _, row in head] for name in questions}
    spans = {
        name
        for name, some in answers.items()
        if any(a and isinstance(a, list) and isinstance(a[0], dict) for a in some)
    }
    own = {name: ENTITIES if name in spans else "labels" if len(questions) == 1 else name for name in questions}
    for line, row in rows:
        new = {name: row.get(name) for name in plain} | {own[name]: _answer(row, name) for name in questions}
        if len(questions) == 1 and "status" not in plain:
            new["status"] = "discarded" if new[own[questions[0]]] is None else "submitted"
        yield line, new


def _answer(row: dict[str, Any], question: str) -> Any:
    """The first response that was submitted, or None."""
    answers, states = row.get(f"{question}{RESPONSES}") or [], row.get(f"{question}{RESPONSES}.status") or []
    states = [*states, *["submitted"] * (len(answers) - len(states))]
    return next((a for a, state in zip(answers, states, strict=False) if state == "submitted"), None)


def _of_argilla_1(row: dict[str, Any]) -> dict[str, Any]:
    """Version 1: `annotation` is a name, a list of names, or spans as `[type, start, end]`."""
    inputs = row.get("inputs")
    new = {name: value for name, value in row.items() if _is_plain(value) and name not in ("annotation", "prediction")}
    if isinstance(inputs, dict):
        new |= {name: value for name, value in inputs.items() if _is_plain(value)}
    annotation = row["annotation"]
    if isinstance(annotation, list) and annotation and isinstance(annotation[0], list):
        return new | {ENTITIES: [[start, end, kind] for kind, start, end, *_ in annotation]}
    return new | {"labels": [] if annotation is None else annotation}


def _of_dataturks(row: dict[str, Any]) -> dict[str, Any]:
    """Spans with a list of types and `points`, whose ends are the last characters."""
    spans = [(kind, point) for one in row["annotation"] or () for point in one["points"] for kind in one["label"]]
    return {"text": row["content"], ENTITIES: [[point["start"], point["end"] + 1, kind] for kind, point in spans]}


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, type(None)))
