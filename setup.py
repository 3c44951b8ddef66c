"""What seal_hf needs: bounds with their reasons. Name and licence are in pyproject.toml, and the versions that are
tested in constraints*.txt."""

from setuptools import find_namespace_packages, setup

# The lower bounds of this list, all but torch's, were tried together with transformers 4.57.6; older ones were not.
INSTALL_REQUIRES = [
    "torch>=2.10",  # the nets; the first whose weights_only loading is safe (CVE-2025-32434, CVE-2026-24747)
    # `adapters` pins 4.57.6, 6 may change the Trainer's hooks. 5.0 to 5.9 are left out: config.json can make them run
    # code of a kernel (CVE-2026-4372, before 5.3) or a detector (CVE-2026-5241, before 5.5), and a tokenizer can make
    # them write outside of the folder (CVE-2026-9856, up to 5.8). utils/gate.py refuses such fields, which 4.57 obeys.
    "transformers>=4.57.6,!=5.0.*,!=5.1.*,!=5.2.*,!=5.3.*,!=5.4.*,!=5.5.*,!=5.6.*,!=5.7.*,!=5.8.*,!=5.9.*,<6",  # nets
    "accelerate>=1.10",  # launchers, DDP and mixed precision under the Trainer
    "datasets>=4.0",  # every loader returns a datasets.Dataset; Hub data sets
    "safetensors>=0.6.1",  # the only format of weights
    "scikit-learn>=1.6",  # the pixels of the embedded digits; the tests compare figures with its metrics
    "liac-arff>=2.5",  # Mulan and Clus files; scipy's reader refuses sparse ARFF
    "pyyaml>=6.0.1",  # recipes
    "huggingface_hub>=0.34",  # push and load; 0.x goes with transformers 4.57, 1.31 and later with 5
    "numpy>=2.0",  # metrics and loaders work on arrays
    "pyarrow>=21.0",  # the tables under datasets.Dataset, read and built without a copy per row
    "jinja2>=3.1.5",  # the pages of runs, with everything from data escaped; torch and model cards need it too
    "markupsafe>=2.1.5",  # HTML that jinja2 leaves as it is, with the texts in it escaped; comes with jinja2
    "tqdm>=4.66",  # lines of an evaluation are written above the progress bar; transformers needs it too
    "scipy>=1.15",  # a sigmoid that does not overflow, calibration, the tests of a comparison
]

EXTRAS_REQUIRE = {
    "peft": ["peft>=0.20"],  # task-nets with LoRA and the like; transformers 5 takes no older one
    "adapters": ["adapters>=1.3"],  # two adapters on one frozen base; pins transformers ~= 4.57.6
    "bitsandbytes": ["bitsandbytes>=0.50"],  # bases of 4 and 8 bits under adapters; older ones were not tried
    "onnx": [
        "onnx>=1.23",  # seal-hf export: the format; older ones of the three were not tried
        "onnxscript>=0.7",  # torch's exporter writes by it
        "onnxruntime>=1.32",  # checks that the file gives the net's logits
    ],
    "tensorboard": ["tensorboard>=2.20"],  # report_to="tensorboard"
    "trackio": ["trackio>=0.43"],  # report_to="trackio", on transformers 5: it needs huggingface_hub 1.10 or later
    "optuna": [
        "optuna>=4.0",  # trainer.hyperparameter_search, seal-hf train --tune, seal-hf compare --budget
        "sqlalchemy>=2.0.40",  # Optuna's own: addresses of data bases; before 2.1 not in a folder with `?` in its name
    ],
    "plot": ["matplotlib>=3.10"],  # the page of a run; the plots of seal-hf compare and the benchmarks
    "evaluate": ["evaluate>=0.4.6"],  # our metrics as evaluate.Metric, for evaluate.combine; nothing is fetched
    "demo": [
        "gradio>=6.17",  # the page of seal-hf demo; older ones were not tried
        "starlette>=1.3.1",  # gradio's own: an error of its form parser ends an upload; it has limits (CVE-2026-54283)
    ],
    "coco": ["pycocotools>=2.0.10"],  # polygons of COCO's annotations, drawn as COCO does
    "vision": ["pillow>=12.2"],  # image files, image processors; safe with PSD and FITS files (CVE-2026-25990, -40192)
    "docs": [
        "sphinx>=9.0",  # the documentation; older ones were not tried
        "myst-parser>=5.0",  # its pages are Markdown
        "furo>=2025.12",  # its theme: light and dark, narrow and wide
        "sphinx-copybutton>=0.5.2",  # copies a block of code
    ],
    "test": [
        "mypy>=2.4",  # the types that py.typed promises; older ones were not tried
        "pytest>=9.0",  # the tests; .ci/run uses its limit on a hanging test
        "pytest-xdist>=3.8",  # the tests on two cores: they are single-threaded, for bits that do not change
        "ruff>=0.17",  # lint and format
        "evaluate>=0.4.6",  # the tests of that extra
        "nltk>=3.9",  # reads trees in brackets, which the tests compare ours with; older ones were not tried
        "seqeval>=1.2.2",  # span F1 of tag sequences, which the tests compare ours with
    ],
}

setup(
    packages=find_namespace_packages(include=["seal_hf", "seal_hf.*"], exclude=["*.__pycache__"]),
    package_data={
        "seal_hf": [
            "cli/default_recipes/*.yaml",
            "lab/demo/examples/*.png",
            "lab/demo/style.css",
            "reports/model_card_template.md",
            "reports/page.*",
            "py.typed",
        ]
    },
    install_requires=INSTALL_REQUIRES,
    extras_require=EXTRAS_REQUIRE,
)
