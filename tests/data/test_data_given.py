"""Tables in memory, on disk and by path. Oracle: the tensors of a file of the same rows, csv, ARFF, CoNLL or images."""

import json
import sys

import datasets
import numpy as np
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from tiny_models import tiny_config
from transformers import AutoModel

from seal_hf import SealForMultiLabel, SealForSegmentation, SealForTokenClassification
from seal_hf.data import DataError, kind_of, load_masks, load_multilabel, load_srl, load_tags
from seal_hf.data.label_rows import TextReader
from seal_hf.data.row_tables import DataTable
from seal_hf.data.sentences import Needs
from seal_hf.data.tag_files import SentenceFile
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.labels.program import ENERGY_PROGRAM as energy
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.tags import program as tagging
from seal_hf.tasks.tags.program import ROLE_PROGRAM as srl

SPLITS = ("train", "validation", "test")
FORMS = ("dataset", "frame", "mapping", "saved", "parquet", "shards")


def forms(table: Dataset, folder, form: str, split: bool):
    """A table as users have it, whole or as splits of 30, 6 and 4 rows: an object, or the path of what is written."""
    pandas = pytest.importorskip("pandas", reason="frames need pandas") if form in ("frame", "mapping") else None
    parts = {"train": range(30), "validation": range(30, 36), "test": range(36, 40)}
    tables = {name: table.select(ids) for name, ids in parts.items()} if split else {"train": table}
    whole = DatasetDict(tables) if split else table
    if form == "dataset":
        whole.set_format("numpy")  # as a user may have left it
        return whole
    if pandas is not None:
        frames = {name: pandas.DataFrame(some[:], index=range(7, 7 + len(some))) for name, some in tables.items()}
        return frames if form == "mapping" else frames["train"]
    if form == "saved":
        whole.save_to_disk(folder / "saved")
        return folder / "saved"
    (folder / "hub" / "data").mkdir(parents=True)
    for name, some in tables.items():
        for i in range(2 if form == "shards" else 1):
            name_of_file = f"{name}-{i:05d}-of-00002" if form == "shards" else name
            (some.shard(2, i, contiguous=True) if form == "shards" else some).to_parquet(
                folder / "hub" / "data" / f"{name_of_file}.parquet"
            )
    return folder / "hub" / "data" / "train.parquet" if not split and form == "parquet" else folder / "hub"


def by_program(program, given, *flags: str):
    """What a program loads from a path."""
    return program.load(program.parse(["--dataset", str(given), "--output_dir", "runs", *flags]))


def check_same(found, expected):
    """Equal columns, labels and rows of all splits."""
    assert found.label_names == expected.label_names
    for split in SPLITS:
        one, other = getattr(found, split), getattr(expected, split)
        if isinstance(other, Dataset):
            assert one.column_names == other.column_names and one[:] == other[:]
            assert one.features == other.features
        else:
            np.testing.assert_array_equal(one.images, other.images)
            np.testing.assert_array_equal(one.masks, other.masks)


CASES = [
    (form, split) for form in FORMS for split in (True, False) if split != {"frame": True, "mapping": False}.get(form)
]
ONE = [("dataset", False), ("saved", True)]


# --- label sets ------------------------------------------------------------------------------------------------------

MOODS = ["anger", "fear", "joy"]
TEXTS = [f"text {i}, of {i % 7}" for i in range(40)]
SETS = [[mood for k, mood in enumerate(MOODS) if (i >> k) & 1] for i in range(40)]


def write_csv(folder, header: str, rows: list[str], split: bool):
    """The csv files of the rows; the path to load."""
    parts = {"train": rows[:30], "dev": rows[30:36], "test": rows[36:]} if split else {"all": rows}
    (folder / "csv").mkdir()
    for name, some in parts.items():
        (folder / "csv" / f"{name}.csv").write_text("\n".join([header, *some]) + "\n")
    return str(folder / "csv" if split else folder / "csv" / "all.csv")


LABELS = {
    "names": {"labels": (SETS, datasets.List(Value("string")))},
    "ids": {
        "labels": ([[MOODS.index(mood) for mood in some] for some in SETS], datasets.List(ClassLabel(names=MOODS)))
    },
    "one each": {mood: ([int(mood in some) for some in SETS], Value("int64")) for mood in MOODS},
    "booleans": {mood: ([mood in some for some in SETS], Value("bool")) for mood in MOODS},
}


