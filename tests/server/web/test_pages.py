"""The pages as the server sends them: whole without script, escaped, below their base path, and each for its owner."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from firstfault.server.settings import Settings
from firstfault.server.web.data_handling import where_stored
from server.consoles import PASSWORD, console

HTML = {"Accept": "text/html"}
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 23.69 GiB"
CRASH = 'Traceback (most recent call last):\n  File "train.py", line 9, in main\n    x = 1 / 0\nZeroDivisionError: no\n'
FREE: dict[str, Any] = {
    "anonymous": {"diagnoses_a_day": None, "requests_a_minute": 6000, "submission_bytes": 1 << 20},
    "new": {"requests_a_minute": 6000},
}
ATTACKS = (
    "<script>alert(1)</script>",
    "</code></pre><img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "\u202egnp.exe\u2066 \u200b",
    "{{ 7 * 7 }} {% raw %}",
)


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def addresses(self) -> list[str]:
        names = ("href", "src", "action", "data-copy", "data-send", "data-pack", "data-sample")
        return [value for _, attributes in self.found for name, value in attributes.items() if name in names]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with console(tmp_path_factory.mktemp("console"), tiers=FREE) as opened:
        yield opened


@pytest.fixture
def visitor(client: TestClient) -> TestClient:
    """A browser that was never here."""
    client.cookies.clear()
    client.headers.update(HTML)
    return client


def paste(client: TestClient, text: str, **more: str) -> str:
    """The path of the page that answers a pasted text."""
    answer = client.post("/", files={"none": ("", b"")}, data={"text": text, **more}, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def signed_up(client: TestClient, email: str) -> None:
    client.cookies.clear()
    answer = client.post("/sign-up", data={"email": email, "password": PASSWORD}, follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == "/account", answer.text


@pytest.mark.parametrize("path", ["/", "/e", "/h", "/data", "/sign-in", "/sign-up", "/e/memory/cuda-oom", "/join?invitation=x"])
def test_pages_load_nothing_from_elsewhere_and_run_nothing_inline(visitor: TestClient, path: str) -> None:
    answer = visitor.get(path)
    assert answer.status_code == 200
    page = Tags(answer.text)
    assert all(address.startswith(("/", "#", "?")) and not address.startswith("//") for address in page.addresses())
    assert not [
        tag for tag, attributes in page.found if "style" in attributes or any(name.startswith("on") for name in attributes)
    ]
    assert all(attributes.get("src") for tag, attributes in page.found if tag == "script")
    assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_everything_stays_below_the_path_of_a_proxy(tmp_path: Path) -> None:
    with console(tmp_path, base_url="https://example.org/ff", private=True) as client:
        client.headers.update(HTML)
        made = client.post("/ff/", files={"none": ("", b"")}, data={"text": OOM}, follow_redirects=False).headers["location"]
        assert made.startswith("/ff/d/")
        for path in (made, "/ff/", "/ff/e", "/ff/h", "/ff/data", "/ff/e/memory/cuda-oom", "/ff/sign-in", "/ff/nothing"):
            addresses = Tags(client.get(path).text).addresses()
            assert addresses and all(address.startswith(("/ff/", "#", "?")) for address in addresses), path
        assert f"https://example.org{made}" in client.get(made).text


@pytest.mark.parametrize("attack", ATTACKS)
def test_log_text_is_text(visitor: TestClient, attack: str) -> None:
    path = paste(
        visitor, f"{attack}\nRuntimeError: {attack}\n{CRASH.replace('train.py', attack + '/train.py')}", command=attack
    )
    text = visitor.get(path).text
    tags = Tags(text)
    assert [attributes["src"] for tag, attributes in tags.found if tag == "script"] == ["/static/js/page.js"]
    assert not [tag for tag, attributes in tags.found if tag == "img" or "onerror" in attributes]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]", text)
    assert "49" not in visitor.post("/e", data={"query": "{{ 7 * 7 }}"}).text.split("<main")[1].split("entries")[0]


def test_a_name_of_a_file_is_a_title_and_nothing_else(visitor: TestClient) -> None:
    name = "../../<img src=x onerror=alert(1)>.log"
    made = visitor.post("/", files={"file": (name, CRASH.encode())}, follow_redirects=False).headers["location"]
    text = visitor.get(made).text
    assert "&lt;img src=x onerror=alert(1)&gt;.log" in text and "<img" not in text


def test_lines_around_a_line_of_evidence_stand_with_it(visitor: TestClient) -> None:
    log = "".join(f"step {number} loss 1.0\n" for number in range(30)) + CRASH
    text = visitor.get(paste(visitor, log)).text
    around = text.split('<details class="around">')[1].split("</details>")[0]
    assert '<span class="here"><span class="number">34</span> ZeroDivisionError: no' in around
    assert "step 29 loss" in around and "step 2 loss" not in around


def test_an_answer_to_a_missing_fact_goes_on_from_there(visitor: TestClient) -> None:
    first = paste(visitor, OOM)
    page = visitor.get(first).text
    assert "Missing fact" in page and f'action="{first}/answer"' in page
    answer = visitor.post(f"{first}/answer", data={"text": CRASH}, follow_redirects=False)
    assert answer.status_code == 303
    second = visitor.get(answer.headers["location"]).text
    assert "continues" in second and f'href="{first}"' in second
    refused = visitor.post(f"{first}/answer", data={"text": " "}, follow_redirects=False)
    assert refused.status_code == 422 and "nothing was answered" in refused.text
    fact = re.search(r'name="fact" value="([^"]+)"', page)
    assert fact is not None


def test_only_its_owner_sees_an_answer_until_he_shares_it(visitor: TestClient) -> None:
    signed_up(visitor, "anne@example.org")
    path = paste(visitor, OOM)
    assert "Only you and your teams see it" in visitor.get(path).text
    mine = dict(visitor.cookies)
    signed_up(visitor, "bob@example.org")
    for url in (path, f"{path}/delete", f"{path}/share"):
        answer = visitor.get(url) if url == path else visitor.post(url, data={"visibility": "link"})
        assert answer.status_code == 404, url
    assert path not in visitor.get("/h").text
    visitor.cookies.clear()
    visitor.cookies.update(mine)
    shared = visitor.post(f"{path}/share", data={"visibility": "link"})
    assert "Whoever has this link sees it" in shared.text
    visitor.cookies.clear()
    seen = visitor.get(path).text
    assert "CUDA out of memory" in seen and "Delete this answer" not in seen and "Seen before" not in seen
    visitor.cookies.update(mine)
    assert visitor.post(f"{path}/delete", follow_redirects=False).headers["location"] == "/h"
    assert visitor.get(path).status_code == 404


def test_a_failure_that_was_fixed_comes_back(visitor: TestClient) -> None:
    signed_up(visitor, "carol@example.org")
    path = paste(visitor, CRASH)
    assert "This is the first time" in visitor.get(path).text
    listed = visitor.get("/h").text
    failure = re.search(r'href="(/h/[0-9a-f]{16})"', listed)
    assert failure is not None
    state = visitor.post(f"{failure[1]}/state", data={"state": "fixed"}).text
    assert 'class="state fixed"' in state
    again = visitor.get(paste(visitor, CRASH)).text
    assert "2 times" in again and "came back" in again
    assert 'class="state came-back"' in visitor.get("/h?of_state=came+back").text
    assert "Nothing fits this filter" in visitor.get("/h?of_state=open&entry=cuda-oom").text
    assert visitor.post(f"{failure[1]}/state", data={"state": "came back"}).status_code == 422
    names = zipfile.ZipFile(io.BytesIO(visitor.get("/h/export").content)).namelist()
    assert sum(name.endswith(".capsule.json") for name in names) == 2
    assert visitor.post("/h/delete", data={}).status_code in (400, 422)
    assert "Nothing has failed here yet" in visitor.post("/h/delete", data={"sure": "yes"}).text


def test_an_account_from_the_first_day_to_the_last(visitor: TestClient) -> None:
    assert visitor.get("/account").status_code == 401
    short = visitor.post("/sign-up", data={"email": "dora@example.org", "password": "short"})
    assert short.status_code == 422 and "a password has" in short.text and "dora@example.org" in short.text
    signed_up(visitor, "dora@example.org")
    made = visitor.post("/account/tokens", data={"name": "<b>CI</b>", "scope": ["diagnose", "read"]}).text
    secret = re.search(r"<code>(ff_[\w-]+)</code>", made)
    assert secret is not None and "&lt;b&gt;CI&lt;/b&gt;" in made and secret[1] not in visitor.get("/account").text
    token = re.search(r'action="(/account/tokens/[^"]+/end)"', made)
    assert token is not None and "&lt;b&gt;" not in visitor.post(token[1]).text
    wrong = visitor.post("/account/password", data={"old": "wrong", "password": PASSWORD + "!"})
    assert wrong.status_code == 422 and "not the present password" in wrong.text
    assert visitor.post("/account/password", data={"old": PASSWORD, "password": PASSWORD + "!"}).status_code == 200
    visitor.post("/sign-out")
    assert visitor.get("/account").status_code == 401
    refused = visitor.post("/sign-in", data={"email": "dora@example.org", "password": PASSWORD})
    assert refused.status_code == 401 and "do not belong together" in refused.text
    visitor.post("/sign-in", data={"email": "dora@example.org", "password": PASSWORD + "!"})
    assert visitor.get("/account").status_code == 200
    assert visitor.post("/account/delete", data={"password": "wrong"}).status_code == 422
    visitor.post("/account/delete", data={"password": PASSWORD + "!"})
    assert visitor.get("/account").status_code == 401


def test_a_team_shares_by_invitation(visitor: TestClient) -> None:
    signed_up(visitor, "eve@example.org")
    team = visitor.post("/teams", data={"name": "Vision <1>"}, follow_redirects=False).headers["location"]
    invited = visitor.post(f"{team}/invite", data={"email": ""}).text
    link = re.search(r"<code>https?://[^/]+(/join\?invitation=[\w-]+)</code>", invited)
    assert link is not None and "Vision &lt;1&gt;" in invited
    signed_up(visitor, "frank@example.org")
    assert visitor.get(team).status_code == 404
    assert "Join as frank@example.org" in visitor.get(link[1]).text
    joined = visitor.post("/join", data={"invitation": link[1].partition("=")[2]})
    assert "eve@example.org" in joined.text and "Invite" not in joined.text
    assert visitor.post(f"{team}/invite", data={"email": ""}).status_code == 403
    assert "used already" in visitor.get(link[1]).text


def test_a_message_finds_its_entry(visitor: TestClient) -> None:
    found = visitor.post("/e", data={"query": OOM}).text
    assert 'href="/e/memory/cuda-oom"' in found
    page = visitor.get("/e/memory/cuda-oom").text
    for heading in ("Is it yours?", "Tell it apart", "Fix", "Verify", "How we decide", "Tested on", "Sources", "Related"):
        assert f">{heading}</h2>" in page
    assert '<a href="/e/memory/cuda-oom-activations"><code>cuda-oom-activations</code></a>' in page
    assert visitor.get("/e/other/cuda-oom", follow_redirects=False).headers["location"] == "/e/memory/cuda-oom"
    assert visitor.get("/e/memory/cuda-oom/entry.md").text.startswith("# CUDA out of memory")


def test_every_entry_has_a_page(visitor: TestClient) -> None:
    for path in sorted(set(re.findall(r'href="(/e/[a-z-]+/[a-z0-9-]+)"', visitor.get("/e").text))):
        assert visitor.get(path).status_code == 200, path


@pytest.mark.parametrize(
    ("ask", "status"),
    [
        (lambda client: client.get("/nothing"), 404),
        (lambda client: client.get("/d/nothing"), 404),
        (lambda client: client.post("/h/delete", data={"sure": "yes"}, headers={"Sec-Fetch-Site": "cross-site"}), 403),
        (lambda client: client.post("/", files={"file": ("a.log", b"x" * (2 << 20))}), 413),
    ],
)
def test_refusals_are_pages(visitor: TestClient, ask: Any, status: int) -> None:
    answer = ask(visitor)
    assert answer.status_code == status
    assert f'<p class="word">{status}</p>' in answer.text and 'class="top"' in answer.text


def test_the_last_of_the_day_says_what_to_do(tmp_path: Path) -> None:
    with console(tmp_path, tiers={"anonymous": {"diagnoses_a_day": 1, "requests_a_minute": 600}, "new": {}}) as client:
        client.headers.update(HTML)
        paste(client, OOM)
        refused = client.post("/", files={"none": ("", b"")}, data={"text": OOM})
        assert refused.status_code == 429 and "pip install firstfault" in refused.text


def test_the_data_page_is_made_from_the_settings(tmp_path: Path) -> None:
    with console(tmp_path, operator="The <b>lab</b>, room 7", retention_days=11, stream_retention_days=5) as client:
        text = client.get("/data", headers=HTML).text
        assert "The &lt;b&gt;lab&lt;/b&gt;, room 7" in text
        assert "11 days, or until you delete it" in text and "5 days after the last record" in text


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///firstfault.db", "a SQLite database on the machine that runs this console"),
        ("postgresql+psycopg://me:secret@db.example.org/x", "a PostgreSQL database on another machine of the operator"),
        ("postgresql+psycopg://me:secret@localhost/x", "a PostgreSQL database on the same machine"),
    ],
)
def test_where_it_is_stored_names_no_user(url: str, said: str) -> None:
    assert where_stored(Settings(database_url=url)) == said


POST = """Works with python, runs out of memory with `accelerate launch train.py`. Four cards, transformers Trainer. My config:
compute_environment: LOCAL_MACHINE
distributed_type: 'NO'
num_machines: 1
num_processes: 1
"""


def test_a_number_that_is_missing_is_typed_and_a_wrong_one_is_refused_in_words(visitor: TestClient) -> None:
    path = paste(visitor, POST)
    page = visitor.get(path).text
    assert 'name="fact" value="launch.visible_gpus"' in page
    assert '<input id="answer-value" name="value" inputmode="decimal"' in page
    assert 'value="NUMBER"' not in page
    fact = {"fact": "launch.visible_gpus"}
    wrong = visitor.post(f"{path}/answer", data={**fact, "value": "four of them", "text": ""}, follow_redirects=False)
    assert wrong.status_code == 422
    assert "launch.visible_gpus" in wrong.text
    right = visitor.post(f"{path}/answer", data={**fact, "value": "4", "text": ""}, follow_redirects=False)
    assert right.status_code == 303
    assert "nn.DataParallel" in visitor.get(right.headers["location"]).text
