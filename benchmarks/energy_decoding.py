"""Does decoding with the energy decide better than the task-net alone? On saved runs of texts, with their loss-nets.

    python benchmarks/energy_decoding.py FOLDER --dataset semeval2018_ec --data_dir PATH --json FILE.json
    python benchmarks/energy_decoding.py SEED1 SEED2 SEED3 --dataset xed_en --data_dir PATH --never_empty

P is the task-net's distribution, calibrated on validation rows by Platt scaling, since a loss-net that only calibrates
would need no decoding. Label sets are drawn from it, y_k ~ P(. | x), and weighed to be samples of

    p(y | x) ∝ P(y | x)^a exp(-b E(x, y)),     w_k ∝ P(y_k | x)^(a - 1) exp(-b E(x, y_k))

Two decisions are made from them: the likeliest set, for exact match, and the set of highest expected Jaccard index.
Validation rows choose a and b for each decision, and test rows judge. The task-net alone has b = 0. A chosen a = 0 says
that the energy alone decides better than with the task-net. With --never_empty p is 0 for the empty set, for the
task-net alone too: where every row has a label, an energy may know no more than that.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from seal_hf import SealForMultiLabel, load_multilabel
from seal_hf.decisions import platt_scaling
from seal_hf.lab.compare.statistics import paired_bootstrap
from seal_hf.metrics import multilabel_metrics, tune_threshold

POWERS = (0.0, 0.5, 1.0)  # a; energies of NCE are fitted to be -log p themselves, a = 0
SCALES = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # b
ALONE = [(a, 0.0) for a in (0.5, 1.0, 2.0)]  # of the likeliest set, a changes nothing


Scaling = tuple[float, float]  # scale and shift of logits


class Drawn(NamedTuple):
    """The likeliest set of the task-net and K samples, for each of N rows.

    Attributes:
        sets: (N, 1 + K, L) of 0 and 1.
        log_p, energies: of these sets, (N, 1 + K).
        possible: (N, 1 + K), False where p is 0.
    """

    sets: Tensor
    log_p: Tensor
    energies: Tensor
    possible: Tensor

    def score(self, power: float, scale: float) -> Tensor:
        """a log P - b E: log p up to a constant of the row, (N, 1 + K)."""
        return (power * self.log_p - scale * self.energies).masked_fill(~self.possible, -torch.inf)

    def weights(self, power: float, scale: float) -> Tensor:
        """Of the samples, (N, K); they sum to 1."""
        return torch.softmax(self.score(power - 1, scale)[:, 1:], dim=1)


def likeliest(drawn: Drawn, power: float, scale: float) -> Tensor:
    """The set with the highest p among those drawn: (N, L)."""
    return _picked(drawn.sets, drawn.score(power, scale))


def highest_jaccard(drawn: Drawn, power: float, scale: float) -> Tensor:
    """The set with the highest expected Jaccard index under p, among those drawn: (N, L)."""
    together = drawn.sets @ drawn.sets[:, 1:].transpose(1, 2)  # (N, 1 + K, K)
    size = drawn.sets.sum(-1)
    union = size.unsqueeze(2) + size[:, None, 1:] - together
    index = torch.where(union > 0, together / union.clamp_min(1), 1.0)
    expected = (index @ drawn.weights(power, scale).unsqueeze(2)).squeeze(2)
    return _picked(drawn.sets, expected.masked_fill(~drawn.possible, -torch.inf))


DECISIONS = {"exact match": likeliest, "Jaccard": highest_jaccard}


def _picked(sets: Tensor, score: Tensor) -> Tensor:
    return sets[torch.arange(len(sets)), score.argmax(1)]


def figure_of_rows(decided: Tensor, gold: Tensor, figure: str) -> np.ndarray:
    """Exact match or Jaccard index of each row, (N,)."""
    if figure == "exact match":
        return (decided == gold).all(1).double().numpy()
    both, either = (decided * gold).sum(1), torch.maximum(decided, gold).sum(1)
    return torch.where(either > 0, both / either.clamp_min(1), 1.0).double().numpy()


@torch.no_grad()
def draw(
    seal: Any,
    logits: Tensor,
    inputs: dict[str, Tensor],
    num_samples: int,
    generator: torch.Generator,
    never_empty: bool = False,
) -> Drawn:
    """Sets for one batch, from its logits (B, L)."""
    first = (logits > 0).float()
    if never_empty:  # the likeliest of the others has the likeliest label alone
        first = torch.where(first.any(1, keepdim=True), first, one_hot(logits.argmax(1), logits.shape[1]).float())
    sets = torch.cat([first.unsqueeze(1), seal.space.sample(logits, num_samples, generator)], dim=1)
    possible = sets.any(-1) if never_empty else torch.ones_like(sets[..., 0], dtype=torch.bool)
    return Drawn(sets, seal.space.log_prob(logits, sets), seal.energy(sets, **inputs), possible)


@torch.no_grad()
def read(
    seal: SealForMultiLabel, texts: Sequence[str], num_samples: int, seed: int, never_empty: bool, scaling: Scaling
) -> Drawn:
    """The sets of all texts, drawn from the task-net with its logits scaled and shifted."""
    generator, places, parts = torch.Generator().manual_seed(seed), [], []
    for chosen, inputs in seal.batches(texts, 64):
        logits = seal.task_net(**inputs).logits.float() * scaling[0] + scaling[1]
        places += chosen
        parts.append(draw(seal, logits, inputs, num_samples, generator, never_empty))
    order = torch.tensor(places).argsort()
    return Drawn(*(torch.cat(part)[order] for part in zip(*parts, strict=True)))


def table(validation: tuple[Drawn, Tensor], test: tuple[Drawn, Tensor]) -> tuple[str, dict[str, Any]]:
    """Markdown and figures: each decision by the task-net alone, and with the energy. Both splits with their gold."""
    lines = [
        "| figure | task-net alone | with the energy | a | b | difference | p, rows |",
        "|---|---|---|---|---|---|---|",
    ]
    found: dict[str, Any] = {}
    for figure, decide in DECISIONS.items():

        def rows(split: tuple[Drawn, Tensor], power: float, scale: float, figure=figure, decide=decide) -> np.ndarray:
            parts = zip(*(part.split(64) for part in (*split[0], split[1])), strict=True)
            return np.concatenate(
                [figure_of_rows(decide(Drawn(*drawn), power, scale), gold, figure) for *drawn, gold in parts]
            )

        grid = {key: rows(validation, *key).mean() for key in (*ALONE, *itertools.product(POWERS, SCALES))}
        alone, best = (max(keys, key=grid.__getitem__) for keys in (ALONE, [key for key in grid if key[1]]))
        before, after = rows(test, *alone), rows(test, *best)
        change = paired_bootstrap(after, before)
        cells = [f"{100 * values.mean():.2f}" for values in (before, after)] + [f"{value:g}" for value in best]
        cells.append(f"{100 * change.difference:+.2f} [{100 * change.low:+.2f}, {100 * change.high:+.2f}]")
        lines.append(f"| {figure} | {' | '.join(cells)} | {change.p_value:.2g} |")
        sides = {"alone": (before.mean(), alone), "energy": (after.mean(), best)}
        found[figure] = {
            side: {"test": test, "validation": grid[key], "a": key[0], "b": key[1]}
            for side, (test, key) in sides.items()
        }
        found[figure] |= change._asdict()
    return "\n".join(lines), found


def decided(folder: str, data: Any, num_samples: int, seed: int, never_empty: bool) -> tuple[str, dict[str, Any]]:
    """The table of a saved run and its figures, also under the threshold that is tuned for example F1."""
    seal = SealForMultiLabel.from_pretrained(folder).eval()
    parts = {"validation": data.validation, "test": data.test}
    golds = {name: np.asarray(rows.with_format("numpy")["labels"][:]) for name, rows in parts.items()}
    outputs = {name: seal.predict(rows["text"][:])[0].double().numpy() for name, rows in parts.items()}
    how = (num_samples, seed, never_empty, scaling := platt_scaling(outputs["validation"], golds["validation"]))
    splits = [(read(seal, rows["text"][:], *how), torch.tensor(golds[name])) for name, rows in parts.items()]
    text, found = table(*splits)
    threshold, _ = tune_threshold(outputs["validation"], golds["validation"])
    plain = multilabel_metrics(outputs["test"], golds["test"], threshold=threshold)
    found |= {"scaling": scaling, "tuned threshold": {key: plain[key] for key in ("exact_match", "jaccard")}}
    said = ", ".join(f"{key} {100 * value:.2f}" for key, value in found["tuned threshold"].items())
    return f"{text}\n\nThe task-net at the threshold {threshold:.2f}, tuned for example F1: {said}.", found


def over_seeds(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: mean ± standard deviation over runs, in percent."""
    lines = ["| figure | runs | task-net alone | with the energy | difference |", "|---|---|---|---|---|"]
    for figure in DECISIONS:
        alone, energy = (100 * np.array([run[figure][side]["test"] for run in found]) for side in ("alone", "energy"))
        said = [f"{values.mean():.2f} ± {values.std(ddof=1):.2f}" for values in (alone, energy)]
        change = energy - alone
        lines.append(
            f"| {figure} | {len(found)} | {' | '.join(said)} | {change.mean():+.2f} ± {change.std(ddof=1):.2f} |"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="of saved runs with a loss-net, of several seeds perhaps")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--data_dir")
    parser.add_argument("--num_samples", type=int, default=200, help="K")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--never_empty", action="store_true", help="p is 0 for the empty set")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args(argv)
    data = load_multilabel(options.dataset, data_dir=options.data_dir)
    found = []
    for folder in options.folders:
        text, figures = decided(folder, data, options.num_samples, options.seed, options.never_empty)
        found.append(figures)
        print(text)
    if len(found) > 1:
        print(f"\n{over_seeds(found)}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
