"""Task-nets that a user has built. Oracles: the nets of `from_pretrained` and `for_data`, bit for bit, before and after
training; an uninterrupted run."""

import logging

import pytest
import tiny_run
import tiny_tags
import torch
from tiny_models import LABELLED, tiny_arguments, tiny_config, tiny_texts, tiny_tokenizer
from torch import nn
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PretrainedConfig,
    PreTrainedModel,
    RoFormerConfig,
    T5Config,
    T5ForTokenClassification,
    set_seed,
)
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.trainer_callback import PrinterCallback

from seal_hf import (
    FCNConfig,
    FCNForSemanticSegmentation,
    LossNet,
    LossNetConfig,
    SealForMultiLabel,
    SealForSegmentation,
    SealForTokenClassification,
    SealTrainer,
    SealTrainingArguments,
    tokenize,
)
from seal_hf.core.hierarchy import Hierarchy

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class OwnConfig(PretrainedConfig):
    model_type = "own_net"


class OwnNet(PreTrainedModel):
    """A net as users write them: its config knows no `hidden_size`."""

    config_class = OwnConfig
    main_input_name = "features"

    def __init__(self, config, width=12):
        super().__init__(config)
        self.hidden, self.head = nn.Linear(tiny_run.FEATURES, width), nn.Linear(width, config.num_labels)
        self.post_init()

    def forward(self, features, output_hidden_states=None, **kwargs):
        hidden = torch.tanh(self.hidden(features))
        return SequenceClassifierOutput(logits=self.head(hidden), hidden_states=(hidden,))


class NoStates(OwnNet):
    def forward(self, features):
        return SequenceClassifierOutput(logits=super().forward(features).logits)


@pytest.fixture
def classifier(tmp_path):
    """Folder of a plain BERT classifier."""
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(tiny_config("bert", **NO_DROPOUT)).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def plain(folder):
    return AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)


def trained(model, folder, resume=None, **options):
    """Parameters of both nets after a run, and its trainer."""
    rows = tokenize(tiny_texts(16), tiny_tokenizer(), max_length=16)
    init = model if callable(model) and not isinstance(model, nn.Module) else None
    given = {"model_init": init} if init else {"model": model}
    trainer = SealTrainer(**given, args=tiny_arguments(folder, **options), train_dataset=rows, eval_dataset=rows)
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    return torch.cat([p.detach().flatten() for net in (trainer.model, trainer.loss_net) for p in net.parameters()])


@pytest.mark.parametrize("mode", [None, "separate", "shared", "peft"])
def test_a_wrapped_model_trains_to_the_same_bits(mode, classifier, tmp_path):
    if mode == "peft":
        peft = pytest.importorskip("peft")
    set_seed(3)
    expected = SealForMultiLabel.from_pretrained(classifier, loss_net_encoder=mode, fresh_loss_net=True, global_size=8)
    set_seed(3)
    task_net = plain(classifier)
    if mode == "peft":
        config = peft.LoraConfig(r=8, lora_alpha=16, task_type=peft.TaskType.SEQ_CLS)
        task_net = peft.get_peft_model(task_net, config)
    found = SealForMultiLabel.from_task_net(task_net, loss_net_encoder=mode, global_size=8)
    assert found.task_net is task_net and not found.training
    assert found.loss_net.config.to_dict() == expected.loss_net.config.to_dict()
    runs = [trained(seal, tmp_path / "run") for seal in (expected, found)]
    assert torch.equal(*runs)


def test_a_wrapped_mlp_trains_to_the_same_bits_as_that_of_for_data(tmp_path):
    set_seed(3)
    expected = SealForMultiLabel.for_data(tiny_run.Names, hidden_size=16, loss_net_encoder="shared")
    set_seed(3)
    task_net = type(expected.task_net)(expected.config)
    found = SealForMultiLabel.from_task_net(task_net, loss_net_encoder="shared")
    assert torch.equal(*(tiny_run.run(tmp_path, nets=nets, encoder="shared")[0] for nets in (expected, found)))


def test_a_wrapped_net_decides_under_a_hierarchy():
    """As one of `for_data`: the config holds the parents of each label."""
    expected = SealForMultiLabel.for_data(tiny_run.Names, hidden_size=16)
    num_labels = expected.config.num_labels
    hierarchy = Hierarchy.of_pairs([(1, 0)], num_labels)
    found = SealForMultiLabel.from_task_net(expected.task_net, hierarchy=hierarchy)
    assert found.config.label_hierarchy == [[], [0], *[[]] * (num_labels - 2)]


