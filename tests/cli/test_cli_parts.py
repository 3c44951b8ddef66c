"""`seal-hf predict` and `evaluate` in several processes, and after a kill. Oracle: one process that is not disturbed,
byte for byte. The processes are forks that are connected as those of a launcher are."""

import json
import os
import shutil
import signal
from contextlib import suppress

import numpy as np
import pytest
import tiny_masks
import tiny_tags
import torch
from launching import forked, two_processes
from predicting import write
from tiny_models import LABELLED, tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModelForSequenceClassification

from seal_hf import fcn_image_processor
from seal_hf.cli.output_kind import OutputKind, Parts
from seal_hf.cli.predict import evaluate
from seal_hf.cli.predict import main as predict

pytest.importorskip("PIL", reason="image files need pillow")
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ROWS, CHUNK = 11, 2  # six chunks
CASES = {  # kind of model -> the suffixes of its outputs, further flags
    "labels": ((".csv", ".tsv", ".jsonl", ".parquet"), ("--probabilities", "all")),
    "tags": ((".jsonl", ".conll"), ()),
    "masks": (("",), ("--probabilities", "all", "--energy", "true", "--batch_size", CHUNK)),
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Kind of model -> its folder, and labelled rows."""
    folder = tmp_path_factory.mktemp("parts")
    torch.manual_seed(0)
    config = tiny_config("bert", **LABELLED)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder / "labels")
    texts = [
        {"id": i, "text": f"={row['text']}" if i % 3 else "", "labels": json.dumps(["joy"] if i % 2 else ["fear"])}
        for i, row in enumerate(tiny_texts(ROWS))
    ]
    both, _ = tiny_tags.nets("bert", folder)
    both.save_pretrained(folder / "tags")
    for kind in ("labels", "tags"):
        tiny_tokenizer().save_pretrained(folder / kind)
    tiny_masks.model().save_pretrained(folder / "masks")
    fcn_image_processor().save_pretrained(folder / "masks")
    squares = tiny_masks.squares(ROWS)
    sentences = [row | {"tags": [tiny_tags.TAGS[i] for i in row["tags"]]} for row in tiny_tags.sentences(ROWS)]
    np.savez(folder / "masks.npz", images=squares.images, masks=squares.masks)
    inputs = write(folder / "labels.csv", texts), write(folder / "tags.jsonl", sentences), folder / "masks.npz"
    return {kind: (folder / kind, path) for kind, path in zip(CASES, inputs, strict=True)}


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(OutputKind, "rows_per_chunk", CHUNK)


def run(cases, kind, output, *flags):
    model, source = cases[kind]
    predict([*map(str, ("--model", model, "--input", source, "--output", output, *CASES[kind][1], *flags))])


def contents(output):
    """The bytes of a file, or of those in a folder by name."""
    files = sorted(output.iterdir()) if output.is_dir() else [output]
    return {file.name if output.is_dir() else "": file.read_bytes() for file in files}


def killed(number, *arguments):
    """A command in one process, which is killed when half of a part is written."""
    whole = Parts.write

    def write(self, i, rows):
        if i < number:
            return whole(self, i, rows)
        with self.make_writer(self._place(i)) as writer:
            writer.write(rows[:1])
            os.kill(os.getpid(), signal.SIGKILL)

    def command():
        Parts.write = write
        run(*arguments)

    assert forked(command) == [-signal.SIGKILL]


def test_two_processes_write_what_one_does_and_go_on_after_a_kill(cases, tmp_path):
    jobs = [(kind, suffix) for kind, (suffixes, _) in CASES.items() for suffix in suffixes]
    for kind, suffix in jobs:
        run(cases, kind, tmp_path / f"one_{kind}{suffix}")
        killed(3, cases, kind, tmp_path / f"two_{kind}{suffix}")
        assert not (tmp_path / f"two_{kind}{suffix}").exists()
    for kind, (model, source) in cases.items():
        evaluate([*map(str, ("--model", model, "--input", source, "--output", tmp_path / f"one_{kind}.json"))])
    (tmp_path / "written").mkdir()
    whole = Parts.write

    def noted(self, number, rows):
        (tmp_path / "written" / f"{self.output.name} {number} {os.environ['RANK']}").touch()
        whole(self, number, rows)

    def commands(rank):
        Parts.write = noted
        for kind, suffix in jobs:
            run(cases, kind, tmp_path / f"two_{kind}{suffix}")
        for kind, (model, source) in cases.items():
            with suppress(SystemExit):  # the second process has done its share
                evaluate([*map(str, ("--model", model, "--input", source, "--output", tmp_path / f"two_{kind}.json"))])

    two_processes(commands)
    outputs = [*(f"{kind}{suffix}" for kind, suffix in jobs), *(f"{kind}.json" for kind in cases)]
    for name in outputs:
        one, two = (contents(tmp_path / f"{which}_{name}") for which in ("one", "two"))
        assert one == two and all(one.values())
    expected = {f"two_{kind}{suffix} {number} {number % 2}" for kind, suffix in jobs for number in (3, 4, 5)}
    assert {file.name for file in (tmp_path / "written").iterdir()} == expected
    assert not list(tmp_path.glob("*.parts"))


@pytest.mark.parametrize("changed", ["flag", "input", "model", None])
def test_another_command_does_not_take_over_the_parts(cases, tmp_path, capsys, changed):
    model, source = (tmp_path / path.name for path in cases["labels"])
    shutil.copytree(cases["labels"][0], model)
    shutil.copy(cases["labels"][1], source)
    own, output = {"labels": (model, source)}, tmp_path / "out.csv"
    killed(3, own, "labels", output)
    flags = ("--decoder", "0.45") if changed == "flag" else ()
    if changed == "input":
        source.write_text(source.read_text().replace("joy", "fear"))
    if changed == "model":
        net = AutoModelForSequenceClassification.from_pretrained(model)
        net.classifier.bias.data += 1
        net.save_pretrained(model)
    run(own, "labels", output, *flags)
    assert ("goes on with the parts" in capsys.readouterr().err) == (changed is None)
    run(own, "labels", tmp_path / "fresh.csv", *flags)
    assert contents(output) == contents(tmp_path / "fresh.csv")


def test_a_mistake_leaves_no_parts_and_a_strange_folder_stays(cases, tmp_path):
    (tmp_path / "bad.csv").write_text(cases["labels"][1].read_text() + "1,2,3,4,5\n")
    with pytest.raises(ValueError, match="bad.csv"):
        run({"labels": (cases["labels"][0], tmp_path / "bad.csv")}, "labels", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv.parts").exists()
    (tmp_path / "out.csv.parts").mkdir()
    (tmp_path / "out.csv.parts/mine.txt").touch()
    with pytest.raises(ValueError, match="out.csv.parts is needed"):
        run(cases, "labels", tmp_path / "out.csv")
    assert (tmp_path / "out.csv.parts/mine.txt").exists()
