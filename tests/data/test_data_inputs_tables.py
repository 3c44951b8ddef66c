"""Inputs and outputs of predictions, a part at a time. Oracles: what was written, by the standard library and pyarrow;
the data sets that the loaders of training give; label cells read back."""

import csv
import json

import datasets
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from seal_hf.data import DataError, load_multilabel
from seal_hf.data.arff import ArffReader, find_arff
from seal_hf.data.label_cells import cell_writer, label_cell
from seal_hf.data.label_matrix import gold_labels
from seal_hf.data.label_rows import FeatureTable, TextReader, text_column_of
from seal_hf.data.table_sources import open_table
from seal_hf.data.writers import table_writer

TEXTS = [
    "plain",
    "",
    " ",
    "a, comma; and | more",
    'a "quote"',
    '"all quoted"',
    '""',
    "two\nlines",
    "carriage\rreturn",
    "windows\r\nline",
    "tab\there",
    "żółw 🐢 \u2028 \x85 \u00a0",
    "#comment",
    "=1+1",
    "\\n",
    "NA",
    "2024-01-01",
    "[1, 2]",
]
OF_LINES = [text for text in TEXTS if not set(text) & set("\t\n\r")]  # what a tsv can hold
SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")


def texts_for(suffix):
    return OF_LINES if suffix == ".tsv" else TEXTS


def write_plainly(path, rows):
    """By other code than ours."""
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=5)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows(
                [list(rows[0]), *(row.values() for row in rows)]
            )
    return path


def read(path, **options):
    return [row for _, row in open_table(str(path), **options)]


def texts_of(reader, size=4):
    return [text for chunk in reader.chunks(size) for text in chunk.inputs]


