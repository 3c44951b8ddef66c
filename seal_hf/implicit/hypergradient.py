"""Implicit gradients: how the loss-net learns what its energy does to the task-net (Shankar & Piratla, *Implicit
Training of Energy Model for Structured Prediction*).

The task-net φ minimises the inner loss, which the loss-net θ shapes; the loss-net minimises the outer one at that φ:

    φ*(θ) = argmin_φ L_in(φ, θ),   L_in = λ2 task loss + λ1 E_θ(x, ŷ(φ)),        min_θ L_out(θ, φ*(θ))

    dL_out/dθ = ∂_θ L_out - (∂_φ∂_θ L_in)ᵀ u,   u = (∂²_φφ L_in)⁻¹ ∂_φ L_out        (their Eq. 4: direct + implicit)

(φ is the task-net and θ the energy, as in SEAL; in their paper it is the other way round.)
No matrix is built. u comes from products H v with the Hessian (`hessian_product`), by one of the solvers of inverse.py,
and the cross product is the θ-gradient of one number, the derivative of L_in along u ([`Line`]). So the whole
hypergradient is the θ-gradient of a scalar,

    surrogate(θ) = L_out(θ, φ) - ⟨∂_φ L_in(φ, θ), u⟩,   φ and u held fixed,

and what trains the loss-net by `backward` (wrappers, accumulation, loss scaling) trains it by this too. Unrolling T
inner steps has the same form, with one such derivative per step, see `unroll`.

Here φ is a dict of tensors by name, any subset of the task-net's parameters (task_function.py), a direction is one
flat vector, and a loss is a function of that dict; what it costs is up to who writes it: with φ the head alone it
starts from detached features. Nothing in here reads a number to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..utils.options import check_value
from .inverse import Product, positive, solve_cg, solve_minimal_residual, solve_neumann

Parameters = dict[str, Tensor]
Loss = Callable[[Parameters], Tensor]  # φ -> scalar
Reduce = Callable[[Tensor], Tensor]  # mean over the processes

# method -> the options that it reads
METHODS: dict[str, tuple[str, ...]] = {
    "none": (),
    "neumann": ("terms", "product", "parameters", "scale", "damping"),
    "cg": ("terms", "product", "parameters", "damping"),
    "unrolled": ("terms", "product", "parameters", "scale"),
}
FINITE_DIFFERENCES = "finite_differences"
UNROLLED_SCALE = 100.0  # of steps of 1/100, unless `scale` says otherwise
ENOUGH = 0.5  # a relative residual above it is a system that is barely solved
PRODUCTS = ("double_backward", "forward_over_reverse", FINITE_DIFFERENCES)


# --- parameters as vectors -------------------------------------------------------------------------------------------


def detached(parameters: Parameters) -> Parameters:
    """The same values in float32 as leaves of their own: nothing that is done with them reaches the net."""
    return {name: p.detach().float().requires_grad_() for name, p in parameters.items()}


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """One vector, float32."""
    return torch.cat([t.detach().reshape(-1).float() for t in tensors])


def unflatten(vector: Tensor, like: Parameters) -> Parameters:
    """The inverse of `flatten`, with the names and shapes of `like`."""
    parts = vector.split([p.numel() for p in like.values()])
    return {name: part.view_as(p) for part, (name, p) in zip(parts, like.items(), strict=True)}


def moved(parameters: Parameters, direction: Tensor, step: Tensor | float) -> Parameters:
    """φ + step · direction, as new leaves."""
    steps = unflatten(direction, parameters)
    return detached({name: torch.add(p.detach(), steps[name] * step) for name, p in parameters.items()})


def gradient(loss: Loss, parameters: Parameters) -> Tensor:
    """∂ loss/∂φ, flat."""
    grads = torch.autograd.grad(loss(parameters), list(parameters.values()), materialize_grads=True)
    return flatten(grads)


# --- products --------------------------------------------------------------------------------------------------------


def hessian_product(inner: Loss, parameters: Parameters, product: str = "double_backward") -> Product:
    """v -> ∂²L_in/∂φ² v, flat.

    Args:
        inner: L_in as a function of φ, the same at every call (no fresh dropout).
        parameters: φ, leaves.
        product: `double_backward` runs `inner` once, here, and keeps its graph: each product is one backward through
            the gradient's; `forward_over_reverse` runs it for every product, without keeping anything;
            `finite_differences` needs no second derivative: [∇L_in(φ + εv) - ∇L_in(φ - εv)] / 2ε, ε by
            `finite_step`, exact to about 1e-3 in float32 where both nets are smooth. In half precision no digit is
            left; nor is one of a net with ReLUs, whose gradient jumps between the two points.
    """
    if product == "double_backward":
        leaves = list(parameters.values())
        grads = torch.autograd.grad(inner(parameters), leaves, create_graph=True, materialize_grads=True)

        def apply(v: Tensor) -> Tensor:
            vectors = list(unflatten(v, parameters).values())
            slopes: Any = sum((g * w).sum() for g, w in zip(grads, vectors, strict=True))
            if not slopes.requires_grad:  # L_in is linear in φ
                return torch.zeros_like(v)
            return flatten(torch.autograd.grad(slopes, leaves, retain_graph=True, materialize_grads=True))

    elif product == "forward_over_reverse":

        def apply(v: Tensor) -> Tensor:
            found: Any = torch.func.jvp(torch.func.grad(inner), (parameters,), (unflatten(v, parameters),))
            return flatten(list(found[1].values()))

    else:

        def apply(v: Tensor) -> Tensor:
            step = finite_step(parameters, v)
            ahead, behind = (gradient(inner, moved(parameters, v, sign * step)) for sign in (1, -1))
            return (ahead - behind) / (2 * step)

    return apply


class Line:
    """φ + t u: the derivative of a function f along u, from the values of f at `points`. Its gradient in whatever else
    f reads, θ, is the cross product (∂_φ∂_θ f)ᵀ u.

    With exact products there is one point, in which t = 0 is a leaf, and ⟨∂_φ f, u⟩ = d f(φ + t u)/dt keeps its graph.
    With finite differences there are φ ± εu, and [f(φ + εu) - f(φ - εu)] / 2ε is of first order in θ.
    """

    points: list[Parameters]

    def __init__(self, parameters: Parameters, direction: Tensor, product: str = "double_backward"):
        self.step = finite_step(parameters, direction) if product == FINITE_DIFFERENCES else None
        if self.step is not None:
            self.points = [moved(parameters, direction, sign * self.step) for sign in (1, -1)]
        else:
            self.t, steps = direction.new_zeros((), requires_grad=True), unflatten(direction, parameters)
            self.points = [{name: p.detach() + self.t * steps[name] for name, p in parameters.items()}]

    def slope(self, values: Sequence[Tensor]) -> Tensor:
        """⟨∂_φ f, u⟩ from f at each of `points`; all scalars."""
        if self.step is not None:
            ahead, behind = values
            return (ahead - behind) / (2 * self.step)
        return torch.autograd.grad(values[0], self.t, create_graph=True, materialize_grads=True)[0]


def cross_product(
    inner: Loss,
    parameters: Parameters,
    direction: Tensor,
    theta: Sequence[Tensor],
    product: str = "double_backward",
) -> list[Tensor]:
    """(∂_φ∂_θ L_in)ᵀ direction, one tensor per tensor of `theta`, of which `inner` is a function too."""
    line = Line(parameters, direction, product)
    return _gradients(line.slope([inner(point) for point in line.points]), theta)


def finite_step(parameters: Parameters, direction: Tensor) -> Tensor:
    """ε of a central difference: with it φ moves by 5e-3 (1 + ‖φ‖ / √n) in all, so that ε does not depend on the
    length of `direction`, however short. The cube root of float32's precision balances rounding and curvature."""
    size = flatten(list(parameters.values())).square().mean().sqrt()
    longest = direction.abs().max().clamp_min(torch.finfo(torch.float32).tiny)  # whose square is 0
    return 5e-3 * (1 + size) / (longest * (direction / longest).norm()).clamp_min(1e-36)


