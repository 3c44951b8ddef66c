"""Task losses, the task-net's own losses: for label sets (`labels.py`), for tag sequences (`tags.py`) and for masks
(`masks.py`, whose sums are in `spaces/pixels.py`)."""

from .labels import TASK_LOSSES, TaskLoss
from .masks import MASK_TASK_LOSSES
from .tags import TAG_TASK_LOSSES, TagTaskLoss

__all__ = ["MASK_TASK_LOSSES", "TAG_TASK_LOSSES", "TASK_LOSSES", "TagTaskLoss", "TaskLoss"]
