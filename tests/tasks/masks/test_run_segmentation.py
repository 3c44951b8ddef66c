"""seal-hf train segmentation. Oracles: the figures of the masks that it writes, scikit-learn's IoU, Hugging Face's
pipeline."""

import json

import numpy as np
import pytest
import tiny_masks
import torch
from safetensors.torch import load_file
from sklearn.metrics import jaccard_score
from tiny_masks import make, squares
from transformers import AutoImageProcessor, pipeline

from seal_hf import SealForSegmentation, fcn_image_processor, load_masks
from seal_hf.data.tensors.images import CROP_SIZE
from seal_hf.metrics import mask_metrics
from seal_hf.tasks.masks import program as segmentation
from seal_hf.utils.compat import image_processor_class

pytestmark = pytest.mark.usefixtures("narrow_energies")


@pytest.fixture
def segformer(tmp_path):
    return tiny_masks.saved_segformer(tmp_path / "segformer")


QUIET = "--use_cpu --max_train_rows 16 --num_train_epochs 1 --save_strategy no --eval_strategy no --report_to none"
QUIET += " --load_best_model_at_end false --disable_tqdm true --output_dir"
QUIET = QUIET.split()


@pytest.fixture
def data(tmp_path):
    """A folder of `.npz` files as the program reads them."""
    (tmp_path / "squares").mkdir()
    for split, count in (("train", 16), ("val", 4), ("test", 3)):
        rows = squares(count)
        np.savez(tmp_path / "squares" / f"squares_{split}.npz", images=rows.images, masks=rows.masks)
    return ["--dataset", str(tmp_path / "squares"), "--crop_size", "12", "--test_crop_size", "12"]


def test_images_smaller_than_the_usual_crop_are_trained_on(tmp_path, data):
    assert squares(1).masks.shape[1] < CROP_SIZE
    metrics = segmentation.main([*QUIET, str(tmp_path / "out"), *data[:2], "--loss", "ce"])
    assert 0 <= metrics["test_mean_iou"] <= 1


def test_the_example_trains_and_writes(tmp_path, data, capsys):
    metrics = segmentation.main([*QUIET, str(tmp_path / "out"), *data, "--loss", "regression"])
    names = {path.name for path in (tmp_path / "out").iterdir()}
    expected = "train_results.json eval_results.json test_results.json all_results.json README.md"
    expected += " _predictions_eval.npz _predictions_test.npz config.json model.safetensors preprocessor_config.json"
    assert set(expected.split()) <= names and (tmp_path / "out" / "_loss_net" / "model.safetensors").is_file()
    printed = capsys.readouterr().out
    assert "mean IoU at the tuned threshold" in printed and "mean IoU of the mean training mask" in printed
    probabilities = np.load(tmp_path / "out" / "_predictions_test.npz")["probabilities"]
    found = mask_metrics(probabilities.astype(np.float32), squares(3).masks, metrics["threshold"])
    assert found["mean_iou"] == pytest.approx(metrics["test_mean_iou_tuned"], abs=0.02)
    written = json.loads((tmp_path / "out" / "all_results.json").read_text(encoding="utf-8"))
    assert written["test_mean_iou"] == pytest.approx(metrics["test_mean_iou"])
    masks, gold = squares(16).masks, squares(3).masks  # the baseline that reads no image
    often = (masks == 1).sum(0) / (masks != 255).sum(0)
    ious = lambda t, labels: [jaccard_score(m[m != 255], often[m != 255] >= t) for m in labels]  # noqa: E731
    threshold = max(np.arange(0.05, 1, 0.05), key=lambda t: np.mean(ious(t, masks)))
    assert written["test_mean_mask_iou"] == pytest.approx(np.mean(ious(threshold, gold)), abs=0.02)
    nets = SealForSegmentation.from_pretrained(tmp_path / "out")
    assert (nets.config.decisions["threshold"], nets.config.crop_size) == (metrics["threshold"], 12)
    assert nets.config.id2label == {0: "background", 1: "foreground"}

    again = segmentation.main([*QUIET, str(tmp_path / "again"), *data, "--model_name_or_path", str(tmp_path / "out"),
                     "--learning_rate", "0", "--loss", "ce"])  # fmt: skip
    assert again["test_mean_iou"] == pytest.approx(metrics["test_mean_iou"])  # pixels are read as they were


def test_the_example_takes_a_hugging_face_model_on_whole_images(tmp_path, data, segformer, capsys):
    metrics = segmentation.main(
        [*QUIET, str(tmp_path / "out"), *data[:2], "--image_size", "32", "--model_name_or_path", str(segformer)]
    )
    assert 0 <= metrics["test_mean_iou"] <= 1 and "; the loss-net begins anew" in capsys.readouterr().out
    saved = AutoImageProcessor.from_pretrained(tmp_path / "out")
    assert saved.do_normalize and list(saved.image_mean) == [0.485, 0.456, 0.406]
    with pytest.raises(ValueError, match="`crop_offsets` is set, but only the FCN averages .* 'segformer' predicts"):
        segmentation.main([*QUIET, str(tmp_path / "other"), *data[:2], "--image_size", "32", "--model_name_or_path",
                 str(segformer), "--crop_offsets", "0", "8"])  # fmt: skip


