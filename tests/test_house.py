"""The shape of the package: which room may import which, read from the imports themselves."""

import ast
import runpy
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

from launching import anew

import seal_hf
from seal_hf import api, demo, metrics

PACKAGE = Path(seal_hf.__file__).parent
# From the ground up: a room imports rooms that stand before it, and itself. Imports for type checkers count too.
FLOORS = (
    "utils core energy_losses data nets loss_net saving extensions reports training trainer cli lab tasks"
).split()
# `import seal_hf`, what it offers, the metrics and the demo for users, the command: they are above all rooms
DOORS = ("", "api", "metrics", "demo", "decisions", "__main__")


def modules() -> dict[str, Path]:
    """Dotted name below the package -> file; "" is the package itself."""
    files = {path.relative_to(PACKAGE).with_suffix("").parts: path for path in PACKAGE.rglob("*.py")}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for parts, path in files.items()}


def nodes_of(path: Path) -> list[ast.AST]:
    """What the tests look at of a file: its imports and calls."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)]


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that this one imports, anywhere in the file."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in nodes()[name]:
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


@cache
def nodes() -> dict[str, list[ast.AST]]:
    return {name: nodes_of(path) for name, path in KNOWN.items()}


@cache
def imports() -> dict[str, set[str]]:
    return {name: imported(name, path, KNOWN) for name, path in KNOWN.items()}


def test_every_room_has_its_floor_and_there_are_few():
    rooms = {name.split(".")[0] for name in KNOWN if name not in DOORS}
    assert rooms == set(FLOORS)
    assert len([room for room in rooms if (PACKAGE / room).is_dir()]) <= 13


def test_no_import_runs_upwards():
    floor = {room: i for i, room in enumerate((*FLOORS, *DOORS))}
    for name, others in imports().items():
        upwards = {other for other in others if floor[other.split(".")[0]] > floor[name.split(".")[0]]}
        assert name in DOORS or not upwards, (name, upwards)


def test_only_tasks_ask_for_the_class_of_a_space_or_of_a_task():
    for name, of_name in nodes().items():
        for node in of_name:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                classes = [each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)]
                asked = [each for each in classes if each.endswith(("Space", "Task"))]
                assert name.startswith("tasks") or not asked, (name, asked)


def test_only_tasks_import_what_is_looked_at_after_training():
    below = [name for name, others in imports().items() if any(other.split(".")[0] == "lab" for other in others)]
    assert {name.split(".")[0] for name in below if name not in DOORS} <= {"lab", "tasks"}


def test_the_package_offers_its_api_and_the_command_imports_what_needs_no_library():
    """The rest is imported by name, when a subcommand is run or a name is asked for."""
    assert imports()[""] == {"api", "tasks"}
    assert imports()["__main__"] == {"cli.programs", "utils.messages"}


def test_no_files_import_each_other_in_a_circle():
    left = {name: set(others) - {name} for name, others in imports().items()}
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
    heavy = {"torch", "transformers", "datasets", "pyarrow", "sklearn", "pandas", "matplotlib", "evaluate"}
    before = dict(sys.modules)

    def program():
        for name in ("decisions", "core.decisions", "tasks.labels.metrics"):
            import_module(f"seal_hf.{name}")
        package = sys.modules["seal_hf"]
        assert package.decisions.LabelDecisions and not {*heavy, "seal_hf.api"} & sys.modules.keys()
        sys.modules.update({name: module for name, module in before.items() if not name.startswith("seal_hf")})
        assert "TensorRows" not in vars(package) and package.TensorRows.__name__ == "TensorRows"

    anew(program, heavy)


def test_the_package_imports_its_nets_and_little_else(tmp_path):
    """What transformers must know is registered; the rest is imported by name. At most 120 modules were the goal.

    In a user's program that `python -m` starts, whose package imports ours while Python looks for the module."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("import seal_hf\n")
    code = "print(*[name for name in sys.modules if name.split('.')[0] == 'seal_hf'], file=open({!r}, 'w'))\n"
    first, second = (code.format(str(tmp_path / name)) for name in ("loaded", "with_trainer"))
    (tmp_path / "mine" / "__main__.py").write_text(f"import sys\n{first}from seal_hf import SealTrainer\n{second}")

    def program():
        sys.path.insert(0, str(tmp_path))
        sys.argv, sys.orig_argv = ["-m", "seal_hf"], [sys.executable, "-m", "mine", "seal_hf"]
        runpy.run_module("mine", run_name="__main__", alter_sys=True)

    anew(program)
    loaded, with_trainer = (
        {name.removeprefix("seal_hf").removeprefix(".") for name in (tmp_path / file).read_text().split()}
        for file in ("loaded", "with_trainer")
    )
    registering = {name for name, path in KNOWN.items() if "\nAuto" in path.read_text(encoding="utf-8")}
    assert registering == set(seal_hf.REGISTERED) <= loaded
    assert len(with_trainer) <= 120 and not {name for name in with_trainer if name.startswith("data.tag")}
    assert len(loaded) <= 50 and not {name.split(".")[0] for name in loaded} & {"cli", "data", "lab", "reports"}


