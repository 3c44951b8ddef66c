"""Oracle: HfArgumentParser on the equivalent command line."""

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Optional

import pytest
import yaml
from transformers import HfArgumentParser, TrainingArguments

from seal_hf import EnergyTrainingArguments, SealTrainingArguments
from seal_hf.cli.recipes import packaged_recipe, parse_recipe
from seal_hf.cli.train.flags import RunArguments, early_stopping
from seal_hf.tasks.labels import program as mlc

# "billion laughs": ten aliases of ten aliases of ...
LAUGHS = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12))
LAUGHS = "a0: &a0 [x]\n" + LAUGHS


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Data:
    dataset: str
    normalize: Literal["none", "standard", "minmax", "auto"] = "none"
    columns: list[str] = field(default_factory=lambda: ["text"])
    folds: Optional[int] = None  # noqa: UP045 - both spellings of an optional type
    limit: int | None = 5
    shuffle: bool = True
    colour: Colour = "red"


@dataclass
class Method:
    energy_loss: str = field(default="nce", metadata={"aliases": ["--loss"]})
    rate: float = 0.1
    verbose: bool = False


@dataclass
class SealLike(TrainingArguments):
    energy_loss: str = field(default="nce", metadata={"aliases": ["--loss"]})
    num_samples: int = 20
    energy_weight: float = 1.0
    loss_net_learning_rate: float | None = None


@pytest.fixture
def recipe(tmp_path):
    def write(text):
        file = tmp_path / "recipe.yaml"
        file.write_text(text, encoding="utf-8")
        return ["--recipe", str(file)]

    return write


def test_a_recipe_equals_the_same_command_line(recipe):
    text = """
    dataset: bibtex
    normalize: standard
    columns: [title, abstract]
    folds: 3
    limit: null
    shuffle: false
    colour: blue
    loss: ranking   # an alias
    rate: 1e-3      # YAML reads this as text
    verbose: true
    """
    flags = "--dataset bibtex --normalize standard --columns title abstract --folds 3 --shuffle false --colour blue"
    flags += " --loss ranking --rate 1e-3 --verbose"
    expected = HfArgumentParser((Data, Method)).parse_args_into_dataclasses(flags.split(), look_for_args_file=False)
    expected[0].limit = None  # which no flag can say
    assert parse_recipe((Data, Method), recipe(text)) == tuple(expected)


def test_without_a_recipe_it_is_the_plain_parser():
    assert parse_recipe((Data, Method), ["--dataset", "x"]) == (Data("x"), Method())
    assert parse_recipe(Method, []) == (Method(),)


