"""Multi-label classification with an energy network as a loss function.

python examples/run_mlc.py                                         # embedded digits, some 80 seconds on two cores
python examples/run_mlc.py --loss ce                               # the baseline: the same trainer, no loss-net
python examples/run_mlc.py --loss_net_path runs/spen --loss_net_steps 0   # SEAL-static: a trained loss-net, frozen
python examples/run_mlc.py --recipe recipes/mlc/bibtex_nce.yaml --dataset path/to/bibtex
python examples/run_mlc.py --dataset tweets.csv --text_column text --model_name_or_path distilbert-base-uncased
"""

from seal_hf.cli.programs import run_program
from seal_hf.tasks.labels.program import main

if __name__ == "__main__":
    run_program(main)
