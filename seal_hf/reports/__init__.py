"""The reports of a run: predictions, result files, the closing table, pictures, the model card."""
