"""Data sets as rows of tensors: tokens, words, image crops, frozen features; their batches and their order."""
