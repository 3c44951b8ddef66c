"""SealForSegmentation in the trainer. Oracles: uninterrupted and whole-batch runs, cross-entropy by its definition,
Hugging Face's own SegFormer and pipeline."""

import json
import logging

import numpy as np
import pytest
import tiny_masks
import torch
from launching import without_seal_hf
from tiny_masks import LABELS, make, pixel_loss, squares
from tiny_run import StopAt, parameters
from transformers import AutoImageProcessor, pipeline

from seal_hf import (
    BinaryMaskSpace,
    FCNConfig,
    FCNForSemanticSegmentation,
    MaskRows,
    SealForSegmentation,
    SealTrainer,
    fcn_image_processor,
    load_masks,
    pixel_scaling,
)
from seal_hf.metrics import mask_compute_metrics

LOSSES = {
    "ce": dict(loss="ce"),
    "regression": dict(loss="regression"),
    "regression_s": dict(loss="regression_s"),
    "margin": dict(loss="margin", margin_cost="iou"),
    "infnet": dict(loss="infnet"),
    "nce": dict(loss="nce"),
    "ranking, field": dict(loss="ranking", sample_coherence="field"),
    "ranking, patches": dict(loss="ranking", sample_coherence="patches"),
    "nce, patches": dict(loss="nce", sample_coherence="patches", coherence_size=2, independent_share=0.5),
    "ranking, inputs": dict(loss="ranking", sample_coherence="inputs"),
    "implicit, inputs": dict(
        loss="contrastive_divergence",
        sample_coherence="inputs",
        hypergradient_parameters="scores|upsample",
        hypergradient="cg",
        hypergradient_damping=1.0,
    ),
    "contrastive divergence": dict(loss="contrastive_divergence"),
    "implicit": dict(
        loss="regression", hypergradient="cg", hypergradient_damping=1.0, hypergradient_parameters="scores|upsample"
    ),
    "bf16": dict(loss="regression_s", bf16=True),
}


def train(folder, resume=None, stop=None, seed=0, crops=True, **options):
    """All parameters of both nets, and the trainer."""
    torch.manual_seed(seed)
    rows = MaskRows(squares(), tiny_masks.CROP if crops else None)
    trainer, nets = make(folder, rows=rows, callbacks=[StopAt(stop)] if stop else [], **options)
    trainer.train(resume_from_checkpoint=resume)
    return parameters(nets), trainer


def test_the_baseline_of_soft_iou_trains_and_is_evaluated_on_both_its_terms(tmp_path):
    nets, rows = tiny_masks.model(), MaskRows(squares(8))
    options = dict(loss="ce", task_loss="soft_iou", soft_iou_weight=0.5, num_train_epochs=3)
    trainer, _ = make(tmp_path, nets, rows, **options)
    first = trainer.evaluate()["eval_loss"]
    trainer.train()
    gold, counts = BinaryMaskSpace().gold(rows.batch(range(len(rows)))["labels"])
    output = trainer.predict(rows)
    p = torch.sigmoid(torch.from_numpy(output.predictions)) * counts
    ratios = (p * gold).sum((1, 2)) / (p + gold - p * gold).sum((1, 2))
    expected = pixel_loss(nets, rows) + 0.5 * (1 - ratios).mean().item()
    assert output.metrics["test_loss"] == pytest.approx(expected, abs=1e-4) and expected < first - 0.02


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", LOSSES)
def test_every_loss_trains_both_nets(tmp_path, case):
    nets, rows = tiny_masks.model(), MaskRows(squares(), tiny_masks.CROP)
    before, start = pixel_loss(nets, rows), parameters(nets)
    trainer, _ = make(tmp_path, nets, rows, num_train_epochs=3, **LOSSES[case])
    trainer.train()
    assert pixel_loss(nets, rows) < before - 0.02
    of_task_net = sum(p.numel() for p in nets.task_net.parameters())
    moved = (parameters(nets) != start).tensor_split([of_task_net])
    logged = [log for log in trainer.state.log_history if "loss" in log]
    assert all(np.isfinite(list(log.values())).all() for log in logged)
    assert moved[0].float().mean() > 0.7  # but for what a dead ReLU holds
    if case == "ce":
        assert not moved[1].any() and "loss_net_loss" not in logged[0]
    else:
        assert moved[1].float().mean() > 0.3 and "loss_net_loss" in logged[0]


