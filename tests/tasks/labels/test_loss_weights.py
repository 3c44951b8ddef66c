"""Weights in the task loss, and a user's own. Oracles: torch's own losses, scikit-learn's weights, a run that writes
its loss by hand, one big batch against accumulated ones."""

import json

import numpy as np
import pytest
import tiny_run
import torch
import torch.nn.functional as F
from datasets import Dataset
from sklearn.utils.class_weight import compute_class_weight

from seal_hf import MultiLabelSpace, SealTrainer, TensorRows, load_multilabel
from seal_hf.core.task_losses import OwnTaskLoss
from seal_hf.data import DataError
from seal_hf.saving.checkpoints import read_record
from seal_hf.tasks.labels.task_losses import TASK_LOSSES
from seal_hf.tasks.masks.space import BinaryMaskSpace
from seal_hf.tasks.tags.chains import CRF
from seal_hf.tasks.tags.space import TagSequenceSpace
from seal_hf.tasks.tags.task_losses import TAG_TASK_LOSSES
from seal_hf.training.card import run_card
from seal_hf.training.loss_weights import AT_ONCE, label_parts

NAMES = list("abcdef")
TABLE = tiny_run.table().with_format("torch")
X, Y = TABLE["features"][:], TABLE["labels"][:]
GENERATOR = torch.Generator().manual_seed(3)
ROW_WEIGHTS = torch.rand(tiny_run.ROWS, generator=GENERATOR) * 2


def trainer(folder, rows=None, loss="ce", **options):
    own = {name: options.pop(name) for name in ("own_loss", "compute_loss_func", "space") if name in options}
    own = {"task_loss" if name == "own_loss" else name: value for name, value in own.items()}
    nets = tiny_run.model()
    args = tiny_run.arguments(folder, loss, **options)
    rows = TensorRows(tiny_run.table()) if rows is None else rows
    return SealTrainer(nets, args, train_dataset=rows, eval_dataset=rows, **own), nets


def trained(folder, rows=None, **options):
    made, nets = trainer(folder, rows, num_train_epochs=1, **options)
    made.train()
    return tiny_run.parameters(nets)


def with_weights(weights):
    return TensorRows(tiny_run.table().add_column("sample_weight", weights.tolist()))


# --- label sets ------------------------------------------------------------------------------------------------------


def test_weights_equal_those_of_torchs_loss(tmp_path):
    pos, each = torch.rand(6, generator=GENERATOR) * 5, torch.rand(6, generator=GENERATOR) * 2
    file = tmp_path / "weights.csv"
    file.write_text("label,weight\n" + "".join(f"{NAMES[i]}, {each[i]}\n" for i in (3, 1, 0, 5, 2, 4)))
    given = {name: weight.item() for name, weight in zip(NAMES, pos, strict=True)}
    made, _ = trainer(tmp_path, pos_weight=given, label_weight=str(file))
    logits = torch.randn(tiny_run.ROWS, 6, generator=GENERATOR)
    loss = torch.nn.BCEWithLogitsLoss(pos_weight=pos, weight=each, reduction="sum")
    torch.testing.assert_close(made.space.task_loss(logits, Y), loss(logits, Y) / tiny_run.ROWS)
    rows = made.space.of({"sample_weight": ROW_WEIGHTS})
    loss = torch.nn.BCEWithLogitsLoss(pos_weight=pos, weight=each * ROW_WEIGHTS[:, None], reduction="sum")
    torch.testing.assert_close(rows.task_loss(logits, Y), loss(logits, Y) / tiny_run.ROWS)


@pytest.mark.parametrize("rule", ["balanced", "sqrt"])
def test_balanced_weights_count_the_known_labels(tmp_path, rule):
    labels = Y.clone()
    labels[:40, 0], labels[:, 1], labels[:, 2] = -1, 0, 1
    rows = TensorRows(Dataset.from_dict({"features": X.numpy(), "labels": labels.numpy()}))
    found = trainer(tmp_path, rows, pos_weight=rule)[0].space.loss.pos_weight.numpy()
    for j in (0, 3, 4, 5):
        absent, present = compute_class_weight("balanced", classes=np.arange(2), y=labels[labels[:, j] >= 0, j].numpy())
        expected = present / absent
        assert found[j] == pytest.approx(expected if rule == "balanced" else expected**0.5)
    assert found[1] == found[2] == 1  # no row has it, and every row has it
    plain = trainer(
        tmp_path, rows=Dataset.from_dict({"features": X.numpy(), "labels": labels.numpy()}), pos_weight=rule
    )
    assert np.array_equal(plain[0].space.loss.pos_weight.numpy(), found)
    ids = {"features": X.tolist(), "labels": [torch.nonzero(row)[:, 0].tolist() for row in Y]}
    ragged = TensorRows(Dataset.from_dict(ids), multi_hot={"labels": 6})
    found = trainer(tmp_path, ragged, pos_weight=rule)[0].space.loss.pos_weight
    assert torch.equal(found, trainer(tmp_path, pos_weight=rule)[0].space.loss.pos_weight)


