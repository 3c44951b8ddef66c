"""`seal-hf decide`: probabilities and gold labels of any layout, and the decisions on them. Oracles: the arrays that
were written, `LabelDecisions` in Python, `evaluate` and `predict` of a model on its own probabilities."""

import importlib
import itertools
import json
import os
import re
import sys

import numpy as np
import pyarrow as pa
import pytest
from launching import anew
from page_reader import Reader
from predicting import trained_on_features, write
from pyarrow import parquet
from scipy.special import logit

from seal_hf.cli import decide, predict
from seal_hf.cli.predict import evaluate
from seal_hf.core.hierarchy import Hierarchy
from seal_hf.data.score_files import read_gold, read_scores
from seal_hf.decisions import ClassMaskDecisions, LabelDecisions, MaskDecisions

NAMES = ["rain", "snow, or hail", "wind", "7"]
IDS = [f"r{i}" for i in range(40)]


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    p = generator.beta(0.5, 1.0, (40, 4)).round(6)
    return p, (generator.random(p.shape) < p).astype(np.int8)


def wide(p):
    return [{"id": one, **dict(zip(NAMES, row, strict=True))} for one, row in zip(IDS, p.tolist(), strict=True)]


def by_name(p, key="scores"):
    return [{"id": one, key: dict(zip(NAMES, row, strict=True))} for one, row in zip(IDS, p.tolist(), strict=True)]


def as_pipeline(p):
    cells = [[{"label": n, "score": s} for n, s in zip(NAMES, row, strict=True)] for row in p.tolist()]
    return [{"id": one, "predictions": cell} for one, cell in zip(IDS, cells, strict=True)]


def long(p):
    return [
        {"id": one, "label": name, "score": score}
        for one, row in zip(IDS, p.tolist(), strict=True)
        for name, score in zip(NAMES, row, strict=True)
    ]


def sets(gold):
    cells = [json.dumps([n for n, y in zip(NAMES, row, strict=True) if y]) for row in gold]
    return [{"id": one, "labels": cell} for one, cell in zip(IDS, cells, strict=True)]


LAYOUTS = {"wide": wide, "by_name": by_name, "pipeline": as_pipeline, "long": long}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_every_layout_gives_the_same_scores(layout, suffix, rows, tmp_path):
    p, gold = rows
    table = LAYOUTS[layout](p)
    if suffix in (".csv", ".tsv"):
        table = [{k: json.dumps(v) if isinstance(v, (dict, list)) else v for k, v in row.items()} for row in table]
    file = write(tmp_path / f"scores{suffix}", table)
    found = read_scores(str(file))
    assert (found.labels, found.ids, found.notes) == (NAMES, IDS, [])
    np.testing.assert_array_equal(found.values, p)
    read, notes = read_gold(str(write(tmp_path / "gold.csv", sets(gold)[::-1])), found)  # by id, in any order
    np.testing.assert_array_equal(read, gold)
    assert notes == []


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_plain_files_are_read_at_once_as_they_are_row_by_row(suffix, tmp_path):
    """Oracle: the same rows beside a cell in quotes, or as texts, which are read one by one; and the line of a mistake
    in the middle of the file."""
    p = np.random.default_rng(1).random((150, 3))
    gold = np.eye(3, dtype=np.int8)[np.arange(150) % 3]
    names = ["a", "b", "c d"]
    wide = [{"row_id": i, "text": "x", **dict(zip(names, row, strict=True))} for i, row in enumerate(p.tolist())]
    slow = [{**row, "text": 'a "b"'} if suffix == ".csv" else {n: str(v) for n, v in row.items()} for row in wide]
    if suffix == ".tsv":
        slow[3]["text"] = '"'
    found, other = (
        read_scores(str(write(tmp_path / f"{name}{suffix}", rows))) for name, rows in (("f", wide), ("s", slow))
    )
    np.testing.assert_array_equal(found.values, p)
    np.testing.assert_array_equal(other.values, p)
    assert (found.labels, found.ids) == (other.labels, other.ids) == (names, [str(i) for i in range(150)])
    assert [note.partition(":")[2] for note in found.notes] == [note.partition(":")[2] for note in other.notes]
    marks = [{"row_id": i, **dict(zip(names, row, strict=True))} for i, row in enumerate(gold.tolist())]
    cells = [{"row_id": i, "labels": " | ".join(np.array(names)[row > 0])} for i, row in enumerate(gold)]
    for rows in (marks, cells, [{**row, "text": '"'} for row in marks]):
        np.testing.assert_array_equal(read_gold(str(write(tmp_path / f"g{suffix}", rows)), found)[0], gold)
    wide[120]["b"] = 1.5
    line = "row 120 (counting from 0)" if suffix == ".parquet" else "line 122"
    with pytest.raises(ValueError, match=re.escape(f"{line}: the score of 'b' is 1.5")):
        read_scores(str(write(tmp_path / f"w{suffix}", wide)))


@pytest.mark.parametrize("begin", ["\n", "\r\n\r\n", "\ufeff\n", "\ufeff", ""])
def test_empty_lines_above_a_header_of_numbers_are_no_rows(begin, tmp_path):
    (tmp_path / "s.csv").write_bytes(f"{begin}0,1\n0.9,0.2\n0.1,0.8\n".encode())
    found = read_scores(str(tmp_path / "s.csv"))
    assert found.labels == ["0", "1"] and found.values.tolist() == [[0.9, 0.2], [0.1, 0.8]]


