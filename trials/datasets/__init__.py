"""Corpora on disk. Importing the package registers the readers, one module a format."""

from trials.datasets import columns_reader as columns_reader
from trials.datasets import conllu_reader as conllu_reader
from trials.datasets import table_reader as table_reader
