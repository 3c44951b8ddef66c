"""Does an energy know more, and teach more, that learned from outputs on rows that the task-net had not seen?

    python benchmarks/out_of_fold.py semeval2018_ec xed_en --data_dir PATH --encoder FOLDER --json FILE.json

On its training rows a task-net is nearly right, so samples of its outputs are nearly gold there. Two energies learn by
NCE on frozen features: one from the outputs of a task-net on its own training rows, one from out-of-fold outputs, where
each fifth of the rows has the outputs of a task-net of the other four. Both are judged on validation rows, and then
stay fixed and teach a fresh task-net (SEAL-static) at several shares of the task loss's pull.

All nets are MLPs with one hidden layer. Validation chooses the epoch of a task-net by the example F1 at one tuned
threshold, and that of an energy by its own loss.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from seal_hf import ENERGY_LOSSES, MultiLabelEnergy, MultiLabelSpace, load_multilabel, tokenize
from seal_hf.energy_losses import GOLD, SAMPLES
from seal_hf.loss_net.energy_weight import balanced
from seal_hf.metrics import multilabel_metrics, tune_threshold
from seal_hf.nets.frozen_encoder import cached_features

HIDDEN, DROPOUT, RATE, BATCH, EPOCHS, PATIENCE = 400, 0.2, 1e-3, 64, 40, 5
FOLDS, SHARES = 5, (0.1, 0.3, 0.5)
SPACE, NCE = MultiLabelSpace(), ENERGY_LOSSES["nce"](num_samples=20)


class Rows(NamedTuple):
    """Features (N, H) and gold (N, L)."""

    x: Tensor
    y: Tensor


class EnergyNet(nn.Module):
    def __init__(self, size: int, labels: int):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(size, HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT))
        self.energy = MultiLabelEnergy(labels, HIDDEN, 200)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.energy(self.head(x), y)


def task_net(size: int, labels: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(HIDDEN, labels))


def fit(net: Any, size: int, loss_of: Callable[[Tensor], Tensor], judge: Callable[[], float]) -> float:
    """Train a net to the epoch that `judge` likes best, and return its figure."""
    optimizer, best, since, kept = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=0.0), -np.inf, 0, None
    for _ in range(EPOCHS):
        net.train()
        for rows in torch.randperm(size).split(BATCH):
            optimizer.zero_grad()
            loss_of(rows).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            figure = judge()
        since += 1
        if figure > best:
            best, since, kept = figure, 0, copy.deepcopy(net.state_dict())
        if since == PATIENCE:
            break
    net.load_state_dict(kept)
    net.eval()
    return best


def f1(net: nn.Module, rows: Rows) -> float:
    return tune_threshold(torch.sigmoid(net(rows.x)).numpy(), rows.y.numpy())[1]


def trained_task_net(train: Rows, validation: Rows, energy: EnergyNet | None = None, share: float = 0.0) -> nn.Module:
    """A task-net with cross-entropy, and beside it perhaps the energy of its output."""
    net = task_net(train.x.shape[1], train.y.shape[1])

    def loss_of(rows: Tensor) -> Tensor:
        x, y = train.x[rows], train.y[rows]
        logits = net(x)
        loss = F.binary_cross_entropy_with_logits(logits, y, reduction="none").sum(1).mean()
        if energy is None:
            return loss
        term = energy(x, SPACE.output(logits)).mean()
        return loss + share * balanced(term, loss, logits, lambda sums: sums)[0]

    fit(net, len(train.x), loss_of, lambda: f1(net, validation))
    return net


def trained_energy(train: Rows, logits: Tensor, validation: Rows, drawn: Tensor, seed: int) -> tuple[EnergyNet, dict]:
    """An energy by NCE on samples of these logits; and its loss and its AUC on validation rows with logits `drawn`."""
    net, generator = EnergyNet(train.x.shape[1], train.y.shape[1]), torch.Generator().manual_seed(seed)
    judged = NCE.candidates(SPACE, drawn, validation.y, generator)

    def loss_of(rows: Tensor) -> Tensor:
        candidates = NCE.candidates(SPACE, logits[rows], train.y[rows], generator)
        return NCE(net(train.x[rows], candidates.y), candidates)

    best = fit(net, len(train.x), loss_of, lambda: -NCE(net(validation.x, judged.y), judged).item())
    with torch.no_grad():
        energies = net(validation.x, judged.y)
    apart = energies[:, SAMPLES] - energies[:, GOLD : GOLD + 1]
    auc = ((apart > 0).double() + 0.5 * (apart == 0).double()).mean().item()
    return net.requires_grad_(False), {"loss": -best, "auc": auc}


@torch.no_grad()
def out_of_fold(train: Rows, validation: Rows, seed: int) -> Tensor:
    """Logits of all training rows, each of a task-net of the other folds: (N, L)."""
    found, order = (
        torch.zeros_like(train.y),
        torch.randperm(len(train.x), generator=torch.Generator().manual_seed(seed)),
    )
    for fold in order.chunk(FOLDS):
        others = torch.ones(len(order), dtype=torch.bool)
        others[fold] = False
        with torch.enable_grad():
            net = trained_task_net(Rows(train.x[others], train.y[others]), validation)
        found[fold] = net(train.x[fold])
    return found


def one_seed(train: Rows, validation: Rows, test: Rows, seed: int) -> dict[str, Any]:
    """All figures of a seed."""
    torch.manual_seed(seed)

    def score(net: nn.Module) -> float:
        with torch.no_grad():
            validated, tested = (torch.sigmoid(net(rows.x)).numpy() for rows in (validation, test))
        threshold, _ = tune_threshold(validated, validation.y.numpy())
        return multilabel_metrics(tested, test.y.numpy(), threshold=threshold)["f1_example"]

    plain = trained_task_net(train, validation)
    with torch.no_grad():
        own, drawn = plain(train.x), plain(validation.x)
    cross_entropy = [
        F.binary_cross_entropy_with_logits(logits, rows.y, reduction="none").sum(1).mean().item()
        for logits, rows in ((own, train), (drawn, validation))
    ]
    found: dict[str, Any] = {"seed": seed, "ce": score(plain), "task_loss": cross_entropy}
    for name, logits in (("training", own), ("out_of_fold", out_of_fold(train, validation, seed))):
        energy, judged = trained_energy(train, logits, validation, drawn, seed)
        found[name] = judged
        for share in SHARES:
            torch.manual_seed(seed)  # the nets begin as the plain one
            found[name][f"share {share}"] = score(trained_task_net(train, validation, energy, share))
    return found


def splits(name: str, data_dir: str | None, encoder: str, folder: Path, most: int) -> list[Rows]:
    """The features of the first training rows, and of validation and test rows."""
    data, tokenizer = (
        load_multilabel(name, data_dir=data_dir),
        AutoTokenizer.from_pretrained(encoder, trust_remote_code=False),
    )
    net, found = AutoModel.from_pretrained(encoder, trust_remote_code=False), []
    for part in (data.train.select(range(min(most, len(data.train)))), data.validation, data.test):
        rows = tokenize(part, tokenizer, max_length=128)
        x = cached_features(net, rows, folder)
        found.append(Rows(x, torch.tensor(np.asarray(part.with_format("numpy")["labels"][:]), dtype=torch.float32)))
    return found


def report(runs: Sequence[dict[str, Any]]) -> str:
    """A Markdown table of the mean ± deviation over seeds; gains are to cross-entropy, in points of F1."""

    def said(values: Sequence[float], form: str) -> str:
        spread = statistics.stdev(values) if len(values) > 1 else float("nan")
        return f"{statistics.mean(values):{form}} ± {spread:{form.lstrip('+')}}"

    head = ["energy learned from", "NCE loss", "energy AUC", *(f"gain at a share of {share}" for share in SHARES)]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name in ("training", "out_of_fold"):
        cells = [said([run[name][key] for run in runs], ".3f") for key in ("loss", "auc")]
        gains = [[100 * (run[name][f"share {share}"] - run["ce"]) for run in runs] for share in SHARES]
        cells += [said(each, "+.2f") for each in gains]
        lines.append(f"| {name.replace('_', '-')} outputs | {' | '.join(cells)} |")
    losses = [said([run["task_loss"][place] for run in runs], ".2f") for place in (0, 1)]
    plain = said([100 * run["ce"] for run in runs], ".2f")
    return "\n".join(
        [
            *lines,
            "",
            f"Cross-entropy: F1 {plain}; its loss {losses[0]} on training rows, {losses[1]} on validation rows.",
        ]
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--data_dir")
    parser.add_argument("--encoder", required=True, help="folder or Hub id")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--max_train_rows", type=int, default=2000)
    parser.add_argument("--cache", type=Path, default=Path("runs/features"), help="folder for the encoder's features")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args(argv)
    found = {}
    for name in options.datasets:
        parts = splits(name, options.data_dir, options.encoder, options.cache, options.max_train_rows)
        found[name] = [one_seed(*parts, seed) for seed in options.seeds]
        print(f"## {name}\n\n{report(found[name])}\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
