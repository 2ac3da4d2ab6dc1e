"""Functions of text and bytes."""

from catalogue import on

one, numbers, texts, times, nested = on("one"), on("numbers"), on("texts"), on("times"), on("nested")

texts("ascii", "F.ascii('a')", "F.ascii('x')", "F.ascii('n')", "F.ascii(lit('😀'))", "F.ascii(lit(None))", "F.ascii(F.array('n'))")
texts("base64", "F.base64('x')", "F.base64('a')", "F.base64('n')", "F.base64(F.repeat(lit('abc'), 30))", "F.base64(lit(None))")
texts("unbase64", "F.unbase64(lit('YWJj'))", "F.unbase64(lit('YW Jj'))", "F.unbase64('a')", "F.unbase64(lit(''))", "F.unbase64(lit('YQ'))", "F.unbase64(lit(None))", "F.unbase64('n')")
for name in ("bit_length", "octet_length", "length", "char_length", "character_length"):
    texts(name, f"F.{name}('a')", f"F.{name}('x')", f"F.{name}('n')", f"F.{name}(lit(None))", f"F.{name}(F.array('n'))", f"F.{name}(lit(1.5))")
for name in ("btrim", "ltrim", "rtrim", "trim"):
    texts(name, f"F.{name}('a')", f"F.{name}('a', lit('Hda'))", f"F.{name}('a', 'b')", f"F.{name}('n')", f"F.{name}(lit('\\t x \\n'))", f"F.{name}('a', lit(None))", f"F.{name}('x')", f"F.{name}('a', lit(''))", f"F.{name}(lit('äöä'), lit('ä'))")
texts("btrim", "F.btrim('x', lit(b'ab'))")
texts("char", "F.char('n')", "F.char(lit(65))", "F.char(lit(256 + 65))", "F.char(lit(0))", "F.char(lit(-1))", "F.char(lit('66'))", "F.char(lit(None))", "F.char(lit(233))", "F.char('x')")
texts("collate", "F.collate('a', 'UTF8_BINARY')", "F.collate('a', 'UTF8_LCASE')", "F.collate(lit('a'), 'UTF8_LCASE') == lit('A')", "F.collate('a', 'NOPE')", "F.collate('n', 'UTF8_LCASE')", "F.collate('a', 'UNICODE_CI')", "F.upper(F.collate('a', 'UTF8_LCASE'))", "F.contains(F.collate('a', 'UTF8_LCASE'), lit('hello'))", "F.concat(F.collate('a', 'UTF8_LCASE'), F.collate('b', 'UNICODE'))")
texts("collation", "F.collation('a')", "F.collation(F.collate('a', 'UTF8_LCASE'))", "F.collation('n')", "F.collation(lit(None))", "F.collation(F.collate('a', 'UNICODE_CI'))")
texts("concat_ws", "F.concat_ws('-', 'a', 'b')", "F.concat_ws(',', 'a', 'n', lit(None))", "F.concat_ws('', F.array('a', 'b'), lit('z'))", "F.concat_ws('-')", "F.concat_ws('-', 'x')", "F.concat_ws('-', F.array('n'))", "F.concat_ws('|', F.create_map('a', 'b'))")
nested("concat_ws", "F.concat_ws(',', 's')", "F.concat_ws(',', 's', 'i')")
for name in ("contains", "startswith", "endswith"):
    texts(name, f"F.{name}('a', 'b')", f"F.{name}('a', lit(''))", f"F.{name}('a', lit(None))", f"F.{name}('x', lit(b'a'))", f"F.{name}('n', lit('1'))", f"F.{name}('a', lit('Hello'))", f"F.{name}('a', 'x')", f"F.{name}('a', F.array(lit('x')))")
for name in ("decode", "encode"):
    texts(name, *[f"F.{name}('{'x' if name == 'decode' else 'a'}', '{charset}')" for charset in ("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32", "utf-8", "nope")], f"F.{name}('n', 'UTF-8')", f"F.{name}(lit(None), 'UTF-8')")
