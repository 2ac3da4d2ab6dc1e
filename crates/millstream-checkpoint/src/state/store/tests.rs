//! The layers against one table of rows, whatever is asked of them and however little memory there is.

use std::collections::BTreeMap;

use proptest::prelude::*;
use uuid::Uuid;

use super::disk::{DiskTable, Entry};
use super::layered::LayeredStore;
use super::*;
use crate::state::key::{self, NEVER};

/// A disk that is a sorted table.
#[derive(Debug, Default)]
struct Shelf(BTreeMap<(Box<[u8]>, i64), (Box<[u8]>, i64)>);

impl DiskTable for Shelf {
    fn get_many(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, &[u8], i64)) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            if let Some((value, expiry)) = self.0.get(&((*key).into(), 0)) {
                visit(index, value, *expiry);
            }
        }
        Ok(())
    }

    fn values(&mut self, key: &[u8], visit: &mut dyn FnMut(i64, &[u8])) -> Result<()> {
        let rows = self.0.range((key.into(), i64::MIN)..=(key.into(), i64::MAX));
        rows.for_each(|((_, sub), (value, _))| visit(*sub, value));
        Ok(())
    }

    fn get(&mut self, key: &[u8], sub: i64) -> Result<Option<Box<[u8]>>> {
        Ok(self.0.get(&(key.into(), sub)).map(|(value, _)| value.clone()))
    }

    fn first_expiry(&self) -> Option<i64> {
        self.0.values().map(|(_, expiry)| *expiry).min()
    }

    fn has(&mut self, key: &[u8], sub: i64) -> Result<bool> {
        Ok(self.0.contains_key(&(key.into(), sub)))
    }

    fn scan(&self, group: u16, visit: &mut Visit<'_>) -> Result<()> {
        let mut rows = self.0.iter().filter(|((key, _), _)| key::group(key) == group);
        rows.all(|((key, sub), (value, _))| visit(key, *sub, value));
        Ok(())
    }

    fn take_expired(&mut self, instant: i64, take: &mut Visit<'_>) -> Result<()> {
        self.0.retain(|(key, sub), (value, expiry)| *expiry > instant || !take(key, *sub, value));
        Ok(())
    }

    fn write(&mut self, entries: &mut dyn Iterator<Item = Entry<'_>>) -> Result<()> {
        for entry in entries {
            match entry {
                Entry::Put { key, sub, value, expiry } => drop(self.0.insert((key.into(), sub), (value.into(), expiry))),
                Entry::Remove { key, sub } => drop(self.0.remove(&(key.into(), sub))),
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Key, number, value, expiry.
    Put(u8, u8, u8, u8),
    Remove(u8, u8),
    Get(u8),
    Expire(u8),
    Scan,
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..12u8, 0..4u8, any::<u8>(), 0..40u8).prop_map(|(key, sub, value, expiry)| Step::Put(key, sub, value, expiry)),
        2 => (0..12u8, 0..4u8).prop_map(|(key, sub)| Step::Remove(key, sub)),
        3 => (0..12u8).prop_map(Step::Get),
        1 => (0..40u8).prop_map(Step::Expire),
        1 => Just(Step::Scan),
        2 => Just(Step::Settle),
    ]
}

/// What a store should do: one table of rows.
#[derive(Debug, Default)]
struct Model(BTreeMap<(Vec<u8>, i64), (Vec<u8>, i64)>);

type Rows = Vec<(Vec<u8>, i64, Vec<u8>)>;

impl Model {
    fn rows(&self, of: impl Fn(&[u8], i64) -> bool) -> Rows {
        let rows = self.0.iter().filter(|((key, _), (_, expiry))| of(key, *expiry));
        rows.map(|((key, sub), (value, _))| (key.clone(), *sub, value.clone())).collect()
    }
}

