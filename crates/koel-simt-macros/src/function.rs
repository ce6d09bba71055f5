//! The function of a kernel and its instances.
use crate::options::{Bounds, Choice, Options};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, GenericParam, Generics, Token, Type, TypeParam, Visibility, WhereClause,
    parenthesized,
};

/// Parameter: name and type.
pub(crate) struct Parameter {
    pub name: Ident,
    pub of: Type,
}
impl Parse for Parameter {
    fn parse(input: ParseStream) -> syn::Result<Parameter> {
        input.parse::<Option<Token![mut]>>()?;
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok(Parameter { name, of: input.parse()? })
    }
}

/// Function; its body is not parsed.
pub(crate) struct Function {
    pub attributes: Vec<Attribute>,
    pub visibility: Visibility,
    pub name: Ident,
    pub generics: Generics,
    /// Parameters after the thread.
    pub parameters: Vec<Parameter>,
}
impl Function {
    pub(crate) fn type_parameters(&self) -> Vec<&TypeParam> {
        self.generics.type_params().collect()
    }
    /// Returns whether the function has instances by type.
    pub(crate) fn is_generic(&self) -> bool {
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

/// Instance, which becomes one entry: a type for each type parameter of the function, in order.
pub(crate) struct Instance {
    /// Name derived from the types; empty for a function without type parameters.
    pub name: String,
    pub types: Vec<Type>,
    pub bounds: Bounds,
}
impl Instance {
    /// Returns the type and const arguments of a call of the function.
    pub(crate) fn arguments(&self, function: &Function) -> syn::Result<TokenStream> {
        let (mut all, mut types) = (vec![], self.types.iter());
        let names = function.type_parameters().into_iter().map(|parameter| &parameter.ident);
        let named = names.zip(&self.types).map(|(name, of)| {
            quote! {
                #[allow(dead_code, reason = "not every value asks for every type")]
                type #name = #of;
            }
        });
        let named = named.collect::<TokenStream>();
        for parameter in &function.generics.params {
            match parameter {
                GenericParam::Type(_) => all.extend(types.next().map(|of| quote!(#of))),
                GenericParam::Const(parameter) => {
                    let is_its = |(name, _): &&(Ident, TokenStream)| *name == parameter.ident;
                    let value = self.bounds.constants.iter().find(is_its);
                    let (_, value) = value.ok_or_else(|| {
                        let why = format!("kernel: specify `{} = ..`", parameter.ident);
                        Error::new(parameter.ident.span(), why)
                    })?;
                    all.push(quote!({ #named #value }));
                }
                GenericParam::Lifetime(parameter) => {
                    let why = "kernel: lifetime parameters are not supported";
                    return Err(Error::new(parameter.lifetime.span(), why));
                }
            }
        }
        Ok(if all.is_empty() { quote!() } else { quote!(::<#(#all),*>) })
    }
}

/// Returns all instances: the combinations of types.
pub(crate) fn instances(options: &Options, function: &Function) -> syn::Result<Vec<Instance>> {
    let mut all =
        vec![Instance { name: String::new(), types: vec![], bounds: options.bounds.clone() }];
    for parameter in function.generics.type_params() {
        let choice = options.choices.iter().find(|c| c.parameter == parameter.ident);
        let choice = choice.ok_or_else(|| {
            let why = format!("kernel: specify `for {0} in [..]`", parameter.ident);
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
/// Returns an identifier for a type: `wide_u32_u64` for `Wide<u32, u64>`.
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

/// Returns the type of a parameter of an instance.
pub(crate) fn type_of(function: &Function, instance: &Instance, number: usize) -> TokenStream {
    let of = &function.parameters[number].of;
    if instance.types.is_empty() {
        return quote!(#of);
    }
    let (types, carrier, number) = (&instance.types, carrier(function), format_ident!("P{number}"));
    quote!(<(#(#types,)*) as #carrier>::#number)
}
/// Returns the name of the trait that carries the parameter types of the instances.
fn carrier(function: &Function) -> Ident {
    let name = function.name.to_string();
    format_ident!("ParametersOf_{name}")
}
/// Returns that trait, for a generic function. Parameter types may use the type parameters in any
/// way, and only the compiler can resolve projections.
pub(crate) fn parameters_of(function: &Function) -> TokenStream {
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
pub(crate) fn entry_name(function: &Function, instance: &Instance) -> String {
    match instance.name.as_str() {
        "" => function.name.to_string(),
        of => format!("{}_{of}", function.name),
    }
}
