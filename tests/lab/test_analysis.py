"""Oracles: the closed form of the multi-label energy's Hessian, W of a chain, counts by loops, scipy's definitions."""

import itertools
import json
import math
import sys

import numpy as np
import pytest
import torch
from tiny_models import LABELS, tiny_config, tiny_texts, tiny_tokenizer
from tiny_run import Names
from transformers import BertModel

from seal_hf import MultiLabelEnergy, SealForMultiLabel, SealForTokenClassification, Vocabulary, load_tags
from seal_hf.core.energy import ENERGIES
from seal_hf.data import load_multilabel
from seal_hf.lab.analysis import (
    agreement,
    energy_hessian,
    label_correlation,
    label_pmi,
    main,
    tag_bigrams,
    tag_pair_hessian,
    tag_pmi,
)
from seal_hf.tasks.labels import analysis as labels


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def multilabel_energy(labels=6, seed=0):
    energy = MultiLabelEnergy(labels, 4, 5).double().requires_grad_(False)
    for parameter in energy.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator(seed), dtype=torch.float64))
    features = torch.randn(3, 4, generator=generator(1), dtype=torch.float64)
    return energy, lambda y: energy(features, y.unsqueeze(1)).squeeze(1)


def closed_hessian(energy, y):
    """-Mᵀ diag(v σ'(M y + c)) M for each row: (B, L, L)."""
    matrix, v = energy.projection.weight.T, energy.direction.weight[0]  # (G, L), (G,)
    sigma = torch.sigmoid(y @ matrix.T + energy.bias)
    return -torch.einsum("gi,bg,gj->bij", matrix, v * sigma * (1 - sigma), matrix)


def test_the_hessian_of_the_multi_label_energy_is_its_closed_form():
    energy, of = multilabel_energy()
    y = torch.rand(3, 6, generator=generator(2), dtype=torch.float64)
    expected = closed_hessian(energy, y).mean(0)
    assert torch.allclose(energy_hessian(of, y), expected)
    assert torch.allclose(energy_hessian(of, y, [4, 1]), expected[[4, 1]][:, [4, 1]])


def test_a_linear_energy_has_no_hessian():
    y = torch.rand(2, 3)
    assert torch.equal(energy_hessian(lambda y: y.sum(1), y), torch.zeros(3, 3))


@pytest.mark.parametrize("name", ["chain", "chain_ge_c"])
def test_the_pair_hessian_of_tags(name):
    """Of a chain -W, whatever the holes of the mask; of the others, torch's own Hessian by enumeration of positions."""
    torch.manual_seed(0)
    net = ENERGIES[name](3, 4, 6).double().requires_grad_(False)
    net.transitions.copy_(torch.randn(3, 3, generator=generator(5)))
    features = torch.randn(2, 5, 4, generator=generator(6), dtype=torch.float64)
    mask = torch.tensor([[1, 0, 1, 1, 1], [0, 1, 1, 0, 0]]).bool()
    y = torch.rand(2, 5, 3, generator=generator(7), dtype=torch.float64).softmax(-1)
    of = lambda y: net(features, y.unsqueeze(1), mask).squeeze(1)  # noqa: E731
    found = tag_pair_hessian(of, y, mask)
    whole = torch.autograd.functional.hessian(lambda y: of(y).sum(), y)  # (2, 5, 3, 2, 5, 3)
    pairs = [(0, 0, 2), (0, 2, 3), (0, 3, 4), (1, 1, 2)]  # row, position, the next that counts
    expected = torch.stack([whole[b, s, :, b, t] for b, s, t in pairs]).mean(0)
    assert torch.allclose(found, expected)
    if name == "chain":
        assert torch.allclose(found, -net.transitions)
    assert torch.equal(tag_pair_hessian(of, y, torch.zeros(2, 5).bool()), torch.zeros(3, 3).double())


def test_counts_of_labels_and_tags():
    labels = (np.random.default_rng(0).uniform(size=(30, 4)) > 0.6).astype(float)
    labels[:, 3] = 0
    pmi, correlation = label_pmi(labels), label_correlation(labels)
    for i, j in itertools.product(range(4), repeat=2):
        both, expected = (labels[:, i] * labels[:, j]).sum(), labels[:, i].sum() * labels[:, j].sum() / 30
        assert math.isclose(pmi[i, j], math.log((both + 1) / (expected + 1)), abs_tol=1e-12)
    assert np.allclose(correlation[:3, :3], np.corrcoef(labels[:, :3].T)) and not correlation[3].any()
    bigrams = tag_bigrams([[0, 1, 1, 2], [2], [0, 1]], 3)
    assert bigrams.tolist() == [[0, 2, 0], [0, 1, 1], [0, 0, 0]]
    assert math.isclose(tag_pmi(bigrams)[0, 1], math.log((2 + 1) / (2 * 3 / 4 + 1)))


