"""Energy networks of masks on their own. Oracles: inference written out by crop, scores, uninterrupted runs."""

import numpy as np
import pytest
import tiny_masks
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tiny_masks import LABELS, energy_network, squares
from tiny_run import StopAt
from transformers import SegformerConfig, SegformerForSemanticSegmentation
from transformers.trainer_callback import PrinterCallback

from seal_hf import (
    BinaryMaskSpace,
    EnergyTrainer,
    EnergyTrainingArguments,
    GradientBasedInference,
    LossNet,
    LossNetConfig,
    MaskEnergyTrainer,
    MaskRows,
    load_energy_network,
    load_masks,
)
from seal_hf.metrics import mask_compute_metrics
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.masks.program import ENERGY_PROGRAM as mask_energy
from seal_hf.training.energy_trainer import DVN, POINTS, Problem

SPACE = BinaryMaskSpace()


def make(folder, net=None, rows=None, callbacks=None, **options):
    given = {name: options.pop(name) for name in ("task_net", "crop_size", "crop_offsets") if name in options}
    net, rows = net or energy_network(), rows if rows is not None else MaskRows(squares())
    defaults = dict(energy_method="dvn", inference_steps=2, inference_steps_eval=3, per_device_train_batch_size=8)
    quiet = dict(save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True, lr_scheduler_type="constant")
    args = EnergyTrainingArguments(output_dir=str(folder), **{**defaults, **quiet, "logging_steps": 1, **options})
    given |= dict(compute_metrics=mask_compute_metrics, callbacks=callbacks)
    trainer = MaskEnergyTrainer(net, args, train_dataset=rows, eval_dataset=rows, **given)
    trainer.remove_callback(PrinterCallback)
    return trainer


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def test_a_deep_value_network_learns_the_score_and_finds_the_masks(tmp_path):
    """Four small images. Started from zeros, half of the adversarial inferences from the gold, which is among its
    points and which it needs there: the papers' choice."""
    rows = MaskRows(squares(4, 8))
    options = dict(inference_steps=4, inference_steps_eval=20, inference_learning_rate=0.3, learning_rate=1e-3)
    trainer = make(tmp_path, rows=rows, max_steps=60, per_device_train_batch_size=4, **options)
    assert trainer.inference.start == "zeros"
    before = trainer.evaluate()["eval_mean_iou"]
    trainer.train()
    assert before < 0.5 and trainer.evaluate()["eval_mean_iou"] > 0.75
    batch = rows.batch(range(4))
    gold, mask = SPACE.gold(batch["labels"])
    generator = torch.Generator().manual_seed(0)
    flips = (torch.rand(4, 3, 8, 8, generator=generator) < torch.tensor([0.1, 0.3, 0.5]).view(3, 1, 1)).float()
    y = torch.cat([gold.unsqueeze(1), (gold.unsqueeze(1) - flips).abs()], 1)
    with torch.no_grad():
        value = torch.sigmoid(-trainer.model.eval()(y, mask, {"pixel_values": batch["pixel_values"]}))
    assert torch.equal(value.argmax(1), torch.zeros(4, dtype=torch.long)) and (value[:, 0] > 0.6).all()
    assert (value - SPACE.score(y, gold, mask)).abs().mean() < 0.25


# --- a deep value network's points -----------------------------------------------------------------------------------


def iou(y, gold, counts):
    """Soft IoU of one mask, pixel by pixel."""
    pairs = [(float(a), float(b)) for a, b, c in zip(y.flatten(), gold.flatten(), counts.flatten(), strict=True) if c]
    return sum(min(pair) for pair in pairs) / sum(max(pair) for pair in pairs)


def points(gold_starts=0.0, steps=2, rows=16):
    """The row of candidates of a method with all further points; and what inference starts from."""
    net, batch = energy_network().eval(), MaskRows(squares(rows)).batch(range(rows))
    method = DVN(GradientBasedInference(steps, 0.3), points=list(POINTS), gold_starts=gold_starts)
    energy = lambda y: net.energies(batch["pixel_values"], y, batch["labels"] != 255)  # noqa: E731
    starts = torch.rand(rows, 1, 16, 16, generator=torch.Generator().manual_seed(3))
    problem = Problem(SPACE, energy, batch["labels"], starts, None, torch.Generator().manual_seed(0))
    return method.candidates(problem), starts, *SPACE.gold(batch["labels"])


