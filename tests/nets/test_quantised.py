"""Bases of 4 and 8 bits under adapters. Oracle: the same nets on a base in float32 that has the weights for which the
quantised ones stand; what was trained against what comes back."""

import importlib.util
import json

import pytest
import torch
from tiny_models import LABELLED, LABELS, tiny_arguments, tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModel

from seal_hf import SealForMultiLabel, SealTrainer, tokenize
from seal_hf.nets.adapters import peft as quantised
from seal_hf.training.checks import check_quantised_run
from seal_hf.training.launchers import SHARDED

WIDE = {"hidden_size": 64, "intermediate_size": 64, "head_dim": 32}  # 64 weights share a scale
INPUTS = {"input_ids": torch.tensor([[4, 5, 6, 7], [9, 10, 0, 0]])}
INPUTS["attention_mask"] = (INPUTS["input_ids"] != 0).long()
Y = torch.rand(2, 3, len(LABELS), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def bnb():
    """bitsandbytes, whose build for CPUs multiplies quantised weights."""
    pytest.importorskip("peft")
    return pytest.importorskip("bitsandbytes", reason="the extra bitsandbytes is not installed")


@pytest.fixture(params=["4bit", "8bit"])
def bits(request, bnb):
    return request.param


def nets(folder, quantization, kind="qwen2", mode="peft", **options):
    """Both nets on a base of that family, their adapters away from zero."""
    wide = {key: value for key, value in WIDE.items() if key != "head_dim" or kind == "qwen2"}
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config(kind, **wide)).save_pretrained(folder / kind)
    options = {"adapter": "lora", "loss_net_encoder": mode, "quantization": quantization, **options}
    model = SealForMultiLabel.from_pretrained(folder / kind, **LABELLED, **options).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in [
            *filter(lambda p: p.requires_grad, model.task_net.parameters()),
            *model.loss_net.parameters(),
        ]:
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def run(model, folder, **options):
    rows = tokenize(tiny_texts(16), tiny_tokenizer(), max_length=8)
    options = {"loss_net_encoder": model.loss_net.config.encoder_mode, "max_steps": 2, **options}
    trainer = SealTrainer(model, tiny_arguments(folder, **options), train_dataset=rows)
    trainer.train()
    return trainer


@torch.no_grad()
def outputs(model):
    return model.eval()(**INPUTS).logits, model.energy(Y, **INPUTS)


def results(model):
    """Logits, energies, and the gradients of both nets' adapters and of the head."""
    model.train()
    logits = model(**INPUTS).logits
    with model.loss_net.active(training=True):
        energies = model.loss_net(Y, None, INPUTS)
        energies.square().sum().backward()
    gradients = [p.grad.clone() for p in model.loss_net.parameters()]
    logits.square().sum().backward()
    gradients += [p.grad for p in model.task_net.parameters() if p.requires_grad]
    assert len(gradients) > 10 and all(g.abs().sum() > 0 for g in gradients[:4])
    return [logits, energies, *gradients]


def test_a_quantised_base_gives_what_its_weights_give(bits, bnb, tmp_path):
    """4 bits stand for a table of 16 values times a scale per block; 8 bits for n / 127 times a scale per row, and
    inputs are rounded to 8 bits too."""
    model, plain = nets(tmp_path, bits), nets(tmp_path, None)
    modules, layers = dict(plain.task_net.named_modules()), 0
    for name, layer in model.task_net.named_modules():
        if isinstance(layer, bnb.nn.Linear4bit):
            weight = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
        elif isinstance(layer, bnb.nn.Linear8bitLt):
            weight = layer.weight.data * layer.state.SCB[:, None] / 127
        else:
            continue
        assert not torch.equal(weight, modules[name].weight)
        modules[name].weight.data, layers = weight.float(), layers + 1
    assert layers == 14  # two layers of four projections in the attention and three behind it: all but the head
    limit = 1e-4 if bits == "4bit" else 0.1
    for found, expected in zip(results(model), results(plain), strict=True):
        assert (found - expected).norm() <= limit * expected.norm() + 1e-6


@pytest.mark.parametrize(
    "mode, options",
    [("peft", {}), ("peft", {"bf16": True}), ("shared", {"gradient_checkpointing": True}), ("separate", {})],
)
def test_adapters_are_trained_and_come_back_on_the_same_base(bits, mode, options, tmp_path):
    model = nets(tmp_path, bits, mode=mode)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    run(model, tmp_path / "run", **options).save_model()
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert any("task_net" in name and "lora" in name for name in moved) and any("score" in name for name in moved)
    assert not any("base_layer" in name for name in moved if name.startswith("task_net"))
    again = SealForMultiLabel.from_pretrained(tmp_path / "run")
    assert quantised.quantization_of(again.task_net) == bits and not (tmp_path / "run" / "model.safetensors").exists()
    for found, expected in zip(outputs(again), outputs(model), strict=True):
        torch.testing.assert_close(found, expected, atol=5e-2 if "bf16" in options else 1e-6, rtol=0)


