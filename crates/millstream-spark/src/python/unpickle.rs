//! Results of functions as Python's pickle: read without running anything, only values are known.

mod values;

use std::collections::HashMap;

use arrow::array::ArrayRef;
use arrow::datatypes::Fields;
use millstream_core::{Error, Result};

/// How deep values may be nested.
const DEPTH: usize = 200;

/// Where a value is among those of a pickle: lists and dicts are filled after they are first referred to, and may be referred to again.
type Id = usize;

/// A value. What its parts are is looked up.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// An integer of more than 64 bits, little-endian two's complement.
    Big(Vec<u8>),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Decimal(String),
    /// A class or function, by its module and name.
    Global(String),
    /// An object of a class that is none of those above.
    Object(String),
}

/// The results that a pickle holds, row by row.
#[derive(Debug)]
pub(crate) struct Results {
    values: Vec<Value>,
    /// For each row the result of each function.
    rows: Vec<Vec<Id>>,
}

impl Results {
    /// Reads the results of so many functions: a list with one result for each row, which is a tuple if there are several functions.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` for what is no pickle, or one of something else.
    pub(crate) fn read(bytes: &[u8], functions: usize) -> Result<Results> {
        let (values, root) = Machine::run(bytes)?;
        let rows = items(&values, root)?;
        let rows = if functions == 1 {
            rows.iter().map(|row| vec![*row]).collect()
        } else {
            let rows: Result<Vec<Vec<Id>>> = rows.iter().map(|row| items(&values, *row).map(<[Id]>::to_vec)).collect();
            rows?
        };
        if rows.iter().any(|row: &Vec<Id>| row.len() != functions) {
            return Err(broken("another number of results than functions"));
        }
        Ok(Results { values, rows })
    }

    /// Reads the rows that a table function gives for one row: a list with one tuple of tuples.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` for what is no pickle, or one of something else.
    pub(crate) fn read_table(bytes: &[u8]) -> Result<Results> {
        let (values, root) = Machine::run(bytes)?;
        let mut rows = Vec::new();
        for given in items(&values, root)? {
            for row in items(&values, *given)? {
                rows.push(vec![*row]);
            }
        }
        Ok(Results { values, rows })
    }

    /// Reads rows, each of which is the pickle of a tuple with so many values.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` for what is no pickle, or one of something else.
    pub(crate) fn read_rows(pickles: &[Vec<u8>], width: usize) -> Result<Results> {
        let (mut values, mut rows) = (Vec::new(), Vec::with_capacity(pickles.len()));
        for pickle in pickles {
            let root;
            (values, root) = Machine { values, bytes: pickle, ..Machine::default() }.read()?;
            let row = items(&values, root)?.to_vec();
            if row.len() != width {
                return Err(Error::invalid(
                    "PYTHON_RESULT_MISMATCH",
                    format!("a row has {} values, and its schema has {width} fields: give one value for each field", row.len()),
                ));
            }
            rows.push(row);
        }
        Ok(Results { values, rows })
    }

    /// The results as columns of the declared types. As in Spark, a value of another kind than its type is null.
    ///
    /// # Errors
    /// Spark's conditions of values that do not fit; `INTERNAL_ERROR`.
    pub(crate) fn columns(&self, declared: &Fields) -> Result<Vec<ArrayRef>> {
        let column = |(place, field): (usize, &std::sync::Arc<arrow::datatypes::Field>)| {
            let ids: Vec<Option<Id>> = self.rows.iter().map(|row| row.get(place).copied()).collect();
            values::column(&self.values, &ids, field)
        };
        declared.iter().enumerate().map(column).collect()
    }
}

fn items(values: &[Value], id: Id) -> Result<&[Id]> {
    match values.get(id) {
        Some(Value::List(items) | Value::Tuple(items)) => Ok(items),
        _ => Err(broken("no list of results")),
    }
}

fn broken(what: &str) -> Error {
    Error::internal(format!("a Python worker answers with a pickle of {what}"))
}

