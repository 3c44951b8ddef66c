"""One column per label, and what looks wrong in a table. Oracle: the rows that stand in the file, counted by hand."""

import json

import numpy as np
import pytest

from seal_hf.data import DataError, load_multilabel
from seal_hf.tasks.labels import program as mlc

ROWS = [(f"text {i}", f"u{i:03x}", i % 2, (i // 2) % 2, int(i % 5 == 0)) for i in range(40)]
NAMES = ["toxic", "obscene", "threat"]


def csv(path, header, rows):
    path.write_text("\n".join(",".join(map(str, row)) for row in [header, *rows]) + "\n")
    return str(path)


def check(data):
    """The labels of all rows by their text."""
    assert data.label_names == NAMES
    found = {row["text"]: row["labels"] for part in (data.train, data.validation, data.test) for row in part}
    assert found == {text: list(map(float, labels)) for text, _, *labels in ROWS}


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ([], {}),
        (["toxic,obscene,threat"], {"label_columns": "toxic,obscene,threat"}),
        (["toxic", "obscene", "threat"], {"label_columns": NAMES}),
        (["all_but", "comment,id"], {"label_columns": "all_but comment,id"}),
        (["all_but id"], {"label_columns": ["all_but", "id"]}),
    ],
)
def test_zero_one_columns_by_hand_and_by_program(tmp_path, flags, options):
    path = csv(tmp_path / "d.csv", ["id", "comment", *NAMES], [(row[1], row[0], *row[2:]) for row in ROWS])
    data = load_multilabel(path, **options)
    check(data)
    chosen = "3 labels, a column each: toxic, obscene, threat"
    found = f"no column 'labels', but the others hold only 0 and 1: {chosen}; texts: column 'comment'."
    assert (f"texts: column 'comment'; {chosen}." if options else found) in data.notes
    words = ["--dataset", path, "--model_name_or_path", "none", "--output_dir", "runs"]
    program = mlc.PROGRAM.parse([*words, *(["--label_columns", *flags] if flags else [])])
    check(mlc.PROGRAM.load(program))


@pytest.mark.parametrize(
    "write",
    [str, lambda v: f" {float(v)}", lambda v: str(bool(v)), lambda v: f'"{v}"'],
    ids=["0", "0.0", "False", "quoted"],
)
def test_how_zero_and_one_are_written(tmp_path, write):
    rows = [(-7 * i, i, row[0], *map(write, row[2:])) for i, row in enumerate(ROWS)]
    path = csv(tmp_path / "d.csv", ["Unnamed: 0.1", "", "text", *NAMES], rows)  # indexes of a frame
    check(load_multilabel(path))
    check(load_multilabel(path, label_columns="all_but text"))


def test_columns_are_taken_in_the_order_that_is_asked_for(tmp_path):
    path = csv(tmp_path / "d.csv", ["id", "text", *NAMES], [(row[1], row[0], *row[2:]) for row in ROWS])
    assert load_multilabel(path, label_columns=["threat", "toxic"]).label_names == ["threat", "toxic"]


@pytest.mark.parametrize("unknown", ["", "-1", " nan"])
def test_unknown_labels_and_weights_are_those_of_one_column_of_lists(tmp_path, unknown):
    rows = [(text, *labels[:2], -1 if i % 4 == 0 else labels[2]) for i, (text, _, *labels) in enumerate(ROWS)]
    lists = [(text, f'"[{a}, {b}, {c}]"', 1 + a) for text, a, b, c in rows]
    expected = load_multilabel(csv(tmp_path / "d.csv", ["text", "labels", "w"], lists), sample_weight="w")
    cells = [(text, a, b, unknown if c < 0 else c, 1 + a) for text, a, b, c in rows]
    found = load_multilabel(csv(tmp_path / "e.csv", ["text", *NAMES, "w"], cells), sample_weight="w")
    for split in ("train", "validation", "test"):
        assert getattr(found, split)[:] == getattr(expected, split)[:]
    assert found.label_names == NAMES
    assert "10 of 120 labels of rows are unknown (-1): they count in no loss or figure." in found.notes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no column 'labels' or 'label'.* Columns that hold 0 and 1 alone .toxic, obscene. can be a label each"),
        ({"label_columns": "toxic,obscen"}, "no column 'obscen'.* Did you mean 'obscene'.*--label_columns"),
        ({"label_columns": "toxic,toxic"}, "`label_columns` names 'toxic' twice"),
        ({"label_columns": "toxic,threat"}, "d.csv, line 5: the label column 'threat' holds '2'; exp"),
        (
            {"label_columns": "toxic,text", "text_column": "id"},
            "the label column 'text' holds 'text 0'; expected 0 or 1",
        ),
        ({"label_columns": "all_but toxic,obscene,threat,id"}, "`label_columns` leaves no column"),
        ({"label_columns": "toxic", "label_column": "threat"}, "`label_column` is for one column with all labels"),
        ({"label_columns": "toxic", "label_format": "ids"}, "`label_format` is for one column with all labels"),
    ],
)
def test_mistakes_are_named(tmp_path, options, message):
    rows = [(text, id_, *labels[:2], 2 if i == 3 else labels[2]) for i, (text, id_, *labels) in enumerate(ROWS)]
    path = csv(tmp_path / "d.csv", ["text", "id", *NAMES], rows)
    with pytest.raises(DataError, match=message):
        load_multilabel(path, **options)


