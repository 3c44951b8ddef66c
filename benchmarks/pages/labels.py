"""Pages on label sets: an overview, all methods, and a page per data set."""

from __future__ import annotations

from seal_hf.tasks.labels.compare import COMPARED

from . import label_tables as tables
from . import runs
from .markdown import bash, page, prose, section
from .published import FIGURES

ABOUT = {
    "bibtex": "Tags of bibliography entries, from a binary bag of words (Mulan).",
    "delicious": "Tags of web pages, from a binary bag of words (Mulan). A row has 19 labels on average.",
    "genbase": "Protein classes, from motifs (Mulan). The identifier of a protein, the first attribute, is dropped.",
    "cal500": "Descriptions of songs, from 68 audio features (Mulan). A row has 26 labels on average.",
    "spo_fun": "Gene functions in a forest of classes (Clus, FunCat). A label brings its ancestors.",
    "seq_fun": "Gene functions in a forest of classes (Clus, FunCat), from features of the sequence.",
}
VARIANTS = {
    "genbase_id": """
        The papers fed the protein's identifier to the net. With `--keep_id true` it is a feature here too, so that the
        published figures have the same inputs.""",
    "spo_fun_root": """
        The papers counted the root of the hierarchy, which is on for every row. With `--keep_root true` it is a label
        here too. The row `constant` at 0.5 predicts the root alone.""",
}
READ = """
    Figures are test example F1 in percent, mean ± standard deviation over seeds. *At 0.5*, *one threshold* and
    *calibrated* name the decoder; thresholds and calibration are fitted on validation rows. A difference under one
    decoder is to the best method without a loss-net, over the seeds of both; its 95 % interval over test rows is in
    brackets (the F1 of a row is kept in thousandths). *Seconds per epoch* are relative to cross-entropy."""


def overview() -> str:
    return page(
        "Label sets",
        prose("""
            These tables compare losses on six public multi-label data sets with features. The figure is example F1 on
            the test rows in percent: F1 between the predicted and the gold labels of a row, averaged over rows. It is
            a mean ± standard deviation over seeds. The task-net is a small MLP for all methods.

            The rows come from comparisons by `examples/compare_losses.py`. The page of a data set has their commands
            and all other methods."""),
        tables.data_sets(),
        prose("""
            Three further pages have [every method on average](labels-methods.md), the [recipes](labels-recipes.md) and
            [texts](labels-text.md). [Defaults](defaults.md) has the
            default settings without any flag."""),
        section(
            "What the decoder gives",
            prose("""
                A decoder turns probabilities into labels. A plain Trainer cuts at 0.5. The right probability of a rare
                label is often below 0.5, so this cut misses labels. The other decoders are fitted on validation rows
                in seconds and need no further training. *Expected F1* predicts the set of the highest expected F1,
                and its calibrated form corrects the probabilities first. All rows are the same tuned cross-entropy,
                from the comparisons `NAME_held`."""),
            tables.decoders(),
        ),
        section(
            "What a loss-net adds to a tuned model",
            prose("""
                Cross-entropy was tuned first: learning rate and dropout by 20 trials and three seeds (5 trials on
                delicious). Then each loss-net kept these and had ten trials for settings of its own. Differences are
                to cross-entropy with the same seed and the same decoder, mean ± standard deviation over seeds. *Seeds
                ahead* counts the seeds that gain. In bold is what validation chooses under one threshold; where
                nothing is bold, validation chooses cross-entropy, and the loss-net should be left out."""),
            tables.beside(),
            prose("""
                `nce_balanced` is NCE with λ1 as a share of cross-entropy's gradient (`--energy_weight_balance true`).
                `nce_balanced_cheap` draws fewer samples, has a smaller global term and updates the loss-net every
                second step (`--num_samples 5 --global_size 50 --loss_net_every 2`). `nce_balanced_local` is an
                ablation: its energy knows no dependencies between labels (`--global_size 0`)."""),
        ),
        section(
            "The same search for every method",
            prose("""
                Here the plain losses and the loss-nets had the same number of trials over all their settings: 20 with
                three seeds, on delicious 5 with one. A loss-net has four settings to search and cross-entropy two, so
                equal trials favour cross-entropy. Each cell is what validation chooses of its group, with the number of
                seeds in brackets. The difference is to the method without a loss-net that is best on test, with its
                95 % interval over test rows. The two variants at the end do not count in the mean."""),
            *(f"Under {words}:\n\n{tables.equal_search(decoder)}" for decoder, words in COMPARED.items()),
        ),
        section(
            "How far to search",
            prose("""
                Trials that one seed scores suit that seed. *Three seeds* means that the best five trials ran with two
                more seeds and the best mean was taken (`--finalists 5`). Figures are under one threshold."""),
            tables.searches(),
            "Comparisons that are on no page of a data set were run by these commands:",
            *(tables.commands(name) for name in runs.STORE.comparisons() if name.endswith(("_long", "_thirty"))),
        ),
    )


