"""The tables of Tu, Pang & Gimpel 2020, for the page on tags."""

from __future__ import annotations

import json

from results_store import ROOT

from . import runs
from .markdown import prose, table
from .published import value

NAME = "twitter_pos_paper_"  # begins the names of the recipe's runs
OBJECTIVES = {  # end of the recipe's name -> row of the published figures
    "ce": "cross-entropy (BiLSTM)",
    "margin_truncated_no_ce": "margin-rescaled, truncated at 0, without cross-entropy",
    "margin_no_ce": "margin-rescaled, without cross-entropy",
    "margin_truncated": "margin-rescaled, truncated at 0",
    "margin": "margin-rescaled",
    "perceptron_no_ce": "perceptron, without cross-entropy",
    "perceptron": "perceptron",
    "compound_separated": "compound, separated",
    "compound_shared": "compound, shared",
    "compound_stacked": "compound, stacked",
}
VALIDATION = "eval_accuracy"


def objectives() -> list[str]:
    """Tables 1 to 3: accuracies, and how far both inference networks are from each other."""
    return [
        prose("""
            Tu, Pang & Gimpel 2020, Tables 1 and 2: accuracy on Twitter POS with one BiLSTM. The inference networks
            have five updates for one of the energy; without cross-entropy they have one, at a tenth of the rate.
            Our word vectors are others (GloVe, 50 numbers; theirs of tweets are not public), and we train by AdamW,
            not by SGD with momentum. *Compound* is InfNet+, with two inference networks."""),
        prose(_in_short()),
        table(["objective", "published", "seeds", "accuracy"], _accuracies()),
        prose(f"""
            Their Table 3: accuracy on validation rows of the network that tags, A, less that of the cost-augmented
            one, F (`benchmarks/cost_augmented.py`). With *margin-rescaled*, A is F after a second training on the
            finished energy, as in Tu & Gimpel 2018. {_second_training()} A stacked F reads the gold tags, and ours
            repeats most of them."""),
        table(["networks", "published", "seeds", "A", "A less F"], _distances()),
    ]


def _accuracies() -> list[list[str]]:
    found = {published: runs.of_recipe(NAME + name) for name, published in OBJECTIVES.items()}
    return [
        [name, value("tagging", name), str(len(each)), runs.figure(each, "test_accuracy")]
        for name, each in found.items()
        if each
    ]


def _in_short() -> str:
    plain, names = runs.of_recipe(NAME + "ce"), list(OBJECTIVES)
    gains = {name: runs.gain(runs.of_recipe(NAME + name), plain, "test_accuracy") for name in names[1:]}
    best = max((name for name in gains if gains[name]), key=lambda name: gains[name])
    return f"*{OBJECTIVES[best]}* is ahead of cross-entropy by {gains[best]}, the most, on {gains[best].won} seeds."


def _second_training() -> str:
    first, second = (runs.of_recipe(NAME + name) for name in ("margin", "margin_tuned"))
    return f"On the test set this training adds {runs.gain(second, first, 'test_accuracy')}."


def _cost_augmented() -> dict[str, dict[int, dict]]:
    """Kind of F -> seed -> the figures of `cost_augmented.py`."""
    found: dict[str, dict[int, dict]] = {}
    file = ROOT / "benchmarks" / "cost_augmented.json"
    for name, figures in json.loads(file.read_text(encoding="utf-8")).items():
        kind, seed = name.split()
        found.setdefault(kind, {})[int(seed)] = figures
    return found


def _distances() -> list[list[str]]:
    first, second = (runs.of_recipe(NAME + name) for name in ("margin", "margin_tuned"))
    name, found = "margin-rescaled", runs.gain(second, first, VALIDATION)
    rows = [[name, value("cost_augmented", name), str(len(second)), runs.figure(second, VALIDATION), str(found)]]
    for kind, seeds in _cost_augmented().items():
        found = runs.gain(seeds, seeds, "task_net", "cost_augmented")
        name = f"compound, {kind}"
        rows.append([name, value("cost_augmented", name), str(len(seeds)), runs.figure(seeds, "task_net"), str(found)])
    return rows
