"""A server under load: many sessions, large results, plans that nest, long queries that are interrupted.

    connect_load.py BINARY FOLDER [--full] [--only sessions,…]
"""

import concurrent.futures
import sys
import threading
import time

import grpc
import pyspark.sql.connect.proto as proto
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from millstream_server import Server
from scenario import condition, run, session, wait_until

MIB = 1 << 20

EXECUTE = "/spark.connect.SparkConnectService/ExecutePlan"


def sessions(setting):
    """Fifty sessions at once, each with a view, a setting and a streaming query."""
    count = 50
    source = setting.folder / "in"
    source.mkdir()
    for number in range(4):
        (source / f"{number}.json").write_text(f'{{"id":{number}}}\n' * 100)
    with Server(setting.binary, setting.folder / "server") as server:
        session(server.remote).sql("SELECT 1").collect()
        files, memory, began = server.open_files(), server.memory_mib(), time.monotonic()
        together = threading.Barrier(count)

        def work(number):
            spark = session(server.remote)
            together.wait(120)
            spark.conf.set("my.number", str(number))
            spark.range(number + 1).createOrReplaceTempView("mine")
            asked = time.monotonic()
            assert spark.sql("SELECT count(*) AS n FROM mine").first().n == number + 1
            answered = time.monotonic() - asked
            query = (spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json(str(source)).groupBy("id").count()
                     .writeStream.format("memory").queryName("counts").outputMode("complete")
                     .option("checkpointLocation", str(setting.folder / f"checkpoint-{number}")).start())
            query.processAllAvailable()
            assert {row["count"] for row in spark.table("counts").collect()} == {100}
            query.stop()
            assert spark.conf.get("my.number") == str(number)
            spark.stop()
            return answered

        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            answers = sorted(pool.map(work, range(count)))
        took = time.monotonic() - began
        wait_until("no files of ended sessions are open", lambda: server.open_files() <= files + 5, 60)
        setting.say(f"{count} sessions in {took:.1f} s; a select {answers[count // 2] * 1e3:.0f} ms at the median, {answers[-1] * 1e3:.0f} at most; "
                    f"memory {memory:.0f} to {server.memory_mib():.0f} MiB, {server.threads()} threads")


def gigabyte(setting):
    """A large result in bounded memory, whether its reader is fast or slow."""
    mib = setting.rounds(256, 1024)
    with Server(setting.binary, setting.folder / "server") as server:
        spark = session(server.remote)
        spark.range(10).collect()
        for pause, share in ((0, 1.0), (0.02, 0.25)):
            rows = int(mib * share * 1024)
            frame = spark.range(rows).select("id", F.repeat(F.lit("x"), 1024).alias("text"))
            server.forget_peak()
            before, began, bytes_read, total = server.memory_mib(), time.monotonic(), 0, 0
            for batch in batches(spark, frame):
                bytes_read += batch.nbytes
                total += batch.num_rows
                time.sleep(pause)
            took = time.monotonic() - began
            grown = server.memory_mib("VmHWM") - before
            assert total == rows, f"{rows} rows were expected, {total} came"
            assert grown < 256, f"the server grew by {grown:.0f} MiB for a result of {bytes_read / MIB:.0f} MiB"
            setting.say(f"{bytes_read / MIB:.0f} MiB in {took:.1f} s{' to a slow reader' if pause else ''}: the server grew by {grown:.0f} MiB")


def batches(spark, frame):
    """The record batches of a frame as they come."""
    results = spark.client.to_table_as_iterator(frame._plan.to_proto(spark.client), frame._plan.observations)
    return (result for result in results if hasattr(result, "num_rows"))


def nesting(setting):
    """Long chains of operators are answered; plans that nest without end are refused, and the server lives."""
    sys.setrecursionlimit(1_000_000)
    threading.stack_size(512 * MIB)
    failures = []

    def work():
        try:
            with Server(setting.binary, setting.folder / "server") as server:
                chains(setting, server)
                bombs(setting, server)
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            failures.append(error)

    # The client recurses over plans as well.
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    threading.stack_size(0)
    if failures:
        raise failures[0]


