"""Writes rules.jsonl: made-up secrets of many kinds in log lines, and harmless look-alikes. Same seed, same bytes.

python tests/data/redaction/generate.py
"""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable
from pathlib import Path

SEED = 20_260_101
EACH = 7
_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_C = random.Random(SEED)


def text(count: int, letters: str = _ALNUM) -> str:
    return "".join(_C.choice(letters) for _ in range(count))


def b64(count: int) -> str:
    return base64.b64encode(_C.randbytes(count)).decode()


def name() -> str:
    return _C.choice(("mkowal", "tnguyen", "s.ivanova", "rpatel", "lchen2", "aokafor", "bjornh", "zhang_w"))


def host() -> str:
    number = _C.randint(1, 99)
    return _C.choice(
        (
            f"gn-{number:02}",
            f"node-{number:03}",
            f"dgx-a100-{number:02}",
            f"cn{number:04}",
            f"gpu-srv-{number}",
            f"login{number}",
            f"nid00{number:04}",
        )
    )


def ip() -> str:
    return f"{_C.choice(('10', '172', '192'))}.{_C.randint(16, 250)}.{_C.randint(0, 255)}.{_C.randint(1, 254)}"


def upper(count: int) -> str:
    return text(count, string.ascii_uppercase + string.digits)


Maker = Callable[[], str]
_SECRETS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "aws-access-key-id": (
        lambda: _C.choice(("AKIA", "ASIA")) + upper(16),
        ("botocore: InvalidAccessKeyId {} does not exist", "AWS_ACCESS_KEY_ID={}", '"AccessKeyId": "{}",'),
    ),
    "aws-secret-key": (
        lambda: b64(30),
        ("aws_secret_access_key = {}", "export AWS_SECRET_ACCESS_KEY={}", '"SecretAccessKey": "{}"'),
    ),
    "aws-session-token": (lambda: "IQoJ" + b64(90), ("AWS_SESSION_TOKEN={}", '"SessionToken": "{}"', "aws_session_token={}")),
    "gcp-api-key": (
        lambda: "AIza" + text(35),
        ("GET /v1?key={} 403", "google_api_key: {}", "[rank0]: HttpError 400 for key {}"),
    ),
    "gcp-service-key": (
        lambda: "MIIEv" + b64(60),
        ('"private_key": "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----\\n",',),
    ),
    "gcp-oauth": (lambda: "ya29." + text(60), ("Bearer {}", "refreshed token {} for 3600 s")),
    "azure-account-key": (
        lambda: b64(64),
        (
            "DefaultEndpointsProtocol=https;AccountName=runs;AccountKey={};EndpointSuffix=core.windows.net",
            "AZURE_STORAGE_KEY={}",
        ),
    ),
    "azure-sas": (
        lambda: text(40) + "%3D",
        (
            "https://x.blob.core.windows.net/c/m.bin?sv=2024-01-01&se=2025-01-01&sr=c&sp=r&sig={}",
            "SharedAccessSignature=sv=2024&sig={}",
        ),
    ),
    "azure-client-secret": (
        lambda: text(3) + "8Q~" + text(34),
        ("AZURE_CLIENT_SECRET={}", "azure.identity: invalid client secret {}"),
    ),
    "github-classic": (
        lambda: "ghp_" + text(36),
        ("fatal: could not read from https://{}@github.com/x/y.git", "GITHUB_TOKEN={}", "remote: {} expired"),
    ),
    "github-fine": (lambda: "github_pat_" + text(22) + "_" + text(59), ("token {} lacks scope", "GH_TOKEN: {}")),
    "gitlab": (lambda: "glpat-" + text(20), ("PRIVATE-TOKEN: {}", "git clone https://oauth2:{}@gitlab.com/x/y.git")),
    "hugging-face": (
        lambda: "hf_" + text(34),
        ("HF_TOKEN={}", "huggingface_hub.login(token='{}')", "[rank3]: 401 Unauthorized with {}", "--hub_token {}"),
    ),
    "wandb": (lambda: text(40, _HEX), ("WANDB_API_KEY={}", "$ wandb login {}", "wandb.login(key='{}')", "wandb_api_key: {}")),
    "openai": (lambda: "sk-proj-" + text(48), ("OPENAI_API_KEY={}", "Incorrect API key provided: {}.")),
    "openai-old": (lambda: "sk-" + text(48), ("openai.api_key = '{}'", "judge uses {} as key")),
    "anthropic": (lambda: "sk-ant-api03-" + text(80), ("ANTHROPIC_API_KEY={}", "x-api-key: {}")),
    "slack": (
        lambda: "xoxb-" + text(12, string.digits) + "-" + text(24),
        ("SLACK_BOT_TOKEN={}", "slack_sdk: invalid_auth for {}"),
    ),
    "slack-hook": (lambda: f"T{upper(8)}/B{upper(8)}/{text(24)}", ("POST https://hooks.slack.com/services/{} 404",)),
    "discord": (
        lambda: "M" + text(23) + "." + text(6) + "." + text(27),
        ("DISCORD_TOKEN={}", "discord.errors.LoginFailure: {}"),
    ),
    "discord-hook": (lambda: text(18, string.digits) + "/" + text(60), ("https://discord.com/api/webhooks/{}",)),
    "telegram": (
        lambda: text(10, "123456789") + ":" + text(35),
        ("https://api.telegram.org/bot{}/sendMessage", "TELEGRAM_BOT_TOKEN={}"),
    ),
    "stripe": (lambda: "sk_" + "live_" + text(24), ("STRIPE_KEY={}", "stripe error with {}")),
    "sendgrid": (lambda: "SG." + text(22) + "." + text(43), ("SENDGRID_API_KEY={}", "mail hook {} failed")),
    "twilio": (lambda: "SK" + text(32, _HEX), ("TWILIO_API_KEY={}", "twilio sid {}")),
    "npm": (lambda: "npm_" + text(36), ("//registry.npmjs.org/:_authToken={}", "NPM_TOKEN={}")),
    "pypi": (lambda: "pypi-AgEIcHlwaS5vcmc" + text(60), ("TWINE_PASSWORD={}", "password = {}")),
    "docker": (lambda: "dckr_pat_" + text(27), ("docker login -u ci -p {} reg", "DOCKER_PASSWORD={}")),
    "docker-auth": (lambda: b64(20), ('{{"auths": {{"reg": {{"auth": "{}"}}}}}}',)),
    "databricks": (lambda: "dapi" + text(32, _HEX), ("DATABRICKS_TOKEN={}", "mlflow: 403 with {}")),
    "kaggle": (lambda: text(32, _HEX), ('{{"username":"u","key":"{}"}}', "KAGGLE_KEY={}")),
    "comet": (lambda: text(25), ("COMET_API_KEY={}", "Experiment(api_key='{}', project='x')")),
    "neptune": (
        lambda: base64.b64encode(json.dumps({"api_address": "https://x", "api_key": text(36)}).encode()).decode(),
        ("NEPTUNE_API_TOKEN={}", "api_token={}"),
    ),
    "mlflow-basic": (lambda: text(14), ("MLFLOW_TRACKING_PASSWORD={}", "MLFLOW_TRACKING_URI=https://ml:{}@mlflow.example.org")),
    "jwt": (
        lambda: f"eyJ{text(30)}.eyJ{text(60)}.{text(43)}",
        ("Authorization: Bearer {}", "kubectl --token={} get pods", "decoded {} ok"),
    ),
    "bearer": (
        lambda: text(40),
        ("authorization: Bearer {}", "curl -H 'Authorization: Bearer {}' x", '{{"Authorization": "Bearer {}"}}'),
    ),
    "basic": (
        lambda: base64.b64encode(f"user:{text(12)}".encode()).decode(),
        ("Authorization: Basic {}", "'authorization': 'Basic {}'"),
    ),
    "password-option": (
        lambda: text(10),
        ("python x.py --password {} --port 1", "sshpass -p {} ssh x", "['--db-password', '{}']"),
    ),
    "password": (lambda: text(11) + "!", ("password={}", "DB_PASSWORD={}", '"password": "{}"', "PGPASSWORD={} psql")),
    "token-env": (
        lambda: text(30),
        ("MY_SERVICE_TOKEN={}", 'declare -x CI_JOB_TOKEN="{}"', "APP_SECRET={}", "INTERNAL_API_KEY='{}'"),
    ),
    "url-password": (
        lambda: text(12),
        (
            "postgresql://app:{}@db:5432/x",
            "redis://:{}@cache:6379/0",
            "mongodb+srv://u:{}@c.example.net/x",
            "https://user:{}@host/simple",
        ),
    ),
    "query-token": (
        lambda: text(32),
        ("GET /x?access_token={}&a=1", "https://h/x?api_key={}", "https://b/x?X-Amz-Signature={}&x=1"),
    ),
    "cookie": (lambda: text(32), ("Cookie: session={}", "Set-Cookie: sid={}; Path=/", "sessionid={};")),
    "vault": (lambda: "hvs." + text(24), ("VAULT_TOKEN={}", "vault: permission denied for {}")),
    "email": (
        lambda: f"{name()}@{_C.choice(('acme-lab.com', 'cs.uni-x.edu', 'corp-y.io'))}",
        ("#SBATCH --mail-user={}", "Author: A B <{}>", "contact {} for access"),
    ),
    "home": (
        lambda: name(),
        (
            '  File "/home/{}/src/train.py", line 3, in main',
            "/Users/{}/x/y.py:3: warning",
            "C:\\Users\\{}\\x.py",
            "cwd=/gpfs/home/{}/run",
        ),
    ),
    "user": (lambda: name(), ("USER={}", "UserId={}(1001) GroupId=ml", "uid=1001({}) gid=1001")),
    "host": (
        host,
        (
            "{}:1234:1299 [3] NCCL INFO Bootstrap : x",
            "srun: error: {}: task 3: Killed",
            "  host      : {}",
            "MASTER_ADDR={}",
            "Mar  1 12:00:00 {} kernel: NVRM: Xid",
            "slurmstepd: error: *** STEP 1.0 ON {} CANCELLED AT",
            "rdzv_endpoint={}:29500",
        ),
    ),
    "user-at-host": (host, ("mlops@{}:~/x$ python train.py", "ssh mlops@{}", "[mlops@{} src]$ ls")),
    "fqdn": (
        lambda: f"{host()}.{_C.choice(('cluster.local', 'hpc.uni-x.edu', 'lab.acme-x.com', 'ib.lan'))}",
        ("could not resolve {}", "connect to {}:29500 failed", "ssh: connect to host {} port 22: refused"),
    ),
    "pod": (
        lambda: f"train-{text(10, '56789bcdf')}-{text(5, 'bcdfghjkl2456')}",
        ("pod/{} 0/1 Evicted", "[pod/{}/pytorch] step 3", "HOSTNAME={}"),
    ),
    "ec2-host": (
        lambda: f"ip-10-{_C.randint(0, 255)}-{_C.randint(0, 255)}-{_C.randint(1, 254)}",
        ("{}: task 3 failed", "host : {}.ec2.internal", "{}:17:17 [0] NCCL INFO x"),
    ),
    "ipv4": (ip, ("NET/Socket : Using [0]eth0:{}<0>", "connect to [{}]:29500 failed", "tcp://{}:29500", "MASTER_ADDR={}")),
    "ipv6": (
        lambda: f"fe80::{text(4, _HEX)}:{text(4, _HEX)}:{text(4, _HEX)}:{text(3, _HEX)}1",
        ("bound to [{}]:29500", "eth0:{}%eth0"),
    ),
    "mac": (lambda: ":".join(text(2, _HEX[1:]) for _ in range(6)), ("link/ether {} brd ff:ff:ff:ff:ff:ff", "HWaddr {}")),
    "bucket": (
        lambda: f"acme-{text(6, string.ascii_lowercase)}-runs",
        ("s3://{}/ckpt/1.pt", "gs://{}/x", "az://{}/x", "https://{}.s3.us-west-2.amazonaws.com/x", "bucket='{}'"),
    ),
    "slurm-account": (
        lambda: f"{text(4, string.ascii_lowercase)}_lab{_C.randint(1, 9)}",
        ("#SBATCH --account={}", "srun -A {} -N 2 python x.py", "SLURM_JOB_ACCOUNT={}"),
    ),
    "aws-account": (
        lambda: text(12, string.digits[1:]),
        ("arn:aws:iam::{}:role/x", "{}.dkr.ecr.us-east-1.amazonaws.com/img:1"),
    ),
}

