"""Fixtures shared by all tests: where the real data sets are, and a quiet, offline environment."""

import contextlib
import functools
import gc
import logging
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# One thread, here and in every program that a test starts: with two, sums come in another order and end in other bits.
os.environ["OMP_NUM_THREADS"] = "1"

import datasets  # noqa: E402  # they read the environment
import torch  # noqa: E402
from transformers.utils import logging as hf_logging  # noqa: E402


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with the real data sets (`mlc/`, `text/`, ...); the test is skipped where it is absent."""
    folder = Path(os.environ.get("SEAL_HF_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not at {folder} (set SEAL_HF_DATA to their folder)")
    return folder


@pytest.fixture
def drawing_program():
    """The program that compares losses."""
    from seal_hf.lab.compare import program

    return program


@pytest.fixture
def program(drawing_program, monkeypatch):
    """The same without figures, which it draws anew after every seed."""
    from seal_hf.lab.compare import table as page

    monkeypatch.setattr(page, "has_matplotlib", lambda: False)
    return drawing_program


@pytest.fixture(autouse=True, scope="session")
def garbage_stays():
    """A training ends with a collection of garbage, which looks through all that was ever imported. Here, Python
    collects when it needs to."""
    from accelerate.utils import memory

    memory.gc = SimpleNamespace(collect=lambda: 0)


@pytest.fixture(autouse=True, scope="session")
def nothing_for_later():
    """What libraries do for another time or machine takes a tenth of a short run: a training asks accelerate again and
    again whether a library is installed, torch keeps a stack for every seed that a GPU would get, datasets reads a
    table and a function for the name of a cache, and a checkpoint waits for the disk."""
    from accelerate.utils import imports
    from datasets import arrow_dataset, fingerprint

    imports._is_package_available = functools.cache(imports._is_package_available)
    torch.cuda.manual_seed_all = torch.xpu.manual_seed_all = lambda seed: None
    drawn = lambda *_, **__: fingerprint.generate_random_fingerprint()  # noqa: E731
    arrow_dataset.generate_fingerprint = arrow_dataset.update_fingerprint = fingerprint.update_fingerprint = drawn
    os.fsync = lambda descriptor: None


@pytest.fixture(autouse=True, scope="session")
def drawings():
    """A context in which matplotlib draws the plots of a page. Elsewhere they are empty: they take most of the time
    that the page of a small run takes."""
    try:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
    except ImportError:
        return contextlib.nullcontext

    def drawn_as(function):
        FigureCanvasSVG.print_svg = function

    @contextlib.contextmanager
    def drawn():
        drawn_as(whole)
        try:
            yield
        finally:
            drawn_as(empty)

    def empty(self, file, **_):
        file.write('<svg width="1pt" height="1pt"></svg>')

    whole = FigureCanvasSVG.print_svg
    drawn_as(empty)
    return drawn


@pytest.fixture
def drawn(drawings):
    """The plots of this test are drawn."""
    with drawings():
        yield


@pytest.fixture(autouse=True, scope="module")
def frozen_modules():
    """What was imported stays, and need not be looked through again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def narrow_energies():
    """Energies of masks have an eighth of their channels where no flag gives a number: the convolutions of the default
    take most of a short run."""
    from seal_hf import GridEnergy

    before = GridEnergy.__init__.__defaults__
    channels, dropout, _, mask_channels = before
    GridEnergy.__init__.__defaults__ = (channels, dropout, 8, mask_channels)
    yield
    GridEnergy.__init__.__defaults__ = before


@pytest.fixture(autouse=True)
def forget_precision():
    """bf16, torch_compile and fsdp of 4.57's TrainingArguments stay in the environment, where every later run of the
    process, and each subprocess, takes them for its own defaults."""
    left_behind = ("ACCELERATE_MIXED_PRECISION", "ACCELERATE_DYNAMO_BACKEND", "ACCELERATE_DYNAMO_MODE")
    for moment in range(2):
        for name in (*left_behind, "ACCELERATE_USE_FSDP"):
            os.environ.pop(name, None)
        if moment == 0:
            yield


@pytest.fixture(autouse=True)
def screen_as_it_was():
    """`seal-hf compare` silences the libraries of its process."""
    loggers = [logging.getLogger(name) for name in ("seal_hf", "transformers")]
    levels, bars = [logger.level for logger in loggers], hf_logging.is_progress_bar_enabled()
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    if bars:
        hf_logging.enable_progress_bar()
        datasets.enable_progress_bars()
