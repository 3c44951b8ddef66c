"""Task losses, the task-net's own losses: for label sets (`labels.py`) and for tag sequences (`tags.py`).

Those for masks are in their space, `spaces/masks.py`.
"""

from .labels import TASK_LOSSES, TaskLoss
from .tags import TAG_TASK_LOSSES, TagTaskLoss

__all__ = ["TAG_TASK_LOSSES", "TASK_LOSSES", "TagTaskLoss", "TaskLoss"]
