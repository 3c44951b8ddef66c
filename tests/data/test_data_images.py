"""Images with label sets: files and tables against what was written, every format of labels, the fake Hub, mistakes."""

import json

import datasets
import numpy as np
import pytest
import tiny_images
from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, List, Value
from fake_hub import FakeHub, Repo
from test_data_text import CELLS, JSON_CELLS
from tiny_images import COLOURS, squares, write_csv, write_files, write_folder

from seal_hf.data import DataError, kind_of, load_masks, load_multilabel
from seal_hf.data.embedded import LABEL_NAMES
from seal_hf.data.hygiene import fingerprint

pytest.importorskip("PIL", reason="image files need pillow")
SPLITS = ("train", "validation", "test")


def rows_of(data):
    """Bytes of the pixels -> names of the labels, of all rows."""
    assert data.kind == "images"
    splits = [getattr(data, name) for name in SPLITS if getattr(data, name) is not None]
    assert all(split.column_names == ["image", "labels"] for split in splits)
    rows = [row for split in splits for row in split]
    names = [{data.label_names[i] for i in np.flatnonzero(row["labels"])} for row in rows]
    return {np.asarray(row["image"]).tobytes(): found for row, found in zip(rows, names, strict=True)}


def written(count=40, seed=0):
    """What `squares` makes, in the same form."""
    images, labels = squares(count, seed)
    sets = ({COLOURS[i] for i in np.flatnonzero(row)} for row in labels)
    return {image.tobytes(): found for image, found in zip(images, sets, strict=True)}


def error_of(dataset, **options):
    with pytest.raises(DataError) as error:
        load_multilabel(dataset, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["folder", "csv", "beside", "splits", "folders", "names"])
def test_a_table_of_file_names_is_read_with_its_files(tmp_path, layout):
    images, labels = squares(40)
    parts = {"train": slice(30), "dev": slice(30, 36), "test": slice(36, 40)}
    if layout in ("folder", "csv"):
        write_folder(tmp_path)
    elif layout == "beside":  # the names hold the folder
        names = write_files(tmp_path / "jpegs" / "a", images)
        write_csv(tmp_path / "all.csv", [f"jpegs/a/{name}" for name in names], labels)
    elif layout == "names":  # tabs, no header, names of labels beside it
        names = write_files(tmp_path, images)
        lines = [f"{n}\t{','.join(map(str, np.flatnonzero(y)))}" for n, y in zip(names, labels, strict=True)]
        (tmp_path / "all.tsv").write_text("\n".join(lines) + "\n")
        (tmp_path / "labels.txt").write_text("\n".join(COLOURS) + "\n")
    for split, rows in parts.items() if layout in ("splits", "folders") else ():
        names = [f"{split}{i}.png" for i in range(len(labels[rows]))]
        place = tmp_path if layout == "splits" else tmp_path / split
        write_files(place, images[rows], names)
        file = f"{split}.csv" if layout == "splits" else "metadata.csv"
        write_csv(place / file, names, labels[rows], header="file_name,labels")
    given = tmp_path / "labels.csv" if layout == "csv" else tmp_path / "all.tsv" if layout == "names" else tmp_path
    assert kind_of(str(given)) == "images"
    data = load_multilabel(given)
    assert rows_of(data) == written() and set(data.label_names) == set(COLOURS)
    sizes = [len(getattr(data, split)) for split in SPLITS]
    assert sizes == ([32, 4, 4] if layout not in ("splits", "folders") else [30, 6, 4])
    origin = data.origins["train"].of(0)
    assert origin["file"].endswith(".png") and origin["line"] == (1 if layout == "names" else 2)


FORMATS = [("csv", name, cells) for name, some in CELLS.items() for cells in some]
FORMATS += [("jsonl", name, cells) for name, some in JSON_CELLS.items() for cells in some]


