"""Outputs that cannot be written. Oracles: the files before and after, and that no model is looked for."""

import os
import sys

import pytest
from predicting import trained_on_texts, write

from seal_hf.cli.export import main as export
from seal_hf.cli.predict import evaluate
from seal_hf.cli.predict import main as predict
from seal_hf.utils.files import whole_file

PROGRAMS = {".csv": predict, ".json": evaluate, ".onnx": export}


@pytest.fixture
def folder(tmp_path):
    """A folder with an input, and with places where no file can be written."""
    write(tmp_path / "input.csv", [{"text": "good", "labels": "joy"}])
    (tmp_path / "file").write_text("kept")
    for suffix in PROGRAMS:
        (tmp_path / f"folder{suffix}").mkdir()
        os.mkfifo(tmp_path / f"pipe{suffix}")
        (tmp_path / f"device{suffix}").symlink_to("/dev/full")
        (tmp_path / f"link{suffix}").symlink_to("input.csv")
    return tmp_path


def contents(folder):
    """Names, and the bytes of files."""
    return {path.name: path.is_file() and path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder{}", "a folder. Give another name"),
        ("pipe{}", "a device or a pipe. Give another name"),
        ("device{}", "a device or a pipe. Give another name"),
        ("link{}", "which is the input"),
        ("file/below{}", "file: Not a directory. Give another place"),
        ("file/far/below{}", "file: Not a directory. Give another place"),
        ("x" * 250 + "{}", "File name too long. Give another place"),
    ],
)
@pytest.mark.parametrize("suffix", PROGRAMS)
def test_an_output_that_cannot_be_written_is_refused_before_the_model_is_looked_for(folder, suffix, name, message):
    if suffix == ".onnx" and name == "link{}":
        pytest.skip("an export has no input beside the model")
    before, source = contents(folder), ["--input", str(folder / "input.csv")] * (suffix != ".onnx")
    words = ["--model", "no/model", *source, "--output", str(folder / name.format(suffix)), "--overwrite"]
    with pytest.raises(ValueError, match="^`output` is ") as refused:
        PROGRAMS[suffix](words)
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert contents(folder) == before


def test_figures_are_written_though_nobody_reads_what_is_printed(tmp_path, monkeypatch, capsys):
    _, model, _ = trained_on_texts(tmp_path)
    source = write(tmp_path / "test.csv", [{"text": "good film", "labels": "joy"}])

    class Unread:
        def write(self, text):
            raise BrokenPipeError

    words = ["--model", str(model), "--input", str(source)]
    monkeypatch.setattr(sys, "stdout", Unread())
    with pytest.raises(BrokenPipeError):
        evaluate([*words, "--output", str(tmp_path / "figures.json")])
    assert '"rows": 1' in (tmp_path / "figures.json").read_text()
    monkeypatch.setattr(sys, "stdout", None)
    for program in (predict, evaluate):
        with pytest.raises(ValueError, match="`output` is missing, and the standard output is closed. Name a file"):
            program(words)
    predict([*words, "--output", str(tmp_path / "two\nlines.csv")])
    assert len((tmp_path / "two\nlines.csv").read_text().splitlines()) == 2
    assert f"seal-hf predict: 1 row in {tmp_path}/two lines.csv.\n" in capsys.readouterr().err


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(IsADirectoryError, match=r"report.html is a folder, where a file is written. Move it away\.$"):
        with whole_file(tmp_path / "report.html"):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