def test_further_points_are_what_they_say_with_their_exact_scores():
    row, starts, gold, counts = points()
    found, own, adversarial, start, other, flipped, mixed = row.y.unbind(1)
    assert torch.equal(own, gold) and torch.equal(start, starts[:, 0]) and torch.equal(other, gold.roll(1, 0))
    assert not torch.equal(found, start) and not torch.equal(adversarial, found)
    flips = (flipped - gold).abs()
    assert set(flips.unique().tolist()) == {0.0, 1.0}
    rates = flips.mean((1, 2))  # uniform in [0, 1/2], one for each row
    assert 0.1 < rates.mean() < 0.4 and rates.std() > 0.05
    share = ((mixed - other)[gold != other] / (gold - other)[gold != other]).sort().values
    assert (mixed[gold == other] == gold[gold == other]).all() and share.min() >= 0 and share.max() <= 1
    assert len((share * 1e4).round().unique()) <= 16 < len(share)  # one of each row, not one of each pixel
    expected = [[iou(y, gold[i], counts[i]) for y in row.y[i]] for i in range(len(gold))]
    torch.testing.assert_close(row.score, torch.tensor(expected))
    assert (row.score[:, 1] == 1).all() and (row.score[:, 4:] < 1).any(0).all()


def test_flipped_pixels_hang_together():
    """Two neighbours are flipped together more often than two that are far apart."""
    flips = SPACE.flip(torch.zeros(200, 24, 24), torch.Generator().manual_seed(0))[:, 0]
    rate = flips.mean((1, 2), keepdim=True)
    spread = (flips - rate) / (rate * (1 - rate)).sqrt().clamp_min(0.1)
    near, far = (spread[:, :, d:] * spread[:, :, :-d] for d in (1, 20))
    assert near.mean() > 0.5 and abs(far.mean()) < 0.1


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0, None])
def test_adversarial_inference_starts_from_the_gold_in_a_share_of_the_rows(share):
    row, starts, gold, _ = points(share, steps=0)  # no step: what is found is the start
    found, _, adversarial, *_ = row.y.unbind(1)
    assert torch.equal(found, starts[:, 0])
    from_gold = torch.tensor([torch.equal(a, b) for a, b in zip(adversarial, gold, strict=True)])
    assert torch.equal(adversarial[~from_gold], starts[~from_gold, 0])
    assert from_gold.float().mean() == pytest.approx(0.5 if share is None else share, abs=0 if share in (0, 1) else 0.3)


def test_the_loss_is_the_regression_on_the_scores_of_the_pixels_that_count(tmp_path):
    """With pixels of 255; dropout, off while points are sought, is on in the loss."""
    net, batch = energy_network(dropout=0.0), MaskRows(squares(8)).batch(range(8))
    trainer = make(tmp_path, net, dvn_points=["other_gold"], dvn_gold_starts=0.0)
    infer, starts, (gold, counts) = trainer.method.inference, torch.zeros(8, 1, 16, 16), SPACE.gold(batch["labels"])
    assert not counts.all()
    energy = lambda y: net(y.where(counts.unsqueeze(1), 0), None, {"pixel_values": batch["pixel_values"]})  # noqa: E731

    def value(y):
        overlap, union = (f(y, gold.unsqueeze(1)) * counts.unsqueeze(1) for f in (torch.minimum, torch.maximum))
        score = overlap.sum((2, 3)) / union.sum((2, 3))
        return F.binary_cross_entropy_with_logits(-energy(y), score.detach(), reduction="none")

    row = [infer(energy, starts)[0], gold.unsqueeze(1), infer(lambda y: -value(y), starts)[0]]
    row.append(gold.roll(1, 0).unsqueeze(1))
    torch.testing.assert_close(trainer.compute_loss(net, batch), value(torch.cat(row, 1)).sum(1).mean())
    energies = energy(torch.cat(row, 1)).mean(0)
    assert trainer.meters.drain() == pytest.approx(
        {"energy_output": energies[0].item(), "energy_gold": energies[1].item(),
         "energy_adversarial": energies[2].item(), "energy_points": energies[3].item()}, abs=1e-4,
    )  # fmt: skip


