"""What differs between the model cards of outputs, and of ways to save a model. Each task has its own, `Task.cards`.

In a snippet, `$name` is the repository and `$base` the checkpoint that the model began from, as Python strings.
`$num_labels` and `$threshold` are numbers. `$cut` and `$columns` are further arguments of a tokenizer and of `predict`,
after a comma, or empty. `$piped`, `$tokenized` and `$given` are a text, or a pair, as input of a pipeline, a tokenizer
and `predict`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from string import Template
from typing import Any, NamedTuple

from ..core.decisions import FIXED, THRESHOLD, Decisions
from ..core.task import Registry
from .common import predict_command

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


# A card's section on decisions: how the stored decoder decides, and code that applies it.


REFITTED = "Its numbers were then fitted on all validation rows."
A_TEXT = {name: '"a text to label"' for name in ("piped", "given")} | {"tokenized": '["a text to label"]'}
A_PAIR = {
    "piped": '{"text": "a text", "text_pair": "the other one"}',
    "given": '("a text", "the other one")',
    "tokenized": '["a text"], ["the other one"]',
}
FOLDED = """\
The classifier's bias holds the decision `{}`, fitted on the validation rows. Any pipeline that cuts at 0.5 therefore
decides as validation chose. This shifts the scores: they are not the trained probabilities."""


def decisions_section(
    kind: CardKind, decisions: Mapping[str, Any], figures: Mapping[str, float], *, chosen: bool = True
) -> str:
    """The section on how the stored decoder decides.

    Args:
        decisions: as `config.decisions`.
        figures: `{split}_{figure}`.
        chosen: True if validation chose the decoder, False if the user did.

    Raises:
        ValueError: the decisions lack the decoder's numbers.
    """
    assert kind.decisions is not None, "only a kind with decisions stores them"
    stored = kind.decisions.of_saved(decisions)
    name = stored.named()
    if _is_folded(decisions):
        lines = [FOLDED.format(stored.folded), _figure(kind, stored.folded, figures)]
    else:
        how = _chosen(kind, name) if chosen else ""
        lines = [f"The stored decoder is `{name}`. {kind.in_words(name, decisions)}", how]
        lines += [_figure(kind, name, figures), _others(kind, [other for other in stored.names if other != name])]
    return "\n".join(["", "## Decisions", *(f"\n{line}" for line in lines if line), ""])


def usage_section(
    kind: CardKind,
    decisions: Mapping[str, Any],
    *,
    model_name: str,
    base: str | None,
    num_labels: int,
    max_length: int | None,
    columns: Sequence[str] = (),
    pairs: bool = False,
) -> str:
    """Code and a command that apply the stored decoder.

    Args:
        base: the checkpoint that an adapter belongs to.
        max_length: length in tokens at which training cut texts.
        columns: columns that sentences need beside their words.
        pairs: True if a row has two texts.
    """
    decoder = kind.decoder(decisions)
    snippet = kind.seal if columns else kind.plain.get(decoder, kind.seal)
    name, base = (json.dumps(value, ensure_ascii=False) for value in (model_name, base))
    code = Template(snippet).substitute(
        name=name,
        base=base,
        num_labels=num_labels,
        threshold=number(decisions["threshold"] if decoder == THRESHOLD else 0.5),
        cut=f", truncation=True, max_length={max_length}" if max_length else "",
        columns=_columns(columns),
        **(A_PAIR if pairs else A_TEXT),
    )
    source, target = ("new.srl", kind.files[1]) if "predicate" in columns else kind.files
    command = predict_command(" ".join(model_name.split()), source, target)
    said = f"\n{kind.plainly}\n" if kind.plainly and snippet == kind.seal else ""
    if columns and not kind.is_ours:
        said = f"\nA plain `transformers` pipeline cannot read {_listed([f'`{name}`' for name in columns])}.\n"
    return f"```python\n{code}```\n{said}\nOr, with `seal_hf`, from a shell:\n\n```bash\n{command}\n```\n"


def _is_folded(decisions: Mapping[str, Any]) -> bool:
    """True if a bias holds the decision; a cut at 0.5 needs no bias."""
    return decisions.get("folded", FIXED) not in ("", FIXED)


def _chosen(kind: CardKind, name: str) -> str:
    """How validation chose a decoder."""
    return f"{kind.how_chosen} {REFITTED}" if kind.has_numbers(name) else kind.how_chosen


def _others(kind: CardKind, names: Sequence[str]) -> str:
    """The other stored decoders."""
    if not names:
        return ""
    file = "config.json" if kind.library_name == "transformers" else "seal_decisions.json"
    takes = f"`--decoder {names[0]}` selects it" if len(names) == 1 else "`--decoder NAME` selects one of them"
    return f"`{file}` also holds {_listed([f'`{name}`' for name in names])}: {takes}."


def _figure(kind: CardKind, decoder: str, figures: Mapping[str, float]) -> str:
    """The figure of the stored decoder on validation and test; empty if it was not measured."""
    for key in kind.decided(decoder):
        values = {"validation": figures.get(f"eval_{key}"), "test": figures.get(f"test_{key}")}
        shown = [f"{value:.4f} on {split}" for split, value in values.items() if value is not None]
        if shown:
            name = kind.figures[key]
            return f"{name[0].upper()}{name[1:]}: {', '.join(shown)}."
    return ""


def _columns(columns: Sequence[str]) -> str:
    """The argument of `predict` for further columns of a sentence."""
    if not columns:
        return ""
    values = {name: "[3]" if name == "predicate" else '[["?"] * len(words)]' for name in columns}
    return ", columns={" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in values.items()) + "}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
