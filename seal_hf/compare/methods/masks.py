"""The methods of masks. λ1 is a share of the task loss's pull, since its useful values differ by a factor of a thousand
between losses here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...cli.tuning.ranges import ENERGY_RATES, RATE, LogUniform, Range
from .base import BASELINE, CONSTANT, ENERGY, ENERGY_NETWORK, LOSS_NET_RATE, SEAL, SHARE, Method

BY_RATE: dict[str, Range] = {"learning_rate": RATE}
STATIC = {**BY_RATE, "energy_weight": SHARE}
BESIDE = {**STATIC, "loss_net_learning_rate": LOSS_NET_RATE}
FIELD = {"sample_coherence": "field"}
FEW_SAMPLES = {"num_samples": 4}  # each is an image for the energy's convolutions
OF_TWO_CLASSES = {"gbi_dvn", "static_regression"}  # an energy network alone predicts no others


def dynamic(about: str, loss: str, first: Mapping[str, Any] | None = None, **settings: Any) -> Method:
    begins = {"energy_weight": 0.3, "loss_net_learning_rate": 1e-3, **(first or {})}
    return Method(SEAL, about, {"energy_loss": loss, "energy_weight_balance": True, **settings}, BESIDE, begins)


METHODS: dict[str, Method] = {
    "constant": Method(BASELINE, "one mask for every image, by the frequencies of each pixel", program=CONSTANT),
    "ce": Method(BASELINE, "cross-entropy", {"energy_loss": "ce"}, BY_RATE),
    "soft_iou": Method(
        BASELINE,
        "cross-entropy and soft IoU",
        {"energy_loss": "ce", "task_loss": "soft_iou"},
        {**BY_RATE, "soft_iou_weight": LogUniform(0.1, 10.0)},
        {"soft_iou_weight": 1.0},
    ),
    "dice": Method(
        BASELINE,
        "cross-entropy and Dice",
        {"energy_loss": "ce", "task_loss": "dice"},
        {**BY_RATE, "dice_weight": LogUniform(0.1, 10.0)},
        {"dice_weight": 1.0},
    ),
    "lovasz": Method(
        BASELINE,
        "cross-entropy and the Lovász extension of IoU",
        {"energy_loss": "ce", "task_loss": "lovasz"},
        {**BY_RATE, "lovasz_weight": LogUniform(0.1, 10.0)},
        {"lovasz_weight": 1.0},
    ),
    "gbi_dvn": Method(
        ENERGY,
        "DVN, by gradient-based inference",
        {"energy_method": "dvn", "inference_steps": 8, "inference_steps_eval": 15},
        ENERGY_RATES,
        {"learning_rate": 1e-3, "inference_learning_rate": 0.4},
        program=ENERGY_NETWORK,
    ),
    "static_regression": Method(
        SEAL,
        "SEAL-static on DVN",
        {"energy_loss": "regression", "energy_weight_balance": True, "loss_net_steps": 0},
        STATIC,
        {"energy_weight": 0.3},
        takes={"loss_net_path": "gbi_dvn"},
    ),
    "margin": dynamic("margin", "margin"),
    "infnet": dynamic("InfNet", "infnet"),
    "regression": dynamic("regression on soft IoU", "regression"),
    "regression_s": dynamic("regression on perturbed outputs", "regression_s", FEW_SAMPLES),
    "nce": dynamic("NCE, independent pixels", "nce", FEW_SAMPLES),
    "nce_patches": dynamic(
        "NCE, samples of patches",
        "nce",
        FEW_SAMPLES,
        sample_coherence="patches",
        coherence_size=2,  # the noise term tells larger patches from gold by itself
        independent_share=0.5,
    ),
    "ranking": dynamic("ranking, independent pixels", "ranking", FEW_SAMPLES),
    "ranking_field": dynamic("ranking, smooth samples", "ranking", FEW_SAMPLES, **FIELD),
    "ranking_inputs": dynamic(
        "ranking, masks of noisy copies of the image", "ranking", FEW_SAMPLES, sample_coherence="inputs"
    ),
    "contrastive_divergence": dynamic("contrastive divergence", "contrastive_divergence", FEW_SAMPLES),
    "contrastive_divergence_field": dynamic(
        "contrastive divergence, smooth samples", "contrastive_divergence", FEW_SAMPLES, **FIELD
    ),
}
