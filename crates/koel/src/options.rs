//! Structs of options grow fields over time: other crates make them by `with_` methods, or by
//! literals that end with `..Default::default()`.

/// Defines a method for each field of a struct of options, which returns the options with that
/// field changed. For koel's own crates.
#[doc(hidden)]
#[macro_export]
macro_rules! option_setters {
    ($options:ty: $($field:ident by $set:ident: $type:ty;)+) => {
        impl $options {
            $(
                #[doc = concat!("Sets `", stringify!($field), "`.")]
                #[must_use]
                pub fn $set(mut self, $field: $type) -> Self {
                    self.$field = $field.into();
                    self
                }
            )+
        }
    };
}
pub(crate) use option_setters as setters;
