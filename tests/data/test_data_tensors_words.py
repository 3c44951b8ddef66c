"""Tagged sentences as batches. Oracle: each word by itself through the tokenizer or the vocabulary, put together by
hand."""

import numpy as np
import pytest
import torch
from datasets import Dataset, Features, List, Value, concatenate_datasets
from tiny_models import SPECIAL, WORDS, tiny_config, tiny_tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import AutoModel, AutoModelForTokenClassification, Trainer, TrainingArguments

from seal_hf import DataError, TensorRows, collate_rows
from seal_hf.core.space import UNLABELLED
from seal_hf.data.tensors.vocabulary import Vocabulary
from seal_hf.data.tensors.words import encode_words, load_tokenizer, tokenize_words
from seal_hf.nets.recurrent import BiLSTMConfig, BiLSTMForTokenClassification
from seal_hf.saving.batches import word_rows

NOTHING = [" ", "", "\u2003\n"]  # words of which the tokenizer makes no sub-word
TAGS = {"id2label": {i: f"T{i}" for i in range(7)}, "label2id": {f"T{i}": i for i in range(7)}}
CLS, SEP, UNK = (SPECIAL.index(name) for name in ("[CLS]", "[SEP]", "[UNK]"))


def paired_tokenizer():
    tokenizer = tiny_tokenizer()
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
    )
    return tokenizer


def sentences(num_rows=40, longest=9, words=(*WORDS, "unheard", "good-film", "a.b.c", "don't", *NOTHING), seed=0):
    draw = np.random.default_rng(seed)
    lengths = [1, longest, *draw.integers(1, longest + 1, num_rows - 2)]
    return Dataset.from_dict(
        {
            "words": [draw.choice(words, length).tolist() for length in lengths],
            "tags": [draw.integers(0, 7, length).tolist() for length in lengths],
            "pos": [draw.choice(["N", "V"], length).tolist() for length in lengths],
            "predicate": [int(draw.integers(length)) for length in lengths],
            "id": [f"row {i}" for i in range(num_rows)],
        }
    )


def by_hand(row, tokenizer, marker=None, limit=None):
    """Tokens, labels and token types of a row, from its words alone."""
    pieces = [tokenizer(word, add_special_tokens=False)["input_ids"] or [UNK] for word in row["words"]]
    tokens, labels, types = [CLS], [-100], [0]
    for i, ids in enumerate(pieces):
        tokens += ids
        labels += [row["tags"][i]] + [-100] * (len(ids) - 1)
        types += [int(marker == "token_type" and i == row["predicate"])] * len(ids)
    second = [*pieces[row["predicate"]], SEP] if marker == "segment" else []
    cut = None if limit is None else limit - 1 - len(second)
    tokens, labels, types = tokens[:cut] + [SEP], labels[:cut] + [-100], types[:cut] + [0]
    return tokens + second, labels + [-100] * len(second), types + [1] * len(second)


def assert_rows(rows, dataset, tokenizer, marker=None, limit=None):
    batch = rows.batch(range(len(dataset)))
    assert batch.keys() == {"input_ids", "attention_mask", "labels"} | ({"token_type_ids"} if marker else set())
    for i, row in enumerate(dataset):
        tokens, labels, types = by_hand(row, tokenizer, marker, limit)
        padding = [0] * (batch["input_ids"].shape[1] - len(tokens))
        assert batch["input_ids"][i].tolist() == tokens + padding
        assert batch["attention_mask"][i].tolist() == [1] * len(tokens) + padding
        assert batch["labels"][i].tolist() == labels + [-100] * len(padding)
        if marker:
            assert batch["token_type_ids"][i].tolist() == types + padding


# --- sub-words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("marker", [None, "token_type", "segment"])
def test_each_words_label_sits_on_its_first_sub_word(marker):
    tokenizer, dataset = paired_tokenizer(), sentences()
    if marker is None:
        dataset = dataset.remove_columns("predicate")
    rows = tokenize_words(dataset, tokenizer, predicate_marker=marker or "token_type")
    assert_rows(rows, dataset if marker else dataset.add_column("predicate", [0] * len(dataset)), tokenizer, marker)
    words = [word for row in dataset for word in row["words"]]
    assert rows.num_words.tolist() == [len(row["words"]) for row in dataset] and rows.num_cut == 0
    assert rows.data is dataset
    assert rows.num_unknown == sum(word in NOTHING for word in words) > 5
    counted = [(row >= 0).sum().item() for row in rows.batch(range(len(dataset)))["labels"]]
    assert counted == rows.num_words.tolist()


