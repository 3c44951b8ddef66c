"""`seal-hf predict` and `evaluate` of tags. Oracles: the trainer's own predictions, seqeval's entities, the reader of
training files on what was written."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_tags
import torch
from datasets import Dataset
from seqeval.metrics.sequence_labeling import get_entities
from tiny_models import WORDS, tiny_config, tiny_tokenizer
from transformers import AutoModel

from seal_hf import SealForTokenClassification, Vocabulary, encode_words, tokenize_words
from seal_hf.cli.predict import main as predict
from seal_hf.data import load_tags
from seal_hf.data.columns import read_columns
from seal_hf.tasks.tags.decisions import predicted_tags
from seal_hf.tasks.tags.metrics import tag_metrics, tag_report

TAGS = tiny_tags.TAGS
DECODERS = {False: ["independent", "constrained"], True: ["viterbi", "constrained_viterbi", "independent"]}


def sharpen(task_net):
    """Makes the outputs of a net with random weights differ from word to word."""
    torch.manual_seed(3)
    for name, parameter in task_net.named_parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=3.0 if name.startswith(("classifier", "crf")) else 0.5)


def made(folder, kind, crf=False):
    """Nets with random weights, saved with what reads words; and their trainer."""
    both, rows = tiny_tags.nets(kind, folder, crf=crf or None)
    sharpen(both.task_net)
    task_loss = "crf" if crf else "cross_entropy"
    trainer = tiny_tags.trainer(folder / "run", both, rows, task_loss=task_loss, per_device_eval_batch_size=8)
    trainer.save_model(str(folder / "model"))
    processor = Vocabulary.from_data(tiny_tags.sentences()) if kind == "bilstm" else tiny_tokenizer()
    processor.save_pretrained(folder / "model")
    return trainer, rows


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(kind of net, with a CRF) -> the folder of both nets, the trainer and its rows; each is made once."""
    known = {}

    def give(kind="bilstm", crf=False):
        if (kind, crf) not in known:
            folder = tmp_path_factory.mktemp("tags")
            trainer, rows = made(folder, kind, crf)
            known[kind, crf] = SimpleNamespace(path=str(folder / "model"), trainer=trainer, rows=rows)
        return known[kind, crf]

    return give


