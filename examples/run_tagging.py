"""Tagging with an energy network as a loss function: parts of speech, entities, citation fields.

python examples/run_tagging.py                                     # embedded synthetic sentences, under a minute
python examples/run_tagging.py --loss ce                           # the baseline: the same trainer, no loss-net
python examples/run_tagging.py --loss ce --task_loss crf           # a CRF
python examples/run_tagging.py --recipe recipes/tagging/twitter_pos_infnet_plus.yaml --dataset path/to/twitter_pos
python examples/run_tagging.py --dataset path/to/conll --model_name_or_path distilbert-base-uncased
"""

from seal_hf.cli.programs import run_program
from seal_hf.tasks.tags.program import main

if __name__ == "__main__":
    run_program(main)