def methods() -> str:
    blocks = [section(title, table) for title, table in tables.for_all().items()]
    return page(
        "Every method on label sets",
        prose(f"""
            What a method gives if you take it everywhere: its test example F1 less that of cross-entropy with the same
            seeds, in points, as a mean over the data sets on which it was searched. In brackets is the least of these
            differences. The median of its time per epoch is relative to cross-entropy. Each method had 5 or 8 trials
            per data set; methods with fewer than {tables.LEAST_SETS} data sets are left out.

            The pages of the [data sets](labels.md) have the runs and the commands behind these means. The names are
            those of `seal-hf compare --losses`."""),
        *blocks,
    )


def data_set(name: str) -> str:
    identity = runs.stored(f"{name}_held").identity()
    sizes = ", ".join(f"{identity[split]} {split}" for split in ("train", "validation", "test"))
    blocks = [_section(f"{name}_held", "A loss-net beside a tuned model", TUNED, both=True)]
    if tables.SEARCHED[name] == f"{name}_finals":
        blocks.append(_section(f"{name}_finals", "The same search for every method"))
    else:
        blocks.append(_section(tables.SEARCHED[name], "The same search for a few methods"))
    blocks.append(_every_method(name, "Every method"))
    for variant in (variant for variant, data in tables.VARIANTS.items() if data == name):
        blocks.append(_every_method(variant, f"Every method on {variant}", VARIANTS[variant]))
    blocks += [_section(each, "Chosen at 0.5", HALF, published=True) for each in runs.there([f"{name}_half"])]
    return page(
        name,
        f"{ABOUT[name]} Rows: {sizes}; {identity['labels']} labels.",
        prose(READ),
        prose("""
            The command below a table runs its rows again; `PATH` is the folder of the
            [data sets](../reference/data-sets.md). Runs that lie in `runs/compare/NAME` are not repeated. To add seeds
            to the runs of this page, first write them there:"""),
        bash(f"python benchmarks/results_store.py unpack {name}_held"),
        *blocks,
    )


TUNED = "Learning rate and dropout are those of a tuned cross-entropy; only the loss-net's own settings were searched."
HALF = """
    Trials and epochs were chosen by F1 at 0.5 on validation, as the papers do. The published figures are those of Lee
    et al. 2022 (`ranking`: of their draft) on their own folds, so they stand beside ours and are no test of it."""


def _section(comparison: str, title: str, text: str = "", published: bool = False, both: bool = False) -> str:
    table = tables.methods(comparison, published=published, both=both)
    return section(title, prose(text), table, tables.searched(comparison), tables.commands(comparison))


def _every_method(comparison: str, title: str, text: str = "") -> str:
    """A table for each group of methods."""
    published = any(comparison in row for row in FIGURES.values())
    blocks = [prose(text), tables.searched(comparison)]
    if published:
        blocks.append("*Published* are the figures of Lee et al. 2022 at 0.5, on their own folds.")
    for group, name in tables.GROUPS.items():
        if table := tables.methods(comparison, published, only=group):
            blocks.append(f"### {name}{'' if comparison in tables.SETS else f', {comparison}'}\n\n{table}")
    return section(title, *blocks, tables.commands(comparison))


def all_pages() -> dict[str, str]:
    found = {"labels": overview(), "labels-methods": methods()}
    return found | {f"labels-{name}": data_set(name) for name in tables.SETS}
