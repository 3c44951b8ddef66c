"""Reports on a trained parser: what the page of a run shows, how tags are judged as trees, and model cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from markupsafe import Markup

from ...core.tag_schemes import Span
from ...core.trees import tree_spans
from ...data.brackets import tags_to_tree
from ...data.tensors.words import WordRows
from ...reports.card_kinds import ADAPTERS_LIBRARY, OURS, PEFT_LIBRARY, CardKind
from ...reports.common import place
from ...reports.page import Plot, Section, Table
from ...training.base import StructuredTrainer
from ..tags.cards import TAGS
from ..tags.decisions import INDEPENDENT, VITERBI
from ..tags.metrics import Tags
from ..tags.report import Judged
from .metrics import label_report, tree_metrics

MOST_TREES, MOST_WORDS, MOST_LETTERS = 12, 40, 60


def tree_facts(
    predicted: Tags,
    gold: Tags,
    dataset: Dataset,
    by_label: Mapping[str, Mapping[str, float]],
    origin: Callable[[int], Mapping[str, Any]] = lambda row: {"row": row},
) -> dict[str, Any]:
    """What the page shows of the decisions on a split, for `_report.json`.

    Args:
        predicted, gold: N tag sequences.
        dataset: N rows with `words`.
        by_label: figures of each label.
        origin: the number of a row -> where it came from.
    """
    trees = [(tree_spans(true), tree_spans(decided)) for true, decided in zip(gold, predicted, strict=True)]
    errors = [
        ((Counter(true) - Counter(decided)) + (Counter(decided) - Counter(true))).total() for true, decided in trees
    ]
    wrong = sorted((row for row, count in enumerate(errors) if count), key=lambda row: -errors[row])
    short = [row for row in wrong if len(gold[row]) <= MOST_WORDS] or wrong
    shown = [short[i * len(short) // MOST_TREES] for i in range(MOST_TREES)] if len(short) > MOST_TREES else short
    return {
        "trees": len(gold),
        "with_errors": len(wrong),
        "labels": [{"label": label, **figures} for label, figures in by_label.items()],
        "sentences": [
            {"origin": dict(origin(row)), "errors": errors[row], **_outlines(dataset[row]["words"], *trees[row])}
            for row in shown
        ],
    }


def _outlines(words: Sequence[str], gold: Sequence[Span], decided: Sequence[Span]) -> dict[str, list[list[Any]]]:
    """Both trees as lines: depth, label, words, False for an error: the other tree lacks the constituent."""
    return {"gold": _outline(words, gold, decided), "decided": _outline(words, decided, gold)}


def _outline(words: Sequence[str], spans: Sequence[Span], others: Sequence[Span]) -> list[list[Any]]:
    left, lines, ends = Counter(others), [], list[int]()
    for span in spans:
        while ends and ends[-1] <= span.start:
            ends.pop()
        text = " ".join(words[span.start : span.end])
        right = left[span] > 0
        left[span] -= right
        lines.append(
            [len(ends), span.type, text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…", right]
        )
        ends.append(span.end)
    return lines


# --- sections --------------------------------------------------------------------------------------------------------


def tree_sections(facts: Mapping[str, Any], folder: Path) -> list[Section]:
    """The sections for [`tree_facts`], to which `split`, its name for readers, and `notes` on how files were split were
    added."""
    names = {"f1": "F1", "support": "in gold"}
    rows = [{names.get(name, name): value for name, value in row.items()} for row in facts["labels"]]
    caption = "Labelled brackets without punctuation and root, as evalb counts them. Click a column to sort."
    labels = Section(f"By label, {facts['split']}", [*facts["notes"], Table(rows, caption)])
    return [labels, _sentences(facts)]


def _sentences(facts: Mapping[str, Any]) -> Section:
    found, title = facts["sentences"], "Trees, gold and decided"
    if not found:
        return Section(title, ["Every decided tree is that of gold."])
    text = (
        f"{facts['with_errors']:,} of {facts['trees']:,} trees have an error. Shown are {len(found)} of them, from "
        "many errors to few. Each line is a constituent and its words, with punctuation; ✗ marks one that the other "
        "tree lacks."
    )
    one = Markup('<div class="sentence"><p class="more">{}</p>{}</div>')
    parts = [
        one.format(f"{place(tree['origin'])} · {tree['errors']} constituents differ", _both(tree)) for tree in found
    ]
    return Section(title, [text, Plot(Markup("\n").join(parts), "", wide=True)])


def _both(tree: Mapping[str, Any]) -> Markup:
    """The two trees, one below the other."""
    one = Markup("<pre>{}\n{}</pre>")
    return Markup("").join(one.format(side, _text(tree[side])) for side in ("gold", "decided"))


def _text(lines: Sequence[Sequence[Any]]) -> str:
    heads = [f"{'  ' if right else '✗ '}{'  ' * depth}{label}" for depth, label, _, right in lines]
    width = max(map(len, heads), default=0)
    return "\n".join(f"{head:<{width}}  {line[2]}" for head, line in zip(heads, lines, strict=True))


DECODED = {INDEPENDENT: "each tag by itself", VITERBI: "best sequence of the CRF"}
# key in the result files, without `eval_` or `test_` -> its name for readers
FIGURES = {
    "f1": "F1 of labelled brackets",
    "precision": "precision of labelled brackets",
    "recall": "recall of labelled brackets",
    "exact_match": "trees that match exactly",
    "accuracy": "accuracy of tags",
    **{f"f1_{decoder}": f"F1 of labelled brackets, {how}" for decoder, how in DECODED.items()},
}


def _page_facts(
    trainer: StructuredTrainer, data: Any, rows: WordRows, predicted: Tags, gold: Tags, origin: Any
) -> dict[str, Any]:
    by_label = label_report(predicted, gold, rows.data["pos"][:])
    notes = [note for note in data.notes if "split 80/10/10" in note]
    return {"notes": notes, **tree_facts(predicted, gold, rows.data, by_label, origin)}


TREES = Judged(
    "plain",
    FIGURES,
    ("f1",),
    figures=tree_metrics,
    report=label_report,
    page=_page_facts,
    files=("new.txt", "trees.mrg"),
    section="trees",
    unit="label",
    rows="trees",
    shown=tags_to_tree,
)


SEAL_TREES = """\
from seal_hf import SealForTokenClassification, tags_to_tree

model = SealForTokenClassification.from_pretrained($name, with_loss_net=False)
words = "a sentence to parse".split()
probabilities, tags = model.predict([words]$columns)
tree = tags_to_tree(words, tags[0])  # in brackets
"""

OF_TREES: dict[str, Any] = TAGS | {
    "plain": {},
    "seal": SEAL_TREES,
    "plainly": "Without `seal_hf`, each token gets its own likeliest tag, and no tree is made.",
    "task": "constituency parsing",
    "figures": FIGURES,
    "files": ("new.txt", "trees.mrg"),
}

CARDS = {
    "trees_tokens": CardKind(**OF_TREES),
    "trees_tokens_peft": CardKind(**OF_TREES | PEFT_LIBRARY),
    "trees_tokens_adapters": CardKind(**OF_TREES | ADAPTERS_LIBRARY),
    "trees_words": CardKind(**OF_TREES | OURS),
}
