"""What kind of source a file is: by its content first, by its name second. One row a kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property, lru_cache

from firstfault.ingest.dump_head import is_dump, is_memory_snapshot
from firstfault.ingest.linekind import is_command, is_key, is_log, is_prose, prompt_command
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import SourceKind

SAMPLE_BYTES = 64 << 10
MAX_SAMPLE_LINES = 400
_NO_CONTROLS = bytes({*range(256)} - {*range(32)} | {*b"\t\n\r\x1b\x08\x0c\x07\x00"})

_HOLE = lazy_pattern(rb"\A\0+|\0{16,}")
_DEEPSPEED_KEYS = lazy_pattern(
    r'"(?:zero_optimization|train_micro_batch_size_per_gpu|train_batch_size|gradient_accumulation_steps)"\s*:'
)
_ACCELERATE_KEYS = frozenset(
    (
        *("compute_environment", "distributed_type", "num_processes", "num_machines", "machine_rank", "mixed_precision"),
        *("downcast_bf16", "main_training_function", "fsdp_config", "deepspeed_config", "rdzv_backend", "same_network"),
        *("main_process_port", "main_process_ip", "use_cpu", "dynamo_config", "megatron_lm_config", "enable_cpu_affinity"),
    )
)
# What files of training arguments say and no DeepSpeed or accelerate configuration does: Trainer, TRL, LLaMA-Factory, axolotl.
_ARGUMENT_KEYS = frozenset(
    (
        *("per_device_train_batch_size", "per_device_eval_batch_size", "micro_batch_size", "num_train_epochs", "num_epochs"),
        *("output_dir", "learning_rate", "lr_scheduler_type", "lr_scheduler", "warmup_ratio", "warmup_steps", "logging_steps"),
        *("save_steps", "save_strategy", "eval_steps", "eval_strategy", "evaluation_strategy", "gradient_checkpointing"),
        *("model_name_or_path", "base_model", "max_seq_length", "sequence_len", "cutoff_len", "dataset_mixer", "lora_r"),
        *("finetuning_type", "max_steps", "global_step", "log_history", "is_world_process_zero", "is_local_process_zero"),
    )
)
_MIN_ARGUMENTS = 3
_JSON_KEY = lazy_pattern(r'"([a-z]\w{2,60})"\s*:')
_LOG_NAME = lazy_pattern(r"\.(?:log|out|err|stderr|stdout)(?:\.\d+)?$", needs=(".log", ".out", ".err", ".stderr", ".stdout"))
_ERROR_FILE = lazy_pattern(r'\s*\{\s*"message"\s*:', needs='"message"')
_VITALS = lazy_pattern(r'\{"rank": ?\d+, (?=.*"(?:step|accumulation_steps|\w+_bytes|\w+_s)")', needs='{"rank"')
_SLURM_STATES = "COMPLETED|FAILED|CANCELLED|OUT_OF_ME\\w*|TIMEOUT|PREEMPTED|NODE_FAIL|RUNNING|REQUEUED|BOOT_FAIL"
_SLURM_ROW = lazy_pattern(
    rf"\s*\d+(?:_\d+)?(?:\.\w+)?[ |]+.*\b(?:{_SLURM_STATES})\b", needs=tuple(_SLURM_STATES.replace("\\w*", "").split("|"))
)
_SLURM_HEAD = lazy_pattern(r"\s*JobID(?:Raw)?[ |].*State|JobId=\d+ (?:JobName|ArrayJobId)=", needs="Job")
_KUBERNETES = lazy_pattern(
    r'\s*"containerStatuses"\s*:|\s*containerStatuses:|(?:NAMESPACE +)?LAST SEEN +TYPE +REASON'
    r"|\s*(?:Last )?State: +(?:Terminated|Waiting)\b|\s*Reason: {2,}(?:Evicted|OOMKilled)\s*$"
    r"|\s*Type +Reason +Age +From +Message\s*$",
    needs=("containerStatuses", "LAST SEEN", "State: ", "Reason"),
)
_KUBERNETES_OBJECT = lazy_pattern(r'"kind"\s*:\s*"(?:Pod|PodList|Event|EventList)"')
_DESCRIBE_NAME = lazy_pattern(r"Name: +\S", needs="Name: ")
_DESCRIBE_MORE = lazy_pattern(r"(?:Namespace|Status|Containers|Events|Node|Reason): *")
_NVIDIA_SMI = lazy_pattern(
    r"\|? *NVIDIA-SMI \d|(?:index|pid|timestamp|gpu_\w+), .*\[(?:MiB|%|W)\]|GPU \d+: (?:NVIDIA|Tesla|GeForce|A100|H100)"
    r"|=+ ?NVSMI LOG|\| .*\d+ ?MiB */ *\d+ ?MiB",
    needs=("NVIDIA-SMI", "[MiB", "[%", "[W", "GPU ", "NVSMI LOG", "MiB"),
)
_CSV_ROW = lazy_pattern(r"\d+, ")
_SMI_ROW = lazy_pattern(r"\s*[A-Z][\w ./()-]{1,60} +: |\s*[A-Z][\w ./()-]{1,60}$")
_ENVIRONMENT = lazy_pattern(
    r"PyTorch version: |Is debug build: |Collecting environment information|- `?(?:Accelerate|transformers)`? version: "
    r"|Package +Version\s*$",
    needs=("PyTorch version: ", "Is debug build: ", "Collecting environment", " version: ", "` version: ", "Package "),
)
_VERSION_ROW = lazy_pattern(
    r"\s*(?:- )?`?[A-Za-z][\w.+ ()-]{0,40}?`?(?:==|: +| {1,40})v?\d+\.\d+\S*(?:\s|$)|gpus? {2,}\d+ ?x |host ram +\d"
)
_VARIABLE = lazy_pattern(r"(?:export |declare -x )?[A-Z_][A-Z0-9_]*=", needs="=")
_KERNEL = lazy_pattern(
    r"(?:<\d+>)?\[ *\d+\.\d{6}\] |\w{3} +\d+ [\d:]{8} \S+ kernel: |\S+T\S+ \S+ kernel: |\[\w{3} \w{3} +\d+ [\d:]{8} \d{4}\] ",
    needs=("kernel: ", "] "),
)
_PYTHON = lazy_pattern(
    r"\s*(?:import \w|from [\w.]+ import |def \w+\(|class \w+[(:]|@\w|if __name__ ==|return\b|with .*:$|for .* in .*:$"
    r"|if .*:$|\w+ = \w)"
)
_PYTHON_SURE = lazy_pattern(r"(?:import \w+|from [\w.]+ import |def \w+\(.*:\s*$|class \w+.*:\s*$|if __name__ ==)")


class Sample:
    """The beginning of a source, decoded, with what several rows ask for."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = re.sub(r"\.(?:gz|zst)$", "", name.replace("\\", "/").rpartition("/")[2].lower())
        self.data = data[:SAMPLE_BYTES]
        self.text = self.data.decode("utf-8", errors="replace").removeprefix("\ufeff")

    @cached_property
    def lines(self) -> list[str]:
        """The non-empty lines, at most 400."""
        return [line for line in re.split(r"[\r\n]+", self.text) if line.strip()][:MAX_SAMPLE_LINES]

    @property
    def is_empty(self) -> bool:
        """True if nothing stands in it. Behind a hole that fills the whole sample the text may still come."""
        return not self.text.replace("\0", "").strip() and not (b"\0" in self.data and len(self.data) == SAMPLE_BYTES)

    @cached_property
    def printed(self) -> list[bool]:
        """For each of the lines, whether a program printed it."""
        return [is_log(line) for line in self.lines]

    @property
    def printed_share(self) -> float:
        """How many of the lines a program printed."""
        return sum(self.printed) / len(self.lines) if self.lines else 0.0

    def share(self, test: Callable[[str], object]) -> float:
        """How many of the lines pass `test`."""
        return sum(1 for line in self.lines if test(line)) / len(self.lines) if self.lines else 0.0

    def first(self, count: int, pattern: re.Pattern[str]) -> bool:
        """True if one of the first `count` lines begins with `pattern`."""
        return any(pattern.match(line) for line in self.lines[:count])

    @cached_property
    def has_prompt(self) -> bool:
        """True if somebody typed a command in it."""
        return any(prompt_command(line) is not None for line in self.lines)


