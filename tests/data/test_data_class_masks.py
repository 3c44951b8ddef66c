"""Masks of several classes in files and tables: what was written is read back, with its names; every mistake is named
with its file."""

import json

import datasets
import numpy as np
import pytest

from seal_hf import MaskRows
from seal_hf.core.masks import palette
from seal_hf.data.common import DataError
from seal_hf.data.mask_values import MaskValues
from seal_hf.data.masks import load_masks
from seal_hf.data.pictures import pictures_of

C = 4
NAMES = ["sky", "road", "car", "tree"]


def pictures(count=20, size=(6, 5), classes=C):
    rng = np.random.default_rng(0)
    masks = rng.integers(0, classes, (count, *size), np.uint8)
    masks[:, 0, 0], masks[:, 1, 1] = np.arange(count) % classes, 255
    return rng.integers(0, 256, (count, *size, 3), np.uint8), masks


def write(folder, images, masks, mode="L"):
    """A folder of images and masks, index or palette PNG."""
    Image = pytest.importorskip("PIL.Image", reason="image files need pillow")
    for part, arrays in (("images", images), ("masks", masks)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for i, array in enumerate(arrays):
            image = Image.fromarray(array)
            if part == "masks" and mode == "P":
                image.putpalette(palette().tobytes())
            image.save(folder / part / f"{i:03d}.png")
    return folder


def by_image(data):
    """Image as bytes -> its mask, over all splits."""
    splits = [split for split in (data.train, data.validation, data.test) if split is not None]
    pairs = ((image.tobytes(), mask) for split in splits for image, mask in zip(split.images, split.masks, strict=True))
    return dict(pairs)


def assert_read(data, images, expected):
    found = by_image(data)
    assert len(found) == len(images)
    assert all(np.array_equal(found[i.tobytes()], m) for i, m in zip(images, expected, strict=True))


# --- classes and their names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["L", "P"])
def test_index_and_palette_masks_are_class_ids(tmp_path, mode):
    images, masks = pictures()
    data = load_masks(str(write(tmp_path, images, masks, mode)))
    assert data.label_names == ["0", "1", "2", "3"] and data.kind == "masks"
    assert_read(data, images, masks)
    said = " ".join(data.notes)
    assert "4 classes without names: name them in classes.txt" in said and "20 pixels do not count" in said


def names_in(file):
    """Write the names as the file's suffix says."""
    file.write_text(json.dumps(dict(enumerate(NAMES))) if file.suffix == ".json" else "\n".join([*NAMES, "", ""]))
    return str(file)


@pytest.mark.parametrize("kind", ["folder", "npz"])
@pytest.mark.parametrize("file", ["classes.txt", "id2label.json"])
def test_names_come_from_a_file_beside_the_data(tmp_path, kind, file):
    images, masks = pictures()
    names_in(tmp_path / file)
    if kind == "npz":
        np.savez(tmp_path / "all.npz", images=images, masks=masks)
    data = load_masks(str(tmp_path / "all.npz" if kind == "npz" else write(tmp_path, images, masks)))
    assert data.label_names == NAMES and not any("names" in note for note in data.notes)


@pytest.mark.parametrize("given", [NAMES, "sky, road,car,tree", ["names.txt"], "names.json"])
def test_given_names_replace_those_beside_the_data(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    images, masks = pictures()
    write(tmp_path / "data", images, masks)
    (tmp_path / "data/classes.txt").write_text("a\nb\nc\nd")
    for name in ("names.txt", "names.json"):
        names_in(tmp_path / name)
    assert load_masks("./data", class_names=given).label_names == NAMES


def test_two_names_are_binary_and_a_class_may_not_occur(tmp_path):
    images, masks = pictures(classes=2)
    write(tmp_path, images, masks)
    assert load_masks(str(tmp_path), class_names=["ground", "building"]).label_names == ["ground", "building"]
    data = load_masks(str(tmp_path), class_names=NAMES)
    assert data.label_names == NAMES
    assert "2 of 4 classes have no pixel in train: car, tree." in data.notes


def test_a_value_that_does_not_count_and_reduced_labels(tmp_path):
    images, masks = pictures()
    np.savez(tmp_path / "all.npz", images=images, masks=np.where(masks == 255, -1, masks))
    data = load_masks(str(tmp_path / "all.npz"), ignore_index=-1)
    assert_read(data, images, masks)
    assert data.train.inputs == {"ignore_index": -1} == MaskRows(data.train).inputs
    np.savez(tmp_path / "all.npz", images=images, masks=masks)
    data = load_masks(str(tmp_path / "all.npz"), reduce_labels=True, class_names=NAMES[1:])
    assert_read(data, images, np.where((masks == 255) | (masks == 0), 255, masks - 1))
    assert data.train.inputs == {"reduce_labels": True} and data.label_names == NAMES[1:]
    data = load_masks(str(tmp_path / "all.npz"), ignore_index=3)
    assert data.label_names == ["0", "1", "2"] and (by_image(data)[images[3].tobytes()][0, 0]) == 255


def test_masks_that_may_number_their_objects_are_noted(tmp_path):
    """As in Penn-Fudan: 1, 2, ... are the pedestrians of an image. No note where a mask leaves a class out."""
    images, masks = pictures()
    for i, mask in enumerate(masks):
        mask[:] = np.minimum(np.arange(30).reshape(6, 5), 1 + i % 4)
    said = "each mask holds 0, 1, 2, ... to an end of its own: are these the numbers of its objects, not classes?"
    np.savez(tmp_path / "all.npz", images=images, masks=masks)
    assert said in " ".join(load_masks(str(tmp_path / "all.npz")).notes)
    assert said not in " ".join(load_masks(str(tmp_path / "all.npz"), class_names=["a", "b", "c", "d", "e"]).notes)
    masks[3] = np.where(masks[3] == 1, 0, masks[3])
    np.savez(tmp_path / "all.npz", images=images, masks=masks)
    assert said not in " ".join(load_masks(str(tmp_path / "all.npz")).notes)


def test_255_stays_ignored_where_a_value_is_named_that_does_not_count(tmp_path):
    images, masks = pictures(classes=2)
    np.savez(tmp_path / "all.npz", images=images, masks=np.where(masks == 1, 255, 0))
    assert load_masks(str(tmp_path / "all.npz")).train.masks.max() == 1
    assert set(np.unique(load_masks(str(tmp_path / "all.npz"), ignore_index=255).train.masks)) == {0, 255}


def test_splits_have_their_share_of_each_class(tmp_path):
    images, masks = pictures(40)
    masks[:] = 0
    masks[:20, 0, 0] = 1 + np.arange(20) % 2  # ten images with each of two classes
    np.savez(tmp_path / "all.npz", images=images, masks=masks)
    data = load_masks(str(tmp_path / "all.npz"))
    assert [sum((mask == c).any() for mask in data.train.masks) for c in (1, 2)] == [8, 8]


def test_the_embedded_digits_have_a_class_each():
    """A quarter of an image is a digit of scikit-learn's, its pixels with half the ink or more in its class, or empty.
    No digit is in two splits."""
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    known: dict = {}
    for index, (image, target) in enumerate(zip(digits.images, digits.target, strict=True)):
        known.setdefault(((image >= 8) * (target + 1)).astype(np.uint8).tobytes(), set()).add(index)
    data, used = load_masks("digit_classes"), []
    assert data.label_names == ["background", *map(str, range(10))] and data.notes == []
    for split in (data.train, data.validation, data.test):
        quarters = [mask[y : y + 8, x : x + 8] for mask in split.masks for y in (0, 8) for x in (0, 8)]
        assert split.images.shape[1:] == (16, 16, 3) and sum(not quarter.any() for quarter in quarters) == len(split)
        assert all(quarter.astype(np.uint8).tobytes() in known for quarter in quarters if quarter.any())
        shapes = [known[quarter.astype(np.uint8).tobytes()] for quarter in quarters if quarter.any()]
        used.append({index for same in shapes if len(same) == 1 for index in same})
    assert not used[0] & used[1] and not used[0] & used[2] and not used[1] & used[2]


# --- tables and the Hub ----------------------------------------------------------------------------------------------


def test_names_of_hub_data_come_from_its_repo(tmp_path, monkeypatch):
    Image = pytest.importorskip("PIL.Image", reason="image columns need pillow")
    images, masks = pictures()
    columns = {"pixel_values": list(map(Image.fromarray, images)), "label": list(map(Image.fromarray, masks))}
    features = datasets.Features({"pixel_values": datasets.Image(), "label": datasets.Image()})
    table = datasets.Dataset.from_dict(columns, features=features)
    monkeypatch.setattr(datasets, "load_dataset", lambda repo, configuration: datasets.DatasetDict({"train": table}))
    (tmp_path / "id2label.json").write_text(json.dumps(dict(enumerate(NAMES))))
    asked = []

    def download(repo, name, repo_type):
        asked.append((repo, name, repo_type))
        if not (tmp_path / name).is_file():
            raise FileNotFoundError(name)
        return str(tmp_path / name)

    monkeypatch.setattr("seal_hf.data.mask_values.hf_hub_download", download)
    data = load_masks("someone/streets:small")
    assert data.label_names == NAMES and asked == [("someone/streets", "id2label.json", "dataset")]
    assert_read(data, images, masks)
    (tmp_path / "id2label.json").unlink()
    assert load_masks("someone/streets").label_names == ["0", "1", "2", "3"]
    monkeypatch.undo()
    assert load_masks(table, class_names=NAMES).label_names == NAMES


# --- for predict and evaluate ----------------------------------------------------------------------------------------


def test_gold_masks_of_a_model_are_those_of_the_training_reader(tmp_path):
    images, masks = pictures()
    np.savez(tmp_path / "all.npz", images=images, masks=np.where(masks == 255, 9, masks))
    data = load_masks(str(tmp_path / "all.npz"), ignore_index=9)
    found = by_image(data)
    values = MaskValues.of_inputs(data.train.inputs)
    for picture in pictures_of(tmp_path / "all.npz", gold=True, values=values, num_classes=C):
        assert np.array_equal(found[picture.image.tobytes()], picture.mask)
    with pytest.raises(
        DataError, match=r"all.npz, row \d+: the mask holds the class 3, but the model has 3 classes, 0 to 2"
    ):
        list(pictures_of(tmp_path / "all.npz", gold=True, values=values, num_classes=3))


@pytest.mark.parametrize("inputs", [{"ignore_index": "11"}, {"reduce_labels": 3}])
def test_damaged_saved_values_are_refused(inputs):
    with pytest.raises(ValueError, match="`config.inputs` has ignore_index"):
        MaskValues.of_inputs(inputs)


# --- mistakes --------------------------------------------------------------------------------------------------------


def test_mistakes_in_masks_are_named_with_the_file(tmp_path):
    images, masks = pictures()

    def refused(message, changed, mode="L", **options):
        folder = write(tmp_path / str(len(list(tmp_path.iterdir()))), images, changed, mode)
        with pytest.raises(DataError, match=message) as caught:
            load_masks(str(folder), **options)
        assert "\n" not in str(caught.value)

    at = lambda value: [*masks[:7], np.where(masks[7] == 3, value, masks[7]).astype(np.uint8), *masks[8:]]  # noqa: E731
    beyond = r"masks.007.png: the mask holds the class 9, but there are 4 classes, 0 to 3: sky, road, car, tree. Name"
    refused(beyond, at(9), class_names=NAMES)
    refused(r"masks.007.png: the mask holds the value 9, but no mask holds 4: .* Threshold a mask", at(9))
    refused(
        r"holds the value 4, but no mask holds 0: .* If ids begin at 1, give `reduce_labels`",
        np.where(masks < 255, masks + 1, 255),
    )
    refused("the class 4, but there are 4 classes.* If 0 is no class, as in ADE20K, give `reduce_labels`", at(4),
            class_names=NAMES)  # fmt: skip
    refused("no mask holds 1: .* If 0, 60, 120, 180, 255 are the classes, write them as 0 to 4",
            np.where(masks < 255, masks * 60, 255))  # fmt: skip
    refused(r"masks.003.png: the image is 6 x 5 pixels and its mask 4 x 5", [*masks[:3], masks[3, :4], *masks[4:]])
    colour = palette()[masks[5]]
    refused(r"masks.005.png: the mask has shape \(6, 5, 3\) with different channels.*palette PNG",
            [*masks[:5], colour, *masks[6:]])  # fmt: skip
    blurred = np.random.default_rng(0).integers(0, 255, (20, 6, 5), np.uint8)
    refused(
        r"masks.\d+.png: the mask holds the value 25\d, (but no mask holds|and there are 25\d values).*Threshold",
        blurred,
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["sky"], "`class_names`: 1 names of classes; expected from 2 to 255"),
        (["sky", "road", "sky"], "`class_names`: names the class 'sky' twice"),
        ("nowhere.txt", "`class_names` is 'nowhere.txt', but there is no such file"),
    ],
)
def test_wrong_names_are_refused(names, message):
    with pytest.raises(DataError, match=message):
        load_masks("digit_classes", class_names=names)


