"""Readers of corpus files. Importing the package registers them, one module for each format."""

from trials.datasets import columns_reader as columns_reader
from trials.datasets import conllu_reader as conllu_reader
from trials.datasets import table_reader as table_reader
