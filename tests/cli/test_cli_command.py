"""The command `seal-hf`: its subcommands, mistakes in its words, and how a program ends.

Oracle: the modules that a process imported.
"""

import errno
import importlib
import inspect
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launching import anew, finish, start

import seal_hf
from seal_hf import __main__ as command
from seal_hf import api
from seal_hf.cli.programs import INTERRUPTED, UNREAD
from seal_hf.lab.compare.kinds import KINDS
from seal_hf.tasks.rewards.program import PROGRAMS

ROOT = Path(__file__).resolve().parents[2]
TRAINED = "mlc tagging srl parsing segmentation rewards energy mask-energy".split()
SUBCOMMANDS = [
    "predict",
    "evaluate",
    "export",
    *(f"train {name}" for name in TRAINED),
    *(f"decide {name}" for name in ("fit", "apply", "report")),
    "rules",
    "report",
    "demo",
    "compare",
    "analyse",
]


def run(monkeypatch, words):
    """The command in this process; gives what it ends with."""
    monkeypatch.setattr(sys, "argv", ["seal-hf", *words.split()])
    with pytest.raises(SystemExit) as ended:
        command.main()
    return ended.value.code


def process(*words, folder=ROOT):
    """A process of Python that finds this package."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)


def test_help_lists_the_subcommands_and_train_its_own(monkeypatch, capsys):
    assert run(monkeypatch, "--help") == 0
    listed = [line[2:].split("  ")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert listed == SUBCOMMANDS
    assert run(monkeypatch, "train --help") == 0
    listed = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert listed == TRAINED
    assert run(monkeypatch, "") == 2 and "usage: seal-hf" in capsys.readouterr().err


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_a_subcommand_is_a_function_of_a_command_line(name):
    module, function = command.COMMANDS[name][0].split(":")
    assert list(inspect.signature(getattr(importlib.import_module(module), function)).parameters) == ["argv"]


def test_the_readme_shows_subcommands_that_exist():
    shown = re.findall(
        r"(?:seal-hf|-m seal_hf) ((?:train|decide) [\w-]+|[a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    assert {"predict", "evaluate", "train mlc"} <= set(shown) <= set(SUBCOMMANDS)


@pytest.mark.parametrize("name", TRAINED)
def test_an_example_starts_the_same_program(name):
    example = runpy.run_path(str(ROOT / "examples" / f"run_{name.replace('-', '_')}.py"))
    module, function = command.COMMANDS[f"train {name}"][0].split(":")
    assert example["main"] is getattr(importlib.import_module(module), function)


@pytest.mark.parametrize(
    "words, message",
    [
        ("predct", "seal-hf: no subcommand 'predct'. Did you mean 'predict'? All of them: seal-hf --help."),
        ("mlc --loss nce", "seal-hf: no subcommand 'mlc'. Did you mean 'train mlc'? All of them: seal-hf --help."),
        ("train mlk", "seal-hf train: no subcommand 'mlk'. Did you mean 'mlc'? All of them: seal-hf train --help."),
        (
            "train mlc mine.csv --loss ce",
            "seal-hf train mlc: unknown command-line argument 'mine.csv'. Did you mean '--dataset mine.csv'?",
        ),
        (
            "train mlc recipes/mine.yaml",
            "seal-hf train mlc: unknown command-line argument 'recipes/mine.yaml'. Did you mean '--recipe "
            "recipes/mine.yaml'?",
        ),
        (
            "train mlc hub_token=hf_a.b",
            "seal-hf train mlc: unknown command-line argument 'hub_token=...'.",
        ),
        ("train mlc --los nce", "seal-hf train mlc: unknown command-line argument '--los'. Did you mean '--loss'?"),
        (
            "train mask-energy --energy-metod=dvn",
            "seal-hf train mask-energy: unknown command-line argument '--energy-metod=dvn'. "
            "Did you mean '--energy-method'?",
        ),
        ("compare --budgt 3", "seal-hf compare: unknown command-line argument '--budgt'. Did you mean '--budget'?"),
        (
            "compare tagging --tag_colum 3",
            "seal-hf compare tagging: unknown command-line argument '--tag_colum'. Did you mean '--tag_column'?",
        ),
        (
            "compare taging --budget 3",
            "seal-hf compare: no kind of output 'taging'. Did you mean 'tagging'? All of them: mlc, tagging, srl, "
            "parsing, segmentation, rewards.",
        ),
        (
            "predict --inptu x",
            "seal-hf predict: unknown command-line argument '--inptu'. Did you mean '--input'? All flags: seal-hf "
            "predict --help.",
        ),
        (
            "report x --bside y",
            "seal-hf report: unknown command-line argument '--bside'. Did you mean '--beside'? All flags: seal-hf "
            "report --help.",
        ),
    ],
)
def test_a_mistake_is_one_line_with_the_nearest_name_and_status_2(monkeypatch, capsys, words, message):
    assert run(monkeypatch, words) == 2
    assert capsys.readouterr() == ("", message + "\n")


@pytest.mark.parametrize(
    "words, status",
    [
        ("-m seal_hf --help", 0),
        ("-m seal_hf predct", 2),
        ("-mseal_hf train mlk", 2),
    ],
)
def test_help_and_mistyped_subcommands_import_no_library(words, status):
    ended = process("-X", "importtime", *words.split())
    imported = {line.split("|")[-1].strip() for line in ended.stderr.splitlines() if line.startswith("import time:")}
    assert ended.returncode == status and "argparse" not in imported  # nor a parser
    assert "seal_hf.cli.programs" in imported
    assert not imported & {"torch", "transformers", "numpy", "seal_hf.api"}


def test_code_that_runs_under_the_command_imports_names_as_usual():
    def program():
        sys.argv = ["/somewhere/bin/seal-hf", "predict"]
        import seal_hf

        assert "SealTrainer" not in vars(seal_hf) and "seal_hf.loss_net" not in sys.modules
        names = {}
        exec("from seal_hf import SealTrainer, cli\nfrom seal_hf import *", names)
        assert names["SealTrainer"].__name__ == "SealTrainer" and callable(names["load_multilabel"])
        assert names["cli"].__name__ == "seal_hf.cli" and not hasattr(seal_hf, "Seal")

    anew(program)


def test_a_program_of_a_user_has_all_names():
    assert seal_hf.__all__ == sorted(api.__all__)
    assert all(getattr(seal_hf, name) is getattr(api, name) for name in api.__all__)


def test_the_kinds_that_a_first_word_may_name_are_those_of_the_program():
    assert command.OF_KINDS == {"compare": (*KINDS, "rewards"), "train rewards": tuple(PROGRAMS)}


@pytest.mark.parametrize("name", ["train mlc", "train mask-energy", "compare", "compare srl"])
def test_a_program_has_the_name_of_its_subcommand(name, monkeypatch, capsys):
    assert run(monkeypatch, f"{name} --help") == 0
    assert capsys.readouterr().out.startswith(f"usage: seal-hf {name} [-h")
    flags = "--seeds x" if name.startswith("compare") else "--seed x"
    assert f"seal-hf {name}: " in str(run(monkeypatch, f"{name} {flags}")) + capsys.readouterr().err


def stubbed(monkeypatch, main):
    """`seal-hf predict` with another main."""
    monkeypatch.setattr("seal_hf.cli.predict.main", lambda _: main())


def status_of_a_fork(program):
    """What a forked process that calls `program` ends with, as a shell gives it."""
    if (child := os.fork()) == 0:
        try:
            program()
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_long_message_of_several_lines_is_one_line_without_its_middle(monkeypatch, capsys):
    def main():
        raise ValueError("first\r\n  second\n\nthird" + "x" * 5000 + " and what to do.\n")

    stubbed(monkeypatch, main)
    assert run(monkeypatch, "predict") == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and len(said) < 1100
    assert said.startswith("seal-hf predict: first second thirdxxx") and said.endswith("xxx and what to do.\n")


def test_ctrl_c_ends_a_program_with_one_line(monkeypatch, capsys):
    stubbed(monkeypatch, lambda: signal.raise_signal(signal.SIGINT))
    assert run(monkeypatch, "predict") == INTERRUPTED == 128 + signal.SIGINT
    assert capsys.readouterr().err == "seal-hf predict: interrupted.\n"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("a_worker_dies", [False, True])
def test_a_signal_ends_a_program_as_ctrl_c_does(name, a_worker_dies, monkeypatch, capsys):
    number, handled = signal.Signals[name], []

    def main():
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGHUP)  # a terminal that closes may send two
            handled.append(name)
            if a_worker_dies:  # of the same signal
                raise RuntimeError("a worker is killed") from None
            raise

    stubbed(monkeypatch, main)
    assert run(monkeypatch, "predict") == 128 + number
    assert capsys.readouterr().err == f"seal-hf predict: terminated by {name}.\n"
    assert handled == [name] and signal.getsignal(number) == signal.SIG_DFL  # as before the program
    monkeypatch.setenv("RANK", "1")
    assert run(monkeypatch, "predict") == 128 + number
    assert capsys.readouterr().err == ""  # the process of rank 0 says it


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGTERM, "terminated by SIGTERM"), (signal.SIGINT, "interrupted")]
)
def test_a_signal_in_a_destructor_ends_a_program_too(number, said, monkeypatch, capsys):
    """Python prints errors of destructors and goes on."""

    class Dying:
        def __del__(self):
            signal.raise_signal(number)

    def main():
        Dying()
        for _ in range(1000):
            time.sleep(0.01)

    stubbed(monkeypatch, main)
    assert run(monkeypatch, "predict") == 128 + number
    assert capsys.readouterr().err == f"seal-hf predict: {said}.\n"


def test_a_second_sigterm_ends_a_program_at_once(monkeypatch):
    def main():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)

    stubbed(monkeypatch, main)
    assert status_of_a_fork(lambda: run(monkeypatch, "predict")) == -signal.SIGTERM


def test_a_signal_that_was_ignored_stays_ignored(monkeypatch):
    """As with `nohup`."""
    stubbed(monkeypatch, lambda: signal.raise_signal(signal.SIGHUP))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr(sys, "argv", ["seal-hf", "predict"])
        command.main()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_child_that_gets_a_signal_ends_without_a_word(monkeypatch, capfd):
    def main():
        statuses.append(status_of_a_fork(lambda: signal.raise_signal(signal.SIGTERM)))

    statuses = []
    stubbed(monkeypatch, main)
    monkeypatch.setattr(sys, "argv", ["seal-hf", "predict"])
    command.main()
    assert statuses == [-signal.SIGTERM] and capfd.readouterr().err == ""


@pytest.mark.parametrize("words", ["--help", "predict"])
@pytest.mark.parametrize("buffered", [True, False])
def test_a_program_whose_output_nobody_reads_ends_quietly(words, buffered, monkeypatch, capfd):
    """The status is that of `yes | head`."""
    reader, writer = os.pipe()
    os.close(reader)
    stubbed(monkeypatch, lambda: print("much", flush=not buffered))

    def unread():
        os.dup2(writer, 1)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        status = run(monkeypatch, words)
        sys.stdout.close()  # as the interpreter does
        os._exit(status)

    assert status_of_a_fork(unread) == UNREAD == 128 + signal.SIGPIPE
    os.close(writer)
    assert capfd.readouterr().err == ""


def test_a_broken_pipe_of_the_network_is_an_error(monkeypatch, capsys):
    def main():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    stubbed(monkeypatch, main)
    assert run(monkeypatch, "predict") == 1
    assert "Broken pipe" in capsys.readouterr().err


def test_a_message_cannot_change_the_terminal(monkeypatch, capsys):
    """Names in messages may be those of a stranger's file."""

    def refused(_):
        raise ValueError("no label \x1b[2Jna\u00efve\r, but\ttwo\nlines")

    monkeypatch.setattr("seal_hf.cli.predict.main", refused)
    assert run(monkeypatch, "predict") == 1
    assert capsys.readouterr().err == "seal-hf predict: no label \\x1b[2Jna\u00efve\\x0d, but\ttwo lines\n"


@pytest.mark.long
def test_accelerate_launches_the_command_in_two_processes(tmp_path):
    """64 rows in batches of 8: four steps of two processes, and eight of one."""
    few = "--max_train_rows 64 --hidden_size 8 --num_train_epochs 1 --per_device_train_batch_size 8 --use_cpu true"
    words = ["train", "mlc", "--loss", "ce", *few.split(), "--output_dir", tmp_path / "out", "--save_strategy", "epoch"]
    finish(start("one_machine.yaml", "seal_hf", *words, options=["-m"]))
    assert [folder.name for folder in (tmp_path / "out").glob("checkpoint-*")] == ["checkpoint-4"]
