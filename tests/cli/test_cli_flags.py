"""Flags that nothing reads, against the arguments that there are."""

from dataclasses import fields

import pytest
import torch
from losses import LOSSES_OF_ENERGIES

from seal_hf import (
    ENERGY_LOSSES,
    ENERGY_METHODS,
    EnergyTrainingArguments,
    MultiLabelSpace,
    SealTrainingArguments,
)
from seal_hf.cli.predict import evaluate_flags, predict_flags
from seal_hf.cli.programs import UsageError
from seal_hf.cli.train.flags import check_flags, readers
from seal_hf.core.task import TASKS
from seal_hf.lab.analysis import main as analyse
from seal_hf.lab.compare import program as compare
from seal_hf.lab.demo.program import demo_flags
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.rewards.program import check_main


def check(words, output="labels", **options):
    check_flags(SealTrainingArguments("runs", use_cpu=True, **options), words.split(), output)


@pytest.mark.parametrize(
    "words, options, message",
    [
        (
            "--perturbation_std 3",
            {"perturbation_std": 3.0},
            "`perturbation_std` is read only with energy_loss regression_s, but energy_loss is",
        ),
        (
            "--gold-mix=0.3",
            {"energy_loss": "margin", "gold_mix": 0.3},
            "`gold_mix` is read only with energy_loss nce or ranking",
        ),
        (
            "--unique_roles_weight 3",
            {"unique_roles_weight": 3.0},
            "`unique_roles_weight` is read only with task_loss unique_roles, but task_loss is 'cross_entropy'",
        ),
        (
            "--hypergradient_terms 9",
            {"hypergradient_terms": 9},
            "`hypergradient_terms` is read only with hypergradient neumann or cg",
        ),
        (
            "--pixel_loss mean",
            {"pixel_loss": "mean"},
            "`pixel_loss` is for another kind of output, masks .seal-hf train segmentation.",
        ),
    ],
)
def test_a_flag_that_nothing_reads_is_refused(words, options, message):
    with pytest.raises(ValueError, match=message):
        check(words, **options)


@pytest.mark.parametrize(
    "words, options, message",
    [
        (
            "--margin_cost l1",
            {"energy_loss": "regression", "margin_cost": "l1"},
            "read only with energy_loss margin or infnet",
        ),
        (
            "--margin_cost l1",
            {"energy_loss": "nce", "margin_cost": "l1"},
            "`margin_cost` is not read if cost_weight is 0.0. Leave it out, or give --cost_weight",
        ),
        (
            "--margin_cost l1 --margin_type perceptron",
            {"energy_loss": "infnet", "margin_cost": "l1", "margin_type": "perceptron"},
            "`margin_cost` is not read if margin_type is 'perceptron'",
        ),
        (
            "--perturbation_std 2",
            {"energy_loss": "regression_s", "regression_samples": "discrete", "perturbation_std": 2.0},
            "`perturbation_std` is not read if regression_samples is 'discrete'",
        ),
        (
            "--num_samples 5",
            {"energy_loss": "margin", "num_samples": 5},
            "contrastive_divergence or with task_loss ranking, but energy_loss is 'margin' and task_loss is 'cross_en",
        ),
        (
            "--cost_augmented_network shared",
            {"cost_augmented_network": "shared"},
            "read only with energy_loss infnet_plus",
        ),
    ],
)
def test_what_the_loss_does_not_name_among_its_options_is_refused(words, options, message):
    with pytest.raises(ValueError, match=message):
        check(words, "tags", **options)


def test_what_some_reader_takes_is_taken():
    check("--num_samples 5", energy_loss="margin", task_loss="ranking", num_samples=5)
    check("--margin_cost l1 --cost_weight 1", energy_loss="nce", margin_cost="l1", cost_weight=1.0)
    check("--num_samples 5 --margin_cost l1", energy_loss="ce", num_samples=5, margin_cost="l1")


