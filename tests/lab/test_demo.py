"""What the page of `seal-hf demo` answers. Oracles: `seal-hf predict` on the same rows, the energies of the nets
themselves, brute force over all label sets, an HTML parser on what is written."""

import copy
import itertools
import json
import re
import struct
import zipfile
import zlib
from html.parser import HTMLParser
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import tiny_class_masks
import tiny_images
import tiny_masks
import torch
from datasets import Dataset
from predicting import trained_on_features, trained_on_texts, write
from pyarrow import parquet
from test_cli_predict_tags import ROLES, TAGS, made, sharpen
from tiny_models import LABELS, tiny_config, tiny_tokenizer
from transformers import AutoModel

from seal_hf import SealForMultiLabel, SealForSegmentation, SealForTokenClassification, fcn_image_processor
from seal_hf.cli.predict import main as predict
from seal_hf.data.tensors.images import resize_to
from seal_hf.decisions import ClassMaskDecisions, MaskDecisions
from seal_hf.lab.demo import files, markup
from seal_hf.lab.demo.files import predict_file
from seal_hf.lab.demo.page import told
from seal_hf.lab.demo.program import view_of
from seal_hf.saving.batches import text_rows
from seal_hf.tasks.masks.demo import CUTS, coloured, enlarged, overlaid, shares

