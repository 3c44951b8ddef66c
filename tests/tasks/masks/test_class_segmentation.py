"""Masks of several classes in the trainer. Oracles: uninterrupted and whole-batch runs, cross-entropy by its
definition, Hugging Face's own heads and pipeline, the task-net's own logits."""

import json

import numpy as np
import pytest
import tiny_class_masks as tiny
import tiny_masks
import torch
from launching import without_seal_hf
from tiny_class_masks import LABELS, NAMES, make, shapes
from tiny_masks import pixel_loss
from tiny_run import StopAt, parameters
from transformers import (
    AutoImageProcessor,
    Mask2FormerConfig,
    Mask2FormerForUniversalSegmentation,
    SwinConfig,
    UperNetConfig,
    UperNetForSemanticSegmentation,
    pipeline,
)

from seal_hf import (
    FCNConfig,
    FCNForSemanticSegmentation,
    MaskRows,
    SealForSegmentation,
    SealTrainer,
    fcn_image_processor,
    load_masks,
)
from seal_hf.metrics import class_mask_metrics, mask_compute_metrics

LOSSES = {
    "ce": dict(loss="ce"),
    "ce, balanced": dict(loss="ce", class_weight="balanced", task_loss="lovasz"),
    "regression": dict(loss="regression", task_loss="soft_iou"),
    "regression_s": dict(loss="regression_s", task_loss="dice"),
    "margin": dict(loss="margin", margin_cost="iou"),
    "infnet": dict(loss="infnet"),
    "infnet_plus": dict(loss="infnet_plus"),
    "infnet_plus, separated": dict(loss="infnet_plus", cost_augmented_network="separated"),
    "nce": dict(loss="nce", gold_mix=0.3),
    "ranking, field": dict(loss="ranking", sample_coherence="field"),
    "nce, patches": dict(loss="nce", sample_coherence="patches", coherence_size=2, independent_share=0.5),
    "ranking, inputs": dict(loss="ranking", sample_coherence="inputs", distinct_samples=True),
    "contrastive divergence": dict(loss="contrastive_divergence"),
    "implicit": dict(
        loss="regression", hypergradient="cg", hypergradient_damping=1.0, hypergradient_parameters="scores|upsample"
    ),
    "bf16": dict(loss="regression_s", bf16=True),
}


def train(folder, resume=None, stop=None, seed=0, **options):
    """All parameters of both nets, and the trainer."""
    torch.manual_seed(seed)
    rows = MaskRows(shapes(), tiny_masks.CROP)
    callbacks = [StopAt(stop)] if stop else []
    trainer, nets = make(folder, rows=rows, callbacks=callbacks, **options)
    trainer.train(resume_from_checkpoint=resume)
    return parameters(nets), trainer


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", LOSSES)
def test_every_loss_trains_both_nets(tmp_path, case):
    nets, rows = tiny.model(), MaskRows(shapes(), tiny_masks.CROP)
    before, start = pixel_loss(nets, rows), parameters(nets)
    trainer, _ = make(tmp_path, nets, rows, num_train_epochs=3, **LOSSES[case])
    assert trainer.space.name == "masks"
    trainer.train()
    assert pixel_loss(nets, rows) < before - 0.02
    moved = (parameters(nets) != start).tensor_split([sum(p.numel() for p in nets.task_net.parameters())])
    logged = [log for log in trainer.state.log_history if "loss" in log]
    assert all(np.isfinite(list(log.values())).all() for log in logged)
    assert moved[0].float().mean() > 0.7  # but for what a dead ReLU holds
    assert moved[1].float().mean() > 0.3 if trainer.energy_loss else not moved[1].any()


@pytest.mark.parametrize(
    "options",
    [
        dict(loss="nce", sample_coherence="patches", independent_share=0.5, loss_net_steps=2),
        dict(loss="regression_s", accumulation=2, batch=4, batch_repeats=2),
    ],
    ids=["patches", "accumulation, repeats"],
)
def test_resumed_equals_uninterrupted_to_the_bit(tmp_path, options):
    whole, done = train(tmp_path / "whole", num_train_epochs=3, **options)
    train(tmp_path / "part", stop=3, save_strategy="steps", save_steps=3, num_train_epochs=3, **options)
    resumed, trainer = train(tmp_path / "part", resume=True, seed=9, num_train_epochs=3, **options)
    assert torch.equal(resumed, whole) and trainer.state.global_step == done.state.global_step > 3