@pytest.mark.parametrize("name", TASK_LOSSES)
def test_a_weight_of_two_is_a_label_twice_and_other_losses_refuse_it(name):
    loss, logits = TASK_LOSSES[name](), torch.randn(4, 3, generator=GENERATOR)
    labels = (logits > 0.3).float().flip(1)
    if name in ("zlpr", "ranking"):
        with pytest.raises(ValueError, match=r"`label_weight` is set, but .* takes no class weights"):
            loss.weigh({"label_weight": torch.ones(3)})
        return
    twice = [0, 1, 1, 2]
    expected = loss(logits[:, twice], labels[:, twice])
    if name == "soft_f1":  # the sum over labels is its cross-entropy
        plain = TASK_LOSSES["cross_entropy"]()
        expected = plain(logits[:, twice], labels[:, twice]) + loss(logits, labels) - plain(logits, labels)
    loss.weigh({"label_weight": torch.tensor([1.0, 2.0, 1.0])})
    torch.testing.assert_close(loss(logits, labels), expected)


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["ce", "nce", "infnet_plus"])
def test_rows_of_weight_0_teach_the_task_net_nothing_and_accumulation_changes_nothing(tmp_path, loss):
    options = {"loss": loss, "weight_decay": 0.0, "energy_weight": 0.0, "loss_net_steps": 0}
    options |= {"cost_augmented_task_weight": 0.5} if loss == "infnet_plus" else {}
    whole = trained(tmp_path, with_weights(ROW_WEIGHTS), batch=96, **options)
    parts = trained(tmp_path, with_weights(ROW_WEIGHTS), batch=24, accumulation=4, **options)
    torch.testing.assert_close(whole, parts, rtol=1e-4, atol=1e-5)
    zero = ROW_WEIGHTS.clone()
    zero[50:] = 0
    other = Dataset.from_dict({"features": X.numpy(), "labels": torch.cat([Y[:50], 1 - Y[50:]]).numpy()})
    other = TensorRows(other.add_column("sample_weight", zero.tolist()))
    assert torch.equal(*(trained(tmp_path, rows, batch=96, **options) for rows in (with_weights(zero), other)))


def test_probabilities_of_labels_are_read_in_their_place(tmp_path):
    """Oracles: torch's loss, and a run on the labels that these probabilities are."""
    space, soft = MultiLabelSpace(loss=TASK_LOSSES["cross_entropy"]()), torch.rand(2, 6, generator=GENERATOR)
    logits, labels = torch.randn(2, 6, generator=GENERATOR), (soft >= 0.5).float()
    labels[0, 1] = -1  # unknown
    losses = F.binary_cross_entropy_with_logits(logits, soft, reduction="none").masked_fill(labels < 0, 0)
    assert torch.allclose(space.of({"soft_labels": soft}).task_loss(logits, labels), losses.sum(1).mean())
    flipped = tiny_run.table().with_format("numpy")["labels"][:] == 0
    rows = tiny_run.table().add_column("soft_labels", flipped.astype(np.float32).tolist())
    others = tiny_run.table().remove_columns("labels").add_column("labels", flipped.astype(np.float32).tolist())
    one, other = (trained(tmp_path / str(i), TensorRows(table)) for i, table in enumerate((rows, others)))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    with pytest.raises(ValueError, match="which only the task loss cross_entropy reads"):
        trained(tmp_path / "focal", TensorRows(rows), task_loss="focal")


def test_evaluation_weighs_no_rows(tmp_path):
    found = trainer(tmp_path, with_weights(ROW_WEIGHTS))[0].evaluate()["eval_loss"]
    assert found == trainer(tmp_path)[0].evaluate()["eval_loss"]


