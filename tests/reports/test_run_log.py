"""What a run prints. Oracles: the log of its trainer's state, the names of its closing table, the missing weights that
the loader reports."""

import json
import logging
import re
import sys

import pytest
import torch
from tiny_models import tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModel, TrainerState

from seal_hf.cli.train.closing import RunLines, duration
from seal_hf.data import embedded
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.tags import program as tagging

pytestmark = pytest.mark.usefixtures("narrow_energies")

SMALL = "--use_cpu true --report_to none --report false --logging_steps 1 --per_device_train_batch_size 30".split()
FEATURES = [*SMALL, *"--max_train_rows 60 --hidden_size 8 --global_size 4".split()]
LINE = re.compile(
    r"^epoch (?P<epoch>\S+) of (?P<epochs>\d+): training loss (?P<loss>[\d.]+), validation loss (?P<eval>[\d.]+), "
    r"(?P<figure>[^,]+) (?P<value>0\.\d{4})(?P<best> \(best so far\))?"
    r"(?P<share>, λ1 [\d.]+ of the task loss's pull)?(?P<left>, \d+ (s|min) left)?$",
    re.MULTILINE,
)


def lines(text):
    return [found.groupdict() for found in LINE.finditer(text)]


def state_of(folder):
    last = max(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    return json.loads((last / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]


@pytest.mark.parametrize("bar", ["true", "false"])
def test_a_line_for_each_evaluation_has_the_figures_of_the_log(bar, tmp_path, capsys):
    words = ["--num_train_epochs", "3", "--disable_tqdm", "false" if bar == "true" else "true"]
    mlc.main([*FEATURES, *words, "--learning_rate", "1e-2", "--output_dir", str(tmp_path)])
    said = capsys.readouterr()
    found, log = lines(said.out), state_of(tmp_path)
    evaluations = [entry for entry in log if "eval_loss" in entry]
    assert len(found) == len(evaluations) == 3 and "{'" not in said.out + said.err
    assert ("it/s" in said.err) == (bar == "true")
    figures = [entry["eval_f1_example_tuned"] for entry in evaluations]
    for number, (line, entry) in enumerate(zip(found, evaluations, strict=True)):
        assert (line["epoch"], line["epochs"]) == (f"{entry['epoch']:.3g}", "3")
        losses = [each["task_loss"] for each in log if "task_loss" in each and number < each["epoch"] <= number + 1]
        assert float(line["loss"]) == pytest.approx(sum(losses) / len(losses), abs=6e-4) and len(losses) == 2
        assert float(line["eval"]) == pytest.approx(entry["eval_loss"], abs=6e-4)
        assert line["figure"] == "example F1 at the tuned threshold" and line["figure"] in said.out.split("figure  ")[1]
        assert float(line["value"]) == pytest.approx(entry["eval_f1_example_tuned"], abs=6e-5)
        assert bool(line["best"]) == (number > 0 and figures[number] > max(figures[:number]))
        assert line["share"] == ", λ1 0 of the task loss's pull"
        assert bool(line["left"]) == (number < 2)


def test_the_dictionaries_are_printed_where_they_are_asked_for(tmp_path, capsys):
    words = "--num_train_epochs 1 --disable_tqdm true --log_dicts true --loss ce".split()
    mlc.main([*FEATURES, *words, "--output_dir", str(tmp_path)])
    said = capsys.readouterr().out
    assert [line["share"] for line in lines(said)] == [None]
    assert said.count("'eval_loss'") == 1 and said.count("'task_loss'") == 2


def test_without_evaluations_each_logged_step_has_a_line(tmp_path, capsys):
    words = "--num_train_epochs 2 --disable_tqdm true --eval_strategy no --loss ce --patience 0".split()
    mlc.main([*FEATURES, *words, "--output_dir", str(tmp_path)])
    said = capsys.readouterr().out
    found = re.findall(r"^epoch ([\d.]+) of 2: training loss [\d.]+(?:, \d+ s left)?$", said, re.MULTILINE)
    assert found == ["0.5", "1", "1.5", "2"]


def test_a_closed_output_stops_no_run(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)  # as Python leaves it
    mlc.main([*FEATURES, *"--num_train_epochs 1 --loss ce --output_dir".split(), str(tmp_path)])
    assert (tmp_path / "test_results.json").is_file()


def test_a_resumed_run_goes_on_with_its_lines(tmp_path, capsys):
    words = [*FEATURES, "--disable_tqdm", "true", "--loss", "ce", "--output_dir", str(tmp_path)]
    mlc.main([*words, "--num_train_epochs", "2"])
    capsys.readouterr()
    further = ["--num_train_epochs", "4", "--resume_from_checkpoint", "last", "--resume_changed", "true"]
    mlc.main([*words, *further])
    assert [line["epoch"] for line in lines(capsys.readouterr().out)] == ["3", "4"]


@pytest.mark.parametrize(
    ("program", "words", "figure"),
    [
        (tagging, "--dataset toy_tags --num_train_epochs 1 --max_train_rows 20", "accuracy of tags"),
        (segmentation, "--dataset digits --num_train_epochs 1", "mean IoU at 0.5"),
    ],
)
def test_other_outputs_name_their_figure(program, words, figure, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(embedded, "MASK_SIZES", {"train": 8, "validation": 4, "test": 4})
    program.main([*SMALL, *words.split(), "--disable_tqdm", "true", "--output_dir", str(tmp_path)])
    assert [line["figure"] for line in lines(capsys.readouterr().out)] == [figure]


def test_other_processes_than_the_first_print_nothing(capsys):
    state = TrainerState(global_step=1, max_steps=2, num_train_epochs=2, epoch=1.0, is_world_process_zero=False)
    line = RunLines(None)
    line.on_train_begin(None, state, None)
    line.on_evaluate(None, state, None, metrics={"eval_loss": 1.0})
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "1 s"), (99, "99 s"), (100, "2 min"), (5939, "99 min"), (7500, "2 h 5 min")]
)
def test_a_time_is_said_in_words(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize(("loss", "second"), [("nce", " and the loss-net"), ("ce", "")])
def test_one_sentence_says_what_a_pretrained_encoder_lacks(loss, second, tmp_path, capsys, caplog):
    torch.manual_seed(0)
    folder, data = tmp_path / "encoder", tmp_path / "data.csv"
    AutoModel.from_config(tiny_config("bert")).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    texts = tiny_texts(30)["text"][:]
    cells = [f"{text},{'a' if number % 2 else 'a|b'}" for number, text in enumerate(texts)]
    data.write_text("\n".join(["text,labels", *cells]) + "\n", encoding="utf-8")
    words = [*SMALL, "--disable_tqdm", "true", "--num_train_epochs", "1", "--max_length", "8", "--loss", loss]
    logging.getLogger("transformers").propagate = True
    with caplog.at_level("WARNING"):
        mlc.main(
            [*words, "--dataset", str(data), "--model_name_or_path", str(folder), "--output_dir", str(tmp_path / "run")]
        )
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if "anew" in line] == [
        f"{folder}: its weights were loaded, except that classifier.bias, classifier.weight{second} begin anew and are "
        "learned in this run."
    ]
    assert not re.search("LOAD REPORT|Some weights|fresh loss-net", caplog.text + said)
    with caplog.at_level("WARNING"):  # whoever loads the encoder in Python still reads the report
        mlc.SealForMultiLabel.from_pretrained(folder, num_labels=2)
    assert re.search("LOAD REPORT|Some weights", caplog.text) and "fresh loss-net" in caplog.text
