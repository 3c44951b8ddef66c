"""Mutual learning. Oracles: two plain nets in a loop by hand; the encoders that count their rows."""

import json
import shutil
from functools import wraps

import pytest
import tiny_run
import torch
import torch.nn.functional as F
from tiny_models import tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModel, BertModel

from seal_hf import BinaryMaskSpace, MultiLabelSpace, SealTrainer, TagSequenceSpace, TensorRows
from seal_hf.energy_losses import MutualLearning
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.model import SealForMultiLabel

WEIGHT, RATE, SECOND_RATE, STEPS = 0.7, 0.01, 0.02, 4


def nets(encoder):
    """Both nets of one shape in every run; the second has no global term."""
    torch.manual_seed(0)
    sizes = dict(hidden_size=16, dropout=0.0, global_size=0)
    return SealForMultiLabel.for_data(tiny_run.Names, loss_net_encoder=encoder, **sizes)


def save_encoder(folder):
    """A tiny BERT and its tokenizer."""
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config("bert")).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)


def rows(unknown):
    table = tiny_run.table().with_format("torch")
    x, y = table["features"][:], table["labels"][:].clone()
    y[::3, 1] = -1 if unknown else y[::3, 1]
    return x, y


def of_both(y, mine, theirs, weight):
    """H(y, mine) + weight KL(theirs || mine), over the known labels; logits (B, L)."""
    p, q, known = torch.sigmoid(mine), torch.sigmoid(theirs).detach(), y >= 0
    total = F.binary_cross_entropy_with_logits(mine, y, reduction="none")
    total = total + weight * (q * (q / p).log() + (1 - q) * ((1 - q) / (1 - p)).log())
    return total[known].sum() / len(y)


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("encoder", ["separate", "shared"])
def test_the_nets_are_those_of_a_loop_by_hand(tmp_path, encoder, unknown):
    (x, y), expected = rows(unknown), nets(encoder)
    first, second = expected.task_net, expected.loss_net

    def second_logits():
        features = first.encoder(x).last_hidden_state.detach() if encoder == "shared" else None
        return second.encode({"features": x}, features) @ second.energy.label_embeddings.weight.T

    task = torch.optim.AdamW(first.parameters(), lr=RATE, weight_decay=0.0)
    groups = [{"params": [p for p in second.parameters() if p.requires_grad], "lr": SECOND_RATE}]
    other = torch.optim.AdamW(groups, weight_decay=0.0)
    for _ in range(STEPS):
        for optimizer, mine, theirs in (
            (other, second_logits, lambda: first(x).logits),
            (task, lambda: first(x).logits, second_logits),
        ):
            optimizer.zero_grad()
            of_both(y, mine(), theirs(), WEIGHT).backward()
            optimizer.step()

    found = nets(encoder)
    data = tiny_run.table().remove_columns("labels").add_column("labels", y.tolist())
    args = tiny_run.arguments(
        tmp_path,
        encoder=encoder,
        loss="mutual",
        batch=tiny_run.ROWS,
        max_steps=STEPS,
        learning_rate=RATE,
        loss_net_learning_rate=SECOND_RATE,
        energy_weight=WEIGHT,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        loss_net_max_grad_norm=0.0,
    )
    trainer = SealTrainer(found, args, train_dataset=TensorRows(data), eval_dataset=TensorRows(data))
    trainer.train()
    start = tiny_run.parameters(nets(encoder))
    moved = tiny_run.parameters(expected) - start
    assert (moved.abs() > 0.01).float().mean() > 0.5
    torch.testing.assert_close(tiny_run.parameters(found) - start, moved, atol=2e-4, rtol=0)
    assert 0 <= trainer.evaluate()["eval_energy_auc"] <= 1


