"""Plain data comes out whole; whatever else a pickle can do is refused before it is done."""

import contextlib
import os
import pickle
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.ingest.pickle_limits import MAX_CAREFUL_BYTES, MAX_PICKLE_BYTES, UnsafePickleError
from firstfault.ingest.safe_pickle import _is_written_by_torch, load_plain

_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4) | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


class _Reduced:
    def __reduce__(self):  # type: ignore[no-untyped-def]
        return os.system, ("true",)


@given(_PLAIN, st.sampled_from([2, 3, 4, 5]))
def test_plain_data_of_any_protocol_comes_out_as_it_went_in(value: object, protocol: int) -> None:
    assert load_plain(pickle.dumps(value, protocol)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for written in (data, b"\x80\x02" + data, b"\x80\x02}(X\x01\0\0\0a" + data):
        with contextlib.suppress(UnsafePickleError):
            load_plain(written)


@pytest.mark.parametrize("protocol", [0, 1])
def test_old_protocols_are_refused(protocol: int) -> None:
    with pytest.raises(UnsafePickleError):
        load_plain(pickle.dumps({"version": "2.9"}, protocol))


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param(b"cos\nsystem\n(X\x04\0\0\0truetR.", id="global and reduce"),
        pytest.param(b"\x8c\x02os\x8c\x06system\x93.", id="stack global"),
        pytest.param(b"\x82\x01.", id="extension of one byte"),
        pytest.param(b"\x84\x01\0\0\0.", id="extension of four bytes"),
        pytest.param(b"X\x01\0\0\0aQ.", id="persistent object"),
        pytest.param(b"Pabc\n.", id="persistent name"),
        pytest.param(b"}}b.", id="build"),
        pytest.param(b"(ios\nsystem\n.", id="instance"),
        pytest.param(b"]r\xff\xff\xff\xff.", id="memo index of four gigabytes"),
        pytest.param(b"]p99999999999\n.", id="memo index in digits"),
        pytest.param(b"]recor.", id="memo index in letters"),
        pytest.param(b"X\xff\xff\xff\xff.", id="string longer than the file"),
        pytest.param(b"\x8d" + b"\xff" * 7 + b"\0.", id="string of eight length bytes"),
        pytest.param(b"\x8e" + b"\xff" * 6 + b"\0\0.", id="bytes of eight length bytes"),
        pytest.param(b"\x96" + b"\0" * 5 + b"\x01\0\0.", id="bytearray of a terabyte"),
        pytest.param(b"\x8b\xff\xff\xff\x7f.", id="number of two gigabytes"),
        pytest.param(b"I" + b"9" * 100_000 + b"\n.", id="number in digits"),
        pytest.param(b"h\x05.", id="use of what was never built"),
        pytest.param(b"]2.", id="copy of the top"),
        pytest.param(b"}(X\x01\0\0\0a", id="ends inside a dictionary"),
        pytest.param(b"u.", id="fills nothing"),
        pytest.param(b"", id="ends at once"),
    ],
)
def test_what_is_not_plain_data_is_refused(operations: bytes) -> None:
    with pytest.raises(UnsafePickleError):
        load_plain(b"\x80\x02" + operations)


def test_objects_of_classes_are_refused_and_nothing_is_called() -> None:
    for protocol in (2, 4):
        with pytest.raises(UnsafePickleError):
            load_plain(pickle.dumps({"version": "2.9", "entries": _Reduced()}, protocol))


def test_a_key_of_doubled_tuples_is_refused_before_it_is_hashed() -> None:
    # Each tuple holds the one before twice: a hash would visit two to the sixtieth objects.
    doubled = b"".join(b"h%c h%c".replace(b" ", b"") % (n, n) + b"\x86q%c" % (n + 1) for n in range(60))
    with pytest.raises(UnsafePickleError):
        load_plain(b"\x80\x02})q\0" + doubled + b"Ns.")


@pytest.mark.parametrize("step", [b"\x85", b"N\x86", b"X\x01\0\0\0a\x86", b"h\0\x86"])
def test_a_key_of_nested_tuples_is_refused_before_it_is_hashed(step: bytes) -> None:
    with pytest.raises(UnsafePickleError):
        load_plain(b"\x80\x02}X\x01\0\0\0aq\0)" + step * 100_000 + b"Ns.")


def test_too_much_is_refused_unread() -> None:
    with pytest.raises(UnsafePickleError, match="containers"):
        load_plain(b"\x80\x02](" + b"]" * (3 << 20) + b"e.")
    with pytest.raises(UnsafePickleError, match="larger"):
        load_plain(b"\x80\x02" + b"N" * MAX_PICKLE_BYTES)
    with pytest.raises(UnsafePickleError, match="too large"):
        load_plain(b"\x80\x04" + b"N" * MAX_CAREFUL_BYTES)


def test_nesting_is_bounded_where_torch_did_not_write() -> None:
    with pytest.raises(UnsafePickleError, match="deeper"):
        load_plain(b"\x80\x04" + b"]" * 200 + b"a" * 199 + b".")


def test_operations_of_torch_are_known_to_the_pattern() -> None:
    body = b"}(X\x07\0\0\0versionq\0X\x03\0\0\x002.9q\x01X\x07\0\0\0entriesq\x02](}(h\0J\xff\xff\xff\xffh\x01h\0h\x01\x86"
    body += b"h\x02\x8a\x08" + b"\x19" * 8 + b"h\x01K\x07h\x01M\x01\x02h\x02](](K\x01eeh\x01\x89h\0Nr" + struct.pack("<I", 300)
    assert not _is_written_by_torch(b"\x80\x02" + body)
    assert _is_written_by_torch(b"\x80\x02" + body + b"ueu.")
