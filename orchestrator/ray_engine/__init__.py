"""Everything that imports Ray: cluster, Tune as an engine, trainable, slots on a GPU, what workers are sent."""
