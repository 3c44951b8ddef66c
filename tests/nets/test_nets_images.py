"""The small convolutional net, and what a shared network reads of an image net. Oracles: the form written out by hand,
the classifier applied to what was read."""

import logging

import pytest
import torch
import torch.nn.functional as F
from tiny_images import FAMILIES, LABELLED, SIZE, squares, tiny_config
from torch import nn
from transformers import AutoModel, AutoModelForImageClassification, pipeline

from seal_hf import CNNConfig, CNNForImageClassification, MultiLabelSpace, cnn_image_processor
from seal_hf.nets.encoders import pool
from seal_hf.nets.heads import blank_images, reads_images, shared_size, with_features


def cnn(**options):
    torch.manual_seed(0)
    return CNNForImageClassification(CNNConfig(hidden_sizes=(4, 8, 12), hidden_size=10, **LABELLED, **options)).eval()


def test_the_net_is_its_definition():
    net, x = cnn(dropout=0.5), torch.rand(2, 3, 13, 18)
    hidden = x
    for i, (convolution, norm) in enumerate(zip(net.encoder.convolutions, net.encoder.norms, strict=True)):
        hidden = hidden if i == 0 else F.max_pool2d(hidden, 2, ceil_mode=True)
        hidden = F.conv2d(hidden, convolution.weight, convolution.bias, padding=1)
        hidden = F.relu(F.group_norm(hidden, 4, norm.weight, norm.bias))
    assert hidden.shape == (2, 12, 4, 5)
    features = F.relu(net.encoder.dense(F.adaptive_avg_pool2d(hidden, 4).flatten(1)))
    labels = torch.tensor([[1.0, 0, 0, 1], [0, 0, 0, 0]])
    outputs = net(x, labels=labels, output_hidden_states=True)
    torch.testing.assert_close(outputs.hidden_states[0], features)
    torch.testing.assert_close(outputs.logits, net.classifier(features))
    torch.testing.assert_close(outputs.loss, MultiLabelSpace().task_loss(outputs.logits, labels))
    assert net(x).hidden_states is None and not torch.equal(net.train()(x).logits, outputs.logits)


@pytest.mark.parametrize("size", [(1, 1), (5, 40), (64, 64)])
def test_images_may_have_any_size(size):
    assert cnn()(torch.rand(2, 3, *size)).logits.shape == (2, 4)


def test_what_is_saved_loads_and_classifies(tmp_path, caplog):
    net = cnn()
    net.save_pretrained(tmp_path)
    cnn_image_processor((SIZE, SIZE)).save_pretrained(tmp_path)
    again = AutoModelForImageClassification.from_pretrained(tmp_path)
    assert isinstance(again, CNNForImageClassification)
    encoder = AutoModel.from_pretrained(tmp_path)
    x = torch.rand(2, 3, 9, 9)
    assert torch.equal(again.eval()(x).logits, net(x).logits)
    assert torch.equal(encoder.eval()(x).last_hidden_state, net.encoder(x).last_hidden_state)
    with caplog.at_level(logging.ERROR):
        from PIL import Image

        found = pipeline("image-classification", str(tmp_path))(Image.fromarray(squares(1)[0][0]), top_k=4)
    assert {each["label"] for each in found} == {"red", "green", "blue", "grey"}
    assert all(0 < each["score"] < 1 for each in found) and sum(each["score"] for each in found) != pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"grid": 0}, "`grid` is 0"), ({"hidden_size": 0}, "`hidden_size` is 0"), ({"dropout": 1.0}, "`dropout` is 1.0")],
)
def test_sizes_out_of_range_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        CNNConfig(**options)


# --- what a shared network reads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_shared_is_what_the_classifier_reads(family):
    torch.manual_seed(0)
    net = AutoModelForImageClassification.from_config(tiny_config(family, **LABELLED)).eval()
    x = torch.rand(3, 3, SIZE, SIZE)
    assert reads_images(net)
    outputs = with_features(net, {"pixel_values": x})
    (features,) = outputs.hidden_states
    head = net.classifier[-1] if isinstance(net.classifier, nn.Sequential) else net.classifier
    assert features.shape == (3, shared_size(net)) and torch.equal(head(features), outputs.logits)
    assert torch.equal(outputs.logits, net(x).logits)
    assert not any(module._forward_pre_hooks for module in net.modules())
    encoded = net.base_model(x)
    hidden = encoded.last_hidden_state
    expected = {
        "vit": lambda: hidden[:, 0],
        "dinov2": lambda: torch.cat([hidden[:, 0], hidden[:, 1:].mean(1)], 1),
        "convnext": lambda: net.convnext.layernorm(hidden.mean((2, 3))),
        "resnet": lambda: hidden.mean((2, 3)),
    }[family]()
    torch.testing.assert_close(features, expected)
    own = pool(hidden, None, getattr(encoded, "pooler_output", None))  # as a separate loss-net reads it
    assert own.shape == (3, 16)
    if family in ("convnext", "resnet"):
        torch.testing.assert_close(own, features)


def test_a_net_without_a_linear_head_is_named():
    net = cnn()
    net.classifier = nn.Identity()
    with pytest.raises(ValueError, match="no linear layer of CNNForImageClassification was seen to give its 4 labels"):
        with_features(net, {"pixel_values": torch.rand(1, 3, 8, 8)})
    assert shared_size(net) is None


def test_a_blank_image_has_the_size_that_the_net_states():
    assert blank_images(cnn())["pixel_values"].shape == (1, 3, 64, 64)
    net = AutoModelForImageClassification.from_config(tiny_config("vit"))
    assert blank_images(net)["pixel_values"].shape == (1, 3, SIZE, SIZE)
    assert not blank_images(net)["pixel_values"].any()
