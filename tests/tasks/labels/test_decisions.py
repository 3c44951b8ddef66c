"""Oracles: definitions in loops, folds that are fitted by hand, a jackknife for the error of a ratio."""

import json
import math
import re

import numpy as np
import pytest
from transformers import PretrainedConfig

from seal_hf.core.decisions import folds, ratio_scores, usual_or_better
from seal_hf.core.hierarchy import Hierarchy
from seal_hf.decisions import (
    FOLDABLE,
    NEVER_EMPTY,
    LabelDecisions,
    MaskDecisions,
    TagDecisions,
    decode_expected_f1,
    rescaled,
    thresholds_of_label_f1,
)
from seal_hf.metrics import mask_iou, tag_metrics
from seal_hf.tasks.labels.decisions.fitting import ValidationRows
from seal_hf.tasks.labels.decisions.seen_sets import POWERS, SHARES, SeenSets
from seal_hf.tasks.labels.decisions.targets import target_scores
from seal_hf.tasks.labels.metrics import example_f1, set_metrics
from seal_hf.tasks.tags.metrics import span_counts


def rows(num_rows=60, seed=0, rate=0.3):
    rng = np.random.default_rng(seed)
    labels = rng.random((num_rows, 4)) < rate
    return 1 / (1 + np.exp(-(rng.normal(size=labels.shape) + 2 * labels - 1.5))), labels


ALL = LabelDecisions(
    threshold=0.4, thresholds=[0.2, 0.5, 0.6, 0.9], calibration=(1.5, -0.2), never_empty=True, empty_score=1.0
)


def test_each_decoder_by_its_definition():
    p, _ = rows()
    calibrated = rescaled(p, *ALL.calibration)
    expected = {
        "fixed": [[q >= 0.5 for q in row] for row in p],
        "threshold": [[q >= 0.4 for q in row] for row in p],
        "thresholds": [[q >= t for q, t in zip(row, ALL.thresholds, strict=True)] for row in p],
        "expected_f1": decode_expected_f1(p),
        "calibrated_f1": decode_expected_f1(calibrated),
    }
    for name, sets in expected.items():
        np.testing.assert_array_equal(ALL.decide(p, name), sets)
        never = np.array(sets)
        assert (~never.any(1)).any(), "some are empty"
        for row, q in zip(never, p, strict=True):
            if not row.any():  # the likeliest; by its own threshold, where labels have their own
                row[np.argmax(q - np.array(ALL.thresholds) if name == "thresholds" else q)] = True
        np.testing.assert_array_equal(ALL.decide(p, name + NEVER_EMPTY), never)
    assert set(ALL.names) == {*expected, *(name + NEVER_EMPTY for name in expected)}
    np.testing.assert_array_equal(ALL.decide(p, 0.7), p >= 0.7)
    np.testing.assert_array_equal(ALL.decide(p, "0.7"), p >= 0.7)


def test_where_every_row_has_a_label_expected_f1_never_decides_nothing():
    p, labels = rows()
    labels[:, 0] |= ~labels.any(1)
    fitted = LabelDecisions.fit(p, labels, never_empty=True)
    assert fitted.empty_score == 0 and fitted.decide(p, "expected_f1").any(1).all()
    assert not any(name.endswith("_f1" + NEVER_EMPTY) for name in fitted.names)


def test_cross_fitting_never_sees_its_own_fold():
    p, labels = rows()
    parts = list(folds(len(p)))
    assert sorted(np.concatenate([decided for _, decided in parts])) == list(range(60)) and len(parts) == 5
    names = LabelDecisions.fit(p, labels, never_empty=True).names
    crossed = LabelDecisions.cross_fitted(ValidationRows(p, labels, never_empty=True), names)
    for others, decided in parts:
        for name in names:
            by_hand = LabelDecisions.fit(p[others], labels[others], never_empty=True, decoder=name)
            sets = by_hand.decide(p[decided])
            np.testing.assert_array_equal(crossed[name][decided], sets)
        changed = labels.copy()
        changed[decided] = ~changed[decided]  # the fold's own labels judge its decisions, and make none of them
        again = LabelDecisions.cross_fitted(ValidationRows(p, changed, never_empty=True), names)
        for name in names:
            by_hand = LabelDecisions.fit(p[others], labels[others], never_empty=True, decoder=name)
            np.testing.assert_array_equal(again[name][decided], by_hand.decide(p[decided]))


