"""Semantic roles from bracket columns: the real dev file by counts taken from its text, all else by hand."""

import re
from collections import Counter

import pytest

from seal_hf.core.tag_schemes import is_well_formed, spans
from seal_hf.data import DataError, load_srl, load_tags
from seal_hf.data.srl import read_srl
from seal_hf.metrics import core_role_violations

# two propositions over one sentence, "He said she left early"; the second has a V of two words
TWO = """# id-0001
0	He	PRP	*	-	-	(ARG0*)	*
1	said	VBD	*	say	say.01	(V*)	*
2	she	PRP	*	-	-	(ARG1*	(ARG0*)
3	left	VBD	*	leave	leave.01	*	(V*
4	early	RB	*	-	-	*)	*)
"""
NONE = "0\tYes\tUH\t*\t-\t-\n1\t.\t.\t*\t-\t-\n"
EXPECTED = [
    ([*"He said she left early".split()], ["B-ARG0", "B-V", "B-ARG1", "I-ARG1", "I-ARG1"], 1),
    ([*"He said she left early".split()], ["O", "O", "B-ARG0", "B-V", "I-V"], 3),
]


def rows(data, split="train"):
    names = data.label_names
    return [
        (row["words"], [names[tag] for tag in row["tags"]], row["predicate"]) for row in getattr(data, split).to_list()
    ]


def folder(path, train=TWO, dev=TWO, **files):
    for name, text in {"train": train, "dev": dev, **files}.items():
        (path / f"x.{name}.srl").write_text(text, encoding="utf-8")
    return str(path)


def test_the_real_dev_file(shared_data):
    path = shared_data / "sequence" / "srl_ewt" / "ewt.dev.srl"
    found, notes = read_srl(path)
    assert notes == [
        "ewt.dev.srl: 4960 propositions of 1963 sentences.",
        "ewt.dev.srl: 434 sentences without a proposition dropped.",
    ]
    assert {len(column) for column in found.values()} == {4960}
    text = path.read_text(encoding="utf-8")
    opened = Counter(
        role for line in text.split("\n") for role in re.findall(r"\t\(([^()*]+)\*", "\t".join(cells(line)))
    )
    roles = Counter(span.type for tags in found["tags"] for span in spans(tags, "bio"))
    assert roles == opened and roles["V"] == 4960 and len(roles) == 45
    for words, tags, pos, predicate in zip(
        *(found[name] for name in ("words", "tags", "pos", "predicate")), strict=True
    ):
        assert len(words) == len(tags) == len(pos) and is_well_formed(tags, "bio")
        assert tags[predicate] == "B-V" and tags.count("B-V") == 1
    assert core_role_violations(found["tags"]) == 0  # the annotators keep the constraint


def cells(line: str) -> list[str]:
    """The bracket columns of a line, behind an empty cell; none of a comment."""
    return ["", *line.split("\t")[6:]] if "\t" in line else []


def test_by_hand(tmp_path):
    data = load_srl(folder(tmp_path, train=f"{TWO}\n{NONE}\n\n{TWO}"))
    assert rows(data) == EXPECTED * 2 and rows(data, "validation") == EXPECTED
    assert (data.kind, data.scheme, data.test, data.feature_columns) == ("srl", "bio", None, ["pos"])
    assert data.label_names == ["O", "B-ARG0", "B-ARG1", "I-ARG1", "B-V", "I-V"]
    assert data.train["pos"][0] == ["PRP", "VBD", "PRP", "VBD", "RB"]
    assert "x.train.srl: 1 sentences without a proposition dropped." in data.notes
    assert rows(load_tags(str(tmp_path))) == rows(data)  # known by its suffix
    bioes = load_srl(str(tmp_path), scheme="bioes")
    assert rows(bioes)[0][1] == ["S-ARG0", "S-V", "B-ARG1", "I-ARG1", "E-ARG1"] and bioes.kind == "srl"


