"""SealTrainer on text, with tiny encoders. Oracles: the tokenizer's own padding, the same run without the option, and
weights that a rate of zero must leave alone."""

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import LABELLED, LABELS, tiny_arguments, tiny_config, tiny_inputs, tiny_texts, tiny_tokenizer
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    BertForSequenceClassification,
    FunnelConfig,
    T5Config,
)

from seal_hf import LossNet, LossNetConfig, SealForMultiLabel, SealTrainer, collate_rows, tokenize
from seal_hf.nets.encoders import ENCODER_MODES, task_features

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture
def folder(tmp_path):
    """Plain tiny checkpoints by family, made on demand."""

    def make(kind="bert", **changes):
        path = tmp_path / kind
        if not path.exists():
            torch.manual_seed(0)
            AutoModel.from_config(tiny_config(kind, **changes)).save_pretrained(path)
        return path

    return make


@pytest.fixture(scope="module")
def rows():
    return tokenize(tiny_texts(16), tiny_tokenizer(), max_length=8)


def nets(path, mode):
    torch.manual_seed(0)
    return SealForMultiLabel.from_pretrained(path, loss_net_encoder=mode)


def trainer_of(seal, rows, output_dir, **arguments):
    mode = seal.loss_net.config.encoder_mode
    return SealTrainer(seal, tiny_arguments(output_dir, loss_net_encoder=mode, **arguments), train_dataset=rows)


def weights(*modules):
    return [{name: value.clone() for name, value in module.state_dict().items()} for module in modules]


def largest_difference(first, second):
    assert first.keys() == second.keys()
    return max(float((value.float() - second[name].float()).abs().max()) for name, value in first.items())


def test_batches_are_padded_as_the_tokenizer_pads_them(rows):
    tokenizer, texts = tiny_tokenizer(), tiny_texts(16)
    for indices in ([0, 5, 3], [7], list(range(16))):
        batch = collate_rows(rows.__getitems__(indices))
        chosen = [texts[i]["text"] for i in indices]
        expected = tokenizer(chosen, padding=True, truncation=True, max_length=8, return_tensors="pt")
        assert set(expected) <= set(batch)
        for name, value in expected.items():
            assert torch.equal(batch[name], value), name
        assert torch.equal(batch["labels"], torch.tensor([texts[i]["labels"] for i in indices]))


@pytest.mark.parametrize(
    ("kind", "mode"),
    [*((kind, "separate") for kind in ("bert", "distilbert", "roberta", "electra", "modernbert")), ("bert", "shared")],
)
def test_every_family_trains(kind, mode, folder, rows, tmp_path):
    seal = nets(folder(kind), mode)
    before = weights(seal.task_net, seal.loss_net)
    arguments = {"max_steps": 24, "learning_rate": 1e-2, "loss_net_learning_rate": 1e-2, "logging_steps": 4}
    trainer = trainer_of(seal, rows, tmp_path / "run", **arguments)
    trainer.train()
    losses = [entry["task_loss"] for entry in trainer.state.log_history if "task_loss" in entry]
    assert len(losses) == 6 and losses[-1] < losses[0] - 0.05
    for net, start in zip((seal.task_net, seal.loss_net), before, strict=True):
        still = [name for name, value in net.state_dict().items() if torch.equal(value, start[name])]
        assert [name for name in still if net.get_parameter(name).numel() > 1] == []  # every weight has moved


@pytest.mark.parametrize("mode", ENCODER_MODES)
def test_gradient_checkpointing_changes_nothing(mode, folder, rows, tmp_path):
    """Dropout is on: the second forward of a checkpointed layer must see the noise of the first, although the
    loss-net's updates lie between."""
    trained = []
    for checkpointing in (False, True):
        seal = nets(folder(), mode)
        calls = []
        seal.task_net.bert.encoder.layer[0].attention.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        arguments = {"num_train_epochs": 1, "max_steps": -1, "gradient_checkpointing": checkpointing}
        trainer = trainer_of(seal, rows, tmp_path / "run", **arguments)
        trainer.train()
        assert trainer.state.global_step == 4
        assert len(calls) == (8 if checkpointing else 4)  # the task-net runs once per step, and once more in backward
        trained.append(weights(seal.task_net, seal.loss_net))
    for plain, checkpointed in zip(*trained, strict=True):
        assert largest_difference(plain, checkpointed) < 1e-6


