"""Raw rows for `predict` in other forms than a list. Oracle: the prediction for the list."""

import pandas as pd
import pytest
import tiny_images
import tiny_masks
import tiny_tags
import torch
from datasets import Dataset
from tiny_models import tiny_config, tiny_texts, tiny_tokenizer
from transformers import AutoModelForSequenceClassification

from seal_hf import DataError, SealForMultiLabel
from seal_hf.nets.cnn import CNNConfig, CNNForImageClassification

INDEX = [7, 8, 9]  # no place of a row is a label of it
KINDS = {"texts": "texts", "words": "words", "images": "images", "masks": "images"}  # and the argument of `predict`


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Of each kind an untrained model, and three rows."""
    torch.manual_seed(0)
    texts = SealForMultiLabel(AutoModelForSequenceClassification.from_config(tiny_config("bert")), None)
    tags, _ = tiny_tags.nets("bert", tmp_path_factory.mktemp("tags"))
    images = SealForMultiLabel(CNNForImageClassification(CNNConfig(hidden_size=8, **tiny_images.LABELLED)), None)
    masks = tiny_masks.model()
    for model in (texts, tags):
        model.processor = tiny_tokenizer()
    for model in (images, masks):
        model.processor = tiny_images.processor()
    pictures = list(tiny_masks.squares(3, tiny_images.SIZE).images)
    rows = tiny_texts(3)["text"][:], tiny_tags.sentences(3)["words"][:], pictures, pictures
    return dict(zip(KINDS, zip((texts, tags, images, masks), rows, strict=True), strict=True))


def listed(found):
    return [[row if isinstance(row, list) else row.tolist() for row in part] for part in found]


@pytest.mark.parametrize("form", [iter, tuple, lambda rows: pd.Series(rows, index=INDEX)], ids=["iter", "tuple", "pd"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_may_have_any_form_with_an_order(kind, form, models):
    model, rows = models[kind]
    assert listed(model.predict(form(rows))) == listed(model.predict(rows))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_rows_in_order_is_refused(kind, models):
    model, _ = models[kind]
    encoded = tiny_tokenizer()(["good"], return_tensors="pt")
    for given in (encoded, dict(encoded), {"good", "bad"}, Dataset.from_dict({kind: ["good"]}), 5):
        hint = " .* as `predict\\(\\*\\*inputs\\)`" if hasattr(given, "keys") else ""
        found = f"`{KINDS[kind]}` is of type {type(given).__name__}; expected a list{hint}"
        with pytest.raises(ValueError, match=found):
            model.predict(given)
    with pytest.raises(ValueError, match=f"`{KINDS[kind]}` is .*DataFrame; expected a list"):
        model.predict(pd.DataFrame({kind: ["good"]}))


@pytest.mark.parametrize("rows", [[None], [3, "a"], ["a", None], [("a", "b"), None], [["a", "b"], "a"]])
def test_pairs_are_expected_of_a_net_of_unknown_inputs_if_the_first_row_is_one(rows, models):
    expected = "pairs of strings" if isinstance(rows[0], tuple | list) else "strings"
    with pytest.raises(ValueError, match=f"expected a list of {expected}, such as"):
        models["texts"][0].predict(rows)


@pytest.mark.parametrize("sentence", [None, "good", [], [1, 2], {"good": 1}, {"good"}])
def test_a_sentence_is_a_list_of_words(sentence, models):
    with pytest.raises(DataError, match="`words`, place 1: .*; expected a list of words"):
        models["words"][0].predict([["good"], sentence])


def test_columns_of_sentences_may_be_a_series(models):
    model, words = models["words"]
    found = model.predict(words, columns={"predicate": pd.Series([0, 0, 0], index=INDEX)})
    assert listed(found) == listed(model.predict(words, columns={"predicate": [0, 0, 0]}))
