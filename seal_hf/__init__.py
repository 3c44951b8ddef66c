"""seal_hf: energy networks as a loss function for fine-tuning.

A loss-net is trained beside the task-net and teaches it the dependencies between labels; at prediction time only the
task-net runs.
"""

from .collators import TensorRows, collate_rows, tokenize
from .crops import MaskRows, NewCrops, crop_averaged
from .data import DataError, MultiLabelData, SegmentationData, load_masks, load_multilabel
from .energies import ENERGIES, GridEnergy, MultiLabelEnergy
from .energy_args import EnergyTrainingArguments
from .energy_losses import ENERGY_LOSSES, Candidates, EnergyLoss
from .energy_methods import ENERGY_METHODS
from .energy_trainer import EnergyTrainer, load_energy_network
from .fcn import FCNConfig, FCNForSemanticSegmentation, fcn_image_processor
from .inference import GradientBasedInference
from .label_sets import LabelSets
from .learner import Learner
from .loss_net import LossNet, LossNetConfig
from .meters import NonFiniteLossError
from .modeling import MLPConfig, MLPForMultiLabel, SealForMultiLabel
from .spaces import SPACES, BinaryMaskSpace, MultiLabelSpace, OutputSpace
from .task_losses import TASK_LOSSES, TaskLoss
from .trainer import SealTrainer
from .training_args import SealTrainingArguments

__version__ = "0.1.0"

__all__ = [
    "ENERGIES",
    "ENERGY_LOSSES",
    "ENERGY_METHODS",
    "SPACES",
    "TASK_LOSSES",
    "BinaryMaskSpace",
    "Candidates",
    "DataError",
    "EnergyLoss",
    "EnergyTrainer",
    "EnergyTrainingArguments",
    "FCNConfig",
    "FCNForSemanticSegmentation",
    "GradientBasedInference",
    "GridEnergy",
    "LabelSets",
    "Learner",
    "LossNet",
    "LossNetConfig",
    "MLPConfig",
    "MLPForMultiLabel",
    "MaskRows",
    "MultiLabelData",
    "MultiLabelEnergy",
    "MultiLabelSpace",
    "NewCrops",
    "NonFiniteLossError",
    "OutputSpace",
    "SealForMultiLabel",
    "SealTrainer",
    "SealTrainingArguments",
    "SegmentationData",
    "TaskLoss",
    "TensorRows",
    "collate_rows",
    "crop_averaged",
    "fcn_image_processor",
    "load_energy_network",
    "load_masks",
    "load_multilabel",
    "tokenize",
]
