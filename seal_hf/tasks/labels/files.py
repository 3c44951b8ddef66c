"""Label sets in `seal-hf predict` and `seal-hf evaluate`: for texts, features and images."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ...cli.flags import BATCH_SIZE
from ...cli.output_kind import Evaluation, OutputKind, each_chunk, origin_of
from ...core.decisions import as_threshold
from ...core.hierarchy import hierarchy_of
from ...data.arff import ArffReader, find_arff, is_arff
from ...data.column_choice import LABELS, need_column, usual_labels
from ...data.common import WRITE_ZERO, DataError
from ...data.label_cells import DIGITS, label_cells, probability_cells
from ...data.label_matrix import MULTI_HOT, gold_labels, in_order
from ...data.label_rows import (
    FeatureTable,
    ImageFiles,
    ImageTable,
    TextReader,
    image_column_of,
    image_files,
    text_column_of,
)
from ...data.row_tables import Chunk, Table
from ...data.table_sources import open_table
from ...data.writers import Writer, schema_of, table_writer
from ...saving.loading import holds_image_classifier
from ...utils.messages import PRINTED_LABELS, check_owner, few
from .decisions.label_decisions import LabelDecisions
from .metrics import row_blocks
from .model import SealForMultiLabel
from .page import label_figures

Reader = TextReader | ImageFiles
IMAGES_PER_CHUNK = 256
ENTRIES_PER_CHUNK = 1 << 20  # most rows times labels or columns, of which some copies are in memory at once


class LabelOutput(OutputKind):
    """Label sets.

    An output has the columns of the input; `labels`, the decided ones; `probabilities`, of the decided labels and the
    likeliest one, or of all labels (in a table, a column `probability_NAME` for each); and `energy`.
    """

    decided_unit: ClassVar[str] = "labels"
    model: SealForMultiLabel

    def __init__(self, options: Namespace, like: OutputKind | None = None):
        super().__init__(options, like)
        names = self.config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}  # transformers leaves these out
        self.labels = [names[key] for key in sorted(names, key=int)]
        self.format = ".jsonl" if getattr(options, "output", None) is None else Path(options.output).suffix.lower()
        self.reads_images = holds_image_classifier(self.config)

    @property
    def model_class(self) -> type[SealForMultiLabel]:
        return SealForMultiLabel

    # --- input -------------------------------------------------------------------------------------------------------

    def open_input(self, gold: bool) -> Reader:
        self.check_decoder()
        if "input_size" in self.config:
            self.reader = self._features(gold)
        else:
            self.reader = self._images(gold) if self.reads_images else self._texts(gold)
        self._tell_columns(self.reader)
        width = max(len(self.labels), len(self.reader.columns))
        most = IMAGES_PER_CHUNK if self.reads_images else self.rows_per_chunk
        self.rows_per_chunk = max(1, min(most, ENTRIES_PER_CHUNK // width))
        for name, ours in () if gold else self.names.items():
            if name != ours:
                self.reader.notes.append(f"the input has a column {name!r}: ours is called {ours!r}.")
        return self.reader

    def check_decoder(self) -> None:
        if self.given is not None:
            check_owner({"refit": getattr(self.options, "refit", False)}, "decisions of the model", "a file is given")
            return
        config = SimpleNamespace(**self.config)
        if getattr(self.options, "refit", False):
            LabelDecisions.check_name(self.options.decoder, config, LabelDecisions.from_config(config).target)
            return
        decisions = LabelDecisions.from_config(config)
        if as_threshold(self.options.decoder) is None:
            decisions.named(self.options.decoder)

    @cached_property
    def given(self) -> LabelDecisions | None:
        """The decisions of the file that `--decoder` names, in the order of the model's labels. None if it names a
        decoder.

        Raises:
            OSError, ValueError: no such file, a damaged one, or one for other labels.
        """
        if not str(self.options.decoder or "").endswith(".json"):
            return None
        found = LabelDecisions.load(self.options.decoder)
        try:
            return found.in_order(self.labels)
        except ValueError as error:
            raise ValueError(f"{self.options.decoder}: {error}") from error

    @property
    def decoder(self) -> str | None:
        """The decoder that is asked for. If that is a file of decisions, it is the one stored there."""
        return self.options.decoder if self.given is None else self.given.decoder

    def _texts(self, gold: bool) -> TextReader:
        options = self.options
        check_owner({"image_column": options.image_column}, "images", f"{options.model} reads texts")
        if is_arff(options.input):
            raise DataError(f"{options.input} is ARFF, a format for features, but {options.model} reads texts.")
        table = open_table(options.input, options.split, self._label_column)
        pairs = "pairs" in self.trained if self.trained else None
        trained = self.trained.get("text_column")
        text_column = text_column_of(table, options.text_column, trained, self._label_column_of(table), pairs)
        return TextReader(table, text_column, **(self._gold_columns(table) if gold else {}))

    def _tell_columns(self, reader: Reader) -> None:
        """Note the columns that are read in place of those of training."""
        if not isinstance(reader, TextReader):
            return
        read = {}
        if "input_size" not in self.config:
            read["image_column" if self.reads_images else "text_column"] = repr(",".join(reader.text_columns))
        if reader.labels or reader.label_column is not None:
            read["label_column"] = "a column per label" if reader.labels else repr(reader.label_column)
        for name, columns in read.items():
            trained = self.trained.get(name)
            if trained is not None and getattr(self.options, name, None) is None and columns != repr(trained):
                source = reader.table.source
                reader.notes.append(f"{source} lacks the column {trained!r} of training: {columns} is read.")

    def _images(self, gold: bool) -> Reader:
        options = self.options
        texts = {"text_column": options.text_column, "max_length": options.max_length}
        check_owner(texts, "texts", f"{options.model} reads images")
        files = image_files(options.input)
        if files is not None and gold:
            raise DataError(
                f"{options.input} holds images without labels. Give a table of image files and labels, or its folder."
            )
        if files is not None:
            return files
        table = open_table(options.input, options.split, self._label_column)
        column = image_column_of(table, options.image_column, self.trained.get("image_column"))
        return ImageTable(table, column, **(self._gold_columns(table) if gold else {}))

    def _features(self, gold: bool) -> Reader:
        options, size = self.options, self.config["input_size"]
        check_owner({"image_column": options.image_column}, "images", f"{options.model} reads features")
        texts = {"text_column": options.text_column, "max_length": options.max_length}
        texts |= {} if options.batch_size == BATCH_SIZE else {"batch_size": options.batch_size}
        check_owner(texts, "texts", f"{options.model} reads features")
        if not is_arff(options.input):
            table = open_table(options.input, options.split, self._label_column)
            return FeatureTable(table, size, **(self._gold_columns(table) if gold else {}), trained=self.trained)
        cells = {
            name: value
            for name, default in (("label_column", None), ("label_format", "auto"))
            if (value := getattr(options, name, default)) != default
        }
        check_owner(cells, "tables", f"{options.input} is ARFF, where attributes are the labels")
        weights = self.trained.get("sample_weight")
        unread = [] if weights is None else [weights]
        return ArffReader(find_arff(options.input, options.split), self.labels, size, gold, unread, self._implied)

    @property
    def trained(self) -> dict[str, Any]:
        """How training read its inputs, such as the names of columns."""
        return self.config.get("inputs") or {}

    @cached_property
    def _implied(self) -> set[str]:
        """The labels above others in a hierarchy, which data need not have."""
        hierarchy = hierarchy_of(SimpleNamespace(**self.config))
        return {self.labels[i] for above in (hierarchy.parents if hierarchy else ()) for i in above}

    @property
    def _label_column(self) -> str:
        """The name that was asked for; default: the usual one."""
        return getattr(self.options, "label_column", None) or LABELS[0]

    def _label_column_of(self, table: Table) -> str:
        """The column of a table that has that name; default: that of training, or one with a usual name."""
        if getattr(self.options, "label_column", None) is None:
            trained = self.trained.get("label_column")
            return trained if trained in table.columns else usual_labels(table.head(1)) or self._label_column
        return self._label_column

    def _gold_columns(self, table: Table) -> dict[str, Any]:
        """Where a table has gold labels, as arguments of its reader: a column of sets, else one column per label."""
        column = self._label_column_of(table)
        own = [label for label in self.labels if label in table.columns]
        missing = [label for label in self.labels if label not in table.columns and label not in self._implied]
        if column in table.columns or getattr(self.options, "label_column", None) is not None or not own:
            need_column(column, table.columns, "label_column", table.source)
            mark = getattr(self.options, "label_separator", None) or self.trained.get("label_separator")
            return {"label_column": column, "separator": mark}
        if missing:
            raise DataError(
                f"{table.source} has a column of 0 and 1 for {len(own)} of the model's "
                f"{len(self.labels)} labels, but none for {few(missing)}. Add these columns; empty cells are unknown "
                "labels, which do not count."
            )
        return {"labels": own}

    # --- predictions -------------------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> dict[str, str]:
        """Maps our columns to their names in the output, in which columns of the input keep theirs."""
        wanted = ["labels"]
        if self.probabilities == "all" and self.format != ".jsonl":
            wanted += [f"probability_{label}" for label in self.labels]
        elif self.probabilities != "none":
            wanted.append("probabilities")
        if getattr(self.options, "energy", False):
            wanted.append("energy")
        names: dict[str, str] = {}
        for name in wanted:
            names[name] = name
            while names[name] in self.reader.columns:
                names[name] = f"predicted_{names[name]}"
        return names

    def predict(self, chunk: Chunk) -> list[dict[str, Any]]:
        probabilities, decided = self._predicted(chunk.inputs)
        found = {"labels": label_cells(decided, self.labels, self.format)}
        if self.probabilities == "all" and self.format != ".jsonl":
            columns = probabilities.T.tolist()
            found |= {f"probability_{label}": column for label, column in zip(self.labels, columns, strict=True)}
        elif self.probabilities != "none":
            of_all = self.probabilities == "all"
            found["probabilities"] = probability_cells(probabilities, decided, self.labels, of_all)
        if self.options.energy:
            found["energy"] = self.energies(chunk.inputs, decided)
        named = [self.names[name] for name in found]
        values = zip(*found.values(), strict=True)
        return [row | dict(zip(named, ours, strict=True)) for row, ours in zip(chunk.rows, values, strict=True)]

    def decided_values(self, chunk: Chunk) -> list[Any]:
        return list(self._predicted(chunk.inputs)[1])

    def writer(self, path: Path | None) -> AbstractContextManager[Writer]:
        ours = {name: pa.float64() for name in self.names.values()}
        ours |= {self.names["labels"]: pa.list_(pa.string())}
        if "probabilities" in self.names:
            ours[self.names["probabilities"]] = pa.map_(pa.string(), pa.float64())
        fields = [pa.field(name, kind) for name, kind in ours.items()]
        own = self.reader.types
        if own is None and self.format == ".parquet" and self.first_rows:
            own = schema_of(self.first_rows)
        types = pa.schema([*(own or ()), *fields])
        return table_writer(path, types, self.options.escape_formulas)

    def _predicted(self, inputs: Any) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities (N, L), rounded, and decisions (N, L) bool."""
        probabilities, decided = self.decided(inputs, self.decoder)
        return probabilities.double().numpy().round(DIGITS), decided.numpy().astype(bool)

    def decided(self, inputs: Any, decoder: str | float | None) -> tuple[Tensor, Tensor]:
        """Probabilities and decisions (N, L) of N texts, pairs of texts, or features (N, F)."""
        if self.given is not None:
            self.given.store(self.model.config)
        if not isinstance(inputs, np.ndarray):
            return self.model.predict(inputs, decoder=decoder, batch_size=self.options.batch_size)
        probabilities, decided = self.model.predict(features=self._on_device(inputs), decoder=decoder)
        return probabilities.cpu(), decided.cpu()

    def _on_device(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.model.task_net.device, self.model.task_net.dtype)

    @torch.no_grad()
    def energies(self, inputs: Any, sets: np.ndarray) -> list[float]:
        """Energies of N label sets (N, L), rounded, one for each of N inputs as in `decided`."""
        y = self._on_device(sets)
        if isinstance(inputs, np.ndarray):
            found = self.model.energy(y, features=self._on_device(inputs))
        else:
            found = torch.empty(len(y))
            for chosen, batch in self.model.batches(inputs, self.options.batch_size):
                found[chosen] = self.model.energy(y[chosen], **batch).cpu()
        return found.double().cpu().numpy().round(DIGITS).tolist()

    # --- figures -----------------------------------------------------------------------------------------------------

    def evaluate(self, reader: Reader) -> Evaluation:  # type: ignore[override]  # its own readers
        gold = self._gold(reader)  # first: an unknown label is an error before the model is loaded
        probabilities = np.empty(gold.shape, dtype=np.float32)  # the only copy: figures are computed by blocks of rows
        done = 0
        for found in each_chunk(reader, self.rows_per_chunk, self._probabilities):
            probabilities[done : done + len(found)] = found
            done += len(found)
        decisions, decoder, options = LabelDecisions.from_config(self.model.config), self.decoder, self.options
        if options.refit:
            about: dict[str, Any] = {"hierarchy": decisions.hierarchy, "seen": decisions.seen}
            about |= {"target": decisions.target, "costs": decisions.costs}
            never_empty = bool((gold.max(1) > 0).all())
            decisions = LabelDecisions.fit(probabilities, gold, never_empty=never_empty, decoder=decoder, **about)
            decoder = None
        results, tables = label_figures(probabilities, gold, self.labels, decisions, decoder, origin_of(options))
        if len(self.labels) > PRINTED_LABELS and options.output is None:
            tables.append(f"Precision, recall, F1 and support of the {len(self.labels)} labels: --output FILE.json.")
        return Evaluation({"model": options.model, "input": options.input, **results}, "\n\n".join(tables))

    def _probabilities(self, chunk: Chunk) -> np.ndarray:
        """Of the rows of a chunk, (N, L). They are cut at 0.5, which takes the least time."""
        return self.decided(chunk.inputs, 0.5)[0].numpy()

    def _gold(self, reader: Reader) -> np.ndarray:
        """(N, L) int8: 1, 0, or -1 for unknown."""
        parts = [chunk.gold for chunk in reader.chunks(self.rows_per_chunk)]
        if isinstance(reader, TextReader) and reader.labels:
            own = list(reader.labels)
            gold = in_order(np.concatenate([np.empty((0, len(own)), dtype=np.int8), *parts]), own, self.labels)
        else:
            gold, own = self._gold_of_cells(reader, [cell for part in parts for cell in part or ()])
        if (hierarchy := hierarchy_of(self.model.config)) is not None:
            derived = [i for i, label in enumerate(self.labels) if label not in own]
            for rows in row_blocks(gold):
                gold[rows] = hierarchy.closed(gold[rows], derived)
        if not gold.max(initial=0) > 0:
            raise DataError(f"{self.options.input}: no row has a gold label, so there is nothing to evaluate against.")
        if gold.min() < 0 and not (gold == 0).any():
            raise DataError(f"{self.options.input}: labels are 1 or unknown, but never 0. {WRITE_ZERO}")
        return gold

    def _gold_of_cells(self, reader: Reader, cells: list[list]) -> tuple[np.ndarray, list[str]]:
        """The gold labels of one cell per row, as `_gold`, and the labels that the data have."""
        names, label_format, own = None, "names", list(self.labels)
        if isinstance(reader, TextReader) and not isinstance(reader, ArffReader):
            names, label_format = reader.label_names, self.options.label_format
            own = self._own_labels(cells) if names is None else own
            names = own if len(own) < len(self.labels) else names
        return gold_labels(cells, self.labels, names, label_format, self.options.input), own

    def _own_labels(self, cells: Sequence[list]) -> list[str]:
        """The labels of multi-hot lists that are shorter than the model's labels: those without the last ones, if these
        are parents that a hierarchy added. All labels for other cells."""
        lengths = {len(cell) for cell in cells}
        size = lengths.pop() if len(lengths) == 1 else 0
        binary = all(value is None or str(value) in MULTI_HOT for cell in cells for value in cell)
        binary &= self.options.label_format in ("auto", "multi_hot")
        if not binary or not 1 < size < len(self.labels) or set(self.labels[size:]) - self._implied:
            return list(self.labels)
        return list(self.labels[:size])
