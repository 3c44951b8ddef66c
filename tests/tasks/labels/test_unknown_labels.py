"""Unknown labels of a row: in no loss, figure or energy. Oracles: runs that differ in what stands there alone, sums
over known labels by hand, scikit-learn."""

import itertools

import numpy as np
import pytest
import tiny_run
import torch
from datasets import Dataset, concatenate_datasets
from sklearn.metrics import average_precision_score, f1_score

from seal_hf import (
    ENERGY_LOSSES,
    TASK_LOSSES,
    EnergyTrainer,
    EnergyTrainingArguments,
    MultiLabelSpace,
    TensorRows,
    load_multilabel,
)
from seal_hf.core.label_sets import LabelSets
from seal_hf.data import DataError
from seal_hf.data.arff import ArffReader, find_arff
from seal_hf.decisions import LabelDecisions, platt_scaling
from seal_hf.energy_losses import NCE
from seal_hf.metrics import example_f1, label_report, multilabel_metrics, tune_threshold

NAN = float("nan")
GENERATOR = torch.Generator().manual_seed(1)
UNKNOWN = torch.rand(tiny_run.ROWS, tiny_run.LABELS, generator=GENERATOR) < 0.3
UNKNOWN[3] = True  # a row of which nothing is known


def rows(value, unknown=UNKNOWN):
    """The tiny data set with `value` at the unknown labels."""
    table = tiny_run.table().with_format("torch")
    labels = torch.where(unknown, value, table["labels"][:])
    return Dataset.from_dict({"features": table["features"][:].numpy(), "labels": labels.numpy()})


def run(folder, value, loss="nce", wrap=TensorRows, **options):
    nets = tiny_run.model()
    data = wrap(rows(value))
    trainer, _ = tiny_run.make(folder, loss, nets=nets, rows=data, max_steps=2, **options)
    trainer.train()
    figures = trainer.evaluate(data)
    kept = {k: figures[k] for k in figures if "runtime" not in k and "per_second" not in k}
    return torch.cat([p.detach().flatten() for p in nets.parameters()]), kept


@pytest.mark.parametrize(
    "loss, options",
    [
        *((loss, {}) for loss in ENERGY_LOSSES),
        ("nce", {"gold_mix": 0.3, "distinct_samples": True, "energy_weight": None}),
        ("ranking", {"cost_weight": 1.0, "margin_cost": "l1_mean", "sparse_labels_from": 2}),
        ("margin", {"margin_cost": "l1", "sparse_labels_from": 2}),
        ("margin", {"hypergradient": "neumann"}),
        ("contrastive_divergence", {"hypergradient": "cg"}),
        ("ce", {"task_loss": "ranking"}),
    ],
)
def test_what_stands_at_an_unknown_label_changes_nothing(tmp_path, loss, options):
    weights, figures = run(tmp_path, -1.0, loss, **options)
    others, other_figures = run(tmp_path, NAN, loss, **options)
    assert torch.equal(weights, others) and weights.isfinite().all()
    assert figures == other_figures and np.isfinite(list(figures.values())).all()


def test_an_absent_label_is_another_thing(tmp_path):
    assert not torch.equal(run(tmp_path, -1.0)[0], run(tmp_path, 0.0)[0])


def test_a_data_set_that_is_no_tensor_trains_to_the_same_weights(tmp_path):
    assert torch.equal(run(tmp_path, -1.0, wrap=lambda table: table)[0], run(tmp_path, -1.0)[0])


