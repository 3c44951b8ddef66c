"""Constituency parsing as tagging with an energy network as a loss function: one tag per word, decoded into a tree.

python examples/run_parsing.py                                  # the embedded grammar, a BiLSTM
python examples/run_parsing.py --loss ce --task_loss crf        # a CRF over the levels of the tags
python examples/run_parsing.py --dataset path/to/treebank.zip --model_name_or_path distilbert-base-uncased
python examples/run_parsing.py --recipe recipes/parsing/ptb_sample_infnet_plus.yaml --dataset path/to/treebank.zip
"""

from seal_hf.cli.programs import run_program
from seal_hf.tasks.tags.program import tree_main as main

if __name__ == "__main__":
    run_program(main)
