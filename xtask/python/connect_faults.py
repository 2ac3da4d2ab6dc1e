"""What survives when clients are killed, the server is killed, connections break and machines pause.

    connect_faults.py BINARY FOLDER [--full] [--only cut_connections,…]
"""

import json
import multiprocessing
import random
import threading
import time

from pyspark.errors import PySparkException

from millstream_server import Server
from scenario import condition, run, session, wait_until
from tcp_proxy import Proxy

# Options under which a server forgets clients that are gone while a test runs.
FORGETFUL = ("--session-timeout", "2s", "--detached-timeout", "1s")


# The server's allocator keeps pages for the next time in every thread, up to hundreds of MiB, and how much is chance. Told to give them back at
# once, what is resident is what is in use: after a cycle of killed clients the same within a few MiB, every time.
FRUGAL = {"MIMALLOC_PURGE_DELAY": "0"}

# So often every kind of client is killed before anything is measured: by then whatever is made once and kept is there.
WARM_UP = 5

# What a killed client may leave behind, on average. The responses of an operation that is not let go are up to 90 MiB, and one kind of client
# in five has them: 18 MiB on average. It takes some twenty clients with large results until pages with holes in them are as many as they will be,
# 30 MiB, which a short run may see as growth.
MOST_LEFT_MIB = 2

# What two readings of an idle server may differ by.
NOISE_MIB = 10


def killed_clients(setting):
    """Clients that are killed in the middle of something leave nothing behind."""
    cycles = setting.rounds(WARM_UP + 6, WARM_UP + 35)
    source = setting.folder / "in"
    source.mkdir()
    (source / "0.json").write_text('{"id":1}\n' * 1000)
    # Forking is cheap from a process that has everything imported and no connection open.
    fork = multiprocessing.get_context("forkserver")
    fork.set_forkserver_preload(["grpc", "pandas", "pyarrow", "__main__"])
    with Server(setting.binary, setting.folder / "server", *FORGETFUL, environment=FRUGAL) as server:
        figures = []
        for cycle in range(cycles):
            for kind in VICTIMS:
                killed(server, fork, kind, source, setting.folder / f"checkpoint-{cycle}-{kind.__name__}")
            quiet(server)
            figures.append((server.memory_mib(), server.open_files(), server.threads()))
    settled = figures[WARM_UP:]
    # A leak raises all readings, so the least of each half tell it from a reading that came at a bad moment.
    half = len(settled) // 2
    (memory, files, threads), (memory_after, files_after, threads_after) = (map(min, zip(*part)) for part in (settled[:half], settled[half:]))
    clients = half * len(VICTIMS)
    most = memory + max(NOISE_MIB, clients * MOST_LEFT_MIB)
    assert files_after <= files, f"open files grew from {files} to {files_after}: {figures}"
    assert memory_after <= most, f"memory grew from {memory:.0f} to {memory_after:.0f} MiB with {clients} clients killed: {figures}"
    setting.say(f"{cycles * len(VICTIMS)} clients killed: memory {memory:.0f} MiB when half of them were measured and {memory_after:.0f} MiB at the "
                f"end, open files {files} and {files_after}, threads {threads} and {threads_after}")


def killed(server, fork, kind, source, checkpoint):
    """Starts a client of a kind and kills it in the middle of what it does."""
    ready, said = fork.Pipe(duplex=False)
    victim = fork.Process(target=kind, args=(server.remote, str(source), str(checkpoint), said))
    victim.start()
    said.close()
    assert ready.poll(60), f"{kind.__name__} did not begin: {server.said()}"
    session_id = ready.recv()
    ready.close()
    victim.kill()
    victim.join()
    if kind is streams:
        comes_back(server, session_id)


def computes(remote, _source, _checkpoint, said):
    spark = session(remote)
    said.send(spark.client._session_id)
    spark.sql("SELECT sum((a.id * 31 + b.id) % 7) FROM range(10000000) a CROSS JOIN range(1000000) b").collect()


def reads(remote, _source, _checkpoint, said):
    spark = session(remote)
    rows = spark.sql("SELECT id, repeat('x', 1000) FROM range(10000000)").toLocalIterator()
    for _ in range(1000):
        next(rows)
    said.send(spark.client._session_id)
    time.sleep(60)


def reads_once(remote, _source, _checkpoint, said):
    """Like `reads`, without the possibility to come back."""
    spark = session(remote)
    spark.client.disable_reattachable_execute()
    rows = spark.sql("SELECT id, repeat('x', 1000) FROM range(10000000)").toLocalIterator()
    for _ in range(1000):
        next(rows)
    said.send(spark.client._session_id)
    time.sleep(60)


def streams(remote, source, checkpoint, said):
    spark = session(remote)
    query = (spark.readStream.schema("id bigint").json(source).writeStream.format("noop").queryName("left")
             .option("checkpointLocation", checkpoint).start())
    query.processAllAvailable()
    said.send(spark.client._session_id)
    query.awaitTermination()


