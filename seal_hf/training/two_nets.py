"""The Trainer's hooks that two nets need, but for those that save and load (saving_trainer.py): data, set-up, card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import logging

from ..data.tensors.length_order import LongestFirst, in_own_order, longest_first, order_of, put_back
from ..energy_losses import ENERGY_LOSSES, EnergyLoss
from ..implicit.hypergradient import Hypergradient
from ..implicit.phase import Implicit
from ..models import SealModel
from ..nets.feature_cache import FEATURES, with_features
from ..reports import run_card
from ..second_net.cost_augmented import CostAugmentedInference
from ..second_net.learner import Learner, reduces_sparse
from ..second_net.loss_net import LossNet
from ..second_net.optimizer import with_own_rate
from ..spaces import REWARD_CODES, SPACES, MultiLabelSpace, OutputSpace
from ..utils.compat import enable_gradient_checkpointing
from .arguments import CROSS_ENTROPY, SealTrainingArguments
from .batch_repeats import NewEpoch, WindowRepeatSampler
from .checks import (
    check_balance,
    check_export,
    check_feature_cache,
    check_given_space,
    check_hypergradient,
    check_label_values,
    check_loss_net,
    check_repeats,
    check_task_net,
)
from .launchers import check_crf, check_launcher
from .saving_trainer import SavingTrainer

logger = logging.get_logger(__name__)


class TwoNetTrainer(SavingTrainer):
    """A Trainer that knows of a loss-net, its learner, and what is trained beside it; the algorithm is `SealTrainer`'s.

    Attributes:
        energy_loss: of the loss-net, if there is one.
        implicit: what implicit gradients need.
        card_facts: what only the user knows of the card: arguments of `reports.run_card`.
    """

    args: SealTrainingArguments
    energy_loss: EnergyLoss | None
    card_facts: dict[str, Any]
    implicit: Implicit | None = None
    _space_class: type[OutputSpace] = MultiLabelSpace
    _given_loss_net: LossNet | None = None
    _positions: Tensor | None = None  # which are decoded of a batch without labels
    _initial_loss_net: dict[str, Tensor] | None = None  # its weights

    def __init__(
        self,
        model: SealModel | PreTrainedModel | None = None,
        args: SealTrainingArguments | None = None,
        data_collator=None,
        train_dataset=None,
        eval_dataset=None,
        *,
        loss_net: LossNet | None = None,
        space: OutputSpace | None = None,
        decode_predictions: bool = False,
        **kwargs,
    ):
        args = args if args is not None else SealTrainingArguments(output_dir="trainer_output")
        check_launcher(args)
        self.loss_net = self._given_loss_net = loss_net
        self._initial_loss_net = {k: v.clone() for k, v in loss_net.state_dict().items()} if loss_net else None
        self._given_space = space
        model = self._take_apart(model)
        if args.energy_loss == CROSS_ENTROPY:
            self.loss_net = None
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, **kwargs)
        if decode_predictions:
            if self.preprocess_logits_for_metrics is not None:
                raise ValueError(
                    "`decode_predictions` is True, and `preprocess_logits_for_metrics` is given: both say what becomes "
                    "of the logits in an evaluation. Leave one of them out."
                )
            self.preprocess_logits_for_metrics = self._decode
        self._check_arguments()
        check_repeats(args, self.train_dataset)
        check_label_values(self.space, train_dataset=self.train_dataset, eval_dataset=self.eval_dataset)
        if self.loss_net is not None:
            self.loss_net.to(args.device)
            self._cache_features()
        self.card_facts: dict[str, Any] = {}  # what only the user knows of the card: arguments of `reports.run_card`

    def _check_arguments(self) -> None:
        """Raises ValueError for what of nets, arguments and launcher does not go together."""
        args = self.args
        check_launcher(args, self.accelerator)
        check_given_space(self._given_space, self.model_init)
        check_crf(args, self.accelerator, self.model)
        check_task_net(self.model, self.space)
        check_loss_net(self.loss_net, args, self.model)
        check_export(self.model, args)
        if self.energy_loss is not None:
            self.space.check_loss(self.energy_loss, self.model.config.num_labels)
            check_balance(args, self.space)
            check_hypergradient(args, self.model, self.loss_net, self.space, self.accelerator.distributed_type)
        self.space.check_cost(args.margin_cost)

    def _get_train_sampler(self, train_dataset=None):
        train_dataset = train_dataset if train_dataset is not None else self.train_dataset
        if self.args.batch_repeats == 1:
            return super()._get_train_sampler(train_dataset)
        window = self._train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        seed = self.args.data_seed if self.args.data_seed is not None else self.args.seed
        sampler = WindowRepeatSampler(len(train_dataset), window, self.args.batch_repeats, seed)
        self.remove_callback(NewEpoch)
        self.add_callback(NewEpoch(sampler))
        return sampler

    def _get_eval_sampler(self, eval_dataset):
        return self._evaluation_order(eval_dataset) or super()._get_eval_sampler(eval_dataset)

    def _evaluation_order(self, dataset) -> LongestFirst | None:
        """By length, unless the order is seen, in metrics or results by batch."""
        args = self.args
        seen = args.batch_eval_metrics or not args.eval_do_concat_batches
        return None if seen or getattr(args, "use_legacy_prediction_loop", False) else longest_first(dataset)

    def _set_signature_columns_if_needed(self) -> None:
        """The columns that are not removed as unused: also the loss-net's, and what a net names as its input."""
        super()._set_signature_columns_if_needed()
        known, named = self._signature_columns, getattr(self.model, "input_names", ())
        known += [name for name in (FEATURES, REWARD_CODES, *named) if name not in known]

    def create_optimizer(self, *args, **kwargs):
        """The Trainer's, with the CRF's own rate where it has one."""
        made = self.optimizer is None
        optimizer = super().create_optimizer(*args, **kwargs)
        crf, rate = getattr(self.model, "crf", None), self.args.crf_learning_rate
        if made and crf is not None and rate is not None:
            with_own_rate(self.optimizer, crf.parameters(), rate)
        return optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        """The learner's schedule needs the length of the run too; a threshold was tuned for the nets as they were."""
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        if self._trial is not None:  # a search has changed the arguments
            self._check_arguments()
        if num_training_steps > 0:
            vars(self.model.config).pop("threshold", None)
        self.learner = self.partner = self.implicit = None  # of this run alone
        if self.args.energy_loss != CROSS_ENTROPY:
            self._build_learner(num_training_steps)
        return scheduler

    def _build_learner(self, num_training_steps: int) -> None:
        """The loss-net's learner, and beside it what implicit gradients or a cost-augmented network need."""
        args, loss_net = self.args, self.loss_net
        if args.hypergradient != "none":
            config = Hypergradient.from_arguments(args)
            parts = (loss_net, self.space, self.energy_loss, args.task_weight)
            self.implicit = Implicit(config, self.model, args.hypergradient_parameters, *parts)
        if args.loss_net_gradient_checkpointing:
            enable_gradient_checkpointing(loss_net.encoder)
        sparse = self.space.is_sparse(self.model.config.num_labels)
        loss_net.sparse_gradients(sparse and reduces_sparse(self.accelerator))
        loss_net.train(args.loss_net_steps > 0)  # one that is left as it is teaches without dropout
        loss_net.differentiate_twice(args.hypergradient != "none")
        with loss_net.active(training=True):
            self.learner = Learner.of_loss_net(loss_net, self.accelerator, args, num_training_steps)
        if self.partner_kind is not None:
            self.partner = CostAugmentedInference.beside(
                self.model, loss_net, self.accelerator, args, self.energy_loss, self.space
            )

    @property
    def partner_kind(self) -> str | None:
        """The parameterization of the cost-augmented network that the energy loss asks for, if it does."""
        loss = ENERGY_LOSSES.get(self.args.energy_loss)
        return self.args.cost_augmented_network if loss is not None and loss.has_partner else None

    def _take_arguments(self) -> None:
        """Output space and energy loss."""
        self.args.check()
        kind = ENERGY_LOSSES.get(self.args.energy_loss)  # none of cross-entropy
        self.energy_loss = kind.from_arguments(self.args) if kind is not None else None
        kind = SPACES[self.loss_net.config.space] if self.loss_net else self._space_class
        self.space = self._given_space or kind.from_arguments(self.args, self.model)
        options = self.space.decoding_options()
        for name in (name for name, value in options.items() if not value and getattr(self.model.config, name, False)):
            logger.warning(f"The task-net was saved with `{name}`, and this run does without: give it to keep it.")
        self.model.config.update(options)

    def call_model_init(self, trial=None) -> nn.Module:
        model = self._take_apart(super().call_model_init(trial))
        if self.args.energy_loss == CROSS_ENTROPY:
            self.loss_net = None
        elif self._given_loss_net is not None:
            self.loss_net = self._given_loss_net  # a trial of cross-entropy may have taken it away
            self.loss_net.load_state_dict(self._initial_loss_net)
        if self.space is not None:  # not the first one, of which the constructor asks that and more
            check_task_net(model, self.space)
        return model

    def _take_apart(self, model):
        """A SealForMultiLabel or the like gives the Trainer its task-net, and us its loss-net, if we have none."""
        if not isinstance(model, SealModel):
            return model
        self._space_class = model.space_class
        if self._given_loss_net is None:
            self.loss_net = model.loss_net
        return model.task_net

    def _log_facts(self, facts: dict[str, float], at_end: bool) -> dict[str, float]:
        if self.implicit is not None:
            self.implicit.read(facts)
        if at_end:  # which `train` gives back
            return {} if self.implicit is None else {f"train_{k}": value for k, value in self.implicit.last.items()}
        if self.learner is not None:
            facts["loss_net_learning_rate"] = self.learner.learning_rate
        return facts

    def evaluation_loop(self, dataloader, *args, **kwargs):
        """By length where the order is not seen, and put back."""
        order, compute_metrics = order_of(dataloader), self.compute_metrics
        if order is not None and compute_metrics is not None:
            self.compute_metrics = in_own_order(compute_metrics, order)
        try:
            output = super().evaluation_loop(dataloader, *args, **kwargs)
        finally:
            self.compute_metrics = compute_metrics
        if order is None:
            return output
        return output._replace(
            predictions=put_back(output.predictions, order), label_ids=put_back(output.label_ids, order)
        )

    def prediction_step(self, model, inputs, *args, **kwargs):
        if self.preprocess_logits_for_metrics == self._decode and "labels" not in inputs:
            self._positions = self.space.positions(self.model, self._prepare_inputs(inputs))
        return super().prediction_step(model, inputs, *args, **kwargs)

    def _decode(self, logits: Tensor | tuple[Tensor, ...], labels: Tensor | None) -> Tensor:
        logits = logits[0] if isinstance(logits, tuple) else logits
        mask = self._positions if labels is None else self.space.gold(labels)[1]
        if mask is not None and labels is None:  # which is not padded to the width of other processes, as labels are
            mask = F.pad(mask, (0, logits.shape[1] - mask.shape[1]))
        return self.space.decode(logits, mask=mask)

    def create_model_card(self, **facts) -> None:
        """README.md of the output folder, written anew on every push: our card in place of the Trainer's draft."""
        if self.is_world_process_zero():
            card = run_card(self, **{**self.card_facts, **facts})
            Path(self.args.output_dir, "README.md").write_text(card, encoding="utf-8")

    def _cache_features(self) -> None:
        """With `loss_net_feature_cache`: freeze the loss-net's encoder and take its features from the disk."""
        folder, encoder = self.args.loss_net_feature_cache, self.loss_net.encoder
        if folder is None:
            return
        rows = {"train_dataset": self.train_dataset, "eval_dataset": self.eval_dataset}
        check_feature_cache(self.loss_net, self.model_init, **rows)
        encoder.requires_grad_(False)
        with self.args.main_process_first(desc="features of the loss-net's frozen encoder"):
            if self.train_dataset is not None:
                self.train_dataset = with_features(encoder, self.train_dataset, folder)
            if self.eval_dataset is not None:
                self.eval_dataset = with_features(encoder, self.eval_dataset, folder)
