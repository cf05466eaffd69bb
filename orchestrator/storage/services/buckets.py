"""Buckets of S3 and Google Cloud Storage."""

from __future__ import annotations

from orchestrator.storage.address import Address
from orchestrator.storage.services import SERVICES
from orchestrator.storage.storage import Storage


@SERVICES.register("s3")
@SERVICES.register("gs")
def bucket(address: Address) -> Storage:
    """The storage of a bucket, or below a prefix in it."""
    from orchestrator.storage.object_storage import ObjectStorage  # obstore is needed now

    return ObjectStorage(address)