def test_ids_are_matched_whether_they_are_written_as_1_or_1_0(tmp_path):
    scores = read_scores(str(write(tmp_path / "s.csv", [{"id": i, "a": 0.5, "b": 0.1} for i in range(3)])))
    gold = [{"id": float(i), "labels": "b" if i == 2 else "a"} for i in (2, 1, 0)]
    assert read_gold(str(write(tmp_path / "g.csv", gold)), scores)[0].tolist() == [[1, 0], [1, 0], [0, 1]]


def test_gold_labels_of_arff(rows, tmp_path):
    p, gold = rows
    lines = ["@relation r", "@attribute x numeric", *(f"@attribute '{name}' {{0,1}}" for name in NAMES), "@data"]
    lines += [f"0.5,{','.join(map(str, row))}" for row in gold.tolist()]
    lines[7] = "0.5,?,1,0,1"
    (tmp_path / "g.arff").write_text("\n".join(lines) + "\n")
    scores = read_scores(str(write(tmp_path / "s.csv", wide(p))))
    read, notes = read_gold(str(tmp_path / "g.arff"), scores)
    np.testing.assert_array_equal(read[1:], gold[1:])
    assert read[0].tolist() == [-1, 1, 0, 1] and "g.arff has no ids" in notes[0]
    few = read_scores(str(tmp_path / "s.csv"), labels=["rain"])._replace(labels=["sun"])
    with pytest.raises(ValueError, match="has no gold labels for 'sun'"):
        read_gold(str(tmp_path / "g.arff"), few)


def test_arrays_maps_and_predictions_of_a_model_are_read(rows, tmp_path):
    p, gold = rows
    np.savez(tmp_path / "a.npz", probabilities=p, labels=np.array(NAMES), ids=np.array(IDS))
    np.savez(tmp_path / "g.npz", gold=gold[:, ::-1], label_names=np.array(NAMES[::-1]), ids=np.array(IDS))
    found = read_scores(str(tmp_path / "a.npz"))
    np.testing.assert_array_equal(found.values, p)
    np.testing.assert_array_equal(read_gold(str(tmp_path / "g.npz"), found)[0], gold)
    cells = pa.array([[*zip(NAMES, row, strict=True)] for row in p.tolist()], pa.map_(pa.string(), pa.float64()))
    parquet.write_table(pa.table({"text": IDS, "probabilities": cells}), tmp_path / "m.parquet")
    np.testing.assert_array_equal(read_scores(str(tmp_path / "m.parquet")).values, p)
    every = [
        {"text": "a", "labels": "", **{f"probability_{n}": v for n, v in zip(NAMES, row, strict=True)}} for row in p
    ]
    found = read_scores(str(write(tmp_path / "p.csv", every)))
    assert found.labels == NAMES and found.ids is None
    np.testing.assert_array_equal(found.values, p)


def test_logits_missing_names_other_columns_and_order(rows, tmp_path):
    p, gold = rows
    file = write(tmp_path / "logits.csv", [{**row, "text": "x"} for row in wide(logit(p.clip(1e-4, 0.999)))])
    found = read_scores(str(file), logits=True, labels=NAMES[::-1])
    np.testing.assert_allclose(found.values, p.clip(1e-4, 0.999)[:, ::-1], rtol=1e-12)
    assert found.notes == [f"{file}: 4 labels, a column each; not read: text."]
    some = [{"id": "a", "scores": {"x": 0.5}}, {"id": "b", "scores": {"y": 0.25, "x": 1}}, {"id": "c", "scores": {}}]
    found = read_scores(str(write(tmp_path / "some.jsonl", some)))
    assert found.values.tolist() == [[0.5, 0], [1, 0.25], [0, 0]]
    assert "3 of 6 scores are not there; they count as 0" in found.notes[0]
    spans = [[{"label": "x", "score": 0.2}, {"label": "x", "score": 0.7}]]  # of GLiNER: the surest counts
    assert read_scores(str(write(tmp_path / "g.jsonl", [{"scores": spans[0]}]))).values.tolist() == [[0.7]]
    binary = [dict(zip(NAMES, row, strict=True)) for row in gold.tolist()]
    scores = read_scores(str(write(tmp_path / "p.csv", wide(p))))
    read, notes = read_gold(str(write(tmp_path / "binary.csv", binary)), scores)
    np.testing.assert_array_equal(read, gold)
    assert len(notes) == 1 and "matched by their order" in notes[0]


