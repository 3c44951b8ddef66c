"""Task losses of tag sequences against loops over their formulas, their gradients against finite differences."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from seal_hf.tasks.tags.chains import CRF
from seal_hf.tasks.tags.task_losses import TAG_TASK_LOSSES, TagTaskLoss

BIO = ["O", "B-ARG0", "I-ARG0", "B-ARG1", "I-ARG1", "B-V", "B-R-ARG0", "B-ARGM-TMP"]
BIOES = ["O", "B-A0", "I-A0", "E-A0", "S-A0", "B-A1", "I-A1", "S-AA"]  # one role begins in two ways, two in one
B, T, C = 5, 5, len(BIO)
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]]).bool()
G = torch.Generator().manual_seed(0)
LABELS = torch.randint(0, C, (B, T), generator=G).masked_fill(~MASK, -100)
LOGITS = 3 * torch.randn(B, T, C, generator=G, dtype=torch.float64)


def crf():
    chain = CRF(C).double()
    for n, parameter in enumerate(chain.parameters()):
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(n))
    return chain


def make(name, tags=BIO, **options):
    return TAG_TASK_LOSSES[name](tags, crf() if name == "crf" else None, **options)


def cross_entropy(logits, labels):
    """One token at a time, per row."""
    p = logits.softmax(-1).tolist()
    rows = zip(p, labels.tolist(), strict=True)
    return [-math.fsum(math.log(q[tag]) for q, tag in zip(row, y, strict=True) if tag != -100) for row, y in rows]


def violation(logits, labels, roles):
    """The double loop over positions, per row; `roles` lists each role's tags that begin it."""
    p, rows = logits.softmax(-1).tolist(), []
    for row, y in zip(p, labels.tolist(), strict=True):
        counted = [q for q, tag in zip(row, y, strict=True) if tag != -100]
        total = 0.0
        for begins in roles:
            b = [sum(q[tag] for tag in begins) for q in counted]
            for i in range(len(b)):
                others = [math.log(max(1 - b[j], 1e-6)) for j in range(len(b)) if j != i]
                total += max(math.log(b[i]) - min(others), 0.0) if others else 0.0
        rows.append(total)
    return rows


def test_cross_entropy_is_summed_over_counted_tokens():
    expected = cross_entropy(LOGITS, LABELS)
    torch.testing.assert_close(make("cross_entropy").per_example(LOGITS, LABELS).tolist(), expected)
    assert make("cross_entropy")(LOGITS, LABELS).item() == pytest.approx(sum(expected) / B, rel=1e-5)


def test_the_crf_loss_is_that_of_its_chain_and_trains_it():
    loss = make("crf")
    torch.testing.assert_close(loss.per_example(LOGITS, LABELS), loss.crf(LOGITS, LABELS))
    loss(LOGITS, LABELS).backward()
    assert all(p.grad.abs().sum() > 0 for p in loss.crf.parameters())


@pytest.mark.parametrize("tags, roles", [(BIO, [[1], [3]]), (BIOES, [[1, 4], [5], [7]])])
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_unique_roles_are_the_double_loop(tags, roles, scale):
    loss = make("unique_roles", tags, unique_roles_weight=0.7)
    for seed in range(5):
        logits = scale * torch.randn(B, T, C, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        expected = violation(logits, LABELS, roles)
        torch.testing.assert_close(loss.violation(logits, LABELS).tolist(), expected, atol=1e-12, rtol=1e-9)
        whole = [a + 0.7 * b for a, b in zip(cross_entropy(logits, LABELS), expected, strict=True)]
        assert loss(logits, LABELS).item() == pytest.approx(sum(whole) / B, rel=1e-5)


def test_one_core_role_violates_nothing_and_two_do():
    """Every certain token costs nothing; a second B-ARG0 costs -log 1e-6 at both places, a second B-V nothing."""
    loss = make("unique_roles")
    for tags, places in [([1, 2, 0, 3, 5], 0), ([1, 2, 1, 3, 0], 2), ([1, 1, 1, 3, 3], 5), ([5, 5, 6, 6, 7], 0)]:
        logits = 40 * torch.nn.functional.one_hot(torch.tensor([tags]), C).double()
        got = loss.violation(logits, torch.zeros(1, T, dtype=torch.long)).item()
        assert got == pytest.approx(-places * math.log(1e-6), abs=1e-4)


@pytest.mark.parametrize("name", TAG_TASK_LOSSES)
def test_gradients_are_finite_differences(name):
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: make(name).per_example(x, LABELS), logits)