def test_numbers_beside_a_text_are_no_features(tmp_path):
    path = csv(tmp_path / "d.csv", ["no", "text", *NAMES], [(7 * i, row[0], *row[2:]) for i, row in enumerate(ROWS)])
    with pytest.raises(DataError, match="can be a label each") as error:
        load_multilabel(path)
    assert "features" not in str(error.value)


@pytest.mark.parametrize(
    ("words", "way"),
    [
        ([("*", ""), ("*", "")], "The columns a, b hold one value or nothing: write 1 and 0"),
        ([("alpha", ""), ("beta", "")], "The columns a, b hold one value or nothing: write 1 and 0"),
        ([(0, 1, 2, 3), (0, 2, 4, 1)], "The columns a, b may be counts: write 1 where enough people agree"),
        ([(0.2, 0.7), (0, 1)], "The columns a, b may be probabilities"),
    ],
)
def test_what_columns_of_labels_in_other_forms_need_is_said(tmp_path, words, way):
    rows = [(f"a text {i}", *(values[i // (k + 1) % len(values)] for k, values in enumerate(words))) for i in range(40)]
    with pytest.raises(DataError, match=way):
        load_multilabel(csv(tmp_path / "d.csv", ["body", "a", "b"], rows))


def test_a_column_that_says_which_rows_are_for_validation_is_no_label(tmp_path):
    rows = [(row[0], i / 4, *row[2:4], i % 5 == 0) for i, row in enumerate(ROWS)]
    note = "the column 'is_valid' names splits, but is not read: give a table for each split, such as train.csv."
    texts = csv(tmp_path / "d.csv", ["text", "a", "b", "is_valid"], [(row[0], *row[2:]) for row in rows])
    data = load_multilabel(texts)
    assert data.label_names == ["a", "b"] and note in data.notes
    assert note not in load_multilabel(texts, label_columns="a,b,is_valid").notes
    with pytest.raises(DataError, match="Columns that hold 0 and 1 alone .a. can be a label each"):
        load_multilabel(csv(tmp_path / "f.csv", ["text", "a", "is_valid"], [(row[0], *row[3:]) for row in rows]))
    numbers = [(row[1], int(row[4]), "joy|fear" if row[2] else "joy") for row in rows]
    data = load_multilabel(csv(tmp_path / "e.csv", ["x", "is_valid", "labels"], numbers))
    assert data.columns["feature_columns"] == ["x"] and note in data.notes


def test_features_stand_beside_labels_in_words_and_beside_names_of_places(tmp_path):
    places = ("Rome", "New York City", "Bern")
    rows = [(places[i % 3], 7 * i % 40, i / 8, i % 2 == 0, i % 3 == 0) for i in range(40)]
    data = load_multilabel(csv(tmp_path / "d.csv", ["city", "personId", "x", "a", "b"], rows))
    assert data.columns == {"feature_columns": ["x"]} and data.label_names == ["a", "b"]
    rows = [("yes" if row[3] else "no", row[2], i % 2, i % 3 == 0) for i, row in enumerate(rows)]
    with pytest.raises(DataError, match=r"Columns that hold 0 and 1 alone, or yes and no .member, a, b. can be"):
        load_multilabel(csv(tmp_path / "e.csv", ["member", "x", "a", "b"], rows))
    rows = [(f"[{i / 4}  {i}.\n -2e-1]".replace("\n", " "), i % 2) for i in range(40)]  # as NumPy prints them
    data = load_multilabel(csv(tmp_path / "f.csv", ["features", "labels"], rows), normalize="none")
    assert data.num_features == 3 and {row[2] for row in data.train["features"]} == {np.float32(-0.2)}


@pytest.mark.parametrize(
    ("header", "options", "flag", "way"),
    [
        (["author", "body", "a b", "c"], {}, '"a b,c"', "It has 2 columns of text: author, body. Name the one"),
        (["author", "body", "a b", "c"], {"text_column": "body"}, '"a b,c"', "other columns are in the way: author."),
        (["body", "author", *"abcdefghijk"], {"text_column": "body"}, '"all_but body,author"', "the way: author."),
        (["query", "a b", "c"], {}, '"a b,c"', "It has no column of text .* 'query' holds repeated words"),
    ],
)
def test_what_stands_in_the_way_of_columns_of_labels_is_named(tmp_path, header, options, flag, way):
    count = len([name for name in header if name in ("author", "body", "query")])
    rows = [[f"q{i % 2}" if header[0] == "query" else f"a text {i}"] * count + [i % 2] * 11 for i in range(40)]
    path = csv(tmp_path / "d.csv", header, [row[: len(header)] for row in rows])
    with pytest.raises(
        DataError, match=f"can be a label each, named by `label_columns` .--label_columns {flag}.*{way}"
    ):
        load_multilabel(path, **options)
    chosen = {"text_column": options.get("text_column", header[count - 1]), "label_columns": [flag.strip('"')]}
    assert load_multilabel(path, **chosen).label_names == header[count:]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("i love it", "joy"), ("so sad", "grief"), ("great", "joy")], "first row .i love it, joy. looks like data"),
        ([("i love it", 1, 1, 0), ("so sad", 0, 1, 1)], "two columns have the same name.* lacks a header"),
        ([("i love it", 1, 0, "x"), ("so sad", 1, 1, "x")], "first row .i love it, 1, 0, x. looks like data"),
        ([("i love it", "joy"), ("so sad", "grief")], "no column 'labels' .* If its first row is data, put a header"),
    ],
)
def test_a_file_without_a_header_is_named(tmp_path, rows, message):
    path = csv(tmp_path / "d.csv", rows[0], rows[1:])
    with pytest.raises(DataError, match=message):
        load_multilabel(path)


