"""What the defaults give without any flag, and which part of an energy a gain is made of."""

from __future__ import annotations

import statistics

import defaults

from . import runs
from .markdown import archived, bash, page, prose, section, table

OTHERS = "Tags, trees and masks"
MASKS = ["digits", "weizmann"]
# the texts on which the defaults were judged; the old ones and the new ones, by the encoder's old rate
TEXTS = ["netflix_genres", "reuters", "semeval2018_ec", "hoc", "go_emotions", "valueeval23"]
HEAD_RATES = {
    "ce_1e-4": ("ce_1e-4_head_1e-4_1000_first_bf16", "ce_5e-5_head_1e-2_1000_bf16"),
    "ce_2e-4": ("ce_2e-4_head_2e-4_1000_bf16", "ce_2e-4_head_1e-2_1000_bf16"),
}
SOFT_F1 = (HEAD_RATES["ce_1e-4"][1], "soft_f1_5e-5_head_1e-2_1000_bf16")
SECOND_NETS = ("default", "nce_balanced", "mutual")  # beside soft F1
TASK_LOSSES = ("zlpr", "seen_sets")  # in place of it
WEIGHED = ("tmdb_genres", "xed_en", "brighter_eng")  # chose the weight of soft F1
FROZEN_RATES = ("1e-3", "1e-2")  # of what is trained on a frozen encoder: the default, and another
LINEAR = {"example F1": "f1_example", "macro F1": "f1_macro"}  # beside a logistic regression
ROWS = (300, 1000)  # of training, of the runs beside a logistic regression
SHORT = "delicious"  # its runs are too short for a logistic regression
PARTS = {"local": "no dependencies between labels", "pairwise": "pairs of labels"}
FAMILIES = ("Features", "Texts", OTHERS)


def parts_of_energies() -> dict[str, str]:
    """Runs with a part of the energy -> the same with the whole energy."""
    found = (name for name in runs.STORE.recipes() if name.endswith(tuple(f"_{part}" for part in PARTS)))
    return {name: name.rpartition("_")[0] for name in sorted(found) if "_nce" in name}


def parts() -> str:
    """What the whole energy is ahead of one with a part of it."""
    rows = []
    for name, whole in parts_of_energies().items():
        ours, theirs = runs.of_recipe(whole), runs.of_recipe(name)
        gain = runs.gain(ours, theirs, runs.TUNED)
        rows.append([f"`{whole}`", PARTS[name.rpartition("_")[2]], *runs.gain_cells(gain)])
    return table(["recipe", "the other energy knows", "difference", "seeds ahead"], rows)


def families() -> dict[str, list[str]]:
    """Data sets with runs of `defaults.py`, by family."""
    found: dict[str, list[str]] = {title: [] for title in FAMILIES}
    for name, data in defaults.EVERY.items():
        family = OTHERS if data.program != "mlc" else "Texts" if data.encoder else "Features"
        if runs.of_defaults(name, plain_way(name)):
            found[family].append(name)
    return found


def plain_way(name: str) -> str:
    """The way of `defaults.py` in which a data set has cross-entropy with no other choice. Tags and trees beside an
    encoder have one rate for the encoder and its head."""
    data = defaults.EVERY[name]
    return "ce" if not data.encoder else now(1000) if data.program == "mlc" else "ce_2e-4"


def beside_plain(names: list[str]) -> str:
    """Cross-entropy and the default."""
    pairs = {name: (way := plain_way(name), way.replace("ce", "default")) for name in names}
    return in_one_figure(pairs, defaults.HEADS)


def in_one_figure(pairs: dict[str, tuple[str, str]], heads: tuple[str, str]) -> str:
    """A row for each data set whose two ways of `defaults.py` have runs: the figure that its decisions are judged by,
    calibrated F1 for label sets, otherwise the first that the runs have. Empty without runs."""
    rows, gains = [], []
    for name, ways in pairs.items():
        before, after = (runs.of_defaults(name, way) for way in ways)
        seeds = sorted(before.keys() & after.keys())
        there = [key for key in defaults.EVERY[name].figures.items() if seeds and key[1] in before[seeds[0]]]
        if not there:
            continue
        title, key = next((each for each in there if each[1] == runs.CALIBRATED), there[0])
        both = [{seed: found[seed] for seed in seeds} for found in (before, after)]
        gain = runs.gain(both[1], both[0], key)
        assert gain is not None
        gains.append(gain.mean)
        figures = [runs.figure(found, key).removesuffix(" (1 seed)") for found in both]
        rows.append([name, title, str(len(seeds)), *figures, str(gain)])
    if not rows:
        return ""
    shown = table(["data", "figure", "seeds", *heads, "difference"], rows)
    mean = f"\n\nMean difference of {len(gains)} data sets: {statistics.mean(gains):+.2f}."
    return shown + mean * (len(gains) > 1)