def test_the_files_that_the_scripts_of_conll_2005_write(tmp_path):
    """They paste words, parts of speech with the parse, entities, senses, lemmas and roles."""
    lines = """He PRP (S1(S(NP*) * - - (A0*) *
said VBD (VP* * 01 say (V*) *
she PRP (SBAR(S(NP*) * - - (A1* (A0*)
left VBD (VP* * 02 leave * (V*
early RB (ADVP*))))) * - - *) *)

Yes UH (S1(INTJ*) * - -
. . *) * - -

"""
    data = load_srl(folder(tmp_path, train=lines, dev=lines))
    assert rows(data) == [(words, [tag.replace("ARG", "A") for tag in tags], place) for words, tags, place in EXPECTED]
    assert data.train[0]["pos"] == ["PRP", "VBD", "PRP", "VBD", "RB"]


def test_universal_propbank(tmp_path):
    """CoNLL-U with a column of frames and one of roles for each. Its lines of joined words are no words."""
    lines = """1 He he PRON PRP _ 4 nsubj _ _ _ A0 _
2-3 doesn't _ _ _ _ _ _ _ _ _ _ _
2 does do AUX VBZ _ 4 aux _ _ do.01 V A0
3 n't not PART RB _ 4 advmod _ _ _ _ _
4 say say VERB VB _ 0 root _ _ say.01 A1 _
5 3.5 3.5 NUM CD _ 4 obj _ _ _ _ A1

"""
    lines = "# text = He doesn't say 3.5\n" + lines.replace(" ", "\t")
    data = load_srl(folder(tmp_path, train=lines, dev=lines))
    words = ["He", "does", "n't", "say", "3.5"]
    assert rows(data) == [
        (words, ["B-A0", "B-V", "O", "B-A1", "O"], 1),
        (words, ["O", "B-A0", "O", "B-V", "B-A1"], 3),
    ]
    assert data.train[0]["pos"] == ["PRON", "AUX", "PART", "VERB", "NUM"]


def test_a_short_line_of_universal_propbank_is_named(tmp_path):
    line = "1\tsays\tsay\tVERB\tVB\t_\t0\troot\t_\t_\tsay.01\tV\n"
    with pytest.raises(DataError, match="x.train.srl, line 2: 3 columns, expected 12"):
        load_srl(folder(tmp_path, train=line + "2\tit\tit\n\n", dev=line))


def test_a_role_of_the_predicate_itself_is_counted(tmp_path):
    """As the nouns of CoNLL-2009 have: a maker is A0 of its own frame. In CoNLL-2005, 1.5 is a word."""
    line = "{} {} x x NN NN _ _ 0 0 X X {} {} {}\n"
    lines = line.format(1, "1.5", "_", "_", "A1") + line.format(2, "maker", "Y", "maker.01", "A0") + "\n"
    data = load_srl(folder(tmp_path, train=lines, dev=lines))
    assert rows(data) == [(["1.5", "maker"], ["B-A1", "B-V"], 1)]
    assert "x.train.srl: 1 roles that a predicate has in its own proposition are read as V." in data.notes
    lines = "1.5 CD (S* * - - (A1*)\nmade VBD *) * 01 make (V*)\n\n"
    assert rows(load_srl(folder(tmp_path, train=lines, dev=lines))) == [(["1.5", "made"], ["B-A1", "B-V"], 1)]


def test_a_proposition_without_v_is_dropped_and_counted(tmp_path):
    data = load_srl(folder(tmp_path, train=TWO.replace("(V*)", "*")))
    assert rows(data) == EXPECTED[1:]
    assert "x.train.srl: 1 propositions without V dropped: their predicate is unknown." in data.notes


def test_a_role_that_train_lacks_is_kept_and_counted(tmp_path):
    data = load_srl(folder(tmp_path, dev=TWO.replace("ARG1", "R-ARG1")))
    assert "tags that occur only outside train (kept): B-R-ARG1, I-R-ARG1 (3 words)." in data.notes
    assert rows(data, "validation")[0][1][2:] == ["B-R-ARG1", "I-R-ARG1", "I-R-ARG1"]


