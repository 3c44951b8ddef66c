"""Oracles: the plain space on rows with gold, the reward itself on rows without; the same run with other gold in rows
whose gold is put aside; the few labelled rows alone, and all of them."""

import json

import numpy as np
import pytest
import torch
from transformers import set_seed
from transformers.trainer_callback import PrinterCallback

from seal_hf import (
    MaskRows,
    MultiLabelSpace,
    Rule,
    SealForMultiLabel,
    SealForSegmentation,
    SealTrainer,
    SealTrainingArguments,
    load_masks,
    load_multilabel,
    load_tags,
    reward_rows,
)
from seal_hf.core.space import REWARD_CODES, UNLABELLED_PIXEL, UNLABELLED_SET
from seal_hf.data.tensors.collators import TensorRows
from seal_hf.energy_losses import ContrastiveDivergence, Margin
from seal_hf.tasks.masks.space import BinaryMaskSpace
from seal_hf.tasks.rewards import program as rewards
from seal_hf.tasks.rewards.label_rules import LabelRuleReward
from seal_hf.tasks.rewards.mask_rules import MaskRuleReward
from seal_hf.tasks.rewards.reward import LabelFunctionReward
from seal_hf.tasks.rewards.space import RewardBinaryMaskSpace, RewardLabelSpace
from seal_hf.training.epochs import WindowRepeatSampler

QUIET = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"}
LABELS = [f"l{i}" for i in range(5)]


def count(codes, y, mask):
    """A reward that tells candidates and rows apart: the share of ones among what counts, times the first code."""
    mask = mask.unsqueeze(1)
    return (y * mask).flatten(2).sum(2) / mask.flatten(2).sum(2).clamp_min(1) * codes[:, :1] / 10


def label_batch():
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[1, 0, 1, 0, 0], [UNLABELLED_SET] * 5, [0, 0, -1, 1, 0]]).float()
    return logits, labels, (RewardLabelSpace(count), MultiLabelSpace(), -1)