fn run(store: &mut dyn Store, shape: Shape, steps: &[Step]) {
    let mut model = Model::default();
    let make = |number: u8| {
        let mut bytes = Vec::new();
        // The expiry in a key depends on the key alone.
        let expiry = (shape.expiry == ExpiryOf::Key).then_some(i64::from(number) * 3);
        key::write(&mut bytes, key::group_of(&[number]), expiry, &[b'k', number]);
        bytes
    };
    let of_row = |number: u8, expiry: u8| match shape.expiry {
        ExpiryOf::Nothing => NEVER,
        ExpiryOf::Key => i64::from(number) * 3,
        ExpiryOf::Value => i64::from(expiry),
    };
    let number = |sub: u8| if shape.per_key == PerKey::One { 0 } else { i64::from(sub) - 2 };
    for step in steps {
        match *step {
            Step::Put(k, sub, value, expiry) => {
                let (key, sub, value, expiry) = (make(k), number(sub), vec![value; usize::from(value)], of_row(k, expiry));
                let existed = model.0.insert((key.clone(), sub), (value.clone(), expiry)).is_some();
                assert_eq!(store.put(&key, sub, &value, expiry).unwrap(), existed, "{step:?}");
            }
            Step::Remove(k, sub) => {
                let existed = model.0.remove(&(make(k), number(sub))).is_some();
                assert_eq!(store.remove(&make(k), number(sub)).unwrap(), existed, "{step:?}");
            }
            Step::Get(k) => {
                let keys = [make(k), make(k ^ 1)];
                let mut found: Rows = Vec::new();
                store.get_many(&[&keys[0], &keys[1]], &mut |at, sub, value| found.push((keys[at].clone(), sub, value.to_vec()))).unwrap();
                found.sort_by(|a, b| a.0.cmp(&b.0));
                assert_eq!(found, model.rows(|key, _| keys.iter().any(|wanted| wanted == key)), "{step:?}");
                for sub in -3..3 {
                    let known = model.0.get(&(keys[0].clone(), sub)).map(|(value, _)| value.as_slice());
                    assert_eq!(store.get(&keys[0], sub).unwrap().as_deref(), known, "{step:?} {sub}");
                }
            }
            Step::Expire(instant) => {
                let instant = i64::from(instant);
                let mut gone: Rows = Vec::new();
                store.take_expired(instant, &mut |key, sub, value| gone.push((key.to_vec(), sub, value.to_vec()))).unwrap();
                gone.sort();
                assert_eq!(gone, model.rows(|_, expiry| expiry <= instant), "{step:?}");
                model.0.retain(|_, (_, expiry)| *expiry > instant);
            }
            Step::Scan => {
                let mut all: Rows = Vec::new();
                let mut visit = |key: &[u8], sub: i64, value: &[u8]| {
                    all.push((key.to_vec(), sub, value.to_vec()));
                    true
                };
                store.scan(0..64, &mut visit).unwrap();
                store.scan(64..128, &mut visit).unwrap();
                all.sort();
                assert_eq!(all, model.rows(|_, _| true));
            }
            Step::Settle => store.settle().unwrap(),
        }
        assert_eq!(store.len(), model.0.len() as u64, "{step:?}");
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let per_key = prop_oneof![Just(PerKey::One), Just(PerKey::Many)];
    let expiry = prop_oneof![Just(ExpiryOf::Nothing), Just(ExpiryOf::Key), Just(ExpiryOf::Value)];
    (per_key, expiry).prop_map(|(per_key, expiry)| Shape { per_key, expiry })
}

fn kinds() -> impl Strategy<Value = StoreKind> {
    prop_oneof![Just(StoreKind::Memory), Just(StoreKind::RocksDb)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn two_layers_are_one_table(shape in shapes(), kind in kinds(), limit in 0u64..6_000, steps in prop::collection::vec(step(), 0..80)) {
        let stores = Stores::new(StoreOptions { kind, memory_limit: limit, ..StoreOptions::default() }, Uuid::nil());
        let mut store = LayeredStore::new(stores, 0, shape, 0..128);
        store.attach_to(Box::new(Shelf::default()));
        run(&mut store, shape, &steps);
    }

    #[test]
    fn memory_alone_is_one_table(shape in shapes(), steps in prop::collection::vec(step(), 0..80)) {
        let mut store = Stores::unlimited().open(0, shape, 0..128).unwrap();
        run(store.as_mut(), shape, &steps);
    }
}

#[cfg(feature = "rocksdb")]
mod rocksdb {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn rocksdb_below_is_one_table(shape in shapes(), kind in kinds(), limit in 0u64..6_000, steps in prop::collection::vec(step(), 0..80)) {
            let directory = tempfile::tempdir().unwrap();
            let options = StoreOptions { kind, memory_limit: limit, directory: directory.path().to_owned() };
            let mut store = Stores::new(options, Uuid::from_u128(7)).open(0, shape, 0..128).unwrap();
            run(store.as_mut(), shape, &steps);
        }
    }

    #[test]
    fn tables_and_tasks_of_a_database_do_not_see_each_other_and_ranges_go_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let options = StoreOptions { kind: StoreKind::RocksDb, memory_limit: 0, directory: directory.path().to_owned() };
        let stores = Stores::new(options, Uuid::from_u128(8));
        let shape = Shape { per_key: PerKey::One, expiry: ExpiryOf::Key };
        let mut tables: Vec<_> = [(0, 0..64), (0, 64..128), (1, 0..128)]
            .map(|(table, groups)| (groups.clone(), stores.open(table, shape, groups).unwrap()))
            .into();
        let rows = 200_000u64;
        let mut expected = [[0u64; 2]; 3];
        for number in 0..rows {
            let mut bytes = Vec::new();
            key::write(&mut bytes, key::group_of(&number.to_be_bytes()), Some((number % 10) as i64), &number.to_be_bytes());
            for ((groups, table), expected) in tables.iter_mut().zip(&mut expected) {
                if groups.contains(&key::group(&bytes)) {
                    table.insert(&bytes, 0, b"value", (number % 10) as i64).unwrap();
                    expected[usize::from(number % 10 > 4)] += 1;
                }
            }
            if number % 50_000 == 0 {
                tables.iter_mut().for_each(|(_, table)| table.settle().unwrap());
            }
        }
        for ((_, table), [early, late]) in tables.iter_mut().zip(expected) {
            table.settle().unwrap();
            assert_eq!(table.len(), early + late);
            let mut gone = 0;
            table.take_expired(4, &mut |_, _, _| gone += 1).unwrap();
            table.settle().unwrap();
            let mut left = 0;
            table
                .scan(0..128, &mut |_, _, _| {
                    left += 1;
                    true
                })
                .unwrap();
            assert_eq!((gone, left, table.len()), (early, late, late));
        }
        let metrics = stores.metrics();
        assert_eq!(metrics["rocksdbPutCount"], 2 * rows as i64, "{metrics:?}");
        assert!(stores.may_block());
    }
}