# Reading


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_are_what_stands_in_the_file(tmp_path, suffix):
    rows = [{"id": f"k{i}", "text": text, "n": str(i)} for i, text in enumerate(texts_for(suffix))]
    table = open_table(str(write_plainly(tmp_path / f"new{suffix}", rows)))
    assert table.columns == ["id", "text", "n"] and table.total == len(rows)
    assert [row for _, row in table] == rows == [row for _, row in table]  # as often as asked for
    chunks = list(TextReader(table, "text").chunks(5))
    assert [len(chunk.rows) for chunk in chunks] == [5] * (len(rows) // 5) + [len(rows) % 5]
    assert [row for chunk in chunks for row in chunk.rows] == rows
    assert [text for chunk in chunks for text in chunk.inputs] == [row["text"] for row in rows]
    assert all(chunk.gold is None for chunk in chunks)


@pytest.mark.parametrize(
    ("name", "good", "bad", "words"),
    [
        ("new.csv", "text,n\n" + "a,1\n" * 999, "b\n", ["new.csv, line 1001", "1 values, expected 2"]),
        ("new.tsv", "text\tn\n" + "a\t1\n" * 999, "b\n", ["new.tsv, line 1001", "1 values, expected 2"]),
        ("new.jsonl", '{"text": "a"}\n' * 1000, "{", ["new.jsonl, line 1001", "not a JSON object"]),
        ("new.csv", "text,n\n" + "a,1\n" * 999, '"b', ["new.csv, line 1001", "quote is open"]),
    ],
)
def test_a_damaged_row_is_named_when_it_is_reached_and_where_rows_are_counted(tmp_path, name, good, bad, words):
    (tmp_path / name).write_text(good + bad)
    reader = TextReader(open_table(str(tmp_path / name)), "text")
    chunks = reader.chunks(100)
    assert next(chunks).inputs == ["a"] * 100
    with pytest.raises(DataError) as reached:
        list(chunks)
    with pytest.raises(DataError) as counted:
        _ = reader.total
    assert all(word in str(reached.value) for word in words) and str(reached.value) == str(counted.value)


def test_a_damaged_group_of_rows_of_parquet_is_named_when_it_is_reached(tmp_path):
    path = tmp_path / "new.parquet"
    table = pa.table({"text": [f"a rather long text, number {i * 7919}" for i in range(4000)]})
    parquet.write_table(table, path, row_group_size=2000, use_dictionary=False)
    place = parquet.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[place : place + 40] = b"\xff" * 40
    path.write_bytes(content)
    chunks = TextReader(open_table(str(path)), "text").chunks(1000)
    assert next(chunks).inputs == table["text"].to_pylist()[:1000]
    with pytest.raises(DataError, match="new.parquet: not readable as parquet"):
        list(chunks)


def test_no_more_of_a_file_is_read_than_was_asked_for(tmp_path, monkeypatch):
    read_lines = []
    (tmp_path / "new.jsonl").write_text('{"text": "a"}\n' * 10_000)
    loads = json.loads
    monkeypatch.setattr("json.loads", lambda text, **options: read_lines.append(text) or loads(text, **options))
    chunks = TextReader(open_table(str(tmp_path / "new.jsonl")), "text").chunks(10)
    assert len(next(chunks).rows) == 10 and len(read_lines) == 11  # the first line was read for its fields, too


def test_a_folder_gives_its_test_split_and_says_so(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.csv").write_text(f"text\n{split}\n")
    found = open_table(str(tmp_path))
    assert read(tmp_path) == [{"text": "test"}] and "the rows of test.csv, its test split" in found.note
    assert read(tmp_path, split="validation") == read(tmp_path, split="dev") == [{"text": "dev"}]
    (tmp_path / "test.csv").unlink()
    with pytest.raises(DataError, match="has no test split; it has train, validation. Name one by `split` .--split"):
        open_table(str(tmp_path))
    (tmp_path / "dev.csv").unlink()
    assert read(tmp_path) == [{"text": "train"}]
    (tmp_path / "train.csv").rename(tmp_path / "mine.csv")
    with pytest.raises(DataError, match="contains no file named after a split, such as test. Give a file"):
        open_table(str(tmp_path))


def test_a_folder_of_parquet_in_several_parts_gives_its_test_split(tmp_path):
    for name in ("train-00000-of-00001", "test-00000-of-00002", "test-00001-of-00002"):
        write_plainly(tmp_path / f"{name}.parquet", [{"text": name}])
    assert read(tmp_path) == [{"text": f"test-0000{i}-of-00002"} for i in range(2)]


def test_a_folder_of_save_to_disk_gives_the_rows_that_were_saved(tmp_path):
    rows = {"text": ["a", "b", "c"], "labels": [["x"], [], ["x", "y"]]}
    one = datasets.Dataset.from_dict(rows)
    one.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=one, test=one.select([2])).save_to_disk(tmp_path / "split")
    table = open_table(str(tmp_path / "one"))
    assert [row for _, row in table] == one.to_list() and (table.total, table.note) == (3, "")
    table = open_table(str(tmp_path / "split"))
    assert [row for _, row in table] == one.to_list()[2:] and "its test split" in table.note
    assert open_table(str(tmp_path / "split"), "train").total == 3
    with pytest.raises(DataError, match="no validation split; it has train, test"):
        open_table(str(tmp_path / "split"), "validation")


def test_a_tsv_without_header_beside_a_list_of_labels(tmp_path):
    (tmp_path / "labels.txt").write_text("joy\nfear\n")
    (tmp_path / "test.tsv").write_text("hello\t0,1\tk1\n")
    table = open_table(str(tmp_path))
    assert [row for _, row in table] == [{"text": "hello", "labels": "0,1", "id": "k1"}]
    assert table.label_names("labels") == ["joy", "fear"]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("no.csv", {}, ["no.csv: no such file or folder, and not a Hub id"]),
        ("./a/b", {}, ["./a/b: no such file"]),
        ("new.xlsx", {}, ["'.xlsx'", ".csv, .tsv, .jsonl, .json, .svm"]),
        ("new.csv", {"split": "test"}, ["`split` is 'test'", "is one file"]),
        ("new.parquet", {}, ["new.parquet: not readable as parquet"]),
        ("empty.csv", {}, ["empty.csv is empty"]),
    ],
)
def test_what_is_no_table_is_one_clear_line(tmp_path, monkeypatch, name, options, words):
    monkeypatch.chdir(tmp_path)
    for file in ("new.xlsx", "new.csv", "new.parquet"):
        (tmp_path / file).write_text("text\na\n")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError) as error:
        open_table(name, **options)
    assert all(word in str(error.value) for word in words), str(error.value)


# The column of the texts


