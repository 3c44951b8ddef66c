"""How much does the rule lose that chooses a decoder on few validation rows?

    python benchmarks/decision_rule.py --data_dir PATH --encoder PATH/minilm --sets find      # to find a rule on
    python benchmarks/decision_rule.py --data_dir PATH --encoder PATH/minilm                  # the sets of the verdict
    python benchmarks/decision_rule.py --table                                                # what is on file
    python benchmarks/decision_rule.py --floor                                                # what no rule can avoid

Models are trained on the first rows of a data set, at most two thirds of its training rows. They give probabilities for
rows that no training saw (at most `HELD_OUT`, of the other training rows and the test rows), which `--cache` keeps.
A draw shuffles these rows: its first 30 to 2,000 are validation rows, on which the package's own code fits the decoders
and chooses one, and its last third are test rows. The loss of a choice is what the decoder with the highest figure on
these test rows has more, in points. No rule finds that one always: with few test rows it is partly the luckiest.

Models of texts are logistic regressions on the mean vectors of a frozen encoder (`linear_ROWS`), and encoders that are
fine-tuned on ROWS rows (`tuned_ROWS`); those of features are nets (`net`). A model that is on file is not repeated. The
file has the mean figure of each rule over the draws, for each model, number of rows and target.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from results_store import ALL, ROOT, Store
from scipy.special import expit

from seal_hf import SealForMultiLabel, load_multilabel, tokenize
from seal_hf.core.decisions import usual_or_better
from seal_hf.decisions import (
    CALIBRATED_CLOSED,
    CLOSED,
    FIXED,
    LabelDecisions,
    decode_expected_f1,
    platt_scaling,
    rescaled,
    thresholds_of_label_f1,
)
from seal_hf.lab.compare.statistics import mean_std
from seal_hf.nets.frozen_encoder import cached_features
from seal_hf.tasks.labels.decisions.decoders import clipped_logit
from seal_hf.tasks.labels.decisions.fitting import ValidationRows
from seal_hf.tasks.labels.decisions.label_decisions import ERRORS, FITTED, usual_decoder
from seal_hf.tasks.labels.decisions.seen_sets import SeenSets
from seal_hf.tasks.labels.decisions.targets import F1_EXAMPLE, F1_MACRO, JACCARD, TARGETS, target_scores
from seal_hf.utils.files import whole_file

STORE = Store()
HELD_OUT = 3000
TRAIN = 2000  # training rows at most
DRAWS = {30: 8, 60: 8, 120: 8, 240: 6, 500: 3, 1000: 2, 2000: 1}  # validation rows -> draws
TEXTS = ("linear_300", "linear_2000")
SETS = {  # -> data set -> models
    "find": {
        "brighter_eng": (*TEXTS, "tuned_1000"),
        "xed_en": (*TEXTS, "tuned_1000"),
        "nlupp_banking": (*TEXTS, "tuned_1000"),
        "tmdb_genres": TEXTS,
        "cal500": ("net",),
        "bibtex": ("net",),
    },
    "verdict": {
        "semeval2018_ec": (*TEXTS, "tuned_1000"),
        "hoc": TEXTS,
        "valueeval23": TEXTS,
        "go_emotions": TEXTS,
        "netflix_genres": TEXTS,
        "reuters": TEXTS,
        "genbase": ("net",),
        "spo_fun": ("net",),
        "seq_fun": ("net",),
    },
}
RULES = {  # name in the file -> what it is
    "rule": "the package's rule",
    "simplest": "the simplest decoder within one standard error of the best, as before",
    "highest": "the best by cross-fitting",
    "expected_f1": "expected F1, always",
    "calibrated_f1": "calibrated expected F1, always",
    "fixed": "0.5, always",
}
BY_LABEL = {  # decoders that may help rare labels, against one figure and the other
    "calibrated_f1": RULES["calibrated_f1"],
    "label_f1": "each label's threshold of the highest expected F1, as `thresholds` for `--target f1_macro`",
    "shifted": "calibrated expected F1, with a fifth of the log-odds of each label's rate taken off its log-odds",
}
SHIFT = 0.2


class Recorded(NamedTuple):
    """Probabilities and gold labels of held-out rows, (N, L), and the gold labels of the training rows, (T, L)."""

    probabilities: np.ndarray
    labels: np.ndarray
    train: np.ndarray


def rows_of(name: str, data_dir: str) -> tuple[Any, int, list[tuple[Any, list[int]]]]:
    """The data set, the number of training rows, and the held-out rows: splits, and the places of rows in each."""
    data = load_multilabel(name, data_dir=data_dir)
    size = min(TRAIN, 2 * len(data.train) // 3)
    count = len(data.train) - size
    order = np.random.default_rng(0).permutation(count + len(data.test))[:HELD_OUT]
    others = np.sort(order[order < count]) + size, np.sort(order[order >= count]) - count
    return data, size, [(data.train, others[0].tolist()), (data.test, others[1].tolist())]


def gold(rows: Any) -> np.ndarray:
    return np.asarray(rows.with_format("numpy")["labels"][:]) > 0


def vectors(rows: Any, encoder: str, cache: Path) -> np.ndarray:
    """(N, H) means over the tokens of each text, by a frozen encoder in bfloat16."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(encoder, trust_remote_code=False)
    net = AutoModel.from_pretrained(encoder, trust_remote_code=False, dtype=torch.bfloat16)
    return cached_features(net, tokenize(rows, tokenizer, max_length=128), cache / "features").numpy()


