"""`seal-hf decide`: rows of scores are matched with their gold. Oracle: shuffled gold gives the figures of gold in the
order of the scores."""

import json

import numpy as np
import pytest
from predicting import write

from seal_hf.cli import decide

NAMES = ["rain", "snow", "wind"]
ORDER = np.random.default_rng(1).permutation(40)


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    gold = (generator.random((40, 3)) < 0.4).astype(int)
    return np.clip(0.2 + 0.6 * gold + 0.1 * generator.normal(size=gold.shape), 0, 1), gold


def tables(name, ids, rows):
    """Scores, gold as columns, and gold as sets, whose column `name` holds the ids."""
    p, gold = rows
    sets = [{"labels": json.dumps([n for n, y in zip(NAMES, row, strict=True) if y])} for row in gold]
    wide = ([dict(zip(NAMES, row, strict=True)) for row in each.tolist()] for each in (p, gold))
    return [[{name: one, **row} for one, row in zip(ids, table, strict=True)] for table in (*wide, sets)]


def fitted(probabilities, gold, folder, *flags):
    """The file of decisions."""
    files = ("--probabilities", probabilities, "--gold", gold, "--output", folder / "d.json", "--overwrite", "true")
    decide.fit([*map(str, files), *flags])
    return (folder / "d.json").read_text()


@pytest.mark.parametrize("name", ["ID", "doc_id", "number", "", "Unnamed: 0", "__index_level_0__"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rows_are_matched_by_a_column_that_both_files_have(name, suffix, rows, tmp_path, capsys):
    ids = [str(100 + i) if name == "number" else f"r{i}" for i in range(40)]
    p, *golds = tables(name, ids, rows)
    scores = write(tmp_path / f"p{suffix}", p)
    for gold in golds:
        ordered = fitted(scores, write(tmp_path / f"g{suffix}", gold), tmp_path)
        shuffled = fitted(scores, write(tmp_path / f"s{suffix}", [gold[i] for i in ORDER]), tmp_path)
        assert shuffled == ordered
        assert ("rows are matched by the" in capsys.readouterr().err) == (name != "ID")


@pytest.mark.parametrize("ids", [["a"] * 40, [f"other {i}" for i in range(40)], None])
def test_a_note_tells_that_rows_are_matched_by_their_order(ids, rows, tmp_path, capsys):
    """A column that repeats a value, one with other values, and none."""
    p, _, _ = tables("doc", [f"r{i}" for i in range(40)], rows)
    _, gold, _ = tables("other" if ids is None else "doc", ids or range(40), rows)
    fitted(write(tmp_path / "p.jsonl", p), write(tmp_path / "g.jsonl", gold), tmp_path)
    assert "rows are matched by their order" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Id", "sent_id"])
def test_sentences_are_matched_by_a_column_that_both_files_have(name, tmp_path, capsys):
    """The likeliest tags are the gold tags, so that each figure is 1."""
    best = np.random.default_rng(2).integers(0, 3, (40, 4))
    cells = [
        [{"O": 0.1, "B-X": 0.1, "B-Y": 0.1, tag: 0.8} for tag in np.array(["O", "B-X", "B-Y"])[row]] for row in best
    ]
    tags = [[max(word, key=word.get) for word in cell] for cell in cells]
    write(tmp_path / "p.jsonl", [{name: f"s{i}", "scores": cell} for i, cell in enumerate(cells)])
    write(tmp_path / "g.jsonl", [{name: f"s{i}", "tags": tags[i]} for i in ORDER])
    fitted(tmp_path / "p.jsonl", tmp_path / "g.jsonl", tmp_path, "--task", "tags")
    assert "independent *    1.0000     1.0000  1.0000  1.0000" in capsys.readouterr().out


@pytest.mark.parametrize("key", ["ids", "ID"])
def test_masks_are_matched_by_ids(key, tmp_path, capsys):
    gold = np.random.default_rng(3).random((40, 6, 5)) < 0.4
    p = 0.2 + 0.6 * gold
    np.savez(tmp_path / "p.npz", probabilities=p, **{key: np.arange(40)})
    np.savez(tmp_path / "g.npz", gold=gold[ORDER], **{key: ORDER})
    fitted(tmp_path / "p.npz", tmp_path / "g.npz", tmp_path, "--task", "masks")
    said = capsys.readouterr()
    assert "fixed *       0.5000    1.0000" in said.out and not said.err
    np.savez(tmp_path / "g.npz", gold=gold)
    fitted(tmp_path / "p.npz", tmp_path / "g.npz", tmp_path, "--task", "masks")
    assert "g.npz has no ids" in capsys.readouterr().err
    np.savez(tmp_path / "g.npz", gold=gold, ids=np.arange(30))
    with pytest.raises(ValueError, match=r"g.npz: ids of shape \(30,\) for 40 rows; expected one each"):
        fitted(tmp_path / "p.npz", tmp_path / "g.npz", tmp_path, "--task", "masks")


@pytest.mark.parametrize("key", ["id", "idx"])
def test_sentences_of_arrays_are_matched_by_ids(key, tmp_path, capsys):
    """Words of probability 1, so that each figure is 1."""
    best, names = np.random.default_rng(2).integers(0, 3, (40, 4)), np.array(["O", "B-X", "B-Y"])
    arrays = {"probabilities": np.eye(3)[best.ravel()], "tags": names, "lengths": np.full(40, 4)}
    np.savez(tmp_path / "p.npz", **arrays, **{key: np.arange(40)})
    write(tmp_path / "g.jsonl", [{"id": int(i), "tags": names[best[i]].tolist()} for i in ORDER])
    fitted(tmp_path / "p.npz", tmp_path / "g.jsonl", tmp_path, "--task", "tags")
    said = capsys.readouterr()
    assert "independent *    1.0000     1.0000  1.0000  1.0000" in said.out and not said.err
    (tmp_path / "g.conll").write_text("\n\n".join("\n".join(f"word {tag}" for tag in names[row]) for row in best))
    fitted(tmp_path / "p.npz", tmp_path / "g.conll", tmp_path, "--task", "tags")
    assert "rows are matched by their order: " in capsys.readouterr().err
    np.savez(tmp_path / "p.npz", **arrays, ids=np.arange(30))
    with pytest.raises(ValueError, match=r"p.npz: ids of shape \(30,\) for 40 rows; expected one each"):
        fitted(tmp_path / "p.npz", tmp_path / "g.jsonl", tmp_path, "--task", "tags")
