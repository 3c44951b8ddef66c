"""Texts read in windows. Oracles: the encoder on each window of each text alone, the same batch in other company, the
same run without the option, and transformers' own loading and pipeline."""

import csv
import json

import pytest
import torch
from datasets import Dataset
from tiny_models import LABELLED, LABELS, WORDS, tiny_arguments, tiny_config, tiny_tokenizer
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, pipeline

from seal_hf import (
    SealForMultiLabel,
    SealTrainer,
    WindowedConfig,
    WindowedForSequenceClassification,
    load_multilabel,
    tokenize,
)
from seal_hf.cli.predict import main as predict
from seal_hf.tasks.labels.program import main as train

SIZE, STRIDE = 8, 4  # tokens of a window: six words between two special tokens
LENGTHS = [3, 0, 6, 7, 10, 11, 29, 1, 17]


def long_texts(lengths=LENGTHS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = [torch.randint(len(WORDS), (length,), generator=generator).tolist() for length in lengths]
    return [" ".join(WORDS[i] for i in row) for row in ids]


@pytest.fixture
def base(tmp_path):
    """Folders of tiny encoders with their tokenizer, by family."""

    def make(kind="bert", **changes):
        folder = tmp_path / kind
        if not folder.exists():
            torch.manual_seed(0)
            AutoModel.from_config(tiny_config(kind, **changes)).save_pretrained(folder)
            tiny_tokenizer().save_pretrained(folder)
        return folder

    return make


def nets(folder, **options):
    torch.manual_seed(0)
    return SealForMultiLabel.from_pretrained(folder, long_texts="windows", window_size=SIZE, **LABELLED, **options)


def one_by_one(net, text):
    """The features of a text, (H,): its windows cut and read one at a time."""
    words = tiny_tokenizer()(text, add_special_tokens=False)["input_ids"]
    room, stride = SIZE - 2, net.config.stride
    starts = [0]
    while starts[-1] + room < len(words):
        starts.append(starts[-1] + stride)
    features = []
    for start in starts:
        ids = torch.tensor([[2, *words[start : start + room], 3]])
        with torch.no_grad():
            features.append(net.windows.encoder(ids, torch.ones_like(ids)).last_hidden_state[0].mean(0))
    return torch.stack(features).mean(0)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "modernbert"])
def test_features_are_the_means_over_the_windows_however_texts_are_batched(base, kind):
    net = nets(base(kind)).task_net
    assert net.config.stride == STRIDE and (net.config.before, net.config.after) == ([2], [3])
    texts = long_texts()
    expected = torch.stack([one_by_one(net, text) for text in texts])
    for side in ("right", "left"):
        tokenizer = tiny_tokenizer()
        tokenizer.padding_side = side
        for part in (slice(None), slice(0, 3), slice(4, 7), slice(6, 7)):
            batch = tokenizer(texts[part], padding=True, return_tensors="pt")
            with torch.no_grad():
                found = net(batch["input_ids"], batch["attention_mask"], output_hidden_states=True)
            torch.testing.assert_close(found.hidden_states[-1], expected[part], atol=2e-6, rtol=0)
            torch.testing.assert_close(found.logits, net.classifier(expected[part]), atol=2e-6, rtol=0)


def rows(number=12, seed=0):
    texts = long_texts([1 + (5 * i + seed) % 20 for i in range(number)], seed)
    data = {"text": texts, "labels": [[float(word in text) for word in WORDS[: len(LABELS)]] for text in texts]}
    return tokenize(Dataset.from_dict(data), tiny_tokenizer(), None)


