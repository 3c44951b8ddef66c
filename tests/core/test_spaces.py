"""Output spaces against brute force over all label sets, and against scikit-learn."""

import itertools

import pytest
import torch
from sklearn.metrics import f1_score

from seal_hf import BinaryMaskSpace, MultiLabelSpace, TagSequenceSpace

L = 4
SETS = torch.tensor(list(itertools.product([0.0, 1.0], repeat=L)))  # (16, 4), every label set
SPACE = MultiLabelSpace()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def logits():
    return torch.randn(3, L, generator=generator(), dtype=torch.float64).float()


def test_log_prob_is_a_distribution_over_all_label_sets(logits):
    log_p = SPACE.log_prob(logits, SETS.expand(3, -1, -1))
    torch.testing.assert_close(log_p.exp().sum(1), torch.ones(3))
    p = torch.sigmoid(logits).unsqueeze(1)
    by_hand = torch.where(SETS.bool(), p, 1 - p).prod(-1)
    torch.testing.assert_close(log_p.exp(), by_hand)


def test_log_prob_stays_finite_where_probabilities_underflow():
    y = torch.tensor([[[1.0, 0.0]]])
    assert SPACE.log_prob(torch.tensor([[-500.0, 500.0]]), y).item() == pytest.approx(-1000.0)


def test_samples_follow_the_task_nets_distribution(logits):
    samples = SPACE.sample(logits, 40_000, generator())
    assert set(samples.unique().tolist()) == {0.0, 1.0}
    codes = (samples * 2 ** torch.arange(L)).sum(-1).long()  # (3, K), the set as an integer
    set_codes = (SETS * 2 ** torch.arange(L)).sum(-1).long()
    for row in range(3):
        frequency = torch.bincount(codes[row], minlength=2**L)[set_codes] / 40_000
        exact = SPACE.log_prob(logits[row : row + 1], SETS.unsqueeze(0)).exp()[0]
        assert (frequency - exact).abs().max() < 0.012  # 5 standard errors of the largest cell


@pytest.mark.parametrize("kind", ["multi_label", "binary_mask", "tag_sequence"])
def test_what_is_next_to_impossible_is_never_drawn_by_a_random_number_of_zero(kind, monkeypatch):
    """`torch.rand` gives 0 once in 2^24 numbers, whatever the probability that it is compared with."""
    sure = torch.full((1, 2, 3), 30.0)  # (B, T, C), (B, H, W), or label sets of 3 in 2 rows
    space = {"multi_label": MultiLabelSpace, "binary_mask": BinaryMaskSpace}.get(
        kind, lambda: TagSequenceSpace("ABC")
    )()
    monkeypatch.setattr(torch, "rand", lambda *shape, dtype=None, **_: torch.zeros(*shape, dtype=dtype))
    if kind == "tag_sequence":
        sure[..., 0] = -30.0
        assert not space.sample(sure, 4, generator())[..., 0].any()
    else:
        sure = sure[0] if kind == "multi_label" else sure
        assert not space.sample(-sure, 4, generator()).any() and space.sample(sure, 4, generator()).all()


def test_samples_depend_on_the_generator_alone(logits):
    torch.manual_seed(1)
    first = SPACE.sample(logits, 5, generator(3))
    torch.manual_seed(2)
    assert torch.equal(first, SPACE.sample(logits, 5, generator(3)))
    assert not torch.equal(first, SPACE.sample(logits, 5, generator(4)))


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_mix_has_the_probabilities_of_the_mixture(logits, share):
    logits = torch.cat([logits.double(), torch.tensor([[80.0, -80.0, 80.0, -80.0]]).double()])[:, :4]
    gold = (torch.arange(logits.numel()).view_as(logits) % 3 == 0).double()
    gold[-1] = torch.tensor([1, 1, 0, 0])
    expected = (1 - share) * torch.sigmoid(logits) + share * gold
    torch.testing.assert_close(torch.sigmoid(SPACE.mix(logits, gold, share).double()), expected, atol=1e-6, rtol=1e-5)


def test_perturb_has_the_given_noise_in_logit_space(logits):
    noise = torch.logit(SPACE.perturb(logits, 20_000, 0.5, generator())) - logits.unsqueeze(1)
    assert noise.mean().abs() < 0.01
    assert noise.std() == pytest.approx(0.5, abs=0.01)
    torch.testing.assert_close(SPACE.perturb(logits, 2, 0.0, generator())[:, 1], SPACE.relax(logits))


def test_score_is_the_example_f1_on_hard_sets():
    for y in SETS:
        score = SPACE.score(SETS.unsqueeze(0), y.unsqueeze(0))[0]
        expected = [f1_score(y.numpy(), other.numpy(), zero_division=1.0) for other in SETS]
        torch.testing.assert_close(score, torch.tensor(expected, dtype=torch.float32))


def test_score_is_the_soft_f1_of_its_definition_on_relaxed_sets():
    y_hat = torch.rand(1, 7, L, generator=generator())
    for y in SETS:
        low, high = torch.minimum(y_hat, y).sum(-1), torch.maximum(y_hat, y).sum(-1)
        torch.testing.assert_close(SPACE.score(y_hat, y.unsqueeze(0)), 2 * low / (low + high))


def test_two_empty_sets_score_one_and_cost_nothing():
    empty = torch.zeros(1, L)
    assert SPACE.score(empty.unsqueeze(1), empty).item() == 1.0
    assert all(SPACE.cost(empty.unsqueeze(1), empty, kind).item() == 0.0 for kind in ("f1", "l1", "l1_mean"))


def test_costs_are_distances():
    y = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    wrong = torch.tensor([[[1.0, 1.0, 0.0, 0.0]]])
    assert SPACE.cost(wrong, y, "l1").item() == 2.0
    assert SPACE.cost(wrong, y, "l1_mean").item() == 0.5
    assert SPACE.cost(wrong, y, "f1").item() == pytest.approx(0.5)


def test_task_loss_is_summed_over_labels_and_averaged_over_rows(logits):
    labels = SETS[[3, 9, 12]]
    by_hand = -SPACE.log_prob(logits, labels.unsqueeze(1)).mean()
    torch.testing.assert_close(SPACE.task_loss(logits, labels), by_hand)


def test_decode_is_inclusive_at_the_threshold():
    logits = torch.logit(torch.tensor([[0.2, 0.5, 0.7]]))
    assert SPACE.decode(logits).tolist() == [[0, 1, 1]]


@pytest.mark.parametrize("shapes", [((2, 3), (2, 4)), ((2, 5, 3), (2, 3)), ((2, 3), (2,))])
def test_outputs_that_are_not_multi_label_are_refused_with_both_shapes(shapes):
    logits, labels = (torch.zeros(shape) for shape in shapes)
    with pytest.raises(ValueError, match="multi-label") as error:
        SPACE.check(logits, labels)
    assert all(str(tuple(shape)) in str(error.value) for shape in shapes)