def test_scores_as_other_tools_dump_them(rows, tmp_path):
    """Lists of objects for each text (GLiNER, a pipeline), a zero-shot pipeline, a language model, numpy."""
    p, gold = rows
    lists = [[{"label": n, "score": s} for n, s in zip(NAMES, row, strict=True)] for row in p.tolist()]
    (tmp_path / "lists.json").write_text(json.dumps(lists))
    (tmp_path / "lists.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in lists))
    write(tmp_path / "zero.jsonl", [{"sequence": "x", "labels": NAMES, "scores": row} for row in p.tolist()])
    lines = [{"id": row["id"], "class": row["label"], "logprob": np.log(max(row["score"], 1e-300))} for row in long(p)]
    write(tmp_path / "lm.csv", lines)
    for name in ("lists.json", "lists.jsonl", "zero.jsonl", "lm.csv"):
        found = read_scores(str(tmp_path / name))
        assert found.labels == NAMES and found.ids == (IDS if name == "lm.csv" else None)
        np.testing.assert_allclose(found.values, p, rtol=1e-12)
    np.savez(tmp_path / "p.npz", p)
    np.save(tmp_path / "p.npy", p)
    write(tmp_path / "vectors.jsonl", [{"probabilities": row} for row in p.tolist()])
    for name in ("p.npz", "p.npy", "vectors.jsonl"):
        found = read_scores(str(tmp_path / name))
        assert found.labels == ["0", "1", "2", "3"]
        np.testing.assert_array_equal(found.values, p)
    marked = [
        {"id": i, "label": n, "gold": y}
        for i, row in zip(IDS, gold.tolist(), strict=True)
        for n, y in zip(NAMES, row, strict=True)
    ]
    scores = read_scores(str(write(tmp_path / "s.csv", wide(p))))
    positive = [{"id": row["id"], "label": row["label"]} for row in marked if row["gold"]]
    for table in (marked, positive):
        read, notes = read_gold(str(write(tmp_path / "g.csv", table)), scores)
        np.testing.assert_array_equal(read, gold)
        assert notes == []
    marked[5]["label"] = "hail"
    with pytest.raises(ValueError, match="g.csv, line 7: 'hail', which has no scores"):
        read_gold(str(write(tmp_path / "g.csv", marked)), scores)


def test_a_rounding_error_is_a_probability(tmp_path):
    np.save(tmp_path / "p.npy", np.array([[0.5, 1 + 1e-7], [-1e-7, 1]]))
    assert read_scores(str(tmp_path / "p.npy")).values.tolist() == [[0.5, 1], [0, 1]]
    table = [
        {"scores": [{"O": 1.0000001, "B-X": -1e-7}], "tags": ["O"]},
        {"scores": [{"O": 0, "B-X": 1}], "tags": ["B-X"]},
    ]
    file = write(tmp_path / "p.jsonl", table)
    decide.fit(words({"--probabilities": file, "--gold": file}, "--task", "tags", "--output", tmp_path / "d.json"))
    masks = np.array([[[1.0000001, 0.0]]] * 4, np.float32)
    np.savez(tmp_path / "m.npz", probabilities=masks, gold=masks.round())
    files = {"--probabilities": tmp_path / "m.npz", "--gold": tmp_path / "m.npz"}
    decide.fit(words(files, "--task", "masks", "--output", tmp_path / "m.json"))


def test_columns_of_labels_count_beside_the_likeliest_label(rows, tmp_path):
    """Oracle: the columns. Lines of a row each keep their form beside other numbers."""
    p, _ = rows
    best = [NAMES[i] for i in p.argmax(1)]
    top = [{**row, "label": name, "score": max(p[i])} for i, (row, name) in enumerate(zip(wide(p), best, strict=True))]
    for without in ((), ("id",)):
        table = [{key: value for key, value in row.items() if key not in without} for row in top]
        found = read_scores(str(write(tmp_path / "p.csv", table)))
        assert found.labels == NAMES and found.notes[0].endswith("4 labels, a column each; not read: label, score.")
        np.testing.assert_array_equal(found.values, p)
    lines = [{"id": i, "label": name, "score": 0.5, "rank": 1} for i, name in enumerate(best)]
    found = read_scores(str(write(tmp_path / "l.csv", lines)))
    assert [found.labels[i] for i in found.values.argmax(1)] == best


def test_labels_of_one_class_and_logits_that_look_like_probabilities_are_noted(rows, tmp_path):
    p, gold = rows
    scores = read_scores(str(write(tmp_path / "s.csv", wide(p))), logits=True)
    assert scores.notes == [
        f"{tmp_path / 's.csv'}: all logits are from 0 to 1. If they are probabilities, leave --logits out."
    ]
    table = [
        {"id": one, **dict(zip(NAMES, row, strict=True)), "wind": 0, "7": 1}
        for one, row in zip(IDS, gold.tolist(), strict=True)
    ]
    _, notes = read_gold(str(write(tmp_path / "g.csv", table)), scores)
    assert [note.split(": ")[1].split(",")[0] for note in notes] == ["no row has 'wind'", "all rows have '7'"]
    decisions = [{"id": one, **dict(zip(NAMES, row, strict=True))} for one, row in zip(IDS, gold.tolist(), strict=True)]
    scores = read_scores(str(write(tmp_path / "d.csv", decisions)))
    assert [note.partition(": ")[2][:23] for note in scores.notes] == ["all scores are 0 or 1. "]
    _, notes = read_gold(str(write(tmp_path / "g.csv", [{**row, "hail": 0} for row in decisions])), scores)
    assert notes == [f"{tmp_path / 'g.csv'}: no label of the scores, and not read: hail."]


@pytest.mark.parametrize(
    "scores, flags, message",
    [
        ([{"id": 1, "a": 0.5}, {"id": 2, "a": 1.5}], {}, "line 3: the score of 'a' is 1.5; expected a probability"),
        ([{"id": 1, "a": 0.5}, {"id": 2, "a": 1.000003}], {}, "the score of 'a' is 1.000003; expected a probability"),
        ([{"id": 1, "a": 0.5}, {"id": 2, "a": "nan"}], {}, "line 3: the score of 'a' is nan; expected a probability"),
        ([{"id": 1, "a": 0.5}, {"id": 2, "a": "inf"}], {"logits": True}, "is inf; expected a number"),
        ([{"id": 1, "a": 0.5}, {"id": 2, "a": "much"}], {}, "line 3: the score of 'a' is 'much'; expected a number"),
        ([{"id": 1, "a": 0.5}, {"id": 1, "a": 0.5}], {}, "two rows have the id '1'"),
        ([{"id": 1, "text": "x"}], {}, "has no scores"),
        ([{"id": 1, "a": "0,4"}], {}, "line 2: the score of 'a' is '0,4'; expected a number with a point"),
        ([{"id": 1, "a": "40 %"}], {}, "the score of 'a' is '40 %'; expected a number with a point and without a unit"),
        ([{"a": 40, "b": 7}], {}, "the score of 'a' is 40; .* Are these percent"),
        ([{"a": -1, "b": 7}], {}, "the score of 'a' is -1; .* Then give --logits true"),
        ([{"index": 7, "b": 0.5}], {}, "If 'index' is no label, leave this column out"),
        ([{"r0": "r1", "0.25": 0.5, "0.125": 0.5}], {}, "has no header: its first line is r0, 0.25, 0.125"),
        ([{"a": 0.5}], {"id_column": "key"}, "has no column 'key'"),
        ([{"a": 0.5}], {"labels": ["a", "b"]}, "has no scores of 1 of 2 labels: 'b'"),
        ([{"label": "a", "score": 0.5}], {}, "no column id or ids"),
        ([{"id": 1, "label": "a", "score": 0.5}, {"id": 1, "label": "a", "score": 0.5}], {}, "a second score of 'a'"),
        ([{"id": 1, "scores": '{"a": "b"}'}], {}, "the score of 'a' is 'b'; expected a number"),
        ([{"id": 1, "scores": '[{"name": 2}]'}], {}, "are no scores by name"),
    ],
)
def test_wrong_scores_end_in_one_line(scores, flags, message, tmp_path):
    with pytest.raises(ValueError, match=message) as raised:
        read_scores(str(write(tmp_path / "s.csv", scores)), **flags)
    assert "\n" not in str(raised.value) and "s.csv" in str(raised.value)


def test_a_list_of_arrays_is_refused_with_the_array_to_save(rows, tmp_path):
    """As `predict_proba` gives it. Oracle: the array to save has the probabilities."""
    p, _ = rows
    of_labels = [np.stack([1 - column, column], 1) for column in p.T]
    np.savez(tmp_path / "p.npz", *of_labels)
    np.save(tmp_path / "p.npy", of_labels)
    for name in ("p.npz", "p.npy"):
        with pytest.raises(ValueError, match=r"save np.stack\(\[a\[:, 1\] for a in p\], 1\)"):
            read_scores(str(tmp_path / name))
    np.save(tmp_path / "q.npy", np.stack([a[:, 1] for a in of_labels], 1))
    np.testing.assert_array_equal(read_scores(str(tmp_path / "q.npy")).values, p)


@pytest.mark.parametrize(
    "gold, message",
    [
        ([{"id": 1, "labels": "a"}], "no gold labels of 1 of the 2 rows .*: ids '2'; it has '1'. Add"),
        ([{"labels": "a"}], "has 1 rows, but .* has 2"),
        ([{"id": 1, "labels": "c"}, {"id": 2, "labels": "a"}], "does not know 1 of the labels"),
        ([{"id": 1, "labels": ""}, {"id": 2, "labels": ""}], "no row has a gold label"),
        ([{"id": 1, "a": 1, "b": 1}, {"id": 2, "a": 1, "b": ""}], "but never 0"),
        ([{"id": 1, "a": 1}, {"id": 2, "a": 0}], "has no gold labels for 'b'"),
        ([{"id": 1, "a": 1, "b": 2}, {"id": 2, "a": 0, "b": 0}], "holds '2'; expected 0 or 1"),
        ([{"id": 1, "labels": "a"}, {"id": 1, "labels": "a"}], "two rows have the id '1'"),
    ],
)
def test_gold_labels_that_do_not_match_end_in_one_line(gold, message, tmp_path):
    scores = read_scores(str(write(tmp_path / "s.csv", [{"id": 1, "a": 0.5, "b": 0}, {"id": 2, "a": 0.1, "b": 0}])))
    with pytest.raises(ValueError, match=message) as raised:
        read_gold(str(write(tmp_path / "g.csv", gold)), scores)
    assert "\n" not in str(raised.value) and "g.csv" in str(raised.value)


@pytest.fixture
def files(rows, tmp_path):
    p, gold = rows
    write(tmp_path / "p.csv", wide(p))
    write(tmp_path / "gold.jsonl", [{**row, "labels": json.loads(row["labels"])} for row in sets(gold)])
    return {"--probabilities": tmp_path / "p.csv", "--gold": tmp_path / "gold.jsonl"}


def words(files, *others):
    return [str(word) for pair in files.items() for word in pair] + [*map(str, others)]


def test_fit_apply_and_report_are_those_of_python(files, rows, tmp_path, capsys):
    p, gold = rows
    decide.fit(words(files, "--output", tmp_path / "d.json", "--target", "jaccard"))
    never_empty = bool(gold.any(1).all())
    fitted = LabelDecisions.fit(p, gold, target="jaccard", never_empty=never_empty)
    fitted.labels = NAMES
    read = LabelDecisions.load(tmp_path / "d.json")
    assert read == fitted and read.crossed is None
    said = capsys.readouterr().out
    assert f"40 rows, 4 labels: {fitted.decoder}" in said and f"{fitted.crossed['fixed']:.4f}" in said
    only = {"--probabilities": files["--probabilities"], "--decisions": tmp_path / "d.json"}
    decide.apply(words(only, "--output", tmp_path / "o.jsonl", "--review", "10%"))
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    decided, losses = fitted.decide(p), fitted.expected_losses(p)
    assert [row["id"] for row in found] == IDS
    assert [row["labels"] for row in found] == [[NAMES[i] for i in np.flatnonzero(row)] for row in decided]
    assert [row["expected_loss"] for row in found] == losses.round(6).tolist()
    assert sorted(np.flatnonzero([row["review"] for row in found])) == sorted(np.argsort(-losses, kind="stable")[:4])
    decide.report(words(files, "--decisions", tmp_path / "d.json", "--output", tmp_path / "r.json"))
    figures = json.loads((tmp_path / "r.json").read_text())["figures"]
    both, either = (decided & (gold > 0)).sum(1), (decided | (gold > 0)).sum(1)
    assert figures["jaccard"] == pytest.approx(np.where(either, both / np.maximum(either, 1), 1).mean())
    decide.apply(words(only, "--output", tmp_path / "o.csv", "--decoder", "0.3"))
    assert read_scores(str(tmp_path / "o.csv")).ids == IDS  # what it writes it can read


@pytest.mark.parametrize("how", ["--target hamming", "--guarantee precision 0.6", "--guarantee missed 0.2"])
def test_the_page_has_the_figures_and_the_review(how, files, rows, tmp_path):
    """Its numbers are those of the JSON file; names are escaped; it is written without torch, see below."""
    p, gold = rows
    decide.fit(words(files, "--output", tmp_path / "d.json", *how.split()))
    for name in ("r.json", "r.html"):
        decide.report(words(files, "--decisions", tmp_path / "d.json", "--output", tmp_path / name))
    figures = json.loads((tmp_path / "r.json").read_text())["decoders"]
    page = Reader((tmp_path / "r.html").read_text())
    wanted = ["figures", *(["guarantee"] if "guarantee" in how else []), "decisions", "review", "labels", "errors"]
    assert page.sections == wanted
    tables = {tuple(head): body for head, body in page.tables}
    body = next(body for head, body in tables.items() if head[:2] == ("decoder", "f1_example"))
    assert {row[0][0]: float(row[1][1]) for row in body} == pytest.approx(
        {k: v["f1_example"] for k, v in figures.items()}
    )
    fitted = LabelDecisions.load(tmp_path / "d.json")
    losses = fitted.expected_losses(p)
    first = next(body for head, body in tables.items() if head[0] == "row" and "expected loss" in head)
    assert [row[0][0] for row in first] == [IDS[i] for i in np.argsort(-losses, kind="stable")[:20]]
    curve = next(body for head, body in tables.items() if head[0] == "share")
    real = (fitted.decide(p) != (gold > 0)).mean(1)
    if "hamming" in how:
        assert float(curve[0][1][1]) == pytest.approx(real.mean()) and float(curve[-1][1][1]) == 0


def test_costs_and_guarantees_of_the_command(files, rows, tmp_path, capsys):
    p, gold = rows
    costs = [{"label": "*", "false_positive": 1, "false_negative": 1}]
    costs += [{"label": "wind", "false_positive": 1, "false_negative": 9}]
    write(tmp_path / "costs.csv", costs)
    target = ("--target", "cost", tmp_path / "costs.csv", "--decoder", "thresholds")
    decide.fit(words(files, "--output", tmp_path / "c.json", *target))
    fitted = LabelDecisions.fit(p, gold, target="cost", costs=[[1] * 4, [1, 1, 9, 1]], decoder="thresholds")
    assert LabelDecisions.load(tmp_path / "c.json").thresholds == fitted.thresholds
    gold[3:, 3] = 0
    gold[0, 3] = 1
    write(tmp_path / "gold.csv", sets(gold))
    files["--gold"] = tmp_path / "gold.csv"
    decide.fit(words(files, "--output", tmp_path / "g.json", "--guarantee", "recall", "0.8"))
    said = capsys.readouterr().out
    assert "it is decided in at least 80 %, with a confidence of 95 % each" in said
    need = gold.sum(0) < 14  # 1 - 0.8^14 > 0.95
    assert LabelDecisions.load(tmp_path / "g.json").refused == np.flatnonzero(need).tolist()
    assert [repr(name) in said for name in NAMES] == need.tolist() and need.any() and not need.all()
    decide.fit(words(files, "--output", tmp_path / "m.json", "--guarantee", "missed", "0.2"))
    assert "on average at most 20 % of a row's gold labels are not decided." in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags, message",
    [
        ("--target f2", "`target` is 'f2'"),
        ("--target cost", "a file of costs after it"),
        ("--target jaccard x.csv", "nothing after it"),
        ("--guarantee precision high", "expected a number above 0 and below 1 after precision"),
        ("--guarantee missed 0.01", "40 rows are too few for a risk of at most 0.01: at least 99"),
        ("--guarantee precision 2", "`guarantee` is 'precision 2'; expected a number above 0"),
        ("--confidence 0.9", "is for a --guarantee"),
        ("--guarantee recall 0.8 --decoder fixed", "Leave one of the two out"),
        ("--decoder best", "`decoder` is 'best'"),
        ("--output d.txt", "its suffix is not a format"),
    ],
)
def test_mistakes_in_flags_end_in_one_line(flags, message, files, tmp_path):
    output = [] if "--output" in flags else ["--output", tmp_path / "d.json"]
    with pytest.raises(ValueError, match=message) as raised:
        decide.fit(words(files, *output, *flags.split()))
    assert "\n" not in str(raised.value) and not (tmp_path / "d.json").exists()


