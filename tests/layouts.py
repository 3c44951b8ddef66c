"""Layouts of files that are read, each with a small example and what is read from it. `test_data_layouts.py` loads them
all, and `docs/generate.py` makes a page of them."""

import json
from typing import Any, NamedTuple

TEXTS = ["warm at once", "very quiet at night", "late and open", "little power", "smells of plastic"]
SETS = [{"heat", "noise"}, {"noise"}, {"heat"}, {"power"}, {"heat", "power"}]
NAMES = ["heat", "noise", "power"]
REPEATS = 6  # of these rows, so that a file can be split


class Layout(NamedTuple):
    """A file, or several.

    Attributes:
        title: what it is, in words.
        kind: `labels`, `tags`, `roles` or `masks`.
        file: its name.
        content: of the file.
        options: of the loader, which are flags of the command.
        note: a part of what the loader says, or empty.
        beside: further files, name -> content.
        expected: of labels: (text or features, names of labels) of each row; of tags: (words, tags).
    """

    title: str
    kind: str
    file: str
    content: str
    options: dict[str, Any] = {}
    note: str = ""
    beside: dict[str, str] = {}
    expected: Any = None


def rows() -> list[tuple[str, set[str]]]:
    return [(f"{text}, no {i}", names) for i, (text, names) in enumerate(zip(TEXTS, SETS, strict=True))] * REPEATS


def table(header: str, cell) -> str:
    """A csv of the texts and a cell for each label set."""
    return header + "\n" + "".join(f'"{text}",{cell(names)}\n' for text, names in rows())


def joined(mark: str):
    return lambda names: mark.join(sorted(names))


def wrapped(name: str, mark: str = ""):
    return lambda names: mark.join(name.format(label) for label in sorted(names))


def columns(yes: str, no: str):
    return lambda names: ",".join(yes if name in names else no for name in NAMES)


def bits(names) -> str:
    return "".join(str(int(name in names)) for name in NAMES)


def lines(objects) -> str:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects)


def array(objects) -> str:
    return json.dumps(list(objects), indent=1)


def numbers(i: int) -> list[float]:
    return [i * 0.5, 3.0 - i]


def task(text: str, names: set[str]) -> dict:
    value = {"type": "choices", "from_name": "c", "to_name": "t", "value": {"choices": sorted(names)}}
    return {"id": 1, "data": {"text": text}, "annotations": [{"result": [value]}]}


CHOSEN = [(i % 5, text, names) for i, (text, names) in enumerate(rows())]
FEATURES = [(numbers(i), names) for i, _, names in CHOSEN]
NUMBERED = [(text, {str(NAMES.index(name)) for name in names}) for text, names in rows()]
SPLIT = "separates labels in"