def test_the_loss_nets_encoder_has_its_own_rate(folder, rows, tmp_path):
    seal = nets(folder(), "separate")
    (before,) = weights(seal.loss_net)
    trainer = trainer_of(seal, rows, tmp_path / "run", loss_net_learning_rate=1e-2, loss_net_encoder_learning_rate=0.0)
    trainer.train()
    groups = trainer.learner.optimizer.param_groups
    assert [group["lr"] for group in groups] == [0.0, 1e-2]
    assert sum(p.numel() for group in groups for p in group["params"]) == sum(
        p.numel() for p in seal.loss_net.parameters()
    )
    for name, value in seal.loss_net.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith("encoder."), name
    assert trainer.state.log_history[-2]["loss_net_learning_rate"] == 1e-2  # what is logged is the head's

    seal = nets(folder(), "separate")
    trainer = trainer_of(seal, rows, tmp_path / "run", loss_net_learning_rate=1e-2)  # unset: that of the task-net
    trainer.train()
    assert [group["lr"] for group in trainer.learner.optimizer.param_groups] == [trainer.args.learning_rate, 1e-2]


@pytest.mark.parametrize("mode", ENCODER_MODES)
def test_training_does_not_depend_on_padding(mode, folder, rows, tmp_path):
    """The same rows in batches padded to their longest text and padded to twice the longest of all."""
    texts = tiny_texts(16)
    encoded = tiny_tokenizer()(texts["text"][:], truncation=True, max_length=8)
    encoded = tiny_tokenizer().pad(encoded, padding="max_length", max_length=16)
    longest = tiny_texts(16).remove_columns("text")
    for name in ("input_ids", "attention_mask"):
        longest = longest.add_column(name, encoded[name])
    trained = []
    for dataset in (rows, type(rows)(longest)):
        seal = nets(folder(**NO_DROPOUT), mode)
        trainer_of(seal, dataset, tmp_path / "run", energy_loss="margin", optim="sgd", learning_rate=0.1).train()
        trained.append(weights(seal.task_net))
    assert largest_difference(trained[0][0], trained[1][0]) < 1e-5


class Silent(BertForSequenceClassification):
    """Its outputs have no hidden states."""

    def forward(self, input_ids=None, attention_mask=None, labels=None, output_hidden_states=None):
        return super().forward(input_ids, attention_mask)


@pytest.mark.parametrize("mode", ENCODER_MODES)
def test_an_encoder_decoder_trains_and_resumes(mode, rows, tmp_path):
    """A shared loss-net reads the encoder's states; one of its own has tied embeddings, which a file holds once."""
    saving = dict(save_strategy="steps", save_steps=2, eval_strategy="steps", eval_steps=2, load_best_model_at_end=True)
    ends = []
    for folder, resume in (("whole", None), ("whole", str(tmp_path / "whole" / "checkpoint-2"))):
        torch.manual_seed(0)
        task_net = AutoModelForSequenceClassification.from_config(tiny_config("bart"))
        args = tiny_arguments(tmp_path / folder, loss_net_encoder=mode, max_steps=4, **saving)
        trainer = SealTrainer(task_net, args, train_dataset=rows, eval_dataset=rows)
        trainer.train(resume_from_checkpoint=resume)
        ends.append(weights(trainer.model, trainer.loss_net))
    for whole, resumed in zip(*ends, strict=True):
        assert largest_difference(whole, resumed) == 0
    with torch.no_grad():
        outputs = task_net.eval()(**tiny_inputs("bert"), output_hidden_states=True)
        features = task_features(outputs, tiny_inputs("bert"), task_net, pooling=None)
    torch.testing.assert_close(features, outputs.encoder_last_hidden_state, rtol=0, atol=0)


