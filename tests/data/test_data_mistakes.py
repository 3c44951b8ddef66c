"""Mistakes in data that were once read as something else. Each message names the place, and says what to do."""

import json
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from datasets import ClassLabel, Dataset, Sequence, Value
from pyarrow import parquet

from seal_hf import load_masks, load_multilabel, load_tags, load_trees
from seal_hf.data.common import DataError
from seal_hf.data.hygiene import name_notes
from seal_hf.data.label_cells import label_cell
from seal_hf.data.sentences import Needs
from seal_hf.data.tag_files import SentenceFile
from seal_hf.tasks.rewards.mask_rules import MaskRuleReward
from seal_hf.tasks.rewards.rules import read_rules

ROWS = "".join(f"text {i},{'joy' if i % 2 else 'fear'}\n" for i in range(20))


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "text,labels\n" + ROWS + "text,labels\n" + ROWS, "a.csv, line 22: the header again. Remove it"),
        ("a.csv", "# by hand\ntext,labels\na,joy\n", "line 2: 2 values, expected 1 .* Line 1 is no header: remove it"),
        ("a.csv", "sep=;\ntext;labels\na;joy\n", "its first line, 'sep=;', is no header. Remove it"),
        ("a.tsv", 'text\tlabels\n"a\nb"\tjoy\n', "line 2: 1 values, .* within quotes is read in a .csv, not in a .tsv"),
        (
            "a.csv",
            "text,labels\na,[0 0 ... 0 1]\nb,[0]\n",
            "begins like a list but is not one. NumPy left out the middle",
        ),
        ("a.csv", "text,labels\na,\"{'joy': 0.7, 'fear': 0}\"\n", "is a mapping with 0.7 for 'joy'; expected 0 or 1"),
        ("a.jsonl", "{}\n" + json.dumps({"text": "a", "labels": ["joy"]}), "line 1: not a JSON object: not an object"),
        ("a.jsonl", '{"text": "a", "labels": ["x"], "labels": ["y"]}', "a field occurs twice among text, labels, lab"),
    ],
)
def test_a_table_is_refused_with_its_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        load_multilabel(str(tmp_path / name))


def test_blanks_in_a_header_belong_to_no_name(tmp_path):
    (tmp_path / "a.csv").write_text("text, cat, dog\n" + "".join(f"t{i},{i % 2},{(i + 1) % 2}\n" for i in range(20)))
    assert load_multilabel(str(tmp_path / "a.csv")).label_names == ["cat", "dog"]