@pytest.mark.parametrize(
    ("form", "split", "kind"),
    [(*case, "one each") for case in CASES] + [(*case, kind) for case in ONE for kind in ("names", "ids", "booleans")],
)
def test_label_sets_equal_those_of_a_csv(tmp_path, form, split, kind):
    column = "sentence" if kind == "ids" else "text"
    data = {column: TEXTS, "id": list(range(40))} | {name: values for name, (values, _) in LABELS[kind].items()}
    types = {column: Value("string"), "id": Value("int64")} | {name: kind for name, (_, kind) in LABELS[kind].items()}
    given = forms(Dataset.from_dict(data, features=Features(types)), tmp_path, form, split)
    rows = [f'"{text}",{"|".join(some)}' for text, some in zip(TEXTS, SETS, strict=True)]
    expected = load_multilabel(write_csv(tmp_path, "text,labels", rows, split), seed=3)
    found = load_multilabel(given, seed=3)
    check_same(found, expected)
    for part in SPLITS:
        rows = found.origins[part].rows + (0 if not split else {"train": 0, "validation": 30, "test": 36}[part])
        assert [TEXTS[row] for row in rows] == getattr(found, part)["text"][:]
    chosen = {"names": [], "ids": ["texts: column 'sentence'; labels: column 'labels'."]}.get(kind)
    assert [note for note in found.notes if "column" in note] == (
        ["no column 'labels', but the others hold only 0 and 1: 3 labels, a column each: anger, fear, joy; texts: "
         "column 'text'."] if chosen is None else chosen
    )  # fmt: skip
    if hasattr(given, "is_dir"):
        flags = ("--model_name_or_path", "none", "--data_seed", "3")
        check_same(by_program(mlc.PROGRAM, given, *flags), expected)


def test_a_class_is_a_set_of_one_label_and_minus_one_is_unknown():
    features = Features({"text": Value("string"), "label": ClassLabel(names=["no", "yes"])})
    train = Dataset.from_dict({"text": TEXTS, "label": [i % 2 for i in range(40)]}, features=features)
    test = Dataset.from_dict({"text": TEXTS[:4], "label": [-1] * 4}, features=features)
    data = load_multilabel(DatasetDict({"train": train, "test": test, "unsupervised": test}))
    assert data.test is None and len(data.validation) == 4 and data.label_names == ["no", "yes"]
    assert all(row["labels"] == [1 - TEXTS.index(row["text"]) % 2, TEXTS.index(row["text"]) % 2] for row in data.train)
    assert "splits that are not read: unsupervised." in data.notes
    assert "the test split is left out: all its labels in 'label' are -1, unknown." in data.notes


