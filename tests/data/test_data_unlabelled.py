"""Oracle: the rows that a test writes, and the same data loaded whole."""

import json

import numpy as np
import pytest

from seal_hf import DataError, load_masks, load_multilabel, load_tags


def write_csv(path, texts, labels=None):
    lines = ["text,labels" if labels else "text", *(f"{t},{y}" for t, y in zip(texts, labels or texts, strict=True))]
    path.write_text("\n".join(lines if labels else [line.split(",")[0] for line in lines]) + "\n")
    return str(path)


@pytest.fixture
def table(tmp_path):
    for split, size in (("train", 12), ("validation", 4)):
        write_csv(
            tmp_path / f"{split}.csv",
            [f"{split} {i}" for i in range(size)],
            ["a|b" if i % 2 else "a" for i in range(size)],
        )
    return tmp_path


def test_label_sets_of_texts_keep_the_gold_of_a_few_rows_and_take_those_of_a_file(table, tmp_path):
    more = write_csv(tmp_path / "more.csv", ["new 0", "new 1"])
    whole = load_multilabel(str(table))
    data = load_multilabel(str(table), num_labelled=5, unlabelled=more)
    smaller = load_multilabel(str(table), num_labelled=3)
    assert len(data.train) == 5 and len(data.origins["train"]) == 5
    assert set(smaller.train["text"][:]) < set(data.train["text"][:])
    gold = dict(zip(whole.train["text"][:], whole.train["labels"][:], strict=True))
    assert all(gold[row["text"]] == row["labels"] for row in data.train)
    assert data.unlabelled.column_names == ["text"]
    assert {*data.train["text"][:], *data.unlabelled["text"][:]} == {*gold, "new 0", "new 1"}
    assert any("5 labelled rows, 7 unlabelled" in note for note in data.notes)
    assert data.label_names == whole.label_names
    alone = load_multilabel(str(table), unlabelled=more)
    assert len(alone.train) == 12 and alone.unlabelled["text"][:] == ["new 0", "new 1"]


def test_features_and_images_of_a_file_are_read_too(tmp_path):
    features = load_multilabel(num_labelled=10)
    assert len(features.train) == 10 and len(features.unlabelled) == 1990
    assert features.unlabelled.column_names == ["features"]
    (tmp_path / "more.jsonl").write_text(json.dumps({"features": [0.5] * features.num_features}) + "\n")
    more = load_multilabel(max_train_rows=20, unlabelled=str(tmp_path / "more.jsonl"))
    assert more.unlabelled["features"][:] == [[0.5] * features.num_features]
    images = load_multilabel("digit_images", max_train_rows=8, num_labelled=3)
    images.unlabelled[0]["image"].save(tmp_path / "one.png")
    again = load_multilabel("digit_images", max_train_rows=8, num_labelled=3, unlabelled=str(tmp_path / "one.png"))
    assert len(again.unlabelled) == 6
    assert np.array_equal(np.asarray(again.unlabelled[5]["image"]), np.asarray(images.unlabelled[0]["image"]))


def test_sentences_of_a_file_join_those_whose_tags_are_put_aside(tmp_path):
    (tmp_path / "more.conll").write_text("w1 X\nw2 O\n\nw3 O\n")
    data = load_tags(max_train_rows=10, num_labelled=4, unlabelled=tmp_path / "more.conll")
    assert len(data.train) == 4 and len(data.unlabelled) == 8
    assert data.unlabelled["words"][-2:] == [["w1", "w2"], ["w3"]] and "tags" not in data.unlabelled.column_names


def test_images_without_masks(tmp_path):
    whole = load_masks(max_train_rows=6)
    np.savez(tmp_path / "more.npz", images=whole.test.images[:2])
    data = load_masks(max_train_rows=6, num_labelled=2, unlabelled=tmp_path / "more.npz")
    assert len(data.train) == 2 and data.unlabelled.shape == (6, 32, 32, 3)
    assert np.array_equal(data.unlabelled[4:], whole.test.images[:2])
    known = {image.tobytes() for image in (*data.train.images, *data.unlabelled[:4])}
    assert known == {image.tobytes() for image in whole.train.images}


@pytest.mark.parametrize("load", [load_multilabel, load_tags, load_masks])
def test_an_impossible_number_of_labelled_rows_is_named(load):
    with pytest.raises(DataError, match="`num_labelled` is 0; it must be at least 1"):
        load(num_labelled=0)
    with pytest.raises(DataError, match="`num_labelled` is 9, but .* has 5 training rows"):
        load(max_train_rows=5, num_labelled=9)


def inputs_of(rows):
    columns = [rows.images] if hasattr(rows, "images") else [rows["words" if "words" in rows.features else "features"]]
    return [np.asarray(cell).tobytes() for column in columns for cell in column]


@pytest.mark.parametrize("load", [load_multilabel, load_tags, load_masks])
def test_a_smaller_validation_split_is_part_of_a_larger_one(load):
    whole, some, few = load(), load(max_validation_rows=9), load(max_validation_rows=4)
    whole_rows, some_rows, few_rows = (inputs_of(data.validation) for data in (whole, some, few))
    assert len(some_rows) == 9 and len(few_rows) == 4 and set(few_rows) < set(some_rows) < set(whole_rows)
    rest = iter(whole_rows)
    assert all(row in rest for row in some_rows)  # in their order
    assert inputs_of(some.train) == inputs_of(whole.train) and inputs_of(some.test) == inputs_of(whole.test)
    assert f"validation: 9 of {len(whole_rows)} rows (seed 0)." in some.notes
    if hasattr(whole, "origins"):
        everywhere = [whole.origins["validation"].of(i) for i in range(len(whole_rows))]
        places = [everywhere.index(some.origins["validation"].of(i)) for i in range(9)]
        assert [whole_rows[place] for place in places] == some_rows
    assert inputs_of(load(max_validation_rows=10_000).validation) == whole_rows
    assert inputs_of(load(seed=1, max_validation_rows=4).validation) != few_rows
    with pytest.raises(DataError, match="`max_validation_rows` is 0; it must be at least 1"):
        load(max_validation_rows=0)


def test_a_wrong_file_is_named(table, tmp_path):
    with pytest.raises(DataError, match="none.csv"):
        load_multilabel(str(table), unlabelled=str(tmp_path / "none.csv"))
    (tmp_path / "empty.csv").write_text("text\n")
    with pytest.raises(DataError, match="empty.csv"):
        load_multilabel(str(table), unlabelled=str(tmp_path / "empty.csv"))
    np.savez(tmp_path / "small.npz", images=np.zeros((1, 8, 8, 3), np.uint8))
    with pytest.raises(
        DataError, match="image 0: 8 x 8 pixels .height x width., but the images with masks have 32 x 32"
    ):
        load_masks(unlabelled=tmp_path / "small.npz")
