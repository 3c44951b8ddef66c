"""The summary of all results, beside published figures, and what was learned."""

from __future__ import annotations

from collections.abc import Mapping

from seal_hf.lab.compare.methods import SEAL
from seal_hf.lab.compare.table import best_on_validation, percent
from seal_hf.tasks.labels.compare import METHODS

from . import label_tables, runs, text_screens, text_views
from .gains import below, gains
from .label_tables import beside_gain
from .markdown import page, prose, section, table
from .published import FIGURES, value
from .structures import TAGGED, implicit_gains

CONTENTS = ["labels", "labels-methods", *(f"labels-{name}" for name in label_tables.SETS)]
CONTENTS += ["labels-recipes", "labels-text", *text_screens.names(), *text_views.names(), "defaults"]
CONTENTS += ["tags", "trees", "roles", "masks", "few-labels", "implicit-gradients"]
TAGS = {  # row -> recipes' stem, key of the figure
    "Twitter POS, accuracy": ("twitter_pos", "test_accuracy"),
    "WNUT-17, span F1": ("wnut17", "test_f1"),
    "Cora, span F1": ("cora", "test_f1"),
}
ROLES = {  # end of the recipe's name -> loss, row of the published figures
    "ce": ("cross-entropy", ""),
    "crf": ("CRF", "BERT-CRF"),
    "unique_roles": ("constraint of unique roles", "structured tuning"),
    "nce": ("NCE", "SEAL-dynamic, NCE"),
    "crf_nce": ("NCE beside a CRF", ""),
}
MASKS = {
    "ce": ("cross-entropy", "FCN"),
    "regression": ("regression", "SEAL-dynamic, regression"),
    "nce": ("NCE of independent pixels", "SEAL-dynamic, NCE"),
    "ranking_field": ("ranking of smooth samples", ""),
    "ranking_inputs": ("ranking of masks at noisy images", ""),
    "soft_iou": ("soft IoU, no loss-net", ""),
}
IMPLICIT = {  # row of the published figures -> recipe, key of the figure
    "bibtex": ("bibtex_implicit", runs.TUNED),
    "delicious": ("delicious_implicit", runs.TUNED),
    "Twitter POS": ("twitter_pos_implicit", "test_accuracy"),
    "Weizmann": ("weizmann_implicit_bf16", "test_mean_iou"),
}


def label_sets() -> str:
    """Tuned cross-entropy and the loss-net that validation chooses, beside published figures."""
    rows = []
    for name in (*label_tables.SETS, *label_tables.VARIANTS):
        comparison = f"{name}_held" if name in label_tables.SETS else name
        found = runs.compared(comparison)
        chosen = best_on_validation(found)
        plain = _figures(found["methods"]["ce"])
        ours = _figures(found["methods"][chosen])[1:] if METHODS[chosen or "ce"].group == SEAL else ["-", "-"]
        published = [FIGURES[method].get(name, "-") for method in ("ce", "nce")]
        rows.append([name, str(len(found["methods"]["ce"]["seeds"])), *plain, *ours, *published])
    head = ["data", "seeds", "cross-entropy at 0.5", "one threshold", "calibrated", "loss-net, one threshold"]
    return table([*head, "calibrated", "published at 0.5: cross-entropy", "NCE"], rows)


def _figures(row: Mapping[str, tuple[float, float]]) -> list[str]:
    return [percent(*row[key]) for key in ("f1_example", "f1_example_tuned", "f1_example_calibrated")]


def tags() -> str:
    rows = []
    for title, (stem, key) in TAGS.items():
        found = [runs.of_recipe(f"{stem}_{loss}") for loss in ("ce", "crf", "infnet_plus", "nce")]
        rows.append([title, str(len(found[0])), *(runs.figure(each, key) for each in found)])
    published = [value("tagging", "BiLSTM"), "-", value("tagging", "InfNet+, stacked"), "-"]
    rows.append(["Twitter POS, published with other word vectors", "-", *published])
    return table(["data", "seeds", "cross-entropy", "CRF", "InfNet+", "NCE"], rows)


def roles() -> str:
    rows = []
    for loss, (name, published) in ROLES.items():
        found = runs.of_recipe(f"srl_ewt_{loss}")
        figures = [runs.figure(found, f"{key}{runs.SCHEME}") for key in ("test_f1", "test_core_role_violations")]
        rows.append([name, *figures, value("srl", published) if published else "-"])
    return table(["loss", "F1", "repeated roles", "published F1, on another corpus"], rows)


