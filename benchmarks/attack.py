"""Attacks and misfortunes: damaged and hostile files, folders, checkpoints, flags and surroundings, and their outcomes.

    python benchmarks/attack.py                       # all groups, with two processes; writes attack.json
    python benchmarks/attack.py --only "data files"   # one group; writes nothing
    python benchmarks/attack.py --show 'csv: a quote'    # cases whose names contain it, with what they printed

Each case runs one command of the package in a process of its own, with limits of time and memory, in a folder of its
own, while everything that is opened, executed, unpickled or called is watched (`attacks/watch.py`). A pipe answers `y`
to every question. A case ends in one of these:

* clear: one line, no traceback, which names the file, field or flag;
* legal: the command ended well, and the case says why that is right;
* silent: it ended well, and should not have; unclear: the line names nothing of the case; traceback; hang; code run;
  opened outside: a file beyond the case's folder and the installation, or the network.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import os
import random
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]  # the package beside this program, whatever is installed
RESULTS = ROOT / "benchmarks" / "attack.json"
GROUPS = {
    "data files": "data_files",
    "saved folders": "folders",
    "flags": "flags",
    "checkpoints": "states",
    "surroundings": "surroundings",
    "demo": "demo",
    "secrets": "secrets",
}


def prepared(scratch: Path, given: Path | None = None) -> Path:
    """Imports all that the cases use; trains a small model of each kind; their folder."""
    os.environ |= {  # before any library is imported
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(scratch / "home"),
        "MPLCONFIGDIR": str(scratch / "home"),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",  # it would be unpickled, from the user's own folder of PyTorch
    }
    from attacks import folders, samples, states
    from attacks.engine import Case, run_cases

    from seal_hf.__main__ import COMMANDS

    for where, _ in COMMANDS.values():
        import_module(where.split(":")[0])
    import gradio  # noqa: F401
    import matplotlib.pyplot  # noqa: F401  # and its cache of fonts
    import torch

    torch.set_num_threads(1)
    models = given or scratch / "models"
    if models.is_dir():
        return models
    models.mkdir()
    samples.encoder(models / "encoder")

    def prepare(draw) -> str:
        samples.write(samples.data())
        Path("encoder").symlink_to(models / "encoder")
        return "a model of the cases"

    cases = [Case("models", name, prepare, samples.training(name, str(models / name))) for name in samples.MODELS]
    for part, jobs in ((cases, 2), (folders.references(models), 2), (states.trains(models), 1)):  # a run, its resume
        for ended in run_cases(part, scratch / "training", 0, jobs, [scratch, models, ROOT]):
            if ended.kind != "legal":
                raise RuntimeError(f"{ended.case.name}: {ended.kind}, {ended.output}")
    gc.freeze()
    return models


def main() -> None:
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets have the same order in every run
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cases", type=int, default=400, help="at most so many of each group, drawn with the seed")
    parser.add_argument("--models", type=Path, help="a folder of the small models; made if it does not exist")
    parser.add_argument("--only", choices=GROUPS, help="one group")
    parser.add_argument("--show", metavar="TEXT", help="only cases whose names contain it; prints what each said")
    given = parser.parse_args()
    from attacks.engine import FAULTS, KINDS, run_cases

    started, counts = time.monotonic(), collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory(prefix="attack") as folder:
        scratch = Path(folder)
        models = prepared(scratch, given.models)
        for group in [given.only] if given.only else GROUPS:
            found = import_module(f"attacks.{GROUPS[group]}").cases(models)
            chosen = [case for case in found if given.show is None or given.show in case.name]
            chosen = random.Random(given.seed).sample(chosen, min(given.cases, len(chosen)))
            for ended in run_cases(chosen, scratch / group, given.seed, given.jobs, [models, scratch / "home", ROOT]):
                counts[group][ended.kind] += 1
                if ended.kind in FAULTS or given.show:
                    print(
                        f"{ended.kind}: {group}/{ended.case.name} ({ended.seconds:.1f} s): {ended.text[:300]}",
                        flush=True,
                    )
                if given.show:
                    print(ended.output)
    table = {group: {kind: count[kind] for kind in KINDS} for group, count in counts.items()}
    print(as_table(table), f"{time.monotonic() - started:.0f} s", sep="\n\n")
    if given.only is None and given.show is None:
        from seal_hf.utils.files import whole_file

        with whole_file(RESULTS) as unfinished:
            unfinished.write_text(
                json.dumps({"seed": given.seed, "outcomes": table}, indent=1) + "\n", encoding="utf-8"
            )


def as_table(outcomes: dict[str, dict[str, int]]) -> str:
    """Markdown: a row for each group, with the number of cases of each outcome."""
    kinds = list(next(iter(outcomes.values())))
    lines = [f"| attacks on | tried | {' | '.join(kinds)} |", "|---" * (2 + len(kinds)) + "|"]
    for group, counts in outcomes.items():
        lines.append(f"| {group} | {sum(counts.values())} | {' | '.join(str(counts[kind]) for kind in kinds)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