@pytest.mark.parametrize(("suffix", "label_format", "cells"), FORMATS)
def test_labels_have_the_formats_of_texts(tmp_path, suffix, label_format, cells):
    """Three files, each ten times, with the labels {a, c}, {} and {b}."""
    names = write_files(tmp_path, squares(3)[0])
    if suffix == "csv":
        quoted = ['"' + cell.replace('"', '""') + '"' for cell in cells]
        lines = ["image,labels", *[f"{n},{c}" for n, c in zip(names, quoted, strict=True)] * 10]
    else:
        lines = [json.dumps({"image": n, "labels": c}) for n, c in zip(names, cells, strict=True)] * 10
    (tmp_path / f"all.{suffix}").write_text("\n".join(lines) + "\n")
    for asked in (label_format, "auto"):
        data = load_multilabel(tmp_path / f"all.{suffix}", label_format=asked)
        a, b, c = ["a", "b", "c"] if label_format == "names" else ["0", "1", "2"]
        assert data.label_names == [a, b, c]
        assert list(rows_of(data).values()).count({a, c}) == 1 and set(map(len, rows_of(data).values())) == {2, 0, 1}
        assert any("rows repeat the input of another row" in note for note in data.notes)


def test_columns_of_0_and_1_weights_and_a_hierarchy(tmp_path):
    images, labels = squares(40)
    names = write_files(tmp_path, images)
    lines = [f"{n},{i},{','.join(f'{int(v)}' for v in y)}" for i, (n, y) in enumerate(zip(names, labels, strict=True))]
    (tmp_path / "all.csv").write_text("\n".join(["img,weight," + ",".join(COLOURS), *lines]) + "\n")
    data = load_multilabel(tmp_path, sample_weight="weight", hierarchy=[("red", "colour"), ("grey", "colour")])
    assert data.label_names == [*COLOURS, "colour"]
    for row, weight in zip(data.train, data.train["sample_weight"], strict=True):
        assert row["labels"][4] == max(row["labels"][0], row["labels"][3]) and weight >= 0
    assert "no column 'labels', but the others hold only 0 and 1: 4 labels" in " ".join(data.notes)
    assert "images: column 'img'" in " ".join(data.notes)
    asked = load_multilabel(tmp_path, label_columns="red,green", image_column="img")
    assert asked.label_names == ["red", "green"] and asked.kind == "images"


def test_texts_stay_texts(tmp_path):
    """Where a column has a usual name of texts, or one is named, file names are no images."""
    names = write_files(tmp_path, squares(3)[0])
    rows = "".join(f"{name},a text {i},x\n" for i, name in enumerate(names * 5))
    (tmp_path / "all.csv").write_text("file,text,labels\n" + rows)
    assert kind_of(str(tmp_path / "all.csv")) == load_multilabel(tmp_path / "all.csv").kind == "text"
    named = load_multilabel(tmp_path / "all.csv", text_column="file")
    assert named.kind == "text" and kind_of(str(tmp_path / "all.csv"), text_column="file") == "text"
    images = load_multilabel(tmp_path / "all.csv", image_column="file")
    assert images.kind == kind_of(str(tmp_path / "all.csv"), image_column="file") == "images"


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["dataset", "dict", "saved", "parquet", "plain parquet", "frame", "shuffled"])
def test_a_column_of_images_is_found_in_a_table(tmp_path, form):
    table = tiny_images.table(40).rename_column("image", "photo")
    names = [[COLOURS[i] for i in np.flatnonzero(row)] for row in table["labels"]]
    table = table.remove_columns("labels").add_column("labels", names)
    given = table
    if form == "dict":
        given = DatasetDict(train=table.select(range(30)), test=table.select(range(30, 40)))
    elif form == "saved":
        table.save_to_disk(tmp_path / "saved")
        given = tmp_path / "saved"
    elif form == "parquet":
        table.to_parquet(tmp_path / "all.parquet")
        given = tmp_path / "all.parquet"
    elif form == "plain parquet":  # bytes and path, without what `datasets` says of them
        from pyarrow import parquet

        plain = table.cast_column("photo", Image(decode=False)).with_format("arrow")[:]
        parquet.write_table(plain.replace_schema_metadata(None), tmp_path / "all.parquet")
        given = tmp_path / "all.parquet"
    elif form == "frame":
        pandas = pytest.importorskip("pandas", reason="frames need pandas")
        files = write_files(tmp_path, squares(40)[0])
        given = pandas.DataFrame({"file": [str(tmp_path / file) for file in files], "labels": names})
    elif form == "shuffled":
        given = table.shuffle(seed=0)
    if form in ("saved", "parquet", "plain parquet"):
        assert kind_of(str(given)) == "images"
    assert rows_of(load_multilabel(given)) == written()