@pytest.mark.parametrize("sparse_from", [2, 100])
def test_all_candidates_hold_the_same_draw_of_the_task_net(sparse_from):
    space = MultiLabelSpace(sparse_from, relaxed_mass=1.0)
    logits = torch.randn(5, 4, generator=GENERATOR).mul(2).requires_grad_()
    labels = torch.tensor([[1, -1, 0, -1], [-1, -1, -1, -1], [1, 0, 1, 0], [NAN, 1, 1, 0], [0, -1, -1, 1]])
    known, found = labels >= 0, []
    for seed in range(400):
        bound = space.holding(logits, labels, lambda seed=seed: torch.Generator().manual_seed(seed))
        gold, mask = bound.gold(labels)
        row = [bound.output(logits), bound.candidate(gold), bound.sample(logits, 3, GENERATOR)]
        y = bound.join(row)
        y = y.to_dense() if isinstance(y, LabelSets) else y
        assert torch.equal(mask, known) and torch.equal(gold[known], labels[known])
        assert (y == y[:, 1:2])[(~known).unsqueeze(1).expand_as(y)].all()
        found.append(gold)
        few = space.output(logits[known.all(1)])  # of a row whose labels are all known, as it would be anyway
        few = few.to_dense() if isinstance(few, LabelSets) else few
        assert torch.equal(few[:, 0], y[known.all(1), 0])
    rates = torch.stack(found).mean(0)[~known]
    assert (rates - logits.sigmoid()[~known]).abs().max() < 0.1
    y[:, 0].square().sum().backward()
    assert (logits.grad[~known] == 0).all() and (logits.grad[known] != 0).all()


def test_what_is_drawn_takes_no_room_from_a_cut_output():
    space = MultiLabelSpace(2, relaxed_mass=0.5, relaxed_width=1)
    logits, labels = torch.tensor([[9.0, 9, 9, -1, -2]]), torch.tensor([[-1.0, -1, -1, 0, 1]])
    bound = space.holding(logits, labels, lambda: torch.Generator().manual_seed(0))
    output = bound.output(logits)
    torch.testing.assert_close(output.to_dense()[0, 0], torch.tensor([1, 1, 1, torch.tensor(-1.0).sigmoid(), 0]))
    torch.testing.assert_close(output.dropped, torch.tensor([-2.0]).sigmoid())


@pytest.mark.parametrize("sparse", [False, True])
def test_log_probability_cost_and_score_are_those_of_the_known_labels(sparse):
    space = MultiLabelSpace(2 if sparse else 100)
    labels, logits = torch.tensor([[1.0, -1, 0, -1, 1]]), torch.tensor([[0.3, -2.0, 1.5, 4.0, -0.2]])
    counts = [0, 2, 4]
    sets = torch.tensor(list(itertools.product([0.0, 1.0], repeat=5))).unsqueeze(0)  # (1, 32, 5)
    bound = space.holding(logits, labels, lambda: torch.Generator().manual_seed(0))
    gold, mask = bound.gold(labels)
    y = (
        torch.cat([space.candidate(s) for s in sets.unbind(1)], 1)
        if not sparse
        else space.join([space.candidate(s) for s in sets.unbind(1)])
    )
    log_p = bound.log_prob(logits, y, mask)
    assert torch.allclose(log_p.exp().sum(), torch.tensor(4.0))  # each known set stands there four times
    plain, few = MultiLabelSpace(100), sets[:, :, counts]
    pairs = [
        (log_p, plain.log_prob(logits[:, counts], few)),
        (bound.log_noise(logits, y, mask, normalized=True), log_p),
    ]
    pairs += [(bound.score(y, gold, mask), plain.score(few, gold[:, counts]))]
    for kind in space.costs:
        pairs.append((bound.cost(y, gold, kind, mask), plain.cost(few, gold[:, counts], kind)))
    for actual, expected in pairs:
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("name", TASK_LOSSES)
def test_a_task_loss_is_that_of_the_known_labels_alone(name):
    space = MultiLabelSpace(loss=TASK_LOSSES[name]())
    logits = torch.randn(3, 5, generator=GENERATOR).requires_grad_()
    labels = (torch.rand(3, 5, generator=GENERATOR) < 0.4).float()
    labels[:, [1, 3]] = torch.tensor([-1.0, NAN])
    loss = space.task_loss(logits, labels)
    few = [0, 2, 4]
    torch.testing.assert_close(loss, space.task_loss(logits[:, few], labels[:, few]))
    loss.backward()
    assert (logits.grad[:, [1, 3]] == 0).all() and (logits.grad[:, few] != 0).any()


