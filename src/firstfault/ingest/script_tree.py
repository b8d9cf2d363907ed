"""The syntax tree of a training script or of an excerpt of one, with parents, imports and what can be said of the whole."""

from __future__ import annotations

import ast
import builtins
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from firstfault.lazy_pattern import lazy_pattern

MAX_CHARS = 256 << 10
MAX_DEPTH = 150
MAX_NODES = 100_000
MAX_PIECES = 200

_BROKEN = (SyntaxError, ValueError, RecursionError, MemoryError)
_CONTINUES = lazy_pattern(r"(?:else|elif|except|finally)\b|[)\]}]")
_EXCERPT = lazy_pattern(r"^\s*(?:#\s*)?(?:\.\.\.|…)|#.*\b(?:excerpt|snip|omitted|truncated)\b")
_GIVEN = frozenset({"__file__", "__name__", "__doc__", "__builtins__", "__spec__"})

Loop = ast.For | ast.AsyncFor | ast.While
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Parsed(NamedTuple):
    """What could be parsed: the statements, whether that is all of the text, and why not."""

    body: list[ast.stmt]
    complete: bool
    problem: str = ""


def parse(text: str) -> Parsed:
    """The statements of a text, or those of its pieces that are Python; nothing of it is ever run."""
    if len(text) > MAX_CHARS:
        return Parsed([], False, f"larger than {MAX_CHARS >> 10} KiB")
    text = textwrap.dedent(text.replace("\r\n", "\n").replace("\r", " "))
    with warnings.catch_warnings():
        # An odd escape in the user's strings is a warning of the compiler, and none of our business.
        warnings.simplefilter("ignore")
        try:
            body = ast.parse(text).body
        except _BROKEN as error:
            line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            problem = f"not Python as a whole{line}: only the pieces that are were read"
            return Parsed(_shallow(_pieces(text)), False, problem)
    shallow = _shallow(body)
    complete = len(shallow) == len(body)
    return Parsed(shallow, complete, "" if complete else "too long or nested too deeply: read in part")


def _pieces(text: str) -> list[ast.stmt]:
    """The top-level statements that parse by themselves."""
    found: list[ast.stmt] = []
    rows = text.split("\n")
    starts: list[int] = []
    for at, row in enumerate(rows):
        decorated = bool(starts) and at == starts[-1] + 1 and rows[starts[-1]].startswith("@")
        if at == 0 or (row[:1].strip() and not _CONTINUES.match(row) and not decorated):
            starts.append(at)
    for start, stop in list(zip(starts, [*starts[1:], len(rows)], strict=True))[:MAX_PIECES]:
        try:
            body = ast.parse(textwrap.dedent("\n".join(rows[start:stop]))).body
        except _BROKEN:
            continue
        for statement in body:
            ast.increment_lineno(statement, start)
        found.extend(body)
    return found


