"""The page's sections on tags. Oracles: loops over spans and steps, the closing figures, the files of a run, the saved
nets."""

import json
import re

import numpy as np
import pytest
import torch
from datasets import Dataset
from page_reader import LIMIT, in_browser
from test_metrics_tags import BIO, BIOES, SRL, make
from test_run_tagging import columns, run
from tiny_models import tiny_config, tiny_tokenizer
from tiny_tags import TAGS
from transformers import AutoModel

from seal_hf import SealForTokenClassification, Vocabulary, encode_words, tokenize_words
from seal_hf.core.tag_schemes import is_well_formed, scheme_of, spans, spans_of_ids
from seal_hf.metrics import core_role_violations, tag_metrics, tag_report
from seal_hf.reports.page import Page, render
from seal_hf.reports.run_page import write_page
from seal_hf.tasks.tags.metrics import broken_steps, tag_errors
from seal_hf.tasks.tags.page import MOST_LETTERS, MOST_SENTENCES, MOST_WORDS, tag_facts, tag_sections

EVIL = "<script>alert('x')</script>"
KINDS = {"bio": BIO, "bioes": BIOES, "srl": SRL, "plain": ["N", "V", "$", "^"]}


def facts_of(predicted, gold, kind, names, **options):
    words = [[f"w{i}" for i in range(len(row))] for row in gold]
    return tag_facts(predicted, gold, Dataset.from_dict({"words": words}), kind, names, **options)


def page_of(facts, folder=None):
    return render(Page("tags", tag_sections({"split": "test", **facts}, folder)))


# --- figures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [BIO, BIOES, SRL])
def test_spans_of_long_paths_are_those_of_each_sequence(names):
    sequences = [*make(names, size=80)[0], [], []]
    path = [-1]
    for row in sequences:
        path += [*map(names.index, row), -1]
    found, begins = [], np.flatnonzero(np.array(path) < 0)
    for first, begin, end in zip(*spans_of_ids(np.array(path), names), strict=True):
        row = np.searchsorted(begins, begin) - 1
        found.append((row, names[first][2:], begin - begins[row] - 1, end - begins[row] - 1))
    assert found == [(i, *span) for i, row in enumerate(sequences) for span in spans(row, scheme_of(names))]
    assert all(len(column) == 0 for column in spans_of_ids(np.array([], dtype=np.int64), names))


@pytest.mark.parametrize("kind", ["bio", "bioes", "srl"])
def test_confusion_against_a_loop_over_spans(kind):
    names = KINDS[kind]
    predicted, gold = make(names, size=80, seed=3)
    errors = tag_errors(predicted, gold, kind, names)
    types = errors.names
    expected, by_row = np.zeros((len(types) + 2, len(types) + 2), dtype=int), []
    for one, other in zip(predicted, gold, strict=True):
        ours, theirs = ([s for s in spans(t, scheme_of(names)) if (kind, s.type) != ("srl", "V")] for t in (one, other))
        by_row.append(len(set(ours) ^ set(theirs)))
        for span in theirs:
            same = [s for s in ours if s[1:] == span[1:]]
            overlap = any(s.start < span.end and span.start < s.end for s in ours)
            expected[types.index(span.type), types.index(same[0].type) if same else -2 if overlap else -1] += 1
        for span in ours:
            overlap = any(s.start < span.end and span.start < s.end for s in theirs)
            if not any(s[1:] == span[1:] for s in theirs):
                expected[-2 if overlap else -1, types.index(span.type)] += 1
    np.testing.assert_array_equal(errors.counts, expected)
    assert errors.by_row.tolist() == by_row and expected[:-2, :-2].sum() > np.trace(expected) > 0
    assert expected[:-2, -2:].all(1).any() and expected[-2:, :-2].all(0).any()
    report = tag_report(predicted, gold, kind)
    assert list(report) == types
    for i, name in enumerate(types):  # rows are gold, columns are decided
        assert expected[i].sum() == report[name]["support"]
        assert expected[i, i] / max(expected[:, i].sum(), 1) == pytest.approx(report[name]["precision"])


