"""Architectures whose saved tensors have other names than the net's.

Oracles: the uninterrupted run, to the bit, and the weights at the step of the best checkpoint.
"""

import copy
import shutil

import pytest
import torch
from tiny_masks import LABELS, squares
from tiny_models import LABELLED, SPECIAL, WORDS, tiny_arguments, tiny_texts, tiny_tokenizer
from transformers import (
    EsmConfig,
    EsmForSequenceClassification,
    EsmForTokenClassification,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    TrainerCallback,
)
from transformers.trainer_callback import PrinterCallback

from seal_hf import (
    LossNet,
    LossNetConfig,
    MaskRows,
    SealForMultiLabel,
    SealForSegmentation,
    SealForTokenClassification,
    SealTrainer,
    tokenize,
)
from seal_hf.saving.states import are_renamed, read_renamed
from seal_hf.tasks.tags.chains import CRF


def esm(**changes):
    sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    special = dict(vocab_size=len(SPECIAL + WORDS), pad_token_id=0, mask_token_id=1, max_position_embeddings=40)
    return EsmConfig(**{**sizes, **special, **LABELLED, **changes})


def texts(folder):
    """Task-net and separate loss-net are ESM, with dropout."""
    torch.manual_seed(0)
    EsmForSequenceClassification(esm()).save_pretrained(folder / "esm")
    seal = SealForMultiLabel.from_pretrained(folder / "esm", global_size=5)
    rows = tokenize(tiny_texts(12), tiny_tokenizer(), 12)
    return seal, rows, {"energy_loss": "nce"}


def masks(folder):
    """SegFormer with dropout and batch normalisation; the loss-net reads the images itself."""
    torch.manual_seed(0)
    sizes = dict(hidden_sizes=[8] * 4, decoder_hidden_size=16, depths=[1] * 4, num_attention_heads=[1] * 4)
    loss_net = LossNet(
        LossNetConfig(space="binary_mask", energy="grid", num_labels=2, energy_options={"width": 16}, **LABELS)
    )
    seal = SealForSegmentation(SegformerForSemanticSegmentation(SegformerConfig(**sizes, **LABELS)), loss_net)
    return seal, MaskRows(squares(12, 32)), {"energy_loss": "regression"}


def train(build, folder, resume=None, callbacks=(), **options):
    seal, rows, loss = build(folder.parent)
    common = dict(max_steps=6, per_device_train_batch_size=4, learning_rate=1e-2, save_strategy="steps", save_steps=2)
    args = tiny_arguments(folder, **loss, **{**common, **options})
    trainer = SealTrainer(seal, args, train_dataset=rows, eval_dataset=rows, callbacks=list(callbacks))
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    return weights(seal), trainer


def weights(seal):
    nets = {"task": seal.task_net, "loss": seal.loss_net}
    return {f"{kind}.{name}": value.clone() for kind, net in nets.items() for name, value in net.state_dict().items()}


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    assert [name for name in found if not torch.equal(found[name], expected[name])] == []


@pytest.mark.parametrize("build", [texts, masks])
def test_resumed_is_uninterrupted(tmp_path, build):
    whole, _ = train(build, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole" / "checkpoint-4", tmp_path / "part" / "checkpoint-4")
    resumed, trainer = train(build, tmp_path / "part", resume=str(tmp_path / "part" / "checkpoint-4"))
    assert trainer.state.global_step == 6
    assert_equal(resumed, whole)


class Steps(TrainerCallback):
    """The weights after each step; evaluations get worse from the second step on."""

    def __init__(self):
        self.weights, self.seal = {}, None

    def on_step_end(self, args, state, control, **kwargs):
        self.weights[state.global_step] = weights(self.seal)

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        metrics["eval_loss"] = abs(state.global_step - 2) + 1.0


@pytest.mark.parametrize("build", [texts, masks])
def test_the_best_model_is_that_of_its_checkpoint(tmp_path, build):
    steps = Steps()

    def building(folder):
        built = build(folder)
        steps.seal = built[0]
        return built

    best = dict(load_best_model_at_end=True, eval_strategy="steps", eval_steps=2, metric_for_best_model="loss")
    found, trainer = train(building, tmp_path / "run", callbacks=[steps], **best)
    assert trainer.state.best_model_checkpoint.endswith("checkpoint-2")
    assert_equal(found, steps.weights[2])


def test_what_a_class_has_not_is_read_as_it_is(tmp_path):
    """A CRF lies in the file of a task-net whose other tensors are renamed."""
    torch.manual_seed(0)
    net = EsmForTokenClassification(esm())
    net.crf = CRF(net.config.num_labels)
    torch.nn.init.normal_(net.crf.transitions)
    net.save_pretrained(tmp_path)
    other = EsmForTokenClassification(esm())
    other.crf = CRF(net.config.num_labels)
    found = read_renamed(other, tmp_path)
    assert_equal(found, net.state_dict())
    with pytest.raises(ValueError, match="Classification: crf.end, crf.start, crf.transitions are not part of it"):
        read_renamed(EsmForTokenClassification(esm()), tmp_path)
    again = SealForTokenClassification.from_pretrained(tmp_path, crf=True)
    assert again.task_net.crf is not None


def test_weights_of_another_net_are_refused(tmp_path):
    net = EsmForSequenceClassification(esm())
    net.save_pretrained(tmp_path)
    before = copy.deepcopy(net.state_dict())
    assert not are_renamed(net, tmp_path / "nowhere")
    with pytest.raises(ValueError, match="do not fit this EsmForSequenceClassification"):
        read_renamed(EsmForSequenceClassification(esm(hidden_size=32)), tmp_path)
    with pytest.raises(ValueError, match="EsmForTokenClassification: classifier.bias, cl.* are missing"):
        read_renamed(EsmForTokenClassification(esm()), tmp_path)
    assert_equal(net.state_dict(), before)
