"""SealForMultiLabel on images. Oracles: plain transformers and its pipeline on what was saved, an uninterrupted run."""

import logging

import numpy as np
import pytest
import tiny_images
import torch
from tiny_images import COLOURS, FAMILIES, LABELLED, SIZE, processor, saved_encoder, squares, table, tiny_config
from tiny_models import tiny_arguments
from tiny_run import StopAt, parameters
from torch import nn
from transformers import AutoImageProcessor, AutoModelForImageClassification, pipeline

from seal_hf import FlipAndCrop, ImageRows, SealForMultiLabel, SealTrainer, load_multilabel
from seal_hf.nets.heads import shared_size
from seal_hf.saving.loading import task_of_model
from seal_hf.saving.model import kind_of
from seal_hf.utils.compat import without_torchvision

pytest.importorskip("PIL", reason="images need pillow")
FAST = {"learning_rate": 5e-3, "max_steps": 6, "per_device_train_batch_size": 16, "energy_weight": 0.05}


def train(seal, folder, resume=None, stop=None, augment=None, rows=None, **options):
    """A trainer after its run."""
    rows = rows or ImageRows(table(40), processor(), augment or FlipAndCrop(), seed=1)
    validation = ImageRows(table(40, seed=1), processor())
    args = tiny_arguments(folder, **{**FAST, **options})
    callbacks = [StopAt(stop)] if stop else []
    given = {"train_dataset": rows, "eval_dataset": validation, "processing_class": processor()}
    trainer = SealTrainer(seal, args, callbacks=callbacks, **given)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def made(folder, family, mode, **options):
    torch.manual_seed(0)
    if family == "cnn":
        return SealForMultiLabel.for_data(load_small(), loss_net_encoder=mode, hidden_size=12, **options)
    encoder = saved_encoder(folder / family, family)
    return SealForMultiLabel.from_pretrained(encoder, loss_net_encoder=mode, **LABELLED, **options)


TRAINED = [("vit", "separate"), ("cnn", "separate"), ("cnn", "shared"), ("vit", "peft")]
TRAINED += [(family, "shared") for family in FAMILIES]


def load_small():
    rows = table(40)
    names = [[COLOURS[i] for i in np.flatnonzero(row)] for row in rows["labels"]]
    data = load_multilabel(rows.remove_columns("labels").add_column("labels", names))
    assert data.label_names == sorted(COLOURS)
    return data


# --- train, save, load, predict --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "mode"), TRAINED)
def test_what_is_trained_is_saved_as_a_plain_model(tmp_path, family, mode):
    if mode == "peft":
        pytest.importorskip("peft")
    seal = made(tmp_path, family, mode)
    loss_net = seal.loss_net
    before = [p.detach().clone() for p in loss_net.parameters()]
    trainer = train(seal, tmp_path / "run")
    moved = [not torch.equal(a, b) for a, b in zip(before, loss_net.parameters(), strict=True)]
    frozen = [not p.requires_grad for p in loss_net.parameters()]
    assert all(m or f for m, f in zip(moved, frozen, strict=True)) or mode == "peft"
    trainer.fit_decisions(decoder="threshold")
    trainer.save_model(tmp_path / "final")
    folder, (images, _) = tmp_path / "final", squares(5, seed=2)

    plain = AutoModelForImageClassification.from_pretrained(folder).eval()
    assert type(plain).__name__.endswith("ForImageClassification") and not hasattr(plain, "peft_config")
    reader = AutoImageProcessor.from_pretrained(folder, **without_torchvision())
    pixels = reader(list(images), return_tensors="pt", input_data_format="channels_last")["pixel_values"]
    saved = SealForMultiLabel.from_pretrained(folder)
    with torch.no_grad():
        logits = plain(pixel_values=pixels).logits
        assert torch.equal(logits, saved(pixel_values=pixels).logits)
        trained = trainer.model.eval()(pixel_values=pixels).logits
        torch.testing.assert_close(logits, trained, rtol=1e-4, atol=1e-5)
    probabilities, decisions = saved.predict(list(images), batch_size=2)
    torch.testing.assert_close(probabilities, logits.sigmoid(), rtol=1e-5, atol=1e-6)
    assert torch.equal(decisions, (probabilities >= saved.config.decisions["threshold"]).long())
    assert task_of_model(str(folder), {})[1] == "multi_label" and kind_of(plain) is SealForMultiLabel
    assert saved.config.inputs == {"image_size": [SIZE, SIZE]}

    y = torch.rand(5, 3, 4)
    with torch.no_grad():
        energies = saved.energy(y, pixel_values=pixels)
        with trainer.loss_net.eval().active():
            torch.testing.assert_close(
                SealForMultiLabel(trainer.model, trainer.loss_net).energy(y, pixel_values=pixels), energies,
                rtol=1e-4, atol=1e-4,
            )  # fmt: skip
    assert energies.shape == (5, 3)
    assert "image-classification" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("family", ["vit", "convnext"])
