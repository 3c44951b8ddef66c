"""A task-net as a file of ONNX: from its inputs to its logits, for onnxruntime and others. The extra `onnx` has what it
needs."""

from __future__ import annotations

import json
import logging
import math
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

NEEDED = ("onnx", "onnxscript", "onnxruntime")
FP32, FP16, INT8 = "fp32", "fp16", "int8"
ERRORS = 3  # level of onnxruntime's log: it warns of each operation that it leaves as it is
PRODUCTS = (
    "MatMul",
    "Gemm",
    "Gather",
    "LSTM",
)  # operations with weights of 8 bits: ONNX computes convolutions so slowly
TOKENS = ("input_ids", "attention_mask")  # of a net of tokens whose tokenizer is unknown
DESCRIBED = ("id2label", "decisions", "inputs")  # keys of the config that go into the file's metadata, as JSON
FREE_SIDE = 32  # pixels per side of an example, for a net that takes images of any size
TOLERANCE = 1e-4  # of logits, relative to the largest, or to 1
Axes = dict[int, str]  # dimension -> name of an axis of any length


def export_net(task_net: PreTrainedModel, file: str | Path, processor: Any = None, dtype: str = FP32) -> float:
    """Write a task-net to a file, with any number of rows and tokens, and check it by the library that reads it.

    Args:
        task_net: a plain one, without adapters.
        file: an `.onnx`. Above 2 GB the weights are written beside it, to `file` with `.data` behind its name.
        processor: that of its inputs: a tokenizer tells which inputs it gives, an image processor the size of images.
        dtype: `fp32`; `fp16`: halved weights, while inputs and logits stay float32; `int8`: weights of 8 bits, and
            inputs of each product that are rounded to 8 bits as it runs.

    Returns:
        The largest difference between the logits of both, on rows that the exporter did not see, relative to the
        largest logit, or to 1.

    Raises:
        ValueError: a library is missing, the net cannot be exported, or the file gives other logits: above `TOLERANCE`
            for fp32, not finite for the others.
    """
    file = Path(file)
    check_installed()
    name = type(task_net).__name__
    inputs, axes = _example(task_net, processor, 2, 8)
    with tempfile.TemporaryDirectory(dir=_made(file.parent)) as folder, _quiet():
        try:
            program: Any = torch.onnx.export(
                _Logits(task_net, list(inputs)).eval(),
                tuple(inputs.values()),
                dynamo=True,
                dynamic_shapes=(tuple(axes[name] for name in inputs),),
                input_names=list(inputs),
                output_names=["logits"],
                optimize=False,  # onnxruntime does it when it loads; the exporter's own pass fails on the FCN's crops
                verbose=False,
            )
        except Exception as error:  # a net that it cannot trace may raise anything
            cause = error.__cause__ or error
            reason = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
            raise ValueError(f"torch {torch.__version__} cannot export {name} to ONNX: {reason}") from error
        for node in program.model.graph.all_nodes():
            node.metadata_props.clear()  # stack traces, with paths of this machine
        program.model.metadata_props.update(_described(task_net.config))
        plain, done = Path(folder, "plain"), Path(folder, "done")
        plain.mkdir()
        done.mkdir()
        source = plain / file.name
        program.save(source)
        _converted(source, done / file.name, dtype)
        found = _difference(task_net, done / file.name, _example(task_net, processor, 3, 13)[0])
        if not found <= (TOLERANCE if dtype == FP32 else math.inf):
            raise ValueError(f"The logits of {name} in {dtype} differ by {found:.1g} from its own: nothing is written.")
        for part in sorted(done.iterdir(), key=lambda part: part.name == file.name):  # the weights beside it first
            os.replace(part, file.parent / part.name)
    return found


