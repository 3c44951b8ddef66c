"""Rows of texts and of images for a program that trains: the greatest length of texts, and the processor, size and
augmentation of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datasets import Dataset
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from ...cli.train.arguments import TOO_LONG
from ...data import MultiLabelData
from ...data.common import IMAGE
from ...data.tensors.collators import TensorRows, tokenize
from ...data.tensors.crops import resize_to
from ...data.tensors.images import AUGMENTATIONS, ImageRows, load_image_processor
from ...nets.cnn import cnn_image_processor
from ...nets.text_windows import most_tokens, reads_whole

MAX_LENGTH = 128  # tokens in a text, or in a window
WHOLE = 10**30  # saved in the tokenizer of a net that reads whole texts, which must not cut


def check_read_as(data: MultiLabelData, kind: str) -> None:
    """Raise ValueError where a run that was set up for texts or images gets something else, as a Hub id does not say
    what it holds."""
    if data.kind == kind:
        return
    if data.kind == "features":
        raise ValueError(
            f"{data.name!r} holds features, which programs read from files only. Save it with `save_to_disk` or as "
            "parquet, and name that by --dataset."
        )
    if data.kind == "images":
        raise ValueError(
            f"{data.name!r} holds images. Name their column by --image_column, and by --model_name_or_path a model "
            "that reads images, such as facebook/dinov2-small."
        )
    raise ValueError(
        f"{data.name!r} holds texts, but --model_name_or_path names a model that reads images. Name one that reads "
        "texts, such as distilbert-base-uncased."
    )


def text_rows_of(
    tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig, asked: int | None, say: Callable[[str], None]
) -> Callable[[Dataset], TensorRows]:
    """A function from a split to the rows of a net.

    Args:
        config: the net's.
        asked: the longest text, in tokens; default: `MAX_LENGTH`. The encoder's limit also applies, with a note.
    """
    max_length, most = MAX_LENGTH if asked is None else asked, most_tokens(tokenizer, config)
    if most is not None and asked is not None and asked > most:
        say(TOO_LONG.format(asked=asked, most=most))
    if reads_whole(config):
        tokenizer.model_max_length = WHOLE
        return lambda rows: tokenize(rows, tokenizer, None)
    length = min(max_length, most or max_length)
    return lambda rows: tokenize(rows, tokenizer, length)


def say_what_is_longer(
    data: MultiLabelData,
    rows: TensorRows,
    config: Any,
    say: Callable[[str], None],
    flags: str = "--max_length, --long_texts windows",
) -> None:
    """Tell how many training texts are cut, and by which flags that changes, or read in several windows."""
    if reads_whole(config):
        size = config.window_size
        longer = int((rows.ragged["input_ids"][1].diff() > size).sum())
        done = f"are read in windows of {size} (--long_texts windows)"
    else:
        size, longer = (rows.inputs or {})["max_length"], rows.num_cut
        done = f"are cut (change: {flags})"
    if longer:
        say(f"{data.name}, train: {longer} of {len(rows)} texts are longer than {size} tokens, and {done}.")


LARGEST = 64  # side in pixels of images for the convolutional net, unless another is asked for


def processor_of(data: MultiLabelData, model_name_or_path: str | None, image_size: int | None, **origin: Any) -> Any:
    """The image processor of a pretrained model, or one for the convolutional net.

    Args:
        image_size: side in pixels of the square to which it resizes; default: as it is, and for the convolutional net
            the size of the first image, or 64 if that is larger.
        origin: `revision` and `trust_remote_code`, as for [`load_image_processor`].

    Raises:
        ValueError: there is no image processor.
    """
    asked = None if image_size is None else (image_size, image_size)
    if model_name_or_path is not None:
        processor = load_image_processor(model_name_or_path, **origin)
        return processor if asked is None else resize_to(processor, asked)
    width, height = data.train[0][IMAGE].size
    return cnn_image_processor(asked or ((height, width) if max(height, width) <= LARGEST else (LARGEST, LARGEST)))


def image_rows_of(processor: Any, augmentation: str, seed: int) -> tuple[Callable[[Dataset], ImageRows], ...]:
    """Functions from a split to its rows, for training and for evaluation."""
    augment = AUGMENTATIONS[augmentation]
    return lambda rows: ImageRows(rows, processor, augment, seed), lambda rows: ImageRows(rows, processor)
