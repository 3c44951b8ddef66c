"""Hostile folders: what a configuration names or states is refused before a library follows it, in one line."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import tiny_arguments, tiny_config, tiny_features, tiny_tokenizer
from transformers import AutoConfig, AutoModelForSequenceClassification

from seal_hf import SealForMultiLabel, SealTrainer, fcn_image_processor
from seal_hf.cli import predict
from seal_hf.cli.predict import evaluate
from seal_hf.data.tensors.words import load_tokenizer
from seal_hf.saving import load_loss_net, mark_complete
from seal_hf.saving.loading import saved_config
from seal_hf.tasks.labels import program as mlc
from seal_hf.utils.gate import PROCESSOR, check_origin, config_of, no_questions

CONFIG, INDEX = "config.json", "model.safetensors.index.json"
KERNEL = "expected one of eager, sdpa, .* a kernel of the Hub would be code"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A saved BERT with its loss-net and its tokenizer."""
    folder = tmp_path_factory.mktemp("whole")
    torch.manual_seed(0)
    net = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    seal = SealForMultiLabel.from_task_net(net)
    seal.processor = tiny_tokenizer()
    seal.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    """A copy of it."""
    copied = tmp_path / "model"
    for path in whole.rglob("*"):
        if path.is_file():
            (copied / path.relative_to(whole)).parent.mkdir(parents=True, exist_ok=True)
            (copied / path.relative_to(whole)).write_bytes(path.read_bytes())
    return copied


def edited(path, **fields):
    """Write fields into a JSON file; a dot leads into an object."""
    found = json.loads(path.read_text()) if path.is_file() else {}
    for name, value in fields.items():
        *parents, last = name.split("__")
        owner = found
        for parent in parents:
            owner = owner.setdefault(parent, {})
        owner[last] = value
    path.write_text(json.dumps(found))