@lru_cache(maxsize=4)
def sniff(name: str, head: bytes) -> SourceKind:
    """The kind of a source from its first bytes and its name."""
    # Asked twice of an input that is no paste: when it is opened, and when it is split.
    sample = Sample(name, head)
    for kind, test in _BY_CONTENT:
        if test(sample):
            return kind
    for kind, pattern in _BY_NAME:
        if pattern.search(sample.name):
            return kind
    return _text_kind(sample)


def structured_kind(name: str, head: bytes) -> SourceKind | None:
    """The kind if the whole of it is a configuration, a table, a dump, a program ... and no running text."""
    kind = sniff(name, head)
    return None if kind in ("log", "prose", "unknown") else kind


def _is_binary(sample: Sample) -> bool:
    # A log that was truncated while open begins with zeros; one that a machine was writing when it went down ends with them.
    data = _HOLE.sub(b"", sample.data)[:8192]
    if data.startswith((b"\x7fELF", b"PK\x03\x04", b"\x89PNG", b"SQLite format 3\0", b"%PDF-", b"\x80\x02}", b"\x80\x04\x95")):
        return True
    controls = len(data.translate(None, _NO_CONTROLS))
    broken = data.decode("utf-8", errors="replace").count("\ufffd")
    return bool(data) and (controls > 0.1 * len(data) or broken + data.count(0) > 0.3 * len(data))