# What users import is frozen: a name leaves this list only with a line in CHANGELOG.md.
PUBLIC = """
BiLSTMConfig BiLSTMForTokenClassification BinaryMaskSpace CNNConfig CNNForImageClassification Candidates
ClassGridEnergy DataError ENERGIES ENERGY_LOSSES ENERGY_METHODS EnergyLoss EnergyTrainer EnergyTrainingArguments
FCNConfig FCNForSemanticSegmentation FlipAndCrop GradientBasedInference GridEnergy Hypergradient ImageRows
LabelFunctionReward LabelRuleReward LabelSets Learner LossNet LossNetConfig MLPConfig MLPForMultiLabel
MaskEnergyTrainer MaskFunctionReward MaskRows MaskRuleReward MaskSpace MultiLabelData MultiLabelEnergy MultiLabelSpace
NewEpoch NonFiniteLossError OutputSpace PooledConfig PooledForSequenceClassification Reward RewardBinaryMaskSpace
RewardLabelSpace RewardMaskSpace RewardTagSpace Rule SPACES SealForMultiLabel SealForSegmentation
SealForTokenClassification SealModel SealTrainer SealTrainingArguments SegmentationData TASK_LOSSES TagFunctionReward
TagRuleReward TagSequenceData TagSequenceSpace TaskLoss TensorRows Vocabulary WindowedConfig
WindowedForSequenceClassification WordRows WordVectors average_with_regression cnn_image_processor collate_rows
crop_averaged encode_words fcn_image_processor load_energy_network load_masks load_multilabel load_srl load_tags
load_trees load_word_vectors pixel_scaling read_rules resize_to reward_rows select_parameters tags_to_tree tokenize
tokenize_words
""".split()
PUBLIC_METRICS = """
HierarchicalComputeMetrics MultiLabelByBatch class_mask_metrics core_role_violations example_f1 first_output
hierarchical_metrics label_report mask_compute_metrics mask_iou mask_metrics mask_probabilities
multilabel_compute_metrics multilabel_metrics sigmoid span_counts tag_metrics tag_report tagging_compute_metrics
tree_compute_metrics tree_metrics tune_mask_threshold tune_threshold
""".split()


def test_public_names_stay():
    assert sorted(api.__all__) == sorted(seal_hf.__all__) == PUBLIC and set(PUBLIC) <= set(dir(api))
    assert all(getattr(seal_hf, name) is getattr(api, name) for name in PUBLIC)
    assert sorted(metrics.__all__) == PUBLIC_METRICS and set(PUBLIC_METRICS) <= set(dir(metrics))
    assert sorted(demo.__all__) == ["build", "launch"]