def test_agreement_of_matrices():
    a = np.array([[9.0, 1, 2], [1, 9, 3], [2, 3, 9]])
    same = agreement(a, a**3, symmetric=True)
    assert same["spearman"] == 1 and same["pearson"] < 1 and same["pairs"] == 3
    assert agreement(a, -a, symmetric=False) == {
        "pearson": pytest.approx(-1),
        "spearman": pytest.approx(-1),
        "pairs": 9,
    }
    assert agreement(a, np.zeros((3, 3)), symmetric=True)["pearson"] is None


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A saved folder of label sets, with random weights."""
    folder = tmp_path_factory.mktemp("digits")
    torch.manual_seed(0)
    SealForMultiLabel.for_data(load_multilabel(), hidden_size=8, global_size=4).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """A saved folder of tags, with random weights and a CRF."""
    folder = tmp_path_factory.mktemp("tags")
    torch.manual_seed(0)
    data = load_tags()
    vocabulary = Vocabulary.from_data(data.train)
    seal = SealForTokenClassification.for_data(data, vocabulary=vocabulary, hidden_size=8, word_size=8, crf=True)
    seal.loss_net.energy.transitions.data.normal_()
    seal.save_pretrained(folder)
    vocabulary.save_pretrained(folder)
    return str(folder)


def test_the_hessian_of_a_saved_folder(digits, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(labels, "MOST_LABELS", 5)
    main(["hessian", digits, "--output_dir", str(tmp_path), "--max_rows", "70"])
    found = json.loads((tmp_path / "hessian.json").read_text())
    seal, data = SealForMultiLabel.from_pretrained(digits), load_multilabel()
    features = torch.tensor(data.validation["features"][:70])
    whole = closed_hessian(seal.loss_net.energy, seal.predict(features=features)[0]).mean(0)
    chosen = [data.label_names.index(name) for name in found["labels"]]
    assert np.allclose(found["hessian"], whole[chosen][:, chosen].detach(), atol=1e-6)
    assert found["rows"] == 70 and found["agreement_of_minus_hessian"]["pmi"]["pairs"] == 10
    assert (tmp_path / "hessian.png").stat().st_size > 0


def test_the_tag_pairs_of_a_saved_folder(tagger, tmp_path):
    pytest.importorskip("matplotlib")
    main(["tags", tagger, "--output_dir", str(tmp_path), "--max_rows", "20"])
    found = json.loads((tmp_path / "tags.json").read_text())
    energy = SealForTokenClassification.from_pretrained(tagger).loss_net.energy
    assert np.allclose(found["minus_hessian"], energy.transitions.detach(), atol=1e-5)
    assert not np.any(found["crf_transitions"]) and found["agreement"]["crf_transitions"]["pmi"]["pearson"] is None
    assert (tmp_path / "tags.png").stat().st_size > 0


def test_texts_and_encoders(tmp_path):
    """At a classifier's outputs on texts the Hessian has its closed form; an energy with attention has one at all."""
    texts = tiny_texts(30)
    lines = [{"text": r["text"], "labels": [n for n, y in zip(LABELS, r["labels"], strict=True) if y]} for r in texts]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = load_multilabel(str(tmp_path / "data.jsonl"))
    torch.manual_seed(0)
    BertModel(tiny_config("bert", max_position_embeddings=64)).save_pretrained(tmp_path / "bert")
    SealForMultiLabel.for_data(data, str(tmp_path / "bert")).save_pretrained(tmp_path / "labels")
    tiny_tokenizer().save_pretrained(tmp_path / "labels")
    options = ["--output_dir", str(tmp_path), "--figure", "false"]
    found = main(["hessian", str(tmp_path / "labels"), "--dataset", str(tmp_path / "data.jsonl"), *options])
    seal = SealForMultiLabel.from_pretrained(tmp_path / "labels")
    rows = tiny_tokenizer()(data.validation["text"][:], padding=True, return_tensors="pt")
    y, _ = seal.predict(**{name: rows[name] for name in ("input_ids", "attention_mask")})
    assert np.allclose(found["hessian"], closed_hessian(seal.loss_net.energy, y).mean(0).detach(), atol=1e-6)
    tagger = SealForTokenClassification.for_data(load_tags(), str(tmp_path / "bert"), energy="tag_attention")
    tagger.save_pretrained(tmp_path / "tagger")
    tiny_tokenizer().save_pretrained(tmp_path / "tagger")
    found = main(["tags", str(tmp_path / "tagger"), *options, "--max_rows", "8"])
    assert np.isfinite(found["minus_hessian"]).all() and np.any(found["minus_hessian"])


def test_without_matplotlib_the_numbers_are_written(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    options = [digits, "--output_dir", str(tmp_path), "--max_rows", "10"]
    with pytest.raises(ValueError, match=r"pip install 'seal_hf\[plot\]'"):
        main(["hessian", *options])
    assert not list(tmp_path.iterdir())
    main(["hessian", *options, "--figure", "false"])
    assert [file.name for file in tmp_path.iterdir()] == ["hessian.json"]


@pytest.mark.parametrize("argv, word", [(["--help"], "hessian FOLDER"), (["tags", "--help"], "--scheme")])
def test_help_is_printed(argv, word, capsys):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code in (0, None)
    assert word in capsys.readouterr().out


def test_what_does_not_fit_is_said(digits, tagger, tmp_path):
    options = ["--output_dir", str(tmp_path), "--figure", "false"]
    with pytest.raises(ValueError, match=r"usage: .*hessian\|tags FOLDER"):
        main(["hessians", digits])
    with pytest.raises(ValueError, match="`hessian` analyses label sets"):
        main(["hessian", tagger, *options])
    with pytest.raises(ValueError, match="no _loss_net/"):
        main(["hessian", str(tmp_path), *options])
    with pytest.raises(ValueError, match="`max_rows` is 0"):
        main(["hessian", digits, *options, "--max_rows", "0"])
    nets = SealForMultiLabel.for_data(Names, hidden_size=8)
    nets.save_pretrained(tmp_path / "other")
    with pytest.raises(ValueError, match="other labels"):
        main(["hessian", str(tmp_path / "other"), *options])
