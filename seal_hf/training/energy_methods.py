"""Methods that train an energy network on its own: the structures it learns from, and the loss.

For a batch, a method finds the row of candidates [ŷ, y*, ...] with the current energies, by gradient-based inference or
from a task-net's samples. An energy loss of `energy_losses/` maps the energies of that row to a scalar. At prediction,
all methods minimise E(x, y) over the relaxed y.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..core.gradient_descent import OPTIMIZERS, STARTS, GradientBasedInference
from ..core.space import OutputSpace
from ..core.task import COSTS
from ..energy_losses import (
    NCE,
    REGRESSION_SAMPLES,
    SAMPLES,
    Candidates,
    DeepValue,
    EnergyLoss,
    Margin,
    Ranking,
    RegressionS,
)
from ..utils.options import check_value
from ..utils.tensors import wide
from .run_arguments import GuardedArguments


@dataclass
class Problem:
    """One batch, as methods see it.

    Attributes:
        space: the output space.
        energy: candidates (B, S, ...) -> energies (B, S), differentiable in the candidates, for the encoded x.
        labels: as in the data.
        starts: (B, S, ...), where inference starts.
        logits: the frozen task-net's, or None.
        noise: the generator for samples.
    """

    space: OutputSpace
    energy: Callable[[Tensor], Tensor]
    labels: Tensor
    starts: Tensor
    logits: Any
    noise: torch.Generator


class EnergyMethod(ABC):
    """Base class.

    Args:
        inference: inference in training steps.
        loss: an energy loss of `loss_class`; default: one with default options.

    Attributes:
        loss_class: the class of the energy loss.
        also_reads: fields of [`EnergyTrainingArguments`] that the method reads beside the options of its loss.
        needs_task_net: True if the method is defined only with a task-net.
        extra: log name -> the columns whose mean energy is logged; column 0 is ŷ, 1 is y*.
    """

    loss_class: type[EnergyLoss]
    loss: Any
    also_reads: tuple[str, ...] = ()
    needs_task_net = False
    extra: Mapping[str, slice] = {}

    def __init__(self, inference: GradientBasedInference, loss: EnergyLoss | None = None):
        self.inference = inference
        self.loss = self.loss_class() if loss is None else loss

    @classmethod
    def from_arguments(cls, args: Any, inference: GradientBasedInference) -> EnergyMethod:
        """The method with the options that [`EnergyTrainingArguments`] has for it."""
        return cls(inference, cls.loss_class.from_arguments(args))

    @classmethod
    def read(cls, args: Any) -> set[str]:
        """Names of the arguments that are read, given their values."""
        return {*cls.also_reads, *cls.loss_class.read(args)}

    @classmethod
    def idle(cls, args: Any) -> dict[str, str]:
        """Option of the loss -> the option whose value makes it ineffective."""
        return cls.loss_class.idle(args)

    @classmethod
    def default_start(cls, has_task_net: bool) -> str:
        """Where inference starts by default."""
        return "task_net" if has_task_net else "uniform"

    @abstractmethod
    def candidates(self, problem: Problem) -> Candidates:
        """The row of candidates for the loss, without gradient."""

    def _row(self, problem: Problem, found: Tensor, *further: Tensor) -> Candidates:
        """The row [ŷ, y*, further points] for the ŷ `found`; (B, 1, ...) each."""
        gold, mask = problem.space.gold(problem.labels)
        candidates = Candidates(problem.space.join([found, problem.space.candidate(gold), *further]), mask)
        self.loss.annotate(problem.space, problem.logits, gold, candidates)
        return candidates


class SPEN(EnergyMethod):
    """Structured prediction energy network (Belanger & McCallum 2016, §4): structured SVM with loss-augmented
    inference.

        ŷ = argmin_y E(x, y) - Δ(y, y*),     L = [ Δ(ŷ, y*) - E(x, ŷ) + E(x, y*) ]_+

    `margin_cost` is Δ. The authors of SEAL use 1 - soft F1, and start from a task-net trained by cross-entropy.
    """

    loss_class = Margin
    also_reads = ("inference_steps",)

    def candidates(self, problem: Problem) -> Candidates:
        gold, mask = problem.space.gold(problem.labels)
        margin = lambda y: problem.energy(y) - problem.space.cost(y, gold, self.loss.margin_cost, mask)  # noqa: E731
        return self._row(problem, self.inference(margin, problem.starts)[0])


class DVN(EnergyMethod):
    """Deep value network (Gygli et al. 2017): σ(-E(x, y)) learns the score s(y, y*), at three points per input.

        ŷ     = argmin_y E(x, y)                                   the prediction
        y_adv = argmax_y BCE( σ(-E(x, y)), s(y, y*) )              the most wrong point, s held constant
        L     = Σ_{y in {ŷ, y_adv, y*} and further points} BCE( σ(-E(x, y)), s(y, y*) )

    Each step has all three, and both inferences have the same starts (zeros), as the authors of SEAL do. For masks,
    they and Gygli et al. start half of the adversarial inferences from the gold.

    Further points are ours. Of the three, only the gold is a structure as in the data: a network can tell it from what
    inference finds without reading x, and inference then has nothing to follow. Each of `points` adds one point per
    input with its exact score, at the cost of one more energy and no inference, see `POINTS`.

    Args:
        points: names from `POINTS`.
        gold_starts: share of rows whose adversarial inference starts from the gold, in [0, 1]; None: the space's.
        inference, loss: as for the base class.
    """

    loss_class = DeepValue
    also_reads = ("inference_steps", "dvn_points", "dvn_gold_starts")
    extra = {"energy_adversarial": slice(2, 3), "energy_points": slice(3, None)}

    def __init__(
        self,
        inference: GradientBasedInference,
        loss: EnergyLoss | None = None,
        points: Sequence[str] = (),
        gold_starts: float | None = None,
    ):
        super().__init__(inference, loss)
        self.points, self.gold_starts = tuple(points), gold_starts

    @classmethod
    def from_arguments(cls, args: Any, inference: GradientBasedInference) -> DVN:
        return cls(inference, points=args.dvn_points, gold_starts=args.dvn_gold_starts)

    @classmethod
    def default_start(cls, has_task_net: bool) -> str:
        return "zeros"

    def candidates(self, problem: Problem) -> Candidates:
        gold, mask = problem.space.gold(problem.labels)

        def rightness(y: Tensor) -> Tensor:  # lower for a more wrong value
            return -self.loss.pointwise(problem.energy(y), problem.space.score(y, gold, mask).detach())

        starts = problem.starts
        share = problem.space.dvn_gold_starts if self.gold_starts is None else self.gold_starts
        if share:
            chosen = torch.rand(len(gold), device=gold.device, generator=problem.noise) < share
            right: Any = problem.space.candidate(gold)
            starts = torch.where(wide(chosen, starts), right, starts)
        found, adversarial = self.inference(problem.energy, problem.starts)[0], self.inference(rightness, starts)[0]
        return self._row(problem, found, adversarial, *(POINTS[name](problem, gold) for name in self.points))


def _start(problem: Problem, gold: Tensor) -> Tensor:
    return problem.starts[:, :1]


def _other_gold(problem: Problem, gold: Tensor) -> Any:
    return problem.space.candidate(gold.roll(1, 0))


def _flipped_gold(problem: Problem, gold: Tensor) -> Tensor:
    return problem.space.flip(gold, problem.noise)


def _mixed_gold(problem: Problem, gold: Tensor) -> Any:
    share = wide(torch.rand(len(gold), device=gold.device, generator=problem.noise), gold)
    return problem.space.candidate(share * gold + (1 - share) * gold.roll(1, 0))


POINTS: dict[str, Callable[[Problem, Tensor], Any]] = {
    "start": _start,  # where inference starts; else no loss sees it
    "other_gold": _other_gold,  # the gold of another row of the batch: it looks right but is wrong for this x
    "flipped_gold": _flipped_gold,  # the gold with some of its entries flipped, neighbours together (`space.flip`)
    "mixed_gold": _mixed_gold,  # a y* + (1 - a) of another row's gold, a uniform in [0, 1]
}


class FromTaskNet(EnergyMethod):
    """An energy loss on samples of a frozen task-net: `nce`, `ranking`, `regression_s`. (SEAL-dynamic draws them from a
    task-net that trains.) Only prediction runs inference; the authors of SEAL predict `nce` from three random starts.

    With enough data, for any K >= 1, exp(-E(x, y)) of `nce` becomes the conditional distribution p(y | x), up to a
    constant per x. With the same data, more samples come closer (Ma & Collins 2018; SEAL Eq. 8-9).
    """

    loss_class: type[EnergyLoss] = NCE
    needs_task_net = True
    extra = {"energy_samples": SAMPLES}

    def candidates(self, problem: Problem) -> Candidates:
        return self.loss.candidates(problem.space, problem.logits, problem.labels, problem.noise)


class FromTaskNetRanking(FromTaskNet):
    """`ranking` on the same samples."""

    loss_class = Ranking


class FromTaskNetRegression(FromTaskNet):
    """`regression_s` around the task-net's output."""

    loss_class = RegressionS


