"""benchmarks/out_of_fold.py: outputs that have not seen their row, and figures against a loop."""

import sys
from pathlib import Path

import pytest
import torch


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import out_of_fold

    monkeypatch.setattr(out_of_fold, "EPOCHS", 2)
    yield out_of_fold
    sys.modules.pop("out_of_fold", None)


def rows(benchmark, size=50, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = (torch.rand(size, 4, generator=generator) < 0.5).float()
    return benchmark.Rows(torch.cat([y, torch.rand(size, 2, generator=generator)], dim=1), y)


def test_the_output_of_a_row_does_not_depend_on_its_gold(benchmark):
    train, validation, seed = rows(benchmark), rows(benchmark, seed=1), 3
    fold = torch.randperm(50, generator=torch.Generator().manual_seed(seed)).chunk(benchmark.FOLDS)[0]
    found = []
    for gold in (train.y, torch.index_fill(train.y, 0, fold, 1.0)):
        torch.manual_seed(0)  # the first fold's net is the first that is drawn
        found.append(benchmark.out_of_fold(benchmark.Rows(train.x, gold), validation, seed))
    assert torch.equal(found[0][fold], found[1][fold])
    assert not torch.equal(found[0], found[1]) and found[0].abs().min() > 0


def test_an_energy_is_judged_on_the_validation_rows(benchmark):
    train, validation = rows(benchmark, 200), rows(benchmark, seed=1)
    torch.manual_seed(0)
    energy, judged = benchmark.trained_energy(train, train.y * 0.1, validation, validation.y * 0.1, seed=0)
    generator = torch.Generator().manual_seed(0)
    candidates = benchmark.NCE.candidates(benchmark.SPACE, validation.y * 0.1, validation.y, generator)
    energies = energy(validation.x, candidates.y)
    pairs = [(float(gold), float(one)) for gold, *samples in energies[:, 1:].tolist() for one in samples]
    assert judged["auc"] == pytest.approx(sum((one > gold) + 0.5 * (one == gold) for gold, one in pairs) / len(pairs))
    assert judged["loss"] == pytest.approx(float(benchmark.NCE(energies, candidates)), rel=1e-5)
