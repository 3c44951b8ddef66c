"""EnergyTrainer. Oracles: all 2^L label sets of small problems, the losses' closed forms, uninterrupted runs."""

import itertools

import pytest
import tiny_run
import torch
from datasets import Dataset
from fake_hub import FakeHub
from tiny_energy import make
from tiny_models import tiny_config, tiny_features, tiny_inputs, tiny_texts, tiny_tokenizer
from transformers import AutoModelForSequenceClassification

from seal_hf import (
    EnergyTrainer,
    LossNet,
    LossNetConfig,
    MLPConfig,
    MLPForMultiLabel,
    MultiLabelSpace,
    SealForMultiLabel,
    SealTrainer,
    TensorRows,
    load_energy_network,
    load_multilabel,
    tokenize,
)
from seal_hf.metrics import multilabel_compute_metrics
from seal_hf.tasks.labels.evaluation import evaluate_multilabel
from seal_hf.tasks.labels.program import ENERGY_PROGRAM as energy

L = 3
SETS = torch.tensor(list(itertools.product([0.0, 1.0], repeat=L)))  # (8, 3)
SPACE = MultiLabelSpace()


def network(num_inputs, labels=L, hidden=32, dropout=0.0):
    torch.manual_seed(0)
    encoder = MLPConfig(input_size=num_inputs, hidden_size=hidden, num_layers=1 + (dropout > 0), dropout=dropout)
    return LossNet(
        LossNetConfig(encoder_config=encoder.to_dict(), feature_size=hidden, global_size=32, num_labels=labels)
    )


def indifferent(num_inputs, labels=L):
    """A task-net that gives every label set the same probability."""
    task_net = MLPForMultiLabel(MLPConfig(input_size=num_inputs, hidden_size=4, num_labels=labels))
    task_net.classifier.weight.data.zero_()
    return task_net


def table(inputs, labels):
    return TensorRows(Dataset.from_dict({"features": inputs.numpy(), "labels": labels.numpy()}))


@torch.no_grad()
def energies_of_all_sets(net, inputs):
    return net.eval()(SETS.expand(len(inputs), -1, -1), None, {"features": inputs})  # (B, 8)


# --- what is learned -------------------------------------------------------------------------------------------------

INPUTS = torch.eye(4)
GOLD = torch.tensor([[1.0, 0, 0], [0, 1, 1], [1, 1, 1], [1, 0, 1]])
INDEX = (GOLD @ torch.tensor([4.0, 2, 1])).long()  # of gold among SETS
RANKING = dict(per_device_train_batch_size=4, lr_scheduler_type="constant", inference_steps=10, logging_steps=1000)


@pytest.mark.parametrize("start", ["auto", "random"])
def test_spen_gives_gold_the_least_energy_of_all_label_sets_by_the_margin(tmp_path, start):
    net = network(4)
    options = dict(inference_start=start, inference_num_starts=2, inference_learning_rate=0.2)
    trainer = make(tmp_path, net, table(INPUTS, GOLD), max_steps=150, **options, **RANKING)
    trainer.train()
    energies = energies_of_all_sets(net, INPUTS)
    assert torch.equal(energies.argmin(1), INDEX)
    cost = SPACE.cost(SETS.expand(4, -1, -1), GOLD, "f1")
    gap = energies - energies.gather(1, INDEX.unsqueeze(1))
    assert (gap >= cost - 0.1).all()
    predictions = trainer.predict(trainer.eval_dataset).predictions
    assert torch.equal((torch.from_numpy(predictions) >= 0).float(), GOLD)


def test_dvn_learns_the_score_of_all_label_sets(tmp_path):
    net = network(4)
    options = dict(energy_method="dvn", inference_num_starts=2, inference_learning_rate=0.1)
    make(tmp_path, net, table(INPUTS, GOLD), max_steps=250, **options, **RANKING).train()
    value = torch.sigmoid(-energies_of_all_sets(net, INPUTS))
    score = SPACE.score(SETS.expand(4, -1, -1), GOLD)
    assert torch.equal(value.argmax(1), INDEX)
    better = score.unsqueeze(2) > score.unsqueeze(1) + 1e-6  # (4, 8, 8): every pair that differs is ranked rightly
    assert (value.unsqueeze(2) > value.unsqueeze(1))[better].all() and better.sum() > 80
    assert (value - score).abs().mean() < 0.1