def test_numbers_may_be_names_of_columns(tmp_path):
    rows = [(row[0], *row[2:]) for row in ROWS]
    assert load_multilabel(csv(tmp_path / "d.csv", ["comment", "0", "1", "2"], rows)).label_names == ["0", "1", "2"]


# What looks wrong


def notes_of(tmp_path, cells, texts=None):
    texts = texts or [f"t{i}" for i in range(len(cells))]
    return load_multilabel(csv(tmp_path / "d.csv", ["text", "labels"], zip(texts, cells, strict=True))).notes


def test_labels_that_differ_in_case_or_blanks_and_missing_values_are_noted(tmp_path):
    notes = notes_of(tmp_path, ["Joy", "joy", "joy|new york", "New  York", "nan"] * 4)
    assert (
        "2 labels have several spellings, by case, blanks or invisible characters (kept): 'Joy' (4 rows) and 'joy' (8 "
        "rows); 'New  York' (4 rows) and 'new york' (4 rows)." in notes
    )
    assert "a label is called 'nan' (4 rows): if it is a missing value, empty these cells." in notes


def test_marks_of_html_and_lone_dashes_are_noted(tmp_path):
    notes = notes_of(tmp_path, ["&lt;c&gt;&lt;d&gt;", "&lt;c&gt;", "-"] * 4)  # of a dump of Stack Exchange
    assert any(note.startswith("3 labels hold marks of HTML: '&lt'; 'c&gt'; 'd&gt'. Replace them") for note in notes)
    assert "a label is called '-' (4 rows): if it is a missing value, empty these cells." in notes
    notes = notes_of(tmp_path, ["R&amplifier", "AT&T"] * 10)
    assert not any("HTML" in note for note in notes)


