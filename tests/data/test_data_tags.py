"""Tag sequences: real data by their known counts, every rule and every error by a file written here."""

import itertools
import json
import os
from collections import Counter, defaultdict

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from seal_hf.core.tag_schemes import allowed_transitions, is_well_formed, spans
from seal_hf.data import DataError, TagDataArguments, load_tags
from seal_hf.data.columns import read_columns
from seal_hf.data.common import SPLITS

SENTENCE = "He\tO\nlives\tO\nin\tO\nNew\tB-LOC\nYork\tI-LOC\n\n"


def rows(data, split="train"):
    table = getattr(data, split)
    names = data.label_names
    return [(words, [names[tag] for tag in tags]) for words, tags in zip(table["words"], table["tags"], strict=True)]


def folder(path, **files):
    """`train="..."` -> path/train.conll; every folder has a dev file."""
    for name, text in {"dev": SENTENCE, **files}.items():
        (path / f"{name}.conll").write_bytes(text.encode())
    return str(path)


# Real data


@pytest.mark.parametrize(
    ("name", "sizes", "num_tags", "scheme"),
    [("twitter_pos", (1000, 327, 500), 25, "plain"), ("wnut17", (3394, 1009, 1287), 13, "bio")],
)
def test_real_columns(shared_data, name, sizes, num_tags, scheme):
    data = load_tags(name, data_dir=str(shared_data))
    assert tuple(len(getattr(data, split)) for split in SPLITS) == sizes
    assert (data.name, len(data.label_names), data.scheme, data.kind) == (name, num_tags, scheme, scheme)
    assert {split: len(table) for split, table in data.extra_tests.items()} == (
        {"daily547.conll": 547} if name == "twitter_pos" else {}
    )
    for split in SPLITS:
        for words, tags in rows(data, split):
            assert len(words) == len(tags) > 0 and is_well_formed(tags, scheme)


def test_tweets_word_by_word(shared_data):
    data = load_tags(str(shared_data / "sequence" / "twitter_pos"))
    lines = (shared_data / "sequence" / "twitter_pos" / "oct27.dev").read_text(encoding="utf-8").strip("\n").split("\n")
    flat = ["\t".join(pair) for words, tags in rows(data, "validation") for pair in zip(words, tags, strict=True)]
    assert flat == [line for line in lines if line]  # hashtags at the start of a tweet are no comments


def test_references_of_cora(shared_data):
    data = load_tags("cora", data_dir=str(shared_data))
    assert [len(getattr(data, split)) for split in SPLITS] == [300, 100, 100]
    assert data.scheme == "bio" and len(data.label_names) == 26
    plain = load_tags("cora", data_dir=str(shared_data), scheme="plain", num_labelled=50, seed=3)
    assert len(plain.label_names) == 13 and {"author", "title", "date"} < set(plain.label_names)
    assert (len(plain.train), len(plain.unlabelled), plain.unlabelled.column_names) == (50, 250, ["words"])
    whole = load_tags("cora", data_dir=str(shared_data), seed=3)
    together = sorted(map(tuple, [*plain.train["words"], *plain.unlabelled["words"]]))
    assert together == sorted(map(tuple, whole.train["words"]))
    text = (shared_data / "sequence" / "cora" / "tagged_references.txt").read_text(encoding="utf-8")
    starts = sum(tag.startswith("B-") for split in SPLITS for _, tags in rows(data, split) for tag in tags)
    assert starts == text.count("</")  # one span per field


# The embedded task


