"""Masks: each pixel has a class."""