@pytest.mark.parametrize("kind", ["bert", "bilstm"])
def test_a_wrapped_tagger_trains_to_the_same_bits(kind, tmp_path):
    expected, rows = tiny_tags.nets(kind, tmp_path, "shared", seed=3)
    expected.task_net.save_pretrained(tmp_path / "saved")
    task_net = AutoModelForTokenClassification.from_pretrained(tmp_path / "saved", dtype=torch.float32)
    found = SealForTokenClassification.from_task_net(task_net, loss_net_encoder="shared", global_size=8)
    found.loss_net.load_state_dict(expected.loss_net.state_dict())
    for both in (expected, found):
        tiny_tags.trainer(tmp_path / "run", both, rows).train()
    assert torch.equal(tiny_tags.parameters(found), tiny_tags.parameters(expected))


def test_the_trainer_gives_a_plain_model_its_loss_net_and_says_so(classifier, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "seal_hf"):
        found = trained(plain(classifier), tmp_path, seed=5)
    assert [m for m in caplog.messages if "fresh loss-net" in m] == [
        "`model` is a plain BertForSequenceClassification: built a fresh loss-net for it (encoder: separate, energy: "
        "multilabel), as SealForMultiLabel.from_task_net does."
    ]
    set_seed(5)
    assert torch.equal(found, trained(SealForMultiLabel.from_task_net(plain(classifier)), tmp_path, seed=5))
    caplog.clear()
    with caplog.at_level(logging.WARNING, "seal_hf"):
        assert torch.equal(found, trained(lambda: plain(classifier), tmp_path, seed=5))  # of `model_init`
    assert sum("fresh loss-net" in message for message in caplog.messages) == 1  # not for each net that it makes
    shared = trained(plain(classifier), tmp_path, loss_net_encoder="shared")
    assert len(shared) < len(found)


def test_a_run_of_a_plain_model_resumes_exactly(classifier, tmp_path):
    options = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    whole = trained(plain(classifier), tmp_path, **options)
    assert torch.equal(whole, trained(plain(classifier), tmp_path, tmp_path / "checkpoint-2", **options))


def test_the_kind_is_told_by_the_class_and_else_asked_for(tmp_path):
    masks = SealTrainer(FCNForSemanticSegmentation(FCNConfig()), tiny_arguments(tmp_path))
    tags = SealTrainer(
        AutoModelForTokenClassification.from_config(tiny_config("bert")), tiny_arguments(tmp_path, energy_loss="ce")
    )
    assert (masks.space.name, masks.loss_net.config.energy) == ("binary_mask", "grid")
    assert tags.space.name == "tag_sequence" and tags.loss_net is None
    own = OwnNet(OwnConfig(num_labels=3))
    with pytest.raises(
        ValueError, match="'nce' needs a loss-net, .* OwnNet, .* wrap it by one of SealForMultiLabel.from"
    ):
        SealTrainer(own, tiny_arguments(tmp_path))


def test_the_encoder_of_the_loss_net_follows_the_model(classifier, tmp_path):
    seal = SealForMultiLabel.from_task_net(plain(classifier), loss_net_encoder="shared")
    assert SealTrainingArguments(str(tmp_path)).loss_net_encoder is None
    trained(seal, tmp_path, max_steps=1)
    with pytest.raises(ValueError, match="`loss_net_encoder` is 'separate', but the loss-net was built as 'shared'"):
        trained(seal, tmp_path, loss_net_encoder="separate")


def test_the_loss_net_s_encoder_is_a_copy_that_trains(classifier, caplog):
    task_net = plain(classifier).requires_grad_(False).bfloat16()
    task_net.train()
    with caplog.at_level(logging.WARNING, "seal_hf"):
        loss_net = SealForMultiLabel.from_task_net(task_net).loss_net
    assert "are frozen in the task-net but not in the loss-net's copy of it" in caplog.text
    for name, value in loss_net.encoder.state_dict().items():
        own = task_net.base_model.state_dict()[name]
        assert torch.equal(value, own.float()) and value.data_ptr() != own.data_ptr()
    assert all(p.requires_grad and p.dtype == torch.float32 for p in loss_net.encoder.parameters())
    assert isinstance(SealForSegmentation.from_task_net(FCNForSemanticSegmentation(FCNConfig())).loss_net, LossNet)


