"""Stacks of a memory snapshot, each kept once, and the call site that each stands for: your frame, library frames folded."""

from __future__ import annotations

from firstfault.model.memory_report import CallSite, Phase

MAX_FRAMES = 100_000
MAX_KEPT_FRAMES = 2_000_000
MAX_SITES = 20_000
MAX_STACK = 400
MAX_TEXT = 300

_LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python3")
_ACCELERATORS = ("/torch/_tensor.py", "/torch/autograd/")


class Frame:
    """One frame of a stack. `rank` tells the user's own code (2), a package (1), torch (0) and what is no Python (-1) apart."""

    __slots__ = ("code", "line", "name", "path", "rank")

    def __init__(self, path: str, line: int, name: str) -> None:
        self.path = path.replace("\\", "/")
        self.line = line
        self.name = name[:MAX_TEXT]
        self.rank = _rank_of(self.path)
        self.code = 0

    def __str__(self) -> str:
        path = self.path
        for marker in _LIBRARY[:2]:
            path = path.rpartition(marker)[2]
        return f"{path}:{self.line} {self.name}"


class Stack:
    """A stack as a trace entry or block has it, the innermost frame first; `site` is the index of its call site."""

    __slots__ = ("code", "frames", "site")

    def __init__(self, site: int, frames: tuple[Frame, ...]) -> None:
        self.site = site
        self.frames = frames
        self.code = 0


NO_FRAMES, BEFORE, OTHER = 0, 1, 2
"""Sites of their own: memory without a stack, memory from before the recording began, sites beyond `MAX_SITES`."""


class Stacks:
    """Every frame, stack and call site once. `sites` by index; `overflow` turns true where some had to be put together."""

    def __init__(self) -> None:
        self.sites = [CallSite(), CallSite(call="allocated before the recording began"), CallSite(call="other call sites")]
        self.overflow = False
        self._frames: dict[tuple[str, int, str], Frame] = {}
        self._stacks: dict[tuple[Frame, ...], Stack] = {}
        self._indexes: dict[CallSite, int] = {}
        self._by_site: dict[int, Stack] = {}
        self._kept = 0

    def frame(self, path: object, line: object, name: object) -> Frame:
        """The frame of these three, whatever their types."""
        key = (str(path)[-MAX_TEXT:], line if isinstance(line, int) else 0, str(name)[:MAX_TEXT])
        found = self._frames.get(key)
        if found is None:
            if len(self._frames) >= MAX_FRAMES:
                self.overflow = True
                key = ("?", 0, "?")
            found = self._frames.setdefault(key, Frame(*key))
        return found

    def stack(self, frames: tuple[Frame, ...]) -> Stack:
        """The stack of these frames; one of the same call site where too many differ."""
        frames = frames[:MAX_STACK]
        found = self._stacks.get(frames)
        if found is None:
            site = self._index(_site_of(frames))
            if self._kept > MAX_KEPT_FRAMES:
                self.overflow = True
                return self._by_site.setdefault(site, Stack(site, frames))
            self._kept += len(frames) + 4
            found = self._stacks[frames] = Stack(site, frames)
            self._by_site.setdefault(site, found)
        return found

    def _index(self, site: CallSite) -> int:
        if site == self.sites[NO_FRAMES]:
            return NO_FRAMES
        found = self._indexes.get(site)
        if found is None:
            if len(self.sites) >= MAX_SITES:
                self.overflow = True
                return OTHER
            found = self._indexes[site] = len(self.sites)
            self.sites.append(site)
        return found


def _rank_of(path: str) -> int:
    if not path.endswith(".py") and not path.startswith(("<ipython", "<stdin>", "/tmp/ipykernel", "<string>")):
        return -1
    if "/torch/" in path and ("-packages/torch/" in path or "/lib/python3" in path):
        return 0
    return 1 if any(marker in path for marker in _LIBRARY) else 2


def _site_of(frames: tuple[Frame, ...]) -> CallSite:
    """The innermost frames of each kind; frames that are no Python only where there is nothing else."""
    user = package = call = None
    for frame in frames:
        if frame.rank < 0:
            continue
        call = call or frame
        if frame.rank >= 1:
            package = package or frame
        if frame.rank == 2:
            user = frame
            break
    if call is None:
        native = [frame for frame in frames if frame.name and frame.name != "??"]
        call = next((frame for frame in native if "alloc" not in frame.name.lower()), native[0] if native else None)
    return CallSite(
        user=str(user) if user else "",
        package=str(package) if package and package is not user else "",
        call=str(call) if call and call is not package and call is not user else "",
        phase=_phase_of(frames),
    )


def _phase_of(frames: tuple[Frame, ...]) -> Phase:
    """The part of a step, where the stack tells it: a torch optimizer, autograd, or Python code outside of both."""
    python = False
    for frame in frames:
        if "/torch/optim/" in frame.path:
            return "optimizer"
        if frame.name == "backward" and any(part in frame.path for part in _ACCELERATORS):
            return "backward"
        if frame.rank < 0 and "torch::autograd::Engine" in frame.name:
            return "backward"
        python = python or frame.rank >= 1
    return "forward" if python else ""
