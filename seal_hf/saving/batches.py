"""Raw texts, words and images as batches of a task-net's inputs, for prediction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from torch.nn import functional as F
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from ..core.space import UNLABELLED
from ..data import DataError
from ..data.image_files import as_rgb, pixels, resized
from ..data.tensors.collators import TEXT_PADDING, TensorRows, encoded_texts, longest_first, padding_id
from ..data.tensors.images import pixel_scaling
from ..data.tensors.vocabulary import Vocabulary
from ..data.tensors.words import WordRows, encode_words, positions, tokenize_words
from ..nets.text_pooling import reads_whole
from ..utils.messages import brief
from .loading import check_inputs

Batch = dict[str, Tensor]
Text = str | tuple[str, str]  # a row's text, or pair of texts


def in_batches(rows: TensorRows, size: int, device: torch.device) -> Iterator[tuple[list[int], Batch]]:
    """Indices of rows and their batch, on `device`: rows of similar length together, longest first.

    Raises:
        ValueError: `size` < 1.
    """
    if size < 1:
        raise ValueError(f"`batch_size` is {size}; it must be at least 1.")
    order = longest_first(rows) or list(range(len(rows)))
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        yield chosen, {name: column.to(device) for name, column in rows.batch(chosen).items() if name != "labels"}


def text_rows(texts: Sequence[Text], tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> TensorRows:
    """Token ids of texts, or of pairs of texts. They are cut where training cut them (`config.inputs["max_length"]`),
    or else at the encoder's limit; a net that reads windows gets whole texts.

    Raises:
        ValueError: an entry is neither a string nor a pair of strings, or is the one that the net was not trained on.
    """
    _check_texts(texts, trained_inputs(config))
    if not len(texts):
        return TensorRows(Dataset.from_dict({}))
    limits = [trained_inputs(config).get("max_length")]
    limits += [] if reads_whole(config) else [tokenizer.model_max_length, positions(config)]
    limit = min(filter(None, limits), default=None)
    parts: list[Any] = [list(texts)] if isinstance(texts[0], str) else [list(part) for part in zip(*texts, strict=True)]
    encoded = encoded_texts(parts, tokenizer, limit)
    padding = TEXT_PADDING | {"input_ids": _padding_of(tokenizer, config)}
    return TensorRows(Dataset.from_dict(dict(encoded)), {name: padding[name] for name in encoded})


def _padding_of(tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> int:
    """The id of the net's padding token, by which a decoder's head finds the last token. A net without one gets the
    tokenizer's."""
    own: Any = config.get_text_config()
    if getattr(own, "pad_token_id", None) is None:
        own.pad_token_id = padding_id(tokenizer)
    return own.pad_token_id


def _check_texts(texts: Sequence[Text], inputs: Mapping[str, Any]) -> None:
    """Raises ValueError unless `texts` is a list of strings, or of pairs if the net reads pairs. A net that does not
    say how it was trained reads either."""
    pairs = inputs.get("pairs", False) if inputs else bool(len(texts)) and isinstance(texts[0], tuple | list)
    is_one = _is_pair if pairs else lambda text: isinstance(text, str)
    wrong = next((f"{brief(text)} at place {i}" for i, text in enumerate(texts) if not is_one(text)), None)
    if isinstance(texts, str) or wrong is not None:
        found = "one string" if isinstance(texts, str) else wrong
        expected = "pairs of strings, such as [('a text', 'another')]" if pairs else "strings, such as ['a text']"
        raise ValueError(f"`texts` holds {found}; expected a list of {expected}.")


def _is_pair(text: Any) -> bool:
    return isinstance(text, (tuple, list)) and len(text) == 2 and all(isinstance(part, str) for part in text)


def word_rows(
    words: Sequence[list[str]],
    columns: Mapping[str, Sequence[Any]],
    reader: PreTrainedTokenizerBase | Vocabulary,
    config: PretrainedConfig,
) -> WordRows:
    """Rows of sentences: word ids with a BiLSTM's vocabulary, sub-words with a tokenizer.

    Args:
        words: N sentences.
        columns: further columns by name: the features of a vocabulary, and `predicate`, the position of a word.

    Raises:
        DataError, ValueError: `encode_words` or `tokenize_words` raises it, or a sentence is longer than the encoder's
            limit.
    """
    without_tags = [[UNLABELLED] * len(sentence) for sentence in words]
    data = Dataset.from_dict({"words": list(words), "tags": without_tags, **columns})
    if isinstance(reader, Vocabulary):
        return encode_words(data, reader)
    marker = trained_inputs(config).get("predicate_marker")
    return tokenize_words(data, reader, config=config, predicate_marker=marker)