def test_nce_learns_the_conditional_distribution(tmp_path):
    """Two inputs whose label sets depend on each other; rows in proportion to p(y | x)."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.eye(2)
    exponent = torch.randn(2, L, generator=generator) @ SETS.T + 1.5 * torch.randn(8, generator=generator)
    counts = (400 * exponent.softmax(1)).round().long()
    rows = [(inputs[x], SETS[y]) for x in range(2) for y in range(8) for _ in range(counts[x, y])]
    data = table(*(torch.stack(part) for part in zip(*rows, strict=True)))
    net, options = network(2), {**RANKING, "per_device_train_batch_size": 100, "lr_scheduler_type": "linear"}
    trainer = make(
        tmp_path, net, data, energy_method="nce", num_samples=30, task_net=indifferent(2), max_steps=400, **options
    )
    trainer.train()
    learned = torch.softmax(-energies_of_all_sets(net, inputs), 1)
    torch.testing.assert_close(learned, counts / counts.sum(1, keepdim=True), rtol=0, atol=0.03)


@pytest.mark.parametrize("method", ["ranking", "regression_s"])
def test_the_other_losses_on_samples_learn_the_order_of_the_label_sets(tmp_path, method):
    """Gold has the least energy; of `regression_s`, on samples around 1/2, the estimated score is highest there."""
    net = network(4)
    options = dict(energy_method=method, num_samples=16, task_net=indifferent(4), max_steps=150)
    make(tmp_path, net, table(INPUTS, GOLD), **options, **RANKING).train()
    assert torch.equal(energies_of_all_sets(net, INPUTS).argmin(1), INDEX)


def test_structures_of_regression_s_are_those_that_the_arguments_say(tmp_path):
    """Without noise all K are the task-net's output; discrete ones are label sets, whose energies are known."""
    net, batch = network(4), {"features": INPUTS, "labels": GOLD}
    options = dict(energy_method="regression_s", num_samples=9, task_net=indifferent(4))
    make_energies = lambda **more: make(tmp_path, net, table(INPUTS, GOLD), **options, **more).compute_loss(  # noqa: E731
        net, dict(batch), return_outputs=True
    )
    energies = make_energies(perturbation_std=0.0)[1]["energies"]
    assert energies.shape == (len(INPUTS), 2 + 8)
    torch.testing.assert_close(energies[:, 2:], energies[:, :1].expand(-1, 8))
    noisy = make_energies(perturbation_std=2.0)[1]["energies"]
    assert (noisy[:, 2:] - noisy[:, :1]).abs().amax(1).min() > 1e-4
    discrete = make_energies(regression_samples="discrete")[1]["energies"]
    known = energies_of_all_sets(net, INPUTS)
    assert (discrete[:, 2:, None] - known[:, None]).abs().amin(2).max() < 1e-5


# --- how it is trained -----------------------------------------------------------------------------------------------


def digits_like(rows=tiny_run.ROWS):
    return TensorRows(tiny_run.table(rows))


def train(folder, resume=None, stop=None, dropout=0.3, seed=0, **options):
    """A short run on the tiny data: all parameters, and the trainer."""
    net = network(tiny_run.FEATURES, tiny_run.LABELS, 16, dropout)
    torch.manual_seed(seed)
    options = {"inference_steps": 3, "inference_steps_eval": 3, "inference_start": "random", **options}
    if options.get("energy_method") == "nce":
        options |= {"task_net": indifferent(tiny_run.FEATURES, tiny_run.LABELS), "num_samples": 4}
    trainer = make(folder, net, digits_like(), [tiny_run.StopAt(stop)] if stop else None, **options)
    trainer.train(resume_from_checkpoint=resume)
    return torch.cat([p.detach().flatten() for p in net.parameters()]), trainer