def test_where_all_labels_are_known_the_long_way_ends_alike(tmp_path):
    def end(unknown):
        nets = tiny_run.model()
        trainer, _ = tiny_run.make(tmp_path, nets=nets, num_train_epochs=1)
        see = trainer.see
        trainer.see = lambda space, dataset: space.see(None) if unknown else see(space, dataset)
        trainer.train()
        assert trainer.space.unknown_labels is unknown
        return torch.cat([p.detach().flatten() for p in nets.parameters()])

    assert torch.equal(end(False), end(True))


# --- figures and decisions -------------------------------------------------------------------------------------------

P, Y = np.random.default_rng(0).random((40, 6)), np.random.default_rng(1).integers(-1, 2, (40, 6)).astype(float)
Y[5] = -1  # a row, and
Y[:, 2] = -1  # a label, of which nothing is known
ROWS = [i for i in range(40) if (Y[i] >= 0).any()]
COLUMNS = [0, 1, 3, 4, 5]


def of_known(score, rows, columns, by):
    """The mean over rows, or labels, of a score of the known gold and its probabilities."""
    lines = [(Y[i], P[i]) for i in rows] if by == "rows" else [(Y[:, j], P[:, j]) for j in columns]
    return np.mean([found for y, p in lines if (found := score(y[y >= 0], p[y >= 0])) is not None])


def f1_at(threshold):
    return lambda y, p: f1_score(y, p >= threshold, zero_division=1.0)


def test_figures_are_scikit_learns_of_the_known_labels():
    def precision(y, p):
        return average_precision_score(y, p) if y.any() else None

    figures, known = multilabel_metrics(P, Y, 0.4), Y >= 0
    assert figures["f1_example"] == pytest.approx(of_known(f1_at(0.4), ROWS, COLUMNS, "rows"))
    assert figures["f1_macro"] == pytest.approx(of_known(f1_at(0.4), ROWS, COLUMNS, "columns"))
    assert figures["f1_micro"] == pytest.approx(f1_score(Y[known], P[known] >= 0.4))
    assert figures["hamming_loss"] == pytest.approx(((P[known] >= 0.4) != Y[known]).mean())
    assert figures["map"] == pytest.approx(of_known(precision, ROWS, COLUMNS, "rows"))
    assert figures["map_macro"] == pytest.approx(of_known(precision, ROWS, COLUMNS, "columns"))
    exact = [((P[i] >= 0.4) == Y[i])[known[i]].all() for i in ROWS]
    assert figures["exact_match"] == pytest.approx(np.mean(exact))
    by_label = label_report(P >= 0.4, Y, list("abcdef"))
    assert by_label["a"]["support"] == (Y[:, 0] == 1).sum() and by_label["c"]["support"] == 0
    with pytest.raises(ValueError, match="all labels of these 40 examples are unknown"):
        multilabel_metrics(P, np.full_like(Y, -1))


@pytest.mark.parametrize("value", [-1.0, NAN])
def test_decisions_are_fitted_on_the_known_labels(value):
    labels, known = np.where(Y < 0, value, Y), Y >= 0
    threshold, best = tune_threshold(P, labels)
    grid = [example_f1((t / 100 <= P) & known, labels > 0)[ROWS].mean() for t in range(1, 100)]
    assert best == pytest.approx(max(grid)) and grid[round(threshold * 100) - 1] == pytest.approx(best)
    assert platt_scaling(P, labels) == pytest.approx(platt_scaling(P[known][:, None], Y[known][:, None]))
    thresholds = LabelDecisions.fit(P, labels, decoder="thresholds").thresholds
    scores = example_f1(P >= np.array(thresholds), labels)
    assert np.isnan(scores[5]) and scores[ROWS].mean() >= best
    fitted = LabelDecisions.fit(P, labels)
    other = np.where(known, P, np.random.default_rng(2).random(P.shape))  # of which nothing is known
    assert fitted == LabelDecisions.fit(P, Y) == LabelDecisions.fit(other, labels)
    assert fitted.threshold == threshold


