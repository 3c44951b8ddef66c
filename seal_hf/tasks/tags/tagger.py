"""A saved tagger on sentences of any length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import datasets
import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ...core.sequences import IGNORED
from ...data.common import DataError
from ...data.sentences import Sentence
from ...data.tensors.vocabulary import Vocabulary
from ...data.tensors.windows import Window, subword_counts, windows_of
from ...data.tensors.words import WordRows, marker_of, positions
from ...saving.batches import in_batches, trained_inputs, word_rows
from ...saving.model import SealModel
from .space import TagSequenceSpace


class Tagged(NamedTuple):
    """The prediction for a sentence of T words.

    Attributes:
        tags: T names.
        probabilities: (T, C) float32, of each tag at each word, under the distribution that the decoder follows.
        energy: of the tags, lower is better; None if not requested, or if the sentence has several windows.
    """

    tags: list[str]
    probabilities: np.ndarray
    energy: float | None


class Read(NamedTuple):
    """Sentences as a task-net reads them: windows, and their rows of tensors."""

    windows: list[tuple[int, Window]]  # each with its sentence's number
    rows: WordRows


class Tagger:
    """Predictions of a saved model for sentences.

    Args:
        model: nets for tags; the task-net alone suffices without energies.
        decoder: one of `model.space.decoders`; None: the stored one.
        batch_size: number of sentences of similar length, or windows of longer ones, that are read together.

    Attributes:
        numbers: tag -> its index among the C tags.
    """

    def __init__(self, model: SealModel, decoder: str | None = None, batch_size: int = 32):
        self.model, self.batch_size = model, batch_size
        self.space = TagSequenceSpace.for_model(model.task_net).decided_by(decoder)
        self.numbers = {name: i for i, name in enumerate(self.space.label_names)}

    def __call__(self, sentences: Sequence[Sentence], energy: bool = False) -> list[Tagged]:
        """Predictions, in the order of the sentences.

        Raises:
            DataError: a sentence is too long and cannot be read in windows.
        """
        if not sentences:
            return []
        read = self.read(sentences)
        logits = self.logits(read)
        tags = self.decide(logits)
        energies = self.energies(read, tags) if energy else [None] * len(tags)
        return [Tagged(*row) for row in zip(tags, self.probabilities(logits), energies, strict=True)]

    def read(self, sentences: Sequence[Sentence]) -> Read:
        """The windows of sentences: for most sentences one window with all words."""
        words = [sentence.words for sentence in sentences]
        if isinstance(self.model.processor, Vocabulary):
            windows = [(i, Window(0, len(row), 0, len(row))) for i, row in enumerate(words)]
        else:
            windows = self._windows(sentences)
        columns: dict[str, list[Any]] = {
            name: [sentences[i].features[name][window.start : window.end] for i, window in windows]
            for name in sentences[0].features
        }
        if sentences[0].predicate is not None:
            columns["predicate"] = [sentences[i].predicate for i, _ in windows]
        parts = [words[i][window.start : window.end] for i, window in windows]
        with _without_bars():
            return Read(windows, word_rows(parts, columns, self.model.processor, self.model.config))

    def _windows(self, sentences: Sequence[Sentence]) -> list[tuple[int, Window]]:
        tokenizer, config = self.model.processor, self.model.config
        inputs = trained_inputs(config)
        limits = (inputs.get("max_length"), tokenizer.model_max_length, positions(config))
        marker = marker_of(inputs.get("predicate_marker"), config)
        pair = sentences[0].predicate is not None and marker == "segment"
        special = tokenizer.num_special_tokens_to_add(pair=pair)
        room = min(size for size in limits if size) - special
        if room < 1:
            raise ValueError(f"`max_length` is {room + special}; with special tokens a row has at least {special + 1}.")
        windows: list[tuple[int, Window]] = []
        for i, sizes in enumerate(subword_counts([sentence.words for sentence in sentences], tokenizer)):
            place = sentences[i].predicate
            total = int(sizes.sum() + (sizes[place] if pair else 0))
            if place is not None and total > room:
                raise DataError(
                    f"{sentences[i].where}: {total} sub-words, but the encoder takes {room} at once, and its "
                    "predicate must be among them. Split the sentence."
                )
            try:
                windows += [(i, window) for window in windows_of(sizes, room)]
            except ValueError as error:
                raise DataError(f"{sentences[i].where}: {error}. Split or shorten the word.") from error
        return windows

    @torch.no_grad()
    def logits(self, read: Read) -> list[Tensor]:
        """The logits (T, C) of each sentence, float32 on the CPU."""
        net = self.model.task_net.eval()
        found: list[Any] = [None] * len(read.rows)
        for chosen, batch in in_batches(read.rows, self.batch_size, net.device):
            values = net(**batch).logits.float().cpu()
            counts = read.rows.batch(chosen)["labels"] != IGNORED
            for row, part, counted in zip(chosen, values, counts, strict=True):
                window = read.windows[row][1]
                found[row] = part[counted][window.first - window.start : window.last - window.start]
        parts: list[list[Tensor]] = [[] for _ in range(1 + read.windows[-1][0])]
        for (i, _), part in zip(read.windows, found, strict=True):
            parts[i].append(part)
        return [torch.cat(row) for row in parts]

    def decide(self, logits: Sequence[Tensor], decoder: str | None = None) -> list[list[str]]:
        """The tag names of each sentence; `decoder` overrides the default."""
        space, names = self.space.decided_by(decoder), self.space.label_names
        rows = self._whole(logits, lambda values, mask: space.decode(values, mask=mask))
        return [[names[tag] for tag in row.tolist()] for row in rows]

    def probabilities(self, logits: Sequence[Tensor]) -> list[np.ndarray]:
        """The probabilities (T, C) of each sentence, see [`Tagged`]."""
        rows = self._whole(logits, lambda values, mask: self.space.counting(mask).relax(values))
        return [row.numpy() for row in rows]

    @torch.no_grad()
    def _whole(self, logits: Sequence[Tensor], function: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        """What a function of padded logits and mask gives for each sentence, without the padding."""
        found: list[Tensor] = []
        for start in range(0, len(logits), self.batch_size):
            rows = logits[start : start + self.batch_size]
            sizes = [len(row) for row in rows]
            padded = pad_sequence(list(rows), batch_first=True).to(self.model.task_net.device)
            places = torch.arange(padded.shape[1], device=padded.device)
            mask = places < torch.tensor(sizes, device=padded.device).unsqueeze(1)
            values = function(padded, mask).cpu()
            found += [row[:size] for row, size in zip(values, sizes, strict=True)]
        return found

    @torch.no_grad()
    def energies(self, read: Read, tags: Sequence[Sequence[str]]) -> list[float | None]:
        """The energy of each sentence's tags; None for a sentence in several windows, each of which has its own."""
        whole = [window == Window(0, len(tags[i]), 0, len(tags[i])) for i, window in read.windows]
        found: list[float | None] = [None] * len(tags)
        for chosen, batch in in_batches(read.rows, self.batch_size, self.model.task_net.device):
            labels = read.rows.batch(chosen)["labels"]
            for row, place in zip(chosen, labels, strict=True):
                i, window = read.windows[row]
                ids = [self.numbers[tag] for tag in tags[i][window.start : window.end]]
                place[place != IGNORED] = torch.tensor(ids)
            y, mask = self.space.gold(labels.to(self.model.task_net.device))
            for row, energy in zip(chosen, self.model.energy(y, mask, **batch).tolist(), strict=True):
                if whole[row]:
                    found[read.windows[row][0]] = energy
        return found


def sentences_of(words: Sequence[Sequence[str]], columns: Mapping[str, Sequence[Any]]) -> list[Sentence]:
    """Sentences from lists of words.

    Args:
        columns: further columns by name: `predicate`, the position of a word, and features, one value per word.

    Raises:
        DataError: an entry is a string instead of a list of words, or has no words.
    """
    found = []
    for i, row in enumerate(words):
        if isinstance(row, str) or not len(row):
            raise DataError(f"`words`, place {i}: {row!r}; expected a list of words, such as [['a', 'text']].")
        more = {name: values[i] for name, values in columns.items()}
        predicate, where = more.pop("predicate", None), f"`words`, place {i}"
        found.append(Sentence.of_words(list(row), where, {}, [], features=more, predicate=predicate))
    return found


@contextmanager
def _without_bars() -> Iterator[None]:
    """Hide the progress bars of `datasets`: a bar for every few sentences is useless."""
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()
