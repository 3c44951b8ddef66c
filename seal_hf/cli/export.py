"""`seal-hf export`: a saved task-net in another format, which runs without transformers; `--check` compares its logits
and decisions with the net's on rows of a file."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..utils.messages import one_line
from .flags import Flags, add_origin
from .predict import check_new

if TYPE_CHECKING:
    from ..core.task import Task
    from ..data.row_tables import Reader
    from .output_kind import OutputKind

DESCRIPTION = "Write a saved task-net as a file of ONNX: its inputs to its logits. The tokenizer is not part of it."
SUFFIX = ".onnx"


def main(argv: Sequence[str] | None = None) -> None:
    """Export.

    Args:
        argv: the command line without the program's name; default `sys.argv[1:]`.

    Raises:
        ValueError, OSError: one line tells what is wrong and what to do. No incomplete output is left.
    """
    flags = Flags("seal-hf export", DESCRIPTION)
    flags.flag("model", required=True, metavar="FOLDER_OR_HUB_ID", help="This saved task-net is written.")
    flags.flag("output", required=True, metavar="FILE.onnx", help="The file has this name.")
    flags.flag(
        "dtype",
        choices=("fp32", "fp16", "int8"),
        default="fp32",
        help="The weights have this type; int8 also rounds the inputs of products while they run (default fp32).",
    )
    flags.flag(
        "check",
        metavar="FILE",
        help="The file is run on these rows, which are read as by predict, and compared with the net.",
    )
    flags.flag(
        "fold_decision",
        type=bool,
        help="The saved threshold is moved into the classifier's bias, so that a cut at 0.5 applies it.",
    )
    add_origin(flags)
    flags.flag("overwrite", type=bool, help="An existing output is replaced.")
    options = flags.parsed(argv)
    output = Path(options.output)
    check_new(output, options.overwrite)
    if output.suffix.lower() != SUFFIX:
        raise ValueError(f"`output` is {str(output)!r}; expected a name that ends in {SUFFIX}.")
    from transformers.utils import logging

    from ..saving.loading import task_of_model
    from ..saving.onnx import check_installed

    check_installed()
    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    hub = {} if options.revision is None else {"revision": options.revision}
    task, _ = task_of_model(options.model, hub)
    for said in export(task, options, output, hub):
        print(one_line(f"{flags.prog}: {said}"), file=sys.stderr)


def export(task: Task, options: Namespace, output: Path, hub: dict[str, Any]) -> Iterator[str]:
    """Write the task-net of a folder or repo, and yield what to tell the user.

    Raises:
        ValueError: the task-net is an adapter that cannot be merged, its decision cannot be folded, or `export_net`
            refuses it.
        DataError: the rows of `options.check` cannot be read.
    """
    from ..nets.adapters import library_of
    from ..nets.adapters.peft import quantization_of
    from ..nets.text_pooling import WindowedForSequenceClassification
    from ..saving.export import folded
    from ..saving.onnx import export_net
    from .output_kind import check_trained

    name = options.model
    rows = None if options.check is None else _rows_of(options)  # first: a mistake there is told at once
    code = {"trust_remote_code": options.trust_remote_code}
    model: Any = task.model.from_pretrained(name, with_loss_net=False, **code, **hub)
    check_trained(model, name)
    task_net, library = model.task_net, library_of(model.task_net)
    if isinstance(task_net, WindowedForSequenceClassification):
        raise ValueError(f"{name} reads texts in windows (long_texts), which ONNX cannot express. Train with `cut`.")
    if library is not None:
        if not library.mergeable(task_net):
            bits = quantization_of(task_net)
            why = f"whose base is quantised ({bits})" if bits else f"of the library {library.mode!r}"
            raise ValueError(f"{name} is an adapter {why}, which cannot be merged into plain weights to be exported.")
        task_net = model.task_net = library.merged(task_net)
    try:
        processor = model.processor
    except ValueError:  # none is saved: features need none
        processor = None
    with folded(task_net) if options.fold_decision else nullcontext():
        difference = export_net(task_net.eval(), output, processor, options.dtype)
        decisions = getattr(task_net.config, "decisions", None) or {}
        checked = None if rows is None else _checked(*rows, model, output)
    said = [f"{output} gives the logits of {name} (largest difference on random rows: {difference:.1g})."]
    if decisions and not decisions.get("folded"):
        said.append(f"Its decoder, {decisions.get('decoder')!r}, is not in the graph; its numbers are in the metadata.")
    if getattr(task_net.config, "crf", False):
        said.append("Its CRF is not in the graph: the logits are the scores of single tags.")
    yield " ".join(said)
    if checked is not None:
        yield f"{options.check}: {checked}"


def _rows_of(options: Namespace) -> tuple[OutputKind, Reader]:
    """What reads and decides the rows to check, as `seal-hf predict`."""
    from .flags import open_kind
    from .predict import predict_flags

    flags = predict_flags()
    words = ["--model", options.model, "--input", options.check]
    words += [] if options.revision is None else ["--revision", options.revision]
    opened = flags.parsed([*words, "--device", "cpu", "--output", f"{options.output}.checked"])  # nothing is written
    kind = open_kind(flags, opened)
    return kind, kind.open_input(gold=False)


def _checked(kind: OutputKind, reader: Reader, model: Any, file: Path) -> str:
    """How the logits and decisions of a file differ from its net's, with the batches of `seal-hf predict`."""
    import numpy as np

    from ..saving.onnx import ExportedNet, relative_difference
    from .output_kind import with_progress

    run, net, differences = ExportedNet(file), model.task_net, [0.0]
    own = net.forward

    def forward(**inputs: Any) -> Any:
        """The file's logits in place of the net's."""
        found = own(**inputs)
        logits = run(inputs)
        differences.append(relative_difference(logits, found.logits))
        found.logits = logits
        return found

    vars(kind)["model"] = model
    rows = changed_rows = values = changed = 0
    for chunk in with_progress(reader, kind.rows_per_chunk):
        expected = kind.decided_values(chunk)
        net.forward = forward
        try:
            found = kind.decided_values(chunk)
        finally:
            del net.forward
        different = [int(np.sum(np.asarray(a) != np.asarray(b))) for a, b in zip(expected, found, strict=True)]
        rows, values = rows + len(expected), values + sum(map(len, expected))
        changed, changed_rows = changed + sum(different), changed_rows + sum(map(bool, different))
    return (
        f"{changed_rows} of {rows} rows are decided otherwise than by the net, in {changed} of {values} "
        f"{kind.decided_unit}; the largest difference of logits is {max(differences):.1g}."
    )
