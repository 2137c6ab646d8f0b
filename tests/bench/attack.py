#!/usr/bin/env python3
"""attack.py [SECONDS [TOKENIZER [TEMPLATE]]] - good clients next to hostile ones, through a real
HAProxy and an agent with two threads.

100 good requests a second of 4 KB on 20 connections run alone, and beside 60 a second with 240 KB
of new random letters each. The time of a request counts from when it was due until its answer, with
engines that answer at once. "decided" is the share of the good ones for which the agent chose a
server within "timeout processing", 50 ms. The same machine makes the load, so beside=attack_text
has the figures with a model in text mode: the effect of HAProxy and Python alone. Run it with
"make bench-attack".
"""
import http.client
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../it/promises"))
sys.dont_write_bytecode = True

from p10_work import Attacked, body, decided, good, hostile  # noqa: E402

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/data/tokenizers")
TOKENIZER = os.path.join(DATA, "tokenizer_json/llama-3.3.tokenizer.json.gz")
TEMPLATE = os.path.join(DATA, "chat/templates/meta-llama-Llama-3.3-70B-Instruct.jinja")
POOL = 24           # hostile bodies made in advance; each is sent with another beginning


def unpacked(path, folder):
    import gzip
    if not path.endswith(".gz"):
        return path
    out = os.path.join(folder, "tokenizer.json")
    with gzip.open(path) as f, open(out, "wb") as g:
        g.write(f.read())
    return out


class Load:
    """Send <rate> requests a second from <make> on <n> connections, timed from when each is due."""

    def __init__(self, fleet, rate, n, seconds, make):
        self.fleet, self.rate, self.make, self.count = fleet, rate, make, int(rate * seconds)
        self.rows, self.lock, self.next = [], threading.Lock(), 0
        self.start = time.monotonic() + 0.2
        self.threads = [threading.Thread(target=self.run) for _ in range(n)]
        for t in self.threads:
            t.start()

    def run(self):
        c = http.client.HTTPConnection("127.0.0.1", self.fleet.port, timeout=30)
        while True:
            with self.lock:
                i, self.next = self.next, self.next + 1
            if i >= self.count:
                break
            text, due = self.make(i), self.start + i / self.rate
            time.sleep(max(0, due - time.monotonic()))
            try:
                ok = decided(*self.fleet.ask(text, c))
            except (OSError, http.client.HTTPException):
                ok = False
                c.close()
            self.rows.append((time.monotonic() - due, ok))
        c.close()

    def end(self):
        for t in self.threads:
            t.join()
        times = sorted(t for t, _ in self.rows)
        n = len(times)
        return {"n": n, "decided": sum(ok for _, ok in self.rows) / n,
                "p50_ms": times[n // 2] * 1e3, "p99_ms": times[int(n * 0.99)] * 1e3}


def cpu_s(fleet):
    with open("/proc/%d/stat" % fleet.processes["agent"].pid) as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def one(fleet, what, seconds, attack):
    rng = random.Random(time.time_ns())
    texts = [good(rng) for _ in range(100)]
    pool = [hostile(rng) for _ in range(POOL)]
    head = body("")[:-len('"}], "model": "m", "max_tokens": 1}')]

    def bad(i):
        text = pool[i % POOL]
        if attack == "text":
            text = text.replace('"model": "m"', '"model": "t"')
        return head + rng.randbytes(40).hex() + " " + text[len(head) + 30000 * (i // POOL % 7):]

    before, load = cpu_s(fleet), os.getloadavg()
    loads = [Load(fleet, 60, 30, seconds, bad)] if attack else []
    mine = Load(fleet, 100, 20, seconds, lambda i: texts[i % 100]).end()
    theirs = [x.end() for x in loads]
    print("bench attack beside=%s good=%d decided=%.4f p50_ms=%.1f p99_ms=%.1f hostile_p50_ms=%.1f "
          "agent_cpu_s=%.2f seconds=%.1f load=%.1f limits=%s"
          % (what, mine["n"], mine["decided"], mine["p50_ms"], mine["p99_ms"],
             theirs[0]["p50_ms"] if theirs else 0, cpu_s(fleet) - before,
             seconds, load[0], ",".join("%s:%d" % kv for kv in fleet.limits().items())), flush=True)
    return mine


def main(argv):
    seconds = float(argv[1]) if len(argv) > 1 else 5
    tokenizer, template = argv[2] if len(argv) > 2 else TOKENIZER, argv[3] if len(
        argv) > 3 else TEMPLATE
    fleet = Attacked(haproxy=None)
    if os.path.exists(tokenizer):
        fleet = Attacked(unpacked(tokenizer, fleet.folder),
                         template if os.path.exists(template) else None)
    with fleet as f:
        print("# %s, %d cores; HAProxy %s; agent threads %d"
              % (os.path.basename(tokenizer), os.cpu_count(), f.haproxy_bin, f.threads))
        alone = one(f, "nothing", seconds, "")
        one(f, "attack_text", seconds, "text")
        beside = one(f, "attack", seconds, "tokens")
    print("bench attack_ratio decided=%.4f p50=%.2f" % (beside["decided"],
                                                        beside["p50_ms"] / alone["p50_ms"]))


if __name__ == "__main__":
    main(sys.argv)
