"""`EnergyTrainer` trains and evaluates an energy network on its own: SPEN, DVN, or from samples of a task-net.
`MaskEnergyTrainer` runs inference on crops.

For a batch, a method finds the row of candidates [ŷ, y*, ...] with the current energies, by gradient-based inference or
from a task-net's samples. An energy loss of `energy_losses/` maps the energies of that row to a scalar. Prediction
needs no task-net: ŷ = argmin_y E(x, y) over the relaxed y, by gradient-based inference.

One step of the Trainer is one update of the energy network. Its forward encodes x, finds candidates with the current
energies, and returns their energies: x is encoded once, with one dropout mask, and the DDP wrapper sees one forward per
backward. Dropout behind the encoder (for masks) is off in the search for candidates, else the best iterate would be the
one with the luckiest mask. It is on in the energies that are trained.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.trainer_utils import EvalLoopOutput
from transformers.utils import ModelOutput

from ..core.gradient_descent import OPTIMIZERS, STARTS, GradientBasedInference
from ..core.space import OutputSpace
from ..core.task import SPACES
from ..core.tensors import stateless_noise, wide
from ..data.tensors.images import check_crop_size, crop_averaged
from ..energy_losses import (
    GOLD,
    NCE,
    OUTPUT,
    SAMPLES,
    Candidates,
    DeepValue,
    EnergyLoss,
    Margin,
    Ranking,
    RegressionS,
)
from ..loss_net.loss_net import LossNet, aligned
from ..nets.frozen_encoder import encoder_inputs
from ..saving.model import SealModel
from ..utils.modules import evaluating
from ..utils.options import check_class, check_value
from .arguments import GuardedArguments
from .base import StructuredTrainer
from .checks import check_task_net
from .evaluation import counted_rows
from .launchers import check_data_parallel
from .loss_weights import check_all_known, check_no_weights
from .rows import check_rows
from .task_net import set_problem_type


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
        perturbation_std (`float`, default 1.0): standard deviation of the logit noise of `regression_s`.
        regression_samples (`str`, default `"continuous"`): structures of `regression_s`, `continuous` or `discrete`, as
            in [`SealTrainingArguments`].
        margin_cost (`str`, default `"f1"`): Δ of `spen`: `f1` = 1 - soft F1 (Dice for masks), `iou` = 1 - soft IoU, for
            masks only, `l1` = summed distance, `l1_mean` = per label or pixel. Energies grow with it: a margin of `l1`
            can be as large as the number of labels.
        dvn_points (`list[str]`, default empty): further points of `dvn`, each with its exact score and without an
            inference: `start`, `other_gold`, `flipped_gold`, `mixed_gold`. They are ours, for masks: a network that
            sees one clean mask per image, the gold, learns what masks look like, not which mask is right.
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
            counts. They are drawn by batch, so another evaluation batch size gives other starts.
    """

    energy_method: str = "spen"
    num_samples: int = 20
    perturbation_std: float = 1.0
    regression_samples: str = "continuous"
    margin_cost: str = "f1"

    dvn_points: list[str] = field(default_factory=list)
    dvn_gold_starts: float | None = None

    inference_steps: int = 20
    inference_steps_eval: int = 30
    inference_learning_rate: float = 0.1
    inference_optimizer: str = "adam"
    inference_start: str = AUTO
    inference_num_starts: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check()

    def check(self) -> None:
        """Raises ValueError for impossible values or combinations. A hyper-parameter search calls it again."""
        for name in ("bf16", "fp16"):
            if getattr(self, f"{name}_full_eval"):
                raise ValueError(
                    f"`{name}_full_eval` is set, but in half precision, inference would not see the small differences "
                    f"of energies that it follows. Use {name}=True: only the encoder then runs in half precision."
                )
        choices = {"inference_optimizer": OPTIMIZERS, "inference_start": (AUTO, *STARTS)}
        for name, values in {"energy_method": ENERGY_METHODS, **choices}.items():
            check_value(name, getattr(self, name), values)
        for name, method in ENERGY_METHODS.items():
            check_class(f"The method {name!r}", method, EnergyMethod, SPEN)
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


# --- the trainer ---------------------------------------------------------------------------------------------------

