"""The arguments of a program that trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from transformers import TrainerCallback, TrainingArguments

from ...training.epochs import Patience
from ...utils.messages import check_owner, printable

TOO_LONG = "--max_length is {asked}, but the encoder takes {most} tokens: {most} are read."


@dataclass(kw_only=True)
class OriginArguments:
    """How a pretrained or saved model is read."""

    revision: str | None = field(
        default=None, metadata={"help": "Branch, tag or commit of a model on the Hub; default: its main branch."}
    )
    trust_remote_code: bool = field(
        default=False,
        metadata={
            "help": "Run code that comes with the model. For one of the Hub, give the --revision that you have read."
        },
    )


@dataclass
class RunArguments:
    """When a run stops, whether its settings are searched, and what is written at its end."""

    patience: int = field(
        default=0,
        metadata={"help": "Stop after this many evaluations without gain (packaged recipes: 2 to 10); 0: never."},
    )
    tune: int = field(
        default=0,
        metadata={"help": "First search rates, dropout and λ1 in this many trials, then train the best; 0: no search."},
    )
    storage: str | None = field(
        default=None,
        metadata={
            "help": "Share the trials of --tune with other workers through this journal file or address of Optuna."
        },
    )
    log_dicts: bool = field(
        default=False,
        metadata={"help": "Print all logged figures too, as the Trainer does; they are in trainer_state.json anyway."},
    )
    report: bool = field(default=True, metadata={"help": "Write report.html, a page on the run (matplotlib)."})


class Arguments(NamedTuple):
    """The arguments of a run, from its flags and its recipe.

    Attributes:
        data: the loader's arguments.
        nets: arguments of the nets and their inputs.
        run: when it stops, whether its settings are searched, whether its page is written.
        training: the trainer's arguments.
        given: names of the flags on the command line.
    """

    data: Any
    nets: Any
    run: RunArguments
    training: Any
    given: frozenset[str]

    @property
    def callbacks(self) -> list[TrainerCallback]:
        """The callbacks that `--patience` asks for. A recipe's patience has no effect in a run without evaluations."""
        waits = "patience" in self.given or self.training.eval_strategy != "no"
        return early_stopping(self.training, self.run.patience if waits else 0)

    @property
    def loss_net(self) -> dict[str, Any]:
        """Options of `for_data` on the loss-net."""
        return {"loss_net_encoder": self.training.loss_net_encoder}

    def origin(self, name: str | None) -> dict[str, Any]:
        """Options of `from_pretrained` for the model `name`, a folder or Hub id: its revision, and whether its own code
        runs.

        Raises:
            ValueError: there is no such model, but one of these flags is given.
        """
        options = {"revision": self.nets.revision, "trust_remote_code": self.nets.trust_remote_code or None}
        if name is None:
            check_owner(options, "a pretrained or saved model", "the nets are fresh")
        return {option: value for option, value in options.items() if value is not None}

    def value(self, name: str) -> Any:
        """The value of the argument `name`."""
        return getattr(self._owner(name), name)

    def changed(self, settings: Mapping[str, Any]) -> Arguments:
        """Give some settings other values, in place, and return these same objects."""
        for name, value in settings.items():
            setattr(self._owner(name), name, value)
        return self

    def say(self, text: str) -> None:
        """Print a line in one process of the run."""
        if self.training.process_index == 0:
            print(printable(text))

    def _owner(self, name: str) -> Any:
        return next(part for part in (self.data, self.nets, self.run, self.training) if hasattr(part, name))


def early_stopping(args: TrainingArguments, patience: int) -> list[TrainerCallback]:
    """The callback for `--patience`, the number of evaluations without gain after which a run stops; 0: no callback.

    Raises:
        ValueError: a negative number, or a run without evaluations or without a metric.
    """
    if patience < 0:
        raise ValueError(f"`patience` is {patience}; it must be a number of evaluations, or 0 to never stop early.")
    without = [
        f"{name} is {found!r}"
        for name, found, missing in (
            ("eval_strategy", str(getattr(args.eval_strategy, "value", args.eval_strategy)), "no"),
            ("metric_for_best_model", args.metric_for_best_model, None),
        )
        if found == missing
    ]
    if patience and without:
        raise ValueError(
            f"`patience` is {patience}, but {' and '.join(without)}: there is nothing to wait for. Give "
            "--eval_strategy epoch --save_strategy epoch --load_best_model_at_end true and a --metric_for_best_model, "
            "or leave --patience out."
        )
    return [Patience(patience)] if patience else []
