"""What does a loss-net gain, and what does it cost? Trains all methods with one budget; writes a table and a page.

The kind of output is the first word, mlc (label sets, the default), tagging, srl, parsing or segmentation; or rewards,
for few labelled rows and rules. Its kind follows from the rules, or is the next word:

seal-hf compare                                    # the digits' label sets; constant, linear, ce, asymmetric, zlpr, nce
seal-hf compare --dataset bibtex --recipe recipes/mlc/bibtex_ce.yaml --losses all --budget 10
seal-hf compare --dataset mine.csv --text_column text --model_name_or_path distilbert-base-uncased
seal-hf compare tagging --dataset mine --losses ce crf nce nce_tag_attention       # a folder of CoNLL columns
seal-hf compare srl --dataset srl_ewt --model_name_or_path distilbert-base-uncased --max_train_rows 4000
seal-hf compare segmentation --dataset weizmann
seal-hf compare rewards --dataset mine.csv --num_labelled 50 --rules rules.yaml    # as for train rewards

A second start with the same --output_dir resumes. All other flags are those of `train WORD` and apply to every method;
searches by --budget begin with them. A flag that is part of a method does not change that method, and a note says so.
--metric chooses trials and epochs on validation. All trials have the same seed, so the best may be luck: --finalists 5
repeats the best five with two more seeds and takes the best mean. To see what a loss-net adds to a tuned model, give
that model's settings and --hold them: --budget 10 --learning_rate 3e-4 --dropout 0.5 --hold learning_rate dropout.
Flags that no method searches, such as --head_learning_rate, need no --hold. Or take the settings from an earlier
comparison: --budget 10 --beside runs/plain/ce.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
from transformers.utils import logging as hf_logging

from ...cli.programs import UsageError, check_one_process, help_asked_for, program_name
from ...cli.recipes import check_words, packaged_recipe, read_recipe, recipe_parser
from ...cli.train.flags import GROUPS, WIDEST
from ...core.task import TASKS
from ...data.hygiene import fingerprint
from ...utils.messages import did_you_mean, printable
from ...utils.options import check_given
from ...utils.recorded import command_line
from .kinds import KINDS, Figures, Kind, Methods, own_keys
from .runner import (
    EVERY_RUN,
    Comparison,
    Runs,
    origin,
    read_identity,
    read_settings,
    texts,
    without_places,
    write_json,
)
from .table import comparison, decided, markdown, write_page

NAMES_HERE = {"metric_for_best_model": "metric", "seed": "seeds", "tune": "budget"}
ENCODER = ("model_name_or_path", "freeze_encoder", "pooling", "long_texts")  # for another one, other settings are best
LOSS_KEYS = ("energy_loss", "loss", "task_loss", "energy_method")  # a method sets these
ELSEWHERE = ("output_dir", "resume_from_checkpoint", "overwrite_output_dir", *NAMES_HERE, *LOSS_KEYS, *EVERY_RUN)
OF_THE_RUNS = "flags of every run, as in training:"
USUAL_KIND = next(iter(KINDS))


def kind_of(words: Sequence[str]) -> tuple[Kind, list[str]]:
    """The kind of output that the first word of a command line names, and the other words.

    Raises:
        UsageError: another word.
    """
    if not words or words[0].startswith("-"):
        return KINDS[USUAL_KIND], list(words)
    for task in TASKS.values():
        if (found := task.compared_by(words)) is not None:
            return found
    known = [*KINDS, *(task.compared_word for task in TASKS.values() if task.compared_word)]
    raise UsageError(f"no kind of output {words[0]!r}.{did_you_mean(words[0], known)} All of them: {', '.join(known)}.")


def check_names(names: Sequence[str], kind: Kind, data: Any) -> None:
    """Raises ValueError for a method of another kind of output, or one that these data do not suit."""
    for name in names:
        others = [other.word for task in TASKS.values() for other in task.compared if name in other.methods]
        if name not in kind.methods and others:
            raise ValueError(
                f"method {name!r} is of `compare {others[0]}`; that of `compare {kind.word}` must be one of "
                f"{', '.join(kind.methods)}, or all."
            )
        if name in kind.methods and name not in kind.methods_for(data):
            raise ValueError(f"method {name!r} needs {kind.methods[name].needs}, which {data.name} lacks.")


def pairs(flags: Sequence[str]) -> dict[str, Any]:
    """The flags of a program, `--name value` or `--name=value`, as name -> value; of several values, as a list."""
    words = [word for flag in flags for word in (flag.split("=", 1) if flag.startswith("--") else [flag])]
    found: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            found[word[2:].replace("-", "_")] = last = []
        elif found:
            last.append(word)
    if not all(found.values()):
        raise ValueError(
            f"other flags are pairs of --name value, as of the program that trains; found {command_line(flags)}"
        )
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def settings_of(folder: Path, given: Mapping[str, str], methods: Methods) -> dict[str, str]:
    """The settings that a search found for a method, as flags beside those `given`.

    Args:
        folder: the method's in a comparison.
        methods: all of its kind; what `ce` searches means the same for each.
    """
    found = (read_settings(folder) or {}).get("settings")
    if found is None:
        raise ValueError(
            f"--beside: {folder} has no settings.json, which a comparison with --budget writes into the folder of "
            "each method, such as runs/plain/ce."
        )
    plain = methods["ce" if "ce" in methods else "few"]
    if more := sorted(found.keys() - plain.space.keys()):
        raise ValueError(
            f"--beside: {folder} belongs to a method with {more[0]}, which means something else for another loss. "
            "Give the folder of a method without a loss-net, such as runs/plain/ce."
        )
    if both := sorted(found.keys() & given.keys()):
        raise ValueError(f"--{both[0]} is given, but --beside {folder} has it too. Leave one of them out.")
    return {key: str(value) for key, value in found.items()}


def check_same(folder: Path, data: Any, metric: str, settings: Mapping[str, Any]) -> None:
    """Raises ValueError if the search in a method's folder used different data, a different metric or another
    encoder than these settings."""
    theirs = read_identity(folder.parent) or {}
    encoder = without_places(texts({key: settings[key] for key in ENCODER if key in settings}))
    for key, ours in {"metric": metric, **encoder, "contents": fingerprint(data)}.items():
        if theirs.get(key, ours) != ours:
            what = f"the rows of {theirs['data']}" if key == "contents" else theirs[key]
            here = f"those of {data.name} as they are here" if key == "contents" else ours
            raise ValueError(f"--beside: {folder} was searched with {what}, not {here}. Search the plain model again.")


def shared_settings(kind: Kind, recipe: Path | None, given: Mapping[str, str]) -> dict[str, Any]:
    """Settings for all methods: those of the recipe, or of the packaged one, without the keys that define a method."""
    for key in LOSS_KEYS:
        if key in given:
            raise ValueError(f"--{key} is what is compared: name the methods with --losses")
    for key, name in NAMES_HERE.items():
        if key in given:
            raise ValueError(f"--{key} is called --{name} here, for all methods")
    for key in EVERY_RUN:
        if key in given:
            raise ValueError(f"--{key} is {EVERY_RUN[key]} in every run of a comparison: leave it out")
    named = dict(read_recipe(recipe)) if recipe else {}
    shared = named or dict(read_recipe(packaged_recipe(kind.recipe(given))))
    dropped = sorted(own_keys(kind.methods) & named.keys() - {*LOSS_KEYS})
    if dropped:
        ignored = f"{recipe}: {', '.join(dropped)} ignored"
        print(printable(f"{ignored}: each method sets these itself (a flag sets them for all)"))
    return {key: value for key, value in shared.items() if key not in (*LOSS_KEYS, *dropped)}


def write_table(runs: Runs, figures: Figures, methods: Methods, title: str, metric: str) -> None:
    """Write results.json, table.md and report.html of all existing runs."""
    found = runs.all()
    if not found:
        return
    tables = [comparison(found, figures, methods, decoder, metric) for decoder in figures.tested_with(metric)]
    write_json(runs.folder / "results.json", {table["decoder"]: table for table in tables})
    first, *others = tables
    text = f"# {title}\n\n{markdown(first)}"
    for table in others:
        text += f"\nThe same runs, chosen and tested by *{decided(table)}*:\n\n"
        text += markdown(table, with_legend=False)
    (runs.folder / "table.md").write_text(printable(text), encoding="utf-8")
    write_page(runs.folder, title, runs.origin.get("command", ""))


def own_parser(kind: Kind) -> argparse.ArgumentParser:
    """The flags of a comparison, beside those of the program that trains."""
    parser = argparse.ArgumentParser(
        program_name(),
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    named, usual = ", ".join(kind.methods), " ".join(kind.usual)
    parser.add_argument(
        "--losses",
        nargs="+",
        metavar="METHOD",
        help=f"These methods are compared, one or more of: {named}, or all (default: {usual}).",
    )
    parser.add_argument(
        "--recipe", type=Path, metavar="FILE.yaml", help="All methods begin with the settings of this recipe."
    )
    parser.add_argument(
        "--seeds", nargs="+", type=int, default=[1], help="Each method is trained once for each seed (default: 1)."
    )
    parser.add_argument(
        "--budget", type=int, default=0, help="This many trials search the settings of each method; 0: no search."
    )
    parser.add_argument(
        "--finalists",
        type=int,
        default=1,
        help="This many of the best trials are repeated with two more seeds; 1: none.",
    )
    parser.add_argument(
        "--hold",
        nargs="+",
        default=[],
        metavar="KEY",
        help="These settings are not searched. They keep the value of the recipe or flag.",
    )
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="FOLDER",
        help="The settings of the searched method in this folder are used and held.",
    )
    metrics = ", ".join(kind.known_metrics)
    parser.add_argument(
        "--metric", help=f"This figure chooses trials and epochs: {metrics}; default: the first that the data have."
    )
    parser.add_argument(
        "--output_dir", help="This folder gets the results; default: one in runs/compare/ with the name of the data."
    )
    return parser


def help_of(kind: Kind, words: Sequence[str], asked: str) -> str:
    """The flags of a comparison, and those of the program that trains, as its own help shows them.

    Args:
        asked: as for [`Help.text`].
    """
    of_training = kind.program.help(words)
    width = min(shutil.get_terminal_size().columns, WIDEST)
    own = [] if asked in GROUPS else [own_parser(kind).format_help().rstrip(), "", OF_THE_RUNS]
    return "\n".join(
        [*own, *(of_training.main(width, ELSEWHERE) if asked == "" else of_training.details(asked, width))]
    )


def parse(kind: Kind, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The flags of a comparison, and those of the program that trains."""
    own = own_parser(kind)
    options, flags = own.parse_known_args(words)
    check_words(recipe_parser(kind.program.arguments), flags, own._actions)
    check_one_process(program_name())
    check_given(vars(options), {}, {})
    if (options.beside or options.hold) and not options.budget:
        name = "--beside" if options.beside else "--hold"
        raise ValueError(f"{name} keeps settings out of a search, but nothing is searched. Give --budget.")
    return options, flags


