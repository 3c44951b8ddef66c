"""What the classifier of texts reads. Oracles: the encoder's tokens, averaged by hand; transformers' own classes; the
same net saved, as an adapter, in ONNX, and with windows that hold the whole text."""

import json

import pytest
import torch
from tiny_models import LABELLED, LABELS, tiny_arguments, tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, pipeline

from seal_hf import PooledForSequenceClassification, SealForMultiLabel, SealTrainer, tokenize
from seal_hf.cli.predict import main as predict
from seal_hf.nets.text_pooling import classifier_reads
from seal_hf.tasks.labels.model import declared_pooling
from seal_hf.tasks.labels.program import main as train

KINDS = ["bert", "roberta", "distilbert", "deberta", "qwen2"]
PLAINLY = {"qwen2": "last", "llama": "last"}  # others: the first token


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Folders of tiny encoders with their tokenizer, by family; perhaps as sentence encoders."""
    made = {}

    def make(kind="bert", declares=None):
        if (kind, str(declares)) not in made:
            folder = tmp_path_factory.mktemp(kind)
            torch.manual_seed(0)
            AutoModel.from_config(tiny_config(kind)).save_pretrained(folder)
            tiny_tokenizer().save_pretrained(folder)
            if declares is not None:
                (folder / "1_Pooling").mkdir()
                (folder / "1_Pooling" / "config.json").write_text(json.dumps(declares))
            made[kind, str(declares)] = folder
        return made[kind, str(declares)]

    return make


def nets(folder, **options):
    torch.manual_seed(0)
    return SealForMultiLabel.from_pretrained(folder, **{"loss_net_encoder": "shared", **LABELLED, **options})


def batch(number=6, side="right", pad_to=None, pairs=False):
    tokenizer = tiny_tokenizer()
    tokenizer.padding_side = side
    texts = tiny_texts(number)["text"][:]
    padded = dict(padding=True if pad_to is None else "max_length", max_length=pad_to, return_tensors="pt")
    return dict(tokenizer(texts, *([texts[::-1]] if pairs else []), **padded))


def by_hand(net, encoder, inputs, pooling):
    """The logits, from the tokens of each text alone."""
    found = []
    for i, mask in enumerate(inputs["attention_mask"].bool()):
        hidden = encoder(**{name: value[i : i + 1, mask] for name, value in inputs.items()}).last_hidden_state[0]
        found.append({"first": hidden[0], "last": hidden[-1], "mean": hidden.mean(0)}[pooling])
    return net.classifier(torch.stack(found))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_classifier_reads_what_is_asked_for_however_texts_are_padded(base, kind):
    folder = base(kind)
    encoder = AutoModel.from_pretrained(folder).eval()
    for pooling in ("mean", "last", "first"):
        if pooling == "first" and kind in PLAINLY:
            with pytest.raises(ValueError, match="`pooling` is 'first', but Qwen2For.* reads the last token of"):
                nets(folder, pooling=pooling)
            continue
        net = nets(folder, pooling=pooling).task_net
        assert classifier_reads(net) == pooling
        if pooling == PLAINLY.get(kind, "first"):
            assert type(net) is type(AutoModelForSequenceClassification.from_config(tiny_config(kind)))
            continue
        for more in ({}, {"pad_to": 17}, {"side": "left"} if kind == "qwen2" else {"pairs": True}):
            inputs = {name: value for name, value in batch(**more).items() if name != "token_type_ids"}
            if kind in ("bert", "deberta"):
                inputs["token_type_ids"] = inputs["input_ids"] % 2
            expected = by_hand(net, encoder, inputs, pooling)
            torch.testing.assert_close(net(**inputs).logits, expected, atol=2e-6, rtol=1e-5)


MEANS = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}


@pytest.mark.parametrize(
    "declares, kind, reads",
    [
        (MEANS, "bert", "mean"),
        ({"pooling_mode": "mean"}, "roberta", "mean"),
        ({"pooling_mode_lasttoken": True}, "bert", "last"),
        ({"pooling_mode_lasttoken": True}, "qwen2", "last"),
        ({"pooling_mode": ["cls"]}, "distilbert", "first"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "qwen2", "last"),
        ({"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": True}, "bert", "first"),
        ({"pooling_mode": "weightedmean"}, "bert", "first"),
        ({}, "bert", "first"),
        ({"pooling_mode_mean_tokens": True}, "bart", None),
    ],
)
def test_the_default_follows_what_the_encoder_declares(base, declares, kind, reads):
    net = nets(base(kind, declares)).task_net
    assert classifier_reads(net) == reads
    assert isinstance(net, PooledForSequenceClassification) == (reads not in (None, PLAINLY.get(kind, "first")))
    if kind == "roberta":  # the flag comes first
        assert classifier_reads(nets(base(kind, declares), pooling="first").task_net) == "first"


@pytest.mark.parametrize("declares", [None, MEANS])
def test_modernbert_stays_a_class_of_transformers(base, declares, tmp_path):
    net = nets(base("modernbert", declares), **({"pooling": "mean"} if declares is None else {})).task_net
    net.save_pretrained(tmp_path)
    saved = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert type(saved).__module__.startswith("transformers.") and saved.config.classifier_pooling == "mean"
    assert classifier_reads(saved) == "mean"


def test_a_saved_classifier_stays_unless_another_is_asked_for(base, tmp_path, caplog):
    """Also one that declares a mean, such as a model trained before in the folder of its encoder."""
    plain = nets(base("bert", MEANS), pooling="first")
    plain.save_pretrained(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(MEANS))
    for options in ({}, {"pooling": "first"}):
        again = SealForMultiLabel.from_pretrained(tmp_path, **options)
        assert torch.equal(again.task_net.classifier.weight, plain.task_net.classifier.weight)
    nets(tmp_path, pooling="mean", fresh_loss_net=True)
    assert "BertForSequenceClassification, is replaced by a fresh one that reads the mean of the tokens" in caplog.text
    mean = nets(base("bert", MEANS))
    mean.save_pretrained(tmp_path / "mean")
    again = SealForMultiLabel.from_pretrained(tmp_path / "mean", pooling="first")
    assert torch.equal(again.task_net.classifier.weight, mean.task_net.classifier.weight)
    assert "keeps reading the mean of the tokens; 'first' is ignored" in caplog.text


def rows(number=12, seed=0, pairs=False):
    texts = tiny_texts(number, seed)
    if pairs:
        texts = texts.add_column("text_pair", texts["text"][::-1])
    return tokenize(texts, tiny_tokenizer(), max_length=12)


def trained(seal, folder, **options):
    args = tiny_arguments(folder, loss_net_encoder=seal.loss_net.config.encoder_mode, **options)
    trainer = SealTrainer(seal, args, train_dataset=rows(), eval_dataset=rows(6, 1), processing_class=tiny_tokenizer())
    trainer.train()
    return trainer


@pytest.mark.parametrize("mode", ["shared", "separate"])
@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_it_is_restored_as_it_was_saved(base, tmp_path, mode, pooling):
    """Also by transformers, with seal_hf imported, and with a fresh loss-net, which begins as the encoder."""
    began = nets(base("bert"), pooling=pooling, loss_net_encoder=mode)
    assert began.loss_net.config.pooling == pooling
    trainer = trained(began, tmp_path)
    trainer.save_model()
    texts = tiny_texts(5)["text"][:]
    seal = SealForMultiLabel.from_pretrained(tmp_path)
    assert seal.config.pooling == pooling and seal.config.architectures == ["PooledForSequenceClassification"]
    probabilities, _ = seal.predict(texts)
    raw = tiny_tokenizer()(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(began.task_net.eval()(**raw).logits.sigmoid(), probabilities, atol=2e-6, rtol=1e-5)
        y = torch.ones(5, len(LABELS))
        torch.testing.assert_close(seal.energy(y, **raw), began.eval().energy(y, **raw), atol=1e-5, rtol=1e-5)
    for row, scores in zip(
        probabilities, pipeline("text-classification", str(tmp_path), top_k=None)(texts), strict=True
    ):
        scores = {score["label"]: score["score"] for score in scores}
        torch.testing.assert_close(row, torch.tensor([scores[name] for name in LABELS]), atol=1e-5, rtol=0)
    again = SealForMultiLabel.from_pretrained(tmp_path, loss_net_encoder="separate", fresh_loss_net=True)
    encoder = again.task_net.encoder.state_dict()
    assert all(torch.equal(value, encoder[name]) for name, value in again.loss_net.encoder.state_dict().items())


def test_a_head_that_pools_learns_at_its_own_rate_also_after_a_resume(base, tmp_path):
    options = dict(learning_rate=1e-4, head_learning_rate=1e-2, save_strategy="steps", save_steps=2, energy_loss="ce")

    def run(folder, where, resume=None):
        seal = SealForMultiLabel.from_pretrained(folder, **(LABELLED if resume is None else {}))
        trainer = SealTrainer(seal, tiny_arguments(where, **options), train_dataset=rows())
        trainer.train(resume_from_checkpoint=resume)
        rates = {id(p): group["initial_lr"] for group in trainer.optimizer.param_groups for p in group["params"]}
        assert {name for name, p in trainer.model.named_parameters() if rates[id(p)] == 1e-2} == head
        return trainer.model

    head = {"classifier.weight", "classifier.bias"}
    torch.manual_seed(0)
    whole = run(base("roberta", MEANS), tmp_path / "whole")
    checkpoint = str(tmp_path / "whole" / "checkpoint-2")
    again = run(checkpoint, tmp_path / "again", checkpoint)
    for ours, theirs in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_with_windows_a_short_text_reads_as_without(base, kind):
    """And `first` reads the first token of each window."""
    inputs = {name: batch()[name] for name in ("input_ids", "attention_mask")}
    for pooling in ("mean", "last"):
        plain = nets(base(kind), pooling=pooling).task_net
        windows = nets(base(kind), pooling=pooling, long_texts="windows", window_size=12).task_net
        windows.classifier = plain.classifier
        with torch.no_grad():
            torch.testing.assert_close(windows(**inputs).logits, plain(**inputs).logits, atol=2e-6, rtol=1e-5)
    first = nets(base(kind), pooling="first", long_texts="windows", window_size=12).task_net
    with torch.no_grad():
        hidden = first.windows.encoder(**inputs).last_hidden_state[:, 0]
        torch.testing.assert_close(first(**inputs).logits, first.classifier(hidden), atol=2e-6, rtol=1e-5)


def test_a_run_reads_pairs_by_the_mean(base, tmp_path):
    seal = nets(base("bert", MEANS))
    args = tiny_arguments(tmp_path, loss_net_encoder="shared")
    trainer = SealTrainer(seal, args, train_dataset=rows(pairs=True), processing_class=tiny_tokenizer())
    trainer.train()
    trainer.save_model()
    texts = tiny_texts(4)["text"][:]
    found, _ = SealForMultiLabel.from_pretrained(tmp_path).predict([(text, texts[0]) for text in texts])
    raw = tiny_tokenizer()(texts, [texts[0]] * 4, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = by_hand(seal.task_net.eval(), seal.task_net.encoder, raw, "mean").sigmoid()
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("adapter, mode", [("lora", "peft"), ("ia3", "shared"), ("pfeiffer", "adapters")])
def test_an_adapter_is_saved_with_what_its_classifier_reads(base, tmp_path, adapter, mode):
    pytest.importorskip("adapters" if mode == "adapters" else "peft")
    seal = nets(base("bert", MEANS), adapter=adapter, loss_net_encoder=mode)
    plain = nets(base("bert"), adapter=adapter, loss_net_encoder=mode)
    if mode == "peft":  # PEFT knows the layers of the encoder's architecture
        places = [each.task_net.peft_config["default"].target_modules for each in (seal, plain)]
        assert places[0] == places[1]
    trainer = trained(seal, tmp_path / "run", learning_rate=1e-2)
    raw = tiny_tokenizer()(tiny_texts(4)["text"][:], padding=True, return_tensors="pt")
    seal.eval()
    with torch.no_grad():
        logits, energies = seal(**raw).logits, seal.energy(torch.ones(4, len(LABELS)), **raw)
    began = AutoModel.from_pretrained(base("bert", MEANS)).eval()
    forms = ("adapter",) if mode == "adapters" else ("adapter", "merged")
    for form in forms:
        seal.save_pretrained(tmp_path / form, adapter_export=form)
        again = SealForMultiLabel.from_pretrained(tmp_path / form)
        with torch.no_grad():
            torch.testing.assert_close(again(**raw).logits, logits, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(again.energy(torch.ones(4, len(LABELS)), **raw), energies, atol=1e-5, rtol=1e-5)
        reads_mean = by_hand(nets(base("bert", MEANS)).task_net, began, raw, "mean")
        assert reads_mean.shape == logits.shape and classifier_reads(again.task_net) == "mean"
    said = json.loads((tmp_path / "adapter" / "seal_decisions.json").read_text())
    assert said["reading"]["pooling"] == "mean"
    del said["reading"]  # as it was saved before there was a choice: transformers' own classifier
    plain.save_pretrained(tmp_path / "before", adapter_export="adapter")
    assert "reading" not in json.loads((tmp_path / "before" / "seal_decisions.json").read_text())
    assert classifier_reads(SealForMultiLabel.from_pretrained(tmp_path / "before").task_net) == "first"
    said["reading"] = {"pooling": "median"}
    (tmp_path / "adapter" / "seal_decisions.json").write_text(json.dumps(said))
    with pytest.raises(ValueError, match="`pooling` is 'median'"):
        SealForMultiLabel.from_pretrained(tmp_path / "adapter")
    assert trainer.state.global_step == 4


@pytest.mark.parametrize(
    "text, said",
    [
        ("{", "1_Pooling/config.json"),
        ("[]", "1_Pooling/config.json"),
        ('{"pooling_mode_mean_tokens": "yes"}', "`pooling_mode_mean_tokens` is 'yes'; expected true or false"),
        ('{"pooling_mode": {"mean": 1}}', "`pooling_mode` is .* expected a name such as 'mean'"),
    ],
)
def test_a_damaged_declaration_is_named(base, tmp_path, text, said):
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(text)
    with pytest.raises(ValueError, match=said):
        nets(tmp_path)
    nets(tmp_path, pooling="first")  # it is not read where the flag says what to do


def test_a_declaration_elsewhere_is_not_read(base, tmp_path):
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "net")
    (tmp_path / "net" / "1_Pooling").symlink_to(base("bert", MEANS) / "1_Pooling", target_is_directory=True)
    with pytest.raises(ValueError, match="1_Pooling is a link to .* outside of the folder"):
        nets(tmp_path / "net")


def test_a_declaration_that_the_hub_cannot_give_is_none(monkeypatch, tmp_path):
    """A repo without the file is a case of `test_hub.py`."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert declared_pooling("user/none", {"cache_dir": str(tmp_path)}) is None


