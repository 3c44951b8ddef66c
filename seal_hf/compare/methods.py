"""The methods of the papers' multi-label tables, their ablations, ours, and the baselines: settings and search spaces.

A method is a program's settings over those of the data set (a recipe's keys), and a search space. A new method is a
line in `METHODS`.

There is no `static_infnet`: in InfNet the task-net looks for structures of high cost, from which the loss-net learns.
With a loss-net that no longer learns, only the pull towards a high cost would remain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..cli.tuning.ranges import DROPOUT_RANGE, ENERGY_RATES, RATE, TEXT_RATE, Choice, LogUniform, Range

BASELINE, SEAL, ENERGY, ABLATION = "baseline", "SEAL", "energy network", "ablation"  # groups, by their table names
CONSTANT = "constant"


@dataclass(frozen=True)
class Method:
    """One row of a comparison.

    Attributes:
        group: the others are tested against `BASELINE` rows.
        about: a few words for the table's legend.
        settings: keys of a recipe, over those of the data set.
        space: key -> searched range.
        first: values of the first trial, and of a run without search, over those of the data set's recipe.
        program: `mlc` or `energy` (`cli/train/mlc.py`, `cli/train/energy.py`), or `constant`, which trains
            nothing.
        takes: setting -> another method, which is run before and whose net of the same seed is used.
    """

    group: str
    about: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Range] = field(default_factory=dict)
    first: Mapping[str, Any] = field(default_factory=dict)
    program: str = "mlc"
    takes: Mapping[str, str] = field(default_factory=dict)


WEIGHT, SHARE = LogUniform(0.03, 10.0), LogUniform(0.03, 3.0)  # λ1, and λ1 of a balanced energy
TEXT = {"learning_rate": TEXT_RATE, "loss_net_learning_rate": LogUniform(3e-5, 1e-3)}  # pretrained nets
COMMON = {"num_samples", "global_size", "dropout", "energy_weight", "inference_learning_rate", *TEXT}
NET: dict[str, Range] = {"learning_rate": RATE, "dropout": DROPOUT_RANGE}
BESIDE = {**NET, "energy_weight": WEIGHT, "loss_net_learning_rate": LogUniform(2e-4, 5e-3)}
STATIC = {**NET, "energy_weight": WEIGHT}
PERTURBED = {"perturbation_std": LogUniform(0.05, 5.0)}
CHEAP: dict[str, Any] = {"num_samples": 5, "global_size": 50, "loss_net_every": 2}


def baseline(about: str, **settings: Any) -> Method:
    return Method(BASELINE, about, {"energy_loss": "ce", **settings}, NET)


def dynamic(
    about: str,
    loss: str,
    space: Mapping | None = None,
    group: str = SEAL,
    first: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Method:
    first = {"energy_weight": 0.3, "loss_net_learning_rate": 1e-3, **(first or {})}
    return Method(group, about, {"energy_loss": loss, **settings}, {**BESIDE, **(space or {})}, first)


def balanced(about: str, group: str = SEAL, **settings: Any) -> Method:
    """NCE, with λ1 as the energy's share of the task loss's gradient."""
    settings["energy_weight_balance"] = True
    return dynamic(about, "nce", {"energy_weight": SHARE}, group, {"energy_weight": 0.5}, **settings)


def static(about: str, loss: str, network: str) -> Method:
    """SEAL-static: a trained energy network, frozen, as a loss."""
    settings = {"energy_loss": loss, "loss_net_steps": 0, "loss_net_encoder": "separate"}
    return Method(SEAL, about, settings, STATIC, {"energy_weight": 0.1}, takes={"loss_net_path": network})


def network(about: str, method: str, step: float, space: Mapping | None = None, **takes: str) -> Method:
    """An energy network that predicts by gradient-based inference; `step` is the first step size. It takes its encoder
    from a task-net, or its dropout is searched."""
    settings = {"energy_method": method, "num_samples": 100}  # samples cost little beside inference
    space = {**ENERGY_RATES, **({} if takes else {"dropout": DROPOUT_RANGE}), **(space or {})}
    first = {"learning_rate": 3e-4, "inference_learning_rate": step}
    return Method(ENERGY, about, settings, space, first, program="energy", takes=takes)


METHODS: dict[str, Method] = {
    "constant": Method(BASELINE, "the labels' frequencies, for every row", program=CONSTANT),
    "ce": baseline("cross-entropy"),
    "focal": baseline("focal loss", task_loss="focal"),
    "asymmetric": baseline("asymmetric loss", task_loss="asymmetric"),
    "zlpr": baseline("log-sum-exp pairwise loss", task_loss="zlpr"),
    "gbi_spen": network("SPEN: margin, loss-augmented inference", "spen", 0.01, task_net_path="ce"),
    "gbi_dvn": network("DVN: regression, adversarial and gold points", "dvn", 0.1),
    "gbi_nce": network("NCE with frozen cross-entropy noise", "nce", 0.03, task_net_path="ce"),
    "gbi_ranking": network("ranking on samples of frozen cross-entropy", "ranking", 0.03, task_net_path="ce"),
    "gbi_regression_s": network(
        "regression on outputs around cross-entropy's", "regression_s", 0.1, PERTURBED, task_net_path="ce"
    ),
    "static_margin": static("SEAL-static on SPEN", "margin", "gbi_spen"),
    "static_regression": static("SEAL-static on DVN", "regression", "gbi_dvn"),
    "static_nce": static("SEAL-static on NCE", "nce", "gbi_nce"),
    "static_ranking": static("SEAL-static on ranking", "ranking", "gbi_ranking"),
    "static_regression_s": static("SEAL-static on regression-s", "regression_s", "gbi_regression_s"),
    "margin": dynamic("SEAL-dynamic, margin", "margin", {"margin_cost": Choice(("f1", "l1"))}),
    "infnet": dynamic(
        "InfNet: the task-net looks for the cost too",
        "infnet",
        {"margin_cost": Choice(("f1", "l1_mean")), "task_weight": LogUniform(0.3, 10.0)},
    ),
    "regression": dynamic("SEAL-dynamic, regression", "regression", first={"energy_weight": 3.0}),
    "regression_s": dynamic(
        "SEAL-dynamic, regression on perturbed outputs",
        "regression_s",
        PERTURBED,
        first={"energy_weight": 3.0, "perturbation_std": 1.0},
    ),
    "contrastive_divergence": dynamic("contrastive divergence: samples, each with its cost", "contrastive_divergence"),
    "implicit": dynamic(
        "contrastive divergence with implicit gradients",
        "contrastive_divergence",
        hypergradient="cg",
        hypergradient_damping=1.0,
    ),
    "nce": dynamic("SEAL-dynamic, NCE", "nce"),
    "ranking": dynamic("NCE without the noise term", "ranking"),
    "nce_shared": dynamic("NCE on the task-net's features", "nce", loss_net_encoder="shared"),
    "nce_cost": dynamic(
        "NCE, cost of a sample in its logit", "nce", {"cost_weight": LogUniform(0.1, 10.0)}, first={"cost_weight": 1.0}
    ),
    "nce_distinct": dynamic("NCE, distinct samples", "nce", distinct_samples=True),
    "nce_gold": dynamic(
        "NCE, gold mixed into samples", "nce", {"gold_mix": Choice((0.1, 0.3, 0.5))}, first={"gold_mix": 0.3}
    ),
    "nce_rise": dynamic("NCE, λ1 rising from 0 to the planned last step", "nce", energy_weight_schedule="rise"),
    "nce_fall": dynamic("NCE, λ1 falling to 0 at the planned last step", "nce", energy_weight_schedule="fall"),
    "nce_cheap": dynamic("NCE, few samples, small global term, loss-net at every other step", "nce", **CHEAP),
    "nce_balanced": balanced("NCE, λ1 by gradient norms"),
    "nce_balanced_cheap": balanced("NCE, λ1 by gradient norms, as cheap as nce_cheap", **CHEAP),
    "nce_balanced_local": balanced(
        "NCE, λ1 by gradient norms, without dependencies between labels", group=ABLATION, global_size=0
    ),
    "nce_asymmetric": dynamic("NCE beside the asymmetric loss", "nce", task_loss="asymmetric"),
    "nce_zlpr": dynamic("NCE beside the pairwise loss", "nce", task_loss="zlpr"),
    "nce_pairwise": dynamic("NCE, an energy of pairs of labels", "nce", energy="pairwise"),
    "nce_local": dynamic("NCE, an energy without dependencies between labels", "nce", group=ABLATION, global_size=0),
    "nce_alone": dynamic(
        "NCE without cross-entropy", "nce", group=ABLATION, task_weight=0.0, first={"energy_weight": 1.0}
    ),
    "ranking_on_task": Method(
        ABLATION, "ranking loss on the task-net itself", {"energy_loss": "ce", "task_loss": "ranking"}, NET
    ),
    "regression_s_discrete": dynamic(
        "regression on samples",
        "regression_s",
        group=ABLATION,
        first={"energy_weight": 3.0},
        regression_samples="discrete",
    ),
}


def of_recipe(settings: Mapping[str, Any]) -> Method:
    """An unchanged recipe as a method; without a loss-net it is a baseline."""
    loss = settings.get("energy_loss", settings.get("loss", "nce"))
    return Method(BASELINE if loss == "ce" else SEAL, f"({loss})", settings)


def space_of(method: Method, kind: str) -> dict[str, Range]:
    """The search space of a method on `features` or `text`: a pretrained encoder needs small rates, and has its own
    dropout."""
    if kind == "features":
        return dict(method.space)
    return {key: TEXT.get(key, values) for key, values in method.space.items() if key != "dropout"}


def first_of(method: Method, kind: str) -> dict[str, Any]:
    """The first values of a method on `features` or `text`; a pretrained encoder has its recipe's rates."""
    return {key: value for key, value in method.first.items() if kind == "features" or key not in TEXT}


