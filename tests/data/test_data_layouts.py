"""Every layout of `layouts.py` gives the rows that its file was written from, and what looks like one but is none is
refused with the way out."""

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path

import layouts
import numpy as np
import pytest

from seal_hf import load_masks, load_multilabel, load_srl, load_tags, load_trees
from seal_hf.data import DataError, kind_of
from seal_hf.data.image_files import pixels
from seal_hf.data.label_cells import LAYOUTS, PLAIN, layout_of
from seal_hf.data.label_matrix import gold_labels
from seal_hf.data.label_rows import FeatureTable, TextReader
from seal_hf.data.mask_values import MaskValues
from seal_hf.data.pictures import pictures_of
from seal_hf.data.sentences import Needs, split_words
from seal_hf.data.table_sources import open_table
from seal_hf.data.tag_files import SentenceFile


def written(folder, layout):
    for name, content in {layout.file: layout.content, **layout.beside}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return str(folder / layout.file)


def keyed(value, names):
    return (value if isinstance(value, str) else tuple(np.float32(value).tolist()), frozenset(names))


def label_rows(data) -> Counter:
    found: Counter = Counter()
    for split in (data.train, data.validation, data.test):
        labels = np.asarray(split.with_format("numpy")["labels"][:])
        inputs = split["text" if data.kind == "text" else "features"][:]
        for value, row in zip(inputs, labels, strict=True):
            found[keyed(value, (data.label_names[i] for i in np.flatnonzero(row > 0)))] += 1
    return found


@pytest.mark.parametrize("layout", layouts.LABELS, ids=lambda layout: layout.title)
def test_label_sets_are_those_that_were_written(tmp_path, layout):
    path = written(tmp_path, layout)
    data = load_multilabel(path, **layout.options)
    expected = layouts.rows() if layout.expected is None else layout.expected
    assert label_rows(data) == Counter(keyed(*row) for row in expected)
    assert layout.note in " ".join(data.notes)
    columns = {name: value for name, value in layout.options.items() if name.endswith(("_column", "_columns"))}
    assert kind_of(path, **columns) == data.kind  # the command chooses its recipe by it


def tag_rows(data) -> Counter:
    return Counter(
        (tuple(row["words"]), tuple(data.label_names[i] for i in row["tags"]))
        for split in (data.train, data.validation, data.test)
        for row in split
    )


@pytest.mark.parametrize("layout", layouts.TAGS, ids=lambda layout: layout.title)
def test_tags_are_those_that_were_written(tmp_path, layout):
    data = load_tags(written(tmp_path, layout), **layout.options)
    expected = layouts.sentences() if layout.expected is None else layout.expected
    assert tag_rows(data) == Counter((tuple(words), tuple(tags)) for words, tags in expected)
    assert layout.note in " ".join(data.notes)


