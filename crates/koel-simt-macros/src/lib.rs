//! `#[kernel]` and `#[derive(Arg)]` of koel-simt.
//!
//! # `#[kernel]`
//! From one Rust function it makes
//!   * the function itself (always inlined, callable from other kernels and from tests),
//!   * on nvptx64: an `extern "ptx-kernel"` entry, and one `//@simt` line in the PTX from which
//!     xtask takes the launch bounds, whose entry it is and where its `SPEC` is,
//!   * elsewhere: a module of the same name with `SPEC` (name, threads, parameter list) and a typed
//!     `launch` that works with any `Backend`: the test executor (feature `executor` of koel-simt),
//!     native loops, a CUDA launcher.
//!
//! `#[kernel(threads = 512, min_blocks = 2, shared = <bytes, may use the parameters>, image = NAME,
//! independent, native_v3, starts_early, local_arrays)]`
//!
//! `threads` and `min_blocks` become the launch bounds. `image = NAME` says that the kernel's GPU
//! code is in the static `crate::images::NAME`, from where it is loaded when first launched;
//! without it, the crate's PTX is loaded by name. `independent` promises that the threads never
//! wait for each other and use no shared memory: such a kernel can run natively on a CPU.
//! `native_v3`: its native loop is compiled twice, the second time for x86-64 CPUs with AVX2, BMI
//! and POPCNT, which run it where they can: for kernels that count bits. `starts_early` promises
//! that every thread calls `wait_for_previous` before it touches global memory that an earlier
//! kernel of the stream wrote or still reads: it may then start while that kernel ends
//! (programmatic dependent launch). `local_arrays` says that arrays in local memory are meant, as
//! where something rare is not to take registers from all else; without it xtask refuses them.
//!
//! # Generic kernels
//! `#[kernel(threads = 256, for K in [u32, u64 { min_blocks = 2 }], V in [u32, u64])]` on a
//! function that is generic over `K` and `V` makes one entry for each combination: of `lookup` the
//! entries `lookup_u32_u32`, `lookup_u32_u64` and so on, and the modules `lookup::u32_u32` and so
//! on with their `SPEC`s. What is in braces behind a type replaces the `threads`, `min_blocks` or
//! `image` of its instances. `lookup::launch` is generic as the function is; it launches the
//! instance of its type parameters, and panics if there is none.
//!
//! Const parameters of the function, as `const ITEMS: usize`, get their values from the attribute:
//! `ITEMS = items::<K>()` for all instances, where `K` is the type of the instance, or behind a
//! type
//! for some. `launch` does not have them.
//!
//! # `#[derive(Arg)]`
//! Makes a `#[repr(C)]` struct of arguments an argument: of `In` and `Buf`, plain numbers,
//! `PhantomData`, and other such structs. On a GPU the struct is one parameter of the entry, in
//! which an array is its address; the host writes those bytes.
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