_HARMLESS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "git-hash": (
        lambda: text(40, _HEX),
        ("commit {}", "HEAD is now at {}", "Fetched revision {} of the model", "_commit_hash: {}"),
    ),
    "short-hash": (lambda: text(7, _HEX), ("built from {} on main", "version 2.1.0a0+{}")),
    "uuid": (lambda: str(uuid.UUID(int=_C.getrandbits(128))), ("run id {}", "rdzv_id={}", "Job UID: {}")),
    "sha256": (lambda: text(64, _HEX), ("sha256:{}", "image digest sha256:{}", "--hash=sha256:{}")),
    "gpu-uuid": (
        lambda: "GPU-" + str(uuid.UUID(int=_C.getrandbits(128))),
        ("GPU 0: H100 (UUID: {})", "CUDA_VISIBLE_DEVICES={}"),
    ),
    "nccl-id": (
        lambda: "0x" + text(16, _HEX),
        ("ncclCommInitRank comm {} rank 3 nranks 8 cudaDev 3 busId 1b000", "commId {} - Init COMPLETE"),
    ),
    "address": (
        lambda: "0x7f" + text(10, _HEX),
        ("frame #3: <unknown function> + 0x1 ({} in libtorch.so)", "<torch.Tensor object at {}>"),
    ),
    "tensor": (
        lambda: ", ".join(f"{_C.uniform(-3, 3):.4f}" for _ in range(6)),
        ("tensor([{}], device='cuda:0')", "logits = [[{}]]"),
    ),
    "image": (lambda: b64(60), ('<img src="data:image/png;base64,{}">', "payload {} (png)")),
    "checkpoint": (
        lambda: f"checkpoint-{_C.randint(100, 99999)}",
        ("Saving model checkpoint to out/{}", "resume_from_checkpoint=out/{}"),
    ),
    "arch": (lambda: f"sm_{_C.choice((70, 80, 86, 90))}", ("arch list: {} compute_90", "no kernel image for {}")),
    "wheel": (lambda: f"torch-2.{_C.randint(1, 9)}.0+cu121-cp311-cp311-linux_x86_64.whl", ("Downloading {} (780 MB)",)),
    "version": (
        lambda: f"2.{_C.randint(10, 30)}.{_C.randint(0, 9)}.{_C.randint(1, 9)}",
        ("NCCL version {}+cuda12.4", "nvidia-nccl-cu12=={}", "libfoo.so.{}"),
    ),
    "cuda-version": (
        lambda: f"12.{_C.randint(1, 9)}.{_C.randint(1, 9)}.{_C.randint(1, 99)}",
        ("nvidia-cublas-cu12=={}", "nvidia-cuda-runtime-cu12 {}", "cudnn {}"),
    ),
    "time": (
        lambda: f"2025-0{_C.randint(1, 9)}-1{_C.randint(0, 9)}T08:41:{_C.randint(10, 59)}.{text(6, string.digits)}Z",
        ("{} INFO step 3", "[rank0]: {} done"),
    ),
    "special-token": (
        lambda: _C.choice(("<|endoftext|>", "<pad>", "[PAD]", "</s>", "<|im_end|>")),
        ("pad_token={}", "'eos_token': '{}'", "tokenizer.unk_token = {}"),
    ),
    "token-id": (
        lambda: str(_C.randint(1000, 200000)),
        ("eos_token_id={}", "num_tokens: {}", "max_tokens={}", "tokens={} per second"),
    ),
    "key-name": (
        lambda: f"model.layers.{_C.randint(0, 80)}.self_attn.q_proj.weight",
        ('Missing key(s) in state_dict: "{}"', "KeyError: '{}'", '"key": "{}"'),
    ),
    "loopback": (
        lambda: _C.choice(("127.0.0.1", "0.0.0.0", "localhost")),
        ("MASTER_ADDR={}", "listening on {}:29500", "tcp://{}:1234"),
    ),
    "library-path": (
        lambda: f"/usr/local/lib/python3.11/dist-packages/torch/nn/modules/m{_C.randint(1, 99)}.py",
        ('  File "{}", line 3, in forward',),
    ),
    "public-url": (
        lambda: _C.choice(
            ("https://huggingface.co/docs/x", "https://pytorch.org/docs/stable/notes", "https://github.com/a/b/issues/3")
        ),
        ("see {} for details", "Error: {}"),
    ),
    "rank-prefix": (lambda: f"[rank{_C.randint(0, 63)}]:", ("{} RuntimeError: x", "{} Traceback (most recent call last):")),
    "exit-code": (lambda: f"exitcode  : -{_C.randint(1, 15)} (pid: {_C.randint(100, 99999)})", ("  {}",)),
    "variable": (
        lambda: _C.choice(("$HF_TOKEN", "${WANDB_API_KEY}", "***", "None")),
        ("--token {}", "HF_TOKEN={}", "password={}"),
    ),
    "module": (
        lambda: _C.choice(("torch.nn.functional", "torch.distributed.run", "scipy.io", "torch.local", "model.net")),
        ("import {}", "python -m {}", "in module {} of x"),
    ),
    "device": (lambda: f"cuda:{_C.randint(0, 7)}", ("device={}", "host to {} copy", "node 0 uses {}")),
    "pci": (lambda: f"0000:{text(2, _HEX)}:00.0", ("GPU {} has fallen off the bus", "busId {}")),
    "size": (lambda: f"{_C.randint(1, 90)}.{_C.randint(10, 99)} GiB", ("Tried to allocate {}", "host memory {}")),
}


def lines() -> list[dict[str, str]]:
    made = []
    for field, kinds, each in (("secret", _SECRETS, EACH), ("harmless", _HARMLESS, 12)):
        for kind, (make, contexts) in kinds.items():
            for number in range(each):
                value = make()
                made.append({"kind": kind, "line": contexts[number % len(contexts)].format(value), field: value})
    return made


if __name__ == "__main__":
    out = Path(__file__).with_name("rules.jsonl")
    out.write_text("".join(json.dumps(line) + "\n" for line in lines()), encoding="utf-8")
