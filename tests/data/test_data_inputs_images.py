"""Images of files, folders and .npz files: what was written is read back, one at a time; mistakes are named."""

import io
import zipfile

import numpy as np
import pytest

from seal_hf.core.masks import IGNORE
from seal_hf.data import DataError, load_masks
from seal_hf.data.pictures import pictures_of
from seal_hf.data.stored_arrays import StoredArray


def pictures(count, size=(6, 5), seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, *size, 3), np.uint8), rng.integers(0, 2, (count, *size), np.uint8)


def save(path, array):
    Image = pytest.importorskip("PIL.Image", reason="image files need pillow")
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def whole(source, size=2):
    chunks = list(source.chunks(size))
    assert [len(chunk.rows) for chunk in chunks[:-1]] == [size] * (len(chunks) - 1)
    return (
        [row["name"] for chunk in chunks for row in chunk.rows],
        [image for chunk in chunks for image in chunk.inputs],
        [mask for chunk in chunks for mask in chunk.gold or ()],
    )


# --- arrays ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save_arrays", [np.savez, np.savez_compressed])
def test_rows_of_stored_arrays_are_those_of_numpy(tmp_path, save_arrays):
    arrays = {
        "numbers": np.arange(24.0).reshape(4, 3, 2),
        "row": np.array([True, False]),
        "empty": np.zeros((0, 3)),
        "large": np.random.default_rng(0).integers(0, 256, (3, 700, 500), np.uint8),  # more than one read of a stream
        "big_endian": np.arange(4, dtype=">i4"),
        "columns": np.asfortranarray(np.arange(24.0).reshape(4, 3, 2)),
    }
    save_arrays(tmp_path / "a.npz", **arrays)
    for name, array in arrays.items():
        stored = StoredArray(tmp_path / "a.npz", name)
        assert (len(stored), stored.shape, stored.dtype) == (len(array), array.shape, array.dtype)
        for _ in range(2):
            assert all(np.array_equal(row, other) for row, other in zip(stored, array, strict=True))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([{}, []], dtype=object), "it holds objects"),
        (np.array(3), "it holds a single value"),
    ],
)
def test_arrays_that_have_no_rows_are_refused(tmp_path, array, message):
    np.savez(tmp_path / "a.npz", images=array)
    with pytest.raises(DataError, match=rf"a.npz: 'images' is not readable as an array of rows: {message}.*np.savez"):
        StoredArray(tmp_path / "a.npz", "images")


def test_damaged_files_are_refused(tmp_path):
    file = tmp_path / "a.npz"
    np.savez_compressed(file, images=np.random.default_rng(0).integers(0, 256, (9, 50, 50), np.uint8))
    whole_bytes = file.read_bytes()
    with pytest.raises(DataError, match="a.npz: arrays images; expected one called 'masks'"):
        StoredArray(file, "masks")
    file.write_bytes(whole_bytes[:2000] + bytes(500) + whole_bytes[2500:])
    with pytest.raises(DataError, match="a.npz: 'images' is not readable"):
        list(StoredArray(file, "images"))
    stored = io.BytesIO()
    np.save(stored, np.zeros((9, 50, 50), np.uint8))
    with zipfile.ZipFile(file, "w") as archive:  # rows that are not there
        archive.writestr("images.npy", stored.getvalue().replace(b"(9, 50, 50)", b"(9999999,2)"))
    with pytest.raises(DataError, match=r"its header says \(9999999, 2\), 20000126 bytes, but there are 22628"):
        StoredArray(file, "images")
    file.write_bytes(whole_bytes[:2000])
    with pytest.raises(DataError, match="a.npz: 'images' is not readable"):
        StoredArray(file, "images")


# --- images ----------------------------------------------------------------------------------------------------------


def test_a_file_of_arrays(tmp_path):
    images, masks = pictures(5)
    np.savez(tmp_path / "a.npz", images=images, masks=masks)
    for gold in (False, True):
        source = pictures_of(tmp_path / "a.npz", gold)
        names, found, found_masks = whole(source)
        assert names == source.names == ["0", "1", "2", "3", "4"] and source.total == 5
        assert np.array_equal(found, images)
        assert np.array_equal(found_masks, masks) if gold else found_masks == []


