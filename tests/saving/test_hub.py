"""From training to the Hub and back: a real client process against the fake Hub. Oracles: the nets that were pushed,
the repository's files, and the pushed card's own snippet."""

import json
import re

import pytest
from fake_hub import FakeHub
from huggingface_hub import ModelCard
from tiny_models import LABELS, tiny_arguments, tiny_config, tiny_features
from transformers import AutoModelForSequenceClassification

from seal_hf import SealTrainer, TensorRows

CLIENT = """
import contextlib, io, json, logging, sys
from pathlib import Path
import torch
from huggingface_hub import HfApi, snapshot_download
from transformers import AutoModel, pipeline
from tiny_models import LABELLED, LABELS, tiny_arguments, tiny_config, tiny_inputs, tiny_texts, tiny_tokenizer
from seal_hf import SealForMultiLabel, SealTrainer, tokenize
from seal_hf.metrics import multilabel_compute_metrics
from seal_hf.tasks.labels.evaluation import evaluate_multilabel

home, results = Path(sys.argv[1]), {}
torch.manual_seed(0)
AutoModel.from_config(tiny_config("bert")).save_pretrained(home / "encoder")
tokenizer = tiny_tokenizer()
train, validation = (tokenize(tiny_texts(12, seed), tokenizer, 8) for seed in (0, 1))
inputs, texts = tiny_inputs("bert"), tiny_texts(5, seed=1)["text"][:]
y = torch.rand(5, 3, 4, generator=torch.Generator().manual_seed(0))

def trainer_of(name, **arguments):
    seal = SealForMultiLabel.from_pretrained(home / "encoder", **LABELLED)
    args = tiny_arguments(home / name, push_to_hub=True, hub_always_push=True, hub_model_id="user/" + name,
                          save_strategy="steps", save_steps=2, hub_token="secret-token", **arguments)
    return seal, SealTrainer(seal, args, train_dataset=train, eval_dataset=validation, processing_class=tokenizer,
                             compute_metrics=multilabel_compute_metrics)

# 1. pushed while training, and after it with figures, threshold and card
seal, trainer = trainer_of("seal", hub_strategy="checkpoint", decoder="threshold")
trainer.train()
metrics = evaluate_multilabel(trainer, validation, validation).metrics
seal.push_to_hub("user/seal", include_loss_net=True)  # a loss-net that the trainer's own push does not leave there
trainer.card_facts = {"dataset": "org/moods", "finetuned_from": "org/encoder", "metrics": metrics}
(home / "seal" / "report.html").write_text("rows of the data")
trainer.push_to_hub(commit_message="the end", license="apache-2.0", tags="moods")
results["metrics"] = metrics

# 2. loaded back: the task-net is ours, the loss-net is fresh
said = io.StringIO()
logging.getLogger("seal_hf").addHandler(logging.StreamHandler(said))
again = SealForMultiLabel.from_pretrained("user/seal")
assert "No _loss_net/ in user/seal: built a fresh loss-net (encoder: separate)" in said.getvalue(), said.getvalue()
seal.eval()
with torch.no_grad():
    assert torch.equal(seal(**inputs).logits, again(**inputs).logits)
    assert not torch.equal(seal.energy(y, **inputs), again.energy(y, **inputs))
assert again.config.decisions["threshold"] == metrics["threshold"]
plain = again.task_net.base_model.state_dict()
fresh = again.loss_net.encoder.state_dict()
assert all(torch.equal(value, plain[name]) for name, value in fresh.items())
probabilities, decisions = again.predict(**inputs)
assert torch.equal(decisions, seal.predict(**inputs)[1])
scores = pipeline("text-classification", model="user/seal", top_k=None)(texts)
for answer, row in zip(scores, probabilities, strict=True):
    for score in answer:
        assert abs(score["score"] - row[LABELS.index(score["label"])]) < 1e-6

# 3. the last checkpoint on the Hub has both nets, and training goes on from it
checkpoint = Path(snapshot_download("user/seal", allow_patterns="last-checkpoint/*")) / "last-checkpoint"
with torch.no_grad():
    whole = SealForMultiLabel.from_pretrained(checkpoint)
    assert torch.equal(seal.energy(y, **inputs), whole.energy(y, **inputs))
_, resumed = trainer_of("resumed", hub_strategy="end")
resumed.args.max_steps, resumed.args.resume_changed = 6, True
resumed.train(resume_from_checkpoint=str(checkpoint))
assert resumed.state.global_step == 6

# 4. both nets, on request; and no stale loss-net beside a task-net pushed alone
seal.push_to_hub("user/both", include_loss_net=True)
both = SealForMultiLabel.from_pretrained("user/both")
with torch.no_grad():
    assert torch.equal(seal(**inputs).logits, both(**inputs).logits)
    assert torch.equal(seal.energy(y, **inputs), both.energy(y, **inputs))
results["both"] = HfApi().list_repo_files("user/both")
seal.processor = tokenizer
seal.push_to_hub("user/both", revision="dev", commit_message="mine")
results["branch"] = HfApi().list_repo_files("user/both", revision="dev")
results["url"] = seal.push_to_hub("user/both")
results["alone"] = HfApi().list_repo_files("user/both")

# 5. the card's snippet, as a reader would run it
card = Path(snapshot_download("user/seal", allow_patterns="README.md"), "README.md").read_text(encoding="utf-8")
names = {}
exec(card.split("```python\\n")[1].split("```")[0], names)
assert set(names["labels"]) <= set(LABELS)
print(json.dumps(results))
"""


