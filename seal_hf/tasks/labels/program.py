"""Multi-label classification with an energy network as a loss function; then by an energy network on its own, with
gradient-based inference and no task-net at prediction.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from datasets import Dataset
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from ...cli.search import DROPOUT_RANGE, ENERGY_RATES, FINE_TUNED, RATE, TEXT_RATE, Space
from ...cli.train.flags import TOO_LONG, Arguments, OriginArguments, RunArguments
from ...cli.train.program import Prepared, Program, card_facts, labelled_rows
from ...core.energy import energies_of
from ...core.hierarchy import store_hierarchy
from ...data import DataArguments, MultiLabelData, kind_of, load_multilabel
from ...data.column_choice import PROBABILITIES
from ...data.common import IMAGE, check_labels_differ
from ...data.tensors.collators import TensorRows, tokenize
from ...data.tensors.images import AUGMENTATIONS, ImageRows, load_image_processor, resize_to
from ...data.tensors.words import load_tokenizer
from ...energy_losses import CROSS_ENTROPY
from ...loss_net.loss_net import LossNet
from ...nets.adapters import METHODS, QUANTIZATIONS
from ...nets.cnn import cnn_image_processor
from ...nets.heads import FIRST, POOLINGS
from ...nets.text_pooling import classifier_reads, most_tokens, reads_whole
from ...reports.common import Ending
from ...saving import take_loss_net
from ...trainer import SealTrainer
from ...training.arguments import SealTrainingArguments
from ...training.checkpoints import OF_THE_TRAINER, own_defaults
from ...training.checks import check_was_trained
from ...training.energy_trainer import EnergyTrainer, EnergyTrainingArguments
from ...training.epochs import order_seed
from ...training.two_nets import FEATURE_FOLDER
from ...utils.messages import check_owner
from ...utils.options import check_value
from .linear import FEATURES, average_with_regression, fit_baseline, fit_head, why_no_baseline
from .metrics import HierarchicalComputeMetrics, multilabel_compute_metrics
from .model import FROM_SCRATCH, MAX_LENGTH, NOUNS, SealForMultiLabel, is_of_images
from .report import label_ending
from .space import MultiLabelSpace

logger = logging.get_logger(__name__)

WHOLE = 10**30  # saved in the tokenizer of a net that reads whole texts, which must not cut


def check_read_as(data: MultiLabelData, kind: str) -> None:
    """Raise ValueError if a run that was set up for texts or images gets something else. The id of a Hub data set does
    not say what it holds."""
    if data.kind == kind:
        return
    if data.kind == "features":
        raise ValueError(
            f"{data.name!r} holds features, which programs read from files only. Save it with `save_to_disk` or as "
            "parquet, and name that by --dataset."
        )
    if data.kind == "images":
        raise ValueError(
            f"{data.name!r} holds images. Name their column by --image_column, and by --model_name_or_path a model "
            "that reads images, such as facebook/dinov2-small."
        )
    raise ValueError(
        f"{data.name!r} holds texts, but --model_name_or_path names a model that reads images. Name one that reads "
        "texts, such as distilbert-base-uncased."
    )


def text_rows_of(
    tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig, max_length: int, say: Callable[[str], None]
) -> Callable[[Dataset], TensorRows]:
    """A function that turns a split into the rows of a net.

    Args:
        config: the net's.
        max_length: the longest text, in tokens. The encoder's limit also applies, with a note unless this is the
            default.
    """
    most = most_tokens(tokenizer, config)
    if most is not None and most < max_length != MAX_LENGTH:
        say(TOO_LONG.format(asked=max_length, most=most))
    if reads_whole(config):
        tokenizer.model_max_length = WHOLE
        return lambda rows: tokenize(rows, tokenizer, None)
    length = min(max_length, most or max_length)
    return lambda rows: tokenize(rows, tokenizer, length)


def say_what_is_longer(
    data: MultiLabelData,
    rows: TensorRows,
    config: Any,
    say: Callable[[str], None],
    flags: str = "--max_length, --long_texts windows",
) -> None:
    """Say how many training texts are cut, and which flags change that; or how many are read in several windows."""
    if reads_whole(config):
        size = config.window_size
        longer = int((rows.ragged["input_ids"][1].diff() > size).sum())
        done = f"are read in windows of {size} (--long_texts windows)"
    else:
        size, longer = (rows.inputs or {})["max_length"], rows.num_cut
        done = f"are cut (change: {flags})"
    if longer:
        say(f"{data.name}, train: {longer} of {len(rows)} texts are longer than {size} tokens, and {done}.")


LARGEST = 64  # side in pixels of images for the convolutional net, unless another is asked for


def processor_of(data: MultiLabelData, model_name_or_path: str | None, image_size: int | None, **origin: Any) -> Any:
    """The image processor of a pretrained model, or one for the convolutional net.

    Args:
        image_size: side in pixels of the square to which it resizes; default: as it is, and for the convolutional net
            the size of the first image, or 64 if that is larger.
        origin: `revision` and `trust_remote_code`, as for [`load_image_processor`].

    Raises:
        ValueError: there is no image processor.
    """
    asked = None if image_size is None else (image_size, image_size)
    if model_name_or_path is not None:
        processor = load_image_processor(model_name_or_path, **origin)
        return processor if asked is None else resize_to(processor, asked)
    width, height = data.train[0][IMAGE].size
    return cnn_image_processor(asked or ((height, width) if max(height, width) <= LARGEST else (LARGEST, LARGEST)))


def image_rows_of(processor: Any, augmentation: str, seed: int) -> tuple[Callable[[Dataset], ImageRows], ...]:
    """Two functions that turn a split into its rows: for training, and for evaluation."""
    augment = AUGMENTATIONS[augmentation]
    return lambda rows: ImageRows(rows, processor, augment, seed), lambda rows: ImageRows(rows, processor)


@dataclass
class ModelArguments(OriginArguments):
    """The two nets."""

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Encoder or classifier, for texts and images; default for images: a small CNN."}
    )
    adapter: str | None = field(default=None, metadata={"help": f"Train only an adapter: {', '.join(METHODS)}."})
    adapter_rank: int | None = field(default=None, metadata={"help": "Rank of a LoRA, or width of a bottleneck."})
    adapter_targets: str | None = field(default=None, metadata={"help": "Modules of a LoRA: a name or all-linear."})
    quantization: str | None = field(
        default=None, metadata={"help": f"Precision of the adapter's base: {', '.join(QUANTIZATIONS)}."}
    )
    pooling: str | None = field(
        default=None,
        metadata={
            "help": f"What the classifier reads of a text's tokens: {', '.join(POOLINGS)}; default: what "
            "the encoder's 1_Pooling/config.json says, or else what its classifier in transformers reads."
        },
    )
    max_length: int = field(default=MAX_LENGTH, metadata={"help": "Longest text, in tokens."})
    long_texts: str | None = field(
        default=None,
        metadata={"help": "Texts longer than --max_length: cut (default), or read whole in windows of that length."},
    )
    loss_net_pooling: str | None = field(
        default=None,
        metadata={
            "help": f"What a loss-net reads of a text's tokens: {', '.join(POOLINGS)}; default: mean, or as the head."
        },
    )
    image_size: int | None = field(
        default=None,
        metadata={"help": "Resize images to a square of this side; default: as the model's image processor says."},
    )
    augmentation: str | None = field(
        default=None,
        metadata={"help": f"Augmentation of training images: {', '.join(AUGMENTATIONS)}; default: flip_crop."},
    )
    hidden_size: int | None = field(
        default=None, metadata={"help": "Width of the MLPs, for features, or of the CNN; a saved net keeps its own."}
    )
    num_layers: int | None = field(default=None, metadata={"help": "Layers of the MLPs; a saved net keeps its own."})
    dropout: float | None = field(
        default=None, metadata={"help": "Dropout of the MLPs or of the CNN; a saved net keeps its own."}
    )
    energy: str = field(
        default="multilabel", metadata={"help": f"Energy of the loss-net: {', '.join(energies_of('multi_label'))}."}
    )
    global_size: int = field(default=200, metadata={"help": "Width of the loss-net's global term; 0 leaves it out."})
    loss_net_path: str | None = field(
        default=None, metadata={"help": "A trained loss-net to use; frozen with --loss_net_steps 0 (SEAL-static)."}
    )


@dataclass
class LabelRunArguments(RunArguments):
    """When a run stops, whether its settings are searched, what is fitted beside it, and what is written at its end."""

    linear: bool | None = field(
        default=None,
        metadata={
            "help": "A logistic regression on frozen features: true fits and saves only it; false fits none; default: "
            "one beside, for comparison, unless it takes long. An MLP takes it in, unless validation loses."
        },
    )


ARGUMENTS = (DataArguments, ModelArguments, LabelRunArguments, SealTrainingArguments)
NETS = "adapter adapter_rank adapter_targets quantization energy global_size hidden_size num_layers dropout".split()
CUTS = ("relaxed_mass", "relaxed_width")  # of outputs with many labels
IMAGE_FLAGS = ("image_size", "augmentation")
FIRST_TOKEN = (
    "The classifier reads the first token. Of a frozen encoder the mean of all tokens often says more: --pooling mean "
    "reads it, --pooling first leaves this line out."
)
OF_TRAININGS = [*NETS, *"loss_net_pooling loss_net_path augmentation patience tune resume_from_checkpoint".split()]
READ_ALONE = set("seed data_seed bf16 fp16 sparse_labels_from loss energy_loss".split())  # by --linear true too
AVERAGED = (
    "{}: the net takes the logistic regression in: the mean of their logits has {:.4f} on validation rows, the net "
    "without it {:.4f}. --linear false leaves it out."
)
NO_BASELINE = "No logistic regression is fitted beside: {}."


def kind(data: Namespace | DataArguments, nets: Any) -> str:
    """What the data are: `features`, `text` or `images`. The model tells what a Hub id holds."""
    asked = ("label_column", "label_columns", "sample_weight")
    columns = {name: getattr(data, name, None) for name in asked}
    found = kind_of(data.dataset, data.data_dir, data.text_column, data.image_column, **columns)
    name, revision = nets.model_name_or_path, getattr(nets, "revision", None)
    if found == "text" and data.text_column is None and name is not None and is_hub_id(data):
        return "images" if is_of_images(name, {} if revision is None else {"revision": revision}) else found
    return found


def is_hub_id(data: Namespace | DataArguments) -> bool:
    """True if the data is neither embedded nor on disk."""
    return data.dataset is not None and "/" in data.dataset and not Path(data.dataset).exists()


def kind_of_run(arguments: Arguments) -> str:
    """The same as [`kind`], from parsed arguments."""
    return kind(arguments.data, arguments.nets)


def recipe(given: Namespace) -> str:
    """The name of the packaged recipe: for features, for texts, for texts with a frozen encoder, for images by a small
    CNN, or for images by a pretrained model."""
    found = kind(given, given)
    if found == "text" and given.freeze_encoder:
        return "text_frozen"
    return "images_pretrained" if found == "images" and given.model_name_or_path is not None else found


def settle(arguments: Arguments) -> None:
    """Let the trials of a search share the features of a frozen encoder, and probabilities as labels have
    cross-entropy. Raises ValueError for unknown names."""
    nets, training = arguments.nets, arguments.training
    if arguments.data.label_format == PROBABILITIES and not arguments.given & {"task_loss", "recipe"}:
        training.task_loss = "cross_entropy"
    if getattr(arguments.run, "linear", None):
        settle_linear(arguments)
    if training.freeze_encoder and training.loss_net_feature_cache is None:
        training.loss_net_feature_cache = str(Path(training.output_dir, FEATURE_FOLDER))
    if nets.loss_net_pooling is not None:
        check_value("loss_net_pooling", nets.loss_net_pooling, POOLINGS)
    if nets.pooling is not None:
        check_value("pooling", nets.pooling, POOLINGS)
    if nets.augmentation is not None:
        check_value("augmentation", nets.augmentation, AUGMENTATIONS)


def settle_linear(arguments: Arguments) -> None:
    """Set what `--linear true` implies: the net has no other trained layer. Raises ValueError for flags of a
    training."""
    nets, training = arguments.nets, arguments.training
    of_trainings = {*OF_THE_TRAINER, *own_defaults(training), *OF_TRAININGS} - READ_ALONE
    if unread := sorted(arguments.given & of_trainings):
        raise ValueError(
            f"`{unread[0]}` is given, but --linear true trains no net: it fits a logistic regression on frozen "
            "features. Leave one of them out."
        )
    if arguments.given & {"loss", "energy_loss"} and (loss := training.energy_loss) != CROSS_ENTROPY:
        raise ValueError(f"--loss is {loss!r}, but --linear true has no loss-net. Leave one of them out.")
    training.energy_loss, training.task_loss, training.freeze_encoder = CROSS_ENTROPY, "cross_entropy", False
    if nets.model_name_or_path is None:
        if kind_of_run(arguments) == "images":
            raise ValueError(
                "--linear true reads the features of a pretrained model. Name one by --model_name_or_path, such as "
                "facebook/dinov2-small."
            )
        nets.num_layers = 0


def ranges(arguments: Arguments) -> Space:
    """What a search varies: the rates and, for small nets, the dropout. A pretrained encoder keeps its own dropout."""
    nets, kind = arguments.nets, kind_of_run(arguments)
    if kind == "text" or (kind == "images" and nets.model_name_or_path is not None):
        return {"learning_rate": RATE} if arguments.training.freeze_encoder else FINE_TUNED
    return {"learning_rate": RATE} | ({} if nets.dropout is None else {"dropout": DROPOUT_RANGE})


def build(data: MultiLabelData, arguments: Arguments) -> SealForMultiLabel:
    """The task-net and the loss-net of a run."""
    nets, training = arguments.nets, arguments.training
    check_read_as(data, kind_of_run(arguments))
    found = f"{data.name!r} is {NOUNS[data.kind]}"
    if data.kind != "text":
        own = {name: getattr(nets, name) for name in ("pooling", "long_texts", "loss_net_pooling")}
        own["max_length"] = None if nets.max_length == MAX_LENGTH else nets.max_length
        check_owner(own, "texts", found)
    if data.kind != "images":
        check_owner({name: getattr(nets, name) for name in IMAGE_FLAGS}, "images", found)
    check_labels_differ(data)
    if len(data.label_names) < (least := training.sparse_labels_from):
        cut = {name: getattr(training, name) for name in CUTS if name in arguments.given}
        check_owner(cut, f"{least} labels or more (--sparse_labels_from)", f"{data.name!r} has {len(data.label_names)}")
    origin = arguments.origin(nets.model_name_or_path)
    options = {name: getattr(nets, name) for name in NETS} | arguments.loss_net | origin
    if getattr(arguments.run, "linear", None) and data.kind == "features" and nets.model_name_or_path is None:
        options["label_bias"] = True
    if nets.long_texts == "windows":
        options["window_size"] = nets.max_length
    reading = {"pooling": nets.pooling, "long_texts": nets.long_texts}
    model = SealForMultiLabel.for_data(data, nets.model_name_or_path, **reading, **options)
    take_loss_net(model, nets.loss_net_path, training)
    check_was_trained(model.loss_net, training)
    if nets.loss_net_pooling is not None:
        set_pooling(model.loss_net, nets.loss_net_pooling)
    return model


def set_pooling(loss_net: LossNet, pooling: str) -> None:
    """Apply `--loss_net_pooling` to a fresh loss-net. Raises ValueError for a trained loss-net with another pooling."""
    if loss_net.name_or_path and loss_net.config.pooling != pooling:
        raise ValueError(
            f"`loss_net_pooling` is {pooling!r}, but the loss-net in {loss_net.name_or_path} was trained with "
            f"{loss_net.config.pooling!r}. Leave it out, or begin with a fresh loss-net."
        )
    loss_net.config.pooling = pooling


def could_read_more(task_net: PreTrainedModel, arguments: Arguments) -> bool:
    """True if a classifier of texts reads the first token of a frozen encoder, although nobody asked for that."""
    asked = arguments.nets.pooling is not None
    return arguments.training.freeze_encoder and not asked and classifier_reads(task_net) == FIRST


def make_trainer(data: MultiLabelData, arguments: Arguments, train_on: Any = labelled_rows) -> Prepared:
    """The trainer of both nets. `train_on` makes the training rows, as [`labelled_rows`]."""
    model, nets = build(data, arguments), arguments.nets
    processor: Any = None
    prepare: Any = TensorRows
    prepare_train: Any = None
    callbacks = arguments.callbacks
    if data.kind == "text":
        assert nets.model_name_or_path is not None  # else texts are refused above
        processor = load_tokenizer(nets.model_name_or_path, **arguments.origin(nets.model_name_or_path))
        prepare = text_rows_of(processor, model.config, nets.max_length, arguments.say)
        if could_read_more(model.task_net, arguments):
            arguments.say(FIRST_TOKEN)
    elif data.kind == "images":
        origin = arguments.origin(nets.model_name_or_path)
        processor = processor_of(data, nets.model_name_or_path, nets.image_size, **origin)
        seed = order_seed(arguments.training)
        prepare_train, prepare = image_rows_of(processor, nets.augmentation or "flip_crop", seed)
    train_rows, options = train_on(data, arguments, model, prepare_train or prepare)
    splits = {"eval": data.validation, "test": data.test}
    rows = {split: prepare(dataset) for split, dataset in splits.items() if dataset is not None}
    if data.kind == "text":
        say_what_is_longer(data, train_rows, model.config, arguments.say)
    weight = arguments.data.sample_weight
    if chosen := data.columns | ({} if weight is None else {"sample_weight": weight}):
        train_rows.inputs = {**(train_rows.inputs or {}), **chosen}
    trainer = SealTrainer(
        model,
        arguments.training,
        train_dataset=train_rows,
        eval_dataset=rows["eval"],
        processing_class=processor,
        compute_metrics=HierarchicalComputeMetrics(data.hierarchy) if data.hierarchy else multilabel_compute_metrics,
        callbacks=callbacks,
        **options,
    )
    return Prepared(trainer, rows)


def before(prepared: Prepared, data: MultiLabelData, arguments: Arguments) -> bool:
    """Fit the logistic regression: beside the task-net for the closing table, or with `--linear true` in the
    task-net."""
    run: Any = arguments.run  # of this program
    trainer, linear = cast(SealTrainer, prepared.trainer), run.linear
    if linear:
        found, count = fit_head(trainer), len(trainer.train_dataset)
        trainer.take_linear_head(found)
        arguments.say(f"{data.name}: fitted a logistic regression on {count} training rows, {found.in_words}.")
    elif linear is None and (data.kind == "features" or trainer.is_world_process_zero()):  # an MLP needs it everywhere
        fresh = data.kind == "images" and arguments.nets.model_name_or_path is None
        why = "the net of images is not pretrained" if fresh else why_no_baseline(trainer, prepared.splits)
        try:
            prepared.baseline = fit_baseline(trainer, prepared.splits) if why is None else None
        except ValueError as error:  # from a net without hidden states
            why = str(error).removesuffix(".")
        if prepared.baseline is not None:
            words = prepared.baseline.regressions.in_words
            arguments.say(f"{data.name}: fitted a logistic regression beside, for comparison, {words}.")
        else:
            arguments.say(NO_BASELINE.format(why))
    return bool(linear)


def evaluate(prepared: Prepared, data: MultiLabelData, arguments: Arguments) -> Ending:
    """Let an MLP take in the logistic regression, judge all splits with the trained nets, and say how the figures are
    reported."""
    trainer, baseline, found = cast(SealTrainer, prepared.trainer), prepared.baseline, None
    if baseline is not None and baseline.name == FEATURES:
        found = average_with_regression(trainer, regressions=baseline.regressions)
    if found is not None:
        arguments.say(AVERAGED.format(data.name, *found))
    return label_ending(trainer, prepared.splits, data, card_facts(data, arguments), baseline, found is not None)


PROGRAM = Program(
    ARGUMENTS,
    task="labels",
    metric="f1_example_tuned",
    recipes={name: name for name in ("features", "text", "text_frozen", "images", "images_pretrained")},
    kind=recipe,
    loader=load_multilabel,
    ranges=ranges,
    make_trainer=make_trainer,
    evaluate=evaluate,
    settle=settle,
    from_scratch=FROM_SCRATCH,
    before=before,
)
main = PROGRAM.main


# --- an energy network on its own ------------------------------------------------------------------------------------


@dataclass
class EnergyArguments(OriginArguments):
    """The energy network, and the task-net it may start from."""

    task_net_path: str | None = field(
        default=None,
        metadata={
            "help": "Folder of a task-net, saved by seal-hf train mlc: the network's encoder starts as a copy of its "
            "encoder, with the same sizes and dropout."
        },
    )
    model_name_or_path: str | None = field(default=None, metadata={"help": "Encoder, for text without a task-net."})
    max_length: int = field(default=MAX_LENGTH, metadata={"help": "Longest text, in tokens."})
    hidden_size: int | None = field(default=None, metadata={"help": "Width of the MLP, for feature data."})
    num_layers: int | None = field(default=None, metadata={"help": "Layers of the MLP."})
    dropout: float | None = field(default=None, metadata={"help": "Dropout of the MLP."})
    energy: str = field(default="multilabel", metadata={"help": f"One of {', '.join(energies_of('multi_label'))}."})
    global_size: int = field(default=200, metadata={"help": "Width of the energy's global term; 0 leaves it out."})


ENERGY_ARGUMENTS = (DataArguments, EnergyArguments, RunArguments, EnergyTrainingArguments)
MLP_SIZES = ("hidden_size", "num_layers", "dropout")
ALONE = {"features": {**FROM_SCRATCH["features"], "dropout": 0.2}}  # an MLP's, without a task-net


def energy_ranges(arguments: Arguments) -> Space:
    """What a search varies: the rates and, for a fresh MLP, the dropout."""
    if kind_of_run(arguments) != "features":
        return {**ENERGY_RATES, "learning_rate": TEXT_RATE}
    return ENERGY_RATES if arguments.nets.task_net_path is not None else {**ENERGY_RATES, "dropout": DROPOUT_RANGE}


def build_energy(data: MultiLabelData, arguments: Arguments) -> SealForMultiLabel:
    """Both nets; the energy network is the loss-net."""
    nets = arguments.nets
    options, path = {name: getattr(nets, name) for name in ("energy", "global_size")}, nets.task_net_path
    options |= arguments.origin(path or nets.model_name_or_path)
    if data.kind == "features":
        length = None if nets.max_length == MAX_LENGTH else nets.max_length
        check_owner({"max_length": length}, "texts", f"{data.name!r} is feature data")
    if path is None:
        sizes = {name: getattr(nets, name) for name in MLP_SIZES}
        return SealForMultiLabel.for_data(data, nets.model_name_or_path, **options, **sizes)
    model = SealForMultiLabel.from_pretrained(path, **options, fresh_loss_net=True)
    for name in (*MLP_SIZES, "model_name_or_path"):
        asked, found = getattr(nets, name), getattr(model.config, name, None) if data.kind == "features" else None
        if asked not in (getattr(EnergyArguments, name), found):
            logger.warning(f"`{name}` {asked!r} is ignored: the network starts from the task-net in {path}.")
    if list((model.config.id2label or {}).values()) != list(data.label_names):
        raise ValueError(f"`task_net_path`: the labels of {path} differ from those of {data.name}.")
    return model


def make_energy_trainer(data: MultiLabelData, arguments: Arguments) -> Prepared:
    """The trainer of an energy network on its own."""
    nets = arguments.nets
    if data.kind == "images":
        raise ValueError(
            f"{data.name!r} holds images, but an energy network on its own reads features or texts. Train it beside a "
            "task-net: seal-hf train mlc."
        )
    check_read_as(data, "features" if kind_of_run(arguments) == "features" else "text")
    check_labels_differ(data)
    model = build_energy(data, arguments)
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
    trainer = EnergyTrainer(
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
    return Prepared(trainer, rows)


def evaluate_energy(prepared: Prepared, data: MultiLabelData, arguments: Arguments) -> Ending:
    """Judge all splits with the trained nets, and say how the figures are reported."""
    return label_ending(prepared.trainer, prepared.splits, data)


ENERGY_PROGRAM = Program(
    ENERGY_ARGUMENTS,
    task="labels",
    metric="f1_example_tuned",
    recipes={"features": "energy", "text": None},
    kind=lambda given: "features" if kind(given, given) == "features" else "text",
    loader=load_multilabel,
    ranges=energy_ranges,
    make_trainer=make_energy_trainer,
    evaluate=evaluate_energy,
    from_scratch=ALONE,
)
energy_main = ENERGY_PROGRAM.main
