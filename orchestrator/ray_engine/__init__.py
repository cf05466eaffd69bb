"""Everything that imports Ray: cluster, driver, trainable, GPU packing, file staging, patches of Tune."""
