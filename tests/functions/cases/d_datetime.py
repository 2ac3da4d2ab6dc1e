"""Dates, timestamps, times of day, intervals."""

from catalogue import on

one, numbers, texts, times = on("one"), on("numbers"), on("texts"), on("times")
clock = on("times", conf={"spark.sql.timeType.enabled": "true"})
clock_one = on("one", conf={"spark.sql.timeType.enabled": "true"})
angeles = on("times", conf={"spark.sql.session.timeZone": "America/Los_Angeles"})

texts_of = {"ts": "ts", "d": "d", "n": "n"}
times("add_months", "F.add_months('d', 1)", "F.add_months('ts', -12)", "F.add_months('d', 'i')", "F.add_months(lit('2024-01-31'), 1)", "F.add_months('d', lit(None))", "F.add_months('i', 1)", "F.add_months('d', lit('x'))", "F.add_months(lit('nope'), 1)", "F.add_months('d', 2147483647)")
times("convert_timezone", "F.convert_timezone(lit('Europe/Paris'), lit('America/New_York'), 'n')", "F.convert_timezone(None, lit('Asia/Tokyo'), 'n')", "F.convert_timezone(lit('UTC'), lit('nope'), 'n')", "F.convert_timezone(lit('UTC'), lit('+05:30'), 'ts')", "F.convert_timezone(lit('UTC'), lit(None), 'n')", "F.convert_timezone(lit('UTC'), lit('Asia/Tokyo'), lit('2024-01-01 00:00:00'))", "F.convert_timezone(lit('UTC'), lit('Asia/Tokyo'), 'i')")
for name in ("curdate", "current_date", "current_timestamp", "localtimestamp", "now"):
    one(name, f"F.{name}()", f"F.year(F.{name}()) > 2000", f"F.{name}() == F.{name}()", types_only=True)
    one(name, f"F.isnull(F.{name}())")
clock_one("current_time", "F.current_time()", "F.current_time(0)", "F.current_time(3)", types_only=True)
clock_one("current_time", "F.current_time(7)", "F.current_time(6) == F.current_time()", "F.isnull(F.current_time())")
one("current_time", "F.current_time()", types_only=True)
one("current_timezone", "F.current_timezone()", "F.upper(F.current_timezone())")
one("current_timezone", "F.current_timezone()", conf={"spark.sql.session.timeZone": "Asia/Tokyo"})
for name in ("date_add", "date_sub"):
    times(name, f"F.{name}('d', 1)", f"F.{name}('ts', -400)", f"F.{name}('d', 'i')", f"F.{name}(lit('2024-02-28'), 2)", f"F.{name}('d', lit(None))", f"F.{name}('d', lit(1.5))", f"F.{name}('d', lit('1'))", f"F.{name}('i', 1)", f"F.{name}('d', lit('x'))", f"F.{name}('n', lit(3).cast('smallint'))", f"F.{name}('d', lit(2147483647))")
times("dateadd", "F.dateadd('d', 1)", "F.dateadd('d', 'i')", "F.dateadd('ts', lit(-1))", "F.dateadd('d', lit(None))", "F.dateadd('i', 1)")
for name in ("date_diff", "datediff"):
    times(name, f"F.{name}('d', lit('2024-01-01'))", f"F.{name}('ts', 'd')", f"F.{name}(lit('2024-03-01'), lit('2024-02-01'))", f"F.{name}('d', lit(None))", f"F.{name}('d', 'i')", f"F.{name}('d', lit('x'))", f"F.{name}('n', 'ts')")
