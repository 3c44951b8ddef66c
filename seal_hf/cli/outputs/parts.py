"""An output in parts, one for each chunk of rows, until all are whole: several processes write it, and a command that
was killed goes on with the parts that it finds."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...data.writers import Rows, Writer
from ...utils.files import locked, whole_file
from .processes import Processes

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
        """Write the output from `count` parts; the notes of its writer."""
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
    """The parts of an output, which go when the block ends. They stay after an interrupt or a fault of the machine:
    the same command then goes on with them.

    Args:
        record: of the command. Parts of another one are removed.
        tell: shows the user a line.

    Raises:
        ValueError: another process writes this output, or another folder has the name of that of the parts.
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
    """What an output follows from: the options, and the states of the files that they name."""
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