def chains(setting, server):
    spark = session(server.remote)

    def answered(what, action, expected, refusal=None):
        began = time.monotonic()
        try:
            found = action()
            assert found == expected, f"{what}: {expected} was expected, found {found}"
            how = "answered"
        except PySparkException as error:
            assert refusal and condition(error) == refusal, f"{what}: {str(error)[:2000]}"
            how = refusal
        assert server.is_alive(), f"{what}: {server.said()}"
        setting.say(f"{what}: {how}, {time.monotonic() - began:.2f} s")

    terms = 20_000
    ors = " OR ".join(f"id = {number}" for number in range(terms))
    answered(f"{terms} terms of OR", lambda: spark.sql(f"SELECT count(*) AS n FROM range(30000) WHERE {ors}").first().n, terms)
    sums = "+".join(["1"] * terms)
    answered(f"{terms} terms of +", lambda: spark.sql(f"SELECT {sums} AS n").first().n, terms, "FAILED_TO_PARSE_TOO_COMPLEX")
    for terms in (250, 1_000, 3_000):
        sums = "+".join(["id"] * terms)
        action = lambda: spark.sql(f"SELECT {sums} AS n FROM range(2)").collect()[1].n  # noqa: E731, B023
        answered(f"{terms} columns added", action, terms, "FAILED_TO_PARSE_TOO_COMPLEX" if terms > 250 else None)
    terms = 20_000
    values = ", ".join(map(str, range(terms)))
    answered(f"{terms} values of IN", lambda: spark.sql(f"SELECT count(*) AS n FROM range(30000) WHERE id IN ({values})").first().n, terms)

    def columns():
        frame = spark.range(1)
        for number in range(500):
            frame = frame.withColumn(f"c{number}", F.lit(number))
        return sum(frame.collect()[0][1:])

    answered("500 chained withColumn", columns, sum(range(500)))

    def filters():
        frame = spark.range(2_000)
        for number in range(500):
            frame = frame.filter(F.col("id") != number)
        return frame.count()

    answered("500 chained filters", filters, 1_500)

    def unions():
        frame = spark.range(1)
        for _ in range(200):
            frame = frame.union(spark.range(1))
        return frame.count()

    answered("200 chained unions", unions, 201)


def bombs(setting, server):
    """Messages that no client sends."""
    spark = session(server.remote)
    session_id = spark.client._session_id
    channel = grpc.insecure_channel(server.address, options=[("grpc.max_send_message_length", -1)])
    execute = channel.unary_stream(EXECUTE, request_serializer=bytes, response_deserializer=bytes)

    to_session = field(proto.ExecutePlanRequest, "session_id", session_id.encode())

    def request(root):
        return to_session + field(proto.ExecutePlanRequest, "plan", field(proto.Plan, "root", root))

    def limits(depth):
        return nested(depth, [(proto.Limit, "input", b""), (proto.Relation, "limit", b"")])

    def negatives(depth):
        name = field(proto.Expression.UnresolvedFunction, "function_name", b"negative")
        one = field(proto.Expression, "literal", field(proto.Expression.Literal, "integer", None) + varint(1))
        of = [(proto.Expression.UnresolvedFunction, "arguments", name), (proto.Expression, "unresolved_function", b"")]
        row = field(proto.Relation, "range", field(proto.Range, "end", None) + varint(1) + field(proto.Range, "step", None) + varint(1))
        project = field(proto.Project, "input", row) + field(proto.Project, "expressions", nested(depth, of, one))
        return field(proto.Relation, "project", project)

    def outcome(message):
        try:
            for _ in execute(message, timeout=120):
                pass
            return "answered"
        except grpc.RpcError as error:
            return f"{error.code().name} {error.details()}"

    def refused(what, message, says):
        said = outcome(message)
        assert says in said, f"{what}: {says} was expected, the server said {said[:500]}"
        assert server.is_alive(), f"{what}: {server.said()}"
        assert spark.sql("SELECT 1").first()[0] == 1
        setting.say(f"{what}: {said[:110]}")

    for what, root in (("100 nested functions", negatives(100)), ("1,900 nested functions", negatives(1_900)),
                       ("1,900 nested relations", limits(1_900))):
        said = outcome(request(root))
        assert server.is_alive(), f"{what}: {server.said()}"
        setting.say(f"{what}: {said[:110]}")
    refused("3,000 nested relations", request(limits(3_000)), "CONNECT_INVALID_PLAN.TOO_DEEP")
    refused("a million nested messages", request(limits(500_000)), "CONNECT_INVALID_PLAN.TOO_DEEP")
    refused("a million groups that open", to_session + b"\x7b" * 1_000_000, "CONNECT_INVALID_PLAN.CANNOT_PARSE")
    refused("bytes that are no message", b"\xff" * 1_000, "CONNECT_INVALID_PLAN.CANNOT_PARSE")
    refused("a message of 130 MiB", field(proto.ExecutePlanRequest, "session_id", b"x" * (130 * MIB)), "OUT_OF_RANGE")
    text = "x" * (60 * MIB)
    assert spark.sql(f"SELECT length('{text}') AS n").first().n == len(text)
    setting.say("a text of 60 MiB: answered")


