"""`seal-hf analyse hessian` and `gradients`: what a trained energy of label sets has learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.utils import CONFIG_NAME

from ...data import DataArguments, DataError, MultiLabelData, load_multilabel
from ...data.tensors.collators import TensorRows, tokenize
from ...data.tensors.images import ImageRows, load_image_processor
from ...data.tensors.words import load_tokenizer
from ...lab import analysis
from ...lab.analysis import (
    AnalysisArguments,
    batches,
    check_names,
    check_space,
    draw_matrices,
    draw_points,
    load_nets,
    outputs_of,
)
from ...loss_net.loss_net import LossNet, LossNetConfig
from ...nets.text_pooling import reads_whole
from ...saving.batches import trained_inputs
from .model import MAX_LENGTH, SealForMultiLabel

MOST_LABELS, NUM_PAIRS = 200, 4  # of a Hessian, the most frequent ones; labels of gradients, each beside two others
MOST_SLOPE = 10  # plots cut ∂BCE/∂y_k = -1 / y_k, which has no lower bound, at minus this


def hessian(folder: str, data_args: DataArguments, args: AnalysisArguments) -> dict:
    """Compare the energy's Hessian with the co-occurrence of labels in train. It is a mean over validation rows, at the
    task-net's outputs, or for an energy network at the gold labels."""
    seal, data, rows = read_multilabel(folder, data_args, args)
    gold = np.asarray(data.train.with_format("numpy")["labels"][:])
    order = np.argsort(-gold.sum(0), kind="stable")[:MOST_LABELS]
    labels, total, count = np.sort(order), torch.zeros(()), 0
    for inputs, gold_rows in batches(rows, args):
        y = seal.space.relax(outputs_of(seal, inputs)) if isinstance(seal, SealForMultiLabel) else gold_rows.float()
        total = total + len(y) * analysis.energy_hessian(energy_at(seal, inputs), y, labels.tolist())
        count += len(y)
    matrix = (total / count).numpy()
    references = {
        "pmi": analysis.label_pmi(gold[:, labels]),
        "correlation": analysis.label_correlation(gold[:, labels]),
    }
    names = [data.label_names[i] for i in labels]
    if args.figure:
        shown = {"-∂²E/∂y∂y": -matrix, "PMI of labels": references["pmi"]}
        draw_matrices(Path(args.output_dir, "hessian.png"), shown, names, diagonal=False)
    agree = {name: analysis.agreement(-matrix, reference, symmetric=True) for name, reference in references.items()}
    at = "gold" if seal.task_net is None else "outputs"
    return {
        "rows": count,
        "at": at,
        "labels": names,
        "hessian": matrix,
        **references,
        "agreement_of_minus_hessian": agree,
    }


def gradients(folder: str, data_args: DataArguments, args: AnalysisArguments) -> dict:
    """Draw gradients of cross-entropy and energy for the labels k that vary most.

    Each k stands beside the label i that it occurs with most, and beside an unrelated one. The gradients are taken at
    samples of Uniform(0, 1)^L (SEAL, Fig. 2: cross-entropy of y*_k = 1, and the energy's global term), and at the
    outputs of the task-net if there is one.
    """
    seal, data, rows = read_multilabel(folder, data_args, args)
    gold = np.asarray(data.train.with_format("numpy")["labels"][:])
    associated, unrelated = analysis.label_pairs(gold, NUM_PAIRS)
    by_batch = []
    if isinstance(seal, SealForMultiLabel):
        for inputs, labels in batches(rows, args):
            logits = outputs_of(seal, inputs)
            both = analysis.gradients_at_output(energy_at(seal, inputs), logits, labels, args.energy_weight)
            by_batch.append((seal.space.relax(logits), *both))
    at_output = [torch.cat(parts) for parts in zip(*by_batch, strict=True)]  # ŷ and both gradients, (N, L) each
    energy_net: Any = seal.loss_net.energy  # of label sets
    features = torch.zeros(1, energy_net.label_embeddings.embedding_dim)
    found, plots = [], []
    for kind, pairs in (("associated", associated), ("unrelated", unrelated)):
        for i, k in pairs:
            names: dict[str, Any] = {"kind": kind, "i": data.label_names[i], "k": data.label_names[k]}
            global_term = lambda y: seal.loss_net.energies(features.expand(len(y), -1), y.unsqueeze(1)).squeeze(1)  # noqa: E731
            cross_entropy = lambda y, k=k: -y[:, k].log()  # noqa: E731
            (y, bce), (_, slope) = (
                analysis.gradient_samples(
                    of, len(data.label_names), k, args.num_samples, torch.Generator().manual_seed(args.seed)
                )
                for of in (cross_entropy, global_term)
            )
            title = f"{names['i']} → {names['k']} ({kind})"
            there = {"x": y[:, i], "y": y[:, k], "x_label": "y_i", "y_label": "y_k"}
            cut = bce.clamp_min(-MOST_SLOPE)
            names |= {
                "correlation_of_y_i_with_global_gradient": correlation(y[:, i], slope),
                "correlation_of_y_i_with_bce_gradient": correlation(y[:, i], cut),
            }
            row = [
                there | {"colour": cut, "title": title, "colour_label": f"∂BCE/∂y_k, y*_k = 1, cut at -{MOST_SLOPE}"},
                there | {"colour": slope, "title": "energy, global term", "colour_label": "∂E_global/∂y_k"},
            ]
            if at_output:
                y_hat, task, energy = at_output
                here = {"x": y_hat[:, i], "y": y_hat[:, k], "x_label": "ŷ_i", "y_label": "ŷ_k"}
                names |= {
                    "correlation_of_y_i_with_energy_gradient_at_output": correlation(y_hat[:, i], energy[:, k]),
                    "mean_abs_task_gradient_at_output": float(task[:, k].abs().mean()),
                    "mean_abs_energy_gradient_at_output": float(energy[:, k].abs().mean()),
                }
                row += [
                    here | {"colour": task[:, k], "title": "task loss, at the output", "colour_label": "∂BCE/∂z_k"},
                    here | {"colour": energy[:, k], "title": "energy, at the output", "colour_label": "λ1 ∂E/∂z_k"},
                ]
            found.append(names)
            plots.append(row)
    if args.figure:
        draw_points(Path(args.output_dir, "gradients.png"), plots)
    return {"rows": len(at_output[0]) if at_output else 0, "energy_weight": args.energy_weight, "pairs": found}


