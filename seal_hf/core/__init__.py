"""What every kind of output provides, and structures as tensors; the task-independent half of the mathematics.

Nothing here knows about data sets, nets or the Trainer.
"""
