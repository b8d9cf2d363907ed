"""Hand-made diagnoses for the tests of rendering: one of each shape that a reader may get."""

from __future__ import annotations

from firstfault.model.diagnosis import (
    Alternative,
    Collateral,
    Diagnosis,
    Evidence,
    Fix,
    Initiating,
    Missing,
    OtherFinding,
    Reason,
    SourceSummary,
    TimelineEntry,
    Verification,
)

TITLES = {
    "cuda-oom": "A GPU ran out of memory",
    "cuda-oom-optimizer-state": "The optimizer state does not fit beside the model",
    "cuda-oom-activations": "The activations of one micro-batch do not fit",
    "eval-predictions-kept-on-gpu": "Predictions of the whole evaluation stay on the GPU",
    "memory-longest-batch": "One rank drew a much longer batch and ran out of memory",
}

DIFF = """\
--- a/train.yaml
+++ b/train.yaml
@@ -12,4 +12,4 @@
 data:
   path: corpus.jsonl
-  max_length: null
+  max_length: 4096
   seed: 7
"""


def established() -> Diagnosis:
    """One of four ranks ran out of memory; the launcher stopped the others; the fix is a diff that applies."""
    stopped = [
        TimelineEntry(rank=rank, host="node-1", time="2026-03-01T10:41:12.2", kind="stopped", text="SIGTERM", evidence="e6")
        for rank in (0, 1, 3)
    ]
    waiting = [
        TimelineEntry(rank=rank, host="node-1", time="2026-03-01T10:41:07.9", kind="collateral", text="waits in all-reduce")
        for rank in (0, 1, 3)
    ]
    progress = [
        TimelineEntry(rank=rank, host="node-1", time=time, kind="progress", text=text)
        for rank in range(4)
        for time, text in (("2026-03-01T10:39:00.0", "step 1"), ("2026-03-01T10:41:05.1", "step 250"))
    ]
    return Diagnosis(
        verdict="established",
        entry="memory-longest-batch",
        title=TITLES["memory-longest-batch"],
        category="memory",
        path=("cuda-oom", "cuda-oom-activations", "memory-longest-batch"),
        initiating=Initiating(rank=2, ranks=(2,), host="node-1", time="10:41:07.3", certainty="established", evidence=("e1",)),
        collateral=tuple(
            Collateral(
                rank=rank,
                entry="launcher-stops-siblings",
                what="stopped by the launcher",
                explained_by="the failure of rank 2, 4.9 s before",
                evidence=(key,),
            )
            for rank, key in ((0, "e6"), (1, "e7"), (3, "e8"))
        ),
        cause="At step 251 rank 2 drew a sample of 8,104 tokens; the others had 2,190 or fewer. 4.64 GiB were asked for, "
        "512 MiB were free.",
        mechanism="Batches are padded to their longest sample and `max_length` is not set, so one long sample decides how "
        "much memory the activations of its rank take.",
        reasons=(
            Reason(text="Rank 2 had 3.7 times as many tokens as any other rank in step 251.", weight=5, evidence=("e2", "e3")),
            Reason(text="max_length is null.", weight=2, evidence=("e4",)),
        ),
        fix=(
            Fix(
                title="Limit the length of a sample",
                kind="edit",
                file="train.yaml",
                text=DIFF,
                risk="samples beyond 4,096 tokens are cut: 0.8 % of those seen in the log",
                applies=True,
            ),
            Fix(
                title="Sort samples by length",
                kind="edit",
                file="train.py",
                text="-group_by_length=False,\n+group_by_length=True,\n",
            ),
        ),
        verify=(
            Verification(
                command="firstfault run --steps 300 -- torchrun --nproc-per-node 4 train.py --config train.yaml",
                expect="300 steps, no rank above 22.5 GiB",
            ),
        ),
        alternatives=(
            Alternative(
                entry="cuda-oom-optimizer-state",
                verdict="ruled_out",
                against=("The failing allocation was made by a forward pass at step 251, not by the optimizer's first step.",),
            ),
        ),
        evidence=(
            Evidence(
                id="e1",
                source="logs/rank2.log",
                line=8841,
                offset=913245,
                rank=2,
                host="node-1",
                time="10:41:07.3",
                signal="torch.cuda.oom",
                text="[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.64 GiB. GPU 2 has a total "
                "capacity of 23.69 GiB of which 512.00 MiB is free. Including non-PyTorch memory, this process "
                "has 23.18 GiB memory in use.",
            ),
            Evidence(id="e2", source="logs/rank2.log", line=8829, offset=911002, rank=2, text="step 251 seq_len=8104"),
            Evidence(id="e3", source="logs/rank0.log", line=8833, offset=911544, rank=0, text="step 251 seq_len=2190"),
            Evidence(id="e4", source="train.yaml", line=14, offset=301, text="  max_length: null"),
            Evidence(id="e5", source="nvidia-smi.txt", line=14, offset=988, text="| No other process on GPU 2 |"),
            Evidence(
                id="e6",
                source="logs/launcher.log",
                line=40,
                offset=4012,
                rank=0,
                text="Sending process 4101 closing signal SIGTERM",
            ),
            Evidence(
                id="e7",
                source="logs/launcher.log",
                line=41,
                offset=4070,
                rank=1,
                text="Sending process 4102 closing signal SIGTERM",
            ),
            Evidence(
                id="e8",
                source="logs/launcher.log",
                line=42,
                offset=4128,
                rank=3,
                text="Sending process 4104 closing signal SIGTERM",
            ),
        ),
        timeline=(
            *progress,
            TimelineEntry(
                rank=2,
                host="node-1",
                time="2026-03-01T10:41:07.3",
                kind="initiating",
                text="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.64 GiB.",
                evidence="e1",
            ),
            *waiting,
            *stopped,
        ),
        facts={"launch.processes": 4, "oom.phase": "forward"},
        sources=(
            *(
                SourceSummary(path=f"logs/rank{rank}.log", kind="log", rank=rank, bytes=930000, lines=53091)
                for rank in range(4)
            ),
            SourceSummary(path="logs/launcher.log", kind="log", bytes=4400, lines=43),
            SourceSummary(path="train.yaml", kind="unknown", bytes=412, lines=21),
        ),
        elapsed_s=0.93,
    )


