"""Decisions of closed sets: those of expected F1, with all ancestors of their labels."""

import numpy as np
import pytest

from seal_hf.core.hierarchy import Hierarchy
from seal_hf.decisions import NEVER_EMPTY, LabelDecisions, decode_expected_f1, rescaled
from seal_hf.tasks.labels.decisions.fitting import ValidationRows

TREE = Hierarchy(((), (0,), (0,), (1,)))


def closed_rows(num_rows=80, seed=0):
    rng = np.random.default_rng(seed)
    labels = TREE.raised(rng.random((num_rows, 4)) < 0.2)
    return 1 / (1 + np.exp(-(rng.normal(size=labels.shape) + 2 * labels - 1.2))), labels


def test_a_hierarchy_gives_a_decoder_that_is_fitted_and_chosen_like_the_others():
    p, labels = closed_rows()
    fitted = LabelDecisions.fit(p, labels, hierarchy=TREE)
    assert "closed_f1" in fitted.names and "closed_f1" not in LabelDecisions.fit(p, labels).names
    np.testing.assert_array_equal(fitted.decide(p, "closed_f1"), TREE.raised(decode_expected_f1(p)))
    calibrated = TREE.raised(decode_expected_f1(rescaled(p, *fitted.calibration)))
    np.testing.assert_array_equal(fitted.decide(p, "calibrated_closed_f1"), calibrated)
    scores = LabelDecisions.cross_fitted(ValidationRows(p, labels, hierarchy=TREE), fitted.names)
    assert set(scores) == set(fitted.names)
    assert LabelDecisions.fit(p, labels, hierarchy=TREE, decoder="closed_f1").decoder == "closed_f1"
    with pytest.raises(ValueError, match="`decoder` is 'closed_f1', but the labels lack a hierarchy: .*--hierarchy"):
        LabelDecisions.fit(p, labels, decoder="closed_f1")


def test_never_empty_brings_the_likeliest_label_with_its_ancestors():
    decisions = LabelDecisions(never_empty=True, hierarchy=TREE)
    p = np.array([[0.01, 0.02, 0.01, 0.05]])
    assert not decisions.decide(p, "closed_f1").any()
    assert decisions.decide(p, "closed_f1" + NEVER_EMPTY).tolist() == [[True, True, False, True]]


def test_another_number_of_labels_is_refused():
    with pytest.raises(ValueError, match=r"`probabilities` have the shape \(1, 5\); expected \(N, 4\)"):
        LabelDecisions(hierarchy=TREE).decide(np.full((1, 5), 0.5), "closed_f1")