def soft_f1() -> str:
    """Soft F1 beside cross-entropy on texts."""
    return in_one_figure(dict.fromkeys(TEXTS, SOFT_F1), ("cross-entropy", "soft F1"))


def soft_f1_weights() -> str:
    """What other weights of soft F1 change on the data sets that choose it."""
    means = {}
    for weight in ("1", "10"):
        ways = [SOFT_F1[1].replace("soft_f1", loss) for loss in (f"soft_f1_{weight}", "soft_f1")]
        pairs = [[runs.of_defaults(name, way) for way in ways] for name in WEIGHED]
        gains = [gain for pair in pairs if (gain := runs.gain(*pair, runs.CALIBRATED))]
        means[weight] = statistics.mean(gain.mean for gain in gains)
    seeds = min(gain.seeds for gain in gains)
    said = ", ".join(f"{weight} by {mean:+.2f}" for weight, mean in means.items())
    counted = f"{seeds} seed{'s' * (seeds > 1)}"
    return f"Its weight is 3. Other weights change the mean F1 of {', '.join(WEIGHED)}: {said} ({counted})."


def instead_of_soft_f1() -> str:
    """What second nets add to soft F1 on texts, and other task losses in place of it."""
    ways = (*SECOND_NETS, *TASK_LOSSES)
    gains: dict[str, list[runs.Gain | None]] = {}  # by data set, one for each of `ways`
    for name in TEXTS:
        found = [runs.of_defaults(name, SOFT_F1[1].replace("soft_f1", way)) for way in ways]
        gains[name] = [runs.gain(each, runs.of_defaults(name, SOFT_F1[1]), runs.CALIBRATED) for each in found]
    rows = [[name, *(str(gain) if gain else "-" for gain in found)] for name, found in gains.items() if any(found)]
    means = [[gain.mean for gain in of_way if gain] for of_way in zip(*gains.values(), strict=True)]
    rows.append(["mean", *(f"{statistics.mean(each):+.2f} of {len(each)} sets" for each in means)])
    heads = [*(f"and `{way}`" for way in SECOND_NETS), *(f"`{way}` instead" for way in TASK_LOSSES)]
    return table(["data", *heads], rows)


def frozen_rates() -> str:
    """What the higher rate changes on a frozen encoder, by the number of rows: the means over data sets."""
    said = []
    for rows in ROWS:
        ways = [defaults.FROZEN.format(rate=rate, rows=rows) for rate in FROZEN_RATES]
        found = [[runs.of_defaults(name, way) for way in ways] for name in TEXTS]
        found = [each for each in found if all(each)]
        by_rate = [runs.gain(new, old, linear_keys("f1_example", "")[1]) for old, new in found]
        over = [runs.gain(new, new, *reversed(linear_keys("f1_example", "linear_encoder"))) for _, new in found]
        means = [statistics.mean(gain.mean for gain in gains if gain) for gains in (by_rate, over)]
        said.append(f"{means[0]:+.2f} with {rows:,} rows ({means[1]:+.2f} over a regression)")
    return f"{' and '.join(said)}: {len(found)} sets, {len(found[0][0])} seeds"


def soft_f1_at_half() -> str:
    """The least and the largest gain of soft F1 over cross-entropy on a set of texts, cut at 0.5."""
    pairs = [[runs.of_defaults(name, way) for way in reversed(SOFT_F1)] for name in TEXTS]
    gains = [gain.mean for pair in pairs if (gain := runs.gain(*pair, runs.AT_HALF))]
    return f"{min(gains):+.1f} to {max(gains):+.1f}"


def soft_f1_on_features() -> str:
    names = families()["Features"]
    pairs = [[runs.of_defaults(name, way) for way in ("soft_f1", "ce_alone")] for name in names if name != SHORT]
    pairs.append([runs.of_defaults(SHORT, way) for way in ("soft_f1", "ce")])
    gains = [gain.mean for pair in pairs if (gain := runs.gain(*pair, runs.CALIBRATED))]
    mean = round(statistics.mean(gains), 2) + 0.0  # without a sign at 0
    return f"Its mean gain on {len(gains)} sets of features is {mean:.2f}."


