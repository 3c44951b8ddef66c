"""What is refused before a run begins, or at its first step: each mistake gives one error that names it and what to do.
Nothing is trained or written then."""

from contextlib import nullcontext
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_masks
import tiny_run
import torch
from datasets import DatasetDict
from tiny_models import tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModel, AutoModelForSequenceClassification, SchedulerType, TrainingArguments, get_scheduler

from seal_hf import (
    EnergyTrainer,
    EnergyTrainingArguments,
    MaskRows,
    RewardTagSpace,
    SealForMultiLabel,
    SealForSegmentation,
    SealForTokenClassification,
    SealTrainer,
    SealTrainingArguments,
    TagSequenceSpace,
    TensorRows,
    Vocabulary,
    load_masks,
    load_tags,
    tokenize,
)
from seal_hf.metrics import mask_compute_metrics, multilabel_compute_metrics, tagging_compute_metrics

RUN = ["train_dataset", "eval_dataset"]


def trainer_with(folder, model=None, rows=None, **options):
    model = model if model is not None else tiny_run.model()
    return SealTrainer(
        model, tiny_run.arguments(folder, **options), train_dataset=rows or TensorRows(tiny_run.table(48))
    )


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option, value, message",
    [
        ("num_samples", 0, "`num_samples` is 0; it must be a finite number, at least 1."),
        ("seed", -1, "`seed` is -1; it must be a finite number, at least 0"),
        ("data_seed", -1, "`data_seed` is -1; it must be a finite number, at least 0"),
        ("num_samples", -3, "`num_samples` is -3; it must be a finite number, at least 1."),
        ("num_samples", 2.5, "`num_samples` is 2.5; it must be a whole number."),
        ("loss_net_steps", 1.5, "`loss_net_steps` is 1.5; it must be a whole number."),
        ("batch_repeats", 0, "`batch_repeats` is 0; it must be a finite number, at least 1."),
        ("energy_weight", -0.1, "`energy_weight` is -0.1; it must be a finite number, at least 0."),
        ("energy_weight", float("nan"), "`energy_weight` is nan; it must be a finite number."),
        ("energy_weight", float("inf"), "`energy_weight` is inf; it must be a finite number."),
        ("task_weight", -1.0, "`task_weight` is -1.0; it must be a finite number, at least 0."),
        ("loss_net_steps", -1, "`loss_net_steps` is -1; it must be a finite number, at least 0."),
        ("perturbation_std", -1.0, "`perturbation_std` is -1.0; it must be a finite number, at least 0."),
        ("loss_net_learning_rate", -1.0, "`loss_net_learning_rate` is -1.0; it must be a finite number, at least 0."),
        ("loss_net_encoder_learning_rate", -1.0, "`loss_net_encoder_learning_rate` is -1.0; it must be"),
        ("loss_net_weight_decay", -1.0, "`loss_net_weight_decay` is -1.0; it must be a finite number, at least 0."),
        ("loss_net_warmup_steps", -1, "`loss_net_warmup_steps` is -1; it must be a finite number, at least 0."),
        ("loss_net_max_grad_norm", -1.0, "`loss_net_max_grad_norm` is -1.0; it must be a finite number, at least 0."),
        (
            "energy_loss",
            "nec",
            "`energy_loss` is 'nec'; it must be one of nce, ranking, margin, infnet, infnet_plus, regression, ",
        ),
        ("margin_cost", "hamming", "`margin_cost` is 'hamming'; it must be one of f1, l1, l1_mean, iou."),
        ("loss_net_encoder", "own", "`loss_net_encoder` is 'own'; it must be one of separate, shared, peft, adapters."),
        (
            "loss_net_lr_scheduler_type",
            "reduce_lr_on_plateau",
            "`loss_net_lr_scheduler_type` is 'reduce_lr_on_plateau'; it must be one of linear, cosine, ",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused_by_name(tmp_path, option, value, message):
    with pytest.raises(ValueError) as caught:
        SealTrainingArguments(output_dir=str(tmp_path), use_cpu=True, **{option: value})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("schedule", [schedule.value for schedule in SchedulerType])
def test_a_schedule_of_the_loss_net_is_refused_or_runs_without_arguments_and_metrics(tmp_path, schedule):
    """Oracle: the schedule of transformers itself, given what the loss-net's is given."""
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(2))])
    try:
        scheduler = get_scheduler(schedule, optimizer, num_warmup_steps=1, num_training_steps=4)
        optimizer.step()
        scheduler.step()
    except (TypeError, ValueError):
        with pytest.raises(ValueError, match=f"`loss_net_lr_scheduler_type` is '{schedule}'; it must be one of"):
            SealTrainingArguments(output_dir=str(tmp_path), use_cpu=True, loss_net_lr_scheduler_type=schedule)
    else:
        SealTrainingArguments(output_dir=str(tmp_path), use_cpu=True, loss_net_lr_scheduler_type=schedule)


