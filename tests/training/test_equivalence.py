"""Runs that must give the same parameters of both nets: accumulation, transformers lines, precision."""

import pytest
import tiny_masks
import tiny_run
import torch
import transformers
from datasets import Dataset

from seal_hf import MaskRows, SealTrainer, TensorRows

SAME = dict(rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "loss, encoder, steps", [("regression", "separate", 3), ("regression", "shared", 1), ("ce", "separate", 1)]
)
def test_accumulation_changes_nothing(tmp_path, loss, encoder, steps):
    """No samples, no dropout: 1 x 16, 4 x 4 and 8 x 2 rows per update are the same run."""
    options = dict(loss=loss, encoder=encoder, loss_net_steps=steps)
    whole, _ = tiny_run.run(tmp_path, **options)
    for accumulation in (4, 8):
        split, _ = tiny_run.run(tmp_path, batch=16 // accumulation, accumulation=accumulation, **options)
        torch.testing.assert_close(split, whole, **SAME)


def test_both_transformers_lines_take_the_same_path(tmp_path):
    """Sum and square sum of all parameters after 18 steps, computed with 5.23.0; 4.57.6 gave the same digits."""
    expected = {
        "nce": (5.18070, 268.35353),
        "ranking": (5.24316, 268.38964),
        "margin": (5.67150, 268.66436),
        "regression": (-2.15964, 269.34321),
        "regression_s": (-2.30848, 268.99720),
        "ce": (2.10696, 268.89431),
    }
    for loss, digest in expected.items():
        options = dict(batch=8, accumulation=2, loss_net_learning_rate=1e-3, logging_steps=2)
        values = tiny_run.run(tmp_path, loss=loss, **options)[0].double()
        assert (values.sum().item(), values.square().sum().item()) == pytest.approx(digest, abs=2e-3), loss


def test_bf16_stays_close_to_float32(tmp_path):
    full, _ = tiny_run.run(tmp_path, num_train_epochs=1)
    half, _ = tiny_run.run(tmp_path, num_train_epochs=1, bf16=True)
    start = tiny_run.parameters(tiny_run.model())
    assert (half - full).norm() < 0.2 * (full - start).norm()


def test_losses_are_not_in_bf16_where_the_forward_is(tmp_path, monkeypatch):
    """On CPU, transformers 4 has all of `compute_loss` in autocast; of products of masks, three digits are left."""
    nets, rows = tiny_masks.model(), MaskRows(tiny_masks.squares(8))
    options = dict(loss="ce", task_loss="soft_iou", batch=8, bf16=True, max_steps=1, learning_rate=0.0)
    trainer, _ = tiny_masks.make(tmp_path, nets, rows, **options)
    seen, forward = [], SealTrainer._run_task_net

    def watched(trainer, model, inputs):
        outputs = forward(trainer, model, inputs)
        seen.append((outputs.logits.detach(), inputs["labels"]))
        return outputs

    monkeypatch.setattr(SealTrainer, "_run_task_net", watched)
    trainer.train()
    expected = trainer.space.task_loss(*seen[0])
    assert trainer.state.log_history[0]["task_loss"] == pytest.approx(expected.item(), abs=1e-5)


def test_cross_entropy_is_the_stock_trainer_with_a_summed_loss(tmp_path):
    class Summed(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            logits = model(features=inputs["features"]).logits
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, inputs["labels"], reduction="none")
            return loss.sum(1).mean()

    ours, trainer = tiny_run.run(tmp_path, loss="ce", dropout=0.3)
    torch.manual_seed(0)
    nets = tiny_run.model(dropout=0.3)
    rows = TensorRows(tiny_run.table())
    stock = Summed(nets.task_net, trainer.args, train_dataset=rows, data_collator=trainer.data_collator)
    stock.train()
    torch.testing.assert_close(tiny_run.parameters(nets), ours, rtol=0, atol=1e-7)


def test_a_plain_data_set_gives_the_same_run_as_tensor_rows(tmp_path):
    fast, _ = tiny_run.run(tmp_path, dropout=0.3)
    plain, _ = tiny_run.run(tmp_path, dropout=0.3, rows=tiny_run.table())
    assert isinstance(tiny_run.table(), Dataset) and torch.equal(fast, plain)


def test_hooks_do_not_depend_on_the_window_being_given(tmp_path):
    """A direct call of training_step, as some callbacks make, is a window of one micro-batch."""
    trainer, _ = tiny_run.make(tmp_path)
    trainer.create_optimizer()
    trainer.create_scheduler(10)
    trainer.current_gradient_accumulation_steps = 1
    batch = TensorRows(tiny_run.table()).batch([0, 1, 2])
    assert isinstance(trainer, SealTrainer) and trainer.training_step(trainer.model, batch).isfinite()