@pytest.mark.parametrize("content", ['{"0": "sky", "2": "road"}', '{"0": "sky", "1": 3}', "[]", "{"])
def test_damaged_files_of_names_are_refused(tmp_path, content):
    images, masks = pictures()
    np.savez(tmp_path / "all.npz", images=images, masks=masks)
    (tmp_path / "id2label.json").write_text(content)
    with pytest.raises(ValueError, match="id2label.json"):
        load_masks(str(tmp_path))


@pytest.mark.parametrize("kind", ["folder", "table"])
def test_masks_whose_files_number_their_colours_by_themselves_are_refused(tmp_path, kind):
    """As programs that shrink PNG files do: the same class has another index in each file."""
    images, masks = pictures()
    write(tmp_path, images, masks, "P")
    Image = pytest.importorskip("PIL.Image")
    file = tmp_path / "masks" / "007.png"
    swapped = Image.fromarray(np.choose(np.minimum(masks[7], 4), [0, 2, 1, 3, 255]).astype(np.uint8))
    swapped.putpalette(palette()[[0, 2, 1, *range(3, 256)]].tobytes())
    swapped.save(file)
    message = r"the index 1 of its palette is the colour \(0, 128, 0\), but \(128, 0, 0\) in .*(row 0|000.png)"
    with pytest.raises(DataError, match=message) as caught:
        if kind == "folder":
            load_masks(str(tmp_path))
        columns = {"image": "images", "mask": "masks"}
        named = {name: sorted(map(str, (tmp_path / part).iterdir())) for name, part in columns.items()}
        load_masks(datasets.Dataset.from_dict(named))
    assert (str(file) if kind == "folder" else "row 7") in str(caught.value)


