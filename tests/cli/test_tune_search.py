"""The search of settings, trial by trial. Oracles: a brute force over what was tried, a search that was not cut off."""

import math
from types import SimpleNamespace

import pytest

from seal_hf import NonFiniteLossError
from seal_hf.cli.search import Choice, Goal, LogUniform, Uniform, search

optuna = pytest.importorskip("optuna")


def test_the_objective_is_the_best_evaluation_of_a_trial():
    logs = [{"loss": 3.0}, *({"eval_f1": value, "eval_loss": value} for value in (0.2, 0.5, 0.3)), {"train_loss": 1.0}]
    trainer = SimpleNamespace(state=SimpleNamespace(log_history=logs))
    assert Goal("f1").reached(trainer) == 0.5 and Goal("loss", larger=False).reached(trainer) == 0.2
    trainer.state.log_history, trainer.evaluate = logs[:1], lambda: {"eval_f1": 0.7}  # it never was evaluated
    assert Goal("f1").reached(trainer) == 0.7
    with pytest.raises(ValueError, match="`metric_for_best_model` is 'f2', .* It must be one of f1."):
        Goal("f2").reached(trainer)


def run_of(value):
    """Stands in for the runs of a search: one reaches what a function of its settings gives."""
    return lambda settings, seed, folder: value(settings)


def test_a_search_starts_at_the_given_values_also_when_it_was_cut_off_there(tmp_path):
    space, seen = {"x": LogUniform(0.1, 10.0), "kind": Choice(("a", "b"))}, []

    def value(found, cut=False):
        seen.append(found)
        if cut:
            raise KeyboardInterrupt
        return -abs(math.log(found["x"] / 3)) - (found["kind"] == "a")

    options = (space, [{"x": 50.0, "kind": "c"}], "toy", 12, tmp_path, Goal("f1"), lambda line: None)
    with pytest.raises(KeyboardInterrupt):
        search(run_of(lambda found: value(found, cut=True)), *options)
    found = search(run_of(value), *options)
    assert seen[0] == seen[1] == {"x": 50.0, "kind": "c"}  # outside of the ranges, which are widened
    assert len(seen) == 13 and found["trials"] == 12
    best = max(seen[1:], key=lambda tried: -abs(math.log(tried["x"] / 3)) - (tried["kind"] == "a"))
    assert found["settings"] == best and len({tried["x"] for tried in seen[2:]}) == 11


def test_a_trial_whose_loss_is_not_finite_counts_and_is_not_chosen(tmp_path):

    def value(found):
        if found["x"] > 1:
            raise NonFiniteLossError("x is too large")
        return 0.5

    options = ({"x": LogUniform(0.1, 10.0)}, [{"x": 2.0}], "toy", 6, tmp_path, Goal("f1"), lambda line: None)
    found = search(run_of(value), *options)
    assert found["trials"] == 6 and found["value"] == 0.5 and found["settings"]["x"] <= 1


def test_trials_of_another_search_of_that_name_do_not_count(tmp_path):
    tried, options = [], dict(name="toy", budget=3, folder=tmp_path, goal=Goal("f1"), say=lambda line: None)
    run = run_of(lambda found: tried.append(found) or 0.5)
    for sought, expected in (({"space": "x"}, 3), ({"space": "x"}, 3), ({"space": "x, wider"}, 6)):
        found = search(run, {"x": LogUniform(0.1, 10.0)}, [{"x": 2.0}], **options, sought=sought)
        assert found["trials"] == 3 and len(tried) == expected


