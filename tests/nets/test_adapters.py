"""Two adapters on one frozen base. Oracles: the same run with a second copy of the base for the loss-net, a run that
was not interrupted, plain transformers on the merged weights."""

import copy
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from launching import two_processes
from safetensors.torch import load_file
from tiny_models import LABELS, tiny_arguments, tiny_config, tiny_inputs, tiny_texts, tiny_tokenizer
from transformers import AutoModel, AutoModelForSequenceClassification

from seal_hf import SealForMultiLabel, SealTrainer, tokenize
from seal_hf.decisions import LabelDecisions
from seal_hf.nets.adapters import METHODS, LossAdapter, library_of

ROOT = Path(__file__).parents[2]
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
RATES = {"learning_rate": 1e-2, "loss_net_learning_rate": 1e-2}
Y = torch.rand(5, 3, len(LABELS), generator=torch.Generator().manual_seed(0))
STORED = LabelDecisions("threshold", threshold=0.3)


@pytest.fixture(params=["peft", "adapters"])
def mode(request):
    pytest.importorskip(request.param)
    return request.param


@pytest.fixture
def base(tmp_path):
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config("bert", **NO_DROPOUT)).save_pretrained(tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture(scope="module")
def rows():
    return tokenize(tiny_texts(16), tiny_tokenizer(), max_length=8)


def nets(base, mode, **options):
    """Both nets, their adapters away from zero, where a fresh LoRA starts."""
    torch.manual_seed(0)
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {name: i for i, name in enumerate(LABELS)}}
    seal = SealForMultiLabel.from_pretrained(base, loss_net_encoder=mode, **names, **options)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in seal.named_parameters():
            if parameter.requires_grad or "adapter" in name:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return seal


def trainer_of(seal, rows, folder, **arguments):
    mode = seal.loss_net.config.encoder_mode
    arguments = {**RATES, "loss_net_encoder": mode, **arguments}
    return SealTrainer(seal, tiny_arguments(folder, **arguments), train_dataset=rows, eval_dataset=rows)


def trained(seal):
    """What may have moved, by name in the task-net and by order in the loss-net."""
    task = {name: p.detach().clone() for name, p in seal.task_net.named_parameters() if p.requires_grad}
    return task, [p.detach().clone() for p in loss_parameters(seal.loss_net)]


def loss_parameters(loss_net):
    encoder = loss_net.encoder
    own = encoder.parameters() if isinstance(encoder, LossAdapter) else encoder.trained
    return [*own, *loss_net.head.parameters(), *loss_net.energy.parameters()]


def difference(first, second):
    assert first[0].keys() == second[0].keys() and len(first[1]) == len(second[1])
    pairs = [(first[0][name], second[0][name]) for name in first[0]] + list(zip(first[1], second[1], strict=True))
    return max(float((a - b).abs().max()) for a, b in pairs)


def with_a_copy_of_the_base(seal):
    """The loss-net on a base of its own, in which its adapter alone is active and trained."""
    mode, loss_net = seal.loss_net.config.encoder_mode, copy.deepcopy(seal.loss_net)
    adapter = loss_net.encoder
    if mode == "peft":
        for layer in adapter._layers:
            layer.set_adapter(["loss"])
    else:
        adapter.model.set_active_adapters("loss")
    for parameter in adapter.model.parameters():
        parameter.requires_grad_(False)
    for parameter in adapter.parameters():
        parameter.requires_grad_(True)
    loss_net.adapter = torch.nn.ParameterDict()
    del loss_net.encoder
    loss_net.encoder = adapter.encoder
    loss_net.encoder.pooler = torch.nn.Identity()
    loss_net.encoder.trained = list(adapter.parameters())
    loss_net.config.encoder_mode = "separate"
    return SealForMultiLabel(seal.task_net, loss_net)


