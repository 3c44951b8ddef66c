"""`seal-hf predict` and `evaluate` of masks. Oracles: the trainer's predictions, bit for bit; the figures of
`mask_metrics` on whole arrays."""

import json
import shutil
from types import SimpleNamespace

import datasets
import numpy as np
import pytest
import tiny_masks
import torch

from seal_hf import MaskRows, SealForSegmentation, fcn_image_processor
from seal_hf.cli.predict import main as predict
from seal_hf.data.common import DataError
from seal_hf.data.image_files import resized
from seal_hf.data.tensors.images import resize_to
from seal_hf.decisions import MaskDecisions
from seal_hf.tasks.masks.metrics import mask_metrics, mask_probabilities

Image = pytest.importorskip("PIL.Image", reason="image files need pillow")
THRESHOLD = 0.4


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Nets with random weights that predict crop by crop, their trainer, and their data."""
    folder = tmp_path_factory.mktemp("masks")
    torch.manual_seed(0)
    nets = tiny_masks.model(tiny_masks.CROP)
    for score in nets.task_net.scores:
        score.weight.data *= 20
    data = tiny_masks.squares()
    trainer, _ = tiny_masks.make(folder / "run", nets, MaskRows(data), per_device_eval_batch_size=5)
    p = mask_probabilities(trainer.predict(MaskRows(data)).predictions)
    nets.task_net.scores[0].bias.data[1] -= float(np.log(np.median(p) / (1 - np.median(p))))  # about half is foreground
    p = mask_probabilities(trainer.predict(MaskRows(data)).predictions)
    MaskDecisions("threshold", threshold=THRESHOLD).store(nets.config)
    nets.save_pretrained(folder / "model")
    resize_to(fcn_image_processor(), (16, 16)).save_pretrained(folder / "model")
    return SimpleNamespace(path=str(folder / "model"), data=data, probabilities=p.astype(np.float64))


@pytest.fixture
def images(saved, tmp_path):
    """A folder of the images, and an .npz file."""
    (tmp_path / "new").mkdir()
    for i, image in enumerate(saved.data.images):
        Image.fromarray(image).save(tmp_path / f"new/img_{i:02}.png")
    np.savez(tmp_path / "new.npz", images=saved.data.images)
    return tmp_path


def run(model, source, output, *flags):
    predict(["--model", model, "--input", str(source), "--output", str(output), "--batch_size", "5", *flags])
    return output


def read(file):
    image = Image.open(file)
    assert image.mode == "L"
    return np.asarray(image)


# --- the trainer's predictions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", [None, "fixed", "threshold", "0.55"])
def test_masks_are_those_of_the_trainer(saved, images, decoder):
    cut = {None: THRESHOLD, "fixed": 0.5, "threshold": THRESHOLD, "0.55": 0.55}[decoder]
    expected = np.where(saved.probabilities >= cut, 255, 0)
    assert 0.1 < (expected == 255).mean() < 0.9
    flags = () if decoder is None else ("--decoder", decoder)
    folder = run(saved.path, images / "new", images / "masks", *flags)
    assert sorted(file.name for file in folder.iterdir()) == [f"img_{i:02}.png" for i in range(16)]
    assert np.array_equal([read(folder / f"img_{i:02}.png") for i in range(16)], expected)
    folder = run(saved.path, images / "new.npz", images / "rows", *flags)
    assert np.array_equal([read(folder / f"{i}.png") for i in range(16)], expected)
    assert len(list(folder.iterdir())) == 16
    run(saved.path, images / "new/img_03.png", images / "one/img.png", *flags)
    assert np.array_equal(read(images / "one/img.png"), expected[3])


def test_probabilities_and_energies(saved, images):
    folder = run(saved.path, images / "new", images / "out", "--probabilities", "all", "--energy", "true")
    assert len(list(folder.iterdir())) == 33
    energies = json.loads((folder / "energies.json").read_text())
    assert list(energies) == [f"img_{i:02}" for i in range(16)]
    seal = SealForSegmentation.from_pretrained(saved.path)
    for i, (name, energy) in enumerate(energies.items()):
        grey = read(folder / f"{name}_probability.png")
        assert np.abs(grey / 255 - saved.probabilities[i]).max() <= 0.5 / 255 + 1e-6
        mask = torch.from_numpy(read(folder / f"{name}.png") / 255).float()
        with torch.no_grad():
            batch = MaskRows(saved.data).batch([i])
            expected = seal.energy(mask[None], pixel_values=batch["pixel_values"]).item()
        assert energy == pytest.approx(expected, abs=1e-4)


def test_images_of_other_sizes_are_resized_and_back(saved, images):
    """Oracle: the net on the image resized as training resizes it; its probabilities scaled to the image's size."""
    sizes = {"high": (40, 16), "small": (9, 11), "same": (16, 16)}
    rng = np.random.default_rng(1)
    arrays = {name: rng.integers(0, 256, (*size, 3), np.uint8) for name, size in sizes.items()}
    (images / "sizes/images").mkdir(parents=True)
    for name, array in arrays.items():
        Image.fromarray(array).save(images / f"sizes/images/{name}.bmp")
    folder = run(saved.path, images / "sizes", images / "out", "--probabilities", "all")
    seal = SealForSegmentation.from_pretrained(saved.path)
    for name, array in arrays.items():
        small = torch.from_numpy(resized(array, (16, 16)).copy()).permute(2, 0, 1)[None] / 255
        p, _ = seal.predict(pixel_values=small)
        p = torch.nn.functional.interpolate(p[None], sizes[name], mode="bilinear")[0, 0]
        mask, grey = read(folder / f"{name}.png"), read(folder / f"{name}_probability.png")
        assert mask.shape == grey.shape == sizes[name]
        assert np.abs(grey / 255 - p.numpy()).max() <= 0.5 / 255 + 1e-6
        sure = np.abs(p.numpy() - THRESHOLD) > 1e-6
        assert np.array_equal((mask == 255)[sure], (p.numpy() >= THRESHOLD)[sure])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_pretrained_net_reads_pixels_as_its_processor_says(tmp_path, dtype):
    path = str(tiny_masks.saved_segformer(tmp_path / "model"))
    images = tiny_masks.squares(3, 64).images
    np.savez(tmp_path / "new.npz", images=images)
    flags = ("--probabilities", "all", "--dtype", dtype)
    folder = run(path, tmp_path / "new.npz", tmp_path / "out", *flags)
    seal = SealForSegmentation.from_pretrained(path, with_loss_net=False)
    pixels = seal.processor(list(images), return_tensors="pt")["pixel_values"]
    p, _ = seal.predict(pixel_values=pixels)
    for i in range(3):
        difference = np.abs(read(folder / f"{i}_probability.png") / 255 - p[i].numpy()).max()
        assert difference <= (0.51 / 255 if dtype == "float32" else 0.05)


