"""The fake Hub against the real clients: huggingface_hub, transformers and its Trainer, in a process of their own."""

import base64
import http.client
import json
import subprocess
import sys

import pytest
from fake_hub import FakeHub, blob_id

CLIENT = """
import sys
from pathlib import Path
import torch
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification
from transformers import BertTokenizerFast, Trainer, TrainingArguments, pipeline

home = Path(sys.argv[1])
torch.manual_seed(0)
sizes = dict(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
             max_position_embeddings=16)
config = BertConfig(**sizes, num_labels=3, problem_type="multi_label_classification")
model = BertForSequenceClassification(config).eval()
inputs = {"input_ids": torch.tensor([[2, 5, 6, 3]])}

# 1. the model's own push, loaded back
model.push_to_hub("user/tiny")
loaded = AutoModelForSequenceClassification.from_pretrained("user/tiny").eval()
with torch.no_grad():
    assert torch.equal(model(**inputs).logits, loaded(**inputs).logits)

# 2. the API: create, upload, delete, branch, tree, snapshot
api = HfApi()
assert api.whoami()["name"] == "user"
assert api.create_repo("user/folder").repo_id == "user/folder"
assert api.create_repo("folder", exist_ok=True).repo_id == "user/folder"
folder = home / "folder"
(folder / "sub").mkdir(parents=True)
for name in ("a.txt", "sub/b c.txt", "sub/old.txt"):
    (folder / name).write_text("content of " + name)
(folder / "README.md").write_text("---\\ntags: [x]\\n---\\n")
api.upload_folder(repo_id="user/folder", folder_path=folder)
first = api.model_info("user/folder")
assert first.tags == ["x"]
api.upload_folder(repo_id="user/folder", folder_path=folder, ignore_patterns="*old*", delete_patterns="*old*")
api.create_branch("user/folder", branch="first", revision=first.sha)
api.create_branch("user/folder", branch="first", exist_ok=True)
assert api.list_repo_files("user/folder") == ["README.md", "a.txt", "sub/b c.txt"]
assert api.list_repo_files("user/folder", revision="first")[-1] == "sub/old.txt"
assert [entry.path for entry in api.list_repo_tree("user/folder")] == ["sub", "README.md", "a.txt"]
assert [entry.path for entry in api.list_repo_tree("user/folder", "sub")] == ["sub/b c.txt"]
assert [entry.path for entry in api.get_paths_info("user/folder", ["a.txt", "none"])] == ["a.txt"]
assert (Path(snapshot_download("user/folder")) / "sub/b c.txt").read_text() == "content of sub/b c.txt"
for call, error in (
    (lambda: api.model_info("user/none"), RepositoryNotFoundError),
    (lambda: api.model_info("user/folder", revision="none"), RevisionNotFoundError),
    (lambda: api.hf_hub_download("user/folder", "none"), EntryNotFoundError),
    (lambda: api.upload_file(path_or_fileobj=b"---\\n[: x\\n---\\n", path_in_repo="README.md", repo_id="user/folder"),
     ValueError),
):
    try:
        call()
    except error:
        pass
    else:
        raise AssertionError(error)

# 3. the Trainer's push, during training and after it, loaded by a pipeline
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "dull", "film"]
(home / "vocab.txt").write_text("\\n".join(words))
tokenizer = BertTokenizerFast(vocab_file=str(home / "vocab.txt"), vocab={word: i for i, word in enumerate(words)})
rows = [{"input_ids": [2, 5, 8, 3], "attention_mask": [1] * 4, "labels": [1.0, 0.0, 1.0]}] * 4
args = TrainingArguments(output_dir=str(home / "run"), push_to_hub=True, hub_model_id="user/run", max_steps=2,
                         save_steps=1, hub_strategy="every_save", hub_always_push=True, per_device_train_batch_size=2,
                         use_cpu=True, report_to=[], disable_tqdm=True)
trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)
trainer.train()
trainer.push_to_hub(commit_message="the end")
scores = pipeline("text-classification", model="user/run", top_k=None)(["good film"])[0]
model = model.cpu().eval()
with torch.no_grad():
    expected = model(**tokenizer(["good film"], return_tensors="pt")).logits.sigmoid()[0]
assert len(scores) == 3
for score in scores:
    assert abs(score["score"] - expected[model.config.label2id[score["label"]]]) < 1e-6
"""


