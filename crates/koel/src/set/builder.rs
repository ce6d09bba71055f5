//! Building sets: see [`SetBuilder`].
use super::{Keys, Set, SetOptions};
use crate::device::{Device, Stream, View};
use crate::error::Result;
use crate::key::Key;
use crate::table::Builder;
use crate::table::plan::Plan;

/// Builds sets, and keeps the memory that building needs from one build to the next.
pub struct SetBuilder<K: Key = u32> {
    builder: Builder<Keys<K>>,
}

impl<K: Key> SetBuilder<K> {
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: SetOptions) -> Result<SetBuilder<K>> {
        Ok(SetBuilder { builder: Builder::new(device, options.into())? })
    }

    /// Builds a set of these keys; equal ones are one. Waits for the device.
    ///
    /// On a GPU 25 bytes of memory traffic a 32-bit key at load 0.8, 50 a 64-bit key, and a third
    /// less up to 7.4 million keys (half as many wider ones), which need one pass; three
    /// launches or four. Errors: more keys than 31-bit indices reach, buffers of another device,
    /// out of memory.
    pub fn build(&mut self, stream: &Stream, keys: View<'_, K>) -> Result<Set<K>> {
        let plan = self.check(stream, keys)?;
        self.build_planned(plan, stream, keys)
    }
    pub(super) fn build_planned(
        &mut self,
        plan: Plan,
        stream: &Stream,
        keys: View<'_, K>,
    ) -> Result<Set<K>> {
        Ok(Set { table: self.builder.build(plan, stream, keys)? })
    }
    /// Puts other keys into a set, whatever it held: as [`build`](Self::build), but on a GPU
    /// nothing waits, and nothing is allocated if the set and this builder have had as many
    /// keys before.
    ///
    /// The set answers for the new keys from here on in the order of the stream. How it went,
    /// [`Set::report`] tells. Where nothing is allocated, it can be recorded in a
    /// [graph](Stream::capture).
    ///
    /// Errors: as [`build`](Self::build); a set on another device. After an error of the arguments,
    /// and when memory is out, the set is as it was; after any other error it holds nothing. A
    /// larger table is made before the old one is given back.
    pub fn rebuild(&mut self, set: &mut Set<K>, stream: &Stream, keys: View<'_, K>) -> Result<()> {
        let plan = self.check(stream, keys)?;
        self.builder.rebuild(&mut set.table, plan, stream, keys)
    }

    /// Checks what both take.
    fn check(&self, stream: &Stream, keys: View<'_, K>) -> Result<Plan> {
        keys.arg("keys", stream)?;
        self.builder.plan(stream, keys.len())
    }
}