def test_a_task_net_without_any_loss_is_refused(tmp_path):
    with pytest.raises(ValueError, match="`energy_weight` and `task_weight` are both 0: .* Set one of them"):
        SealTrainingArguments(output_dir=str(tmp_path), use_cpu=True, energy_weight=0.0, task_weight=0.0)
    with pytest.raises(ValueError, match="`task_weight` is 0 and `energy_loss` is 'ce'"):
        SealTrainingArguments(output_dir=str(tmp_path), use_cpu=True, energy_loss="ce", task_weight=0.0)


def test_a_warm_up_that_its_schedule_does_not_have_is_refused(tmp_path):
    options = dict(output_dir=str(tmp_path), use_cpu=True, loss_net_warmup_steps=200)
    with pytest.raises(ValueError, match="`loss_net_warmup_steps` is 200, but .* Set .*'constant_with_warmup'"):
        SealTrainingArguments(**options)
    SealTrainingArguments(**options, loss_net_lr_scheduler_type="constant_with_warmup")


def test_arguments_of_the_plain_trainer_are_refused(tmp_path):
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    with pytest.raises(
        ValueError, match="`args` is a TrainingArguments; SealTrainer takes SealTrainingArguments, .* all of"
    ):
        SealTrainer(tiny_run.model(), args)


@pytest.mark.parametrize("kind", ["seal", "energy"])
def test_what_changes_the_trainers_own_loss_is_refused(tmp_path, kind):
    def make(options, **kwargs):
        options = dict(output_dir=str(tmp_path), use_cpu=True, **options)
        if kind == "seal":
            return SealTrainer(tiny_run.model(), SealTrainingArguments(**options), **kwargs)
        return EnergyTrainer(
            tiny_run.model().loss_net, EnergyTrainingArguments(energy_method="spen", **options), **kwargs
        )

    make({})
    with pytest.raises(ValueError, match="`label_smoothing_factor` is 0.1.*`task_loss`"):
        make({"label_smoothing_factor": 0.1})
    if kind == "seal":
        return
    with pytest.raises(ValueError, match="`compute_loss_func` is .*SealTrainer a function"):
        make({}, compute_loss_func=lambda outputs, labels, **kwargs: 0)


# --- nets ------------------------------------------------------------------------------------------------------------


def test_options_that_a_fresh_net_does_not_have_are_refused():
    with pytest.raises(ValueError, match="`dropuot` is 0.3, but without `model_name_or_path` the task-net is an MLP"):
        SealForMultiLabel.for_data(tiny_run.Names, dropuot=0.3)
    with pytest.raises(ValueError, match="`adapter` is 'lora', but .* is a fresh FCN"):
        SealForSegmentation.for_data(load_masks(), adapter="lora")
    tags = load_tags()
    with pytest.raises(ValueError, match="`hidden` is 8, but .* is a BiLSTM"):
        SealForTokenClassification.for_data(tags, vocabulary=Vocabulary.from_data(tags.train), hidden=8)
    SealForMultiLabel.for_data(tiny_run.Names, adapter_rank=None)  # as a program hands on what nobody gave