@pytest.mark.parametrize(
    ("names", "note"),
    [(["yes", "no"], ""), (["no", "yes"], ""), (["0", "1"], ""), (["good", "bad"], "quality is 1 for 'bad'.")],
)
def test_a_column_of_two_classes_is_a_label_by_its_names(names, note):
    features = Features({"text": Value("string"), "quality": ClassLabel(names=names), "rude": ClassLabel(names=names)})
    rows = {"text": TEXTS, "quality": [i % 2 for i in range(40)], "rude": [i // 2 % 2 for i in range(40)]}
    table = Dataset.from_dict(rows, features=features)
    data = load_multilabel(table, label_columns="quality,rude")
    one = 0 if names[0] == "yes" else 1
    expected = {text: [a == one, b == one] for text, a, b in zip(*rows.values(), strict=True)}
    assert all(row["labels"] == expected[row["text"]] for row in data.train)
    found = [each for each in data.notes if each.startswith("columns of classes: ")]
    assert len(found) == bool(note) and all(note.rstrip(".") in each for each in found)
    gold = next(TextReader(DataTable(table, "here"), "text", labels=["quality", "rude"]).chunks(40)).gold
    np.testing.assert_array_equal(gold, [expected[text] for text in TEXTS])


def test_a_lone_column_of_classes_is_the_label_whatever_its_name():
    features = Features({"text": Value("string"), "mood": datasets.List(ClassLabel(names=MOODS))})
    table = Dataset.from_dict({"text": TEXTS, "mood": [[i % 3] for i in range(40)]}, features=features)
    data = load_multilabel(table)
    assert data.label_names == MOODS and "texts: column 'text'; labels: column 'mood'." in data.notes


def test_a_frame_with_sets_categories_and_missing_texts():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": [*TEXTS[:39], None], "labels": list(map(set, SETS))})
    found = load_multilabel(frame)
    expected = load_multilabel(Dataset.from_dict({"text": [*TEXTS[:39], ""], "labels": SETS}))
    check_same(found, expected)
    category = pandas.DataFrame({"text": TEXTS, "label": pandas.Categorical([MOODS[i % 3] for i in range(40)])})
    assert load_multilabel(category).label_names == MOODS


TABLE = Dataset.from_dict({"x": [1]})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 2], "the data is a list; expected a name, a path, a Hub id, a datasets.Dataset or DatasetDict, a pandas"),
        (
            {"text": ["a"], "labels": [[1]]},
            r"'text' of the data is a list; .* by datasets.Dataset.from_dict\(columns\)",
        ),
        (
            {"a": Dataset.from_dict({"x": [1]}), "b": Dataset.from_dict({"x": [1]})},
            "has the splits a, b, expected train",
        ),
        (Dataset.from_dict({"x": [1]}).to_iterable_dataset(), "IterableDataset; .* Load it without streaming"),
    ],
    ids=["list", "mapping of lists", "names", "stream"],
)
@pytest.mark.parametrize("load", [load_multilabel, load_tags, load_masks, load_srl])
def test_what_is_no_table_is_named(given, message, load):
    with pytest.raises(DataError, match=message):
        load(given)


def test_damaged_files_are_named(tmp_path):
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="cut.parquet: not readable as parquet: .* The file may end early"):
        load_multilabel(tmp_path / "cut.parquet")
    Dataset.from_dict({"text": TEXTS, "labels": SETS}).save_to_disk(tmp_path / "saved")
    next((tmp_path / "saved").glob("*.arrow")).unlink()
    with pytest.raises(DataError, match="saved: not readable as a saved data set: "):
        load_multilabel(tmp_path / "saved")
    (tmp_path / "named").mkdir()
    for name in ("a", "b"):
        Dataset.from_dict({"text": TEXTS}).to_parquet(tmp_path / "named" / f"{name}.parquet")
    with pytest.raises(DataError, match="no file names its split, as train.parquet does; found a.parquet, b.parquet"):
        load_multilabel(tmp_path / "named")


# --- features ---------------------------------------------------------------------------------------------------------

