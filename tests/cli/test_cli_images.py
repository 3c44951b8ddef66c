"""`seal-hf` on images with label sets. Oracles: the saved net's own `predict`, figures of the package on its
probabilities, one process beside another."""

import csv
import json

import numpy as np
import pytest
import tiny_images
from datasets import Dataset, DatasetDict, Features, Image
from fake_hub import FakeHub, Repo
from tiny_images import COLOURS, saved_encoder, squares, write_csv, write_files, write_folder

from seal_hf import SealForMultiLabel
from seal_hf.cli import predict
from seal_hf.cli.predict import evaluate
from seal_hf.data import DataError
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.metrics import set_metrics
from seal_hf.tasks.labels.program import ENERGY_PROGRAM as energy

pytest.importorskip("PIL", reason="images need pillow")
QUICK = "--max_steps 8 --report_to none --report false --use_cpu true --disable_tqdm true".split()
QUICK += ["--per_device_train_batch_size", "8"]


def train(folder, *flags):
    return mlc.main([*map(str, flags), "--output_dir", str(folder), *QUICK])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A trained folder, and that of its images."""
    home = tmp_path_factory.mktemp("run")
    encoder, data = saved_encoder(home / "encoder", "vit"), write_folder(home / "data")
    flags = [
        "--dataset",
        data,
        "--model_name_or_path",
        encoder,
        "--loss_net_encoder",
        "shared",
        "--learning_rate",
        "1e-2",
    ]
    train(home / "out", *flags)
    return home / "out", data


def predicted(model, source, output, *flags):
    words = ["--model", model, "--input", source, "--output", output, "--overwrite", *flags]
    predict.main([*map(str, words)])
    if output.suffix == ".jsonl":
        return [json.loads(line) for line in output.read_text().splitlines()]
    with open(output, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def by_model(folder, images):
    """The labels that the saved net decides, joined."""
    model = SealForMultiLabel.from_pretrained(folder, with_loss_net=False)
    _, decisions = model.predict(list(images))
    return ["|".join(model.config.id2label[i] for i in np.flatnonzero(row)) for row in decisions.numpy()]


def message_of(call, *words):
    with pytest.raises((ValueError, OSError)) as error:
        call([*map(str, words)])
    assert "\n" not in str(error.value)
    return str(error.value)


# --- train -----------------------------------------------------------------------------------------------------------


def test_a_run_leaves_a_model_its_processor_and_its_files(run, capsys):
    folder, data = run
    for name in ("config.json", "model.safetensors", "preprocessor_config.json", "_loss_net/config.json"):
        assert (folder / name).is_file(), name
    line = json.loads((folder / "_predictions.jsonl").read_text().splitlines()[0])
    assert line["source"] == str(data / "labels.csv") and (data / "images" / line["file"]).is_file()
    card = (folder / "README.md").read_text()
    assert 'pipeline("image-classification"' in card or 'model.predict(["image.png"])' in card
    assert "| images read at | 16 x 16 pixels |" in card and "--input new_images" in card


def test_the_small_net_needs_no_model(tmp_path, capsys):
    data = write_folder(tmp_path / "data")
    figures = train(tmp_path / "out", "--dataset", data, "--augmentation", "flip")
    assert "test_f1_example_decided" in figures and "to predict: seal-hf predict" in capsys.readouterr().out
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["model_type"] == "seal_cnn" and config["inputs"]["image_size"] == [20, 24]
    images = squares(3, seed=5)[0]
    rows = predicted(tmp_path / "out", data, tmp_path / "out.csv")
    assert len(rows) == 40
    rows = predicted(tmp_path / "out", write_some(tmp_path / "new", images), tmp_path / "out.csv")
    assert [row["labels"] for row in rows] == by_model(tmp_path / "out", images)


def write_some(folder, images):
    write_files(folder, images)
    return folder


def test_a_resumed_run_ends_as_the_whole_one(tmp_path):
    """By the program, with flips and crops, in the second epoch."""
    data, encoder = write_folder(tmp_path / "data"), saved_encoder(tmp_path / "encoder", "convnext")
    flags = ["--dataset", data, "--model_name_or_path", encoder, "--eval_strategy", "no", "--load_best_model_at_end"]
    flags += ["false", "--save_strategy", "steps", "--save_steps", "5", "--patience", "0"]
    flags += ["--save_total_limit", "2"]
    whole = train(tmp_path / "whole", *flags)
    resumed = train(tmp_path / "part", *flags, "--resume_from_checkpoint", tmp_path / "whole" / "checkpoint-5")
    assert whole == resumed


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--max_length", "7"], ["`max_length` is for texts, but 'data' is images"]),
        (["--image_size", "0"], ["`image_size` is 0; it must be a finite number, at least 1"]),
        (["--image_size", "24"], ["ViTForImageClassification does not read what the image processor gives", "24 x 24"]),
        (["--augmentation", "mirror"], ["`augmentation` is 'mirror'", "flip_crop"]),
        (["--normalize", "minmax"], ["`normalize` is an option of features"]),
        (["--image_column", "labels"], ["the column 'labels' would be both the input and the labels"]),
    ],
)
def test_a_flag_that_does_not_fit_is_one_line(run, tmp_path, flags, words):
    folder, data = run
    given = ["--dataset", data, "--model_name_or_path", folder, "--output_dir", tmp_path / "x", *QUICK, *flags]
    message = message_of(mlc.main, *given)
    assert all(word in message for word in words), message


def test_other_data_or_programs_are_one_line(run, tmp_path):
    _, data = run
    (tmp_path / "texts.csv").write_text("text,labels\n" + "a b,x|y\n" * 20)
    words = ["--dataset", tmp_path / "texts.csv", "--output_dir", tmp_path / "x", *QUICK]
    assert "`augmentation` is for images, but 'texts' is text" in message_of(mlc.main, *words, "--augmentation", "flip")
    message = message_of(energy.main, "--dataset", data, "--output_dir", tmp_path / "x", *QUICK)
    assert "holds images, but an energy network on its own reads features or texts" in message


# --- predict ---------------------------------------------------------------------------------------------------------


def test_a_folder_of_images_is_predicted_file_by_file(run, tmp_path):
    images, _ = squares(9, seed=4)
    write_files(tmp_path / "new", images)
    (tmp_path / "new" / "notes.txt").write_text("not an image")
    expected = by_model(run[0], images)
    for output in ("out.csv", "out.jsonl"):
        rows = predicted(run[0], tmp_path / "new", tmp_path / output, "--batch_size", "4")
        assert [row["file"] for row in rows] == [f"p{i}.png" for i in range(9)]
        cells = [row["labels"] if output == "out.csv" else "|".join(row["labels"]) for row in rows]
        assert cells == expected
    (row,) = predicted(run[0], tmp_path / "new" / "p3.png", tmp_path / "one.csv", "--energy", "true")
    assert row["labels"] == expected[3] and np.isfinite(float(row["energy"]))


def test_a_table_of_names_keeps_its_columns(run, tmp_path):
    folder, data = run
    rows = predicted(folder, data / "labels.csv", tmp_path / "out.csv", "--probabilities", "all")
    assert list(rows[0]) == [
        "file",
        "labels",
        "predicted_labels",
        *(f"probability_{colour}" for colour in sorted(COLOURS)),
    ]
    assert [row["predicted_labels"] for row in rows] == by_model(folder, squares(40)[0])
    assert rows == predicted(folder, data, tmp_path / "again.csv", "--probabilities", "all")


def test_stored_images_become_their_paths(run, tmp_path):
    table = tiny_images.table(12)
    DatasetDict(train=table, test=table.select(range(5))).save_to_disk(tmp_path / "saved")
    table.to_parquet(tmp_path / "all.parquet")
    expected = by_model(run[0], squares(12)[0])
    rows = predicted(run[0], tmp_path / "saved", tmp_path / "out.jsonl")
    assert ["|".join(row["predicted_labels"]) for row in rows] == expected[:5] and rows[0]["image"] is None
    predict.main(
        [*map(str, ["--model", run[0], "--input", tmp_path / "all.parquet", "--output", tmp_path / "o.parquet"])]
    )
    from pyarrow import parquet

    written = parquet.read_table(tmp_path / "o.parquet").to_pylist()
    assert ["|".join(row["predicted_labels"]) for row in written] == expected
    cells = [{"bytes": None, "path": "http://example.org/x.png"}]
    types = Features({"image": Image(decode=False)})
    table = Dataset.from_dict({"image": cells}, features=types).with_format("arrow")[:]
    parquet.write_table(table, tmp_path / "all.parquet")
    with pytest.raises(DataError, match=r"row 0 \(counting from 0\): no image file 'http://example.org/x.png' on this"):
        predicted(run[0], tmp_path / "all.parquet", tmp_path / "out.jsonl")


def test_the_figures_are_those_of_the_decisions(run, tmp_path):
    folder, data = run
    evaluate([*map(str, ["--model", folder, "--input", data, "--output", tmp_path / "found.json"])])
    found = json.loads((tmp_path / "found.json").read_text())
    images, labels = squares(40)
    _, decisions = SealForMultiLabel.from_pretrained(folder, with_loss_net=False).predict(list(images))
    order = [COLOURS.index(name) for name in found["labels"]]
    assert found["figures"]["f1_micro"] == pytest.approx(
        set_metrics(decisions.numpy() > 0, labels[:, order])["f1_micro"]
    )
    assert sorted(order) == [0, 1, 2, 3] and found["rows"] == 40


CLIENT = """
import sys
from seal_hf.cli import predict
from seal_hf.cli.predict import evaluate
evaluate(["--model", sys.argv[1], "--input", "user/photos", "--output", "found.json"])
predict.main(["--model", sys.argv[1], "--input", "user/photos", "--output", "out.jsonl"])
"""


@pytest.mark.long
def test_a_hub_data_set_is_predicted_and_evaluated(run, tmp_path):
    tiny_images.table(7).to_parquet(tmp_path / "test.parquet")
    with FakeHub() as hub:
        hub.repos["dataset", "user/photos"] = Repo({}, {})
        files = {"data/test-00000-of-00001.parquet": (tmp_path / "test.parquet").read_bytes()}
        hub.repos["dataset", "user/photos"].add_commit("main", files, "data")
        hub.run(CLIENT, tmp_path, run[0])
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert ["|".join(row["predicted_labels"]) for row in rows] == by_model(run[0], squares(7)[0])
    assert json.loads((tmp_path / "found.json").read_text())["rows"] == 7


@pytest.mark.parametrize(
    ("command", "given", "words"),
    [
        ("evaluate", "new", ["holds images without labels. Give a table of image files and labels"]),
        ("predict", "empty", ["no images, nor a table of their names"]),
        ("predict", "other.csv", ["has no column of images or of names of image files", "--image_column"]),
        ("predict", "lost.csv", ["lost.csv, line 2: no image file 'no.png'"]),
        ("predict", "new/deep.tif", ["deep.tif: not readable as an image", "Replace or remove it"]),
        ("predict", "no", ["no such file or folder"]),
    ],
)
def test_an_input_that_does_not_fit_is_one_line(run, tmp_path, command, given, words):
    write_files(tmp_path / "new", squares(2)[0])
    (tmp_path / "empty").mkdir()
    (tmp_path / "new" / "deep.tif").write_bytes(b"x")
    (tmp_path / "other.csv").write_text("text,labels\na,red\n")
    write_csv(tmp_path / "lost.csv", ["no.png"], squares(1)[1])
    call = {"evaluate": evaluate, "predict": predict.main}[command]
    output = tmp_path / ("o.json" if command == "evaluate" else "o.csv")
    message = message_of(call, "--model", run[0], "--input", tmp_path / given, "--output", output)
    assert all(word in message for word in words), message
    assert not output.exists()


def test_flags_of_texts_are_refused_and_images_by_a_text_model(run, tmp_path):
    words = ["--model", run[0], "--input", run[1], "--output", tmp_path / "o.csv"]
    message = message_of(predict.main, *words, "--text_column", "file")
    assert "`text_column` is for texts, but" in message and "reads images" in message


# --- compare ---------------------------------------------------------------------------------------------------------


def test_a_comparison_runs_on_images(tmp_path, program):
    data = write_folder(tmp_path / "data")
    flags = ["--dataset", data, "--losses", "constant", "ce", "nce", "--output_dir", tmp_path / "out"]
    program.main([*map(str, flags), "--num_train_epochs", "1", "--use_cpu", "true"])
    table = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {"constant", "ce", "nce"} <= set(str(table).replace("'", " ").split())
