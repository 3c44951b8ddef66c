"""Do reviews by expected loss find more of the loss than random rows, or those of the largest entropy? Do bounds hold?

    OMP_NUM_THREADS=1 python benchmarks/review.py --data_dir PATH

A logistic regression for each label is fitted on the first rows of a data set, at most 2,000 and two thirds of its
training rows. It gives probabilities for rows that it has not seen, at most 3,000. Over 20 draws, half of them are
validation rows, on which `LabelDecisions` is fitted, and half are test rows. A review takes the loss 1 - F1 of a row
away. The table has the share of the loss that is left after the first 10 % and 20 % of test rows, and the area under
the curve, in percent. The second table has what conformal risk control promises and what test rows have, over 200
draws.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from seal_hf import load_multilabel
from seal_hf.decisions import LabelDecisions
from seal_hf.tasks.labels.decisions.guarantees import threshold_of_risk
from seal_hf.tasks.labels.decisions.review import entropies, review_curve
from seal_hf.tasks.labels.decisions.targets import F1_EXAMPLE, target_scores

SETS = ("genbase", "cal500", "spo_fun", "seq_fun", "bibtex", "delicious")
TRAIN, HELD_OUT, DRAWS, SPLITS, ALPHA = 2000, 3000, 20, 200, 0.1


def arrays(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    table = rows.with_format("numpy")
    return np.asarray(table["features"][:], dtype=np.float64), np.asarray(table["labels"][:]) > 0


def recorded(name: str, options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and gold labels, (N, L), of rows that the regressions have not seen."""
    file = options.cache / f"{name}.npz"
    if not file.is_file():
        data = load_multilabel(name, data_dir=options.data_dir)
        (x, y), (x_test, y_test) = arrays(data.train), arrays(data.test)
        size = min(TRAIN, 2 * len(x) // 3)
        others = np.concatenate([x[size:], x_test])[:HELD_OUT], np.concatenate([y[size:], y_test])[:HELD_OUT]
        x, y = x[:size], y[:size]
        found = np.tile((y.sum(0) + 0.5) / (len(y) + 1), (len(others[0]), 1))
        for label in np.flatnonzero(y.any(0) & ~y.all(0)):
            model = LogisticRegression(C=1.0, max_iter=100).fit(x, y[:, label])
            found[:, label] = model.predict_proba(others[0])[:, 1]
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, probabilities=found.astype(np.float32), labels=others[1])
    with np.load(file) as kept:
        return kept["probabilities"].astype(np.float64), kept["labels"]


def review(p: np.ndarray, gold: np.ndarray) -> dict[str, np.ndarray]:
    """Order of the review -> (draws, 3): what is left after 10 % and 20 %, and the area, as shares of the loss."""
    found: dict[str, list[list[float]]] = {"expected loss": [], "entropy": [], "random": []}
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(len(p))
        fitting, test = np.array_split(order, 2)
        decisions = LabelDecisions.fit(p[fitting], gold[fitting], decoder="calibrated_f1")
        decided = decisions.decide(p[test])
        losses = 1 - target_scores(F1_EXAMPLE, decided, gold[test], 1.0)
        orders = {"expected loss": decisions.expected_losses(p[test], decided), "entropy": entropies(p[test])}
        orders["random"] = np.random.default_rng(seed).random(len(test))
        for name, priorities in orders.items():
            curve = review_curve(priorities, losses) / losses.mean()
            found[name].append([*(curve[round(share * len(test))] for share in (0.1, 0.2)), curve.mean()])
    return {name: 100 * np.array(rows) for name, rows in found.items()}


def risks(p: np.ndarray, gold: np.ndarray) -> list[str]:
    """The mean share of missed labels, and of rows without all gold labels, on test rows: mean ± its error."""
    cells = []
    for all_gold in (False, True):
        found = []
        for seed in range(SPLITS):
            fitting, test = np.array_split(np.random.default_rng(seed).permutation(len(p)), 2)
            cut = threshold_of_risk(p[fitting], gold[fitting], ALPHA, all_gold)
            missed = (gold[test] & (p[test] < cut)).sum(1) / np.maximum(gold[test].sum(1), 1)
            found.append(((missed > 0) if all_gold else missed).mean())
        cells.append(f"{100 * np.mean(found):.2f} ± {100 * np.std(found) / SPLITS**0.5:.2f}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--cache", type=Path, default=Path("runs/review"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # 100 iterations are few
    print("| data | rows | by | left after 10 % | after 20 % | area |\n|---|---|---|---|---|---|", flush=True)
    bounds = []
    for name in SETS:
        p, gold = recorded(name, options)
        for order, rows in review(p, gold).items():
            cells = " | ".join(f"{m:.1f} ± {s:.1f}" for m, s in zip(rows.mean(0), rows.std(0), strict=True))
            print(f"| {name} | {len(p) - len(p) // 2} | {order} | {cells} |", flush=True)
        bounds.append(f"| {name} | {' | '.join(risks(p, gold))} |")
    print(f"\n| data | missed, at most {100 * ALPHA:g} % | rows without all gold labels, at most {100 * ALPHA:g} % |")
    print("\n".join(["|---|---|---|", *bounds]))


if __name__ == "__main__":
    main()