@pytest.mark.parametrize("name", ["http://example.org/x.png", "zip://x.png::http://example.org/x.zip", "x.png", None])
def test_images_without_bytes_are_existing_files(tmp_path, name):
    from pyarrow import parquet

    images, labels = squares(20)
    files = [str(tmp_path / file) for file in write_files(tmp_path, images)]
    columns = {"labels": labels.tolist(), "image": [{"bytes": None, "path": file} for file in files]}
    types = Features({"labels": List(Value("int64")), "image": Image(decode=False)})
    Dataset.from_dict(columns, features=types).to_parquet(tmp_path / "all.parquet")
    found = load_multilabel(tmp_path / "all.parquet", label_format="multi_hot")
    assert {pixels for pixels in rows_of(found)} == {image.tobytes() for image in images}
    for row in (7, 9):
        columns["image"][row] = None if name is None else {"bytes": None, "path": name}
    table = Dataset.from_dict(columns, features=types)
    parquet.write_table(table.with_format("arrow")[:], tmp_path / "all.parquet")  # `to_parquet` would read the file
    found = "no image in the column 'image'" if name is None else f"no image file {name!r} on this machine"
    for given in (tmp_path / "all.parquet", table, table.cast_column("image", Image())):
        message = error_of(given, label_format="multi_hot")
        assert f"row 7 (counting from 0): {found}, nor for 1 other rows. Store the bytes" in message
    masks = table.remove_columns("labels").add_column("label", (images[..., 0] > 0).tolist())
    for columns in (("image", "label"), ("label", "image")):
        with pytest.raises(DataError, match=r"row 7 \(counting from 0\): no image"):
            load_masks(masks, image_column=columns[0], mask_column=columns[1])


def test_ids_of_a_class_label_have_its_names():
    images, labels = squares(20)
    ids = [np.flatnonzero(row).tolist() for row in labels]
    features = Features({"image": Image(), "label": List(ClassLabel(names=COLOURS))})
    data = load_multilabel(Dataset.from_dict({"image": list(images), "label": ids}, features=features))
    assert data.label_names == COLOURS and rows_of(data) == written(20)


CLIENT = """
import json
import numpy as np
from seal_hf.data import load_multilabel
data = load_multilabel("user/photos")
rows = [row for split in (data.train, data.validation, data.test) if split is not None for row in split]
sums = [[int(np.asarray(row["image"]).astype(int).sum()), row["labels"]] for row in rows]
print(json.dumps({"kind": data.kind, "sums": sorted(sums), "notes": data.notes}))
"""


@pytest.mark.long
def test_a_hub_data_set_of_images(tmp_path):
    table = tiny_images.table(12)
    table.to_parquet(tmp_path / "train.parquet")
    with FakeHub() as hub:
        hub.repos["dataset", "user/photos"] = Repo({}, {})
        files = {"data/train-00000-of-00001.parquet": (tmp_path / "train.parquet").read_bytes()}
        hub.repos["dataset", "user/photos"].add_commit("main", files, "data")
        found = json.loads(hub.run(CLIENT, tmp_path).splitlines()[-1])
    images, labels = squares(12)
    assert found["kind"] == "images"
    assert found["sums"] == sorted([int(i.astype(int).sum()), y.tolist()] for i, y in zip(images, labels, strict=True))


# --- the embedded ones -----------------------------------------------------------------------------------------------


