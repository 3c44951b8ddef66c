"""Structured outputs as tensors: sparse label sets, tag sequences and their schemes, linear chains, masks.

Nothing here knows about nets, losses or files.
"""
