"""A card's snippet, run on the folder that it is of. Oracles: the logits of plain transformers, decided by the stored
numbers; the tags of `predict` on tensors."""

import re

import numpy as np
import pytest
import tiny_tags
import torch
from datasets import Dataset
from test_reports_card import snippet
from tiny_models import LABELLED, LABELS, SPECIAL, WORDS, tiny_arguments, tiny_config, tiny_features, tiny_tokenizer
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, PreTrainedTokenizerFast

from seal_hf import SealForMultiLabel, SealForTokenClassification, SealTrainer, TensorRows, encode_words, tokenize_words
from seal_hf.decisions import LabelDecisions
from seal_hf.reports.model_card import model_card
from seal_hf.training.card import run_card

TEXTS = ["good film", "bad dull plot song film book good bright", "song", "bright bright dull plot"]
MAX_LENGTH = 6  # tokens, fewer than the second text has
PLAIN = ("fixed", "threshold", "thresholds")


def card_of(folder, config, kind, **changes):
    """The card of a saved folder, under the name of which its snippet loads it."""
    names = [config.id2label[i] for i in sorted(config.id2label)]
    nothing = {"base_model": None, "dataset": None, "loss": "ce", "loss_net_encoder": None, "metrics": {}}
    facts = {"decisions": config.decisions, "inputs": getattr(config, "inputs", None), "hyperparameters": {}}
    facts |= {"model_name": str(folder), "label_names": names, "library_snippet": kind}
    return model_card(**{**nothing, **facts, **changes})


def run(text, said, instead):
    """The variables of the card's snippet on another example."""
    code = snippet(text)
    assert said in code
    names = {}
    exec(code.replace(said, instead), names)  # noqa: S102 - our own snippet
    return names


def numbers_for(p):
    """Numbers of every decoder, under which these probabilities (N, L) are decided in different ways."""
    stored = {"threshold": float(between(p.ravel(), 0.6)), "thresholds": between(p, 0.4).tolist(), "never_empty": True}
    return stored | {"calibration": {"scale": 0.7, "shift": 0.3}, "empty_score": 1.0}


def between(values, share):
    """Between two neighbours of the sorted values, far from both: a text alone and in a batch differ by rounding."""
    ordered = np.sort(values, axis=0)
    place = int(share * len(ordered))
    return (ordered[place - 1] + ordered[place]) / 2


