"""Rows of images. Oracles: the image processor itself, a loop over pixels, rows that are kept beside rows that are read
for each batch."""

import numpy as np
import pytest
import tiny_images
import torch
from datasets import Dataset, Features, Image, List, Value
from tiny_images import processor, squares, table, write_files
from transformers import BertTokenizer

from seal_hf import FlipAndCrop, ImageRows, NewEpoch
from seal_hf.data import DataError
from seal_hf.data.tensors import images as module
from seal_hf.data.tensors.images import AUGMENTATIONS, Pixels, load_image_processor
from seal_hf.utils.compat import image_processor_class

pytest.importorskip("PIL", reason="image files need pillow")
# they crop, rescale twice, or put blue first; a mask's also reads images
PROCESSORS = ("ViT", "Bit", "ConvNext", "EfficientNet", "MobileViT", "CLIP", "Segformer")


def plain(processor, images):
    """What the processor gives for arrays (H, W, 3)."""
    return processor(list(images), return_tensors="pt", input_data_format="channels_last")["pixel_values"]


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_batch_is_what_the_processor_gives(name):
    one = image_processor_class(name)()
    images, labels = squares(6)
    rows = ImageRows(table(6), one)
    batch = rows.batch([4, 0, 5])
    torch.testing.assert_close(batch["pixel_values"], plain(one, images[[4, 0, 5]]), rtol=0, atol=1e-5)
    assert batch["labels"].tolist() == labels[[4, 0, 5]].tolist()
    assert rows.dense["pixel_values"].dtype == torch.uint8
    assert rows.inputs == {"image_size": list(batch["pixel_values"].shape[2:])} and len(rows) == 6


def test_images_too_many_to_keep_are_read_for_each_batch(monkeypatch):
    kept = ImageRows(table(10), processor(), FlipAndCrop())
    monkeypatch.setattr(module, "KEPT", 10)
    read = ImageRows(table(10), processor(), FlipAndCrop())
    assert "pixel_values" in kept.dense and "pixel_values" not in read.dense
    for rows in ([3], [9, 0, 4]):
        for name, column in kept.batch(rows).items():
            assert torch.equal(column, read.batch(rows)[name])


def test_raw_images_of_any_form_are_read_alike(tmp_path):
    from PIL import Image as Picture

    images, _ = squares(1)
    (name,) = write_files(tmp_path, images)
    grey = images[0, ..., 0]
    forms = [tmp_path / name, str(tmp_path / name), images[0], Picture.fromarray(images[0])]
    forms += [{"bytes": (tmp_path / name).read_bytes(), "path": None}, {"bytes": None, "path": str(tmp_path / name)}]
    forms += [Picture.fromarray(images[0]).convert("RGBA")]
    found = ImageRows.of([*forms, Picture.fromarray(grey), grey], processor()).batch(range(9))["pixel_values"]
    assert all(torch.equal(image, found[0]) for image in found[: len(forms)])
    torch.testing.assert_close(found[7:], plain(processor(), [np.repeat(grey[..., None], 3, 2)] * 2))


# --- augmentation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_flips_and_crops_are_those_of_a_loop(name):
    augment = AUGMENTATIONS[name]
    images = torch.arange(6 * 3 * 9 * 16, dtype=torch.float64).view(6, 3, 9, 16).remainder(251).byte()
    noise = torch.rand(6, 8, generator=torch.Generator().manual_seed(0))
    if augment is None:
        return
    found, seen = augment(images, noise), set()
    for i in range(6):
        mirrored, down, across = noise[i, :3].tolist()
        most = [int(0.125 * side) if "crop" in name else 0 for side in (9, 16)]
        moves = [int(n * (2 * m + 1)) - m for n, m in zip((down, across), most, strict=True)]
        flips = "flip" in name and mirrored < 0.5
        seen.add((flips, *moves))
        for y in range(9):
            for x in range(16):
                column = 15 - x if flips else x
                source = (min(max(y + moves[0], 0), 8), min(max(column + moves[1], 0), 15))
                assert torch.equal(found[i, :, y, x], images[i, :, source[0], source[1]])
    assert len(seen) > 1


