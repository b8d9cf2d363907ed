"""Programs that run the command behind them: which of their options take a value, and what becomes of the environment."""

from __future__ import annotations

from typing import Literal

import msgspec

Crossing = Literal["whole", "none", "partly"]


class Wrapper(msgspec.Struct, frozen=True):
    """How to get past one program.

    `verbs` must follow the name (`uv run`); `values` are the options whose value is a word of its own; `words` is the number
    of words before the command (`timeout 10m`). `crossing` says whether the environment reaches the command.
    """

    verbs: tuple[str, ...] = ()
    values: frozenset[str] = frozenset()
    words: int = 0
    crossing: Crossing = "whole"
    note: str = ""
    joins: bool = False
    """True if one word with blanks behind it is a line for a shell."""


def _values(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONDA = Wrapper(("run",), _values("-n --name -p --prefix --cwd"))
_DOCKER = _values(
    "-v --volume -e --env --env-file --gpus --name -w --workdir -u --user --shm-size --network --net --ipc -p --publish --mount"
    " --ulimit --device --entrypoint -h --hostname --cpus -m --memory --runtime --pid --privileged-user --label -l --add-host"
    " --cap-add --security-opt --platform --restart --tmpfs --cpuset-cpus --log-driver"
)
_CONTAINER = "a container sees only the variables given with -e or --env, and the GPUs of --gpus"
_APPTAINER = _values("-B --bind --env --env-file -H --home --pwd -W --workdir --overlay --nvccli-devices -S --scratch")

WRAPPERS = {
    "env": Wrapper((), _values("-u --unset -C --chdir -S --split-string")),
    "nohup": Wrapper(),
    "exec": Wrapper((), _values("-a")),
    "command": Wrapper(),
    "setsid": Wrapper(),
    "catchsegv": Wrapper(),
    "xvfb-run": Wrapper((), _values("-n -s -e -f -p -w --server-num --server-args")),
    "time": Wrapper((), _values("-f --format -o --output")),
    "stdbuf": Wrapper((), _values("-o -e -i --output --error --input")),
    "nice": Wrapper((), _values("-n --adjustment")),
    "ionice": Wrapper((), _values("-c -n --class --classdata")),
    "timeout": Wrapper((), _values("-s -k --signal --kill-after"), words=1),
    "numactl": Wrapper((), _values("-C -N -m -p -i --cpunodebind --membind --physcpubind --preferred --interleave")),
    "taskset": Wrapper((), _values(""), words=1),
    "chrt": Wrapper((), _values(""), words=1),
    "unbuffer": Wrapper(),
    "screen": Wrapper((), _values("-S -dmS -DmS -Logfile -t -c -h -s -T")),
    "tmux": Wrapper(
        ("new-session", "new", "new-window", "neww", "split-window", "splitw"),
        _values("-s -n -c -t -e -x -y -F"),
        note="a tmux server that runs already gives its own variables to new windows",
        joins=True,
    ),
    "tee": Wrapper(),
    "sudo": Wrapper(
        (), _values("-u -g -h -p -C --user --group"), crossing="partly", note="sudo drops most variables without -E"
    ),
    "uv": Wrapper(
        ("run",),
        _values(
            "--with --python -p --project --directory --extra --group --env-file --with-requirements --with-editable --index"
        ),
    ),
    "poetry": Wrapper(("run",), _values("-C --directory -P --project")),
    "pipenv": Wrapper(("run",)),
    "pdm": Wrapper(("run",), _values("-p --project")),
    "rye": Wrapper(("run",)),
    "hatch": Wrapper(("run",)),
    "pixi": Wrapper(("run",), _values("-e --environment --manifest-path")),
    "conda": _CONDA,
    "mamba": _CONDA,
    "micromamba": _CONDA,
    "nsys": Wrapper(
        ("profile",), _values("-t -o -s -f -d -y -c -w --trace --output --sample --force-overwrite --delay --duration")
    ),
    "ncu": Wrapper((), _values("-o -k -c -s --set --section --target-processes --kernel-name --launch-count --launch-skip")),
    "ssh": Wrapper(
        (),
        _values("-p -i -l -o -F -J -L -R -D -b -c -E -W"),
        words=1,
        crossing="none",
        note="ssh takes no variable of this shell to the other machine",
        joins=True,
    ),
    "docker": Wrapper(("run", "exec"), _DOCKER, words=1, crossing="none", note=_CONTAINER, joins=True),
    "podman": Wrapper(("run", "exec"), _DOCKER, words=1, crossing="none", note=_CONTAINER, joins=True),
    "nerdctl": Wrapper(("run", "exec"), _DOCKER, words=1, crossing="none", note=_CONTAINER, joins=True),
    "singularity": Wrapper(("exec", "run"), _APPTAINER, words=1),
    "apptainer": Wrapper(("exec", "run"), _APPTAINER, words=1),
    "kubectl": Wrapper(
        ("exec",),
        _values("-n --namespace -c --container"),
        words=1,
        crossing="none",
        note="a pod has its own variables",
        joins=True,
    ),
}
"""By the name of the program."""

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
CONTROL = frozenset({"then", "do", "else", "elif", "if", "while", "until", "!", "{", "("})
"""Words of the shell that may stand before a command."""
