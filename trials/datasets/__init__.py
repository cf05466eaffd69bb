"""Corpora on disk. Importing the package registers the readers, one module a format."""

from trials.datasets import conllu_reader as conllu_reader