def test_noise_depends_on_seed_epoch_and_row_alone():
    seen = []

    def augment(images, noise):
        seen.append(noise)
        return images

    rows = ImageRows(table(12), processor(), augment, seed=3)
    again, other = (ImageRows(table(12), processor(), augment, seed) for seed in (3, 4))
    plain = ImageRows(table(12), processor())
    assert torch.equal(rows.unaugmented().batch(range(12))["pixel_values"], plain.batch(range(12))["pixel_values"])
    for each, ids in ((rows, [5, 2]), (again, [2]), (other, [2])):
        each.batch(ids)
    NewEpoch(rows).on_epoch_begin(None, type("State", (), {"epoch": 1.0}), None)
    rows.batch([2])
    first, alone, seeded, later = seen
    assert first.shape == (2, 8) and ((first >= 0) & (first < 1)).all()
    assert torch.equal(first[1], alone[0])
    assert not torch.equal(alone, seeded) and not torch.equal(alone, later) and not torch.equal(first[0], first[1])


def test_rows_without_an_augmentation_do_not_change():
    rows = ImageRows(table(4), processor())
    before = rows.batch([1, 2])["pixel_values"]
    rows.set_epoch(5)
    assert torch.equal(rows.batch([1, 2])["pixel_values"], before)


@pytest.mark.parametrize(
    ("augment", "words"),
    [(lambda images, noise: images[:, :, :4], "torch.Size([1, 3, 4, 16]) for images of torch.Size([1, 3, 16, 16])"),
     (lambda images, noise: None, "`augment` returned NoneType for images of")],
)  # fmt: skip
def test_an_augmentation_that_changes_the_shape_is_named(augment, words):
    with pytest.raises(ValueError) as error:
        ImageRows(table(2), processor(), augment).batch([0])
    assert words in str(error.value) and "Return the same shape" in str(error.value)


# --- mistakes --------------------------------------------------------------------------------------------------------


def message_of(make):
    with pytest.raises(ValueError) as error:
        make()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_images_of_other_modes_are_named(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no image")
    for image, words in (
        (
            np.zeros((4, 4, 3)),
            ["image 0 (counting from 0): the image has shape (4, 4, 3) and type float64", "expected uint8 (H, W, 3)"],
        ),
        (np.zeros((4, 4, 2), np.uint8), ["the image has shape (4, 4, 2)"]),
        (tmp_path / "broken.png", ["broken.png: not readable as an image", "Replace or remove it"]),
        (tmp_path / "no.png", ["no.png: not readable as an image"]),
    ):
        with pytest.raises(DataError) as error:
            ImageRows.of([image], processor()).batch([0])
        assert all(word in str(error.value) for word in words), str(error.value)


def test_a_processor_that_does_not_fit_is_named(tmp_path):
    loose = image_processor_class("ViT")(do_resize=False)
    pictures = [*squares(1)[0], *squares(1, size=(30, 24))[0]]
    features = Features({"image": Image(), "labels": List(Value("float32"))})
    wide = Dataset.from_dict({"image": pictures, "labels": [[1.0], [0.0]]}, features=features)
    message = message_of(lambda: ImageRows(wide, loose))
    assert "image 1 (counting from 0): the image processor, a ViTImageProcessor" in message
    assert "makes it 30 x 24 pixels, but other images 20 x 24; a batch needs one size. Set it: " in message
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    tokenizer = BertTokenizer(str(tmp_path / "vocab.txt"))
    assert "`processor` is a BertTokenizer" in message_of(lambda: Pixels(tokenizer))
    grey = image_processor_class("ViT")()
    whole = type(grey).__call__

    class Grey(type(grey)):
        def __call__(self, *args, **kwargs):
            found = whole(self, *args, **kwargs)
            found["pixel_values"] = found["pixel_values"].mean(1, keepdim=True)
            return found

    assert "does not give the three channels of an image" in message_of(lambda: Pixels(Grey()))
    with pytest.raises(DataError, match="The data has no column 'image'"):
        ImageRows(table(2).rename_column("image", "photo"), processor())


def test_a_folder_without_a_processor_is_named(tmp_path):
    assert f"{tmp_path} has no image processor" in message_of(lambda: load_image_processor(str(tmp_path)))
    tiny_images.processor(24).save_pretrained(tmp_path)
    assert dict(load_image_processor(str(tmp_path)).size) == {"height": 24, "width": 24}
