"""Where rows were read. Oracle: what `origins` names, looked up in the file itself, is the row that the loader gave."""

import csv
import io
import itertools
import json
import re
from pathlib import Path

import arff
import datasets
import numpy as np
import pytest

from seal_hf.data import Origins, load_masks, load_multilabel, load_srl, load_tags

SPLITS = ("train", "validation", "test")


def origins_of(data) -> dict[str, tuple[Origins, object]]:
    """(origins, rows) of each split, one origin per row, all of which JSON can hold."""
    tests = getattr(data, "extra_tests", {})
    splits = {name: getattr(data, name) for name in SPLITS if getattr(data, name) is not None} | tests
    assert set(data.origins) == set(splits)
    for split, rows in splits.items():
        assert len(data.origins[split]) == len(rows)
        json.dumps([data.origins[split].of(i) for i in range(len(rows))])
    return {split: (data.origins[split], rows) for split, rows in splits.items()}


def lines_from(origin: dict) -> list[str]:
    """The lines of the file, from the one that is named on, as an editor shows them."""
    return Path(origin["source"]).read_text(encoding="utf-8-sig").split("\n")[origin["line"] - 1 :]


def texts_of(data):
    """(origin, text, names of its labels) of all rows."""
    for origins, rows in origins_of(data).values():
        for i, row in enumerate(rows.to_list()):
            yield origins.of(i), row["text"], {data.label_names[j] for j in np.flatnonzero(row["labels"])}


# Texts

TEXTS = ["plain", 'a "quote"', "two\nlines", "three\n\nlines, a comma", "plain", "é: end\n"]  # one is there twice


def test_a_csv_row_begins_where_its_line_says(tmp_path):
    out, rows = io.StringIO(newline=""), [(f"k{i}", TEXTS[i % 6], "b" if i % 3 else "a|b") for i in range(40)]
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(["id", "text", "labels"])
    for row in rows:
        writer.writerow(row)
        out.write("\r\n" * (row[0] in ("k3", "k4")))  # blank lines
    path = tmp_path / "all.csv"
    path.write_bytes("\ufeff".encode() + out.getvalue().encode())
    for options in ({"seed": 1}, {"seed": 2, "max_train_rows": 5}):
        found = list(texts_of(load_multilabel(str(path), **options)))
        for origin, text, labels in found:
            cells = next(csv.reader(line + "\n" for line in lines_from(origin)))
            assert cells == [origin["id"], text.replace("\r\n", "\n"), cells[2]] and set(cells[2].split("|")) == labels
            assert set(origin) == {"source", "line", "id"} and origin["source"] == str(path)
        ids = [origin["id"] for origin, _, _ in found]
        assert len(set(ids)) == len(ids) == (40 if options["seed"] == 1 else 13)
    assert max(origin["line"] for origin, _, _ in found) > 42  # else lines would be rows


def test_a_jsonl_row_stands_in_its_line(tmp_path):
    rows = [{"id": 100 - i, "text": TEXTS[i % 6] + "\u2028", "labels": [i % 2]} for i in range(20)]
    body = "\n".join(json.dumps(row, ensure_ascii=False) + "\n" * (i % 3 == 0) for i, row in enumerate(rows))
    (tmp_path / "all.jsonl").write_text("\n  \n" + body, encoding="utf-8")
    found = list(texts_of(load_multilabel(str(tmp_path / "all.jsonl"))))
    for origin, text, labels in found:
        row = json.loads(lines_from(origin)[0])
        assert (row["text"], {str(row["labels"][0])}, row["id"]) == (text, labels, origin["id"])
    assert {origin["id"] for origin, _, _ in found} == {row["id"] for row in rows}


