"""torch.compile of the task-net gives the eager run, compiles nothing anew from step to step, and leaves no trace in
what is saved. With a backend that needs no C++ compiler."""

import os

import pytest
import tiny_run
import torch
from safetensors.torch import load_file
from torch._dynamo.utils import counters

from seal_hf import TensorRows

pytestmark = pytest.mark.long

BACKEND = "aot_eager"


def run(tmp_path, compiled=False, **options):
    """Parameters of both nets, and the number of graphs compiled."""
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    if compiled:
        options |= dict(torch_compile=True, torch_compile_backend=BACKEND)
    rows = TensorRows(tiny_run.table(42))  # the last of three batches is not whole
    trainer, nets = tiny_run.make(tmp_path, rows=rows, **options)
    trainer.train()
    os.environ.pop("ACCELERATE_DYNAMO_BACKEND", None)  # 4.57 leaves it there, for every later run of the process
    assert trainer.model is nets.task_net and trainer.loss_net is nets.loss_net
    return tiny_run.parameters(nets), counters["frames"]["ok"]


def test_a_compiled_net_ends_where_an_eager_one_does_and_stays_compiled(tmp_path):
    """One graph for whole batches, and one for any other size; whatever the number of steps."""
    eager, graphs = run(tmp_path, loss="regression")
    assert graphs == 0
    compiled, graphs = run(tmp_path, True, loss="regression")
    torch.testing.assert_close(compiled, eager, rtol=0, atol=1e-5)
    assert graphs == 2
    assert run(tmp_path, True, loss="regression", num_train_epochs=6)[1] == 2


def test_a_compiled_net_under_accumulation(tmp_path):
    options = dict(encoder="shared", accumulation=2, batch=8, loss_net_steps=2)
    eager, _ = run(tmp_path, **options)
    torch.testing.assert_close(run(tmp_path, True, **options)[0], eager, rtol=0, atol=1e-5)


def test_a_compiled_net_in_bf16(tmp_path):
    """Compiled, other intermediate values are rounded."""
    eager, _ = run(tmp_path, loss="regression", bf16=True)
    compiled, _ = run(tmp_path, True, loss="regression", bf16=True)
    assert (compiled - eager).norm() < 0.02 * (eager - tiny_run.parameters(tiny_run.model())).norm()


def test_a_compiled_run_saves_plain_names_and_resumes(tmp_path):
    saving = dict(save_strategy="steps", save_steps=4, eval_strategy="epoch")
    whole, _ = run(tmp_path / "whole", True, **saving)
    for net in (".", "_loss_net"):
        names = load_file(tmp_path / "whole" / "checkpoint-4" / net / "model.safetensors")
        assert names and not any("_orig_mod" in name for name in names)
    resumed, _ = tiny_run.run(
        tmp_path / "eager", resume=f"{tmp_path}/whole/checkpoint-4", rows=TensorRows(tiny_run.table(42)), **saving
    )
    torch.testing.assert_close(resumed, whole, rtol=0, atol=1e-5)
