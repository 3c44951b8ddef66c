"""Task losses against loops over their formulas in float64, their gradients against finite differences of these loops,
and the trainer against the closed form."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_run
import torch

from seal_hf import TASK_LOSSES, MultiLabelSpace, SealTrainingArguments, TensorRows
from seal_hf.core.label_sets import from_dense
from seal_hf.training.card import run_card

L = 4
SETS = torch.tensor(list(itertools.product([0.0, 1.0], repeat=L)))
LABELS = torch.tensor([[1.0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]])
LOGITS = torch.tensor([[0.3, -1.2, 2.0, -0.4], [-3.5, 1.1, 0.2, -0.7], [0.0, 1.5, -2.2, 4.0]])
SAMPLES = torch.stack([SETS[[0, 5, 9, 9]], SETS[[3, 0, 15, 8]], SETS[[15, 7, 2, 1]]])  # a sample may be the gold
OPTIONS = [
    ("cross_entropy", {}),
    ("focal", {}),
    ("focal", {"gamma": 0.7}),
    ("asymmetric", {}),
    ("asymmetric", {"gamma_positive": 1.0, "gamma_negative": 2.5, "clip": 0.2}),
    ("asymmetric", {"clip": 0.0, "gamma_negative": 0.5}),
    ("asymmetric", {"clip": 0.2, "gamma_negative": 0.0}),
    ("zlpr", {}),
    ("soft_f1", {}),
    ("soft_f1", {"soft_f1_weight": 0.5}),
    ("ranking", {}),
]


def by_hand(name, logits, labels, samples=SAMPLES, **options):
    """The formula, one label at a time."""
    o = SimpleNamespace(
        **{
            "soft_f1_weight": 3.0,
            "gamma": 2.0,
            "gamma_negative": 4.0,
            "gamma_positive": 0.0,
            "clip": 0.05,
            **options,
        }
    )
    rows = []
    for s, y, drawn in zip(np.asarray(logits, np.float64), labels.tolist(), samples.tolist(), strict=True):
        p = [1 / (1 + math.exp(-v)) for v in s]
        total = 0.0
        if name == "ranking":
            score = [sum(math.log(q if on else 1 - q) for q, on in zip(p, z, strict=True)) for z in [y, *drawn]]
            total = -math.log(math.exp(score[0]) / sum(math.exp(v) for v in score))
        elif name == "zlpr":  # every pair that has an order: gold above others, the threshold 0 between
            gold = [v for v, on in zip(s, y, strict=True) if on]
            others = [v for v, on in zip(s, y, strict=True) if not on]
            pairs = [*itertools.product(gold, others), *((v, 0.0) for v in gold), *((0.0, v) for v in others)]
            total = math.log(1 + sum(math.exp(low - high) for high, low in pairs))
        else:
            if name == "soft_f1":
                shared = sum(q for q, on in zip(p, y, strict=True) if on)
                total = o.soft_f1_weight * (1 - 2 * shared / (sum(p) + sum(y)))
            for q, on in zip(p, y, strict=True):
                r = max(q - o.clip, 0.0)
                total -= {
                    ("cross_entropy", 1): lambda q=q: math.log(q),
                    ("cross_entropy", 0): lambda q=q: math.log(1 - q),
                    ("focal", 1): lambda q=q: (1 - q) ** o.gamma * math.log(q),
                    ("focal", 0): lambda q=q: q**o.gamma * math.log(1 - q),
                    ("asymmetric", 1): lambda q=q: (1 - q) ** o.gamma_positive * math.log(q),
                    ("asymmetric", 0): lambda r=r: r**o.gamma_negative * math.log(1 - r),
                }[name if name in ("focal", "asymmetric") else "cross_entropy", int(on)]()
        rows.append(total)
    return sum(rows) / len(rows)


@pytest.mark.parametrize("name, options", OPTIONS)
def test_the_value_is_the_formulas(name, options):
    loss = TASK_LOSSES[name](**options)
    assert loss(LOGITS, LABELS, SAMPLES).item() == pytest.approx(by_hand(name, LOGITS, LABELS, **options), rel=1e-5)


@pytest.mark.parametrize("name, options", OPTIONS)
def test_the_gradient_is_that_of_the_formula(name, options):
    logits = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(TASK_LOSSES[name](**options)(logits, LABELS, SAMPLES), logits)
    for place in itertools.product(range(3), range(L)):
        step = np.zeros((3, L))
        step[place] = 1e-5
        high, low = (by_hand(name, LOGITS.double().numpy() + e, LABELS, **options) for e in (step, -step))
        assert gradient[place].item() == pytest.approx((high - low) / 2e-5, abs=2e-5)


@pytest.mark.parametrize(
    "name, options",
    [
        ("focal", {"gamma": 0.0}),
        ("asymmetric", {"gamma_negative": 0.0, "clip": 0.0}),
    ],
)
def test_without_its_focus_it_is_cross_entropy(name, options):
    expected = torch.nn.functional.binary_cross_entropy_with_logits(LOGITS, LABELS, reduction="none").sum(-1).mean()
    torch.testing.assert_close(TASK_LOSSES[name](**options)(LOGITS, LABELS), expected)


def test_an_unknown_label_has_no_share_in_soft_f1():
    """The loss and its gradient are those of the row without that label."""
    loss, logits = TASK_LOSSES["soft_f1"](), LOGITS[:1].clone().requires_grad_()
    unknown = LABELS[:1].clone()
    unknown[0, 1] = -1
    (gradient,) = torch.autograd.grad(value := MultiLabelSpace(loss=loss).task_loss(logits, unknown), logits)
    kept = [0, 2, 3]
    expected = loss(few := LOGITS[:1, kept].requires_grad_(), LABELS[:1, kept])
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient[:, kept], torch.autograd.grad(expected, few)[0])
    assert gradient[0, 1] == 0


@pytest.mark.parametrize("name", [name for name in TASK_LOSSES if name != "ranking"])
def test_a_row_without_known_labels_adds_nothing(name):
    space, labels = MultiLabelSpace(loss=TASK_LOSSES[name]()), LABELS.clone()
    labels[1] = -1
    known = [0, 2]
    expected = space.task_loss(LOGITS[known], LABELS[known]) * len(known) / len(LABELS)
    torch.testing.assert_close(space.task_loss(LOGITS, labels), expected)


@pytest.mark.parametrize("name, options", OPTIONS)
@pytest.mark.parametrize("size", [80.0, 1e4])
def test_extreme_logits_give_finite_losses_and_gradients(name, options, size):
    logits = (size * torch.tensor([[1.0, -1, 1, -1]])).repeat(3, 1).requires_grad_()
    loss = TASK_LOSSES[name](**options)(logits, LABELS, SAMPLES)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.isfinite() and gradient.isfinite().all()


@pytest.mark.parametrize("name, options", OPTIONS)
def test_half_precision_logits_are_summed_in_float32(name, options):
    loss, logits = TASK_LOSSES[name](**options), LOGITS.bfloat16()
    for labels in (LABELS, LABELS.long()):
        value = loss(logits, labels, SAMPLES)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, loss(logits.float(), LABELS, SAMPLES))


def test_ranking_over_its_own_samples_approaches_the_exact_value():
    """(1/K) Σ_k P(y_k) -> Σ_y P(y)² over all 2^L label sets, for samples y_k of P."""
    K = 100_000
    space = MultiLabelSpace(loss=TASK_LOSSES["ranking"](num_samples=K))
    p = space.log_prob(LOGITS, SETS.expand(3, -1, -1)).exp()
    gold = space.log_prob(LOGITS, LABELS.unsqueeze(1)).exp()[:, 0]
    exact = -(gold / (gold + K * (p**2).sum(1))).log().mean()
    drawn = space.task_loss(LOGITS, LABELS, torch.Generator().manual_seed(0))
    assert drawn.item() == pytest.approx(exact.item(), abs=0.01)


def test_ranking_takes_sparse_samples_and_is_cross_entropy_without_any():
    ranking = TASK_LOSSES["ranking"]()
    torch.testing.assert_close(ranking(LOGITS, LABELS, from_dense(SAMPLES)), ranking(LOGITS, LABELS, SAMPLES))
    assert ranking(LOGITS, LABELS) == TASK_LOSSES["cross_entropy"]()(LOGITS, LABELS)
    sparse = MultiLabelSpace(sparse_from=2, loss=ranking)
    assert sparse.task_loss(LOGITS, LABELS, torch.Generator().manual_seed(0)).isfinite()


@pytest.mark.parametrize("name", TASK_LOSSES)
def test_the_trainer_logs_the_loss_it_was_asked_for(tmp_path, name):
    """One step over all rows: its loss is that of the initial task-net; the evaluation's that of the final one."""
    options = {"num_samples": 7, "task_loss": name, "batch": 96, "max_steps": 1, "logging_steps": 1}
    trainer, nets = tiny_run.make(tmp_path, "ce", **options)
    rows = TensorRows(tiny_run.table()).batch(range(96))
    logits = nets.task_net(features=rows["features"]).logits.detach()
    trainer.train()
    log = trainer.state.log_history[0]
    assert log["loss"] == pytest.approx(log["task_loss"], abs=1e-4)  # transformers 4 rounds its figure
    with torch.no_grad():
        after = nets.task_net(features=rows["features"]).logits
    space, labels = trainer.space, rows["labels"]
    # the rows of the one batch are shuffled, which a loss on samples notices, and nothing else does
    tolerance = 0.1 if name == "ranking" else 1e-4
    expected = space.task_loss(logits, labels, torch.Generator().manual_seed(0)).item()
    assert log["loss"] == pytest.approx(expected, rel=tolerance)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(space.task_loss(after, labels).item(), rel=1e-4)
    assert (name == "cross_entropy") == ("trained with cross-entropy by" in run_card(trainer))


