"""seal_hf: energy networks as a loss function for fine-tuning.

A loss-net is trained beside the task-net and teaches it the dependencies between labels; at prediction time only the
task-net runs.
"""

from .collators import TensorRows, collate_rows, tokenize
from .data import DataError, MultiLabelData, load_multilabel
from .energies import ENERGIES, MultiLabelEnergy
from .energy_args import EnergyTrainingArguments
from .energy_losses import ENERGY_LOSSES, Candidates, EnergyLoss
from .energy_methods import ENERGY_METHODS
from .energy_trainer import EnergyTrainer, load_energy_network
from .implicit import Hypergradient, select_parameters
from .inference import GradientBasedInference
from .label_sets import LabelSets
from .learner import Learner
from .loss_net import LossNet, LossNetConfig
from .meters import NonFiniteLossError
from .modeling import MLPConfig, MLPForMultiLabel, SealForMultiLabel
from .spaces import SPACES, MultiLabelSpace, OutputSpace
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
    "Candidates",
    "DataError",
    "EnergyLoss",
    "EnergyTrainer",
    "EnergyTrainingArguments",
    "GradientBasedInference",
    "Hypergradient",
    "LabelSets",
    "Learner",
    "LossNet",
    "LossNetConfig",
    "MLPConfig",
    "MLPForMultiLabel",
    "MultiLabelData",
    "MultiLabelEnergy",
    "MultiLabelSpace",
    "NonFiniteLossError",
    "OutputSpace",
    "SealForMultiLabel",
    "SealTrainer",
    "SealTrainingArguments",
    "TaskLoss",
    "TensorRows",
    "collate_rows",
    "load_energy_network",
    "load_multilabel",
    "select_parameters",
    "tokenize",
]
