"""Task-nets as ONNX files. Oracles: the saved nets themselves, and the decisions that they predict."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import tiny_class_masks
import tiny_masks
import torch
import transformers
from tiny_models import LABELLED, LABELS, tiny_config, tiny_features, tiny_texts, tiny_tokenizer
from transformers import AutoModel, AutoModelForImageClassification, AutoModelForSequenceClassification, ViTConfig

from seal_hf import SealForMultiLabel, SealForTokenClassification, Vocabulary, fcn_image_processor, load_tags
from seal_hf.cli.export import main
from seal_hf.core.masks import log_odds, resized_logits
from seal_hf.decisions import ClassMaskDecisions, MaskDecisions
from seal_hf.saving import onnx as exporter
from seal_hf.tasks.masks.fcn import FCNConfig, FCNForSemanticSegmentation

SMALL = {"num_hidden_layers": 1}
TEXTS = tiny_texts(5, seed=1)["text"][:]
# An export takes seconds. Nets of ours, and what is made of a finished graph, are the same on either line.
on_one_line = pytest.mark.skipif(transformers.__version__.startswith("4."), reason="tested on transformers 5")


@pytest.fixture
def runtime():
    for name in exporter.NEEDED:
        found = pytest.importorskip(name, reason=f"the extra onnx is not installed: no {name}")
    return found


def logits_of(file, inputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    assert {given.name for given in session.get_inputs()} == set(inputs)
    (found,) = session.run(None, {name: np.asarray(value) for name, value in inputs.items()})
    return torch.from_numpy(found), session


def check_equal(file, net, inputs):
    with torch.no_grad():
        expected = net.eval()(**inputs).logits
    assert str(Path(torch.__file__).parent).encode() not in file.read_bytes(), "the file names folders of this machine"
    found, session = logits_of(file, {name: value.numpy() for name, value in inputs.items()})
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    return session


@on_one_line
def test_features_with_the_decision_in_the_graph(runtime, tmp_path, capsys):
    """The folded bias decides at 0 as the saved thresholds do; unfolded, they stand in the metadata."""
    torch.manual_seed(0)
    net = AutoModelForSequenceClassification.from_config(tiny_config("mlp"))
    net.config.decisions = {"decoder": "thresholds", "thresholds": [0.3, 0.45, 0.6, 0.52]}
    net.config.label_bias = True
    net = type(net)(net.config)
    net.save_pretrained(tmp_path / "saved")
    features = torch.tensor(tiny_features(40)["features"][:])
    _, decided = SealForMultiLabel.from_pretrained(tmp_path / "saved", with_loss_net=False).predict(features=features)
    main(["--model", str(tmp_path / "saved"), "--output", str(tmp_path / "folded.onnx"), "--fold_decision"])
    main(["--model", str(tmp_path / "saved"), "--output", str(tmp_path / "plain.onnx")])
    found, session = logits_of(tmp_path / "folded.onnx", {"features": features.numpy()})
    assert torch.equal((found >= 0).long(), decided) and 0 < decided.float().mean() < 1
    assert json.loads(session.get_modelmeta().custom_metadata_map["decisions"])["folded"] == "thresholds"
    session = check_equal(tmp_path / "plain.onnx", net, {"features": features})
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["decisions"]) == net.config.decisions
    assert json.loads(said["id2label"]) == {str(i): name for i, name in enumerate(LABELS)}
    assert not torch.equal((check_logits(tmp_path / "plain.onnx", features) >= 0).long(), decided)
    lines = capsys.readouterr().err.strip().splitlines()
    first, second = (line for line in lines if line.startswith("seal-hf export: "))
    assert "gives the logits of" in first and "decoder" not in first
    assert second.endswith("Its decoder, 'thresholds', is not in the graph; its numbers are in the metadata.")


def check_logits(file, features):
    return logits_of(file, {"features": features.numpy()})[0]


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_a_classifier_that_pools(runtime, tmp_path, pooling):
    """Also of pairs."""
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config("bert", **SMALL)).save_pretrained(tmp_path / "base")
    tiny_tokenizer().save_pretrained(tmp_path / "base")
    model = SealForMultiLabel.from_pretrained(tmp_path / "base", pooling=pooling, with_loss_net=False, **LABELLED)
    model.save_pretrained(tmp_path / "saved")
    main(["--model", str(tmp_path / "saved"), "--output", str(tmp_path / "net.onnx")])
    for texts in ((TEXTS,), (TEXTS[:1],), (TEXTS[:2], TEXTS[2:4])):
        given = dict(tiny_tokenizer()(*texts, padding=True, return_tensors="pt"))
        check_equal(tmp_path / "net.onnx", model.task_net, given)


def test_a_decoder_that_is_saved_as_an_adapter(runtime, tmp_path):
    """It is merged; padding on either side changes nothing."""
    pytest.importorskip("peft")
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(tiny_config("qwen2", **SMALL)).save_pretrained(tmp_path / "base")
    model = SealForMultiLabel.from_pretrained(tmp_path / "base", loss_net_encoder="shared", adapter="lora", **LABELLED)
    for parameter in model.task_net.parameters():
        parameter.data += 0.1 if parameter.requires_grad else 0
    model.save_pretrained(tmp_path / "saved", adapter_export="adapter")
    main(["--model", str(tmp_path / "saved"), "--output", str(tmp_path / "net.onnx")])
    for side in ("left", "right"):
        tokenizer = tiny_tokenizer()
        tokenizer.padding_side = side
        given = tokenizer(TEXTS, padding=True, return_tensors="pt")
        check_equal(tmp_path / "net.onnx", model.task_net, {k: given[k] for k in ("input_ids", "attention_mask")})


def test_images(runtime, tmp_path):
    config = ViTConfig(image_size=8, patch_size=4, hidden_size=8, num_attention_heads=1, intermediate_size=8, **SMALL)
    config.num_labels = 3
    net = AutoModelForImageClassification.from_config(config).eval()
    assert exporter.export_net(net, tmp_path / "net.onnx") < 1e-5
    check_equal(tmp_path / "net.onnx", net, {"pixel_values": torch.rand(5, 3, 8, 8)})


@on_one_line
def test_masks_of_several_classes_and_a_folded_decision_of_two(runtime, tmp_path, capsys):
    """Images of any size. The file names the classes, and the threshold of two classes is in its bias."""
    pixels = {"pixel_values": torch.rand(3, 3, 20, 13, generator=torch.Generator().manual_seed(0))}
    classes, two = tiny_class_masks.model(), tiny_masks.model()
    ClassMaskDecisions().store(classes.config)
    MaskDecisions("threshold", threshold=0.4).store(two.config)
    found = {}
    np.savez(tmp_path / "rows.npz", images=tiny_masks.squares(3).images)
    for name, nets, flags in (("classes", classes, []), ("two", two, ["--fold_decision"])):
        nets.save_pretrained(tmp_path / name)
        fcn_image_processor().save_pretrained(tmp_path / name)
        file = tmp_path / f"{name}.onnx"
        flags += ["--check", str(tmp_path / "rows.npz")]
        main(["--model", str(tmp_path / name), "--output", str(file), *flags])
        assert "0 of 3 rows are decided otherwise than by the net, in 0 of 768 pixels" in capsys.readouterr().err
        logits, session = logits_of(file, {"pixel_values": pixels["pixel_values"].numpy()})
        found[name] = resized_logits(logits, (20, 13)), session.get_modelmeta().custom_metadata_map
    logits, described = found["classes"]
    assert torch.equal(logits.argmax(1), classes.predict(**pixels)[1])
    assert json.loads(described["id2label"]) == {str(i): name for i, name in enumerate(tiny_class_masks.NAMES)}
    assert json.loads(described["decisions"]) == {"decoder": "fixed"}
    logits, described = found["two"]
    p, decided = two.predict(**pixels)
    assert (((log_odds(logits) >= 0) == (decided == 1)) | ((p - 0.4).abs() < 1e-5)).all()
    assert ((p >= 0.4) != (p >= 0.5)).any() and json.loads(described["decisions"])["folded"] == "threshold"
    with pytest.raises(ValueError, match="no matrix products with weights to quantise"):
        main([*map(str, ("--model", tmp_path / "two", "--output", tmp_path / "q.onnx", "--dtype", "int8"))])


@on_one_line
@pytest.mark.parametrize("crop_size", [None, 8])
def test_masks_whole_and_averaged_over_crops(runtime, crop_size, tmp_path):
    """Whole images may have any size; the number of crops depends on it."""
    torch.manual_seed(0)
    net = FCNForSemanticSegmentation(FCNConfig(crop_size=crop_size, crop_offsets=2 if crop_size else None)).eval()
    if crop_size is None:
        exporter.export_net(net, tmp_path / "net.onnx")
        check_equal(tmp_path / "net.onnx", net, {"pixel_values": torch.rand(1, 3, 9, 14)})
        return
    with pytest.raises(ValueError, match="The net averages over crops.*resize_to"):
        exporter.export_net(net, tmp_path / "net.onnx")
    sized = type("Processor", (), {"do_resize": True, "size": {"height": 12, "width": 10}})
    exporter.export_net(net, tmp_path / "net.onnx", sized)
    check_equal(tmp_path / "net.onnx", net, {"pixel_values": torch.rand(5, 3, 12, 10)})


@on_one_line
def test_a_bilstm_with_a_crf_gives_the_scores_of_single_tags(runtime, tmp_path, capsys):
    data = load_tags("toy_tags")
    vocabulary = Vocabulary.from_data(data.train, data.other_splits, characters=True)
    sizes = {"hidden_size": 8, "word_size": 8}
    model = SealForTokenClassification.for_data(data, vocabulary=vocabulary, crf=True, **sizes)
    model.save_pretrained(tmp_path / "saved")
    vocabulary.save_pretrained(tmp_path / "saved")
    sentences = data.validation["words"][:5]
    (tmp_path / "rows.txt").write_text("\n".join(map(" ".join, sentences)) + "\n")
    command = ["--model", tmp_path / "saved", "--output", tmp_path / "net.onnx", "--check", tmp_path / "rows.txt"]
    main([*map(str, command)])
    said = capsys.readouterr().err
    assert "Its CRF is not in the graph" in said  # but in the check
    assert f"0 of 5 rows are decided otherwise than by the net, in 0 of {sum(map(len, sentences))} words" in said
    from seal_hf import encode_words

    batch = encode_words(data.validation, vocabulary).batch(range(7))
    check_equal(tmp_path / "net.onnx", model.task_net, {k: v for k, v in batch.items() if k != "labels"})


def test_what_cannot_be_exported_leaves_nothing(tmp_path, monkeypatch):
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(tiny_config("mlp")).save_pretrained(tmp_path / "saved")
    command = ["--model", str(tmp_path / "saved"), "--output", str(tmp_path / "out" / "net.onnx")]
    with pytest.raises(ValueError, match="`output` is .*net.pt'; expected a name that ends in .onnx"):
        main([*command[:3], str(tmp_path / "net.pt")])
    with pytest.raises(ValueError, match="`fold_decision` is True, but no decision is stored"):
        monkeypatch.setattr(exporter, "check_installed", lambda *_: None)
        main([*command, "--fold_decision"])

    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "bert")
    tiny_tokenizer().save_pretrained(tmp_path / "bert")
    windows = SealForMultiLabel.from_pretrained(tmp_path / "bert", long_texts="windows", window_size=8, **LABELLED)
    windows.save_pretrained(tmp_path / "windows")
    with pytest.raises(ValueError, match="windows reads texts in windows .long_texts., which ONNX cannot express"):
        main(["--model", str(tmp_path / "windows"), *command[2:]])

    def fails(*args, **kwargs):
        raise RuntimeError("no such operator\nand a long report")

    monkeypatch.setattr(torch.onnx, "export", fails)
    with pytest.raises(ValueError, match=r"torch .* cannot export MLPForMultiLabel to ONNX: no such operator$"):
        main(command)
    assert not list((tmp_path / "out").iterdir())


def test_a_file_with_other_logits_is_not_written(runtime, tmp_path, monkeypatch):
    net = AutoModelForSequenceClassification.from_config(tiny_config("mlp")).eval()
    monkeypatch.setattr(exporter, "_difference", lambda *_: 0.5)
    with pytest.raises(ValueError, match="The logits of MLPForMultiLabel in fp32 differ by 0.5 from its own"):
        exporter.export_net(net, tmp_path / "out" / "net.onnx")
    assert not list((tmp_path / "out").iterdir())


def test_without_the_extra_there_is_one_clear_line(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(exporter, "find_spec", lambda name: None if name in exporter.NEEDED else find(name))
    with pytest.raises(ValueError, match=r"^The export to .onnx needs onnx, onnxscript, onnxruntime: pip"):
        main(["--model", str(tmp_path), "--output", str(tmp_path / "net.onnx")])


# Other types, compared with the net on rows of a file


@on_one_line
@pytest.mark.parametrize("dtype", ["fp16", "int8"])
def test_a_check_counts_the_decisions_that_differ(runtime, tmp_path, capsys, dtype):
    """Oracle: the logits of the file and the net on the same batch, cut at 0."""
    checked(tmp_path, capsys, "net.onnx", dtype)


def checked(folder, capsys, name, dtype):
    torch.manual_seed(0)
    net = AutoModelForSequenceClassification.from_config(tiny_config("bert", **SMALL)).eval()
    texts = tiny_texts(30, seed=3)["text"][:]
    inputs = dict(tiny_tokenizer()(texts, padding=True, return_tensors="pt"))
    with torch.no_grad():  # half of the decisions are near to the cut
        net.classifier.bias -= net(**inputs).logits.quantile(0.5, dim=0)
    net.save_pretrained(folder / "saved")
    tiny_tokenizer().save_pretrained(folder / "saved")
    (folder / "rows.csv").write_text("text\n" + "\n".join(texts) + "\n")
    words = ["--output", folder / "out" / name, "--dtype", dtype, "--check", folder / "rows.csv"]
    main([*map(str, ("--model", folder / "saved", *words))])
    said = capsys.readouterr().err.strip().splitlines()[-1]
    found = exporter.ExportedNet(folder / "out" / name)(inputs)
    with torch.no_grad():
        expected = net(**inputs).logits
    differ = (found >= 0) != (expected >= 0)
    assert f": {differ.any(1).sum()} of 30 rows are decided otherwise" in said
    assert f"in {differ.sum()} of 120 labels" in said
    largest = exporter.relative_difference(found, expected)
    assert said.endswith(f"difference of logits is {largest:.1g}.")
    assert largest < {"fp32": 1e-5, "fp16": 1e-2, "int8": 0.3}[dtype]
    assert differ.any() if dtype == "int8" else dtype == "fp16" or not differ.any()
    assert len(list((folder / "out").iterdir())) == 1
