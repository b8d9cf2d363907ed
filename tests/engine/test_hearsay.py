import pytest

from firstfault import diagnose

INLINE = "`RuntimeError: DataLoader worker (pid(s) 26136) exited unexpectedly`"
BLOCKED = "> RuntimeError: Ninja is required to load C++ extensions"


@pytest.mark.parametrize(("line", "entry"), [(INLINE, "dataloader-worker-killed"), (BLOCKED, "extension-build-failed")])
def test_an_exception_that_a_post_only_repeats_leads_and_never_establishes(line, entry):
    found = diagnose(f"My training stopped over night, and all I have is this:\n\n{line}\n\nWhat should I look at?\n")
    assert found.entry == entry
    assert found.verdict in ("likely", "undetermined")
    assert found.initiating is None or found.initiating.certainty != "established"


def test_what_is_repeated_counts_for_nothing_where_output_is_shown():
    post = f"I once had this:\n\n{INLINE}\n\nbut now it runs:\n\n```\nstep 1 loss 2.1\nstep 2 loss 2.0\nstep 3 loss 1.9\n```\n"
    assert diagnose(post).entry is None


def test_words_without_an_exception_accuse_nobody():
    assert diagnose("Yesterday it was killed by the out of memory killer, I think. What can I do?\n").entry is None


def test_an_answer_without_a_question_is_no_dead_end():
    text = (
        "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: "
        "1) Use of a module parameter outside the `forward` function.\n"
        "Parameter at index 127 has been marked as ready twice."
    )
    found = diagnose(f"With checkpointing in DDP I get this, without it works fine:\n\n{text}\n\nWhat is wrong?\n")
    assert (found.entry, found.verdict) == ("ddp-marked-ready-twice", "likely")