def test_a_plain_model_trains_with_cross_entropy_or_a_given_loss_net(tmp_path):
    nets = tiny_run.model()
    assert trainer_with(tmp_path, nets.task_net, loss="ce").loss_net is None
    with pytest.raises(ValueError, match="`margin_cost` is 'iou'; for multi_label outputs .* f1, l1"):
        trainer_with(tmp_path, nets, loss="margin", margin_cost="iou")
    args = tiny_run.arguments(tmp_path)
    trainer = SealTrainer(nets.task_net, args, loss_net=nets.loss_net, train_dataset=TensorRows(tiny_run.table(48)))
    assert trainer.loss_net is nets.loss_net and trainer.model is nets.task_net


def test_a_loss_net_that_cannot_learn_is_refused(tmp_path):
    nets = tiny_run.model()
    nets.loss_net.requires_grad_(False)
    with pytest.raises(ValueError, match="No parameter of the loss-net requires a gradient.*loss_net_steps=0"):
        trainer_with(tmp_path, nets, loss_net_steps=0)


def test_a_loss_net_of_the_other_kind_or_size_is_refused(tmp_path):
    for built, asked in (("separate", "shared"), ("shared", "separate")):
        with pytest.raises(
            ValueError, match=f"`loss_net_encoder` is '{asked}', but the loss-net was built as '{built}'"
        ):
            trainer_with(tmp_path, tiny_run.model(built), encoder=asked)
    nets, other = tiny_run.model(), tiny_run.model()
    other.task_net.config.num_labels = 4
    with pytest.raises(ValueError, match="The loss-net has 6 labels, the task-net 4. Build both for the same labels"):
        SealTrainer(other.task_net, tiny_run.arguments(tmp_path), loss_net=nets.loss_net)


def test_a_task_net_that_is_not_multi_label_is_refused(tmp_path):
    net = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    for kind in ("single_label_classification", "regression"):
        net.config.problem_type = kind
        with pytest.raises(ValueError, match=f"'{kind}', expected 'multi_label_classification'.*from_pretrained"):
            SealTrainer(net, tiny_run.arguments(tmp_path, loss="ce"))
    net.config.problem_type = None  # it does not say: it is told, so that a pipeline decodes it rightly
    SealTrainer(net, tiny_run.arguments(tmp_path, loss="ce"))
    assert net.config.problem_type == "multi_label_classification"


@pytest.mark.parametrize("wrap", [lambda table: table, TensorRows, list], ids=["plain", "tensors", "rows"])
@pytest.mark.parametrize("part", RUN)
@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (lambda y: y[:, :4], "has 4 values; expected 6, one 0 or 1 .* Ids of labels must be written as such"),
        (lambda y: y[:, 0], "has one number; expected 6, .* use the Trainer of transformers"),
        (lambda y: 2 * y[:, 0] + 1, "has one number; expected 6"),
    ],
    ids=["four", "one", "class"],
)
def test_labels_that_are_no_sets_are_refused_at_the_start(tmp_path, part, wrap, labels, found):
    right = tiny_run.table(48)
    wrong = right.remove_columns("labels").add_column("labels", labels(np.array(right["labels"][:])).tolist())
    sets = {name: wrap(right) for name in RUN} | {part: wrap(wrong)}
    with pytest.raises(ValueError, match=f"A row of `labels` of `{part}` {found}"):
        SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path), **sets)


@pytest.mark.parametrize("loss", ["nce", "ce"])
def test_labels_of_another_shape_than_the_logits_are_refused_at_the_first_step(tmp_path, loss):
    def four(rows):
        return {"features": torch.tensor([row["features"] for row in rows]), "labels": torch.zeros(len(rows), 4)}

    nets, rows = tiny_run.model(), list(tiny_run.table(48))
    trainer = SealTrainer(nets, tiny_run.arguments(tmp_path, loss=loss), data_collator=four, train_dataset=rows)
    before = tiny_run.parameters(nets)
    with pytest.raises(ValueError, match=r"logits have shape \(16, 6\) and `labels` have shape \(16, 4\)"):
        trainer.train()
    assert torch.equal(tiny_run.parameters(nets), before)