@pytest.mark.parametrize("loss", ["regression", "nce"])
def test_the_loss_net_lowers_its_loss(tmp_path, loss):
    """Beside a task-net that stands still, on the same candidates."""
    options = dict(loss=loss, learning_rate=0.0, batch=16, num_samples=4, num_train_epochs=12, margin_cost="l1_mean")
    _, trainer = train(tmp_path, crops=False, loss_net_learning_rate=3e-4, **options)
    losses = [log["loss_net_loss"] for log in trainer.state.log_history if "loss_net_loss" in log]
    assert np.mean(losses[-3:]) < np.mean(losses[:3]) - 0.01


@pytest.mark.parametrize(
    "options",
    [
        dict(loss="nce", sample_coherence="patches", independent_share=0.5, bf16=True, loss_net_steps=2),
        dict(loss="ranking", sample_coherence="inputs", loss_net_steps=2),
        dict(loss="regression_s", gradient_accumulation_steps=2, batch=4, batch_repeats=2),
    ],
    ids=["patches, bf16", "inputs", "accumulation, repeats"],
)
def test_resumed_equals_uninterrupted_to_the_bit(tmp_path, options):
    """With new crops in every epoch, dropout of the loss-net and samples."""
    accumulation = options.pop("gradient_accumulation_steps", 1)
    options = dict(accumulation=accumulation, num_train_epochs=3) | options
    whole, done = train(tmp_path / "whole", **options)
    train(tmp_path / "part", stop=3, save_strategy="steps", save_steps=3, **options)
    resumed, trainer = train(tmp_path / "part", resume=True, seed=9, **options)
    assert torch.equal(resumed, whole) and trainer.state.global_step == done.state.global_step > 3


@pytest.mark.parametrize(
    "options",
    [
        dict(pixel_loss="sum", learning_rate=1e-3),
        dict(pixel_loss="mean", learning_rate=0.1),
        dict(pixel_loss="mean", learning_rate=0.1, class_weight="balanced", task_loss="soft_iou"),
    ],
    ids=lambda options: "_".join(map(str, options.values())),
)
def test_accumulated_micro_batches_are_the_whole_batch(tmp_path, options):
    """Where nothing is drawn, by plain gradient descent. Some images have pixels that do not count."""
    options |= dict(loss="margin", optim="sgd", max_grad_norm=0.0, max_steps=3, crops=False)
    options |= dict(loss_net_max_grad_norm=0.0, loss_net_learning_rate=0.0)
    whole, _ = train(tmp_path / "whole", batch=16, **options)
    parts, _ = train(tmp_path / "parts", batch=4, accumulation=4, **options)
    torch.testing.assert_close(parts, whole, rtol=0, atol=2e-6)
    assert (whole - parameters(tiny_masks.model())).abs().max() > 1e-3


# --- saved and loaded ------------------------------------------------------------------------------------------------


def test_both_nets_are_saved_and_loaded(tmp_path, caplog):
    _, trainer = train(tmp_path / "run", loss="regression", save_strategy="steps", save_steps=2)
    trainer.save_model(str(tmp_path / "model"))
    nets = trainer.model
    saved = SealForSegmentation(nets, trainer.loss_net.eval())
    loaded = SealForSegmentation.from_pretrained(tmp_path / "model")
    assert torch.equal(parameters(loaded), parameters(saved))
    images, y = torch.rand(2, 3, 20, 20), torch.rand(2, 3, 20, 20)
    with torch.no_grad():
        assert torch.equal(loaded.energy(y, pixel_values=images), saved.energy(y, pixel_values=images))
        single = loaded.energy(y[:, 0], pixel_values=images)
        torch.testing.assert_close(single, loaded.energy(y, pixel_values=images)[:, 0])
    probabilities, masks = loaded.predict(pixel_values=images)
    expected = nets.eval()(images).logits.softmax(1)[:, 1]
    torch.testing.assert_close(probabilities, expected)
    assert torch.equal(masks, (expected >= 0.5).long())
    assert loaded.predict(decoder=1.0, pixel_values=images)[1].sum() == 0
    checkpoint = SealForSegmentation.from_pretrained(tmp_path / "run" / "checkpoint-4")
    assert torch.equal(parameters(checkpoint), parameters(loaded))

    nets.save_pretrained(tmp_path / "plain")
    with caplog.at_level(logging.WARNING):
        fresh = SealForSegmentation.from_pretrained(tmp_path / "plain")
    said = [
        record.getMessage() for record in caplog.records if record.name.startswith(("seal_hf.saving", "seal_hf.tasks"))
    ]
    assert said == [f"No _loss_net/ in {tmp_path / 'plain'}: built a fresh loss-net (encoder: separate)."]
    assert fresh.loss_net.config.id2label == LABELS["id2label"] and fresh.loss_net.encoder is None


