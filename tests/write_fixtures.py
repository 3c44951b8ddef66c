"""Small folders, checkpoints and a comparison as an earlier release wrote them, for `test_fixtures.py`:

PYTHONPATH=root/of/the/release python tests/write_fixtures.py [FOLDER]

FOLDER is `tests/fixtures` if nothing is said. The files there were written by the package of commit 60ed919, the last
one before the modules moved, with torch 2.13, transformers 5.23 and peft 0.21, on one thread.

`expected.json` and each `end.safetensors` hold what that package computed: from the saved nets, and at the end of the
same runs without interruption. This script names public names alone, so that it runs with the package of any commit;
files written anew would say nothing of the release, so they are written for a new kind of file alone, and by a release.

What is left out of the folders: `training_args.bin`, a pickle that nothing reads; a checkpoint is then marked as whole
anew. Of the comparison: `work/`, which its users may delete, and the plots. Of the adapters: the card of their library.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
from datasets import Dataset
from safetensors.torch import save_file
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, BertModel, TrainerCallback
from transformers.trainer_callback import PrinterCallback

import seal_hf
from seal_hf import (
    ENERGIES,
    EnergyTrainer,
    EnergyTrainingArguments,
    FCNConfig,
    FCNForSemanticSegmentation,
    GridEnergy,
    LossNet,
    LossNetConfig,
    SealForMultiLabel,
    SealForSegmentation,
    SealForTokenClassification,
    SealTrainer,
    SealTrainingArguments,
    TensorRows,
    Vocabulary,
    encode_words,
    load_energy_network,
)
from seal_hf.lab.compare.runner import Runs
from seal_hf.saving import mark_complete

FIXTURES = Path(__file__).resolve().parent / "fixtures"
ROWS, FEATURES, LABELS = 32, 5, ["joy", "anger", "fear", "calm"]
TAGS = ["O", "B-X", "I-X"]
WORDS = [["A", "good", "film"], ["bad", "Song"], ["the", "plot", "of", "a", "book"]]
PIXELS = 12  # a side
NAMED = {"id2label": dict(enumerate(LABELS)), "label2id": {name: i for i, name in enumerate(LABELS)}}
MASK_NAMED = {"id2label": {0: "background", 1: "square"}, "label2id": {"background": 0, "square": 1}}
QUIET = dict(use_cpu=True, report_to="none", disable_tqdm=True, save_strategy="no", logging_steps=1)

# --- data and nets ---------------------------------------------------------------------------------------------------


class Names:
    """What `SealForMultiLabel.for_data` reads of a data set."""

    name, kind, num_features, label_names, scaling = "tiny", "features", FEATURES, LABELS, None


def quarters(*shape, seed=0, low=-6, high=7):
    """Multiples of 1/4, which are exact in any notation."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed)) / 4


def relaxed(*shape, seed=1):
    """Of [0, 1], in quarters."""
    return quarters(*shape, seed=seed, low=0, high=5)


def table():
    x = quarters(ROWS, FEATURES)
    y = (x[:, :4] + x[:, 1:] > 0.5).float()
    return TensorRows(Dataset.from_dict({"features": x.numpy(), "labels": y.numpy()}))


