import json

import pytest

from firstfault import diagnose
from firstfault.ingest.envelope import EnvelopeDecoder, is_wrapped

LINES = (
    "step 1 loss 2.1",
    "Traceback (most recent call last):",
    '  File "/home/user/train.py", line 9, in main',
    "    run()",
    "ZeroDivisionError: division by zero",
)


def docker(line):
    return {"log": line + "\n", "stream": "stderr", "time": "2024-05-01T12:00:00.000000000Z"}


def cloud(line):
    return {
        "insertId": "a",
        "textPayload": line,
        "timestamp": "2024-05-01T12:00:00.1Z",
        "resource": {"labels": {"pod": "train-2"}},
    }


@pytest.mark.parametrize("wrap", [docker, cloud])
def test_a_wrapped_log_is_read_like_a_plain_one(wrap, tmp_path):
    path = tmp_path / "pod.jsonl"
    path.write_text("".join(json.dumps(wrap(line)) + "\n" for line in LINES))
    found = diagnose([path])
    assert found.verdict != "no_failure"
    assert any(one.text and "ZeroDivisionError" in one.text and one.line == 5 for one in found.evidence)


def test_pieces_of_any_size_give_the_same_text():
    data = "".join(json.dumps(docker(line)) + "\n" for line in LINES).encode() + b"no object\n"
    whole = EnvelopeDecoder().decode(data, final=True)
    decoder = EnvelopeDecoder()
    pieces = [decoder.decode(data[at : at + 7]) for at in range(0, len(data), 7)]
    assert "".join([*pieces, decoder.decode(b"", final=True)]) == whole
    assert whole.splitlines()[-1] == "no object"


@pytest.mark.parametrize(
    "text", ['{"step": 3, "loss": 2.1}\n', '{"message": "no time"}\n', "{'loss': 1}\n", '{"log": 3, "stream": 1}\n', ""]
)
def test_other_objects_are_left_alone(text):
    assert not is_wrapped(text.encode())


def test_a_bar_shows_its_last_state():
    wrapped = json.dumps(docker("\r 1%|\r 2%|")) + "\n"
    assert EnvelopeDecoder().decode(wrapped.encode(), final=True).endswith(" 2%|\n")
