"""Oracles: the plain space on rows with gold, the reward itself on rows without, encodings of the data's own tags."""

import json
import sys

import pytest
import torch
import torch.nn.functional as F
from tiny_models import tiny_config, tiny_tokenizer
from transformers import BertForTokenClassification
from transformers.trainer_callback import PrinterCallback

from seal_hf import (
    DataError,
    RewardTagSpace,
    Rule,
    SealForTokenClassification,
    SealTrainer,
    SealTrainingArguments,
    TagFunctionReward,
    TagRuleReward,
    TagSequenceSpace,
    Vocabulary,
    encode_words,
    load_tags,
    reward_rows,
    tokenize_words,
)
from seal_hf.core.space import REWARD_CODES
from seal_hf.energy_losses import NCE, Margin
from seal_hf.tasks.rewards import program as rewards
from seal_hf.tasks.rewards.reward import read_function

TAGS = ["O", "B-X", "I-X"]


def half(codes, y, mask):
    """A reward that tells candidates and rows apart: the share of tag 0, times the first code."""
    share = (y[..., 0] * mask.unsqueeze(1)).sum(-1) / mask.sum(1, keepdim=True)
    return share * codes[:, :1] / 10


def batch():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 4, 3, generator=generator)
    labels = torch.tensor([[0, 1, 2, -100], [-1, -1, -100, -1], [1, -100, -100, -100]])
    return logits, labels, {REWARD_CODES: torch.tensor([[7, 0, 0, 0], [5, 0, 0, 0], [3, 0, 0, 0]])}


def test_rows_with_gold_are_scored_by_gold_and_the_others_by_the_reward():
    logits, labels, codes = batch()
    space, plain = RewardTagSpace(half, TAGS), TagSequenceSpace(TAGS)
    gold, mask = space.gold(labels)
    assert torch.equal(mask, labels != -100) and not gold[1].any()
    y = space.sample(logits, 5, torch.Generator().manual_seed(1))
    known, rewards = space.of({"labels": labels, **codes}), half(codes[REWARD_CODES], y, mask)[1]
    with_gold = [0, 2]
    best = known.best(gold, y, mask)
    assert torch.equal(best[with_gold], gold[with_gold])
    assert torch.equal(best[1], y[1, rewards.argmax()] * mask[1].unsqueeze(1))
    for found, expected, of_reward in [
        (known.score(y, gold, mask), plain.score(y[with_gold], *plain_gold(plain, labels[with_gold])), rewards),
        (known.cost(y, best, "f1", mask), 1 - plain.score(y[with_gold], *plain_gold(plain, labels[with_gold])), None),
    ]:
        assert torch.equal(found[with_gold], expected)
        assert torch.equal(found[1], rewards.max() - rewards if of_reward is None else rewards)
    assert space.codes is None and space.of({}) is space
    with pytest.raises(ValueError, match=f"no column `{REWARD_CODES}`"):
        space.score(y, gold, mask)


def test_the_reward_is_asked_once_for_a_candidate_and_only_without_gold():
    logits, labels, _ = batch()
    asked = []

    def outside(words, tags):
        asked.append((*words, *tags))
        return tags.count("O") / len(tags)

    reward = TagFunctionReward(outside, TAGS)
    sentences = [["a", "b", "c", "-"], ["d", "e", "-", "f"], ["g", "-", "-", "-"]]
    space = RewardTagSpace(reward, TAGS)
    space = space.of({"labels": labels, REWARD_CODES: torch.tensor(reward.codes(sentences))})
    gold, mask = space.gold(labels)
    y = space.sample(logits, 5, torch.Generator().manual_seed(1))
    y[1, 4] = y[1, 0]
    different = {tuple(TAGS[tag] for tag in one[mask[1]].tolist()) for one in y[1].argmax(-1)}
    first = space.score(y, gold, mask)
    assert set(asked) == {("d", "e", "f", *tags) for tags in different} and len(asked) == len(different) < 5
    best = space.best(gold, y, mask)
    assert torch.equal(space.score(y, best, mask)[1], first[1])
    assert space.cost(y, best, "f1", mask)[1].min() == 0
    assert len(asked) == len(different)  # nor twice for two questions about the same


