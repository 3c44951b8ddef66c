"""`seal-hf export`: a saved task-net in another format, which runs without transformers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..utils.messages import one_line
from .outputs.flags import Flags, add_origin
from .predict import check_new

DESCRIPTION = "Write a saved task-net as an ONNX file: its inputs to its logits. The tokenizer is not part of it."


def main(argv: Sequence[str] | None = None) -> None:
    """Export.

    Args:
        argv: the command line without the program's name; default `sys.argv[1:]`.

    Raises:
        ValueError, OSError: one line tells what is wrong and what to do. No incomplete output is left.
    """
    flags = Flags("seal-hf export", DESCRIPTION)
    flags.flag("model", required=True, metavar="FOLDER_OR_HUB_ID", help="This saved task-net is written.")
    flags.flag("output", required=True, metavar="FILE.onnx", help="The ONNX file has this name.")
    flags.flag("fold_decision", type=bool, help="The saved threshold goes into the classifier's bias: cut at 0.5 then.")
    add_origin(flags)
    flags.flag("overwrite", type=bool, help="An existing output is replaced.")
    options = flags.parsed(argv)
    output = Path(options.output)
    check_new(output, options.overwrite)
    if output.suffix.lower() != ".onnx":
        raise ValueError(f"`output` is {str(output)!r}; expected a name that ends in .onnx.")
    from transformers.utils import logging

    from ..saving.kinds import kind_of_model
    from ..saving.onnx import check_installed

    check_installed()
    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    hub = {} if options.revision is None else {"revision": options.revision}
    kind = kind_of_model(options.model, hub)
    origin = {**hub, "trust_remote_code": options.trust_remote_code}
    said = export(kind, options.model, output, options.fold_decision, origin)
    print(one_line(f"{flags.prog}: {said}"), file=sys.stderr)


def export(kind: str, name: str, output: Path, fold_decision: bool, origin: dict[str, Any]) -> str:
    """Write the task-net of a folder or repo.

    Args:
        kind: of its output, such as `multi_label`.
        origin: `revision` and `trust_remote_code`, as for `from_pretrained`.

    Returns:
        What to tell the user.

    Raises:
        ValueError: it is an adapter that cannot be merged, or its decision cannot be folded; or as `export_onnx`.
    """
    from ..core.task import SPACES
    from ..nets.adapters import library_of
    from ..nets.adapters.quantised import quantization_of
    from ..nets.text_windows import WindowedForSequenceClassification
    from ..saving.fold import folded
    from ..saving.model import model_classes
    from ..saving.onnx import export_onnx
    from .outputs.base import check_trained

    loaded = next(each for each in model_classes() if issubclass(SPACES[kind], each.space_class))
    model: Any = loaded.from_pretrained(name, with_loss_net=False, **origin)
    check_trained(model, name)
    task_net, library = model.task_net, library_of(model.task_net)
    if isinstance(task_net, WindowedForSequenceClassification):
        raise ValueError(f"{name} reads texts in windows (long_texts), which ONNX cannot express. Train with `cut`.")
    if library is not None:
        if not library.mergeable(task_net):
            bits = quantization_of(task_net)
            why = f"whose base is quantised ({bits})" if bits else f"of the library {library.mode!r}"
            raise ValueError(f"{name} is an adapter {why}, which cannot be merged into plain weights to be exported.")
        task_net = library.merged(task_net)
    try:
        processor = model.processor
    except ValueError:  # none is saved: features need none
        processor = None
    with folded(task_net) if fold_decision else nullcontext():
        difference = export_onnx(task_net.eval(), output, processor)
        decisions = getattr(task_net.config, "decisions", None) or {}
    said = [f"{output} gives the logits of {name} (largest difference on random rows: {difference:.1g})."]
    if decisions and not decisions.get("folded"):
        said.append(f"Its decoder, {decisions.get('decoder')!r}, is not in the graph; its numbers are in the metadata.")
    if getattr(task_net.config, "crf", False):
        said.append("Its CRF is not in the graph: the logits are the scores of single tags.")
    return " ".join(said)
