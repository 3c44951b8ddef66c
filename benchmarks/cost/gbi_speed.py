"""What a prediction costs: gradient-based inference on an energy network against one forward of a task-net.

python benchmarks/cost/gbi_speed.py --json benchmarks/cost/gbi_speed.json
python benchmarks/cost/gbi_speed.py --masks --json benchmarks/cost/gbi_speed_masks.json

Nets of bibtex's size (1836 inputs, 159 labels, 2 x 400, global term 200) on random rows, whose values do not matter; or
the papers' FCN and energy of masks on random crops, 24 x 24 (of an image both see as many crops).
One process, one thread, its processor time, variants taking turns; ratios of one round each: median (least .. most).
"""

from __future__ import annotations

import argparse
from functools import partial
from types import SimpleNamespace

import torch
from timing import in_turns, ratios, seconds_of, spread, write_json

from seal_hf import GradientBasedInference, SealForMultiLabel, SealForSegmentation

INPUTS, LABELS, BATCH = 1836, 159, 256
CROP, CROPS = 24, 16
STEPS = (20, 30)  # of training and of prediction in EnergyTrainingArguments


def label_sets():
    """Both nets, their inputs, and the shape of the structures."""
    names = [f"label {i}" for i in range(LABELS)]
    data = SimpleNamespace(name="random", kind="features", num_features=INPUTS, scaling=None, label_names=names)
    x = {"features": (torch.rand(BATCH, INPUTS) < 0.04).float()}
    return SealForMultiLabel.for_data(data).eval(), x, (BATCH, LABELS)


def masks():
    """The same of masks."""
    nets = SealForSegmentation.for_data(SimpleNamespace(label_names=["background", "foreground"])).eval()
    return nets, {"pixel_values": torch.rand(CROPS, 3, CROP, CROP)}, (CROPS, CROP, CROP)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each variant, taking turns")
    parser.add_argument("--repeats", type=int, default=5, help="batches per measurement")
    parser.add_argument("--masks", action="store_true", help="of masks, not of label sets")
    parser.add_argument("--json", help="also write the figures here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    nets, x, shape = masks() if options.masks else label_sets()

    @torch.no_grad()
    def infer(steps: int, num_starts: int = 1) -> torch.Tensor:
        inference = GradientBasedInference(steps, start="random", num_starts=num_starts)
        features = nets.loss_net.encode(x)
        starts = inference.starts(shape, generator=torch.Generator().manual_seed(0))
        with nets.loss_net.energies_at(features) as energy:
            return inference(energy, starts)[0]

    @torch.no_grad()
    def forward() -> torch.Tensor:
        return nets.task_net(**x).logits

    variants = {"forward of the task-net": forward}
    variants |= {f"{steps} steps": lambda steps=steps: infer(steps) for steps in STEPS}
    variants |= {f"{STEPS[-1]} steps, 3 starts": lambda: infer(STEPS[-1], 3)}
    for run in variants.values():
        run()  # the first run of each is not measured

    def measure(run) -> float:
        """Seconds of a batch."""
        return seconds_of(lambda: [run() for _ in range(options.repeats)]) / options.repeats

    seconds = in_turns({name: partial(measure, run) for name, run in variants.items()}, options.rounds)
    base, found = seconds["forward of the task-net"], {}
    print(f"batches of {shape[0]}, {options.rounds} rounds, one thread, torch {torch.__version__}")
    for name, times in seconds.items():
        if times is base:
            continue
        found[name] = ratios(times, base)
        print(f"{name:22s} {spread(found[name])}")
    facts = {"batch": shape[0], "rounds": options.rounds, "torch": torch.__version__}
    write_json(options.json, {**facts, "ratio to a forward": found, "seconds per batch": seconds})


if __name__ == "__main__":
    main()