def undetermined() -> Diagnosis:
    """A cut paste: two causes fit, one fact would decide."""
    return Diagnosis(
        verdict="undetermined",
        entry="cuda-oom",
        title=TITLES["cuda-oom"],
        category="memory",
        path=("cuda-oom",),
        initiating=Initiating(rank=2, ranks=(2,), certainty="likely", evidence=("e1",)),
        cause="7.66 GiB were asked for, 1.12 GiB were free.",
        reasons=(Reason(text="The allocator of GPU 2 refused 7.66 GiB.", weight=3, evidence=("e1",)),),
        missing=(
            Missing(
                fact="oom.phase",
                ask="Which frames made the allocation?",
                values=("forward", "evaluation"),
                why="Which frames made the allocation? The paste starts below the Python frame that made the allocation.",
                command="firstfault diagnose rank2.log (the whole file: it is read here, not sent)",
                separates=("eval-predictions-kept-on-gpu", "cuda-oom-activations"),
                cost="seconds",
            ),
            Missing(
                fact="train.accumulation_steps",
                ask="How many micro-batches make one step?",
                why="It is not in the paste.",
                command="grep -n accumulation train.py",
            ),
        ),
        alternatives=(
            Alternative(
                entry="eval-predictions-kept-on-gpu",
                verdict="possible",
                for_=("An evaluation was running: 331 of 899 batches.",),
            ),
            Alternative(
                entry="cuda-oom-activations", verdict="possible", for_=("The batch holds 16 samples of 4,096 tokens.",)
            ),
        ),
        evidence=(
            Evidence(
                id="e1",
                source="pasted.txt",
                line=58,
                offset=4210,
                rank=2,
                signal="torch.cuda.oom",
                text="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.66 GiB. GPU 2 has 23.69 GiB in all",
            ),
        ),
        timeline=(
            TimelineEntry(rank=2, kind="progress", text="331/899"),
            TimelineEntry(rank=2, kind="initiating", text="torch.OutOfMemoryError: CUDA out of memory.", evidence="e1"),
        ),
        sources=(SourceSummary(path="pasted.txt", kind="log", rank=2, bytes=4400, lines=61),),
        notes=("pasted.txt:1: the text begins inside a traceback; what stood above is unknown",),
        elapsed_s=0.02,
    )


