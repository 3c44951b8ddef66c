"""Masks by an energy network on its own, trained on crops; it predicts by gradient-based inference on crops.

python examples/run_mask_energy.py                                   # a deep value network on the embedded digits
python examples/run_mask_energy.py --energy_method spen --task_net_path runs/segmentation
python examples/run_mask_energy.py --recipe recipes/mask_energy/weizmann_dvn.yaml --data_dir path/to/data
python examples/run_segmentation.py --loss regression --loss_net_path runs/mask_energy --loss_net_steps 0  # SEAL-static
"""

from seal_hf.cli.programs import run_program
from seal_hf.tasks.masks.program import energy_main as main

if __name__ == "__main__":
    run_program(main)
