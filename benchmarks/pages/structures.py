"""Pages on tags, semantic roles, masks, and implicit gradients."""

from __future__ import annotations

import itertools
import statistics

from . import infnet, runs
from .comparisons import CAMVID, WEIZMANN
from .few_labels import TAGGED
from .markdown import archived, page, prose, section, table
from .published import beside, value
from .tags_compared import beside_a_crf, every_pair, times

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
PAIRS = {  # recipe with implicit gradients -> title and key of its figure
    "bibtex_implicit": ("F1, one threshold", runs.TUNED),
    "bibtex_implicit_neumann": ("F1, one threshold", runs.TUNED),
    "delicious_implicit": ("F1, one threshold", runs.TUNED),
    "twitter_pos_implicit": ("accuracy", "test_accuracy"),
    "wnut17_implicit": ("span F1", "test_f1"),
    "weizmann_implicit_bf16": ("IoU at 0.5", "test_mean_iou"),
    **{f"cora_few_implicit{suffix}": ("accuracy", "test_accuracy") for suffix in TAGGED.values()},
}
FIGURES = """
    Figures are in percent of the test set, mean ± standard deviation over seeds. A difference is paired by seed, in
    points, and *seeds ahead* counts the seeds with a gain."""


def _recipes() -> str:
    rows = []
    for title, (stem, key) in TAGS.items():
        found = [runs.of_recipe(f"{stem}_{loss}") for loss in ("ce", "crf", "infnet_plus", "nce")]
        rows.append([title, str(len(found[0])), *(runs.figure(each, key) for each in found)])
    return table(["data", "seeds", "cross-entropy", "CRF", "InfNet+", "NCE"], rows)


def tags() -> str:
    return page(
        "Tag sequences",
        prose(f"""
            Losses for tagging words: parts of speech of tweets, named entities, chunks, and fields of citations. The
            task-net is a BiLSTM on GloVe vectors or MiniLM. {FIGURES}

            **In short.** Take a CRF for spans. No energy is clearly better than a CRF, and beside one it adds nothing
            that is clear. With the [head's own rate](defaults.md#the-rate-of-a-fresh-head) and 1,000 sentences of
            wnut17 a CRF gains {_crf_gain("wnut17", "_bf16")} F1 over cross-entropy."""),
        section(
            "An energy beside a CRF",
            prose("""
                Does an energy add anything to a CRF, which already knows its neighbours? A mean has a 95 % interval by
                a bootstrap over data sets with seeds within, and the p of a t-test over the means of the sets. With a
                BiLSTM the gain is small on every set, and clear on none of them. With MiniLM there is no gain; the
                own rate of its head is newer than these runs."""),
            beside_a_crf(),
        ),
        section(
            "Fixed recipes",
            "A BiLSTM that reads no characters. The energy is a linear chain over tags.",
            _recipes(),
        ),
        section("Objectives of InfNet+", *infnet.objectives()),
        section(
            "Every loss with every energy",
            prose("""
                Twitter POS, with characters, so all figures are higher. Accuracy on the test set and, in brackets, on
                validation rows, of 1 seed. Two seeds of a method differ by some 0.2: most differences are chance."""),
            every_pair(),
        ),
        section(
            "The time of an epoch",
            prose("""
                Training alone, relative to cross-entropy, the median over seeds on one core, with the energy `chain`
                where none is named. Beside an encoder a loss-net costs less."""),
            times(),
        ),
        archived("twitter_pos", "wnut17", "conll2000", "cora"),
    )


def _crf_gain(data: str, end: str = "") -> runs.Gain | None:
    """What a CRF gains over cross-entropy, with the head's own rate and 1,000 rows."""
    plain, crf = (runs.of_defaults(data, f"{loss}_2e-4_head_1e-2_1000{end}") for loss in ("ce", "crf"))
    return runs.gain(crf, plain, "test_f1")


