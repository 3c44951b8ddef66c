"""Samples of masks from perturbed inputs. Oracles: the task-net's own thresholded output, statistics of the noise."""

import pytest
import tiny_masks
import torch
from tiny_masks import LABELS, make, squares
from torch import nn
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from seal_hf import BinaryMaskSpace, LossNet, LossNetConfig, MaskRows, SealForSegmentation
from seal_hf.core.tensors import perturbed
from seal_hf.energy_losses import Ranking
from seal_hf.utils.modules import keeping_statistics

INPUTS = dict(loss="ranking", sample_coherence="inputs", num_samples=5, max_steps=1, accumulation=2, batch=4)


def seen(trainer, monkeypatch):
    """The candidates of every micro-batch of a run."""
    rows, candidates = [], Ranking.candidates
    noting = lambda *args, **kwargs: [rows.append(candidates(*args, **kwargs)), rows[-1]][1]  # noqa: E731
    monkeypatch.setattr(Ranking, "candidates", noting)
    trainer.train()
    return rows


@pytest.mark.parametrize("std", [0.0, 1.0])
def test_samples_are_the_thresholded_output_at_noisy_inputs(tmp_path, monkeypatch, std):
    """Without noise, and without dropout, all of them the output itself; with noise, masks that differ from it."""
    nets, split = tiny_masks.model(), squares(8)
    with torch.no_grad():
        logits = nets.task_net(MaskRows(split).batch(range(8))["pixel_values"]).logits
        nets.task_net.scores[0].bias[1] -= (logits[:, 1] - logits[:, 0]).median()  # some pixels of each, on average
    trainer, _ = make(tmp_path, nets, MaskRows(split), input_noise_std=std, **INPUTS)
    rows = seen(trainer, monkeypatch)
    assert len(rows) == 2  # micro-batches
    for row in rows:
        output, samples = row.y[:, :1], row.y[:, 2:]
        assert samples.shape == (4, 5, 16, 16) and torch.equal(samples, samples.round())
        own = (output >= 0.5).float()
        if std == 0:
            clear = ((output - 0.5).abs() > 1e-5).expand_as(samples)  # from the last bit of another batch size
            assert torch.equal(samples[clear], own.expand_as(samples)[clear]) and 0.1 < own[clear[:, :1]].mean() < 0.9
        else:
            assert (samples != own).flatten(2).any(2).float().mean() > 0.9
            assert (samples[:, 0] != samples[:, 1]).any() and (samples != own).float().mean() < 0.5


def test_dropout_of_the_task_net_makes_samples_differ_and_logits_are_scaled_up(tmp_path, monkeypatch):
    """Of a SegFormer: logits at a quarter of the size, batch normalisation, whose statistics are those of the steps."""
    torch.manual_seed(0)
    sizes = dict(hidden_sizes=[8] * 4, decoder_hidden_size=16, depths=[1] * 4, num_attention_heads=[1] * 4)
    loss_net = LossNet(LossNetConfig(space="binary_mask", energy="grid", num_labels=2, **LABELS))
    states = []
    for loss, options in (("ce", {}), ("ranking", dict(sample_coherence="inputs", input_noise_std=0.0))):
        torch.manual_seed(1)
        config = SegformerConfig(**sizes, classifier_dropout_prob=0.5 if loss == "ranking" else 0.0, **LABELS)
        nets = SealForSegmentation(SegformerForSemanticSegmentation(config), loss_net)
        trainer, _ = make(
            tmp_path, nets, MaskRows(squares(4, 32)), batch=4, max_steps=1, num_samples=5, loss=loss, **options
        )
        if loss == "ranking":
            (row,) = seen(trainer, monkeypatch)
            samples = row.y[:, 2:]
            assert samples.shape == (4, 5, 32, 32) and (samples[:, 0] != samples[:, 1]).any()
        else:
            trainer.train()
        states.append(dict(nets.task_net.named_buffers()))
    assert any(name.endswith("num_batches_tracked") for name in states[0])
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


@pytest.mark.parametrize("options", [{"accumulation": 3}, {"loss_net_steps": 2}])
def test_the_loss_nets_phase_leaves_batch_statistics_to_the_task_nets(tmp_path, options):
    """As often as without a loss-net: once for each micro-batch."""
    torch.manual_seed(0)
    sizes = dict(hidden_sizes=[8] * 4, decoder_hidden_size=16, depths=[1] * 4, num_attention_heads=[1] * 4)
    loss_net = LossNet(LossNetConfig(space="binary_mask", energy="grid", num_labels=2, **LABELS))
    nets = SealForSegmentation(SegformerForSemanticSegmentation(SegformerConfig(**sizes, **LABELS)), loss_net)
    rows = MaskRows(squares(6, 32))
    trainer, _ = make(tmp_path, nets, rows, batch=2, max_steps=1, loss="regression", **options)
    trainer.train()
    (count,) = (value for name, value in nets.task_net.named_buffers() if name.endswith("num_batches_tracked"))
    assert count == options.get("accumulation", 1)


def test_noise_is_gaussian_in_floating_point_inputs_alone():
    inputs = {"pixel_values": torch.rand(3, 3, 40, 40), "rows": torch.arange(3)}
    found = perturbed(inputs, 4, 0.2, torch.Generator().manual_seed(0))
    assert found["rows"].tolist() == [0] * 4 + [1] * 4 + [2] * 4  # copies of one input side by side
    noise = found["pixel_values"].unflatten(0, (3, 4)) - inputs["pixel_values"].unsqueeze(1)
    assert noise.std(dim=(2, 3, 4)).sub(0.2).abs().max() < 0.01 and noise.mean().abs() < 0.01
    again = perturbed(inputs, 4, 0.2, torch.Generator().manual_seed(0))
    assert torch.equal(again["pixel_values"], found["pixel_values"])


def test_batch_statistics_are_used_and_not_kept():
    x = torch.randn(8, 2) + 3
    for momentum in (0.1, None):  # None: the mean over all batches, by their number
        layer, other = nn.BatchNorm1d(2, momentum=momentum), nn.BatchNorm1d(2, momentum=momentum)
        with keeping_statistics(layer):
            assert layer(x).mean().abs() < 1e-5  # by the statistics of the batch
        assert layer.running_mean.tolist() == [0, 0] and layer.momentum == momentum
        assert layer.num_batches_tracked == 0 and "num_batches_tracked" in layer.state_dict()
        for net in (layer, other):
            net(x + 1)
        assert all(torch.equal(value, other.state_dict()[name]) for name, value in layer.state_dict().items())
    with keeping_statistics(nn.BatchNorm1d(2, track_running_stats=False)) as layer:
        assert layer(x).mean().abs() < 1e-5


def test_there_is_no_probability():
    space = BinaryMaskSpace(sample_coherence="inputs")
    with pytest.raises(ValueError, match="sample_coherence='inputs' have no closed-form probability"):
        space.log_noise(torch.zeros(1, 4, 4), torch.zeros(1, 2, 4, 4))
    with pytest.raises(ValueError, match="needs the task-net"):
        space.sample(torch.zeros(1, 4, 4), 2, torch.Generator())