def test_subsets(tmp_path):
    sentences = "\n".join(TWO.replace("He", f"He{i}") for i in range(20))
    path = folder(tmp_path, train=sentences)
    assert [row[0][0] for row in rows(load_srl(path, max_train_rows=3))] == ["He0", "He0", "He1"]
    few = load_srl(path, max_train_rows=10, train_subset="random", seed=1)
    assert rows(few) == rows(load_srl(path, max_train_rows=10, train_subset="random", seed=1))
    assert len({row[0][0] for row in rows(few)}) > 5
    some = load_tags(path, max_train_rows=10, train_subset="random", num_labelled=4, seed=1)
    assert len(some.train) == 4 and len(some.unlabelled) == 6 and "predicate" in some.unlabelled.column_names
    assert len(load_srl(f"{tmp_path}/x.train.srl").train) == 32  # a single file is split 80/10/10


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(ARG0*)\t*\n", "(ARG0*)\n", r"x.train.srl, line 3: 8 columns, expected 7"),
        ("say\tsay.01\t(V*)\t*", "say", r"line 3: 5 columns, expected 8"),
        (
            "*\tleave\tleave.01",
            "*\t-\t-",
            r"line 2: 1 words of the sentence have a frame, but there are 2 bracket columns",
        ),
        ("early\tRB\t*\t-\t-\t*)", "early\tRB\t*\t-\t-\t*", r"line 6: \(ARG1 in bracket column 1 is not closed"),
        ("say.01\t(V*)", "say.01\t*)", r"line 3: '\*\)' in bracket column 1; expected"),
        ("leave.01\t*", "leave.01\t(ARG2*)", r"line 5: '\(ARG2\*\)' in bracket column 1 with \(ARG1 open"),
        ("say.01\t(V*)", "say.01\t(V(X*)", r"line 3: '\(V\(X\*\)'"),
        ("say.01\t(V*)", "say.01\tV*", r"line 3: 'V\*'"),
        ("say.01\t(V*)", "say.01\t(*)", r"line 3: '\(\*\)'"),
        ("say.01\t(V*)", "say.01\t(V", r"line 3: '\(V'"),
        ("say.01\t(V*)", "say.01\t(V*))", r"line 3: '\(V\*\)\)'"),
    ],
)
def test_mistakes_are_named(tmp_path, old, new, message):
    assert old in TWO
    with pytest.raises(DataError, match=message):
        load_srl(folder(tmp_path, train=TWO.replace(old, new, 1)))


def test_other_mistakes(tmp_path):
    with pytest.raises(DataError, match="no proposition in 1 sentences"):
        load_srl(folder(tmp_path, train=NONE))
    with pytest.raises(DataError, match="'nowhere' not found: .* Give a path[.]$"):  # roles have no embedded data set
        load_srl("nowhere")


def test_of_one_file_no_sentence_is_in_two_splits(tmp_path):
    """Else the propositions of test sentences would be known from training."""
    texts = [TWO.replace("He", f"He{i}") for i in range(40)]
    (tmp_path / "one.srl").write_text("\n".join(texts), encoding="utf-8")
    for data in (load_srl(str(tmp_path / "one.srl")), load_tags(str(tmp_path / "one.srl"))):
        splits = [{row["words"][0] for row in getattr(data, split)} for split in ("train", "validation", "test")]
        assert [len(split) for split in splits] == [32, 4, 4] and len(set.union(*splits)) == 40
        assert len(data.train) == 64 and any("64 / 8 / 8 rows" in note for note in data.notes)


def test_a_missing_dev_file_is_made_of_train_with_whole_sentences(tmp_path):
    """Test has as many propositions as train, in other groups; its name comes first."""
    (tmp_path / "a.test.srl").write_text(("\n".join(TWO.split("\n")[1:]) + "\n") * 20)
    train = [TWO.replace("He", f"He{i}").replace("# id-0001\n", "") + "\n" for i in range(20)]
    (tmp_path / "x.train.srl").write_text("".join(train))
    data = load_srl(str(tmp_path))
    words = [{tuple(row) for row in getattr(data, split)["words"][:]} for split in ("train", "validation")]
    assert not words[0] & words[1] and len(words[0] | words[1]) == 20 and words[1]
    assert len(data.train) == 2 * len(words[0]) and len(data.test) == 40
