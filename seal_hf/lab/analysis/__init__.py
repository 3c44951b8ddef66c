"""What a trained energy has learned: its second derivatives against counts of the data, and its gradients.

`seal-hf analyse hessian|tags|gradients FOLDER --dataset NAME --output_dir DIR`, see `__main__.py`. Here are the
functions behind it: they take nets and tensors and return tensors; `draw.py` alone needs matplotlib.

* `energy_hessian`: ∂²E/∂y_i∂y_j of label sets, against `label_pmi` (Shankar & Piratla, appendix C, Fig. 1).
* `tag_pair_hessian`: ∂²E/∂y_t∂y_{t+1} of tag sequences, against `tag_pmi` (the same, Fig. 2). Of a chain it is -W.
* `gradient_samples`: ∂E/∂y_k over (y_i, y_k) (SEAL §5, Fig. 2; its appendix G, Fig. 4-7).
* `gradients_at_output`: the gradients of task loss and energy at a logit of the task-net (SEAL appendix A).

For our energies, lower is better; in both papers' plots, higher is better. Two labels that belong together have a
negative second derivative here, so -∂²E is compared with counts.
"""

from .dependence import (
    agreement,
    energy_hessian,
    gradient_samples,
    gradients_at_output,
    label_correlation,
    label_pairs,
    label_pmi,
    tag_bigrams,
    tag_pair_hessian,
    tag_pmi,
)

__all__ = [
    "agreement",
    "energy_hessian",
    "gradient_samples",
    "gradients_at_output",
    "label_correlation",
    "label_pairs",
    "label_pmi",
    "tag_bigrams",
    "tag_pair_hessian",
    "tag_pmi",
]
