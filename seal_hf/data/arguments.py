"""The flags of a data set, shared by the programs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class DataArguments:
    """What to train on: the arguments of [`load_multilabel`], as flags of a program and keys of a recipe."""

    dataset: str | None = field(
        default=None, metadata={"help": "Name, folder, file or Hub id; default: embedded digits."}
    )
    data_dir: str | None = field(default=None, metadata={"help": "Folder of named data sets; default: $SEAL_HF_DATA."})
    normalize: str = field(default="none", metadata={"help": "Features: none, minmax or standard; fitted on train."})
    text_column: str | None = field(default=None, metadata={"help": "Column of the text; default: found."})
    label_column: str = field(default="labels", metadata={"help": "Column of the labels."})
    label_format: str = field(default="auto", metadata={"help": "auto, ids, names or multi_hot."})
    keep_id: bool = field(default=False, metadata={"help": "Keep an identifier attribute as an integer feature."})
    max_train_rows: int | None = field(default=None, metadata={"help": "Train on the first rows only."})
