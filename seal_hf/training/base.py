"""What the trainers of structured outputs here have in common: a loss of their own, checked data, meters."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor, nn
from torch.utils.data import Subset
from transformers import Trainer, set_seed
from transformers.trainer_utils import default_compute_objective

from ..data.tensors.collators import TensorRows, collate_rows
from ..energy_losses import GOLD, OUTPUT
from ..nets.feature_cache import FEATURES
from ..second_net.loss_net import LossNet
from ..spaces import REWARD_CODES, OutputSpace
from .checks import check_columns, check_embeddings, check_label_names, check_own_loss, check_saving
from .meters import Meters


class StructuredTrainer(Trainer):
    """A Trainer with a loss of its own, the mean over a micro-batch, between a net's output and a `labels` column. Its
    loaders take whole batches of every [`TensorRows`] as they are, unless it was given a `data_collator`.

    What a subclass is given besides, it sets before it calls this constructor, which takes the arguments.

    Attributes:
        space: the output space, with the arguments as they are.
        loss_net: the network beside the model, if there is one.
        meters, eval_meters: what is logged beside the Trainer's own, in training and of an evaluation.
        model_role: what messages call the model.

    Raises:
        ValueError: arguments that change the Trainer's loss or save within a step, or data without `labels`.
    """

    loss_is_scaled_for_ga = False  # ours is a mean over the micro-batch: the Trainer divides by the accumulation steps
    model_role = "task-net"
    space: OutputSpace | None = None  # until the model is there
    _given_space: OutputSpace | None = None
    loss_net: LossNet | None = None
    _trial = None  # the Trainer's own: that whose arguments it has taken

    def __init__(self, model, args, data_collator=None, train_dataset=None, eval_dataset=None, **kwargs):
        check_saving(args)
        check_own_loss(args, kwargs.get("compute_loss_func"))
        check_label_names(args)
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, **kwargs)
        check_embeddings(self.model, args)
        check_columns(train_dataset=train_dataset, eval_dataset=eval_dataset)
        self._default_collator = self.data_collator if data_collator is None else None
        self._take_collator(train_dataset)  # for loaders of a subclass, which read the attribute
        self.model_accepts_loss_kwargs = False
        self.label_names = ["labels"]
        self._reset_meters()
        self._take_arguments()

    def _take_arguments(self) -> None:
        """The output space, and what else is made of the arguments as they are: a hyper-parameter search changes them,
        so that this is done again when a run begins."""
        raise NotImplementedError

    def call_model_init(self, trial=None) -> nn.Module:
        """As the Trainer's, of a trial's arguments: transformers 5 asks for its nets before it takes those, so that
        `model_init(trial)` would find no `trial.params`, and the arguments as they were."""
        if trial is not None and self._trial is not trial:
            self._hp_search_setup(trial)
            set_seed(self.args.seed)
        return super().call_model_init(trial)

    def hyperparameter_search(self, hp_space=None, compute_objective=None, *args, **kwargs):
        """As the Trainer's; its default objective, the loss or the sum of the metrics, is taken without energies, which
        have no scale."""
        return super().hyperparameter_search(hp_space, compute_objective or _default_objective, *args, **kwargs)

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        """The one hook, on both transformers lines, that knows that a run begins, and how long it is."""
        self._take_arguments()
        self._reset_meters()
        return super().create_scheduler(num_training_steps, optimizer)

    def get_train_dataloader(self):
        self._take_collator(self.train_dataset)
        return super().get_train_dataloader()

    def get_eval_dataloader(self, eval_dataset=None):
        dataset = eval_dataset if eval_dataset is not None else self.eval_dataset
        self._take_collator(self.eval_dataset[dataset] if isinstance(dataset, str) else dataset)
        with self._whole_evaluation():
            return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset):
        self._take_collator(test_dataset)
        with self._whole_evaluation():
            return super().get_test_dataloader(test_dataset)

    @contextlib.contextmanager
    def _whole_evaluation(self):
        """`dataloader_drop_last` is for training: a figure, and predictions, are of all rows."""
        asked, self.args.dataloader_drop_last = self.args.dataloader_drop_last, False
        try:
            yield
        finally:
            self.args.dataloader_drop_last = asked

    def _take_collator(self, dataset) -> None:
        if self._default_collator is not None:
            while isinstance(dataset, Subset):  # gives whole batches too, as what it is of does
                dataset = dataset.dataset
            self.data_collator = collate_rows if isinstance(dataset, TensorRows) else self._default_collator

    def evaluate(self, *args, **kwargs):
        """As the Trainer's; nets that diverge in training stop it here too, before a metric is asked about NaN."""
        if self.is_in_train:
            self._check_finite()
        return super().evaluate(*args, **kwargs)

    def evaluation_loop(self, *args, metric_key_prefix: str = "eval", **kwargs):
        self.eval_meters.drain()
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        output.metrics.update({f"{metric_key_prefix}_{k}": v for k, v in self.eval_meters.drain().items()})
        return output

    def _determine_best_metric(self, metrics: dict[str, float], trial) -> bool:
        """As the Trainer's; a metric that is none of the evaluation's is a ValueError, with its names."""
        try:
            return super()._determine_best_metric(metrics, trial)
        except KeyError as error:
            raise ValueError(error.args[0]) from error

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """With what was metered in training; an evaluation's is in its metrics."""
        if "loss" in logs or "train_loss" in logs:  # while training, and once at its end
            self.meters.check()
            logs |= self._log_facts(self.meters.drain(), at_end="train_loss" in logs)
        super().log(logs, start_time)

    def _log_facts(self, facts: dict[str, float], at_end: bool) -> dict[str, float]:
        """What a log of training says of what was metered since the last; the closing one has the Trainer's totals."""
        return {} if at_end else facts

    def _meter_energies(self, energies: Tensor) -> None:
        """Those of output and gold, (B, 2), in an evaluation."""
        energies = self.accelerator.gather_for_metrics(energies)  # less the rows that filled up the last batch
        self.eval_meters.add(energy_output=energies[:, OUTPUT], energy_gold=energies[:, GOLD])

    def _check_finite(self) -> None:
        self.meters.check({self.model_role: self.model, "loss-net": self.loss_net})

    def _reset_meters(self) -> None:
        self.meters, self.eval_meters = Meters(self.accelerator), Meters(self.accelerator)


def _default_objective(metrics: dict[str, float]) -> float:
    names = [name for name in metrics if not name.endswith(("_energy_output", "_energy_gold"))]
    return default_compute_objective({name: metrics[name] for name in names})


def encoder_inputs(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """What an encoder takes of a batch."""
    return {name: value for name, value in batch.items() if name not in ("labels", FEATURES, REWARD_CODES)}
