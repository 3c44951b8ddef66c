"""Tag sequences in the trainer, with both kinds of task-net. Oracles: the same batch padded further, the same run
without interruption, the nets before they were saved, plain transformers in a process that cannot import seal_hf."""

import logging

import numpy as np
import pytest
import tiny_run
import tiny_tags
import torch
from launching import without_seal_hf
from losses import LOSSES_OF_ENERGIES, energy_loss
from tiny_models import tiny_tokenizer
from transformers import AutoModelForTokenClassification, pipeline

from seal_hf import EnergyTrainer, EnergyTrainingArguments, SealForTokenClassification, TagSequenceSpace
from seal_hf.core.energy import energies_of
from seal_hf.core.tag_schemes import is_well_formed
from seal_hf.core.tensors import IGNORED
from seal_hf.saving import load_loss_net
from seal_hf.tasks.tags.model import with_crf
from seal_hf.tasks.tags.report import predict_tags

SETTINGS = [("bilstm", "separate", "chain_ge_c"), ("bert", "shared", "tag_attention")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bert")


def with_a_crf(folder, kind="bilstm", **options):
    """Both nets, with transitions that matter, and rows."""
    both, rows = tiny_tags.nets(kind, folder, crf=True, **options)
    with torch.no_grad():
        for parameter in both.task_net.crf.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    return both.eval(), rows


def inputs_of(rows, indices=range(8)):
    """A batch of these rows without labels, and the labels."""
    batch = rows.batch(list(indices))
    return {name: value for name, value in batch.items() if name != "labels"}, batch["labels"]


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "kind", "encoder", "energy"),
    [*((loss, *SETTINGS[0]) for loss in LOSSES_OF_ENERGIES), *(("nce", *setting) for setting in SETTINGS[1:])],
)
def test_every_loss_trains_both_nets(tmp_path, folder, loss, kind, encoder, energy):
    both, rows = tiny_tags.nets(kind, folder, encoder, energy=energy)
    trainer = tiny_tags.trainer(tmp_path, both, rows, energy_loss=loss, max_steps=10, energy_weight=0.1)
    before, start = trainer.evaluate()["eval_loss"], both.loss_net.energy.label_embeddings.weight.clone()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_loss"] < 0.9 * before and after["eval_energy_gold"] == after["eval_energy_gold"]
    assert not torch.equal(both.loss_net.energy.label_embeddings.weight, start)


@pytest.mark.parametrize("crf", [False, True])
def test_bf16_stays_close_to_float32(tmp_path, folder, crf):
    ends = []
    for bf16 in (False, True):
        both, rows = tiny_tags.nets("bert", folder, "separate", energy="chain_ge_a", crf=crf)
        start = tiny_tags.parameters(both)
        options = dict(energy_loss="margin", task_loss="crf" if crf else "cross_entropy", constrained_decoding=crf)
        trainer = tiny_tags.trainer(tmp_path, both, rows, bf16=bf16, learning_rate=1e-3, **options)
        for module in both.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        trainer.train()
        ends.append(tiny_tags.parameters(both))
    assert (ends[1] - ends[0]).norm() < 0.3 * (ends[0] - start).norm()


@pytest.mark.parametrize(
    ("loss", "task_loss"),
    [*((loss, "cross_entropy") for loss in LOSSES_OF_ENERGIES), ("nce", "crf"), ("infnet_plus", "crf")],
)
def test_what_does_not_count_gets_no_gradient(tmp_path, folder, loss, task_loss):
    """Of the whole objective, at the logits of padding, special tokens and the sub-words after a word's first."""
    both, rows = tiny_tags.nets("bert", folder, energy="chain_ge_b", crf=task_loss == "crf")
    trainer = tiny_tags.trainer(tmp_path, both, rows, energy_loss=loss, task_loss=task_loss, energy_weight_balance=True)
    trainer.create_optimizer()
    trainer.create_scheduler(10)
    batch = rows.batch(range(8))
    counted = batch["labels"] != IGNORED
    later = counted.flip(1).long().cumsum(1).flip(1)  # counted positions from here on
    assert (~counted & (later > 0))[:, 2:].any()  # there are holes, behind [CLS] and the first word
    found, outputs = trainer.compute_loss(trainer.model.train(), batch, return_outputs=True)
    (gradient,) = torch.autograd.grad(found, outputs.logits)
    assert not gradient[~counted].any() and gradient[counted].abs().sum(-1).all()


