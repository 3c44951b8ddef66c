"""Feature networks and the loss-net on them. Oracles: SEAL Eq. 2 written out in float64, a loop over rows without
padding, hooks that count forwards, and the models themselves before they were saved."""

import pytest
import torch
from tiny_models import LABELS, tiny_config, tiny_features, tiny_inputs
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification

from seal_hf import LossNetConfig, MLPConfig, SealForMultiLabel
from seal_hf.nets.encoders import ENCODER_MODES, MLPEncoder, pool, task_features

FAMILIES = ("bert", "distilbert", "roberta", "electra", "modernbert")
NUM_LABELS = len(LABELS)


def seal_net(kind, mode, tmp_path, seed=0):
    """Both nets on a plain encoder checkpoint of that family."""
    torch.manual_seed(seed)
    AutoModel.from_config(tiny_config(kind)).save_pretrained(tmp_path / kind)
    return SealForMultiLabel.from_pretrained(tmp_path / kind, loss_net_encoder=mode, global_size=7)


def candidates(num_rows, num_candidates):
    return torch.rand(num_rows, num_candidates, NUM_LABELS, generator=torch.Generator().manual_seed(2))


def count_forwards(module):
    calls = []
    module.register_forward_hook(lambda *_: calls.append(1))
    return calls


def test_the_mlp_is_linear_softplus_repeated():
    torch.manual_seed(0)
    encoder = MLPEncoder(MLPConfig(input_size=3, hidden_size=5, num_layers=3, dropout=0.5)).eval()
    x = torch.randn(4, 3)
    hidden, states = x.double(), []
    for layer in encoder.layers:
        hidden = torch.log1p(torch.exp(hidden @ layer.weight.double().T + layer.bias.double()))
        states.append(hidden)
    outputs = encoder(x, output_hidden_states=True)
    torch.testing.assert_close(outputs.last_hidden_state.double(), hidden, atol=1e-6, rtol=1e-6)
    for state, expected in zip(outputs.hidden_states, states, strict=True):
        torch.testing.assert_close(state.double(), expected, atol=1e-6, rtol=1e-6)
    assert encoder(x).hidden_states is None
    last = encoder.train()(x).last_hidden_state  # dropout lies between layers, not after the last: softplus is never 0
    assert (last > 0).all() and not torch.equal(last, outputs.last_hidden_state)


def test_pool_is_the_mean_over_real_tokens():
    hidden = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
    expected = torch.stack([hidden[0].mean(0), hidden[1, :2].mean(0), torch.zeros(2)])  # a row without tokens: no NaN
    torch.testing.assert_close(pool(hidden, mask), expected)
    torch.testing.assert_close(pool(hidden), hidden.mean(1))
    assert torch.equal(pool(hidden[:, 0], mask), hidden[:, 0])  # one vector per input already


@pytest.mark.parametrize("mode", ENCODER_MODES)
@pytest.mark.parametrize("kind", ["mlp", *FAMILIES])
def test_the_energy_is_equation_2(kind, mode, tmp_path):
    seal, inputs, y = seal_net(kind, mode, tmp_path), tiny_inputs(kind), candidates(5, 3)
    with torch.no_grad():
        energies = seal.energy(y, **inputs)
        net = seal.task_net if mode == "shared" else seal.loss_net.encoder
        outputs = net(**inputs, output_hidden_states=True)
        tokens = outputs.hidden_states[-1] if mode == "shared" else outputs.last_hidden_state
    if kind == "mlp":
        features = tokens.double()
    elif mode == "shared" and kind != "bert":  # what their heads read; BERT's reads a pooler
        features = tokens[:, 0].double()
    else:
        real = inputs["attention_mask"].bool()
        features = torch.stack([row[keep].double().mean(0) for row, keep in zip(tokens, real, strict=True)])
    weights = {name: value.double() for name, value in seal.loss_net.state_dict().items() if "encoder" not in name}
    if mode == "shared":  # T_E = one layer on the task-net's features
        features = nn.functional.softplus(features @ weights["head.0.weight"].T + weights["head.0.bias"])
    b, direction = weights["energy.label_embeddings.weight"], weights["energy.direction.weight"][0]
    matrix, bias = weights["energy.projection.weight"].T, weights["energy.bias"]
    for i in range(5):
        for s in range(3):
            local = sum(y[i, s, j].double() * (b[j] @ features[i]) for j in range(NUM_LABELS))
            score = local + direction @ nn.functional.softplus(matrix @ y[i, s].double() + bias)
            assert energies[i, s].item() == pytest.approx(-score.item(), abs=1e-5)
    torch.testing.assert_close(seal.energy(y[:, 0], **inputs), energies[:, 0])  # one label set per row