def test_command_line_flags_win(recipe):
    argv = recipe("dataset: a\nloss: ranking\nshuffle: true\ncolumns: [a]\nrate: 5") + ["--loss", "ce", "--no_shuffle"]
    data, method = parse_recipe((Data, Method), argv + ["--columns", "b", "c"])
    assert (method.energy_loss, method.rate) == ("ce", 5.0) and type(method.rate) is float
    assert (data.shuffle, data.columns) == (False, ["b", "c"])
    # the field's own name on the command line beats the alias in the file
    assert parse_recipe(Method, recipe("loss: ranking") + ["--energy_loss", "ce"]) == (Method("ce"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat: 1", "unknown key 'learning_rat'. Did you mean 'learning_rate'?"),
        ("12: 1", "unknown key '?12"),
        ("picture: 2", "picture is an option of earlier versions. The page report.html shows images and masks."),
        ("loss: ce\nenergy_loss: ce", "'loss' and 'energy_loss' are the same setting"),
        ("num_samples: many", r"'num_samples' is 'many' \(str\), expected int"),
        ("num_samples: 2.5", r"'num_samples' is 2.5 \(float\), expected int"),
        ("num_samples: true", r"'num_samples' is True \(bool\), expected int"),
        ("num_samples: [1, 2]", r"'num_samples' is \[1, 2\] \(list\), expected int"),
        ("num_samples:", r"'num_samples' is None \(NoneType\), expected int"),
        ("energy_weight: a lot", "'energy_weight' is 'a lot' .*expected float"),
        ("energy_weight: {a: 1}", r"expected float"),
        ("energy_loss: 5", r"'energy_loss' is 5 \(int\), expected str \(text\); put quotes"),
        ("eval_strategy: no", "expected one of no, steps, epoch; YAML reads yes, no"),
        ("eval_strategy: often", "'eval_strategy' is 'often' .*expected one of no, steps, epoch"),
        ("bf16: 3", r"'bf16' is 3 \(int\), expected bool"),
        ("bf16: perhaps", "expected bool"),
        ("learning_rate: 1\nlearning_rate: 2", "not a YAML file: key 'learning_rate' twice"),
        ("- a\n- b", "expected lines of `key: value`, found a list"),
        ("a: [", "not a YAML file"),
        ("a: !!python/object/apply:os.getcwd []", "not a YAML file"),
        ("a: " + "[" * 5000, "not a YAML file: values nested more than 30 deep"),
        ("a: " + "{a: " * 5000, "not a YAML file: values nested more than 30 deep"),
        ("a: &a [*a, *a]", "not a YAML file: a value that contains itself line 1, column 8"),
        (LAUGHS, "not a YAML file: aliases that repeat each other, more than 100,000 values"),
        (LAUGHS.replace("[", "{<<: [").replace("]", "]}").replace("{<<: [x]}", "{x: 1}"), "aliases that repeat"),
        ("\n".join(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 40)).replace("*a0", "0"), "aliases .* 30 deep"),
        ("\n".join(f"k{i}: 1" for i in range(20_000)), "has 188,889 bytes; expected a YAML file"),
        ("#" * 70_000, "has 70,000 bytes; expected a YAML file of at most 65,536. Is it another file?"),
        ("[a]: 1", "not a YAML file: a key that is a list or a mapping"),
        ("{a: 1}: 1", "not a YAML file: a key that is a list or a mapping"),
        ("? !!set {a}\n: 1", "not a YAML file: a key that is a list or a mapping"),
        ("on: 1", "unknown key True"),
        ("null: 1", "unknown key None"),
        ("seed: 010", "not a YAML file: 010, which YAML reads as 8; write 8, or put quotes around a text line 1, col"),
        ("num_samples: 1:30", "not a YAML file: 1:30, which YAML reads as 90; write 90"),
        ("learning_rate: 1:30.5", "not a YAML file: 1:30.5, which YAML reads as 90.5"),
        ("num_samples: 2024-01-01", r"'num_samples' is datetime.date\(2024, 1, 1\) \(date\), expected int"),
        ("seed:\t1\n\tnum_samples: 2", "not a YAML file: .* found character '.t' that cannot start any token"),
        ("a: \0", "not a YAML file: unacceptable character #x0000"),
        ("seed: 1\n---\nseed: 2", "not a YAML file: expected a single document"),
    ],
)
def test_a_wrong_recipe_is_named(recipe, text, message):
    argv = recipe(text)
    with pytest.raises(ValueError, match=message) as error:
        parse_recipe(SealLike, argv)
    assert "\n" not in str(error.value) and len(str(error.value)) < 1000
    assert argv[1] in str(error.value)


def test_a_merge_is_no_key(recipe):
    assert parse_recipe(SealLike, recipe("<<: {num_samples: 3}\n<<: {num_samples: 4}"))[0].num_samples in (3, 4)


def test_wrong_elements_of_a_list_are_named(recipe):
    with pytest.raises(ValueError, match=r"'columns\[1\]' is 3 \(int\), expected str"):
        parse_recipe(Data, recipe("dataset: a\ncolumns: [a, 3]"))
    with pytest.raises(ValueError, match="'columns' is 'a' .*expected a list, each str"):
        parse_recipe(Data, recipe("dataset: a\ncolumns: a"))


def test_missing_file_and_unknown_flag(recipe):
    with pytest.raises(FileNotFoundError, match="no recipe file nowhere.yaml"):
        parse_recipe(Method, ["--recipe", "nowhere.yaml"])
    with pytest.raises(ValueError, match="unknown command-line argument '--los'. Did you mean '--loss'?"):
        parse_recipe(Method, ["--los", "ce"])
    with pytest.raises(ValueError, match="^--train-subset is an option of earlier versions. Give a smaller file"):
        parse_recipe(Method, ["--train-subset", "random"])
    with pytest.raises(ValueError, match="arguments are required: --dataset"):  # which neither sets
        parse_recipe((Data, Method), recipe("rate: 1"))