PATTERNS = ["yyyy-MM-dd HH:mm:ss.SSSSSS", "EEEE, d MMMM y G", "E d MMM yy", "D DD DDD", "Q QQ QQQ QQQQ", "h:mm a", "K k H", "z zzzz", "VV", "O OOOO", "x xx xxx X XXX", "Z ZZZZZ", "'at' yyyy''MM", "F", "L LL LLL LLLL", "S SS SSS", "yyyyy", "uuuu", "w", "Y", "e", "A", "n", "N", "[yyyy]", "MM/dd/yyyy q"]
times("date_format", *[f"F.date_format('ts', {pattern!r})" for pattern in PATTERNS], "F.date_format('d', 'dd MMM yyyy')", "F.date_format('n', 'HH:mm:ss')", "F.date_format('s', 'yyyy')", "F.date_format('i', 'yyyy')", "F.date_format('ts', '')", "F.date_format(lit('2024-05-06'), 'E')")
angeles("date_format", "F.date_format('ts', 'yyyy-MM-dd HH:mm:ss z VV xxx')", "F.date_format('d', 'yyyy-MM-dd HH:mm XXX')")
times("date_from_unix_date", "F.date_from_unix_date('i')", "F.date_from_unix_date(lit(19782))", "F.date_from_unix_date(lit(None))", "F.date_from_unix_date(lit(1.5))", "F.date_from_unix_date(lit('3'))", "F.date_from_unix_date(lit('x'))", "F.date_from_unix_date(lit(-719528))")
FIELDS = ["year", "yearofweek", "quarter", "month", "week", "day", "dayofweek", "dow", "dayofweek_iso", "doy", "hour", "minute", "second", "y", "mons", "secs", "d", "nope"]
for name in ("date_part", "datepart", "extract"):
    times(name, *[f"F.{name}(lit('{field}'), 'ts')" for field in FIELDS], *[f"F.{name}(lit('{field}'), 'd')" for field in ("year", "day", "hour", "second")], f"F.{name}(lit('second'), 'n')", f"F.{name}('s', 'ts')", f"F.{name}(lit(None), 'ts')", f"F.{name}(lit('hour'), 's')", f"F.{name}(lit('year'), 'i')")
    one(name, *[f"F.{name}(lit('{field}'), E(\"interval '3 4:05:06.789' day to second\"))" for field in ("day", "hour", "minute", "second", "month")], *[f"F.{name}(lit('{field}'), E(\"interval '2-5' year to month\"))" for field in ("year", "month", "day")], f"F.{name}(lit('hour'), E('make_interval(1, 2, 3, 4, 5, 6, 7.8)'))")
    clock(name, f"F.{name}(lit('minute'), F.to_time('c'))", f"F.{name}(lit('second'), F.to_time('c'))")
UNITS = ["year", "YYYY", "quarter", "month", "mon", "week", "day", "dd", "hour", "minute", "second", "millisecond", "microsecond", "nope", ""]
times("date_trunc", *[f"F.date_trunc('{unit}', 'ts')" for unit in UNITS], "F.date_trunc('month', 'd')", "F.date_trunc('hour', 'n')", "F.date_trunc('day', 's')", "F.date_trunc('day', lit(None))", "F.date_trunc('day', 'i')")
angeles("date_trunc", "F.date_trunc('day', 'ts')", "F.date_trunc('hour', 'ts')", "F.date_trunc('month', 'd')")
times("trunc", *[f"F.trunc('d', '{unit}')" for unit in UNITS], "F.trunc('ts', 'month')", "F.trunc(lit('2024-05-06'), 'week')", "F.trunc('d', 'MM')", "F.trunc(lit('x'), 'year')", "F.trunc('i', 'year')")
for name in ("day", "dayofmonth", "dayofweek", "dayofyear", "month", "quarter", "weekday", "weekofyear", "year", "dayname", "monthname", "last_day"):
    times(name, f"F.{name}('d')", f"F.{name}('ts')", f"F.{name}('n')", f"F.{name}(lit('2024-02-29'))", f"F.{name}(lit('x'))", f"F.{name}(lit(None))", f"F.{name}('i')")
    times(name, f"F.{name}(lit('x'))", ansi=False)
for name in ("hour", "minute", "second"):
    times(name, f"F.{name}('ts')", f"F.{name}('n')", f"F.{name}('d')", f"F.{name}(lit('2024-02-29 10:11:12'))", f"F.{name}(lit('12:34:56'))", f"F.{name}(lit('x'))", f"F.{name}('i')", f"F.{name}(lit(None))")
    clock(name, f"F.{name}(F.to_time('c'))", f"F.{name}(F.to_time(lit('01:02:03.5')))")
    angeles(name, f"F.{name}('ts')", f"F.{name}('n')")