def filled(net, std=0.3):
    """The net, with parameters that no initialiser draws."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(std * torch.randn(parameter.shape, generator=generator))
    return net


def label_nets(encoder="separate"):
    options = dict(hidden_size=4, global_size=3, dropout=0.2, loss_net_encoder=encoder)
    return filled(SealForMultiLabel.for_data(Names, **{"dropout": 0.0, **options}))


def bert_config():
    sizes = dict(hidden_size=4, num_hidden_layers=1, num_attention_heads=2, intermediate_size=4)
    return BertConfig(vocab_size=12, max_position_embeddings=8, pad_token_id=0, **sizes, **NAMED)


def text_nets(folder):
    """A BERT, and a loss-net that reads its features."""
    filled(BertForSequenceClassification(bert_config())).save_pretrained(folder)
    return filled(SealForMultiLabel.from_pretrained(folder, loss_net_encoder="shared", global_size=3))


def adapted_nets():
    """Two LoRAs in a frozen BERT, which is the folder `bert` of the working directory."""
    options = dict(loss_net_encoder="peft", adapter_rank=1, global_size=3)
    nets = SealForMultiLabel.from_pretrained("bert", **options, **NAMED)
    generator = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for net in (nets.task_net, nets.loss_net):
            for parameter in (p for p in net.parameters() if p.requires_grad or net is nets.loss_net):
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return nets


def text_inputs():
    return {
        "input_ids": torch.tensor([[2, 5, 6, 3], [2, 11, 3, 0], [2, 9, 4, 3]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]]),
    }


def sentences():
    tags = [[0, 1, 2], [0, 1], [0, 1, 0, 0, 1]]
    return Dataset.from_dict({"words": WORDS, "tags": tags})


def vocabulary():
    return Vocabulary.from_data(sentences(), features=["case"], characters=True)


def tag_nets(**options):
    data = SimpleNamespace(name="tiny", kind="bio", label_names=TAGS, train=sentences())
    sizes = dict(word_size=4, hidden_size=4, global_size=3, crf=True)
    made = SealForTokenClassification.for_data(data, vocabulary=vocabulary(), **{"dropout": 0.0} | sizes | options)
    filled(made, 0.8)
    filled(made.task_net.crf, 3.0)  # so that it decodes other tags than the logits alone
    return made


class SmallGrid(GridEnergy):
    """With 2 and 3 channels: the energy of masks has one size, of 10 MB."""

    def __init__(self, channels: int = 3, dropout: float = 0.0):
        super().__init__(channels, dropout)
        self.from_image = nn.Conv2d(channels, 2, 5, padding=2)
        self.from_mask = nn.Conv2d(1, 2, 5, padding=2, bias=False)
        self.convolutions[0] = nn.Conv2d(2, 3, 5, stride=2, padding=2)
        self.convolutions[2] = nn.Conv2d(3, 3, 5, stride=2, padding=2)
        self.linear[0], self.linear[3], self.linear[5] = nn.Linear(3 * 36, 4), nn.Linear(4, 3), nn.Linear(3, 1)


@contextlib.contextmanager
def small_grid():
    """Meanwhile a loss-net may have it, as one of a program's own."""
    ENERGIES["small_grid"] = SmallGrid
    try:
        yield
    finally:
        del ENERGIES["small_grid"]


def mask_nets():
    task_net = FCNForSemanticSegmentation(FCNConfig(hidden_sizes=(2, 2, 2), crop_size=8, **MASK_NAMED))
    config = LossNetConfig(space="binary_mask", energy="small_grid", num_labels=2, **MASK_NAMED)
    return SealForSegmentation(filled(task_net), filled(LossNet(config)))


def shapes():
    """Names and shapes of the weights of the nets with every energy, in the energies' own sizes."""
    found = {}
    for name, energy in ENERGIES.items():
        if energy.space == SealForMultiLabel.space_class.name:
            nets = SealForMultiLabel.for_data(Names, hidden_size=4, energy=name)
        elif energy.space == SealForTokenClassification.space_class.name:
            nets = tag_nets(energy=name, global_size=None)
        else:
            config = LossNetConfig(space="binary_mask", energy=name, num_labels=2, **MASK_NAMED)
            nets = SealForSegmentation(FCNForSemanticSegmentation(FCNConfig(**MASK_NAMED)), LossNet(config))
        found[name] = {key: list(value.shape) for key, value in nets.state_dict().items()}
    return found


# --- what is computed from them --------------------------------------------------------------------------------------

SAVED = {  # the class of both nets by folder, the inputs, relaxed structures
    "labels": (SealForMultiLabel, lambda: {"features": quarters(3, FEATURES, seed=2)}, lambda: relaxed(3, 2, 4)),
    "texts": (SealForMultiLabel, text_inputs, lambda: relaxed(3, 2, 4)),
    "adapters": (SealForMultiLabel, text_inputs, lambda: relaxed(3, 2, 4)),
    "tags": (SealForTokenClassification, lambda: word_inputs(vocabulary()), lambda: relaxed(3, 2, 5, 3)),
    "masks": (
        SealForSegmentation,
        lambda: {"pixel_values": relaxed(2, 3, PIXELS, PIXELS, seed=3)},
        lambda: relaxed(2, 2, PIXELS, PIXELS),
    ),
}


