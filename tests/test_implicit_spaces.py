"""The loss-net's gradient in a training step on tags and masks, against the hypergradient by definition in float64: the
losses written out, the task-net run as a whole, the Hessian dense, its inverse a solve."""

import copy
from functools import partial

import pytest
import tiny_masks
import tiny_tags
import torch
import torch.nn.functional as F
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from seal_hf import MaskRows
from seal_hf.implicit import FINITE_DIFFERENCES, PRODUCTS, flatten

DAMPING, WEIGHT = 5.0, 0.5  # δ, above the least eigenvalue of these Hessians, and λ1
OPTIONS = dict(energy_loss="margin", margin_type="contrastive", energy_weight=WEIGHT, loss_net_learning_rate=0.0)
OPTIONS |= dict(hypergradient="cg", hypergradient_terms=25, hypergradient_damping=DAMPING, max_steps=1)
TOLERANCE = dict(zip(PRODUCTS, (1e-3, 1e-3, 1e-2), strict=True))  # of the implicit term's norm


def randomised(nets, seed=7):
    """Energies with parameters that all matter: some begin at zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in nets.loss_net.energy.parameters():
            p.copy_(p + 0.3 * torch.randn(p.shape, generator=generator) / max(p.shape[-1], 1) ** 0.5)
    return nets


def found(trainer):
    """What the first step accumulates in each of the loss-net's parameters."""
    gradients = {}

    def keep(name, p):
        gradients[name] = p.grad.clone()

    for name, p in trainer.loss_net.named_parameters():
        p.register_post_accumulate_grad_hook(partial(keep, name))
    trainer.train()
    return gradients


def expected(task_net, loss_net, batch, names, losses):
    """∂_θ L_out and -(∂_φ∂_θ L_in)ᵀ (H + δI)⁻¹ ∂_φ L_out, of φ the parameters of these names.

    Args:
        losses: logits, E(x, ·) and the batch -> L_in and L_out.
    """
    task_net, loss_net = copy.deepcopy(task_net).double().eval(), copy.deepcopy(loss_net).double().eval()
    inputs = {k: v.double() if v.is_floating_point() else v for k, v in batch.items() if k != "labels"}
    start = {name: p.detach() for name, p in task_net.named_parameters() if name in names}
    shapes, flat = {name: p.shape for name, p in start.items()}, torch.cat([p.flatten() for p in start.values()])

    def both(vector):
        parts = vector.split([shape.numel() for shape in shapes.values()])
        phi = {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}
        logits = functional_call(task_net, phi, (), inputs).logits
        with sdpa_kernel(SDPBackend.MATH):
            return losses(logits, lambda y, mask: loss_net(y, mask, inputs), batch["labels"])

    hessian = torch.autograd.functional.hessian(lambda v: both(v)[0], flat)
    phi, theta = flat.clone().requires_grad_(), dict(loss_net.named_parameters())
    inner, outer = both(phi)
    slope = torch.autograd.grad(outer, phi, retain_graph=True)[0]
    damped = hessian + DAMPING * torch.eye(len(flat), dtype=torch.double)
    assert torch.linalg.eigvalsh(damped)[0] > 0
    pull = torch.autograd.grad(inner, phi, create_graph=True)[0] @ torch.linalg.solve(damped, slope)
    direct, cross = (
        torch.autograd.grad(value, list(theta.values()), materialize_grads=True, retain_graph=True)
        for value in (outer, pull)
    )
    return {name: (d, -c) for name, d, c in zip(theta, direct, cross, strict=True)}


def compare(gradients, reference, tolerance):
    assert gradients.keys() <= reference.keys()
    total = flatten([gradients[name] for name in gradients])
    direct, implicit = (flatten([reference[name][i] for name in gradients]) for i in (0, 1))
    assert implicit.norm() > 1e-3 * direct.norm()
    assert (total - direct - implicit).norm() < tolerance * implicit.norm()
    rest = [reference[name] for name in reference.keys() - gradients.keys()]
    assert not any(part.any() for pair in rest for part in pair)


# --- tags ------------------------------------------------------------------------------------------------------------


def losses_of_tags(logits, energy, labels, crf=None):
    """Cross-entropy summed over tokens, mean over rows, or a CRF's likelihood; the hinge with margin 1."""
    mask = labels != -100
    output, gold = logits.softmax(-1).unsqueeze(1), F.one_hot(labels.clamp_min(0), logits.shape[-1]).unsqueeze(1)
    task_loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / len(labels)
    if crf is not None:
        task_loss = crf(logits, labels).mean()
    of_output, of_gold = energy(output, mask), energy(gold.double(), mask)
    return task_loss + WEIGHT * of_output.mean(), (1 - of_output + of_gold).clamp_min(0).mean()


