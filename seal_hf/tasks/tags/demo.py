"""Tags of sentences on the page: entities, parts of speech, semantic roles of a predicate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...core.arrays import likeliest
from ...core.tag_schemes import scheme_of
from ...data.sentences import Sentence, sentence_of_text
from ...lab.demo import markup
from ...lab.demo.views import ALTERNATIVES, View
from .cards import EXAMPLES
from .files import TagOutput
from .model import Tagged

if TYPE_CHECKING:
    from gradio.components import Component

GOLDEN_ANGLE = 137.5  # degrees between the hues of neighbouring labels
MOST_BARS = 30
MOST_CHANGES = 4  # words that the name of an alternative lists
CAPTION = (
    "The decided tags and the likeliest others. Energies are those of the loss-net, lower is better; probabilities are "
    "products of those of the words."
)
MANY_WINDOWS = "The sentence is longer than the encoder reads at once, so the tags have no energy."


class TagView(View):
    """The text with its spans highlighted, their probabilities as bars, and energies."""

    what: ClassVar[str] = "tags of words"
    one: ClassVar[str] = "One sentence"
    unit: ClassVar[str] = "sentence"
    cuts: ClassVar[bool] = False
    kind: TagOutput

    @property
    def files(self) -> Sequence[str]:  # type: ignore[override]
        needs = self.kind.needs
        texts = () if needs.predicate or needs.features else (".csv", ".txt")
        return (*texts, ".jsonl", ".parquet", ".conll", ".iob", ".bio", ".tsv", *[".srl"] * needs.predicate)

    @property
    def decoders(self) -> Sequence[str]:
        return self.kind.tagger.space.decoders

    @cached_property
    def stored(self) -> str:
        return self.under(None).tagger.space.decoder

    @cached_property
    def colours(self) -> dict[str, int]:
        """The hue of each label, in degrees."""
        plain = scheme_of(self.kind.tags) == "plain"
        labels = dict.fromkeys(tag if plain else tag.partition("-")[2] or tag for tag in self.kind.tags)
        return {label: int(210 + GOLDEN_ANGLE * i) % 360 for i, label in enumerate(labels)}

    # --- one sentence ------------------------------------------------------------------------------------------------

    def inputs(self) -> list[Component]:
        import gradio as gr

        text = gr.Textbox(label="Sentence", lines=3, placeholder="Type or paste a sentence")
        fields: list[Component] = [text]
        if self.kind.needs.predicate:
            predicate = gr.Dropdown([], label="Predicate", info="the word whose roles are tagged")
            text.change(self._choices, text, predicate, show_progress="hidden", queue=False, api_visibility="private")
            fields.append(predicate)
        for name in self.kind.needs.features:
            fields.append(gr.Textbox(label=name, placeholder="one value for each word, between blanks"))
        return fields

    def _choices(self, text: str) -> Any:
        import gradio as gr

        words = sentence_of_text(text or "", "", {}).words
        return gr.Dropdown([(f"{word} ({i + 1})", i) for i, word in enumerate(words)], value=None)

    @property
    def examples(self) -> Sequence[Sequence[str]]:
        plain = not self.kind.needs.predicate and not self.kind.needs.features  # these depend on the words
        return [[sentence] for sentence in EXAMPLES] if plain else ()

    def outputs(self) -> list[Component]:
        import gradio as gr

        return [gr.HTML(apply_default_css=False)]

    def read(self, *values: Any) -> Sentence:
        text, *others = values
        sentence = sentence_of_text(text or "", "the sentence", {})
        size = len(sentence.words)
        if not size:
            raise ValueError("There is no sentence. Type or paste one.")
        if self.kind.needs.predicate:
            sentence.predicate, *others = others
            if sentence.predicate is None or not 0 <= sentence.predicate < size:
                raise ValueError("The model tags the roles of a predicate: choose one of the words.")
        for name, cells in zip(self.kind.needs.features, others, strict=True):
            sentence.features[name] = (cells or "").split()
            if (found := len(sentence.features[name])) != size:
                split = " ".join(sentence.words)
                raise ValueError(f"`{name}` has {found} values for {size} words; give one for each of: {split}")
        return sentence

    # --- answers -----------------------------------------------------------------------------------------------------

    def answer(self, given: Sentence, decoder: str) -> list[Any]:
        asked: TagOutput = self.under(decoder)
        (tagged,) = asked.tagger([given])
        spans = asked.entities(given, tagged)
        focus = None if given.predicate is None else given.places[given.predicate]
        rows = [markup.Bar(f"{span['text']} · {span['label']}", span["score"], True) for span in spans[:MOST_BARS]]
        parts = [markup.marked(given.text, spans, self.colours, focus)]
        parts.append(markup.bars("Probabilities", rows) if rows else markup.note("No word has a tag but O."))
        if len(spans) > MOST_BARS:
            parts.append(markup.note(f"The bars of {len(spans) - MOST_BARS} more are not shown."))
        if self.has_energies:
            found = self.alternatives(given, asked, tagged)
            parts.append(markup.energies(found, "probability", CAPTION) if found else markup.note(MANY_WINDOWS))
        return [markup.answer(*parts)]

    def alternatives(self, given: Sentence, asked: TagOutput, tagged: Tagged) -> list[markup.Alternative]:
        """The decided tags, then the most probable others; empty for a sentence that is read in several windows."""
        with np.errstate(divide="ignore"):
            logs = np.log(tagged.probabilities.astype(np.float64))
        decided = np.array([asked.tagger.numbers[tag] for tag in tagged.tags])
        others = likeliest(logs, ALTERNATIVES + 1)[0]
        rows = np.concatenate([decided[None], others[(others != decided).any(1)][:ALTERNATIVES]])
        tags = [[asked.tags[i] for i in row] for row in rows]
        energies = asked.tagger.energies(asked.tagger.read([given] * len(rows)), tags)
        shares = np.exp(np.take_along_axis(logs.T, rows, 0).sum(1))
        return [
            markup.Alternative(self._changes(given, tagged.tags, names), float(share), energy, decided=i == 0)
            for i, (names, share, energy) in enumerate(zip(tags, shares, energies, strict=True))
            if energy is not None
        ]

    @staticmethod
    def _changes(given: Sentence, decided: Sequence[str], tags: Sequence[str]) -> str:
        """Names the words of an alternative that have another tag."""
        found = [f"{word} → {tag}" for word, was, tag in zip(given.words, decided, tags, strict=True) if was != tag]
        more = f", and {len(found) - MOST_CHANGES} more" if len(found) > MOST_CHANGES else ""
        return ", ".join(found[:MOST_CHANGES]) + more or "as above"

    # --- files -------------------------------------------------------------------------------------------------------

    def output_suffix(self, path: Path) -> str:
        return ".jsonl"

    def columns(self, row: dict[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = {name: row[name] for name in ("text", "tags", "energy") if name in row}
        if scheme_of(self.kind.tags) != "plain":
            shown["tags"] = [f"{span['text']} ({span['label']})" for span in row["entities"]]
        return shown