@pytest.mark.parametrize("marker", ["token_type", "segment"])
def test_long_rows_are_refused_or_cut_and_counted(marker):
    tokenizer, dataset = paired_tokenizer(), sentences(longest=20)
    lengths = [len(by_hand(row, tokenizer, marker)[0]) for row in dataset]
    too_long = sum(length > 14 for length in lengths)
    message = f"{too_long} of 40 rows have more than 14 .* row {np.argmax(lengths)} with {max(lengths)}, begins"
    with pytest.raises(ValueError, match=f"{message}.*truncation=True"):
        tokenize_words(dataset, tokenizer, 14, predicate_marker=marker)
    rows = tokenize_words(dataset, tokenizer, 14, predicate_marker=marker, truncation=True)
    assert_rows(rows, dataset, tokenizer, marker, 14)
    kept = (rows.batch(range(40))["labels"] >= 0).sum(1).numpy()
    assert rows.num_words.tolist() == [len(row["words"]) for row in dataset]
    assert rows.num_cut == (rows.num_words - kept).sum() > 0
    for limit in (max(lengths), None):
        whole = tokenize_words(dataset, tokenizer, limit, predicate_marker=marker, truncation=True)
        assert_rows(whole, dataset, tokenizer, marker)
        assert whole.num_cut == 0


@pytest.mark.parametrize("marker, least", [("token_type", 3), ("segment", 5)])
def test_a_limit_without_room_for_a_word_is_refused(marker, least):
    tokenizer, dataset = paired_tokenizer(), sentences()
    for limit in (-1, 0, least - 1):
        with pytest.raises(
            ValueError, match=f"`max_length` is {limit}; with special tokens a row has at least {least}"
        ):
            tokenize_words(dataset, tokenizer, limit, predicate_marker=marker, truncation=True)
    row = {"words": [["good"] * 9 + ["films"]], "tags": [[0] * 10], "predicate": [9]}
    pieces = len(tokenizer("films", add_special_tokens=False)["input_ids"])
    if marker == "segment" and pieces > 1:
        with pytest.raises(ValueError, match="`max_length` is 5, but with the predicate 'films' as its second segment"):
            tokenize_words(Dataset.from_dict(row), tokenizer, 5, predicate_marker=marker, truncation=True)
    rows = tokenize_words(Dataset.from_dict(row), tokenizer, least + pieces, predicate_marker=marker, truncation=True)
    assert (rows.batch([0])["labels"] >= 0).any()


def test_the_limit_is_the_least_of_the_callers_the_tokenizers_and_the_encoders():
    tokenizer, dataset = tiny_tokenizer(), sentences(longest=60, words=WORDS).remove_columns("predicate")
    with pytest.raises(ValueError, match="more than 32 tokens"):
        tokenize_words(dataset, tokenizer, 50, config=tiny_config("bert"))
    tokenizer.model_max_length = 20
    with pytest.raises(ValueError, match="more than 20 tokens"):
        tokenize_words(dataset, tokenizer, 50, config=tiny_config("bert"))
    with pytest.raises(ValueError, match="more than 10 tokens"):
        tokenize_words(dataset, tokenizer, 10, config=tiny_config("bert"))


@pytest.mark.parametrize("kind, limit", [("bert", 32), ("roberta", 31)])  # whose positions begin at pad_token_id + 1
def test_the_longest_row_that_is_allowed_goes_through_the_encoder(kind, limit):
    tokenizer, config = tiny_tokenizer(), tiny_config(kind)
    row = {"words": [["film"] * (limit - 2)], "tags": [[0] * (limit - 2)]}
    rows = tokenize_words(Dataset.from_dict(row), tokenizer, config=config)
    logits = AutoModelForTokenClassification.from_config(config)(input_ids=rows.batch([0])["input_ids"]).logits
    assert logits.shape[1] == limit
    row = {name: [value[0] + value[0][:1]] for name, value in row.items()}
    with pytest.raises(ValueError, match=f"more than {limit} tokens"):
        tokenize_words(Dataset.from_dict(row), tokenizer, config=config)


def test_rows_go_through_an_encoder():
    dataset = sentences()
    task_net = AutoModelForTokenClassification.from_config(tiny_config("bert", type_vocab_size=2, **TAGS))
    for marker in ("token_type", "segment"):
        rows = tokenize_words(dataset, paired_tokenizer(), predicate_marker=marker, config=task_net.config)
        outputs = task_net(**rows.batch([3, 0, 7]))
        assert outputs.loss.isfinite() and outputs.logits.shape[:2] == rows.batch([3, 0, 7])["labels"].shape


