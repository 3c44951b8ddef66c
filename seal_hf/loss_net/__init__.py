"""The network trained beside the task-net: the loss-net, its learner and its optimizer."""
