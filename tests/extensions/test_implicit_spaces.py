"""The loss-net's gradient in a training step on tags and masks, against the hypergradient by definition in float64: the
losses written out, the task-net run as a whole, the Hessian dense, its inverse a solve or the series of its powers."""

import copy
from functools import partial

import pytest
import tiny_class_masks
import tiny_masks
import tiny_tags
import torch
import torch.nn.functional as F
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from seal_hf import MaskRows
from seal_hf.extensions.hypergradient import flatten
from seal_hf.tasks.tags.chains import marginals

pytestmark = pytest.mark.long

DAMPING, WEIGHT = 5.0, 0.5  # δ, above the least eigenvalue of these Hessians, and λ1
SAMPLES = {"contrastive_divergence": 3, "regression_s": 2}  # beside output and gold, of K = 3
OPTIONS = dict(energy_loss="margin", margin_type="contrastive", energy_weight=WEIGHT, loss_net_learning_rate=0.0)
OPTIONS |= dict(hypergradient="cg", hypergradient_terms=25, hypergradient_damping=DAMPING, max_steps=1)
OPTIONS |= dict(num_samples=3, margin_cost="l1")
FEW = dict(hypergradient_terms=4)  # of what is compared term by term
NEUMANN = dict(FEW, hypergradient="neumann", hypergradient_scale=20.0)
BY_ITSELF = dict(FEW, hypergradient="neumann")
TOLERANCE = 1e-3  # of the implicit term's norm


def randomised(nets, seed=7):
    """Energies with parameters that all matter: some begin at zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in nets.loss_net.energy.parameters():
            p.copy_(p + 0.3 * torch.randn(p.shape, generator=generator) / max(p.shape[-1], 1) ** 0.5)
    return nets


def found(trainer):
    """What the first step accumulates in each of the loss-net's parameters, and the samples among its candidates."""
    gradients, rows = {}, []

    def keep(name, p):
        gradients[name] = p.grad.clone()

    for name, p in trainer.loss_net.named_parameters():
        p.register_post_accumulate_grad_hook(partial(keep, name))
    trainer.loss_net.register_forward_pre_hook(lambda net, args: rows.append(args[0].detach().double()))
    trainer.train()
    return gradients, rows[0][:, 2 : 2 + SAMPLES.get(trainer.args.energy_loss, 0)]


def of_loss(name, energies, cost, score):
    """The task term and L_out of a row [output, gold, samples], all (B, S): SEAL Eq. 6 and 7, Shankar & Piratla."""
    output, gold = energies[:, 0], energies[:, 1]
    if name == "margin":  # 1 in the place of the cost
        return output.mean(), (1 - output + gold).clamp_min(0).mean()
    if name == "contrastive_divergence":
        s = cost - energies
        return output.mean(), (s.exp().sum(1).log() - s[:, 1]).mean()
    entropies = -score * torch.sigmoid(-energies).log() - (1 - score) * torch.sigmoid(energies).log()
    return -torch.sigmoid(-output).mean(), (entropies.sum(1) - entropies[:, 1]).mean()


def inverse(hessian, b, args):
    """u as the method has it: (H + δI)⁻¹ b, or so many terms of its series."""
    matrix = hessian + DAMPING * torch.eye(len(b), dtype=torch.double)
    assert torch.linalg.eigvalsh(matrix)[0] > 0
    if args.hypergradient == "cg":
        return torch.linalg.solve(matrix, b)
    if args.hypergradient_scale is not None:
        step = torch.eye(len(b), dtype=torch.double) - matrix / args.hypergradient_scale
        powers = (torch.linalg.matrix_power(step, i) for i in range(args.hypergradient_terms))
        return sum(power @ b for power in powers) / args.hypergradient_scale
    u = torch.zeros_like(b)
    for _ in range(args.hypergradient_terms):  # along the residual to where it is least
        left = b - matrix @ u
        step = torch.linalg.lstsq((matrix @ left).unsqueeze(1), left.unsqueeze(1)).solution
        u = u + step.item() * left
    return u


