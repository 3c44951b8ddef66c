"""A task is a kind of output: label sets, tags, trees, masks. `TASKS` holds them; general rooms ask a task for what
differs between kinds of output, and import none.

The tasks of the package stand in `tasks/__init__.py`. Importing the package puts them here; their parts are imported
when they are first used. Whoever adds a task adds it to `TASKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..utils.options import Options, check_class

if TYPE_CHECKING:
    from .decisions import Decisions
    from .space import OutputSpace

Part = TypeVar("Part")


class Task:
    """All that differs between kinds of output. A subclass overrides what it has. A part may be a property, so that its
    module is imported when it is first used.

    Attributes:
        name: key in `TASKS`.
        outputs_name: what its outputs are called in messages.
        heads: ends of the class names of its task-nets in transformers.
        decodes: True if its spaces decode by themselves, so that no threshold decides.
        program: the command that trains it, for messages.
        arguments: the arguments of a run that it reads and that some other task does not.
        spaces: saved name -> its output space; empty for a task that shares the space of another.
        energies: name -> [`Energy`] class that reads structures of its spaces; the first of a space is the default.
        task_losses: value of `task_loss` -> the class of the task-net's own loss, whose [`Options`] are what a run
            reads.
        choices: argument of a run that its spaces read -> the values that it takes.
        switches: argument of a run that its spaces read -> each of its values -> the arguments read only with it.
        decisions: saved name of a space -> the [`Decisions`] of its outputs; without them, they are decided by oneself.
        decide: a module with what `seal-hf decide` does, `fit`, `apply` and `report`, and with the formats that the
            last two write, `WRITTEN` and `REPORTED`.
        model: the [`SealModel`] class for its task-net and loss-net.
        outputs: saved name of a space -> the [`OutputKind`] that reads and writes files for `seal-hf predict`.
        sections: key of the facts of a run -> a function that makes sections of its page, of these facts and the
            folder.
        views: saved name of a space -> what the page of `seal-hf demo` shows of its outputs.
        cards: key -> the [`CardKind`] of a way to save its task-nets.
        analyses: word of `seal-hf analyse` -> its function of a folder, and the arguments of the data.
        compared: what `seal-hf compare` knows of it, a [`Kind`] for each of its words on the command line.
        compared_word: the word of `seal-hf compare` for all its kinds, if one word names several.
    """

    name: str
    outputs_name = "your own outputs"
    heads: tuple[str, ...] = ()
    decodes = False
    program = ""
    arguments: frozenset[str] = frozenset()
    spaces: Mapping[str, type[OutputSpace]] = {}
    energies: Mapping[str, Any] = {}
    task_losses: Mapping[str, Any] = {}
    choices: Mapping[str, Iterable[str]] = {}
    switches: Mapping[str, Mapping[str, Iterable[str]]] = {}
    decisions: Mapping[str, type[Decisions]] = {}
    decide: Any = None
    model: Any = None
    outputs: Mapping[str, Any] = {}
    sections: Mapping[str, Callable[..., list[Any]]] = {}
    views: Mapping[str, Any] = {}
    cards: Mapping[str, Any] = {}
    analyses: Mapping[str, tuple[Callable[..., dict], type]] = {}
    compared: tuple[Any, ...] = ()
    compared_word = ""

    def compared_by(self, words: Sequence[str]) -> tuple[Any, list[str]] | None:
        """The kind that the first words of a command line name, and the words that are left. None if they name a kind
        of another task."""
        return next(((kind, list(words[1:])) for kind in self.compared if kind.word == words[0]), None)

    def has(self, space: OutputSpace) -> bool:
        """True if the outputs of `space` belong to this task."""
        return isinstance(space, tuple(self.spaces.values()))

    def space_of_saved(self, architecture: str, config: Mapping[str, Any], is_adapter: bool) -> str | None:
        """The saved name of the space of a task-net in a folder; None if the net is not of this task.

        Args:
            architecture: the name of its class.
            config: its saved configuration, of an adapter what is saved beside it.

        Raises:
            ValueError: the net is of another kind, although its class has this name; the message says which.
        """
        return next(iter(self.spaces)) if architecture.endswith(self.heads) else None

    def check_net(self, name: str, architecture: str) -> None:
        """Raises ValueError for a net whose class only seems to be one of this task's.

        Args:
            name: of the net, for the message.
        """

    def fit_decisions(self, trainer: Any, dataset: Any, decoder: str | None) -> Decisions:
        """The decisions of the trainer's task-net, fitted on a data set with labels.

        Args:
            decoder: its name; None: chosen by cross-fitting.

        Raises:
            ValueError: the data set has no labels, or the decoder is unknown.
        """
        raise NotImplementedError(f"The task {self.name!r} has no decisions to fit.")

    def may_choose(self, space: OutputSpace, args: Any) -> bool:
        """True if validation may choose among several decoders."""
        return True

    def card_of(self, model: Any, space: OutputSpace, library: str | None) -> str:
        """The key in `cards` for a task-net. By default it is the first.

        Args:
            library: of the adapter that is saved alone; None if all weights are saved.
        """
        return next(iter(self.cards))

    def reads_in_words(self, model: Any) -> str | None:
        """What its task-net reads of an input, in words; None if the card does not mention it."""
        return None

    def labels_in(self, rows: Any) -> set[int]:
        """The numbers of the labels that occur in these [`TensorRows`]."""
        labels = rows.ragged["labels"][0] if "labels" in rows.ragged else rows.dense["labels"]
        return set(labels.unique().tolist())

    def label_columns(
        self, space: OutputSpace, metrics: Mapping[str, float], names: Sequence[str]
    ) -> dict[str, list[str]]:
        """Further columns of the card's table of labels: title -> Markdown for each label."""
        return {}

    def figures(self, space: OutputSpace) -> Mapping[str, str]:
        """Maps the key of a figure, without its split, to its name for readers. By default the figures are those of its
        first card."""
        return next((card.figures for card in self.cards.values()), {})


