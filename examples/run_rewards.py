"""Tagging with few tags and a reward: citation fields from 5, 10 or 50 tagged references, rules for the others.

python examples/run_rewards.py --dataset path/to/cora --rules recipes/rules/cora.yaml --scheme plain --num_labelled 10
python examples/run_rewards.py ... --loss ce                      # the baseline: the tagged references alone
python examples/run_rewards.py ... --loss regression_s --energy_weight 10 --num_samples 10 --regression_samples discrete
python examples/run_rewards.py ... --model_name_or_path distilbert-base-uncased

Rules for label sets or masks train these; the page docs/reference/rules.md has their kinds:

python examples/run_rewards.py --dataset mine.csv --rules rules.yaml --num_labelled 50 --model_name_or_path ENCODER

Your own function, (words, tags) -> [0, 1], can replace the rules. Its module must be on Python's path:

PYTHONPATH=folder python examples/run_rewards.py --dataset path/to/cora --scheme plain --num_labelled 10 \
    --reward my_rewards:few_titles
"""

from seal_hf.cli.programs import run_program
from seal_hf.tasks.rewards.program import main

if __name__ == "__main__":
    run_program(main)
