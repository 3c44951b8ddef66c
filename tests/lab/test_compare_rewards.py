"""Comparisons for few labelled rows and rules. Oracles: enumeration of all outputs, a loop over rows, the same command
with other gold in the rows whose gold is put aside."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset

from seal_hf import LabelRuleReward, Rule, TagSequenceSpace, load_masks, load_multilabel, load_tags
from seal_hf.cli.recipes import packaged_recipe, read_recipe
from seal_hf.core.space import REWARD_CODES, UNLABELLED_SET
from seal_hf.data import embedded
from seal_hf.energy_losses import NCE, Regression
from seal_hf.tasks.rewards.compare import MARKS, REWARDED, _confident, by_rules, decided_by_rules, label, most_rewarded
from seal_hf.tasks.rewards.mask_rules import MaskRuleReward
from seal_hf.tasks.rewards.reward import NoReward
from seal_hf.tasks.rewards.space import RewardLabelSpace
from seal_hf.tasks.rewards.tag_rules import TagRuleReward

pytestmark = pytest.mark.usefixtures("narrow_energies")

CLOCK = "train_seconds_per_epoch"
RULES = {
    "tagging": "- {words: 'w[0-4]', are: X}\n- {once: X}\n",
    "segmentation": "- {area: [0.05, 0.5]}\n- {connected: 1}\n",
}
FEW = "--num_train_epochs 1 --per_device_train_batch_size 8 --num_samples 4 --num_labelled 4".split()


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Of the embedded data."""
    monkeypatch.setattr(embedded, "TAG_SIZES", {"train": 12, "validation": 6, "test": 10})
    monkeypatch.setattr(embedded, "MASK_SIZES", {"train": 8, "validation": 4, "test": 4})


def written(folder, kind):
    (folder / "rules.yaml").write_text("rules:\n" + RULES[kind])
    return ["--rules", str(folder / "rules.yaml")]


def sentences(folder, changed=()):
    """Training, validation and test rows as files; the tags of `changed` training rows are exchanged."""
    folder.mkdir(exist_ok=True)
    rng, other = np.random.default_rng(0), {"A": "B", "B": "A"}
    for split, size in (("train", 14), ("dev", 6), ("test", 8)):
        blocks = []
        for row in range(size):
            words = rng.integers(9, size=4)
            tags = ["A" if (word + rng.integers(4)) % 2 else "B" for word in words]
            tags = [other[tag] for tag in tags] if split == "train" and row in changed else tags
            blocks.append("\n".join(f"w{word} {tag}" for word, tag in zip(words, tags, strict=True)))
        (folder / f"{split}.conll").write_text("\n\n".join(blocks) + "\n")
    return folder


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tagging", "segmentation"])
def test_every_method_runs_for_tags_and_masks(program, tmp_path, kind):
    nets = ["--hidden_size", "8"] if kind == "tagging" else ["--image_size", "16"]
    words = ["rewards", *written(tmp_path, kind), *FEW, *nets, "--losses", "all", "--output_dir", str(tmp_path / "out")]
    runs = program.main(words)
    found = runs.all()
    assert set(found) == set(REWARDED[kind].methods)
    metric = "test_accuracy" if kind == "tagging" else "test_mean_iou"
    assert all(0 <= run[metric] <= 1 for (run,) in found.values())
    assert "| `rewards` an energy of gold and rewards" in (tmp_path / "out/table.md").read_text()
    assert runs.identity()["kind"] == f"rewards {kind}" and len(runs.identity()["rules_contents"]) == 16