def test_one_mark_alone_separates_labels_if_others_stand_in_names(tmp_path):
    cells = ['"Aged, 80 and over; Humans"', '"Aged, 80 and over"', "Humans", '"Mice, Inbred; Humans"'] * 5
    rows = zip([f"t{i}" for i in range(20)], cells, strict=True)
    data = load_multilabel(csv(tmp_path / "d.csv", ["text", "labels"], rows))
    assert data.label_names == ["Aged, 80 and over", "Humans", "Mice, Inbred"]
    assert data.columns == {"label_separator": ";"}  # evaluate reads the same marks
    assert (
        "';' alone separates labels, 3 in all, and ',' belongs to names, such as 'Aged, 80 and over'. If it separates "
        "labels, too, write ';' in its place." in data.notes
    )
    mixed = [*enumerate(['"a,b"', "b;c", "a", "a;c", "c"] * 4)]
    mixed = csv(tmp_path / "e.csv", ["text", "labels"], [(f"t{i}", cell) for i, cell in mixed])
    assert load_multilabel(mixed).label_names == ["a", "b", "c"]


def test_marks_that_never_stand_in_one_cell_all_separate(tmp_path):
    """As in a file that two people wrote."""
    cells = enumerate(['"a,b"', '"b,c"', "c", "d;e"] * 4)
    data = load_multilabel(csv(tmp_path / "d.csv", ["text", "labels"], [(f"t{i}", cell) for i, cell in cells]))
    assert data.label_names == ["a", "b", "c", "d", "e"] and data.columns == {}
    said = "';' separates labels in 4 cells, and ',' in 8 others. If ';' belongs to names, give label_separator=','"
    assert any(note.startswith(said) for note in data.notes)


def test_numbers_with_decimals_in_sets_are_names_of_labels(tmp_path):
    codes = enumerate(["401.9;250.00", "427.31", "", "250.00", "401.9;427.31"] * 4)  # of ICD-9
    data = load_multilabel(csv(tmp_path / "d.csv", ["text", "labels"], [(f"t{i}", cell) for i, cell in codes]))
    assert data.label_names == ["250.00", "401.9", "427.31"]


def test_separators_inside_names_are_noted(tmp_path):
    combined = [" ".join(mood for k, mood in enumerate("abcde") if (i >> k) & 1) for i in range(1, 32)]
    notes = notes_of(tmp_path, combined)  # each stands alone in some cell
    assert any(note.startswith("' ' separates labels in 26 cells, such as ") for note in notes)
    notes = notes_of(tmp_path, [mood for mood in combined if " " in mood])
    assert any(
        note.startswith("26 of 26 labels contain ' ', which does not separate labels; if it did, there would be 5.")
        for note in notes
    )
    found = notes_of(tmp_path, ['"a; b, c"', '"b; c"', '"a; c"'] * 5)
    assert any(
        note.startswith("1 label contains ',' between names that are labels too, such as 'b, c'") for note in found
    )
    (found,) = (n for n in notes_of(tmp_path, ['"Health, Safety"', "IT", "HR"] * 5) if "separate" in n)
    assert found.startswith("commas separate 4 labels in 3 different cells, such as 'Health, Safety'")
    for cells in (["new york", "new jersey|new orleans"], ['"a,b"', '"b,c"', '"a,c"']):
        assert not any("separate" in note for note in notes_of(tmp_path, cells * 10))


def test_labels_that_are_never_0_are_refused_or_noted(tmp_path):
    marked = [(row[0], *(value or "" for value in row[2:])) for row in ROWS]  # as a spreadsheet with ones alone
    with pytest.raises(DataError, match="d.csv: labels are 1 or unknown, but never 0.* an empty cell or -1 means"):
        load_multilabel(csv(tmp_path / "d.csv", ["text", *NAMES], marked))
    some = [(row[0], row[2], row[3], row[4] or -1) for row in ROWS]
    notes = load_multilabel(csv(tmp_path / "d.csv", ["text", *NAMES], some)).notes
    assert any(note.startswith("1 of 3 labels are 1 or unknown, but never 0: threat.") for note in notes)


def test_a_test_split_without_labels_is_to_be_left_out(tmp_path):
    csv(tmp_path / "train.csv", ["text", "labels"], [(row[0], "a") for row in ROWS])
    csv(tmp_path / "test.csv", ["text"], [(row[0],) for row in ROWS])
    with pytest.raises(DataError, match="test.csv has no column 'labels'.* leave this split out: seal-hf"):
        load_multilabel(str(tmp_path))


