"""A run with `--hierarchy`, from the file to predictions of the saved net. Oracles: hierarchical F1 by counting sets of
names, the decisions of the trainer's own probabilities."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from predicting import arff
from tiny_models import LABELLED, tiny_config
from transformers import AutoModel

from seal_hf import SealForMultiLabel
from seal_hf.cli.predict import evaluate
from seal_hf.cli.predict import main as predict
from seal_hf.core.hierarchy import Hierarchy, hierarchy_of, store_hierarchy
from seal_hf.decisions import LabelDecisions
from seal_hf.metrics import HierarchicalComputeMetrics, hierarchical_metrics
from seal_hf.tasks.labels.program import energy_main as train_energy
from seal_hf.tasks.labels.program import main as train

LINES = "child,parent\ncalm,quiet\nsad,feeling\nhappy,feeling\n"
LABELS = ["happy", "sad", "calm"]


def test_hierarchical_f1_by_hand():
    """Kiritchenko et al.: a sibling of the right label has its ancestors right. Labels: root, a, a/x, a/y, b."""
    hierarchy = Hierarchy(((), (0,), (1,), (1,), (0,)))
    decided = np.array([[0, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
    gold = np.array([[0, 0, 0, 1, 0], [0, 0, 1, 0, 1], [0, 1, 0, 0, 0]])
    # without the root: {a, x} and {a, y}, {b} and {a, x, b}, {} and {a}: 2 hits, 3 decided, 6 gold
    found = hierarchical_metrics(decided, gold, hierarchy)
    assert found == pytest.approx(
        {"precision_hierarchical": 2 / 3, "recall_hierarchical": 2 / 6, "f1_hierarchical": 4 / 9}
    )
    nothing = hierarchical_metrics(0 * decided, 0 * gold, hierarchy)
    assert set(nothing.values()) == {0.0}


def test_a_decision_at_an_unknown_label_changes_no_hierarchical_figure():
    """Labels: a, a/x, b. It would otherwise add `a`, which is known to be absent."""
    hierarchy, gold = Hierarchy(((), (0,), ())), np.array([[0, -1, 1], [0, np.nan, 1]])
    found = [hierarchical_metrics(np.array([[0, x, 1]] * 2), gold, hierarchy) for x in (0, 1)]
    assert found[0] == found[1] and set(found[0].values()) == {1.0}


def test_hierarchical_figures_by_batch_are_those_of_all_rows():
    rng, hierarchy = np.random.default_rng(2), Hierarchy(((), (0,), (0,), (2,), ()))
    logits, labels = rng.normal(size=(60, 5)), hierarchy.raised(rng.random((60, 5)) < 0.3).astype(np.float32)
    labels[rng.random(labels.shape) < 0.2] = -1
    labels[:10] = -1  # a batch with nothing known
    scorer = HierarchicalComputeMetrics(hierarchy)
    whole, by_batch = scorer(SimpleNamespace(predictions=logits, label_ids=labels)), scorer.by_batch()
    for start in range(0, 60, 10):
        rows = slice(start, start + 10)
        batch = SimpleNamespace(predictions=logits[rows], label_ids=labels[rows])
        found = by_batch(batch, compute_result=start == 50)
    assert whole.keys() - found.keys() == {"map_macro", "f1_hierarchical_tuned"}
    assert found == pytest.approx({name: whole[name] for name in found}, abs=1e-12)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of the data and of a net that was trained on it, and its figures."""
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    y = rng.random((120, 3)) < 0.35
    x = (y @ rng.normal(size=(3, 6)) + 0.5 * rng.normal(size=(120, 6))).astype(np.float32)
    data = folder / "data"
    data.mkdir()
    labels = "".join(f'<label name="{name}"></label>' for name in LABELS)
    (data / "data.xml").write_text(f'<labels xmlns="http://mulan.sourceforge.net/labels">{labels}</labels>')
    header = [f"@attribute x{i} numeric" for i in range(6)] + [f"@attribute {name} {{0,1}}" for name in LABELS]
    rows = [",".join(f"{value:.9g}" for value in row) for row in np.concatenate([x, y], 1)]
    (data / "data.arff").write_text("\n".join(["@relation r", *header, "@data", *rows]) + "\n")
    (folder / "h.csv").write_text(LINES)
    flags = ["--dataset", str(data), "--hierarchy", str(folder / "h.csv"), "--output_dir", str(folder / "net")]
    flags += "--loss ce --num_train_epochs 4 --hidden_size 8 --report_to none --report false".split()
    return folder, train([*flags, "--decoder", "closed_f1", "--metric_for_best_model", "f1_hierarchical"])


