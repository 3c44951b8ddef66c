"""benchmarks/results_store.py: nothing is lost on the way in and out, and two stores unite without loss."""

import json
import lzma
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from seal_hf.lab.compare.runner import Runs, origin, write_json
from seal_hf.lab.compare.statistics import Rows
from seal_hf.tasks.labels.compare import COMPARED

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import results_store

    yield results_store
    sys.modules.pop("results_store", None)


def made(folder, seeds, value=0.1):
    """A comparison's folder, as the program writes it, with a search and a run that was lost."""
    runs = Runs(folder)
    runs.save_identity({"data": "toy", "budget": 2, "learning_rate": "1.0e-3"})
    runs.save_settings("nce", {"settings": {"lr": 1 / 3}, "value": 0.1 + 0.2, "trials": 2, "method": {"loss": "nce"}})
    runs.save("lost", 1, {"seed": 1, "lost": "NaN", "searched": {}, "method": {}})
    for method in ("ce", "nce"):
        for seed in seeds:
            rng = np.random.default_rng(seed)
            figures = {
                "test_map": round(rng.random() * value, 6),
                "epochs": 3.0,
                "none": float("nan"),
                "λ": "λ",
                "searched": {},
                "command": f"python examples/compare_losses.py mlc --dataset toy --seeds {seed}",
            }
            rows = {key: Rows.of_mean(rng.random(20)).as_text() for key in COMPARED}
            runs.save(method, seed, {"seed": seed, **figures, "test_rows": rows, "method": {"loss": method}})
    return folder


def contents(folder, pattern="*.json"):
    return {str(file.relative_to(folder)): json.dumps(json.loads(file.read_text())) for file in folder.rglob(pattern)}


def in_order(texts):
    return {name: json.dumps(json.loads(text), sort_keys=True) for name, text in texts.items()}