def no_failure() -> Diagnosis:
    """A healthy run."""
    return Diagnosis(
        verdict="no_failure",
        title="All 2 ranks reached the end of training",
        cause='The word "error" stands in 14 lines of progress (`eval_error`); none of them reports a failure.',
        evidence=(Evidence(id="e1", source="run.log", line=4100, offset=212000, text="Training completed after 3000 steps"),),
        timeline=tuple(
            TimelineEntry(rank=rank, time=time, kind="progress", text=text)
            for rank in range(2)
            for time, text in (("09:00:01", "step 1"), ("11:14:59", "step 3000"))
        ),
        sources=(SourceSummary(path="run.log", kind="log", bytes=220000, lines=4101),),
        elapsed_s=0.11,
    )


def symmetric(ranks: int = 64) -> Diagnosis:
    """The same exception on all ranks."""
    return Diagnosis(
        verdict="likely",
        entry="script-argument-rejected",
        title="The script rejects an argument",
        category="launch",
        path=("python-exception", "script-argument-rejected"),
        initiating=Initiating(
            rank=None, ranks=tuple(range(ranks)), relation="symmetric", certainty="established", evidence=("e1", "e2")
        ),
        cause="train.py does not know `--local_rank`; the launcher adds it.",
        reasons=(Reason(text="The usage text of train.py was printed on every rank.", weight=3, evidence=("e1", "e2")),),
        collateral=(
            Collateral(rank=None, entry="launcher-exit-report", explained_by="exit code 2 of all ranks", evidence=("e3",)),
        ),
        fix=(
            Fix(
                title="Start without the option", kind="command", text="torchrun --nproc-per-node 8 train.py --config base.yaml"
            ),
            Fix(title="", kind="env", text="export FIRST=1"),
        ),
        verify=(Verification(command="torchrun --nproc-per-node 8 train.py --config base.yaml", expect="step 1 within 2 min"),),
        alternatives=(
            Alternative(entry="python-exception", verdict="possible", for_=("An exception ended all ranks.",)),
            Alternative(entry="script-argument-rejected", verdict="possible", against=("Rank 0 printed a step before.",)),
        ),
        others=(
            OtherFinding(
                entry="storage-error",
                verdict="likely",
                initiating=Initiating(rank=9, ranks=(9,), certainty="likely", evidence=("e3",)),
                evidence=("e3",),
            ),
        ),
        evidence=(
            Evidence(
                id="e1",
                source="job.log",
                line=12,
                offset=700,
                rank=0,
                text="train.py: error: unrecognized arguments: --local_rank=0",
            ),
            Evidence(
                id="e2",
                source="job.log",
                line=13,
                offset=760,
                rank=1,
                text="train.py: error: unrecognized arguments: --local_rank=1",
            ),
            Evidence(
                id="e3",
                source="job.log",
                line=99,
                offset=6000,
                text="torch.distributed ChildFailedError:",
            ),
        ),
        timeline=tuple(
            TimelineEntry(
                rank=rank,
                host=f"node-{rank // 8}",
                time=f"2026-03-01 10:00:{rank % 7:02d}",
                kind="initiating",
                text=f"train.py: error: unrecognized arguments: --local_rank={rank % 8}",
            )
            for rank in range(ranks)
        ),
        sources=(SourceSummary(path="job.log", kind="log", bytes=6100, lines=101),),
        elapsed_s=0.2,
    )


