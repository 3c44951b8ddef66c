"""The card of a segmentation net. Oracles: huggingface_hub reads it back, its snippet runs as a program, and the net's
own probabilities at 0.5."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_masks
from huggingface_hub import ModelCard
from tiny_masks import squares

from seal_hf import MaskRows, SealForSegmentation, fcn_image_processor, resize_to
from seal_hf.reports import evaluate_masks

ROOT = Path(__file__).resolve().parents[1]
SIZE = 32  # pixels a side, the least of a SegFormer


@pytest.fixture(params=["fcn", "segformer"])
def saved(request, tmp_path):
    """A trained net with its card in the folder `net`, and what it predicts of the first image: (metrics, mask)."""
    nets = tiny_masks.model()
    if request.param == "segformer":
        nets = SealForSegmentation.from_pretrained(tiny_masks.saved_segformer(tmp_path / "segformer"))
    rows = MaskRows(squares(8, SIZE))
    trainer, _ = tiny_masks.make(tmp_path / "net", nets, rows, loss="regression", num_train_epochs=6)
    trainer.processing_class = resize_to(fcn_image_processor(), (SIZE, SIZE))
    trainer.train()
    metrics, probabilities = evaluate_masks(trainer, {"eval": rows, "test": rows}, squares(8, SIZE))
    trainer.card_facts = {"metrics": metrics, "dataset": "squares"}
    trainer.save_model()
    trainer.create_model_card()
    return request.param, metrics, probabilities["eval"][0] >= 0.5


def test_the_card_of_a_saved_folder_gives_its_figures_and_a_snippet_that_runs(saved, tmp_path, monkeypatch):
    Image = pytest.importorskip("PIL.Image", reason="pipelines of images need pillow")
    kind, metrics, expected = saved
    text = (tmp_path / "net" / "README.md").read_text(encoding="utf-8")
    data = ModelCard(text).data
    assert (data.pipeline_tag, data.library_name) == ("image-segmentation", "transformers")
    results = {result.metric_type: result.metric_value for result in data.eval_results}
    names = ("mean_iou", "mean_iou_tuned", "pixel_accuracy")  # not the constant mask's
    assert results == {name: pytest.approx(metrics[f"test_{name}"], abs=1e-4) for name in names}
    assert f"| mean IoU at 0.5 | {metrics['eval_mean_iou']:.4f} | {metrics['test_mean_iou']:.4f} |" in text
    assert "mean IoU of the mean training mask" in text
    assert "A binary image segmentation net trained with the regression energy loss" in text
    assert (
        f"tuned on validation: **{metrics['threshold']:g}**" in text and "(argmax), which is a threshold of 0.5" in text
    )
    assert "text-classification" not in text and "multi-label" not in text

    code = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1]
    assert ("import seal_hf" in code) == (kind == "fcn")
    code += '\nmasks.get("square", next(iter(masks.values()))).save("mask.png")\nfound = set(masks)'
    Image.fromarray(squares(8, SIZE).images[0]).save(tmp_path / "image.png")
    monkeypatch.chdir(tmp_path)
    names = {}
    if kind == "fcn":  # a program of its own, where nothing but the snippet registers the FCN
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        run = subprocess.run(
            [sys.executable, "-c", code + "\nprint(*found)"], capture_output=True, text=True, timeout=120
        )
        assert run.returncode == 0, run.stderr
        names["found"] = set(run.stdout.split())
    else:
        exec(code, names)  # noqa: S102 - our own snippet
    mask = np.asarray(Image.open("mask.png")) == 255
    assert np.array_equal(mask, expected if "square" in names["found"] else ~expected)
