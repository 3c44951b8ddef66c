"""Runs killed with SIGKILL, in a process of their own. Oracle: the same run uninterrupted, to the bit, and each of its
checkpoints. Twenty kills, some by the clock: `python benchmarks/kill_and_resume.py --kills 20 --seed 0`."""

import killed_run
import pytest
import torch

from seal_hf.saving import is_complete, last_complete_checkpoint


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The uninterrupted run: its folder, with all checkpoints, and its last parameters."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, killed_run.run(folder, save_total_limit=None)[0]


@pytest.mark.parametrize("seed, kind", [(0, "step"), (0, "save"), (1, "deletion")])
def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path, whole, seed, kind):
    reference, parameters = whole
    moment = killed_run.killed(tmp_path, seed, kind)
    assert killed_run.kind_of(moment) == kind
    resumed_from = last_complete_checkpoint(tmp_path)
    assert resumed_from is not None or kind != "deletion"  # what is deleted has a whole successor
    for folder in tmp_path.glob("checkpoint-*"):
        if is_complete(folder):
            assert killed_run.differences(folder, reference / folder.name) == []
        else:
            assert kind != "step" and folder != resumed_from
    ended, trainer = killed_run.run(tmp_path)
    assert trainer.state.global_step == 12 and torch.equal(ended, parameters)
    assert [folder.name for folder in tmp_path.glob("checkpoint-*")] == ["checkpoint-12"]
    assert killed_run.differences(tmp_path / "checkpoint-12", reference / "checkpoint-12") == []
