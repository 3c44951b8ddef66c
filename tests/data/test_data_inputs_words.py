"""Sentences of files: offsets point at their words, columns are those of `load_tags`, mistakes are named."""

import json

import pytest
from datasets import ClassLabel, Dataset, Features, Sequence, Value

from seal_hf.data import DataError, load_tags
from seal_hf.data.columns import read_columns
from seal_hf.data.line_files import json_objects
from seal_hf.data.sentences import Needs, split_words
from seal_hf.data.srl import read_srl
from seal_hf.data.tag_files import SentenceFile

ROLES = (
    "0\tAl\tNNP\t(NP*\t-\t-\t(ARG0*\t*\n1\tZaman\tNNP\t*)\t-\t-\t*)\t(ARG0*)\n"
    "2\tkilled\tVBD\t(VP*\tkill\tkill.01\t(V*)\t*\n3\tsaid\tVBD\t(VP*\tsay\tsay.01\t*\t(V*)\n\n"
    "0\tNo\tUH\t*\t-\t-\n\n"
)
TAGS = ["O", "B-LOC", "I-LOC"]


def written(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(folder, name, text, needs=None, **columns):
    return list(SentenceFile(written(folder, name, text), needs or Needs(), **columns))


# --- raw text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The U.K. paid 10.5% (e.g. by e-mail).", "The U.K. paid 10.5 % ( e.g. by e-mail ) ."),
        ("John's O'Brien don’t say 'so'", "John 's O'Brien don’t say ' so '"),
        ("end... #tag @you_2 http://x.y", "end . . . # tag @ you_2 http : / / x.y"),
        ("cafe\u0301 हिन्दी می\u200cخواهم naïve", "cafe\u0301 हिन्दी می\u200cخواهم naïve"),
        ("\u3000 a\u00a0b\t🙂🙂 ", "a b 🙂 🙂"),
        (" \u2028", ""),
    ],
)
def test_raw_text_is_split_by_the_rule(text, words):
    places = split_words(text)
    assert [text[start:end] for start, end in places] == words.split()
    left = [*text]
    for start, end in places:
        left[start:end] = " " * (end - start)
    assert not "".join(left).strip()  # nothing but white space is left out


def test_lines_of_text_keep_their_line_and_offsets(tmp_path):
    file = SentenceFile(written(tmp_path, "new.txt", "In New  York.\r\n\n  \nHi!\n"), Needs())
    first, second = file
    assert (first.text, first.words, first.kept) == ("In New  York.", ["In", "New", "York", "."], {"line": 1})
    assert (second.text, second.kept, second.gold) == ("Hi!", {"line": 4}, None)
    for sentence in (first, second):
        assert [sentence.text[start:end] for start, end in sentence.places] == sentence.words
    assert file.total == 2 and file.notes == ["new.txt: 2 empty lines left out."] and file.columns == []
    assert [len(chunk.rows) for chunk in file.chunks(1)] == [1, 1]
    assert next(file.chunks(9)).gold is None


def test_lines_of_text_that_look_like_columns_are_named(tmp_path):
    texts = {
        "columns": "# id 1\nEU NNP\nrejects VBZ\n\nPeter NNP\n",
        "text": "A b.\n\nC d e.\nF g.\n",
        "short": "A b.\nC d.\nE f.\n\n",  # no empty line between lines
    }
    said = {}
    for name, text in texts.items():
        file = SentenceFile(written(tmp_path, f"{name}.txt", text), Needs())
        said[name] = (file.total, file.notes)
    assert said["text"] == (3, ["text.txt: 1 empty line left out."])
    assert said["short"] == (3, ["short.txt: 1 empty line left out."])
    assert said["columns"][0] == 4 and "all have 2 words" in said["columns"][1][1]
    assert "name the column of words: --word_column 0" in said["columns"][1][1]
    assert SentenceFile(tmp_path / "columns.txt", Needs(), word_column=0).total == 2