def linear(x: np.ndarray, y: np.ndarray, held_out: np.ndarray, class_weight: str | None) -> np.ndarray:
    """(N, L) probabilities of a logistic regression for each label; a label without two classes gets its rate."""
    from sklearn.linear_model import LogisticRegression

    found = np.empty((len(held_out), y.shape[1]))
    for label, column in enumerate(y.T):
        if column.all() or not column.any():
            found[:, label] = (column.sum() + 0.5) / (len(column) + 1)
            continue
        model = LogisticRegression(C=1.0, class_weight=class_weight, max_iter=300)
        found[:, label] = model.fit(x, column).predict_proba(held_out)[:, 1]
    return found


def trained(name: str, size: int, parts: Any, options: argparse.Namespace, words: list[str]) -> np.ndarray:
    """(N, L) probabilities of held-out rows by a training with cross-entropy on the first `size` rows."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "seal_hf", "train", "mlc", "--dataset", name, "--data_dir", options.data_dir]
        command += [
            "--loss",
            "ce",
            "--task_loss",
            "cross_entropy",
            "--max_train_rows",
            str(size),
            "--report_to",
            "none",
            "--disable_tqdm",
            "true",
        ]
        done = subprocess.run([*command, *words, "--output_dir", folder], capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr[-2000:]}")
        model, found = SealForMultiLabel.from_pretrained(folder, with_loss_net=False), []
        for split, places in parts:
            rows = split.select(places)
            if "text" in rows.column_names:
                found.append(model.predict(rows["text"][:], batch_size=64)[0].numpy())
            else:
                with torch.no_grad():
                    features = torch.tensor(np.asarray(rows.with_format("numpy")["features"][:]), dtype=torch.float32)
                    found.append(model.predict(features=features)[0].numpy())
    return np.concatenate(found)


def record(name: str, way: str, options: argparse.Namespace) -> Recorded:
    """The probabilities of a model, from the cache if they are there."""
    file = options.cache / f"{name}_{way}.npz"
    if file.is_file():
        with np.load(file) as kept:
            return Recorded(*(kept[key] for key in Recorded._fields))
    data, size, parts = rows_of(name, options.data_dir)
    kind, _, most = way.partition("_")
    size = min(size, int(most or size))
    if kind in ("linear", "balanced"):
        x = np.concatenate([vectors(split.select(places), options.encoder, options.cache) for split, places in parts])
        train = vectors(data.train.select(range(size)), options.encoder, options.cache)
        weights = "balanced" if kind == "balanced" else None
        found = linear(train, gold(data.train.select(range(size))), x, weights)
    else:
        words = ["--model_name_or_path", options.encoder, "--head_learning_rate", "1e-2"] if kind == "tuned" else []
        words += ["--bf16", "true", "--use_cpu", "true"] if kind == "tuned" else []
        found = trained(name, size, parts, options, words)
    labels = np.concatenate([gold(split.select(places)) for split, places in parts])
    recorded = Recorded(found.astype(np.float32), labels, gold(data.train.select(range(size))))
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as unfinished, unfinished.open("wb") as stream:
        np.savez_compressed(stream, **recorded._asdict())
    return recorded


def simplest(scores: dict[str, np.ndarray]) -> str:
    """The rule of version 0.1: the first decoder within one standard error of the best."""
    best = max(scores.values(), key=lambda rows: rows.mean())
    for name, rows in scores.items():
        lost = best - rows
        if lost.mean() <= lost.std(ddof=1) / len(lost) ** 0.5:
            return name
    raise AssertionError("the best decoder loses nothing to itself")


def draw(recorded: Recorded, order: np.ndarray, rows: int, options: dict[str, Any]) -> dict[str, float]:
    """Test figures, in percent: `{target} {rule}`, and `{target} best` of the best decoder.

    Args:
        order: of the held-out rows: the first are for validation, the last third is for test.
        options: of `LabelDecisions.fit`.
    """
    p, labels = recorded.probabilities.astype(np.float64), recorded.labels
    fitting, test = order[:rows], order[len(order) - len(order) // 3 :]
    kept: dict[str, Any] = {}  # target -> cross-fitted sets and test sets of the decoders that it changes
    fitted = LabelDecisions.fit(p[fitting], labels[fitting], decoder=FIXED, **options)
    assert fitted.calibration is not None, "`fit` fits all numbers"
    of_labels = thresholds_of_label_f1(p[fitting], *fitted.calibration).tolist()
    differing = {F1_EXAMPLE: ("", {}), F1_MACRO: ("thresholds", {"thresholds": of_labels}), JACCARD: ("seen_f1", {})}
    for target, (start, numbers) in differing.items():
        if names := [name for name in fitted.names if name.startswith(start)]:
            rows_of_target = ValidationRows(p[fitting], labels[fitting], target=target, **options)
            crossed = LabelDecisions.cross_fitted(rows_of_target, names)
            kept[target] = crossed, replace(fitted, target=target, **numbers).decide_by(p[test], names)
    rates = (recorded.train.sum(0) + 0.5) / (len(recorded.train) + 1)
    shifted = shifted_sets(p[fitting], labels[fitting], p[test], rates)
    found = {}
    for target in TARGETS:
        crossed, decided = ({**kept[F1_EXAMPLE][i], **kept.get(target, ({}, {}))[i]} for i in (0, 1))
        scores = {name: target_scores(target, sets, labels[fitting], 1.0) for name, sets in crossed.items()}
        figures = {name: 100 * target_scores(target, sets, labels[test], 1.0).mean() for name, sets in decided.items()}
        chosen = {
            "rule": usual_or_better(scores, usual_decoder(scores, target, fitted.empty_score == 0), ERRORS),
            "simplest": simplest(scores),
            "highest": max(scores, key=lambda name: scores[name].mean()),
            "expected_f1": CLOSED if CLOSED in scores else "expected_f1",
            "calibrated_f1": CALIBRATED_CLOSED if CLOSED in scores else "calibrated_f1",
            "fixed": FIXED,
        }
        found |= {f"{target} {rule}": figures[name] for rule, name in chosen.items()}
        found[f"{target} best"] = max(figures.values())
        for name, sets in {"label_f1": kept[F1_MACRO][1]["thresholds"], "shifted": shifted}.items():
            found[f"{target} {name}"] = 100 * target_scores(target, sets, labels[test], 1.0).mean()
    return found


def shifted_sets(fitting: np.ndarray, labels: np.ndarray, test: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """(M, L) test decisions of highest expected F1, from probabilities whose log-odds are lower by `SHIFT` of those of
    the label's rate (L,), and then calibrated on the validation rows `fitting` (N, L)."""
    of_fitting, of_test = (expit(clipped_logit(p) - SHIFT * clipped_logit(rates)) for p in (fitting, test))
    empty_score = 0.0 if labels.any(1).all() else 1.0
    return decode_expected_f1(rescaled(of_test, *platt_scaling(of_fitting, labels)), empty_score=empty_score)