LABELS = [
    Layout(
        "A csv, labels separated by a bar, a comma or a semicolon", "labels", "a.csv", table("text,labels", joined("|"))
    ),
    *[
        Layout(
            f"Labels separated by another mark, here {mark!r}",
            "labels",
            "a.csv",
            table("text,labels", lambda names, mark=mark: f'"{joined(mark)(names)}"'),
            note=SPLIT,
        )
        for mark in ("#", ":", "/", " + ", "\t", "_", " ", " and ", "->", "\\n")
    ],
    *[
        Layout(
            f"Marks around labels, here `{cell({'heat', 'noise'})}`",
            "labels",
            "a.tsv",
            "text\tlabels\n" + "".join(f"{text}\t{cell(names)}\n" for text, names in rows()),
            note="labels are read without the marks around them",
        )
        for cell in (
            wrapped("<{}>"),
            wrapped("__label__{}", " "),
            wrapped("#{}", " "),
            wrapped("'{}'", ", "),
            lambda names: f"[{', '.join(sorted(names))}]",
            lambda names: f"{{{','.join(sorted(names))}}}",
        )
    ],
    *[
        Layout(
            f"A csv whose cells are separated by {name}",
            "labels",
            "a.csv",
            f"text{mark}labels\n" + "".join(f'"{text}"{mark}"{", ".join(sorted(names))}"\n' for text, names in rows()),
        )
        for name, mark in (("semicolons", ";"), ("tabs", "\t"), ("bars", "|"))
    ],
    *[
        Layout(f"Wide and Arabic marks, here {mark}", "labels", "a.csv", table("text,labels", joined(mark)))
        for mark in ("，", "、", "؛", "، ", "｜")
    ],
    Layout("A mark that is given", "labels", "a.csv", table("text,labels", joined(" & ")), {"label_separator": "&"}),
    Layout(
        "Names that contain marks",
        "labels",
        "a.csv",
        table("text,labels", lambda names: f'"{", ".join(sorted(names))}"'),
        {"label_separator": "none"},
        expected=[(text, {", ".join(sorted(names))}) for text, names in rows()],
    ),
    Layout(
        "A column of 0 and 1 for each label", "labels", "a.csv", table(f"text,{','.join(NAMES)}", columns("1", "0"))
    ),
    *[
        Layout(
            f"{'The same with ' + yes + ' and ' + (no or 'nothing')}",
            "labels",
            "a.csv",
            table(f"text,{','.join(NAMES)}", columns(yes, no)),
            note="or yes and no: 3 labels",
        )
        for yes, no in (("yes", "no"), ("Y", "N"), ("x", ""), ("✓", ""))
    ],
    Layout(
        "Names of columns with capitals", "labels", "a.csv", table("Text,Labels", joined("|")), note="column 'Labels'"
    ),
    Layout(
        "Ids and dates beside columns of 0 and 1",
        "labels",
        "a.csv",
        f"code,day,body,{','.join(NAMES)}\n"
        + "".join(
            f'AB-{i},2024-05-0{1 + i % 9},"{text}",{columns("1", "0")(names)}\n'
            for i, (text, names) in enumerate(rows())
        ),
        note="left out: code (ids), day (dates)",
    ),
    Layout(
        "The same with True and False", "labels", "a.csv", table(f"text,{','.join(NAMES)}", columns("True", "False"))
    ),
    Layout(
        "Vectors of 0 and 1 without marks",
        "labels",
        "a.csv",
        table("text,labels", bits),
        note="are vectors of 0 and 1",
        expected=NUMBERED,
    ),
    Layout(
        "Vectors as NumPy prints them",
        "labels",
        "a.csv",
        table("text,labels", lambda names: f"[{' '.join(bits(names))}]"),
        expected=NUMBERED,
    ),
    Layout(
        "Numbers separated by blanks",
        "labels",
        "a.csv",
        table("text,labels", lambda names: " ".join(bits(names))),
        expected=NUMBERED,
    ),
    Layout(
        "Ids, with the names in a file beside",
        "labels",
        "a.csv",
        table("text,labels", lambda names: "|".join(sorted(str(NAMES.index(name)) for name in names))),
        note="label names from id2label.json",
        beside={"id2label.json": json.dumps(dict(enumerate(NAMES)))},
    ),
    Layout(
        "The same with ids by name",
        "labels",
        "a.csv",
        table("text,labels", bits),
        note="label names from label2id.json",
        beside={"label2id.json": json.dumps({name: i for i, name in enumerate(NAMES)})},
    ),
    Layout(
        "Names with their numbers",
        "labels",
        "a.csv",
        table("text,labels", lambda names: "|".join(sorted(str(NAMES.index(name)) for name in names))),
        note="label names from classes.txt",
        beside={"classes.txt": "".join(f"{i} {name}\n" for i, name in enumerate(NAMES))},
    ),
    Layout(
        "Features as scikit-learn's users write them: numbers, then a column of 0 and 1 for each label",
        "labels",
        "a.csv",
        "width,height,heat,noise,power\n"
        + "".join(f"{','.join(map(str, numbers(i)))},{columns('1', '0')(names)}\n" for i, _, names in CHOSEN),
        note="features: 2 columns of numbers, width, height",
        expected=FEATURES,
    ),
    *[
        Layout(
            f"Numbers beside {what} and label sets",
            "labels",
            "a.csv",
            "who,width,height,labels\n"
            + "".join(
                f"{of(number)},{','.join(map(str, numbers(i)))},{'|'.join(sorted(names))}\n"
                for number, (i, _, names) in enumerate(CHOSEN)
            ),
            note=f"left out: who ({what})",
            expected=FEATURES,
        )
        for what, of in (
            ("ids", lambda i: f"P-{i:04d}"),
            ("dates", lambda i: f"2024-01-{i + 1:02d}"),
            ("repeated words", lambda i: ("Oslo", "Bern", "Kyiv")[i % 3]),
        )
    ],
    Layout(
        "Lists of features",
        "labels",
        "a.jsonl",
        lines({"features": numbers(i), "labels": sorted(names)} for i, _, names in CHOSEN),
        expected=FEATURES,
    ),
    Layout("JSON lines", "labels", "a.jsonl", lines({"text": text, "labels": sorted(names)} for text, names in rows())),
    Layout(
        "A JSON array, as doccano exports it",
        "labels",
        "a.json",
        array({"text": text, "label": sorted(names)} for text, names in rows()),
    ),
    Layout(
        "The only list of objects in a JSON file",
        "labels",
        "a.json",
        json.dumps({"version": [1], "data": [{"text": text, "labels": sorted(names)} for text, names in rows()]}),
    ),
    Layout(
        "Objects with names, in the only column of lists",
        "labels",
        "a.jsonl",
        lines(
            {"text": text, "year": 2000, "genres": [{"id": NAMES.index(name), "name": name} for name in sorted(names)]}
            for text, names in rows()
        ),
        note="labels: column 'genres'",
    ),
    Layout(
        "fastText",
        "labels",
        "a.txt",
        "".join(f"{wrapped('__label__{}', ' ')(names)} {text}\n" for text, names in rows()),
    ),
    Layout(
        "spaCy's mapping of names to 0 and 1",
        "labels",
        "a.jsonl",
        lines({"text": text, "cats": {name: float(name in names) for name in NAMES}} for text, names in rows()),
    ),
    Layout(
        "Label Studio's JSON",
        "labels",
        "a.json",
        array(
            [*(task(*row) for row in rows()), {"data": {"text": "skipped"}, "annotations": []}],
        ),
        note="1 tasks without an annotation left out",
    ),
    Layout(
        "Label Studio's CSV",
        "labels",
        "a.csv",
        table(
            "text,topic",
            lambda names: (
                next(iter(names))
                if len(names) == 1
                else '"{""choices"": [' + ", ".join(f'""{name}""' for name in sorted(names)) + ']}"'
            ),
        ),
        {"label_column": "topic"},
    ),
    Layout(
        "Prodigy, whose rejected rows are left out",
        "labels",
        "a.jsonl",
        lines(
            {"text": text, "accept": sorted(names), "answer": answer}
            for answer in ("accept", "reject", "ignore")
            for text, names in (rows() if answer == "accept" else [("no", {"heat"})])
        ),
        note="2 rows left out: 'answer' says",
    ),
    Layout(
        "Argilla 1, whose discarded rows are left out",
        "labels",
        "a.json",
        array(
            {"text": text, "prediction": None, "annotation": sorted(names), "status": status}
            for status in ("Validated", "Discarded")
            for text, names in (rows() if status == "Validated" else [("no", {"heat"})])
        ),
        note="1 rows left out: 'status' says",
    ),
    Layout(
        "Argilla 2",
        "labels",
        "a.json",
        array(
            {"text": text, "topics.responses": [sorted(names)], "topics.responses.status": ["submitted"]}
            for text, names in rows()
        ),
    ),
    Layout(
        "LIBSVM with ids of labels",
        "labels",
        "a.svm",
        "".join(
            f"{','.join(sorted(str(NAMES.index(name)) for name in names))} "
            + " ".join(f"{k}:{value}" for k, value in enumerate(numbers(i), start=1) if value)
            + "\n"
            for i, _, names in CHOSEN
        ),
        note="label names from classes.txt",
        beside={"classes.txt": "\n".join(NAMES)},
        expected=FEATURES,
    ),
    Layout(
        "The extreme classification repository, whose first line has the numbers of rows, features and labels",
        "labels",
        "a.svm",
        f"{len(CHOSEN)} 2 3\n"
        + "".join(
            f"{','.join(sorted(str(NAMES.index(name)) for name in names))} "
            + " ".join(f"{k}:{value}" for k, value in enumerate(numbers(i)) if value)
            + "\n"
            for i, _, names in CHOSEN
        ),
        expected=[(values, {str(NAMES.index(name)) for name in names}) for values, names in FEATURES],
    ),
    Layout(
        "MEKA, which says in the relation how many attributes are labels",
        "labels",
        "a.arff",
        "@relation 'heater: -C 3'\n"
        + "".join(f"@attribute {name} {{0,1}}\n" for name in NAMES)
        + "@attribute width numeric\n@attribute height numeric\n@data\n"
        + "".join(f"{columns('1', '0')(names)},{','.join(map(str, numbers(i)))}\n" for i, _, names in CHOSEN),
        expected=FEATURES,
    ),
]


