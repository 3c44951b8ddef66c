"""No program leaves a token in a file or on the screen. Oracle: a search for the tokens in all files and in all
that is printed, where each program gets one by its flag, one by its recipe, and one by the environment."""

import contextlib
import io
import json
import os
import pickle
import shlex
import sys
import traceback
import zipfile
from types import SimpleNamespace

import pytest
import test_run_srl
from command_words import check_command
from tiny_models import tiny_config, tiny_tokenizer
from transformers import AutoModel

from seal_hf import SealTrainingArguments, load_multilabel
from seal_hf.__main__ import main
from seal_hf.cli.train.closing import command_of
from seal_hf.data import embedded
from seal_hf.lab.compare.program import called, kind_of, own_parser, pairs
from seal_hf.lab.compare.runner import origin, read_run
from seal_hf.lab.demo import program as demo
from seal_hf.saving.checkpoints import without_tokens
from seal_hf.utils import recorded
from seal_hf.utils.messages import guard_errors
from seal_hf.utils.recorded import command_line, hidden

pytestmark = pytest.mark.usefixtures("narrow_energies")

FLAG, RECIPE, ENVIRONMENT = "of-the-flag&1", "of-the-recipe&2", "of-the-environment&3"
TOKENS = (FLAG, RECIPE, ENVIRONMENT)
QUIET = "--use_cpu true --disable_tqdm true --max_steps 1"
SMALL = f"{QUIET} --max_train_rows 16 --per_device_train_batch_size 8"
LABELS = f"{SMALL} --hidden_size 8"
COMPARED = "--use_cpu true --num_train_epochs 1 --max_train_rows 16 --hidden_size 8 --seeds 1"
FEW = "--inference_steps 1 --inference_steps_eval 1"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Runs `seal-hf WORDS` in a new folder with three tokens, and returns its folder, and what it printed."""
    pytest.importorskip("matplotlib")
    patch, home = pytest.MonkeyPatch(), tmp_path_factory.mktemp("programs")
    patch.setattr(embedded, "TAG_SIZES", {"train": 16, "validation": 8, "test": 8})
    patch.setattr(embedded, "TREE_SIZES", {"train": 16, "validation": 8, "test": 8})
    patch.setattr(embedded, "MASK_SIZES", {"train": 8, "validation": 4, "test": 4})
    patch.setattr(recorded, "_given", set())
    patch.setenv("HF_TOKEN", ENVIRONMENT)
    patch.setenv("WANDB_API_KEY", ENVIRONMENT)
    patch.chdir(home)
    (home / "recipe.yaml").write_text(f"hub_token: {RECIPE}\nreport_to: none\n", encoding="utf-8")
    done = {}

    def run(words):
        if words not in done:
            name = f"out{len(done)}"
            patch.setattr(sys, "argv", ["seal-hf", *shlex.split(words.replace("OUT", name))])
            printed, code = io.StringIO(), 0
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                try:
                    main()
                except SystemExit as error:
                    code = error.code
            done[words] = SimpleNamespace(folder=home / name, text=printed.getvalue(), code=code)
        return done[words]

    run.home, run.patch = home, patch
    yield run
    patch.undo()


def leaks(folder, text=""):
    """The files of a folder, and `printed`, that hold a token."""
    found = ["printed"] * any(token in text for token in TOKENS)
    for path in folder.rglob("*") if folder.exists() else ():
        contents = [path.name.encode()]
        if path.is_file():
            contents.append(path.read_bytes())
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    contents += map(archive.read, archive.namelist())
        if any(token.encode() in content for token in TOKENS for content in contents):
            found.append(str(path.relative_to(folder)))
    return found


def check(ran, *files):
    """That a program did its work and left no token."""
    assert ran.code == 0, ran.text
    assert [name for name in files if not list(ran.folder.glob(name))] == []
    assert leaks(ran.folder, ran.text) == []


GIVEN = f"--recipe recipe.yaml --hub_token '{FLAG}' --output_dir OUT"
MLC = f"train mlc {LABELS} --loss nce --save_strategy steps --save_steps 1 --report_to tensorboard {GIVEN}"
TRAINED = {
    "mlc": MLC,
    "tune": f"train mlc {LABELS} --loss ce --tune 1 --recipe recipe.yaml --hub-token='{FLAG}' --output_dir OUT",
    "tagging": f"train tagging {SMALL} --hidden_size 8 --loss nce {GIVEN}",
    "parsing": f"train parsing {SMALL} --hidden_size 8 --loss ce {GIVEN}",
    "srl": f"train srl --dataset srl --model_name_or_path net {QUIET} --loss ce {GIVEN}",
    "segmentation": f"train segmentation {QUIET} --loss ce {GIVEN}",
    "rewards": f"train rewards --rules tags.yaml {SMALL} --num_labelled 5 --hidden_size 8 --report_to none {GIVEN}",
    "energy": f"train energy {LABELS} {FEW} {GIVEN}",
    "mask-energy": f"train mask-energy {QUIET} {FEW} {GIVEN}",
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_program_that_trains_leaves_no_token(programs, name):
    if name == "tune":
        pytest.importorskip("optuna")
    if name == "srl":
        (programs.home / "srl").mkdir()
        for split in ("train", "dev", "test"):
            test_run_srl.write(programs.home / "srl" / f"tiny.{split}.srl", 6)
        AutoModel.from_config(tiny_config("bert")).save_pretrained(programs.home / "net")
        tiny_tokenizer().save_pretrained(programs.home / "net")
    (programs.home / "tags.yaml").write_text("rules:\n- {first: [X]}\n", encoding="utf-8")
    checkpoint = ("checkpoint-1/training_args.bin", "runs/*/events*") if name == "mlc" else ()
    check(programs(TRAINED[name]), "report.html", "_report.json", "training_args.bin", *checkpoint)


def test_a_comparison_leaves_no_token_and_another_token_goes_on_with_it(programs):
    words = f"compare mlc {COMPARED} --losses ce"
    ran = programs(f"{words} --recipe recipe.yaml --hub_token '{FLAG}' --output_dir OUT")
    check(ran, "comparison.json", "ce/seed1.json", "report.html")
    again = programs(f"{words} --recipe recipe.yaml --output_dir {ran.folder.name}")
    assert again.code == 0 and "seed 1" not in again.text


@pytest.mark.parametrize(
    "words",
    [
        "predict --model MODEL --input rows.jsonl --output OUT/labels.csv",
        "evaluate --model MODEL --input rows.jsonl --output OUT/figures.json",
        "report MODEL",
        "demo --model MODEL --port 7999",
        "rules check tags.yaml --max_train_rows 10 --num_labelled 5",
    ],
)
def test_a_program_that_trains_nothing_leaves_no_token(programs, words):
    """They know no such flag, and say so without its value."""
    model = programs(MLC).folder
    data, _ = load_multilabel("digits"), programs.patch.setattr(demo, "start", lambda *_, **__: "http://127.0.0.1:7999")
    rows = [json.dumps(dict(row)) + "\n" for row in data.test.select_columns(["features", "labels"]).select(range(3))]
    (programs.home / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    (programs.home / "tags.yaml").write_text("rules:\n- {first: [X]}\n", encoding="utf-8")
    if words.startswith("demo"):
        pytest.importorskip("gradio")
        programs.patch.setattr(demo, "page_of", lambda view: view)
        programs.patch.setattr(demo, "serve", lambda page: None)
    words = words.replace("MODEL", model.name)
    check(programs(words))
    for given in (f"--hub_token '{FLAG}'", f"--hub_token='{FLAG}'", f"--hub_tokn='{FLAG}'", f"--token='{FLAG}'"):
        ran = programs(f"{words} {given}")
        assert ran.code != 0 and "--" in ran.text and leaks(ran.folder, ran.text) == []


@pytest.mark.parametrize("program", ["predict", "evaluate", "report x", "train mlc", "train energy", "compare tagging"])
@pytest.mark.parametrize("flag", ["--hub_tokn", "--hub-tken", "--push_to_hub_toke", "--token"])
def test_a_mistyped_token_is_refused_without_its_value(programs, program, flag):
    """No name tells that it is one: the nearest flag does."""
    ran = programs(f"{program} {flag}=said-nowhere-else")
    assert ran.code != 0 and flag in ran.text and "said-nowhere-else" not in ran.text


@pytest.mark.parametrize("line", ["hub_token: 1234567891", "hub_token: [1234567891]", "hub_token: {a: '1234567891'}"])
def test_a_recipe_with_a_wrong_token_is_refused_without_it(programs, line):
    (programs.home / "wrong.yaml").write_text(line, encoding="utf-8")
    ran = programs(f"train mlc --recipe wrong.yaml --output_dir OUT {len(line)}"[:-3])
    assert ran.code == 1 and "'hub_token' is ..." in ran.text and "1234567891" not in ran.text


def test_the_help_of_a_recipe_hides_its_token(programs):
    ran = programs("train mlc --recipe recipe.yaml --help_all")
    assert "--hub_token ..." in ran.text and leaks(ran.folder, ran.text) == []


def test_the_arguments_of_a_run_are_written_without_secrets_and_copied_with_them(tmp_path):
    args = SealTrainingArguments(str(tmp_path), hub_token=FLAG, run_name=f"of {FLAG}", use_cpu=True, report_to="none")
    with without_tokens():
        written = pickle.dumps(args)
    assert FLAG.encode() not in written and b"of ..." in written
    assert pickle.loads(pickle.dumps(args)).hub_token == FLAG
    assert FLAG not in args.to_json_string() + str(args.to_sanitized_dict())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git clone https://me:hunter22@host/repo", "git clone https://...@host/repo"),
        ("https://hunter22@host/a@b", "https://...@host/a@b"),
        ("https://host/a?b=1&access_token=hunter22&c=2#d", "https://host/a?b=1&access_token=...&c=2#d"),
        (f"Bearer hf_{'aB1' * 12}.", "Bearer ...."),
        ("hf_internal_testing, a@b.c, x://y/z@w", "hf_internal_testing, a@b.c, x://y/z@w"),
    ],
)
def test_secrets_are_known_by_their_form(text, shown):
    assert hidden(text) == shown == hidden(shown)


def test_what_is_no_secret_stays(monkeypatch):
    monkeypatch.setattr(recorded, "_given", set())
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "everywhere")
    monkeypatch.setenv("SHORT_KEY", "common")
    monkeypatch.setenv("HOME_KEY", os.getcwd())
    recorded.remember({"hub_token": "true", "api_key": "abc", "seed": "everywhere", "token": 0.5, "password": None})
    said = f"true abc everywhere common {os.getcwd()} 0.5"
    assert hidden(said) == said
    recorded.remember({"a": {"b": {"hub_token": "x y/z"}}})
    assert hidden("x y/z, x%20y%2Fz") == "..., ..."


def test_what_libraries_print_hides_secrets_and_keeps_colours_and_bars(monkeypatch):
    """A traceback that nothing catches, too."""
    stream = io.StringIO()
    monkeypatch.setattr(recorded, "_given", set())
    monkeypatch.setattr(sys, "argv", ["seal-hf", "--token", FLAG])
    monkeypatch.setattr(sys, "stderr", stream)
    for _ in range(2):  # a program in a program
        guard_errors()
    print("\r\x1b[1m50%\x1b[0m a\u202eb\x9b", file=sys.stderr)
    try:
        raise RuntimeError(f"no {FLAG} at https://me:{RECIPE}@host")
    except RuntimeError:
        traceback.print_exc()
    assert stream.getvalue().startswith("\r\x1b[1m50%\x1b[0m a\\u202eb\\x9b\nTraceback")
    assert stream.getvalue().endswith("RuntimeError: no ... at https://...@host\n")
    assert FLAG not in stream.getvalue()


# --- commands --------------------------------------------------------------------------------------------------------


def test_a_recorded_command_is_a_command_line_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["seal-hf train mlc"])
    inside, outside = tmp_path / "my data" / "it's.csv", tmp_path.parent / "b c"
    words = ["--dataset", str(inside), f"--data_dir={outside}", "--label_column", 'a "b" $c', "--seed", "1"]
    said = shlex.split(command_of([*words, "--deepspeed", '{"api_key": "hunter22"}', "--hub_token", FLAG]))
    assert said[:3] == ["seal-hf", "train", "mlc"]
    assert said[3:] == [
        *["--dataset", "my data/it's.csv", *words[2:]],
        *["--deepspeed", '{"api_key": "..."}', "--hub_token", "..."],
    ]
    check_command("train mlc", said[3:])


@pytest.mark.parametrize(
    "words",
    [
        "mlc --dataset digits --max_train_rows 20 --losses ce",
        "--max_train_rows 20",
        "tagging --num_train_epochs 1 --losses ce crf",
        "srl --dataset 'a b'",
        "parsing --seeds 1 2",
        "segmentation --batch_repeats=2",
        "rewards --rules {rules} --num_labelled 3",
        "rewards tagging --rules {rules}",
    ],
)
def test_the_command_of_a_comparison_is_read_as_it_was_given(tmp_path, monkeypatch, words):
    """By the command's own dispatcher and parsers."""
    (tmp_path / "r s.yaml").write_text("rules:\n- {words: a, are: X}\n", encoding="utf-8")
    read = []

    def seen(argv):
        kind, left = kind_of(argv)
        options, flags = own_parser(kind).parse_known_args(left)
        read.append((kind.word, vars(options), pairs(flags)))
        return origin(called(), argv)["command"]

    monkeypatch.setattr("seal_hf.lab.compare.program.command", lambda argv: said.append(seen(argv)))
    said = ["seal-hf compare " + words.format(rules=shlex.quote(str(tmp_path / "r s.yaml")))]
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", shlex.split(said[-1]))
        main()
    assert said[1] == said[2] and read[0] == read[1]


def test_the_command_of_a_finished_comparison_runs_again(programs, monkeypatch):
    words = f"compare mlc {COMPARED} --losses constant"
    ran = programs(f"{words} --dataset digits --output_dir OUT")
    command = read_run(ran.folder / "constant" / "seed1.json")["command"]
    assert command.startswith("seal-hf compare mlc --use_cpu") and command_line(shlex.split(command)) == command
    assert command in (ran.folder / "report.html").read_text(encoding="utf-8")
    again = programs(command.removeprefix("seal-hf "))
    assert again.code == 0 and "constant, seed 1" in again.text