times("from_unixtime", "F.from_unixtime(lit(0))", "F.from_unixtime('i', 'yyyy-MM-dd')", "F.from_unixtime(lit(1700000000), 'EEE HH:mm')", "F.from_unixtime(lit(None))", "F.from_unixtime(lit('x'))", "F.from_unixtime(lit('86400'))", "F.from_unixtime(lit(1), 'nope')", "F.from_unixtime(lit(-62135596800))")
angeles("from_unixtime", "F.from_unixtime(lit(0))", "F.from_unixtime(lit(1699176600), 'HH:mm z')")
for name in ("from_utc_timestamp", "to_utc_timestamp"):
    times(name, f"F.{name}('ts', 'America/Los_Angeles')", f"F.{name}('ts', '+05:30')", f"F.{name}('d', 'Asia/Tokyo')", f"F.{name}('s', 'UTC')", f"F.{name}('ts', 'nope')", f"F.{name}('ts', lit(None))", f"F.{name}('ts', 'PST')", f"F.{name}('n', 'CET')", f"F.{name}('i', 'UTC')")
times("make_date", "F.make_date(lit(2024), lit(2), 'i')", "F.make_date(lit(2024), lit(2), lit(29))", "F.make_date(lit(2023), lit(2), lit(29))", "F.make_date(lit(None), lit(2), lit(29))", "F.make_date(lit('2024'), lit('1'), lit('3'))", "F.make_date(lit(-4), lit(1), lit(1))", "F.make_date(lit(2024), lit(13), lit(1))")
times("make_date", "F.make_date(lit(2023), lit(2), lit(29))", "F.make_date(lit(2024), lit(2), 'i')", ansi=False)
times("make_dt_interval", "F.make_dt_interval()", "F.make_dt_interval('i')", "F.make_dt_interval(lit(1), lit(2), lit(3), lit(4.5))", "F.make_dt_interval(lit(1), 'i', lit(-3), lit(4.000001))", "F.make_dt_interval(lit(2147483647))", "F.make_dt_interval(lit(106751992))", "F.make_dt_interval(lit('x'))", "F.make_dt_interval(lit(None), lit(1))")
for name in ("make_interval", "try_make_interval"):
    times(name, f"F.{name}(lit(1))", f"F.{name}('i', lit(2), lit(3), lit(4), lit(5), lit(6), lit(7.891))", f"F.{name}(lit(2147483647))", f"F.{name}(lit(None))", f"F.{name}(lit('x'))", f"F.{name}(lit(0), lit(0), lit(2147483647))", f"F.{name}(lit(1), lit(-14), lit(0), lit(0), lit(0), lit(0), lit(-1.5))")
    times(name, f"F.{name}(lit(2147483647))", ansi=False)
one("make_interval", "F.make_interval()")
clock("make_time", "F.make_time(lit(6), lit(30), lit(45.887))", "F.make_time(lit(23), lit(59), 'i')", "F.make_time(lit(24), lit(0), lit(0))", "F.make_time(lit(1), lit(2), lit(60))", "F.make_time(lit(None), lit(1), lit(2))", "F.make_time(lit('1'), lit('2'), lit('3.25'))", "F.make_time(lit(0), lit(0), lit(-1))")
for name in ("make_timestamp", "try_make_timestamp", "make_timestamp_ltz", "try_make_timestamp_ltz", "make_timestamp_ntz", "try_make_timestamp_ntz"):
    def six(*values):
        return ", ".join(value if value == "'i'" else f"lit({value})" for value in values)

    times(
        name,
        f"F.{name}({six(2024, 2, 29, 1, 2, 3.456789)})", f"F.{name}({six(2024, 2, 30, 1, 2, 3)})", f"F.{name}({six(2024, 2, 29, 23, 59, 60)})", f"F.{name}({six(2024, 2, 29, 24, 0, 0)})", f"F.{name}({six(2024, 2, 29, 1, 2, 60.5)})",
        f"F.{name}({six(2024, 1, chr(39) + 'i' + chr(39), 1, 2, 3)})", f"F.{name}({six('None', 1, 1, 1, 2, 3)})", f"F.{name}({six('2024', 1, 1, 1, 2, repr('3.5'))})", f"F.{name}({six(2024, 1, 1, 1, 2, repr('x'))})",
    )  # fmt: skip
    times(name, f"F.{name}({six(2024, 2, 30, 1, 2, 3)})", ansi=False)
    if not name.endswith("ntz"):
        times(name, f"F.{name}({six(2024, 2, 29, 1, 2, 3)}, lit('Europe/Paris'))", f"F.{name}({six(2024, 2, 29, 1, 2, 3)}, lit('nope'))", f"F.{name}({six(2024, 2, 29, 1, 2, 3)}, lit(None))", f"F.{name}({six(2024, 3, 10, 2, 30, 0)}, lit('America/Los_Angeles'))")
        angeles(name, f"F.{name}({six(2024, 2, 29, 1, 2, 3)})")
    if not name.endswith("ltz"):
        clock(name, f"F.{name}(date='d', time=F.to_time('c'))")
        if not name.endswith("ntz"):
            clock(name, f"F.{name}(date='d', time=F.to_time('c'), timezone=lit('Asia/Tokyo'))", f"F.{name}(date='d')")