# --- files that are there --------------------------------------------------------------------------------------------


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(saved, images, monkeypatch):
    from seal_hf.tasks.masks import files as mask_files

    folder = run(saved.path, images / "new", images / "out", "--energy", "true")
    for ending in ("unfinished", "replaced"):  # someone else's
        (images / f"out.{ending}").mkdir()
        (images / f"out.{ending}" / "thesis.tex").write_text("all of it")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(ValueError, match="exists. Give another name, or --overwrite"):
        run(saved.path, images / "new", folder)

    def fails(self, rows):
        self._save(rows[0]["mask"], self.place / "half.png")
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(mask_files.MaskWriter, "write", fails)
        with pytest.raises(OSError, match="no space left"):
            run(saved.path, images / "new", folder, "--overwrite")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    run(saved.path, images / "new/img_00.png", folder, "--overwrite")
    assert [file.name for file in folder.iterdir()] == ["img_00.png"]
    there = ["new", "new.npz", "out", "out.replaced", "out.unfinished"]
    assert sorted(path.name for path in images.iterdir()) == there
    assert all((images / name / "thesis.tex").read_text() == "all of it" for name in there[3:])


def test_a_folder_of_other_things_is_never_replaced(saved, images):
    (images / "mine").mkdir()
    (images / "mine/thesis.tex").write_text("all of it")
    (images / "file").write_text("all of it")
    (images / "folder.png").mkdir()
    (images / "data").mkdir()
    shutil.copytree(images / "new", images / "data/images")
    for output, message in (
        ("mine", "a folder that would be replaced as a whole, but it holds thesis.tex"),
        ("new", "it holds the images of"),
        (".", "it holds the images of"),
        ("data/images", "it holds the images of"),
        ("data/masks", "it holds the images of"),
        ("file", "a file. Give another name"),
        ("folder.png", "a folder. Give another name"),
    ):
        with pytest.raises(ValueError, match=message):
            run(
                saved.path,
                images / {"folder.png": "new/img_00.png"}.get(output, "data" if "data" in output else "new"),
                images / output,
                "--overwrite",
            )
    assert (images / "mine/thesis.tex").is_file() and len(list((images / "new").iterdir())) == 16


# --- evaluate --------------------------------------------------------------------------------------------------------


def evaluated(capsys, model, source, *flags):
    from seal_hf.cli.predict import evaluate

    evaluate(["--model", model, "--input", str(source), "--batch_size", "5", *flags])
    return capsys.readouterr()