NUMBERS = np.random.default_rng(1).normal(3, 5, (40, 5)).round(3)
NUMBERS[:, 1], NUMBERS[:, 2] = NUMBERS[:, 1] > 3, 1  # of 0 and 1; constant
MARKS = [[(i + k) % (k + 2) // (k + 1) for k in range(3)] for i in range(40)]
MARKS[3][1] = MARKS[33][0] = -1  # unknown
FEATURES = {"features": NUMBERS.tolist()} | {mood: [row[k] for row in MARKS] for k, mood in enumerate(MOODS)}


def write_arff(folder, columns: dict[str, list], labels: list[str]):
    """A Mulan folder of these columns, whose folds split the rows 30, 6 and 4."""
    folder.mkdir()
    features = {f"x{i}": column for i, column in enumerate(NUMBERS.T)}
    cells = {**features, **columns}
    header = [f"@attribute {name} {'{0,1}' if name in labels else 'numeric'}" for name in cells]
    rows = [
        ",".join("?" if value == -1 else f"{value:g}" for value in row) for row in zip(*cells.values(), strict=True)
    ]
    (folder / "m.arff").write_text("\n".join(["@relation m", *header, "@data", *rows]) + "\n")
    (folder / "m.xml").write_text("<labels>" + "".join(f'<label name="{name}"/>' for name in labels) + "</labels>")
    folds = np.split(np.arange(40), [5, 10, 15, 20, 25, 30, 33, 36, 38])
    (folder / "folds.json").write_text(json.dumps({"rows": 40, "folds": [fold.tolist() for fold in folds]}))
    return folder


@pytest.mark.parametrize(("form", "split"), CASES)
def test_features_equal_those_of_an_arff_file(tmp_path, form, split):
    expected = load_multilabel(write_arff(tmp_path / "arff", {mood: FEATURES[mood] for mood in MOODS}, MOODS))
    given = forms(Dataset.from_dict(FEATURES), tmp_path, form, split)
    found = load_multilabel(given, seed=3)
    assert found.kind == "features" and found.num_features == 5
    assert any("3 labels, a column each: anger, fear, joy; features: column 'features'." in n for n in found.notes)
    assert "2 of 120 labels of rows are unknown (-1): they count in no loss or figure." in found.notes
    if split:
        check_same(found, expected)
        assert all(np.array_equal(*pair) for pair in zip(found.scaling, expected.scaling, strict=True))
    else:  # another split of the same rows
        whole = datasets.concatenate_datasets([getattr(expected, part) for part in SPLITS])
        for part in SPLITS:
            assert getattr(found, part)[:] == whole[found.origins[part].rows]
        assert sorted(np.concatenate([found.origins[part].rows for part in SPLITS])) == list(range(40))
    if hasattr(given, "is_dir"):
        loaded = by_program(mlc.PROGRAM, given, "--data_seed", "3")  # which names no encoder
        check_same(loaded, found)
        assert kind_of(str(given)) == "features"
        assert all(np.array_equal(*pair) for pair in zip(loaded.scaling, found.scaling, strict=True))
    again = load_multilabel(given, seed=3, normalize="auto").scaling
    assert all(np.array_equal(*pair) for pair in zip(again, found.scaling, strict=True))
    assert load_multilabel(given, normalize="none").scaling is None


def test_options_of_feature_tables_mean_what_they_mean_for_arff(tmp_path):
    weights = {"w": [1.0 + i % 3 for i in range(40)]}
    options = {"sample_weight": "w", "max_train_rows": 20, "normalize": "minmax", "hierarchy": [("fear", "anger")]}
    labels = {mood: FEATURES[mood] for mood in MOODS}
    expected = load_multilabel(write_arff(tmp_path / "arff", {**labels, **weights}, MOODS), **options)
    table = Dataset.from_dict({**FEATURES, **weights, "name": TEXTS})
    given = forms(table, tmp_path, "saved", True)
    found = load_multilabel(given, label_columns="all_but features,w,name", **options)
    check_same(found, expected)
    assert found.hierarchy is not None and len(found.train) == 20
    assert all(np.array_equal(*pair) for pair in zip(found.scaling, expected.scaling, strict=True))


def test_label_sets_beside_features_are_those_beside_texts():
    options = {"labels": (SETS, datasets.List(Value("string")))}, {"mood": LABELS["ids"]["labels"]}
    for option in options:
        ((name, (values, kind)),) = option.items()
        types = Features({name: kind, "text": Value("string")})
        texts = load_multilabel(Dataset.from_dict({name: values, "text": TEXTS}, features=types))
        table = Dataset.from_dict({name: values}, features=Features({name: kind}))
        found = load_multilabel(table.add_column("features", NUMBERS.tolist()))
        assert found.label_names == texts.label_names
        assert all(getattr(found, part)["labels"][:] == getattr(texts, part)["labels"][:] for part in SPLITS)
        np.testing.assert_array_equal(
            found.train.with_format("numpy")["features"][:], NUMBERS[found.origins["train"].rows].astype(np.float32)
        )


def test_a_table_with_texts_and_features_is_read_as_texts_and_says_so(tmp_path):
    table = Dataset.from_dict({"text": TEXTS, "features": NUMBERS.tolist(), "labels": SETS})
    data = load_multilabel(table)
    assert data.kind == "text"
    assert any("not the column 'features'" in note for note in data.notes)
    table.rename_column("text", "body").to_parquet(tmp_path / "t.parquet")
    path = str(tmp_path / "t.parquet")
    for column, kind in ((None, "features"), ("body", "text")):
        assert kind_of(path, text_column=column) == load_multilabel(path, text_column=column).kind == kind


def test_a_program_refuses_features_of_the_hub(tmp_path):
    for program in (mlc.PROGRAM, energy):
        flags = ["--dataset", "owner/name", "--output_dir", str(tmp_path), "--energy_method", "nce"]
        arguments = program.parse(flags if program is energy else flags[:4])
        with pytest.raises(ValueError, match="'data' holds features, which programs read from files only. Save it"):
            program.make_trainer(load_multilabel(Dataset.from_dict(FEATURES)), arguments)


def changed(row, value):
    return {**FEATURES, "features": [*FEATURES["features"][:row], value, *FEATURES["features"][row + 1 :]]}


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (changed(3, [1.0, 2.0]), {}, r"in memory, row 3 \(counting from 0\): column 'features' holds 2 .* expected 5"),
        (changed(3, None), {}, "row 3 .*: column 'features' holds no numbers, expected 5 as the first row has"),
        (changed(0, []), {}, "row 0 .*: column 'features' holds no numbers, expected a list"),
        (changed(7, [1.0, 2.0, None, 4.0, 5.0]), {}, r"row 7 .*, column 'features\[2\]': nan"),
        (changed(7, [1.0, 2.0, 3.0, 1e300, 5.0]), {}, r"row 7 .*, column 'features\[3\]': inf"),
        ({**FEATURES, "features": [["a"]] * 40}, {}, r"row 0 .*: column 'features' holds \['a'\], expected a list"),
        (FEATURES, {"keep_id": True}, "`keep_id` is an option of ARFF files, but the table is not one"),
        (FEATURES, {"normalize": "zscore"}, "`normalize` is 'zscore'; it must be one of none, minmax"),
    ],
)  # fmt: skip
def test_damaged_features_are_named_by_row_and_column(columns, options, message):
    with pytest.raises(DataError, match=message):
        load_multilabel(Dataset.from_dict(columns), **options)