def test_decoded_predictions_have_the_figures_of_the_logits(tmp_path):
    rows = MaskRows(shapes(8))
    trainer, nets = make(tmp_path, rows=rows, loss="ce")
    decoded = SealTrainer(nets, trainer.args, eval_dataset=rows, decode_predictions=True)
    for each in (trainer, decoded):
        each.compute_metrics = mask_compute_metrics
    found, expected = (each.predict(rows) for each in (decoded, trainer))
    assert expected.predictions.shape == (8, 3, 16, 16)
    assert np.array_equal(found.predictions, expected.predictions.argmax(1))
    assert found.metrics["test_mean_iou"] == expected.metrics["test_mean_iou"]
    figures = class_mask_metrics(found.predictions, shapes(8).masks)
    assert {name: found.metrics[f"test_{name}"] for name in figures} == pytest.approx(figures)
    assert trainer.fit_decisions().as_json() == {"decoder": "fixed"}


# --- saved and loaded ------------------------------------------------------------------------------------------------


def test_both_nets_are_saved_loaded_and_predict(tmp_path):
    _, trainer = train(tmp_path / "run", loss="regression")
    trainer.processing_class = fcn_image_processor()
    trainer.save_model(str(tmp_path / "model"))
    loaded = SealForSegmentation.from_pretrained(tmp_path / "model")
    assert (loaded.space.name, loaded.loss_net.config.space, loaded.space.num_classes) == ("masks", "masks", 3)
    assert torch.equal(parameters(loaded), parameters(SealForSegmentation(trainer.model, trainer.loss_net)))
    images = torch.rand(2, 3, 20, 20)
    p, masks = loaded.predict(pixel_values=images)
    expected = trainer.model.eval()(images).logits.softmax(1)
    torch.testing.assert_close(p, expected)
    assert torch.equal(masks, expected.argmax(1))
    y = loaded.space.gold(masks)[0]
    with torch.no_grad():
        single = loaded.energy(y, pixel_values=images)
        torch.testing.assert_close(single, loaded.energy(torch.stack([y, p], 1), pixel_values=images)[:, 0])
    array = (255 * images[0]).permute(1, 2, 0).byte().numpy()
    (whole,), (mask,) = loaded.predict([array])
    assert whole.shape == (3, 20, 20) and torch.equal(mask, whole.argmax(0))
    with pytest.raises(ValueError, match="`decoder` is '0.3'; these decisions have fixed"):
        loaded.predict([array], decoder=0.3)


def test_the_saved_root_is_a_plain_model_for_pipelines_without_seal_hf(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="pipelines of images need pillow")
    segformer = tiny_masks.saved_segformer(tmp_path / "segformer", tiny.LABELS)
    nets, rows = SealForSegmentation.from_pretrained(segformer), MaskRows(shapes(8, 32))
    before = pixel_loss(nets, rows)
    trainer, _ = make(tmp_path / "run", nets, rows, loss="regression", num_train_epochs=2)
    trainer.train()
    assert pixel_loss(nets, rows) < before
    assert trainer.predict(rows).predictions.shape == (8, 3, 32, 32)  # from logits of a quarter of the size
    trainer.processing_class = AutoImageProcessor.from_pretrained(segformer)
    trainer.save_model()
    config = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "segformer" and config["id2label"] == {str(i): name for i, name in enumerate(NAMES)}

    def program():
        found = pipeline("image-segmentation", str(tmp_path / "run"), device="cpu")(Image.new("RGB", (32, 32)))
        assert {part["label"] for part in found} <= {"ground", "square", "stripe"} and found[0]["mask"].size == (32, 32)

    without_seal_hf(program)


def test_the_pipeline_gives_the_masks_of_predict(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="pipelines of images need pillow")
    _, trainer = train(tmp_path, loss="ce", num_train_epochs=6)
    trainer.processing_class = fcn_image_processor()
    trainer.save_model()
    image = shapes().images[1]
    parts = pipeline("image-segmentation", str(tmp_path), device="cpu")(Image.fromarray(image))
    _, (mask,) = SealForSegmentation.from_pretrained(tmp_path, with_loss_net=False).predict([image])
    assert len(parts) > 1
    for part in parts:
        assert np.array_equal(np.asarray(part["mask"]) == 255, mask.numpy() == NAMES.index(part["label"]))


# --- other models ----------------------------------------------------------------------------------------------------

SWIN = dict(image_size=32, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=2)


def test_an_upernet_trains(tmp_path):
    backbone = SwinConfig(**SWIN, out_features=["stage1", "stage2", "stage3", "stage4"])
    torch.manual_seed(0)
    net = UperNetForSemanticSegmentation(UperNetConfig(backbone_config=backbone, hidden_size=8, **LABELS))
    nets, rows = SealForSegmentation.from_task_net(net), MaskRows(shapes(8, 32))
    before = pixel_loss(nets, rows)
    make(tmp_path, nets, rows, loss="regression", num_train_epochs=3)[0].train()
    assert pixel_loss(nets, rows) < before


