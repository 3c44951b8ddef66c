"""The recurrent task-net. Oracles: torch's own LSTM on packed rows, the same rows without padding, a loop over a word's
windows, and the models themselves before they were saved."""

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification

from seal_hf import LossNet, LossNetConfig
from seal_hf.nets.encoders import encoder_options
from seal_hf.nets.recurrent import BiLSTMConfig, BiLSTMEncoder, BiLSTMForTokenClassification, BiLSTMLayer, CharacterCNN

LENGTHS, TAGS = [5, 1, 7, 0, 3], ["O", "B-PER", "I-PER"]
SETTINGS = {  # section 6 of InfNet+
    "NER": {"train_word_embeddings": False},
    "NER+": {"feature_sizes": {"pos": [6, 4], "case": [4, 2], "chunk": [5, 3]}},
    "NER++": {"feature_sizes": {"pos": [6, 4], "case": [4, 2], "chunk": [5, 3]}, "char_vocab_size": 9},
    "SRL": {"predicate_size": 5, "num_layers": 3},
}


def config(setting="NER++", **changes):
    names = {"id2label": dict(enumerate(TAGS)), "label2id": {name: i for i, name in enumerate(TAGS)}}
    sizes = {"vocab_size": 20, "word_size": 8, "char_size": 4, "char_filters": 5, "hidden_size": 12, "num_layers": 2}
    return BiLSTMConfig(**{**sizes, **names, **SETTINGS[setting], **changes})


def net(setting="NER++", seed=0, **changes):
    torch.manual_seed(seed)
    return BiLSTMForTokenClassification(config(setting, **changes)).eval()


def batch(settings, lengths=LENGTHS, num_steps=7, num_chars=6, seed=1):
    """Random ids of that configuration, padded to `num_steps` words of `num_chars` characters; 0 = padding."""
    draw = torch.Generator().manual_seed(seed)
    mask = torch.arange(num_steps) < torch.tensor(lengths).unsqueeze(1)

    def ids(size):
        return torch.randint(1, size, mask.shape, generator=draw) * mask

    inputs = {"input_ids": ids(settings.vocab_size), "attention_mask": mask.long()}
    inputs |= {f"{name}_ids": ids(size) for name, (size, _) in settings.feature_sizes.items()}
    if settings.char_vocab_size:
        widths = torch.randint(1, num_chars + 1, mask.shape, generator=draw)
        chars = torch.randint(1, settings.char_vocab_size, (*mask.shape, num_chars), generator=draw)
        inputs["char_ids"] = chars * (torch.arange(num_chars) < widths.unsqueeze(-1)) * mask.unsqueeze(-1)
    if settings.predicate_size:
        inputs["token_type_ids"] = torch.randint(0, 2, mask.shape, generator=draw) * mask
    return inputs


def test_a_layer_is_torchs_lstm_on_packed_rows():
    torch.manual_seed(0)
    lengths = torch.tensor([5, 1, 7, 3])
    layer, oracle = BiLSTMLayer(6, 8), nn.LSTM(6, 4, batch_first=True, bidirectional=True)
    for name, parameter in layer.forward_lstm.named_parameters():
        getattr(oracle, name).data.copy_(parameter.data)
        getattr(oracle, f"{name}_reverse").data.copy_(getattr(layer.backward_lstm, name).data)
    x = torch.randn(4, 9, 6)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = nn.utils.rnn.pad_packed_sequence(oracle(packed)[0], batch_first=True, total_length=9)
    steps = torch.arange(9)
    mask = steps < lengths.unsqueeze(1)
    found = layer(x, mask, torch.where(mask, lengths.unsqueeze(1) - 1 - steps, steps))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    weights = torch.randn_like(expected)
    gradients = torch.autograd.grad((found * weights).sum(), list(layer.parameters()))
    expected = torch.autograd.grad((expected * weights).sum(), list(oracle.parameters()))
    for ours, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("setting", SETTINGS)
