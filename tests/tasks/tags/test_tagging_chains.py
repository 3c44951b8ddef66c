"""Training with a task-net that decodes by a chain: a CRF, the tags' scheme, or both. Oracles: gradients by hand, the
scheme, a constraint that only some energies can express."""

from types import SimpleNamespace

import pytest
import tiny_tags
import torch
from datasets import Dataset
from losses import LOSSES_OF_ENERGIES
from test_tagging import with_a_crf
from tiny_models import tiny_config, tiny_tokenizer
from transformers import AutoModel

from seal_hf import SealForTokenClassification, tokenize_words
from seal_hf.core.tag_schemes import is_well_formed
from seal_hf.loss_net.energy_weight import SCALES
from seal_hf.tasks.tags.chains import marginals


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bert")


def chain_of(crf):
    """What a CRF has learned, if there is one; O I-X, and I-X at the beginning, are forbidden."""
    chain = {"transitions": torch.zeros(3, 3), "start": torch.zeros(3), "end": torch.zeros(3)}
    chain["transitions"][0, 2] = chain["start"][2] = -torch.inf
    return chain if crf is None else {name: chain[name] + p for name, p in crf.named_parameters()}


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("crf", [True, False])
def test_the_energy_teaches_the_logits_and_the_transitions_through_the_marginals(tmp_path, folder, crf, balance):
    """One step's gradient. A balance scales it by the pulls at the logits alone."""
    both, rows = with_a_crf(folder) if crf else tiny_tags.nets("bilstm", folder)
    options = dict(task_loss="crf" if crf else "cross_entropy", constrained_decoding=True, energy_weight=0.3)
    trainer = tiny_tags.trainer(tmp_path, both, rows, energy_weight_balance=balance, **options)
    trainer.create_optimizer()
    trainer.create_scheduler(10)
    batch = rows.batch(range(16))
    trainer.compute_loss(trainer.model.train(), dict(batch)).backward()
    parameters = dict(both.task_net.named_parameters())
    found = [p.grad for p in parameters.values()]

    labels = batch.pop("labels")
    logits = both.task_net(**batch).logits
    learned = getattr(both.task_net, "crf", None)
    y = marginals(logits, mask=labels >= 0, **chain_of(learned)).unsqueeze(1)
    energy = both.energy(y, labels >= 0, **batch).mean()
    task_loss = learned(logits, labels).mean() if crf else both.space.task_loss(logits, labels)
    if balance:
        pulls = [torch.autograd.grad(term, logits, retain_graph=True)[0].norm() for term in (task_loss, energy)]
        energy = pulls[0] / pulls[1] * energy
    expected = torch.autograd.grad(task_loss + 0.3 * energy, list(parameters.values()))
    for name, a, b in zip(parameters, found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6, msg=name)


def test_the_alignment_is_that_of_the_pulls_at_the_emissions(tmp_path, folder):
    """The cosine between the energy's gradient through the marginals and the CRF's, at the scale that fits best."""
    both, rows = with_a_crf(folder)
    options = dict(energy_weight=None, eval_strategy="steps", eval_steps=4, per_device_eval_batch_size=32)
    trainer = tiny_tags.trainer(tmp_path, both, rows, task_loss="crf", **options)
    trainer.train()
    (found,) = (log["eval_energy_alignment"] for log in trainer.state.log_history if "eval_loss" in log)
    batch = rows.batch(range(32))
    labels, crf = batch.pop("labels"), both.task_net.crf
    both.eval()
    s = both.task_net(**batch).logits.detach().requires_grad_()
    y = marginals(s, mask=labels >= 0, **dict(crf.named_parameters())).unsqueeze(1)
    (e,) = torch.autograd.grad(both.energy(y, labels >= 0, **batch).sum(), s)
    pulls = []
    for scale in SCALES:
        scaled = (scale * s.detach()).requires_grad_()
        pulls += torch.autograd.grad(crf(scaled, labels).sum(), scaled)
    t = min(pulls, key=lambda pull: (pull * s).sum().abs())
    assert found == pytest.approx(((t * e).sum() / t.norm() / e.norm()).item(), rel=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        dict(energy_loss="nce"),
        dict(energy_loss="infnet_plus", cost_augmented_network="separated"),
        dict(energy_loss="margin", hypergradient="neumann", hypergradient_damping=1.0),
    ],
)
def test_transitions_get_a_gradient_once_in_a_step(tmp_path, folder, options):
    """In the task-net's phase: neither the loss-net's phase nor a cost-augmented network gives them one."""
    both, rows = with_a_crf(folder)
    counts = {name: 0 for name, _ in both.task_net.crf.named_parameters()}

    def count(name):
        def counted(_):
            counts[name] += 1

        return counted

    for name, p in both.task_net.crf.named_parameters():
        p.register_post_accumulate_grad_hook(count(name))
    trainer = tiny_tags.trainer(tmp_path, both, rows, task_loss="crf", max_steps=2, loss_net_steps=2, **options)
    trainer.train()
    assert set(counts.values()) == {2}


