"""Saved folders of strangers: what they name, what they hold, what they link to, and one value changed at a time.

The oracle of a command that ends well is the untouched folder: what it writes is the same, byte by byte."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from . import data_files, samples
from .engine import Case

INPUTS = {
    "texts": "rows.csv",
    "features": "features",
    "tags": "rows.conll",
    "pictures": "pictures",
    "masks": "masks.npz",
}
PREDICT, ENERGY = "predict", "predict --energy"
TRAINED = ("o/model.safetensors", "o/_loss_net/model.safetensors")
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {  # name -> words after `seal-hf`, and what they write
    PREDICT: ("predict --model m --input {input} --output {output}", ("{output}",)),
    ENERGY: ("predict --model m --input {input} --output {output} --energy true", ("{output}",)),
    "evaluate": ("evaluate --model m --input {input} --output out.json", ("out.json",)),
    "train": ("train mlc --dataset rows.csv --model_name_or_path m --output_dir o {quick} {own}", TRAINED),
    "loss-net": (
        "train mlc --dataset rows.csv --model_name_or_path {models}/encoder --loss_net_path m --output_dir o "
        "{quick} {own}",
        TRAINED,
    ),
    "adapter": (
        "train mlc --dataset rows.csv --model_name_or_path m --adapter lora --output_dir o {quick} {own}",
        ("o/model.safetensors",),
    ),
    **({"export": ("export --model m --output m.onnx", ("m.onnx",))} if find_spec("onnxscript") else {}),
}
EVIL = """import os
os.system("touch PWNED")
open("PWNED", "w").close()
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast
class C(BertConfig): model_type = "evil"
class M(BertForSequenceClassification): config_class = C
class T(BertTokenizerFast): pass
"""
POOL: list[Any] = [
    None,
    -1,
    0,
    1,
    10**8,
    10**400,
    1e308,
    float("nan"),
    -0.5,
    "x",
    "",
    "../bait/secret",
    "/etc/passwd",
    [],
    [[]],
    {},
    {"a": 1},
    True,
    False,
    "a" * 10_000,
]
NAMED = (  # the message names one of these: a file or field of the folder, or what was read from it
    "_loss_net config.decisions config.inputs preprocessor_config.json decoder energy".split()
    + ["the model", "weights and settings that the run began with"]
)
Change = Callable[[Path, random.Random], None]


# --- attacks ---------------------------------------------------------------------------------------------------------


def edited(file: str, **values: Any) -> Change:
    """Values of a JSON file of the folder replaced; `a__b` is b in a."""

    def change(folder: Path, draw: random.Random) -> None:
        path = folder / file
        found = json.loads(path.read_text()) if path.is_file() else {}
        for key, value in values.items():
            *above, last = key.split("__")
            inner = found
            for name in above:
                inner = inner.setdefault(name, {})
            inner[last] = value
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found))

    return change


def content(file: str, data: bytes) -> Change:
    def change(folder: Path, draw: random.Random) -> None:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(data)

    return change


def without(file: str) -> Change:
    return lambda folder, draw: shutil.rmtree(folder / file) if (folder / file).is_dir() else (folder / file).unlink()


def linked(file: str) -> Change:
    """The file, or folder, is a link to the same one beside the case's folder."""

    def change(folder: Path, draw: random.Random) -> None:
        shutil.move(folder / file, Path("..", "bait", Path(file).name))
        (folder / file).symlink_to(Path("..", "..", *[".."] * file.count("/"), "bait", Path(file).name))

    return change


def all_of(*changes: Change) -> Change:
    def change(folder: Path, draw: random.Random) -> None:
        for each in changes:
            each(folder, draw)

    return change


def as_bin(file: str, keep: bool = False) -> Change:
    """The weights as `torch.save` writes them, and no safetensors."""

    def change(folder: Path, draw: random.Random) -> None:
        import torch
        from safetensors.torch import load_file

        weights = next(folder.glob("**/model.safetensors") if "/" in file else folder.glob("model.safetensors"))
        if "/" in file:
            weights = folder / Path(file).parent / "model.safetensors"
        torch.save(load_file(weights), folder / file)
        if not keep:
            weights.unlink()

    return change


def renamed(old: str, new: str) -> Change:
    def change(folder: Path, draw: random.Random) -> None:
        target = folder / new
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / old, target)

    return change


