"""λ1, the weight of the energy in the task-net's loss: the rule that chooses it, its schedule, and its balance with the
task loss. [`EnergyWeight`] owns it: whoever needs λ1 asks it for the share or for the weight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..energy_losses import ENERGY_LOSSES

# Measure whether the energy pulls unseen rows to their gold labels or away from them.

ALIGNMENT, PULL = "energy_alignment", "energy_pull"  # as an evaluation reports them
SHARE, WEIGHT = "energy_share", "energy_weight"  # as a training log reports them
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
        e = _gradient(lambda at: _scalar(energy_term(at)), logits)
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


def _scalar(term: Tensor) -> Tensor:
    """What `task_term` of an energy loss gave. Raises ValueError if it is no scalar."""
    if term.dim() > 0:
        raise ValueError(f"`task_term` gave {tuple(term.shape)}; expected a scalar, the mean over the batch.")
    return term


class Alignment:
    """The cosine of e and t_a over all entries of all rows, in [-1, 1], at the scale a of the logits that fits the gold
    labels best. There the mean of ⟨t_a, s⟩, the derivative of the task loss in a, is 0.

    At a = 1, the cosine would count the energy's effect on over-confident probabilities, which a decoder mends anyway.
    The ratio ‖t_a‖ / ‖e‖ is the weight at which the energy would pull these rows as hard as the task loss.
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
    """Yield each evaluation of a run with the [`ruled_share`] that holds for the steps after it."""
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
        refused: True if the rule could have raised λ1, but left it at 0 to the end.
    """

    largest: float
    since: float | None
    kept: float
    later: float | None
    ruled: bool
    dead: bool = False
    refused: bool = False

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
        return f"The loss-net never taught: {why}. The model was trained by {alone} alone."

    def remedy(self, loss: str) -> str:
        """What to try next, after a run with the energy loss `loss`."""
        if self.since is not None:
            return "the same run with energy_loss='ce' (--loss ce) shows what the loss-net gained."
        faster = "energy_loss='ce' (--loss ce) trains the same model in less time"
        if not self.ruled:
            return f"{faster}; `energy_weight` (--energy_weight) above 0 lets the loss-net teach."
        others = f" Other losses than {loss} have little to gain here, since the rule kept λ1 at 0." * self.refused
        return (
            f"{faster}.{others} A constant weight lets the loss-net teach anyway: energy_weight=0.1, "
            "energy_weight_balance=True (--energy_weight 0.1 --energy_weight_balance true)."
        )


class EnergyWeight:
    """λ1 of a run, in one of two forms. The *weight* is the number that multiplies the energy term. The *share* says
    how hard the energy pulls at the logits, relative to the task loss. The weight that gives this pull is measured.

    Args:
        args: [`SealTrainingArguments`]; they are read in every step.
        has_all_gold: False if some rows have a reward in place of gold. Such rows have no gradient of the task loss,
            and that of the few others vanishes once they are learned. λ1 is then relative to the gradient's norm on
            validation rows, which the last evaluation measured, see [`measured_pull`]. The share is constant,
            `REWARD_SHARE`: the energy knows the reward, which the gold of few rows cannot confirm.
        reduce: sums a tensor over the processes.
        prefix: see [`prefix_of`].
    """

    def __init__(
        self,
        args: Any,
        has_all_gold: bool = True,
        reduce: Callable[[Tensor], Tensor] = lambda values: values,
        prefix: str = EVAL,
    ):
        self.args, self.has_all_gold, self.reduce, self.prefix = args, has_all_gold, reduce, prefix
        self._log: Any = None  # its first `_read` entries gave the share and the pull
        self._read, self._ruled_share, self._pull = 0, 0.0, 0.0

    @property
    def is_ruled(self) -> bool:
        """True if the rule chooses the share, see [`ruled_share`]; without evaluations, it is `BLIND_SHARE`. λ1 is then
        not given, and a task loss of gold labels says how strong the energy may be. With rows that lack gold, only
        evaluations can say it. Implicit gradients, and a loss that reads λ1 too, need a constant weight."""
        args, loss = self.args, ENERGY_LOSSES.get(self.args.energy_loss)
        if args.energy_weight is not None or loss is None or loss.reads_weight or args.task_weight == 0:
            return False
        return args.hypergradient == "none" and (self.has_all_gold or args.eval_strategy != "no")

    @property
    def is_share(self) -> bool:
        """True if λ1 is a share of the task loss's pull: by the rule, or by `energy_weight_balance`."""
        return self.is_ruled or self.args.energy_weight_balance

    @property
    def constant(self) -> float:
        """λ1 as given, without schedule or balance; 1 if it is not given."""
        return 1.0 if self.args.energy_weight is None else self.args.energy_weight

    @property
    def is_never_used(self) -> bool:
        """True if λ1 is 0 in every step."""
        return not self.is_ruled and self.constant == 0

    def share(self, state: Any) -> float | None:
        """λ1 of the step that follows `state`, a `TrainerState`, as a share of the task loss's pull; None if it is a
        weight."""
        if not self.is_share:
            return None
        if not self.is_ruled:
            return self._scheduled(state)
        self._follow(state.log_history)
        return self._ruled_share if self.has_all_gold or self._pull else 0.0

    def weight(self, state: Any) -> float | None:
        """λ1 of this step as the number that multiplies the energy term; None if each micro-batch measures it."""
        if self.is_ruled and not self.has_all_gold:
            return (self.share(state) or 0.0) * self._pull
        return None if self.is_share else self._scheduled(state)

    def is_zero(self, state: Any) -> bool:
        """True if the energy does not teach in this step."""
        return (self.share(state) if self.is_share else self.weight(state)) == 0

    def in_words(self, state: Any) -> str:
        """λ1 of this step, to two digits."""
        share = self.share(state)
        return f"λ1 {self.weight(state):.2g}" if share is None else f"λ1 {share:.2g} of the task loss's pull"

    def weigh(
        self, state: Any, term: Tensor, task_loss: Tensor, logits: Tensor, beside: Sequence[Tensor] = ()
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """λ1 of this step times the energy term; and figures for the log. Tensors as for [`balanced`].

        Raises:
            ValueError: the term is no scalar.
        """
        share, weight, term = self.share(state), self.weight(state), _scalar(term)
        if share is None:
            return self._scheduled(state) * term, {}
        if weight is not None:
            return weight * term, {WEIGHT: term.new_full((), weight)}
        term, ratio = balanced(term, task_loss, logits, self.reduce, beside)
        return share * term, {WEIGHT: share * ratio}

    def check_measured(self, state: Any) -> None:
        """Raises ValueError if the rule chooses λ1, but no evaluation of a run has logged what it reads."""
        if self.is_ruled and self.args.eval_strategy != "no" and not any(_evaluations(state.log_history, self.prefix)):
            raise ValueError(
                "This evaluation did not measure the energy's alignment, by which λ1 is chosen. Does a subclass "
                "override `evaluate`, `evaluation_loop`, `prediction_step`, `compute_loss` or `log`? Call super()'s "
                "there and keep the names of its figures, or set `energy_weight`."
            )

    def lessons(self, state: Any, keeps_best: bool) -> Lessons:
        """How far the loss-net taught in a run.

        Args:
            state: the Trainer's, at its end.
            keeps_best: True if the weights of the best checkpoint are kept.
        """
        log, ruled = state.log_history, self.is_ruled
        kept = state.best_global_step if keeps_best and state.best_global_step else state.global_step
        epochs = (entry["epoch"] for entry in log if entry.get("step") == kept and "epoch" in entry)
        epoch = next(epochs, state.epoch or 0.0)
        start = {"step": 0, "epoch": 0.0}
        found: list[tuple[Any, float]]  # entry -> λ1 of the steps after it
        if not ruled:
            found = [(start, self.constant)]
        elif not self.has_all_gold:
            entries = _evaluations(log, self.prefix)
            found = [(entry, REWARD_SHARE * bool(measured_pull([entry], self.prefix))) for entry in entries]
        elif self.args.eval_strategy == "no":
            found = [(start, BLIND_SHARE)]
        else:
            found = list(ruled_shares(log, self.prefix))
        positive = [(entry["step"], entry["epoch"], value) for entry, value in found if value > 0]
        before = [(at, value) for step, at, value in positive if step < kept]
        weights = [entry[WEIGHT] for entry in log if WEIGHT in entry and entry["step"] <= kept]
        dead = bool(before) and bool(weights) and max(weights) == 0
        later = positive[0][1] if positive and not before else None
        if dead or not before:
            chosen = sum(entry["step"] < state.global_step for entry, _ in found)
            refused = ruled and not positive and chosen > 1  # the first evaluation never raises λ1
            return Lessons(0.0, None, epoch, later, ruled, dead, refused)
        return Lessons(max(value for _, value in before), before[0][0], epoch, None, ruled)

    def _scheduled(self, state: Any) -> float:
        done = state.global_step / max(state.max_steps, 1)
        return self.constant * SCHEDULES[self.args.energy_weight_schedule](done)

    def _follow(self, log_history: Sequence[Mapping[str, float]]) -> None:
        """Compute the share and the pull anew for another log, or after a new evaluation. Each step asks, so of a known
        log only new entries are looked at."""
        is_known, new = log_history is self._log, log_history[self._read :]
        self._log, self._read = log_history, len(log_history)
        if not is_known or any(_evaluations(new, self.prefix)):
            self._ruled_share = self._chosen(log_history)
            self._pull = 0.0 if self.has_all_gold else measured_pull(log_history, self.prefix)

    def _chosen(self, log_history: Iterable[Mapping[str, float]]) -> float:
        if not self.has_all_gold:
            return REWARD_SHARE
        return BLIND_SHARE if self.args.eval_strategy == "no" else ruled_share(log_history, self.prefix)
