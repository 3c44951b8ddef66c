"""benchmarks/energy_decoding.py against sums over all 2^L label sets."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from seal_hf import MultiLabelEnergy, MultiLabelSpace

ROOT = Path(__file__).resolve().parents[2]
L, ROWS = 4, 6
SETS = torch.tensor(list(itertools.product([0.0, 1.0], repeat=L)))


class Nets:
    """A random energy on given features."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.space, self.net = MultiLabelSpace(), MultiLabelEnergy(L, 5, 8)
        for p in self.net.parameters():
            p.data = 0.5 * torch.randn(p.shape, generator=generator)
        self.logits, self.features = (torch.randn(ROWS, n, generator=generator) for n in (L, 5))

    def energy(self, y, features):
        return self.net(features, y)


@pytest.fixture
def decoding(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import energy_decoding

    yield energy_decoding
    sys.modules.pop("energy_decoding", None)


def jaccard(a, b):
    a, b = set(np.flatnonzero(a)), set(np.flatnonzero(b))
    return len(a & b) / len(a | b) if a | b else 1.0


@pytest.mark.parametrize("never_empty", [False, True])
@pytest.mark.parametrize("power, scale", [(1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.5, 0.7)])
def test_decisions_are_those_of_all_label_sets(decoding, power, scale, never_empty):
    nets = Nets()
    with torch.no_grad():
        every = SETS.expand(ROWS, -1, -1)
        score = power * nets.space.log_prob(nets.logits, every) - scale * nets.energy(every, nets.features)
    if never_empty:
        score[:, 0] = -torch.inf
    exact = torch.softmax(score, 1).double()
    generator = torch.Generator().manual_seed(1)
    drawn = decoding.draw(nets, nets.logits, {"features": nets.features}, 40_000, generator, never_empty)
    codes = (drawn.sets[:, 1:] * 2 ** torch.arange(L - 1, -1, -1)).sum(-1).long()
    found = torch.zeros(ROWS, 2**L).scatter_add_(1, codes, drawn.weights(power, scale))
    torch.testing.assert_close(found.double(), exact, atol=0.03, rtol=0)
    assert torch.equal(decoding.likeliest(drawn, power, scale), SETS[exact.argmax(1)])

    few = decoding.Drawn(*(part[:, :2000] for part in drawn))
    expected = exact.numpy() @ np.array([[jaccard(a, b) for a in SETS.numpy()] for b in SETS.numpy()])  # (N, 2^L)
    chosen = decoding.highest_jaccard(few, power, scale)
    reached = [expected[i, (SETS == chosen[i]).all(1).nonzero().item()] for i in range(ROWS)]
    np.testing.assert_allclose(reached, expected.max(1), atol=0.03)


def test_figures_of_rows(decoding):
    gold = torch.tensor([[1.0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]])
    decided = torch.tensor([[1.0, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_allclose(decoding.figure_of_rows(decided, gold, "Jaccard"), [1 / 3, 1, 1])
    np.testing.assert_array_equal(decoding.figure_of_rows(decided, gold, "exact match"), [0, 1, 1])
