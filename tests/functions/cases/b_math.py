"""Mathematical and bitwise functions."""

from catalogue import on

one, numbers, small, texts, times = on("one"), on("numbers"), on("small"), on("texts"), on("times")

numbers("abs", "F.abs('i')", "F.abs('n')", "F.abs('d')", "F.abs('f')", "F.abs('y')", "F.abs('s')", "F.abs('t')", "F.abs(lit(None))", "F.abs(lit(-2147483648))", "F.abs(lit(-128).cast('tinyint'))")
numbers("abs", "F.abs(lit(-2147483648))", "F.abs('s')", ansi=False)
one("abs", "F.abs(E(\"interval '-1' day\"))", "F.abs(E(\"interval '-3' month\"))", "F.abs(E('make_interval(1)'))")
for name in ("acos", "asin", "atan", "acosh", "asinh", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh", "exp", "expm1", "cbrt", "rint", "degrees", "radians", "sqrt", "log1p", "log2", "log10", "ln", "signum", "sign", "sec", "csc", "cot"):
    small(name, f"F.{name}('d')", f"F.{name}('n')", f"F.{name}('i')")
    numbers(name, f"F.{name}('d')", f"F.{name}('f')", f"F.{name}('z')", f"F.{name}('t')", f"F.{name}(lit(None))", f"F.{name}(lit('0.5'))", f"F.{name}(lit('x'))")
    numbers(name, f"F.{name}(lit('x'))", ansi=False)
one("signum", "F.signum(E(\"interval '-1' day\"))", "F.signum(E(\"interval '3' month\"))")
for name in ("atan2", "hypot", "pow", "power"):
    small(name, f"F.{name}('d', 'n')", f"F.{name}('i', 2)", f"F.{name}(2.0, 'i')")
    numbers(name, f"F.{name}('d', 'f')", f"F.{name}('z', 'i')", f"F.{name}('d', lit(None))", f"F.{name}('t', 'i')", f"F.{name}('s', lit('2'))")
numbers("bin", "F.bin('i')", "F.bin('l')", "F.bin('y')", "F.bin(lit('13'))", "F.bin('d')", "F.bin('t')", "F.bin(lit(None))")
for name in ("round", "bround"):
    numbers(
        name,
        f"F.{name}('d')", f"F.{name}('d', 1)", f"F.{name}('n', 1)", f"F.{name}('n')", f"F.{name}('i', -1)", f"F.{name}('l', -3)", f"F.{name}('w', 5)",
        f"F.{name}('f', 1)", f"F.{name}('s', 1)", f"F.{name}('n', -2)", f"F.{name}('i', 2)", f"F.{name}('t')", f"F.{name}('d', col('i'))", f"F.{name}('y', -2)",
        f"F.{name}(lit(2.5))", f"F.{name}(lit(3.5))", f"F.{name}(lit(2147483647), -1)", f"F.{name}('i', lit(None))",
    )  # fmt: skip
    numbers(name, f"F.{name}(lit(2147483647), -1)", f"F.{name}('s', 1)", ansi=False)
for name in ("ceil", "ceiling", "floor"):
    numbers(
        name,
        f"F.{name}('n')", f"F.{name}('n', 1)", f"F.{name}('w')", f"F.{name}('i')", f"F.{name}('l')", f"F.{name}('i', -1)", f"F.{name}('s')", f"F.{name}('t')",
        f"F.{name}('n', lit(-1))", f"F.{name}(lit(-1.5))", f"F.{name}(lit(1e18))", f"F.{name}('f', 1)", f"F.{name}('d')", f"F.{name}('n', col('i'))", f"F.{name}('n', lit(None))",
    )  # fmt: skip
    numbers(name, f"F.{name}('d')", f"F.{name}('s')", ansi=False)
    small(name, f"F.{name}('d', 1)", f"F.{name}('n', 40)")
numbers("conv", "F.conv('s', 10, 16)", "F.conv('i', 10, 2)", "F.conv(lit('ff'), 16, 10)", "F.conv(lit('-15'), 10, -16)", "F.conv(lit('-15'), 10, 16)", "F.conv('l', 10, 36)", "F.conv(lit(''), 10, 16)", "F.conv('s', 1, 16)", "F.conv(lit('99999999999999999999'), 10, 16)", "F.conv(lit('7z'), 10, 8)")
numbers("conv", "F.conv(lit('99999999999999999999'), 10, 16)", ansi=False)
one("e", "F.e()", "F.round(F.e(), 3)", "F.ln(F.e())")
one("pi", "F.pi()", "F.round(F.pi(), 3)", "F.cos(F.pi())")
numbers("factorial", "F.factorial('h')", "F.factorial(lit(20))", "F.factorial(lit(21))", "F.factorial(lit(-1))", "F.factorial('s')", "F.factorial(lit('5'))", "F.factorial(lit(None))")
small("factorial", "F.factorial('i')", "F.factorial('p')")
for name in ("greatest", "least"):
    numbers(
        name,
        f"F.{name}('i', 'z')", f"F.{name}('i', 'l', 'h')", f"F.{name}('d', 'f')", f"F.{name}('n', 'w')", f"F.{name}('s', lit('2'))", f"F.{name}('i')",
        f"F.{name}('i', 't')", f"F.{name}('i', lit(None))", f"F.{name}('i', 's')", f"F.{name}('t', lit(True))", f"F.{name}('d', lit(float('nan')))",
    )  # fmt: skip
on("nested")("greatest", "F.greatest('a', 'b')", "F.greatest('m', 'm')", "F.greatest('r', 'r')")
on("nested")("least", "F.least('a', 'b')", "F.least('m', 'm')")
numbers("hex", "F.hex('i')", "F.hex('l')", "F.hex('s')", "F.hex('y')", "F.hex('d')", "F.hex('t')", "F.hex(lit(None))")
texts("hex", "F.hex('x')", "F.hex('a')")
numbers("unhex", "F.unhex(lit('4D'))", "F.unhex(lit('abc'))", "F.unhex(lit('zz'))", "F.unhex('s')", "F.unhex(lit(''))", "F.unhex('i')", "F.unhex(lit(None))")
small("log", "F.log('d')", "F.log(2.0, 'i')", "F.log('i')", "F.log(10.0, 'n')", "F.log(0.0, 'd')", "F.log(-1.0, 'd')")
numbers("log", "F.log('d')", "F.log('s')", "F.log(1.0, 'i')", "F.log('t')")
for name in ("negate", "negative"):
    numbers(name, f"F.{name}('i')", f"F.{name}('d')", f"F.{name}('n')", f"F.{name}('s')", f"F.{name}('t')", f"F.{name}(lit(-2147483648))", f"F.{name}(lit(None))", f"F.{name}('y')")
    numbers(name, f"F.{name}(lit(-2147483648))", ansi=False)
    one(name, f"F.{name}(E(\"interval '1' day\"))", f"F.{name}(E('make_interval(1, 2)'))")
numbers("positive", "F.positive('i')", "F.positive('d')", "F.positive('n')", "F.positive('s')", "F.positive('t')", "F.positive(lit(None))")
small("pmod", "F.pmod('i', 'p')", "F.pmod('l', lit(-7))", "F.pmod('d', lit(0.3))", "F.pmod('n', lit(Decimal('0.7')))", "F.pmod(-7.0, 'p')")
numbers("pmod", "F.pmod('l', lit(7))", "F.pmod('i', 'z')", "F.pmod('i', lit(0))", "F.pmod('d', lit(0.0))", "F.pmod('i', lit(None))", "F.pmod('i', 's')", "F.pmod('t', 'i')", "F.pmod(lit(-7), lit(-3))")
numbers("pmod", "F.pmod('i', 'z')", "F.pmod('i', lit(0))", "F.pmod('d', lit(0.0))", ansi=False)
numbers("rand", "F.rand(7)", "F.rand(0)", "F.rand(-3)", "F.rand(2**40)")
numbers("rand", "F.rand().alias('r')", types_only=True)
numbers("randn", "F.randn(7)", "F.randn(0)", "F.randn(-3)")
numbers("randn", "F.randn().alias('r')", types_only=True)
numbers("uniform", "F.uniform(1, 10, 7)", "F.uniform(0.0, 1.0, 5)", "F.uniform(lit(-5), lit(5), lit(3))", "F.uniform(col('i'), lit(5), lit(3))", "F.uniform(lit('a'), lit(5), lit(3))", "F.uniform(lit(1), lit(None), lit(3))", "F.uniform(lit(1), lit(10), lit(None))", "F.uniform(lit(1).cast('tinyint'), lit(9).cast('smallint'), lit(1))", "F.uniform(lit(Decimal('1.5')), lit(3), lit(1))", "F.uniform(10, 1, 7)")
for name in ("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod"):
    numbers(
        name,
        f"F.{name}('i', 'z')", f"F.{name}('d', 'f')", f"F.{name}('n', 'w')", f"F.{name}(lit(2147483647), lit(2147483647))", f"F.{name}('l', lit(9223372036854775807))",
        f"F.{name}('i', lit(None))", f"F.{name}('i', 's')", f"F.{name}('y', lit(127).cast('tinyint'))", f"F.{name}('t', 'i')", f"F.{name}('i', lit(0))", f"F.{name}('n', 'n')", f"F.{name}(lit('1'), lit('2'))",
    )  # fmt: skip
    numbers(name, f"F.{name}('i', 's')", f"F.{name}(lit(2147483647), lit(2147483647))", ansi=False)
    times(name, f"F.{name}('d', lit(1))", f"F.{name}('ts', E(\"interval '1' day\"))", f"F.{name}('d', E('make_interval(1000000)'))", f"F.{name}(E(\"interval '2' month\"), lit(3))", f"F.{name}('ts', 'ts')")
numbers("width_bucket", "F.width_bucket('d', lit(0.0), lit(10.0), 5)", "F.width_bucket('i', lit(10), lit(0), lit(4))", "F.width_bucket('d', 'f', lit(3.0), 'i')", "F.width_bucket('d', lit(0), lit(0), 5)", "F.width_bucket('i', lit(0), lit(20), 0)", "F.width_bucket('t', lit(0), lit(20), 3)", "F.width_bucket(lit(float('nan')), lit(0.0), lit(1.0), 3)")
one("width_bucket", "F.width_bucket(E(\"interval '5' day\"), E(\"interval '0' day\"), E(\"interval '10' day\"), lit(5))", "F.width_bucket(E(\"interval '5' month\"), E(\"interval '0' month\"), E(\"interval '10' month\"), lit(5))")

numbers("bit_count", "F.bit_count('i')", "F.bit_count('l')", "F.bit_count('y')", "F.bit_count('t')", "F.bit_count('d')", "F.bit_count('s')", "F.bit_count(lit(None))")
for name in ("bit_get", "getbit"):
    numbers(name, f"F.{name}('i', lit(0))", f"F.{name}('l', lit(62))", f"F.{name}('i', 'z')", f"F.{name}('i', lit(32))", f"F.{name}('y', lit(7))", f"F.{name}('d', lit(0))", f"F.{name}('i', lit(None))", f"F.{name}('i', lit(-1))")
numbers("bitwise_not", "F.bitwise_not('i')", "F.bitwise_not('l')", "F.bitwise_not('y')", "F.bitwise_not('d')", "F.bitwise_not('s')", "F.bitwise_not('t')")
for name in ("shiftleft", "shiftright", "shiftrightunsigned"):
    numbers(name, f"F.{name}('i', 2)", f"F.{name}('l', 33)", f"F.{name}('i', 33)", f"F.{name}('y', 1)", f"F.{name}('i', -1)", f"F.{name}('d', 1)", f"F.{name}('s', 1)", f"F.{name}('t', 1)", f"F.{name}(lit(None), 1)")
