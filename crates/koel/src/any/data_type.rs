//! Data types as values, and the one place where they meet types: see [`DataType`].
use super::bytes::Bytes;
use crate::strings::StringVec;
use crate::types::Key;
use std::fmt;

mod sealed {
    pub trait Sealed {}
}

/// Types of numbers in columns: `bool`, integers of 8 to 128 bits, `f32`, `f64`. The trait is
/// sealed.
pub trait Typed: Key + Default + PartialEq + fmt::Debug + sealed::Sealed {
    /// The type as a value.
    const TYPE: DataType;
    #[doc(hidden)]
    fn wrap(values: &[Self]) -> Slice<'_>;
    #[doc(hidden)]
    fn unwrap<'a>(values: Slice<'a>) -> Option<&'a [Self]>;
    #[doc(hidden)]
    fn wrap_vec(values: Vec<Self>) -> Values;
    #[doc(hidden)]
    fn unwrap_vec(values: Values) -> Option<Vec<Self>>;
}
/// Values of a column, as a slice of their type.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Slice<'a>(pub(super) Data<'a>);
/// Values of a column, in own memory.
#[doc(hidden)]
pub struct Values(pub(super) DataVec);

/// Evaluates an expression with the values of a column as a slice of their type, or as strings.
macro_rules! with_data {
    ($data:expr, $values:ident => $what:expr, $bytes:ident => $of_bytes:expr) => {
        with_data!(@ $data, $values => $what, $bytes => $of_bytes,
            Bool I8 I16 I32 I64 I128 U8 U16 U32 U64 U128 F32 F64)
    };
    (
        @ $data:expr, $values:ident => $what:expr, $bytes:ident => $of_bytes:expr,
        $($name:ident)+
    ) => {
        match $data {
            $($crate::any::data_type::Data::$name($values) => $what,)+
            $crate::any::data_type::Data::Bytes($bytes) => $of_bytes,
        }
    };
}
pub(super) use with_data;
/// Evaluates an expression with a data type as a type, or for strings.
macro_rules! with_type {
    ($data_type:expr, $type:ident => $what:expr, bytes => $of_bytes:expr) => {
        with_type!(@ $data_type, $type => $what, $of_bytes,
            Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, I128 i128,
            U8 u8, U16 u16, U32 u32, U64 u64, U128 u128, F32 f32, F64 f64)
    };
    (@ $data_type:expr, $type:ident => $what:expr, $of_bytes:expr, $($name:ident $as:ty),+) => {
        match $data_type {
            $($crate::any::data_type::DataType::$name => {
                type $type = $as;
                $what
            })+
            $crate::any::data_type::DataType::Bytes => $of_bytes,
        }
    };
}
pub(super) use with_type;

macro_rules! types {
    ($($name:ident $type:ty, $text:literal;)+) => {
        /// Values of a column.
        #[derive(Clone, Copy)]
        pub(super) enum Data<'a> {
            $($name(&'a [$type]),)+
            Bytes(Bytes<'a>),
        }
        /// Values of a column in own memory.
        #[derive(Clone, PartialEq, Debug)]
        pub(super) enum DataVec {
            $($name(Vec<$type>),)+
            Bytes(StringVec),
        }
        /// The type of a column's elements.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum DataType {
            $(#[doc = concat!("`", $text, "`.")] $name,)+
            /// Strings of bytes, of any length.
            Bytes,
        }
        impl DataType {
            /// Returns the number of bytes of an element; `None` for strings.
            pub const fn size(self) -> Option<usize> {
                match self {
                    $(DataType::$name => Some(size_of::<$type>()),)+
                    DataType::Bytes => None,
                }
            }
        }
        impl DataType {
            /// All types.
            pub(super) const ALL: &[DataType] = &[$(DataType::$name,)+ DataType::Bytes];
            /// Returns the name, which is the description of the type in files.
            pub(super) const fn name(self) -> &'static str {
                match self {
                    $(DataType::$name => $text,)+
                    DataType::Bytes => "bytes",
                }
            }
        }
        impl DataType {
            /// Returns the type with this name.
            pub(super) fn named(name: &str) -> Option<DataType> {
                DataType::ALL.iter().copied().find(|data_type| data_type.name() == name)
            }
        }
        impl fmt::Display for DataType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
        $(
            impl sealed::Sealed for $type {}
            impl Typed for $type {
                const TYPE: DataType = DataType::$name;
                fn wrap(values: &[$type]) -> Slice<'_> {
                    Slice(Data::$name(values))
                }
                fn unwrap<'a>(values: Slice<'a>) -> Option<&'a [$type]> {
                    match values.0 {
                        Data::$name(values) => Some(values),
                        _ => None,
                    }
                }
                fn wrap_vec(values: Vec<$type>) -> Values {
                    Values(DataVec::$name(values))
                }
                fn unwrap_vec(values: Values) -> Option<Vec<$type>> {
                    match values.0 {
                        DataVec::$name(values) => Some(values),
                        _ => None,
                    }
                }
            }
        )+
        impl Data<'_> {
            pub(super) fn data_type(&self) -> DataType {
                match self {
                    $(Data::$name(_) => DataType::$name,)+
                    Data::Bytes(_) => DataType::Bytes,
                }
            }
            pub(super) fn len(&self) -> usize {
                with_data!(*self, values => values.len(), bytes => bytes.len())
            }
        }
        impl DataVec {
            pub(super) fn as_data(&self) -> Data<'_> {
                match self {
                    $(DataVec::$name(values) => Data::$name(values),)+
                    DataVec::Bytes(strings) => Data::Bytes(Bytes::of_vec(strings)),
                }
            }
        }
    };
}
types! {
    Bool bool, "bool";
    I8 i8, "i8";
    I16 i16, "i16";
    I32 i32, "i32";
    I64 i64, "i64";
    I128 i128, "i128";
    U8 u8, "u8";
    U16 u16, "u16";
    U32 u32, "u32";
    U64 u64, "u64";
    U128 u128, "u128";
    F32 f32, "f32";
    F64 f64, "f64";
}
