"""The server: its rules, its JSON API, and what it refuses. Answers equal those of the functions."""

import gzip
import json
from urllib.parse import quote

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from malformed_requests import malformed_requests
from starlette.testclient import TestClient

import podsim
from podsim.errors import PodsimError
from podsim.questions.registry import screens
from podsim.report.plain_data import plain_value
from podsim.web.web_application import make_application, open_site
from podsim.web.web_server import listen, web

ASKED = {"model": "llama-3-8b", "on": "dgx-h100:2", "tp": 4, "tokens": "1T", "price": "2.5"}
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
    "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 2048,
}  # fmt: skip


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    site = open_site(1, 20, tmp_path_factory.mktemp("site"))
    with TestClient(make_application(site), base_url="http://localhost") as opened:
        opened.get("/")
        yield opened


def problems(reply):
    return " ".join(reply.json()["problems"])


def test_a_prediction_is_that_of_the_function(client):
    reply = client.post("/api/predict", json=ASKED)
    assert reply.status_code == 200
    assert reply.json() == plain_value(podsim.predict(**ASKED))


def test_a_search_streams_its_progress_and_its_answer(client):
    asked = {"model": "gpt2", "on": "dgx-h100:2"}
    reply = client.post("/api/plan", json=asked, headers={"accept": "text/event-stream"})
    events = [event.split("\n", 1) for event in reply.text.strip().split("\n\n")]
    assert events[-1][0] == "event: answer"
    answer = json.loads(events[-1][1].removeprefix("data: "))
    expected = plain_value(podsim.plan(**asked))
    assert {**answer, "seconds": 0} == {**expected, "seconds": 0}


def test_mistakes_read_as_in_the_terminal(client):
    reply = client.post("/api/predict", json={"model": "lama-3-8b", "on": "dgx-h100"})
    assert reply.status_code == 400
    assert "did you mean" in problems(reply)
    reply = client.post("/api/predict", json={"model": "gpt2", "on": "dgx-h100", "tp": 3})
    assert "does not divide 8 GPUs" in problems(reply)
    assert client.post("/api/plan", json={"model": "gpt3-175b", "on": "dgx-a100-80gb"}).status_code == 422


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../../etc/passwd",
        "..",
        ".",
        "~/config.json",
        "a\\b",
        "a/b",
        "x\x00y",
        "file:///etc/passwd",
    ],
)
def test_no_request_names_a_file_of_the_server(client, path):
    for name in ("model", "on"):
        reply = client.post("/api/predict", json={"model": "gpt2", "on": "dgx-h100", name: path})
        assert reply.status_code == 400
        assert "root:" not in reply.text
    if path not in (".", ".."):  # which the client itself resolves
        assert client.get("/static/" + quote(path, safe="")).status_code in (400, 404, 405)


def test_options_that_name_files_are_not_asked_for(client):
    questions = client.get("/api").json()["questions"]
    assert set(questions) == set(screens())
    for name in ("save", "read", "chakra", "raw"):
        assert all(name not in [known["name"] for known in each["options"]] for each in questions.values())
    assert client.post("/api/plan", json={"model": "gpt2", "on": "dgx-h100", "save": "x"}).status_code == 400


def test_a_config_is_planned_and_belongs_to_its_visitor(client):
    sent = client.post("/api/files?name=../..%2Fmine.json&kind=config", content=json.dumps(CONFIG)).json()
    assert sent["name"] == "mine.json"
    asked = {"model": sent["file"], "on": "dgx-h100"}
    reply = client.post("/api/predict", json=asked)
    assert reply.status_code == 200, reply.text
    stranger = dict(client.cookies)
    client.cookies.clear()
    client.get("/")
    assert "send it again" in problems(client.post("/api/predict", json=asked))
    client.cookies = stranger
    identity = sent["file"].removeprefix("upload:")
    assert client.delete(f"/api/files/{identity}").json() == {"dropped": True}
    assert client.post("/api/predict", json={**asked, "tp": 2}).status_code == 400


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 50,
        b"{" * 5000,
        b"[" * 100000,
        gzip.compress(b"0" * 10**6),
        b"PK\x03\x04" + b"0" * 99,
        b'{"a": 1e999}',
    ],
)
def test_files_that_are_no_config_are_refused(client, content):
    sent = client.post("/api/files?name=config.json", content=content).json()
    reply = client.post("/api/predict", json={"model": sent["file"], "on": "dgx-h100"})
    assert reply.status_code == 400
    assert "visits" not in reply.text
    client.delete(f"/api/files/{sent['file'].removeprefix('upload:')}")


