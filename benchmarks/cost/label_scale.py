"""Cost of NCE against the output layer of cross-entropy, from 10³ to 10⁶ labels, as ratios measured in one run.

    python benchmarks/cost/label_scale.py --json benchmarks/cost/label_scale.json --plot label_scale.png

Both get the features of the inputs, (B, H). A BCE step is what cross-entropy cannot do without: the output layer H x L
forward, backward and its AdamW update. An NCE step is the same, and the loss-net's: samples, energies, backward, a
row-wise update of its tables, and the energy of the output, forward and backward. Labels are long-tailed (rate ~
1 / rank, 8 labels per row), and the output layer starts at their log-odds, as `for_data` lets it. Variants take turns
over the rounds; each figure is the median over the rounds, with the smallest and largest. On one thread the clock is
the processor's, which other programs on the machine disturb less than the wall's. Memory is the peak of a
process of its own (read from /proc, so on Linux).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path

import torch
from timing import clock, in_turns, machine, peak_bytes, ratios, seconds_of, spread, write_json
from torch import nn

from seal_hf import MultiLabelEnergy, MultiLabelSpace
from seal_hf.energy_losses import NCE
from seal_hf.loss_net.learner import RowAdamW, clip_grad_norm
from seal_hf.utils.modules import frozen

DENSE_UP_TO = 10_000  # beyond, a dense B x K x L takes gigabytes


class Nets:
    """An output layer and a loss-net over L labels, and one step of each method."""

    def __init__(self, num_labels: int, options):
        torch.manual_seed(0)
        ranks = torch.arange(1, num_labels + 1)
        self.rates = (options.labels_per_row / (1 / ranks).sum() / ranks).clamp_max(0.5)
        self.layer = nn.Linear(options.features, num_labels)
        with torch.no_grad():
            self.layer.weight.mul_(0.2)
            self.layer.bias.copy_(torch.logit(self.rates))
        self.optimizer = torch.optim.AdamW(self.layer.parameters(), lr=1e-5, fused=True)
        self.energy = None
        self.options, self.num_labels = options, num_labels
        self.generator = torch.Generator().manual_seed(0)

    def add_loss_net(self) -> None:
        self.energy = MultiLabelEnergy(self.num_labels, self.options.features, self.options.global_size)
        self.energy_optimizer = RowAdamW(self.energy.parameters(), lr=1e-3, fused=True)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Features of both nets (B, H), labels (B, L)."""
        shape = (self.options.batch, self.options.features)
        x, t = (torch.randn(shape, generator=self.generator) for _ in range(2))
        rates = self.rates.expand(self.options.batch, -1)
        return x, t, torch.bernoulli(rates, generator=self.generator)

    def bce_step(self, x, t, labels) -> None:
        self._update(MultiLabelSpace().task_loss(self.layer(x), labels))

    def nce_step(self, x, t, labels, num_samples: int, sparse: bool = True) -> None:
        space = MultiLabelSpace(sparse_from=1 if sparse else self.num_labels + 1)
        self.energy.label_embeddings.sparse = self.energy.projection.sparse = sparse
        logits, loss = self.layer(x), NCE(num_samples=num_samples)
        candidates = loss.candidates(space, logits.detach(), labels, self.generator)
        loss(self.energy(t, candidates.y), candidates).backward()
        clip_grad_norm(list(self.energy.parameters()), 10.0)
        self.energy_optimizer.step()
        self.energy_optimizer.zero_grad()
        with frozen(self.energy):
            energy = self.energy(t, space.output(logits))
        self._update(space.task_loss(logits, labels) + loss.task_term(energy))

    def _update(self, loss) -> None:
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def variants(num_labels: int, options) -> dict:
    """Name -> one step of it."""
    steps = {"bce": lambda nets, batch: nets.bce_step(*batch)}
    for k in options.samples:
        steps[f"nce K={k}"] = lambda nets, batch, k=k: nets.nce_step(*batch, k)
    if num_labels <= DENSE_UP_TO:
        steps["dense nce K=100"] = lambda nets, batch: nets.nce_step(*batch, 100, sparse=False)
    return steps


