"""Models of libraries that are not installed here, with the shapes of what theirs return."""

import numpy as np


class SetFitModel:
    """As in `setfit`."""

    @classmethod
    def from_pretrained(cls, name, multi_target_strategy=None):
        return cls()

    def predict_proba(self, inputs, as_numpy=False):
        assert as_numpy
        return np.random.default_rng(len(inputs)).random((len(inputs), 4))


class GLiNER:
    """As in `gliner`."""

    @classmethod
    def from_pretrained(cls, name):
        return cls()

    def predict_entities(self, text, labels, threshold=0.5):
        scores = np.random.default_rng(len(text)).random(len(labels))
        spans = [
            {"start": 0, "end": 1, "text": text[:1], "label": x, "score": s}
            for x, s in zip(labels, scores, strict=True)
        ]
        return [span for span in spans if span["score"] >= threshold]