@pytest.mark.parametrize("name", TAG_TASK_LOSSES)
@pytest.mark.parametrize("junk", [1e3, float("nan")])
def test_what_does_not_count_has_no_influence(name, junk):
    loss = make(name)
    labels = torch.nn.functional.pad(LABELS, (2, 5), value=-100)
    logits = torch.nn.functional.pad(LOGITS, (0, 0, 2, 5)).masked_fill((labels == -100).unsqueeze(2), junk)
    logits.requires_grad_()
    value = loss.per_example(logits, labels)
    torch.testing.assert_close(value, loss.per_example(LOGITS, LABELS), atol=1e-12, rtol=1e-12)
    assert value[-1] == 0
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert gradient.isfinite().all() and (gradient[labels == -100] == 0).all()
    assert loss(LOGITS[:, :1], LABELS[:, :1]).isfinite()  # no pair of positions


@pytest.mark.parametrize("name", TAG_TASK_LOSSES)
@pytest.mark.parametrize("size", [80.0, 1e4])
def test_extreme_logits_give_finite_losses_and_gradients(name, size):
    signs = list(itertools.islice(itertools.cycle([-1.0, 1.0, 1.0]), B * T * C))
    logits = (size * torch.tensor(signs).view(B, T, C)).requires_grad_()
    loss = make(name)(logits, LABELS)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.isfinite() and gradient.isfinite().all()


@pytest.mark.parametrize("name", TAG_TASK_LOSSES)
def test_half_precision_logits_are_summed_in_float32(name):
    loss = make(name)
    loss.crf = loss.crf and loss.crf.float()
    value = loss(LOGITS.bfloat16(), LABELS)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(LOGITS.bfloat16().float(), LABELS))


@pytest.mark.parametrize("name", TAG_TASK_LOSSES)
def test_no_value_is_read_on_the_way(name):
    """Meta tensors have shapes alone; whatever would wait for a device fails on them."""
    loss = make(name)
    loss.crf = loss.crf and loss.crf.to("meta")
    assert loss(LOGITS.to("meta"), LABELS.to("meta")).is_meta


def test_the_arguments_name_the_loss_and_its_options():
    args = SimpleNamespace(task_loss="unique_roles", unique_roles_weight=2.5)
    loss = TagTaskLoss.from_arguments(args, BIO)
    assert type(loss) is TAG_TASK_LOSSES["unique_roles"] and loss.unique_roles_weight == 2.5


@pytest.mark.parametrize(
    "name, tags, message",
    [
        ("focal", BIO, "`task_loss` is 'focal'; for tag sequences it must be one of cross_entropy, crf, unique_roles"),
        ("crf", BIO, "this task-net lacks a CRF"),
        ("unique_roles", ["NN", "VB", "B-PER"], "found only NN, VB, B-PER"),
    ],
)
def test_a_loss_that_cannot_be_had_is_named(name, tags, message):
    with pytest.raises(ValueError, match=message):
        TagTaskLoss.from_arguments(SimpleNamespace(task_loss=name, unique_roles_weight=1.0), tags)
    with pytest.raises(ValueError, match="The CRF has 3 tags and the task-net 8"):
        TAG_TASK_LOSSES["crf"](BIO, CRF(3))