def test_wrong_files_of_costs_end_in_one_line(files, tmp_path):
    for row, message in (
        ({"label": "rain", "false_positive": 1, "false_negative": "x"}, "line 2: the costs are 1, x"),
        ({"label": "rain", "false_positive": 1, "false_negative": 1}, "no costs of 'snow, or hail'"),
        ({"label": "hail", "false_positive": 1, "false_negative": 1}, "costs of 'hail', which are no labels"),
        ({"label": "hail"}, "has no column 'false_positive'"),
        (
            {"label": "*", "false_positive": -1, "false_negative": 2},
            "line 2: the costs are -1, 2; expected two numbers",
        ),
        ({"label": "*", "false_positive": 0, "false_negative": 0}, "at least 0, not both 0"),
        ([{"label": "*", "false_positive": 1, "false_negative": 2}] * 2, "line 3: a second line of '[*]'"),
    ):
        write(tmp_path / "costs.csv", row if isinstance(row, list) else [row])
        with pytest.raises(ValueError, match=message):
            decide.fit(words(files, "--output", tmp_path / "d.json", "--target", "cost", tmp_path / "costs.csv"))


def test_a_model_decides_by_the_file_as_by_its_own(tmp_path):
    """`predict` and `evaluate` of a model, and `decide`, on the same probabilities, digit for digit."""
    trainer, folder, table = trained_on_features(tmp_path)
    names = [trainer.model.config.id2label[i] for i in range(trainer.model.config.num_labels)]
    gold = np.asarray(table["labels"][:])
    rows = {"id": [*range(len(gold))], "features": table["features"][:]}
    parquet.write_table(pa.table(rows), tmp_path / "test.parquet")
    rows["labels"] = [[n for n, y in zip(names, row, strict=True) if y > 0] for row in gold]
    parquet.write_table(pa.table(rows), tmp_path / "gold.parquet")
    model = {"--model": folder, "--input": tmp_path / "test.parquet"}
    predict.main(words(model, "--output", tmp_path / "p.jsonl", "--probabilities", "all"))
    files = {"--probabilities": tmp_path / "p.jsonl", "--gold": tmp_path / "gold.parquet"}
    decide.fit(words(files, "--output", tmp_path / "d.json", "--target", "f1_macro", "--decoder", "thresholds"))
    predict.main(words(model, "--output", tmp_path / "by_file.jsonl", "--decoder", tmp_path / "d.json"))
    scores = {"--probabilities": tmp_path / "p.jsonl", "--decisions": tmp_path / "d.json"}
    decide.apply(words(scores, "--output", tmp_path / "applied.jsonl"))
    lines = [(tmp_path / f"{name}.jsonl").read_text().splitlines() for name in ("by_file", "applied", "p")]
    by_file, applied, stored = ([json.loads(line)["labels"] for line in each] for each in lines)
    assert by_file == applied != stored
    decide.report(words(files, "--decisions", tmp_path / "d.json", "--output", tmp_path / "decided.json"))
    model["--input"] = tmp_path / "gold.parquet"
    evaluate(words(model, "--decoder", tmp_path / "d.json", "--output", tmp_path / "evaluated.json"))
    ours, theirs = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("decided", "evaluated"))
    assert ours["labels"] == theirs["labels"] and ours["decoder"] == theirs["decoder"] == "thresholds"
    sets = ("f1_example", "f1_macro", "hamming_loss", "exact_match")
    assert {key: ours["figures"][key] for key in sets} == {key: theirs["figures"][key] for key in sets}
    other = LabelDecisions(labels=["joy"], threshold=0.5)
    other.save(tmp_path / "other.json")
    with pytest.raises(ValueError, match="other.json: the decisions are for 1 labels, but there are 4"):
        predict.main(words(model, "--decoder", tmp_path / "other.json", "--output", tmp_path / "no.jsonl"))