# --- tags ------------------------------------------------------------------------------------------------------------

WORDS = [["Anna", "goes", "to", "New", "York", "City", "."], ["Bert", "saw", "Oslo", "."]]
SPANS = [["B-PER", "O", "O", "B-LOC", "I-LOC", "I-LOC", "O"], ["B-PER", "O", "B-LOC", "O"]]


def sentences() -> list[tuple[list[str], list[str]]]:
    return [([f"{words[0]}{i}", *words[1:]], tags) for i in range(12) for words, tags in zip(WORDS, SPANS, strict=True)]


def conll(line, before="", mark="\t", first="") -> str:
    """Columns: `line` makes the cells of word i with its tag."""
    return first + "".join(
        before
        + "".join(mark.join(line(i, word, tag)) + "\n" for i, (word, tag) in enumerate(zip(*one, strict=True)))
        + "\n"
        for one in sentences()
    )


def respelled(spell) -> str:
    return conll(lambda i, word, tag: (word, tag if tag == "O" else spell(*tag.split("-"))))


def bmes(tags: list[str]) -> list[str]:
    ends = [not after.startswith("I-") for after in [*tags[1:], "O"]]
    return [
        tag if tag == "O" else ("SE"[tag[0] == "I"] if end else "BM"[tag[0] == "I"]) + tag[1:]
        for tag, end in zip(tags, ends, strict=True)
    ]