def masks() -> str:
    rows = []
    for loss, (name, published) in MASKS.items():
        found, plain = runs.of_recipe(f"weizmann_{loss}_bf16"), runs.of_recipe("weizmann_ce_bf16")
        gain = runs.gain(found, plain, "test_mean_iou") if loss != "ce" else None
        figures = [str(len(found)), runs.figure(found, "test_mean_iou"), *runs.gain_cells(gain)]
        rows.append([name, *figures, value("segmentation", published) if published else "-"])
    return table(["loss", "seeds", "IoU", "difference", "seeds ahead", "published"], rows)


def few_labels() -> str:
    rows = []
    for column, (count, suffix) in enumerate(TAGGED.items(), 1):
        found = [runs.of_recipe(f"cora_few_{loss}{suffix}") for loss in ("ce", "contrastive_divergence")]
        gain = runs.gain(found[1], found[0], "test_accuracy")
        figures = [runs.figure(each, "test_accuracy") for each in found]
        rows.append([count, *figures, *runs.gain_cells(gain), value("rewards", "implicit gradients", column)])
    head = ["tagged references", "cross-entropy", "with rules", "difference", "seeds ahead", "published, other rules"]
    return table(head, rows)


def implicit_gradients() -> str:
    rows = []
    for data, (name, key) in IMPLICIT.items():
        found = [runs.of_recipe(each) for each in (name.replace("implicit", "contrastive_divergence"), name)]
        gain = runs.gain(found[1], found[0], key)
        figures = [runs.figure(each, key) for each in found]
        rows.append([data, *figures, *runs.gain_cells(gain), value("implicit", data, 3)])
    return table(["data", "without", "with", "difference", "seeds ahead", "published, with"], rows)


def learned() -> str:
    """What a practitioner may take from the tables; every figure is computed."""
    decoder = {name: _decoder(name) for name in label_tables.SETS if name != "genbase"}
    least, most = (choose(decoder, key=lambda name: decoder[name].mean) for choose in (min, max))
    searched = {name: beside_gain(name, "nce_balanced") for name in ("bibtex", "seq_fun")}
    calibrated = {name: beside_gain(name, "nce_balanced", runs.CALIBRATED) for name in searched}
    cheap = beside_gain("bibtex", "nce_balanced_cheap")
    half = {method: _figure("cal500_half", method, runs.AT_HALF) for method in ("nce", "ce", "asymmetric")}
    local = beside_gain("seq_fun", "nce_balanced_local")
    search = [
        _figure(f"{name}_{end}", "ce", runs.TUNED) for name in ("bibtex", "seq_fun") for end in ("long", "finals")
    ]
    unhelped = " and ".join(name for name in label_tables.SETS if label_tables.chosen_beside(name) == "ce")
    implicit = sorted(implicit_gains())
    text = runs.gain(runs.of_recipe("go_emotions_nce"), runs.of_recipe("go_emotions_ce"), runs.TUNED)
    cost = {name: runs.compared("bibtex_held")["methods"][name]["seconds"] for name in label_tables.BESIDE[1:3]}
    return prose(f"""
        - **Fit a decoder first.** It costs seconds after training. On five of six feature sets it lifts a tuned
          cross-entropy by {decoder[least].mean:.1f} ({least}) to {decoder[most].mean:.1f} points ({most}) over the cut
          at 0.5. On genbase the cut is nearly perfect already.
        - **Then try a loss-net, with its settings searched.** At one threshold it adds {searched["bibtex"]} points on
          bibtex (ahead in {searched["bibtex"].won} seeds) and {searched["seq_fun"]} on seq_fun
          ({searched["seq_fun"].won}); under calibrated expected F1 {calibrated["bibtex"]} and {calibrated["seq_fun"]}.
          An epoch on bibtex takes {cost["nce_balanced"]:.1f} times as long. A cheap form adds {cheap} there, at one
          threshold, at {cost["nce_balanced_cheap"]:.1f} times.
        - **A loss-net does not help on delicious, genbase, cal500 and spo_fun.** On {unhelped} validation says so: it
          chooses cross-entropy. Leave the loss-net out there.
        - **Give the loss-net trials of its own.** If its settings share the trials with learning rate and dropout, it
          is {label_tables.mean_equal():+.2f} points from the best loss without one, on the mean of six data sets.
        - **On texts begin with cross-entropy.** A fixed recipe of NCE gives {text} points on GoEmotions, and no
          loss-net gains beside a fine-tuned encoder.
        - **Much of what a loss does at 0.5 is calibration.** On cal500, with trials and epochs chosen at 0.5 as in
          the papers, NCE has {half["nce"]} and cross-entropy {half["ce"]}. The asymmetric loss, which has no loss-net,
          has {half["asymmetric"]}.
        - **A gain need not come from dependencies between labels.** On seq_fun an energy that knows none adds {local}.
        - **Score the best trials by several seeds.** With the same twenty trials, cross-entropy has {search[0]} on
          bibtex and {search[2]} on seq_fun if one seed chooses, and {search[1]} and {search[3]} if three do. The
          loss-net on seq_fun did not gain by that.
        - **For semantic roles take a CRF.** On trees and other tags no energy is clearly better than a CRF either.
        - **For masks begin with soft IoU**, or with Dice, which need no loss-net. On two classes ranking of smooth
          samples comes near soft IoU in half precision, but is behind cross-entropy in a comparison in full precision.
          On eleven classes no energy that was tried gains in IoU over Dice.
        - **With few labels, rules are worth most.** The loss-net brings them into training on rows without tags.
        - **Leave implicit gradients out.** In {len(implicit)} settings with 3 or 5 seeds they give {implicit[0]} to
          {implicit[-1]} points, and an epoch takes longer.
    """)


