"""The papers that a card cites, as BibTeX."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ..energy_losses import CROSS_ENTROPY


class Paper(NamedTuple):
    """A paper whose method a run may use.

    Attributes:
        says: what a run takes from the paper.
        title, authors, year, url: the paper's.
        key: of its BibTeX entry.
        venue: BibTeX field and its value.
        energy_losses: the paper's energy losses; empty: all.
    """

    says: str
    title: str
    authors: str
    year: int
    url: str
    key: str
    venue: tuple[str, str]
    energy_losses: Collection[str] = ()

    def as_bibtex(self) -> str:
        kind = "inproceedings" if self.venue[0] == "booktitle" else "misc"
        fields = {"title": f"{{{self.title}}}", "author": self.authors, self.venue[0]: self.venue[1]}
        lines = [f"  {name} = {{{value}}}," for name, value in (fields | {"year": self.year, "url": self.url}).items()]
        return "\n".join([f"@{kind}{{{self.key},", *lines, "}"])


SEAL = Paper(
    "The loss-net as a loss function:",
    "Structured Energy Network as a Loss Function",
    "Lee, Jay-Yoon and Patel, Dhruvesh and Goyal, Purujit and Zhao, Wenlong and Xu, Zhiyang and McCallum, Andrew",
    2022,
    "https://openreview.net/forum?id=F0DowhX7_x",
    "lee2022structured",
    ("booktitle", "Advances in Neural Information Processing Systems"),
)
INFERENCE_NETWORKS = Paper(
    "The joint training of the task-net as an inference network:",
    "Improving Joint Training of Inference Networks and Structured Prediction Energy Networks",
    "Tu, Lifu and Pang, Richard Yuanzhe and Gimpel, Kevin",
    2020,
    "https://aclanthology.org/2020.spnlp-1.8",
    "tu2020improving",
    ("booktitle", "Proceedings of the Fourth Workshop on Structured Prediction for NLP"),
    ("infnet", "infnet_plus"),
)
IMPLICIT_TRAINING = Paper(
    "Implicit gradients of the loss-net, and contrastive divergence:",
    "Implicit Training of Energy Model for Structured Prediction",
    "Shankar, Shiv and Piratla, Vihari",
    2022,
    "https://arxiv.org/abs/2211.11649",
    "shankar2022implicit",
    ("howpublished", "arXiv:2211.11649"),
    ("contrastive_divergence",),
)
MUTUAL_LEARNING = Paper(
    "Mutual learning of the task-net and a second classifier:",
    "Deep Mutual Learning",
    "Zhang, Ying and Xiang, Tao and Hospedales, Timothy M. and Lu, Huchuan",
    2018,
    "https://arxiv.org/abs/1706.00384",
    "zhang2018deep",
    ("booktitle", "IEEE Conference on Computer Vision and Pattern Recognition"),
    ("mutual",),
)


def papers_section(energy_loss: str, hyperparameters: Mapping[str, Any]) -> str:
    """The papers of a run, with BibTeX entries; empty for cross-entropy."""
    papers = papers_of(energy_loss, hyperparameters)
    if not papers:
        return ""
    lines = [f"- {paper.says} [{paper.title}]({paper.url}), {paper.year}." for paper in papers]
    entries = "\n\n".join(paper.as_bibtex() for paper in papers)
    return "\n".join(["", "## Papers", "", *lines, "", "```bibtex", entries, "```"])


def papers_of(energy_loss: str, hyperparameters: Mapping[str, Any]) -> list[Paper]:
    """The papers whose methods a run used; none for cross-entropy."""
    if energy_loss == CROSS_ENTROPY:
        return []
    implicit = hyperparameters.get("hypergradient", "none") != "none"
    return [
        paper
        for paper in (SEAL, INFERENCE_NETWORKS, IMPLICIT_TRAINING, MUTUAL_LEARNING)
        if not paper.energy_losses or energy_loss in paper.energy_losses or (paper is IMPLICIT_TRAINING and implicit)
    ]
