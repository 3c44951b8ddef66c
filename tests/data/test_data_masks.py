"""Images with masks: files written here are read back pixel by pixel; every mistake is named with its file."""

import datasets
import numpy as np
import pytest
from sklearn.datasets import load_digits

from seal_hf.data.common import DataError
from seal_hf.data.image_files import MaskFiles, as_rgb, pixels
from seal_hf.data.masks import load_masks
from seal_hf.data.pictures import pictures_of


def pictures(count, size=(6, 5), seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, *size, 3), np.uint8), rng.integers(0, 2, (count, *size), np.uint8)


def write_npz(folder, sizes=(("train", 8), ("val", 3), ("test", 4)), **changes):
    """Splits of random pictures; `changes` replace arrays of the train file."""
    arrays = {}
    folder.mkdir(exist_ok=True)
    for i, (split, size) in enumerate(sizes):
        images, masks = pictures(size, seed=i)
        arrays[split] = {"images": images, "masks": masks, **(changes if split == "train" else {})}
        np.savez(folder / f"horses32_{split}.npz", **arrays[split])
    return arrays


def write_folder(folder, images, masks, suffix=".png"):
    Image = pytest.importorskip("PIL.Image", reason="image files need pillow")
    for part, arrays in (("images", images), ("masks", masks)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for i, array in enumerate(arrays):
            Image.fromarray(array).save(folder / part / f"{i:03d}{'.png' if part == 'masks' else suffix}")


# --- npz -------------------------------------------------------------------------------------------------------------


def test_npz_files_are_read_as_they_are(tmp_path):
    arrays = write_npz(tmp_path / "horses")
    data = load_masks(str(tmp_path / "horses"))
    assert (data.name, data.kind, data.image_size) == ("horses", "masks", (6, 5))
    assert data.notes == [] and data.label_names == ["background", "foreground"]
    for split, found in (("train", data.train), ("val", data.validation), ("test", data.test)):
        assert np.array_equal(found.images, arrays[split]["images"]) and found.images.dtype == np.uint8
        assert np.array_equal(found.masks, arrays[split]["masks"]) and len(found) == len(arrays[split]["masks"])


def test_a_name_is_found_below_the_data_folder(tmp_path, monkeypatch):
    (tmp_path / "segmentation").mkdir()
    write_npz(tmp_path / "segmentation/horses")
    assert len(load_masks("horses", data_dir=str(tmp_path), max_train_rows=5).train) == 5
    monkeypatch.setenv("SEAL_HF_DATA", str(tmp_path))
    assert len(load_masks("horses").validation) == 3
    with pytest.raises(DataError, match="'horse' not found.*Did you mean 'horses'"):
        load_masks("horse")


def test_one_file_is_split(tmp_path):
    images, masks = pictures(20)
    np.savez(tmp_path / "all.npz", images=images, masks=masks)
    data = load_masks(str(tmp_path / "all.npz"), seed=1)
    assert [len(split) for split in (data.train, data.validation, data.test)] == [16, 2, 2]
    assert any("16 / 2 / 2 rows" in note for note in data.notes)
    found = np.concatenate([split.images for split in (data.train, data.validation, data.test)])
    assert sorted(image.tobytes() for image in found) == sorted(image.tobytes() for image in images)


def test_a_missing_validation_split_comes_out_of_train(tmp_path):
    write_npz(tmp_path, (("train", 20), ("test", 4)))
    data = load_masks(str(tmp_path))
    assert [len(split) for split in (data.train, data.validation, data.test)] == [18, 2, 4]
    assert any("2 rows from train" in note for note in data.notes)


def test_one_channel_empty_masks_and_ignored_pixels_are_counted(tmp_path):
    images, masks = pictures(8)
    masks[2], masks[5, 0] = 0, 255
    write_npz(tmp_path, images=images[..., 0], masks=masks)
    data = load_masks(str(tmp_path))
    assert np.array_equal(data.train.images, np.repeat(images[..., :1], 3, 3))
    assert np.array_equal(data.train.masks, masks)
    assert [note.split(" ")[0] for note in data.notes] == ["5", "1", "8"]
    assert "do not count" in data.notes[0] and "all background" in data.notes[1] and "one channel" in data.notes[2]


def test_masks_of_0_and_255_alone_mean_foreground(tmp_path):
    images, masks = pictures(20)
    np.savez(tmp_path / "train.npz", images=images, masks=masks * np.uint8(255))
    np.savez(tmp_path / "val.npz", images=images, masks=masks * np.uint8(255))
    data = load_masks(str(tmp_path))
    assert np.array_equal(data.train.masks, masks) and "255 is read as foreground" in data.notes[0]


def test_masks_that_mark_their_object_in_two_ways_are_noticed(tmp_path):
    """0 and 255 in some, 0 and 1 in others: either half may be meant, so it is said."""
    images, masks = pictures(20)
    masks[:, 0, 0] = 1
    mixed = masks * np.where(np.arange(20) % 4, 1, 255).astype(np.uint8)[:, None, None]
    for name in ("train", "val"):
        np.savez(tmp_path / f"{name}.npz", images=images, masks=mixed)
    assert any("10 masks hold 255 but no 1, while 30 hold a 1" in note for note in load_masks(str(tmp_path)).notes)
    border = masks.copy()
    border[:, 1, 1] = 255
    for name in ("train", "val"):
        np.savez(tmp_path / f"{name}.npz", images=images, masks=border)
    assert not any("no 1" in note for note in load_masks(str(tmp_path)).notes)


def test_an_object_that_train_marks_by_255_and_test_by_1_is_refused(tmp_path):
    _, masks = pictures(8)
    write_npz(tmp_path / "d", masks=masks * 255)
    with pytest.raises(
        DataError, match="no mask of train holds a 1, but masks of test and validation do.*write it as 1"
    ):
        load_masks(str(tmp_path / "d"))


def test_the_model_learns_what_255_means(tmp_path):
    images, masks = pictures(8)
    for kind, (given, foreground) in enumerate(((masks * 255, 255), (np.where(masks, 1, 255), 1), (masks, None))):
        np.savez(tmp_path / f"{kind}.npz", images=images, masks=given.astype(np.uint8))
        assert load_masks(str(tmp_path / f"{kind}.npz")).train.inputs.get("foreground") == foreground


def test_an_alpha_channel_that_says_nothing_is_no_obstacle(tmp_path):
    images, masks = pictures(8)
    plain = write_folder(tmp_path / "plain", images, masks)
    layers = np.stack([masks] * 3 + [np.full_like(masks, 255)], -1)
    write_folder(tmp_path / "alpha", images, layers)
    found = [load_masks(str(tmp_path / name)) for name in ("plain", "alpha")]
    assert plain is None and np.array_equal(found[0].train.masks, found[1].train.masks)


def test_a_folder_of_pictures_that_names_no_split_is_refused(tmp_path):
    images, masks = pictures(8)
    for name in ("training", "evaluation", "testing"):
        write_folder(tmp_path / name, images, masks)
    with pytest.raises(DataError, match="evaluation.images: has images and masks, but its path names no split"):
        load_masks(str(tmp_path))


def test_hidden_files_are_no_images(tmp_path):
    images, masks = pictures(12)
    write_folder(tmp_path, images, masks)
    (tmp_path / "images/._000.png").write_bytes(b"of macOS")
    assert sum(len(split) for split in (lambda d: (d.train, d.validation, d.test))(load_masks(str(tmp_path)))) == 12


def change(images=None, masks=None, **others):
    return {name: array for name, array in {"images": images, "masks": masks, **others}.items() if array is not None}


IMAGES, MASKS = pictures(8)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            change(masks=MASKS * np.uint8(3) + MASKS.T.reshape(MASKS.shape)),
            "npz, row 0: the mask holds the value [34], .*Thr",
        ),
        (change(masks=np.where(MASKS == 1, 0.5, 0)), r"row 0: .* such as 0.5"),
        (change(masks=MASKS[:, :5]), r"row 0: the image is 6 x 5 pixels and its mask 5 x 5"),
        (change(masks=MASKS[:7]), "8 images, but 7 masks"),
        (
            change(images=np.array(3), masks=np.array(1)),
            "'images' is not readable as an array of rows: it holds a single value",
        ),
        (change(images=IMAGES / 255), r"type float64; expected uint8 \(H, W, 3\)"),
        (change(images=IMAGES.reshape(8, -1)), r"row 0: the image has shape \(90,\)"),
        (change(masks=np.stack([MASKS, 1 - MASKS], 3)), "different channels"),
        (change(masks=MASKS.astype(object)), "train.npz: 'masks' is not readable .*: it holds objects. Save it"),
    ],
)
def test_wrong_arrays_are_refused_with_their_file_and_row(tmp_path, arrays, message):
    write_npz(tmp_path, **arrays)
    with pytest.raises(DataError, match=message):
        load_masks(str(tmp_path))


