"""What differs between cards of kinds of output and of saved models: each task has its own, `Task.cards`.

In a snippet, `$name` is the repository and `$base` the checkpoint that the model began from, as Python strings.
`$num_labels` and `$threshold` are numbers. `$cut` and `$columns` are further arguments of a tokenizer and of `predict`,
after a comma, or empty. `$piped`, `$tokenized` and `$given` are a text, or a pair, as input of a pipeline, a tokenizer
and `predict`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ..core.decisions import FIXED, THRESHOLD, Decisions
from ..core.task import Registry

CROSS_FITTED = """\
Five-fold cross-fitting on the validation rows chose it: numbers fitted on the other folds decided each fold. Only a
decoder that is clearly better there replaces the usual one."""


class CardKind(NamedTuple):
    """What differs between cards.

    Attributes:
        plain: decoder -> Python code that applies it, without `seal_hf` if possible.
        seal: Python code that applies any stored decoder with `seal_hf`.
        plainly: what other code does if `plain` lacks the decoder; "" if no other code loads the net.
        pipeline_tag, library_name: as the Hub knows them.
        task: what the model does, in words.
        figures: key of a figure, without its split -> its name for readers.
        decided: stored decoder -> keys of its figures; the first is the one that chooses it.
        baselines: figures that do not measure the model: the card has them, the model's results on the Hub do not.
        decisions: class that reads `config.decisions`; None if there are none.
        in_words: (decoder, `config.decisions`) -> how it decides.
        fitted: decoders with numbers that are fitted on validation rows.
        how_chosen: how validation chooses a decoder.
        unit: the name of a data row.
        files: example input and output of `seal-hf predict`.
        is_ours: True if the architecture is one of `seal_hf`.
        widget: texts that the model's page on the Hub offers to try.
    """

    plain: Mapping[str, str] = {}
    seal: str = ""
    plainly: str = ""
    pipeline_tag: str = ""
    library_name: str = "transformers"
    task: str = "structured prediction"
    figures: Mapping[str, str] = {}
    decided: Callable[[str], list[str]] = lambda decoder: []
    baselines: Collection[str] = frozenset()
    decisions: type[Decisions] | None = None
    in_words: Callable[[str, Mapping[str, Any]], str] = lambda decoder, decisions: ""
    fitted: Collection[str] = (THRESHOLD,)
    how_chosen: str = CROSS_FITTED
    unit: str = "row"
    files: tuple[str, str] = ("new.csv", "predictions.csv")
    is_ours: bool = False
    widget: Sequence[str] = ()

    def decoder(self, decisions: Mapping[str, Any]) -> str:
        """The stored decoder.

        Raises:
            ValueError: the decisions lack its numbers.
        """
        return FIXED if self.decisions is None else self.decisions.of_saved(decisions).named()

    def has_numbers(self, decoder: str) -> bool:
        """True if a decoder has numbers that were fitted on validation rows."""
        return decoder.partition("+")[0] in self.fitted  # behind a plus: what it does with empty sets

    def ordered_figures(self, decoder: str) -> dict[str, str]:
        """`figures`, with those of the stored decoder first."""
        first = {key: self.figures[key] for key in self.decided(decoder) if key in self.figures}
        return first | dict(self.figures)


OURS: dict[str, Any] = {"plain": {}, "plainly": "", "is_ours": True}
PEFT_LIBRARY: dict[str, Any] = {"library_name": "peft"}
ADAPTERS_LIBRARY: dict[str, Any] = {"library_name": "adapter-transformers"}
KINDS: Registry[CardKind] = Registry(lambda task: task.cards)


def cut_in_words(begin: str, decoder: str, decisions: Mapping[str, Any]) -> str:
    """How `fixed` or `threshold` decides; `begin` is what happens above the threshold."""
    tuned = decoder == THRESHOLD
    threshold = f"**{number(decisions['threshold'])}**, tuned on validation" if tuned else "0.5"
    return f"{begin} if its probability is at least {threshold}."


def number(value: float) -> str:
    """The shortest text of a number that keeps its value."""
    short = f"{value:g}"
    return short if math.isclose(float(short), value, rel_tol=1e-9) else repr(float(value))
