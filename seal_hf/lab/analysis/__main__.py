"""What has a trained energy learned? Reads a folder that `train mlc`, `train energy` or `train tagging` saved.

seal-hf analyse hessian FOLDER --dataset bibtex --data_dir DATA --output_dir DIR
seal-hf analyse gradients FOLDER --dataset bibtex --data_dir DATA --output_dir DIR --energy_weight 0.5
seal-hf analyse tags FOLDER --dataset twitter_pos --data_dir DATA --output_dir DIR

The command writes hessian.json, gradients.json or tags.json, and a figure of the same name (.png), to DIR. `hessian`
compares the energy's second derivatives with the co-occurrence of labels. `tags` compares those of neighbouring tags
with their bigrams. `gradients` draws SEAL's Figure 2: the gradients of cross-entropy and of the energy's global term at
one label, by the value of another label.

An energy network (`train energy`; SEAL's Figures 4 and 5) lacks a task-net. `hessian` then uses the gold label sets of
validation rows, and `gradients` draws only the plots that need no outputs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ...cli.programs import run_program
from ...cli.recipes import parse_recipe
from ...core.task import Registry
from ...utils.options import check_given
from ...utils.recorded import recorded
from .draw import check_matplotlib
from .nets import AnalysisArguments

# word -> the function of (folder, arguments of the data, arguments) that gives the results, and the data's arguments
COMMANDS: Registry[tuple[Callable[..., dict], type]] = Registry(lambda task: task.analyses)


def main(argv: list[str] | None = None) -> dict:
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv[:1] in (["--help"], ["-h"]):
        print(f"{__doc__}\nFlags of each: seal-hf analyse {'|'.join(COMMANDS)} --help")
        sys.exit()
    if argv[1:] in (["--help"], ["-h"]) and argv[0] in COMMANDS:
        parse_recipe((COMMANDS[argv[0]][1], AnalysisArguments), argv[1:])  # prints the flags and ends the program
    if len(argv) < 2 or argv[0] not in COMMANDS or argv[1].startswith("-"):
        raise ValueError(f"usage: seal-hf analyse {'|'.join(COMMANDS)} FOLDER [--dataset NAME ...]")
    run, data_type = COMMANDS[argv[0]]
    check_given({"folder": argv[1]}, {}, {})
    data_args, args = parse_recipe((data_type, AnalysisArguments), argv[2:])
    if args.figure:
        check_matplotlib()
    folder = Path(args.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    result = run(argv[1], data_args, args)
    text = json.dumps(recorded(result), default=lambda value: np.asarray(value).tolist(), ensure_ascii=False)
    (folder / f"{argv[0]}.json").write_text(text + "\n", encoding="utf-8")
    shown = {key: value for key, value in result.items() if key.startswith(("agreement", "pairs"))}
    print(json.dumps(shown, indent=1))
    return result


if __name__ == "__main__":
    sys.argv[0] = "seal_hf.lab.analysis"  # its name in messages and --help
    run_program(main)
