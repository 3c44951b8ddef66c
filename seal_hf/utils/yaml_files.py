"""YAML files, read safely: nothing in them is executed, and what can only be a mistake is an error. Examples are a key
that occurs twice, values nested without end, and a number that YAML reads otherwise than people do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

MOST_BYTES = 2**16  # of a file; ten times as many take seconds to read
DEEPEST = 30  # values within values
MOST_VALUES = 100_000  # with each value counted wherever an alias repeats it
MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """The safe loader, with an error for equal keys, where the last one would silently win, and for documents that
    grow without end."""

    def __init__(self, text: str):
        super().__init__(text)
        self.depth = 0
        self.extents: dict[int, tuple[int, int]] = {}  # id of a node -> values in it, and how deep they are nested

    def compose_node(self, parent: Any, index: Any) -> yaml.Node:
        mark, is_alias = self.peek_event().start_mark, self.check_event(yaml.AliasEvent)
        self.depth += 1
        if self.depth > DEEPEST:
            raise ConstructorError(problem=f"values nested more than {DEEPEST} deep", problem_mark=mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        if is_alias and id(node) not in self.extents:
            raise ConstructorError(problem="a value that contains itself", problem_mark=mark)
        if not is_alias:
            self.extents[id(node)] = size, depth = self._extent(node)
            if size > MOST_VALUES or depth > DEEPEST:
                grown = f"more than {MOST_VALUES:,} values" if size > MOST_VALUES else f"more than {DEEPEST} deep"
                raise ConstructorError(problem=f"aliases that repeat each other, {grown}", problem_mark=mark)
        return node

    def _extent(self, node: yaml.Node) -> tuple[int, int]:
        if isinstance(node, yaml.ScalarNode):
            return 1, 1
        children = [part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,))]
        extents = [self.extents[id(child)] for child in children]
        return 1 + sum(size for size, _ in extents), 1 + max((depth for _, depth in extents), default=0)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == MERGE:
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConstructorError(problem="a key that is a list or a mapping", problem_mark=key_node.start_mark)
            key = self.construct_object(key_node)
            if key in seen:
                raise ConstructorError(problem=f"key {key!r} twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """A number. `010` and `1:30` are 8 and 90 in YAML, which nobody means."""
        written, is_int = str(node.value).lstrip("+-"), node.tag.endswith("int")
        value = self.construct_yaml_int(node) if is_int else self.construct_yaml_float(node)
        if ":" in written or (is_int and written[:1] == "0" and written[1:].isdigit()):
            raise ConstructorError(
                problem=f"{node.value}, which YAML reads as {value}; write {value}, or put quotes around a text",
                problem_mark=node.start_mark,
            )
        return value


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.construct_number)


def read_yaml(file: str | Path) -> tuple[Any, yaml.Node | None]:
    """The content of a file, and its tree of nodes, which know their lines; None and None if it is empty.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not YAML in UTF-8, or too large.
    """
    if (size := Path(file).stat().st_size) > MOST_BYTES:
        raise ValueError(
            f"{file}: has {size:,} bytes; expected a YAML file of at most {MOST_BYTES:,}. Is it another file?"
        )
    try:
        loader = _Loader(Path(file).read_text(encoding="utf-8-sig"))
        try:
            node = loader.get_single_node()
            return (None if node is None else loader.construct_document(node)), node
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError) as error:  # of text that is not UTF-8, and of dates such as 2024-13-45
        said = " ".join(str(error).replace('in "<unicode string>", ', "").split())
        raise ValueError(f"{file}: not a YAML file: {said}") from error
