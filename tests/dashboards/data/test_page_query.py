"""The state of a page is its URL: it survives the way there and back, and what it cannot mean is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dashboards.data.selection import AXES, COSTS, EMBEDDINGS, SPLITS, STATES, THEMES, PageQuery, parse_query
from tests.examples import each

words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=80)
names = st.text(st.characters(codec="utf-8", exclude_characters=",\x00"), min_size=1, max_size=20)
queries = st.builds(
    PageQuery,
    sweep=words,
    corpus=words,
    model=words,
    setup=words,
    size=st.sets(st.integers(0, 10**9)).map(lambda sizes: tuple(sorted(sizes))),
    strategy=st.lists(names, unique=True, max_size=4).map(tuple),
    embeddings=st.sampled_from(EMBEDDINGS),
    metric=words,
    split=st.sampled_from(SPLITS),
    cost=st.sampled_from(sorted(COSTS)),
    axis=st.sampled_from(sorted(AXES)),
    tolerance=st.integers(0, 1000).map(lambda n: n / 10),
    budget=st.none() | st.integers(0, 10**6).map(float),
    freeze=words,
    level=words,
    state=st.sampled_from(STATES),
    theme=st.sampled_from(THEMES),
    pause=st.booleans(),
)


@given(queries)
def test_a_url_brings_back_every_setting(query: PageQuery) -> None:
    assert parse_query(query.search()) == (query, ())


@each(
    "search",
    [
        "?split=train",
        "?tolerance=nan",
        "?tolerance=-1",
        "?size=a,b",
        "?size=²",
        "?budget=inf",
        "?theme=pink",
        "?x=1",
        "?cost=money",
    ],
)
def test_what_a_url_cannot_mean_is_told_and_left_at_its_default(search: str) -> None:
    query, notices = parse_query(search)
    assert query == PageQuery()
    assert len(notices) == 1


@given(st.text(max_size=400))
def test_no_text_brings_a_page_down(text: str) -> None:
    query, _ = parse_query(f"?{text}")
    assert isinstance(query, PageQuery)


def test_a_flood_of_settings_is_refused_in_words() -> None:
    query, notices = parse_query("?" + "&".join(f"sweep={n}" for n in range(1000)))
    assert query == PageQuery()
    assert "too many" in notices[0]
