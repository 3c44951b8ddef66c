"""What `seal-hf predict` and `seal-hf evaluate` do with a kind of output, and an output in parts. The `files.py` of
each task reads and writes its rows."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sys
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from transformers.utils import logging

from ..data.row_tables import Chunk, Reader
from ..data.writers import Rows, Writer, table_writer
from ..saving.loading import has_loss_net, saved_config
from ..utils.files import locked, whole_file
from ..utils.messages import few
from .programs import Processes, is_first_process

if TYPE_CHECKING:
    from ..saving.model import SealModel

T = TypeVar("T")


@dataclass
class Evaluation:
    """Figures of a saved task-net on labelled rows.

    Attributes:
        results: as JSON.
        text: tables for the terminal.
    """

    results: dict[str, Any]
    text: str


class OutputKind(ABC):
    """One kind of output of the two commands. It reads everything late, the weights last.

    Args:
        options: of the command line, see `flags.py`.
        like: an object of this class for the same model, whose configuration and nets are shared.

    Attributes:
        formats: suffixes of files that can hold its predictions; an empty one is a folder.
        rows_per_chunk: most rows in memory at once.
        decided_unit: what a row has a decision for each of.
        first_rows: of the input, as read; the types of columns may follow from them.
        default_probabilities: default of `--probabilities`.
    """

    formats: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".jsonl", ".parquet")
    rows_per_chunk: int = 2048
    decided_unit: ClassVar[str] = "decisions"
    first_rows: Sequence[dict[str, Any]] = ()
    default_probabilities: ClassVar[str] = "top"

    def __init__(self, options: Namespace, like: OutputKind | None = None):
        self.options = options
        self.hub = {} if options.revision is None else {"revision": options.revision}
        if like is not None:
            vars(self).update(config=like.config, model=like.model)  # both are cached

    @property
    @abstractmethod
    def model_class(self) -> type[SealModel]:
        """The class that loads the model."""

    @abstractmethod
    def check_decoder(self) -> None:
        """Raises ValueError for `options.decoder` if the task-net lacks it, before any weights are loaded."""

    @abstractmethod
    def open_input(self, gold: bool) -> Reader:
        """The reader of `options.input`, with gold structures for an evaluation.

        Raises:
            DataError: names what is missing, before any weights are loaded.
        """

    @abstractmethod
    def predict(self, chunk: Chunk) -> list[dict[str, Any]]:
        """The output for each row: its own columns and the predictions."""

    def decided_values(self, chunk: Chunk) -> list[Any]:
        """What is decided for each row: a value for each of its labels, words or pixels."""
        raise ValueError(f"`check` is given, but decisions of {self.options.model} are not compared. Leave it out.")

    @abstractmethod
    def evaluate(self, reader: Reader) -> Evaluation:
        """Figures on all rows, by the stored decisions; `options.refit` fits them anew."""

    def writer(self, path: Path | None) -> AbstractContextManager[Writer]:
        """The writer of the results of `predict`, to a file, a folder or the standard output."""
        return table_writer(path)

    @property
    def probabilities(self) -> str:
        """Which probabilities are written: `none`, `top` or `all`."""
        return getattr(self.options, "probabilities", None) or self.default_probabilities

    @cached_property
    def config(self) -> dict[str, Any]:
        """The saved configuration of the task-net, read without weights: `id2label`, `inputs`, `decisions`."""
        return saved_config(self.options.model, self.hub)

    @cached_property
    def model(self) -> SealModel:
        """The task-net, with its loss-net if energies are asked for, ready to predict.

        Raises:
            ValueError: energies are asked for, but the folder lacks a loss-net.
        """
        import torch

        if not sys.stderr.isatty():
            logging.disable_progress_bar()
        options, with_loss_net = self.options, getattr(self.options, "energy", False)
        if with_loss_net and not has_loss_net(options.model, self.hub):
            raise ValueError(
                f"`energy` is True, but {options.model} lacks a loss-net (_loss_net/). Leave `energy` out, or give a "
                "folder that was saved with both nets."
            )
        if with_loss_net and options.dtype != "float32":
            raise ValueError(f"`energy` is True and `dtype` {options.dtype}, but loss-nets run in float32.")
        dtype, code = getattr(torch, options.dtype), {"trust_remote_code": options.trust_remote_code}
        model = self.model_class.from_pretrained(
            options.model, with_loss_net=with_loss_net, dtype=dtype, **self.hub, **code
        )
        check_trained(model, options.model)
        if options.max_length is not None:
            model.config.inputs = {**(getattr(model.config, "inputs", None) or {}), "max_length": options.max_length}
        model = model.to(device_of(options.device), dtype).eval()
        if options.torch_compile:
            model.task_net.compile(dynamic=True)
        return model


def check_trained(model: SealModel, name: str) -> None:
    """Raises ValueError if the weights lacked a part of the task-net, which is random then, or are not finite."""
    if model.fresh:
        raise ValueError(f"{name}: the weights lack {few(model.fresh, 3)}. Is it a trained task-net, and whole?")
    bad = [key for key, value in model.named_parameters() if not value.isfinite().all()]
    if bad:
        raise ValueError(
            f"{name}: the weights are not finite (NaN or infinite) in {few(bad, 3)}. Did its training diverge, "
            "or is the file damaged?"
        )


def with_progress(reader: Reader, size: int) -> Iterator[Chunk]:
    """The chunks of a reader, with a progress bar on a terminal, in the first process."""
    hidden = None if is_first_process() else True  # None: off without a terminal
    with logging.tqdm(total=reader.total, unit="row", disable=hidden) as bar:
        for chunk in reader.chunks(size):
            yield chunk
            bar.update(len(chunk.rows))


def each_chunk(reader: Reader, size: int, function: Callable[[Chunk], T]) -> Iterator[T]:
    """What a function returns for each chunk of a reader, in order. Under a launcher, see [`Processes.results`]."""
    return Processes().results(with_progress(reader, size), function)


def origin_of(options: Namespace) -> str:
    """The origin of the decisions in an evaluation."""
    if options.refit:
        return "fitted anew on these rows: figures are optimistic"
    return "stored with the model" if options.decoder is None else "given by --decoder"


def device_of(name: str) -> Any:
    """A torch device; `auto`: an accelerator, if there is one and the launcher is not told to use CPUs.

    Raises:
        ValueError: this machine lacks the device.
    """
    import torch

    if name == "auto":
        wanted = torch.accelerator.is_available() and os.environ.get("ACCELERATE_USE_CPU", "").lower() != "true"
        found = torch.accelerator.current_accelerator() if wanted else None
        return found or torch.device("cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"`device` is {name!r}, which this machine lacks: {str(error).splitlines()[0]}") from error
    return torch.device(name)


# An output in parts, one for each chunk of rows, until all are whole: several processes write it, and a command that
# was killed goes on with the parts that it finds.

RECORD, COUNTED = "record.json", ".formulas"
OF_A_MODEL = (".json", ".safetensors", ".txt", ".model")  # the suffixes of what is read of its folder
MakeWriter = Callable[[Path], AbstractContextManager[Writer]]


class Parts:
    """The parts of an output, in a folder beside it. Each appears when it is whole.

    Args:
        output: the file or folder that they become.
        make_writer: opens the output, or a part, by its path.
    """

    def __init__(self, output: Path, make_writer: MakeWriter):
        self.output, self.make_writer, self.folder = output, make_writer, parts_folder(output)

    def __contains__(self, number: int) -> bool:
        return self._place(number).exists()

    def write(self, number: int, rows: Rows) -> None:
        """Write the part of a chunk, counted from 0."""
        with self.make_writer(self._place(number)) as writer:
            writer.header = number == 0
            writer.write(rows)
            if writer.formulas:
                self._place(number).with_suffix(COUNTED).write_text(str(writer.formulas))

    def join(self, count: int) -> list[str]:
        """Write the output from `count` parts, and return the notes of its writer."""
        with self.make_writer(self.output) as writer:
            for number in range(count):
                place = self._place(number)
                writer.add(place)
                if (counted := place.with_suffix(COUNTED)).is_file():
                    writer.formulas += int(counted.read_text())
            return list(writer.notes)

    def _place(self, number: int) -> Path:
        return self.folder / f"{number:06}{self.output.suffix}"


@contextmanager
def parts_of(
    output: Path, make_writer: MakeWriter, record: dict[str, Any], processes: Processes, tell: Callable[[str], None]
) -> Iterator[Parts]:
    """Hold the parts of an output while the block runs, and remove them when it ends.

    The parts stay after an interrupt or a fault of the machine, and the same command then continues from them.

    Args:
        record: says what the command writes. Parts with a different record are removed.
        tell: shows the user a line.

    Raises:
        ValueError: another process is writing this output, or the folder for the parts holds something else.
    """
    parts = Parts(output, make_writer)
    if processes.rank:
        processes.wait()
        yield parts
        return
    file = parts.folder / RECORD
    if parts.folder.exists() and not file.is_file() and any(parts.folder.iterdir()):
        raise ValueError(f"{parts.folder} is needed for the parts of the output, but holds something else. Move it.")
    with locked(parts.folder, "--output"):
        text = json.dumps(record, indent=1, default=str) + "\n"
        if file.is_file() and file.read_text(encoding="utf-8") == text:
            tell(f"goes on with the parts that are whole, in {parts.folder}.")
        else:
            _empty(parts.folder)
            with whole_file(file) as unfinished:
                unfinished.write_text(text, encoding="utf-8")
        processes.wait()
        try:
            yield parts
        except ValueError:  # of the rows or the model, which the same command would meet again
            shutil.rmtree(parts.folder, ignore_errors=True)
            raise
        shutil.rmtree(parts.folder, ignore_errors=True)


def parts_folder(output: Path) -> Path:
    """The folder of the parts of an output."""
    return output.with_name(f"{output.name}.parts")


def record_of(options: Namespace, rows_per_chunk: int) -> dict[str, Any]:
    """Everything that decides an output: the options, and the states of the files that they name."""
    record = {name: value for name, value in vars(options).items() if name not in ("output", "overwrite")}
    record |= {library: version(library) for library in ("seal_hf", "torch", "transformers", "numpy")}
    own = parts_folder(Path(options.output)).absolute()
    files = {name: _state(Path(str(record[name])), own, name) for name in ("model", "input", "decoder")}
    return record | {"rows_per_chunk": rows_per_chunk, "files": files}


def _state(path: Path, own: Path, name: str) -> str | None:
    """The size and date of a file, or a hash of those in a folder; of a repo of the Hub, one that is always new."""
    if path.is_file():
        return f"{path.stat().st_size} bytes, {path.stat().st_mtime_ns}"
    if not path.is_dir():
        return secrets.token_hex(8) if name != "decoder" else None
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        if file.is_file() and own not in file.absolute().parents and (name != "model" or file.suffix in OF_A_MODEL):
            digest.update(f"{file.relative_to(path)} {file.stat().st_size} {file.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _empty(folder: Path) -> None:
    """Remove all but the lock."""
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        elif not each.name.startswith("_"):
            each.unlink()