def index_of(file: str, index: str = "model.safetensors.index.json", part: str = "") -> Change:
    """An index that says that all weights are in `file`."""

    def change(folder: Path, draw: random.Random) -> None:
        from safetensors import safe_open

        with safe_open(folder / part / "model.safetensors", "pt") as weights:
            names = list(weights.keys())
        (folder / part / index).write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, file)}))

    return change


def tensors(alter: Callable[[dict[str, Any]], dict[str, Any]], part: str = "") -> Change:
    def change(folder: Path, draw: random.Random) -> None:
        from safetensors.torch import load_file, save_file

        path = folder / part / "model.safetensors"
        save_file(alter(load_file(path)), path, metadata={"format": "pt"})

    return change


def header(text: bytes, size: int | None = None) -> bytes:
    """A safetensors file with this header."""
    return (len(text) if size is None else size).to_bytes(8, "little") + text


def adapter_to(base: str) -> Change:
    """The folder holds a LoRA adapter. Its base `base` has a pickle as weights."""

    def change(folder: Path, draw: random.Random) -> None:
        values = {"peft_type": "LORA", "base_model_name_or_path": base, "task_type": "SEQ_CLS", "r": 2}
        shutil.copytree(folder, "base")
        Path("base", "model.safetensors").unlink()
        Path("base", "pytorch_model.bin").write_bytes(PICKLE)
        (folder / "config.json").unlink()
        (folder / "adapter_config.json").write_text(json.dumps(values))
        shutil.move(folder / "model.safetensors", folder / "adapter_model.safetensors")

    return change


