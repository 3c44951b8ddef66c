"""seal-hf train srl in this process, on a few propositions in bracket columns. Oracle: the metrics over its files."""

import json

import pytest
from tiny_models import WORDS, tiny_config, tiny_tokenizer
from transformers import AutoModel

from seal_hf.metrics import tag_metrics
from seal_hf.tasks.tags.program import ROLE_PROGRAM as srl

ROLES = ("(ARG0*)", "(V*)", "(ARG1*", "*)")  # of four words, the second of which is the predicate


def write(file, size):
    """Sentences of four words, one proposition each."""
    blocks = []
    for row in range(size):
        words = [WORDS[(row + i) % len(WORDS)] for i in range(len(ROLES))]
        frame = lambda i: "do\tdo.01" if i == 1 else "-\t-"  # noqa: E731
        lines = (f"{i}\t{word}\tX\t*\t{frame(i)}\t{ROLES[i]}" for i, word in enumerate(words))
        blocks.append("\n".join(lines))
    file.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("encoder", "flags"),
    [
        ("bert", "--loss ce --task_loss unique_roles"),
        ("distilbert", "--loss nce --num_samples 4 --global_size 8"),  # without token types
    ],
)
def test_roles_are_trained_predicted_and_measured(encoder, flags, tmp_path):
    data, net, out = (tmp_path / name for name in ("data", "net", "out"))
    data.mkdir()
    for split, size in (("train", 24), ("dev", 8), ("test", 6)):
        write(data / f"tiny.{split}.srl", size)
    AutoModel.from_config(tiny_config(encoder)).save_pretrained(net)
    tiny_tokenizer().save_pretrained(net)
    options = f"--num_train_epochs 1 --max_eval_rows 4 --use_cpu true {flags}".split()
    options += "--disable_tqdm true --report_to none --report false".split()
    places = ["--dataset", str(data), "--model_name_or_path", str(net), "--output_dir", str(out)]
    metrics = srl.main([*places, *options])
    for split, size in (("eval", 8), ("test", 6)):
        lines = (out / f"_predictions_{split}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        assert len(rows) == size and {row["predicate"] for row in rows} == {1}
        assert rows[0]["gold"] == ["B-ARG0", "B-V", "B-ARG1", "I-ARG1"]
        figures = tag_metrics([row["predicted"] for row in rows], [row["gold"] for row in rows], "srl")
        assert {key: metrics[f"{split}_{key}"] for key in figures} == pytest.approx(figures)
        assert metrics[f"{split}_core_role_violations_unique_roles"] == 0


def test_a_run_without_a_crf_that_resumes_with_one_names_the_task_loss(tmp_path):
    """As of a run of version 0.1.0, whose default it was."""
    data, net, out = (tmp_path / name for name in ("data", "net", "out"))
    data.mkdir()
    for split in ("train", "dev"):
        write(data / f"tiny.{split}.srl", 8)
    AutoModel.from_config(tiny_config("bert")).save_pretrained(net)
    tiny_tokenizer().save_pretrained(net)
    words = ["--dataset", str(data), "--model_name_or_path", str(net), "--output_dir", str(out), "--loss", "ce"]
    words += "--use_cpu true --disable_tqdm true --report_to none --report false --save_strategy epoch".split()
    srl.main([*words, *"--num_train_epochs 1 --task_loss cross_entropy".split()])
    again = "--num_train_epochs 2 --resume_from_checkpoint last --resume_changed true".split()
    changed = r"Changed: task_loss was 'cross_entropy', now 'crf' \(--task_loss\). Give back the old values"
    with pytest.raises(ValueError, match=changed):
        srl.main([*words, *again])
    srl.main([*words, *again, "--task_loss", "cross_entropy"])