@pytest.mark.long
def test_label_sets_are_searched_with_equal_trials_and_resumed(program, tmp_path, monkeypatch):
    """Cut off in the second round of self-training, which has the settings of the first and no trials of its own."""
    pytest.importorskip("optuna")
    (tmp_path / "rules.yaml").write_text("rules:\n- {at_least: 1}\n- {rates: {several: 0.4}}\n")
    names = ["few", "self_training", "rules_as_labels", "rewards"]
    words = ["rewards", "--rules", str(tmp_path / "rules.yaml"), *FEW, "--max_train_rows", "24", "--hidden_size", "8"]
    words += ["--global_size", "4", "--losses", *names, "--budget", "2"]
    whole = program.main([*words, "--output_dir", str(tmp_path / "whole")])
    found = {name: whole.settings(name) for name in [*names, "self_training_once"]}
    assert found.pop("self_training") is None and all(each["trials"] == 2 for each in found.values())
    (second,) = whole.all()["self_training"]
    assert second["searched"] == found["self_training_once"]["settings"] and "confidence" in second["searched"]
    started, prepared_of = [], program.Comparison._prepared

    def counted(self, name, settings, folder):
        if "check" not in folder:
            started.append(name)
            if len(started) == 7:
                raise KeyboardInterrupt
        return prepared_of(self, name, settings, folder)

    monkeypatch.setattr(program.Comparison, "_prepared", counted)
    part = [*words, "--output_dir", str(tmp_path / "part")]
    with pytest.raises(KeyboardInterrupt):
        program.main(part)
    assert started[-1] == "self_training"
    without = lambda runs: {name: [{**run, CLOCK: 0} for run in found] for name, found in runs.all().items()}  # noqa: E731
    assert without(program.main(part)) == without(whole)
    started.clear()
    again = program.main([*part, "--seeds", "1", "2"])  # with another seed the finished runs stay, and so do searches
    assert started == [*names[:1], "self_training_once", *names[1:]]
    assert all(len(found) == 2 for found in again.all().values())


@pytest.mark.long
def test_no_method_reads_gold_that_is_put_aside(program, tmp_path):
    """All runs of all methods are the same with other tags in those rows."""
    data = sentences(tmp_path / "data")
    kept, whole = load_tags(data, num_labelled=4).train["words"][:], load_tags(data).train["words"][:]
    aside = [row for row, words in enumerate(whole) if words not in kept]
    assert len(aside) == 10
    (tmp_path / "rules.yaml").write_text("rules:\n- {words: 'w[0-4]', are: A}\n- {present: B}\n")
    names, found = [name for name in REWARDED["tagging"].methods if name != "rewards_default"], []
    for i, changed in enumerate(((), aside)):
        sentences(data, changed)
        words = ["rewards", "--dataset", str(data), "--rules", str(tmp_path / "rules.yaml"), *FEW]
        words += ["--hidden_size", "8", "--losses", *names, "--output_dir", str(tmp_path / f"{i}")]
        runs = program.main(words).all()
        found.append({name: [{**run, CLOCK: 0} for run in of_name] for name, of_name in runs.items()})
    assert found[0] == found[1] and set(found[0]) == set(names)


@pytest.mark.parametrize("word", REWARDED)
def test_the_default_weight_of_the_energy_stands_over_a_recipe_that_fixes_it(word):
    kind = REWARDED[word]
    recipe = {**read_recipe(packaged_recipe(kind.recipe({}))), "energy_weight": 1.0}
    for name, weight in (("rewards", 1.0), ("rewards_default", None)):
        arguments = kind.program.parse([], {**recipe, **kind.methods[name].settings})
        assert arguments.training.energy_weight == weight


