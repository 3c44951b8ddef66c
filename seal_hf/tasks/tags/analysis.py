"""`seal-hf analyse tags`: what a trained energy of tags has learned."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ...data import TagDataArguments, TagSequenceData, load_tags
from ...data.tensors.collators import TensorRows
from ...data.tensors.vocabulary import Vocabulary
from ...data.tensors.words import encode_words, load_tokenizer, tokenize_words
from ...lab import analysis
from ...lab.analysis import AnalysisArguments, batches, check_names, draw_matrices, load_nets, outputs_of
from ...nets.recurrent import BiLSTMForTokenClassification
from .chains import CRF
from .model import SealForTokenClassification
from .space import TagSequenceSpace


def tags(folder: str, data_args: TagDataArguments, args: AnalysisArguments) -> dict:
    """Compare the energy's mixed second derivatives of neighbouring tags, and the transitions of a CRF, with bigrams of
    tags in train. The derivatives are taken at the task-net's outputs for validation rows."""
    seal, data, rows = read_tags(folder, data_args, args)
    total, count, space = torch.zeros(()), 0, seal.space
    assert isinstance(space, TagSequenceSpace), "as `read_tags` says"
    for inputs, labels in batches(rows, args):
        mask = labels >= 0
        pairs = int((mask.sum(1) - 1).clamp_min(0).sum())
        energy = lambda y, x=inputs, m=mask: seal.energy(y, m, **x)  # noqa: E731
        with sdpa_kernel(SDPBackend.MATH):  # the other kernels have no second derivative
            output = space.counting(mask).relax(outputs_of(seal, inputs))
            total = total + pairs * analysis.tag_pair_hessian(energy, output, mask)
        count += pairs
    bigrams = analysis.tag_bigrams(data.train["tags"][:], len(data.label_names))
    references = {"log_bigrams": np.log(bigrams + 1.0), "pmi": analysis.tag_pmi(bigrams)}
    learned = {"minus_hessian": -(total / max(count, 1)).numpy()}
    if isinstance(crf := getattr(seal.task_net, "crf", None), CRF) and crf.tied is None:
        learned["crf_transitions"] = crf.transitions.detach().numpy()
    if args.figure:
        titles = {"minus_hessian": "-∂²E/∂y_t∂y_t+1", "crf_transitions": "transitions of the CRF"}
        shown = {titles[name]: matrix for name, matrix in learned.items()} | {"PMI of neighbours": references["pmi"]}
        draw_matrices(Path(args.output_dir, "tags.png"), shown, data.label_names, diagonal=True)
    agree = {
        name: {key: analysis.agreement(matrix, reference, symmetric=False) for key, reference in references.items()}
        for name, matrix in learned.items()
    }
    return {"neighbours": count, "tags": data.label_names, **learned, **references, "agreement": agree}


def read_tags(
    folder: str, data_args: TagDataArguments, args: AnalysisArguments
) -> tuple[SealForTokenClassification, TagSequenceData, TensorRows]:
    """Both nets, the data, and its validation rows."""
    seal = load_nets(SealForTokenClassification, folder)
    data = load_tags(**asdict(data_args), seed=args.seed)
    check_names(seal, data, folder)
    if isinstance(seal.task_net, BiLSTMForTokenClassification):
        return seal, data, encode_words(data.validation, Vocabulary.from_pretrained(folder))
    tokenizer = load_tokenizer(folder, add_prefix_space=True)
    return seal, data, tokenize_words(data.validation, tokenizer, args.max_length, config=seal.config)


ANALYSES = {"tags": (tags, TagDataArguments)}