def test_numbers_of_versions_are_names_if_it_is_said(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,labels\n" + "".join(f"text {i},{('1.1', '3.10')[i % 2]}\n" for i in range(20)))
    with pytest.raises(DataError, match="found '1.1'. Correct it. If numbers are names, give label_format=.names."):
        load_multilabel(str(path))
    assert load_multilabel(str(path), label_format="names").label_names == ["1.1", "3.10"]


def test_numbers_that_pandas_wrote_as_floats_are_ids_and_codes_are_names(tmp_path):
    for labels, expected in (
        (("1.0", "0.0"), ["0", "1"]),
        (("01", "02"), ["01", "02"]),
        (("2.0", "0.0"), ["0", "1", "2"]),
    ):
        rows = "".join(f"t{i},{labels[i % 2]}\n" for i in range(20))
        (tmp_path / "a.csv").write_text("text,labels\n" + rows)
        data = load_multilabel(str(tmp_path / "a.csv"))
        assert data.label_names == expected
        assert (np.asarray(data.train["labels"]).sum(1) == 1).all()
        unused = "1 of 3 labels occur in no row: numbers are ids, counted from 0"
        assert any(unused in note for note in data.notes) == (len(expected) == 3)
    (tmp_path / "a.csv").write_text("text,labels\n" + "t,1|0|0\nt,0|1|0\n" * 10)  # positions, and no ids
    assert not any("occur in no row" in note for note in load_multilabel(str(tmp_path / "a.csv")).notes)


def test_classes_of_two_splits_have_one_order():
    tables = {}
    for split, names in (("train", ["neg", "pos"]), ("test", ["pos", "neg"])):
        table = Dataset.from_dict({"text": ["a", "b"] * 10, "label": [0, 1] * 10})
        tables[split] = table.cast_column("label", ClassLabel(names=names))
    with pytest.raises(DataError, match="test split: the classes of 'label' are pos, neg, but .* are neg, pos. Cast"):
        load_multilabel(tables)


def test_a_class_that_no_tag_has_is_refused_in_evaluation(tmp_path):
    feature = {"tokens": Sequence(Value("string")), "ner_tags": Sequence(ClassLabel(names=["O", "B-x", "I-x"]))}
    for wrong, said in ((-1, "the tag of 'b' is -1"), (7, "`ner_tags` holds 7; its classes are 0 to 2")):
        table = Dataset.from_dict({"tokens": [["a", "b"]], "ner_tags": [[0, 1]]}).cast_column(
            "ner_tags", feature["ner_tags"]
        )
        table = table.data.table.set_column(1, table.data.table.field(1), pa.array([[0, wrong]]))
        parquet.write_table(table, tmp_path / "a.parquet")
        with pytest.raises(DataError, match=f"row 0 .*{said}"):
            list(SentenceFile(tmp_path / "a.parquet", Needs(tags=["O", "B-x", "I-x"])))


def test_a_folder_holds_one_kind_of_tables(tmp_path):
    folder = write(tmp_path / "both", train_csv="text,labels\n" + ROWS)
    parquet.write_table(pa.table({"text": ["a"], "labels": [["joy"]]}), tmp_path / "both" / "extra.parquet")
    for load in (load_multilabel, load_tags):
        with pytest.raises(DataError, match="holds .parquet files and others: train.csv. Keep one kind"):
            load(folder)
    folder = write(tmp_path / "more", train_csv="text,labels\n" + ROWS, train2_csv="text,labels\n" + ROWS)
    assert "train2.csv is not read: its name is not that of a split." in load_multilabel(folder).notes


def test_rows_without_labels_are_the_train_split_of_a_folder(tmp_path):
    table = "text,labels\n" + ROWS
    folder = write(
        tmp_path / "mine",
        train_csv=table,
        dev_csv=table.replace("text ", "dev "),
        test_csv=table.replace("text ", "test "),
    )
    data = load_multilabel(folder, unlabelled=folder)
    assert set(data.unlabelled["text"]) == {f"text {i}" for i in range(20)}
    assert any("the rows of train.csv, its train split" in note for note in data.notes)


def test_names_of_nothing_are_refused(tmp_path):
    for load in (load_multilabel, load_tags, load_masks, load_trees):
        with pytest.raises(DataError, match="The name of the data set is empty. Give a path"):
            load("")
    (tmp_path / "a.csv").write_text("text,labels\n" + ROWS)
    with pytest.raises(DataError, match="'labels' would be both the input and the labels"):
        load_multilabel(str(tmp_path / "a.csv"), text_column="labels")
    (tmp_path / "one.csv").write_text("Good film.\nBad film.\n")
    with pytest.raises(DataError, match="its only column is called 'Good film.', which looks like a text"):
        load_multilabel(str(tmp_path / "a.csv"), unlabelled=str(tmp_path / "one.csv"))


def test_trees_are_split_by_their_folders(tmp_path):
    for folder, numbers in (("train", range(8)), ("dev", range(8, 10)), ("test", range(10, 12))):
        (tmp_path / "bank" / folder).mkdir(parents=True)
        for i in numbers:
            (tmp_path / "bank" / folder / f"{i:04}.mrg").write_text("(S (NP (N dog)) (VP (V barks)))\n" * 2)
    data = load_trees(str(tmp_path / "bank"))
    assert (len(data.train), len(data.validation), len(data.test)) == (16, 4, 4)
    with zipfile.ZipFile(tmp_path / "bank.zip", "w") as archive:
        for i in range(10):  # the folder of all says nothing
            archive.writestr(f"test_bank/{i}.mrg", "(S (NP (N dog)) (VP (V barks)))\n")
        archive.writestr("__MACOSX/._0.mrg", "\0\1")
        archive.writestr("11.mrg/", "")
    assert len(load_trees(str(tmp_path / "bank.zip")).train) == 8


def test_pixels_that_do_not_count_stay_so(tmp_path):
    masks = np.zeros((20, 4, 4), np.uint8)
    masks[:, :2] = 1
    np.savez(tmp_path / "a.npz", images=np.zeros((20, 4, 4, 3), np.uint8), masks=masks)
    data = load_masks(str(tmp_path / "a.npz"), reduce_labels=True)
    assert set(np.unique(data.train.masks)) == {0, 255}
    np.savez(tmp_path / "a.npz", images=np.zeros((20, 4, 4, 3), np.uint8), masks=masks.astype(str))
    with pytest.raises(DataError, match="the mask holds values of type <U3; expected class ids"):
        load_masks(str(tmp_path / "a.npz"))


def test_a_column_that_cannot_be_read_is_named(tmp_path):
    odd = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    parquet.write_table(pa.table({"text": ["a"], "labels": [["joy"]], "odd": odd}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="a.parquet: the column 'odd' is not readable"):
        load_multilabel(str(tmp_path / "a.parquet"))


def test_names_that_look_alike_are_noted():
    (note,) = name_notes(["joy", "joy\u200b", "caf\u00e9", "cafe\u0301", "fear"], [1] * 5)
    assert note.startswith("2 labels have several spellings")


def test_texts_with_blanks_and_quotes_are_no_arrays_without_commas():
    for labels in (["a", "b c"], ["it's", "so"], ['say "a"', "b"]):
        assert label_cell(repr(labels), "") == labels == label_cell(json.dumps(labels), "")


def test_rules_are_named_by_what_they_may_be(tmp_path):
    for rule, message in (
        ("{excludes: [warm, warm]}", "`excludes` names 'warm' twice. Remove one"),
        ("{keywords: red, for: yes}", "`for` is True; .* YAML reads yes, no, on and off as true or false: quote them"),
        ("{atleast: 1}", "Did you mean 'at_least'"),
        ("{area: 0.3, of: [background, foreground]}", "`of` names 2 classes; expected one. Write a rule for each"),
    ):
        (tmp_path / "a.yaml").write_text(f"rules:\n- {rule}\n")
        with pytest.raises(ValueError, match=f"line 2: .*{message}"):
            MaskRuleReward(read_rules(tmp_path / "a.yaml"))


def test_tags_in_another_spelling_are_read_and_in_two_spellings_refused(tmp_path):
    for prefix in ("b-", "B_", "B–"):
        (tmp_path / "a.conll").write_text(f"a {prefix}x\nb O\n\n" * 20, encoding="utf-8")
        assert load_tags(str(tmp_path / "a.conll")).label_names == ["O", "B-x"]
        (tmp_path / "a.conll").write_text(f"a {prefix}x\nb B:y\nc O\n\n" * 20, encoding="utf-8")
        with pytest.raises(DataError, match="tags look like B-X and I-X, but are written otherwise"):
            load_tags(str(tmp_path / "a.conll"))
        assert load_tags(str(tmp_path / "a.conll"), scheme="plain").scheme == "plain"


def test_a_table_of_tags_is_refused_with_its_line(tmp_path):
    row = json.dumps({"words": ["a"], "tags": ["O"]}) + "\n"
    (tmp_path / "train.jsonl").write_text(row * 20)
    for text, message in (
        (row * 3 + "{\n", "dev.jsonl, line 4: not a JSON object"),
        (row * 3 + row.replace("a", "\xe9"), "dev.jsonl: not UTF-8 text"),
    ):
        (tmp_path / "dev.jsonl").write_bytes(text.encode("latin-1"))
        with pytest.raises(DataError, match=message):
            load_tags(str(tmp_path))
    (tmp_path / "dev.jsonl").write_text(row.replace('"a"', '" "'))
    with pytest.raises(DataError, match="dev.jsonl, line 1: the word is ' ', with the tag 'O'; expected text"):
        load_tags(str(tmp_path))


def test_numbers_of_tags_are_ids_from_0(tmp_path):
    rows = {"tokens": [["a", "b"]] * 20, "ner_tags": [[1, 0]] * 20}
    (note,) = (note for note in load_tags(Dataset.from_dict(rows)).notes if "numbers" in note)
    assert note.startswith("tags are numbers, each read by itself. If they are ids of B-X and I-X")
    rows["ner_tags"][3] = [1, -100]  # as tokenized rows have for sub-words
    with pytest.raises(DataError, match="row 3 .*: the tag of 'b' is -100; expected a name, or an id .* whole words"):
        load_tags(Dataset.from_dict(rows))


def test_a_name_without_an_image_is_named_among_names_of_images(tmp_path):
    from PIL import Image

    for i in range(12):
        Image.fromarray(np.full((4, 4, 3), i, np.uint8)).save(tmp_path / f"p{i}.png")
    rows = [f"p{i}.png,{'joy' if i % 2 else 'fear'}" for i in range(12)]
    (tmp_path / "a.csv").write_text("file,labels\n" + "\n".join(["p0,joy", *rows]) + "\n")
    with pytest.raises(DataError, match="a.csv, line 2: no image file 'p0' in"):
        load_multilabel(str(tmp_path / "a.csv"))


def test_sets_of_python_and_numbers_of_pandas_are_read(tmp_path):
    array = "array(['a', 'b'], dtype=object)"
    sets = (("set()", []), ("frozenset({'a', 'b'})", {"a", "b"}), ("frozenset()", []), ("{'a'}", ["a"]))
    for text, found in (*sets, (array, ["a", "b"]), ("main()", ["main()"]), ("f(x)", ["f(x)"])):
        assert label_cell(text, "here") == found or set(label_cell(text, "here")) == found
    (tmp_path / "train.csv").write_text("text,labels\n" + "".join(f"t{i},{2019 + i % 2}.0\n" for i in range(20)))
    (tmp_path / "test.csv").write_text("text,labels\nt20,2019\nt21,2020\n")
    data = load_multilabel(str(tmp_path), label_format="names")
    assert data.label_names == ["2019", "2020"] and data.test["labels"][:] == [[1, 0], [0, 1]]
