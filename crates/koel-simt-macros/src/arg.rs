//! `#[derive(Arg)]`.
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, parse2};

pub(crate) fn expand(item: TokenStream) -> syn::Result<TokenStream> {
    let item = parse2::<DeriveInput>(item)?;
    let name = &item.ident;
    let mut is_c = false;
    for attr in item.attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
        attr.parse_nested_meta(|meta| {
            is_c |= meta.path.is_ident("C");
            Ok(())
        })?;
    }
    if !is_c {
        return Err(Error::new(name.span(), "Arg: the struct must be #[repr(C)]"));
    }
    let Data::Struct(data) = &item.data else {
        return Err(Error::new(name.span(), "Arg: only structs can be arguments"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(name.span(), "Arg: the fields must have names"));
    };
    let names = fields.named.iter().map(|field| &field.ident).collect::<Vec<_>>();
    let types = fields.named.iter().map(|field| &field.ty).collect::<Vec<_>>();
    let texts = names.iter().flat_map(|name| name.as_ref()).map(|name| name.to_string());
    let (generics, of, bounds) = item.generics.split_for_impl();
    Ok(quote! {
        // SAFETY: the fields are written in order, each at its offset in the entry's struct.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe impl #generics ::koel_simt::Arg for #name #of #bounds {
            const ALIGN: usize =
                ::koel_simt::host::alignment(&[#(<#types as ::koel_simt::Arg>::ALIGN),*]);
            const BYTES: usize = ::koel_simt::host::size(
                &[#((<#types as ::koel_simt::Arg>::ALIGN, <#types as ::koel_simt::Arg>::BYTES)),*]
            );
            unsafe fn named(self, _name: &'static str, next_array: &mut u32) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    #name { #(#names: ::koel_simt::Arg::named(self.#names, #texts, next_array)),* }
                }
            }
            #[inline(always)]
            unsafe fn native(self) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { #name { #(#names: ::koel_simt::Arg::native(self.#names)),* } }
            }
            fn write(&self, to: &mut ::koel_simt::Params) {
                to.align(Self::ALIGN);
                #(::koel_simt::Arg::write(&self.#names, to);)*
                to.align(Self::ALIGN);
            }
        }
    })
}