def test_the_loader_keeps_the_column_of_the_weights(tmp_path):
    weights = [i % 4 + 1 for i in range(40)]
    (tmp_path / "a.csv").write_text("text,labels,w\n" + "".join(f"t{i},x|y,{w}\n" for i, w in enumerate(weights)))
    data = load_multilabel(str(tmp_path / "a.csv"), sample_weight="w", max_train_rows=20)
    raw = np.array([weights[int(text[1:])] for text in data.train["text"][:]])
    assert np.allclose(data.train["sample_weight"][:], raw / raw.mean()) and len(raw) == 20
    assert any("training rows are weighted by 'w'" in note for note in data.notes)
    lines = ["@relation toy", "@attribute x numeric", "@attribute w numeric", "@attribute a {0,1}", "@data"]
    (tmp_path / "toy.arff").write_text("\n".join([*lines, *(f"{i},{w},{i % 2}" for i, w in enumerate(weights))]))
    (tmp_path / "toy.xml").write_text('<labels><label name="a"/></labels>')
    data = load_multilabel(str(tmp_path / "toy.arff"), sample_weight="w")
    raw = np.array([weights[int(x)] for (x,) in data.train["features"][:]])
    assert data.feature_names == ["x"] and np.allclose(data.train["sample_weight"][:], raw / raw.mean())
    (tmp_path / "a.csv").write_text("text,labels,w\n" + "t,x|y,1\n" * 30 + "t,x,-2\n")
    for column, message in (
        ("v", "no column 'v'"),
        ("w", "a.csv, line 32: .* column 'w' is '-2', expected a finite number"),
    ):
        with pytest.raises(DataError, match=message):
            load_multilabel(str(tmp_path / "a.csv"), sample_weight=column)


# --- tags ------------------------------------------------------------------------------------------------------------

TAGS = ["O", "B-A0", "B-A1"]


@pytest.mark.parametrize("name", TAG_TASK_LOSSES)
def test_class_weights_equal_those_of_torchs_loss(name):
    logits, weight = torch.randn(4, 7, 3, generator=GENERATOR), torch.tensor([0.2, 3.0, 1.5])
    labels = torch.randint(0, 3, (4, 7), generator=GENERATOR)
    labels[1, 4:] = -100
    if name == "crf":
        with pytest.raises(ValueError, match="`class_weight` is set, but CRFLoss takes no class weights"):
            TagSequenceSpace(TAGS, TAG_TASK_LOSSES[name](TAGS, CRF(3))).weigh({"class_weight": weight})
        return
    space, plain = (TagSequenceSpace(TAGS, TAG_TASK_LOSSES[name](TAGS)) for _ in range(2))
    space.weigh({"class_weight": weight})
    flat = logits.flatten(0, 1), labels.flatten()
    more = [F.cross_entropy(*flat, weight=w, reduction="sum") / 4 for w in (weight, None)]
    constraint = plain.task_loss(logits, labels) - more[1]
    torch.testing.assert_close(space.task_loss(logits, labels), more[0] + constraint)
    counted = labels[labels >= 0].numpy()
    expected = compute_class_weight("balanced", classes=np.arange(3), y=counted)
    assert space.balance([labels[:2], labels[2:]]).tolist() == pytest.approx(expected)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"pos_weight": {"a": 1.0}}, r"`pos_weight` has no weight for the labels b, c, d, e, f; the labels are a, b"),
        ({"label_weight": dict.fromkeys([*NAMES, "g"], 1.0)}, "`label_weight` has unknown labels g; the labels are a"),
        (
            {"label_weight": dict.fromkeys(NAMES, "x")},
            "`label_weight`, label 'a': the weight is 'x', expected a finite",
        ),
        ({"pos_weight": [1.0, 2.0]}, "`pos_weight` has 2 weights, but there are 6 labels"),
        ({"pos_weight": "balance"}, "`pos_weight` is 'balance', which is not a readable file"),
        ({"label_weight": "balanced"}, "`label_weight` is 'balanced', which is not a readable file"),
        ({"class_weight": "balanced"}, "`class_weight` is set, but multi_label outputs do not support it"),
        ({"pos_weight": "sqrt", "task_loss": "zlpr"}, "`pos_weight` is set, but ZLPR takes no class weights"),
    ],
)
def test_a_mistake_in_weights_is_one_clear_error(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, **options)


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("w.json", '{"a": 1, "a": 2}', "label 'a' occurs twice"),
        ("w.json", "[1, 2]", "expected an object"),
        ("w.json", "{", "not readable as JSON"),
        ("w.json", json.dumps(dict.fromkeys(tiny_run.Names.label_names, 0)), "all 6 weights are 0, so no label would"),
        ("w.csv", "a,1\nb\n", r"a label name and a weight per line; found \['b'\]"),
    ],
)
def test_a_file_of_weights_of_another_form_is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=f"`pos_weight` .*{name}: .*{message}"):
        trainer(tmp_path, pos_weight=str(tmp_path / name))


# --- a user's own loss -----------------------------------------------------------------------------------------------


def by_row(logits, labels):
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="none").sum(1)


def by_batch(outputs, labels, num_items_in_batch=None):
    total = F.binary_cross_entropy_with_logits(outputs.logits, labels, reduction="sum")
    return total / num_items_in_batch * labels.shape[1]


