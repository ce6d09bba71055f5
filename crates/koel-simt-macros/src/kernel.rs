//! `#[kernel]`: the function, its entries on a GPU, its module on the host.
use crate::function::{Function, Instance, entry_name, instances, parameters_of, type_of};
use crate::options::Options;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{Visibility, parse2};

pub(crate) fn expand(attr: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let options = parse2::<Options>(attr)?;
    let function = parse2::<Function>(item.clone())?;
    let instances = instances(&options, &function)?;
    let on_device = on_device(&options, &function, &instances)?;
    let on_host = on_host(&options, &function, &instances)?;
    let parameters_of = parameters_of(&function);
    Ok(quote! {
        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "a kernel's parameters")]
        #item
        #parameters_of
        #on_device
        #on_host
    })
}

/// Returns the entries.
fn on_device(
    options: &Options,
    function: &Function,
    instances: &[Instance],
) -> syn::Result<TokenStream> {
    let (name, local_arrays) = (&function.name, options.local_arrays);
    let parameters = function.parameters.iter().map(|p| &p.name).collect::<Vec<_>>();
    let entries = instances.iter().map(|instance| {
        let bounds = &instance.bounds;
        let (threads, blocks) = (bounds.threads, bounds.min_blocks.unwrap_or(1));
        let threads = threads.unwrap_or_default();
        let entry = entry_name(function, instance);
        let image = bounds.image.as_ref().map_or("-".to_string(), |image| image.to_string());
        let before = format!(
            "//@simt entry={entry} maxntid={threads} minnctapersm={blocks} local={local_arrays} \
             image={image} crate="
        );
        let place = match instance.name.as_str() {
            "" => format!("::{name}"),
            of => format!("::{name}::{of}"),
        };
        let of = instance.arguments(function)?;
        let list = (0..parameters.len()).map(|i| type_of(function, instance, i));
        Ok(quote! {
            #[cfg(target_arch = "nvptx64")]
            core::arch::global_asm!(
                concat!(#before, env!("CARGO_PKG_NAME"), " place=", module_path!(), #place)
            );
            #[cfg(target_arch = "nvptx64")]
            const _: () = {
                #[unsafe(export_name = #entry)]
                unsafe extern "ptx-kernel" fn entry(#(#parameters: #list),*) {
                    // SAFETY: this is the entry.
                    #name #of(unsafe { ::koel_simt::Thread::enter::<#threads>() }, #(#parameters),*)
                }
            };
        })
    });
    let entries = entries.collect::<syn::Result<Vec<_>>>()?;
    let shared = shared_on_device(options, function);
    Ok(quote! { #shared #(#entries)* })
}
/// Returns a function that evaluates the shared size, which only hosts use, so that the names in it
/// do not count as unused on a device.
fn shared_on_device(options: &Options, function: &Function) -> TokenStream {
    let Some(shared) = &options.shared else { return quote!() };
    let parameters = function.parameters.iter().map(|p| &p.name);
    let types = function.parameters.iter().map(|p| &p.of);
    let (generics, bounds) = (function.type_parameters(), &function.generics.where_clause);
    quote! {
        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            #[allow(dead_code, unused_variables, clippy::too_many_arguments, reason = "for hosts")]
            fn koel_shared<#(#generics),*>(#(#parameters: #types),*) -> u32 #bounds {
                (#shared) as u32
            }
        };
    }
}

/// Returns the module of a kernel.
fn on_host(
    options: &Options,
    function: &Function,
    instances: &[Instance],
) -> syn::Result<TokenStream> {
    let name = &function.name;
    // Go-to-definition leads to the function.
    let module = Ident::new(&name.to_string(), name.span());
    let visibility = match &function.visibility {
        Visibility::Inherited => quote!(pub(crate)),
        other => quote!(#other),
    };
    let hidden = function.attributes.iter().any(|a| quote!(#a).to_string().contains("hidden"));
    let hidden = if hidden { quote!(#[doc(hidden)]) } else { quote!() };
    let parameters = function.parameters.iter().map(|p| &p.name).collect::<Vec<_>>();
    let types = function.parameters.iter().map(|p| &p.of).collect::<Vec<_>>();
    let texts = parameters.iter().map(|name| name.to_string());
    let shared = options.shared.clone().unwrap_or(quote!(0));
    let is_generic = function.is_generic();
    let described = instances.iter().map(|instance| described(options, function, instance));
    let described = described.collect::<syn::Result<Vec<_>>>()?;
    let modules = match is_generic {
        false => quote!(#(#described)*),
        true => {
            let names = instances.iter().map(|instance| format_ident!("{}", instance.name));
            quote! { #(
                /// An instance of the kernel.
                pub mod #names {
                    #[allow(unused_imports, reason = "what the parameters name")]
                    use super::*;
                    #described
                }
            )* }
        }
    };
    let chosen = if is_generic { chosen(function, instances) } else { quote!() };
    let bounds = &function.generics.where_clause;
    let of_function = function.type_parameters();
    let names = of_function.iter().map(|parameter| &parameter.ident).collect::<Vec<_>>();
    let (of_spec, of_body) = match is_generic {
        true => (quote!(spec::<#(#names),*>()), quote!(::<#(#names),*>)),
        false => (quote!(&SPEC), quote!()),
    };
    let launch = quote! {
        /// Launches the kernel with `grid` blocks.
        ///
        /// # Safety
        /// A GPU checks nothing: every access of the kernel must be inside the given buffers. They
        /// must stay valid until the kernel has run, without conflicting use by others, and the
        /// kernel must keep no copy of its handles.
        #[allow(clippy::too_many_arguments, reason = "a kernel's parameters")]
        pub unsafe fn launch<#(#of_function,)* KoelBackend: ::koel_simt::Backend>(
            backend: &KoelBackend, grid: u32, #(#parameters: #types),*
        ) -> ::core::result::Result<(), KoelBackend::Error> #bounds {
            #[allow(unused_mut, unused_variables, reason = "a kernel may have no parameters")]
            let mut arrays = 0u32;
            // SAFETY: guaranteed by the caller.
            #(let #parameters = unsafe {
                ::koel_simt::Arg::named(#parameters, #texts, &mut arrays)
            };)*
            let shared = (#shared) as u32;
            #[allow(unused_mut, reason = "a kernel may have no parameters")]
            let mut params = ::koel_simt::Params::new();
            #(params.push(&#parameters);)*
            let mut done = Ok(());
            // SAFETY: guaranteed by the caller.
            with_body #of_body(#(#parameters,)* &mut |body| done = unsafe {
                backend.launch(#of_spec, grid, shared, &params, body)
            });
            done
        }
    };
    Ok(quote! {
        /// Kernel of this name, for launchers.
        #hidden
        #[cfg(not(target_arch = "nvptx64"))]
        #visibility mod #module {
            #[allow(unused_imports, reason = "what the parameters and the shared size name")]
            use super::*;
            #modules
            #chosen
            #launch
        }
    })
}

/// Returns `SPEC` and `with_body` of an instance.
fn described(
    options: &Options,
    function: &Function,
    instance: &Instance,
) -> syn::Result<TokenStream> {
    let Options { independent, starts_early, .. } = options;
    let (name, entry) = (&function.name, entry_name(function, instance));
    let threads = instance.bounds.threads.unwrap_or_default();
    let blocks = instance.bounds.min_blocks.unwrap_or(1);
    let image = match &instance.bounds.image {
        Some(image) => quote!(Some(&crate::images::#image)),
        None => quote!(None),
    };
    let parameters = function.parameters.iter().map(|p| &p.name).collect::<Vec<_>>();
    let texts = parameters.iter().map(|name| name.to_string());
    let kinds = function.parameters.iter().map(|p| {
        let of = &p.of;
        quote!(#of).to_string().replace(' ', "")
    });
    let types = (0..parameters.len()).map(|i| type_of(function, instance, i)).collect::<Vec<_>>();
    let of = instance.arguments(function)?;
    let kernel = match function.is_generic() {
        true => quote!(super::super::#name),
        false => quote!(super::#name),
    };
    let all = |blocks: TokenStream| {
        quote! {
            // SAFETY: guaranteed by the launcher.
            #(let #parameters = unsafe { ::koel_simt::Arg::native(#parameters) };)*
            for block in #blocks {
                for id in 0..#threads {
                    let t = ::koel_simt::host::native_thread(id, block, #threads, grid);
                    #kernel #of(t, #(#parameters),*);
                }
            }
        }
    };
    // Two closures, so that each is compiled as part of the function that calls it, where the array
    // state that `native` sets is known.
    let run = match options.native_v3 {
        true => {
            let all = all(quote!(blocks.clone()));
            quote!(::koel_simt::host::run_v3(|| { #all }, || { #all }))
        }
        false => all(quote!(blocks)),
    };
    // Only independent kernels run natively: no other has a loop to compile.
    let native = match independent {
        true => quote!(Some(&(move |blocks: ::core::ops::Range<u32>, grid: u32| { #run }))),
        false => quote!(None),
    };
    Ok(quote! {
        /// Description of the kernel, for launchers.
        #[allow(dead_code, reason = "not every kernel's is asked for")]
        pub const SPEC: ::koel_simt::KernelSpec = ::koel_simt::KernelSpec {
            name: #entry,
            threads: #threads,
            min_blocks: #blocks,
            independent: #independent,
            starts_early: #starts_early,
            image: #image,
            params: &[#((#texts, #kinds)),*],
            param_bytes: &[#(<#types as ::koel_simt::Arg>::BYTES),*],
        };
        /// Passes the body of the kernel to a host launcher. Not generic, so that it is compiled
        /// once, with the kernel.
        #[doc(hidden)]
        #[allow(unused_variables, reason = "not all kernels run without the executor")]
        #[allow(clippy::too_many_arguments, reason = "a kernel's parameters")]
        pub fn with_body(
            #(#parameters: #types,)* koel_run: &mut dyn FnMut(::koel_simt::KernelBody<'_>)
        ) {
            ::koel_simt::lend_body!(
                #native,
                move |t: ::koel_simt::Thread| #kernel #of(t, #(#parameters),*),
                move |koel_params: &mut ::koel_simt::Params| {
                    #(koel_params.push(&#parameters);)*
                },
                koel_run
            )
        }
    })
}

/// Returns `spec` and `with_body` of a generic kernel, which dispatch to the instance of its type
/// parameters.
fn chosen(function: &Function, instances: &[Instance]) -> TokenStream {
    let (generics, bounds) = (function.type_parameters(), &function.generics.where_clause);
    let names = generics.iter().map(|parameter| &parameter.ident).collect::<Vec<_>>();
    let parameters = function.parameters.iter().map(|p| &p.name).collect::<Vec<_>>();
    let kinds = function.parameters.iter().map(|p| &p.of).collect::<Vec<_>>();
    let modules =
        instances.iter().map(|instance| format_ident!("{}", instance.name)).collect::<Vec<_>>();
    let types = instances
        .iter()
        .map(|instance| {
            let types = &instance.types;
            quote!((#(#types,)*))
        })
        .collect::<Vec<_>>();
    let name = function.name.to_string();
    let calls = modules.iter().map(|module| {
        quote! {
            // SAFETY: these are the types of this instance.
            #module::with_body(
                #(unsafe { ::koel_simt::host::same_type(#parameters) },)* koel_run
            )
        }
    });
    quote! {
        /// Returns the description of the instance of these types, for launchers.
        #[allow(dead_code, reason = "not every kernel's is asked for")]
        pub fn spec<#(#generics),*>() -> &'static ::koel_simt::KernelSpec #bounds {
            let koel_types = ::core::any::TypeId::of::<(#(#names,)*)>();
            #(if koel_types == ::core::any::TypeId::of::<#types>() { return &#modules::SPEC; })*
            ::koel_simt::host::no_instance(#name, ::core::any::type_name::<(#(#names,)*)>())
        }
        /// Passes the body of the kernel to a host launcher.
        #[doc(hidden)]
        #[allow(clippy::too_many_arguments, reason = "a kernel's parameters")]
        pub fn with_body<#(#generics),*>(
            #(#parameters: #kinds,)* koel_run: &mut dyn FnMut(::koel_simt::KernelBody<'_>)
        ) #bounds {
            let koel_types = ::core::any::TypeId::of::<(#(#names,)*)>();
            #(if koel_types == ::core::any::TypeId::of::<#types>() { return #calls; })*
            ::koel_simt::host::no_instance(#name, ::core::any::type_name::<(#(#names,)*)>())
        }
    }
}
