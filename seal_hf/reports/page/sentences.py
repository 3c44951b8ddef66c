"""Tagged sentences in a page: gold spans above the words, decided spans below them, errors marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from ...structures.tag_schemes import PREDICATE, spans

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
    """A word that fits a line."""
    return word if len(word) <= MOST_LETTERS else f"{word[: MOST_LETTERS - 1]}…"


def sentences_html(sentences: Sequence[tuple[str, Mapping[str, Any]]]) -> Markup:
    """Sentences with a line of text above each.

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