def check_tags(folder, nets, rows, losses=losses_of_tags, **options):
    trainer = tiny_tags.trainer(folder, nets, rows, per_device_train_batch_size=32, **OPTIONS, **options)
    (batch,) = trainer.get_train_dataloader()
    names = ("classifier.weight", "classifier.bias")
    reference = expected(nets.task_net, nets.loss_net, dict(batch), names, losses)
    compare(found(trainer), reference, TOLERANCE[trainer.args.hypergradient_product])


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize(
    "energy, options", [("chain", {}), ("chain_ge_b", {}), ("tag_attention", {"attention_dropout": 0.5})]
)
def test_of_tags(energy, options, product, tmp_path):
    """Of energies with a recurrent net, with attention, and with dropout, which the hypergradient must not have."""
    nets, rows = tiny_tags.nets("bilstm", tmp_path, energy=energy, energy_options=options or None, global_size=6)
    check_tags(tmp_path, randomised(nets), rows, hypergradient_product=product)


def test_of_tags_with_a_crf(tmp_path):
    """Whose transitions are constants of the inner loss."""
    nets, rows = tiny_tags.nets("bilstm", tmp_path, crf=True)
    with torch.no_grad():
        for p in nets.task_net.crf.parameters():
            p.normal_(generator=torch.Generator().manual_seed(8))
    losses = partial(losses_of_tags, crf=copy.deepcopy(nets.task_net.crf).double())
    check_tags(tmp_path, randomised(nets), rows, losses, task_loss="crf")


@pytest.mark.parametrize("options", [dict(loss_net_steps=0), dict(hypergradient="cg", energy_loss="margin"), {}])
def test_recurrent_energies_run_without_cudnn_where_it_has_no_derivative(options, tmp_path):
    """That is where they are in evaluation mode, of a static loss-net too, or differentiated twice."""
    nets, rows = tiny_tags.nets("bilstm", tmp_path, energy="chain_ge_a")
    seen = []
    nets.loss_net.energy.register_forward_hook(lambda *_: seen.append(torch.backends.cudnn.enabled))
    tiny_tags.trainer(tmp_path, nets, rows, max_steps=2, **options).train()
    assert seen and set(seen) == {not options} and torch.backends.cudnn.enabled


# --- masks -----------------------------------------------------------------------------------------------------------


def losses_of_masks(logits, energy, labels):
    """Mean cross-entropy of the pixels that count; the hinge with margin 1."""
    odds, mask = logits[:, 1] - logits[:, 0], labels != 255
    pixels = F.binary_cross_entropy_with_logits(odds, (labels == 1).double(), reduction="none") * mask
    task_loss = pixels.sum() / mask.sum()
    of_output = energy(odds.sigmoid().unsqueeze(1), mask)
    of_gold = energy((labels == 1).double().unsqueeze(1), mask)
    return task_loss + WEIGHT * of_output.mean(), (1 - of_output + of_gold).clamp_min(0).mean()


def mask_nets(**options):
    nets = tiny_masks.model(**options)
    with torch.no_grad():
        for p in nets.loss_net.energy.parameters():
            p.mul_(2)  # as drawn, it barely reads the mask
    return nets


def check_masks(folder, nets, plain, product="double_backward", **options):
    """`plain`: the task-net by definition."""
    rows = MaskRows(tiny_masks.squares(8, size=8))
    options = dict(OPTIONS, hypergradient_product=product, hypergradient_parameters="scores", **options)
    trainer, _ = tiny_masks.make(folder, nets, rows, loss=options.pop("energy_loss"), **options)
    (batch,) = trainer.get_train_dataloader()
    names = [name for name, _ in nets.task_net.named_parameters() if name.startswith("scores")]
    reference = expected(plain, nets.loss_net, dict(batch), names, losses_of_masks)
    compare(found(trainer), reference, TOLERANCE[product])


EXACT = [product for product in PRODUCTS if product != FINITE_DIFFERENCES]


@pytest.mark.parametrize("product", EXACT)
def test_of_masks(product, tmp_path):
    nets = mask_nets()
    check_masks(tmp_path, nets, nets.task_net, product)


def test_the_average_over_crops_is_no_part_of_the_inner_loss(tmp_path):
    """An FCN trains on whole images that are larger than the crops it predicts by."""
    nets = mask_nets(crop_size=6)
    plain = copy.deepcopy(nets.task_net)
    plain.config.crop_size = None
    check_masks(tmp_path, nets, plain)


class ByBatch(torch.nn.Module):
    """Batch normalisation in training by its definition (Ioffe & Szegedy 2015, Algorithm 1)."""

    def __init__(self, layer):
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps

    def forward(self, x):
        mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True, unbiased=False)
        return (x - mean) / (variance + self.eps).sqrt() * self.weight[:, None, None] + self.bias[:, None, None]


@pytest.mark.parametrize("product", EXACT)
def test_batch_normalisation_is_by_the_batch(product, tmp_path):
    """As in the task-net's own update, whose statistics alone are kept."""
    nets = mask_nets()
    norm = torch.nn.BatchNorm2d(8)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2, generator=torch.Generator().manual_seed(9))
    nets.task_net.scores[0] = torch.nn.Sequential(norm, nets.task_net.scores[0])
    plain = copy.deepcopy(nets.task_net)
    plain.scores[0][0] = ByBatch(plain.scores[0][0])
    check_masks(tmp_path, nets, plain, product)
    assert norm.num_batches_tracked == 1 and norm.track_running_stats and norm.training
