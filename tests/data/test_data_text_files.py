"""Awkward files of texts. Oracle: the cells that stand in the file, and the number of the line that is wrong."""

import csv
import json
import os

import pytest

from seal_hf.data import DataError, load_multilabel

HEAD = b"text,labels\n"


def texts_of(folder, name, content) -> list[str]:
    """The texts of a file, in its order: as train split, with a dev split beside it."""
    (folder / name.replace("d", "train", 1)).write_bytes(content)
    (folder / "dev.csv").write_bytes(HEAD + b"a,x\n")
    return load_multilabel(str(folder)).train["text"][:]


@pytest.mark.parametrize(
    "cells",
    [
        ["007", "1.0", "1e3", "w"],
        ["NA", "nan", "null", "None", "N/A", "#N/A", "w"],
        ["", " ", "w"],
        ["True", "false", "w"],
        ["2024-01-01", "2024-01-02 10:00:00", "2024-01-03T00:00:00Z"],
        ["a, b", 'say "x"', "two\nlines", "two\r\nlines", "tab\there"],
        ["żółw 🐢", "\u2028", "\x85", "\u00a0w"],
        ["#comment", "'quoted'", "\\n", "w"],
        ["z" * 200_000, "w"],
        [*["1"] * 10_001, "w"],  # beyond a block of rows, by which a reader may guess types
    ],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_text_is_what_stands_in_the_file(tmp_path, kind, cells):
    if kind == "csv":
        with open(tmp_path / "written.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["text", "labels"], *([cell, "x"] for cell in cells)])
        content = (tmp_path / "written.csv").read_bytes()
    else:
        content = "".join(json.dumps({"text": cell, "labels": ["x"]}) + "\n" for cell in cells).encode()
    assert texts_of(tmp_path, f"d.{kind}", content) == cells


def test_quotes_of_a_tsv_belong_to_the_text_unless_they_enclose_the_cell(tmp_path):
    content = b'text\tlabels\nsay "hi\tx\n"b\tx\n"whole"\tx\n"a ""b"""\t"[""x""]"\n"a" b\tx\n'
    assert texts_of(tmp_path, "d.tsv", content) == ['say "hi', '"b', "whole", 'a "b"', '"a" b']


@pytest.mark.parametrize("name", ["d[1].csv", "d*.csv", "d?.csv", "d::e.csv", "d {a}%20.csv"])
def test_the_name_of_a_file_is_no_pattern(tmp_path, name):
    (tmp_path / "dx.csv").write_bytes(HEAD + b"other,y\n" * 10)
    (tmp_path / name).write_bytes(HEAD + b"own,x\n" * 10)
    data = load_multilabel(str(tmp_path / name))
    assert set(data.train["text"][:]) == {"own"} and data.label_names == ["x"]
    assert len(list(tmp_path.iterdir())) == 2  # nothing is written beside it


def test_a_file_that_changed_within_its_time_stamp_is_read_anew(tmp_path):
    for text in ("one", "two"):
        (tmp_path / "d.csv").write_bytes(HEAD + f"{text},x\n".encode() * 10)
        os.utime(tmp_path / "d.csv", (1, 1))
        assert set(load_multilabel(str(tmp_path / "d.csv")).train["text"][:]) == {text}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("d.csv", HEAD + b"a,x\nb\nc,x\n", ["line 3: 1 values, expected 2 (text, labels)"]),
        ("d.csv", HEAD + b"a,x,1\nb,x,2\n", ["line 2: 3 values, expected 2"]),
        ("d.csv", HEAD + b'"a\nb\nc",x\nd,x,y\n', ["line 5: 3 values"]),  # of the file, not of its rows
        ("d.csv", HEAD + b"a,x\n\n\nb\n", ["line 5: 1 values"]),
        ("d.csv", HEAD + b"a,x\n  \nb,x\n", ["line 3: 1 values"]),
        ("d.csv", HEAD + b'"a"b,x\n', ["line 2", "quote is open"]),
        ("d.csv", b"\n\n", ["train.csv is empty"]),
        ("d.csv", "text,labels\na,x\n".encode("utf-16"), ["train.csv: not UTF-8", "Save the file as UTF-8"]),
        ("d.jsonl", b'{"text":"a","labels":[0]}\n{"text":"b","labels":[0],"id":1}\n', ["line 2", "'id'", "as in the"]),
        ("d.jsonl", '{"text":"café","labels":[0]}\n'.encode("latin-1"), ["train.jsonl: not UTF-8"]),
    ],
)
def test_a_mistake_is_named_by_its_line(tmp_path, name, content, words):
    with pytest.raises(DataError) as error:
        texts_of(tmp_path, name, content)
    assert all(word in str(error.value) for word in words), error.value
