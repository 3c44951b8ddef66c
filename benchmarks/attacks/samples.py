"""Small whole files of every kind that the package reads, and models trained on them. Names of folders and files are
relative to a case's folder."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

WORDS = "good bad dull bright film book song plot".split()
LABELS = ["joy", "anger", "fear", "calm"]
TAGS = ["O", "B-PER", "I-PER", "B-LOC"]
SIZE, ROWS = 12, 30  # pixels a side of an image; rows of each sample
QUICK = [
    *"--max_steps 1 --report false --per_device_train_batch_size 8 --logging_steps 1".split(),
    *"--eval_strategy no --save_strategy no --load_best_model_at_end false --patience 0".split(),
]
MODELS = {  # name -> words of `seal-hf train` and the data beside it
    "features": "mlc --dataset features --hidden_size 8 --global_size 4",
    "texts": "mlc --dataset rows.csv --model_name_or_path encoder --max_length 8 --loss_net_encoder separate",
    "pictures": "mlc --dataset pictures --hidden_size 8 --global_size 4",
    "tags": "tagging --dataset rows.conll",
    "roles": "srl --dataset roles.srl --model_name_or_path encoder",
    "trees": "parsing --dataset rows.trees",
    "masks": "segmentation --dataset masks.npz --crop_size 0 --per_device_train_batch_size 2",
    "classes": "segmentation --dataset classes.npz --crop_size 0 --per_device_train_batch_size 2",
}


def write(files: dict[str, bytes]) -> None:
    """Into the current folder."""
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def texts() -> list[dict]:
    draw = random.Random(0)
    return [
        {
            "text": " ".join(draw.choices(WORDS, k=1 + i % 6)),
            "labels": [label for j, label in enumerate(LABELS) if (i + j) % 3 == 0],
        }
        for i in range(ROWS)
    ]


def csv(mark: str = ",") -> bytes:
    lines = [f"{row['text']}{mark}{'|'.join(row['labels'])}" for row in texts()]
    return "\n".join([f"text{mark}labels", *lines, ""]).encode()


def multi_hot_csv() -> bytes:
    lines = [",".join([row["text"], *(str(int(label in row["labels"])) for label in LABELS)]) for row in texts()]
    return "\n".join([",".join(["text", *LABELS]), *lines, ""]).encode()


def jsonl() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in texts()).encode()


def table(rows: list[dict]) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def features() -> dict[str, bytes]:
    """A Mulan folder."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(ROWS, 5)), draw.integers(0, 2, (ROWS, len(LABELS)))
    names = [*(f"@attribute x{i} numeric" for i in range(4)), "@attribute x4 {a,b}"]
    names += [f"@attribute {label} {{0,1}}" for label in LABELS]
    data = [
        ",".join([*(f"{value:.3f}" for value in row[:4]), "ab"[int(row[4] > 0)], *map(str, own)])
        for row, own in zip(x, y, strict=True)
    ]
    xml = "".join(f'<label name="{label}"></label>\n' for label in LABELS)
    return {
        "features/r.arff": "\n".join(["@relation r", *names, "@data", *data, ""]).encode(),
        "features/r.xml": f'<?xml version="1.0"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">\n{xml}</labels>\n'.encode(),
    }


def clus() -> bytes:
    """ARFF with a hierarchy of classes."""
    header = (
        "@relation r\n@attribute x numeric\n@attribute b {no,yes}\n@attribute class hierarchical 01,01/02,03\n@data\n"
    )
    classes = ["01", "01/02", "03", "01@03", "01/02@03"]
    return (header + "".join(f"{i / 7:.2f},{('no', 'yes')[i % 2]},{classes[i % 5]}\n" for i in range(ROWS))).encode()


def feature_rows() -> list[dict]:
    draw = np.random.default_rng(1)
    return [{"features": draw.normal(size=5).tolist(), "labels": row["labels"]} for row in texts()]


def sentences() -> list[tuple[list[str], list[str]]]:
    draw = random.Random(1)
    found = []
    for i in range(ROWS):
        words = draw.choices(WORDS, k=2 + i % 5)
        tags = ["B-PER" if word == "film" else "B-LOC" if word == "book" else "O" for word in words]
        found.append((words, ["I-PER" if j and tags[j - 1] == "B-PER" else tag for j, tag in enumerate(tags)]))
    return found


def conll() -> bytes:
    return "\n".join("".join(f"{w} {t}\n" for w, t in zip(*rows, strict=True)) for rows in sentences()).encode()


def tag_rows() -> list[dict]:
    return [{"words": words, "tags": tags} for words, tags in sentences()]


def references() -> bytes:
    lines = [
        f"<NEWREFERENCE>\n<author> {' '.join(words)} </author> <date> 19{i:02} </date>\n"
        for i, (words, _) in enumerate(sentences())
    ]
    return "".join(lines).encode()


