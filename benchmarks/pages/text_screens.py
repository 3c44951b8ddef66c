"""The losses that `text_screen.py` compares on texts: what validation chooses on each data set, and the commands."""

from __future__ import annotations

import text_screen

from seal_hf.lab.compare.kinds import BASELINE, SEAL
from seal_hf.tasks.labels.compare import METHODS, METRIC

from . import runs
from .markdown import bash, table
from .published import beside

FROZEN = "--freeze_encoder true --per_device_train_batch_size 64"
SAME_VIEW = f"{FROZEN} --energy_weight 2 --loss_net_learning_rate 2e-4"
SCREENS = {  # name of the comparisons SET_NAME -> flags of their command, beside methods, seeds and trials
    "frozen": FROZEN,
    "finetuned": "--num_train_epochs 4 --long_texts windows --learning_rate 2e-4 --hold learning_rate",
}
VIEWS = {  # the same for what the two nets read -> what the task-net reads, what the loss-net reads, the flags
    "frozen_first": ("first token", "first token", f"{SAME_VIEW} --loss_net_pooling first"),
    "frozen_mean": ("first token", "mean of all tokens", SAME_VIEW),
    "frozen_windows": ("mean of all tokens", "mean of all tokens", f"{SAME_VIEW} --long_texts windows"),
}
FLAGS = SCREENS | {name: flags for name, (_, _, flags) in VIEWS.items()}
USUAL = {"max_train_rows": text_screen.MAX_ROWS[1], "bf16": "false", "use_cpu": "false"}  # of a screen's runs
LARGER = ("semeval2018_ec_mpnet", "semeval2018_ec_mpnet_mutual")
OF_LARGER = {"f1_example_tuned": "example F1", "f1_macro_tuned": "macro F1", "f1_micro_tuned": "micro F1"}
OF_LARGER |= {"jaccard_tuned": "Jaccard"}


def there(name: str) -> list[str]:
    """The data sets that have runs of a screen or view."""
    return [data for data in text_screen.SETS if runs.there([f"{data}_{name}"])]


def command(comparison: str) -> str:
    """A block with the command of a comparison; empty if `text_screen.py` did not make it."""
    name = next((name for name in sorted(FLAGS, key=len, reverse=True) if comparison.endswith(f"_{name}")), None)
    if name is None:
        return ""
    stored = runs.stored(comparison)
    by_method, identity = stored.all(), stored.identity()
    seeds = sorted({run["seed"] for found in by_method.values() for run in found})
    words = f"python benchmarks/text_screen.py {name} --data_dir PATH --encoder FOLDER {FLAGS[name]}"
    words += f" --losses {' '.join(method for method in METHODS if method in by_method)}"
    words += f" --seeds {' '.join(map(str, seeds))} --budget {identity['budget']}"
    own = {key: identity[key] for key, usual in USUAL.items() if identity.get(key, usual) != usual}
    words += "".join(f" --{key} {value}" for key, value in own.items())
    return bash(f"{words} --sets {comparison.removesuffix(f'_{name}')}")


def in_short(screen: str = "finetuned") -> str:
    """A row for each data set: cross-entropy, and what validation chooses of the baselines and of the SEAL methods."""
    rows, gains = [], []
    for data in (data for data in there(screen) if data not in text_screen.CONTROLS):
        name = f"{data}_{screen}"
        found = text_screen.figures(runs.STORE, name, METRIC)
        best = text_screen.choice(found)
        if best is None:
            continue
        plain, *figures = (runs.figure(runs.of_method(name, method), runs.TUNED) for method in ("ce", *best.values()))
        named = [f"`{method}` {figure}" for method, figure in zip(best.values(), figures, strict=True)]
        gains.append(text_screen.differences(found[best[SEAL]], found[best[BASELINE]]))
        rows.append([data, plain, *named, str(runs.of_differences(list(gains[-1])))])
    if not gains:
        return ""
    mean = text_screen.interval(gains)
    rows.append([f"mean of the {mean.sets}", "", "", "", f"{mean.mean:+.2f} [{mean.low:+.2f}, {mean.high:+.2f}]"])
    return table(["data", "cross-entropy", "baseline by validation", "SEAL method by validation", "difference"], rows)


def larger() -> str:
    """All rows of the tweets, under an encoder of 109 M weights with LoRA, beside published figures."""
    found = {(name, method): runs.of_method(name, method) for name in LARGER for method in runs.stored(name).all()}
    rows = [
        [f"`{method}`", str(len(each)), *(runs.figure(each, f"test_{key}") for key in OF_LARGER)]
        for (_, method), each in found.items()
    ]
    return f"{table(['method', 'seeds', *OF_LARGER.values()], sorted(rows))}\n\n{beside('semeval2018_ec')}"
