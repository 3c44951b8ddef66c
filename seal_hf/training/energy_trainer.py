"""EnergyTrainer trains and evaluates an energy network on its own: SPEN, DVN, or from samples of a task-net.
MaskEnergyTrainer runs inference on crops.

Prediction needs no task-net: ŷ = argmin_y E(x, y) by gradient-based inference. One step of the Trainer is one update of
the energy network. Its forward encodes x, finds candidates with the current energies, and returns their energies: x is
encoded once, with one dropout mask, and the DDP wrapper sees one forward per backward. Dropout behind the encoder (for
masks) is off in the search for candidates, else the best iterate would be the one with the luckiest mask. It is on in
the energies that are trained.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.trainer_utils import EvalLoopOutput
from transformers.utils import ModelOutput

from ..core.gradient_descent import GradientBasedInference
from ..core.space import OutputSpace
from ..core.task import SPACES
from ..data.tensors.crops import check_crop_size, crop_averaged
from ..energy_losses import GOLD, OUTPUT
from ..loss_net.loss_net import LossNet, aligned
from ..nets.frozen_encoder import encoder_inputs
from ..saving.model import SealModel
from ..utils.modules import evaluating
from ..utils.tensors import stateless_noise
from .base import StructuredTrainer
from .checks import check_task_net, set_problem_type
from .energy_methods import ENERGY_METHODS, EnergyTrainingArguments, Problem
from .evaluation import counted_rows
from .launchers import check_data_parallel
from .loss_weights import check_all_known, check_no_weights
from .rows import check_rows

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
        task_net: a trained task-net, which gets frozen. It gives the samples of `nce`, `ranking` and `regression_s`,
            and a start of inference. It is not saved.
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
        crop_size: side of a crop in pixels, as in the training rows ([`MaskRows`]); None: inference on whole images.
        crop_offsets: where crops begin, or their number along a side, see [`crop_offsets`]. The default, the papers'
            six, makes 36 crops per image, each with its own inference. Two cover 32 pixels in a ninth of the time.
        args, kwargs: as for `EnergyTrainer`.

    Raises:
        ValueError: `crop_size` < 1; and as `EnergyTrainer`.

    `eval_loss` compares the energies of the averaged and the gold mask on the whole image. The network sees that at
    another scale than crops.
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
        """As in `EnergyTrainer`: ŷ (B, 1, H, W), and the images, which the energy reads."""
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
