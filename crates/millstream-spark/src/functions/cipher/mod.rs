//! Encryption: `aes_encrypt`, `aes_decrypt`, `try_aes_decrypt`.

mod aes;
mod functions;
mod modes;

pub(super) use functions::register;