def plain_gold(space, labels):
    return space.gold(labels)


def test_the_task_loss_is_that_of_rows_with_gold_however_a_batch_is_divided():
    logits, labels, _ = batch()
    logits.requires_grad_()
    space = RewardTagSpace(half, TAGS)
    loss = space.task_loss(logits, labels)
    assert torch.allclose(loss, TagSequenceSpace(TAGS).task_loss(logits[[0, 2]], labels[[0, 2]]) * 2 / 3)
    parts = [space.task_loss(logits[[i]], labels[[i]]) for i in range(3)]
    assert torch.allclose(loss, sum(parts) / 3)
    loss.backward()
    assert not logits.grad[1].any()
    assert RewardTagSpace(half, TAGS).task_loss(logits, labels[[1, 1, 1]]) == 0


def test_a_loss_that_needs_gold_is_refused():
    with pytest.raises(ValueError, match="energy_loss='margin' contrasts .* Use regression, or a loss with samples"):
        RewardTagSpace(half, TAGS).check_loss(Margin(), 3)


def test_gold_is_mixed_in_where_there_is_gold():
    """Elsewhere the samples are the task-net's own, and so is their probability."""
    logits, labels, codes = batch()
    space, plain = RewardTagSpace(half, TAGS).of({"labels": labels, **codes}), TagSequenceSpace(TAGS)
    loss = NCE(num_samples=5, gold_mix=0.5)
    found = loss.candidates(space, logits, labels, torch.Generator().manual_seed(1))
    own = plain.log_prob(logits, found.y[:, 1:], found.mask)
    mixed = plain.log_prob(plain.mix(logits, plain.gold(labels)[0], 0.5), found.y[:, 1:], found.mask)
    torch.testing.assert_close(found.log_noise, torch.stack([mixed[0], own[1], mixed[2]]))


def test_a_balance_with_a_task_loss_that_most_rows_lack_is_refused(toy, tmp_path):
    reward = TagRuleReward([Rule("words", ("O",), r"w\d+")], toy.label_names)
    vocabulary = Vocabulary.from_data(toy.train)
    seal = SealForTokenClassification.for_data(toy, vocabulary=vocabulary, hidden_size=16, word_size=16)
    rows = reward_rows(toy, lambda split: encode_words(split, vocabulary), reward)
    balanced = dict(energy_weight=0.1, energy_weight_balance=True)
    with pytest.raises(ValueError, match="`energy_weight_balance` makes .* Leave it out, and set `energy_weight`"):
        train(toy, seal, rows, tmp_path, RewardTagSpace(reward, toy.label_names), **balanced)


@pytest.fixture(scope="module")
def toy():
    return load_tags(num_labelled=6, max_train_rows=30)


def words_of(data, repeat=1):
    return data.train["words"][:] * repeat + data.unlabelled["words"][:]


def test_rows_carry_codes_and_hide_the_missing_tags(toy):
    reward = TagFunctionReward(lambda words, tags: 1, toy.label_names)
    vocabulary = Vocabulary.from_data(toy.train)
    rows = reward_rows(toy, lambda split: encode_words(split, vocabulary), reward, repeat_labelled=2)
    assert len(rows) == 2 * 6 + 24
    got, names = rows.batch(range(len(rows))), list(reward.words)
    for i, words in enumerate(words_of(toy, 2)):
        assert [names[code] for code in got[REWARD_CODES][i, : len(words)]] == words
        counted = got["labels"][i, : len(words)].tolist()
        assert counted == (toy.train["tags"][i % 6] if i < 12 else [-1] * len(words))
        assert (got["labels"][i, len(words) :] == -100).all()


