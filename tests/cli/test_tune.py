"""`--tune` of the programs that train. Oracles: the run with the flags that a search prints, a search that was not cut
off, the run as it is given."""

import json
import sys

import numpy as np
import pytest
import test_run_srl
from tiny_masks import squares
from tiny_models import tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModel

from seal_hf import SealTrainer, SealTrainingArguments
from seal_hf.cli.search import FINE_TUNED
from seal_hf.cli.tune import Tuning, energy_weights
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.program import ENERGY_PROGRAM as energy
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.masks.program import ENERGY_PROGRAM as mask_energy
from seal_hf.tasks.rewards import program as rewards
from seal_hf.tasks.tags import program as tagging
from seal_hf.tasks.tags.program import ROLE_PROGRAM as srl

pytest.importorskip("optuna")

pytestmark = pytest.mark.usefixtures("narrow_energies")

QUIET = "--use_cpu true --disable_tqdm true --report_to none --report false".split()
BY_EPOCH = "--eval_strategy epoch --save_strategy epoch --load_best_model_at_end true --save_total_limit 1".split()
SMALL = "--max_train_rows 150 --num_train_epochs 2 --hidden_size 16 --per_device_train_batch_size 50".split()


def tuning(folder):
    return json.loads((folder / "tuning.json").read_text(encoding="utf-8"))


def settings(folder):
    return [trial["settings"] for trial in tuning(folder)["trials"]]


def run(folder, *words):
    """On the digits, by features."""
    return mlc.main(
        [*QUIET, *SMALL, *BY_EPOCH, "--metric_for_best_model", "f1_micro", "--output_dir", str(folder), *words]
    )


@pytest.fixture
def trained(monkeypatch):
    """The folders of all trainings, in their order. The first is cut off in the training of a number that is put in
    `cut`."""
    folders, train = [], SealTrainer.train

    def watched(self, *args, **kwargs):
        folders.append(self.args.output_dir)
        if len(folders) in watched.cut:
            raise KeyboardInterrupt
        return train(self, *args, **kwargs)

    watched.cut, watched.folders = (), folders
    monkeypatch.setattr(SealTrainer, "train", watched)
    return watched


@pytest.mark.long
def test_a_search_that_is_cut_off_goes_on_and_its_best_trial_is_the_run_of_the_flags_it_names(
    tmp_path, trained, capsys
):
    """Cut off in a trial and in the training after the search: nothing that is finished is done again."""
    whole = run(tmp_path / "whole", "--tune", "3")
    said, found = capsys.readouterr().out, tuning(tmp_path / "whole")
    given, without, drawn = settings(tmp_path / "whole")
    assert given == {"learning_rate": 1e-3, "dropout": 0.5, "energy_weight": None}  # the run as it is given
    assert without == {**given, "energy_weight": 0.0} and drawn.keys() >= given.keys()
    assert found["metric"] == "f1_micro" and found["held"] == []
    values = [trial["value"] for trial in found["trials"]]
    assert found["best"] == 1 + int(np.argmax(values)) and whole["eval_f1_micro"] == pytest.approx(max(values))
    assert f"{found['best']}*" in said and f"as flags: {found['flags']}" in said
    assert [path.name for path in (tmp_path / "whole" / "_tune").iterdir()] == ["search.db"]
    assert run(tmp_path / "flags", *found["flags"].split()) == whole
    assert run(tmp_path / "given")["eval_f1_micro"] == pytest.approx(values[0])

    part, before = tmp_path / "part", len(trained.folders)
    trained.cut = (before + 3, before + 5)  # the third trial; the run itself
    for _ in trained.cut:
        with pytest.raises(KeyboardInterrupt):
            run(part, "--tune", "3")
    assert run(part, "--tune", "3", "--resume_from_checkpoint", "last") == whole and tuning(part) == found
    assert [folder == str(part) for folder in trained.folders[before:]] == [False] * 4 + [True] * 2


def test_a_search_of_more_trials_goes_on_and_one_of_another_run_begins_anew(tmp_path, trained, capsys):
    few = ["--num_train_epochs", "1", "--loss", "ce", "--tune"]
    run(tmp_path, *few, "1")
    few = ["--overwrite_output_dir", "true", *few]
    (first,) = settings(tmp_path)
    assert set(first) == {"learning_rate", "dropout"}  # no loss-net, no λ1
    run(tmp_path, *few, "2")
    assert settings(tmp_path)[0] == first and len(trained.folders) == 2 + 2
    assert "given up" not in capsys.readouterr().out
    run(tmp_path, *few, "1", "--max_train_rows", "140")
    assert "tune: dropped 2 trials of an earlier, different search" in capsys.readouterr().out
    assert len(trained.folders) == 4 + 2


