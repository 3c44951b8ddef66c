"""seal_hf: energy networks as a loss function for fine-tuning.

A loss-net is trained beside the task-net and teaches it the dependencies between labels; at prediction time only the
task-net runs.
"""

from .collators import TensorRows, collate_rows, tokenize
from .data import DataError, MultiLabelData, TagSequenceData, load_multilabel, load_srl, load_tags
from .energies import ENERGIES, MultiLabelEnergy
from .energy_args import EnergyTrainingArguments
from .energy_losses import ENERGY_LOSSES, Candidates, EnergyLoss
from .energy_methods import ENERGY_METHODS
from .energy_trainer import EnergyTrainer, load_energy_network
from .inference import GradientBasedInference
from .label_sets import LabelSets
from .learner import Learner
from .loss_net import LossNet, LossNetConfig
from .meters import NonFiniteLossError
from .modeling import MLPConfig, MLPForMultiLabel, SealForMultiLabel, SealForTokenClassification, SealModel
from .recurrent import BiLSTMConfig, BiLSTMForTokenClassification
from .spaces import SPACES, MultiLabelSpace, OutputSpace, TagSequenceSpace
from .task_losses import TASK_LOSSES, TaskLoss
from .token_rows import WordRows, encode_words, tokenize_words
from .trainer import SealTrainer
from .training_args import SealTrainingArguments
from .vocabulary import Vocabulary
from .word_vectors import WordVectors, load_word_vectors

__version__ = "0.1.0"

__all__ = [
    "ENERGIES",
    "ENERGY_LOSSES",
    "ENERGY_METHODS",
    "SPACES",
    "TASK_LOSSES",
    "BiLSTMConfig",
    "BiLSTMForTokenClassification",
    "Candidates",
    "DataError",
    "EnergyLoss",
    "EnergyTrainer",
    "EnergyTrainingArguments",
    "GradientBasedInference",
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
    "SealForTokenClassification",
    "SealModel",
    "SealTrainer",
    "SealTrainingArguments",
    "TagSequenceSpace",
    "TagSequenceData",
    "TaskLoss",
    "TensorRows",
    "Vocabulary",
    "WordRows",
    "WordVectors",
    "collate_rows",
    "encode_words",
    "load_energy_network",
    "load_multilabel",
    "load_srl",
    "load_tags",
    "load_word_vectors",
    "tokenize",
    "tokenize_words",
]
