"""Where corpora and models come from when they are not files of this machine: treebank repositories and the hub."""
