"""Multi-label classification with an energy network as a loss function."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any

from ...adapters import METHODS
from ...data import DataArguments, MultiLabelData, kind_of, load_multilabel
from ...data.tensors.collators import TensorRows, tokenize
from ...data.tensors.words import load_tokenizer
from ...energies import energies_of
from ...metrics import multilabel_compute_metrics
from ...models import SealForMultiLabel
from ...models.multilabel import DROPOUT
from ...reports import close_multilabel
from ...saving import take_loss_net
from ...trainer import SealTrainer
from ...training.arguments import SealTrainingArguments
from ...training.checks import check_was_trained
from ...utils.messages import check_owner
from ..tuning.ranges import DROPOUT_RANGE, RATE, TEXT_RATE, Space
from .arguments import Arguments, RunArguments
from .program import Prepared, Program, card_facts


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


ARGUMENTS = (DataArguments, ModelArguments, RunArguments, SealTrainingArguments)
MAX_LENGTH = 128  # of texts
NETS = "adapter adapter_rank adapter_targets energy global_size hidden_size num_layers dropout".split()


def kind(given: Namespace | DataArguments) -> str:
    """`features` or `text`, as the packaged recipes are called."""
    return kind_of(given.dataset, given.data_dir)


def settle(arguments: Arguments) -> None:
    """A fresh MLP has its own dropout."""
    nets = arguments.nets
    if kind(arguments.data) == "features" and nets.model_name_or_path is None and nets.dropout is None:
        nets.dropout = DROPOUT


def ranges(arguments: Arguments) -> Space:
    """What is searched: the rate and, of MLPs, the dropout; that of a pretrained encoder is its own."""
    if kind(arguments.data) == "text":
        return {"learning_rate": TEXT_RATE}
    return {"learning_rate": RATE} | ({} if arguments.nets.dropout is None else {"dropout": DROPOUT_RANGE})


def build(data: MultiLabelData, arguments: Arguments) -> SealForMultiLabel:
    """Both nets."""
    nets, training = arguments.nets, arguments.training
    if data.kind == "features":
        check_owner({"max_length": nets.max_length}, "texts", f"{data.name!r} is feature data")
    options = {name: getattr(nets, name) for name in NETS} | {"loss_net_encoder": training.loss_net_encoder}
    model = SealForMultiLabel.for_data(data, nets.model_name_or_path, **options)
    take_loss_net(model, nets.loss_net_path, training)
    check_was_trained(model.loss_net, training)
    return model


def make_trainer(data: MultiLabelData, arguments: Arguments) -> Prepared:
    """The trainer of both nets."""
    model, nets = build(data, arguments), arguments.nets
    tokenizer: Any = None
    prepare: Any = TensorRows
    max_length = MAX_LENGTH if nets.max_length is None else nets.max_length
    if data.kind == "text":
        assert nets.model_name_or_path is not None  # or texts are refused above
        tokenizer = load_tokenizer(nets.model_name_or_path)
        prepare = lambda rows: tokenize(rows, tokenizer, max_length)  # noqa: E731
    splits = {"train": data.train, "eval": data.validation, "test": data.test}
    rows = {split: prepare(dataset) for split, dataset in splits.items() if dataset is not None}
    trainer: Any = SealTrainer(
        model,
        arguments.training,
        train_dataset=rows.pop("train"),
        eval_dataset=rows["eval"],
        processing_class=tokenizer,
        compute_metrics=multilabel_compute_metrics,
        callbacks=arguments.callbacks,
    )
    trainer.test_dataset = rows.get("test")
    if arguments.data.text_column is not None:
        trainer.train_dataset.inputs["text_column"] = arguments.data.text_column
    if cut := trainer.train_dataset.num_cut:
        print(
            f"{data.name}, train: {cut} of {len(data.train)} texts are longer than {max_length} tokens, and cut "
            "(--max_length)."
        )
    return Prepared(trainer, rows)


def close(prepared: Prepared, data: MultiLabelData, arguments: Arguments) -> dict[str, float]:
    """Evaluate, save and report."""
    return close_multilabel(prepared.trainer, data, card_facts(data, arguments))


PROGRAM = Program(
    ARGUMENTS,
    output="multi_label",
    metric="f1_example_tuned",
    recipes={"features": "features", "text": "text"},
    kind=kind,
    loader=load_multilabel,
    ranges=ranges,
    make_trainer=make_trainer,
    close=close,
    settle=settle,
)
main = PROGRAM.main
