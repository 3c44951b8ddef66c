"""Runs killed with SIGKILL, each in a fork. Oracle: the same run uninterrupted, to the bit, and each of
its checkpoints. Twenty kills, some by the clock: `python benchmarks/kill_and_resume.py --kills 20 --seed 0`."""

import killed_run
import pytest
import torch

from seal_hf.saving import is_complete, last_complete_checkpoint

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The uninterrupted run: its folder, with all checkpoints, and its last parameters."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, killed_run.run(folder, save_total_limit=None)[0]


RUNS = {"step": 0, "save": 0, "deletion": 1}  # kind of moment -> seed


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Kind -> the folder of a killed run, and its moment."""
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in RUNS}
    return {kind: (folder, killed_run.killed_in_a_fork(folder, RUNS[kind], kind)) for kind, folder in folders.items()}


@pytest.mark.parametrize("kind", RUNS)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(whole, killed, kind):
    (reference, parameters), (own, moment) = whole, killed[kind]
    assert killed_run.kind_of(moment) == kind
    resumed_from = last_complete_checkpoint(own)
    assert resumed_from is not None or kind != "deletion"  # what is deleted has a whole successor
    for folder in own.glob("checkpoint-*"):
        if is_complete(folder):
            assert killed_run.differences(folder, reference / folder.name) == []
        else:
            assert kind != "step" and folder != resumed_from
    ended, trainer = killed_run.run(own)
    assert trainer.state.global_step == 12 and torch.equal(ended, parameters)
    assert [folder.name for folder in own.glob("checkpoint-*")] == ["checkpoint-12"]
    assert killed_run.differences(own / "checkpoint-12", reference / "checkpoint-12") == []