@pytest.mark.parametrize("kind", ["npz", "folder"])
def test_figures_are_those_of_whole_arrays(saved, tmp_path, capsys, kind):
    data, p = saved.data, saved.probabilities
    source = tmp_path / ("test.npz" if kind == "npz" else "test")
    if kind == "npz":
        np.savez(source, images=data.images, masks=data.masks)
    for i in range(16) if kind == "folder" else ():
        for part, array in (("images", data.images[i]), ("masks", data.masks[i])):
            (source / part).mkdir(parents=True, exist_ok=True)
            Image.fromarray(array).save(source / part / f"{i:02}.png")
    for flags, name, cut in (((), "threshold", THRESHOLD), (("--decoder", "0.6", "--overwrite"), "0.6", 0.6)):
        out = evaluated(capsys, saved.path, source, "--output", str(tmp_path / "out.json"), *flags).out
        results = json.loads((tmp_path / "out.json").read_text())
        assert results["figures"] == pytest.approx(mask_metrics(p, data.masks, cut), abs=1e-12)
        fixed = {"threshold": 0.5, **mask_metrics(p, data.masks)}
        assert results["decoders"]["fixed"] == pytest.approx(fixed, abs=1e-12)
        origin = "given by --decoder" if flags else "stored with the model"
        assert results["decisions"] == {"origin": origin, "decoder": name, "threshold": cut}
        assert results["rows"] == 16 and f"{name} *" in out and "mean_iou" in out


@pytest.mark.parametrize("kind", ["saved", "parquet", "folder"])
def test_the_split_of_the_data_of_training_is_measured(saved, tmp_path, capsys, kind):
    """The commands read what training reads: tables on disk, and a split of a folder."""
    data, splits = saved.data, {"train": range(4), "val": range(4, 16)}
    if kind == "folder":
        for split, rows in splits.items():
            for part, arrays in (("images", data.images), ("masks", data.masks)):
                (tmp_path / "data" / part / split).mkdir(parents=True)
                for i in rows:
                    Image.fromarray(arrays[i]).save(tmp_path / "data" / part / split / f"{i}.png")
    else:
        columns = datasets.Features({"image": datasets.Image(), "mask": datasets.Image()})
        arrays = {"image": data.images, "mask": data.masks}
        rows = {
            split: {name: [Image.fromarray(values[i]) for i in ids] for name, values in arrays.items()}
            for split, ids in splits.items()
        }
        tables = datasets.DatasetDict(
            {split: datasets.Dataset.from_dict(found, columns) for split, found in rows.items()}
        )
        tables.save_to_disk(str(tmp_path / "data"))
    if kind == "parquet":
        (tmp_path / "parquet").mkdir()
        for split, table in tables.items():
            table.to_parquet(str(tmp_path / "parquet" / f"{split}.parquet"))
    source = tmp_path / ("parquet" if kind == "parquet" else "data")
    evaluated(capsys, saved.path, source, "--split", "validation", "--output", str(tmp_path / "out.json"))
    expected = mask_metrics(saved.probabilities[4:], data.masks[4:], THRESHOLD)
    assert json.loads((tmp_path / "out.json").read_text())["figures"] == pytest.approx(expected, abs=1e-12)
    flags = ["--model", saved.path, "--input", str(source), "--split", "train", "--output", str(tmp_path / "masks")]
    if kind == "folder":
        flags[3] = str(source / "images" / "train")
        with pytest.raises(DataError, match="`split` is 'train', but .* is read as images without splits. Leave it"):
            predict(flags)
        return
    predict(flags)
    assert sorted(file.name for file in (tmp_path / "masks").iterdir()) == ["0.png", "1.png", "2.png", "3.png"]
    mask = np.asarray(Image.open(tmp_path / "masks" / "2.png")) == 255
    assert (mask == (saved.probabilities[2] >= THRESHOLD)).all()


def test_refit_is_that_of_the_decisions(saved, tmp_path, capsys):
    np.savez(tmp_path / "test.npz", images=saved.data.images, masks=saved.data.masks)
    out = evaluated(capsys, saved.path, tmp_path / "test.npz", "--refit", "--output", str(tmp_path / "out.json")).out
    results = json.loads((tmp_path / "out.json").read_text())
    fitted = MaskDecisions.fit(saved.probabilities, saved.data.masks)
    assert results["decisions"]["threshold"] == fitted.cut() and results["decoder"] == fitted.decoder
    assert results["decoders"]["threshold"]["threshold"] == fitted.threshold != THRESHOLD
    expected = mask_metrics(saved.probabilities, saved.data.masks, fitted.cut())
    assert results["figures"] == pytest.approx(expected, abs=1e-12)
    assert "fitted anew on these rows" in out