def test_digit_images_are_the_groups_of_the_digits():
    data, features = load_multilabel("digit_images"), load_multilabel("digits")
    assert kind_of("digit_images") == data.kind == "images" and data.label_names == LABEL_NAMES
    for split in SPLITS:
        images, groups = getattr(data, split), getattr(features, split).with_format("numpy")
        assert (np.asarray(images.with_format("numpy")["labels"][:]) == groups["labels"][:]).all()
        for row in range(0, len(images), 400):
            canvas = np.asarray(images[row]["image"], dtype=float) / 255  # (16, 36)
            slots = groups["features"][row].reshape(8, 3, 8).transpose(1, 0, 2)
            for place, digit in enumerate(slots):  # the digit stands somewhere in its slot, and nothing else does
                slot = canvas[:, 12 * place : 12 * place + 12]
                assert slot.sum() == pytest.approx(digit.sum(), abs=0.2)
                windows = np.lib.stride_tricks.sliding_window_view(slot, (8, 8)).reshape(-1, 8, 8)
                assert abs(windows - digit).max((1, 2)).min() < 0.01
    assert fingerprint(data) == fingerprint(load_multilabel("digit_images"))
    other = load_multilabel("digit_images", seed=1, max_train_rows=50)
    assert fingerprint(data) != fingerprint(other) and len(other.train) == 50


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"normalize": "minmax"}, ["`normalize` is an option of features, but", "holds images. Leave it out"]),
        ({"text_column": "file", "image_column": "file"}, ["`text_column` and `image_column` are both given"]),
        ({"image_column": "files"}, ["has no column 'files'", "Did you mean 'file'?", "--image_column"]),
        ({"label_column": "label"}, ["has no column 'label'", "Did you mean 'labels'?"]),
        ({"keep_root": True}, ["`keep_root` is set"]),
    ],
)
def test_an_option_that_does_not_fit_is_named(tmp_path, options, words):
    message = error_of(write_folder(tmp_path), **options)
    assert all(word in message for word in words), message


def test_a_missing_file_is_named_with_its_row(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "images" / "p3.png").unlink()
    message = error_of(tmp_path)
    words = ["labels.csv, line 5: no image file 'p3.png' in", "or its folder images/. Did you mean 'p", "png'?"]
    assert all(word in message for word in words), message


def test_columns_that_are_no_images_or_several_are_named(tmp_path):
    names = write_files(tmp_path, squares(12)[0])
    two = Dataset.from_dict({"front": [str(tmp_path / n) for n in names], "back": [str(tmp_path / n) for n in names]})
    two = two.add_column("labels", [["a"], ["b"]] * 6)
    assert "2 columns hold images or names of image files: front, back. Name the one" in error_of(two)
    assert load_multilabel(two, image_column="back").kind == "images"
    numbers = Dataset.from_dict({"image": list(range(12)), "labels": [["a"], ["b"]] * 6})
    message = error_of(numbers, image_column="image")
    assert "the column 'image' holds Value('int64'), expected images or names of image files" in message


@pytest.mark.parametrize("option", ["sample_weight", "label_column", "image_column", "normalize"])
def test_the_embedded_images_take_no_columns(option):
    message = error_of("digit_images", **{option: "x" if option != "normalize" else "minmax"})
    assert f"`{option}`" in message and "Leave it out" in message


def test_a_column_of_sounds_or_images_beside_the_images_is_no_label(tmp_path):
    table = tiny_images.table(20).add_column("other", ["x"] * 20)
    table = table.add_column("second", table.cast_column("image", Image(decode=False))["image"][:])
    table = table.cast_column("second", datasets.Image())
    assert rows_of(load_multilabel(table, label_column="labels", label_format="multi_hot")).keys() == written(20).keys()


def test_labels_as_values_of_any_list_type():
    images, labels = squares(20)
    features = Features({"image": Image(), "labels": List(Value("string"))})
    rows = {"image": list(images), "labels": [[COLOURS[i] for i in np.flatnonzero(row)] for row in labels]}
    assert rows_of(load_multilabel(Dataset.from_dict(rows, features=features))) == written(20)
