//! How a text of any length is encrypted: ECB and CBC with padding (PKCS #7), GCM (NIST SP 800-38D).

use super::aes::{Aes, BLOCK, Block, add};

/// Bytes of the number that a text in GCM starts with.
pub(super) const GCM_IV: usize = 12;
const TAG: usize = 16;

/// Encrypts block by block; with a first block, each is added to the next before.
pub(super) fn encrypt_blocks(aes: &Aes, text: &[u8], chain: Option<Block>) -> Vec<u8> {
    let padding = BLOCK - text.len() % BLOCK;
    let mut padded = text.to_vec();
    padded.resize(text.len() + padding, padding as u8);
    let mut before = chain;
    for block in padded.as_chunks_mut::<BLOCK>().0 {
        if let Some(before) = &before {
            add(block, before);
        }
        aes.encrypt(block);
        before = before.map(|_| *block);
    }
    padded
}

/// Decrypts what [`encrypt_blocks`] made; `None` when the padding is none.
pub(super) fn decrypt_blocks(aes: &Aes, text: &[u8], chain: Option<Block>) -> Option<Vec<u8>> {
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    if blocks.is_empty() || !rest.is_empty() {
        return None;
    }
    let mut before = chain;
    let mut plain = Vec::with_capacity(text.len());
    for encrypted in blocks {
        let mut block = *encrypted;
        aes.decrypt(&mut block);
        if let Some(before) = &before {
            add(&mut block, before);
        }
        before = before.map(|_| *encrypted);
        plain.extend(block);
    }
    let padding = usize::from(*plain.last()?);
    let start = plain.len().checked_sub(padding).filter(|_| (1..=BLOCK).contains(&padding))?;
    if plain.get(start..)?.iter().any(|byte| usize::from(*byte) != padding) {
        return None;
    }
    plain.truncate(start);
    Some(plain)
}

/// Encrypts a text and appends the tag that proves it and `known` unchanged.
pub(super) fn encrypt_gcm(aes: &Aes, iv: &[u8; GCM_IV], text: &[u8], known: &[u8]) -> Vec<u8> {
    let mut encrypted = counted(aes, iv, text);
    let tag = tag(aes, iv, &encrypted, known);
    encrypted.extend(tag);
    encrypted
}

/// Decrypts what [`encrypt_gcm`] made; `None` when the tag is another.
pub(super) fn decrypt_gcm(aes: &Aes, iv: &[u8; GCM_IV], text: &[u8], known: &[u8]) -> Option<Vec<u8>> {
    let (encrypted, given) = text.split_at_checked(text.len().checked_sub(TAG)?)?;
    let computed = tag(aes, iv, encrypted, known);
    let different = computed.iter().zip(given).fold(0, |all, (left, right)| all | (left ^ right));
    (different == 0).then(|| counted(aes, iv, encrypted))
}

/// Adds encrypted counters to a text, from 2 on.
fn counted(aes: &Aes, iv: &[u8; GCM_IV], text: &[u8]) -> Vec<u8> {
    let mut out = text.to_vec();
    for (number, part) in out.chunks_mut(BLOCK).enumerate() {
        let mut block = counter(iv, (number as u32).wrapping_add(2));
        aes.encrypt(&mut block);
        for (byte, key) in part.iter_mut().zip(block) {
            *byte ^= key;
        }
    }
    out
}

fn counter(iv: &[u8; GCM_IV], number: u32) -> Block {
    let mut block = [0; BLOCK];
    for (to, from) in block.iter_mut().zip(iv.iter().copied().chain(number.to_be_bytes())) {
        *to = from;
    }
    block
}

fn tag(aes: &Aes, iv: &[u8; GCM_IV], encrypted: &[u8], known: &[u8]) -> Block {
    let mut key = [0; BLOCK];
    aes.encrypt(&mut key);
    let key = u128::from_be_bytes(key);
    let mut hash = 0;
    for part in known.chunks(BLOCK).chain(encrypted.chunks(BLOCK)) {
        let mut block = [0; BLOCK];
        for (to, from) in block.iter_mut().zip(part) {
            *to = *from;
        }
        hash = multiply(hash ^ u128::from_be_bytes(block), key);
    }
    let lengths = ((known.len() as u128 * 8) << 64) | (encrypted.len() as u128 * 8);
    let mut tag = multiply(hash ^ lengths, key).to_be_bytes();
    let mut first = counter(iv, 1);
    aes.encrypt(&mut first);
    add(&mut tag, &first);
    tag
}

/// Multiplication in GF(2^128), whose bits are numbered from the left.
fn multiply(left: u128, mut right: u128) -> u128 {
    let mut product = 0;
    for bit in (0..128).rev() {
        if (left >> bit) & 1 == 1 {
            product ^= right;
        }
        let carry = right & 1;
        right = (right >> 1) ^ (carry * (0xe1 << 120));
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hexadecimal: &str) -> Vec<u8> {
        let digits: Vec<u8> = hexadecimal.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    /// Test case 4 of the specification of GCM.
    #[test]
    fn a_published_text_in_gcm() {
        let aes = Aes::new(&bytes("feffe9928665731c6d6a8f9467308308")).unwrap();
        let iv = bytes("cafebabefacedbaddecaf888").try_into().unwrap();
        let text = bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        let known = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let mut encrypted = encrypt_gcm(&aes, &iv, &text, &known);
        assert_eq!(encrypted[text.len()..], bytes("5bc94fbc3221a5db94fae95ae7121a47"));
        assert_eq!(decrypt_gcm(&aes, &iv, &encrypted, &known), Some(text));
        encrypted[0] ^= 1;
        assert_eq!(decrypt_gcm(&aes, &iv, &encrypted, &known), None);
    }

    #[test]
    fn every_length_is_padded_and_read_back() {
        let aes = Aes::new(&[7; 32]).unwrap();
        for length in 0..40 {
            for chain in [None, Some([9; BLOCK])] {
                let text = vec![length as u8; length];
                let encrypted = encrypt_blocks(&aes, &text, chain);
                assert_eq!(encrypted.len(), (length / BLOCK + 1) * BLOCK);
                assert_eq!(decrypt_blocks(&aes, &encrypted, chain), Some(text));
            }
        }
        assert_eq!(decrypt_blocks(&aes, &[1; 16], None), None);
    }
}