def test_the_embedded_task_depends_on_its_neighbours():
    data = load_tags()
    assert [len(getattr(data, split)) for split in SPLITS] == [400, 150, 300]
    assert data.label_names == ["O", "B-X", "I-X", "B-Y", "I-Y", "B-Z", "I-Z"] and data.kind == "bio"
    assert rows(data) == rows(load_tags("toy_tags")) != rows(load_tags(seed=1))
    assert all(is_well_formed(tags, "bio") for _, tags in rows(data))
    kinds = [[span.type for span in spans(tags, "bio")] for _, tags in rows(data)]
    pairs = Counter(pair for row in kinds for pair in itertools.pairwise(row))
    assert sum(pairs[pair] for pair in zip("XYZ", "YZX", strict=True)) / pairs.total() == pytest.approx(0.8, abs=0.03)
    # a chain of counts, decoded with Viterbi, must beat each word's most frequent tag clearly
    words = sorted({word for row in data.train["words"] for word in row})
    emit, follow, first = np.full((7, len(words)), 0.1), np.full((7, 7), 0.1), np.full(7, 0.1)
    for sentence, tags in zip(data.train["words"], data.train["tags"], strict=True):
        first[tags[0]] += 1
        for word, tag in zip(sentence, tags, strict=True):
            emit[tag, words.index(word)] += 1
        for one, other in zip(tags, tags[1:], strict=False):
            follow[one, other] += 1
    alone = emit.argmax(0)
    emit, follow = (np.log(table / table.sum(1, keepdims=True)) for table in (emit, follow))
    first = np.log(first / first.sum())
    right: Counter[str] = Counter()
    for sentence, tags in zip(data.test["words"], data.test["tags"], strict=True):
        ids = [words.index(word) for word in sentence]
        best, back = first + emit[:, ids[0]], []
        for i in ids[1:]:
            scores = best[:, None] + follow
            back.append(scores.argmax(0))
            best = scores.max(0) + emit[:, i]
        path = [best.argmax()]
        for pointers in reversed(back):
            path.insert(0, pointers[path[0]])
        right["chain"] += int((np.array(path) == tags).sum())
        right["word"] += int((alone[ids] == tags).sum())
        right["all"] += len(tags)
    assert right["word"] / right["all"] < 0.6
    assert right["chain"] / right["all"] > right["word"] / right["all"] + 0.08


# Columns


def test_columns_by_hand(tmp_path):
    train = (
        "-DOCSTART- -X- -X- O\n\n"
        "# id 7\n"  # a comment
        "EU NNP I-NP I-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP I-MISC\n \t\n\n"
        "# id = 8\n"  # a comment of as many columns
        "A NNP I-NP I-PER\r\nB NNP I-NP B-PER\r\n\r\n"
        "# # I-NP O\n"  # a word
    )
    dev = "x NN I-NP I-LOC\n\xa0 NN I-NP O\nNEL\x85 NN I-NP O"  # no line feed at the end
    data = load_tags(folder(tmp_path, train=train, dev=dev))
    assert rows(data) == [
        (["EU", "rejects", "German"], ["B-ORG", "O", "B-MISC"]),
        (["A", "B"], ["B-PER", "B-PER"]),
        (["#"], ["O"]),
    ]
    assert data.validation["words"][0] == ["x", "\xa0", "NEL\x85"]  # white space to Python, words to the annotators
    assert data.train["pos"][0] == ["NNP", "VBZ", "JJ"] and data.train["chunk"][0] == ["I-NP", "I-VP", "I-NP"]
    assert data.feature_columns == ["pos", "chunk"] and data.test is None
    assert data.label_names == ["O", "B-LOC", "B-MISC", "B-ORG", "B-PER"]
    notes = " ".join(data.notes)
    assert "train.conll: 2 comment lines skipped." in notes
    assert "4 tags rewritten as well-formed bio" in notes  # I-ORG, I-MISC, I-PER, I-LOC
    assert "tags that occur only outside train (kept): B-LOC (1 word)." in notes


CONLLU = (
    "# text = do n't go\n1\tdo\tdo\tAUX\t_\t_\t0\troot\t_\t_\n1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tn't\tnot\tPART\t_\t_\t1\tadvmod\t_\t_\n2.1\tgone\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
)


def test_conllu_has_lines_that_are_no_words(tmp_path):
    path = folder(tmp_path, train=CONLLU, dev=CONLLU)
    data = load_tags(path, word_column=1, tag_column=3)
    assert data.columns == {"word_column": 1, "tag_column": 3}
    assert rows(data) == [(["do", "n't"], ["AUX", "PART"])]
    assert "train.conll: 2 lines of several words, or of none, skipped." in data.notes
    with pytest.raises(DataError, match="as in CoNLL-U, but `word_column` is 0.*--word_column 1 --tag_column 3"):
        load_tags(path)


