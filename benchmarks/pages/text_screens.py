"""The pages of the losses that `text_screen.py` compares on texts: a summary, and a table per data set."""

from __future__ import annotations

from typing import NamedTuple

import text_screen

from seal_hf.lab.compare.methods import BASELINE, SEAL
from seal_hf.lab.compare.table import markdown
from seal_hf.tasks.labels.compare import METHODS, METRIC

from . import runs
from .comparisons import Compared, legend_of_all
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
    valueeval23, nlupp_banking and hoc are controls, where they have rows here: once the text is known, their labels
    hardly depend on each other, so a model of dependencies has little to add."""
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
            [What the nets read](texts-views.md) shows that the gains of second nets come from that. They are ahead on
            the controls too, if less clearly, and there a model of dependencies has little to add.""",
            "--freeze_encoder true --per_device_train_batch_size 64",
        ),
        Screen(
            "finetuned",
            "Texts, with a fine-tuned encoder",
            """
            What does a loss-net add to an encoder that is fine-tuned? MiniLM is trained on the first 2,000 rows, of
            go_emotions 8,000, for 4 epochs, and its classifier reads the mean of all tokens. Encoder and classifier
            have one rate, 2e-4; the [classifier's own rate](defaults.md#the-rate-of-a-fresh-head) is newer. A search of
            three trials gives every second net but that of `default` its weight and its own rate. For every variant
            of `nce_balanced` validation chose the smallest of the three shares of the task loss's pull. On seed 1 the
            largest share lost 2 to 70 points.

            **No loss-net gains.** On valueeval23 all methods lie within 0.6 points. `--task_loss zlpr`, which needs
            no second net, is ahead of cross-entropy on some sets with 2,000 rows, and behind on go_emotions with
            8,000. The default notices: 17 of its 20 runs left λ1 at 0 and equal cross-entropy's. Runs shared a
            machine, so the tables have no seconds. Those of valueeval23 and go_emotions are in half precision
            (bfloat16), on a CPU.""",
            "--num_train_epochs 4 --long_texts windows --learning_rate 2e-4 --hold learning_rate",
        ),
    )
}


USUAL = {"max_train_rows": text_screen.MAX_ROWS[1], "bf16": "false", "use_cpu": "false"}  # of a screen's runs
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
        *(section(title, text) for title, text in _further(screen) if text),
        section("How to read the tables", legend_of_all(next(iter(tables.values())))),
        section("Commands", bash(*_commands(screen))),
    )


def in_short(screen: Screen = SCREENS["finetuned"]) -> str:
    """A row for each data set: cross-entropy, and what validation chooses of the baselines and of the SEAL methods."""
    rows, gains = [], []
    for data in (data for data in _there(screen) if data not in text_screen.CONTROLS):
        name = f"{data}_{screen.name}"
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


def _further(screen: Screen) -> list[tuple[str, str]]:
    """Further sections of a page."""
    if screen.name != "finetuned":
        return []
    return [("The rate and the view matter more", rates()), ("A larger encoder, all rows", larger())]


OF_RATES = """
    Cross-entropy alone. With few rows an encoder needs a higher learning rate than the usual 5e-5: after some hundred
    steps even one of base size is far from done. A sentence encoder is better read as the mean of its tokens. Both
    are worth more than any other loss here."""
RATES = "_rates_"  # in the names of comparisons of cross-entropy alone, behind the data set


def rates() -> str:
    """Cross-entropy by what the classifier reads and by learning rate, beside that of the tables above."""
    own = [name for name in runs.STORE.comparisons() if RATES in name]
    above = runs.there(f"{data}_finetuned" for data in sorted({name.partition(RATES)[0] for name in own}))
    rows = []
    for name in (*own, *above):
        given = runs.stored(name).identity()
        read = "mean of all tokens" if given.get("long_texts") == "windows" else "first token"
        encoder = "mpnet-base" if "mpnet" in given["model_name_or_path"] else "MiniLM"
        ours = runs.of_method(name, "ce")
        cells = [given["data"], encoder, read, f"{float(given['learning_rate']):.0e}".replace("e-0", "e-")]
        rows.append([*cells, given["num_train_epochs"], str(len(ours)), runs.figure(ours, runs.TUNED)])
    head = ["data", "encoder", "the classifier reads", "learning rate", "epochs", "seeds", "cross-entropy"]
    commands = bash(*(Compared(name, "mlc").command() for name in own))
    return "\n\n".join((prose(OF_RATES), table(head, sorted(rows)), commands)) if own else ""


LARGER = ("semeval2018_ec_mpnet", "semeval2018_ec_mpnet_mutual")
OF_LARGER = {"f1_example_tuned": "example F1", "f1_macro_tuned": "macro F1", "f1_micro_tuned": "micro F1"}
OF_LARGER |= {"jaccard_tuned": "Jaccard"}


def larger() -> str:
    """All rows of the tweets, under an encoder of 109 M weights with LoRA."""
    names = runs.there(LARGER)
    if not names:
        return ""
    found = {(name, method): runs.of_method(name, method) for name in names for method in runs.stored(name).all()}
    rows = [
        [
            f"`{method}` {METHODS[method].about}",
            str(len(each)),
            *(runs.figure(each, f"test_{key}") for key in OF_LARGER),
        ]
        for (_, method), each in found.items()
    ]
    return "\n\n".join(
        (
            prose("""
                mpnet-base with LoRA of rank 16, 5 epochs over all 6,838 rows of semeval2018_ec, in bf16, each method
                with one setting: a share of 0.1 for `nce_balanced`, λ1 = 0.1 for `nce_zlpr`, 1 for `mutual`. The
                classifier reads the first token, since adapters have no windows. Figures are at one threshold, which is
                tuned for example F1 on validation. For these runs the base weights were rounded to half precision."""),
            table(["method", "seeds", *OF_LARGER.values()], sorted(rows)),
            beside("semeval2018_ec"),
            prose("""
                Here, too, no second net improves on its own baseline by more than the spread over seeds. Micro F1 is
                about that of SpanEmo, its Jaccard is not reached. Mutual learning differs most between seeds."""),
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
        identity = stored.identity()
        means += f" --seeds {' '.join(map(str, seeds))} --budget {identity['budget']}"
        own = {key: identity[key] for key, usual in USUAL.items() if identity.get(key, usual) != usual}
        means += "".join(f" --{key} {value}" for key, value in own.items())
        by_means.setdefault(means, []).append(data)
    return [f"{program} {means} --sets {' '.join(names)}" for means, names in by_means.items()]


def names() -> list[str]:
    """The pages that have runs."""
    return [f"texts-{screen.name}" for screen in SCREENS.values() if _there(screen)]


def all_pages() -> dict[str, str]:
    return {f"texts-{screen.name}": screen_page(screen) for screen in SCREENS.values() if _there(screen)}
