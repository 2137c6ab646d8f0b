"""compose_ask.py PORT METRICS_PORT PROJECT - test the promises of the running composition."""
import http.client
import json
import random
import re
import subprocess
import sys
import time

PORT, METRICS_PORT, PROJECT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
failed = 0


def docker(*args):
    return subprocess.run(["docker", *args], check=True, capture_output=True,
                          text=True).stdout.strip()


def container(service):
    return docker("ps", "-q", "--filter", "label=com.docker.compose.project=" + PROJECT,
                  "--filter", "label=com.docker.compose.service=" + service)


def words(seed, n):
    r = random.Random(seed)
    return " ".join(r.choice("alpha beta gamma delta epsilon zeta eta theta".split())
                    for _ in range(n))


def chat(messages):
    c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=180)
    c.request("POST", "/v1/chat/completions",
              json.dumps({"messages": messages, "model": "stub", "max_tokens": 4}),
              {"content-type": "application/json"})
    r = c.getresponse()
    body = r.read()
    c.close()
    return r.status, r.getheader("x-engine"), json.loads(body) if r.status == 200 else {}


def turn(messages, answer, text):
    said = answer["choices"][0]["message"]["content"]
    return messages + [{"role": "assistant", "content": said}, {"role": "user", "content": text}]


def result(good, what):
    global failed
    failed += not good
    print("%s  %s" % ("ok  " if good else "FAIL", what), flush=True)


def wait(what, seconds, test):
    end = time.time() + seconds
    while time.time() < end:
        try:
            if test():
                return result(True, what)
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.2)
    result(False, what)


def steady(n, what):
    """n requests, none of which may fail."""
    bad = [s for s in (chat([{"role": "user", "content": words(i, 20)}])[0] for i in range(n))
           if s != 200]
    result(not bad, "%s: %d requests, %d failed" % (what, n, len(bad)))


def conversations():
    talks = [[{"role": "user", "content": words("talk %d" % i, 300)}] for i in range(6)]
    first = [chat(t) for t in talks]
    again = [chat(turn(t, f[2], words("next", 20))) for t, f in zip(talks, first)]
    result(all(f[0] == 200 for f in first + again),
           "twelve turns of six conversations are answered")
    result(len({f[1] for f in first}) >= 3,
           "conversations spread: %s" % sorted(f[1] for f in first))
    result([f[1] for f in first] == [a[1] for a in again],
           "a second turn goes where the first went")
    cached = [a[2]["usage"]["prompt_tokens_details"]["cached_tokens"] for a in again if a[0] == 200]
    result(min(cached, default=0) > 200, "and its prefix is cached there: %s tokens" % cached)
    return talks[0], first[0]


def agent_healthy():
    return docker("inspect", "-f", "{{.State.Health.Status}}", container("agent")) == "healthy"


def up():
    """Returns how many servers the agent knows as up: HAProxy said so with a request."""
    c = http.client.HTTPConnection("127.0.0.1", METRICS_PORT, timeout=20)
    try:
        c.request("GET", "/metrics")
        return len(re.findall(r"(?m)^kvroute_server_up\{.*\} 1$", c.getresponse().read().decode()))
    finally:
        c.close()


def main():
    wait("HAProxy answers", 180, lambda: chat([{"role": "user", "content": "hello"}])[0] == 200)
    wait("the agent's container is healthy", 180, agent_healthy)
    hello = [{"role": "user", "content": "hello"}]
    wait("the agent decides, and four engines are up", 180,
         lambda: chat(hello)[0] == 200 and up() == 4)
    talk, (_, engine, answer) = conversations()
    docker("kill", container(engine))
    steady(30, "engine %s killed" % engine)
    status, other, _ = chat(turn(talk, answer, "and then?"))
    result(status == 200 and other != engine,
           "its conversation goes on at another engine: %s" % other)
    docker("kill", container("agent"))
    steady(40, "agent killed")


main()
sys.exit(1 if failed else 0)