def test_dropout_is_off_while_points_are_sought_and_on_in_the_loss(tmp_path):
    net, batch = energy_network(dropout=0.9).train(), MaskRows(squares(8)).batch(range(8))
    trainer, modes = make(tmp_path, net), []
    net.energy.linear[2].register_forward_hook(lambda module, *_: modes.append(module.training))
    trainer.compute_loss(net, batch)
    assert modes == [False] * 6 + [True]  # two inferences of two steps, and one forward of the row
    assert all(module.training for module in net.modules())


@pytest.mark.long
def test_a_deep_value_network_ranks_the_gold_of_an_image_above_that_of_another(tmp_path):
    """On the embedded digits: it reads the image, not the look of a mask. Without inference, which costs the most."""
    data, net = load_masks(image_size=24), energy_network(dropout=0.0, width=64)
    options = dict(inference_steps=0, learning_rate=1e-3, max_steps=70)
    trained = MaskRows(data.train.take(slice(24)))
    make(tmp_path, net, trained, dvn_points=["other_gold", "flipped_gold"], **options).train()
    for rows, least in ((trained, 0.9), (MaskRows(data.validation), 0.75)):
        batch = rows.batch(range(len(rows)))
        gold, _ = SPACE.gold(batch["labels"])
        with torch.no_grad():
            pairs = torch.stack([gold, gold.roll(1, 0)], 1)
            value = torch.sigmoid(-net.eval()(pairs, None, {"pixel_values": batch["pixel_values"]}))
        assert (value[:, 0] > value[:, 1]).float().mean() > least


# --- training and prediction -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["spen", "nce", "ranking", "regression_s"])
def test_every_method_trains_on_crops(tmp_path, method):
    net, rows = energy_network(), MaskRows(squares(), 12)
    before = weights(net)
    options = dict(task_net=tiny_masks.model().task_net, num_samples=3, bf16=method == "nce", margin_cost="iou")
    trainer = make(tmp_path, net, rows, energy_method=method, max_steps=2, **options)
    trainer.train()
    assert (weights(net) != before).float().mean() > 0.3
    assert all(np.isfinite(log["loss"]) for log in trainer.state.log_history if "loss" in log)
    assert trainer.predict(rows).predictions.shape == (16, 12, 12)


def test_predictions_are_inferred_on_crops_and_averaged(tmp_path):
    trainer = make(tmp_path, crop_size=12, crop_offsets=(0, 1, 4))
    net, images = trainer.model.eval(), trainer.eval_dataset.batch(range(16))["pixel_values"]
    total, count = torch.zeros(16, 16, 16), torch.zeros(16, 16)
    for i in (0, 1, 4):
        for j in (0, 1, 4):
            crop = images[..., i : i + 12, j : j + 12]
            energy = lambda y: net(y, None, {"pixel_values": crop})  # noqa: B023, E731
            y, _ = GradientBasedInference(3)(energy, torch.zeros(16, 1, 12, 12))
            total[:, i : i + 12, j : j + 12] += y[:, 0]
            count[i : i + 12, j : j + 12] += 1
    found = torch.sigmoid(torch.from_numpy(trainer.predict(trainer.eval_dataset).predictions))
    torch.testing.assert_close(found, total / count, rtol=0, atol=1e-5)


def test_whole_images_are_inferred_as_by_the_energy_trainer(tmp_path):
    trainer = make(tmp_path)
    plain = EnergyTrainer(trainer.model, trainer.args, eval_dataset=trainer.eval_dataset)
    expected = plain.predict(trainer.eval_dataset).predictions
    assert np.array_equal(trainer.predict(trainer.eval_dataset).predictions, expected)
    covered = make(tmp_path, trainer.model, crop_size=16)
    assert np.array_equal(covered.predict(trainer.eval_dataset).predictions, expected)


def test_inference_starts_from_a_task_net_of_another_resolution(tmp_path):
    torch.manual_seed(0)
    sizes = dict(hidden_sizes=[8] * 4, decoder_hidden_size=16, depths=[1] * 4, num_attention_heads=[1] * 4)
    task_net = SegformerForSemanticSegmentation(SegformerConfig(**sizes, **LABELS)).eval()
    rows = MaskRows(squares(4, 32))
    trainer = make(tmp_path, rows=rows, task_net=task_net, inference_start="task_net", inference_steps_eval=0)
    with torch.no_grad():
        logits = task_net(rows.batch(range(4))["pixel_values"]).logits
    expected = F.interpolate(logits, (32, 32), mode="bilinear").softmax(1)[:, 1]
    found = torch.sigmoid(torch.from_numpy(trainer.predict(rows).predictions))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    trainer.args.max_steps = 1
    assert np.isfinite(trainer.train().training_loss)


