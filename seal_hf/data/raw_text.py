"""Raw text split into words.

A word is
* two or more letters, each followed by a full stop: `U.K.`, `e.g.`;
* or a run of letters, digits and underscores, accents included, or several such runs joined by a single `.`, `-`, `'`
  or `’`, or by a script's joiner: `10.5`, `e-mail`, `don't`;
* or `'s` after a word, as in most English data: `John` and `'s`;
* or any other single character except white space: `,`, `%`, an emoji with its variation and the emoji joined to it.

Characters that are not seen, such as a zero-width space or a byte-order mark, belong to no word.

Split text in a script without blanks between words, such as Chinese, beforehand.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache


def split_words(text: str) -> list[tuple[int, int]]:
    """Start and end of each word of a text, in characters: word i is `text[start:end]`."""
    return [match.span() for match in _pattern().finditer(text)]


def find_words(text: str, words: Sequence[str]) -> list[tuple[int, int]] | None:
    """Start and end of each of these words in a text that contains them in this order; None in another text."""
    places, end = [], 0
    for word in words:
        start = text.find(word, end)
        if start < 0:
            return None
        end = start + len(word)
        places.append((start, end))
    return places


@cache
def _pattern() -> re.Pattern[str]:
    # \w lacks combining characters: separate accents, vowel signs of Indic scripts
    categories = {char: unicodedata.category(char) for char in map(chr, range(sys.maxunicode + 1))}
    marks = "".join(char for char, kind in categories.items() if kind[0] == "M")
    unseen = "".join(char for char, kind in categories.items() if kind in ("Cf", "Cc"))
    run = rf"\w[\w{marks}]*(?:\u00ad[\w{marks}]+)*"  # a soft hyphen is inside a word
    joined = rf"(?!['’]s\b)[-.'’\u200c\u200d]{run}"
    other = rf"[^\s{unseen}][{marks}\U0001f3fb-\U0001f3ff]*"
    return re.compile(rf"(?:[^\W\d_]\.){{2,}}|{run}(?:{joined})*|(?<=[\w.])['’]s\b|{other}(?:\u200d{other})*")
