"""Serves the page of mlxcommctl web from the tree, and a feed with made-up states.

    python tests/shell/canned_page.py [STATE]       for a browser: http://127.0.0.1:7490/pair-busy/
"""

import http.server
import json
import pathlib
import queue
import re
import sys
import threading

PAGE = pathlib.Path(__file__).parents[2] / "client/ctl/web/page"
SERVER = PAGE.parent / "page_server.cc"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def policy():
    """The Content-Security-Policy of the real server."""
    text = re.search(r'"Content-Security-Policy",\s*((?:"[^"]*"\s*)+)', SERVER.read_text(encoding="utf-8"))[1]
    return "".join(re.findall(r'"([^"]*)"', text))


class CannedPage(http.server.ThreadingHTTPServer):
    """`say` reaches every open feed, and feeds opened later receive the last data of each part."""

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Request)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/page/"
        self.said, self.feeds, self.lock, self.refusal = {}, [], threading.Lock(), ""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def say(self, state):
        for name, data in state.messages():
            message = f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
            with self.lock:
                self.said[name] = message
                for feed in self.feeds:
                    feed.put(message)

    def follow(self):
        feed = queue.Queue()
        with self.lock:
            for message in self.said.values():
                feed.put(message)
            self.feeds.append(feed)
        return feed

    def close(self):
        """Feeds end as when the program does."""
        self.shutdown()
        self.server_close()
        with self.lock:
            for feed in self.feeds:
                feed.put(None)


class Request(http.server.BaseHTTPRequestHandler):
    def answer(self, kind, content=None, status=200):
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Security-Policy", policy())
        if content is not None:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content or b"")

    def do_GET(self):
        name = self.path.rpartition("/")[2] or "index.html"
        if name == "feed" and self.server.refusal:
            self.answer("text/plain", self.server.refusal.encode(), 503)
        elif name == "feed":
            self.answer("text/event-stream")
            feed = self.server.follow()
            while (message := feed.get()) is not None:
                self.wfile.write(message)
        elif name in {file.name for file in PAGE.iterdir()}:
            self.answer(TYPES[pathlib.Path(name).suffix], (PAGE / name).read_bytes())
        else:
            self.send_response(204)  # favicon.ico
            self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    import web_states

    served = CannedPage(7490)
    served.say(web_states.STATES[sys.argv[1] if len(sys.argv) > 1 else "pair-busy"]())
    print(served.url)
    threading.Event().wait()
