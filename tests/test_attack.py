"""benchmarks/attack.py: its table, its judgement of a case, and that its watch notices what it must."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def attack(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import attack

    yield attack
    for name in [name for name in sys.modules if name == "attack" or name.startswith("attacks")]:
        sys.modules.pop(name)


def test_the_table_of_the_documentation_is_that_of_the_last_run(attack):
    found = json.loads((ROOT / "benchmarks" / "attack.json").read_text(encoding="utf-8"))
    assert attack.as_table(found["outcomes"]) in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert not any(counts["code run"] for counts in found["outcomes"].values())


@pytest.mark.skipif(sys.platform != "linux", reason="the watch of the baits is Linux's")
def test_outcomes_of_cases(attack, tmp_path):
    from attacks.engine import BAIT, Case, run_cases

    def raises(error):
        def command():
            raise error

        return command

    def bait():
        Path("..", BAIT, "secret").write_text("x")

    cases = {
        "clear": (raises(ValueError("rows.csv is empty")), None),
        "unclear": (raises(ValueError("no")), None),
        "traceback": (raises(KeyError("x")), None),
        "legal": (lambda: None, "nothing is wrong"),
        "silent": (lambda: None, None),
        "opened outside": (bait, None),
    }
    made = [
        Case("test", kind, lambda draw, legal=legal: legal, command, ("rows.csv",))
        for kind, (command, legal) in cases.items()
    ]
    found = {ended.case.name: ended.kind for ended in run_cases(made, tmp_path, 0, 2, [ROOT])}
    assert found == {kind: kind for kind in cases}
