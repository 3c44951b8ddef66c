"""Multi-label classification by an energy network on its own: gradient-based inference, no task-net at prediction.

python examples/run_energy.py                                      # SPEN on the embedded digits, about a minute
python examples/run_energy.py --energy_method dvn
python examples/run_mlc.py --loss ce --output_dir task_net         # then learn on its features, starting at its output:
python examples/run_energy.py --energy_method nce --task_net_path task_net
"""

from seal_hf.cli.programs import run_program
from seal_hf.tasks.labels.program import energy_main as main

if __name__ == "__main__":
    run_program(main)
