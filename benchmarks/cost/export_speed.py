"""What an exported net costs and keeps on one CPU core: latency, rows per second and F1, beside torch.

    seal-hf train mlc --dataset brighter_eng --data_dir PATH --model_name_or_path ENCODER --max_train_rows 300 \\
        --loss ce --task_loss cross_entropy --bf16 true --use_cpu true --pooling mean --output_dir FOLDER
    OMP_NUM_THREADS=1 python benchmarks/cost/export_speed.py --model FOLDER --input test.tsv --json export_speed.json

The folder is that of a run on texts with label sets; the file has the columns `text` and `labels`, with commas. Every
variant gives the logits of the same batches; reading texts and deciding is the package's own and the same for all.
Latency is the median over single texts. Rows per second and F1 are those of all rows in batches of 32 of similar
length. Processor time, on one thread.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import machine, seconds_of, write_json

from seal_hf import SealForMultiLabel
from seal_hf.metrics import example_f1
from seal_hf.saving.onnx import ExportedNet, export_net

BATCH, SINGLE = 32, 100  # texts of a batch; texts that are read one by one
FILES = {
    "onnx": "net.onnx fp32",
    "onnx fp16": "net.onnx fp16",
    "onnx int8": "net.onnx int8",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    model = SealForMultiLabel.from_pretrained(options.model, with_loss_net=False)
    net: Any = model.task_net.eval()
    with open(options.input, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[: options.rows]
    texts = [row["text"] for row in rows]
    gold = np.array([[name in row["labels"].split(",") for name in net.config.label2id] for row in rows])
    own, figures = net.forward, {}

    def measured(forward: Callable[..., Any]) -> dict[str, float]:
        net.forward = forward
        try:
            model.predict(texts[:BATCH], batch_size=BATCH)  # what is made on the first call
            single = [seconds_of(lambda text=text: model.predict([text])) for text in texts[:SINGLE]]
            decided: list[Any] = []
            seconds = seconds_of(lambda: decided.extend(model.predict(texts, batch_size=BATCH)[1].numpy()))
        finally:
            net.forward = own
        f1 = float(example_f1(np.stack(decided), gold).mean())
        return {"milliseconds": 1e3 * statistics.median(single), "rows per second": len(texts) / seconds, "f1": f1}

    figures["torch"] = measured(own)
    with tempfile.TemporaryDirectory() as folder:
        for name, described in FILES.items():
            file, dtype = described.split()
            path = Path(folder, name, file)
            export_net(net, path, model.processor, dtype)
            exported, output = ExportedNet(path), type(net(**net.dummy_inputs))

            def forward(exported=exported, output=output, **inputs: Any) -> Any:
                return output(logits=exported(inputs))

            size = sum(part.stat().st_size for part in path.parent.iterdir())
            figures[name] = {**measured(forward), "megabytes": size / 1e6}
            print(name, figures[name], flush=True)
    net.compile(dynamic=True)
    figures["torch.compile"] = measured(own)
    print("| net | milliseconds of a text | rows per second | F1 |\n|---|---|---|---|")
    for name, found in figures.items():
        print(f"| {name} | {found['milliseconds']:.1f} | {found['rows per second']:.0f} | {100 * found['f1']:.2f} |")
    write_json(options.json, {"setting": {"rows": len(texts), "batch_size": BATCH, **machine()}, **figures})


if __name__ == "__main__":
    main()
