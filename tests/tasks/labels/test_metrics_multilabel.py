"""Oracle: scikit-learn, example by example; brute force over thresholds for the tuned one."""

import itertools
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    classification_report,
    f1_score,
    hamming_loss,
    jaccard_score,
    precision_score,
    recall_score,
)

import seal_hf.metrics
from seal_hf.metrics import (
    CLASSES,
    MultiLabelByBatch,
    label_report,
    metric_class,
    multilabel_compute_metrics,
    multilabel_metrics,
    tune_threshold,
)
from seal_hf.tasks.labels import metrics as metrics_module


def make(num_rows, num_labels, seed, ties=False):
    rng = np.random.default_rng(seed)
    probabilities = rng.uniform(size=(num_rows, num_labels))
    if ties:
        probabilities = np.round(probabilities, 1)
    labels = (rng.uniform(size=(num_rows, num_labels)) < 0.2).astype(np.int64)
    labels[0], probabilities[0] = 0, 0.1  # empty gold, empty prediction
    labels[1] = 1  # every label gold
    return probabilities, labels


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("empty_score", [0.0, 1.0])
@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_figures_equal_scikit_learn(ties, empty_score, threshold):
    probabilities, labels = make(37, 11, seed=1, ties=ties)
    decided = (probabilities >= threshold).astype(int)
    some = (labels + decided).any(1)  # scikit-learn has no score of its own for two empty sets
    figures = multilabel_metrics(probabilities, labels, threshold, empty_score=empty_score)
    expected = {
        "f1_example": f1_score(labels, decided, average="samples", zero_division=empty_score),
        "f1_micro": f1_score(labels, decided, average="micro", zero_division=0),
        "f1_macro": f1_score(labels, decided, average="macro", zero_division=0),
        "jaccard": jaccard_score(labels[some], decided[some], average="samples", zero_division=0) * some.mean()
        + empty_score * (~some).mean(),
        "exact_match": accuracy_score(labels, decided),
        "hamming_loss": hamming_loss(labels, decided),
        "map": np.mean([average_precision_score(y, p) for y, p in zip(labels, probabilities, strict=True) if y.any()]),
        "map_macro": np.mean(
            [average_precision_score(y, p) for y, p in zip(labels.T, probabilities.T, strict=True) if y.any()]
        ),
    }
    for name, score in (("precision", precision_score), ("recall", recall_score)):
        by_example = score(labels[some], decided[some], average="samples", zero_division=0)
        expected[f"{name}_example"] = by_example * some.mean() + empty_score * (~some).mean()
        for average in ("micro", "macro"):
            expected[f"{name}_{average}"] = score(labels, decided, average=average, zero_division=0)
    assert figures == pytest.approx(expected, abs=1e-12)


def test_blocks_do_not_change_the_figures(monkeypatch):
    probabilities, labels = make(50, 7, seed=2, ties=True)
    whole = multilabel_metrics(probabilities, labels), tune_threshold(probabilities, labels)
    monkeypatch.setattr(metrics_module, "BLOCK", 7 * 3)  # three rows at once
    blocks = multilabel_metrics(probabilities, labels), tune_threshold(probabilities, labels)
    assert blocks[0] == pytest.approx(whole[0], abs=1e-12)
    assert blocks[1] == pytest.approx(whole[1], abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_tuned_threshold_equals_brute_force(ties):
    probabilities, labels = make(40, 9, seed=3, ties=ties)
    probabilities[2] = np.linspace(0, 1, 9)  # 0 and 1 themselves
    f1 = {t: multilabel_metrics(probabilities, labels, t)["f1_example"] for t in np.arange(1, 100) / 100}
    threshold, best = tune_threshold(probabilities, labels)
    assert best == pytest.approx(max(f1.values()), abs=1e-12)
    assert f1[threshold] == pytest.approx(best, abs=1e-12)
    equally_good = [t for t, value in f1.items() if value >= best - 1e-12]
    assert abs(threshold - 0.5) == min(abs(t - 0.5) for t in equally_good)


def test_tuned_threshold_of_a_closed_form():
    # decided correctly by any threshold in (0.2, 0.4]; 0.4 is the nearest to 0.5
    assert tune_threshold(np.array([[0.4, 0.2], [0.1, 0.45]]), np.array([[1, 0], [0, 1]])) == (0.4, 1.0)


def test_a_single_element_and_no_labels_at_all():
    figures = multilabel_metrics(np.array([[0.9]]), np.array([[1]]))
    assert figures.pop("hamming_loss") == 0.0 and set(figures.values()) == {1.0}
    figures = multilabel_metrics(np.full((2, 3), 0.1), np.zeros((2, 3)))
    assert figures["f1_example"] == figures["jaccard"] == figures["exact_match"] == 1.0
    assert np.isnan(figures["map"]) and np.isnan(figures["map_macro"])


def test_the_report_by_label_is_scikit_learns():
    probabilities, labels = make(40, 5, seed=6)
    names = list("abcde")
    labels[:, 4], probabilities[:, 4] = 0, 0.1  # neither gold nor decided
    report = label_report(probabilities >= 0.4, labels, names)
    expected = classification_report(
        labels, probabilities >= 0.4, target_names=names, output_dict=True, zero_division=0
    )
    assert list(report) == names
    for name in names:
        assert report[name] == pytest.approx({key.replace("f1-score", "f1"): v for key, v in expected[name].items()})
    with pytest.raises(
        ValueError, match=r"with a name for each label; found \(40, 5\), \(40, 5\) and 4 different names"
    ):
        label_report(probabilities >= 0.4, labels, ["a", "b", "c", "d", "d"])


def test_compute_metrics_takes_logits_and_a_tuple():
    probabilities, labels = make(30, 6, seed=4)
    logits = np.log(probabilities / (1 - probabilities))
    outputs = SimpleNamespace(predictions=(logits, "hidden"), label_ids=labels.astype(float))
    figures = multilabel_compute_metrics(outputs)
    threshold, tuned = tune_threshold(probabilities, labels)
    expected = {**multilabel_metrics(probabilities, labels), "f1_example_tuned": tuned, "threshold": threshold}
    assert figures == pytest.approx(expected, abs=1e-9)
    assert all(type(value) is float for value in figures.values())
    assert sorted(figures) == sorted(multilabel_compute_metrics.figures)
    extreme = SimpleNamespace(predictions=np.array([[1e4, -1e4]], dtype=np.float32), label_ids=np.array([[1, 0]]))
    assert multilabel_compute_metrics(extreme)["f1_example"] == 1.0


@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        (np.array([[0.1, np.nan]]), np.array([[0, 1]]), r"probabilities\[0, 1\] is nan"),
        (np.array([[0.1, 3.0]]), np.array([[0, 1]]), "sigmoid"),
        (np.array([[0.1, 0.3]]), np.array([[0, 2]]), r"labels\[0, 1\] is 2"),
        (np.array([[0.1, 0.3]]), np.array([[0, 1, 0]]), r"\(1, 2\) and \(1, 3\)"),
        (np.zeros((0, 3)), np.zeros((0, 3)), "no examples"),
    ],
)
def test_bad_arrays_are_named(probabilities, labels, message):
    for function in (multilabel_metrics, tune_threshold):
        with pytest.raises(ValueError, match=message):
            function(probabilities, labels)