def word_inputs(words):
    """The sentences as the BiLSTM reads them, by their vocabulary."""
    batch = encode_words(sentences(), words).batch(range(len(WORDS)))
    return {name: value for name, value in batch.items() if name != "labels"}


@torch.no_grad()
def outputs(nets, inputs, y):
    """Logits, energies of the structures y and, of tags, what is decoded."""
    nets.eval()
    mask = inputs["attention_mask"].bool() if isinstance(nets, SealForTokenClassification) else None
    found = {"logits": nets(**inputs).logits, "energies": nets.energy(y, mask, **inputs)}
    if isinstance(nets, SealForTokenClassification):
        found["tags"] = nets.predict(mask=mask, **inputs)[1]
    return found


@torch.no_grad()
def energies_alone(net):
    """Of an energy network of label sets."""
    return net.eval()(relaxed(3, 2, 4), None, {"features": quarters(3, FEATURES, seed=2)})


# --- runs ------------------------------------------------------------------------------------------------------------

STOP = 3  # of 6 updates, 4 per epoch
RUNS = {
    "nce": dict(energy_loss="nce", num_samples=4, loss_net_steps=2, loss_net_lr_scheduler_type="linear"),
    "infnet_plus": dict(energy_loss="infnet_plus", loss_net_encoder="shared", gradient_accumulation_steps=2),
    "spen": dict(energy_method="spen", inference_start="random", inference_num_starts=2, inference_steps=3),
}


