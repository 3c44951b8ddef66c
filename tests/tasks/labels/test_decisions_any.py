"""Decisions on the probabilities of any model: targets, guarantees, review, files. Oracles: sums over all outcomes of
all label sets, exact binomial tails, 200 splits of drawn rows."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import binom

from seal_hf.core.decisions import folds
from seal_hf.decisions import LabelDecisions
from seal_hf.tasks.labels.decisions.decoders import decode_expected_jaccard
from seal_hf.tasks.labels.decisions.fitting import ValidationRows
from seal_hf.tasks.labels.decisions.guarantees import (
    COVERED,
    GUARANTEES,
    MISSED,
    OF_LABELS,
    PRECISION,
    RECALL,
    threshold_of_risk,
    thresholds_of_precision,
    thresholds_of_recall,
)
from seal_hf.tasks.labels.decisions.review import entropies, expected_losses, review_curve, rows_to_review
from seal_hf.tasks.labels.decisions.targets import (
    COST,
    EXACT_MATCH,
    F1_EXAMPLE,
    HAMMING,
    JACCARD,
    TARGETS,
    target_scores,
)
from seal_hf.tasks.labels.metrics import DEFAULT_GRID, best_threshold

SIZE = 5
SETS = np.array([*itertools.product((False, True), repeat=SIZE)])  # all of a small space
COSTS = np.random.default_rng(5).uniform(0.1, 3, (2, SIZE))


def drawn(rows, labels=SIZE, seed=0):
    """Probabilities and labels that are drawn by them."""
    generator = np.random.default_rng(seed)
    p = generator.beta(0.5, 1.2, (rows, labels))
    return p, (generator.random(p.shape) < p).astype(int)


def expected(target, p, empty_score):
    """(rows, sets) the expected score of every set, by a sum over all outcomes."""
    weights = np.where(SETS, p[:, None], 1 - p[:, None]).prod(2)  # (rows, outcomes)
    scores = np.stack(
        [target_scores(target, np.tile(chosen, (len(SETS), 1)), SETS, empty_score, COSTS) for chosen in SETS]
    )
    return weights @ scores.T


@pytest.mark.parametrize("empty_score", [0.0, 1.0])
def test_expected_jaccard_is_the_best_of_all_sets(empty_score):
    p = np.concatenate([drawn(60)[0], np.eye(SIZE), np.zeros((1, SIZE)), np.full((1, SIZE), 0.3)])
    decided = decode_expected_jaccard(p, empty_score=empty_score)
    value = expected(JACCARD, p, empty_score)
    ours = value[np.arange(len(p)), (decided @ (1 << np.arange(SIZE)[::-1]))]
    np.testing.assert_allclose(ours, value.max(1), atol=1e-9)


@pytest.mark.parametrize("target", [HAMMING, EXACT_MATCH])
def test_calibrated_half_is_the_best_of_all_sets(target):
    p = drawn(40)[0]
    decided = LabelDecisions().decide(p)
    np.testing.assert_array_equal(decided, SETS[expected(target, p, 1.0).argmax(1)])


def test_costs_decide_as_the_cheapest_of_all_sets():
    """With the calibration that the rows have: none."""
    p = drawn(40)[0]
    rows, labels = drawn(4000, seed=1)
    fitted = LabelDecisions.fit(rows, labels, target=COST, costs=COSTS, decoder="thresholds")
    wanted = COSTS[0] / COSTS.sum(0)
    np.testing.assert_allclose(fitted.thresholds, wanted, atol=0.03)  # the calibration is fitted to drawn labels
    fitted.thresholds = wanted.tolist()
    np.testing.assert_array_equal(fitted.decide(p), SETS[expected(COST, p, 1.0).argmax(1)])


def test_one_threshold_is_the_best_of_the_grid():
    p, labels = drawn(30)
    labels[0, 0] = -1
    for target in ("f1_micro", HAMMING):
        figures = [target_scores(target, p >= cut, labels, 1.0).mean() for cut in DEFAULT_GRID]
        assert LabelDecisions.fit(p, labels, target=target).threshold == best_threshold(np.array(figures))[0]


@pytest.mark.parametrize("target", [*TARGETS, COST])
def test_each_target_has_its_usual_decoder_and_loses_little_to_any(target):
    p, labels = drawn(600)
    q = p**2  # not calibrated
    costs = COSTS if target == COST else None
    fitted = LabelDecisions.fit(q[:300], labels[:300], target=target, costs=costs)
    scores = {
        name: target_scores(target, sets, labels[300:], 1.0, COSTS).mean()
        for name, sets in fitted.decide_by(q[300:], fitted.names).items()
    }
    assert scores[fitted.decoder] > scores["fixed"] and fitted.target == target
    assert scores[fitted.decoder] >= max(scores.values()) - 0.015 * abs(max(scores.values()))


def test_the_score_of_a_row_counts_known_labels_alone():
    labels = np.array([[1, 0, -1], [0, -1, -1]])
    decided = np.array([[0, 0, 1], [1, 1, 1]], dtype=bool)
    assert target_scores(HAMMING, decided, labels, 1.0).mean() == pytest.approx(1 / 3)
    costs = np.array([[1.0, 2, 4], [8, 16, 32]])
    assert target_scores(COST, decided, labels, 1.0, costs).tolist() == [-8, -1]


@pytest.mark.parametrize("target", [F1_EXAMPLE, "f1_micro", COST])
def test_a_fold_is_decided_without_its_own_labels(target):
    p, labels = drawn(60)
    costs = COSTS if target == COST else None
    names = ["threshold", "thresholds", "calibrated_f1"]
    before = LabelDecisions.cross_fitted(ValidationRows(p, labels, target=target, costs=costs), names)
    for _, rows in folds(len(p)):
        changed = labels.copy()
        changed[rows] = 1 - changed[rows]
        after = LabelDecisions.cross_fitted(ValidationRows(p, changed, target=target, costs=costs), names)
        for name in names:
            np.testing.assert_array_equal(before[name][rows], after[name][rows])
    assert any((before[name] != after[name]).any() for name in names)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"target": COST}, "missing"),
        ({"costs": COSTS}, "belong to the target 'cost'"),
        ({"target": COST, "costs": COSTS[:, :2]}, r"shape \(2, 2\); expected \(2, 5\)"),
        ({"target": COST, "costs": COSTS - 3}, "at least 0"),
        ({"target": COST, "costs": 0 * COSTS}, "not both 0"),
        ({"target": "f2"}, "`target` is 'f2'"),
    ],
)
def test_wrong_costs_and_targets_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LabelDecisions.fit(*drawn(10), **options)


# --- guarantees -------------------------------------------------------------------------------------------------------


def test_a_precision_is_certain_by_the_binomial_tail():
    """Each size that is tried is wrong with its part of the error; the result is the largest that passes."""
    generator = np.random.default_rng(0)
    p = np.sort(generator.random((400, 1)), axis=0)[::-1]
    gold = (np.arange(400)[:, None] < 200).astype(int)
    cut = thresholds_of_precision(p, gold, 0.9, 0.95)[0]
    decided = int((p >= cut).sum())
    error = binom.sf(min(decided, 200) - 1, decided, 0.9)  # of so many hits if the precision were 0.9
    assert 29 <= decided <= 220 and error <= 0.05
    assert np.isnan(thresholds_of_precision(p, 0 * gold, 0.9)).all()
    assert np.isnan(thresholds_of_precision(p[:28], gold[:28], 0.9)).all()  # 0.9^28 > 0.05 >= 0.9^29
    assert thresholds_of_precision(p[:29], gold[:29], 0.9) == 0.0  # all rows are right: all may be decided


@pytest.mark.parametrize("name, least", [(PRECISION, 0.7), (RECALL, 0.8)])
def test_labels_hold_their_guarantee_as_often_as_asked(name, least):
    """Over 200 draws; what holds is read from 20,000 other rows."""
    others, truth = drawn(20_000, 2, seed=9)
    fit = thresholds_of_precision if name == PRECISION else thresholds_of_recall
    held = []
    for seed in range(200):
        cuts = fit(*drawn(150, 2, seed=seed), least, 0.9)
        for label, cut in enumerate(cuts):
            decided = others[:, label] >= cut
            of = decided if name == PRECISION else truth[:, label] > 0
            held.append(np.isnan(cut) or (decided & (truth[:, label] > 0))[of].mean() >= least - 0.005)
    assert np.mean(held) >= 0.9 - 0.03  # two standard errors
    assert np.mean(held) < 1


def test_a_recall_needs_so_many_gold_rows():
    need = 14
    assert 1 - 0.8**need >= 0.95 > 1 - 0.8 ** (need - 1)
    p = np.linspace(0.1, 0.9, need)[:, None]
    assert thresholds_of_recall(p, np.ones_like(p), 0.8) == 0.1
    assert np.isnan(thresholds_of_recall(p[1:], np.ones_like(p[1:]), 0.8)).all()


@pytest.mark.parametrize("name", [MISSED, COVERED])
def test_the_risk_of_label_sets_holds_over_200_splits(name):
    """The mean loss over splits is at most alpha, and not far below; its conditions hold."""
    p, labels = drawn(1500, 4, seed=2)
    p = p**3  # the probabilities need not be right
    gold, alpha, risks = labels > 0, 0.1, []
    for seed in range(200):
        order = np.random.default_rng(seed).permutation(len(p))
        rows, others = order[:100], order[100:]
        cut = threshold_of_risk(p[rows], labels[rows], alpha, all_gold=name == COVERED)
        risks.append(losses_at(cut, p[others], gold[others], name == COVERED).mean())
    error = np.std(risks) / 200**0.5
    assert alpha - 1 / 101 - 0.01 <= np.mean(risks) + 2 * error and np.mean(risks) - 2 * error <= alpha
    curve = np.array([losses_at(cut, p, gold, name == COVERED) for cut in np.linspace(0, 1, 30)])
    assert (np.diff(curve, axis=0) >= 0).all() and (curve[0] == 0).all() and curve.max() <= 1


def losses_at(cut, p, gold, all_gold):
    missed = (gold & (p < cut)).sum(1) / np.maximum(gold.sum(1), 1)
    return (missed > 0) * 1.0 if all_gold else missed


def test_the_threshold_of_a_risk_is_the_highest_that_the_bound_allows():
    p, labels = drawn(60, 3)
    labels[3, 1] = -1
    for all_gold in (False, True):
        cut = threshold_of_risk(p, labels, 0.2, all_gold)

        def bound(t, all_gold=all_gold):
            return (losses_at(t, np.where(labels >= 0, p, 1), labels > 0, all_gold).sum() + 1) / 61

        higher = np.unique(p[labels > 0])
        higher = higher[higher > cut]
        assert bound(cut) <= 0.2 and (not len(higher) or bound(higher[0]) > 0.2)
    with pytest.raises(ValueError, match="8 rows are too few for a risk of at most 0.1: at least 9 are needed"):
        threshold_of_risk(p[:8], labels[:8], 0.1)


@pytest.mark.parametrize("name", GUARANTEES)
def test_guarantees_are_fitted_stored_and_kept(name, tmp_path):
    p, labels = drawn(400)
    labels[:, 3] = 0
    labels[:2, 3] = 1  # too rare for any bound
    fitted = LabelDecisions.fit_guarantee(p, labels, name, 0.2 if name == MISSED else 0.6)
    fitted.save(tmp_path / "decisions.json")
    read = LabelDecisions.load(tmp_path / "decisions.json")
    np.testing.assert_array_equal(read.decide(p), fitted.decide(p))
    assert read == fitted and read.guarantee["name"] == name
    decided = fitted.decide(np.ones((1, SIZE)))[0]
    assert decided.tolist() == [True, True, True, name not in OF_LABELS, True]
    assert list(fitted.refused) == ([3] if name in OF_LABELS else [])


# --- review -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [F1_EXAMPLE, JACCARD, EXACT_MATCH, COST, HAMMING])
def test_expected_losses_are_sums_over_all_outcomes(target):
    p = np.concatenate([drawn(20)[0], np.eye(SIZE)])
    value = expected(target, p, 0.5)
    for chosen in (0, 5, 9, 31):
        sets = np.tile(SETS[chosen], (len(p), 1))
        found = expected_losses(p, sets, target, empty_score=0.5, costs=COSTS)
        best = 0 if target == COST else 1
        np.testing.assert_allclose(found, best - value[:, chosen], atol=1e-9)


def test_rows_to_review_are_a_share_or_those_that_cost_more():
    losses = np.array([0.1, 0.5, 0.3, 0.5])
    assert rows_to_review(losses, "50%").tolist() == [False, True, False, True]
    assert rows_to_review(losses, "25 %").tolist() == [False, True, False, False]
    assert rows_to_review(losses, "0.2").tolist() == [False, True, True, True]
    for wrong in ("120%", "ten", "-1", "nan", "inf", "%"):
        with pytest.raises(ValueError, match="expected a share of the rows"):
            rows_to_review(losses, wrong)


def test_the_curve_of_review_ends_without_loss_and_finds_losses_early():
    p, labels = drawn(800, seed=3)
    decisions = LabelDecisions.fit(p[:300], labels[:300])
    rows, gold = p[300:], labels[300:]
    decided = decisions.decide(rows)
    losses = 1 - target_scores(F1_EXAMPLE, decided, gold, 1.0)
    ours, entropy = (review_curve(by, losses) for by in (decisions.expected_losses(rows), entropies(rows)))
    assert ours[0] == pytest.approx(losses.mean()) and ours[-1] == 0 and len(ours) == 501
    assert ours.mean() < entropy.mean() < losses.mean() / 2


def test_arrays_of_other_shapes_and_frames_in_other_orders_are_refused():
    p, labels = drawn(40)
    fitted = LabelDecisions.fit(p, labels)
    for wrong in (p[:, :2], p[0], p[None]):
        with pytest.raises(ValueError, match=r"`probabilities` have the shape \(.*\); expected \(N, 5\)"):
            fitted.decide(wrong)
    for wrong, message in (
        (labels[:0], r"shape \(0, 5\): decisions are fitted on rows"),
        ([["a", "b"], ["a"]] * 20, "`labels` are no numbers .*MultiLabelBinarizer"),
        (np.where(labels, "yes", "no"), "`labels` are no numbers .*MultiLabelBinarizer"),
    ):
        with pytest.raises(ValueError, match=message):
            LabelDecisions.fit(p[: len(wrong)], wrong)
    assert LabelDecisions.fit(p, csr_matrix(labels)) == fitted
    with pytest.raises(ValueError, match=r"shape \(40, 5\) and `labels` \(40, 4\); expected \(N, L\) for both"):
        LabelDecisions.fit(p, labels[:, :4])
    with pytest.raises(ValueError, match=r"take np.stack\(\[p\[:, 1\] for p in probabilities\], 1\)"):
        LabelDecisions.fit([np.stack([1 - column, column], 1) for column in p.T], labels)
    pandas = pytest.importorskip("pandas")
    frame, gold = pandas.DataFrame(p, columns=list("abcde")), pandas.DataFrame(labels, columns=list("abcde"))
    by_name = LabelDecisions.fit(frame, gold)
    assert by_name == replace(LabelDecisions.fit(p, labels), labels=list("abcde"))
    np.testing.assert_array_equal(by_name.decide(frame), by_name.decide(p))
    with pytest.raises(ValueError, match=r"columns 'b', 'a', .* Give probabilities\[decisions.labels\]"):
        by_name.decide(frame[list("bacde")])
    for other, name in ((gold[list("bacde")], "columns"), (gold[::-1], "index")):
        with pytest.raises(ValueError, match=f"`probabilities` have the {name} .*Give labels.loc"):
            LabelDecisions.fit(frame, other)
        again = other.loc[frame.index, frame.columns]
        assert LabelDecisions.fit(frame, again) == by_name
    split = gold.set_axis(np.arange(100, 140))  # rows of a test split, beside scores that count from 0
    assert LabelDecisions.fit(pandas.DataFrame(p), split) == LabelDecisions.fit(p, labels)
    assert LabelDecisions.fit(p.tolist(), labels.tolist()) == LabelDecisions.fit(p, labels)


# --- files ------------------------------------------------------------------------------------------------------------


def test_files_hold_all_of_label_decisions(tmp_path):
    p, labels = drawn(100)
    fitted = LabelDecisions.fit(p, labels, target=COST, costs=COSTS, never_empty=True)
    fitted.labels = list("abcde")
    fitted.save(tmp_path / "d.json")
    read = LabelDecisions.load(tmp_path / "d.json")
    assert read == fitted
    order = [3, 0, 4, 1, 2]
    other = read.in_order([read.labels[i] for i in order])
    for name in read.names:
        np.testing.assert_array_equal(other.decide(p[:, order], name), read.decide(p, name)[:, order])
    with pytest.raises(ValueError, match="for 5 labels, but there are 4; 'e' in one of them alone"):
        read.in_order(list("abcd"))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"output": "binary_mask"}, "has decisions for 'binary_mask'; expected 'multi_label'"),
        ({"thresholds": [2]}, "thresholds"),
        ({"decoder": "best"}, "`decoder` is 'best'"),
        ({"labels": ["a", "a"]}, "a list of different names"),
        ({"refused": [-1]}, "a list of numbers of labels"),
        ({"guarantee": {"name": 3}}, "guarantee"),
        ({"costs": [[1], [-1]]}, "costs"),
        ({"target": "f2"}, "`target` is 'f2'; it must be one of"),
        ({"target": "cost"}, "the target 'cost' without costs"),
        ({"costs": [[1], [1]]}, "the target 'f1_example' with costs"),
        ({"labels": ["a"]}, "numbers of different labels: 1 labels, 5 thresholds"),
        ({"refused": [5]}, "refused 5, but 5 labels"),
    ],
)
def test_a_damaged_file_is_named(change, message, tmp_path):
    file = tmp_path / "d.json"
    LabelDecisions.fit(*drawn(30)).save(file)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ValueError, match=message) as raised:
        LabelDecisions.load(file)
    assert str(file) in str(raised.value)
