from __future__ import annotations

import pytest

from firstfault.ingest.clock import parse_clock, read_boot_clock, read_clock, read_glog_clock

DAY = 86_400


@pytest.mark.parametrize(
    ("text", "kind", "seconds", "resolution"),
    [
        ("2025-03-19 09:50:04,010 - fit", "wall", 1742377804.010, 1e-3),
        ("2025-03-19T09:50:04.123456Z rest", "wall", 1742377804.123456, 1e-6),
        ("2025-03-19T11:50:04+02:00 rest", "wall", 1742377804.0, 1.0),
        ("2025-03-19T09:50:04+0000 node", "wall", 1742377804.0, 1.0),
        ("2025/03/19 09:50:04 x", "wall", 1742377804.0, 1.0),
        ("2025-03-19_09:50:04", "wall", 1742377804.0, 1.0),
        ("Wed Mar 19 09:50:04 2025] x", "wall", 1742377804.0, 1.0),
        ("Jan 14 09:12:40 node-11 kernel: x", "yearless", 13 * DAY + 33160, 1.0),
        ("01/14 09:12:40 - mm - INFO", "yearless", 13 * DAY + 33160, 1.0),
        ("09:12:40.5 x", "daytime", 33160.5, 0.1),
    ],
)
def test_layouts_give_seconds_kind_and_resolution(text, kind, seconds, resolution):
    clock, _ = read_clock(text)
    assert (clock.kind, clock.seconds) == (kind, pytest.approx(seconds, abs=1e-6))
    assert clock.resolution_s == pytest.approx(resolution)


def test_the_end_of_the_clock_is_returned():
    text = "x 2025-03-19 09:50:04,010 - fit"
    clock, end = read_clock(text, 2)
    assert text[2:end] == clock.text == "2025-03-19 09:50:04,010"


@pytest.mark.parametrize(
    "text", ["2025-02-30 09:50:04", "2025-13-01 00:00:00 x", "1823-01-01 00:00:00", "step 12", "12 of 30", ""]
)
def test_what_is_no_point_in_time(text):
    found = read_clock(text)
    assert found is None or found[0].kind == "daytime"
    assert read_clock("99:99:99") is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("1104 08:41:17.402000 21930", 307 * DAY + 31277.402), ("603 17:48:01.5 F", 153 * DAY + 64081.5)]
)
def test_glog_headers_have_month_and_day_without_year(text, seconds):
    clock, _ = read_glog_clock(text)
    assert clock.kind == "yearless"
    assert clock.seconds == pytest.approx(seconds)


def test_kernel_seconds_count_from_boot():
    clock, end = read_boot_clock("[ 7010.100000] NVRM")
    assert (clock.kind, clock.seconds, clock.resolution_s) == ("boot", 7010.1, pytest.approx(1e-6))
    assert end == len("[ 7010.100000]")
    assert read_boot_clock("[ 12] x") is None


def test_error_files_hold_seconds_as_text():
    assert parse_clock("1742377804").resolution_s == 1.0
    assert parse_clock("1742377804.25").seconds == 1742377804.25
    assert parse_clock("2025-05-23_19:14:40").kind == "wall"
    assert parse_clock("soon") is None