@pytest.mark.parametrize(
    "words, message",
    [
        ("rewards mcl", "no kind of output 'mcl'. Did you mean 'mlc'"),
        ("rewards mlc --losses rules_applied --num_labelled 4", "`rules` is missing"),
        ("rewards mlc --rules RULES --losses rewards", "digits has no unlabelled rows"),
        ("rewards mlc --rules RULES --num_labelled 4 --losses crf", "method 'crf' is of `compare tagging`"),
        ("mlc --losses self_training", "method 'self_training' is of `compare rewards mlc`"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(program, tmp_path, words, message):
    (tmp_path / "rules.yaml").write_text("rules:\n- {at_least: 1}\n")
    given = words.replace("RULES", str(tmp_path / "rules.yaml")).split()
    with pytest.raises(ValueError, match=message):
        program.main([*given, "--output_dir", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


# --- the rules as a predictor ----------------------------------------------------------------------------------------


def all_sets(size):
    return torch.tensor([[i >> j & 1 for j in range(size)] for i in range(2**size)]).float()


def test_the_votes_are_those_of_the_values_that_are_returned(monkeypatch):
    """Also where the ascent is cut: from one label, the reward of exactly two labels is raised by one more."""
    monkeypatch.setattr("seal_hf.tasks.rewards.compare.MOST_SWEEPS", 1)
    reward = lambda codes, y, mask: 1 - (y.sum(-1) - 2).abs() / 4  # noqa: E731
    mask = torch.ones(1, 4, dtype=torch.bool)
    found, voted = most_rewarded(reward, torch.zeros(1, 1), mask, torch.tensor([1, 0, 0, 0]), 2, is_set=True)
    assert found.sum() == 2 and voted.all()
    calm = lambda codes, y, mask: (y.sum(-1) > 0).float()  # noqa: E731
    found, voted = most_rewarded(calm, torch.zeros(1, 1), mask, torch.zeros(4, dtype=torch.long), 2, is_set=True)
    assert found.sum() == 4 and not voted.any()


def test_the_best_set_is_that_of_enumeration_and_votes_are_changes_of_the_reward():
    names = list("abcd")
    rules = [Rule("keywords", ("a",), "red", 2.0), Rule("keywords_against", ("b",), "red"), Rule("implies", ("a", "c"))]
    reward = LabelRuleReward(rules, names)
    codes = torch.tensor(reward.codes(["red", "blue"]))
    mask = torch.ones(2, 4, dtype=torch.bool)
    found, voted = most_rewarded(reward, codes, mask, torch.tensor([0, 1, 0, 0]), 2, is_set=True)
    every = reward(codes, all_sets(4).expand(2, -1, -1), mask)
    assert torch.equal(reward(codes, found.float().unsqueeze(1), mask)[:, 0], every.amax(1))
    assert found[0].tolist() == [1, 0, 1, 0] and found[1].tolist() == [0, 1, 0, 0]
    assert voted.tolist() == [[True, True, True, False], [True, False, False, False]]


def test_rules_decide_tags_and_masks():
    data = load_tags(num_labelled=4)
    reward = TagRuleReward([Rule("words", ("X",), "w1"), Rule("words", ("Y",), "w2")], data.label_names)
    decided = decided_by_rules(reward, data, data.test)
    usual = max(data.label_names, key=[data.label_names[t] for row in data.train["tags"] for t in row].count)
    for words, tags in zip(data.test["words"], decided, strict=True):
        for word, tag in zip(words, tags, strict=True):
            wanted = "X" if "w1" in word else "Y" if "w2" in word else None
            assert tag[-1] == wanted if wanted else tag == usual or tag[2:] == usual[2:]
    masks = load_masks(image_size=16, num_labelled=4)
    area = MaskRuleReward([Rule("area", values=(0.0, 0.01))])
    (first, *others) = decided_by_rules(area, masks, masks.test)
    own = area(torch.zeros(1, 0), torch.from_numpy(masks.train.masks)[None].float(), torch.ones(1, 16, 16).bool())
    of_first = area(torch.zeros(1, 0), torch.from_numpy(first)[None, None].float(), torch.ones(1, 16, 16).bool())
    assert of_first.item() >= own.max().item() and all(np.array_equal(first, other) for other in others)


# --- rows without gold -----------------------------------------------------------------------------------------------


def test_rows_without_gold_get_the_labels_of_a_labeller_and_others_keep_theirs():
    from seal_hf import Vocabulary, encode_words, reward_rows

    data = load_tags(num_labelled=3)
    vocabulary = Vocabulary.from_data(data.train)
    rows = reward_rows(data, lambda split: encode_words(split, vocabulary), NoReward(data.label_names))
    before = rows.batch(range(len(rows)))["labels"]
    label(rows, data, lambda batch, missing: torch.full_like(batch["labels"], 2))
    after = rows.batch(range(len(rows)))["labels"]
    assert torch.equal(after, before.masked_fill(before == MARKS[type(data)][0], 2)) and (before[3:] == -1).any()


def test_a_teacher_labels_where_it_is_sure():
    logits = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)) * 2
    teacher = lambda **inputs: SimpleNamespace(logits=logits)  # noqa: E731
    batch = {"input_ids": torch.zeros(2, 5).long(), "labels": torch.full((2, 5), -1)}
    found = _confident(teacher, TagSequenceSpace(["A", "B", "O"]), 0.7, -100, batch, batch["labels"] == -1)
    for row, p in zip(found, logits.softmax(-1), strict=True):
        for tag, each in zip(row.tolist(), p.tolist(), strict=True):
            assert tag == (each.index(max(each)) if max(each) >= 0.7 else -100)


def test_a_teacher_that_decodes_a_chain_reads_no_padding():
    """The same sentences alone and padded, with tags that may follow only some others."""
    logits = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)) * 2
    logits[1, 3:] = torch.tensor([-9.0, 9.0, -9.0])  # of padding
    labels = torch.full((2, 5), -1)
    labels[1, 3:] = -100
    space = TagSequenceSpace(["O", "B-x", "I-x"], constrained=True)

    def found(rows, length):
        given = {"input_ids": torch.zeros(1, length).long(), "labels": labels[rows, :length]}
        teacher = lambda **inputs: SimpleNamespace(logits=logits[rows, :length])  # noqa: E731
        return _confident(teacher, space, 0.5, -100, given, given["labels"] == -1)

    assert torch.equal(found([1], 5)[:, :3], found([1], 3)) and torch.equal(found([0, 1], 5)[:1], found([0], 5))


def test_the_expected_reward_has_the_gradient_of_enumeration():
    """The mean over 20,000 samples; rows with gold keep their gradient."""
    reward = LabelRuleReward([Rule("exactly", values=(1, 1)), Rule("implies", ("a", "b"))], list("abc"))
    labels = torch.tensor([[1, 0, 0], [UNLABELLED_SET] * 3]).float()
    logits = torch.tensor([[0.3, -1.0, 0.5], [0.2, -0.4, 1.0]], requires_grad=True)
    batch = {"labels": labels, REWARD_CODES: torch.tensor(reward.codes(["", ""])).long()}
    space = RewardLabelSpace(reward)
    plain = space.of(batch).task_loss(logits, labels)
    space.expecting(2.0, 20000)
    space = space.of(batch)
    assert space.task_loss(logits, labels) == plain  # in an evaluation
    loss = space.task_loss(logits, labels, torch.Generator().manual_seed(0))
    sets, mask = all_sets(3).expand(2, -1, -1), torch.ones(2, 3, dtype=torch.bool)
    p = RewardLabelSpace(reward).log_prob(logits, sets)[1].exp()
    exact = plain - 2.0 * (p * reward(batch[REWARD_CODES], sets, mask)[1]).sum() / 2
    torch.testing.assert_close(loss, exact, atol=0.01, rtol=0)
    ours, wanted = (torch.autograd.grad(each, logits, retain_graph=True)[0] for each in (loss, exact))
    torch.testing.assert_close(ours, wanted, atol=0.01, rtol=0)
    with pytest.raises(ValueError, match="needs at least 2"):
        space.expecting(1.0, 1)


def test_without_rules_rows_without_gold_teach_the_energy_nothing():
    with pytest.raises(ValueError, match="energy_loss='regression' would learn .* that every output is good"):
        RewardLabelSpace(NoReward(list("abc"))).check_loss(Regression(), 3)
    labels = torch.tensor([[1, 0, 0], [UNLABELLED_SET] * 3]).float()
    space = RewardLabelSpace(NoReward(list("abc"))).of({"labels": labels, REWARD_CODES: torch.zeros(2, 1).long()})
    loss = NCE(num_samples=6)
    candidates = loss.candidates(space, torch.randn(2, 3), labels, torch.Generator().manual_seed(0))
    assert (candidates.y[1, 1:] == 0).all() and candidates.y[0, 2:].any()
    weights = torch.randn(3, requires_grad=True)
    energies = (candidates.y * weights).sum(-1) + (candidates.y.sum(-1) - 1).square() * weights.sum()
    (of_second,) = torch.autograd.grad(loss(energies[1:], _row(candidates, 1)), weights, retain_graph=True)
    (of_first,) = torch.autograd.grad(loss(energies[:1], _row(candidates, 0)), weights)
    assert of_second.abs().max() < 1e-6 < of_first.abs().max()


def _row(candidates, i):
    values = {name: value[i : i + 1] for name, value in vars(candidates).items() if isinstance(value, torch.Tensor)}
    return type(candidates)(**values)


def test_where_no_rule_votes_labels_are_unknown():
    texts = {"text": ["x", "y", "z"], "labels": [["a"], ["b"], ["b"]]}
    data = load_multilabel({split: Dataset.from_dict(texts) for split in ("train", "validation")})
    reward = LabelRuleReward([Rule("keywords", ("a",), "red")], data.label_names)
    codes = torch.tensor(reward.codes(["red", "blue"]))
    found, voted = by_rules(reward, data)(codes, torch.ones(2, 2, dtype=torch.bool))
    assert found.tolist() == [[1, 1], [0, 1]] and voted.tolist() == [[True, False], [False, False]]
