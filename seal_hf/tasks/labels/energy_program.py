"""Multi-label classification by an energy network on its own: gradient-based inference, no task-net at prediction."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any

from transformers.utils import logging

from ...cli.train.arguments import Arguments, OriginArguments, RunArguments
from ...cli.train.program import Prepared, Program
from ...cli.tuning.ranges import DROPOUT_RANGE, ENERGY_RATES, TEXT_RATE, Space
from ...core.energy import energies_of
from ...core.hierarchy import store_hierarchy
from ...data import DataArguments, MultiLabelData, kind_of, load_multilabel
from ...data.common import check_labels_differ
from ...data.tensors.collators import TensorRows
from ...data.tensors.words import load_tokenizer
from ...reports.common import Ending
from ...training.energy_methods import EnergyTrainingArguments
from ...training.energy_trainer import EnergyTrainer
from ...utils.messages import check_owner
from .metrics import multilabel_compute_metrics
from .model import SealForMultiLabel
from .program import check_read_as, say_what_is_longer, text_rows_of
from .report import label_ending
from .space import MultiLabelSpace

logger = logging.get_logger(__name__)


@dataclass
class ModelArguments(OriginArguments):
    """The energy network, and the task-net it may start from."""

    task_net_path: str | None = field(
        default=None,
        metadata={
            "help": "Folder of a task-net, saved by seal-hf train mlc: the network's encoder starts as a copy of its "
            "encoder, with the same sizes and dropout."
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


ARGUMENTS = (DataArguments, ModelArguments, RunArguments, EnergyTrainingArguments)
SIZES = ("hidden_size", "num_layers", "dropout")
DROPOUT = 0.2  # a fresh MLP's


def reads_features(given: Namespace | DataArguments) -> bool:
    """True if the data are feature vectors, False for texts."""
    named = {name: getattr(given, name, None) for name in ("label_column", "label_columns", "sample_weight")}
    return kind_of(given.dataset, given.data_dir, given.text_column, **named) == "features"


def settle(arguments: Arguments) -> None:
    """Set the dropout of a fresh MLP."""
    nets = arguments.nets
    if nets.task_net_path is None and nets.dropout is None and reads_features(arguments.data):
        nets.dropout = DROPOUT


def ranges(arguments: Arguments) -> Space:
    """The searched settings: the rates and, for a fresh MLP, the dropout."""
    if not reads_features(arguments.data):
        return {**ENERGY_RATES, "learning_rate": TEXT_RATE}
    return ENERGY_RATES if arguments.nets.task_net_path is not None else {**ENERGY_RATES, "dropout": DROPOUT_RANGE}


def build(data: MultiLabelData, arguments: Arguments) -> SealForMultiLabel:
    """Both nets; the energy network is the loss-net."""
    nets = arguments.nets
    options, path = {name: getattr(nets, name) for name in ("energy", "global_size")}, nets.task_net_path
    options |= arguments.origin(path or nets.model_name_or_path)
    if data.kind == "features":
        check_owner({"max_length": nets.max_length}, "texts", f"{data.name!r} is feature data")
    if path is None:
        sizes = {name: getattr(nets, name) for name in SIZES}
        return SealForMultiLabel.for_data(data, nets.model_name_or_path, **options, **sizes)
    model = SealForMultiLabel.from_pretrained(path, **options, fresh_loss_net=True)
    for name in (*SIZES, "model_name_or_path"):
        asked, found = getattr(nets, name), getattr(model.config, name, None) if data.kind == "features" else None
        if asked not in (getattr(ModelArguments, name), found):
            logger.warning(f"`{name}` {asked!r} is ignored: the network starts from the task-net in {path}.")
    if list((model.config.id2label or {}).values()) != list(data.label_names):
        raise ValueError(f"`task_net_path`: the labels of {path} differ from those of {data.name}.")
    return model


def make_trainer(data: MultiLabelData, arguments: Arguments) -> Prepared:
    """The trainer of this network."""
    nets = arguments.nets
    if data.kind == "images":
        raise ValueError(
            f"{data.name!r} holds images, but an energy network on its own reads features or texts. Train it beside a "
            "task-net: seal-hf train mlc."
        )
    check_read_as(data, "features" if reads_features(arguments.data) else "text")
    check_labels_differ(data)
    model = build(data, arguments)
    tokenizer: Any = None
    prepare: Any = TensorRows
    if data.kind == "text":
        name = nets.task_net_path or nets.model_name_or_path
        assert name is not None  # else texts are refused above
        tokenizer = load_tokenizer(name, **arguments.origin(name))
        prepare = text_rows_of(tokenizer, model.config, nets.max_length, arguments.say)
    splits = {"train": data.train, "eval": data.validation, "test": data.test}
    rows = {split: prepare(dataset) for split, dataset in splits.items() if dataset is not None}
    if data.kind == "text":
        say_what_is_longer(data, rows["train"], model.config, arguments.say, "--max_length")
    store_hierarchy(model.loss_net.config, data.hierarchy)  # it decides here
    trainer: Any = EnergyTrainer(
        model.loss_net,
        arguments.training,
        train_dataset=rows.pop("train"),
        eval_dataset=rows["eval"],
        task_net=model.task_net if nets.task_net_path is not None else None,
        space=MultiLabelSpace(sparse_from=len(data.label_names) + 1),  # inference moves every entry
        processing_class=tokenizer,
        compute_metrics=multilabel_compute_metrics,
        callbacks=arguments.callbacks,
    )
    trainer.test_dataset = rows.get("test")
    return Prepared(trainer, rows)


def evaluate(prepared: Prepared, data: MultiLabelData, arguments: Arguments) -> Ending:
    """The figures of all splits, and how they are reported."""
    return label_ending(prepared.trainer, prepared.splits, data)


PROGRAM = Program(
    ARGUMENTS,
    task="labels",
    metric="f1_example_tuned",
    recipes={"features": "energy", "text": None},
    kind=lambda given: "features" if reads_features(given) else "text",
    loader=load_multilabel,
    ranges=ranges,
    make_trainer=make_trainer,
    evaluate=evaluate,
    settle=settle,
)
main = PROGRAM.main
