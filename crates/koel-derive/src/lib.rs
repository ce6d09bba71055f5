//! `#[derive(Key)]` and `#[derive(Value)]` of koel, which exports both as `koel::Key` and
//! `koel::Value`.
//!
//! A struct is stored as a tuple of its fields: packed, one after the other.
use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, Member, Result, Type, TypeParamBound, parse_quote};

/// Makes a struct a key, and a value: all of its fields are keys. It must be `Copy`.
#[proc_macro_derive(Key)]
pub fn key(item: TokenStream) -> TokenStream {
    expand(item, true)
}
/// Makes a struct a value: all of its fields are values. It must be `Copy`. Structs that derive
/// `Key` are values already.
#[proc_macro_derive(Value)]
pub fn value(item: TokenStream) -> TokenStream {
    expand(item, false)
}

fn expand(item: TokenStream, is_key: bool) -> TokenStream {
    let expanded = syn::parse(item).and_then(|input| of_struct(&input, is_key));
    expanded.unwrap_or_else(Error::into_compile_error).into()
}

fn of_struct(input: &DeriveInput, is_key: bool) -> Result<Tokens> {
    let Data::Struct(of_struct) = &input.data else {
        let said = "only structs can be keys and values: give an enum a number of its own";
        return Err(Error::new_spanned(&input.ident, said));
    };
    if matches!(of_struct.fields, Fields::Unit) || of_struct.fields.is_empty() {
        return Err(Error::new_spanned(&input.ident, "keys and values have at least one field"));
    }
    let types = of_struct.fields.iter().map(|field| &field.ty).collect::<Vec<_>>();
    let members = of_struct.fields.members().collect::<Vec<_>>();
    let names = (0..members.len()).map(|i| format_ident!("field_{i}")).collect::<Vec<_>>();
    let (tuple, value_of_fields) = (nested(&types), nested(&names));
    let fields = nested(&members.iter().map(|member| quote!(self.#member)).collect::<Vec<_>>());
    let in_memory = in_memory(&types, &members);

    let name = &input.ident;
    let mut generics = input.generics.clone();
    let what: syn::TraitBound =
        if is_key { parse_quote!(::koel::Key) } else { parse_quote!(::koel::Value) };
    generics
        .type_params_mut()
        .for_each(|param| param.bounds.push(TypeParamBound::Trait(what.clone())));
    if !generics.params.is_empty() {
        generics.make_where_clause().predicates.push(parse_quote!(#tuple: #what));
    }
    let (of_impl, of_type, bounds) = generics.split_for_impl();
    let as_key = is_key.then(|| {
        quote! {
            #[automatically_derived]
            impl #of_impl ::koel::Key for #name #of_type #bounds {
                const IS_CANONICAL: ::core::primitive::bool = <#tuple as ::koel::Key>::IS_CANONICAL;
                #[inline(always)]
                fn canonical(self) -> Self {
                    let #value_of_fields = ::koel::Key::canonical(#fields);
                    Self { #(#members: #names),* }
                }
                const IS_ORDERED: ::core::primitive::bool = <#tuple as ::koel::Key>::IS_ORDERED;
                #[inline(always)]
                fn ordered(self) -> ::core::primitive::u128 {
                    ::koel::Key::ordered(#fields)
                }
                #[inline(always)]
                fn of_ordered(number: ::core::primitive::u128) -> Self {
                    let #value_of_fields = <#tuple as ::koel::Key>::of_ordered(number);
                    Self { #(#members: #names),* }
                }
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        // SAFETY: `IN_MEMORY` is true only if the fields are, and lie one behind the other.
        unsafe impl #of_impl ::koel::Value for #name #of_type #bounds {
            type Width = <#tuple as ::koel::Value>::Width;
            const IN_MEMORY: ::core::primitive::bool = #in_memory;
            #[inline(always)]
            fn pack(self) -> ::core::primitive::u128 {
                ::koel::Value::pack(#fields)
            }
            #[inline(always)]
            fn unpack(bytes: ::core::primitive::u128) -> Self {
                let #value_of_fields = <#tuple as ::koel::Value>::unpack(bytes);
                Self { #(#members: #names),* }
            }
            fn describe(to: &mut ::std::string::String) {
                <#tuple as ::koel::Value>::describe(to)
            }
        }
        #as_key
    })
}

/// Returns a tuple of up to four others, which pack like all of their fields: types, values or
/// patterns. Fields have at least one byte, so there are at most sixteen.
fn nested(fields: &[impl quote::ToTokens]) -> Tokens {
    const FIELDS: usize = 4;
    let tuple = |fields: &[_]| quote!((#(#fields,)*));
    if fields.len() <= FIELDS {
        return tuple(fields);
    }
    let parts = fields.chunks(FIELDS).map(tuple);
    quote!((#(#parts,)*))
}

/// Returns an expression for whether fields lie in memory as they are packed.
fn in_memory(types: &[&Type], members: &[Member]) -> Tokens {
    let is_single = types.len() == 1;
    quote! {{
        let (mut at, mut is_packed) = (0, #is_single || ::core::cfg!(target_endian = "little"));
        #(
            is_packed &= <#types as ::koel::Value>::IN_MEMORY
                && ::core::mem::offset_of!(Self, #members) == at;
            at += ::core::mem::size_of::<#types>();
        )*
        is_packed && ::core::mem::size_of::<Self>() == at
    }}
}
