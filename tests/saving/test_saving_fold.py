"""Oracle: plain transformers, which cuts a folded net at 0.5, and `predict` of the net that was folded."""

import json

import numpy as np
import pytest
import tiny_masks
import torch
from tiny_models import LABELS, tiny_config, tiny_inputs, tiny_texts, tiny_tokenizer
from transformers import (
    AutoModelForSemanticSegmentation,
    AutoModelForSequenceClassification,
    pipeline,
)

from seal_hf import SealForMultiLabel, SealForSegmentation
from seal_hf.decisions import LabelDecisions, MaskDecisions

MULTI_LABEL = "multi_label_classification"


def nets(kind, decoder, folder):
    """A net with thresholds between its probabilities of some inputs."""
    torch.manual_seed(0)
    task_net = AutoModelForSequenceClassification.from_config(tiny_config(kind)).eval()
    with torch.no_grad():
        for parameter in task_net.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)  # far from 0.5
        p = task_net(**tiny_inputs(kind, 40)).logits.sigmoid().double().sort(0).values
    middle = (p[19] + p[20]) / 2
    numbers = {"threshold": middle[0].item(), "thresholds": middle.tolist()}
    LabelDecisions(decoder=decoder, calibration=(1.0, 0.1), never_empty=True, **numbers).store(task_net.config)
    task_net.save_pretrained(folder)
    return SealForMultiLabel.from_pretrained(folder, with_loss_net=False)


@pytest.mark.parametrize("kind", ["mlp", "bert", "roberta", "distilbert"])
@pytest.mark.parametrize("decoder", ["fixed", "threshold", "thresholds"])
def test_a_folded_net_decides_at_one_half_as_the_net_did(kind, decoder, tmp_path):
    both, inputs = nets(kind, decoder, tmp_path / "net"), tiny_inputs(kind, 40)
    before = {name: value.clone() for name, value in both.task_net.state_dict().items()}
    probabilities, decided = both.predict(**inputs)
    both.save_pretrained(tmp_path / "folded", fold_decision=True)

    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "folded")
    with torch.no_grad():
        scores = plain(**inputs).logits.sigmoid()
    assert torch.equal(scores >= 0.5, decided.bool())
    assert decoder == "fixed" or 0 < decided.sum() < decided.numel()
    saved = json.loads((tmp_path / "folded" / "config.json").read_text())["decisions"]
    assert saved["decoder"] == "fixed" and saved["threshold"] == 0.5 and saved["folded"] == decoder
    again = SealForMultiLabel.from_pretrained(tmp_path / "folded", with_loss_net=False)
    assert torch.equal(again.predict(**inputs)[1], decided)  # not folded twice
    with pytest.raises(ValueError, match=f"have fixed, and the classifier's bias already applies `{decoder}`"):
        again.predict(**inputs, decoder="expected_f1")
    with pytest.raises(ValueError, match="`decoder` is 'threshold'; these decisions have fixed"):
        again.predict(decoder="threshold", **inputs)

    assert both.task_net.state_dict().keys() == before.keys()  # the net itself is as it was
    assert all(torch.equal(value, before[name]) for name, value in both.task_net.state_dict().items())
    assert both.config.decisions["decoder"] == decoder and torch.equal(both.predict(**inputs)[0], probabilities)


def test_a_pipeline_decides_so_too(tmp_path):
    both = nets("bert", "thresholds", tmp_path / "net")
    both.processor = tiny_tokenizer()
    texts = tiny_texts(30)["text"][:]
    decided = both.predict(texts)[1].bool()
    both.save_pretrained(tmp_path / "folded", fold_decision=True)
    tiny_tokenizer().save_pretrained(tmp_path / "folded")
    classify = pipeline("text-classification", str(tmp_path / "folded"), top_k=None)
    found = [{score["label"] for score in scores if score["score"] >= 0.5} for scores in classify(texts)]
    assert found == [{LABELS[i] for i in row.nonzero().flatten().tolist()} for row in decided]


# what servers make of logits (N, L), by their own code: folder's config -> logits -> the scores that they give
SERVERS = {
    "vLLM": lambda config: torch.sigmoid if config["problem_type"] == MULTI_LABEL else lambda x: x.softmax(-1),
    "Text Embeddings Inference": lambda config: lambda logits: logits.softmax(-1),
    "Text Embeddings Inference, raw_scores": lambda config: lambda logits: logits,
}