def test_files_that_say_no_split_or_one_twice_are_refused(tmp_path):
    write_npz(tmp_path, (("train", 8), ("val", 3), ("other", 3)))
    with pytest.raises(DataError, match="horses32_other.npz: the name must contain one of the words"):
        load_masks(str(tmp_path))
    write_npz(tmp_path / "twice", (("train", 8), ("val", 3), ("validation", 3)))
    with pytest.raises(DataError, match="two files for the validation split: horses32_val, horses32_validation. Keep"):
        load_masks(str(tmp_path / "twice"))


def test_missing_arrays_and_broken_files_are_refused(tmp_path):
    np.savez(tmp_path / "train.npz", image=IMAGES, masks=MASKS)
    with pytest.raises(DataError, match="train.npz: arrays image, masks; expected one called 'images'"):
        load_masks(str(tmp_path))
    (tmp_path / "train.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="train.npz: 'images' is not readable"):
        load_masks(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("horses", "not found.*embedded digits"),
        ("./nowhere/horses", "not found"),
        ("data/weizman.npz", "'data/weizman.npz' not found"),  # no Hub id
    ],
)
def test_a_data_set_that_is_not_there_is_refused(name, message, monkeypatch):
    monkeypatch.delenv("SEAL_HF_DATA", raising=False)
    with pytest.raises(DataError, match=message):
        load_masks(name)


