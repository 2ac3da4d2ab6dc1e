"""A TCP proxy that can lose its connections, as a network does."""

import select
import socket
import struct
import threading

CHUNK = 1 << 16


class Proxy:
    """Passes connections to `port` of this machine on, and resets all of them when it is told to."""

    def __init__(self, port):
        self.target = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.pairs = set()
        self.lock = threading.Lock()
        self.passed = 0
        self.cuts = 0
        self._due = None
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def remote(self):
        return f"sc://127.0.0.1:{self.listener.getsockname()[1]}"

    def cut_after(self, count):
        """Cuts once, when so many more bytes have passed."""
        until = self.passed + count
        self._due = lambda _chunk, _to_server: self.passed > until

    def cut_on(self, text):
        """Cuts once, when a request with this text has passed."""
        self._due = lambda chunk, to_server: to_server and text in chunk

    def disarm(self):
        self._due = None

    def cut(self):
        """Cuts now."""
        with self.lock:
            pairs, self.pairs = self.pairs, set()
            self.cuts += bool(pairs)
        for pair in pairs:
            for end in pair:
                self._reset(end)

    def close(self):
        self.listener.close()
        self.cut()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target)
            except OSError:
                self._reset(client)
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = (client, server)
            with self.lock:
                self.pairs.add(pair)
            threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, client, server):
        try:
            while True:
                ready, _, _ = select.select([client, server], [], [], 60)
                for end in ready:
                    chunk = end.recv(CHUNK)
                    if not chunk:
                        return
                    to_server = end is client
                    (server if to_server else client).sendall(chunk)
                    self.passed += len(chunk)
                    if self._due and self._due(chunk, to_server):
                        self._due = None
                        self.cut()
        except (OSError, ValueError):
            pass
        finally:
            with self.lock:
                self.pairs.discard((client, server))
            self._reset(client)
            self._reset(server)

    @staticmethod
    def _reset(end):
        try:
            # Closing resets the connection instead of ending it in order; shutting down wakes who waits for it.
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()