def expected(task_net, loss_net, batch, names, losses, args):
    """∂_θ L_out and -(∂_φ∂_θ L_in)ᵀ u, of φ the parameters of these names.

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

    phi, theta = flat.clone().requires_grad_(), dict(loss_net.named_parameters())
    inner, outer = both(phi)
    slope = torch.autograd.grad(outer, phi, retain_graph=True)[0]
    u = inverse(torch.autograd.functional.hessian(lambda v: both(v)[0], flat), slope, args)
    along = torch.autograd.grad(inner, phi, create_graph=True)[0] @ u
    direct, cross = (
        torch.autograd.grad(value, list(theta.values()), materialize_grads=True, retain_graph=True)
        for value in (outer, along)
    )
    return {name: (d, -c) for name, d, c in zip(theta, direct, cross, strict=True)}


def compare(gradients, reference):
    assert gradients.keys() <= reference.keys()
    total = flatten([gradients[name] for name in gradients])
    direct, implicit = (flatten([reference[name][i] for name in gradients]) for i in (0, 1))
    assert implicit.norm() > 1e-3 * direct.norm()
    assert (total - direct - implicit).norm() < TOLERANCE * implicit.norm()
    rest = [reference[name] for name in reference.keys() - gradients.keys()]
    assert not any(part.any() for pair in rest for part in pair)


# --- tags ------------------------------------------------------------------------------------------------------------


def losses_of_tags(logits, energy, labels, args, samples, crf=None):
    """Cross-entropy summed over tokens, mean over rows, or a CRF's likelihood, and ŷ its marginals; the cost is l1, the
    score accuracy."""
    mask = labels != -100
    gold = F.one_hot(labels.clamp_min(0), logits.shape[-1]).double().unsqueeze(1)
    output = logits.softmax(-1) if crf is None else marginals(logits, mask=mask, **dict(crf.named_parameters()))
    row = torch.cat([output.unsqueeze(1), gold, samples], 1)
    counted = mask[:, None, :, None]
    cost = ((row - gold).abs() * counted).sum((2, 3))
    score = (row * gold * counted).sum((2, 3)) / mask.sum(1, keepdim=True)
    task_loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / len(labels)
    if crf is not None:
        task_loss = crf(logits, labels).mean()
    term, outer = of_loss(args.energy_loss, energy(row, mask), cost, score)
    return task_loss + args.energy_weight * term, outer


def check(trainer, plain, names, losses):
    """`plain`: the task-net by definition."""
    (batch,) = trainer.get_train_dataloader()
    plain, loss_net, args = copy.deepcopy(plain), copy.deepcopy(trainer.loss_net), trainer.args
    gradients, samples = found(trainer)
    losses = partial(losses, args=args, samples=samples)
    reference = expected(plain, loss_net, dict(batch), names, losses, args)
    compare(gradients, reference)


def check_tags(folder, nets, rows, losses=losses_of_tags, **options):
    options = dict(OPTIONS, per_device_train_batch_size=32) | options
    trainer = tiny_tags.trainer(folder, nets, rows, **options)
    check(trainer, nets.task_net, ("classifier.weight", "classifier.bias"), losses)


@pytest.mark.parametrize(
    "energy, options", [("chain", {}), ("chain_ge_b", {}), ("tag_attention", {"attention_dropout": 0.5})]
)
def test_of_tags(energy, options, tmp_path):
    """Of energies with a recurrent net, with attention, and with dropout, which the hypergradient must not have."""
    nets, rows = tiny_tags.nets("bilstm", tmp_path, energy=energy, energy_options=options or None, global_size=6)
    check_tags(tmp_path, randomised(nets), rows)


@pytest.mark.parametrize(
    "energy, loss, options",
    [
        ("chain_ge_a", "margin", NEUMANN),
        ("chain_ge_c", "contrastive_divergence", {}),
        ("chain", "contrastive_divergence", BY_ITSELF),
        ("chain", "regression_s", dict(NEUMANN, energy_weight=5.0)),
    ],
)
def test_of_tags_by_other_methods_and_losses(energy, loss, options, tmp_path):
    nets, rows = tiny_tags.nets("bilstm", tmp_path, energy=energy, global_size=6)
    check_tags(tmp_path, randomised(nets), rows, **dict(options, energy_loss=loss))


def test_of_tags_with_a_crf(tmp_path):
    """Whose transitions are constants of the inner loss, and get no gradient from the loss-net's phase."""
    nets, rows = tiny_tags.nets("bilstm", tmp_path, crf=True)
    with torch.no_grad():
        for p in nets.task_net.crf.parameters():
            p.normal_(std=0.5, generator=torch.Generator().manual_seed(8))
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