def test_other_columns(tmp_path):
    path = folder(tmp_path, train="1\ta b\tN\tx\ty\n", dev="1\tc\tV\tx\ty\n")  # a word with a space
    data = load_tags(path, word_column="1", tag_column="2")
    assert rows(data) == [(["a b"], ["N"])] and data.feature_columns == ["column_0", "column_3", "column_4"]
    assert data.scheme == "plain" and data.label_names == ["N", "V"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["O", "O", "O", "B-LOC", "I-LOC"]),
        ({"scheme": "bioes"}, ["O", "O", "O", "B-LOC", "E-LOC"]),
        ({"scheme": "plain"}, ["O", "O", "O", "B-LOC", "I-LOC"]),
    ],
)
def test_schemes(tmp_path, options, expected):
    data = load_tags(folder(tmp_path, train=SENTENCE), **options)
    assert rows(data)[0] == (["He", "lives", "in", "New", "York"], expected)
    assert data.scheme == options.get("scheme", "bio")
    bilou = SENTENCE.replace("I-LOC", "L-LOC")
    as_bioes = load_tags(folder(tmp_path, train=bilou, dev=bilou))
    assert as_bioes.scheme == "bioes" and rows(as_bioes)[0][1][3:] == ["B-LOC", "E-LOC"]
    assert allowed_transitions(as_bioes.label_names).start.tolist() == [True, True, False]


def test_a_single_file_is_split_by_seed(tmp_path):
    file = tmp_path / "all.txt"
    file.write_text("".join(f"w{i} N\n\n" for i in range(50)))
    data = load_tags(str(file), seed=2)
    assert [len(getattr(data, split)) for split in SPLITS] == [40, 5, 5]
    words = [words[0] for split in SPLITS for words, _ in rows(data, split)]
    assert sorted(words) == sorted(f"w{i}" for i in range(50))
    assert rows(load_tags(str(file), seed=2)) == rows(data) != rows(load_tags(str(file), seed=3))
    assert any("no splits: 40 / 5 / 5 rows" in note for note in data.notes)


def test_files_that_name_no_split(tmp_path):
    (tmp_path / "labels.txt").write_text("O\n")
    (tmp_path / "7.txt").write_text("")
    data = load_tags(folder(tmp_path, train=SENTENCE, latest=SENTENCE * 2))
    assert data.test is None and {name: len(table) for name, table in data.extra_tests.items()} == {"latest.conll": 2}
    assert sum("name contains no split" in note for note in data.notes) == 1  # labels.txt names ids


def test_numbers_as_tags_are_in_their_order(tmp_path):
    data = load_tags(folder(tmp_path, train="a\t10\nb\t9\n", dev="a\t2\n"))
    assert data.label_names == ["2", "9", "10"]


@pytest.mark.parametrize("name", ["labels.txt", "classes.txt"])
def test_a_file_with_too_few_names_of_ids_is_named(tmp_path, name):
    (tmp_path / name).write_text("O\nA\n10\n")
    with pytest.raises(DataError, match=f"train.conll: {name} has 3 names, but id 10 occurs; ids count from 0. Add"):
        load_tags(folder(tmp_path, train="a\t10\nb\t1\n", dev="a\t0\n"))
    numbers = load_tags(folder(tmp_path, train="a\t10\n", dev="a\t10\n"))
    assert numbers.label_names == ["10"]


def test_train_subsets(tmp_path):
    path = folder(tmp_path, train="".join(f"w{i}\tT{i % 5}\n\n" for i in range(30)), dev="x\tT0\n")
    assert [words for words, _ in rows(load_tags(path, max_train_rows=3))] == [["w0"], ["w1"], ["w2"]]
    few, more = (load_tags(path, max_train_rows=n, train_subset="random", seed=1) for n in (4, 9))
    assert {w[0] for w, _ in rows(few)} < {w[0] for w, _ in rows(more)} and len(more.train) == 9
    assert few.label_names == more.label_names == [f"T{i}" for i in range(5)]  # does not change with the subset
    assert len(load_tags(path, max_train_rows=99).train) == 30


