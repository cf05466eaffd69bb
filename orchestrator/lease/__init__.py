"""At most one driver per sweep and store: a second one is refused, and a dead one's lease is taken over.

    with take_lease(store.storage, "my-sweep", say=say) as lease:
        ...
        lease.check()           # before each commit

Storage only guarantees that what was written is listed from then on; there is no "write if absent". So:

- *Acquire.* A driver writes a claim that asks, then lists. If it sees its own claim and no other, it holds the lease;
  otherwise it withdraws and retries after a random pause. Of two that ask, the later writer lists both claims, so two
  never hold at once.
- *Renew.* Each heartbeat writes the claim's next object, lists, and only then deletes the previous one. If the previous
  object of a claim is gone, another driver has taken over and the lease is lost.
- *Take over.* A claim is stale if its process is known to have ended, or if its count did not change while *we* watched
  it for `stale_s`; the clocks of two machines are never compared. Its objects are deleted and then everything is listed
  again: a driver that resumed meanwhile either finds its object gone or has written its next one, which is listed.
- *Check.* After a heartbeat nobody takes over for `stale_s` from its start. During the first half of that time `check`
  answers from memory, which leaves the second half for the commit that follows; later it makes a heartbeat first.

No lease can protect from a driver that is suspended for minutes between `check` and the end of a commit. The rows that
it then writes belong to an attempt of its own, and readers use one attempt.
"""

from orchestrator.lease.acquire import LeaseHeldError, take_lease
from orchestrator.lease.lease import Lease, LeaseLostError, Timing
from orchestrator.lease.running_driver import running_driver

__all__ = ["Lease", "LeaseHeldError", "LeaseLostError", "Timing", "running_driver", "take_lease"]