COLOURS = np.array([(128, 128, 128), (128, 64, 128), (64, 0, 128), (0, 128, 0), (0, 0, 0)], np.uint8)


def write_colours(folder, images, masks, file, line="{},{},{},{}\n", header="name,r,g,b\n"):
    write(folder, images, COLOURS[np.minimum(masks, 4)])
    lines = (line.format(name, *colour) for name, colour in zip([*NAMES, "Void"], COLOURS, strict=True))
    (folder / file).write_text(header + "".join(lines))


@pytest.mark.parametrize(
    ("file", "line", "header"),
    [
        ("class_dict.csv", "{},{},{},{}\n", "name,r,g,b\n"),
        ("label_class_dict.csv", "{}, {}, {}, {}\n", " name, r, g, b\n"),
        ("labelmap.txt", "{}:{},{},{}::\n", "# label:color_rgb:parts:actions\n"),
    ],
)
def test_masks_in_colours_are_read_by_a_file_of_colours(tmp_path, file, line, header):
    """As CamVid and CVAT write them. Oracle: the same masks as ids."""
    images, masks = pictures()
    write_colours(tmp_path, images, masks, file, line, header)
    data = load_masks(str(tmp_path), ignore_index=4)
    assert_read(data, images, masks)
    assert data.label_names == [*NAMES, "Void"] and f"masks are read by the colours in {file}." in data.notes
    gold = pictures_of(tmp_path, True, MaskValues(ignore_index=4), 5, [*NAMES[::-1], "Void"])
    assert np.array_equal(next(iter(gold)).mask, np.where(masks[0] == 255, 255, 3 - masks[0]))
    (tmp_path / file).write_text(header + line.format("sky", *COLOURS[0]))
    with pytest.raises(DataError, match=rf"has the colour \(\d+, .*which no class in .*{file} has. Add a line"):
        load_masks(str(tmp_path))
    (tmp_path / file).write_text(header + line.format("a", 0, 0, 0) + line.format("b", 0, 0, 0))
    with pytest.raises(DataError, match=r"two classes have the colour \(0, 0, 0\)"):
        load_masks(str(tmp_path))
    (tmp_path / file).unlink()
    with pytest.raises(DataError, match="give the colours of the classes in class_dict.csv"):
        load_masks(str(tmp_path))


