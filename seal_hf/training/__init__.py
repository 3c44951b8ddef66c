"""The parts of trainers: base, arguments, checks, launchers and meters; and the energy trainer.

[`SealTrainer`] itself is in `trainer.py`.
"""
