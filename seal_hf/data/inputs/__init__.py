"""Inputs of prediction and evaluation: rows of files and Hub ids, read in parts; and the files for predictions."""
