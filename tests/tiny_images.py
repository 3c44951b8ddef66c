"""The smallest nets and images of label sets: squares of some colours on noise. A label is the name of a colour."""

from pathlib import Path

import numpy as np
import torch
from datasets import Dataset, Features, Image, List, Value
from transformers import AutoModel, ConvNextConfig, Dinov2Config, ResNetConfig, ViTConfig

from seal_hf.utils.compat import image_processor_class

COLOURS = ["red", "green", "blue", "grey"]
LABELLED = {"problem_type": "multi_label_classification", "id2label": dict(enumerate(COLOURS))} | {
    "label2id": {name: i for i, name in enumerate(COLOURS)}
}
PAINT = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [128, 128, 128]], np.uint8)
SIZE = 16  # pixels a side, as the nets read images
FAMILIES = ("vit", "dinov2", "convnext", "resnet")


def squares(count, seed=0, size=(20, 24)):
    """Images (N, H, W, 3) uint8, and their labels (N, 4), 0 or 1. An image has two labels on average."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 60, (count, *size, 3), np.uint8)
    labels = rng.integers(0, 2, (count, len(COLOURS)))
    for image, own in zip(images, labels, strict=True):
        for place, colour in enumerate(np.flatnonzero(own)):
            y, x = rng.integers(0, size[0] - 8), place * size[1] // 4
            image[y : y + 8, x : x + 6] = PAINT[colour]
    return images, labels.astype(np.float32)


def table(count, seed=0, **options):
    """As a `datasets.Dataset` with the columns `image` and `labels`."""
    images, labels = squares(count, seed, **options)
    features = Features({"image": Image(), "labels": List(Value("float32"))})
    return Dataset.from_dict({"image": list(images), "labels": labels.tolist()}, features=features)


def processor(size=SIZE):
    """One that resizes to a square and normalises."""
    return image_processor_class("ViT")(size={"height": size, "width": size})


def tiny_config(family, **changes):
    """A configuration of a Hugging Face family of image nets."""
    if family in ("vit", "dinov2"):
        kind = {"vit": ViTConfig, "dinov2": Dinov2Config}[family]
        sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=SIZE, patch_size=8)
        return kind(**sizes, **({"intermediate_size": 32} if family == "vit" else {}), **changes)
    sizes = dict(hidden_sizes=[8, 16], depths=[1, 1])
    if family == "convnext":
        return ConvNextConfig(num_stages=2, image_size=SIZE, **sizes, **changes)
    return ResNetConfig(embedding_size=8, layer_type="basic", **sizes, **changes)


def saved_encoder(folder: Path, family: str, size=SIZE, seed=0) -> str:
    """An encoder with random weights, and its image processor; the folder."""
    torch.manual_seed(seed)
    AutoModel.from_config(tiny_config(family)).save_pretrained(folder)
    processor(size).save_pretrained(folder)
    return str(folder)


def write_files(folder: Path, images, names=None) -> list[str]:
    """Image files in a folder; their names."""
    from PIL import Image as Picture

    folder.mkdir(parents=True, exist_ok=True)
    names = names or [f"p{i}.png" for i in range(len(images))]
    for name, image in zip(names, images, strict=True):
        Picture.fromarray(image).save(folder / name)
    return names


def named(labels) -> list[str]:
    """Label sets (N, 4) as cells of a csv."""
    return ["|".join(COLOURS[i] for i in np.flatnonzero(row)) for row in labels]


def write_csv(file: Path, names, labels, header="file,labels") -> Path:
    """A csv of file names and label sets."""
    lines = [f"{name},{cell}" for name, cell in zip(names, named(labels), strict=True)]
    file.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return file


def write_folder(folder: Path, count=40, seed=0) -> Path:
    """A folder with `labels.csv` and its images; the folder."""
    images, labels = squares(count, seed)
    write_csv(folder / "labels.csv", write_files(folder / "images", images), labels)
    return folder