@pytest.mark.long
def test_push_while_training_and_after_and_load_back(tmp_path):
    with FakeHub() as hub:
        printed = hub.run(CLIENT, tmp_path, tmp_path)
        results = json.loads(printed.splitlines()[-1])
        assert hub.unknown_requests == []

        files, nets = hub.files("user/seal"), {"config.json", "model.safetensors"}
        assert nets | {"README.md", "tokenizer.json", "tokenizer_config.json"} <= files.keys()
        assert not [name for name in files if name.startswith("_") or name.startswith("checkpoint-")]
        assert {f"last-checkpoint/_loss_net/{name}" for name in (*nets, "learner.pt")} <= files.keys()
        messages = hub.commits("user/seal")
        assert messages[-1] == "the end" and "Training in progress, step 2" in messages
        config = json.loads(files["config.json"])
        assert config["decisions"]["threshold"] == results["metrics"]["threshold"] and config["label2id"]["fear"] == 2
        assert config["problem_type"] == "multi_label_classification"
        assert "report.html" not in files and not any(b"secret-token" in content for content in files.values())
        assert (tmp_path / "seal" / "_report.html").is_file()
        assert {*nets, "tokenizer.json"} <= set(results["branch"])
        assert nets <= set(results["alone"]) and "_loss_net" not in str(results["alone"])
        assert {f"_loss_net/{name}" for name in nets} <= set(results["both"])
        assert results["url"].endswith("user/both")
        check_card(files["README.md"].decode(), results["metrics"], config["decisions"]["decoder"])


BRANCH = """
import sys
from pathlib import Path
from huggingface_hub import HfApi
import tiny_run
home = Path(sys.argv[1])
tiny_run.model().push_to_hub("user/seal", include_loss_net=True)
HfApi().create_branch("user/seal", branch="dev")
trainer, _ = tiny_run.make(home, push_to_hub=True, hub_model_id="user/seal", hub_revision="dev", num_train_epochs=1)
trainer.train()
trainer.push_to_hub()
"""


@pytest.mark.long
def test_a_push_to_a_branch_changes_that_branch_alone(tmp_path):
    with FakeHub() as hub:
        hub.run(BRANCH, tmp_path, tmp_path / "run")
        main, branch = hub.files("user/seal"), hub.files("user/seal", "dev")
    assert "_loss_net/model.safetensors" in main and main["model.safetensors"] != branch["model.safetensors"]
    assert not [name for name in branch if name.startswith("_loss_net")]  # it is of another task-net


TRAINING = """
import sys
from pathlib import Path
sys.stderr = sys.stdout
import tiny_run
home = Path(sys.argv[1])
options = dict(push_to_hub=True, hub_always_push=True, hub_model_id="user/seal", hub_token="secret-token")
trainer, _ = tiny_run.make(home, max_steps=2, save_strategy="steps", save_steps=2, **options)
home.mkdir(exist_ok=True)
(home / "report.html").write_text("rows of the data")  # of the run that goes on here, by `seal-hf report`
trainer.train()
trainer._finish_current_push()

from seal_hf.__main__ import main  # a program pushes, whose recipe and environment have tokens too
recipe = home / "recipe.yaml"
recipe.write_text("hub_token: token-of-the-recipe")
words = f"train mlc --loss ce --max_train_rows 16 --max_steps 1 --hidden_size 8 --report_to none --recipe {recipe}"
sys.argv = ["seal-hf", *words.split(), *"--push_to_hub true --hub_model_id user/program --hub_token".split(),
            "secret-token", "--output_dir", str(home / "program")]
main()
"""


