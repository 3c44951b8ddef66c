"""Losses, energies and options of one's own, as CONTRIBUTING.md says, and what the constructors refuse."""

import tempfile
from dataclasses import dataclass

import pytest
import tiny_run
import torch
import torch.nn.functional as F
from transformers import BertForSequenceClassification

from seal_hf import (
    ENERGY_LOSSES,
    TASK_LOSSES,
    BinaryMaskSpace,
    EnergyTrainingArguments,
    LossNet,
    MultiLabelSpace,
    SealForMultiLabel,
    SealTrainer,
    SealTrainingArguments,
    TagSequenceSpace,
    TensorRows,
)
from seal_hf.core.energy import ENERGIES, Energy
from seal_hf.core.task import TASKS
from seal_hf.energy_losses import NCE, Margin, Ranking, RegressionS
from seal_hf.tasks import LabelTask
from seal_hf.tasks.labels.energies import LabelEnergy, MultiLabelEnergy
from seal_hf.tasks.labels.task_losses import Focal, LabelwiseLoss, TaskLoss
from seal_hf.tasks.rewards.space import RewardTagSpace
from seal_hf.tasks.tags.task_losses import TAG_TASK_LOSSES, TagCrossEntropy
from seal_hf.training.card import run_card
from seal_hf.training.energy_trainer import ENERGY_METHODS
from seal_hf.utils.options import option


@dataclass
class Arguments(SealTrainingArguments):
    temperature: float = 1.0


def arguments(**options):
    return Arguments(tempfile.gettempdir(), use_cpu=True, report_to="none", **options)


def trainer_of(folder, loss, **options):
    return tiny_run.make(folder, loss, **options)[0]


def test_an_option_of_ones_own_reaches_the_loss():
    @dataclass
    class Tempered(Ranking):
        temperature: float = 2.0

        def __call__(self, energies, candidates):
            return super().__call__(energies / self.temperature, candidates)

    given = arguments(temperature=7.0, num_samples=3)
    loss = Tempered.from_arguments(given)
    assert (loss.temperature, loss.num_samples) == (7.0, 3)


class Undecorated(Ranking):
    temperature: float = 2.0


class OtherDefault(Ranking):
    num_samples: int = 5


class Untyped(Margin):
    margin_type = "slack"


@dataclass
class Child(Undecorated):
    pass


@pytest.mark.parametrize(
    "kind, message",
    [
        (Undecorated, "Undecorated declares 'temperature'"),
        (OtherDefault, "OtherDefault declares 'num_samples'"),
        (Untyped, "Untyped declares 'margin_type'"),
        (Child, "Undecorated declares 'temperature'"),
    ],
)
def test_an_option_whose_value_would_be_ignored_is_named(kind, message):
    with pytest.raises(TypeError, match=f"{message}, .*make the class a dataclass"):
        kind.from_arguments(arguments())


def test_a_bound_may_stand_alone():
    @dataclass
    class Capped(Ranking):
        temperature: float = option(1.0, below=2)

    assert Capped.from_arguments(arguments(temperature=1.5)).temperature == 1.5
    with pytest.raises(ValueError, match="`temperature` is 2.0; it must be a finite number, below 2."):
        Capped(temperature=2.0)


def test_a_loss_of_ones_own_may_read_the_gold(monkeypatch, tmp_path):
    """Its task term gets both energies and the cost; that of `infnet`, written again, trains to the same weights."""

    @dataclass
    class Mine(Margin):
        name = "mine"
        reads_gold = True

        def task_term(self, energy, cost=None):
            return -self.violation(energy[:, 0], energy[:, 1], cost[:, 0]).mean()

    monkeypatch.setitem(ENERGY_LOSSES, "mine", Mine)
    ends = [tiny_run.run(tmp_path / name, loss=name, max_steps=3)[0] for name in ("mine", "infnet")]
    assert torch.equal(*ends)


def test_a_tag_loss_of_ones_own_has_its_options(monkeypatch):
    @dataclass
    class Smoothed(TagCrossEntropy):
        temperature: float = 1.0

    monkeypatch.setitem(TAG_TASK_LOSSES, "smoothed", Smoothed)
    loss = Smoothed.from_arguments(arguments(task_loss="smoothed", temperature=5.0), ["O", "B-X"])
    assert isinstance(loss, Smoothed) and loss.temperature == 5.0 and list(loss.tags) == ["O", "B-X"]