def losses_of_masks(logits, energy, labels, args, samples):
    """Mean cross-entropy of the pixels that count; the cost is l1, the score soft IoU (SEAL Eq. 10)."""
    odds, mask = logits[:, 1] - logits[:, 0], labels != 255
    pixels = F.binary_cross_entropy_with_logits(odds, (labels == 1).double(), reduction="none") * mask
    task_loss = pixels.sum() / mask.sum()
    gold = (labels == 1).double().unsqueeze(1)
    row = torch.cat([odds.sigmoid().unsqueeze(1), gold, samples], 1)
    least, most = ((f(row, gold) * mask.unsqueeze(1)).sum((2, 3)) for f in (torch.minimum, torch.maximum))
    term, outer = of_loss(args.energy_loss, energy(row, mask), most - least, least / most)
    return task_loss + args.energy_weight * term, outer


def mask_nets(**options):
    nets = tiny_masks.model(width=64, **options)
    with torch.no_grad():
        for p in nets.loss_net.energy.parameters():
            p.mul_(2)  # as drawn, it barely reads the mask
    return nets


def check_masks(folder, nets, plain, subset="scores.0", **options):
    rows = MaskRows(tiny_masks.squares(3, size=8))
    options = dict(OPTIONS, hypergradient_parameters=subset) | options
    trainer, _ = tiny_masks.make(folder, nets, rows, loss=options.pop("energy_loss"), **options)
    check(trainer, plain, [name for name, _ in plain.named_parameters() if name.startswith(subset)], losses_of_masks)


def test_of_masks(tmp_path):
    nets = mask_nets()
    check_masks(tmp_path, nets, nets.task_net, subset="scores")


@pytest.mark.parametrize(
    "loss, options",
    [
        ("contrastive_divergence", NEUMANN),
        ("regression_s", dict(energy_weight=5.0)),
        ("regression", dict(BY_ITSELF, energy_weight=5.0)),
    ],
)
def test_of_masks_by_other_methods_and_losses(loss, options, tmp_path):
    nets = mask_nets()
    check_masks(tmp_path, nets, nets.task_net, **dict(options, energy_loss=loss))


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


def test_batch_normalisation_is_by_the_batch(tmp_path):
    """As in the task-net's own update, whose statistics alone are kept."""
    nets = mask_nets()
    norm = torch.nn.BatchNorm2d(8)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2, generator=torch.Generator().manual_seed(9))
    nets.task_net.scores[0] = torch.nn.Sequential(norm, nets.task_net.scores[0])
    plain = copy.deepcopy(nets.task_net)
    plain.scores[0][0] = ByBatch(plain.scores[0][0])
    check_masks(tmp_path, nets, plain)
    assert norm.num_batches_tracked == 1 and norm.track_running_stats and norm.training


# --- masks of several classes ----------------------------------------------------------------------------------------


def losses_of_class_masks(logits, energy, labels, args, samples):
    """Mean cross-entropy of the pixels that count; the cost is l1, the score the mean soft IoU of the classes there."""
    mask = labels != 255
    task_loss = F.cross_entropy(logits, labels, ignore_index=255)
    gold = F.one_hot(labels.masked_fill(~mask, 0), 3).movedim(-1, 1).double() * mask.unsqueeze(1)
    row = torch.cat([logits.softmax(1).unsqueeze(1), gold.unsqueeze(1), samples], 1)
    least, most = (
        (f(row, gold.unsqueeze(1)) * mask[:, None, None]).sum((3, 4)) for f in (torch.minimum, torch.maximum)
    )
    there = gold.flatten(2).any(2).unsqueeze(1)
    score = (least / most * there).sum(2) / there.sum(2)
    term, outer = of_loss(args.energy_loss, energy(row, mask), (most - least).sum(2), score)
    return task_loss + args.energy_weight * term, outer


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(NEUMANN, energy_loss="contrastive_divergence", energy_weight=5.0),
        dict(energy_loss="regression_s", energy_weight=5.0),
        dict(BY_ITSELF, energy_loss="regression", energy_weight=5.0),
    ],
)
def test_of_masks_of_several_classes(options, tmp_path):
    nets, rows = tiny_class_masks.model(width=64), MaskRows(tiny_class_masks.shapes(3, size=8))
    with torch.no_grad():
        for p in nets.loss_net.energy.parameters():
            p.mul_(2)
    options = dict(OPTIONS, hypergradient_parameters="scores.0") | options
    trainer, _ = tiny_class_masks.make(tmp_path, nets, rows, loss=options.pop("energy_loss"), **options)
    check(trainer, nets.task_net, ("scores.0.weight", "scores.0.bias"), losses_of_class_masks)
