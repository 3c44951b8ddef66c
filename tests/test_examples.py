"""The examples to copy: each runs as it stands, on small data, with two training steps."""

import ast
import runpy
import sys
from pathlib import Path

import pytest
from tiny_models import tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModel, TrainingArguments

import seal_hf
from seal_hf.data import embedded

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = [
    file.stem for file in sorted(EXAMPLES.glob("*.py")) if "run_" not in file.stem and "compare" not in file.stem
]


def words(script, tmp_path):
    """The command line: small data where the script has none of its own, then the output folder."""
    if script != "multi_label_text":
        return []
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "encoder")
    tiny_tokenizer().save_pretrained(tmp_path / "encoder")
    rows = tiny_texts(40)
    lines = [
        f"{text},{'|'.join(str(i) for i, y in enumerate(labels) if y) or '0'}"
        for text, labels in zip(rows["text"], rows["labels"], strict=True)
    ]
    (tmp_path / "mine.csv").write_text("\n".join(["text,labels", *lines]) + "\n")
    return ["mine.csv", "encoder"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_runs_on_public_names_and_is_short(script, tmp_path, monkeypatch, capsys):
    source = (EXAMPLES / f"{script}.py").read_text(encoding="utf-8")
    assert 40 <= len(source.splitlines()) <= 70
    imports = [node for node in ast.parse(source).body if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if node.module.startswith("seal_hf")]
    assert {node.module for node in ours} <= {"seal_hf", "seal_hf.metrics"}
    names = {alias.name for node in ours if node.module == "seal_hf" for alias in node.names}
    assert names <= set(seal_hf.api.__all__)

    whole = TrainingArguments.__post_init__

    def short(self):
        self.max_steps = 2
        whole(self)

    monkeypatch.setattr(TrainingArguments, "__post_init__", short)
    monkeypatch.setattr(embedded, "MASK_SIZES", {"train": 16, "validation": 8, "test": 8})
    monkeypatch.setattr(embedded, "GROUP_SIZES", {"train": 200, "validation": 100, "test": 100})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{script}.py", *words(script, tmp_path)])
    runpy.run_path(str(EXAMPLES / f"{script}.py"), run_name="__main__")
    assert capsys.readouterr().out
    assert list(tmp_path.glob("outputs/**/final/model.safetensors"))