def test_a_loss_net_goes_with_any_task_loss(tmp_path):
    options = {"task_loss": "zlpr", "batch": 96, "max_steps": 1, "logging_steps": 1}
    trainer, nets = tiny_run.make(tmp_path, "nce", **options, energy_weight=0.5, task_weight=2.0)
    rows = TensorRows(tiny_run.table()).batch(range(96))
    logits = nets.task_net(features=rows["features"]).logits.detach()
    trainer.train()
    log, task_loss = trainer.state.log_history[0], TASK_LOSSES["zlpr"]()(logits, rows["labels"]).item()
    with torch.no_grad():  # the loss-net moves before the task-net does
        y = trainer.space.output(logits)
        energy = nets.loss_net(y, None, {"features": rows["features"]}).mean().item()
    assert log["loss"] == pytest.approx(2 * task_loss + 0.5 * energy, rel=1e-4)


def test_ranking_noise_is_stateless_and_differs_between_micro_batches(tmp_path, monkeypatch):
    seen = []
    original = MultiLabelSpace.task_loss

    def task_loss(space, logits, labels, generator=None):
        seen.append(None if generator is None else generator.initial_seed())
        return original(space, logits, labels, generator)

    monkeypatch.setattr(MultiLabelSpace, "task_loss", task_loss)
    options = {"task_loss": "ranking", "batch": 8, "accumulation": 2, "max_steps": 2}
    whole, trainer = tiny_run.run(tmp_path / "a", loss="ce", **options)
    assert len(set(seen)) == 4
    torch.manual_seed(5)
    again, _ = tiny_run.run(tmp_path / "b", loss="ce", **options)
    assert seen[4:] == seen[:4] and torch.equal(whole, again)
    trainer.evaluate()
    assert set(seen[8:]) == {None}