def test_a_task_loss_that_is_registered_is_an_argument(monkeypatch, tmp_path):
    class Hinge(TaskLoss):
        def per_example(self, logits, labels):
            return F.relu(1 - (2 * labels - 1) * logits).sum(-1)

    monkeypatch.setitem(TASK_LOSSES, "hinge", Hinge)
    trainer = trainer_of(tmp_path, "ce", task_loss="hinge", max_steps=1)
    trainer.train()
    logits, labels = torch.tensor([[2.0, -0.5]]), torch.tensor([[1.0, 1.0]])
    assert trainer.space.task_loss(logits, labels).item() == 1.5
    assert "hinge" in run_card(trainer)


def test_the_global_term_of_labels_is_an_energy(monkeypatch):
    """+3 per label that is on makes a label set of two labels worse by 6."""

    class Few(LabelEnergy):
        def global_term(self, y, rows):
            return 3 * y.sum(-1)

    monkeypatch.setitem(ENERGIES, "few", Few)
    torch.manual_seed(0)
    few, plain, features = Few(4, 5, 1), MultiLabelEnergy(4, 5, 0), torch.randn(1, 5)
    plain.label_embeddings.load_state_dict(few.label_embeddings.state_dict())
    y = torch.tensor([[[1.0, 0, 1, 0]]])
    torch.testing.assert_close(few(features, y) - plain(features, y), torch.tensor([[6.0]]))


@pytest.mark.parametrize("weight", [None, 0.1])
@pytest.mark.parametrize("reading", [lambda y: torch.ones_like(y), lambda y: y.round().detach()], ids=["no", "round"])
def test_an_energy_without_a_gradient_in_the_candidates_is_named(reading, weight, monkeypatch, tmp_path):
    """With λ1 by the rule, and with a fixed λ1, for which torch says nothing."""

    class Deaf(Energy):
        space, pooled = MultiLabelEnergy.space, True

        def __init__(self, num_labels, feature_size, global_size):
            super().__init__()
            self.scores = torch.nn.Linear(feature_size, num_labels)

        def reset_parameters(self):
            pass

        def forward(self, features, y, mask=None):
            return -(self.scores(features).unsqueeze(1) * reading(y)).sum(-1)

    monkeypatch.setitem(ENERGIES, "deaf", Deaf)
    nets = SealForMultiLabel.for_data(tiny_run.Names, hidden_size=16, energy="deaf")
    trainer, _ = tiny_run.make(tmp_path, nets=nets, num_samples=6, energy_weight=weight, eval_strategy="epoch")
    with pytest.raises(ValueError, match="The energy Deaf gave numbers without a gradient in `y`.*must depend on `y`"):
        trainer.train()


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (lambda y: y.sum(-1, keepdim=True), r"`global_term` gave \(16, 8, 1\); expected \(16, 8\), a number for each"),
        (lambda y: y.sum(), r"`global_term` gave \(\); expected \(16, 8\)"),
    ],
)
def test_an_energy_of_another_shape_is_named(term, message, monkeypatch, tmp_path):
    class Size(LabelEnergy):
        def global_term(self, y, rows):
            return term(y)

    monkeypatch.setitem(ENERGIES, "size", Size)
    nets = SealForMultiLabel.for_data(tiny_run.Names, hidden_size=16, energy="size")
    with pytest.raises(ValueError, match=message):
        tiny_run.make(tmp_path, "nce", nets=nets, num_samples=6, energy_weight=1.0)[0].train()


def test_losses_of_another_shape_are_named(monkeypatch, tmp_path):
    @dataclass
    class EachLabel(TaskLoss):
        def per_example(self, logits, labels):
            return F.binary_cross_entropy_with_logits(logits, labels, reduction="none")

    @dataclass
    class EachCandidate(Ranking):
        def __call__(self, energies, candidates):
            return energies

    @dataclass
    class EachTerm(Ranking):
        def task_term(self, energies, cost=None):
            return energies

    @dataclass
    class OneSample(Ranking):
        def draw(self, space, logits, gold, generator):
            return torch.bernoulli(logits.sigmoid(), generator=generator)

    monkeypatch.setitem(TASK_LOSSES, "each", EachLabel)
    monkeypatch.setitem(ENERGY_LOSSES, "candidates", EachCandidate)
    monkeypatch.setitem(ENERGY_LOSSES, "terms", EachTerm)
    monkeypatch.setitem(ENERGY_LOSSES, "sample", OneSample)
    with pytest.raises(ValueError, match=r"`per_example` gave \(16, \d\); expected \(B,\), the loss of each row"):
        trainer_of(tmp_path / "a", "nce", task_loss="each").train()
    with pytest.raises(ValueError, match=r"The energy loss gave \(16, \d+\); expected a scalar"):
        trainer_of(tmp_path / "b", "candidates").train()
    for options in ({}, {"energy_weight": None, "eval_strategy": "epoch", "per_device_eval_batch_size": 16}):
        with pytest.raises(ValueError, match=r"`task_term` gave \(16, 1\); expected a scalar"):
            trainer_of(tmp_path / "c", "terms", **options).train()
    with pytest.raises(ValueError, match=r"`draw` gave \(16, 6\); expected \(B, K, ...\), .* gold, \(16, 6\)"):
        trainer_of(tmp_path / "d", "sample").train()