@pytest.mark.parametrize("header", ["", "text\tlabels\tid\n"])
def test_a_folder_of_tsv_files_names_the_file_of_each_split(tmp_path, header):
    (tmp_path / "labels.txt").write_text("joy\nfear\n")
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(header + "".join(f"t {i}\t{i % 2}\t{split}{i}\n\n" for i in range(4)))
    data = load_multilabel(str(tmp_path), max_train_rows=3)
    for origin, text, labels in texts_of(data):
        cells = lines_from(origin)[0].split("\t")
        assert cells == [text, cells[1], origin["id"]] and labels == {["joy", "fear"][int(cells[1])]}
        assert Path(origin["source"]).stem in origin["id"]
    assert data.origins["validation"].of(2) == {
        "source": str(tmp_path / "dev.tsv"),
        "line": 5 + bool(header),
        "id": "dev2",
    }


def test_without_a_column_of_ids_there_is_none(tmp_path):
    (tmp_path / "all.csv").write_text("text,labels\n" + "hello,a\n" * 10)
    assert load_multilabel(str(tmp_path / "all.csv")).origins["test"].ids is None


def test_a_hub_set_has_rows_of_its_splits(monkeypatch):
    whole = {"text": [f"t{i}" for i in range(30)], "labels": [["a", "b"][i % 2] for i in range(30)]}
    train = datasets.Dataset.from_dict(whole | {"id": [i / 2 for i in range(30)]})
    dev = datasets.Dataset.from_dict({"text": ["x", "y"], "labels": ["a", "b"], "id": [None, 3.0]})
    for loaded in ({"train": train}, {"train": train, "test": dev}, {"train": train, "dev": dev}):
        monkeypatch.setattr("datasets.load_dataset", lambda *_, loaded=loaded: loaded)
        data = load_multilabel("owner/name:part", max_train_rows=7)
        seen = set()
        for origin, text, labels in texts_of(data):
            split = re.fullmatch(r"owner/name:part, (\w+) split", origin["source"]).group(1)
            row = loaded[split][origin["row"]]
            assert (row["text"], {row["labels"]}, row["id"]) == (text, labels, origin["id"])
            seen.add((split, origin["row"]))
        assert len(seen) == sum(map(len, (origins for origins, _ in origins_of(data).values())))


# ARFF


def write_arff(path: Path, count: int, first: int = 0) -> None:
    """Rows of an identifier, of which the nominal values hold commas and quotes, a feature and two labels."""
    names = [f"'row {i}, it\\'s'" for i in range(first, first + count)]
    rows = [f"{name},{i / 4},{i % 2},{i % 3 % 2}" for i, name in enumerate(names)]
    header = f"@relation r\n@attribute key {{{','.join(names)}}}\n@attribute x numeric\n"
    body = "\n% a comment\n\n".join(rows)
    path.write_text(header + "@attribute a {0,1}\n@attribute b {0,1}\n@data\n" + body + "\n")


def check_arff(data) -> list[dict]:
    """Each row is the one that liac-arff reads there; returns the origins."""
    found, parsed = [], {}
    for origins, rows in origins_of(data).values():
        for i, row in enumerate(rows.to_list()):
            origin = origins.of(i)
            file = origin["source"]
            if file not in parsed:
                parsed[file] = arff.loads(Path(file).read_text())["data"]
            key, *numbers = parsed[file][origin["row"]]
            assert (key, [float(v) for v in numbers]) == (origin["id"], [*row["features"][-1:], *row["labels"]])
            found.append(origin)
    return found


@pytest.mark.parametrize("folds", [False, True])
@pytest.mark.parametrize("keep_id", [False, True])
def test_an_arff_row_has_its_number_and_its_identifier(tmp_path, folds, keep_id):
    write_arff(tmp_path / "toy.arff", 30)
    (tmp_path / "toy.xml").write_text('<labels><label name="a"/><label name="b"/></labels>')
    if folds:
        order = np.random.default_rng(0).permutation(30)
        (tmp_path / "folds.json").write_text(json.dumps({"folds": order.reshape(10, 3).tolist()}))
    found = check_arff(load_multilabel(str(tmp_path), keep_id=keep_id))
    assert sorted(origin["row"] for origin in found) == list(range(30))
    assert len(check_arff(load_multilabel(str(tmp_path), max_train_rows=4))) == 16