def test_sizes_are_measured_where_the_config_does_not_say_them(tmp_path):
    config = OwnConfig(problem_type="multi_label_classification", num_labels=tiny_run.LABELS)
    own, inputs = OwnNet(config), {"features": torch.randn(4, tiny_run.FEATURES)}
    seal = SealForMultiLabel.from_task_net(own, loss_net_encoder="shared", inputs=inputs)
    assert seal.loss_net.config.feature_size == 12
    tiny_run.run(tmp_path, nets=seal, encoder="shared", max_steps=2)
    with pytest.raises(ValueError, match="The feature size of OwnNet is unknown: .* pass `inputs=`"):
        SealForMultiLabel.from_task_net(own, loss_net_encoder="shared")
    own.head = nn.Linear(12, 9)
    with pytest.raises(
        ValueError, match=f"logits of OwnNet have 9 labels, but its config.num_labels is {config.num_labels}"
    ):
        SealForMultiLabel.from_task_net(own, loss_net_encoder="shared", inputs=inputs)
    with pytest.raises(ValueError, match="OwnNet has no encoder to copy: .* or use 'shared'"):
        SealForMultiLabel.from_task_net(OwnNet(config), inputs=inputs)
    with pytest.raises(TypeError, match="SealForMultiLabel.from_task_net takes a PreTrainedModel, .* found Linear"):
        SealForMultiLabel.from_task_net(nn.Linear(3, 4))
    with pytest.raises(TypeError, match="SealTrainer takes a PreTrainedModel, .* found Linear"):
        SealTrainer(nn.Linear(3, 4), tiny_arguments(tmp_path, energy_loss="ce"))


def test_what_a_class_freezes_itself_is_not_said(caplog):
    sizes = dict(vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    task_net = AutoModelForSequenceClassification.from_config(RoFormerConfig(**sizes, **LABELLED))
    assert any(not parameter.requires_grad for parameter in task_net.parameters())
    with caplog.at_level(logging.WARNING, "seal_hf"):
        SealForMultiLabel.from_task_net(task_net)
    assert "frozen" not in caplog.text


def test_a_shared_loss_net_needs_hidden_states(tmp_path):
    config = OwnConfig(num_labels=tiny_run.LABELS, hidden_size=12, problem_type="multi_label_classification")
    seal = SealForMultiLabel.from_task_net(NoStates(config), loss_net_encoder="shared")
    with pytest.raises(ValueError, match="`NoStates.forward` does not take `output_hidden_states`. Add that"):
        SealTrainer(seal, tiny_run.arguments(tmp_path, encoder="shared"))


@pytest.mark.parametrize("mode", ["separate", "shared"])
def test_a_loss_net_of_another_feature_size_is_refused_at_the_start(mode, classifier, tmp_path):
    config = {"model_type": "bert", **tiny_config("bert").to_dict()} if mode == "separate" else None
    loss_net = LossNet(LossNetConfig(encoder_mode=mode, encoder_config=config, feature_size=24, **LABELLED))
    owner = "its own encoder" if mode == "separate" else "the task-net, BertForSequenceClassification,"
    with pytest.raises(ValueError, match=f"reads features of size 24, but {owner} gives 16"):
        SealTrainer(plain(classifier), tiny_arguments(tmp_path), loss_net=loss_net)


def test_adapters_that_the_model_does_not_have_are_refused(classifier):
    with pytest.raises(ValueError, match="is 'peft', but the task-net, BertForSequenceClassification, has no adapter"):
        SealForMultiLabel.from_task_net(plain(classifier), loss_net_encoder="peft")


def test_an_encoder_that_auto_model_loads_as_another_class_is_refused():
    """T5's encoder alone would come back with a decoder, and without its tied embeddings."""
    config = T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, vocab_size=30, num_labels=3)
    net = T5ForTokenClassification(config)
    with pytest.raises(ValueError, match="AutoModel cannot load the encoder of T5ForTokenClassification again"):
        SealForTokenClassification.from_task_net(net)
    assert SealForTokenClassification.from_task_net(net, loss_net_encoder="shared").loss_net.encoder is None
