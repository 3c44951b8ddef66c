"""The pages of the losses that `text_screen.py` compares on texts: a summary, and a table per data set."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import NamedTuple

import text_screen

from seal_hf.compare.kinds.labels import METRIC
from seal_hf.compare.methods import BASELINE, SEAL
from seal_hf.compare.methods.labels import METHODS
from seal_hf.compare.table import legend, markdown

from . import runs
from .comparisons import Compared
from .markdown import bash, page, prose, section, table
from .published import beside


class Screen(NamedTuple):
    """Comparisons SET_NAME, one per data set.

    Attributes:
        name: of the comparisons, and of the page.
        title: of the page.
        about: what is compared, and what came out.
        flags: of the command, beside methods, seeds and trials.
    """

    name: str
    title: str
    about: str
    flags: str


CONTROLS = """
    In valueeval23, nlupp_banking and hoc the gold labels tell hardly more about each other than the text does. They are
    controls: a model of dependencies has nothing to give there."""
SCREENS = {
    screen.name: screen
    for screen in (
        Screen(
            "frozen",
            "Texts, on a frozen encoder",
            """
            What does a loss-net add to a pretrained text encoder? Here the encoder, MiniLM, stays as it is, so that a
            run takes seconds. Every method has the same number of trials on validation, scored by one seed. Training
            rows are the first 2,000. Here the classifier reads the first token and a second net the mean of all tokens.
            [What the nets read](texts-views.md) shows that the gains of second nets come from that.""",
            "--freeze_encoder true --per_device_train_batch_size 64",
        ),
        Screen(
            "finetuned",
            "Texts, with a fine-tuned encoder",
            """
            What does a loss-net add to an encoder that is fine-tuned? MiniLM is trained on the first 2,000 rows for 4
            epochs at a rate of 2e-4, and its classifier reads the mean of all tokens. A search of three trials gives
            every second net its weight and its own rate. It chooses the smallest share of three for all energies of
            `nce_balanced`: larger ones lose points. Shares are parts of the task loss's pull.

            **No loss-net gains.** At one threshold another loss gains half a point on three sets, `--task_loss zlpr`
            without a second net; under the default decoder that gain is within chance, too. The default finds this by
            itself: 12 of its 15 runs left λ1 at 0 and equal cross-entropy's. The runs shared one GPU, so the tables
            have no seconds.""",
            "--num_train_epochs 4 --long_texts windows --learning_rate 2e-4 --hold learning_rate",
        ),
    )
}


SUMMARIES = {
    "Summary, at one threshold": METRIC,
    "Summary, under the default decoder (calibrated expected F1)": runs.CALIBRATED.removeprefix("test_"),
}


def screen_page(screen: Screen) -> str:
    tables = {data: runs.compared(f"{data}_{screen.name}") for data in _there(screen)}
    return page(
        screen.title,
        prose(screen.about),
        prose(CONTROLS),
        *(section(title, text_screen.summary(runs.STORE, screen.name, key)) for title, key in SUMMARIES.items()),
        *(section(f"{data}_{screen.name}", markdown(found, False).strip()) for data, found in tables.items()),
        section("The rate and the view matter more", rates()) if screen.name == "finetuned" else "",
        section("A larger encoder, all rows", larger()) if screen.name == "finetuned" and runs.there(LARGER) else "",
        section("How to read the tables", legend(next(iter(tables.values())))),
        section("Commands", bash(*_commands(screen))),
    )


def in_short(screen: Screen = SCREENS["finetuned"]) -> str:
    """A row for each data set: cross-entropy, and what validation chooses of the baselines and of the SEAL methods."""
    rows, gains = [], []
    for data in (data for data in _there(screen) if data not in text_screen.CONTROLS):
        found = text_screen.figures(runs.STORE, f"{data}_{screen.name}", METRIC)
        best = text_screen.choice(found)
        if best is None:
            continue
        named = [f"`{method}` {_mean(found[method])}" for method in best.values()]
        gains.append(text_screen.differences(found[best[SEAL]], found[best[BASELINE]]))
        rows.append([data, _mean(found["ce"]), *named, str(runs.of_differences(list(gains[-1])))])
    mean = text_screen.interval(gains)
    rows.append([f"mean of the {mean.sets}", "", "", "", f"{mean.mean:+.2f} [{mean.low:+.2f}, {mean.high:+.2f}]"])
    return table(["data", "cross-entropy", "best baseline", "best SEAL method", "difference"], rows)


def _mean(found: Mapping[int, tuple[float, float]]) -> str:
    """Of test figures in percent."""
    values = [test for _, test in found.values()]
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


OF_RATES = """
    Cross-entropy alone. A small encoder with few rows needs a higher learning rate than the usual 5e-5, and an encoder
    of sentences is better read as the mean of its tokens."""
RATES = "_rates_"  # in the names of comparisons of cross-entropy alone, behind the data set


def rates() -> str:
    """Cross-entropy by what the classifier reads and by learning rate."""
    found = [name for name in runs.STORE.comparisons() if RATES in name]
    if not found:
        return ""
    rows = []
    for name in found:
        given = runs.stored(name).identity()
        read = "mean of all tokens" if given.get("long_texts") == "windows" else "first token"
        encoder = "mpnet-base" if "mpnet" in given["model_name_or_path"] else "MiniLM"
        ours = runs.of_method(name, "ce")
        rows.append(
            [given["data"], encoder, read, given["learning_rate"], str(len(ours)), runs.figure(ours, runs.TUNED)]
        )
    head = ["data", "encoder", "the classifier reads", "learning rate", "seeds", "cross-entropy"]
    return "\n\n".join(
        (prose(OF_RATES), table(head, sorted(rows)), bash(*(Compared(name, "mlc").command() for name in found)))
    )


LARGER = ("semeval2018_ec_mpnet", "semeval2018_ec_mpnet_mutual")
TUNED = {"f1_example_tuned": "example F1", "f1_macro_tuned": "macro F1", "f1_micro_tuned": "micro F1"}
TUNED |= {"jaccard_tuned": "Jaccard"}


def larger() -> str:
    """All rows of the tweets, under an encoder of 109 M weights with LoRA."""
    names = runs.there(LARGER)
    found = {(name, method): runs.of_method(name, method) for name in names for method in runs.stored(name).all()}
    rows = [
        [f"`{method}` {METHODS[method].about}", str(len(each)), *(runs.figure(each, f"test_{key}") for key in TUNED)]
        for (_, method), each in found.items()
    ]
    return "\n\n".join(
        (
            prose("""
                mpnet-base with LoRA of rank 16, 5 epochs over all 6,838 rows of semeval2018_ec, in bf16, each method
                with one setting: a share of 0.1 for `nce_balanced`, λ1 = 0.1 for `nce_zlpr`, 1 for `mutual`. Figures
                are at one threshold, which is tuned for example F1 on validation."""),
            table(["method", "seeds", *TUNED.values()], sorted(rows)),
            beside("semeval2018_ec"),
            prose("""
                Here, too, no second net adds to its loss more than seeds differ. Macro and micro F1 are about those of
                SpanEmo, its Jaccard is not reached. Mutual learning differs most between seeds. For these runs the base
                weights were rounded to half precision."""),
            bash(*(Compared(name, "mlc").command() for name in names)),
        )
    )


def _there(screen: Screen) -> list[str]:
    return [data for data in text_screen.SETS if runs.there([f"{data}_{screen.name}"])]


def _commands(screen: Screen) -> list[str]:
    """One for the data sets with the same methods, seeds and trials."""
    program = f"python benchmarks/text_screen.py {screen.name} --data_dir PATH --encoder FOLDER {screen.flags}"
    by_means: dict[str, list[str]] = {}
    for data in _there(screen):
        stored = runs.stored(f"{data}_{screen.name}")
        by_method = stored.all()
        seeds = sorted({run["seed"] for found in by_method.values() for run in found})
        means = f"--losses {' '.join(method for method in METHODS if method in by_method)}"
        means += f" --seeds {' '.join(map(str, seeds))} --budget {stored.identity()['budget']}"
        by_means.setdefault(means, []).append(data)
    return [f"{program} {means} --sets {' '.join(names)}" for means, names in by_means.items()]


def names() -> list[str]:
    """The pages that have runs."""
    return [f"texts-{screen.name}" for screen in SCREENS.values() if _there(screen)]


def all_pages() -> dict[str, str]:
    return {f"texts-{screen.name}": screen_page(screen) for screen in SCREENS.values() if _there(screen)}
