"""The loss-net: a feature network (its own, or the task-net's features) and an energy, saved as one Hugging Face
model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel

from ..core.energy import ENERGIES, Energy, check_energy_options, of_candidates
from ..core.label_sets import LabelSets
from ..core.tensors import at_least_float32
from ..nets.adapters import LIBRARIES, LossAdapter
from ..nets.cnn import CNNEncoder
from ..nets.encoders import ENCODER_MODES, MLPEncoder, vector, without_pooler
from ..nets.heads import MEAN, POOLINGS
from ..nets.recurrent import BiLSTMEncoder
from ..utils.files import loading
from ..utils.gate import check_origin, check_size, no_questions
from ..utils.messages import few
from ..utils.modules import Net, evaluating, second_order
from ..utils.options import check_value

FROM_SCRATCH = (MLPEncoder, BiLSTMEncoder, CNNEncoder)
LOSS_NET_FOLDER = "_loss_net"  # beside a task-net; the Trainer's push to the Hub skips names that begin with `_`


class LossNetConfig(PretrainedConfig):
    """Configuration of a loss-net.

    Args:
        space: name of the output space, see `SPACES`.
        energy: name of the energy network, see `ENERGIES`.
        encoder_mode: `separate` (its own encoder), `shared` (reads the task-net's detached features), `peft` or
            `adapters` (its own adapter in the task-net's frozen base).
        encoder_config: configuration of the separate encoder as a dict with `model_type`, or of the adapter; else None.
        feature_size: width of the encoder's (or the task-net's) features.
        head_layers: layers of linear -> softplus between those features and the energy.
        hidden_size: width of these layers.
        global_size: width of the global term (rows of M in SEAL Eq. 2).
        pooling: how the features of tokens become one vector per input, if the energy reads one: `mean`, or those of
            the `first` or `last` token.
        energy_options: further arguments of the energy network, or None.

    Raises:
        ValueError: an unknown mode, energy or pooling, or a negative `global_size`.
    """

    model_type = "seal_loss_net"

    def __init__(
        self,
        space: str = "multi_label",
        energy: str = "multilabel",
        encoder_mode: str = "separate",
        encoder_config: dict | None = None,
        feature_size: int = 400,
        head_layers: int = 0,
        hidden_size: int = 400,
        global_size: int = 200,
        pooling: str = MEAN,
        energy_options: dict | None = None,
        **kwargs: Any,
    ):
        check_value("encoder_mode", encoder_mode, (*ENCODER_MODES, *LIBRARIES))
        if energy not in ENERGIES:
            raise ValueError(
                f"`energy` is {energy!r}; it must be one of {', '.join(ENERGIES)}. If it is your own, first import the "
                "module that adds it to ENERGIES. A task-net alone needs none: with_loss_net=False."
            )
        check_value("pooling", pooling, POOLINGS)
        if global_size < 0:
            raise ValueError(f"`global_size` is {global_size}; it must be a width, or 0 for no global term.")
        self.space = space
        self.energy = energy
        self.encoder_mode = encoder_mode
        self.encoder_config = encoder_config
        self.feature_size = feature_size
        for name, size in {"head_layers": head_layers, "hidden_size": hidden_size, "global_size": global_size}.items():
            if isinstance(size, bool):  # which Python takes for 0 or 1
                raise ValueError(f"`{name}` is {size}; expected a whole number.")
        self.head_layers = head_layers
        self.hidden_size = hidden_size
        self.global_size = global_size
        self.pooling = pooling
        self.energy_options = energy_options
        super().__init__(**kwargs)

    @classmethod
    def from_pretrained(cls, folder: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Load a configuration as transformers does.

        Raises:
            ValueError: a value has a wrong type, or [`check_origin`] refuses the folder.
        """
        check_origin(folder, kwargs)
        with loading(folder, "a loss-net"):
            return super().from_pretrained(folder, **kwargs)


class LossNet(PreTrainedModel):
    """E_Θ(x, y): features of x, encoded once per call, and the energies of S candidate structures.

    Args:
        config: see [`LossNetConfig`].
    """

    config_class = LossNetConfig
    base_model_prefix = "loss_net"
    config: LossNetConfig
    encoder: PreTrainedModel | LossAdapter | None

    def __init__(self, config: LossNetConfig):
        super().__init__(config)
        self.encoder = None
        self._differentiated_twice = False
        self.adapter = nn.ParameterDict()  # the parameters of its adapter, if it has one
        reads = ENERGIES[config.energy].reads
        if reads is not None:
            self.main_input_name = reads
        elif config.encoder_mode == "separate":
            options = dict(config.encoder_config or {})
            encoder_config = AutoConfig.for_model(options.pop("model_type"), **options)
            encoder_config.architectures = encoder_config.architectures or []  # Funnel's in transformers 5 needs a list
            self.encoder = encoder = without_pooler(AutoModel.from_config(encoder_config, trust_remote_code=False))
            self.main_input_name = encoder.main_input_name
        head_layers = config.head_layers if reads is None else 0  # an energy that reads an input has no features
        sizes = [config.feature_size] + [config.hidden_size] * head_layers
        layers = [
            module for a, b in zip(sizes[:-1], sizes[1:], strict=True) for module in (nn.Linear(a, b), nn.Softplus())
        ]
        self.head = nn.Sequential(*layers)
        check_energy_options(config.energy, config.energy_options or {})
        self.energy = ENERGIES[config.energy].from_config(config, sizes[-1])
        self.post_init()

    @classmethod
    def from_pretrained(cls, folder: Any, *args: Any, **kwargs: Any) -> LossNet:  # type: ignore[override]
        """Load a loss-net as transformers does.

        Raises:
            ValueError: the weights are not safetensors, or are those of another loss-net.
        """
        stored = check_origin(folder, kwargs)
        check_size(folder, stored, lambda: cls(cls.config_class.from_pretrained(folder)))
        kwargs["use_safetensors"] = True
        try:
            with loading(folder, "a loss-net"), no_questions(folder):
                loaded: Any = super().from_pretrained(folder, *args, **{**kwargs, "output_loading_info": True})
        except RuntimeError as error:
            if "mismatch" not in str(error):
                raise
            raise ValueError(f"The weights in {folder} do not have the shapes of its config.json: {error}") from error
        if missing := sorted(loaded[1]["missing_keys"]):
            raise ValueError(f"The weights in {folder} lack {few(missing, 3)}. Was it saved completely?")
        return loaded if kwargs.get("output_loading_info") else loaded[0]

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise a module whose weights are not loaded. Energies initialise themselves."""
        if isinstance(module, Energy):
            module.reset_parameters()
        elif isinstance(module, nn.Linear) and any(module is layer for layer in self.head):
            nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)

    def get_input_embeddings(self) -> nn.Module | None:  # type: ignore[override]  # None: no token encoder
        """The encoder's embeddings, if the loss-net has its own encoder."""
        return self.encoder.get_input_embeddings() if isinstance(self.encoder, PreTrainedModel) else None

    def attach(self, adapter: LossAdapter) -> LossNet:
        """Encode with this adapter in the task-net's base (`peft`, `adapters`): its parameters, not the base, are
        trained and saved with the loss-net."""
        self.encoder = adapter
        self.adapter.update({name.replace(".", "/"): p for name, p in adapter.named_parameters.items()})
        self.config.encoder_config = adapter.config
        return self

    def active(self, training: bool = False) -> contextlib.AbstractContextManager:
        """Context in which a shared base runs with the loss-net's adapter; run the forward inside it, and the backward
        too if `training`."""
        if isinstance(self.encoder, LossAdapter):
            return self.encoder.active(training)
        return contextlib.nullcontext()

    def parameter_groups(self, args: Any) -> list[dict[str, Any]]:
        """Groups for the optimizer from [`SealTrainingArguments`]: its own encoder, if it has one, and last all other
        parameters."""
        encoder = [p for p in self.encoder.parameters() if p.requires_grad] if self.encoder is not None else []
        known = set(map(id, encoder))
        rest = [p for p in self.parameters() if p.requires_grad and id(p) not in known]
        rate, encoder_rate = args.loss_net_learning_rate, args.loss_net_encoder_learning_rate
        if encoder_rate is None:  # the task-net's rate, as it starts from its encoder, unless both start from scratch
            encoder_rate = rate if isinstance(self.encoder, FROM_SCRATCH) else args.learning_rate
        groups = [{"params": encoder, "lr": encoder_rate}, {"params": rest, "lr": rate}]
        return [{**group, "weight_decay": args.loss_net_weight_decay} for group in groups if group["params"]]

    def sparse_gradients(self, wanted: bool) -> None:
        """If `wanted`, sparse candidates give the energy's tables a gradient only for the rows they hold
        (`torch.sparse_coo`); otherwise, for launchers that do not support that, a dense one. Set it before a DDP
        wrapper is built."""
        for module in self.energy.modules():
            if isinstance(module, nn.Embedding):
                module.sparse = wanted

    def differentiate_twice(self, wanted: bool) -> None:
        """Prepare the energy for second derivatives, for implicit gradients; see [`second_order`]. It then runs without
        dropout in both phases: a hypergradient combines derivatives of one inner loss, and two dropout masks would make
        two functions of it."""
        self._differentiated_twice = wanted

    def encode(self, inputs: dict[str, Tensor], features: Tensor | None = None) -> Tensor:
        """T_E(x), from the inputs or from given features: (B, H), or for tokens (B, T, H). For an energy that reads an
        input directly, that input.

        Raises:
            ValueError: that input is missing.
        """
        name = self.energy.reads
        if name is not None and name not in inputs:
            raise ValueError(
                f"The loss-net reads `{name}`, but the inputs are {', '.join(inputs) or 'none'}. Give that column, "
                "as MaskRows does."
            )
        if name is not None:
            return inputs[name]
        if features is None:
            assert self.encoder is not None, "a shared loss-net is given the features"
            still = isinstance(self.encoder, LossAdapter) and not self.training  # the base follows the task-net's mode
            with evaluating(cast(LossAdapter, self.encoder).encoder) if still else contextlib.nullcontext():
                outputs = self.encoder(**inputs)
            features = cast(Tensor, outputs.last_hidden_state)
            if self.pooling is not None:
                encoder = self.encoder.encoder if isinstance(self.encoder, LossAdapter) else self.encoder
                pooled = getattr(outputs, "pooler_output", None)
                features = vector(features, inputs, self.pooling, encoder.config, pooled)
        return self.head(features)

    @property
    def may_lack_gradients(self) -> bool:
        """True if it trains an encoder of its own from transformers, some of whose parameters may get no gradient."""
        encoder = self.encoder
        if not isinstance(encoder, PreTrainedModel) or isinstance(encoder, FROM_SCRATCH):
            return False
        return any(parameter.requires_grad for parameter in encoder.parameters())

    @property
    def pooling(self) -> str | None:
        """How the features of tokens become one vector per input; None: the energy reads one per token."""
        return self.config.pooling if self.energy.pooled else None

    def forward(
        self,
        y: Tensor | LabelSets | Callable[[Tensor], Tensor],
        mask: Tensor | None = None,
        inputs: dict[str, Tensor] | None = None,
        features: Tensor | None = None,
    ) -> Tensor:
        """Energies of candidate structures.

        Args:
            y: (B, S, ...) candidates with entries in [0, 1], or sparse label sets; or a function that finds them from
                the detached encoded features. Such inference uses the same energies that are returned, and x is encoded
                once.
            mask: positions that count, or None.
            inputs: the task-net's inputs without labels; encoded if there are no features.
            features: (B, H), or for tokens (B, T, H): the task-net's, detached (`shared`), or those of a frozen encoder
                from the cache.

        Returns:
            (B, S) energies in float32, lower = better. The energy is never computed in half precision: sums over
            thousands of labels would lose the differences that matter.
        """
        features = self.encode(inputs or {}, features)
        if callable(y):
            with torch.autocast(features.device.type, enabled=False):  # as for given candidates
                y = y(features.detach())
        return self.energies(features, y, mask)

    def energies(self, features: Tensor, y: Tensor | LabelSets, mask: Tensor | None = None) -> Tensor:
        """The energies (B, S) that `forward` gives, from T_E(x), the result of `encode`.

        They have derivatives in y in evaluation mode too, for a static loss-net and for gradient-based inference.
        """
        evaluated = not self.energy.training and torch.is_grad_enabled()
        with self._exact(features.device, evaluated):
            found = self.energy(at_least_float32(features), _exact_sets(y), mask)
        return of_candidates(found, y, self.energy)

    @contextlib.contextmanager
    def energies_at(
        self, features: Tensor, mask: Tensor | None = None
    ) -> Iterator[Callable[[Tensor | LabelSets], Tensor]]:
        """Yield E(x, ·) of one batch, for the many structures of an inference.

        It maps y (B, S, ...) to the values of `energies`, (B, S), with derivatives only in y. Parts that depend only on
        x are computed once.
        """
        with self._exact(features.device, not self.energy.training):
            energies = self.energy.at(at_least_float32(features), mask)
            yield lambda y: of_candidates(energies(_exact_sets(y)), y, self.energy)

    @contextlib.contextmanager
    def _exact(self, device: torch.device, evaluated: bool) -> Iterator[None]:
        """Inside, the energy runs in the precision of its arguments, and in evaluation mode has all derivatives."""
        exact = second_order(self.energy) if self._differentiated_twice or evaluated else contextlib.nullcontext()
        with exact, torch.autocast(device.type, enabled=False):
            yield


def _exact_sets(y: Tensor | LabelSets) -> Tensor | LabelSets:
    return y.float() if isinstance(y, LabelSets) else at_least_float32(y)


def aligned(net: Net) -> Net:
    """Copy the weights of a loaded net to aligned memory.

    Weights mapped from a file have the alignment of the file, and the last bit of a matrix product depends on that.
    Copied weights give the same bits as before they were saved.
    """
    for tensor in (*net.parameters(), *net.buffers()):
        if tensor.is_floating_point():  # quantised weights become floats when they are multiplied
            tensor.data = tensor.data.clone()
    return net


AutoConfig.register(LossNetConfig.model_type, LossNetConfig)