def test_damaged_features_of_splits_and_frames_are_named():
    train, narrow = (Dataset.from_dict({**FEATURES, "features": x.tolist()}) for x in (NUMBERS, NUMBERS[:, :4]))
    with pytest.raises(DataError, match="validation split, row 0 .*: column 'features' holds 4 numbers, expected 5"):
        load_multilabel({"train": train, "validation": narrow})
    with pytest.raises(DataError, match="validation split: no column 'features' of lists of numbers"):
        load_multilabel({"train": train, "validation": narrow.remove_columns("features")})
    pandas = pytest.importorskip("pandas")
    for value in ([1.0, "a"], "gap"):
        with pytest.raises(DataError, match="column 'features', row 3 .*, holds values of several kinds"):
            load_multilabel(pandas.DataFrame(changed(3, value)))


# --- tags ------------------------------------------------------------------------------------------------------------

WORDS = [[f"w{i}", "in", f"X{i % 5}"] for i in range(40)]
TAGS = [["O", "O", ["B-LOC", "B-PER", "O", "O"][i % 4]] for i in range(40)]


@pytest.mark.parametrize(("form", "split"), CASES)
def test_tags_equal_those_of_columns(tmp_path, form, split):
    names = ["B-PER", "O", "B-LOC"]  # in another order than the list of tags
    if form in ("frame", "mapping", "shards"):  # a frame has no classes
        table = Dataset.from_dict({"words": WORDS, "tags": TAGS})
    else:
        types = {"tokens": datasets.List(Value("string")), "ner_tags": datasets.List(ClassLabel(names=names))}
        ids = [[names.index(tag) for tag in tags] for tags in TAGS]
        table = Dataset.from_dict({"tokens": WORDS, "ner_tags": ids}, features=Features(types))
    parts = {"train": slice(30), "dev": slice(30, 36), "test": slice(36, 40)} if split else {"all": slice(40)}
    (tmp_path / "conll").mkdir()
    for name, rows in parts.items():
        pairs = zip(WORDS[rows], TAGS[rows], strict=True)
        blocks = ("\n".join(f"{w}\t{t}" for w, t in zip(words, tags, strict=True)) for words, tags in pairs)
        (tmp_path / "conll" / f"{name}.conll").write_text("\n\n".join(blocks) + "\n")
    given = forms(table, tmp_path, form, split)
    expected = load_tags(str(tmp_path / "conll" if split else tmp_path / "conll" / "all.conll"), seed=3)
    found = load_tags(given, seed=3)
    check_same(found, expected)
    assert ("words: column 'tokens'; tags: column 'ner_tags'." in found.notes) == ("tokens" in table.column_names)
    if hasattr(given, "is_dir"):
        check_same(by_program(tagging.PROGRAM, given, "--data_seed", "3"), expected)


