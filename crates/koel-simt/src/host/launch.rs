//! What a kernel passes to a launcher: its description, its arguments and its body.
use super::Extent;
#[cfg(feature = "executor")]
use crate::Thread;
use crate::{Buf, Image, In};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
#[cfg(feature = "executor")]
use std::sync::Arc;

/// Description of a kernel, for launchers. `#[kernel]` generates it.
#[derive(Clone, Copy, Debug)]
pub struct KernelSpec {
    /// Name of the PTX entry.
    pub name: &'static str,
    /// Threads per block: exactly this many, and the launch bound in the PTX.
    pub threads: u32,
    /// Minimum number of resident blocks per multiprocessor; limits the registers per thread.
    pub min_blocks: u32,
    /// Whether the threads never wait for each other and use no shared memory, so that
    /// [`run_native`](crate::run_native) can run the kernel.
    pub independent: bool,
    /// Whether the kernel itself waits for earlier kernels ([`Thread::wait_for_previous`]) and may
    /// start before they have ended.
    pub starts_early: bool,
    /// Image that contains its GPU code; `None`: the code is in PTX loaded earlier, under the
    /// kernel's name.
    pub image: Option<&'static Image>,
    /// Name and Rust type of each parameter, in the order of the entry.
    pub params: &'static [(&'static str, &'static str)],
    /// Size of each parameter of the entry, in bytes.
    pub param_bytes: &'static [usize],
}

/// Kernel with its arguments, for launchers that run on the host.
#[derive(Clone, Copy)]
pub struct KernelBody<'a> {
    /// Runs all threads of a range of blocks sequentially, in one loop compiled with the kernel.
    /// Only independent kernels have it.
    pub(crate) blocks: Option<&'a (dyn Fn(Range<u32>, u32) + Sync)>,
    /// Runs one thread.
    #[cfg(feature = "executor")]
    pub(crate) thread: &'a (dyn Fn(Thread) + Sync),
    /// Appends the arguments to parameters.
    #[cfg(feature = "executor")]
    write: &'a (dyn Fn(&mut Params) + Sync),
    #[cfg(feature = "executor")]
    keep: &'a (dyn Fn() -> KeptBody + Sync),
}
impl<'a> KernelBody<'a> {
    /// For `#[kernel]`.
    #[doc(hidden)]
    pub fn new(
        blocks: Option<&'a (dyn Fn(Range<u32>, u32) + Sync)>,
        #[cfg(feature = "executor")] thread: &'a (dyn Fn(Thread) + Sync),
        #[cfg(feature = "executor")] write: &'a (dyn Fn(&mut Params) + Sync),
        #[cfg(feature = "executor")] keep: &'a (dyn Fn() -> KeptBody + Sync),
    ) -> Self {
        KernelBody {
            blocks,
            #[cfg(feature = "executor")]
            thread,
            #[cfg(feature = "executor")]
            write,
            #[cfg(feature = "executor")]
            keep,
        }
    }
    /// Returns the parameters, with a list of their arrays.
    #[cfg(feature = "executor")]
    pub fn params(&self) -> Params {
        let mut params = Params { arrays: Some(vec![]), ..Params::new() };
        (self.write)(&mut params);
        params
    }
    /// Returns a copy that outlives the launch, for launchers that run the kernel later or
    /// repeatedly.
    #[cfg(feature = "executor")]
    pub fn keep(&self) -> KeptBody {
        (self.keep)()
    }
}

