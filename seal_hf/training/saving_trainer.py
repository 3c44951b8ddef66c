"""The Trainer's hooks that save and load two nets: what a checkpoint holds, when it is whole, what goes on from it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import logging

from ..adapters import library_of
from ..saving.checkpoints import (
    COMPLETE,
    check_complete,
    check_partner,
    check_resumable,
    checkpoint_to_resume,
    load_learner_state,
    load_loss_net_weights,
    load_partner,
    rotate,
    save_learner_state,
    save_loss_net,
    save_partner,
    written_whole,
)
from ..saving.export import ADAPTER_FILES, make_branch, remove_stale, save_nets, saves_merged
from ..saving.renamed import are_renamed, read_renamed
from ..second_net.cost_augmented import CostAugmentedInference
from ..second_net.learner import Learner
from .base import StructuredTrainer
from .launchers import check_resume

logger = logging.get_logger(__name__)


class SavingTrainer(StructuredTrainer):
    """A Trainer of a model and, where there is one, of a loss-net beside it: all of it is saved and loaded together.

    Attributes:
        learner: trains the loss-net; built when the length of the run is known.
        partner: the cost-augmented network of `infnet_plus`, with its learner.
        partner_kind: of the one that a run of these arguments has.
    """

    learner: Learner | None = None
    partner: CostAugmentedInference | None = None
    partner_kind: str | None = None
    _in_checkpoint = False

    def train(self, resume_from_checkpoint: str | bool | None = None, *args, **kwargs):
        """As the Trainer's; `True` or `"last"` resume from the last whole checkpoint (`"last"` starts anew where there
        is none), and a folder that is no whole checkpoint is refused."""
        check_resume(self.accelerator, resume_from_checkpoint)
        return super().train(checkpoint_to_resume(resume_from_checkpoint, self.args.output_dir), *args, **kwargs)

    # --- saving ------------------------------------------------------------------------------------------------------

    def _save_checkpoint(self, model: nn.Module, trial) -> None:
        """The Trainer's save, push and deletion of older checkpoints, with the marker of a whole one after the save."""
        self._check_finite()
        run_dir = self._get_output_dir(trial=trial)
        folder = Path(run_dir, f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
        self._in_checkpoint = True
        try:
            with written_whole(folder, self.args, self.accelerator.wait_for_everyone):
                super()._save_checkpoint(model, trial)
        finally:
            self._in_checkpoint = False
        if self.args.push_to_hub:
            self._push_from_checkpoint(str(folder))
        if self.args.should_save:
            rotate(run_dir, self.args.save_total_limit, {folder, self.state.best_model_checkpoint or folder})

    def _save(self, output_dir: str | None = None, state_dict=None) -> None:
        """A checkpoint holds what is trained; what is saved besides is for others: plain nets, adapters merged."""
        folder = output_dir or self.args.output_dir
        plain = library_of(self.model) is None
        if plain:
            super()._save(folder, state_dict)
        if not self.args.should_save:  # transformers 5 asks every process
            return
        if plain:
            for name in ADAPTER_FILES:  # of an earlier save, which would be loaded in place of this one
                Path(folder, name).unlink(missing_ok=True)
            save_loss_net(self.loss_net, folder)
            return
        save_nets(self.model, self.loss_net, folder, "adapter" if self._in_checkpoint else self.args.adapter_export)
        if self.processing_class is not None:
            self.processing_class.save_pretrained(folder)
        torch.save(self.args, Path(folder) / TRAINING_ARGS_NAME)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.learner is not None and self.args.should_save:
            save_learner_state(self.learner, output_dir)
            if self.partner is not None:
                save_partner(self.partner.learner, output_dir)

    @property
    def _adapter_export(self) -> str:
        """Of a model that may have adapters; an energy network has none."""
        return getattr(self.args, "adapter_export", "auto")

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """A checkpoint with adapters is not what is pushed if they are to be merged: that is pushed at the end."""
        if library_of(self.model) is None or not saves_merged(self.model, self._adapter_export):
            super()._push_from_checkpoint(checkpoint_folder)

    def init_hf_repo(self, token: str | None = None, **kwargs) -> None:
        """As the Trainer's, which leaves a branch that is not there to fail at every push."""
        super().init_hf_repo(token=token, **kwargs)
        if self.is_world_process_zero():
            make_branch(self.hub_model_id, self.args.hub_revision, token or self.args.hub_token)

    def push_to_hub(self, *args, token: str | None = None, revision: str | None = None, **kwargs):
        """As the Trainer's, which leaves the loss-net at home: one in the repo, of an earlier push, is another
        task-net's and is removed, as is a task-net of the other form, plain or adapters."""
        token = token if token is not None else self.args.hub_token
        revision = revision if revision is not None else self.args.hub_revision
        if self.is_world_process_zero():
            if self.hub_model_id is None:
                self.init_hf_repo(token=token)
            make_branch(self.hub_model_id, revision, token)
            remove_stale(self.hub_model_id, saves_merged(self.model, self._adapter_export), token, revision)
        return super().push_to_hub(*args, token=token, revision=revision, **kwargs)

    # --- loading -----------------------------------------------------------------------------------------------------

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        check_complete(resume_from_checkpoint)
        if self.loss_net is not None:  # first: a folder without loss-net is refused before anything is changed
            check_resumable(self.loss_net, resume_from_checkpoint)
        if self.partner_kind is not None:
            check_partner(self.partner_kind, resume_from_checkpoint)
        if not self._load_specially(resume_from_checkpoint):
            super()._load_from_checkpoint(resume_from_checkpoint, model)
        if self.loss_net is not None:
            load_loss_net_weights(self.loss_net, resume_from_checkpoint)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if self.learner is not None and checkpoint is not None:
            load_learner_state(self.learner, checkpoint)
            if self.partner is not None:
                load_partner(self.partner.learner, checkpoint)

    def _load_best_model(self) -> None:
        best = self.state.best_model_checkpoint
        if not Path(best, COMPLETE).is_file():  # written whole once; what was cleared away since is for the loader
            logger.warning(f"The best checkpoint, {best}, was never completed: both nets stay as they are.")
            return
        if not self._load_specially(best):
            super()._load_best_model()
        if self.loss_net is not None:
            load_loss_net_weights(self.loss_net, best)

    def _load_specially(self, folder: str) -> bool:
        """The weights of the task-net where the Trainer's own loading does not do: adapters, and tensors that its file
        has under other names. Whether that was so."""
        library = library_of(self.model)
        if library is not None:
            library.load(self.model, folder)
            return True
        sharded = self.is_fsdp_enabled or self.is_deepspeed_enabled
        if sharded or not isinstance(self.model, PreTrainedModel) or not are_renamed(self.model, folder):
            return False
        self.model.load_state_dict(read_renamed(self.model, folder))
        return True