def test_of_two_colours_the_background_is_the_first_class(tmp_path):
    """As in DeepGlobe's roads. Masks of one channel hold ids, not colours."""
    images, masks = pictures(classes=2)
    masks[:, 1, 1] = 0
    write(tmp_path, images, np.stack([masks * 255] * 3, -1))
    (tmp_path / "class_dict.csv").write_text("name,r,g,b\nroad,255,255,255\nbackground,0,0,0\n")
    data = load_masks(str(tmp_path))
    assert_read(data, images, masks)
    assert data.label_names == ["background", "road"]
    write(tmp_path, images, masks)
    assert load_masks(str(tmp_path)).label_names == ["background", "foreground"]


def test_ids_in_equal_channels_are_no_colours(tmp_path):
    """Beside a file of colours. Oracle: the masks."""
    images, masks = pictures()
    write_colours(tmp_path, images, masks, "class_dict.csv")
    write(tmp_path, images, np.stack([masks] * 3, -1))
    assert_read(load_masks(str(tmp_path)), images, masks)


def test_a_file_with_more_colours_than_a_mask_may_have_is_refused(tmp_path):
    images, masks = pictures()
    write_colours(tmp_path, images, masks, "class_dict.csv")
    with (tmp_path / "class_dict.csv").open("a") as file:
        file.write("".join(f"more {i},1,2,{i}\n" for i in range(255)))
    with pytest.raises(DataError, match="class_dict.csv: 260 classes, more than 255. Leave out"):
        load_masks(str(tmp_path))


def test_a_file_of_names_may_begin_with_a_byte_order_mark(tmp_path):
    images, masks = pictures()
    np.savez(tmp_path / "all.npz", images=images, masks=masks)
    (tmp_path / "classes.txt").write_text("sky\nroad\ncafé\ncar\n", encoding="utf-8-sig")
    assert load_masks(str(tmp_path)).label_names == ["sky", "road", "café", "car"]
    (tmp_path / "classes.txt").write_bytes("sky\nroad\ncafé\n".encode("latin-1"))
    with pytest.raises(DataError, match="classes.txt: not UTF-8"):
        load_masks(str(tmp_path))


def test_grey_images_are_noted_with_the_first_file(tmp_path):
    images, masks = pictures()
    folder = write(tmp_path, [*images[:4], images[4, ..., 0], *images[5:]], masks)
    assert any("1 of 20 images have one channel, the first" in note and "004.png" in note
               for note in load_masks(str(folder)).notes)  # fmt: skip
