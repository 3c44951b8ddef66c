"""What `import seal_hf` offers: the names of all rooms that users import. No room imports it."""

from .core.energy import ENERGIES
from .core.gradient_descent import GradientBasedInference
from .core.label_sets import LabelSets
from .core.space import OutputSpace
from .core.task import SPACES
from .data import (
    DataError,
    MultiLabelData,
    SegmentationData,
    TagSequenceData,
    load_masks,
    load_multilabel,
    load_srl,
    load_tags,
    load_trees,
    tags_to_tree,
)
from .data.tensors.collators import TensorRows, collate_rows, tokenize
from .data.tensors.images import FlipAndCrop, ImageRows, MaskRows, crop_averaged, pixel_scaling, resize_to
from .data.tensors.vocabulary import Vocabulary, WordVectors, load_word_vectors
from .data.tensors.words import WordRows, encode_words, tokenize_words
from .energy_losses import ENERGY_LOSSES, Candidates, EnergyLoss
from .extensions.hypergradient import Hypergradient, select_parameters
from .loss_net.learner import Learner
from .loss_net.loss_net import LossNet, LossNetConfig
from .nets.cnn import CNNConfig, CNNForImageClassification, cnn_image_processor
from .nets.encoders import MLPConfig, MLPForMultiLabel
from .nets.recurrent import BiLSTMConfig, BiLSTMForTokenClassification
from .nets.text_pooling import (
    PooledConfig,
    PooledForSequenceClassification,
    WindowedConfig,
    WindowedForSequenceClassification,
)
from .saving.model import SealModel
from .tasks.labels.energies import MultiLabelEnergy
from .tasks.labels.linear import average_with_regression
from .tasks.labels.model import SealForMultiLabel
from .tasks.labels.space import MultiLabelSpace
from .tasks.labels.task_losses import TASK_LOSSES, TaskLoss
from .tasks.masks.energies import ClassGridEnergy, GridEnergy
from .tasks.masks.fcn import FCNConfig, FCNForSemanticSegmentation, fcn_image_processor
from .tasks.masks.model import SealForSegmentation
from .tasks.masks.space import BinaryMaskSpace, MaskSpace
from .tasks.rewards.label_rules import LabelRuleReward
from .tasks.rewards.mask_rules import MaskRuleReward
from .tasks.rewards.reward import LabelFunctionReward, MaskFunctionReward, Reward, TagFunctionReward
from .tasks.rewards.rules import Rule, read_rules
from .tasks.rewards.semi_supervised import reward_rows
from .tasks.rewards.space import RewardBinaryMaskSpace, RewardLabelSpace, RewardMaskSpace, RewardTagSpace
from .tasks.rewards.tag_rules import TagRuleReward
from .tasks.tags.model import SealForTokenClassification
from .tasks.tags.space import TagSequenceSpace
from .trainer import SealTrainer
from .training.arguments import SealTrainingArguments
from .training.energy_trainer import (
    ENERGY_METHODS,
    EnergyTrainer,
    EnergyTrainingArguments,
    MaskEnergyTrainer,
    load_energy_network,
)
from .training.epochs import NewEpoch
from .training.meters import NonFiniteLossError

__all__ = [
    "ENERGIES",
    "ENERGY_LOSSES",
    "ENERGY_METHODS",
    "SPACES",
    "TASK_LOSSES",
    "BiLSTMConfig",
    "BiLSTMForTokenClassification",
    "BinaryMaskSpace",
    "CNNConfig",
    "CNNForImageClassification",
    "Candidates",
    "ClassGridEnergy",
    "DataError",
    "EnergyLoss",
    "EnergyTrainer",
    "EnergyTrainingArguments",
    "FCNConfig",
    "FCNForSemanticSegmentation",
    "FlipAndCrop",
    "GradientBasedInference",
    "GridEnergy",
    "Hypergradient",
    "ImageRows",
    "LabelFunctionReward",
    "LabelRuleReward",
    "LabelSets",
    "Learner",
    "LossNet",
    "LossNetConfig",
    "MLPConfig",
    "MLPForMultiLabel",
    "MaskEnergyTrainer",
    "MaskFunctionReward",
    "MaskRows",
    "MaskRuleReward",
    "MaskSpace",
    "MultiLabelData",
    "MultiLabelEnergy",
    "MultiLabelSpace",
    "NewEpoch",
    "NonFiniteLossError",
    "OutputSpace",
    "PooledConfig",
    "PooledForSequenceClassification",
    "Reward",
    "RewardBinaryMaskSpace",
    "RewardLabelSpace",
    "RewardMaskSpace",
    "RewardTagSpace",
    "Rule",
    "SealForMultiLabel",
    "SealForSegmentation",
    "SealForTokenClassification",
    "SealModel",
    "SealTrainer",
    "SealTrainingArguments",
    "SegmentationData",
    "TagFunctionReward",
    "TagRuleReward",
    "TagSequenceData",
    "TagSequenceSpace",
    "TaskLoss",
    "TensorRows",
    "Vocabulary",
    "WindowedConfig",
    "WindowedForSequenceClassification",
    "WordRows",
    "WordVectors",
    "average_with_regression",
    "cnn_image_processor",
    "collate_rows",
    "crop_averaged",
    "encode_words",
    "fcn_image_processor",
    "load_energy_network",
    "load_masks",
    "load_multilabel",
    "load_srl",
    "load_tags",
    "load_trees",
    "load_word_vectors",
    "pixel_scaling",
    "read_rules",
    "resize_to",
    "reward_rows",
    "select_parameters",
    "tags_to_tree",
    "tokenize",
    "tokenize_words",
]