def test_encoders_that_cannot_be_copied_are_refused_by_name(tmp_path):
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "vocab_size": 12}
    t5 = AutoModelForSequenceClassification.from_config(T5Config(**sizes, decoder_start_token_id=0, **LABELLED))
    with pytest.raises(ValueError, match="T5ForSequenceClassification does not run on the input alone.*Use 'shared'"):
        SealForMultiLabel.from_task_net(t5, loss_net_encoder="separate")
    assert SealForMultiLabel.from_task_net(t5, loss_net_encoder="shared").loss_net.encoder is None
    sizes = {"d_model": 16, "d_head": 8, "n_head": 2, "d_inner": 16, "block_sizes": [1], "vocab_size": 12}
    funnel = AutoModelForSequenceClassification.from_config(FunnelConfig(**sizes, **LABELLED))
    with pytest.raises(ValueError, match="FunnelForSequenceClassification cannot be built again.*energy_loss='ce'"):
        SealForMultiLabel.from_task_net(funnel, loss_net_encoder="separate")


def test_a_task_net_without_hidden_states_is_refused_before_it_learns(rows, tmp_path):
    task_net = Silent(tiny_config("bert"))
    loss_net = LossNet(LossNetConfig(encoder_mode="shared", feature_size=16, head_layers=1, num_labels=len(LABELS)))
    trainer = trainer_of(SealForMultiLabel(task_net, loss_net), rows, tmp_path / "run")
    before = weights(task_net, loss_net)
    with pytest.raises(ValueError, match="Silent returned none .*loss_net_encoder='separate'"):
        trainer.train()
    for start, now in zip(before, weights(task_net, loss_net), strict=True):
        assert largest_difference(start, now) == 0


@pytest.mark.parametrize("mode", ENCODER_MODES)
def test_a_lora_task_net_trains_saves_and_resumes(mode, folder, rows, tmp_path):
    """Interrupted after two of four steps and resumed, against uninterrupted; dropout on."""
    peft = pytest.importorskip("peft")

    def lora_trainer(name, **arguments):
        seal = nets(folder(), mode)
        lora = peft.LoraConfig(task_type="SEQ_CLS", r=2, lora_dropout=0.1, target_modules=["query", "value"])
        seal.task_net = peft.get_peft_model(seal.task_net, lora)
        arguments = {"save_strategy": "steps", "save_steps": 2, **arguments}
        return trainer_of(seal, rows, tmp_path / name, **arguments)

    whole = lora_trainer("whole")
    frozen = {name: p.detach().clone() for name, p in whole.model.named_parameters() if not p.requires_grad}
    (start,) = weights(whole.model)
    whole.train()
    moved = {name for name, value in whole.model.state_dict().items() if not torch.equal(value, start[name])}
    assert any("lora_" in name for name in moved) and any("classifier" in name for name in moved)
    assert not moved & frozen.keys()

    checkpoint = tmp_path / "whole" / "checkpoint-2"
    files = {str(path.relative_to(checkpoint)) for path in checkpoint.rglob("*") if path.is_file()}
    assert {"adapter_model.safetensors", "adapter_config.json", "_loss_net/model.safetensors"} <= files
    assert "model.safetensors" not in files
    assert not [name for name in files if name.startswith("_loss_net/") and "adapter_model" in name]

    resumed = lora_trainer("resumed")
    resumed.train(resume_from_checkpoint=str(checkpoint))
    for first, second in zip(
        weights(whole.model, whole.loss_net), weights(resumed.model, resumed.loss_net), strict=True
    ):
        assert largest_difference(first, second) == 0
    for name in ("adapter_model.safetensors", "_loss_net/model.safetensors"):
        ends = [load_file(tmp_path / run / "checkpoint-4" / name) for run in ("whole", "resumed")]
        assert largest_difference(*ends) == 0


def test_energies_of_a_trained_net_survive_a_checkpoint(folder, rows, tmp_path):
    seal = nets(folder(), "separate")
    trainer_of(seal, rows, tmp_path / "run", save_strategy="steps", save_steps=4).train()
    again, inputs = SealForMultiLabel.from_pretrained(tmp_path / "run" / "checkpoint-4"), tiny_inputs("bert")
    y = torch.rand(5, 3, len(LABELS), generator=torch.Generator().manual_seed(0))
    seal.eval()
    with torch.no_grad():
        assert torch.equal(seal(**inputs).logits, again(**inputs).logits)
        assert torch.equal(seal.energy(y, **inputs), again.energy(y, **inputs))