def test_texts_of_a_csv_are_split_as_lines_of_text(tmp_path):
    texts = ["In New  York.", 'say "hi", two']
    rows = "".join(f'{i},"{text.replace(chr(34), 2 * chr(34))}"\n' for i, text in enumerate(texts))
    file = SentenceFile(written(tmp_path, "new.csv", "id,text\n" + rows), Needs())
    lines = read(tmp_path, "new.txt", "\n".join(texts))
    assert [(row.words, row.text, row.places) for row in file] == [(row.words, row.text, row.places) for row in lines]
    assert [row.kept for row in file] == [{"id": str(i), "text": text} for i, text in enumerate(texts)]
    assert file.total == 2 and file.columns == ["id"]


# --- columns ---------------------------------------------------------------------------------------------------------

LABELLED = "-DOCSTART- -X- O\n\n# id 7, more\nIn IN O\nRome NNP B-LOC\n\n# # O\nhi UH O\n"


@pytest.mark.parametrize("columns", [{"tag_column": "-1"}, {"tag_column": 2}, {"word_column": "0", "tag_column": -1}])
def test_columns_are_those_of_the_training_reader(tmp_path, columns):
    """Oracle: `read_columns`. The lines, with what stands before them, are the file but for empty lines."""
    found = read(tmp_path, "new.conll", LABELLED, Needs(["pos"]), **columns)
    rows, _ = read_columns(tmp_path / "new.conll")
    assert [sentence.words for sentence in found] == rows["words"] == [["In", "Rome"], ["#", "hi"]]
    assert [sentence.features["pos"] for sentence in found] == rows["pos"]
    lines = [line for sentence in found for line in (*sentence.before, *sentence.lines)]
    assert lines == LABELLED.replace("LOC\n\n", "LOC\n").rstrip("\n").split("\n")
    assert all(sentence.gold is None and sentence.text == " ".join(sentence.words) for sentence in found)


def test_unlabelled_columns_have_no_tags(tmp_path):
    text = "In\tIN\nRome\tNNP\n\n#x\tUH\n"
    found = read(tmp_path, "new.conll", text, Needs(["pos"]))
    assert [(row.words, row.features) for row in found] == [
        (["In", "Rome"], {"pos": ["IN", "NNP"]}),
        (["#x"], {"pos": ["UH"]}),
    ]
    words = read(tmp_path, "words.tsv", "# text = In Rome\nIn\nRome\n")
    assert [(row.words, row.before) for row in words] == [(["In", "Rome"], ["# text = In Rome"])]
    as_columns = read(tmp_path, "new.txt", "In IN\nRome NNP\n", word_column="0")
    assert [row.words for row in as_columns] == [["In", "Rome"]] and as_columns[0].separator == " "


def test_gold_tags_are_in_the_scheme_of_the_model(tmp_path):
    """Oracle: `load_tags` of the same rows, told to convert."""
    text = "New I-LOC\nYork I-LOC\nis O\n\nRome B-LOC\n\n"
    for name in ("train", "dev"):
        written(tmp_path, f"{name}.conll", text)
    for scheme in ("bio", "bioes"):
        data = load_tags(str(tmp_path), scheme=scheme)
        tags = [f"{prefix}-LOC" for prefix in ("BI" if scheme == "bio" else "BIES")] + ["O"]
        found = list(SentenceFile(tmp_path / "train.conll", Needs(tags=tags)))
        assert [row.gold for row in found] == [[data.label_names[tag] for tag in row] for row in data.train["tags"]]
    assert next(SentenceFile(tmp_path / "train.conll", Needs(tags=tags)).chunks(2)).gold == [row.gold for row in found]