# not imported to see whether it is there: that takes seconds, also in a process that runs other tests
pytestmark = pytest.mark.skipif(find_spec("gradio") is None, reason="the page needs the extra demo")
EVIL = "<script>good()</script> & film <img src=x onerror='bad()'>"
DECODERS = ("fixed", "threshold", "thresholds", "expected_f1", "0.3")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The view of a net of texts, its folder, and texts."""
    _, folder, rows = trained_on_texts(tmp_path_factory.mktemp("texts"))
    return SimpleNamespace(view=view_of(["--model", str(folder)]), folder=folder, rows=rows["text"][:12])


@pytest.fixture(scope="module")
def masks(tmp_path_factory):
    """The view of a net of masks, its folder, and images."""
    folder = tmp_path_factory.mktemp("masks")
    torch.manual_seed(0)
    nets = tiny_masks.model()
    for score in nets.task_net.scores:
        score.weight.data *= 20
    MaskDecisions("threshold", threshold=0.4).store(nets.config)
    nets.save_pretrained(folder)
    resize_to(fcn_image_processor(), (16, 16)).save_pretrained(folder)
    return SimpleNamespace(view=view_of(["--model", str(folder)]), folder=folder, rows=tiny_masks.squares(5).images)


@pytest.fixture(scope="module")
def tags(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tags")
    made(folder, "bert")
    return SimpleNamespace(view=view_of(["--model", str(folder / "model")]), folder=folder / "model")


def by_command(folder, source, output, *flags):
    """What `seal-hf predict` writes."""
    predict(["--model", str(folder), "--input", str(source), "--output", str(output), *flags])
    return output


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def elements(text):
    """The names of the elements of an answer, and its text."""
    found = SimpleNamespace(names=[], text="")
    parser = HTMLParser(convert_charrefs=True)
    parser.handle_starttag = lambda name, attributes: found.names.append((name, dict(attributes)))
    parser.handle_data = lambda data: setattr(found, "text", found.text + data)
    parser.feed(text)
    return found


# --- label sets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_text_is_decided_as_by_the_command(texts, tmp_path, decoder):
    source = write(tmp_path / "new.jsonl", [{"text": text} for text in texts.rows])
    flags = ["--decoder", decoder, "--energy", "true", "--probabilities", "all"]
    expected = rows_of(by_command(texts.folder, source, tmp_path / "out.jsonl", *flags))
    asked = texts.view.under(decoder)
    for text, row in zip(texts.rows, expected, strict=True):
        p, chosen = texts.view.decide(text, asked)
        assert [LABELS[i] for i in np.flatnonzero(chosen)] == row["labels"]
        np.testing.assert_allclose(p, [*row["probabilities"].values()], atol=2e-6)
        first, *others = texts.view.alternatives(text, asked, p, chosen)
        assert first.decided and not any(other.decided for other in others)
        assert first.what == (", ".join(row["labels"]) or "no label")
        assert first.energy == pytest.approx(row["energy"], abs=1e-4)
        bars = {bar.name: bar for bar in texts.view.bars(p, chosen, decoder)}
        assert [name for name in LABELS if bars[name].chosen] == row["labels"]
        if decoder != "expected_f1":  # a mark is where the decision changes
            assert all((bar.value >= bar.mark) == bar.chosen for bar in bars.values())
        assert (bars["joy"].mark is None) == (decoder == "expected_f1")


def test_the_alternatives_are_the_likeliest_of_all_sets_with_the_energies_of_the_loss_net(texts):
    nets = SealForMultiLabel.from_pretrained(texts.folder)
    every = np.array(list(itertools.product([0, 1], repeat=len(LABELS))))
    for text in texts.rows[:4]:
        p, chosen = texts.view.decide(text, texts.view.under("threshold"))
        shares = np.where(every, p, 1 - p).prod(1)
        order = [i for i in np.argsort(-shares) if (every[i] != chosen).any()][:5]
        batch = text_rows([text], tiny_tokenizer(), nets.config).batch([0])
        with torch.no_grad():
            energies = nets.energy(torch.from_numpy(every[order]).float()[None], **batch)[0]
        found = texts.view.alternatives(text, texts.view.under("threshold"), p, chosen)[1:]
        names = [", ".join(label for label, y in zip(LABELS, every[i], strict=True) if y) or "no label" for i in order]
        assert [row.what for row in found] == names
        np.testing.assert_allclose([row.share for row in found], shares[order], rtol=1e-6)
        np.testing.assert_allclose([row.energy for row in found], energies, atol=1e-4)


def test_features_are_typed_in_as_numbers(tmp_path):
    _, folder, rows = trained_on_features(tmp_path)
    view, row = view_of(["--model", str(folder)]), rows["features"][0]
    given = view.read(", ".join(map(str, row)))
    np.testing.assert_array_equal(given, np.float32(row))
    np.testing.assert_array_equal(view.read(f"[{' '.join(map(str, row))}]"), given)
    source = write(tmp_path / "new.jsonl", [{"features": row}])
    (expected,) = rows_of(by_command(folder, source, tmp_path / "out.jsonl"))
    _, chosen = view.decide(given, view.under(None))
    assert [LABELS[i] for i in np.flatnonzero(chosen)] == expected["labels"]
    assert "Energies" in view.answer(given, "fixed")[0]
    shift, deviation = np.mean(rows["features"], axis=0), np.std(rows["features"], axis=0)
    view.kind.model.task_net.encoder.set_scaling(SimpleNamespace(shift=shift, scale=1 / deviation))
    mean, above = (view.read(*values) for values in view.examples)
    np.testing.assert_allclose([mean, above], [shift, shift + deviation], rtol=2e-3)
    for text, message in (("1 2", "reads 6 finite numbers; found 2"), ("a", "Features are numbers"), ("", "found 0")):
        with pytest.raises(ValueError, match=message):
            view.read(text)


# --- tags ------------------------------------------------------------------------------------------------------------


def test_a_sentence_is_tagged_as_by_the_command(tags, tmp_path):
    lines = ["good film book.", "A song</b> plot", "bad film"]
    nets = SealForTokenClassification.from_pretrained(tags.folder)
    (tmp_path / "new.txt").write_text("\n".join(lines))
    for decoder in ("independent", "constrained"):
        flags = ["--decoder", decoder, "--energy", "true", "--probabilities", "all"]
        expected = rows_of(by_command(tags.folder, tmp_path / "new.txt", tmp_path / f"{decoder}.jsonl", *flags))
        asked = tags.view.under(decoder)
        for line, row in zip(lines, expected, strict=True):
            given = tags.view.read(line)
            (tagged,) = asked.tagger([given])
            spans = [{**span, "score": pytest.approx(span["score"], abs=1e-5)} for span in row["entities"]]
            assert tagged.tags == row["tags"] and asked.entities(given, tagged) == spans
            first, *others = tags.view.alternatives(given, asked, tagged)
            assert first.energy == pytest.approx(row["energy"], abs=1e-4) and len(others) == 5
            (p,), _ = nets.predict([given.words], decoder=decoder)
            every = list(itertools.product(range(p.shape[1]), repeat=len(p)))
            shares = np.array([p.double()[range(len(p)), tags].prod().item() for tags in every])
            order = [i for i in np.argsort(-shares) if [TAGS[tag] for tag in every[i]] != row["tags"]][:5]
            np.testing.assert_allclose([row.share for row in others], shares[order], rtol=1e-4)
            page = elements(tags.view.answer(given, decoder)[0])
            assert [name for name, _ in page.names].count("mark") == len(row["entities"]) and "b" not in page.names
            assert all(span["text"] in page.text for span in row["entities"])


def test_roles_need_a_predicate(tmp_path):
    torch.manual_seed(1)
    AutoModel.from_config(tiny_config("bert")).save_pretrained(tmp_path / "bert")
    words = ["good", "film", "plot", "song"]
    train = Dataset.from_dict({"words": [words], "tags": [[1, 2, 3, 0]], "predicate": [2]})
    data = SimpleNamespace(name="tiny", kind="srl", label_names=ROLES, train=train)
    nets = SealForTokenClassification.for_data(data, tmp_path / "bert", global_size=8)
    sharpen(nets.task_net)
    nets.config.inputs = {"predicate_marker": "token_type"}
    nets.save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    view = view_of(["--model", str(tmp_path / "model")])
    source = write(tmp_path / "new.jsonl", [{"words": words, "predicate": place} for place in (2, 3)])
    expected = rows_of(by_command(tmp_path / "model", source, tmp_path / "out.jsonl"))
    assert expected[0]["tags"] != expected[1]["tags"]
    for row in expected:
        given = view.read(" ".join(words), row["predicate"])
        assert view.under(None).tagger([given])[0].tags == row["tags"]
        assert f"<u>{words[row['predicate']]}</u>" in view.answer(given, view.stored)[0]
    for place in (None, 4):
        with pytest.raises(ValueError, match="choose one of the words"):
            view.read(" ".join(words), place)
    assert ".csv" not in view.files and ".srl" in view.files


# --- masks -----------------------------------------------------------------------------------------------------------


def test_an_image_is_cut_as_by_the_model_and_the_command_gives_its_energy(masks, tmp_path):
    image_file = pytest.importorskip("PIL.Image")
    image_file.fromarray(masks.rows[0]).save(tmp_path / "one.png")
    given = masks.view.read(str(tmp_path / "one.png"))
    np.testing.assert_array_equal(given, masks.rows[0])
    probabilities, decided = SealForSegmentation.from_pretrained(masks.folder).predict([given])
    over, grey, said = masks.view.answer(given, "threshold")
    np.testing.assert_array_equal(over, enlarged(overlaid(given, decided[0].numpy())))
    np.testing.assert_array_equal(grey, enlarged((255 * probabilities[0].numpy()).round().astype(np.uint8)))
    assert "256 pixels are foreground, at a threshold of 0.4" in said
    found = masks.view.alternatives(given, "threshold", probabilities[0].numpy())
    assert [row.what for row in found] == [f"threshold {cut}" for cut in (0.4, *CUTS)] and found[0].decided
    for row, cut in zip(found, (0.4, *CUTS), strict=True):
        assert row.share == pytest.approx(float((probabilities[0] >= cut).double().mean()))
        output = tmp_path / f"out{100 * cut:.0f}"
        by_command(masks.folder, tmp_path / "one.png", output, "--energy", "true", "--decoder", str(cut))
        assert json.loads((output / "energies.json").read_text()) == {"one": row.energy}


def test_a_mask_colours_its_pixels_and_no_others():
    image = np.full((2, 3, 3), 100, dtype=np.uint8)
    mask = np.array([[1, 0, 0], [0, 0, 1]])
    over = overlaid(image, mask)
    assert ((over != image).any(2) == (mask == 1)).all() and over.dtype == np.uint8
    assert enlarged(over).shape == (212, 318, 3)
    np.testing.assert_array_equal(enlarged(over)[::106, ::106], over)


def test_classes_are_in_colour_with_a_legend_and_energies(tmp_path):
    image_file = pytest.importorskip("PIL.Image")
    nets, image = tiny_class_masks.model(), tiny_class_masks.shapes(1).images[0]
    nets.config.id2label = dict(enumerate(["ground", "square", EVIL]))
    ClassMaskDecisions().store(nets.config)
    nets.save_pretrained(tmp_path / "model")
    resize_to(fcn_image_processor(), (16, 16)).save_pretrained(tmp_path / "model")
    view, seal = view_of(["--model", str(tmp_path / "model")]), SealForSegmentation.from_pretrained(tmp_path / "model")
    assert not view.cuts and view.decoders == ("fixed",) and view.threshold_of("fixed") is None
    image_file.fromarray(image).save(tmp_path / "one.png")
    over, grey, said = view.answer(view.read(str(tmp_path / "one.png")), "fixed")
    (p,), (mask,) = seal.predict([image])
    np.testing.assert_array_equal(over, enlarged(coloured(image, mask.numpy())))
    np.testing.assert_array_equal(grey, enlarged((255 * p.amax(0).numpy()).round().astype(np.uint8)))
    counts = mask.flatten().bincount(minlength=3).tolist()
    assert all(markup.percent(count / 256) in said for count in counts if count) and "<script>" not in said
    first, *others = view.given_up(image, list(shares(mask.numpy())))
    by_command(tmp_path / "model", tmp_path / "one.png", tmp_path / "out", "--energy", "true")
    assert round(first.energy, 6) == json.loads((tmp_path / "out" / "energies.json").read_text())["one"]
    assert [1 - row.share for row in others] == pytest.approx([count / 256 for count in sorted(counts)[::-1] if count])


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("energy", [True, False])
def test_the_predictions_of_a_file_are_those_of_the_command_to_the_byte(texts, tmp_path, energy):
    source = write(tmp_path / "new.csv", [{"id": i, "text": text} for i, text in enumerate([*texts.rows, EVIL])])
    said = []
    found = predict_file(texts.view, [source], "threshold", energy, tmp_path, lambda *done: said.append(done))
    flags = ["--decoder", "threshold", "--energy", str(energy)]
    expected = by_command(texts.folder, source, tmp_path / "out.csv", *flags)
    assert found.file.read_bytes() == expected.read_bytes() and found.file.name == "new_predictions.csv"
    assert (found.count, said) == (13, [(13, 13)]) and found.inputs == [*texts.rows, EVIL]
    page = elements(texts.view.previewed(found.rows, found.inputs))
    assert {name for name, _ in page.names} == {"div", "table", "thead", "tbody", "tr", "th", "td"}
    assert EVIL in page.text and "energy" in page.text or not energy


def test_texts_of_a_csv_are_tagged(tags, tmp_path):
    source = write(tmp_path / "new.csv", [{"id": "a", "text": "good film book."}, {"id": "b", "text": EVIL}])
    found = predict_file(tags.view, [source], "constrained", True, tmp_path, lambda *done: None)
    flags = ["--decoder", "constrained", "--energy", "true"]
    expected = by_command(tags.folder, source, tmp_path / "out.jsonl", *flags)
    assert found.file.read_bytes() == expected.read_bytes() and found.file.suffix == ".jsonl"
    assert EVIL in elements(tags.view.previewed(found.rows, found.inputs)).text


def test_masks_of_several_images_are_a_zip(masks, tmp_path):
    image_file = pytest.importorskip("PIL.Image")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    files = [tmp_path / f"{'ab'[i % 2]}/{name}.png" for i, name in enumerate(("x", "y", "z"))]
    for file, image in zip(files, masks.rows, strict=False):
        image_file.fromarray(image).save(file)
    found = predict_file(masks.view, files, "0.5", False, tmp_path, lambda *done: None)
    decided = SealForSegmentation.from_pretrained(masks.folder).predict(list(masks.rows[:3]), decoder=0.5)[1]
    with zipfile.ZipFile(found.file) as archive:
        assert sorted(archive.namelist()) == ["x.png", "y.png", "z.png"]
        for name, mask in zip("xyz", decided, strict=True):
            with archive.open(f"{name}.png") as file:
                np.testing.assert_array_equal(np.asarray(image_file.open(file)), 255 * mask.numpy())
    assert [name for _, name in masks.view.previewed(found.rows, found.inputs)] == ["x", "y", "z"]
    (tmp_path / "damaged.png").write_text("no image")
    with pytest.raises(ValueError, match="^damaged.png: "):
        predict_file(masks.view, [files[0], tmp_path / "damaged.png"], "0.5", False, tmp_path, lambda *done: None)
    files[1].rename(tmp_path / "b/x.png")
    with pytest.raises(ValueError, match="Two images are called x.png"):
        predict_file(masks.view, [files[0], tmp_path / "b/x.png"], "0.5", False, tmp_path, lambda *done: None)


# --- hostile files ---------------------------------------------------------------------------------------------------


def png_of(file, width, height):
    """A PNG file that promises so many pixels, and holds a few."""
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(99))))
    parts = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    ]
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def arrays_of(file, shape):
    """An archive whose array promises this shape, and holds nothing."""
    with zipfile.ZipFile(file, "w") as archive, archive.open("images.npy", "w") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})


def table_of(file, column):
    parquet.write_table(pa.table({"text": column}), file, compression="zstd", write_statistics=False)


REPEATED = pa.DictionaryArray.from_arrays(pa.array([0] * 50, pa.int32()), pa.array(["x" * 2_000_000]))
HOSTILE = {  # name -> (what writes it, the view, message)
    "gigapixel.png": (lambda file: png_of(file, 31623, 31623), "masks", "has more than 25,000,000 pixels"),
    "large.png": (lambda file: png_of(file, 6000, 6000), "masks", "has more than 25,000,000 pixels"),
    "rows.npz": (lambda file: arrays_of(file, (10**9, 1, 1, 3)), "masks", r"its header says \(1000000000, 1, 1, 3\)"),
    "backwards.npz": (lambda file: arrays_of(file, (-1, 1, 1, 3)), "masks", "'images' is not readable"),
    "large.npz": (
        lambda file: np.savez_compressed(file, images=np.zeros((1, 5001, 5000), np.uint8)),
        "masks",
        "each image has more than 25,000,000 pixels",
    ),
    "bomb.npz": (
        lambda file: np.savez_compressed(file, images=np.zeros((1, 1, 1, 3), np.uint8), more=np.zeros(3000, np.uint8)),
        "masks",
        "bytes unpacked; the page reads at most 2,000",
    ),
    "bomb.parquet": (
        lambda file: table_of(file, [letter * 900 for letter in "xyz"]),
        "texts",
        "unpacked; the page reads at most 2,000",
    ),
    "many.parquet": (lambda file: table_of(file, [""] * 600), "texts", "has 600 values; the page reads at most 500"),
    "repeated.parquet": (lambda file: table_of(file, REPEATED), "texts", "has a value of 2,000,000 bytes"),
    "damaged.parquet": (lambda file: file.write_bytes(b"PAR1"), "texts", "not readable as parquet"),
    "long.csv": (lambda file: file.write_text(f"text\na\n{'x' * 1_000_001}\n"), "texts", "row 2 has 1,000,001 char"),
    "nested.jsonl": (lambda file: file.write_text("[" * 100_000), "texts", "line 1: not a JSON object"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_small_file_that_holds_much_is_refused_before_it_is_unpacked(request, tmp_path, monkeypatch, name):
    pytest.importorskip("PIL")
    write_it, kind, message = HOSTILE[name]
    if name.startswith(("bomb", "many")):
        monkeypatch.setattr(files, "MOST_BYTES", 2_000)
        monkeypatch.setattr(files, "MOST_VALUES", 500)
    write_it(tmp_path / name)
    view = request.getfixturevalue(kind).view
    with pytest.raises(ValueError, match=message) as refused:
        predict_file(view, [tmp_path / name], view.stored, False, tmp_path / "out", lambda *_: None)
    assert str(refused.value).startswith((name, "row 2")) and not list((tmp_path / "out").rglob("*.*"))
    if name.endswith(".png"):
        with pytest.raises(ValueError, match=f"^{name} {message}"):
            view.read(str(tmp_path / name))


def test_a_file_stays_until_it_is_read_and_one_that_is_gone_is_named(texts, tmp_path):
    source = write(tmp_path / "new.csv", [{"text": text} for text in texts.rows])
    expected = by_command(texts.folder, source, tmp_path / "out.csv", "--decoder", "fixed")
    view = copy.copy(texts.view)
    view.under = lambda *args, **more: (source.unlink(), texts.view.under(*args, **more))[1]  # it makes room
    found = predict_file(view, [source], "fixed", False, tmp_path, lambda *_: None)
    assert found.file.read_bytes() == expected.read_bytes()
    with pytest.raises(ValueError, match=r"new.csv has made room for newer uploads. Upload it again"):
        predict_file(view, [source], "fixed", False, tmp_path, lambda *_: None)


def test_images_are_shown_while_they_fit_into_memory(masks, tmp_path, monkeypatch):
    image_file = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(files, "AT_ONCE", 3 * 16 * 16 * 2 + 1)  # two images
    sources = [tmp_path / f"{i}.png" for i in range(4)]
    for source, image in zip(sources, masks.rows, strict=False):
        image_file.fromarray(image).save(source)
    done = []
    found = predict_file(masks.view, sources, "0.5", False, tmp_path / "out", lambda now, _: done.append(now))
    assert done == [2, 4] and (found.count, len(found.rows), len(found.inputs)) == (4, 2, 2)


def test_errors_are_a_line_on_the_page():
    from gradio import Error

    memory = "memory"
    for error, expected in (
        (ValueError(", ".join(f"c{i}" for i in range(10_000)) + "\n\x1b[2J"), r"^c0, c1, .* \.\.\. .*c9999 \\x1b\[2J$"),
        (ValueError("a <b>\nfile\x9b"), r"^a &lt;b&gt; file\\x9b$"),
        (MemoryError(), memory),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), memory),
    ):

        @told
        def fail(error=error):
            raise error

        with pytest.raises(Error) as shown:
            fail()
        assert re.search(expected, shown.value.message) and len(shown.value.message) < 620


# --- HTML ------------------------------------------------------------------------------------------------------------


def test_text_of_data_is_escaped_wherever_it_stands():
    spans = [{"label": EVIL, "score": 0.5, "start": 9, "end": 20}]
    row = markup.Alternative(EVIL, 0.5, -1.0)
    parts = [
        markup.chips(EVIL, [EVIL], EVIL),
        markup.chips("", [], EVIL),
        markup.bars(EVIL, [markup.Bar(EVIL, 0.5, mark=0.2)]),
        markup.energies([row, row], EVIL, EVIL),
        markup.marked(EVIL, spans, {EVIL: 3}, (12, 14)),
        markup.table([EVIL], [[EVIL]]),
        markup.note(EVIL),
    ]
    page = elements(markup.answer(*parts))
    assert not {"script", "img"} & {name for name, _ in page.names}
    assert page.text.count("<script>") >= 10
    assert all("<" not in value.replace(EVIL, "") for _, attributes in page.names for value in attributes.values())


def test_a_text_keeps_its_characters_and_each_span_its_own():
    text = "In New York, & not in Rome."
    spans = [
        {"label": "LOC", "score": 0.9, "start": 3, "end": 11},
        {"label": "LOC", "score": 0.8, "start": 22, "end": 26},
    ]
    page = elements(str(markup.marked(text, spans, {"LOC": 7}, (22, 26))))
    assert page.text == "In New YorkLOC, & not in RomeLOC."
    assert [name for name, _ in page.names] == ["p", "mark", "span", "mark", "u", "span"]


# --- label sets of images --------------------------------------------------------------------------------------------


def test_images_get_label_sets_one_by_one_and_together(tmp_path):
    """What `seal-hf predict` writes for a folder of the same images, and `predict` of the nets for one."""
    torch.manual_seed(0)
    seal = SealForMultiLabel.from_pretrained(tiny_images.saved_encoder(tmp_path / "net", "vit"), **tiny_images.LABELLED)
    seal.save_pretrained(tmp_path / "net")
    images, _ = tiny_images.squares(5)
    names = tiny_images.write_files(tmp_path / "new", images)
    view = view_of(["--model", str(tmp_path / "net")])
    assert view.one == "One image" and view.has_energies and ".png" in view.files
    given = view.read(str(tmp_path / "new" / names[0]))
    np.testing.assert_array_equal(given, images[0])
    (answer,) = view.answer(given, "fixed")
    p = seal.predict(list(images))[0][0]
    assert f"{p.max():.3f}" in elements(answer).text
    shown = [view.answer(view.read(*values), "fixed") for values in view.examples]
    assert len(shown) == 3 and all("Decided" in each for (each,) in shown)
    with pytest.raises(ValueError, match="There is no image"):
        view.read(None)
    files = [tmp_path / "new" / name for name in names]
    found = predict_file(view, files, "fixed", True, tmp_path, lambda *_: None)
    expected = by_command(tmp_path / "net", tmp_path / "new", tmp_path / "out.csv", "--energy", "true")
    assert found.file.read_text() == expected.read_text() and found.count == 5
    np.testing.assert_array_equal(found.inputs[3], images[3])
