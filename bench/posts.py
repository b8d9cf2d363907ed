"""Hostile posts: prose that quotes errors around real fragments of logs, with the known truth of what was really printed.

    python bench/posts.py                    2,000 posts of seed 0
    python bench/posts.py --count 5000 --seed 3 --show 10

A post mixes none, one or two real fragments (a healthy stretch, or one that ends in an error) with up to three quotations of
`post_words.py`: prose in good and broken English, lists, tables, chats, mails, documents, code, commands. The messages are the
samples of all fatal signals of the pack, so that no message is fitted to. An answer is wrong if it is `established` and what it
rests on (the event that started it, or all lines of a deciding reason) was quoted, not printed. The exit code is 1 if one is.
`kept` counts the posts with one failing fragment whose answer alone is `established` and stays so inside the post.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import post_words as words

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather_text
from firstfault.knowledge.pack import load_pack
from firstfault.model.diagnosis import Diagnosis

_NAMES = ("pasted.txt", "post.txt", "issue.md", "-", "question.txt", "mail.eml")
_FATAL = frozenset({"initiating", "either", "collateral"})
_FENCES = ("", "", "```\n", "```text\n", "```log\n", "~~~\n")


@dataclass
class Post:
    """A text, where in it a program's real words stand (byte ranges), and how it was made."""

    text: str
    name: str
    printed: list[tuple[int, int]] = field(default_factory=list)
    fragments: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)

    @property
    def fails(self) -> list[str]:
        """The fragments that end in an error."""
        return [fragment for fragment in self.fragments if "\0fails" in fragment]


@lru_cache(maxsize=1)
def messages() -> tuple[str, ...]:
    """One line each: the samples of all signals that can be part of a failure."""
    lines = (sample.line for signal in load_pack().signals if signal.role in _FATAL for sample in signal.samples)
    return tuple(sorted({line for line in lines if "\n" not in line and 12 <= len(line) <= 400}))


def posts(count: int, seed: int) -> Iterator[Post]:
    """`count` posts, the same for one seed."""
    for index in range(count):
        yield make_post(random.Random(f"{seed} {index}"))


def make_post(rng: random.Random) -> Post:
    """A post: an opening, quotations and fragments in any order, a closing."""
    post = Post(text="", name=rng.choice(_NAMES))
    pieces: list[tuple[str, bool]] = [(text, False) for text in _quotations(rng, post)]
    pieces += [(text, True) for text in _fragments(rng, post)]
    rng.shuffle(pieces)
    _add(post, rng.choice(words.OPENINGS), rng, printed=False)
    for text, printed in pieces:
        if printed and rng.random() < 0.6:
            _add(post, rng.choice(words.BETWEEN), rng, printed=False)
        _add(post, text, rng, printed=printed)
    _add(post, rng.choice(words.CLOSINGS), rng, printed=False)
    return post


def _quotations(rng: random.Random, post: Post) -> Iterator[str]:
    for _ in range(rng.choice((1, 1, 2, 3))):
        style = rng.choice(sorted(words.STYLES))
        message = rng.choice(messages())
        head, _, rest = message.partition(": ")
        template = rng.choice(words.STYLES[style])
        post.styles.append(f"{style}: {template}")
        yield template.format(m=message, s=rest or message, t=head)


def _fragments(rng: random.Random, post: Post) -> Iterator[str]:
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        lines = _steps(rng)
        if rng.random() < 0.5:
            lines += _failure(rng)
            post.fragments.append("\n".join(lines) + "\0fails")
        else:
            post.fragments.append("\n".join(lines))
        yield "\n".join(lines)


