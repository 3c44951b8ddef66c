"""A full disk and too little memory end a program with one line. Oracles: the errors that the libraries raise when the
kernel refuses them a file of more than some bytes, or memory; a run that was not disturbed, to the bit."""

import errno
import os
import resource
import signal
import sys
from contextlib import contextmanager

import numpy as np
import pyarrow
import pytest
import tiny_run
import torch
from PIL import Image
from safetensors.torch import save_file

from seal_hf import SealForMultiLabel, load_multilabel
from seal_hf.cli.programs import run_program
from seal_hf.lab.compare import program as comparison
from seal_hf.saving import last_complete_checkpoint
from seal_hf.tasks.labels import program as mlc
from seal_hf.utils.faults import AGAIN, RESUMED, DiskFullError, fault_of, writing
from seal_hf.utils.files import whole_file

SMALL = "--max_train_rows 60 --hidden_size 16 --num_train_epochs 2 --per_device_train_batch_size 30".split()
QUIET = "--use_cpu true --disable_tqdm true --report_to none --report false".split()


@contextmanager
def disk_with_room_for(size):
    """Inside, no file of this process grows above `size` bytes: the kernel refuses it as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def line_of(program, monkeypatch, capsys):
    """The one line of a program that ends with an error."""
    monkeypatch.setattr(sys, "argv", ["seal-hf"])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        run_program(program)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("seal-hf: ") or "Trace" in line]
    assert ended.value.code == 1 and len(said) == 1
    return said[0]


WRITERS = {
    "text": lambda file: file.write_text("x" * 10**5),
    "safetensors": lambda file: save_file({"a": torch.zeros(10**5)}, file),
    "PyTorch": lambda file: torch.save({"a": torch.zeros(10**5)}, file),
    "PyTorch, many": lambda file: torch.save([torch.zeros(100) for _ in range(1000)], file),
    "Arrow": lambda file: pyarrow.parquet.write_table(pyarrow.table({"a": np.random.rand(10**5)}), file),
    "NumPy": lambda file: np.savez(file, np.zeros(10**5)),
    "Pillow": lambda file: Image.fromarray(np.random.randint(0, 255, (300, 300), np.uint8)).save(file, "PNG"),
}


@pytest.mark.parametrize("room", [0, 1000, 5000])
@pytest.mark.parametrize("library", WRITERS)
def test_a_full_disk_is_named_whatever_library_writes(library, room, tmp_path):
    with pytest.raises(DiskFullError) as error, disk_with_room_for(room), writing(tmp_path / "file", AGAIN):
        WRITERS[library](tmp_path / "file")
    said = str(error.value)
    assert said.startswith(f"{tmp_path / 'file'} could not be written: the disk is full (") and said.endswith(AGAIN)
    assert "Free some space, or choose another folder." in said and "\n" not in said


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path):
    (tmp_path / "file").write_text("before")
    with (
        pytest.raises(DiskFullError, match="file could not be"),
        disk_with_room_for(10),
        whole_file(tmp_path / "file") as new,
    ):
        new.write_text("x" * 100)
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "before"


def test_the_inner_of_two_contexts_names_the_file_and_says_what_stays():
    with pytest.raises(DiskFullError, match="inner could not .* the same command") as error:
        with writing("outer", RESUMED), writing("middle", AGAIN), writing("inner"):
            raise OSError(errno.ENOSPC, "No space left on device")
    assert RESUMED not in str(error.value)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The weights of the same run on a disk with room."""
    folder = tmp_path_factory.mktemp("undisturbed")
    mlc.main([*QUIET, *SMALL, "--save_total_limit", "1", "--output_dir", str(folder)])
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("room", [100, 8_000, 30_000])
def test_a_run_on_a_full_disk_goes_on_when_there_is_room(room, undisturbed, tmp_path, monkeypatch, capsys):
    """`room` is that for configurations, for weights, for the states of optimizers. The first checkpoint is whole."""
    words = [*QUIET, *SMALL, "--save_total_limit", "1", "--output_dir", str(tmp_path)]
    save, saved = mlc.SealTrainer._save_checkpoint, []

    def second_is_refused(self, *args):
        saved.append(self.state.global_step)
        with disk_with_room_for(room if len(saved) == 2 else resource.RLIM_INFINITY):
            save(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(mlc.SealTrainer, "_save_checkpoint", second_is_refused)
        line = line_of(lambda: mlc.main(words), monkeypatch, capsys)
    assert f"{tmp_path / 'checkpoint-4'}" in line and line.endswith(RESUMED)
    assert last_complete_checkpoint(tmp_path) == tmp_path / "checkpoint-2"
    mlc.main([*words, "--resume_from_checkpoint", "last"])
    assert (tmp_path / "model.safetensors").read_bytes() == undisturbed


@pytest.mark.parametrize("room", [2_000, 130_000])
@pytest.mark.parametrize("name", ["tune", "compare"])
def test_a_search_on_a_full_disk_ends_with_a_line(name, room, tmp_path, monkeypatch, capsys):
    """`room` is that for no data base, and for a data base but no trial."""
    pytest.importorskip("optuna")
    monkeypatch.setattr(comparison, "write_table", lambda *_: None)
    words = [*SMALL, *(["--hidden_size", "2000"] if room > 10_000 else []), "--output_dir", str(tmp_path)]
    program = {
        "tune": lambda: mlc.main([*QUIET, *words, "--tune", "2"]),
        "compare": lambda: comparison.main([*words, "--losses", "ce", "--budget", "2"]),
    }[name]
    with disk_with_room_for(room):
        line = line_of(program, monkeypatch, capsys)
    assert str(tmp_path) in line and "the disk is full" in line and line.endswith(AGAIN)


# --- memory ----------------------------------------------------------------------------------------------------------


class Killed(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does if memory is short


LARGE = {
    "NumPy": lambda: np.zeros((10**8, 10**8)),
    "PyTorch": lambda: torch.zeros(10**15),
    "PyTorch, overflow": lambda: torch.zeros(10**10, 10**10),
    "Arrow": lambda: pyarrow.allocate_buffer(2**50),
    "Python": lambda: bytearray(2**60),
    "a child": lambda: list(torch.utils.data.DataLoader(Killed(), num_workers=1)),
    "a net": lambda: tiny_run.SealForMultiLabel.for_data(tiny_run.Names, hidden_size=10**7),
}


@pytest.mark.parametrize("library", LARGE)
def test_too_little_memory_ends_a_program_with_a_line(library, monkeypatch, capsys):
    line = line_of(LARGE[library], monkeypatch, capsys)
    assert line.startswith("seal-hf: there is not enough memory (") and "Lower the batch size" in line
    assert "max_length" in line and "hidden_size" in line and "enforce fail" not in line


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has ..."),
        RuntimeError("std::bad_alloc"),
        SystemError("<built-in method stack> returned NULL without setting an exception"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("unable to allocate shared memory(shm) for file </torch_1>: Success (0)"),
        RuntimeError("DataLoader worker (pid 12) is killed by signal: Killed. "),
        ImportError("/a/b.so: failed to map segment from shared object"),
    ],
)
def test_other_errors_of_little_memory(error):
    assert str(fault_of(error)).startswith("there is not enough memory (")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"),
        ValueError("file too large: expected at most 1 GiB"),
        OSError(errno.ENOENT, "No such file or directory", "x"),
        KeyError("disk is full"),
        ImportError("/a/b.so: failed to map segment from shared object: Operation not permitted"),
    ],
)
def test_other_errors_are_no_faults_of_the_machine(error):
    assert fault_of(error) is None