def soft_f1_with_few() -> str:
    """The mean gain of soft F1 with the fewest rows."""
    rows = ROWS[0]
    pairs = [[runs.of_defaults(name, way) for way in (learned(rows), now(rows))] for name in TEXTS]
    gains = [gain.mean for pair in pairs if (gain := runs.gain(*pair, runs.CALIBRATED))]
    return f"With {rows} rows the mean gain on {len(gains)} of them is {statistics.mean(gains):+.2f}."


def now(rows: int) -> str:
    """The way of `defaults.py` of cross-entropy with the head's own rate, on so many training rows of texts."""
    return HEAD_RATES["ce_1e-4"][1].replace("1000", str(rows))


def learned(rows: int) -> str:
    """The way of the default task loss, soft F1, on so many training rows of texts; cross-entropy until all data sets
    have its runs."""
    plain, ours = now(rows), SOFT_F1[1].replace("1000", str(rows))
    return ours if all(len(runs.of_defaults(n, ours)) >= len(runs.of_defaults(n, plain)) for n in TEXTS) else plain


def linear_keys(figure: str, end: str) -> tuple[str, str]:
    """Of test rows: the figure of the logistic regression, and that of the saved decisions."""
    return f"test_{figure}_{end}", f"test_{figure}_decided"


def fine_tuned(name: str, rows: int) -> dict[int, dict[str, float]]:
    """Runs on texts with the figures of a logistic regression on the frozen encoder, which no loss moves."""
    keys = [linear_keys(figure, "linear_encoder")[0] for figure in LINEAR.values()]
    plain, found = runs.of_defaults(name, now(rows)), runs.of_defaults(name, learned(rows))
    fitted = {seed: {key: run[key] for key in keys} for seed, run in (found | plain).items() if keys[0] in run}
    return {seed: run | fitted[seed] for seed, run in found.items() if seed in fitted}


def over_linear(name: str, rows: int) -> list[runs.Gain]:
    """What fine-tuning is ahead of the logistic regression, in each of `LINEAR`; empty without runs."""
    found, keys = fine_tuned(name, rows), [linear_keys(figure, "linear_encoder") for figure in LINEAR.values()]
    gains = [runs.gain(found, found, *reversed(each)) for each in keys] if found else []
    return [gain for gain in gains if gain is not None]


def beside_linear(count: int = ROWS[-1]) -> str:
    """Fine-tuned encoders and the logistic regression that each run fits beside; nothing without runs."""
    rows = []
    for name in TEXTS:
        if found := fine_tuned(name, count):
            keys = linear_keys(LINEAR["example F1"], "linear_encoder")
            alone, tuned = (runs.figure(found, key).removesuffix(" (1 seed)") for key in keys)
            gains = map(str, over_linear(name, count))
            rows.append([name, str(len(found)), alone.partition(" ")[0], tuned, *gains])  # no seed moves the first
    heads = ["data", "seeds", "logistic regression", "fine-tuned", "difference", "difference in macro F1"]
    return table(heads, rows) if rows else ""


def beside_linear_with_few(count: int = ROWS[0]) -> str:
    """The same of fewer rows, in a sentence: the mean over data sets, and the least and the largest difference."""
    sets = [found for name in TEXTS if (found := fine_tuned(name, count))]
    seeds = sorted(set.intersection(*map(set, sets)))
    linear, decided = linear_keys(LINEAR["example F1"], "linear_encoder")
    means = [100 * statistics.mean(found[seed][decided] - found[seed][linear] for found in sets) for seed in seeds]
    gains = [found for name in TEXTS if (found := over_linear(name, count))]
    f1, macro = (f"{min(each).mean:+.2f} to {max(each).mean:+.2f}" for each in zip(*gains, strict=True))
    mean = runs.of_differences(means)
    return f"With {count} rows ({len(sets)} sets) fine-tuning is ahead by {mean} ({f1}), in macro F1 by {macro}."


def _words_of_losses() -> str:
    """The task losses of the runs beside a logistic regression."""
    words = {rows: "cross-entropy" if learned(rows) == now(rows) else "soft F1" for rows in ROWS}
    both = " and ".join(f"{word} with {rows:,} rows" for rows, word in words.items())
    return f"by {words[ROWS[0]] if len(set(words.values())) == 1 else both}"


