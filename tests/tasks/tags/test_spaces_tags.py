"""Tag sequences: oracles are enumeration of all C^T sequences, closed forms and finite differences."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from seal_hf import TagSequenceSpace

C, T = 3, 4
SPACE = TagSequenceSpace(["O", "B-x", "I-x"])


@pytest.fixture
def logits():
    return torch.randn(2, T, C, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def all_sequences(length=T):
    tags = torch.tensor(list(itertools.product(range(C), repeat=length)))
    return F.one_hot(tags, C).double()  # (C^T, T, C)


def with_holes(y):
    """The same sequences with positions that do not count, full of other values, put in between and behind."""
    junk = torch.rand(*y.shape[:-2], 1, C, dtype=y.dtype)
    return torch.cat([y[..., :1, :], junk, y[..., 1:, :], 3 * junk, junk], dim=-2)


MASK = torch.tensor([[True, False, True, True, True, False, False]]).expand(2, -1)


def test_probabilities_of_all_sequences_sum_to_one(logits):
    y = all_sequences().expand(2, -1, -1, -1)
    log_p = SPACE.log_prob(logits.float(), y.float())
    torch.testing.assert_close(log_p.exp().sum(1), torch.ones(2), rtol=1e-5, atol=1e-5)


def test_samples_have_the_distribution_of_the_task_net(logits):
    samples = SPACE.sample(logits, 20000, torch.Generator().manual_seed(1))
    assert samples.shape == (2, 20000, T, C) and torch.equal(samples.sum(-1), torch.ones(2, 20000, T))
    torch.testing.assert_close(samples.mean(1).double(), SPACE.relax(logits), rtol=0, atol=0.015)
    pairs = torch.einsum("bkc,bkd->bcd", samples[:, :, 0], samples[:, :, 2]) / 20000  # positions are independent
    p = SPACE.relax(logits)
    torch.testing.assert_close(pairs.double(), torch.einsum("bc,bd->bcd", p[:, 0], p[:, 2]), rtol=0, atol=0.015)


def test_what_does_not_count_changes_nothing(logits):
    gold, mask = SPACE.gold(torch.tensor([[0, -100, 1, 2, 0, -100, -100], [2, -100, 1, 0, 1, -100, -100]]))
    assert torch.equal(mask, MASK)
    plain_gold = gold[mask].view(2, T, C).double()
    y = torch.cat([all_sequences()[:5].expand(2, -1, -1, -1), SPACE.perturb(logits, 3, 1.0, torch.Generator())], dim=1)
    for name, plain, holes in (
        ("log_prob", SPACE.log_prob(logits, y), SPACE.log_prob(with_holes(logits), with_holes(y), MASK)),
        ("score", SPACE.score(y, plain_gold), SPACE.score(with_holes(y), gold.double(), MASK)),
        *(
            (kind, SPACE.cost(y, plain_gold, kind), SPACE.cost(with_holes(y), gold.double(), kind, MASK))
            for kind in ("f1", "l1", "l1_mean")
        ),
    ):
        torch.testing.assert_close(plain, holes, rtol=1e-12, atol=1e-12, msg=name)
    hard = y[:, :5]
    assert torch.equal(
        SPACE.repeated(hard[:, [0, 1, 0, 2, 1]]), SPACE.repeated(with_holes(hard[:, [0, 1, 0, 2, 1]]), MASK)
    )
    assert SPACE.repeated(hard[:, [0, 1, 0, 2, 1]]).tolist() == [[False, False, True, False, True]] * 2


def test_costs_are_what_they_say(logits):
    gold, mask = SPACE.gold(torch.tensor([[0, 1, 2, -100], [1, 2, 0, 0]]))
    y = SPACE.perturb(logits, 6, 1.0, torch.Generator().manual_seed(2))
    direct = ((y - gold.unsqueeze(1)).abs() * mask[:, None, :, None]).sum((2, 3))
    torch.testing.assert_close(SPACE.cost(y, gold, "l1", mask), direct)
    torch.testing.assert_close(SPACE.cost(y, gold, "l1_mean", mask), direct / mask.sum(1, keepdim=True))
    accuracy = ((y * gold.unsqueeze(1)).sum(-1) * mask.unsqueeze(1)).sum(-1) / mask.sum(1, keepdim=True)
    torch.testing.assert_close(SPACE.score(y, gold, mask), accuracy)
    assert SPACE.score(gold.unsqueeze(1), gold, mask).tolist() == [[1.0], [1.0]]
    for of_type in (gold, gold.bool(), gold.to(torch.uint8)):
        torch.testing.assert_close(SPACE.score(y, of_type), (y * gold.unsqueeze(1)).sum(-1).mean(-1))
        torch.testing.assert_close(SPACE.cost(y, of_type, "l1_mean"), SPACE.cost(y, gold, "l1") / y.shape[2])


def test_the_task_loss_is_summed_over_tokens_and_averaged_over_rows(logits):
    labels = torch.tensor([[0, 1, 2, -100], [1, -100, -100, -100]])
    gold, mask = SPACE.gold(labels)
    expected = -SPACE.log_prob(logits, gold.double().unsqueeze(1), mask).mean()
    torch.testing.assert_close(SPACE.task_loss(logits, labels), expected)


def test_mixed_logits_are_of_the_mixed_distribution(logits):
    gold, _ = SPACE.gold(torch.tensor([[0, 1, 2, 0], [1, 2, 0, 0]]))
    mixed = SPACE.relax(SPACE.mix(logits, gold, 0.3))
    torch.testing.assert_close(mixed, 0.7 * SPACE.relax(logits) + 0.3 * gold)


def test_logits_invert_relax(logits):
    torch.testing.assert_close(SPACE.relax(SPACE.logits(SPACE.relax(logits))), SPACE.relax(logits))


def test_shapes_that_cannot_be_are_named(logits):
    SPACE.check(logits, torch.zeros(2, T, dtype=torch.long))
    for labels in (torch.zeros(2, T + 1), torch.zeros(2, T, C)):
        with pytest.raises(ValueError, match=r"\(2, 4, 3\)"):
            SPACE.check(logits, labels)
    with pytest.raises(ValueError, match="3 tags"):
        SPACE.check(logits[..., :2], torch.zeros(2, T))


def test_rows_without_a_position_are_finite(logits):
    labels = torch.full((2, T), -100)
    gold, mask = SPACE.gold(labels)
    y = SPACE.relax(logits).unsqueeze(1)
    assert SPACE.task_loss(logits, labels) == 0 and SPACE.score(y, gold, mask).tolist() == [[1.0], [1.0]]
    assert SPACE.cost(y, gold, "l1_mean", mask).tolist() == [[0.0], [0.0]]
    assert math.isfinite(SPACE.log_prob(logits, y, mask).sum())
