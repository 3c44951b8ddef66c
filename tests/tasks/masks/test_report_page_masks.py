"""The page's sections on masks. Oracles: loops over images and pixels, matplotlib's PNG reader, the files of a run."""

import base64
import io
import json
import re

import numpy as np
import pytest
from page_reader import LIMIT
from test_run_segmentation import QUIET
from tiny_masks import squares

from seal_hf.data.masks import SegmentationSplit
from seal_hf.metrics import mask_metrics
from seal_hf.reports.page import Page, render
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.masks.page import (
    BACKGROUND,
    FALSE_NEGATIVE,
    FALSE_POSITIVE,
    FOREGROUND,
    GROUP,
    MOST_PIXELS,
    UNCOUNTED,
    data_uri,
    mask_facts,
    mask_sections,
    pictures,
    threshold_facts,
)
from seal_hf.tasks.masks.program import ENERGY_PROGRAM as mask_energy

reader = pytest.importorskip("matplotlib.image")

pytestmark = pytest.mark.usefixtures("narrow_energies")


def decoded(uri):
    """(H, W, 3) uint8 of a data URI, by another reader."""
    head, data = uri.split(",")
    assert head == "data:image/png;base64"
    pixels = reader.imread(io.BytesIO(base64.b64decode(data)), format="png")
    return (pixels * 255).round().astype(np.uint8)


def rows(count=30, size=9, seed=0):
    """Images, masks with pixels that do not count, probabilities; the last image has no object."""
    rng = np.random.default_rng(seed)
    masks = rng.choice([0, 1, 255], (count, size, size + 2), p=[0.6, 0.3, 0.1]).astype(np.uint8)
    masks[-1] = 0
    images = rng.integers(0, 256, (*masks.shape, 3)).astype(np.uint8)
    p = np.where(masks == 1, 0.6, 0.3) + rng.uniform(-0.3, 0.3, masks.shape) * rng.uniform(0, 1, (count, 1, 1))
    return SegmentationSplit(images, masks), p.astype(np.float32)


def page_of(facts, curve=None):
    curve = curve or {"thresholds": [0.4, 0.5], "mean_iou": [0.1, 0.2]}
    return render(Page("masks", mask_sections({"split": "test", **facts, "curve": curve}, None)))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (40, 17)])
def test_a_png_decodes_to_its_pixels(shape):
    pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype(np.uint8)
    np.testing.assert_array_equal(decoded(data_uri(pixels)), pixels)
    np.testing.assert_array_equal(decoded(data_uri(pixels[::-1, ::-1])), pixels[::-1, ::-1])


def test_pictures_against_a_loop_over_pixels():
    split, p = rows(2)
    gold, counts = split.masks[0] == 1, split.masks[0] != 255
    decided = (p[0] >= 0.45) & counts
    found = {name: decoded(uri) for name, uri in pictures(split.images[0], gold, decided, counts).items()}
    np.testing.assert_array_equal(found["image"], split.images[0])
    colours = set()
    for place in np.ndindex(gold.shape):
        is_gold, is_decided = gold[place], decided[place]
        of = FOREGROUND if is_gold and is_decided else FALSE_POSITIVE if is_decided else FALSE_NEGATIVE
        expected = {
            "truth": FOREGROUND if is_gold else BACKGROUND,
            "decision": FOREGROUND if is_decided else BACKGROUND,
        }
        expected["difference"] = of if is_gold or is_decided else BACKGROUND
        for name, colour in expected.items():
            assert tuple(found[name][place]) == (colour if counts[place] else UNCOUNTED)
        colours.add(tuple(found["difference"][place]))
    assert colours == {BACKGROUND, FOREGROUND, FALSE_POSITIVE, FALSE_NEGATIVE, UNCOUNTED}


def test_large_images_are_shown_small_and_in_step():
    mask = np.zeros((500, 300), dtype=bool)
    mask[200:400, 100:250] = True
    image = np.repeat(np.where(mask, 200, 10).astype(np.uint8)[..., None], 3, axis=2)
    found = {name: decoded(uri) for name, uri in pictures(image, mask, mask, np.ones_like(mask)).items()}
    assert found["image"].shape == (125, 75, 3) and max(found["image"].shape) <= MOST_PIXELS
    np.testing.assert_array_equal(found["image"][..., 0] == 200, found["truth"][..., 0] == FOREGROUND[0])


