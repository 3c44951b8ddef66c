"""Decoders as classifiers, and encoders of their time: Qwen, Llama, Gemma, ModernBERT, DeBERTa. Oracles: single rows
without padding, hooks on the head, transformers alone on what is saved, the run that keeps its activations."""

import pytest
import torch
from datasets import Dataset
from tiny_models import (
    DECODERS,
    LABELLED,
    LABELS,
    WORDS,
    tiny_arguments,
    tiny_config,
    tiny_texts,
    tiny_tokenizer,
)
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
)

from seal_hf import SealForMultiLabel, SealForTokenClassification, SealTrainer, TensorRows, tokenize
from seal_hf.nets.heads import head_pooling

KINDS = [*DECODERS, "modernbert", "deberta"]
ROWS = [[4, 5, 6, 7, 8], [9, 10], [6]]
PAD = 0
Y = torch.rand(len(ROWS), 3, len(LABELS), generator=torch.Generator().manual_seed(0))


def padded(rows, side="right", width=0, pad=PAD):
    """Token ids and their mask: padded to the longest row and `width` tokens more."""
    size = max(map(len, rows)) + width
    ids, mask = torch.full((len(rows), size), pad), torch.zeros(len(rows), size, dtype=torch.long)
    for i, row in enumerate(rows):
        place = slice(size - len(row), size) if side == "left" else slice(0, len(row))
        ids[i, place], mask[i, place] = torch.tensor(row), 1
    return {"input_ids": ids, "attention_mask": mask}


def base(kind, folder, **changes):
    """The folder of a tiny encoder or decoder without a head."""
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config(kind, **changes)).save_pretrained(folder / kind)
    return folder / kind


def nets(kind, mode, folder, seal=SealForMultiLabel, **options):
    """Both nets, their trained parameters away from where a fresh adapter starts."""
    model = seal.from_pretrained(base(kind, folder), loss_net_encoder=mode, **LABELLED, **options)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in [p for p in model.parameters() if p.requires_grad]:
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


@torch.no_grad()
def outputs(model, y=Y, **inputs):
    return model(**inputs).logits, model.energy(y, **inputs)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *((kind, "shared") for kind in KINDS),
        *((kind, mode) for kind in (KINDS[0], KINDS[-1]) for mode in ("separate", "peft")),
    ],
)
def test_padding_changes_no_logit_and_no_energy(kind, mode, tmp_path):
    """One row at a time, unpadded, against all of them padded: on the left too where the head reads the last token."""
    if mode == "peft":
        pytest.importorskip("peft")
    model = nets(kind, mode, tmp_path)
    alone = [outputs(model, Y[i : i + 1], **padded([row])) for i, row in enumerate(ROWS)]
    expected = [torch.cat(parts) for parts in zip(*alone, strict=True)]
    for side in ("right", "left") if kind in DECODERS else ("right",):
        for width in (0, 4):
            for found, wanted in zip(outputs(model, **padded(ROWS, side, width)), expected, strict=True):
                torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [*KINDS, "roberta", "bert"])
def test_a_shared_loss_net_reads_what_the_head_reads(kind, tmp_path):
    """The hook sees what enters the head: all tokens; a decoder's head takes the one whose scores are the
    logits, and an encoder's the first. BERT's reads what a pooler makes of it: then the mean is read."""
    model = nets(kind, "shared", tmp_path)
    entered, read = [], []
    first = {"modernbert": "head", "deberta": "pooler", "bert": "classifier", "roberta": "classifier"}
    head = getattr(model.task_net, first.get(kind, "score"))
    head.register_forward_pre_hook(lambda _, args: entered.append(args[0]))
    model.loss_net.head.register_forward_pre_hook(lambda _, args: read.append(args[0]))
    inputs = padded(ROWS, "left" if kind in DECODERS else "right", 2)
    with torch.no_grad():
        model.energy(Y, **inputs)
        (seen,), (features,) = entered, read
        logits = model(**inputs).logits
    if kind in DECODERS:
        places = [(head(row) == scores).all(-1).nonzero().item() for row, scores in zip(seen, logits, strict=True)]
        seen = seen[torch.arange(len(seen)), places]
    elif kind == "bert":
        hidden, mask = model.task_net.bert(**inputs).last_hidden_state, inputs["attention_mask"].unsqueeze(-1)
        seen = (hidden * mask).sum(1) / mask.sum(1)
    elif kind == "modernbert":
        found = model.task_net.model(**inputs, output_hidden_states=True)
        if not torch.equal(found.hidden_states[-1], found.last_hidden_state):  # 4.57 gives it without the final norm
            features = model.task_net.model.final_norm(features)
    elif kind in ("deberta", "roberta"):
        seen = seen[:, 0]
    torch.testing.assert_close(features, seen, atol=1e-6, rtol=1e-5)


