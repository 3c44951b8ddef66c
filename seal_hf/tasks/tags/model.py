"""Tag sequences: SealForTokenClassification, over any Hugging Face token classifier or the small BiLSTM; and a saved
tagger on sentences of any length.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForTokenClassification, PreTrainedModel
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, cached_file, logging

from ...core.tensors import IGNORED
from ...data import TagSequenceData, load_tags
from ...data.common import DataError
from ...data.sentences import Sentence
from ...data.table_sources import loaded
from ...data.tensors.vocabulary import Vocabulary, WordVectors
from ...data.tensors.words import Window, WordRows, marker_of, positions, saved_tokenizer, subword_counts, windows_of
from ...nets.adapters import library_of
from ...nets.recurrent import BiLSTMConfig, BiLSTMForTokenClassification, BiLSTMPreTrainedModel
from ...saving.batches import check_one_kind, check_rows, in_batches, in_order, trained_inputs, word_rows
from ...saving.loading import for_other_labels, hub_options, label_maps, place_of
from ...saving.model import SealModel, SealModelT
from ...utils.files import of_variant
from ...utils.gate import check_origin, config_of
from ...utils.messages import check_unread
from .chains import CRF, tied_crf
from .space import TagSequenceSpace

logger = logging.get_logger(__name__)

# the sizes of a BiLSTM from scratch, unless others are given
FROM_SCRATCH: dict[str, dict[str, Any]] = {"BiLSTM": {"hidden_size": 200, "num_layers": 1, "dropout": 0.3}}
FEATURE_SIZE = 25  # width of the BiLSTM's embeddings of features and of the predicate's mark


class SealForTokenClassification(SealModel):
    """A token classifier, with logits (B, T, C), and its loss-net.

    A task-net with a CRF has it as `task_net.crf`, and `config.crf` says so. Saved, it is a plain token classifier with
    three more tensors; other code ignores them and decodes each tag by itself.
    """

    auto_class = AutoModelForTokenClassification
    space_class = TagSequenceSpace
    default_global_size = 128

    @torch.no_grad()
    def predict(
        self,
        words: Iterable[Sequence[str]] | None = None,
        *,
        mask: Tensor | None = None,
        decoder: str | None = None,
        batch_size: int = 32,
        columns: Mapping[str, Sequence[Any]] | None = None,
        **inputs: Tensor,
    ) -> tuple[Any, Any]:
        """Tags, by the task-net without dropout.

        Args:
            words: N sentences, each a list of words; or
            inputs: the task-net's inputs, in one batch.
            mask: (B, T) with `inputs`, the positions that count: the first sub-word of each word. Required if tags are
                decoded together, by a CRF or a scheme; otherwise, and for the BiLSTM, the default is the attention
                mask.
            decoder: one of `self.space.decoders`; default: the saved one. Without a saved one, a CRF decodes by
                Viterbi's algorithm, and any other net decodes each tag by itself.
            batch_size: sentences per batch; they are batched by length. A sentence longer than the encoder's limit is
                read in overlapping windows and decoded as a whole.
            columns: with `words`, further columns by name: the features that a BiLSTM reads, and `predicate`.

        Returns:
            N tensors of probabilities (T_i, C), on the CPU, and N lists of T_i tag names; for `inputs` probabilities
            (B, T, C) and tag ids (B, T). A probability is that of a tag at a position, under the distribution that the
            decoder follows: a softmax, or the marginals of a chain, which are 0 outside `mask`. Those of
            `unique_roles` are the scheme's: it only restricts the decided sequence.

        Raises:
            ValueError: there are neither words nor inputs, a required mask is missing, or the decoder is unknown.
            DataError: a sentence has no words, or has a predicate and is longer than the encoder's limit.
        """
        check_one_kind("words", words, inputs)
        if words is not None:
            tagged = Tagger(self, decoder, batch_size)(sentences_of(words, columns or {}))
            return [torch.from_numpy(row.probabilities) for row in tagged], [row.tags for row in tagged]
        space, net = self.space_class.for_model(self.task_net).decided_by(decoder), self.task_net.eval()
        mask = space.positions(net, inputs) if mask is None else mask.bool()
        logits = net(**inputs).logits
        return space.counting(mask).relax(logits), space.decode(logits, mask=mask)

    def _load_processor(self, name: str, hub: dict[str, Any]) -> Any:
        if isinstance(self.task_net, BiLSTMPreTrainedModel):
            return Vocabulary.from_pretrained(name, **hub)
        return saved_tokenizer(name, add_prefix_space=True, **hub)

    @classmethod
    def from_pretrained(
        cls: type[SealModelT], model_name_or_path: str | Path, *, crf: bool | None = None, **kwargs: Any
    ) -> SealModelT:
        """As [`SealModel.from_pretrained`].

        Args:
            crf: True if the task-net has a CRF; default: as saved. A fresh CRF starts at zero.
        """
        seal = super().from_pretrained(model_name_or_path, **kwargs)
        saved = getattr(seal.config, "crf", False)
        if saved if crf is None else crf:
            task_net, name = with_crf(seal.task_net), str(model_name_or_path)
            assert isinstance(task_net.crf, CRF)
            seal.space = cls.space_of(task_net).for_model(task_net)
            if not (saved and _load_crf(task_net.crf, _saved_crf(name, kwargs), name)):
                seal.fresh += [f"crf.{part}" for part in task_net.crf.state_dict()]
        else:
            seal.config.crf = False
        return seal.eval()

    @classmethod
    def for_data(
        cls,
        data: TagSequenceData | Any,
        model_name_or_path: str | None = None,
        *,
        vocabulary: Vocabulary | None = None,
        vectors: WordVectors | None = None,
        loss_net_encoder: str | None = None,
        adapter: Any = None,
        crf: bool | None = None,
        energy: str | None = None,
        energy_options: dict[str, Any] | None = None,
        global_size: int | None = None,
        word_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int | None = None,
        dropout: float | None = None,
        train_word_embeddings: bool | None = None,
        **kwargs: Any,
    ) -> SealForTokenClassification:
        """Both nets for a data set of [`load_tags`] or [`load_srl`].

        Args:
            data: a data set, or an argument of [`load_tags`], which is then loaded. A data set has `name`,
                `label_names` and `train`, whose tags are roles if it has a column `predicate`.
            model_name_or_path: a Hugging Face encoder or token classifier; default: the BiLSTM.
            vocabulary: words, characters and features of the BiLSTM.
            vectors: pretrained word vectors of the BiLSTM; each net gets a copy.
            loss_net_encoder, adapter, kwargs: see [`SealModel.from_pretrained`]; the BiLSTM takes `separate` or
                `shared`, and no adapter.
            crf: a CRF over the logits, trained by `task_loss="crf"`; default: as the task-net was saved.
            energy, energy_options, global_size: of the loss-net, see `ENERGIES`.
            word_size, hidden_size, num_layers, dropout, train_word_embeddings: of a fresh BiLSTM; default: as in
                `FROM_SCRATCH` and [`BiLSTMConfig`].

        Raises:
            ValueError: both `model_name_or_path` and `vocabulary` are missing; adapters or `kwargs` for the BiLSTM.
        """
        data = loaded(data, load_tags)
        sizes: dict[str, Any] = {"word_size": word_size, "hidden_size": hidden_size, "num_layers": num_layers}
        sizes |= {"dropout": dropout, "train_word_embeddings": train_word_embeddings}
        labels: dict[str, Any] = label_maps(data.label_names)
        loss_net: dict[str, Any] = {"energy": energy, "energy_options": energy_options, "global_size": global_size}
        if model_name_or_path is not None:
            own = {"vocabulary": vocabulary, "vectors": vectors, **sizes}
            name = place_of(model_name_or_path)
            _check_own(name, own, hub_options(kwargs))
            names = {"num_labels": len(data.label_names), **labels}
            options = {"loss_net_encoder": loss_net_encoder, "adapter": adapter, **loss_net, **names}
            options |= for_other_labels(name, labels["id2label"], kwargs) | kwargs
            return cls.from_pretrained(name, crf=crf, **options)
        if vocabulary is None:
            raise ValueError(
                "`model_name_or_path` and `vocabulary` are both missing: give a Hugging Face encoder, or "
                "Vocabulary.from_data(data.train, ...) for a BiLSTM."
            )
        if adapter is not None or loss_net_encoder not in (None, "separate", "shared"):
            raise ValueError(
                f"`adapter` is {adapter!r} and `loss_net_encoder` {loss_net_encoder!r}, but a BiLSTM has no pretrained "
                "base to adapt. Use loss_net_encoder='separate' or 'shared', or give `model_name_or_path`."
            )
        check_unread(kwargs, "a BiLSTM")
        if vectors is not None:
            sizes["word_size"] = vectors.matrix.shape[1]
        config = BiLSTMConfig(
            vocab_size=len(vocabulary.words),
            char_vocab_size=len(vocabulary.chars),
            feature_sizes={name: [len(values), FEATURE_SIZE] for name, values in vocabulary.features.items()},
            predicate_size=FEATURE_SIZE if "predicate" in data.train.column_names else 0,
            crf=False,
            **FROM_SCRATCH["BiLSTM"] | {name: value for name, value in sizes.items() if value is not None},
            **labels,
        )
        task_net = BiLSTMForTokenClassification(config)
        nets = cls._fresh_loss_net(task_net, None, loss_net_encoder, global_size, energy, energy_options)
        seal = cls(with_crf(task_net) if crf else task_net, nets)
        if vectors is not None:
            matrix, _ = vocabulary.word_matrix(vectors)
            for net in (seal.task_net, seal.loss_net.encoder):
                if isinstance(net, BiLSTMPreTrainedModel):
                    net.set_word_vectors(np.ascontiguousarray(matrix))
        return seal


def is_bilstm(name: str | Path | None, **hub: Any) -> bool:
    """True if a folder or repo holds a BiLSTM. `hub` has the same arguments as `from_pretrained`."""
    try:
        config = {} if name is None else config_of(name, hub)
    except OSError:  # an adapter's folder; or none, which the loader reports
        return False
    return config.get("model_type") == BiLSTMConfig.model_type


def _check_own(name: str, own: dict[str, Any], hub: dict[str, Any]) -> None:
    """Raises ValueError for options of a fresh BiLSTM with a pretrained model. A saved BiLSTM keeps its sizes, with a
    warning."""
    given = {option: value for option, value in own.items() if value is not None}
    if given:
        check_origin(name, hub, adapter=True)
    config = BiLSTMConfig.from_pretrained(name, **hub) if given and is_bilstm(name, **hub) else None
    for option, value in given.items():
        if config is None or not hasattr(config, option):
            raise ValueError(
                f"`{option}` is for a fresh BiLSTM, but `model_name_or_path` is {name!r}. Leave one of them out."
            )
        if (found := getattr(config, option)) != value:
            logger.warning(f"The BiLSTM in {name} keeps its {option} {found!r}; {value!r} is ignored.")


def with_crf(task_net: PreTrainedModel) -> PreTrainedModel:
    """The task-net with a fresh CRF over its logits; `task_loss="crf"` trains it.

    Raises:
        ValueError: the task-net has adapters, whose libraries save only the adapters and the classifier.
    """
    if library_of(task_net) is not None:
        raise ValueError(
            "The task-net has adapters, with which a CRF is not saved: give another task loss "
            "(--task_loss cross_entropy) and crf=False, or no adapters."
        )
    names: dict = task_net.config.id2label or {}
    task_net.crf = tied_crf([names[i] for i in range(len(names))])
    task_net.config.crf = True
    return task_net


def _load_crf(crf: CRF, saved: dict[str, Tensor], name: str) -> bool:
    """True if the weights were loaded. A CRF for other tags gets fresh weights, with a warning, as the classifier does
    under `ignore_mismatched_sizes`."""
    fits = {key: value.shape for key, value in saved.items()} == {k: v.shape for k, v in crf.state_dict().items()}
    if fits:
        crf.load_state_dict(saved)
    else:
        logger.warning(f"The CRF in {name} does not have {crf.num_tags} tags: it gets fresh weights.")
    return fits


def _saved_crf(name: str, kwargs: dict) -> dict[str, Tensor]:
    """The CRF's tensors from a folder or repo, whose weights may be in several files."""
    hub, variant = hub_options(kwargs), kwargs.get("variant")
    try:
        files = {cached_file(name, of_variant(SAFE_WEIGHTS_NAME, variant), **hub)}
    except OSError:
        listed = Path(str(cached_file(name, of_variant(SAFE_WEIGHTS_INDEX_NAME, variant), **hub)))
        index = json.loads(listed.read_text(encoding="utf-8"))
        names = {file for key, file in index["weight_map"].items() if key.startswith("crf.")}
        files = {cached_file(name, file, **hub) for file in names}
    found: dict[str, Tensor] = {}
    for part in files:
        with safe_open(part, "pt") as tensors:
            found |= {key[4:]: tensors.get_tensor(key) for key in tensors.keys() if key.startswith("crf.")}
    return found


# --- sentences of any length ------------------------------------------------------------------------------------------


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
        """Sentences as windows. Most sentences have one window, with all words."""
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


def sentences_of(words: Iterable[Sequence[str]], columns: Mapping[str, Sequence[Any]]) -> list[Sentence]:
    """Sentences from lists of words.

    Args:
        columns: further columns by name: `predicate`, the position of a word, and features, one value per word.

    Raises:
        ValueError: `words` is not a sequence of rows.
        DataError: an entry is not a list of words, or has no words.
    """
    check_rows("words", words)
    columns = {name: list(values) for name, values in columns.items()}
    found = []
    for i, row in enumerate(words):
        listed = list(row) if in_order(row) and not isinstance(row, str) else []
        if not listed or not all(isinstance(word, str) for word in listed):
            raise DataError(f"`words`, place {i}: {row!r}; expected a list of words, such as [['a', 'text']].")
        more = {name: values[i] for name, values in columns.items()}
        predicate, where = more.pop("predicate", None), f"`words`, place {i}"
        found.append(Sentence.of_words(listed, where, {}, [], features=more, predicate=predicate))
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
