use proptest::prelude::*;

use super::*;

fn name(source: &str, args: &str) -> KernelName {
    KernelName { name: source.to_string(), args: args.to_string() }
}

fn rows() -> Vec<KernelRow> {
    let long = vec![7; 10_000];
    [("a.c.o", " -DX=1", long.as_slice()), ("a.c.o", " -DX=2", b"tiny"), ("b.hip.o", " -mcpu=gfx90a", &long[1..])]
        .map(|(source, args, code)| KernelRow::new(name(source, args), code).unwrap())
        .to_vec()
}

fn file(rows: &[KernelRow]) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = KernelDbWriter::create(file.path()).unwrap();
    rows.iter().for_each(|row| writer.add(row).unwrap());
    assert_eq!(writer.finish().unwrap(), rows.len() as u64);
    let mut scanned = Vec::new();
    assert!(KernelDb::scan(file.path(), |_, row| scanned.push(row)).unwrap().is_empty());
    assert_eq!(scanned, rows);
    std::fs::read(file.path()).unwrap()
}

#[test]
fn names_are_those_that_miopen_asks_for() {
    for (target, file, options, expected) in [
        (
            "gfx90a-104",
            "conv_fwd.hip",
            " -DBLOCK=4 -DTILE=16",
            name("conv_fwd.hip.o", " -DBLOCK=4 -DTILE=16 -mcpu=gfx90a"),
        ),
        ("gfx90a-104", "conv1x1u.s", " -Wa,-a", name("conv1x1u.s.o", " -Wa,-a -mcpu=gfx90a")),
        ("gfx90a-104", "conv.cpp.o", "", name("conv.cpp.o", " -mcpu=gfx90a")),
        ("gfx90a-104", "conv.cpp", " -mcpu=gfx90a", name("conv.cpp.o", " -mcpu=gfx90a")),
        ("gfx90a-104", "mlir_gen.mlir", " -x", name("mlir_gen.mlir.o", " -x")),
        // Where MIOpen does not run, nothing is put behind.
        ("sm_90-132", "conv_fwd.hip", " -DBLOCK=4 -DTILE=16", name("conv_fwd.hip.o", " -DBLOCK=4 -DTILE=16")),
        ("host", "k.c", "", name("k.c.o", "")),
    ] {
        assert_eq!(KernelName::of(file, options, &target.parse().unwrap()), expected);
    }
}

#[test]
fn rows_are_read_one_by_one() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = KernelDbWriter::create(file.path()).unwrap();
    rows().iter().for_each(|row| writer.add(row).unwrap());
    writer.finish().unwrap();
    let connection = Connection::open(file.path()).unwrap();
    connection.execute_batch("UPDATE kern_db SET uncompressed_size = -1 WHERE id = 2").unwrap();
    connection.close().unwrap();
    let reader = KernelReader::open(file.path()).unwrap();
    assert_eq!(reader.count().unwrap(), 3);
    let mut heads = Vec::new();
    let findings = reader.heads(|head| heads.push(head)).unwrap();
    assert_eq!((findings.total, findings.kept[0].line), (1, 2));
    let read: Vec<_> = heads.into_iter().rev().map(|head| reader.row(head).unwrap()).collect();
    assert_eq!(read, [rows()[2].clone(), rows()[0].clone()]);
}

#[test]
fn a_quote_is_refused() {
    for wrong in [name("a'b.o", ""), name("a.o", " -DX='1'")] {
        assert!(KernelRow::new(wrong, b"code").unwrap_err().to_string().contains("without quotes"));
    }
}

#[test]
fn golden_file() {
    let bytes = file(&rows());
    sqlite::check_header(&bytes);
    assert!(file(&rows()) == bytes, "the same rows gave other bytes");
    let read = KernelDb::parse("test", &bytes).unwrap();
    assert_eq!((read.rows.as_slice(), read.findings.total), (rows().as_slice(), 0));

    let connection = sqlite::open_bytes("test", &bytes).unwrap();
    let row = connection
        .query_row("SELECT kernel_hash, uncompressed_size, kernel_blob FROM kern_db WHERE id = 2", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
        })
        .unwrap();
    let raw = ("c89b6b689a3f9a3b5ba7f9f2b9ad3f8f".len(), 0, b"tiny".to_vec());
    assert_eq!((row.0.len(), row.1, row.2), raw);
    assert_eq!(row.0, md5_hex(b"tiny"));
    let sql: String =
        connection.query_row("SELECT sql FROM sqlite_schema WHERE name = 'idx_kern_db'", [], |row| row.get(0)).unwrap();
    assert_eq!(sql, "CREATE UNIQUE INDEX `idx_kern_db` ON kern_db(kernel_name, kernel_args)");
}

#[test]
fn rows_verify() {
    let rows = rows();
    assert_eq!(rows[0].code().unwrap(), vec![7; 10_000]);
    assert_eq!(rows[0].uncompressed_size, 10_000);
    assert_eq!(&rows[0].blob[..4], b"BZh9");
    assert_eq!(rows[1].code().unwrap(), b"tiny");

    let upper = KernelRow { hash: rows[0].hash.to_uppercase(), ..rows[0].clone() };
    assert!(upper.code().unwrap_err().to_string().starts_with("kernel a.c.o -DX=1: kernel_hash: found"));
    let short = KernelRow { uncompressed_size: 9_999, ..rows[0].clone() };
    assert!(short.code().unwrap_err().to_string().contains("uncompressed_size: found 9999"));
    let mut damaged = rows[0].clone();
    damaged.blob[20] ^= 1;
    assert!(damaged.code().is_err());
}

#[test]
fn one_row_for_each_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = KernelDbWriter::create(file.path()).unwrap();
    writer.add(&rows()[0]).unwrap();
    writer.add(&rows()[0]).unwrap();
    assert!(writer.finish().is_err());
}

#[test]
fn rows_of_other_types_are_findings() {
    let bytes = file(&rows());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let connection = Connection::open(file.path()).unwrap();
    connection.execute_batch("UPDATE kern_db SET uncompressed_size = -1 WHERE id = 1").unwrap();
    connection.execute_batch("UPDATE kern_db SET kernel_blob = 'text' WHERE id = 2").unwrap();
    connection.close().unwrap();
    let read = KernelDb::parse("test", &std::fs::read(file.path()).unwrap()).unwrap();
    assert_eq!((read.rows.as_slice(), read.findings.total), (&rows()[2..], 2));
    assert!(read.findings.has(FindingKind::Column));
    assert!(KernelDb::parse("test", b"nonsense").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn round_trip(
        kernels in proptest::collection::btree_map(("[a-z]{1,8}\\.o", "( -D[A-Z]=[0-9]){0,3}"), proptest::collection::vec(0_u8..3, 0..300), 0..6)
    ) {
        let rows: Vec<_> =
            kernels.iter().map(|((source, args), code)| KernelRow::new(name(source, args), code).unwrap()).collect();
        let read = KernelDb::parse("test", &file(&rows)).unwrap();
        prop_assert_eq!(&read.rows, &rows);
        for (row, code) in read.rows.iter().zip(kernels.values()) {
            prop_assert_eq!(&row.code().unwrap(), code);
        }
    }

    #[test]
    fn no_damage_panics(at in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..20), cut in any::<proptest::sample::Index>()) {
        let mut bytes = file(&rows());
        for (index, byte) in at {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        for bytes in [bytes.as_slice(), &bytes[..cut.index(bytes.len())]] {
            if let Ok(db) = KernelDb::parse("test", bytes) {
                db.rows.iter().for_each(|row| drop(row.code()));
            }
        }
    }
}
