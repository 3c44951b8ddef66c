"""Libraries that take long to import. They are imported when they are first used, so tables of scores are read without
them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet
else:

    class Late:
        """A module that is imported when a name of it is asked for."""

        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self._name), name)

    datasets, pa = Late("datasets"), Late("pyarrow")
    parquet, pc = Late("pyarrow.parquet"), Late("pyarrow.compute")

__all__ = ["datasets", "pa", "parquet", "pc"]