def test_a_search_over_task_losses_changes_the_loss(tmp_path):
    """The arguments at the start of the training count, not those at construction."""
    trainer, _ = tiny_run.make(tmp_path, loss="ce", task_loss="focal", logging_steps=1, max_steps=1)
    trainer.args.task_loss = "cross_entropy"
    trainer.train()
    other, _ = tiny_run.make(tmp_path, loss="ce", logging_steps=1, max_steps=1)
    other.train()
    assert trainer.state.log_history[0]["loss"] == pytest.approx(other.state.log_history[0]["loss"], rel=1e-5)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"task_loss": "bce"},
            "`task_loss` is 'bce'; it must be one of cross_entropy, focal, asymmetric, zlpr, soft_f1",
        ),
        ({"num_samples": 0}, "`num_samples` is 0; it must be a finite number, at least 1"),
    ],
)
def test_a_wrong_argument_is_named(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        SealTrainingArguments(output_dir=str(tmp_path), use_cpu=True, **options)


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("focal", {"gamma": -1.0}, "`gamma` is -1.0; it must be a finite number, at least 0"),
        ("asymmetric", {"gamma_negative": math.nan}, "`gamma_negative` is nan"),
        ("asymmetric", {"clip": 1.0}, "`clip` is 1.0; it must be a finite number, at least 0 and below 1"),
    ],
)
def test_a_wrong_option_is_named(name, options, message):
    with pytest.raises(ValueError, match=message):
        TASK_LOSSES[name](**options)
