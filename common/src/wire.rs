//! The envelope around every message and stored value: magic, kind and schema version, codec, then bincode.
//!
//! Layout: `b"BF"`, kind (u8), schema version (u8), codec (u8), body. A peer of another version gets a clear error, not
//! garbage. This is the only module that names bincode, so that the codec can be replaced in one place.
//!
//! The body of a kind that is [packed](Message::IS_PACKED) is one zstd frame, which says how large its content is; the codec
//! is that of the content.

pub mod fixed;
mod frame;

use bincode::error::DecodeError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::method::UnknownMethod;

const MAGIC: [u8; 2] = *b"BF";
const HEADER: usize = 5;
/// bincode 2, `config::standard()`: little endian, variable-length integers.
const CODEC_BINCODE: u8 = 1;

/// Largest body that is read or written, in bytes.
pub const MAX_BODY: usize = 16 << 20;

/// A value that travels or is stored in an envelope.
pub trait Message: Serialize + DeserializeOwned {
    /// Tells one kind of value from another.
    const KIND: u8;
    /// Raised with every change of the value's shape.
    const VERSION: u8;
    /// For error messages.
    const NAME: &'static str;
    /// The version that this value is written in. A value that an older version can say in full may be written in that one, so that
    /// its bytes stay what they were, and peers of that version read it.
    fn version(&self) -> u8 {
        Self::VERSION
    }

    /// Whether its body is packed: of what is kept by the million, in memory.
    const IS_PACKED: bool = false;

    /// Reads a body of an older `version`; `None` if that is not read any more. What the release before this one wrote is:
    /// a change of a shape moves the old one to `previous.rs` beside it, with golden bytes in the tests, and takes out what
    /// is two releases old.
    fn of_previous(_version: u8, _body: &mut Body<'_>) -> Option<Result<Self, WireError>> {
        None
    }
}

/// The bytes behind the envelope's head.
pub struct Body<'a> {
    rest: &'a [u8],
    /// Bytes of the whole, for positions in errors.
    length: usize,
}

impl Body<'_> {
    /// Reads a `T`, which is an `M` of some version.
    ///
    /// # Errors
    /// The position at which it stops making sense.
    pub fn read<M: Message, T: DeserializeOwned>(&mut self) -> Result<T, WireError> {
        let expected = M::NAME;
        match bincode::serde::decode_from_slice(self.rest, config()) {
            Ok((value, read)) => {
                self.rest = self.rest.get(read..).unwrap_or_default();
                Ok(value)
            }
            // A method is but a name, so that a new one changes no shape.
            Err(DecodeError::OtherString(reason)) if reason.starts_with(UnknownMethod::BEGINS) => {
                Err(WireError::Method { expected, reason })
            }
            Err(error) => Err(WireError::Body { expected, position: self.sense::<T>(), reason: error.to_string() }),
        }
    }

    /// The position at which the body stops making sense as a `T`, which reading a slice does not tell.
    fn sense<T: DeserializeOwned>(&mut self) -> usize {
        let _ = bincode::serde::decode_from_std_read::<T, _, _>(&mut self.rest, config());
        self.length - self.rest.len()
    }
}