def test_without_a_weight_it_is_one_and_no_rule_chooses_it(tmp_path):
    options = dict(max_steps=2, energy_weight=None, eval_strategy="epoch", lr_scheduler_type="constant")
    found = []
    for folder, weight in (("none", None), ("one", 1.0)):
        trained, trainer = tiny_run.run(tmp_path / folder, loss="mutual", **{**options, "energy_weight": weight})
        assert not trainer.energy_weight.is_share and trainer.energy_weight.weight(trainer.state) == 1.0
        found.append(trained)
    assert torch.equal(*found)


def test_a_label_that_is_surely_wrong_still_has_its_gradient():
    """KL(q || p) in logits: its gradient is p - q, also where p rounds to 0 or 1."""
    loss, logits = MutualLearning(), torch.tensor([[-30.0, 0.5, 30.0]], requires_grad=True)
    energies = torch.tensor([[0.0, -3.0, 1.0, 2.0]])  # of no label, and of one
    space, gold = MultiLabelSpace(), torch.zeros(1, 3)
    sets, cost = loss.task_row(space, logits, space.output(logits), gold, None)
    assert sets.shape == (1, 4, 3)
    (found,) = torch.autograd.grad(loss.task_term(energies, cost), logits)
    q = torch.sigmoid(energies[:, :1] - energies[:, 1:])
    torch.testing.assert_close(found, torch.sigmoid(logits.detach()) - q)


@pytest.mark.parametrize("option", [{"energy_weight_schedule": "rise"}, {"energy_weight_balance": True}])
def test_its_weight_is_constant(option, tmp_path):
    with pytest.raises(ValueError, match=f"`{next(iter(option))}` is .* that of the second net is constant"):
        tiny_run.arguments(tmp_path, loss="mutual", energy_weight=1.0, **option)


def test_it_is_refused_for_other_outputs_and_for_sparse_label_sets(tmp_path):
    with pytest.raises(ValueError, match="energy_loss='mutual' is for label sets, not for tag_sequence outputs"):
        TagSequenceSpace(["O", "B-x"]).check_loss(MutualLearning(), 2)
    with pytest.raises(ValueError, match="energy_loss='mutual' learns the probabilities of all 5 labels, but"):
        MultiLabelSpace(sparse_from=5).check_loss(MutualLearning(), 5)
    with pytest.raises(ValueError, match="is for label sets, not for binary_mask outputs"):
        BinaryMaskSpace().check_loss(MutualLearning(), 2)


def test_a_classifier_of_a_frozen_encoder_that_reads_one_token_says_so(tmp_path, capsys):
    save_encoder(tmp_path / "net")
    shutil.copytree(tmp_path / "net", tmp_path / "sentences")
    (tmp_path / "sentences" / "1_Pooling").mkdir()
    (tmp_path / "sentences" / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "mean"}))
    tiny_texts(20).to_json(tmp_path / "texts.jsonl")

    def said(encoder, *more):
        words = ["--dataset", str(tmp_path / "texts.jsonl"), "--model_name_or_path", str(tmp_path / encoder)]
        arguments = mlc.PROGRAM.parse([*words, "--output_dir", str(tmp_path / "out"), "--use_cpu", *more])
        mlc.PROGRAM.make_trainer(mlc.PROGRAM.load(arguments), arguments)
        return "reads the first token" in capsys.readouterr().out

    frozen = ("--freeze_encoder", "true")
    assert said("net", *frozen) and not said("net")
    for more in (("--pooling", "first"), ("--pooling", "mean"), ("--long_texts", "windows")):
        assert not said("net", *frozen, *more)
    assert not said("sentences", *frozen)


