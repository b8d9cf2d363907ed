"""Evaluation in the Trainer: one forward without graph, then, with compute_metrics, logits that are gathered and kept."""

from __future__ import annotations

from firstfault.memory.plan import Evaluation


def kept_logits(evaluation: Evaluation, processes: int) -> int:
    """How many sets of one batch's logits lie on the device at the worst moment besides the batch's own.

    Before batch b is added there are (b - 1) x P sets, then the gathered P of the new batch, and the concatenation of all.
    `eval_accumulation_steps` moves them to host memory after so many batches.
    """
    if not evaluation.metrics or evaluation.preprocesses_logits:
        return 0
    batches = evaluation.batches
    if evaluation.accumulation_steps:
        batches = min(batches, evaluation.accumulation_steps)
    gathered = processes if processes > 1 else 0
    if batches <= 1:
        return gathered
    return (batches - 1) * processes + gathered + batches * processes