texts("decode", "F.decode(lit(b'abc'), 'UTF-8')", "F.decode('a', 'UTF-8')", "F.expr(\"decode(n, 3, 'three', 0, 'zero', 'else')\")", "F.expr(\"decode(a, 'x', 1)\")", "F.expr('decode(x)')")
texts("elt", "F.elt('n', 'a', 'b')", "F.elt(lit(2), 'a', 'b')", "F.elt(lit(1), 'x', 'x')", "F.elt(lit(0), 'a', 'b')", "F.elt(lit(None), 'a', 'b')", "F.elt(lit(1))", "F.elt(lit(1), 'n')", "F.elt(lit('2'), 'a', 'n')")
texts("elt", "F.elt('n', 'a', 'b')", "F.elt(lit(0), 'a', 'b')", ansi=False)
texts("find_in_set", "F.find_in_set(lit('b'), lit('a,b,c'))", "F.find_in_set(lit(''), lit('a,,c'))", "F.find_in_set('b', 'a')", "F.find_in_set(lit('a,b'), lit('a,b'))", "F.find_in_set(lit(None), lit('a'))", "F.find_in_set('n', lit('3,5'))")
numbers("format_number", "F.format_number('d', 2)", "F.format_number('n', 0)", "F.format_number('w', 4)", "F.format_number('l', 1)", "F.format_number('i', -1)", "F.format_number('s', 1)", "F.format_number('t', 1)", "F.format_number('f', 3)", "F.expr(\"format_number(d, '#,##0.0#')\")", "F.expr(\"format_number(d, '00.###')\")", "F.expr(\"format_number(i, '')\")", "F.format_number(lit(2.5), 0)", "F.format_number(lit(1e20), 0)")
for name in ("format_string", "printf"):
    fmt = (lambda text: f"'{text}'") if name == "format_string" else (lambda text: f"lit('{text}')")
    numbers(
        name,
        f"F.{name}({fmt('%d %s')}, 'i', 's')", f"F.{name}({fmt('%5d|%-5d|%05d')}, 'i', 'i', 'i')", f"F.{name}({fmt('%.2f %e %g')}, 'd', 'd', 'd')", f"F.{name}({fmt('%x %X %o')}, 'i', 'l', 'i')",
        f"F.{name}({fmt('%s %S %b %c %%')}, 's', 's', 't', lit(65))", f"F.{name}({fmt('%2$s %1$s')}, 'i', 's')", f"F.{name}({fmt('%d')}, 'd')", f"F.{name}({fmt('%d %d')}, 'i')", f"F.{name}({fmt('%,d %+d %(d')}, 'l', 'l', 'l')",
        f"F.{name}({fmt('%s')}, 'n')", f"F.{name}({fmt('plain')})", f"F.{name}({fmt('%q')}, 'i')", f"F.{name}({fmt('%10.3s|')}, 's')", f"F.{name}({fmt('%s %s')}, 'd', 'f')", f"F.{name}({fmt('%h')}, 's')",
    )  # fmt: skip
times("format_string", "F.format_string('%s %s %s', 'ts', 'd', 'n')", "F.format_string('%tY', 'ts')")
nested("format_string", "F.format_string('%s %s %s', 'a', 'm', 'r')")
texts("initcap", "F.initcap('a')", "F.initcap(lit('hELLO wORLD-foo bar_baz'))", "F.initcap('n')", "F.initcap(lit(None))", "F.initcap(lit('ǆabc ßx'))")
texts("instr", "F.instr('a', 'l')", "F.instr('a', col('b'))", "F.instr('a', '')", "F.instr('n', '1')", "F.instr('a', lit(None))", "F.instr(lit('日本語'), '語')")
for name in ("is_valid_utf8", "make_valid_utf8", "validate_utf8", "try_validate_utf8"):
    texts(name, f"F.{name}('a')", f"F.{name}(col('x').cast('string'))", f"F.{name}(lit(b'\\xff\\xe2\\x82').cast('string'))", f"F.{name}('n')", f"F.{name}(lit(None))", f"F.{name}(lit(b'ab\\xf0\\x9f\\x98c').cast('string'))")
for name in ("lcase", "lower", "ucase", "upper"):
    texts(name, f"F.{name}('a')", f"F.{name}('n')", f"F.{name}(lit(None))", f"F.{name}(lit('ßŉ İıΣς ǅ ﬁ'))", f"F.{name}('x')", f"F.{name}(F.array(lit('x')))")
