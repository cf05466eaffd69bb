"""Trials of tiny models, as those of `tests/trials`."""

from tests.trials.conftest import make_any_trial as make_any_trial
from tests.trials.conftest import make_trial as make_trial
from tests.trials.conftest import one_thread as one_thread
from tests.trials.conftest import texts as texts
from tests.trials.conftest import tiny_models as tiny_models
from tests.trials.conftest import treebank as treebank