@pytest.mark.parametrize("server, cut", [("vLLM", 0.5), ("Text Embeddings Inference, raw_scores", 0.0)])
def test_a_server_decides_so_too(server, cut, tmp_path):
    both, inputs = nets("bert", "thresholds", tmp_path / "net"), tiny_inputs("bert", 40)
    decided = both.predict(**inputs)[1].bool()
    both.save_pretrained(tmp_path / "folded", fold_decision=True)
    config = json.loads((tmp_path / "folded" / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    with torch.no_grad():
        logits = AutoModelForSequenceClassification.from_pretrained(tmp_path / "folded")(**inputs).logits
    assert torch.equal(SERVERS[server](config)(logits) >= cut, decided)
    usual = SERVERS["Text Embeddings Inference"](config)(logits) >= 0.5
    assert (usual.sum(1) <= 1).all() and not torch.equal(usual, decided)  # why it must be asked for raw scores


@pytest.mark.parametrize("kind", ["fcn", "segformer"])
def test_of_masks_the_likelier_class_is_the_decision(kind, tmp_path):
    folder = tiny_masks.saved_segformer(tmp_path / "net") if kind == "segformer" else tmp_path / "net"
    if kind == "fcn":
        tiny_masks.model().task_net.save_pretrained(folder)
    both = SealForSegmentation.from_pretrained(folder, with_loss_net=False)
    images = torch.rand(4, 3, 32, 32)
    cut = both.predict(pixel_values=images)[0].median().item()
    MaskDecisions(decoder="threshold", threshold=cut).store(both.config)
    masks = both.predict(pixel_values=images)[1]
    both.save_pretrained(tmp_path / "folded", fold_decision=True)
    plain = AutoModelForSemanticSegmentation.from_pretrained(tmp_path / "folded")
    with torch.no_grad():
        logits = torch.nn.functional.interpolate(plain(images).logits, (32, 32), mode="bilinear", align_corners=False)
    differs = (logits.argmax(1) != masks).float().mean()
    assert differs < 1e-3 and 0.4 < masks.float().mean() < 0.6  # pixels at the threshold itself


def test_a_folded_net_that_is_folded_again_stays_as_it_is(tmp_path):
    both, inputs = nets("bert", "thresholds", tmp_path / "net"), tiny_inputs("bert", 40)
    both.save_pretrained(tmp_path / "folded", fold_decision=True)
    again = SealForMultiLabel.from_pretrained(tmp_path / "folded", with_loss_net=False)
    again.save_pretrained(tmp_path / "twice", fold_decision=True)
    twice = SealForMultiLabel.from_pretrained(tmp_path / "twice", with_loss_net=False)
    assert twice.config.decisions == again.config.decisions and twice.config.decisions["folded"] == "thresholds"
    assert torch.equal(twice.predict(**inputs)[1], both.predict(**inputs)[1])


def test_what_no_bias_can_hold_is_refused(tmp_path):
    both = nets("bert", "calibrated_f1", tmp_path / "net")
    with pytest.raises(ValueError, match="the decoder is 'calibrated_f1', not a threshold"):
        both.save_pretrained(tmp_path / "no", fold_decision=True)
    for decoder in ("expected_f1", "threshold+never_empty"):
        both.config.decisions = {**both.config.decisions, "decoder": decoder}
        with pytest.raises(ValueError, match="not a threshold"):
            both.save_pretrained(tmp_path / "no", fold_decision=True)
    del both.config.decisions
    with pytest.raises(ValueError, match="no decision is stored"):
        both.save_pretrained(tmp_path / "no", fold_decision=True)
    few = nets("bert", "thresholds", tmp_path / "few")
    few.config.decisions["thresholds"].pop()
    with pytest.raises(ValueError, match="thresholds, but the task-net .* labels"):
        few.save_pretrained(tmp_path / "no", fold_decision=True)
    coarse = nets("bert", "threshold", tmp_path / "coarse")
    coarse.task_net.to(torch.bfloat16)
    with pytest.raises(ValueError, match="the weights are bfloat16, too coarse"):
        coarse.save_pretrained(tmp_path / "no", fold_decision=True)
    averaged = tiny_masks.model(crop_size=12)
    MaskDecisions(decoder="threshold", threshold=0.3).store(averaged.config)
    kept = {name: value.clone() for name, value in averaged.task_net.state_dict().items()}
    with pytest.raises(ValueError, match="averages over crops"):
        averaged.save_pretrained(tmp_path / "no", fold_decision=True)
    assert all(torch.equal(value, kept[name]) for name, value in averaged.task_net.state_dict().items())
    assert not (tmp_path / "no").exists()
    assert np.isclose(averaged.config.decisions["threshold"], 0.3)