@pytest.mark.long
def test_the_real_clients_push_and_load(tmp_path):
    with FakeHub() as hub:
        environment = {**hub.environment(tmp_path / "home"), "CUDA_VISIBLE_DEVICES": ""}
        (tmp_path / "home").mkdir()
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, str(tmp_path / "home")], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "model.safetensors" in hub.files("user/tiny")
        assert set(hub.files("user/folder")) == {"README.md", "a.txt", "sub/b c.txt"}
        assert {"model.safetensors", "config.json", "README.md"} <= set(hub.files("user/run"))
        messages = hub.commits("user/run")
        assert messages[-1] == "the end" and any("step 1" in message for message in messages)  # pushed while training
        assert hub.unknown_requests == []


@pytest.fixture
def hub():
    with FakeHub() as hub:
        assert request(hub, "POST", "/api/repos/create", {"name": "repo"})[0] == 200
        yield hub


def request(hub, method, path, body=None, token="fake"):
    connection = http.client.HTTPConnection(hub.endpoint.removeprefix("http://"))
    body = body if body is None or isinstance(body, str) else json.dumps(body)
    connection.request(method, path, body, {"Authorization": f"Bearer {token}"} if token else {})
    response = connection.getresponse()
    answer = response.status, response.read(), dict(response.headers)
    connection.close()
    return answer


def lines(*items):
    header = {"key": "header", "value": {"summary": "message"}}
    return "\n".join(json.dumps(item) for item in (header, *items))


def added(path, content=b"content"):
    return {"key": "file", "value": {"path": path, "content": base64.b64encode(content).decode()}}


@pytest.mark.parametrize(
    "path", ["../outside", "a/../../b", "/absolute", "a//b", "", ".", "a\\..\\b", ".git/config", "~/x", "a\0b"]
)
def test_paths_that_leave_the_repository_are_refused(hub, path):
    commit = request(hub, "POST", "/api/models/user/repo/commit/main", lines(added("good"), added(path)))
    upload = request(hub, "POST", "/api/models/user/repo/preupload/main", {"files": [{"path": path}]})
    for status, body, _ in (commit, upload):
        assert status == 400 and b"invalid file name" in body
    assert hub.files("user/repo") == {}  # all of the commit or nothing
    assert request(hub, "GET", "/user/repo/resolve/main/%2e%2e/%2e%2e/etc/passwd")[0] == 400
    assert request(hub, "POST", "/api/repos/create", {"name": "..", "organization": "user"})[0] == 400


def test_resolve_gives_the_headers_a_client_reads(hub):
    assert request(hub, "POST", "/api/models/user/repo/commit/main", lines(added("a b.txt")))[0] == 200
    for method, expected in (("GET", b"content"), ("HEAD", b"")):
        status, body, headers = request(hub, method, "/user/repo/resolve/main/a%20b.txt")
        assert (status, body, headers["Content-Length"]) == (200, expected, "7")
        assert headers["ETag"] == f'"{blob_id(b"content")}"' and len(headers["X-Repo-Commit"]) == 40
    # git's own name of this content: `printf content | git hash-object --stdin`
    assert blob_id(b"content") == "6b584e8ece562ebffc15d38808cd6b98fc3d97ea"


def test_refusals(hub):
    commit = "/api/models/user/repo/commit/main"
    assert request(hub, "POST", commit, lines(added("a")), token=None)[0] == 401
    assert request(hub, "POST", "/api/repos/create", {"name": "repo"})[0] == 409
    stale = {"key": "header", "value": {"summary": "", "parentCommit": "0" * 40}}
    assert request(hub, "POST", commit, lines(stale, added("a")))[0] == 412
    assert request(hub, "POST", commit, lines({"key": "lfsFile", "value": {"path": "a"}}))[0] == 400
    assert request(hub, "POST", commit, lines({"key": "deletedFile", "value": {"path": "a"}}))[0] == 404
    assert request(hub, "GET", "/nothing/like/this")[0] == 404
    assert hub.unknown_requests == ["GET /nothing/like/this"]
    assert hub.commits("user/repo") == ["initial commit"]