def measure(name: str, way: str, recorded: Recorded, hierarchy: Any) -> list[dict[str, Any]]:
    """A line of the file for each number of validation rows."""
    sets = SeenSets.of_rows((np.flatnonzero(row) for row in recorded.train), recorded.train.shape[1])
    options = {"never_empty": bool(recorded.train.any(1).all()), "hierarchy": hierarchy, "seen": sets}
    lines, size = [], len(recorded.labels)
    for rows, count in DRAWS.items():
        if rows > size - size // 3:
            break
        orders = [np.random.default_rng([rows, number]).permutation(size) for number in range(count)]
        figures = [draw(recorded, order, rows, options) for order in orders]
        means = {key: round(float(np.mean([found[key] for found in figures])), 3) for key in figures[0]}
        lines.append({"name": name, "way": way, "rows": rows, "draws": count, **means})
    return lines


def table(target: str, models: dict[str, tuple[str, ...]]) -> str:
    """Markdown, or nothing without runs: the loss of each rule by the number of validation rows, mean ± standard
    deviation over the models; and the largest of a model."""
    kept = STORE.lines(ALL, "decision_rule").values()
    lines = [line for line in kept if line["way"] in models.get(line["name"], ())]
    if not lines:
        return ""
    names = {(line["name"], line["way"]) for line in lines}
    head = ["rule", *(f"{rows:,} rows" for rows in DRAWS), "mean", "largest at 60 rows"]
    found = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for rule, said in RULES.items():
        by_rows: dict[int, list[float]] = {rows: [] for rows in DRAWS}
        for line in lines:
            by_rows[line["rows"]].append(line[f"{target} best"] - line[f"{target} {rule}"])
        cells = ["{:.2f} ± {:.2f}".format(*mean_std(values)) if values else "" for values in by_rows.values()]
        mean = f"{np.mean([np.mean(values) for values in by_rows.values() if values]):.2f}"
        found.append(f"| {' | '.join([said, *cells, mean, f'{max(by_rows[60]):.2f}'])} |")
    sets = f"{len(names)} models on {len({name for name, _ in names})} data sets"
    return "\n".join([f"`{target}`, {sets}:", "", *found])