def test_a_configuration_without_a_task_type_trains_and_saves_the_classifier(base, rows, tmp_path):
    peft = pytest.importorskip("peft")
    seal = nets(base, "peft", adapter=peft.LoraConfig(r=4, target_modules=["query"]))
    assert any("classifier" in name for name, p in seal.task_net.named_parameters() if p.requires_grad)
    trainer_of(seal, rows, tmp_path / "run", max_steps=2).train()
    seal.eval().save_pretrained(tmp_path / "saved", adapter_export="adapter")
    again, inputs = SealForMultiLabel.from_pretrained(tmp_path / "saved"), tiny_inputs("bert")
    torch.testing.assert_close(again.predict(**inputs)[0], seal.predict(**inputs)[0])


def test_an_adapter_that_saves_no_classifier_is_named(base, rows, tmp_path, caplog):
    peft = pytest.importorskip("peft")
    task_net = AutoModelForSequenceClassification.from_pretrained(base, num_labels=len(LABELS))
    for more, said in (({}, True), ({"task_type": "SEQ_CLS"}, False)):
        caplog.clear()
        net = peft.get_peft_model(copy.deepcopy(task_net), peft.LoraConfig(r=4, target_modules=["query"], **more))
        trainer_of(SealForMultiLabel.from_task_net(net, loss_net_encoder="shared"), rows, tmp_path)
        assert ("PEFT freezes the classifier" in caplog.text) == said


@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2, "loss_net_steps": 2}, {"bf16": True}])
def test_one_base_does_what_two_do(mode, options, base, rows, tmp_path):
    ends = []
    for apart in (False, True):
        seal = nets(base, mode)
        seal = with_a_copy_of_the_base(seal) if apart else seal
        before = trained(seal)
        trainer_of(seal, rows, tmp_path / "run", num_train_epochs=2, max_steps=-1, **options).train()
        ends.append(trained(seal))
        assert all(not torch.equal(a, b) for a, b in zip(before[1], ends[-1][1], strict=True) if a.numel() > 1)
        assert all(not torch.equal(before[0][name], value) for name, value in ends[-1][0].items())
    assert difference(*ends) < (1e-3 if "bf16" in options else 1e-6)


def test_the_base_stays_as_it_was(mode, base, rows, tmp_path):
    seal = nets(base, mode)
    plain = AutoModel.from_pretrained(base).state_dict()
    trainer_of(seal, rows, tmp_path / "run").train()
    now = {name.replace(".base_layer", ""): value for name, value in seal.task_net.state_dict().items()}
    same = [name for name in plain if any(key.endswith(f"bert.{name}") for key in now)]
    assert len(same) >= 30
    for name in same:
        (value,) = [value for key, value in now.items() if key.endswith(f"bert.{name}")]
        assert torch.equal(plain[name], value), name


def test_a_step_runs_the_base_three_times(mode, base, rows, tmp_path):
    """Task-net, loss-net in its phase, and loss-net with its new weights: each input once with the same weights."""
    seal = nets(base, mode)
    calls = []
    seal.loss_net.encoder.encoder.embeddings.register_forward_hook(lambda *_: calls.append(1))
    trainer_of(seal, rows, tmp_path / "run", max_steps=2).train()
    assert len(calls) == 6


def test_gradient_checkpointing_changes_nothing(mode, base, rows, tmp_path):
    """A layer is run again in backward: with the adapter of its phase."""
    ends = []
    for checkpointing in (False, True):
        seal = nets(base, mode)
        trainer_of(seal, rows, tmp_path / "run", gradient_checkpointing=checkpointing).train()
        ends.append(trained(seal))
    assert difference(*ends) < 1e-6


