"""Rows without gold, for which rules or a function tell how well an output suits its input."""