def test_a_predicate_is_shown_as_the_encoder_allows():
    dataset, tokenizer = sentences(), paired_tokenizer()
    configs = [None, tiny_config("bert", type_vocab_size=2), tiny_config("roberta", type_vocab_size=1)]
    found = [tokenize_words(dataset, tokenizer, config=config) for config in [*configs, tiny_config("distilbert")]]
    assert [rows.inputs["predicate_marker"] for rows in found] == ["token_type", "token_type", "segment", "segment"]
    assert ["token_type_ids" in rows.batch([0]) for rows in found] == [True, True, False, False]


def test_encoders_and_tokenizers_that_do_not_fit_are_refused():
    dataset, tokenizer = sentences(), paired_tokenizer()
    with pytest.raises(ValueError, match="needs two token types, but the encoder .roberta. has 1. Use 'segment'"):
        tokenize_words(
            dataset, tokenizer, predicate_marker="token_type", config=tiny_config("roberta", type_vocab_size=1)
        )
    with pytest.raises(ValueError, match="needs two token types, but the encoder .distilbert. has 0"):
        tokenize_words(dataset, tokenizer, predicate_marker="token_type", config=tiny_config("distilbert"))
    with pytest.raises(ValueError, match="`predicate_marker` is 'span'; it must be one of token_type, segment"):
        tokenize_words(dataset, tokenizer, predicate_marker="span")
    with pytest.raises(ValueError, match="object is not a fast tokenizer"):
        tokenize_words(dataset, object())
    tokenizer.unk_token = None
    with pytest.raises(ValueError, match="has no sub-word for the word '.*', and lacks an unknown token"):
        tokenize_words(dataset, tokenizer)


# --- word ids --------------------------------------------------------------------------------------------------------


def test_batches_of_word_ids_are_those_of_the_words():
    dataset = sentences()
    vocabulary = Vocabulary.from_data(dataset.select(range(5)), features=("pos", "case"), characters=True, word_width=4)
    rows, indices = encode_words(dataset, vocabulary), [7, 0, 1, 7, 33]
    batch = rows.batch(indices)
    assert batch.keys() == {
        *("input_ids", "attention_mask", "labels", "char_ids", "pos_ids", "case_ids", "token_type_ids")
    }
    longest = max(len(dataset[i]["words"]) for i in indices)
    assert batch["char_ids"].shape == (5, longest, 4) and batch["input_ids"].shape == (5, longest)
    for place, i in enumerate(indices):
        row = dataset[i]
        length = len(row["words"])
        expected = {
            "input_ids": vocabulary.word_ids(row["words"]),
            "attention_mask": [1] * length,
            "labels": row["tags"],
            "char_ids": vocabulary.char_ids(row["words"]),
            "pos_ids": vocabulary.feature_ids("pos", row["pos"]),
            "case_ids": vocabulary.feature_ids("case", row["words"]),
            "token_type_ids": [int(t == row["predicate"]) for t in range(length)],
        }
        for name, values in expected.items():
            assert batch[name][place, :length].tolist() == np.asarray(values).tolist(), name
            assert (batch[name][place, length:] == (-100 if name == "labels" else 0)).all(), name
    assert rows.num_words.tolist() == [len(row["words"]) for row in dataset] and rows.num_cut == rows.num_unknown == 0
    assert rows.data is dataset


def test_rows_train_the_bilstm():
    dataset = sentences()
    vocabulary = Vocabulary.from_data(dataset, features=("pos", "case"), characters=True)
    rows = encode_words(dataset, vocabulary)
    torch.manual_seed(0)
    net = BiLSTMForTokenClassification(
        BiLSTMConfig(
            vocab_size=len(vocabulary.words),
            char_vocab_size=len(vocabulary.chars),
            feature_sizes={name: [len(values), 3] for name, values in vocabulary.features.items()},
            predicate_size=4,
            num_labels=7,
        )
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        losses.append(net(**rows.batch(range(8))).loss)
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]


def test_a_trainer_saves_the_vocabulary_beside_the_net(tmp_path):
    dataset = sentences()
    vocabulary = Vocabulary.from_data(dataset)
    net = BiLSTMForTokenClassification(BiLSTMConfig(vocab_size=len(vocabulary.words), num_labels=7))
    options = {"max_steps": 2, "save_steps": 2, "use_cpu": True, "report_to": [], "disable_tqdm": True}
    trainer = Trainer(
        net,
        TrainingArguments(str(tmp_path), **options),
        data_collator=collate_rows,
        train_dataset=encode_words(dataset, vocabulary),
        processing_class=vocabulary,
    )
    trainer.train()
    checkpoint = tmp_path / "checkpoint-2"
    assert Vocabulary.from_pretrained(checkpoint) == vocabulary
    again = AutoModelForTokenClassification.from_pretrained(checkpoint)
    for name, value in net.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name


