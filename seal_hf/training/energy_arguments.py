"""EnergyTrainingArguments: the Trainer's arguments and those for an energy network on its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.gradient_descent import OPTIMIZERS, STARTS, GradientBasedInference
from ..core.task import COSTS
from ..energy_losses import REGRESSION_SAMPLES
from ..utils.options import check_value
from .energy_methods import ENERGY_METHODS, POINTS
from .run_arguments import GuardedArguments

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