def test_a_task_net_whose_outputs_have_no_names_is_refused(tmp_path):
    net = AutoModelForSequenceClassification.from_config(tiny_config("bert"))
    net.config.return_dict = False
    message = "BertForSequenceClassification returns tuple without `logits`. Load it with return_dict=True"
    with pytest.raises(ValueError, match=message):
        SealTrainer(net, tiny_run.arguments(tmp_path))
    rows = tokenize(tiny_texts(16), tiny_tokenizer(), max_length=8)
    with pytest.raises(ValueError, match=message):
        SealTrainer(net, tiny_run.arguments(tmp_path, loss="ce"), train_dataset=rows).train()


def test_a_collator_or_transform_of_ones_own_may_make_the_label_sets(tmp_path):
    table = tiny_run.table(48)
    labels = np.stack([np.array(table["labels"][:])] * 3, axis=1)  # of three annotators
    wide = table.remove_columns("labels").add_column("labels", labels.tolist())

    def majority(rows):
        columns = {name: torch.tensor([row[name] for row in rows]) for name in ("features", "labels")}
        return {"features": columns["features"], "labels": columns["labels"].mean(1).round()}

    args = tiny_run.arguments(tmp_path, max_steps=1)
    SealTrainer(tiny_run.model(), args, data_collator=majority, train_dataset=list(wide)).train()
    changed = wide.with_transform(lambda rows: {**rows, "labels": [labels[0] for labels in rows["labels"]]})
    SealTrainer(tiny_run.model(), args, train_dataset=changed).train()


# --- data ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda table: table, TensorRows], ids=["plain", "tensors"])
@pytest.mark.parametrize("part", RUN)
def test_a_data_set_without_labels_is_refused_by_name(tmp_path, part, wrap):
    right = tiny_run.table(48)
    for wrong, message in (
        (right.remove_columns("labels"), f"`{part}` has no column `labels`; it has features.$"),
        (
            right.rename_column("labels", "label"),
            rf"`{part}` has no column `labels`; it has .* Did you mean `label`\? Rename it: "
            r"dataset.rename_column\('label', 'labels'\).",
        ),
        (right.rename_column("labels", "Lables"), "Did you mean `Lables`"),
    ):
        sets = {name: wrap(right) for name in RUN} | {part: wrap(wrong)}
        with pytest.raises(ValueError, match=message):
            SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path), **sets)


@pytest.mark.parametrize("collection", [dict, DatasetDict])
def test_one_of_several_evaluation_sets_without_labels_is_named(tmp_path, collection):
    right = tiny_run.table(48)
    sets = collection({"here": right, "there": right.rename_column("labels", "label")})
    with pytest.raises(ValueError, match=r"`eval_dataset\['there'\]` has no column `labels`.*Did you mean `label`"):
        SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path), train_dataset=right, eval_dataset=sets)
    sets["there"] = right
    SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path), train_dataset=right, eval_dataset=sets)


def test_an_iterable_data_set_cannot_be_repeated(tmp_path):
    stream = tiny_run.table(48).to_iterable_dataset()
    with pytest.raises(ValueError, match="`batch_repeats` is 2, but the training data is an iterable data set"):
        trainer_with(tmp_path, rows=stream, batch_repeats=2, max_steps=3)
    trainer_with(tmp_path, rows=stream, max_steps=3).train()


def test_rows_in_another_order_than_shuffled_cannot_be_repeated(tmp_path):
    old = "group_by_length" in vars(tiny_run.arguments(tmp_path))  # of transformers 4
    name, value = ("group_by_length", True) if old else ("train_sampling_strategy", "sequential")
    with pytest.raises(ValueError, match=f"`batch_repeats` is 2, .* but {name}={value!r}. Leave one of them out"):
        trainer_with(tmp_path, batch_repeats=2, **{name: value})
    few = TensorRows(tiny_run.table(48))
    few.num_labelled = 10
    with pytest.raises(ValueError, match=f"Only the first rows have gold, .* but {name}={value!r}. Leave one of them"):
        trainer_with(tmp_path, rows=few, **{name: value})


