from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.ingest.paste import split

CONFIG = (
    "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 4\n"
    "mixed_precision: bf16\n"
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/x/train.py", line 10, in <module>\n    main()\nValueError: bad shape\n'
)
COMMAND = "CUDA_VISIBLE_DEVICES=0,1 accelerate launch --config_file acc.yaml \\\n    train.py --lr 1e-4\n"
PYTHON = 'import torch\nfrom torch import nn\ndef f():\n    raise RuntimeError("CUDA out of memory")\n'


def kinds(text, name="pasted.txt"):
    return [part.kind for part in split(text.encode(), name)]


def text_of(text, kind, name="pasted.txt"):
    data = text.encode()
    return [data[part.start : part.stop].decode() for part in split(data, name) if part.kind == kind]


def check_tiles(data, parts):
    assert b"".join(data[part.start : part.stop] for part in parts) == data
    assert all(part.start < part.stop for part in parts) or not data


def test_a_forum_question_without_fences():
    text = (
        "Hi, my training dies with `accelerate launch` but runs fine with plain python.\nThis is my config:\n"
        f"{CONFIG}\nI start it with\n{COMMAND}\nand get:\n\n{TRACEBACK}Any idea what I do wrong?\n\nThanks!\n"
    )
    assert kinds(text) == ["prose", "accelerate_config", "prose", "command", "prose", "log", "prose"]
    assert text_of(text, "log") == [TRACEBACK]
    assert text_of(text, "accelerate_config") == [CONFIG + "\n"]
    assert text_of(text, "command") == [COMMAND + "\n"]


def test_markdown_fences():
    text = (
        f"### What happened\nloss goes up\n\n```yaml\n{CONFIG}```\n\n```bash\n{COMMAND}```\n```\n{TRACEBACK}```\n"
        f'Expected: no error.\n```python\n{PYTHON}```\n~~~json\n{{\n "zero_optimization": {{"stage": 2}}\n}}\n~~~\n'
    )
    found = kinds(text)
    assert [kind for kind in found if kind != "prose"] == ["accelerate_config", "command", "log", "python", "deepspeed_config"]
    assert text_of(text, "log") == [TRACEBACK]


@pytest.mark.parametrize("closing", ["", "```", "```\n", "~~~\n", "``\n"])
def test_a_fence_that_never_closes_runs_to_the_end(closing):
    text = f"It fails:\n```\n{TRACEBACK}{closing}"
    data = text.encode()
    parts = split(data, "pasted.txt")
    check_tiles(data, parts)
    assert [part.kind for part in parts][:2] == ["prose", "log"]


def test_a_log_is_cut_at_prompts_and_fences_only():
    prose = "To avoid data inconsistency, we are taking the entire process down.\n\nI am a line that was printed for you.\n\n"
    assert kinds(prose + CONFIG + "\n" + TRACEBACK, "train.log") == ["log"]
    text = f"$ torchrun train.py\n{prose}user@node-1:~/x$ nvidia-smi -L\nGPU 0: NVIDIA A100 (UUID: GPU-1)\n"
    assert kinds(text, "train.log") == ["command", "log", "command", "nvidia_smi"]


@pytest.mark.parametrize(
    "prompt",
    ["$ ", "user@node-1:~/x$ ", "(env) root@abc:/w# ", "[user@node-1 dir]$ ", "(base) $ ", "user@node-1 proj % ", "bash-5.1$ "],
)
def test_prompts(prompt):
    text = f"{prompt}python train.py \\\n  --lr 1\nstep 1 loss 2\n{prompt}echo done\ndone\n"
    parts = split(text.encode(), "terminal.txt")
    assert [part.kind for part in parts][:2] == ["command", "log"]
    assert text.encode()[parts[0].start : parts[0].stop].endswith(b"--lr 1\n")


def test_what_a_command_printed_is_read_as_what_it_is():
    text = (
        f"$ cat conf/my.yaml\n{CONFIG}$ sacct -j 1\n1  FAILED  1:0\n$ dmesg | tail -1\n[    1.204112] x\n"
        "$ python train.py\nhello\n"
    )
    assert kinds(text) == ["command", "accelerate_config", "command", "slurm", "command", "kernel", "command", "log"]
    assert split(text.encode(), "x.txt")[1].name == "my.yaml"


def test_words_below_a_session_are_the_writers():
    text = f"$ python train.py\n{TRACEBACK}\nDoes anyone know why?\n"
    assert kinds(text) == ["command", "log", "prose"]


def test_an_error_alone_between_sentences_is_a_log():
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.97 GiB."
    text = f"it ran for 600 steps and then\n\n{error}\n\n(chat cut the rest)\n"
    assert kinds(text) == ["prose", "log", "prose"]


def test_an_error_inside_a_sentence_stays_prose():
    assert kinds("When I train it says CUDA out of memory. Tried to allocate 2 GiB. What can I do?\n") == ["prose"]


def test_a_line_that_a_known_emitter_prints_is_a_log():
    text = "I see this in the morning, is it bad?\n\nexited for some reason we know\n\nThanks\n"
    offset = text.index("exited")
    assert [part.kind for part in split(text.encode(), "q.txt", emitted={offset})] == ["prose", "log", "prose"]


def test_sentences_between_output_are_output():
    text = f"{TRACEBACK}\nSome weights of the model were not used\n\n{TRACEBACK}"
    assert kinds(text) == ["log"]


def test_a_configuration_file_is_one_part():
    for name, text in (
        ("x.yaml", "a: 1\nb: 2\n"),
        ("acc.yaml", CONFIG),
        ("train.py", PYTHON),
        ("job.sh", f"#!/bin/bash\n{COMMAND}"),
    ):
        parts = split(text.encode(), name)
        assert len(parts) == 1
        assert parts[0].echo


def test_code_with_dollars_and_fences_is_not_cut():
    text = f'"""Doc\n\n```\n$ run me\n```\n"""\n{PYTHON}'
    assert kinds(text, "train.py") == ["python"]


def test_crlf_and_progress_bars():
    text = f"My run stops. Why?\r\n\r\n  1%|  | 1/100\r  2%|  | 2/100\r\n{TRACEBACK}".replace("\n", "\r\n").replace(
        "\r\r\n", "\r\n"
    )
    assert kinds(text) == ["prose", "log"]


PIECES = st.sampled_from(
    [
        "```\n",
        "```yaml\n",
        "~~~\n",
        "\n",
        "\r\n",
        CONFIG,
        TRACEBACK,
        COMMAND,
        PYTHON,
        "$ ls -l\n",
        "user@a:~$ cat x.yaml\n",
        "Why does it fail?\n",
        '{"zero_optimization": {\n',
        "}\n",
        "{\n",
        "x: y\n",
        "- a\n",
        "step 4/40\r",
        "no newline",
        "\0\0",
        "[rank0]: x\n",
        "# a\n",
        "torch==2.1\n",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=14), st.sampled_from(["pasted.txt", "run.log", "-", "x.yaml", "x.py"]))
def test_parts_tile_the_text(pieces, name):
    data = "".join(pieces).encode()
    check_tiles(data, split(data, name))


@given(st.binary(max_size=400))
def test_parts_tile_any_bytes(data):
    check_tiles(data, split(data, "pasted.txt"))