def test_a_label_that_only_the_test_split_has_is_noted(tmp_path):
    rows = [(row[0], *row[2:]) for row in ROWS]
    csv(tmp_path / "train.csv", ["text", "a", "b"], [row[:3] for row in rows])
    csv(tmp_path / "test.csv", ["text", "a", "b", "c"], [(f"new {row[0]}", *row[1:]) for row in rows])
    data = load_multilabel(str(tmp_path))
    assert data.label_names == ["a", "b"]
    assert "columns of the test split that the train split lacks are not read: c." in data.notes


@pytest.mark.parametrize("first", [0, 1])
def test_ids_that_seem_to_count_from_1_are_noted(tmp_path, first):
    (tmp_path / "classes.txt").write_text("billing\nlogin\nrefund\n", encoding="utf-8")
    path = csv(tmp_path / "d.csv", ["text", "labels"], [(row[0], f"{first}|2" if row[2] else "2") for row in ROWS])
    notes = load_multilabel(path).notes
    said = "no row has the id 0, 'billing'. Ids count from 0: do those of the data count from 1?"
    assert (said in notes) == (first == 1)


def test_a_column_that_names_splits_is_noted(tmp_path):
    rows = [(row[0], "a", "test" if i % 4 == 0 else "train") for i, row in enumerate(ROWS)]
    notes = load_multilabel(csv(tmp_path / "d.csv", ["text", "labels", "part"], rows)).notes
    assert any(note.startswith("the column 'part' names splits, but is not read") for note in notes)


def test_a_label_of_every_row_is_noted(tmp_path):
    header = ["text", "a", "b", "c"]
    notes = load_multilabel(csv(tmp_path / "d.csv", header, [(f"t{i}", 1, i % 2, 1) for i in range(40)])).notes
    said = "2 of 3 labels are in every row (kept, with nothing to learn, but an F1 of 1 in macro averages): a, c."
    assert said in notes
    notes = load_multilabel(csv(tmp_path / "d.csv", header, [(f"t{i}", 1, i % 2, i and 1) for i in range(40)])).notes
    assert said.replace("2 of", "1 of").replace("a, c", "a") in notes


def test_a_split_without_any_label_is_noted(tmp_path):
    for split in ("train", "test"):
        rows = [(split + row[0], "a" if row[2] and split == "train" else "") for row in ROWS]
        csv(tmp_path / f"{split}.csv", ["text", "labels"], rows)
    notes = load_multilabel(str(tmp_path)).notes
    assert "no row of test has a label: figures on it mean nothing." in notes
    assert not any("separate" in note for note in notes_of(tmp_path, ["a|b", '"a;b"', '"a,c"', "b"] * 5))


@pytest.mark.parametrize("cell, same", [("a|b", "a, b"), ("a", "a")])
def test_a_run_on_rows_with_the_same_labels_is_refused(tmp_path, cell, same):
    file = csv(tmp_path / "data.csv", ["text", "labels"], [(f"text {i}", cell) for i in range(20)])
    flags = ["--output_dir", str(tmp_path / "run"), "--model_name_or_path", "none", "--report_to", "none"]
    with pytest.raises(DataError, match=f"data: all 20 rows have the same labels .{same}., so there is nothing to"):
        mlc.main(["--dataset", file, *flags])


def test_rows_with_one_label_each_are_noted(tmp_path):
    note = "each row has one label. Labels are trained as sets, so none excludes another."
    assert note in notes_of(tmp_path, ["joy", "grief"] * 10)
    for cells in (["joy", "grief", "joy|grief"], ["joy", "grief", ""], ["joy"]):
        assert note not in notes_of(tmp_path, cells * 12)


def test_a_file_with_a_row_for_each_label_is_noted(tmp_path):
    rows = [(f"a text {i}", name) for i in range(20) for name in ("joy", "fear")[: 1 + i % 2]]
    notes = load_multilabel(csv(tmp_path / "d.csv", ["text", "label"], rows)).notes
    (note,) = (note for note in notes if "repeat the input" in note)
    assert note.startswith("10 rows repeat") and " 10 of these inputs have several label sets: if the file has" in note


