"""Your own kind of output: the order of three items. Everything that it needs is in this file."""

import json
from itertools import permutations

import pytest
import torch
from datasets import Dataset
from torch import nn
from transformers import AutoModelForMultipleChoice

from seal_hf import MLPConfig, MLPForMultiLabel, OutputSpace, SealModel, SealTrainer, SealTrainingArguments, TensorRows
from seal_hf.cli import predict
from seal_hf.cli.output_kind import Evaluation, OutputKind
from seal_hf.cli.predict import evaluate
from seal_hf.cli.train.closing import close_run, reported
from seal_hf.core.energy import Energy
from seal_hf.core.task import TASKS, Task
from seal_hf.data.label_rows import FeatureTable
from seal_hf.data.table_sources import open_table
from seal_hf.reports.card_kinds import CardKind
from seal_hf.reports.common import Ending
from seal_hf.reports.page import Section

ITEMS = torch.tensor([*permutations(range(3))])  # (6, 3): the items of each order, the first place first
ORDERS = nn.functional.one_hot(ITEMS.argsort(1), 3).float()  # (6, 3, 3): the place of each item
FIGURES = {"accuracy": "orders that are right"}


class OrderSpace(OutputSpace):
    """Labels (B, 3) are the places of the items, logits (B, 3) their worths under Plackett and Luce's model, and a
    structure is a matrix of items and places."""

    name, problem_type, model_name, structure_dims = "order", None, "SealForOrder", 2

    def log_orders(self, logits):
        worths = logits.float()[..., ITEMS]  # (..., 6, 3)
        return sum(worths[..., i] - worths[..., i:].logsumexp(-1) for i in range(3))

    def check(self, logits, labels):
        assert logits.shape == labels.shape

    def gold(self, labels):
        return nn.functional.one_hot(labels.long(), 3).float(), None

    def relax(self, logits):
        return torch.einsum("...o,oip->...ip", self.log_orders(logits).exp(), ORDERS)

    def sample(self, logits, num_samples, generator):
        return ORDERS[torch.multinomial(self.log_orders(logits).exp(), num_samples, True, generator=generator)]

    def perturb(self, logits, num_samples, std, generator):
        return self.relax(logits.unsqueeze(1) + std * torch.randn(len(logits), num_samples, 3, generator=generator))

    def log_prob(self, logits, y, mask=None):
        return self.log_orders(logits).gather(1, (y.flatten(2) @ ORDERS.flatten(1).T).argmax(2))

    def task_loss(self, logits, labels, generator=None):
        return -self.log_prob(logits, self.gold(labels)[0].unsqueeze(1)).mean()

    def decode(self, logits, mask=None):
        return logits.argsort(1, descending=True).argsort(1)


class OrderEnergy(Energy):
    space = "order"

    def __init__(self, num_labels, feature_size, global_size):
        super().__init__()
        self.entries = nn.Linear(feature_size, num_labels**2)

    def reset_parameters(self):
        self.entries.reset_parameters()

    def forward(self, features, y, mask=None):
        return -(self.entries(features).unsqueeze(1) * y.flatten(2)).sum(2)


AutoModelForMultipleChoice.register(MLPConfig, MLPForOrder := type("MLPForOrder", (MLPForMultiLabel,), {}))


class SealForOrder(SealModel):
    auto_class, space_class = AutoModelForMultipleChoice, OrderSpace


class OrderOutput(OutputKind):
    model_class, check_decoder = SealForOrder, None

    def open_input(self, gold):
        return FeatureTable(open_table(self.options.input), self.config["input_size"])

    def predict(self, chunk):
        places = self.model.space.decode(self.model(features=torch.as_tensor(chunk.inputs)).logits).tolist()
        return [row | {"predicted": order} for row, order in zip(chunk.rows, places, strict=True)]

    def evaluate(self, reader):
        right = [row["predicted"] == row["labels"] for chunk in reader.chunks(7) for row in self.predict(chunk)]
        return Evaluation({"rows": len(right)}, f"accuracy {sum(right) / len(right):.4f}")


class OrderTask(Task):
    name, heads = "orders", ("ForOrder",)
    spaces, energies, model = {"order": OrderSpace}, {"order": OrderEnergy}, SealForOrder
    outputs = {"order": OrderOutput}
    cards = {"order": CardKind(seal="SealForOrder.from_pretrained($name)\n", task="ranking", figures=FIGURES)}
    sections = {"orders": lambda facts, folder: [Section("Orders", [f"{facts['items']} items were ordered."])]}


