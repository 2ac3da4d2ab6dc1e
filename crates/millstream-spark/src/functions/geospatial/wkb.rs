//! Well-known binary: shapes as bytes (ISO 13249-3, OGC 06-103r4), in either byte order.

/// What is wrong with bytes that are no shape, and where.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub(super) what: String,
    pub(super) at: usize,
}

/// Which end of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    /// `XDR`.
    Big,
    /// `NDR`.
    Little,
}

/// The kinds of shapes by number.
const POINT: u32 = 1;
const LINE: u32 = 2;
const POLYGON: u32 = 3;
const MULTI_POINT: u32 = 4;
const MULTI_LINE: u32 = 5;
const MULTI_POLYGON: u32 = 6;
const COLLECTION: u32 = 7;

/// How deeply collections may be nested.
const DEPTH: usize = 64;

/// Reads a shape and writes it in another byte order.
///
/// # Errors
/// When the bytes are no shape, or with `geographic` when a coordinate is no longitude or latitude.
pub(super) fn rewritten(bytes: &[u8], order: Order, geographic: bool) -> Result<Vec<u8>, Fault> {
    let mut reader = Reader { bytes, at: 0, order: Order::Little, geographic };
    let mut out = Writer { bytes: Vec::with_capacity(bytes.len()), order };
    reader.shape(&mut out, None, 0)?;
    if reader.at < bytes.len() {
        return Err(reader.fault("there are bytes behind the shape"));
    }
    Ok(out.bytes)
}

struct Writer {
    bytes: Vec<u8>,
    order: Order,
}

impl Writer {
    fn int(&mut self, number: u32) {
        self.bytes.extend(if self.order == Order::Little { number.to_le_bytes() } else { number.to_be_bytes() });
    }

    fn double(&mut self, number: f64) {
        self.bytes.extend(if self.order == Order::Little { number.to_le_bytes() } else { number.to_be_bytes() });
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    order: Order,
    geographic: bool,
}

impl Reader<'_> {
    fn fault(&self, what: impl Into<String>) -> Fault {
        Fault { what: what.into(), at: self.at }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let taken = *taken.ok_or_else(|| self.fault("the bytes end early"))?;
        self.at += N;
        Ok(taken)
    }

    fn int(&mut self) -> Result<u32, Fault> {
        let bytes = self.take::<4>()?;
        Ok(if self.order == Order::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn double(&mut self) -> Result<f64, Fault> {
        let bytes = self.take::<8>()?;
        Ok(if self.order == Order::Little { f64::from_le_bytes(bytes) } else { f64::from_be_bytes(bytes) })
    }

    /// One shape; in a collection of one kind it must be of that kind.
    fn shape(&mut self, out: &mut Writer, due: Option<u32>, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH {
            return Err(self.fault("shapes are nested too deeply"));
        }
        let [order] = self.take::<1>()?;
        self.order = match order {
            0 => Order::Big,
            1 => Order::Little,
            other => {
                self.at -= 1;
                return Err(self.fault(format!("{other} is no byte order")));
            }
        };
        let start = self.at;
        let code = self.int()?;
        let (kind, dimensions) = (code % 1000, code / 1000);
        if !(POINT..=COLLECTION).contains(&kind) || dimensions > 3 || due.is_some_and(|due| due != kind) {
            self.at = start;
            return Err(self.fault(format!("{code} is no kind of shape that may be here")));
        }
        let numbers = [2, 3, 3, 4].get(dimensions as usize).copied().unwrap_or(2);
        out.bytes.push(u8::from(out.order == Order::Little));
        out.int(code);
        match kind {
            POINT => self.point(out, numbers, true),
            LINE => self.points(out, numbers, 2),
            POLYGON => {
                let rings = self.count(out)?;
                (0..rings).try_for_each(|_| self.points(out, numbers, 4))
            }
            _ => {
                let due = match kind {
                    MULTI_POINT => Some(POINT),
                    MULTI_LINE => Some(LINE),
                    MULTI_POLYGON => Some(POLYGON),
                    _ => None,
                };
                let order = self.order;
                let parts = self.count(out)?;
                for _ in 0..parts {
                    self.shape(out, due, depth + 1)?;
                    self.order = order;
                }
                Ok(())
            }
        }
    }

    fn count(&mut self, out: &mut Writer) -> Result<u32, Fault> {
        let count = self.int()?;
        out.int(count);
        Ok(count)
    }

    /// A line of at least so many points, unless it is empty.
    fn points(&mut self, out: &mut Writer, numbers: usize, least: u32) -> Result<(), Fault> {
        let start = self.at;
        let count = self.count(out)?;
        if count > 0 && count < least {
            self.at = start;
            return Err(self.fault(format!("{count} points are too few")));
        }
        (0..count).try_for_each(|_| self.point(out, numbers, false))
    }

    /// A point; alone it may be empty, which is written as NaN.
    fn point(&mut self, out: &mut Writer, numbers: usize, may_be_empty: bool) -> Result<(), Fault> {
        let start = self.at;
        let coordinates = (0..numbers).map(|_| self.double()).collect::<Result<Vec<_>, _>>()?;
        let empty = coordinates.iter().all(|coordinate| coordinate.is_nan());
        if !(empty && may_be_empty) {
            if coordinates.iter().any(|coordinate| !coordinate.is_finite()) {
                self.at = start;
                return Err(self.fault("a coordinate is not finite"));
            }
            let limits = [180.0, 90.0];
            if self.geographic && coordinates.iter().zip(limits).any(|(coordinate, limit)| coordinate.abs() > limit) {
                self.at = start;
                return Err(self.fault("a coordinate is no longitude or latitude"));
            }
        }
        coordinates.into_iter().for_each(|coordinate| out.double(coordinate));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT_1_2: &str = "0101000000000000000000F03F0000000000000040";
    const POINT_BIG: &str = "00000000013FF00000000000004000000000000000";

    fn bytes(hexadecimal: &str) -> Vec<u8> {
        let digits: Vec<u8> = hexadecimal.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    #[test]
    fn shapes_change_their_byte_order() {
        assert_eq!(rewritten(&bytes(POINT_1_2), Order::Big, true), Ok(bytes(POINT_BIG)));
        assert_eq!(rewritten(&bytes(POINT_BIG), Order::Little, true), Ok(bytes(POINT_1_2)));
        let both = format!("010400000002000000{POINT_1_2}{POINT_BIG}");
        let little = format!("010400000002000000{POINT_1_2}{POINT_1_2}");
        assert_eq!(rewritten(&bytes(&both), Order::Little, false), Ok(bytes(&little)));
    }

    #[test]
    fn faults_say_where_they_are() {
        let cases = [
            ("", 0),
            ("02", 0),
            ("0101", 1),
            ("0109000000", 1),
            ("0101000000000000000000F03F", 13),
            (&format!("{POINT_1_2}00"), 21),
            ("01020000000100000000000000000000000000000000000000", 5),
            ("010400000001000000010200000000000000", 10),
        ];
        for (hexadecimal, at) in cases {
            assert_eq!(rewritten(&bytes(hexadecimal), Order::Little, false).map_err(|fault| fault.at), Err(at), "{hexadecimal}");
        }
        let far = "01010000000000000000C072400000000000000040";
        assert!(rewritten(&bytes(far), Order::Little, false).is_ok() && rewritten(&bytes(far), Order::Little, true).is_err());
    }
}