def test_the_rule_needs_the_usual_evaluations(tmp_path):
    if "use_legacy_prediction_loop" not in vars(tiny_run.arguments(tmp_path)):
        pytest.skip("transformers 5 has no such option")
    with pytest.raises(ValueError, match="`use_legacy_prediction_loop` is True: .* or give `energy_weight`"):
        tiny_run.arguments(tmp_path, use_legacy_prediction_loop=True, energy_weight=None)
    assert tiny_run.arguments(tmp_path, use_legacy_prediction_loop=True, energy_weight=1.0)


def test_prediction_needs_no_labels(tmp_path):
    trainer, unlabelled = trainer_with(tmp_path), tiny_run.table(48).remove_columns("labels")
    output = trainer.predict(TensorRows(unlabelled))
    assert torch.equal(
        torch.as_tensor(output.predictions),
        torch.as_tensor(trainer.predict(TensorRows(tiny_run.table(48))).predictions),
    )
    assert output.label_ids is None and "test_loss" not in output.metrics


@pytest.mark.parametrize("wrap", [list, TensorRows, lambda table: table], ids=["rows", "tensors", "table"])
@pytest.mark.parametrize("part", RUN)
def test_labels_that_are_none_are_refused_at_the_start(tmp_path, part, wrap):
    """-100 counts for nothing in tags, but there is no such value in label sets."""
    right = tiny_run.table(48)
    labels = np.array(right["labels"][:])
    for value in (-100, 2, 0.5):
        labels[40, 3] = value
        wrong = right.remove_columns("labels").add_column("labels", labels.tolist())
        sets = {name: wrap(right) for name in RUN} | {part: wrap(wrong)}
        with pytest.raises(ValueError, match=f"`labels` of `{part}` holds {value}; expected 0 or 1"):
            SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path), **sets)


def test_labels_by_name_are_refused(tmp_path):
    rows = [{"features": torch.zeros(tiny_run.FEATURES), "labels": ["a", "b"]}]
    with pytest.raises(ValueError, match=r"`labels` of `train_dataset` holds \['a', 'b'\], but must hold numbers"):
        SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path), train_dataset=rows)


def test_ids_beyond_the_tags_are_refused():
    space = TagSequenceSpace(["a", "b", "c"])
    space.check_values(torch.tensor([[0, 2, -100]]), "train_dataset")
    for wrong in (3, -1):
        with pytest.raises(
            ValueError, match=f"`labels` of `train_dataset` holds {wrong}, but there are 3 tags: ids are"
        ):
            space.check_values(torch.tensor([[0, wrong, -100]]), "train_dataset")
    RewardTagSpace(None, ["a", "b", "c"]).check_values(torch.tensor([[-1, 2, -100]]), "train_dataset")


def test_rows_that_are_a_list_or_none_at_all(tmp_path):
    row = {"features": torch.randn(tiny_run.FEATURES), "label": torch.zeros(tiny_run.LABELS)}
    with pytest.raises(ValueError, match="`train_dataset` has no column `labels`; it has features, label. Did you"):
        SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path), train_dataset=[row] * 4)
    with pytest.raises(ValueError, match="`train_dataset` is empty: it has no rows"):
        SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path), train_dataset=[])


@pytest.mark.parametrize("collection", [dict, DatasetDict])
def test_several_sets_to_train_on_are_refused(tmp_path, collection):
    sets = collection({"train": tiny_run.table(48), "test": tiny_run.table(48)})
    with pytest.raises(ValueError, match=r"`train_dataset` has several data sets, train, test: .* dataset\['train'\]"):
        SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path), train_dataset=sets)


BEST = dict(eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, num_train_epochs=1)