AUTO = {"AutoConfig": "evil.C", "AutoModelForSequenceClassification": "evil.M", "AutoModel": "evil.M"}
HUGE = b'{"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'
PICKLE = data_files.HOSTILE
ATTACKS: dict[str, Change] = {
    # weights that are no safetensors
    "pytorch_model.bin alone": as_bin("pytorch_model.bin"),
    "a pickle as pytorch_model.bin": all_of(content("pytorch_model.bin", PICKLE), without("model.safetensors")),
    "a pickle as model.safetensors": content("model.safetensors", PICKLE),
    "a pickle as training_args.bin": content("training_args.bin", PICKLE),
    "an index of .bin": all_of(index_of("ok.bin"), as_bin("ok.bin")),
    "an index that leads out": all_of(
        index_of("../../bait/model.safetensors"), renamed("model.safetensors", "../../bait/model.safetensors")
    ),
    "an index that is absolute": all_of(index_of("/etc/passwd"), without("model.safetensors")),
    "an index of nothing": all_of(
        index_of("x.safetensors"),
        content("model.safetensors.index.json", b'{"weight_map": null}'),
        without("model.safetensors"),
    ),
    "transformers_weights: .bin": all_of(
        as_bin("adapter_model.bin"), edited("config.json", transformers_weights="adapter_model.bin")
    ),
    "transformers_weights: index": all_of(
        index_of("ok.bin", "x.safetensors.index.json"),
        as_bin("ok.bin"),
        edited("config.json", transformers_weights="x.safetensors.index.json"),
    ),
    "transformers_weights: leads out": all_of(
        renamed("model.safetensors", "../../bait/m.safetensors"),
        edited("config.json", transformers_weights="../../bait/m.safetensors"),
    ),
    "transformers_weights: index leads out": all_of(
        index_of("../../bait/m.safetensors", "x.safetensors.index.json"),
        renamed("model.safetensors", "../../bait/m.safetensors"),
        edited("config.json", transformers_weights="x.safetensors.index.json"),
    ),
    "transformers_weights: a number": edited("config.json", transformers_weights=3),
    "flax and tensorflow weights alone": all_of(
        content("flax_model.msgpack", PICKLE), content("tf_model.h5", PICKLE), without("model.safetensors")
    ),
    # safetensors that lie
    "a huge header": content("model.safetensors", header(b"{}", 2**62)),
    "a huge tensor": content("model.safetensors", header(HUGE)),
    "no tensors": content("model.safetensors", header(b"{}")),
    "a nested header": content("model.safetensors", header(b"[" * 100_000)),
    "tensors of another width": tensors(
        lambda found: {name: tensor[..., :1].contiguous() for name, tensor in found.items()}
    ),
    "a tensor is missing": tensors(lambda found: dict(list(found.items())[1:])),
    "no head": tensors(lambda found: {name: tensor for name, tensor in found.items() if "classifier" not in name}),
    "weights that are not finite": tensors(
        lambda found: {name: tensor * float("nan") for name, tensor in found.items()}
    ),
    "whole numbers as weights": tensors(lambda found: {name: tensor.long() for name, tensor in found.items()}),
    # code
    "code": all_of(content("evil.py", EVIL.encode()), edited("config.json", auto_map=AUTO, model_type="evil")),
    "code beside a known type": all_of(content("evil.py", EVIL.encode()), edited("config.json", auto_map=AUTO)),
    "code of another repo": edited(
        "config.json", auto_map={key: f"evil/repo--{value}" for key, value in AUTO.items()}, model_type="evil"
    ),
    "code of the tokenizer": all_of(
        content("evil.py", EVIL.encode()),
        edited("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", "evil.T"]}, tokenizer_class="T"),
    ),
    "code of the processor": all_of(
        content("evil.py", EVIL.encode()), edited("preprocessor_config.json", auto_map={"AutoImageProcessor": "evil.C"})
    ),
    "trust in the configuration": all_of(
        content("evil.py", EVIL.encode()),
        edited("config.json", auto_map=AUTO, model_type="evil", trust_remote_code=True),
    ),
    "a kernel of the Hub": edited("config.json", attn_implementation="evil/kernel"),
    "an internal kernel": edited("config.json", _attn_implementation_internal="evil/kernel"),
    "kernels by name": edited("config.json", use_kernels=True, kernel_config={"a": "evil/kernel"}),
    "a backbone": edited("config.json", backbone="../bait", use_pretrained_backbone=True),
    "quantisation": edited("config.json", quantization_config={"quant_method": "gptq", "bits": 4}),
    "a chat template that leads out": edited(
        "tokenizer_config.json", chat_template=[{"name": "../../../bait/x", "template": "x"}]
    ),
    "a chat template as a program": content(
        "chat_template.jinja", b"{{ ''.__class__.__mro__[1].__subclasses__() }}{% for i in range(10**9) %}x{% endfor %}"
    ),
    "packages beside the model": all_of(
        content("torch.py", EVIL.encode()),
        content("transformers/__init__.py", EVIL.encode()),
        content("sitecustomize.py", EVIL.encode()),
    ),
    # sizes
    **{
        f"{name} = {value:.0e}": edited("config.json", **{name: value})
        for name, value in {
            "num_hidden_layers": 10**8,
            "hidden_size": 10**9,
            "vocab_size": 10**11,
            "num_attention_heads": 10**9,
            "intermediate_size": 10**12,
            "max_position_embeddings": 10**11,
            "num_labels": 10**8,
            "type_vocab_size": 10**11,
        }.items()
    },
    "a million labels": edited("config.json", id2label={str(i): f"l{i}" for i in range(10**6)}),
    "labels with gaps": edited("config.json", id2label={"0": "a", "7": "b", "x": "c", "-1": "d"}),
    "labels of one name": edited("config.json", id2label=dict.fromkeys("0123", "same")),
    "labels that steer": edited("config.json", id2label={str(i): f"\x1b[2J\x9b31m\u202e{i}" for i in range(4)}),
    "a nested configuration": content("config.json", b'{"a":' * 50_000),
    "another kind of net": edited("config.json", architectures=["GPT2LMHeadModel"], model_type="gpt2"),
    # decisions
    "a huge threshold": edited("config.json", decisions__threshold=10**400),
    "a threshold of another type": edited("config.json", decisions__threshold="x"),
    "a threshold for each of 3 labels": edited(
        "config.json", decisions__thresholds=[0.1, 0.2, 0.3], decisions__decoder="per_label"
    ),
    "an unknown decoder": edited("config.json", decisions__decoder="evil"),
    "decisions of another type": edited("config.json", decisions=[1, 2]),
    "a negative length": edited("config.json", inputs__max_length=-5),
    "a huge length": edited("config.json", inputs__max_length=10**400),
    # the loss-net
    "loss-net: pytorch_model.bin": as_bin("_loss_net/pytorch_model.bin"),
    "loss-net: a pickle": content("_loss_net/model.safetensors", PICKLE),
    "loss-net: its learner is a pickle": content("_loss_net/learner.pt", PICKLE),
    "loss-net: an index that leads out": all_of(
        index_of("../../../bait/model.safetensors", part="_loss_net"),
        renamed("_loss_net/model.safetensors", "../../bait/model.safetensors"),
    ),
    "loss-net: transformers_weights": all_of(
        as_bin("_loss_net/x.bin"), edited("_loss_net/config.json", transformers_weights="x.bin")
    ),
    "loss-net: layers": edited("_loss_net/config.json", head_layers=10**8, num_layers=10**8),
    "loss-net: sizes": edited("_loss_net/config.json", energy_options={"global_size": 10**11}),
    "loss-net: code": all_of(
        content("_loss_net/evil.py", EVIL.encode()),
        edited(
            "_loss_net/config.json",
            auto_map={"AutoModel": "evil.M"},
            encoder_config={"model_type": "evil", "auto_map": AUTO},
        ),
    ),
    "loss-net: an unknown energy": edited("_loss_net/config.json", energy="evil", space="evil"),
    "loss-net: not finite": tensors(
        lambda found: {name: tensor * float("nan") for name, tensor in found.items()}, "_loss_net"
    ),
    "loss-net: no weights": without("_loss_net/model.safetensors"),
    "loss-net: no configuration": without("_loss_net/config.json"),
    # adapters
    "an adapter whose base is a pickle": adapter_to("base"),
    "an adapter whose base is on the Hub": adapter_to("evil/base"),
    "an adapter as .bin": all_of(adapter_to("base"), renamed("adapter_model.safetensors", "adapter_model.bin")),
    "an adapter of a huge rank": all_of(
        edited("adapter_config.json", peft_type="LORA", r=10**9, base_model_name_or_path="m", task_type="SEQ_CLS"),
        renamed("model.safetensors", "adapter_model.safetensors"),
    ),
    # links and missing files
    **{
        f"a link: {file}": linked(file)
        for file in ("model.safetensors", "config.json", "_loss_net", "_loss_net/model.safetensors", "tokenizer.json")
    },
    **{
        f"missing: {file}": without(file)
        for file in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")
    },
    "a folder as config.json": all_of(without("config.json"), content("config.json/x", b"")),
    "a folder as model.safetensors": all_of(without("model.safetensors"), content("model.safetensors/x", b"")),
    "an empty folder": lambda folder, draw: [shutil.rmtree(folder), folder.mkdir()] and None,
}
IGNORED = "the result is that of the untouched folder"
A_BYTE = "weights have no checksum: another byte is another weight"
HARMLESS = {  # attack -> why a command may end well although its result differs from that of the untouched folder
    "labels that steer": "files hold names as they are; terminals and pages get them escaped",
}


