"""What is said once of a run: of a warm-up as long as the run, of a run that logs no step, of texts that were cut."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_run
import torch
from datasets import Dataset
from tiny_models import tiny_texts, tiny_tokenizer
from transformers import TrainerState
from transformers.utils import logging

from seal_hf import tokenize
from seal_hf.cli.recipes import parse_recipe
from seal_hf.loss_net.energy_weight import EnergyWeight
from seal_hf.metrics import label_report
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.report import (
    hint_of_baseline,
    hint_of_collapse,
    hint_of_empty_sets,
    hint_of_missed_labels,
    missed_labels,
)
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.tags import program as tagging
from seal_hf.tasks.tags.report import hint_of_one_tag
from seal_hf.training.arguments import SealTrainingArguments
from seal_hf.training.hints import hint_after, hints


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"warmup_steps": 18}, "The warm-up takes 18 steps and the run has 18: .* fewer `warmup_steps`"),
        ({"warmup_steps": 17}, None),
        ({"logging_steps": 19}, "is 19 and the run has 18. Give logging_steps=1 .--logging_steps 1.\\."),
        ({"logging_steps": 19, "logging_first_step": True}, None),
        ({"logging_steps": 19, "logging_strategy": "epoch"}, None),
        ({"logging_steps": 0.5}, None),
        (
            {"loss": "nce", "energy_weight": None},
            "λ1 stays at 0.1 of the task loss's pull: .*--eval_strategy epoch",
        ),
        ({"loss": "nce", "energy_weight": None, "eval_strategy": "epoch"}, None),
        (
            {"loss": "nce", "energy_weight": None, "eval_strategy": "epoch", "num_train_epochs": 2, "batch": 6},
            "The energy teaches nothing: the run has 1 evaluation .*--eval_strategy steps --eval_steps 0.1",
        ),
        (
            {"loss": "nce", "energy_weight": None, "eval_strategy": "steps", "eval_steps": 9},
            "the run has 1 evaluation ",
        ),
        ({"loss": "nce", "energy_weight": None, "eval_strategy": "steps", "eval_steps": 8}, None),
        (
            {"loss": "nce", "energy_weight": None, "eval_strategy": "epoch", "num_train_epochs": 2, "batch": 6}
            | {"eval_on_start": True},
            None,
        ),
        ({"loss": "nce"}, None),
        ({"energy_weight": None}, None),
    ],
)
def test_a_run_says_what_it_would_not_do(options, said, tmp_path, caplog):
    logging.warning_once.cache_clear()  # another test may have heard it
    with caplog.at_level("WARNING"):
        trainer, _ = tiny_run.make(tmp_path, **{"loss": "ce", **options})
        trainer.train()
    found = hints(trainer.args, trainer.state.global_step, trainer.energy_weight)
    assert len(found) == (said is not None)
    assert all(re.search(said, hint) and caplog.text.count(hint) == 1 for hint in found)


@pytest.mark.parametrize(("has_all_gold", "enough"), [(True, 2), (False, 1)])
def test_with_rewards_the_first_evaluation_gives_the_energy_its_weight(has_all_gold, enough, tmp_path):
    for inside in (0, 1, 2):
        args = SealTrainingArguments(str(tmp_path), eval_strategy="steps", eval_steps=6, logging_steps=1)
        found = hints(args, 6 * inside + 1, EnergyWeight(args, has_all_gold))
        assert len(found) == (inside < enough)


def test_nothing_is_said_of_an_evaluation(tmp_path, caplog):
    trainer, _ = tiny_run.make(tmp_path, loss="ce", warmup_steps=100, num_train_epochs=0)
    with caplog.at_level("WARNING"):
        trainer.train()
    assert "warm-up" not in caplog.text


def test_texts_that_were_cut_are_counted():
    """Of one token per word and two special ones."""
    texts = tiny_texts(40)
    lengths = [len(text.split()) + 2 for text in texts["text"][:]]
    for limit in (4, 7, 12):
        assert tokenize(texts, tiny_tokenizer(), limit).num_cut == sum(length > limit for length in lengths)


def test_a_recipe_may_give_the_warm_up_as_a_share_on_both_lines_of_transformers(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("warmup_ratio: 0.1\n", encoding="utf-8")
    (args,) = parse_recipe(SealTrainingArguments, ["--recipe", str(recipe), "--output_dir", str(tmp_path)])
    assert args.get_warmup_steps(200) == 20
    recipe.write_text("warmup_ratio: 0.1\nwarmup_steps: 7\n", encoding="utf-8")
    (args,) = parse_recipe(SealTrainingArguments, ["--recipe", str(recipe), "--output_dir", str(tmp_path)])
    assert args.get_warmup_steps(200) == 7


@pytest.mark.parametrize(
    ("figures", "options", "said"),
    [
        ([0.4, 0.5, 0.6], {}, "`f1_macro` of the validation rows still improved at the end, from 0.5 to 0.6"),
        ([0.5, 0.3, 0.6], {}, "at the end, from 0.5 to 0.6: .* longer run: num_train_epochs=6 .--num_train_epochs 6"),
        ([0.4, 0.6], {"max_steps": 6}, "or a longer run: max_steps=12 .--max_steps 12"),
        ([0.4, 0.7, 0.6, 0.63], {}, None),
        ([0.4, 0.59, 0.6], {}, None),
        ([0.4, 1.0], {}, None),
        ([0.6], {}, None),
        ([], {}, None),
        ([float("nan"), 0.6], {}, None),
        ([3.0, 2.0], {"metric_for_best_model": "eval_loss"}, "`loss` of .* from 3 to 2: the run was too short"),
        ([2.0, 3.0], {"metric_for_best_model": "eval_loss"}, None),
        ([0.4, 0.6], {"load_best_model_at_end": False}, None),
        ([0.4, 0.6], {"planned": 7}, None),  # patience ended it
    ],
)
def test_a_run_whose_last_evaluation_is_by_far_the_best_was_too_short(figures, options, said, tmp_path):
    best = dict(eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, learning_rate=5e-5)
    planned = options.pop("planned", 6)
    args = SealTrainingArguments(str(tmp_path), **{**best, "metric_for_best_model": "f1_macro", **options})
    name = args.metric_for_best_model.removeprefix("eval_")
    log = [
        {"loss": 1.0, "step": 1},
        {f"eval_{name}": 0.0, "step": 0},
        *({f"eval_{name}": value, "step": step} for step, value in enumerate(figures, 1)),
    ]
    state = TrainerState(epoch=3.0, global_step=6, max_steps=planned, log_history=log)
    found = hint_after(args, state)
    assert (found is None) == (said is None)
    if said is not None:
        assert re.search(said, found)
        assert "Give a higher `learning_rate` (--learning_rate) than 5e-05, or a longer run: " in found


def test_a_net_that_says_the_same_of_all_rows_learned_nothing(tmp_path):
    args = SealTrainingArguments(str(tmp_path), learning_rate=0.1)
    rows = np.array([[0.2, 0.7], [0.2, 0.705], [0.2, 0.702]])
    said = "All 3 validation rows have the same probabilities, to 1%.* lower `learning_rate` .--learning_rate. than 0.1"
    assert re.match(said, hint_of_collapse(rows, args) or "")
    for others in (
        rows + [[0, 0], [0.01, 0], [0, 0]],
        rows[:1],
        rows / 1000 + [[1e-4, 0], [0, 0], [0, 0]],
        rows * np.nan,
    ):
        assert hint_of_collapse(others, args) is None


def test_labels_that_no_gold_row_gets_are_named_with_what_changes_them(tmp_path):
    names = ["right", "wrong", "never", "rare", "chance", "nowhere", "unknown"]
    labels, decided = np.zeros((40, 7)), np.zeros((40, 7), dtype=bool)
    labels[:6, :3], labels[:1, 3], labels[:4, 4], labels[:9, 6] = 1, 1, 1, -1
    decided[5:7, 0] = decided[6:8, 1] = decided[8, 4:6] = True  # one row of `right` is right; `wrong`, `chance` none
    missed = missed_labels(decided, labels, names)
    assert missed == {"wrong": 6, "never": 6, "rare": 1}, "four gold rows of a decided label may be chance"
    by_label = label_report(decided, labels, names)
    assert all(by_label[name]["f1"] == 0 and by_label[name]["support"] == rows for name, rows in missed.items())

    def said(**options):
        return hint_of_missed_labels(missed, 7, "test rows", SealTrainingArguments(str(tmp_path), **options))

    found = "3 of 7 labels have an F1 of 0 on test rows: wrong (6 rows), never (6 rows), rare (1 row)."
    assert said() == (
        f"{found} Give --target f1_macro, which cuts each label at a threshold of its own, or --pos_weight sqrt, which "
        "gives rare labels more weight in training."
    )
    assert said(target="f1_macro").startswith(f"{found} Give --pos_weight sqrt")
    assert "sqrt" not in said(pos_weight="balanced") and "sqrt" not in said(task_loss="zlpr")
    assert "Give --decoder thresholds --target f1_macro," in said(decoder="fixed")
    assert said(target="f1_macro", task_loss="zlpr") == found
    assert hint_of_missed_labels({}, 7, "test rows", SealTrainingArguments(str(tmp_path))) is None


def test_rows_without_labels_do_not_hide_what_a_model_does_on_the_others():
    labels, decided = np.zeros((10, 3)), np.zeros((10, 3), dtype=bool)
    labels[0, :2] = labels[1, 2] = 1
    args = SimpleNamespace(target="f1_example")
    said = hint_of_empty_sets(decided, labels, "test rows", args)
    assert said == (
        "The saved decisions give no label to any row: 8 of 10 test rows have no label, and count 1 where none is "
        "decided, so example F1 says nothing. --target f1_micro decides for rows with labels."
    )
    decided[0, 0] = True  # an F1 of 2/3 on the first row and of 0 on the second
    said = hint_of_empty_sets(decided, labels, "test rows", SimpleNamespace(target="f1_micro"))
    assert said == (
        "8 of 10 test rows have no label, and count 1 where none is decided; on the 2 others example F1 is 0.3333."
    )
    labels[:6, 0] = 1
    assert hint_of_empty_sets(decided, labels, "test rows", args) is None


def test_a_run_names_the_labels_that_it_misses(tmp_path, capsys):
    table = tmp_path / "rows.parquet"
    labels = [["often" if n % 7 < 4 else "other", *["blue"] * (n * 7919 % 11 < 3)] for n in range(300)]
    rows = [{"features": [n % 7, n % 3], "labels": of_row} for n, of_row in enumerate(labels)]
    Dataset.from_list(rows).to_parquet(table)
    words = "--loss ce --use_cpu --num_train_epochs 2 --decoder fixed --report_to none".split()
    mlc.main(["--dataset", str(table), "--output_dir", str(tmp_path / "run"), *words])
    assert "1 of 3 labels has an F1 of 0 on test rows: blue (" in capsys.readouterr().out
    assert "- Labels with an F1 of 0: 1 of 3 (blue)." in (tmp_path / "run" / "README.md").read_text()


def test_a_program_says_that_its_net_learned_nothing(tmp_path, capsys):
    words = "--loss ce --use_cpu --max_train_rows 100 --learning_rate 3 --num_train_epochs 1".split()
    mlc.main(["--output_dir", str(tmp_path), *words])
    assert "reads. Give a lower `learning_rate` (--learning_rate) than 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ([["O", "O"], ["O"]], "All words of 2 validation sentences get the tag 'O': .* lower `learning_rate`"),
        ([["O", "O"], ["B-X"]], None),
        ([["O"]], None),
        ([[], []], None),
    ],
)
def test_a_net_that_gives_every_word_one_tag_learned_nothing(tags, said, tmp_path):
    found = hint_of_one_tag(tags, SealTrainingArguments(str(tmp_path), learning_rate=0.1))
    assert (found is None) == (said is None) and re.match(said or "", found or "")


def test_a_program_says_that_its_net_gives_every_word_one_tag(tmp_path, capsys):
    sentence = "".join(f"w {'X' if i == 3 else 'O'}\n" for i in range(8))  # one word in eight has another tag
    (tmp_path / "all.conll").write_text(f"{sentence}\n" * 20)
    words = "--loss ce --use_cpu --learning_rate 0.02 --max_steps 2 --scheme plain".split()
    tagging.main(["--dataset", str(tmp_path / "all.conll"), "--output_dir", str(tmp_path / "run"), *words])
    assert "get the tag 'O': the net learned nothing" in capsys.readouterr().out


@pytest.mark.parametrize("dataset", ["digits", "digit_classes"])
def test_a_program_says_that_its_masks_are_no_better_than_one_for_all_images(dataset, tmp_path, capsys):
    words = "--loss ce --use_cpu --learning_rate 0.3 --max_steps 2".split()
    segmentation.main(["--dataset", dataset, "--output_dir", str(tmp_path), *words])
    figures = json.loads((tmp_path / "eval_results.json").read_text())
    assert figures["eval_mean_iou"] <= figures["eval_mean_mask_iou"]
    said = capsys.readouterr().out
    assert f"The mean IoU {figures['eval_mean_iou']:.4f} of validation images is not above " in said
    assert "that of one mask for all: the net learned nothing from what it reads. Give a lower `learning_rate`" in said


def test_a_program_says_that_its_run_was_too_short(tmp_path, capsys):
    words = "--loss ce --use_cpu --max_train_rows 200 --learning_rate 1e-4 --num_train_epochs 3".split()
    mlc.main(["--output_dir", str(tmp_path), *words])
    assert "too short. Give a higher `learning_rate` (--learning_rate) than 0.0001" in capsys.readouterr().out


def test_a_net_behind_the_linear_baseline_is_told_so():
    model = "a logistic regression on the same features"
    said = hint_of_baseline(0.5, 0.625, model)
    assert said.startswith(
        "A logistic regression on the same features is better on validation rows: 0.6250, and 0.5000"
    )
    assert "--linear true" in said and hint_of_baseline(0.625, 0.625, model) is None
    losses = [hint_of_baseline(*both, model, lower_is_better=True) for both in ((0.1, 0.2), (0.2, 0.1))]
    assert losses[0] is None and "0.1000, and 0.2000" in losses[1]


@pytest.mark.parametrize(("scale", "said"), [(1.0, False), (1e22, True)])
def test_a_gradient_whose_norm_is_infinite_is_said(tmp_path, caplog, scale, said):
    """Clipping makes it 0: without a word, the net would stay as it is."""
    logging.warning_once.cache_clear()
    rows = tiny_run.table()
    large = (np.array(rows["features"]) * scale).tolist()
    rows = rows.remove_columns("features").add_column("features", large)
    trainer, nets = tiny_run.make(tmp_path, "ce", rows=rows, max_steps=2, logging_steps=1)
    before = tiny_run.parameters(nets)
    trainer.train()
    assert ("The norm of the task-net's gradient is infinite" in caplog.text) is said
    assert torch.equal(before, tiny_run.parameters(nets)) is said