def test_another_decoder_must_be_better_by_standard_errors():
    base = np.linspace(0, 1, 100)
    noise = np.tile([0.3, -0.3], 50)
    for errors in (
        1.0,
        2.0,
    ):  # gain / sqrt((gain² + noise²) / 100) passes them where gain = errors * noise / sqrt(100 - errors²)
        edge = errors * 0.3 / math.sqrt(100 - errors**2)
        for factor, expected in ((0.99, "usual"), (1.01, "other")):
            scores = {"other": base + noise + factor * edge, "usual": base, "worse": base - 1}
            assert usual_or_better(scores, "usual", errors) == expected
    assert usual_or_better({"other": base, "usual": base}, "usual") == "usual"
    assert usual_or_better({"usual": base, "good": base + 0.1, "best": base + 0.2}, "usual") == "best"
    assert usual_or_better({"usual": np.zeros(1), "other": np.ones(1)}, "usual") == "usual", "one row says nothing"


@pytest.mark.parametrize(
    "target, usual",
    [
        ("f1_example", "calibrated_f1"),
        ("f1_micro", "calibrated_f1"),
        ("f1_macro", "thresholds"),
        ("exact_match", "threshold"),
        ("jaccard", "calibrated_jaccard"),
    ],
)
def test_few_rows_leave_the_usual_decoder_of_the_target(target, usual):
    """60 rows on which all decoders are about as good, several times; with 0.5 hardly ever."""
    chosen = [LabelDecisions.fit(*rows(60, seed), target=target).decoder for seed in range(10)]
    assert chosen.count(usual) >= 8
    assert chosen.count("fixed") <= 2
    folded = [LabelDecisions.fit(*rows(60, seed), target=target, among=FOLDABLE).decoder for seed in range(5)]
    assert folded.count("thresholds" if usual == "thresholds" else "threshold") >= 4


@pytest.mark.parametrize("labelled", [True, False])
def test_the_usual_decoder_decides_no_empty_set_where_all_rows_have_a_label(labelled):
    p, labels = rows(30)
    labels[~labels.any(1), 0] = labelled
    assert labels.any(1).all() == labelled
    for target, ending in (("exact_match", NEVER_EMPTY), ("f1_macro", NEVER_EMPTY), ("f1_example", "")):
        usual = {"exact_match": "threshold", "f1_macro": "thresholds", "f1_example": "calibrated_f1"}[target]
        fitted = LabelDecisions.fit(p, labels, never_empty=True, target=target)
        assert fitted.decoder == (usual + ending if labelled else usual)


def test_more_numbers_do_not_win_by_themselves():
    """Probabilities that say nothing: thresholds per label fit the rows best, and are not chosen."""
    rng = np.random.default_rng(0)
    p, labels = rng.random((40, 12)), rng.random((40, 12)) < 0.3
    fitted = LabelDecisions.fit(p, labels)
    inside = {name: example_f1(fitted.decide(p, name), labels).mean() for name in fitted.names}
    assert max(inside, key=inside.get) == "thresholds" != fitted.decoder


def test_a_gain_is_taken():
    """Calibrated to another base rate, 0.5 decides hardly anything."""
    p, labels = rows(400)
    fitted = LabelDecisions.fit(p**3, labels)
    assert fitted.decoder != "fixed"
    assert example_f1(fitted.decide(p**3), labels).mean() > example_f1(p**3 >= 0.5, labels).mean() + 0.1


def test_few_rows_and_choices():
    for num_rows in (1, 2, 3):
        p, labels = rows(num_rows)
        assert LabelDecisions.fit(p, labels).decoder in ALL.names
    p, labels = rows()
    assert LabelDecisions.fit(p, labels, decoder="thresholds").decoder == "thresholds"
    assert LabelDecisions.fit(p**3, labels, among=("fixed", "threshold")).decoder == "threshold"