def test_the_run_says_what_it_decides_and_how_well(run, capsys):
    folder, figures = run
    lines = [json.loads(line) for line in (folder / "net" / "_predictions.jsonl").read_text().splitlines()]
    above = {"calm": "quiet", "sad": "feeling", "happy": "feeling"}
    assert lines and all(
        {above[name] for name in row[key] if name in above} <= {*row[key]}
        for row in lines
        for key in ("labels", "gold")
    )
    hits, ours, theirs = (
        sum(map(len, sets))
        for sets in zip(*(({*r["labels"]} & {*r["gold"]}, r["labels"], r["gold"]) for r in lines), strict=True)
    )
    assert figures["test_f1_hierarchical_decided"] == pytest.approx(2 * hits / (ours + theirs))
    assert {"test_f1_example_closed", "test_f1_example_closed_calibrated"} <= figures.keys()
    card = (folder / "net" / "README.md").read_text()
    assert "The stored decoder is `closed_f1`" in card and "all ancestors of its labels" in card


def test_a_loaded_net_decides_the_same(run, tmp_path):
    folder, _ = run
    net = SealForMultiLabel.from_pretrained(folder / "net", with_loss_net=False)
    assert net.config.label_hierarchy == [[4], [4], [3], [], []]
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(1))
    p, decided = net.predict(features=x)
    stored = LabelDecisions.from_config(net.config)
    assert stored.decoder == "closed_f1" and (stored.hierarchy.raised(decided.numpy()) == decided.numpy()).all()
    p, _ = net.predict(features=x, decoder=0.5)
    sets = predicted_names(folder, tmp_path, x.numpy())
    names = [net.config.id2label[i] for i in range(5)]
    assert sets == [{names[i] for i in np.flatnonzero(row)} for row in decided.numpy()]
    net.config.label_hierarchy = [[1], [0], [], [], []]
    with pytest.raises(ValueError, match="`config.label_hierarchy`: the hierarchy of labels has a cycle: 0 -> 1 -> 0"):
        net.predict(features=x)


def predicted_names(folder, tmp_path, x):
    source, target = arff(tmp_path / "new.arff", x), tmp_path / "out.jsonl"
    predict(["--model", str(folder / "net"), "--input", str(source), "--output", str(target)])
    return [set(json.loads(line)["labels"]) for line in target.read_text().splitlines()]


def test_evaluation_closes_the_gold_sets_and_fits_anew(run, tmp_path):
    folder, _ = run
    source = folder / "data" / "data.arff"
    for flags in ([], ["--refit", "--decoder", "calibrated_closed_f1"]):
        target = tmp_path / f"results{len(flags)}.json"
        evaluate(["--model", str(folder / "net"), "--input", str(source), "--output", str(target), *flags])
        found = json.loads(target.read_text())
        support = {name: found["labels"][name]["support"] for name in ("calm", "quiet", "happy", "sad", "feeling")}
        assert support["quiet"] == support["calm"] and support["feeling"] >= max(support["happy"], support["sad"])
        assert found["decoder"] == (flags[2] if flags else "closed_f1")
        assert {"closed_f1", "calibrated_closed_f1"} <= found["decoders"].keys()
        assert all(0 <= figures["f1_hierarchical"] <= 1 for figures in found["decoders"].values())


def test_an_energy_network_decides_closed_sets_too(run, tmp_path):
    folder, _ = run
    flags = ["--dataset", str(folder / "data"), "--hierarchy", str(folder / "h.csv"), "--output_dir", str(tmp_path)]
    figures = train_energy(
        [*flags, "--max_steps", "2", "--hidden_size", "8", "--report_to", "none", "--report", "false"]
    )
    assert "test_f1_example_closed" in figures and "test_f1_hierarchical_decided" in figures


def test_without_a_hierarchy_the_decoder_is_refused_before_training(run, tmp_path):
    folder, _ = run
    flags = ["--dataset", str(folder / "data"), "--output_dir", str(tmp_path), "--decoder", "closed_f1"]
    with pytest.raises(
        ValueError, match="`decoder` is 'closed_f1', but the labels lack a hierarchy: .*--hierarchy FILE"
    ):
        train([*flags, "--loss", "ce", "--max_steps", "1", "--report_to", "none", "--report", "false"])


@pytest.mark.parametrize("library", ["peft", "adapters"])
def test_beside_an_adapter_it_is_in_the_file_of_decisions(library, tmp_path):
    pytest.importorskip(library)
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "base")
    seal = SealForMultiLabel.from_pretrained(tmp_path / "base", loss_net_encoder=library, **LABELLED)
    hierarchy = Hierarchy(((), (0,), (0,), (2,)))
    store_hierarchy(seal.config, hierarchy)
    LabelDecisions("closed_f1", hierarchy=hierarchy).store(seal.config)
    seal.save_pretrained(tmp_path / "net", adapter_export="adapter")
    again = SealForMultiLabel.from_pretrained(tmp_path / "net", with_loss_net=False)
    assert hierarchy_of(again.config) == hierarchy
    assert LabelDecisions.from_config(again.config).decoder == "closed_f1"