def test_the_command_imports_no_torch(files, tmp_path):
    heavy = {"torch", "transformers", "datasets", "sklearn"}

    def program():
        os.chdir(tmp_path)
        for name, flags in (("fit", "--output d.json"), ("report", "--decisions d.json --output r.html")):
            sys.argv = ["seal-hf", "decide", name, *words(files), *flags.split()]
            importlib.import_module("seal_hf.__main__").main()
        assert not {*heavy, "seal_hf.api"} & sys.modules.keys() and (tmp_path / "r.html").is_file()

    anew(program, heavy)


# --- tags and masks ---------------------------------------------------------------------------------------------------

CLASSES = ["O", "B-X", "I-X"]


@pytest.fixture
def sentences(tmp_path):
    """Scores and gold tags of sentences, in files: lines of JSON, and arrays."""
    generator = np.random.default_rng(1)
    lengths = generator.integers(1, 5, 30)
    p = generator.dirichlet(np.full(3, 0.4), lengths.sum())
    parts = np.split(p, np.cumsum(lengths)[:-1])
    best = [max(well_formed(len(part)), key=lambda tags, part=part: score(part, tags)) for part in parts]
    scores = [
        {"id": i, "scores": [dict(zip(CLASSES, w, strict=True)) for w in part.tolist()]} for i, part in enumerate(parts)
    ]
    write(tmp_path / "s.jsonl", scores)
    np.savez(tmp_path / "s.npz", probabilities=p, tags=np.array(CLASSES), lengths=lengths, ids=np.arange(30))
    write(tmp_path / "gold.jsonl", [{"id": i, "tags": [*tags]} for i, tags in enumerate(best)][::-1])
    return parts, best


