"""Heads on a frozen encoder. Oracles: the run that computes the encoder's outputs anew at every step, without dropout;
the plain model that is saved, loaded by transformers alone."""

import pytest
import torch
from tiny_models import LABELLED, LABELS, tiny_arguments, tiny_config, tiny_features, tiny_texts, tiny_tokenizer
from transformers import AutoModel, AutoModelForSequenceClassification

from seal_hf import MLPForMultiLabel, SealForMultiLabel, SealTrainer, TensorRows, tokenize
from seal_hf.nets import frozen_encoder

FITTING = ["bert", "roberta", "distilbert", "electra", "modernbert", "albert", "qwen2", "deberta"]
READING = {
    "windows": {"long_texts": "windows", "window_size": 4},
    "mean": {"pooling": "mean"},
    "last": {"pooling": "last"},
    "switched": {"pooling": "mean"},
}


@pytest.fixture
def base(tmp_path):
    """Folders of tiny encoders with their tokenizer, by family."""

    def make(kind, **changes):
        folder = tmp_path / kind
        torch.manual_seed(0)
        AutoModel.from_config(tiny_config(kind, **changes)).save_pretrained(folder)
        tiny_tokenizer().save_pretrained(folder)
        return folder

    return make


def nets(folder, mode, **options):
    torch.manual_seed(0)
    return SealForMultiLabel.from_pretrained(folder, loss_net_encoder=mode, **LABELLED, **options)


def rows(number=24, seed=0):
    return tokenize(tiny_texts(number, seed), tiny_tokenizer(), max_length=8)


def trained(seal, output, **options):
    args = tiny_arguments(output, loss_net_encoder=seal.loss_net.config.encoder_mode, max_steps=6, **options)
    trainer = SealTrainer(seal, args, train_dataset=rows(), eval_dataset=rows(10, seed=1))
    trainer.train()
    return trainer


def recomputed(seal):
    """The encoders as `freeze_encoder` leaves them, but run at every step: frozen, and never in training mode."""
    own = [seal.task_net.base_model, *([] if seal.loss_net.encoder is None else [seal.loss_net.encoder])]
    for encoder in own:
        encoder.requires_grad_(False)
        encoder.eval()
        encoder.train = lambda mode=True, encoder=encoder: encoder
    if getattr(own[0], "pooler", None) is not None and not isinstance(own[0].pooler, torch.nn.Linear):
        own[0].pooler.requires_grad_(True)
    return seal


@pytest.mark.parametrize("kind, mode", [("bert", "shared"), ("bert", "separate"), ("roberta", "shared")])
def test_a_frozen_run_is_the_run_that_recomputes(base, tmp_path, kind, mode):
    folder, ends = base(kind), []
    for freeze in (False, True):
        seal = nets(folder, mode)
        seen = [0]
        for encoder in (seal.task_net.base_model, seal.loss_net.encoder):
            if encoder is not None:
                encoder.embeddings.register_forward_hook(lambda *a, seen=seen: seen.__setitem__(0, seen[0] + len(a[2])))
        seal = seal if freeze else recomputed(seal)
        trainer = trained(seal, tmp_path / f"run{freeze}", freeze_encoder=freeze, optim="sgd", learning_rate=0.5)
        once = 34 * (1 + (mode == "separate"))
        assert not freeze or seen[0] == once + 8  # every row once by each encoder, and a few to see what the head reads
        metrics = trainer.evaluate()
        facts = torch.tensor([metrics["eval_loss"], metrics["eval_energy_gold"], metrics["eval_energy_output"]])
        probabilities, _ = _predicted(seal, folder)
        ends.append([*seal.parameters(), facts, probabilities])
    changed = sum(not torch.equal(a, b) for a, b in zip(nets(folder, mode).parameters(), ends[0][:-2], strict=True))
    assert changed > 4
    for live, cached in zip(*ends, strict=True):
        torch.testing.assert_close(live, cached, atol=2e-5, rtol=1e-5)


def _predicted(seal, folder):
    seal.source = (str(folder), {})
    return seal.predict(tiny_texts(9, seed=3)["text"][:])


