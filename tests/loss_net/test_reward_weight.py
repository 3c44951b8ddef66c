"""λ1 by default where rows lack gold. Oracle: the gradients at the logits of the validation rows, computed anew."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import set_seed

from seal_hf import (
    LabelFunctionReward,
    RewardLabelSpace,
    SealForMultiLabel,
    SealTrainer,
    SealTrainingArguments,
    TensorRows,
    load_multilabel,
    reward_rows,
)
from seal_hf.loss_net.energy_weight import SCALES, measured_pull

QUIET = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}


def test_a_measured_pull_is_that_of_the_last_evaluation_of_the_first_set():
    log = [{"loss": 1.0}, {"eval_a_energy_alignment": 0.1, "eval_a_energy_pull": 2.0}]
    log += [{"eval_b_energy_alignment": 0.1, "eval_b_energy_pull": 5.0}]
    assert measured_pull(log[:1], "eval_a_") == 0 and measured_pull(log, "eval_a_") == 2
    dead = [*log, {"eval_a_energy_alignment": 0.1, "eval_a_energy_pull": 2e6}]
    assert measured_pull(dead, "eval_a_") == 0


def rewarded(folder, **options):
    set_seed(0)
    whole, data = load_multilabel(max_train_rows=200), load_multilabel(max_train_rows=200, num_labelled=8)
    key = lambda row: np.asarray(row, np.float32).tobytes()  # noqa: E731
    gold = {key(x): np.asarray(y) for x, y in zip(whole.train["features"], whole.train["labels"], strict=True)}
    knowing = lambda inputs, sets: (sets == np.array([gold[key(x)] for x in inputs])[:, None]).mean(-1)  # noqa: E731
    reward = LabelFunctionReward(knowing, data.label_names, batched=True)
    rows = reward_rows(data, TensorRows, reward, repeat_labelled=None)
    model = SealForMultiLabel.for_data(data, hidden_size=16, global_size=8)
    rates = {"learning_rate": 1e-2, "loss_net_learning_rate": 1e-2, "task_weight": 1 / rows.gold_share}
    usual = {"num_train_epochs": 8, "per_device_train_batch_size": 16, "eval_strategy": "epoch", "logging_steps": 1}
    usual |= {"energy_loss": "contrastive_divergence", "num_samples": 8, **rates, **QUIET}
    args = SealTrainingArguments(str(folder), **{**usual, **options})
    space = RewardLabelSpace.from_arguments(args, model.task_net, reward)
    validation = TensorRows(data.validation.select(range(60)))
    trainer = SealTrainer(model, args, train_dataset=rows, eval_dataset=validation, space=space)
    trainer.train()
    return trainer, model


def test_the_weight_is_the_task_losss_pull_at_validation_rows(tmp_path):
    trainer, model = rewarded(tmp_path)
    log = trainer.state.log_history
    steps = [(i, entry) for i, entry in enumerate(log) if "energy_share" in entry]
    assert [entry["energy_share"] for _, entry in steps] == [measured_pull(log[:i]) > 0 for i, _ in steps]
    weights = [(entry.get("energy_weight", 0), measured_pull(log[:i])) for i, entry in steps]
    weights = [(found, wanted) for found, wanted in weights if wanted > 0]
    assert len(weights) > 3 and [found for found, _ in weights] == pytest.approx([wanted for _, wanted in weights])

    rows = trainer.eval_dataset.batch(range(len(trainer.eval_dataset)))
    inputs, labels = {"features": rows["features"]}, rows["labels"]
    with torch.no_grad():
        logits = model.task_net.eval()(**inputs).logits
    logits.requires_grad_()
    energies = model.loss_net.eval().energies(model.loss_net.encode(inputs), torch.sigmoid(logits).unsqueeze(1))
    (of_energy,) = torch.autograd.grad(energies.sum(), logits)
    errors = [torch.sigmoid(a * logits.detach()) - labels for a in SCALES]
    of_task = min(errors, key=lambda error: abs((error * logits.detach()).sum().item()))
    last = [entry for entry in log if "eval_energy_pull" in entry][-1]
    assert last["eval_energy_pull"] == pytest.approx((of_task.norm() / of_energy.norm()).item(), rel=1e-4)
    cosine = torch.nn.functional.cosine_similarity(of_energy.flatten(), of_task.flatten(), dim=0).item()
    assert last["eval_energy_alignment"] == pytest.approx(cosine, rel=1e-3)


def test_without_evaluations_the_weight_is_one(tmp_path):
    found = []
    for weight in (None, 1.0):
        trainer, model = rewarded(tmp_path, energy_weight=weight, eval_strategy="no", max_steps=4)
        found.append(torch.cat([p.detach().flatten() for p in model.task_net.parameters()]))
        assert "energy_share" not in trainer.state.log_history[0]
    assert torch.equal(*found)


def test_gold_against_fresh_samples_is_measured_as_without_a_reward(tmp_path):
    """The same nets, rows and noise; rows without gold do not count."""
    trainer, model = rewarded(tmp_path / "a", num_train_epochs=1)
    found = trainer.evaluate()
    args = SealTrainingArguments(str(tmp_path / "b"), energy_loss="nce", per_device_eval_batch_size=8, **QUIET)
    plain = SealTrainer(model, args, eval_dataset=trainer.eval_dataset)
    plain.state.global_step = trainer.state.global_step
    expected = plain.evaluate()
    keys = ("eval_energy_auc", "eval_task_net_auc")
    assert [found[key] for key in keys] == [expected[key] for key in keys] and 0 < found["eval_energy_auc"] < 1

    batch = trainer.eval_dataset.batch(range(16))
    half = {**batch, "labels": batch["labels"].clone()}
    half["labels"][8:] = trainer.space.unlabelled
    few = {key: value[:8] for key, value in batch.items()}
    some, same = (
        SealTrainer(model, trainer.args, eval_dataset=Dataset.from_dict(rows), space=trainer.space)
        for rows in (half, few)
    )
    for each in (some, same):
        each.state.global_step = trainer.state.global_step
    assert [some.evaluate()[key] for key in keys] == [same.evaluate()[key] for key in keys]
