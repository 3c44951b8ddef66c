"""What a run leaves for people: predictions, result files, the closing table, pictures, the model card."""