# --- cases -----------------------------------------------------------------------------------------------------------


def filled(words: str, models: Path, name: str) -> str:
    output = "out" if name == "masks" else "out.jsonl"
    return words.format(
        input=INPUTS[name],
        output=output,
        models=models,
        own="--loss_net_encoder separate",
        quick=" ".join(samples.QUICK),
    )


def references(models: Path) -> Iterator[Case]:
    """Keeps what the commands write from the untouched folders."""
    for name in INPUTS:
        for command, (words, written) in COMMANDS.items():
            if name != "texts" and command not in (PREDICT, ENERGY):
                continue
            folder = models / "reference" / name / command

            def prepare(draw: random.Random, name: str = name) -> str:
                samples.write(samples.data())
                shutil.copytree(models / name, "m")
                return "a reference"

            def keep(written: tuple[str, ...] = written, name: str = name, folder: Path = folder) -> None:
                for path in map(Path, (filled(each, models, name) for each in written)):
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path)

            yield Case("models", f"{name} {command}", prepare, filled(words, models, name).split(), check=keep)


def differences(reference: Path) -> str | None:
    """A fault, unless the current folder holds all that `reference` does."""
    files = [file.relative_to(reference) for file in reference.rglob("*") if file.is_file()]
    different = [str(file) for file in files if not same(file, reference / file)]
    return f"{', '.join(different)} differs from that of the untouched folder" if different else None


def same(file: Path, other: Path) -> bool:
    return file.is_file() and file.read_bytes() == other.read_bytes()