def test_a_classifier_that_pools_reads_a_quantised_base(bits, tmp_path):
    """Its layers are quantised as those of transformers' own classifier are, its head is not."""
    model = nets(tmp_path, bits, "bert", pooling="mean")
    plain = nets(tmp_path, bits, "bert")
    layers = [
        {name.removeprefix("base_model.model.bert.").removeprefix("base_model.model.encoder.")
         for name, module in net.task_net.named_modules() if type(module).__name__.startswith("Linear") and hasattr(
             getattr(module, "weight", None), "bnb_quantized" if bits == "4bit" else "SCB")}
        for net in (model, plain)
    ]  # fmt: skip
    assert layers[0] == {name for name in layers[1] if "pooler" not in name} != set()
    run(model, tmp_path / "run").save_model()
    again = SealForMultiLabel.from_pretrained(tmp_path / "run")
    assert quantised.quantization_of(again.task_net) == bits and again.config.pooling == "mean"
    for found, expected in zip(outputs(again), outputs(model), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_the_head_is_never_quantised(bits, tmp_path):
    """DeBERTa's has a layer that is fresh: it is trained, and saved with the adapter."""
    model = nets(tmp_path, bits, "deberta", "shared")
    expected, _ = outputs(model)
    heads = [p for name, p in model.task_net.named_parameters() if "pooler" in name or "classifier" in name]
    assert all(p.is_floating_point() for p in heads)
    model.save_pretrained(tmp_path / "saved")
    torch.testing.assert_close(outputs(SealForMultiLabel.from_pretrained(tmp_path / "saved"))[0], expected)


def test_merging_is_refused_with_the_reason(bits, tmp_path):
    model = nets(tmp_path, bits)
    with pytest.raises(ValueError, match=f"cannot be merged .*base is quantised, .*rounded to {bits}.* Use 'adapter'"):
        model.save_pretrained(tmp_path / "merged", adapter_export="merged")
    with pytest.raises(ValueError, match="`adapter_export` is 'merged'"):
        run(model, tmp_path / "run", adapter_export="merged")
    model.save_pretrained(tmp_path / "auto")
    assert (tmp_path / "auto" / "adapter_model.safetensors").is_file()


def test_what_does_not_work_is_refused_at_the_start(bnb, tmp_path):
    with pytest.raises(ValueError, match=r"weights are quantised \(4bit\), .*adapter='lora'"):
        nets(tmp_path, "4bit", mode="shared", adapter=None)
    with pytest.raises(ValueError, match="`quantization` is '3bit'; it must be one of 4bit, 8bit"):
        nets(tmp_path, "3bit")
    with pytest.raises(ValueError, match="`quantization` is for cut texts, but `long_texts` is 'windows'"):
        nets(tmp_path, "4bit", "bert", "shared", adapter=None, long_texts="windows")
    model = nets(tmp_path, "4bit", mode="shared")
    with pytest.raises(ValueError, match=r"`hypergradient_parameters` is 'adapters', but quantised weights \(4bit\)"):
        run(model, tmp_path, energy_loss="margin", hypergradient="cg", hypergradient_parameters="adapters")
    run(model, tmp_path, energy_loss="margin", hypergradient="neumann", max_steps=1)  # through the head
    with pytest.raises(ValueError, match="'separate', but the task-net's adapter cannot be merged into a copy"):
        SealForMultiLabel.from_task_net(model.task_net)
    model.save_pretrained(tmp_path / "saved")
    with pytest.raises(ValueError, match="`quantization` is '8bit', but .* is an adapter, whose base"):
        SealForMultiLabel.from_pretrained(tmp_path / "saved", quantization="8bit")
    for kind in SHARDED:
        args, accelerator = tiny_arguments(tmp_path), type("Launched", (), {"distributed_type": kind})
        with pytest.raises(ValueError, match=rf"quantised \(4bit\), which {kind.value} cannot shard"):
            check_quantised_run(args, model.task_net, accelerator)


def test_a_damaged_description_of_the_base_is_named(bnb, tmp_path):
    nets(tmp_path, "8bit").save_pretrained(tmp_path / "saved")
    file = tmp_path / "saved" / "seal_decisions.json"
    said = json.loads(file.read_text())
    assert said["quantization_config"]["load_in_8bit"] is True
    file.write_text(json.dumps({**said, "quantization_config": {"quant_method": "other"}}))
    with pytest.raises(ValueError, match="saved: `quantization_config` is .*other.* expected one of bitsandbytes"):
        SealForMultiLabel.from_pretrained(tmp_path / "saved")


def test_without_the_extra_there_is_one_clear_line(tmp_path, monkeypatch):
    pytest.importorskip("peft")
    find = importlib.util.find_spec
    monkeypatch.setattr(quantised, "find_spec", lambda name: None if name == "bitsandbytes" else find(name))
    with pytest.raises(ValueError) as error:
        nets(tmp_path, "4bit")
    assert str(error.value).endswith(
        ": `quantization` is '4bit', but bitsandbytes is not installed: pip install 'seal_hf[bitsandbytes]'."
    )
