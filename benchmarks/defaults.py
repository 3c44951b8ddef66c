"""Does the default cost a newcomer anything? Cross-entropy beside the default, with no flag but the data; and, to find
the default rates of a pretrained encoder and of its fresh head, cross-entropy at several rates.

    python benchmarks/defaults.py --data_dir path/to/data --encoder path/to/minilm               # sets of the verdict
    python benchmarks/defaults.py --data_dir path/to/data --encoder path/to/minilm --sets find   # to find a rule on
    python benchmarks/defaults.py --data_dir path/to/data --encoder path/to/minilm --sets xed_en --ways ce_5e-5 ce_1e-4
    python benchmarks/defaults.py --table                                                        # what is on file

Each run is a process of its own, `seal-hf train ...`, with seeds 1 to 3. A run that is in recipes/results/ is not
repeated (see results_store.py), so a stopped command goes on, and a later day adds seeds. Texts are the first 2,000
training rows under a small encoder. The synthetic texts are made here.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from results_store import ALL, ROOT, Store

from seal_hf.core.task import task_losses
from seal_hf.energy_losses import ENERGY_LOSSES
from seal_hf.lab.compare.runner import origin
from seal_hf.lab.compare.statistics import mean_std
from seal_hf.utils.files import whole_file

STORE = Store()
TEST_ROWS = 1000  # of synthetic texts: of 20, chance would decide
LABELS = {
    "tuned": "test_f1_example_tuned",
    "calibrated": "test_f1_example_calibrated",
    "at 0.5": "test_f1_example",
}
TREES = {"bracket F1": "test_f1"}
ROLES = {"F1": "test_f1"}
TAGS = {"span F1": "test_f1", "accuracy": "test_accuracy"}
MASKS = {"IoU tuned": "test_mean_iou_tuned", "IoU at 0.5": "test_mean_iou"}
CE, RATE, HEAD_RATE = ["--loss", "ce"], "--learning_rate", "--head_learning_rate"
PLAIN = ["--task_loss", "cross_entropy"]  # the default of texts is soft F1, of masks soft IoU, of roles a CRF
RATES = ("5e-5", "1e-4", "2e-4")  # of pretrained encoders of texts
WAYS = {"ce": [*CE, *PLAIN], "default": []}  # name of a run's loss -> flags beside the data
FIRST = ["--pooling", "first"]  # what classifiers of texts read when the older runs were made
ONE_RATE = {rate: [RATE, rate, HEAD_RATE, rate] for rate in RATES}  # of encoder and fresh head alike
WAYS |= {f"{way}_{rate}": [*flags, *both] for way, flags in list(WAYS.items()) for rate, both in ONE_RATE.items()}
ALONE = ["--linear", "false"]  # an MLP without the logistic regression that it may take in
WAYS |= {f"{way}_alone": [*WAYS[way], *ALONE] for way in ("ce", "default")}
WAYS |= {"soft_iou": [*CE, "--task_loss", "soft_iou"], "soft_f1": [*CE, "--task_loss", "soft_f1", *ALONE]}
WAYS |= {f"soft_f1_{weight}": [*WAYS["soft_f1"], "--soft_f1_weight", weight] for weight in ("1", "10")}
WAYS |= {"default_ce": PLAIN, "nce_balanced": ["--energy_weight_balance", "true", "--energy_weight", "0.5"]}
SHORT = ["--num_train_epochs", "10"]
WAYS |= {f"{way}_10_epochs": [*WAYS[way], *SHORT] for way in ("ce", "default_ce")}
FROZEN = "frozen_{rate}_{rows}"  # an encoder that stays as it is, by the rate of what is trained
KEPT = [*CE, "--freeze_encoder", "true"]
WAYS |= {
    FROZEN.format(rate=rate, rows=rows): [*KEPT, RATE, rate, "--max_train_rows", str(rows)]
    for rate in ("1e-3", "3e-3", "1e-2")
    for rows in (300, 1000)
}
HEADS = ("cross-entropy", "default")
OWN = {"seen_sets": "benchmarks/seen_sets.py"}  # task loss that is not in the package -> seal-hf with it
OF_RATES = re.compile(
    r"(?P<loss>[a-z_\d]+)_(?P<rate>[\d.e-]+)_head_(?P<head>[\d.e-]+)_(?P<rows>\d+)(_(?P<epochs>\d+)_epochs)?"
    r"(?P<first>_first)?(?P<bf16>_bf16)?(_on_(?P<on>\w+))?"
)


def flags_of(way: str, texts: bool = False) -> list[str]:
    """The flags beside the data of one of `WAYS`, or of a name `LOSS_RATE_head_RATE_ROWS[_N_epochs][_first][_bf16]
    [_on_NAME]`: an energy loss or a task loss (`default` for that of no flag), the rates of encoder and head, a number
    of training rows, the classifier of the first token in place of what the encoder declares, a precision, and a name
    for an `--encoder` that is not MiniLM. ValueError for another name.

    Args:
        texts: whether the data are label sets of texts: there `WAYS` with one rate for both read the first token.
    """
    if way in WAYS:
        return WAYS[way] + FIRST * (texts and HEAD_RATE in WAYS[way])
    if (found := OF_RATES.fullmatch(way)) is None:
        raise ValueError(f"no way {way!r}; known are {', '.join(WAYS)}, and LOSS_RATE_head_RATE_ROWS...")
    loss = found["loss"]
    flags = [*WAYS.get(loss, ["--loss", loss])]
    if loss in OWN or (loss in task_losses() and loss not in ENERGY_LOSSES):
        flags = [*CE, "--task_loss", loss]
    flags += [RATE, found["rate"], HEAD_RATE, found["head"], "--max_train_rows", found["rows"]]
    flags += ["--num_train_epochs", found["epochs"]] if found["epochs"] else []
    flags += FIRST if found["first"] else []
    return flags + (["--bf16", "true", "--use_cpu", "true"] if found["bf16"] else [])


class DataSet(NamedTuple):
    """What a newcomer names.

    Attributes:
        program: behind `seal-hf train`.
        figures: of the test split, in [0, 1]; the first that a run has is compared.
        words: flags beside the data's name.
        encoder: whether a pretrained one reads it.
    """

    program: str
    figures: dict[str, str]
    words: tuple[str, ...] = ()
    encoder: bool = False


TEXTS = DataSet("mlc", LABELS, ("--max_train_rows", "2000"), encoder=True)
FEATURES = DataSet("mlc", LABELS)
SETS = {
    "find": {
        "bibtex": FEATURES,
        "cal500": FEATURES,
        "xed_en": TEXTS,
        "brighter_eng": TEXTS,
        "twitter_pos": DataSet("tagging", TAGS),
        "tmdb_genres": TEXTS,
        "synthetic_600": TEXTS,
        "cora": DataSet("tagging", TAGS, encoder=True),
        "ptb_nltk": DataSet("parsing", TREES, ("--max_train_rows", "500"), encoder=True),
        "digits": DataSet("segmentation", MASKS),
    },
    "verdict": {
        "genbase": FEATURES,
        "spo_fun": FEATURES,
        "seq_fun": FEATURES,
        "delicious": DataSet("mlc", LABELS, ("--num_train_epochs", "6")),
        "netflix_genres": TEXTS,
        "reuters": TEXTS,
        "semeval2018_ec": TEXTS,
        "hoc": TEXTS,
        "go_emotions": TEXTS,
        "valueeval23": TEXTS,
        "wnut17": DataSet("tagging", TAGS, ("--max_train_rows", "1000"), encoder=True),
        "srl_ewt": DataSet("srl", ROLES, ("--max_train_rows", "1000"), encoder=True),
        "weizmann": DataSet("segmentation", MASKS),
        "synthetic_200": TEXTS,
    },
}
EVERY = {**SETS["find"], **SETS["verdict"]}


def synthetic(num_rows: int, folder: Path) -> None:
    """A folder of short texts whose labels depend on each other: a topic has a few words of its own, two topics exclude
    each other, and a third goes with both of a pair. Seeded; some labels have no word in the text.

    Args:
        num_rows: of train and validation together, of which a fifth are validation's; test has `TEST_ROWS`.
    """
    topics = {
        "sport": "match goal team season coach",
        "money": "market bank price profit tax",
        "health": "doctor clinic diet sleep patient",
        "travel": "flight hotel beach train passport",
        "school": "teacher exam lesson pupil homework",
    }
    noise = "today people said about after before never often small large".split()
    draw = random.Random(num_rows)

    def line() -> str:
        labels = set(draw.sample(sorted(topics), draw.choice((1, 1, 2, 2, 3))))
        if {"sport", "money"} <= labels:
            labels.discard("money")
        if {"health", "travel"} <= labels:
            labels.add("school")
        words = [draw.choice(topics[label].split()) for label in sorted(labels) for _ in range(draw.choice((0, 1, 2)))]
        words += draw.sample(noise, 6)
        draw.shuffle(words)
        return f"{' '.join(words)},{'|'.join(sorted(labels))}\n"

    sizes = {"train": num_rows - num_rows // 5, "validation": num_rows // 5, "test": TEST_ROWS}
    folder.mkdir()
    for split, size in sizes.items():
        with whole_file(folder / f"{split}.csv") as unfinished:
            unfinished.write_text("text,labels\n" + "".join(line() for _ in range(size)), encoding="utf-8")


def runs_of(names: list[str], ways: list[str], seeds: list[int]) -> Iterator[tuple[str, str, int]]:
    """Data set, loss and seed of what is not on file yet; seed by seed, so that each has all of `ways` soon."""
    for seed in seeds:
        for name in names:
            for loss in ways:
                if (name, loss, seed) not in STORE.lines(ALL, "defaults"):
                    yield name, loss, seed


def run(name: str, loss: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of one run, and what made it."""
    data = EVERY[name]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        words = [*data.words, *flags_of(loss, data is TEXTS), "--seed", str(seed)]
        words += ["--disable_tqdm", "true", "--report_to", "none"]
        if name.startswith("synthetic_"):
            synthetic(int(name.removeprefix("synthetic_")), folder / name)
            source = ["--dataset", str(folder / name)]
        else:
            source = ["--dataset", name, "--data_dir", options.data_dir]
        source += ["--model_name_or_path", options.encoder] if data.encoder else []
        source += ["--loss_net_feature_cache", options.cache] if options.cache else []
        program = next(([OWN[own]] for own in OWN if loss.startswith(own)), ["-m", "seal_hf"])
        made_by = origin(program[0], [*program[1:], "train", data.program, *words])
        command = [sys.executable, *program, "train", data.program, *source, *words]
        start = time.perf_counter()
        done = subprocess.run([*command, "--output_dir", str(folder / "run")], capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            sys.exit(f"{name}, {loss}, seed {seed}: {done.stderr[-2000:]}")
        results = json.loads((folder / "run" / "all_results.json").read_text(encoding="utf-8"))
    figures = {key: value for key, value in results.items() if isinstance(value, (int, float))}
    seconds = time.perf_counter() - start
    return {"name": name, "loss": loss, "seed": seed, "wall_seconds": seconds, **figures, **made_by}


def by_figures(names: Iterable[str]) -> list[list[str]]:
    """The data sets that a pretrained encoder reads, those with the same figures together."""
    found: dict[str, list[str]] = {}
    for name in names:
        if EVERY[name].encoder:
            found.setdefault(" ".join(EVERY[name].figures), []).append(name)
    return list(found.values())


def rates(names: list[str]) -> str:
    """Markdown, or nothing without runs: cross-entropy with rates of the encoder and of the head, a row per data set
    and way, in percent. All data sets have the same figures; the first one stands there for validation too."""
    figures = EVERY[names[0]].figures
    heads = {"validation": next(iter(figures.values())).replace("test_", "eval_"), **figures}
    lines = []
    for name in names:
        for way in sorted(STORE.ways(name)):
            found = OF_RATES.fullmatch(way)
            if found is not None and found["loss"] == "ce":
                encoder = (found["on"] or "MiniLM") + ", first token" * bool(found["first"])
                about = [encoder, found["rows"], found["epochs"] or "5", found["rate"], found["head"]]
            elif (rate := way.removeprefix("ce_")) in RATES:
                encoder = "MiniLM" + ", first token" * (EVERY[name] is TEXTS)
                about = [encoder, EVERY[name].words[-1] if EVERY[name].words else "all", "5", rate, rate]
            else:
                continue
            runs = STORE.defaults(name, way)
            cells = [_figure([run[key] for run in runs.values()]) for key in heads.values()]
            lines.append(([name, *about, str(len(runs)), *cells], [names.index(name), *map(_number, about)]))
    lines = [f"| {' | '.join(line)} |" for line, _ in sorted(lines, key=lambda line: line[1])]
    head = ["data", "encoder", "rows", "epochs", "rate", "head's rate", "seeds", *heads]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines]) if lines else ""