@pytest.mark.parametrize("mode", ENCODER_MODES)
@pytest.mark.parametrize("kind", FAMILIES)
def test_padding_changes_no_energy(kind, mode, tmp_path):
    """One row at a time, unpadded, against all of them padded."""
    seal, inputs, y = seal_net(kind, mode, tmp_path), tiny_inputs(kind), candidates(5, 2)
    lengths = inputs["attention_mask"].sum(1).tolist()
    assert len(set(lengths)) > 2
    with torch.no_grad():
        padded = seal.energy(y, **inputs)
        for i, length in enumerate(lengths):
            alone = {name: value[i : i + 1, :length] for name, value in inputs.items()}
            torch.testing.assert_close(seal.energy(y[i : i + 1], **alone)[0], padded[i], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mode", ENCODER_MODES)
@pytest.mark.parametrize("kind", ["mlp", *FAMILIES])
def test_both_nets_come_back_to_the_bit(kind, mode, tmp_path):
    seal, inputs, y = seal_net(kind, mode, tmp_path), tiny_inputs(kind), candidates(5, 2)
    seal.save_pretrained(tmp_path / "saved")
    again = SealForMultiLabel.from_pretrained(tmp_path / "saved")
    assert again.loss_net.config.encoder_mode == mode and type(again.task_net) is type(seal.task_net)
    assert again.config.id2label == dict(enumerate(LABELS))
    with torch.no_grad():
        assert torch.equal(seal(**inputs).logits, again(**inputs).logits)
        assert torch.equal(seal.energy(y, **inputs), again.energy(y, **inputs))


@pytest.mark.parametrize("mode", ENCODER_MODES)
def test_the_input_is_encoded_once_for_all_candidates(mode, tmp_path):
    seal, inputs = seal_net("bert", mode, tmp_path), tiny_inputs("bert")
    task_net, encoder = count_forwards(seal.task_net.bert), count_forwards(seal.loss_net.encoder or nn.Identity())
    for num_candidates in (1, 2, 50):
        seal.energy(candidates(5, num_candidates), **inputs)
        assert (len(task_net), len(encoder)) == ((1, 0) if mode == "shared" else (0, 1))
        task_net.clear()
        encoder.clear()


def test_gradients_reach_the_loss_net_and_never_the_shared_task_net(tmp_path):
    for mode in ENCODER_MODES:
        seal, inputs = seal_net("bert", mode, tmp_path).train(), tiny_inputs("bert")
        seal.energy(candidates(5, 2), **inputs).sum().backward()
        assert all(p.grad is None for p in seal.task_net.parameters())
        missing = [name for name, p in seal.loss_net.named_parameters() if p.requires_grad and p.grad is None]
        assert missing == []  # DDP waits for every trainable parameter: a BERT's pooler must not be one


@pytest.mark.parametrize("mode", ENCODER_MODES)
def test_energies_stay_float32_in_bfloat16(mode, tmp_path):
    seal, inputs, y = seal_net("bert", mode, tmp_path), tiny_inputs("bert"), candidates(5, 2)
    seen = []
    seal.loss_net.energy.register_forward_hook(lambda module, args, output: seen.extend([*args[:2], output]))
    with torch.no_grad():
        exact = seal.energy(y, **inputs)
        seen.clear()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            energies = seal.energy(y, **inputs)
            assert seal(**inputs).logits.dtype == torch.bfloat16  # autocast is on
    assert energies.dtype == torch.float32 and {tensor.dtype for tensor in seen} == {torch.float32}
    features, relaxed, _ = seen
    with torch.no_grad():  # the energy itself is not rounded, only the features that it is given
        assert torch.equal(energies, seal.loss_net.energy(features, relaxed))
    torch.testing.assert_close(energies, exact, atol=0.1, rtol=0.1)


def test_a_task_net_without_hidden_states_is_refused_by_name(tmp_path):
    features = tiny_features(3).with_format("torch")["features"][:]
    mlp = AutoModelForSequenceClassification.from_config(tiny_config("mlp"))
    with pytest.raises(ValueError, match="MLPForMultiLabel returned none"):
        task_features(mlp(features), {}, mlp)


def test_configurations_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="`encoder_mode` is 'own'; it must be one of separate, shared"):
        LossNetConfig(encoder_mode="own")
    with pytest.raises(ValueError, match="`energy` is 'chains'; it must be one of multilabel"):
        LossNetConfig(energy="chains")