def test_confusion_of_plain_tags_against_a_loop():
    predicted, gold = make(KINDS["plain"], size=40)
    errors = tag_errors(predicted, gold, "plain", [*KINDS["plain"], "never"])
    expected = np.zeros((4, 4), dtype=int)
    for one, other in zip(predicted, gold, strict=True):
        for ours, theirs in zip(one, other, strict=True):
            expected[errors.names.index(theirs), errors.names.index(ours)] += 1
    assert errors.names == sorted(KINDS["plain"])
    np.testing.assert_array_equal(errors.counts, expected)
    assert errors.by_row.tolist() == [
        sum(a != b for a, b in zip(one, other, strict=True)) for one, other in zip(predicted, gold, strict=True)
    ]


@pytest.mark.parametrize("names", [BIO, BIOES])
def test_broken_steps_against_a_loop(names):
    predicted, _ = make(names, size=60, seed=5)
    scheme = scheme_of(names)
    steps, sequences = broken_steps(predicted, names)
    assert sequences == sum(not is_well_formed(row, scheme) for row in predicted) > 0
    counts, first = {}, {}
    for i, row in enumerate(predicted):
        for place, (before, after) in enumerate(zip([None, *row], [*row, None], strict=True)):
            goes_on = after is not None and after[0] in "IE"
            may = before is not None and before[0] in "BI" and after is not None and before[2:] == after[2:]
            must = scheme == "bioes" and before is not None and before[0] in "BI"
            if (goes_on and not may) or (must and not (goes_on and may)):
                counts[before, after] = counts.get((before, after), 0) + 1
                first.setdefault((before, after), (i, place))
    assert {(step.before, step.after): step.times for step in steps} == counts
    assert {(step.before, step.after): (step.row, step.word) for step in steps} == first
    assert [step.times for step in steps] == sorted(counts.values(), reverse=True)
    assert broken_steps([["O", "B-X", *["I-X"] * (scheme == "bio")], ["O"]], names[:3]) == ([], 0)


# --- facts and page --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("drawn")
def test_figures_and_sentences_of_the_page():
    predicted, gold = make(BIO, size=90)
    facts = facts_of(predicted, gold, "bio", BIO)
    report = tag_report(predicted, gold, "bio")
    assert [row["type"] for row in facts["types"]] == list(report)
    for row in facts["types"]:
        assert {name: row[name] for name in report[row["type"]]} == report[row["type"]]
        parts = [row[name] for name in ("right", "other type", "other words", "missed")]
        assert sum(parts) == row["support"] and row["right"] == round(row["recall"] * row["support"])
    assert facts["broken"]["sequences"] / 90 == tag_metrics(predicted, gold, "bio")["malformed"]
    shown = facts["sentences"]
    assert len(shown) == MOST_SENTENCES and [one["errors"] for one in shown] == sorted(
        (one["errors"] for one in shown), reverse=True
    )
    for one in shown:
        row = one["origin"]["row"]
        sides = [set(spans(tags[row], "bio")) for tags in (gold, predicted)]
        for side, own, other in (("gold", *sides), ("decided", *sides[::-1])):
            assert {tuple(span[:3]) for span in one[side]} == own
            assert all(right == (tuple(span) in other) for *span, right in one[side])
    page = page_of(facts)
    assert page.count('<div class="sentence">') == MOST_SENTENCES
    assert page.count("✗ ") - 1 == sum(not right for one in shown for *_, right in [*one["gold"], *one["decided"]])
    pairs = {(pair["gold"], pair["decided"]): pair["count"] for pair in facts["confusion"]["pairs"]}
    names, counts = facts["confusion"]["names"], np.array(facts["confusion"]["counts"])
    assert all(counts[names.index(one), names.index(other)] == count for (one, other), count in pairs.items())
    assert sum(pairs.values()) == counts[:-2, :-2].sum() - np.trace(counts)


