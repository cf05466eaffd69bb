"""The results store: every epoch and every trial in Parquet. It needs neither Ray nor torch."""

from orchestrator.store.results import ResultStore as ResultStore
from orchestrator.store.results import open_store as open_store
