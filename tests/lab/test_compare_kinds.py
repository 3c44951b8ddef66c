"""Comparisons of tags and masks. Oracles: one that was not cut off, the metrics of its rows, the line of the README."""

import json
import re
import shlex
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import test_run_srl
import test_run_tagging
from tiny_models import tiny_config, tiny_tokenizer
from transformers import AutoModel

from seal_hf import load_tags
from seal_hf.data import embedded
from seal_hf.lab.compare import table
from seal_hf.lab.compare.kinds import KINDS
from seal_hf.lab.compare.statistics import Rows
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.tags.metrics import tag_metrics

pytestmark = pytest.mark.usefixtures("narrow_energies")

ROOT = Path(__file__).resolve().parents[2]
CLOCK = "train_seconds_per_epoch"
TINY = "--max_train_rows 16 --hidden_size 8 --num_train_epochs 1 --per_device_train_batch_size 8".split()


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Of the embedded data."""
    monkeypatch.setattr(embedded, "TAG_SIZES", {"train": 16, "validation": 12, "test": 60})
    monkeypatch.setattr(embedded, "MASK_SIZES", {"train": 8, "validation": 4, "test": 4})


def without_clock(runs):
    return {name: [{**run, CLOCK: 0} for run in found] for name, found in runs.all().items()}


# --- tags ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_comparison_of_tags_that_is_cut_off_repeats_no_finished_run(program, tmp_path, monkeypatch):
    """Cut off in a search and between two runs. The trials of all methods are as many, and the table is the same."""
    pytest.importorskip("optuna")
    options = ["tagging", *TINY, "--losses", "constant", "crf", "nce", "--budget", "2", "--seeds", "1", "2"]
    whole = program.main([*options, "--output_dir", str(tmp_path / "whole")])
    assert {name: whole.settings(name)["trials"] for name in ("crf", "nce")} == {"crf": 2, "nce": 2}
    assert set(whole.settings("nce")["settings"]) == {"learning_rate", "energy_weight", "loss_net_learning_rate"}

    started, cut_at, prepared_of = [], [4, 8], program.Comparison._prepared  # a trial of nce, and crf's second run

    def counted(self, name, settings, folder):
        if "check" not in folder:
            started.append(name)
            if len(started) in cut_at:
                raise KeyboardInterrupt
        return prepared_of(self, name, settings, folder)

    monkeypatch.setattr(program.Comparison, "_prepared", counted)
    part = [*options, "--output_dir", str(tmp_path / "part")]
    for _ in cut_at:
        with pytest.raises(KeyboardInterrupt):
            program.main(part)
        assert "| `crf` a CRF |" in (tmp_path / "part" / "table.md").read_text()
    done = {file: file.stat().st_mtime_ns for file in (tmp_path / "part").glob("*/seed*.json")}
    resumed = program.main(part)
    assert len(started) == 2 * (2 + 2) + len(cut_at) and len(done) == 4
    assert all(file.stat().st_mtime_ns == time for file, time in done.items())
    assert without_clock(resumed) == without_clock(whole)
    tables = [json.loads((tmp_path / name / "results.json").read_text())["f1"] for name in ("whole", "part")]
    for found in tables:
        for row in found["methods"].values():
            row.pop("seconds")
    assert tables[0] == tables[1]

    beside = ["--beside", str(tmp_path / "whole" / "crf"), "--output_dir", str(tmp_path / "beside")]
    tuned = program.main(["tagging", *TINY, "--losses", "crf_nce", "--budget", "2", "--finalists", "2", *beside])
    found = tuned.settings("crf_nce")
    assert all(set(one["settings"]) == {"energy_weight", "loss_net_learning_rate"} for one in found["tried"])
    assert all(len(one["values"]) == 3 for one in found["tried"])
    rate = whole.settings("crf")["settings"]["learning_rate"]
    assert float(tuned.identity()["learning_rate"]) == pytest.approx(rate)


def test_every_figure_of_a_table_of_tags_is_that_of_its_rows():
    """F1 of spans over all rows, and its difference, from the counts that are kept."""
    data = load_tags("toy_tags")
    gold = [[data.label_names[tag] for tag in row] for row in data.test["tags"]]
    rng, predicted = np.random.default_rng(0), {}
    for name, share in (("ce", 0.6), ("nce", 0.8)):
        predicted[name] = [[tag if rng.random() < share else "O" for tag in row] for row in gold]
    runs = {}
    for name, tags in predicted.items():
        validation = [["O"] * len(row) for row in data.validation["tags"]]
        scored = KINDS["tagging"].scored(data, {"eval": validation, "test": tags})
        rows = {key: found.as_text() for key, found in scored.rows.items()}
        runs[name] = [{"seed": 1, **scored.metrics, "test_rows": rows}]
        figures = tag_metrics(tags, gold, "bio")
        assert {key: scored.metrics[f"test_{key}"] for key in figures} == figures
        assert {key: Rows.of_text(text).figure for key, text in rows.items()} == pytest.approx(
            {key: figures[key] for key in ("f1", "accuracy")}
        )
        assert scored.metrics["test_exact_match"] == np.mean([ours == g for ours, g in zip(tags, gold, strict=True)])
    kind = KINDS["tagging"]
    found = table.comparison(runs, kind.figures, kind.methods, "f1", "f1")
    assert found["methods"]["nce"]["difference"] == pytest.approx(
        runs["nce"][0]["test_f1"] - runs["ce"][0]["test_f1"], abs=1e-12
    )
    assert [*found["columns"]] == ["f1", "accuracy", "exact_match", "malformed"] and found["test_rows"] == 60
    text = table.markdown(found)
    assert "| F1 of spans | accuracy | exact match | malformed | difference to ce |" in text
    assert "*Malformed* is the share" in text and "Repeated roles" not in text


@pytest.mark.parametrize("names", [["nce", "infnet_plus_shared", "crf_nce"], ["regression_tag_attention", "infnet"]])
def test_every_method_with_an_energy_says_how_well_it_tells_gold_from_samples(program, tmp_path, names):
    runs = program.main(["tagging", *TINY, "--losses", "ce", *names, "--output_dir", str(tmp_path)])
    assert all(0 <= runs.load(name, 1)["eval_energy_auc"] <= 1 for name in names)
    (row,) = re.findall(rf"^\| `{names[0]}` .*\| (\S+) \|$", (tmp_path / "table.md").read_text(), re.M)
    assert float(row) == pytest.approx(runs.load(names[0], 1)["eval_energy_auc"], abs=0.006)
    assert "eval_energy_auc" not in runs.load("ce", 1)


def test_a_users_own_file_is_compared_by_the_line_of_the_how_to(program, tmp_path, monkeypatch):
    page = (ROOT / "docs/how-to/compare.md").read_text(encoding="utf-8")
    line, *_ = re.findall(r"^seal-hf compare tagging .*$", page, re.M)
    words = shlex.split(line.split(" --seeds")[0])[2:]
    file = tmp_path / words[words.index("--dataset") + 1]
    folder = Path(test_run_tagging.columns(tmp_path / "columns", "train", "dev", "test"))
    file.write_text("\n".join(part.read_text() for part in sorted(folder.iterdir())))  # one file, without splits
    monkeypatch.chdir(tmp_path)
    few = "--hidden_size 8 --num_train_epochs 1".split()
    runs = program.main([*words, *few])
    named = words[words.index("--losses") + 1 :]
    assert list(runs.all()) == sorted(name for name in named if name in KINDS["tagging"].methods)
    assert runs.folder == Path("runs", "compare", f"tagging_{file.stem}")


def test_semantic_roles_are_compared_with_core_roles_unique_at_decoding(program, tmp_path):
    data, net = tmp_path / "data", tmp_path / "net"
    data.mkdir()
    for split, size in (("train", 24), ("dev", 8), ("test", 60)):
        test_run_srl.write(data / f"tiny.{split}.srl", size)
    AutoModel.from_config(tiny_config("bert")).save_pretrained(net)
    tiny_tokenizer().save_pretrained(net)
    words = ["srl", "--dataset", str(data), "--model_name_or_path", str(net), "--num_train_epochs", "1"]
    names = ["crf", "crf_unique_roles", "unique_roles", "margin"]
    runs = program.main([*words, "--losses", *names, "--output_dir", str(tmp_path / "out")])
    found = runs.all()
    assert set(found) == set(names)
    assert all(0 <= run["test_core_role_violations"] <= 1 for (run,) in found.values())
    assert found["crf_unique_roles"][0]["test_core_role_violations"] == 0
    assert "| malformed | repeated roles |" in (tmp_path / "out" / "table.md").read_text()


# --- masks -----------------------------------------------------------------------------------------------------------


def test_masks_are_compared(program, tmp_path):
    names = ["constant", "ce", "soft_iou", "ranking_field", "static_regression"]
    few = "--num_train_epochs 1 --per_device_train_batch_size 4 --crop_size 16 --test_crop_size 0".split()
    runs = program.main(["segmentation", *few, "--losses", *names, "--output_dir", str(tmp_path)])
    found = runs.all()
    assert set(found) == {*names, "gbi_dvn"}  # whose network static_regression takes
    for name, (run,) in found.items():
        for key, text in run["test_rows"].items():
            assert Rows.of_text(text).figure == pytest.approx(run[f"test_{key}"], abs=6e-4), name
    assert 0 <= found["ranking_field"][0]["eval_energy_auc"] <= 1
    tables = json.loads((tmp_path / "results.json").read_text())
    assert list(tables) == ["mean_iou", "mean_iou_tuned", "boundary_iou"]
    assert "| IoU at 0.5 | IoU tuned | boundary IoU | pieces / 100 |" in (tmp_path / "table.md").read_text()


def test_masks_of_several_classes_are_compared_by_every_loss(program, tmp_path):
    names = ["constant", "ce", "soft_iou", "dice", "lovasz", "regression", "nce", "ranking_field"]
    few = "--num_train_epochs 1 --per_device_train_batch_size 4 --crop_size 16 --test_crop_size 0 --num_samples 2"
    words = ["segmentation", "--dataset", "digit_classes", *few.split()]
    words += ["--class_names", "ground", *"abcdefghij"]
    runs = program.main([*words, "--losses", *names, "--output_dir", str(tmp_path)])
    assert set(runs.all()) == set(names)
    for name, (run,) in runs.all().items():
        assert set(run["test_rows"]) == {"mean_iou", "boundary_iou"}
        for key, text in run["test_rows"].items():
            assert Rows.of_text(text).figure == pytest.approx(run[f"test_{key}"], abs=1e-9), name
    assert list(json.loads((tmp_path / "results.json").read_text())) == ["mean_iou", "boundary_iou"]
    assert "| IoU | pixel accuracy | boundary IoU | pieces / 100 |" in (tmp_path / "table.md").read_text()
    with pytest.raises(ValueError, match="'gbi_dvn' needs masks of two classes, which digit_classes lacks"):
        program.main([*words, "--losses", "gbi_dvn", "--output_dir", str(tmp_path / "other")])


def test_outlines_and_pieces_of_masks_against_the_metrics_of_one_image():
    """A square whose decision lacks a row and has two spots beside it."""
    gold = np.zeros((2, 20, 20), dtype=np.uint8)
    gold[:, 5:15, 5:15] = 1
    decided = gold.copy()
    decided[0, 5], decided[0, 0, 0], decided[0, 18, 3] = 0, 1, 1
    kept, ring = 9 * 10 - 7 * 8, 10 * 10 - 8 * 8  # pixels of both outlines, of the decision and the gold
    both = ring - 10  # of the gold's outline, the decision lacks the upper row, and has the rest
    split = SimpleNamespace(masks=gold)
    data = SimpleNamespace(validation=split, test=split, label_names=["ground", "square"])
    values = {"eval": decided.astype(float), "test": decided.astype(float)}
    scored = KINDS["segmentation"]._scored({"threshold": 0.5}, values, data)
    found = both / (ring + kept + 2 - both)
    assert scored.metrics["test_boundary_iou"] == pytest.approx((found + 1) / 2)
    assert scored.metrics["test_further_components"] == 1


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, message",
    [
        (
            "taging",
            "no kind of output 'taging'. Did you mean 'tagging'. All of them: mlc, tagging, srl, parsing, "
            "segmentation, rewards.",
        ),
        ("tagging --losses gbi_spen", "method 'gbi_spen' is of `compare mlc`; that of `compare tagging` must be one"),
        ("segmentation --losses infnet_plus", "method 'infnet_plus' is of `compare tagging`; that of `compare segm"),
        ("tagging --losses nec", "unknown method 'nec'; it must be one of constant, ce, constrained, crf, nce"),
        ("tagging --losses unique_roles", "method 'unique_roles' needs tags with core roles, which toy_tags lacks"),
        ("tagging --dataset plain.conll --losses constrained", "'constrained' needs tags with a scheme, which plain"),
        ("tagging --dataset plain.conll --metric f1", "`metric` is 'f1'; it must be one of accuracy"),
        ("tagging --energy", "argument --energy: expected one argument"),
        ("srl --losses ce", "arguments are required: --dataset"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(program, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    Path("plain.conll").write_text("a DT\nfilm NN\n\n" * 20)
    with pytest.raises(ValueError, match=message):
        program.main([*words.split(), "--output_dir", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_all_takes_what_suits_the_data_and_an_energy_may_be_a_flag_for_all(program, tmp_path, capsys):
    (tmp_path / "plain.conll").write_text("a DT\nfilm NN\n\n" * 20)
    suits = KINDS["tagging"].methods_for(load_tags(tmp_path / "plain.conll"))
    assert not {"constrained", "unique_roles", "crf_unique_roles"} & set(suits) and "crf_nce_chain_ge_b" in suits
    assert "constrained" in KINDS["tagging"].methods_for(load_tags("toy_tags"))
    options = ["tagging", *TINY, "--energy", "tag_attention", "--losses", "nce", "nce_chain_ge_a"]
    options += ["--global_size", "4", "--output_dir", str(tmp_path / "out")]
    program.main(options)
    assert "--energy does not change nce_chain_ge_a (chain_ge_a): it is part of the method" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "given", "recipe"),
    [
        ("mlc", {"dataset": "digit_images"}, "images"),
        ("mlc", {"dataset": "digit_images", "model_name_or_path": "owner/name"}, "images_pretrained"),
        ("mlc", {"dataset": "owner/name", "model_name_or_path": "owner/name", "freeze_encoder": "true"}, "text_frozen"),
        ("segmentation", {"dataset": "digit_classes"}, "segmentation_classes"),
        ("segmentation", {"model_name_or_path": "owner/name"}, "segmentation_pretrained"),
    ],
)
def test_a_comparison_begins_with_the_recipe_of_the_program_that_trains(word, given, recipe):
    kind = KINDS[word]
    assert kind.recipe(given) == recipe
    flags = ("dataset", "data_dir", "text_column", "image_column", "model_name_or_path")
    wanted = Namespace(**{**dict.fromkeys(flags), **given, "freeze_encoder": "freeze_encoder" in given})
    assert recipe == (mlc.recipe(wanted) if word == "mlc" else kind.program.recipes[kind.program.kind_of(wanted)])
