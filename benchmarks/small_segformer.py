"""Writes a SegFormer of half a million random weights for eleven classes, to train from scratch.

python benchmarks/small_segformer.py runs/segformer_small
"""

import sys

from transformers import SegformerConfig, SegformerForSemanticSegmentation, set_seed

from seal_hf.utils.compat import image_processor_class


def main(folder: str) -> None:
    set_seed(0)
    sizes = {"hidden_sizes": [16, 32, 80, 128], "depths": [1] * 4, "num_attention_heads": [1, 1, 2, 4]}
    config = SegformerConfig(**sizes, decoder_hidden_size=64, num_labels=11)
    SegformerForSemanticSegmentation(config).save_pretrained(folder)
    image_processor_class()().save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
