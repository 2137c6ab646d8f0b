#!/usr/bin/env python3
"""turn_socket.py - frame to ACK of a warm turn over a real SPOP connection, in text and in token
mode: starts the agent with one thread and runs tests/tools/spop_turn against it. The tokenizer is
Llama 3's if it exists (../shared/data), otherwise the small one of the tests. Medians in us:

    bench turn_socket mode=text body_bytes=.. in_process=.. after_pause=.. transport=.. turn=..
                      decision=.. xxh3=.. n=..

  in_process  the same in memory (bench_turn), to the ACK: what the code takes in warm caches
  after_pause the same if the thread sleeps before each turn, as one that waits for a socket
  transport   a frame of that size that the agent has no use for: what no change of the decision
              can get below
  turn        the whole
  decision    the agent's own part of it, as it tells in the ACK

The next line has the least of each.
"""
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/it"))
sys.dont_write_bytecode = True
from fleet import BUILD, free_ports, wait_for  # noqa: E402

LLAMA = os.path.join(TOP, "../shared/data/tokenizers")
TOKENIZER = LLAMA + "/tokenizer_json/llama-3.2.tokenizer.json.gz"
TEMPLATE = LLAMA + "/chat/templates/meta-llama-Llama-3.3-70B-Instruct.jinja"
SMALL = os.path.join(TOP, "tests/data/tok")
SIZES = sys.argv[1:] or ["64000", "600000"]


def model_files(folder):
    if os.path.exists(TOKENIZER) and os.path.exists(TEMPLATE):
        with gzip.open(TOKENIZER) as f, open(folder + "/tokenizer.json", "wb") as to:
            shutil.copyfileobj(f, to)
        shutil.copy(TEMPLATE, folder + "/chat_template.jinja")
    else:
        shutil.copy(SMALL + "/llama.tokenizer.json", folder + "/tokenizer.json")
        shutil.copy(SMALL + "/llama.chat_template.jinja", folder + "/chat_template.jinja")
    with open(folder + "/tokenizer_config.json", "w") as f:
        json.dump({"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}, f)


def build_file(name):
    return os.path.join(BUILD, "tests", name)


def fields_of(argv, **env):
    """{name: value} of the line of figures that a bench prints."""
    out = subprocess.run(argv, check=True, timeout=600, stdout=subprocess.PIPE, text=True,
                         cwd=TOP, env={**os.environ, **env}).stdout
    return dict(f.split("=", 1) for f in out.splitlines()[-1].split() if "=" in f)


def row(port, model, size):
    whole = fields_of([build_file("tools/spop_turn"), str(port), model, size])
    alone = fields_of([build_file("bench/bench_turn"), model, size])
    paused = fields_of([build_file("bench/bench_turn"), model, size], PAUSE_US="2000")
    for name, end in (("turn_socket", "_us"), ("turn_socket_least", "_min_us")):
        print("bench %s mode=%s body_bytes=%s in_process=%s after_pause=%s %s n=%s" % (
            name, model, whole["body_bytes"], alone["ack" + end], paused["ack" + end],
            " ".join("%s=%s" % (k, whole[k + end])
                     for k in ("transport", "turn", "decision", "xxh3")), whole["n"]), flush=True)


def main():
    with tempfile.TemporaryDirectory(prefix="kvroute-") as folder:
        spop, metrics = free_ports(2)
        model_files(folder)
        with open(folder + "/kvroute.yaml", "w") as f:
            f.write("threads: 1\nstate_dir: %s\nmodels_dir: %s\n"
                    "spop: {listen: [\"127.0.0.1:%d\"]}\n"
                    "log_feed: {tcp: [], udp: []}\nmetrics: {listen: [\"127.0.0.1:%d\"]}\n"
                    "models: [{name: tokens, mode: tokens, tokenizer: tokenizer.json}]\n"
                    % (folder, folder, spop, metrics))
        with open(folder + "/log", "w") as log:
            agent = subprocess.Popen([os.path.join(BUILD, "kvroute"), "-f",
                                      folder + "/kvroute.yaml"], stderr=log)
        try:
            def ready():
                if agent.poll() is not None:
                    raise RuntimeError("the agent ended")
                return urllib.request.urlopen("http://127.0.0.1:%d/ready" % metrics).status == 200
            wait_for("the agent", 60, ready)
            for size in SIZES:
                for model in ("text", "tokens"):
                    row(spop, model, size)
        finally:
            agent.terminate()
            agent.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
