"""`seal-hf` with one more energy loss, `nce_rows`: NCE whose noise is the label sets of other rows of the batch.

    python benchmarks/row_noise.py train mlc --dataset mine.csv --loss nce_rows --output_dir PATH

`nce` draws its samples from the task-net. These are label sets that occur, drawn as often as they occur. So the energy
learns which of them fits the input.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from seal_hf import ENERGY_LOSSES
from seal_hf.__main__ import main
from seal_hf.core.space import OutputSpace
from seal_hf.energy_losses import Candidates
from seal_hf.energy_losses.ranking import Ranking


class RowNoise(Ranking):
    """The loss of `nce` with K label sets of other rows as samples. P_N(y) is how often y occurs in the batch."""

    name = "nce_rows"

    def draw(self, space: OutputSpace, logits: Tensor, gold: Tensor, generator: torch.Generator) -> Tensor:
        """(B, K, L) label sets, each of a row that is not the row itself."""
        size = len(gold)
        if size < 2:
            raise ValueError("nce_rows draws label sets of other rows of the batch, and a batch has one row.")
        steps = torch.randint(1, size, (size, self.num_samples), generator=generator, device=gold.device)
        return gold[(torch.arange(size, device=gold.device).unsqueeze(1) + steps) % size]

    def annotate(self, space: OutputSpace, logits: Tensor, gold: Tensor, candidates: Candidates) -> None:
        super().annotate(space, logits, gold, candidates)
        row = torch.cat([gold.unsqueeze(1), candidates.y[:, 2:]], dim=1)  # (B, 1 + K, L)
        candidates.log_noise = (row.unsqueeze(2) == gold).all(-1).sum(2).float().log()


if __name__ == "__main__":
    ENERGY_LOSSES[RowNoise.name] = RowNoise
    sys.exit(main())
