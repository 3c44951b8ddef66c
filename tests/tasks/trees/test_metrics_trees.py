"""Metrics of trees. Oracles: figures derived by hand by evalb's conventions."""

import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from test_structures_trees import random_tree

from seal_hf.core.trees import tree_tags
from seal_hf.data.brackets import read_brackets
from seal_hf.decisions import TagDecisions
from seal_hf.metrics import tree_compute_metrics, tree_metrics
from seal_hf.tasks.trees.metrics import bracket_counts, label_report

GOLD = "(S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (PRP it))) (. .))"


def tags(text):
    (tree,) = read_brackets(text.encode(), "x")
    return tree.tags


def pos(text):
    (tree,) = read_brackets(text.encode(), "x")
    return tree.pos


@pytest.mark.parametrize(
    "gold, predicted, counts",
    [  # right, predicted, gold
        (GOLD, GOLD, (4, 4, 4)),
        (GOLD, "(S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (PRP it)) (. .)))", (4, 4, 4)),  # where a full stop is
        (GOLD, "(S (NP (DT the) (NN cat) (VBD saw)) (NP (PRP it)) (. .))", (2, 3, 4)),  # S, NP over `it`
        (GOLD, "(S (VP (DT the) (NN cat)) (VP (VBD saw) (PRP it)) (. .))", (2, 3, 4)),  # a label; a missing NP
        (GOLD, "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (PRP it)))) (. .))", (4, 4, 4)),  # the root
        ("(NP (NP (NN a)) (, ,) (PP (IN b)))", "(NP (X (NN a) (, ,)) (PP (IN b)))", (2, 3, 3)),
        ("(X (PRN (, ,) (: -)) (NN a))", "(X (, ,) (NP (: -) (NN a)))", (1, 2, 1)),  # without a word: no bracket
        ("(VP (VB a) (PRT (RP b)))", "(VP (VB a) (ADVP (RP b)))", (2, 2, 2)),  # one label
        ("(NP (NP (NN a) (NN b)) (, ,))", "(NP (NN a) (NN b) (, ,))", (1, 1, 2)),  # twice the same bracket
        ("(NP (NP (NN a) (NN b)) (, ,))", "(NP (NP (NP (NN a) (NN b))) (, ,))", (2, 3, 2)),
        ("(X (-LRB- -LRB-) (NP (NN a)))", "(X (NP (-LRB- -LRB-) (NN a)))", (1, 2, 2)),  # brackets are words
        ("(NN a)", "(NN a)", (0, 0, 0)),
        ("(NN a)", "(NP (NN a))", (0, 1, 0)),
    ],
)
def test_brackets_are_counted_by_hand(gold, predicted, counts):
    assert bracket_counts([tags(predicted)], [tags(gold)], [pos(gold)]).tolist() == [list(counts)]


def test_the_figures_of_two_trees():
    wrong = "(S (NP (DT the) (NN cat) (VBD saw)) (NP (PRP it)) (. .))"
    predicted, gold, parts = [tags(GOLD), tags(wrong)], [tags(GOLD)] * 2, [pos(GOLD)] * 2
    figures = tree_metrics(predicted, gold, parts)
    assert figures == pytest.approx(
        {"accuracy": 7 / 10, "precision": 6 / 7, "recall": 6 / 8, "f1": 12 / 15, "exact_match": 1 / 2}
    )
    report = label_report(predicted, gold, parts)
    assert list(report) == ["NP", "S", "VP"] and report["S"]["f1"] == 1 and report["VP"]["recall"] == 0.5
    assert report["NP"] == pytest.approx({"precision": 3 / 4, "recall": 3 / 4, "f1": 3 / 4, "support": 4})


def test_brackets_of_random_trees_are_those_of_a_loop_over_words():
    rng = random.Random(3)
    for _ in range(100):
        length = rng.randint(2, 12)
        trees = [random_tree(rng, 0, length) for _ in range(2)]
        parts = [rng.choice(("NN", ",", ".", "-LRB-")) for _ in range(length)]
        sets = []
        for spans in trees:
            kept = [(s.type, tuple(i for i in range(s.start, s.end) if parts[i] not in ",.")) for s in spans]
            sets.append(Counter(pair for pair in kept if pair[1]))
        gold, ours = (tree_tags(spans, length) for spans in trees)
        expected = [sum((sets[0] & sets[1]).values()), sum(sets[1].values()), sum(sets[0].values())]
        assert bracket_counts([ours], [gold], [parts]).tolist() == [expected]


def test_a_trainer_gets_the_same_figures():
    wrong = "(S (NP (DT the) (NN cat) (VBD saw)) (NP (PRP it)) (. .))"
    rows = [tags(GOLD), tags(wrong)]
    names = sorted({tag for row in rows for tag in row})
    ids = np.array([[-100, *map(names.index, row)] for row in rows])
    metrics = tree_compute_metrics(names, [pos(GOLD)] * 2)
    given = SimpleNamespace(predictions=np.maximum(ids, 0), label_ids=np.stack([ids[0], ids[0]]))
    assert metrics(given) == tree_metrics(rows, [rows[0]] * 2, [pos(GOLD)] * 2)
    with pytest.raises(ValueError, match="1 rows are evaluated"):
        metrics(SimpleNamespace(predictions=np.maximum(ids, 0)[:1], label_ids=ids[:1]))
    with pytest.raises(ValueError, match="differ|as many"):
        bracket_counts([rows[0][:2]], [rows[0]], [pos(GOLD)])


def test_the_decoder_is_chosen_by_the_f1_of_brackets():
    """Of two decoders, one has more right tags, the other more right brackets."""
    gold = ["+3(NP)", "-1(VP)", "-1(S)", "+1(X)", "()"]
    more_tags = ["+3(NP)", "+0(VP)", "-1(S)", "+1(X)", "()"]
    more_brackets = ["+3(NP)", "-1(VP)", "-2(S)", "+2(X)", "()"]
    parts = [["NN"] * 5] * 40
    predicted = {"viterbi": [more_tags] * 40, "independent": [more_brackets] * 40}
    assert tree_metrics(predicted["viterbi"], [gold] * 40, parts)["accuracy"] > 0.7
    assert TagDecisions.fit(predicted, [gold] * 40, "plain", pos=parts).decoder == "independent"
    assert TagDecisions.fit(predicted, [gold] * 40, "plain").decoder == "viterbi"
