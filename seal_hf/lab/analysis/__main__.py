"""What has a trained energy learned? Reads a folder that `train mlc`, `train energy` or `train tagging` saved.

seal-hf analyse hessian FOLDER --dataset bibtex --data_dir DATA --output_dir DIR
seal-hf analyse gradients FOLDER --dataset bibtex --data_dir DATA --output_dir DIR --energy_weight 0.5
seal-hf analyse tags FOLDER --dataset twitter_pos --data_dir DATA --output_dir DIR

The command writes hessian.json, gradients.json or tags.json, and a figure of the same name (.png), to DIR. `hessian`
compares the energy's second derivatives with the co-occurrence of labels. `tags` compares those of neighbouring tags
with their bigrams. `gradients` draws SEAL's Figure 2: the gradients of cross-entropy and of the energy's global term at
one label, by the value of another label.

An energy network (`train energy`; SEAL's Figures 4 and 5) lacks a task-net. `hessian` then uses the gold label sets of
validation rows, and `gradients` draws only the plots that need no outputs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers.utils import CONFIG_NAME

from ...cli.programs import run_program
from ...cli.recipes import parse_recipe
from ...data import (
    DataArguments,
    DataError,
    MultiLabelData,
    TagDataArguments,
    TagSequenceData,
    load_multilabel,
    load_tags,
)
from ...data.tensors.collators import TensorRows, tokenize
from ...data.tensors.images import ImageRows, load_image_processor
from ...data.tensors.vocabulary import Vocabulary
from ...data.tensors.words import encode_words, load_tokenizer, tokenize_words
from ...loss_net.loss_net import LOSS_NET_FOLDER, LossNet, LossNetConfig
from ...nets.recurrent import BiLSTMForTokenClassification
from ...nets.text_windows import reads_whole
from ...saving.batches import trained_inputs
from ...saving.model import SealModel, SealModelT
from ...tasks.labels.model import SealForMultiLabel
from ...tasks.tags.chains import CRF
from ...tasks.tags.model import SealForTokenClassification
from ...tasks.tags.space import TagSequenceSpace
from ...utils.options import check_given
from ...utils.recorded import recorded
from . import dependence as d
from .draw import check_matplotlib, draw_matrices, draw_points

MOST_SLOPE = 10  # plots cut ∂BCE/∂y_k = -1 / y_k, which has no lower bound, at minus this


@dataclass
class AnalysisArguments:
    """What to look at."""

    output_dir: str = field(default="analysis", metadata={"help": "Folder for the results."})
    figure: bool = field(default=True, metadata={"help": "Also draw a figure (needs matplotlib)."})
    batch_size: int = field(default=64, metadata={"help": "Validation rows at a time."})
    max_rows: int = field(default=500, metadata={"help": "Most validation rows; for tags with an LSTM take fewer."})
    max_labels: int = field(default=200, metadata={"help": "hessian: number of labels, the most frequent ones."})
    num_pairs: int = field(default=4, metadata={"help": "gradients: number of labels, each beside two others."})
    num_samples: int = field(default=1000, metadata={"help": "gradients: number of samples from Uniform(0, 1)^L."})
    energy_weight: float = field(default=1.0, metadata={"help": "gradients: λ1 of the run."})
    max_length: int | None = field(default=None, metadata={"help": "Longest text, in tokens; default: as in the run."})
    seed: int = field(default=0, metadata={"help": "Seed of the samples, and of splits that the data does not fix."})


def hessian(folder: str, data_args: DataArguments, args: AnalysisArguments) -> dict:
    """Compare the energy's Hessian with the co-occurrence of labels in train. It is a mean over validation rows, at the
    task-net's outputs, or for an energy network at the gold labels."""
    seal, data, rows = read_multilabel(folder, data_args, args)
    gold = np.asarray(data.train.with_format("numpy")["labels"][:])
    order = np.argsort(-gold.sum(0), kind="stable")[: args.max_labels]
    labels, total, count = np.sort(order), torch.zeros(()), 0
    for inputs, gold_rows in batches(rows, args):
        y = seal.space.relax(outputs_of(seal, inputs)) if isinstance(seal, SealForMultiLabel) else gold_rows.float()
        total = total + len(y) * d.energy_hessian(energy_at(seal, inputs), y, labels.tolist())
        count += len(y)
    matrix = (total / count).numpy()
    references = {"pmi": d.label_pmi(gold[:, labels]), "correlation": d.label_correlation(gold[:, labels])}
    names = [data.label_names[i] for i in labels]
    if args.figure:
        shown = {"-∂²E/∂y∂y": -matrix, "PMI of labels": references["pmi"]}
        draw_matrices(Path(args.output_dir, "hessian.png"), shown, names, diagonal=False)
    agree = {name: d.agreement(-matrix, reference, symmetric=True) for name, reference in references.items()}
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
    associated, unrelated = d.label_pairs(gold, args.num_pairs)
    by_batch = []
    if isinstance(seal, SealForMultiLabel):
        for inputs, labels in batches(rows, args):
            logits = outputs_of(seal, inputs)
            both = d.gradients_at_output(energy_at(seal, inputs), logits, labels, args.energy_weight)
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
                d.gradient_samples(
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
            total = total + pairs * d.tag_pair_hessian(energy, output, mask)
        count += pairs
    bigrams = d.tag_bigrams(data.train["tags"][:], len(data.label_names))
    references = {"log_bigrams": np.log(bigrams + 1.0), "pmi": d.tag_pmi(bigrams)}
    learned = {"minus_hessian": -(total / max(count, 1)).numpy()}
    if isinstance(crf := getattr(seal.task_net, "crf", None), CRF) and crf.tied is None:
        learned["crf_transitions"] = crf.transitions.detach().numpy()
    if args.figure:
        titles = {"minus_hessian": "-∂²E/∂y_t∂y_t+1", "crf_transitions": "transitions of the CRF"}
        shown = {titles[name]: matrix for name, matrix in learned.items()} | {"PMI of neighbours": references["pmi"]}
        draw_matrices(Path(args.output_dir, "tags.png"), shown, data.label_names, diagonal=True)
    agree = {
        name: {key: d.agreement(matrix, reference, symmetric=False) for key, reference in references.items()}
        for name, matrix in learned.items()
    }
    return {"neighbours": count, "tags": data.label_names, **learned, **references, "agreement": agree}


COMMANDS: dict[str, tuple[Callable[..., dict], type]] = {
    "hessian": (hessian, DataArguments),
    "gradients": (gradients, DataArguments),
    "tags": (tags, TagDataArguments),
}


def read_multilabel(
    folder: str, data_args: DataArguments, args: AnalysisArguments
) -> tuple[SealForMultiLabel | EnergyAlone, MultiLabelData, TensorRows]:
    """Both nets or an energy network, the data, and its validation rows."""
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
    max_length = None if reads_whole(seal.config) else known or 128
    return seal, data, tokenize(data.validation, tokenizer, max_length)


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
        """y (B, L) -> (B,), lower = better."""
        return self.loss_net(y.unsqueeze(1), None, inputs).squeeze(1)


def holds_energy_network(folder: str) -> bool:
    config = Path(folder, CONFIG_NAME)
    return config.is_file() and LossNetConfig.get_config_dict(folder)[0].get("model_type") == LossNetConfig.model_type


def load_nets(kind: type[SealModelT], folder: str) -> SealModelT:
    """Both nets of a saved folder, frozen, for evaluation."""
    if not Path(folder, LOSS_NET_FOLDER, CONFIG_NAME).is_file():
        raise ValueError(
            f"{folder} has no {LOSS_NET_FOLDER}/, so there is no energy to analyse. Give the output_dir or a "
            "checkpoint of a run with a loss-net. `hessian` and `gradients` also take an energy network's folder."
        )
    check_space(LossNetConfig.from_pretrained(Path(folder, LOSS_NET_FOLDER)), kind, folder)
    return kind.from_pretrained(folder).eval().requires_grad_(False)


def check_space(config: LossNetConfig, kind: type[SealModel], folder: str) -> None:
    if config.space != kind.space_class.name:
        raise ValueError(
            f"The loss-net in {folder} is for outputs of the kind {config.space}, but this command is for "
            f"{kind.space_class.name}: `hessian` and `gradients` analyse label sets, `tags` tag sequences."
        )


def check_names(seal: SealModel | EnergyAlone, data: MultiLabelData | TagSequenceData, folder: str) -> None:
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
    return seal.task_net(**inputs).logits


def energy_at(seal: SealForMultiLabel | EnergyAlone, inputs: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """Label sets (B, L) -> energies (B,), for these inputs."""
    return lambda y: seal.energy(y, **inputs)


def correlation(a: Tensor, b: Tensor) -> float | None:
    """Pearson's correlation; None if `a` or `b` is constant."""
    return float(np.corrcoef(a, b)[0, 1]) if float(a.std()) > 0 and float(b.std()) > 0 else None


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