@pytest.mark.parametrize("form", ["dataset", "frame", "saved", "parquet"])
def test_words_in_a_row_each_are_the_sentences_that_a_column_names(tmp_path, form):
    """As in a csv: the sentence's name in each row, or at its first word alone. Oracle: the lists of its words."""
    places = [(i, j) for i, words in enumerate(WORDS) for j in range(len(words))]
    columns = {
        "Sentence #": [f"Sentence: {i}" if form != "saved" or j == 0 else None for i, j in places],
        "Word": [WORDS[i][j] for i, j in places],
        "Tag": [TAGS[i][j] for i, j in places],
        "box": [[i, j] for i, j in places],  # a list of each word's own
    }
    table = Dataset.from_dict(columns)
    if form != "frame":
        table = table.cast_column("Tag", ClassLabel(names=["O", "B-PER", "B-LOC"]))
    given = forms(table, tmp_path, form, split=False)
    found = load_tags(given, seed=3)
    check_same(found, load_tags(Dataset.from_dict({"words": WORDS, "tags": TAGS}), seed=3))
    for word, tag in (("Word", "Tag"), ("words", "tags")):  # as the table and as its sentences call them
        check_same(load_tags(given, word_column=word, tag_column=tag, seed=3), found)
    if form == "parquet":  # as predict and evaluate read it
        assert [row.words for row in SentenceFile(tmp_path / "hub" / "data" / "train.parquet", Needs())] == WORDS
    with pytest.raises(DataError, match="a word in each row if a column sentence_id names its sentence"):
        load_tags(table.remove_columns(["Sentence #", "box"]))
    texts = {"sentence_id": [*range(40)], "words": [" ".join(words) for words in WORDS]}
    whole = load_tags(Dataset.from_dict({**texts, "tags": [" ".join(tags) for tags in TAGS]}), seed=3)
    assert len(whole.train) == len(found.train)


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_a_row_for_each_word_may_name_its_columns_in_any_language(tmp_path, ending):
    """The columns that were named to train are those that predict reads, without being named again."""
    rows = [(f"s{i}", *pair) for i, pairs in enumerate(map(zip, WORDS, TAGS)) for pair in pairs]
    file, mark = tmp_path / f"mots{ending}", "," if ending == ".csv" else "\t"
    file.write_text("\n".join(mark.join(row) for row in [("sentence_id", "mot", "etiquette"), *rows]) + "\n")
    data = load_tags(str(file), word_column="mot", tag_column="etiquette", seed=3)
    check_same(data, load_tags(Dataset.from_dict({"words": WORDS, "tags": TAGS}), seed=3))
    read = SentenceFile(file, Needs(tags=data.label_names), trained=data.columns)
    assert [(one.words, one.gold) for one in read] == [*zip(WORDS, TAGS, strict=True)]


@pytest.mark.parametrize(("form", "split"), ONE)
def test_roles_equal_those_of_bracket_columns(tmp_path, form, split):
    table = Dataset.from_dict({"words": WORDS, "tags": [["B-A0", "B-V", "O"]] * 40, "predicate": [1] * 40})
    parts = {"train": slice(30), "dev": slice(30, 36), "test": slice(36, 40)} if split else {"all": slice(40)}
    (tmp_path / "srl").mkdir()
    for name, rows in parts.items():
        lines = [f"0 {a} N * - - (A0*)\n1 {b} V * in in.01 (V*)\n2 {c} N * - - *\n" for a, b, c in WORDS[rows]]
        (tmp_path / "srl" / f"{name}.srl").write_text("\n".join(lines))
    given = forms(table, tmp_path, form, split)
    expected, found = load_srl(str(tmp_path / "srl" if split else tmp_path / "srl" / "all.srl")), load_srl(given)
    for split_name in SPLITS:
        columns = ["words", "tags", "predicate"]  # a file of brackets has `pos` too
        one, other = (getattr(data, split_name).select_columns(columns)[:] for data in (found, expected))
        assert one == other
    assert found.label_names == expected.label_names and found.kind == "srl"
    if hasattr(given, "is_dir"):
        check_same(by_program(srl, given, "--model_name_or_path", "none"), found)
    with pytest.raises(DataError, match="expected predicate. It is the index of a word"):
        load_srl(table.remove_columns("predicate"))
    with pytest.raises(DataError, match="row 2 .*: `predicate` is 3; it must be the place of one of 3 words"):
        load_srl(Dataset.from_dict(table[:] | {"predicate": [1, 1, 3] + [1] * 37}))


