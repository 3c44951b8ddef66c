"""[`LabelDecisions`] as an estimator of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils import check_array, column_or_1d, indexable
from sklearn.utils.multiclass import type_of_target, unique_labels
from sklearn.utils.validation import check_is_fitted

from .label_decisions import LabelDecisions
from .targets import F1_EXAMPLE


class DecidingClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier of label sets that decides by [`LabelDecisions`], fitted on cross-fitted probabilities.

    `fit` predicts each fold of the rows by a clone that is fitted on the others. The decisions are fitted on these
    probabilities, the classifier then on all rows. If each row has one class, the classifier decides by itself.

    Args:
        estimator: a classifier with `predict_proba` that takes labels (N, L) of 0 and 1; default: a logistic regression
            for each label.
        target, decoder, costs: as in `LabelDecisions.fit`.
        cv: folds, as in scikit-learn: a number, or a splitter.

    Attributes:
        estimator_: the classifier, fitted on all rows.
        decisions_: the fitted [`LabelDecisions`]; None if each row has one class.
        classes_: the numbers of the labels, or the classes.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        target: str = F1_EXAMPLE,
        decoder: str | None = None,
        costs: ArrayLike | None = None,
        cv: Any = 5,
    ):
        self.estimator = estimator
        self.target = target
        self.decoder = decoder
        self.costs = costs
        self.cv = cv

    def fit(self, X: Any, y: Any) -> DecidingClassifier:
        """Fit the classifier and the decisions.

        Args:
            X: whatever the classifier takes: (N, F) features, a pandas frame, or texts for a pipeline that reads them.
            y: (N, L) of 0 and 1; or (N,) classes.

        Raises:
            ValueError: as the classifier and `LabelDecisions.fit`.
        """
        base = OneVsRestClassifier(LogisticRegression(max_iter=1000)) if self.estimator is None else self.estimator
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        X, y = indexable(X, y)
        y = check_array(y, accept_sparse=True, ensure_2d=False, dtype=None, input_name="y", estimator=self)
        if not kind.startswith("multilabel"):
            if kind.startswith("continuous"):
                raise ValueError(f"Unknown label type: {kind}. Expected classes, or label sets of 0 and 1.")
            if kind == "multiclass-multioutput":
                raise ValueError("`y` has several classes for each row; expected (N, L) of 0 and 1.")
            y = column_or_1d(y, warn=True)
        self.estimator_ = clone(base).fit(X, y)
        self.decisions_: LabelDecisions | None = None
        if not kind.startswith("multilabel"):
            self.classes_ = unique_labels(y)
            return self
        y = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        self.classes_ = np.arange(y.shape[1])
        self._first = y[0]  # of a label that all rows have, or none, it is the only value
        folds = check_cv(self.cv)
        crossed = self._of_labels(cross_val_predict(clone(base), X, y, cv=folds, method="predict_proba"))
        never_empty = bool((y > 0).any(1).all())
        self.decisions_ = LabelDecisions.fit(
            crossed, y, never_empty=never_empty, decoder=self.decoder, target=self.target, costs=self.costs
        )
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, L) probabilities of the labels, or (N, C) of the classes."""
        check_is_fitted(self)
        found = self.estimator_.predict_proba(X)
        return found if self.decisions_ is None else self._of_labels(found)

    def predict(self, X: Any) -> np.ndarray:
        """(N, L) of 0 and 1, or (N,) classes."""
        check_is_fitted(self)
        if self.decisions_ is None:
            return self.estimator_.predict(X)
        return self.decisions_.decide(self._of_labels(self.estimator_.predict_proba(X))).astype(int)

    def _of_labels(self, probabilities: Any) -> np.ndarray:
        """(N, L) probabilities, also from a list with (N, 2) for each label, or (N, 1) for one with a single value."""
        if isinstance(probabilities, list):
            columns = [np.asarray(each, dtype=np.float64) for each in probabilities]
            known = zip(columns, self._first, strict=True)
            columns = [each[:, 1] if each.shape[1] > 1 else np.full(len(each), float(only)) for each, only in known]
            probabilities = np.stack(columns, 1)
        return np.asarray(probabilities, dtype=np.float64).clip(0, 1)

    @property
    def n_features_in_(self) -> int:
        """The number of features, if the classifier counts them."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the features, if the classifier has seen names."""
        return self.estimator_.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            inner = self.estimator.__sklearn_tags__()
            tags.input_tags = inner.input_tags
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        else:
            tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags
