"""Masks of several classes against brute force over all of them, PyTorch's losses, scikit-learn, and binary masks."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score, jaccard_score
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from seal_hf.core.space import UNLABELLED_PIXEL
from seal_hf.core.task import SPACES
from seal_hf.energy_losses import NCE, Ranking
from seal_hf.tasks.masks.space import BinaryMaskSpace, MaskSpace, mask_space
from seal_hf.tasks.masks.task_losses import MASK_TASK_LOSSES, Lovasz, PixelLoss, lovasz
from seal_hf.tasks.rewards.space import RewardMaskSpace

C, IGNORED = 3, 255
SPACE = MaskSpace(C)
KINDS = ("iou", "f1", "l1", "l1_mean")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def one_hot(ids):
    return F.one_hot(ids, C).movedim(-1, -3).float()


IDS = torch.tensor(list(itertools.product(range(C), repeat=4))).view(81, 2, 2)  # every 2 x 2 mask of 3 classes
MASKS = one_hot(IDS)
WIDE = one_hot(torch.tensor(list(itertools.product(range(C), repeat=6))).view(729, 2, 3))


@pytest.fixture
def logits():
    return torch.randn(2, C, 2, 2, generator=generator())


def coherent(kind, size=2, share=0.1, classes=C):
    return MaskSpace(classes, sample_coherence=kind, coherence_size=size, independent_share=share)


def test_it_is_registered_and_two_labels_stay_binary():
    assert SPACES["masks"] is MaskSpace
    spaces = [mask_space(SegformerConfig(num_labels=n)) for n in (1, 2, 3, 150)]
    assert spaces == [BinaryMaskSpace, BinaryMaskSpace, MaskSpace, MaskSpace]


# --- probabilities and samples ---------------------------------------------------------------------------------------


def test_log_prob_is_a_distribution_over_all_masks(logits):
    log_p = SPACE.log_prob(logits, MASKS.expand(2, -1, -1, -1, -1))
    torch.testing.assert_close(log_p.exp().sum(1), torch.ones(2))
    p = logits.softmax(1).unsqueeze(1)
    torch.testing.assert_close(log_p.exp(), (p * MASKS).sum(2).prod(-1).prod(-1))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_probability_of_patches_is_a_distribution_that_samples_follow(size, share):
    space = coherent("patches", size, share)
    z = torch.randn(1, C, 2, 3, generator=generator(5))  # cut by the patches' grid
    exact = space.log_noise(z, WIDE.unsqueeze(0)).exp()[0]
    assert exact.sum().item() == pytest.approx(1, abs=1e-5)
    torch.testing.assert_close((exact[:, None, None, None] * WIDE).sum(0), z[0].softmax(0), atol=1e-5, rtol=1e-5)
    if share == 1 or size == 1:
        torch.testing.assert_close(exact, space.log_prob(z, WIDE.unsqueeze(0)).exp()[0])
    powers = 3 ** torch.arange(6)
    code = lambda y: (y.argmax(-3).flatten(-2) * powers).sum(-1)  # noqa: E731
    drawn = torch.bincount(code(space.sample(z, 30_000, generator())[0]), minlength=729)[code(WIDE)] / 30_000
    assert (drawn - exact).abs().max() < 0.015  # 5 standard errors of the largest cell


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_patches_of_two_classes_have_the_probabilities_of_binary_patches(share):
    z = 2 * torch.randn(2, 2, 3, 3, generator=generator(1))
    y = (torch.rand(2, 50, 3, 3, generator=generator(2)) < 0.5).float()
    y = torch.cat([y, (z[:, 1:] > z[:, :1]).float()], 1)  # and a mask that patches of one draw can have
    both = torch.stack([1 - y, y], 2)
    options = dict(sample_coherence="patches", coherence_size=2, independent_share=share)
    found, expected = MaskSpace(2, **options).log_noise(z, both), BinaryMaskSpace(**options).log_noise(z, y)
    assert torch.equal(found.isinf(), expected.isinf()) and expected.isfinite().any()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_probabilities_of_patches_stay_exact_where_the_softmax_saturates():
    """Rare classes at both ends of [0, 1]; the first of two pixels is alone in having one."""
    z = torch.tensor([[0.0, 0.0], [40.0, 40.0], [-40.0, -38.0]]).view(1, 3, 1, 2)
    first, last = one_hot(torch.tensor([[[0, 0]]])), one_hot(torch.tensor([[[1, 2]]]))
    log_p = coherent("patches", 2, 0.0).log_noise(z, torch.cat([first, last]).unsqueeze(0))[0]
    rarer = z.double().log_softmax(1)[0, 2, 0]  # of the two pixels' last class
    expected = [-40.0, rarer[1] + torch.log1p(-torch.exp(rarer[0] - rarer[1]))]
    torch.testing.assert_close(log_p.double(), torch.tensor(expected).double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["none", "field", "patches"])
def test_every_pixel_keeps_the_probability_of_each_class(kind):
    z = 2 * torch.randn(1, 4, 5, 6, generator=generator(2))
    z[0, 1, 0] = -1e9  # a class that cannot be
    drawn = coherent(kind, 3, classes=4).sample(z, 40_000, generator())
    assert drawn.shape == (1, 40_000, 4, 5, 6) and torch.equal(drawn.sum(2), torch.ones(1, 40_000, 5, 6))
    assert (drawn.mean(1) - z.softmax(1)).abs().max() < 0.0125  # 5 standard errors at 1/2
    assert not drawn[:, :, 1, 0].any()


@pytest.mark.parametrize(("kind", "agree"), [("none", 1 / 3), ("patches", 0.9 + 0.1 / 3)])
def test_pixels_of_a_patch_agree_as_often_as_they_must(kind, agree):
    drawn = coherent(kind).sample(torch.zeros(1, C, 4, 4), 40_000, generator())[0].argmax(1)
    assert (drawn[:, 0, 0] == drawn[:, 1, 1]).float().mean() == pytest.approx(agree, abs=0.0125)
    assert (drawn[:, 0, 1] == drawn[:, 0, 2]).float().mean() == pytest.approx(1 / 3, abs=0.0125)


def test_pixels_of_a_field_agree_more_the_nearer_they_are():
    drawn = coherent("field", 1.5).sample(torch.zeros(1, C, 8, 8), 20_000, generator())[0].argmax(1)
    agree = [(drawn[:, 4, 1] == drawn[:, 4, 1 + d]).float().mean().item() for d in (1, 2, 6)]
    assert agree[0] > agree[1] + 0.1 > agree[2] + 0.2 and agree[2] == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("kind", ["none", "field", "patches"])
def test_perturb_has_the_given_noise_in_each_logit(kind):
    z, space = torch.randn(1, C, 4, 4, generator=generator(3)), coherent(kind)
    log_p = space.perturb(z, 20_000, 0.5, generator()).double().log()
    noise = log_p[:, :, 1:] - log_p[:, :, :1] - (z[:, 1:] - z[:, :1])
    assert noise.mean((0, 1)).abs().max() < 0.03 and noise.std(1).sub(0.5 * 2**0.5).abs().max() < 0.03
    torch.testing.assert_close(space.perturb(z, 2, 0.0, generator())[:, 1], space.relax(z))


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_mix_has_the_probabilities_of_the_mixture(logits, share):
    gold = MASKS[[30, 70]]
    expected = (1 - share) * SPACE.relax(logits) + share * gold
    torch.testing.assert_close(SPACE.relax(SPACE.mix(logits, gold, share)), expected, atol=1e-6, rtol=1e-5)


def test_relaxed_masks_are_logits_again_and_decisions_are_the_likeliest(logits):
    torch.testing.assert_close(SPACE.relax(SPACE.logits(SPACE.relax(logits))), SPACE.relax(logits))
    assert torch.equal(SPACE.decode(logits), logits.argmax(1))
    assert torch.equal(SPACE.likeliest(logits.unsqueeze(1))[:, 0], one_hot(logits.argmax(1)))


def test_repeated_finds_every_mask_that_came_before_on_the_pixels_that_count():
    y = MASKS[[3, 5, 3, 0, 4]].unsqueeze(0)
    assert SPACE.repeated(y).tolist() == [[False, False, True, False, False]]
    mask = torch.tensor([[[True, True], [True, False]]])  # masks 3, 4 and 5 differ in the last pixel
    assert SPACE.repeated(y, mask).tolist() == [[False, True, True, False, True]]


def test_nce_is_refused_where_its_noise_has_no_probability():
    for space in (coherent("field"), coherent("patches", 2, 0.0)):
        with pytest.raises(ValueError, match=r"ranking.*patches"):
            space.check_loss(NCE(), C)
        space.check_loss(Ranking(), C)
    coherent("patches").check_loss(NCE(), C)


# --- scores and costs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 4, 17, 40, 66])
def test_score_and_costs_are_those_of_scikit_learn_over_the_classes_present(row):
    gold, present = IDS[row].flatten(), IDS[row].unique().tolist()
    y, own = MASKS[row].unsqueeze(0), dict(labels=present, average="macro", zero_division=0.0)
    pairs = [(gold.numpy(), other.flatten().numpy()) for other in IDS]
    iou, dice = (torch.tensor([f(*pair, **own) for pair in pairs]).float() for f in (jaccard_score, f1_score))
    every = MASKS.unsqueeze(0)
    torch.testing.assert_close(SPACE.score(every, y)[0], iou)
    torch.testing.assert_close(SPACE.cost(every, y, "iou")[0], 1 - iou)
    torch.testing.assert_close(SPACE.cost(every, y, "f1")[0], 1 - dice)
    differ = 2.0 * (IDS != IDS[row]).sum((1, 2))
    torch.testing.assert_close(SPACE.cost(every, y, "l1")[0], differ)
    torch.testing.assert_close(SPACE.cost(every, y, "l1_mean")[0], differ / 4)


def test_score_of_relaxed_masks_is_its_definition(logits):
    y_hat = SPACE.relax(torch.randn(7, C, 2, 2, generator=generator(4))).unsqueeze(0)
    for y in MASKS[[0, 4, 17]]:
        low, high = (f(y_hat[0], y).sum((2, 3)) for f in (torch.minimum, torch.maximum))
        present = y.any(-1).any(-1)
        torch.testing.assert_close(SPACE.score(y_hat, y.unsqueeze(0))[0], (low / high)[:, present].mean(1))


def test_without_pixels_that_count_the_score_is_one():
    y, nothing = torch.zeros(1, C, 2, 2), torch.zeros(1, 2, 2, dtype=torch.bool)
    assert SPACE.score(MASKS[:2].unsqueeze(0), y, nothing).tolist() == [[1.0, 1.0]]
    assert [SPACE.cost(MASKS[:2].unsqueeze(0), y, kind, nothing).sum() for kind in KINDS] == [0, 0, 0, 0]


# --- the task loss ---------------------------------------------------------------------------------------------------


@pytest.fixture
def labels():
    labels = torch.randint(0, C, (2, 5, 7), generator=generator(1))
    labels[0, 0], labels[1, 2:4] = IGNORED, IGNORED
    return labels


@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_is_torchs_at_the_size_of_the_labels(logits, labels, weighted):
    scaled = F.interpolate(logits, size=(5, 7), mode="bilinear", align_corners=False)
    weight = torch.tensor([0.5, 2.0, 1.0]) if weighted else None
    for kind in ("sum", "mean"):
        space = MaskSpace(C, loss=PixelLoss(kind))
        if weighted:
            space.weigh({"class_weight": weight})
        expected = F.cross_entropy(scaled, labels, weight=weight, ignore_index=IGNORED, reduction=kind)
        found = space.task_loss(logits, labels)
        torch.testing.assert_close(found, expected / (2 if kind == "sum" else 1))
        torch.testing.assert_close(space.task_loss(space.fit(logits, labels), labels), found)
        assert space.task_loss(logits, torch.full_like(labels, IGNORED)) == 0


def test_class_weights_of_two_classes_are_torchs_too(logits, labels):
    labels, weight = torch.where(labels == 2, 1, labels), torch.tensor([0.5, 2.0])
    for kind in ("sum", "mean"):
        space = BinaryMaskSpace(loss=PixelLoss(kind))
        space.weigh({"class_weight": weight})
        scaled = F.interpolate(logits[:, :2], size=(5, 7), mode="bilinear", align_corners=False)
        expected = F.cross_entropy(scaled, labels, weight=weight, ignore_index=IGNORED, reduction=kind)
        torch.testing.assert_close(space.task_loss(logits[:, :2], labels), expected / (2 if kind == "sum" else 1))


def test_balanced_weights_are_those_of_the_counts(labels):
    counts = torch.bincount(labels[labels != IGNORED], minlength=C + 1)
    expected = counts.sum() / ((C + 1) * counts.clamp_min(1))
    expected[C] = 1  # a class without a pixel
    torch.testing.assert_close(MaskSpace(C + 1).balance([labels[:1], labels[1:].byte()]), expected)
    without_gold = torch.full_like(labels, UNLABELLED_PIXEL)
    rewarded = RewardMaskSpace(lambda *given: None, C + 1)
    torch.testing.assert_close(rewarded.balance([labels, without_gold]), expected)


def test_the_mean_loss_is_a_hugging_face_heads_own(labels):
    config = SegformerConfig(
        depths=[1], num_encoder_blocks=1, sr_ratios=[1], hidden_sizes=[8], patch_sizes=[7], strides=[4], num_labels=C
    )
    config.num_attention_heads, config.mlp_ratios, config.decoder_hidden_size = [1], [1], 8
    net = SegformerForSemanticSegmentation(config).eval()
    with torch.no_grad():
        outputs = net(torch.rand(2, 3, 5, 7, generator=generator()), labels=labels)
    SPACE.check(outputs.logits, labels)
    torch.testing.assert_close(MaskSpace(C, loss=PixelLoss("mean")).task_loss(outputs.logits, labels), outputs.loss)


def lovasz_by_definition(p, y):
    """Σ_k e_k [Δ({1..k}) - Δ({1..k-1})] of sets of wrong pixels, for one class of one image."""
    errors = [abs(a - b) for a, b in zip(p, y, strict=True)]
    order = sorted(range(len(p)), key=lambda i: -errors[i])
    gold = {i for i, value in enumerate(y) if value}
    jaccard = lambda wrong: len(wrong) / len(gold | wrong) if wrong else 0.0  # noqa: E731
    return sum(errors[i] * (jaccard(set(order[: k + 1])) - jaccard(set(order[:k]))) for k, i in enumerate(order))


@pytest.mark.parametrize("binary", [False, True])
def test_lovasz_is_its_definition_over_the_classes_present(labels, binary):
    logits = torch.randn(2, 2 if binary else C, 5, 7, generator=generator(6))
    labels = torch.where(labels == 2, 1, labels) if binary else torch.where(labels == 2, 0, labels)
    space, plain = (
        (BinaryMaskSpace(loss=o) if binary else MaskSpace(C, loss=o)) for o in (Lovasz(lovasz_weight=0.3), None)
    )
    expected = []
    for p, y in zip(logits.softmax(1), labels, strict=True):
        p, y = p[:, y != IGNORED].tolist(), y[y != IGNORED]
        classes = [1] if binary else y.unique().tolist()
        expected.append(sum(lovasz_by_definition(p[c], (y == c).tolist()) for c in classes) / len(classes))
    found = space.task_loss(logits, labels) - plain.task_loss(logits, labels)
    assert found.item() == pytest.approx(0.3 * sum(expected) / 2, abs=1e-5)


def test_lovasz_of_hard_masks_is_one_minus_their_iou():
    y = torch.tensor([0.0, 1, 1, 0, 1])
    for other in itertools.product([0.0, 1.0], repeat=5):
        iou = jaccard_score(y.numpy(), other)
        assert lovasz(torch.tensor(other), y).item() == pytest.approx(1 - iou, abs=1e-6)
    empty = torch.zeros(5)
    assert (lovasz(empty, empty).item(), lovasz(y, empty).item()) == (0, 1)


@pytest.mark.parametrize(("name", "kind"), [("soft_iou", "iou"), ("dice", "f1")])
def test_terms_of_the_task_loss_are_costs_of_the_relaxed_output(logits, labels, name, kind):
    space = MaskSpace(C, loss=MASK_TASK_LOSSES[name](**{f"{name}_weight": 0.7}))
    gold, mask = SPACE.gold(labels)
    p = SPACE.relax(SPACE.fit(logits, labels)).unsqueeze(1)
    term = space.task_loss(logits, labels) - SPACE.task_loss(logits, labels)
    torch.testing.assert_close(term, 0.7 * SPACE.cost(p, gold, kind, mask).mean())


@pytest.mark.parametrize("name", ["soft_iou", "dice", "lovasz"])
@pytest.mark.parametrize("coherence", ["none", "patches"])
def test_pixels_that_do_not_count_have_no_influence(coherence, name):
    labels = torch.tensor([[[2, IGNORED], [0, 1]]])
    loss = MASK_TASK_LOSSES[name]()
    space = MaskSpace(C, sample_coherence=coherence, coherence_size=2, independent_share=0.5, loss=loss)
    space.weigh({"class_weight": torch.tensor([1.0, 2.0, 3.0])})
    z = torch.randn(1, C, 2, 2, generator=generator(9), requires_grad=True)
    far = z.detach().clone()
    far[..., 0, 1] *= 50
    gold, mask = space.gold(labels)
    assert gold[0, :, 0, 1].tolist() == [0, 0, 0] and mask.sum() == 3
    y = MASKS[::7].unsqueeze(0)
    other = y.clone()
    other[..., 0, 1] = other[..., 0, 1].roll(1, -1)
    for read in (space.log_prob, space.log_noise):
        torch.testing.assert_close(read(far, other, mask), read(z, y, mask), rtol=1e-5, atol=1e-5)
    for kind in KINDS:
        torch.testing.assert_close(space.cost(other, gold, kind, mask), space.cost(y, gold, kind, mask))
    torch.testing.assert_close(space.task_loss(far, labels), space.task_loss(z, labels))
    (gradient,) = torch.autograd.grad(space.task_loss(z, labels), z)
    assert not gradient[..., 0, 1].any() and gradient.any()


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shapes", [((2, 4, 4, 4), (2, 4, 4)), ((2, 3, 4, 4), (2, 16)), ((1, 3, 4, 4), (2, 4, 4))])
def test_outputs_of_another_shape_are_refused_with_both_shapes(shapes):
    logits, labels = (torch.zeros(shape) for shape in shapes)
    with pytest.raises(ValueError, match="segmentation task-net of 3 classes") as error:
        SPACE.check(logits, labels)
    assert all(str(tuple(shape)) in str(error.value) for shape in shapes)


@pytest.mark.parametrize(("space", "wrong"), [(SPACE, 3), (SPACE, -100), (BinaryMaskSpace(), 2)])
def test_labels_beyond_the_classes_are_refused(space, wrong):
    space.check_values(torch.tensor([0, 1, IGNORED]), "train_dataset")
    with pytest.raises(ValueError, match=rf"`labels` of `train_dataset` holds {wrong}, but .* {space.num_classes} cl"):
        space.check_values(torch.tensor([0, wrong, IGNORED]), "train_dataset")


@pytest.mark.parametrize("count", [1, 256])
def test_numbers_of_classes_that_no_mask_can_have_are_refused(count):
    with pytest.raises(ValueError, match=f"`num_classes` is {count}"):
        MaskSpace(count)