/// Kernel with a copy of its arguments, for the executor.
#[cfg(feature = "executor")]
#[derive(Clone)]
pub struct KeptBody {
    thread: Arc<dyn Fn(Thread) + Send + Sync>,
    write: Arc<dyn Fn(&mut Params) + Send + Sync>,
}
#[cfg(feature = "executor")]
impl KeptBody {
    /// For `#[kernel]`.
    #[doc(hidden)]
    pub fn new(
        thread: impl Fn(Thread) + Send + Sync + 'static,
        write: impl Fn(&mut Params) + Send + Sync + 'static,
    ) -> KeptBody {
        KeptBody { thread: Arc::new(thread), write: Arc::new(write) }
    }
    /// Passes the kernel to `run` as the body of a launch. Memory that the arguments point to must
    /// be alive.
    pub fn lend<R>(&self, run: impl FnOnce(KernelBody<'_>) -> R) -> R {
        let (thread, write) = (&*self.thread, &*self.write);
        run(KernelBody { blocks: None, thread, write, keep: &|| self.clone() })
    }
}

/// Passes the body of a kernel to a launcher, for `#[kernel]`: the loop of an independent kernel,
/// and with the feature `executor` a single thread.
#[cfg(feature = "executor")]
#[doc(hidden)]
#[macro_export]
macro_rules! lend_body {
    ($blocks:expr, $thread:expr, $write:expr, $run:ident) => {{
        let (thread, write) = ($thread, $write);
        let keep = move || $crate::KeptBody::new(thread, write);
        $run($crate::KernelBody::new($blocks, &thread, &write, &keep))
    }};
}
/// Passes the body of a kernel to a launcher, for `#[kernel]`: the loop of an independent kernel.
/// No other is compiled for the host.
#[cfg(not(feature = "executor"))]
#[doc(hidden)]
#[macro_export]
macro_rules! lend_body {
    ($blocks:expr, $thread:expr, $write:expr, $run:ident) => {
        $run($crate::KernelBody::new($blocks))
    };
}

/// Launcher of kernels. Host launchers call `body`; a CUDA launcher passes `params` to the driver.
pub trait Backend {
    /// Error of a launch.
    type Error;
    /// Runs `grid` blocks with `shared` bytes of dynamic shared memory each.
    ///
    /// # Safety
    /// The parameters must fit the kernel: a GPU checks nothing.
    unsafe fn launch(
        &self,
        spec: &KernelSpec,
        grid: u32,
        shared: u32,
        params: &Params,
        body: KernelBody<'_>,
    ) -> Result<(), Self::Error>;
}

/// Global array in a parameter.
#[cfg(feature = "executor")]
#[derive(Clone, Debug)]
pub struct ArrayArg {
    /// Its address range.
    pub range: Range<usize>,
    /// Size of an element, in bytes.
    pub element_bytes: usize,
    /// Whether it is a [`Buf`] and not an [`In`].
    pub writable: bool,
}

/// The parameters of a launch, as the PTX entry reads them.
///
/// Only the bytes in use are ever written: launches are frequent, and this is most of their cost on
/// the host besides the driver's.
pub struct Params {
    bytes: Bytes,
    /// Number of initialised bytes.
    len: usize,
    /// Start and end of each parameter.
    ranges: [(u16, u16); Params::MAX],
    count: usize,
    /// The arrays in the parameters, if they are listed.
    #[cfg(feature = "executor")]
    arrays: Option<Vec<ArrayArg>>,
}
#[repr(align(16))]
struct Bytes([MaybeUninit<u8>; Params::MAX_BYTES]);
impl Params {
    /// Maximum number of parameters.
    pub const MAX: usize = 32;
    /// Maximum size of all parameters together, in bytes.
    pub const MAX_BYTES: usize = 1024;
    /// Creates an empty list.
    #[inline]
    pub fn new() -> Params {
        Params {
            bytes: Bytes([MaybeUninit::uninit(); Params::MAX_BYTES]),
            len: 0,
            ranges: [(0, 0); Params::MAX],
            count: 0,
            #[cfg(feature = "executor")]
            arrays: None,
        }
    }
    /// Appends a parameter.
    ///
    /// # Panics
    /// Panics beyond [`MAX`](Self::MAX) parameters or [`MAX_BYTES`](Self::MAX_BYTES) bytes.
    #[inline]
    pub fn push<A: Arg>(&mut self, arg: &A) {
        const { assert!(A::BYTES <= Params::MAX_BYTES) };
        self.align(A::ALIGN);
        let start = self.len;
        arg.write(self);
        self.ranges[self.count] = (start as u16, self.len as u16);
        self.count += 1;
    }
    /// Returns the bytes of each parameter, aligned as the parameter is.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        // SAFETY: only `put` and `align` change `len`, and both initialise the bytes they add.
        let bytes = unsafe { std::slice::from_raw_parts(self.bytes.0.as_ptr().cast(), self.len) };
        self.ranges[..self.count].iter().map(|&(start, end)| &bytes[start.into()..end.into()])
    }
    /// Returns the arrays in the parameters ([`Buf`]s and [`In`]s), in order, if they are listed
    /// ([`KernelBody::params`]).
    #[cfg(feature = "executor")]
    pub fn arrays(&self) -> &[ArrayArg] {
        self.arrays.as_deref().unwrap_or_default()
    }
    /// Appends zeros up to the next multiple of `to`.
    ///
    /// # Panics
    /// Panics if the size exceeds [`MAX_BYTES`](Self::MAX_BYTES).
    #[inline]
    pub fn align(&mut self, to: usize) {
        let end = self.len.next_multiple_of(to);
        self.bytes.0[self.len..end].fill(MaybeUninit::new(0));
        self.len = end;
    }
    /// Appends the bytes of a plain value, at its alignment.
    ///
    /// # Safety
    /// `T` must have no padding bytes.
    #[inline]
    unsafe fn put<T: Copy>(&mut self, value: &T) {
        self.align(align_of::<T>());
        let to = &mut self.bytes.0[self.len..][..size_of::<T>()];
        // SAFETY: source and destination have the same size, and every source byte is initialised.
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
impl Default for Params {
    fn default() -> Params {
        Params::new()
    }
}

/// Type of a kernel argument: plain numbers, arrays, and structs of them
/// ([`derive(Arg)`](koel_simt_macros::Arg)).
///
/// # Safety
/// `BYTES` and `ALIGN` must be those of the type on a GPU, and [`write`](Self::write) must produce
/// its GPU representation. The provided items are correct for
/// plain numbers.
///
/// # Array handles
/// [`In`] and [`Buf`] are handles that host code can create from any address and keep indefinitely,
/// but cannot dereference: an access outside of a launch panics. A launch, which is `unsafe`, gives
/// the kernel live copies of them ([`named`](Self::named), [`native`](Self::native)). The caller of
/// the launch guarantees that the memory is valid and that the kernel keeps no copy.
pub unsafe trait Arg: Copy + Send + Sync + 'static {
    /// Alignment in the entry's parameter.
    const ALIGN: usize = align_of::<Self>();
    /// Size in the entry's parameter, in bytes.
    const BYTES: usize = size_of::<Self>();
    /// Returns the argument for a launch by the executor: its arrays are live and know their name
    /// in the kernel. Each array takes the next number.
    ///
    /// # Safety
    /// While the result is in use, the memory of the arrays must be valid, and no other use of it
    /// may conflict with the kernel's.
    unsafe fn named(self, _name: &'static str, _next_array: &mut u32) -> Self {
        self
    }
    /// Returns the argument for threads that run natively: its arrays are live, without race
    /// detection.
    ///
    /// # Safety
    /// As for [`named`](Self::named).
    #[inline(always)]
    unsafe fn native(self) -> Self {
        self
    }
    /// Appends its bytes to a parameter.
    fn write(&self, to: &mut Params);
}
macro_rules! plain { ($($t:ty)*) => { $(
    // SAFETY: a plain number.
    unsafe impl Arg for $t {
        #[inline]
        fn write(&self, to: &mut Params) {
            // SAFETY: plain numbers have no padding.
            unsafe { to.put(self) };
        }
    }
)* } }
plain!(u8 u16 u32 u64 u128 i32 i64 f32 f64);
// SAFETY: consecutive elements, without padding.
unsafe impl<T: Arg, const N: usize> Arg for [T; N] {
    const ALIGN: usize = T::ALIGN;
    const BYTES: usize = N * T::BYTES;
    unsafe fn named(self, name: &'static str, next_array: &mut u32) -> Self {
        // SAFETY: guaranteed by the caller.
        self.map(|one| unsafe { one.named(name, next_array) })
    }
    #[inline(always)]
    unsafe fn native(self) -> Self {
        // SAFETY: guaranteed by the caller.
        self.map(|one| unsafe { one.native() })
    }
    fn write(&self, to: &mut Params) {
        self.iter().for_each(|one| one.write(to));
    }
}
// SAFETY: zero-sized; it writes nothing.
unsafe impl<T: Send + Sync + 'static> Arg for PhantomData<T> {
    fn write(&self, _: &mut Params) {}
}
macro_rules! array { ($($s:ident $writable:literal)*) => { $(
    // SAFETY: an array is an address on the device.
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
        #[inline]
        fn write(&self, to: &mut Params) {
            let first = self.ptr.addr();
            (first as u64).write(to);
            #[cfg(feature = "executor")]
            if let Some(arrays) = &mut to.arrays {
                let element_bytes = size_of::<T>();
                let range = first..first.saturating_add(self.ext.len.saturating_mul(element_bytes));
                arrays.push(ArrayArg { range, element_bytes, writable: $writable });
            }
        }
    }
)* } }
array!(In false Buf true);

