"""Published figures, which stand beside ours."""

from __future__ import annotations

import json

from results_store import ROOT

from .markdown import table

_FILE = json.loads((ROOT / "recipes" / "published.json").read_text(encoding="utf-8"))
FIGURES: dict[str, dict[str, str]] = _FILE["figures"]  # of label sets: method -> data -> F1 at 0.5


def beside(kind: str) -> str:
    """The published figures of a kind of recipes, with their source."""
    found = _FILE["beside"][kind]
    return f"Published by {found['source']}\n\n{table(found['head'], found['rows'])}"


def value(kind: str, row: str, column: int = 1) -> str:
    """A published figure by the first cell of its row."""
    return next(cells[column] for cells in _FILE["beside"][kind]["rows"] if cells[0] == row)