def test_a_folder_with_nothing_of_use_says_what_it_found(tmp_path):
    (tmp_path / "readme.txt").write_text("x")
    with pytest.raises(
        DataError, match="no images of type .*; found readme.txt; expected .npz files.*images/ and masks/"
    ):
        load_masks(str(tmp_path))
    with pytest.raises(DataError, match="'.txt' are not read"):
        load_masks(str(tmp_path / "readme.txt"))


@pytest.mark.parametrize("name", ["max_train_rows", "image_size"])
def test_numbers_out_of_range_are_refused(name):
    with pytest.raises(DataError, match=f"`{name}` is 0"):
        load_masks(**{name: 0})


# --- folders of images -----------------------------------------------------------------------------------------------


def test_folders_are_matched_by_name(tmp_path):
    images, masks = pictures(20)
    for split, part in (("train", slice(0, 10)), ("validation", slice(10, 14)), ("test", slice(14, 20))):
        write_folder(tmp_path / split, images[part], masks[part] * np.uint8(255))
    data = load_masks(str(tmp_path))
    assert np.array_equal(data.train.images, images[:10]) and np.array_equal(data.train.masks, masks[:10])
    assert np.array_equal(data.validation.images, images[10:14]) and np.array_equal(data.test.masks, masks[14:])


def test_one_folder_is_split_and_one_bit_masks_are_read(tmp_path):
    images, masks = pictures(10)
    write_folder(tmp_path, images, [mask.astype(bool) for mask in masks], suffix=".bmp")
    data = load_masks(str(tmp_path))
    assert [len(split) for split in (data.train, data.validation, data.test)] == [8, 1, 1]
    assert data.train.masks.max() == 1