@pytest.mark.parametrize("cut", [3, 9])
def test_of_the_best_trials_the_one_with_the_best_mean_over_seeds_is_chosen(tmp_path, cut):
    """By a brute force over what every seed says of every trial. Cut off in a trial, or among the finalists."""
    run, budget, finalists = [], 6, 3
    score = lambda x, seed: math.sin(7 * x + 5 * seed)  # noqa: E731 - each seed likes another x

    def make(found, seed, folder):
        run.append((found["x"], seed))
        if len(run) == cut:
            raise KeyboardInterrupt
        return score(found["x"], seed)

    options = ({"x": LogUniform(0.1, 10.0)}, [{"x": 2.0}], "toy", budget, tmp_path, Goal("f1"), lambda line: None)
    more = {"finalists": finalists, "seeds": (1, 2, 3)}
    with pytest.raises(KeyboardInterrupt):
        search(make, *options, **more)
    found = search(make, *options, **more)
    assert len(run) == budget + 2 * finalists + 1  # what was cut off is run again, nothing else
    tried = list(dict.fromkeys(x for x, seed in run if seed == 1))
    best = sorted(tried, key=lambda x: -score(x, 1))[:finalists]
    means = {x: sum(score(x, seed) for seed in (1, 2, 3)) / 3 for x in best}
    assert found["settings"] == {"x": max(means, key=means.get)} and found["value"] == pytest.approx(
        max(means.values())
    )
    assert {one["settings"]["x"]: one["values"] for one in found["tried"]} == {
        x: pytest.approx([score(x, seed) for seed in ((1, 2, 3) if x in best else (1,))]) for x in tried
    }
    assert found["trials"] == budget and search(make, *options, **more) == found and len(run) == 13
    search(make, *options, finalists=4)  # of other finalists: theirs are run again, the trials are not
    assert len(run) == 13 + 2 * 4


SPACE = {"x": LogUniform(0.1, 10.0), "y": Uniform(0, 1), "kind": Choice(("a", "b", "c"))}


def toy(folder, value=lambda found: math.sin(7 * found["x"]) + found["y"] - (found["kind"] == "a")):
    given = [{"x": 2.0, "y": 0.3, "kind": "a"}, {"x": 2.0, "y": 0.3, "kind": "b"}]
    return search(run_of(value), SPACE, given, "toy", 7, folder, Goal("f1"), lambda line: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return toy(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("cut, killed", [(2, False), (6, False), (1, True), (6, True)])
def test_a_search_that_was_cut_off_tries_what_one_that_was_not_tries(whole, tmp_path, cut, killed):
    """A trial of a process that was killed is still running, as its data base says."""
    known = [one["values"][0] for one in whole["tried"][: cut - 1]]

    def value(found):
        if not known:
            raise KeyboardInterrupt
        return known.pop(0)

    with pytest.raises(KeyboardInterrupt):
        toy(tmp_path, value)
    if killed:
        trial = optuna.load_study(study_name="toy", storage=f"sqlite:///{tmp_path}/search.db").ask()
        assert all(values.suggest(trial, name) is not None for name, values in SPACE.items())
    assert toy(tmp_path) == whole


def test_the_first_trials_cover_every_range(tmp_path):
    """Of the halves of each range both are tried, and of a choice every value, whatever was given."""
    space = {"rate": LogUniform(1e-4, 1e-2), "weight": LogUniform(0.01, 10.0), "dropout": Uniform(0.2, 0.6)}
    space["kind"], tried = Choice(("a", "b", "c")), []
    given = {"rate": 1e-3, "weight": 1.0, "dropout": 0.3, "kind": "a"}
    options = (space, [given], "toy", 4, tmp_path, Goal("f1"), lambda line: None)
    search(run_of(lambda found: tried.append(found) or 0.5), *options)
    assert tried[0] == given and {one["kind"] for one in tried} == {"a", "b", "c"}
    for name in ("rate", "weight", "dropout"):
        log, (low, high) = (math.log if name != "dropout" else float), (space[name].low, space[name].high)
        shares = [(log(one[name]) - log(low)) / (log(high) - log(low)) for one in tried[1:]]
        assert min(shares) < 0.5 < max(shares) < 1 and max(shares) - min(shares) > 0.3, name
