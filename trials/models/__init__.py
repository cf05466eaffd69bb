"""Pretrained encoders. Importing the package registers the model families, one module for each kind."""

from trials.models import family as family