ROLE = "energy network"
TRAINING, EVALUATION = 0, 1  # two streams of noise: evaluations do not change the draws of training


class EnergyTrainer(StructuredTrainer):
    """A [`~transformers.Trainer`] whose `model` is an energy network, a [`LossNet`] with an encoder of its own.

    Evaluation and prediction run gradient-based inference and return logits of the relaxed ŷ, (N, L) or, for masks, (N,
    H, W), clipped to ±13.8: metrics and thresholds for task-nets apply. `eval_loss` is the mean of E(x, y*) - E(x, ŷ),
    the structured perceptron's loss: 0 if inference finds gold, below 0 if it stops at a higher energy than gold's. Its
    scale moves with the energies: choose the best checkpoint by a metric.

    Args:
        model: a [`LossNet`] with `encoder_mode="separate"`; for example `SealForMultiLabel.for_data(data).loss_net`.
        args: [`EnergyTrainingArguments`].
        task_net: a trained task-net, which is frozen. It gives the samples of `nce`, `ranking` and `regression_s`, and
            a start for the inference. It is not saved.
        space: the output space; default: the network's.
        kwargs: as for the Trainer.

    Raises:
        ValueError: a network of another kind, a missing or unfitting task-net, an unsupported launcher, sparse label
            sets, or a data set without a `labels` column.
    """

    model_role = ROLE
    evaluates_by_length = False  # random starts of inference are drawn by batch
    _drawn = (-1, 0)  # step, and its number of micro-batches with noise drawn

    def __init__(
        self,
        model: LossNet | None = None,
        args: EnergyTrainingArguments | None = None,
        data_collator: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        *,
        task_net: PreTrainedModel | None = None,
        space: OutputSpace | None = None,
        **kwargs: Any,
    ):
        args = args if args is not None else EnergyTrainingArguments(output_dir="trainer_output")
        if not isinstance(args, EnergyTrainingArguments):
            raise ValueError(f"`args` is a {type(args).__name__}; EnergyTrainer takes EnergyTrainingArguments.")
        check_data_parallel(args)
        if model is not None:
            check_energy_network(model)
        self._given_space, self.task_net = space, task_net
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, **kwargs)
        check_data_parallel(args, self.accelerator)
        _check_dense(self.space, self.model)
        check_rows(self)
        check_all_known(self.space, train_dataset=train_dataset, eval_dataset=eval_dataset)
        check_no_weights(train_dataset)
        if task_net is not None:
            frozen: nn.Module = task_net
            frozen.to(args.device).eval().requires_grad_(False)
        self._eval_batches = 0

    # --- the algorithm -----------------------------------------------------------------------------------------------

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The method's loss on the energies of its candidates. The same forward encodes x for both."""
        labels, x = inputs["labels"], encoder_inputs(inputs)
        gold, mask = self.space.gold(labels)
        logits, noise = self._task_logits(x, gold), self._training_noise()
        starts = self._starts(self.method.inference, gold.shape, logits, noise)
        found = []

        def candidates(features: Tensor) -> Tensor:
            with evaluating(self.model), self.model.energies_at(features, mask) as energy:
                found.append(self.method.candidates(Problem(self.space, energy, labels, starts, logits, noise)))
            return found[0].y

        energies = model(candidates, mask, x)
        loss = self.method.loss(energies, found[0])
        self._meter(loss, energies.detach())
        return (loss, ModelOutput(energies=energies)) if return_outputs else loss

    def prediction_step(self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: Any = None) -> Any:
        """Gradient-based inference on one batch: (loss or None, logits, labels or None)."""
        inputs = self._prepare_inputs(inputs)
        labels, x = inputs.get("labels"), encoder_inputs(inputs)
        with torch.no_grad():
            y, features = self.infer(x)
            loss = None
            if labels is not None:
                gold, mask = self.space.gold(labels)
                row = self.space.join([y, self.space.candidate(gold)])
                energies = self.model.energies(features, row, mask)
                self._meter_energies(energies)
                count = counted_rows(self.accelerator, len(energies))
                loss = (energies[:count, GOLD] - energies[:count, OUTPUT]).mean()
        if prediction_loss_only:
            return loss, None, None
        return loss, self.space.logits(y.squeeze(1)), labels

    @torch.no_grad()
    def infer(self, x: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """ŷ = argmin_y E(x, y), (B, 1, ...), and the features of x, (B, H), in the network's current mode.

        Args:
            x: the encoder's inputs on the network's device, without labels.
        """
        with self.accelerator.autocast():
            features = self.model.encode(x)
        shape = self.space.shape(features, self.model.config.num_labels)
        logits = self._task_logits(x, features.new_empty(shape))
        starts = self._starts(self.inference, shape, logits, self._noise(EVALUATION, self._eval_batches))
        self._eval_batches += 1
        with self.model.energies_at(features) as energy:
            return self.inference(energy, starts)[0], features

    def begin_run(self, num_training_steps: int) -> None:
        super().begin_run(num_training_steps)
        self._drawn = (-1, 0)  # runs with one seed draw the same

    # --- its parts ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _task_logits(self, x: dict[str, Tensor], structure: Tensor) -> Tensor | None:
        """Logits of the frozen task-net, in the shape of a `structure` (B, ...); None if nothing needs them."""
        used = self.method.needs_task_net or self.inference.start == "task_net"
        if self.task_net is None or not used:
            return None
        with self.accelerator.autocast():
            logits = self.task_net(**x).logits
        self.space.check(logits, structure)
        return self.space.fit(logits, structure)

    def _starts(self, inference: GradientBasedInference, shape: Any, logits: Any, noise: torch.Generator) -> Tensor:
        output: Any = self.space.output(logits) if inference.start == "task_net" else None
        return inference.starts(shape, self.args.device, noise, output)

    def _training_noise(self) -> torch.Generator:
        step = self.state.global_step
        self._drawn = (step, self._drawn[1] + 1 if self._drawn[0] == step else 0)
        return self._noise(TRAINING, *self._drawn)

    def _noise(self, *key: int) -> torch.Generator:
        return stateless_noise(self.args.device, self.args.seed, self.args.process_index, *key)

    def _meter(self, loss: Tensor, energies: Tensor) -> None:
        self.meters.watch(ROLE, loss, self.state.global_step)
        self.meters.add(energy_output=energies[:, OUTPUT], energy_gold=energies[:, GOLD])
        for name, columns in self.method.extra.items():
            if energies[:, columns].shape[1]:
                self.meters.add(**{name: energies[:, columns]})

    def _take_arguments(self) -> None:
        """Output space, method and inference."""
        check_energy_network(self.model)  # `model_init` may have made another
        args, has_task_net = self.args, self.task_net is not None
        args.check()
        self.space = self._given_space or SPACES[self.model.config.space]()
        _check_task_net(self.task_net, self.model, self.space, args)
        self.space.check_cost(args.margin_cost)
        inference = args.inference(args.inference_steps, has_task_net)
        self.inference = args.inference(args.inference_steps_eval, has_task_net)
        self.method = ENERGY_METHODS[args.energy_method].from_arguments(args, inference)

    # --- the Trainer's hooks: data, evaluation -----------------------------------------------------------------------

    def _set_signature_columns_if_needed(self) -> None:
        """Keep the columns that the encoder reads, and the labels."""
        if self._signature_columns is None:
            read, encoder = self.model.energy.reads, self.model.encoder
            columns = [read] if read is not None else inspect.signature(encoder.forward).parameters
            self._signature_columns: Any = [*columns, *self.label_names]

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        self._eval_batches = 0
        return super().evaluation_loop(*args, **kwargs)


class MaskEnergyTrainer(EnergyTrainer):
    """An [`EnergyTrainer`] that infers a mask for each crop of an image and averages them (Gygli et al. 2017, §5.2).
    The network is trained on crops.

    Args:
        crop_size: side of a crop in pixels, as in the training rows ([`MaskRows`]). None: whole images.
        crop_offsets: where crops begin, or their number along a side, see [`crop_offsets`]. The default, the papers'
            six, makes 36 crops per image, each with its own inference. Two cover 32 pixels in a ninth of the time.
        args, kwargs: as for `EnergyTrainer`.

    Raises:
        ValueError: `crop_size` < 1; and as `EnergyTrainer`.

    `eval_loss` compares the energies of the averaged and the gold mask on the whole image. The network sees the whole
    image at another scale than the crops.
    """

    def __init__(
        self, *args: Any, crop_size: int | None = None, crop_offsets: Sequence[int] | int | None = None, **kwargs: Any
    ):
        super().__init__(*args, **kwargs)
        if crop_size is not None:
            check_crop_size(crop_size)
        self.crop_size, self.crop_offsets = crop_size, crop_offsets

    @torch.no_grad()
    def infer(self, x: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Infer as in `EnergyTrainer`. The result is ŷ (B, 1, H, W) and the images, which the energy reads."""
        name = self.model.energy.reads
        if self.crop_size is None or max(x[name].shape[-2:]) <= self.crop_size:
            return super().infer(x)

        def forward(crops: Tensor) -> Tensor:
            return self.space.logits(super(MaskEnergyTrainer, self).infer({**x, name: crops})[0])

        averaged = crop_averaged(forward, x[name], self.crop_size, self.crop_offsets)
        return self.space.relax(averaged).unsqueeze(1), self.model.encode(x)


def load_energy_network(folder: str | Path) -> LossNet:
    """Load an energy network that [`EnergyTrainer`] saved: evaluation mode, float32, from safetensors only.

    Args:
        folder: a folder or a Hub id.

    Raises:
        ValueError: the folder holds a model of another kind.
        OSError: no such folder, or no safetensors in it.
    """
    config = LossNet.config_class.get_config_dict(folder)[0]
    if config.get("model_type") != LossNet.config_class.model_type:
        raise ValueError(
            f"{folder} holds a model of type {config.get('model_type')!r}, expected an energy network "
            f"({LossNet.config_class.model_type!r}). For the loss-net beside a task-net, take its folder _loss_net/."
        )
    return aligned(LossNet.from_pretrained(folder, dtype=torch.float32, use_safetensors=True)).eval()


def check_energy_network(model: nn.Module) -> None:
    """Raises ValueError unless the model is a [`LossNet`] with its own encoder, for structures that fill [0, 1]^n."""
    if isinstance(model, SealModel):
        raise ValueError(
            f"`model` is a {type(model).__name__}; EnergyTrainer trains an energy network. Pass model=nets.loss_net, "
            "and task_net=nets.task_net if that is trained."
        )
    if not isinstance(model, LossNet):
        raise ValueError(f"`model` is a {type(model).__name__}; EnergyTrainer trains an energy network, a LossNet.")
    if model.config.encoder_mode != "separate":
        raise ValueError(
            f"The energy network's encoder_mode is {model.config.encoder_mode!r}, but on its own it needs its own "
            "encoder: build it with loss_net_encoder='separate'."
        )
    if not SPACES[model.config.space].fills_box:
        raise ValueError(
            f"The energy network is for {model.config.space!r} outputs, but gradient-based inference moves each entry "
            "of a structure independently in [0, 1]: it fits label sets and masks of two classes. Train this network "
            "beside a task-net, by SealTrainer."
        )


def _check_task_net(task_net: Any, model: LossNet, space: OutputSpace, args: EnergyTrainingArguments) -> None:
    if task_net is None:
        needed = ENERGY_METHODS[args.energy_method].needs_task_net
        name = f"energy_method={args.energy_method!r}" if needed else "inference_start='task_net'"
        if needed or args.inference_start == "task_net":
            raise ValueError(
                f"{name} needs a trained task-net, from a run with energy_loss='ce'. Pass `task_net=`, for example "
                f"{space.model_name}.from_pretrained(folder).task_net; or --task_net_path FOLDER to "
                f"{space.energy_program}."
            )
        return
    set_problem_type(task_net, space)
    check_task_net(task_net, space)
    if task_net.config.num_labels != model.config.num_labels:
        raise ValueError(
            f"The task-net has {task_net.config.num_labels} labels, the energy network {model.config.num_labels}. "
            "Build both for the same data."
        )


def _check_dense(space: OutputSpace, model: LossNet) -> None:
    labels: Any = model.config.num_labels
    if space.is_sparse(labels):
        raise ValueError(
            f"Label sets over {labels} labels are sparse in this space, but gradient-based inference moves every entry "
            f"of a structure. Pass space=MultiLabelSpace(sparse_from={labels + 1}); it needs memory for batch x "
            "candidates x labels."
        )