@pytest.mark.long
def test_what_a_flag_gives_is_held_and_a_recipes_value_is_where_a_search_begins(tmp_path, capsys):
    recipe = tmp_path / "own.yaml"
    recipe.write_text("learning_rate: 0.05\ndropout: 0.9\nenergy_weight: 0.5\n")  # beyond the usual ranges
    one = ["--num_train_epochs", "1", "--recipe", str(recipe), "--tune"]
    run(tmp_path / "a", *one, "2", "--dropout", "0.3")
    assert "by f1_micro on validation; fixed as given: dropout\n" in capsys.readouterr().out
    given = {"learning_rate": 0.05, "energy_weight": 0.5, "energy_weight_balance": False}
    assert settings(tmp_path / "a") == [given, {"learning_rate": 0.05, "energy_weight": 0.0}]
    run(tmp_path / "b", *one, "1", "--energy_weight", "0.2")
    assert settings(tmp_path / "b") == [{"learning_rate": 0.05, "dropout": 0.9}]


def test_a_loss_is_searched_for_its_least_value_and_a_run_without_evaluations_has_one_at_its_end(tmp_path):
    run(tmp_path / "loss", "--loss", "ce", "--tune", "3", "--metric_for_best_model", "loss")
    found = tuning(tmp_path / "loss")
    values = [trial["value"] for trial in found["trials"]]
    assert found["best"] == 1 + int(np.argmin(values)) and min(values) > 1
    without = "--eval_strategy no --save_strategy no --load_best_model_at_end false --patience 0 --loss ce --tune 1"
    words = [*without.split(), "--metric_for_best_model", "f1_micro", "--output_dir", str(tmp_path / "none")]
    metrics, found = mlc.main([*QUIET, *SMALL, *words]), tuning(tmp_path / "none")
    assert metrics["eval_f1_micro"] == pytest.approx(found["trials"][0]["value"])


# --- every kind of output --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with an encoder, texts, propositions, masks and rules, all tiny."""
    folder = tmp_path_factory.mktemp("inputs")
    AutoModel.from_config(tiny_config("bert")).save_pretrained(folder / "bert")
    tiny_tokenizer().save_pretrained(folder / "bert")
    rows = [f'{row["text"]},"{json.dumps([int(value) for value in row["labels"]])}"' for row in tiny_texts(60)]
    (folder / "own.csv").write_text("\n".join(["text,labels", *rows]) + "\n")
    for name in ("srl", "squares"):
        (folder / name).mkdir()
    for split, size in (("train", 16), ("dev", 8), ("test", 4)):
        test_run_srl.write(folder / "srl" / f"tiny.{split}.srl", size)
    for split, size in (("train", 8), ("val", 4), ("test", 2)):
        masks = squares(size)
        np.savez(folder / "squares" / f"squares_{split}.npz", images=masks.images, masks=masks.masks)
    (folder / "rules.yaml").write_text("rules: [{words: w1, are: X}, {present: [X, Y]}]")
    return folder


