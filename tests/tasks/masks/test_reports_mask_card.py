"""The card of a segmentation net. Oracles: huggingface_hub reads it back, its snippet runs as a program, and the net's
own probabilities at 0.5."""

import re
from pathlib import Path

import numpy as np
import pytest
import tiny_masks
from huggingface_hub import ModelCard
from launching import anew
from tiny_masks import squares

from seal_hf import MaskRows, SealForSegmentation, fcn_image_processor, resize_to
from seal_hf.tasks.masks.evaluation import evaluate_masks

ROOT = Path(__file__).resolve().parents[3]
SIZE = 32  # pixels a side, the least of a SegFormer


@pytest.fixture(params=["fcn fixed", "segformer fixed", "fcn threshold"])
def saved(request, tmp_path):
    """A trained net with its card in the folder `net`: its kind, decoder, figures, and probabilities of an image."""
    nets, (kind, decoder) = tiny_masks.model(), request.param.split()
    if kind == "segformer":
        nets = SealForSegmentation.from_pretrained(tiny_masks.saved_segformer(tmp_path / "segformer"))
    rows = MaskRows(squares(8, SIZE))
    trainer, _ = tiny_masks.make(tmp_path / "net", nets, rows, loss="regression", num_train_epochs=6, decoder=decoder)
    trainer.processing_class = resize_to(fcn_image_processor(), (SIZE, SIZE))
    trainer.train()
    metrics, probabilities = evaluate_masks(trainer, {"eval": rows, "test": rows}, squares(8, SIZE))
    trainer.card_facts = {"metrics": metrics, "dataset": "squares"}
    trainer.save_model()
    trainer.create_model_card()
    return kind, decoder, metrics, probabilities["eval"][0]


@pytest.mark.long
def test_the_card_of_a_saved_folder_gives_its_figures_and_a_snippet_that_runs(saved, tmp_path, monkeypatch):
    Image = pytest.importorskip("PIL.Image", reason="pipelines of images need pillow")
    kind, decoder, metrics, probabilities = saved
    text = (tmp_path / "net" / "README.md").read_text(encoding="utf-8")
    data = ModelCard(text).data
    assert (data.pipeline_tag, data.library_name) == ("image-segmentation", "transformers")
    names = {"mean_iou": "mean_iou", "mean_iou_tuned": "mean_iou", "pixel_accuracy": "accuracy"}
    names |= {"pixel_accuracy_tuned": "accuracy"}  # not the constant mask's
    results = sorted((result.metric_type, result.metric_value) for result in data.eval_results)
    assert results == sorted((kind, round(metrics[f"test_{name}"], 4)) for name, kind in names.items())
    assert f"| mean IoU at 0.5 | {metrics['eval_mean_iou']:.4f} | {metrics['test_mean_iou']:.4f} |" in text
    assert "A binary image segmentation net trained with the regression energy loss" in text
    assert f"The stored decoder is `{decoder}`. A pixel is foreground if its probability is at least" in text
    assert (f"**{metrics['threshold']:g}**" in text) == (decoder == "threshold")
    assert ("pipeline gives each pixel its likelier class" in text) == (decoder == "threshold")
    assert (
        "text-classification" not in text and "multi-label" not in text and "| rows | 8 train, 8 validation |" in text
    )

    code = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1]
    Image.fromarray(squares(8, SIZE).images[0]).save(tmp_path / "image.png")
    monkeypatch.chdir(tmp_path)
    if decoder == "threshold":
        names = {}
        exec(code, names)  # noqa: S102 - our own snippet
        assert np.array_equal(names["mask"].numpy(), probabilities >= metrics["threshold"])
        return
    assert ("import seal_hf" in code) == (kind == "fcn")
    code += '\nmasks.get("square", next(iter(masks.values()))).save("mask.png")\nfound = set(masks)'
    names = {}
    if kind == "fcn":  # a program of its own, where nothing but the snippet registers the FCN

        def program():
            exec(code, names)  # noqa: S102 - our own snippet
            Path("found.txt").write_text(" ".join(names["found"]))

        anew(program)
        names["found"] = set(Path("found.txt").read_text().split())
    else:
        exec(code, names)  # noqa: S102 - our own snippet
    mask = np.asarray(Image.open("mask.png")) == 255
    expected = probabilities >= 0.5
    assert np.array_equal(mask, expected if "square" in names["found"] else ~expected)
