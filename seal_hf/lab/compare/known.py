"""The kinds of output that are compared, by their words on the command line; without a word it is the first."""

from ...core.task import Registry
from .kinds import Kind

KINDS: Registry[Kind] = Registry(lambda task: {} if task.compared_word else {kind.word: kind for kind in task.compared})
