#!/usr/bin/env python3
"""stub_sidecar.py --engine HOST:PORT [--listen HOST:PORT] [--strict] - the proxy beside a decode
engine that lets another engine compute a prompt, by the contract of llm-d's and Dynamo's sidecars:

    x-prefiller-host-port absent     the request goes to the engine as it is
    host:port                        1. the prompt to that server: max_tokens 1, no stream,
                                        kv_transfer_params {do_remote_decode: true}
                                     2. the request to the engine, with the kv_transfer_params of
                                        that answer
    empty, repeated or malformed     502, and no engine is asked
    the prefill server fails         llm-d's: 5xx or no answer: the engine computes the prompt
                                     itself; another status is passed on
                                     --strict, as Dynamo's: no answer: 502; a status is passed on

The header never reaches an engine. GET /sidecar shows counts as JSON. Prints one line when it
listens: stub_sidecar listen=127.0.0.1:40123.
"""
import argparse
import collections
import http.client
import http.server
import json
import re
import socket
import sys
import threading

HEADER = "x-prefiller-host-port"
HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", HEADER}
LIMITS = {"/v1/responses": ["max_output_tokens"],
          "/v1/chat/completions": ["max_tokens", "max_completion_tokens"]}
DROPPED = ["stream_options", "min_tokens", "min_completion_tokens"]
TIMEOUT = 600


class Failed(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status, self.text = status, text


def place(text):
    """'10.0.0.7:8000', '[fd00::7]:8000' -> (host, port)"""
    m = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})", text)
    if not m or not 1 <= int(m.group(2)) <= 65535:
        raise Failed(502, "%s is not host:port" % HEADER)
    return m.group(1).strip("[]"), int(m.group(2))


class Sidecar(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, listen, engine, strict):
        self.engine, self.strict = engine, strict
        self.counts, self.lock = collections.Counter(), threading.Lock()
        super().__init__(listen, Handler)

    def server_bind(self):
        # shares the port with a socket of the test that reserves it
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        super().server_bind()

    def handle_error(self, *args):
        pass    # clients that disconnect

    def count(self, what):
        with self.lock:
            self.counts[what] += 1


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def address_string(self):
        return ""

    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.path == "/sidecar":
            self.reply(200, json.dumps(self.server.counts).encode())
        else:
            self.ask_engine(None)

    def do_POST(self):
        body = self.read_body()
        try:
            self.ask_engine(self.with_prefill(body))
        except Failed as e:
            self.server.count("refused")
            self.reply(e.status, json.dumps({"error": {"message": e.text}}).encode())

    def read_body(self):
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while True:
            n = int(self.rfile.readline().split(b";")[0], 16)
            body += self.rfile.read(n)
            self.rfile.readline()
            if n == 0:
                return body

    # ---- the prompt to the prefill server

    def with_prefill(self, body):
        """Return the body for the engine."""
        to = self.headers.get_all(HEADER, [])
        if not to:
            self.server.count("alone")
            return body
        if len(to) != 1:
            raise Failed(502, "%s is repeated" % HEADER)
        host, port = place(to[0].strip())
        try:
            ask = json.loads(body)
        except ValueError:
            ask = None
        if not isinstance(ask, dict):
            raise Failed(400, "the body is no JSON object")
        if ask.get("kv_transfer_params"):
            raise Failed(400, "kv_transfer_params are not the client's")
        params = self.prefill(host, port, ask)
        if params is None:
            self.server.count("fallback")
            return body
        self.server.count("split")
        return json.dumps({**ask, "kv_transfer_params": params}).encode()

    def prefill(self, host, port, ask):
        """Return the kv_transfer_params; None: the engine is to compute the prompt."""
        first = {k: v for k, v in ask.items() if k not in DROPPED}
        limits = LIMITS.get(self.path.split("?")[0], ["max_tokens"])
        first.update({k: 1 for k in limits if k == limits[0] or k in ask})
        first.update(stream=False, kv_transfer_params={
            "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
            "remote_block_ids": None, "remote_host": None, "remote_port": None})
        try:
            status, text = self.fetch(host, port, json.dumps(first).encode())
        except (OSError, http.client.HTTPException):
            status, text = 0, b""
        if not self.server.strict and (status == 0 or status >= 500):
            return None
        if status != 200:
            raise Failed(status or 502, "the prefill server failed")
        params = json.loads(text).get("kv_transfer_params")
        if not isinstance(params, dict) or params.get("do_remote_prefill") is not True:
            raise Failed(502, "the prefill server returned no kv_transfer_params")
        return params

    def fetch(self, host, port, body):
        c = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        try:
            c.request("POST", self.path, body, self.onward())
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    # ---- the request to the engine

    def onward(self):
        return {k: v for k, v in self.headers.items() if k.lower() not in HOP}

    def ask_engine(self, body):
        c = http.client.HTTPConnection(*self.server.engine, timeout=TIMEOUT)
        try:
            c.request(self.command, self.path, body, self.onward())
            r = c.getresponse()
        except (OSError, http.client.HTTPException):
            c.close()
            self.reply(502, b'{"error":{"message":"the engine does not answer"}}')
            return
        try:
            self.pass_on(r)
        finally:
            c.close()

    def pass_on(self, r):
        self.send_response_only(r.status)
        for k, v in r.getheaders():
            if k.lower() not in HOP:
                self.send_header(k, v)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while True:
            part = r.read1(65536)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            if not part:
                return

    def reply(self, status, body):
        self.send_response_only(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--engine", type=address, required=True)
    p.add_argument("--listen", type=address, default=("127.0.0.1", 0))
    p.add_argument("--strict", action="store_true")
    o = p.parse_args()
    s = Sidecar(o.listen, o.engine, o.strict)
    print("stub_sidecar listen=%s:%d" % s.server_address, flush=True)
    try:
        s.serve_forever(0.05)
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