def _decoder(name: str) -> runs.Gain:
    found = runs.of_method(f"{name}_held", "ce")
    gain = runs.gain(found, found, runs.CALIBRATED, runs.AT_HALF)
    assert gain is not None
    return gain


def _figure(comparison: str, method: str, key: str) -> str:
    return runs.figure(runs.of_method(comparison, method), key)


def introduction() -> str:
    return prose("""
        Losses are compared with cross-entropy, decided in the same way. *At 0.5* is how a plain Trainer decides. All
        figures are those of the test set in percent, mean ± standard deviation over seeds. A difference is paired by
        seed, in points, and *seeds ahead* counts the seeds with a gain. The folds of the data are our own, so published
        figures stand beside ours and are no test of them.

        The task-net is your model. The loss-net is a second network that scores whole outputs in training; this score
        is the energy, and λ1 is its weight in the task-net's loss.

        Each page that is linked here has full tables, how to read them, and the commands that run their rows again.
        The raw runs are in `recipes/results/`; `benchmarks/README.md` says how to add seeds.""")


def body(base: str) -> list[str]:
    """The blocks of the summary; links to the pages begin with `base`."""
    link = lambda name, title: f"[{title}]({base}{name}.md)"  # noqa: E731
    return [
        section("What each addition gives", gains(base), below()),
        section("What was learned", learned()),
        section(
            "Label sets",
            prose(f"""
                Example F1 of a tuned cross-entropy, and of the loss-net that validation chooses beside it ("-": it
                chooses none). Published figures are those of Lee et al. 2022 on their own folds, at 0.5.
                `genbase_id` and `spo_fun_root` have the inputs and labels of the papers. More in
                {link("labels", "Label sets")}, {link("labels-recipes", "Recipes")}, {link("labels-text", "Texts")} and
                {link("defaults", "Defaults")}."""),
            label_sets(),
        ),
        section(
            "Tags",
            "Fixed recipes, whose BiLSTM reads no characters. Searched methods are in "
            f"{link('tags', 'Tag sequences')}.",
            tags(),
        ),
        section("Semantic roles", f"English Web Treebank, MiniLM. More in {link('roles', 'Semantic roles')}.", roles()),
        section("Masks", f"Weizmann's horses, half precision, IoU at 0.5. More in {link('masks', 'Masks')}.", masks()),
        section(
            "Few labels, with rules",
            "Accuracy on Cora's citation fields. These rules were written with statistics of all 500 references in "
            "view, so the figures are optimistic. Rules without such a view, and more data, are in "
            f"{link('few-labels', 'Few labels')}.",
            few_labels(),
        ),
        section(
            "Implicit gradients",
            "The same runs without and with them, where figures are published. More in "
            f"{link('implicit-gradients', 'Implicit gradients')}.",
            implicit_gradients(),
        ),
    ]


def all_pages() -> dict[str, str]:
    """The start of the pages."""
    contents = "\n".join(["```{toctree}", ":maxdepth: 1", "", *CONTENTS, "```"])
    return {"index": page("Results", introduction(), *body(""), section("All pages", contents))}


def results_md() -> str:
    """recipes/RESULTS.md"""
    link = "The pages with all tables begin at [docs/results](../docs/results/index.md)."
    return page("Results", introduction(), link, *body("../docs/results/"))