def files(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.*") if file.suffix}


def test_what_is_packed_comes_out_as_it_was(module, tmp_path):
    folder, recipe = made(tmp_path / "toy_long", (1, 2, 10)), tmp_path / "bibtex_nce_mine"
    for seed in (1, 2):
        write_json(recipe / f"seed{seed}.json", {"recipe": "bibtex_nce", "seed": seed, "extra": ["--k", "2"], "f": 0.7})
    (folder / "table.md").write_text("is written anew")
    store = module.Store(tmp_path / "results")
    assert len(module.pack(store, folder)) == 1 + 1 + 7 and len(module.pack(store, recipe)) == 2
    found = files(store.folder)
    assert {*found} >= {"toy/runs.jsonl", "toy/scores.txt.xz", "recipes.jsonl"} and len(found) == 4
    seeds = [json.loads(line)["seed"] for line in found["toy/runs.jsonl"].splitlines()]
    assert seeds == [1, 2, 10, 1, 1, 2, 10]  # of ce, lost, nce
    for name in ("toy_long", "bibtex_nce_mine"):
        module.unpack(module.Store(store.folder), name, tmp_path / "out" / name)
        assert in_order(contents(tmp_path / "out" / name)) == in_order(contents(tmp_path / name))
        assert module.pack(store, tmp_path / "out" / name) == []
    assert files(store.folder) == found
    stored = module.Store(store.folder).comparison("toy_long")
    assert stored.all() == Runs(folder).all() and stored.identity() == Runs(folder).identity()


def test_figures_have_seven_digits_and_settings_have_all(module, tmp_path):
    store, runs, third = module.Store(tmp_path / "results"), Runs(tmp_path / "toy"), 1 / 3
    runs.save_identity({"data": "toy"})
    runs.save("ce", 1, {"seed": 1, "test_map": third, "eval_loss": 1e5 * third, "searched": {"lr": third}})
    assert len(module.pack(store, tmp_path / "toy")) == 2
    [run] = store.comparison("toy").all()["ce"]
    assert (run["test_map"], run["eval_loss"], run["searched"]["lr"]) == (0.3333333, 33333.33, third)
    module.unpack(store, "toy", tmp_path / "toy")  # what is there is no contradiction
    assert Runs(tmp_path / "toy").load("ce", 1)["test_map"] == third and module.pack(store, tmp_path / "toy") == []


def test_what_is_there_stays_unless_it_is_said(module, tmp_path):
    store, folder = module.Store(tmp_path / "results"), made(tmp_path / "toy", (1,))
    module.pack(store, folder)
    made(folder, (2,))
    (folder / "ce" / "seed1.json").unlink()
    module.unpack(store, "toy", folder)  # beside a run that is new
    assert len(contents(folder)) == 7 and len(module.pack(store, folder)) == 2
    Runs(folder).save("ce", 1, {"seed": 1, "test_map": 0.9})
    with pytest.raises(module.Conflict, match="ce, seed 1. Choose with --conflict keep"):
        module.unpack(store, "toy", folder)
    module.unpack(store, "toy", folder, "keep")
    assert Runs(folder).load("ce", 1)["test_map"] == 0.9
    module.unpack(store, "toy", folder, "replace")
    assert Runs(folder).load("ce", 1)["test_map"] < 0.1


def test_two_who_added_seeds_lose_nothing(module, tmp_path):
    paths = [tmp_path / name for name in ("ours", "theirs", "both", "again")]
    ours, theirs, both, again = stores = [module.Store(path) for path in paths]
    for store, seeds in ((ours, (1, 2)), (theirs, (1, 3)), (again, (1, 2, 3))):  # seed 1 is of before
        module.pack(store, made(tmp_path / str(seeds) / "toy", seeds))
    shutil.copytree(ours.folder, both.folder)
    assert sorted(module.merge(both, theirs.folder)) == ["toy/runs: toy ce 3", "toy/runs: toy nce 3"]
    assert module.merge(theirs, ours.folder) and module.merge(both, theirs.folder) == []
    expected = files(again.folder)
    assert files(both.folder) == files(theirs.folder) == expected and all(not each.missing() for each in stores)


def test_contradictions_are_named_before_anything_is_written(module, tmp_path):
    ours, theirs = module.Store(tmp_path / "ours"), module.Store(tmp_path / "theirs")
    module.pack(ours, made(tmp_path / "1" / "toy", (1, 2)))
    module.pack(theirs, made(tmp_path / "2" / "toy", (2, 3), value=0.2))
    before = files(ours.folder)
    with pytest.raises(module.Conflict, match=r"toy/runs: toy ce 2 \(test_map\); toy/runs: toy nce 2 \(test_map\)"):
        module.merge(ours, theirs.folder)
    assert files(ours.folder) == before
    value = lambda: ours.comparison("toy").all()["ce"][1]["test_map"]  # noqa: E731
    first = value()
    module.merge(ours, theirs.folder, "keep")
    assert value() == first and [run["seed"] for run in ours.comparison("toy").all()["ce"]] == [1, 2, 3]
    module.merge(ours, theirs.folder, "replace")
    assert value() == pytest.approx(2 * first, rel=1e-3)


def test_an_older_checkout_whose_runs_hold_their_whole_command_is_taken_in(module, tmp_path):
    ours, older = module.Store(tmp_path / "ours"), module.Store(tmp_path / "older")
    module.pack(ours, made(tmp_path / "1" / "toy", (1,)))
    module.pack(older, made(tmp_path / "2" / "toy", (1, 2)))
    file, scores = (older.folder / "toy" / name for name in ("runs.jsonl", "scores.txt.xz"))
    lines = [json.loads(text) for text in file.read_text().splitlines()]
    whole = {run["seed"]: run["command"] for run in older.comparison("toy").all()["ce"]}
    for line in (line for line in lines if "command" in line):
        line["command"] = whole[line["seed"]]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    texts = module.read_texts(scores)
    scores.write_bytes(lzma.compress("".join(f"{text}\n" for text in texts if text not in whole.values()).encode()))
    again = module.Store(older.folder)
    assert (
        again.missing() == [] and {run["seed"]: run["command"] for run in again.comparison("toy").all()["ce"]} == whole
    )
    module.merge(ours, older.folder)
    fresh = module.Store(ours.folder)
    assert (
        fresh.missing() == [] and {run["seed"]: run["command"] for run in fresh.comparison("toy").all()["ce"]} == whole
    )
    assert not any(command in (ours.folder / "toy" / "runs.jsonl").read_text() for command in whole.values())


def test_figures_that_no_page_shows_are_left_out(module, tmp_path):
    run = {"name": "toy", "loss": "ce", "seed": 1}
    unread = {"test_precision_macro": 0.5, "eval_recall_micro_decided": 0.5, "train_runtime": 3.0}
    module.Store(tmp_path).add({(module.ALL, "defaults"): [run | unread | {"test_f1": 1 / 7, "test_recall": 0.5}]})
    assert module.Store(tmp_path).defaults("toy", "ce") == {1: run | {"test_f1": 0.1428571, "test_recall": 0.5}}


def test_texts_come_back_in_the_order_of_their_tables(module, tmp_path):
    file = tmp_path / "scores.txt.xz"
    assert module.read_texts(file) == []
    texts = ["500 0 1000", "python run.py  --name ''", "0 0 667", "5"]
    module.write_texts(file, texts)
    assert module.read_texts(file) == [texts[3], texts[0], texts[2], texts[1]]
    assert lzma.decompress(file.read_bytes()).decode().startswith("=1\n5\n=3\n500 0\n0 0\n1000 667\n=5\npython\n")
    before = file.stat().st_mtime_ns
    module.write_texts(file, module.read_texts(file))
    assert file.stat().st_mtime_ns == before
    file.write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"scores\.txt\.xz is damaged: .* Put a whole copy back"):
        module.read_texts(file)


