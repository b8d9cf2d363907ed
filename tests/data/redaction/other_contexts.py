"""Writes contexts.jsonl: values of the same kinds in other formats (JSON, YAML, dumps, curl, URLs), written after the rules.

python tests/data/redaction/other_contexts.py
"""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from pathlib import Path

SEED = 77_001
EACH = 5
_C = random.Random(SEED)
_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


def _text(count: int, letters: str = _ALNUM) -> str:
    return "".join(_C.choice(letters) for _ in range(count))


def _fill(mold: str) -> tuple[str, str]:
    """The line and the value of a mold such as `key: «A40»`: A any, H hex, U capitals, L lower case, D digits."""
    before, _, rest = mold.partition("«")
    inner, _, after = rest.partition("»")
    letters = {
        "A": _ALNUM,
        "H": _HEX,
        "U": string.ascii_uppercase + string.digits,
        "L": string.ascii_lowercase,
        "D": "123456789",
    }
    value, at = "", 0
    while at < len(inner):
        if inner[at] == "%":
            end = at + 2
            while end < len(inner) and inner[end].isdigit():
                end += 1
            count = int(inner[at + 2 : end])
            letter = inner[at + 1]
            value += base64.b64encode(_C.randbytes(count)).decode() if letter == "B" else _text(count, letters[letter])
            at = end
        else:
            value += inner[at]
            at += 1
    return before + value + after, value


