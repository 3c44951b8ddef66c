"""benchmarks/mask_picture.py: the picture of several runs. Oracle: the drawn pixels are those of images and masks."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from tiny_class_masks import shapes
from tiny_masks import squares

from seal_hf.core.masks import palette

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks" / "mask_picture.py"


@pytest.fixture
def runs(tmp_path):
    """Data, and the folders of two runs: one that is right, one that finds nothing."""
    for split in ("train", "val", "test"):
        np.savez(tmp_path / f"squares_{split}.npz", images=squares(4).images, masks=squares(4).masks)
    gold = (squares(4).masks == 1).astype(np.float16)
    for name, probabilities in (("right", gold), ("empty", 0 * gold)):
        (tmp_path / name).mkdir()
        np.savez_compressed(tmp_path / name / "_predictions_test.npz", probabilities=probabilities)
    return tmp_path


def test_images_truth_and_runs_are_drawn_row_by_row(runs, monkeypatch, capsys):
    image = pytest.importorskip("matplotlib.image")
    from matplotlib.axes import Axes

    drawn, imshow = [], Axes.imshow
    monkeypatch.setattr(Axes, "imshow", lambda axis, x, **kwargs: [drawn.append(x), imshow(axis, x, **kwargs)][1])
    names = [f"cross-entropy={runs / 'empty'}", f"SEAL={runs / 'right'}"]
    output = runs / "masks.png"
    program = runpy.run_path(str(PROGRAM))
    program["main"]([*names, "--dataset", str(runs), "--images", "3", "1", "--output", str(output)])
    data, wanted = squares(4), [3, 1]
    gold = data.masks == 1
    expected = [layer[i] for layer in (data.images, gold, 0 * gold, gold) for i in wanted]
    assert all(np.array_equal(a, b) for a, b in zip(drawn, expected, strict=True))
    assert "cross-entropy, IoU 0.000, SEAL, IoU 1.000" in capsys.readouterr().out
    picture = image.imread(output)
    assert picture.ndim == 3 and picture.std() > 0.1


def test_several_classes_have_their_colours_and_a_legend(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    masks = shapes(4).masks
    for split in ("train", "val", "test"):
        np.savez(tmp_path / f"shapes_{split}.npz", images=shapes(4).images, masks=masks)
    decided = np.where(masks == 255, 0, masks)
    run = tmp_path / "run"
    run.mkdir()
    np.savez_compressed(run / "_predictions_test.npz", masks=decided)
    drawn, legends = [], []
    monkeypatch.setattr(Axes, "imshow", lambda axis, x, **kwargs: drawn.append(x))
    monkeypatch.setattr(Figure, "legend", lambda figure, handles, **kwargs: legends.extend(handles))
    program = runpy.run_path(str(PROGRAM))
    flags = ["--dataset", str(tmp_path), "--class_names", "a", "b", "c", "--images", "3", "0"]
    program["main"]([f"mine={run}", *flags, "--output", str(tmp_path / "masks.png")])
    layers = [shapes(4).images, palette()[masks], palette()[decided]]
    expected = [layer[i] for layer in layers for i in (3, 0)]
    assert all(np.array_equal(a, b) for a, b in zip(drawn, expected, strict=True))
    assert [patch.get_label() for patch in legends] == ["a", "b", "c", "does not count"]
    assert np.allclose(legends[1].get_facecolor()[:3], palette()[1] / 255)
    assert "mine, IoU 1.000" in capsys.readouterr().out
    with pytest.raises(ValueError, match="holds masks of several classes, unlike the data"):
        program["main"]([f"mine={run}"])


@pytest.mark.parametrize(
    "flags, message",
    [
        (["SEAL"], "'SEAL': expected NAME=FOLDER"),
        (["SEAL=nowhere"], "a folder with _predictions_test.npz"),
        (["SEAL=right", "--image_size", "8"], r"predictions \(4, 16, 16\), but the test split has masks \(4, 8, 8\)"),
        (["SEAL=right", "--images", "4"], r"--images \[4\]: give one or more of 0 to 3"),
        (["SEAL=right", "--count", "0"], r"--images \[\]: give one or more"),
    ],
)
def test_mistakes_are_named(runs, monkeypatch, flags, message):
    monkeypatch.chdir(runs)
    with pytest.raises(ValueError, match=message):
        runpy.run_path(str(PROGRAM))["main"]([*flags, "--dataset", str(runs)])