def test_black_and_white_masks_are_read_as_foreground(saved, tmp_path, capsys):
    masks = (saved.data.masks == 1) * np.uint8(255)
    np.savez(tmp_path / "test.npz", images=saved.data.images, masks=masks)
    said = evaluated(capsys, saved.path, tmp_path / "test.npz", "--output", str(tmp_path / "out.json")).err
    results = json.loads((tmp_path / "out.json").read_text())
    expected = mask_metrics(saved.probabilities, (masks == 255).astype(int), THRESHOLD)["mean_iou"]
    assert results["figures"]["mean_iou"] == pytest.approx(expected, abs=1e-12) and "255 is read as foreground" in said


def test_what_255_meant_in_training_holds_for_other_masks(saved, tmp_path, capsys):
    """Background with a border that does not count, by a net that was trained on masks of 0, 1 and 255."""
    shutil.copytree(saved.path, tmp_path / "model")
    config = json.loads((tmp_path / "model/config.json").read_text())
    config["inputs"] = {"foreground": 1}
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    masks = np.zeros_like(saved.data.masks)
    masks[:, :2] = 255
    np.savez(tmp_path / "test.npz", images=saved.data.images, masks=masks)
    evaluated(capsys, str(tmp_path / "model"), tmp_path / "test.npz", "--output", str(tmp_path / "out.json"))
    expected = mask_metrics(saved.probabilities, masks, THRESHOLD)
    assert json.loads((tmp_path / "out.json").read_text())["figures"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "one", [np.zeros((16, 16, 3), np.uint8), np.zeros((16, 16), np.uint8), "a.png", Image.new("L", (4, 4))]
)
def test_a_single_image_is_not_taken_for_many(saved, one):
    nets = SealForSegmentation.from_pretrained(saved.path)
    with pytest.raises(ValueError, match="`images` is one .*; expected a list of images"):
        nets.predict(one)
    if isinstance(one, np.ndarray):
        assert len(nets.predict([one])[1]) == 1
    with pytest.raises(ValueError, match=r"place 0: the image has shape \(8, 8, 2\)"):
        nets.predict([np.zeros((8, 8, 2), np.uint8)])


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "output", "flags", "message"),
    [
        ("new", "out.csv", [], "'out.csv', but its suffix is not a format"),
        ("new", "out.jsonl", [], "its suffix is not a format for these predictions; expected a folder"),
        ("new", None, [], "`output` is missing; expected a folder"),
        ("new", "out.png", [], "masks of 16 images are several files. Give a folder"),
        ("new/img_00.png", "out.png", ["--energy"], "masks with probabilities or energies are several files"),
        ("new", "out", ["--probabilities", "top"], "`probabilities` is 'top', but a pixel"),
        ("new", "out", ["--decoder", "viterbi"], "`decoder` is 'viterbi'; these decisions have fixed, threshold"),
        ("new", "out", ["--word_column", "0"], "`word_column` is an option of tag sequences"),
        ("gone", "out", [], "gone: no such file or folder"),
        ("a.svg", "out", [], "a.svg: images of type .svg are not supported"),
        ("empty", "out", [], "empty: no images. Give at least one"),
        (
            "clash",
            "out",
            ["--probabilities", "all"],
            "the probabilities of a and the mask of a_probability would be the same file",
        ),
    ],
)
def test_mistakes_are_said_in_one_line_before_the_model_is_loaded(
    saved, images, monkeypatch, source, output, flags, message
):
    monkeypatch.chdir(images)
    monkeypatch.setattr(SealForSegmentation, "from_pretrained", lambda *args, **kwargs: pytest.fail("it is loaded"))
    (images / "empty").mkdir()
    (images / "a.svg").write_text("")
    (images / "clash").mkdir()
    for name in ("a", "a_probability"):
        Image.fromarray(saved.data.images[0]).save(images / f"clash/{name}.png")
    there = sorted(path.name for path in images.iterdir())
    given = [] if output is None else ["--output", output]
    with pytest.raises(ValueError, match=message) as caught:
        predict(["--model", saved.path, "--input", source, *given, *flags])
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in images.iterdir()) == there


def test_a_folder_without_an_image_processor_is_one_clear_line(saved, images, tmp_path):
    shutil.copytree(saved.path, tmp_path / "bare", ignore=shutil.ignore_patterns("preprocessor_config.json"))
    with pytest.raises(ValueError, match="bare has no image processor to read images. Save the one"):
        run(str(tmp_path / "bare"), images / "new", tmp_path / "masks")
