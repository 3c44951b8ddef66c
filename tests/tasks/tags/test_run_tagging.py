"""seal-hf train tagging in this process, on the embedded sentences. Oracles: the metrics over the files it writes,
and the snippet of its card."""

import json
import re

import pytest
import torch
from huggingface_hub import ModelCard
from tiny_models import tiny_config, tiny_tokenizer
from tiny_tags import TAGS, sentences
from transformers import AutoModel, pipeline

from seal_hf import LossNet, SealForTokenClassification, Vocabulary
from seal_hf.data import embedded
from seal_hf.metrics import tag_metrics
from seal_hf.tasks.tags import program as tagging

SMALL = "--num_train_epochs 2 --use_cpu true --disable_tqdm true --report_to none".split()
SIZES = {"train": 64, "validation": 30, "test": 60}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Of the embedded sentences."""
    monkeypatch.setattr(embedded, "TAG_SIZES", SIZES)


def run(folder, *flags):
    """On a small BiLSTM, unless another model is named."""
    size = [] if "--model_name_or_path" in flags else ["--hidden_size", "16"]
    return tagging.main(["--output_dir", str(folder), *SMALL, *size, *flags])


def columns(folder, *splits):
    """A folder of CoNLL columns, 24 sentences a split."""
    folder.mkdir()
    for seed, split in enumerate(splits):
        rows = sentences(24, seed)
        lines = [
            "\n".join(f"{w} {TAGS[t]}" for w, t in zip(*row, strict=True))
            for row in zip(rows["words"], rows["tags"], strict=True)
        ]
        (folder / f"{split}.conll").write_text("\n\n".join(lines) + "\n")
    return str(folder)


def test_infnet_plus_writes_what_it_measured(tmp_path, capsys, monkeypatch):
    metrics = run(tmp_path, "--loss", "infnet_plus", "--energy", "chain_ge_a", "--global_size", "8")
    assert 0 < metrics["test_accuracy"] < 1 and metrics["eval_f1"] == metrics["eval_f1"]
    printed = capsys.readouterr().out
    assert f"{metrics['test_f1']:.4f}" in printed or f"{100 * metrics['test_f1']:.2f}" in printed
    for split, size in (("eval", SIZES["validation"]), ("test", SIZES["test"])):
        lines = (tmp_path / f"_predictions_{split}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        assert len(rows) == size and set(rows[0]) == {"source", "row", "words", "predicted", "gold"}
        figures = tag_metrics([row["predicted"] for row in rows], [row["gold"] for row in rows], "bio")
        saved = json.loads((tmp_path / f"{split}_results.json").read_text())
        for key, value in figures.items():
            assert saved[f"{split}_{key}"] == metrics[f"{split}_{key}"] == pytest.approx(value)
    assert Vocabulary.from_pretrained(tmp_path).words[:2] == ["<pad>", "<unk>"]
    both = SealForTokenClassification.from_pretrained(tmp_path)
    assert both.loss_net.config.energy == "chain_ge_a" and both.config.id2label[0] == "O"
    assert not list((tmp_path / "_loss_net").glob("cost_augmented*"))
    card = ModelCard.load(tmp_path / "README.md")
    data, names = card.data, {}
    assert data.pipeline_tag == "token-classification" and "multi-label-classification" not in data.tags
    results = {result.metric_name: result.metric_value for result in data.eval_results}
    assert results["F1 of spans"] == pytest.approx(metrics["test_f1"], abs=1e-4)
    monkeypatch.chdir(tmp_path.parent)  # the card names the folder
    exec(re.search(r"```python\n(.*?)```", card.content, flags=re.DOTALL)[1], names)  # noqa: S102 - our own snippet
    assert len(names["tags"][0]) == 4 and set(names["tags"][0]) <= set(both.config.id2label.values())


def test_a_constrained_crf_breaks_no_scheme_and_its_baseline_has_no_loss_net(tmp_path):
    metrics = run(tmp_path, "--loss", "ce", "--task_loss", "crf", "--constrained_decoding", "true")
    assert metrics["test_malformed"] == metrics["eval_malformed"] == 0
    assert not (tmp_path / "_loss_net").exists()
    both = SealForTokenClassification.from_pretrained(tmp_path)
    assert both.config.crf and both.task_net.crf.transitions.any()
    assert "The stored decoder is `constrained_viterbi`." in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize("adapter", [[], ["--adapter", "lora", "--loss_net_encoder", "peft"]])
def test_an_encoder_of_hugging_face_tags_files(tmp_path, adapter):
    """A folder of CoNLL columns, and an encoder; what is saved is a plain token classifier with its tokenizer."""
    if adapter:
        pytest.importorskip("peft")
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "bert")
    tiny_tokenizer().save_pretrained(tmp_path / "bert")
    data = ["--dataset", columns(tmp_path / "data", "train", "dev", "test")]
    data += ["--model_name_or_path", str(tmp_path / "bert")]
    metrics = run(tmp_path / "out", *data, *adapter)
    predictions = (tmp_path / "out" / "_predictions_test.jsonl").read_text().splitlines()
    assert 0 <= metrics["test_f1"] <= 1 and len(predictions) == 24
    assert len(json.loads(predictions[5])["predicted"]) == 6  # a tag for every word, not for every token
    tagged = pipeline("token-classification", str(tmp_path / "out"), ignore_labels=[])("good film")
    assert [word["word"] for word in tagged] == ["good", "film"] and {word["entity"] for word in tagged} <= set(TAGS)
    assert "AutoModel" not in (card := (tmp_path / "out" / "README.md").read_text())
    assert 'pipeline("token-classification"' in card
    if not adapter:
        flags = "--loss ce --task_loss crf --learning_rate 1e-9 --lr_scheduler_type constant --max_steps 1".split()
        first = 1e-2  # Adam's first step, of a fresh CRF
        for begins_from, step in (("bert", first), ("out", first), ("crf from out", 0)):
            net = ["--model_name_or_path", str(tmp_path / begins_from)]
            run(ended := tmp_path / f"crf from {begins_from}", *data, *net, *flags)
            before = crf_of(tmp_path / begins_from) if step == 0 else 0
            assert (crf_of(ended) - before).abs().max().item() == pytest.approx(step, rel=1e-3, abs=1e-8)


def crf_of(folder):
    """The parameters of a saved CRF, (P,)."""
    crf = SealForTokenClassification.from_pretrained(folder, with_loss_net=False).task_net.crf
    return torch.cat([parameter.detach().flatten() for parameter in crf.parameters()])


def test_further_test_sets_have_their_own_figures_whatever_their_names(tmp_path, capsys):
    further = ("daily_547", "web_a", "web_b")
    data = columns(tmp_path / "data", "train", "dev", "test", *further)
    metrics = run(tmp_path / "out", "--dataset", data, "--max_steps", "1", "--loss", "ce")
    splits = ["eval", "test", *(f"{name}.conll" for name in further)]
    printed = capsys.readouterr().out.splitlines()
    assert ["figure", "validation", *splits[1:]] in [line.split() for line in printed]
    (printed,) = (line.removeprefix("accuracy of tags").split() for line in printed if line.startswith("accuracy of"))
    assert len(printed) == len(splits) and len(set(printed)) > 1
    for split in splits:
        saved = json.loads((tmp_path / "out" / f"{split}_results.json").read_text())
        assert saved == {key: value for key, value in metrics.items() if key.startswith(f"{split}_")} and saved
    names = {path.name for path in (tmp_path / "out").glob("*_results.json")}
    assert names == {f"{name}_results.json" for name in ("all", "train", *splits)}


def test_a_loss_net_of_an_earlier_run_teaches_as_it_is(tmp_path):
    run(tmp_path / "first", "--max_steps", "2", "--seed", "1")
    path = ["--loss_net_path", str(tmp_path / "first"), "--loss_net_steps", "0"]
    run(tmp_path / "static", "--max_steps", "2", *path)
    first, static = (LossNet.from_pretrained(tmp_path / name / "_loss_net") for name in ("first", "static"))
    assert all((value == static.state_dict()[name]).all() for name, value in first.state_dict().items())


@pytest.mark.parametrize(
    "flags, message",
    [
        ("--energy chian", "`energy` is 'chian'; for tag_sequence outputs it must be one of chain, chain_ge_a"),
        ("--task_loss focal", "`task_loss` is 'focal'; for tag sequences it must be one of cross_entropy, crf, unique"),
        ("--task_loss unique_roles", "tags that begin a core role, .* found only O, B-X"),
        ("--loss ence", "`energy_loss` is 'ence'; it must be one of nce, ranking"),
        ("--dataset nowhere/at/all.conll", "nowhere/at/all.conll"),
        ("--loss_net_encoder peft", "a BiLSTM has no pretrained base to adapt"),
        ("--loss_net_path nowhere", "there is no folder nowhere"),
        ("--word_vectors nowhere.txt", "nowhere.txt"),
        ("--word_features pos", "has no column `pos`"),
        ("--word_features ,", "`word_features` is ','; it must be names of columns"),
        ("--num_layers 0", "`num_layers` is 0; it must be a finite number, at least 1"),
        ("--energy tag_attention --global_size 0", "`global_size` is 0; this energy needs at least 1"),
        ("--energy chain_ge_a --global_size 0", "`global_size` is 0; this energy needs at least 1"),
        ("--max_length 9", "`max_length` is for a Hugging Face encoder, but the task-net is a BiLSTM"),
        ("--crf_learning_rate 0.1", "`crf_learning_rate` is set, but the task-net lacks a CRF"),
    ],
)
def test_a_users_error_is_one_clear_line(tmp_path, flags, message):
    with pytest.raises((ValueError, OSError), match=message) as error:
        run(tmp_path, *flags.split())
    assert len(str(error.value).splitlines()) == 1
    assert not list(tmp_path.glob("checkpoint-*"))


def test_a_saved_bilstm_is_evaluated_and_keeps_its_crf(tmp_path):
    """Without another step, it has the figures that it was saved with; a loss that leaves the CRF out is refused."""
    crf = ["--loss", "ce", "--task_loss", "crf", "--word_features", "case"]
    first = run(tmp_path / "first", *crf)
    again = ["--model_name_or_path", str(tmp_path / "first"), "--num_train_epochs", "0"]
    assert run(tmp_path / "again", *again, *crf) == first
    with pytest.raises(ValueError, match="CRF"):
        run(tmp_path / "other", *again, "--loss", "ce")


def test_a_saved_bilstm_is_evaluated_by_the_recipe_that_trained_it(tmp_path, caplog):
    """What it reads stays as saved; a recipe that asks for something else is told so."""
    first = run(tmp_path / "first", "--word_features", "case")
    again = ["--model_name_or_path", str(tmp_path / "first"), "--num_train_epochs", "0"]
    with caplog.at_level("WARNING", "seal_hf.data.tensors"):
        figures = run(tmp_path / "again", *again, "--loss", "ce", "--word_features", "case")
        assert caplog.text == ""
        other = ["--word_vectors", "glove", "--word_features", "pos", "--characters", "true"]
        assert run(tmp_path / "other", *again, "--loss", "ce", *other) == figures
    assert figures["test_accuracy"] == first["test_accuracy"]
    for stays in (
        "`word_vectors` 'glove' is ignored",
        "['case']; ['pos'] is ignored",
        "does not read `characters`",
    ):
        assert stays in caplog.text
    assert run(tmp_path / "nce", *again)["test_accuracy"] == first["test_accuracy"]  # `separate`, as saved


def test_a_classifier_of_other_tags_starts_anew_and_one_that_has_more_is_kept(tmp_path, caplog):
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "bert")
    tiny_tokenizer().save_pretrained(tmp_path / "bert")
    data = columns(tmp_path / "data", "train", "dev", "test")
    common = ["--max_steps", "1", "--task_loss", "crf", "--loss", "ce", "--model_name_or_path"]
    run(tmp_path / "first", "--dataset", data, *common, str(tmp_path / "bert"))
    for path in (tmp_path / "data").iterdir():
        text = path.read_text()
        (tmp_path / f"fewer_{path.name}").write_text(text.replace(TAGS[2], TAGS[1]))
        (tmp_path / f"other_{path.name}").write_text(
            text.replace(TAGS[2], "NEW").replace(TAGS[1], "NEWER") + "\na NEWEST\n"
        )
    folders = {}
    for kind in ("fewer", "other"):
        folders[kind] = tmp_path / kind
        folders[kind].mkdir()
        for path in tmp_path.glob(f"{kind}_*"):
            path.rename(folders[kind] / path.name.removeprefix(f"{kind}_"))
    saved = [*common, str(tmp_path / "first")]
    with pytest.raises(ValueError, match=f"has 3 labels, but the data lacks {TAGS[2]}. Name all 3 in the data"):
        run(tmp_path / "second", "--dataset", str(folders["fewer"]), *saved)
    with caplog.at_level("WARNING", "seal_hf"):
        run(tmp_path / "third", "--dataset", str(folders["other"]), "--scheme", "plain", *saved)
    assert "has 3 labels, the data 4: it gets fresh weights" in caplog.text
    assert "does not have 4 tags: it gets fresh weights" in caplog.text


def test_options_of_a_bilstm_beside_an_encoder_are_refused(tmp_path):
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "bert")
    tiny_tokenizer().save_pretrained(tmp_path / "bert")
    for option, value in {"hidden_size": "50", "word_vectors": "nope", "characters": "true"}.items():
        with pytest.raises(ValueError, match=f"`{option}` is "):
            run(tmp_path / "out", "--model_name_or_path", str(tmp_path / "bert"), f"--{option}", value)


def test_what_is_cut_is_said(tmp_path, capsys):
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "bert")
    tiny_tokenizer().save_pretrained(tmp_path / "bert")
    data = ["--dataset", columns(tmp_path / "data", "train", "dev", "test"), "--max_steps", "1"]
    data += ["--model_name_or_path", str(tmp_path / "bert"), "--max_length", "4", "--truncation", "true"]
    run(tmp_path / "out", *data)
    printed = capsys.readouterr().out
    assert all(f"data, {split}: " in printed for split in ("train", "validation", "test"))
    assert "words were cut off, and count as tagged with the first tag" in printed
