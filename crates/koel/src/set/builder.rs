//! Building sets: see [`SetBuilder`].
use super::{Set, SetOptions, SetStore, StoreOf};
use crate::device::{Device, Stream, View};
use crate::error::Result;
use crate::types::{DeviceKey, Key, keys_on};

/// Builds sets, and keeps scratch memory across builds. A second build of the same size allocates
/// only the set; a [`rebuild`](Self::rebuild) allocates nothing.
pub struct SetBuilder<K: Key = u32> {
    builder: <StoreOf<K> as SetStore>::Builder,
}

impl<K: Key> SetBuilder<K> {
    /// Creates a builder without scratch memory. Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: SetOptions) -> Result<SetBuilder<K>> {
        Ok(SetBuilder { builder: StoreOf::<K>::builder(device, options)? })
    }
}
impl<K: DeviceKey> SetBuilder<K> {
    /// Builds a set from keys; equal keys are stored once. Waits for the device.
    ///
    /// On a GPU, takes three or four launches and, at load 0.8, 25 bytes of memory traffic per
    /// 32-bit key, 50 per 64-bit key. Up to 7.4 million 32-bit keys (half as many 64-bit keys) need
    /// only one pass, and a third less traffic. Keys of more than 8 bytes: see
    /// [`keys128`](crate::keys128#cost). Errors: more keys than 31-bit indices can address,
    /// buffers of another device, out of memory.
    pub fn build(&mut self, stream: &Stream, keys: View<'_, K>) -> Result<Set<K>> {
        let keys = keys_on(stream, keys)?;
        Ok(Set { store: StoreOf::<K>::build(&mut self.builder, stream, keys.view())? })
    }
    /// Replaces the content of a set by other keys. Like [`build`](Self::build), but allocates
    /// nothing if the set and this builder have held as many keys before, and does not wait on a
    /// GPU unless keys have more than 8 bytes: then it waits once midway, for counts.
    ///
    /// Later work on the stream sees the new keys. [`Set::report`] returns the statistics of the
    /// rebuild. A rebuild that does not allocate can be recorded in a [graph](Stream::capture).
    ///
    /// Errors: as [`build`](Self::build); a set on another device; for keys of more than 8 bytes, a
    /// stream that is being captured. After an error in the arguments,
    /// or when out of memory, the set is unchanged; after any other error it is empty. A larger
    /// table is allocated before the old one is freed.
    pub fn rebuild(&mut self, set: &mut Set<K>, stream: &Stream, keys: View<'_, K>) -> Result<()> {
        set.store.rebuild(&mut self.builder, stream, keys_on(stream, keys)?.view())
    }
}
