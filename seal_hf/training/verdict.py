"""What a run came to, in words: its score, whether its loss-net taught, and what to try next.

All sentences are formed here, from the state of the run. The closing output, the card, the page and the demo show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..utils.messages import printable
from .arguments import CROSS_ENTROPY
from .hints import hint_after

TUNED = "tuning.json"  # in the output folder of a run whose settings were searched
VERDICT = "verdict"  # entry of the task-net's config
MOST = 2  # things to try next
NEXT = "Next: "  # the start of such a sentence
LONGEST = 2000  # characters of a stored sentence that are shown
TASK_LOSSES = {"cross_entropy": "cross-entropy"}  # task loss -> its words, if they are not its name


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
        taught: False if the loss-net never taught the task-net whose weights are kept, or if there is none.
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


def verdict_of(trainer: Any, score: Score | None = None, hints: Iterable[str | None] = ()) -> Verdict:
    """The verdict on a trainer's run.

    Args:
        trainer: a [`SealTrainer`], or the trainer of an energy network, whose verdict says nothing of a loss-net.
        score: of the saved decisions, if it was measured.
        hints: of [`seal_hf.training.hints`] on the run's outputs, the most important first; None is left out.
    """
    loss, state = getattr(trainer.args, "energy_loss", None), trainer.state
    lessons = getattr(trainer, "lessons", None)
    said = [] if score is None else [score.in_words()]
    remedies = [hint for hint in (*hints, hint_after(trainer.args, state)) if hint is not None]
    taught = lessons is not None and lessons.since is not None
    if _is_linear(trainer):
        said.append("The classifier is a logistic regression on frozen features. Nothing else was trained.")
        remedies.append("the same command without --linear true trains a net.")
    if loss is not None and state.global_step > 0:
        alone = _task_loss(trainer)
        if lessons is None:
            said.append(f"The model was trained by {alone} alone.")
        else:
            said.append(lessons.in_words(alone))
            of_rules = "seal-hf compare rewards shows what the rules gained."
            remedies.append(lessons.remedy(loss) if trainer.space.has_all_gold else of_rules)
    if not remedies and score is not None and not Path(trainer.args.output_dir, TUNED).is_file():
        remedies.append("--tune 12 searches better settings.")
    return Verdict(taught, (*said, *(f"{NEXT}{remedy}" for remedy in remedies[:MOST])))


def store_verdict(trainer: Any, verdict: Verdict | None = None) -> None:
    """Write a verdict, by default that on the training alone, into the config of the trainer's model."""
    config = trainer.accelerator.unwrap_model(trainer.model).config
    if trainer.state.global_step > 0 or _is_linear(trainer):  # else the run that trained the weights has stored one
        config.verdict = (verdict or verdict_of(trainer)).as_json()


def called_by(loss: str | None, taught: bool) -> str | None:
    """The loss by which a model is called: `ce` if no loss-net taught it. None, for an energy network, stays."""
    return loss if taught or loss is None else CROSS_ENTROPY


def _is_linear(trainer: Any) -> bool:
    """True if a logistic regression took the place of a training."""
    return getattr(trainer, "linear_head", None) is not None


def _task_loss(trainer: Any) -> str:
    name = trainer.args.task_loss
    return TASK_LOSSES.get(name, f"the task loss {name}")