/// The pickle machine, without the operations that run something.
#[derive(Default)]
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    values: Vec<Value>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl<'a> Machine<'a> {
    fn run(bytes: &'a [u8]) -> Result<(Vec<Value>, Id)> {
        Machine { bytes, ..Machine::default() }.read()
    }

    /// The values, with those that there were before, and which of them is the pickle's.
    fn read(mut self) -> Result<(Vec<Value>, Id)> {
        loop {
            let operation = self.byte()?;
            if operation == b'.' {
                let root = self.pop()?;
                return Ok((self.values, root));
            }
            self.step(operation)?;
        }
    }

    fn step(&mut self, operation: u8) -> Result<()> {
        match operation {
            // PROTO, FRAME: nothing to do.
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'J' => {
                let value = i32::from_le_bytes(self.array()?);
                self.push(Value::Int(value.into()));
            }
            b'K' => {
                let value = self.byte()?;
                self.push(Value::Int(value.into()));
            }
            b'M' => {
                let value = u16::from_le_bytes(self.array()?);
                self.push(Value::Int(value.into()));
            }
            0x8a => {
                let length = self.byte()?.into();
                self.long(length)?;
            }
            0x8b => {
                let length = self.length(4)?;
                self.long(length)?;
            }
            b'G' => {
                let value = f64::from_be_bytes(self.array()?);
                self.push(Value::Float(value));
            }
            0x8c => self.text(1)?,
            b'X' => self.text(4)?,
            0x8d => self.text(8)?,
            b'C' => self.binary(1)?,
            b'B' => self.binary(4)?,
            0x8e | 0x96 => self.binary(8)?,
            b']' => self.push(Value::List(Vec::new())),
            b')' => self.push(Value::Tuple(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            // EMPTY_SET, and FROZENSET below: sets are none of Spark's values.
            0x8f => self.push(Value::Object("builtins.set".to_owned())),
            b'(' => self.marks.push(self.stack.len()),
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b't' => {
                let items = self.marked()?;
                self.push(Value::Tuple(items));
            }
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])?;
            }
            b'e' => {
                let items = self.marked()?;
                self.append(items)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.marked()?;
                self.set(&items)?;
            }
            0x90 => drop(self.marked()?),
            0x91 => {
                self.marked()?;
                self.push(Value::Object("builtins.frozenset".to_owned()));
            }
            b'0' => drop(self.pop()?),
            b'1' => drop(self.marked()?),
            b'2' => {
                let top = *self.stack.last().ok_or_else(|| broken("nothing"))?;
                self.stack.push(top);
            }
            // MEMOIZE, BINPUT, LONG_BINPUT, BINGET, LONG_BINGET.
            0x94 => self.remember(u32::try_from(self.memo.len()).unwrap_or(u32::MAX))?,
            b'q' => {
                let key = self.byte()?.into();
                self.remember(key)?;
            }
            b'r' => {
                let key = u32::from_le_bytes(self.array()?);
                self.remember(key)?;
            }
            b'h' => {
                let key = self.byte()?.into();
                self.recall(key)?;
            }
            b'j' => {
                let key = u32::from_le_bytes(self.array()?);
                self.recall(key)?;
            }
            b'c' => {
                let module = self.line()?;
                let name = self.line()?;
                self.push(Value::Global(format!("{module}.{name}")));
            }
            0x93 => {
                let name = self.pop_text()?;
                let module = self.pop_text()?;
                self.push(Value::Global(format!("{module}.{name}")));
            }
            b'R' | 0x81 => self.made()?,
            0x92 => {
                self.pop()?;
                self.made()?;
            }
            // BUILD: the state of an object that is not known anyway.
            b'b' => drop(self.pop()?),
            other => return Err(broken(&format!("the operation {other:#04x}"))),
        }
        Ok(())
    }

    /// A call of a class: a decimal, a tuple of a kind, or something that is not known.
    fn made(&mut self) -> Result<()> {
        let arguments = self.pop()?;
        let callable = self.pop()?;
        let Some(Value::Global(name)) = self.values.get(callable).cloned() else { return Err(broken("a call of something")) };
        let arguments = items(&self.values, arguments)?.to_vec();
        let text = arguments.first().and_then(|first| self.values.get(*first));
        let value = match (name.as_str(), text) {
            ("decimal.Decimal" | "_pydecimal.Decimal", Some(Value::Text(text))) => Value::Decimal(text.clone()),
            ("builtins.bytearray", Some(Value::Bytes(bytes))) => Value::Bytes(bytes.clone()),
            // pyspark.sql.Row: the names of its fields, and their values.
            ("pyspark.sql.types._create_row", _) => match arguments.get(1).and_then(|row| self.values.get(*row)) {
                Some(Value::Tuple(items) | Value::List(items)) => Value::Tuple(items.clone()),
                _ => Value::Object(name),
            },
            _ => Value::Object(name),
        };
        self.push(value);
        Ok(())
    }

    fn push(&mut self, value: Value) {
        self.values.push(value);
        self.stack.push(self.values.len() - 1);
    }

    fn pop(&mut self) -> Result<Id> {
        if self.marks.last().is_some_and(|mark| *mark >= self.stack.len()) {
            return Err(broken("too few values"));
        }
        self.stack.pop().ok_or_else(|| broken("too few values"))
    }

    fn pop_text(&mut self) -> Result<String> {
        let id = self.pop()?;
        match self.values.get(id) {
            Some(Value::Text(text)) => Ok(text.clone()),
            _ => Err(broken("a name that is no text")),
        }
    }

    /// The values above the last mark.
    fn marked(&mut self) -> Result<Vec<Id>> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len()).ok_or_else(|| broken("values without a mark"))?;
        Ok(self.stack.split_off(mark))
    }

    fn tuple(&mut self, length: usize) -> Result<()> {
        let mut items = Vec::with_capacity(length);
        for _ in 0..length {
            items.push(self.pop()?);
        }
        items.reverse();
        self.push(Value::Tuple(items));
        Ok(())
    }

    fn append(&mut self, items: Vec<Id>) -> Result<()> {
        let list = *self.stack.last().ok_or_else(|| broken("items of no list"))?;
        match self.values.get_mut(list) {
            Some(Value::List(known)) => known.extend(items),
            // Parts of an object that is not known.
            Some(Value::Object(_)) => {}
            _ => return Err(broken("items of no list")),
        }
        Ok(())
    }

    fn set(&mut self, items: &[Id]) -> Result<()> {
        let dict = *self.stack.last().ok_or_else(|| broken("entries of no dict"))?;
        match self.values.get_mut(dict) {
            Some(Value::Dict(entries)) => {
                entries.extend(items.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?))));
            }
            Some(Value::Object(_)) => {}
            _ => return Err(broken("entries of no dict")),
        }
        Ok(())
    }

    fn remember(&mut self, key: u32) -> Result<()> {
        let top = *self.stack.last().ok_or_else(|| broken("nothing"))?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn recall(&mut self, key: u32) -> Result<()> {
        let id = *self.memo.get(&key).ok_or_else(|| broken("something that was not remembered"))?;
        self.stack.push(id);
        Ok(())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(length).ok_or_else(|| broken("too many bytes"))?;
        let taken = self.bytes.get(self.at..end).ok_or_else(|| broken("too few bytes"))?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| broken("too few bytes"))
    }

    fn byte(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A length of so many bytes.
    fn length(&mut self, bytes: usize) -> Result<usize> {
        let mut wide = [0; 8];
        for (to, from) in wide.iter_mut().zip(self.take(bytes)?) {
            *to = *from;
        }
        usize::try_from(u64::from_le_bytes(wide)).map_err(|_| broken("too many bytes"))
    }

    fn long(&mut self, length: usize) -> Result<()> {
        let bytes = self.take(length)?;
        let negative = bytes.last().is_some_and(|last| *last >= 0x80);
        let value = if length <= 8 {
            let mut wide = [if negative { 0xff } else { 0 }; 8];
            for (to, from) in wide.iter_mut().zip(bytes) {
                *to = *from;
            }
            Value::Int(i64::from_le_bytes(wide))
        } else {
            Value::Big(bytes.to_vec())
        };
        self.push(value);
        Ok(())
    }

    fn text(&mut self, length_bytes: usize) -> Result<()> {
        let length = self.length(length_bytes)?;
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.push(Value::Text(text));
        Ok(())
    }

    fn binary(&mut self, length_bytes: usize) -> Result<()> {
        let length = self.length(length_bytes)?;
        let bytes = self.take(length)?.to_vec();
        self.push(Value::Bytes(bytes));
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| broken("a name without an end"))?;
        let line = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.at += 1;
        Ok(line)
    }
}
