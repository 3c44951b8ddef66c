"""Rows per second of `seal-hf predict` and of a plain pipeline of transformers, with the same net, texts and batches.

    OMP_NUM_THREADS=1 python benchmarks/cost/predict_speed.py --model FOLDER --texts FILE.tsv --json predict_speed.json

The folder holds a classifier of texts, its labels may be random. The first column of the file has the texts. Both get
all texts at once; the pipeline (`top_k=None`) pads each batch as the texts come, the command those of similar length.
The time of a run on one text is taken off, so that loading does not count. Processor time, on one thread.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path

from timing import in_turns, machine, ratios, seconds_of, spread, write_json
from transformers import pipeline

from seal_hf.cli.predict import main as predict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--texts", required=True, type=Path)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with open(options.texts, encoding="utf-8", newline="") as file:
        texts = [line.split("\t")[0].strip() for line in file][: options.rows]

    def by_pipeline(count: int) -> None:
        settings = {"top_k": None, "function_to_apply": "sigmoid", "batch_size": options.batch_size, "device": "cpu"}
        classify = pipeline("text-classification", options.model, **settings)
        classify(texts[:count], truncation=True)

    def by_command(count: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "texts.csv")
            with open(source, "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([["text"], *([text] for text in texts[:count])])
            flags = ["--model", options.model, "--input", str(source), "--output", f"{folder}/out.csv"]
            predict([*flags, "--batch_size", str(options.batch_size), "--device", "cpu"])

    ways = {"pipeline": by_pipeline, "predict": by_command}

    def rate(name: str) -> float:
        with_loading = seconds_of(lambda: ways[name](len(texts)))
        return len(texts) / (with_loading - seconds_of(lambda: ways[name](1)))

    rates = in_turns({name: lambda name=name: rate(name) for name in ways}, options.rounds)
    found = {"rows per second": rates, "predict / pipeline": ratios(rates["predict"], rates["pipeline"])}
    for name, values in rates.items():
        print(f"{name}: {spread([sorted(values)[len(values) // 2], min(values), max(values)], 0)} rows per second")
    print(f"predict / pipeline: {spread(found['predict / pipeline'])}")
    if options.json is not None:
        setting = {"rows": len(texts), "batch_size": options.batch_size, **machine()}
        write_json(options.json, {"setting": setting, **found})


if __name__ == "__main__":
    main()
