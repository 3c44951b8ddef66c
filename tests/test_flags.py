"""Flags that nothing reads, against the arguments that there are."""

from dataclasses import fields

import pytest

from seal_hf import ENERGY_LOSSES, SPACES, SealTrainingArguments
from seal_hf.flags import OUTPUTS, READERS, check_flags


def check(words, output="multi_label", **options):
    check_flags(SealTrainingArguments("runs", use_cpu=True, **options), words.split(), output)


@pytest.mark.parametrize(
    "words, options, message",
    [
        (
            "--perturbation_std 3",
            {"perturbation_std": 3.0},
            "`perturbation_std` is read with energy_loss regression_s, but energy_loss is",
        ),
        (
            "--gold-mix=0.3",
            {"energy_loss": "margin", "gold_mix": 0.3},
            "`gold_mix` is read with energy_loss nce or ranking",
        ),
        (
            "--focal_gamma 3",
            {"focal_gamma": 3.0},
            "`focal_gamma` is read with task_loss focal, but task_loss is 'cross_entropy'",
        ),
        (
            "--hypergradient_terms 9",
            {"hypergradient_terms": 9},
            "`hypergradient_terms` is read with hypergradient neumann or cg or unrolled",
        ),
        (
            "--pixel_loss mean",
            {"pixel_loss": "mean"},
            "`pixel_loss` is of another kind of output, binary_mask .run_segmentation.py.",
        ),
    ],
)
def test_a_flag_that_nothing_reads_is_refused(words, options, message):
    with pytest.raises(ValueError, match=message):
        check(words, **options)


def test_a_flag_that_is_read_or_waits_for_an_energy_loss_is_taken():
    check("--perturbation_std 3", energy_loss="regression_s", perturbation_std=3)
    given = dict(gold_mix=0.3, perturbation_std=3.0, margin_type="slack")
    check("--gold_mix 0.3 --perturbation_std 3 --margin_type slack", energy_loss="ce", **given)
    check("--asymmetric_clip 0.1", task_loss="asymmetric", asymmetric_clip=0.1)
    check("--distinct_samples false", energy_loss="margin")  # its default
    check("--coherence_size 3", "binary_mask", sample_coherence="field", coherence_size=3)


def test_a_loss_of_ones_own_reads_what_its_class_reads(monkeypatch):
    monkeypatch.setitem(ENERGY_LOSSES, "mine", type("Mine", (ENERGY_LOSSES["nce"],), {"name": "mine"}))
    check("--gold_mix 0.3", energy_loss="mine", gold_mix=0.3)


def test_the_tables_name_arguments_losses_and_outputs_that_there_are():
    arguments = {field.name for field in fields(SealTrainingArguments)}
    assert {name for names in (*READERS, *OUTPUTS) for name in names.split()} <= arguments
    assert {kind for kind, _ in OUTPUTS.values()} == set(SPACES)
    losses = {value for switch, values in READERS.values() if switch == "energy_loss" for value in values}
    assert losses <= set(ENERGY_LOSSES) and {switch for switch, _ in READERS.values()} <= arguments
