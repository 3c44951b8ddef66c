"""The flags that a program knows, read from source files: a mistyped one is an error before torch is imported.

Most flags are fields of dataclasses, whose modules import transformers. Here nothing is imported: `ast` reads our own
modules and the installed `transformers/training_args.py`, and `HfArgumentParser`'s rule gives the flags of the fields.
If a source looks unexpected, no flag is refused here: the program's own parser decides.

The parser itself cannot answer at once: it is made of the dataclasses, and importing theirs imports torch, which takes
seconds. A stored list of flags would refuse those that a later version of transformers adds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from ..utils.messages import unknown_flag

OF_EVERY_PROGRAM = {"-h", "--help", "--help_all", "--recipe"}
# transformers imports lazily, from a table: the modules of classes that programs build on
DEFINED_IN = {"transformers": "transformers.training_args"}
BOOLEANS = ("bool", "bool | None", "Optional[bool]")


class UnexpectedSource(Exception):
    """The flags cannot be read from a source."""


def mistyped_flag(modules: Sequence[str], words: Iterable[str]) -> str | None:
    """The error of `parse_recipe` for the first unknown flag, or a file without its flag; None if all are known.

    Args:
        modules: the program's, such as `seal_hf.tasks.labels.program`, and others whose flags it takes.
        words: the command line after the program's name.
    """
    try:
        known = set().union(*map(known_flags, modules))
    except (UnexpectedSource, OSError, SyntaxError, ValueError):  # ValueError: a literal, or an encoding
        return None
    for place, word in enumerate(words):
        flag = word.split("=")[0]
        if place == 0 and "--dataset" in known and "." in word and not word.startswith("-"):  # a file without its flag
            return unknown_flag(word, known)
        if flag.startswith("--") and " " not in word and flag not in known:
            return None if word == "--" else unknown_flag(word, known)
    return None


def known_flags(module: str) -> set[str]:
    """The flags of the fields of a module's `ARGUMENTS`, a tuple of dataclasses, or without it of its `add_argument`
    calls. `MODULE:NAME` has the tuple under another name.

    Raises:
        UnexpectedSource, OSError, SyntaxError, ValueError: the flags cannot be read from the sources.
    """
    module, _, name = module.partition(":")
    program, name = Source(module), name or "ARGUMENTS"
    added = program.added_flags()
    if added and name not in program.names:
        return added
    arguments = program.names.get(name)
    if isinstance(arguments, tuple):
        source, arguments = find(*arguments)
    else:
        source = program
    if not isinstance(arguments, ast.Tuple):
        raise UnexpectedSource(f"{module} has no tuple {name}")
    by_field = [flags for element in arguments.elts for flags in fields(source, element).values()]
    return OF_EVERY_PROGRAM.union(added, *by_field)


class Source:
    """The parsed file of a module.

    Attributes:
        names: definitions at its top level, and those under an `if` there: a class, an assigned value, or (module,
            name) of an import.
    """

    def __init__(self, module: str):
        self.tree = ast.parse(file_of(module).read_text(encoding="utf-8"))
        self.names: dict[str, ast.AST | tuple[str, str]] = {}
        package = module if file_of(module).name == "__init__.py" else module.rpartition(".")[0]
        # a package that imports its modules late states its names for type checkers
        late = [each for statement in self.tree.body if isinstance(statement, ast.If) for each in statement.body]
        for statement in [*late, *self.tree.body]:
            if isinstance(statement, ast.ClassDef):
                self.names[statement.name] = statement
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                self.names[statement.targets[0].id] = statement.value
            elif isinstance(statement, ast.ImportFrom):
                above = package.split(".")[: -(statement.level - 1) or None] if statement.level else []
                origin = ".".join([*above, *filter(None, [statement.module])])
                self.names |= {alias.asname or alias.name: (origin, alias.name) for alias in statement.names}

    def added_flags(self) -> set[str]:
        """The flags that its code adds to a parser of argparse."""
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        added = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"]
        return {ast.literal_eval(argument) for call in added for argument in call.args}


def file_of(module: str) -> Path:
    """The file of a module, found without executing it or its package."""
    package, *parts = module.split(".")
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UnexpectedSource(f"{package} is not a package")
    path = Path(spec.submodule_search_locations[0], *parts)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def find(module: str, name: str) -> tuple[Source, ast.AST]:
    """The definition of a name, through imports: its source, and the class or value."""
    source = Source(DEFINED_IN.get(module, module))
    found = source.names.get(name)
    if isinstance(found, tuple):
        return find(*found)
    if found is None:
        raise UnexpectedSource(f"{module} defines no {name}")
    return source, found


def fields(source: Source, name: ast.AST) -> dict[str, set[str]]:
    """Field -> flags of a dataclass, by its name in a source; includes its bases, which it may override."""
    found = source.names.get(name.id) if isinstance(name, ast.Name) else None
    if isinstance(found, tuple):
        source, found = find(*found)
    if not isinstance(found, ast.ClassDef):
        raise UnexpectedSource(f"{ast.unparse(name)} is not a class")
    by_field: dict[str, set[str]] = {}
    for base in found.bases:
        by_field |= fields(source, base)
    for statement in found.body:
        if isinstance(statement, ast.AnnAssign):
            field = ast.unparse(statement.target)
            by_field[field] = flags(field, statement)
        elif isinstance(statement, ast.If | ast.For | ast.Try) and _holds_fields(statement):
            raise UnexpectedSource(f"{found.name} has fields under a condition")
    return by_field


def _holds_fields(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.AnnAssign) for node in ast.walk(statement))


def flags(name: str, statement: ast.AnnAssign) -> set[str]:
    """The flags that `HfArgumentParser` makes of one field."""
    kind, default = ast.unparse(statement.annotation), statement.value
    options: dict[str | None, ast.expr] = {}
    if isinstance(default, ast.Call):
        options = {keyword.arg: keyword.value for keyword in default.keywords}
        default = options.get("default")
    if kind.startswith("ClassVar") or _is(options.get("init"), False):
        return set()
    found = {f"--{name}", f"--{name.replace('_', '-')}", *_aliases(options.get("metadata"))}
    if kind in BOOLEANS and _is(default, True):
        found |= {f"--no_{name}", f"--no-{name.replace('_', '-')}"}
    return found


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _aliases(metadata: ast.expr | None) -> list[str]:
    if metadata is None:
        return []
    if not isinstance(metadata, ast.Dict):
        raise UnexpectedSource("metadata that is not a literal")
    entries = {ast.unparse(key): value for key, value in zip(metadata.keys, metadata.values, strict=True) if key}
    aliases = ast.literal_eval(entries.get("'aliases'", ast.List([])))
    return [aliases] if isinstance(aliases, str) else aliases
