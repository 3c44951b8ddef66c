"""The page's sections on masks of several classes. Oracles: loops over images and pixels, another PNG reader."""

import json
import re

import numpy as np
import pytest
from page_reader import LIMIT
from test_report_page_masks import decoded
from test_run_segmentation import QUIET
from tiny_class_masks import class_iou

from seal_hf.core.masks import palette
from seal_hf.data import embedded
from seal_hf.data.masks import SegmentationSplit
from seal_hf.reports.page import Page, render
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.masks.page import RIGHT, class_mask_facts, class_mask_sections, class_pictures

pytest.importorskip("matplotlib")

pytestmark = pytest.mark.usefixtures("narrow_energies")
NAMES = ["ground", "square", "<b>stripe</b>", "nowhere"]


def rows(count=30, size=9):
    """Images, masks with pixels that do not count, decided masks; in the last image no pixel counts."""
    rng = np.random.default_rng(0)
    masks = rng.choice([0, 1, 2, 255], (count, size, size + 2), p=[0.5, 0.3, 0.1, 0.1]).astype(np.uint8)
    wrong = rng.random(masks.shape) < rng.random((count, 1, 1))
    decided = np.where(wrong | (masks == 255), rng.integers(0, 3, masks.shape), masks).astype(np.uint8)
    masks[-1] = 255
    return SegmentationSplit(rng.integers(0, 256, (*masks.shape, 3)).astype(np.uint8), masks), decided


def page_of(facts):
    return render(Page("masks", class_mask_sections({"split": "test", **facts}, None)))


def test_pictures_against_a_loop_over_pixels():
    split, decided = rows(2)
    gold = split.masks[0]
    found = {name: decoded(uri) for name, uri in class_pictures(split.images[0], gold, decided[0]).items()}
    np.testing.assert_array_equal(found["image"], split.images[0])
    for place in np.ndindex(gold.shape):
        true, ours = gold[place], decided[0][place] if gold[place] != 255 else 255
        expected = {"truth": palette()[true], "decision": palette()[ours]}
        expected["mistakes"] = RIGHT if true == ours != 255 else palette()[true]
        for name, colour in expected.items():
            assert tuple(found[name][place]) == tuple(colour)
    assert not (palette() == RIGHT).all(1).any()


def test_facts_against_a_loop_over_images():
    split, decided = rows()
    facts = class_mask_facts(decided, split, NAMES, lambda row: {"source": "here", "file": f"{row}.png"})
    of = {image["origin"]["file"]: image for image in facts["images"]}
    for row, (ours, gold) in enumerate(zip(decided, split.masks, strict=True)):
        counts, found = gold != 255, of[f"{row}.png"]
        ious = [
            (counts & (ours == i) & (gold == i)).sum() / union
            for i in range(4)
            if (union := (counts & ((ours == i) | (gold == i))).sum())
        ]
        assert found["iou"] == pytest.approx(np.mean(ious) if ious else 1)
        assert (found["size"], found["wrong"]) == (counts.sum(), (counts & (ours != gold)).sum())
    assert [image["iou"] for image in facts["images"]] == sorted(image["iou"] for image in facts["images"])
    assert sum(facts["histogram"]) == 30
    page = page_of(json.loads(json.dumps(facts)))
    for value in class_iou(decided, split.masks, 4)[:3]:
        assert f"{value:.4f}"[1:] in page
    assert "&lt;b&gt;stripe" in page and "<b>stripe" not in page and page.count("data:image/png") == 4 * 24


@pytest.mark.usefixtures("drawn")
def test_a_run_leaves_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "MASK_SIZES", {"train": 8, "validation": 4, "test": 4})
    few = "--dataset digit_classes --num_train_epochs 1 --per_device_train_batch_size 4 --crop_size 0".split()
    segmentation.main([*QUIET, str(tmp_path), *few])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(page.encode()) < LIMIT and page.count("data:image/png") == 4 * 4
    results = json.loads((tmp_path / "all_results.json").read_text())
    assert f"The mean IoU over classes is {results['test_mean_iou']:.4f}" in page
    assert re.search(r"most often taken for", page) and "mean IoU over classes" in page
