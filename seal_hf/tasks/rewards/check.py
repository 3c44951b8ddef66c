"""`seal-hf rules check RULES --dataset ...`: what each rule does on a data set, before anything is trained."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...cli.recipes import parse_recipe
from ...reports.common import results_table
from ...utils.messages import printable
from ...utils.options import check_given
from .page import first_rows, followed, gold_of
from .program import PROGRAMS, WORDS
from .reward import Conflict, Rules
from .rows import rule_reward
from .rule import in_words
from .rules import output_of_rules
from .semi_supervised import inputs_of

USAGE = "usage: seal-hf rules check RULES.yaml --dataset DATA [flags of the data: seal-hf train rewards --help]"
HELP = ("-h", "--help")
MOST_ROWS = 5000  # of labelled and of unlabelled rows


@dataclass
class SeedArguments:
    """The seed of the data, as in training arguments."""

    data_seed: int = field(default=0, metadata={"help": "Draws the labelled rows, as in training."})


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command line: print what the rules do."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in HELP or words[1:2] and words[1] in HELP:
        print(USAGE)
        return
    if words[0] != "check":
        raise ValueError(f"`rules` has no subcommand {words[0]!r}. Give check: {USAGE.removeprefix('usage: ')}")
    if len(words) < 2 or words[1].startswith("-"):
        raise ValueError(f"the file of rules is missing. {USAGE}")
    file = words[1]
    check_given({"rules": file}, {}, {})
    program = PROGRAMS[WORDS[output_of_rules(file)]]
    arguments, seed = parse_recipe([program.arguments[0], SeedArguments], words[2:])
    data = program.loader(**vars(arguments), seed=seed.data_seed)
    print(printable(check(file, data)))


def check(file: str | Path, data: Any) -> str:
    """What each rule of a file does on a data set, in words.

    Args:
        data: of any loader; its labelled rows are those of train.

    Raises:
        ValueError: the rules are wrong, or do not fit the data.
    """
    reward: Rules = rule_reward(str(file), data)
    labelled = first_rows(data.train, min(len(data.train), MOST_ROWS))
    inputs, gold = inputs_of(labelled), {"gold": gold_of(labelled, data.label_names)}
    found = followed(reward, inputs, gold, data.label_names)
    everything = list(inputs)
    if data.unlabelled is not None:
        everything += list(inputs_of(first_rows(data.unlabelled, min(len(data.unlabelled), MOST_ROWS))))
    codes = reward.codes(everything)
    shares = reward.coverage(codes)
    rows = []
    for rule, facts, share in zip(reward.ordered, found["rules"], shares, strict=True):
        rows.append(
            {
                "line": rule.line,
                "weight": f"{facts['weight']:g}",
                "applies": f"{100 * share:.1f} %",
                "gold follows": "-" if facts["gold"] is None else f"{100 * facts['gold']:.1f} %",
                "labelled rows": round(facts["applies"] * len(inputs)),
                "exactly": "-" if facts["gold"] is None else f"{100 * facts['exactly']['gold']:.1f} %",
                "rule": in_words(rule) + ("" if share else "  (it applies to no row)"),
            }
        )
    without = len(everything) - len(inputs)
    head = f"{file}: {len(rows)} rules on {data.name}, {len(inputs):,} labelled and {without:,} unlabelled rows"
    said = [head, "", results_table(sorted(rows, key=lambda row: row["line"])), ""]
    said.append(
        "applies: to this share of all these rows. Gold follows: the mean value on labelled rows it applies to, to "
        "which rows that break a rule by little add nearly 1; exactly: the share of these rows that follow it wholly."
    )
    said.append(
        f"The whole reward of gold is {100 * found['reward']['gold']:.1f} % on average; it can be at most 100 %."
    )
    conflicts = [conflict for conflict in reward.conflicts(codes) if conflict.rows != 0]
    said += ["", "No rules contradict each other." if not conflicts else "Contradictions:"]
    said += [_in_words(reward, conflict, len(everything)) for conflict in conflicts]
    return "\n".join(said)


def _in_words(reward: Rules, conflict: Conflict, size: int) -> str:
    names = [f"line {reward.ordered[i].line} ({in_words(reward.ordered[i])})" for i in conflict.rules]
    rows = "always" if conflict.rows is None else f"in {conflict.rows:,} of {size:,} rows"
    return f"- {rows}: {'; '.join(names)}: {conflict.why}."