def _is_accelerate(sample: Sample) -> bool:
    if sample.has_prompt or sample.share(_is_yaml_line) < 0.9:
        return False
    keys = {line.partition(":")[0].strip() for line in sample.lines if ":" in line}
    return "distributed_type" in keys or len(keys & _ACCELERATE_KEYS) >= 3


def _is_arguments(sample: Sample) -> bool:
    if sample.has_prompt or _LOG_NAME.search(sample.name):
        return False
    if sample.text.lstrip().startswith("{"):
        # One object, not one a line: those are records of a run.
        records = sum(line.startswith("{") for line in sample.lines)
        keys = set(_JSON_KEY.findall(sample.text)) if records == 1 else set()
    elif sample.share(_is_yaml_line) >= 0.8:
        keys = {line.partition(":")[0] for line in sample.lines if ":" in line}
    else:
        return False
    return len(keys & _ARGUMENT_KEYS) >= _MIN_ARGUMENTS


def _is_yaml_line(line: str) -> bool:
    return is_key(line) or line.lstrip().startswith(("#", "- ", "---", "..."))


def _is_command_file(sample: Sample) -> bool:
    if sample.has_prompt:
        return False
    if sample.lines[0].startswith("#!") and "sh" in sample.lines[0]:
        return True
    continued = commands = 0
    joined = False
    for line in sample.lines:
        if joined or (is_command(line) and not line.startswith("export ")):
            commands += 1
        elif line.lstrip().startswith("#") or _VARIABLE.match(line):
            continued += 1
        joined = line.rstrip().endswith("\\")
    return commands > 0 and commands + continued >= 0.8 * len(sample.lines)


def _is_environment(sample: Sample) -> bool:
    if sample.first(12, _ENVIRONMENT) and _is_one_piece(sample, _VERSION_ROW, _ENVIRONMENT):
        return True
    if len(sample.lines) >= 2 and sample.share(_VARIABLE.match) >= 0.8:
        return True
    return len(sample.lines) >= 2 and sample.printed_share < 0.2 and sample.share(_VERSION_ROW.match) >= 0.6