@pytest.mark.parametrize("kind, name", [(TaskLoss, "per_example"), (LabelwiseLoss, "per_label")])
def test_a_task_loss_without_its_method_names_it(kind, name, monkeypatch, tmp_path):
    monkeypatch.setitem(TASK_LOSSES, "empty", type("Empty", (kind,), {}))
    with pytest.raises(TypeError, match=f"Empty lacks `{name}`, which gives the loss of each"):
        trainer_of(tmp_path, "ce", task_loss="empty").train()


def test_an_energy_that_names_no_space_is_one_of_none(monkeypatch):
    class Spaceless(Energy):
        pass

    monkeypatch.setitem(ENERGIES, "spaceless", Spaceless)
    with pytest.raises(
        ValueError, match="'spaceless'; for multi_label outputs it must be one of multilabel.* has `space = None`"
    ):
        SealForMultiLabel.for_data(tiny_run.Names, hidden_size=16, energy="spaceless")
    SealForMultiLabel.for_data(tiny_run.Names, hidden_size=16)


def function(logits, labels):
    return logits.sum(-1)


@pytest.mark.parametrize(
    "table, part, found",
    [
        (TASK_LOSSES, function, "the function function"),
        (ENERGY_LOSSES, torch.nn.BCEWithLogitsLoss, "the class BCEWithLogitsLoss"),
        (ENERGY_LOSSES, Ranking(num_samples=3), "an object of Ranking"),  # its own options would be ignored
        (ENERGY_METHODS, 1, "1"),
        (ENERGIES, function, "the function function"),
    ],
)
def test_what_is_no_class_of_its_table_is_named_at_the_start(table, part, found, monkeypatch):
    with pytest.raises(TypeError, match=f"'mine'.* is {found}; expected a class like "):
        monkeypatch.setitem(table, "mine", part)
        EnergyTrainingArguments(tempfile.gettempdir()) if table is ENERGY_METHODS else arguments()


def test_a_task_given_as_a_class_is_named():
    with pytest.raises(TypeError, match=r"'mine' is the class LabelTask; expected an object: LabelTask\(\)"):
        TASKS["mine"] = LabelTask
    assert "mine" not in TASKS


@pytest.mark.parametrize(
    "options, message",
    [
        ({"model": SealForMultiLabel}, "found the class SealForMultiLabel. Give the model itself"),
        ({"model": BertForSequenceClassification}, "found the class BertForSequenceClassification"),
        ({"model": function}, "found the function function.*model_init="),
        ({"loss_net": LossNet}, "`loss_net` is the class LossNet; expected a LossNet"),
        ({"loss_net": SealForMultiLabel}, "`loss_net` is the class SealForMultiLabel; expected a LossNet"),
        ({"space": "multi_label"}, "`space` is 'multi_label'; expected an OutputSpace"),
        ({"task_loss": 3}, "`task_loss` is 3; expected a function"),
        (
            {"task_loss": torch.nn.BCEWithLogitsLoss},
            r"the class BCEWithLogitsLoss; .* such as BCEWithLogitsLoss\(",
        ),
        ({"compute_loss_func": "mine"}, "`compute_loss_func` is 'mine'; expected a function"),
    ],
)
def test_what_is_no_net_loss_or_space_is_named(options, message, tmp_path):
    rows, nets = TensorRows(tiny_run.table()), options.get("model") or tiny_run.model()
    with pytest.raises((TypeError, ValueError), match=message):
        SealTrainer(args=tiny_run.arguments(tmp_path), train_dataset=rows, **{"model": nets, **options})