def test_what_cannot_pool_is_refused(base):
    with pytest.raises(ValueError, match="`pooling` is 'max'"):
        nets(base("bert"), pooling="max")
    with pytest.raises(ValueError, match="`pooling` is 'mean', but the encoder in .*, BartModel, has .* a decoder"):
        nets(base("bart"), pooling="mean")


def test_a_run_says_what_its_classifier_reads_and_how_it_is_loaded(base, tmp_path, capsys):
    tiny_texts(20).to_json(tmp_path / "texts.jsonl")
    flags = "--max_steps 2 --use_cpu true --report_to none --report false --eval_strategy no --loss ce".split()
    flags += "--save_strategy no --load_best_model_at_end false --patience 0".split()
    flags += ["--dataset", str(tmp_path / "texts.jsonl"), "--model_name_or_path", str(base("bert", MEANS))]
    ours = "The classifier reads the mean of the tokens. `import seal_hf` comes before AutoModelForSequenceClass"
    for pooling, reads in (([], "the mean of the tokens"), (["--pooling", "first"], "the first token")):
        output = tmp_path / reads.replace(" ", "_")
        train([*flags, *pooling, "--output_dir", str(output)])
        assert (ours in capsys.readouterr().out) == (not pooling)
        card = (output / "README.md").read_text(encoding="utf-8")
        assert f"| classifier reads | {reads} |" in card and ("alone cannot load it" in card) == (not pooling)
        net = AutoModelForSequenceClassification.from_pretrained(output)
        assert isinstance(net, PooledForSequenceClassification) == (not pooling)
    predict(["--model", str(tmp_path / "the_mean_of_the_tokens"), "--input", str(tmp_path / "texts.jsonl")]
            + ["--output", str(tmp_path / "p.jsonl"), "--probabilities", "all"])  # fmt: skip
    net = AutoModelForSequenceClassification.from_pretrained(tmp_path / "the_mean_of_the_tokens").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "the_mean_of_the_tokens")
    lines = (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()
    with torch.no_grad():
        raw = tokenizer(tiny_texts(20)["text"][:], padding=True, return_tensors="pt")
        expected = net(**{name: raw[name] for name in ("input_ids", "attention_mask")}).logits.sigmoid()
    found = torch.tensor([list(json.loads(line)["probabilities"].values()) for line in lines])
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)
    with pytest.raises(ValueError, match="`pooling` is for texts, but 'digits' is feature data"):
        train(["--pooling", "mean", "--output_dir", str(tmp_path / "digits")])