def test_the_last_token_is_the_heads_own(tmp_path):
    """A text that ends in the padding token: transformers' head reads the token before it, and so does the loss-net."""
    model = nets("llama", "shared", tmp_path)
    cut, ends = padded([[4, 5]]), padded([[4, 5, PAD]], pad=7)
    assert ends["attention_mask"].all()
    torch.testing.assert_close(outputs(model, Y[:1], **ends), outputs(model, Y[:1], **cut), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind, mode, expected", [("qwen2", "peft", "last"), ("qwen3", "separate", "last")])
def test_a_decoders_loss_net_with_its_own_encoder_reads_the_last_token(kind, mode, expected, tmp_path):
    if mode == "peft":
        pytest.importorskip("peft")
    assert nets(kind, mode, tmp_path).loss_net.config.pooling == expected


def test_what_the_head_reads_does_not_depend_on_its_weights_or_on_the_padding_token():
    for pad in (4, 5, 6, None):
        net = AutoModelForSequenceClassification.from_config(tiny_config("qwen2", pad_token_id=pad))
        torch.nn.init.zeros_(net.score.weight)
        assert head_pooling(net) == "last"
    mean = AutoModelForSequenceClassification.from_config(tiny_config("modernbert", classifier_pooling="mean"))
    assert head_pooling(mean) == "mean"
    assert head_pooling(AutoModelForSequenceClassification.from_config(tiny_config("mlp"))) == "mean"


# --- training, saving ------------------------------------------------------------------------------------------------


def trained(model, folder, rows=None, steps=2, **options):
    rows = rows or tokenize(tiny_texts(16), tiny_tokenizer(), max_length=8)
    args = tiny_arguments(folder, loss_net_encoder=model.loss_net.config.encoder_mode, max_steps=steps, **options)
    trainer = SealTrainer(model, args, train_dataset=rows)
    trainer.train()
    return trainer


MODES = [(kind, mode) for kind in ("qwen2", "gemma") for mode in ("shared", "separate", "peft")]


@pytest.mark.parametrize("kind, mode", [*MODES, ("modernbert", "shared"), ("deberta", "peft")])
def test_what_is_trained_and_saved_is_plain_and_comes_back(kind, mode, tmp_path):
    if mode == "peft":
        pytest.importorskip("peft")
    model = nets(kind, mode, tmp_path)
    before = {name: p.detach().clone() for name, p in model.task_net.named_parameters() if p.requires_grad}
    trained(model, tmp_path / "run", learning_rate=1e-2).save_model()
    moved = [
        name for name, p in model.task_net.named_parameters() if name in before and not torch.equal(p, before[name])
    ]
    assert set(before) == set(moved)
    logits, energies = outputs(model.eval(), **padded(ROWS))
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run").eval()
    again = SealForMultiLabel.from_pretrained(tmp_path / "run")
    with torch.no_grad():
        torch.testing.assert_close(plain(**padded(ROWS)).logits, logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(outputs(again, **padded(ROWS))[1], energies, atol=1e-5, rtol=1e-5)
    assert again.loss_net.config.pooling == model.loss_net.config.pooling


@pytest.mark.parametrize("kind", [*KINDS, "distilbert", "roberta"])
@pytest.mark.parametrize("targets", [None, "all-linear"])
def test_a_lora_keeps_the_whole_head(kind, targets, tmp_path):
    """Every module outside the base is trained and saved with the adapter: fresh weights would be lost otherwise."""
    pytest.importorskip("peft")
    model = nets(kind, "shared", tmp_path, adapter="lora", adapter_targets=targets)
    plain = model.task_net.get_base_model()
    heads = [module for name, module in plain.named_children() if module is not plain.base_model]
    kept = [p for module in heads for name, p in module.named_parameters() if "original_module" not in name]
    assert kept and all(p.requires_grad for p in kept)
    expected, _ = outputs(model, **padded(ROWS))
    torch.manual_seed(7)  # a head that is not saved would come back with other weights
    for form in ("adapter", "merged"):
        model.save_pretrained(tmp_path / form, adapter_export=form)
        found = SealForMultiLabel.from_pretrained(tmp_path / form, with_loss_net=False)
        torch.testing.assert_close(found(**padded(ROWS)).logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind, mode", [("qwen2", "shared"), ("llama", "peft"), ("modernbert", "separate")])
def test_checkpointing_changes_nothing_and_bf16_little(kind, mode, tmp_path):
    if mode == "peft":
        pytest.importorskip("peft")
    ends = []
    for name, options in enumerate([{}, {"gradient_checkpointing": True}, {"bf16": True}]):
        model = nets(kind, mode, tmp_path)
        torch.manual_seed(0)
        trained(model, tmp_path / f"run{name}", steps=1, learning_rate=1e-3, optim="sgd", **options)
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    plain, recomputed, half = ends
    torch.testing.assert_close(recomputed, plain, rtol=0, atol=1e-6)
    assert half.dtype == plain.dtype and not torch.equal(half, plain)
    torch.testing.assert_close(half, plain, rtol=0, atol=1e-2)


# --- the padding token -----------------------------------------------------------------------------------------------


def tokenizer_without_padding(side="right"):
    """As Llama's: a token for the end of a text, none for padding."""
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="$A", special_tokens=[])
    tokenizer.pad_token, tokenizer.eos_token, tokenizer.padding_side = None, "[SEP]", side
    assert tokenizer.pad_token_id is None and tokenizer.eos_token_id == 3
    return tokenizer


def without_padding(folder, kind="llama"):
    return SealForMultiLabel.from_pretrained(
        base(kind, folder, pad_token_id=None), loss_net_encoder="shared", **LABELLED
    )


def given_rows(tokenizer):
    """A data set of one's own, padded by the collator that the tokenizer brings."""
    return tiny_texts(16).map(lambda row: dict(tokenizer(row["text"])), remove_columns="text")


@pytest.mark.parametrize("ours", [True, False])
def test_a_net_without_padding_token_gets_the_tokenizers_end_of_text(ours, tmp_path):
    tokenizer, model = tokenizer_without_padding(), without_padding(tmp_path)
    rows = tokenize(tiny_texts(16), tokenizer, max_length=8) if ours else given_rows(tokenizer)
    trainer = SealTrainer(
        model, tiny_arguments(tmp_path / "run", max_steps=2), train_dataset=rows, processing_class=tokenizer
    )
    trainer.train()
    trainer.save_model()
    assert model.config.pad_token_id == tokenizer.pad_token_id == 3
    texts = [" ".join(WORDS[:5]), WORDS[6], " ".join(WORDS[2:4])]
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run").eval()
    saved = AutoTokenizer.from_pretrained(tmp_path / "run")
    with torch.no_grad():
        together = plain(**saved(texts, padding=True, return_tensors="pt")).logits
        alone = torch.cat([plain(**saved(text, return_tensors="pt")).logits for text in texts])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    found, _ = SealForMultiLabel.from_pretrained(tmp_path / "run", with_loss_net=False).predict(texts)
    torch.testing.assert_close(found, alone.sigmoid(), atol=1e-5, rtol=1e-5)


def test_a_net_that_was_never_trained_predicts_texts_too(tmp_path):
    model = without_padding(tmp_path)
    model.processor = tokenizer_without_padding()
    together, _ = model.predict(["good film", "dull"])
    alone = torch.cat([model.predict([text])[0] for text in ("good film", "dull")])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_rows_padded_by_another_token_than_the_heads_are_refused(tmp_path):
    model = nets("qwen2", "shared", tmp_path)
    model.config.pad_token_id = 3
    rows = tokenize(tiny_texts(16), tiny_tokenizer(), max_length=8)
    with pytest.raises(ValueError, match="`train_dataset` is padded by the token 0, but the head of Qwen2.* is 3"):
        SealTrainer(model, tiny_arguments(tmp_path), train_dataset=rows)
    encoder = nets("modernbert", "shared", tmp_path)
    encoder.config.pad_token_id = 3  # its head does not look for padding
    SealTrainer(encoder, tiny_arguments(tmp_path), train_dataset=rows)


def test_padding_on_the_left_is_refused_where_it_changes_logits(tmp_path):
    tokenizer = tiny_tokenizer()
    tokenizer.padding_side = "left"
    rows, own = given_rows(tokenizer), tokenize(tiny_texts(16), tokenizer, max_length=8)
    for kind in ("modernbert", "bert"):
        model = nets(kind, "shared", tmp_path)
        with pytest.raises(ValueError, match="pads `train_dataset` on the left, which changes the logits of"):
            SealTrainer(model, tiny_arguments(tmp_path), train_dataset=rows, processing_class=tokenizer)
        SealTrainer(model, tiny_arguments(tmp_path), train_dataset=own, processing_class=tokenizer)  # on the right
    decoder = nets("qwen3", "shared", tmp_path)
    collator = DataCollatorWithPadding(tokenizer)
    trained_on_it = SealTrainer(decoder, tiny_arguments(tmp_path, max_steps=1), collator, train_dataset=rows)
    trained_on_it.train()


# --- tags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, mode", [("qwen2", "shared"), ("llama", "separate"), ("deberta", "shared")])
def test_taggers_depend_on_no_padding_either(kind, mode, tmp_path):
    model = nets(kind, mode, tmp_path, SealForTokenClassification)
    assert model.loss_net.pooling is None  # a vector for each token
    rows, width = [row[:4] for row in ROWS], 4
    y = torch.rand(len(rows), width, len(LABELS), generator=torch.Generator().manual_seed(0)).softmax(-1)
    expected = []
    for i, row in enumerate(rows):
        inputs = padded([row])
        mask = inputs["attention_mask"].bool()
        expected.append((model(**inputs).logits[0], model.energy(y[i : i + 1, : len(row)], mask, **inputs)[0]))
    for side in ("right", "left") if kind in DECODERS else ("right",):
        inputs = padded(rows, side, 3)
        mask = inputs["attention_mask"].bool()
        placed = torch.rand(*mask.shape, len(LABELS), generator=torch.Generator().manual_seed(5)).softmax(-1)
        for i, row in enumerate(rows):
            placed[i, mask[i]] = y[i, : len(row)]
        logits, energies = model(**inputs).logits, model.energy(placed, mask, **inputs)
        for i, (wanted, energy) in enumerate(expected):
            torch.testing.assert_close(logits[i, mask[i]], wanted, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(energies[i], energy, atol=1e-5, rtol=1e-5)
    model.save_pretrained(tmp_path / "saved")
    plain = AutoModelForTokenClassification.from_pretrained(tmp_path / "saved").eval()
    torch.testing.assert_close(plain(**padded(rows)).logits, model(**padded(rows)).logits)


def test_a_tagger_trains_on_rows_padded_on_the_left(tmp_path):
    model = nets("qwen2", "shared", tmp_path, SealForTokenClassification)
    inputs = padded(ROWS, "left", 1)
    labels = torch.where(inputs["attention_mask"].bool(), inputs["input_ids"] % len(LABELS), -100)
    rows = Dataset.from_dict({name: value.tolist() for name, value in {**inputs, "labels": labels}.items()})
    args = tiny_arguments(tmp_path / "run", max_steps=2, per_device_train_batch_size=3)
    SealTrainer(model, args, train_dataset=TensorRows(rows)).train()