def test_of_sub_words_the_first_has_the_code(toy):
    """Words unknown to the tokenizer become its unknown token, one each; special tokens have code 0."""
    reward = TagRuleReward([Rule("words", ("O",), r"w1\b"), Rule("words", ("X",), r"w[0-9]\b")], toy.label_names)
    rows = reward_rows(toy, lambda split: tokenize_words(split, tiny_tokenizer()), reward)
    got = rows.batch(range(len(rows)))
    for i, (words, codes) in enumerate(zip(words_of(toy), reward.codes(words_of(toy)), strict=True)):
        assert got[REWARD_CODES][i, got["labels"][i] != -100].tolist() == codes, words
        assert not got[REWARD_CODES][i, got["labels"][i] == -100].any()


def test_what_is_missing_is_said(toy):
    reward = TagFunctionReward(lambda words, tags: 1, toy.label_names)
    with pytest.raises(DataError, match="no unlabelled rows; load it with `num_labelled`"):
        reward_rows(load_tags(max_train_rows=5), None, reward)
    with pytest.raises(DataError, match="`repeat_labelled` is 0"):
        reward_rows(toy, None, reward, repeat_labelled=0)


def train(data, seal, rows, folder, space, **options):
    quiet = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no", "logging_steps": 5}
    args = SealTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=8,
        learning_rate=1e-2,
        loss_net_learning_rate=1e-2,
        num_samples=4,
        **{**quiet, "energy_loss": "regression_s", "regression_samples": "discrete", **options},
    )
    trainer = SealTrainer(seal, args, train_dataset=rows, space=space)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer


@pytest.mark.parametrize(
    ("loss", "hypergradient"),
    [("regression_s", "neumann"), ("contrastive_divergence", "none"), ("ranking", "none")],
)
def test_the_reward_alone_teaches_the_task_net(toy, tmp_path, loss, hypergradient):
    """No cross-entropy: the energy of the reward is all there is. The reward wants the tag O everywhere, so the
    task-net comes to give it, which none of the rows' own tags would tell."""
    reward = TagRuleReward([Rule("changes_after", (), "nowhere", 0.1), Rule("words", ("O",), r"w\d+")], toy.label_names)
    torch.manual_seed(0)
    vocabulary = Vocabulary.from_data(toy.train)
    seal = SealForTokenClassification.for_data(toy, vocabulary=vocabulary, hidden_size=16, word_size=16)
    rows = reward_rows(toy, lambda split: encode_words(split, vocabulary), reward)
    options = {"task_weight": 0.0, "energy_weight": 20.0, "max_steps": 60}
    options |= {"energy_loss": loss, "hypergradient": hypergradient}
    trainer = train(toy, seal, rows, tmp_path, RewardTagSpace(reward, toy.label_names), **options)
    got = rows.batch(range(6, 30))
    mask = got["labels"] == -1
    with torch.no_grad():
        logits = trainer.model(input_ids=got["input_ids"], attention_mask=got["attention_mask"]).logits
    y = F.one_hot(logits.argmax(-1), len(toy.label_names)).float()
    assert reward(got[REWARD_CODES], y.unsqueeze(1), mask).mean() > 0.9


def test_the_example_trains_saves_and_predicts(tmp_path):
    (tmp_path / "rules.yaml").write_text("rules: [{words: w1, are: X}, {present: [X, Y]}]")
    options = {"rules": tmp_path / "rules.yaml", "output_dir": tmp_path / "run", "max_train_rows": 40, "scheme": "bio"}
    options |= {"num_labelled": 5, "hidden_size": 16, "num_train_epochs": 1, "report_to": "none", "use_cpu": True}
    options |= {"constrained_decoding": True, "report": False}
    metrics = rewards.main([part for name, value in options.items() for part in (f"--{name}", str(value))])
    assert 0 < metrics["test_accuracy"] < 1
    saved = SealForTokenClassification.from_pretrained(tmp_path / "run")
    assert saved.loss_net.config.energy == "chain" and (tmp_path / "run" / "_predictions_test.jsonl").is_file()


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """`my_rewards`, on Python's path while the test runs."""
    (tmp_path / "my_rewards.py").write_text(
        "def outside(words, tags):\n    return tags.count('O') / len(tags)\nlimit = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_rewards", None)


