"""The start of a run of two nets: the loss-net's learner, and the extensions that the arguments ask for."""

from __future__ import annotations

from typing import Any
from weakref import WeakMethod

from transformers import PreTrainedModel

from ..core.space import OutputSpace
from ..core.task import SPACES
from ..core.task_losses import OwnBatchLoss, OwnTaskLoss
from ..energy_losses import EnergyLoss
from ..extensions import EXTENSIONS, Extension, Run
from ..loss_net.learner import Learner, reduces_sparse
from ..nets.adapters import library_of
from ..utils.compat import enable_gradient_checkpointing
from ..utils.modules import hold_statistics
from .arguments import SealTrainingArguments
from .checks import check_run, check_task_net, tell_problem_type
from .launchers import spare_crf
from .loss_weights import weigh_classes
from .padding import settle_padding


def own_loss(task_loss: Any, compute_loss_func: Any, space: OutputSpace | None) -> OwnTaskLoss | None:
    """The user's own task loss, from the arguments of a trainer.

    Raises:
        ValueError: more than one of the three is given: a space has its own task loss.
    """
    given = {"task_loss": task_loss, "compute_loss_func": compute_loss_func, "space": space}
    names = [f"`{name}`" for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"{' and '.join(names)} are given, but each sets the task loss. Give only one of them.")
    if isinstance(task_loss, str):
        raise ValueError(f"`task_loss` is {task_loss!r}, a name; expected a function. Give the name in the arguments.")
    if compute_loss_func is not None:
        return OwnBatchLoss(compute_loss_func)
    return None if task_loss is None else OwnTaskLoss(task_loss)


def made_space(trainer: Any) -> OutputSpace:
    """The output space of a trainer's run, given or made from its arguments, with its task loss. It saw all labels.

    Raises:
        ValueError: a task loss, or weights in it, that these outputs or this task-net do not support.
    """
    args, task_net, space = trainer.args, trainer.model, trainer._given_space
    if space is None:
        kind = SPACES[trainer.loss_net.config.space] if trainer.loss_net else trainer._space_class
        kind = kind or SPACES["multi_label"]  # of a net whose class tells no kind of output
        space = kind.from_arguments(args, task_net)
    if trainer._own_loss is not None:
        if getattr(space.loss, "crf", None) is not None:
            raise ValueError(
                "The task-net has a CRF, which your own loss does not train. Leave the loss out and set "
                "task_loss='crf' in the arguments."
            )
        space.loss = trainer._own_loss
    weigh_classes(space, args, task_net, trainer.train_dataset)
    for dataset in (trainer.train_dataset, trainer.eval_dataset):
        trainer.see(space, dataset)
    return space


def prepare_run(trainer: Any) -> None:
    """Set up nets and launcher for the trainer's arguments.

    Raises:
        ValueError: nets, arguments and launcher do not go together.
    """
    tell_problem_type(trainer.model, trainer.space)
    check_run(trainer)
    _settle(trainer, trainer.model)
    spare_crf(trainer.args, trainer.accelerator, trainer.model)


def prepare_net(trainer: Any, task_net: PreTrainedModel) -> None:
    """Set up a net that `model_init` made for a run.

    Raises:
        ValueError: the run cannot train it.
    """
    tell_problem_type(task_net, trainer.space)
    check_task_net(task_net, trainer.space)
    _settle(trainer, task_net)


def _settle(trainer: Any, task_net: PreTrainedModel) -> None:
    """What a task-net needs before it is trained."""
    settle_padding(trainer, task_net)
    if library_of(task_net) is not None:
        hold_statistics(task_net)  # neither checkpoints nor exports of an adapter hold the base


def wanted_extensions(
    args: SealTrainingArguments, energy_loss: EnergyLoss | type[EnergyLoss] | None, space: OutputSpace
) -> list[type[Extension]]:
    """The extensions of a run; none without an energy loss."""
    return [kind for kind in EXTENSIONS if energy_loss is not None and kind.is_wanted(args, energy_loss, space)]


def made_extensions(trainer: Any) -> list[Extension]:
    """Make the extensions of a run that begins; its learner must exist."""
    run = Run(
        args=trainer.args,
        accelerator=trainer.accelerator,
        task_net=trainer.model,
        loss_net=trainer.loss_net,
        learner=trainer.learner,
        space=trainer.space,
        energy_loss=trainer.energy_loss,
        meters=trainer.meters,
        forward_context=WeakMethod(trainer.compute_loss_context_manager),  # an extension does not hold its trainer
    )
    return [kind(run) for kind in wanted_extensions(trainer.args, trainer.energy_loss, trainer.space)]


def loss_net_learner(trainer: Any, num_training_steps: int) -> Learner:
    """Prepare the trainer's loss-net for a run of `num_training_steps` task-net updates, and make its learner.

    Raises:
        ValueError: the task-net's optimizer, which the user gave, has parameters of the loss-net.
    """
    loss_net, args, accelerator = trainer.loss_net, trainer.args, trainer.accelerator
    if args.auto_find_batch_size and trainer.loss_net_at_start is None:
        trainer.loss_net_at_start = {name: value.clone() for name, value in loss_net.state_dict().items()}
    elif args.auto_find_batch_size:  # what ran out of memory had trained it
        loss_net.load_state_dict(trainer.loss_net_at_start)
    if args.loss_net_gradient_checkpointing:
        enable_gradient_checkpointing(loss_net.encoder)
    sparse = trainer.space.is_sparse(trainer.model.config.num_labels)
    loss_net.sparse_gradients(sparse and reduces_sparse(accelerator))
    loss_net.train(args.loss_net_steps > 0)  # a fixed loss-net teaches without dropout
    kinds = wanted_extensions(args, trainer.energy_loss, trainer.space)
    loss_net.differentiate_twice(any(kind.differentiates_twice for kind in kinds))
    with loss_net.active(training=True):
        learner = Learner.of_loss_net(loss_net, accelerator, args, num_training_steps)
    theirs = {id(parameter) for group in trainer.optimizer.param_groups for parameter in group["params"]}
    if any(id(parameter) in theirs for parameter in learner.parameters):
        raise ValueError(
            "`optimizers` has an optimizer with parameters of the loss-net, which has its own optimizer. Give it the "
            "task-net's parameters alone: task_net.parameters()."
        )
    return learner
