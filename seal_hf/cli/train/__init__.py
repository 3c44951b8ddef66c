"""The programs that train, one per kind of output: `seal-hf train NAME`, or `examples/run_NAME.py`."""
