"""Two processes against this one, which are connected as those of a launcher are; and `accelerate launch` with one
process, and with two on two "machines". Oracles: the same runs here, and the definition of batch repeats checked on the
rows of each rank."""

import json

import pytest
import tiny_energy
import tiny_run
import torch
import train_script
import transformers
from launching import finish, free_port, results, start, two_processes
from packaging.version import Version
from torch.utils.data import SequentialSampler

from seal_hf import TensorRows
from seal_hf.saving.checkpoints import COMPLETE

WORLD = 2
# Stock 4.57 refuses its own random state there: "don't know how to restore data location ... tagged with cpu:0".
CAN_RESUME = Version(transformers.__version__) >= Version("5")


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """What a single process ends with."""
    return train_script.run_all(str(tmp_path_factory.mktemp("one")), world=1, resume=False)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of two processes ends with."""
    folder = tmp_path_factory.mktemp("two")
    two_processes(lambda rank: train_script.write(folder, WORLD, rank, resume=CAN_RESUME))
    for marker in folder.rglob(COMPLETE):  # written when all ranks had written theirs
        assert {"rng_state_0.pth", "rng_state_1.pth"} <= json.loads(marker.read_text()).keys()
    return results(folder, WORLD)


@pytest.mark.long
def test_accelerate_launch_of_one_process_is_the_plain_run(tmp_path, one):
    options = ("--num_processes", 1, "--main_process_port", free_port())
    finish(start("one_machine.yaml", "train_script.py", tmp_path, "accumulation", options=options))
    (launched,) = results(tmp_path, 1)
    assert torch.equal(launched["accumulation"]["parameters"], one["accumulation"]["parameters"])


@pytest.mark.long
def test_two_machines_end_where_one_process_does(tmp_path, one):
    address = ("--main_process_ip", "127.0.0.1", "--main_process_port", free_port())
    machines = [
        start(
            "multi_node.yaml", "train_script.py", tmp_path, "accumulation", options=("--machine_rank", rank, *address)
        )
        for rank in range(WORLD)
    ]
    finish(*machines)
    first, second = (rank["accumulation"]["parameters"] for rank in results(tmp_path, WORLD))
    assert torch.equal(first, second)
    torch.testing.assert_close(first, one["accumulation"]["parameters"], rtol=0, atol=2e-6)


@pytest.mark.parametrize("case", train_script.CASES)
def test_two_processes_end_where_one_does(case, one, ranks):
    assert [rank[case]["steps"] for rank in ranks] == [one[case]["steps"]] * WORLD
    assert torch.equal(*(rank[case]["parameters"] for rank in ranks))
    if case == "bf16":  # sums of other rows are rounded
        moved = one[case]["parameters"] - tiny_run.parameters(tiny_run.model())
        assert (ranks[0][case]["parameters"] - one[case]["parameters"]).norm() < 0.02 * moved.norm()
    else:
        torch.testing.assert_close(ranks[0][case]["parameters"], one[case]["parameters"], rtol=0, atol=2e-6)


@pytest.mark.parametrize("case", train_script.CASES)
def test_what_is_measured_covers_both_processes(case, one, ranks):
    """Means over the rows of the data set, each counted once, also where both ranks take as many of 42 rows in batches
    of 8."""
    rel = 2e-2 if case == "bf16" else 1e-4
    assert ranks[0][case]["log"] == pytest.approx(one[case]["log"], rel=rel) and one[case]["log"]
    for rank in ranks:
        for name in one[case]["metrics"]:
            least = 1e-3 if name == "eval_energy_alignment" else 0  # a cosine, which may be near 0
            assert rank[case]["metrics"][name] == pytest.approx(one[case]["metrics"][name], rel=rel, abs=least), name


@pytest.mark.parametrize("case", [name for name in train_script.CASES if name.startswith("repeats")])
def test_repeats_give_each_rank_its_own_rows_of_every_window(case, one, ranks):
    options = train_script.CASES[case]
    accumulation, num_rows = options.get("accumulation", 1), options.get("num_rows", train_script.ROWS)

    def updates(result):
        """Rows of each task-net update: one list per update."""
        batches = result[case]["rows"]
        return [sum(batches[i : i + accumulation], []) for i in range(0, len(batches), accumulation)]

    mine, theirs, single = updates(ranks[0]), updates(ranks[1]), updates(one)
    assert len(mine) == len(theirs) == len(single) == 2 * 2 * -(-num_rows // train_script.ROWS_PER_UPDATE)
    for i, (a, b, both) in enumerate(zip(mine, theirs, single, strict=True)):
        assert not set(a) & set(b) and len(a) == len(b) == train_script.ROWS_PER_UPDATE // WORLD
        assert sorted(a + b) == sorted(both)  # the window of one process, cut in two
        if i % 2:  # the second visit of the window: the same rows on the same ranks
            assert (a, b) == (mine[i - 1], theirs[i - 1])
        elif i:
            assert set(a + b) != set(mine[i - 1] + theirs[i - 1])
    half = len(single) // 2
    orders = []
    for epoch in (slice(0, half, 2), slice(half, None, 2)):
        order = sum((a + b for a, b in zip(mine[epoch], theirs[epoch], strict=True)), [])
        assert set(order) == set(range(num_rows))
        orders.append(order)
    assert orders[0] != orders[1]  # another order in the second epoch


@pytest.mark.parametrize("case", train_script.TAGGERS)
def test_two_processes_train_a_crf_as_one_does(case, one, ranks):
    """And a cost-augmented network with a task loss of its own, or implicit gradients; rows of the two are padded to
    other lengths."""
    for rank in ranks:
        torch.testing.assert_close(rank[case]["parameters"], one[case]["parameters"], rtol=0, atol=2e-6)


def test_two_processes_train_on_crops_as_one_does(one, ranks):
    for rank in ranks:
        for name, value in one["masks"].items():
            torch.testing.assert_close(rank["masks"][name], value, rtol=0, atol=2e-5)


def test_two_processes_train_on_augmented_images_as_one_does(one, ranks):
    for rank in ranks:
        torch.testing.assert_close(rank["images"]["parameters"], one["images"]["parameters"], rtol=0, atol=2e-6)


@pytest.mark.parametrize("case", tiny_energy.CASES)
def test_two_processes_train_an_energy_network_as_one_does(case, one, ranks):
    """Energies of an evaluation cover each of 42 rows once."""
    assert torch.equal(*(rank[case]["parameters"] for rank in ranks))
    torch.testing.assert_close(ranks[0][case]["parameters"], one[case]["parameters"], rtol=0, atol=2e-6)
    assert ranks[1][case]["energies"] == pytest.approx(one[case]["energies"], rel=1e-4) and one[case]["energies"]


def test_ranks_draw_different_samples(ranks):
    """Equal outputs everywhere, so samples are equal only where the noise is."""
    samples = torch.cat([rank["samples"] for rank in ranks])  # of each rank: 2 steps x 2 updates x 2 micro-batches
    assert len(samples) == WORLD * 8 and samples.unique(dim=0).shape == samples.shape
    assert samples.mean().item() == pytest.approx(0.5, abs=0.02)


def test_a_nan_on_one_rank_stops_both(one, ranks):
    assert ranks[0]["nan"] == ranks[1]["nan"] == one["nan"]
    assert "loss-net phase is NaN or infinite, first at step" in one["nan"]


def test_two_processes_with_compiled_nets_end_where_one_eager_process_does(one, ranks):
    for rank in ranks:
        torch.testing.assert_close(rank["compiled"]["parameters"], one["accumulation"]["parameters"], rtol=0, atol=1e-5)


def test_a_last_batch_that_is_filled_up_counts_as_the_rows_it_holds(tmp_path, ranks):
    """42 rows in batches of 8 per rank: accelerate fills the last ones with rows of the first. A single process that is
    given the rows of both ranks, update by update, ends at the same parameters."""
    a, b = (rank["filled up"]["rows"] for rank in ranks)
    order = sum((x + y for x, y in zip(a, b, strict=True)), [])
    assert len(order) == 2 * 48 and set(order) == set(range(42))
    torch.manual_seed(0)
    rows = TensorRows(tiny_run.table().select(order))
    trainer, nets = tiny_run.make(tmp_path, rows=rows, num_train_epochs=1, loss="regression")
    trainer._get_train_sampler = lambda *_: SequentialSampler(rows)
    trainer.train()
    torch.testing.assert_close(tiny_run.parameters(nets), ranks[0]["filled up"]["parameters"], rtol=0, atol=2e-6)


def test_ranks_stay_equal_with_dropout_samples_and_a_batch_that_is_not_whole(ranks):
    first, second = (rank["best"]["parameters"] for rank in ranks)
    assert torch.equal(first, second) and first.isfinite().all()
    assert ranks[0]["best"]["metrics"] == ranks[1]["best"]["metrics"]


@pytest.mark.skipif(not CAN_RESUME, reason="stock transformers 4.57 cannot resume under two gloo processes")
@pytest.mark.parametrize("name", train_script.RESUMED)
def test_two_processes_resume_to_the_bit(name, ranks):
    """Interrupted in the middle of an epoch; dropout, samples, and accumulation or repeats on."""
    for rank in ranks:
        whole, steps = rank[name]["steps"]
        assert whole == steps > 4
        assert torch.equal(rank[name]["parameters"], rank[name]["whole"])
