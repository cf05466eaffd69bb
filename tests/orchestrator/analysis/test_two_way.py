"""Intervals over seeds and sentences: the formula, where it degenerates, and the error of either end by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from orchestrator.analysis.two_way import (
    GUARD,
    PRIOR_DF,
    Folds,
    chance_within,
    document_sizes,
    ends,
    estimate,
    interval,
    item_losses,
    moderate,
    seed_correlation,
)
from tests.orchestrator.analysis.frames import Floats

SAMPLES = 20_000  # an error rate of 5 % has a standard error of 0.15 %


def losses(rng: np.random.Generator, *shape: int, seeds: float = 1.0, sentences: float = 1.0) -> Floats:
    """(..., seeds, sentences) normal losses of mean 0 whose seeds and sentences vary that much, and the rest by 1."""
    by_seed = seeds * rng.standard_normal((*shape[:-1], 1))
    by_sentence = sentences * rng.standard_normal((*shape[:-2], 1, shape[-1]))
    found: Floats = by_seed + by_sentence + rng.standard_normal(shape)
    return found


def test_variance_and_degrees_of_freedom_are_those_of_the_formula() -> None:
    x = losses(np.random.default_rng(0), 4, 30)
    off = x - x.mean(0) - x.mean(1)[:, None] + x.mean()
    v_s, v_i, both = x.mean(1).var(ddof=1) / 4, x.mean(0).var(ddof=1) / 30, (off**2).sum() / (3 * 29) / 120
    v = max(v_s, both) + max(v_i - both, 0)
    found = estimate(x)
    assert found.mean == pytest.approx(x.mean())
    assert found.variance == pytest.approx(v)
    assert found.df == pytest.approx(v**2 / (max(v_s, both) ** 2 / 3 + max(v_i - both, 0) ** 2 / 29))


def three_settings(seed: int, odd: float = 1.0, n: int = 5) -> Floats:
    """(settings, seeds, sentences) normal losses, of which the first varies `odd` times as much over seeds."""
    rng = np.random.default_rng(seed)
    found: Floats = losses(rng, 3, n, 40) + rng.standard_normal((3, n, 1)) * np.array([odd, 1, 1])[:, None, None]
    return found


def test_settings_are_drawn_towards_the_variance_over_seeds_that_they_share() -> None:
    x = three_settings(1)
    of, r = estimate(x), 0.6
    found, w = moderate(of, r), PRIOR_DF / (PRIOR_DF + 4)
    shared = max(0.0, float((5 * (of.own - of.both)).mean()))
    assert found.seeds == pytest.approx(np.maximum(of.both, (1 - w) * of.own + w * (of.both + shared / 5)))
    c = (1 + 2 * r**2) / 3
    nu = 1 / (((1 - w) ** 2 + (2 * w * (1 - w) + w**2) * c) / 4 + w**2 / PRIOR_DF * 2 / 3)
    assert found.seeds_df == pytest.approx([nu] * 3)
    items = of.variance - of.seeds
    assert found.variance == pytest.approx(found.seeds + items)
    assert found.df == pytest.approx(found.variance**2 / (found.seeds**2 / nu + items**2 / 39))


def test_one_setting_and_one_that_varies_more_than_the_others_keep_their_own_variance() -> None:
    for alone in (three_settings(2)[:1], three_settings(2, odd=20.0)):
        of = estimate(alone)
        found = moderate(of, 0.5)
        assert [found.variance[0], found.df[0]] == pytest.approx([of.variance[0], of.df[0]])
        assert found.seeds_df[0] == 4
    equal = np.concatenate([np.zeros((1, 5, 40)), three_settings(3)])
    assert moderate(estimate(equal), 0.5).variance == pytest.approx([0, *moderate(estimate(equal[1:]), 0.5).variance])


def test_settings_correlate_over_seeds_by_the_part_that_they_share() -> None:
    rng = np.random.default_rng(5)
    shared = rng.standard_normal((500, 1, 40))
    assert seed_correlation(shared + rng.standard_normal((500, 3, 40))).mean() == pytest.approx(0.5, abs=0.02)
    assert seed_correlation(np.repeat(shared, 2, axis=1)) == pytest.approx(np.ones(500))
    assert seed_correlation(np.zeros((2, 5))) == seed_correlation(shared[0]) == 0


def test_folds_have_the_variance_of_nadeau_and_bengio_below_which_no_seeds_bring_it() -> None:
    x = np.array([[0.01], [0.02], [0.04], [0.05], [0.03], [0.02]])
    found, s_2 = estimate(x, Folds(5, 260)), x.var(ddof=1)
    assert found.variance == pytest.approx(s_2 * (1 / 6 + 1 / 4))
    assert found.seeds_share == pytest.approx(1)  # what of it the examples bear is not known
    assert found.df == pytest.approx(5)
    assert estimate(np.tile(x, (1000, 1)), Folds(5, 260)).variance > 0.99 * np.tile(x, (1000, 1)).var() / 4
    folds, alone = interval(x, sizes=Folds(5, 260)), interval(x)
    assert (folds.n_sentences, folds.ranges_over) == (260, "seeds and sentences")
    assert folds.low is not None
    assert alone.low is not None
    assert folds.low < alone.low


def in_folds(x: Floats, folds: int) -> Floats:
    """(..., seeds, items), NaN for those of other folds."""
    fold_of = np.arange(x.shape[-1]) * folds // x.shape[-1]
    return np.where(fold_of == np.arange(x.shape[-2])[:, None] % folds, x, np.nan)


def test_with_folds_items_count_once_each_and_only_the_seeds_part_keeps_what_train_sets_share() -> None:
    x = in_folds(losses(np.random.default_rng(8), 5, 300, seeds=2.0), 5)
    found, by_fold = estimate(x, Folds(5, 300)), [row[~np.isnan(row)] for row in x]
    w, t = np.mean([row.var(ddof=1) for row in by_fold]), np.var([row.mean() for row in by_fold], ddof=1)
    v_i, p = w / 300, (t - w / 60) * (1 / 5 + 1 / 4)
    assert found.variance == pytest.approx(v_i + p)
    assert found.seeds_share == pytest.approx(p / (v_i + p))
    assert found.df == pytest.approx((v_i + p) ** 2 / (p * t * (1 / 5 + 1 / 4) / 4 + v_i**2 / (300 - 5)))


def test_settings_in_folds_share_the_seeds_own_part_however_small_that_of_one_of_them_is() -> None:
    x = in_folds(losses(np.random.default_rng(9), 3, 10, 300), 5)
    of = estimate(x, Folds(5, 300))
    found, own = moderate(of, 0.5), of.own - of.both
    assert found.seeds - found.both == pytest.approx(np.full(3, max(0.0, own.mean())))
    assert found.seeds_df == pytest.approx(np.full(3, 27 / 1.5))


def test_intervals_over_folds_cover_what_their_items_and_seeds_are_a_sample_of() -> None:
    rng = np.random.default_rng(10)
    items, noise = rng.standard_normal((2_000, 1, 100)), rng.standard_normal((2_000, 5, 100))
    shared, own = np.sqrt(0.2) * rng.standard_normal((2_000, 1, 1)), np.sqrt(0.8) * rng.standard_normal((2_000, 5, 1))
    low, high = ends(estimate(in_folds(items + noise + 0.2 * (shared + own), 5), Folds(5, 100)), 0.025)
    assert 0.93 < float(((low <= 0) & (high >= 0)).mean()) < 0.99


def test_a_chance_is_that_of_the_posterior_of_a_weak_prior() -> None:
    mean, variance, df = np.array([1.0, 4.0, 1.0]), np.array([4.0, 4.0, 0.0]), np.array([1e9, 1e9, 4.0])
    exact = stats.norm.cdf(2.0, mean * 100 / 104, np.sqrt(400 / 104))
    assert chance_within(mean, variance, df, 2.0)[:2] == pytest.approx(exact[:2])
    assert np.isnan(chance_within(mean, variance, df, 2.0)[2])


def test_whole_seeds_give_students_lower_end_and_a_farther_upper_one() -> None:
    values = np.array([0.01, 0.02, 0.04, 0.05])
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    found = interval(values)
    assert found.low == pytest.approx(low)
    assert found.high is not None
    assert high < found.high <= values.mean() + 2 * (high - values.mean())
    assert (found.n_sentences, found.seeds_share, found.ranges_over) == (None, 1.0, "seeds (on this dev set)")


def test_without_a_seed_effect_the_interval_is_students_over_sentences() -> None:
    x = np.repeat(np.random.default_rng(2).standard_normal((1, 400)), 3, axis=0)
    found = interval(x)
    low, high = stats.t.interval(0.95, 399, x[0].mean(), stats.sem(x[0]))
    assert found.low == pytest.approx(low, abs=0.03 * (high - low))  # but for V2 and the sentences' skewness
    assert found.high == pytest.approx(high, abs=0.03 * (high - low))
    assert found.seeds_share == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("values", "note"),
    [
        (np.ones((1, 9)), "one seed: an interval needs two"),
        (np.array([0.3]), "one seed: an interval needs two"),
        (np.full((3, 9), 0.1), "all values are equal: no spread"),
    ],
)
def test_one_seed_or_no_spread_gives_no_interval_and_says_why(values: Floats, note: str) -> None:
    found = interval(values)
    assert (found.low, found.high, found.df, found.note) == (None, None, None, note)
    assert found.mean == pytest.approx(values.mean())


def test_a_missing_value_and_no_sentences_are_refused() -> None:
    with pytest.raises(ValueError, match="1 of 6 values are not finite"):
        interval(np.array([[0.0, 1.0, np.nan], [0.0, 1.0, 2.0]]))
    with pytest.raises(ValueError, match="3 seeds and 0 sentences have no mean"):
        estimate(np.empty((3, 0)))


@pytest.mark.parametrize("n", [3, 5, 10])
def test_a_large_loss_is_ruled_out_wrongly_in_5_percent_of_samples_of_skewness_1(n: int) -> None:
    of = estimate(np.random.default_rng(n).gamma(4, 1, (SAMPLES, n, 1)))
    assert 0.03 <= (ends(of, 0.05)[1] <= 4.0).mean() <= 0.06 < (ends(of, 0.05, guard=0)[1] <= 4.0).mean()


@pytest.mark.parametrize("n", [3, 5, 8, 20])
@pytest.mark.parametrize("tail", [0.05, 0.01])
def test_with_all_of_the_guard_an_end_is_exact_for_exponential_losses_of_seeds_alone(n: int, tail: float) -> None:
    of = estimate(np.random.default_rng(n).exponential(1, (SAMPLES, n, 1)))
    wrong = (ends(of, tail, guard=1)[1] < 1.0).mean()
    assert wrong == pytest.approx(tail, abs=4 * np.sqrt(tail / SAMPLES) + 0.02 * tail)
    assert tail < (ends(of, tail, guard=GUARD)[1] < 1.0).mean() < 0.12


def test_items_keep_the_loss_whatever_their_words_and_documents() -> None:
    rng = np.random.default_rng(0)
    x, documents, words = losses(rng, 3, 60), rng.integers(0, 7, 60), rng.integers(1, 40, 60)
    for items in (item_losses(x, words=words), item_losses(x, documents), item_losses(x, documents, words)):
        assert items.mean(axis=1) == pytest.approx(x.mean(axis=1))
    assert item_losses(x, documents, words).shape == (3, 7)
    for documents in (np.zeros(5, np.int64), np.arange(5), np.arange(4)):
        assert document_sizes(documents, 5) is None
    assert document_sizes(np.array([0, 0, 1]), 3) == pytest.approx([2, 1])


def test_a_loss_in_equal_proportion_to_the_words_does_not_vary() -> None:
    """One word in ten is lost in every document: whichever are drawn, the loss is 0.1."""
    words, documents = np.array([10, 20, 40, 10, 30]), np.array([0, 0, 1, 2, 2])
    lost = np.tile(0.1 * words / words.mean(), (3, 1))
    assert item_losses(lost, words=words) == pytest.approx(np.full((3, 5), 0.1))
    assert item_losses(lost, documents, words) == pytest.approx(np.full((3, 3), 0.1))


def test_documents_of_unequal_sizes_have_an_unbiased_variance_and_fewer_degrees_of_freedom() -> None:
    """Losses that are all alike in a document, against their variance over many draws."""
    sizes = np.array([60.0, 20, 10, 5, 5])
    means = np.random.default_rng(1).standard_normal((SAMPLES, 1, 5))
    sums = means * sizes / sizes.mean()
    items = sums - sums.mean(axis=2, keepdims=True) * (sizes / sizes.mean() - 1)
    of = estimate(np.repeat(items, 40, axis=1), sizes)
    assert of.variance.mean() == pytest.approx(((sizes / sizes.sum()) ** 2).sum(), rel=0.04)
    moments = 2 * of.variance.mean() ** 2 / of.variance.var()  # of a chi squared with as many degrees of freedom
    assert np.median(of.df) == pytest.approx(moments, rel=0.15)
    assert np.median(of.df) < 3
    three = np.repeat(items[:1], 3, axis=1)
    assert estimate(three, np.full(5, 20.0)).df == pytest.approx(estimate(three).df)