def test_an_empty_recipe_changes_nothing(recipe):
    assert parse_recipe(Method, recipe("# nothing\n")) == (Method(),)


def test_the_default_recipe_sees_the_command_line_and_yields_to_a_recipe(recipe):
    seen = []

    def default_recipe(namespace):
        seen.append((namespace.dataset, namespace.rate))
        return {"rate": 2.0, "dataset": "embedded"} if namespace.dataset is None else None

    call = lambda argv: parse_recipe((Data, Method), argv, default_recipe=default_recipe)  # noqa: E731
    data, method = call(["--rate", "3"])
    assert (data.dataset, method.rate, seen.pop()) == ("embedded", 3.0, (None, 3.0))
    assert call([])[1].rate == 2.0 and seen.pop() == (None, 0.1)
    assert call(["--dataset", "x"]) == (Data("x"), Method()) and seen.pop() == ("x", 0.1)
    assert call(recipe("dataset: y"))[0].dataset == "y" and not seen
    with pytest.raises(ValueError, match="the default recipe: unknown key 'rat'. Did you mean 'rate'?"):
        parse_recipe(Method, [], default_recipe=lambda namespace: {"rat": 1})


def test_training_arguments_with_complicated_types(recipe, tmp_path):
    text = f"""
    output_dir: {tmp_path}
    lr_scheduler_type: cosine_with_restarts
    lr_scheduler_kwargs: {{num_cycles: 2}}
    report_to: [none]
    label_names: [labels]
    eval_strategy: "no"
    use_cpu: yes
    max_steps: 3
    """
    (args,) = parse_recipe(SealLike, recipe(text))
    assert args.lr_scheduler_type == "cosine_with_restarts" and args.lr_scheduler_kwargs == {"num_cycles": 2}
    assert args.label_names == ["labels"] and args.use_cpu is True and args.max_steps == 3
    assert args.report_to == [] and args.eval_strategy == "no"


@pytest.mark.parametrize("name", ["features", "text", "text_frozen"])
def test_packaged_recipes_parse_and_every_line_says_why(name, tmp_path):
    file = packaged_recipe(name)
    kinds = (SealTrainingArguments, RunArguments)
    args, run = parse_recipe(kinds, ["--output_dir", str(tmp_path)], default_recipe=lambda _: file)
    expected = {
        "features": (1e-3, 32, 256, 10.0, 60, 8, "constant", 0),
        "text": (5e-5, 16, 64, 1.0, 5, 2, "linear", 100),
        "text_frozen": (1e-3, 16, 64, 1.0, 30, 4, "linear", 100),
    }[name]
    found = (args.learning_rate, args.per_device_train_batch_size, args.per_device_eval_batch_size, args.max_grad_norm)
    found += (args.num_train_epochs, run.patience, args.lr_scheduler_type)
    assert (*found, args.get_warmup_steps(1000)) == expected
    for line in file.read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or "  # " in line


