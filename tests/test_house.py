"""The shape of the package: which room may import which, read from the imports themselves."""

import ast
import subprocess
import sys
from pathlib import Path

import seal_hf

PACKAGE = Path(seal_hf.__file__).parent
# From the ground up: a room imports rooms that stand before it, and itself. Imports for type checkers count too.
FLOORS = (
    "utils structures task_losses spaces energies energy_losses metrics decisions inference data adapters nets "
    "second_net saving models implicit extensions training reports trainer cli compare analysis demo"
).split()
DOORS = ("", "api", "__main__")  # `import seal_hf`, what it offers, the command: they are above all rooms


def modules() -> dict[str, Path]:
    """Dotted name below the package -> file; "" is the package itself."""
    files = {path.relative_to(PACKAGE).with_suffix("").parts: path for path in PACKAGE.rglob("*.py")}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for parts, path in files.items()}


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that this one imports, anywhere in the file."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("seal_hf.") for alias in node.names if alias.name.startswith("seal_hf.")}
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
        elif (node.module or "").split(".")[0] == "seal_hf":
            base = node.module.split(".")[1:]
        else:
            continue
        base = ".".join(filter(None, base))
        for alias in node.names:
            inner = f"{base}.{alias.name}" if base else alias.name
            found.add(inner if inner in known else base)
    return found


KNOWN = modules()
IMPORTS = {name: imported(name, path, KNOWN) for name, path in KNOWN.items()}


def test_every_room_has_its_floor_and_there_are_few():
    rooms = {name.split(".")[0] for name in KNOWN if name not in DOORS}
    assert rooms == set(FLOORS)
    assert len(rooms) <= 24


def test_no_import_runs_upwards():
    floor = {room: i for i, room in enumerate((*FLOORS, *DOORS))}
    upwards = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if name not in DOORS and floor[other.split(".")[0]] > floor[name.split(".")[0]]
    ]
    assert upwards == []


def test_the_package_offers_its_api_and_the_command_imports_what_needs_no_library():
    """The rest is imported by name, when a subcommand is run or a name is asked for."""
    assert IMPORTS[""] == {"api"}
    assert IMPORTS["__main__"] == {"cli.known_flags", "cli.programs", "utils.messages"}


def test_no_files_import_each_other_in_a_circle():
    left = {name: set(others) - {name} for name, others in IMPORTS.items()}
    for name, others in left.items():  # a package's __init__ imports its modules, which may name the package
        assert all(other in KNOWN for other in others), (name, others - KNOWN.keys())
    while True:
        free = {name for name, others in left.items() if not others & left.keys()}
        if not free:
            break
        left = {name: others for name, others in left.items() if name not in free}
    assert left == {}


def test_decisions_import_no_torch():
    """Decisions on another model's probabilities need numpy and scipy alone; other names come when asked for."""
    code = (
        "import sys\nfrom seal_hf.decisions import LabelDecisions\nimport seal_hf.decisions.base\n"
        "heavy = {'torch', 'transformers', 'datasets', 'pyarrow', 'sklearn', 'pandas', 'matplotlib'}\n"
        "print(*sorted(heavy & sys.modules.keys()), 'seal_hf.api' in sys.modules)\n"
        "import seal_hf\nprint('decisions' in vars(seal_hf), seal_hf.TensorRows.__name__, 'torch' in sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert (ended.stdout, ended.stderr) == ("False\nTrue TensorRows True\n", "")
