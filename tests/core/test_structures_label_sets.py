"""Sparse label sets against dense ones: frequencies of samples against enumeration, energies, losses and whole training
runs against the same in dense tensors, the cut of the relaxed output against its bound, and the largest tensor that is
ever made."""

import itertools

import pytest
import tiny_run
import torch
from losses import LOSSES_OF_ENERGIES, energy_loss
from torch.utils._python_dispatch import TorchDispatchMode

from seal_hf import ENERGY_LOSSES, LabelSets, LossNet, LossNetConfig, MultiLabelEnergy, MultiLabelSpace
from seal_hf.core.energy import energies_of
from seal_hf.core.label_sets import (
    AT_ONCE,
    concatenate,
    dot,
    from_dense,
    sample_bernoulli,
    squared,
    sum_rows,
    total,
    truncate,
)

L, H, G = 12, 5, 7
DENSE = MultiLabelSpace(sparse_from=10**9)
SPARSE = MultiLabelSpace(sparse_from=1, relaxed_mass=1.0, relaxed_width=10**9)
SAMPLE_LOSSES = {name: {} for name in LOSSES_OF_ENERGIES if name not in ("regression_s", "infnet_plus")}
WITH_OPTIONS = {
    **SAMPLE_LOSSES,
    "regression_s": dict(regression_samples="discrete"),
    "nce, all options": dict(cost_weight=0.7, distinct_samples=True, gold_mix=0.3),
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def hard_sets(*shape, rate=0.3):
    return (torch.rand(*shape, generator=generator()) < rate).float()


# --- sampling ----------------------------------------------------------------------------------------------------


def test_sets_are_drawn_with_their_probabilities():
    """Every one of the 2^4 sets, by a chi-square over 50,000 samples, with rare, even and near-certain labels."""
    logits = torch.tensor([[-3.0, 0.0, 2.0, -0.5], [1.0, -6.0, 5.0, 0.3]])
    samples = sample_bernoulli(logits, 50_000, generator()).to_dense()
    sets = torch.tensor(list(itertools.product([0.0, 1.0], repeat=4)))
    exact = DENSE.log_prob(logits, sets.expand(2, -1, -1)).exp()  # (2, 16)
    codes = (samples @ torch.tensor([8.0, 4.0, 2.0, 1.0])).long()
    for row in range(2):
        counts, expected = torch.bincount(codes[row], minlength=16), exact[row] * 50_000
        likely = expected > 5
        chi2 = ((counts - expected)[likely].square() / expected[likely]).sum()
        assert chi2 < likely.sum() - 1 + 4 * (2 * likely.sum()) ** 0.5  # four standard deviations
        assert counts[~likely].sum() < 30


def test_labels_are_independent_and_have_their_rates():
    """Rates and all pairs, with 300 labels whose probabilities lie between 1e-4 and 0.99."""
    logits = torch.linspace(-9, 4.6, 300).unsqueeze(0)
    K, p = 10_000, torch.sigmoid(logits[0]).double()
    y = sample_bernoulli(logits, K, generator(1)).to_dense()[0].double()
    deviation = (p * (1 - p)).sqrt()
    assert ((y.mean(0) - p).abs() < 5 * deviation / K**0.5 + 1 / K).all()
    covariance = (y - p).T @ (y - p) / K
    correlation = covariance / deviation.outer(deviation)
    often = deviation > 0.1  # a coincidence of two rare labels is no normal variable
    off_diagonal = correlation[often][:, often].fill_diagonal_(0)
    assert off_diagonal.abs().max() < 5.5 / K**0.5


def test_extreme_logits_are_certain_or_absent():
    logits = torch.tensor([[-1e4, 1e4, -200.0, 60.0], [-1e4, -1e4, -1e4, -1e4]])
    samples = sample_bernoulli(logits, 50, generator())
    assert torch.equal(samples.to_dense()[0], torch.tensor([0.0, 1, 0, 1]).expand(50, 4))
    assert not samples.to_dense()[1].any()
    assert samples.shape == (2, 50, 4) and samples.blocks[0][0].shape[-1] == 2  # duplicates are gone


def test_samples_depend_on_the_generator_alone():
    logits = torch.randn(3, 50, generator=generator())
    torch.manual_seed(1)
    first = sample_bernoulli(logits, 5, generator(3)).to_dense()
    torch.manual_seed(2)
    assert torch.equal(first, sample_bernoulli(logits, 5, generator(3)).to_dense())
    assert not torch.equal(first, sample_bernoulli(logits, 5, generator(4)).to_dense())


def test_samples_as_dense_as_half_of_many_labels_are_refused_with_the_remedy():
    with pytest.raises(ValueError, match="out of 100000: .*label_rates.*`sparse_labels_from`"):
        sample_bernoulli(torch.zeros(4, 100_000), 80, generator())


# --- sums over sets -----------------------------------------------------------------------------------------------


def test_a_set_comes_back_dense_and_can_be_cut_and_joined():
    y, more = hard_sets(3, 4, L), torch.rand(3, 2, L, generator=generator()) * hard_sets(3, 2, L)
    both = concatenate([from_dense(y), from_dense(more)])
    dense = torch.cat([y, more], dim=1)
    assert both.shape == dense.shape and torch.equal(both.to_dense(), dense)
    for cut in (slice(1, None), slice(None, 1), slice(4, None), slice(3, 5), slice(-1, None)):
        assert torch.equal(both[:, cut].to_dense(), dense[:, cut])
    weights, table = torch.randn(3, L), torch.randn(L, 2)
    torch.testing.assert_close(dot(both, weights), dot(dense, weights))
    torch.testing.assert_close(sum_rows(both, table), sum_rows(dense, table))
    torch.testing.assert_close(total(both), total(dense))
    assert torch.equal(squared(both).to_dense(), dense**2)
    with pytest.raises(TypeError, match="a slice of candidates"):
        both[:, 0]


def test_empty_sets_are_sets():
    empty = from_dense(torch.zeros(2, 3, L))
    assert empty.shape == (2, 3, L) and not empty.to_dense().any()
    energy = MultiLabelEnergy(L, H, G)
    torch.testing.assert_close(energy(torch.randn(2, H), empty), energy(torch.randn(2, H), torch.zeros(2, 3, L)))


# --- energy and losses ----------------------------------------------------------------------------------------------


def energy_net(dtype, sparse_gradients=False, energy="multilabel"):
    torch.manual_seed(0)
    sizes = dict(feature_size=H, head_layers=1, hidden_size=H, global_size=G, num_labels=L)
    net = LossNet(LossNetConfig(energy=energy, encoder_mode="shared", **sizes)).to(dtype)
    net.sparse_gradients(sparse_gradients)
    return net.energy


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("sparse_gradients", [False, True])
@pytest.mark.parametrize("name", energies_of("multi_label"))
def test_energies_and_all_gradients_are_those_of_dense_sets(name, dtype, tolerance, sparse_gradients):
    """In features, relaxed output, both tables, c and v; the output's gradient comes through the cut, at mass 1."""
    logits = torch.randn(3, L, generator=generator()).to(dtype)
    gold, samples = hard_sets(3, 1, L).to(dtype), hard_sets(3, 6, L).to(dtype)
    weight = torch.randn(3, 8, generator=generator(1)).to(dtype)
    results = []
    for sparse in (False, True):
        energy = energy_net(dtype, sparse_gradients, name)
        features = torch.randn(3, H, generator=generator(2)).to(dtype).requires_grad_()
        z = logits.clone().requires_grad_()
        if sparse:
            index = torch.arange(L).expand(3, 1, L).flip(-1)
            y = concatenate(
                [
                    LabelSets(((index, torch.sigmoid(z).unsqueeze(1).gather(-1, index)),), L),
                    from_dense(gold),
                    from_dense(samples),
                ]
            )
        else:
            y = torch.cat([torch.sigmoid(z).unsqueeze(1), gold, samples], dim=1)
        energies = energy(features, y)
        (energies * weight).sum().backward()
        gradients = [p.grad.to_dense() if p.grad.is_sparse else p.grad for p in energy.parameters()]
        assert energy.projection.weight.grad.is_sparse == (sparse and sparse_gradients)
        results.append([energies.detach(), features.grad, z.grad, *gradients])
    for dense, sparse in zip(*results, strict=True):
        torch.testing.assert_close(sparse, dense, rtol=tolerance, atol=tolerance)


def test_gradients_have_the_rows_of_the_candidates_alone():
    energy = energy_net(torch.float32, sparse_gradients=True)
    y = torch.zeros(2, 1, L)
    y[0, 0, 3] = y[0, 0, 7] = y[1, 0, 7] = 1
    energy(torch.randn(2, H), from_dense(y)).sum().backward()
    for table in (energy.label_embeddings, energy.projection):
        gradient = table.weight.grad.coalesce()
        assert set(gradient.indices()[0].tolist()) <= {0, 3, 7}  # 0 fills up the shorter set, with gradient 0
        assert not gradient.to_dense()[0].any()


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_losses_are_those_of_the_same_candidates_in_dense_tensors(name):
    torch.manual_seed(0)
    logits, features, labels = torch.randn(4, L), torch.randn(4, H), hard_sets(4, L)
    loss, energy = energy_loss(name.split(",")[0], num_samples=9, **WITH_OPTIONS[name]), MultiLabelEnergy(L, H, G)
    sparse = loss.candidates(SPARSE, logits, labels, generator())
    assert isinstance(sparse.y, LabelSets)
    dense = type(sparse)(sparse.y.to_dense())
    loss.annotate(DENSE, logits, labels, dense)
    torch.testing.assert_close(dense.y[:, 0], torch.sigmoid(logits))
    assert torch.equal(dense.y[:, 1], labels)
    values = [loss(energy(features, c.y), c) for c in (dense, sparse)]
    torch.testing.assert_close(*values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["f1", "l1", "l1_mean"])
def test_costs_scores_and_log_probabilities_are_those_of_dense_sets(kind):
    logits, labels = torch.randn(4, L, generator=generator()), hard_sets(4, L)
    sets = torch.cat([torch.rand(4, 2, L, generator=generator()), hard_sets(4, 3, L)], dim=1)
    sparse = from_dense(sets)
    torch.testing.assert_close(SPARSE.cost(sparse, labels, kind), DENSE.cost(sets, labels, kind))
    torch.testing.assert_close(SPARSE.score(sparse, labels), DENSE.score(sets, labels))
    log_prob = DENSE.log_prob(logits, sets)
    torch.testing.assert_close(SPARSE.log_prob(logits, sparse), log_prob)
    differences = SPARSE.log_noise(logits, sparse) - log_prob
    torch.testing.assert_close(differences, differences[:, :1].expand_as(differences))  # one constant per input


def test_repeated_sets_are_those_that_a_comparison_finds():
    sets = hard_sets(5, 40, 3)  # 8 different ones at most
    expected = torch.tensor([[any(torch.equal(row[i], row[j]) for j in range(i)) for i in range(40)] for row in sets])
    assert torch.equal(DENSE.repeated(sets), expected)
    parts = [from_dense(sets[:, :7]), from_dense(sets[:, 7:])]  # of different widths
    assert torch.equal(SPARSE.repeated(concatenate(parts)), expected)


def test_noise_on_every_logit_is_refused_at_the_start(tmp_path):
    with pytest.raises(ValueError, match="regression_s.*6 logits.*Choose regression_samples=.discrete"):
        tiny_run.make(tmp_path, loss="regression_s", sparse_labels_from=6)
    tiny_run.make(tmp_path, loss="regression_s", sparse_labels_from=7)
    for samples in (1, 5):  # 1: the output alone
        discrete = dict(loss="regression_s", regression_samples="discrete", num_samples=samples)
        trainer, *_ = tiny_run.make(tmp_path, sparse_labels_from=6, **discrete)
        trainer.train()
    with pytest.raises(ValueError, match="infnet.*all 6 labels"):
        tiny_run.make(tmp_path, loss="infnet", sparse_labels_from=6)


@pytest.mark.parametrize("option, value", [("relaxed_mass", 0.0), ("relaxed_mass", 1.5), ("relaxed_width", 0)])
def test_shares_and_widths_out_of_range_are_refused_by_name(tmp_path, option, value):
    with pytest.raises(ValueError, match=f"`{option}` is {value}"):
        tiny_run.arguments(tmp_path, **{option: value})


# --- the cut of the relaxed output -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mass", [0.3, 0.8, 0.99])
def test_the_cut_keeps_the_fewest_labels_that_hold_the_mass(mass):
    logits = 2 * torch.randn(5, L, generator=generator())
    y_hat, cut = torch.sigmoid(logits), truncate(logits, mass, L)
    for row, kept, dropped in zip(y_hat, cut.to_dense()[:, 0], cut.dropped, strict=True):
        ordered = row.sort(descending=True).values
        fewest = next(n for n in range(1, L + 1) if ordered[:n].sum() >= mass * row.sum() - 1e-6)
        assert (kept > 0).sum() == fewest
        torch.testing.assert_close(kept[kept > 0], row[kept > 0])
        torch.testing.assert_close(dropped, row.sum() - kept.sum())
        assert dropped <= (1 - mass) * row.sum() + 1e-5


def test_a_narrow_cut_says_what_it_drops():
    logits = torch.zeros(2, L)
    assert truncate(logits, 0.99, 4).dropped.tolist() == [4.0, 4.0]


def test_gradients_reach_the_kept_logits_and_no_other():
    logits = (2 * torch.randn(3, L, generator=generator())).requires_grad_()
    weights = torch.randn(3, L, generator=generator(1))
    cut = truncate(logits, 0.7, L)
    kept = cut.to_dense().detach()[:, 0] > 0
    dot(cut, weights).sum().backward()
    slope = torch.sigmoid(logits) * (1 - torch.sigmoid(logits))
    torch.testing.assert_close(logits.grad, (weights * slope * kept).detach())


@torch.no_grad()
def bound(energy, features, dropped):
    """How much truncating ŷ changes E(x, ŷ) at most: features (B, H), dropped mass r (B,) -> (B,).

        |E(x, ŷ) - E(x, ŷ')| <= r max_j ( |b_jᵀ T(x)| + Σ_g |v_g| |M_gj| ),     r = Σ_j |ŷ_j - ŷ'_j|

    Along the segment from ŷ' to ŷ, ∂E/∂y_j = -b_jᵀ T(x) - Σ_g v_g σ(M y + c)_g M_gj, and 0 < σ < 1 bounds the last
    factor: each unit of mass at label j changes E by at most the term in brackets. The bound is nearly tight if the
    dropped mass is on the label with the largest term, all signs agree, and M y + c is large."""
    local = (features @ energy.label_embeddings.weight.T).abs()  # (B, L)
    if energy.has_global_term:
        local = local + energy.projection.weight.abs() @ energy.direction.weight[0].abs()
    return dropped * local.max(1).values


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_holds(seed):
    torch.manual_seed(seed)
    energy, features, logits = MultiLabelEnergy(L, H, G), torch.randn(8, H), 3 * torch.randn(8, L)
    torch.nn.init.normal_(energy.bias, std=3)
    cut = truncate(logits, float(torch.rand(())), L)
    change = energy(features, torch.sigmoid(logits).unsqueeze(1)) - energy(features, cut)
    assert (change.squeeze(1).abs() <= bound(energy, features, cut.dropped) + 1e-5).all()


def test_the_bound_is_tight():
    """All mass on equal labels, all signs alike, and softplus where its slope is 1."""
    energy, features = MultiLabelEnergy(L, H, G), torch.ones(1, H)
    for parameter, value in zip(energy.parameters(), (30.0, 0.5, 0.25, 2.0), strict=True):  # c, b, M, v
        torch.nn.init.constant_(parameter, value)
    logits = torch.zeros(1, L)
    cut = truncate(logits, 0.5, L)
    change = energy(features, torch.sigmoid(logits).unsqueeze(1)) - energy(features, cut)
    torch.testing.assert_close(change.abs().squeeze(1), bound(energy, features, cut.dropped))
    assert change.abs() > 1


def test_the_local_term_alone_is_a_number_per_label():
    """`global_size` 0: E(x, y) = - Σ_i y_i b_iᵀ T(x), dense and sparse, and its bound."""
    energy, features, logits = MultiLabelEnergy(L, H, 0), torch.randn(8, H), 3 * torch.randn(8, L)
    assert [name for name, _ in energy.named_parameters()] == ["label_embeddings.weight"]
    y, cut = torch.sigmoid(logits).unsqueeze(1), truncate(logits, 0.5, L)
    per_label = features @ energy.label_embeddings.weight.T
    torch.testing.assert_close(energy(features, y), -(y.squeeze(1) * per_label).sum(1, keepdim=True))
    torch.testing.assert_close(energy(features, cut), energy(features, cut.to_dense()))
    change = (energy(features, y) - energy(features, cut)).squeeze(1).abs()
    assert (change <= bound(energy, features, cut.dropped) + 1e-5).all()


# --- whole runs ------------------------------------------------------------------------------------------------------

FORCED = dict(sparse_labels_from=1, relaxed_mass=1.0)


@pytest.mark.parametrize(
    "loss, options",
    [
        ("regression", dict(batch=8, accumulation=2, loss_net_steps=2, loss_net_weight_decay=0.1)),
        ("margin", dict(loss_net_max_grad_norm=0.5)),
    ],
)
def test_a_run_with_sparse_sets_ends_where_the_dense_one_does(tmp_path, loss, options):
    """No noise; the output holds every label, so each row of the tables has a gradient in every step. (Clipping and
    `regression` together are no oracle: dense runs with other accumulation differ by 6e-3 then.)"""
    dense, _ = tiny_run.run(tmp_path, loss=loss, **options)
    sparse, trainer = tiny_run.run(tmp_path, loss=loss, **FORCED, **options)
    assert trainer.learner.optimizer.state[trainer.loss_net.energy.projection.weight]["step"].shape == (6,)  # row-wise
    torch.testing.assert_close(sparse, dense, rtol=0, atol=5e-6)


def test_a_sparse_run_resumes_to_the_bit(tmp_path):
    options = dict(sparse_labels_from=1, relaxed_width=2, dropout=0.3, save_strategy="steps", save_steps=4)
    whole, _ = tiny_run.run(tmp_path / "whole", **options)
    resumed, _ = tiny_run.run(tmp_path / "part", resume=str(tmp_path / "whole" / "checkpoint-4"), **options)
    assert torch.equal(resumed, whole)


def test_the_log_says_what_the_cut_leaves_out(tmp_path):
    trainer, nets = tiny_run.make(
        tmp_path, sparse_labels_from=1, relaxed_width=2, max_steps=1, logging_steps=1, batch=96
    )
    y_hat = torch.sigmoid(nets(features=trainer.train_dataset.batch(range(96))["features"]).logits)
    trainer.train()
    expected = y_hat.sort(1).values[:, :-2].sum(1).mean().item()
    assert trainer.state.log_history[0]["dropped_mass"] == pytest.approx(expected, rel=1e-4)


class Largest(TorchDispatchMode):
    """Remembers the number of elements of the largest tensor that any operation gave."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                size = tensor._nnz() * tensor.shape[1] if tensor.is_sparse else tensor.numel()
                self.elements = max(self.elements, size)
        return result


@pytest.mark.parametrize("loss", ["nce", "ranking"])
def test_no_tensor_has_a_batch_times_samples_times_labels(loss):
    """20,000 labels, K = 200: no tensor of both phases is larger than B x L or a table."""
    batch, num_labels, num_samples, size = 4, 20_000, 200, 8
    rates = 5 / (torch.arange(num_labels) + 1) / 10  # long-tailed, some 5 labels per row
    logits = torch.logit(rates).expand(batch, -1).clone().requires_grad_()
    labels = (torch.rand(batch, num_labels, generator=generator()) < rates).float()
    energy, space = MultiLabelEnergy(num_labels, size, size), MultiLabelSpace()
    energy.label_embeddings.sparse = energy.projection.sparse = True
    energy_loss = ENERGY_LOSSES[loss](num_samples=num_samples)
    features = torch.randn(batch, size)
    with Largest() as largest:
        candidates = energy_loss.candidates(space, logits, labels, generator())
        energy_loss(energy(features, candidates.y), candidates).backward()
        energy_loss.task_term(energy(features, space.output(logits))).backward()
    assert candidates.y.shape == (batch, num_samples + 2, num_labels) and logits.grad.any()
    assert largest.elements <= max(batch, size) * num_labels


def test_a_cut_output_counts_the_mass_of_all_labels():
    """Against the sum over all labels; most of the mass is in the second part."""
    size = AT_ONCE + 1000
    p = torch.full((1, size), 1e-4)
    p[:, AT_ONCE:] = 0.5 * torch.rand(1, 1000, generator=torch.Generator().manual_seed(0))
    found = truncate(torch.logit(p), 0.9, size)
    ordered = p[0].sort(descending=True).values
    kept = int((ordered.double().cumsum(0) - ordered < 0.9 * p.double().sum()).sum())
    assert abs(int((found.to_dense() > 0).sum()) - kept) <= 1  # the last one, by rounding
    torch.testing.assert_close(found.dropped, p.sum(1) - found.to_dense()[0].sum(1), rtol=1e-3, atol=1e-3)