def test_the_packaged_recipe_of_energy_networks_parses_and_every_line_says_why(tmp_path):
    file = packaged_recipe("energy")
    (args,) = parse_recipe(
        (EnergyTrainingArguments,),
        ["--output_dir", str(tmp_path), "--use_cpu"],
        default_recipe=lambda _: file,
    )
    found = (args.learning_rate, args.per_device_train_batch_size, args.max_grad_norm, args.num_train_epochs)
    assert (*found, args.num_samples) == (1e-3, 32, 10.0, 40, 100)
    assert all(line.startswith("#") or "  # " in line for line in file.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("name", ["tagging_text", "parsing_text"])
def test_the_rate_of_an_encoder_of_words(name):
    assert yaml.safe_load(packaged_recipe(name).read_text(encoding="utf-8"))["learning_rate"] == 2e-4


def test_an_unknown_packaged_recipe_is_named():
    with pytest.raises(ValueError, match="no packaged recipe '../text'; there are energy, features, .*, text"):
        packaged_recipe("../text")


def test_patience_needs_something_to_wait_for(tmp_path):
    def stopping(patience, **options):
        return early_stopping(SealTrainingArguments(str(tmp_path), use_cpu=True, **options), patience)

    assert stopping(0) == []
    (callback,) = stopping(3, eval_strategy="epoch", metric_for_best_model="f1_example")
    assert callback.early_stopping_patience == 3
    with pytest.raises(ValueError, match="5, but eval_strategy is 'no' and metric_for_best_model is None: there"):
        stopping(5)
    with pytest.raises(ValueError, match="`patience` is 5, but metric_for_best_model is None: there is nothing to"):
        stopping(5, eval_strategy="epoch")
    with pytest.raises(ValueError, match="`patience` is -1; .*number of evaluations"):
        stopping(-1)


def test_patience_of_a_packaged_recipe_is_no_obstacle_to_a_run_without_evaluations():
    words = "--eval_strategy no --save_strategy no --load_best_model_at_end false".split()
    assert mlc.PROGRAM.parse(words).callbacks == []
    with pytest.raises(ValueError, match="`patience` is 3, but eval_strategy is 'no'"):
        assert mlc.PROGRAM.parse([*words, "--patience", "3"]).callbacks


def test_parsing_leaves_the_dataclasses_as_they_were(recipe):
    parse_recipe(Method, recipe("rate: 9"))
    assert parse_recipe(Method, []) == (Method(),)
    assert [f.default for f in dataclasses.fields(Method)] == ["nce", 0.1, False]


@pytest.mark.parametrize("kind", [SealTrainingArguments, EnergyTrainingArguments])
def test_what_the_programs_do_not_do_is_refused(kind, tmp_path):
    where = ["--output_dir", str(tmp_path)]
    for name in ("do_train", "do_predict", "do_eval"):
        with pytest.raises(ValueError, match=f"`{name}` is False, but the programs always .* seal-hf evaluate --model"):
            parse_recipe(kind, [*where, f"--{name}", "false"])
        parse_recipe(kind, [*where, f"--{name}", "true"])
    file = tmp_path / "recipe.yaml"
    file.write_text("do_train: false\n")
    with pytest.raises(ValueError, match="`do_train` is False, but the programs always train"):
        parse_recipe(kind, [*where, "--recipe", str(file)])
    for name, value in (("prediction_loss_only", True), ("eval_do_concat_batches", False)):
        with pytest.raises(ValueError, match=f"`{name}` is {value}, but the programs score the predictions of all"):
            parse_recipe(kind, [*where, f"--{name}", str(value)])


@pytest.mark.parametrize(
    "flags, message",
    [
        ("--num_train_epochs -1", "`num_train_epochs` is -1.0; it must be a finite number, at least 0"),
        ("--per_device_eval_batch_size 0", "`per_device_eval_batch_size` is 0; it must be a finite number, at least 1"),
        ("--max_steps 0", "`max_steps` is 0; it must be at least 1, or -1 for all of `num_train_epochs`"),
        ("--max_steps -2", "`max_steps` is -2; it must be a finite number, at least -1"),
        ("--eval_accumulation_steps 0", "`eval_accumulation_steps` is 0; it must be"),
        ("--neftune_noise_alpha -5", "`neftune_noise_alpha` is -5.0; it must be"),
        ("--max_grad_norm nan", "`max_grad_norm` is nan; it must be a finite number, at least 0"),
        ("--logging_steps inf", "`logging_steps` is inf; it must be a finite number"),
        ("--learning_rate 1e400", "`learning_rate` is inf"),
        ("--label_smoothing_factor=-inf", "`label_smoothing_factor` is -inf; it must be a finite number"),
        ("--ddp_timeout 9223372036854775808", "`ddp_timeout` is 9223372036854775808; it must be a finite number"),
        (f"--num_samples 1{'0' * 400}", "`num_samples` is 10{79}...; it must be .*at most 2,147,483,647"),
        ("--seed 4294967296", "`seed` is 4294967296; it must be a finite number, at least 0 and at most 4,294,967,295"),
        ("--adam_beta1 1", "`adam_beta1` is 1.0; it must be a finite number, at least 0 and below 1"),
        ("--save_steps 0", "`save_steps` is 0.0; it must be a finite number, above 0"),
        ("--output_dir=", "`output_dir` is empty. Give a value, or leave it out; is a variable unset?"),
        ("--run_name=\0", "`run_name` holds the character NUL"),
        ("--include_for_metrics=", "`include_for_metrics` is empty"),
        ("--lr_scheduler_kwargs {bad", "`lr_scheduler_kwargs` is '{bad', which is not JSON .Expecting .*Give keys and"),
        ('--lr_scheduler_kwargs {"zz":1}', "`lr_scheduler_kwargs` has 'zz', which the schedule 'linear' does not take"),
        ("--lr_scheduler_kwargs [1]", "`lr_scheduler_kwargs` is '.1.', that holds a list. Give keys and values"),
        (f"--fsdp_config {{'a':{'[' * 9999}".replace("'", '"'), "`fsdp_config` is .*, which is not JSON"),
        ("--optim_args zz", "`optim_args` is 'zz'; it must be key=value, with commas between"),
        ("--optim_args zz=1", "`optim_args` has 'zz', which the optimizer 'adamw_torch.*' does not read"),
        ("--optim adafactor --optim_args lr_decay=1", "has 'lr_decay', which the optimizer 'adafactor' does not read"),
        ("--save_total_limit 0", "`save_total_limit` is 0; it must be a finite number, at least 1"),
        ("--license x|y", "`license` is 'x.y'; it must be an id as on the Hub, such as apache-2.0"),
        ("--run_name=\udcff", "`run_name` is '.udcff', which is no UTF-8, so it cannot be recorded"),
        ("--torch_compile_mode zz", "`torch_compile_mode` is 'zz'; it must be one of default, "),
        ("--torch_compile_backend zz", "`torch_compile_backend` is 'zz'; it must be one of no, eager, "),
        (
            '--accelerator_config {"zz":1}',
            "`accelerator_config` is .*, with the unknown key 'zz'; known are split_batch",
        ),
        ("--accelerator_config zz", "`accelerator_config` is 'zz', which is no file. Give JSON, .* or a JSON file"),
        (
            f"--accelerator_config {__file__}",
            "`accelerator_config` is the file .*test_cli_recipes.py', which is not JS",
        ),
        ("--report_to nowhere", "`report_to` is 'nowhere', which is not installed"),
        ("--learning_rate fast", "argument --learning_rate.*: invalid float value: 'fast'. All flags: --help"),
    ],
)
def test_what_no_run_can_do_is_said_in_one_line(flags, message, tmp_path):
    with pytest.raises(ValueError, match=message) as error:
        parse_recipe(SealTrainingArguments, ["--output_dir", str(tmp_path), *flags.split()])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text, message", [("max_grad_norm: .nan", "max_grad_norm` is nan"), ("run_name: ''", "empty")])
def test_a_recipe_has_the_limits_of_the_command_line(recipe, tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        parse_recipe(SealTrainingArguments, [*recipe(text), "--output_dir", str(tmp_path)])


def test_checkpoints_follow_the_evaluations_that_a_flag_asks_for():
    words = ["--output_dir", "x", "--eval_strategy"]
    found = mlc.PROGRAM.parse([*words, "steps", "--eval_steps", "0.1"]).training
    assert found.save_strategy == "steps" and found.save_steps == 0.1 and found.load_best_model_at_end
    found = mlc.PROGRAM.parse([*words, "steps", "--eval_steps", "2", "--save_steps", "4"]).training
    assert found.save_strategy == "steps" and found.save_steps == 4
    for flags, steps in (([], 0.05), (["--logging_steps", "7"], 7)):  # evaluations are then those of the log
        found = mlc.PROGRAM.parse([*words, "steps", *flags]).training
        assert found.eval_steps == found.save_steps == found.logging_steps == steps
    assert not mlc.PROGRAM.parse([*words, "no"]).training.load_best_model_at_end
    assert mlc.PROGRAM.parse([*words, "epoch"]).training.save_strategy == "epoch"


def test_an_output_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="`output_dir` is '.*file', which is a file"):
        parse_recipe(SealTrainingArguments, ["--output_dir", str(tmp_path / "file")])


def test_a_flag_for_the_epochs_overrides_the_least_steps_of_a_recipe(tmp_path):
    (tmp_path / "mine.csv").write_text("text,labels\na,x\n")
    words = ["--dataset", str(tmp_path / "mine.csv"), "--model_name_or_path", "encoder", "--output_dir", str(tmp_path)]
    assert mlc.PROGRAM.parse(words).training.min_steps == 190
    assert mlc.PROGRAM.parse([*words, "--num_train_epochs", "2"]).training.min_steps == 0
    assert mlc.PROGRAM.parse([*words, "--num_train_epochs", "2", "--min_steps", "9"]).training.min_steps == 9
