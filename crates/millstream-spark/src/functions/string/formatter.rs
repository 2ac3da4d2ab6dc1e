//! Format strings as `java.util.Formatter` reads them: `%[index$][flags][width][.precision]conversion`.

mod number;

use super::super::hash::murmur3_bytes;
use number::{Float, float, integer};

/// A value to format.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Boolean(bool),
    /// A whole number of so many bits.
    Integer(i64, u32),
    Float(f32),
    Double(f64),
    Text(&'a str),
    /// Something that has no form but its text.
    Other(String),
}

/// A format string, read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Format {
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
enum Item {
    Literal(String),
    Specifier(Specifier),
}

#[derive(Clone, Debug, PartialEq)]
struct Specifier {
    index: Index,
    flags: Flags,
    width: Option<usize>,
    precision: Option<usize>,
    conversion: char,
    upper: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Index {
    /// The next argument.
    Next,
    /// The argument of the specifier before.
    Same,
    /// The argument of that number, from 0.
    At(usize),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Flags {
    pub(super) left: bool,
    pub(super) alternate: bool,
    pub(super) plus: bool,
    pub(super) space: bool,
    pub(super) zero: bool,
    pub(super) group: bool,
    pub(super) parentheses: bool,
}

/// The widest result that is filled up with blanks or zeros.
const MAX_WIDTH: usize = 1 << 24;

impl Format {
    /// Reads a format string. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Format, String> {
        let (mut items, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.find('%') {
            let (literal, specifier) = rest.split_at(at);
            if !literal.is_empty() {
                items.push(Item::Literal(literal.to_owned()));
            }
            let specifier = specifier.get(1..).unwrap_or_default();
            let (specifier, behind) = Specifier::parse(specifier)?;
            items.push(Item::Specifier(specifier));
            rest = behind;
        }
        if !rest.is_empty() {
            items.push(Item::Literal(rest.to_owned()));
        }
        Ok(Format { items })
    }

    /// Appends the values in this format. The error says which value does not fit.
    pub(super) fn write(&self, values: &[Value<'_>], out: &mut String) -> Result<(), String> {
        let (mut next, mut last) = (0, None);
        for item in &self.items {
            let specifier = match item {
                Item::Literal(text) => {
                    out.push_str(text);
                    continue;
                }
                Item::Specifier(specifier) => specifier,
            };
            match specifier.conversion {
                'n' => out.push('\n'),
                '%' => specifier.pad("%", out),
                _ => {
                    let index = match specifier.index {
                        Index::At(index) => index,
                        Index::Same => last.ok_or("'%<' has no argument before it")?,
                        Index::Next => {
                            next += 1;
                            next - 1
                        }
                    };
                    last = Some(index);
                    let value = values.get(index).ok_or_else(|| format!("there is no argument {} for its format", index + 1))?;
                    specifier.write(value, out)?;
                }
            }
        }
        Ok(())
    }
}

/// `hashCode` of what Spark hands to Java's formatter.
fn java_hash(value: &Value<'_>) -> Option<u32> {
    let of_long = |number: u64| (number ^ number >> 32) as u32;
    Some(match value {
        Value::Boolean(true) => 1231,
        Value::Boolean(false) => 1237,
        Value::Integer(number, bits) if *bits <= 32 => *number as u32,
        Value::Integer(number, _) => of_long(*number as u64),
        Value::Float(number) => number.to_bits(),
        Value::Double(number) => of_long(number.to_bits()),
        // Spark's own text, not Java's.
        Value::Text(text) => murmur3_bytes(text.as_bytes(), 42),
        Value::Null | Value::Other(_) => return None,
    })
}

impl Specifier {
    /// Reads what follows a `%`; also returns what follows it.
    fn parse(text: &str) -> Result<(Specifier, &str), String> {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let number = |text: &str| text.parse::<usize>().map_err(|_| format!("the number {text} is too large"));
        let mut rest = text;
        let mut index = Index::Next;
        if let Some(behind) = rest.strip_prefix('<') {
            (index, rest) = (Index::Same, behind);
        } else {
            let (found, behind) = rest.split_at(digits(rest));
            if let (false, Some(behind)) = (found.is_empty(), behind.strip_prefix('$')) {
                let number = number(found)?.checked_sub(1).ok_or("arguments are numbered from 1")?;
                (index, rest) = (Index::At(number), behind);
            }
        }
        let mut flags = Flags::default();
        loop {
            let mut characters = rest.chars();
            let flag = match characters.next() {
                Some('-') => &mut flags.left,
                Some('#') => &mut flags.alternate,
                Some('+') => &mut flags.plus,
                Some(' ') => &mut flags.space,
                Some('0') => &mut flags.zero,
                Some(',') => &mut flags.group,
                Some('(') => &mut flags.parentheses,
                _ => break,
            };
            if std::mem::replace(flag, true) {
                return Err("a flag stands twice".to_owned());
            }
            rest = characters.as_str();
        }
        let (found, behind) = rest.split_at(digits(rest));
        let width = if found.is_empty() { None } else { Some(number(found)?) };
        rest = behind;
        let mut precision = None;
        if let Some(behind) = rest.strip_prefix('.') {
            let (found, behind) = behind.split_at(digits(behind));
            if found.is_empty() {
                return Err("a precision is missing".to_owned());
            }
            (precision, rest) = (Some(number(found)?), behind);
        }
        let mut characters = rest.chars();
        let conversion = characters.next().ok_or("it ends within a format")?;
        let lower = conversion.to_ascii_lowercase();
        let upper = conversion != lower;
        if !matches!(lower, 'b' | 'h' | 's' | 'c' | 'd' | 'o' | 'x' | 'e' | 'f' | 'g' | 'a' | 'n' | '%')
            || (upper && matches!(lower, 'd' | 'o' | 'f' | 'n'))
        {
            return Err(format!("there is no conversion '{conversion}'"));
        }
        let specifier = Specifier { index, flags, width, precision, conversion: lower, upper };
        specifier.check()?;
        Ok((specifier, characters.as_str()))
    }

    /// Refuses what the conversion does not take.
    fn check(&self) -> Result<(), String> {
        let flags = &self.flags;
        if self.width.is_none() && (flags.left || flags.zero) {
            return Err("the flags '-' and '0' need a width".to_owned());
        }
        if self.width.is_some_and(|width| width > MAX_WIDTH) || self.precision.is_some_and(|precision| precision > MAX_WIDTH) {
            return Err("a width or precision is too large".to_owned());
        }
        if (flags.left && flags.zero) || (flags.plus && flags.space) {
            return Err("flags contradict each other".to_owned());
        }
        let numeric = flags.plus || flags.space || flags.zero || flags.group || flags.parentheses;
        let (wrong_flag, wrong_precision) = match self.conversion {
            'b' | 'h' => (numeric || flags.alternate, false),
            's' => (numeric || flags.alternate, false),
            'c' | '%' => (numeric || flags.alternate, self.precision.is_some()),
            'n' => (numeric || flags.alternate || flags.left || self.width.is_some(), self.precision.is_some()),
            'd' => (flags.alternate, self.precision.is_some()),
            'o' | 'x' => (flags.group, self.precision.is_some()),
            'e' => (flags.group, false),
            'g' => (flags.alternate, false),
            'a' => (flags.group || flags.parentheses, false),
            _ => (false, false),
        };
        if wrong_flag || wrong_precision {
            return Err(format!("the conversion '{}' does not take its flags or precision", self.conversion));
        }
        Ok(())
    }

    fn write(&self, value: &Value<'_>, out: &mut String) -> Result<(), String> {
        let text = match (self.conversion, value) {
            ('b', Value::Boolean(value)) => self.cut(if *value { "true" } else { "false" }),
            ('b', value) => self.cut(if *value == Value::Null { "false" } else { "true" }),
            ('s', Value::Text(text)) => self.cut(text),
            ('s', Value::Other(text)) => self.cut(text),
            ('s', Value::Boolean(value)) => self.cut(if *value { "true" } else { "false" }),
            ('s', Value::Integer(number, _)) => self.cut(&number.to_string()),
            ('s', Value::Double(number)) => {
                let mut text = String::new();
                super::super::cast::push_double(&mut text, *number);
                self.cut(&text)
            }
            ('s', Value::Float(number)) => {
                let mut text = String::new();
                super::super::cast::push_float(&mut text, *number);
                self.cut(&text)
            }
            (_, Value::Null) => self.cut("null"),
            ('h', value) => {
                self.cut(&format!("{:x}", java_hash(value).ok_or("values of this type have no hash that is the same every time")?))
            }
            (_, Value::Float(number)) => return self.write(&Value::Double(f64::from(*number)), out),
            ('c', Value::Integer(number, bits)) if *bits <= 32 => {
                let code = u32::try_from(*number).ok().and_then(char::from_u32);
                code.ok_or_else(|| format!("{number} is the number of no character"))?.to_string()
            }
            ('d' | 'o' | 'x', Value::Integer(number, bits)) => integer(*number, *bits, self.conversion, &self.flags, self.width),
            ('e' | 'f' | 'g', Value::Double(number)) => {
                let form = match self.conversion {
                    'e' => Float::Scientific,
                    'f' => Float::Plain,
                    _ => Float::General,
                };
                float(*number, form, self.precision, &self.flags, self.width)
            }
            ('a', Value::Double(number)) => number::hexadecimal(*number),
            (conversion, _) => return Err(format!("the conversion '{conversion}' does not take a value of this type")),
        };
        if self.upper {
            self.pad(&text.to_uppercase(), out)
        } else {
            self.pad(&text, out)
        }
        Ok(())
    }

    /// As many characters as the precision allows.
    fn cut(&self, text: &str) -> String {
        match self.precision {
            Some(precision) => text.chars().take(precision).collect(),
            None => text.to_owned(),
        }
    }

    /// Appends a text, with blanks up to the width.
    fn pad(&self, text: &str, out: &mut String) {
        let missing = self.width.unwrap_or(0).saturating_sub(text.chars().count());
        let blanks = std::iter::repeat_n(' ', missing);
        if self.flags.left {
            out.push_str(text);
            out.extend(blanks);
        } else {
            out.extend(blanks);
            out.push_str(text);
        }
    }
}