def _is_one_piece(sample: Sample, *own: re.Pattern[str]) -> bool:
    """True if neither records nor sentences stand beside the table, whose rows are `own`."""

    def is_sentence(line: str) -> bool:
        return is_prose(line) and not any(pattern.match(line) for pattern in own)

    return sample.printed_share < 0.15 and sample.share(is_sentence) < 0.4


def _is_kubernetes(sample: Sample) -> bool:
    if sample.first(40, _DESCRIBE_NAME) and sample.first(40, _DESCRIBE_MORE) and sample.printed_share < 0.5:
        return True
    if sample.text.lstrip().startswith("{") and '"apiVersion"' in sample.text and _KUBERNETES_OBJECT.search(sample.text):
        return True
    return any(_KUBERNETES.match(line) for line in sample.lines) and sample.printed_share < 0.5


def _is_slurm(sample: Sample) -> bool:
    return sample.first(3, _SLURM_HEAD) or sample.share(_SLURM_ROW.match) >= 0.6


def _is_python(sample: Sample) -> bool:
    if sample.printed_share > 0.1 or sample.has_prompt:
        return False
    sure = sum(1 for line in sample.lines if _PYTHON_SURE.match(line))
    return sure >= 2 and sample.share(_PYTHON.match) >= 0.3


_BY_CONTENT: tuple[tuple[SourceKind, Callable[[Sample], bool]], ...] = (
    ("empty", lambda sample: sample.is_empty and sample.name != "error.json"),
    ("memory_snapshot", lambda sample: is_memory_snapshot(sample.data)),
    ("flight_recorder", lambda sample: is_dump(sample.data)),
    ("binary", _is_binary),
    ("error_file", lambda sample: bool(_ERROR_FILE.match(sample.text)) or sample.name == "error.json"),
    ("arguments", _is_arguments),
    ("deepspeed_config", lambda sample: sample.text.lstrip().startswith("{") and bool(_DEEPSPEED_KEYS.search(sample.text))),
    ("vitals", lambda sample: sample.first(5, _VITALS) and sample.share(lambda line: line.startswith("{")) >= 0.8),
    ("slurm", lambda sample: not sample.has_prompt and _is_slurm(sample)),
    ("kubernetes", lambda sample: not sample.has_prompt and _is_kubernetes(sample)),
    ("command", _is_command_file),
    ("environment", lambda sample: not sample.has_prompt and _is_environment(sample)),
    (
        "nvidia_smi",
        lambda sample: (
            not sample.has_prompt and sample.first(6, _NVIDIA_SMI) and _is_one_piece(sample, _NVIDIA_SMI, _CSV_ROW, _SMI_ROW)
        ),
    ),
    ("kernel", lambda sample: not sample.has_prompt and sample.share(_KERNEL.match) >= 0.5),
    ("accelerate_config", _is_accelerate),
    ("python", _is_python),
)

_BY_NAME: tuple[tuple[SourceKind, re.Pattern[str]], ...] = (
    ("accelerate_config", lazy_pattern(r"^(?:accelerate\w*|default_config)\.ya?ml$", needs=(".yaml", ".yml"))),
    ("deepspeed_config", lazy_pattern(r"^(?:ds|deepspeed|zero)[\w.-]*\.json$", needs=".json")),
    ("python", lazy_pattern(r"\.py$", needs=".py")),
    ("command", lazy_pattern(r"\.(?:sh|bash|sbatch|slurm)$|^(?:cmd|command|launch)\.txt$")),
)


def _text_kind(sample: Sample) -> SourceKind:
    if _LOG_NAME.search(sample.name):
        return "log"
    logs = sample.printed_share
    if logs >= 0.5:
        return "log"
    words = [not printed and is_prose(line) for printed, line in zip(sample.printed, sample.lines, strict=True)]
    prose = sum(words) / len(words) if words else 0.0
    if logs > 0 and prose < 0.1:
        return "log"
    if prose >= 0.5:
        return "prose"
    return "log" if logs >= 0.2 else "unknown"
