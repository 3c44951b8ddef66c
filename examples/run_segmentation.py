"""Segmentation with an energy network as a loss function.

python examples/run_segmentation.py                                # embedded digits with clutter, some minutes
python examples/run_segmentation.py --dataset digit_classes        # a class for each digit
python examples/run_segmentation.py --loss ce                      # the baseline: the same trainer, no loss-net
python examples/run_segmentation.py --loss ranking --sample_coherence field --coherence_size 4
python examples/run_segmentation.py --loss ranking --sample_coherence inputs --input_noise_std 0.2
python examples/run_segmentation.py --recipe recipes/segmentation/weizmann_regression.yaml --dataset path/to/weizmann
python examples/run_segmentation.py --dataset path/to/images_and_masks --model_name_or_path nvidia/mit-b0
"""

from seal_hf.cli.programs import run_program
from seal_hf.tasks.masks.program import main

if __name__ == "__main__":
    run_program(main)
