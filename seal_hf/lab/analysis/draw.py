"""The figures of `seal-hf analyse`; needs the extra `plot`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

MOST_NAMES = 60  # of rows and columns: more cannot be read


def check_matplotlib() -> None:
    """Raises ValueError if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ValueError(
            "The figures need matplotlib: pip install 'seal_hf[plot]'; --figure false writes the numbers alone."
        ) from error


def _figure(rows: int, columns: int, size: float) -> tuple[Any, np.ndarray]:
    check_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size * columns, size * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def draw_matrices(
    path: str | Path, matrices: Mapping[str, np.ndarray], names: Sequence[str], *, diagonal: bool
) -> None:
    """Matrices (K, K) side by side with titles and colours symmetric about 0; without `diagonal`, it is blank."""
    figure, axes = _figure(1, len(matrices), 2.5 + 0.12 * min(len(names), MOST_NAMES))
    for axis, (title, matrix) in zip(axes[0], matrices.items(), strict=True):
        shown = np.array(matrix, dtype=np.float64)
        if not diagonal:
            np.fill_diagonal(shown, np.nan)
        finite = np.abs(shown[np.isfinite(shown)])
        limit = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
        image = axis.imshow(shown, cmap="RdBu_r", vmin=-limit, vmax=limit)
        figure.colorbar(image, ax=axis, shrink=0.7)
        axis.set_title(title)
        if len(names) <= MOST_NAMES:
            axis.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
            axis.set_yticks(range(len(names)), names, fontsize=6)
    figure.savefig(path, dpi=150)


def draw_points(path: str | Path, rows: Sequence[Sequence[Mapping]]) -> None:
    """A grid of scatter plots. Each has `x`, `y` and `colour`, all (N,), and `title`, `x_label`, `y_label`,
    `colour_label`."""
    figure, axes = _figure(len(rows), max(map(len, rows)), 3.2)
    for line, plots in zip(axes, rows, strict=True):
        for axis, plot in zip(line, plots, strict=True):
            points = axis.scatter(plot["x"], plot["y"], c=plot["colour"], s=6, cmap="viridis")
            axis.set_title(plot["title"], fontsize=8)
            axis.set_xlabel(plot["x_label"], fontsize=7)
            axis.set_ylabel(plot["y_label"], fontsize=7)
            axis.tick_params(labelsize=6)
            figure.colorbar(points, ax=axis).set_label(plot["colour_label"], fontsize=7)
    figure.savefig(path, dpi=150)
