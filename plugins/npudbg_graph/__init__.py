"""Model-graph views for npudbg: a lane view linked to tensors, nodes and commands."""
