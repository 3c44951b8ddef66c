"""Images, truth, and what several runs of run_segmentation.py or run_mask_energy.py made of them, in one picture.

    python benchmarks/mask_picture.py cross-entropy=runs/weizmann_ce SEAL=runs/weizmann_regression \\
        --dataset weizmann --data_dir path/to/data --output masks.png

Reads `_predictions_test.npz` of each run's folder: a row of the picture for each, with the run's mean IoU over the
whole test split beside its name. Masks of two classes are grey by the foreground's probability; those of several
classes have a colour for each class, and a legend. Needs matplotlib, the extra `plot`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from seal_hf import load_masks
from seal_hf.core.masks import IGNORE, palette
from seal_hf.data.masks import SegmentationSplit
from seal_hf.metrics import class_mask_metrics, mask_metrics

FILE = "_predictions_test.npz"


def predictions(runs: Sequence[str], split, several: bool) -> dict[str, np.ndarray]:
    """Probabilities (N, H, W) of each run, or masks of several classes, by `name, mean IoU`.

    Args:
        runs: `NAME=FOLDER` each.
        split: the test split that they are of.
        several: True for several classes.

    Raises:
        ValueError: no such file, or predictions of other images or classes.
    """
    found, key = {}, "masks" if several else "probabilities"
    for run in runs:
        name, _, folder = run.partition("=")
        file = Path(folder) / FILE
        if not folder or not file.is_file():
            raise ValueError(f"{run!r}: expected NAME=FOLDER, a folder with {FILE}, as a run of an example leaves it.")
        with np.load(file, allow_pickle=False) as stored:
            if several == ("probabilities" in stored.files):
                raise ValueError(f"{file} holds masks of {'two' if several else 'several'} classes, unlike the data.")
            values = stored[key] if several else stored[key].astype(np.float32)
        if values.shape != split.masks.shape:
            raise ValueError(
                f"{file} holds predictions {values.shape}, but the test split has masks {split.masks.shape}. "
                "Give the run's own --dataset, --image_size and --data_seed."
            )
        iou = (class_mask_metrics if several else mask_metrics)(values, split.masks)["mean_iou"]
        found[f"{name}\nIoU {iou:.3f}"] = values
    return found


def draw_layers(
    path: str | Path, layers: Mapping[str, np.ndarray], legend: Mapping[str, np.ndarray] | None = None
) -> None:
    """A picture with a row for each layer and a column for each of its N images. It needs matplotlib.

    Args:
        layers: name -> (N, H, W, 3) in colour, or (N, H, W) in grey, from 0 to 1.
        legend: name -> colour (3,), from 0 to 1.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    count = min(map(len, layers.values()))
    figure = Figure(figsize=(1.2 * count + 1, 1.2 * len(layers)), layout="constrained")
    axes = figure.subplots(len(layers), count, squeeze=False)
    for row, (name, layer) in zip(axes, layers.items(), strict=True):
        row[0].set_ylabel(name)
        for axis, picture in zip(row, layer, strict=True):
            axis.imshow(picture, cmap="gray", vmin=0, vmax=1 if picture.ndim == 2 else None)
            axis.set_xticks([])
            axis.set_yticks([])
    if legend:
        patches = [Patch(facecolor=tuple(colour), edgecolor="black", label=name) for name, colour in legend.items()]
        figure.legend(handles=patches, loc="outside lower center", ncols=max(2, count), fontsize="small")
    figure.savefig(path, dpi=150)


def save_class_picture(
    path: str | Path,
    split: SegmentationSplit,
    predictions: Mapping[str, np.ndarray],
    label_names: Sequence[str],
    count: int = 8,
) -> None:
    """A column for each of the first `count` images of a split; rows: image, truth, and each prediction (N, H, W), with
    the colours of [`palette`] and a legend of the classes that are shown.
    """
    colours, count = palette(), min(count, len(split.images))
    masks = {name: values[:count] for name, values in {"truth": split.masks, **predictions}.items()}
    layers = {"image": split.images[:count], **{name: colours[values] for name, values in masks.items()}}
    there = np.unique(np.concatenate([np.unique(values) for values in masks.values()])).tolist()
    names = {value: label_names[value] if value != IGNORE else "does not count" for value in there}
    draw_layers(path, layers, {name: colours[value] / 255 for value, name in names.items()})


def save_picture(
    path: str | Path, split: SegmentationSplit, predictions: Mapping[str, np.ndarray], count: int = 8
) -> None:
    """A column for each of the first `count` images of a split; rows: image, truth, and each prediction (N, H, W)."""
    layers = {"image": split.images, "truth": split.masks == 1, **predictions}
    draw_layers(path, {name: layer[:count] for name, layer in layers.items()})


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="NAME=FOLDER", help="what to call a run, and its output folder")
    parser.add_argument("--dataset", help="as of the runs; default: the embedded digits")
    parser.add_argument("--data_dir")
    parser.add_argument("--image_size", type=int)
    parser.add_argument("--class_names", nargs="+")
    parser.add_argument("--ignore_index", type=int)
    parser.add_argument("--reduce_labels", action="store_true")
    parser.add_argument("--data_seed", type=int, default=0)
    parser.add_argument("--images", type=int, nargs="+", help="which of the test images, from 0; default: the first")
    parser.add_argument("--count", type=int, default=8, help="how many, where --images are not given")
    parser.add_argument("--output", default="masks.png")
    options = parser.parse_args(argv)
    of_data = ("data_dir", "image_size", "class_names", "ignore_index", "reduce_labels")
    loading = {name: getattr(options, name) for name in of_data}
    data = load_masks(options.dataset, seed=options.data_seed, **loading)
    if data.test is None:
        raise ValueError(f"{data.name} has no test split, so there are no predictions of one.")
    chosen = options.images if options.images is not None else range(min(options.count, len(data.test)))
    outside = [i for i in chosen if not 0 <= i < len(data.test)]
    if outside or not len(chosen):
        raise ValueError(f"--images {outside or list(chosen)}: give one or more of 0 to {len(data.test) - 1}.")
    rows, several = np.array(chosen), len(data.label_names) > 2
    shown = {name: values[rows] for name, values in predictions(options.runs, data.test, several).items()}
    if several:
        save_class_picture(options.output, data.test.take(rows), shown, data.label_names, len(rows))
    else:
        save_picture(options.output, data.test.take(rows), shown, len(rows))
    print(f"wrote {options.output}: {len(rows)} images, {', '.join(name.replace(chr(10), ', ') for name in shown)}")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"mask_picture.py: {error}")