def test_after_git_has_united_the_lines_merge_brings_the_scores(module, tmp_path, capsys):
    """As `merge=union` of .gitattributes does, which keeps the scores of one side."""
    ours, theirs = module.Store(tmp_path / "ours"), module.Store(tmp_path / "theirs")
    for store, seeds in ((ours, (1, 2)), (theirs, (1, 3))):
        module.pack(store, made(tmp_path / str(seeds) / "toy", seeds))
    file = ours.folder / "toy" / "runs.jsonl"
    file.write_bytes(file.read_bytes() + (theirs.folder / "toy" / "runs.jsonl").read_bytes())
    with pytest.raises(ValueError, match="lacks scores or the command of toy ce 3. Merge the results that have them"):
        module.Store(ours.folder).comparison("toy").all()
    module.main(["merge", str(theirs.folder), "--store", str(ours.folder)])
    module.merge(theirs, tmp_path / "ours")
    assert files(ours.folder) == files(theirs.folder) and len(file.read_bytes().splitlines()) == 7
    line = file.read_text().splitlines()[0]
    for wrong, message in (('"epochs": 4.0', "has toy ce 1 twice, with other content"), ("<<<<<<<", "line 8, is no")):
        changed = line.replace('"epochs": 3.0', wrong) if "epochs" in wrong else wrong
        (theirs.folder / "toy" / "runs.jsonl").write_text(file.read_text() + changed + "\n")
        with pytest.raises(SystemExit, match=message):
            module.main(["merge", str(theirs.folder), "--store", str(ours.folder)])


@pytest.mark.long
def test_the_results_of_the_project_are_few_files_whole_and_small(module):
    store = module.Store()
    if not store.data_sets():
        pytest.skip("the raw runs are not there")
    found = files(store.folder)
    assert len(found) <= 60 and sum(map(len, found.values())) <= 1.2e7 and store.missing() == []
    for data, kind in store.files():
        lines = store.lines(data, kind)
        text = "".join(module.to_line(kind, module.compact(lines[key])) + "\n" for key in sorted(lines))
        assert found.get(str(Path(data, f"{kind}.jsonl")), b"") == text.encode(), f"{data}, {kind}"
    for name in store.comparisons():
        for run in (run for runs in store.comparison(name).all().values() for run in runs):
            for decoder, text in run.get("test_rows", {}).items():  # the scores are the run's own
                assert Rows.of_text(text).figure == pytest.approx(run[f"test_{decoder}"], abs=6e-4), name


def test_a_run_says_what_made_it_and_not_where(tmp_path, monkeypatch):
    """Paths in the working folder are relative: the command runs there on another machine too."""
    monkeypatch.chdir(tmp_path)
    words = ["--data_dir", "x", f"--output_dir={tmp_path}", "--model", str(tmp_path / "m"), "--seeds", "1", "--k=a b"]
    found = origin("python examples/compare_losses.py", [*words, "--output_dir", "y"])
    said = "python examples/compare_losses.py --data_dir x --model m --seeds 1 '--k=a b'"
    assert found["command"] == said and found["version"]
    Runs(tmp_path, found).save("ce", 1, {"seed": 1})
    assert Runs(tmp_path).load("ce", 1) == {"seed": 1, **found}


def test_packed_commands_name_no_folder_of_a_machine(module, tmp_path):
    folder = made(tmp_path / "toy_run", [1])
    file = folder / "ce" / "seed1.json"
    words = (
        "python examples/compare_losses.py mlc --data_dir /home/me/data --model_name_or_path /home/me/minilm --k 'a b'"
    )
    write_json(file, {**json.loads(file.read_text()), "command": words})
    store = module.Store(tmp_path / "results")
    module.pack(store, folder)
    (run,) = store.comparison("toy_run").all()["ce"]
    assert run["command"] == "python examples/compare_losses.py mlc --model_name_or_path minilm --k 'a b'"
