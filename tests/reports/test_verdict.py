"""The verdict on a run. Oracles: the rule of λ1 by hand, the files of the run, the arguments that were given."""

import html
import json
import re

import pytest
import tiny_run
from huggingface_hub import ModelCard
from transformers import AutoConfig, TrainerState

from seal_hf import SealForMultiLabel
from seal_hf.data import embedded
from seal_hf.loss_net.energy_weight import EnergyWeight
from seal_hf.reports.common import Verdict
from seal_hf.tasks.labels import program as mlc
from seal_hf.tasks.masks import program as segmentation
from seal_hf.tasks.tags import program as tagging
from seal_hf.tasks.tags.program import TREE_PROGRAM as parsing
from seal_hf.training.arguments import SealTrainingArguments

pytestmark = pytest.mark.usefixtures("narrow_energies")

SMALL = "--use_cpu true --disable_tqdm true --report_to none --logging_steps 1 --per_device_train_batch_size 30".split()
FEATURES = [*SMALL, *"--max_train_rows 60 --hidden_size 8 --global_size 4 --num_train_epochs 2".split()]
NEVER = "The loss-net never taught: λ1 stayed 0. The model was trained by cross-entropy alone."


def log_of(*evaluations):
    """A log with an evaluation of alignment and loss after each epoch of ten steps."""
    return [
        {"step": 10 * (n + 1), "epoch": n + 1.0, "eval_energy_alignment": a, "eval_loss": loss}
        for n, (a, loss) in enumerate(evaluations)
    ]


@pytest.mark.parametrize(
    ("log", "kept", "options", "said"),
    [
        # the loss falls: the share stays 0
        (log_of((0.1, 3.0), (0.1, 2.0), (0.1, 1.0)), 30, {}, "never taught: λ1 stayed 0. The model was trained by CE"),
        # it rises from epoch 2 on, by 10 * 0.005 an epoch, and then by 0.1 at most
        (log_of((0.1, 1.0), (0.005, 2.0), (0.1, 2.0), (0.1, 3.0)), 40, {}, "taught after epoch 2, with λ1 up to 0.15 "),
        (log_of((0.1, 1.0), (0.005, 2.0), (0.1, 2.0), (0.1, 3.0)), 25, {}, "taught after epoch 2, with λ1 up to 0.05 "),
        # the weights of epoch 2 are kept, which the first share came after
        (log_of((0.1, 1.0), (0.1, 2.0)), 20, {}, "never taught: λ1 was 0 until epoch 2, and the kept epoch is 2. The"),
        ([], 20, {"eval_strategy": "no"}, "taught from the start, with λ1 up to 0.1 of the task loss's pull; the kept"),
        ([], 20, {"energy_weight": 0.0}, "never taught: λ1 stayed 0. The model was trained by CE alone."),
        ([], 20, {"energy_weight": 0.3}, "taught from the start, with λ1 0.3; the kept epoch is 2."),
        (
            [*log_of((0.1, 1.0), (0.1, 2.0)), {"step": 25, "energy_weight": 0.0}],
            30,
            {},
            "never taught: its energy had no pull on the outputs. The",
        ),
        ([*log_of((0.1, 1.0), (0.1, 2.0)), {"step": 25, "energy_weight": 2.0}], 30, {}, "taught after epoch 2,"),
    ],
)
def test_whether_the_loss_net_taught_follows_from_the_log(log, kept, options, said, tmp_path):
    args = SealTrainingArguments(str(tmp_path), **{"eval_strategy": "epoch", **options})
    state = TrainerState(log_history=log, global_step=kept, epoch=kept / 10)
    lessons = EnergyWeight(args).lessons(state, keeps_best=False)
    assert f"The loss-net {said}" in lessons.in_words("CE")
    assert (lessons.since is None) == ("never" in said)
    assert ("--loss ce" in lessons.remedy("nce")) and "infnet" not in lessons.remedy("nce")