times("make_ym_interval", "F.make_ym_interval()", "F.make_ym_interval('i')", "F.make_ym_interval(lit(1), lit(-14))", "F.make_ym_interval(lit(178956970), lit(8))", "F.make_ym_interval(lit(None), lit(1))", "F.make_ym_interval(lit('2'), lit('3'))", "F.make_ym_interval(lit('x'))")
times("months_between", "F.months_between('ts', 'd')", "F.months_between(lit('2024-03-31'), lit('2024-02-29'))", "F.months_between('ts', lit('2020-01-15 12:00:00'))", "F.months_between('ts', lit('2020-01-15 12:00:00'), False)", "F.months_between('d', lit(None))", "F.months_between('i', 'd')", "F.months_between('n', 'd')", "F.months_between(lit('x'), 'd')")
times("next_day", *[f"F.next_day('d', '{day}')" for day in ("Mon", "tuesday", "WE", "xx", "")], "F.next_day('ts', 'Sunday')", "F.next_day(lit('2024-02-29'), 'Thu')", "F.next_day('i', 'Mon')", "F.next_day(lit('x'), 'Mon')")
times("next_day", "F.next_day('d', 'xx')", ansi=False)
times("timestamp_add", *[f"F.timestamp_add('{unit}', lit(3), 'ts')" for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "DAYOFYEAR", "nope")], "F.timestamp_add('DAY', 'i', 'n')", "F.timestamp_add('DAY', 'i', 'd')", "F.timestamp_add('DAY', lit(None), 'ts')", "F.timestamp_add('YEAR', lit(2147483647), 'ts')", "F.timestamp_add('DAY', lit(1), 's')", "F.timestamp_add('DAY', lit(1), 'i')")
angeles("timestamp_add", "F.timestamp_add('DAY', lit(1), 'ts')", "F.timestamp_add('HOUR', lit(24), 'ts')")
times("timestamp_diff", *[f"F.timestamp_diff('{unit}', lit('2000-02-29 12:00:00'), 'ts')" for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "nope")], "F.timestamp_diff('DAY', 'n', 'ts')", "F.timestamp_diff('DAY', 'd', 'ts')", "F.timestamp_diff('DAY', lit(None), 'ts')", "F.timestamp_diff('DAY', 'i', 'ts')")
for name in ("timestamp_micros", "timestamp_millis", "timestamp_seconds"):
    times(name, f"F.{name}('i')", f"F.{name}(lit(1700000000123))", f"F.{name}(lit(9223372036854775807))", f"F.{name}(lit(None))", f"F.{name}(lit(1.25))", f"F.{name}(lit('1'))", f"F.{name}(lit(Decimal('1.2345678')))", f"F.{name}(lit(float('nan')))")