def test_the_probabilities_of_all_orders_sum_to_1_and_samples_have_them():
    space, logits = OrderSpace(), torch.tensor([[1.0, -0.5, 0.2]])
    p = space.log_prob(logits, ORDERS.unsqueeze(0)).exp()[0]
    drawn = space.sample(logits, 20000, torch.Generator().manual_seed(0))[0]
    torch.testing.assert_close(p.sum(), torch.tensor(1.0))
    torch.testing.assert_close((drawn.unsqueeze(1) == ORDERS).all(3).all(2).float().mean(0), p, rtol=0, atol=0.015)
    torch.testing.assert_close(space.relax(logits)[0, :, 0], logits.softmax(1)[0])  # to have the first place


def test_a_task_trains_with_an_energy_and_is_saved_loaded_predicted_and_reported(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(TASKS, "orders", OrderTask())
    torch.manual_seed(0)
    features, folder = torch.randn(64, 4), tmp_path / "run"
    places = features[:, :3].argsort(1, descending=True).argsort(1)
    table = Dataset.from_dict({"features": features.tolist(), "labels": places.tolist()})
    table.to_json(tmp_path / "new.jsonl")
    rows = {"train_dataset": TensorRows(table), "eval_dataset": TensorRows(table)}
    nets = SealForOrder.from_task_net(MLPForOrder(MLPConfig(input_size=4, hidden_size=16, num_labels=3)))
    options = dict(max_steps=60, learning_rate=0.02, loss_net_learning_rate=0.02, per_device_train_batch_size=16)
    options |= dict(energy_weight=1.0, logging_steps=20, use_cpu=True, report_to="none", save_strategy="no")
    figures = lambda found: {"accuracy": float((found.predictions == found.label_ids).all(1).mean())}  # noqa: E731
    args = SealTrainingArguments(folder, **options)
    trainer = SealTrainer(nets, args, **rows, decode_predictions=True, compute_metrics=figures)
    before = trainer.evaluate()["eval_accuracy"]
    with reported(trainer, {"dataset": "numbers"}) as shown:
        trainer.train()
        after = trainer.evaluate()["eval_accuracy"]
        report = lambda folder: ("the end", {"orders": {"items": 3}})  # noqa: E731
        ending = Ending({"eval_accuracy": after}, FIGURES, None, report, {"eval": 64}, card={"dataset": "numbers"})
        close_run(trainer, ending, shown)
    seal, gold = SealForOrder.from_pretrained(folder), nn.functional.one_hot(places, 3).float().unsqueeze(1)
    right = (gold == ORDERS).all(3).all(2)
    energies = seal.energy(ORDERS.expand(64, -1, -1, -1), features=features)
    assert before < 0.6 < 0.9 < after and energies[right].mean() < energies[~right].mean() - 1

    given, output = ["--model", str(folder), "--input", str(tmp_path / "new.jsonl")], tmp_path / "out.jsonl"
    predict.main([*given, "--output", str(output)])
    written = [json.loads(line)["predicted"] for line in output.read_text().splitlines()]
    assert written == seal.space.decode(seal(features=features).logits).tolist()
    evaluate(given)
    assert f"accuracy {after:.4f}" in capsys.readouterr().out
    card, page = (folder / "README.md").read_text(), (folder / "report.html").read_text()
    assert f"| orders that are right | {after:.4f} | - |" in card and "SealForOrder.from" in card
    assert ">Orders</h2>" in page and "3 items were ordered." in page and f"{after:.4f}" in page


def test_without_cards_and_energies_the_card_is_the_trainers_and_the_energy_is_missed(monkeypatch, tmp_path):
    plain = type("Plain", (OrderTask,), {"cards": {}})()
    monkeypatch.setitem(TASKS, "orders", plain)
    features = torch.randn(8, 4)
    rows = TensorRows(Dataset.from_dict({"features": features.tolist(), "labels": features[:, :3].argsort(1).tolist()}))
    net = MLPForOrder(MLPConfig(input_size=4, hidden_size=16, num_labels=3))
    args = SealTrainingArguments(tmp_path, max_steps=1, use_cpu=True, report_to="none", save_strategy="no")
    trainer = SealTrainer(net, args, train_dataset=rows)
    trainer.train()
    trainer.create_model_card()
    card = (tmp_path / "README.md").read_text()
    assert "generated_from_trainer" in card and "multi-label" not in card
    plain.energies = {}
    with pytest.raises(ValueError, match="no energy reads order outputs. Put one into `ENERGIES`, or into `energies`"):
        SealForOrder.from_task_net(net)
