"""One driver a sweep and store: the second is refused, and told who runs it; a dead one's place is taken over.

    with take_lease(store.place, "my-sweep", say=say) as lease:
        ...
        lease.check()           # before each commit

Places promise that what was written is listed from then on, and no more: there is no "write if nothing is there". So:

- *Taking.* A driver writes a claim that asks and then lists. It holds if it sees its own claim and no other; else it
  withdraws and comes back after a random while. Of two that ask, the one that wrote last lists both: never two hold.
- *Keeping.* Each beat writes the claim's next object, lists, and only then takes the previous one away. A claim whose
  previous object is gone has been taken over, and is lost.
- *Taking over.* A claim is stale where its process is known to be gone, or where its count did not move while *we*
  watched it for `stale_s`; clocks of two machines are never compared. Its objects are taken away, and then all is
  listed again: a driver that came to life meanwhile either finds its object gone, or has its next one in this listing.
- *Being sure.* So after a beat nobody takes over for `stale_s` from its beginning. For the first half of it `check`
  answers from memory, which leaves the other half for the commit that follows; after that it makes a beat first.

What no lease can prevent: a driver that is stopped for minutes between `check` and the end of a commit. What it then
writes is rows of an attempt of its own, of which readers take one.
"""

from orchestrator.lease.acquire import LeaseHeldError, take_lease
from orchestrator.lease.lease import Lease, LeaseLostError, Timing
from orchestrator.lease.running_driver import running_driver

__all__ = ["Lease", "LeaseHeldError", "LeaseLostError", "Timing", "running_driver", "take_lease"]