class Gains(NamedTuple):
    """The decoder that the rule chooses; and of each over the usual one, in points of example F1: what cross-fitting on
    the validation rows finds, its standard error, what all other rows that are no test rows find, and what the test
    rows have."""

    chosen: str
    crossed: dict[str, float]
    errors: dict[str, float]
    others: dict[str, float]
    test: dict[str, float]


def gains(recorded: Recorded, order: np.ndarray, rows: int, options: dict[str, Any]) -> Gains:
    """For the arguments of [`draw`]."""
    p, labels = recorded.probabilities.astype(np.float64), recorded.labels
    fitting, others, test = np.split(order, [rows, len(order) - len(order) // 3])
    validation = ValidationRows(p[fitting], labels[fitting], **options)
    fitted = LabelDecisions(**validation.numbers(FITTED))
    crossed = LabelDecisions.cross_fitted(validation, list(fitted.names))
    decided = {place: fitted.decide_by(p[place_rows], fitted.names) for place, place_rows in enumerate((others, test))}
    usual = usual_decoder(crossed, F1_EXAMPLE, fitted.empty_score == 0)
    found: list[dict[str, np.ndarray]] = []
    for sets, gold_rows in ((crossed, fitting), (decided[0], others), (decided[1], test)):
        scores = {name: 100 * target_scores(F1_EXAMPLE, each, labels[gold_rows], 1.0) for name, each in sets.items()}
        found.append({name: each - scores[usual] for name, each in scores.items()})
    errors = {name: float(np.sqrt(each @ each)) / rows for name, each in found[0].items()}
    means = [{name: float(each.mean()) for name, each in of_rows.items()} for of_rows in found]
    return Gains(usual_or_better(found[0], usual, ERRORS), means[0], errors, means[1], means[2])


def floor(models: dict[str, tuple[str, ...]], options: argparse.Namespace) -> str:
    """Markdown: the mean loss of example F1 of three choices on the models whose probabilities are in the cache: by the
    rule; of the decoder that is best on the other rows that are no test rows, at least 500, which is luck of the test
    rows alone; and by a rule that knows the mean and the deviation of each decoder's gain over all these draws, and
    weighs them against the gain that cross-fitting finds. Two draws for each number of rows, up to 1,000."""
    found: dict[int, list[Gains]] = {rows: [] for rows in DRAWS if rows <= 1000}
    for name, way in ((name, way) for name, ways in models.items() for way in ways):
        if not (options.cache / f"{name}_{way}.npz").is_file() or name in ("spo_fun", "seq_fun"):  # these take hours
            continue
        recorded = record(name, way, options)
        sets = SeenSets.of_rows((np.flatnonzero(row) for row in recorded.train), recorded.train.shape[1])
        about = {"never_empty": bool(recorded.train.any(1).all()), "seen": sets}
        size = len(recorded.labels)
        for rows in found:
            if rows + size // 3 + 500 <= size:
                orders = [np.random.default_rng([rows, number]).permutation(size) for number in range(2)]
                found[rows] += [gains(recorded, order, rows, about) for order in orders]
    every: dict[str, list[float]] = {}
    for each in (each for draws in found.values() for each in draws):
        for decoder, gain in each.test.items():
            every.setdefault(decoder, []).append(gain)
    prior = {decoder: (float(np.mean(values)), float(np.std(values))) for decoder, values in every.items()}

    def knowing(each: Gains) -> str:
        expected = {}
        for decoder, (mean, spread) in prior.items():
            if decoder in each.crossed:
                weights = 1 / max(each.errors[decoder], 0.05) ** 2, 1 / max(spread, 0.05) ** 2
                expected[decoder] = (weights[0] * each.crossed[decoder] + weights[1] * mean) / sum(weights)
        return max(expected, key=lambda decoder: expected[decoder])

    choices: dict[str, Callable[[Gains], str]] = {
        RULES["rule"]: lambda each: each.chosen,
        "a rule that knows the mean and the deviation of each decoder's gain in these draws": knowing,
        "the decoder that is best on the other rows": lambda each: max(each.others, key=lambda name: each.others[name]),
    }
    head = ["choice", *(f"{rows:,} rows" for rows in found), "mean"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for said, choice in choices.items():
        means = []
        for draws in found.values():
            means.append(float(np.mean([max(each.test.values()) - each.test[choice(each)] for each in draws])))
        lines.append(f"| {' | '.join([said, *(f'{mean:.2f}' for mean in [*means, np.mean(means)])])} |")
    return "\n".join(lines)


def by_label_table(models: dict[str, tuple[str, ...]], rows: int = 240) -> str:
    """Markdown: example, micro and macro F1 of decoders by label, mean over the models, and their difference to the
    first one, mean ± standard deviation."""
    kept = STORE.lines(ALL, "decision_rule").values()
    lines = [line for line in kept if line["way"] in models.get(line["name"], ()) and line["rows"] == rows]
    if not lines:
        return ""
    targets = (F1_EXAMPLE, "f1_micro", F1_MACRO)
    found = [f"| {rows} rows | {' | '.join(f'`{target}`' for target in targets)} |", "|---|---|---|---|"]
    for rule, said in BY_LABEL.items():
        cells = []
        for target in targets:
            mean, _ = mean_std([line[f"{target} {rule}"] for line in lines])
            change = mean_std([line[f"{target} {rule}"] - line[f"{target} calibrated_f1"] for line in lines])
            cells.append(f"{mean:.2f}" + ("" if rule == "calibrated_f1" else " ({:+.2f} ± {:.2f})".format(*change)))
        found.append(f"| {' | '.join([said, *cells])} |")
    return "\n".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="verdict", choices=SETS)
    parser.add_argument("--data_dir", help="folder of the data sets")
    parser.add_argument("--encoder", help="folder or Hub id of a small encoder, for texts")
    parser.add_argument("--cache", type=Path, default=Path("runs/decision_rule"), help="folder of the probabilities")
    parser.add_argument("--table", action="store_true", help="measure nothing; print the tables of what is on file")
    parser.add_argument("--floor", action="store_true", help="print what no rule can avoid, from the cache alone")
    options = parser.parse_args()
    models = SETS[options.sets]
    if options.floor:
        print(floor(models, options))
        return
    for name, way in () if options.table else [(name, way) for name, ways in models.items() for way in ways]:
        if (name, way, 30) not in STORE.lines(ALL, "decision_rule"):
            hierarchy = load_multilabel(name, data_dir=options.data_dir).hierarchy
            STORE.add({(ALL, "decision_rule"): measure(name, way, record(name, way, options), hierarchy)})
            print(f"{name}, {way}", flush=True)
    print(*filter(None, (*(table(target, models) for target in TARGETS), by_label_table(models))), sep="\n\n")


if __name__ == "__main__":
    main()