def well_formed(length):
    every = itertools.product(CLASSES, repeat=length)
    return [tags for tags in every if "I" not in tags[0] and ("O", "I-X") not in itertools.pairwise(tags)]


def score(part, tags):
    return sum(np.log(max(word[CLASSES.index(tag)], 1e-300)) for word, tag in zip(part, tags, strict=True))


@pytest.mark.parametrize("suffix", [".jsonl", ".npz"])
def test_tags_are_the_best_of_all_allowed_sequences(suffix, sentences, tmp_path, capsys):
    """The gold tags are the best allowed sequences by brute force, so that `constrained` is chosen and right."""
    parts, best = sentences
    files = {"--probabilities": tmp_path / f"s{suffix}", "--gold": tmp_path / "gold.jsonl"}
    decide.fit(words(files, "--task", "tags", "--output", tmp_path / "d.json"))
    assert "30 sentences, 3 tags: constrained" in capsys.readouterr().out
    only = {"--probabilities": files["--probabilities"], "--decisions": tmp_path / "d.json", "--task": "tags"}
    decide.apply(words(only, "--output", tmp_path / "o.jsonl"))
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["tags"] for row in found] == [[*tags] for tags in best]
    decide.report(words(only, "--gold", files["--gold"], "--output", tmp_path / "r.json"))
    assert json.loads((tmp_path / "r.json").read_text())["figures"]["f1"] == 1
    columns = "\n\n".join("\n".join(f"word {tag}" for tag in tags) for tags in best)  # gold tags of CoNLL files
    (tmp_path / "gold.conll").write_text(f"{columns}\n")
    decide.report(words(only, "--gold", tmp_path / "gold.conll", "--output", tmp_path / "c.json"))
    assert (tmp_path / "c.json").read_text() == (tmp_path / "r.json").read_text()
    decide.apply(words(only, "--output", tmp_path / "i.jsonl", "--decoder", "independent"))
    found = [json.loads(line)["tags"] for line in (tmp_path / "i.jsonl").read_text().splitlines()]
    assert found == [[CLASSES[i] for i in part.argmax(1)] for part in parts]


