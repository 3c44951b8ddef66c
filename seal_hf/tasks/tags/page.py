"""Tags in the page of a run: figures by type, what is confused with what, sentences with their errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from markupsafe import Markup

from ...core.tag_schemes import PREDICATE, scheme_of, spans
from ...data.tensors.words import WordRows
from ...reports.common import place
from ...reports.page import Plot, Section, Table
from ...reports.plots import colour, points, svg
from ...training.base import StructuredTrainer
from ...training.evaluation import energies, has_energies
from .metrics import TagErrors, Tags, broken_steps, repeated_core_roles, tag_errors, tag_report

# Tagged sentences in a page: gold spans above the words, decided spans below them, errors marked.

MOST_WORDS, MOST_LETTERS = 80, 60  # of a sentence, of a word
BEFORE = 10  # words before the first error of a sentence that is cut
LEGEND = (
    "Above the words stand gold spans, below them the decided ones. ✗ and a dashed red line mark a span that the other "
    "side lacks: above, it is missed; below, it is wrong."
)
PLAIN_LEGEND = (
    "Below the words stand the decided tags. ✗ and a dashed red line mark wrong ones; above those stands the gold tag."
)
WORD = Markup('<span class="word">{}<span class="text{}">{}</span>{}</span>')
LABEL = Markup('<span class="label {}">{}</span>')
NO_LABEL = LABEL.format("", "")


def sentence_facts(
    words: Sequence[str],
    predicted: Sequence[str],
    gold: Sequence[str],
    kind: str,
    scheme: str,
    predicate: int | None = None,
) -> dict[str, Any]:
    """A sentence and its spans, for `_report.json`. Of a long one, only the words around its first error are kept.

    Args:
        words, predicted, gold: T words and their tags.
        kind: as for `tag_metrics`.
        scheme: of the tags.
        predicate: the place of the predicate.

    Returns:
        `words`; `left_out`, the number of words before and after them; `gold` and `decided`, lists of spans (type,
        first word, word after the last, False if it is an error: the other side lacks it); `predicate`. Plain tags are
        spans too: equal neighbours are one span, and `gold` holds only what stands beside an error.
    """
    true, decided = _plain_spans(predicted, gold) if kind == "plain" else _spans(predicted, gold, kind, scheme)
    wrong = [begin for _, begin, _, right in [*true, *decided] if not right]
    first = 0 if len(words) <= MOST_WORDS else max(min([*wrong, len(words)]) - BEFORE, 0)
    last = min(first + MOST_WORDS, len(words))

    def kept(found: Sequence[Any]) -> list[list[Any]]:
        inside = [span for span in found if span[1] < last and span[2] > first]
        return [[name, max(begin, first) - first, min(end, last) - first, right] for name, begin, end, right in inside]

    return {
        "words": [short(word) for word in words[first:last]],
        "left_out": [first, len(words) - last],
        "gold": kept(true),
        "decided": kept(decided),
        "predicate": None if predicate is None else predicate - first,
    }


def _spans(predicted: Sequence[str], gold: Sequence[str], kind: str, scheme: str) -> tuple[list[Any], list[Any]]:
    given = PREDICATE if kind == "srl" else None
    true, decided = ([span for span in spans(tags, scheme) if span.type != given] for tags in (gold, predicted))
    return [(*span, span in decided) for span in true], [(*span, span in true) for span in decided]


def _plain_spans(predicted: Sequence[str], gold: Sequence[str]) -> tuple[list[Any], list[Any]]:
    runs, begin = [], 0
    for pair, run in groupby(zip(gold, predicted, strict=True)):
        end = begin + len(list(run))
        runs.append((*pair, begin, end))
        begin = end
    missed = [(true, begin, end, True) for true, decided, begin, end in runs if true != decided]
    return missed, [(decided, begin, end, true == decided) for true, decided, begin, end in runs]


def short(word: str) -> str:
    """A word, cut so that it fits a line."""
    return word if len(word) <= MOST_LETTERS else f"{word[: MOST_LETTERS - 1]}…"


def sentences_html(sentences: Sequence[tuple[str, Mapping[str, Any]]]) -> Markup:
    """Sentences as HTML, with a line of text above each.

    Args:
        sentences: the line, and the facts of [`sentence_facts`].
    """
    one = Markup('<div class="sentence"><p class="more">{}</p><p class="words">{}</p></div>')
    return Markup("\n").join(one.format(line, _words(facts)) for line, facts in sentences)


def _words(facts: Mapping[str, Any]) -> Markup:
    words, (before, after) = facts["words"], facts["left_out"]
    above, below = (_labels(facts[side], side, words) for side in ("gold", "decided"))
    found = [
        WORD.format(above[i], " predicate" if i == facts["predicate"] else "", word, below[i])
        for i, word in enumerate(words)
    ]
    gaps = [[WORD.format(NO_LABEL, "", f"… {count} words", NO_LABEL)] * (count > 0) for count in (before, after)]
    return Markup("").join([*gaps[0], *found, *gaps[1]])


def _labels(found: Sequence[Any], side: str, words: Sequence[str]) -> list[Markup]:
    """What stands above or below each word: nothing, or a line, at a span's first word with the span's name. The name
    may reach over the words of its span; if it is longer, it widens the first."""
    labels = [NO_LABEL] * len(words)
    for name, begin, end, right in found:
        text, room = ("" if right else "✗ ") + name, sum(len(word) + 1 for word in words[begin:end])
        for i in range(begin, end):
            classes = [side, "in", *["error"] * (not right), *["last"] * (i == end - 1), *["over"] * (len(text) < room)]
            labels[i] = LABEL.format(" ".join(classes), text if i == begin else "")
    return labels


MOST_SENTENCES, MOST_REPEATED = 30, 6
MOST_TYPES, MOST_BARS, MOST_NAMED, MOST_PAIRS = 30, 20, 8, 200
OTHER_WORDS, MISSED, SPURIOUS = "other words", "missed", "spurious"


def tag_facts(
    predicted: Tags,
    gold: Tags,
    dataset: Dataset,
    kind: str,
    label_names: Sequence[str],
    origin: Callable[[int], Mapping[str, Any]] = lambda row: {"row": row},
    energies_of: Callable[[Sequence[int]], Sequence[Sequence[float]]] = lambda rows: [],
) -> dict[str, Any]:
    """What the page shows of the decisions on a split, for `_report.json`. It keeps few sentences, so it stays small.

    Args:
        predicted, gold: N tag sequences.
        dataset: N rows with `words`, and perhaps `predicate`.
        kind, label_names: the data's.
        origin: the number of a row -> where it came from.
        energies_of: numbers of rows -> E(gold) and E(decided) of each, or nothing.
    """
    errors, scheme = tag_errors(predicted, gold, kind, label_names), scheme_of(label_names)

    def sentences(rows: Sequence[int]) -> list[dict[str, Any]]:
        found = []
        for row in rows:
            words, predicate = dataset[row]["words"], dataset[row].get("predicate")
            shown = sentence_facts(words, predicted[row], gold[row], kind, scheme, predicate)
            found.append({"origin": origin(row), "errors": int(errors.by_row[row]), **shown})
        for one, pair in zip(found, energies_of(rows), strict=False):
            one |= {"energies": pair} if all(map(math.isfinite, pair)) else {}
        return found

    wrong = np.flatnonzero(errors.by_row)
    worst = wrong[np.argsort(-errors.by_row[wrong], kind="stable")]
    facts = {
        "kind": kind,
        "sequences": len(gold),
        "with_errors": len(wrong),
        "types": type_facts(errors, tag_report(predicted, gold, kind)),
        "confusion": confusion_facts(errors),
        "sentences": sentences(worst[:MOST_SENTENCES].tolist()),
    }
    if kind != "plain":
        facts["broken"] = broken_facts(predicted, dataset, label_names)
    if kind == "srl":
        decided, true = (repeated_core_roles(tags, scheme) for tags in (predicted, gold))
        roles = [(role, len(decided.get(role, ())), len(true.get(role, ()))) for role in sorted({*decided, *true})]
        rows = sorted(set().union(*decided.values()))
        facts["repeated"] = {
            "roles": [{"role": role, "decided": ours, "gold": theirs} for role, ours, theirs in roles],
            "propositions": len(rows),
            "sentences": sentences(rows[:MOST_REPEATED]),
        }
    return facts


def type_facts(errors: TagErrors, report: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """The figures of each type, as in the closing table, and what became of its gold spans or tags."""
    counts, size, found = errors.counts, len(errors.names), []
    for i, name in enumerate(errors.names):
        right, other = int(counts[i, i]), int(counts[i, :size].sum() - counts[i, i])
        became = {"right": right, "other type" if len(counts) > size else "other tag": other}
        if len(counts) > size:
            became |= {OTHER_WORDS: int(counts[i, size]), MISSED: int(counts[i, size + 1])}
            became |= {SPURIOUS: int(counts[size + 1, i])}
        found.append({"type": name, **report[name], **became})
    return found


def confusion_facts(errors: TagErrors) -> dict[str, Any]:
    """The counts of the most frequent types, and of the pairs of types that are confused most."""
    counts, size = errors.counts, len(errors.names)
    often = np.argsort(-(counts.sum(0) + counts.sum(1))[:size], kind="stable")[:MOST_TYPES]
    shown = sorted(often.tolist())
    kept = [*shown, *range(size, len(counts))]
    between = counts[:size, :size] * ~np.eye(size, dtype=bool)
    most = np.argsort(-between, axis=None, kind="stable")[: min(MOST_PAIRS, np.count_nonzero(between))]
    pairs = [(errors.names[pair // size], errors.names[pair % size], int(between.flat[pair])) for pair in most]
    return {
        "names": [errors.names[i] for i in shown],
        "counts": counts[np.ix_(kept, kept)].tolist(),
        "left_out": size - len(shown),
        "pairs": [{"gold": true, "decided": decided, "count": count} for true, decided, count in pairs],
    }


def broken_facts(predicted: Tags, dataset: Dataset, label_names: Sequence[str]) -> dict[str, Any]:
    """The steps that break the scheme, each with an example."""
    steps, sequences = broken_steps(predicted, label_names)
    found = []
    for step in steps[:MOST_PAIRS]:
        around = slice(max(step.word - 2, 0), step.word + 2)
        pairs = zip(dataset[step.row]["words"][around], predicted[step.row][around], strict=True)
        example = " ".join(f"{short(word)}/{tag}" for word, tag in pairs)
        found.append({"before": step.before, "after": step.after, "count": step.times, "example": example})
    return {"sequences": sequences, "steps": found}


def tag_energies(
    trainer: StructuredTrainer, rows: WordRows, predicted: Tags, which: Sequence[int]
) -> list[list[float]]:
    """E(gold) and E(decided) of some rows; empty if they cannot be computed, see [`energies`].

    Args:
        trainer: a [`SealTrainer`].
        rows: all rows of the split, as the nets read them.
        predicted: their decided tags.
        which: the numbers of rows.
    """
    if not has_energies(trainer):
        return []
    space: Any = trainer.space
    ids, found = {name: i for i, name in enumerate(space.label_names)}, []
    for row in which:  # one by one: they may be long
        batch = rows.batch([row])
        labels = batch["labels"]
        tags = [ids[tag] for tag in predicted[row][: int((labels >= 0).sum())]]  # the others were cut off
        decided = labels.masked_scatter(labels >= 0, labels.new_tensor(tags))
        gold, mask = space.gold(labels)
        pair = energies(trainer, batch, torch.stack([gold, trainer.space.gold(decided)[0]], dim=1), mask)
        found += pair or []
    return found


# --- sections --------------------------------------------------------------------------------------------------------


def tag_sections(facts: Mapping[str, Any], folder: Path) -> list[Section]:
    """The sections for [`tag_facts`], to which `split`, its name for readers, was added."""
    return [
        types_section(facts),
        confusion_section(facts),
        sentences_section(facts),
        broken_section(facts),
        repeated_section(facts),
    ]


def _what(facts: Mapping[str, Any]) -> str:
    return "tag" if facts["kind"] == "plain" else "span"


def types_section(facts: Mapping[str, Any]) -> Section:
    """The section on figures by type."""
    rows, what = sorted(facts["types"], key=lambda row: -row["support"]), _what(facts)
    kind = "tag" if what == "tag" else "type"
    outcomes = [name for name in ("right", "other type", "other tag", OTHER_WORDS, MISSED) if rows and name in rows[0]]
    often = [row for row in rows if row["support"]]
    caption = f"Each gold {what} by what became of it."
    if what == "span":
        caption += (
            f" {OTHER_WORDS.capitalize()}: a decided span overlaps it, but begins or ends elsewhere. "
            f"{MISSED.capitalize()}: none overlaps it. Many {OTHER_WORDS} are an issue of boundaries, many "
            f"{MISSED} one of recall."
        )
    parts: list[Any] = []
    if often:
        by_frequency = (
            f"Each {kind} by its frequency; those with most errors are named. If only the rare ones are low, more rows "
            "would help. A frequent one that is low needs a look at its sentences."
        )
        parts += [Plot(became_plot(often[:MOST_BARS], outcomes), caption), Plot(support_plot(often), by_frequency)]
    names = {"type": kind, "f1": "F1"}
    order = ("type", "support", "f1", "precision", "recall", *outcomes, SPURIOUS)
    shown = [{names.get(name, name): row[name] for name in order if name in row} for row in rows]
    table = Table(shown, f"The figures of the closing table, and the numbers of gold {what}s. Click a column to sort.")
    return Section(f"By {kind}, {facts['split']}", [*parts, table])


def became_plot(rows: Sequence[Mapping[str, Any]], outcomes: Sequence[str]) -> Markup:
    """A plot with a bar for each type, divided by what became of its gold spans or tags."""

    def draw(axes: Any) -> None:
        places, left = range(len(rows)), np.zeros(len(rows))
        for number, outcome in enumerate(outcomes):
            share = np.array([row[outcome] / row["support"] for row in rows])
            axes.barh(places, share, left=left, height=0.7, color=colour((0, 1, 4, 5)[number]), label=outcome)
            left += share
        axes.set_yticks(places, [f"{short(row['type'])} ({row['support']:,})" for row in rows])
        axes.invert_yaxis()
        axes.set(xlabel="share of gold", xlim=(0, 1))
        axes.grid(axis="y", visible=False)

    return svg(draw, height=1.1 + 0.2 * len(rows))


def support_plot(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """A plot of the F1 of each type against its frequency."""
    support, f1 = ([row[name] for row in rows] for name in ("support", "f1"))
    worst = sorted(range(len(rows)), key=lambda i: rows[i]["right"] - rows[i]["support"])[:MOST_NAMED]
    names, is_wide = {i: short(rows[i]["type"]) for i in worst}, max(support) > 10 * min(support)
    return points(support, f1, "number in gold", "F1", logarithmic_x=is_wide, names=names)


def confusion_section(facts: Mapping[str, Any]) -> Section:
    """The section on types that were decided in place of others."""
    found, what = facts["confusion"], _what(facts)
    if not found["names"]:
        return Section("Confusion")
    caption = "Rows are gold, columns are decided. The shade is the share of the row, blue where it is right."
    if what == "span":
        caption += (
            " Two spans are compared if their words are the same. The last columns hold gold spans without such a "
            "partner, the last rows decided ones."
        )
    if found["left_out"]:
        caption += f" The {len(found['names'])} most frequent types; {found['left_out']} are left out."
    support = {row["type"]: row["support"] for row in facts["types"]}
    pairs = [{**pair, "share of gold": pair["count"] / max(support[pair["gold"]], 1)} for pair in found["pairs"]]
    parts: list[Any] = [Plot(heat_map(found, what == "span"), caption, wide=True)]
    if pairs:
        parts.append(Table(pairs, f"The {what}s that are confused most."))
    return Section("Confusion", parts)


def heat_map(found: Mapping[str, Any], is_of_spans: bool) -> Markup:
    """The counts as a table with shaded cells."""
    names = found["names"]
    rows = [*names, OTHER_WORDS, SPURIOUS] if is_of_spans else names
    columns = [*names, OTHER_WORDS, MISSED] if is_of_spans else names
    head = Markup("").join(Markup('<th scope="col"><span>{}</span></th>').format(short(name)) for name in columns)
    body = Markup("")
    for i, (name, counts) in enumerate(zip(rows, found["counts"], strict=True)):
        body += Markup('<tr><th scope="row">{}</th>').format(short(name))
        for j, count in enumerate(counts):
            if not count:
                body += Markup("<td></td>")
                continue
            of = "hit" if i == j and i < len(names) else "miss"
            body += Markup('<td class="{}" style="--share: {:.0f}%">{:,}</td>').format(
                of, 100 * count / sum(counts), count
            )
        body += Markup("</tr>\n")
    return Markup(
        '<div class="scroll fit"><table class="heat"><thead><tr><th>gold \\ decided</th>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(head, body)


def sentences_section(facts: Mapping[str, Any]) -> Section:
    """The section on the sentences with most errors."""
    found = facts["sentences"]
    if not found:
        return Section("Sentences with errors", ["Every decided sequence is that of gold."])
    text = (
        f"{facts['with_errors']:,} of {facts['sequences']:,} sequences have an error. Shown are the {len(found)} with "
        f"most errors. {LEGEND if facts['kind'] != 'plain' else PLAIN_LEGEND}"
    )
    parts: list[Any] = [text]
    pairs = [one["energies"] for one in found if "energies" in one]
    if pairs:
        lower = sum(gold < decided for gold, decided in pairs)
        parts.append(
            f"E is the energy; lower is better. Gold has the lower one in {lower} of these {len(pairs)} sentences. "
            "There the energy knows better than the task-net; elsewhere it prefers the errors, too."
        )
    return Section(
        "Sentences with errors", [*parts, Plot(sentences_html([(_line(one), one) for one in found]), "", wide=True)]
    )


def _line(sentence: Mapping[str, Any]) -> str:
    """The line above a sentence: where it is from, how many errors it has."""
    errors = sentence["errors"]
    parts = [place(sentence["origin"]), f"{errors} error{'s' if errors != 1 else ''}"]
    if "energies" in sentence:
        gold, decided = sentence["energies"]
        parts.append(f"E(gold) {gold:.4g} {'<' if gold < decided else '≥'} E(decided) {decided:.4g}")
    return " · ".join(parts)


def broken_section(facts: Mapping[str, Any]) -> Section:
    """The section on decided sequences that break the scheme."""
    found = facts.get("broken")
    if found is None:
        return Section("Broken sequences")
    text = f"{found['sequences']:,} of {facts['sequences']:,} decided sequences break the scheme of the tags."
    if not found["sequences"]:
        return Section("Broken sequences", [text])
    text += " Only their well-formed spans count. --constrained_decoding true decides within the scheme."
    edges = {"before": "the beginning", "after": "the end"}
    rows = [{**step, **{name: step[name] or edge for name, edge in edges.items()}} for step in found["steps"]]
    shown = [
        {"after": row["before"], "comes": row["after"], "count": row["count"], "example": row["example"]}
        for row in rows
    ]
    return Section(
        "Broken sequences", [text, Table(shown, "The steps that the scheme forbids, with the words around.")]
    )


def repeated_section(facts: Mapping[str, Any]) -> Section:
    """The section on core roles that occur twice in a proposition."""
    found = facts.get("repeated")
    if found is None:
        return Section("Repeated roles")
    text = (
        f"{found['propositions']:,} of {facts['sequences']:,} decided propositions have two spans of one core role. "
        "A proposition should have each core role at most once."
    )
    parts: list[Any] = [text]
    if found["roles"]:
        parts.append(Table(found["roles"], "Propositions that repeat each role, decided and in gold."))
    if found["sentences"]:
        lines = [(_line(one), one) for one in found["sentences"]]
        parts.append(Plot(sentences_html(lines), f"The first {len(lines)} of them.", wide=True))
    return Section("Repeated roles", parts)