def characters(words: list[str], tags: list[str]) -> tuple[str, list[list]]:
    """The text, and its spans by characters."""
    text, spans = "", []
    for word, tag in zip(words, tags, strict=True):
        text += " " * bool(text)
        if tag[0] == "B":
            spans.append([len(text), 0, tag[2:]])
        text += word
        if tag != "O":
            spans[-1][1] = len(text)
    return text, spans


def by_words(tags: list[str], more: int) -> list[list]:
    """The spans of tags by words, with `more` words at their ends."""
    spans: list[list] = []
    for i, tag in enumerate(tags):
        if tag[0] == "B":
            spans.append([i, 0, tag[2:]])
        if tag != "O":
            spans[-1][1] = i + more
    return spans


OFFSETS = [characters(*one) for one in sentences()]
IDS = {"O": 0, "B-LOC": 1, "I-LOC": 2, "B-PER": 3, "I-PER": 4}
LONG = "sentence_id,word,tag\n" + "".join(
    f"s{number},{word},{tag}\n" for number, one in enumerate(sentences()) for word, tag in zip(*one, strict=True)
)
KAGGLE = "Sentence #,Word,POS,Tag\n" + "".join(
    f"{f'Sentence: {number}' if i == 0 else ''},{word},X,{tag}\n"
    for number, one in enumerate(sentences())
    for i, (word, tag) in enumerate(zip(*one, strict=True))
)


def brackets(tags: list[str]) -> list[str]:
    ends = [not after.startswith("I-") for after in [*tags[1:], "O"]]
    return [
        (f"({tag[2:]}" if tag[0] == "B" else "")
        + ("*" if tag[0] != "B" or not end else "")
        + ")" * (end and tag != "O")
        for tag, end in zip(tags, ends, strict=True)
    ]


