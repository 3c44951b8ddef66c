"""Recipes: a YAML file sets the defaults of the command line's dataclasses; command-line flags win.

`HfArgumentParser` is the only source of flags. The YAML layer converts values by the same argparse actions: a recipe
accepts exactly what the command line accepts.

The default of a flag stands where its dataclass declares it. What depends on the kind of data or net stands in the
packaged recipes of that kind, in `default_recipes/`. The sizes of a net from scratch stand beside the net
(`Program.from_scratch`), whether a program makes it or Python. `--help` and the record of a run show the result. Any
other None in a dataclass leaves the value to the net that is loaded, or to the data.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from transformers import HfArgumentParser, TrainingArguments
from transformers.integrations import get_available_reporting_integrations

from ..utils.compat import RENAMED_ARGUMENTS
from ..utils.messages import RETIRED, brief, did_you_mean, unknown_flag
from ..utils.options import check_arguments
from ..utils.recorded import HIDDEN, names_a_secret, remember
from ..utils.yaml_files import read_yaml
from .programs import UsageError, given_flags, program_name

LIMITS: dict[str, dict[str, Any]] = {  # of our arguments of data, nets, runs and analyses; the others check themselves
    "max_train_rows max_validation_rows max_eval_rows num_labelled repeat_labelled max_length image_size batch_size "
    "max_rows": {"least": 1},
    "hidden_size width adapter_rank": {"least": 1, "most": 100_000},  # a wider or deeper net takes hours to build
    "num_layers": {"least": 1, "most": 1000},
    "global_size": {"least": 0, "most": 100_000},
    "crop_size test_crop_size crop_offsets patience tune seed data_seed": {"least": 0},
    "dropout": {"least": 0, "below": 1},
}
DEFAULT_RECIPES = Path(__file__).parent / "default_recipes"


def parse_recipe(
    dataclass_types: Any,
    argv: Sequence[str] | None = None,
    *,
    default_recipe: Callable[[Namespace], str | Path | Mapping[str, Any] | None] | None = None,
) -> tuple[Any, ...]:
    """Parse `--recipe FILE.yaml` and the flags of some dataclasses.

    A field's value is, in this order: its flag, its key in the recipe, its default. A key is the field's name or an
    alias from its metadata (`metadata={"aliases": ["--loss"]}`: key `loss`), not both in one recipe. Values are
    checked: text such as `1e-3`, which YAML does not read as a number, is converted if a number is expected; lists,
    mappings and null need a field type that has them.

    Args:
        dataclass_types: one dataclass or several, as for `HfArgumentParser`.
        argv: the command line without the program's name; default `sys.argv[1:]`.
        default_recipe: called without `--recipe`, with the namespace of the command line alone (other fields have their
            defaults); returns a file, a mapping, or None for no recipe.

    Returns:
        One instance per dataclass, in their order.

    Raises:
        FileNotFoundError: the recipe file does not exist.
        ValueError: a file that is not a YAML mapping, an unknown key (the message names the closest known one), a key
            set twice through its alias, a value of the wrong type or outside its limits, an unknown flag.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = recipe_parser(dataclass_types)
    check_words(parser, argv)

    recipe: Any = recipe_named(argv)
    if recipe is None and default_recipe is not None:
        recipe = default_recipe(command_line_alone(parser, argv))
    said = set(given_flags(argv))
    if recipe is not None:
        said |= _apply(parser, recipe)

    # the stock parser also reads a file "<script>.args": here, a recipe is the only file
    *instances, _ = parser.parse_args_into_dataclasses(argv, look_for_args_file=False)
    for instance in instances:
        if isinstance(instance, TrainingArguments):
            _check_program(instance, said)
        else:  # training arguments check themselves
            check_arguments(instance, LIMITS)
    return tuple(instances)


def recipe_parser(dataclass_types: Any) -> HfArgumentParser:
    """The parser of `parse_recipe`: the flags of some dataclasses, and `--recipe`."""
    parser = HfArgumentParser(dataclass_types, prog=program_name(), allow_abbrev=False)
    parser.error = _refuse  # type: ignore[method-assign]
    parser.add_argument("--recipe", metavar="FILE.yaml", help="YAML file of defaults; command-line flags win.")
    parser.add_argument("--help_all", action="help", help="Show all flags, those of the Trainer too.")
    return parser


def recipe_named(argv: Sequence[str]) -> str | None:
    """The file that `--recipe` names on a command line."""
    before = ArgumentParser(add_help=False, allow_abbrev=False)
    before.error = _refuse  # type: ignore[method-assign]
    before.add_argument("--recipe")
    return before.parse_known_args(argv)[0].recipe


