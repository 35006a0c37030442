"""Cutting a model down to the nodes that still show a finding, resumably."""