@pytest.mark.long
def test_a_push_while_training_holds_no_token_and_leaves_the_report_at_home(tmp_path):
    with FakeHub() as hub:
        printed = hub.run(TRAINING, tmp_path, tmp_path / "run")
        there = hub.files("user/program")
        assert {"README.md", "model.safetensors", "training_args.bin"} <= there.keys()
        (tmp_path / "run" / "recipe.yaml").unlink()
        here = {str(path): path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
        for token in ("secret-token", "token-of-the-recipe"):
            assert token not in printed
            assert [name for name, content in (here | there).items() if token.encode() in content] == []
        assert hub.commits("user/seal")[-1] == "Training in progress, step 2"
        files = hub.files("user/seal")
    assert {"config.json", "model.safetensors", "training_args.bin"} <= files.keys()
    assert [name for name, content in files.items() if b"secret-token" in content] == []
    assert "report.html" not in files and (tmp_path / "run" / "_report.html").is_file()


ADAPTER = """
import io, logging, sys
from pathlib import Path
import torch
from huggingface_hub import HfApi
from transformers import AutoModel
from tiny_models import LABELLED, tiny_config, tiny_inputs
from seal_hf import SealForMultiLabel

home, inputs, saved = Path(sys.argv[1]), tiny_inputs("bert"), {}
HfApi().create_repo("user/base")
HfApi().create_branch("user/base", branch="dev")
for seed, branch in enumerate(("main", "dev")):
    torch.manual_seed(seed)
    AutoModel.from_config(tiny_config("bert")).push_to_hub("user/base", revision=branch)
HfApi().upload_file(path_or_fileobj=b'{"pooling_mode": "mean"}', path_in_repo="1_Pooling/config.json",
                    repo_id="user/base", revision="dev")
for branch in ("main", "dev"):
    seal = SealForMultiLabel.from_pretrained("user/base", revision=branch, adapter="lora", **LABELLED)
    assert getattr(seal.config, "pooling", None) == {"main": None, "dev": "mean"}[branch]
    seal.save_pretrained(home / branch, adapter_export="adapter")
    with torch.no_grad():
        saved[branch] = seal(**inputs).logits
        assert torch.equal(SealForMultiLabel.from_pretrained(home / branch)(**inputs).logits, saved[branch])
assert not torch.equal(saved["main"], saved["dev"])

AutoModel.from_config(tiny_config("bert")).save_pretrained(home / "base")
said = io.StringIO()
logging.getLogger("seal_hf.saving.export").addHandler(logging.StreamHandler(said))
for name in ("user/base", home / "base"):
    assert said.getvalue() == ""
    seal = SealForMultiLabel.from_pretrained(name, adapter="lora", **LABELLED)
    seal.push_to_hub("user/adapter", adapter_export="adapter")
assert f"without its base {home / 'base'}, a folder of this machine" in said.getvalue()
"""


@pytest.mark.long
def test_an_adapter_comes_back_on_the_revision_of_its_base_and_a_local_base_is_said(tmp_path):
    pytest.importorskip("peft")
    with FakeHub() as hub:
        hub.run(ADAPTER, tmp_path, tmp_path)
        assert hub.unknown_requests == []


TAGGER = """
import sys
from pathlib import Path
from huggingface_hub import HfApi
from seal_hf import SealForTokenClassification, Vocabulary
from seal_hf.tasks.tags import program as tagging

home = Path(sys.argv[1])
common = "--loss ce --max_train_rows 32 --use_cpu true --disable_tqdm true".split()
push = ["--push_to_hub", "true", "--hub_model_id", "user/tagger", "--hub_revision", "dev", "--hidden_size", "16"]
first = tagging.main(["--output_dir", str(home / "first"), *common, "--max_steps", "2", *push])
branch = {"revision": "dev"}
assert not [name for name in HfApi().list_repo_files("user/tagger") if "vocabulary" in name]
vocabulary = Vocabulary.from_pretrained("user/tagger", **branch)
assert vocabulary == Vocabulary.from_pretrained(home / "first")
seal = SealForTokenClassification.from_pretrained("user/tagger", **branch)
assert seal.config.model_type == "seal_bilstm"
seal.push_to_hub("user/tagger")
HfApi().upload_file(path_or_fileobj=home / "first/vocabulary.json", path_in_repo="vocabulary.json",
                    repo_id="user/tagger")
again = ["--model_name_or_path", "user/tagger", "--num_train_epochs", "0"]
assert tagging.main(["--output_dir", str(home / "again"), *common, *again]) == first
"""


@pytest.mark.long
def test_a_bilstm_and_its_vocabulary_come_back_from_a_branch_and_into_the_program(tmp_path):
    with FakeHub() as hub:
        hub.run(TAGGER, tmp_path, tmp_path)
        assert hub.unknown_requests == []


def check_card(text, metrics, decoder):
    data = ModelCard(text).data
    assert (data.base_model, data.datasets, data.license) == ("org/encoder", ["org/moods"], "apache-2.0")
    assert data.tags == ["seal", "multi-label-classification", "moods"] and data.pipeline_tag == "text-classification"
    figures = {result.metric_name: (result.metric_type, result.metric_value) for result in data.eval_results}
    for key, name in (("decided", "of the decisions"), ("tuned", "at the tuned threshold")):
        assert figures[f"example F1 {name}"] == ("f1", pytest.approx(metrics[f"test_f1_example_{key}"], abs=1e-4))
    assert (
        '"user/seal"' in text and f"The stored decoder is `{decoder}`." in text and "| rows | 12 train, 12 val" in text
    )
    assert "SEAL, nce energy loss" in text and "loss-net encoder | separate" in text
    for name in LABELS:
        assert f"| {name} |" in text
    assert "secret" not in text and "| num\\_samples | 4 |" in text


@pytest.fixture
def features_trainer(tmp_path):
    def make(**arguments):
        model = AutoModelForSequenceClassification.from_config(tiny_config("mlp"))
        rows = TensorRows(tiny_features(12))
        args = tiny_arguments(tmp_path / "mlp", energy_loss="ce", **arguments)
        return SealTrainer(model, args, train_dataset=rows, eval_dataset=rows, compute_metrics=figures_of_step)

    steps = iter(range(1, 100))

    def figures_of_step(_):
        return {"f1_example": 0.5 - 0.01 * next(steps)}  # worse with every evaluation

    return make


def figures(folder):
    card = (folder / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^\| example F1 at 0.5 \| (.*?) \| (.*?) \|$", card, flags=re.M)


def test_the_card_without_a_word_from_the_user(features_trainer, tmp_path):
    """What the trainer knows: the last evaluation of these weights, the model's kind, its arguments."""
    trainer = features_trainer()
    trainer.create_model_card()
    assert figures(tmp_path / "mlp") == []  # nothing measured
    trainer.train()
    trainer.create_model_card()
    assert figures(tmp_path / "mlp") == []
    trainer.evaluate()
    trainer.create_model_card()
    assert figures(tmp_path / "mlp") == [("0.4900", "-")]
    card = (tmp_path / "mlp" / "README.md").read_text(encoding="utf-8")
    assert "cross-entropy" in card and "loss-net" not in card and "num\\_samples" not in card and "from seal_hf" in card
    assert "| gradient\\_accumulation\\_steps | 1 |" in card and str(tmp_path) not in card
    assert ModelCard(card).data.pipeline_tag == "tabular-classification"


def test_the_card_has_the_figures_of_the_best_weights_where_those_were_loaded(features_trainer, tmp_path):
    every_step = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    trainer = features_trainer(load_best_model_at_end=True, metric_for_best_model="f1_example", **every_step)
    trainer.train()
    trainer.create_model_card()
    assert trainer.state.global_step == 4 and trainer.state.best_global_step == 1
    assert figures(tmp_path / "mlp") == [("0.4900", "-")]
    trainer.create_model_card(metrics={"eval_f1_example": 0.25, "test_f1_example": 0.75}, dataset=["a", "b"])
    assert figures(tmp_path / "mlp") == [("0.2500", "0.7500")]
    assert "| data | a, b |" in (tmp_path / "mlp" / "README.md").read_text(encoding="utf-8")
