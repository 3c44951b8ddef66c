"""Bracketed trees. Oracles: trees derived by hand, NLTK's trees of the same files, what was written and read again."""

import random
import zipfile

import pytest
from datasets import Dataset, DatasetDict
from test_structures_trees import random_tree

from seal_hf import DataError, load_trees, tags_to_tree
from seal_hf.core.tag_schemes import Span
from seal_hf.core.trees import levels_of, tree_spans
from seal_hf.data.brackets import Tree, read_brackets
from seal_hf.data.trees import holds_brackets, tree_files

CAT = "(S (NP (DT the) (NN cat)) (VP (VBD slept)))"


def read(text):
    return list(read_brackets(text.encode(), "mine.mrg"))


@pytest.mark.parametrize(
    "text, tree",
    [
        (CAT, CAT),
        (f"( {CAT} )", CAT),
        (f"(TOP\n  {CAT})\n", CAT),
        ("((S (NP-SBJ-1 (DT the) (NN cat)) (VP=2 (VBD slept) (NP (-NONE- *T*-1)))))", CAT),
        ("(S (NP (-NONE- *)) (VP (TO to) (VP (VB go))))", "(S (VP (TO to) (VP (VB go))))"),
        (
            "(S (NP (NP (NP (NNS cats)) (SBAR (-NONE- 0)))) (VP (VBP sleep)))",
            "(S (NP (NP (NP (NNS cats)))) (VP (VBP sleep)))",
        ),
        ("( (S (VP (VB go))) (X (UH oh)))", "(ROOT (S (VP (VB go))) (X (UH oh)))"),
        ("(ROOT (ADVP|PRT (RB up)))", "(ADVP|PRT (RB up))"),
        ("( (NN cat))", "(NN cat)"),
        ("(VROOT (S (VP (VB go))) ($. .))", "(ROOT (S (VP (VB go))) ($. .))"),
        ("((NP-SB##case=nom## (ART##lem=der|x=y-z## die) (NN#x Frau)))", "(NP (ART die) (NN#x Frau))"),
        (r"(X (CD 1\/2) (-LRB- -LRB-) (SYM \*) (-RRB- -RCB-))", "(X (CD 1/2) (-LRB- -LRB-) (SYM *) (-RRB- }))"),
    ],
)
def test_what_reading_removes_and_keeps(text, tree):
    (found,) = read(text)
    assert str(found) == tree
    assert tags_to_tree(found.words, found.tags, found.pos) == tree


def test_words_are_read_without_escapes_and_written_with_them():
    (found,) = read(r"(X (-LRB- -LRB-) (CD 1\/2))")
    assert found.words == ["(", "1/2"]
    assert tags_to_tree(["(a b)", "c"], ["+1(S)", "()"]) == "(S (XX -LRB-a_b-RRB-) (XX c))"


def test_a_random_tree_is_read_as_it_was_written():
    rng = random.Random(2)
    for _ in range(300):
        length = rng.randint(1, 20)
        spans = random_tree(rng, 0, length)
        tree = Tree([f"w{i}" for i in range(length)], ["NN"] * length, spans)
        assert read(str(tree)) == [tree]


@pytest.mark.parametrize(
    "text, where, what",
    [
        (f"{CAT}\n(S (NP (NN cat))", 2, "not closed when the file ends; 1 closing bracket is missing"),
        (f"{CAT})", 1, "a bracket that closes none"),
        (f"{CAT}\n\nthe\tDT\t+2(NP)", 3, "outside of a tree"),
        ("(S (NP (DT the) cat))", 1, "'cat' in the bracket (NP stands beside"),
        ("(S (NP cat (DT the)))", 1, "'cat' in the bracket (NP stands beside"),
        ("(S (NN two words))", 1, "'words' in the bracket (NN stands beside"),
        ("(S\n (NP)\n (NN cat))", 2, "the bracket (NP has neither"),
        (f"{CAT}\n( )", 2, "has neither a word nor a constituent"),
        (f"{CAT}\n(S (NP (-NONE- *)))", 2, "the sentence has no words"),
    ],
)
def test_a_mistake_is_named_by_file_and_line(text, where, what):
    with pytest.raises(DataError) as error:
        read(text)
    assert f"mine.mrg, line {where}: " in str(error.value) and what in str(error.value)


