//! What a launcher gets of a kernel: its description, its arguments, its body.
use super::Extent;
#[cfg(feature = "executor")]
use crate::Thread;
use crate::{Buf, Image, In};
use std::mem::MaybeUninit;
use std::ops::Range;
#[cfg(feature = "executor")]
use std::sync::Arc;

/// What a launcher must know of a kernel. `#[kernel]` writes it.
#[derive(Clone, Copy, Debug)]
pub struct KernelSpec {
    /// The PTX entry.
    pub name: &'static str,
    /// Threads of a block: exactly this many, and the launch bound in the PTX.
    pub threads: u32,
    /// Blocks that a multiprocessor must be able to hold: bounds the registers.
    pub min_blocks: u32,
    /// The threads never wait for each other and share no memory:
    /// [`run_native`](crate::run_native) may run it.
    pub independent: bool,
    /// It waits for earlier kernels itself ([`Thread::wait_for_previous`]) and may start while
    /// they end.
    pub starts_early: bool,
    /// Where its GPU code is; `None`: in PTX that was loaded before, by the kernel's name.
    pub image: Option<&'static Image>,
    /// Name and Rust type, in the order of the entry's parameters.
    pub params: &'static [(&'static str, &'static str)],
    /// Bytes of each parameter as the entry reads it.
    pub param_bytes: &'static [usize],
}

/// The kernel with its arguments, for launchers that run on the host.
#[derive(Clone, Copy)]
pub struct KernelBody<'a> {
    /// Runs all threads of some blocks of a grid one after another: one loop, compiled with the
    /// kernel. Only independent kernels have it.
    pub(crate) blocks: Option<&'a (dyn Fn(Range<u32>, u32) + Sync)>,
    /// Runs one thread.
    #[cfg(feature = "executor")]
    pub(crate) thread: &'a (dyn Fn(Thread) + Sync),
    #[cfg(feature = "executor")]
    keep: &'a (dyn Fn() -> KeptBody + Sync),
}
impl<'a> KernelBody<'a> {
    /// For `#[kernel]`.
    #[doc(hidden)]
    pub fn new(
        blocks: Option<&'a (dyn Fn(Range<u32>, u32) + Sync)>,
        #[cfg(feature = "executor")] thread: &'a (dyn Fn(Thread) + Sync),
        #[cfg(feature = "executor")] keep: &'a (dyn Fn() -> KeptBody + Sync),
    ) -> Self {
        KernelBody {
            blocks,
            #[cfg(feature = "executor")]
            thread,
            #[cfg(feature = "executor")]
            keep,
        }
    }
    /// A copy that outlives the launch, for launchers that run it later or again.
    #[cfg(feature = "executor")]
    pub fn keep(&self) -> KeptBody {
        (self.keep)()
    }
}

/// A kernel with a copy of its arguments, for the executor.
#[cfg(feature = "executor")]
#[derive(Clone)]
pub struct KeptBody {
    thread: Arc<dyn Fn(Thread) + Send + Sync>,
}
#[cfg(feature = "executor")]
impl KeptBody {
    /// For `#[kernel]`.
    #[doc(hidden)]
    pub fn new(thread: impl Fn(Thread) + Send + Sync + 'static) -> KeptBody {
        KeptBody { thread: Arc::new(thread) }
    }
    /// Lends it to `run` as the body of a launch. What the arguments point to must be alive.
    pub fn lend<R>(&self, run: impl FnOnce(KernelBody<'_>) -> R) -> R {
        run(KernelBody { blocks: None, thread: &*self.thread, keep: &|| self.clone() })
    }
}

/// What `#[kernel]` lends to a launcher: the loop of an independent kernel, and with the feature
/// `executor` one thread.
#[cfg(feature = "executor")]
#[doc(hidden)]
#[macro_export]
macro_rules! lend_body {
    ($blocks:expr, $thread:expr, $run:ident) => {{
        let thread = $thread;
        $run($crate::KernelBody::new($blocks, &thread, &move || $crate::KeptBody::new(thread)))
    }};
}
/// What `#[kernel]` lends to a launcher: the loop of an independent kernel. No other is compiled
/// for the host.
#[cfg(not(feature = "executor"))]
#[doc(hidden)]
#[macro_export]
macro_rules! lend_body {
    ($blocks:expr, $thread:expr, $run:ident) => {
        $run($crate::KernelBody::new($blocks))
    };
}

/// Something that can run a kernel. Host launchers call `body`; a CUDA launcher passes `args` to
/// the driver.
pub trait Backend {
    /// What can go wrong.
    type Error;
    /// Runs `grid` blocks with `shared` bytes of dynamic shared memory each.
    ///
    /// # Safety
    /// The arguments must fit the kernel: on a GPU nothing is checked.
    unsafe fn launch(
        &self,
        spec: &KernelSpec,
        grid: u32,
        shared: u32,
        args: &[DeviceArg],
        body: KernelBody<'_>,
    ) -> Result<(), Self::Error>;
}

/// The global array behind a parameter.
#[derive(Clone, Debug)]
pub struct ArrayArg {
    /// Its addresses.
    pub range: Range<usize>,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// A [`Buf`], not an [`In`].
    pub writable: bool,
}

/// One parameter as the PTX entry reads it. Made by [`Arg::device`] alone.
#[derive(Clone, Debug)]
pub struct DeviceArg {
    /// The first `len` are its bytes; the rest is not written, launches being many.
    bytes: [MaybeUninit<u8>; DeviceArg::MAX],
    /// Bytes that are written.
    len: usize,
    array: Option<ArrayArg>,
}
impl DeviceArg {
    /// The largest parameter, in bytes.
    pub const MAX: usize = 256;
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `Arg::device`, which alone makes one, writes the first `len` bytes; no other code
        // changes either field.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.len) }
    }
    /// The array that it points to, if it is a [`Buf`] or an [`In`].
    pub fn array(&self) -> Option<&ArrayArg> {
        self.array.as_ref()
    }
}

