"""Oracles: seqeval for span figures, scikit-learn for tokens, a counter by hand for repeated core roles."""

import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from seqeval.metrics.v1 import classification_report
from seqeval.metrics.v1 import precision_recall_fscore_support as seqeval_figures
from seqeval.scheme import IOB2, IOBES
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

import seal_hf.metrics
from seal_hf.metrics import core_role_violations, span_counts, tag_metrics, tag_report, tagging_compute_metrics

BIO = ["O", "B-X", "I-X", "B-Y", "I-Y", "B-C-X", "I-C-X"]
BIOES = [*BIO, "E-X", "S-X", "E-Y", "S-Y", "E-C-X", "S-C-X"]
SRL = ["O", *(f"{p}-{role}" for role in ("V", "ARG0", "ARG1", "C-ARG0", "R-ARG0", "ARGM-TMP") for p in "BI")]
SCHEMES = {"bio": (BIO, IOB2), "bioes": (BIOES, IOBES)}


def make(names, size=60, seed=0, noise=0.3):
    """Random sequences, mostly malformed, and gold that agrees with them in most places."""
    rng = np.random.default_rng(seed)
    gold = [list(rng.choice(names, rng.integers(1, 9))) for _ in range(size)]
    predicted = [[str(rng.choice(names)) if rng.uniform() < noise else str(tag) for tag in row] for row in gold]
    return predicted, [[str(tag) for tag in row] for row in gold]


