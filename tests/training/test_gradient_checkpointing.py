"""Layers recomputed in the backward give the same run: the same gradients, and the same dropout once more."""

import pytest
import tiny_run
import torch
from tiny_models import tiny_arguments, tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModelForSequenceClassification

from seal_hf import SealForMultiLabel, SealTrainer, TensorRows

LAYERS, STEPS = 2, 4


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(tiny_config("bert")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def rows():
    tokenizer = tiny_tokenizer()
    table = tiny_texts(32).map(lambda part: tokenizer(part["text"]), batched=True, remove_columns="text")
    return TensorRows(
        table.select_columns(["input_ids", "attention_mask", "labels"]), {"input_ids": 0, "attention_mask": 0}
    )


def count_layers(net):
    """A list with one entry for every forward of a layer: of its first part, since the layer's own hooks see one."""
    calls = []
    for module in net.modules():
        if type(module).__name__ == "BertAttention":
            module.register_forward_pre_hook(lambda *_: calls.append(1))
    return calls


def run(bert, rows, tmp_path, dropout=0.0, encoder="separate", accumulation=1, **options):
    """Parameters of both nets at the end, and the forwards of a layer per step: of the task-net, of the loss-net."""
    torch.manual_seed(0)
    nets = SealForMultiLabel.from_pretrained(bert, loss_net_encoder=encoder)
    for module in nets.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    options |= dict(per_device_train_batch_size=8 // accumulation, gradient_accumulation_steps=accumulation)
    arguments = tiny_arguments(tmp_path, loss_net_encoder=encoder, max_steps=STEPS, **options)
    counts = [count_layers(net) for net in (nets.task_net, nets.loss_net)]
    torch.manual_seed(0)
    SealTrainer(nets, arguments, train_dataset=rows).train()
    return tiny_run.parameters(nets), [len(count) / (LAYERS * STEPS) for count in counts]


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_both_nets_recompute_and_end_at_the_same_parameters(bert, rows, tmp_path, dropout):
    """The loss-net recomputes in its own phase alone: where it is frozen, no gradient goes through its encoder."""
    plain, forwards = run(bert, rows, tmp_path, dropout)
    assert forwards == [1, 2]
    for options, expected in (
        (dict(gradient_checkpointing=True), [2, 2]),
        (dict(loss_net_gradient_checkpointing=True), [1, 3]),
        (dict(gradient_checkpointing=True, loss_net_gradient_checkpointing=True), [2, 3]),
    ):
        parameters, forwards = run(bert, rows, tmp_path, dropout, **options)
        assert forwards == expected
        torch.testing.assert_close(parameters, plain, rtol=0, atol=1e-6)


# torch says it of a reentrant forward without gradients; the loss-net's phase takes one
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True:UserWarning")
@pytest.mark.parametrize("reentrant", [False, True])
def test_the_task_net_recomputes_under_accumulation_and_a_shared_loss_net(bert, rows, tmp_path, reentrant):
    options = dict(encoder="shared", accumulation=2, loss_net_steps=2, dropout=0.2)
    plain, forwards = run(bert, rows, tmp_path, **options)
    assert forwards == [3, 0]  # two micro-batches; the second also without gradient, for the loss-net
    kind = dict(gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    recomputed, forwards = run(bert, rows, tmp_path, **options, **kind)
    assert forwards == [5, 0]
    torch.testing.assert_close(recomputed, plain, rtol=0, atol=1e-6)


def test_nets_without_layers_to_recompute_are_refused_by_name(tmp_path):
    for encoder, found in (("separate", "MLPEncoder"), ("shared", "no encoder of its own")):
        with pytest.raises(ValueError, match=f"`loss_net_gradient_checkpointing` is set, but the loss-net has {found}"):
            tiny_run.make(tmp_path, encoder=encoder, loss_net_gradient_checkpointing=True)
    trainer, _ = tiny_run.make(tmp_path, gradient_checkpointing=True)
    with pytest.raises(ValueError, match="MLPForMultiLabel does not support (gradient|activation) checkpointing"):
        trainer.train()
