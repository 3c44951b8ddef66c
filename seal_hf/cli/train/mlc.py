"""Multi-label classification with an energy network as a loss function."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...adapters import METHODS, QUANTIZATIONS
from ...data import DataArguments, MultiLabelData, kind_of, load_multilabel
from ...data.tensors.collators import TensorRows
from ...data.tensors.words import load_tokenizer
from ...energies import energies_of
from ...metrics import HierarchicalComputeMetrics, multilabel_compute_metrics
from ...models import SealForMultiLabel
from ...models.multilabel import DROPOUT
from ...reports import close_multilabel
from ...saving import take_loss_net
from ...trainer import SealTrainer
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from ...training.frozen import FEATURE_FOLDER
from ...utils.messages import check_owner
from ..tuning.ranges import DROPOUT_RANGE, RATE, TEXT_RATE, Space
from .arguments import Arguments, RunArguments
from .program import Prepared, Program, card_facts
from .texts import MAX_LENGTH, check_read_as, say_what_is_longer, text_rows_of


@dataclass
class ModelArguments:
    """The two nets."""

    model_name_or_path: str | None = field(default=None, metadata={"help": "Encoder or classifier, for text."})
    adapter: str | None = field(default=None, metadata={"help": f"Train only an adapter: {', '.join(METHODS)}."})
    adapter_rank: int | None = field(default=None, metadata={"help": "Rank of a LoRA, width of a bottleneck."})
    adapter_targets: str | None = field(default=None, metadata={"help": "Modules of a LoRA: a name or all-linear."})
    quantization: str | None = field(
        default=None, metadata={"help": f"Base of the adapter in: {', '.join(QUANTIZATIONS)}."}
    )
    max_length: int | None = field(default=None, metadata={"help": "Longest text, in tokens; default: 128."})
    long_texts: str | None = field(
        default=None,
        metadata={"help": "Texts longer than --max_length: cut (default), or read whole in windows of that length."},
    )
    hidden_size: int | None = field(
        default=None, metadata={"help": "Width of the MLPs, for feature data; default: 400, or as saved."}
    )
    num_layers: int | None = field(default=None, metadata={"help": "Layers of the MLPs; default: 2, or as saved."})
    dropout: float | None = field(default=None, metadata={"help": "Dropout of the MLPs; default: 0.5, or as saved."})
    energy: str = field(
        default="multilabel", metadata={"help": f"Energy of the loss-net: {', '.join(energies_of('multi_label'))}."}
    )
    global_size: int = field(default=200, metadata={"help": "Width of the loss-net's global term; 0: none."})
    loss_net_path: str | None = field(
        default=None, metadata={"help": "A trained loss-net to use; frozen with --loss_net_steps 0 (SEAL-static)."}
    )


ARGUMENTS = (DataArguments, ModelArguments, RunArguments, SealTrainingArguments)
NETS = "adapter adapter_rank adapter_targets quantization energy global_size hidden_size num_layers dropout".split()


def kind(given: Namespace | DataArguments) -> str:
    """`features` or `text`."""
    return kind_of(given.dataset, given.data_dir, given.text_column)


def recipe(given: Namespace) -> str:
    """The packaged recipe for features, for texts, or for texts with a frozen encoder."""
    return "text_frozen" if given.freeze_encoder and kind(given) == "text" else kind(given)


def settle(arguments: Arguments) -> None:
    """Set the dropout of a fresh MLP, and let the trials of a search share the features of a frozen encoder."""
    nets, training = arguments.nets, arguments.training
    if training.freeze_encoder and training.loss_net_feature_cache is None:
        training.loss_net_feature_cache = str(Path(training.output_dir, FEATURE_FOLDER))
    if kind(arguments.data) == "features" and nets.model_name_or_path is None and nets.dropout is None:
        nets.dropout = DROPOUT


def ranges(arguments: Arguments) -> Space:
    """The searched settings: the rate and, for MLPs, the dropout. A pretrained encoder keeps its own dropout."""
    if kind(arguments.data) == "text":
        return {"learning_rate": RATE if arguments.training.freeze_encoder else TEXT_RATE}
    return {"learning_rate": RATE} | ({} if arguments.nets.dropout is None else {"dropout": DROPOUT_RANGE})


def build(data: MultiLabelData, arguments: Arguments) -> SealForMultiLabel:
    """Both nets."""
    nets, training = arguments.nets, arguments.training
    check_read_as(data, kind(arguments.data))
    if data.kind == "features":
        given = {"max_length": nets.max_length, "long_texts": nets.long_texts}
        check_owner(given, "texts", f"{data.name!r} is feature data")
    options = {name: getattr(nets, name) for name in NETS} | {"loss_net_encoder": training.loss_net_encoder}
    if nets.long_texts == "windows":
        options["window_size"] = MAX_LENGTH if nets.max_length is None else nets.max_length
    model = SealForMultiLabel.for_data(data, nets.model_name_or_path, long_texts=nets.long_texts, **options)
    take_loss_net(model, nets.loss_net_path, training)
    check_was_trained(model.loss_net, training)
    return model


def make_trainer(data: MultiLabelData, arguments: Arguments) -> Prepared:
    """The trainer of both nets."""
    model, nets = build(data, arguments), arguments.nets
    tokenizer: Any = None
    prepare: Any = TensorRows
    if data.kind == "text":
        assert nets.model_name_or_path is not None  # else texts are refused above
        tokenizer = load_tokenizer(nets.model_name_or_path)
        prepare = text_rows_of(tokenizer, model.config, nets.max_length, arguments.say)
    splits = {"train": data.train, "eval": data.validation, "test": data.test}
    rows = {split: prepare(dataset) for split, dataset in splits.items() if dataset is not None}
    train_rows = rows.pop("train")
    if data.kind == "text":
        say_what_is_longer(data, train_rows, model.config, arguments.say)
    chosen = {name: getattr(arguments.data, name) for name in ("text_column", "sample_weight")}
    if chosen := {name: column for name, column in chosen.items() if column is not None}:
        train_rows.inputs = {**(train_rows.inputs or {}), **chosen}
    trainer: Any = SealTrainer(
        model,
        arguments.training,
        train_dataset=train_rows,
        eval_dataset=rows["eval"],
        processing_class=tokenizer,
        compute_metrics=HierarchicalComputeMetrics(data.hierarchy) if data.hierarchy else multilabel_compute_metrics,
        callbacks=arguments.callbacks,
    )
    trainer.test_dataset = rows.get("test")
    return Prepared(trainer, rows)


def close(prepared: Prepared, data: MultiLabelData, arguments: Arguments) -> dict[str, float]:
    """Evaluate, save and report."""
    return close_multilabel(prepared.trainer, data, card_facts(data, arguments))


PROGRAM = Program(
    ARGUMENTS,
    output="multi_label",
    metric="f1_example_tuned",
    recipes={name: name for name in ("features", "text", "text_frozen")},
    kind=recipe,
    loader=load_multilabel,
    ranges=ranges,
    make_trainer=make_trainer,
    close=close,
    settle=settle,
)
main = PROGRAM.main