INTERVALS = {"day": "interval '1' day", "hours": "interval '90' minute", "month": "interval '1' month", "year": "interval '2' year", "zero": "interval '0' day", "less": "interval '-1' day"}
times("time_bucket", *[f"F.time_bucket(E(\"{text}\"), '{column}')" for text in INTERVALS.values() for column in ("ts", "n", "d")], "F.time_bucket(E(\"interval '7' day\"), 'ts', lit(datetime.datetime(2024, 1, 3)))", "F.time_bucket(E(\"interval '1' day\"), 'i')", "F.time_bucket(lit(1), 'ts')", "F.time_bucket(E(\"interval '1' day\"), lit(None))")
TIME_UNITS = ("HOUR", "minute", "SECOND", "MILLISECOND", "MICROSECOND", "DAY", "nope")
clock("time_diff", *[f"F.time_diff(lit('{unit}'), lit(datetime.time(1, 2, 3)), F.to_time('c'))" for unit in TIME_UNITS], "F.time_diff('s', F.to_time('c'), F.to_time('c'))", "F.time_diff(lit('HOUR'), lit(None), F.to_time('c'))", "F.time_diff(lit('HOUR'), 'i', F.to_time('c'))")
clock("time_trunc", *[f"F.time_trunc(lit('{unit}'), F.to_time('c'))" for unit in TIME_UNITS], "F.time_trunc(lit(None), F.to_time('c'))", "F.time_trunc(lit('HOUR'), 'i')")
for name, big in (("time_from_micros", 86399999999), ("time_from_millis", 86399999), ("time_from_seconds", 86399)):
    clock(name, f"F.{name}(lit({big}))", f"F.{name}(lit({big + 1}))", f"F.{name}(lit(-1))", f"F.{name}(lit(None))", f"F.{name}(lit(1.5))", f"F.{name}(lit('5'))", f"F.{name}(lit(Decimal('2.5')))", f"F.{name}(lit(float('nan')))")
for name in ("time_to_micros", "time_to_millis", "time_to_seconds"):
    clock(name, f"F.{name}(F.to_time('c'))", f"F.{name}(lit(datetime.time(1, 2, 3, 456789)))", f"F.{name}(lit(None))", f"F.{name}('i')", f"F.{name}('c')", f"F.{name}('ts')")
for name in ("to_date", "try_to_date"):
    times(name, f"F.{name}('s')", f"F.{name}('ts')", f"F.{name}('n')", f"F.{name}('d')", f"F.{name}(lit('2024-02-29'))", f"F.{name}(lit('29/02/24'), 'dd/MM/yy')", f"F.{name}(lit('2024-02-30'))", f"F.{name}(lit('x'), 'yyyy')", f"F.{name}('i')", f"F.{name}(lit(None))", f"F.{name}(lit('2024'), 'yyyy-QQ-nope')", f"F.{name}(lit('Feb 5, 2020'), 'MMM d, yyyy')", f"F.{name}(lit('2024 extra'), 'yyyy')")
    times(name, f"F.{name}(lit('2024-02-30'))", f"F.{name}(lit('x'), 'yyyy')", ansi=False)
for name in ("to_time", "try_to_time"):
    times(name, f"F.{name}('c')")
    clock(name, f"F.{name}('c')", f"F.{name}(lit('10:11:12.5'))", f"F.{name}(lit('01.02 PM'), lit('hh.mm a'))", f"F.{name}(lit('x'))", f"F.{name}(lit('x'), lit('HH'))", f"F.{name}(lit(None))", f"F.{name}('ts')", f"F.{name}('i')", f"F.{name}(lit('25:00:00'))", f"F.{name}(lit('10'), 's')", f"F.{name}(lit('10:11 PM'))", f"F.{name}(lit('1'), lit('nope'))")
