//! Several code objects in one artifact: an `ar` archive of them, as linkers have it.

use std::collections::BTreeMap;

/// How an archive begins.
const MAGIC: &[u8] = b"!<arch>\n";

/// Packs code objects by name, each of at most 15 characters. One alone is its own artifact.
#[must_use]
pub fn pack(members: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    if let (1, Some(only)) = (members.len(), members.values().next()) {
        return only.clone();
    }
    let mut builder = ar::Builder::new(Vec::new());
    for (name, code) in members {
        let header = ar::Header::new(name.as_bytes().to_vec(), code.len() as u64);
        // Memory takes all that is written.
        let _ = builder.append(&header, code.as_slice());
    }
    builder.into_inner().unwrap_or_default()
}

/// The code objects in an artifact, itself if it is no archive.
///
/// # Errors
/// What is wrong with the archive.
pub fn unpack(artifact: &[u8]) -> Result<Vec<Vec<u8>>, std::io::Error> {
    if !artifact.starts_with(MAGIC) {
        return Ok(vec![artifact.to_vec()]);
    }
    let mut archive = ar::Archive::new(artifact);
    let mut members = Vec::new();
    while let Some(member) = archive.next_entry() {
        let mut code = Vec::new();
        std::io::Read::read_to_end(&mut member?, &mut code)?;
        members.push(code);
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let one = BTreeMap::from([("kernel0".to_string(), b"\x7fELF".to_vec())]);
        assert_eq!(pack(&one), b"\x7fELF");
        let mut two = one.clone();
        two.insert("bluefin_random".to_string(), vec![7; 13]);
        let packed = pack(&two);
        assert_eq!(packed, pack(&two));
        let found = unpack(&packed).unwrap();
        assert!(found.iter().eq(two.values()), "{found:?}");
        assert_eq!(unpack(b"\x7fELF").unwrap(), [b"\x7fELF"]);
        for end in MAGIC.len() + 1..packed.len() {
            // Cut off: an error or fewer members, never a panic.
            let cut = unpack(&packed[..end]);
            assert!(cut.is_err() || cut.is_ok_and(|found| found.len() <= 2));
        }
    }
}