@pytest.mark.parametrize(
    "layout", [one for one in layouts.TAGS if one.file.endswith((".jsonl", ".json", ".csv", ".gold_conll"))]
)
def test_an_evaluation_reads_the_same_tags(tmp_path, layout):
    if "corrected" in layout.title or "Ids" in layout.title:
        pytest.skip("read only in training")
    file = SentenceFile(Path(written(tmp_path, layout)), Needs(tags=["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]))
    found = [(sentence.words, sentence.gold) for sentence in file]
    assert found == layouts.sentences()


COLUMN_ROWS = "1\tAnna\tB-PER\tO\n2\tgoes\tO\tO\n\n" * 12


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "Anna\tB-PER\ngoes\t\n\n" * 12, "line 2: .* has no tag in column 1. Write O for words outside"),
        ("a.tsv", COLUMN_ROWS, "column 2 holds tags such as B-PER, and the last column only O.*--tag_column 2"),
        (
            "a.conllup",
            "# global.columns = ID FORM HEAD\n1\ta\t0\n2\tb\t1\n\n" * 9,
            "Name one by `tag_column` .--tag_column",
        ),
        ("a.csv", "word,tag\n" + "a,O\nb,B-X\n" * 9, "if a column sentence_id names its sentence"),
        ("a.csv", "sentence_id,word,tag\n1,a,O\n2,b,B-X\n1,c,O\n", "the sentence '1' occurs before, apart from these"),
        ("a.txt", "a/NN b/VB c/NN\nd/NN e/VB\n" * 9, "words are joined to their tags by '/', such as 'a/NN'"),
        ("a.txt", "Anna B-PER\nwent O\n" * 9, "its 18 lines are one sentence, since no line is empty"),
        (
            "a.txt",
            "Anna\tB-PER\t\nwent\tO\t\n\n" * 9,
            "has no tag in column 2. .* or name another column by `tag_column` .--tag_column 1",
        ),
        ("a.ann", "T1\tPER 0 4\tAnna\n", "brat's .ann are not read. Write an object for each text"),
        ("a.txt", "7|t|Naloxone.\n7|a|Rats.\n7\t0\t8\tNaloxone\tDrug\tD1\n\n" * 9, "PubTator is not read. Write"),
        (
            "a.tsv",
            "#FORMAT=WebAnno TSV 3.3\n\n" + "#Text=Anna.\n1-1\t0-4\tAnna\tPER[1]\t\n1-2\t4-5\t.\t_\t\n\n" * 9,
            "WebAnno's TSV is not read. Write an object",
        ),
        ("a.xml", '<?xml version="1.0"?>\n<sentence>\n<text>Good</text>\n</sentence>\n', "XML is not read. Write"),
        (
            "a.csv",
            "text,tags\n" + "a b,O O\na b c,O O\n" * 9,
            "line 3: 3 words with blanks between them, but 2 tags in `tags`",
        ),
        (
            "a.csv",
            "sentence_id,word,tag\n1,a,O\n1,b,O\n,c,B-X\n2,d,O\n",
            "4: no value in 'sentence_id', but line 3",
        ),
        ("a.jsonl", '{"text": "ab", "label": [[0, 9, "X"]]}\n' * 12, "the span 0 to 9 of type 'X' is not in the text"),
    ],
)
def test_tags_that_are_not_read_are_refused_with_the_way_out(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        load_tags(str(tmp_path / name))


def test_folders_of_tags_that_are_not_read_are_refused_with_the_way_out(tmp_path):
    for split in ("train", "dev"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "a.conll").write_text("Anna\tB-PER\n\n" * 12)
    with pytest.raises(DataError, match="Folders in it, such as dev/, are not read: join the files of each split"):
        load_tags(str(tmp_path))
    (tmp_path / "train" / "a.ann").write_text("T1\tPER 0 4\tAnna\n")
    with pytest.raises(DataError, match="brat's .ann are not read"):
        load_tags(str(tmp_path))
    for split in ("train", "dev"):
        (tmp_path / f"{split}.conll").write_text("Anna\tB-PER\n\n" * 12)
    assert len(load_tags(str(tmp_path)).train) == 12  # what lies in folders below is not read, brat's neither


@pytest.mark.parametrize("word", ["devel", "development"])
def test_words_for_the_validation_file(tmp_path, word):
    for name, count in (("train.tsv", 12), (f"{word}.tsv", 3), ("test.tsv", 2)):
        (tmp_path / name).write_text("".join(f"{name}{i}\tB-X\n\n" for i in range(count)))
    data = load_tags(str(tmp_path))
    assert [len(rows) for rows in (data.train, data.validation, data.test)] == [12, 3, 2]


def test_spans_inside_words_and_others_are_counted(tmp_path):
    row = {"text": "unlucky Anna Maier", "label": [[2, 7, "X"], [8, 12, "PER"], [8, 18, "PER"], [7, 8, "Y"]]}
    (tmp_path / "a.jsonl").write_text((json.dumps(row) + "\n") * 12)
    data = load_tags(str(tmp_path / "a.jsonl"))
    assert [data.label_names[i] for i in data.train[0]["tags"]] == ["B-X", "B-PER", "I-PER"]
    said = " ".join(data.notes)
    assert "12 spans begin or end inside a word" in said and "12 spans that overlap others left out" in said
    assert "12 spans without a word left out" in said


@pytest.mark.parametrize("more", [{}, {"ner_tags": ["O", "O", "B-PER", "I-PER"]}])
def test_spans_by_words_are_known_beside_a_text_as_well(tmp_path, more):
    words = ["Here", "is", "Anna", "Maier"]
    for ends in (4, 3):  # after the last word, and the last word
        rows = [
            {"text": " ".join(words), "tokens": words, "entities": [[2, ends, "PER"]], **more},
            {"text": "Oslo .", "tokens": ["Oslo", "."], "entities": [[0, ends - 3, "LOC"]]}
            | {name: ["B-LOC", "O"] for name in more},
        ]
        (tmp_path / "a.jsonl").write_text(layouts.lines(rows * 12))
        assert set(tag_rows(load_tags(str(tmp_path / "a.jsonl")))) == {
            (tuple(words), ("O", "O", "B-PER", "I-PER")),
            (("Oslo", "."), ("B-LOC", "O")),
        }


def test_spans_without_a_label_are_counted(tmp_path):
    spans = [
        {"from_name": "l", "type": "labels", "value": {"start": 0, "end": 4, "labels": kinds}} for kinds in (["P"], [])
    ]
    tasks = [{"data": {"text": f"Anna went, {i}"}, "annotations": [{"result": spans}]} for i in range(20)]
    (tmp_path / "a.json").write_text(json.dumps(tasks))
    assert "20 spans without a label left out" in " ".join(load_tags(str(tmp_path / "a.json")).notes)


def test_spans_with_another_text_and_types_with_further_tags_are_noted(tmp_path):
    span = {"start": 0, "end": 4, "label": "PER"}
    rows = [{"text": f"Anna went, {i}", "entities": [span | {"text": "Anna"[i % 2 :]}]} for i in range(20)]
    (tmp_path / "a.jsonl").write_text(layouts.lines(rows))
    assert "10 spans have another text than that of" in " ".join(load_tags(str(tmp_path / "a.jsonl")).notes)
    (tmp_path / "a.conll").write_text("Anna B-PER|B-X\nwent O\n\n" * 20 + "Anna B-PE")
    said = " ".join(load_tags(str(tmp_path / "a.conll")).notes)
    assert "types such as 'PER|B-X', which hold further ones" in said
    assert "its last tag, 'B-PE', occurs once: does the file end early?" in said


def test_what_looks_wrong_with_tags_is_noted(tmp_path):
    for lines, said in (
        ("".join(f"en:a{i}\tNN\nen:b\tVB\n\n" for i in range(20)), "every word begins with 'en:'"),
        ("".join(f"\u200ba{i}\tNN\nb\tVB\n\n" for i in range(20)), r"character that is not seen, such as '\\u200ba"),
        ("Word\tXPOS\n" + "a\tNN\nb\tVB\n\n" * 20, "the tag 'XPOS' occurs once, of the first word of train, 'Word'"),
        ("a\tO\nb\tVB\nc\tVB\n\n" * 20, "most words are not O: each tag is read by itself.*--scheme io"),
    ):
        (tmp_path / "train.tsv").write_text(lines)
        (tmp_path / "dev.tsv").write_text("en:a\tNN\nen:b\tVB\n\n" * 3)
        assert re.search(said, " ".join(load_tags(str(tmp_path)).notes)), said


def test_a_predicate_that_is_not_where_its_span_is(tmp_path):
    tags = ["B-ARG0", "B-V", "B-ARG1"]
    rows = [{"tokens": ["I", f"saw{i}", "it"], "tags": tags, "predicate": 1} for i in range(20)]
    file = tmp_path / "a.jsonl"
    file.write_text(layouts.lines([*rows, {**rows[0], "predicate": 2}]))
    assert "is not at the span V in 1 of 21 rows, the first at" in " ".join(load_srl(str(file)).notes)
    file.write_text(layouts.lines({**row, "predicate": 2} for row in rows))
    with pytest.raises(DataError, match="not at the span V in 20 of 20 rows.*Indices count from 0"):
        load_srl(str(file))


def test_roles_of_conll_2012_and_2009_and_trees_of_2012(tmp_path):
    lines = (
        "d 0 0 Anna{} NNP (TOP(S(NP*) - - - - * (ARG0*) -\n",
        "d 0 1 saw VBD (VP* see 01 1 - * (V*) -\n",
        "d 0 2 it PRP (NP*)))) - - - - * (ARG1*) -\n\n",
    )
    (tmp_path / "a.conll").write_text("".join("".join(lines).format(i) for i in range(20)))
    data = load_srl(str(tmp_path / "a.conll"))
    assert data.train[0]["words"][1:] == ["saw", "it"] and data.train[0]["predicate"] == 1
    assert [data.label_names[i] for i in data.train[0]["tags"]] == ["B-ARG0", "B-V", "B-ARG1"]
    tree = load_trees(str(tmp_path / "a.conll")).train[0]
    assert tree["words"][1:] == ["saw", "it"] and tree["pos"] == ["NNP", "VBD", "PRP"]
    row = "{}\t{}\t_\t_\tNN\t_\t_\t_\t0\t0\t_\t_\t{}\t{}\t{}\n"
    words = [(1, "Anna", "_", "_", "A0"), (2, "saw", "Y", "see.01", "_")]
    blocks = ("".join(row.format(*word) for word in [*words, (3, f"it{i}", "_", "_", "A1")]) for i in range(20))
    (tmp_path / "b.txt").write_text("\n".join(blocks))
    data = load_srl(str(tmp_path / "b.txt"))
    assert [data.label_names[i] for i in data.train[0]["tags"]] == ["B-A0", "B-V", "B-A1"]


def test_characters_that_are_not_seen_belong_to_no_word():
    for text, words in (
        ("Angela\u200b Merkel", ["Angela", "Merkel"]),
        ("I \u2764\ufe0f it", ["I", "\u2764\ufe0f", "it"]),
        ("\ufeffEmma Watson", ["Emma", "Watson"]),
        ("a\u00adb c\u200d", ["a\u00adb", "c"]),
    ):
        assert [text[start:end] for start, end in split_words(text)] == words


ROWS = "".join(f"{i / 7},{i % 2}\n" for i in range(20))


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        (
            "a.csv",
            "who,labels\n" + "".join(f"P-{i},{'ab'[i % 2]}\n" for i in range(20)),
            {},
            "'who' holds ids, such as",
        ),
        ("a.csv", "day,labels\n" + "".join(f"{i + 1}.1.2024,{'ab'[i % 2]}\n" for i in range(20)), {}, "holds dates"),
        (
            "a.csv",
            "scan,labels\n" + "a.dcm,x\nb.dcm,y\n" * 9,
            {},
            "names files of type .dcm, which are not read; images",
        ),
        ("a.csv", "width,labels\n" + ROWS, {"text_column": "width"}, "holds numbers .* which are no texts"),
        (
            "a.csv",
            "width,heat\n" + ROWS,
            {},
            'alone .heat. can be a label each, named by `label_columns` .--label_columns "heat".. Other columns of num',
        ),
        (
            "a.csv",
            "w,h,labels\n" + "1,2,a\n1,,b\n" * 9,
            {},
            "line 3: the feature 'h' is empty; expected a finite number",
        ),
        ("a.csv", "text,heat\n" + "a,yes\nb,no\n" * 9, {"label_column": "heat"}, "--label_columns heat"),
        ("a.json", json.dumps({"text": {"0": "a"}, "labels": {"0": "b"}}), {}, 'orient="records"'),
        ("a.json", '[{"text": "a", "labels": ["b"]},\n {"text": ', {}, "a.json, line 2: not a JSON object"),
        ("a.json", '[{"text": "a", "labels": ["b"]},\n 7]', {}, "a.json, line 2: '7' in the array; expected an object"),
        ("a.csv", "text,labels\n" + "a,b\n" * 9 + 'c,"{"\n', {}, "line 11: .* begins like a mapping but is not one"),
        ("a.jsonl", '{"text": "a", "cats": {"b": 0.5}}\n' * 20, {}, "is a mapping with 0.5 for 'b'.*threshold"),
        ("a.csv", "text,labels\n" + "a,010\nb,110\n" * 9 + "c,\n", {}, "line 20: the multi-hot labels have 0 entries"),
        ("a.csv", "text,labels\n" + "a,010\nb,110\n" * 9 + "c,01-0\n", {}, "line 20: .* have 1 entries, expected 3"),
        (
            "a.csv",
            "text,labels\n" + "a,0 1 0\nb,1 1 0\n" * 9 + "c,0 1x\n",
            {},
            "line 20: .* have 1 entries, expected 3",
        ),
        (
            "a.csv",
            "price,labels\n" + '"$1,000",a\n$20,b\n' * 9,
            {},
            "numbers with marks, such as '\\$1,000'.*plain numbers",
        ),
        (
            "a.csv",
            "vector,labels\n" + '"[0.5, 1]",a\n"[2, 1]",b\n' * 9,
            {},
            "lists of numbers, .*called features",
        ),
        ("a.jsonl", '{"vector": [0.5, 1], "labels": ["a"]}\n' * 20, {}, "called features: rename 'vector'"),
        ("a.csv", "text,label1,label2\n" + "a,b,c\n" * 9, {}, "label1, label2 may each hold one: join them"),
        ("a.csv", "text,x,y\n" + "a,Absent,Present\nb,Present,Absent\n" * 9, {"label_column": "x"}, "write 1 and 0"),
        ("a.csv", "text,x,y\n" + "a,0.2,0.9\nb,1,0\n" * 9, {}, "x, y may be probabilities.*--label_format probab"),
        (
            "a.csv",
            "image_id,labels\n" + "".join(f"t_{i},a|b\n" for i in range(20)),
            {},
            "their suffixes, such as t_0.png",
        ),
        ("a.txt", "text,labels\na,b\n", {}, "a .txt is read if its lines begin with __label__"),
        ("a.txt", "\n \n", {}, "a.txt is empty"),
        ("a.jsonl", '{"text": "a", "labels": [{"label": "b", "score": 0.5}]}\n' * 20, {}, "with the name in `name`"),
        ("a.json", json.dumps({"a": [{"text": "b"}], "c": [{"text": "d"}]}), {}, "expected an array of objects"),
        ("a.arff", "@relation x\n@attribute a {0,1}\n@data\n1\n0\n", {}, "as MEKA does: @relation 'name: -C 5'"),
    ],
)
def test_what_is_no_layout_is_refused_with_the_way_out(tmp_path, name, content, options, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        load_multilabel(str(tmp_path / name), **options)


def test_a_mark_that_joins_one_name_alone_is_noted_and_names_that_are_no_sets_stay(tmp_path):
    for names, count, said in (
        (["heat", "noise", "heat/noise"], 3, "1 label contains '/' between names that are labels too"),
        (["sci.med", "sci.space", "comp.os"], 3, ""),
        (["food-good", "food-bad", "room-good", "room-bad"], 4, ""),
    ):
        rows = "".join(f"a text {i},{names[i % len(names)]}\n" for i in range(24))
        (tmp_path / "a.csv").write_text("text,labels\n" + rows)
        data = load_multilabel(str(tmp_path / "a.csv"))
        assert len(data.label_names) == count and said in " ".join(data.notes), names
        assert layouts.SPLIT not in " ".join(data.notes)


def test_prediction_reads_the_columns_of_training(tmp_path):
    (tmp_path / "new.csv").write_text("height,name,width\n1.5,a,2\n3,b,4\n")
    table = open_table(str(tmp_path / "new.csv"))
    (chunk,) = FeatureTable(table, 2, trained={"feature_columns": ["width", "height"]}).chunks(10)
    assert chunk.inputs.tolist() == [[2, 1.5], [4, 3]] and chunk.rows[0] == {"height": "1.5", "name": "a", "width": "2"}
    with pytest.raises(DataError, match="lacks 1 of the 2 columns of numbers that this model reads, such as 'depth'"):
        FeatureTable(table, 2, trained={"feature_columns": ["width", "depth"]})


def test_gold_cells_are_separated_by_a_mark_that_joins_labels_of_the_model():
    found = gold_labels([["a#b"], ["c"], ["b"]], ["a", "b", "c"], None, "auto", "new.csv")
    assert found.tolist() == [[1, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert gold_labels([["011"], ["100"]], ["a", "b", "c"], None, "auto", "new.csv").tolist() == [[0, 1, 1], [1, 0, 0]]


def test_each_layout_of_a_column_is_that_of_its_example():
    for layout in LAYOUTS:
        assert layout_of([layout.example, "", None], "auto").example == layout.example
        assert layout_of([layout.example, "a|b"], "auto") is PLAIN
    assert [layout_of(["[]", None], label_format) for label_format in ("auto", "names")] == [PLAIN] * 2


@pytest.mark.parametrize(
    "cells",
    [
        ["true,false,true", "false,false,true"],
        ["true false TRUE", "false false true"],
        ["[True, False, True]", "[False, False, True]"],
        ["[ True False True]", "[False False True]"],
        ['["true","false","true"]', '["false","false","true"]'],
        ["101", "001"],
        ['"101"', '"001"'],
        ["[101]", "[001]"],
    ],
)
def test_vectors_are_read_and_a_row_without_one_is_refused(tmp_path, cells):
    def write(cells):
        quoted = [cell.replace('"', '""') for cell in cells]
        (tmp_path / "a.csv").write_text("text,labels\n" + "".join(f'text {i},"{c}"\n' for i, c in enumerate(quoted)))
        return str(tmp_path / "a.csv")

    data = load_multilabel(write(cells * 12))
    assert label_rows(data) == {(f"text {i}", frozenset("02" if i % 2 == 0 else "2")): 1 for i in range(24)}
    assert f"{cells[0]!r} are vectors of 0 and 1" in " ".join(data.notes)
    reader = TextReader(open_table(write(cells)), "text", "labels")
    found = [cell for chunk in reader.chunks(1) for cell in chunk.gold]
    assert gold_labels(found, ["a", "b", "c"], None, "auto", "a.csv").tolist() == [[1, 0, 1], [0, 0, 1]]
    with pytest.raises(DataError, match="line 26: the multi-hot labels have 0 entries, expected 3"):
        load_multilabel(write([*cells * 12, ""]))


def test_whole_numbers_with_and_without_a_point_are_the_same_names():
    assert gold_labels([["2019.0"], [2020.0]], ["2019", "2020"], None, "names", "").tolist() == [[1, 0], [0, 1]]
    assert gold_labels([["2019.0"], ["x"]], ["2019.0", "x"], None, "auto", "").tolist() == [[1, 0], [0, 1]]


def test_gold_cells_are_read_without_marks_around_names(tmp_path):
    (tmp_path / "a.csv").write_text("text,labels\nx,<a><b>\ny,\nz,<b>\n")
    reader = TextReader(open_table(str(tmp_path / "a.csv")), "text", "labels")
    assert [chunk.gold for chunk in reader.chunks(2)] == [[["a", "b"], []], [["b"]]]


def test_columns_that_are_left_out_are_named(tmp_path):
    rows = "".join(f"Oslo,{i},a text {i},https://a.org/{i}.jpg,joy|fear,sad\n" for i in range(24))
    (tmp_path / "a.csv").write_text("city,n,text,picture,labels,mood\n" + rows)
    data = load_multilabel(str(tmp_path / "a.csv"))
    assert data.kind == "text" and data.train[0]["text"].startswith("a text")
    left = "left out: city (repeated words), n (numbers), picture (web addresses), mood (repeated words)."
    assert left in data.notes


# --- masks -----------------------------------------------------------------------------------------------------------


def write_masks(images, masks, names, ending="", kind="png", factor=1):
    Image = pytest.importorskip("PIL.Image", reason="image files need pillow")
    for folder in (images, masks):
        folder.mkdir(parents=True, exist_ok=True)
    for number in names:
        drawn = np.zeros((6, 5), np.uint8)
        drawn[number % 4 : 5, 1:3] = factor * (1 + number % 2 * (factor == 1))
        Image.fromarray(drawn).save(masks / f"{number}{ending}.{kind}")
        Image.fromarray(np.full((6, 5, 3), number, np.uint8)).save(images / f"{number}.png")


@pytest.mark.parametrize("layout", ["voc", "lists of voc", "mmsegmentation", "endings", "gif", "tif", "capitals"])
def test_masks_of_other_layouts(tmp_path, layout):
    folders = {"mmsegmentation": ("img_dir", "ann_dir"), "endings": ("images", "masks"), "capitals": ("Imgs", "Masks")}
    images, masks = (tmp_path / name for name in folders.get(layout, ("JPEGImages", "SegmentationClass")))
    kind = layout if layout in ("gif", "tif") else "png"
    ending = "_mask" if layout == "endings" else ""
    (tmp_path / "class_names.txt").write_text("sky\nroad\ncar\n")
    if layout == "mmsegmentation":
        for split, names in (("train", range(8)), ("val", range(8, 12))):
            write_masks(images / split, masks / split, names)
    else:
        write_masks(images, masks, range(12), ending, kind)
    if layout == "lists of voc":
        (tmp_path / "ImageSets" / "Segmentation").mkdir(parents=True)
        for split, names in (("train", range(8)), ("val", range(8, 12))):
            (tmp_path / "ImageSets" / "Segmentation" / f"{split}.txt").write_text("".join(f"{i}\n" for i in names))
    data = load_masks(str(tmp_path))
    assert data.label_names == ["sky", "road", "car"]
    if layout in ("lists of voc", "mmsegmentation"):
        assert (len(data.train), len(data.validation)) == (8, 4)
    for rows in (data.train, data.validation):
        for image, mask in zip(rows.images, rows.masks, strict=True):
            number = int(image[0, 0, 0])
            expected = np.zeros((6, 5), np.uint8)
            expected[number % 4 : 5, 1:3] = 1 + number % 2
            assert np.array_equal(mask, expected)


def numbers_of(rows):
    return sorted(int(image[0, 0, 0]) for image in rows.images)


@pytest.mark.parametrize("names", [("{}", "{}_labels"), ("{}", "{}annot"), ("{}_images", "{}_masks")])
def test_each_split_may_have_its_masks_beside_it(tmp_path, names):
    parts = {"train": range(8), "val": range(8, 10), "test": range(10, 12)}
    for split, numbers in parts.items():
        write_masks(*(tmp_path / name.format(split) for name in names), numbers)
    data = load_masks(str(tmp_path))
    assert [numbers_of(rows) for rows in (data.train, data.validation, data.test)] == [[*n] for n in parts.values()]


@pytest.mark.parametrize("names", [("image_{}", "mask_{}"), ("{}_training", "{}_manual1"), ("a1_{}_sat", "b_{}_gt")])
def test_names_of_images_and_masks_may_begin_and_end_alike(tmp_path, names):
    """As in DRIVE and DeepGlobe. Oracle: the same files with equal names."""
    write_masks(tmp_path / "plain" / "images", tmp_path / "plain" / "masks", range(10, 22))
    write_masks(tmp_path / "own" / "images", tmp_path / "own" / "masks", range(10, 22))
    for part, name in zip(("images", "masks"), names, strict=True):
        for file in [*(tmp_path / "own" / part).iterdir()]:
            file.rename(file.with_stem(name.format(file.stem)))
    data, plain = load_masks(str(tmp_path / "own")), load_masks(str(tmp_path / "plain"))
    assert (data.train.images == plain.train.images).all() and (data.train.masks == plain.train.masks).all()
    assert f"the mask of {names[0].format(10)}.png is {names[1].format(10)}.png, and so on." in data.notes
    file = next((tmp_path / "own" / "masks").iterdir())
    file.rename(file.with_stem(names[1].format(99)))
    with pytest.raises(DataError, match="no file of this name in"):
        load_masks(str(tmp_path / "own"))


@pytest.mark.parametrize("ending", ["_mask", "_segmentation"])
def test_images_and_masks_may_be_in_one_folder(tmp_path, ending):
    """As Roboflow exports them. Oracle: the same files in two folders."""
    write_masks(tmp_path / "plain" / "images", tmp_path / "plain" / "masks", range(12))
    write_masks(tmp_path / "one", tmp_path / "one", range(12), ending)
    for split, numbers in (("train", range(8)), ("valid", range(8, 12))):
        write_masks(tmp_path / "split" / split, tmp_path / "split" / split, numbers, ending)
    plain, one, split = (load_masks(str(tmp_path / name)) for name in ("plain", "one", "split"))
    assert (one.train.images == plain.train.images).all() and (one.train.masks == plain.train.masks).all()
    assert [numbers_of(rows) for rows in (split.train, split.validation)] == [[*range(8)], [*range(8, 12)]]
    expected = {image.tobytes(): mask for image, mask in zip(plain.train.images, plain.train.masks, strict=True)}
    pairs = zip(split.train.images, split.train.masks, strict=True)
    assert all((mask == expected.get(image.tobytes(), mask)).all() for image, mask in pairs)
    (tmp_path / "one" / f"7{ending}.png").unlink()
    with pytest.raises(DataError, match="7.png: no file of this name in .*one. Give"):
        load_masks(str(tmp_path / "one"))


def test_names_of_images_may_end_alike_too(tmp_path):
    """`1_mask` and `11_mask` end alike from the 1 on, but `_mask` is what the masks have of their own."""
    for split, numbers in (("train", (1, 11, 21)), ("val", (1, 11)), ("test", (2, 12))):
        write_masks(tmp_path / split / "images", tmp_path / split / "masks", numbers, "_mask")
    data = load_masks(str(tmp_path))
    found = [numbers_of(rows) for rows in (data.train, data.validation, data.test)]
    assert found == [[1, 11, 21], [1, 11], [2, 12]]


def test_a_mask_without_an_image_is_named_where_all_masks_end_alike(tmp_path):
    write_masks(tmp_path / "images", tmp_path / "masks", range(12), "_mask")
    (tmp_path / "images" / "7.png").unlink()
    with pytest.raises(DataError, match="7_mask.png: no file of this name in .*images. Give"):
        load_masks(str(tmp_path))


@pytest.mark.parametrize("line", ["{}", "{}.png", "/any/images/{0}.png /any/masks/{0}.png", "number {}.png"])
def test_lists_of_splits_beside_the_folders_are_read(tmp_path, line):
    write_masks(tmp_path / "images", tmp_path / "masks", range(12))
    for file in [*tmp_path.rglob("*.png")] if line.startswith("number") else ():
        file.rename(file.with_name(f"number {file.name}"))
    parts = {"train": range(1, 8), "val": range(8, 12)}  # the list of a split may leave images out
    for split, numbers in parts.items():
        (tmp_path / f"{split}.txt").write_text("".join(line.format(i) + "\n" for i in numbers))
    data = load_masks(str(tmp_path))
    assert [numbers_of(rows) for rows in (data.train, data.validation)] == [[*n] for n in parts.values()]
    names_masks = "masks" in line
    left = "1 mask is not read, since no list of a split names it."
    assert ("images and masks are those that train.txt and val.txt names." if names_masks else left) in data.notes
    (tmp_path / "val.txt").write_text("\n")
    with pytest.raises(DataError, match="val.txt: names no image. Correct the list"):
        load_masks(str(tmp_path))
    (tmp_path / "val.txt").write_text(line.format(9))
    (tmp_path / "train.txt").rename(tmp_path / "test.txt")
    with pytest.raises(DataError, match="files, folders or lists name validation and test, but no train split. Add"):
        load_masks(str(tmp_path))
    with (tmp_path / "test.txt").open("a") as file:
        file.write("epoch 1\n")
    with pytest.raises(
        DataError, match="test.txt.*('epoch', but no image with a mask is called so. Correct|no image file 'epoch')"
    ):
        load_masks(str(tmp_path))


PUBLISHED = {  # of each image, and of its mask; those of Cityscapes, DRIVE, a patient each, ISIC, Pets, Inria, GlaS
    "cities": ("leftImg8bit/{0}/a{1}/a{1}_{2}_19_leftImg8bit.png", "gtFine/{0}/a{1}/a{1}_{2}_19_gtFine_labelIds.png"),
    "retinas": ("{0}/images/{2}_{0}.tif", "{0}/1st_manual/{2}_manual1.gif"),
    "patients": ("kaggle/TCGA_{1}/TCGA_{1}_{2}.tif", "kaggle/TCGA_{1}/TCGA_{1}_{2}_mask.tif"),
    "challenge": ("X-2017_{0}_Data/X_{2}.png", "X-2017_{0}_Part1_GroundTruth/X_{2}_segmentation.png"),
    "trimaps": ("images/Cat_{2}.png", "annotations/trimaps/Cat_{2}.png"),
    "archive": ("Aerial/{0}/images/a{2}.tif", "Aerial/{0}/gt/a{2}.tif"),
    "one folder": ("{0}_{2}.bmp", "{0}_{2}_anno.bmp"),
    "image_1 and mask_1": ("image_{2}.png", "mask_{2}.png"),
    "any table": ("photos/a{2}.png", "drawn/b{2}.png"),
}


def write_pairs(folder, image, mask):
    """12 images, whose number is their colour, and masks in which it is the first row of the object."""
    Image = pytest.importorskip("PIL.Image", reason="image files need pillow")
    lines = []
    for number in range(12):
        drawn = np.zeros((14, 5), np.uint8)
        drawn[number + 1 :, 1:3] = 1
        values = ("train" if number < 8 else "test", number % 2, number)
        for name, array in ((image, np.full((14, 5, 3), number, np.uint8)), (mask, drawn)):
            file = folder / name.format(*values)
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(array).save(file)
        lines.append((image.format(*values), mask.format(*values)))
    return lines


def assert_pairs(data):
    splits = [rows for rows in (data.train, data.validation, data.test) if rows is not None]
    assert sum(map(len, splits)) == 12
    for rows in splits:
        for image, mask in zip(rows.images, rows.masks, strict=True):
            assert np.flatnonzero(mask.any(1))[0] == image[0, 0, 0] + 1


@pytest.mark.parametrize("layout", PUBLISHED)
def test_masks_are_found_by_the_names_of_folders_and_files(tmp_path, layout):
    lines = write_pairs(tmp_path / "data", *PUBLISHED[layout])
    if layout == "any table":
        rows = [f"{number},{mask},any\\{image}\n" for number, (image, mask) in enumerate(lines)]
        (tmp_path / "data" / "pairs.csv").write_text("".join(["id,mask,image\n", "9,,x.png\n", *rows]))
        assert_pairs(load_masks(str(tmp_path / "data" / "pairs.csv")))
    data = load_masks(str(tmp_path / "data"))
    assert_pairs(data)
    origins = [data.train.origins.of(i) for i in range(len(data.train))]
    assert all(Path(one["source"], one["file"]).is_file() for one in origins)
    assert (data.test is not None and len(data.test) == 4) == ("{0}" in PUBLISHED[layout][0] and layout != "one folder")
    assert layout != "patients" or any("may put images of one folder, such as a patient's" in n for n in data.notes)
    assert layout != "any table" or "pairs.csv: 1 images without a mask are not read." in data.notes


def test_masks_that_hold_no_classes_are_left_out_and_several_kinds_refused(tmp_path):
    """As in Cityscapes and VOC."""
    image, mask = PUBLISHED["cities"]
    for kind in ("labelIds", "instanceIds", "color"):
        write_pairs(tmp_path, image, mask.replace("labelIds", kind))
    data = load_masks(str(tmp_path))
    assert_pairs(data)
    assert "not read, since by their names they hold no gold: *_19_gtFine_color, *_19_gtFine_instanceIds." in data.notes
    write_pairs(tmp_path, image, mask.replace("labelIds", "labelTrainIds"))
    with pytest.raises(DataError, match="found 2 kinds of masks for these images: .*labelIds.png, .*labelTrainIds.png"):
        load_masks(str(tmp_path))


def test_other_images_and_predictions_beside_images_and_masks_are_not_read(tmp_path):
    write_pairs(tmp_path, "images/{2}.png", "masks/{2}.png")
    for folders in (("thumbs", "masks_pred"), ("depth", "predictions/masks")):
        write_pairs(tmp_path, *(f"{folder}/{{2}}.png" for folder in folders))
    lines = "".join(f"images/{i}.png,depth/{i}.png,images/{i}.png\n" for i in range(12))
    (tmp_path / "rooms.csv").write_text(f"colours,depths,shown\n{lines}")
    data = load_masks(str(tmp_path))
    assert_pairs(data)
    assert data.notes[0] == "not read, since masks are missing: depth/, thumbs/."
    assert data.notes[1] == "not read, since by their names they hold no gold: masks_pred/, predictions/masks/."


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["{0},{1}", "{0},{1}"], "pairs.csv: names 2 masks for .*0.png. Join the masks"),
        (["{0},{1}", "{0},no.png"], "pairs.csv, line 3: no image file 'no.png' in"),
        (["{0},{1}", "{0}"], "pairs.csv, line 3: 1 cells, but 2 before"),
    ],
)
def test_mistakes_in_lists_of_pairs_are_named(tmp_path, rows, message):
    lines = write_pairs(tmp_path, *PUBLISHED["any table"])
    written = [row.format(*line) for row, line in zip(rows, [lines[0]] * 2, strict=True)]
    (tmp_path / "pairs.csv").write_text("\n".join(["image,mask", *written]))
    with pytest.raises(DataError, match=message):
        load_masks(str(tmp_path))