def test_a_model_without_a_logit_map_is_refused_by_name(tmp_path):
    config = Mask2FormerConfig(
        backbone_config=SwinConfig(**SWIN, out_features=["stage1", "stage2", "stage3", "stage4"]),
        hidden_dim=32, feature_size=32, mask_feature_size=32, encoder_layers=1, decoder_layers=2, num_queries=3,
        num_attention_heads=1, encoder_feedforward_dim=8, dim_feedforward=8, num_labels=3,
    )  # fmt: skip
    net = Mask2FormerForUniversalSegmentation(config)
    net.save_pretrained(tmp_path)
    said = "is a Mask2FormerForUniversalSegmentation, which gives a mask and a class for each of its queries"
    for refused in (
        lambda: SealForSegmentation.from_pretrained(tmp_path),
        lambda: SealForSegmentation.for_data(load_masks("digit_classes"), str(tmp_path)),
        lambda: SealForSegmentation.from_task_net(net),
        lambda: make(tmp_path / "run", net, loss="ce"),
    ):
        with pytest.raises(ValueError, match=said):
            refused()


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(loss="nce", sample_coherence="field"), "needs log P of its samples.*sample_coherence='field'"),
        (dict(task_loss="focal"), "`task_loss` is 'focal'; for masks it must be one of cross_entropy, soft_iou, dice"),
        (dict(dice_weight=-1.0), "`dice_weight` is -1.0"),
        (dict(decoder="threshold"), "`decoder` is 'threshold'; these decisions have fixed"),
        (dict(fold_decision=True), "masks of several classes are decided by the likeliest class, without a threshold"),
        (dict(pos_weight="balanced"), "`pos_weight` is set, but masks outputs do not support it"),
    ],
)
def test_what_masks_do_not_have_is_refused_by_name(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        make(tmp_path, **options)


def test_masks_beyond_the_classes_of_the_net_are_refused(tmp_path):
    split = shapes()
    split.masks[3, 5, 5] = 3
    with pytest.raises(ValueError, match="`labels` of `train_dataset` holds 3, but the masks have 3 classes"):
        make(tmp_path, rows=MaskRows(split))
    split.masks[3, 5, 5] = 2
    with pytest.raises(ValueError, match="`labels` of `train_dataset` holds [12], but the masks have 2 classes"):
        tiny_masks.make(tmp_path, rows=MaskRows(split))


def test_a_cost_augmented_network_has_no_features_of_masks_to_share(tmp_path):
    trainer, _ = make(tmp_path, loss="infnet_plus", cost_augmented_network="shared")
    with pytest.raises(ValueError, match="`cost_augmented_network` is 'shared', which reads one vector per input"):
        trainer.train()


def test_nets_that_do_not_go_together_are_refused(tmp_path):
    nets = tiny.model()
    nets.task_net = FCNForSemanticSegmentation(FCNConfig(hidden_sizes=(4, 4, 4), num_labels=4))
    with pytest.raises(ValueError, match="The loss-net has 3 labels, the task-net 4"):
        make(tmp_path, nets)
    grey = FCNForSemanticSegmentation(FCNConfig(num_channels=1, hidden_sizes=(4, 4, 4), num_labels=11))
    grey.save_pretrained(tmp_path / "grey")
    with pytest.raises(ValueError, match="grey reads images of 1 channels, but images are read in colour"):
        SealForSegmentation.for_data(load_masks("digit_classes"), str(tmp_path / "grey"))
    nets.task_net.config.decisions = {"decoder": "fixed"}
    with pytest.raises(ValueError, match="several classes are decided by the likeliest class"):
        nets.save_pretrained(tmp_path / "folded", fold_decision=True)


def test_an_energy_network_alone_is_refused_for_several_classes(tmp_path):
    from seal_hf import EnergyTrainingArguments, MaskEnergyTrainer

    args = EnergyTrainingArguments(str(tmp_path), use_cpu=True, report_to="none")
    with pytest.raises(ValueError, match="is for 'masks' outputs, .*fits label sets and masks of two classes"):
        MaskEnergyTrainer(tiny.model().loss_net, args)


@pytest.mark.parametrize(("first", "then"), [("digits", "digit_classes"), ("digit_classes", "digits")])
def test_a_saved_net_of_other_classes_begins_with_a_fresh_head_and_loss_net(first, then, tmp_path):
    SealForSegmentation.for_data(load_masks(first, max_train_rows=4)).save_pretrained(tmp_path)
    data = load_masks(then, max_train_rows=4)
    nets = SealForSegmentation.for_data(data, str(tmp_path))
    assert nets.task_net.config.num_labels == nets.loss_net.config.num_labels == len(data.label_names)
