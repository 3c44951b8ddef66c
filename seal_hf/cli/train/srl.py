"""Semantic roles with an energy network as a loss function: the arguments of a given predicate, by a transformer."""

from __future__ import annotations

from dataclasses import dataclass, field

from datasets import Dataset
from transformers import set_seed

from ...adapters import METHODS
from ...data import load_srl
from ...data.tensors.words import PREDICATE_MARKERS, WordRows, load_tokenizer, tokenize_words
from ...energies import energies_of
from ...metrics import tagging_compute_metrics
from ...models import SealForTokenClassification, is_bilstm
from ...reports import close_tags, print_notes
from ...trainer import SealTrainer
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from ..flags import check_flags
from ..programs import early_stopping
from ..recipes import packaged_recipe, parse_recipe


@dataclass
class RoleArguments:
    """Data and nets."""

    dataset: str = field(metadata={"help": "Folder, file, or a name under data_dir."})
    model_name_or_path: str = field(metadata={"help": "Hugging Face encoder or token classifier."})
    data_dir: str | None = field(default=None, metadata={"help": "Folder of named data sets; default: $SEAL_HF_DATA."})
    scheme: str = field(default="auto", metadata={"help": "Tags in this scheme: auto (as found), bio or bioes."})
    max_train_rows: int | None = field(default=None, metadata={"help": "Train on so many propositions only."})
    max_eval_rows: int | None = field(default=None, metadata={"help": "Validate on the first so many while training."})
    train_subset: str = field(default="random", metadata={"help": "Which these are: first, or random (seeded)."})
    adapter: str | None = field(default=None, metadata={"help": f"Train an adapter only: {', '.join(METHODS)}."})
    predicate_marker: str = field(default="token_type", metadata={"help": f"One of {', '.join(PREDICATE_MARKERS)}."})
    max_length: int | None = field(default=None, metadata={"help": "Longest sentence, in sub-words."})
    truncation: bool = field(default=False, metadata={"help": "Cut longer ones; a cut word gets the first tag (O)."})
    energy: str = field(
        default="tag_attention", metadata={"help": f"Of the loss-net: {', '.join(energies_of('tag_sequence'))}."}
    )
    global_size: int = field(default=256, metadata={"help": "Width of its attention or tag language models."})
    language_model_weight: float = field(default=1.0, metadata={"help": "γ of chain_ge_c."})
    patience: int = field(default=0, metadata={"help": "Stop after so many evaluations without gain; 0: never."})


ARGUMENTS = (RoleArguments, SealTrainingArguments)


def main(argv: list[str] | None = None) -> dict[str, float]:
    role_args, args = parse_recipe(ARGUMENTS, argv, default_recipe=lambda given: packaged_recipe("tagging_text"))
    check_flags(args, argv, "tag_sequence")
    set_seed(args.seed)
    if role_args.max_eval_rows is not None and role_args.max_eval_rows < 1:
        raise ValueError(f"`max_eval_rows` is {role_args.max_eval_rows}; it must be at least 1.")
    if is_bilstm(role_args.model_name_or_path):
        raise ValueError(
            f"{role_args.model_name_or_path} holds a BiLSTM; roles are tagged by a Hugging Face encoder here."
        )
    read = ("dataset", "data_dir", "scheme", "max_train_rows", "train_subset")
    data = load_srl(**{name: getattr(role_args, name) for name in read}, seed=args.data_seed or 0)
    for note in data.notes:
        print(f"{data.name}: {note}")

    tokenizer = load_tokenizer(role_args.model_name_or_path, add_prefix_space=True)
    nets = {name: getattr(role_args, name) for name in ("adapter", "energy", "global_size")}
    if role_args.energy == "chain_ge_c":
        nets["energy_options"] = {"language_model_weight": role_args.language_model_weight}
    model = SealForTokenClassification.for_data(
        data,
        role_args.model_name_or_path,
        loss_net_encoder=args.loss_net_encoder,
        crf=args.task_loss == "crf" or None,  # None: as it was saved
        **nets,
    )

    check_was_trained(model.loss_net, args)

    def rows_of(dataset: Dataset) -> WordRows:
        limits = {"truncation": role_args.truncation, "predicate_marker": role_args.predicate_marker}
        return tokenize_words(dataset, tokenizer, role_args.max_length, config=model.config, **limits)

    splits = {"eval": data.validation, "test": data.test}
    splits = {split: (rows_of(dataset), dataset) for split, dataset in splits.items() if dataset is not None}
    train_rows = rows_of(data.train)
    print_notes(data.name, train_rows, splits)
    watched = splits["eval"][0]
    if role_args.max_eval_rows is not None:
        watched = rows_of(data.validation.select(range(min(role_args.max_eval_rows, len(data.validation)))))
    trainer = SealTrainer(
        model,
        args,
        train_dataset=train_rows,
        eval_dataset=watched,
        compute_metrics=tagging_compute_metrics(data.label_names, data.kind),
        decode_predictions=True,
        callbacks=early_stopping(args, role_args.patience),
        processing_class=tokenizer,
    )
    result = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_metrics("train", result.metrics)
    facts = {"dataset": data.name, "finetuned_from": role_args.model_name_or_path}
    return close_tags(trainer, splits, data, facts)
