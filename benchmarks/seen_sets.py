"""`seal-hf` with one more task loss, `seen_sets`: a softmax over the label sets that occur in training.

    python benchmarks/seen_sets.py train mlc --dataset mine.csv --loss ce --task_loss seen_sets --output_dir PATH

A logit is then no longer that of a probability. The calibration of a run learns one from it.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from seal_hf import TASK_LOSSES, TaskLoss
from seal_hf.__main__ import main


class SeenSets(TaskLoss):
    """-log p(y | x), where p(S | x) ∝ exp Σ_{j in S} s_j over the label sets S of the training batches so far."""

    sets = None  # (M, L), a tensor after the first batch

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            known = labels if self.sets is None else torch.cat([self.sets, labels])
            self.sets = known.unique(dim=0)
        if self.sets is None:
            raise ValueError("seen_sets knows no label set before its first training step.")
        return (logits @ self.sets.T).logsumexp(1) - (logits * labels).sum(1)


if __name__ == "__main__":
    TASK_LOSSES["seen_sets"] = SeenSets
    sys.exit(main())