/// What a kernel may take. For a `repr(C)` struct of plain numbers: `unsafe impl koel_simt::Arg for
/// MyStruct {}`.
///
/// # Safety
/// Same bytes on the host as on the device, none of them padding, at most [`DeviceArg::MAX`].
///
/// # Handles of arrays
/// [`In`] and [`Buf`] are handles that host code makes of any address, keeps as long as it likes,
/// and cannot look through: an access outside of a launch panics. A launch, which is `unsafe`,
/// gives the kernel live copies of them ([`named`](Self::named), [`native`](Self::native)). Whoever
/// launches promises that the memory is there, and that the kernel keeps no copy.
pub unsafe trait Arg: Copy + Send + Sync + 'static {
    /// Its size as the entry reads it, in bytes.
    const BYTES: usize = size_of::<Self>();
    /// The same for a launch: an array is live in it, and knows its name in the kernel. Each array
    /// takes the next number.
    ///
    /// # Safety
    /// As long as the result is used, an array's memory is there, and nobody uses it in a way that
    /// conflicts with the kernel's.
    unsafe fn named(self, _name: &'static str, _next_array: &mut u32) -> Self {
        self
    }
    /// The same for threads that run natively: an array is live, and no race detector is asked for.
    ///
    /// # Safety
    /// As for [`named`](Self::named).
    #[inline(always)]
    unsafe fn native(self) -> Self {
        self
    }
    /// Its bytes.
    fn device(&self) -> DeviceArg {
        const { assert!(size_of::<Self>() <= DeviceArg::MAX) };
        let (mut bytes, len) = ([MaybeUninit::uninit(); DeviceArg::MAX], size_of::<Self>());
        // SAFETY: `len` bytes of `self`, all initialised as it has no padding.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const *self).cast(), bytes.as_mut_ptr(), len)
        };
        DeviceArg { bytes, len, array: None }
    }
}
// SAFETY: plain numbers.
unsafe impl Arg for u32 {}
// SAFETY: plain numbers.
unsafe impl Arg for u64 {}
// SAFETY: plain numbers.
unsafe impl Arg for u128 {}
macro_rules! array { ($($s:ident $writable:literal)*) => { $(
    // SAFETY: on the device an address, which `device` passes.
    unsafe impl<T: Copy + 'static> Arg for $s<T> {
        const BYTES: usize = 8;
        unsafe fn named(mut self, name: &'static str, next_array: &mut u32) -> Self {
            (self.ext.name, self.ext.slot, self.ext.first) = (name, *next_array, self.ptr.addr());
            *next_array += 1;
            self
        }
        #[inline(always)]
        unsafe fn native(mut self) -> Self {
            self.ext.slot = Extent::NATIVE;
            self
        }
        fn device(&self) -> DeviceArg {
            let (first, element_bytes) = (self.ptr.addr(), size_of::<T>());
            let range = first..first.saturating_add(self.ext.len.saturating_mul(element_bytes));
            DeviceArg { array: Some(ArrayArg { range, element_bytes, writable: $writable }), ..(first as u64).device() }
        }
    }
)* } }
array!(In false Buf true);
// SAFETY: an address and a length, which only a launch looks through. There threads meet in `Buf`s,
// whose accesses are atomic (memory.rs), and in `In`s, which nobody writes.
unsafe impl<T> Send for In<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for In<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Buf<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Buf<T> {}

impl<T> In<T> {
    /// A handle of a host array, which must outlive the launches that get it. Host code cannot look
    /// through it ([`Arg`]).
    pub fn new(data: &[T]) -> Self {
        In { ptr: data.as_ptr(), ext: Extent::global(data.len()) }
    }
    /// A handle of `len` elements at an address: of the GPU for a CUDA launcher, of the host for a
    /// host launcher. Host code cannot look through it ([`Arg`]).
    pub fn from_device(address: u64, len: usize) -> Self {
        In { ptr: address as *const T, ext: Extent::global(len) }
    }
}
impl<T> Buf<T> {
    /// A handle of a host array, which must outlive the launches that get it. Host code cannot look
    /// through it ([`Arg`]).
    pub fn new(data: &mut [T]) -> Self {
        Buf { ptr: data.as_mut_ptr(), ext: Extent::global(data.len()) }
    }
    /// A handle of `len` elements at an address: of the GPU for a CUDA launcher, of the host for a
    /// host launcher. Host code cannot look through it ([`Arg`]).
    pub fn from_device(address: u64, len: usize) -> Self {
        Buf { ptr: address as *mut T, ext: Extent::global(len) }
    }
}