def case(
    models: Path, name: str, title: str, change: Change, command: str, legal: str | None = None, field: str = ""
) -> Case:
    words = filled(COMMANDS[command][0], models, name)

    def prepare(draw: random.Random) -> str | None:
        samples.write(samples.data())
        shutil.copytree(models / name, "m")
        (bait := Path("..", "bait")).mkdir()
        (bait / "secret").write_text("a secret\n")
        change(Path("m"), draw)
        return legal or IGNORED

    check = None if legal else lambda: differences(models / "reference" / name / command)
    names = ("m", *NAMED, *([field] if field else []))
    return Case("saved folders", f"{name}: {title} ({command})", prepare, words.split(), names, check, seconds=40)


def fields(values: Any, above: tuple = ()) -> Iterator[tuple]:
    """The paths of all values of a JSON object."""
    items = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, value in items:
        yield (*above, key)
        yield from fields(value, (*above, key))


def one_field(file: str, path: tuple, value: Any) -> Change:
    def change(folder: Path, draw: random.Random) -> None:
        found = json.loads((folder / file).read_text())
        inner = found
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        (folder / file).write_text(json.dumps(found))

    return change


FILES = [  # that a command reads
    *(f"{name}.json" for name in ("config", "tokenizer", "tokenizer_config", "preprocessor_config", "vocabulary")),
    "model.safetensors",
    "_loss_net/config.json",
    "_loss_net/model.safetensors",
]
LEGAL_FIELDS: dict[str, tuple[tuple[type, ...], str]] = {  # field, or one that holds it -> values that may change it
    "id2label": ((str,), "a label of another name"),
    "words": ((str,), "a vocabulary of other words"),
    "decisions": ((type(None), int, float), "without decisions, or with other numbers, rows are decided otherwise"),
    "rescale_factor": ((int, float), "any number multiplies pixels"),
    "size": ((int,), "images are resized to it"),
    "do_normalize": ((bool,), "images may be normalised or not"),
    "do_rescale": ((bool,), "images may be rescaled or not"),
    "do_resize": ((bool,), "images may be resized or not"),
}


def legal_value(where: tuple, value: Any) -> str | None:
    """Why the field at this path may be set to this value."""
    kinds, why = next((LEGAL_FIELDS[key] for key in where if key in LEGAL_FIELDS), ((), ""))
    return why if type(value) in kinds else None


def reason(file: str, mutation: str) -> str | None:
    """Why a file with mutated bytes may give another result."""
    if file.endswith(".safetensors"):
        return A_BYTE if mutation in ("a byte", "five bytes") else None
    return None


def reads(file: str) -> str:
    return ENERGY if file.startswith("_loss_net") else PREDICT


def with_fields(models: Path, draw: random.Random, each: int = 2) -> Iterator[Case]:
    """Every value of every configuration, replaced by some of POOL."""
    for name in INPUTS:
        for file in (file for file in FILES if file.endswith(".json") and (models / name / file).is_file()):
            if file == "tokenizer.json":
                continue
            for where in fields(json.loads((models / name / file).read_text())):
                for value in draw.sample(POOL, each):
                    shown = f"{file} {'.'.join(map(str, where))} = {repr(value)[:24]}"
                    field = next(str(key) for key in reversed(where) if isinstance(key, str))
                    change = one_field(file, where, copy.deepcopy(value))
                    yield case(models, name, shown, change, reads(file), legal_value(where, value), field)


def with_bytes(models: Path) -> Iterator[Case]:
    """Mutated bytes of every file that a command reads."""
    for name in ("texts", "tags", "masks", "pictures"):
        for file in (file for file in FILES if (models / name / file).is_file()):
            for mutation, mutate in data_files.EVERYWHERE.items():

                def change(folder: Path, draw: random.Random, file: str = file, mutate=mutate) -> None:
                    (folder / file).write_bytes(mutate((folder / file).read_bytes(), draw))

                yield case(models, name, f"{file}: {mutation}", change, reads(file), reason(file, mutation))


def cases(models: Path) -> Iterator[Case]:
    for title, change in ATTACKS.items():
        for command in COMMANDS:
            if (command == ENERGY) <= title.startswith("loss-net"):
                yield case(models, "texts", title, change, command, HARMLESS.get(title))
    yield from with_bytes(models)
    yield from with_fields(models, random.Random(0))