def values_under(dataclass_types: Any, recipe: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """Field -> its default under a recipe or without one; MISSING if it is required."""
    parser = recipe_parser(dataclass_types)
    if recipe is not None:
        _apply(parser, recipe)
    needed = {action.dest: dataclasses.MISSING for action in parser._actions if action.required}
    return {action.dest: parser.get_default(action.dest) for action in parser._actions} | needed


def _refuse(message: str) -> NoReturn:
    """Raise one line in place of a hundred lines of usage."""
    raise ValueError(f"{message}. All flags: --help.")


def _check_program(args: TrainingArguments, said: set[str]) -> None:
    """Raises ValueError for Trainer arguments that the programs do not support."""
    installed = (*get_available_reporting_integrations(), "flyte", "azure_ml", "none", "all")  # the list lacks two
    for name in (name for name in args.report_to or () if name not in installed):
        raise ValueError(f"`report_to` is {name!r}, which is not installed. Install it, or give --report_to none.")
    for name in ("do_train", "do_eval", "do_predict"):
        if name in said and not getattr(args, name):
            raise ValueError(
                f"`{name}` is False, but the programs always train, evaluate and predict. To evaluate a saved "
                "task-net: seal-hf evaluate --model FOLDER --input FILE."
            )
    for name, needed in (("prediction_loss_only", False), ("eval_do_concat_batches", True)):
        if getattr(args, name) != needed:
            raise ValueError(
                f"`{name}` is {not needed}, but the programs score the predictions of all rows together. Leave it out."
            )


def recipe_keys(dataclass_types: Any) -> set[str]:
    """The keys that a recipe for these dataclasses may have, aliases included."""
    return set(_fields(HfArgumentParser(dataclass_types)))


def packaged_recipe(name: str) -> Path:
    """The file of a recipe in the package, by its name without suffix, such as "features".

    Raises:
        ValueError: no such recipe.
    """
    known = sorted(file.stem for file in DEFAULT_RECIPES.glob("*.yaml"))
    if name not in known:
        raise ValueError(f"no packaged recipe {name!r}; there are {', '.join(known)}")
    return DEFAULT_RECIPES / f"{name}.yaml"


def saving_as_evaluated(
    recipe: Path | Mapping[str, Any], flags: frozenset[str], given: Namespace
) -> Path | Mapping[str, Any]:
    """Fit a default recipe to another `--eval_strategy`.

    It then saves whenever it evaluates, since it can keep the best checkpoint only if each evaluation has one.
    Without evaluations it does not look for a best checkpoint.

    Args:
        flags: the names on the command line.
        given: their values, see [`command_line_alone`].
    """
    if "eval_strategy" not in flags:
        return recipe
    values = dict(recipe if isinstance(recipe, Mapping) else read_recipe(recipe))
    evaluations = str(getattr(given.eval_strategy, "value", given.eval_strategy))
    if evaluations == "no":
        values.pop("load_best_model_at_end", None)
    elif evaluations == "steps" and values.get("save_strategy") == "epoch":
        logged = given.logging_steps if "logging_steps" in flags else values.get("logging_steps", given.logging_steps)
        values |= {"save_strategy": "steps", "save_steps": given.eval_steps or logged}  # as the Trainer evaluates
    return values


def check_words(parser: ArgumentParser, argv: Sequence[str], others: Sequence[Action] = ()) -> None:
    """Raises UsageError for a word of a command line that is no flag and no value of one.

    Args:
        others: flags of another parser, which the message may suggest.
    """
    if unknown := _without_recipe(parser, argv)[1]:
        flags = [flag for action in (*parser._actions, *others) for flag in action.option_strings]
        raise UsageError(unknown_flag(unknown[0], flags))


def command_line_alone(parser: ArgumentParser, argv: Sequence[str]) -> Namespace:
    """The flags of a command line without a recipe; required ones may be missing."""
    return _without_recipe(parser, argv)[0]


def _without_recipe(parser: ArgumentParser, argv: Sequence[str]) -> tuple[Namespace, list[str]]:
    """The flags of a command line, and the words that are none."""
    required = [action for action in parser._actions if action.required]
    for action in required:  # the recipe may set it
        action.required = False
    found = parser.parse_known_args(argv)
    for action in required:
        action.required = True
    return found


def _apply(parser: HfArgumentParser, recipe: str | Path | Mapping[str, Any]) -> set[str]:
    """Make the recipe's values the parser's defaults; return the fields that it sets."""
    if isinstance(recipe, Mapping):
        where, values = "the default recipe", recipe
    else:
        where, values = str(recipe), read_recipe(recipe)
    fields = _fields(parser)
    given: dict[str, str] = {}  # field -> its key in the recipe
    for key, value in values.items():
        if (
            key in RENAMED_ARGUMENTS and RENAMED_ARGUMENTS[key] in values
        ):  # as in transformers 4, the number of steps wins over the share
            continue
        if key in RETIRED and key not in fields:
            raise ValueError(f"{where}: {key} is an option of earlier versions. {RETIRED[key]}.")
        if key not in fields:
            raise ValueError(f"{where}: unknown key {brief(key)}.{did_you_mean(str(key), fields)}")
        name, hint = fields[key]
        if name in given:
            raise ValueError(f"{where}: {given[name]!r} and {key!r} are the same setting; keep one of them")
        given[name] = key
        # a bool with default True has a second action, --no_<name>: take the one named after the field
        action = next(action for action in parser._actions if f"--{name}" in action.option_strings)
        parser.set_defaults(**{name: _convert(where, key, value, action, hint)})
        action.required = False
    return set(given)


def read_recipe(file: str | Path) -> Mapping[str, Any]:
    """The raw keys and values of a recipe file; `parse_recipe` checks them.

    Raises:
        FileNotFoundError, ValueError: the file does not exist, or is not a YAML mapping.
    """
    path = Path(file)
    if not path.is_file():
        raise FileNotFoundError(f"no recipe file {file}")
    values, _ = read_yaml(path)
    if values is None:  # an empty file, or comments only
        return {}
    if not isinstance(values, Mapping):
        raise ValueError(f"{file}: expected lines of `key: value`, found a {type(values).__name__}")
    remember(values)
    return values


def _fields(parser: HfArgumentParser) -> dict[str, tuple[str, Any]]:
    """Every key a recipe may use -> (the field's name, its declared type)."""
    fields = {}
    for dataclass_type in parser.dataclass_types:
        hints = get_type_hints(dataclass_type)  # HfArgumentParser overwrites `field.type` with a simpler one
        for field in dataclasses.fields(dataclass_type):
            if field.init:
                aliases = field.metadata.get("aliases") or []
                for flag in [field.name, *([aliases] if isinstance(aliases, str) else aliases)]:
                    fields[flag.lstrip("-").replace("-", "_")] = (field.name, hints[field.name])
    return fields | {old: fields[new] for old, new in RENAMED_ARGUMENTS.items() if new in fields}


def _convert(where: str, key: str, value: Any, action: Action, hint: Any) -> Any:
    """The value that the field's flag would give, or ValueError."""
    kinds = _members(hint)  # the declared type's alternatives, without parameters: list[str] -> list
    if isinstance(value, (list, dict)) and type(value) in kinds:
        if isinstance(value, dict):
            return value
        return [_scalar(where, f"{key}[{i}]", item, action) for i, item in enumerate(value)]
    if value is None and (type(None) in kinds or action.default is None):
        return None
    if action.nargs == "+" or value is None or isinstance(value, (list, dict)):
        expected = "a list, each " * (action.nargs == "+") + _kind(action)[1]
        raise ValueError(f"{where}: {key!r} is {_shown(key, value)} ({type(value).__name__}), expected {expected}")
    return _scalar(where, key, value, action)


def _members(hint: Any) -> set[Any]:
    if get_origin(hint) in (Union, types.UnionType):
        return set().union(*(_members(member) for member in get_args(hint)))
    return {get_origin(hint) or hint}


def _scalar(where: str, key: str, value: Any, action: Action) -> Any:
    kinds, expected = _kind(action)
    if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)):
        try:
            convert: Any = action.type or str  # HfArgumentParser uses functions, not registered names
            converted = convert(str(value))
            if not action.choices or converted in action.choices:
                return converted
        except (ValueError, TypeError, ArgumentTypeError):
            pass  # the error below tells more
    hint = ""
    if isinstance(value, bool):
        hint = "; YAML reads yes, no, on and off as true or false: put quotes around them"
    elif kinds == (str,) and isinstance(value, (int, float)):
        hint = "; put quotes around it"
    raise ValueError(f"{where}: {key!r} is {_shown(key, value)} ({type(value).__name__}), expected {expected}{hint}")


def _shown(key: str, value: Any) -> str:
    return HIDDEN if names_a_secret(key) else brief(value)


# name of a flag's type -> the YAML types that it accepts, and these in words. A bool is an int in Python. A number for
# a text is more often a slip than a name. The flag itself converts the value.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "str (text)"),
    "int": ((int, str), "int (a whole number)"),
    "float": ((float, int, str), "float (a number)"),
    "string_to_bool": ((bool, str), "bool (true or false)"),
}


def _kind(action: Action) -> tuple[tuple[type, ...], str]:
    """The YAML types that a flag accepts, and these in words."""
    if action.choices:
        return (str, int, float), f"one of {', '.join(map(str, action.choices))}"
    name = getattr(action.type or str, "__name__", str(action.type))
    return _KINDS.get(name, ((str, int, float), name))