def test_evaluate_combine_takes_the_metrics(tmp_path):
    evaluate = pytest.importorskip("evaluate")
    probabilities, labels = make(20, 5, seed=5)
    names = [name for name, figure in CLASSES.items() if figure.name in multilabel_metrics(probabilities, labels)]
    assert len(names) == 14
    combined = evaluate.combine([getattr(seal_hf.metrics, name)(cache_dir=str(tmp_path)) for name in names])
    figures = combined.compute(predictions=probabilities, references=labels)
    assert figures == pytest.approx(multilabel_metrics(probabilities, labels), abs=1e-12)
    example_f1 = seal_hf.metrics.ExampleF1(cache_dir=str(tmp_path))
    for start in (0, 10):
        example_f1.add_batch(predictions=probabilities[start : start + 10], references=labels[start : start + 10])
    expected = multilabel_metrics(probabilities, labels, 0.3)["f1_example"]
    assert example_f1.compute(threshold=0.3) == pytest.approx({"f1_example": expected}, abs=1e-12)


def test_without_evaluate_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "evaluate", None)  # an import of it fails
    metric_class.cache_clear()
    with pytest.raises(ImportError, match=r"`SpanF1` needs evaluate .*: pip install 'seal_hf\[evaluate\]'"):
        from seal_hf.metrics import SpanF1  # noqa: F401


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'F2'"):
        seal_hf.metrics.F2  # noqa: B018


def test_a_metric_class_says_its_name_and_is_one():
    pytest.importorskip("evaluate")
    for name in CLASSES:
        made = getattr(seal_hf.metrics, name)
        assert made is getattr(seal_hf.metrics, name) and made.__name__ == name
        assert pickle.loads(pickle.dumps(made)) is made


def test_figures_by_batch_are_those_of_all_rows():
    """Of decided sets to the last digit, counts being whole numbers; of sums over rows to rounding."""
    generator = np.random.default_rng(3)
    logits = (generator.normal(size=(203, 17)) - 1).astype(np.float32)
    labels = (generator.random((203, 17)) < 0.15).astype(np.float32)
    whole = multilabel_compute_metrics(SimpleNamespace(predictions=logits, label_ids=labels))
    by_batch, cuts = MultiLabelByBatch(), [0, 1, 64, 65, 203]
    for start, end in itertools.pairwise(cuts):
        batch = SimpleNamespace(predictions=torch.tensor(logits[start:end]), label_ids=torch.tensor(labels[start:end]))
        found = by_batch(batch, compute_result=end == cuts[-1])
        assert bool(found) == (end == cuts[-1])
    assert tuple(sorted(found)) == tuple(sorted(MultiLabelByBatch.figures))
    assert whole.keys() - found.keys() == {"map_macro"}
    for name in ("map", "f1_example_tuned"):
        assert found.pop(name) == pytest.approx(whole[name], abs=1e-14)
    assert found == {name: whole[name] for name in found}
    with pytest.raises(ValueError, match="all labels of these examples are unknown"):
        MultiLabelByBatch()(SimpleNamespace(predictions=logits, label_ids=np.full_like(labels, -1)))