def conll_2012() -> str:
    blocks = []
    for words, tags in sentences():
        rows = [
            f"doc/1 0 {i} {word} NN {'(TOP(S*' if i == 0 else '*)' if i == len(words) - 1 else '*'} - - - - {entity} -"
            for i, (word, entity) in enumerate(zip(words, brackets(tags), strict=True))
        ]
        rows[-1] = rows[-1].replace(" *) - -", " *)) - -", 1)
        blocks.append("\n".join(rows) + "\n\n")
    return "#begin document (doc/1); part 000\n" + "".join(blocks) + "#end document\n"


REFERENCES = [
    (["Anna,", "A.", "1950."], ["B-author", "I-author", "B-date"]),
    (["Bert,", "B.", "On", "R&D.", "1951."], ["B-author", "I-author", "B-title", "I-title", "B-date"]),
] * 10
FIELDS = [
    [("author", "Anna, A."), ("date", "1950.")],
    [("author", "Bert, B."), ("title", "On R&D."), ("date", "1951.")],
] * 10
INLINE = "".join(" ".join(f"<{name}> {text} </{name}>" for name, text in fields) + "\n" for fields in FIELDS)
XML = '<?xml version="1.0"?>\n<dataset>\n' + "".join(
    "<sequence>\n"
    + "".join(f"<{name}>{text.replace('&', '&amp;')}</{name}>\n" for name, text in fields)
    + "</sequence>\n"
    for fields in FIELDS
)
SPELLING = "tags are read in their usual spelling"

