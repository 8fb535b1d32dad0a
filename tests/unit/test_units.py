"""Quantities: a number needs a unit, and GB is not GiB."""

import pytest

from specmemo_sim.errors import UnitError
from specmemo_sim.units import (
    format_bytes,
    format_count,
    format_seconds,
    parse_bytes,
    parse_bytes_per_s,
    parse_flop_per_s,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("80 GiB", 85_899_345_920),
        ("80 GB", 80_000_000_000),
        ("7.6 GiB", 8_160_437_862),  # 7.6 * 1,073,741,824 = 8,160,437,862.4, rounded down
        ("1kB", 1_000),
        ("1 KiB", 1_024),
        ("0 B", 0),
        ("16_384 MiB", 17_179_869_184),
        (12, 12),
    ],
)
def test_sizes_are_read_exactly(text, size_bytes):
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    "text",
    ["80", "80 gb", "80 GIB", "-1 GiB", "nan GiB", "inf GiB", "1e99 GiB", "2 EiB", "", " GiB",
     "1,5 GiB", "8 GiB GiB", "0x10 B", True, -1, "9" * 100 + " B", 2**61, None],
)  # fmt: skip
def test_what_is_no_size_is_refused_in_one_line(text):
    with pytest.raises(UnitError) as caught:
        parse_bytes(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_rates_and_times_keep_decimal_exactness():
    assert parse_bytes_per_s("3.35 TB/s") == 3_350_000_000_000
    assert parse_flop_per_s("989 TFLOP/s") == 989_000_000_000_000
    assert parse_flop_per_s("130.3 TOP/s") == 130_300_000_000_000
    assert parse_seconds("1.1 ms") == 0.0011


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, "3 GB", "3 TFLOPS", True])
def test_rates_refuse_what_is_none(value):
    with pytest.raises(UnitError):
        parse_bytes_per_s(value)
    with pytest.raises(UnitError):
        parse_flop_per_s(value)


def test_people_read_binary_units():
    assert format_bytes(13_476_831_232) == "12.55 GiB"
    assert format_bytes(57_856_000) == "55.18 MiB"
    assert format_bytes(512) == "512 B"
    assert format_bytes(-2 * 2**30) == "-2.00 GiB"
    assert format_seconds(0.0266) == "26.6 ms"
    assert format_seconds(3.2) == "3.20 s"
    assert format_seconds(8.7e-4) == "870 us"
    assert format_count(6_738_415_616) == "6.74 B"
    assert format_count(1_234_567) == "1.2 M"
    assert format_count(999) == "999"