@pytest.mark.parametrize(
    "method, words, message",
    [
        (
            "nce",
            "--inference_steps 9",
            "`inference_steps` is read only with energy_method spen or dvn, but energy_method is",
        ),
        ("spen", "--num_samples 5", "read only with energy_method nce or ranking or regression_s, but"),
        ("dvn", "--margin_cost l1", "read only with energy_method spen, but energy_method is 'dvn'"),
        ("ranking", "--margin_cost l1", "read only with energy_method spen, but"),
        ("nce", "--regression_samples discrete", "read only with energy_method regression_s, but"),
        ("spen", "--margin_cost l1 --inference_steps 9", None),
        ("regression_s", "--num_samples 5 --perturbation_std 2", None),
        (
            "regression_s",
            "--perturbation_std 2 --regression_samples discrete",
            "not read if regression_samples is 'dis",
        ),
        ("dvn", "--inference_steps 9 --dvn_points start --inference_start zeros", None),
    ],
)
def test_flags_of_an_energy_network_on_its_own(method, words, message):
    names, values = words.split()[::2], words.split()[1::2]
    known = {name[2:]: int(value) if value.isdigit() else value for name, value in zip(names, values, strict=True)}
    known |= {"dvn_points": [known["dvn_points"]]} if "dvn_points" in known else {}
    args = EnergyTrainingArguments("runs", use_cpu=True, energy_method=method, **known)
    if message is None:
        return check_flags(args, words.split(), "labels")
    with pytest.raises(ValueError, match=message):
        check_flags(args, words.split(), "labels")


EPOCHS = {"eval_strategy": "epoch", "metric_for_best_model": "f1_example"}


@pytest.mark.parametrize(
    "words, changes, message",
    [
        (
            "--adapter_rank 3",
            {},
            "`adapter_rank` is read only with adapter or with loss_net_encoder peft or adapters, ",
        ),
        (
            "--adapter_targets q",
            {},
            "but adapter is None and loss_net_encoder is 'shared'. Leave it out, or give --adap",
        ),
        ("--adapter_rank 3 --adapter lora", {}, None),
        ("--adapter_rank 3 --loss_net_encoder peft", {}, None),
        (
            "--loss_net_encoder_learning_rate 1",
            {},
            "is not read if loss_net_encoder is 'shared'. Leave it out, or give",
        ),
        ("--loss_net_encoder_learning_rate 1 --loss_net_encoder separate", {}, None),
        ("--loss_net_encoder_learning_rate 1 --loss ce", {}, None),
        ("", {"adapter_rank": 3, "loss_net_encoder_learning_rate": 1.0}, None),  # a recipe may hold them
    ],
)
def test_flags_of_nets_that_other_flags_make_idle(words, changes, message):
    arguments = mlc.PROGRAM.parse(["--output_dir", "o", *words.split()], {"loss_net_encoder": "shared", **changes})
    parts = (words.split(), "labels", arguments.data, arguments.nets)
    if message is None:
        return check_flags(arguments.training, *parts)
    with pytest.raises(ValueError, match=message):
        check_flags(arguments.training, *parts)


@pytest.mark.parametrize(
    "words, message",
    [
        ("--save_steps 5", "`save_steps` is read only with save_strategy steps, but save_strategy is 'epoch'"),
        ("--save_steps 5 --save_strategy steps --load_best_model_at_end false", None),
        ("--eval_steps 5", "`eval_steps` is read only with eval_strategy steps, but eval_strategy is 'epoch'"),
        ("--eval_strategy no --metric_for_best_model f1 --patience 0", "`metric_for_best_model` is read only with"),
        ("--warmup_steps 3 --lr_scheduler_type constant", "`warmup_steps` is read only with lr_scheduler_type linear"),
        ("--warmup_steps 3", None),
        ("--fsdp_config {}", "`fsdp_config` is read only with fsdp, but fsdp is"),
        ("--hub_model_id a/b", "`hub_model_id` is read only with push_to_hub, but push_to_hub is False"),
        (
            "--dataloader_persistent_workers true",
            "is read only with dataloader_num_workers, but dataloader_num_workers",
        ),
        ("--optim_target_modules attn", "`optim_target_modules` is read only with optim galore_adamw or"),
        ("--optim_target_modules attn --optim galore_adamw", None),
        (
            "--length_column_name x",
            "read only with group_by_length or with train_sampling_strategy group_by_length",
        ),
        ("--project p", "`project` is read only with report_to trackio, but report_to is"),
        ('--gradient_checkpointing_kwargs {"use_reentrant":false}', "read only with gradient_checkpointing"),
        ('--gradient_checkpointing true --gradient_checkpointing_kwargs {"use_reentrant":false}', None),
    ],
)
def test_flags_of_the_trainer_that_other_flags_make_idle(words, message):
    arguments = mlc.PROGRAM.parse(["--output_dir", "o", *words.split()], {"save_strategy": "epoch", **EPOCHS})
    parts = (words.split(), "labels", arguments.data, arguments.nets)
    if message is None:
        return check_flags(arguments.training, *parts)
    with pytest.raises(ValueError, match=message):
        check_flags(arguments.training, *parts)