RATES = {"learning_rate", "inference_learning_rate"}
FEW_STEPS = "--inference_steps 2 --inference_steps_eval 2"
TEXTS = "--dataset {0}/own.csv --model_name_or_path {0}/bert --label_format multi_hot"
TAGS = "--max_train_rows 40 --hidden_size 16 --scheme bio"
KINDS = {
    "texts": (mlc, TEXTS, {*FINE_TUNED, "energy_weight"}, "f1_example_tuned"),
    "tags": (tagging, TAGS, {"learning_rate", "energy_weight"}, "accuracy"),
    "roles": (
        srl,
        "--dataset {0}/srl --model_name_or_path {0}/bert --global_size 8 --num_samples 4",
        {*FINE_TUNED, "energy_weight"},
        "accuracy",
    ),
    "masks": (
        segmentation,
        "--dataset {0}/squares --crop_size 12 --test_crop_size 0",
        {"learning_rate", "energy_weight"},
        "mean_iou",
    ),
    "rewards": (
        rewards,
        f"{TAGS} --rules {{0}}/rules.yaml --num_labelled 5 --task_loss crf",
        {"learning_rate", "energy_weight"},
        "accuracy",
    ),
    "energy": (
        energy,
        f"--max_train_rows 60 --hidden_size 16 --energy_method dvn {FEW_STEPS}",
        {*RATES, "dropout"},
        "f1_example_tuned",
    ),
    "energy of texts": (energy, f"{TEXTS} {FEW_STEPS}", RATES, "f1_example_tuned"),
    "energy of masks": (mask_energy, f"--dataset {{0}}/squares --crop_size 0 {FEW_STEPS}", RATES, "mean_iou"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_program_searches_what_is_its_own(kind, inputs, tmp_path):
    program, words, searched, metric = KINDS[kind]
    words = [*words.format(inputs).split(), "--num_train_epochs", "1", "--tune", "2"]
    metrics = program.main([*QUIET, *words, "--output_dir", str(tmp_path)])
    found, (first, second) = tuning(tmp_path), settings(tmp_path)
    assert searched <= set(first) <= searched | {"energy_weight_balance"} and found["metric"] == metric
    if "energy_weight" in searched:
        assert second == {name: first[name] for name in searched} | {"energy_weight": 0.0}
    else:
        assert set(second) == searched and second != first
    best = found["trials"][found["best"] - 1]["value"]
    if kind not in ("tags", "rewards", "roles"):  # whose closing figures are of the decoder that is chosen
        assert metrics[f"eval_{metric}"] == pytest.approx(best)
    assert (tmp_path / "model.safetensors").is_file() and not list((tmp_path / "_tune").glob("trials*"))


@pytest.mark.parametrize(
    "options, names",
    [
        ({}, ["rule", "0", "0.03 of the pull", "0.1 of the pull", "0.3 of the pull", "1 of the pull"]),
        ({"energy_weight": 0.0}, ["0", "0.03 of the pull", "0.1 of the pull", "0.3 of the pull", "1 of the pull"]),
        ({"task_weight": 0.0}, ["1"]),  # no rule chooses it there
        ({"energy_weight": 2.0, "task_weight": 0.0}, ["2"]),  # the energy alone has no task loss to be a share of
        (
            {"energy_weight": 2.0, "hypergradient": "cg", "energy_loss": "contrastive_divergence"},
            ["2", "0"],  # implicit gradients need an inner loss that stands still
        ),
        (
            {"energy_weight": 0.3, "energy_weight_balance": True},
            ["0.3 of the pull", "0", "0.03 of the pull", "0.1 of the pull", "1 of the pull"],
        ),
    ],
)
def test_lambda_is_searched_over_what_goes_with_the_arguments(options, names, tmp_path):
    training = SealTrainingArguments(str(tmp_path), use_cpu=True, **options)
    group, first = energy_weights(training, shares=True)
    assert list(group.groups) == names and first == names[0]
    group, _ = energy_weights(training, shares=False)  # as where rewards stand in for gold labels
    assert list(group.groups) == [name for name in names if name == first or "pull" not in name]


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, message",
    [
        ("--tune -1", "`tune` is -1; it must be a finite number, at least 0"),
        (
            "--tune 3 --loss ce --learning_rate 0.1 --dropout 0.1",
            "nothing is left to search: flags set learning_rate, dropout. Leave out one",
        ),
        ("--tune 3 --recipe {0}/zero.yaml", "`learning_rate` is 0.0, but the search draws its logarithm"),
    ],
)
def test_a_search_that_cannot_be_is_refused_in_one_line(words, message, tmp_path):
    (tmp_path / "zero.yaml").write_text("learning_rate: 0.0\n")
    with pytest.raises(ValueError, match=message) as error:
        run(tmp_path / "out", *words.format(tmp_path).split())
    assert len(str(error.value).splitlines()) == 1 and not (tmp_path / "out" / "tuning.json").exists()


def test_a_launcher_and_a_missing_optuna_are_named_before_any_data_are_read(tmp_path, monkeypatch):
    missing = ["--dataset", "own/name", "--tune", "2"]  # on the Hub
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["seal_hf.cli.search"], "find_spec", lambda name: None)
        with pytest.raises(ValueError, match=r"a search needs Optuna: pip install .*optuna.*, or --tune 0 for none"):
            run(tmp_path, *missing)
    parsed = mlc.PROGRAM.parse([*QUIET, *missing, "--output_dir", str(tmp_path)])  # in a launcher, with its processes
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="--tune runs in one process: start it without a launcher"):
        Tuning(lambda: parsed, mlc.ranges, mlc.make_trainer, "f1_micro")


def test_a_comparison_has_a_flag_of_its_own(program, tmp_path):
    with pytest.raises(ValueError, match="--tune is called --budget here, for all methods"):
        program.main(["--tune", "3", "--output_dir", str(tmp_path)])
