"""Crops: as slices written out one by one, the same after a resume, and averages against pixel-wise and naive forms."""

import numpy as np
import pytest
import torch
from transformers import MobileViTImageProcessor, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from seal_hf import MaskEnergyTrainer, NewEpoch, SealForSegmentation, collate_rows, load_masks
from seal_hf.data.masks import SegmentationSplit
from seal_hf.data.tensors.images import CROP_OFFSETS, MaskRows, crop_averaged, crop_offsets, pixel_scaling, resize_to
from seal_hf.tasks.masks.fcn import FCNConfig, FCNForSemanticSegmentation, fcn_image_processor
from seal_hf.utils.compat import image_processor_class

ROWS = 10


@pytest.fixture
def split():
    rng = np.random.default_rng(0)
    return SegmentationSplit(
        rng.integers(0, 256, (ROWS, 12, 9, 3), np.uint8), rng.integers(0, 2, (ROWS, 12, 9), np.uint8)
    )


def test_whole_images_come_as_they_are(split):
    batch = MaskRows(split).batch([4, 1])
    assert batch["pixel_values"].dtype == torch.float32 and batch["labels"].dtype == torch.int64
    np.testing.assert_allclose(batch["pixel_values"], split.images[[4, 1]].transpose(0, 3, 1, 2) / 255, atol=1e-7)
    assert np.array_equal(batch["labels"], split.masks[[4, 1]])
    scaled = MaskRows(split, mean=(0.1, 0.2, 0.3), std=0.5)[4]["pixel_values"]
    np.testing.assert_allclose(scaled[2], (split.images[4, ..., 2] / 255 - 0.3) / 0.5, atol=1e-6)


def test_a_crop_is_the_same_window_of_image_and_mask(split):
    rows = MaskRows(split, crop_size=5, seed=3)
    for epoch in range(4):
        rows.set_epoch(epoch)
        batch = collate_rows(rows.__getitems__([7, 2, 7]))
        assert batch["pixel_values"].shape == (3, 3, 5, 5) and batch["labels"].shape == (3, 5, 5)
        for i, row in enumerate([7, 2, 7]):
            y, x = rows.corners[row].tolist()
            window = split.images[row, y : y + 5, x : x + 5].transpose(2, 0, 1) / 255
            np.testing.assert_allclose(batch["pixel_values"][i], window, atol=1e-7)
            assert np.array_equal(batch["labels"][i], split.masks[row, y : y + 5, x : x + 5])


def test_crops_depend_on_seed_epoch_and_row_alone(split):
    rows, again = MaskRows(split, crop_size=5, seed=3), MaskRows(split, crop_size=5, seed=3)
    first = rows.corners.clone()
    assert torch.equal(first, again.corners) and len(first.unique(dim=0)) > 3
    rows.batch([0, 1])
    rows.set_epoch(1)
    assert not torch.equal(first, rows.corners)
    rows.set_epoch(0)
    assert torch.equal(first, rows.corners)
    assert not torch.equal(first, MaskRows(split, crop_size=5, seed=4).corners)


def test_every_place_is_as_likely(split):
    rows = MaskRows(split, crop_size=8)
    seen = []
    for epoch in range(400):
        rows.set_epoch(epoch)
        seen.append(rows.corners.clone())
    places, counts = torch.cat(seen).unique(dim=0, return_counts=True)
    assert places.tolist() == [[y, x] for y in range(5) for x in range(2)]
    assert (counts - 400).abs().max() < 5 * 400**0.5


@pytest.mark.parametrize("size", [0, 10])
def test_crops_that_do_not_fit_are_refused(split, size):
    with pytest.raises(ValueError, match=f"`crop_size` is {size}, but the images are 12 x 9 pixels"):
        MaskRows(split, crop_size=size)


class Seen(TrainerCallback):
    def __init__(self, rows, stop=None):
        self.rows, self.stop, self.corners = rows, stop, {}

    def on_step_end(self, args, state, control, **kwargs):
        self.corners[state.global_step] = self.rows.corners.clone()
        control.should_training_stop = control.should_save = state.global_step == self.stop