def test_resumed_equals_uninterrupted_to_the_bit(tmp_path):
    def train(folder, resume=None, stop=None, seed=0):
        torch.manual_seed(seed)
        rows = MaskRows(squares(), 12)
        callbacks = [StopAt(stop)] if stop else []
        options = dict(inference_start="random", num_train_epochs=3, save_strategy="steps", save_steps=3)
        options |= dict(dvn_points=["flipped_gold", "mixed_gold"], dvn_gold_starts=0.5)
        trainer = make(folder, rows=rows, callbacks=callbacks, **options)
        trainer.train(resume_from_checkpoint=resume)
        return weights(trainer.model)

    whole = train(tmp_path / "whole")
    train(tmp_path / "part", stop=3)
    assert torch.equal(train(tmp_path / "part", resume=True, seed=9), whole)


def test_a_saved_network_reloads_with_equal_energies(tmp_path):
    trainer = make(tmp_path, max_steps=1)
    trainer.train()
    trainer.save_model()
    y, inputs = torch.rand(2, 3, 16, 16), {"pixel_values": torch.rand(2, 3, 16, 16)}
    with torch.no_grad():
        assert torch.equal(load_energy_network(tmp_path)(y, None, inputs), trainer.model.eval()(y, None, inputs))


def test_the_example_trains_and_its_network_teaches_a_task_net(tmp_path, capsys):
    """SEAL-static from a deep value network, by the two programs."""
    for split in ("train", "val", "test"):
        rows = squares(4)
        np.savez(tmp_path / f"squares_{split}.npz", images=rows.images, masks=rows.masks)
    quiet = "--use_cpu --num_train_epochs 1 --save_strategy no --report_to none --crop_size 12 --disable_tqdm true"
    quiet = [*quiet.split(), "--report", "false", "--eval_strategy", "no", "--dataset", str(tmp_path), "--output_dir"]
    few = ["--inference_steps", "2", "--inference_steps_eval", "2"]
    metrics = mask_energy.main([*quiet, str(tmp_path / "dvn"), *few, "--crop_offsets", "0", "4"])
    assert 0 <= metrics["test_mean_iou"] <= 1 and "mean IoU at 0.5" in capsys.readouterr().out
    assert 0 < metrics["test_mean_mask_iou"] <= 1
    names = {path.name for path in (tmp_path / "dvn").iterdir()}
    assert {"all_results.json", "_predictions_test.npz", "model.safetensors", "preprocessor_config.json"} <= names

    static = ["--loss", "regression", "--loss_net_path", str(tmp_path / "dvn"), "--loss_net_steps", "0"]
    static += ["--load_best_model_at_end", "false"]
    segmentation.main([*quiet, str(tmp_path / "static"), *static])
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("dvn", "static/_loss_net"))
    assert all(torch.equal(after[name], value) for name, value in before.items())

    from_task_net = ["--energy_method", "spen", "--task_net_path", str(tmp_path / "static")]
    metrics = mask_energy.main([*quiet, str(tmp_path / "spen"), *few, *from_task_net])
    assert 0 <= metrics["test_mean_iou"] <= 1
    with pytest.raises(ValueError, match=r"`crop_offsets` is \[0, 8\], which .* Give for example \[0, 4\]"):
        mask_energy.main([*quiet, str(tmp_path / "x"), *few, "--crop_offsets", "0", "8"])
    with pytest.raises(
        ValueError, match="energy_method='nce' needs .* SealForSegmentation.* to seal-hf train mask-energy"
    ):
        mask_energy.main([*quiet, str(tmp_path / "x"), "--energy_method", "nce"])


def test_tag_sequences_are_refused(tmp_path):
    tags = LossNet(LossNetConfig(space="tag_sequence", energy="chain", encoder_mode="shared", num_labels=5))
    tags.config.encoder_mode = "separate"
    with pytest.raises(ValueError, match="'tag_sequence' outputs.* label sets and masks"):
        make(tmp_path, tags)