def roles() -> bytes:
    sentence = "0\tHe\tPRP\t*\t-\t-\t(ARG0*)\n1\tsaid\tVBD\t*\tsay\tsay.01\t(V*)\n2\tit{}\tPRP\t*\t-\t-\t(ARG1*)\n"
    return "\n".join(sentence.format(i) for i in range(ROWS)).encode()


def trees() -> bytes:
    tree = "(S (NP (DT the) (NN {})) (VP (VBZ is) (ADJP (JJ {}))))\n"
    return "".join(tree.format(WORDS[i % 8], WORDS[i * 3 % 8]) for i in range(ROWS)).encode()


def pixels(count: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """(N, H, W, 3) and masks (N, H, W) of 0, 1 and 255."""
    draw = np.random.default_rng(2)
    images, masks = draw.integers(0, 90, (count, SIZE, SIZE, 3), np.uint8), np.zeros((count, SIZE, SIZE), np.uint8)
    for i in range(count):
        masks[i, 2 + i % 4 : 8, 3:9] = 1
    images[masks == 1] += 120
    masks[:, 0] = 255
    return images, masks


def npz(classes: int = 2) -> bytes:
    images, masks = pixels()
    if classes > 2:
        masks[masks == 1] = np.resize(np.arange(1, classes), int((masks == 1).sum()))
    file = io.BytesIO()
    np.savez(file, images=images, masks=masks)
    return file.getvalue()


def encoded(array: np.ndarray, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind)
    return file.getvalue()


def mask_folder() -> dict[str, bytes]:
    images, masks = pixels()
    files = {f"folder/images/{i}.png": encoded(image) for i, image in enumerate(images)}
    return files | {f"folder/masks/{i}.png": encoded(mask) for i, mask in enumerate(masks)}


def pictures() -> dict[str, bytes]:
    """A table of names of images and labels."""
    images, _ = pixels(ROWS)
    lines = [f"{i}.jpg,{'|'.join(row['labels'])}" for i, row in enumerate(texts())]
    files = {f"pictures/images/{i}.jpg": encoded(image, "JPEG") for i, image in enumerate(images)}
    return files | {"pictures/labels.csv": "\n".join(["file_name,labels", *lines, ""]).encode()}


RULES = b"""rules:
- {keywords: [good, bright], for: joy, weight: 2}
- {keywords: 'ba.', for: anger, against: joy}
- {excludes: [joy, fear]}
- {at_least: 1}
- {rates: {calm: [0.3, 0.7]}}
"""
RECIPE = b"""dataset: rows.csv
model_name_or_path: encoder
max_length: 8
learning_rate: 1.0e-4
num_train_epochs: 1
loss: nce
warmup_ratio: 0.1
lr_scheduler_kwargs: {}
report_to: [none]
"""
HIERARCHY = b"child,parent\njoy,calm\nanger,fear\n"
VECTORS = "".join(f"{word} {i / 10} {-i / 7:.3f} 0.5\n" for i, word in enumerate(WORDS)).encode()


def vectors() -> dict[str, bytes]:
    """Word vectors as an archive, and as a folder."""
    matrix, archive, array = np.ones((len(WORDS), 3), np.float32), io.BytesIO(), io.BytesIO()
    np.savez_compressed(archive, words=np.array(WORDS), vectors=matrix)
    np.save(array, matrix)
    words = table([{"word": word} for word in WORDS])
    return {"vectors.npz": archive.getvalue(), "vectors/v.npy": array.getvalue(), "vectors/w.parquet": words}


def data() -> dict[str, bytes]:
    """Every sample, by its path."""
    return {
        "rows.csv": csv(),
        "rows.tsv": csv("\t"),
        "hot.csv": multi_hot_csv(),
        "rows.jsonl": jsonl(),
        "rows.parquet": table(texts()),
        "features.parquet": table(feature_rows()),
        "clus.arff": clus(),
        "rows.conll": conll(),
        "tags.jsonl": "".join(json.dumps(row) + "\n" for row in tag_rows()).encode(),
        "tags.parquet": table(tag_rows()),
        "references.txt": references(),
        "roles.srl": roles(),
        "rows.trees": trees(),
        "masks.npz": npz(),
        "classes.npz": npz(4),
        "rules.yaml": RULES,
        "recipe.yaml": RECIPE,
        "hierarchy.csv": HIERARCHY,
        "vectors.txt": VECTORS,
        **features(),
        **mask_folder(),
        **pictures(),
        **vectors(),
    }


def encoder(folder: Path) -> None:
    """A small BERT with random weights, and its tokenizer."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    ids = {word: i for i, word in enumerate([*special.values(), *WORDS])}
    tokenizer = Tokenizer(WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=32, **special).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    BertModel(BertConfig(vocab_size=len(ids), max_position_embeddings=32, **sizes)).save_pretrained(folder)


def training(name: str, output: str) -> list[str]:
    """The command that trains a model of MODELS into a folder."""
    kind, *words = MODELS[name].split()
    return ["train", kind, *QUICK, *words, "--output_dir", output]
