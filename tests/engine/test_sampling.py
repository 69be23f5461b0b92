import numpy as np
import pytest
import torch

from realtime.engine.sampling import (
    SamplingRows,
    draw_columns,
    gumbel_windows,
    noise_window,
    uniforms,
)

NUM_COLUMNS = 513


def rows(count, **values):
    """Settings of `count` rows; a list gives one value a row."""
    defaults = {
        "temperature": 1.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "seed": list(range(count)),
        "draw_index": 0,
    }
    recent = values.pop("recent", None)
    arrays = {}
    for name, default in defaults.items():
        value = values.pop(name, default)
        dtype = np.int64 if name in {"top_k", "seed", "draw_index"} else np.float64
        arrays[name] = np.array(value if isinstance(value, list) else [value] * count, dtype)
    assert not values
    return {"recent": recent, **arrays}


def take(sampling, index):
    return {name: None if value is None else value[index] for name, value in sampling.items()}


def draw(logits, sampling, barred=None):
    """Draw with the fields that no row uses left out, as the engine does."""
    filtered = ((sampling["top_k"] > 0) | (sampling["top_p"] < 1)).nonzero()[0]
    has_filter, recent = len(filtered) > 0, sampling["recent"]
    temperature, min_p = sampling["temperature"], sampling["min_p"]
    is_greedy = temperature == 0
    with np.errstate(divide="ignore"):
        least = np.log(min_p)

    def real(values):
        return torch.from_numpy(values.astype(np.float32))

    window = noise_window(sampling["seed"], sampling["draw_index"], logits.shape[1])
    return draw_columns(
        logits,
        SamplingRows(
            window=torch.from_numpy(window),
            temperature=real(np.where(is_greedy, 1.0, temperature)),
            noise_scale=real(1.0 - is_greedy) if is_greedy.any() else None,
            least=real(least) if min_p.any() else None,
            filtered=torch.from_numpy(filtered) if has_filter else None,
            top_k=torch.from_numpy(sampling["top_k"][filtered]) if has_filter else None,
            top_p=torch.from_numpy(sampling["top_p"][filtered]) if has_filter else None,
            repetition_penalty=real(sampling["repetition_penalty"]) if recent is not None else None,
            recent=recent,
            barred=barred,
        ),
    )


def random_logits(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, NUM_COLUMNS, generator=generator) * 3
    logits[::2, -1] = float("-inf")
    return logits


def test_each_row_is_the_same_in_any_company():
    generator = torch.Generator().manual_seed(1)
    count = 67
    sampling = rows(
        count,
        temperature=[0.0 if i % 5 == 0 else 0.3 + i / 60 for i in range(count)],
        top_k=[0 if i % 3 else 20 for i in range(count)],
        top_p=[1.0 if i % 4 else 0.8 for i in range(count)],
        min_p=[0.0 if i % 7 else 0.05 for i in range(count)],
        repetition_penalty=[1.0 if i % 6 else 1.3 for i in range(count)],
        draw_index=[i * i for i in range(count)],
        recent=torch.randint(0, NUM_COLUMNS + 1, (count, 5), generator=generator),
    )
    logits = random_logits(count)
    together = draw(logits, sampling)
    alone = [draw(logits[i : i + 1], take(sampling, slice(i, i + 1))).item() for i in range(count)]
    assert together.tolist() == alone
    order = torch.randperm(count, generator=generator)
    assert torch.equal(draw(logits[order], take(sampling, order)), together[order])
    odd = torch.arange(1, count, 2)
    assert torch.equal(draw(logits[odd], take(sampling, odd)), together[odd])


def test_frequencies_follow_the_softmax():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, float("-inf")]).repeat(20_000, 1)
    columns = draw(logits, rows(20_000, temperature=0.7))
    share = torch.bincount(columns, minlength=5) / 20_000
    expected = torch.softmax(logits[0] / 0.7, 0)
    assert torch.allclose(
        share, expected, atol=0.012
    )  # 3.4 standard deviations of the largest share
    assert share[4] == 0


