"""A fresh head learns at a rate of its own. The oracle: the first step of Adam moves a parameter by its rate."""

import logging

import pytest
import torch
from tiny_models import LABELLED, LABELS, tiny_arguments, tiny_config, tiny_features, tiny_texts, tiny_tokenizer
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from seal_hf import SealForMultiLabel, SealTrainer, tokenize

RATE, HEAD = 1e-4, 1e-2  # HEAD is the default
OPTIONS = dict(learning_rate=RATE, adam_epsilon=1e-16, weight_decay=0.0, max_grad_norm=0.0)
OPTIONS |= dict(max_steps=1, energy_loss="ce")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a pretrained encoder, or of a classifier, of some family."""

    def saved(kind, auto=AutoModel):
        path = tmp_path_factory.mktemp(kind)
        auto.from_config(tiny_config(kind)).save_pretrained(path)
        tiny_tokenizer().save_pretrained(path)
        return path

    return saved


def rows():
    return tokenize(tiny_texts(8), tiny_tokenizer(), max_length=8)


def moved(tmp_path, net, data=None, **options):
    """Name of each trained parameter of the task-net -> by how much the first step moved it at most."""
    data = rows() if data is None else data
    trainer = SealTrainer(net, tiny_arguments(tmp_path, **{**OPTIONS, **options}), train_dataset=data)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters() if p.requires_grad}
    trainer.train()
    after = dict(trainer.model.named_parameters())
    found = {name: (after[name] - value).abs().max().item() for name, value in before.items()}
    assert sum(len(group["params"]) for group in trainer.optimizer.param_groups) == len(before)
    return {name: rate for name, rate in found.items() if rate}


def heads(rates, head=HEAD):
    """The names that moved by the head's rate or, with a point before them, by a tenth of it. The others moved by the
    encoder's."""
    marks = {RATE: None, head / 10: ".", head: ""}
    found = set()
    for name, rate in rates.items():
        nearest = min(marks, key=lambda one: abs(one / rate - 1))
        assert rate == pytest.approx(nearest, rel=0.02), name
        found |= set() if marks[nearest] is None else {marks[nearest] + name}
    return found


LAYERS = {"bert": ["classifier"], "roberta": ["classifier.out_proj", ".classifier.dense"]}
LAYERS |= {"distilbert": ["classifier", ".pre_classifier"]}
FAMILIES = {kind: {f"{layer}.{part}" for layer in LAYERS[kind] for part in ("weight", "bias")} for kind in LAYERS}


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("plain", [True, False])
def test_the_fresh_head_of_a_pretrained_encoder_has_its_rate(tmp_path, folder, kind, plain):
    path = folder(kind)
    if plain:
        net = AutoModelForSequenceClassification.from_pretrained(path, **LABELLED)
    else:
        net = SealForMultiLabel.from_pretrained(path, **LABELLED)
    assert heads(moved(tmp_path, net)) == FAMILIES[kind]


def test_a_saved_classifier_for_other_labels_is_a_fresh_head(tmp_path):
    config = tiny_config("bert")
    config.num_labels = 7
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / "saved")
    tiny_tokenizer().save_pretrained(tmp_path / "saved")
    net = SealForMultiLabel.from_pretrained(tmp_path / "saved", **LABELLED, ignore_mismatched_sizes=True)
    assert heads(moved(tmp_path, net)) == FAMILIES["bert"] == set(net.fresh)


def test_a_pooler_that_was_not_loaded_belongs_to_the_head(tmp_path, folder):
    net = AutoModelForSequenceClassification.from_pretrained(folder("bert", AutoModelForMaskedLM), **LABELLED)
    pooler = {".bert.pooler.dense.weight", ".bert.pooler.dense.bias"}
    assert heads(moved(tmp_path, net)) == FAMILIES["bert"] | pooler