class Tasks(dict[str, Task]):
    """The tasks by name. A user adds an object: `TASKS["mine"] = MyTask()`."""

    def __setitem__(self, name: str, task: Task) -> None:
        """Raises TypeError for the class of a task."""
        if isinstance(task, type):
            raise TypeError(f"The task {name!r} is the class {task.__name__}; expected an object: {task.__name__}().")
        super().__setitem__(name, task)


TASKS = Tasks()


def task_of(space: OutputSpace) -> Task | None:
    """The task to which the outputs of `space` belong; None if no task knows it."""
    return next((task for task in TASKS.values() if task.has(space)), None)


class Registry(MutableMapping[str, Part], Generic[Part]):
    """Maps names to parts: those of every task, then those that users add.

    The tasks are asked at each use, so a module may import the registry before its task, and a task may come later.

    Args:
        of: the parts of a task.
    """

    def __init__(self, of: Callable[[Task], Mapping[str, Part]]):
        self._of, self._own = of, dict[str, Part]()

    def _parts(self) -> dict[str, Part]:
        found: dict[str, Part] = {}
        for task in TASKS.values():
            found |= self._of(task)
        return found | self._own

    def __getitem__(self, name: str) -> Part:
        return self._parts()[name]

    def __setitem__(self, name: str, part: Part) -> None:
        """Raises TypeError for what is no class, among classes."""
        example: Any = next(iter(self.values()), None)
        if isinstance(example, type):
            check_class(f"The entry {name!r}", part, object, example)
        self._own[name] = part

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts())

    def __len__(self) -> int:
        return len(self._parts())

    def __repr__(self) -> str:
        return repr(self._parts())


SPACES: Registry[type[OutputSpace]] = Registry(lambda task: task.spaces)
DECISIONS: Registry[type[Decisions]] = Registry(lambda task: task.decisions)


OF_FUNCTIONS = "A function needs no name: SealTrainer(..., task_loss=function)."


def task_losses() -> dict[str, list[Any]]:
    """Maps each value of `task_loss` to the classes of this name, in the order of the tasks.

    Raises:
        TypeError: a user put something else than a class into the table of a task.
    """
    found: dict[str, list[Any]] = {}
    for task in TASKS.values():
        for name, loss in task.task_losses.items():
            check_class(f"The task loss {name!r}", loss, Options, next(iter(task.task_losses.values())), OF_FUNCTIONS)
            found.setdefault(name, []).append(loss)
    return found


def choices() -> dict[str, Iterable[str]]:
    """The values of the arguments that spaces read, of all tasks together."""
    return {name: values for task in TASKS.values() for name, values in {**task.choices, **task.switches}.items()}


class _Costs:
    """The kinds of Δ of all spaces."""

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(cost for space in SPACES.values() for cost in space.costs))


COSTS = _Costs()
