"""Unknown labels of a row: in no loss, figure or energy. Oracles: runs that differ in what stands there alone, sums over
the known labels by hand, scikit-learn on them."""

import itertools

import numpy as np
import pytest
import tiny_run
import torch
from datasets import Dataset

from seal_hf import ENERGY_LOSSES, TASK_LOSSES, MultiLabelSpace, TensorRows
from seal_hf.spaces import COSTS
from seal_hf.structures.label_sets import LabelSets

NAN = float("nan")
GENERATOR = torch.Generator().manual_seed(1)
UNKNOWN = torch.rand(tiny_run.ROWS, tiny_run.LABELS, generator=GENERATOR) < 0.3
UNKNOWN[3] = True  # a row of which nothing is known


def rows(value):
    """The tiny data set with `value` at the unknown labels."""
    table = tiny_run.table().with_format("torch")
    labels = torch.where(UNKNOWN, value, table["labels"][:])
    return Dataset.from_dict({"features": table["features"][:].numpy(), "labels": labels.numpy()})


def run(folder, value, loss="nce", wrap=TensorRows, **options):
    nets = tiny_run.model()
    data = wrap(rows(value))
    trainer, _ = tiny_run.make(folder, loss, nets=nets, rows=data, num_train_epochs=1, **options)
    trainer.train()
    figures = trainer.evaluate(data)
    kept = {k: figures[k] for k in figures if "runtime" not in k and "per_second" not in k}
    return torch.cat([p.detach().flatten() for p in nets.parameters()]), kept


@pytest.mark.parametrize(
    "loss, options",
    [
        *((loss, {}) for loss in ENERGY_LOSSES),
        ("nce", {"gold_mix": 0.3, "distinct_samples": True, "energy_weight": None}),
        ("ranking", {"cost_weight": 1.0, "margin_cost": "l1_mean", "sparse_labels_from": 2}),
        ("margin", {"margin_cost": "l1", "sparse_labels_from": 2}),
        ("margin", {"hypergradient": "neumann"}),
        ("contrastive_divergence", {"hypergradient": "unrolled"}),
        ("ce", {"task_loss": "ranking"}),
    ],
)
def test_what_stands_at_an_unknown_label_changes_nothing(tmp_path, loss, options):
    weights, figures = run(tmp_path, -1.0, loss, **options)
    others, other_figures = run(tmp_path, NAN, loss, **options)
    assert torch.equal(weights, others) and weights.isfinite().all()
    assert figures == other_figures and np.isfinite(list(figures.values())).all()
    known, _ = run(tmp_path, 0.0, loss, **options)
    assert not torch.equal(weights, known)


def test_a_data_set_that_is_no_tensor_trains_to_the_same_weights(tmp_path):
    assert torch.equal(run(tmp_path, -1.0, wrap=lambda table: table)[0], run(tmp_path, -1.0)[0])


@pytest.mark.parametrize("sparse_from", [2, 100])
def test_all_candidates_hold_the_same_draw_of_the_task_net(sparse_from):
    space = MultiLabelSpace(sparse_from, relaxed_mass=1.0)
    logits = torch.randn(5, 4, generator=GENERATOR).mul(2).requires_grad_()
    labels = torch.tensor([[1, -1, 0, -1], [-1, -1, -1, -1], [1, 0, 1, 0], [NAN, 1, 1, 0], [0, -1, -1, 1]])
    known, found = labels >= 0, []
    for seed in range(2000):
        bound = space.holding(logits, labels, lambda seed=seed: torch.Generator().manual_seed(seed))
        gold, mask = bound.gold(labels)
        row = [bound.output(logits), bound.candidate(gold), bound.sample(logits, 3, GENERATOR)]
        y = bound.join(row)
        y = y.to_dense() if isinstance(y, LabelSets) else y
        assert torch.equal(mask, known) and torch.equal(gold[known], labels[known])
        assert (y == y[:, 1:2])[(~known).unsqueeze(1).expand_as(y)].all()
        found.append(gold)
    rates = torch.stack(found).mean(0)[~known]
    assert (rates - logits.sigmoid()[~known]).abs().max() < 0.05
    y[:, 0].square().sum().backward()
    assert (logits.grad[~known] == 0).all() and (logits.grad[known] != 0).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_log_probability_cost_and_score_are_those_of_the_known_labels(sparse):
    space = MultiLabelSpace(2 if sparse else 100)
    labels, logits = torch.tensor([[1.0, -1, 0, -1, 1]]), torch.tensor([[0.3, -2.0, 1.5, 4.0, -0.2]])
    counts = [0, 2, 4]
    sets = torch.tensor(list(itertools.product([0.0, 1.0], repeat=5))).unsqueeze(0)  # (1, 32, 5)
    bound = space.holding(logits, labels, lambda: torch.Generator().manual_seed(0))
    gold, mask = bound.gold(labels)
    y = torch.cat([space.candidate(s) for s in sets.unbind(1)], 1) if not sparse else space.join(
        [space.candidate(s) for s in sets.unbind(1)]
    )
    log_p = bound.log_prob(logits, y, mask)
    assert torch.allclose(log_p.exp().sum(), torch.tensor(4.0))  # each known set stands there four times
    plain, few = MultiLabelSpace(100), sets[:, :, counts]
    pairs = [(log_p, plain.log_prob(logits[:, counts], few)), (bound.log_noise(logits, y, mask, normalized=True), log_p)]
    pairs += [(bound.score(y, gold, mask), plain.score(few, gold[:, counts]))]
    for kind in space.costs:
        pairs.append((bound.cost(y, gold, kind, mask), plain.cost(few, gold[:, counts], kind)))
    for actual, expected in pairs:
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("name", TASK_LOSSES)
def test_a_task_loss_is_that_of_the_known_labels_alone(name):
    space = MultiLabelSpace(loss=TASK_LOSSES[name]())
    logits = torch.randn(3, 5, generator=GENERATOR).requires_grad_()
    labels = (torch.rand(3, 5, generator=GENERATOR) < 0.4).float()
    labels[:, [1, 3]] = torch.tensor([-1.0, NAN])
    loss = space.task_loss(logits, labels)
    few = [0, 2, 4]
    torch.testing.assert_close(loss, space.task_loss(logits[:, few], labels[:, few]))
    loss.backward()
    assert (logits.grad[:, [1, 3]] == 0).all() and (logits.grad[:, few] != 0).any()


def test_where_all_labels_are_known_the_long_way_ends_alike(tmp_path):
    def end(unknown):
        nets = tiny_run.model()
        trainer, _ = tiny_run.make(tmp_path, nets=nets, num_train_epochs=1)
        see = trainer.see
        trainer.see = lambda space, dataset: space.see(None) if unknown else see(space, dataset)
        trainer.train()
        assert trainer.space.unknown_labels is unknown
        return torch.cat([p.detach().flatten() for p in nets.parameters()])

    assert torch.equal(end(False), end(True))
