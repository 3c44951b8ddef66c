"""The convolutional energy: against the authors' form (image and mask stacked as channels), one candidate at a time,
and finite differences."""

import pytest
import torch
import torch.nn.functional as F

from seal_hf import LossNet, LossNetConfig
from seal_hf.core.energy import ENERGIES
from seal_hf.tasks.masks.energies import ClassGridEnergy, GridEnergy


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=[64, 8])
def energy(request):
    net = GridEnergy(width=request.param).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(0.05 * torch.randn(parameter.shape, generator=generator(parameter.numel())))
    return net


@pytest.fixture
def batch():
    x = torch.rand(2, 3, 24, 24, generator=generator(1))
    y = torch.rand(2, 3, 24, 24, generator=generator(2))
    return x, y


def stacked(net, x, y):
    """-v(x, y) of one mask per image as the authors write it: one convolution over four channels."""
    weight = torch.cat([net.from_image.weight, net.from_mask.weight], dim=1)
    hidden = F.relu(F.conv2d(torch.cat([x, y.unsqueeze(1)], dim=1), weight, net.from_image.bias, padding=2))
    for layer in (net.convolutions[0], net.convolutions[2]):
        hidden = F.relu(F.conv2d(hidden, layer.weight, layer.bias, stride=2, padding=2))
    hidden = hidden.flatten(1)
    assert hidden.shape[1] == 36 * 2 * net.from_image.out_channels
    first, second, last = net.linear[0], net.linear[3], net.linear[5]
    return -last(F.relu(second(F.relu(first(hidden))))).squeeze(1)


def test_candidates_at_once_equal_the_stacked_channels_one_by_one(energy, batch):
    x, y = batch
    found = energy(x, y)
    assert found.shape == (2, 3)
    for k in range(3):
        torch.testing.assert_close(found[:, k], stacked(energy, x, y[:, k]))
        torch.testing.assert_close(found[:, k : k + 1], energy(x, y[:, k : k + 1]))


def test_it_has_the_authors_sizes():
    shapes = {tuple(parameter.shape) for parameter in GridEnergy().parameters()}
    assert {(64, 3, 5, 5), (64, 1, 5, 5), (128, 64, 5, 5), (128, 128, 5, 5)} <= shapes
    assert {(384, 4608), (192, 384), (1, 192)} <= shapes
    assert ENERGIES["grid"] is GridEnergy


def test_pixels_that_do_not_count_do_not_matter(energy, batch):
    x, y = batch
    mask = torch.ones(2, 24, 24, dtype=torch.bool)
    torch.testing.assert_close(energy(x, y, mask), energy(x, y))
    mask[:, 5:9, 3:] = False
    other = torch.where(mask.unsqueeze(1), y, 1 - y)
    assert torch.equal(energy(x, other, mask), energy(x, y, mask))
    assert not torch.allclose(energy(x, other), energy(x, y))


def test_the_energy_at_an_image_is_that_energy_with_the_image_read_once(energy, batch):
    x, y = batch
    mask = torch.rand(2, 24, 24) < 0.8
    reads = []
    energy.from_image.register_forward_hook(lambda *_: reads.append(1))
    at, y = energy.at(x, mask), y.clone().requires_grad_()
    found = [at(y), at(1 - y)]
    assert len(reads) == 1
    for value, candidates in zip(found, (y, 1 - y), strict=True):
        torch.testing.assert_close(value, energy(x, candidates, mask))
    (gradient,) = torch.autograd.grad(found[0].sum(), y)
    (wanted,) = torch.autograd.grad(energy(x, y, mask).sum(), y)
    torch.testing.assert_close(gradient, wanted)
    with pytest.raises(ValueError, match=r"shape \(2, 3, 24, 24\) and the candidates \(2, 3, 20, 24\)"):
        at(y[:, :, :20])


