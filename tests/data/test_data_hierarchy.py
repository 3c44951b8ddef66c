"""A hierarchy from files, pairs and Clus ARFF. Oracle: closures written out by hand."""

import numpy as np
import pytest

from seal_hf.data import DataError, load_multilabel

TEXTS = "text,labels\n" + "".join(f"row {i},{labels}\n" for i, labels in enumerate(["cat", "oak", "cat;dog", ""] * 5))
LINES = "cat,mammal\ndog,mammal\nmammal,animal\noak,plant\nfern,plant\n"  # fern, and no more, is nothing to the data


def write(folder, text=LINES, name="h.csv"):
    (folder / "data.csv").write_text(TEXTS)
    (folder / name).write_text(text)
    return {"dataset": str(folder / "data.csv"), "hierarchy": str(folder / name)}


def names_of(data, split="train"):
    rows = getattr(data, split)
    return {
        text: {data.label_names[i] for i in np.flatnonzero(labels)}
        for text, labels in zip(rows["text"][:], np.array(rows["labels"][:]), strict=True)
    }


def closed_by_hand(text):
    above = {"mammal", "animal"}
    return [{"cat"} | above, {"oak", "plant"}, {"cat", "dog"} | above, set()][int(text.split()[1]) % 4]


@pytest.mark.parametrize("header", ["", "child,parent\n", "Child,Parent\n"])
def test_label_sets_are_closed_upwards_and_parents_become_labels(tmp_path, header):
    data = load_multilabel(**write(tmp_path, header + LINES))
    assert data.label_names == ["cat", "dog", "oak", "mammal", "animal", "plant"]
    assert data.hierarchy.parents == ((3,), (3,), (5,), (4,), (), ())
    for split in ("train", "validation", "test"):
        assert all(found == closed_by_hand(text) for text, found in names_of(data, split).items())
    notes = "\n".join(data.notes)
    assert "3 of 3 labels occur in it" in notes and "became labels: mammal, animal, plant." in notes
    assert "25 ancestors added to 15 of 20 rows." in notes and "left out): fern." in notes


def test_pairs_tsv_and_a_turned_header_say_the_same(tmp_path):
    expected = load_multilabel(**write(tmp_path))
    turned = "parent\tchild\n" + "".join("\t".join(line.split(",")[::-1]) + "\n" for line in LINES.split())
    pairs = [tuple(line.split(",")) for line in LINES.split()]
    for options in (write(tmp_path, turned, "h.TSV"), write(tmp_path) | {"hierarchy": pairs}):
        data = load_multilabel(**options)
        assert data.label_names == expected.label_names and data.hierarchy == expected.hierarchy
        assert data.train["labels"][:] == expected.train["labels"][:]


def test_a_parent_of_unknown_children_is_unknown(tmp_path):
    """If the data have no column for it: 1 with a child that is 1, else -1 with a child that is -1, else 0."""
    rows = [("1", "-1"), ("0", "-1"), ("-1", "-1"), ("0", "0"), ("-1", "0"), ("0", "1")]
    lines = [f"row {i},{cat},{dog}" for i, (cat, dog) in enumerate(rows * 5)]
    (tmp_path / "data.csv").write_text("\n".join(["text,cat,dog", *lines]) + "\n")
    (tmp_path / "h.csv").write_text("cat,pet\ndog,pet\npet,animal\n")
    data = load_multilabel(str(tmp_path / "data.csv"), hierarchy=str(tmp_path / "h.csv"))
    expected = [1, -1, -1, 0, -1, 1]
    for text, labels in zip(data.train["text"][:], data.train["labels"][:], strict=True):
        assert labels[2:] == [expected[int(text.split()[1]) % 6]] * 2


def test_a_label_with_two_parents_brings_both(tmp_path):
    data = load_multilabel(**write(tmp_path, "cat,pet\ncat,mammal\ndog,pet\npet,animal\nmammal,animal\n"))
    brought = {"cat": {"pet", "mammal", "animal"}, "dog": {"pet", "animal"}, "oak": set()}
    for found in names_of(data).values():
        assert found == {name for label in found & brought.keys() for name in {label} | brought[label]}


def test_what_label_notes_said_before_the_closing_is_said_anew(tmp_path):
    for name, rows in (("train", "a,x\nb,x\nc,z\n"), ("dev", "d,y\n"), ("test", "e,x\n")):
        (tmp_path / f"{name}.csv").write_text("text,labels\n" + rows)
    assert "1 of 3 labels occur outside train only (kept): y." in load_multilabel(str(tmp_path)).notes
    data = load_multilabel(str(tmp_path), hierarchy=[("x", "y")])
    assert not any("outside train" in note for note in data.notes)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("cat,mammal\ndog\n", r"h\.csv, line 2: expected two names, child and parent; found 'dog'"),
        ("cat,mammal\n\ndog,a,b\n", r"h\.csv, line 3: expected two names"),
        ("cat,\n", r"h\.csv, line 1: expected two names"),
        ("cat;mammal\n", r"h\.csv, line 1: expected two names"),
        ("child,parent\ncat,cat\n", r"h\.csv, line 2: child and parent are both 'cat'"),
        ("cat,a\na,b\nb,a\n", r"h\.csv: a cycle, a -> b -> a \(child -> parent\)"),
        ("Cat,Mammal\n", r"h\.csv: no label of data occurs in it\. Its first names are Cat, Mammal"),
        ("", r"h\.csv is empty; expected pairs of a child and its parent"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(tmp_path, lines, said):
    with pytest.raises(DataError, match=said):
        load_multilabel(**write(tmp_path, lines))


def test_other_mistakes_are_named(tmp_path):
    options = write(tmp_path)
    for wrong, said in (
        (str(tmp_path / "none.csv"), "none.csv: no such file"),
        (str(tmp_path / "h.txt"), "expected a .csv or .tsv file"),
        ([("cat", "mammal"), ("dog",)], "`hierarchy`, pair 1: expected two names"),
        ([("cat", "cat")], "`hierarchy`, pair 0: child and parent are both"),
        ([("cat", 3)], "`hierarchy`, pair 0: expected two names"),
    ):
        with pytest.raises(DataError, match=said):
            load_multilabel(**options | {"hierarchy": wrong})


def test_clus_files_bring_their_own(tmp_path):
    header = "@relation r\n@attribute x numeric\n@attribute class hierarchical 01,01/02,01/02/03,04\n@data\n"
    for split, rows in (("train", "1,01/02\n3,04\n"), ("valid", "2,01\n"), ("test", "5,01/02/03\n")):
        (tmp_path / f"m.{split}.arff").write_text(header + rows)
    data, kept = load_multilabel(str(tmp_path)), load_multilabel(str(tmp_path), keep_root=True)
    assert data.label_names == ["01", "01/02", "01/02/03", "04"]
    assert data.hierarchy.parents == ((), (0,), (1,), ())
    assert kept.hierarchy.parents == ((), (0,), (1,), (2,), (0,)) and kept.hierarchy.root == 0
    with pytest.raises(DataError, match="has its own hierarchy. Leave it out"):
        load_multilabel(str(tmp_path), hierarchy=[("04", "01")])


def test_images_stay_images(tmp_path):
    (tmp_path / "h.csv").write_text("digit 0,any\n")
    data = load_multilabel("digit_images", max_train_rows=4, hierarchy=str(tmp_path / "h.csv"))
    assert data.train[0]["image"].size and data.label_names[-1] == "any"