def test_it_is_for_fresh_heads_beside_an_encoder_that_trains(tmp_path, folder):
    fresh = SealForMultiLabel.from_pretrained(folder("bert"), **LABELLED)
    assert heads(moved(tmp_path, fresh, head_learning_rate=RATE)) == set()
    for net, data in (
        (AutoModelForSequenceClassification.from_pretrained(folder("bert", AutoModelForSequenceClassification)), None),
        (AutoModelForSequenceClassification.from_config(tiny_config("bert")), None),
        (
            SealForMultiLabel.from_task_net(AutoModelForSequenceClassification.from_config(tiny_config("mlp"))),
            features(),
        ),
    ):
        assert heads(moved(tmp_path, net, data)) == set()
    frozen = SealForMultiLabel.from_pretrained(folder("bert"), loss_net_encoder="shared", **LABELLED)
    rates = moved(tmp_path, frozen, freeze_encoder=True, loss_net_encoder="shared")
    assert heads(rates) == set() and rates.keys() >= FAMILIES["bert"]


def features():
    return tiny_features(8)


def test_a_rate_that_no_head_takes_is_said(tmp_path, caplog):
    net = SealForMultiLabel.from_task_net(AutoModelForSequenceClassification.from_config(tiny_config("mlp")))
    args = tiny_arguments(tmp_path, energy_loss="ce", learning_rate=RATE, head_learning_rate=3e-3)
    with caplog.at_level(logging.WARNING, logger="seal_hf"):
        SealTrainer(net, args, train_dataset=features()).create_optimizer()
    assert "`head_learning_rate` 0.003 is not used: no fresh head" in caplog.text


def test_the_default_is_for_steps_of_the_size_of_the_rate_and_never_below_the_encoders(tmp_path, folder):
    def rates(**options):
        net = SealForMultiLabel.from_pretrained(folder("bert"), **LABELLED)
        args = tiny_arguments(tmp_path, energy_loss="ce", **{"learning_rate": RATE, **options})
        groups = SealTrainer(net, args, train_dataset=rows()).create_optimizer().param_groups
        return {group["lr"] for group in groups}

    assert rates() == {RATE, HEAD}
    assert rates(head_learning_rate=3e-3) == {RATE, 3e-3}
    assert rates(learning_rate=2e-2) == {2e-2}
    assert rates(optim="sgd") == rates(optim="adafactor") == {RATE}


@pytest.mark.parametrize("adapter", ["lora", "ia3"])
def test_with_an_adapter_the_head_is_what_is_saved_beside_it(tmp_path, folder, adapter):
    pytest.importorskip("peft")
    net = SealForMultiLabel.from_pretrained(folder("bert"), adapter=adapter, loss_net_encoder="shared", **LABELLED)
    found = heads(moved(tmp_path, net, loss_net_encoder="shared", energy_loss="nce"))
    assert {name.split("modules_to_save.default.")[1] for name in found} == {"weight", "bias"}
    assert all(".classifier." in name for name in found)


def test_a_schedule_scales_both_rates_and_a_resume_keeps_them(tmp_path, folder):
    """Also from nets that were loaded from the checkpoint itself, whose head is no longer fresh."""
    options = {**OPTIONS, "max_steps": 4, "save_strategy": "steps", "save_steps": 2}

    def trainer(path, where):
        net = SealForMultiLabel.from_pretrained(path, **(LABELLED if path == encoder else {}))
        return SealTrainer(net, tiny_arguments(where, **options), train_dataset=rows())

    encoder = folder("bert")
    torch.manual_seed(0)
    whole = trainer(encoder, tmp_path / "whole")
    whole.train()
    assert [group["lr"] for group in whole.optimizer.param_groups][:1] == [0.0]
    again = trainer(tmp_path / "whole" / "checkpoint-2", tmp_path / "again")
    again.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    for ours, theirs in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    initial = [group["initial_lr"] for group in again.optimizer.param_groups]
    assert sorted(set(initial)) == [RATE, HEAD] and len(LABELS) == again.model.config.num_labels
