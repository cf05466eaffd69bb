"""Any number of drivers on one store, each trial run by one of them at a time, with nothing but the store between them.

    with Membership(store.storage, "my-sweep", say=say) as membership:
        claims = Claims(store.storage.subfolder(CLAIMS), membership)
        number = claims.take(trial_id)      # the attempt that this driver may run; None: another driver has the trial
        ...
        membership.check()                  # before each commit

*Presence.* A driver is present in a store by an object `drivers/<token>-<count>.json`. Each heartbeat writes the next
one, lists them, and only then deletes the previous one. A driver is dead if its count did not change while *we* watched
it for `stale_s`; the clocks of two machines are never compared. The objects of dead drivers are deleted, and then all
are listed again: a driver that resumed meanwhile either finds its object gone, and knows that it was removed, or has
written its next one, which is listed. A token that was removed never comes back.

*Check.* For `stale_s` from the start of a heartbeat no other driver removes this one. In the first half of that time
`check` answers from memory, which leaves the second half for the commit that follows; later it makes a heartbeat first.

*Claims.* `claims/<trial_id>-<number>.json` is created only if it is absent, and names the token of its driver; the
newest one counts. The number is the attempt's, so no two drivers ever write rows or checkpoints of one attempt. A trial
whose newest claim belongs to a driver that is not present is free: the driver that creates the next number gets it.
Claims are listed before presences, so the driver of each listed claim was present before.

*Ends.* A claim is deleted only after the row that ends its trial is committed, and a driver that has created a claim
reads the rows before it runs the trial: either the older claim was still there, or its row is.

No protocol can stop a driver that is suspended for minutes between `check` and the end of a commit. The rows that it
then writes belong to an attempt of its own, and readers use one attempt.
"""

from orchestrator.claims.claims import CLAIMS, SEARCHES, Claims, drive, hold_search, running_drivers
from orchestrator.claims.membership import DRIVERS, TIMING, BusyStoreError, Membership, RemovedError, Timing

__all__ = [
    "CLAIMS", "DRIVERS", "SEARCHES", "TIMING", "BusyStoreError", "Claims", "Membership", "RemovedError", "Timing",
    "drive", "hold_search", "running_drivers",
]  # fmt: skip