def test_a_space_of_ones_own_trains_and_is_decided_by_oneself(tmp_path):
    class Sets(MultiLabelSpace):
        name = "sets"

    rows = TensorRows(tiny_run.table())

    def make(**options):
        args = tiny_run.arguments(tmp_path, max_steps=1, **options)
        return SealTrainer(tiny_run.model(), args, train_dataset=rows, eval_dataset=rows, space=Sets())

    with pytest.raises(ValueError, match=r"`space` is the class Sets; expected an object, such as Sets\(\)"):
        SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path), train_dataset=rows, space=Sets)
    trainer = make()
    trainer.train()
    with pytest.raises(ValueError, match="`fit_decisions` is for spaces in `DECISIONS`, which lacks 'sets'"):
        trainer.fit_decisions()
    for options in ({"decoder": "fixed"}, {"fold_decision": True}):
        with pytest.raises(
            ValueError, match="`decoder` and `fold_decision` are for spaces in `DECISIONS`, which lacks"
        ):
            make(**options)


def test_implicit_gradients_need_the_plain_energy_of_the_output(monkeypatch):
    @dataclass
    class Rowed(Ranking):
        def task_row(self, space, logits, output, gold, mask):
            return space.join([output, space.candidate(gold)]), None

    monkeypatch.setitem(ENERGY_LOSSES, "rowed", Rowed)
    with pytest.raises(ValueError, match="energy_loss='rowed' is not such a loss"):
        arguments(energy_loss="rowed", hypergradient="cg", energy_weight=1.0)


def test_mutual_learning_draws_no_samples_of_structures():
    with pytest.raises(ValueError, match="draws no samples. Use one of nce, ranking, ") as found:
        arguments(energy_loss="mutual", sample_coherence="field")
    assert "mutual," not in str(found.value)


def test_the_card_names_what_was_read_and_how_long_it_trained(tmp_path):
    options = dict(energy_weight_balance=True, task_weight=2.0, max_steps=2, num_train_epochs=9)
    trainer = trainer_of(tmp_path, "margin", loss_net_steps=0, **options)
    trainer.train()
    card = run_card(trainer)
    read = {"energy_weight_balance": True, "task_weight": 2.0, "steps": 2, "margin_type": "rescaled"}
    for name, value in read.items():
        assert f"| {name} | {value} |" in card.replace("\\_", "_"), name
    for absent in ("num_samples", "num_train_epochs", "loss_net_learning_rate", "energy_weight_schedule"):
        assert absent not in card.replace("\\_", "_")


def test_the_card_names_the_task_loss_of_a_given_space(tmp_path):
    space = MultiLabelSpace(loss=Focal(gamma=3))
    rows = TensorRows(tiny_run.table())
    card = run_card(SealTrainer(tiny_run.model(), tiny_run.arguments(tmp_path, "ce"), train_dataset=rows, space=space))
    assert "the focal task loss" in card and "| gamma | 3 |" in card


def test_cross_entropy_leaves_aside_what_is_of_energy_losses(tmp_path):
    """The same parameters as without it."""
    trained = []
    for options in ({}, {"hypergradient": "cg"}):
        found, _ = tiny_run.run(tmp_path, loss="ce", max_steps=2, **options)
        trained.append(found)
    torch.testing.assert_close(*trained, rtol=0, atol=0)
    for coherence in ("field", "patches", "inputs"):
        assert BinaryMaskSpace.from_arguments(arguments(energy_loss="ce", sample_coherence=coherence), None)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Margin(margin_type="slck"), "`margin_type` is 'slck'; it must be one of rescaled, slack"),
        (lambda: RegressionS(regression_samples="x"), "`regression_samples` is 'x'"),
        (lambda: NCE(num_samples=0), "`num_samples` is 0; it must be a finite number, at least 1"),
        (lambda: NCE(gold_mix=1.0), "`gold_mix` is 1.0; it must be a finite number, at least 0 and below 1"),
        (lambda: MultiLabelSpace(relaxed_mass=5.0), "`relaxed_mass` is 5.0; .* above 0 and at most 1"),
        (lambda: MultiLabelSpace().cost(torch.ones(1, 1, 2), torch.ones(1, 2), "iou"), "`margin_cost` is 'iou'"),
        (lambda: BinaryMaskSpace().cost(torch.ones(1, 1, 2, 2), torch.ones(1, 2, 2), "L1"), "`margin_cost` is 'L1'"),
        (
            lambda: TagSequenceSpace(["O"]).cost(torch.ones(1, 1, 2, 1), torch.ones(1, 2, 1), "L1"),
            "`margin_cost` is 'L1'; for tag_sequence outputs",
        ),
    ],
)
def test_a_typo_in_a_constructor_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_batch_without_codes_is_named_with_gold_mixed_in_too():
    space = RewardTagSpace(None, ["O", "B-X"])
    with pytest.raises(ValueError, match="no column `reward_codes`"):
        space.mix(torch.zeros(1, 3, 2), torch.zeros(1, 3, 2), 0.3)