for name in ("left", "right"):
    texts(name, f"F.{name}('a', lit(3))", f"F.{name}('a', 'n')", f"F.{name}('a', lit(-1))", f"F.{name}('x', lit(2))", f"F.{name}('a', lit(None))", f"F.{name}('n', lit(1))", f"F.{name}('a', lit('2'))", f"F.{name}('a', lit('x'))")
texts("levenshtein", "F.levenshtein('a', 'b')", "F.levenshtein('a', 'b', 5)", "F.levenshtein(lit('kitten'), lit('sitting'))", "F.levenshtein(lit('kitten'), lit('sitting'), 2)", "F.levenshtein('a', lit(None))", "F.levenshtein('n', lit('12'))", "F.levenshtein('a', 'b', -1)")
texts("locate", "F.locate('l', 'a')", "F.locate('l', 'a', 4)", "F.locate('', 'a')", "F.locate('l', 'a', 0)", "F.locate('l', 'a', -1)", "F.locate('1', 'n')", "F.locate('', lit(''), 2)")
for name in ("lpad", "rpad"):
    texts(name, f"F.{name}('a', 8, '*')", f"F.{name}('a', 3, 'xy')", f"F.{name}('a', 8, '')", f"F.{name}('a', -1, '*')", f"F.{name}('x', 5, lit(b'z'))", f"F.{name}('a', col('n'), col('b'))", f"F.{name}('n', 4, '0')", f"F.{name}('a', lit(None), '*')", f"F.{name}('x', 5, 'z')", f"F.{name}('a', 10, '日本')")