def test_fields_inside_objects_are_named(tmp_path):
    rows = [{"data": {"text": f"t{i}"}, "meta": {"labels": ["joy"]}} for i in range(12)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [{"text": f"t{i}", "meta": row["meta"]} for i, row in enumerate(rows)]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"Fields inside objects .data.text, meta.labels. are not read: write them as"):
        load_multilabel(str(tmp_path / "d.jsonl"))
    with pytest.raises(DataError, match="e.jsonl, line 1: .* is an object with a field 'labels'.* of the row"):
        load_multilabel(str(tmp_path / "e.jsonl"), label_column="meta")


def test_rows_that_occur_twice_are_counted(tmp_path):
    for name, texts in {"train": "aabcd", "dev": "xxa", "test": "abz"}.items():
        csv(tmp_path / f"{name}.csv", ["text", "labels"], [(text, "p|q") for text in texts])
    notes = load_multilabel(str(tmp_path)).notes
    assert "2 rows repeat the input of another row of their split (kept): 1 in train, 1 in validation." in notes
    assert (
        "rows occur in two splits (kept): 1 of validation in train, 2 of test in train, 1 of test in validation. "
        "Figures on them are too good." in notes
    )


@pytest.mark.parametrize("files", [("d",), ("train", "test")])
def test_copies_of_an_input_stay_in_one_part_of_a_split_made_here(tmp_path, files):
    def parts(texts):
        for name in files:
            rows = [(text, i % 2, i // 2 % 2) for i, text in enumerate(texts if name != "test" else ["z"])]
            path = csv(tmp_path / f"{name}.csv", ["text", "a", "b"], rows)
        data = load_multilabel(str(tmp_path) if len(files) > 1 else path)
        return [data.train["text"][:], data.validation["text"][:], data.test["text"][:]], " ".join(data.notes)

    texts = [f"t{i // 2 if i < 60 else i}" for i in range(100)]  # 30 twice, 40 once
    found, notes = parts(texts)
    assert not set(found[0]) & set(found[1]) and not set(found[0]) & set(found[2])
    assert sorted(sum(found, [])) == sorted(texts + ["z"] * (len(files) - 1)) and "two splits" not in notes
    assert found == parts(texts)[0]
    found, notes = parts(["none"] * 20 + texts[20:] + [""] * 20)  # a fifth of the rows: would fill a part
    assert "none" in found[0] and "none" in found[1] and "two splits" in notes


# ARFF

XML = '<labels><label name="L"></label></labels>'


def test_attributes_of_one_name_are_numbered(tmp_path):
    names = ["x", "'a b'", "x", "x_2", "'a b'", "x", "L"]
    header = "".join(f"@attribute {name} {'{0,1}' if name == 'L' else 'numeric'}\n" for name in names)
    rows = "".join(f"{i},{i + 1},{i + 2},{i + 3},{i + 4},{i + 5},{i % 2}\n" for i in range(20))
    (tmp_path / "m.arff").write_text(f"@relation r\n{header}@data\n{rows}")
    (tmp_path / "m.xml").write_text(XML)
    data = load_multilabel(str(tmp_path))
    assert data.feature_names == ["x", "a b", "x_3", "x_2", "a b_2", "x_4"]
    assert "2 attribute names repeat; all but the first are numbered: a b, x." in data.notes
    assert all([value - row["features"][0] for value in row["features"]] == [0, 1, 2, 3, 4, 5] for row in data.train)
    (tmp_path / "m.arff").write_text(f"@relation r\n{header.replace('x_2', 'L')}@data\n{rows}")
    with pytest.raises(DataError, match="label 'L' of m.arff names several attributes. Rename the others"):
        load_multilabel(str(tmp_path))


@pytest.mark.parametrize(("mark", "names", "said"), [("é", 3, True), ("|", 2, False), ("none", 3, False)])
def test_a_separator_that_is_in_no_cell_is_said(mark, names, said, tmp_path):
    rows = [(f"text {i}", ("x|y", "y", "x")[i % 3]) for i in range(30)]
    data = load_multilabel(csv(tmp_path / "a.csv", ["text", "labels"], rows), seed=0, label_separator=mark)
    assert len(data.label_names) == names
    assert any("the label_separator, is in no cell: each cell is one label" in note for note in data.notes) == said