def test_the_pipeline_decides_as_predict_at_the_stored_threshold(tmp_path, family):
    from PIL import Image

    trainer = train(made(tmp_path, family, "shared"), tmp_path / "run", loss_net_encoder="shared", max_steps=40)
    trainer.fit_decisions(decoder="threshold")
    trainer.save_model(tmp_path / "final")
    images = squares(12, seed=3)[0]
    saved = SealForMultiLabel.from_pretrained(tmp_path / "final", with_loss_net=False)
    probabilities, decisions = saved.predict(list(images))
    classify = pipeline("image-classification", str(tmp_path / "final"), top_k=4)
    cut = saved.config.decisions["threshold"]
    for image, p, decided in zip(images, probabilities, decisions, strict=True):
        scores = {
            s["label"]: s["score"] for s in classify(Image.fromarray(image))
        }  # a sigmoid: the problem type says so
        np.testing.assert_allclose([scores[colour] for colour in COLOURS], p, atol=1e-5)
        assert {label for label, score in scores.items() if score >= cut} == {
            COLOURS[i] for i in decided.nonzero()[:, 0]
        }


def test_a_folded_decision_is_in_the_saved_bias(tmp_path):
    trainer = train(made(tmp_path, "vit", "shared"), tmp_path / "run", loss_net_encoder="shared", fold_decision=True)
    trainer.fit_decisions(decoder="threshold")
    cut, images = trainer.model.config.decisions["threshold"], list(squares(8, seed=3)[0])
    trainer.save_model(tmp_path / "final")
    rows = ImageRows.of(images, processor()).batch(range(8))
    with torch.no_grad():
        expected = trainer.model.eval()(**rows).logits.sigmoid() >= cut
        plain = AutoModelForImageClassification.from_pretrained(tmp_path / "final").eval()
        assert torch.equal(plain(**rows).logits.sigmoid() >= 0.5, expected)


def test_an_adapter_is_saved_and_loaded_alone(tmp_path):
    pytest.importorskip("peft")
    trainer = train(made(tmp_path, "vit", "peft"), tmp_path / "run", loss_net_encoder="peft", adapter_export="adapter")
    trainer.fit_decisions(decoder="threshold")
    trainer.save_model(tmp_path / "final")
    folder, images = tmp_path / "final", list(squares(5, seed=2)[0])
    assert (folder / "adapter_config.json").is_file() and not (folder / "model.safetensors").exists()
    saved = SealForMultiLabel.from_pretrained(folder)
    rows = ImageRows.of(images, processor()).batch(range(5))
    with torch.no_grad():
        torch.testing.assert_close(saved(**rows).logits, trainer.model.eval()(**rows).logits)
    assert task_of_model(str(folder), {})[1] == "multi_label"
    assert torch.equal(saved.predict(images)[0].isfinite(), torch.ones(5, 4, dtype=torch.bool))


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["separate", "shared"])
def test_resumed_equals_uninterrupted_to_the_bit(tmp_path, mode):
    """With flips and crops that differ in each of three epochs; it stops in the second."""
    options = dict(max_steps=9, loss_net_encoder=mode)
    whole = train(made(tmp_path, "resnet", mode), tmp_path / "whole", **options)
    saved = dict(save_strategy="steps", save_steps=4, **options)
    train(made(tmp_path, "resnet", mode), tmp_path / "part", stop=4, **saved)
    torch.manual_seed(9)
    seal = made(tmp_path, "resnet", mode)
    torch.manual_seed(9)
    resumed = train(seal, tmp_path / "part", resume=True, **saved)
    assert torch.equal(
        parameters(SealForMultiLabel(resumed.model, resumed.loss_net)),
        parameters(SealForMultiLabel(whole.model, whole.loss_net)),
    )
    assert resumed.state.global_step == 9
    plain = train(made(tmp_path, "resnet", mode), tmp_path / "plain", rows=ImageRows(table(40), processor()), **options)
    assert not torch.equal(parameters(SealForMultiLabel(plain.model, plain.loss_net)),
                           parameters(SealForMultiLabel(whole.model, whole.loss_net)))  # fmt: skip


