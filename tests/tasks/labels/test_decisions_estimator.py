"""`DecidingClassifier`. Oracles: scikit-learn's own checks, decisions on cross-validated probabilities."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from seal_hf.decisions import DecidingClassifier, LabelDecisions

X, Y = make_multilabel_classification(120, 6, n_classes=3, random_state=0)


def test_it_passes_the_checks_of_scikit_learn():
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # some checks provoke them, such as those of convergence
        results = check_estimator(DecidingClassifier(cv=3), on_fail=None, on_skip=None)
    assert [each["check_name"] for each in results if each["status"] == "failed"] == []
    assert sum(each["status"] == "passed" for each in results) > 50


@pytest.mark.parametrize(
    "base",
    [
        OneVsRestClassifier(LogisticRegression()),
        MultiOutputClassifier(LogisticRegression()),
        RandomForestClassifier(5, random_state=0),
        make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression())),
    ],
)
def test_decisions_are_fitted_on_cross_validated_probabilities(base):
    labels = Y.copy()
    found = DecidingClassifier(base, target="f1_micro").fit(X, labels)
    crossed = cross_val_predict(clone(base), X, labels, cv=5, method="predict_proba")
    crossed = np.stack([each[:, 1] for each in crossed], 1) if isinstance(crossed, list) else crossed
    by_hand = LabelDecisions.fit(crossed, labels, target="f1_micro", never_empty=bool(labels.any(1).all()))
    assert found.decisions_ == by_hand
    fitted = clone(base).fit(X, labels).predict_proba(X)
    fitted = np.stack([each[:, 1] for each in fitted], 1) if isinstance(fitted, list) else fitted
    np.testing.assert_array_equal(found.predict(X), by_hand.decide(fitted))
    np.testing.assert_array_equal(found.predict_proba(X), fitted)


def test_labels_with_one_value_and_searches():
    labels = np.column_stack([Y, np.zeros(len(Y), int), np.ones(len(Y), int)])
    found = DecidingClassifier(RandomForestClassifier(5, random_state=0)).fit(X, labels)
    assert found.predict_proba(X)[:, 3:].tolist() == [[0, 1]] * len(X)
    assert found.predict(X)[:, 3:].tolist() == [[0, 1]] * len(X)
    search = GridSearchCV(DecidingClassifier(), {"target": ["f1_example", "exact_match"]}, cv=2).fit(X, Y)
    assert search.best_params_["target"] in ("f1_example", "exact_match")
    with pytest.raises(ValueError, match="`target` is 'f2'"):
        DecidingClassifier(target="f2").fit(X, Y)


def test_the_rows_are_what_the_classifier_reads():
    """Texts, or a frame whose columns a pipeline picks by name. Oracle: the features that the pipeline makes."""
    texts = [" ".join(word for word, on in zip("abc", row, strict=True) for _ in range(1 + 2 * on)) for row in Y]
    counts = CountVectorizer(token_pattern="[abc]")
    classifier = OneVsRestClassifier(LogisticRegression())
    by_hand = DecidingClassifier(classifier).fit(counts.fit_transform(texts), Y)
    found = DecidingClassifier(make_pipeline(counts, classifier)).fit(texts, Y)
    np.testing.assert_array_equal(found.predict(texts), by_hand.predict(counts.transform(texts)))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": texts, "other": "x"})
    of_frame = make_pipeline(make_column_transformer((counts, "text")), classifier)
    np.testing.assert_array_equal(DecidingClassifier(of_frame).fit(frame, Y).predict(frame), found.predict(texts))
