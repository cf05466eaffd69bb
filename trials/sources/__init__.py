"""Sources of corpora and models: local files, treebank repositories and the model hub."""