@pytest.mark.parametrize(
    "words, message",
    [
        ("--relaxed_mass 0.5", "`relaxed_mass` is for 2000 labels or more .--sparse_labels_from., but 'digits' has 18"),
        ("--relaxed_width 2", "`relaxed_width` is for 2000 labels or more"),
        ("--adapter_export adapter", "`adapter_export` is 'adapter', but the task-net has no adapter"),
        ("--hidden_size 0", "`hidden_size` is 0; it must be a finite number, at least 1"),
        (
            "--lr_scheduler_type warmup_stable_decay",
            "`lr_scheduler_kwargs` is .*'warmup_stable_decay' cannot be built: ",
        ),
        ("--keep_id true", "`keep_id` is an option of ARFF files, but digits is not one"),
    ],
)
def test_flags_that_these_data_and_nets_do_not_read(words, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        mlc.main(["--output_dir", str(tmp_path), "--use_cpu", "true", "--report_to", "none", *words.split()])


HUGE = f"1{'0' * 400}"


def compare_flags(words):
    return compare.parse(*compare.kind_of(words))


@pytest.mark.parametrize("flags", [predict_flags, evaluate_flags, demo_flags])
@pytest.mark.parametrize(
    "words, message",
    [
        ("--model=", "`model` is empty. Give a value, or leave it out; is a variable unset?. All flags: seal-hf "),
        ("--model=a\0b", "`model` holds the character NUL"),
        ("--batch_size 0", "--batch_size: '0' is not a whole number of at least 1"),
        (f"--batch_size {HUGE}", "`batch_size` is 10{79}...; it must be a finite number, .*at most 2,147,483,647"),
        ("--max_length=-1", "--max_length: '-1' is not a whole number of at least 1"),
        ("--decoder=", "`decoder` is empty"),
        ("--revision v1", "`revision` is of a Hub id, but . is a folder. Leave it out"),
    ],
)
def test_values_of_the_flags_of_a_saved_model(flags, words, message):
    needed = ["--model", "."] + ([] if flags is demo_flags else ["--input", "x"])
    with pytest.raises(UsageError, match=message) as error:
        flags().parsed([*needed, *words.split(" ")])
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


@pytest.mark.parametrize(
    "main, words",
    [
        (compare_flags, ["--output_dir", ""]),
        (compare_flags, ["--output_dir", __file__]),
        (compare_flags, ["--budget", HUGE]),
        (check_main, ["check", "a\0b"]),
        (analyse, ["hessian", ""]),
        (analyse, ["hessian", "x", "--output_dir", __file__]),
        (analyse, ["tags", "x", "--max_rows", "0"]),
    ],
)
def test_values_of_the_flags_of_other_commands(main, words):
    with pytest.raises(ValueError, match="^`(output_dir|budget|recipes|rules|folder|max_rows)` (is|holds) "):
        main(words)


class Recorded:
    """The names of the options that were read, of a loss whose class this mixes in."""

    def __getattribute__(self, name):
        if name in {field.name for field in fields(object.__getattribute__(self, "__class__"))}:
            object.__getattribute__(self, "seen").add(name)
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("name", LOSSES_OF_ENERGIES)
def test_every_option_of_an_energy_loss_is_read(name):
    kind, logits, labels = ENERGY_LOSSES[name], torch.randn(3, 4), torch.eye(3, 4)
    options, read = {field.name for field in fields(kind)}, set()
    for given in ({}, {"cost_weight": 1.0, "gold_mix": 0.3, "distinct_samples": True}):
        loss = kind(**{option: value for option, value in given.items() if option in options})
        loss.seen = read
        loss.__class__ = type("Recording", (Recorded, kind), {})
        partner = logits.flip(1) if loss.has_partner else None
        candidates = loss.candidates(MultiLabelSpace(), logits, labels, torch.Generator().manual_seed(0), partner)
        energies = torch.randn(candidates.y.shape[:2])
        loss(energies, candidates)
        if loss.reads_gold:
            loss.task_term(energies[:, :2], torch.rand(3, 1))
        else:
            loss.task_term(energies[:, :1])
    assert read == options


def idle_options(kind):
    return {field.name: field.metadata["idle"] for field in fields(kind) if field.metadata.get("idle")}


OTHERS = {"margin_cost": ("f1", "l1"), "perturbation_std": (1.0, 3.0)}  # two values of options that may be idle
READ_AGAIN = {"cost_weight": 1.0, "margin_type": "rescaled", "regression_samples": "continuous"}


@pytest.mark.parametrize("name", [name for name, kind in ENERGY_LOSSES.items() if idle_options(kind)])
def test_an_idle_option_changes_no_loss_and_one_that_is_read_does(name):
    kind = ENERGY_LOSSES[name]

    def value(**options):
        loss, logits, labels = kind(**options), torch.linspace(-2, 2, 12).view(3, 4), torch.eye(3, 4)
        partner = logits.flip(1) if loss.has_partner else None
        candidates = loss.candidates(MultiLabelSpace(), logits, labels, torch.Generator().manual_seed(0), partner)
        energies = torch.arange(candidates.y[..., 0].numel()).view(candidates.y.shape[:2]).remainder(5).float() / 5
        return loss(energies, candidates)

    for option, (other, idle) in idle_options(kind).items():
        one, two = ({option: choice} for choice in OTHERS[option])
        assert torch.equal(value(**one, **{other: idle}), value(**two, **{other: idle}))
        assert not torch.equal(value(**one, **{other: READ_AGAIN[other]}), value(**two, **{other: READ_AGAIN[other]}))


def test_every_method_and_option_that_is_named_is_there():
    arguments = {field.name for field in fields(EnergyTrainingArguments)}
    assert {name for method in ENERGY_METHODS.values() for name in method.also_reads} <= arguments


def test_a_flag_that_is_read_or_waits_for_an_energy_loss_is_taken():
    check("--perturbation_std 3", energy_loss="regression_s", perturbation_std=3)
    given = dict(gold_mix=0.3, perturbation_std=3.0, margin_type="slack")
    check("--gold_mix 0.3 --perturbation_std 3 --margin_type slack", energy_loss="ce", **given)
    check("--distinct_samples false", energy_loss="margin")  # its default
    check("--coherence_size 3", "masks", sample_coherence="field", coherence_size=3)


def test_a_loss_of_ones_own_reads_what_its_class_reads(monkeypatch):
    monkeypatch.setitem(ENERGY_LOSSES, "mine", type("Mine", (ENERGY_LOSSES["nce"],), {"name": "mine"}))
    check("--gold_mix 0.3", energy_loss="mine", gold_mix=0.3)


def test_the_tables_name_arguments_and_outputs_that_there_are():
    arguments = {field.name for field in fields(SealTrainingArguments)}
    read_by = readers(SealTrainingArguments("runs", use_cpu=True))
    assert set().union(*(task.arguments for task in TASKS.values())) | set(read_by) <= arguments
    assert {name for task in TASKS.values() for name in (*task.choices, *task.switches)} <= arguments
    assert {switch for switches in read_by.values() for switch in switches} <= arguments
