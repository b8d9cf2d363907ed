"""What one line looks like: a log record, a sentence, a command at a prompt, a YAML key."""

from __future__ import annotations

import re
from typing import Literal

from firstfault.ingest.prefix import parse_prefix
from firstfault.lazy_pattern import lazy_pattern

LineKind = Literal["blank", "prompt", "fence", "log", "command", "key", "prose", "other"]
MAX_CHARS = 600

_FENCE = lazy_pattern(r" {0,3}(?P<marks>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)$", needs=("```", "~~~"))
_PROMPT = lazy_pattern(
    r"(?:\([\w.+-]+\) ?)?(?:\$ +|[\w.-]+@[\w.-]+(?::\S*)? ?[$#] ?|[\w.-]+@[\w.-]+ \S+ % |\[[\w.-]+@[\w.-]+ [^\]]*\][$#] ?"
    r"|(?:root:|(?:bash|sh|zsh)-)[\w.:~/-]*[$#] )(?P<command>[^\s$#].*)$",
    needs=("$", "@", "# "),
)
_ASSIGNMENTS = r"(?:(?:export |env )?[A-Za-z_]\w*=(?:'[^']*'|\"[^\"]*\"|\S*) +)*"
_COMMAND = lazy_pattern(
    rf"(?:{_ASSIGNMENTS}(?:sudo |nohup |time |exec |! ?)?(?:"
    + "|".join(
        (
            *(
                r"accelerate (?:launch|config|env|test)\b",
                r"torchrun(?=\s|$)",
                r"deepspeed (?=\S)",
                r"python[\d.]* (?:-\S|\S+\.py\b)",
            ),
            *(r"(?:srun|sbatch|mpirun|mpiexec) (?=\S)", r"horovodrun\b", r"composer (?=-|\S+\.py)", r"ray (?:job|start)\b"),
            *(r"docker (?:run|exec)\b", r"kubectl \w", r"(?:singularity|apptainer) \w", r"pdsh (?=-)", r"ssh \S+ "),
            *(
                r"conda (?:run|activate)\b",
                r"pip3? (?:list|freeze|install)\b",
                r"nvidia-smi(?: -|\s*$)",
                r"(?:ba)?sh \S+\.sh\b",
            ),
            r"\./\S+\.sh\b",
        )
    )
    + r")|export [A-Za-z_]\w*=|#SBATCH |#!/)",
    needs=(
        *(
            "accelerate ",
            "torchrun",
            "deepspeed ",
            "python",
            "srun ",
            "sbatch ",
            "mpirun ",
            "mpiexec ",
            "horovodrun",
            "composer ",
        ),
        *("ray ", "docker ", "kubectl ", "singularity ", "apptainer ", "pdsh ", "ssh ", "conda ", "pip", "nvidia-smi", "sh "),
        *(".sh", "export ", "#SBATCH ", "#!/"),
    ),
)
# Words of a sentence behind the command, outside quotes: `python train.py it needs about 20 GB and runs`.
_GOES_ON = lazy_pattern(r"[^\"'#]*\s(?:it|and|the|is|was|when|but|that|which|I|we)\s+[A-Za-z']+\s+[A-Za-z']+")
# `node-2: [rank9]: ...` is no key: the label of a host before what a rank printed.
_LABELLED = lazy_pattern(r"[\w.-]{1,60}: (?:\[rank\d|Traceback \(most recent|(?:\w+\.)*[A-Z]\w*(?:Error|Exception): )")
_KEY = lazy_pattern(r"\s*(?:- )?[A-Za-z_][\w.-]{0,60}:(?:[ \t]+\S.*|\s*)$")
_EXCEPTION = lazy_pattern(
    r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failed|Failure|Timeout|Iteration)(?::(?:\s|$)|\s*$)"
)
# What looks like output by its form alone, and what a word tells: most lines of a paste hold none of those words.
_FORM = lazy_pattern(
    "|".join(
        (
            # Python and its tracebacks, notebooks and stacks of live processes included
            *(
                r"(?:Original |[A-Za-z_][\w.]*\s{2,})?Traceback \(most recent",
                r"\s*File \"[^\"]+\", line \d",
                r"\s+[\^~]{3,}",
                r"-+> *\d+ ",
                # IPython numbers the code of a frame in seven columns.
                r"(?=[ \d]{7}(?: |$)) {1,6}\d+(?: |$)",
                r"(?:Input|Cell) In ?\[\d+\]",
                r"File \S+:\d+(?:, in |$)",
                r"\S+\.py in \w+\(",
                r"\s{2,}\d+ {2,}\S",
                r"[\w/.-]+\.(?:py|cpp|cc|cu|cuh|hpp|h):\d+:? ",
                r" {4}\S.{0,300} \([^()\s]+(?::\d+)?\)$",
            ),
            # progress
            *(r"\{'[\w/.-]+': ", r"(?:.{0,40}\W)?(?:step|iter|iteration|epoch|loss)\b[ =:\[]*\d"),
            # launchers
            *(r"={20,}", r"-{20,}", r"\*{20,}", r"\^C"),
        )
    ),
    re.IGNORECASE,
)
_NAMED = lazy_pattern(
    "|".join(
        (
            # Python
            *(r"During handling of the above", r"The above exception was", r"Exception (?:raised from|ignored in|in thread)"),
            *(r"Fatal Python error", r"\S+\.py:\d+: \w*Warning"),
            # stacks of live processes: py-spy, faulthandler, pystack
            *(r"Process \d+: \S", r"Python v\d", r"(?:Current thread|Thread) (?:0x)?[0-9a-f]+ [(\[]", r"Parent Process \d+: "),
            *(r"Traceback for thread \d", r" {4}\((?:Python|C)\) File \""),
            # answers of NCCL's RAS service
            *(
                r" *(?:Communicator ranks have different|Missing communicator data from) ",
                r" *\d+ ranks have (?:launched|not|status) ",
            ),
            *(r" *Rank \d+ (?:-- |has (?:launched|not|status) )", r" *#\d+-\d+ \([0-9a-f]+\) [A-Z]", r" *\d+ job process"),
            # progress
            *(r"\s*\d{1,3}%\|?[ |]", r"[^|]{0,80}: +\d{1,3}%\|", r"\*{5} \w", r"wandb: "),
            r"Loading (?:checkpoint|weights|extension)",
            # native code and libraries
            *(
                r"frame #\d+: ",
                r"terminate called",
                r"\s*what\(\): ",
                r"Segmentation fault",
                r"Aborted(?: \(core dumped\))?\s*$",
            ),
            *(r"Killed\s*$", r"Bus error", r"NCCL (?:INFO|WARN|version|error)", r"nccl\w+Error: ", r"Last error:"),
            # launchers, schedulers, kernel
            *(r"(?:srun|salloc|slurmstepd): ", r"Failures:\s*$", r"Root Cause \(first"),
            *(r"\s+<NO_OTHER_FAILURES>", r"\s+(?:time|host|rank|exitcode|error_file|traceback) +: ", r"exits with return code"),
            *(r".{0,60}returned non-zero exit", r"Process .{0,60}(?:exited|terminated|died)", r"NVRM: ", r"oom-kill:"),
            *(r"(?:Memory cgroup )?out of memory: ", r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)[ :\[|]"),
        )
    ),
    re.IGNORECASE,
    needs=(
        *("traceback for", "during handling", "the above exc", "exception ", "fatal python", "warning", "process ", "python v"),
        *("thread ", "(python) f", "(c) f", "communicator", " ranks ", "rank ", "#", " job process", "%", "***** ", "wandb: "),
        *(
            "loading ",
            "terminate called",
            "what(): ",
            "segmentation f",
            "aborted",
            "killed",
            "bus error",
            "nccl",
            "last error:",
        ),
        *("srun: ", "salloc: ", "slurmstepd: ", "failures:", "root cause", "<no_other", " : ", "exits with", "returned non"),
        *(
            "nvrm: ",
            "oom-kill:",
            "out of memory: ",
            "debug",
            "info",
            "warn",
            "error ",
            "error:",
            "error[",
            "error|",
            "critical",
        ),
    ),
)
_MARKDOWN = lazy_pattern(r"(?:#{1,6} |> ?|[-*+] |\d+[.)] |\*\*)")
_WORD = lazy_pattern(r"[(\"'*_]*(?:[A-Za-z][A-Za-z']*|\d{1,4}|[A-Za-z]+-[a-z]+|`[^`]+`?)[)\"'*_]*[.,;:!?]{0,3}(?:\([^)]*\))?$")
_ADDRESS = lazy_pattern(r"\b(?:I|I'm|I've|my|anyone|anybody|please|thanks|somebody)\b|\?\s*$|:\s*$", re.IGNORECASE)


def fence_of(text: str) -> re.Match[str] | None:
    """A Markdown fence: groups `marks` and `info`."""
    return _FENCE.match(text)


def prompt_command(text: str) -> str | None:
    """The command typed behind a shell prompt, if the line has one."""
    found = _PROMPT.match(text)
    return found["command"] if found else None


def is_command(text: str) -> bool:
    """True for a line that starts a training or looks at one, as typed into a shell or a job script."""
    return not text[:1].isspace() and _COMMAND.match(text) is not None and not _GOES_ON.match(text)


def is_key(text: str) -> bool:
    """True for `key: value` as YAML writes it."""
    return _KEY.match(text) is not None and not _LABELLED.match(text)


def is_log(text: str) -> bool:
    """True for a line that a program printed: a record, a part of a traceback, progress, a launcher's word."""
    text = text[:MAX_CHARS]
    prefix = parse_prefix(text)
    if prefix.kind:
        return True
    return bool(_FORM.match(text) or _EXCEPTION.match(text) or _NAMED.match(text))


def is_prose(text: str) -> bool:
    """True for a line that a person wrote: mostly plain words."""
    stripped = text.strip()[:MAX_CHARS]
    text = _MARKDOWN.sub("", stripped, count=1)
    words = text.split()
    if not words:
        return False
    plain = sum(1 for word in words if _WORD.match(word))
    if len(words) < 3:
        ends_like_one = text[-1] in ".,!?:" or stripped.startswith(("# ", "##")) or addresses_somebody(text)
        return plain == len(words) and ends_like_one
    return plain >= 0.65 * len(words)


def addresses_somebody(text: str) -> bool:
    """True for a sentence that speaks to a reader (asks, thanks, says `I`), which programs do not."""
    return _ADDRESS.search(text) is not None


def border_of(text: str) -> LineKind | None:
    """`blank`, `fence` or `prompt`: what a text is cut at."""
    if not text.strip():
        return "blank"
    if fence_of(text):
        return "fence"
    return "prompt" if prompt_command(text) is not None else None


def kind_of(text: str) -> LineKind:
    """The one word for the line."""
    if border := border_of(text):
        return border
    if is_log(text):
        return "log"
    if is_command(text):
        return "command"
    if is_key(text):
        return "key"
    return "prose" if is_prose(text) else "other"
