"""The kinds of output, a folder each: all that differs between label sets, tags, trees, masks and rewarded rows.

Each folder's parts are imported when they are first used, so this module needs no library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..core.task import TASKS, Task

if TYPE_CHECKING:
    from ..core.decisions import Decisions
    from ..core.energy import Energy
    from ..core.space import OutputSpace
    from ..lab.compare.kinds import Kind
    from ..lab.demo.views import View
    from ..saving.model import SealModel


class LabelTask(Task):
    """Label sets: each input has any number of labels."""

    name = "labels"
    heads = ("ForSequenceClassification", "ForImageClassification", "ForMultiLabel")

    @property
    def spaces(self) -> Mapping[str, type[OutputSpace]]:
        from .labels.space import MultiLabelSpace

        return {MultiLabelSpace.name: MultiLabelSpace}

    @property
    def energies(self) -> Mapping[str, type[Energy]]:
        from .labels.energies import MultiLabelEnergy, PairwiseEnergy

        return {"multilabel": MultiLabelEnergy, "pairwise": PairwiseEnergy}

    @property
    def decisions(self) -> Mapping[str, type[Decisions]]:
        from .labels.decisions.label_decisions import LabelDecisions

        return {LabelDecisions.output: LabelDecisions}

    @property
    def model(self) -> type[SealModel]:
        from .labels.model import SealForMultiLabel

        return SealForMultiLabel

    @property
    def sections(self) -> Mapping[str, Callable[..., list[Any]]]:
        from .labels.page import label_sections

        return {"labels": label_sections}

    @property
    def views(self) -> Mapping[type, type[View]]:
        from ..cli.outputs.labels import LabelOutput
        from .labels.demo import LabelView

        return {LabelOutput: LabelView}

    @property
    def compared(self) -> tuple[Kind, ...]:
        from .labels.compare import LABEL_SETS

        return (LABEL_SETS,)

    def fit_decisions(self, trainer: Any, dataset: Any, decoder: str | None) -> Decisions:
        from .labels.decisions.fit import fit_decisions

        return fit_decisions(trainer, dataset, decoder)

    def figures(self, space: OutputSpace) -> Mapping[str, str]:
        from .labels.report import FIGURES

        return FIGURES


class TagTask(Task):
    """Tag sequences: each word has one tag. Spans and semantic roles are schemes of tags."""

    name = "tags"
    heads = ("ForTokenClassification",)
    decodes = True

    @property
    def spaces(self) -> Mapping[str, type[OutputSpace]]:
        from .tags.space import TagSequenceSpace

        return {TagSequenceSpace.name: TagSequenceSpace}

    @property
    def energies(self) -> Mapping[str, type[Energy]]:
        from .tags import energies

        return {
            "chain": energies.ChainEnergy,
            "chain_ge_a": energies.ChainForwardEnergy,
            "chain_ge_b": energies.ChainBothEnergy,
            "chain_ge_c": energies.ChainWordsEnergy,
            "tag_attention": energies.TagAttentionEnergy,
        }

    @property
    def decisions(self) -> Mapping[str, type[Decisions]]:
        from .tags.decisions import TagDecisions

        return {TagDecisions.output: TagDecisions}

    @property
    def model(self) -> type[SealModel]:
        from .tags.model import SealForTokenClassification

        return SealForTokenClassification

    @property
    def sections(self) -> Mapping[str, Callable[..., list[Any]]]:
        from .tags.page import tag_sections

        return {"tags": tag_sections}

    @property
    def views(self) -> Mapping[type, type[View]]:
        from ..cli.outputs.tags import TagOutput
        from .tags.demo import TagView

        return {TagOutput: TagView}

    @property
    def compared(self) -> tuple[Kind, ...]:
        from .tags.compare import SRL, TAGGING

        return (TAGGING, SRL)

    def has(self, space: OutputSpace) -> bool:
        return super().has(space) and not TASKS["trees"].has(space)

    def fit_decisions(self, trainer: Any, dataset: Any, decoder: str | None) -> Decisions:
        from .tags.decisions import fit_decisions

        return fit_decisions(trainer, dataset, decoder)

    def figures(self, space: OutputSpace) -> Mapping[str, str]:
        from .tags.report import FIGURES

        return FIGURES


class TreeTask(Task):
    """Constituency trees, as tags with brackets: the space, the energies and the nets are those of tags."""

    name = "trees"
    decodes = True

    @property
    def sections(self) -> Mapping[str, Callable[..., list[Any]]]:
        from .trees.page import tree_sections

        return {"trees": tree_sections}

    @property
    def views(self) -> Mapping[type, type[View]]:
        from ..cli.outputs.trees import TreeOutput
        from .tags.demo import TagView

        return {TreeOutput: TagView}

    @property
    def compared(self) -> tuple[Kind, ...]:
        from .trees.compare import PARSING

        return (PARSING,)

    def has(self, space: OutputSpace) -> bool:
        from ..core.trees import has_trees
        from .tags.space import TagSequenceSpace

        return isinstance(space, TagSequenceSpace) and has_trees(space.label_names)

    def fit_decisions(self, trainer: Any, dataset: Any, decoder: str | None) -> Decisions:
        from .tags.decisions import fit_decisions

        return fit_decisions(trainer, dataset, decoder)

    def figures(self, space: OutputSpace) -> Mapping[str, str]:
        from .trees.report import FIGURES

        return FIGURES


class MaskTask(Task):
    """Masks: each pixel has one of two classes, or of several."""

    name = "masks"
    heads = ("ForSemanticSegmentation",)

    @property
    def spaces(self) -> Mapping[str, type[OutputSpace]]:
        from .masks.space import BinaryMaskSpace, MaskSpace

        return {BinaryMaskSpace.name: BinaryMaskSpace, MaskSpace.name: MaskSpace}

    @property
    def energies(self) -> Mapping[str, type[Energy]]:
        from .masks.energies import ClassGridEnergy, GridEnergy

        return {"grid": GridEnergy, "class_grid": ClassGridEnergy}

    @property
    def decisions(self) -> Mapping[str, type[Decisions]]:
        from .masks.decisions import ClassMaskDecisions, MaskDecisions

        return {each.output: each for each in (MaskDecisions, ClassMaskDecisions)}

    @property
    def model(self) -> type[SealModel]:
        from .masks.model import SealForSegmentation

        return SealForSegmentation

    @property
    def sections(self) -> Mapping[str, Callable[..., list[Any]]]:
        from .masks.page import class_mask_sections, mask_sections

        return {"masks": mask_sections, "class_masks": class_mask_sections}

    @property
    def views(self) -> Mapping[type, type[View]]:
        from ..cli.outputs.class_masks import ClassMaskOutput
        from ..cli.outputs.masks import BinaryMaskOutput
        from .masks.demo import ClassMaskView, MaskView

        return {BinaryMaskOutput: MaskView, ClassMaskOutput: ClassMaskView}

    @property
    def compared(self) -> tuple[Kind, ...]:
        from .masks.compare import MASKS

        return (MASKS,)

    def check_net(self, name: str, architecture: str) -> None:
        from .masks.model import check_logit_map

        check_logit_map(name, architecture)

    def fit_decisions(self, trainer: Any, dataset: Any, decoder: str | None) -> Decisions:
        from .masks.decisions import fit_decisions

        return fit_decisions(trainer, dataset, decoder)

    def why_not_folded(self, space: OutputSpace) -> str:
        from ..saving.fold import SEVERAL_CLASSES_ARE_NOT_FOLDED
        from .masks.space import MaskSpace

        return SEVERAL_CLASSES_ARE_NOT_FOLDED if isinstance(space, MaskSpace) else ""

    def figures(self, space: OutputSpace) -> Mapping[str, str]:
        from .masks.report import CLASS_FIGURES, FIGURES
        from .masks.space import MaskSpace

        return CLASS_FIGURES if isinstance(space, MaskSpace) else FIGURES


class RewardTask(Task):
    """Rows without gold: what rules tell of the outputs of another task."""

    name = "rewards"

    @property
    def sections(self) -> Mapping[str, Callable[..., list[Any]]]:
        from .rewards.page import reward_sections

        return {"rewards": reward_sections}


TASKS |= {task.name: task for task in (LabelTask(), TagTask(), TreeTask(), MaskTask(), RewardTask())}
