//! The functions.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::logical_expr::Volatility;
use millstream_core::{Error, Result};

use super::aes::{Aes, BLOCK, Block};
use super::modes::{GCM_IV, decrypt_blocks, decrypt_gcm, encrypt_blocks, encrypt_gcm};
use crate::functions::hash::murmur3_bytes;
use crate::functions::rows::{Row, Rows};
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, faults, kernel, scalar, udf};

pub(in super::super) fn register(functions: &mut Functions) {
    functions.add("aes_encrypt", encrypt);
    functions.add("aes_decrypt", |call| decrypt(call, "aes_decrypt", true));
    functions.add("try_aes_decrypt", |call| decrypt(call, "try_aes_decrypt", false));
}

const DEFAULT_MODE: &str = "GCM";
const DEFAULT_PADDING: &str = "DEFAULT";

/// The text, the key, the mode and the padding.
fn common(call: &Call<'_>) -> Result<Vec<Typed>> {
    let text_or = |index: usize, default: &str| if call.len() > index { call.string(index) } else { Ok(Typed::text(default)) };
    Ok(vec![call.binary(0)?, call.binary(1)?, text_or(2, DEFAULT_MODE)?, text_or(3, DEFAULT_PADDING)?])
}

fn bytes_or_none(call: &Call<'_>, index: usize) -> Result<Typed> {
    if call.len() > index { call.binary(index) } else { Ok(Typed::literal(datafusion::scalar::ScalarValue::Binary(Some(Vec::new())))) }
}

/// `aes_encrypt(text, key[, mode[, padding[, iv[, aad]]]])`
fn encrypt(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=6)?;
    let mut arguments = common(call)?;
    arguments.extend([bytes_or_none(call, 4)?, bytes_or_none(call, 5)?]);
    let random = udf(datafusion::functions::string::uuid(), Vec::new(), DataType::Utf8, false);
    arguments.push(random);
    Ok(kernel::call("aes_encrypt", Encrypt, arguments, DataType::Binary, true, Volatility::Volatile))
}

/// `aes_decrypt(bytes, key[, mode[, padding[, aad]]])`
fn decrypt(call: &Call<'_>, name: &'static str, fails: bool) -> Result<Typed> {
    call.arity(2..=5)?;
    let mut arguments = common(call)?;
    arguments.push(bytes_or_none(call, 4)?);
    Ok(scalar(name, Decrypt { name, fails }, arguments, DataType::Binary, true))
}

/// How texts of any length are encrypted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Ecb,
    Cbc,
    Gcm,
}

/// What the arguments that both directions have say.
struct Cipher {
    name: &'static str,
    aes: Aes,
    mode: Mode,
}

impl Cipher {
    fn of(name: &'static str, row: Row<'_>) -> Result<Cipher> {
        let key = row.bytes(1);
        let Some(aes) = Aes::new(key) else {
            let message = format!("the key of `{name}` has {} bytes but must have 16, 24 or 32", key.len());
            return Err(invalid("AES_KEY_LENGTH", message));
        };
        let (mode, padding) = (row.text(2).to_ascii_uppercase(), row.text(3).to_ascii_uppercase());
        let mode = match (mode.as_str(), padding.as_str()) {
            ("ECB", "DEFAULT" | "PKCS") => Mode::Ecb,
            ("CBC", "DEFAULT" | "PKCS") => Mode::Cbc,
            ("GCM", "DEFAULT" | "NONE") => Mode::Gcm,
            _ => return Err(unsupported("AES_MODE", format!("`{name}` has no mode {mode} with the padding {padding}"))),
        };
        Ok(Cipher { name, aes, mode })
    }

    fn check_known(&self, known: &[u8]) -> Result<()> {
        if known.is_empty() || self.mode == Mode::Gcm {
            return Ok(());
        }
        Err(unsupported("AES_MODE_AAD", format!("`{}` takes additional data only in the mode GCM", self.name)))
    }