ELSEWHERE = {  # fields of config.json -> what the message says
    "pickle": ({"transformers_weights": "adapter_model.bin"}, "`transformers_weights` is 'adapter_model.bin'"),
    "outside": ({"transformers_weights": "../x.safetensors"}, "expected a .safetensors file in the folder"),
    "configurations": (
        {"configuration_files": ["config./../../x.json"]},
        "`configuration_files`.* files in the folder",
    ),
    "kernel": ({"attn_implementation": "evil/kernel"}, KERNEL),
    "internal kernel": ({"_attn_implementation_internal": "evil/kernel@main:run"}, KERNEL),
    "kernel of a part": ({"text_config__attn_implementation": {"": "sdpa", "x": "evil/kernel"}}, KERNEL),
    "experts": ({"_experts_implementation": "evil/kernel"}, KERNEL),
    "wrapped kernel": ({"_attn_implementation": "sdpa|evil/kernel"}, KERNEL),
    "kernels": ({"use_kernels": True}, "`use_kernels` is True; expected nothing"),
    "backbone": ({"backbone": "evil/repo"}, "`backbone` is 'evil/repo'; expected a backbone described in"),
    "timm": ({"backbone": "hf-hub:evil/repo", "use_timm_backbone": True}, "expected a backbone described in"),
    "pretrained": ({"use_pretrained_backbone": True}, "`use_pretrained_backbone`"),
    "architecture": ({"architecture": "hf-hub:evil/repo"}, "`architecture`"),
    "checkpoint": ({"model_args": {"checkpoint_path": "x.bin"}}, "`checkpoint_path`"),
    "trust": ({"keypoint_detector_config": {"trust_remote_code": True}}, "`trust_remote_code` is True"),
    "quantised": ({"quantization_config": {"quant_method": "eetq"}}, "expected one of bitsandbytes"),
    "another name": (
        {"attribute_map": {"a": "transformers_weights"}, "a": "adapter_model.bin"},
        "`attribute_map` is .*expected nothing",
    ),
    "copies": ({"inner_group_num": 10**6}, "`inner_group_num` is 1000000; expected at most 200"),
    "negative": ({"hidden_size": -5}, "cannot be loaded as .* RuntimeError: .* negative dimension -5"),
    "several lines": ({"add_cross_attention": True}, "cannot be loaded as .* ValueError: BertLayer"),
    "layers": ({"num_hidden_layers": 10**8}, "config.json: `num_hidden_layers` is 100000000; expected at most 200"),
    "layers of a part": ({"vision_config": {"depths": [2, 10**8]}}, "`depths` is 100000000"),
    "labels": ({"num_labels": 10**9}, "`num_labels` is 1000000000"),
    "width": ({"hidden_size": 10**12}, "`hidden_size` is 1000000000000"),
    "parameters": ({"hidden_size": 2_000_000}, "states a net of .* parameters, but its weights hold"),
    "many layers": ({"num_hidden_layers": 150, "hidden_size": 1024, "intermediate_size": 4096}, "states a net of"),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_field_that_leads_elsewhere_or_has_no_end_is_refused(case, folder):
    fields, said = ELSEWHERE[case]
    torch.save(load_file(folder / "model.safetensors"), folder / "adapter_model.bin")
    (folder / "model.safetensors").rename(folder.parent / "x.safetensors")
    (folder / "model.safetensors").write_bytes((folder.parent / "x.safetensors").read_bytes())
    edited(folder / CONFIG, **fields)
    with pytest.raises(ValueError, match=said) as error:
        SealForMultiLabel.from_pretrained(folder)
    assert "\n" not in str(error.value) and str(folder) in str(error.value)


@pytest.mark.parametrize("name", ["../x.safetensors", "a.bin", "/x.safetensors"])
def test_an_index_by_another_name_names_safetensors_beside_it(name, folder):
    edited(folder / CONFIG, transformers_weights=f"y.{INDEX}")
    weights = load_file(folder / "model.safetensors")
    edited(folder / f"y.{INDEX}", metadata={}, weight_map=dict.fromkeys(weights, name))
    with pytest.raises(ValueError, match=rf"y.{INDEX} names '{name}'; expected .safetensors files beside it"):
        SealForMultiLabel.from_pretrained(folder)


def test_stated_weights_in_the_folder_are_read(folder):
    expected = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    edited(folder / CONFIG, transformers_weights="other.safetensors", attn_implementation="eager")
    found = SealForMultiLabel.from_pretrained(folder).task_net.state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


@pytest.mark.parametrize(
    "fields",
    [
        {"transformers_weights": "adapter_model.bin"},
        {"head_layers": 10**8},
        {"encoder_config__num_hidden_layers": 10**8},
        {"encoder_config___attn_implementation": "evil/kernel"},
        {"global_size": 10**10},
    ],
)
def test_a_loss_net_passes_the_same_gate(fields, folder):
    torch.save(load_file(folder / "_loss_net/model.safetensors"), folder / "_loss_net/adapter_model.bin")
    edited(folder / "_loss_net" / CONFIG, **fields)
    with pytest.raises(ValueError, match=f"_loss_net: config.json: `{next(iter(fields)).split('__', 1)[-1]}"):
        SealForMultiLabel.from_pretrained(folder)
    SealForMultiLabel.from_pretrained(folder, with_loss_net=False)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("do_normalize", -0.5, "true or false"),
        ("do_resize", "x", "true or false"),
        ("rescale_factor", [[]], "a number above 0"),
        ("rescale_factor", 0, "a number above 0"),
    ],
)
def test_an_image_processor_has_values_that_it_can_use(field, value, expected, tmp_path):
    fcn_image_processor().save_pretrained(tmp_path)
    check_origin(tmp_path, files=PROCESSOR)
    edited(tmp_path / "preprocessor_config.json", **{field: value})
    with pytest.raises(ValueError, match=f"preprocessor_config.json: `{field}` is .*; expected {expected}"):
        check_origin(tmp_path, files=PROCESSOR)


def test_a_size_of_a_loss_net_is_no_truth_value(folder):
    edited(folder / "_loss_net" / CONFIG, head_layers=False)
    with pytest.raises(ValueError, match="`head_layers` is False; expected a whole number"):
        SealForMultiLabel.from_pretrained(folder)


@pytest.mark.parametrize("place", ["", "_loss_net"])
def test_a_link_that_leads_out_is_refused(place, folder):
    weights = folder / place / "model.safetensors"
    weights.rename(folder.parent / "x.safetensors")
    weights.symlink_to(folder.parent / "x.safetensors")
    with pytest.raises(ValueError, match="model.safetensors is a link to .*x.safetensors, outside of the folder"):
        SealForMultiLabel.from_pretrained(folder)


def test_a_configuration_is_not_read_through_a_link(folder):
    """Its refusal names the link; a reading would complain of the text."""
    (folder / CONFIG).unlink()
    (folder.parent / "secret").write_text("a secret")
    (folder / CONFIG).symlink_to("../secret")
    for read in (lambda: saved_config(str(folder), {}), lambda: config_of(folder), lambda: check_origin(folder)):
        with pytest.raises(ValueError, match="config.json is a link to .*secret, outside of the folder"):
            read()


