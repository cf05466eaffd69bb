"""Pretrained encoders. Importing the package registers the model families, one module for each kind."""

from trials.models import bert as bert
from trials.models import deberta as deberta
from trials.models import decoders as decoders
from trials.models import distilbert as distilbert
from trials.models import modernbert as modernbert
from trials.models import refused as refused
