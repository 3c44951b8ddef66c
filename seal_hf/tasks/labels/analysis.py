"""`seal-hf analyse hessian`: what a trained energy of label sets has learned."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from ...data import DataArguments, DataError, MultiLabelData, load_multilabel
from ...data.tensors.collators import TensorRows, tokenize
from ...data.tensors.images import ImageRows, load_image_processor
from ...data.tensors.words import load_tokenizer
from ...lab import analysis
from ...lab.analysis import (
    AnalysisArguments,
    batches,
    check_names,
    draw_matrices,
    load_nets,
    outputs_of,
)
from ...nets.text_pooling import reads_whole
from ...saving.batches import trained_inputs
from .model import MAX_LENGTH, SealForMultiLabel

MOST_LABELS = 200  # of a Hessian: the most frequent ones


def hessian(folder: str, data_args: DataArguments, args: AnalysisArguments) -> dict:
    """Compare the energy's Hessian with the co-occurrence of labels in train. It is a mean over validation rows, at the
    task-net's outputs."""
    seal, data, rows = read_multilabel(folder, data_args, args)
    gold = np.asarray(data.train.with_format("numpy")["labels"][:])
    order = np.argsort(-gold.sum(0), kind="stable")[:MOST_LABELS]
    labels, total, count = np.sort(order), torch.zeros(()), 0
    for inputs, _ in batches(rows, args):
        y = seal.space.relax(outputs_of(seal, inputs))
        energy = lambda y, x=inputs: seal.energy(y, **x)  # noqa: E731
        total = total + len(y) * analysis.energy_hessian(energy, y, labels.tolist())
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
    return {
        "rows": count,
        "labels": names,
        "hessian": matrix,
        **references,
        "agreement_of_minus_hessian": agree,
    }


def read_multilabel(
    folder: str, data_args: DataArguments, args: AnalysisArguments
) -> tuple[SealForMultiLabel, MultiLabelData, TensorRows]:
    """Both nets, the data, and its validation rows as the nets read them."""
    seal = load_nets(SealForMultiLabel, folder)
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


ANALYSES = {"hessian": (hessian, DataArguments)}