def test_the_links_of_the_hubs_cache_are_followed(folder, tmp_path):
    blobs, snapshot = tmp_path / "models--a--b" / "blobs", tmp_path / "models--a--b" / "snapshots" / "1"
    blobs.mkdir(parents=True)
    for i, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        linked = snapshot / path.relative_to(folder)
        linked.parent.mkdir(parents=True, exist_ok=True)
        path.rename(blobs / str(i))
        linked.symlink_to(os.path.relpath(blobs / str(i), linked.parent))
    assert SealForMultiLabel.from_pretrained(snapshot).processor is not None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"chat_template": [{"name": "../../x", "template": ""}]}, "`chat_template` .* expected plain names"),
        ({"fast_tokenizer_files": ["tokenizer./../../x.json"]}, "`fast_tokenizer_files`"),
        ({"vocab_file": "OUTSIDE"}, "`vocab_file` .* expected nothing outside of the folder"),
        ({"init_inputs": ["OUTSIDE"]}, "`init_inputs` .* expected nothing outside of the folder"),
    ],
)
def test_a_tokenizer_opens_and_later_writes_nothing_outside(fields, said, folder):
    (folder.parent / "x.txt").write_text("secret")
    outside = str(folder.parent / "x.txt")
    fields = json.loads(json.dumps(fields).replace("OUTSIDE", outside))
    edited(folder / "tokenizer_config.json", **fields)
    with pytest.raises(ValueError, match=said):
        load_tokenizer(str(folder))


@pytest.fixture
def coded(folder):
    """The folder as a model with code of its own, which would leave a file `ran`."""
    code = f"open({str(folder.parent / 'ran')!r}, 'w').close()\n"
    code += "from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast\n\n"
    code += "class Config(BertConfig):\n    model_type = 'seal_gate_test'\n\n"
    code += "class NetForSequenceClassification(BertForSequenceClassification):\n    config_class = Config\n"
    (folder / "modeling_own.py").write_text(code)
    classes = {
        "AutoConfig": "modeling_own.Config",
        "AutoModelForSequenceClassification": "modeling_own.NetForSequenceClassification",
    }
    edited(folder / CONFIG, model_type="seal_gate_test", auto_map=classes)
    return folder


def test_code_runs_only_on_request_and_never_by_an_answer_in_a_pipe(coded, monkeypatch):
    ran = coded.parent / "ran"
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    for load in (SealForMultiLabel.from_pretrained, lambda name: load_tokenizer(str(name))):
        try:
            load(coded)
        except ValueError as error:
            assert re.search(r"wants to run code \(auto_map: .*modeling_own.Net.*--trust_remote_code true", str(error))
    with pytest.raises(ValueError, match=r"^[^\n]*wants to run code \(auto_map: modeling_own.Config[^\n]*$"):
        SealForMultiLabel.from_pretrained(coded)
    assert not ran.exists()
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    seal = SealForMultiLabel.from_pretrained(coded, with_loss_net=False, trust_remote_code=True)
    assert ran.exists() and type(seal.task_net).__name__ == "NetForSequenceClassification"
    seal.predict(["good book"])  # its tokenizer too


def test_the_programs_run_code_only_by_their_flag(coded, tmp_path, monkeypatch):
    rows, run, ran = tmp_path / "rows.csv", tmp_path / "run", coded.parent / "ran"
    rows.write_text("text,labels\n" + "good book,joy\nbad song,anger\ndull film,fear|calm\nbright plot,calm\n" * 6)
    flags = ["--dataset", str(rows), "--model_name_or_path", str(coded), "--output_dir", str(run), "--max_steps", "1"]
    flags += ["--use_cpu", "true", "--report", "false", "--report_to", "none", "--max_length", "8"]
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    shutil.rmtree(coded / "_loss_net")
    edited(coded / CONFIG, architectures=[])  # an encoder: its labels are not those of the data
    with pytest.raises(ValueError, match="--trust_remote_code true"):
        mlc.main(flags)
    assert not ran.exists()
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    mlc.main([*flags, "--trust_remote_code", "true"])
    assert json.loads((run / CONFIG).read_text())["auto_map"]["AutoConfig"] == "modeling_own.Config"
    assert json.loads((run / "_loss_net" / CONFIG).read_text())["encoder_mode"] == "shared"
    for program, output in ((predict.main, "predictions.csv"), (evaluate, "results.json")):
        asked = ["--model", str(run), "--input", str(rows), "--output", str(tmp_path / output)]
        with pytest.raises(ValueError, match="--trust_remote_code true"):
            program(asked)
        assert not Path(asked[-1]).exists()
        program([*asked, "--trust_remote_code"])
        assert Path(asked[-1]).exists()
    with pytest.raises(ValueError, match="`trust_remote_code` is for a pretrained or saved model, but the nets are"):
        mlc.main(["--dataset", "digits", "--output_dir", str(tmp_path / "digits"), "--trust_remote_code", "true"])