ENERGY_METHODS: dict[str, type[EnergyMethod]] = {
    "spen": SPEN,
    "dvn": DVN,
    "nce": FromTaskNet,
    "ranking": FromTaskNetRanking,
    "regression_s": FromTaskNetRegression,
}


AUTO = "auto"


@dataclass
class EnergyTrainingArguments(GuardedArguments):
    """[`~transformers.TrainingArguments`] (the optimizer trains the energy network), [`GuardedArguments`], and the
    method's arguments.

    Parameters that control the training:
        energy_method (`str`, default `"spen"`): `spen` (Belanger & McCallum 2016), `dvn` (Gygli et al. 2017); or, with
            samples of a required frozen task-net, `nce` (Ma & Collins 2018), `ranking`, `regression_s`.
        num_samples (`int`, default 20): K, the samples of the task-net per input (SEAL Eq. 8; the authors: 40 to 100).
        perturbation_std (`float`, default 1.0), regression_samples (`str`, default `"continuous"`): of `regression_s`,
            as in [`SealTrainingArguments`].
        margin_cost (`str`, default `"f1"`): Δ of `spen`: `f1` = 1 - soft F1 (Dice for masks), `iou` = 1 - soft IoU, for
            masks only, `l1` = summed distance, `l1_mean` = per label or pixel. Energies grow with it: a margin of `l1`
            can be as large as the number of labels.
        dvn_points (`list[str]`, default empty): further points of `dvn`, each with its exact score and without an
            inference: `start`, `other_gold`, `flipped_gold`, `mixed_gold` (`energy_methods.POINTS`). Ours, for masks: a
            network that sees one clean mask per image, the gold, learns what masks look like, not which mask is right.
        dvn_gold_starts (`float`, optional): share of rows whose adversarial inference starts from the gold in `dvn`;
            default: 0.5 for masks and 0 for labels, as the authors of SEAL.

    Parameters that control gradient-based inference:
        inference_steps (`int`, default 20): gradient steps while training, for `spen` and `dvn` (as the authors of
            SEAL).
        inference_steps_eval (`int`, default 30): gradient steps at evaluation and prediction (the authors' for DVN).
        inference_learning_rate (`float`, default 0.1): step size, in units of y, which lies in [0, 1] (the authors: 0.1
            for `nce`, 0.04 to 0.6 for `dvn`, 0.007 to 0.02 for `spen`, from a task-net).
        inference_optimizer (`str`, default `"adam"`): `adam`, clamped after each step, or `projected` gradient descent.
        inference_start (`str`, default `"auto"`): `zeros`, `uniform` (1/2), `random`, or `task_net`, its relaxed
            output. `auto`: zeros for `dvn`; else the task-net's output if there is a task-net, or uniform.
        inference_num_starts (`int`, default 1): starts per input; all but the first are random, and the best result
            counts. Random starts are drawn by batch: another evaluation batch size has other starts.
    """

    energy_method: str = field(
        default="spen", metadata={"help": f"How the energy network is trained: {', '.join(ENERGY_METHODS)}."}
    )
    num_samples: int = field(default=20, metadata={"help": "K, samples of the task-net per input."})
    perturbation_std: float = field(default=1.0, metadata={"help": "Standard deviation of regression_s' logit noise."})
    regression_samples: str = field(
        default="continuous", metadata={"help": f"Structures of regression_s: {', '.join(REGRESSION_SAMPLES)}."}
    )
    margin_cost: str = field(default="f1", metadata={"help": f"Δ of spen: {', '.join(COSTS)} (iou: of masks)."})

    dvn_points: list[str] = field(
        default_factory=list, metadata={"help": f"Further points of a deep value network: {', '.join(POINTS)}."}
    )
    dvn_gold_starts: float | None = field(
        default=None,
        metadata={
            "help": "Share of rows whose adversarial inference starts from the gold; default: masks 0.5, labels 0."
        },
    )

    inference_steps: int = field(default=20, metadata={"help": "Steps of inference while training."})
    inference_steps_eval: int = field(default=30, metadata={"help": "Inference steps at evaluation and prediction."})
    inference_learning_rate: float = field(default=0.1, metadata={"help": "Step size of inference, in units of y."})
    inference_optimizer: str = field(
        default="adam", metadata={"help": f"Optimizer of inference: {', '.join(OPTIMIZERS)}."}
    )
    inference_start: str = field(default=AUTO, metadata={"help": f"Start of inference: {AUTO}, {', '.join(STARTS)}."})
    inference_num_starts: int = field(default=1, metadata={"help": "Starts per input; all but the first are random."})

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check()

    def check(self) -> None:
        """ValueError for impossible values or combinations. Called again after a hyper-parameter search sets them."""
        for name in ("bf16", "fp16"):
            if getattr(self, f"{name}_full_eval"):
                raise ValueError(
                    f"`{name}_full_eval` is set, but in half precision, inference would not see the small differences "
                    f"of energies that it follows. Use {name}=True: only the encoder then runs in half precision."
                )
        choices = {"inference_optimizer": OPTIMIZERS, "inference_start": (AUTO, *STARTS)}
        for name, values in {"energy_method": ENERGY_METHODS, **choices}.items():
            check_value(name, getattr(self, name), values)
        for method in ENERGY_METHODS.values():
            method.loss_class.check_values(self)
        for point in self.dvn_points:
            if point not in POINTS:
                raise ValueError(f"`dvn_points` has {point!r}; choose from {', '.join(POINTS)}.")
        if self.dvn_gold_starts is not None and not 0 <= self.dvn_gold_starts <= 1:
            raise ValueError(f"`dvn_gold_starts` is {self.dvn_gold_starts}; it must be a share from 0 to 1.")
        if (self.dvn_points or self.dvn_gold_starts) and self.energy_method != "dvn":
            name = "dvn_points" if self.dvn_points else "dvn_gold_starts"
            raise ValueError(
                f"`{name}` works only with energy_method='dvn', not {self.energy_method!r}. Leave `{name}` out."
            )
        at_least_0 = "inference_steps inference_steps_eval inference_learning_rate"
        for name, least in {**dict.fromkeys(at_least_0.split(), 0), "inference_num_starts": 1}.items():
            check_value(name, getattr(self, name), least=least)
        if self.inference_learning_rate == 0:
            raise ValueError("`inference_learning_rate` is 0: inference would stay at its start. Set it above 0.")

    def inference(self, steps: int, has_task_net: bool) -> GradientBasedInference:
        """Inference with `steps` steps and the options of these arguments."""
        start = self.inference_start
        if start == AUTO:
            start = ENERGY_METHODS[self.energy_method].default_start(has_task_net)
        return GradientBasedInference(
            steps, self.inference_learning_rate, self.inference_optimizer, start, self.inference_num_starts
        )
