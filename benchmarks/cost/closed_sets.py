"""Decoding of closed label sets against decoding of any label set: seconds, and how often the best set is not closed.

    OMP_NUM_THREADS=1 python benchmarks/cost/closed_sets.py --dataset PATH/seq_fun

Rows have the labels of a Clus set. Their log-odds are those of the labels' rates, `--lift` more for gold labels, and
noise. Processor time of one run.
"""

from __future__ import annotations

import argparse

import numpy as np
from timing import seconds_of

from seal_hf.data import load_multilabel
from seal_hf.decisions import decode_closed_f1, decode_expected_f1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", required=True, help="Clus ARFF folder")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--lift", type=float, default=1.5)
    parser.add_argument("--noise", type=float, default=0.7, help="standard deviation of the log-odds")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = load_multilabel(options.dataset)
    if data.hierarchy is None or data.test is None:
        parser.error(f"{options.dataset} has no class hierarchy or no test split")
    gold = np.asarray(data.test.with_format("numpy")["labels"][:])
    gold = np.resize(gold, (options.rows, gold.shape[1]))
    noise = options.noise * np.random.default_rng(options.seed).normal(size=gold.shape)
    rates = data.label_rates
    p = 1 / (1 + np.exp(-(np.log(rates / (1 - rates)) + options.lift * gold + noise)))
    print(f"{len(p)} rows, {len(rates)} labels; the probabilities of a row sum to {p.sum(1).mean():.1f} on average")
    print(f"any set: {seconds_of(lambda: decode_expected_f1(p)):.2f} s")
    print(f"closed set: {seconds_of(lambda: decode_closed_f1(p, data.hierarchy)):.2f} s")
    best = decode_expected_f1(p)
    broken = (data.hierarchy.raised(best) != best).any(1).mean()
    print(f"rows whose best set is not closed: {100 * broken:.0f} %")


if __name__ == "__main__":
    main()