def hold(keys: Collection[str], methods: Mapping[str, Method] = METHODS) -> dict[str, Method]:
    """The methods without a search of these keys, which then keep a method's first values.

    Raises:
        ValueError: a key that no method searches.
    """
    searched = {key for method in methods.values() for key in method.space}
    for key in keys:
        if key not in searched:
            raise ValueError(
                f"`hold` has {key!r}, which no method searches; they search {', '.join(sorted(searched))}."
            )
    free = {
        name: {key: method.space[key] for key in method.space if key not in keys} for name, method in methods.items()
    }
    return {name: replace(method, space=free[name]) for name, method in methods.items()}


def own_keys(methods: Mapping[str, Method] = METHODS) -> set[str]:
    """The recipe keys that define methods: all that methods name, except sizes, rates and λ1. A data set's recipe
    cannot set them for all methods."""
    return {key for method in methods.values() for key in (*method.settings, *method.space, *method.first)} - COMMON


def with_requirements(names: list[str], methods: Mapping[str, Method] = METHODS) -> list[str]:
    """The named methods and those whose nets they take, which come before them.

    Raises:
        ValueError: an unknown name.
    """
    unknown = [name for name in names if name not in methods]
    if unknown:
        raise ValueError(f"unknown method {unknown[0]!r}; it must be one of {', '.join(methods)}, or all.")
    ordered: list[str] = []

    def add(name: str) -> None:
        for needed in methods[name].takes.values():
            add(needed)
        if name not in ordered:
            ordered.append(name)

    for name in names:
        add(name)
    return ordered
