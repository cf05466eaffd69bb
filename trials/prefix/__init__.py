"""The frozen prefix: the output of the frozen lowest layers, computed once per node and cached."""
