"""The methods of tag sequences: baselines that decide each tag by itself, within a scheme, or by a CRF; and every loss
with every energy."""

from __future__ import annotations

from typing import Any

from ...cli.tuning.ranges import RATE, LogUniform, Range
from ...energies import energies_of
from .base import BASELINE, CONSTANT, LOSS_NET_RATE, SEAL, WEIGHT, Method

SCHEME, CORE_ROLES = "tags with a scheme", "tags with core roles"  # what data may have
BY_RATE: dict[str, Range] = {"learning_rate": RATE}
BESIDE = {**BY_RATE, "energy_weight": WEIGHT, "loss_net_learning_rate": LOSS_NET_RATE}
FIRST = {"energy_weight": 0.3, "loss_net_learning_rate": 1e-3}
CRF = {"task_loss": "crf", "crf_learning_rate": 1e-2}  # its transitions begin at 0

BASELINES: dict[str, Method] = {
    "constant": Method(BASELINE, "the most frequent tag, for every word", program=CONSTANT),
    "ce": Method(BASELINE, "cross-entropy", {"energy_loss": "ce"}, BY_RATE),
    "constrained": Method(
        BASELINE,
        "cross-entropy, decoded within the scheme",
        {"energy_loss": "ce", "constrained_decoding": True},
        BY_RATE,
        needs=SCHEME,
    ),
    "crf": Method(BASELINE, "a CRF", {"energy_loss": "ce", **CRF}, BY_RATE),
    "crf_unique_roles": Method(
        BASELINE,
        "a CRF, core roles unique at decoding",
        {"energy_loss": "ce", **CRF, "constrained_decoding": True, "decoder": "unique_roles"},
        BY_RATE,
        needs=CORE_ROLES,
    ),
    "unique_roles": Method(
        BASELINE,
        "cross-entropy, core roles unique by a term of the loss",
        {"energy_loss": "ce", "task_loss": "unique_roles"},
        {**BY_RATE, "unique_roles_weight": LogUniform(0.1, 10.0)},
        {"unique_roles_weight": 1.0},
        needs=CORE_ROLES,
    ),
}
L1 = {"margin_cost": "l1"}  # the papers' cost of tags
LOSSES: dict[str, tuple[str, dict[str, Any]]] = {  # name -> in words, settings
    "nce": ("NCE", {"energy_loss": "nce"}),
    "ranking": ("NCE without the noise term", {"energy_loss": "ranking"}),
    "margin": ("margin", {"energy_loss": "margin", **L1}),
    "infnet": ("InfNet", {"energy_loss": "infnet", **L1}),
    "infnet_plus": ("InfNet+, stacked", {"energy_loss": "infnet_plus", "cost_augmented_network": "stacked", **L1}),
    "infnet_plus_shared": ("InfNet+, shared", {"energy_loss": "infnet_plus", "cost_augmented_network": "shared", **L1}),
    "infnet_plus_separated": (
        "InfNet+, separated",
        {"energy_loss": "infnet_plus", "cost_augmented_network": "separated", **L1},
    ),
    "regression": ("regression", {"energy_loss": "regression"}),
    "crf_nce": ("NCE beside a CRF", {"energy_loss": "nce", **CRF}),
}


def methods(energy: str) -> dict[str, Method]:
    """All methods: the losses with the program's own energy, whose default is `energy`, and `LOSS_ENERGY` for every
    other one."""
    found = dict(BASELINES)
    found |= {name: Method(SEAL, about, settings, BESIDE, FIRST) for name, (about, settings) in LOSSES.items()}
    for other in (other for other in energies_of("tag_sequence") if other != energy):
        for name, (about, settings) in LOSSES.items():
            own = {**settings, "energy": other}
            found[f"{name}_{other}"] = Method(SEAL, f"{about}, energy {other}", own, BESIDE, FIRST)
    return found