    fn failed(&self) -> Error {
        invalid("AES_CRYPTO_ERROR", format!("`{}` cannot read the bytes: they or the key were changed", self.name))
    }
}

fn invalid(what: &'static str, message: String) -> Error {
    let condition = match what {
        "AES_KEY_LENGTH" => "INVALID_PARAMETER_VALUE.AES_KEY_LENGTH",
        "AES_IV_LENGTH" => "INVALID_PARAMETER_VALUE.AES_IV_LENGTH",
        _ => "INVALID_PARAMETER_VALUE.AES_CRYPTO_ERROR",
    };
    faults::row(condition, "22023", message)
}

fn unsupported(what: &'static str, message: String) -> Error {
    let condition = match what {
        "AES_MODE_IV" => "UNSUPPORTED_FEATURE.AES_MODE_IV",
        "AES_MODE_AAD" => "UNSUPPORTED_FEATURE.AES_MODE_AAD",
        _ => "UNSUPPORTED_FEATURE.AES_MODE",
    };
    faults::row(condition, "0A000", message)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Encrypt;

impl Kernel for Encrypt {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.bytes(|row, out| {
            let cipher = Cipher::of("aes_encrypt", row)?;
            let (text, given, known) = (row.bytes(0), row.bytes(4), row.bytes(5));
            if cipher.mode == Mode::Ecb && !given.is_empty() {
                return Err(unsupported("AES_MODE_IV", "`aes_encrypt` takes no initialization vector in the mode ECB".to_owned()));
            }
            cipher.check_known(known)?;
            let random = random(row.bytes(6));
            let iv = if given.is_empty() { random.as_slice() } else { given };
            match cipher.mode {
                Mode::Ecb => out.extend(encrypt_blocks(&cipher.aes, text, None)),
                Mode::Cbc => {
                    let iv: Block = iv.try_into().map_err(|_| iv_length(BLOCK, iv))?;
                    out.extend(iv);
                    out.extend(encrypt_blocks(&cipher.aes, text, Some(iv)));
                }
                Mode::Gcm => {
                    let iv = if given.is_empty() { iv.first_chunk::<GCM_IV>() } else { iv.try_into().ok() };
                    let iv = iv.ok_or_else(|| iv_length(GCM_IV, given))?;
                    out.extend(iv);
                    out.extend(encrypt_gcm(&cipher.aes, iv, text, known));
                }
            }
            Ok(true)
        })
    }
}

/// Sixteen bytes of a random identifier, which are used once.
fn random(identifier: &[u8]) -> Block {
    let mut bytes = [0; BLOCK];
    for (seed, part) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        *part = murmur3_bytes(identifier, seed as u32).to_le_bytes();
    }
    bytes
}

fn iv_length(expected: usize, iv: &[u8]) -> Error {
    invalid("AES_IV_LENGTH", format!("the initialization vector of `aes_encrypt` has {} bytes but must have {expected}", iv.len()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Decrypt {
    name: &'static str,
    fails: bool,
}

impl Decrypt {
    fn decrypted(self, row: Row<'_>) -> Result<Vec<u8>> {
        let cipher = Cipher::of(self.name, row)?;
        let (bytes, known) = (row.bytes(0), row.bytes(4));
        cipher.check_known(known)?;
        let plain = match cipher.mode {
            Mode::Ecb => decrypt_blocks(&cipher.aes, bytes, None),
            Mode::Cbc => bytes.split_first_chunk::<BLOCK>().and_then(|(iv, text)| decrypt_blocks(&cipher.aes, text, Some(*iv))),
            Mode::Gcm => bytes.split_first_chunk::<GCM_IV>().and_then(|(iv, text)| decrypt_gcm(&cipher.aes, iv, text, known)),
        };
        plain.ok_or_else(|| cipher.failed())
    }
}

impl Kernel for Decrypt {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.bytes(|row, out| match self.decrypted(row) {
            Ok(plain) => {
                out.extend(plain);
                Ok(true)
            }
            Err(error) if self.fails => Err(error),
            Err(_) => Ok(false),
        })
    }
}