def test_repeated_roles_and_predicates():
    predicted, gold = make(SRL, size=60, seed=1)
    data = Dataset.from_dict({"words": [["w"] * len(row) for row in gold], "predicate": [len(row) - 1 for row in gold]})
    facts = tag_facts(predicted, gold, data, "srl", SRL)
    found = facts["repeated"]
    assert found["propositions"] == round(60 * core_role_violations(predicted)) > 0
    for row in found["roles"]:
        for side, tags in (("decided", predicted), ("gold", gold)):
            assert row[side] == sum([s.type for s in spans(one, "bio")].count(row["role"]) > 1 for one in tags)
    assert {row["role"] for row in found["roles"]} == {"ARG0", "ARG1"}
    assert not any(span[0] == "V" for one in facts["sentences"] for span in [*one["gold"], *one["decided"]])
    page = page_of(facts)
    assert page.count("text predicate") == len(facts["sentences"]) + len(found["sentences"])


def test_plain_tags_show_gold_beside_errors():
    facts = facts_of([["N", "N", "V", "$"]], [["N", "N", "N", "$"]], "plain", KINDS["plain"])
    (one,) = facts["sentences"]
    assert one["gold"] == [["N", 2, 3, True]] and one["errors"] == 1
    assert one["decided"] == [["N", 0, 2, True], ["V", 2, 3, False], ["$", 3, 4, True]]
    assert "Broken" not in page_of(facts) and "other tag" in page_of(facts)


def test_no_error_and_no_span():
    gold = [["O", "B-X"], ["O"]]
    page = page_of(facts_of(gold, gold, "bio", ["O", "B-X", "I-X"]))
    assert "Every decided sequence is that of gold." in page and "0 of 2 decided sequences break" in page
    page = page_of(facts_of([["O"], ["O"]], [["O"], ["O"]], "bio", ["O", "B-X", "I-X"]))
    assert "Every decided sequence" in page and "<svg" not in page


def test_text_of_the_data_is_escaped():
    names = ["O", f"B-{EVIL}", f"I-{EVIL}", "B-$x$", "I-$x$"]
    gold = [["O", names[1], names[2], "B-$x$"]] * 3
    predicted = [["O", "B-$x$", names[2], names[1]]] * 3
    data = Dataset.from_dict({"words": [[EVIL, "&amp;", "a", "b"]] * 3})
    facts = tag_facts(predicted, gold, data, "bio", names, lambda row: {"source": EVIL, "line": 1})
    page = page_of(json.loads(json.dumps(facts)))
    assert "<script>alert" not in page and page.count("&lt;script&gt;alert") > 10 and "&amp;amp;" in page


def test_a_long_sentence_is_cut_around_its_first_error():
    gold = [["O"] * 500 + ["B-X", "I-X", "O"] + ["O"] * 500]
    predicted = [["O"] * 500 + ["B-X", "O", "O"] + ["O"] * 500]
    data = Dataset.from_dict({"words": [[f"w{i}" for i in range(502)] + ["x" * 10_000] + ["w"] * 500]})
    (one,) = tag_facts(predicted, gold, data, "bio", TAGS)["sentences"]
    before, after = one["left_out"]
    assert len(one["words"]) == MOST_WORDS == 1003 - before - after and one["words"][500 - before] == "w500"
    assert one["gold"] == [["X", 500 - before, 502 - before, False]] and max(map(len, one["words"])) == MOST_LETTERS
    assert f"… {before} words" in page_of(facts_of(predicted, gold, "bio", TAGS))


@pytest.mark.usefixtures("drawn")
def test_a_page_of_100_000_sentences_is_small_and_opens(tmp_path):
    names = ["O", *(f"{p}-T{i}" for i in range(60) for p in "BI")]
    predicted, gold = ([row[:4] for row in rows] for rows in make(names, size=200))
    many, words = 500, [[f"word{i}" for i in range(len(row))] for row in gold]
    data = Dataset.from_dict({"words": words * many})
    facts = tag_facts(predicted * many, gold * many, data, "bio", names)
    text = json.dumps(facts)
    page = page_of(json.loads(text))
    assert len(text) < 200_000 and len(page.encode()) < LIMIT
    assert facts["sequences"] == 100_000 and facts["confusion"]["left_out"] == 30
    script = "const fits = document.documentElement.scrollWidth <= innerWidth;"
    script += "document.title = document.querySelectorAll('.sentence').length + (fits ? ' fit' : '')"
    assert in_browser(page, script, tmp_path) == f"{MOST_SENTENCES} fit"
    few = facts_of(predicted, gold, "bio", names)["types"]
    assert [row["support"] for row in facts["types"]] == [many * row["support"] for row in few]