texts("mask", "F.mask('a')", "F.mask('a', lit('Q'))", "F.mask('a', lit('Q'), lit('q'), lit('d'), lit('o'))", "F.mask('a', lit(None), lit('q'))", "F.mask(lit('AbCD123-@$#'))", "F.mask('a', lit('QQ'))", "F.mask('n')", "F.mask(lit(None))", "F.mask('a', 'b')")
texts("overlay", "F.overlay('a', 'b', 3)", "F.overlay('a', 'b', 3, 2)", "F.overlay('a', lit('###'), 1, 0)", "F.overlay('x', lit(b'zz'), 2)", "F.overlay('a', 'b', 'n', lit(1))", "F.overlay('a', 'b', -2)", "F.overlay('a', 'x', 1)", "F.overlay('n', lit('9'), 1)", "F.overlay('a', lit(None), 1)", "F.overlay('a', 'b', 0, 100)")
texts("position", "F.position(lit('l'), 'a')", "F.position('b', 'a')", "F.position(lit('l'), 'a', lit(4))", "F.position(lit('l'), 'a', lit(None))", "F.position(lit('1'), 'n')")
texts("quote", "F.quote('a')", "F.quote(lit(\"it's\"))", "F.quote(lit('a\\\\b'))", "F.quote('n')", "F.quote(lit(None))")
numbers("randstr", "F.randstr(5, 7)", "F.randstr(lit(0), lit(0))", "F.randstr(-1, 3)", "F.randstr(col('i'), 3)", "F.randstr(lit(10).cast('smallint'), lit(-3))", "F.randstr(lit('a'), lit(3))", "F.randstr(5, lit(2**40))", "F.randstr(lit(None), 3)")
texts("regexp_count", "F.regexp_count('a', lit('l'))", "F.regexp_count('a', 'p')", "F.regexp_count('a', lit('('))", "F.regexp_count('a', lit(''))", "F.regexp_count('a', lit(None))", "F.regexp_count('n', lit('1'))")
texts("regexp_extract", "F.regexp_extract('a', '(\\\\w)(\\\\w+)', 2)", "F.regexp_extract('a', '(\\\\w)(\\\\w+)', 0)", "F.regexp_extract('a', '(\\\\w)', 2)", "F.regexp_extract('a', '(', 1)", "F.regexp_extract('a', 'q', 0)", "F.regexp_extract('a', '(x)|(l)', 1)", "F.regexp_extract('n', '1', 0)", "F.regexp_extract('a', '(\\\\w)', -1)")
texts("regexp_extract_all", "F.regexp_extract_all('a', lit('(\\\\w)'))", "F.regexp_extract_all('a', lit('(\\\\w)(\\\\w)'), 2)", "F.regexp_extract_all('a', lit('\\\\w+'), 0)", "F.regexp_extract_all('a', lit('\\\\w+'))", "F.regexp_extract_all('a', 'p', lit(0))", "F.regexp_extract_all('a', lit('('), 0)", "F.regexp_extract_all('a', lit(None))")
texts("regexp_instr", "F.regexp_instr('a', lit('[lX]'))", "F.regexp_instr('a', 'p')", "F.regexp_instr('a', lit('('))", "F.regexp_instr('a', lit('(l)(o)'), 2)", "F.regexp_instr('a', lit(None))", "F.regexp_instr('n', lit('0'))", "F.regexp_instr(lit('日本語'), lit('語'))")
texts("regexp_replace", "F.regexp_replace('a', 'l+', 'L')", "F.regexp_replace('a', '(\\\\w)(\\\\w)', '$2$1')", "F.regexp_replace('a', 'p', 'q')", "F.regexp_replace('a', col('p'), col('b'))", "F.regexp_replace('a', '(', 'x')", "F.regexp_replace('a', 'l', '$3')", "F.regexp_replace('a', '', '-')", "F.expr(\"regexp_replace(a, 'l', 'L', 4)\")", "F.expr(\"regexp_replace(a, 'l', 'L', 0)\")", "F.regexp_replace('n', '1', '2')", "F.regexp_replace('a', '\\\\s', '\\\\\\\\')", "F.regexp_replace('a', lit(None), lit('x'))")
texts("regexp_substr", "F.regexp_substr('a', lit('[a-z]+'))", "F.regexp_substr('a', 'p')", "F.regexp_substr('a', lit('('))", "F.regexp_substr('a', lit('q'))", "F.regexp_substr('a', lit(None))", "F.regexp_substr('n', lit('0+'))")
texts("repeat", "F.repeat('a', 2)", "F.repeat('a', 'n')", "F.repeat('a', lit(None))", "F.repeat('n', 2)", "F.repeat('x', 2)", "F.repeat('a', -1)", "F.repeat('a', lit('2'))", "F.repeat('a', 0)")
texts("replace", "F.replace('a', lit('l'), lit('L'))", "F.replace('a', lit('l'))", "F.replace('a', 'b', 'p')", "F.replace('a', lit(''), lit('x'))", "F.replace('n', lit('1'), lit('2'))", "F.replace('a', lit(None), lit('x'))", "F.replace('x', lit('a'), lit('b'))")
texts("sentences", "F.sentences('a')", "F.sentences(lit('Hi there! Good morning. How are you?'))", "F.sentences(lit('Hi there!'), lit('en'), lit('US'))", "F.sentences(lit('Hi there!'), lit('en'))", "F.sentences(lit(None))", "F.sentences(lit('1.5 costs $3, e.g. this. New'))", "F.sentences('n')")
texts("soundex", "F.soundex('a')", "F.soundex(lit('Miller'))", "F.soundex(lit('Ashcraft'))", "F.soundex('n')", "F.soundex(lit(None))", "F.soundex(lit('  x'))")
texts("split", "F.split('a', 'l')", "F.split('a', '')", "F.split('a', '[lX]', 2)", "F.split('a', ' ', -1)", "F.split('a', 'l', 0)", "F.split('a', col('b'))", "F.split('a', '(')", "F.split('n', '1')", "F.split('a', lit(None))", "F.split('a', '', 3)", "F.split(lit('a,b,,'), ',')", "F.split(lit('aXbXc'), 'X', lit(1))")
texts("split_part", "F.split_part('a', lit('l'), lit(1))", "F.split_part('a', 'b', lit(2))", "F.split_part('a', lit('X'), lit(-1))", "F.split_part('a', lit('X'), lit(0))", "F.split_part('a', lit(''), lit(1))", "F.split_part('a', lit('X'), lit(9))", "F.split_part('a', lit(None), lit(1))", "F.split_part('n', lit('0'), lit(1))", "F.split_part('a', lit('X'), 'n')")
for name in ("substr", "substring"):
    texts(
        name,
        f"F.{name}('a', lit(2), lit(3))", f"F.{name}('a', lit(-3), lit(2))", f"F.{name}('a', lit(0), lit(2))", f"F.{name}('x', lit(2), lit(3))", f"F.{name}('a', 'n', lit(2))", f"F.{name}('n', lit(1), lit(1))", f"F.{name}('a', lit(2), lit(-1))",
        f"F.{name}('a', lit(None), lit(1))", f"F.{name}('a', lit('2'), lit(1))", f"F.{name}('a', lit(-100), lit(99))", f"F.{name}('a', lit(2147483647), lit(2147483647))",
    )  # fmt: skip