def test_other_tables_beside_masks_are_no_lists(tmp_path):
    """As of run lengths, and of patients in another encoding."""
    write_pairs(tmp_path, *PUBLISHED["image_1 and mask_1"])
    (tmp_path / "runs.csv").write_text("img,rle_mask\nimage_1.png," + "1 2 " * 40_000 + "\n")
    (tmp_path / "patients.csv").write_bytes("name,étage\nimage_1.png,é\n".encode("latin-1"))
    assert_pairs(load_masks(str(tmp_path)))
    with pytest.raises(DataError, match="runs.csv: no line names an image file and its mask that exist"):
        load_masks(str(tmp_path / "runs.csv"))


def test_masks_in_jpeg_are_read_if_they_are_black_and_white(tmp_path):
    """As in Kvasir-SEG. JPEG changes ids, so these are refused."""
    Image = pytest.importorskip("PIL.Image", reason="image files need pillow")
    write_masks(tmp_path / "images", tmp_path / "masks", range(12), factor=255)
    plain = load_masks(str(tmp_path))
    for file in [*(tmp_path / "masks").iterdir()]:
        Image.open(file).resize((50, 60), 0).convert("RGB").save(file.with_suffix(".jpg"), quality=60)
        file.unlink()
        image = tmp_path / "images" / file.name
        Image.open(image).resize((50, 60), 0).save(image)
    data = load_masks(str(tmp_path))
    assert np.array_equal(data.train.masks[:, 5::10, 5::10], plain.train.masks)
    assert any("masks are JPEG files" in note for note in data.notes)
    for file in (tmp_path / "masks").iterdir():
        Image.fromarray(np.asarray(Image.open(file)) // 100).save(file)
    with pytest.raises(DataError, match="masks.0.jpg: a mask in a JPEG file, which changes class ids"):
        load_masks(str(tmp_path))


def test_folders_of_images_that_would_not_be_read_are_refused(tmp_path):
    for split in ("train", "val", "more"):
        write_masks(tmp_path / "images" / split, tmp_path / "masks" / split, range(4))
    with pytest.raises(DataError, match="images.more: has images and masks, but its path names no split"):
        load_masks(str(tmp_path))
    (tmp_path / "images" / "more").rename(tmp_path / "images" / "test")
    with pytest.raises(DataError, match="masks.more: these masks may be those of .*images.test"):
        load_masks(str(tmp_path))


def test_the_names_of_cvat_and_a_mask_in_the_alpha_channel(tmp_path):
    (tmp_path / "labelmap.txt").write_text("# label:color_rgb:parts:actions\nsky:0,0,0::\nroad:8,0,0::\ncar:0,9,0::\n")
    write_masks(tmp_path / "JPEGImages", tmp_path / "SegmentationClass", range(12))
    data = load_masks(str(tmp_path))
    assert data.label_names == ["sky", "road", "car"]
    Image = pytest.importorskip("PIL.Image")
    for file in (tmp_path / "SegmentationClass").iterdir():
        alpha = np.asarray(Image.open(file))[..., None]
        Image.fromarray(np.concatenate([np.full_like(alpha, 200)] * 3 + [alpha], 2)).save(file)
    assert (load_masks(str(tmp_path)).train.masks == data.train.masks).all()


@pytest.mark.parametrize(("factor", "bits"), [(2, 8), (128, 8), (255, 8), (300, 16), (65535, 16)])
def test_masks_of_0_and_another_value_have_two_classes(tmp_path, factor, bits):
    """Oracle: the same masks of 0 and 1."""
    Image = pytest.importorskip("PIL.Image", reason="image files need pillow")
    for name, by in (("plain", 1), ("other", factor)):
        for folder in ("images", "masks"):
            (tmp_path / name / folder).mkdir(parents=True)
        for number in range(12):
            drawn = np.zeros((6, 5), np.uint16 if by > 255 else np.uint8)
            drawn[number % 4 : 5, 1:3] = by
            Image.fromarray(drawn).save(tmp_path / name / "masks" / f"{number}.png")
            Image.fromarray(np.full((6, 5, 3), number, np.uint8)).save(tmp_path / name / "images" / f"{number}.png")
    plain, other = (load_masks(str(tmp_path / name)) for name in ("plain", "other"))
    assert other.label_names == plain.label_names and np.array_equal(other.train.masks, plain.train.masks)
    assert other.train.inputs == {"foreground": factor}
    assert f"masks hold only 0 and {factor}: {factor} is read as foreground." in other.notes
    values = MaskValues.of_inputs(other.train.inputs)
    for one, two in zip(
        pictures_of(tmp_path / "other", True, values), pictures_of(tmp_path / "plain", True), strict=True
    ):
        assert np.array_equal(one.mask, two.mask)
    drawn[0, 0] = 7
    Image.fromarray(drawn).save(tmp_path / "other" / "masks" / "3.png")
    with pytest.raises(DataError, match="may be no class|are not class ids|other masks hold 0 and|hold 0, 7 and 255"):
        load_masks(str(tmp_path / "other"))


def write_coco(folder, split="", compressed=False):
    """Images of 6 x 5 pixels: each has a rectangle and, above it, a smaller one. As runs, and the masks."""
    Image = pytest.importorskip("PIL.Image", reason="image files need pillow")
    images, annotations, masks = [], [], []
    (folder / (split or "images")).mkdir(parents=True)
    for number in range(12):
        Image.fromarray(np.full((6, 5, 3), number, np.uint8)).save(folder / (split or "images") / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "height": 6, "width": 5})
        masks.append(np.zeros((6, 5), np.uint8))
        for kind, place in ((7, np.s_[1:5, 1:4]), (3, np.s_[2 : 3 + number % 3, 2:3])):
            area = np.zeros((6, 5), bool)
            area[place] = True
            masks[-1][area] = {3: 1, 7: 2}[kind]
            flat = area.T.ravel()
            runs = np.diff([0, *np.flatnonzero(np.diff(flat)) + 1, 30]).tolist()
            if compressed:  # differences to the one before the last, six bits below 48
                steps = [run - runs[i - 2] if i > 2 else run for i, run in enumerate(runs)]
                runs = "".join(
                    chr(48 + (step & 31))
                    if -16 <= step < 16
                    else chr(48 + (step & 31 | 32)) + chr(48 + (step >> 5 & 31))
                    for step in steps
                )
            segmentation = {"size": [6, 5], "counts": runs}
            annotations.append({"image_id": number, "category_id": kind, "segmentation": segmentation, "id": number})
    annotations.append({"image_id": 0, "category_id": 3, "bbox": [0, 0, 1, 1]})
    categories = [{"id": 7, "name": "road"}, {"id": 3, "name": "car"}, {"id": 0, "name": "_background_"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    return content, np.stack(masks)


@pytest.mark.parametrize("compressed", [False, True])
def test_coco_is_read_by_runs(tmp_path, compressed):
    content, masks = write_coco(tmp_path, compressed=compressed)
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "instances.json").write_text(json.dumps(content))
    data = load_masks(str(tmp_path))
    assert data.label_names == ["background", "car", "road"]
    assert "instances.json: 1 annotations without a mask left out." in data.notes
    for rows in (data.train, data.validation, data.test):
        assert all(np.array_equal(m, masks[i[0, 0, 0]]) for i, m in zip(rows.images, rows.masks, strict=True))
    names = ["road", "background", "car"]
    found = pictures_of(tmp_path / "annotations" / "instances.json", True, num_classes=3, class_names=names)
    for picture, mask in zip(found, masks, strict=True):
        assert np.array_equal(picture.mask, np.array([1, 2, 0])[mask])  # by name
    with pytest.raises(DataError, match="the data have the class 'car', but the model has background, cat, road"):
        pictures_of(tmp_path, True, num_classes=3, class_names=["background", "cat", "road"])


def test_polygons_of_coco_are_drawn(tmp_path):
    pytest.importorskip("pycocotools")
    for split, folder in (("train", "train2017"), ("val", "val2017")):
        content, masks = write_coco(tmp_path, folder)
        content["annotations"] = [
            {"image_id": i, "category_id": 3, "segmentation": [[1, 1, 4, 1, 4, 5, 1, 5]]} for i in range(12)
        ]
        (tmp_path / "annotations").mkdir(exist_ok=True)
        for kind in ("instances", "person_keypoints"):
            (tmp_path / "annotations" / f"{kind}_{split}2017.json").write_text(json.dumps(content))
    data = load_masks(str(tmp_path))
    expected = np.zeros((6, 5), np.uint8)
    expected[1:5, 1:4] = 1
    assert (len(data.train), len(data.validation)) == (12, 12) and (data.train.masks == expected).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"segmentation": {"size": [6, 5], "counts": [5, 100]}},
            "2.png: a segmentation is not readable: its runs have",
        ),
        (
            {"segmentation": {"size": [5, 6], "counts": [30]}},
            r"its size is \[5, 6\], but that of the image is \[6, 5\]",
        ),
        ({"segmentation": {"size": [6, 5], "counts": "~~~"}}, "2.png: a segmentation is not readable"),
        ({"segmentation": [[1, 2]]}, "a polygon of fewer than three points"),
        ({"segmentation": 5}, "2.png: a segmentation is not readable"),
        ({"category_id": 99}, "the category 99 is not among the categories"),
    ],
)
def test_wrong_annotations_of_coco_are_named(tmp_path, change, message):
    content, _ = write_coco(tmp_path)
    content["annotations"][4] |= change
    (tmp_path / "coco.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=message):
        load_masks(str(tmp_path / "coco.json"))


def test_annotations_of_coco_that_draw_nothing_are_counted_or_refused(tmp_path):
    """Boxes alone, as of detection, and annotations whose image is another one, leave only background."""
    content, masks = write_coco(tmp_path)
    file, annotations = tmp_path / "coco.json", content["annotations"]

    def loaded(**changes):
        file.write_text(json.dumps(content | changes))
        return load_masks(str(file))

    notes = loaded(
        annotations=[*annotations, annotations[0] | {"image_id": 99}, annotations[1] | {"segmentation": []}]
    ).notes
    assert "coco.json: 2 annotations without a mask left out." in notes
    assert "coco.json: 1 annotations without an image left out." in notes
    with pytest.raises(DataError, match="has 25 annotations without a mask, and no others. Give masks of these images"):
        loaded(annotations=[one | {"segmentation": []} for one in annotations])
    with pytest.raises(DataError, match="has 25 annotations without an image, and no others"):
        loaded(annotations=[one | {"image_id": str(one["image_id"])} for one in annotations])
    with pytest.raises(DataError, match="coco.json: 2 images have the id 1. Give each image its own"):
        loaded(images=[one | {"id": max(one["id"], 1)} for one in content["images"]])


def test_masks_that_are_not_read_are_refused_with_the_way_out(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "annotations.json").write_text("{}")
    with pytest.raises(DataError, match="found annotations.json; expected .* or COCO's annotations in a .json"):
        load_masks(str(tmp_path / "b"))
    Image = pytest.importorskip("PIL.Image")
    pages = [Image.fromarray(np.full((6, 5, 3), i, np.uint8)) for i in range(2)]
    (tmp_path / "c").mkdir()
    pages[0].save(tmp_path / "c" / "x.tif", save_all=True, append_images=pages[1:])
    with pytest.raises(DataError, match="x.tif: holds 2 pictures, such as pages or frames; expected one"):
        pixels(tmp_path / "c" / "x.tif")


# --- mutated files ---------------------------------------------------------------------------------------------------


def test_no_mutated_file_is_misread():
    """A part of `benchmarks/misread.py`, which knows the rows."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "misread.py"
    spec = importlib.util.spec_from_file_location("misread", path)
    misread = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(misread)
    found = [(mutant.name, misread.outcome(mutant)) for mutant in misread.mutants(60, seed=1)]
    assert [name for name, (what, _) in found if what == "misread"] == []
    assert {"right", "refused"} <= {what for _, (what, _) in found}


def test_formats_that_are_given_are_kept(tmp_path):
    rows = "".join(f"a text {i},{'100' if i % 2 else '101'}\n" for i in range(24))
    (tmp_path / "a.csv").write_text("text,labels\n" + rows)
    assert len(load_multilabel(str(tmp_path / "a.csv"), label_format="ids").label_names) == 102
    assert load_multilabel(str(tmp_path / "a.csv"), label_format="names").label_names == ["100", "101"]
    assert len(load_multilabel(str(tmp_path / "a.csv")).label_names) == 3


def test_an_evaluation_leaves_out_rows_that_were_rejected(tmp_path):
    (layout,) = (one for one in layouts.LABELS if one.title.startswith("Prodigy"))
    table = open_table(written(tmp_path, layout))
    reader = TextReader(table, "text", "accept")
    found = [pair for chunk in reader.chunks(7) for pair in zip(chunk.inputs, map(set, chunk.gold), strict=True)]
    assert found == layouts.rows() and "2 rows left out: 'answer' says" in " ".join(reader.notes)
    assert sum(len(chunk.inputs) for chunk in TextReader(table, "text").chunks(7)) == len(found) + 2  # predicted, too