def run_rewards(folder, *options):
    quiet = ["--report_to", "none", "--use_cpu", "true", "--scheme", "bio", "--num_labelled", "5"]
    return rewards.main([*quiet, "--max_train_rows", "30", "--output_dir", str(folder / "run"), *options])


def test_a_function_of_the_users_own_is_a_reward(own_module, tmp_path):
    """It wants the outside tag everywhere, and gets it where it is all that is trained for."""
    options = ["--eval_strategy", "no", "--save_strategy", "no", "--load_best_model_at_end", "false"]
    sizes = ["--hidden_size", "16", "--num_train_epochs", "15", "--learning_rate", "1e-2", "--num_samples", "4"]
    weights = ["--task_weight", "0", "--energy_weight", "20", "--loss_net_learning_rate", "1e-2"]
    run_rewards(tmp_path, "--reward", "my_rewards:outside", *sizes, *weights, *options)
    lines = (tmp_path / "run/_predictions_test.jsonl").read_text().splitlines()
    tags = [tag for line in lines for tag in json.loads(line)["predicted"]]
    assert tags.count("O") > 0.9 * len(tags)


@pytest.mark.parametrize(
    "name, message",
    [
        ("rules/my_rewards.py:outside", "it must be MODULE:FUNCTION"),
        ("my_rewards", "it must be MODULE:FUNCTION"),
        ("my_rewards:inside", "cannot be imported: .*inside"),
        ("no_such_rewards:outside", "cannot be imported: .*PYTHONPATH"),
        ("my_rewards:limit", "a int; it must be a function"),
    ],
)
def test_a_function_that_is_none_is_named(own_module, name, message):
    with pytest.raises(ValueError, match=message):
        read_function(name)


def test_a_recipe_names_no_code(own_module, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("reward: my_rewards:outside\n")
    with pytest.raises(ValueError, match="`reward` is in the recipe.*give --reward"):
        run_rewards(tmp_path, "--recipe", str(recipe))
    assert "my_rewards" not in sys.modules
    with pytest.raises(ValueError, match="`rules` is missing: .*--reward MODULE:FUNCTION"):
        run_rewards(tmp_path)


def test_a_recipe_that_leaves_no_row_unlabelled_is_refused(tmp_path):
    (tmp_path / "rules.yaml").write_text("rules: [{words: w1, are: X}]")
    (tmp_path / "recipe.yaml").write_text(f"rules: {tmp_path / 'rules.yaml'}\nreport_to: none\nuse_cpu: true\n")
    with pytest.raises(ValueError, match="toy_tags has no unlabelled rows; load it with `num_labelled`"):
        rewards.main(["--recipe", str(tmp_path / "recipe.yaml"), "--output_dir", str(tmp_path / "run")])


def test_an_encoder_trains_with_a_reward(toy, tmp_path):
    torch.manual_seed(0)
    labels = {"id2label": dict(enumerate(toy.label_names)), "label2id": {n: i for i, n in enumerate(toy.label_names)}}
    config = tiny_config("bert", max_position_embeddings=64, problem_type=None)
    config.update(labels)
    BertForTokenClassification(config).save_pretrained(tmp_path / "bert")
    seal = SealForTokenClassification.for_data(toy, str(tmp_path / "bert"))
    reward = TagFunctionReward(lambda words, tags: tags.count("O") / len(tags), toy.label_names)
    rows = reward_rows(toy, lambda split: tokenize_words(split, tiny_tokenizer()), reward, repeat_labelled=4)
    trainer = train(toy, seal, rows, tmp_path, RewardTagSpace(reward, toy.label_names), max_steps=5)
    losses = [line["loss_net_loss"] for line in trainer.state.log_history if "loss_net_loss" in line]
    assert losses and all(value == value for value in losses)
