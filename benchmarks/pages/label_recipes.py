"""Pages on the recipes of label sets: features, texts, and what the defaults give without any flag."""

from __future__ import annotations

import defaults
from results_store import ROOT

from . import recipe_tables, runs
from .markdown import bash, page, prose, section, table
from .structures import MINILM, READ

OTHERS = "Tags, trees and masks"
MASKS = ["digits", "weizmann"]
# the texts on which the defaults were judged; the old ones and the new ones, by the encoder's old rate
TEXTS = ["netflix_genres", "reuters", "semeval2018_ec", "hoc", "go_emotions", "valueeval23"]
HEAD_RATES = {
    "ce_1e-4": ("ce_1e-4_head_1e-4_1000_first_bf16", "ce_5e-5_head_1e-2_1000_bf16"),
    "ce_2e-4": ("ce_2e-4_head_2e-4_1000_bf16", "ce_2e-4_head_1e-2_1000_bf16"),
}
MORE = {"mAP": "test_map_macro", "macro F1 of the decisions": "test_f1_macro_decided"}
LINEAR = {  # figure -> that of the logistic regression, that of the decisions
    "example F1": ("test_f1_example_linear_encoder", "test_f1_example_decided"),
    "macro F1": ("test_f1_macro_linear_encoder", "test_f1_macro_decided"),
}
VARIANTS = {  # suffix of the recipe's name -> what it is
    "nce_balanced": "λ1 as a share of cross-entropy's gradient",
    "nce_cheap": "λ1 as a share of the gradient, in the cheap form",
    "nce_balanced_cheap": "the cheap form with a smaller share, see its command",
    "nce_light": "fewer samples, a smaller global term, a loss-net step every second batch",
    "nce_share01": "the cheap form with a share of 0.1, on every data set",
    "nce_shared": "the loss-net on the task-net's features",
    "nce_sparse": "label sets as lists of labels",
}
PARTS = {"local": "no dependencies between labels", "pairwise": "pairs of labels"}
MODES = ("ce", "nce", "nce_separate", "nce_peft", "nce_adapters")
FAMILIES = ("Features", "Texts", OTHERS)


def data_of_recipes() -> list[str]:
    """The data sets with a recipe of cross-entropy and runs of NCE."""
    found = sorted(recipe.stem.removesuffix("_ce") for recipe in (ROOT / "recipes" / "mlc").glob("*_ce.yaml"))
    return [name for name in found if runs.of_recipe(f"{name}_nce")]


def recipes() -> str:
    used = [f"{name}_{loss}" for name in data_of_recipes() if name != "go_emotions" for loss in ("ce", "nce")]
    return page(
        "Recipes of label sets",
        prose("""
            A recipe in `recipes/mlc/` holds the settings of one run. Learning rate and dropout were tried by hand on
            validation, and so was λ1 of NCE. The figure is test example F1. [Label sets](labels.md) says what a
            loss-net adds to a model that a search tuned."""),
        prose(READ),
        section(
            "Cross-entropy and NCE",
            _plain(),
            recipe_tables.commands(used),
            "The recipes of GoEmotions are on the page of [texts](labels-text.md).",
        ),
        section(
            "Other forms of NCE",
            "Figures are under one threshold; the difference is to cross-entropy with the same seed.",
            *_variants(),
        ),
        section(
            "Is the gain made of dependencies between labels?",
            prose("""
                The energy's global term knows which labels go together. Without it (`--global_size 0`) the energy
                judges each label alone, and `--energy pairwise` knows pairs. *Difference* is the whole energy less the
                other one, with the same seed and under one threshold. Without the global term it is within its spread:
                with the settings of these recipes the gain does not come from dependencies between labels."""),
            *_parts(),
        ),
    )


def _plain() -> str:
    rows = []
    for name in data_of_recipes():
        ce, nce = (runs.of_recipe(f"{name}_{loss}") for loss in ("ce", "nce"))
        figures = [runs.figure(found, key) for key in (runs.AT_HALF, runs.TUNED) for found in (ce, nce)]
        gain = runs.gain(nce, ce, runs.TUNED)
        rows.append([name, str(gain.seeds if gain else 0), *figures, *runs.gain_cells(gain)])
    head = ["data", "seeds", "`ce` at 0.5", "`nce` at 0.5", "`ce`, one threshold", "`nce`, one threshold"]
    return table([*head, "difference, one threshold", "seeds ahead"], rows)


def _variants() -> list[str]:
    rows, used = [], []
    for name in data_of_recipes():
        for suffix, what in VARIANTS.items():
            if found := runs.of_recipe(f"{name}_{suffix}"):
                gain = runs.gain(found, runs.of_recipe(f"{name}_ce"), runs.TUNED)
                cells = [f"`{name}_{suffix}`: {what}", str(len(found)), runs.figure(found, runs.TUNED)]
                rows.append([*cells, *runs.gain_cells(gain)])
                used.append(f"{name}_{suffix}")
    head = ["runs", "seeds", "one threshold", "difference to cross-entropy", "seeds ahead"]
    return [table(head, rows), recipe_tables.commands(used)]


