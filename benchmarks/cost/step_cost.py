"""Cost of a training step, as ratios measured in one run on one machine.

    python benchmarks/cost/step_cost.py --dataset path/to/bibtex

Compares, on the two networks of the multi-label recipes: our trainer against a bare PyTorch loop of the same two
networks; NCE against cross-entropy; K = 20 against K = 200; 12 updates of the loss-net against one; `shared` against
`separate`; and the share of a step that goes into drawing candidates. Variants take turns over several rounds, so that
a drift of the machine's speed hits all alike; each figure is the median over the rounds, with the smallest and largest.
"""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import datasets
import torch
from timing import QUIET, StepClock, clock, in_turns, ratios, spread, write_json
from transformers.utils import logging

from seal_hf import ENERGY_LOSSES, SealForMultiLabel, SealTrainer, SealTrainingArguments, TensorRows, load_multilabel
from seal_hf.utils.modules import frozen

WIDTH, BATCH = 400, 32


def build(data, encoder: str = "separate") -> SealForMultiLabel:
    torch.manual_seed(0)
    return SealForMultiLabel.for_data(data, hidden_size=WIDTH, num_layers=2, dropout=0.5, loss_net_encoder=encoder)


def arguments(loss: str, steps: int, **settings) -> SealTrainingArguments:
    return SealTrainingArguments(
        **QUIET,
        **settings,
        energy_loss=loss,
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        max_grad_norm=10.0,
        use_cpu=True,
    )


def trainer_seconds(data, rows: TensorRows, steps: int, loss: str, encoder: str = "separate", **settings) -> float:
    times = StepClock()
    args = arguments(loss, steps, loss_net_encoder=encoder, **settings)
    SealTrainer(build(data, encoder), args, train_dataset=rows, callbacks=[times]).train()
    return times.median()


def bare_loop(data, rows: TensorRows, steps: int, samples: int = 20, energies: bool = True) -> tuple[float, float]:
    """Seconds per step of a hand-written loop over the same networks, and the seconds of it that draw candidates."""
    model, args = build(data).train(), arguments("nce", steps)
    task_net, loss_net, space = model.task_net, model.loss_net, model.space
    loss_function, noise = ENERGY_LOSSES["nce"](num_samples=samples), torch.Generator().manual_seed(0)
    task_optimizer = torch.optim.AdamW(task_net.parameters(), lr=args.learning_rate, fused=True)
    energy_optimizer = torch.optim.AdamW(loss_net.parameters(), lr=args.loss_net_learning_rate, fused=True)
    loader = torch.utils.data.DataLoader(rows, batch_size=BATCH, shuffle=True, collate_fn=lambda batches: batches[0])
    drawing, done, start = 0.0, 0, clock()
    while done < steps:
        for batch in loader:
            features, labels = batch["features"], batch["labels"]
            logits = task_net(features).logits
            loss = space.task_loss(logits, labels)
            if energies:
                begin = clock()
                candidates = loss_function.candidates(space, logits.detach(), labels, noise)
                drawing += clock() - begin
                loss_function(loss_net(candidates.y, None, {"features": features}), candidates).backward()
                torch.nn.utils.clip_grad_norm_(loss_net.parameters(), args.loss_net_max_grad_norm)
                energy_optimizer.step()
                energy_optimizer.zero_grad()
                with frozen(loss_net):
                    energy = loss_net(space.relax(logits).unsqueeze(1), None, {"features": features})
                loss = loss + loss_function.task_term(energy)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(task_net.parameters(), args.max_grad_norm)
            task_optimizer.step()
            task_optimizer.zero_grad()
            done += 1
            if done == steps:
                break
    return (clock() - start) / steps, drawing / steps


def synthetic(features: int = 1836, labels: int = 159, rows: int = 2000):
    """Random rows of bibtex's size, where the data set is not at hand: the cost of a step does not depend on the
    values."""
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(rows, features, generator=generator) < 0.04).float()
    y = (torch.rand(rows, labels, generator=generator) < 0.015).float()
    table = datasets.Dataset.from_dict({"features": x.numpy(), "labels": y.numpy()})
    names = [f"label {i}" for i in range(labels)]
    facts = {"name": "synthetic", "kind": "features", "num_features": features, "scaling": None, "label_names": names}
    return SimpleNamespace(train=table, **facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--dataset", help="a feature data set of load_multilabel; default: random rows of bibtex's size"
    )
    parser.add_argument("--steps", type=int, default=60, help="steps per measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each variant, taking turns")
    parser.add_argument("--json", help="also write the figures here")
    options = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    data = load_multilabel(options.dataset) if options.dataset else synthetic()
    rows = TensorRows(data.train)
    run = lambda loss, **settings: trainer_seconds(data, rows, options.steps, loss, **settings)  # noqa: E731
    variants = {
        "bare ce": lambda: bare_loop(data, rows, options.steps, energies=False)[0],
        "bare nce": lambda: bare_loop(data, rows, options.steps)[0],
        "ce": lambda: run("ce"),
        "nce": lambda: run("nce"),
        "nce K=200": lambda: run("nce", num_samples=200),
        "nce n_E=12": lambda: run("nce", loss_net_steps=12),
        "nce shared": lambda: run("nce", encoder="shared"),
        "drawing": lambda: bare_loop(data, rows, options.steps)[1],
        "drawing K=200": lambda: bare_loop(data, rows, options.steps, 200)[1],
    }
    seconds = in_turns(variants, options.rounds)
    pairs = {
        "our trainer / bare loop, nce": ("nce", "bare nce"),
        "our trainer / bare loop, ce": ("ce", "bare ce"),
        "nce / ce": ("nce", "ce"),
        "nce shared / ce": ("nce shared", "ce"),
        "nce, K=200 / K=20": ("nce K=200", "nce"),
        "nce, n_E=12 / n_E=1": ("nce n_E=12", "nce"),
        "share of drawing candidates, K=20": ("drawing", "nce"),
        "share of drawing candidates, K=200": ("drawing K=200", "nce K=200"),
    }
    figures = {}
    print(
        f"{data.name}, {options.steps} steps, {options.rounds} rounds, {torch.get_num_threads()} threads, torch "
        f"{torch.__version__}"
    )
    for name, (a, b) in pairs.items():
        figures[name] = ratios(seconds[a], seconds[b])
        print(f"{name:38s} {spread(figures[name], 3)}")
    write_json(options.json, {"ratios": figures, "seconds per step": seconds})


if __name__ == "__main__":
    main()
