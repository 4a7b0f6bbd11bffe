//! 32 bytes of a message: `#[serde(with = "wire::fixed")]`. They are what bincode makes of an array, byte by byte, but written and
//! read eight at a time: outcomes and jobs have a digest for each code object. The one number whose eight bytes bincode leaves as
//! they are is an f64.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes `bytes`.
///
/// # Errors
/// If the serializer fails.
pub fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        return bytes.serialize(serializer);
    }
    let mut words = [0.0; 4];
    for (word, eight) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = f64::from_le_bytes(*eight);
    }
    words.serialize(serializer)
}

/// Reads what [`serialize`] wrote.
///
/// # Errors
/// If there are no 32 bytes.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    if deserializer.is_human_readable() {
        return Deserialize::deserialize(deserializer);
    }
    let words = <[f64; 4]>::deserialize(deserializer)?;
    let mut bytes = [0; 32];
    for (eight, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *eight = word.to_le_bytes();
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::digest::Digest;

    const CONFIG: bincode::config::Configuration = bincode::config::standard();

    proptest! {
        #[test]
        fn bytes_are_those_of_an_array(bytes: [u8; 32], not_a_number in 0..4_usize, quiet: bool) {
            let mut bytes = bytes;
            // Of which most are lost where somebody reckons with them.
            let end = if quiet { [0xf8, 0xff] } else { [0xf0, 0x7f] };
            bytes[8 * not_a_number + 6..8 * not_a_number + 8].copy_from_slice(&end);
            let plain = bincode::serde::encode_to_vec(bytes, CONFIG).unwrap();
            prop_assert_eq!(&plain, &bytes);
            prop_assert_eq!(&bincode::serde::encode_to_vec(Digest(bytes), CONFIG).unwrap(), &plain);
            let (read, length) = bincode::serde::decode_from_slice::<Digest, _>(&plain, CONFIG).unwrap();
            prop_assert_eq!((read, length), (Digest(bytes), 32));
            prop_assert!(bincode::serde::decode_from_slice::<Digest, _>(&plain[..31], CONFIG).is_err());
            let json = serde_json::to_string(&Digest(bytes)).unwrap();
            prop_assert_eq!(&json, &serde_json::to_string(&bytes).unwrap());
            prop_assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), Digest(bytes));
        }
    }
}
