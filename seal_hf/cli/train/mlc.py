"""Multi-label classification with an energy network as a loss function."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from transformers import set_seed

from ...adapters import METHODS
from ...data import DataArguments, MultiLabelData, kind_of, load_multilabel
from ...data.tensors.collators import TensorRows, tokenize
from ...data.tensors.words import load_tokenizer
from ...energies import energies_of
from ...metrics import multilabel_compute_metrics
from ...models import SealForMultiLabel
from ...reports import close_multilabel
from ...saving import take_loss_net
from ...trainer import SealTrainer
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from ...utils.messages import check_owner
from ..flags import check_flags
from ..programs import early_stopping
from ..recipes import packaged_recipe, parse_recipe


@dataclass
class ModelArguments:
    """The two nets."""

    model_name_or_path: str | None = field(default=None, metadata={"help": "Encoder or classifier, for text."})
    adapter: str | None = field(default=None, metadata={"help": f"Train an adapter only: {', '.join(METHODS)}."})
    adapter_rank: int | None = field(default=None, metadata={"help": "Rank of a LoRA, width of a bottleneck."})
    adapter_targets: str | None = field(default=None, metadata={"help": "Modules of a LoRA: a name or all-linear."})
    max_length: int | None = field(default=None, metadata={"help": "Longest text, in tokens; default: 128."})
    hidden_size: int | None = field(
        default=None, metadata={"help": "Width of the MLPs, for feature data; default: 400, or as saved."}
    )
    num_layers: int | None = field(default=None, metadata={"help": "Layers of the MLPs; default: 2, or as saved."})
    dropout: float | None = field(default=None, metadata={"help": "Dropout of the MLPs; default: 0.5, or as saved."})
    energy: str = field(
        default="multilabel", metadata={"help": f"Of the loss-net: {', '.join(energies_of('multi_label'))}."}
    )
    global_size: int = field(default=200, metadata={"help": "Width of the loss-net's global term; 0: none."})
    loss_net_path: str | None = field(
        default=None, metadata={"help": "A trained loss-net to use; frozen with --loss_net_steps 0 (SEAL-static)."}
    )
    patience: int = field(default=0, metadata={"help": "Stop after so many evaluations without gain; 0: never."})


ARGUMENTS = (DataArguments, ModelArguments, SealTrainingArguments)
MAX_LENGTH, DROPOUT = 128, 0.5  # of texts, of fresh MLPs


def parse(
    argv: list[str] | None = None, recipe: Mapping[str, Any] | None = None
) -> tuple[DataArguments, ModelArguments, SealTrainingArguments]:
    """Data, model and training arguments: flags over a recipe, `--recipe FILE`, `recipe` or the packaged one."""

    def default(given: Namespace) -> Path | Mapping[str, Any]:
        return packaged_recipe(kind_of(given.dataset, given.data_dir)) if recipe is None else recipe

    data_args, model_args, args = parse_recipe(ARGUMENTS, argv, default_recipe=default)
    fresh = model_args.model_name_or_path is None and model_args.dropout is None
    if fresh and kind_of(data_args.dataset, data_args.data_dir) == "features":
        model_args.dropout = DROPOUT
    return data_args, model_args, args


def build(
    data: MultiLabelData, model_args: ModelArguments, args: SealTrainingArguments, trial: Any = None
) -> SealForMultiLabel:
    """Both nets; of a hyper-parameter search's trial, as it says."""
    known = vars(model_args)
    options = known | {name: value for name, value in trial.params.items() if name in known} if trial else known
    names = "adapter adapter_rank adapter_targets energy global_size hidden_size num_layers dropout".split()
    nets = {name: options[name] for name in names} | {"loss_net_encoder": args.loss_net_encoder}
    if data.kind == "features":
        check_owner({"max_length": model_args.max_length}, "texts", f"{data.name!r} is feature data")
    model = SealForMultiLabel.for_data(data, model_args.model_name_or_path, **nets)
    take_loss_net(model, model_args.loss_net_path, args)
    check_was_trained(model.loss_net, args)
    return model


def make_trainer(
    data: MultiLabelData, model_args: ModelArguments, args: SealTrainingArguments, search: bool = False
) -> SealTrainer:
    """The trainer of these nets; for a hyper-parameter search, one that builds them anew for every trial."""
    nets = build(data, model_args, args)
    tokenizer: Any = None
    prepare: Any = TensorRows
    max_length = MAX_LENGTH if model_args.max_length is None else model_args.max_length
    if data.kind == "text":
        assert model_args.model_name_or_path is not None  # or texts are refused above
        tokenizer = load_tokenizer(model_args.model_name_or_path)
        prepare = lambda rows: tokenize(rows, tokenizer, max_length)  # noqa: E731
    trainer: Any = SealTrainer(
        model=None if search else nets,
        model_init=partial(build, data, model_args, args) if search else None,
        args=args,
        train_dataset=prepare(data.train),
        eval_dataset=prepare(data.validation),
        processing_class=tokenizer,
        compute_metrics=multilabel_compute_metrics,
        callbacks=early_stopping(args, model_args.patience),
    )
    trainer.test_dataset = prepare(data.test) if data.test is not None else None
    if cut := trainer.train_dataset.num_cut:
        print(
            f"{data.name}, train: {cut} of {len(data.train)} texts are longer than {max_length} tokens, and cut "
            "(--max_length)."
        )
    return trainer


def main(argv: list[str] | None = None) -> dict[str, float]:
    data_args, model_args, args = parse(argv)
    check_flags(args, argv, "multi_label")
    set_seed(args.seed)
    data = load_multilabel(**vars(data_args), seed=args.data_seed or 0)
    for note in data.notes:
        print(f"{data.name}: {note}")
    trainer: Any = make_trainer(data, model_args, args)
    if data_args.text_column is not None:
        trainer.train_dataset.inputs["text_column"] = data_args.text_column
    result = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_metrics("train", result.metrics)
    facts = {"dataset": data.name, "finetuned_from": model_args.model_name_or_path}
    return close_multilabel(trainer, data, facts)