def write_columns(path, words, *columns, separator="\t"):
    """A sentence per list of words, with further columns beside them."""
    blocks = ["\n".join(map(separator.join, zip(*row, strict=True))) for row in zip(words, *columns, strict=True)]
    path.write_text("\n\n".join(blocks) + "\n\n", encoding="utf-8")
    return path


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def objects(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(model, source, output, *flags):
    predict(["--model", model, "--input", str(source), "--output", str(output), "--batch_size", "5", *flags])
    return output


# --- the trainer's predictions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bilstm", "bert"])
@pytest.mark.parametrize("crf", [False, True])
def test_predictions_are_those_of_the_trainer_by_every_decoder(saved, tmp_path, kind, crf):
    model = saved(kind, crf)
    expected, _ = predicted_tags(model.trainer, model.rows, DECODERS[crf])
    words = tiny_tags.sentences()["words"][:]
    source = write_lines(tmp_path / "new.jsonl", [{"words": row} for row in words])
    for decoder in (None, *DECODERS[crf]):
        flags = ("--decoder", decoder, "--overwrite") if decoder else ()
        found = objects(run(model.path, source, tmp_path / "out.jsonl", *flags))
        assert [row["tags"] for row in found] == expected[decoder or model.trainer.space.decoder]
        assert [row["words"] for row in found] == words
    assert len({json.dumps(tags) for tags in expected.values()}) > 1  # else the decoders are not told apart


@pytest.mark.parametrize("kind", ["bilstm", "bert"])
def test_probabilities_and_energies_are_those_of_the_model(saved, tmp_path, kind):
    """Oracle: a batch of one row, through the tensors."""
    model = saved(kind)
    words = tiny_tags.sentences()["words"][:12]
    source = write_lines(tmp_path / "new.jsonl", [{"words": row, "id": i} for i, row in enumerate(words)])
    rows = objects(run(model.path, source, tmp_path / "all.jsonl", "--probabilities", "all", "--energy", "true"))
    top = objects(run(model.path, source, tmp_path / "top.jsonl", "--probabilities", "top"))
    seal = SealForTokenClassification.from_pretrained(model.path)
    assert [row["id"] for row in rows] == list(range(12))
    for i, (row, short) in enumerate(zip(rows, top, strict=True)):
        batch = model.rows.batch([i])
        labels = batch.pop("labels")
        with torch.no_grad():
            probabilities, _ = seal.predict(mask=labels >= 0, **batch)
            labels[labels >= 0] = torch.tensor([TAGS.index(tag) for tag in row["tags"]])
            y, mask = seal.space.gold(labels)
            energy = seal.energy(y, mask, **batch)
        expected = probabilities[0][mask[0]].numpy()
        assert [list(word) for word in row["probabilities"]] == [TAGS] * len(words[i])
        found = np.array([list(word.values()) for word in row["probabilities"]])
        assert np.allclose(found, expected, atol=1e-5)
        assert row["energy"] == pytest.approx(energy.item(), abs=1e-5)
        assert short["probabilities"] == [
            word[tag] for word, tag in zip(row["probabilities"], row["tags"], strict=True)
        ]
        assert "energy" not in short and short["tags"] == row["tags"]


# --- entities --------------------------------------------------------------------------------------------------------


def test_entities_are_those_of_seqeval(saved, tmp_path):
    model = saved()
    words = tiny_tags.sentences(200, seed=5)["words"][:]
    source = write_lines(tmp_path / "new.jsonl", [{"tokens": row} for row in words])
    rows = objects(
        run(model.path, source, tmp_path / "out.jsonl", "--probabilities", "top", "--decoder", "independent")
    )
    assert sum(len(row["entities"]) for row in rows) > 50
    for row in rows:
        assert row["text"] == " ".join(row["words"])
        spans = []
        for entity in row["entities"]:
            assert row["text"][entity["start"] : entity["end"]] == entity["text"]
            first = len(row["text"][: entity["start"]].split())
            last = first + len(entity["text"].split()) - 1
            spans.append((entity["label"], first, last))
            assert entity["score"] == pytest.approx(np.mean(row["probabilities"][first : last + 1]), abs=2e-6)
        assert spans == get_entities(row["tags"])


def test_raw_text_has_offsets_into_its_own_text(saved, tmp_path):
    model = saved()
    texts = ["a film,  song and\tplot!", "(bad) Book's song"] * 30
    (tmp_path / "new.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    rows = objects(run(model.path, tmp_path / "new.txt", tmp_path / "out.jsonl"))
    assert [row["text"] for row in rows] == texts and [row["line"] for row in rows] == list(range(1, 120, 2))
    assert rows[0]["words"] == ["a", "film", ",", "song", "and", "plot", "!"]
    for row in rows:
        assert all(row["text"][e["start"] : e["end"]] == e["text"] for e in row["entities"])
    seal = SealForTokenClassification.from_pretrained(model.path)
    _, tags = seal.predict([row["words"] for row in rows])
    assert [row["tags"] for row in rows] == tags and any(row["entities"] for row in rows)
    assert seal.predict([]) == ([], [])


def test_every_plain_tag_is_an_entity(tmp_path):
    torch.manual_seed(0)
    data = Dataset.from_dict({"words": [["good", "film"]], "tags": [[0, 1]], "pos": [["A", "N"]]})
    given = SimpleNamespace(name="tiny", kind="plain", label_names=["ADJ", "NOUN"], train=data)
    vocabulary = Vocabulary.from_data(data, features=["pos", "case"], characters=True)
    seal = SealForTokenClassification.for_data(given, vocabulary=vocabulary, word_size=4, hidden_size=8)
    seal.save_pretrained(tmp_path / "model")
    vocabulary.save_pretrained(tmp_path / "model")
    source = write_columns(tmp_path / "new.tsv", [["good", "film"]], [["A", "N"]])
    (row,) = objects(run(str(tmp_path / "model"), source, tmp_path / "out.jsonl"))
    assert [entity["label"] for entity in row["entities"]] == row["tags"]
    assert [entity["text"] for entity in row["entities"]] == row["words"] == ["good", "film"]
    _, expected = seal.eval().predict(
        **{k: v for k, v in encode_words(data, vocabulary).batch([0]).items() if k != "labels"}
    )
    assert row["tags"] == [given.label_names[tag] for tag in expected[0]]  # the column `pos` was read
    (tmp_path / "new.txt").write_text("good film", encoding="utf-8")
    with pytest.raises(ValueError, match="reads the column `pos` beside the words, and lines of text have none"):
        run(str(tmp_path / "model"), tmp_path / "new.txt", tmp_path / "other.jsonl")


# --- columns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".conll", ".tsv", ".txt"])
def test_columns_are_kept_and_read_back(saved, tmp_path, suffix):
    """Oracle: `read_columns` and `load_tags` on what was written."""
    model = saved()
    words = tiny_tags.sentences()["words"][:]
    pos = [[word.upper() for word in row] for row in words]
    source = write_columns(tmp_path / "new.conll", words, pos, separator=" ")
    source.write_text("-DOCSTART- X\n\n# id 1, a comment\n" + source.read_text())
    output = run(model.path, source, tmp_path / f"dev{suffix}")
    expected = [row["tags"] for row in objects(run(model.path, source, tmp_path / "out.jsonl"))]
    rows, notes = read_columns(output)
    assert (rows["words"], rows["pos"], rows["tags"]) == (words, pos, expected)
    assert "1 comment lines skipped" in notes[0]
    old, new = (path.read_text().split("\n") for path in (source, output))
    assert [line.rpartition(" ")[0] if line[:1] not in ("", "-", "#") else line for line in new] == old
    (tmp_path / "both").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "both" / f"{split}.conll").write_text(output.read_text())
    data = load_tags(str(tmp_path / "both"), scheme="plain")
    assert [[data.label_names[tag] for tag in row] for row in data.train["tags"]] == expected
    scored, _ = read_columns(run(model.path, source, tmp_path / f"top{suffix}", "--probabilities", "top"))
    assert (scored["words"], scored["pos"], scored["tags"]) == (words, pos, expected)
    assert all(1 / 3 <= float(p) <= 1 for row in scored["chunk"] for p in row)


def test_raw_text_becomes_columns(saved, tmp_path):
    (tmp_path / "new.txt").write_text("a film, bad\n# song\n", encoding="utf-8")
    rows, _ = read_columns(run(saved().path, tmp_path / "new.txt", tmp_path / "out.conll"))
    assert rows["words"] == [["a", "film", ",", "bad"], ["#", "song"]]


def test_fields_of_ours_leave_those_of_the_input_alone(saved, tmp_path, capsys):
    given = [{"words": ["film"], "tags": ["X"], "energy": 7}, {"words": ["bad"], "entities": 3, "predicate": None}]
    source = write_lines(tmp_path / "new.jsonl", given)
    predict(["--model", saved().path, "--input", str(source), "--energy", "true"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [{name: row[name] for name in old} for row, old in zip(found, given, strict=True)] == given
    assert all({"predicted_tags", "predicted_entities", "predicted_energy", "text"} < row.keys() for row in found)


def test_words_that_columns_cannot_hold(saved, tmp_path):
    source = write_lines(tmp_path / "new.jsonl", [{"words": ["film", "a\tb"]}])
    with pytest.raises(ValueError, match=r"line 1: the word 'a\\tb' contains a tab or a line break"):
        run(saved().path, source, tmp_path / "out.conll")
    (row,) = objects(run(saved().path, source, tmp_path / "out.jsonl"))
    assert row["words"] == ["film", "a\tb"]


@pytest.mark.parametrize("kind", ["bilstm", "bert"])
def test_half_precision(saved, tmp_path, kind):
    source = write_lines(tmp_path / "new.jsonl", [{"words": ["film", "good"]}])
    flags = ("--probabilities", "all", "--dtype", "bfloat16")
    (half,) = objects(run(saved(kind).path, source, tmp_path / "half.jsonl", *flags))
    (whole,) = objects(run(saved(kind).path, source, tmp_path / "whole.jsonl", *flags[:2]))
    for word, other in zip(half["probabilities"], whole["probabilities"], strict=True):
        assert word == pytest.approx(other, abs=0.1) and sum(word.values()) == pytest.approx(1, abs=1e-5)


# --- long sentences --------------------------------------------------------------------------------------------------


def test_long_sentences_are_read_in_windows(saved, tmp_path):
    """The tiny BERT takes 32 tokens. Oracle: the same words in the model's own windows, by hand; what fits in one is
    not changed by a long neighbour; the whole sentence keeps to the scheme, and has the probabilities of that."""
    model = saved("bert")
    short = ["film", "good"]
    long = [WORDS[i * i % 7] for i in range(70)]
    source = write_lines(tmp_path / "new.jsonl", [{"words": short}, {"words": long}, {"words": long[:30]}])
    flags = ("--probabilities", "all", "--energy", "true", "--decoder", "constrained")
    rows = objects(run(model.path, source, tmp_path / "out.jsonl", *flags))
    assert [len(row["tags"]) for row in rows] == [2, 70, 30]
    seal = SealForTokenClassification.from_pretrained(model.path)
    (one, other), tags = seal.predict([short, long[:30]], decoder="constrained")
    assert [rows[0]["tags"], rows[2]["tags"]] == tags

    def found(row):
        return np.array([list(word.values()) for word in row["probabilities"]])

    assert np.allclose(found(rows[0]), one, atol=2e-6) and np.allclose(found(rows[2]), other, atol=1e-5)
    bounds = [(0, 30, 0, 26), (23, 53, 26, 49), (46, 70, 49, 70)]  # 30 words and two special tokens; a quarter shared
    parts, _ = seal.predict([long[start:end] for start, end, _, _ in bounds], decoder="independent")
    kept = [part[first - start : last - start] for part, (start, _, first, last) in zip(parts, bounds, strict=True)]
    whole = seal.space.decided_by("constrained").relax(torch.cat(kept).log().unsqueeze(0))[0]
    assert np.allclose(found(rows[1]), whole, atol=1e-5)
    assert all(not (a == "O" and b == "I-X") for a, b in zip(["O", *rows[1]["tags"]], rows[1]["tags"], strict=False))
    assert rows[1]["energy"] is None and isinstance(rows[0]["energy"], float)


def test_a_word_that_no_window_holds_is_named(saved, tmp_path):
    source = write_lines(tmp_path / "new.jsonl", [{"words": ["good"]}, {"words": ["bad", "-".join(WORDS * 4)]}])
    with pytest.raises(
        ValueError, match="new.jsonl, line 2: word 1 has 63 sub-words, but the encoder reads at most 30 at once"
    ):
        run(saved("bert").path, source, tmp_path / "out.jsonl")
    with pytest.raises(ValueError, match="`max_length` is 2; with special tokens a row has at least 3"):
        run(saved("bert").path, source, tmp_path / "out.jsonl", "--max_length", "2")
    assert not (tmp_path / "out.jsonl").exists()


# --- semantic roles --------------------------------------------------------------------------------------------------

ROLES = ["O", "B-ARG0", "I-ARG0", "B-V"]
SENTENCE = (
    "0\tgood\tJJ\t*\t-\t-\t(ARG0*\t*\n1\tfilm\tNN\t*\t-\t-\t*)\t(ARG0*)\n"
    "2\tplot\tVB\t*\tplot\tplot.01\t(V*)\t*\n3\tsong\tVB\t*\tsing\tsing.01\t*\t(V*)\n\n"
)


@pytest.mark.parametrize("marker", ["token_type", "segment"])
def test_roles_need_their_predicate(tmp_path, marker):
    torch.manual_seed(1)
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "bert")
    sentence = {
        "words": [["good", "film", "plot", "song"]] * 2,
        "tags": [[1, 2, 3, 0], [0, 1, 0, 3]],
        "predicate": [2, 3],
    }
    data = Dataset.from_dict(sentence)
    given = SimpleNamespace(name="tiny", kind="srl", label_names=ROLES, train=data)
    seal = SealForTokenClassification.for_data(given, tmp_path / "bert", global_size=8)
    sharpen(seal.task_net)
    seal.config.inputs = {"predicate_marker": marker}
    seal.save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    batch = tokenize_words(data, tiny_tokenizer(), predicate_marker=marker).batch([0, 1])
    mask = batch.pop("labels") >= 0
    _, ids = seal.eval().predict(mask=mask, **batch)
    expected = [[ROLES[tag] for tag in row[counts]] for row, counts in zip(ids, mask, strict=True)]
    assert expected[0] != expected[1]  # the predicate is read
    (tmp_path / "new.srl").write_text(SENTENCE)
    (tmp_path / "plain.srl").write_text(
        SENTENCE.replace("\t(ARG0*\t*", "")
        .replace("\t*)\t(ARG0*)", "")
        .replace("\t(V*)\t*", "")
        .replace("\t*\t(V*)", "")
    )
    rows = [{"words": words, "predicate": place} for words, place in zip(data["words"], data["predicate"], strict=True)]
    write_lines(tmp_path / "new.jsonl", rows)
    for name in ("new.srl", "plain.srl", "new.jsonl"):
        found = objects(run(str(tmp_path / "model"), tmp_path / name, tmp_path / "out.jsonl", "--overwrite"))
        assert [(row["tags"], row["predicate"]) for row in found] == list(zip(expected, [2, 3], strict=True))
    written, _ = read_columns(run(str(tmp_path / "model"), tmp_path / "new.srl", tmp_path / "out.conll"), 1)
    assert written["words"] == data["words"][:] and written["tags"] == expected
    assert written["column_4"] == [["-", "-", "plot", "-"], ["-", "-", "-", "sing"]]
    (tmp_path / "new.txt").write_text("good film")
    write_lines(tmp_path / "none.jsonl", [{"words": ["film"]}])
    write_lines(tmp_path / "long.jsonl", [rows[0], {"words": ["film"] * 32, "predicate": 0}])
    for name, message in (
        ("new.txt", "line 1: 2 columns, expected 6: index, word, POS"),
        ("none.jsonl", "line 1: the row has the fields words; expected predicate"),
        ("long.jsonl", r"long.jsonl, line 2: 3. sub-words, but the encoder takes .* its predicate must be among them"),
    ):
        with pytest.raises(ValueError, match=message):
            run(str(tmp_path / "model"), tmp_path / name, tmp_path / "other.jsonl")


# --- evaluate --------------------------------------------------------------------------------------------------------


def evaluated(capsys, model, source, *flags):
    from seal_hf.cli.predict import evaluate

    evaluate(["--model", model, "--input", str(source), *flags])
    return capsys.readouterr().out


def test_figures_are_those_of_the_trainer(saved, tmp_path, capsys):
    model = saved("bert", True)
    data = tiny_tags.sentences()
    gold = [[TAGS[tag] for tag in row] for row in data["tags"]]
    source = write_columns(tmp_path / "test.conll", data["words"][:], gold)
    expected, _ = predicted_tags(model.trainer, model.rows, DECODERS[True])
    for decoder in (None, "independent"):
        flags = ("--decoder", decoder, "--overwrite") if decoder else ()
        out = evaluated(capsys, model.path, source, "--output", str(tmp_path / "out.json"), *flags)
        results = json.loads((tmp_path / "out.json").read_text())
        tags = expected[decoder or "viterbi"]
        assert results["decoder"] == (decoder or "viterbi")
        assert ("given by --decoder" if decoder else "stored with the model") in out
        assert results["figures"] == tag_metrics(tags, gold, "bio")
        assert results["tags"] == tag_report(tags, gold, "bio") and "F1 of spans" in out
        assert results["decoders"] == {name: tag_metrics(found, gold, "bio") for name, found in expected.items()}


def test_refit_chooses_the_decoder_on_these_rows(saved, tmp_path, capsys):
    """Gold that is what one decoder predicts: that one is chosen."""
    model = saved("bert", True)
    data = tiny_tags.sentences()
    expected, _ = predicted_tags(model.trainer, model.rows, DECODERS[True])
    source = write_columns(tmp_path / "test.conll", data["words"][:], expected["constrained_viterbi"])
    flags = ("--refit", "true", "--output", str(tmp_path / "out.json"))
    assert "fitted anew on these rows" in evaluated(capsys, model.path, source, *flags)
    results = json.loads((tmp_path / "out.json").read_text())
    assert results["decoder"] == "constrained_viterbi" and results["figures"]["accuracy"] == 1
    assert results["decoders"]["viterbi"]["f1"] < 1


def test_a_tag_that_the_model_does_not_know(saved, tmp_path, capsys):
    source = write_columns(tmp_path / "test.conll", [["good", "film"]], [["O", "B-Z"]])
    with pytest.raises(
        ValueError, match="test.conll, line 1: the model does not know the tag 'B-Z'; it has O, B-X, I-X"
    ):
        evaluated(capsys, saved().path, source)
    words, tags = [["a", "b", "c"]] * 4, [["O", "B-X", "I-X"]] * 3 + [["O", "B-Z", "B-X"]]
    source = write_columns(tmp_path / "test.conll", words, tags)
    evaluated(capsys, saved().path, source, "--output", str(tmp_path / "out.json"))
    predicted = objects(run(saved().path, source, tmp_path / "out.jsonl"))
    right = sum(
        p == g for row, gold in zip(predicted, tags, strict=True) for p, g in zip(row["tags"], gold, strict=True)
    )
    assert json.loads((tmp_path / "out.json").read_text())["figures"]["accuracy"] == pytest.approx(right / 12)


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--output", "out.conll", "--energy", "true"], "`energy` is True, but columns"),
        (["--output", "out.tsv", "--probabilities", "all"], "`probabilities` is 'all', but columns"),
        (["--output", "out.jsonl", "--decoder", "viterbi"], "`decoder` is 'viterbi'; these decisions have independent"),
        (["--output", "out.jsonl", "--max_length", "8"], "`max_length` is for a Hugging Face encoder"),
        (["--output", "out.jsonl", "--word_column", "tokens"], "`word_column` is 'tokens'; columns of this format"),
        (["--output", "out.jsonl", "--word_column", "3"], "1 columns, but `word_column` is 3"),
        (["--output", "out.jsonl", "--batch_size", "0"], "'0' is not a whole number of at least 1"),
        (["--output", "out.csv"], "'out.csv', but its suffix is not a format"),
    ],
)
def test_mistakes_are_said_in_one_line(saved, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    write_columns(tmp_path / "new.conll", [["film"]])
    with pytest.raises(ValueError, match=message) as caught:
        predict(["--model", saved().path, "--input", "new.conll", *flags])
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["new.conll"]