TAGS = [
    Layout("Columns: a word and its tag", "tags", "a.conll", conll(lambda i, word, tag: (word, tag), mark=" ")),
    Layout(
        "A first column that numbers the words",
        "tags",
        "a.tsv",
        conll(lambda i, word, tag: (str(i + 1), word, tag)),
        note="column 0 numbers the words",
    ),
    Layout(
        "A header",
        "tags",
        "a.tsv",
        conll(lambda i, word, tag: (word, tag, "x"), first="token\tner\tother\n"),
        note="tags: column 'ner'",
    ),
    Layout(
        "CoNLL-U Plus",
        "tags",
        "a.conllup",
        conll(lambda i, word, tag: (str(i + 1), word, tag, "_"), first="# global.columns = ID FORM NER MISC\n"),
        note="words: column 'form'",
    ),
    Layout(
        "GermEval: comments with tabs, numbers, outer and inner tags",
        "tags",
        "a.tsv",
        conll(lambda i, word, tag: (str(i + 1), word, tag, "O"), before="#\thttp://example.org\t[2010-01-01]\t\n"),
        {"word_column": 1, "tag_column": 2},
        note="24 comment lines skipped",
    ),
    Layout("CoNLL-2012", "tags", "a.gold_conll", conll_2012(), note="named entities in column 10"),
    Layout(
        "Another mark between prefix and type", "tags", "a.conll", respelled(lambda a, b: f"{a}_{b}"), note=SPELLING
    ),
    Layout("Small letters", "tags", "a.conll", respelled(lambda a, b: f"{a.lower()}-{b}"), note=SPELLING),
    Layout("No mark between them", "tags", "a.conll", respelled(lambda a, b: a + b), note=SPELLING),
    Layout("The type first", "tags", "a.conll", respelled(lambda a, b: f"{b}-{a}"), note=SPELLING),
    Layout(
        "BMES",
        "tags",
        "a.conll",
        "".join(
            "".join(f"{word}\t{tag}\n" for word, tag in zip(words, bmes(tags), strict=True)) + "\n"
            for words, tags in sentences()
        ),
        {"scheme": "bio"},
        note=SPELLING,
    ),
    Layout(
        "B, I and O without types",
        "tags",
        "a.conll",
        respelled(lambda a, b: a),
        note=SPELLING,
        expected=[(words, [tag if tag == "O" else f"{tag[0]}-span" for tag in tags]) for words, tags in sentences()],
    ),
    Layout(
        "Types without prefixes",
        "tags",
        "a.conll",
        respelled(lambda a, b: b),
        note="types without B- and I-: neighbours",
    ),
    Layout(
        "JSON lines with lists of words and tags",
        "tags",
        "a.jsonl",
        lines({"tokens": words, "ner_tags": tags} for words, tags in sentences()),
    ),
    Layout(
        "Ids of tags, with their names in a file beside",
        "tags",
        "a.json",
        array({"tokens": words, "tags": [IDS[tag] for tag in tags]} for words, tags in sentences()),
        note="names of tags from label.json",
        beside={"label.json": json.dumps(IDS)},
    ),
    Layout(
        "Spans by characters, as doccano and spaCy write them",
        "tags",
        "a.jsonl",
        lines({"text": text, "label": spans} for text, spans in OFFSETS),
        note="spans by characters: column 'label'",
    ),
    *[
        Layout(
            f"Spans by words, whose end is {end}",
            "tags",
            "a.jsonl",
            lines({"tokenized_text": words, "ner": by_words(tags, more)} for words, tags in sentences()),
            note=f"24 rows have spans by words, whose end is {end}",
        )
        for end, more in (("the last word", 0), ("after the last word", 1))
    ],
    Layout(
        "Lists as texts, as pandas writes them",
        "tags",
        "a.csv",
        "tokens,ner_tags\n" + "".join(f'"{words}","{tags}"\n' for words, tags in sentences()),
        note="words: column 'tokens'; tags: column 'ner_tags'",
    ),
    Layout(
        "A text and a text of its tags, with blanks or commas between them",
        "tags",
        "a.csv",
        "sentence,word_labels\n" + "".join(f'{" ".join(words)},"{",".join(tags)}"\n' for words, tags in sentences()),
        note="words: column 'sentence'; tags: column 'word_labels'",
    ),
    Layout(
        "Dataturks",
        "tags",
        "a.json",
        lines(
            {
                "content": text,
                "annotation": [
                    {"label": [kind], "points": [{"start": a, "end": b - 1, "text": text[a:b]}]} for a, b, kind in spans
                ],
            }
            for text, spans in OFFSETS
        ),
        note="spans by characters: column 'entities'",
    ),
    Layout(
        "Spans by characters as mappings, as in predictions",
        "tags",
        "a.jsonl",
        lines(
            {"text": text, "entities": [{"start": a, "end": b, "label": kind} for a, b, kind in spans]}
            for text, spans in OFFSETS
        ),
        note="spans by characters: column 'entities'",
    ),
    Layout(
        "spaCy's pairs of a text and its spans",
        "tags",
        "a.json",
        array([text, {"entities": spans}] for text, spans in OFFSETS),
        note="spans by characters: column 'entities'",
    ),
    Layout(
        "Such pairs in a list of an object, as annotators for spaCy write them",
        "tags",
        "annotations.json",
        json.dumps({"classes": ["PER"], "annotations": [[text, {"entities": spans}] for text, spans in OFFSETS]}),
        note="spans by characters: column 'entities'",
    ),
    Layout(
        "Predictions whose entities were corrected",
        "tags",
        "a.jsonl",
        lines(
            {"text": text, "words": text.split(), "tags": ["O"] * len(text.split()), "entities": spans}
            for text, spans in OFFSETS
        ),
        note="the entities are read",
    ),
    Layout(
        "Label Studio's spans",
        "tags",
        "a.json",
        array(
            {
                "data": {"text": text},
                "annotations": [
                    {
                        "result": [
                            {"type": "labels", "from_name": "l", "value": {"start": a, "end": b, "labels": [kind]}}
                            for a, b, kind in spans
                        ]
                    }
                ],
            }
            for text, spans in OFFSETS
        ),
    ),
    Layout("A row for each word, with a column that names its sentence", "tags", "a.csv", LONG),
    Layout("The same, where the sentence stands at its first word alone", "tags", "a.csv", KAGGLE),
    Layout("References with inline tags, one on a line", "tags", "a.txt", INLINE, expected=REFERENCES),
    Layout("AnyStyle's XML", "tags", "a.xml", XML, expected=REFERENCES),
]