@pytest.mark.parametrize(
    "metric, compute_metrics, message",
    [
        ("nosuch", None, "is 'nosuch', which no evaluation of this run gives. It must be one of loss, energy_output"),
        ("eval_f1_exmple", multilabel_compute_metrics, "is 'eval_f1_exmple', .* Did you mean 'f1_example'. It must be"),
        ("f1", tagging_compute_metrics(["a", "b"], "plain"), "is 'f1', which no evaluation of this run gives. It must"),
        ("iou", mask_compute_metrics, "is 'iou', .* It must be one of mean_iou, pixel_accuracy, loss"),
    ],
)
def test_a_metric_that_no_evaluation_gives_is_refused_before_training(metric, compute_metrics, message, tmp_path):
    trainer, _ = tiny_run.make(tmp_path, metric_for_best_model=metric, **BEST)
    trainer.compute_metrics = compute_metrics
    with pytest.raises(ValueError, match=f"`metric_for_best_model` {message}"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_without_a_loss_net_no_figure_of_energies_chooses_the_checkpoint(tmp_path):
    for loss in ("ce", "nce"):
        trainer, _ = tiny_run.make(tmp_path, loss, metric_for_best_model="energy_auc", **BEST)
        with pytest.raises(ValueError, match="'energy_auc', which no evaluation") if loss == "ce" else nullcontext():
            trainer.train()


def test_a_metric_of_several_evaluations_has_the_name_of_its_data_set(tmp_path):
    trainer, _ = tiny_run.make(tmp_path, metric_for_best_model="a_f1_micro", **BEST)
    trainer.compute_metrics, trainer.eval_dataset = multilabel_compute_metrics, {"a": trainer.eval_dataset}
    trainer.train()
    assert trainer.state.best_metric is not None
    trainer.args.metric_for_best_model = "f1_micro"
    with pytest.raises(ValueError, match="is 'f1_micro', .* Did you mean 'a_f1_micro'"):
        trainer.train()


def test_a_metric_that_is_not_computed_is_named(tmp_path):
    """Of a function, or an evaluation, of one's own, whose figures nobody can know."""
    trainer, _ = tiny_run.make(tmp_path, metric_for_best_model="nosuch", **BEST)
    trainer.compute_metrics = lambda found: {"mine": 1.0}
    with pytest.raises(ValueError, match="set to 'eval_nosuch', which is not found in the evaluation metrics"):
        trainer.train()

    class Own(SealTrainer):
        def evaluate(self, *args, **kwargs):
            return super().evaluate(*args, **kwargs) | {"eval_mine": 1.0}

    args = tiny_run.arguments(tmp_path / "own", metric_for_best_model="mine", **BEST)
    rows = TensorRows(tiny_run.table())
    trainer = Own(tiny_run.model(), args, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    assert trainer.state.best_metric == 1.0


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (dict(num_layers=-1), "`num_layers` is -1; it must be a finite number, at least 0"),
        (dict(hidden_size=-5), "`hidden_size` is -5"),
        (dict(global_size=-1), "`global_size` is -1; it must be a width, or 0"),
        (dict(dropout=1.0), "`dropout` is 1.0; it must be a finite number, at least 0 and below 1"),
    ],
)
def test_sizes_that_no_net_has_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        SealForMultiLabel.for_data(tiny_run.Names, **sizes)


def test_features_of_another_width_are_refused():
    nets = SealForMultiLabel.for_data(tiny_run.Names, hidden_size=8)
    with pytest.raises(ValueError, match=r"`features` has shape \(3, 7\); this net reads \(batch, 20\)"):
        nets.predict(features=torch.randn(3, 7))


def test_a_length_without_room_for_a_word_is_refused():
    with pytest.raises(ValueError, match="`max_length` is 2; with special tokens a row has at least 3"):
        tokenize(tiny_texts(3), tiny_tokenizer(), 2)


