//! The messages as Delta's own client encodes them.

use super::*;

/// `DeltaTable.forPath(spark, "/t")` as delta-spark packs it, by hand from the protocol's wire format.
fn scan() -> Any {
    // DeltaRelation { scan (1): Scan { table (1): DeltaTable { path (1): Path { path (1): "/t" } } } }
    let value = vec![0x0a, 0x08, 0x0a, 0x06, 0x0a, 0x04, 0x0a, 0x02, b'/', b't'];
    Any { type_url: "type.googleapis.com/delta.connect.DeltaRelation".to_owned(), value }
}

#[test]
fn a_table_by_its_path_is_a_read() {
    let relation::Kind::Scan(scan) = unpack(&scan()).unwrap() else { panic!("no scan") };
    let Some(RelType::Read(Read { read_type: Some(ReadType::DataSource(source)), .. })) = read(scan.table.as_ref()).unwrap().rel_type
    else {
        panic!("no read")
    };
    assert_eq!((source.format.as_deref(), source.paths.as_slice()), (Some("delta"), &["/t".to_owned()][..]));
}

#[test]
fn extensions_of_others_are_refused_by_name() {
    let error = unpack(&Any { type_url: "type.googleapis.com/x.Y".to_owned(), value: Vec::new() }).unwrap_err();
    assert!(error.message().contains("x.Y"), "{error}");
}
