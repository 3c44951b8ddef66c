"""Tag sequences: SealForTokenClassification, over any Hugging Face token classifier or the small BiLSTM."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import AutoModelForTokenClassification

from ..spaces import TagSequenceSpace
from .base import SealModel


class SealForTokenClassification(SealModel):
    """A token classifier, with logits (B, T, C), and its loss-net."""

    auto_class = AutoModelForTokenClassification
    space_class = TagSequenceSpace
    default_energy = "chain"

    @torch.no_grad()
    def predict(self, **inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities (B, T, C), and the best tags (B, T), of the task-net without dropout."""
        logits = self.task_net.eval()(**inputs).logits
        return self.space.relax(logits), self.space.decode(logits)
