"""Solutions u of A u = b from products with A alone, A = H + δ I with a Hessian H, for hypergradient.py.

Each solver takes a fixed number of products and reads no number to the host; its diagnostics say how close u is.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]  # v -> A v, flat


def solve_neumann(product: Product, b: Tensor, terms: int, scale: float, damping: float = 0.0) -> tuple[Tensor, dict]:
    """u = 1/c Σ_{i<terms} (I - A/c)^i b with A = H + δ I, the Neumann series of A⁻¹ b (their appendix A). It converges
    if all eigenvalues of A lie between 0 and 2c, and takes `terms` - 1 products.

    Returns:
        u, and `residual`: ‖b - A u'‖ / ‖b‖ for the sum u' without its last term, which costs nothing; above 1 the
        series diverges. `curvature`: vᵀAv / vᵀv of the last v = (I - A/c)^i b, near the eigenvalue that converges
        slowest or diverges fastest.
    """
    power, total, curvature = b, b, b.new_zeros(())
    for _ in range(terms - 1):
        image = product(power) + damping * power
        curvature = torch.dot(image, power) / positive(torch.dot(power, power))
        power = power - image / scale
        total = total + power
    return total / scale, {"residual": power.norm() / positive(b.norm()), "curvature": curvature}


def solve_minimal_residual(product: Product, b: Tensor, terms: int, damping: float = 0.0) -> tuple[Tensor, dict]:
    """The same series with a separate c for each term, the one with the smallest residual (minimal residual iteration,
    Saad 2003, §5.3.2): u ← u + r / c and r ← r - A r / c, 1/c = rᵀAr / ‖Ar‖², from u = 0, r = b. Each term takes one
    product. The residual never grows. If A is not positive along r, the iteration stops there.

    Returns:
        u; `residual`: ‖b - A u‖ / ‖b‖; `curvature`: rᵀAr / rᵀr of the last r, negative if it stopped.
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
    """A⁻¹ b with A = H + δ I by `terms` iterations of conjugate gradient, each with one product. If A is not positive
    along a direction, there is no minimum, and the iteration stops. If A is barely positive, a step can lead far away,
    so the iterate with the smallest residual is returned, possibly zero.

    Returns:
        u; `residual`: ‖b - A u‖ / ‖b‖, at most 1; `curvature`: the smallest vᵀAv / vᵀv met, negative if it stopped.
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
    """x, or the smallest positive number, for use as a divisor."""
    return x.clamp_min(torch.finfo(x.dtype).tiny)