def test_facts_against_a_loop_over_images():
    split, p = rows()
    facts = mask_facts(p, split, 0.45, lambda row: {"source": "here", "file": f"{row}.png"})
    ious, pixels = [], {"gold": 0, "decided": 0, "false positive": 0, "false negative": 0, "counted": 0}
    for image, mask in zip(p, split.masks, strict=True):
        kept = mask != 255
        decided, gold = image[kept].astype(float) >= 0.45, mask[kept] == 1
        ious.append((decided & gold).sum() / (decided | gold).sum() if (decided | gold).any() else 1.0)
        pixels["gold"] += gold.sum()
        pixels["decided"] += decided.sum()
        pixels["false positive"] += (decided & ~gold).sum()
        pixels["false negative"] += (gold & ~decided).sum()
        pixels["counted"] += kept.sum()
    assert facts["pixels"] == pixels
    assert facts["mean_iou"] == pytest.approx(mask_metrics(p, split.masks, 0.45)["mean_iou"])
    of = {image["origin"]["file"]: image["iou"] for image in facts["images"]}
    assert [of[f"{row}.png"] for row in range(30)] == pytest.approx(ious)
    assert list(of.values()) == sorted(of.values()) and facts["left_out"] == 0
    expected, _ = np.histogram(ious, bins=20, range=(0, 1))
    assert facts["histogram"] == expected.tolist()
    for name, found in facts["shown"].items():
        places = {"worst": slice(0, GROUP), "middle": slice(11, 11 + GROUP), "best": slice(30 - GROUP, 30)}[name]
        assert sorted(image["iou"] for image in found) == list(of.values())[places]
    page = page_of(json.loads(json.dumps(facts)))
    assert page.count("data:image/png") == 4 * 3 * GROUP and "here, file 3.png" in page
    assert f"The mean IoU is {np.mean(ious):.4f} at the threshold 0.45" in page


def test_few_images_are_all_shown_and_text_is_escaped():
    split, p = rows(3)
    facts = mask_facts(p, split, 0.5, lambda row: {"source": "<script>alert(1)</script>", "row": row})
    assert [len(found) for found in facts["shown"].values()] == [3]
    page = page_of(facts)
    assert "<script>alert" not in page and page.count("&lt;script&gt;alert") == 6


@pytest.mark.parametrize("probability, iou", [(0.1, "1.0000"), (0.9, "0.0000")])
def test_images_without_objects(probability, iou):
    split, p = rows(3)
    split.masks[:], p[:] = 0, probability
    assert f"The mean IoU is {iou}" in page_of(mask_facts(p, split, 0.5))


@pytest.mark.usefixtures("drawn")
def test_a_page_of_100_000_images_is_small():
    split, p = rows(1000, size=4)
    split = SegmentationSplit(
        *(np.tile(array, (100, *[1] * (array.ndim - 1))) for array in (split.images, split.masks))
    )
    text = json.dumps(mask_facts(np.tile(p, (100, 1, 1)), split, 0.5, lambda row: {"source": "x.npz", "row": row}))
    page = page_of(json.loads(text))
    assert len(text) < 500_000 and len(page.encode()) < LIMIT and "99,000 more rows are left out." in page
    assert sum(json.loads(text)["histogram"]) == 100_000


@pytest.mark.usefixtures("drawn")
def test_the_largest_pictures_fit():
    """Noise does not compress."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (30, MOST_PIXELS, MOST_PIXELS, 3)).astype(np.uint8)
    masks = rng.integers(0, 2, images.shape[:3]).astype(np.uint8)
    page = page_of(mask_facts(rng.random(masks.shape), SegmentationSplit(images, masks), 0.5))
    assert len(page.encode()) < LIMIT


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("program", [segmentation, mask_energy])
def test_a_run_leaves_a_page(tmp_path, program):
    for split, count in (("train", 8), ("val", 4), ("test", 3)):
        found = squares(count)
        np.savez(tmp_path / f"squares_{split}.npz", images=found.images, masks=found.masks)
    flags = ["--dataset", str(tmp_path), "--crop_size", "12", "--logging_steps", "1"]
    flags += ["--loss", "ce", "--test_crop_size", "12"] if program is segmentation else []
    flags += ["--inference_steps", "2", "--inference_steps_eval", "2", "--width", "8"] if program is mask_energy else []
    metrics = program.main([*QUIET, str(tmp_path / "out"), *flags])
    facts = json.loads((tmp_path / "out" / "_report.json").read_text())["facts"]
    saved = {split: np.load(tmp_path / "out" / f"_predictions_{split}.npz") for split in ("eval", "test")}
    found, chosen = facts["masks"], facts["figures"]["chosen"]
    assert found["mean_iou"] == pytest.approx(metrics[f"test_{chosen}"]) and found["split"] == "test"
    curve = dict(zip(found["curve"]["thresholds"], found["curve"]["mean_iou"], strict=True))
    assert curve[metrics["threshold"]] == pytest.approx(metrics["eval_mean_iou_tuned"]) == max(curve.values())
    assert curve[0.5] == pytest.approx(metrics["eval_mean_iou"])
    expected = threshold_facts(saved["eval"]["probabilities"].astype(np.float32), squares(4).masks)
    assert found["curve"]["mean_iou"] == pytest.approx(expected["mean_iou"], abs=0.05)  # stored in half precision
    for image in found["shown"]["all, the worst first"]:
        row = image["origin"]["row"]
        decided = (decoded(image["decision"]) == FOREGROUND).all(-1)
        kept = squares(3).masks[row] != 255
        np.testing.assert_array_equal(decided, (saved["test"]["masks"][row] == 1) & kept)
        np.testing.assert_array_equal(decoded(image["image"]), squares(3).images[row])

    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    (row,) = re.findall(r'<tr class="marked">(.*?)</tr>', page, flags=re.DOTALL)
    assert f"{metrics[f'test_{chosen}']:.4f}" in row
    assert f"<title>{tmp_path.name}: {'ce on FCN' if program is segmentation else 'energy network'}" in page
    assert page.count("data:image/png") == 4 * 3