@pytest.mark.parametrize(
    "change, gold, message",
    [
        ({"scores": [{"O": 0.9, "B-X": 0.3}]}, ["O"], "sentence|line 1: word 0 .* sum to 1.2, not to 1"),
        ({"scores": [{"O": 1.5, "B-X": -0.5}]}, ["O"], "its scores are .*, not from 0 to 1"),
        ({"scores": [0.5]}, ["O"], "expected the scores of each word by tag"),
        ({"scores": [{"O": "x"}]}, ["O"], "the score of 'O' is 'x'; expected a number"),
        ({"scores": [[{"label": "O", "score": 1.0}]]}, None, "the tags are None; expected a list of their names"),
        ({"text": "x"}, ["O"], "has no column scores or probabilities"),
        ({"scores": [{"O": 1.0}]}, ["B-Y"], "no scores of the tag 'B-Y'; the scores are of"),
        ({"scores": [{"O": 1.0}]}, ["O", "O"], "has 2 tags, but .* has scores of 1 words"),
    ],
)
def test_wrong_scores_of_tags_end_in_one_line(change, gold, message, tmp_path):
    files = {"--probabilities": write(tmp_path / "s.jsonl", [change]), "--gold": tmp_path / "g.jsonl"}
    write(files["--gold"], [{"tags": gold}])
    with pytest.raises(ValueError, match=message) as raised:
        decide.fit(words(files, "--task", "tags", "--output", tmp_path / "d.json"))
    assert "\n" not in str(raised.value)


def test_masks_have_the_threshold_of_the_best_iou(tmp_path, capsys):
    generator = np.random.default_rng(2)
    p = generator.random((12, 6, 5))
    gold = (p > 0.3).astype(np.uint8)
    gold[0, 0, 0] = 255
    np.savez(tmp_path / "p.npz", probabilities=p)
    np.savez(tmp_path / "g.npz", gold=gold)
    files = {"--probabilities": tmp_path / "p.npz", "--task": "masks"}
    decide.fit(words(files, "--gold", tmp_path / "g.npz", "--output", tmp_path / "d.json"))
    fitted = MaskDecisions.fit(p, gold)
    assert MaskDecisions.load(tmp_path / "d.json") == fitted and fitted.decoder == "threshold"
    decide.apply(words(files, "--decisions", tmp_path / "d.json", "--output", tmp_path / "m.npz"))
    with np.load(tmp_path / "m.npz") as found:
        np.testing.assert_array_equal(found["masks"], p >= fitted.threshold)
    flags = ("--gold", tmp_path / "g.npz", "--decisions", tmp_path / "d.json", "--output", tmp_path / "r.json")
    decide.report(words(files, *flags))
    counts = gold != 255
    both, either = (p >= fitted.threshold) & (gold == 1) & counts, ((p >= fitted.threshold) | (gold == 1)) & counts
    iou = (both.sum((1, 2)) / either.sum((1, 2))).mean()
    assert json.loads((tmp_path / "r.json").read_text())["figures"]["mean_iou"] == pytest.approx(iou)
    with pytest.raises(ValueError, match="`target` is an option of label sets, but `task` is masks"):
        decide.fit(words(files, "--gold", tmp_path / "g.npz", "--output", tmp_path / "e.json", "--target", "jaccard"))
    with pytest.raises(ValueError, match="expected gold of shape"):
        decide.fit(words(files, "--gold", tmp_path / "p.npz", "--output", tmp_path / "e.json"))


def test_masks_of_one_channel_and_logits_are_read(tmp_path):
    """Oracle: the decisions on the probabilities (N, H, W)."""
    p = np.random.default_rng(2).random((12, 6, 5))
    gold, files = (p > 0.3).astype(np.uint8), []
    for i, (key, values, mask) in enumerate(
        (("probabilities", p, gold), ("probabilities", p[:, None], gold[:, None]), ("logits", logit(p)[:, None], gold))
    ):
        np.savez(tmp_path / "p.npz", **{key: values})
        np.savez(tmp_path / "g.npz", gold=mask)
        names = {"--probabilities": tmp_path / "p.npz", "--gold": tmp_path / "g.npz", "--logits": i == 2}
        decide.fit(words(names, "--task", "masks", "--output", tmp_path / f"{i}.json"))
        files.append(MaskDecisions.load(tmp_path / f"{i}.json"))
    assert files[1] == files[0] and files[2].threshold == pytest.approx(files[0].threshold)


