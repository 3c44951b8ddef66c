"""Starts programs of this folder through the real `accelerate launch`, configured by `examples/accelerate/`."""

import os
import re
import socket
import subprocess
import sys
import traceback
from pathlib import Path

import torch

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
