"""λ1, the weight of the energy in the task-net's loss: the rule that chooses it, its schedule, and its balance with the
task loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Measure whether the energy pulls unseen rows to their gold labels or away from them.

ALIGNMENT, PULL = "energy_alignment", "energy_pull"  # as an evaluation reports them
SCALES = tuple(2 ** (k / 4) for k in range(-8, 5))  # of the logits, 1 / temperature: 0.25 to 2
AT_ONCE = 2**20  # logits in one call of the task loss


def row_pulls(logits: Tensor, energy_term: Callable[[Tensor], Tensor], task_loss: Callable[[Tensor], Tensor]) -> Tensor:
    """The terms of each row that [`Alignment`] sums.

    Args:
        logits: (B, ...) of the task-net.
        energy_term, task_loss: logits -> scalar, means over rows: the two terms of the task-net's loss, without λ1 and
            λ2. `task_loss` gets the rows several times, one copy after another: (n B, ...).

    Returns:
        (B, 1 + 3 S) for S scales: ‖e‖², then ⟨t_a, s⟩, ⟨t_a, e⟩ and ‖t_a‖² for each scale a. Here s are the logits of
        the row, e is the gradient of its energy term at s, and t_a the gradient of its task loss at a s.
    """
    logits = logits.detach().float()
    at_once = max(1, AT_ONCE // max(logits.numel(), 1))
    with torch.enable_grad():
        e = _gradient(energy_term, logits)
        columns = [(e * e).flatten(1).sum(1)]
        for i in range(0, len(SCALES), at_once):
            scaled = torch.stack([a * logits for a in SCALES[i : i + at_once]])  # (n, B, ...)
            t = _gradient(task_loss, scaled.flatten(0, 1)).view_as(scaled)
            products = [(t * other).flatten(2).sum(2) for other in (logits, e, t)]  # (n, B) each
            columns += torch.stack(products, dim=1).flatten(0, 1).unbind()
    return torch.stack(columns, dim=1)


def _gradient(mean: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    """The gradient of each row's own part of the mean."""
    logits = logits.clone().requires_grad_()
    return torch.autograd.grad(mean(logits) * len(logits), logits)[0]


class Alignment:
    """The cosine of e and t_a over all entries of all rows, in [-1, 1], at the scale a of the logits that fits the gold
    labels best. There the mean of ⟨t_a, s⟩, the derivative of the task loss in a, is 0.

    At a = 1, the cosine would count the energy's effect on over-confident probabilities, which a decoder mends anyway.
    The ratio ‖t_a‖ / ‖e‖ says by which weight the energy would pull these rows as hard as the task loss.
    """

    def __init__(self) -> None:
        self.sums: Tensor | None = None

    def add(self, rows: Tensor) -> None:
        """Add rows of [`row_pulls`] from all processes."""
        total = rows.sum(0)
        self.sums = total if self.sums is None else self.sums + total

    def drain(self, with_pull: bool = False) -> dict[str, float]:
        """Return {name in an evaluation: cosine}, `with_pull` also the ratio; empty without rows. Start anew."""
        if self.sums is None:
            return {}
        of_energy, sums = self.sums[0].item(), self.sums[1:].view(-1, 3).tolist()
        self.sums = None
        _, along, of_task = min(sums, key=lambda at_scale: abs(at_scale[0]))
        squares = of_energy * of_task
        pull = {PULL: (of_task / of_energy) ** 0.5 if of_energy > 0 else 0.0} if with_pull else {}
        return {ALIGNMENT: along / squares**0.5 if squares > 0 else 0.0, **pull}


# factor of λ1 when the share t in [0, 1] of the run is done
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda t: 1.0,
    "rise": lambda t: t,
    "fall": lambda t: 1.0 - t,
}

EVAL = "eval_"  # the Trainer's, of an evaluation's figures
DEAD = 1e-6  # relative to the task loss's gradient norm
GAIN, LARGEST_STEP, LARGEST_SHARE = 10.0, 0.1, 0.5  # share per alignment; largest rise in an epoch; largest share
BLIND_SHARE = 0.1  # share of the pull in a run without evaluations
REWARD_SHARE = 1.0  # with rewards