def roles() -> str:
    names = [f"{key}{runs.SCHEME}" for key in ("test_f1", "test_core_role_violations")] + ["test_f1_unique_roles"]
    rows, plain = [], runs.of_recipe("srl_ewt_ce")
    for loss, (name, published) in ROLES.items():
        found = runs.of_recipe(f"srl_ewt_{loss}")
        gain = runs.gain(found, plain, names[0]) if loss != "ce" else None
        cells = [name, str(len(found)), *(runs.figure(found, key) for key in names), *runs.gain_cells(gain)]
        rows.append([*cells, value("srl", published) if published else "-"])
    head = ["loss", "seeds", "F1", "repeated roles", "F1, no role twice", "difference in F1", "seeds ahead"]
    return page(
        "Semantic roles",
        prose(f"""
            Losses for finding the arguments of a predicate. The data are the English Web Treebank with PropBank roles.
            A fixed subset of 4,000 of its 40,423 propositions is for training, and the whole test set is scored. The
            encoder is MiniLM, and its fresh head has the encoder's rate, as was the default before the
            [head's own rate](defaults.md#the-rate-of-a-fresh-head). {FIGURES}

            **In short.** A CRF is the default. An energy adds nothing, alone or beside it: leave it out (`--loss ce`).
            With the head's own rate and 1,000 propositions the CRF is ahead by {_crf_gain("srl_ewt")} F1."""),
        section(
            "Results",
            prose("""
                Decoding is within the brackets' scheme. *Repeated roles* is the share of propositions that then have a
                core role twice, which the annotation rules out. The next F1 is that of the best sequence without
                repeated core roles (`--decoder unique_roles`). Published figures are those of Lee et al. 2022 and
                others on CoNLL-2012, which is another corpus, with BERT-base."""),
            table([*head, "published F1"], rows),
        ),
        archived("srl_ewt"),
    )


def masks() -> str:
    rows, plain = [], runs.of_recipe("weizmann_ce_bf16")
    for loss, (name, published) in MASKS.items():
        found = runs.of_recipe(f"weizmann_{loss}_bf16")
        gain = runs.gain(found, plain, "test_mean_iou") if loss != "ce" else None
        cells = [name, str(len(found)), runs.figure(found, "test_mean_iou"), *runs.gain_cells(gain)]
        rows.append([*cells, value("segmentation", published) if published else "-"])
    return page(
        "Masks",
        prose(f"""
            Losses for segmentation: Weizmann's horses, 32 x 32 pixels, with 160 images for training, 40 for validation
            and 128 for test; and street scenes of eleven classes. The figure is IoU, on two classes the mean over
            images. {FIGURES}

            **In short.** Soft IoU is the default task loss. Leave the loss-net out beside it (`--loss ce`). On the
            horses, with all else as in a run without flags, soft IoU alone has {_by_default("soft_iou")} IoU, soft IoU
            beside the default loss-net, regression, {_by_default("default")}, and cross-entropy alone
            {_by_default("ce")} (3 seeds)."""),
        section(
            "A loss-net beside the FCN",
            prose("""
                The papers' FCN on crops of 24 x 24, in half precision, IoU at 0.5. Published figures are those of Lee
                et al. 2022."""),
            table(["loss", "seeds", "IoU", "difference", "seeds ahead", "published"], rows),
        ),
        section(
            "The same losses in one comparison",
            prose("""
                Full precision, every method with its first settings, and ten epochs without gain end a run, so figures
                are lower; only differences within this table count. A difference has a 95 % interval over test rows,
                and p is that of a t-test over seeds. No energy reaches soft IoU."""),
            WEIZMANN.brief(),
        ),
        section(
            "Street scenes of eleven classes",
            prose("""
                CamVid at 240 x 180 pixels, 367 / 101 / 233 images. The FCN trains on crops of 96 x 96 and predicts
                whole images, for at most 80 epochs. No energy gains over Dice or soft IoU. The seeds of a method differ
                more than most methods do. The test images are frames of two videos, so intervals over rows are too
                narrow."""),
            CAMVID.brief(),
        ),
        archived("weizmann", "camvid", "digits"),
    )


def _by_default(way: str) -> str:
    return runs.figure(runs.of_defaults("weizmann", way), "test_mean_iou_tuned")


LOSSES_OF_OUTPUTS = list(itertools.product(("cal500", "genbase", "bibtex"), ("margin", "regression")))


def of_outputs() -> list[tuple[str, str, runs.Runs, runs.Runs]]:
    """Data, loss, and its runs without and with implicit gradients, of losses that read the task-net's output."""
    found = []
    for data, loss in LOSSES_OF_OUTPUTS:
        without, within = (runs.of_recipe(f"{data}_nce_{loss}{end}") for end in ("", "_implicit"))
        found += [(data, loss, without, within)] if without.keys() & within.keys() else []
    return found