def main(argv: list[str] | None = None) -> Runs:
    """Run a comparison; its table is printed."""
    argv = sys.argv[1:] if argv is None else argv
    kind, words = kind_of(argv)
    if (asked := help_asked_for(words, GROUPS)) is not None:
        print(printable(help_of(kind, words, asked)))
        sys.exit(0)
    options, flags = parse(kind, words)
    given = pairs(flags)
    if options.beside:
        tuned = settings_of(options.beside, given, kind.methods)
        given, options.hold = {**given, **tuned}, [*options.hold, *tuned]
        flags += [f"--{key}={value}" for key, value in tuned.items()]
    shared = shared_settings(kind, options.recipe, given)
    data = kind.program.load(kind.program.parse([*flags, "--output_dir", "runs"], shared))
    kind = kind.of(data)
    methods = kind.methods_for(data)
    losses = options.losses or [name for name in kind.usual if name in methods]
    names = list(methods) if "all" in losses else losses
    check_names(names, kind, data)
    metric = options.metric or kind.metrics(data)[0]
    if options.beside:
        check_same(options.beside, data, metric, {**shared, **given})
    runs = Runs(options.output_dir or usual_folder(kind, data), origin(called(), argv))
    for note in data.notes:
        print(printable(f"{data.name}: {note}"))
    for key in sorted(given):
        theirs = [name for name in names if name in methods and key in methods[name].settings]
        if own := [f"{name} ({methods[name].settings[key]})" for name in theirs]:
            print(printable(f"--{key} does not change {', '.join(own)}: it is part of the method"))
    search: dict[str, Any] = {"budget": options.budget, "finalists": options.finalists, "held": options.hold}
    compared = Comparison(runs, data, shared, kind, methods, flags=given, metric=metric, **search)
    title = f"{data.name}: losses compared"
    compared.run(names, options.seeds, write=lambda: write_table(runs, kind.figures, kind.methods, title, metric))
    print((runs.folder / "table.md").read_text(encoding="utf-8"))
    return runs


def called() -> str:
    """How a command line of this program begins, before the kind of output."""
    return "seal-hf compare" if program_name().startswith("seal-hf") else "python examples/compare_losses.py"


def usual_folder(kind: Kind, data: Any) -> Path:
    """The folder of the results if the command line names none. Some names are data sets of several kinds."""
    name = Path(data.name).stem
    return Path("runs", "compare", name if kind.word == USUAL_KIND else f"{kind.word.replace(' ', '_')}_{name}")


def command(argv: list[str] | None = None) -> Runs:
    """`main` as a program: the screen shows the comparison, not the messages of its runs."""
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    datasets.disable_progress_bars()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # not every terminal can show λ and ±
    logging.getLogger("seal_hf").setLevel(logging.ERROR)  # a fresh loss-net is no news here
    return main(argv)