def column_of(tmp_path, header, *rows, asked=None, trained=None):
    with open(tmp_path / "new.csv", "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return text_column_of(open_table(str(tmp_path / "new.csv")), asked, trained, "labels")


def test_the_column_of_the_texts_is_named_or_told(tmp_path):
    row = ["17", "a title", "a body", "joy"]
    both = ["id", "title", "body", "labels"]
    assert column_of(tmp_path, both, row, asked="body") == "body"
    assert column_of(tmp_path, both, row, trained="title") == "title"
    assert column_of(tmp_path, both, row, asked="body", trained="title") == "body"
    assert column_of(tmp_path, ["text", *both[1:]], ["t", *row[1:]], trained="gone") == "text"
    assert column_of(tmp_path, ["id", "sentence", "labels"], ["17", "t", "joy"]) == "sentence"  # labels are no text
    assert column_of(tmp_path, ["id", "sentence"], ["17", ""], ["18", "1999"], ["19", "in 1999"]) == "sentence"


@pytest.mark.parametrize(
    ("header", "row", "asked", "words"),
    [
        (["id", "sentence"], ["17", "t"], "sentences", ["no column 'sentences'", "Did you mean 'sentence'", "--text_"]),
        (["title", "body"], ["t", "u"], None, ["2 columns of text: title, body", "--text_column"]),
        (["id"], ["17"], None, ["no column of text among id", "--text_column"]),
        (["id", "sentence"], ["17", "t"], "id", ["the column 'id' holds numbers (17, ...)", "no texts"]),
        (["text"], ["1.5"], None, ["the column 'text' holds numbers (1.5, ...)", "--text_column"]),
    ],
)
def test_a_column_that_holds_no_texts_is_one_clear_line(tmp_path, header, row, asked, words):
    with pytest.raises(DataError) as error:
        column_of(tmp_path, header, row, asked=asked)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_a_file_without_a_header_is_named(tmp_path):
    header, others = ["charge_login asks twice", "login|billing"], [["one", "login"], ["two", "login|billing"]]
    with pytest.raises(DataError, match="first row .charge_login asks .* looks like data.* Put a header above it"):
        column_of(tmp_path, header, *others, trained="text")
    with pytest.raises(DataError, match="has 2 columns of text: .* If its first row is data, put a header above it"):
        column_of(tmp_path, header, others[0])
    assert column_of(tmp_path, header, *others, asked=header[0]) == header[0]


def test_files_of_splits_are_known_in_upper_case(tmp_path):
    for name in ("Train.csv", "TEST.CSV"):
        (tmp_path / name).write_text(f"text\n{name}\n")
    assert next(TextReader(open_table(str(tmp_path)), "text").chunks(3)).inputs == ["TEST.CSV"]
    assert next(TextReader(open_table(str(tmp_path), "train"), "text").chunks(3)).inputs == ["Train.csv"]


def test_texts_that_are_no_strings_are_named_by_line(tmp_path):
    path = write_plainly(tmp_path / "new.jsonl", [{"text": "a"}, {"text": None}, {"text": 7}, {"text": ["b"]}])
    reader = TextReader(open_table(str(path)), "text")
    assert next(reader.chunks(3)).inputs == ["a", "", "7"]
    with pytest.raises(DataError, match="line 4: the text is .*a list; expected a string"):
        texts_of(reader)


# Gold labels


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,n\na,1\n,2\n" ",3\nb,4\n'),
        ("a.jsonl", '{"text": "a"}\n{"text": null}\n{"text": ""}\n{"text": "b"}\n'),
    ],
)
def test_empty_texts_are_counted(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    reader = TextReader(open_table(str(tmp_path / name)), "text")
    for _ in range(2):  # an evaluation reads the rows twice
        assert [text.strip() for chunk in reader.chunks(3) for text in chunk.inputs] == ["a", "", "", "b"]
    assert reader.notes == ["2 of 4 texts are empty (kept)."]


def test_label_cells_are_those_of_the_loaders(tmp_path):
    path = write_plainly(tmp_path / "new.jsonl", [{"text": "a", "y": cell} for cell in (["joy"], "joy|fear", None)])
    (chunk,) = TextReader(open_table(str(path)), "text", "y").chunks(5)
    assert chunk.gold == [["joy"], ["joy", "fear"], []]


def test_ids_of_a_list_become_the_labels_of_the_model():
    cells, names = [[0, 2], [], [2]], ["fear", "anger", "joy"]
    for label_format in ("auto", "ids"):
        gold = gold_labels(cells, ["joy", "calm", "fear"], names, label_format, "new.csv")
        assert gold.tolist() == [[1, 0, 1], [0, 0, 0], [1, 0, 0]]
    assert gold_labels([[1, 0, 1], [0, 0, 0]], ["joy", "calm", "fear"], names, "auto", "").tolist()[0] == [1, 0, 1]
    assert gold_labels([["joy"], []], ["joy", "calm"], None, "auto", "").tolist() == [[1, 0], [0, 0]]
    assert gold_labels([["joy"], []], ["joy", "calm"], names, "auto", "").tolist() == [[1, 0], [0, 0]]
    with pytest.raises(DataError, match=r"does not know 1 of the labels \('anger'\); it knows 2: 'joy', 'fear'"):
        gold_labels([[1]], ["joy", "fear"], names, "ids", "new.csv")


def test_ids_of_a_parquet_file_have_the_names_that_its_types_say(tmp_path):
    labels = datasets.Sequence(datasets.ClassLabel(names=["fear", "joy"]))
    features = datasets.Features({"text": datasets.Value("string"), "labels": labels})
    table = datasets.Dataset.from_dict({"text": ["a", "b"], "labels": [[1], [0, 1]]}, features=features)
    table.to_parquet(str(tmp_path / "new.parquet"))
    reader = TextReader(open_table(str(tmp_path / "new.parquet")), "text", "labels")
    (chunk,) = reader.chunks(9)
    assert chunk.gold == [[1], [0, 1]] and reader.label_names == ["fear", "joy"]


def test_labels_that_the_model_does_not_know_are_named_with_those_it_knows():
    cells = [["joy", "jpy"], ["a1"], ["a2"], ["a3"], ["a4"], ["a5"]]
    with pytest.raises(DataError) as error:
        gold_labels(cells, ["joy", "fear"], None, "auto", "new.csv")
    words = ["not know 6 of the labels", "('jpy', 'a1', 'a2', 'a3', 'a4', ...)", "it knows 2: 'joy', 'fear'."]
    assert all(word in str(error.value) for word in [*words, "Did you mean 'joy'?"]), str(error.value)
    with pytest.raises(DataError, match="label 2 is not an id in the range 0..1 of 2 labels"):
        gold_labels([[2]], ["joy", "fear"], None, "ids", "new.csv")


@pytest.mark.parametrize(
    ("names", "joined"),
    [
        (["joy", "fear", "very calm", "C++", "żółw"], True),
        (["joy", "a|b"], False),
        (["joy", "a, b"], False),
        (["joy", "a; b"], False),
        (["joy", "[x]"], False),
        (["joy", " blank "], False),
        (["joy", 'a "quote"'], True),
        (["joy", "two\nlines"], True),
        (["(other)", "{a}"], True),
        (["joy", "1 2"], False),
        (["joy", "('a', 'b')"], False),
    ],
)
def test_label_names_survive_in_a_cell(names, joined):
    write = cell_writer(names)
    assert ("|" in write(names[:2])) == joined or not joined
    kept = [name.strip() for name in names]  # a cell's blanks at the ends are no part of a name
    for chosen in (names, names[:1], names[1:], []):
        assert label_cell(write(chosen), "") == [kept[names.index(name)] for name in chosen]


# Writing


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read_back(tmp_path, suffix):
    path = tmp_path / "deep" / f"out{suffix}"
    rows = [{"text": text, "more": f"{text}x", "labels": "a"} for text in texts_for(suffix)]
    with table_writer(path) as writer:
        for start in range(0, len(rows), 5):
            writer.write(rows[start : start + 5])
        assert not path.exists()
    assert read(path) == rows and [file.name for file in path.parent.iterdir()] == [path.name]
    if suffix == ".csv":
        with open(path, encoding="utf-8", newline="") as file:
            assert list(csv.DictReader(file)) == rows


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_values_that_are_no_texts(tmp_path, suffix):
    row = {"n": 3, "p": 0.125, "yes": True, "nothing": None, "list": ["a", "b"], "map": {"ż": 1.5}}
    path = tmp_path / f"out{suffix}"
    with table_writer(path) as writer:
        writer.write([row])
    (found,) = read(path)
    if suffix in (".csv", ".tsv"):
        cells = {"n": "3", "p": "0.125", "yes": "true", "nothing": "", "list": '["a", "b"]', "map": '{"ż": 1.5}'}
        assert found == cells
    else:
        assert found == row


@pytest.mark.parametrize("text", ["tab\there", "two\nlines", "carriage\rreturn"])
def test_a_tsv_refuses_what_it_cannot_hold_and_leaves_nothing(tmp_path, text):
    with pytest.raises(DataError, match="in column 'text' does. Name an output of type .csv, .jsonl or .parquet"):
        with table_writer(tmp_path / "out.tsv") as writer:
            writer.write([{"text": "a", "labels": ""}] * 3)
            writer.write([{"text": text, "labels": ""}])
    assert list(tmp_path.iterdir()) == []


def test_parquet_keeps_types_that_are_known_and_names_a_column_that_changes(tmp_path):
    types = pa.schema([("n", pa.int8()), ("words", pa.list_(pa.string()))])
    with table_writer(tmp_path / "out.parquet", types) as writer:
        writer.write([{"n": None, "words": [], "new": None}])
        writer.write([{"n": 1, "words": ["a"], "new": "b"}])
    schema = parquet.read_schema(tmp_path / "out.parquet")
    assert [schema.field(name).type for name in ("n", "words", "new")] == [types[0].type, types[1].type, pa.string()]
    with pytest.raises(DataError, match="The column 'n' cannot be written as parquet: its first values are of"):
        with table_writer(tmp_path / "two.parquet") as writer:
            writer.write([{"n": 1}])
            writer.write([{"n": "one"}])
    with pytest.raises(DataError, match="The column 'n' cannot be written as parquet"):
        with table_writer(tmp_path / "two.parquet") as writer:
            writer.write([{"n": 1}, {"n": "one"}])
    assert [file.name for file in tmp_path.iterdir()] == ["out.parquet"]


def test_half_of_a_surrogate_pair_is_written_as_json_has_it(tmp_path):
    with table_writer(tmp_path / "out.jsonl") as writer:
        writer.write([{"note": "hi \ud83d"}])
    assert json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8")) == {"note": "hi \ud83d"}


# Features

ATTRIBUTES = ["x numeric", "joy {0,1}", "sun {YES,NO}", "weather {wet,dry,windy}", "fear {0,1}", "z real"]
DENSE = ["1.5,0,YES,wet,1,-2", "0,1,NO,dry,1,0", "-3e2,0,NO,windy,0,7", "4,1,YES,?,0,1"]


def write_arff(folder, attributes, rows, name="toy"):
    folder.mkdir(exist_ok=True)
    header = "".join(f"@attribute {attribute}\n" for attribute in attributes)
    (folder / f"{name}.arff").write_text(f"@relation {name}\n% a comment\n{header}@data\n" + "\n".join(rows) + "\n")
    return folder


def write_labels(folder, names, name="toy"):
    labels = "".join(f'<label name="{label}"></label>' for label in names)
    (folder / f"{name}.xml").write_text(f'<labels xmlns="http://mulan.sourceforge.net/labels">{labels}</labels>')


def read_arff(name, labels, size, gold=True, split=None):
    reader = ArffReader(find_arff(str(name), split), labels, size, gold)
    chunks = list(reader.chunks(3))
    assert reader.total == sum(len(chunk.rows) for chunk in chunks)
    cells = [cell for chunk in chunks for cell in chunk.gold] if gold else None
    if gold and reader.labels:  # a matrix
        cells = [[reader.labels[i] for i in np.flatnonzero(row)] for row in cells]
    return np.concatenate([chunk.inputs for chunk in chunks]), cells, [row for chunk in chunks for row in chunk.rows]


def as_loaded(folder, split, **options):
    """Features and label names as the loader of training has them."""
    data = load_multilabel(str(folder), **options)
    rows = getattr(data, split).with_format("numpy")[:]
    return rows["features"], [[data.label_names[i] for i in np.flatnonzero(row)] for row in rows["labels"]], data


@pytest.mark.parametrize("sparse", [False, True])
def test_arff_gives_the_features_and_labels_of_training(tmp_path, sparse):
    rows = DENSE * 5
    if sparse:
        rows = ["{" + ",".join(f"{i} {v}" for i, v in enumerate(row.split(",")) if v != "0") + "}" for row in rows]
    folder = write_arff(tmp_path / "toy", ATTRIBUTES, rows)
    write_labels(folder, ["fear", "joy"])
    (folder / "folds.json").write_text(json.dumps({"folds": [[i, i + 10] for i in range(10)]}))
    for split in ("train", "validation", "test"):
        features, labels, data = as_loaded(folder, split)
        found = read_arff(folder, data.label_names, data.num_features, split=split)
        order = np.lexsort(features.T), np.lexsort(found[0].T)  # folds are read in the order of the file
        np.testing.assert_array_equal(features[order[0]], found[0][order[1]])
        assert sorted(map(str, labels)) == sorted(map(str, found[1]))
    features, cells, written = read_arff(folder / "toy.arff", ["fear", "joy"], 6, gold=False)
    assert features.shape == (20, 6) and cells is None
    assert written[0] == {"x": 1.5, "joy": "0", "sun": "YES", "weather": "wet", "fear": "1", "z": -2.0}


def test_arff_without_labels_gives_the_same_features(tmp_path):
    folder = write_arff(tmp_path / "toy", ATTRIBUTES, DENSE)
    unlabelled = [(0, 2, 3, 5)[i] for i in range(4)]
    rows = [",".join(row.split(",")[i] for i in unlabelled) for row in DENSE]
    other = write_arff(tmp_path / "new", [ATTRIBUTES[i] for i in unlabelled], rows, "new")
    labelled = read_arff(folder / "toy.arff", ["fear", "joy"], 6)[0]
    np.testing.assert_array_equal(labelled, read_arff(other / "new.arff", ["fear", "joy"], 6, gold=False)[0])
    with pytest.raises(DataError, match="2 of the model's 2 labels, such as 'fear'"):
        read_arff(other / "new.arff", ["fear", "joy"], 6)


@pytest.mark.parametrize("kind", ["string", "{" + ",".join(f"p{i}" for i in range(30)) + "}"])
@pytest.mark.parametrize("keep_id", [False, True])
def test_an_attribute_that_identified_rows_in_training_is_told_by_the_number_of_features(tmp_path, kind, keep_id):
    rows = [f"p{i},{i / 2},{i % 2}" for i in range(30)]
    folder = write_arff(tmp_path / "toy", [f"name {kind}", "x numeric", "joy {0,1}"], rows)
    write_labels(folder, ["joy"])
    (folder / "folds.json").write_text(json.dumps({"folds": [[3 * i, 3 * i + 1, 3 * i + 2] for i in range(10)]}))
    if keep_id and kind == "string":
        with pytest.raises(DataError, match="is a string, but `keep_id`"):
            read_arff(folder, ["joy"], 2)
        return
    features, _, data = as_loaded(folder, "test", keep_id=keep_id)
    np.testing.assert_array_equal(features, read_arff(folder, ["joy"], data.num_features)[0])


CLUS = "@relation r\n@attribute x numeric\n@attribute c {a,b}\n@attribute class hierarchical 1,1/2,3\n@data\n"


@pytest.mark.parametrize("keep_root", [False, True])
def test_a_hierarchy_of_classes_and_means_of_train_for_what_is_missing(tmp_path, keep_root):
    (tmp_path / "d.train.arff").write_text(CLUS + "1,a,1\n?,b,1/2@3\n4,b,3\n")
    (tmp_path / "d.valid.arff").write_text(CLUS + "7,a,3\n")
    (tmp_path / "d.test.arff").write_text(CLUS + "?,b,1/2\n0.5,a,3@1\n")
    features, labels, data = as_loaded(tmp_path, "test", keep_root=keep_root)
    found, cells, rows = read_arff(tmp_path, data.label_names, data.num_features)
    np.testing.assert_array_equal(found, features)
    assert [set(cell) for cell in cells] == [set(row) for row in labels]
    assert rows[0] == {"x": None, "c": "b", "class": "1/2"}
    with pytest.raises(DataError, match="d.test.arff, line 6: 'x' is missing or infinite"):
        read_arff(tmp_path / "d.test.arff", data.label_names, data.num_features)


def test_arff_rows_stream(tmp_path):
    folder = write_arff(tmp_path / "toy", ATTRIBUTES, DENSE * 25 + ["1,0"])
    reader = ArffReader(find_arff(str(folder / "toy.arff"), None), ["fear", "joy"], 6)
    chunks = reader.chunks(10)
    assert next(chunks).inputs.shape == (10, 6)
    with pytest.raises(DataError, match="toy.arff, line 110: 2 values, expected 6"):
        list(chunks)
    with pytest.raises(DataError, match="line 110"):
        _ = reader.total


@pytest.mark.parametrize(
    ("labels", "size", "rows", "words"),
    [
        (["fear", "joy"], 5, DENSE, ["toy.arff has 6 features", "the model reads 5", "in their order"]),
        (["fear", "joy"], 6, [*DENSE, "?,0,YES,wet,1,0"], ["toy.arff, line 14: 'x' is missing or infinite"]),
        (["fear", "z"], 6, DENSE, ["toy.arff, line 10: the label column 'z' holds '-2.0'; expected 0 or 1"]),
        (["fear", "weather"], 4, DENSE, ["toy.arff, line 10: the label column 'weather' holds 'wet'; expected 0 or 1"]),
        (["fear", "calm"], 7, DENSE, ["1 of the model's 2 labels, such as 'calm'"]),
    ],
)
def test_other_features_or_labels_than_the_models_are_one_clear_line(tmp_path, labels, size, rows, words):
    folder = write_arff(tmp_path / "toy", ATTRIBUTES, rows)
    with pytest.raises(DataError) as error:
        read_arff(folder / "toy.arff", labels, size)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_folders_of_arff(tmp_path):
    one = write_arff(tmp_path / "toy", ATTRIBUTES, DENSE)
    assert "without fixed splits: all rows of toy.arff" in find_arff(str(one), None).note
    write_arff(tmp_path / "toy", ATTRIBUTES, DENSE[:1], "toy-train")
    write_arff(tmp_path / "toy", ATTRIBUTES, DENSE[:2], "toy-test")
    assert find_arff(str(one), None).path.name == "toy-test.arff"
    assert find_arff(str(one), "train").path.name == "toy-train.arff"
    with pytest.raises(DataError, match="has no validation split; it has train, test"):
        find_arff(str(one), "validation")
    with pytest.raises(DataError, match="no.arff: no such file"):
        find_arff(str(tmp_path / "no.arff"), None)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_features_of_a_table(tmp_path, suffix):
    x = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    values = [json.dumps(row) if suffix == ".csv" else row for row in x.astype(float).tolist()]
    path = write_plainly(tmp_path / f"new{suffix}", [{"id": str(i), "features": v} for i, v in enumerate(values)])
    chunks = list(FeatureTable(open_table(str(path)), 3).chunks(4))
    np.testing.assert_array_equal(np.concatenate([chunk.inputs for chunk in chunks]), x)
    with pytest.raises(DataError, match=r"'features' is .*; expected a list of 4 finite numbers"):
        list(FeatureTable(open_table(str(path)), 4).chunks(4))
    with pytest.raises(DataError, match="no column 'features', where this model reads 3 numbers"):
        FeatureTable(open_table(str(write_plainly(tmp_path / "other.csv", [{"text": "a"}]))), 3)


def test_versions_that_are_names_of_the_model_are_no_multi_hot_labels():
    assert gold_labels([["1.1"], ["3.10", "1.1"]], ["1.1", "3.10"], None, "auto", "x").tolist() == [[1, 0], [1, 1]]
    assert gold_labels([["1", "0"], ["0", "1"]], ["1", "0"], None, "multi_hot", "x").tolist() == [[1, 0], [0, 1]]


def test_numbers_that_are_names_of_the_model_are_no_ids():
    found = gold_labels([["1"], ["2", "3"]], ["1", "2", "3", "3+"], None, "auto", "new.csv")
    assert found.tolist() == [[1, 0, 0, 0], [0, 1, 1, 0]]
    assert gold_labels([[0, 1], [2]], ["0", "1", "2"], None, "auto", "").tolist() == [[1, 1, 0], [0, 0, 1]]
    assert gold_labels([[0, 2], [1]], ["joy", "calm", "fear"], None, "auto", "").tolist() == [[1, 0, 1], [0, 1, 0]]
