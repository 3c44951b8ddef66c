"""The cache of a frozen encoder's features. Oracles: the encoder, run row by row, and a run without the cache."""

import pytest
import torch
from datasets import Dataset
from tiny_models import LABELS, tiny_arguments, tiny_config, tiny_features, tiny_texts, tiny_tokenizer
from transformers import AutoModel

from seal_hf import SealForMultiLabel, SealTrainer, TensorRows, tokenize
from seal_hf.nets import frozen_encoder as cache
from seal_hf.nets.encoders import pool
from seal_hf.nets.frozen_encoder import cached_features


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return AutoModel.from_config(tiny_config("bert"))


def rows(number=20, seed=0):
    return tokenize(tiny_texts(number, seed), tiny_tokenizer(), max_length=8)


def counted(encoder):
    """Rows that the encoder has seen, in a list of one number."""
    seen = [0]
    encoder.embeddings.register_forward_hook(lambda *a: seen.__setitem__(0, seen[0] + a[2].shape[0]))
    return seen


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(cache, "CHUNK", 8)


def test_features_are_those_of_the_encoder_without_dropout(encoder, tmp_path):
    data = rows()
    encoder.train()
    features = cache.cached_features(encoder, data, tmp_path, batch_size=3)
    assert encoder.training and features.shape == (20, 16) and features.dtype == torch.float32
    encoder.eval()
    for i in range(20):
        batch = data.batch([i])
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        with torch.no_grad():
            alone = pool(encoder(**inputs).last_hidden_state, inputs["attention_mask"])
        torch.testing.assert_close(features[i : i + 1], alone, atol=1e-6, rtol=0)


def test_nothing_is_encoded_twice(encoder, tmp_path):
    seen = counted(encoder)
    first = cache.cached_features(encoder, rows(), tmp_path)
    again = cache.cached_features(encoder, rows(), tmp_path)
    assert seen == [20] and torch.equal(first, again)
    cache.cached_features(encoder, rows(24), tmp_path)  # sixteen of its rows are in whole chunks of the first
    assert seen == [20 + 8]


def test_the_key_is_the_content(encoder, tmp_path):
    seen = counted(encoder)
    cache.cached_features(encoder, rows(8), tmp_path)
    cache.cached_features(encoder, rows(8, seed=1), tmp_path)
    assert seen == [16]
    with torch.no_grad():
        encoder.encoder.layer[0].output.dense.bias[0] += 1e-6
    cache.cached_features(encoder, rows(8), tmp_path)
    assert seen == [24]
    relabelled = rows(8)
    relabelled.dense["labels"] = 1 - relabelled.dense["labels"]
    cache.cached_features(encoder, relabelled, tmp_path)
    assert seen == [24]  # labels are no input


def test_an_interruption_costs_one_chunk_and_damage_is_repaired(encoder, tmp_path):
    whole = cache.cached_features(encoder, rows(), tmp_path / "whole")
    calls = []

    def interrupt(*_):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    hook = encoder.embeddings.register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.cached_features(encoder, rows(), tmp_path / "cut", batch_size=8)
    hook.remove()
    seen = counted(encoder)
    (damaged, *_) = sorted((tmp_path / "cut").rglob("*.safetensors"))
    damaged.write_bytes(damaged.read_bytes()[:50])
    assert torch.equal(cache.cached_features(encoder, rows(), tmp_path / "cut", batch_size=8), whole)
    assert seen == [4 + 8]
    assert not list((tmp_path / "cut").rglob("*.unfinished"))


@pytest.mark.parametrize("loss", ["nce", "regression"])
def test_a_run_from_the_cache_is_the_run_of_a_frozen_encoder(encoder, loss, tmp_path):
    encoder.save_pretrained(tmp_path / "base")
    ends = []
    for folder in (None, str(tmp_path / "cache")):
        torch.manual_seed(0)
        seal = SealForMultiLabel.from_pretrained(tmp_path / "base", num_labels=len(LABELS))
        seal.loss_net.encoder.requires_grad_(False)
        for layer in seal.loss_net.encoder.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0
        seal.loss_net.encoder.config.attention_probs_dropout_prob = 0.0
        for layer in seal.loss_net.encoder.encoder.layer:
            layer.attention.self.dropout_prob = 0.0
        seen = counted(seal.loss_net.encoder)
        args = tiny_arguments(tmp_path / "run", energy_loss=loss, loss_net_feature_cache=folder, optim="sgd")
        trainer = SealTrainer(seal, args, train_dataset=rows(), eval_dataset=rows(10, seed=1))
        cached = seen[0]
        trainer.train()
        metrics = trainer.evaluate()
        ends.append(
            [*seal.task_net.parameters(), *seal.loss_net.parameters(), torch.tensor(metrics["eval_energy_gold"])]
        )
        if folder:
            assert cached == seen[0] == 30  # all rows once, and never while training or evaluating
    for live, cached in zip(*ends, strict=True):
        torch.testing.assert_close(live, cached, atol=1e-5, rtol=0)


def test_what_has_no_frozen_encoder_is_refused(encoder, tmp_path):
    encoder.save_pretrained(tmp_path / "base")
    seal = SealForMultiLabel.from_pretrained(tmp_path / "base", loss_net_encoder="shared", num_labels=len(LABELS))
    args = tiny_arguments(tmp_path, loss_net_encoder="shared", loss_net_feature_cache=str(tmp_path))
    with pytest.raises(ValueError, match="`loss_net_feature_cache` freezes the loss-net's own .* lacks one"):
        SealTrainer(seal, args, train_dataset=rows())
    seal = SealForMultiLabel.from_pretrained(tmp_path / "base", num_labels=len(LABELS))
    args = tiny_arguments(tmp_path, loss_net_feature_cache=str(tmp_path))
    with pytest.raises(ValueError, match="`loss_net_feature_cache`.*`model_init`.*as `model`"):
        SealTrainer(args=args, model_init=lambda: seal, train_dataset=rows())
    with pytest.raises(ValueError, match="needs TensorRows, but `train_dataset` is a Dataset"):
        SealTrainer(seal, args, train_dataset=tiny_features(8))


def test_the_same_tokens_in_other_texts_are_other_rows(tmp_path):
    torch.manual_seed(0)
    encoder, features = AutoModel.from_config(tiny_config("bert")), []
    for texts in ([[4, 5, 6], [7]], [[4], [5, 6, 7]]):
        columns = {"input_ids": texts, "attention_mask": [[1] * len(ids) for ids in texts]}
        rows = TensorRows(Dataset.from_dict(columns), padding={"input_ids": 0, "attention_mask": 0})
        features.append(cached_features(encoder, rows, tmp_path))
    assert not torch.allclose(*features)