def test_padding_does_not_matter(setting):
    """Rows alone, without padding, against all of them padded, and padded further: in words and in characters."""
    model = net(setting)
    inputs = batch(model.config)
    wider = {
        name: nn.functional.pad(value, (0, 0, 0, 4) if value.dim() == 3 else (0, 4)) for name, value in inputs.items()
    }
    if "char_ids" in wider:
        wider["char_ids"] = nn.functional.pad(wider["char_ids"], (0, 3))
    with torch.no_grad():
        logits, further = model(**inputs).logits, model(**wider).logits
        assert logits.isfinite().all() and further.isfinite().all()
        for i, length in enumerate(LENGTHS):
            torch.testing.assert_close(further[i, :length], logits[i, :length], atol=1e-6, rtol=0)
            if length:
                alone = model(**{name: value[i : i + 1, :length] for name, value in inputs.items()}).logits
                torch.testing.assert_close(alone[0], logits[i, :length], atol=1e-6, rtol=0)
        garbage = inputs["input_ids"] + (inputs["attention_mask"] == 0) * 7
        torch.testing.assert_close(model(**{**inputs, "input_ids": garbage}).logits, logits, atol=1e-6, rtol=0)


def test_both_directions_are_read():
    model = net("NER", num_layers=1)
    inputs = batch(model.config, [7])
    for changed in (0, 6):
        other = inputs["input_ids"].clone()
        other[0, changed] = 2 if other[0, changed] != 2 else 3
        difference = (model(**{**inputs, "input_ids": other}).logits - model(**inputs).logits).abs().sum(-1)[0]
        assert (difference > 1e-6).all()


def test_the_character_cnn_takes_the_maximum_over_a_words_windows():
    torch.manual_seed(0)
    cnn = CharacterCNN(config()).eval()
    cnn.embeddings.weight.data[0] = 0
    ids = torch.tensor([[[3, 4, 5, 0, 0], [2, 0, 0, 0, 0], [0, 0, 0, 0, 0]]])
    found = cnn(ids)[0]
    for word, length in enumerate((3, 1)):
        vectors = [torch.zeros(4), *(cnn.embeddings.weight[i] for i in ids[0, word, :length]), torch.zeros(4)]
        windows = [
            torch.einsum("fek,ke->f", cnn.convolution.weight, torch.stack(vectors[i : i + 3])) + cnn.convolution.bias
            for i in range(length)
        ]
        torch.testing.assert_close(found[word], torch.stack(windows).amax(0), atol=1e-6, rtol=1e-5)
    assert torch.equal(found[2], torch.zeros(5))


def test_the_loss_is_the_sum_over_counted_tokens_and_the_mean_over_rows():
    model = net()
    inputs = batch(model.config)
    labels = torch.where(inputs["attention_mask"] == 1, inputs["input_ids"] % 3, -100)
    labels[2, 3] = -100  # a hole
    outputs = model(**inputs, labels=labels)
    rows = [
        -outputs.logits[i, t].log_softmax(-1)[labels[i, t]] for i in range(5) for t in range(7) if labels[i, t] >= 0
    ]
    assert outputs.loss.item() == pytest.approx(torch.stack(rows).sum().item() / 5, rel=1e-6)
    assert model(**inputs).loss is None


def test_hidden_states_come_on_request():
    model = net("SRL")
    inputs = batch(model.config)
    outputs = model(**inputs, output_hidden_states=True)
    encoded = model.encoder(**inputs)
    assert model(**inputs).hidden_states is None and encoded.hidden_states is None
    assert len(outputs.hidden_states) == 4 and outputs.hidden_states[-1].shape == (5, 7, 12)
    assert torch.equal(outputs.hidden_states[-1], encoded.last_hidden_state)


