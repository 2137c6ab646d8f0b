"""compose_ask.py PORT METRICS_PORT METRICS_PORT2 PROJECT - test the promises of the running
composition."""
import http.client
import json
import random
import re
import subprocess
import sys
import time

PORT, METRICS_PORT, METRICS_PORT2 = (int(a) for a in sys.argv[1:4])
PROJECT = sys.argv[4]
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
    return [(turn(t, f[2], words("next", 20)), a) for t, f, a in zip(talks, first, again)]


def metrics(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        c.request("GET", "/metrics")
        return c.getresponse().read().decode()
    finally:
        c.close()


def up(port):
    """Returns how many servers the agent knows as up: HAProxy said so with a request."""
    return len(re.findall(r"(?m)^kvroute_server_up\{.*\} 1$", metrics(port)))


def one_agent_killed(talks):
    """The first turns were decided by the agent that is killed."""
    decided = sum(int(n) for n in re.findall(r"(?m)^kvroute_decisions_total\{.*\} (\d+)$",
                                             metrics(METRICS_PORT2)))
    docker("kill", container("agent"))
    steady(40, "agent killed")
    later = [chat(turn(t, a[2], words("later", 20))) for t, a in talks]
    result([x[:2] for x in later] == [(200, a[1]) for _, a in talks],
           "the other agent, which had decided %d requests, continues all conversations where they "
           "were" % decided)
    now = sum(int(n) for n in re.findall(r"(?m)^kvroute_decisions_total\{.*\} (\d+)$",
                                         metrics(METRICS_PORT2)))
    result(now >= decided + 6, "it decided these: %d" % (now - decided))


def main():
    wait("HAProxy answers", 180, lambda: chat([{"role": "user", "content": "hello"}])[0] == 200)
    wait("both agents are ready and hear each other", 180, lambda: all(
        "\nkvroute_share_siblings 1\n" in metrics(p) for p in (METRICS_PORT, METRICS_PORT2)))
    hello = [{"role": "user", "content": "hello"}]
    wait("an agent decides, and four engines are up", 180,
         lambda: chat(hello)[0] == 200 and up(METRICS_PORT) == 4)
    talks = conversations()
    one_agent_killed(talks)
    talk, (_, engine, answer) = talks[0]
    docker("kill", container(engine))
    steady(30, "engine %s killed" % engine)
    status, other, _ = chat(turn(talk, answer, "and then?"))
    result(status == 200 and other != engine,
           "its conversation goes on at another engine: %s" % other)
    docker("kill", container("store"))
    steady(30, "store killed")
    docker("kill", container("agent2"))
    steady(40, "both agents killed")


main()
sys.exit(1 if failed else 0)