def test_temperature_zero_takes_the_likeliest():
    logits = random_logits(16)
    assert torch.equal(draw(logits, rows(16, temperature=0.0)), logits.argmax(1))


@pytest.mark.parametrize(
    ("setting", "kept"),
    [
        ({"top_k": 2}, 2),
        ({"top_p": 0.75}, 2),
        ({"top_p": 0.95}, 3),
        ({"min_p": 0.4}, 2),
        ({"top_p": 1e-9}, 1),
    ],
)
def test_filters_keep_the_likeliest_columns(setting, kept):
    logits = torch.tensor([0.5, 0.05, 0.3, 0.15]).log().repeat(4000, 1)
    columns = draw(logits, rows(4000, **setting))
    likeliest = [0, 2, 3, 1]
    assert set(columns.tolist()) == set(likeliest[:kept])


def test_top_p_acts_on_what_top_k_leaves():
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log().repeat(4000, 1)
    columns = draw(logits, rows(4000, top_k=2, top_p=0.55))
    assert set(columns.tolist()) == {0}  # 0.4 / 0.7 = 0.571


def test_penalty_lowers_only_recent_columns_of_its_own_row():
    logits = torch.tensor([[1.0, 1.1, -5.0], [1.0, 1.1, -5.0]])
    sampling = rows(
        2, temperature=0.0, repetition_penalty=2.0, recent=torch.tensor([[1, 1], [3, 3]])
    )
    assert draw(logits, sampling).tolist() == [0, 1]
    negative = torch.tensor([[-1.0, -1.1]])
    sampling = rows(1, temperature=0.0, repetition_penalty=2.0, recent=torch.tensor([[0]]))
    assert draw(negative, sampling).tolist() == [1]


def test_random_numbers_are_uniform_and_differ_by_seed_and_index():
    seeds, index = np.repeat(np.arange(200), 200), np.tile(np.arange(200), 200)
    values = uniforms(seeds, index)
    assert values.min() >= 0
    assert values.max() < 1
    assert np.unique(values).size == values.size
    share = np.histogram(values, 20, (0, 1))[0] / values.size
    assert np.allclose(share, 0.05, atol=0.005)
    table = values.reshape(200, 200)
    for shifted in (table[1:, :], table[:, 1:]):
        base = table[: shifted.shape[0], : shifted.shape[1]]
        assert abs(np.corrcoef(base.ravel(), shifted.ravel())[0, 1]) < 0.02


def test_random_numbers_are_those_of_splitmix64():
    mask = (1 << 64) - 1

    def scramble(x):
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return x ^ (x >> 31)

    for seed, index in [(0, 0), (1, 5), (2**53 - 1, 10**6)]:
        state = scramble((seed * 0x9E3779B97F4A7C15 + 0xBF58476D1CE4E5B9) & mask)
        bits = scramble((state + (index + 1) * 0x9E3779B97F4A7C15) & mask) >> 11
        got = uniforms(np.array([seed]), np.array([index]))[0]
        assert got == bits * 2.0**-53


def test_noise_is_gumbel_and_windows_stay_in_the_table():
    windows = gumbel_windows(513, "cpu")
    noise = windows[:: 513 * 4].double()
    assert abs(noise.mean().item() - 0.5772) < 0.01
    assert abs(noise.std().item() - 1.2825) < 0.01
    starts = noise_window(np.arange(100_000), np.arange(100_000), 513)
    assert starts.min() >= 0
    assert starts.max() < len(windows)
    assert np.unique(starts).size > 90_000


def test_barred_columns_are_never_drawn_and_bar_nothing_for_others():
    logits = random_logits(40)
    free = draw(logits, rows(40)).tolist()
    barred = torch.tensor(
        [[free[i], NUM_COLUMNS] if i % 2 else [NUM_COLUMNS] * 2 for i in range(40)]
    )
    sampling = rows(40)
    limited = draw(logits, sampling, barred=barred).tolist()
    assert all((limited[i] != free[i]) == bool(i % 2) for i in range(40))
