"""Oracle: each rule by a loop over the pixels of one mask, as its sentence in the docstring says it."""

import itertools

import pytest
import torch

from seal_hf import Rule
from seal_hf.tasks.rewards.mask_rules import MaskRuleReward
from seal_hf.tasks.rewards.reward import MaskFunctionReward

FILE = """rules:
- {area: [0.2, 0.5], weight: 2}
- {connected: 1}
- {connected: 2, weight: 0.5}
- {smooth: 3}
"""


def pieces(mask):
    """Sizes of the pieces of a set of pixels, the largest first, by a search."""
    left, sizes = set(mask), []
    while left:
        front, size = [left.pop()], 0
        while front:
            i, j = front.pop()
            size += 1
            near = {(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)} & left
            left -= near
            front += near
        sizes.append(size)
    return sorted(sizes, reverse=True)


def slow(y, counts):
    """(weight, value) of every rule for one mask."""
    height, width = y.shape
    pixels = [(i, j) for i, j in itertools.product(range(height), range(width)) if counts[i, j]]
    on = {place for place in pixels if y[place]}
    share, sizes = len(on) / len(pixels), pieces(on)
    area = share / 0.2 if share < 0.2 else (1 - share) / 0.5 if share > 0.5 else 1.0
    largest = [sum(sizes[:most]) / len(on) if on else 1.0 for most in (1, 2)]
    agree = []
    for i, j in pixels:
        around = [(i + a, j + b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
        votes = [place in on for place in around if place in set(pixels)]
        agree.append(2 * sum(votes) == len(votes) or (2 * sum(votes) > len(votes)) == ((i, j) in on))
    values = [area, *largest, sum(agree) / len(agree)]
    return list(zip([2, 1, 0.5, 1], values, strict=True))


def test_a_reward_is_the_weighted_share_of_its_rules(tmp_path):
    (tmp_path / "rules.yaml").write_text(FILE)
    reward = MaskRuleReward(tmp_path / "rules.yaml")
    noise = torch.Generator().manual_seed(0)
    level = torch.tensor([0.0, 0.1, 0.3, 0.6, 1.0]).view(1, 5, 1, 1)
    y = (torch.rand(3, 5, 7, 6, generator=noise) < level).float()
    mask = torch.rand(3, 7, 6, generator=noise) < 0.9
    mask[0], mask[2] = True, False  # the last has gold
    found = reward(torch.zeros(3, 0).long(), y, mask)
    values = [[slow(one, counts) for one in row] for row, counts in zip(y[:2], mask[:2], strict=True)]
    expected = [[sum(w * s for w, s in rules) / 4.5 for rules in row] for row in values]
    torch.testing.assert_close(found[:2], torch.tensor(expected))
    assert found[2].tolist() == [1.0] * 5
    soft = y * 0.4 + 0.2  # relaxed masks count as their decisions
    assert torch.equal(reward(torch.zeros(3, 0).long(), soft, mask), found)


def test_a_rule_may_be_about_one_of_several_classes():
    names = ["ground", "road", "car"]
    reward = MaskRuleReward(
        [Rule("area", ("road",), values=(0.5, 1.0)), Rule("connected", ("car",), values=(1,))], names
    )
    own = torch.tensor([[[1, 1, 0], [2, 0, 2]]])
    y = torch.nn.functional.one_hot(own, 3).permute(0, 3, 1, 2).unsqueeze(1).float()
    values, _ = reward.parts(torch.zeros(1, 0), y, torch.ones(1, 2, 3).bool())
    torch.testing.assert_close(values[0, 0], torch.tensor([2 / 6 / 0.5, 0.5]))
    with pytest.raises(ValueError, match="does not say which of 3 classes; add `of: CLASS`"):
        MaskRuleReward([Rule("connected", values=(1,))], names)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{area: [0.5, 0.1]}", "the lowest share, 0.5, is above"),
        ("{connected: 0}", "`connected` is 0; it must be a whole number of at least 1"),
        ("{smooth: 4}", "must be an odd number"),
        ("{smooth: 3, of: horse}", "names the class 'horse'; the classes are background, foreground"),
    ],
)
def test_a_wrong_rule_is_named_with_its_line(tmp_path, rule, message):
    (tmp_path / "rules.yaml").write_text(f"rules:\n- {rule}\n")
    with pytest.raises(ValueError, match=rf"rules\.yaml, line 2: .*{message}"):
        MaskRuleReward(tmp_path / "rules.yaml")


def test_a_rule_of_several_classes_says_which(tmp_path):
    (tmp_path / "rules.yaml").write_text("rules:\n- {connected: 1}\n")
    with pytest.raises(ValueError, match=r"rules\.yaml, line 2: .* which of 3 classes; add `of: CLASS`"):
        MaskRuleReward(tmp_path / "rules.yaml", ["sky", "road", "car"])


def test_contradictions_are_found():
    rules = [
        *(Rule("area", values=(0.1, 0.3)), Rule("area", values=(0.4, 1.0))),
        *(Rule("area", values=(0.2, 0.4)), Rule("smooth", values=(3,))),
    ]
    found = {conflict.rules for conflict in MaskRuleReward(rules).conflicts([])}
    assert found == {(0, 1)}


def test_a_function_gets_images_and_masks():
    images = list(torch.arange(2 * 4 * 4 * 3).view(2, 4, 4, 3).byte().numpy())
    reward = MaskFunctionReward(lambda image, mask: float(image[0, 0, 0] == 48) * mask.mean(), ["b", "f"])
    y = torch.rand(2, 3, 4, 4)
    found = reward(torch.tensor(reward.codes(images)), y, torch.ones(2, 4, 4).bool())
    torch.testing.assert_close(found[1], (y[1] >= 0.5).float().mean((1, 2)))
    assert not found[0].any()
    wrong = MaskFunctionReward(lambda images, masks: masks.mean(), ["b", "f"], batched=True)
    with pytest.raises(ValueError, match=r"numbers of shape \(\) for the 2 rows from row 0 .* of shape \(4, 4, 3\)"):
        wrong(torch.tensor(wrong.codes(images)), y, torch.ones(2, 4, 4).bool())