/// Returns the alignment of a struct whose fields have these alignments.
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
/// Returns the size of a struct whose fields have these alignments and sizes.
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

/// Converts a value to the same type under another name, which generic code cannot equate.
///
/// # Safety
/// `A` and `B` must be the same type.
#[doc(hidden)]
pub unsafe fn same_type<A: Copy, B: Copy>(value: A) -> B {
    assert_eq!(size_of::<A>(), size_of::<B>());
    // SAFETY: guaranteed by the caller.
    unsafe { std::mem::transmute_copy(&value) }
}
/// Panics: a generic kernel was launched with types for which it has no instance.
#[doc(hidden)]
#[cold]
pub fn no_instance(kernel: &str, types: &str) -> ! {
    panic!("kernel `{kernel}` has no instance for {types}")
}
// SAFETY: an address and a length, dereferenced only in a launch. There, threads share `Buf`s,
// whose accesses are atomic (memory.rs), and `In`s, which nothing writes.
unsafe impl<T> Send for In<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for In<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Buf<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Buf<T> {}

impl<T> In<T> {
    /// Creates a handle of a host array, which must outlive the launches that use it. Host code
    /// cannot dereference it ([`Arg`]).
    pub fn new(data: &[T]) -> Self {
        In { ptr: data.as_ptr(), ext: Extent::global(data.len()) }
    }
    /// Creates a handle of `len` elements at an address: a GPU address for a CUDA launcher, a host
    /// address for a host launcher. Host code cannot dereference it ([`Arg`]).
    pub fn from_device(address: u64, len: usize) -> Self {
        In { ptr: address as *const T, ext: Extent::global(len) }
    }
}
impl<T> Buf<T> {
    /// Creates a handle of a host array, which must outlive the launches that use it. Host code
    /// cannot dereference it ([`Arg`]).
    pub fn new(data: &mut [T]) -> Self {
        Buf { ptr: data.as_mut_ptr(), ext: Extent::global(data.len()) }
    }
    /// Creates a handle of `len` elements at an address: a GPU address for a CUDA launcher, a host
    /// address for a host launcher. Host code cannot dereference it ([`Arg`]).
    pub fn from_device(address: u64, len: usize) -> Self {
        Buf { ptr: address as *mut T, ext: Extent::global(len) }
    }
}