@pytest.mark.parametrize("name", ["someone/model", "folder of code elsewhere"])
def test_code_of_the_hub_needs_a_revision(name, coded):
    if " " in name:
        edited(coded / CONFIG, auto_map={"AutoConfig": "someone/model--modeling.Config"})
        name = coded
    with pytest.raises(ValueError, match="`trust_remote_code` is True, but `revision` is missing"):
        SealForMultiLabel.from_pretrained(name, trust_remote_code=True)


def test_a_library_cannot_ask_inside_of_its_own_calls(coded, monkeypatch):
    """A net whose parts are loaded by its constructor does not pass `trust_remote_code` on to them."""
    asked = []
    monkeypatch.setattr("builtins.input", lambda *_: asked.append(1) or "y")
    with no_questions(coded), pytest.raises(ValueError, match="trust_remote_code"):
        AutoConfig.from_pretrained(coded)
    assert not asked and not (coded.parent / "ran").exists()


def test_a_part_of_a_configuration_cannot_ask_either(folder, monkeypatch):
    """`AutoModel.from_config` would ask for the encoder of a loss-net, whose type has no model of its own."""
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    edited(folder / "_loss_net" / CONFIG, encoder_config__model_type="encoder-decoder")
    edited(folder / "_loss_net" / CONFIG, encoder_config__auto_map={"AutoModel": "someone/model--modeling.Net"})
    with pytest.raises(ValueError):
        SealForMultiLabel.from_pretrained(folder)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"r": 10**9}, "`r` is 1000000000; expected at most"),
        ({"layer_replication": [[0, 10**8]]}, "`layer_replication` is 100000000; expected at most"),
        ({"init_lora_weights": "pissa_niter_999999999"}, "`init_lora_weights` .* fewer than 100 iterations"),
        ({"base_model_name_or_path": "no/where"}, "^[^\n]* holds an adapter, but its base cannot be loaded: [^\n]*$"),
        ({"rank_pattern": {"query": 10**9}}, "`query` is 1000000000"),
        ({"base_model_name_or_path": "BIN"}, "x.bin: no such folder"),
        ({"megatron_config": {"a": 1}}, "`megatron_config`"),
        ({"peft_type": "XLORA"}, "`peft_type`"),
        ({"tokenizer_kwargs": {"trust_remote_code": True}}, "`trust_remote_code`|`tokenizer_kwargs`"),
        ({"prompt_tuning_init_state_dict_path": "x.bin"}, "`prompt_tuning_init_state_dict_path`"),
    ],
)
def test_an_adapter_and_its_base_pass_the_gate(fields, said, whole, tmp_path):
    pytest.importorskip("peft")
    seal = SealForMultiLabel.from_pretrained(whole, fresh_loss_net=True, adapter="lora")
    seal.save_pretrained(tmp_path / "saved", adapter_export="adapter")
    (tmp_path / "x.bin").write_bytes(b"")
    edited(
        tmp_path / "saved/adapter_config.json", **json.loads(json.dumps(fields).replace("BIN", str(tmp_path / "x.bin")))
    )
    with pytest.raises((OSError, ValueError), match=said):
        SealForMultiLabel.from_pretrained(tmp_path / "saved", with_loss_net=False)


def test_the_base_of_an_adapter_is_no_adapter(whole, tmp_path):
    pytest.importorskip("peft")
    seal = SealForMultiLabel.from_pretrained(whole, fresh_loss_net=True, adapter="lora")
    for name in ("one", "two"):
        seal.save_pretrained(tmp_path / name, adapter_export="adapter")
    edited(tmp_path / "two/adapter_config.json", base_model_name_or_path=str(tmp_path / "one"))
    with pytest.raises(ValueError, match="one holds an adapter .*; expected a whole net"):
        SealForMultiLabel.from_pretrained(tmp_path / "two", with_loss_net=False)


@pytest.mark.parametrize("flag", ["--hidden_size", "--num_layers", "--global_size", "--adapter_rank"])
def test_a_fresh_net_has_bounds_too(flag, tmp_path):
    with pytest.raises(ValueError, match=f"`{flag[2:]}` is 100000000; it must be .* at most 1"):
        mlc.main(["--dataset", "digits", "--output_dir", str(tmp_path), flag, str(10**8)])