class StopAt(TrainerCallback):
    """Stops the run after a step, as a user's interrupt would, but reproducibly."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= self.step


def run(name, folder, resume=None, stop=None, **options):
    """One of `RUNS`, to its end; the trainer, and the weights of all its nets by name. With dropout."""
    options = dict(per_device_train_batch_size=8, learning_rate=1e-2, max_steps=6, **QUIET) | RUNS[name] | options
    options["per_device_train_batch_size"] //= options.get("gradient_accumulation_steps", 1)
    nets = label_nets(options.get("loss_net_encoder", "separate"))
    torch.manual_seed(0)
    rows, callbacks = table(), [StopAt(stop)] if stop else None
    kinds = (EnergyTrainer, EnergyTrainingArguments) if name == "spen" else (SealTrainer, SealTrainingArguments)
    trainer_class, arguments_class = kinds
    if kinds[0] is SealTrainer:
        options.setdefault("energy_weight", 1.0)
    args = arguments_class(output_dir=str(folder), **options)
    trained = {"energy": nets.loss_net} if name == "spen" else {"task_net": nets.task_net, "loss_net": nets.loss_net}
    model = nets.loss_net if name == "spen" else nets
    trainer = trainer_class(model, args, train_dataset=rows, eval_dataset=rows, callbacks=callbacks)
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    weights = {f"{net}.{key}": value for net, made in trained.items() for key, value in made.state_dict().items()}
    return trainer, {key: value.detach().clone() for key, value in weights.items()}


def figures(trainer):
    """What was logged, less what measures time."""
    logs = [log for log in trainer.state.log_history if "train_runtime" not in log]
    return [{key: value for key, value in log.items() if "per_second" not in key} for log in logs]


# --- a comparison ----------------------------------------------------------------------------------------------------

COMPARED = (  # on the embedded digits
    "--losses constant ce nce --budget 1 --max_train_rows 150 --num_train_epochs 2 --hidden_size 16 "
    "--per_device_train_batch_size 50 --normalize none"
).split()
UNFINISHED = "nce"  # searched, but its run was stopped


@contextlib.contextmanager
def stopped_before(runs_class, method):
    """A comparison is interrupted as it is about to write the run of a method."""
    save = runs_class.save

    def interrupted(self, name, *args):
        if name == method:
            raise KeyboardInterrupt
        save(self, name, *args)

    runs_class.save = interrupted
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        runs_class.save = save


# --- writing ---------------------------------------------------------------------------------------------------------


def numbers(value):
    """Tensors as lists, floats to nine digits."""
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [numbers(part) for part in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def without_pickle(folder):
    """The folder without `training_args.bin`; a checkpoint stays a whole one."""
    Path(folder, "training_args.bin").unlink(missing_ok=True)
    if Path(folder, "complete.json").is_file():
        mark_complete(folder)


def write_saved(folder):
    """Two nets of each kind: by `save_pretrained`, and by `save_model` of a trainer with the words' vocabulary. The
    folder is the working directory."""
    label_nets().save_pretrained(folder / "labels")
    with tempfile.TemporaryDirectory() as plain:
        text_nets(plain).save_pretrained(folder / "texts")
    filled(BertModel(bert_config())).save_pretrained("bert")
    adapted_nets().save_pretrained("adapters", adapter_export="adapter")  # they name their base as it was given
    Path("adapters", "README.md").unlink()
    words = vocabulary()
    args = SealTrainingArguments(output_dir=str(folder / "tags"), task_loss="crf", **QUIET)
    rows = encode_words(sentences(), words)
    SealTrainer(tag_nets(), args, train_dataset=rows, processing_class=words).save_model()
    without_pickle(folder / "tags")
    with small_grid():
        mask_nets().save_pretrained(folder / "masks")
    found = {}
    with small_grid():
        for name, (seal, inputs, y) in SAVED.items():
            given = {"inputs": inputs(), "y": y()}
            nets = seal.from_pretrained(name)
            found[name] = {**given, **outputs(nets, **given)}
    return found


def write_checkpoint(name, folder):
    """The checkpoint of an interrupted run, and what the run ends with that was not interrupted."""
    with tempfile.TemporaryDirectory() as scratch:
        done, weights = run(name, Path(scratch, "whole"))
        run(name, Path(scratch, "part"), stop=STOP, save_strategy="steps", save_steps=STOP)
        checkpoint = Path(scratch, "part", f"checkpoint-{STOP}")
        _, resumed = run(name, Path(scratch, "again"), resume=str(checkpoint))
        assert all(torch.equal(value, resumed[key]) for key, value in weights.items())
        shutil.copytree(checkpoint, folder / name / checkpoint.name)
    without_pickle(folder / name / checkpoint.name)
    save_file({key: value.contiguous() for key, value in weights.items()}, folder / name / "end.safetensors")
    return {"log": figures(done), "metrics": {k: v for k, v in done.evaluate().items() if "energy" in k or "loss" in k}}


def write_energy_network(folder):
    """As an EnergyTrainer saves it."""
    with tempfile.TemporaryDirectory() as scratch:
        trainer, _ = run("spen", scratch)
        trainer.save_model(str(folder / "energy"))
    without_pickle(folder / "energy")
    return {"energies": energies_alone(load_energy_network(folder / "energy"))}


def write_comparison(folder):
    """A comparison that was interrupted, and the figures of its last run from one that was not."""
    sys.path.insert(0, str(Path(seal_hf.__file__).parents[1] / "examples"))  # of the release
    import compare_losses

    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(None):
        whole = compare_losses.main([*COMPARED, "--output_dir", str(Path(scratch, "whole"))])
        with stopped_before(Runs, UNFINISHED):
            compare_losses.main([*COMPARED, "--output_dir", str(folder)])
        left = whole.load(UNFINISHED, 1)
    shutil.rmtree(folder / "work")
    for plot in folder.glob("*.png"):
        plot.unlink()
    return {"run": {key: value for key, value in left.items() if key.startswith(("eval", "test_f1", "test_map"))}}


def main(folder=FIXTURES):
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    for old in (path for path in folder.iterdir() if path.is_dir()):
        shutil.rmtree(old)
    torch.set_num_threads(1)
    expected = {"saved": write_saved(folder), "energy": write_energy_network(folder), "shapes": shapes()}
    expected["runs"] = {name: write_checkpoint(name, folder) for name in RUNS}
    expected["comparison"] = write_comparison(folder / "comparison")
    text = json.dumps(numbers(expected), separators=(",", ":"))
    (folder / "expected.json").write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