def thousand_ranks() -> Diagnosis:
    """Rank 700 of 1,000 fell silent; the others report a time-out at slightly different times; the kernel explains it."""
    others = [rank for rank in range(1000) if rank != 700]
    return Diagnosis(
        verdict="likely",
        entry="gpu-fell-off-the-bus",
        title="A GPU fell off the bus",
        initiating=Initiating(rank=700, ranks=(700,), host="node-87", time="10:02:11", certainty="likely", evidence=("e1",)),
        collateral=tuple(
            Collateral(rank=rank, entry="collective-timeout", explained_by="the silence of rank 700", evidence=("e2",))
            for rank in others
        ),
        evidence=(
            Evidence(
                id="e1",
                source="dmesg.txt",
                line=4,
                offset=300,
                host="node-87",
                text="NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
            ),
            Evidence(
                id="e2", source="job.log", line=52, offset=9000, rank=0, text="Watchdog caught collective operation timeout"
            ),
        ),
        timeline=(
            TimelineEntry(rank=None, host="node-87", time="10:02:11", kind="kernel", text="Xid 79", evidence="e1"),
            TimelineEntry(
                rank=700, host="node-87", time="10:02:11", kind="initiating", text="Xid 79: GPU has fallen off the bus"
            ),
            TimelineEntry(rank=700, host="node-87", time="10:01:58", kind="progress", text="step 800"),
            *(
                TimelineEntry(rank=rank, host=f"node-{rank // 8}", time="10:02:00", kind="progress", text="step 800")
                for rank in others
            ),
            *(
                TimelineEntry(
                    rank=rank,
                    host=f"node-{rank // 8}",
                    time=f"10:12:{rank % 17 + 11:02d}.{rank % 10}",
                    kind="collateral",
                    text=f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={rank})",
                )
                for rank in others
            ),
        ),
        sources=(
            SourceSummary(path="job.log", kind="log", bytes=61000, lines=9000),
            SourceSummary(path="dmesg.txt", kind="kernel", lines=40),
        ),
        elapsed_s=1.4,
    )


HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\ \x1b]0;title\x07 \x1b[2J\x9b1A "
    "\u202egnp.exe\u202c zero\u200bwidth ``` </script><img src=x onerror=alert(1)> ---\n# not a heading\n| a | b | "
    "中文日志 内存不足 👩\u200d🚀 a\u0301\u0301\u0301\u0301\u0301\u0301b\udcff"
)


def hostile() -> Diagnosis:
    """Text that tries to drive the terminal, leave its fence or run a script, in every field that a log can reach."""
    long_word = "/data/" + "x" * 300
    return Diagnosis(
        verdict="likely",
        entry="python-exception",
        title=f"An exception ended the script {HOSTILE}",
        initiating=Initiating(rank=0, ranks=(0,), host=HOSTILE, time=HOSTILE, certainty="likely", evidence=("e1",)),
        collateral=(Collateral(rank=1, entry="peer-lost", explained_by=HOSTILE, evidence=("e2",)),),
        cause=HOSTILE,
        mechanism=long_word,
        reasons=(Reason(text=HOSTILE, weight=5, evidence=("e1",)),),
        fix=(Fix(title=HOSTILE, kind="edit", file=HOSTILE, text=f"-{HOSTILE}\n+{long_word}\n\tfenced ````", risk=HOSTILE),),
        verify=(Verification(command=HOSTILE, expect=HOSTILE),),
        missing=(Missing(fact=HOSTILE, why=HOSTILE, command=HOSTILE, separates=("a", "b"), cost="seconds"),),
        alternatives=(Alternative(entry="other", verdict="possible", for_=(HOSTILE,), against=(HOSTILE,)),),
        evidence=(
            Evidence(id="e1", source="logs/\x1b[2Jevil.log", line=1, offset=0, rank=0, text=HOSTILE),
            Evidence(id="e2", source="中文" * 40, line=2, offset=10, rank=1, text=long_word),
        ),
        timeline=(
            TimelineEntry(rank=0, host=HOSTILE, time=HOSTILE, kind="initiating", text=HOSTILE, evidence="e1"),
            TimelineEntry(rank=1, kind="silent", text=""),
            TimelineEntry(rank=None, host=HOSTILE, kind="scheduler", text=HOSTILE),
        ),
        facts={"script.name": HOSTILE},
        sources=(SourceSummary(path="logs/\x1b[2Jevil.log", kind="log", rank=0, bytes=10, lines=0),),
        notes=(HOSTILE,) * 12,
    )


ALL = {
    "established": established,
    "undetermined": undetermined,
    "no-failure": no_failure,
    "symmetric": symmetric,
    "thousand-ranks": thousand_ranks,
    "hostile": hostile,
}