def test_a_folder_without_a_validation_file_gives_a_tenth_of_train(tmp_path):
    for name, count in (("train", 20), ("test", 3)):
        lines = (f"{name}{i}\tT{i % 2}\n\n" for i in range(count))
        (tmp_path / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    data = load_tags(str(tmp_path), seed=3)
    assert [len(getattr(data, split)) for split in SPLITS] == [18, 2, 3]
    assert {words[0] for split in SPLITS[:2] for words, _ in rows(data, split)} == {f"train{i}" for i in range(20)}
    assert "no validation split: 2 rows from train, stratified by label (seed 3)." in data.notes


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({"train": "a\tO\nb\n"}, {}, r"train.conll, line 2: 'b' has 1 columns, expected 2 as in line 1"),
        ({"train": "a\tO\n\nb\tO\tO\n"}, {}, r"line 3: .* has 3 columns"),
        ({"train": "a\tO\nb\t \n"}, {}, r"line 2: .* has no tag in column 1. Write O"),
        (
            {"train": "(S (NP (DT the) (NN cat)))\n(S (NN dogs))\n"},
            {},
            r"line 2: .* Bracketed trees are for `load_trees`",
        ),
        ({"train": "a\tO\n# x\nb\tO\n"}, {}, "line 2: .* a comment, remove it, or write it before its sentence, with"),
        ({"train": "a\nb\n"}, {}, r"line 1: 1 columns, but `word_column` is 0"),
        ({"train": SENTENCE}, {"tag_column": 2}, r"2 columns, but `tag_column` is 2"),
        ({"train": SENTENCE}, {"tag_column": "ner"}, r"`tag_column` is 'ner'; columns of this format have numbers"),
        ({"train": SENTENCE}, {"tag_column": 0}, r"`word_column` and `tag_column` are both column 0 of 2"),
        ({"train": ""}, {}, r"train.conll: no sentence"),
        ({"train": "a\tO\rb\tO\r"}, {}, r"train.conll: its lines end in carriage returns alone"),
        ({}, {}, r"no file for the train split, expected train or training in its name; found dev.conll"),
        ({"train": SENTENCE, "x.training": SENTENCE}, {}, "two files for the train split"),
        ({"train": SENTENCE, "test": "a\tN\tO\n"}, {}, "the test split has the columns words, tags, pos, expected"),
        ({"train": SENTENCE}, {"scheme": "iob"}, "`scheme` is 'iob'; it must be one of auto, plain"),
        ({"train": "a\tN\n", "dev": "a\tN\n"}, {"scheme": "bio"}, "`scheme` is 'bio', but the tags are plain"),
        (
            {"train": SENTENCE + "x\tLOC\n"},
            {},
            "these are not: LOC. The first is 'LOC' of 'x', in sentence 2 of train",
        ),
        (
            {"train": "palabra\tetiqueta\n" + SENTENCE},
            {},
            "of 'palabra', in sentence 1 of train. If that is a line of headers",
        ),
        ({"train": SENTENCE}, {"max_train_rows": 0}, "`max_train_rows` is 0"),
        ({"train": SENTENCE}, {"train_subset": "last"}, "`train_subset` is 'last'"),
        ({"train": SENTENCE}, {"num_labelled": 2}, "`num_labelled` is 2, but .* has 1 training rows"),
    ],
)
def test_mistakes_are_named(tmp_path, files, options, message):
    if not files:
        files = {"other": SENTENCE}
    with pytest.raises(DataError, match=message):
        load_tags(folder(tmp_path, **files), **options)