def test_resumed_equals_uninterrupted_to_the_bit(mode, base, rows, tmp_path):
    saves = {"save_strategy": "steps", "save_steps": 2}
    whole, part = nets(base, mode), nets(base, mode)
    trainer_of(whole, rows, tmp_path / "whole", **saves).train()
    checkpoint = tmp_path / "whole" / "checkpoint-2"
    files = {path.name for path in checkpoint.iterdir()}
    assert "adapter_config.json" in files and not files & {"config.json", "model.safetensors"}
    assert not [path for path in (checkpoint / "_loss_net").iterdir() if path.name.startswith("adapter_model")]
    trainer_of(part, rows, tmp_path / "part", **saves).train(resume_from_checkpoint=str(checkpoint))
    assert difference(trained(whole), trained(part)) == 0


def test_the_best_checkpoint_brings_both_adapters_back(mode, base, rows, tmp_path):
    seal = nets(base, mode)
    best = {"load_best_model_at_end": True, "metric_for_best_model": "loss", "greater_is_better": True}  # the worst
    steps = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2, "max_steps": 6}
    trainer = trainer_of(seal, rows, tmp_path / "run", **best, **steps)
    trainer.train()
    assert trainer.state.best_model_checkpoint.endswith("checkpoint-2")
    saved = SealForMultiLabel.from_pretrained(trainer.state.best_model_checkpoint)
    assert difference(trained(seal), trained(saved)) == 0


def test_what_is_saved_is_plain_where_adapters_can_be_merged(base, rows, tmp_path):
    pytest.importorskip("peft")
    seal = nets(base, "peft")
    trainer = trainer_of(seal, rows, tmp_path / "run")
    trainer.train()
    trainer.args.adapter_export = "adapter"
    trainer.save_model(tmp_path / "saved")  # of the other form: it must go
    trainer.args.adapter_export = "auto"
    STORED.store(trainer.model.config)
    trainer.save_model(tmp_path / "saved")
    assert not [path for path in (tmp_path / "saved").iterdir() if path.name.startswith("adapter_")]
    seal.eval()
    inputs = tiny_inputs("bert")
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved")
    again = SealForMultiLabel.from_pretrained(tmp_path / "saved")
    assert type(plain).__name__ == "BertForSequenceClassification" and not hasattr(plain, "peft_config")
    assert plain.config.decisions == STORED.as_json() and plain.config.problem_type == "multi_label_classification"
    assert again.loss_net.config.encoder_mode == "separate"
    with torch.no_grad():
        torch.testing.assert_close(plain(**inputs).logits, seal(**inputs).logits, atol=1e-5, rtol=0)
        torch.testing.assert_close(again.energy(Y, **inputs), seal.energy(Y, **inputs), atol=1e-5, rtol=0)
        torch.testing.assert_close(again(**inputs).logits, seal(**inputs).logits, atol=1e-5, rtol=0)


def test_a_plain_net_takes_the_place_of_adapters_in_its_folder(base, rows, tmp_path):
    pytest.importorskip("peft")
    nets(base, "peft").save_pretrained(tmp_path / "run", adapter_export="adapter")
    seal = nets(base, "separate")
    trainer_of(seal, rows, tmp_path / "run", max_steps=1).save_model()
    again, inputs = SealForMultiLabel.from_pretrained(tmp_path / "run"), tiny_inputs("bert")
    assert library_of(again.task_net) is None
    with torch.no_grad():
        assert torch.equal(again(**inputs).logits, seal.eval()(**inputs).logits)


