"""Implicit gradients in the trainer: the loss-net's gradient against `Hypergradient` on the same functions, and runs
that must end alike."""

import pytest
import tiny_masks
import tiny_run
import tiny_tags
import torch
from tiny_models import tiny_arguments, tiny_config, tiny_inputs, tiny_texts, tiny_tokenizer
from transformers import (
    AutoModelForSequenceClassification,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    TrainerCallback,
)

from seal_hf import MaskRows, SealForMultiLabel, SealForSegmentation, SealTrainer, SealTrainingArguments, tokenize
from seal_hf.extensions import implicit_gradients
from seal_hf.extensions.hypergradient import METHODS, Hypergradient, TaskFunction, flatten

IMPLICIT = list(METHODS)[1:]


def bert(**changes):
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_config(tiny_config("bert", **changes))


def recorded(trainer):
    """The gradients of the loss-net's first update, and what it was computed from."""
    seen = {}

    def solve(batches, *args):
        implicit = tiny_run.extension(trainer)
        seen.setdefault("batches", batches)
        seen.setdefault("phi", {k: p.detach().clone() for k, p in implicit.task_function.parameters().items()})
        seen.setdefault("theta", [p.detach().clone() for p in trainer.learner.parameters])
        return type(implicit).solve(implicit, batches, *args)

    def apply():
        seen.setdefault("gradient", [p.grad.clone() for p in trainer.learner.parameters])
        type(trainer.learner).apply(trainer.learner)

    build = trainer.create_scheduler

    def create_scheduler(*args, **kwargs):
        scheduler = build(*args, **kwargs)
        tiny_run.extension(trainer).solve, trainer.learner.apply = solve, apply
        return scheduler

    trainer.create_scheduler = create_scheduler
    trainer.train()
    return seen


def gradients(folder, **options):
    """Of the energy, over a window of two micro-batches: the trainer's gradient, and the direct and the full one that
    extensions/hypergradient.py gives on the mean of their functions. Flat."""
    options |= dict(hypergradient_terms=3, max_steps=1, encoder="shared", accumulation=2, batch=8)
    trainer, _ = tiny_run.make(folder, **options)
    seen = recorded(trainer)
    with torch.no_grad():
        for p, before in zip(trainer.learner.parameters, seen["theta"], strict=True):
            p.copy_(before)
    trainer.state.global_step = 0  # the noise is that of the first step
    implicit, energy = tiny_run.extension(trainer), list(trainer.loss_net.energy.parameters())

    def mean(losses):
        return lambda phi: sum(loss(phi) for loss in losses) / len(losses)

    inner = mean([implicit.inner(batch, 0, 1.0) for batch in seen["batches"]])
    outer = mean([implicit.outer(batch, 0) for batch in seen["batches"]])
    full, _ = Hypergradient(options["hypergradient"], 3)(inner, outer, seen["phi"], energy)
    direct, _ = Hypergradient("none")(inner, outer, seen["phi"], energy)
    found = dict(zip(map(id, trainer.learner.parameters), seen["gradient"], strict=True))
    return flatten([found[id(p)] for p in energy]), flatten(direct), flatten(full)


@pytest.mark.parametrize(
    "loss, subset", [("margin", "all"), ("regression", "head"), ("contrastive_divergence", "head")]
)
@pytest.mark.parametrize("method", IMPLICIT)
def test_the_loss_nets_gradient_is_the_hypergradient(method, loss, subset, tmp_path):
    options = dict(hypergradient=method, hypergradient_parameters=subset, loss=loss)
    found, direct, full = gradients(tmp_path, **options)
    assert (found - full).norm() < 1e-5 * full.norm() and (found - direct).norm() > 1e-3 * full.norm()