def test_other_mistakes(tmp_path):
    with pytest.raises(DataError, match=r"train.conll, line 2: .* has no word in column 0"):
        load_tags(folder(tmp_path, train="a\tO\n\tO\n", dev="a\tO\n"))
    (tmp_path / "latin.conll").write_bytes("é\tO\n".encode("latin-1"))
    with pytest.raises(DataError, match="latin.conll: not UTF-8"):
        load_tags(str(tmp_path / "latin.conll"))
    with pytest.raises(DataError, match="`word_column` names a column, but toy_tags is embedded"):
        load_tags("toy_tags", word_column=1)
    with pytest.raises(DataError, match="`tag_column` names a column, but toy_tags is embedded"):
        load_tags(tag_column=1)
    with pytest.raises(DataError, match="'toy_tag' not found.*Did you mean 'toy_tags'.*embedded toy_tags"):
        load_tags("toy_tag")
    (tmp_path / "open.csv").write_text('sentence_id,word,tag\n1,",O\n1,a,O\n2,",O\n2,b,O\n2,c,O\n2,d,O\n')
    with pytest.raises(DataError, match="open.csv, line 2: the word .* goes on in the next line, since a quotation"):
        load_tags(str(tmp_path / "open.csv"))
    (tmp_path / "breaks.csv").write_text('sentence_id,word,tag\n1,in,O\n1,"\n",O\n2,a,O\n')  # as of spaCy's words
    with pytest.raises(DataError, match=r"the word is '\\n', with the tag 'O'; expected text. Leave out such words"):
        load_tags(str(tmp_path / "breaks.csv"))
    (tmp_path / "misc.conll").write_text("in\tNER=O\nRome\tNER=B-LOC\n\n" * 12)
    assert "tags are features such as 'NER=B-LOC', each read by" in " ".join(
        load_tags(str(tmp_path / "misc.conll")).notes
    )
    (tmp_path / "short.conll").write_text("a\tO\n")
    with pytest.raises(DataError, match="the validation split is empty"):
        load_tags(str(tmp_path / "short.conll"))


# References


def reference_file(path, *references):
    file = path / "references.txt"
    file.write_text("".join(f"<NEWREFERENCE>\n{text}\n" for text in references))
    return str(file)