def test_a_line_in_another_encoding_is_named_by_file_and_line(tmp_path):
    path = tmp_path / "mine.mrg"
    path.write_bytes(f"{CAT}\n".encode() + "(X (NN café))\n".encode() + "(X (NN café))\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"mine\.mrg, line 3: not UTF-8"):
        load_trees(str(path))


def numbered(folder, count, suffix=".mrg"):
    folder.mkdir()
    for number in range(1, count + 1):
        word = f"(S (NP (NN n{number})) (VP (VBD slept)))"
        (folder / f"wsj_{number:04}{suffix}").write_text(f"( {word} )\n( {word[:-1]} (. .)) )\n", encoding="utf-8")


def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    numbered(tmp_path / "bank", 1)
    with zipfile.ZipFile(tmp_path / "bank.zip", "w") as archive:
        archive.write(next((tmp_path / "bank").iterdir()), "a.mrg")
    monkeypatch.setattr("seal_hf.data.trees.MOST_BYTES", 10)
    with pytest.raises(DataError, match=r"bank.zip: \d+ bytes unpacked, more than 10. Unpack it into a folder"):
        load_trees(str(tmp_path / "bank.zip"))


def test_files_are_split_by_number_and_the_split_is_recorded(tmp_path):
    numbered(tmp_path / "bank", 12)
    with zipfile.ZipFile(tmp_path / "bank.zip", "w") as archive:
        archive.writestr("bank/README", "no trees")
        for file in (tmp_path / "bank").iterdir():
            archive.write(file, f"bank/combined/{file.name}")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/bank.zip").write_bytes((tmp_path / "bank.zip").read_bytes())
    for path in (tmp_path / "bank", tmp_path / "bank.zip", tmp_path / "other"):
        data = load_trees(str(path))
        assert [len(rows) for rows in (data.train, data.validation, data.test)] == [20, 2, 2]
        assert data.notes[0] == (
            "12 files split 80/10/10 by number: train 10 (wsj_0001 to wsj_0010), validation 1 (wsj_0011 to wsj_0011), "
            "test 1 (wsj_0012 to wsj_0012)."
        )
        place = data.origins["test"].of(1)
        assert place["line"] == 2 and place["file"].endswith("wsj_0012.mrg")
        row = data.test[1]
        assert (row["words"], row["pos"]) == (["n12", "slept", "."], ["NN", "VBD", "."])
        assert [data.label_names[tag] for tag in row["tags"]] == ["+1(S)NP", "+0(S)VP", "()"]


def test_files_with_the_names_of_splits_and_a_single_file(tmp_path):
    for split, count in (("train", 3), ("dev", 2)):
        (tmp_path / f"my-{split}.trees").write_text(f"{CAT}\n" * count, encoding="utf-8")
    data = load_trees(str(tmp_path))
    assert (len(data.train), len(data.validation), data.test) == (3, 2, None)
    assert len(load_trees(str(tmp_path), max_train_rows=1).train) == 1
    (tmp_path / "my-dev.trees").rename(tmp_path / "my-test.trees")
    (tmp_path / "my-train.trees").write_text(f"{CAT}\n" * 20, encoding="utf-8")
    data = load_trees(str(tmp_path))
    assert [len(rows) for rows in (data.train, data.validation, data.test)] == [18, 2, 2]
    assert data.notes[0] == "no validation split: 2 rows from train, at random (seed 0)."
    (tmp_path / "one").mkdir()
    one = tmp_path / "one/all.txt"
    one.write_text("".join(f"{CAT.replace('cat', f'c{i}')}\n" for i in range(20)), encoding="utf-8")
    data = load_trees(str(one))
    assert [len(rows) for rows in (data.train, data.validation, data.test)] == [16, 2, 2]
    assert data.notes[0].startswith("no splits: 16 / 2 / 2 rows") and data.origins["train"].of(0)["source"] == str(one)

    (tmp_path / "extra.mrg").write_text(CAT, encoding="utf-8")
    with pytest.raises(DataError, match="3 files of trees, but 2 name a split"):
        load_trees(str(tmp_path))
    for name, message in (("one", "no file of trees"), ("none", "not found"), ("owner/name", "not read from the Hub")):
        with pytest.raises(DataError, match=message):
            load_trees(name if "/" in name else str(tmp_path / name))


def test_the_embedded_trees_are_the_same_every_time_and_no_sentence_occurs_twice():
    data, again = load_trees(), load_trees("toy_trees")
    assert data.train[:] == again.train[:] and load_trees(seed=1).train[:] != data.train[:]
    words = [tuple(row) for rows in (data.train, data.validation, data.test) for row in rows["words"][:]]
    assert len(set(words)) == len(words) == 600
    for row in data.train:
        tags = [data.label_names[tag] for tag in row["tags"]]
        assert tree_spans(tags)[0] == Span("S", 0, len(tags))


@pytest.fixture(scope="module")
def treebank(shared_data):
    path = shared_data / "sequence/ptb_nltk/treebank.zip"
    if not path.is_file():
        pytest.skip(f"no {path}")
    return path


def test_encoding_and_decoding_the_trees_of_the_treebank_is_the_identity(treebank):
    files = list(tree_files(treebank))
    trees = [tree for file in files for tree in file.trees()]
    names = {tag for tree in trees for tag in tree.tags}
    assert (len(files), len(trees)) == (199, 3914)
    assert all(tree_spans(tree.tags) == tree.spans for tree in trees)
    assert len(names) == 726 and len(set(levels_of(sorted(names)))) == 32


def test_the_trees_of_the_treebank_are_those_of_nltk(treebank):
    """Every tenth file: words, and constituents without traces and function tags."""
    nltk = pytest.importorskip("nltk.tree", reason="nltk is not installed: pip install nltk")

    def spans(node, start):
        """Constituents of a tree in preorder, and its words."""
        if not isinstance(node[0], nltk.Tree):
            return [], [] if node.label() == "-NONE-" else [node[0]]
        found, words = [], []
        for child in node:
            below, more = spans(child, start + len(words))
            found, words = found + below, words + more
        label = node.label().split("-")[0].split("=")[0]
        return [Span(label, start, start + len(words))] * bool(words) + found, words

    for file in list(tree_files(treebank))[::10]:
        theirs = nltk.Tree.fromstring(f"(ALL {file.data.decode()})")
        for tree, node in zip(file.trees(), theirs, strict=True):
            found, words = spans(node[0] if not node.label() else node, 0)
            assert tree.spans == found and len(tree.words) == len(words)
            assert len(nltk.Tree.fromstring(str(tree)).leaves()) == len(words)


def test_stored_tables_are_no_brackets(tmp_path):
    rows = Dataset.from_dict({"words": [["a", "b"]]})
    DatasetDict({"test": rows}).save_to_disk(tmp_path / "dict")
    (tmp_path / "parquet").mkdir()
    rows.to_parquet(tmp_path / "parquet" / "test.parquet")
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "test.MRG").write_text("(S (NP (D a)) (VP (V b)))\n")
    assert [holds_brackets(tmp_path / name) for name in ("dict", "parquet", "trees")] == [False, False, True]
    assert [file.name for file in tree_files(tmp_path / "trees")] == ["test.MRG"]
