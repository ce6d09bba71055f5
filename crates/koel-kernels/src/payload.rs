//! Payload that moves with an element: a value, or nothing.
use koel_simt::{Buf, Idx, In, Shared, SharedMem, Word};

/// Values that move with their keys from one array to another.
pub trait Payload: Copy {
    /// Type of a value.
    type Value: Copy + Default;
    /// Staging buffer in shared memory.
    type Tile: Copy;
    /// Allocates a staging buffer for `len` values.
    fn tile(shared: &mut SharedMem, len: usize) -> Self::Tile;
    /// Loads value `i` of the input.
    fn load(self, i: impl Idx) -> Self::Value;
    /// Stores value `i` of the output.
    fn store(self, i: u32, v: Self::Value);
    /// Stores value `i` of the staging buffer.
    fn stage(tile: Self::Tile, i: u32, v: Self::Value);
    /// Loads value `i` of the staging buffer.
    fn staged(tile: Self::Tile, i: u32) -> Self::Value;
}

/// No values: keys alone.
#[derive(Clone, Copy)]
pub struct NoPayload;
impl Payload for NoPayload {
    type Value = ();
    type Tile = ();
    #[inline(always)]
    fn tile(_: &mut SharedMem, _: usize) {}
    #[inline(always)]
    fn load(self, _: impl Idx) {}
    #[inline(always)]
    fn store(self, _: u32, _: ()) {}
    #[inline(always)]
    fn stage(_: (), _: u32, _: ()) {}
    #[inline(always)]
    fn staged(_: (), _: u32) {}
}

/// Elements that move from one array to another: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct FromTo<T: Word> {
    /// Source array.
    pub from: In<T>,
    /// Destination array.
    pub to: Buf<T>,
}
impl<V: Word> Payload for FromTo<V> {
    type Value = V;
    type Tile = Shared<V>;
    #[inline(always)]
    #[track_caller]
    fn tile(shared: &mut SharedMem, len: usize) -> Shared<V> {
        shared.array::<V>(len)
    }
    #[inline(always)]
    #[track_caller]
    fn load(self, i: impl Idx) -> V {
        self.from.get_stream(i)
    }
    #[inline(always)]
    #[track_caller]
    fn store(self, i: u32, v: V) {
        self.to.store(i, v)
    }
    #[inline(always)]
    #[track_caller]
    fn stage(tile: Shared<V>, i: u32, v: V) {
        tile.store(i, v)
    }
    #[inline(always)]
    #[track_caller]
    fn staged(tile: Shared<V>, i: u32) -> V {
        tile.load(i)
    }
}