VIEWS = {
    "whole": lambda rows: rows,
    "slice": lambda rows: rows.select(range(4, 9)),
    "shuffled": lambda rows: rows.shuffle(seed=1),
    "joined": lambda rows: concatenate_datasets([rows.select(range(5, 9)), rows.select([2, 1])]),
}


@pytest.mark.parametrize("view", VIEWS)
def test_tensor_rows_pad_lists_of_one_width(view):
    draw = np.random.default_rng(0)
    values = [draw.integers(1, 9, (length, 3)).tolist() for length in (0, 4, 1, 6, 2, 3, 3, 5, 0, 1)]
    kind = Features({"x": List(List(Value("int32"), length=3))})
    dataset = VIEWS[view](Dataset.from_dict({"x": values}, kind))
    batch = TensorRows(dataset, {"x": 0}).batch(range(len(dataset)))["x"]
    expected = [torch.tensor(row["x"]).reshape(-1, 3) for row in dataset]
    assert torch.equal(batch, torch.nn.utils.rnn.pad_sequence(expected, batch_first=True))
    with pytest.raises(ValueError, match="Rows of column `x` have between 0 and .*give its padding value"):
        TensorRows(Dataset.from_dict({"x": values}, kind))
    even = TensorRows(Dataset.from_dict({"x": [values[5], values[6]]}, kind)).batch([1, 0])["x"]
    assert even.tolist() == [values[6], values[5]]


# --- data that does not fit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, message",
    [
        ({"words": [["a"], []]}, "Row 1 has no words"),
        ({"words": ["a", "b c"]}, "Column `words` is .*string.*; it must be lists of string, one per word"),
        ({"tags": [["O"], ["O", "B"]]}, "Column `tags` is .*; it must be lists of int64"),
        ({"words": [["a"], ["b", None]]}, "Column `words` has missing values"),
        ({"tags": [[1], None]}, "Column `tags` has missing values"),
        ({"words": [], "tags": [], "pos": [], "predicate": []}, "The data has no rows"),
        ({"tags": [[1], [2]]}, "Row 1 has 2 words but 1 values in `tags`"),
        ({"pos": [["N", "N"], ["V", "V"]]}, "Row 0 has 1 words but 2 values in `pos`"),
        ({"tags": [[1], [2, -100]]}, "Row 1 has a negative tag"),
        ({"predicate": [0, 2]}, "Row 1 has its predicate at 2, but 2 words"),
        ({"predicate": [-1, 1]}, "Row 0 has its predicate at -1"),
        ({"tags": None}, "no column `tags`"),
        ({"pos": None}, "no column `pos`"),
    ],
)
def test_rows_that_do_not_fit_their_words_are_refused(change, message):
    right = {"words": [["a"], ["b", "c"]], "tags": [[1], [2, 3]], "pos": [["N"], ["V", "V"]], "predicate": [0, 1]}
    vocabulary = Vocabulary.from_data(Dataset.from_dict(right), features=("pos",))
    encode_words(Dataset.from_dict(right), vocabulary)
    wrong = Dataset.from_dict({name: values for name, values in (right | change).items() if values is not None})
    with pytest.raises(DataError, match=message):
        encode_words(wrong, vocabulary)
    if "pos" not in change:
        with pytest.raises(DataError, match=message):
            tokenize_words(wrong, tiny_tokenizer())


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="lacks a tokenizer: all words would be unknown"):
        load_tokenizer(str(tmp_path))
    tiny_tokenizer().save_pretrained(tmp_path)
    assert len(load_tokenizer(str(tmp_path))) == len(tiny_tokenizer())


def test_words_without_tags_are_rows_like_others():
    words, config = [["a"], ["b", "c"]], tiny_config("bert")
    tagged = Dataset.from_dict({"words": words, "tags": [[1], [2, 3]]})
    for reader, encoded in (
        (Vocabulary.from_data(tagged), encode_words(tagged, Vocabulary.from_data(tagged))),
        (tiny_tokenizer(), tokenize_words(tagged, tiny_tokenizer())),
    ):
        rows = word_rows(words, {}, reader, config)
        found, expected = rows.batch([0, 1]), encoded.batch([0, 1])
        assert (found["input_ids"] == expected["input_ids"]).all()
        assert (found["labels"] == expected["labels"].clamp(max=UNLABELLED)).all()  # at the same words
