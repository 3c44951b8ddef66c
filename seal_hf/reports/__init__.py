"""The reports of a run: predictions, result files, the closing table, pictures, the model card."""

from .card_facts import run_card
from .class_masks import class_tables, evaluate_class_masks, save_class_picture, write_class_masks
from .common import close_run, remove_results, results_table, write_results
from .masks import close_masks, evaluate_masks, mask_table, save_picture, write_masks
from .model_card import model_card
from .multilabel import (
    close_multilabel,
    closing_table,
    evaluate_multilabel,
    predict_multilabel,
    score_decoders,
    write_predictions,
)
from .pictures import check_picture
from .tags import close_tags, evaluate_tags, predict_tags, print_notes, tag_tables, write_tag_predictions
from .trees import close_trees, evaluate_trees

__all__ = [
    "check_picture",
    "class_tables",
    "close_masks",
    "close_multilabel",
    "close_run",
    "close_tags",
    "close_trees",
    "closing_table",
    "evaluate_class_masks",
    "evaluate_masks",
    "evaluate_multilabel",
    "evaluate_tags",
    "evaluate_trees",
    "mask_table",
    "model_card",
    "predict_multilabel",
    "predict_tags",
    "print_notes",
    "remove_results",
    "results_table",
    "run_card",
    "save_class_picture",
    "save_picture",
    "score_decoders",
    "tag_tables",
    "write_class_masks",
    "write_masks",
    "write_predictions",
    "write_results",
    "write_tag_predictions",
]
