"""Data sets: from files, folders, tables and Hub ids to splits. A split is a `datasets.Dataset`, or arrays for images
with masks. This room knows no model. Its modules are imported by name, when they are first used.

Each format has one reader, a row or a part at a time; training, prediction and evaluation use it. [`load_multilabel`]
reads: nothing, `digits` or `digit_images` -> the embedded data; a folder or file with .arff -> `arff.py`; else the
tables that `table_sources.py` finds, files of lines, parquet, folders of `save_to_disk`, tables in memory and on the
Hub, by `label_tables.py`; a plain name -> that folder under `data_dir`. [`load_tags`], [`load_srl`] and [`load_trees`]
do the same for tag sequences, see `tags.py` and `trees.py`, and [`load_masks`] for images with masks. Rows to predict
are those of `label_rows.py`, `sentences.py` and `pictures.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .arguments import DataArguments, MaskDataArguments, TagDataArguments
    from .brackets import tags_to_tree
    from .common import DataError, MultiLabelData, Origins
    from .label_tables import kind_of, load_multilabel
    from .masks import SegmentationData, load_masks
    from .tags import TagSequenceData, load_srl, load_tags
    from .trees import load_trees

WHERE = {  # name -> its module
    "DataArguments": "arguments",
    "DataError": "common",
    "MaskDataArguments": "arguments",
    "MultiLabelData": "common",
    "Origins": "common",
    "SegmentationData": "masks",
    "TagDataArguments": "arguments",
    "TagSequenceData": "tags",
    "kind_of": "label_tables",
    "load_masks": "masks",
    "load_multilabel": "label_tables",
    "load_srl": "tags",
    "load_tags": "tags",
    "load_trees": "trees",
    "tags_to_tree": "brackets",
}
__all__ = [
    "DataArguments",
    "DataError",
    "MultiLabelData",
    "SegmentationData",
    "MaskDataArguments",
    "Origins",
    "TagDataArguments",
    "TagSequenceData",
    "kind_of",
    "load_masks",
    "load_multilabel",
    "load_srl",
    "load_tags",
    "load_trees",
    "tags_to_tree",
]


def __getattr__(name: str) -> Any:
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(f".{WHERE[name]}", __name__), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *WHERE})
