"""The frozen prefix: what never changes below the first layer that learns, computed once a node and kept."""