def test_references_by_hand(tmp_path):
    text = "<author> A. B., </author><author>C.</author>\n<title> x <\n y </title> end <note> </note>"
    data = load_tags(reference_file(tmp_path, *[text] * 10, ""), scheme="auto")
    tags = ["B-author", "I-author", "B-author", "B-title", "I-title", "I-title", "O"]
    assert rows(data)[0] == (["A.", "B.,", "C.", "x", "<", "y", "end"], tags)
    assert [len(getattr(data, split)) for split in SPLITS] == [6, 2, 2]
    assert data.notes[:2] == [
        "references.txt: 1 empty references dropped.",
        "references.txt: 10 words outside all fields, tagged O.",
    ]
    plain = load_tags(reference_file(tmp_path, *[text] * 10), scheme="plain")
    assert rows(plain)[0][1] == ["author"] * 3 + ["title"] * 3 + ["O"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<author> A.", r"line 2: <author> is not closed before the next reference"),
        ("<author> A. </title>", r"line 2: </title> closes <author>"),
        ("A. </title>", r"line 2: </title> closes no open field"),
        ("<author> A. <title> x </title> </author>", r"line 2: <title> begins inside <author>"),
    ],
)
def test_unbalanced_references(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        load_tags(reference_file(tmp_path, text, "<author> B. </author>"))


# Tables


def jsonl(column, size=20):
    return "".join(json.dumps({"tokens": [f"w{i}", "x"], column: ["B-A", "O"]}) + "\n" for i in range(size))


def test_tables_of_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    features = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=["O", "B-X", "I-X"]))})
    (tmp_path / "data").mkdir()
    for split in ("train", "validation"):
        table = Dataset.from_dict({"tokens": [["a", "b"], []], "ner_tags": [[1, 2], []]}, features=features)
        table.to_parquet(tmp_path / "data" / f"{split}.parquet")
    data = load_tags(str(tmp_path / "data"))
    assert rows(data) == rows(data, "validation") == [(["a", "b"], ["B-X", "I-X"])]
    assert data.notes[:1] == ["words: column 'tokens'; tags: column 'ner_tags'."]
    assert data.notes[1:3] == ["train: 1 empty sentences dropped.", "validation: 1 empty sentences dropped."]
    (tmp_path / "all.jsonl").write_text(jsonl("kind"))
    with pytest.raises(DataError, match="has the fields tokens, kind; expected tags or ner_tags.*--tag_column"):
        load_tags(str(tmp_path / "all.jsonl"))
    split = load_tags(str(tmp_path / "all.jsonl"), tag_column="kind")
    assert [len(getattr(split, name)) for name in SPLITS] == [16, 2, 2]
    (tmp_path / "bad.jsonl").write_text('{"tokens": ["a"], "tags": ["O"]}\n\n{"tokens": ["a"], "tags": ["O", "O"]}\n')
    with pytest.raises(DataError, match="bad.jsonl, line 3: 1 words, but 2 values in `tags`"):
        load_tags(str(tmp_path / "bad.jsonl"))
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DataError, match="empty.jsonl is empty"):
        load_tags(str(tmp_path / "empty.jsonl"))
    (tmp_path / "cut.jsonl").write_text('{"tokens": ["a"], "tags": ["O"]}\n' * 20 + '{"tokens": ["a"')
    with pytest.raises(DataError, match="cut.jsonl, line 21: not a JSON object"):
        load_tags(str(tmp_path / "cut.jsonl"))
    row = {"tokens": ["a", "b"], "tags": ["O", "X"], "pos": ["N", "V"], "id": "7", "short": ["N"]}
    (tmp_path / "pos.jsonl").write_text((json.dumps(row) + "\n") * 20)
    with_pos = load_tags(str(tmp_path / "pos.jsonl"))
    (tmp_path / "partly").mkdir()
    for split, own in (("train", row), ("dev", {**row, "pos": ["N"]}), ("test", row)):
        (tmp_path / "partly" / f"{split}.jsonl").write_text((json.dumps(own) + "\n") * 3)
    partly = load_tags(str(tmp_path / "partly"))
    assert set(partly.train.column_names) == {"words", "tags"}
    assert "left out, since not every split has a value for each word: pos." in partly.notes
    assert set(with_pos.train.column_names) == {"words", "tags", "pos"} and with_pos.train[0]["pos"] == ["N", "V"]
    with pytest.raises(DataError, match="`tag_column` is 2; the fields have names: tokens, kind"):
        load_tags(str(tmp_path / "all.jsonl"), tag_column=2)


@pytest.mark.parametrize("name", ["d[1].jsonl", "d*.jsonl", "d?.jsonl", "d {a}%20.jsonl"])
def test_the_name_of_a_table_is_no_pattern(tmp_path, name):
    (tmp_path / "dx.jsonl").write_text(jsonl("other"))
    (tmp_path / "d1.jsonl").write_text(jsonl("other"))
    (tmp_path / name).write_text(jsonl("tags"))
    assert len(rows(load_tags(str(tmp_path / name)))) == 16
    assert len(list(tmp_path.iterdir())) == 3  # nothing is written beside it


def test_a_table_that_changed_within_its_time_stamp_is_read_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    for word in ("one", "two"):
        (tmp_path / "d.jsonl").write_text(jsonl("tags").replace('"x"', f'"{word}"'))
        os.utime(tmp_path / "d.jsonl", (1, 1))
        assert {words[1] for words, _ in rows(load_tags(str(tmp_path / "d.jsonl")))} == {word}
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("words", "tag", "said"),
    [
        (["a"], -1, "the tag of 'a' is -1"),
        (["a"], None, "the tag of 'a' is None"),
        ([None], 0, "`tokens` holds 'None'; expected a list of strings"),
    ],
)
def test_what_a_table_leaves_open_is_named(monkeypatch, words, tag, said):
    features = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=["O", "B-X"]))})
    table = Dataset.from_dict({"tokens": [["a"], words], "ner_tags": [[0], [tag]]}, features=features)
    monkeypatch.setattr("datasets.load_dataset", lambda *_: {"train": table})
    with pytest.raises(DataError, match=rf"train split, row 1 \(counting from 0\): {said}"):  # not the last name
        load_tags("user/ner")