def nested(depth, around, inside=b""):
    """`depth` times the fields `around`, the innermost first, each after what its message has besides. Nothing inside is copied."""
    heads, length = [], len(inside)
    for _ in range(depth):
        for message, name, before in around:
            heads.append(before + tag(message, name) + varint(length))
            length += len(heads[-1])
    return b"".join(reversed(heads)) + inside


def field(message, name, content):
    """A field of a message as bytes; only its tag if the content is `None`."""
    if content is None:
        return varint(message.DESCRIPTOR.fields_by_name[name].number << 3)
    return tag(message, name) + varint(len(content)) + content


def tag(message, name):
    return varint(message.DESCRIPTOR.fields_by_name[name].number << 3 | 2)


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def interrupts(setting):
    """A long query ends soon after it was interrupted, and costs nothing any more."""
    with Server(setting.binary, setting.folder / "server") as server:
        spark = session(server.remote)
        spark.range(1).collect()
        long = "SELECT sum((a.id * 31 + b.id) % 7) AS n FROM range(10000000) a CROSS JOIN range(1000000) b"

        def interrupted(what, interrupt, tag=None):
            ended = []

            def work():
                if tag:
                    spark.addTag(tag)
                try:
                    spark.sql(long).collect()
                    ended.append((time.monotonic(), "it was answered"))
                except PySparkException as error:
                    ended.append((time.monotonic(), condition(error)))

            thread = threading.Thread(target=work)
            thread.start()
            wait_until("the query runs", lambda: server.cpu_s() > before + 0.5, 60)
            asked = time.monotonic()
            ids = interrupt()
            thread.join(60)
            assert ended, f"{what}: the query did not end: {server.stacks()}"
            when, how = ended[0]
            assert how == "OPERATION_CANCELED", f"{what}: {how}"
            assert len(ids) == 1, f"{what}: {ids}"
            wait_until("an idle server", server.is_idle, 15)
            setting.say(f"{what}: ended after {(when - asked) * 1e3:.0f} ms")

        before = server.cpu_s()
        interrupted("interruptAll", spark.interruptAll)
        before = server.cpu_s()
        interrupted("interruptTag", lambda: spark.interruptTag("mine"), tag="mine")

        # Waiting for a query is an operation; the query is none.
        source = setting.folder / "in"
        source.mkdir()
        query = spark.readStream.schema("id bigint").json(str(source)).writeStream.format("noop").start()
        waiting = threading.Thread(target=lambda: waits(query))
        waiting.start()
        wait_until("the operation runs", lambda: len(spark.interruptAll()) == 1, 30)
        waiting.join(30)
        assert not waiting.is_alive() and query.isActive
        query.stop()
        setting.say("awaitTermination: ended, and its query runs on")


def waits(query):
    try:
        query.awaitTermination()
    except PySparkException:
        pass


if __name__ == "__main__":
    run({"sessions": sessions, "gigabyte": gigabyte, "nesting": nesting, "interrupts": interrupts}, __doc__.splitlines()[0])
