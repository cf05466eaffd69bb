"""Buckets of S3 and Google Cloud Storage."""

from __future__ import annotations

from orchestrator.storage.address import Address
from orchestrator.storage.services import SERVICES
from orchestrator.storage.storage import Storage


@SERVICES.register("s3")
@SERVICES.register("gs")
def bucket(address: Address) -> Storage:
    """The storage of a bucket, or below a prefix in it."""
    from orchestrator.storage.connection import connect  # obstore and boto3 are needed now
    from orchestrator.storage.object_storage import ObjectStorage

    return ObjectStorage(connect(address), address)