def seen_by_a_run(folder, split, stop=None, resume=None):
    rows = MaskRows(split, crop_size=8)
    seen = Seen(rows, stop)
    options = {
        "output_dir": str(folder),
        "num_train_epochs": 3,
        "per_device_train_batch_size": 5,
        "save_strategy": "no",
    }
    args = TrainingArguments(**options, report_to="none", use_cpu=True, disable_tqdm=True)
    net = FCNForSemanticSegmentation(FCNConfig(hidden_sizes=(2, 2, 2)))
    trainer = Trainer(net, args, collate_rows, rows, callbacks=[NewEpoch(rows), seen])
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    return seen.corners


@pytest.mark.parametrize("stop", [2, 3])
def test_a_resumed_run_sees_the_same_crops(split, tmp_path, stop):
    """Two steps per epoch: stopped at the end of one, or within one."""
    whole = seen_by_a_run(tmp_path / "whole", split)
    assert sorted(whole) == [1, 2, 3, 4, 5, 6] and torch.equal(whole[1], whole[2]) and torch.equal(whole[5], whole[6])
    assert not torch.equal(whole[2], whole[3]) and not torch.equal(whole[4], whole[5])
    seen_by_a_run(tmp_path / "part", split, stop=stop)
    rest = seen_by_a_run(tmp_path / "part", split, resume=str(tmp_path / f"part/checkpoint-{stop}"))
    assert sorted(rest) == list(range(stop + 1, 7))
    assert all(torch.equal(rest[step], whole[step]) for step in rest)


def test_masks_of_another_type_give_the_same_batches(split):
    expected = MaskRows(split).batch([0, 3])["labels"]
    for kind in (bool, np.int64, np.uint16):
        masks = SegmentationSplit(split.images, split.masks.astype(kind))
        assert torch.equal(MaskRows(masks).batch([0, 3])["labels"], expected)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda images, masks: (images, 256 * masks.astype(int)),
            "`masks` holds 256 .* class ids from 0",
        ),
        (lambda images, masks: (images, masks.astype(int) - 100), "`masks` holds -(100|99) in row 0.*not -100"),
        (lambda images, masks: (images, masks.astype(float)), r"`masks` has shape \(10, 12, 9\) and type float64"),
        (lambda images, masks: (images, masks[:, :8]), r"`masks` has shape \(10, 8, 9\) .* expected .*\(10, 12, 9\)"),
        (lambda images, masks: (images, masks[:4]), r"`masks` has shape \(4, 12, 9\)"),
        (lambda images, masks: (images / 255, masks), r"`images` has shape \(10, 12, 9, 3\) and type float64"),
        (lambda images, masks: (images.transpose(0, 3, 1, 2), masks), r"`images` has shape \(10, 3, 12, 9\)"),
    ],
)
def test_images_and_masks_that_mean_something_else_are_refused(split, change, message):
    with pytest.raises(ValueError, match=message):
        MaskRows(SegmentationSplit(*change(split.images, split.masks)))


# --- averages over crops ---------------------------------------------------------------------------------------------


@pytest.fixture
def images():
    return torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("size", [(32, 32), (24, 30), (20, 31)])
def test_averages_equal_the_plain_forward_of_a_net_that_sees_single_pixels(images, channels, size):
    net = torch.nn.Conv2d(3, channels, 1)
    images = images[..., : size[0], : size[1]]
    plain, averaged = net(images), crop_averaged(net, images)
    relax = torch.sigmoid if channels == 1 else (lambda logits: logits.softmax(1))
    assert averaged.shape == plain.shape
    torch.testing.assert_close(relax(averaged), relax(plain))


def test_averages_are_those_of_36_crops_one_by_one(images):
    net = torch.nn.Conv2d(3, 2, 5, padding=2)
    total, count = torch.zeros(2, 2, 32, 32), torch.zeros(32, 32)
    for y in (0, 2, 3, 4, 6, 8):
        for x in (0, 2, 3, 4, 6, 8):
            total[:, :, y : y + 24, x : x + 24] += net(images[:, :, y : y + 24, x : x + 24]).softmax(1)
            count[y : y + 24, x : x + 24] += 1
    assert count.max() == 36 and count.min() == 1
    torch.testing.assert_close(crop_averaged(net, images).exp(), total / count)