def test_they_travel_in_a_config(tmp_path):
    p, labels = rows()
    for decisions in (LabelDecisions.fit(p, labels), ALL, LabelDecisions()):
        config = PretrainedConfig()
        decisions.store(config)
        config.save_pretrained(tmp_path)
        again = LabelDecisions.from_config(PretrainedConfig.from_pretrained(tmp_path))
        assert again == decisions
    assert LabelDecisions.from_config(PretrainedConfig()).decide(p).tolist() == (p >= 0.5).tolist()


def test_mistakes_are_named():
    p, labels = rows()
    with pytest.raises(ValueError, match="`decoder` is 'treshold'; .* Did you mean 'threshold'"):
        ALL.decide(p, "treshold")
    with pytest.raises(ValueError, match="from 0 to 1"):
        ALL.decide(p, 1.5)
    for decoder in ("thresholds", "calibrated_f1", "fixed"):  # whichever is asked for
        with pytest.raises(ValueError, match=r"expected \(N, 4\). These decisions are for 4 labels: fit them again"):
            ALL.decide(p[:, :3], decoder)
    with pytest.raises(ValueError, match="`decoder` is 'thresholds'; these decisions have fixed, expected_f1"):
        LabelDecisions.from_config(PretrainedConfig(decisions={"decoder": "thresholds"}))
    with pytest.raises(ValueError, match="`decoder` is 'viterbi'"):
        LabelDecisions.fit(p, labels, decoder="viterbi")


