"""Multi-label classification by an energy network on its own: gradient-based inference, no task-net at prediction."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import set_seed
from transformers.utils import logging

from ...data import DataArguments, MultiLabelData, kind_of, load_multilabel
from ...data.tensors.collators import TensorRows, tokenize
from ...data.tensors.words import load_tokenizer
from ...energies import energies_of
from ...metrics import multilabel_compute_metrics
from ...models import SealForMultiLabel
from ...reports import close_multilabel
from ...spaces import MultiLabelSpace
from ...training.energy_arguments import EnergyTrainingArguments
from ...training.energy_trainer import EnergyTrainer
from ...utils.messages import check_owner
from ..flags import check_flags
from ..programs import early_stopping
from ..recipes import packaged_recipe, parse_recipe

logger = logging.get_logger(__name__)


@dataclass
class ModelArguments:
    """The energy network, and the task-net it may start from."""

    task_net_path: str | None = field(
        default=None,
        metadata={
            "help": "Folder of a task-net, saved by run_mlc.py: the network's encoder starts as its, and has "
            "its sizes and dropout."
        },
    )
    model_name_or_path: str | None = field(default=None, metadata={"help": "Encoder, for text without a task-net."})
    max_length: int | None = field(default=None, metadata={"help": "Longest text, in tokens; default: 128."})
    hidden_size: int | None = field(
        default=None, metadata={"help": "Width of the MLP, for feature data; default: 400."}
    )
    num_layers: int | None = field(default=None, metadata={"help": "Layers of the MLP; default: 2."})
    dropout: float | None = field(default=None, metadata={"help": "Dropout of the MLP; default: 0.2."})
    energy: str = field(default="multilabel", metadata={"help": f"One of {', '.join(energies_of('multi_label'))}."})
    global_size: int = field(default=200, metadata={"help": "Width of the energy's global term; 0: none."})
    patience: int = field(default=0, metadata={"help": "Stop after so many evaluations without gain; 0: never."})


ARGUMENTS = (DataArguments, ModelArguments, EnergyTrainingArguments)
SIZES = ("hidden_size", "num_layers", "dropout")
MAX_LENGTH, DROPOUT = 128, 0.2  # of texts, of a fresh MLP


def parse(
    argv: list[str] | None = None, recipe: Mapping[str, Any] | None = None
) -> tuple[DataArguments, ModelArguments, EnergyTrainingArguments]:
    """Data, model and training arguments: flags over a recipe, `--recipe FILE`, `recipe` or the packaged one."""

    def features(given: Namespace | DataArguments) -> bool:
        return kind_of(given.dataset, given.data_dir) == "features"

    def default(given: Namespace) -> Path | Mapping[str, Any] | None:
        return recipe or (packaged_recipe("energy") if features(given) else None)

    data_args, model_args, args = parse_recipe(ARGUMENTS, argv, default_recipe=default)
    if model_args.task_net_path is None and model_args.dropout is None and features(data_args):
        model_args.dropout = DROPOUT
    return data_args, model_args, args


def build(data: MultiLabelData, model_args: ModelArguments, trial: Any = None) -> SealForMultiLabel:
    """The energy network is the loss-net of both; of a hyper-parameter search's trial, as it says."""
    known = vars(model_args)
    options = known | {name: value for name, value in trial.params.items() if name in known} if trial else known
    network, path = {name: options[name] for name in ("energy", "global_size")}, model_args.task_net_path
    if data.kind == "features":
        check_owner({"max_length": model_args.max_length}, "texts", f"{data.name!r} is feature data")
    if path is None:
        sizes = {name: options[name] for name in SIZES}
        return SealForMultiLabel.for_data(data, model_args.model_name_or_path, **network, **sizes)
    nets = SealForMultiLabel.from_pretrained(path, **network, fresh_loss_net=True)
    for name in (*SIZES, "model_name_or_path"):
        found = getattr(nets.config, name, None) if data.kind == "features" else None
        if options[name] not in (getattr(ModelArguments, name), found):
            logger.warning(f"`{name}` {options[name]!r} is left aside: the network starts as the task-net in {path}.")
    if list((nets.config.id2label or {}).values()) != list(data.label_names):
        raise ValueError(f"`task_net_path`: {model_args.task_net_path} has other labels than {data.name}.")
    return nets


def make_trainer(
    data: MultiLabelData, model_args: ModelArguments, args: EnergyTrainingArguments, search: bool = False
) -> EnergyTrainer:
    """The trainer of this network; for a hyper-parameter search, one that builds it anew for every trial."""
    nets = build(data, model_args)
    tokenizer: Any = None
    prepare: Any = TensorRows
    if data.kind == "text":
        name = model_args.task_net_path or model_args.model_name_or_path
        assert name is not None  # or texts are refused above
        tokenizer = load_tokenizer(name)
        max_length = MAX_LENGTH if model_args.max_length is None else model_args.max_length
        prepare = lambda rows: tokenize(rows, tokenizer, max_length)  # noqa: E731
    trainer: Any = EnergyTrainer(
        model=None if search else nets.loss_net,
        model_init=(lambda trial: build(data, model_args, trial).loss_net) if search else None,
        args=args,
        train_dataset=prepare(data.train),
        eval_dataset=prepare(data.validation),
        task_net=nets.task_net if model_args.task_net_path is not None else None,
        space=MultiLabelSpace(sparse_from=len(data.label_names) + 1),  # inference moves every entry
        processing_class=tokenizer,
        compute_metrics=multilabel_compute_metrics,
        callbacks=early_stopping(args, model_args.patience),
    )
    trainer.test_dataset = prepare(data.test) if data.test is not None else None
    return trainer


def main(argv: list[str] | None = None) -> dict[str, float]:
    data_args, model_args, args = parse(argv)
    check_flags(args, argv, "multi_label")
    set_seed(args.seed)
    data = load_multilabel(**vars(data_args), seed=args.data_seed or 0)
    for note in data.notes:
        print(f"{data.name}: {note}")
    trainer = make_trainer(data, model_args, args)
    result = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_metrics("train", result.metrics)
    return close_multilabel(trainer, data)