@pytest.mark.parametrize("setting", SETTINGS)
def test_gradients_reach_every_trainable_parameter(setting):
    model = net(setting, dropout=0.2).train()
    inputs = batch(model.config)
    model(**inputs, labels=torch.where(inputs["attention_mask"] == 1, 1, -100)).loss.backward()
    missing = {name for name, p in model.named_parameters() if p.grad is None}
    assert missing == ({"encoder.word_embeddings.weight"} if setting == "NER" else set())
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding) and m.padding_idx == 0]
    assert all(m.weight.grad is None or not m.weight.grad[0].any() for m in tables)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_saved_net_comes_back_to_the_bit(setting, tmp_path):
    model = net(setting)
    model.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors"}
    again = AutoModelForTokenClassification.from_pretrained(tmp_path)
    assert isinstance(again, BiLSTMForTokenClassification) and again.config.id2label == dict(enumerate(TAGS))
    assert again.get_input_embeddings().weight.requires_grad == (setting != "NER")
    inputs = batch(model.config)
    with torch.no_grad():
        logits = model(**inputs).logits
        torch.testing.assert_close(again.eval()(**inputs).logits, logits, atol=1e-6, rtol=0)
        for name, value in model.state_dict().items():
            assert torch.equal(again.state_dict()[name], value), name
        encoder = AutoModel.from_pretrained(tmp_path).eval()
        assert isinstance(encoder, BiLSTMEncoder)
        torch.testing.assert_close(
            encoder(**inputs).last_hidden_state, model.encoder(**inputs).last_hidden_state, atol=1e-6, rtol=0
        )
    again.train()(**inputs, labels=torch.ones(5, 7).long()).loss.backward()  # what is trained is what was loaded
    assert again.encoder.layers[0].forward_lstm.weight_hh_l0.grad.abs().sum() > 0
    rebuilt = AutoConfig.from_pretrained(tmp_path)
    assert rebuilt.feature_sizes == model.config.feature_sizes and rebuilt.input_size == model.config.input_size


def test_a_loss_net_with_such_an_encoder_comes_back(tmp_path):
    options = encoder_options(config(train_word_embeddings=False))
    torch.manual_seed(0)
    loss_net = LossNet(LossNetConfig(encoder_config=options, feature_size=12, num_labels=3)).eval()
    loss_net.save_pretrained(tmp_path)
    again = LossNet.from_pretrained(tmp_path).eval()
    frozen = [name for name, p in again.named_parameters() if not p.requires_grad]
    assert frozen == [name for name, p in loss_net.named_parameters() if not p.requires_grad]
    assert frozen == ["encoder.word_embeddings.weight"]
    lengths = [length for length in LENGTHS if length]
    inputs, y = batch(config(), lengths), torch.rand(4, 2, 3, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        torch.testing.assert_close(again(y, None, inputs), loss_net(y, None, inputs), atol=1e-5, rtol=1e-5)


def test_second_derivatives_are_right():
    """What the hypergradient needs; against finite differences of the first ones, in double precision."""
    torch.manual_seed(0)
    layer, mask = BiLSTMLayer(2, 4).double(), torch.tensor([[True, True, True], [True, False, False]])
    reversal = torch.tensor([[2, 1, 0], [0, 1, 2]])
    x = torch.randn(2, 3, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda hidden: layer(hidden, mask, reversal), x)


def test_a_new_net_starts_as_ma_and_hovys():
    model = net(word_size=27)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            bound = (3 / module.embedding_dim) ** 0.5
            assert not module.weight[0].any() and module.weight.abs().max() <= bound
            assert module.weight[1:].abs().max() > 0.6 * bound
        if isinstance(module, nn.LSTM):
            gates = (module.bias_ih_l0 + module.bias_hh_l0).view(4, -1)  # input, forget, cell, output
            assert torch.equal(gates, torch.tensor([0.0, 1.0, 0.0, 0.0]).unsqueeze(1).expand_as(gates))
    vectors = torch.randn(20, 27)
    model.set_word_vectors(vectors)
    assert torch.equal(model.get_input_embeddings().weight[1:], vectors[1:])
    assert not model.get_input_embeddings().weight[0].any()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="`hidden_size` is 7; it must be even"):
        BiLSTMConfig(hidden_size=7)
    with pytest.raises(ValueError, match="`char_kernel` is 2; .* must be odd"):
        BiLSTMConfig(char_kernel=2)
    model = net()
    with pytest.raises(ValueError, match=r"word vectors have shape \(20, 9\), but the word table has \(20, 8\)"):
        model.set_word_vectors(torch.zeros(20, 9))
    inputs = batch(model.config)
    for name in ("char_ids", "pos_ids"):
        with pytest.raises(ValueError, match=f"configuration has `{name}`, but the batch lacks it"):
            model(**{key: value for key, value in inputs.items() if key != name})
