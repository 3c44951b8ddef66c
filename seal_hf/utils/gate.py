"""The gate: what a folder or a Hub repo may make a library open, checked before the library opens anything.

transformers, PEFT and `adapters` follow what configurations name: other files of weights, files elsewhere on the disk,
repos of kernels and backbones, code. They also build nets of any stated size. So every loader of this package passes
[`check_origin`] first. It lets through safetensors of this very folder, and sizes that fit their tensors.
"""

from __future__ import annotations

import json
import logging
import math
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from .files import json_object, loading, of_variant
from .messages import few

NET = ("config.json", "adapter_config.json", "head_config.json", "generation_config.json")
TOKENIZER = ("config.json", "tokenizer_config.json", "special_tokens_map.json")
PROCESSOR = ("config.json", "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
CODE = "auto_map"  # the key of a configuration that names code
REFUSED = "wants to run code"
SAFE, SUFFIX, INDEX = "model.safetensors", ".safetensors", ".safetensors.index.json"
ADAPTER = "adapter_config.json"
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter.safetensors")  # of PEFT, of the library `adapters`
HEAD, HEAD_WEIGHTS = "head_config.json", "model_head.safetensors"  # beside an adapter of the library `adapters`
INSIDE = ("_loss_net", "additional_chat_templates", "1_Pooling")  # folders in a model's folder that loaders read
HUB = ("revision", "token", "cache_dir", "local_files_only")

IMPLEMENTATIONS = ("eager", "sdpa", "flex_attention", "paged|eager", "paged|sdpa", "batched_mm", "grouped_mm")
IF_INSTALLED = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_interface"}  # else from the Hub
IMPLEMENTATION = re.compile(r"^_?(attn|experts)_implementation(_internal)?$")
FETCHES = frozenset(  # keys by which a library would fetch, import or unpickle something else
    "use_kernels kernel_config allow_all_kernels use_pretrained_backbone checkpoint_path trust_remote_code "
    "megatron_config arrow_config shadow_model prompt_tuning_init_state_dict_path tokenizer_kwargs "
    "attribute_map sub_configs".split()  # these two give a field another name
)
FILE_LISTS = ("configuration_files", "fast_tokenizer_files")
PLAIN = re.compile(r"\w[\w.-]*")
ORIGIN = re.compile(r"(^|_)name_or_path$|^model_name$")  # an adapter's base passes the gate when it is loaded
TABLE = re.compile(r"^(id2label|label2id|added_tokens_decoder)$")  # large, and without sizes
REPEATED = re.compile(r"(layers?|blocks?|depths?|stages?|groups|group_num|experts?|repeats?|levels|replication)$")
COUNT = re.compile(r"^(num|n)_|_num$")
RANK = re.compile(r"^(r|rank|num_virtual_tokens)$")
TABLES = re.compile(r"^(num_labels|num_classes)$")
NO_SIZE = re.compile(r"(_ids?|_index|_tokens?|theta|seed|length|alpha|key|version)$")

FEW = 200  # repeated parts that any configuration may state
WIDE = 1024  # width of an adapter that any configuration may state
MANY = 100_000  # labels that any configuration may state
COUNTED = 10_000  # the largest count of something else, and the largest size in an adapter
LARGEST = 20_000_000  # the largest other size
TIMES, FREE = 4, 100_000_000  # parameters that a net may have: so many times its stored values, and so many more
MOST_BYTES = 100_000_000  # of a configuration, or of the header of a safetensors file
LEAST_REDUCTION = 0.01  # of a bottleneck: the encoder's width divided by it is the bottleneck's


@dataclass(frozen=True)
class Stored:
    """The tensors of a folder or repo, by the headers of its safetensors.

    Attributes:
        count: number of tensors.
        elements: number of values in all of them.
        longest: the largest dimension.
        in_doubt: True if a configuration states a size that no tensor has, so that the net must be measured.
    """

    count: int = 0
    elements: int = 0
    longest: int = 0
    in_doubt: bool = False


def check_origin(
    name: Any,
    hub: Mapping[str, Any] | None = None,
    *,
    files: Sequence[str] = NET,
    variant: str | None = None,
    adapter: bool = False,
) -> Stored:
    """Check what a folder or Hub repo may make a library open, before it is loaded.

    Args:
        name: folder or Hub id.
        hub: options for access to the Hub; others are ignored.
        files: the configurations that the loader reads. Only with `NET` weights are needed and read.
        variant: of the files of weights, as in `from_pretrained`.
        adapter: True if it may hold an adapter in place of a whole net.

    Raises:
        OSError: there are no weights as safetensors.
        ValueError: names the file, the field, and what was found and expected.
    """
    name = str(name)
    find = _finder(name, {key: value for key, value in (hub or {}).items() if key in HUB})
    if Path(name).is_dir():
        check_links(Path(name))
    elif Path(name).exists():
        raise ValueError(f"{name} is a file; expected the folder of a saved model, or a Hub id.")
    configs: dict[str, dict[str, Any]] = {}
    for i, file in enumerate(files):
        if (path := find(file)) is not None:
            configs[file] = _config(path)
        elif i == 1 and not configs and not Path(name).is_dir():
            return Stored()  # the loader says why the Hub gives nothing
    for file, values in configs.items():
        _check_values(f"{name}: {file}", values, Path(name))
    if files is not NET:
        stored = Stored()
    elif ADAPTER in configs:
        if not adapter:
            raise ValueError(f"{name} holds an adapter ({ADAPTER}); expected a whole net, since its base is needed.")
        stored = _stored(_adapter_weights(name, configs, find), find)
    else:
        stored = _stored(_weights(name, configs.get("config.json", {}), variant, find), find)
    doubts = [_check_sizes(f"{name}: {file}", values, stored) for file, values in configs.items()]
    return Stored(stored.count, stored.elements, stored.longest, any(doubts))


def config_of(name: Any, hub: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values of the `config.json` of a folder or repo.

    Raises:
        OSError: there is none.
        ValueError: it is damaged, or a link leads out of the folder.
    """
    from transformers import PretrainedConfig

    if Path(name).is_dir():
        check_links(Path(name))
    with loading(name, "a net"):
        return PretrainedConfig.get_config_dict(name, **(hub or {}))[0]


def values_beside(name: Any, file: str, hub: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """The values of another JSON file of a folder or repo; None if it is missing, or the Hub cannot be reached.

    Raises:
        ValueError: it is damaged, or a link leads out of the folder.
    """
    if Path(name).is_dir():
        check_links(Path(name))
    path = _finder(str(name), {key: value for key, value in (hub or {}).items() if key in HUB})(file)
    return None if path is None else _config(path)


def load_net(auto_class: Any, name: Any, **kwargs: Any) -> Any:
    """`auto_class.from_pretrained(name, **kwargs)` of a whole net, through the gate and from safetensors. Code of the
    folder or repo runs only with `trust_remote_code=True`.

    Raises:
        OSError, ValueError: [`check_origin`], [`check_size`] or [`no_questions`] raises it.
    """
    from transformers import AutoConfig

    kwargs = {"trust_remote_code": False, **kwargs, "use_safetensors": True}
    hub = {key: value for key, value in kwargs.items() if key in HUB}
    stored = check_origin(name, hub, variant=kwargs.get("variant"))
    if not kwargs["trust_remote_code"]:

        def build() -> Any:
            config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub)
            return auto_class.from_config(config, trust_remote_code=False)

        check_size(name, stored, build)
    with no_questions(name, hub):
        return auto_class.from_pretrained(name, **kwargs)


def check_size(name: Any, stored: Stored, build: Callable[[], Any]) -> None:
    """Check that the parameters of a net are not far more than its folder or repo stores.

    Args:
        build: makes the net. It runs without memory for tensors, and only if `stored` is in doubt.

    Raises:
        ValueError: it has.
    """
    if not stored.in_doubt:
        return
    import torch

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # the loader says it again
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            needed = sum(parameter.numel() for parameter in build().parameters())
    except Exception:  # of any type; the loader says what is wrong
        return
    finally:
        logging.disable(before)
    if needed > TIMES * stored.elements + FREE:
        raise ValueError(
            f"{name}: its configuration states a net of {needed:.3g} parameters, but its weights hold "
            f"{stored.elements:.3g} values. Was a size in config.json edited?"
        )


def check_trust(name: Any, trust_remote_code: bool, revision: str | None) -> dict[str, Any]:
    """The options of `from_pretrained` by which code of a folder or repo runs, or never runs. Unless it is True,
    transformers would ask at the terminal, where a pipe can answer.

    Raises:
        ValueError: code of the Hub is to run, but no `revision` is given.
    """
    if not isinstance(trust_remote_code, bool):
        raise ValueError(f"`trust_remote_code` is {trust_remote_code!r}; it must be True or False.")
    if not trust_remote_code:
        return {"trust_remote_code": False}
    if revision is None and (not Path(name).is_dir() or _is_elsewhere(code_of(str(name)))):
        raise ValueError(
            f"`trust_remote_code` is True, but `revision` is missing: the code of {name} is on the Hub and can change. "
            "Read the code, and give the commit that you have read (--revision)."
        )
    return {"trust_remote_code": True} | ({} if revision is None else {"code_revision": revision})


def code_of(name: str, hub: Mapping[str, Any] | None = None) -> list[str]:
    """The classes that the configurations of a folder or repo name as their own code, such as `modeling.Net`."""
    find = _finder(name, {key: value for key, value in (hub or {}).items() if key in HUB})
    found: dict[str, None] = {}
    for file in dict.fromkeys((*NET[:1], *TOKENIZER, *PROCESSOR)):
        path = find(file)
        for key, _, value in _walk(_config(path)) if path is not None else ():
            if key == CODE:
                named = (name for part in _parts(value) for name in _parts(part))
                found |= {name: None for name in named if isinstance(name, str)}
    return list(found)


@contextmanager
def no_questions(name: Any, hub: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Keep transformers from asking at the terminal whether it may run code. It refuses instead, in one line.

    Raises:
        ValueError: names the code that would have run.
    """
    from transformers import dynamic_module_utils

    before = dynamic_module_utils.TIME_OUT_REMOTE_CODE
    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0  # seconds to wait for an answer; 0: a refusal
    try:
        yield
    except ValueError as error:
        if "trust_remote_code=True" not in str(error) or REFUSED in str(error):
            raise
        named = few(code_of(str(name), hub)) or "of its own"
        raise ValueError(
            f"{name} {REFUSED} ({CODE}: {named}), which is refused. If you have read and trust it, give "
            "--trust_remote_code true (in Python trust_remote_code=True), for a Hub id with the --revision you read."
        ) from error
    finally:
        dynamic_module_utils.TIME_OUT_REMOTE_CODE = before


def _finder(name: str, hub: dict[str, Any]) -> Callable[[str], Path | None]:
    """A function from the name of a file in a folder or repo to its path; None if it is missing."""
    if Path(name).is_dir():
        return lambda file: path if (path := Path(name, file)).is_file() else None
    from transformers.utils import cached_file

    quiet = {f"_raise_exceptions_for_{what}": False for what in ("missing_entries", "gated_repo", "connection_errors")}

    def find(file: str) -> Path | None:
        found = cached_file(name, file, **quiet, **hub)
        return None if found is None else Path(found)

    return find


def _config(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size} bytes; a configuration has at most {MOST_BYTES}.")
    return json_object(path, "Was it saved completely?")


def check_links(folder: Path) -> None:
    """Raises ValueError for a link to somewhere outside of the folder. The Hub's cache links to its own blobs. Nothing
    outside is opened."""
    entries = [folder] if folder.name in INSIDE else []
    root = (folder.parent if entries else folder).resolve()
    cache = next((parent.parent / "blobs" for parent in root.parents if parent.name == "snapshots"), root)
    inside = (part for each in INSIDE if (folder / each).is_dir() for part in (folder / each).iterdir())
    for entry in chain(entries, folder.iterdir(), inside):
        if entry.is_symlink() and (entry.is_file() or entry.name in INSIDE):
            target = entry.resolve()
            if not (target.is_relative_to(root) or target.is_relative_to(cache)):
                raise ValueError(f"{entry} is a link to {target}, outside of the folder. Copy what it links to.")


def _walk(values: Any) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Every value in a JSON object, however deep, with its key and the object that holds it. Values of a list have the
    list's key. Tables of labels and tokens are left out."""
    waiting: list[tuple[str, dict[str, Any], Any]] = [("", {}, values)]
    while waiting:
        key, owner, value = waiting.pop()
        yield key, owner, value
        if isinstance(value, dict):
            waiting += [(str(name), value, part) for name, part in value.items() if not TABLE.search(str(name))]
        elif isinstance(value, list):
            waiting += [(key, owner, part) for part in value]


def _check_values(where: str, values: dict[str, Any], folder: Path) -> None:
    """Raises ValueError for a field that leads a library elsewhere, or that an image processor cannot use."""
    of_images = where.endswith("preprocessor_config.json")
    for key, owner, value in _walk(values):
        expected = _expected(key, owner, value) or (_expected_of_images(key, value) if of_images else None)
        if expected is None and isinstance(value, str) and not ORIGIN.search(key) and _is_other_file(value, folder):
            expected = "nothing outside of the folder"
        if expected is not None:
            raise ValueError(f"{where}: `{key}` is {reprlib.repr(value)}; expected {expected}. Remove or correct it.")
    if _is_elsewhere_built(values):
        raise ValueError(f"{where}: `config` is {values.get('config')!r}; expected the adapter's values as an object.")


def _expected_of_images(key: str, value: Any) -> str | None:
    """What was expected in place of a value that says how pixels are read; None if it fits."""
    if value is None:
        return None
    if key.startswith("do_"):
        return None if isinstance(value, bool) else "true or false"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "a number above 0" if key == "rescale_factor" and not (is_number and value > 0) else None


def _expected(key: str, owner: dict[str, Any], value: Any) -> str | None:
    """What was expected in place of a value that leads a library elsewhere; None if it may stay."""
    if value is None or value is False or value == {} or value == [] or value == "":
        return None
    fits: Any = True
    expected = ""
    if key == "transformers_weights":
        fits, expected = _is_plain(value) and value.endswith((SUFFIX, INDEX)), f"a {SUFFIX} file in the folder"
    elif key in FILE_LISTS:
        fits, expected = all(map(_is_plain, _parts(value))), "files in the folder"
    elif key in FETCHES:
        fits, expected = False, "nothing, since it would fetch or run something else"
    elif IMPLEMENTATION.match(key):
        fits = all(each is None or each in IMPLEMENTATIONS or _has_flash(each) for each in _parts(value))
        expected = f"one of {', '.join(IMPLEMENTATIONS)}; a kernel of the Hub would be code"
    elif key == "backbone" and isinstance(value, str):
        fits = owner.get("use_timm_backbone") and _is_plain(value)
        expected = "a backbone described in `backbone_config`, not another repo"
    elif key == "architecture" and isinstance(value, str):
        fits, expected = _is_plain(value), "the name of an architecture, not another repo"
    elif key == "quantization_config":
        fits = isinstance(value, dict) and value.get("quant_method", "bitsandbytes") == "bitsandbytes"
        expected = "one of bitsandbytes, the only library that is supported"
    elif key == "chat_template" and not isinstance(value, str):
        named = list(value) if isinstance(value, dict) else _parts(value)
        fits = all(_is_plain(each.get("name") if isinstance(each, dict) else each) for each in named)
        expected = "plain names of templates"
    elif key == "init_lora_weights" and isinstance(value, str):
        fits, expected = not re.search(r"\d{3}", value), "fewer than 100 iterations"
    elif key == "peft_type":
        fits, expected = str(value).upper() != "XLORA", "a kind that needs no other adapters"
    return None if fits else expected


def _parts(value: Any) -> list[Any]:
    """The values of an object, the entries of a list, or the value alone."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else [value]


def _is_plain(value: Any) -> bool:
    """True for a name that leads nowhere."""
    return isinstance(value, str) and PLAIN.fullmatch(value) is not None


def _has_flash(implementation: Any) -> bool:
    """True if an implementation of attention is an installed package; otherwise transformers fetches it from the
    Hub."""
    package = IF_INSTALLED.get(implementation) if isinstance(implementation, str) else None
    return package is not None and find_spec(package) is not None


def _is_other_file(value: str, folder: Path) -> bool:
    """True if a text names an existing file outside of the folder."""
    if not ("/" in value or "\\" in value) or len(value) > 4096 or "\0" in value:
        return False
    try:
        path = Path(value).expanduser()
        return path.is_file() and not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # no path at all
        return False


def _is_elsewhere_built(values: dict[str, Any]) -> bool:
    """True for an adapter of the library `adapters` whose values lie elsewhere, under a name."""
    return "model_class" in values and "config" in values and not isinstance(values["config"], (dict, type(None)))


def _is_elsewhere(classes: list[str]) -> bool:
    """True if one of these classes is code of another repo."""
    return any("--" in each for each in classes)


def _check_sizes(where: str, values: dict[str, Any], stored: Stored) -> bool:
    """Raises ValueError for a size by which a library would build without end. True if a smaller one is doubtful."""
    doubtful = False
    for key, _, value in _walk(values):
        if key == "reduction_factor":
            _check_reduction(where, value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if RANK.search(key):
            least = WIDE
        elif NO_SIZE.search(key):
            continue
        elif TABLES.search(key):
            least = MANY
        else:
            least = COUNTED if COUNT.search(key) or where.endswith(ADAPTER) else LARGEST
        most, many = max(least, stored.longest), value > stored.longest
        if REPEATED.search(key):
            most, many = max(FEW, stored.count), 4 * value > stored.count
        doubtful = doubtful or many
        if value > most and isinstance(value, int):  # a float is a ratio, by which sizes may become large
            raise ValueError(
                f"{where}: `{key}` is {reprlib.repr(value)}; expected at most {most}, since there are {stored.count} "
                f"tensors, none longer than {stored.longest}. Was it edited?"
            )
    return doubtful


def _check_reduction(where: str, value: Any) -> None:
    """Raises ValueError for a bottleneck that is far wider than its encoder."""
    for number in _parts(value):
        if isinstance(number, (int, float)) and not number >= LEAST_REDUCTION:
            raise ValueError(
                f"{where}: `reduction_factor` is {reprlib.repr(number)}; expected at least {LEAST_REDUCTION}. Was it "
                "edited?"
            )


def _weights(name: str, config: dict[str, Any], variant: str | None, find: Callable[[str], Path | None]) -> list[str]:
    """The files of weights that transformers will open.

    Raises:
        OSError: none are safetensors.
        ValueError: an index names others.
    """
    stated = config.get("transformers_weights")
    wanted = [stated] if stated else [of_variant(SAFE, variant), of_variant("model.safetensors.index.json", variant)]
    first = next((file for file in wanted if find(file) is not None), None)
    if first is None:
        raise OSError(
            f"{name} has no file named {wanted[0]}. Only safetensors are read: save the weights again with "
            "save_pretrained."
        )
    return [first] if first.endswith(SUFFIX) else _indexed(name, first, find)


def _indexed(name: str, index: str, find: Callable[[str], Path | None]) -> list[str]:
    path = find(index)
    assert path is not None, "it was found"
    listed = _config(path).get("weight_map")
    files = dict.fromkeys(file if isinstance(file, str) else repr(file) for file in _parts(listed))
    for file in files:
        if not _is_plain(file) or not file.endswith(SUFFIX):
            raise ValueError(
                f"{name}: {index} names {file!r}; expected .safetensors files beside it. Save the weights again with "
                "save_pretrained."
            )
        if find(file) is None:
            raise OSError(f"{name}: {index} names {file}, which is missing. Was it saved completely?")
    return [*files]


def _adapter_weights(name: str, configs: dict[str, Any], find: Callable[[str], Path | None]) -> list[str]:
    found = [file for file in ADAPTER_WEIGHTS if find(file) is not None]
    if HEAD in configs and find(HEAD_WEIGHTS) is None:
        found = []  # the library would unpickle the head
    if not found:
        raise OSError(f"{name} has an {ADAPTER}, but lacks the adapter's weights as safetensors.")
    return found + ([HEAD_WEIGHTS] if HEAD in configs else [])


def _stored(files: list[str], find: Callable[[str], Path | None]) -> Stored:
    """The tensors in these files. Only their headers are read.

    Raises:
        ValueError: a file is not readable as safetensors.
    """
    shapes: list[list[int]] = []
    for file in files:
        path = find(file)
        assert path is not None, "it was found"
        try:
            shapes += _shapes(path)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{path.parent}: its weights are not readable as safetensors: {file}: {error}. Is the file whole, or a "
                "pointer of Git LFS (git lfs pull)?"
            ) from error
    longest = max((side for shape in shapes for side in shape), default=0)
    return Stored(len(shapes), sum(math.prod(shape) for shape in shapes), longest)


def _shapes(path: Path) -> list[list[int]]:
    """The shapes of the tensors in a safetensors file."""
    with path.open("rb") as file:
        start = file.read(8)
        size = int.from_bytes(start, "little")
        if len(start) < 8 or size > min(MOST_BYTES, path.stat().st_size):
            raise ValueError("the header is cut off or too large")
        header = json.loads(file.read(size))
    found = [entry["shape"] for key, entry in header.items() if key != "__metadata__"]
    if any(type(side) is not int or side < 0 for shape in found for side in shape):
        raise ValueError("a shape is not made of whole numbers")
    return found