@pytest.mark.parametrize("kind", ["stacked", "separated"])
def test_f_does_not_train_the_crf_of_the_task_net(tmp_path, folder, kind):
    """Its own task loss reads it: whatever the weight of that loss, the task-net ends alike, and F does not."""
    ends = []
    for weight in (0.0, 5.0):
        both, rows = with_a_crf(folder)
        options = dict(energy_loss="infnet_plus", cost_augmented_network=kind, cost_augmented_task_weight=weight)
        trainer = tiny_tags.trainer(tmp_path, both, rows, task_loss="crf", loss_net_steps=0, **options)
        trainer.train()
        partner = torch.cat([p.detach().flatten() for p in trainer.extensions[0].net.parameters()])
        ends.append((tiny_tags.parameters(both), partner))
    assert torch.equal(ends[0][0], ends[1][0]) and not torch.equal(ends[0][1], ends[1][1])


PADDED = [("chain_ge_c", loss) for loss in LOSSES_OF_ENERGIES]
PADDED += [(energy, "nce") for energy in energies_of("tag_sequence") if energy != "chain_ge_c"]


@pytest.mark.parametrize(
    ("kind", "energy", "name"), [*(("bert", *case) for case in PADDED), ("bilstm", "chain_ge_c", "nce")]
)
def test_more_padding_changes_no_loss(folder, kind, energy, name):
    """Task loss, energies, and the energy loss with its task term: what is drawn is the same too."""
    both, rows = with_a_crf(folder, kind, energy=energy)
    loss = energy_loss(name, margin_cost="l1", num_samples=5)
    inputs, labels = inputs_of(rows)
    wider = {name: torch.nn.functional.pad(value, (0, 5)) for name, value in inputs.items()}
    more = torch.nn.functional.pad(labels, (0, 5), value=IGNORED)

    def values(inputs, labels):
        logits = both(**inputs).logits
        augmented = 2 * logits if name == "infnet_plus" else None
        space = both.space.of({"labels": labels})
        candidates = loss.candidates(space, logits, labels, torch.Generator().manual_seed(1), augmented)
        energies = both.energy(candidates.y, candidates.mask, **inputs)
        task_loss = both.space.task_loss(logits, labels)
        cost = candidates.cost if loss.reads_gold else None
        return energies, task_loss, loss(energies, candidates), loss.task_term(energies, cost)

    with torch.no_grad():
        for found, expected in zip(values(wider, more), values(inputs, labels), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        both = both.double()
        for found, expected in zip(values(wider, more), values(inputs, labels), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


RESUMED = {
    "crf": ("bilstm", "shared", dict(task_loss="crf", constrained_decoding=True), dict(crf=True, dropout=0.3)),
    "infnet": ("bert", "separate", dict(energy_loss="infnet_plus", cost_augmented_network="separated"), {}),
}


@pytest.mark.parametrize("name", RESUMED)
def test_resumed_equals_uninterrupted_to_the_bit(tmp_path, folder, name):
    kind, encoder, options, of_nets = RESUMED[name]
    options = dict(max_steps=5, gradient_accumulation_steps=2, per_device_train_batch_size=8, **options)

    def run(place, resume=None, stop=None, seed=0, **more):
        both, rows = tiny_tags.nets(kind, folder, encoder, **of_nets)
        callbacks = [tiny_run.StopAt(stop)] if stop else None
        torch.manual_seed(seed)
        trainer = tiny_tags.trainer(tmp_path / place, both, rows, callbacks, **options | more)
        trainer.train(resume_from_checkpoint=resume)
        return tiny_tags.parameters(both)

    whole = run("whole")
    run("part", stop=3, save_strategy="steps", save_steps=3)
    assert torch.equal(run("part", resume=str(tmp_path / "part" / "checkpoint-3"), seed=99), whole)


def tags_of(trainer, rows):
    """A tag for every word, as the trainer's space decides."""
    return predict_tags(trainer, rows, [trainer.space.decoder])[trainer.space.decoder]


# --- decoding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crf", [False, True])
def test_constrained_decoding_gives_well_formed_sequences_alone(tmp_path, folder, crf):
    both, rows = with_a_crf(folder) if crf else tiny_tags.nets("bert", folder)
    scores = both.task_net.crf.start if crf else both.task_net.classifier.bias
    scores.data[tiny_tags.TAGS.index("I-X")] = 9.0  # where no sequence may begin
    broken = {}
    for constrained in (False, True):
        options = dict(energy_loss="ce", task_loss="crf" if crf else "cross_entropy", constrained_decoding=constrained)
        trainer = tiny_tags.trainer(tmp_path, both, rows, decode_predictions=True, **options)
        tags = tags_of(trainer, rows)
        assert [len(row) for row in tags] == [len(row) for row in tiny_tags.sentences()["words"][:]]
        broken[constrained] = sum(not is_well_formed(row, "bio") for row in tags)
    assert broken[False] > 0 and broken[True] == 0
    trainer.save_model(tmp_path / "saved")
    trainer.create_model_card()
    assert "within the tags' scheme" in (tmp_path / "README.md").read_text(encoding="utf-8")
    inputs, labels = inputs_of(rows)
    mask = both.space.gold(labels)[1]
    for nets in (SealForTokenClassification.from_pretrained(tmp_path / "saved"), both):
        found = nets.predict(mask=mask, **inputs)[1]
        assert [[tiny_tags.TAGS[tag] for tag in row[row >= 0]] for row in found] == tags[: len(found)]


def test_decoded_predictions_need_no_labels(tmp_path, folder):
    both, rows = tiny_tags.nets("bert", folder)
    trainer = tiny_tags.trainer(tmp_path, both, rows, decode_predictions=True)
    expected = trainer.predict(rows).predictions
    del rows.padding["labels"], rows.ragged["labels"]
    assert np.array_equal(trainer.predict(rows).predictions, expected)


@pytest.mark.parametrize("kind", ["bert", "bilstm"])
def test_tags_that_are_decoded_together_are_asked_which_positions_count(tmp_path, folder, kind):
    """Of words it is the attention mask; of sub-words, without labels, nothing says it."""
    both, rows = tiny_tags.nets(kind, folder)
    both.task_net.classifier.bias.data[tiny_tags.TAGS.index("I-X")] = 9.0  # where no sequence may begin
    options = dict(energy_loss="ce", constrained_decoding=True)
    trainer = tiny_tags.trainer(tmp_path, both, rows, decode_predictions=True, **options)
    expected = tags_of(trainer, rows)
    lengths = [len(row) for row in expected]
    del rows.padding["labels"], rows.ragged["labels"]
    if kind == "bert":
        with pytest.raises(ValueError, match="`mask` is missing.* For a trainer, give `labels`"):
            trainer.predict(rows)
    else:
        found = trainer.predict(rows).predictions
        tags = [[tiny_tags.TAGS[tag] for tag in row[:length]] for row, length in zip(found, lengths, strict=True)]
        assert tags == expected


def test_decoded_predictions_follow_model_init(tmp_path, folder):
    """The CRF that decodes is that of the net just trained, not of the one the trainer began with."""
    rows, calls = with_a_crf(folder)[1], []

    def model_init():
        both, _ = with_a_crf(folder)
        both.task_net.crf.start.data[len(calls)] = 99.0  # so many calls: every sentence begins with another tag
        calls.append(both)
        return both

    options = {"energy_loss": "ce", "task_loss": "crf", "learning_rate": 1e-6, "max_steps": 1}
    trainer = tiny_tags.trainer(tmp_path, None, rows, decode_predictions=True, model_init=model_init, **options)
    trainer.train()
    expected = tiny_tags.TAGS[len(calls) - 1]
    assert len(calls) > 1 and {row[0] for row in tags_of(trainer, rows)} == {expected}


# --- saved and loaded ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bilstm", "bert"])
@pytest.mark.parametrize("encoder", ["separate", "shared"])
def test_both_nets_come_back_with_the_crf(tmp_path, folder, kind, encoder):
    both, rows = with_a_crf(folder, kind, encoder=encoder, energy="chain_ge_c")
    both.save_pretrained(tmp_path)
    again = SealForTokenClassification.from_pretrained(tmp_path)
    inputs, labels = inputs_of(rows)
    y, mask = both.space.gold(labels)
    for found, expected in zip(again.predict(mask=mask, **inputs), both.predict(mask=mask, **inputs), strict=True):
        assert torch.equal(found, expected)
    with torch.no_grad():
        assert torch.equal(again.energy(y, mask, **inputs), both.energy(y, mask, **inputs))
    assert again.config.crf and not torch.equal(
        again.predict(mask=mask, **inputs)[1], again(**inputs).logits.argmax(-1)
    )
    if kind == "bert":
        with pytest.raises(ValueError, match="`mask` is missing: .* True at the first sub-word of each word"):
            again.predict(**inputs)
    else:
        assert torch.equal(again.predict(**inputs)[1], again.predict(mask=mask, **inputs)[1])
    assert SealForTokenClassification.for_data(tiny_tags.data(), tmp_path, loss_net_encoder=encoder).config.crf
    plain = SealForTokenClassification.from_pretrained(tmp_path, crf=False)
    assert torch.equal(plain.predict(mask=mask, **inputs)[1], both(**inputs).logits.argmax(-1)) and not plain.config.crf
    fresh = with_crf(plain.task_net).crf
    assert not any(p.any() for p in fresh.parameters())


def test_a_crf_is_read_from_weights_in_several_files(tmp_path, folder):
    both, _ = with_a_crf(folder)
    both.task_net.save_pretrained(tmp_path, max_shard_size="2KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    again = SealForTokenClassification.from_pretrained(tmp_path)
    assert torch.equal(again.task_net.crf.transitions, both.task_net.crf.transitions)


@pytest.mark.parametrize("size", ["5GB", "2KB"], ids=["one_file", "several_files"])
def test_a_crf_is_read_from_weights_of_a_variant(tmp_path, folder, size):
    both, _ = with_a_crf(folder)
    both.task_net.save_pretrained(tmp_path, variant="fp16", max_shard_size=size)
    assert not (tmp_path / "model.safetensors").exists()
    again = SealForTokenClassification.from_pretrained(tmp_path, variant="fp16")
    assert torch.equal(again.task_net.crf.transitions, both.task_net.crf.transitions)


def test_a_fresh_loss_net_is_said(folder, caplog):
    tiny_tags.nets("bert", folder)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        SealForTokenClassification.from_pretrained(folder / "bert", num_labels=3, loss_net_encoder="shared")
    said = [
        record.getMessage() for record in caplog.records if record.name.startswith(("seal_hf.saving", "seal_hf.tasks"))
    ]
    assert said == [f"No _loss_net/ in {folder / 'bert'}: built a fresh loss-net (encoder: shared)."]


def test_an_adapter_trains_is_merged_and_the_saved_root_is_a_plain_model(tmp_path, folder):
    """LoRA with a second adapter for the loss-net; and a CRF. Read by a process that cannot import seal_hf."""
    pytest.importorskip("peft")
    both, rows = tiny_tags.nets("bert", folder, "peft", adapter="lora")
    trainer = tiny_tags.trainer(tmp_path / "lora", both, rows, max_steps=2)
    trainer.train()
    trainer.save_model(str(tmp_path / "lora"))
    crf, _ = with_a_crf(folder, "bert")
    crf.save_pretrained(tmp_path / "crf")
    texts, expected = ["good film song", "dull"], []
    for name, net in (("lora", both.task_net), ("crf", crf.task_net)):
        tiny_tokenizer().save_pretrained(tmp_path / name)
        plain = AutoModelForTokenClassification.from_pretrained(tmp_path / name).eval()
        inputs, _ = inputs_of(rows)
        torch.testing.assert_close(plain(**inputs).logits, net.eval()(**inputs).logits, rtol=0, atol=1e-5)
        logits = [plain(**tiny_tokenizer()(text, return_tensors="pt")).logits[0, 1:-1] for text in texts]
        expected.append([[tiny_tags.TAGS[tag] for tag in row.argmax(-1)] for row in logits])

    def program():
        for name, entities in zip(("lora", "crf"), expected, strict=True):
            words = pipeline("token-classification", str(tmp_path / name), ignore_labels=[])(texts, batch_size=1)
            assert [[word["entity"] for word in row] for row in words] == entities

    without_seal_hf(program)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_what_does_not_go_together_is_refused(tmp_path, folder):
    with pytest.raises(ValueError, match="`energy` is 'multilabel'; for tag_sequence outputs .* chain, chain_ge_a"):
        tiny_tags.nets("bilstm", folder, energy="multilabel")
    both, rows = tiny_tags.nets("bert", folder)
    with pytest.raises(ValueError, match="`task_loss` is 'focal'; for tag sequences it must be one of cross_entropy"):
        tiny_tags.trainer(tmp_path, both, rows, task_loss="focal")
    with pytest.raises(ValueError, match="task_loss='crf' trains transitions .* this task-net lacks a CRF"):
        tiny_tags.trainer(tmp_path, both, rows, task_loss="crf")
    with pytest.raises(ValueError, match="one vector per row, but this loss-net reads one per token"):
        tiny_tags.trainer(tmp_path, both, rows, loss_net_feature_cache=str(tmp_path / "cache"))
    with pytest.raises(ValueError, match="'tag_sequence' outputs, but gradient-based inference"):
        EnergyTrainer(both.loss_net, EnergyTrainingArguments(str(tmp_path), use_cpu=True), train_dataset=rows)
    both, rows = with_a_crf(folder)
    with pytest.raises(
        ValueError, match="`task_loss` is 'cross_entropy', but the task-net has a CRF, which only 'crf'"
    ):
        tiny_tags.trainer(tmp_path, both, rows)
    options = dict(energy_loss="ce", task_loss="crf", space=both.space, model_init=lambda: with_a_crf(folder)[0])
    with pytest.raises(ValueError, match="`space` decodes by the CRF of one net, but `model_init` makes new ones"):
        tiny_tags.trainer(tmp_path, None, rows, **options)


def test_a_crf_beside_adapters_is_refused(folder):
    pytest.importorskip("peft")
    with pytest.raises(ValueError, match="has adapters, with which a CRF is not saved: .*--task_loss cross_entropy"):
        tiny_tags.nets("bert", folder, "peft", adapter="lora", crf=True)


def test_a_trained_loss_net_teaches_another_task_net(tmp_path, folder):
    """SEAL-static: frozen, of an earlier run, on the same vocabulary."""
    both, rows = tiny_tags.nets("bilstm", folder, energy="chain_ge_a")
    both.save_pretrained(tmp_path)
    other, _ = tiny_tags.nets("bilstm", folder, seed=1)
    other.loss_net = load_loss_net(tmp_path, other.task_net)
    before = {name: value.clone() for name, value in both.loss_net.state_dict().items()}
    trainer = tiny_tags.trainer(tmp_path / "static", other, rows, loss_net_steps=0)
    trainer.train()
    assert all(torch.equal(value, before[name]) for name, value in other.loss_net.state_dict().items())
    other.task_net.config.vocab_size += 1
    with pytest.raises(ValueError, match="has `vocab_size` 18, the task-net 19, so their ids differ"):
        load_loss_net(tmp_path, other.task_net)


def test_a_search_starts_both_nets_and_the_crf_anew(tmp_path, folder):
    """`model_init`, as a hyper-parameter search uses it: two trainings end alike, and each decodes by its own CRF."""
    _, rows = with_a_crf(folder)
    args = tiny_tags.tiny_arguments(tmp_path, task_loss="crf", max_steps=2)
    trainer = tiny_tags.SealTrainer(
        args=args, model_init=lambda: tiny_tags.nets("bilstm", folder, crf=True)[0], train_dataset=rows
    )
    ends = []
    for _ in range(2):
        trainer.train()
        assert trainer.space.loss.crf is trainer.model.crf
        ends.append(torch.cat([p.detach().flatten() for p in trainer.model.parameters()]))
    assert torch.equal(*ends) and isinstance(trainer.space, TagSequenceSpace)


def test_the_crf_has_its_own_rate(tmp_path, folder):
    """The first step of Adam moves every weight with a gradient by its rate."""
    both, rows = with_a_crf(folder)
    before = {name: p.detach().clone() for name, p in both.task_net.named_parameters()}
    options = dict(energy_loss="ce", task_loss="crf", crf_learning_rate=0.5, learning_rate=1e-3, weight_decay=0.0)
    trainer = tiny_tags.trainer(tmp_path, both, rows, max_steps=1, **options)
    trainer.train()
    for name, p in both.task_net.named_parameters():
        expected = 0.5 if name.startswith("crf.") else 1e-3
        assert (p - before[name]).abs().max().item() == pytest.approx(expected, rel=1e-3), name
    assert sum(len(group["params"]) for group in trainer.optimizer.param_groups) == len(before)