def listens(remote, source, _checkpoint, said):
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Silent(StreamingQueryListener):
        def onQueryStarted(self, event):
            pass

        def onQueryProgress(self, event):
            pass

        def onQueryTerminated(self, event):
            pass

    spark = session(remote)
    spark.streams.addListener(Silent())
    query = spark.readStream.schema("id bigint").json(source).writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination(60)
    said.send(spark.client._session_id)
    spark.streams.awaitAnyTermination()
    time.sleep(60)


VICTIMS = (computes, reads, reads_once, streams, listens)


def comes_back(server, session_id):
    """As in Spark, the query of a client that is gone goes on, and a client that comes back to its session can stop it."""
    spark = session(f"{server.remote}/;session_id={session_id}")
    left = [query for query in spark.streams.active if query.name == "left"]
    assert len(left) == 1, f"the query of the killed client does not run: {spark.streams.active}"
    left[0].stop()
    spark.stop()


def quiet(server):
    """Waits until the server has forgotten who is gone: nothing is computed and memory is given back."""
    time.sleep(5)
    wait_until("an idle server", server.is_idle, 60)


def killed_server(setting):
    """A server that is killed in the middle of batches and started again: every id is in the table once."""
    kills, files, rows = setting.rounds(6, 20), setting.rounds(120, 400), 50
    source, table, checkpoint = setting.folder / "in", setting.folder / "table", setting.folder / "checkpoint"
    source.mkdir()
    points = ["offsets.after:2", "batch.computed:2", "sink.commit.before:2", "sink.commit.after:2", "commit.before:3", "commit.after:2"]
    feed = threading.Thread(target=fed, args=(source, files, rows, kills * 1.5), daemon=True)
    feed.start()
    bind, done = "127.0.0.1:0", 0
    chance = random.Random(20_130_208)
    for number in range(kills):
        at = points[number % len(points)] if number % 2 == 0 else None
        server = Server(setting.binary, setting.folder / "server", environment={"MILL_CRASH_AT": at} if at else {}, bind=bind).start()
        bind = f"127.0.0.1:{server.port}"
        spark = session(server.remote, patient=False)
        try:
            begin(spark, source, table, checkpoint)
        except Exception:  # noqa: BLE001 - the server may die before it has answered
            wait_until("the server that does not answer is dead", lambda: not server.is_alive(), 10)
        deadline = time.monotonic() + (10 if at else 0.3 + chance.random())
        while server.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        done += not server.is_alive()
        server.kill()
        refused = None
        try:
            spark.sql("SELECT 1").collect()
        except Exception as error:  # noqa: BLE001 - of gRPC, as nothing answers
            refused = error
        assert refused is not None, "a killed server answered"
    feed.join()
    with Server(setting.binary, setting.folder / "server", bind=bind) as server:
        try:
            spark.sql("SELECT 1").collect()
            raise AssertionError("a session went on in a server that knows nothing of it")
        except PySparkException as error:
            assert condition(error) == "INVALID_HANDLE.SESSION_CHANGED", error
        spark = session(server.remote)
        query = begin(spark, source, table, checkpoint)
        query.processAllAvailable()
        query.stop()
        found = spark.read.format("delta").load(str(table)).selectExpr("count(*) AS n", "count(DISTINCT id) AS d", "max(id) AS last").first()
        expected = files * rows
        assert found[:] == (expected, expected, expected - 1), f"{expected} ids, each once, were expected: {found}"
        setting.say(f"{kills} kills, {done} of them at a named place: {expected} ids, each once")


def begin(spark, source, table, checkpoint):
    rows = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 3).json(str(source))
    return rows.writeStream.format("delta").option("checkpointLocation", str(checkpoint)).start(str(table))


def fed(source, files, rows, seconds):
    for number in range(files):
        staged = source.parent / f"staged-{number}"
        staged.write_text("".join(json.dumps({"id": number * rows + row}) + "\n" for row in range(rows)))
        staged.rename(source / f"{number:06}.json")
        time.sleep(seconds / files)


def stopped_server(setting):
    """A server that is asked to stop ends its queries, lets go of its clients, and goes on where it was."""
    source, table, checkpoint = setting.folder / "in", setting.folder / "table", setting.folder / "checkpoint"
    source.mkdir()
    fed(source, 10, 10, 0)
    with Server(setting.binary, setting.folder / "server") as server:
        spark = session(server.remote, patient=False)
        query = begin(spark, source, table, checkpoint)
        query.processAllAvailable()
        let_go = threading.Event()

        def wait():
            try:
                query.awaitTermination()
            except Exception:  # noqa: BLE001 - whatever a client is told when its server is gone
                pass
            let_go.set()

        threading.Thread(target=wait, daemon=True).start()
        wait_until("the client waits", lambda: len(spark.streams.active) == 1, 30)
        took = server.stop()
        assert took < 15, f"the server took {took:.1f} s to stop"
        assert server.process.returncode == 0, f"exit code {server.process.returncode}: {server.said()}"
        assert let_go.wait(30), "the client still waits"
    with Server(setting.binary, setting.folder / "server") as server:
        spark = session(server.remote)
        query = begin(spark, source, table, checkpoint)
        query.processAllAvailable()
        assert query.lastProgress is None or query.lastProgress["numInputRows"] in (0, None), query.lastProgress
        query.stop()
        assert spark.read.format("delta").load(str(table)).count() == 100
    setting.say(f"stopped after {took:.2f} s with a query running and a client waiting; nothing was read twice")


