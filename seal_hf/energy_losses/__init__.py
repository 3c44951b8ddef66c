"""Energy losses L_E, which the loss-net minimises, each with its equation and source.

Every loss gets the same row of candidates for each input,

    y = [ŷ, y*, y_1 .. y_K]:  the task-net's relaxed output, the gold, and K samples    (B, 2 + K, ...)

and the energies E(x, y) of that row, (B, 2 + K), lower = better. Losses differ in their samples: some use no samples
(K = 0), `regression_s` uses one fewer than `num_samples`, the only sample of `infnet_plus` is the output of the
cost-augmented network, and those of `mutual` are the empty set and the L sets of one label.

A loss is a class with up to four methods. `draw` gives its samples. `annotate` fills in what the loss reads besides the
energies (scores, costs, log-probabilities). `__call__` maps energies to a scalar, the mean over the batch (SEAL,
Eq. 4). `task_term` is what the task-net minimises in turn. The fields of the class are its options.
Sources: SEAL = Lee et al. 2022, https://openreview.net/forum?id=F0DowhX7_x; InfNet+ = Tu, Pang & Gimpel 2020,
https://arxiv.org/abs/1911.02891 (equation numbers as printed there).
"""

from .base import CONTRAST, GOLD, OUTPUT, SAMPLES, Candidates, EnergyLoss
from .margin import MARGINS, InfNet, InfNetPlus, Margin
from .mutual_learning import MutualLearning
from .ranking import NCE, ContrastiveDivergence, Ranking, log_inclusion
from .regression import REGRESSION_SAMPLES, DeepValue, Regression, RegressionS

CROSS_ENTROPY = "ce"  # in place of an energy loss: the same trainer with no loss-net
ENERGY_LOSSES: dict[str, type[EnergyLoss]] = {
    loss.name: loss
    for loss in (
        NCE,
        Ranking,
        Margin,
        InfNet,
        InfNetPlus,
        Regression,
        RegressionS,
        ContrastiveDivergence,
        MutualLearning,
    )
}

__all__ = [
    "CONTRAST",
    "CROSS_ENTROPY",
    "ENERGY_LOSSES",
    "GOLD",
    "MARGINS",
    "NCE",
    "OUTPUT",
    "REGRESSION_SAMPLES",
    "SAMPLES",
    "Candidates",
    "ContrastiveDivergence",
    "DeepValue",
    "EnergyLoss",
    "InfNet",
    "InfNetPlus",
    "Margin",
    "MutualLearning",
    "Ranking",
    "Regression",
    "RegressionS",
    "log_inclusion",
]