SECRETS = {
    "aws": [
        "  'aws_access_key_id': '«AKIA%U16»',",
        "boto3.client('s3', aws_secret_access_key='«%B30»')",
        "{AccessKey: «ASIA%U16»}",
        "- name: AWS_SECRET_ACCESS_KEY\\n  value: «%B30»",
        "Credential=«AKIA%U16»/20250101/us-east-1/s3/aws4_request",
    ],
    "gcp": [
        "maps?key=«AIza%A35»&q=x",
        "client_secret: «GOCSPX-%A28»",
        "access_token=«ya29.%A80»",
        '"private_key_id": "«%H40»"',
    ],
    "azure": [
        "conn = 'AccountName=a;AccountKey=«%B64»'",
        "Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey=«%B32»",
        "?sv=2023&sig=«%A43»%3D&se=1",
    ],
    "github": [
        "git+https://«ghp_%A36»@github.com/a/b@main",
        "x-access-token:«ghs_%A36»@github.com",
        "'GITHUB_TOKEN': '«gho_%A36»'",
        "Authorization: token «github_pat_%A22_%A59»",
    ],
    "gitlab": ["curl --header 'PRIVATE-TOKEN: «glpat-%A20»' https://g/api", "CI_JOB_TOKEN: «glcbt-64_%A20»"],
    "hub": [
        "use_auth_token='«hf_%A34»'",
        "token: «hf_%A34»",
        'curl -H "Authorization: Bearer «hf_%A34»" https://huggingface.co',
        "environ({'HF_TOKEN': '«hf_%A34»', 'A': 'b'})",
    ],
    "wandb": [
        "wandb: api_key: «%H40»",
        "environ({'WANDB_API_KEY': '«%H40»'})",
        "machine api.wandb.ai login user password «%H40»",
        "docker run -e WANDB_API_KEY=«%H40» img",
        "      value: «wandb_v1_%A40»",
    ],
    "llm": [
        '{"api_key": "«sk-%A48»"}',
        "x-api-key: «sk-ant-api03-%A60»",
        "--openai-api-key «sk-proj-%A60»",
        "groq «gsk_%A52»",
        "xai: «xai-%A80»",
    ],
    "chat": [
        "slack: {token: «xoxp-%D12-%D12-%A32»}",
        "webhook_url: https://hooks.slack.com/services/«T%U9/B%U9/%A24»",
        "url=https://discord.com/api/webhooks/«%D18/%A68»",
        "bot«%D9:%A35»/getMe",
    ],
    "pay": ["'STRIPE': 'rk_" + "live_«%A24»'", "auth=('«AC%H32»', 'x')", "SG key «SG.%A22.%A43» bad", "whsec: «whsec_%A32»"],
    "registry": [
        "_authToken=«npm_%A36»",
        "repository.password=«pypi-AgEIcHlwaS5vcmc%A70»",
        "echo «dckr_pat_%A27» | docker login",
        '"auth": "«%B24»"',
    ],
    "tracking": [
        "databricks configure --token «dapi%H32»",
        'comet_ml.init(api_key="«%A25»")',
        "kaggle.json: {'username': 'u', 'key': '«%H32»'}",
        "CLEARML_API_SECRET_KEY: «%A40»",
        "mlflow.set_tracking_uri('https://u:«%A12»@mlflow.example.org')",
    ],
    "jwt": [
        "id_token=«eyJ%A20.eyJ%A50.%A43»&x",
        "Cookie: token=«eyJ%A20.eyJ%A50.%A43»",
        'E0101 token "«eyJ%A20.eyJ%A50.%A43»" invalid',
    ],
    "header": [
        "> Authorization: Basic «%B15»",
        "headers={'Authorization': 'Bearer «%A32»'}",
        "H: Bearer «%A24-%A10»",
        "X-Auth-Token: «%A32»",
        "-H 'X-API-Key: «%A30»'",
    ],
    "password": [
        "mysql -u a -p«%A10» db",
        "  password: «%L12»",
        "DATABASE_PASSWORD: «%A12»",
        "psql 'host=h password=«%A12» user=u'",
        "'password': '«%A9»'",
        "jdbc:x://h/d?user=a&password=«%A12»",
        "pwd=«%A10»;",
        "args: ['--password=«%A10»']",
        "redis.Redis(host='h', password='«%A16»')",
        "REDIS_PASSWORD='«%A16»'",
    ],
    "environment": [
        "X_TOKEN: «%A32»",
        "setenv APP_SECRET «%A24»",
        'export SOME_API_KEY="«%A32»"',
        "$env:MY_TOKEN = '«%A32»'",
        "ENV MY_SECRET_KEY=«%A32»",
        "'SERVICE_TOKEN': '«%A30»'",
    ],
    "url": [
        "amqp://guest:«%A12»@mq:5672",
        "mysql+pymysql://u:«%A12»@db/x",
        "https://h/x?token=«%A32»",
        "wss://h/?auth_token=«%A32»",
        "http://proxy:«%A10»@10.1.1.1:3128",
        "s3://k:«%A10»@h/x",
    ],
    "query": [
        "X-Amz-Security-Token=«%A200»&X",
        "X-Goog-Signature=«%H128»",
        "?apikey=«%A32»",
        "&client_secret=«%A32»&grant_type=x",
    ],
    "cookie": ["-b 'session=«%A32»'", "'cookie': '_xsrf=«%A32»; a=b'", "< set-cookie: JSESSIONID=«%U32»; Path=/"],
    "infra": [
        "vault token «hvs.%A90»",
        "tailscale up --authkey «tskey-auth-%A20»",
        "TF_TOKEN=«%A14»",
        "grafana «glsa_%A32_%H8»",
        "replicate «r8_%A37»",
        "nvapi: «nvapi-%A64»",
    ],
    "email": [
        "git config user.email «%L6.%L5@%L8.com»",
        "'mail': '«%L7@%L5.ac.uk»'",
        "<«%L8@%L6.io»>",
        "wandb: Currently logged in as: «%L8@%L6.org» (team)",
    ],
    "home": [
        "'cwd': '/home/«%L8»/x'",
        "PYTHONPATH=/Users/«%L7»/src:/x",
        "file:///home/«%L6»/a.py",
        '{"p": "C:\\\\Users\\\\«%L6»\\\\x"}',
        "HOME=/home/«%L7»",
        "/mnt/home/«%L7»/env/bin/python: can't open",
    ],
    "user": [
        "LOGNAME=«%L8»",
        "'USER': '«%L8»'",
        "whoami: USER=«%L8»",
        "Job 12 submitted UserId=«%L7»(5001)",
        "SLURM_JOB_USER=«%L7»",
    ],
    "host": [
        "'hostname': 'gn-«%D2»'",
        '"host": "«nid0%D5»"',
        "on host «node-%D3»",
        "NodeName=«cn%D3» State=DOWN",
        "SLURM_NODELIST=«gn-[0%D1-1%D1]»",
        "Connection to «login%D1.%L5.edu» closed",
        "«compute-%D2»:33:44 [1] NCCL WARN x",
        "HOSTNAME: «%L6-%D2»",
        "c10d_store at «dgx-%D2»:29500",
        "WARNING: node «gpu-node-%D2» is down",
        "Hostname: «%L6»",
    ],
    "fqdn": [
        "https://«git.%L6.com»/x",
        "server: «db.%L5.internal»",
        "dns «ldap.%L6.corp» fails",
        "svc «train-0.%L5.svc.cluster.local»:80",
    ],
    "ip": [
        "'ip': '10.«%D2.%D2.%D2»'",
        "from 192.168.«%D2.%D2» port 22",
        "(pid=12, ip=172.16.«%D2.%D2»)",
        "inet 10.1.«%D2.%D2»/16",
        "[10.0.«%D2.%D2»]:1234 -> x",
        "ip-10-0-«%D2-%D2».ec2.internal",
        "NCCL_SOCKET: 10.2.«%D2.%D2»<4>",
    ],
    "ipv6": ["inet6 «fe80::%H4:%H4:%H4:%H3a»/64", "[«2001:db8::%H4:%H3a»]:22"],
    "mac": ["'mac': '«02:42:ac:1%H1:0%H1:0%H1»'", "ether «0%H1:50:56:a%H1:b%H1:c%H1»"],
    "bucket": [
        "--output s3://«%L8-runs»/x",
        "'uri': 'gs://«%L8-data»/x'",
        "abfss://c@«%L8».dfs.core.windows.net/x",
        "Bucket: «%L6-ckpt»",
        "arn:aws:s3:::«%L8-x»/*",
        "https://storage.googleapis.com/«%L8-w»/a",
    ],
    "account": [
        "sbatch --account=«%L5_gpu» x.sh",
        "#SBATCH -A «%L6-lab»",
        "SBATCH_ACCOUNT=«%L6»",
        "   Account=«%L7» QOS=x",
        "arn:aws:sts::«%D12»:assumed-role/x",
    ],
    "pod": ["pods/«%L5-worker-%D1» x", "pod_name: «%L5-%L4-%D1»", "'pod': '«%L6-7f9c8d6b5-x%D1k2p»'"],
}

