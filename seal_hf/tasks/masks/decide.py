"""`seal-hf decide --task masks`: a threshold for the foreground probabilities of any model. No torch is imported.

An `.npz` has the array `probabilities` (N, H, W) in [0, 1]; the gold masks are the array `gold`, 0, 1, and 255 for a
pixel that does not count. The decided masks are written as the array `masks`, of 0 and 1.
"""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import numpy as np

from ...data.common import DataError
from ...data.score_files import arrays_of
from ...utils.files import whole_file
from ...utils.messages import results_table
from .decisions import MaskDecisions
from .metrics import mask_metrics


def fit(options: Namespace, output: Path) -> str:
    """Fit the threshold of the best mean IoU, and choose by cross-fitting whether to use it."""
    probabilities, gold = _read(options.probabilities, "probabilities"), _read(options.gold, "gold")
    decisions = MaskDecisions.fit(probabilities, gold, decoder=options.decoder)
    decisions.save(output)
    rows = [
        {"decoder": f"{name} *" if name == decisions.decoder else name, "threshold": decisions.cut(name)}
        | mask_metrics(probabilities, gold, decisions.cut(name))
        for name in decisions.names
    ]
    return f"{len(gold):,} images: {decisions.decoder}, in {output}\n\n{results_table(rows)}"


def apply(options: Namespace, output: Path | None) -> int:
    """Write the decided masks; the number of images."""
    if output is None:
        raise ValueError("`output` is missing; masks need a file of type .npz.")
    probabilities, cut = _read(options.probabilities, "probabilities"), _cut(options)
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise DataError(f"{options.probabilities}: probabilities are outside of 0 to 1, or NaN. Logits need a sigmoid.")
    with whole_file(output) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, masks=(probabilities >= cut).astype(np.uint8))
    return len(probabilities)


def report(options: Namespace, output: Path | None) -> str:
    """Figures of the decided masks, also as JSON."""
    probabilities, gold = _read(options.probabilities, "probabilities"), _read(options.gold, "gold")
    cut = _cut(options)
    figures = mask_metrics(probabilities, gold, cut)
    if output is not None:
        results = {"rows": len(gold), "threshold": cut, "figures": figures}
        with whole_file(output) as unfinished:
            unfinished.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rows = [{"figure": name, "value": value} for name, value in figures.items()]
    return f"{len(gold)} images, threshold {cut:g}\n\n{results_table(rows)}"


def _cut(options: Namespace) -> float:
    return MaskDecisions.load(options.decisions).cut(options.decoder)


def _read(name: str, key: str) -> np.ndarray:
    arrays = arrays_of(name)
    found = arrays.get(key)
    if found is None or found.ndim != 3 or found.dtype.kind not in "biuf":
        said = ", ".join(f"{each} {array.shape}" for each, array in arrays.items()) or "none"
        raise DataError(f"{name}: its arrays are {said}; expected {key} of shape (images, height, width).")
    return found if key == "gold" else found.astype(np.float64)