@pytest.mark.parametrize("own", [{"own_loss": by_row}, {"compute_loss_func": by_batch}])
@pytest.mark.parametrize("options", [{"loss": "nce"}, {"loss": "margin", "hypergradient": "neumann"}])
def test_cross_entropy_by_a_function_trains_to_the_same_weights(tmp_path, own, options):
    options = options | {"batch": 8, "accumulation": 3}
    torch.testing.assert_close(trained(tmp_path, **options, **own), trained(tmp_path, **options), rtol=1e-4, atol=1e-5)


def test_own_losses_of_tags_and_masks_and_of_rows_with_weights(tmp_path):
    logits, labels = torch.randn(2, 5, 3, generator=GENERATOR), torch.tensor([[0, 1, 2, -100, -100], [1, 1, 0, 2, 0]])
    space = TagSequenceSpace(TAGS)
    space.loss = OwnTaskLoss(lambda z, y: F.cross_entropy(z.transpose(1, 2), y, reduction="none").sum(1))
    torch.testing.assert_close(space.task_loss(logits, labels), TagSequenceSpace(TAGS).task_loss(logits, labels))
    masks = BinaryMaskSpace()
    masks.loss = OwnTaskLoss(lambda z, y: z.flatten(1).sum(1) * y.flatten(1).sum(1))
    weighed = masks.of({"sample_weight": torch.tensor([2.0, 0.0])})
    z, y = torch.randn(2, 1, 3, 3, generator=GENERATOR), torch.ones(2, 3, 3)
    torch.testing.assert_close(weighed.task_loss(z, y), z[0].sum() * 9)
    own, plain = (trained(tmp_path, with_weights(ROW_WEIGHTS), **o) for o in ({"own_loss": by_row}, {}))
    torch.testing.assert_close(own, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "own, name, words",
    [
        ({"own_loss": by_row}, "by_row", "the by_row task loss"),
        ({"compute_loss_func": by_batch}, "by_batch", "the by_batch task loss"),
        ({"task_loss": "zlpr"}, "zlpr", "the zlpr task loss"),
        ({"task_loss": "soft_f1"}, "soft_f1", "cross-entropy and soft F1"),
        ({"space": MultiLabelSpace(loss=TASK_LOSSES["zlpr"]())}, "zlpr", "the zlpr task loss"),
    ],
)
def test_verdict_card_and_record_name_the_loss_that_trained(tmp_path, own, name, words):
    made, nets = trainer(tmp_path, max_steps=1, save_strategy="steps", save_steps=1, **own)
    made.train()
    assert nets.task_net.config.verdict["sentences"][0] == f"The model was trained by {words} alone."
    assert f"trained with {words}" in run_card(made).replace("\\", "")
    assert read_record(tmp_path / "checkpoint-1")["task_loss"] == name


def test_an_own_loss_of_another_shape_names_both(tmp_path):
    made, _ = trainer(tmp_path, own_loss=lambda z, y: by_row(z, y).mean())
    with pytest.raises(ValueError, match=r"`task_loss` gave \(\) for logits of shape \(16, 6\); expected \(16,\)"):
        made.train()
    made, _ = trainer(tmp_path, compute_loss_func=lambda o, y, num_items_in_batch: by_row(o.logits, y))
    with pytest.raises(ValueError, match=r"`compute_loss_func` gave \(16,\) .* expected \(\)"):
        made.train()
    with pytest.raises(ValueError, match="`task_loss` and `compute_loss_func` are given"):
        trainer(tmp_path, own_loss=by_row, compute_loss_func=by_batch)
    with pytest.raises(ValueError, match="`pos_weight` is set, but your own `task_loss` takes no class weights"):
        trainer(tmp_path, own_loss=by_row, pos_weight="sqrt")
    made, _ = trainer(tmp_path, with_weights(ROW_WEIGHTS), compute_loss_func=by_batch)
    with pytest.raises(ValueError, match="column `sample_weight`, but `compute_loss_func` gives one number"):
        made.train()


@pytest.mark.parametrize("kind", ["tensors", "ids", "data set"])
def test_balanced_weights_count_the_rows_of_every_part(kind):
    """The first part lacks what the others have."""
    labels = (torch.rand(2 * AT_ONCE + 7, 3, generator=torch.Generator().manual_seed(0)) < 0.3).float()
    labels[:AT_ONCE] = torch.tensor([1.0, 0, 0])
    if kind == "ids":
        ids = [row.nonzero().flatten().tolist() for row in labels]
        rows = TensorRows(Dataset.from_dict({"labels": ids}), multi_hot={"labels": 3})
    else:
        rows = Dataset.from_dict({"labels": labels.numpy()})
        rows = TensorRows(rows) if kind == "tensors" else rows
    found = MultiLabelSpace().balance(label_parts(rows)).numpy()
    np.testing.assert_allclose(found, ((labels == 0).sum(0) / (labels == 1).sum(0)).numpy(), rtol=1e-6)
