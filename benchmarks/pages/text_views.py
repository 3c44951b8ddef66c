"""The page on what two nets read of a text: is a second net's gain that of its better features?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import text_screen

from seal_hf.lab.compare.table import markdown

from . import runs
from .comparisons import Compared, legend_of_all
from .markdown import bash, page, prose, section, table

METHODS = ("ce", "mutual", "nce", "nce_balanced", "default")
TUNED = runs.TUNED


class View(NamedTuple):
    """Comparisons SET_NAME.

    Attributes:
        name: of the comparisons.
        task_net, loss_net: what the two nets read.
        flags: of the command, beside what all have.
    """

    name: str
    task_net: str
    loss_net: str
    flags: str = ""


FROZEN = "--freeze_encoder true --per_device_train_batch_size 64 --energy_weight 2 --loss_net_learning_rate 2e-4"
VIEWS = (
    View("frozen_first", "first token", "first token", f"{FROZEN} --loss_net_pooling first"),
    View("frozen_mean", "first token", "mean of all tokens", FROZEN),
    View("frozen_windows", "mean of all tokens", "mean of all tokens", f"{FROZEN} --long_texts windows"),
)
FEATURES = (View("features", "mean of all tokens", "mean of all tokens"),)


def _figures(data: str, view: View) -> dict[str, runs.Runs]:
    found = runs.stored(f"{data}_{view.name}").all()
    return {method: {run["seed"]: run for run in found.get(method, ())} for method in METHODS}


def _table(views: tuple[View, ...]) -> str:
    rows = []
    for data in text_screen.SETS:
        for view in views:
            if not runs.there([f"{data}_{view.name}"]):
                continue
            found = _figures(data, view)
            cells = [data, view.task_net, view.loss_net, str(len(found["ce"])), runs.figure(found["ce"], TUNED)]
            for method in METHODS[1:]:
                gain = runs.gain(found[method], found["ce"], TUNED)
                cells += ["-" if gain is None else str(gain)]
            rows.append(cells)
    for view in views:
        dependent, controls = (
            [data for data in _sets(view) if (data in text_screen.CONTROLS) == kind] for kind in (0, 1)
        )
        rows += [cells for names in (dependent, controls) if (cells := _over_sets(view, names))]
    heads = [f"`{method}`" for method in METHODS]
    full = [i for i in range(len(heads)) if any(row[4 + i] != "-" for row in rows)]
    rows = [[*row[:4], *(row[4 + i] for i in full)] for row in rows]
    return table(["data", "task-net reads", "loss-net reads", "seeds", *(heads[i] for i in full)], rows)


def _sets(view: View) -> list[str]:
    """The data sets that have runs."""
    return [data for data in text_screen.SETS if runs.there([f"{data}_{view.name}"])]


def _over_sets(view: View, names: Sequence[str]) -> list[str]:
    """The row of the means over these data sets, with a 95 % interval; empty for a single set."""
    found = [_figures(data, view) for data in names]
    if len(found) < 2:
        return []
    kind = "controls" if names[0] in text_screen.CONTROLS else "sets"
    cells = [f"{len(found)} {kind}", view.task_net, view.loss_net, "", ""]
    for method in METHODS[1:]:
        gains = [
            [100 * (each[method][seed][TUNED] - run[TUNED]) for seed, run in each["ce"].items()]
            for each in found
            if each[method].keys() >= each["ce"].keys()
        ]
        interval = text_screen.interval([np.array(values) for values in gains]) if len(gains) == len(found) else None
        cells.append(f"{interval.mean:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]" if interval else "-")
    return cells


def in_short() -> str:
    """A row for each view of a frozen encoder: cross-entropy on each data set, and what a second net adds on the mean
    of them."""
    sets = _sets(VIEWS[0])
    rows = []
    for view in VIEWS:
        plain = [runs.figure(_figures(data, view)["ce"], TUNED) for data in sets]
        gains = dict(zip(METHODS[1:], _over_sets(view, sets)[5:], strict=True))
        rows.append([view.task_net, view.loss_net, *plain, gains["mutual"], gains["nce"]])
    first, *others = sets
    gained = [f"`{method}`, mean of the {len(sets)}" for method in ("mutual", "nce")]
    return table(["task-net reads", "loss-net reads", f"`ce`, {first}", *others, *gained], rows)


def _commands(views: tuple[View, ...]) -> str:
    lines = []
    for view in views:
        sets = _sets(view)
        if not sets:
            continue
        stored = runs.stored(f"{sets[0]}_{view.name}").all()
        seeds = sorted({run["seed"] for found in stored.values() for run in found})
        methods = [method for method in METHODS if method in stored]
        lines.append(
            f"python benchmarks/text_screen.py {view.name} --data_dir PATH --encoder FOLDER {view.flags} --losses "
            f"{' '.join(methods)} --seeds {' '.join(map(str, seeds))} --budget 0 --sets {' '.join(sets)}"
        )
    return bash(*lines)


def _data_commands() -> list[str]:
    """Of each data set: its features are written, and then compared."""
    found = [Compared(name, "mlc").command() for name in _comparisons(FEATURES)]
    sets = [words.split("--dataset ")[1].split()[0] for words in found]
    write = "python benchmarks/text_features.py {} --encoder FOLDER --output_dir {}"
    read = {data: f"{data} --data_dir PATH" for data in text_screen.SETS}
    read[text_screen.SPLIT_ANEW] = f"runs/text_screen/{text_screen.SPLIT_ANEW}"  # which that program writes
    return [
        bash(
            *(
                line
                for words, place in zip(found, sets, strict=True)
                for line in (write.format(read[place.rsplit("/", 1)[1]], place), words)
            )
        )
    ]


def views_page() -> str:
    return page(
        "What the nets read of a text",
        prose("""
            The classifier of a BERT reads one vector, which its pooler makes of the first token. A loss-net beside it
            reads the mean of all tokens. In a sentence encoder, such as MiniLM, the mean says more. So a second
            net may teach because it sees more, not because of what it is.

            These tables give both nets the same view. The encoder is frozen, and nothing is searched: every second net
            has λ1 = 2 and a rate of 2e-4, which validation chose on two of three sets of the
            [screen](texts-frozen.md). Figures are test example F1 in percent at one threshold tuned on validation, mean
            ± standard deviation over seeds; for `mutual` and `nce` the difference to `ce`, paired by seed. Intervals
            are from a bootstrap over data sets, with seeds within; of three sets they are too narrow."""),
        section("Frozen", _table(VIEWS), prose(SAID), _commands(VIEWS)),
        section("Features as data", prose(AS_DATA), _table(FEATURES), *_data_commands()),
        *(section(name, markdown(runs.compared(name), False).strip()) for name in _comparisons()),
        section("How to read these tables", legend_of_all(runs.compared(_comparisons()[0]))),
    )


SAID = """
    Where both nets read the first token, no second net gains. Where the loss-net reads the mean of all tokens, both
    gain. Let the classifier itself read the mean (`--long_texts windows`), and cross-entropy alone is ahead of all of
    these: no second net adds as much as the better view."""
AS_DATA = """
    Both nets are MLPs on the mean of all tokens, and an epoch takes a second. Cross-entropy is then two to six
    points behind a [fine-tuned encoder](texts-finetuned.md). Every method has its first settings: `nce_balanced` a
    share of 0.5 of the task loss's pull, `default` the share that the rule chooses. `benchmarks/text_screen.py` splits
    brighter_eng anew."""


def _comparisons(views: tuple[View, ...] = (*VIEWS, *FEATURES)) -> list[str]:
    """The names of those that have runs."""
    return runs.there(f"{data}_{view.name}" for data in text_screen.SETS for view in views)


def names() -> list[str]:
    """The page, if it has runs."""
    return ["texts-views"] if _comparisons() else []


def all_pages() -> dict[str, str]:
    return {name: views_page() for name in names()}