# --- semantic roles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["conll", "txt"])
def test_roles_are_those_of_the_training_reader(tmp_path, suffix):
    """Oracle: `read_srl`; and without bracket columns the frames say the predicates."""
    tags = ["O", "B-ARG0", "I-ARG0", "B-V"]
    file = SentenceFile(written(tmp_path, f"new.{suffix}", ROLES), Needs(predicate=True, tags=tags))
    found, (rows, _) = list(file), read_srl(tmp_path / f"new.{suffix}")
    assert file.total == 2 and file.notes == [f"new.{suffix}: 1 of 2 sentences without a predicate left out."]
    assert [(row.words, row.predicate, row.gold) for row in found] == list(
        zip(rows["words"], rows["predicate"], rows["tags"], strict=True)
    )
    plain = "\n".join("\t".join(line.split("\t")[:6]) for line in ROLES.split("\n"))
    unlabelled = read(tmp_path, f"plain.{suffix}", plain, Needs(predicate=True))
    assert [(row.words, row.predicate, row.gold) for row in unlabelled] == [
        (row.words, row.predicate, None) for row in found
    ]
    assert (
        unlabelled[0].lines
        == found[0].lines
        == [
            *["0\tAl\tNNP\t(NP*\t-\t-", "1\tZaman\tNNP\t*)\t-\t-"],
            *["2\tkilled\tVBD\t(VP*\tkill\tkill.01", "3\tsaid\tVBD\t(VP*\t-\t-"],
        ]
    )


# --- JSON ------------------------------------------------------------------------------------------------------------


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_objects_are_kept_whole(tmp_path):
    rows = [
        {"id": "a", "tokens": ["New", "York"], "pos": ["X", "Y"], "predicate": 1},
        {"id": "b", "tokens": ["a b", "c"], "pos": ["X", "Y"], "predicate": 0, "text": "see a b, c"},
    ]
    found = read(tmp_path, "new.jsonl", lines(*rows), Needs(["pos"], True))
    assert [row.kept for row in found] == rows and [row.predicate for row in found] == [1, 0]
    assert [row.text for row in found] == ["New York", "see a b, c"]
    for row in found:
        assert [row.text[start:end] for start, end in row.places] == row.words and row.features["pos"] == ["X", "Y"]
    assert SentenceFile(tmp_path / "new.jsonl", Needs()).columns == ["id", "tokens", "pos", "predicate"]
    texts = read(tmp_path, "texts.jsonl", lines({"text": "In Rome."}, {"text": "Hi"}))
    assert [row.words for row in texts] == [["In", "Rome", "."], ["Hi"]]
    named = read(tmp_path, "named.jsonl", lines({"w": ["In"], "text": "In", "gold": ["O"]}), word_column="w")
    assert [row.words for row in named] == [["In"]]
    gold = read(tmp_path, "gold.jsonl", lines({"words": ["Rome"], "ner_tags": ["B-LOC"]}), Needs(tags=TAGS))
    assert [row.gold for row in gold] == [["B-LOC"]]


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [1, "1", 1.0, "1.0"], ids=repr)
def test_a_predicate_may_be_written_as_pandas_does(tmp_path, place):
    row = read(tmp_path, "a.jsonl", lines({"words": ["a", "b"], "predicate": place}), Needs(predicate=True))[0]
    assert row.predicate == 1


GOLD, SRL, FEATURES = Needs(tags=TAGS), Needs(predicate=True), Needs(["pos"])