@pytest.mark.parametrize(
    ("evaluations", "steps", "refused"),
    [
        ([(0.1, 3.0), (0.1, 2.0)], 25, True),  # the loss falls
        ([(0.1, 3.0), (0.1, 2.0)], 20, False),  # the second one ends the run: the rule had no choice
        ([(0.1, 1.0), (0.1, 2.0)], 20, False),  # the rule raised λ1 at the end
    ],
)
def test_the_rule_is_a_reason_against_other_losses_only_if_it_had_a_choice(evaluations, steps, refused, tmp_path):
    state = TrainerState(log_history=log_of(*evaluations), global_step=steps, epoch=steps / 10)
    lessons = EnergyWeight(SealTrainingArguments(str(tmp_path), eval_strategy="epoch")).lessons(state, keeps_best=False)
    assert ("the rule kept λ1 at 0" in lessons.remedy("nce")) == refused


def test_with_rewards_it_teaches_once_an_evaluation_has_measured_its_pull(tmp_path):
    args = SealTrainingArguments(str(tmp_path), eval_strategy="epoch")
    weight = EnergyWeight(args, has_all_gold=False)
    log = [
        {**entry, "eval_energy_pull": pull} for entry, pull in zip(log_of(*[(1, 1)] * 3), (0, 3.0, 5.0), strict=True)
    ]
    state = TrainerState(log_history=log[:1], global_step=30, epoch=3.0)
    assert weight.lessons(state, keeps_best=False).since is None
    state.log_history = log
    assert weight.lessons(state, keeps_best=False)[:2] == (1.0, 2.0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder and the output of finished runs, by their flags. Tests do not change them."""
    from contextlib import redirect_stdout
    from io import StringIO

    made = {}

    def run(*words):
        if words not in made:
            folder, said = tmp_path_factory.mktemp("run"), StringIO()
            with redirect_stdout(said):
                mlc.main([*FEATURES, *words, "--output_dir", str(folder)])
            made[words] = folder, said.getvalue()
        return made[words]

    return run


def title_of(page):
    return html.unescape(re.search(r"<title>(.*?)</title>", page)[1])


@pytest.mark.parametrize(
    ("words", "called", "taught", "said"),
    [
        ((), "cross-entropy", False, NEVER),
        (("--energy_weight", "1"), "nce", True, "The loss-net taught from the start, with λ1 1; "),
        (("--loss", "ce"), "cross-entropy", False, "The model was trained by cross-entropy alone."),
    ],
)
def test_output_card_page_and_folder_have_one_verdict(words, called, taught, said, runs):
    pytest.importorskip("matplotlib")
    folder, output = runs(*words)
    saved = json.loads((folder / "config.json").read_text(encoding="utf-8"))["verdict"]
    results = json.loads((folder / "all_results.json").read_text(encoding="utf-8"))
    decoder = json.loads((folder / "config.json").read_text(encoding="utf-8"))["decisions"]["decoder"]
    score = (
        f"{results['test_f1_example_decided']:.4f} on test rows, {results['eval_f1_example_decided']:.4f} on validation"
    )
    assert saved["taught"] == taught and any(each.startswith(said) for each in saved["sentences"])
    assert saved["sentences"][0] == f"Example F1 of the decisions: {score} rows; the decision rule is {decoder}."
    assert 1 <= sum(each.startswith("Next: ") for each in saved["sentences"]) <= 2
    assert "\n".join(saved["sentences"]) in output

    card = ModelCard.load(folder / "README.md")
    first = card.text.split("\n## ")[0]
    assert ("nce energy loss" in first) == taught == ("seal" in card.data.tags) and "trained with" in first
    assert ("## Papers" in card.text) == taught
    plain = first.replace("\\", "")
    assert all(sentence in plain for sentence in saved["sentences"])

    page = (folder / "report.html").read_text(encoding="utf-8")
    assert title_of(page) == f"digits: {'nce' if called == 'nce' else 'ce'} on MLP"
    of_cards = [sentence.removeprefix("Next: ")[1:] for sentence in saved["sentences"]]  # with a capital there
    text = html.unescape(re.sub("</?code>", "`", page)).replace("`", "")
    assert all(sentence.replace("`", "") in text for sentence in of_cards)


def test_the_demo_shows_the_verdict_and_no_energies_of_a_loss_net_that_taught_nothing(runs):
    pytest.importorskip("gradio")
    from seal_hf.lab.demo.page import head
    from seal_hf.lab.demo.program import view_of

    for words, taught in (((), False), (("--energy_weight", "1"), True)):
        folder, _ = runs(*words)
        view = view_of(["--model", str(folder)])
        shown = html.unescape(str(head(view, "x")))
        assert view.has_energies == taught == ("with energies of its loss-net" in shown)
        for each in AutoConfig.from_pretrained(folder).verdict["sentences"]:
            assert (each in shown) != each.startswith("Next: ")


@pytest.mark.parametrize(
    ("program", "words", "figure", "name"),
    [
        (tagging, "--dataset toy_tags --max_train_rows 20", "f1", "F1 of spans"),
        (parsing, "--dataset toy_trees --max_train_rows 20", "f1", "F1 of labelled brackets"),
        (segmentation, "--dataset digits", "mean_iou", "Mean IoU at "),
    ],
)
def test_every_output_has_its_score(program, words, figure, name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(embedded, "MASK_SIZES", {"train": 8, "validation": 4, "test": 4})
    quick = [*SMALL, "--num_train_epochs", "1", "--report", "false", "--output_dir", str(tmp_path)]
    results = program.main([*quick, *words.split()])
    said = capsys.readouterr().out
    found = re.search(rf"^{name}.*: ([01]\.\d+) on test rows, ([01]\.\d+) on validation rows", said, re.MULTILINE)
    figure = f"{figure}_tuned" if "tuned" in found[0] else figure
    assert found[1] == f"{results[f'test_{figure}']:.4f}" and found[2] == f"{results[f'eval_{figure}']:.4f}"
    assert "The loss-net never taught" in said and "\nNext: " in said


def test_in_python_the_config_holds_the_verdict_on_the_training(tmp_path):
    trainer, _ = tiny_run.make(tmp_path, energy_weight=None, eval_strategy="epoch")
    trainer.train()
    trainer.save_model(tmp_path / "out")
    loaded = SealForMultiLabel.from_pretrained(tmp_path / "out")
    assert Verdict.saved_in(vars(loaded.config)) == Verdict(
        False, (NEVER, *trainer.model.config.verdict["sentences"][1:])
    )

    again, _ = tiny_run.make(tmp_path, nets=loaded, energy_weight=2.0)
    again.evaluate()
    assert loaded.config.verdict["taught"] is False  # it is still that model
    again.train()
    assert loaded.config.verdict["sentences"][0].startswith("The loss-net taught from the start, with λ1 2;")


def test_a_logistic_regression_alone_is_called_so(tmp_path, capsys):
    words = [*SMALL[:6], *"--max_train_rows 60 --linear true --report false --output_dir".split(), str(tmp_path)]
    mlc.main(words)
    saved = AutoConfig.from_pretrained(tmp_path).verdict
    assert saved["sentences"][1].startswith("The classifier is a logistic regression on frozen features. Nothing else")
    assert not saved["taught"] and "\n".join(saved["sentences"]) in capsys.readouterr().out


@pytest.mark.parametrize("saved", [None, 3, [], {}, {"sentences": "text"}, {"sentences": [1]}, {"taught": False}])
def test_what_is_no_verdict_is_none(saved):
    assert Verdict.saved_in({"verdict": saved}) is None


def test_a_verdict_from_elsewhere_is_printable_and_short():
    found = Verdict.saved_in({"verdict": {"taught": "no", "sentences": ["\x1b[31m" + "x" * 10**6] * 99}})
    assert found.taught and len(found.sentences) <= 5 and all(len(each) <= 2000 for each in found.sentences)
    assert found.sentences[0].startswith("\\x1b[31m")