@pytest.mark.parametrize(
    "options",
    [
        dict(energy_method="spen", inference_num_starts=2),
        dict(energy_method="dvn", per_device_train_batch_size=8, gradient_accumulation_steps=2),
        dict(energy_method="nce", bf16=True),
    ],
    ids=["spen", "dvn", "nce"],
)
def test_resumed_equals_uninterrupted_to_the_bit(tmp_path, options):
    """Dropout, samples and random starts on, and an evaluation in between, which changes nothing of what is drawn."""
    whole, done = train(tmp_path / "whole", **options)
    train(tmp_path / "part", stop=8, save_strategy="steps", save_steps=8, **options)
    evaluated = dict(eval_strategy="steps", eval_steps=5, resume_changed=True, **options)
    resumed, trainer = train(tmp_path / "part", resume=True, seed=9, **evaluated)
    assert torch.equal(resumed, whole) and trainer.state.global_step == done.state.global_step > 8
    logged = [[log["loss"] for log in t.state.log_history if "loss" in log] for t in (done, trainer)]
    assert logged[0] == logged[1]


def test_random_starts_are_new_in_every_micro_batch_and_the_same_in_every_evaluation(tmp_path, monkeypatch):
    options = dict(inference_start="random", per_device_train_batch_size=8, gradient_accumulation_steps=2, max_steps=3)
    trainer = make(tmp_path, network(tiny_run.FEATURES, tiny_run.LABELS), digits_like(), **options)
    seen, candidates = [], type(trainer.method).candidates
    noting = lambda method, problem: [seen.append(problem.starts), candidates(method, problem)][1]  # noqa: E731
    monkeypatch.setattr(type(trainer.method), "candidates", noting)
    trainer.train()
    assert len(seen) == 6 and not any(torch.equal(a, b) for a, b in itertools.combinations(seen, 2))
    first, second = (trainer.predict(trainer.eval_dataset).predictions for _ in range(2))
    assert (first == second).all()


@pytest.mark.parametrize("method", ["spen", "dvn"])
def test_accumulated_micro_batches_are_the_whole_batch(tmp_path, method):
    """Where nothing is drawn, by plain gradient descent."""
    options = dict(energy_method=method, inference_start="zeros", dropout=0.0, max_steps=4, max_grad_norm=0.0)
    options |= dict(optim="sgd", learning_rate=0.1)
    whole, _ = train(tmp_path / "whole", **options)
    parts, _ = train(tmp_path / "parts", per_device_train_batch_size=4, gradient_accumulation_steps=4, **options)
    torch.testing.assert_close(parts, whole, rtol=0, atol=2e-6)
    assert (whole - train(tmp_path / "none", **{**options, "learning_rate": 0.0})[0]).abs().max() > 1e-3


def test_the_loss_is_the_methods_equation_at_the_points_that_inference_finds(tmp_path):
    batch = digits_like().batch(range(12))
    for method in ("spen", "dvn"):
        net = network(tiny_run.FEATURES, tiny_run.LABELS, 16)
        trainer = make(tmp_path, net, digits_like(), energy_method=method, inference_start="uniform")
        gold, infer = batch["labels"], trainer.method.inference
        energy = lambda y: net(y, None, {"features": batch["features"]})  # noqa: B023, E731
        starts, one = torch.full((12, 1, tiny_run.LABELS), 0.5), gold.unsqueeze(1)
        cost = lambda y: 1 - SPACE.score(y, gold)  # noqa: B023, E731
        score = lambda y: SPACE.score(y, gold).detach()  # noqa: B023, E731
        bce = lambda y: torch.nn.functional.binary_cross_entropy_with_logits(-energy(y), score(y), reduction="none")  # noqa: B023, E501, E731
        if method == "spen":
            y = infer(lambda y: energy(y) - cost(y), starts)[0]  # noqa: B023
            expected = torch.relu(cost(y) - energy(y) + energy(one)).mean()
            assert (energy(y) - cost(y) < energy(starts) - cost(starts)).all()
        else:
            adversarial = infer(lambda y: -bce(y), starts)[0]  # noqa: B023
            expected = (bce(infer(energy, starts)[0]) + bce(adversarial) + bce(one)).mean()
            assert (bce(adversarial) >= bce(starts)).all() and bce(adversarial).mean() > bce(starts).mean()
        torch.testing.assert_close(trainer.compute_loss(net, batch), expected)