def test_adapters_that_would_not_come_back_are_refused(tmp_path):
    """Of transformers' own integration no weights were left after a save; of another name, PEFT saves elsewhere."""
    peft = pytest.importorskip("peft")
    own, named = (AutoModelForSequenceClassification.from_config(tiny_config("bert")) for _ in range(2))
    own.add_adapter(peft.LoraConfig(target_modules=["query"]))
    named = peft.get_peft_model(named, peft.LoraConfig(target_modules=["query"]), adapter_name="task")
    for model, message in ((own, "an adapter from transformers' own integration"), (named, "adapter is called 'task'")):
        with pytest.raises(ValueError, match=message):
            SealTrainer(model, tiny_run.arguments(tmp_path, "ce"))
        with pytest.raises(ValueError, match=message):
            SealForMultiLabel(model, tiny_run.model().loss_net).save_pretrained(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            dict(neftune_noise_alpha=5.0),
            "`neftune_noise_alpha` is 5.0, but the model, MLPForMultiLabel, embeds",
        ),
        (
            dict(label_names=["gold"]),
            r"`label_names` is \['gold'\], but gold outputs are read from the column `labels`",
        ),
    ],
)
def test_arguments_of_the_trainer_that_are_not_for_these_nets_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        trainer_with(tmp_path, **options)


def test_weights_that_are_pickles_are_refused(tmp_path):
    if "save_safetensors" not in {field.name for field in fields(TrainingArguments)}:
        pytest.skip("transformers 5 saves safetensors alone")
    with pytest.raises(ValueError, match="`save_safetensors` is False, but saved nets are read as safetensors alone"):
        trainer_with(tmp_path, save_safetensors=False)


def test_two_ways_to_read_logits_are_refused(tmp_path):
    nets, args = tiny_run.model(), tiny_run.arguments(tmp_path)
    with pytest.raises(ValueError, match="`decode_predictions` is True, .*`preprocess_logits_for_metrics` is given"):
        SealTrainer(nets, args, decode_predictions=True, preprocess_logits_for_metrics=lambda logits, labels: logits)


def test_options_of_a_fresh_net_are_refused_beside_a_pretrained_one(tmp_path):
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path)
    texts = SimpleNamespace(name="texts", kind="text", label_names=list("abc"), label_rates=None)
    with pytest.raises(ValueError, match="`dropout` is for the MLP for features, but 'texts' is text"):
        SealForMultiLabel.for_data(texts, tmp_path, dropout=0.3)
    tags = SimpleNamespace(name="tags", label_names=["a", "b"])
    with pytest.raises(ValueError, match="`vocabulary` is for a fresh BiLSTM, but `model_name_or_path` is"):
        SealForTokenClassification.for_data(tags, tmp_path, vocabulary=Vocabulary(["<pad>", "<unk>"]))


def test_values_that_a_search_sets_are_checked(tmp_path):
    """The Trainer writes them into the arguments, past their constructor."""
    trainer = trainer_with(tmp_path, max_steps=1)
    trainer.args.margin_cost = "hamming"
    with pytest.raises(ValueError, match="`margin_cost` is 'hamming'"):
        trainer.train()
    args = EnergyTrainingArguments(str(tmp_path), energy_method="dvn", use_cpu=True, report_to=[], max_steps=1)
    energy = EnergyTrainer(tiny_run.model().loss_net, args, train_dataset=TensorRows(tiny_run.table(48)))
    energy.args.inference_optimizer = "newton"
    with pytest.raises(ValueError, match="`inference_optimizer` is 'newton'"):
        energy.train()


def test_persistent_workers_do_not_go_with_rows_that_differ_by_epoch(tmp_path):
    """They would keep the crops of their first epoch, and a resumed run those of another."""
    options = dict(dataloader_num_workers=1, dataloader_persistent_workers=True)
    crops = MaskRows(tiny_masks.squares(8), tiny_masks.CROP)
    with pytest.raises(ValueError, match="`dataloader_persistent_workers` is True, .* a MaskRows, differs by epoch"):
        tiny_masks.make(tmp_path, tiny_masks.model(), crops, **options)
    tiny_masks.make(tmp_path, tiny_masks.model(), MaskRows(tiny_masks.squares(8)), **options)