@pytest.mark.parametrize("how", ["pickle alone", "index", "link"])
def test_a_checkpoint_without_its_own_safetensors_is_not_resumed(how, tmp_path):
    rows = {"train_dataset": tiny_features(8)}

    def trainer():
        torch.manual_seed(0)
        nets = SealForMultiLabel.from_task_net(AutoModelForSequenceClassification.from_config(tiny_config("mlp")))
        return SealTrainer(nets, tiny_arguments(tmp_path, max_steps=2, save_strategy="steps", save_steps=1), **rows)

    trainer().train()
    folder = tmp_path / "checkpoint-1"
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").rename(tmp_path / "x.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    if how == "index":
        edited(folder / INDEX, metadata={}, weight_map=dict.fromkeys(weights, "../x.safetensors"))
    elif how == "link":
        (folder / "model.safetensors").symlink_to("../x.safetensors")
    mark_complete(folder)
    said = {"pickle alone": "no file named model.safetensors. Only safetensors are read", "index": "names '../x.safet"}
    with pytest.raises((OSError, ValueError), match=said.get(how, "is a link to")):
        trainer().train(resume_from_checkpoint=str(folder))


def test_a_folder_of_a_loss_net_that_is_a_link_is_refused_by_its_name_too(tmp_path):
    nets = SealForMultiLabel.from_task_net(
        AutoModelForSequenceClassification.from_config(tiny_config("mlp")), loss_net_encoder="separate"
    )
    nets.save_pretrained(tmp_path / "m")
    load_loss_net(tmp_path / "m", nets.task_net)
    (tmp_path / "m/_loss_net").rename(tmp_path / "elsewhere")
    (tmp_path / "m/_loss_net").symlink_to("../elsewhere")
    for folder in (tmp_path / "m", tmp_path / "m/_loss_net"):
        with pytest.raises(ValueError, match="_loss_net is a link to .*elsewhere, outside of the folder"):
            load_loss_net(folder, nets.task_net)


def test_the_header_of_weights_is_bounded(folder):
    (folder / "model.safetensors").write_bytes((10**12).to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match="not readable as safetensors: .*header is cut off or too large"):
        check_origin(folder)
    save_file({"a": torch.zeros(3, 4)}, folder / "model.safetensors")
    stored = check_origin(folder)
    assert (stored.count, stored.elements, stored.longest) == (1, 12, 4)


@pytest.mark.parametrize("fields", [{"model_type": "gpt2"}, {}])
def test_weights_that_hold_nothing_of_the_net_are_refused(fields, folder):
    """All parameters would be random: a run would train them without a word."""
    edited(folder / CONFIG, **fields)
    if not fields:
        save_file({"other": torch.zeros(2)}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        ValueError, match="the weights hold nothing of the net that config.json describes, of type '(gpt2|bert)'"
    ):
        SealForMultiLabel.from_pretrained(folder)


@pytest.mark.parametrize(("part", "flag"), [(".", "false"), ("_loss_net", "true")])
def test_weights_that_are_not_finite_are_refused_before_they_predict(part, flag, folder, tmp_path):
    file = folder / part / "model.safetensors"
    weights = load_file(file)
    first = next(name for name, value in weights.items() if value.is_floating_point())
    save_file({**weights, first: weights[first] * float("nan")}, file, metadata={"format": "pt"})
    (tmp_path / "rows.csv").write_text("text\ngood film\n")
    words = ["--model", str(folder), "--input", str(tmp_path / "rows.csv"), "--energy", flag]
    with pytest.raises(ValueError, match="model: the weights are not finite .*damaged"):
        predict.main(words)


def test_a_loss_net_without_its_configuration_is_refused(folder):
    (folder / "_loss_net" / CONFIG).unlink()
    with pytest.raises(ValueError, match="_loss_net has weights, but config.json is missing"):
        SealForMultiLabel.from_pretrained(folder)


def test_an_error_of_a_library_names_the_folder(folder):
    edited(folder / CONFIG, hidden_act="no-such-function")
    with pytest.raises(ValueError, match=f"{folder}"):
        SealForMultiLabel.from_pretrained(folder)


def test_deep_configurations_end_in_a_line(folder):
    (folder / CONFIG).write_text('{"a": ' + "[" * 50_000 + "]" * 50_000 + "}")
    with pytest.raises(ValueError, match="config.json is not readable as JSON"):
        check_origin(folder)
    with pytest.raises(ValueError, match="cannot be loaded as a net: RecursionError"):
        config_of(folder)
    assert sys.getrecursionlimit() < 50_000
