"""Semantic roles with an energy network as a loss function: the arguments of a given predicate, by a transformer.

python examples/run_srl.py --dataset path/to/srl --model_name_or_path bert-base-uncased
python examples/run_srl.py --recipe recipes/srl/srl_ewt_nce.yaml --dataset path/to/srl_ewt
python examples/run_srl.py ... --loss ce --task_loss unique_roles      # the constraint of structured tuning
python examples/run_srl.py ... --loss ce --task_loss crf
"""

from seal_hf.cli.programs import run_program
from seal_hf.tasks.tags.program import role_main as main

if __name__ == "__main__":
    run_program(main)