@pytest.mark.parametrize("first", ["black", "white"])
def test_a_palette_of_black_and_white_is_read_by_its_colours(tmp_path, first):
    images, masks = pictures(10)
    masks[0], masks[1] = 0, 1
    write_folder(tmp_path, images, masks)
    Image = pytest.importorskip("PIL.Image")
    for i, mask in enumerate(masks):
        indexed = Image.fromarray(mask if first == "black" else 1 - mask, "P")
        indexed.putpalette([0, 0, 0, 255, 255, 255] if first == "black" else [255, 255, 255, 0, 0, 0])
        indexed.save(tmp_path / "masks" / f"{i:03d}.png")
    data = load_masks(str(tmp_path))
    expected = {image.tobytes(): mask.tobytes() for image, mask in zip(images, masks, strict=True)}
    for split in (data.train, data.validation, data.test):
        assert [mask.tobytes() for mask in split.masks] == [expected[image.tobytes()] for image in split.images]


def test_a_palette_with_white_among_other_colours_keeps_its_indices():
    Image = pytest.importorskip("PIL.Image")
    mask = np.array([[0, 1], [1, 0]], np.uint8)
    for colours in ([255, 255, 255, 0, 0, 255], [0, 0, 0, 255, 255, 255, 255, 0, 0]):
        indexed = Image.fromarray(mask, "P")
        indexed.putpalette(colours)
        assert (MaskFiles().values(indexed) == mask).all()


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1"])
def test_images_of_other_modes_become_rgb(tmp_path, mode):
    images, masks = pictures(10)
    write_folder(tmp_path, images, masks)
    Image = pytest.importorskip("PIL.Image")
    for file in (tmp_path / "images").iterdir():
        Image.open(file).convert(mode).save(file)
    expected = {Image.open(file).convert("RGB").tobytes() for file in (tmp_path / "images").iterdir()}
    data = load_masks(str(tmp_path))
    assert {image.tobytes() for image in data.train.images} <= expected
    assert any("one channel" in note for note in data.notes) == (mode in ("L", "LA", "1"))


def test_images_of_sixteen_bits_are_scaled_by_the_range_of_their_type(tmp_path):
    images, masks = pictures(10)
    write_folder(tmp_path, images[..., 0].astype(np.uint16) * 257, masks)
    data = load_masks(str(tmp_path))
    Image = pytest.importorskip("PIL.Image")
    expected = {image[..., 0].tobytes() for image in images}
    assert {image[..., 2].tobytes() for image in data.train.images} < expected
    big_endian = pixels(Image.frombytes("I;16B", (5, 6), images[0, ..., 0].astype(">u2").tobytes()))
    assert big_endian.dtype == np.uint16 and (big_endian == images[0, ..., 0]).all()
    assert (as_rgb(np.array([[0, 4095], [40000, 65535]], np.uint16), "")[..., 0] == [[0, 15], [155, 255]]).all()


def test_several_sizes_need_one_to_resize_to(tmp_path):
    images, masks = pictures(10)
    large, large_masks = pictures(10, (12, 12), seed=1)
    write_folder(tmp_path, [*images[:5], *large[5:]], [*masks[:5], *large_masks[5:]])
    with pytest.raises(DataError, match=r"005.png: 12 x 12 pixels, but 6 x 5 before. Give `image_size`"):
        load_masks(str(tmp_path))
    data = load_masks(str(tmp_path), image_size=8)
    assert data.image_size == (8, 8) and set(np.unique(data.train.masks)) == {0, 1}


def test_resizing_doubles_pixels_of_masks_and_keeps_flat_images_flat(tmp_path):
    _, masks = pictures(10, (4, 4))
    np.savez(tmp_path / "all.npz", images=np.full((10, 4, 4, 3), 77, np.uint8), masks=masks)
    data = load_masks(str(tmp_path), image_size=8)
    assert (data.train.images == 77).all()
    doubled = {mask.repeat(2, 0).repeat(2, 1).tobytes() for mask in masks}
    assert all(mask.tobytes() in doubled for mask in data.train.masks)


