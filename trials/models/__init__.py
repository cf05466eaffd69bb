"""Pretrained encoders. Importing the package registers the model families, one module a family."""

from trials.models import bert as bert
from trials.models import distilbert as distilbert
