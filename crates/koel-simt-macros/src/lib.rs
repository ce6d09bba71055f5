//! `#[kernel]`: from one Rust function makes
//!   * the function itself (always inlined, callable from other kernels and from tests),
//!   * on nvptx64: the `extern "ptx-kernel"` entry of the same name, and one `//@simt` line in the
//!     PTX from which xtask takes the launch bounds and whose entry it is,
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
//! No syn, no quote: the signature of a kernel is simple enough to be read token by token.
use proc_macro::{Delimiter, TokenStream, TokenTree};

/// Makes a function a kernel; see the crate's documentation.
#[proc_macro_attribute]
pub fn kernel(attr: TokenStream, item: TokenStream) -> TokenStream {
    expand(attr, item).unwrap_or_else(|e| format!("compile_error!({e:?});").parse().unwrap())
}

fn expand(attr: TokenStream, item: TokenStream) -> Result<TokenStream, String> {
    let (mut threads, mut min_blocks, mut shared, mut image) =
        (None, "1".to_string(), "0".to_string(), None);
    let (mut independent, mut native_v3, mut starts_early, mut local_arrays) =
        (false, false, false, false);
    for part in split_commas(attr) {
        let text = part.iter().map(|t| t.to_string()).collect::<Vec<_>>();
        let flag = match text.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["independent"] => Some(&mut independent),
            ["native_v3"] => Some(&mut native_v3),
            ["starts_early"] => Some(&mut starts_early),
            ["local_arrays"] => Some(&mut local_arrays),
            _ => None,
        };
        if let Some(flag) = flag {
            *flag = true;
            continue;
        }
        if text.len() < 3 || text[1] != "=" {
            return Err("kernel: expected `key = value`".into());
        }
        let value = part[2..].iter().cloned().collect::<TokenStream>().to_string();
        match text[0].as_str() {
            "threads" => threads = Some(value),
            "min_blocks" => min_blocks = value,
            "shared" => shared = value,
            "image" => image = Some(value),
            other => return Err(format!("kernel: unknown key `{other}`")),
        }
    }
    let threads =
        threads.ok_or("kernel: `threads = N` is required (it becomes the launch bound)")?;
    if threads.parse::<u32>().is_err() || min_blocks.parse::<u32>().is_err() {
        return Err(
            "kernel: `threads` and `min_blocks` must be literals: they are written into the PTX"
                .into(),
        );
    }

    // ... fn NAME ( PARAMS ) { BODY }
    let tokens = item.clone().into_iter().collect::<Vec<_>>();
    let at = tokens.iter().position(|t| t.to_string() == "fn").ok_or("kernel: not a function")?;
    let name = tokens[at + 1].to_string();
    let Some(TokenTree::Group(params)) = tokens.get(at + 2) else {
        return Err("kernel: generic functions cannot be entries; write a thin non-generic kernel per instance".into());
    };
    if params.delimiter() != Delimiter::Parenthesis {
        return Err("kernel: generic functions cannot be entries; write a thin non-generic kernel per instance".into());
    }
    let mut params = split_commas(params.stream()).into_iter();
    params.next().ok_or("kernel: the first parameter must be the Thread")?;
    let (mut names, mut types) = (vec![], vec![]);
    for p in params {
        let colon = p
            .iter()
            .position(|t| t.to_string() == ":")
            .ok_or("kernel: parameter without a type")?;
        names.push(p[colon - 1].to_string()); // `mut x: T` -> x
        types.push(p[colon + 1..].iter().cloned().collect::<TokenStream>().to_string());
    }
    let decl = names.iter().zip(&types).map(|(n, t)| format!("{n}: {t},")).collect::<String>();
    let call = names.iter().map(|n| format!("{n},")).collect::<String>();
    let list =
        names.iter().zip(&types).map(|(n, t)| format!("({n:?}, {t:?}),")).collect::<String>();
    let bind = names
        .iter()
        .map(|n| {
            format!("let {n} = unsafe {{ ::koel_simt::Arg::named({n}, {n:?}, &mut arrays) }};")
        })
        .collect::<String>();
    let args = names.iter().map(|n| format!("::koel_simt::Arg::device(&{n}),")).collect::<String>();
    let sizes =
        types.iter().map(|t| format!("<{t} as ::koel_simt::Arg>::BYTES,")).collect::<String>();
    let native = names
        .iter()
        .map(|n| format!("let {n} = unsafe {{ ::koel_simt::Arg::native({n}) }};"))
        .collect::<String>();

    let all = |blocks: &str| {
        format!(
            r#"{native}
            for block in {blocks} {{
                for id in 0..{threads} {{
                    super::{name}(::koel_simt::host::native_thread(id, block, {threads}, grid), {call});
                }}
            }}"#
        )
    };
    // Two closures, so that each is part of the one function that calls it, and what `native` says
    // is known there.
    let run = match native_v3 {
        true => {
            format!("::koel_simt::host::run_v3(|| {{ {0} }}, || {{ {0} }})", all("blocks.clone()"))
        }
        false => all("blocks"),
    };
    // Only an independent kernel can run natively: no other has a loop to compile.
    let blocks = match independent {
        true => format!("Some(&(move |blocks: ::core::ops::Range<u32>, grid: u32| {{ {run} }}))"),
        false => "None".to_string(),
    };
    let image_name = image.clone().unwrap_or("-".into());
    let image = image.map_or("None".to_string(), |image| format!("Some(&crate::images::{image})"));

    let docs = tokens[..at].iter().map(|t| t.to_string()).collect::<String>();
    let visibility = if docs.contains("pub") { "pub" } else { "pub(crate)" };
    let extra = format!(
        r#"
        #[cfg(target_arch = "nvptx64")]
        core::arch::global_asm!(concat!(
            "//@simt entry={name} maxntid={threads} minnctapersm={min_blocks} local={local_arrays} image={image_name} crate=", env!("CARGO_PKG_NAME")));
        #[cfg(target_arch = "nvptx64")]
        const _: () = {{
            #[unsafe(export_name = "{name}")]
            unsafe extern "ptx-kernel" fn entry({decl}) {{
                // SAFETY: this is the entry.
                {name}(unsafe {{ ::koel_simt::Thread::enter::<{threads}>() }}, {call})
            }}
        }};
        /// The kernel of this name, for launchers.
        #[cfg(not(target_arch = "nvptx64"))]
        {visibility} mod {name} {{
            #[allow(unused_imports, reason = "what the parameters and the shared size name")]
            use super::*;
            /// What a launcher must know.
            #[allow(dead_code, reason = "not every kernel's is asked for")]
            pub const SPEC: ::koel_simt::KernelSpec = ::koel_simt::KernelSpec {{
                name: "{name}", threads: {threads}, min_blocks: {min_blocks}, independent: {independent},
                starts_early: {starts_early}, image: {image}, params: &[{list}],
                param_bytes: &[{sizes}] }};
            /// Lends what a host launcher runs. Not generic, so that it is compiled once, with the
            /// kernel.
            #[doc(hidden)]
            #[allow(unused_variables, reason = "without the executor, only independent kernels run on the host")]
            #[allow(clippy::too_many_arguments, reason = "a kernel's parameters")]
            pub fn with_body({decl} koel_run: &mut dyn FnMut(::koel_simt::KernelBody<'_>)) {{
                ::koel_simt::lend_body!({blocks}, move |t: ::koel_simt::Thread| super::{name}(t, {call}), koel_run)
            }}
            /// Runs `grid` blocks of the kernel.
            ///
            /// # Safety
            /// On a GPU nothing is checked: every access the kernel makes must be inside the
            /// buffers given. They must be there until the kernel has run, used by nobody else in a
            /// way that conflicts, and the kernel must keep no copy of its handles.
            #[allow(clippy::too_many_arguments, reason = "a kernel's parameters")]
            pub unsafe fn launch<B: ::koel_simt::Backend>(backend: &B, grid: u32, {decl}) -> ::core::result::Result<(), B::Error> {{
                #[allow(unused_mut, unused_variables, reason = "a kernel may have no parameters")]
                let mut arrays = 0u32;
                {bind}
                let shared = ({shared}) as u32;
                let args = [{args}];
                let mut done = Ok(());
                // SAFETY: the caller's.
                with_body({call} &mut |body| done = unsafe {{ backend.launch(&SPEC, grid, shared, &args, body) }});
                done
            }}
        }}
        "#
    );
    let mut out: TokenStream =
        r#"#[inline(always)] #[allow(clippy::too_many_arguments, reason = "a kernel's parameters")]"#.parse().unwrap();
    out.extend(item);
    out.extend(extra.parse::<TokenStream>().map_err(|e| format!("kernel: {e}"))?);
    Ok(out)
}

/// Splits at commas that are in no bracket and in no `<...>`.
fn split_commas(stream: TokenStream) -> Vec<Vec<TokenTree>> {
    let (mut parts, mut depth, mut part) = (vec![], 0i32, vec![]);
    for t in stream {
        if let TokenTree::Punct(p) = &t {
            match p.as_char() {
                '<' => depth += 1,
                '>' => depth -= 1,
                ',' if depth == 0 => {
                    parts.push(std::mem::take(&mut part));
                    continue;
                }
                _ => {}
            }
        }
        part.push(t);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