def test_images_without_a_mask_and_masks_without_an_image_are_named(tmp_path):
    images, masks = pictures(4)
    write_folder(tmp_path, images, masks[:3])
    with pytest.raises(DataError, match=r"images.003.png: no file of this name in .*masks\. Give each"):
        load_masks(str(tmp_path))
    write_folder(tmp_path, images[:0], np.concatenate([masks, masks[:1]]))
    with pytest.raises(DataError, match=r"masks.004.png: no file of this name in .*images\. Give each"):
        load_masks(str(tmp_path))
    (tmp_path / "images" / "003.png").unlink()
    with pytest.raises(DataError, match=r"masks.003.png: no file of this name in .*images, nor for 1 others\. Give"):
        load_masks(str(tmp_path))


def test_broken_files_and_missing_folders_are_named(tmp_path):
    images, masks = pictures(2)
    write_folder(tmp_path, images, masks)
    (tmp_path / "masks/001.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"001.png: not readable as an image"):
        load_masks(str(tmp_path))
    (tmp_path / "alone/images").mkdir(parents=True)
    with pytest.raises(DataError, match="images: no images of type .*; found nothing"):
        load_masks(str(tmp_path / "alone"))


def test_masks_beside_the_images_of_a_split_are_found_from_above_and_missing_ones_named(tmp_path):
    """As of Carvana: `train/`, `train_masks/` and a `test/` without masks."""
    write_folder(tmp_path / "here", *pictures(8))
    (tmp_path / "here" / "images").rename(tmp_path / "train")
    (tmp_path / "here" / "masks").rename(tmp_path / "train_masks")
    (tmp_path / "here").rename(tmp_path / "test")
    (tmp_path / "test" / "1.png").write_bytes(next((tmp_path / "train").iterdir()).read_bytes())
    message = rf"train: holds images alone; .*beside it, in train_masks/. Give the folder of both, {tmp_path}\."
    with pytest.raises(DataError, match=message):
        load_masks(str(tmp_path / "train"))
    data = load_masks(str(tmp_path))
    assert data.test is None and len(data.train) == 7
    assert "not read, since masks are missing: test/." in data.notes
    assert f"{tmp_path}: the rows of its train split. It has no test split." in pictures_of(tmp_path, True).notes


def test_two_images_of_one_name_are_refused(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    for part in ("images", "masks"):
        write_folder(tmp_path / part, *pictures(2))
        image = tmp_path / part / part / "001.png"
        Image.open(image).convert("RGB").save(image.with_suffix(".jpg"))
        with pytest.raises(DataError, match=rf"{part}.001.png: 001.jpg beside it has the same name"):
            load_masks(str(tmp_path / part))


def test_two_folders_of_one_split_are_refused(tmp_path):
    for name in ("train", "val", "validation"):
        write_folder(tmp_path / name, *pictures(2))
    with pytest.raises(DataError, match="two folders for the validation split: val, validation. Keep one"):
        load_masks(str(tmp_path))


@pytest.mark.parametrize("suffix", [".ppm", ".PPM", ".ico"])
def test_images_of_a_type_that_is_not_read_are_refused_with_those_that_are(tmp_path, suffix):
    write_folder(tmp_path, *pictures(3))
    for part in ("images", "masks"):
        (tmp_path / part / "001.png").rename(tmp_path / part / f"001{suffix}")
    with pytest.raises(DataError, match=rf"images.001{suffix}: images of type {suffix} are not supported.* .png, .jpg"):
        load_masks(str(tmp_path))
    (tmp_path / "empty/images").mkdir(parents=True)
    (tmp_path / "empty/masks").mkdir()
    (tmp_path / "empty/images/readme.txt").write_text("none")
    with pytest.raises(DataError, match=r"empty: no images of type .png, .jpg.*; found images, masks; expected"):
        load_masks(str(tmp_path / "empty"))


# --- Hub -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch):
    Image = pytest.importorskip("PIL.Image", reason="image columns need pillow")
    images, masks = pictures(12)
    columns = {
        "image": [Image.fromarray(image) for image in images],
        "label": [Image.fromarray(mask) for mask in masks],
    }
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Image()})
    table = datasets.Dataset.from_dict(columns, features=features)
    asked = []

    def load_dataset(repo, configuration):
        asked.append((repo, configuration))
        return datasets.DatasetDict({"train": table.select(range(8)), "val": table.select(range(8, 12))})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return images, masks, asked