@pytest.mark.parametrize("pretrained", [True, False], ids=["a processor that resizes", "fcn"])
def test_the_pipeline_predicts_what_the_example_measured(tmp_path, data, segformer, pretrained, caplog):
    """From images of other sizes too: they are brought to the pixels that the net has been trained on."""
    Image = pytest.importorskip("PIL.Image", reason="pipelines of images need pillow")
    flags = [*data[:2], "--image_size", "32", "--loss", "ce"]
    if pretrained:
        image_processor_class()(size={"height": 64, "width": 64}).save_pretrained(segformer)  # as SegFormer's own: 512
        flags += ["--model_name_or_path", str(segformer)]
    metrics = segmentation.main([*QUIET, str(tmp_path / "out"), *flags, "--learning_rate", "1e-2"])
    assert "loss-net" not in caplog.text  # cross-entropy trains none
    images = load_masks(data[1], image_size=32).test.images
    expected = np.load(tmp_path / "out" / "_predictions_test.npz")["probabilities"]
    segment = pipeline("image-segmentation", str(tmp_path / "out"), device="cpu")
    for image, probabilities in zip(images, expected, strict=True):
        found = np.zeros((32, 32), bool)
        for part in segment(Image.fromarray(image)):
            found |= (np.asarray(part["mask"]) == 255) & (part["label"] == "foreground")
        clear = np.abs(probabilities - 0.5) > 1e-3  # they are written in half precision
        assert np.array_equal(found[clear], (probabilities >= 0.5)[clear])
    nets = SealForSegmentation.from_pretrained(tmp_path / "out")
    processor = AutoImageProcessor.from_pretrained(tmp_path / "out")
    pixels = processor([Image.fromarray(image).resize((96, 80)) for image in images], return_tensors="pt")
    assert pixels["pixel_values"].shape == (3, 3, 32, 32)
    probabilities, _ = nets.predict(**processor(list(images), return_tensors="pt"))
    np.testing.assert_allclose(probabilities.numpy(), expected, atol=1e-3)
    gold = load_masks(data[1], image_size=32).test.masks
    assert mask_metrics(probabilities.numpy(), gold)["mean_iou"] == pytest.approx(metrics["test_mean_iou"], abs=0.01)


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--crop_size", "20"], "`crop_size` is 20, but the images are 16 x 16 pixels"),
        (["--test_crop_size", "20"], "`test_crop_size` is 20, but the images are 16 x 16 pixels"),
        (
            ["--crop_offsets", "0", "8"],
            r"`crop_offsets` is \[0, 8\], which does not fit crops of 12 .* Give for example \[0, 4\]",
        ),
        (
            ["--test_crop_size", "0", "--crop_offsets", "0"],
            "`crop_offsets` is set, but `test_crop_size` 0 means whole images",
        ),
        (["--loss", "infnet_plus"], "energy_loss='infnet_plus'"),
        (["--loss", "nce", "--sample_coherence", "field"], "Use energy_loss='ranking'"),
        (["--sample_coherence", "field"], "energy_loss='regression' draws no samples.* Use one of nce, ranking, "),
        (["--loss_net_encoder", "shared"], "`loss_net_encoder` is 'shared', but the energy of masks"),
        (["--loss_net_path", "nowhere"], "there is no folder nowhere"),
        (["--dataset", "horses"], "Data set 'horses' not found"),
        (["--sample_coherense", "field"], "Did you mean '--sample_coherence'?"),
    ],
)
def test_mistakes_on_the_command_line_are_named(tmp_path, data, flags, message):
    with pytest.raises(ValueError, match=message):
        segmentation.main([*QUIET, str(tmp_path / "out"), *data, *flags])


def test_a_frozen_loss_net_of_another_run_teaches(tmp_path, data):
    """SEAL-static: neither net's file is touched, and the task-net's term is that energy's."""
    make(tmp_path / "first", loss="regression")[0].save_model()
    static = ["--loss", "regression", "--loss_net_path", str(tmp_path / "first"), "--loss_net_steps", "0"]
    with pytest.raises(ValueError, match="has other labels than the task-net"):
        segmentation.main([*QUIET, str(tmp_path / "static"), *data, *static])
    nets = tiny_masks.model()
    nets.config.id2label, nets.config.label2id = {0: "background", 1: "foreground"}, {"background": 0, "foreground": 1}
    nets.loss_net.config.id2label = nets.config.id2label
    nets.save_pretrained(tmp_path / "first")
    segmentation.main([*QUIET, str(tmp_path / "static"), *data, *static])
    files = [tmp_path / run / "_loss_net" / "model.safetensors" for run in ("first", "static")]
    weights = [load_file(file) for file in files]
    assert all(torch.equal(weights[1][name], value) for name, value in weights[0].items())


def test_a_loss_net_of_pixels_of_another_scale_is_refused(tmp_path, data, segformer):
    nets = SealForSegmentation.for_data(load_masks())
    nets.save_pretrained(tmp_path / "first")
    fcn_image_processor().save_pretrained(tmp_path / "first")
    static = ["--loss", "regression", "--loss_net_path", str(tmp_path / "first"), "--loss_net_steps", "0"]
    with pytest.raises(ValueError, match="trained on pixels with no normalisation, but this task-net reads them with"):
        segmentation.main([*QUIET, str(tmp_path / "out"), *data[:2], "--model_name_or_path", str(segformer), *static])
