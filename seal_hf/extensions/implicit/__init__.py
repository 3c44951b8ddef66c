"""Implicit gradients (Shankar & Piratla): the loss-net learns how its energy changes the task-net.

`hypergradient.py` has the equations, for any two losses, and solves linear systems by products alone;
`task_function.py` makes a task-net a function of some of its parameters. `extensions/implicit_gradients.py` uses them
in a step.
"""
