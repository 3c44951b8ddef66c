"""InfNet+: a cost-augmented inference network F beside the task-net A (Tu, Pang & Gimpel 2020, §3).

A is trained towards the structure of lowest energy, F towards one of low energy and high cost, which a margin needs.
Both take a step in the task-net's phase; F is discarded after training. `InfNetPlus` in `energy_losses/` has the
objectives.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..core.space import OutputSpace
from ..energy_losses import EnergyLoss, InfNetPlus
from ..loss_net.learner import Learner
from ..loss_net.loss_net import LOSS_NET_FOLDER
from ..nets.encoders import last_features
from ..nets.task_nets import feature_size
from ..saving.loss_net import COST_AUGMENTED as FILES
from ..saving.loss_net import load_learner_state, save_learner_state
from ..saving.states import read_state
from ..utils.files import loading
from ..utils.modules import frozen
from .base import Extension, MicroBatch, Run

PARAMETERIZATIONS = ("separated", "shared", "stacked")


class CostAugmentedNetwork(nn.Module):
    """F, in one of three parameterizations (InfNet+ §3.1, Figure 1):

        separated   F(x) = a network of its own, with the task-net's architecture and initial weights
        shared      F(x) = an affine layer on the features of A(x)
        stacked     F(x, y*) = W [A(x)_t ; y*_t] + b, without gradient to A

    F gives logits. The space relaxes them, by a softmax as in the paper or by the chain of A's CRF.

    Args:
        kind: one of `PARAMETERIZATIONS`.
        task_net: A.
        feature_size: H, width of the features of A; only for `shared`.
        num_labels: C.
        label_dim: the dimension of outputs that runs over the labels.
    """

    def __init__(self, kind: str, task_net: nn.Module, feature_size: int, num_labels: int, label_dim: int = -1):
        super().__init__()
        self.kind, self.label_dim = kind, label_dim
        if kind == "separated":
            net: Any = copy.deepcopy(task_net)
            net.crf = None  # the task-net's CRF also reads F's logits, and F does not train it
            self.net = net
        else:
            self.layer = nn.Linear(feature_size if kind == "shared" else 2 * num_labels, num_labels)

    def forward(
        self, inputs: dict[str, Tensor], features: Tensor | None, output: Tensor | None, gold: Tensor
    ) -> Tensor:
        """Logits of F, in the shape of the task-net's.

        Args:
            inputs: the task-net's, for `separated`.
            features: A's, (B, H) or for tokens (B, T, H), for `shared`.
            output, gold: A's relaxed output without gradient, and y*, with C labels each, for `stacked`.
        """
        if self.kind == "separated":
            return self.net(**inputs).logits
        if self.kind == "shared":
            return self.layer(features)
        assert output is not None
        both = torch.cat([output, gold], dim=self.label_dim)
        return self.layer(both.movedim(self.label_dim, -1)).movedim(-1, self.label_dim)


class CostAugmentedInference(Extension):
    """The cost-augmented network F of a run.

    It makes a new F for the task-net, trains it at the task-net's rate, and adds its part to a training step.

    Raises:
        ValueError: F is `shared`, but the outputs are masks.
    """

    def __init__(self, run: Run):
        super().__init__(run)
        args: Any = run.args
        task_net: Any = run.task_net
        kind, config, label_dim = args.cost_augmented_network, task_net.config, run.space.label_dim
        if kind == "shared" and label_dim != -1:
            raise ValueError(
                "`cost_augmented_network` is 'shared', which reads one vector per input or token: a net of masks has "
                "none. Use 'stacked', or 'separated'."
            )
        width = feature_size(task_net, None) if kind == "shared" else 0
        self.net = CostAugmentedNetwork(kind, task_net, width, config.num_labels, label_dim)
        self.net.train()  # whatever the copied task-net's mode: the first step must equal later ones, as after a resume
        group = {
            "params": [p for p in self.net.parameters() if p.requires_grad],
            "lr": args.learning_rate,
            "weight_decay": args.weight_decay,
        }
        self.learner = Learner(
            self.net,
            run.accelerator,
            [group],
            max_grad_norm=args.max_grad_norm,
            betas=(args.adam_beta1, args.adam_beta2),
            eps=args.adam_epsilon,
        )
        self.energy_loss: InfNetPlus = run.energy_loss
        self.reads_hidden_states = kind == "shared"
        self._begins = True  # the next micro-batch starts an update of F, which clears its gradients

    @classmethod
    def is_wanted(cls, args: Any, energy_loss: EnergyLoss | type[EnergyLoss], space: OutputSpace) -> bool:
        return energy_loss.has_partner

    def prepare(self, batch: MicroBatch, outputs: Any) -> MicroBatch:
        """Adds F's logits, which become a candidate in the loss-net's phase."""
        gold, _ = batch.space.gold(batch.labels)
        with torch.no_grad(), self.learner.accelerator.autocast():
            features = self._features(outputs, batch)
            found = self.net(batch.inputs, features, self._output(batch), gold)
        return replace(batch, augmented=batch.space.fit(found, batch.labels))

    def task_net_term(
        self,
        batch: MicroBatch,
        outputs: Any,
        energies_of: Callable[[Any, Tensor | None], Tensor],
        num_batches: int,
        is_last: bool,
    ) -> Tensor:
        """One micro-batch of F's update: minimise - λ1 v(F(x)) + its cross-entropy.

        Returns:
            a scalar of value 0 whose gradient is that of F's objective in the features shared with A.
        """
        space = batch.space
        gold, mask = space.gold(batch.labels)
        features = self._features(outputs, batch)
        leaf = features.detach().requires_grad_() if features is not None else None
        if self._begins:
            self.learner.zero_grad()
        self._begins = is_last
        with self.learner.accumulate(synchronise=is_last):
            found = space.fit(self.learner(batch.inputs, leaf, self._output(batch), gold), batch.labels)
            with frozen(self.run.task_net):  # its CRF may be part of F's output and of this loss
                y: Any = space.join([space.output(found), space.candidate(gold)])
                cost = space.cost(y[:, :1], gold, self.energy_loss.margin_cost, mask)
                loss = -self.run.energy_weight.constant * self.energy_loss.sought(energies_of(y, mask), cost)
                if weight := self.run.args.cost_augmented_task_weight:
                    loss = loss + weight * space.task_loss(found, batch.labels)
            self.learner.backward(loss / num_batches)
        unit = self.learner.scaler.scale(torch.ones((), device=loss.device))  # before `apply` changes it
        if is_last:
            self.learner.apply()
        if leaf is None:
            return loss.new_zeros(())
        gradient = leaf.grad.nan_to_num(0, 0, 0)  # after an fp16 overflow F is not updated
        return ((features - features.detach()) * (gradient * (num_batches / unit))).sum()

    @torch.no_grad()
    def _output(self, batch: MicroBatch) -> Tensor | None:
        """A's relaxed output, if F reads it."""
        return batch.space.relax(batch.logits) if self.net.kind == "stacked" else None

    def _features(self, outputs: Any, batch: MicroBatch) -> Any:
        """The features that F shares with A, with their graph."""
        if not self.reads_hidden_states:
            return None
        return last_features(outputs, batch.inputs, self.run.task_net, self.run.loss_net.pooling)

    # --- checkpoints -------------------------------------------------------------------------------------------------

    @classmethod
    def check_resumable(cls, args: Any, folder: str | Path) -> None:
        """Raises ValueError if the cost-augmented network of a checkpoint is missing, damaged or of another kind."""
        weights, state = (Path(folder, LOSS_NET_FOLDER, name) for name in FILES)
        kind = args.cost_augmented_network
        for path in (weights, state):
            if not path.is_file():
                raise ValueError(
                    f"{folder} cannot be resumed: {LOSS_NET_FOLDER}/{path.name}, the cost-augmented network of "
                    "energy_loss='infnet_plus', is missing. Was it saved by a run with another loss? Resume with that "
                    "one."
                )
        with loading(weights, "a cost-augmented network"), safe_open(weights, "pt") as file:
            found = (file.metadata() or {}).get("kind")
        read_state(state)
        if found != kind:
            raise ValueError(
                f"{folder} cannot be resumed: its cost-augmented network is {found!r}, but `cost_augmented_network` is "
                f"{kind!r}. Resume with cost_augmented_network={found!r}, or start a new run."
            )

    def save(self, folder: str | Path) -> None:
        weights, state = (Path(folder, LOSS_NET_FOLDER, name) for name in FILES)
        weights.parent.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.contiguous().clone() for name, value in self.net.state_dict().items()}
        save_file(tensors, weights, metadata={"kind": self.net.kind})
        save_learner_state(self.learner, state)

    def load(self, folder: str | Path) -> None:
        weights, state = (Path(folder, LOSS_NET_FOLDER, name) for name in FILES)
        found, own = load_file(weights, device="cpu"), self.net.state_dict()
        shapes, expected = ({name: tuple(value.shape) for name, value in each.items()} for each in (found, own))
        if shapes != expected:
            wrong = min(name for name in shapes.keys() | expected.keys() if shapes.get(name) != expected.get(name))
            raise ValueError(
                f"{weights} does not fit the cost-augmented network of this run: {wrong} is "
                f"{shapes.get(wrong, 'absent')}, expected {expected.get(wrong, 'none')}. Take another checkpoint."
            )
        self.net.load_state_dict(found)
        load_learner_state(self.learner, state)