# --- masks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "split"), CASES)
def test_masks_equal_those_of_an_image_folder(tmp_path, form, split):
    image_of = pytest.importorskip("PIL.Image", reason="image files need pillow")
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 6, 5, 3), np.uint8)
    masks = (rng.random((40, 6, 5)) < np.linspace(0, 0.2, 40)[:, None, None]).astype(np.uint8)
    parts = {"train": range(30), "val": range(30, 36), "test": range(36, 40)} if split else {"": range(40)}
    for name, rows in parts.items():
        for part, arrays in (("images", images), ("masks", masks)):
            (tmp_path / "folder" / name / part).mkdir(parents=True)
            for i in rows:
                image_of.fromarray(arrays[i]).save(tmp_path / "folder" / name / part / f"{i:03d}.png")
    lists = form in ("shards", "mapping")
    if not lists:
        columns = {"image": list(map(image_of.fromarray, images)), "mask": list(map(image_of.fromarray, masks))}
        types = Features({"image": datasets.Image(), "mask": datasets.Image()})
        table = Dataset.from_dict(columns, features=types)
    else:
        table = Dataset.from_dict({"pixel_values": images.tolist(), "labels": masks.tolist()})
    expected = load_masks(str(tmp_path / "folder"), seed=3)
    given = forms(table, tmp_path, form, split)
    found = load_masks(given, seed=3)
    check_same(found, expected)
    assert ("images: column 'pixel_values'; masks: column 'labels'." in found.notes) == lists
    if hasattr(given, "is_dir"):
        check_same(by_program(segmentation.PROGRAM, given, "--data_seed", "3"), expected)


# --- all -------------------------------------------------------------------------------------------------------------


def test_models_load_what_they_are_given(tmp_path):
    """As from the loaded data: the same configuration, so sizes and names, and for features and texts the same bias."""
    texts = Dataset.from_dict({"text": TEXTS, "labels": SETS})
    tags = Dataset.from_dict({"words": WORDS, "tags": TAGS})
    masks = {"image": np.zeros((20, 24, 24, 3), int).tolist(), "mask": [[[i % 2] * 24] * 24 for i in range(20)]}
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path)
    for model, load, given, base in (
        (SealForMultiLabel, load_multilabel, texts, str(tmp_path)),
        (SealForMultiLabel, load_multilabel, Dataset.from_dict(FEATURES), None),
        (SealForTokenClassification, load_tags, tags, str(tmp_path)),
        (SealForSegmentation, load_masks, Dataset.from_dict(masks), None),
    ):
        one, other = model.for_data(given, base), model.for_data(load(given), base)
        assert one.task_net.config.to_dict() == other.task_net.config.to_dict()
        assert list(one.task_net.config.id2label.values()) == load(given).label_names


def test_pandas_is_not_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert load_multilabel(Dataset.from_dict({"text": TEXTS, "labels": SETS})).label_names == MOODS


def test_a_missing_part_of_a_split_is_named(tmp_path):
    rows = Dataset.from_dict({"text": ["a", "b"], "labels": [["x"], ["y"]]})
    for name in ("train-00001-of-00004", "train-00003-of-00004", "validation"):
        rows.to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match="train has 2 of its 4 parts. Add those with the numbers 00000, 00002."):
        load_multilabel(str(tmp_path))


def test_rows_without_gold_are_the_training_rows_of_an_arff_folder(tmp_path):
    folder = write_arff(tmp_path / "arff", {mood: FEATURES[mood] for mood in MOODS}, MOODS)
    data = load_multilabel(folder, unlabelled=folder)
    assert data.unlabelled["features"][:] == data.train["features"][:]
    assert any("rows of its train folds" in note for note in data.notes)