@pytest.mark.parametrize(
    ("loss", "crf"), [*((loss, True) for loss in LOSSES_OF_ENERGIES), ("nce", False), ("margin", False)]
)
def test_candidates_of_constrained_decoding_are_within_the_scheme(tmp_path, folder, loss, crf):
    """Of every loss, both nets learn; hard candidates are well-formed, and relaxed ones have no tag that cannot be."""
    both, rows = tiny_tags.nets("bert", folder, "shared", crf=crf)
    options = dict(energy_loss=loss, task_loss="crf" if crf else "cross_entropy", constrained_decoding=True)
    trainer = tiny_tags.trainer(tmp_path, both, rows, max_steps=3, num_samples=6, **options)
    start, seen = tiny_tags.parameters(both), []
    both.loss_net.register_forward_pre_hook(lambda _, args: seen.append(args[:2]))
    trainer.train()
    assert len(seen) == 3 and (tiny_tags.parameters(both) - start).isfinite().all()
    for y, mask in seen:
        for row, counted in zip(y, mask, strict=True):
            for candidate in row[:, counted]:
                assert candidate[0, 2] == 0
                if candidate.amax(-1).eq(1).all():
                    assert is_well_formed([tiny_tags.TAGS[tag] for tag in candidate.argmax(-1).tolist()], "bio")
    assert not torch.equal(tiny_tags.parameters(both), start)


def of_three(num_rows=60):
    """Sentences of 7 words, of which 3 alike stand apart; one of these, any, has the tag X."""
    generator = torch.Generator().manual_seed(0)
    chosen = (1 + 2 * torch.randint(3, (num_rows,), generator=generator)).tolist()
    words = [["good" if place % 2 == 0 else "film" for place in range(7)]] * num_rows
    return Dataset.from_dict({"words": words, "tags": [[int(place == t) for place in range(7)] for t in chosen]})


@pytest.mark.long
def test_an_energy_learns_that_a_tag_occurs_once_which_a_chain_cannot(tmp_path):
    """The CRF gives each of three places a probability of 1/3, whatever the others have: of 27 samples 8 have no X, 7
    more than one, and of the 12 with one X a third is the gold. What can count prefers the gold to 15 of the other 23,
    and can only guess at 8: an AUC of 0.83. For a chain, as the task-net and as the energy, it is 0.5."""
    rows, found = of_three(), {}
    quiet = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
    torch.manual_seed(0)
    AutoModel.from_config(tiny_config("bert", **quiet)).save_pretrained(tmp_path / "bert")
    data = SimpleNamespace(name="once", label_names=["O", "X"], train=rows)
    for energy in ("chain", "chain_ge_a"):
        torch.manual_seed(0)
        options = dict(crf=True, energy=energy, global_size=16, loss_net_encoder="shared")
        both = SealForTokenClassification.for_data(data, tmp_path / "bert", **options)
        options = dict(task_loss="crf", max_steps=70, energy_weight=0.1, loss_net_learning_rate=3e-2, num_samples=10)
        options |= dict(per_device_train_batch_size=60, per_device_eval_batch_size=60)
        trainer = tiny_tags.trainer(tmp_path, both, tokenize_words(rows, tiny_tokenizer()), **options)
        trainer.train()
        found[energy] = trainer.evaluate()
    assert found["chain"]["eval_energy_auc"] < 0.6 and found["chain_ge_a"]["eval_energy_auc"] > 0.75
    assert all(metrics["eval_task_net_auc"] < 0.6 for metrics in found.values())