def test_a_frozen_task_net_stays_as_it_is_and_gives_the_start(tmp_path):
    torch.manual_seed(1)
    config = MLPConfig(input_size=tiny_run.FEATURES, hidden_size=4, dropout=0.5, num_labels=tiny_run.LABELS)
    task_net = MLPForMultiLabel(config).train()
    before = {name: value.clone() for name, value in task_net.state_dict().items()}
    _, trainer = train(tmp_path, task_net=task_net, inference_start="auto", inference_steps_eval=0)
    assert all(torch.equal(value, before[name]) for name, value in task_net.state_dict().items())
    found = torch.from_numpy(trainer.predict(trainer.eval_dataset).predictions)
    rows = trainer.eval_dataset.batch(range(tiny_run.ROWS))
    torch.testing.assert_close(found, task_net(rows["features"]).logits, rtol=1e-4, atol=1e-4)  # no step, no dropout


# --- prediction ------------------------------------------------------------------------------------------------------


def test_predictions_are_logits_of_the_least_energy_found(tmp_path):
    _, trainer = train(tmp_path, inference_start="zeros", compute_metrics=multilabel_compute_metrics, max_steps=10)
    net, data = trainer.model.eval(), trainer.eval_dataset
    rows = data.batch(range(len(data)))
    energy = lambda y: net(y, None, {"features": rows["features"]})  # noqa: E731
    y, value = trainer.inference(energy, torch.zeros(len(data), 1, tiny_run.LABELS))
    output = trainer.predict(data)
    predicted = torch.sigmoid(torch.from_numpy(output.predictions))
    torch.testing.assert_close(predicted, y.squeeze(1), rtol=0, atol=1e-5)
    gold = energy(rows["labels"].unsqueeze(1))
    figures = trainer.evaluate()
    assert figures["eval_loss"] == pytest.approx((gold - value).mean().item(), abs=1e-4)
    assert figures["eval_energy_gold"] == pytest.approx(gold.mean().item(), abs=1e-4)
    assert 0 <= figures["eval_f1_example"] <= 1
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in net.parameters())
    found = evaluate_multilabel(trainer, data, data)
    metrics, (probabilities, _) = found.metrics, found.test
    assert probabilities.shape == (len(data), tiny_run.LABELS)
    assert metrics["eval_f1_example_tuned"] >= figures["eval_f1_example"] - 1e-9
    assert trainer.model.config.decisions["threshold"] == metrics["threshold"]
    unlabelled = TensorRows(tiny_run.table().remove_columns("labels"))
    assert (trainer.predict(unlabelled).predictions == output.predictions).all()


# --- saved and loaded ------------------------------------------------------------------------------------------------


def test_a_saved_network_reloads_with_equal_energies_and_normalisation(tmp_path):
    _, trainer = train(tmp_path / "run", save_strategy="steps", save_steps=6)
    trainer.model.encoder.shift.fill_(0.25)
    trainer.save_model(str(tmp_path / "net"))
    inputs, y = {"features": torch.randn(4, tiny_run.FEATURES)}, torch.rand(4, 2, tiny_run.LABELS)
    with torch.no_grad():
        loaded = load_energy_network(tmp_path / "net")
        assert torch.equal(loaded(y, None, inputs), trainer.model.eval()(y, None, inputs))
    names = {path.name for path in (tmp_path / "net").iterdir()}
    assert names == {"config.json", "model.safetensors", "training_args.bin"}
    assert load_energy_network(tmp_path / "run" / "checkpoint-18").config.encoder_mode == "separate"


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_a_network_with_a_hugging_face_encoder_trains_and_reloads(tmp_path, kind):
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(tiny_config(kind)).save_pretrained(tmp_path / "task_net")
    nets = SealForMultiLabel.from_pretrained(tmp_path / "task_net")
    rows = tokenize(tiny_texts(16), tiny_tokenizer(), 16)
    before = [p.clone() for p in nets.loss_net.parameters()]
    options = dict(max_steps=2, per_device_train_batch_size=8, task_net=nets.task_net)
    trainer = make(tmp_path / "run", nets.loss_net, rows, **options)
    trainer.train()
    trainer.save_model()
    assert all((p != q).any() for p, q in zip(nets.loss_net.parameters(), before, strict=True))
    inputs, y = tiny_inputs(kind), torch.rand(5, 3, 4)
    with torch.no_grad():
        energies = load_energy_network(tmp_path / "run")(y, None, inputs)
        assert torch.equal(energies, nets.loss_net.eval()(y, None, inputs))
    assert trainer.predict(rows).predictions.shape == (16, 4)