@pytest.mark.parametrize("mode", ["separate", "peft"])
def test_an_adapter_keeps_the_statistics_of_its_base(tmp_path, mode):
    """Those of a ResNet's batch normalisation; what is saved, without them, computes the same."""
    pytest.importorskip("peft")
    torch.manual_seed(0)
    saved_encoder(tmp_path / "resnet", "resnet")
    seal = SealForMultiLabel.from_pretrained(tmp_path / "resnet", adapter="lora", loss_net_encoder=mode, **LABELLED)
    before = {name: value.clone() for name, value in seal.task_net.named_buffers() if "running" in name}
    train(seal, tmp_path / "run", loss_net_encoder=mode, max_steps=4)
    found = dict(seal.task_net.named_buffers())
    assert before and all(torch.equal(value, found[name]) for name, value in before.items())
    seal.save_pretrained(tmp_path / "adapter", adapter_export="adapter")
    loaded, pixels = SealForMultiLabel.from_pretrained(tmp_path / "adapter"), torch.randn(2, 3, 32, 32)
    seal.eval()
    torch.testing.assert_close(loaded(pixel_values=pixels).logits, seal(pixel_values=pixels).logits)


def test_colours_are_learned(tmp_path):
    seal = made(tmp_path, "cnn", "shared", dropout=0.0)
    rows = ImageRows(load_small().train, processor(), FlipAndCrop())
    trainer = train(seal, tmp_path / "run", rows=rows, loss_net_encoder="shared", max_steps=120, learning_rate=5e-3)
    first, last = (trainer.state.log_history[i]["task_loss"] for i in (0, -2))
    assert last < 0.5 * first


@pytest.mark.parametrize("network", ["shared", "separated", "stacked"])
def test_a_cost_augmented_network_reads_what_the_head_reads(tmp_path, network):
    seal = made(tmp_path, "dinov2", "shared")
    options = dict(energy_loss="infnet_plus", cost_augmented_network=network, loss_net_encoder="shared")
    trainer = train(seal, tmp_path / "run", **options)
    (extension,) = trainer.extensions
    if network == "shared":
        assert extension.net.layer.in_features == shared_size(trainer.model) == 32


def test_a_plain_model_gets_a_loss_net(tmp_path, caplog):
    torch.manual_seed(0)
    model = AutoModelForImageClassification.from_config(tiny_config("convnext", **LABELLED))
    with caplog.at_level(logging.WARNING):
        trainer = train(model, tmp_path)
    assert "built a fresh loss-net" in caplog.text and trainer.loss_net.config.feature_size == 16
    shared = SealForMultiLabel.from_task_net(model, loss_net_encoder="shared")
    assert shared.loss_net.config.feature_size == 16


def test_the_bias_of_a_fresh_head_starts_at_the_labels_rates(tmp_path):
    data = load_small()
    for seal in (
        SealForMultiLabel.for_data(data, saved_encoder(tmp_path / "vit", "vit"), loss_net_encoder="shared"),
        SealForMultiLabel.for_data(data),
    ):
        expected = torch.logit(torch.as_tensor(data.label_rates)).float()
        torch.testing.assert_close(seal.task_net.classifier.bias.detach(), expected)
        assert list(seal.config.id2label.values()) == data.label_names


# --- mistakes --------------------------------------------------------------------------------------------------------


