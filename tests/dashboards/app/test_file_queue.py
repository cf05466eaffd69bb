"""Files that take seconds: one at a time, few wait, and nothing is made for nobody."""

from __future__ import annotations

import json
import threading

import pytest
from flask import Flask, Response
from pydantic import ValidationError

from dashboards.app.routes import FileQueue
from dashboards.views.trials import RowsRequest, filters_of, sort_of
from tests.examples import each


class SlowFile:
    """A view that takes until it is let go."""

    def __init__(self) -> None:
        self.go, self.began, self.made = threading.Event(), threading.Semaphore(0), 0

    def view(self) -> Response:
        self.began.release()
        self.go.wait(60)
        self.made += 1
        return Response("file")


def test_a_fourth_visitor_is_told_to_come_back_and_the_three_are_served() -> None:
    app, slow, statuses = Flask("files"), SlowFile(), list[int]()
    app.add_url_rule("/file", "file", FileQueue().queued(slow.view))
    visitors = [threading.Thread(target=lambda: statuses.append(app.test_client().get("/file").status_code))
                for _ in range(8)]  # fmt: skip
    for visitor in visitors:
        visitor.start()
    slow.began.acquire(timeout=60)
    while len(statuses) < 5:  # the busy answers come while the first file is made
        threading.Event().wait(0.01)
    slow.go.set()
    for visitor in visitors:
        visitor.join()
    assert sorted(statuses) == [200] * 3 + [503] * 5


def test_nothing_is_made_for_head_or_for_who_has_left() -> None:
    app, slow = Flask("files"), SlowFile()
    slow.go.set()
    app.add_url_rule("/file", "file", FileQueue().queued(slow.view))
    client = app.test_client()
    assert client.head("/file").status_code == 200
    gone = client.get("/file", environ_overrides={"waitress.client_disconnected": lambda: True})
    assert (gone.status_code, gone.headers["Retry-After"], slow.made) == (503, "10", 0)


@each("asked", [
    {"sortModel": [{"colId": "score", "sort": "asc"}] * 11},
    {"filterModel": {"score": {"filterType": "number", "conditions": [{}] * 21}}},
    {"filterModel": {f"c{n}": {} for n in range(21)}},
])  # fmt: skip
def test_a_request_of_more_conditions_or_sort_keys_than_a_page_sends_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(ValidationError):  # which the server answers with 400
        RowsRequest.model_validate(asked)


def test_an_address_has_no_more_of_them_either() -> None:
    assert len(sort_of(",".join(["score.asc"] * 20_000))) == 10
    assert filters_of(json.dumps({"score": {"conditions": [{}] * 20_000}})) == {}
