"""Tag sequences in which no core role begins twice. Oracle: all C^T sequences."""

import itertools

import pytest
import torch
from torch import nn

from seal_hf.tasks.tags.chains import CRF, FREE, sequence_score, unique_viterbi, viterbi
from seal_hf.tasks.tags.metrics import core_role_violations
from seal_hf.tasks.tags.space import TagSequenceSpace
from seal_hf.tasks.tags.task_losses import CRFLoss

BIO = ["O", "B-A0", "I-A0", "B-A1", "B-C-A0"]
BIOES = ["O", "B-A0", "E-A0", "S-A0", "S-A1"]


def best_by_hand(emissions, mask, roles, transitions, start, end):
    """The highest score of a sequence that repeats no role, for each row."""
    found = []
    for row, counted in zip(emissions, mask, strict=True):
        row = row[counted]
        every = itertools.product(range(len(roles)), repeat=len(row))
        begun = ((tags, [roles[tag] for tag in tags if roles[tag] != FREE]) for tags in every)
        y = torch.tensor([tags for tags, those in begun if len(set(those)) == len(those)])
        scores = sequence_score(row.expand(len(y), -1, -1), transitions, y, torch.ones_like(y) > 0, start, end)
        found.append(scores.max())
    return torch.stack(found)


@pytest.mark.parametrize("roles", [[0, 1, 0, FREE], [0, 1, 2, FREE], [FREE, 0, FREE, 0]])
def test_it_is_the_best_of_all_sequences_that_repeat_nothing(roles):
    """At random, with holes, with forbidden transitions; some rows repeat a role without it, and some do not."""
    torch.manual_seed(0)
    emissions, transitions = 2 * torch.randn(24, 5, 4, dtype=torch.float64), torch.randn(4, 4).double()
    start, end = torch.randn(2, 4).double()
    transitions[3, 0] = -float("inf")
    mask = torch.rand(24, 5) < 0.9
    mask[:, 0] |= ~mask.any(1)
    weights = (transitions, start, end)
    found = unique_viterbi(emissions, mask, torch.tensor(roles), *weights)
    assert (found[~mask] == -100).all()
    reached = sequence_score(emissions, transitions, found, mask, start, end)
    torch.testing.assert_close(reached, best_by_hand(emissions, mask, roles, *weights))
    free = viterbi(emissions, transitions, mask, start, end)
    same = (free == found).all(1)
    assert 0 < same.sum() < len(same)


def test_many_roles_are_followed_as_they_are_repeated():
    """Every position prefers the same role, so that each result repeats another one: six of six are followed."""
    roles = torch.tensor([0, 1, 2, 3, 4, 5, FREE])
    emissions = torch.tensor([6.0, 5, 4, 3, 2, 1, 0]).repeat(1, 8, 1)
    nothing = torch.zeros(7)
    found = unique_viterbi(emissions, torch.ones(1, 8, dtype=torch.bool), roles, torch.zeros(7, 7), nothing, nothing)
    assert sorted(found[0].tolist()) == [0, 1, 2, 3, 4, 5, 6, 6]


@pytest.mark.parametrize("names", [BIO, BIOES])
@pytest.mark.parametrize("with_crf", [False, True])
def test_a_space_of_semantic_roles_decodes_by_it(names, with_crf):
    torch.manual_seed(1)
    crf = CRF(len(names))
    for values in crf.parameters():
        nn.init.normal_(values)
    space = TagSequenceSpace(names, CRFLoss(names, crf) if with_crf else None)
    assert space.decoders[-1] == "unique_roles"
    space = space.decided_by("unique_roles")
    logits, mask = 3 * torch.randn(40, 4, len(names)), torch.ones(40, 4, dtype=torch.bool)
    tags = [[names[tag] for tag in row] for row in space.decode(logits, mask=mask).tolist()]
    scheme = "bio" if names is BIO else "bioes"
    plain = space.decided_by("constrained_viterbi" if with_crf else "constrained").decode(logits, mask=mask)
    assert core_role_violations(tags, scheme) == 0
    assert core_role_violations([[names[tag] for tag in row] for row in plain.tolist()], scheme) > 0.1
    begun = [names.index(name) for name in names if name[0] in "BS" and "C-" not in name]
    role = {tag: names[tag][2:] for tag in begun}
    transitions, start, end = space.constraints
    if with_crf:
        transitions, start, end = crf.transitions + transitions, crf.start + start, crf.end + end
    roles = [sorted(set(role.values())).index(role[tag]) if tag in role else FREE for tag in range(len(names))]
    with torch.no_grad():
        found = torch.tensor([[names.index(tag) for tag in row] for row in tags])
        reached = sequence_score(logits, transitions, found, mask, start, end)
        torch.testing.assert_close(reached, best_by_hand(logits, mask, roles, transitions, start, end))


def test_tags_without_core_roles_or_scheme_have_no_such_decoder():
    for names in (["O", "B-PER", "I-PER"], ["NN", "A0"], ["NN", "B-A0"]):
        assert "unique_roles" not in TagSequenceSpace(names).decoders
