"""The protocol of `orchestrator.claims` as a small model: drivers that share one trial, every step of the storage one.

A driver is present, looks (rows, then claims, then who is present), claims, reads the rows again, runs, checks that it
may commit, commits, and deletes its claim. A tick lets half of the time pass after which a silent driver counts as
dead; there may be any number of them, before any step. So the interleavings hold every kill and every delayed write,
too: a driver that is killed takes no further step, and one whose write arrives late takes that step late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

STALE = 2  # ticks without a heartbeat after which a driver counts as dead; for half of them it need not ask


class Rules(NamedTuple):
    """The protocol; without one of its rules something goes wrong, which the search has to find."""

    creates_if_absent: bool = True
    reads_rows_after_claim: bool = True
    lists_claims_before_presences: bool = True
    deletes_claim_after_commit: bool = True


class Sight(NamedTuple):
    """A presence as it was watched: its newest heartbeat, and the ticks for which it has been that one."""

    beat: int
    silent: int


class Driver(NamedTuple):
    """What a driver knows; its next step is `at`.

    Attributes:
        beat, standing: Number of its newest heartbeat, and of the newest that a listing has shown.
        confirmed, began: Ticks since the newest one began that was shown, and since the newest one did.
        sights: Of each driver, as it was last seen.
        newest, others: The newest claim, and who is present, at its last look.
        attempt: What it has claimed; 0 if nothing.
        dead: What it listed of drivers that count as dead, and is about to delete.
    """

    at: str = "enter"
    beat: int = 0
    standing: int = 0
    confirmed: int = 0
    began: int = 0
    sights: tuple[Sight | None, ...] = ()
    knows_end: bool = False
    newest: int = 0
    others: frozenset[int] = frozenset()
    attempt: int = 0
    dead: frozenset[tuple[int, int]] = frozenset()


class State(NamedTuple):
    """The store and all drivers.

    Attributes:
        present: Heartbeats that are there, each a driver and a number.
        claims: Numbers that are claimed, each with its driver.
        rows: Completed attempts; True for one that was committed by a driver that nobody could have removed.
        ran: Attempts that ran, each with its driver.
    """

    present: frozenset[tuple[int, int]]
    claims: frozenset[tuple[int, int]]
    rows: frozenset[tuple[int, bool]]
    ran: frozenset[tuple[int, int]]
    drivers: tuple[Driver, ...]


class BrokenPromiseError(Exception):
    """What must not happen, happened."""


ENDS = ("over", "removed")


@dataclass(frozen=True)
class Model:
    """Some drivers, by some rules."""

    n: int
    rules: Rules

    def first(self) -> State:
        """Nothing is there."""
        empty = frozenset[tuple[int, int]]()
        driver = Driver(sights=(None,) * self.n)
        return State(empty, empty, frozenset(), empty, (driver,) * self.n)

    def next(self, state: State) -> Iterator[State]:
        """What may follow. Raises BrokenPromiseError."""
        yield ticked(state)
        for who, driver in enumerate(state.drivers):
            if driver.at not in ENDS:
                yield self.step(state, who)

    def step(self, state: State, who: int) -> State:
        """One step of a driver. Raises BrokenPromiseError."""
        driver = state.drivers[who]
        following = getattr(self, f"_{driver.at}")(state, who, driver)
        assert isinstance(following, State)
        self._check(following)
        return following

    # --- The steps

    def _enter(self, state: State, who: int, driver: Driver) -> State:
        """Look who is there, and write a first heartbeat."""
        driver, _ = _watched(state, who, driver)
        present = state.present | {(who, 1)}
        return _with(state._replace(present=present), who, driver._replace(at="entered", beat=1, began=0))

    def _entered(self, state: State, who: int, driver: Driver) -> State:
        if (who, 1) not in state.present:
            return _with(state, who, self._ended("removed"))
        return _with(state, who, driver._replace(at="look", standing=1, confirmed=driver.began, began=0))

    def _look(self, state: State, who: int, driver: Driver) -> State:
        """The look begins with a check; then the rows."""
        if not _is_sure(driver):
            return self._beat(state, who, driver, "look")
        at = "list_claims" if self.rules.lists_claims_before_presences else "list_present"
        return _with(state, who, driver._replace(at=at, knows_end=bool(state.rows)))

    def _list_claims(self, state: State, who: int, driver: Driver) -> State:
        newest = max((number for number, _ in state.claims), default=0)
        at = "list_present" if self.rules.lists_claims_before_presences else "ready"
        return _with(state, who, driver._replace(at=at, newest=newest))

    def _list_present(self, state: State, who: int, driver: Driver) -> State:
        driver, dead = _watched(state, who, driver)
        if dead:
            return _with(state, who, driver._replace(at="delete_dead", dead=dead))
        others = frozenset(other for other, _ in state.present if other != who)
        at = "ready" if self.rules.lists_claims_before_presences else "list_claims"
        return _with(state, who, driver._replace(at=at, others=others))

    def _delete_dead(self, state: State, who: int, driver: Driver) -> State:
        present = state.present - driver.dead
        return _with(state._replace(present=present), who, driver._replace(at="list_present", dead=frozenset()))

    def _ready(self, state: State, who: int, driver: Driver) -> State:
        """Claim the trial if nobody has it, by the last look; else look again, or leave if it has ended."""
        if driver.knows_end:
            return _with(state, who, self._without_look(driver)._replace(at="leave"))
        owner = next((owner for number, owner in state.claims if number == driver.newest), None)
        if driver.newest and owner in driver.others:
            return _with(state, who, driver._replace(at="look"))
        return self._create(state, who, driver)

    def _create(self, state: State, who: int, driver: Driver) -> State:
        number = driver.newest + 1
        if self.rules.creates_if_absent and any(number == taken for taken, _ in state.claims):
            return _with(state, who, driver._replace(at="look_again"))
        claims = frozenset(claim for claim in state.claims if claim[0] != number) | {(number, who)}
        following = self._without_look(driver)._replace(at="read_rows", attempt=number)
        return _with(state._replace(claims=claims), who, following)

    def _look_again(self, state: State, who: int, driver: Driver) -> State:
        """The claim was taken: list claims and presences anew, without the rows."""
        at = "list_claims" if self.rules.lists_claims_before_presences else "list_present"
        return _with(state, who, driver._replace(at=at))

    def _read_rows(self, state: State, who: int, driver: Driver) -> State:
        if state.rows and self.rules.reads_rows_after_claim:
            claims = state.claims - {(driver.attempt, who)}
            return _with(state._replace(claims=claims), who, driver._replace(at="leave", attempt=0))
        return self._begin(state, who, driver)

    def _begin(self, state: State, who: int, driver: Driver) -> State:
        """The trial runs from now on; a driver that was removed meanwhile finds out when it checks, to commit."""
        if any(is_sound for _, is_sound in state.rows) and (who, driver.standing) in state.present:
            raise BrokenPromiseError(f"{who} runs a finished trial")
        if any(number == driver.attempt and other != who for number, other in state.ran):
            raise BrokenPromiseError(f"two run attempt {driver.attempt}")
        ran = state.ran | {(driver.attempt, who)}
        at = "claimed" if self.rules.deletes_claim_after_commit else "forget"
        return _with(state._replace(ran=ran), who, driver._replace(at=at))

    def _claimed(self, state: State, who: int, driver: Driver) -> State:
        """It has run; may it commit?"""
        if _is_sure(driver):
            return _with(state, who, driver._replace(at="checked"))
        return self._beat(state, who, driver, "claimed")

    def _checked(self, state: State, who: int, driver: Driver) -> State:
        """Commit, perhaps so late that others have removed it: no protocol can prevent that."""
        rows = state.rows | {(driver.attempt, _is_sure(driver))}
        at = "committed" if self.rules.deletes_claim_after_commit else "leave"
        return _with(state._replace(rows=rows), who, driver._replace(at=at))

    def _committed(self, state: State, who: int, driver: Driver) -> State:
        return self._forget(state, who, driver)

    def _forget(self, state: State, who: int, driver: Driver) -> State:
        claims = frozenset(claim for claim in state.claims if claim[0] > driver.attempt)
        at = "leave" if self.rules.deletes_claim_after_commit else "claimed"
        return _with(state._replace(claims=claims), who, driver._replace(at=at))

    def _leave(self, state: State, who: int, driver: Driver) -> State:
        if not state.rows:
            raise BrokenPromiseError(f"{who} ends before the trial has")
        present = frozenset(one for one in state.present if one[0] != who)
        return _with(state._replace(present=present), who, self._ended("over"))

    def _beat(self, state: State, who: int, driver: Driver, then: str) -> State:
        present = state.present | {(who, driver.beat + 1)}
        following = driver._replace(at=f"shown_{then}", beat=driver.beat + 1, began=0)
        return _with(state._replace(present=present), who, following)

    def _shown_look(self, state: State, who: int, driver: Driver) -> State:
        return self._shown(state, who, driver, "look")

    def _shown_claimed(self, state: State, who: int, driver: Driver) -> State:
        return self._shown(state, who, driver, "claimed")

    def _shown(self, state: State, who: int, driver: Driver, then: str) -> State:
        """Both heartbeats have to be there; then the older one is deleted, in one step, as only its driver cares."""
        if not {(who, driver.beat), (who, driver.standing)} <= state.present:
            present = frozenset(one for one in state.present if one[0] != who)
            return _with(state._replace(present=present), who, self._ended("removed"))
        present = state.present - {(who, driver.standing)}
        following = driver._replace(at=then, standing=driver.beat, confirmed=driver.began, began=0)
        return _with(state._replace(present=present), who, following)

    def _ended(self, at: str) -> Driver:
        """Nothing that it knew matters any more."""
        return Driver(at, sights=(None,) * self.n)

    def _without_look(self, driver: Driver) -> Driver:
        """It looks at others no more."""
        return driver._replace(sights=(None,) * self.n, newest=0, others=frozenset(), knows_end=False)

    def _check(self, state: State) -> None:
        running = [d for d in state.drivers if d.at in ("claimed", "shown_claimed", "checked") and _is_sure(d)]
        if len(running) > 1:
            raise BrokenPromiseError("two run the trial and need not ask")
        if sum(is_sound for _, is_sound in state.rows) > 1:
            raise BrokenPromiseError("two completed it, and neither was late")


def _with(state: State, who: int, driver: Driver) -> State:
    drivers = list(state.drivers)
    drivers[who] = driver
    return state._replace(drivers=tuple(drivers))


def _is_sure(driver: Driver) -> bool:
    return driver.confirmed < STALE / 2


def ticked(state: State) -> State:
    """Time passes."""
    drivers = []
    for driver in state.drivers:
        sights = tuple(sight and sight._replace(silent=min(sight.silent + 1, STALE)) for sight in driver.sights)
        confirmed, began = min(driver.confirmed + 1, STALE), min(driver.began + 1, STALE)
        older = driver._replace(sights=sights, confirmed=confirmed, began=began)
        drivers.append(driver if driver.at in ("enter", *ENDS) else older)
    return state._replace(drivers=tuple(drivers))


def _watched(state: State, who: int, driver: Driver) -> tuple[Driver, frozenset[tuple[int, int]]]:
    """What it sees of the others, and the heartbeats of those that were silent for too long while it watched."""
    sights, dead = list(driver.sights), set[tuple[int, int]]()
    for other in range(len(sights)):
        beats = [beat for one, beat in state.present if one == other and other != who]
        if beats:
            before = sights[other]
            if before is None or before.beat != max(beats):
                sights[other] = Sight(max(beats), 0)
            elif before.silent >= STALE:
                dead |= {(other, beat) for beat in beats}
    return driver._replace(sights=tuple(sights)), frozenset(dead)


def every_state(model: Model) -> int:
    """Follow all interleavings; how many states there are, but for names of drivers and numbers of heartbeats.

    Raises:
        BrokenPromiseError: in one of them.
    """
    first = model.first()
    met, waiting = {hash(first)}, deque([first])  # of 64 bits: that two states share one is unlikely
    while waiting:
        for state in model.next(waiting.popleft()):
            named = _named(_counted(state))
            if hash(named) not in met:
                met.add(hash(named))
                waiting.append(named)
    return len(met)


def _counted(state: State) -> State:
    """Heartbeats counted anew from 1, and sights left out that the next look replaces."""
    used = [
        sorted({beat for who, beat in state.present if who == each} | {driver.beat, driver.standing} - {0})
        for each, driver in enumerate(state.drivers)
    ]
    new = [{beat: number for number, beat in enumerate([0, *beats])} for beats in used]
    newest = [max((beat for who, beat in state.present if who == each), default=-1) for each in range(len(used))]
    drivers = tuple(
        driver._replace(
            beat=new[each][driver.beat],
            standing=new[each][driver.standing],
            sights=tuple(
                Sight(new[other][sight.beat], sight.silent) if sight and sight.beat == newest[other] else None
                for other, sight in enumerate(driver.sights)
            ),
            dead=frozenset((other, new[other][beat]) for other, beat in driver.dead if beat in new[other]),
        )
        for each, driver in enumerate(state.drivers)
    )
    return state._replace(present=frozenset((who, new[who][beat]) for who, beat in state.present), drivers=drivers)


def _named(state: State) -> State:
    """Drivers in an order of what they are at."""
    order = sorted(range(len(state.drivers)), key=lambda who: _place(state, who))
    if order == list(range(len(order))):
        return state
    new = {old: number for number, old in enumerate(order)}

    def renamed(driver: Driver) -> Driver:
        return driver._replace(
            sights=tuple(driver.sights[old] for old in order),
            others=frozenset(map(new.__getitem__, driver.others)),
            dead=frozenset((new[other], beat) for other, beat in driver.dead),
        )

    return state._replace(
        present=frozenset((new[who], beat) for who, beat in state.present),
        claims=frozenset((number, new[who]) for number, who in state.claims),
        ran=frozenset((number, new[who]) for number, who in state.ran),
        drivers=tuple(renamed(state.drivers[old]) for old in order),
    )


def _place(state: State, who: int) -> tuple[object, ...]:
    """What tells a driver from others, whatever their names."""
    driver = state.drivers[who]
    beats = tuple(sorted(beat for one, beat in state.present if one == who))
    claims = tuple(sorted(number for number, one in state.claims if one == who))
    ran = tuple(sorted(number for number, one in state.ran if one == who))
    known = (driver.newest, driver.knows_end, len(driver.others), driver.standing, driver.beat)
    return (driver.at, driver.attempt, driver.confirmed, driver.began, *known, beats, claims, ran)
