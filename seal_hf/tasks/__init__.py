"""The kinds of output, a folder each: all that differs between label sets, tags, trees, masks and rewarded rows.

Each folder's parts are imported when they are first used, so this module needs no library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.task import TASKS, Task

if TYPE_CHECKING:
    from ..cli.outputs.base import OutputKind
    from ..core.decisions import Decisions
    from ..core.energy import Energy
    from ..core.space import OutputSpace
    from ..lab.compare.kinds import Kind
    from ..lab.demo.views import View
    from ..reports.card_kinds import CardKind
    from ..saving.model import SealModel

MULTI_LABEL, TAG_SEQUENCE, BINARY_MASK, MASKS = "multi_label", "tag_sequence", "binary_mask", "masks"  # saved names
CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")  # of label sets, if the problem type says so


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

    @property
    def spaces(self) -> Mapping[str, type[OutputSpace]]:
        from .labels.space import MultiLabelSpace

        return {MultiLabelSpace.name: MultiLabelSpace}

    @property
    def energies(self) -> Mapping[str, type[Energy]]:
        from .labels.energies import MultiLabelEnergy, PairwiseEnergy

        return {"multilabel": MultiLabelEnergy, "pairwise": PairwiseEnergy}

    @property
    def task_losses(self) -> Mapping[str, Any]:
        from .labels.task_losses import TASK_LOSSES

        return TASK_LOSSES

    @property
    def choices(self) -> Mapping[str, Iterable[str]]:
        from .labels.decisions.targets import OF_RUNS

        return {"target": OF_RUNS}

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
    def outputs(self) -> Mapping[str, type[OutputKind]]:
        from .labels.files import LabelOutput

        return {MULTI_LABEL: LabelOutput}

    @property
    def views(self) -> Mapping[str, type[View]]:
        from .labels.demo import LabelView

        return {MULTI_LABEL: LabelView}

    @property
    def cards(self) -> Mapping[str, CardKind]:
        from .labels.card import CARDS

        return CARDS

    @property
    def analyses(self) -> Mapping[str, tuple[Callable[..., dict], type]]:
        from ..data import DataArguments
        from .labels.analysis import gradients, hessian

        return {"hessian": (hessian, DataArguments), "gradients": (gradients, DataArguments)}

    @property
    def compared(self) -> tuple[Kind, ...]:
        from .labels.compare import LABEL_SETS

        return (LABEL_SETS,)

    def space_of_saved(self, architecture: str, config: Mapping[str, Any], is_adapter: bool) -> str | None:
        problem = config.get("problem_type")
        if architecture.endswith(CLASSIFIERS) and problem != "multi_label_classification":
            if not is_adapter or not config:  # only ours is saved beside an adapter
                raise ValueError(f"with problem_type {problem!r}: a classifier of one label per row")
        return MULTI_LABEL if architecture.endswith(self.heads) else None

    def fit_decisions(self, trainer: Any, dataset: Any, decoder: str | None) -> Decisions:
        from .labels.decisions.fit import fit_decisions

        return fit_decisions(trainer, dataset, decoder)

    def card_of(self, model: Any, space: OutputSpace, library: str | None) -> str:
        from .labels.card import card_of

        return card_of(model, library)

    def reads_in_words(self, model: Any) -> str | None:
        from ..nets.text_pooling import classifier_reads
        from ..nets.text_windows import reading_in_words

        is_of_text = model.main_input_name == "input_ids" and classifier_reads(model) is not None
        return reading_in_words(model) if is_of_text else None

    def labels_in(self, rows: Any) -> set[int]:
        if "labels" in rows.ragged:
            return super().labels_in(rows)
        return set((rows.dense["labels"] > 0).any(0).nonzero()[:, 0].tolist())

    def figures(self, space: OutputSpace) -> Mapping[str, str]:
        from .labels.report import FIGURES

        return FIGURES


class TagTask(Task):
    """Tag sequences: each word has one tag. Spans and semantic roles are schemes of tags."""

    name = "tags"
    outputs_name = "tag sequences"
    heads = ("ForTokenClassification",)
    decodes = True
    program = "seal-hf train tagging"
    arguments = frozenset(
        "crf_learning_rate tag_score constrained_decoding class_weight loss_net_encoder_learning_rate".split()
    )

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
    def task_losses(self) -> Mapping[str, Any]:
        from .tags.task_losses import TAG_TASK_LOSSES

        return TAG_TASK_LOSSES

    @property
    def choices(self) -> Mapping[str, Iterable[str]]:
        from .tags.space import TAG_SCORES

        return {"tag_score": TAG_SCORES}

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
    def outputs(self) -> Mapping[str, type[OutputKind]]:
        from .tags.files import TagOutput

        return {TAG_SEQUENCE: TagOutput}

    @property
    def views(self) -> Mapping[str, type[View]]:
        from .tags.demo import TagView

        return {TAG_SEQUENCE: TagView}

    @property
    def cards(self) -> Mapping[str, CardKind]:
        from .tags.card import CARDS

        return CARDS

    @property
    def analyses(self) -> Mapping[str, tuple[Callable[..., dict], type]]:
        from ..data import TagDataArguments
        from .tags.analysis import tags

        return {"tags": (tags, TagDataArguments)}

    @property
    def compared(self) -> tuple[Kind, ...]:
        from .tags.compare import SRL, TAGGING

        return (TAGGING, SRL)

    def space_of_saved(self, architecture: str, config: Mapping[str, Any], is_adapter: bool) -> str | None:
        return None if _has_trees(config) or not architecture.endswith(self.heads) else TAG_SEQUENCE

    def has(self, space: OutputSpace) -> bool:
        return super().has(space) and not TASKS["trees"].has(space)

    def fit_decisions(self, trainer: Any, dataset: Any, decoder: str | None) -> Decisions:
        from .tags.decisions import fit_decisions

        return fit_decisions(trainer, dataset, decoder)

    def may_choose(self, space: Any, args: Any) -> bool:
        return len(space.decoders) > 1 and not args.constrained_decoding

    def card_of(self, model: Any, space: OutputSpace, library: str | None) -> str:
        from .tags.card import card_of

        return card_of(model, library)

    def figures(self, space: OutputSpace) -> Mapping[str, str]:
        from .tags.report import FIGURES

        return FIGURES


class TreeTask(TagTask):
    """Constituency trees, as tags with brackets: the space, the energies and the nets are those of tags."""

    name = outputs_name = "trees"
    program = "seal-hf train parsing"

    @property
    def sections(self) -> Mapping[str, Callable[..., list[Any]]]:
        from .trees.page import tree_sections

        return {"trees": tree_sections}

    @property
    def outputs(self) -> Mapping[str, type[OutputKind]]:
        from .trees.files import TreeOutput

        return {TAG_SEQUENCE: TreeOutput}

    @property
    def cards(self) -> Mapping[str, CardKind]:
        from .trees.card import CARDS

        return CARDS

    @property
    def compared(self) -> tuple[Kind, ...]:
        from .trees.compare import PARSING

        return (PARSING,)

    def space_of_saved(self, architecture: str, config: Mapping[str, Any], is_adapter: bool) -> str | None:
        return TAG_SEQUENCE if _has_trees(config) and architecture.endswith(TagTask.heads) else None

    def has(self, space: OutputSpace) -> bool:
        from ..core.trees import has_trees
        from .tags.space import TagSequenceSpace

        return isinstance(space, TagSequenceSpace) and has_trees(space.label_names)

    def card_of(self, model: Any, space: OutputSpace, library: str | None) -> str:
        return f"trees_{super().card_of(model, space, library)}"

    def figures(self, space: OutputSpace) -> Mapping[str, str]:
        from .trees.report import FIGURES

        return FIGURES


def _has_trees(config: Mapping[str, Any]) -> bool:
    """True if the tags of a saved task-net are those of trees."""
    from ..core.trees import has_trees

    return has_trees((config.get("id2label") or {}).values())


class MaskTask(Task):
    """Masks: each pixel has one of two classes, or of several."""

    name = outputs_name = "masks"
    heads = ("ForSemanticSegmentation",)
    program = "seal-hf train segmentation"
    arguments = frozenset(("class_weight", "pixel_loss", "sample_coherence"))

    @property
    def spaces(self) -> Mapping[str, type[OutputSpace]]:
        from .masks.space import BinaryMaskSpace, MaskSpace

        return {BinaryMaskSpace.name: BinaryMaskSpace, MaskSpace.name: MaskSpace}

    @property
    def energies(self) -> Mapping[str, type[Energy]]:
        from .masks.energies import ClassGridEnergy, GridEnergy

        return {"grid": GridEnergy, "class_grid": ClassGridEnergy}

    @property
    def task_losses(self) -> Mapping[str, Any]:
        from .masks.pixels import MASK_TASK_LOSSES

        return MASK_TASK_LOSSES

    @property
    def choices(self) -> Mapping[str, Iterable[str]]:
        from .masks.pixels import COHERENCE, PIXEL_LOSSES

        return {"pixel_loss": PIXEL_LOSSES, "sample_coherence": COHERENCE}

    @property
    def switches(self) -> Mapping[str, Mapping[str, Iterable[str]]]:
        from .masks.pixels import COHERENCE

        return {"sample_coherence": COHERENCE}

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
    def outputs(self) -> Mapping[str, type[OutputKind]]:
        from .masks.files import BinaryMaskOutput, ClassMaskOutput

        return {BINARY_MASK: BinaryMaskOutput, MASKS: ClassMaskOutput}

    @property
    def views(self) -> Mapping[str, type[View]]:
        from .masks.demo import ClassMaskView, MaskView

        return {BINARY_MASK: MaskView, MASKS: ClassMaskView}

    @property
    def cards(self) -> Mapping[str, CardKind]:
        from .masks.card import CARDS

        return CARDS

    @property
    def compared(self) -> tuple[Kind, ...]:
        from .masks.compare import MASKS

        return (MASKS,)

    def space_of_saved(self, architecture: str, config: Mapping[str, Any], is_adapter: bool) -> str | None:
        if not architecture.endswith(self.heads):
            return None
        return MASKS if len(config.get("id2label") or ()) > 2 else BINARY_MASK

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

    def may_choose(self, space: OutputSpace, args: Any) -> bool:
        from .masks.space import MaskSpace

        return not isinstance(space, MaskSpace)

    def card_of(self, model: Any, space: OutputSpace, library: str | None) -> str:
        from .masks.card import card_of

        return card_of(model, space)

    def label_columns(
        self, space: OutputSpace, metrics: Mapping[str, float], names: Sequence[str]
    ) -> dict[str, list[str]]:
        from .masks.card import label_columns

        return label_columns(space, metrics, names)

    def figures(self, space: OutputSpace) -> Mapping[str, str]:
        from .masks.report import CLASS_FIGURES, FIGURES
        from .masks.space import MaskSpace

        return CLASS_FIGURES if isinstance(space, MaskSpace) else FIGURES


class RewardTask(Task):
    """Rows without gold: what rules tell of the outputs of another task."""

    name = compared_word = "rewards"

    @property
    def sections(self) -> Mapping[str, Callable[..., list[Any]]]:
        from .rewards.page import reward_sections

        return {"rewards": reward_sections}

    @property
    def compared(self) -> tuple[Kind, ...]:
        from .rewards.compare import REWARDED

        return tuple(REWARDED.values())

    def compared_by(self, words: Sequence[str]) -> tuple[Kind, list[str]] | None:
        from .rewards.program import program_of

        if words[0] != self.compared_word:
            return None
        program, left = program_of(words[1:])
        return next(kind for kind in self.compared if kind.program is program), left


TASKS |= {task.name: task for task in (LabelTask(), TagTask(), TreeTask(), MaskTask(), RewardTask())}
