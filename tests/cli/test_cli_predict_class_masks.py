"""`seal-hf predict` and `evaluate` of masks of several classes. Oracles: the trainer's predictions, and the figures of
whole arrays."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_class_masks as tiny
import torch
from tiny_class_masks import NAMES, class_iou, shapes

from seal_hf import MaskRows, SealForSegmentation, fcn_image_processor, resize_to
from seal_hf.cli.predict import evaluate
from seal_hf.cli.predict import main as predict
from seal_hf.core.masks import palette
from seal_hf.decisions import ClassMaskDecisions
from seal_hf.metrics import class_mask_metrics

Image = pytest.importorskip("PIL.Image", reason="image files need pillow")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Nets with random weights whose masks have all classes, and the trainer's logits."""
    folder = tmp_path_factory.mktemp("masks")
    nets, data = tiny.model(), shapes()
    data.inputs = {"ignore_index": 9}
    for score in nets.task_net.scores:
        score.weight.data *= 20
    trainer, _ = tiny.make(folder / "run", nets, MaskRows(data), per_device_eval_batch_size=5)
    logits = trainer.predict(MaskRows(data)).predictions
    nets.task_net.scores[0].bias.data -= torch.from_numpy(np.median(logits, (0, 2, 3)))
    logits = trainer.predict(MaskRows(data)).predictions
    assert np.bincount(logits.argmax(1).ravel(), minlength=3).min() > 400
    nets.config.inputs = data.inputs  # as a training stores them
    ClassMaskDecisions().store(nets.config)
    nets.save_pretrained(folder / "model")
    resize_to(fcn_image_processor(), (16, 16)).save_pretrained(folder / "model")
    return SimpleNamespace(path=str(folder / "model"), data=data, logits=logits)


@pytest.fixture
def images(saved, tmp_path):
    (tmp_path / "new").mkdir()
    for i, image in enumerate(saved.data.images):
        Image.fromarray(image).save(tmp_path / f"new/img_{i:02}.png")
    return tmp_path


def run(saved, source, output, *flags):
    predict(["--model", saved.path, "--input", str(source), "--output", str(output), "--batch_size", "5", *flags])
    return output


def test_masks_are_palette_files_of_the_likeliest_classes(saved, images):
    folder = run(saved, images / "new", images / "out", "--probabilities", "top", "--energy", "true")
    energies = json.loads((folder / "energies.json").read_text())
    assert len(list(folder.iterdir())) == 33
    seal, p = SealForSegmentation.from_pretrained(saved.path), torch.from_numpy(saved.logits).softmax(1)
    for i in range(16):
        file = Image.open(folder / f"img_{i:02}.png")
        assert file.mode == "P" and np.array_equal(np.asarray(file), saved.logits[i].argmax(0))
        assert np.array_equal(np.asarray(file.convert("RGB")), palette()[saved.logits[i].argmax(0)])
        grey = np.asarray(Image.open(folder / f"img_{i:02}_probability.png"))
        assert np.abs(grey / 255 - p[i].amax(0).numpy()).max() <= 0.5 / 255 + 1e-6
        y = seal.space.gold(torch.from_numpy(np.asarray(file).copy())[None].long())[0]
        with torch.no_grad():
            expected = seal.energy(y, pixel_values=MaskRows(saved.data).batch([i])["pixel_values"]).item()
        assert energies[f"img_{i:02}"] == pytest.approx(expected, abs=1e-4)


def test_images_of_other_sizes_get_masks_of_their_size(saved, images):
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 21, 3), np.uint8)).save(images / "large.png")
    mask = np.asarray(Image.open(run(saved, images / "large.png", images / "mask.png")))
    seal = SealForSegmentation.from_pretrained(saved.path)
    (p,), (expected,) = seal.predict([str(images / "large.png")])
    assert p.shape == (3, 40, 21) and mask.shape == (40, 21) and np.array_equal(mask, expected.numpy())


@pytest.mark.parametrize("kind", ["npz", "folder"])
def test_figures_are_those_of_whole_arrays(saved, tmp_path, capsys, kind):
    data, decided = saved.data, saved.logits.argmax(1)
    stored = np.where(data.masks == 255, 9, data.masks)  # as the masks of the training had them
    source = tmp_path / ("test.npz" if kind == "npz" else "test")
    if kind == "npz":
        np.savez(source, images=data.images, masks=stored)
    for i in range(16) if kind == "folder" else ():
        for part, array in (("images", data.images[i]), ("masks", stored[i])):
            (source / part).mkdir(parents=True, exist_ok=True)
            Image.fromarray(array).save(source / part / f"{i:02}.png")
    evaluate(["--model", saved.path, "--input", str(source), "--output", str(tmp_path / "out.json")])
    results = json.loads((tmp_path / "out.json").read_text())
    assert results["figures"] == pytest.approx(class_mask_metrics(decided, data.masks), abs=1e-12)
    iou = class_iou(decided, data.masks)
    assert results["iou"] == pytest.approx(dict(zip(NAMES, iou, strict=True))) and results["rows"] == 16
    out = capsys.readouterr().out
    assert "16 images: mean_iou" in out and re.search(rf"^stripe +{iou[2]:.4f}$", out, re.M)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--decoder", "threshold"], "`decoder` is 'threshold'; these decisions have fixed"),
        (["--decoder", "0.4"], "`decoder` is '0.4'; these decisions have fixed"),
        (["--probabilities", "all"], "`probabilities` is 'all', but a pixel of several classes .* Use top, or none"),
        (["--max_length", "3"], "`max_length` is an option of .* predicts masks. Leave it out"),
    ],
)
def test_what_several_classes_do_not_have_is_refused(saved, images, flags, message):
    with pytest.raises(ValueError, match=message):
        run(saved, images / "new", images / "out", *flags)


def test_nothing_is_fitted_anew_and_wrong_masks_are_named(saved, tmp_path):
    np.savez(tmp_path / "test.npz", images=saved.data.images, masks=np.where(saved.data.masks == 255, 5, 0))
    given = ["--model", saved.path, "--input", str(tmp_path / "test.npz")]
    with pytest.raises(ValueError, match="`refit` is True, but masks of several classes are decided by the likeliest"):
        evaluate([*given, "--refit"])
    with pytest.raises(ValueError, match="test.npz, row 0: the mask holds the class 5, but the model has 3 classes"):
        evaluate(given)