def test_gradient_in_the_mask_by_finite_differences(energy, batch):
    energy = energy.double()
    x, y = (tensor[:1].double() for tensor in batch)
    y = y[:, :2].requires_grad_()
    (gradient,) = torch.autograd.grad(energy(x, y).sum(), y)
    for place in ((0, 0, 3, 4), (0, 1, 12, 23)):
        step = torch.zeros_like(y)
        step[place] = 1e-6
        slope = (energy(x, y + step) - energy(x, y - step)).sum() / 2e-6
        torch.testing.assert_close(gradient[place], slope.detach(), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("size", [(32, 32), (17, 40)])
def test_other_sizes_are_averaged_to_the_same_cells(energy, size):
    x, y = torch.rand(1, 3, *size, generator=generator()), torch.rand(1, 2, *size, generator=generator())
    assert energy(x, y).shape == (1, 2) and energy(x, y).isfinite().all()


def test_the_first_layer_starts_as_one_convolution_over_four_channels():
    torch.manual_seed(0)
    net = GridEnergy()
    before = net.from_mask.weight.clone()
    net.reset_parameters()
    assert not torch.equal(before, net.from_mask.weight)
    for weight in (net.from_image.weight, net.from_mask.weight):  # uniform within 1 / sqrt(4 · 25)
        assert weight.abs().max() <= 0.1 and weight.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.05)


@pytest.mark.parametrize("shape", [(2, 3, 24, 20), (1, 3, 24, 24), (2, 24, 24), (2, 3, 1, 24, 24)])
def test_masks_of_another_size_than_the_images_are_refused_with_both_shapes(energy, batch, shape):
    with pytest.raises(ValueError, match="expected .*batch, candidates, height, width") as error:
        energy(batch[0], torch.zeros(shape))
    assert "(2, 3, 24, 24)" in str(error.value) and str(shape) in str(error.value)


# --- several classes -------------------------------------------------------------------------------------------------


@pytest.fixture
def class_energy():
    torch.manual_seed(0)
    return ClassGridEnergy(width=8, mask_channels=4).eval()


def test_a_mask_of_several_classes_is_a_channel_for_each(class_energy, batch):
    x, y = batch[0], torch.rand(2, 3, 4, 24, 24, generator=generator(2))
    found = class_energy(x, y)
    stack = lambda k: torch.cat([x, y[:, k]], dim=1)  # noqa: E731
    for k in range(3):
        weight = torch.cat([class_energy.from_image.weight, class_energy.from_mask.weight], dim=1)
        hidden = F.relu(F.conv2d(stack(k), weight, class_energy.from_image.bias, padding=2))
        expected = -class_energy.linear(class_energy.convolutions(hidden).flatten(1)).squeeze(1)
        torch.testing.assert_close(found[:, k], expected)
    assert class_energy.from_mask.weight.abs().max() <= 1 / (7 * 25) ** 0.5  # as one convolution over 3 + 4 channels
    torch.testing.assert_close(class_energy.at(x)(y), found)


def test_pixels_that_do_not_count_are_no_class(class_energy, batch):
    x, y = batch[0], torch.rand(2, 3, 4, 24, 24, generator=generator(2))
    mask = torch.ones(2, 24, 24, dtype=torch.bool)
    mask[:, 5:9, 3:] = False
    other = torch.where(mask[:, None, None], y, 1 - y)
    assert torch.equal(class_energy(x, other, mask), class_energy(x, y, mask))
    assert torch.equal(class_energy(x, y * mask[:, None, None]), class_energy(x, y, mask))


@pytest.mark.parametrize("shape", [(2, 3, 24, 24), (2, 3, 5, 24, 24), (2, 3, 4, 24, 20), (1, 3, 4, 24, 24)])
def test_masks_of_other_classes_are_refused_with_both_shapes(class_energy, batch, shape):
    with pytest.raises(ValueError, match="expected .*batch, candidates, 4 classes, height, width") as error:
        class_energy(batch[0], torch.zeros(shape))
    assert "(2, 3, 24, 24)" in str(error.value) and str(shape) in str(error.value)


def test_a_loss_net_sets_the_classes():
    config = LossNetConfig(space="masks", energy="class_grid", num_labels=5, energy_options={"width": 4})
    assert LossNet(config).energy.from_mask.weight.shape == (4, 5, 5, 5)
    assert ENERGIES["class_grid"] is ClassGridEnergy
