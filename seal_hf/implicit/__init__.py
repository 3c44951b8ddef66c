"""Implicit gradients (Shankar & Piratla): how the loss-net learns what its energy does to the task-net.

`hypergradient.py` has the equations, for any two losses; `inverse.py` solves linear systems by products alone;
`task_function.py` makes a task-net a function of some of its parameters. `extensions/implicit_gradients.py` brings them
into a step.
"""
