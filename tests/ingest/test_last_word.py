from firstfault import diagnose

STEPS = "".join(f"step {step} loss {3 - step / 10:.1f}\n" for step in range(1, 9))


def test_an_unknown_exception_at_the_end_is_no_healthy_run():
    found = diagnose(f"{STEPS}acme.engine.FrobnicationError: the widget is full\n")
    assert found.verdict == "undetermined"
    assert found.entry == "python-exception"


def test_a_warning_at_the_end_is_healthy():
    assert diagnose(f"{STEPS}acme.engine.FrobnicationWarning: the widget is warm\n").verdict == "no_failure"


def test_an_exception_before_more_steps_was_handled():
    assert diagnose(f"acme.engine.FrobnicationError: retrying\n{STEPS}").verdict == "no_failure"


def test_the_traceback_of_a_worker_may_follow_a_sentence():
    text = (
        "How can I get equal sizes?\n\n"
        "RuntimeError: Caught RuntimeError in DataLoader worker process 0.\n"
        "Original Traceback (most recent call last):\n"
        '  File "/home/user/utils.py", line 114, in collate\n    batch = torch.stack(rows, dim=0)\n'
        "RuntimeError: stack expects each tensor to be equal size, but got [24, 32] at entry 0 and [24, 64] at entry 1\n"
    )
    assert diagnose(text).entry == "collate-length-mismatch"


def test_a_warning_beside_a_traceback_is_printed():
    text = (
        "/home/user/checkpoint.py:31: UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n"
        "Traceback (most recent call last):\n"
        '  File "train.py", line 9, in main\n    loss.backward()\n'
        "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn\n"
    )
    assert diagnose(f"It fails:\n\n```\n{text}```\nI use peft.\n").entry == "checkpointing-with-frozen-inputs"


def test_a_launchers_traceback_that_is_cut_names_no_fault_of_the_launcher():
    text = (
        "E0902 00:42:54.953000 1333 torch/distributed/elastic/multiprocessing/api.py:833] "
        "failed (exitcode: -9) local_rank: 0 (pid: 3787) of binary: /opt/bin/python\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/lib/python3.10/site-packages/accelerate/commands/launch.py", line 1067, in launch_command\n'
        "    deepspeed_launcher(args)\n"
    )
    assert diagnose(text).entry == "killed-by-sigkill"


def test_what_an_exception_asks_of_its_reader_is_no_sentence_of_a_post():
    line = (
        "ValueError: The config file at default_config.yaml had unknown keys (['fsdp_foo']), please try upgrading your "
        "`accelerate` version or fix (and potentially remove) these keys from your config file."
    )
    assert diagnose(f"accelerate says\n{line}\n").entry == "launcher-config-unknown-keys"


def test_the_label_of_a_host_is_no_key():
    lines = (
        "[rank9]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:219, remote "
        "process exited or there was a network error, NCCL version 2.20.5",
        "[rank9]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "[rank9]: Last error:",
    )
    assert diagnose("".join(f"node-2: {line}\n" for line in lines)).entry is not None


def test_the_end_of_a_description_of_a_pod_is_enough():
    text = (
        "Status:           Failed\nReason:           Evicted\n"
        "Message:          The node was low on resource: memory. Container trainer was using 60342108Ki, request is 8Gi.\n"
        "Events:\n  Type     Reason   Age   From     Message\n"
        "  Warning  Evicted  12m   kubelet  The node was low on resource: memory.\n"
    )
    assert diagnose(text).entry == "pod-evicted"


def test_a_coloured_exception_of_a_notebook_is_output():
    text = (
        "\x1b[0;31mOutOfMemoryError\x1b[0m                          Traceback (most recent call last)\n"
        "Cell \x1b[0;32mIn[12], line 1\x1b[0m\n\x1b[0;32m----> 1\x1b[0m trainer.train()\n\n"
        "\x1b[0;31mOutOfMemoryError\x1b[0m: CUDA out of memory. Tried to allocate 120.00 MiB (GPU 0; 15.90 GiB total capacity; "
        "14.91 GiB already allocated; 57.75 MiB free; 15.12 GiB reserved in total by PyTorch)\n"
    )
    assert (diagnose(text).entry or "").startswith("cuda-oom")


def test_a_message_behind_a_prefix_that_nobody_knows_names_the_traceback_above_it():
    lines = (
        "Traceback (most recent call last):",
        '  File "/opt/site-packages/torch/autograd/__init__.py", line 347, in backward',
        "    _engine_run_backward(",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of "
        "which 1.10 GiB is free. Including non-PyTorch memory, this process has 22.53 GiB memory in use. Of the "
        "allocated memory 21.70 GiB is allocated by PyTorch, and 380.11 MiB is reserved by PyTorch but unallocated.",
    )
    text = "".join(f"job-train\tRun it\t~~{number}~~ {line}\n" for number, line in enumerate(lines))
    assert (diagnose(text).entry or "").startswith("cuda-oom")