def message_of(make):
    with pytest.raises(ValueError) as error:
        make()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_processor_of_another_size_is_one_line_before_training(tmp_path):
    rows = ImageRows(table(8), processor(24))
    seal = made(tmp_path, "vit", "shared")
    message = message_of(lambda: train(seal, tmp_path / "run", rows=rows, loss_net_encoder="shared"))
    assert "ViTForImageClassification does not read what the image processor gives, images of 24 x 24" in message
    assert "Use the image processor of this model, or set its size" in message
    seal.processor = processor(24)
    assert "images of 24 x 24 pixels" in message_of(lambda: seal.predict(list(squares(1)[0])))


def test_a_net_of_one_channel_is_one_line(tmp_path):
    seal = SealForMultiLabel.from_task_net(
        AutoModelForImageClassification.from_config(tiny_config("vit", num_channels=1, **LABELLED)),
        loss_net_encoder="shared",
    )
    message = message_of(lambda: train(seal, tmp_path, loss_net_encoder="shared"))
    assert "images of 16 x 16 pixels with 3 channels" in message


def test_data_and_model_of_other_kinds_are_one_line(tmp_path):
    from datasets import Dataset
    from tiny_models import tiny_config as text_config
    from transformers import AutoModel

    AutoModel.from_config(text_config("bert")).save_pretrained(tmp_path / "bert")
    vit = saved_encoder(tmp_path / "vit", "vit")
    texts = load_multilabel(Dataset.from_dict({"text": ["a", "b"] * 10, "labels": [["x"], ["y"]] * 10}))
    message = message_of(lambda: SealForMultiLabel.for_data(load_small(), str(tmp_path / "bert")))
    assert "a model of type 'bert' that reads texts, but 'data' is images. Give a model that reads images" in message
    assert "a model of type 'vit' that reads images" in message_of(lambda: SealForMultiLabel.for_data(texts, vit))
    message = message_of(lambda: SealForMultiLabel.for_data(load_small(), loss_net_encoder="peft"))
    assert "its convolutional net has no pretrained base to adapt" in message
    message = message_of(lambda: SealForMultiLabel.for_data(load_small(), num_layers=3))
    assert "`num_layers` is for an MLP, but 'data' is images" in message
    message = message_of(lambda: SealForMultiLabel.for_data(load_small(), vit, long_texts="windows"))
    assert "`long_texts` is for texts, but 'data' is images" in message


def test_what_is_kept_of_texts_alone_is_refused(tmp_path):
    seal = made(tmp_path, "vit", "separate")
    message = message_of(lambda: train(seal, tmp_path / "a", loss_net_feature_cache=str(tmp_path / "cache")))
    assert "`loss_net_feature_cache` keeps the features of texts, but `train_dataset` holds images" in message
    message = message_of(lambda: train(seal, tmp_path / "b", freeze_encoder=True))
    assert "`freeze_encoder` is True, but ViTForImageClassification has no token encoder" in message


def test_predict_needs_images_or_inputs(tmp_path):
    seal = made(tmp_path, "vit", "shared")
    assert "neither `images` nor inputs are given" in message_of(seal.predict)
    torch.manual_seed(0)
    pixels = torch.rand(2, 3, SIZE, SIZE)
    probabilities, decisions = seal.predict(pixel_values=pixels)
    assert probabilities.shape == decisions.shape == (2, 4)
    assert isinstance(seal.task_net.classifier, nn.Linear)
    for one in ("a.png", squares(1)[0][0]):
        assert "expected a list of images, such as" in message_of(lambda one=one: seal.predict(one))
    empty, _ = seal.predict([])
    assert empty.shape == (0, 4)


def test_rows_prepared_by_the_user_are_taken_as_they_are(tmp_path):
    """A `datasets.Dataset` whose transform calls the processor: the Trainer's own collator makes the batches."""
    reader = processor()

    def transform(rows):
        pixels = reader([image.convert("RGB") for image in rows["image"]], return_tensors="pt")["pixel_values"]
        return {"pixel_values": pixels, "labels": [torch.tensor(row) for row in rows["labels"]]}

    prepared = tiny_images.table(32).with_transform(transform)
    seal = made(tmp_path, "vit", "shared")
    args = tiny_arguments(tmp_path / "run", **FAST, loss_net_encoder="shared", remove_unused_columns=False)
    trainer = SealTrainer(seal, args, train_dataset=prepared, eval_dataset=prepared)
    trainer.train()
    assert trainer.state.global_step == 6
