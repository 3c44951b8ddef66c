"""Energies of label sets, and the contract that an energy of one's own keeps.

Oracles: the equations as loops, means over all 2^L label sets.
"""

import itertools

import pytest
import tiny_run
import torch
from torch import nn

from seal_hf import ENERGIES, LossNet, LossNetConfig, SealForMultiLabel
from seal_hf.core.energy import Energy, energies_of
from seal_hf.core.label_sets import from_dense
from seal_hf.core.task import SPACES
from seal_hf.tasks.labels.energies import PairwiseEnergy

L, H, G, B = 6, 4, 5, 3
SETS = torch.tensor(list(itertools.product((0.0, 1.0), repeat=L)), dtype=torch.float64)  # (2^L, L)


@pytest.fixture
def pairwise():
    torch.manual_seed(0)
    return PairwiseEnergy(L, H, G).double(), torch.randn(B, H, dtype=torch.float64)


def test_pairs_are_the_formula(pairwise):
    energy, features = pairwise
    b, M, v = energy.label_embeddings.weight, energy.projection.weight.T, energy.direction
    W = M.T @ torch.diag(v) @ M
    assert (v > 0).sum() == 3 and (v < 0).sum() == 2
    found = energy(features, SETS.expand(B, -1, -1))
    for x, row in zip(features, found, strict=True):
        for y, value in zip(SETS, row, strict=True):
            local = sum(y[i] * (b[i] @ x) for i in range(L))
            pairs = sum(y[i] * y[j] * W[i, j] for i, j in itertools.combinations(range(L), 2))
            torch.testing.assert_close(value, -(local + pairs))


def test_the_energy_of_a_relaxed_output_is_the_mean_over_its_label_sets(pairwise):
    """What a sampler could only estimate: E(x, p) = Σ_y P(y) E(x, y) over all 2^L sets, P independent."""
    energy, features = pairwise
    p = torch.rand(B, L, dtype=torch.float64)
    chance = torch.where(SETS > 0, p.unsqueeze(1), 1 - p.unsqueeze(1)).prod(-1)  # (B, 2^L)
    mean = (chance * energy(features, SETS.expand(B, -1, -1))).sum(1)
    torch.testing.assert_close(energy(features, p.unsqueeze(1)).squeeze(1), mean)
    softplus = ENERGIES["multilabel"](L, H, G).double()
    nn.init.normal_(softplus.projection.weight, std=3)
    mean = (chance * softplus(features, SETS.expand(B, -1, -1))).sum(1)
    assert (softplus(features, p.unsqueeze(1)).squeeze(1) - mean).abs().min() > 1e-3


def test_no_pairs_without_a_global_term():
    energy, features = PairwiseEnergy(L, H, 0), torch.randn(B, H)
    assert [name for name, _ in energy.named_parameters()] == ["label_embeddings.weight"]
    y = torch.rand(B, 2, L)
    expected = -torch.einsum("bsl,bl->bs", y, features @ energy.label_embeddings.weight.T)
    torch.testing.assert_close(energy(features, y), expected)


@pytest.mark.parametrize("name", ["multilabel", "pairwise", "size"])
@pytest.mark.parametrize("global_size", [G, 0])
def test_the_energy_at_an_input_is_that_energy_with_derivatives_in_the_structure_alone(name, global_size):
    torch.manual_seed(0)
    energy = {**ENERGIES, "size": SizeEnergy}[name](L, H, global_size)
    energy.reset_parameters()
    features, y = torch.randn(B, H, requires_grad=True), torch.rand(B, 2, L, requires_grad=True)
    at, expected = energy.at(features), energy(features, y)
    torch.testing.assert_close(at(y), expected)
    torch.testing.assert_close(at(y.detach() / 2), energy(features, y / 2))  # more than once
    (wanted,) = torch.autograd.grad(expected.sum(), y)
    at(y).sum().backward()
    torch.testing.assert_close(y.grad, wanted)
    assert features.grad is None
    if name != "size":  # which does not have a part of its own for x, and differentiates what it always does
        assert all(parameter.grad is None for parameter in energy.label_embeddings.parameters())
        sets = from_dense((y.detach() > 0.5).float())
        torch.testing.assert_close(at(sets), energy(features, sets).detach())


def test_every_energy_says_its_space():
    assert {energy.space for energy in ENERGIES.values()} == set(SPACES)
    assert list(energies_of("multi_label")) == ["multilabel", "pairwise"]


class SizeEnergy(Energy):
    """Of the number of labels alone, beside a local term: one weight for each size."""

    space = "multi_label"

    def __init__(self, num_labels: int, feature_size: int, global_size: int, scale: float = 1.0):
        super().__init__()
        self.local, self.scale = nn.Linear(feature_size, num_labels, bias=False), scale
        self.sizes = nn.Parameter(torch.empty(num_labels + 1))

    def reset_parameters(self):
        nn.init.zeros_(self.sizes)
        self.local.reset_parameters()

    def forward(self, features, y, mask=None):
        size = y.sum(-1, keepdim=True)
        near = (1 - (size - torch.arange(len(self.sizes))).abs()).clamp_min(0)  # linear between whole numbers
        return -torch.einsum("bsl,bl->bs", y, self.local(features)) - self.scale * near @ self.sizes


def test_an_energy_of_ones_own_needs_a_class_and_a_name(tmp_path, monkeypatch):
    monkeypatch.setitem(ENERGIES, "size", SizeEnergy)
    nets = SealForMultiLabel.for_data(tiny_run.Names, hidden_size=16, energy="size", energy_options={"scale": 2.0})
    assert isinstance(nets.loss_net.energy, SizeEnergy) and not nets.loss_net.energy.sizes.any()
    trainer, *_ = tiny_run.make(tmp_path / "run", nets=nets, loss="nce")
    trainer.train()
    assert nets.loss_net.energy.sizes.any()
    nets.save_pretrained(tmp_path / "saved")
    again = SealForMultiLabel.from_pretrained(tmp_path / "saved")
    assert torch.equal(again.loss_net.energy.sizes, nets.loss_net.energy.sizes) and again.loss_net.energy.scale == 2.0


def test_wrong_energies_are_named(monkeypatch):
    with pytest.raises(ValueError, match="`energy` is 'chain'; for multi_label outputs .* one of multilabel, p"):
        SealForMultiLabel.for_data(tiny_run.Names, hidden_size=16, energy="chain")
    with pytest.raises(ValueError, match="holds 'depth', which the energy 'pairwise' lacks; it takes none"):
        SealForMultiLabel.for_data(tiny_run.Names, hidden_size=16, energy="pairwise", energy_options={"depth": 2})
    with pytest.raises(ValueError, match="`energy` is 'size'; it must be one of multilabel, pairwise, chain"):
        LossNet(LossNetConfig(energy="size"))
