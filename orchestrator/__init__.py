"""Permafrost orchestrator: from a sweep in YAML to finished trials in a store; the only root that knows Ray."""

import sys

_ROOT = __file__.rpartition(__name__)[0].rstrip("/\\")
sys.path.insert(0, _ROOT)  # the folder of a script or notebook may hold a `trials.py`
try:  # from here on all of our packages are those beside this one
    from trials.plugins import import_origins as import_origins
except ModuleNotFoundError as error:
    _place = getattr(sys.modules.get("trials"), "__file__", None) or "another module"
    _text = f"{_place} was imported as `trials` before, and Permafrost has a package of that name. Rename the former."
    raise ImportError(_text) from error
finally:
    sys.path.remove(_ROOT)