for name in ("to_timestamp", "try_to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz"):
    quoted = (lambda text: f"'{text}'") if name == "to_timestamp" else (lambda text: f"lit('{text}')")
    times(
        name,
        f"F.{name}('s')", f"F.{name}('ts')", f"F.{name}('n')", f"F.{name}('d')", f"F.{name}(lit('2024-02-29 1:2:3'))", f"F.{name}(lit('29/02/2024 13'), {quoted('dd/MM/yyyy HH')})", f"F.{name}(lit('2024-02-30'))", f"F.{name}(lit('x'), {quoted('yyyy')})", f"F.{name}('i')",
        f"F.{name}(lit(None))", f"F.{name}(lit('2024-01-01 +02:00'), {quoted('yyyy-MM-dd XXX')})", f"F.{name}(lit('1'), {quoted('nope')})", f"F.{name}(lit('epoch'))", f"F.{name}(lit('2020-12-01 Sun'), {quoted('yyyy-MM-dd EEE')})", f"F.{name}(lit('12:03:04.000009'), {quoted('HH:mm:ss.SSSSSS')})",
    )  # fmt: skip
    times(name, f"F.{name}(lit('2024-02-30'))", f"F.{name}(lit('x'), {quoted('yyyy')})", ansi=False)
    angeles(name, f"F.{name}(lit('2024-02-29 01:02:03'))", f"F.{name}(lit('2024-03-10 02:30:00'))", f"F.{name}('d')")
times("to_timestamp", "F.to_timestamp('s')", conf={"spark.sql.timestampType": "TIMESTAMP_NTZ"})
for name in ("to_unix_timestamp", "unix_timestamp"):
    quoted = (lambda text: f"'{text}'") if name == "unix_timestamp" else (lambda text: f"lit('{text}')")
    times(name, f"F.{name}('ts')", f"F.{name}('d')", f"F.{name}('n')", f"F.{name}(lit('2024-02-29 01:02:03'))", f"F.{name}(lit('2024-02-29'), {quoted('yyyy-MM-dd')})", f"F.{name}(lit('x'))", f"F.{name}('i')", f"F.{name}(lit(None))", f"F.{name}(lit('1'), {quoted('nope')})")
    times(name, f"F.{name}(lit('x'))", ansi=False)
    angeles(name, f"F.{name}('d')", f"F.{name}('n')", f"F.{name}(lit('2024-02-29 01:02:03'))")
times("unix_timestamp", "F.unix_timestamp()", types_only=True)
times("unix_date", "F.unix_date('d')", "F.unix_date('ts')", "F.unix_date(lit('2024-01-01'))", "F.unix_date(lit(None))", "F.unix_date('i')", "F.unix_date(lit('x'))")
for name in ("unix_micros", "unix_millis", "unix_seconds"):
    times(name, f"F.{name}('ts')", f"F.{name}('d')", f"F.{name}('n')", f"F.{name}(lit('2024-01-01 00:00:01.5'))", f"F.{name}(lit(None))", f"F.{name}('i')", f"F.{name}(lit('x'))")

windowed = "df.groupBy(F.{0}).count().orderBy('{1}').select(F.col('{1}').cast('string'), 'count')"
times("window", *[windowed.format(text, "window") for text in ("window('ts', '1 hour')", "window('ts', '1 hour', '15 minutes')", "window('n', '1 day', None, '2 hours')", "window('d', '3 days')", "window('ts', '1 week', '1 day')", "window('ts', '5 minutes', '10 minutes')", "window('ts', '0 seconds')", "window('ts', 'x')", "window('i', '1 day')", "window('ts', '1 month')", "window('s', '1 day')", "window('ts', '10 minutes', '5 minutes', '-1 minute')", "window('ts', '10 minutes', '5 minutes', '6 minutes')")], "F.window('ts', '1 hour')", "df.groupBy(F.window('ts', '1 hour')).agg(F.max('i')).orderBy('window')")
times("session_window", *[windowed.format(text, "session_window") for text in ("session_window('ts', '1 hour')", "session_window('ts', F.when(col('i') > 0, '1 day').otherwise('2 hours'))", "session_window('n', '400 days')", "session_window('ts', 'x')", "session_window('i', '1 day')", "session_window('ts', '0 seconds')", "session_window('d', '1 day')", "session_window('ts', lit(None))")], "F.session_window('ts', '1 hour')")
times("window_time", "df.groupBy(F.window('ts', '1 hour')).count().select(F.window_time('window').alias('t')).orderBy('t')", "df.groupBy(F.window('n', '1 hour')).count().select(F.window_time('window')).orderBy(F.window_time('window'))", "F.window_time('ts')", "F.window_time(F.struct(col('ts').alias('start'), col('ts').alias('end')))", "df.groupBy(F.session_window('ts', '1 hour')).count().select(F.window_time('session_window'))")
