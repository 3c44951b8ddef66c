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
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from seal_hf import load_masks
from seal_hf.metrics import class_mask_metrics, mask_metrics
from seal_hf.tasks.masks.report import save_class_picture, save_picture

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