def test_hub_data_is_read_by_columns(hub):
    images, masks, asked = hub
    data = load_masks("someone/horses:small")
    assert asked == [("someone/horses", "small")] and data.name == "horses" and data.test is None
    assert np.array_equal(data.train.images, images[:8]) and np.array_equal(data.validation.masks, masks[8:])
    with pytest.raises(
        DataError, match="no column 'labels'; its columns are image, label. Did you mean 'label'.*--mask"
    ):
        load_masks("someone/horses", mask_column="labels")


def test_hub_data_that_cannot_be_loaded_is_named(monkeypatch):
    def load_dataset(repo, configuration):
        raise ConnectionError("offline")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(DataError, match="'someone/horses' could not be loaded.*: offline"):
        load_masks("someone/horses")


@pytest.mark.parametrize(
    "scaled, message",
    [
        (lambda pixels: pixels / 255.0, r"row 0: the image has shape .* and type float64.* in \[0, 1\]"),
        (lambda pixels: pixels.astype(int) + 256, "row 0: the image has shape .* and type int64; expected uint8"),
    ],
    ids=["0 to 1", "above 255"],
)
def test_hub_columns_of_nested_lists_hold_bytes_or_are_refused(monkeypatch, scaled, message):
    """As `datasets` gives columns of arrays or sequences; a cast would turn [0, 1] into black."""
    images, masks = pictures(8)

    def load(pixels):
        table = datasets.Dataset.from_dict({"image": pixels.tolist(), "mask": masks.tolist()})
        splits = datasets.DatasetDict({"train": table.select(range(6)), "validation": table.select([6, 7])})
        monkeypatch.setattr(datasets, "load_dataset", lambda repo, configuration: splits)
        return load_masks("someone/horses")

    data = load(images)
    assert np.array_equal(data.train.images, images[:6]) and np.array_equal(data.train.masks, masks[:6])
    with pytest.raises(DataError, match=message):
        load(scaled(images))


# --- embedded and real data ------------------------------------------------------------------------------------------


def test_a_column_of_classes_is_no_column_of_masks():
    images, _ = pictures(4)
    table = datasets.Dataset.from_dict({"image": images.tolist(), "label": [0, 1, 0, 1]})
    with pytest.raises(
        DataError, match=r"row 0: the mask has shape \(\); expected .* Name another column by `mask_column`"
    ):
        load_masks(table)


@pytest.mark.parametrize("option", ["image_column", "mask_column"])
def test_columns_are_of_tables(option):
    with pytest.raises(DataError, match=f"`{option}` names a column of a table, but digits is no table. Leave it out"):
        load_masks(**{option: "x"})


def test_embedded_digits():
    data, again = load_masks(), load_masks("digits")
    assert [len(split) for split in (data.train, data.validation, data.test)] == [320, 80, 160]
    assert data.image_size == (32, 32) and data.name == "digits" and data.notes == []
    assert np.array_equal(data.train.images, again.train.images)
    assert not np.array_equal(data.train.images, load_masks(seed=1).train.images)
    share = data.train.masks.mean()
    assert 0.1 < share < 0.25
    for image, mask in zip(data.train.images[:20].astype(float), data.train.masks[:20].astype(bool), strict=True):
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        assert np.ptp(rows) < 24 and np.ptp(columns) < 24  # one digit
        assert np.abs(image[mask].mean(0) - np.median(image[~mask], 0)).max() > 25  # and it can be seen


def test_embedded_digits_are_real_ones():
    """A mask holds half the ink of some enlarged digit: at every third pixel of it, the digit's own eight by eight."""
    inks = {(image >= 8).tobytes() for image in load_digits().images}
    mask = np.pad(load_masks().validation.masks[0].astype(bool), 24)
    centres = [mask[y : y + 24 : 3, x : x + 24 : 3] for y in range(1, 57) for x in range(1, 57)]
    assert any(centre.tobytes() in inks for centre in centres if centre.any())


def test_weizmann(shared_data):
    data = load_masks("weizmann", data_dir=str(shared_data))
    assert [len(split) for split in (data.train, data.validation, data.test)] == [160, 40, 128]
    assert data.image_size == (32, 32) and data.notes == []