@pytest.mark.parametrize("kind", [*FITTING, *READING])
def test_the_saved_net_is_whole_and_decides_as_the_cached_one(base, tmp_path, kind):
    folder = base("modernbert" if kind == "switched" else "bert" if kind in READING else kind)
    seal = nets(folder, "shared", **READING.get(kind, {}))
    trainer = trained(seal, tmp_path / "run", freeze_encoder=True, learning_rate=1e-2)
    cached = torch.as_tensor(trainer.predict(trainer.eval_dataset).predictions)
    trainer.save_model()
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run").eval()
    raw = {name: rows(10, seed=1).batch(range(10))[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        torch.testing.assert_close(plain(**raw).logits, cached, atol=2e-5, rtol=1e-5)
    began = AutoModel.from_pretrained(folder)
    kept = plain.base_model.encoder if kind == "windows" else plain.base_model
    for name, value in kept.state_dict().items():
        assert name.startswith("pooler") or torch.equal(value, began.state_dict()[name]), name


def test_a_resume_notices_other_texts(base, tmp_path):
    """Of which only the encoder's outputs are kept; the labels are the same."""
    folder, saved = base("bert"), dict(save_strategy="steps", save_steps=2, freeze_encoder=True)
    trained(nets(folder, "shared"), tmp_path / "run", **saved)
    others = rows(seed=5)
    for kept in ("dense", "ragged"):
        found = getattr(rows(), kept).get("labels")
        if found is not None:
            getattr(others, kept)["labels"] = found
    args = tiny_arguments(tmp_path / "run", loss_net_encoder="shared", max_steps=6, **saved)
    trainer = SealTrainer(nets(folder, "shared"), args, train_dataset=others, eval_dataset=rows(10, seed=1))
    with pytest.raises(ValueError, match="is of another run .train_data: was"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))


def test_a_second_run_computes_nothing_and_labels_do_not_matter(base, tmp_path, monkeypatch):
    folder, cache = base("bert"), str(tmp_path / "cache")
    calls = []
    encode = frozen_encoder._encode
    monkeypatch.setattr(frozen_encoder, "_encode", lambda *a: calls.append(1) or encode(*a))
    for run in range(2):
        seal = nets(folder, "shared", global_size=8)
        if run:
            seal.config.id2label = {i: name.upper() for i, name in enumerate(LABELS)}
        trained(seal, tmp_path / f"run{run}", freeze_encoder=True, loss_net_feature_cache=cache)
        assert len(calls) == 2  # the rows of training and of validation


def test_cross_entropy_alone_on_a_frozen_encoder(base, tmp_path):
    seal = nets(base("distilbert"), "separate")
    trainer = trained(seal, tmp_path / "run", energy_loss="ce", freeze_encoder=True)
    assert trainer.loss_net is None and (tmp_path / "run" / "_features").is_dir()
    assert set(trainer.train_dataset.column_names) == {"labels", "encoder_outputs"}


def refusal(seal, folder, dataset=None, **options):
    args = tiny_arguments(folder, freeze_encoder=True, loss_net_encoder=seal.loss_net.config.encoder_mode, **options)
    with pytest.raises(ValueError, match="`freeze_encoder`") as error:
        SealTrainer(seal, args, train_dataset=dataset or rows())
    return str(error.value)


def test_what_cannot_be_frozen_is_refused_by_name(base, tmp_path):
    bert = base("bert")
    assert "head of BartForSequenceClassification reads more" in refusal(nets(base("bart"), "separate"), tmp_path)
    assert "the task-net trains an adapter" in refusal(nets(bert, "shared", adapter="lora"), tmp_path)
    wants = {"hypergradient": "cg", "energy_loss": "margin"}
    encoded = tiny_texts(8).map(lambda row: {"input_ids": [1, 2]})
    assert "`hypergradient` is 'cg'" in refusal(nets(bert, "shared"), tmp_path, **wants)
    assert "`train_dataset` is a Dataset" in refusal(nets(bert, "shared"), tmp_path, encoded)
    mlp = SealForMultiLabel.from_pretrained(_mlp(tmp_path), **LABELLED)
    assert "MLPForMultiLabel has no token encoder" in refusal(mlp, tmp_path, TensorRows(tiny_features(8)))


def _mlp(folder):
    MLPForMultiLabel(tiny_config("mlp")).save_pretrained(folder / "mlp")
    return folder / "mlp"
