//! What goes along with an element when it moves: a value, or nothing.
use koel_simt::{Buf, In, Shared, SharedMem, Word};

/// Values that follow their keys from one array to another.
pub trait Moved: Copy {
    /// One of them.
    type Value: Copy + Default;
    /// Staging room in shared memory.
    type Tile: Copy;
    /// Room for `len` values.
    fn tile(shared: &mut SharedMem, len: usize) -> Self::Tile;
    /// Value `i` of the input.
    fn load(self, i: u32) -> Self::Value;
    /// Writes value `i` of the output.
    fn store(self, i: u32, v: Self::Value);
    /// Writes value `i` of the tile.
    fn stage(tile: Self::Tile, i: u32, v: Self::Value);
    /// Value `i` of the tile.
    fn staged(tile: Self::Tile, i: u32) -> Self::Value;
}

/// Keys alone.
#[derive(Clone, Copy)]
pub struct Nothing;
impl Moved for Nothing {
    type Value = ();
    type Tile = ();
    #[inline(always)]
    fn tile(_: &mut SharedMem, _: usize) {}
    #[inline(always)]
    fn load(self, _: u32) {}
    #[inline(always)]
    fn store(self, _: u32, _: ()) {}
    #[inline(always)]
    fn stage(_: (), _: u32, _: ()) {}
    #[inline(always)]
    fn staged(_: (), _: u32) {}
}

/// Elements that move from one array to another: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct FromTo<T: Word> {
    /// Where they are.
    pub from: In<T>,
    /// Where they go.
    pub to: Buf<T>,
}
impl<V: Word> Moved for FromTo<V> {
    type Value = V;
    type Tile = Shared<V>;
    #[inline(always)]
    #[track_caller]
    fn tile(shared: &mut SharedMem, len: usize) -> Shared<V> {
        shared.array::<V>(len)
    }
    #[inline(always)]
    #[track_caller]
    fn load(self, i: u32) -> V {
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