def test_rows_of_mulan_files_name_the_file(tmp_path):
    write_arff(tmp_path / "toy-train.arff", 20)
    write_arff(tmp_path / "toy-test.arff", 12, first=20)
    (tmp_path / "toy.xml").write_text('<labels><label name="a"/><label name="b"/></labels>')
    data = load_multilabel(str(tmp_path), max_train_rows=9)
    found = check_arff(data)
    assert {Path(origin["source"]).name for origin in found[:-12]} == {"toy-train.arff"}
    assert data.origins["test"].of(3) == {"source": str(tmp_path / "toy-test.arff"), "row": 3, "id": "row 23, it's"}


def test_rows_of_clus_files_name_the_file(tmp_path):
    header = "@relation r\n@attribute x numeric\n@attribute class hierarchical 1,1/2\n@attribute z string\n@data\n"
    for word in ("train", "valid", "test"):
        rows = "".join(f"{i},1,key{word}{i}\n" for i in range(12))
        (tmp_path / f"m.{word}.arff").write_text(header + rows)
    data = load_multilabel(str(tmp_path), max_train_rows=5)
    for split, (origins, rows) in origins_of(data).items():
        word = {"validation": "valid"}.get(split, split)
        for i, (x,) in enumerate(rows["features"]):
            file = str(tmp_path / f"m.{word}.arff")
            assert origins.of(i) == {"source": file, "row": i, "id": f"key{word}{i}"} and x == i


# Tags


def check_words(data, word_column: int = 0, tag_column: int = -1) -> list[dict]:
    """The words and tags of each sentence stand in the line that is named and those below; returns the origins."""
    found = []
    for origins, rows in origins_of(data).values():
        for i, row in enumerate(rows.to_list()):
            origin = origins.of(i)
            cells = [line.split() for line in lines_from(origin)[: len(row["words"]) + 1]]
            after = cells[len(row["words"]) :]
            assert [line[word_column] for line in cells[: len(row["words"])]] == row["words"]
            assert [line[tag_column] for line in cells[: len(row["words"])]] == [
                data.label_names[tag] for tag in row["tags"]
            ]
            assert after in ([], [[]]) and set(origin) == {"source", "line"}
            found.append(origin)
    return found


def columns(count: int, mark: str = "w") -> str:
    """Sentences with comments, documents, a sentence of comments alone, many empty lines, and the same words twice."""
    blocks = []
    for i in range(count):
        words = [f"{mark}{i // 2}", *["x"] * (i % 4), "#"]
        blocks.append("".join(f"{word}\t{'B-A' if j == 0 else 'O'}\n" for j, word in enumerate(words)))
    return "# only a comment\n\n-DOCSTART-\tO\n\n# a comment\n" + "\n \n# id\n".join(blocks)


def test_a_sentence_of_columns_begins_where_its_line_says(tmp_path):
    path = tmp_path / "all.conll"
    path.write_text(columns(40), encoding="utf-8")
    found = check_words(load_tags(str(path), seed=3))
    assert len({origin["line"] for origin in found}) == 40 and {origin["source"] for origin in found} == {str(path)}
    drawn = load_tags(str(path), seed=3, max_train_rows=20, train_subset="random", num_labelled=12)
    assert len(check_words(drawn)) == 12 + 4 + 4 and len(drawn.unlabelled) == 8


def test_further_tests_of_a_folder_name_their_file(tmp_path):
    for name in ("x.train.conll", "x.dev.conll", "x.test.conll", "other.conll"):
        (tmp_path / name).write_text(columns(6, mark=name[2]))
    data = load_tags(str(tmp_path))
    check_words(data)
    assert {split: Path(origins.source).name for split, origins in data.origins.items()} == {
        "train": "x.train.conll",
        "validation": "x.dev.conll",
        "test": "x.test.conll",
        "other.conll": "other.conll",
    }