def test_a_trained_network_is_a_loss_net_of_seal(tmp_path):
    """SEAL-static: loaded and left as it is, beside a task-net that it teaches."""
    train(tmp_path / "energy", max_steps=2)[1].save_model()
    nets = SealForMultiLabel(tiny_run.model().task_net, load_energy_network(tmp_path / "energy"))
    trainer, _ = tiny_run.make(tmp_path / "seal", nets=nets, loss_net_steps=0, max_steps=2)
    assert isinstance(trainer, SealTrainer)
    trainer.train()
    loaded = load_energy_network(tmp_path / "energy")
    pairs = zip(nets.loss_net.parameters(), loaded.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_the_example_trains_saves_and_starts_from_a_task_net(tmp_path, capsys, caplog):
    quiet = (
        "--use_cpu --max_train_rows 64 --num_train_epochs 1 --save_strategy no --report_to none --report false".split()
    )
    quiet += ["--disable_tqdm", "true", "--inference_steps_eval", "2", "--output_dir"]
    energy.main([*quiet, str(tmp_path / "spen"), "--hidden_size", "16"])
    names = {path.name for path in (tmp_path / "spen").iterdir()}
    assert {"eval_results.json", "test_results.json", "all_results.json", "_predictions.jsonl"} <= names
    assert "example F1 at 0.5" in capsys.readouterr().out
    assert load_energy_network(tmp_path / "spen").config.feature_size == 16

    nets = SealForMultiLabel.for_data(load_multilabel(normalize="auto"), hidden_size=12)
    nets.task_net.save_pretrained(tmp_path / "task_net")
    unmoved = ["--learning_rate", "0", "--energy_method", "nce", "--task_net_path", str(tmp_path / "task_net")]
    energy.main([*quiet, str(tmp_path / "nce"), *unmoved])
    loaded = load_energy_network(tmp_path / "nce")
    for name, value in nets.task_net.encoder.state_dict().items():  # with the normalisation that goes with its weights
        assert torch.equal(loaded.encoder.state_dict()[name], value)
    nets.loss_net.encoder.layers[0].weight.data.zero_()
    nets.save_pretrained(tmp_path / "both")  # with a loss-net, that is no start of this network
    both = [*unmoved[:-1], str(tmp_path / "both"), "--dropout", "0.4", "--hidden_size", "77"]
    with caplog.at_level("WARNING"):
        energy.main([*quiet, str(tmp_path / "from_both"), *both])
    again = load_energy_network(tmp_path / "from_both").encoder.state_dict()
    assert all(torch.equal(again[name], value) for name, value in nets.task_net.encoder.state_dict().items())
    assert "`dropout` 0.4 is ignored" in caplog.text and "`hidden_size` 77 is ignored" in caplog.text
    MLPForMultiLabel(MLPConfig(input_size=192, num_labels=18)).save_pretrained(tmp_path / "other")
    with pytest.raises(ValueError, match="the labels of .* differ from those of digits"):
        energy.main([*quiet, str(tmp_path / "x"), "--energy_method", "nce", "--task_net_path", str(tmp_path / "other")])


def test_a_second_run_draws_as_the_first_and_forgets_the_decisions(tmp_path, monkeypatch):
    net, keys = network(tiny_run.FEATURES, tiny_run.LABELS), []
    trainer = make(tmp_path, net, digits_like(), energy_method="spen", inference_start="random", max_steps=1)
    noise = trainer._noise
    monkeypatch.setattr(trainer, "_noise", lambda *key: keys.append(key) or noise(*key))
    for _ in range(2):
        net.config.decisions = {"decoder": "fixed"}
        trainer.train()
        assert getattr(net.config, "decisions", None) is None
    assert len(keys) >= 2 and keys[: len(keys) // 2] == keys[len(keys) // 2 :]


PUSHED = """
from seal_hf import load_energy_network
from seal_hf.tasks.labels.program import ENERGY_PROGRAM as energy
quiet = "--use_cpu --max_train_rows 64 --num_train_epochs 1 --report_to none --report false --disable_tqdm true".split()
quiet += ["--inference_steps_eval", "2", "--hidden_size", "16", "--output_dir", "out"]
energy.main([*quiet, "--push_to_hub", "true", "--hub_model_id", "user/energy"])
assert load_energy_network("user/energy").config.feature_size == 16
"""


@pytest.mark.long
def test_an_energy_network_is_pushed_and_loaded_back(tmp_path):
    with FakeHub() as hub:
        hub.run(PUSHED, tmp_path)
        assert {"config.json", "model.safetensors"} <= hub.files("user/energy").keys()
    assert (tmp_path / "out" / "test_results.json").is_file()


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"energy_method": "ssvm"},
            "`energy_method` is 'ssvm'; it must be one of spen, dvn, nce, ranking, regression_s",
        ),
        ({"margin_cost": "f2"}, "`margin_cost` is 'f2'"),
        ({"margin_cost": "iou"}, "`margin_cost` is 'iou'; for multi_label outputs"),
        ({"inference_start": "ones"}, "`inference_start` is 'ones'; it must be one of auto"),
        ({"inference_optimizer": "sgd"}, "`inference_optimizer` is 'sgd'"),
        ({"inference_steps": -1}, "`inference_steps` is -1"),
        ({"inference_num_starts": 0}, "`inference_num_starts` is 0"),
        ({"inference_learning_rate": 0.0}, "`inference_learning_rate` is 0"),
        ({"num_samples": 0}, "`num_samples` is 0"),
        ({"perturbation_std": -1.0}, "`perturbation_std` is -1.0; it must be a finite number, at least 0"),
        ({"regression_samples": "soft"}, "`regression_samples` is 'soft'; it must be one of continuous, discrete"),
        (
            {"energy_method": "dvn", "dvn_points": ["gold"]},
            "`dvn_points` has 'gold'; .*start, other_gold, flipped_gold, mixed_gold",
        ),
        ({"dvn_points": ["start"]}, "`dvn_points` .*energy_method='dvn', not 'spen'"),
        ({"energy_method": "dvn", "dvn_gold_starts": 1.5}, "`dvn_gold_starts` is 1.5"),
        ({"bf16_full_eval": True}, "`bf16_full_eval` is set, .* Use bf16=True"),
        ({"neftune_noise_alpha": 1.0}, "`neftune_noise_alpha` is 1.0, but the model, LossNet, embeds no tokens"),
    ],
)
def test_arguments_are_refused_by_name(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        make(tmp_path, network(tiny_run.FEATURES, tiny_run.LABELS), digits_like(), **options)


@pytest.mark.parametrize("option, message", [("torch_compile", "`torch_compile`"), ("fp16", "fp16 is set")])
def test_precision_and_compilation_that_do_not_work_are_refused(tmp_path, option, message):
    with pytest.raises(ValueError, match=message):
        make(tmp_path, network(tiny_run.FEATURES, tiny_run.LABELS), digits_like(), **{option: True})


def test_what_cannot_be_trained_is_refused_at_the_start(tmp_path):
    rows, net = digits_like(), network(tiny_run.FEATURES, tiny_run.LABELS)
    shared = LossNet(LossNetConfig(encoder_mode="shared", num_labels=tiny_run.LABELS))
    for model, options, message in (
        (net, dict(energy_method="nce"), "energy_method='nce' needs .* SealForMultiLabel.* to seal-hf train energy"),
        (net, dict(inference_start="task_net"), "inference_start='task_net' needs a trained task-net"),
        (net, dict(task_net=indifferent(tiny_run.FEATURES, 5)), "has 5 labels, the energy network 6"),
        (net, dict(space=MultiLabelSpace(sparse_from=6)), "6 labels are sparse.*sparse_from=7"),
        (shared, {}, "encoder_mode is 'shared'"),
        (tiny_run.model(), {}, "model=nets.loss_net"),
        (indifferent(3), {}, "MLPForMultiLabel; EnergyTrainer trains an energy network"),
    ):
        with pytest.raises(ValueError, match=message):
            make(tmp_path, model, rows, **options)
    with pytest.raises(ValueError, match="takes EnergyTrainingArguments"):
        EnergyTrainer(net, tiny_run.arguments(tmp_path), train_dataset=rows)
    with pytest.raises(ValueError, match="has no column `labels`"):
        make(tmp_path, net, TensorRows(tiny_features(4).rename_column("labels", "label")))
    indifferent(3).save_pretrained(tmp_path / "task_net")
    with pytest.raises(ValueError, match="type 'seal_mlp', expected an energy network"):
        load_energy_network(tmp_path / "task_net")
    with pytest.raises(OSError):
        load_energy_network(tmp_path / "nowhere")
