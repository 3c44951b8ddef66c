"""Gradient-based inference. Oracles: a bounded least-squares solver, torch's Adam, every value the objective gave."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import lsq_linear
from torch.utils._python_dispatch import TorchDispatchMode

from seal_hf import GradientBasedInference, LossNet, LossNetConfig, MLPConfig
from seal_hf.core.label_sets import from_dense

B, L = 4, 5


class Quadratic:
    """f(y) = |R (y - c)|² / 2, another R and c for each input; remembers what it was asked."""

    def __init__(self, inside):
        generator = torch.Generator().manual_seed(0)
        self.root = torch.eye(L) + 0.3 * torch.randn(B, L, L, generator=generator)
        self.centre = torch.rand(B, L, generator=generator) * 0.8 + 0.1
        if not inside:
            self.centre = 3 * torch.randn(B, L, generator=generator)
        self.root.requires_grad_(), self.centre.requires_grad_()
        self.asked, self.values = [], []

    def __call__(self, y):
        value = torch.einsum("bij,bsj->bsi", self.root, y - self.centre.unsqueeze(1)).square().sum(-1) / 2
        self.asked.append(y.detach().clone())
        self.values.append(value.detach())
        return value

    def minimiser(self):
        root, centre = self.root.detach().double(), self.centre.detach().double()
        found = [lsq_linear(r.numpy(), (r @ c).numpy(), bounds=(0, 1), tol=1e-12).x for r, c in zip(root, centre)]  # noqa: B905
        return torch.from_numpy(np.stack(found)).float()


@pytest.mark.parametrize("optimizer, rate, steps", [("adam", 0.02, 1000), ("projected", 0.2, 1000)])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("start", ["zeros", "uniform", "random"])
def test_a_convex_objective_is_minimised_over_the_box(optimizer, rate, steps, inside, start):
    objective = Quadratic(inside)
    infer = GradientBasedInference(steps, rate, optimizer, start, num_starts=2)
    starts = infer.starts((B, L), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():  # as in an evaluation
        y, value = infer(objective, starts)
    expected = objective.minimiser()
    if not inside:
        assert ((expected == 0) | (expected == 1)).any() and ((expected > 0.01) & (expected < 0.99)).any()
    torch.testing.assert_close(y.squeeze(1), expected, rtol=0, atol=2e-3)
    torch.testing.assert_close(value, objective(y).detach())
    assert y.shape == (B, 1, L) and value.shape == (B, 1) and not y.requires_grad and not value.requires_grad
    assert objective.root.grad is None and objective.centre.grad is None


@pytest.mark.parametrize("optimizer", ["adam", "projected"])
@pytest.mark.parametrize("rate", [0.01, 0.3, 50.0])
def test_the_best_of_all_iterates_is_kept_for_every_start(optimizer, rate):
    """Also where the steps go uphill: start and last iterate count, each (input, start) has a best of its own."""
    objective = Quadratic(inside=True)
    infer = GradientBasedInference(7, rate, optimizer, "random", num_starts=3)
    y, value = infer(objective, infer.starts((B, L), generator=torch.Generator().manual_seed(2)))
    asked, values = torch.stack(objective.asked), torch.stack(objective.values)  # (8, B, 3, L), (8, B, 3)
    assert values.shape[0] == 7 + 1
    flat = values.transpose(1, 2).reshape(-1, B)
    assert torch.equal(value.squeeze(1), flat.min(0).values)
    best = asked.transpose(1, 2).reshape(-1, B, L)[flat.argmin(0), torch.arange(B)]
    assert torch.equal(y.squeeze(1), best)
    assert asked.min() >= 0 and asked.max() <= 1


def test_start_and_last_iterate_can_be_the_best():
    start = torch.full((1, 1, 2), 0.5)
    infer = GradientBasedInference(3, 0.1, "projected")
    assert infer(lambda y: y.sum(-1), start)[0].tolist() == [[pytest.approx([0.2, 0.2])]]  # 0.5 - 3 x 0.1: the last
    uphill = lambda y: torch.where(y.detach() == 0.5, 0.0, 1.0).sum(-1) - y.sum(-1) * 1e-3  # noqa: E731
    assert infer(uphill, start)[0].tolist() == [[[0.5, 0.5]]]


@pytest.mark.parametrize("steps", [0, 1])
def test_without_steps_the_best_start_is_taken(steps):
    starts = torch.tensor([[[0.9, 0.9], [0.1, 0.0]], [[0.0, 0.0], [1.0, 1.0]]])
    y, value = GradientBasedInference(steps, 1e-9, "projected")(lambda y: y.sum(-1), starts)
    torch.testing.assert_close(y.squeeze(1), torch.tensor([[0.1, 0.0], [0.0, 0.0]]))
    torch.testing.assert_close(value.squeeze(1), torch.tensor([0.1, 0.0]))


def test_several_starts_are_as_good_as_the_best_alone():
    """An objective with many minima; candidates do not disturb each other."""
    bumpy = lambda y: (torch.sin(9 * y) + y).sum(-1)  # noqa: E731
    infer = GradientBasedInference(25, 0.05, start="random", num_starts=6)
    starts = infer.starts((B, L), generator=torch.Generator().manual_seed(3))
    alone = torch.cat([infer(bumpy, starts[:, s : s + 1])[1] for s in range(6)], dim=1)  # (B, 6)
    y, value = infer(bumpy, starts)
    torch.testing.assert_close(value.squeeze(1), alone.min(1).values)
    torch.testing.assert_close(bumpy(y), value)
    assert (alone.max(1).values - alone.min(1).values > 0.1).all()


def test_adam_is_torchs_adam_with_a_clamp():
    objective, reference = Quadratic(inside=False), Quadratic(inside=False)
    GradientBasedInference(12, 0.1)(objective, torch.full((B, 2, L), 0.5))
    y = torch.full((B, 2, L), 0.5, requires_grad=True)
    optimizer = torch.optim.Adam([y], lr=0.1)
    for _ in range(13):
        optimizer.zero_grad()
        reference(y).sum().backward()
        optimizer.step()
        y.data.clamp_(0, 1)
    torch.testing.assert_close(torch.stack(objective.asked), torch.stack(reference.asked))


def test_nothing_is_read_by_the_host():
    """No operation hands a number to Python, or lets a shape depend on values, as each would wait for the device."""
    seen = set()

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.add(func.__name__.split(".")[0])
            return func(*args, **(kwargs or {}))

    objective = Quadratic(inside=True)
    with Recorder():
        GradientBasedInference(3, num_starts=2)(objective, torch.zeros(B, 2, L))
    assert "lerp_" in seen and not seen & {"_local_scalar_dense", "nonzero", "masked_select", "item", "equal"}


def test_structures_may_have_more_axes():
    target = torch.rand(B, 3, 2, generator=torch.Generator().manual_seed(0))
    y, _ = GradientBasedInference(200, 0.02)(
        lambda y: (y - target.unsqueeze(1)).square().sum((-1, -2)), torch.zeros(B, 2, 3, 2)
    )
    torch.testing.assert_close(y.squeeze(1), target, rtol=0, atol=2e-3)


def test_an_iterate_that_is_not_a_number_is_never_the_best():
    cliff = lambda y: torch.where(y[..., 0] > 0.25, torch.nan, -y[..., 0])  # noqa: E731
    y, value = GradientBasedInference(5, 0.1, "projected")(cliff, torch.zeros(1, 1, 1))
    assert y.item() == pytest.approx(0.2) and value.item() == pytest.approx(-0.2)


def test_the_starts_are_what_they_are_called():
    output = torch.rand(B, 1, L)
    make = lambda start, n=1: GradientBasedInference(start=start, num_starts=n).starts(  # noqa: E731
        (B, L), generator=torch.Generator().manual_seed(5), output=output
    )
    assert torch.equal(make("zeros"), torch.zeros(B, 1, L)) and torch.equal(make("uniform"), torch.full((B, 1, L), 0.5))
    assert torch.equal(make("task_net"), output) and torch.equal(make("random", 3), make("random", 3))
    several = make("task_net", 3)
    assert torch.equal(several[:, :1], output) and torch.equal(several[:, 1:], make("zeros", 3)[:, 1:])
    assert several[:, 1].min() >= 0 and several[:, 1].max() <= 1 and (several[:, 1] != several[:, 2]).all()


def test_the_energy_networks_parameters_get_no_gradient_and_the_vertices_bound_the_minimum():
    """E is concave in y where v >= 0, so the least of all 2^L label sets is the least of the box."""
    torch.manual_seed(0)
    encoder = MLPConfig(input_size=3, hidden_size=8).to_dict()
    net = LossNet(LossNetConfig(encoder_config=encoder, feature_size=8, global_size=6, num_labels=L))
    net.energy.direction.weight.data.abs_()
    features = net.encode({"features": torch.randn(B, 3)})
    infer = GradientBasedInference(60, 0.1, start="random", num_starts=40)
    starts = infer.starts((B, L), generator=torch.Generator().manual_seed(1))
    y, value = infer(lambda y: net.energies(features, y), starts)
    sets = torch.tensor(list(itertools.product([0.0, 1.0], repeat=L))).expand(B, -1, -1)
    least = net.energies(features, sets).min(1)
    torch.testing.assert_close(value.squeeze(1), least.values)
    assert torch.equal(y.squeeze(1), sets[0][least.indices])
    assert all(parameter.grad is None for parameter in net.parameters())


def test_errors_say_what_to_do():
    for options, message in (
        ({"optimizer": "sgd"}, "`optimizer` is 'sgd'; it must be one of adam, projected"),
        ({"start": "ones"}, "`start` is 'ones'; it must be one of zeros"),
        ({"steps": -1}, "`steps` is -1"),
        ({"num_starts": 0}, "`num_starts` is 0|`num_starts` 0"),
        ({"learning_rate": 0.0}, "`learning_rate` 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            GradientBasedInference(**options)
    infer = GradientBasedInference(start="task_net")
    with pytest.raises(ValueError, match="Give a task-net"):
        infer.starts((B, L))
    sparse = from_dense(torch.ones(B, 1, L))
    with pytest.raises(ValueError, match="sparse label set.*sparse_from"):
        infer(lambda y: y.sum(-1), sparse)
    with pytest.raises(ValueError, match="sparse label set.*sparse_from"):
        infer.starts((B, L), output=sparse)