@pytest.mark.parametrize(
    ("name", "text", "needs", "columns", "message"),
    [
        ("a.txt", "", Needs(), {}, "a.txt: no sentence"),
        ("a.txt", "\n \n", Needs(), {}, "a.txt: no sentence"),
        ("a.conll", "", Needs(), {}, "a.conll: no sentence"),
        ("a.jsonl", "\n", Needs(), {}, "a.jsonl: no sentence"),
        ("a.json", "x", Needs(), {}, "a.json: expected an array of objects"),
        ("a.npz", "x", Needs(), {}, "files of type .npz are not read here. Give columns"),
        ("a.csv", "saying,id\nhi,1\n", Needs(), {}, "line 2: the row has the fields saying, id; expected words"),
        ("a.csv", 'text\n""\n', Needs(), {}, "a.csv: no sentence. Give at least one"),
        ("a.csv", "text,predicate\nhi,0\n", SRL, {}, "`text` is a string, but other fields have a value per word"),
        ("a.txt", "<NEWREFERENCE>\n<author> A </author>", Needs(), {}, "references with <NEWREFERENCE> are not read"),
        ("a.txt", b"\xff\n", Needs(), {}, "a.txt: not UTF-8"),
        ("a.srl", ROLES, Needs(), {}, "semantic roles, but the model does not read predicates.*--word_column 1"),
        ("a.txt", "hi", SRL, {}, "line 1: 1 columns, expected 6: index, word, POS"),
        (
            "a.txt",
            "He said that she left early",
            SRL,
            {},
            "line 1: 'He' is no index of a word; expected columns index,",
        ),
        ("a.txt", "hi", FEATURES, {}, "reads the column `pos` beside the words, and lines of text have none"),
        ("a.conll", "hi\n", FEATURES, {}, "reads the column `pos`, but the file has words. Name"),
        ("a.conll", "a b c d\n", FEATURES, {}, "the file has words, column_1, column_2, column_3"),
        ("a.conll", "hi\n", Needs(), {"word_column": 1}, "line 1: 1 columns, but `word_column` is 1: .*least a word, "),
        ("a.conll", "hi\n", Needs(), {"word_column": "w"}, "`word_column` is 'w'; columns of this format have numbers"),
        ("a.conll", "hi\n", GOLD, {}, "1 columns, but `word_column` is 0: expected at least a word and a tag"),
        ("a.conll", "hi UH O\nhi\n", Needs(), {}, "line 2: 'hi' has 1 columns, expected 3 as in line 1"),
        ("a.conll", "\nhi PER\n", GOLD, {}, "line 2: the model does not know the tag 'PER'; it has O, B-LOC, I-LOC"),
        ("a.conll", "hi B-LOK\n", GOLD, {}, "'B-LOK'.* Did you mean 'B-LOC'"),
        ("a.srl", "hi there\n", SRL, {}, "line 1: 2 columns, expected 6: index, word, POS"),
        ("a.jsonl", "[1]\n", Needs(), {}, "line 1: not a JSON object: not an object"),
        ("a.jsonl", "{\n", Needs(), {}, "line 1: not a JSON object: Expecting"),
        (
            "a.jsonl",
            lines({"wrds": "hi"}),
            Needs(),
            {},
            "expected words or tokens or .*text or sentence. Name .*--word_column",
        ),
        ("a.jsonl", lines({"tokens": ["a"]}), Needs(), {"word_column": "tokns"}, "is 'tokns'.*Did you mean 'tokens'"),
        ("a.jsonl", lines({"tokens": ["a"]}), Needs(), {"word_column": 0}, "the fields have names: tokens"),
        ("a.jsonl", lines({"words": []}), Needs(), {}, "a.jsonl: no sentence. Give at least one."),
        ("a.jsonl", lines({"words": [None]}), Needs(), {}, "`words` holds 'None'; expected a list of strings"),
        ("a.jsonl", lines({"words": ["a"], "text": "b"}), Needs(), {}, "`text` lacks the words of `words`"),
        ("a.jsonl", lines({"words": ["a"], "text": 5}), Needs(), {}, "`text` lacks the words of `words`"),
        ("a.jsonl", lines({"words": ["a"]}), SRL, {}, "fields words; expected predicate"),
        ("a.jsonl", lines({"words": ["a"], "predicat": 0}), SRL, {}, "expected predicate. Rename 'predicat' to 'pred"),
        ("a.jsonl", lines({"words": ["a", "b"], "predicate": True}), SRL, {}, "`predicate` is True; it must be"),
        (
            "a.jsonl",
            lines({"words": ["a"], "predicate": 1}),
            SRL,
            {},
            "`predicate` is 1; it must be the place of one of 1 words, counted from 0. Leave out rows without a pred",
        ),
        ("a.jsonl", lines({"words": ["a"], "pos": ["X", "Y"]}), FEATURES, {}, "1 words, but 2 values in `pos`"),
        ("a.jsonl", lines({"text": "a"}), FEATURES, {}, "`text` is a string, but other fields have a value per word"),
        ("a.jsonl", lines({"words": ["a"]}), GOLD, {}, "fields words; expected tags or ner_tags"),
        ("a.jsonl", lines({"words": ["a"], "tags": ["X"]}), GOLD, {}, "line 1: the model does not know the tag 'X'"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, name, text, needs, columns, message):
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, name, text, needs, **columns)
    assert "\n" not in str(caught.value)


def test_rows_without_words_are_left_out_and_counted(tmp_path):
    text = lines({"text": "ok", "id": 1}, {"text": " ", "id": 2}, {"words": [], "id": 3}, {"words": ["so"], "id": 4})
    file = SentenceFile(written(tmp_path, "a.jsonl", text), Needs())
    assert file.total == 2 and file.notes == ["a.jsonl: 2 rows without words left out."]
    assert [sentence.kept["id"] for sentence in file] == [1, 4]


def test_rows_that_an_annotator_rejected_are_no_gold(tmp_path):
    """As Prodigy writes them; predictions need no gold."""
    answers = ["accept", "reject", "ignore", *["accept"] * 9]
    spans = [{"start": 3, "end": 7, "label": "LOC"}]
    rows = [{"text": f"in Rome {i}", "spans": spans, "answer": answer} for i, answer in enumerate(answers)]
    path = written(tmp_path, "a.jsonl", lines(*rows))
    said = "2 rows left out: 'answer' says that they were rejected or not annotated."
    file = SentenceFile(path, GOLD)
    assert file.total == 10 and file.notes == [f"a.jsonl: {said}"]
    assert SentenceFile(path, Needs()).total == 12
    data = load_tags(str(path))
    found = {row["words"][2] for part in (data.train, data.validation, data.test) for row in part}
    assert found == {str(i) for i, answer in enumerate(answers) if answer == "accept"}
    assert f"{path}: {said}" in data.notes


@pytest.mark.parametrize(
    "spelling", ["{0}_{1}", "{0}:{1}", "{1}-{0}", "{0}{1}", "{1}", "lower", "bmew"], ids=lambda each: each
)
def test_gold_tags_are_spelled_as_in_training(tmp_path, spelling):
    """Oracle: the tags of `load_tags` on the same file."""
    tags = [["B-LOC", "I-LOC", "O", "O", "O"], ["O", "B-PER", "O", "O", "O"]] * 6
    words = [[f"w{i}{j}" for j in range(5)] for i in range(12)]

    def written_as(row, i):
        tag = row[i]
        if spelling == "bmew":
            ends = {"B-LOC": "B-LOC", "I-LOC": "E-LOC", "B-PER": "W-PER"}
            return ends.get(tag, tag)
        if tag == "O":
            return tag
        return f"{tag[0].lower()}-{tag[2:]}" if spelling == "lower" else spelling.format(tag[0], tag[2:])

    text = "".join(
        "".join(f"{word}\t{written_as(row, i)}\n" for i, word in enumerate(sentence)) + "\n"
        for sentence, row in zip(words, tags, strict=True)
    )
    data = load_tags(str(written(tmp_path, "a.conll", text)))
    expected = {tuple(row["words"]): [data.label_names[tag] for tag in row["tags"]]
                for part in (data.train, data.validation, data.test) for row in part}  # fmt: skip
    file = SentenceFile(tmp_path / "a.conll", Needs(tags=data.label_names))
    assert {tuple(one.words): one.gold for one in file} == expected
    assert file.total == 12 and not any("count as wrong" in note or "scheme" in note for note in file.notes)


def test_some_unknown_tags_are_kept_and_counted(tmp_path):
    path = written(tmp_path, "a.conll", "in O\nRome B-LOC\n\nNew B-LOC\nYork I-LOC\nand O\nMars B-PLANET\n")
    file = SentenceFile(path, GOLD)
    assert file.total == 2
    assert file.notes == ["a.conll: 1 words count as wrong, since the model does not know their tags: B-PLANET."]
    assert [sentence.gold for sentence in file] == [["O", "B-LOC"], ["B-LOC", "I-LOC", "O", "B-PLANET"]]


def test_tags_of_a_model_that_read_iob1_as_written_are_not_rewritten(tmp_path):
    path = written(tmp_path, "a.conll", "New I-LOC\nYork I-LOC\nand O\nRome I-LOC\n")
    (plain,) = SentenceFile(path, Needs(tags=("O", "I-LOC")))
    assert plain.gold == ["I-LOC", "I-LOC", "O", "I-LOC"]
    (spans,) = SentenceFile(path, GOLD)
    assert spans.gold == ["B-LOC", "I-LOC", "O", "B-LOC"]


@pytest.mark.parametrize("kind", ["rows.parquet", "saved"])
def test_tables_give_the_sentences_of_the_same_objects(tmp_path, kind):
    tags = [["O", "B-LOC"], ["B-LOC", "I-LOC", "O"]]
    words = [["in", "Rome"], ["New", "York", "is"]]
    text = "".join(json.dumps({"tokens": w, "ner_tags": t}) + "\n" for w, t in zip(words, tags, strict=True))
    named = Features(tokens=Sequence(Value("string")), ner_tags=Sequence(ClassLabel(names=TAGS)))
    rows = {"tokens": words, "ner_tags": [[TAGS.index(tag) for tag in row] for row in tags]}
    data = Dataset.from_dict(rows, features=named)
    path = tmp_path / kind
    data.to_parquet(path) if kind.endswith(".parquet") else data.save_to_disk(path)
    expected = read(tmp_path, "rows.jsonl", text, Needs(tags=TAGS))
    found = list(SentenceFile(path, Needs(tags=TAGS)))
    assert [(s.words, s.gold, s.text, s.places) for s in found] == [
        (s.words, s.gold, s.text, s.places) for s in expected
    ]
    assert [s.kept for s in SentenceFile(path, Needs())] == data.to_list()


def test_no_such_file(tmp_path):
    with pytest.raises(DataError, match="nowhere.txt: no such file"):
        SentenceFile(tmp_path / "nowhere.txt", Needs())


# --- upper case, folders, splits -------------------------------------------------------------------------------------


def test_suffixes_in_upper_case_are_those_in_lower_case(tmp_path):
    text = '{"tokens": ["In", "Rome"], "tags": ["O", "B-LOC"]}\n'
    assert [row.words for row in read(tmp_path, "NEW.JSONL", text)] == [["In", "Rome"]]
    assert [row.words for row in read(tmp_path, "NEW.CSV", "text\nIn Rome\n")] == [["In", "Rome"]]
    assert [row.words for row in read(tmp_path, "NEW.TXT", "In Rome\n")] == [["In", "Rome"]]
    Dataset.from_dict({"words": [["In", "Rome"]]}).to_parquet(tmp_path / "NEW.PARQUET")
    assert [row.words for row in SentenceFile(tmp_path / "NEW.PARQUET", Needs())] == [["In", "Rome"]]


def test_a_folder_of_columns_is_read_by_its_split(tmp_path):
    for split, word in {"train": "A", "dev": "B", "test": "C"}.items():
        written(tmp_path, f"{split}.conll", f"{word} O\n")
        written(tmp_path, f"._{split}.conll", b"\x00\x05")  # as macOS writes beside each file

    def words(**options):
        return [row.words for row in SentenceFile(tmp_path, Needs(), **options)]

    assert words() == [["C"]] and words(usual="train") == [["A"]] and words(split="validation") == [["B"]]
    assert SentenceFile(tmp_path, Needs()).notes == [f"{tmp_path} is a folder: the sentences of test.conll."]
    (tmp_path / "test.conll").unlink()
    with pytest.raises(DataError, match="has no test split; it has validation, train. Name one by `split` .--split"):
        words()
    with pytest.raises(DataError, match="`split` is 'dev', but .* is one file"):
        SentenceFile(tmp_path / "dev.conll", Needs(), split="dev")


def test_lines_of_json_that_are_not_utf8_name_their_file(tmp_path):
    (tmp_path / "new.jsonl").write_bytes('{"words": ["föhn"]}\n'.encode("latin-1"))
    with pytest.raises(DataError, match="new.jsonl: not UTF-8 text .* Save the file as UTF-8"):
        list(json_objects(tmp_path / "new.jsonl"))


# --- what training read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_words_in_rows_are_the_sentences_of_training(tmp_path, suffix):
    """Oracle: `load_tags` of the same file."""
    rows = ["sentence_id,word,tag", "a,In,O", ",Rome,B-LOC", "b,New,B-LOC", ",York,I-LOC"]
    path = written(tmp_path, f"long{suffix}", "\n".join(rows).replace(",", "\t" if suffix == ".tsv" else ",") + "\n")
    (tmp_path / "data").mkdir()
    for name in ("train", "dev"):
        (tmp_path / "data" / f"{name}{suffix}").write_bytes(path.read_bytes())
    data = load_tags(str(tmp_path / "data"))
    file = SentenceFile(path, GOLD)
    found = list(file)
    assert [row.words for row in found] == data.train["words"][:] == [["In", "Rome"], ["New", "York"]]
    assert [row.gold for row in found] == [[data.label_names[tag] for tag in row] for row in data.train["tags"]]
    assert [row.kept["sentence_id"] for row in found] == ["a", "b"] and "line 4" in found[1].where
    assert [row.words for row in SentenceFile(path, Needs())] == [["In", "Rome"], ["New", "York"]]


def test_corrected_spans_are_the_gold_tags(tmp_path):
    """As `predict` writes rows, one of which was corrected."""
    entity = {"start": 7, "end": 11, "label": "LOC"}
    words = {"text": "now in Rome", "words": ["now", "in", "Rome"]}
    rows = [
        {**words, "tags": ["O", "O", "B-LOC"], "entities": [entity]},
        {**words, "tags": ["O", "O", "O"], "entities": [entity]},
        {**words, "tags": ["B-LOC", "O", "B-LOC"], "entities": []},
    ]
    file = SentenceFile(written(tmp_path, "a.jsonl", lines(*rows)), GOLD)
    assert [row.gold for row in file] == [["O", "O", "B-LOC"], ["O", "O", "B-LOC"], ["O", "O", "O"]]
    assert file.total == 3
    assert file.notes == ["a.jsonl: 2 rows whose entities differ from their tags: the entities are read."]
    named = SentenceFile(tmp_path / "a.jsonl", GOLD, tag_column="tags")
    assert [row.gold for row in named] == [row["tags"] for row in rows]


@pytest.mark.parametrize("tool", ["doccano", "Label Studio"])
@pytest.mark.parametrize("encoding", ["utf-32-le", "utf-16-le"])
def test_spans_may_count_an_emoji_as_two_characters(tmp_path, tool, encoding):
    """As JavaScript does. Oracle: the words of the spans."""
    size = {"utf-32-le": 4, "utf-16-le": 2}[encoding]
    rows = []
    for text, words in (
        ("😀 Ann went 👍🏽 to New York.", ["Ann", "New York"]),
        ("🎉🎉 no name", []),
        ("Bob 😀", ["Bob"]),
    ):
        begins = [len(text[: text.index(word)].encode(encoding)) // size for word in words]
        spans = [[a, a + len(word), "X"] for a, word in zip(begins, words, strict=True)]
        if tool == "doccano":
            rows.append({"text": text, "label": spans})
            continue
        pairs = zip(spans, words, strict=True)
        values = [{"start": a, "end": b, "text": word, "labels": ["X"]} for (a, b, _), word in pairs]
        result = [{"type": "labels", "from_name": "l", "value": value} for value in values]
        rows.append({"data": {"text": text}, "annotations": [{"result": result}]})
    file = SentenceFile(written(tmp_path, "a.jsonl", lines(*rows)), GOLD._replace(tags=("O", "B-X", "I-X")))
    found = [[word for word, tag in zip(row.words, row.gold, strict=True) if tag != "O"] for row in file]
    assert found == [["Ann", "New", "York"], [], ["Bob"]] and file.total == 3
    said = ["a.jsonl: 1 rows count characters as UTF-16 does, an emoji as two: their spans are read so."]
    assert file.notes == (said if size == 2 else [])


def test_the_columns_of_training_are_read_where_a_file_has_them(tmp_path):
    trained = {"trained": {"word_column": 1, "tag_column": 2}}
    numbered = written(tmp_path, "a.conll", "7 In O x\n9 Rome B-LOC y\n")
    (found,) = SentenceFile(numbered, GOLD, **trained)
    assert (found.words, found.gold) == (["In", "Rome"], ["O", "B-LOC"])
    (other,) = SentenceFile(numbered, GOLD, word_column=1, tag_column=2)
    assert (other.words, other.gold) == (found.words, found.gold)
    file = SentenceFile(written(tmp_path, "words.conll", "In\nRome\n"), Needs(), **trained)
    assert [row.words for row in file] == [["In", "Rome"]] and file.total == 1
    assert "not the columns of training (word_column 1 and tag_column 2) are read" in file.notes[0]
    text = SentenceFile(written(tmp_path, "a.txt", "In Rome\n"), Needs(), **trained)
    assert [row.words for row in text] == [["In", "Rome"]]
    fields = {"trained": {"word_column": "w", "tag_column": "t"}}
    row = {"words": ["no"], "w": ["Rome"], "t": ["B-LOC"]}
    (found,) = SentenceFile(written(tmp_path, "a.jsonl", lines(row)), GOLD, **fields)
    assert (found.words, found.gold) == (["Rome"], ["B-LOC"])
    file = SentenceFile(written(tmp_path, "b.jsonl", lines({"tokens": ["Rome"]})), Needs(), **fields)
    assert [row.words for row in file] == [["Rome"]] and file.total == 1
    assert file.notes == ["b.jsonl: 1 rows lack the field 'w' of training: 'tokens' is read."]


@pytest.mark.parametrize("found", ["B-LOC O O", ["B-LOC", "O", "O"], [[0, 4, "LOC"]]])
def test_an_evaluation_reads_the_tags_of_texts_by_the_column_of_training(tmp_path, found):
    row = {"text": "Oslo is big", "intent": "tell", "slots": found}
    file = SentenceFile(written(tmp_path, "a.jsonl", lines(row)), GOLD, trained={"tag_column": "slots"})
    assert [sentence.gold for sentence in file] == [["B-LOC", "O", "O"]]


def test_ids_of_tags_have_the_names_beside_the_data(tmp_path):
    (tmp_path / "id2label.json").write_text('{"0": "B-LOC", "1": "O", "2": "I-LOC"}')
    (row,) = read(tmp_path, "a.conll", "In 1\nNew 0\nYork 2\n", GOLD)
    (other,) = read(tmp_path, "a.jsonl", lines({"tokens": ["In", "New", "York"], "ner_tags": [1, 0, 2]}), GOLD)
    assert row.gold == other.gold == ["O", "B-LOC", "I-LOC"]
    (row,) = read(tmp_path, "b.conll", "In 1\n", Needs(tags=["0", "1"]))
    assert row.gold == ["1"]
