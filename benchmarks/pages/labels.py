"""The pages on label sets: of features, and of texts."""

from __future__ import annotations

from . import label_recipes, text_screens, text_views
from . import label_tables as tables
from .markdown import archived, page, prose, section

FIGURES = """
    Figures are test example F1 in percent, mean ± standard deviation over seeds: F1 between the predicted and the gold
    labels of a row, averaged over rows. A difference is paired by seed, in points, and *seeds ahead* counts the seeds
    with a gain."""


def features() -> str:
    of_bibtex, of_seq_fun = map(tables.gain_with_linear, ("bibtex", "seq_fun"))
    return page(
        "Label sets of features",
        prose(f"""
            Six public data sets with features, for which the task-net is a small MLP. {FIGURES}

            **In short.** Fit a decision first: it gives most. Then a loss-net with its own settings searched adds half
            a point to a point on bibtex and seq_fun, and nothing on the other four."""),
        section(
            "What the decision gives",
            prose("""
                The same tuned cross-entropy, decided by a cut at 0.5, by one threshold, and by calibrated expected F1;
                the last two are fitted on validation rows in seconds. `genbase_id` and `spo_fun_root` have the inputs
                and labels of the papers. Published figures are those of Lee et al. 2022 at 0.5, on folds of their own,
                so they are no test of ours."""),
            tables.decided(),
        ),
        section(
            "What a loss-net adds to a tuned model",
            prose("""
                Cross-entropy was tuned first: learning rate and dropout by 20 trials and three seeds (5 trials on
                delicious). A loss-net kept these and had ten trials for its own settings. A row is what validation
                chooses. On a data set without a row it chooses cross-entropy."""),
            tables.beside(chosen=True),
            prose("""
                `nce_balanced` is NCE with λ1 as a share of cross-entropy's gradient (`--energy_weight_balance true`).
                `nce_balanced_cheap` has fewer samples, a smaller global term and a loss-net step every second step
                (`--num_samples 5 --global_size 50 --loss_net_every 2`)."""),
            prose(f"""
                With a [logistic regression in both nets](defaults.md#beside-a-logistic-regression), `nce_balanced` is
                ahead of cross-entropy by {of_bibtex} on bibtex and by {of_seq_fun} on
                seq_fun, calibrated, with the settings of the recipes."""),
        ),
        section(
            "The same search for every method",
            prose("""
                Here every method had 20 trials with three seeds (delicious: 5 with one) over all its settings. A
                loss-net has four to search and cross-entropy two, so equal trials favour cross-entropy. A cell is what
                validation chooses of its group, under one threshold. The difference is to the method without a
                loss-net that is best on test, with a 95 % interval over test rows."""),
            tables.equal_search(),
        ),
        section(
            "Is the gain made of dependencies between labels?",
            prose("""
                Without its global term (`--global_size 0`) the energy judges each label alone; `--energy pairwise`
                knows pairs. *Difference* is the whole energy less the other one. Without the global term it is within
                its spread: with the settings of these recipes the gain does not come from dependencies."""),
            label_recipes.parts(),
        ),
        archived(*tables.SETS),
    )


def texts() -> str:
    return page(
        "Label sets of texts",
        prose(f"""
            Texts under MiniLM, a small sentence encoder. {FIGURES} But for soft F1, encoder and
            classifier have one rate here; the classifier's [own rate](defaults.md#the-rate-of-a-fresh-head) is
            newer.

            **In short.** Beside a fine-tuned encoder no loss-net gains. The rate, and what the classifier reads of a
            text, are worth more than any loss."""),
        section(
            "Fine-tuned",
            prose("""
                MiniLM on the first 2,000 rows (go_emotions: 8,000) for 4 epochs, read as the mean of its tokens. Every
                second net has a search of three trials for its weight and rate. The default notices that nothing is
                to be gained: 17 of its 20 runs left λ1 at 0. Intervals are from a bootstrap over data sets."""),
            text_screens.in_short(),
        ),
        section(
            "Soft F1 beside cross-entropy",
            prose(f"""
                Soft F1 is the default for texts. {label_recipes.soft_f1_weights()} The first 1,000 rows, without a
                loss-net (`--loss ce`), with all else as in a run without flags. The figure is the F1 of the calibrated
                expected F1. At 0.5 the gains are larger: {label_recipes.soft_f1_at_half()}.
                {label_recipes.soft_f1_with_few()} {label_recipes.soft_f1_on_features()}"""),
            label_recipes.soft_f1(),
            prose("""
                Second nets beside soft F1, and task losses in place of it, less soft F1 alone. `seen_sets` is a
                softmax over the label sets that occur in training (`benchmarks/seen_sets.py`). The package does not
                have it."""),
            label_recipes.instead_of_soft_f1(),
        ),
        section(
            "What the nets read of a text",
            prose("""
                Does a second net teach because of what it is, or because it sees more? The encoder is frozen, and
                every second net has λ1 = 2 and a rate of 2e-4. Where both nets read the first token, none gains. Where
                the loss-net reads the mean of all tokens, both gain. Let the classifier itself read the mean, and
                cross-entropy alone is ahead of all of these."""),
            text_views.in_short(),
        ),
        section(
            "A larger encoder, all rows",
            prose("""
                mpnet-base with LoRA of rank 16, 5 epochs over all 6,838 rows of semeval2018_ec, in bf16, each method
                with one setting, at one threshold. No second net improves on its own baseline by more than the spread.
                Micro F1 is about that of SpanEmo, its Jaccard is not reached."""),
            text_screens.larger(),
        ),
        archived("xed_en", "brighter_eng", *label_recipes.TEXTS),
    )


def all_pages() -> dict[str, str]:
    return {"labels": features(), "texts": texts()}