/// Bytes that are no value of the expected kind.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Too short for a head, or longer than [`MAX_BODY`] allows.
    #[error("{expected}: found {found} bytes, expected at least {HEADER} and at most {MAX_BODY}")]
    Size {
        /// [`Message::NAME`] of what was asked for.
        expected: &'static str,
        /// Bytes, head included; of a packed body, those of its content.
        found: usize,
    },
    /// The first two bytes are not bluefin's.
    #[error("{expected}: found magic {found:?}, expected {MAGIC:?}; not written by bluefin")]
    Magic {
        /// [`Message::NAME`] of what was asked for.
        expected: &'static str,
        /// The first two bytes.
        found: [u8; 2],
    },
    /// A value of bluefin's, but of another kind.
    #[error("{expected}: found kind {found}, expected {want}")]
    Kind {
        /// [`Message::NAME`] of what was asked for.
        expected: &'static str,
        /// The kind in the head.
        found: u8,
        /// [`Message::KIND`] of what was asked for.
        want: u8,
    },
    /// Of a newer version, or of one that is not read any more.
    #[error("{expected}: found schema version {found}, expected {want}; written by another version of bluefin")]
    Version {
        /// [`Message::NAME`] of what was asked for.
        expected: &'static str,
        /// The version in the head.
        found: u8,
        /// [`Message::VERSION`] of what was asked for; older ones may be read too.
        want: u8,
    },
    /// It names a method that this release does not have.
    #[error("{expected}: {reason}; written by another version of bluefin")]
    Method {
        /// [`Message::NAME`] of what was asked for.
        expected: &'static str,
        /// The name that was found, and those that are known.
        reason: String,
    },
    /// The body is not bincode 2.
    #[error("{expected}: found codec {found}, expected {CODEC_BINCODE}")]
    Codec {
        /// [`Message::NAME`] of what was asked for.
        expected: &'static str,
        /// The codec in the head.
        found: u8,
    },
    /// It does not decode, or could not be encoded.
    #[error("{expected}: byte {position}: {reason}")]
    Body {
        /// [`Message::NAME`] of what was asked for.
        expected: &'static str,
        /// Byte of the whole value, unpacked, at which it stops making sense; 0 while encoding.
        position: usize,
        /// In the words of bincode or zstd.
        reason: String,
    },
    /// The value is whole, and more follows it.
    #[error("{expected}: {extra} bytes after its end")]
    Trailing {
        /// [`Message::NAME`] of what was asked for.
        expected: &'static str,
        /// How many.
        extra: usize,
    },
}

impl WireError {
    /// Whether it is a value of another version of bluefin, which is no damage.
    #[must_use]
    pub fn is_of_another_version(&self) -> bool {
        matches!(self, Self::Version { .. } | Self::Method { .. })
    }
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<MAX_BODY>()
}

/// Encodes `value` in its envelope.
///
/// # Errors
/// [`WireError::Body`] if the value is larger than [`MAX_BODY`].
pub fn encode<T: Message>(value: &T) -> Result<Vec<u8>, WireError> {
    let expected = T::NAME;
    let failed = |reason: String| WireError::Body { expected, position: 0, reason };
    let mut bytes = vec![MAGIC[0], MAGIC[1], T::KIND, value.version(), CODEC_BINCODE];
    bincode::serde::encode_into_std_write(value, &mut bytes, config()).map_err(|error| failed(error.to_string()))?;
    if bytes.len() > HEADER + MAX_BODY {
        return Err(WireError::Size { expected, found: bytes.len() });
    }
    if T::IS_PACKED {
        let body = bytes.split_off(HEADER);
        bytes.extend(frame::pack(&body).map_err(|error| failed(error.to_string()))?);
    }
    Ok(bytes)
}

/// The schema version of an encoded value; `None` of what is no envelope.
#[must_use]
pub fn version(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [m0, m1, _, version, _, ..] if [*m0, *m1] == MAGIC => Some(*version),
        _ => None,
    }
}

/// Decodes a value from its envelope. Nothing may follow it.
///
/// # Errors
/// What differs from the expected envelope, or the position at which the body stops making sense.
pub fn decode<T: Message>(bytes: &[u8]) -> Result<T, WireError> {
    let expected = T::NAME;
    if bytes.len() > HEADER + MAX_BODY {
        return Err(WireError::Size { expected, found: bytes.len() });
    }
    let Some((&[m0, m1, kind, version, codec], body)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(WireError::Size { expected, found: bytes.len() });
    };
    if [m0, m1] != MAGIC {
        return Err(WireError::Magic { expected, found: [m0, m1] });
    }
    if kind != T::KIND {
        return Err(WireError::Kind { expected, found: kind, want: T::KIND });
    }
    let of_another = WireError::Version { expected, found: version, want: T::VERSION };
    if version > T::VERSION {
        // Whatever its codec is.
        return Err(of_another);
    }
    if codec != CODEC_BINCODE {
        return Err(WireError::Codec { expected, found: codec });
    }
    let read = |rest: &[u8]| {
        let mut body = Body { rest, length: HEADER + rest.len() };
        let value = match version {
            current if current == T::VERSION => body.read::<T, T>()?,
            older => T::of_previous(older, &mut body).ok_or(of_another)??,
        };
        if !body.rest.is_empty() {
            return Err(WireError::Trailing { expected, extra: body.rest.len() });
        }
        Ok(value)
    };
    if T::IS_PACKED { frame::unpack(expected, body, read) } else { read(body) }
}
