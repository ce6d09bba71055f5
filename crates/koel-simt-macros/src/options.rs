//! Options of the `#[kernel]` attribute.
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, LitInt, Token, Type, braced, bracketed};

/// Options that may differ between the instances of a generic kernel.
#[derive(Clone, Default)]
pub(crate) struct Bounds {
    pub threads: Option<u32>,
    pub min_blocks: Option<u32>,
    pub image: Option<Ident>,
    /// Values of the function's const parameters.
    pub constants: Vec<(Ident, TokenStream)>,
}
impl Bounds {
    /// Parses `= VALUE` for a key; returns `false` if the key is not one of these.
    fn parse_value(&mut self, key: &Ident, input: ParseStream) -> syn::Result<bool> {
        let number = |input: ParseStream| {
            input.parse::<LitInt>().and_then(|n| n.base10_parse::<u32>()).map_err(|e| {
                Error::new(e.span(), "kernel: expected a literal number, as the PTX needs one")
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
    /// Returns these options, overridden by those that `other` sets.
    pub(crate) fn replaced_by(&self, other: &Bounds) -> Bounds {
        Bounds {
            threads: other.threads.or(self.threads),
            min_blocks: other.min_blocks.or(self.min_blocks),
            image: other.image.clone().or(self.image.clone()),
            constants: other.constants.iter().chain(&self.constants).cloned().collect(),
        }
    }
}

/// `K in [u32, u64 { min_blocks = 2 }]`: a type parameter and its types.
pub(crate) struct Choice {
    pub parameter: Ident,
    pub types: Vec<(Type, Bounds)>,
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
                        return Err(Error::new(key.span(), "kernel: not an option of an instance"));
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

/// All options of the attribute.
#[derive(Default)]
pub(crate) struct Options {
    pub bounds: Bounds,
    pub shared: Option<TokenStream>,
    pub choices: Vec<Choice>,
    pub independent: bool,
    pub native_v3: bool,
    pub starts_early: bool,
    pub local_arrays: bool,
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

/// Takes the tokens up to a comma outside of brackets and `<...>`.
pub(crate) fn until_comma(input: ParseStream) -> syn::Result<TokenStream> {
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
