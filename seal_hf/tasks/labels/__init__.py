"""Label sets: each input has any number of labels."""