def test_one_process_of_several_writes_adapters(base, rows, tmp_path, monkeypatch):
    pytest.importorskip("peft")
    trainer = trainer_of(nets(base, "peft"), rows, tmp_path / "run")
    monkeypatch.setattr(type(trainer.args), "should_save", property(lambda args: False))
    trainer.save_model(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_adapters_alone_are_saved_on_request(mode, base, rows, tmp_path):
    seal = nets(base, mode)
    trainer = trainer_of(seal, rows, tmp_path / "run", adapter_export="adapter")
    trainer.train()
    STORED.store(trainer.model.config)
    trainer.save_model(tmp_path / "saved")
    again, inputs = SealForMultiLabel.from_pretrained(tmp_path / "saved"), tiny_inputs("bert")
    assert again.config.decisions == STORED.as_json()
    assert again.loss_net.name_or_path and not seal.loss_net.name_or_path  # `check_was_trained` tells them apart
    assert again.config.id2label == seal.config.id2label == dict(enumerate(LABELS))
    seal.eval()
    with torch.no_grad():
        assert torch.equal(again(**inputs).logits, seal(**inputs).logits)
        assert torch.equal(again.energy(Y, **inputs), seal.energy(Y, **inputs))
    trainer_of(again, rows, tmp_path / "on").train()  # and it goes on training


def test_an_adapter_without_a_loss_net_has_its_labels_and_decisions(mode, base, rows, tmp_path):
    trainer = trainer_of(nets(base, mode), rows, tmp_path, adapter_export="adapter", energy_loss="ce", max_steps=1)
    trainer.train()
    STORED.store(trainer.model.config)
    trainer.save_model()
    assert not (tmp_path / "_loss_net").exists()
    again = SealForMultiLabel.from_pretrained(tmp_path)
    assert again.config.decisions == STORED.as_json() and list(again.config.id2label.values()) == list(LABELS)
    names = dict(enumerate(LABELS))
    kept = SealForMultiLabel.from_pretrained(tmp_path, id2label=names, num_labels=len(LABELS))
    assert kept.config.id2label == names
    names = dict(enumerate(reversed(LABELS)))
    with pytest.raises(ValueError, match="has the data's labels in another order"):
        SealForMultiLabel.from_pretrained(tmp_path, id2label=names, num_labels=len(LABELS))
    data = SimpleNamespace(name="texts", kind="text", label_rates=None, label_names=list("wxyz"))
    assert SealForMultiLabel.for_data(data, tmp_path).config.id2label == dict(enumerate("wxyz"))
    data.label_names.append("more")
    with pytest.raises(ValueError, match="it is saved with an adapter .* Start from the model that the adapter"):
        SealForMultiLabel.for_data(data, tmp_path)


def test_the_librarys_own_users_load_what_is_saved(mode, base, rows, tmp_path):
    seal = nets(base, mode)
    seal.save_pretrained(tmp_path / "saved", adapter_export="adapter")
    task_net = AutoModelForSequenceClassification.from_pretrained(base, num_labels=len(LABELS))
    if mode == "peft":
        import peft

        task_net = peft.PeftModel.from_pretrained(task_net, tmp_path / "saved")
    else:
        import adapters

        adapters.init(task_net)
        task_net.load_adapter(str(tmp_path / "saved"), set_active=True, use_safetensors=True)
    inputs = tiny_inputs("bert")
    with torch.no_grad():
        assert torch.equal(task_net.eval()(**inputs).logits, seal.eval()(**inputs).logits)


def test_a_saved_head_that_is_a_pickle_is_refused(base, tmp_path):
    pytest.importorskip("adapters")
    nets(base, "adapters").save_pretrained(tmp_path / "saved", adapter_export="adapter")
    (tmp_path / "saved" / "model_head.safetensors").unlink()
    torch.save({}, tmp_path / "saved" / "pytorch_model_head.bin")
    with pytest.raises(OSError, match="lacks the adapter's weights as safetensors"):
        SealForMultiLabel.from_pretrained(tmp_path / "saved")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("encoder", ["separate", "shared"])
def test_a_task_net_may_train_adapters_alone(method, encoder, base, rows, tmp_path):
    pytest.importorskip(METHODS[method])
    seal = nets(base, encoder, adapter=method, adapter_rank=None if method == "ia3" else 4)
    share = sum(p.numel() for p in seal.task_net.parameters() if p.requires_grad) / seal.task_net.num_parameters()
    assert share < 0.5
    before = {name: p.detach().clone() for name, p in seal.task_net.named_parameters() if p.requires_grad}
    trainer_of(seal, rows, tmp_path / "run").train()
    now = {name: p for name, p in seal.task_net.named_parameters() if p.requires_grad}
    assert now.keys() == before.keys() and all(not torch.equal(now[name], before[name]) for name in now)


def test_without_a_loss_net_an_adapter_is_trained_too(base, rows, tmp_path):
    """The whole task-net was trained, in silence."""
    pytest.importorskip("peft")
    seal = nets(base, None, adapter="lora", adapter_rank=4, with_loss_net=False)
    before = {name: p.detach().clone() for name, p in seal.task_net.named_parameters()}
    SealTrainer(seal, tiny_arguments(tmp_path, energy_loss="ce"), train_dataset=rows, eval_dataset=rows).train()
    moved = [name for name, p in seal.task_net.named_parameters() if not torch.equal(p, before[name])]
    assert any("lora" in name for name in moved)
    assert all("lora" in name or "modules_to_save" in name for name in moved)


@pytest.mark.parametrize("pooling", [None, "mean"])
@pytest.mark.parametrize("kind", ["PromptTuningConfig", "PrefixTuningConfig"])
def test_virtual_tokens_are_trained_saved_and_read(kind, pooling, base, rows, tmp_path):
    """By PEFT, which cannot merge them."""
    peft = pytest.importorskip("peft")
    config = getattr(peft, kind)(task_type="SEQ_CLS", num_virtual_tokens=3)
    seal = nets(base, "separate", adapter=config, pooling=pooling)
    trainer = trainer_of(seal, rows, tmp_path / "run")
    trainer.train()
    trainer.save_model(tmp_path / "saved")
    again = SealForMultiLabel.from_pretrained(tmp_path / "saved")
    inputs = tiny_inputs("bert")
    with torch.no_grad():
        assert torch.equal(again.eval()(**inputs).logits, seal.eval()(**inputs).logits)
    names = {name for name, p in seal.task_net.named_parameters() if p.requires_grad}
    assert names == {name for name, p in again.task_net.named_parameters() if p.requires_grad}


def test_prompts_whose_encoder_is_lost_and_shared_features_with_virtual_tokens_are_refused(base, rows, tmp_path):
    peft = pytest.importorskip("peft")
    size = dict(task_type="SEQ_CLS", num_virtual_tokens=3)
    for kind, config in {
        "P-tuning": peft.PromptEncoderConfig(**size, encoder_hidden_size=8),
        "prefix tuning with a projection": peft.PrefixTuningConfig(
            **size, prefix_projection=True, encoder_hidden_size=8
        ),
    }.items():
        with pytest.raises(ValueError, match=f"The adapter is {kind}, whose prompt encoder PEFT does not save"):
            trainer_of(nets(base, "separate", adapter=config), rows, tmp_path / "other")
    shared = nets(base, "shared", adapter=peft.PromptTuningConfig(**size))
    with pytest.raises(ValueError, match="positions, but its input .*, as with virtual tokens"):
        trainer_of(shared, rows, tmp_path / "shared").train()


class Features:
    name, kind, num_features, label_names, scaling = "tiny", "features", 6, LABELS, None


def test_what_does_not_go_together_is_refused(base, rows, tmp_path):
    pytest.importorskip("peft")
    with pytest.raises(ValueError, match="`adapter` is 'lara'; it must be one of lora"):
        SealForMultiLabel.from_pretrained(base, adapter="lara")
    with pytest.raises(ValueError, match="`adapter_rank` is for an adapter, but `adapter` is None"):
        SealForMultiLabel.from_pretrained(base, adapter_rank=4)
    with pytest.raises(ValueError, match="'houlsby', of the library 'adapters', but `loss_net_encoder` is 'peft'"):
        SealForMultiLabel.from_pretrained(base, loss_net_encoder="peft", adapter="houlsby")
    with pytest.raises(ValueError, match="'tiny' is feature data: its MLP has no pretrained base to adapt"):
        SealForMultiLabel.for_data(Features, loss_net_encoder="peft")
    first, second = nets(base, "peft"), nets(base, "peft")
    with pytest.raises(ValueError, match="is an adapter in another task-net"):
        trainer_of(SealForMultiLabel(first.task_net, second.loss_net), rows, tmp_path)
    with pytest.raises(ValueError, match="`loss_net_encoder` is 'separate', but the loss-net was built as 'peft'"):
        trainer_of(first, rows, tmp_path, loss_net_encoder="separate")
    with pytest.raises(ValueError, match="`adapter_export` is 'both'; it must be one of auto, merged, adapter"):
        tiny_arguments(tmp_path, adapter_export="both")
    first.save_pretrained(tmp_path / "plain")
    (tmp_path / "adapter").mkdir()
    first.save_pretrained(tmp_path / "adapter", adapter_export="adapter")
    (tmp_path / "plain" / "_loss_net").rename(tmp_path / "gone")
    (tmp_path / "adapter" / "_loss_net").rename(tmp_path / "plain" / "_loss_net")
    with pytest.raises(ValueError, match="is an adapter .peft. in the frozen base of its task-net"):
        SealForMultiLabel.from_pretrained(tmp_path / "plain")


def test_an_adapter_takes_the_place_of_a_plain_net_in_shards(mode, base, rows, tmp_path):
    plain = nets(base, "separate")
    plain.save_pretrained(tmp_path / "run", max_shard_size="20KB")
    assert len(list((tmp_path / "run").glob("model-*.safetensors"))) > 1
    nets(base, mode).save_pretrained(tmp_path / "run", adapter_export="adapter")
    assert not list((tmp_path / "run").glob("model[.-]*")) and not (tmp_path / "run" / "config.json").exists()


def test_training_forgets_the_decisions_of_a_saved_adapter(mode, base, rows, tmp_path):
    seal = nets(base, mode)
    STORED.store(seal.config)
    seal.save_pretrained(tmp_path / "first", adapter_export="adapter")
    seal = SealForMultiLabel.from_pretrained(tmp_path / "first")
    assert seal.config.decisions == STORED.as_json()
    trainer_of(seal, rows, tmp_path / "out", max_steps=1).train()
    seal.save_pretrained(tmp_path / "second", adapter_export="adapter")
    assert getattr(SealForMultiLabel.from_pretrained(tmp_path / "second").config, "decisions", None) is None


def test_several_active_adapters_are_refused(base, rows, tmp_path):
    adapters = pytest.importorskip("adapters")
    seal = nets(base, "separate", adapter="pfeiffer")
    seal.task_net.add_adapter("language", config="seq_bn")
    seal.task_net.set_active_adapters(adapters.composition.Stack("language", "task"))
    with pytest.raises(ValueError, match="has the active adapters language, task, but only the first would be"):
        trainer_of(seal, rows, tmp_path)


def test_bottlenecks_cannot_be_merged(base, rows, tmp_path):
    pytest.importorskip("adapters")
    with pytest.raises(ValueError, match="cannot be merged into plain weights. Use 'adapter', or 'auto'"):
        trainer_of(nets(base, "adapters"), rows, tmp_path, adapter_export="merged")


def test_a_missing_library_is_named(base, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "adapters", None)
    with pytest.raises(ValueError, match="'pfeiffer', of the library 'adapters', which is not installed: pip install"):
        SealForMultiLabel.from_pretrained(base, adapter="pfeiffer")


def test_a_saved_adapter_names_its_missing_library(mode, base, tmp_path, monkeypatch):
    nets(base, mode).save_pretrained(tmp_path, adapter_export="adapter")
    monkeypatch.setitem(__import__("sys").modules, mode, None)
    with pytest.raises(ValueError, match=f"holds an adapter of the library '{mode}', which is not installed: pip"):
        SealForMultiLabel.from_pretrained(tmp_path, with_loss_net=False)


def test_the_card_of_an_adapter_tells_how_to_load_it(mode, base, rows, tmp_path):
    """Its snippet runs as it stands, and gives the probabilities of the model that was saved."""
    seal = nets(base, mode)
    trainer = trainer_of(seal, rows, tmp_path / "run", adapter_export="adapter")
    trainer.save_model()
    tiny_tokenizer().save_pretrained(tmp_path / "run")
    trainer.create_model_card(model_name=str(tmp_path / "run"), finetuned_from=str(base))
    text = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL).group(1)
    assert f"num_labels={len(LABELS)}" in code and "config.json" not in text
    code = code.replace('"run"', repr(str(tmp_path / "run"))).replace('"base"', repr(str(base)))
    values = {}
    exec(code, values)
    inputs = tiny_tokenizer()(["a text to label"], return_tensors="pt")
    with torch.no_grad():
        expected = seal.eval()(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits.sigmoid()
    torch.testing.assert_close(values["probabilities"], expected, atol=1e-6, rtol=0)


def run(base, mode, folder, world):
    """The parameters that were trained, by name."""
    torch.manual_seed(0)
    seal = SealForMultiLabel.from_pretrained(base, loss_net_encoder=mode, num_labels=4)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in [*seal.task_net.parameters(), *seal.loss_net.parameters()]:
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    args = tiny_arguments(
        folder,
        loss_net_encoder=mode,
        energy_loss="regression",  # draws nothing: ranks would draw differently
        per_device_train_batch_size=8 // world // 2,
        gradient_accumulation_steps=2,
        gradient_checkpointing=world == 2,  # which changes nothing either
        learning_rate=1e-2,
        loss_net_learning_rate=1e-2,
    )
    rows = tokenize(tiny_texts(32), tiny_tokenizer(), max_length=8)
    trainer = SealTrainer(seal, args, train_dataset=rows)
    trainer.train()
    assert trainer.args.world_size == world
    task = {name: p.detach().clone() for name, p in seal.task_net.named_parameters() if p.requires_grad}
    return {**task, **{f"loss-net {name}": p.detach().clone() for name, p in seal.loss_net.named_parameters()}}


def test_two_processes_end_where_one_does(mode, base, tmp_path):
    """Two DDP wrappers over one frozen base, each around its own adapter."""
    one = run(str(base), mode, str(tmp_path), world=1)

    def write(rank):
        torch.save(run(str(base), mode, str(tmp_path), world=2), tmp_path / f"rank{rank}.pt")

    two_processes(write)
    for rank in range(2):
        two = torch.load(tmp_path / f"rank{rank}.pt", weights_only=True)
        assert two.keys() == one.keys()
        for name, value in one.items():
            torch.testing.assert_close(two[name], value, atol=5e-6, rtol=0, msg=name)  # Adam enlarges last digits


def test_a_fixed_loss_net_draws_no_dropout_in_the_base_of_a_task_net_that_trains(mode, tmp_path):
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config("bert", hidden_dropout_prob=0.5)).save_pretrained(tmp_path)
    seal, inputs = nets(tmp_path, mode), tiny_inputs("bert")
    with torch.no_grad():
        expected = seal.eval().loss_net.encode(inputs)
        seal.task_net.train()
        assert torch.equal(seal.loss_net.encode(inputs), expected)
        assert all(module.training for module in seal.task_net.modules() if isinstance(module, torch.nn.Dropout))
        seal.loss_net.train()
        assert not torch.equal(seal.loss_net.encode(inputs), expected)


def test_a_base_whose_index_names_other_files_than_safetensors_is_refused(mode, base, tmp_path):
    nets(base, mode).save_pretrained(tmp_path / "saved", adapter_export="adapter")
    weights = load_file(base / "model.safetensors")
    (base / "model.safetensors").unlink()
    torch.save(weights, base / "a.bin")
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, "a.bin")}
    (base / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="names 'a.bin'; expected .safetensors files beside it"):
        SealForMultiLabel.from_pretrained(tmp_path / "saved")
