"""Solutions u of A u = b by products with A alone, A = H + δ I of a Hessian H: for hypergradient.py.

Each takes a fixed number of products and reads no number to the host; how near u came is in its diagnostics.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]  # v -> A v, flat


def solve_neumann(product: Product, b: Tensor, terms: int, scale: float, damping: float = 0.0) -> tuple[Tensor, dict]:
    """u = 1/c Σ_{i<terms} (I - A/c)^i b with A = H + δ I, the Neumann series of A⁻¹ b (their appendix A): it converges
    where all eigenvalues of A lie between 0 and 2c. `terms` - 1 products.

    Returns:
        u, and `residual`: ‖b - A u'‖ / ‖b‖ of the sum u' without its last term, which is known for nothing; above 1
        the series diverges. `curvature`: vᵀAv / vᵀv of the last v = (I - A/c)^i b, near the eigenvalue that converges
        slowest, or diverges fastest.
    """
    power, total, curvature = b, b, b.new_zeros(())
    for _ in range(terms - 1):
        image = product(power) + damping * power
        curvature = torch.dot(image, power) / positive(torch.dot(power, power))
        power = power - image / scale
        total = total + power
    return total / scale, {"residual": power.norm() / positive(b.norm()), "curvature": curvature}


def solve_minimal_residual(product: Product, b: Tensor, terms: int, damping: float = 0.0) -> tuple[Tensor, dict]:
    """The same series with a c of its own for each term, the one that leaves the least residual (minimal residual
    iteration, Saad 2003, §5.3.2): u ← u + r / c and r ← r - A r / c, 1/c = rᵀAr / ‖Ar‖², from u = 0, r = b. A product
    each. The residual never grows; where A is not positive along r, the iterate stays as it is from then on.

    Returns:
        u; `residual`: ‖b - A u‖ / ‖b‖; `curvature`: rᵀAr / rᵀr of the last r, negative where it stopped.
    """
    u, r, curvature = torch.zeros_like(b), b, b.new_zeros(())
    for _ in range(terms):
        image = product(r) + damping * r
        bend = torch.dot(r, image)
        curvature = bend / positive(torch.dot(r, r))
        step = bend.clamp_min(0) / positive(torch.dot(image, image))
        u, r = u + step * r, r - step * image
    return u, {"residual": r.norm() / positive(b.norm()), "curvature": curvature}


def solve_cg(product: Product, b: Tensor, terms: int, damping: float = 0.0) -> tuple[Tensor, dict]:
    """A⁻¹ b with A = H + δ I by `terms` iterations of conjugate gradient, a product each. Where A is not positive
    along a direction, no minimum lies there: the iterate stays as it is from then on. Where A hardly is, a step can
    lead far away: of all iterates, zero too, the one of the least residual is taken.

    Returns:
        u; `residual`: ‖b - A u‖ / ‖b‖, at most 1; `curvature`: the least vᵀAv / vᵀv met, negative where it stopped.
    """
    u, r, p = torch.zeros_like(b), b, b
    squared, least = torch.dot(b, b), b.new_full((), torch.inf)
    best, lowest = u, squared
    done = squared <= 0
    for _ in range(terms):
        image = product(p) + damping * p
        bend = torch.dot(p, image)
        least = torch.where(done, least, torch.minimum(least, bend / positive(torch.dot(p, p))))
        done = done | (bend <= 0)
        alpha = torch.where(done, 0, squared / positive(bend))
        u, r = u + alpha * p, r - alpha * image
        now = torch.dot(r, r)
        best, lowest = torch.where(now < lowest, u, best), torch.minimum(now, lowest)
        done = done | (now <= 1e-14 * torch.dot(b, b))  # float32 has no more digits
        p, squared = torch.where(done, p, r + now / positive(squared) * p), now
    return best, {"residual": lowest.sqrt() / positive(b.norm()), "curvature": torch.where(least.isinf(), 0, least)}


def positive(x: Tensor) -> Tensor:
    """x, or the least number above 0: a divisor."""
    return x.clamp_min(torch.finfo(x.dtype).tiny)