def ruled_share(log_history: Iterable[Mapping[str, float]], prefix: str = EVAL) -> float:
    """λ1 by the rule, after a run's evaluations so far: a share of the task loss's pull at the logits, in [0, 0.5].

    Every evaluation measures the alignment a in [-1, 1]. It is the cosine, over the validation rows, between the pull
    of the energy at the logits and that of the task loss, which knows the gold labels. Over-confidence is removed from
    the latter ([`Alignment`]). To first order, a step along the energy lowers the task loss of those rows in proportion
    to a. The best share is thus where a = 0. With Δ epochs since the last evaluation,

        share ← share + min(10 a, 0.1) Δ     if a < 0, or if the validation task loss is not below its earlier minimum

    It starts at 0: while the task loss still falls by itself, the energy would only take its place.

    The rule is ours. It reads only the log, so a resumed run has the same share.

    Args:
        log_history: of the Trainer's state.
        prefix: of the figures of the evaluations that count, see [`prefix_of`].
    """
    return ([0.0] + [share for _, share in ruled_shares(log_history, prefix)])[-1]


def ruled_shares(log_history: Iterable[Mapping[str, float]], prefix: str = EVAL) -> Iterator[tuple[Any, float]]:
    """Each evaluation of a run, and [`ruled_share`] of the steps after it."""
    share, lowest, epoch = 0.0, float("inf"), 0.0
    for entry in _evaluations(log_history, prefix):
        alignment, loss = entry[f"{prefix}{ALIGNMENT}"], entry[f"{prefix}loss"]
        if alignment < 0 or loss >= lowest:
            step = min(GAIN * alignment, LARGEST_STEP) * (entry["epoch"] - epoch)
            share = min(LARGEST_SHARE, max(0.0, share + step))
        lowest, epoch = min(lowest, loss), entry["epoch"]
        yield entry, share


def measured_pull(log_history: Iterable[Mapping[str, float]], prefix: str = EVAL) -> float:
    """‖∂ task loss/∂ logits‖ / ‖∂ energy/∂ logits‖ over the validation rows of the last evaluation; 0 before one, and
    for an energy with a dead pull, as in [`balanced`]."""
    pull = ([0.0] + [entry[f"{prefix}{PULL}"] for entry in _evaluations(log_history, prefix)])[-1]
    return pull if pull * DEAD < 1 else 0.0


def _evaluations(log_history: Iterable[Mapping[str, float]], prefix: str) -> Iterator[Mapping[str, float]]:
    return (entry for entry in log_history if f"{prefix}{ALIGNMENT}" in entry)


def prefix_of(eval_dataset: Any) -> str:
    """What the names of a trainer's evaluation figures begin with; of several evaluation sets, the first counts."""
    return f"{EVAL}{next(iter(eval_dataset))}_" if isinstance(eval_dataset, dict) and eval_dataset else EVAL


def is_ruled(args: Any, space: Any) -> bool:
    """True if λ1 follows the task loss's pull: none is given, and a task loss of gold labels says how strong the energy
    may be. With rows that lack gold, only evaluations can say it. Implicit gradients and mutual learning need a fixed
    λ1."""
    knows = space.has_all_gold or args.eval_strategy != "no"
    return args.energy_weight is None and args.weight_may_be_ruled and knows