def test_a_hub_data_set(monkeypatch):
    def load_dataset(name, configuration):
        assert (name, configuration) == ("user/ner", "small")
        sizes = {"train": 20, "test": 3}
        return {
            split: Dataset.from_dict(
                {"id": list(range(n)), "words": [[f"w{i}"] for i in range(n)], "tags": [["O"]] * n}
            )
            for split, n in sizes.items()
        }

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    data = load_tags("user/ner:small", seed=5)
    assert (data.name, data.label_names, data.scheme, data.feature_columns) == ("ner", ["O"], "plain", [])
    assert [len(getattr(data, split)) for split in SPLITS] == [18, 2, 3]
    words = [words[0] for split in SPLITS[:2] for words, _ in rows(data, split)]
    assert sorted(words) == sorted(f"w{i}" for i in range(20))
    assert data.notes == [
        "no validation split: 2 rows from train, stratified by label (seed 5).",
        "rows occur in two splits (kept): 3 of test in train. Figures on them are too good.",
    ]
    monkeypatch.setattr("datasets.load_dataset", lambda *_: {"extra": Dataset.from_dict({"words": [["a"]]})})
    with pytest.raises(DataError, match="'user/ner' has the splits extra, expected train, validation, test"):
        load_tags("user/ner")


def test_flags_are_the_arguments():
    assert rows(load_tags(**vars(TagDataArguments()))) == rows(load_tags())


def test_gold_that_train_lacks_is_counted(tmp_path):
    data = load_tags(folder(tmp_path, train="a\tB-X\n", dev="a\tB-Y\nb\tI-Y\n\nc\tB-Y\n"))
    assert data.label_names == ["O", "B-X", "B-Y", "I-Y"][1:]
    assert "tags that occur only outside train (kept): B-Y, I-Y (3 words)." in data.notes
    counts = defaultdict(int)
    for _, tags in rows(data, "validation"):
        for tag in tags:
            counts[tag] += 1
    assert counts == {"B-Y": 2, "I-Y": 1}


@pytest.mark.parametrize("typo", ["b-LOC", "B_LOC"])
def test_tags_that_break_the_scheme_of_the_others_are_refused_with_their_file(tmp_path, typo):
    (tmp_path / "x.conll").write_text("".join(SENTENCE.replace("B-LOC", typo) + SENTENCE for _ in range(12)))
    named = rf"x.conll: most of the 4 tags .* these are not: {typo}\. .*sentence 1 of"
    with pytest.raises(DataError, match=named):
        load_tags(str(tmp_path / "x.conll"))


def test_types_in_two_spellings_are_named(tmp_path):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.conll").write_text(SENTENCE + "Rome\tB-Loc\n")
    notes = load_tags(str(tmp_path)).notes
    assert "types that differ in upper and lower case alone, kept as they are: LOC, Loc." in notes


def test_marks_of_documents_are_no_empty_sentences(tmp_path):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.conll").write_text("-DOCSTART-\tO\n\n" + SENTENCE + "-DOCSTART-\tO\n\n")
    notes = " ".join(load_tags(str(tmp_path)).notes)
    assert "2 -DOCSTART- lines skipped" in notes and "empty" not in notes


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ("#", ["#", "1"]),  # as in the Penn treebank, where no other word has the tag #
        ("HASH", ["#", "1"]),
        ("[2010-01-01]", ["1"]),
        ("http://a/b", ["1"]),
    ],
)
def test_a_line_of_a_hash_is_a_word_if_its_last_column_looks_like_a_tag(last, words, tmp_path):
    (tmp_path / "tags.tsv").write_text(f"the\tDT\nend\tNN\n\n#\t{last}\n1\tCD\n", encoding="utf-8")
    assert read_columns(tmp_path / "tags.tsv")[0]["words"] == [["the", "end"], words]