def _number(text: str) -> tuple[float, str]:
    """A key for sorting: numbers by size, then texts."""
    try:
        return float(text), ""
    except ValueError:
        return float("inf"), text


def _figure(values: Sequence[float]) -> str:
    """Mean ± standard deviation, in percent."""
    mean, std = mean_std([100 * value for value in values])
    return f"{mean:.2f}" + f" ± {std:.2f}" * (len(values) > 1)


def table(
    names: list[str],
    ways: tuple[str, str] = ("ce", "default"),
    heads: tuple[str, str] = HEADS,
    more: dict[str, str] | None = None,
) -> str:
    """Markdown, or nothing without runs: a row per data set and figure of two of `WAYS`, in percent: mean ± standard
    deviation over seeds; and the difference of runs with one seed.

    Args:
        more: figures beside those of the data sets.
    """
    lines, differences = [], []
    for name in names:
        plain, ours = (STORE.defaults(name, way) for way in ways)
        seeds = sorted(plain.keys() & ours.keys())
        for title, key in {**EVERY[name].figures, **(more or {})}.items():
            pairs = [(plain[seed].get(key), ours[seed].get(key)) for seed in seeds]
            if not pairs or None in pairs[0]:
                continue
            changes = [100 * (after - before) for before, after in pairs]
            differences.append((name, change := statistics.mean(changes)))
            spread = f" ± {statistics.stdev(changes):.2f}" if len(seeds) > 1 else ""
            cells = [_figure(values) for values in zip(*pairs, strict=True)]
            lines.append(f"| {name} | {title} | {len(seeds)} | {' | '.join(cells)} | {change:+.2f}{spread} |")
    first = dict(reversed(differences)).values()  # of each data set, the first figure
    if len(first) > 1:
        mean = statistics.mean(first)
        lines.append(f"\nMean difference of {len(first)} data sets, each by its first row here: {mean:+.2f}.")
    head = [f"| data | figure | seeds | {' | '.join(heads)} | difference |", "|---|---|---|---|---|---|"]
    return "\n".join(head + lines) if lines else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="verdict", help=f"{', '.join(SETS)}, or names of data sets by commas")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--ways", nargs="+", default=["ce", "default"], help="flags beside the data")
    parser.add_argument("--data_dir", help="folder of the data sets")
    parser.add_argument("--encoder", help="folder or Hub id of a small encoder, for texts")
    parser.add_argument("--cache", help="folder that keeps the features of a frozen encoder for the next runs")
    parser.add_argument("--table", action="store_true", help="train nothing; print the table of what is on file")
    options = parser.parse_args()
    names = list(SETS.get(options.sets, options.sets.split(",")))
    if not options.table:
        for name, loss, seed in runs_of(names, options.ways, options.seeds):
            found = run(name, loss, seed, options)
            STORE.add({(ALL, "defaults"): [found]})
            print(f"{name}, {loss}, seed {seed}: {found['wall_seconds']:.0f} s", flush=True)
    print(*filter(None, (table(names), *map(rates, by_figures(names)))), sep="\n\n")


if __name__ == "__main__":
    main()