def check_installed() -> None:
    """Raises ValueError if a library is missing that the export or its check needs."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ValueError(f"The export to .onnx needs {', '.join(missing)}: pip install 'seal_hf[onnx]'.")


def _converted(source: Path, file: Path, dtype: str) -> None:
    """Write an ONNX file of float32 in another type."""
    if dtype == FP32:
        for part in source.parent.iterdir():
            os.replace(part, file.parent / part.name)
        return
    import onnx
    import onnxruntime

    large = len(list(source.parent.iterdir())) > 1  # the weights are beside it
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC  # weights as both want them
    folded = source.with_name("folded.onnx")
    options.optimized_model_filepath = str(folded)
    if large:
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "folded.data")
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    if dtype == FP16:
        from onnxruntime.transformers.float16 import convert_float_to_float16

        net = convert_float_to_float16(onnx.load(folded), keep_io_types=True, disable_shape_infer=large)
        beside: dict[str, Any] = {"save_as_external_data": True, "location": f"{file.name}.data"} if large else {}
        onnx.save(net, file, **beside)
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        folded,
        file,
        op_types_to_quantize=list(PRODUCTS),
        per_channel=True,
        weight_type=QuantType.QInt8,
        use_external_data_format=large,
    )
    if not any(
        node.op_type.startswith(("MatMulInteger", "DynamicQuantizeLSTM")) for node in onnx.load(file).graph.node
    ):
        raise ValueError("`dtype` is 'int8', but the net has no matrix products with weights to quantise. Give fp16.")


class ExportedNet:
    """A file of ONNX, run on the CPU with as many threads as torch takes.

    Attributes:
        names: of its inputs.
    """

    def __init__(self, file: Path):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = ERRORS, torch.get_num_threads()
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.names = [given.name for given in self._session.get_inputs()]

    def __call__(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """The logits of a batch; other inputs than its own are not read."""
        arrays = {name: inputs[name].numpy() for name in self.names}
        return torch.from_numpy(self._session.run(["logits"], arrays)[0])


class _Logits(nn.Module):
    """A net as a function from its inputs, in their order, to its logits."""

    def __init__(self, net: PreTrainedModel, names: list[str]):
        super().__init__()
        self.net, self.names = net, names
        self.options = {"use_cache": False} if "use_cache" in signature(net.forward).parameters else {}  # of a decoder

    def forward(self, *values: Tensor) -> Tensor:
        return self.net(**dict(zip(self.names, values, strict=True)), **self.options).logits


def _example(
    task_net: PreTrainedModel, processor: Any, rows: int, tokens: int
) -> tuple[dict[str, Tensor], dict[str, Axes]]:
    """Inputs of `rows` rows, texts with `tokens` tokens, and the axes of each that may have any length."""
    config: Any = task_net.config
    main, noise = task_net.main_input_name, torch.Generator().manual_seed(rows)
    if main == "features":
        return {main: torch.randn(rows, config.input_size, generator=noise)}, {main: {0: "batch"}}
    if main == "pixel_values":
        size = image_size(config, processor)
        sides = size or (FREE_SIDE, FREE_SIDE + rows)
        pixels = torch.rand(rows, getattr(config, "num_channels", 3), *sides, generator=noise)
        return {main: pixels}, {main: {0: "batch"} | ({} if size else {2: "height", 3: "width"})}
    text = config.get_text_config()
    padding = getattr(text, "pad_token_id", None) or 0
    mask = torch.arange(tokens) < torch.tensor([[tokens], *[[tokens - 3]] * (rows - 1)])  # (B, T)
    inputs, axes = {}, {}
    for name in _token_inputs(task_net, processor):
        shape = (rows, tokens) if name != "char_ids" else (rows, tokens, processor.word_width)
        inputs[name] = torch.zeros(shape, dtype=torch.long)
        axes[name] = {0: "batch", 1: "sequence"}
    ids = torch.randint(text.vocab_size, (rows, tokens), generator=noise)
    inputs["input_ids"] = torch.where(mask, ids, padding)
    inputs["attention_mask"] = mask.long()
    return inputs, axes


def _token_inputs(task_net: PreTrainedModel, processor: Any) -> list[str]:
    """The inputs of a net of tokens: what the tokenizer gives and the net reads."""
    if (own := getattr(task_net, "input_names", None)) is not None:  # the BiLSTM
        return list(own)
    read = signature(task_net.forward).parameters
    return [name for name in getattr(processor, "model_input_names", TOKENS) if name in read]


def image_size(config: Any, processor: Any) -> tuple[int, int] | None:
    """The (height, width) of the images that a net reads, or None if it reads any size.

    Raises:
        ValueError: the net averages over crops, which needs a size, but none is saved.
    """
    size = dict(getattr(processor, "size", None) or {}) if getattr(processor, "do_resize", False) else {}
    if {"height", "width"} <= size.keys():
        return size["height"], size["width"]
    own = getattr(config, "image_size", None)
    if own is not None:
        return (own, own) if isinstance(own, int) else (own[0], own[1])
    if getattr(config, "crop_size", None):
        raise ValueError(
            "The net averages over crops, whose number depends on the size of the image, but no image processor with a "
            "size is saved beside it. Save one: seal_hf.resize_to(processor, (height, width)).save_pretrained(folder)."
        )
    return None


def _described(config: Any) -> dict[str, str]:
    """What a user of the file needs to decide: label names, the decoder and its numbers, how inputs were read."""
    values = {name: getattr(config, name, None) for name in DESCRIBED}
    return {name: json.dumps(value, ensure_ascii=False) for name, value in values.items() if value is not None}


def _difference(task_net: PreTrainedModel, file: Path, inputs: Mapping[str, Tensor]) -> float:
    """The largest difference between the logits of a file and its net, relative to the largest logit, or to 1."""
    found = ExportedNet(file)(inputs)
    with torch.no_grad():
        logits = task_net(**inputs).logits
    return relative_difference(found, logits)


def relative_difference(found: Tensor, logits: Tensor) -> float:
    """The largest difference of two tensors, relative to the largest value of the second, or to 1."""
    return float((found - logits).abs().max() / logits.abs().max().clamp_min(1))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's exporter and the libraries that it calls while the block runs."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "")]  # onnxruntime's quantisation has the root's
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