def mask_batch():
    logits = torch.randn(3, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(2, (3, 4, 4), generator=torch.Generator().manual_seed(1))
    labels[1], labels[2, 0] = UNLABELLED_PIXEL, 255
    return logits, labels, (RewardBinaryMaskSpace(count), BinaryMaskSpace(), 255)


@pytest.mark.parametrize("make", [label_batch, mask_batch])
def test_rows_with_gold_are_as_without_a_reward_and_the_others_have_the_reward(make):
    logits, labels, (space, plain, ignored) = make()
    space.see(labels)
    plain.see(labels.masked_fill(labels == space.unlabelled, 0))
    space = space.of({"labels": labels, REWARD_CODES: torch.tensor([[7], [5], [3]])})
    noise = lambda: torch.Generator().manual_seed(2)  # noqa: E731
    space = space.holding(logits, labels, noise)
    plain = plain.holding(logits, labels.masked_fill(labels == space.unlabelled, 0), noise)
    samples = space.sample(logits, 6, torch.Generator().manual_seed(1))
    gold, mask = space.gold(labels)
    with_gold, _ = plain.gold(labels.masked_fill(labels == space.unlabelled, 0))
    assert torch.equal(gold[[0, 2]], with_gold[[0, 2]]) and not gold[1].any()
    expected = samples[1].flatten(1).mean(1) * 5 / 10
    scores, theirs = space.score(samples, gold, mask), plain.score(samples, gold, mask)
    torch.testing.assert_close(scores[[0, 2]], theirs[[0, 2]])
    torch.testing.assert_close(scores[1], expected)
    best = space.best(gold, samples, mask)
    assert torch.equal(best[1], samples[1, expected.argmax()]) and torch.equal(best[[0, 2]], gold[[0, 2]])
    cost = space.cost(samples, best, "f1", mask)
    torch.testing.assert_close(cost[1], expected.max() - expected)
    torch.testing.assert_close(cost[[0, 2]], plain.cost(samples, gold, "f1", mask)[[0, 2]])
    logits.requires_grad_()
    loss = space.task_loss(logits, labels)
    alone = labels.clone()
    alone[1] = ignored
    torch.testing.assert_close(loss, plain.task_loss(logits, alone))
    loss.backward()
    assert not logits.grad[1].any() and logits.grad[0].any()


def test_losses_that_need_gold_and_sparse_sets_are_refused():
    with pytest.raises(ValueError, match="energy_loss='margin' contrasts .* Use regression"):
        RewardLabelSpace(count).check_loss(Margin(), 5)
    with pytest.raises(ValueError, match="A reward reads all 3000 labels of a set, .* `sparse_labels_from`"):
        RewardLabelSpace(count).check_loss(ContrastiveDivergence(), 3000)


def test_labelled_rows_are_spread_evenly():
    sampler = WindowRepeatSampler(40, window=1, repeats=1, seed=3, num_labelled=7)
    orders = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        orders.append(list(sampler))
        assert sorted(orders[-1]) == list(range(40)) and len(sampler) == 40
        labelled = [sum(row < 7 for row in orders[-1][i : i + 8]) for i in range(0, 40, 8)]
        assert max(labelled) - min(labelled) <= 1
    assert orders[0] != orders[1]


def trained(model, rows, folder, space, steps=40, **options):
    args = SealTrainingArguments(
        str(folder),
        max_steps=steps,
        **{
            **QUIET,
            "per_device_train_batch_size": 16,
            "learning_rate": 1e-2,
            "loss_net_learning_rate": 1e-2,
            "energy_loss": "contrastive_divergence",
            "num_samples": 8,
            **options,
        },
    )
    trainer = SealTrainer(model, args, train_dataset=rows, space=space)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer


def test_rules_alone_teach_label_sets(tmp_path):
    """No cross-entropy: rules want one label of two, and none of six."""
    set_seed(0)
    data = load_multilabel(max_train_rows=40, num_labelled=6)
    names = data.label_names
    rules = [Rule("exactly", tuple(names[:2]), values=(1, 1)), Rule("at_most", tuple(names[2:8]), values=(0, 0))]
    reward = LabelRuleReward(rules, data.label_names)
    rows = reward_rows(data, TensorRows, reward, repeat_labelled=None)
    assert rows.num_labelled == 12 and rows.gold_share == 12 / 46  # 34 others; a third of them is 11
    model = SealForMultiLabel.for_data(data, hidden_size=16, global_size=8)
    options = {"task_weight": 0.0, "energy_weight": 20.0}
    trainer = trained(model, rows, tmp_path, RewardLabelSpace(reward), steps=80, **options)
    batch = rows.batch(range(rows.num_labelled, len(rows)))
    with torch.no_grad():
        y = (trainer.model.eval()(features=batch["features"]).logits > 0).float().unsqueeze(1)
    assert reward(batch[REWARD_CODES], y, torch.ones_like(y[:, 0], dtype=torch.bool)).mean() > 0.9


@pytest.mark.long
def test_rules_alone_teach_masks(tmp_path):
    """They want little foreground, where the untrained net sees it everywhere."""
    set_seed(0)
    data = load_masks(image_size=16, max_train_rows=24, num_labelled=4)
    reward = MaskRuleReward([Rule("area", values=(0.0, 0.05))])
    rows = reward_rows(data, MaskRows, reward)
    assert (rows.dense["labels"][4:] == UNLABELLED_PIXEL).all()
    model = SealForSegmentation.for_data(data, crop_size=None)
    space = RewardBinaryMaskSpace(reward, sample_coherence="field", coherence_size=8)
    batch = rows.batch(range(4, 24))

    def earned(net):
        with torch.no_grad():
            y = space.decode(net.eval()(pixel_values=batch["pixel_values"]).logits).unsqueeze(1).float()
        return reward(batch[REWARD_CODES], y, torch.ones_like(y[:, 0]).bool()).mean()

    assert earned(model.task_net) < 0.1
    options = {"task_weight": 0.0, "energy_weight": 20.0, "energy_loss": "ranking", "max_grad_norm": 10.0}
    assert earned(trained(model, rows, tmp_path, space, steps=25, **options).model) > 0.7


# --- how much a reward is worth --------------------------------------------------------------------------------------

KEPT = 4  # labels of the digits


def digits(num_rows=300, changed=None, **options):
    """The embedded digits with their first labels, and perhaps other label sets in some training rows."""
    from datasets import Dataset

    whole = load_multilabel()
    sizes = {"train": num_rows, "validation": 50, "test": 1000}
    tables = {}
    for split, size in sizes.items():
        part = getattr(whole, split).select(range(size))
        labels = np.asarray(part["labels"])[:, :KEPT] > 0
        if split == "train" and changed is not None:
            labels[changed] = ~labels[changed]
        ids = [np.flatnonzero(row).tolist() for row in labels]
        tables[split] = Dataset.from_dict({"features": part["features"], "labels": ids})
    return load_multilabel(tables, label_format="ids", **options)


def key(features):
    return np.asarray(features, np.float32).tobytes()


@pytest.mark.long
def test_a_reward_that_knows_the_gold_closes_most_of_the_gap_between_few_labels_and_all(tmp_path):
    full, few = digits(), digits(num_labelled=30)
    gold = {key(x): np.asarray(y) for x, y in zip(full.train["features"], full.train["labels"], strict=True)}
    reward = LabelFunctionReward(
        lambda inputs, sets: (sets == np.array([gold[key(x)] for x in inputs])[:, None]).mean(-1),
        few.label_names,
        batched=True,
    )
    test = TensorRows(few.test)

    def f1(rows, epochs, space=None, **options):
        set_seed(1)
        model = SealForMultiLabel.for_data(full, hidden_size=64, global_size=16)
        options = {"learning_rate": 3e-3, "loss_net_learning_rate": 3e-3, "num_samples": 20, **options}
        options |= {"per_device_train_batch_size": 32, "num_train_epochs": epochs, "lr_scheduler_type": "constant"}
        trainer = trained(model, rows, tmp_path, space, -1, max_grad_norm=10.0, **options)
        logits = torch.from_numpy(trainer.predict(test).predictions)
        right = ((logits > 0) & (test.dense["labels"] > 0)).sum()
        return float(2 * right / ((logits > 0).sum() + (test.dense["labels"] > 0).sum()))

    alone = f1(TensorRows(few.train), 60, energy_loss="ce")
    best = f1(TensorRows(full.train), 20, energy_loss="ce")
    rows = reward_rows(few, TensorRows, reward, repeat_labelled=2)
    taught = f1(rows, 90, RewardLabelSpace(reward), task_weight=1 / rows.gold_share, energy_weight=1.0)
    assert best - alone > 0.2
    assert taught - alone > 0.8 * (best - alone)


# --- the gold of unlabelled rows is never read -----------------------------------------------------------------------


def weights(trainer):
    return [p.detach().clone() for net in (trainer.model, trainer.loss_net) for p in net.parameters()]


def test_other_gold_in_rows_whose_labels_are_put_aside_changes_nothing(tmp_path):
    plain = digits(num_rows=24, num_labelled=6)
    kept = {key(x) for x in plain.train["features"]}
    whole = load_multilabel().train.select(range(24))
    changed = [i for i, x in enumerate(whole["features"]) if key(x) not in kept]
    assert len(changed) == 18
    found = []
    for data in (plain, digits(num_rows=24, changed=changed, num_labelled=6)):
        set_seed(0)
        reward = LabelRuleReward(
            [Rule("exactly", values=(1, 1)), Rule("rates", ("0",), values=(0.1, 0.2))], data.label_names
        )
        rows = reward_rows(data, TensorRows, reward, repeat_labelled=2)
        model = SealForMultiLabel.for_data(data, hidden_size=8, global_size=4)
        found.append(weights(trained(model, rows, tmp_path, RewardLabelSpace(reward), steps=4, energy_weight=1.0)))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_the_same_for_tags_and_masks(tmp_path):
    data = load_tags(max_train_rows=12, num_labelled=3)
    assert "tags" not in data.unlabelled.column_names
    masks = load_masks(image_size=16, max_train_rows=6, num_labelled=2)
    reward = MaskRuleReward([Rule("connected", values=(1,))])
    rows = reward_rows(masks, MaskRows, reward)
    assert (rows.dense["labels"][2:] == UNLABELLED_PIXEL).all()
    assert np.array_equal(rows.dense["pixel_values"][2:].numpy(), masks.unlabelled)


# --- the command -----------------------------------------------------------------------------------------------------

COMMAND = ["--report_to", "none", "--use_cpu", "true", "--disable_tqdm", "true", "--num_train_epochs", "1"]


def test_rules_for_label_sets_train_label_sets(tmp_path):
    (tmp_path / "rules.yaml").write_text("rules:\n- {at_least: 1}\n- {implies: [repeated, several]}\n")
    words = ["--rules", str(tmp_path / "rules.yaml"), "--num_labelled", "20", "--max_train_rows", "60", *COMMAND]
    nets = ["--hidden_size", "8", "--global_size", "4", "--output_dir", str(tmp_path / "run")]
    program, left = rewards.program_of([*words, *nets])
    assert program is rewards.LABEL_PROGRAM and left == [*words, *nets]
    metrics = rewards.main([*words, *nets])
    assert 0 < metrics["test_f1_example"] < 1
    page = (tmp_path / "run/report.html").read_text()
    assert "repeated comes with several" in page and "at least 1 of all labels" in page
    facts = json.loads((tmp_path / "run/_report.json").read_text())["facts"]["rewards"]
    assert facts["unlabelled"]["rows"] == 40 and len(facts["validation"]["rules"]) == 2


@pytest.mark.long
@pytest.mark.parametrize(("dataset", "of"), [("digits", ""), ("digit_classes", ", of: '3'")])
def test_rules_for_masks_train_masks(tmp_path, dataset, of):
    (tmp_path / "rules.yaml").write_text(f"rules:\n- {{connected: 1{of}}}\n- {{area: [0.05, 0.5]{of}}}\n")
    words = ["segmentation", "--dataset", dataset, "--rules", str(tmp_path / "rules.yaml")]
    words += ["--num_labelled", "4", "--max_train_rows", "12"]
    more = ["--image_size", "16", "--num_samples", "4", "--output_dir", str(tmp_path / "run")]
    metrics = rewards.main([*words, *more, *COMMAND])
    assert 0 <= metrics["test_mean_iou"] < 1
    assert "is in at most 1 piece" in (tmp_path / "run/report.html").read_text()


def test_a_function_of_a_batch_by_name(tmp_path, monkeypatch):
    (tmp_path / "batch_rewards.py").write_text("def few(inputs, sets):\n    return 1 - sets.mean(-1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    words = ["mlc", "--batch_reward", "batch_rewards:few", "--num_labelled", "20", "--max_train_rows", "60"]
    nets = ["--hidden_size", "8", "--global_size", "4", "--output_dir", str(tmp_path / "run"), "--report", "false"]
    assert 0 <= rewards.main([*words, *nets, *COMMAND])["test_f1_example"] < 1
    with pytest.raises(ValueError, match="`rules` and `batch_reward` are both given"):
        rewards.main([*words, "--rules", "x.yaml", *nets, *COMMAND, "--output_dir", str(tmp_path / "other")])


def test_a_mistyped_kind_of_output_is_named():
    with pytest.raises(ValueError, match="no kind of output 'mcl'. Did you mean 'mlc'. All of them: mlc, tagging"):
        rewards.main(["mcl", "--num_labelled", "5"])


def test_tagging_rules_are_refused_for_label_sets(tmp_path):
    (tmp_path / "rules.yaml").write_text("rules:\n- {first: a}\n")
    words = ["mlc", "--rules", str(tmp_path / "rules.yaml"), "--num_labelled", "20", "--max_train_rows", "60"]
    with pytest.raises(ValueError, match="line 2: .* Its keys belong to rules for tags"):
        rewards.main([*words, "--output_dir", str(tmp_path / "run"), *COMMAND])