def parts_of_energies() -> dict[str, str]:
    """Runs with a part of the energy -> the same with the whole energy."""
    found = (name for name in runs.STORE.recipes() if name.endswith(tuple(f"_{part}" for part in PARTS)))
    return {name: name.rpartition("_")[0] for name in sorted(found) if "_nce" in name}


def _parts() -> list[str]:
    rows = []
    for name, whole in parts_of_energies().items():
        ours, theirs = runs.of_recipe(whole), runs.of_recipe(name)
        gain = runs.gain(ours, theirs, runs.TUNED)
        same = {seed: run for seed, run in ours.items() if seed in theirs}
        figures = [runs.figure(each, runs.TUNED) for each in (same, theirs)]
        rows.append([f"`{whole}`", PARTS[name.rpartition("_")[2]], str(len(same)), *figures, *runs.gain_cells(gain)])
    head = ["recipe", "the other energy knows", "seeds", "whole energy", "other energy", "difference", "seeds ahead"]
    return [table(head, rows), recipe_tables.commands([*parts_of_energies()])]


def texts() -> str:
    modes = [f"go_emotions_{mode}" for mode in MODES]
    whole = ["go_emotions_ce_whole", "go_emotions_nce_whole"]
    figures = {"at 0.5": runs.AT_HALF, "one threshold": runs.TUNED}
    return page(
        "Texts",
        prose("""
            These are fixed recipes for GoEmotions: short comments with 28 emotions, under MiniLM, for one epoch. The
            figure is test example F1. Differences are under one threshold. λ1 of NCE was not searched.
            [Defaults](defaults.md) has the default settings on further texts."""),
        prose(READ),
        prose(MINILM),
        section(
            "By the encoder of the loss-net",
            prose("""
                The first 8,000 training rows. The recipe of NCE has a loss-net on the task-net's own features
                (`shared`). The other rows give it an encoder of its own (`separate`) or an adapter on a frozen base.
                `benchmarks/README.md` has the time and the memory of each mode."""),
            recipe_tables.table_of(modes, figures, {modes[0]: "cross-entropy"}, runs.TUNED),
            recipe_tables.commands(modes),
        ),
        section(
            "All training rows",
            recipe_tables.table_of(whole, figures, {whole[0]: "cross-entropy"}, runs.TUNED, flagged=False),
            recipe_tables.commands(whole),
        ),
    )


def families() -> dict[str, list[str]]:
    """Data sets with runs of `defaults.py`, by family."""
    found: dict[str, list[str]] = {title: [] for title in FAMILIES}
    for name, data in defaults.EVERY.items():
        family = OTHERS if data.program != "mlc" else "Texts" if data.encoder else "Features"
        if runs.of_defaults(name, plain_way(name)):
            found[family].append(name)
    return found


def plain_way(name: str) -> str:
    """The way of `defaults.py` in which a data set has cross-entropy with no other choice: beside an encoder, the runs
    with one rate for the encoder and its head."""
    data = defaults.EVERY[name]
    return "ce" if not data.encoder else "ce_1e-4" if data.program == "mlc" else "ce_2e-4"


def beside_plain(names: list[str]) -> str:
    """Cross-entropy and the default, family by family of what reads the data."""
    found = [defaults.table(of, (way, way.replace("ce", "default"))) for way, of in by_way(names).items()]
    return "\n\n".join(filter(None, found))


