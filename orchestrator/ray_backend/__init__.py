"""Everything that imports Ray: cluster, driver, trainable, GPU packing, file staging, jobs, two patches of Tune."""
