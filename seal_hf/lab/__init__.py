"""What is looked at after training: comparisons of methods, what an energy has learned, the page of the demo."""
