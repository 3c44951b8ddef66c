"""seal-hf train segmentation on several classes. Oracles: the figures of the masks that it writes, Hugging Face's
pipeline, the files themselves."""

import json
import re

import numpy as np
import pytest
import tiny_class_masks as tiny
import tiny_masks
from huggingface_hub import ModelCard
from tiny_class_masks import NAMES, class_iou, shapes
from transformers import AutoImageProcessor, pipeline

from seal_hf import SealForSegmentation, load_masks
from seal_hf.core.masks import palette
from seal_hf.metrics import class_mask_metrics
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.masks.program import ENERGY_PROGRAM as mask_energy

Image = pytest.importorskip("PIL.Image", reason="image files need pillow")
QUIET = "--use_cpu --num_train_epochs 2 --save_strategy no --eval_strategy no --report_to none --report false"
QUIET = [*QUIET.split(), "--load_best_model_at_end", "false", "--disable_tqdm", "true", "--output_dir"]


@pytest.fixture
def data(tmp_path):
    """A folder of images and palette masks in which 7 does not count, with names, and the flags that read it."""
    for split, count in (("train", 16), ("val", 4), ("test", 3)):
        rows = shapes(count)
        for part, arrays in (("images", rows.images), ("masks", np.where(rows.masks == 255, 7, rows.masks))):
            folder = tmp_path / "shapes" / split / part
            folder.mkdir(parents=True)
            for i, array in enumerate(arrays):
                image = Image.fromarray(array)
                if part == "masks":
                    image.putpalette(palette().tobytes())
                image.save(folder / f"{i}.png")
    (tmp_path / "shapes" / "classes.txt").write_text("\n".join(NAMES))
    return ["--dataset", str(tmp_path / "shapes"), "--ignore_index", "7"]


def test_a_folder_is_trained_reported_and_predicted(tmp_path, data, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    flags = ["--crop_size", "12", "--class_weight", "balanced", "--loss", "regression"]
    metrics = segmentation.main([*QUIET, str(out), *data, *flags])
    stored, gold = np.load(out / "_predictions_test.npz"), shapes(3).masks
    assert stored["masks"].dtype == np.uint8 and json.loads(str(stored["origins"][2]))["file"] == "2.png"
    expected = class_mask_metrics(stored["masks"], gold)
    expected |= {f"iou_{name}": iou for name, iou in zip(NAMES, class_iou(stored["masks"], gold, 3), strict=True)}
    often = np.stack([(shapes(16).masks == i).sum(0) for i in range(3)]).argmax(0)  # reads no image
    expected["mean_mask_iou"] = class_mask_metrics(np.stack([often] * 3), gold)["mean_iou"]
    written = json.loads((out / "test_results.json").read_text(encoding="utf-8"))
    assert {name: written[f"test_{name}"] for name in expected} == pytest.approx(expected)
    assert metrics["test_mean_iou"] == written["test_mean_iou"]
    printed = capsys.readouterr().out
    assert re.search(rf"mean IoU over classes +\S+ +{expected['mean_iou']:.4f}", printed)
    assert re.search(rf"stripe +\S+ +{expected['iou_stripe']:.4f}", printed)

    nets = SealForSegmentation.from_pretrained(out)
    assert nets.config.id2label == dict(enumerate(NAMES)) and nets.config.inputs == {"ignore_index": 7}
    assert nets.config.decisions == {"decoder": "fixed"}
    segment = pipeline("image-segmentation", str(out), device="cpu")
    for image, mask in zip(shapes(3).images, stored["masks"], strict=True):
        for part in segment(Image.fromarray(image)):
            assert np.array_equal(np.asarray(part["mask"]) == 255, mask == NAMES.index(part["label"]))

    text = (out / "README.md").read_text(encoding="utf-8")
    results = {each.metric_type: each.metric_value for each in ModelCard(text).data.eval_results}
    types = {"mean_iou": "mean_iou", "accuracy": "pixel_accuracy"}
    assert results == {name: pytest.approx(expected[figure], abs=1e-4) for name, figure in types.items()}
    assert "A semantic segmentation net trained with the regression energy loss" in text
    assert "The stored decoder is `fixed`. A pixel gets its likeliest class." in text
    assert "cross-fitting" not in text and "without a training row" not in text
    ious = rf"{metrics['eval_iou_square']:.4f} | {expected['iou_square']:.4f}"
    assert f'| 1 | square | <span style="color:#800000">&#9632;</span> `#800000` | {ious} |' in text


def test_a_hugging_face_model_keeps_its_reading_of_labels(tmp_path, data):
    """`reduce_labels`: the masks' 0 does not count."""
    segformer = tiny_masks.saved_segformer(tmp_path / "segformer", tiny.LABELS)
    flags = ["--image_size", "32", "--model_name_or_path", str(segformer), "--reduce_labels", "true"]
    with pytest.raises(ValueError, match="classifier|labels|classes"):  # it has three classes, and names for two
        segmentation.main([*QUIET, str(tmp_path / "out"), *data, *flags, "--class_names", "square"])
    segmentation.main([*QUIET, str(tmp_path / "out"), *data, *flags, "--loss", "ce", "--class_names", *NAMES[1:], "x"])
    saved = AutoImageProcessor.from_pretrained(tmp_path / "out")
    assert saved.do_reduce_labels and saved.size == {"height": 32, "width": 32}
    nets = SealForSegmentation.from_pretrained(tmp_path / "out")
    assert nets.config.inputs == {"ignore_index": 7, "reduce_labels": True}
    assert [nets.config.id2label[i] for i in range(3)] == [*NAMES[1:], "x"]
    masks = load_masks(data[1], image_size=32, ignore_index=7, reduce_labels=True, class_names=[*NAMES[1:], "x"])
    assert set(np.unique(masks.train.masks)) == {0, 1, 255}


@pytest.mark.parametrize(
    "program, flags, message",
    [
        (
            segmentation,
            ["--ignore_index", "255"],
            r"masks.\d+.png: the mask holds the class 7, but there are 3 classes",
        ),
        (
            segmentation,
            ["--class_names", "a", "b"],
            r"masks.\d+.png: the mask holds the class 2, but there are 2 classes",
        ),
        (
            segmentation,
            ["--decoder", "threshold", "--image_size", "32"],
            "`decoder` is 'threshold'; these decisions have fixed",
        ),
        (
            segmentation,
            ["--constrained_decoding", "true"],
            "`constrained_decoding` is for another kind of output, tags",
        ),
        (mask_energy, ["--image_size", "32"], "The energy network is for 'masks' outputs.*masks of two classes"),
    ],
)
def test_mistakes_on_the_command_line_are_named(tmp_path, data, program, flags, message):
    with pytest.raises(ValueError, match=message):
        program.main([*QUIET, str(tmp_path / "out"), *data, *flags])