def measure_seconds(num_labels: int, options) -> dict[str, list[float]]:
    """Seconds per step of every variant, one figure per round, taking turns."""
    found: dict[str, list[float]] = {}
    for dense in (False, True):  # the row-wise optimizer counts steps per row, the dense one per table
        nets = Nets(num_labels, options)
        nets.add_loss_net()
        steps = {n: s for n, s in variants(num_labels, options).items() if n == "bce" or ("dense" in n) == dense}
        if len(steps) == 1:
            continue

        def measure(step, nets=nets) -> float:
            batches = [nets.batch() for _ in range(options.steps)]
            return seconds_of(lambda: [step(nets, batch) for batch in batches], clock) / options.steps

        rounds = in_turns({name: partial(measure, step) for name, step in steps.items()}, options.rounds + 1)
        seconds = {name: values[1:] for name, values in rounds.items()}  # the first made the optimizers' states
        if dense:
            seconds["bce beside dense"] = seconds.pop("bce")
        found |= seconds
    return found


def measure_peak(num_labels: int, name: str, options) -> float:
    """Peak memory in MB of a process that takes three steps of one variant alone."""
    command = [sys.executable, __file__, "--peak_of", name, "--labels", str(num_labels), "--batch", str(options.batch)]
    command += ["--features", str(options.features), "--global_size", str(options.global_size)]
    command += ["--samples", *map(str, options.samples)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak(options) -> None:
    nets, name = Nets(options.labels[0], options), options.peak_of
    if name != "bce":
        nets.add_loss_net()
    for _ in range(3):
        variants(options.labels[0], options)[name](nets, nets.batch())
    print(peak_bytes() / 2**20)


def draw(figures: dict, path: str) -> None:
    """Seconds per step over the number of labels, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name in next(iter(figures.values()))["seconds"]:
        if "dense" not in name:
            medians = {int(n): statistics.median(cell["seconds"][name]) for n, cell in figures.items()}
            plt.plot(list(medians), list(medians.values()), "o-", label=name)
    plt.loglog()
    plt.xlabel("labels")
    plt.ylabel("seconds per step")
    plt.legend()
    plt.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--labels", type=int, nargs="*", default=[10**3, 10**4, 10**5, 10**6], help="none: draw alone")
    parser.add_argument("--samples", type=int, nargs="+", default=[20, 100, 400], help="K")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--features", type=int, default=384, help="H, of both nets")
    parser.add_argument("--global_size", type=int, default=200, help="G, width of the global term")
    parser.add_argument("--labels_per_row", type=float, default=8)
    parser.add_argument("--steps", type=int, default=4, help="steps per measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each variant, taking turns")
    parser.add_argument("--json", help="write the figures here too, in the place of those for the same L")
    parser.add_argument("--plot", help="draw them here (needs matplotlib)")
    parser.add_argument("--peak_of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak_of:
        return print_peak(options)
    setting = {n: getattr(options, n) for n in "batch features global_size labels_per_row steps rounds".split()}
    setting |= machine()
    print(setting)
    figures = json.loads(Path(options.json).read_text("utf-8")) if options.json and Path(options.json).exists() else {}
    for num_labels in options.labels:
        seconds = measure_seconds(num_labels, options)
        peaks = {name: measure_peak(num_labels, name, options) for name in seconds if "beside" not in name}
        figures[str(num_labels)] = {"setting": setting, "seconds": seconds, "peak MB": peaks}
        for name, values in seconds.items():
            beside = seconds["bce beside dense" if "dense" in name else "bce"]
            times = f"{1e3 * statistics.median(values):9.1f} ms {spread(ratios(values, beside))} x bce"
            print(f"L={num_labels:8d} {name:18s} {times}", end=" ")
            print(f"{peaks[name]:8.0f} MB" if name in peaks else "", flush=True)
        write_json(options.json, figures)
    if options.plot:
        draw(figures, options.plot)


if __name__ == "__main__":
    main()