texts("substr", "F.substr('a', lit(3))", "F.substr('a', lit(-3))", "F.substr('x', lit(2))")
texts("substring", "F.substring('a', 2, 3)", "F.substring('x', 1, 2)")
texts("substring_index", "F.substring_index('a', 'l', 2)", "F.substring_index('a', 'l', -2)", "F.substring_index('a', '', 1)", "F.substring_index('a', 'X', 0)", "F.substring_index('n', '0', 1)", "F.substring_index('a', 'zz', 3)", "F.substring_index(lit('aaa'), 'aa', -1)")
for name in ("to_binary", "try_to_binary"):
    texts(name, f"F.{name}(lit('616263'))", f"F.{name}('a', lit('utf-8'))", f"F.{name}(lit('YWJj'), lit('base64'))", f"F.{name}(lit('zz'), lit('hex'))", f"F.{name}('a', lit('nope'))", f"F.{name}(lit('a!'), lit('base64'))", f"F.{name}(lit(None), lit('hex'))", f"F.{name}('a', lit(None))", f"F.{name}('a', 'b')", f"F.{name}('n', lit('utf8'))", f"F.{name}(lit('abc'))")
for name in ("to_char", "to_varchar"):
    numbers(
        name,
        f"F.{name}('n', lit('99999.99'))", f"F.{name}('i', lit('000,000'))", f"F.{name}('n', lit('$99,999.99'))", f"F.{name}('i', lit('S999999'))", f"F.{name}('i', lit('999999MI'))", f"F.{name}('n', lit('99999.9PR'))", f"F.{name}('i', lit('9'))",
        f"F.{name}('i', lit('x'))", f"F.{name}('i', lit(None))", f"F.{name}('d', lit('999.99'))", f"F.{name}('i', 's')", f"F.{name}('t', lit('9'))",
    )  # fmt: skip
    times(name, f"F.{name}('ts', lit('yyyy-MM-dd'))", f"F.{name}('d', lit('dd/MM/yy'))", f"F.{name}('n', lit('HH:mm'))")
    texts(name, f"F.{name}('x', lit('hex'))", f"F.{name}('x', lit('base64'))", f"F.{name}('x', lit('utf-8'))", f"F.{name}('x', lit('nope'))")
for name in ("to_number", "try_to_number"):
    texts(
        name,
        f"F.{name}(lit('454'), lit('999'))", f"F.{name}(lit('12,454.8-'), lit('99,999.9S'))", f"F.{name}(lit('$78.12'), lit('$99.99'))", f"F.{name}(lit('x'), lit('999'))", f"F.{name}('a', lit('999'))", f"F.{name}(lit('12'), lit('q'))", f"F.{name}(lit('<12>'), lit('99PR'))",
        f"F.{name}(lit(None), lit('9'))", f"F.{name}(lit('12'), 'b')", f"F.{name}('n', lit('999'))", f"F.{name}(lit('1234'), lit('999'))", f"F.{name}(lit('-12'), lit('S00'))", f"F.{name}(lit('12'), lit(None))",
    )  # fmt: skip
texts("translate", "F.translate('a', 'lo', 'L')", "F.translate('a', 'abc', '123')", "F.translate('a', '', 'x')", "F.translate('n', '1', '2')", "F.translate('a', '日😀', 'ab')", "F.translate('a', 'll', 'xy')")
