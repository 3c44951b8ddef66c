"""The set-up of a run of two nets, and the Trainer's hooks outside a step: data, evaluation, saving."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakMethod

from torch import Tensor, nn
from transformers import PreTrainedModel, set_seed
from transformers.trainer_utils import TrainOutput
from transformers.utils import logging

from ..core.decisions import Decisions
from ..core.space import REWARD_CODES, SAMPLE_WEIGHT, SOFT_LABELS, OutputSpace
from ..core.task import SPACES, task_losses, task_of
from ..core.task_losses import OwnBatchLoss, OwnTaskLoss
from ..energy_losses import CROSS_ENTROPY, ENERGY_LOSSES
from ..extensions import Extension, Run, wanted_extensions
from ..loss_net.energy_weight import Alignment, EnergyWeight, Lessons, prefix_of
from ..loss_net.learner import Learner, reduces_sparse, with_own_rate
from ..loss_net.loss_net import LossNet
from ..nets.adapters import library_of
from ..nets.frozen_encoder import FEATURES, OUTPUTS, FrozenEncoder, with_cached_features
from ..nets.heads import MEAN
from ..nets.task_nets import check_is_pretrained_model
from ..reports.common import Verdict
from ..saving.checkpoints import read_record
from ..saving.model import SealModel, kind_of
from ..utils.compat import enable_gradient_checkpointing
from ..utils.messages import in_words
from ..utils.modules import hold_statistics
from .arguments import SealTrainingArguments
from .base import StructuredTrainer
from .checkpoints import FRESH, TwoNetCheckpoints
from .checks import (
    check_feature_cache,
    check_freezing,
    check_run,
    check_task_net,
)
from .epochs import WindowRepeatSampler, has_few_labels
from .evaluation import PredictionDecoder, changed, check_undecoded, fit_decisions
from .hints import verdict_of
from .launchers import check_launcher, spare_crf
from .loss_weights import weigh_classes
from .rows import check_repeats, check_rows, each_dataset
from .task_net import fresh_names, own_rates, set_problem_type, settle_padding, store_decoding

FEATURE_FOLDER = "_features"  # in the output folder; the Trainer's push to the Hub skips names that begin with `_`

logger = logging.get_logger(__name__)


class TwoNetTrainer(StructuredTrainer):
    """The base of [`SealTrainer`], which adds the step: two nets, the loss-net's learner, and the extensions."""

    args: SealTrainingArguments
    optimizer: Any
    loss_net: Any = None  # a [`LossNet`], with an energy loss
    energy_loss: Any = None  # an [`EnergyLoss`]
    energy_weight: EnergyWeight
    learner: Any = None  # a [`Learner`] during a run with an energy loss
    extensions: list[Extension] = []
    fresh: set[str] = set()  # names of the task-net's parameters that did not come with its pretrained encoder
    alignment: Alignment  # of the current evaluation
    given_decoder: str | None = None  # the decoder passed to `fit_decisions`
    frozen_encoder: Any = None  # a [`FrozenEncoder`], with `freeze_encoder`
    loss_net_is_cached = False  # True if the features of the loss-net's own encoder are read from disk
    _loss_net_at_start: dict[str, Tensor] | None = None  # with `auto_find_batch_size`, which begins a run several times
    _space_class: type[OutputSpace] | None = None  # of label sets, if the net does not tell
    linear_head: Any = None  # the logistic regression that took the place of a training
    _writes_card = False  # True after `fit_decisions`

    # --- the nets ----------------------------------------------------------------------------------------------------

    def __init__(
        self,
        model: SealModel | PreTrainedModel | None = None,
        args: SealTrainingArguments | None = None,
        data_collator: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        *,
        loss_net: LossNet | None = None,
        space: OutputSpace | None = None,
        task_loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        decode_predictions: bool = False,
        **kwargs: Any,
    ):
        args = args if args is not None else SealTrainingArguments(output_dir="trainer_output")
        check_launcher(args)
        if loss_net is not None and not isinstance(loss_net, LossNet):
            raise ValueError(f"`loss_net` is {in_words(loss_net)}; expected a LossNet, such as `nets.loss_net`.")
        self.loss_net = self._given_loss_net = loss_net
        self._initial_loss_net: Any = None  # its weights, to begin each trial of a search with
        if loss_net is not None and kwargs.get("model_init") is not None:
            self._initial_loss_net = {name: value.clone() for name, value in loss_net.state_dict().items()}
        self._given_space, self._own_loss = space, own_loss(task_loss, kwargs.pop("compute_loss_func", None), space)
        self.alignment = Alignment()
        self.card_facts: dict[str, Any] = {}
        model = self._take_apart(model, args)
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, **kwargs)
        if decode_predictions:
            check_undecoded(self.preprocess_logits_for_metrics)
            self.preprocess_logits_for_metrics = PredictionDecoder(self)
        self._prepare_run()
        check_repeats(args, self.train_dataset)
        check_rows(self)
        if self.loss_net is not None:
            self.loss_net.to(args.device)
        self._freeze_encoders()

    def _take_apart(self, model: Any, args: SealTrainingArguments) -> Any:
        """Return the task-net. Keep the loss-net of a [`SealModel`] unless one was given."""
        model = self._with_loss_net(model, args)
        if (kind := kind_of(model)) is not None:
            self._space_class = kind.space_of(model.task_net if isinstance(model, SealModel) else model)
        missing: list[str] = []
        self.fresh = set()
        if isinstance(model, SealModel):
            self.loss_net, missing = self._given_loss_net or model.loss_net, model.fresh
            model = model.task_net
        if model is not None:  # `model_init` makes it later
            self.fresh = fresh_names(model, missing)
        if args.energy_loss == CROSS_ENTROPY:
            self.loss_net = None
        return model

    def _with_loss_net(self, model: Any, args: SealTrainingArguments) -> Any:
        """Add a fresh loss-net, drawn from `args.seed`, to a plain task-net of a known kind if the run needs one: it
        has an energy loss, and no loss-net was given. Return any other model unchanged.

        Raises:
            TypeError: the model is a class, or lacks a config.
        """
        if model is None or (isinstance(model, SealModel) and model.loss_net is not None):
            return model
        if isinstance(model, type) or not hasattr(model, "config"):
            check_is_pretrained_model(model, "SealTrainer")
        if self._given_loss_net is not None or args.energy_loss == CROSS_ENTROPY:
            return model
        if (kind := kind_of(model, self._given_space)) is None:
            return model
        set_seed(args.seed)
        task_net = model.task_net if isinstance(model, SealModel) else model
        seal = kind.from_task_net(task_net, loss_net_encoder=args.loss_net_encoder)
        built = seal.loss_net.config
        if self.space is None:  # the first net; `model_init` makes further ones
            logger.warning(
                f"`model` is a plain {type(task_net).__name__}: built a fresh loss-net for it (encoder: "
                f"{built.encoder_mode}, energy: {built.energy}), as {kind.__name__}.from_task_net does."
            )
        return seal

    def call_model_init(self, trial: Any = None) -> nn.Module:
        made = super().call_model_init(trial)
        if self._given_loss_net is not None:
            self.loss_net = self._given_loss_net  # a trial with cross-entropy may have removed it
            self.loss_net.load_state_dict(self._initial_loss_net)
        model = self._take_apart(made, self.args)
        if self.space is not None:  # the constructor checks the first net itself
            set_problem_type(model, self.space)
            check_task_net(model, self.space)
            self._settle(model)
        return model

    def _prepare_run(self) -> None:
        """Set up nets and launcher for the current arguments.

        Raises:
            ValueError: nets, arguments and launcher do not go together.
        """
        set_problem_type(self.model, self.space)
        check_run(self)
        self._settle(self.model)
        spare_crf(self.args, self.accelerator, self.model)

    def _settle(self, task_net: PreTrainedModel) -> None:
        """What a task-net needs before it is trained."""
        tokenizer = getattr(self.data_collator, "tokenizer", None) or self.processing_class
        settle_padding(task_net, tokenizer, train_dataset=self.train_dataset, eval_dataset=self.eval_dataset)
        if library_of(task_net) is not None:
            hold_statistics(task_net)  # neither checkpoints nor exports of an adapter hold the base

    def _freeze_encoders(self) -> None:
        """With `loss_net_feature_cache`, freeze the loss-net's encoder; with `freeze_encoder`, both. Their outputs are
        then read from disk.

        Raises:
            ValueError: an encoder cannot be frozen, or the rows cannot keep its outputs.
        """
        args, loss_net = self.args, self.loss_net
        rows = {"train_dataset": self.train_dataset, "eval_dataset": self.eval_dataset}
        rows = {name: dataset for name, dataset in rows.items() if dataset is not None}
        of_loss_net = loss_net is not None and (args.loss_net_feature_cache or args.freeze_encoder)
        if args.freeze_encoder and rows:
            check_freezing(self, **rows)
            pooling = loss_net.pooling if loss_net is not None else None
            first: Any = next(part for _, part in each_dataset(rows))
            self.frozen_encoder = FrozenEncoder(self.model, first, pooling or MEAN)
            of_loss_net = of_loss_net and loss_net.config.encoder_mode != "shared"
        if of_loss_net:
            check_feature_cache(loss_net, self.model_init, **rows)
            loss_net.encoder.requires_grad_(False)
        self.loss_net_is_cached = bool(of_loss_net)
        for name, dataset in rows.items():
            described = self.contents_of(name) if self.frozen_encoder is not None else None  # with the texts
            setattr(self, name, self.kept_rows(dataset))
            if described is not None:
                self._contents[name] = getattr(self, name), described

    def kept_rows(self, dataset: Any) -> Any:
        """A data set with what the frozen encoders give for its rows; itself if none is frozen."""
        args, kept = self.args, dataset
        if isinstance(dataset, dict):
            return {name: self.kept_rows(part) for name, part in dataset.items()}
        if self.frozen_encoder is None and not self.loss_net_is_cached:
            return dataset
        folder = args.loss_net_feature_cache or Path(str(args.output_dir), FEATURE_FOLDER)
        with args.main_process_first(desc="what frozen encoders give"):
            if self.loss_net_is_cached:
                kept = with_cached_features(self.loss_net.encoder, dataset, folder, self.loss_net.pooling)
            if self.frozen_encoder is not None:
                kept = self.frozen_encoder.rows(dataset, folder, kept)
        return kept

    # --- the start of a run ------------------------------------------------------------------------------------------

    def _take_arguments(self) -> None:
        """Output space, energy loss and λ1."""
        args = self.args
        args.check()
        loss = ENERGY_LOSSES.get(args.energy_loss)  # None for cross-entropy
        self.energy_loss = loss.from_arguments(args) if loss is not None else None
        self.space = self._make_space()
        summed = partial(self.accelerator.reduce, reduction="sum")
        self.energy_weight = EnergyWeight(args, self.space.has_all_gold, summed, prefix_of(self.eval_dataset))
        if loss is not None and loss.reads_weight:
            self.energy_loss.weight = self.energy_weight.constant
        store_decoding(self.model, self.space)

    def _make_space(self) -> OutputSpace:
        """The output space, given or made from the arguments, with its task loss. It saw all labels.

        Raises:
            ValueError: a task loss, or weights in it, that these outputs or this task-net do not support.
        """
        args, task_net, space = self.args, self.model, self._given_space
        if space is None:
            kind = SPACES[self.loss_net.config.space] if self.loss_net else self._space_class
            space = (kind or SPACES["multi_label"]).from_arguments(args, task_net)
        if self._own_loss is not None:
            if getattr(space.loss, "crf", None) is not None:
                raise ValueError(
                    "The task-net has a CRF, which your own loss does not train. Leave the loss out and set "
                    "task_loss='crf' in the arguments."
                )
            space.loss = self._own_loss
        weigh_classes(space, args, task_net, self.train_dataset)
        for dataset in (self.train_dataset, self.eval_dataset):
            self.see(space, dataset)
        return space

    @property
    def task_loss_name(self) -> str:
        """The name of the task loss that trains the task-net; of the user's own, that of its function or class."""
        loss = self._own_loss or getattr(self._given_space, "loss", None)
        if loss is None:
            return self.args.task_loss
        own = getattr(loss, "function", type(loss))
        known = (name for name, losses in task_losses().items() if own in losses)
        return next(known, getattr(own, "__name__", type(own).__name__))

    def train(self, *args: Any, **kwargs: Any) -> TrainOutput:
        """Train as [`StructuredTrainer`] does. The task-net's config then holds the verdict on the training."""
        self._loss_net_at_start = None
        result = super().train(*args, **kwargs)
        self.store_verdict()
        return result

    def take_linear_head(self, head: Any) -> None:
        """Take note that a logistic regression, `head`, stands in the task-net in place of a training."""
        self.linear_head = head

    def conclude(self, verdict: Verdict, **facts: Any) -> None:
        """Store the verdict on the whole run, and `facts` for its card, see [`run_card`]. Call it before the nets are
        saved."""
        self.store_verdict(verdict)
        self.card_facts = {"verdict": verdict, **facts}

    def store_verdict(self, verdict: Verdict | None = None) -> None:
        """Write a verdict, by default that on the training alone, into the task-net's config."""
        if self.state.global_step > 0 or self.linear_head is not None:  # else the run of these weights has stored one
            config: Any = self.accelerator.unwrap_model(self.model).config
            config.verdict = (verdict or verdict_of(self)).as_json()

    def begin_run(self, num_training_steps: int) -> None:
        super().begin_run(num_training_steps)
        if self._trial is not None:  # a search changed the arguments
            self._prepare_run()
        self.learner, self.extensions = None, []  # each run has its own
        if self.energy_loss is None:
            return
        kinds = wanted_extensions(self.args, self.energy_loss, self.space)
        self.loss_net.differentiate_twice(any(kind.differentiates_twice for kind in kinds))
        self.learner = self._make_learner(num_training_steps)
        run = Run(
            args=self.args,
            accelerator=self.accelerator,
            task_net=self.model,
            loss_net=self.loss_net,
            learner=self.learner,
            space=self.space,
            energy_loss=self.energy_loss,
            meters=self.meters,
            energy_weight=self.energy_weight,
            forward_context=WeakMethod(self.compute_loss_context_manager),  # an extension does not hold its trainer
        )
        self.extensions = [kind(run) for kind in kinds]

    def _make_learner(self, num_training_steps: int) -> Learner:
        """Prepare the loss-net for a run of `num_training_steps` task-net updates, and make its learner.

        Raises:
            ValueError: the task-net's optimizer, which the user gave, has parameters of the loss-net.
        """
        loss_net, args, accelerator = self.loss_net, self.args, self.accelerator
        if args.auto_find_batch_size and self._loss_net_at_start is None:
            self._loss_net_at_start = {name: value.clone() for name, value in loss_net.state_dict().items()}
        elif args.auto_find_batch_size:  # what ran out of memory had trained it
            loss_net.load_state_dict(self._loss_net_at_start)
        if args.loss_net_gradient_checkpointing:
            enable_gradient_checkpointing(loss_net.encoder)
        sparse = self.space.is_sparse(self.model.config.num_labels)
        loss_net.sparse_gradients(sparse and reduces_sparse(accelerator))
        loss_net.train(args.loss_net_steps > 0)  # a fixed loss-net teaches without dropout
        with loss_net.active(training=True):
            learner = Learner.of_loss_net(loss_net, accelerator, args, num_training_steps)
        theirs = {id(parameter) for group in self.optimizer.param_groups for parameter in group["params"]}
        if any(id(parameter) in theirs for parameter in learner.parameters):
            raise ValueError(
                "The optimizer, from `optimizers` or `create_optimizer`, has parameters of the loss-net, which has an "
                "optimizer of its own. Give it the task-net's parameters alone: trainer.model.parameters()."
            )
        return learner

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        """The Trainer's optimizer. A fresh head and a CRF get their own rates."""
        made = self.optimizer is None
        optimizer: Any = super().create_optimizer(*args, **kwargs)
        for parameters, rate in own_rates(self.model, self.args, self.fresh) if made else ():
            with_own_rate(self.optimizer, parameters, rate)
        return optimizer

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        """As the Trainer's. The checkpoint's record names the head that was fresh when the run began."""
        record = read_record(resume_from_checkpoint)
        self.fresh = self.fresh if record is None else set(record.get(FRESH, ()))  # older runs had one rate
        super()._load_from_checkpoint(resume_from_checkpoint, model)

    # --- data --------------------------------------------------------------------------------------------------------

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        train_dataset = self.train_dataset if train_dataset is None else train_dataset
        if self.args.batch_repeats == 1 and not has_few_labels(train_dataset):
            return super()._get_train_sampler(train_dataset)
        sampler = WindowRepeatSampler.of_trainer(self, train_dataset)
        self._tell_epochs(sampler)
        return sampler

    def _set_signature_columns_if_needed(self) -> None:
        """Keep the loss-net's columns too, and those that a net names as its input."""
        super()._set_signature_columns_if_needed()
        known: Any = self._signature_columns
        named = getattr(self.model, "input_names", ())
        known += [
            name for name in (FEATURES, OUTPUTS, REWARD_CODES, SAMPLE_WEIGHT, SOFT_LABELS, *named) if name not in known
        ]

    # --- evaluation and decisions ------------------------------------------------------------------------------------

    def _evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """An evaluation of the run itself, by the Trainer."""
        metrics = super()._evaluate(*args, **kwargs)
        self.energy_weight.check_measured(self.state)
        return metrics

    def _evaluation_facts(self) -> dict[str, float]:
        return super()._evaluation_facts() | self.alignment.drain(with_pull=not self.space.has_all_gold)

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self.preprocess_logits_for_metrics, PredictionDecoder):
            self.preprocess_logits_for_metrics.see(inputs)
        return super().prediction_step(model, inputs, *args, **kwargs)

    def fit_decisions(self, dataset: Any = None, decoder: str | None = None) -> Decisions:
        """Fit how outputs become decisions and store it in the task-net's config; `save_model` adds the model card.

        Args:
            dataset: validation rows with labels; default: `eval_dataset`.
            decoder: default: chosen by cross-fitting on these rows.

        Raises:
            ValueError: no rows, no labels, or an unknown decoder.
        """
        self._writes_card, self.given_decoder = True, decoder
        return fit_decisions(self, self.eval_dataset if dataset is None else dataset, decoder)

    @property
    def lessons(self) -> Lessons | None:
        """How far the loss-net taught the task-net whose weights are kept; None without a loss-net."""
        if self.energy_loss is None:
            return None
        return self.energy_weight.lessons(self.state, bool(self.args.load_best_model_at_end))

    def _check_finite(self) -> None:
        self.meters.check({self.model_role: self.model, "loss-net": self.loss_net})

    # --- saving ------------------------------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> TwoNetCheckpoints:
        """What is on disk."""
        return TwoNetCheckpoints(self)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save as the Trainer does. After `fit_decisions`, also write the model card."""
        super().save_model(output_dir, _internal_call)
        if self._writes_card and not self.in_checkpoint:
            self.create_model_card(output_dir=output_dir, model_name=Path(output_dir).name if output_dir else None)

    def create_model_card(self, *args: Any, output_dir: str | None = None, **facts: Any) -> None:
        """Write our card as README.md of a folder (default: the output folder), on every push too. For outputs whose
        task has no cards, it is the Trainer's."""
        from .card import run_card

        if (task := task_of(self.space)) is None or not task.cards:
            with changed(self.args, output_dir=output_dir or self.args.output_dir):
                return super().create_model_card(*args, **facts)
        if self.is_world_process_zero():
            card = run_card(self, **{**self.card_facts, **facts})
            Path(output_dir or str(self.args.output_dir), "README.md").write_text(card, encoding="utf-8")


def own_loss(task_loss: Any, compute_loss_func: Any, space: OutputSpace | None) -> OwnTaskLoss | None:
    """The user's own task loss, from the arguments of a trainer.

    Raises:
        ValueError: more than one of the three is given, since a space has its own task loss; or one is of another kind,
            such as a class or a name.
    """
    given = {"task_loss": task_loss, "compute_loss_func": compute_loss_func, "space": space}
    names = [f"`{name}`" for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"{' and '.join(names)} are given, but each sets the task loss. Give only one of them.")
    for name, value in given.items():
        if isinstance(value, type):
            raise ValueError(f"`{name}` is the class {value.__name__}; expected an object, such as {value.__name__}().")
        if isinstance(value, str) or not (value is None or name == "space" or callable(value)):
            expected = "an OutputSpace" if name == "space" else "a function; the arguments take the name of a loss"
            raise ValueError(f"`{name}` is {in_words(value)}; expected {expected}.")
    if compute_loss_func is not None:
        return OwnBatchLoss(compute_loss_func)
    return None if task_loss is None else OwnTaskLoss(task_loss)
