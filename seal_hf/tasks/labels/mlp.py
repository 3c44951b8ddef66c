"""The small MLP task-net of label sets, for feature data."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from ...nets.encoders import MLPConfig, MLPEncoder, MLPPreTrainedModel
from .space import MultiLabelSpace


class MLPForMultiLabel(MLPPreTrainedModel):
    """The MLP task-net F(x) = G T_F(x): an MLP and a label table, with a bias only if `config.label_bias` (SEAL §4; the
    authors' feedforward task-net)."""

    def __init__(self, config: MLPConfig):
        super().__init__(config)
        self.encoder = MLPEncoder(config)
        assert config.num_labels is not None
        self.classifier = nn.Linear(config.hidden_size, config.num_labels, bias=config.label_bias)
        self.classifier.is_label_table = True  # type: ignore[assignment]  # a mark, not a tensor
        self.post_init()

    def forward(
        self, features: Tensor, labels: Tensor | None = None, output_hidden_states: bool | None = None, **kwargs: Any
    ) -> SequenceClassifierOutput:
        """features (B, input_size) -> logits (B, L). With `labels` (B, L), also the loss: cross-entropy summed over
        labels."""
        outputs = self.encoder(features, output_hidden_states=output_hidden_states)
        logits = self.classifier(outputs.last_hidden_state)
        loss = MultiLabelSpace().task_loss(logits, labels) if labels is not None else None
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


AutoModelForSequenceClassification.register(MLPConfig, MLPForMultiLabel)
