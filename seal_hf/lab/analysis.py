"""What has a trained energy learned? The command reads a folder that `train mlc` or `train tagging` saved.

seal-hf analyse hessian FOLDER --dataset bibtex --data_dir DATA --output_dir DIR
seal-hf analyse tags FOLDER --dataset twitter_pos --data_dir DATA --output_dir DIR

The command writes hessian.json or tags.json, and a figure of the same name (.png), to DIR. `hessian` compares the
energy's second derivatives with the co-occurrence of labels. `tags` compares those of neighbouring tags with their
bigrams.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr
from torch import Tensor
from transformers.utils import CONFIG_NAME

from ..cli.programs import run_program
from ..cli.recipes import parse_recipe
from ..core.task import Registry
from ..core.tensors import pack
from ..data import DataError
from ..data.tensors.collators import TensorRows
from ..loss_net.loss_net import LOSS_NET_FOLDER, LossNetConfig
from ..saving.model import SealModel, SealModelT
from ..utils.options import check_given
from ..utils.recorded import recorded

# Derivatives of an energy by its structures, and counts of the data to compare them with: ∂²E/∂y_i∂y_j of label sets
# (Shankar & Piratla, appendix C, Fig. 1) and ∂²E/∂y_t∂y_{t+1} of tag sequences (the same, Fig. 2; of a chain it is -W).
# For our energies, lower is better; in the paper's plots, higher is better. Two labels that belong together have a
# negative second derivative here, so -∂²E is compared with counts.

Energy = Callable[[Tensor], Tensor]  # of candidates alone: `lambda y: seal.energy(y, mask, **inputs)` of a frozen net


def energy_hessian(energy: Energy, y: Tensor, labels: Sequence[int] | None = None) -> Tensor:
    """∂²E/∂y_i∂y_j at label sets, the mean over the batch (Shankar & Piratla, appendix C).

    Of [`MultiLabelEnergy`] it is -Mᵀ diag(v σ'(M y + c)) M. One backward pass per label.

    Args:
        energy: structures (B, L) -> energies (B,).
        y: (B, L), the points.
        labels: ids of K labels; default: all L.

    Returns:
        (K, K), symmetric.
    """
    labels = list(range(y.shape[1])) if labels is None else list(labels)
    y = y.detach().requires_grad_()
    gradient = _gradient(energy, y)
    rows = [_second(gradient[:, i].sum(), y)[:, labels].mean(0) for i in labels]
    return torch.stack(rows)


def tag_pair_hessian(energy: Energy, y: Tensor, mask: Tensor) -> Tensor:
    """∂²E/∂y_t∂y_{t+1} of tag sequences, the mean over neighbouring counted positions of the batch (Shankar & Piratla,
    appendix C, Fig. 2). Of a chain it is -W, whatever y. T C backward passes.

    Args:
        energy: structures (B, T, C) -> energies (B,).
        y: (B, T, C), where.
        mask: (B, T), the positions that count.

    Returns:
        (C, C), from the tag at t to that at t + 1; zeros where no two positions are neighbours.
    """
    places = torch.arange(y.shape[1], device=y.device).expand_as(mask)
    packed, places = pack(mask, places)  # (B, T): where the t-th counted position stands
    pairs = packed[:, 1:].to(y.dtype)  # (B, T - 1): of the t-th and the one after it
    y = y.detach().requires_grad_()
    gradient = _gradient(energy, y)
    rows = torch.arange(len(y), device=y.device)
    total = y.new_zeros(y.shape[2], y.shape[2])
    for t in range(int(pairs.sum(1).max()) if pairs.numel() else 0):
        here = gradient[rows, places[:, t]] * pairs[:, t : t + 1]  # (B, C)
        for tag in range(y.shape[2]):
            total[tag] += _second(here[:, tag].sum(), y)[rows, places[:, t + 1]].sum(0)
    return total / pairs.sum().clamp_min(1)


def label_pmi(labels: np.ndarray) -> np.ndarray:
    """Smoothed pointwise mutual information log( (n_ij + 1) / (n_i n_j / N + 1) ), near 0 where the data is too small
    to tell. labels (N, L) of 0 and 1 -> (L, L)."""
    labels = np.asarray(labels, dtype=np.float64)
    counts = labels.sum(0)
    expected = np.outer(counts, counts) / max(len(labels), 1)
    return np.log((labels.T @ labels + 1) / (expected + 1))


def label_correlation(labels: np.ndarray) -> np.ndarray:
    """Pearson's correlation of the columns (N, L) -> (L, L); 0 where a label is constant."""
    centred = np.asarray(labels, dtype=np.float64) - np.mean(labels, axis=0)
    norms = np.sqrt((centred**2).sum(0))
    return centred.T @ centred / np.maximum(np.outer(norms, norms), 1e-12)


def tag_bigrams(sequences: Iterable[Sequence[int]], num_tags: int) -> np.ndarray:
    """How often tag b follows tag a: N sequences of ids -> (C, C) int64, from row to column."""
    counts = np.zeros((num_tags, num_tags), dtype=np.int64)
    for tags in sequences:
        np.add.at(counts, (np.asarray(tags[:-1], dtype=int), np.asarray(tags[1:], dtype=int)), 1)
    return counts


def tag_pmi(bigrams: np.ndarray) -> np.ndarray:
    """Smoothed pointwise mutual information of neighbours, from their counts, as `label_pmi`: (C, C)."""
    expected = np.outer(bigrams.sum(1), bigrams.sum(0)) / max(bigrams.sum(), 1)
    return np.log((bigrams + 1) / (expected + 1))


def agreement(matrix: np.ndarray, reference: np.ndarray, *, symmetric: bool) -> dict[str, float | int | None]:
    """Correlations of two (K, K) matrices over their entries.

    If the matrices are symmetric, only entries above the diagonal count, as in the plots of both papers, else all.

    Returns:
        `pearson` and `spearman`, in [-1, 1], None where a matrix is constant; `pairs`, the number of entries.
    """
    where = np.triu_indices(len(matrix), 1) if symmetric else np.indices(matrix.shape).reshape(2, -1)
    a, b = np.asarray(matrix)[tuple(where)], np.asarray(reference)[tuple(where)]
    found: dict[str, float | int | None] = {"pearson": None, "spearman": None, "pairs": len(a)}
    if len(a) > 1 and np.ptp(a) > 0 and np.ptp(b) > 0:
        found |= {"pearson": float(pearsonr(a, b)[0]), "spearman": float(spearmanr(a, b)[0])}
    return found


def _gradient(energy: Energy, y: Tensor) -> Tensor:
    return torch.autograd.grad(energy(y).sum(), y, create_graph=True)[0]


def _second(value: Tensor, y: Tensor) -> Tensor:
    """The gradient of a first derivative; zero for a linear energy."""
    if not value.requires_grad:
        return torch.zeros_like(y)
    found = torch.autograd.grad(value, y, retain_graph=True, allow_unused=True)[0]
    return torch.zeros_like(y) if found is None else found.detach()


# What every analysis reads: both nets of a folder, and rows of the data.


@dataclass
class AnalysisArguments:
    """Options of an analysis."""

    output_dir: str = field(default="analysis", metadata={"help": "Folder for the results."})
    figure: bool = field(default=True, metadata={"help": "Also draw a figure (needs matplotlib)."})
    batch_size: int = field(default=64, metadata={"help": "Validation rows at a time."})
    max_rows: int = field(default=500, metadata={"help": "Most validation rows; for tags with an LSTM take fewer."})
    max_length: int | None = field(default=None, metadata={"help": "Longest text, in tokens; default: as in the run."})
    seed: int = field(default=0, metadata={"help": "Seed of splits that the data does not fix."})


def load_nets(kind: type[SealModelT], folder: str) -> SealModelT:
    """Both nets of a saved folder, frozen, for evaluation."""
    if not Path(folder, LOSS_NET_FOLDER, CONFIG_NAME).is_file():
        raise ValueError(
            f"{folder} has no {LOSS_NET_FOLDER}/, so there is no energy to analyse. Give the output_dir or a "
            "checkpoint of a run with a loss-net."
        )
    config = LossNetConfig.from_pretrained(Path(folder, LOSS_NET_FOLDER))
    if config.space != kind.space_class.name:
        raise ValueError(
            f"The loss-net in {folder} is for outputs of the kind {config.space}, but this command is for "
            f"{kind.space_class.name}: `hessian` analyses label sets, `tags` tag sequences."
        )
    return kind.from_pretrained(folder).eval().requires_grad_(False)


def check_names(seal: Any, data: Any, folder: str) -> None:
    """Raises DataError if the nets, configured by `seal.config`, were trained on other labels than the data have."""
    known: dict = seal.config.id2label or {}  # a configuration object has numbers as keys
    names = [known[i] for i in range(len(known))]
    if names != list(data.label_names):
        raise DataError(
            f"{folder} was trained on other labels ({len(names)}: {', '.join(names[:3])}, ...) than {data.name} has "
            f"({len(data.label_names)}: {', '.join(data.label_names[:3])}, ...). Give the run's own data set, with its "
            "options."
        )


def batches(rows: TensorRows, args: AnalysisArguments) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """Inputs and labels of the first validation rows."""
    for start in range(0, min(len(rows), args.max_rows), args.batch_size):
        batch = rows.batch(range(start, min(start + args.batch_size, len(rows), args.max_rows)))
        yield batch, batch.pop("labels")


@torch.no_grad()
def outputs_of(seal: SealModel, inputs: dict[str, Tensor]) -> Tensor:
    """The logits of the task-net."""
    return seal.task_net(**inputs).logits


# The figures of `seal-hf analyse`; needs the extra `plot`.

MOST_NAMES = 60  # of rows and columns: more cannot be read


def check_matplotlib() -> None:
    """Raises ValueError if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ValueError(
            "The figures need matplotlib: pip install 'seal_hf[plot]'; --figure false writes the numbers alone."
        ) from error


def draw_matrices(
    path: str | Path, matrices: Mapping[str, np.ndarray], names: Sequence[str], *, diagonal: bool
) -> None:
    """Matrices (K, K) side by side with titles and colours symmetric about 0; without `diagonal`, it is blank."""
    check_matplotlib()
    from matplotlib.figure import Figure

    size = 2.5 + 0.12 * min(len(names), MOST_NAMES)
    figure = Figure(figsize=(size * len(matrices), size), layout="constrained")
    axes = figure.subplots(1, len(matrices), squeeze=False)
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


# The program.

# word -> the function of (folder, arguments of the data, arguments) that gives the results, and the data's arguments
COMMANDS: Registry[tuple[Callable[..., dict], type]] = Registry(lambda task: task.analyses)


def main(argv: list[str] | None = None) -> dict:
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv[:1] in (["--help"], ["-h"]):
        print(f"{__doc__}\nFlags of each: seal-hf analyse {'|'.join(COMMANDS)} --help")
        sys.exit()
    if argv[1:] in (["--help"], ["-h"]) and argv[0] in COMMANDS:
        parse_recipe((COMMANDS[argv[0]][1], AnalysisArguments), argv[1:])  # prints the flags and ends the program
    if len(argv) < 2 or argv[0] not in COMMANDS or argv[1].startswith("-"):
        raise ValueError(f"usage: seal-hf analyse {'|'.join(COMMANDS)} FOLDER [--dataset NAME ...]")
    run, data_type = COMMANDS[argv[0]]
    check_given({"folder": argv[1]}, {}, {})
    data_args, args = parse_recipe((data_type, AnalysisArguments), argv[2:])
    if args.figure:
        check_matplotlib()
    folder = Path(args.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    result = run(argv[1], data_args, args)
    text = json.dumps(recorded(result), default=lambda value: np.asarray(value).tolist(), ensure_ascii=False)
    (folder / f"{argv[0]}.json").write_text(text + "\n", encoding="utf-8")
    shown = {key: value for key, value in result.items() if key.startswith(("agreement", "pairs"))}
    print(json.dumps(shown, indent=1))
    return result


if __name__ == "__main__":
    sys.argv[0] = "seal_hf.lab.analysis"  # its name in messages and --help
    run_program(main)