# --- Hugging Face's segmentation models ------------------------------------------------------------------------------


@pytest.fixture
def segformer(tmp_path):
    return tiny_masks.saved_segformer(tmp_path / "segformer")


def test_a_segformer_trains_with_logits_of_a_quarter_of_the_size(tmp_path, segformer):
    nets = SealForSegmentation.from_pretrained(segformer)
    rows = MaskRows(squares(8, 32), None, mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    assert nets(**{"pixel_values": rows.batch([0])["pixel_values"]}).logits.shape == (1, 2, 8, 8)
    before = pixel_loss(nets, rows)
    trainer, _ = make(tmp_path / "run", nets, rows, loss="regression", num_train_epochs=3)
    trainer.compute_metrics = mask_compute_metrics
    trainer.train()
    assert pixel_loss(nets, rows) < before - 0.02
    figures, output = trainer.evaluate(), trainer.predict(rows)
    assert output.predictions.shape == (8, 32, 32) and 0 <= figures["eval_mean_iou"] <= 1
    assert figures["eval_loss"] == pytest.approx(pixel_loss(nets, rows), abs=1e-4)  # Hugging Face scales up the same
    probabilities, _ = nets.predict(pixel_values=rows.batch(range(8))["pixel_values"])
    torch.testing.assert_close(probabilities, torch.sigmoid(torch.from_numpy(output.predictions)))


def test_the_saved_root_is_a_plain_model_for_pipelines_without_seal_hf(tmp_path, segformer):
    Image = pytest.importorskip("PIL.Image", reason="pipelines of images need pillow")
    nets = SealForSegmentation.from_pretrained(segformer)
    trainer, _ = make(tmp_path / "run", nets, MaskRows(squares(8, 32)), loss="regression", max_steps=1)
    trainer.processing_class = AutoImageProcessor.from_pretrained(segformer)
    trainer.save_model()
    config = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "segformer" and config["id2label"] == {"0": "background", "1": "square"}

    def program():
        found = pipeline("image-segmentation", str(tmp_path / "run"), device="cpu")(Image.new("RGB", (32, 32)))
        assert {part["label"] for part in found} <= {"background", "square"} and found[0]["mask"].size == (32, 32)

    without_seal_hf(program)


def test_the_pipeline_runs_on_a_trained_fcn(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="pipelines of images need pillow")
    _, trainer = train(tmp_path, loss="ce", num_train_epochs=6)
    trainer.processing_class = fcn_image_processor()
    trainer.save_model()
    image, mask = squares().images[1], squares().masks[1] == 1
    parts = pipeline("image-segmentation", str(tmp_path), device="cpu")(Image.fromarray(image))
    (found,) = [part["mask"] for part in parts if part["label"] == "square"]
    assert ((np.asarray(found) == 255) == mask).mean() > 0.8


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(loss="infnet_plus"), "'infnet_plus' has no cost-augmented network for masks"),
        (dict(loss="nce", sample_coherence="field"), "needs log P of its samples.*sample_coherence='field'"),
        (dict(loss="nce", sample_coherence="patches", independent_share=0.0), "independent_share=0.0"),
        (dict(loss="regression", encoder="shared"), "`loss_net_encoder` is 'shared'"),
        (dict(loss="nce", sample_coherence="inputs"), "needs log P of its samples.*sample_coherence='inputs'"),
        (
            dict(loss="ranking", sample_coherence="inputs", gold_mix=0.5),
            "gold_mix=0.5 .* 'inputs'|gold_mix=0.5 changes",
        ),
        (dict(loss="regression_s", sample_coherence="inputs"), "regression_samples='discrete'"),
        (dict(loss="ranking", sample_coherence="inputs", input_noise_std=-1.0), "`input_noise_std` is -1.0"),
        (dict(pixel_loss="max"), "`pixel_loss` is 'max'; it must be one of sum, mean"),
        (dict(sample_coherence="smooth"), "`sample_coherence` is 'smooth'"),
        (dict(coherence_size=0), "`coherence_size` is 0"),
        (dict(independent_share=-0.5), "`independent_share` is -0.5"),
        (dict(independent_share=1.5), "`independent_share` is 1.5"),
        (dict(loss_net_gradient_checkpointing=True), "`loss_net_gradient_checkpointing`.*no encoder of its own"),
        (dict(loss_net_feature_cache="x"), "`loss_net_feature_cache`"),
        (
            dict(task_loss="zlpr"),
            "`task_loss` is 'zlpr'; for masks it must be one of cross_entropy, soft_iou, dice, lovasz",
        ),
        (dict(soft_iou_weight=-1.0), "`soft_iou_weight` is -1.0"),
        (dict(margin_cost="hamming"), "`margin_cost` is 'hamming'"),
    ],
)
def test_what_masks_do_not_have_is_refused_by_name(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        make(tmp_path, **options)


@pytest.mark.parametrize("mode", ["shared", "peft", "adapters"])
def test_no_other_encoder_is_built(tmp_path, mode):
    tiny_masks.model().task_net.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=f"`loss_net_encoder` is '{mode}', but the energy of masks"):
        SealForSegmentation.from_pretrained(tmp_path, loss_net_encoder=mode)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(energy="chain"), "`energy` is 'chain'; for binary_mask outputs it must be one of grid"),
        (dict(energy_options={"drop": 0.5}), "`energy_options` holds 'drop', .* 'grid' .* takes channels, dropout"),
    ],
)
def test_energies_and_options_that_masks_do_not_have_are_refused(tmp_path, options, message):
    tiny_masks.model().task_net.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        SealForSegmentation.from_pretrained(tmp_path, **options)
    with pytest.raises(ValueError, match=message):
        SealForSegmentation.for_data(load_masks(), **options)


