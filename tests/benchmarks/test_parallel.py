"""benchmarks/parallel.py. Oracle: the same comparison in one process."""

from pathlib import Path

import pytest
from command_words import check_command

from seal_hf.lab.compare.program import main as compare
from seal_hf.lab.compare.runner import Runs

ROOT = Path(__file__).resolve().parents[2]
DATA = "mlc --dataset digits --max_train_rows 64 --num_train_epochs 1 --use_cpu true"
ASIDE = ("train_seconds_per_epoch", "command", "commit")


@pytest.fixture
def parallel(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import parallel

    yield parallel


@pytest.mark.long
def test_runs_in_parallel_are_those_of_one_process(parallel, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rest = "--losses constant ce --seeds 1"
    file = tmp_path / "all.txt"
    file.write_text(f"# two methods\n\nseal-hf compare {DATA} {rest} --output_dir many\n")
    with pytest.raises(SystemExit, match="The same call goes on"):
        parallel.main([str(file), "--jobs", "2", "--minutes", "0"])
    compare([*DATA.split(), *rest.split(), "--output_dir", "one"])
    many, one = Runs("many"), Runs("one")
    earlier = {key: value for key, value in one.identity().items() if key != "files"}  # an older version's record
    many.save_identity(earlier)
    parallel.main([str(file), "--jobs", "2"])
    assert many.identity() == earlier and not (many.folder / parallel.PARTS).exists()
    for method, runs in one.all().items():
        expected = [{key: run[key] for key in run if key not in ASIDE} for run in runs]
        found = many.all()[method]
        assert [{key: run[key] for key in run if key not in ASIDE} for run in found] == expected
        assert not any("train_seconds_per_epoch" in run for run in found)
    assert list(parallel.parts(file.read_text().splitlines()[2])) == []
    compare([*DATA.split(), *rest.split(), "--output_dir", "many"])  # only writes the table
    assert "`ce` cross-entropy" in capsys.readouterr().out


def test_a_failed_run_is_named_with_its_log(parallel, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "all.txt"
    file.write_text(f"seal-hf compare {DATA} --per_device_train_batch_size 0 --losses ce --seeds 1 --output_dir many\n")
    with pytest.raises(SystemExit, match="Not everything is done"):
        parallel.main([str(file), "--jobs", "1"])
    assert "ce, seed 1: failed, see many/parts/ce_1/log.txt" in capsys.readouterr().out
    assert (tmp_path / "many/parts/ce_1/log.txt").read_text()


def test_another_command_is_refused(parallel, monkeypatch):
    monkeypatch.delenv("NOWHERE", raising=False)
    with pytest.raises(ValueError, match=r"\$NOWHERE is not set in the environment"):
        list(parallel.parts(f"seal-hf compare {DATA} --data_dir $NOWHERE --losses ce --seeds 1 --output_dir many"))
    with pytest.raises(ValueError, match="'seal-hf train mlc' is no command `seal-hf compare"):
        list(parallel.parts("seal-hf train mlc"))


@pytest.mark.long
def test_the_lines_of_the_project_are_such_commands(parallel, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # no results there
    for name in ("DATA", "ENCODER", "WORD_VECTORS", "CONLL"):
        monkeypatch.setenv(name, "somewhere")
    lines = (ROOT / "benchmarks" / "comparisons.txt").read_text(encoding="utf-8").splitlines()
    found = {line: list(parallel.parts(line)) for line in lines if line and not line.startswith("#")}
    assert all(found.values()) and len({parts[0].folder for parts in found.values()}) == len(found)
    known = {"mlc", "tagging", "srl", "parsing", "segmentation", "rewards"}
    for parts in found.values():
        words = list(parts[0].words)
        assert words[0] in known
        check_command("compare", words)
