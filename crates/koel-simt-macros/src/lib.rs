//! `#[kernel]` and `#[derive(Arg)]` of koel-simt.
//!
//! # `#[kernel]`
//! The attribute generates from one Rust function
//!   * the function itself (always inlined, callable from other kernels and from tests);
//!   * on nvptx64, an `extern "ptx-kernel"` entry, and one `//@simt` line in the PTX from which
//!     xtask reads the launch bounds, the owning crate and the path of the `SPEC`;
//!   * elsewhere, a module of the same name with `SPEC` (name, threads, parameter list) and a typed
//!     `launch` that works with any `Backend`: the test executor (feature `executor` of koel-simt),
//!     native loops, or a CUDA launcher.
//!
//! `#[kernel(threads = 512, min_blocks = 2, shared = <bytes, may use the parameters>, image = NAME,
//! independent, native_v3, starts_early, local_arrays)]`
//!
//! `threads` and `min_blocks` become the launch bounds. `image = NAME` says that the kernel's GPU
//! code is in the static `crate::images::NAME`, from which it is loaded at the first launch;
//! without it, the kernel is looked up by name in the crate's loaded PTX. `independent` promises
//! that the threads never wait for each other and use no shared memory: such a kernel can run
//! natively on a CPU. `native_v3` compiles the native loop twice, the second time for x86-64 CPUs
//! with AVX2, BMI and POPCNT, and picks the version at run time: for kernels that count bits.
//! `starts_early` promises that every thread calls `wait_for_previous` before it accesses global
//! memory that an earlier kernel of the stream wrote or still reads: the kernel may then start
//! while that kernel ends (programmatic dependent launch). `local_arrays` permits arrays in local
//! memory, which keep a rare path from taking registers from the common one; without it, xtask
//! rejects them.
//!
//! # Generic kernels
//! `#[kernel(threads = 256, for K in [u32, u64 { min_blocks = 2 }], V in [u32, u64])]` on a
//! function that is generic over `K` and `V` makes one entry per combination: from `lookup`, the
//! entries `lookup_u32_u32`, `lookup_u32_u64` and so on, and the modules `lookup::u32_u32` and so
//! on with their `SPEC`s. Braces after a type override `threads`, `min_blocks` or `image` for its
//! instances. `lookup::launch` is generic like the function; it launches the instance of its type
//! arguments, and panics if there is none.
//!
//! Const parameters of the function, such as `const ITEMS: usize`, get their values from the
//! attribute: `ITEMS = items::<K>()` for all instances, where `K` is the type of the instance, or
//! in the braces after a type for its instances. `launch` does not take them.
//!
//! # `#[derive(Arg)]`
//! The derive makes a `#[repr(C)]` struct a kernel argument. Its fields may be `In` and `Buf`,
//! plain numbers, `PhantomData`, and other such structs. On a GPU the struct is one parameter of
//! the entry, in which an array is its address; the host writes those bytes.
mod arg;
mod function;
mod kernel;
mod options;

use proc_macro::TokenStream;

/// Makes a function a kernel; see the crate's documentation.
#[proc_macro_attribute]
pub fn kernel(attr: TokenStream, item: TokenStream) -> TokenStream {
    kernel::expand(attr.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct an argument of kernels; see the crate's documentation.
#[proc_macro_derive(Arg)]
pub fn arg(item: TokenStream) -> TokenStream {
    arg::expand(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
