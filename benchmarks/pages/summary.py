"""The start page of the results: what each addition gives, and what was learned."""

from __future__ import annotations

from . import label_tables, runs
from .gains import gains, how_to_read
from .label_tables import beside_gain
from .markdown import page, prose, section
from .structures import least_cosine, range_of_outputs

PAGES = {
    "papers": "runs with the papers' own settings, beside published figures",
    "schedule": "many updates of the loss-net for each of the task-net",
    "energy-networks": "energy networks alone, and as a fixed loss",
    "labels": "what the decision gives, what a loss-net adds, whether it comes from dependencies",
    "texts": "fine-tuned encoders, rates, what a second net reads",
    "defaults": "what no flag but the data gives, beside cross-entropy and a logistic regression",
    "tags": "a CRF, energies beside it, every loss with every energy",
    "roles": "a CRF, energies, and the constraint of unique roles",
    "trees": "parsing as tagging",
    "masks": "two classes and eleven",
    "few-labels": "rules for the rows without labels",
    "implicit-gradients": "hypergradients",
}


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
    beside = [label_tables.gain_with_linear(name) for name in ("bibtex", "seq_fun")]
    unhelped = " and ".join(name for name in label_tables.SETS if label_tables.chosen_beside(name) == "ce")
    text = runs.gain(runs.of_recipe("go_emotions_nce"), runs.of_recipe("go_emotions_ce"), runs.TUNED)
    cost = {name: runs.compared("bibtex_held")["methods"][name]["seconds"] for name in label_tables.BESIDE[1:3]}
    return prose(f"""
        - **Fit a decoder first.** It costs seconds after training. On five of six feature sets it lifts a tuned
          cross-entropy by {decoder[least].mean:.1f} ({least}) to {decoder[most].mean:.1f} points ({most}) over the cut
          at 0.5.
        - **Then try a loss-net, with its settings searched.** At one threshold it adds {searched["bibtex"]} points on
          bibtex (ahead in {searched["bibtex"].won} seeds) and {searched["seq_fun"]} on seq_fun
          ({searched["seq_fun"].won}); under calibrated expected F1 {calibrated["bibtex"]} and {calibrated["seq_fun"]}.
          With a [logistic regression](defaults.md#beside-a-logistic-regression) in both nets, {beside[0]} and
          {beside[1]} are left. An epoch on bibtex takes {cost["nce_balanced"]:.1f} times as long. A cheap form adds
          {cheap} there, at one threshold, at {cost["nce_balanced_cheap"]:.1f} times.
        - **A loss-net does not help on delicious, genbase, cal500 and spo_fun.** On {unhelped} validation says so: it
          chooses cross-entropy. Leave the loss-net out there.
        - **On texts leave the loss-net out.** A fixed recipe of NCE gives {text} points on GoEmotions, and no
          loss-net gains beside a fine-tuned encoder.
        - **Much of what a loss does at 0.5 is calibration.** On cal500, with trials and epochs chosen at 0.5 as in
          the papers, NCE has {half["nce"]} and cross-entropy {half["ce"]}. The asymmetric loss, which has no loss-net,
          has {half["asymmetric"]}.
        - **A gain need not come from dependencies between labels.** On seq_fun an energy that knows none adds {local}.
        - **Score the best trials by several seeds.** With the same twenty trials, cross-entropy has {search[0]} on
          bibtex and {search[2]} on seq_fun if one seed chooses, and {search[1]} and {search[3]} if three do.
        - **For semantic roles a CRF is the default.** On trees and other tags no energy is clearly better than a CRF.
        - **For masks leave the loss-net out** beside soft IoU, the default task loss, or Dice. No
          energy that was tried gains in IoU over these.
        - **With few labels, rules are worth most.** The loss-net brings them into training on rows without tags.
        - **Implicit gradients do not pay.** Beside contrastive divergence the implicit term is next to nothing (cosine
          at least {least_cosine():.4f}). Beside margin and regression it is felt, but once decisions are calibrated
          {range_of_outputs(runs.CALIBRATED)} points are left.
    """)


def _decoder(name: str) -> runs.Gain:
    found = runs.of_method(f"{name}_held", "ce")
    gain = runs.gain(found, found, runs.CALIBRATED, runs.AT_HALF)
    assert gain is not None
    return gain


def _figure(comparison: str, method: str, key: str) -> str:
    return runs.figure(runs.of_method(comparison, method), key)


def index() -> str:
    listed = "\n".join(f"- [{name}]({name}.md): {what}" for name, what in PAGES.items())
    contents = "\n".join(["```{toctree}", ":hidden:", "", *PAGES, "```"])
    return page(
        "Results",
        prose("""
            Losses are compared with cross-entropy, decided in the same way. *At 0.5* is how a plain Trainer decides.
            Figures are those of the test set in percent, mean ± standard deviation over seeds; a difference is paired
            by seed, in points. The folds of the data are our own, so published figures stand beside ours and are no
            test of them.

            The task-net is your model. The loss-net is a second network that scores whole outputs in training; this
            score is the energy, and λ1 is its weight in the task-net's loss."""),
        section("What each addition gives", gains(), how_to_read()),
        section("What was learned", learned()),
        section("A page per task", listed, contents),
        section(
            "All runs",
            prose("""
                Every run on file, with the command that makes it again, is in an
                [archive](../../recipes/pages/README.md) with a page per data set. The raw runs are in
                `recipes/results/`; `benchmarks/README.md` says how to add seeds."""),
        ),
    )


def all_pages() -> dict[str, str]:
    """The start of the pages."""
    return {"index": index()}