@pytest.mark.parametrize("method", IMPLICIT)
def test_accumulation_changes_nothing(method, tmp_path):
    options = dict(loss="margin", hypergradient=method, max_steps=4)
    whole, halves = (tiny_run.run(tmp_path, batch=16 // parts, accumulation=parts, **options)[0] for parts in (1, 2))
    torch.testing.assert_close(whole, halves, rtol=0, atol=1e-5)


def test_without_weight_of_the_energy_nothing_changes(tmp_path):
    options = dict(loss="margin", energy_weight=0.0, max_steps=4)
    plain = tiny_run.run(tmp_path, **options)[0]
    for method in ("neumann", "cg"):
        implicit = tiny_run.run(tmp_path, hypergradient=method, **options)[0]
        torch.testing.assert_close(implicit, plain, rtol=0, atol=1e-6)  # one more column in a product of matrices


@pytest.mark.parametrize("subset", ["head", "all"])
def test_in_bf16_the_implicit_term_is_that_of_float32(subset, tmp_path):
    """To the digits of a bf16 forward, that is: what is left when the same run's direct gradient is taken off."""
    options = dict(loss="regression", bf16=True, hypergradient_parameters=subset)
    found, direct, full = gradients(tmp_path, hypergradient="cg", **options)
    first_order, _, _ = gradients(tmp_path, hypergradient="neumann", hypergradient_scale=1e12, **options)
    implicit = full - direct
    assert (found - first_order - implicit).norm() < 0.03 * implicit.norm()


def test_a_resumed_run_ends_where_the_whole_one_does(tmp_path):
    options = dict(loss="contrastive_divergence", hypergradient="neumann", dropout=0.2, num_samples=4)
    options |= dict(save_strategy="steps", save_steps=4)
    whole, _ = tiny_run.run(tmp_path / "whole", **options)
    resumed, _ = tiny_run.run(tmp_path / "part", resume=str(tmp_path / "whole/checkpoint-4"), **options)
    assert torch.equal(whole, resumed)


def test_tags_accumulate_and_resume_as_label_sets_do(tmp_path):
    """Of energies with a recurrent net; micro-batches are padded to other lengths."""

    def run(folder, parts, resume=None):
        torch.manual_seed(0)
        both, rows = tiny_tags.nets("bilstm", None, energy="chain_ge_a")
        options = dict(energy_loss="regression", hypergradient="cg", hypergradient_damping=5.0, num_train_epochs=3)
        options |= dict(per_device_train_batch_size=16 // parts, gradient_accumulation_steps=parts)
        options |= dict(save_strategy="steps", save_steps=3, energy_weight=20.0)
        trainer = tiny_tags.trainer(tmp_path / folder, both, rows, **options)
        trainer.train(resume_from_checkpoint=resume)
        return tiny_tags.parameters(both)

    whole, halves = run("whole", 1), run("halves", 2)
    torch.testing.assert_close(whole, halves, rtol=0, atol=1e-5)
    assert torch.equal(run("part", 2, resume=str(tmp_path / "halves/checkpoint-3")), halves)


def test_the_log_has_the_diagnostics_and_the_remedy(tmp_path, monkeypatch):
    messages = []
    monkeypatch.setattr(implicit_gradients.logger, "warning", messages.append)
    options = dict(loss="margin", hypergradient="neumann", hypergradient_terms=9, max_steps=4)
    trainer = tiny_run.run(tmp_path, hypergradient_scale=0.5, **options)[1]
    names = "residual curvature cosine direct_norm implicit_norm full_norm".split()
    assert {f"hypergradient_{name}" for name in names} <= trainer.state.log_history[0].keys()
    assert len(messages) == 1 and "`hypergradient_scale`" in messages[0]


@pytest.mark.parametrize("logging_steps", [3, 100])
def test_the_runs_figures_have_the_last_diagnostics(logging_steps, tmp_path):
    """So that a stored result can be judged; of a run too short for a log, its means."""
    options = dict(loss="margin", hypergradient="cg", hypergradient_damping=0.5, max_steps=6)
    trainer, _ = tiny_run.make(tmp_path, logging_steps=logging_steps, **options)
    metrics, last = trainer.train().metrics, {}
    for log in trainer.state.log_history[:-1]:
        last |= log
    for name in ("residual", "curvature", "cosine"):
        found = metrics[f"train_hypergradient_{name}"]
        assert found == last[f"hypergradient_{name}"] if logging_steps == 3 else found == found
        assert trainer.state.log_history[-1][f"train_hypergradient_{name}"] == found
    assert not any("hypergradient" in name for name in tiny_run.run(tmp_path, max_steps=1)[1].state.log_history[-1])


@pytest.mark.parametrize("energy_weight", [1e-6, 1.0])
def test_an_implicit_term_that_changes_nothing_is_named(energy_weight, tmp_path, monkeypatch):
    """The term is proportional to λ1."""
    messages = []
    monkeypatch.setattr(implicit_gradients.logger, "warning", messages.append)
    options = dict(loss="margin", hypergradient="cg", hypergradient_damping=0.5, max_steps=4, logging_steps=1)
    trainer = tiny_run.run(tmp_path, energy_weight=energy_weight, **options)[1]
    logs = trainer.state.log_history[:-1]
    shares = sorted(log["hypergradient_implicit_norm"] / log["hypergradient_direct_norm"] for log in logs)
    named = [message for message in messages if message.startswith("implicit / direct")]
    assert bool(named) == (shares[len(shares) // 2] < 1e-3) == (energy_weight < 1)


def test_every_log_has_the_diagnostics(tmp_path):
    """Also where no step is a multiple of both intervals: here the loss-net moves at steps 0, 3, 6, 9."""
    options = dict(loss="margin", hypergradient="cg", loss_net_every=3, logging_steps=4, max_steps=12)
    logs = tiny_run.run(tmp_path, **options)[1].state.log_history
    assert [log["step"] for log in logs if "hypergradient_cosine" in log] == [4, 8, 12]


# --- task-nets as functions ------------------------------------------------------------------------------------------


def test_the_head_starts_from_the_features_of_the_runs_own_forward():
    model, inputs = bert().train(), tiny_inputs("bert")
    function = TaskFunction(model, "head")
    with function.watch():
        logits = model(**inputs).logits
    calls = []
    handle = model.bert.register_forward_hook(lambda *_: calls.append(1))
    of_phi = function.on(inputs)
    torch.testing.assert_close(of_phi(function.parameters()), logits.detach())  # with the same dropout before the head
    handle.remove()
    assert not calls and model.training


@pytest.mark.parametrize("kind", ["distilbert", "roberta", "electra"])
def test_any_head_and_the_whole_net_give_the_nets_logits(kind):
    torch.manual_seed(0)
    model, inputs = AutoModelForSequenceClassification.from_config(tiny_config(kind)).eval(), tiny_inputs(kind)
    for subset in ("head", "all"):
        function = TaskFunction(model, subset)
        with function.watch():
            logits = model(**inputs).logits
        phi = function.parameters()
        again = function.on(inputs)(phi)
        torch.testing.assert_close(again, logits)
        again.sum().backward()
        assert all(p.grad is None for p in model.parameters()) and any(p.grad is not None for p in phi.values())


def test_a_head_whose_logits_are_resized_afterwards_is_recognised(tmp_path):
    """SegFormer's: the trainer brings its logits to the size of the masks, the encoder is not run again."""
    torch.manual_seed(0)
    sizes = dict(hidden_sizes=[4, 4], depths=[1, 1], num_attention_heads=[1, 1], sr_ratios=[1, 1])
    sizes |= dict(num_encoder_blocks=2, patch_sizes=[3, 3], strides=[2, 2], mlp_ratios=[1, 1], decoder_hidden_size=4)
    model = SegformerForSemanticSegmentation(SegformerConfig(num_labels=2, **sizes))
    nets = SealForSegmentation(model.eval(), tiny_masks.energy_network())
    options = dict(loss="margin", hypergradient="cg", max_steps=1, loss_net_learning_rate=0.0)
    trainer, _ = tiny_masks.make(tmp_path, nets, MaskRows(tiny_masks.squares(8, size=8)), batch=4, **options)
    calls = []
    model.segformer.register_forward_hook(lambda *_: calls.append(1))
    trainer.train()
    assert len(calls) == 1 and all(
        name.startswith("decode_head.") for name in tiny_run.extension(trainer).task_function.names
    )


def test_a_crf_is_no_part_of_the_head(tmp_path):
    nets, rows = tiny_tags.nets("bilstm", tmp_path, crf=True)
    options = dict(energy_loss="margin", task_loss="crf", hypergradient="cg", max_steps=1)
    trainer = tiny_tags.trainer(tmp_path, nets, rows, **options)
    calls = []
    nets.task_net.encoder.register_forward_hook(lambda *_: calls.append(1))
    trainer.train()
    assert len(calls) == 1 and tiny_run.extension(trainer).task_function.names == [
        "classifier.weight",
        "classifier.bias",
    ]


def test_weights_in_half_precision_are_a_function_in_float32():
    """Those that are frozen, and buffers, too."""
    model, inputs = bert().eval(), tiny_inputs("bert")
    model.bfloat16().bert.embeddings.requires_grad_(False)
    function = TaskFunction(model, "all")
    with function.watch():
        model(**inputs)
    logits = function.on(inputs)(function.parameters())
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, model.float()(**inputs).logits)


def test_all_of_a_transformer_has_second_derivatives(tmp_path):
    """Its attention too: the kernel is the one that has them."""
    nets = SealForMultiLabel.from_pretrained(saved_bert(tmp_path), loss_net_encoder="shared")
    options = dict(energy_loss="margin", loss_net_encoder="shared", hypergradient="cg", hypergradient_damping=1.0)
    args = tiny_arguments(tmp_path, hypergradient_parameters="all", max_steps=1, **options)
    trainer = SealTrainer(nets, args, train_dataset=tokenize(tiny_texts(8), tiny_tokenizer(), max_length=16))
    trainer.train()
    (log,) = [log for log in trainer.state.log_history if "hypergradient_cosine" in log] or [{}]
    assert log.get("hypergradient_residual", 0.0) < 1


def saved_bert(folder):
    bert().save_pretrained(folder / "bert")
    return folder / "bert"


def test_adapters_of_both_nets_in_one_base(tmp_path):
    """The Hessian runs over the task-net's adapter alone."""
    pytest.importorskip("peft")
    torch.manual_seed(0)
    nets = SealForMultiLabel.from_pretrained(saved_bert(tmp_path), loss_net_encoder="peft")
    options = dict(energy_loss="margin", loss_net_encoder="peft", hypergradient="neumann", max_steps=2)
    args = tiny_arguments(tmp_path, hypergradient_parameters="adapters", **options)
    trainer = SealTrainer(nets, args, train_dataset=tokenize(tiny_texts(8), tiny_tokenizer(), max_length=16))
    trainer.train()
    assert tiny_run.extension(trainer).task_function.names
    assert all("lora_" in name and "loss" not in name for name in tiny_run.extension(trainer).task_function.names)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(energy_loss="nce"), "energy_loss='nce'.*contrastive_divergence"),
        (dict(energy_loss="margin", energy_weight_balance=True), "energy_weight_balance"),
        (dict(energy_loss="margin", loss_net_steps=0), "loss_net_steps.*never updated"),
        (dict(energy_loss="margin", hypergradient_scale=0.0), "hypergradient_scale"),
        (dict(energy_loss="margin", hypergradient_terms=0), "hypergradient_terms"),
    ],
)
def test_arguments_that_do_not_go_together(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        SealTrainingArguments(str(tmp_path), use_cpu=True, hypergradient="cg", **options)


def test_what_has_no_hessian_is_refused(tmp_path):
    with pytest.raises(ValueError, match="sparse_labels_from"):
        tiny_run.make(tmp_path, loss="margin", hypergradient="cg", sparse_labels_from=2)
    nets = tiny_run.model()
    nets.task_net.config._attn_implementation = "flash_attention_2"
    with pytest.raises(ValueError, match="flash_attention_2, has no second derivative"):
        tiny_run.make(tmp_path, loss="margin", nets=nets, hypergradient="cg", hypergradient_parameters="all")
    options = dict(loss="margin", hypergradient="cg")
    for subset in ("head", "adapters"):  # of an FCN
        with pytest.raises(ValueError, match="hypergradient_parameters='all', or a regular expression.*upsample"):
            tiny_masks.make(tmp_path, hypergradient_parameters=subset, **options)


class Reseed(TrainerCallback):
    def __init__(self, seed):
        self.seed = seed

    def on_step_begin(self, *args, **kwargs):
        torch.manual_seed(self.seed)


def test_dropout_of_the_loss_net_does_not_move_the_direction(tmp_path, monkeypatch):
    """Its own forward draws another mask, so that its step is another one."""
    solve, seen, ends = Hypergradient.adjoint, [], []
    noting = lambda *args: [seen.append(solve(*args)), seen[-1]][1]  # noqa: E731
    monkeypatch.setattr(Hypergradient, "adjoint", noting)
    for seed in (1, 2):
        nets = tiny_run.model(dropout=0.5)
        for module in nets.task_net.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        options = dict(loss="regression", hypergradient="neumann", hypergradient_terms=3, max_steps=1)
        tiny_run.make(tmp_path, nets=nets, callbacks=[Reseed(seed)], **options)[0].train()
        ends.append(torch.cat([p.detach().flatten() for p in nets.loss_net.parameters()]))
    assert torch.equal(*(found.direction for found in seen))
    assert not torch.equal(*ends)