# --- runs ------------------------------------------------------------------------------------------------------------


def read(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


def check_energies(folder, rows, lines, shown):
    """The energies of the sentences are those of the saved nets."""
    both = SealForTokenClassification.from_pretrained(folder, with_loss_net=True)
    places = {(line.get("line"), line.get("row")): i for i, line in enumerate(lines)}
    for one in shown:
        i = places[one["origin"].get("line"), one["origin"].get("row")]
        batch, ids = rows.batch([i]), both.config.label2id
        labels = batch.pop("labels")
        y = torch.zeros(1, 2, *labels.shape[1:], len(ids))
        for s, side in enumerate(("gold", "predicted")):
            for place, tag in zip(torch.nonzero(labels[0] >= 0)[:, 0], lines[i][side], strict=True):
                y[0, s, place, ids[tag]] = 1
        with torch.no_grad():
            expected = both.energy(y, labels >= 0, **batch)[0].tolist()
        assert one["energies"] == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.usefixtures("drawn")
def test_a_run_of_the_program_leaves_a_page(tmp_path):
    pytest.importorskip("matplotlib")
    metrics = run(tmp_path, "--report_to", "none", "--num_train_epochs", "1")
    lines = [json.loads(line) for line in (tmp_path / "_predictions_test.jsonl").read_text().splitlines()]
    facts = read(tmp_path, "_report.json")["facts"]["tags"]
    predicted, gold = ([line[side] for line in lines] for side in ("predicted", "gold"))
    report = tag_report(predicted, gold, "bio")
    assert {row["type"]: {name: row[name] for name in report["X"]} for row in facts["types"]} == report
    assert facts["broken"]["sequences"] / len(lines) == pytest.approx(metrics["test_malformed"])
    assert facts["split"] == "test" and facts["sentences"][0]["origin"]["source"] == "toy_tags, test split"
    rows = Dataset.from_dict({"words": [line["words"] for line in lines], "tags": [[0] * len(g) for g in gold]})
    check_energies(tmp_path, encode_words(rows, Vocabulary.from_pretrained(tmp_path)), lines, facts["sentences"])

    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for name, figures in report.items():
        (row,) = re.findall(rf"<tr><td>{name}</td>(.*?)</tr>", page.replace("\n", ""))[:1]
        assert [f"{figures[key]:.4f}" in row for key in ("f1", "precision", "recall")] == [True] * 3
    (tmp_path / "report.html").unlink()
    assert write_page(tmp_path).read_text(encoding="utf-8") == page


@pytest.mark.parametrize("adapter", [[], ["--adapter", "lora", "--loss_net_encoder", "peft"]])
def test_energies_of_an_encoder(tmp_path, adapter):
    if adapter:
        pytest.importorskip("peft")
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "bert")
    tiny_tokenizer().save_pretrained(tmp_path / "bert")
    data = ["--dataset", columns(tmp_path / "data", "train", "dev", "test"), "--report", "false"]
    run(tmp_path / "out", *data, "--model_name_or_path", str(tmp_path / "bert"), *adapter)
    lines = [json.loads(line) for line in (tmp_path / "out/_predictions_test.jsonl").read_text().splitlines()]
    rows = Dataset.from_dict(
        {"words": [line["words"] for line in lines], "tags": [[0] * len(x["gold"]) for x in lines]}
    )
    shown = read(tmp_path / "out", "_report.json")["facts"]["tags"]["sentences"]
    check_energies(tmp_path / "out", tokenize_words(rows, tiny_tokenizer()), lines, shown)