@pytest.mark.parametrize("kind", ["bio", "bioes"])
@pytest.mark.parametrize("seed", range(3))
def test_span_figures_equal_strict_seqeval(kind, seed):
    names, scheme = SCHEMES[kind]
    predicted, gold = make(names, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = seqeval_figures(gold, predicted, average="micro", scheme=scheme, zero_division=0)
        report = classification_report(gold, predicted, scheme=scheme, output_dict=True, zero_division=0)
    figures = tag_metrics(predicted, gold, kind)
    assert [figures[name] for name in ("precision", "recall", "f1")] == pytest.approx(list(expected[:3]), abs=1e-12)
    assert 0 < figures["f1"] < 1 and all(0 <= value <= 1 for value in figures.values())
    for name, row in tag_report(predicted, gold, kind).items():
        assert row == pytest.approx(
            {
                ours: report[name][theirs]
                for ours, theirs in zip(row, ("precision", "recall", "f1-score", "support"), strict=True)
            }
        )
    counts = span_counts(predicted, gold, kind)
    assert counts.shape == (60, 3) and counts[:, 2].sum() == expected[3]
    assert 2 * counts[:, 0].sum() / counts[:, 1:].sum() == pytest.approx(figures["f1"])


def test_token_figures_equal_scikit_learn():
    predicted, gold = make(["N", "V", "O", "^"])
    flat_predicted, flat_gold = (list(itertools.chain(*rows)) for rows in (predicted, gold))
    assert tag_metrics(predicted, gold, "plain") == {"accuracy": accuracy_score(flat_gold, flat_predicted)}
    report = tag_report(predicted, gold, "plain")
    expected = precision_recall_fscore_support(flat_gold, flat_predicted, zero_division=0, labels=list(report))
    assert [[row[name] for row in report.values()] for name in ("precision", "recall", "f1", "support")] == [
        pytest.approx(list(values)) for values in expected
    ]


def test_semantic_roles_leave_the_predicate_out():
    predicted, gold = make(SRL, seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = classification_report(gold, predicted, scheme=IOB2, output_dict=True, zero_division=0)
    # V has its own row in seqeval: all others, weighted by their support, are the recall without it
    roles = {name: row for name, row in report.items() if name != "V" and not name.endswith("avg")}
    support = sum(row["support"] for row in roles.values())
    figures = tag_metrics(predicted, gold, "srl")
    assert figures["recall"] == pytest.approx(sum(r["recall"] * r["support"] for r in roles.values()) / support)
    assert set(tag_report(predicted, gold, "srl")) == set(roles)
    # the predicate alone: nothing to find, as in seqeval 0
    alone = tag_metrics([["B-V", "O"]], [["B-V", "O"]], "srl")
    expected = {"accuracy": 1.0, "precision": 0.0, "recall": 0.0, "f1": 0.0, "malformed": 0.0}
    assert alone == {**expected, "core_role_violations": 0.0}


def test_bioes_roles_are_read_as_bioes():
    gold = [["B-ARG0", "E-ARG0", "S-V", "S-ARG1"]]
    assert tag_metrics(gold, gold, "srl")["f1"] == 1.0
    half = [["B-ARG0", "O", "S-V", "S-ARG1"]]  # B without E is no span: 1 of 1 predicted, 1 of 2 gold
    figures = tag_metrics(half, gold, "srl")
    assert (figures["precision"], figures["recall"], figures["malformed"]) == (1.0, 0.5, 1.0)


@pytest.mark.parametrize(
    ("tags", "violates"),
    [
        ("B-ARG0 I-ARG0 B-V B-ARG1", False),
        ("B-ARG0 B-V B-ARG0", True),
        ("B-ARG0 B-ARG0 B-V", True),  # touching
        ("B-ARG0 B-V B-C-ARG0 B-R-ARG0", False),
        ("B-C-ARG0 B-V B-C-ARG0", False),
        ("B-ARGM-TMP B-V B-ARGM-TMP", False),
        ("B-A1 B-V B-A1", True),  # CoNLL-2005
        ("B-A0 B-V B-ARG0", False),
        ("B-AA B-V B-AA", True),  # core too (He et al. 2017)
        ("B-ARGA B-V B-ARGA", True),
        ("B-ARG1-DSP B-V B-ARG1-DSP", False),
        ("B-V O B-V", False),
        ("I-ARG0 B-V B-ARG0", False),  # I without beginning is no span
        ("O", False),
    ],
)
def test_repeated_core_roles(tags, violates):
    assert core_role_violations([tags.split()]) == float(violates)
    assert core_role_violations([tags.split(), ["O"]]) == violates / 2
    assert core_role_violations([]) == 0.0


def test_malformed_is_the_share_of_broken_predictions():
    gold = [["B-X", "I-X"], ["O", "O"]]
    assert tag_metrics(gold, gold, "bio")["malformed"] == 0
    assert tag_metrics([["O", "I-X"], ["O", "O"]], gold, "bio")["malformed"] == 0.5


@pytest.mark.parametrize(("kind", "names"), [("plain", ["N", "V"]), ("bio", BIO), ("bioes", BIOES), ("srl", SRL)])
def test_compute_metrics_counts_what_is_not_masked(kind, names):
    predicted, gold = make(names, size=20, seed=7)
    rng = np.random.default_rng(0)
    labels = np.full((20, 14), -100)
    logits = rng.normal(size=(20, 14, len(names))).astype(np.float32)
    for row, (one, other) in enumerate(zip(predicted, gold, strict=True)):
        places = np.sort(rng.choice(14, len(one), replace=False))  # the mask has holes
        labels[row, places] = [names.index(tag) for tag in other]
        logits[row, places, [names.index(tag) for tag in one]] = 10
    compute = tagging_compute_metrics(names, kind)
    expected = tag_metrics(predicted, gold, kind)
    assert compute(SimpleNamespace(predictions=logits, label_ids=labels)) == expected
    assert compute(SimpleNamespace(predictions=(logits, "hidden"), label_ids=labels)) == expected
    assert compute(SimpleNamespace(predictions=logits.argmax(-1), label_ids=labels)) == expected
    assert all(type(value) is float for value in expected.values())
    assert sorted(expected) == sorted(compute.figures)


def test_mistakes_are_named():
    for kind, names, message in (("tree", BIO, "`kind` is 'tree'"), ("bio", BIOES, "bioes"), ("srl", ["N"], "plain")):
        with pytest.raises(ValueError, match=message):
            tagging_compute_metrics(names, kind)
    with pytest.raises(ValueError, match="sequence 1 has 1 predicted and 2 gold tags"):
        tag_metrics([["O"], ["O"]], [["O"], ["O", "O"]], "bio")
    with pytest.raises(ValueError, match="1 predicted and 0 gold sequences"):
        tag_metrics([["O"]], [], "bio")
    with pytest.raises(ValueError, match="no tokens to score in 1 sequences"):
        tag_metrics([[]], [[]], "plain")
    with pytest.raises(ValueError, match="plain tags have no spans"):
        span_counts([["N"]], [["N"]], "plain")
    compute = tagging_compute_metrics(["N", "V"], "plain")
    logits, labels = np.zeros((1, 2, 2)), np.array([[0, -100]])
    for predictions, ids, message in (
        (np.zeros((1, 2, 3)), labels, r"\(N, T, 2\).*\(1, 2, 3\)"),
        (np.full((1, 2, 2), np.nan), labels, "1 of 1 tokens have a logit that is NaN"),
        (logits, np.array([[2, 0]]), r"tag ids 0 \.\. 2, expected 0 \.\. 1"),
    ):
        with pytest.raises(ValueError, match=message):
            compute(SimpleNamespace(predictions=predictions, label_ids=ids))


def test_evaluate_combine_takes_the_metrics(tmp_path):
    evaluate = pytest.importorskip("evaluate")
    predicted, gold = make(SRL, seed=5)
    names = ("TokenAccuracy", "RoleF1", "CoreRoleViolations")
    combined = evaluate.combine([getattr(seal_hf.metrics, name)(cache_dir=str(tmp_path)) for name in names])
    figures = tag_metrics(predicted, gold, "srl")
    expected = {name: figures[name] for name in ("accuracy", "f1", "core_role_violations")}
    assert combined.compute(predictions=predicted, references=gold) == pytest.approx(expected)
    span_f1 = seal_hf.metrics.SpanF1(cache_dir=str(tmp_path))
    assert span_f1.compute(predictions=predicted, references=gold) == pytest.approx(
        {"f1": tag_metrics(predicted, gold, "bio")["f1"]}
    )
    with pytest.raises(ValueError, match="SpanF1 needs references in BIO or BIOES"):
        span_f1.compute(predictions=[["N"]], references=[["N"]])