# --- data ------------------------------------------------------------------------------------------------------------


def csv(folder, cells, **options):
    file = folder / "texts.csv"
    file.write_text("text,labels\n" + "".join(f'text {i},"{cell}"\n' for i, cell in enumerate(cells)))
    return load_multilabel(str(file), **options)


@pytest.mark.parametrize("empty", ["1,,0", "[1, null, 0]", "1;-1;0", "[1.0, NaN, 0.0]"])
def test_multi_hot_cells_may_leave_labels_unknown(tmp_path, empty):
    data = csv(tmp_path, [empty, *["0,1,0", "1,0,1", "0,0,1"] * 7])
    labels = np.concatenate([s["labels"][:] for s in (data.train, data.validation, data.test)])
    assert sorted(labels.tolist()) == sorted([[1, -1, 0], *[[0, 1, 0], [1, 0, 1], [0, 0, 1]] * 7])
    assert any("1 of 66 labels of rows are unknown (-1)" in note for note in data.notes)
    gold = np.asarray(data.train["labels"][:])
    expected = [((column == 1).sum() + 0.5) / ((column >= 0).sum() + 1) for column in gold.T]
    assert np.allclose(data.label_rates, expected)


def test_what_is_neither_0_1_nor_unknown_is_refused(tmp_path):
    with pytest.raises(
        DataError, match="texts.csv, line 4: multi-hot labels must be 0 or 1, or -1 or empty if unknown; found '2'"
    ):
        csv(tmp_path, ["1;0", "0;0", "2;0"], label_format="multi_hot")
    table = Dataset.from_dict({"features": [[0.0] * 20] * 4, "labels": [[2.0, 0, 0, 0, 0, 0]] * 4})
    with pytest.raises(ValueError, match="`train_dataset` holds 2; expected 0 or 1 .* or -1"):
        tiny_run.make(tmp_path, rows=TensorRows(table))


def test_question_marks_of_arff_labels_are_unknown(tmp_path):
    lines = ["@relation toy", "@attribute x numeric", "@attribute a {0,1}", "@attribute b {0,1}", "@data"]
    (tmp_path / "toy.arff").write_text("\n".join([*lines, *["1,0,1", "2,1,?", "3,?,0"] * 10]))
    (tmp_path / "toy.xml").write_text('<labels><label name="a"/><label name="b"/></labels>')
    data = load_multilabel(str(tmp_path))
    labels = {tuple(row) for split in (data.train, data.validation, data.test) for row in split["labels"][:]}
    assert labels == {(0, 1), (1, -1), (-1, 0)}
    assert any("20 of 60 labels of rows are unknown" in note for note in data.notes)


def test_a_file_to_evaluate_has_question_marks_too(tmp_path):
    lines = [
        "@relation toy",
        "@attribute x numeric",
        "@attribute w numeric",
        "@attribute a {0,1}",
        "@attribute b {0,1}",
    ]
    (tmp_path / "toy.arff").write_text("\n".join([*lines, "@data", "1,9,0,1", "2,9,?,?", "3,9,1,?"]))
    reader = ArffReader(find_arff(str(tmp_path / "toy.arff"), None), ["b", "a"], 1, gold=True, unread=["w"])
    (chunk,) = reader.chunks(5)
    assert chunk.inputs.tolist() == [[1], [2], [3]]
    assert reader.labels == ["b", "a"] and chunk.gold.tolist() == [[1, 0], [-1, -1], [-1, 1]]