@pytest.mark.parametrize("length", [1, 24, 25, 32, 40, 100, 1000])
def test_offsets_cover_every_pixel(length):
    offsets = crop_offsets(length, 24)
    covered = np.zeros(length, bool)
    for start in offsets:
        assert 0 <= start and (start + 24 <= length or length < 24)
        covered[start : start + 24] = True
    assert covered.all() and offsets == sorted(set(offsets))
    if length == 32:
        assert offsets == list(CROP_OFFSETS)


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_so_many_offsets_are_evenly_spaced_and_cover_every_pixel(count):
    offsets = crop_offsets(100, 24, count)
    steps = np.diff(offsets)
    assert (offsets[0], offsets[-1], len(offsets)) == (0, 76, max(count, 5))
    assert steps.max() - steps.min() <= 1 and steps.max() <= 24
    assert crop_offsets(32, 24, 10**9) == [*range(9)]  # as many as there are places
    assert crop_offsets(32, 24, 1) == [0, 8] and crop_offsets(32, 24, [0, 3, 8]) == [0, 3, 8]


@pytest.mark.parametrize("offsets", [(8,), (2, 8), (0, 25), (0, 4), (0, 8, 4, 8), CROP_OFFSETS])
def test_offsets_that_do_not_fit_are_refused_with_some_that_do(offsets):
    length = 40 if offsets == CROP_OFFSETS else 32 if offsets == (0, 4) else offsets[-1] + 24
    with pytest.raises(
        ValueError, match=r"`crop_offsets` is \[.*does not fit crops of 24 .*Give for example \[0, "
    ) as error:
        crop_offsets(length, 24, offsets)
    such = [int(number) for number in str(error.value).split("Give for example [")[1].split("]")[0].split(", ")]
    assert crop_offsets(length, 24, such) == such


def test_no_pixels_and_no_offsets_are_refused_where_they_are_given():
    with pytest.raises(ValueError, match=r"`crop_offsets` is \[\], which does not fit"):
        crop_offsets(32, 24, [])
    data = load_masks()
    with pytest.raises(ValueError, match="`crop_size` is 0; .* or None for whole images"):
        SealForSegmentation.for_data(data, crop_size=0)
    with pytest.raises(ValueError, match=r"`crop_offsets` is \[0, 4\]"):
        SealForSegmentation.for_data(data, crop_size=24, crop_offsets=[0, 4])
    with pytest.raises(ValueError, match="`crop_size` is -1"):
        MaskEnergyTrainer(SealForSegmentation.for_data(data).loss_net, crop_size=-1)


# --- image processors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flips, options",
    [
        (False, dict(image_mean=[0.1, 0.2, 0.3], image_std=[0.4, 0.5, 0.6])),
        (False, dict(rescale_factor=1 / 127.5, image_mean=[1.0] * 3, image_std=[0.5] * 3)),
        (False, dict(do_rescale=False, do_normalize=False)),
        (True, {}),
        (True, dict(do_rescale=False)),
        (True, dict(do_flip_channel_order=False)),
    ],
)
def test_rows_have_the_pixels_that_the_image_processor_gives(split, flips, options):
    """Of SegFormer, which normalises, and of MobileViT, which does not, but wants blue first."""
    pytest.importorskip("PIL", reason="image processors need pillow")
    processor = (MobileViTImageProcessor if flips else image_processor_class())(**options)
    rows = MaskRows(split, **pixel_scaling(processor))
    expected = resize_to(processor, (12, 9))(list(split.images), return_tensors="np")["pixel_values"]
    np.testing.assert_allclose(rows.batch(range(ROWS))["pixel_values"], np.stack(expected), rtol=1e-5, atol=1e-6)


def test_a_processor_that_normalises_and_flips_is_refused():
    pytest.importorskip("PIL", reason="image processors need pillow")
    processor = MobileViTImageProcessor()
    processor.do_normalize = True
    with pytest.raises(ValueError, match="do_normalize=True and do_flip_channel_order=True"):
        pixel_scaling(processor)
    processor = fcn_image_processor()
    processor.rescale_factor = 0
    with pytest.raises(ValueError, match="`rescale_factor` 0 in preprocessor_config.json; expected a number above 0"):
        pixel_scaling(processor)


def test_the_pixels_of_the_fcn_need_no_scaling():
    pytest.importorskip("PIL", reason="image processors need pillow")
    assert pixel_scaling(fcn_image_processor()) == {}