def cut_connections(setting):
    """Connections that break in the middle of anything: the client attaches again and misses and repeats nothing."""
    rounds = setting.rounds(8, 40)
    chance = random.Random(7)
    with Server(setting.binary, setting.folder / "server") as server:
        proxy = Proxy(server.port)
        spark = session(proxy.remote)
        spark.range(1).collect()

        rows, cuts = 100_000, 0
        for _ in range(rounds):
            proxy.cut_after(chance.randrange(1_000, 60_000_000))
            before = proxy.cuts
            found = list(spark.range(rows).selectExpr("id", "repeat('x', 700) AS text").toLocalIterator())
            proxy.disarm()
            cuts += proxy.cuts - before
            assert [row.id for row in found] == list(range(rows)), f"{rows} rows in order were expected, {len(found)} came"
        assert cuts > rounds // 2, f"only {cuts} of {rounds} results were cut"
        setting.say(f"{rounds} results of 70 MB, {cuts} of them cut: complete, in order, nothing twice")

        source = setting.folder / "in"
        source.mkdir()
        for number in range(rounds):
            # The request arrives, its answer does not.
            name = f"cut{number}"
            proxy.cut_on(name.encode())
            query = (spark.readStream.schema("id bigint").json(str(source)).writeStream.format("memory").queryName(name)
                     .option("checkpointLocation", str(setting.folder / name)).start())
            proxy.disarm()
            assert [active.name for active in spark.streams.active] == [name], spark.streams.active
            staged = setting.folder / f"{number}.json"
            staged.write_text(json.dumps({"id": number}) + "\n")
            staged.rename(source / staged.name)
            for action in (query.processAllAvailable, query.stop):
                cutting = threading.Timer(chance.random() * 0.02, proxy.cut)
                cutting.start()
                action()
                cutting.join()
            assert spark.table(name).count() == number + 1 and not query.isActive
        setting.say(f"{rounds} queries started, fed and stopped, each through three cuts: started once, stopped")
        proxy.close()


def pauses(setting):
    """A machine that pauses and is overloaded: queries start and stop, and nothing hangs."""
    clients, cycles = setting.rounds(4, 8), setting.rounds(12, 80)
    source = setting.folder / "in"
    source.mkdir()
    (source / "0.json").write_text('{"at":"2024-01-01T00:00:00Z","id":1}\n')
    with Server(setting.binary, setting.folder / "server") as server:
        ended, slowest, failures = threading.Event(), [0.0], []

        def work(number):
            try:
                spark = session(server.remote)
                for cycle in range(cycles):
                    counts = (spark.readStream.schema("at timestamp, id bigint").json(str(source)).withWatermark("at", "1 minute")
                              .groupBy("id").count())
                    query = (counts.writeStream.format("memory").queryName(f"q{cycle}").outputMode("update")
                             .option("checkpointLocation", str(setting.folder / f"checkpoint-{number}-{cycle}")).start())
                    if cycle % 3:
                        query.processAllAvailable()
                    timer = threading.Timer(60, lambda: failures.append(f"stop() hangs; the server is at {server.stacks()}"))
                    timer.start()
                    began = time.monotonic()
                    query.stop()
                    timer.cancel()
                    slowest[0] = max(slowest[0], time.monotonic() - began)
                    assert not query.isActive and query.exception() is None
                spark.stop()
            except BaseException as error:  # noqa: BLE001 - told by the thread that waits
                failures.append(error)

        def pausing():
            while not ended.wait(2):
                server.freeze(1)

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(clients)]
        pauser = threading.Thread(target=pausing, daemon=True)
        for thread in [*threads, pauser]:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert not failures, failures[0]
            time.sleep(0.2)
        ended.set()
        pauser.join()
        assert not failures, failures[0]
        setting.say(f"{clients * cycles} queries started and stopped while the server was paused a second of every three; "
                    f"the slowest stop took {slowest[0]:.1f} s")


if __name__ == "__main__":
    scenarios = (killed_clients, killed_server, stopped_server, cut_connections, pauses)
    run({scenario.__name__: scenario for scenario in scenarios}, __doc__.splitlines()[0])
