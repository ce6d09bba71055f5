//! What a launcher gets of a kernel: its description, its arguments, its body.
use super::Extent;
#[cfg(feature = "executor")]
use crate::Thread;
use crate::{Buf, Image, In};
use std::marker::PhantomData;
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

/// A global array in a parameter.
#[cfg(feature = "executor")]
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
    /// For the executor's detectors: from the first on, as many as there are. A launch allocates
    /// nothing.
    #[cfg(feature = "executor")]
    arrays: [Option<ArrayArg>; DeviceArg::MAX / 8],
}
impl DeviceArg {
    /// The largest parameter, in bytes.
    pub const MAX: usize = 256;
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `put` and `align`, which alone change `len`, write what they add.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.len) }
    }
    /// The arrays in it, in their order: [`Buf`]s and [`In`]s.
    #[cfg(feature = "executor")]
    pub fn arrays(&self) -> impl Iterator<Item = &ArrayArg> {
        self.arrays.iter().map_while(Option::as_ref)
    }
    /// Adds zeros up to the next multiple.
    ///
    /// # Panics
    /// Above [`MAX`](Self::MAX).
    pub fn align(&mut self, to: usize) {
        let end = self.len.next_multiple_of(to);
        self.bytes[self.len..end].fill(MaybeUninit::new(0));
        self.len = end;
    }
    /// Adds the bytes of a plain value, at its alignment.
    ///
    /// # Safety
    /// None of them is padding.
    unsafe fn put<T: Copy>(&mut self, value: &T) {
        self.align(align_of::<T>());
        let to = &mut self.bytes[self.len..][..size_of::<T>()];
        // SAFETY: as many bytes, all initialised.
        unsafe {
            std::ptr::copy_nonoverlapping(
                (&raw const *value).cast(),
                to.as_mut_ptr(),
                size_of::<T>(),
            )
        };
        self.len += size_of::<T>();
    }
}

/// What a kernel may take: plain numbers, arrays, and structs of them
/// ([`derive(Arg)`](koel_simt_macros::Arg)).
///
/// # Safety
/// `BYTES` and `ALIGN` are those of the type on a GPU, and [`write`](Self::write) gives what it is
/// there. At most [`DeviceArg::MAX`] bytes. What is not overridden holds for a plain number.
///
/// # Handles of arrays
/// [`In`] and [`Buf`] are handles that host code makes of any address, keeps as long as it likes,
/// and cannot look through: an access outside of a launch panics. A launch, which is `unsafe`,
/// gives the kernel live copies of them ([`named`](Self::named), [`native`](Self::native)). Whoever
/// launches promises that the memory is there, and that the kernel keeps no copy.
pub unsafe trait Arg: Copy + Send + Sync + 'static {
    /// Its alignment as the entry reads it.
    const ALIGN: usize = align_of::<Self>();
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
    /// Adds its bytes to a parameter.
    fn write(&self, to: &mut DeviceArg);
    /// Its bytes as a parameter.
    fn device(&self) -> DeviceArg {
        const { assert!(Self::BYTES <= DeviceArg::MAX) };
        let mut arg = DeviceArg {
            bytes: [MaybeUninit::uninit(); DeviceArg::MAX],
            len: 0,
            #[cfg(feature = "executor")]
            arrays: [const { None }; DeviceArg::MAX / 8],
        };
        self.write(&mut arg);
        arg
    }
}
macro_rules! plain { ($($t:ty)*) => { $(
    // SAFETY: a plain number.
    unsafe impl Arg for $t {
        fn write(&self, to: &mut DeviceArg) {
            // SAFETY: it has no padding.
            unsafe { to.put(self) };
        }
    }
)* } }
plain!(u8 u16 u32 u64 u128 i32 i64 f32 f64);
// SAFETY: numbers behind each other, without padding.
unsafe impl<T: Arg, const N: usize> Arg for [T; N] {
    const ALIGN: usize = T::ALIGN;
    const BYTES: usize = N * T::BYTES;
    unsafe fn named(self, name: &'static str, next_array: &mut u32) -> Self {
        // SAFETY: the caller's.
        self.map(|one| unsafe { one.named(name, next_array) })
    }
    #[inline(always)]
    unsafe fn native(self) -> Self {
        // SAFETY: the caller's.
        self.map(|one| unsafe { one.native() })
    }
    fn write(&self, to: &mut DeviceArg) {
        self.iter().for_each(|one| one.write(to));
    }
}
// SAFETY: nothing.
unsafe impl<T: Send + Sync + 'static> Arg for PhantomData<T> {
    fn write(&self, _: &mut DeviceArg) {}
}
macro_rules! array { ($($s:ident $writable:literal)*) => { $(
    // SAFETY: on the device an address.
    unsafe impl<T: Copy + 'static> Arg for $s<T> {
        const ALIGN: usize = 8;
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
        fn write(&self, to: &mut DeviceArg) {
            let first = self.ptr.addr();
            (first as u64).write(to);
            #[cfg(feature = "executor")]
            {
                let element_bytes = size_of::<T>();
                let range = first..first.saturating_add(self.ext.len.saturating_mul(element_bytes));
                let array = ArrayArg { range, element_bytes, writable: $writable };
                if let Some(place) = to.arrays.iter_mut().find(|place| place.is_none()) {
                    *place = Some(array);
                }
            }
        }
    }
)* } }
array!(In false Buf true);

/// The alignment of a struct of fields with these.
#[doc(hidden)]
pub const fn alignment(of: &[usize]) -> usize {
    let (mut most, mut i) = (1, 0);
    while i < of.len() {
        if of[i] > most {
            most = of[i];
        }
        i += 1;
    }
    most
}
/// The size of a struct of fields with these alignments and sizes.
#[doc(hidden)]
pub const fn size(of: &[(usize, usize)]) -> usize {
    let (mut end, mut most, mut i) = (0usize, 1, 0);
    while i < of.len() {
        let (align, bytes) = of[i];
        end = end.next_multiple_of(align) + bytes;
        if align > most {
            most = align;
        }
        i += 1;
    }
    end.next_multiple_of(most)
}

/// The value as one of the same type, which a generic function cannot name.
///
/// # Safety
/// `A` and `B` are the same type.
#[doc(hidden)]
pub unsafe fn same_type<A: Copy, B: Copy>(value: A) -> B {
    assert_eq!(size_of::<A>(), size_of::<B>());
    // SAFETY: the caller's.
    unsafe { std::mem::transmute_copy(&value) }
}
/// A generic kernel was launched with types that it has no instance of.
#[doc(hidden)]
#[cold]
pub fn no_instance(kernel: &str, types: &str) -> ! {
    panic!("kernel `{kernel}` has no instance for {types}")
}
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