# --- the hypergradient -----------------------------------------------------------------------------------------------


@dataclass
class Adjoints:
    """What makes a hypergradient of a direct one: at each `point` of φ, the derivative of L_in along a direction, the
    adjoint u of the implicit methods.

    Attributes:
        outer_point: φ at which L_out is taken.
        points: one φ per direction; of the implicit methods `outer_point` alone.
        directions: flat; minus their sum of ⟨∂_φ L_in(point, θ), direction⟩ is the rest of the surrogate.
        diagnostics: tensors: `residual` and `curvature` of the inverse (of `neumann` and `cg`).
    """

    outer_point: Parameters
    points: list[Parameters] = field(default_factory=list)
    directions: list[Tensor] = field(default_factory=list)
    diagnostics: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class Hypergradient:
    """dL_out/dθ, direct and implicit.

    Args:
        method: `neumann`, `cg`, `unrolled`; or `none`: the direct term alone.
        terms: of the series; iterations of conjugate gradient; inner steps that are unrolled. At the inner minimum, T
            unrolled steps of size 1/c are T terms of the series with scale c (Lorraine et al. 2020, theorem 1).
        scale: c, above half of the Hessian's largest eigenvalue; 1/c is the size of an unrolled step. None: of
            `neumann`, a c for each term, see [`solve_minimal_residual`]; of `unrolled`, 100.
        damping: δ >= 0, added to the Hessian's diagonal, for `neumann` and `cg`.
        product: how products are taken, one of `PRODUCTS`.

    Raises:
        ValueError: an option out of its range.
    """

    method: str = "neumann"
    terms: int = 5
    scale: float | None = None
    damping: float = 0.0
    product: str = "double_backward"

    @classmethod
    def from_arguments(cls, args: Any) -> Hypergradient:
        """As [`SealTrainingArguments`] have it."""
        names = ("terms", "scale", "damping", "product")
        return cls(args.hypergradient, **{name: getattr(args, f"hypergradient_{name}") for name in names})

    def __post_init__(self) -> None:
        check_value("method", self.method, METHODS)
        check_value("product", self.product, PRODUCTS)
        if self.terms < 1 or not (self.scale is None or self.scale > 0) or not self.damping >= 0:
            raise ValueError(
                f"`terms` is {self.terms}, `scale` {self.scale}, `damping` {self.damping}; they must be at least 1, "
                "above 0 (or None) and at least 0."
            )

    def __call__(
        self, inner: Loss, outer: Loss, parameters: Parameters, theta: Sequence[Tensor]
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """The hypergradient of any two losses, one tensor per tensor of `theta`, and diagnostics: those of
        [`Adjoints`], `cosine` between direct and full gradient, `direct_norm`, `full_norm` and `implicit_norm`.
        `ImplicitGradients` gets the same from one forward. This is the readable version, which tests compare with it.

        Args:
            inner, outer: L_in and L_out as functions of φ; of `theta` too.
            parameters: φ; not changed.
        """
        adjoints = self.adjoints([inner], [outer], detached(parameters))
        direct = _gradients(outer(adjoints.outer_point), theta)
        implicit = [torch.zeros_like(t) for t in theta]
        for point, direction in zip(adjoints.points, adjoints.directions, strict=True):
            for total, part in zip(implicit, cross_product(inner, point, direction, theta, self.product), strict=True):
                total.sub_(part)
        return [d + i for d, i in zip(direct, implicit, strict=True)], adjoints.diagnostics | compare(direct, implicit)

    def adjoints(
        self, inners: Sequence[Loss], outers: Sequence[Loss], parameters: Parameters, reduce: Reduce = lambda v: v
    ) -> Adjoints:
        """The directions, with θ as it is.

        Args:
            inners, outers: the losses of each micro-batch of an accumulation window, whose mean is meant.
            parameters: φ, leaves.
            reduce: mean of a flat vector over the processes; they all then have the same directions.
        """
        if self.method == "none":
            return Adjoints(parameters)
        if self.method == "unrolled":
            return self.unroll(inners, outers, parameters, reduce)
        b = _mean([gradient(outer, parameters) for outer in outers], reduce)
        product = self.mean_product(inners, parameters, reduce)
        if self.method == "cg":
            u, diagnostics = solve_cg(product, b, self.terms, self.damping)
        elif self.scale is None:
            u, diagnostics = solve_minimal_residual(product, b, self.terms, self.damping)
        else:
            u, diagnostics = solve_neumann(product, b, self.terms, self.scale, self.damping)
        return Adjoints(parameters, [parameters], [u], diagnostics)

    def unroll(
        self, inners: Sequence[Loss], outers: Sequence[Loss], parameters: Parameters, reduce: Reduce = lambda v: v
    ) -> Adjoints:
        """Reverse-mode differentiation of T steps φ_{t+1} = φ_t - 1/c ∇L_in(φ_t), from φ_0 = `parameters` that do not
        depend on θ, kept as T points instead of one graph:

            p_T = ∂_φ L_out(φ_T),     p_t = p_{t+1} - 1/c H(φ_t) p_{t+1}
            dL_out/dθ = ∂_θ L_out(φ_T) - 1/c Σ_t (∂_φ∂_θ L_in(φ_t))ᵀ p_{t+1}
        """
        points, scale = [parameters], self.scale or UNROLLED_SCALE
        for _ in range(self.terms):
            slope = _mean([gradient(inner, points[-1]) for inner in inners], reduce)
            points.append(moved(points[-1], slope, -1 / scale))
        end = points.pop()
        adjoint = _mean([gradient(outer, end) for outer in outers], reduce)
        directions = []
        for i, point in enumerate(reversed(points)):
            directions.append(adjoint / scale)
            if i < len(points) - 1:  # nothing is asked of the start
                adjoint = adjoint - self.mean_product(inners, point, reduce)(adjoint) / scale
        return Adjoints(end, points, directions[::-1])

    def mean_product(self, inners: Sequence[Loss], parameters: Parameters, reduce: Reduce) -> Product:
        """v -> H v, H the mean over micro-batches and processes."""
        products = [hessian_product(inner, parameters, self.product) for inner in inners]
        return lambda v: _mean([product(v) for product in products], reduce)

    def advice(self, residual: float, curvature: float) -> str | None:
        """What to do if the inverse failed or is barely solved, so that the implicit term is not what it should be;
        from `diagnostics` read as numbers; None if all is well."""
        if self.method not in ("neumann", "cg") or (residual <= ENOUGH and curvature >= 0):
            return None
        if self.method == "neumann" and self.scale is not None and self.terms == 1:
            return None  # u = b / c takes no product, by which either figure would be known
        how = "is barely solved" if residual <= 1 else "failed"
        what = f"The implicit gradient's inverse {how}: relative residual {residual:.3g} after {self.terms} terms."
        fixed = self.method == "neumann" and self.scale is not None
        damping = f"`hypergradient_damping` above {self.damping:g}"
        if curvature != curvature or residual != residual:
            remedy = f"`hypergradient_scale` far above {self.scale:g}" if fixed else damping
            return f"{what} It is not finite: raise {remedy}."
        if curvature < 0:
            return (
                f"{what} The inner loss curves downwards ({curvature:.3g}), as a task-net's does that is not at its "
                f"minimum: set `hypergradient_damping` above {self.damping - curvature:.3g}, or do more task-net "
                "updates per loss-net update."
            )
        if fixed and residual > 1:
            return (
                f"{what} The Hessian reaches {curvature:.3g}: raise `hypergradient_scale` to that (now {self.scale:g})."
            )
        if fixed:
            return (
                f"{what} Lower `hypergradient_scale` (now {self.scale:g}) towards the Hessian's {curvature:.3g}, or "
                "leave it out, raise `hypergradient_terms`, or use hypergradient='cg'."
            )
        other = ", or use hypergradient='cg'" if self.method == "neumann" else ""
        return f"{what} Raise {damping}, or `hypergradient_terms`{other}."


def compare(direct: Sequence[Tensor], implicit: Sequence[Tensor]) -> dict[str, Tensor]:
    """Diagnostics of the two terms: norms, and the cosine between the direct gradient and their sum."""
    d, i = flatten(direct), flatten(implicit)
    full = d + i
    norms = {"direct_norm": d.norm(), "implicit_norm": i.norm(), "full_norm": full.norm()}
    return norms | {"cosine": torch.dot(d, full) / positive(d.norm() * full.norm())}


def _mean(vectors: Sequence[Tensor], reduce: Reduce) -> Tensor:
    return reduce(torch.stack(list(vectors)).mean(0) if len(vectors) > 1 else vectors[0])


def _gradients(value: Tensor, theta: Sequence[Tensor]) -> list[Tensor]:
    """∂ value/∂θ, zeros where it does not depend on it."""
    if not value.requires_grad:
        return [torch.zeros_like(t) for t in theta]
    return list(torch.autograd.grad(value, list(theta), materialize_grads=True))
