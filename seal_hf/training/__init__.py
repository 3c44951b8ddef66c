"""What trainers are made of: their base, arguments, refusals, launchers and meters; and the energy trainer.

[`SealTrainer`] itself stands in `trainer.py`.
"""