def test_a_task_net_of_another_shape_is_refused(tmp_path):
    nets = tiny_masks.model()
    nets.task_net = FCNForSemanticSegmentation(FCNConfig(hidden_sizes=(4, 4, 4), num_labels=3))
    with pytest.raises(ValueError, match="The loss-net has 2 labels, the task-net 3"):
        make(tmp_path, nets)


def test_pixels_of_another_scale_than_the_image_processor_s_are_refused(tmp_path):
    processor = fcn_image_processor()
    options = {"args": tiny_masks.arguments(tmp_path), "processing_class": processor}
    plain = MaskRows(squares(), tiny_masks.CROP)
    SealTrainer(tiny_masks.model(), train_dataset=plain, eval_dataset=plain, **options)
    processor.do_normalize, processor.image_mean, processor.image_std = True, [0.5, 0.4, 0.3], [0.2] * 3
    scaled = MaskRows(squares(), tiny_masks.CROP, **pixel_scaling(processor))
    SealTrainer(tiny_masks.model(), train_dataset=scaled, eval_dataset=scaled, **options)
    with pytest.raises(ValueError, match=r"`eval_dataset` scales .* \{'mean': \[0.5, 0.4, 0.3\].*pixel_scaling"):
        SealTrainer(tiny_masks.model(), train_dataset=scaled, eval_dataset=plain, **options)
    with pytest.raises(ValueError, match=r"`eval_dataset\['b'\]` scales pixels"):
        SealTrainer(tiny_masks.model(), train_dataset=scaled, eval_dataset={"a": scaled, "b": plain}, **options)
    processor.image_mean, processor.image_std = np.array([0.5, 0.4, 0.3]), 0.2
    SealTrainer(tiny_masks.model(), train_dataset=scaled, eval_dataset=scaled, **options)

    class Own(MaskRows):
        def batch(self, indices):
            return super().batch(indices)  # a class that may scale by itself

    own = Own(squares(), tiny_masks.CROP)
    SealTrainer(tiny_masks.model(), train_dataset=own, eval_dataset=own, **options)
    processor.image_mean = None  # no scale that can be read
    SealTrainer(tiny_masks.model(), train_dataset=plain, eval_dataset=plain, **options)