@pytest.mark.parametrize("encoder", ["shared", "separate"])
def test_the_second_net_reads_the_token_that_a_flag_names(tmp_path, encoder):
    save_encoder(tmp_path / "net")
    tiny_texts(8).to_json(tmp_path / "texts.jsonl")
    words = ["--dataset", str(tmp_path / "texts.jsonl"), "--output_dir", str(tmp_path / "out")]
    text = ["--model_name_or_path", str(tmp_path / "net"), "--loss_net_encoder", encoder, "--loss_net_pooling"]
    arguments = mlc.PROGRAM.parse([*words, *text, "first"])
    model = mlc.build(mlc.PROGRAM.load(arguments), arguments)
    inputs = {"input_ids": torch.tensor([[2, 7, 8, 3]]), "attention_mask": torch.ones(1, 4, dtype=torch.long)}
    hidden = model.task_net.bert(**inputs).last_hidden_state  # of both, since the weights are the same
    sets = torch.eye(model.loss_net.config.num_labels)
    expected = model.loss_net.energies(model.loss_net.head(hidden[:, 0]), sets.unsqueeze(0))
    torch.testing.assert_close(model.energy(sets.unsqueeze(0), **inputs), expected)
    with pytest.raises(ValueError, match="`loss_net_pooling` is 'max'"):
        mlc.PROGRAM.parse([*words, *text, "max"])
    model.save_pretrained(tmp_path / "trained")
    arguments = mlc.PROGRAM.parse([*words, "--model_name_or_path", str(tmp_path / "trained"), *text[2:], "last"])
    with pytest.raises(ValueError, match="`loss_net_pooling` is 'last', but the loss-net in .* trained with 'first'"):
        mlc.build(mlc.PROGRAM.load(arguments), arguments)
    with pytest.raises(ValueError, match="`loss_net_pooling` is for texts, but 'digits' is feature data"):
        mlc.main(["--loss_net_pooling", "first", "--output_dir", str(tmp_path / "digits")])


def test_a_comparison_of_frozen_encoders_encodes_every_row_once(program, tmp_path, monkeypatch):
    """By the encoder of the task-net and by that of the second net; not for another method or trial."""
    pytest.importorskip("optuna")
    save_encoder(tmp_path / "net")
    (tmp_path / "data").mkdir()
    sizes = {"train": 24, "validation": 10, "test": 12}
    for seed, (split, size) in enumerate(sizes.items()):
        table = tiny_texts(size, seed)
        names = [",".join("abcd"[j] for j, on in enumerate(labels) if on) for labels in table["labels"]]
        lines = [f"{text}\t{labels}" for text, labels in zip(table["text"], names, strict=True)]
        (tmp_path / "data" / f"{split}.tsv").write_text("\n".join(["text\tlabels", *lines, ""]))
    seen, forward = [], BertModel.forward

    @wraps(forward)  # its signature says what it reads
    def counted(self, *args, **kwargs):
        outputs = forward(self, *args, **kwargs)
        seen.append(len(outputs.last_hidden_state))
        return outputs

    monkeypatch.setattr(BertModel, "forward", counted)
    words = ["--dataset", str(tmp_path / "data"), "--model_name_or_path", str(tmp_path / "net")]
    words += "--freeze_encoder true --num_train_epochs 2 --per_device_train_batch_size 8 --budget 1".split()
    words += ["--seeds", "1", "--output_dir", str(tmp_path / "out")]
    runs = program.main([*words, "--losses", "ce", "nce_shared"])
    few = 4  # rows by which a run finds out what its head reads
    assert sorted(size for size in seen if size > few) == sorted(sizes.values())
    assert runs.settings("ce")["settings"] == {"learning_rate": pytest.approx(1e-3)}  # of a fresh head
    assert set(runs.settings("nce_shared")["settings"]) == {
        "learning_rate",
        "loss_net_learning_rate",
        "energy_weight",
    }
    with pytest.raises(ValueError, match="`freeze_encoder` is set, but method 'gbi_dvn' trains a whole encoder"):
        program.main([*words, "--losses", "static_regression"])
    assert str(tmp_path) not in (tmp_path / "out" / "comparison.json").read_text()  # no folder of this machine
    seen.clear()
    program.main([*words, "--losses", "nce_separate"])
    assert sorted(size for size in seen if size > few) == sorted(sizes.values())  # of its own encoder
    assert 0 <= runs.load("nce_separate", 1)["eval_energy_auc"] <= 1
