"""How nets are saved and loaded: whole checkpoints, the loss-net beside the task-net, plain weights or adapters."""

from .checkpoints import is_complete, last_complete_checkpoint, mark_complete
from .loss_net import load_loss_net, take_loss_net

__all__ = ["is_complete", "last_complete_checkpoint", "load_loss_net", "mark_complete", "take_loss_net"]