def trained(folder, output, mode, **options):
    seal = nets(folder, loss_net_encoder=mode)
    trainer = SealTrainer(
        seal,
        tiny_arguments(output, loss_net_encoder=mode, **options),
        train_dataset=rows(),
        eval_dataset=rows(6, seed=1),
        processing_class=tiny_tokenizer(),
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize("mode", ["separate", "shared"])
def test_both_nets_read_windows_and_come_back_as_they_were_saved(base, mode, tmp_path):
    trainer = trained(base(), tmp_path / "run", mode)
    trainer.save_model()
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run")
    assert isinstance(plain, WindowedForSequenceClassification)
    texts = long_texts()
    seal = SealForMultiLabel.from_pretrained(tmp_path / "run")
    probabilities, _ = seal.predict(texts, batch_size=2)
    piped = pipeline("text-classification", str(tmp_path / "run"), top_k=None)(texts)
    for row, scores in zip(probabilities, piped, strict=True):
        scores = {score["label"]: score["score"] for score in scores}
        torch.testing.assert_close(row, torch.tensor([scores[name] for name in LABELS]), atol=1e-5, rtol=0)
    batch = tiny_tokenizer()(texts, padding=True, return_tensors="pt")
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    y = torch.ones(len(texts), len(LABELS))
    with torch.no_grad():
        energies = seal.energy(y, **inputs)
        alone = [seal.energy(y[:1], **tiny_tokenizer()(t, return_tensors="pt")).item() for t in texts]
    torch.testing.assert_close(energies, torch.tensor(alone), atol=1e-5, rtol=1e-5)
    again = SealForMultiLabel.from_pretrained(tmp_path / "run", loss_net_encoder=mode, fresh_loss_net=True)
    own = again.loss_net.encoder
    if own is not None:  # a fresh one begins as the task-net's, with its windows
        expected = again.task_net(**inputs, output_hidden_states=True).hidden_states[-1]
        torch.testing.assert_close(own.eval()(**inputs).last_hidden_state, expected)


def test_a_net_that_was_saved_before_there_was_a_choice_reads_means(base, tmp_path):
    seal = nets(base(), loss_net_encoder="shared")
    seal.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config.pop("pooling") == "mean" and config["model_type"] == "seal_windows"
    (tmp_path / "config.json").write_text(json.dumps(config))
    again, batch = SealForMultiLabel.from_pretrained(tmp_path), tiny_tokenizer()(long_texts(), padding=True)
    inputs = {name: torch.tensor(batch[name]) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        torch.testing.assert_close(again(**inputs).logits, seal(**inputs).logits)
    names = set(again.task_net.state_dict())
    assert {"classifier.weight", "windows.encoder.embeddings.word_embeddings.weight"} < names
    assert all(name.startswith(("classifier.", "windows.encoder.")) for name in names)


def test_recomputed_layers_give_the_same_run(base, tmp_path):
    folder = base(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    plain = trained(folder, tmp_path / "a", "separate")
    options = dict(gradient_checkpointing=True, loss_net_gradient_checkpointing=True)
    again = trained(folder, tmp_path / "b", "separate", **options)
    for first, second in zip(plain.model.parameters(), again.model.parameters(), strict=True):
        torch.testing.assert_close(first, second, atol=1e-6, rtol=0)
    half = trained(folder, tmp_path / "c", "shared", bf16=True)
    assert torch.isfinite(half.model.classifier.weight).all()


def test_the_program_reads_whole_texts_and_its_card_says_what_it_needs(base, tmp_path, capsys):
    texts = long_texts([2 + (7 * i) % 30 for i in range(40)])
    source = tmp_path / "long.csv"
    with open(source, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "labels"])
        writer.writerows([text, ",".join(w for w in WORDS[:4] if w in text)] for text in texts)
    flags = "--patience 0 --max_steps 2 --use_cpu true --report_to none --report false --eval_strategy no".split()
    flags += ["--save_strategy", "no", "--load_best_model_at_end", "false", "--loss_net_encoder", "shared"]
    flags += ["--dataset", str(source), "--model_name_or_path", str(base()), "--long_texts", "windows"]
    frozen = ["--freeze_encoder", "true"]
    train([*flags, *frozen, "--max_length", str(SIZE), "--output_dir", str(tmp_path / "run")])
    said = capsys.readouterr().out
    longer = sum(len(text.split()) > SIZE - 2 for text in load_multilabel(str(source)).train["text"])
    assert f"train: {longer} of 32 texts are longer than 8 tokens, and are read in windows of 8" in said
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert "`transformers` alone cannot load it" in card and "cut at" not in card
    predict(["--model", str(tmp_path / "run"), "--input", str(source), "--output", str(tmp_path / "p.jsonl")]
            + ["--probabilities", "all"])  # fmt: skip
    net = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run")
    for line, text in zip((tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines(), texts, strict=True):
        with torch.no_grad():
            alone = net(**tokenizer(text, truncation=True, return_tensors="pt")).logits.sigmoid()[0]
        found = json.loads(line)["probabilities"]
        expected = {net.config.id2label[i]: value for i, value in enumerate(alone.tolist())}
        assert found == pytest.approx(expected, abs=2e-6)
    train([*flags[:-1], "cut", "--max_length", "500", "--output_dir", str(tmp_path / "cut")])
    assert "--max_length is 500, but the encoder takes 32 tokens: 32 are read." in capsys.readouterr().out


def test_what_windows_cannot_be_is_refused(base):
    with pytest.raises(ValueError, match="`adapter` is 'lora', but the task-net, Windowed.* reads texts in windows"):
        nets(base(), adapter="lora")
    with pytest.raises(ValueError, match="`window_size` is 2; with special tokens it must be at least 3"):
        WindowedConfig(window_size=2, before=[2], after=[3])
    with pytest.raises(ValueError, match="`stride` is 9; it must be from 1 to the number of words in a window, 6"):
        WindowedConfig(window_size=8, stride=9, before=[2], after=[3])
    with pytest.raises(ValueError, match="`long_texts` is 'window'"):
        SealForMultiLabel.from_pretrained(base(), long_texts="window", **LABELLED)
