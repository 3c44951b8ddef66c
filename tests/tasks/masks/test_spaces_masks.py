"""Binary masks against brute force over all of them, closed forms, PyTorch's losses and scikit-learn."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score, jaccard_score
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from seal_hf.core.masks import log_odds
from seal_hf.core.task import SPACES
from seal_hf.energy_losses import NCE, Ranking
from seal_hf.tasks.masks.space import BinaryMaskSpace, smoothing
from seal_hf.tasks.masks.task_losses import PixelLoss, SoftIoU

SPACE = BinaryMaskSpace()
MASKS = torch.tensor(list(itertools.product([0.0, 1.0], repeat=4))).view(16, 2, 2)  # every 2 x 2 mask
WIDE = torch.tensor(list(itertools.product([0.0, 1.0], repeat=6))).view(64, 2, 3)  # every 2 x 3 mask


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def logits():
    return torch.randn(3, 2, 2, 2, generator=generator())


def coherent(kind, size=2, share=0.1):
    return BinaryMaskSpace(sample_coherence=kind, coherence_size=size, independent_share=share)


def test_is_registered_under_its_name():
    assert SPACES["binary_mask"] is BinaryMaskSpace


def test_log_odds_are_the_softmax_of_two_channels_and_the_one_channel_itself(logits):
    torch.testing.assert_close(SPACE.relax(logits), logits.softmax(1)[:, 1])
    torch.testing.assert_close(SPACE.relax(logits[:, :1]), torch.sigmoid(logits[:, 0]))
    torch.testing.assert_close(SPACE.relax(log_odds(logits)), SPACE.relax(logits))


def test_coarse_logits_are_scaled_up_as_hugging_faces_heads_do(logits):
    labels = torch.randint(0, 2, (3, 5, 7), generator=generator())
    labels[0, 0] = 255
    scaled = F.interpolate(logits, size=(5, 7), mode="bilinear", align_corners=False)
    expected = F.cross_entropy(scaled, labels, ignore_index=255)
    torch.testing.assert_close(BinaryMaskSpace(loss=PixelLoss("mean")).task_loss(logits, labels), expected)
    total = F.cross_entropy(scaled, labels, ignore_index=255, reduction="sum") / 3
    torch.testing.assert_close(SPACE.task_loss(logits, labels), total)
    fitted = SPACE.fit(logits, labels)
    assert fitted.shape == labels.shape
    torch.testing.assert_close(SPACE.task_loss(fitted, labels), total)


def test_the_mean_loss_is_a_hugging_face_heads_own():
    config = SegformerConfig(
        depths=[1], num_encoder_blocks=1, sr_ratios=[1], hidden_sizes=[8], patch_sizes=[7], strides=[4]
    )
    config.num_attention_heads, config.mlp_ratios, config.decoder_hidden_size = [1], [1], 8
    net = SegformerForSemanticSegmentation(config).eval()
    labels = torch.randint(0, 2, (2, 16, 12), generator=generator())
    labels[1, 3:] = 255
    with torch.no_grad():
        outputs = net(torch.rand(2, 3, 16, 12, generator=generator()), labels=labels)
    assert outputs.logits.shape == (2, 2, 4, 3)
    SPACE.check(outputs.logits, labels)
    torch.testing.assert_close(BinaryMaskSpace(loss=PixelLoss("mean")).task_loss(outputs.logits, labels), outputs.loss)


@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_soft_iou_adds_one_minus_the_ratio_of_sums(logits, kind):
    labels = torch.tensor([[[1, 0], [1, 255]], [[0, 0], [0, 0]], [[255, 255], [255, 255]]])
    space = BinaryMaskSpace(loss=SoftIoU(pixel_loss=kind, soft_iou_weight=0.3))
    p = logits.softmax(1)[:, 1].double()
    first = (p[0, 0, 0] + p[0, 1, 0]) / (2 + p[0, 0, 1])  # Σ p y / Σ (p + y - p y), over the three that count
    expected = (1 - first + 1 + 0) / 3  # no overlap with an empty mask; nothing that counts costs nothing
    term = space.task_loss(logits, labels) - BinaryMaskSpace(loss=PixelLoss(kind)).task_loss(logits, labels)
    torch.testing.assert_close(term, 0.3 * expected.float())
    hard = 200 * (MASKS[[5, 9, 12]].unsqueeze(1) - 0.5)
    gold = MASKS[[4, 9, 3]].long()  # IoU 1/2, 1, 0
    term = space.task_loss(hard, gold) - BinaryMaskSpace(loss=PixelLoss(kind)).task_loss(hard, gold)
    assert term.item() == pytest.approx(0.3 * (0.5 + 0 + 1) / 3, abs=1e-4)


def test_task_loss_of_a_batch_without_pixels_that_count_is_zero(logits):
    nothing = torch.full((3, 2, 2), 255)
    assert all(BinaryMaskSpace(loss=PixelLoss(kind)).task_loss(logits, nothing) == 0 for kind in ("sum", "mean"))


def test_log_prob_is_a_distribution_over_all_masks(logits):
    log_p = SPACE.log_prob(logits, MASKS.expand(3, -1, -1, -1))
    torch.testing.assert_close(log_p.exp().sum(1), torch.ones(3))
    p = logits.softmax(1)[:, 1].unsqueeze(1)
    torch.testing.assert_close(log_p.exp(), torch.where(MASKS.bool(), p, 1 - p).prod(-1).prod(-1))


def test_log_prob_of_a_large_confident_mask_does_not_cancel():
    """Against the same sums in float64."""
    generator = torch.Generator().manual_seed(0)
    z = 30 * (torch.rand(1, 256, 256, generator=generator) > 0.5).float() - 15
    y = (z > 0).float().repeat(2, 1, 1)
    y[1, :3, :3] = 1 - y[1, :3, :3]
    exact = (y.double() * z.double() - torch.nn.functional.softplus(z.double())).sum((1, 2))
    torch.testing.assert_close(SPACE.log_prob(z, y.unsqueeze(0))[0].double(), exact, rtol=0, atol=1e-4)


@pytest.mark.parametrize("space", [SPACE, coherent("patches"), coherent("patches", 3, 0.0)], ids=["pixels", "ε", "ε=0"])
def test_pixels_that_do_not_count_do_not_matter(logits, space):
    mask = torch.tensor([[True, False], [True, True]]).expand(3, -1, -1)
    y = MASKS.expand(3, -1, -1, -1)
    other = y.clone()
    other[..., 0, 1] = 1 - other[..., 0, 1]
    far = logits.clone()
    far[..., 0, 1] = 50 * far[..., 0, 1]
    for read in (space.log_prob, space.log_noise):
        torch.testing.assert_close(read(far, other, mask), read(logits, y, mask), rtol=1e-5, atol=1e-5)
    gold = MASKS[[3, 9, 12]]
    for read in (space.score, *(lambda *a, k=k: space.cost(*a[:2], k, a[2]) for k in ("iou", "f1", "l1", "l1_mean"))):
        torch.testing.assert_close(read(other, gold, mask), read(y, gold, mask))
    pairs = torch.stack([y[:, 5], other[:, 5], y[:, 6]], 1)
    assert space.repeated(pairs, mask).tolist() == [[False, True, False]] * 3


# --- coherent samples -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_probability_of_patches_is_a_distribution_that_samples_follow(size, share):
    space = coherent("patches", size, share)
    z = torch.randn(2, 2, 3, generator=generator(5))  # cut by the patches' grid
    exact = space.log_noise(z, WIDE.expand(2, -1, -1, -1)).exp()
    torch.testing.assert_close(exact.sum(1), torch.ones(2))
    marginal = (exact[:, :, None, None] * WIDE).sum(1)
    torch.testing.assert_close(marginal, torch.sigmoid(z), atol=1e-5, rtol=1e-5)
    if share == 1 or size == 1:
        torch.testing.assert_close(exact, space.log_prob(z, WIDE.expand(2, -1, -1, -1)).exp())
    powers = 2 ** torch.arange(6)
    code = WIDE.flatten(1) @ powers.float()
    drawn = (space.sample(z, 30_000, generator()).flatten(2) @ powers.float()).long()
    for row in range(2):
        frequency = torch.bincount(drawn[row], minlength=64)[code.long()] / 30_000
        assert (frequency - exact[row]).abs().max() < 0.015  # 5 standard errors of the largest cell


def test_patches_without_independent_pixels_give_the_probability_zero_to_what_they_cannot_draw():
    z = torch.tensor([[[2.0, 1.0], [0.0, -1.0]]])
    space = coherent("patches", 2, 0.0)
    log_p = space.log_noise(z, MASKS.unsqueeze(0))[0]
    p = torch.sigmoid(z.flatten())
    possible = {(0, 0, 0, 0): 1 - p[0], (1, 0, 0, 0): p[0] - p[1], (1, 1, 0, 0): p[1] - p[2], (1, 1, 1, 0): p[2] - p[3]}
    possible[(1, 1, 1, 1)] = p[3]
    for y, found in zip(MASKS.flatten(1), log_p, strict=True):
        torch.testing.assert_close(found.exp(), torch.as_tensor(possible.get(tuple(y.long().tolist()), 0.0)))


def test_probabilities_of_patches_stay_exact_where_sigmoids_saturate():
    z = torch.tensor([[[90.0, 80.0]]])  # σ is 1 to float32: the difference of both would be 0
    log_p = coherent("patches", 2, 0.0).log_noise(z, torch.tensor([[[[1.0, 0.0]]]]))
    assert log_p.item() == pytest.approx(-80 + math.log1p(-math.exp(-10)), rel=1e-6)


@pytest.mark.parametrize("kind", ["none", "field", "patches"])
def test_every_pixel_keeps_its_probability(kind):
    z = 3 * torch.randn(1, 5, 7, generator=generator(2))
    drawn = coherent(kind, 3).sample(z, 40_000, generator())
    assert drawn.shape == (1, 40_000, 5, 7) and set(drawn.unique().tolist()) == {0.0, 1.0}
    assert (drawn.mean(1) - torch.sigmoid(z)).abs().max() < 0.0125  # 5 standard errors at 1/2


def test_pixels_of_a_field_agree_as_the_arcsine_law_says():
    """P(y_i = y_j) = 1/2 + arcsin(ρ) / π for p = 1/2, with ρ the correlation of the noise (Sheppard 1899)."""
    length = 1.5
    drawn = coherent("field", length).sample(torch.zeros(1, 6, 6), 40_000, generator())[0]
    rows = smoothing(6, length)
    correlation = torch.einsum("ik,jl->ijkl", rows @ rows.T, rows @ rows.T)
    agree = 0.5 + torch.asin(correlation.clamp(-1, 1)) / math.pi
    for i, j, k, m in ((0, 0, 0, 1), (2, 2, 2, 3), (2, 2, 3, 3), (1, 4, 4, 4), (0, 0, 5, 5)):
        assert (drawn[:, i, j] == drawn[:, k, m]).float().mean() == pytest.approx(agree[i, j, k, m].item(), abs=0.0125)


def test_a_field_has_unit_variance_and_the_correlation_that_is_promised():
    rows = smoothing(41, 4.0)
    covariance = rows @ rows.T
    torch.testing.assert_close(covariance.diagonal(), torch.ones(41))
    expected = torch.exp(-(torch.arange(9.0) ** 2) / (2 * 16))
    torch.testing.assert_close(covariance[20, 20:29], expected, atol=1e-3, rtol=1e-3)


def test_pixels_of_a_patch_agree_as_often_as_they_must():
    """p = 1/2: all equal with probability 1 - ε, else each pair with 1/2; pixels of two patches with 1/2."""
    drawn = coherent("patches", 2, 0.4).sample(torch.zeros(1, 4, 4), 40_000, generator())[0]
    assert (drawn[:, 0, 0] == drawn[:, 1, 1]).float().mean() == pytest.approx(0.8, abs=0.0125)
    assert (drawn[:, 0, 1] == drawn[:, 0, 2]).float().mean() == pytest.approx(0.5, abs=0.0125)


@pytest.mark.parametrize("kind", ["none", "field", "patches"])
def test_perturb_has_the_given_noise_in_logit_space(kind):
    z = torch.randn(1, 4, 4, generator=generator(3))
    space = coherent(kind)
    noise = torch.logit(space.perturb(z, 20_000, 0.5, generator()).double()) - z
    assert noise.mean((0, 1)).abs().max() < 0.02 and noise.std(1).sub(0.5).abs().max() < 0.02
    torch.testing.assert_close(space.perturb(z, 2, 0.0, generator())[:, 1], space.relax(z))


@pytest.mark.parametrize("kind", ["none", "field", "patches"])
def test_samples_depend_on_the_generator_alone(kind):
    z, space = torch.zeros(1, 8, 8), coherent(kind)
    first = space.sample(z, 3, generator(3))
    torch.manual_seed(2)
    assert torch.equal(first, space.sample(z, 3, generator(3)))
    assert not torch.equal(first, space.sample(z, 3, generator(4)))


@pytest.mark.parametrize("space", [coherent("field"), coherent("patches", 2, 0.0)])
def test_nce_is_refused_where_its_noise_has_no_probability(space):
    with pytest.raises(ValueError, match="ranking.*patches"):
        space.check_loss(NCE(), 2)
    space.check_loss(Ranking(), 2)
    coherent("patches").check_loss(NCE(), 2)
    if space.sample_coherence == "field":
        with pytest.raises(ValueError, match="closed-form"):
            space.log_noise(torch.zeros(1, 2, 2), MASKS.unsqueeze(0))


# --- scores, costs, decisions ---------------------------------------------------------------------------------------


def test_score_and_costs_are_iou_and_dice_on_hard_masks():
    for gold in MASKS:
        y = gold.unsqueeze(0)
        pairs = [(gold.flatten().numpy(), other.flatten().numpy()) for other in MASKS]
        iou = torch.tensor([jaccard_score(*pair, zero_division=1.0) for pair in pairs], dtype=torch.float32)
        dice = torch.tensor([f1_score(*pair, zero_division=1.0) for pair in pairs], dtype=torch.float32)
        torch.testing.assert_close(SPACE.score(MASKS.unsqueeze(0), y)[0], iou)
        torch.testing.assert_close(SPACE.cost(MASKS.unsqueeze(0), y, "iou")[0], 1 - iou)
        torch.testing.assert_close(SPACE.cost(MASKS.unsqueeze(0), y, "f1")[0], 1 - dice)
        distance = (MASKS - gold).abs().sum((1, 2))
        torch.testing.assert_close(SPACE.cost(MASKS.unsqueeze(0), y, "l1")[0], distance)
        torch.testing.assert_close(SPACE.cost(MASKS.unsqueeze(0), y, "l1_mean")[0], distance / 4)


def test_score_is_the_soft_iou_of_its_definition_on_relaxed_masks():
    y_hat = torch.rand(1, 7, 2, 2, generator=generator())
    for y in MASKS:
        low, high = torch.minimum(y_hat, y).sum((2, 3)), torch.maximum(y_hat, y).sum((2, 3))
        torch.testing.assert_close(SPACE.score(y_hat, y.unsqueeze(0)), low / high)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_mix_has_the_probabilities_of_the_mixture(logits, share):
    gold = MASKS[[3, 9, 12]]
    expected = (1 - share) * SPACE.relax(logits) + share * gold
    torch.testing.assert_close(SPACE.relax(SPACE.mix(logits, gold, share)), expected, atol=1e-6, rtol=1e-5)


def test_decode_is_inclusive_at_the_threshold_and_gold_reads_255_as_no_pixel():
    z = torch.logit(torch.tensor([[[0.2, 0.5, 0.7]]]))
    assert SPACE.decode(z).tolist() == [[[0, 1, 1]]]
    gold, mask = SPACE.gold(torch.tensor([[[0, 1, 255]]]))
    assert gold.tolist() == [[[0, 1, 0]]] and mask.tolist() == [[[True, True, False]]]


def test_repeated_finds_every_mask_that_came_before():
    y = MASKS[[3, 5, 3, 0, 0, 5]].unsqueeze(0)
    assert SPACE.repeated(y).tolist() == [[False, False, True, False, True, True]]


@pytest.mark.parametrize("shapes", [((2, 3, 4, 4), (2, 4, 4)), ((2, 2, 4, 4), (2, 16)), ((1, 2, 4, 4), (2, 4, 4))])
def test_outputs_that_are_no_binary_masks_are_refused_with_both_shapes(shapes):
    logits, labels = (torch.zeros(shape) for shape in shapes)
    with pytest.raises(ValueError, match="segmentation") as error:
        SPACE.check(logits, labels)
    assert all(str(tuple(shape)) in str(error.value) for shape in shapes)


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        (PixelLoss, "pixel_loss", "avg"),
        (BinaryMaskSpace, "sample_coherence", "blobs"),
        (BinaryMaskSpace, "coherence_size", 0),
        (BinaryMaskSpace, "independent_share", 1.5),
        (SoftIoU, "soft_iou_weight", -0.1),
    ],
)
def test_options_out_of_their_range_are_refused_by_name(kind, option, value):
    with pytest.raises(ValueError, match=f"`{option}` is"):
        kind(**{option: value})
