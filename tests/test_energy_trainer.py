"""EnergyTrainer. Oracles: all 2^L label sets of small problems, the losses' closed forms, uninterrupted runs."""

import itertools

import pytest
import tiny_run
import torch
from datasets import Dataset
from tiny_models import tiny_config, tiny_features, tiny_inputs, tiny_texts, tiny_tokenizer
from transformers import AutoModelForSequenceClassification
from transformers.trainer_callback import PrinterCallback

from seal_hf import (
    ENERGY_METHODS,
    EnergyTrainer,
    EnergyTrainingArguments,
    LossNet,
    LossNetConfig,
    MLPConfig,
    MLPForMultiLabel,
    MultiLabelSpace,
    SealForMultiLabel,
    SealTrainer,
    TensorRows,
    load_energy_network,
    tokenize,
)
from seal_hf.loss_net import encoder_options

L = 3
SETS = torch.tensor(list(itertools.product([0.0, 1.0], repeat=L)))  # (8, 3)
SPACE = MultiLabelSpace()


def arguments(folder, **options):
    defaults = dict(num_train_epochs=3, learning_rate=1e-2, logging_steps=2, per_device_train_batch_size=16)
    quiet = dict(save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True)
    return EnergyTrainingArguments(output_dir=str(folder), **{**defaults, **quiet, **options})


def make(folder, net, rows, callbacks=None, **options):
    given = {name: options.pop(name) for name in ("task_net", "space", "compute_metrics") if name in options}
    args = arguments(folder, **options)
    trainer = EnergyTrainer(net, args, train_dataset=rows, eval_dataset=rows, callbacks=callbacks, **given)
    trainer.remove_callback(PrinterCallback)
    return trainer


def network(num_inputs, labels=L, hidden=32, dropout=0.0):
    torch.manual_seed(0)
    encoder = MLPConfig(input_size=num_inputs, hidden_size=hidden, num_layers=1 + (dropout > 0), dropout=dropout)
    return LossNet(
        LossNetConfig(encoder_config=encoder.to_dict(), feature_size=hidden, global_size=32, num_labels=labels)
    )


def indifferent(num_inputs, labels=L):
    """A task-net that gives every label set the same probability."""
    task_net = MLPForMultiLabel(MLPConfig(input_size=num_inputs, hidden_size=4, num_labels=labels))
    task_net.classifier.weight.data.zero_()
    return task_net


def table(inputs, labels):
    return TensorRows(Dataset.from_dict({"features": inputs.numpy(), "labels": labels.numpy()}))


@torch.no_grad()
def energies_of_all_sets(net, inputs):
    return net.eval()(SETS.expand(len(inputs), -1, -1), None, {"features": inputs})  # (B, 8)


# --- what is learned -------------------------------------------------------------------------------------------------

INPUTS = torch.eye(4)
GOLD = torch.tensor([[1.0, 0, 0], [0, 1, 1], [1, 1, 1], [1, 0, 1]])
INDEX = (GOLD @ torch.tensor([4.0, 2, 1])).long()  # of gold among SETS
RANKING = dict(per_device_train_batch_size=4, lr_scheduler_type="constant", inference_steps=10, logging_steps=1000)


@pytest.mark.parametrize("start", ["auto", "random"])
def test_spen_gives_gold_the_least_energy_of_all_label_sets_by_the_margin(tmp_path, start):
    net = network(4)
    options = dict(inference_start=start, inference_num_starts=2, inference_learning_rate=0.2)
    trainer = make(tmp_path, net, table(INPUTS, GOLD), max_steps=250, **options, **RANKING)
    trainer.train()
    energies = energies_of_all_sets(net, INPUTS)
    assert torch.equal(energies.argmin(1), INDEX)
    cost = SPACE.cost(SETS.expand(4, -1, -1), GOLD, "f1")
    gap = energies - energies.gather(1, INDEX.unsqueeze(1))
    assert (gap >= cost - 0.1).all()
    predictions = trainer.predict(trainer.eval_dataset).predictions
    assert torch.equal((torch.from_numpy(predictions) >= 0).float(), GOLD)


def test_dvn_learns_the_score_of_all_label_sets(tmp_path):
    net = network(4)
    trainer = make(tmp_path, net, table(INPUTS, GOLD), max_steps=500, inference_num_starts=2, **RANKING)
    trainer.args.energy_method, trainer.method = "dvn", ENERGY_METHODS["dvn"](trainer.method.inference, 1, "f1")
    trainer.train()
    value = torch.sigmoid(-energies_of_all_sets(net, INPUTS))
    score = SPACE.score(SETS.expand(4, -1, -1), GOLD)
    print((value - score).abs().mean(1), (value - score).abs().max(1))
    for v, s in zip(value, score):
        print(torch.stack([v, s]))
    assert torch.equal(value.argmax(1), INDEX)


def test_nce_learns_the_conditional_distribution(tmp_path):
    """Two inputs whose label sets depend on each other; rows in proportion to p(y | x)."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.eye(2)
    exponent = torch.randn(2, L, generator=generator) @ SETS.T + 1.5 * torch.randn(8, generator=generator)
    counts = (400 * exponent.softmax(1)).round().long()
    rows = [(inputs[x], SETS[y]) for x in range(2) for y in range(8) for _ in range(counts[x, y])]
    data = table(*(torch.stack(part) for part in zip(*rows, strict=True)))
    net, options = network(2), {**RANKING, "per_device_train_batch_size": 100, "lr_scheduler_type": "linear"}
    trainer = make(
        tmp_path, net, data, energy_method="nce", num_samples=30, task_net=indifferent(2), max_steps=400, **options
    )
    trainer.train()
    learned = torch.softmax(-energies_of_all_sets(net, inputs), 1)
    torch.testing.assert_close(learned, counts / counts.sum(1, keepdim=True), rtol=0, atol=0.03)