@pytest.mark.parametrize("writer", ["safetensors", "PyTorch"])
def test_a_folder_in_the_place_of_a_file_is_one_line(writer, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").mkdir()

    def program():
        with writing(tmp_path / "run", RESUMED):
            WRITERS[writer](tmp_path / "file")

    said = line_of(program, monkeypatch, capsys)
    assert f"{tmp_path / 'run'}: a file could not be written" in said and "s a directory" in said


def test_the_folder_of_a_net_is_named_not_that_of_the_run(tmp_path, monkeypatch, capsys):
    model = SealForMultiLabel.for_data(load_multilabel("digits"), hidden_size=4)
    (tmp_path / "_loss_net/model.safetensors").mkdir(parents=True)

    def program():
        with writing(tmp_path, RESUMED):
            model.save_pretrained(tmp_path)

    assert f"{tmp_path / '_loss_net'}: a file could not be written" in line_of(program, monkeypatch, capsys)


@pytest.mark.parametrize("with_loss_net", [True, False])
def test_a_net_is_not_saved_in_the_place_of_a_file(with_loss_net, tmp_path):
    """transformers logs it and saves nothing."""
    model = SealForMultiLabel.for_data(load_multilabel("digits"), hidden_size=4)
    model = model if with_loss_net else SealForMultiLabel(model.task_net, None)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="`folder` is '.*file', which is a file. Give a folder"):
        model.save_pretrained(tmp_path / "file")


@pytest.mark.parametrize("words", [["--data_dir", "{}", "--seed", "1"], ["--data_dir={}"], ["--seed", "1"]])
@pytest.mark.parametrize("name", ["a", "b" * 5000])
def test_a_path_that_the_system_refuses_is_shown_with_its_flag(name, words, tmp_path, monkeypatch, capsys):
    def program():
        monkeypatch.setattr(sys, "argv", ["seal-hf", *(word.format(tmp_path / name) for word in words)])
        open(tmp_path / name / "train.csv")

    said = line_of(program, monkeypatch, capsys)
    flag = "--data_dir: " if "data_dir" in words[0] else ""
    reason = "No such file or directory" if name == "a" else "File name too long"
    assert said.startswith(f"seal-hf: {flag}{reason}: '{tmp_path}") and len(said) < 400
    assert ("characters)" in said) == (len(name) > 1)
