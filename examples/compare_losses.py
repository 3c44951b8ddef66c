"""What does a loss-net gain, and what does it cost? Trains all methods with one budget; writes a table and a page.

python examples/compare_losses.py                                 # digits; constant, linear, ce, asymmetric, zlpr, nce
python examples/compare_losses.py --dataset bibtex --recipe recipes/mlc/bibtex_ce.yaml --losses all --budget 10
python examples/compare_losses.py --dataset mine.csv --text_column text --model_name_or_path distilbert-base-uncased
python examples/compare_losses.py tagging --dataset mine.conll --losses ce crf nce   # also srl, segmentation
"""

from seal_hf.cli.programs import run_program
from seal_hf.lab.compare.program import command as main

if __name__ == "__main__":
    run_program(main)