def test_a_reference_begins_at_its_first_word(tmp_path):
    mark = "<NEWREFERENCE>"
    parts = [f"{mark}\n\n<author> A{i}\nB. </author>\n<date>\n{i}. </date>\n" for i in range(20)]
    parts[3] = f"{mark}\n\n"  # nothing, which is dropped
    parts[5] = f"{mark} early </author>\n".replace("</author>", "")
    (tmp_path / "cora.txt").write_text("\n".join(parts))
    data, found = load_tags(str(tmp_path / "cora.txt")), set()
    for origins, rows in origins_of(data).values():
        for i, row in enumerate(rows.to_list()):
            first, *_ = re.sub("<[^ ]+>", "", lines_from(origins.of(i))[0]).split()
            text = "\n".join(lines_from(origins.of(i))).replace(mark, "", row["words"][0] == "early").partition(mark)[0]
            assert first == row["words"][0] and re.sub(r"</?\w+>", "", text).split() == row["words"]
            found.add(origins.of(i)["line"])
    assert len(found) == 19


def test_propositions_begin_where_their_sentence_does(tmp_path):
    sentence = (
        "# id\n0\tHe{0}\tPRP\t*\t-\t-\t(ARG0*)\t*\n1\tsaid\tVBD\t*\tsay\tsay.01\t(V*)\t*\n"
        "2\tleft\tVBD\t*\tleave\tleave.01\t*\t(V*)\n"
    )
    none = "0\tYes\tUH\t*\t-\t-\n\n"
    (tmp_path / "all.srl").write_text("".join(f"{none}\n{sentence.format(i)}\n" for i in range(20)))
    data, seen = load_srl(str(tmp_path / "all.srl")), []
    for origins, rows in origins_of(data).values():
        for i, row in enumerate(rows.to_list()):
            cells = [line.split("\t") for line in lines_from(origins.of(i))[: len(row["words"])]]
            assert [line[1] for line in cells] == row["words"]
            seen.append((origins.of(i)["line"], row["predicate"]))
    assert len(seen) == len(set(seen)) == 40 and len({line for line, _ in seen}) == 20


TABLE = [{"id": f"s{i}", "tokens": [f"w{i}"] * (i % 3), "tags": ["B-A"] * (i % 3)} for i in range(30)]  # some are empty


def test_sentences_of_a_jsonl_file_stand_in_their_lines(tmp_path):
    path = tmp_path / "all.jsonl"
    path.write_text("\n" + "".join(json.dumps(row) + "\n" * (1 + i % 2) for i, row in enumerate(TABLE)))
    data, ids = load_tags(str(path)), set()
    for origins, rows in origins_of(data).values():
        for i, words in enumerate(rows["words"]):
            row = json.loads(lines_from(origins.of(i))[0])
            assert (row["tokens"], row["id"]) == (words, origins.of(i)["id"])
            ids.add(row["id"])
    assert len(ids) == 20


@pytest.mark.parametrize("kind", ["parquet", "hub"])
def test_sentences_of_other_tables_have_rows(tmp_path, monkeypatch, kind):
    table, path = datasets.Dataset.from_list(TABLE), tmp_path / f"train.{kind}"
    if kind == "hub":
        monkeypatch.setattr("datasets.load_dataset", lambda *_: {"train": table, "dev": table.select(range(9))})
    else:
        table.to_parquet(str(path))
    data = load_tags("owner/name" if kind == "hub" else str(path), max_train_rows=9)
    for split, (origins, rows) in origins_of(data).items():
        for i, words in enumerate(rows["words"]):
            number = origins.of(i)["row"]
            assert TABLE[number]["tokens"] == words
            source = f"owner/name, {'dev' if split == 'validation' else split} split" if kind == "hub" else str(path)
            assert origins.of(i) == {"source": source, "row": number, "id": f"s{number}"}


