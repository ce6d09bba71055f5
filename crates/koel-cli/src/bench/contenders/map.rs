//! koel's own table, [`koel::Map`]. Its builder keeps memory between builds.
use super::{Keeps, Rebuilt};
use koel::{Device, Duplicates, MapBuilder, MapOptions, Stream, View, ViewMut};
use koel_classic::{Kind, Options, SchemeReport, Table};
use std::sync::{Mutex, PoisonError};

/// koel's map.
pub(crate) struct Map;
struct MapTable {
    map: koel::Map,
    report: SchemeReport,
}
impl MapTable {
    fn new(map: koel::Map) -> koel::Result<MapTable> {
        Ok(MapTable { report: report_of(&map)?, map })
    }
}
fn report_of(map: &koel::Map) -> koel::Result<SchemeReport> {
    let of = map.report()?;
    Ok(SchemeReport {
        pairs: of.entries,
        slots: of.slots,
        bytes: of.bytes,
        attempts: of.attempts,
        stashed: of.stashed,
        largest_bucket: None,
        duplicates: of.duplicates,
        family: "bijective mixing",
        device_seconds: of.device_seconds.unwrap_or(0.0),
        fallback: None,
    })
}
/// A table with the builder that rebuilds it.
struct Standing {
    built: MapTable,
    builder: MapBuilder,
}

/// A builder and the options that it was made with.
struct Kept {
    device: Device,
    load: f64,
    duplicates: Duplicates,
    builder: MapBuilder,
}
/// Builder of the last build, reused by the next one on the same device with the same options.
static LAST: Mutex<Option<Kept>> = Mutex::new(None);

impl Kind for Map {
    fn name(&self) -> &'static str {
        "map"
    }
    fn about(&self) -> &'static str {
        "koel's own: sector buckets, two choices, built partition by partition on chip"
    }
    fn default_load(&self) -> f64 {
        MapOptions::default().load
    }
    fn max_load(&self) -> f64 {
        0.95
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> koel::Result<Box<dyn Table>> {
        let load = options.load.unwrap_or(self.default_load());
        let (device, duplicates) = (stream.device(), options.duplicates);
        let kept = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut kept = match kept
            .filter(|k| k.device == *device && k.load == load && k.duplicates == duplicates)
        {
            Some(kept) => kept,
            None => {
                let builder = MapBuilder::new(
                    device,
                    MapOptions::default().with_load(load).with_duplicates(duplicates),
                )?;
                Kept { device: device.clone(), load, duplicates, builder }
            }
        };
        let map = kept.builder.build(stream, keys, values)?;
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        Ok(Box::new(MapTable::new(map)?))
    }
}
impl Keeps for Map {
    fn forget(&self) {
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
    fn begin(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> koel::Result<Box<dyn Rebuilt>> {
        let load = options.load.unwrap_or(self.default_load());
        let options = MapOptions::default().with_load(load).with_duplicates(options.duplicates);
        let mut builder = MapBuilder::new(stream.device(), options)?;
        Ok(Box::new(Standing {
            built: MapTable::new(builder.build(stream, keys, values)?)?,
            builder,
        }))
    }
}

impl Table for MapTable {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        values: ViewMut<'_, u32>,
        found: ViewMut<'_, u8>,
    ) -> koel::Result<()> {
        self.map.get_into(stream, queries, values, found)
    }
    fn get(&self, _: &Stream, queries: &[u32]) -> koel::Result<Vec<Option<u32>>> {
        self.map.get(queries)
    }
}

impl Table for Standing {
    fn report(&self) -> &SchemeReport {
        &self.built.report
    }
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        values: ViewMut<'_, u32>,
        found: ViewMut<'_, u8>,
    ) -> koel::Result<()> {
        self.built.get_into(stream, queries, values, found)
    }
}
impl Rebuilt for Standing {
    fn rebuild(
        &mut self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
    ) -> koel::Result<()> {
        self.builder.rebuild(&mut self.built.map, stream, keys, values)
    }
    fn update_report(&mut self) -> koel::Result<()> {
        self.built.report = report_of(&self.built.map)?;
        Ok(())
    }
}