@pytest.mark.parametrize(
    "saved, said",
    [
        ("threshold", "`config.decisions` is 'threshold'; expected a mapping"),
        ({"decoder": ["threshold"]}, "decoder ['threshold']; expected the name of a decoder"),
        ({"threshold": "0.5"}, "threshold '0.5'; expected a number from 0 to 1"),
        ({"threshold": math.nan}, "threshold nan; expected a number from 0 to 1"),
        ({"threshold": 1.5}, "threshold 1.5; expected a number from 0 to 1"),
        ({"thresholds": [0.1, None]}, "thresholds [0.1, None]; expected a list of numbers"),
        ({"calibration": {"scale": 1.0}}, "calibration {'scale': 1.0}; expected two numbers"),
        ({"calibration": 3}, "calibration 3; expected two numbers"),
        ({"never_empty": "no"}, "never_empty 'no'; expected true or false"),
        ({"empty_score": True}, "empty_score True; expected a number from 0 to 1"),
        ({"folded": 1}, "folded 1; expected the name of a decoder"),
    ],
)
def test_saved_values_of_another_kind_are_named(saved, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        LabelDecisions.from_config(PretrainedConfig(decisions=saved))


def test_masks_and_tags_check_what_was_saved_too():
    for kind in (MaskDecisions, TagDecisions):
        with pytest.raises(ValueError, match="decoder 3; expected the name of a decoder"):
            kind.from_config(PretrainedConfig(decisions={"decoder": 3}))
    assert MaskDecisions.from_config(PretrainedConfig(decisions={"threshold": None})) == MaskDecisions()


@pytest.mark.parametrize("labelled", [True, False])
def test_a_decoder_that_is_never_empty_anyway_may_be_asked_to_be(labelled):
    p, labels = rows()
    labels[:, 0] |= labelled & ~labels.any(1)
    fitted = LabelDecisions.fit(p, labels, decoder="expected_f1" + NEVER_EMPTY)
    assert fitted.decoder == ("expected_f1" if labelled else "expected_f1" + NEVER_EMPTY)
    assert fitted.decide(p).any(1).all()
    np.testing.assert_array_equal(fitted.decide(p, "expected_f1" + NEVER_EMPTY), fitted.decide(p))


def test_several_decoders_at_once_decide_as_each_does():
    p, _ = rows()
    for name, decided in ALL.decide_by(p, ALL.names).items():
        np.testing.assert_array_equal(decided, ALL.decide(p, name))


def test_masks_by_brute_force():
    rng = np.random.default_rng(0)
    masks = (rng.random((12, 6, 6)) < 0.4).astype(np.uint8)
    masks[:, 0] = 255
    p = np.clip(0.15 + 0.25 * (masks == 1) + 0.1 * rng.normal(size=masks.shape), 0, 1)
    fitted = MaskDecisions.fit(p, masks)
    grid = np.arange(1, 100) / 100
    best = max(mask_iou(p, masks, t).mean() for t in grid)
    assert fitted.decoder == "threshold" and mask_iou(p, masks, fitted.cut()).mean() == pytest.approx(best)
    assert fitted.cut("fixed") == 0.5 and fitted.cut(0.2) == 0.2
    right = np.where(masks == 1, 0.9, 0.1)  # any threshold is right
    assert MaskDecisions.fit(right, masks).decoder == "fixed"


def test_of_tags_the_decoder_is_chosen_by_spans():
    gold = [["B-X", "I-X", "O"], ["O", "B-X", "O"]] * 20
    broken = [["B-X", "O", "I-X"], ["O", "B-X", "O"]] * 20
    chosen = TagDecisions.fit({"independent": broken, "constrained": gold}, gold, "bio")
    assert chosen.decoder == "constrained" and chosen.names == ("independent", "constrained")
    assert TagDecisions.fit({"independent": gold, "constrained": gold}, gold, "bio").decoder == "independent"
    asked = TagDecisions.fit({"independent": broken, "constrained": gold}, gold, "bio", decoder="independent")
    assert asked.decoder == "independent"
    plain = [["A", "B"], ["B", "B"]]
    assert TagDecisions.fit({"viterbi": plain, "independent": plain[::-1]}, plain, "plain").decoder == "viterbi"


def test_the_score_of_a_row_sums_to_the_ratio_and_varies_as_the_jackknife():
    rng = np.random.default_rng(0)
    names = np.array(["O", "B-X", "I-X"])
    gold = [names[rng.integers(0, 3, 8)].tolist() for _ in range(200)]
    found = [[tag if rng.random() < 0.8 else "O" for tag in tags] for tags in gold]
    right, ours, theirs = span_counts(found, gold, "bio").T
    scores = ratio_scores(2 * right, ours + theirs)
    assert scores.mean() == pytest.approx(tag_metrics(found, gold, "bio")["f1"])
    left_out = [
        2 * (right.sum() - right[i]) / (ours.sum() + theirs.sum() - ours[i] - theirs[i]) for i in range(len(gold))
    ]
    jackknife = math.sqrt((len(gold) - 1) * np.var(left_out))
    assert scores.std(ddof=1) / math.sqrt(len(gold)) == pytest.approx(jackknife, rel=0.01)


def test_folds_of_sorted_rows_are_alike():
    """Rows of one label often lie together; no fold may hold all of them."""
    first = np.arange(100) < 20
    assert all(0 < first[decided].sum() < 20 for _, decided in folds(100))


# --- label sets of the training rows ---------------------------------------------------------------------------------

EXCLUSIVE = [np.array([0, 1]), np.array([2]), np.array([3])]  # the label sets of all rows


def exclusive(num_rows, seed=0):
    """Probabilities that are too low and noisy, and gold sets that are one of three."""
    rng = np.random.default_rng(seed)
    gold = np.zeros((num_rows, 4), dtype=np.int64)
    for row in gold:
        row[EXCLUSIVE[rng.choice(3, p=[0.5, 0.3, 0.2])]] = 1
    return 1 / (1 + np.exp(-(rng.normal(size=gold.shape) + 2.0 * gold - 1.5))), gold


def seen_of(gold):
    return SeenSets.of_rows([np.flatnonzero(row) for row in gold], gold.shape[1])


def test_decoders_of_seen_sets_use_calibrated_probabilities():
    p, gold = exclusive(200)
    fitted = LabelDecisions.fit(p, gold, seen=seen_of(exclusive(500, seed=1)[1]))
    calibrated = rescaled(p, *fitted.calibration)
    numbers = fitted.seen_power, fitted.seen_share
    np.testing.assert_array_equal(fitted.decide(p, "seen"), fitted.seen.most_probable(calibrated, *numbers))
    best = fitted.seen.best_f1(calibrated, *numbers, fitted.empty_score)
    np.testing.assert_array_equal(fitted.decide(p, "seen_f1"), best)
    assert LabelDecisions.of_saved(json.loads(json.dumps(fitted.as_json()))) == fitted


def test_the_power_and_the_share_have_the_highest_likelihood():
    p, gold = exclusive(300)
    sets = seen_of(exclusive(500, seed=1)[1])
    gold[:60] = [1, 0, 1, 1]  # a fifth of the rows has a set outside the list
    power, share = sets.likeliest_numbers(p, gold.astype(bool))

    def likelihood(power, share):
        independent = np.where(gold, p, 1 - p).prod(1)
        of_list = np.stack([np.where(row, p, 1 - p).prod(1) for row in sets.sets], 1)
        of_list = of_list * (sets.counts / sets.num_rows) ** power
        of_list /= of_list.sum(1, keepdims=True)
        equal = (sets.sets[None] == gold.astype(bool)[:, None]).all(2)
        return np.log((1 - share) * (of_list * equal).sum(1) + share * independent).sum()

    grid = {(g, r): likelihood(g, r) for g in POWERS for r in SHARES}
    assert grid[power, share] == max(grid.values()) and 0.05 < share < 0.5


@pytest.mark.parametrize("target", ["exact_match", "jaccard", "f1_micro", "f1_macro"])
def test_the_target_chooses_the_decoder(target):
    """The scores by which it is chosen have the target's mean, and label sets that exclude each other favour `seen`."""
    p, gold = exclusive(300)
    sets = seen_of(exclusive(500, seed=1)[1])
    fitted = LabelDecisions.fit(p, gold, seen=sets, target=target)
    crossed = LabelDecisions.cross_fitted(ValidationRows(p, gold, seen=sets, target=target), fitted.names)
    scores = {name: target_scores(target, decided, gold, 1.0) for name, decided in crossed.items()}
    usual = {"exact_match": "seen", "f1_macro": "thresholds", "jaccard": "expected_f1"}.get(target, "calibrated_f1")
    assert fitted.decoder == usual_or_better(scores, usual, 2.0)
    assert scores["seen"].mean() > max(scores["threshold"].mean(), scores["fixed"].mean())
    decided = fitted.decide(p, "fixed")
    assert target_scores(target, decided, gold, 1.0).mean() == pytest.approx(set_metrics(decided, gold)[target])
    if target == "exact_match":
        assert fitted.decoder.startswith("seen")
    with pytest.raises(ValueError, match="`target` is 'f2'"):
        LabelDecisions.fit(p, gold, target="f2")


@pytest.mark.parametrize("scale, shift", [(1.0, 0.0), (0.6, -0.4), (-1.0, 0.0)])
def test_thresholds_of_label_f1_have_the_highest_expected_f1(scale, shift):
    """Against every cut between two rows; gold labels play no part, and a label without signal is not decided."""
    p, _ = rows(40)
    p[:, 2], p[:, 3] = p[:, 2] / 2, 1e-3
    q = rescaled(p, scale, shift) if scale > 0 else p
    thresholds = thresholds_of_label_f1(p, scale, shift)

    def expected_f1(chosen, q):
        return 2 * q[chosen].sum() / (chosen.sum() + q.sum())

    for j in range(3):
        expected = [expected_f1(p[:, j] >= cut, q[:, j]) for cut in p[:, j]]
        assert expected_f1(p[:, j] >= thresholds[j], q[:, j]) == pytest.approx(max(expected))
    shared = max(expected_f1(p >= cut, q) for cut in p.ravel()) / 2
    lowest = thresholds[3] if scale <= 0 else rescaled(thresholds[3], scale, shift)
    assert lowest == pytest.approx(shared / 2, rel=1e-6) and not (p[:, 3] >= thresholds[3]).any()
    fitted = LabelDecisions.fit(*rows(40), target="f1_macro")
    np.testing.assert_allclose(fitted.thresholds, thresholds_of_label_f1(rows(40)[0], *fitted.calibration))
    assert LabelDecisions.fit(*rows(40)).thresholds != fitted.thresholds, "example F1 has its own"


def test_with_a_hierarchy_seen_sets_are_closed():
    hierarchy = Hierarchy.of_saved([[], [0], [], []])
    p, gold = exclusive(200)
    fitted = LabelDecisions.fit(p, gold, seen=seen_of(exclusive(500, seed=1)[1]), hierarchy=hierarchy)
    for name in ("seen", "seen_f1"):
        decided = fitted.decide(p, name)
        assert (hierarchy.raised(decided) == decided).all()
        assert {row.tobytes() for row in decided} <= {row.tobytes() for row in fitted.seen.sets}