def with_linear(name: str, way: str = "ce") -> dict[int, dict[str, float]]:
    """Runs on features that had a logistic regression beside. A net that did not take it in is the net alone."""
    found = {}
    for seed, run in runs.of_defaults(name, way).items():
        if linear_keys("f1_example", "linear_features")[0] in run:
            alone = {f"test_{figure}_net_alone": run[f"test_{figure}_decided"] for figure in LINEAR.values()}
            found[seed] = alone | run
    return found


def in_the_net() -> str:
    """The logistic regression, the net alone, and the net that has taken it in; nothing without runs."""
    rows = []
    for name in families()["Features"]:
        if found := with_linear(name):
            keys = [linear_keys(figure, "net_alone") for figure in LINEAR.values()]
            linear, decided = linear_keys("f1_example", "linear_features")
            alone, both = (runs.figure(found, key) for key in keys[0])
            gains = [str(runs.gain(found, found, *reversed(each))) for each in ((linear, decided), *keys)]
            rows.append([name, str(len(found)), runs.figure(found, linear).partition(" ")[0], alone, both, *gains])
    heads = ["data", "seeds", "logistic regression", "net alone", "both"]
    return table([*heads, "over regression", "over net", "macro F1 over net"], rows) if rows else ""


def default_settings() -> str:
    tables = [section(title, beside_plain(names)) for title, names in families().items() if names]
    judged = in_one_figure(
        {
            **dict.fromkeys(TEXTS, HEAD_RATES["ce_1e-4"]),
            "wnut17": HEAD_RATES["ce_2e-4"],
            "srl_ewt": ("ce_2e-4", "ce_2e-4_head_1e-2_1000"),
        },
        ("before", "now"),
    )
    return page(
        "Defaults",
        prose("""
            What no flag but the data gives, the default, beside cross-entropy. The default is NCE for label sets
            and tags and regression for masks. Its task loss is cross-entropy, for texts with [soft
            F1](texts.md#soft-f1-beside-cross-entropy), for masks with [soft IoU](masks.md). Only delicious has
            another flag, 6 epochs, too few for a [regression in the net](#beside-a-logistic-regression). Texts are
            the first 1,000 rows under MiniLM, in bf16. Runs of wnut17, on 1,000 sentences, are older than the [head's
            own rate](#the-rate-of-a-fresh-head).

            Figures are those of the test set in percent, mean ± standard deviation over seeds. *Calibrated* is the
            example F1 of the calibrated expected F1. This trains missing runs:"""),
        bash("python benchmarks/defaults.py --data_dir PATH --encoder FOLDER"),
        *tables,
        section(
            "The rate of a fresh head",
            prose("""
                *Before*, encoder and head had one rate, 1e-4 for label sets and 2e-4 for others, at which a fresh head
                hardly moves, and the classifier of texts read the first token. *Now* the head has 1e-2
                (`--head_learning_rate`), beside 5e-5 for label sets and 2e-4 for others, and the classifier reads the
                mean of the tokens. Cross-entropy, on data sets that did not choose this:"""),
            judged,
            prose(f"""
                A frozen encoder has 1e-3. Where the mean is read, 1e-2 changes example F1 by {frozen_rates()}."""),
        ),
        section(
            "Beside a logistic regression",
            prose("""
                Each run fits a logistic regression, on features or on mean vectors of the frozen encoder. On features
                the net takes it in: its logits become the mean of both, unless validation rows lose more than a
                standard error. Example F1, after cross-entropy:"""),
            in_the_net(),
            prose(f"""Fine-tuned texts, 1,000 rows, {_words_of_losses()}. {beside_linear_with_few()}"""),
            beside_linear(),
        ),
        section(
            "How these were chosen",
            prose("""
                **The rates**, on other data sets: between 3e-3 and 3e-2 the head's hardly matters. **The rule of λ1**,
                on bibtex, cal500 and synthetic texts, so these rows flatter it. **The regression in the net**, on
                cal500 and bibtex; its standard error, on all of these and digits."""),
        ),
        archived("xed_en", "tmdb_genres", "cora", "ptb_nltk", "digits", *TEXTS),
    )


def all_pages() -> dict[str, str]:
    return {"defaults": default_settings()}
