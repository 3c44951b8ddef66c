"""Output spaces: everything the method must know about one kind of structured output.

A space turns logits into relaxed structures, draws and scores candidates, and is the only place that knows whether the
output is a label set, a tag sequence or a mask. Energies and energy losses are generic over spaces. All methods are
pure tensor functions, vectorised over the batch B and the candidates S; nothing loops over examples and nothing
synchronises with the device.

Shapes for a label set over L labels: `logits` and `labels` (B, L); candidates `y` (B, S, L).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

COSTS = ("f1", "l1", "l1_mean")


class OutputSpace(ABC):
    """What a structured output must offer. `mask` (B, ...) marks the positions that count; `None` means all of them.

    Attributes:
        name: Key in `SPACES`; stored in the loss-net's config.
        problem_type: The `config.problem_type` a task-net of this space has.
    """

    name: str
    problem_type: str

    @abstractmethod
    def check(self, logits: Tensor, labels: Tensor) -> None:
        """Raise ValueError where the task-net's output cannot belong to this space. Looks at shapes only."""

    @abstractmethod
    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Labels as given by the data -> (gold structure as floats, mask or None)."""

    @abstractmethod
    def relax(self, logits: Tensor) -> Tensor:
        """Logits -> relaxed structure ŷ, each entry in [0, 1], differentiable."""

    @abstractmethod
    def sample(self, logits: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        """K independent structures drawn from the task-net's distribution: (B, K, ...), without gradient."""

    @abstractmethod
    def perturb(self, logits: Tensor, num_samples: int, std: float, generator: torch.Generator) -> Tensor:
        """K relaxed structures from logits with Gaussian noise of standard deviation `std`: (B, K, ...)."""

    @abstractmethod
    def log_prob(self, logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """log P(y | logits) under the task-net's factorised distribution, closed form: (B, S), in (-inf, 0]."""

    @abstractmethod
    def score(self, y_hat: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Quality s(ŷ, y) of candidates `y_hat` (B, S, ...) against gold `y` (B, ...): (B, S), in [0, 1], 1 is best."""

    @abstractmethod
    def cost(self, y_hat: Tensor, y: Tensor, kind: str, mask: Tensor | None = None) -> Tensor:
        """Cost Δ(ŷ, y) >= 0, differentiable in `y_hat`: (B, S)."""

    @abstractmethod
    def task_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy: summed over the structure, averaged over the batch (λ1 has meaning only with that). Scalar."""

    @abstractmethod
    def decode(self, logits: Tensor, threshold: float = 0.5) -> Tensor:
        """Hard decisions from logits."""


class MultiLabelSpace(OutputSpace):
    """Label sets: y in {0, 1}^L, independent Bernoulli outputs."""

    name = "multi_label"
    problem_type = "multi_label_classification"

    def check(self, logits: Tensor, labels: Tensor) -> None:
        """Logits and labels must both be (B, L).

        Raises:
            ValueError: naming both shapes.
        """
        if logits.dim() != 2 or logits.shape != labels.shape:
            raise ValueError(
                f"The task-net's logits have shape {tuple(logits.shape)} and `labels` have shape "
                f"{tuple(labels.shape)}; a "
                "multi-label task-net gives one logit per label and takes a multi-hot vector per row: both must be "
                "(batch, num_labels). Check the model's `num_labels` and that `labels` is multi-hot."
            )

    def gold(self, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """(B, L) of 0/1 in any dtype -> float32 (B, L); no mask."""
        return labels.float(), None

    def relax(self, logits: Tensor) -> Tensor:
        """ŷ = sigmoid(logits), in float32."""
        return torch.sigmoid(logits.float())

    @torch.no_grad()
    def sample(self, logits: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        """y_k ~ Bernoulli(sigmoid(logits)), k = 1..K, all at once; a sample may equal the gold. Float32 (B, K, L)."""
        p = self.relax(logits).unsqueeze(1)  # (B, 1, L)
        noise = torch.rand(p.shape[0], num_samples, p.shape[2], device=p.device, generator=generator)
        return (noise < p).float()

    @torch.no_grad()
    def perturb(self, logits: Tensor, num_samples: int, std: float, generator: torch.Generator) -> Tensor:
        """sigmoid(logits + N(0, std²)): float32 (B, K, L)."""
        logits = logits.float().unsqueeze(1)
        shape = (logits.shape[0], num_samples, logits.shape[2])
        return torch.sigmoid(logits + std * torch.randn(shape, device=logits.device, generator=generator))

    def log_prob(self, logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Σ_j y_j log p_j + (1 - y_j) log(1 - p_j) = Σ_j y_j logit_j - softplus(logit_j): (B, S) for `y` (B, S, L).

        Written in logits, so that no (B, S, L) tensor is made and nothing is clamped.
        """
        logits = logits.float()
        return torch.einsum("bsl,bl->bs", y, logits) - F.softplus(logits).sum(-1, keepdim=True)

    def score(self, y_hat: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Soft F1 = 2 I / (I + U), I = Σ min(ŷ, y), U = Σ max(ŷ, y) (Gygli et al. 2017; SEAL, footnote 2): (B, S).

        For y in {0, 1}, I = ŷ·y and I + U = Σ ŷ + Σ y, which is what is computed. Two empty label sets score 1.
        """
        total = y_hat.sum(-1) + y.sum(-1, keepdim=True)
        overlap = 2 * torch.einsum("bsl,bl->bs", y_hat, y)
        return torch.where(total > 0, overlap / total.clamp_min(torch.finfo(total.dtype).tiny), torch.ones_like(total))

    def cost(self, y_hat: Tensor, y: Tensor, kind: str = "f1", mask: Tensor | None = None) -> Tensor:
        """Δ: `f1` = 1 - soft F1 (SPEN), `l1` = Σ|ŷ - y| (InfNet+), `l1_mean` = the same per label. (B, S)."""
        if kind == "f1":
            return 1 - self.score(y_hat, y)
        distance = (y_hat - y.unsqueeze(1)).abs()
        return distance.sum(-1) if kind == "l1" else distance.mean(-1)

    def task_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Binary cross-entropy, summed over labels, mean over the batch."""
        return F.binary_cross_entropy_with_logits(logits.float(), labels.float(), reduction="none").sum(-1).mean()

    def decode(self, logits: Tensor, threshold: float = 0.5) -> Tensor:
        """1 where the probability is at least `threshold`, else 0: int64 (B, L)."""
        return (self.relax(logits) >= threshold).long()


SPACES: dict[str, type[OutputSpace]] = {space.name: space for space in (MultiLabelSpace,)}