def test_files_of_several_kinds_and_sizes(tmp_path):
    images = [pictures(1, size, seed)[0][0] for seed, size in enumerate([(6, 5), (3, 4), (7, 7)])]
    for folder in ("flat", "below/images"):
        save(tmp_path / folder / "b.png", images[0])
        save(tmp_path / folder / "a.bmp", images[1])
        save(tmp_path / folder / "c.PNG", images[2][..., 0])  # one channel
        (tmp_path / folder / "notes.txt").write_text("none")
    expected = [images[1], images[0], np.repeat(images[2][..., :1], 3, 2)]
    for folder in ("flat", "below"):
        names, found, _ = whole(pictures_of(tmp_path / folder))
        assert names == ["a", "b", "c"]
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    names, found, _ = whole(pictures_of(tmp_path / "flat/b.png"))
    assert names == ["b"] and np.array_equal(found[0], images[0])


@pytest.mark.parametrize("foreground", [1, 255])
@pytest.mark.parametrize("kind", ["folder", "npz"])
def test_gold_masks_are_those_of_the_training_reader(tmp_path, kind, foreground):
    """Oracle: `load_masks`, of the whole data: 255 is foreground where no mask holds a 1."""
    images, masks = pictures(20)
    masks = masks * np.uint8(foreground)
    masks[3, 0] = 255
    if kind == "npz":
        np.savez(tmp_path / "a.npz", images=images, masks=masks)
        path = tmp_path / "a.npz"
    else:
        path = tmp_path / "a"
        for i in range(20):
            save(path / f"images/{i:02}.png", images[i])
            save(path / f"masks/{i:02}.png", masks[i])
    data = load_masks(str(path))
    known = {
        image.tobytes(): mask
        for split in (data.train, data.validation, data.test)
        for image, mask in zip(split.images, split.masks, strict=True)
    }
    _, found, found_masks = whole(pictures_of(path, gold=True), size=7)
    assert all(np.array_equal(known[image.tobytes()], mask) for image, mask in zip(found, found_masks, strict=True))
    assert (found_masks[3][0] == (IGNORE if foreground == 1 else 1)).all()


# --- mistakes --------------------------------------------------------------------------------------------------------


def test_mistakes_are_named_with_their_place(tmp_path):
    images, masks = pictures(2)

    def refused(message, path, gold=False):
        with pytest.raises(DataError, match=message) as caught:
            list(pictures_of(tmp_path / path, gold))
        assert "\n" not in str(caught.value)

    (tmp_path / "empty").mkdir()
    (tmp_path / "a.ppm").write_text("")
    refused("nowhere: no such file or folder", "nowhere")
    refused("nowhere.npz: 'images' is not readable", "nowhere.npz")
    refused("empty: no images. Give at least one of type .png", "empty")
    refused("a.ppm: images of type .ppm are not supported. Give an image file of type .png", "a.ppm")
    refused("a.ppm: images of type .ppm are not supported. Convert them", "")
    refused(
        r"empty: no images of type .*; found nothing; expected .npz files .*, or folders images/ and masks/",
        "empty",
        gold=True,
    )
    np.savez(tmp_path / "none.npz", images=images[:0])
    refused("none.npz: no images. Give at least one", "none.npz")
    np.savez(tmp_path / "floats.npz", images=images / 255)
    refused(r"floats.npz, row 0: the image has shape .* type float64; expected uint8 \(H, W, 3\)", "floats.npz")
    refused("floats.npz: arrays images; expected one called 'masks'", "floats.npz", gold=True)
    np.savez(tmp_path / "few.npz", images=images, masks=masks[:1])
    refused("few.npz: 2 images, but 1 masks. Every image needs one mask", "few.npz", gold=True)
    np.savez(tmp_path / "sizes.npz", images=images, masks=masks[:, 1:])
    refused("sizes.npz, row 0: the image is 6 x 5 pixels and its mask 5 x 5", "sizes.npz", gold=True)
    np.savez(tmp_path / "values.npz", images=images, masks=masks * 3)
    refused("values.npz, row 0: the mask holds the class 3, but the model has 2 classes", "values.npz", gold=True)


def test_damaged_and_lonely_files_are_named(tmp_path):
    images, masks = pictures(2)
    save(tmp_path / "images/a.png", images[0])
    with pytest.raises(DataError, match="images: has images, such as a.png, but no masks"):
        pictures_of(tmp_path, gold=True)
    save(tmp_path / "masks/b.png", masks[0])
    with pytest.raises(DataError, match="a.png: no file of this name in .*masks"):
        pictures_of(tmp_path, gold=True)
    (tmp_path / "images/c.png").write_bytes((tmp_path / "images/a.png").read_bytes()[:40])
    with pytest.raises(DataError, match="c.png: not readable as an image"):
        list(pictures_of(tmp_path))
