"""What a run came to, in words: its score, whether its loss-net taught, and what to try next. `training/hints.py` forms
the sentences from the state of a run; the closing output, the card, the page and the demo show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..energy_losses import CROSS_ENTROPY
from ..utils.messages import printable

VERDICT = "verdict"  # entry of the task-net's config
MOST = 2  # things to try next
NEXT = "Next: "  # the start of such a sentence
LONGEST = 2000  # characters of a stored sentence that are shown


class Score(NamedTuple):
    """The figure of the saved decisions.

    Attributes:
        figure: its name for readers.
        values: split, in words -> its value; the last one counts most.
        decoder: the name of the decision rule; None if there is only one way to decide.
    """

    figure: str
    values: Mapping[str, float]
    decoder: str | None = None

    def in_words(self) -> str:
        *before, (split, value) = self.values.items()
        rest = "".join(f", {other:.4f} on {name} rows" for name, other in before)
        rule = "" if self.decoder is None else f"; the decision rule is {self.decoder}"
        return f"{self.figure[0].upper()}{self.figure[1:]}: {value:.4f} on {split} rows{rest}{rule}."


class Verdict(NamedTuple):
    """What a run came to.

    Attributes:
        taught: False if the loss-net never taught the task-net whose weights are kept, or if the run has no loss-net.
        sentences: on the score, on the loss-net, and on what to try next.
    """

    taught: bool
    sentences: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {"taught": self.taught, "sentences": list(self.sentences)}

    @classmethod
    def saved_in(cls, found: Mapping[str, Any]) -> Verdict | None:
        """The verdict in a saved configuration, as a mapping; None without one, or if it holds something else. Anyone
        may have written it: its sentences are made printable, and long ones are cut."""
        saved = found.get(VERDICT)
        if not isinstance(saved, Mapping):
            return None
        said = saved.get("sentences")
        if not isinstance(said, list) or not all(isinstance(each, str) for each in said):
            return None
        return cls(saved.get("taught") is not False, tuple(printable(each)[:LONGEST] for each in said[: 2 * MOST + 1]))


def called_by(loss: str | None, taught: bool) -> str | None:
    """The loss by which a model is called: `ce` if no loss-net taught it. None, for an energy network, stays."""
    return loss if taught or loss is None else CROSS_ENTROPY
