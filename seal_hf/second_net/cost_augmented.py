"""InfNet+: a cost-augmented inference network F beside the task-net A (Tu, Pang & Gimpel 2020, §3).

A is trained towards the structure of lowest energy, F towards that of low energy and high cost, which is the one that a
margin needs. Both take a step in the task-net's phase; F is given up after training. The objectives are those of
`InfNetPlus` in `energy_losses.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..energy_losses import InfNetPlus
from ..spaces import OutputSpace
from ..utils.modules import frozen
from .learner import Learner

PARAMETERIZATIONS = ("separated", "shared", "stacked")


class CostAugmentedNetwork(nn.Module):
    """F, in one of three parameterizations (InfNet+ §3.1, Figure 1):

        separated   F(x) = a network of its own, of the task-net's shape and initial weights
        shared      F(x) = an affine layer on the features of A(x)
        stacked     F(x, y*) = softmax( W [A(x)_t ; y*_t] + b ), without gradient to A

    Args:
        kind: one of `PARAMETERIZATIONS`.
        task_net: A.
        feature_size: H, width of the features of A, for `shared`.
        num_labels: C.
    """

    def __init__(self, kind: str, task_net: nn.Module, feature_size: int | None, num_labels: int):
        super().__init__()
        self.kind = kind
        if kind == "separated":
            self.net = copy.deepcopy(task_net)
            self.net.crf = None  # that of the task-net reads F's logits too, and F does not train it
        else:
            self.layer = nn.Linear(feature_size if kind == "shared" else 2 * num_labels, num_labels)

    def forward(self, inputs: dict[str, Tensor], features: Tensor | None, output: Tensor, gold: Tensor) -> Tensor:
        """Logits of F, shaped as the task-net's.

        Args:
            inputs: the task-net's, for `separated`.
            features: A's, (B, H) or of tokens (B, T, H), for `shared`.
            output, gold: A's relaxed output, which gets no gradient, and y*, (B, ..., C) each, for `stacked`.
        """
        if self.kind == "separated":
            return self.net(**inputs).logits
        if self.kind == "shared":
            return self.layer(features)
        return self.layer(torch.cat([output.detach(), gold], dim=-1))


class CostAugmentedInference:
    """F and its part in a training step.

    Args:
        net: F.
        task_net: A.
        learner: of `net`.
        energy_loss: gives F's objective.
        space: the output space.
        energy_weight: λ1.
        task_weight: weight of F's own task loss.
    """

    def __init__(
        self,
        net: CostAugmentedNetwork,
        task_net: nn.Module,
        learner: Learner,
        energy_loss: InfNetPlus,
        space: OutputSpace,
        energy_weight: float,
        task_weight: float,
    ):
        self.net, self.task_net, self.learner = net, task_net, learner
        self.energy_loss, self.space = energy_loss, space
        self.energy_weight, self.task_weight = energy_weight, task_weight
        self.reads_features = net.kind == "shared"
        self._begins = True  # an update of F; its gradients are those of none

    @classmethod
    def beside(cls, task_net: nn.Module, loss_net, accelerator, args, energy_loss: InfNetPlus, space: OutputSpace):
        """A fresh F for this task-net, as [`SealTrainingArguments`] have it."""
        kind = args.cost_augmented_network
        feature_size = task_net.config.hidden_size if kind == "shared" else None
        net = CostAugmentedNetwork(kind, task_net, feature_size, task_net.config.num_labels)
        net.train()  # as in every later step, whatever mode the task-net was copied in: a resumed run has only those
        group = {
            "params": [p for p in net.parameters() if p.requires_grad],
            "lr": args.learning_rate,
            "weight_decay": args.weight_decay,
        }
        learner = Learner(
            net,
            accelerator,
            [group],
            max_grad_norm=args.max_grad_norm,
            betas=(args.adam_beta1, args.adam_beta2),
            eps=args.adam_epsilon,
        )
        return cls(net, task_net, learner, energy_loss, space, args.energy_weight, args.cost_augmented_task_weight)

    @torch.no_grad()
    def logits(self, inputs: dict[str, Tensor], features: Tensor | None, logits: Tensor, labels: Tensor) -> Tensor:
        """F's logits for the candidates of the loss-net's phase."""
        gold, _ = self.space.gold(labels)
        with self.learner.accelerator.autocast():
            return self.net(inputs, features, self.space.relax(logits), gold)

    def step(
        self,
        inputs: dict[str, Tensor],
        features: Tensor | None,
        logits: Tensor,
        labels: Tensor,
        energies_of: Callable[[Tensor, Tensor | None], Tensor],
        window: int,
        last: bool,
    ) -> Tensor:
        """One micro-batch of F's update: minimise - λ1 v(F(x)) + its cross-entropy.

        Args:
            features: A's, with their graph, for `shared`.
            energies_of: candidates (B, S, ...) and mask -> energies (B, S) of the frozen loss-net.
            window: of how many micro-batches this is one; F's loss is their mean.
            last: whether the task-net is updated after this one, and so F.

        Returns:
            a scalar of value 0 whose gradient is what F's objective asks of the features that it shares with A.
        """
        gold, mask = self.space.gold(labels)
        leaf = features.detach().requires_grad_() if self.reads_features else None
        if self._begins:
            self.learner.zero_grad()
        self._begins = last
        with self.learner.accumulate(synchronise=last):
            found = self.learner(inputs, leaf, self.space.relax(logits), gold)
            y = self.space.join([self.space.output(found), self.space.candidate(gold)])
            cost = self.space.cost(y[:, :1], gold, self.energy_loss.margin_cost, mask)
            loss = -self.energy_weight * self.energy_loss.sought(energies_of(y, mask), cost)
            if self.task_weight:
                with frozen(self.task_net):  # whose CRF may be a part of this loss
                    loss = loss + self.task_weight * self.space.task_loss(found, labels)
            self.learner.backward(loss / window)
        unit = self.learner.scaler.scale(torch.ones((), device=loss.device))  # before `apply` changes it
        if last:
            self.learner.apply()
        if leaf is None:
            return loss.new_zeros(())
        gradient = leaf.grad.nan_to_num(0, 0, 0)  # fp16 overflowed: F is not updated, and A learns nothing of it
        return ((features - features.detach()) * (gradient * (window / unit))).sum()