def test_an_energy_network_on_its_own_refuses_them(tmp_path):
    args = EnergyTrainingArguments(str(tmp_path), use_cpu=True, report_to="none")
    with pytest.raises(ValueError, match="`train_dataset` has unknown labels .* no task-net"):
        EnergyTrainer(tiny_run.model().loss_net, args, train_dataset=TensorRows(rows(-1.0)))
    both = {"known": TensorRows(rows(0.0)), "unknown": TensorRows(rows(-1.0))}
    with pytest.raises(ValueError, match="`eval_dataset` has unknown labels"):
        EnergyTrainer(tiny_run.model().loss_net, args, train_dataset=both["known"], eval_dataset=both)
    left = rows(-1.0).filter(lambda row: min(row["labels"]) >= 0)  # as the message advises
    EnergyTrainer(tiny_run.model().loss_net, args, train_dataset=left)


def test_labels_that_are_unknown_in_the_training_rows_alone_stay_so(tmp_path):
    """The evaluation rows, which the trainer looks at later, have all labels."""
    ends = []
    for value in (-1.0, NAN):
        trainer, nets = tiny_run.make(tmp_path, rows=TensorRows(rows(value)), max_steps=2)
        trainer.eval_dataset = TensorRows(tiny_run.table())
        trainer.train()
        ends.append(tiny_run.parameters(nets))
    assert torch.equal(*ends) and ends[0].isfinite().all()


@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_labels_that_are_unknown_in_another_data_set_alone_are_noticed_there(tmp_path, method):
    """By a trainer whose own rows have all labels; a fresh one each time, since it remembers what it has seen."""
    losses = []
    for value in (-1.0, NAN):
        trainer, _ = tiny_run.make(tmp_path)
        if method == "evaluate":
            losses.append(trainer.evaluate(TensorRows(rows(value)))["eval_loss"])
        else:
            losses.append(trainer.predict(TensorRows(rows(value))).metrics["test_loss"])
    assert losses[0] == losses[1] and np.isfinite(losses).all()


def test_micro_batches_hold_draws_of_their_own_at_unknown_labels(tmp_path, monkeypatch):
    """A task-net of zeros draws each with probability one half; both updates of a step have the same draw."""
    draw, seen = NCE.draw, []
    noting = lambda loss, space, logits, gold, noise: [seen.append(gold), draw(loss, space, logits, gold, noise)][1]  # noqa: E731
    monkeypatch.setattr(NCE, "draw", noting)
    nets = tiny_run.model()
    for parameter in nets.task_net.parameters():
        parameter.data.zero_()
    unknown = torch.ones_like(UNKNOWN)
    unknown[:, 0] = False
    options = dict(batch=16, accumulation=2, loss_net_steps=2, max_steps=2, learning_rate=0.0)
    tiny_run.make(tmp_path, nets=nets, rows=TensorRows(rows(-1.0, unknown)), **options)[0].train()
    held = [gold[:, 1:] for gold in seen]  # of step 1: update 1 of both micro-batches, update 2 of both; then step 2
    assert len(held) == 8 and torch.equal(held[0], held[2]) and torch.equal(held[1], held[3])
    assert not torch.equal(held[0], held[1]) and not torch.equal(held[0], held[4])


def test_an_unknown_label_in_any_part_of_a_table_is_seen(tmp_path):
    """A concatenated data set has its labels in several chunks."""
    whole, part = tiny_run.table(), tiny_run.table().select(range(8))
    labels = [[-1.0] * 3 + row[3:] for row in part["labels"]]
    unknown = part.remove_columns("labels").add_column("labels", labels, feature=whole.features["labels"])
    for order in ([unknown, whole], [whole, unknown]):
        trainer, _ = tiny_run.make(tmp_path, rows=concatenate_datasets(order), max_steps=1)
        assert trainer.space.unknown_labels
