"""Masks of which some rows have gold and the others a reward. Oracles: the space without a reward on the rows with
gold, the reward itself on the others, and a run in which only the reward can teach a class."""

import numpy as np
import pytest
import tiny_class_masks as tiny
import tiny_masks
import torch
from tiny_class_masks import NAMES, shapes

from seal_hf import BinaryMaskSpace, MaskRows, MaskSpace, RewardBinaryMaskSpace, RewardMaskSpace, SealTrainer
from seal_hf.core.space import UNLABELLED_PIXEL
from seal_hf.energy_losses import ContrastiveDivergence, Margin
from seal_hf.tasks.masks.task_losses import MASK_TASK_LOSSES

C, PLAIN = 3, MaskSpace(3)


def share_of_known(codes, y, mask):
    """The mean probability of the classes that an image is known to have, over the pixels that count."""
    known = (y * codes[:, None, :, None, None]).sum(2) * mask.unsqueeze(1)  # (B, S, H, W)
    return known.sum((2, 3)) / mask.sum((1, 2)).clamp_min(1).unsqueeze(1)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, C, (3, 4, 5), generator=generator)
    labels[1], labels[0, 0], labels[1, 0] = UNLABELLED_PIXEL, 255, 255
    codes = torch.tensor([[1.0, 1, 1], [0, 1, 0], [1, 0, 1]])
    logits = torch.randn(3, C, 4, 5, generator=generator)
    return {"labels": labels, "reward_codes": codes}, logits


def test_rows_with_gold_are_as_without_a_reward_and_the_others_have_it(batch):
    batch, logits = batch
    space, labels = RewardMaskSpace(share_of_known, C).of(batch), batch["labels"]
    gold, mask = space.gold(labels)
    assert mask[1, 1:].all() and not mask[1, 0].any() and not gold[1].any()
    y = torch.cat([space.output(logits), space.sample(logits, 4, torch.Generator().manual_seed(1))], 1)
    score, reward = space.score(y, gold, mask), share_of_known(batch["reward_codes"], y, mask)
    with_gold = [0, 2]
    torch.testing.assert_close(score[1], reward[1])
    torch.testing.assert_close(score[with_gold], PLAIN.score(y, gold, mask)[with_gold])
    best = space.best(gold, y[:, 1:], mask)
    assert torch.equal(best[with_gold], gold[with_gold])
    most = reward[1, 1:].argmax()
    assert torch.equal(best[1], y[1, 1 + most] * mask[1])
    cost = space.cost(y, best, "l1", mask)
    torch.testing.assert_close(cost[1], (reward[1, 1 + most] - reward[1]).clamp_min(0))
    torch.testing.assert_close(cost[with_gold], PLAIN.cost(y, best, "l1", mask)[with_gold])
    mixed = space.relax(space.mix(logits, gold, 0.5))
    torch.testing.assert_close(mixed[1], logits[1].softmax(0))
    torch.testing.assert_close(mixed[0], PLAIN.relax(PLAIN.mix(logits, gold, 0.5))[0])


@pytest.mark.parametrize("pixel_loss", ["sum", "mean"])
@pytest.mark.parametrize("name", ["soft_iou", "dice", "lovasz"])
def test_the_task_loss_of_rows_without_gold_is_zero(batch, pixel_loss, name):
    """In training, and in an evaluation, whose rows have no codes."""
    batch, of_three = batch
    of_two, loss = batch["labels"].clone(), MASK_TASK_LOSSES[name](pixel_loss, 0.5)
    of_two[of_two == 2] = 0
    for space, plain, logits, labels in (
        (RewardMaskSpace(share_of_known, C, loss=loss), MaskSpace(C, loss=loss), of_three, batch["labels"]),
        (RewardBinaryMaskSpace(share_of_known, loss=loss), BinaryMaskSpace(loss=loss), of_three[:, :2], of_two),
    ):
        expected = plain.task_loss(logits[[0, 2]], labels[[0, 2]]) * 2 / 3
        torch.testing.assert_close(space.of({**batch, "labels": labels}).task_loss(logits, labels), expected)
        torch.testing.assert_close(space.task_loss(logits, labels), expected)
        within = space.in_window([*labels.split(1)])
        parts = [within.task_loss(*each) for each in zip(logits.split(1), labels.split(1), strict=True)]
        torch.testing.assert_close(sum(parts) / 3, expected)
        space.check_values(labels, "train_dataset")


def test_rewards_need_codes_and_their_expectation_independent_pixels(batch):
    batch, logits = batch
    space = RewardMaskSpace(share_of_known, C)
    with pytest.raises(ValueError, match="The batch has no column `reward_codes`.*reward_rows"):
        space.rewards(PLAIN.output(logits), batch["labels"] != 255)
    with pytest.raises(ValueError, match="draws pixels independently, but `sample_coherence` is 'field'. Leave it out"):
        RewardMaskSpace(share_of_known, C, sample_coherence="field").expecting(1.0, 4)


def test_more_classes_than_ids_that_are_free_are_refused():
    RewardMaskSpace(share_of_known, 254)
    with pytest.raises(ValueError, match="`num_classes` is 255; with a reward it is at most 254"):
        RewardMaskSpace(share_of_known, 255)


def test_losses_that_need_gold_are_refused():
    with pytest.raises(ValueError, match="rows with a reward lack gold"):
        RewardMaskSpace(share_of_known, C).check_loss(Margin(), C)
    RewardMaskSpace(share_of_known, C).check_loss(ContrastiveDivergence(), C)


def test_a_reward_teaches_what_no_mask_shows(tmp_path):
    """Four images have masks; of the others it is known that they have no stripe. Against the same run without it."""
    found = {}
    for known in (0.0, 1.0):
        split = shapes(16)
        split.masks[4:] = UNLABELLED_PIXEL
        codes = np.tile(np.array([1, 1, 1 - known], np.float32), (16, 1))
        rows = MaskRows(split, tiny_masks.CROP, reward_codes=codes)
        nets = tiny.model()
        options = dict(loss="contrastive_divergence", num_train_epochs=24, energy_weight=0.75, margin_cost="l1_mean")
        args = tiny.make(tmp_path, nets, MaskRows(shapes(4), tiny_masks.CROP), learning_rate=3e-3, **options)[0].args
        space = RewardMaskSpace.from_arguments(args, nets.task_net, share_of_known)
        SealTrainer(nets, args, train_dataset=rows, space=space).train()
        batch = MaskRows(shapes(16)).batch(range(16))
        p, _ = nets.predict(pixel_values=batch["pixel_values"])
        found[known] = p[:, NAMES.index("stripe")].mean().item()
    assert found[1.0] < found[0.0] - 0.02