@torch.no_grad()
def spread(model, seed):
    """The model with weights under which inputs have different outputs, the same on each line of transformers."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=0.5)
    return model.eval()


@pytest.fixture
def text_model():
    model = spread(AutoModelForSequenceClassification.from_config(tiny_config("bert")), 1)
    model.config.inputs = {"max_length": MAX_LENGTH}
    return model


@torch.no_grad()
def probabilities_of(model):
    encoded = tiny_tokenizer()(TEXTS, truncation=True, max_length=MAX_LENGTH, padding=True, return_tensors="pt")
    return model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]).logits.sigmoid().numpy()


@pytest.mark.parametrize("suffix", ["", "+never_empty"])
@pytest.mark.parametrize("decoder", [*PLAIN, "expected_f1", "calibrated_f1"])
def test_the_snippet_of_texts_decides_as_stored(text_model, decoder, suffix, tmp_path):
    p = probabilities_of(text_model)
    text_model.config.decisions = {"decoder": decoder + suffix, **numbers_for(p)}
    text_model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    text = card_of(tmp_path, text_model.config, "text")
    expected = LabelDecisions.from_config(text_model.config).decide(p)
    assert 0 < expected.mean() < 1
    assert ("import pipeline" in snippet(text)) == (decoder in PLAIN and not suffix)
    for decided, example in zip(expected, TEXTS, strict=True):
        labels = run(text, "a text to label", example)["labels"]
        assert len(labels) == len(set(labels)) and set(labels) == {LABELS[i] for i in np.flatnonzero(decided)}


@pytest.mark.parametrize("decoder", ["threshold", "thresholds", "expected_f1"])
def test_the_snippet_of_an_adapter_decides_as_stored(text_model, decoder, tmp_path):
    pytest.importorskip("peft")
    text_model.save_pretrained(tmp_path / "base")
    tiny_tokenizer().save_pretrained(tmp_path / "base")
    seal = SealForMultiLabel.from_pretrained(tmp_path / "base", loss_net_encoder="shared", adapter="lora", **LABELLED)
    p = probabilities_of(seal.task_net)
    seal.config.decisions = {"decoder": decoder, **numbers_for(p)}
    seal.save_pretrained(tmp_path / "run", adapter_export="adapter")
    tiny_tokenizer().save_pretrained(tmp_path / "run")
    text = card_of(tmp_path / "run", seal.config, "peft")
    assert "seal_decisions.json" in text and "config.json" not in text
    for decided, example in zip(LabelDecisions.from_config(seal.config).decide(p), TEXTS, strict=True):
        labels = run(text, "a text to label", example)["labels"]
        names = {LABELS[i] for i in labels.tolist()} if decoder == "threshold" else set(labels)
        assert names == {LABELS[i] for i in np.flatnonzero(decided)}


@pytest.mark.parametrize("decoder", ["threshold", "thresholds", "calibrated_f1+never_empty"])
def test_the_snippet_of_features_decides_as_stored(decoder, tmp_path):
    torch.manual_seed(1)
    model = AutoModelForSequenceClassification.from_config(tiny_config("mlp")).eval()
    rows = torch.tensor(tiny_features(5)["features"][:])
    with torch.no_grad():
        p = model(features=rows).logits.sigmoid().numpy()
    model.config.decisions = {"decoder": decoder, **numbers_for(p)}
    model.save_pretrained(tmp_path)
    text = card_of(tmp_path, model.config, "features")
    example = "torch.zeros(1, model.config.input_size)"
    for decided, row in zip(LabelDecisions.from_config(model.config).decide(p), rows, strict=True):
        labels = run(text, example, f"torch.tensor([{row.tolist()}])")["labels"]
        assert set(labels) == {LABELS[i] for i in np.flatnonzero(decided)}


# --- tags ------------------------------------------------------------------------------------------------------------

PIECES = [*SPECIAL, *WORDS, "##ly"]
SENTENCE = "goodly film song bad book plotly plot"


def word_pieces():
    """A tokenizer under which words have several tokens, and the later ones say so."""
    vocabulary = {piece: i for i, piece in enumerate(PIECES)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix="##"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    special = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


@pytest.fixture
def tagger():
    labels = {"id2label": dict(enumerate(tiny_tags.TAGS)), "label2id": {t: i for i, t in enumerate(tiny_tags.TAGS)}}
    config = tiny_config("bert", vocab_size=len(PIECES), problem_type=None, **labels)
    return spread(AutoModelForTokenClassification.from_config(config), 40)


@torch.no_grad()
def first_logits(model, **columns):
    """(T, C), of the first token of each word of the sentence."""
    words = SENTENCE.split()
    rows = Dataset.from_dict({"words": [words], "tags": [[0] * len(words)], **columns})
    batch = tokenize_words(rows, word_pieces(), config=model.config).batch([0])
    labels = batch.pop("labels")[0]
    return model(**batch).logits[0][labels == 0]


def best_within_bio(logits):
    """By brute force: an `I-X` follows `B-X` or `I-X`."""
    size, count = logits.shape
    grid = torch.cartesian_prod(*[torch.arange(count)] * size)
    tags = [[tiny_tags.TAGS[i] for i in row] for row in grid.tolist()]
    allowed = [all(t != "I-X" or before != "O" for before, t in zip(["O", *row], row, strict=False)) for row in tags]
    scores = logits[torch.arange(size), grid].sum(1).masked_fill(~torch.tensor(allowed), -torch.inf)
    return tags[int(scores.argmax())]


def test_the_pipeline_of_tokens_gives_the_spans_of_the_likeliest_tags(tagger, tmp_path):
    tagger.config.decisions = {"decoder": "independent"}
    tagger.save_pretrained(tmp_path)
    word_pieces().save_pretrained(tmp_path)
    spans = run(card_of(tmp_path, tagger.config, "tokens"), "a sentence to tag", SENTENCE)["spans"]
    tags = [tiny_tags.TAGS[i] for i in first_logits(tagger).argmax(-1).tolist()]
    starts = [match.start() for match in re.finditer(r"\S+", SENTENCE)]
    opened = [
        s for s, tag, before in zip(starts, tags, ["O", *tags], strict=False) if tag[0] == "B" or before == "O" != tag
    ]
    assert [span["start"] for span in spans] == opened and len(set(tags)) == 3


def test_the_snippet_of_tokens_keeps_to_the_scheme_where_that_is_stored(tagger, tmp_path):
    tagger.config.decisions = {"decoder": "constrained"}
    tagger.save_pretrained(tmp_path)
    word_pieces().save_pretrained(tmp_path)
    tags = run(card_of(tmp_path, tagger.config, "tokens"), "a sentence to tag", SENTENCE)["tags"]
    logits = first_logits(tagger)
    assert tags == [best_within_bio(logits)]
    assert tags != [[tiny_tags.TAGS[i] for i in logits.argmax(-1).tolist()]]


def test_the_snippet_of_roles_marks_the_predicate(tagger, tmp_path):
    tagger.config.decisions, tagger.config.inputs = {"decoder": "independent"}, {"predicate_marker": "token_type"}
    tagger.save_pretrained(tmp_path)
    word_pieces().save_pretrained(tmp_path)
    text = card_of(tmp_path, tagger.config, "tokens", columns=["predicate"])
    tags = run(text, "a sentence to tag", SENTENCE)["tags"]
    logits = first_logits(tagger, predicate=[3])
    assert tags == [[tiny_tags.TAGS[i] for i in logits.argmax(-1).tolist()]]
    assert not torch.equal(logits, first_logits(tagger, predicate=[2]))


@pytest.mark.parametrize("decoder", ["viterbi", "constrained_viterbi", "independent"])
def test_the_snippet_of_words_decodes_by_the_crf_as_stored(decoder, tmp_path):
    nets, rows = tiny_tags.nets("bilstm", tmp_path, crf=True)
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in nets.task_net.crf.parameters():
            parameter.normal_(std=2)
    nets.config.decisions = {"decoder": decoder}
    nets.save_pretrained(tmp_path / "run")
    vocabulary = tiny_tags.Vocabulary.from_data(tiny_tags.sentences())
    vocabulary.save_pretrained(tmp_path / "run")
    text = card_of(tmp_path / "run", nets.config, "words", crf=True)
    sentence = "good film song bad book plot plot"
    found = run(text, "a sentence to tag", sentence)["tags"]
    data = Dataset.from_dict({"words": [sentence.split()], "tags": [[0] * 7]})
    batch = encode_words(data, vocabulary).batch([0])
    del batch["labels"]
    _, ids = nets.predict(decoder=decoder, **batch)
    assert found == [[tiny_tags.TAGS[i] for i in ids[0].tolist()]]


# --- what a trainer knows --------------------------------------------------------------------------------------------


def trainer_of(folder, train=12, **arguments):
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(tiny_config("mlp"))
    rows = tiny_features(train).map(lambda row: {"labels": [*row["labels"][:3], 0.0]})  # none has the last label
    arguments = {"energy_loss": "ce", **arguments}
    made = SealTrainer(model, tiny_arguments(folder, **arguments), train_dataset=TensorRows(rows), eval_dataset=None)
    made.eval_dataset = TensorRows(tiny_features(7, 1))
    return made


def test_the_card_of_a_trainer_has_what_it_knows(tmp_path):
    schedule = {"lr_scheduler_type": "cosine", "warmup_steps": 2, "max_steps": 5, "seed": 7, "license": "mit"}
    trainer = trainer_of(tmp_path / "run", **schedule)
    trainer.train()
    trainer.fit_decisions(decoder=None)
    card = run_card(trainer).replace("\\_", "_")
    for row in (
        "rows | 12 train, 7 validation",
        "warmup_steps | 2",
        "lr_scheduler_type | cosine",
        "optim | adamw_torch_fused",
        "precision | float32",
        "epochs | 1.67",
        "steps | 5",
        "seed | 7",
        "license | mit",
    ):
        assert f"| {row} |" in card, row
    assert re.search(r"\| versions \| (seal_hf [\d.]+, )?transformers [\d.]+, torch .*, datasets [\d.]+ \|", card)
    assert "Labels without a training row: 1 of 4 (calm)" in card and "12 rows." in card
    assert "cross-fitting" in card and str(tmp_path) not in card and "license: mit" in card
    assert "peft" not in card and "loss_net" not in card.replace("with_loss_net=False", "")


def test_the_card_says_who_chose_the_decoder_and_where_it_is(tmp_path):
    trainer = trainer_of(tmp_path / "run", decoder="threshold", fold_decision=True)
    trainer.fit_decisions()
    card = run_card(trainer, rows={"eval": 3, "extra": 4})
    assert "bias holds the decision `threshold`" in card and "| rows | 12 train, 3 validation, 4 extra |" in card
    trainer.args.fold_decision = False
    card = run_card(trainer)
    assert "The stored decoder is `threshold`" in card and "cross-fitting" not in card
    trainer.args.decoder = None
    for decoder in ("fixed", None):
        trainer.fit_decisions(decoder=decoder)
        assert ("cross-fitting" in run_card(trainer)) == (decoder is None)


def test_a_share_of_warm_up_is_shown_in_steps(tmp_path):
    """transformers 4 has `warmup_ratio` for it, 5 a `warmup_steps` below 1."""
    trainer = trainer_of(tmp_path / "run", max_steps=4)
    name = (
        "warmup_ratio"
        if hasattr(trainer.args, "warmup_ratio") and trainer.args.warmup_ratio is not None
        else "warmup_steps"
    )
    setattr(trainer.args, name, 0.5)
    trainer.train()
    assert "| warmup\\_steps | 2 |" in run_card(trainer)


def test_tags_without_stored_decisions_have_a_card_too(tmp_path):
    nets, rows = tiny_tags.nets("bilstm", tmp_path)
    tagged = tiny_tags.trainer(tmp_path / "tags", nets, rows, constrained_decoding=True)
    assert "The stored decoder is `constrained`" in run_card(tagged)
    assert isinstance(nets, SealForTokenClassification)
