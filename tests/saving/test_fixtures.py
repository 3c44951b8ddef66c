"""Files of an earlier release: folders of nets, checkpoints, a comparison that was stopped.

Oracle: what that release computed from them, and where its runs ended without interruption. Another processor rounds
otherwise, so numbers are compared to 1e-5. `write_fixtures.py` says how the files were made.
"""

import json
import shutil

import pytest
import torch
import write_fixtures as earlier
from safetensors.torch import load_file
from write_fixtures import COMPARED, FIXTURES, RUNS, SAVED, STOP, UNFINISHED

from seal_hf import SealForMultiLabel, Vocabulary, load_energy_network
from seal_hf.lab.compare.runner import Comparison
from seal_hf.saving import is_complete, load_loss_net

EXPECTED = json.loads((FIXTURES / "expected.json").read_text(encoding="utf-8"))
CLOSE = dict(rel=1e-5, abs=1e-6)
# what a state of the Trainer may name beside tensors and numbers: arrays, of numpy's generator
ARRAYS = {"numpy._core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype", "numpy.dtypes.UInt32DType"}


@pytest.fixture(autouse=True)
def in_the_folder(monkeypatch):
    """The files of the adapters name their base relative to it."""
    monkeypatch.chdir(FIXTURES)


def assert_close(found, expected):
    torch.testing.assert_close(found, torch.as_tensor(expected, dtype=found.dtype), rtol=1e-5, atol=1e-6)


# --- folders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAVED)
def test_a_folder_of_two_nets_gives_the_same_logits_and_energies(name):
    if name == "adapters":
        pytest.importorskip("peft")
    seal, inputs, y = SAVED[name]
    expected = EXPECTED["saved"][name]
    given = {key: torch.tensor(value) for key, value in expected["inputs"].items()}
    assert all(torch.equal(given[key], value) for key, value in inputs().items())
    with earlier.small_grid():
        found = earlier.outputs(seal.from_pretrained(name), given, y())
    assert found.keys() == expected.keys() - {"inputs", "y"}
    for key, value in found.items():
        assert_close(value, expected[key])


def test_a_saved_vocabulary_reads_the_same_ids():
    found = earlier.word_inputs(Vocabulary.from_pretrained("tags"))
    assert {key: value.tolist() for key, value in found.items()} == EXPECTED["saved"]["tags"]["inputs"]


def test_an_energy_network_gives_the_same_energies_alone_and_as_a_loss_net():
    expected = EXPECTED["energy"]["energies"]
    assert_close(earlier.energies_alone(load_energy_network("energy")), expected)
    task_net = SealForMultiLabel.from_pretrained("labels").task_net
    assert_close(earlier.energies_alone(load_loss_net("energy", task_net)), expected)


def test_the_loss_net_of_a_folder_teaches_another_task_net():
    nets = SealForMultiLabel.from_pretrained("labels")
    features = torch.tensor(EXPECTED["saved"]["labels"]["inputs"]["features"])
    with torch.no_grad():
        found = load_loss_net("labels", nets.task_net)(SAVED["labels"][2](), None, {"features": features})
    assert_close(found, EXPECTED["saved"]["labels"]["energies"])


def test_weights_have_the_names_and_shapes_that_folders_hold():
    """With every energy in its own size, also of those that no folder here has."""
    found = earlier.shapes()
    assert {name: found[name] for name in EXPECTED["shapes"]} == EXPECTED["shapes"]


# --- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
def test_a_checkpoint_is_resumed_and_ends_as_the_whole_run_did(name, tmp_path):
    """Weights of all nets, all that was logged, and an evaluation."""
    checkpoint, expected = FIXTURES / name / f"checkpoint-{STOP}", EXPECTED["runs"][name]
    assert is_complete(checkpoint)
    trainer, weights = earlier.run(name, tmp_path, resume=str(checkpoint))
    end = load_file(FIXTURES / name / "end.safetensors")
    assert weights.keys() == end.keys() and trainer.state.global_step > STOP
    for key, value in weights.items():
        assert_close(value, end[key])
    logs = earlier.figures(trainer)
    assert [log.keys() for log in logs] == [log.keys() for log in expected["log"]]
    for found, log in zip(logs, expected["log"], strict=True):
        assert found == pytest.approx(log | {"loss": found["loss"]}, **CLOSE)
        assert found["loss"] == pytest.approx(log["loss"], abs=6e-5)  # of which transformers 4.57 logs four digits
    metrics = trainer.evaluate()
    assert {key: metrics[key] for key in expected["metrics"]} == pytest.approx(expected["metrics"], **CLOSE)


@pytest.mark.parametrize("file", sorted(p.relative_to(FIXTURES).as_posix() for p in FIXTURES.rglob("*.pt*")))
def test_a_state_holds_tensors_arrays_and_numbers_alone(file):
    """As torch lists what else its pickle names."""
    named = set(torch.serialization.get_unsafe_globals_in_checkpoint(file))
    assert named <= (ARRAYS if file.endswith("rng_state.pth") else set())


# --- a comparison ----------------------------------------------------------------------------------------------------


def test_a_stopped_comparison_goes_on_with_the_run_that_it_lacks(program, tmp_path, monkeypatch):
    """The others are not trained again: their files are as they were, with the seconds that they took."""
    folder = shutil.copytree(FIXTURES / "comparison", tmp_path / "comparison")
    before = {file: file.read_bytes() for file in folder.glob("*/*.json")}
    assert len(before) == 4 and folder / UNFINISHED / "seed1.json" not in before
    trained, train = [], Comparison._train

    def counted(self, name, seed):
        trained.append(name)
        return train(self, name, seed)

    monkeypatch.setattr(Comparison, "_train", counted)
    runs = program.main([*COMPARED, "--output_dir", str(folder)])
    assert trained == [UNFINISHED]
    assert all(file.read_bytes() == content for file, content in before.items())
    expected = EXPECTED["comparison"]["run"]
    found = runs.load(UNFINISHED, 1)
    assert {key: found[key] for key in expected} == pytest.approx(expected, abs=1e-3)
    tables = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert all(set(table["methods"]) == {"constant", "ce", UNFINISHED} for table in tables.values())
