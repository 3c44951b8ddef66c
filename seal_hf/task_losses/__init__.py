"""Task losses: what the task-net minimises by itself, of label sets (`labels.py`) and of tag sequences (`tags.py`).

Those of masks stand with their space, `spaces/masks.py`.
"""

from .labels import TASK_LOSSES, TaskLoss
from .tags import TAG_TASK_LOSSES, TagTaskLoss

__all__ = ["TAG_TASK_LOSSES", "TASK_LOSSES", "TagTaskLoss", "TaskLoss"]