def test_what_is_too_large_is_refused(client):
    large = b'{"model": "' + b"x" * 10_000_000 + b'"}'
    assert client.post("/api/predict", content=large).status_code == 413
    assert client.post("/api/predict", content=iter([large])).status_code == 413
    assert client.post("/api/files?name=c.json", content=b"0" * (2**20 + 1)).status_code == 413
    squeezed = gzip.compress(b"{}")
    assert (
        client.post("/api/predict", content=squeezed, headers={"content-encoding": "gzip"}).status_code == 415
    )


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421), ({"host": "localhost.evil.example"}, 421), ({"host": "a@localhost"}, 421),
        ({"origin": "http://evil.example"}, 403), ({"origin": "null"}, 403), ({"sec-fetch-site": "cross-site"}, 403),
        ({"origin": "http://localhost"}, 200), ({"host": "localhost:9999", "origin": "http://localhost:9999"}, 200),
    ],
)  # fmt: skip
def test_other_hosts_and_other_pages_are_refused(client, headers, status):
    assert client.post("/api/predict", json=ASKED, headers=headers).status_code == status


def test_every_reply_forbids_inline_script(client):
    for path in ("/", "/static/app.js", "/api", "/nothing"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_question_past_its_limit_is_stopped_and_its_worker_replaced(tmp_path):
    site = open_site(1, 0.05, tmp_path)
    with TestClient(make_application(site), base_url="http://localhost") as opened:
        while not site.long._workers:
            opened.get("/api")
        reply = opened.post("/api/plan", json={"model": "gpt3-175b", "on": "selene"})
        assert reply.status_code == 503
        assert "was stopped" in problems(reply)
        while len(site.long._workers) < 1:
            opened.get("/api")
    assert site.long.restarts == 1


def test_a_token_moves_from_the_address_into_a_cookie(tmp_path):
    site = open_site(1, 5, tmp_path)
    guarded = make_application(site, host="0.0.0.0", token="secret")
    visitor = TestClient(guarded, base_url="http://pod.example", follow_redirects=False)
    assert visitor.get("/").status_code == 401
    assert visitor.get("/?token=wrong").status_code == 401
    moved = visitor.get("/?token=secret&x=1")
    assert (moved.status_code, moved.headers["location"]) == (303, "/?x=1")
    assert "HttpOnly" in moved.headers["set-cookie"]
    assert visitor.get("/").status_code == 200
    site.sessions.close()


def test_the_server_refuses_what_it_should_not_do():
    with pytest.raises(PodsimError, match="--token"):
        web(host="0.0.0.0")
    with (
        listen("127.0.0.1", 0) as taken,
        pytest.raises(PodsimError, match=r"is busy; \d+ is free: podsim web --port"),
    ):
        listen("127.0.0.1", taken.getsockname()[1])


def test_malformed_requests_get_a_refusal_and_no_traceback(client):
    quick = tuple(name for name, (_, entry) in screens().items() if entry.screen and entry.screen.is_quick)
    for asked in malformed_requests(7, 300, quick):
        reply = client.request(asked.method, asked.path, content=asked.body, headers=asked.headers)
        assert reply.status_code < 500, (asked, reply.text)
        assert "Traceback" not in reply.text
        assert "root:x:" not in reply.text
    assert client.post("/api/predict", json=ASKED).status_code == 200