def image_batches(
    images: Iterable[Any], processor: Any, batch_size: int
) -> Iterator[tuple[Tensor, list[tuple[int, int]]]]:
    """Batches of `pixel_values` (B, 3, h, w), as training reads them, and the original size (H, W) of each image.

    Args:
        images: paths, PIL images, or uint8 arrays (H, W) or (H, W, 3).
        processor: the image processor saved with the task-net, which sets the size that the net reads.
        batch_size: maximum number of images per batch.

    Raises:
        ValueError: [`check_images`] raises it.
        DataError: an entry is not an image.
    """
    check_images(images)
    scaling = {"mean": 0.0, "std": 1.0, "flip_channels": False} | pixel_scaling(processor)
    mean, std = (torch.as_tensor(scaling[name], dtype=torch.float32).view(-1, 1, 1) for name in ("mean", "std"))
    size = dict(getattr(processor, "size", None) or {}) if getattr(processor, "do_resize", False) else None
    if size is not None and not all(type(size.get(side)) is int and size[side] > 0 for side in ("height", "width")):
        raise DataError(
            f"The image processor resizes by {size}; expected a height and a width, so that masks can be resized "
            "back. Set them: seal_hf.resize_to(model.processor, (height, width))."
        )
    batch: list[Tensor] = []
    sizes: list[tuple[int, int]] = []
    for place, image in enumerate(images):
        array = as_rgb(pixels(Path(image) if isinstance(image, str) else image), f"`images`, place {place}")
        height, width = array.shape[:2]
        if size is not None and (height, width) != (size["height"], size["width"]):
            array = resized(array, (size["height"], size["width"]))
        values = (torch.from_numpy(array.copy()).permute(2, 0, 1).float() / 255 - mean) / std
        if batch and (len(batch) == batch_size or values.shape != batch[0].shape):
            yield torch.stack(batch), sizes
            batch, sizes = [], []
        batch.append(values.flip(0) if scaling["flip_channels"] else values)
        sizes.append((height, width))
    if batch:
        yield torch.stack(batch), sizes


def at_size(probabilities: Tensor, size: tuple[int, int]) -> Tensor:
    """Probabilities (..., h, w), resized bilinearly to the size (H, W) of the image."""
    if tuple(probabilities.shape[-2:]) == size:
        return probabilities
    planes = probabilities.reshape(1, -1, *probabilities.shape[-2:])
    resized = F.interpolate(planes, size=size, mode="bilinear", align_corners=False).clamp(0, 1)
    return resized.view(*probabilities.shape[:-2], *size)


def check_one_kind(name: str, raw: Any, inputs: Mapping[str, Any]) -> None:
    """Raise ValueError unless there are either raw rows (the argument called `name`) or inputs of the task-net."""
    if (raw is None) == (not inputs):
        both = f"`{name}` and {', '.join(inputs)} are given" if inputs else f"neither `{name}` nor inputs are given"
        raise ValueError(f"{both}: `predict` takes either raw {name}, or the task-net's own inputs by name.")


def check_rows(name: str, raw: Any) -> None:
    """Raises ValueError for raw rows (the argument called `name`) that are not in order, or not rows."""
    if not in_order(raw):
        hint = " Pass the output of a tokenizer or an image processor as `predict(**inputs)`."
        raise ValueError(
            f"`{name}` is of type {type(raw).__name__}; expected a list of rows, or one column of a table."
            f"{hint if isinstance(raw, Mapping) else ''}"
        )


def in_order(raw: Any) -> bool:
    """True if iteration gives the items in order: not for tables and mappings, which give names, and not for sets."""
    is_table = hasattr(raw, "columns") or hasattr(raw, "column_names")
    return isinstance(raw, Iterable) and not is_table and not isinstance(raw, Mapping | set | frozenset)


def check_images(images: Any) -> None:
    """Raises ValueError for one image in place of a list, and as [`check_rows`]."""
    if isinstance(images, str | PathLike) or hasattr(images, "convert") or getattr(images, "ndim", 4) not in (1, 4):
        raise ValueError(
            f"`images` is one {type(images).__name__}; expected a list of images, such as ['a.png']: paths, PIL images "
            "or uint8 arrays (H, W, 3)."
        )
    check_rows("images", images)


def trained_inputs(config: PretrainedConfig) -> dict[str, Any]:
    """How the net read its inputs when it was trained, `config.inputs`; empty if unknown.

    Raises:
        ValueError: it is not a mapping, or a value is of a wrong kind.
    """
    return check_inputs(getattr(config, "inputs", None) or {})