def _steps(rng: random.Random) -> list[str]:
    first, every = rng.randrange(1, 5000), rng.choice((1, 10, 50))
    form = rng.choice(
        (
            "2025-11-03 02:0{m}:{s:02d},1{m}0 step {n} loss {x:.2f}",
            "step {n} loss {x:.3f}",
            "{{'loss': {x:.4f}, 'grad_norm': 0.8, 'epoch': 0.{m}}}",
            "[rank0]: epoch {m} step {n} loss {x:.2f}",
            " {m}%|##        | {n}/90000 [00:0{m}<01:00,  2.1it/s]",
            "INFO:train:iteration {n} lm loss: {x:.2f}",
        )
    )
    count = rng.randrange(1, 7)
    return [form.format(n=first + every * i, x=2 + rng.random(), m=1 + i, s=rng.randrange(60)) for i in range(count)]


def _failure(rng: random.Random) -> list[str]:
    message = rng.choice(messages())
    head = message.partition(": ")[0]
    if not head.endswith(("Error", "Exception")):
        return [message]
    frames = [
        line
        for index in range(rng.randrange(1, 4))
        for line in (f'  File "/home/user/train{index}.py", line {rng.randrange(9, 400)}, in step', f"    run_{index}(batch)")
    ]
    prefix = rng.choice(("", "", "[rank1]: "))
    return [prefix + line for line in ("Traceback (most recent call last):", *frames, message)]


def _add(post: Post, text: str, rng: random.Random, *, printed: bool) -> None:
    if not text:
        return
    fence = rng.choice(_FENCES) if printed else ""
    post.text += fence
    start = len(post.text.encode())
    post.text += text + "\n"
    if printed:
        post.printed.append((start, len(post.text.encode())))
    post.text += fence and fence[:3] + "\n"
    post.text += rng.choice(("\n", "\n", "", "\n\n"))


def diagnose(text: str, name: str) -> Diagnosis:
    """The answer to one text."""
    pack = load_pack()
    return investigate(gather_text(text, pack, name=name), pack)


def is_wrong(post: Post, diagnosis: Diagnosis) -> bool:
    """True for an established answer that rests on what nobody's run printed."""
    if diagnosis.verdict != "established":
        return False
    real = {e.id for e in diagnosis.evidence if any(start <= e.offset < stop for start, stop in post.printed)}
    started = diagnosis.initiating.evidence if diagnosis.initiating else ()
    deciding = [reason.evidence for reason in diagnosis.reasons if reason.weight >= 5 and reason.evidence]
    return not real.issuperset(started) or any(real.isdisjoint(evidence) for evidence in deciding)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N of the posts that are answered wrong")
    given = parser.parse_args()
    verdicts: Counter[str] = Counter()
    blamed: Counter[str] = Counter()
    kept, wrong, accused = [0, 0], [], 0
    for post in posts(given.count, given.seed):
        diagnosis = diagnose(post.text, post.name)
        verdicts[diagnosis.verdict] += 1
        if is_wrong(post, diagnosis):
            wrong.append((post, diagnosis))
            blamed.update(post.styles)
        accused += diagnosis.initiating is not None and not post.fails
        if len(post.fails) == len(post.fragments) == 1:
            alone = diagnose(post.fails[0].partition("\0")[0] + "\n", "run.txt")
            kept[1] += alone.verdict == "established"
            kept[0] += alone.verdict == "established" == diagnosis.verdict and alone.entry == diagnosis.entry
    print(f"{given.count} posts: {dict(verdicts)}")
    print(f"established and wrong: {len(wrong)}; a start named although nothing failed: {accused}; kept: {kept[0]}/{kept[1]}")
    for template, count in blamed.most_common(given.show and 40):
        print(f"{count:5} {template!r}")
    for post, diagnosis in wrong[: given.show]:
        _show(post, diagnosis)
    raise SystemExit(bool(wrong))


def _show(post: Post, diagnosis: Diagnosis) -> None:
    rested: Sequence[str] = diagnosis.initiating.evidence if diagnosis.initiating else ()
    print("=" * 100, diagnosis.entry, [(e.line, e.text[:100]) for e in diagnosis.evidence if e.id in rested], sep="\n")
    print(post.text)


if __name__ == "__main__":
    main()
