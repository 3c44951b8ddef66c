"""The FCN: its form written out by hand, sizes, saving, and the pipeline on what is saved."""

import logging

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import AutoImageProcessor, AutoModelForSemanticSegmentation, pipeline

from seal_hf.data.tensors.images import crop_averaged
from seal_hf.tasks.masks.fcn import FCNConfig, FCNForSemanticSegmentation, fcn_image_processor, set_test_crops

LABELS = {"id2label": {0: "background", 1: "digit"}, "label2id": {"background": 0, "digit": 1}}


def make(**options):
    torch.manual_seed(0)
    return FCNForSemanticSegmentation(FCNConfig(hidden_sizes=(6, 8, 10), **LABELS, **options)).eval()


@pytest.fixture
def images():
    return torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_it_is_the_authors_net():
    """Sizes and number of parameters of Gygli et al.: 5 x 5 and 4 x 4 kernels, and 1 x 1 skips."""
    net = FCNForSemanticSegmentation(FCNConfig(**LABELS))
    convolutions = 64 * (3 * 25 + 1) + 128 * (64 * 25 + 1) + 128 * (128 * 25 + 1)
    assert sum(p.numel() for p in net.parameters()) == convolutions + 2 * (64 + 128 + 128 + 3) + 2 * (2 * 2 * 16)


def test_forward_is_its_definition(images):
    net = make()
    outputs = net(images, output_hidden_states=True)
    x1, x2, x3 = outputs.hidden_states
    assert [tuple(x.shape[1:]) for x in (x1, x2, x3)] == [(6, 32, 32), (8, 16, 16), (10, 8, 8)]
    s1, s2, s3 = (score(x) for score, x in zip(net.scores, (x1, x2, x3), strict=True))
    first, second = (u.weight for u in net.upsample)
    coarse = F.conv_transpose2d(s3, first, stride=2, padding=1) + s2
    torch.testing.assert_close(outputs.logits, F.conv_transpose2d(coarse, second, stride=2, padding=1) + s1)
    assert net(images).hidden_states is None


@pytest.mark.parametrize("size", [(24, 24), (32, 20), (29, 31), (1, 1)])
def test_logits_have_the_size_of_the_image(size):
    assert make()(torch.rand(1, 3, *size)).logits.shape == (1, 2, *size)


def test_the_loss_is_cross_entropy_summed_over_pixels(images):
    labels = torch.randint(0, 2, (2, 32, 32))
    labels[0, :4] = 255
    outputs = make()(images, labels=labels)
    expected = F.cross_entropy(outputs.logits, labels, ignore_index=255, reduction="sum") / 2
    torch.testing.assert_close(outputs.loss, expected)


def test_crops_are_averaged_in_evaluation_alone(images):
    plain, net = make(), make(crop_size=24)
    expected = crop_averaged(lambda crops: plain(crops).logits, images)
    torch.testing.assert_close(net(images).logits, expected)
    assert not torch.allclose(expected, plain(images).logits.log_softmax(1), atol=1e-3)
    torch.testing.assert_close(net(images[..., :24, :24]).logits, plain(images[..., :24, :24]).logits)
    states = net(images, output_hidden_states=True).hidden_states
    torch.testing.assert_close(states, plain(images, output_hidden_states=True).hidden_states)
    torch.testing.assert_close(net.train()(images).logits, plain(images).logits)


@pytest.mark.parametrize(
    "said, expected",
    [
        ((None, None, None), (24, [0, 8])),  # as saved
        ((24, None, None), (24, [0, 8])),
        ((16, None, None), (16, None)),  # the offsets are of other crops
        ((24, 20, None), (20, None)),
        ((16, 0, None), (None, None)),
        ((None, None, [0, 4, 8]), (24, [0, 4, 8])),
        ((16, 22, [0, 6, 10]), (22, [0, 6, 10])),
    ],
)
def test_a_saved_net_predicts_on_the_crops_that_the_user_says(images, tmp_path, said, expected):
    """Said are `crop_size`, `test_crop_size` and `crop_offsets` of the program."""
    make(crop_size=24, crop_offsets=[0, 8]).save_pretrained(tmp_path)
    net = FCNForSemanticSegmentation.from_pretrained(tmp_path)
    set_test_crops(net.config, (32, 32), *said)
    assert (net.config.crop_size, net.config.crop_offsets) == expected
    size, offsets = expected
    plain = make()(images).logits
    wanted = plain if size is None else crop_averaged(lambda crops: make()(crops).logits, images, size, offsets)
    torch.testing.assert_close(net(images).logits, wanted)


@pytest.mark.parametrize("said, name", [((None, 40, None), "test_crop_size"), ((None, None, [0, 4]), "crop_offsets")])
def test_crops_that_do_not_fit_the_images_are_refused(said, name):
    with pytest.raises(ValueError, match=f"`{name}` is "):
        set_test_crops(FCNConfig(crop_size=24), (32, 32), *said)


def test_without_pillow_it_is_named(monkeypatch):
    monkeypatch.setattr("seal_hf.tasks.masks.fcn.is_vision_available", lambda: False)
    with pytest.raises(ValueError, match=r"needs pillow: pip install 'seal_hf\[vision\]'"):
        fcn_image_processor()


def test_a_saved_net_is_loaded_by_the_auto_class(images, tmp_path):
    net = make(crop_size=24)
    net.save_pretrained(tmp_path)
    assert [file.name for file in tmp_path.glob("*.safetensors")] == ["model.safetensors"]
    loaded = AutoModelForSemanticSegmentation.from_pretrained(tmp_path)
    assert type(loaded) is FCNForSemanticSegmentation and not loaded.training
    assert torch.equal(loaded(images).logits, net(images).logits)
    assert (loaded.config.crop_size, loaded.config.id2label) == (24, LABELS["id2label"])


def test_the_pipeline_runs_on_a_saved_folder(images, tmp_path, caplog):
    Image = pytest.importorskip("PIL.Image", reason="pipelines of images need pillow")
    net = make()
    with torch.no_grad():
        net.scores[0].bias.copy_(torch.tensor([0.0, 0.15]))
    net.save_pretrained(tmp_path)
    fcn_image_processor().save_pretrained(tmp_path)
    picture = Image.fromarray((images[0, :, :, :30].permute(1, 2, 0).numpy() * 255).astype(np.uint8))
    pixels = AutoImageProcessor.from_pretrained(tmp_path)(picture, return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(pixels[0], torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255)
    with caplog.at_level(logging.CRITICAL):
        found = pipeline("image-segmentation", str(tmp_path), device="cpu")(picture)
    expected = net(pixels).logits.argmax(1)[0].numpy()
    assert {part["label"] for part in found} == {LABELS["id2label"][i] for i in np.unique(expected)}
    for part in found:
        assert np.array_equal(np.asarray(part["mask"]) == 255, expected == LABELS["label2id"][part["label"]])


def test_fresh_weights_start_as_pytorchs():
    net = make()
    bound = 1 / (3 * 25) ** 0.5
    assert net.convolutions[0].weight.abs().max() <= bound
    assert net.convolutions[0].weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