def read_multilabel(
    folder: str, data_args: DataArguments, args: AnalysisArguments
) -> tuple[SealForMultiLabel | EnergyAlone, MultiLabelData, TensorRows]:
    """Both nets or an energy network, the data, and its validation rows as the nets read them."""
    alone = holds_energy_network(folder)
    seal: SealForMultiLabel | EnergyAlone = EnergyAlone(folder) if alone else load_nets(SealForMultiLabel, folder)
    data = load_multilabel(**asdict(data_args), seed=args.seed)
    check_names(seal, data, folder)
    for split in (data.train, data.validation):
        if (np.asarray(split.with_format("numpy")["labels"][:]) < 0).any():
            raise DataError(
                f"{data.name} has unknown labels (-1), but this command counts how labels occur together in rows. Give "
                "the data without these rows."
            )
    if data.kind == "features":
        return seal, data, TensorRows(data.validation)
    if data.kind == "images":
        return seal, data, ImageRows(data.validation, load_image_processor(folder))
    tokenizer = load_tokenizer(folder)
    known = args.max_length or trained_inputs(seal.config).get("max_length")
    max_length = None if reads_whole(seal.config) else known or MAX_LENGTH
    return seal, data, tokenize(data.validation, tokenizer, max_length)


class EnergyAlone:
    """An energy network without a task-net, with the methods of [`SealForMultiLabel`] that this command uses."""

    task_net = None

    def __init__(self, folder: str):
        net = LossNet.from_pretrained(folder, dtype=torch.float32, use_safetensors=True)
        self.loss_net, self.config = net.eval().requires_grad_(False), net.config
        check_space(self.config, SealForMultiLabel, folder)
        if self.config.encoder_mode != "separate":
            raise ValueError(
                f"The loss-net in {folder} reads the features of a task-net (loss_net_encoder="
                f"{self.config.encoder_mode!r}), which is missing. Give the folder of the whole run."
            )

    def energy(self, y: Tensor, **inputs: Tensor) -> Tensor:
        """The energies (B,) of label sets y (B, L). Lower is better."""
        return self.loss_net(y.unsqueeze(1), None, inputs).squeeze(1)


def holds_energy_network(folder: str) -> bool:
    config = Path(folder, CONFIG_NAME)
    return config.is_file() and LossNetConfig.get_config_dict(folder)[0].get("model_type") == LossNetConfig.model_type


def energy_at(seal: SealForMultiLabel | EnergyAlone, inputs: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """A function from label sets (B, L) to their energies (B,) for these inputs."""
    return lambda y: seal.energy(y, **inputs)


def correlation(a: Tensor, b: Tensor) -> float | None:
    """Pearson's correlation; None if `a` or `b` is constant."""
    return float(np.corrcoef(a, b)[0, 1]) if float(a.std()) > 0 and float(b.std()) > 0 else None


ANALYSES = {"hessian": (hessian, DataArguments), "gradients": (gradients, DataArguments)}
