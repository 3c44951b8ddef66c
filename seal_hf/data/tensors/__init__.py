"""Data sets as rows of tensors: tokens, words, crops of images, frozen features; their batches and their order."""