def test_sentences_of_an_array_have_the_lines_of_their_objects(tmp_path):
    path = tmp_path / "all.json"
    path.write_text(json.dumps(TABLE, indent=1))
    lines = path.read_text().split("\n")
    for origins, rows in origins_of(load_tags(str(path))).values():
        for i, words in enumerate(rows["words"]):
            place = origins.of(i)
            assert lines[place["line"] - 1] == " {" and f'"{place["id"]}"' in lines[place["line"]]
            assert TABLE[int(place["id"][1:])]["tokens"] == words


# Images


def pictures(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, 4, 5, 3), np.uint8), rng.integers(0, 2, (count, 4, 5), np.uint8)


def test_images_have_rows_of_their_npz_file(tmp_path):
    images, masks = pictures(30)
    for name in ("all", "x_train"):
        path = tmp_path / f"{name}.npz"
        np.savez(path, images=images, masks=masks)
        test = {} if name == "all" else {"images": images[:5], "masks": masks[:5]}
        if test:
            np.savez(tmp_path / "x_test.npz", **test)
            path = tmp_path
            (tmp_path / "all.npz").unlink()
        for origins, rows in origins_of(load_masks(str(path), max_train_rows=11)).values():
            stored = np.load(origins.source)["images"]
            assert np.array_equal(stored[origins.rows], rows.images)
            assert origins.of(1) == {"source": origins.source, "row": int(origins.rows[1])}


@pytest.mark.parametrize("parts", [[""], ["train", "val"]])
def test_images_have_names_of_files(tmp_path, parts):
    image_of = pytest.importorskip("PIL.Image", reason="image files need pillow")
    images, masks = pictures(20)
    for part, kind in itertools.product(parts, ("images", "masks")):
        (tmp_path / part / kind).mkdir(parents=True)
        for i, array in enumerate(images if kind == "images" else masks):
            image_of.fromarray(array).save(tmp_path / part / kind / f"{i * 7}.{'bmp' if kind == 'images' else 'png'}")
    data = load_masks(str(tmp_path), max_train_rows=15)
    for origins, rows in origins_of(data).values():
        for i, image in enumerate(rows.images):
            origin = origins.of(i)
            assert set(origin) == {"source", "file"}
            with image_of.open(Path(origin["source"]) / origin["file"]) as file:
                assert np.array_equal(np.asarray(file), image)


def test_images_of_the_hub_have_rows_and_ids(monkeypatch):
    images, masks = pictures(20)
    columns = {"image": images.tolist(), "mask": masks.tolist(), "id": [f"i{i}" for i in range(20)]}
    table = datasets.Dataset.from_dict(columns)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_: {"train": table, "val": table.select(range(4, 8))})
    for split, (origins, rows) in origins_of(load_masks("owner/name", max_train_rows=6)).items():
        numbers = origins.rows + (4 if split == "validation" else 0)
        assert np.array_equal(images[numbers], rows.images)
        assert origins.source == f"owner/name, {'val' if split == 'validation' else split} split"
        assert origins.of(2)["id"] == f"i{numbers[2]}"


# Embedded data


@pytest.mark.parametrize("load, name", [(load_multilabel, "digits"), (load_masks, "digits"), (load_tags, "toy_tags")])
def test_embedded_rows_are_those_of_the_whole_split(load, name):
    def row(part, i):
        return part.images[i].tolist() if load is load_masks else part[i]

    whole, some = load(), load(max_train_rows=7)
    for split, (origins, rows) in origins_of(some).items():
        for i in (0, len(rows) - 1):
            assert origins.of(i) == {"source": f"{name}, {split} split", "row": i}
            assert row(rows, i) == row(getattr(whole, split), i)
