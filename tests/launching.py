"""Starts programs of this folder through the real `accelerate launch`, configured by `examples/accelerate/`."""

import os
import re
import socket
import subprocess
import sys
import traceback
import warnings
from functools import partial
from pathlib import Path

import torch
from accelerate.state import AcceleratorState, GradientState, PartialState
from transformers.models.auto import configuration_auto, modeling_auto

ROOT = Path(__file__).resolve().parents[1]
OUR_WARNING = re.compile(rf"^{re.escape(str(ROOT))}/seal_hf/\S+:\d+: \w*Warning: .*", re.MULTILINE)
OF_A_LAUNCHER = ("ACCELERATE_", "FSDP_", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(config, script, *arguments, options=(), **variables) -> subprocess.Popen:
    """One `accelerate launch` of a file of this folder, or of a module where `-m` is among the `options`, which are its
    own and go over the file's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OF_A_LAUNCHER)}
    paths = [str(ROOT), environment.get("PYTHONPATH", "")]
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONWARNINGS": "default", **variables}
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--config_file",
        f"{ROOT}/examples/accelerate/{config}",
    ]
    program = script if "-m" in options else f"{ROOT}/tests/{script}"
    command = [*launch, *map(str, options), program, *map(str, arguments)]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)


def finish(*launches: subprocess.Popen) -> None:
    """Wait for all of them; the first that fails, or in which our code warns, ends the others."""
    try:
        for launch in launches:
            output, _ = launch.communicate(timeout=300)
            assert launch.returncode == 0, output[-8000:]
            assert OUR_WARNING.findall(output) == []
    finally:
        for launch in launches:
            launch.kill()


def results(folder, world) -> list[dict]:
    """What each rank wrote at its end."""
    return [torch.load(Path(folder) / f"rank{rank}.pt", weights_only=True) for rank in range(world)]


def anew(function, without=()):
    """Runs a function in a fork that has imported neither this package, whose nets transformers does not know there,
    nor these libraries: starting Python and torch again takes seconds."""

    def program():
        for auto in vars(modeling_auto).values():
            if hasattr(getattr(auto, "_model_mapping", None), "_extra_content"):
                auto._model_mapping._extra_content.clear()
        configuration_auto.CONFIG_MAPPING._extra_content.clear()
        for name in [*sys.modules]:
            if name.partition(".")[0] in ("seal_hf", *without):
                del sys.modules[name]
        function()

    assert forked(program) == [0]


def without_seal_hf(function):
    """Runs a function in a fork that cannot import this package, and in which transformers knows none of its nets."""

    def program():
        sys.modules["seal_hf"] = None
        function()
        assert not [name for name in sys.modules if name.startswith("seal_hf.")]

    anew(program)


def two_processes(function):
    """Calls a function with rank 0 and 1 in two forks, which have the variables of a launcher."""
    port = free_port()

    def process(rank):
        warnings.resetwarnings()
        warnings.filterwarnings("default")  # those of the libraries
        warnings.filterwarnings("error", module=r"seal_hf\.")
        for state in (AcceleratorState, GradientState):
            state._reset_state()
        PartialState._reset_state()
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        function(rank)
        assert torch.distributed.get_world_size() == 2
        torch.distributed.destroy_process_group()  # left open, its threads now and then abort a process that ends

    assert forked(partial(process, 0), partial(process, 1)) == [0, 0]


def forked(*functions):
    """Runs each function in a fork; the exit statuses, where a signal is negative."""
    children = []
    for function in functions:
        child = os.fork()
        if not child:
            status = 1
            try:
                function()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