def test_masks_of_several_classes_are_the_likeliest_from_probabilities_or_logits(tmp_path, capsys):
    generator = np.random.default_rng(3)
    logits = generator.normal(size=(5, 3, 4, 6))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    gold = generator.integers(0, 3, (5, 4, 6)).astype(np.uint8)
    gold[0, 0, 0] = 255
    for name, arrays in (("p", {"probabilities": p}), ("l", {"probabilities": logits}), ("g", {"gold": gold})):
        np.savez(tmp_path / f"{name}.npz", **arrays)
    files = {"--probabilities": tmp_path / "p.npz", "--task": "masks"}
    decide.fit(words(files, "--gold", tmp_path / "g.npz", "--output", tmp_path / "d.json"))
    assert ClassMaskDecisions.load(tmp_path / "d.json").decoder == "fixed"
    flags = ("--decisions", tmp_path / "d.json", "--output")
    decide.report(words(files, *flags, tmp_path / "r.json", "--gold", tmp_path / "g.npz"))
    counts, decided = gold != 255, p.argmax(1)
    accuracy = (decided == gold)[counts].mean()
    assert json.loads((tmp_path / "r.json").read_text())["figures"]["pixel_accuracy"] == pytest.approx(accuracy)
    files |= {"--probabilities": tmp_path / "l.npz", "--logits": "true"}
    decide.apply(words(files, *flags, tmp_path / "m.npz"))
    with np.load(tmp_path / "m.npz") as found:
        np.testing.assert_array_equal(found["masks"], decided)
    p[2, :, 3, 1] = 0.5
    gold[1, 2, 3] = 3
    np.savez(tmp_path / "p.npz", probabilities=p)
    np.savez(tmp_path / "bad.npz", gold=gold)
    for wrong, message in (
        (
            {"--probabilities": tmp_path / "p.npz", "--gold": tmp_path / "g.npz", "--logits": "false"},
            r"image 2, pixel \(3, 1\), sum to 1.5, not to 1",
        ),
        ({"--gold": tmp_path / "bad.npz"}, "a gold pixel is 3; expected 0 to 2, or 255"),
    ):
        with pytest.raises(ValueError, match=message):
            decide.fit(words(files | wrong, "--output", tmp_path / "e.json"))


def test_tags_of_a_crf_are_the_best_of_all_sequences(sentences, tmp_path):
    """`viterbi` by brute force over all sequences, `constrained_viterbi` over the allowed ones."""
    parts, _ = sentences
    generator = np.random.default_rng(4)
    between, start, end = generator.normal(size=(3, 3)), generator.normal(size=3), generator.normal(size=3)

    def total(part, tags):
        at = [CLASSES.index(tag) for tag in tags]
        inner = sum(part[i, tag] for i, tag in enumerate(at)) + sum(between[a, b] for a, b in itertools.pairwise(at))
        return inner + start[at[0]] + end[at[-1]]

    logits = [3 * generator.normal(size=part.shape) for part in parts]
    lengths, chain = [*map(len, parts)], {"transitions": between, "start": start, "end": end}
    np.savez(tmp_path / "s.npz", logits=np.concatenate(logits), tags=np.array(CLASSES), lengths=lengths, **chain)
    every = {
        "viterbi": lambda length: itertools.product(CLASSES, repeat=length),
        "constrained_viterbi": well_formed,
    }
    files = {"--probabilities": tmp_path / "s.npz", "--logits": "true", "--task": "tags"}
    for decoder, of_length in every.items():
        best = [[*max(of_length(len(part)), key=lambda tags, part=part: total(part, tags))] for part in logits]
        write(tmp_path / "gold.jsonl", [{"tags": tags} for tags in best])
        fitted = words(files, "--gold", tmp_path / "gold.jsonl", "--decoder", decoder, "--overwrite", "true")
        decide.fit([*fitted, "--output", str(tmp_path / "d.json")])
        decide.apply(words(files, "--decisions", tmp_path / "d.json", "--output", tmp_path / f"{decoder}.jsonl"))
        assert [json.loads(line)["tags"] for line in (tmp_path / f"{decoder}.jsonl").read_text().splitlines()] == best
    files["--logits"] = "false"
    with pytest.raises(ValueError, match="its scores are 6.758187, .*, not from 0 to 1"):
        decide.apply(words(files, "--decisions", tmp_path / "d.json"))


def test_decided_sets_are_closed_under_a_hierarchy(files, rows, tmp_path):
    """As in Python; the file of decisions holds the hierarchy, also for labels in another order."""
    p, gold = rows
    write(tmp_path / "h.csv", [{"child": "rain", "parent": "wind"}, {"child": "snow, or hail", "parent": "wind"}])
    hierarchy = Hierarchy.of_saved([[2], [2], [], []])
    decide.fit(words(files, "--output", tmp_path / "d.json", "--hierarchy", tmp_path / "h.csv"))
    closed = hierarchy.closed(gold)
    fitted = LabelDecisions.fit(p, closed, hierarchy=hierarchy, never_empty=bool(closed.any(1).all()))
    read = LabelDecisions.load(tmp_path / "d.json")
    fitted.labels = NAMES
    assert read == fitted and "closed_f1" in fitted.names
    order = [2, 0, 3, 1]
    other = read.in_order([NAMES[i] for i in order])
    np.testing.assert_array_equal(other.decide(p[:, order], "closed_f1"), read.decide(p, "closed_f1")[:, order])
    decide.report(words(files, "--decisions", tmp_path / "d.json", "--output", tmp_path / "r.json"))
    figures = json.loads((tmp_path / "r.json").read_text())["figures"]
    assert figures["exact_match"] == pytest.approx((read.decide(p) == closed).all(1).mean())
    write(tmp_path / "h.csv", [{"child": "rain", "parent": "weather"}])
    with pytest.raises(ValueError, match="'weather' are above labels, but have no scores"):
        decide.fit(words(files, "--output", tmp_path / "e.json", "--hierarchy", tmp_path / "h.csv"))
