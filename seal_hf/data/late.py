"""The library `datasets`, which takes long to import, when it is first used: tables of scores are read without it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datasets
else:

    class Late:
        """A module that is imported when a name of it is asked for."""

        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self._name), name)

    datasets = Late("datasets")

__all__ = ["datasets"]