def by_way(names: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(plain_way(name), []).append(name)
    return found


def beside_linear() -> str:
    """Cross-entropy by default and the logistic regression that each run fits beside it; nothing without runs."""
    rows, way = [], HEAD_RATES["ce_1e-4"][1]
    for name in TEXTS:
        for figure, (linear, ours) in LINEAR.items():
            found = {seed: run for seed, run in runs.of_defaults(name, way).items() if linear in run}
            if found:
                figures = [runs.figure(found, key).removesuffix(" (1 seed)") for key in (linear, ours)]
                rows.append([name, figure, str(len(found)), *figures, str(runs.gain(found, found, ours, linear))])
    return table(["data", "figure", "seeds", "logistic regression", "fine-tuned", "difference"], rows) if rows else ""


def default_settings() -> str:
    tables = [section(title, beside_plain(names)) for title, names in families().items() if names]
    found = [defaults.rates(names) for names in defaults.by_figures(defaults.SETS["find"])]
    judged = [
        defaults.table(names, HEAD_RATES["ce_1e-4" if more else "ce_2e-4"], ("before", "now"), more)
        for names, more in ((TEXTS, MORE), (["wnut17"], {}))
    ]
    rates = [
        defaults.table(names, ("ce_5e-5", way), ("at 5e-5", f"at {way[3:]}"))
        for way, names in by_way([name for name, data in defaults.SETS["verdict"].items() if data.encoder]).items()
    ]
    return page(
        "Defaults",
        prose("""
            What a newcomer gets with no flag but the data: by cross-entropy (`--loss ce`), and by the default, which
            is NCE for label sets and tags and regression for masks. Only delicious has another flag, 6 epochs, and
            wnut17 has 1,000 training sentences. A rule chooses λ1 while the net trains. Texts are
            the first 2,000 training rows under MiniLM. Data sets named `synthetic` are made by the command. The runs
            on texts and on wnut17 are older than the [head's own rate](#the-rate-of-a-fresh-head): encoder and head
            have the same rate there.

            Figures are those of the test set in percent, mean ± standard deviation over seeds. *At 0.5*, *tuned* (one
            threshold) and *calibrated* (the calibrated expected F1) name the decoder of an example F1. The difference
            is of runs with the same seed. A data set has rows here if both have run on it. These commands train what
            is not in `recipes/results/` yet:"""),
        bash(
            "python benchmarks/defaults.py --data_dir PATH --encoder FOLDER --sets find",
            "python benchmarks/defaults.py --data_dir PATH --encoder FOLDER",
        ),
        *tables,
        section(
            "The rate of a fresh head",
            prose("""
                Under Adam a parameter moves by at most the rate each step, so a fresh classifier at an encoder's rate
                hardly moves within some hundred steps. It is trained at 1e-2 by default (`--head_learning_rate`), and
                fresh layers below it at 1e-3. *Before*, encoder and head had one rate, 1e-4 for label sets and 2e-4
                for tags, and the classifier of texts read the first token. *Now* the head has 1e-2, beside 5e-5 for
                label sets and 2e-4 for tags, and the classifier reads what the encoder declares, here the mean of the
                tokens. Cross-entropy on data sets that were not used to choose these settings, the first 1,000
                training rows, in half precision on a CPU:"""),
            *filter(None, judged),
            bash(
                "python benchmarks/defaults.py --data_dir PATH --encoder FOLDER "
                f"--sets {','.join(TEXTS)} --ways {' '.join(HEAD_RATES['ce_1e-4'])}",
                "python benchmarks/defaults.py --data_dir PATH --encoder FOLDER "
                f"--sets wnut17 --ways {' '.join(HEAD_RATES['ce_2e-4'])}",
            ),
        ),
        section(
            "Beside a logistic regression",
            prose("""
                The same runs. Each fits a logistic regression on the mean vectors of the encoder as it was, with C and
                class weights by cross-validation on the training rows, and decides it by the same rule."""),
            beside_linear(),
        ),
        section(
            "How the rates were chosen",
            prose("""
                Cross-entropy by rates of the encoder and of the head, number of rows and epochs, on data sets that the
                comparisons above do not use, seed 1. The head's rate matters more than the encoder's, most for tags
                and trees, and with few rows. Between 3e-3 and 3e-2 it hardly matters. For label sets an encoder at
                5e-5 is ahead of 1e-4 with 1,000 rows, and with 300 rows if it has ten epochs (`--min_steps`). For
                tags and trees the encoder's rate is 2e-4. Most of these data sets are small, and so is MiniLM. A way
                of `defaults.py` names the encoder's rate, the head's, and the rows:"""),
            *filter(None, found),
            bash(
                "python benchmarks/defaults.py --data_dir PATH --encoder FOLDER --seeds 1 "
                "--sets xed_en,brighter_eng,tmdb_genres "
                "--ways ce_1e-4_head_1e-2_1000_first_bf16 ce_1e-4_head_1e-4_300_first_bf16"
            ),
            "What 1e-4 and 2e-4 give on other data sets beside the Trainer's own 5e-5, with one rate for all:",
            *filter(None, rates),
        ),
        section(
            "How long masks train",
            prose("""
                The default used to be 10 epochs. It is at most 100 now, and 10 evaluations without gain end a run. This
                was chosen on the validation images of digits. By cross-entropy:"""),
            defaults.table(MASKS, ("ce_10_epochs", "ce"), ("10 epochs", "by default")),
            "Cross-entropy and the default loss-net after 10 epochs:",
            defaults.table(MASKS, ("ce_10_epochs", "default_10_epochs")),
            bash(
                "python benchmarks/defaults.py --data_dir PATH "
                f"--sets {','.join(MASKS)} --ways ce_10_epochs default_10_epochs"
            ),
        ),
        section(
            "How the rule of λ1 was found",
            prose("""
                The rule was found on bibtex, cal500 and synthetic texts, so these rows flatter it. Two of its numbers
                were set after runs on other sets had been seen: the share of the energy begins at 0 (after
                synthetic_200, seed 1), and it grows by at most 0.1 an epoch (after weizmann)."""),
        ),
    )


def all_pages() -> dict[str, str]:
    return {"labels-recipes": recipes(), "labels-text": texts(), "defaults": default_settings()}
