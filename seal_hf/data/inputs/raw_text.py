"""Raw text split into words.

A word is
* letters that each have a full stop behind them, two or more: `U.K.`, `e.g.`;
* or a run of letters, digits and underscores, accents included, perhaps with a single `.`, `-`, `'` or `’`, or a joiner
  of scripts that have them, between two such runs: `10.5`, `e-mail`, `don't`;
* or `'s` behind a word, as most English data has it: `John` and `'s`;
* or any other single character that is no white space: `,`, `%`, an emoji.

Text in a script without blanks between words, such as Chinese, must be split before.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache


def split_words(text: str) -> list[tuple[int, int]]:
    """Start and end of each word of a text, in characters: word i is `text[start:end]`."""
    return [match.span() for match in _pattern().finditer(text)]


@cache
def _pattern() -> re.Pattern[str]:
    # \w has no combining characters: accents that stand by themselves, vowel signs of Indic scripts
    marks = "".join(char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char)[0] == "M")
    run = rf"[\w{marks}]+"
    joined = rf"(?!['’]s\b)[-.'’\u200c\u200d]{run}"
    return re.compile(rf"(?:[^\W\d_]\.){{2,}}|{run}(?:{joined})*|(?<=[\w.])['’]s\b|\S")
