"""Pages of runs and comparisons: self-contained HTML, written from a folder's JSON files."""

from .page import Number, Page, Plot, Section, Table, render

__all__ = ["Number", "Page", "Plot", "Section", "Table", "render"]