def gains_of_outputs(key: str) -> list[runs.Gain]:
    return [gain for _, _, without, within in of_outputs() if (gain := runs.gain(within, without, key))]


def range_of_outputs(key: str) -> str:
    means = [gain.mean for gain in gains_of_outputs(key)]
    return f"{min(means):+.1f} to {max(means):+.1f}"


def beside_in_short() -> str:
    half, calibrated = range_of_outputs(runs.AT_HALF), range_of_outputs(runs.CALIBRATED)
    return (
        f"Beside them the term is felt: it changes F1 by {half} points at 0.5. Decided by calibrated expected F1, "
        f"{calibrated} are left, so there is no reason to pay for it there either."
    )


def damped() -> str:
    """The gains on cal500 with other dampings, calibrated."""
    found = []
    for loss, damping in itertools.product(("margin", "regression"), ("0.1", "10")):
        within, without = (runs.of_recipe(f"cal500_nce_{loss}{end}") for end in (f"_implicit_{damping}", ""))
        if gain := runs.gain(within, without, runs.CALIBRATED):
            found.append(f"{gain} ({loss}, {damping})")
    return ", ".join(found)


def beside_margin() -> list[list[str]]:
    rows = []
    gains = zip(gains_of_outputs(runs.AT_HALF), gains_of_outputs(runs.CALIBRATED), strict=True)
    for (data, loss, without, within), (half, calibrated) in zip(of_outputs(), gains, strict=True):
        cosine = f"{statistics.mean(run['train_hypergradient_cosine'] for run in within.values()):.2f}"
        figures = [
            runs.figure(without, runs.AT_HALF),
            str(half),
            runs.figure(without, runs.CALIBRATED),
            str(calibrated),
        ]
        rows.append([data, loss, str(half.seeds), cosine, *figures])
    return rows


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


def least_cosine() -> float:
    """The smallest cosine between the gradients without and with the implicit term, of the runs that recorded it."""
    recorded = (run.get("train_hypergradient_cosine") for name in PAIRS for run in runs.of_recipe(name).values())
    return min(cosine for cosine in recorded if cosine is not None)


def implicit() -> str:
    rows = []
    for name, other in implicit_pairs().items():
        title, key = PAIRS[name]
        ours, theirs = runs.of_recipe(name), runs.of_recipe(other)
        figures = [runs.figure(found, key) for found in (theirs, ours)]
        gain = runs.gain(ours, theirs, key)
        rows.append([f"`{name}`", title, str(len(ours)), *figures, *runs.gain_cells(gain)])
    return page(
        "Implicit gradients",
        prose(f"""
            A hypergradient takes into account how the task-net will answer to the loss-net. Each row compares the same
            run without and with it; both train by contrastive divergence (recipes `NAME_contrastive_divergence` and
            `NAME_implicit`). {FIGURES}

            **In short.** Beside contrastive divergence they change nothing but the time. In the runs that recorded it,
            the gradient with the implicit term has a cosine of at least {least_cosine():.4f} to the one without it, so
            a row compares a method with itself. Its samples carry no gradient, and only one of its candidates depends
            on the task-net. Margin and regression depend on the task-net's output. {beside_in_short()}"""),
        section(
            "Beside margin and regression",
            prose(f"""
                λ1 is 1, the damping of the conjugate gradients 1, all else as in the recipe for NCE. *Cosine* is that
                between the loss-net's gradients without and with the implicit term. Figures are F1 of the runs without
                it, differences those of the runs with it. Other dampings say the same on cal500, calibrated:
                {damped()}. The runs are lines of `benchmarks/papers.txt`."""),
            table(
                ["data", "loss", "seeds", "cosine", "at 0.5", "difference", "calibrated", "difference"],
                beside_margin(),
            ),
        ),
        section(
            "Beside contrastive divergence",
            table(["runs", "figure", "seeds", "without", "with", "difference", "seeds ahead"], rows),
            beside("implicit"),
        ),
        archived("bibtex", "cal500", "genbase", "delicious", "twitter_pos", "wnut17", "weizmann", "cora"),
    )


def all_pages() -> dict[str, str]:
    return {"tags": tags(), "roles": roles(), "masks": masks(), "implicit-gradients": implicit()}
