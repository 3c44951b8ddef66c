"""A sharded task-net beside a loss-net under DDP ends where one process does. One launch for each way to shard."""

import importlib.util

import pytest
import shard_script
import tiny_run
import torch
from launching import finish, free_port, results, start

WORLD = 2
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return shard_script.run_all(str(tmp_path_factory.mktemp("one")), world=1)


def launch(tmp_path_factory, config, **variables):
    folder = tmp_path_factory.mktemp("sharded")
    finish(start(config, "shard_script.py", folder, options=("--main_process_port", free_port()), **variables))
    return results(folder, WORLD)


@pytest.fixture(scope="module")
def fsdp(tmp_path_factory):
    return launch(tmp_path_factory, "fsdp2.yaml")


@pytest.fixture(scope="module")
def deepspeed(tmp_path_factory):
    if importlib.util.find_spec("deepspeed") is None:
        pytest.skip("deepspeed is not installed (pip install deepspeed)")
    return launch(tmp_path_factory, "deepspeed_zero2.yaml", DS_ACCELERATOR="cpu")


def compare(case, one, ranks):
    for rank in ranks:
        if case == "bf16":  # sums of other rows are rounded
            moved = one[case]["parameters"] - tiny_run.parameters(tiny_run.model("shared"))
            assert (rank[case]["parameters"] - one[case]["parameters"]).norm() < 0.05 * moved.norm()
            continue
        torch.testing.assert_close(rank[case]["parameters"], one[case]["parameters"], rtol=0, atol=2e-6)
        for measured in ("log", "metrics"):
            assert rank[case][measured] == pytest.approx(one[case][measured], rel=1e-4) and one[case][measured]


@pytest.mark.parametrize("case", shard_script.CASES)
def test_fsdp2_ends_where_one_process_does(case, one, fsdp):
    compare(case, one, fsdp)


def test_fsdp2_resumes_to_the_bit(fsdp):
    """In the middle of an epoch; dropout, samples and accumulation on; the last batch is not whole."""
    for rank in fsdp:
        assert torch.equal(rank["resumed"]["parameters"], rank["whole"]["parameters"])


def test_the_best_model_of_an_fsdp2_run_is_the_same_on_all_ranks(fsdp):
    first, second = (rank["best"] for rank in fsdp)
    assert torch.equal(first["parameters"], second["parameters"]) and first["metrics"] == second["metrics"]


@pytest.mark.parametrize("case", [case for case in shard_script.CASES if case != "ruled"])
def test_deepspeed_ends_where_one_process_does(case, one, deepspeed):
    compare(case, one, deepspeed)


def test_deepspeed_takes_a_weight_that_is_given(deepspeed):
    for rank in deepspeed:
        assert "a λ1 balanced with the task loss" in rank["ruled"] and "set energy_weight" in rank["ruled"]


def test_a_deepspeed_checkpoint_is_not_read_back(deepspeed):
    for rank in deepspeed:
        assert "under DeepSpeed" in rank["resume"] and "pickled" in rank["resume"]
