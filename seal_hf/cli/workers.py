"""Workers that share trials and runs through a storage of Optuna: a journal file on a disk that all see, or a database.
A worker counts up while it lives, and another one takes over what a dead worker was doing."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..utils.files import in_line
from ..utils.messages import printable

BEAT, DEAD = 10.0, 90.0  # seconds between signs of life; a worker without one for so long is taken for dead
POLL = 2.0  # seconds between looks at what others do
ALIVE, OWED = "alive", "owed"  # attributes of a trial: its worker's count; it repeats one whose worker has died


class Workers:
    """This worker's view of what all workers at a storage do. Trials in it are those of Optuna.

    Attributes:
        token: a word that no other worker has.

    Args:
        address: a data base as SQLAlchemy names it, such as `postgresql://user@host/name`; else the path of a journal
            file, which the first worker makes.

    Raises:
        ValueError: Optuna is missing, or the storage cannot be opened.
    """

    def __init__(self, address: str):
        if find_spec("optuna") is None:
            raise ValueError("`storage` needs Optuna: pip install 'seal_hf[optuna]'.")
        import optuna
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            if "://" in address:
                self.storage: Any = optuna.storages.RDBStorage(address)
            else:
                Path(address).parent.mkdir(parents=True, exist_ok=True)
                self.storage = optuna.storages.JournalStorage(JournalFileBackend(address))
        except Exception as error:  # of SQLAlchemy and the drivers of data bases
            raise ValueError(
                f"`storage` is {printable(address)!r}, which cannot be opened: {in_line(error)}."
            ) from error
        self.token = secrets.token_hex(4)
        self._seen: dict[int, tuple[Any, float]] = {}  # trial -> its count, and when this worker saw it change

    def study(self, name: str, about: Any, given: Sequence[Mapping[str, Any]] = (), larger: bool = True) -> Any:
        """Open the study of this name, or make it.

        Studies of one name that are about different things are kept apart. The worker that makes a study queues the
        `given` trials first.
        """
        import optuna

        digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()[:12]
        named = {"study_name": f"{name} {digest}", "storage": self.storage}
        try:
            study = optuna.create_study(**named, direction="maximize" if larger else "minimize")
        except optuna.exceptions.DuplicatedStudyError:
            return optuna.load_study(**named)
        for values in given:
            study.enqueue_trial(dict(values))
        return study

    def running(self, study: Any) -> int:
        """Count the trials of a study that other workers are running.

        A trial whose worker has died is ended here, and its values are queued again.
        """
        count, now = 0, time.monotonic()
        for trial in study.trials:
            if trial.state.name != "RUNNING":
                continue
            beat = trial.user_attrs.get(ALIVE)
            if self._seen.get(trial._trial_id, (None, 0.0))[0] != beat or trial._trial_id not in self._seen:
                self._seen[trial._trial_id] = beat, now
            if now - self._seen[trial._trial_id][1] < DEAD:
                count += 1
            else:
                self._give_up(study, trial.number)
        return count

    @contextmanager
    def at(self, study: Any, trial: Any) -> Iterator[None]:
        """Show that this worker lives while the block runs a trial. If the trial fails, others may take it at once."""
        done = threading.Event()

        def beat() -> None:
            count = 0
            while not done.wait(BEAT if count else 0):
                count += 1
                try:
                    trial.set_user_attr(ALIVE, count)
                except Exception:  # the trial was taken over, or the storage is away for a while
                    continue

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            done.set()
            self._give_up(study, trial.number)
            raise
        finally:
            done.set()
            thread.join()

    def _give_up(self, study: Any, number: int) -> None:
        """End a trial, and ask for another one with its values, unless another worker has done so."""
        import optuna

        try:
            trial = study.tell(number, state=optuna.trial.TrialState.FAIL)
        except (ValueError, RuntimeError):  # it has ended
            return
        values = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        study.enqueue_trial(values, user_attrs={OWED: True})

    @contextmanager
    def alone(self, name: str, about: Any, done: Callable[[], bool] | None = None, wait: bool = True) -> Iterator[bool]:
        """A block in which this worker alone does what `name` and `about` describe.

        It yields False if that is done already, or another worker is doing it.

        Args:
            done: whether it is done; default: a worker's block has ended without an error.
            wait: wait until it is done, or this worker's.
        """
        import optuna

        study = self.study(name, about)
        while True:
            running = self.running(study)
            if not running and not self._is_done(study, done):
                trial = study.ask()
                earlier = any(each.state.name == "RUNNING" and each.number < trial.number for each in study.trials)
                if not earlier and not self._is_done(study, done):  # of two that ask at once, the first has it
                    break
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)
            if not wait or self._is_done(study, done):
                yield False
                return
            time.sleep(POLL)
        with self.at(study, trial):
            yield True
        study.tell(trial.number, 0.0, skip_if_finished=True)

    def _is_done(self, study: Any, done: Callable[[], bool] | None) -> bool:
        return done() if done is not None else any(trial.state.name == "COMPLETE" for trial in study.trials)

    def trials(
        self,
        study: Any,
        number: int,
        objective: Callable[[Any], float],
        sampler: Callable[[int], Any],
        say: Callable[[Any, float], None],
    ) -> None:
        """Run trials of a study until all workers together have finished `number` of them and have tried the values of
        each dead worker again.

        Args:
            sampler: number of this trial -> Optuna's sampler.
            say: tells of a finished trial and its value.
        """
        import optuna

        is_settled = False
        while True:
            running, trials = self.running(study), study.trials
            done = sum(trial.state.name == "COMPLETE" for trial in trials)
            owed = any(trial.state.name == "WAITING" and OWED in trial.user_attrs for trial in trials)
            if done + running >= number and not owed:
                if not running and is_settled:
                    return
                is_settled = not running  # but the values of a dead worker may be queued a moment later
                time.sleep(POLL)
                continue
            is_settled = False
            study.sampler = sampler(len(trials))
            trial = study.ask()
            if done + running >= number and OWED not in trial.user_attrs:  # another worker has taken what was owed
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)
                continue
            with self.at(study, trial):
                value = objective(trial)
            study.tell(trial.number, value, skip_if_finished=True)
            say(trial, value)
