"""The flags of a data set, shared by the programs."""

from __future__ import annotations

from dataclasses import dataclass, field

NUM_LABELLED = "Keep the gold of this many train rows, drawn by the seed; the others count as unlabelled."
MAX_VALIDATION_ROWS = "Validate on this many rows only, drawn by the seed."
UNLABELLED = "File or folder of further train rows without gold, for `train rewards`."


@dataclass
class DataArguments:
    """What to train on: the arguments of [`load_multilabel`], as flags of a program and keys of a recipe."""

    dataset: str | None = field(
        default=None, metadata={"help": "Name, folder, file or Hub id; embedded: digits (default), digit_images."}
    )
    data_dir: str | None = field(default=None, metadata={"help": "Folder of named data sets; default: $SEAL_HF_DATA."})
    normalize: str | None = field(
        default=None,
        metadata={"help": "Scaling of the features, fitted on training rows: auto (default), standard, minmax, none."},
    )
    text_column: str | None = field(
        default=None, metadata={"help": "Column of the text; default: found. For pairs, two: premise,hypothesis."}
    )
    image_column: str | None = field(
        default=None, metadata={"help": "Column of the images, or of names of their files; default: found."}
    )
    label_column: str | None = field(default=None, metadata={"help": "Column of the label sets; default: found."})
    label_columns: list[str] | None = field(
        default=None,
        metadata={"help": "Columns of 0 and 1 or yes and no, one per label: a,b,c or all_but text,id; default: found."},
    )
    label_format: str = field(default="auto", metadata={"help": "auto, ids, names, multi_hot or probabilities."})
    label_separator: str | None = field(
        default=None, metadata={"help": "The mark between labels of a cell, or none; default: found."}
    )
    keep_id: bool = field(default=False, metadata={"help": "Keep an identifier attribute as an integer feature."})
    keep_root: bool = field(default=False, metadata={"help": "Keep the root of a class hierarchy as a label."})
    sample_weight: str | None = field(default=None, metadata={"help": "Column of the weights of training rows."})
    hierarchy: str | None = field(
        default=None,
        metadata={
            "help": "Hierarchy of the labels: a csv or tsv, a child and its parent in each line. Sets are closed."
        },
    )
    max_train_rows: int | None = field(default=None, metadata={"help": "Train on the first rows only."})
    max_validation_rows: int | None = field(default=None, metadata={"help": MAX_VALIDATION_ROWS})
    num_labelled: int | None = field(default=None, metadata={"help": NUM_LABELLED})
    unlabelled: str | None = field(default=None, metadata={"help": UNLABELLED})


@dataclass
class TagDataArguments:
    """What to tag: the arguments of [`load_tags`], as flags of a program and keys of a recipe."""

    dataset: str | None = field(
        default=None, metadata={"help": "Name, folder, file or Hub id; default: an embedded synthetic task."}
    )
    data_dir: str | None = field(default=None, metadata={"help": "Folder of named data sets; default: $SEAL_HF_DATA."})
    scheme: str = field(
        default="auto", metadata={"help": "Tags in this scheme: auto (as found), bio, bioes, io or plain."}
    )
    word_column: str = field(default="0", metadata={"help": "Column of the words: its number, or its name on the Hub."})
    tag_column: str = field(default="-1", metadata={"help": "Column of the tags: number (-1: last), or Hub name."})
    max_train_rows: int | None = field(default=None, metadata={"help": "Train on this many rows only."})
    max_validation_rows: int | None = field(default=None, metadata={"help": MAX_VALIDATION_ROWS})
    num_labelled: int | None = field(default=None, metadata={"help": NUM_LABELLED})
    unlabelled: str | None = field(default=None, metadata={"help": UNLABELLED})


@dataclass
class MaskDataArguments:
    """What to segment: the arguments of [`load_masks`], as flags of a program and keys of a recipe."""

    dataset: str | None = field(
        default=None,
        metadata={"help": "Name, folder, file or Hub id; default: embedded digits; digit_classes: with classes."},
    )
    data_dir: str | None = field(default=None, metadata={"help": "Folder of named data sets; default: $SEAL_HF_DATA."})
    image_size: int | None = field(default=None, metadata={"help": "Resize images and masks to this square."})
    image_column: str | None = field(default=None, metadata={"help": "Hub: column of the images; default: found."})
    mask_column: str | None = field(default=None, metadata={"help": "Hub: column of the masks; default: found."})
    class_names: list[str] | None = field(
        default=None, metadata={"help": "Classes: names, or a file of them; default: classes.txt, or numbers."}
    )
    ignore_index: int | None = field(default=None, metadata={"help": "Value of pixels that do not count, beside 255."})
    reduce_labels: bool = field(
        default=False, metadata={"help": "0 does not count, and other values are one more than their class."}
    )
    max_train_rows: int | None = field(default=None, metadata={"help": "Train on the first rows only."})
    max_validation_rows: int | None = field(default=None, metadata={"help": MAX_VALIDATION_ROWS})
    num_labelled: int | None = field(default=None, metadata={"help": NUM_LABELLED})
    unlabelled: str | None = field(default=None, metadata={"help": UNLABELLED})
