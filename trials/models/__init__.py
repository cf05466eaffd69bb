"""Pretrained encoders. Importing the package registers the model families."""

from trials.models import family as family