HARMLESS = {
    "hash": [
        "'sha': '«%H40»'",
        "revision=«%H40»",
        "blob/«%H40»/x.py",
        'etag: "«%H32»"',
        "md5=«%H32»",
        "snapshots/«%H40»/model.safetensors",
        "cache key «%H64»",
        "g«%H9» (dirty)",
        '"commit": "«%H12»"',
        "inductor_cache/fxgraph/x/«%H52»",
    ],
    "number": [
        "pid=«%D5»",
        "loss: 0.«%D6»",
        "lr=1.«%D4»e-05",
        "step «%D5»/10000",
        "tokens/s: «%D6»",
        "num_key_value_heads: «%D2»",
        "key_dim=«%D3»",
        "max_token_len=«%D4»",
        "port «2950%D1»",
        "seed: «%D6»",
        "tokens_seen=«%D9»",
        "n_tokens: «%D12»",
    ],
    "address": [
        "at 0x7f«%H10»",
        "comm 0x«%H8» rank 0",
        "(0x«%H12» in /x/libc10.so)",
        "cudaEvent 0x«%H9»",
        "data_ptr=0x7f«%H10»",
    ],
    "version": [
        "torch=«2.%D1.0+cu121»",
        "libcudnn.so.«9.1.0»",
        "driver «535.%D3.05»",
        "transformers «4.%D2.%D1»",
        "nccl «2.2%D1.%D1.1»",
        "nvidia-cudnn-cu12==«9.%D1.0.7%D1»",
        "cudnn_version «8%D4»",
        "glibc «2.3%D1»",
    ],
    "path": [
        "/opt/conda/lib/python3.11/«site-packages/torch/x.py»",
        'File "«/workspace/src/train.py»", line 3',
        "/usr/lib/«x86_64-linux-gnu/libc.so.6»",
        "«/root/.cache/huggingface/hub»",
        "/tmp/«torchelastic_%A8/none_%A8»/attempt_0",
        "/data/«shard-%D5.tar»",
        "/dev/shm/«torch_%D5_%D9_1»",
    ],
    "config": [
        "token_dropout: «0.%D1»",
        "pad_token_id: «%D5»",
        "bos_token: «<s>»",
        "use_auth_token: «false»",
        "secret_sauce: «true»",
        "hidden_act: «gelu_new»",
        "mask_token: «[MASK]»",
        "attn_key: «self_attention»",
        "password: «null»",
        "tokenizer_class: «LlamaTokenizerFast»",
        "'tokenizer': '«LlamaTokenizer2Fast»'",
        "image_token: «<image>»",
        "signature: «forward(self, x)»",
    ],
    "error": [
        "KeyError: '«position_ids_%D2»'",
        "RuntimeError: «NCCL error 5»",
        "exit code «-%D1»",
        "Xid «%D2» pid=1",
        "host «memory» exhausted",
        "node «rank» mismatch",
        "«OutOfMemoryError» on rank 3",
        "«ProcessGroupNCCL.cpp:%D3» Watchdog",
        "«Signal 9 (SIGKILL)» received",
        "store at «localhost:29500»",
        "«torch.cuda.OutOfMemoryError: CUDA» x",
    ],
    "hardware": [
        "MIG «1g.10gb»",
        "«NVIDIA A100-SXM4-80GB»",
        "mlx5_«%D1»:1",
        "nvme«%D1»n1",
        "cuda:«%D1»",
        "GPU«%D1» <-> GPU1 NV12",
        "NUMA node0 CPU(s): «0-%D2»",
        "«ib%D1»: link up",
        "«eth0» up",
        "bus «0000:%H2:00.0»",
    ],
    "web": [
        "«https://pytorch.org/get-started»",
        "«https://download.pytorch.org/whl/cu121»",
        "«https://huggingface.co/meta-x/model»",
        "«http://127.0.0.1:8265»",
        "«https://github.com/a/b/pull/12»",
        "index «https://pypi.org/simple»",
    ],
    "time": [
        "«2025-01-1%D1 08:41:17,123»",
        "[«01/1%D1/2025 10:11:12»]",
        "took «1%D1:22:33»",
        "«Mon Jan 1%D1 08:41:17 2025»",
        "E011%D1 «08:41:17.402000» 21930 x.py:3]",
    ],
    "code": [
        "self.«token_embedding».weight",
        "def «forward(self, tokens)»:",
        "@«torch.no_grad()»",
        "x = «self.key_proj(h)»",
        "token = «tokens[0]»",
        "key = «layer.k_proj(x)»",
        "pip install «git+https://github.com/x/y@v1.2»",
        "assert «key in state_dict»",
        "«std::runtime_error::what»",
        "import «torch.distributed as dist»",
        "secret = «os.environ['X']»",
        "password = «getpass.getpass()»",
        "token = «get_token(path)»",
        "api_key = «config.api_key»",
    ],
}


def main() -> None:
    made = []
    for field, table, each in (("secret", SECRETS, EACH // 2 + 1), ("harmless", HARMLESS, 4)):
        for kind, molds in table.items():
            for number, mold in enumerate(molds):
                for _ in range(each):
                    line, value = _fill(mold)
                    made.append(
                        {
                            "kind": f"{kind}-{number}" if field == "secret" else kind,
                            "line": line.replace("\\n", "\n"),
                            field: value,
                        }
                    )
    for _ in range(10):
        value = str(uuid.UUID(int=_C.getrandbits(128)))
        made.append({"kind": "uuid", "line": f"'run_id': '{value}'", "harmless": value})
    out = Path(__file__).with_name("contexts.jsonl")
    out.write_text("".join(json.dumps(line) + "\n" for line in made), encoding="utf-8")


if __name__ == "__main__":
    main()
