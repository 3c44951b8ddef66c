"""YAML files, read safely: nothing in them is executed, and a key that occurs twice is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """The safe loader, with an error for equal keys, where the last one would silently win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        merge = "tag:yaml.org,2002:merge"
        keys = [self.construct_object(key) for key, _ in node.value if key.tag != merge]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(problem=f"key {twice!r} twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(file: str | Path) -> tuple[Any, yaml.Node | None]:
    """The content of a file, and its tree of nodes, which know their lines; None and None if it is empty.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not YAML in UTF-8.
    """
    try:
        loader = _Loader(Path(file).read_text(encoding="utf-8-sig"))
        try:
            node = loader.get_single_node()
            return (None if node is None else loader.construct_document(node)), node
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError) as error:  # of text that is not UTF-8, and of dates such as 2024-13-45
        raise ValueError(f"{file}: not a YAML file: {' '.join(str(error).split())}") from error
