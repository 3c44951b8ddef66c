"""Few rows with gold and a reward for the others: label sets, tags or masks, as the rules or the first word say.

Tags are, for example, citation fields from 5, 10 or 50 tagged references, and rules for the others.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from datasets import concatenate_datasets

from ...cli.recipes import read_recipe, recipe_named
from ...cli.train.arguments import Arguments, OriginArguments, RunArguments
from ...cli.train.program import Prepared, Program
from ...data import DataArguments, MaskDataArguments, TagDataArguments, TagSequenceData
from ...data.tensors.vocabulary import Vocabulary
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from ...utils.messages import did_you_mean
from ..labels import program as mlc
from ..labels.program import ModelArguments as LabelModelArguments
from ..masks import program as segmentation
from ..masks.program import ModelArguments as MaskModelArguments
from ..tags import program as tagging
from ..tags.program import prepared, rows_of_splits, tagger
from .rows import RuleArguments, rewarded_rows, with_reward
from .rules import output_of_rules


@dataclass
class RewardArguments(RuleArguments, OriginArguments):
    """The reward, and the two nets."""

    model_name_or_path: str | None = field(default=None, metadata={"help": "Hugging Face encoder; default: a BiLSTM."})
    energy: str = field(default="chain", metadata={"help": "Energy of the loss-net."})
    word_vectors: str | None = field(default=None, metadata={"help": "BiLSTM: a file of vectors, or a package's name."})
    hidden_size: int | None = field(
        default=None, metadata={"help": "BiLSTM: width, both directions together; default: 200."}
    )
    dropout: float | None = field(default=None, metadata={"help": "BiLSTM: dropout; default: 0.3."})


ARGUMENTS = (TagDataArguments, RewardArguments, RunArguments, SealTrainingArguments)


def make_trainer(data: TagSequenceData, arguments: Arguments, train_on: Any = rewarded_rows) -> Prepared:
    """The trainer of both nets, on rows with tags and rows with a reward. `train_on` makes the training rows, as
    [`rewarded_rows`]."""
    seen = [rows.select_columns("words") for rows in (data.train, data.unlabelled) if rows is not None]

    def fresh_vocabulary(vectors: Any) -> Vocabulary:
        return Vocabulary.from_data(
            concatenate_datasets(seen),
            data.other_splits,
            vectors=vectors,
            features=["case"],
            characters=True,
            zero_digits=vectors is None,
        )

    words = {"word_vectors": arguments.nets.word_vectors}
    both = tagger(data, arguments, ("energy", "hidden_size", "dropout"), {}, words, fresh_vocabulary)
    check_was_trained(both.model.loss_net, arguments.training)
    rows, options = train_on(data, arguments, both.model, both.rows_of)
    splits = rows_of_splits(both, eval=data.validation, test=data.test)
    return prepared(data, arguments, both, rows, splits, **options)


PROGRAM = with_reward(
    replace(tagging.PROGRAM, recipes={"BiLSTM": "rewards", "encoder": "rewards_text"}, make_trainer=make_trainer),
    ARGUMENTS,
)


@dataclass
class LabelRewardArguments(RuleArguments, LabelModelArguments):
    """The reward, and the two nets."""


LABEL_ARGUMENTS = (DataArguments, LabelRewardArguments, RunArguments, SealTrainingArguments)
ENERGY = {"energy_loss": "contrastive_divergence"}
LABEL_PROGRAM = with_reward(mlc.PROGRAM, LABEL_ARGUMENTS, over=ENERGY, before=lambda prepared, data, arguments: False)


@dataclass
class MaskRewardArguments(RuleArguments, MaskModelArguments):
    """The reward, and the two nets."""


MASK_ARGUMENTS = (MaskDataArguments, MaskRewardArguments, RunArguments, SealTrainingArguments)
OVER = {"energy_loss": "ranking", "sample_coherence": "field", "crop_size": 0}  # rules are about whole images
MASK_PROGRAM = with_reward(segmentation.PROGRAM, MASK_ARGUMENTS, over=OVER)
PROGRAMS: Mapping[str, Program] = {  # first word of the command line -> program
    "mlc": LABEL_PROGRAM,
    "tagging": PROGRAM,
    "segmentation": MASK_PROGRAM,
}
WORDS = {"label sets": "mlc", "tags": "tagging", "masks": "segmentation"}  # outputs of rules -> that word


def program_of(words: Sequence[str]) -> tuple[Program, list[str]]:
    """The program that a command line asks for, and its flags: by the first word; else by the rules that `--rules` or
    the recipe names; else for tags.

    Raises:
        ValueError: another first word, or as [`output_of_rules`].
    """
    if words and not words[0].startswith("-") and words[0] not in PROGRAMS:
        hint = did_you_mean(words[0], PROGRAMS)
        raise ValueError(f"no kind of output {words[0]!r}.{hint} All of them: {', '.join(PROGRAMS)}.")
    if words and words[0] in PROGRAMS:
        return PROGRAMS[words[0]], list(words[1:])
    joined = [part for word in words for part in (word.split("=", 1) if word.startswith("--rules=") else [word])]
    file = next((b for a, b in zip(joined, joined[1:], strict=False) if a == "--rules"), None)
    if file is None and (recipe := recipe_named(words)) is not None:
        file = read_recipe(recipe).get("rules")
    return PROGRAMS["tagging" if file is None else WORDS[output_of_rules(file)]], list(words)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Run a command line."""
    program, words = program_of(sys.argv[1:] if argv is None else argv)
    return program.main(words)