def _shallow(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements whose trees are not too deep, up to a number of nodes."""
    kept, nodes = [], 0
    for statement in body:
        level: list[ast.AST] = [statement]
        depth = 0
        while level and depth <= MAX_DEPTH and nodes <= MAX_NODES:
            nodes += len(level)
            level = [child for node in level for child in ast.iter_child_nodes(node)]
            depth += 1
        if not level:
            kept.append(statement)
    return kept


class Script:
    """The parsed statements, and what readers ask of them."""

    def __init__(self, text: str, *, ends: bool = True) -> None:
        parsed = parse(text)
        self.problem = parsed.problem
        self.tree = ast.Module(body=parsed.body, type_ignores=[])
        self._complete = parsed.complete and ends
        self._text = text
        self.nodes: tuple[ast.AST, ...] = tuple(ast.walk(self.tree))
        self._parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self._in_body = {
            child for node in self.nodes if isinstance(body := getattr(node, "body", None), list) for child in body
        }

    @cached_property
    def whole(self) -> bool:
        """True if this is a complete file: nothing is left out, and every name that it uses is made in it or imported."""
        if not self._complete or not self.tree.body or any(_EXCERPT.search(row) for row in self._text.split("\n")):
            return False
        used = {node.id for node in self.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        return "*" not in self.imports and used <= self._bound | set(dir(builtins)) | _GIVEN

    @cached_property
    def _bound(self) -> set[str]:
        bound = set(self.imports)
        for node in self.nodes:
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                bound.add(node.name)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
                bound.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                bound.add(node.rest)
        return bound

    @cached_property
    def imports(self) -> dict[str, str]:
        """Names that imports make, with what they stand for: `nn` -> `torch.nn`."""
        found: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for name in node.names:
                    found[name.asname or name.name.partition(".")[0]] = (
                        name.name if name.asname else name.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for name in node.names:
                    found[name.asname or name.name] = f"{node.module or ''}.{name.name}".lstrip(".")
        return found

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """All calls, in the order of their lines."""
        found = [node for node in self.nodes if isinstance(node, ast.Call)]
        return tuple(sorted(found, key=lambda call: (call.end_lineno or call.lineno, call.end_col_offset or 0)))

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Functions of the script that have a name of their own."""
        found: dict[str, Function] = {}
        doubtful: set[str] = set()
        for node in self.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if node.name in found:
                    doubtful.add(node.name)
                found[node.name] = node
        return {name: node for name, node in found.items() if name not in doubtful}

    @cached_property
    def constants(self) -> dict[str, ast.Constant]:
        """Names that are set once in the whole script, and to a constant."""
        found: dict[str, ast.Constant] = {}
        written: list[str] = [arg.arg for arg in self.nodes if isinstance(arg, ast.arg)]
        for node in self.nodes:
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                written.append(node.id)
                parent = self._parents.get(node)
                if isinstance(parent, ast.Assign) and isinstance(parent.value, ast.Constant):
                    found[node.id] = parent.value
        times = Counter(written)
        return {name: value for name, value in found.items() if times[name] == 1}

    def dotted(self, node: ast.AST | None) -> str:
        """`nn.Linear` as `torch.nn.Linear`: the dotted name with its import resolved; empty for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join((self.imports.get(node.id, node.id), *reversed(parts)))

    def callee(self, call: ast.Call) -> str:
        """The dotted name of what is called; a method of an expression is `.method`."""
        name = self.dotted(call.func)
        return name or (f".{call.func.attr}" if isinstance(call.func, ast.Attribute) else "")

    def constant(self, node: ast.AST | None) -> bool | int | float | str | None:
        """The value of a constant, also behind a name that is set only once; None for anything else, and for None."""
        if isinstance(node, ast.Name) and node.id in self.constants:
            node = self.constants[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, str)):
            return node.value
        return None

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around `node`."""
        return self._parents.get(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node`, the nearest first."""
        found = self._parents.get(node)
        while found is not None:
            yield found
            found = self._parents.get(found)

    def scope(self, node: ast.AST) -> ast.AST:
        """The function around `node`, or the module."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
        return next((found for found in self.above(node) if isinstance(found, kinds)), self.tree)

    def loops(self, node: ast.AST) -> tuple[Loop, ...]:
        """The loops around `node` in its function, the innermost first; what a loop runs over stands outside of it."""
        found: list[Loop] = []
        inner = node
        for outer in self.above(node):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                break
            if isinstance(outer, (ast.For, ast.AsyncFor, ast.While)) and inner in self._in_body:
                found.append(outer)
            inner = outer
        return tuple(found)

    def guards(self, node: ast.AST, stop: ast.AST | None = None) -> tuple[ast.If, ...]:
        """The `if` statements around `node` up to `stop` or to its function."""
        found: list[ast.If] = []
        for outer in self.above(node):
            if outer is stop or isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                break
            if isinstance(outer, ast.If):
                found.append(outer)
        return tuple(found)

    def is_under(self, node: ast.AST, guard: ast.If) -> bool:
        """True if `node` stands in the branch of `guard` whose test is true."""
        inner = node
        for outer in self.above(node):
            if outer is guard:
                return inner in self._in_body
            inner = outer
        return False


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword of a call."""
    return next((one.value for one in call.keywords if one.arg == name), None)


def is_open(call: ast.Call) -> bool:
    """True if the call passes on `**kwargs` or `*args`: which arguments it has is not known."""
    return any(one.arg is None for one in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args)


def names_in(nodes: ast.AST | Sequence[ast.AST]) -> set[str]:
    """Names that are read anywhere in `nodes`."""
    chosen = nodes if isinstance(nodes, Sequence) else (nodes,)
    return {
        node.id for top in chosen for node in ast.walk(top) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
