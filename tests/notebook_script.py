"""Runs the cells of a notebook in their order, as a reader would in a fresh kernel: notebook_script.py FILE [ENCODER]

The cell that installs the package is passed over, every training has two steps, and there are few images. `ENCODER`, a
folder, takes the place of the model that the notebook's variable `ENCODER` names.
"""

import json
import re
import sys
import warnings
from pathlib import Path

from transformers import TrainingArguments

from seal_hf.data import embedded

HUB_MODEL = re.compile(r'^ENCODER = ".*"$', re.MULTILINE)


def short(arguments, whole=TrainingArguments.__post_init__):
    arguments.max_steps = 2
    whole(arguments)


def main(file, encoder=None):
    warnings.simplefilter("ignore")  # as for a reader who runs it
    TrainingArguments.__post_init__ = short
    embedded.MASK_SIZES = {"train": 16, "validation": 8, "test": 8}
    names = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(Path(file).read_text(encoding="utf-8"))["cells"]):
        code = "".join(cell["source"])
        if cell["cell_type"] != "code" or code.startswith("%pip "):
            continue
        if code.startswith("%%writefile "):
            first, _, text = code.partition("\n")
            Path(first.split()[1]).write_text(text + "\n", encoding="utf-8")
        else:
            code = HUB_MODEL.sub(lambda _: f"ENCODER = {encoder!r}", code)
            exec(compile(code, f"{Path(file).name}, cell {number}", "exec"), names)  # noqa: S102 - our own notebook


if __name__ == "__main__":
    main(*sys.argv[1:])
