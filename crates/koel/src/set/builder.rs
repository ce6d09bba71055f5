//! Building sets: see [`SetBuilder`].
use super::{Keys, Set, SetOptions};
use crate::device::{Device, Stream, View};
use crate::error::Result;
use crate::table::Builder;
use crate::table::plan::Plan;
use crate::types::{BitsOf, DeviceKey, SlotKey};

/// Builds sets, and keeps scratch memory across builds. A second build of the same size allocates
/// only the set; a [`rebuild`](Self::rebuild) allocates nothing.
pub struct SetBuilder<K: SlotKey = u32> {
    builder: Builder<Keys<BitsOf<K>>>,
}

impl<K: SlotKey> SetBuilder<K> {
    /// Creates a builder without scratch memory. Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: SetOptions) -> Result<SetBuilder<K>> {
        Ok(SetBuilder { builder: Builder::new(device, options.into())? })
    }
}
impl<K: DeviceKey + SlotKey> SetBuilder<K> {
    /// Builds a set from keys; equal keys are stored once. Waits for the device.
    ///
    /// On a GPU, takes three or four launches and, at load 0.8, 25 bytes of memory traffic per
    /// 32-bit key, 50 per 64-bit key. Up to 7.4 million 32-bit keys (half as many 64-bit keys) need
    /// only one pass, and a third less traffic. Errors: more keys than 31-bit indices can address,
    /// buffers of another device, out of memory.
    pub fn build(&mut self, stream: &Stream, keys: View<'_, K>) -> Result<Set<K>> {
        let (plan, keys) = self.check(stream, keys)?;
        Ok(Set::of_table(self.builder.build(plan, stream, keys)?))
    }
    /// Replaces the content of a set by other keys. Like [`build`](Self::build), but allocates
    /// nothing if the set and this builder have held as many keys before, and does not wait on a
    /// GPU.
    ///
    /// Later work on the stream sees the new keys. [`Set::report`] returns the statistics of the
    /// rebuild. A rebuild that does not allocate can be recorded in a [graph](Stream::capture).
    ///
    /// Errors: as [`build`](Self::build); a set on another device. After an error in the arguments,
    /// or when out of memory, the set is unchanged; after any other error it is empty. A larger
    /// table is allocated before the old one is freed.
    pub fn rebuild(&mut self, set: &mut Set<K>, stream: &Stream, keys: View<'_, K>) -> Result<()> {
        let (plan, keys) = self.check(stream, keys)?;
        self.builder.rebuild(set.as_table_mut(), plan, stream, keys)
    }

    /// Checks the arguments of a build or rebuild, and plans the set. Returns their bits, too.
    fn check<'a>(&self, stream: &Stream, keys: View<'a, K>) -> Result<(Plan, View<'a, BitsOf<K>>)> {
        let keys = keys.key_bits()?;
        keys.arg("keys", stream)?;
        Ok((self.builder.plan(stream, keys.len())?, keys))
    }
}
