"""How two nets are saved and loaded: plain nets or adapters, whole checkpoints, what a Trainer needs of it."""

from .checkpoints import is_complete, last_complete_checkpoint, load_loss_net, mark_complete, take_loss_net

__all__ = ["is_complete", "last_complete_checkpoint", "load_loss_net", "mark_complete", "take_loss_net"]
