"""A tiny tagging task and both kinds of task-net for it: a BiLSTM, and a BERT with words of several tokens."""

from types import SimpleNamespace

import torch
from datasets import Dataset
from tiny_models import WORDS, tiny_arguments, tiny_config, tiny_tokenizer
from transformers import AutoModel
from transformers.trainer_callback import PrinterCallback

from seal_hf import SealForTokenClassification, SealTrainer, Vocabulary, encode_words, tokenize_words

TAGS = ["O", "B-X", "I-X"]


def sentences(num_rows=32, seed=0):
    """Of 1 to 6 words, some of which a tokenizer splits. A film or book begins a span, which songs and plots go on."""
    generator = torch.Generator().manual_seed(seed)
    words, tags = [], []
    for i in range(num_rows):
        ids = torch.randint(len(WORDS), (1 + i % 6,), generator=generator).tolist()
        words.append([WORDS[a] if (a + i) % 3 else f"{WORDS[a]}-{WORDS[a]}" for a in ids])
        row = []
        for place, a in enumerate(ids):
            begins, goes_on = WORDS[a] in ("film", "book"), WORDS[a] in ("song", "plot")
            row.append(1 if begins else 2 if goes_on and place and row[-1] else 0)
        tags.append(row)
    return Dataset.from_dict({"words": words, "tags": tags})


def data(**columns):
    return SimpleNamespace(name="tiny", kind="bio", label_names=TAGS, train=sentences(), **columns)


def nets(kind, folder, encoder="separate", seed=0, **options):
    """Both nets, and the rows they read. `folder` takes the plain BERT that both of its nets begin from."""
    torch.manual_seed(seed)
    if kind == "bert" and not (folder / "bert").is_dir():
        AutoModel.from_config(tiny_config("bert", attention_probs_dropout_prob=0.0)).save_pretrained(folder / "bert")
    torch.manual_seed(seed)
    options = {"loss_net_encoder": encoder, "global_size": 8} | options
    if kind == "bilstm":
        vocabulary = Vocabulary.from_data(sentences())
        options = {"word_size": 8, "hidden_size": 16, "dropout": 0.0} | options
        return SealForTokenClassification.for_data(data(), vocabulary=vocabulary, **options), encode_words(
            sentences(), vocabulary
        )
    return SealForTokenClassification.for_data(data(), folder / "bert", **options), tokenize_words(
        sentences(), tiny_tokenizer()
    )


def trainer(folder, both, rows, callbacks=None, decode_predictions=False, model_init=None, space=None, **options):
    """A silent trainer of 16 rows per batch."""
    options = {"per_device_train_batch_size": 16, "learning_rate": 1e-2, "loss_net_learning_rate": 1e-2} | options
    if both is not None:
        options.setdefault("loss_net_encoder", both.loss_net.config.encoder_mode)
    made = SealTrainer(
        both,
        tiny_arguments(folder, **options),
        train_dataset=rows,
        eval_dataset=rows,
        callbacks=callbacks,
        decode_predictions=decode_predictions,
        model_init=model_init,
        space=space,
    )
    made.remove_callback(PrinterCallback)
    return made


def parameters(both):
    """Of both nets, task-net first."""
    return torch.cat([p.detach().flatten() for net in (both.task_net, both.loss_net) for p in net.parameters()])