def balanced(
    term: Tensor,
    task_loss: Tensor,
    logits: Tensor,
    reduce: Callable[[Tensor], Tensor],
    beside: Sequence[Tensor] = (),
) -> tuple[Tensor, Tensor]:
    """Scale the energy term to pull at the logits as hard as the task loss does, after gradient normalisation in
    multi-task learning (Chen et al. 2018):

        r · term,     r = ‖∂ task loss / ∂ logits‖ / ‖∂ term / ∂ logits‖,    r a constant for the backward

    A term with a dead pull (at most a millionth of the task loss's, as for a saturated σ(-E)) is left out, not revived.

    The two gradients at the logits cost one backward through the loss-net. It is not run again: the result has the
    value of r · term and its gradient in `logits` and `beside`.

    Args:
        term: scalar, depends on the task-net through `logits` and `beside` alone.
        task_loss: scalar.
        logits: (B, ...) of the task-net, with gradient.
        reduce: sums a tensor over the processes; the norms cover the micro-batch on all of them.
        beside: parameters that `term` reads directly, such as a CRF's. They count in no norm.

    Returns:
        the scaled term and r, both scalars; r is 0 if the term hardly depends on the logits.
    """
    (of_task,) = torch.autograd.grad(task_loss, logits, retain_graph=True)
    read = [logits, *beside]
    of_term, *others = torch.autograd.grad(term, read, materialize_grads=True)
    exact = torch.float32 if logits.device.type == "mps" else torch.float64  # squares are small; MPS has no float64
    task, pull = reduce(torch.stack([g.to(exact).square().sum() for g in (of_task, of_term)])).sqrt()
    ratio = torch.where(pull > DEAD * task, task / pull, torch.zeros_like(task)).float()
    pairs = zip(read, [of_term, *others], strict=True)
    linear = sum(((x - x.detach()) * g).sum() for x, g in pairs)  # 0, with the gradient of the term
    return ratio * (term.detach() + linear), ratio


class Lessons(NamedTuple):
    """How far the loss-net taught the task-net whose weights are kept.

    Attributes:
        largest: the largest λ1 of the steps up to the kept ones: a share of the task loss's pull if `ruled`.
        since: the epoch from which on it taught; None if it never did.
        kept: the epoch of the kept weights.
        later: the epoch at which λ1 first rose, if that was not before the kept weights.
        ruled: True if the rule chose λ1.
        dead: True if the energy had no pull on the outputs, so that λ1 changed nothing.
    """

    largest: float
    since: float | None
    kept: float
    later: float | None
    ruled: bool
    dead: bool = False

    def in_words(self, alone: str) -> str:
        """A sentence or two.

        Args:
            alone: the task loss, in words.
        """
        if self.since is not None:
            of = " of the task loss's pull" if self.ruled else ""
            when = f"after epoch {self.since:.3g}" if self.since else "from the start"
            most = "with λ1 up to" if self.ruled else "with λ1"
            return f"The loss-net taught {when}, {most} {self.largest:.2g}{of}; the kept epoch is {self.kept:.3g}."
        if self.dead:
            why = "its energy had no pull on the outputs"
        elif self.later is not None:
            why = f"λ1 was 0 until epoch {self.later:.3g}, and the kept epoch is {self.kept:.3g}"
        else:
            why = "λ1 stayed 0"
        return f"The loss-net never taught: {why}. This is the model that {alone} trains."

    def remedy(self, loss: str) -> str:
        """What to try next, after a run with the energy loss `loss`."""
        if self.since is not None:
            return "the same run with --loss ce shows what the loss-net gained."
        if not self.ruled:
            return "--loss ce trains the same model in less time; --energy_weight above 0 lets the loss-net teach."
        return (
            f"--loss ce trains the same model in less time. Other losses than {loss} have little to gain here, since "
            "the rule kept λ1 at 0. --energy_weight 0.1 --energy_weight_balance true lets the loss-net teach anyway."
        )


