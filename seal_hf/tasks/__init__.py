"""The kinds of output, a folder each: all that differs between label sets, tags, trees, masks and rewarded rows.

Each folder's parts are imported when they are first used, so this module needs no library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.task import TASKS, Task

if TYPE_CHECKING:
    from ..core.space import OutputSpace
    from ..lab.compare.kinds import Kind

CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")  # of label sets, if the problem type says so


def _part(module: str, name: str) -> Any:
    """A property: this name of a module, which is imported when the property is first read."""
    return property(lambda task: getattr(import_module(f".{module}", __name__), name))


def _module(module: str) -> Any:
    """A property: a module, which is imported when the property is first read."""
    return property(lambda task: import_module(f".{module}", __name__))


def _parts(module: str, **names: str) -> Any:
    """A property: key -> a name of a module, which is imported when the property is first read."""

    def found(task: Task) -> dict[str, Any]:
        loaded = import_module(f".{module}", __name__)
        return {key: getattr(loaded, name) for key, name in names.items()}

    return property(found)


class LabelTask(Task):
    """Label sets: each input has any number of labels."""

    name = "labels"
    outputs_name = "label sets"
    heads = (*CLASSIFIERS, "ForMultiLabel")
    program = "seal-hf train mlc"
    arguments = frozenset(
        "sparse_labels_from relaxed_mass relaxed_width pos_weight label_weight freeze_encoder target "
        "loss_net_encoder_learning_rate".split()
    )
    spaces = _parts("labels.space", multi_label="MultiLabelSpace")
    energies = _parts("labels.energies", multilabel="MultiLabelEnergy", pairwise="PairwiseEnergy")
    task_losses = _part("labels.task_losses", "TASK_LOSSES")
    choices = _parts("labels.decisions.targets", target="NAMES")
    decisions = _parts("labels.decisions.label_decisions", multi_label="LabelDecisions")
    fit_decisions = _part("labels.decisions.of_trainer", "fit_decisions")
    decide = _module("labels.decide")
    model = _part("labels.model", "SealForMultiLabel")
    outputs = _parts("labels.files", multi_label="LabelOutput")
    sections = _parts("labels.page", labels="label_sections")
    cards = _part("labels.cards", "CARDS")
    card_of = _part("labels.cards", "card_of")
    reads_in_words = _part("labels.cards", "reads_in_words")
    views = _parts("labels.demo", multi_label="LabelView")
    analyses = _part("labels.analysis", "ANALYSES")
    compared = _part("labels.compare", "KINDS")

    def space_of_saved(self, architecture: str, config: Mapping[str, Any], is_adapter: bool) -> str | None:
        problem = config.get("problem_type")
        if architecture.endswith(CLASSIFIERS) and problem != "multi_label_classification":
            if not is_adapter or not config:  # only ours is saved beside an adapter
                raise ValueError(f"with problem_type {problem!r}: a classifier of one label per row")
        return "multi_label" if architecture.endswith(self.heads) else None

    def labels_in(self, rows: Any) -> set[int]:
        if "labels" in rows.ragged:
            return super().labels_in(rows)
        return set((rows.dense["labels"] > 0).any(0).nonzero()[:, 0].tolist())


class TagTask(Task):
    """Tag sequences: each word has one tag. Spans and semantic roles are schemes of tags."""

    name = "tags"
    outputs_name = "tag sequences"
    heads = ("ForTokenClassification",)
    decodes = True
    program = "seal-hf train tagging"
    arguments = frozenset("crf_learning_rate constrained_decoding class_weight loss_net_encoder_learning_rate".split())
    spaces = _parts("tags.space", tag_sequence="TagSequenceSpace")
    energies = _parts(
        "tags.energies",
        chain="ChainEnergy",
        chain_ge_a="ChainForwardEnergy",
        chain_ge_b="ChainBothEnergy",
        chain_ge_c="ChainWordsEnergy",
        tag_attention="TagAttentionEnergy",
    )
    task_losses = _part("tags.task_losses", "TAG_TASK_LOSSES")
    decisions = _parts("tags.decisions", tag_sequence="TagDecisions")
    fit_decisions = _part("tags.decisions", "fit_decisions")
    decide = _module("tags.decide")
    model = _part("tags.model", "SealForTokenClassification")
    outputs = _parts("tags.files", tag_sequence="TagOutput")
    sections = _parts("tags.page", tags="tag_sections")
    cards = _part("tags.cards", "CARDS")
    views = _parts("tags.demo", tag_sequence="TagView")
    analyses = _part("tags.analysis", "ANALYSES")
    compared = _part("tags.compare", "KINDS")
    trees = False  # of a subclass: True

    def space_of_saved(self, architecture: str, config: Mapping[str, Any], is_adapter: bool) -> str | None:
        names = (config.get("id2label") or {}).values()
        return "tag_sequence" if architecture.endswith(self.heads) and self._are_ours(names) else None

    def has(self, space: Any) -> bool:
        return super().has(space) and self._are_ours(space.label_names)

    def _are_ours(self, names: Any) -> bool:
        """True if these tags are those of trees and the task is, or neither."""
        from ..core.trees import has_trees

        return has_trees(names) == self.trees

    def may_choose(self, space: Any, args: Any) -> bool:
        return len(space.decoders) > 1 and not args.constrained_decoding

    def card_of(self, model: Any, space: OutputSpace, library: str | None) -> str:
        from .tags.cards import card_of

        return f"{'trees_' * self.trees}{card_of(model, library)}"


class TreeTask(TagTask):
    """Constituency trees, as tags with brackets: the space, the energies and the nets are those of tags."""

    name = outputs_name = "trees"
    program = "seal-hf train parsing"
    outputs = _parts("trees.files", tag_sequence="TreeOutput")
    sections = _parts("trees.report", trees="tree_sections")
    cards = _part("trees.report", "CARDS")
    analyses: Mapping[str, Any] = {}
    compared = _part("tags.compare", "TREE_KINDS")
    trees = True


class MaskTask(Task):
    """Masks: each pixel has one of two classes, or of several."""

    name = outputs_name = "masks"
    heads = ("ForSemanticSegmentation",)
    program = "seal-hf train segmentation"
    arguments = frozenset(("class_weight", "pixel_loss", "sample_coherence"))
    spaces = _parts("masks.space", binary_mask="BinaryMaskSpace", masks="MaskSpace")
    energies = _parts("masks.energies", grid="GridEnergy", class_grid="ClassGridEnergy")
    task_losses = _part("masks.task_losses", "MASK_TASK_LOSSES")
    switches = _parts("masks.space", sample_coherence="COHERENCE")
    decisions = _parts("masks.decisions", binary_mask="MaskDecisions", masks="ClassMaskDecisions")
    fit_decisions = _part("masks.decisions", "fit_decisions")
    decide = _module("masks.decide")
    model = _part("masks.model", "SealForSegmentation")
    check_net = _part("masks.model", "check_logit_map")
    outputs = _parts("masks.files", binary_mask="BinaryMaskOutput", masks="ClassMaskOutput")
    sections = _parts("masks.page", masks="mask_sections", class_masks="class_mask_sections")
    cards = _part("masks.cards", "CARDS")
    card_of = _part("masks.cards", "card_of")
    label_columns = _part("masks.cards", "label_columns")
    views = _parts("masks.demo", binary_mask="MaskView", masks="ClassMaskView")
    compared = _part("masks.compare", "KINDS")

    def space_of_saved(self, architecture: str, config: Mapping[str, Any], is_adapter: bool) -> str | None:
        if not architecture.endswith(self.heads):
            return None
        return "masks" if len(config.get("id2label") or ()) > 2 else "binary_mask"

    def may_choose(self, space: OutputSpace, args: Any) -> bool:
        return isinstance(space, self.spaces["binary_mask"])

    def figures(self, space: OutputSpace) -> Mapping[str, str]:
        return self.cards["images" if self.may_choose(space, None) else "class_images"].figures


class RewardTask(Task):
    """Rows without gold: what rules tell of the outputs of another task."""

    name = compared_word = "rewards"
    sections = _parts("rewards.page", rewards="reward_sections")
    compared = _part("rewards.compare", "KINDS")

    def compared_by(self, words: Sequence[str]) -> tuple[Kind, list[str]] | None:
        from .rewards.program import program_of

        if words[0] != self.compared_word:
            return None
        program, left = program_of(words[1:])
        return next(kind for kind in self.compared if kind.program is program), left


TASKS |= {task.name: task for task in (LabelTask(), TagTask(), TreeTask(), MaskTask(), RewardTask())}
