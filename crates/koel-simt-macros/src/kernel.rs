//! `#[kernel]`.
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, GenericParam, Generics, LitInt, Token, Type, TypeParam, Visibility,
    WhereClause, braced, bracketed, parenthesized, parse2,
};

/// What may differ between the instances of a generic kernel.
#[derive(Clone, Default)]
struct Bounds {
    threads: Option<u32>,
    min_blocks: Option<u32>,
    image: Option<Ident>,
    /// Values of the function's const parameters.
    constants: Vec<(Ident, TokenStream)>,
}
impl Bounds {
    /// Reads `= VALUE` for a key; `false` if it is none of these.
    fn parse_value(&mut self, key: &Ident, input: ParseStream) -> syn::Result<bool> {
        let number = |input: ParseStream| {
            input.parse::<LitInt>().and_then(|n| n.base10_parse::<u32>()).map_err(|e| {
                Error::new(e.span(), "kernel: a literal number, as it is written into the PTX")
            })
        };
        let value = |input: ParseStream| input.parse::<Token![=]>().map(drop);
        match key.to_string().as_str() {
            "threads" => {
                value(input)?;
                self.threads = Some(number(input)?);
            }
            "min_blocks" => {
                value(input)?;
                self.min_blocks = Some(number(input)?);
            }
            "image" => {
                value(input)?;
                self.image = Some(input.parse()?);
            }
            name if !name.contains(char::is_lowercase) => {
                value(input)?;
                self.constants.push((key.clone(), until_comma(input)?));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
    /// With what another one says instead.
    fn replaced_by(&self, other: &Bounds) -> Bounds {
        Bounds {
            threads: other.threads.or(self.threads),
            min_blocks: other.min_blocks.or(self.min_blocks),
            image: other.image.clone().or(self.image.clone()),
            constants: other.constants.iter().chain(&self.constants).cloned().collect(),
        }
    }
}

/// `K in [u32, u64 { min_blocks = 2 }]`: a type parameter and what it may be.
struct Choice {
    parameter: Ident,
    types: Vec<(Type, Bounds)>,
}
impl Choice {
    fn parse_behind(parameter: Ident, input: ParseStream) -> syn::Result<Choice> {
        input.parse::<Token![in]>()?;
        let list;
        bracketed!(list in input);
        let one = |input: ParseStream| {
            let (of, mut bounds) = (input.parse::<Type>()?, Bounds::default());
            if input.peek(syn::token::Brace) {
                let inside;
                braced!(inside in input);
                while !inside.is_empty() {
                    let key = inside.call(Ident::parse_any)?;
                    if !bounds.parse_value(&key, &inside)? {
                        return Err(Error::new(key.span(), "kernel: not of an instance"));
                    }
                    inside.parse::<Option<Token![,]>>()?;
                }
            }
            Ok((of, bounds))
        };
        let types = list.parse_terminated(one, Token![,])?.into_iter().collect();
        Ok(Choice { parameter, types })
    }
}

/// What the attribute says.
#[derive(Default)]
struct Options {
    bounds: Bounds,
    shared: Option<TokenStream>,
    choices: Vec<Choice>,
    independent: bool,
    native_v3: bool,
    starts_early: bool,
    local_arrays: bool,
}
impl Parse for Options {
    fn parse(input: ParseStream) -> syn::Result<Options> {
        let mut options = Options::default();
        while !input.is_empty() {
            let key = match input.parse::<Option<Token![for]>>()? {
                Some(_) => input.parse::<Ident>()?,
                None => input.call(Ident::parse_any)?,
            };
            match key.to_string().as_str() {
                _ if input.peek(Token![in]) => {
                    options.choices.push(Choice::parse_behind(key, input)?)
                }
                "independent" => options.independent = true,
                "native_v3" => options.native_v3 = true,
                "starts_early" => options.starts_early = true,
                "local_arrays" => options.local_arrays = true,
                "shared" => {
                    input.parse::<Token![=]>()?;
                    options.shared = Some(until_comma(input)?);
                }
                _ => {
                    if !options.bounds.parse_value(&key, input)? {
                        let why = format!("kernel: unknown key `{key}`");
                        return Err(Error::new(key.span(), why));
                    }
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if options.bounds.threads.is_none() {
            let why = "kernel: `threads = N` is required (it becomes the launch bound)";
            return Err(Error::new(Span::call_site(), why));
        }
        Ok(options)
    }
}

/// Takes tokens up to a comma that is in no bracket and in no `<...>`.
fn until_comma(input: ParseStream) -> syn::Result<TokenStream> {
    let (mut tokens, mut depth) = (TokenStream::new(), 0i32);
    while !input.is_empty() && (depth > 0 || !input.peek(Token![,])) {
        let tree = input.parse::<TokenTree>()?;
        if let TokenTree::Punct(punct) = &tree {
            depth += match punct.as_char() {
                '<' => 1,
                '>' => -1,
                _ => 0,
            };
        }
        tokens.extend([tree]);
    }
    Ok(tokens)
}

/// A parameter: its name, and its type.
struct Parameter {
    name: Ident,
    of: Type,
}
impl Parse for Parameter {
    fn parse(input: ParseStream) -> syn::Result<Parameter> {
        input.parse::<Option<Token![mut]>>()?;
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok(Parameter { name, of: input.parse()? })
    }
}

/// A function; its body is not looked at.
struct Function {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    name: Ident,
    generics: Generics,
    /// Without the thread.
    parameters: Vec<Parameter>,
}
impl Function {
    fn type_parameters(&self) -> Vec<&TypeParam> {
        self.generics.type_params().collect()
    }
    /// Whether it has instances by type.
    fn is_generic(&self) -> bool {
        self.generics.type_params().next().is_some()
    }
}
impl Parse for Function {
    fn parse(input: ParseStream) -> syn::Result<Function> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        input.parse::<Token![fn]>()?;
        let (name, mut generics) = (input.parse::<Ident>()?, input.parse::<Generics>()?);
        let list;
        parenthesized!(list in input);
        let all = Punctuated::<Parameter, Token![,]>::parse_terminated(&list)?;
        if all.is_empty() {
            return Err(Error::new(name.span(), "kernel: the first parameter must be the Thread"));
        }
        generics.where_clause = input.parse::<Option<WhereClause>>()?;
        input.parse::<TokenStream>()?;
        let parameters = all.into_iter().skip(1).collect();
        Ok(Function { attributes, visibility, name, generics, parameters })
    }
}

/// One entry: the types of a combination, in the order of the function's type parameters.
struct Instance {
    /// Of the types; empty for a function that has no type parameters.
    name: String,
    types: Vec<Type>,
    bounds: Bounds,
}
impl Instance {
    /// The function's type and const parameters, as a call names them.
    fn arguments(&self, function: &Function) -> syn::Result<TokenStream> {
        let (mut all, mut types) = (vec![], self.types.iter());
        let names = function.type_parameters().into_iter().map(|parameter| &parameter.ident);
        let named = names.zip(&self.types).map(|(name, of)| {
            quote!(#[allow(dead_code, reason = "not every value asks for every type")] type #name = #of;)
        });
        let named = named.collect::<TokenStream>();
        for parameter in &function.generics.params {
            match parameter {
                GenericParam::Type(_) => all.extend(types.next().map(|of| quote!(#of))),
                GenericParam::Const(parameter) => {
                    let is_its = |(name, _): &&(Ident, TokenStream)| *name == parameter.ident;
                    let value = self.bounds.constants.iter().find(is_its);
                    let (_, value) = value.ok_or_else(|| {
                        let why = format!("kernel: say `{} = ..`", parameter.ident);
                        Error::new(parameter.ident.span(), why)
                    })?;
                    all.push(quote!({ #named #value }));
                }
                GenericParam::Lifetime(parameter) => {
                    let why = "kernel: a parameter that lives only for a while";
                    return Err(Error::new(parameter.lifetime.span(), why));
                }
            }
        }
        Ok(if all.is_empty() { quote!() } else { quote!(::<#(#all),*>) })
    }
}

/// Returns all combinations of types.
fn instances(options: &Options, function: &Function) -> syn::Result<Vec<Instance>> {
    let mut all =
        vec![Instance { name: String::new(), types: vec![], bounds: options.bounds.clone() }];
    for parameter in function.generics.type_params() {
        let choice = options.choices.iter().find(|c| c.parameter == parameter.ident);
        let choice = choice.ok_or_else(|| {
            let why = format!("kernel: say `for {0} in [..]`", parameter.ident);
            Error::new(parameter.ident.span(), why)
        })?;
        all = all
            .iter()
            .flat_map(|before| {
                choice.types.iter().map(|(of, bounds)| Instance {
                    name: match before.name.as_str() {
                        "" => name_of(of),
                        name => format!("{name}_{}", name_of(of)),
                    },
                    types: before.types.iter().chain([of]).cloned().collect(),
                    bounds: before.bounds.replaced_by(bounds),
                })
            })
            .collect();
    }
    let is_parameter = |choice: &&Choice| {
        function.generics.type_params().any(|parameter| parameter.ident == choice.parameter)
    };
    if let Some(choice) = options.choices.iter().find(|choice| !is_parameter(choice)) {
        return Err(Error::new(choice.parameter.span(), "kernel: no such type parameter"));
    }
    Ok(all)
}
/// Returns a name for a type: `wide_u32_u64` for `Wide<u32, u64>`.
fn name_of(of: &Type) -> String {
    let text = quote!(#of).to_string();
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).map(snake).collect::<Vec<_>>().join("_")
}
fn snake(word: &str) -> String {
    let mut name = String::new();
    for (i, c) in word.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    name
}

pub fn expand(attr: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
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

/// The type of a parameter of an instance.
fn type_of(function: &Function, instance: &Instance, number: usize) -> TokenStream {
    let of = &function.parameters[number].of;
    if instance.types.is_empty() {
        return quote!(#of);
    }
    let (types, carrier, number) = (&instance.types, carrier(function), format_ident!("P{number}"));
    quote!(<(#(#types,)*) as #carrier>::#number)
}
/// The trait from which the types of an instance's parameters are taken.
fn carrier(function: &Function) -> Ident {
    let name = function.name.to_string();
    format_ident!("ParametersOf_{name}")
}
/// That trait, for a generic function. Types name its type parameters as they like, and only the
/// compiler can tell what a projection is.
fn parameters_of(function: &Function) -> TokenStream {
    if !function.is_generic() {
        return quote!();
    }
    let (carrier, visibility) = (carrier(function), &function.visibility);
    let numbers = (0..function.parameters.len()).map(|i| format_ident!("P{i}")).collect::<Vec<_>>();
    let types = function.parameters.iter().map(|parameter| &parameter.of);
    let (generics, bounds) = (function.type_parameters(), &function.generics.where_clause);
    let names = generics.iter().map(|parameter| &parameter.ident);
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_docs, reason = "the types of a kernel's parameters")]
        #visibility trait #carrier { #(type #numbers;)* }
        impl<#(#generics),*> #carrier for (#(#names,)*) #bounds { #(type #numbers = #types;)* }
    }
}

/// The entries.
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
            "//@simt entry={entry} maxntid={threads} minnctapersm={blocks} local={local_arrays} image={image} crate="
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
/// The shared size, which only hosts ask for: what it names is not unused on a device.
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
fn entry_name(function: &Function, instance: &Instance) -> String {
    match instance.name.as_str() {
        "" => function.name.to_string(),
        of => format!("{}_{of}", function.name),
    }
}

/// The module of a kernel.
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
                /// An instance.
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
        /// Runs `grid` blocks of the kernel.
        ///
        /// # Safety
        /// On a GPU nothing is checked: every access the kernel makes must be inside the
        /// buffers given. They must be there until the kernel has run, used by nobody else in a
        /// way that conflicts, and the kernel must keep no copy of its handles.
        #[allow(clippy::too_many_arguments, reason = "a kernel's parameters")]
        pub unsafe fn launch<#(#of_function,)* KoelBackend: ::koel_simt::Backend>(
            backend: &KoelBackend, grid: u32, #(#parameters: #types),*
        ) -> ::core::result::Result<(), KoelBackend::Error> #bounds {
            #[allow(unused_mut, unused_variables, reason = "a kernel may have no parameters")]
            let mut arrays = 0u32;
            // SAFETY: the caller's.
            #(let #parameters = unsafe {
                ::koel_simt::Arg::named(#parameters, #texts, &mut arrays)
            };)*
            let shared = (#shared) as u32;
            let args = [#(::koel_simt::Arg::device(&#parameters)),*];
            let mut done = Ok(());
            // SAFETY: the caller's.
            with_body #of_body(#(#parameters,)* &mut |body| done = unsafe {
                backend.launch(#of_spec, grid, shared, &args, body)
            });
            done
        }
    };
    Ok(quote! {
        /// The kernel of this name, for launchers.
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

/// `SPEC` and `with_body` of an instance.
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
            // SAFETY: the launcher's.
            #(let #parameters = unsafe { ::koel_simt::Arg::native(#parameters) };)*
            for block in #blocks {
                for id in 0..#threads {
                    let t = ::koel_simt::host::native_thread(id, block, #threads, grid);
                    #kernel #of(t, #(#parameters),*);
                }
            }
        }
    };
    // Two closures, so that each is part of the one function that calls it, and what `native` says
    // is known there.
    let run = match options.native_v3 {
        true => {
            let all = all(quote!(blocks.clone()));
            quote!(::koel_simt::host::run_v3(|| { #all }, || { #all }))
        }
        false => all(quote!(blocks)),
    };
    // Only an independent kernel can run natively: no other has a loop to compile.
    let native = match independent {
        true => quote!(Some(&(move |blocks: ::core::ops::Range<u32>, grid: u32| { #run }))),
        false => quote!(None),
    };
    Ok(quote! {
        /// What a launcher must know.
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
        /// Lends what a host launcher runs. Not generic, so that it is compiled once, with the
        /// kernel.
        #[doc(hidden)]
        #[allow(unused_variables, reason = "without the executor, only independent kernels run on the host")]
        #[allow(clippy::too_many_arguments, reason = "a kernel's parameters")]
        pub fn with_body(#(#parameters: #types,)* koel_run: &mut dyn FnMut(::koel_simt::KernelBody<'_>)) {
            ::koel_simt::lend_body!(
                #native, move |t: ::koel_simt::Thread| #kernel #of(t, #(#parameters),*), koel_run
            )
        }
    })
}

/// `spec` and `with_body` of a generic kernel: those of the instance of its type parameters.
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
        /// What a launcher must know of the instance of these types.
        #[allow(dead_code, reason = "not every kernel's is asked for")]
        pub fn spec<#(#generics),*>() -> &'static ::koel_simt::KernelSpec #bounds {
            let koel_types = ::core::any::TypeId::of::<(#(#names,)*)>();
            #(if koel_types == ::core::any::TypeId::of::<#types>() { return &#modules::SPEC; })*
            ::koel_simt::host::no_instance(#name, ::core::any::type_name::<(#(#names,)*)>())
        }
        /// Lends what a host launcher runs.
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