class EnergyWeight:
    """λ1 over a run.

    Args:
        args: its `energy_weight`, `energy_weight_schedule` and `energy_weight_balance` are read in every step.
        reduce: sums a tensor over the processes.
        ruled: True if the rule chooses λ1, see [`ruled_share`]; without evaluations, it is `BLIND_SHARE`.
        has_all_gold: False if some rows have a reward in place of gold. Such rows have no gradient of the task loss,
            and that of the few others vanishes once they are learned. λ1 is then relative to the gradient's norm on
            validation rows, which the last evaluation measured, see [`measured_pull`]. The share is constant,
            `REWARD_SHARE`: the energy knows the reward, which the gold of few rows cannot confirm.
        prefix: see [`prefix_of`].
    """

    def __init__(
        self,
        args: Any,
        reduce: Callable[[Tensor], Tensor],
        ruled: bool,
        has_all_gold: bool = True,
        prefix: str = EVAL,
    ):
        self.args, self.reduce, self.ruled, self.has_all_gold, self.prefix = args, reduce, ruled, has_all_gold, prefix
        self._share: float | None = None  # the rule's, since the last evaluation
        self._pull = 0.0  # as measured by it

    def at(self, done: float, log_history: Iterable[Mapping[str, float]]) -> float:
        """λ1 when the share `done` in [0, 1] of the run is done."""
        if not self.ruled:
            return self.args.fixed_energy_weight * SCHEDULES[self.args.energy_weight_schedule](done)
        if self._share is None:
            self._share = self._chosen(log_history)
            self._pull = 0.0 if self.has_all_gold else measured_pull(log_history, self.prefix)
        return self._share if self.has_all_gold or self._pull else 0.0

    def _chosen(self, log_history: Iterable[Mapping[str, float]]) -> float:
        if not self.has_all_gold:
            return REWARD_SHARE
        return BLIND_SHARE if self.args.eval_strategy == "no" else ruled_share(log_history, self.prefix)

    def lessons(self, log_history: Sequence[Mapping[str, Any]], kept: int, epoch: float) -> Lessons:
        """How far the loss-net taught, in a run whose weights of step `kept` are kept.

        Args:
            log_history: of the Trainer's state.
            epoch: the epoch of that step.
        """
        start = {"step": 0, "epoch": 0.0}
        if not self.ruled:
            found: list[tuple[Any, float]] = [
                (start, self.args.fixed_energy_weight)
            ]  # entry -> λ1 of the steps after it
        elif not self.has_all_gold:
            entries = _evaluations(log_history, self.prefix)
            found = [(entry, REWARD_SHARE * bool(measured_pull([entry], self.prefix))) for entry in entries]
        elif self.args.eval_strategy == "no":
            found = [(start, BLIND_SHARE)]
        else:
            found = list(ruled_shares(log_history, self.prefix))
        positive = [(entry["step"], entry["epoch"], value) for entry, value in found if value > 0]
        before = [(at, value) for step, at, value in positive if step < kept]
        factors = [e["energy_weight"] for e in log_history if "energy_weight" in e and e["step"] <= kept]
        dead = bool(before) and bool(factors) and max(factors) == 0
        later = positive[0][1] if positive and not before else None
        if dead or not before:
            return Lessons(0.0, None, epoch, later, self.ruled, dead)
        return Lessons(max(value for _, value in before), before[0][0], epoch, None, self.ruled)

    def evaluated(self, metrics: Mapping[str, float], in_training: bool) -> None:
        """Called after an evaluation: the share is computed anew.

        Raises:
            ValueError: the rule chooses λ1, but the evaluation did not measure what it reads.
        """
        self._share = None
        counts = in_training and self.ruled and self.args.eval_strategy != "no" and f"{self.prefix}loss" in metrics
        if counts and f"{self.prefix}{ALIGNMENT}" not in metrics:
            raise ValueError(
                "This evaluation did not measure the energy's alignment, by which λ1 is chosen. Does a subclass "
                "override `compute_loss`, `prediction_step` or `evaluation_loop`? Call super()'s there, or set "
                "`energy_weight`."
            )

    def weigh(
        self, weight: float, term: Tensor, task_loss: Tensor, logits: Tensor, beside: Sequence[Tensor] = ()
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The energy term times `weight`, λ1 of this step; and figures for the log. Arguments as for [`balanced`].

        Raises:
            ValueError: the term is no scalar.
        """
        if term.dim() > 0:
            raise ValueError(f"`task_term` gave {tuple(term.shape)}; expected a scalar, the mean over the batch.")
        if not self.ruled and not self.args.energy_weight_balance:
            return weight * term, {}
        if self.ruled and not self.has_all_gold:
            return weight * self._pull * term, {"energy_weight": term.new_full((), weight * self._pull)}
        term, ratio = balanced(term, task_loss, logits, self.reduce, beside)
        return weight * term, {"energy_weight": weight * ratio}
