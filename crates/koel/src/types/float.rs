//! Floats as keys.
use super::value::bits;
use super::{Key, Value};
use koel_kernels::fold::Form;
use std::fmt;

macro_rules! floats {
    ($($float:ident, $total:ident, $nan:literal;)+) => {
        $(
            /// -0.0 and 0.0 are one key, and all NaN are one key, as pandas, NumPy and SQL group
            /// them.
            impl Key for $float {
                const IS_CANONICAL: bool = false;
                #[inline(always)]
                fn canonical(self) -> $float {
                    // The sum with 0.0 is 0.0 for both zeros.
                    if self.is_nan() { $float::from_bits($nan) } else { self + 0.0 }
                }
                const IS_ORDERED: bool = false;
                #[inline(always)]
                fn ordered(self) -> u128 {
                    $total(self.canonical()).ordered()
                }
                #[inline(always)]
                fn of_ordered(number: u128) -> $float {
                    $total::of_ordered(number).0
                }
            }
            /// Ordered as by `total_cmp`.
            impl Key for $total {
                const IS_ORDERED: bool = false;
                #[inline(always)]
                fn ordered(self) -> u128 {
                    Form::floats(bits::<$total>()).ordered(self.pack() as u64).into()
                }
                #[inline(always)]
                fn of_ordered(number: u128) -> $total {
                    $total::unpack(Form::floats(bits::<$total>()).unordered(number as u64).into())
                }
            }

            #[doc = concat!("A `", stringify!($float), "` that is equal to another if its bits")]
            /// are: -0.0 differs from 0.0, and NaN from other NaN.
            #[derive(Clone, Copy, Default)]
            #[repr(transparent)]
            pub struct $total(pub $float);
            // SAFETY: the same memory as a float, of which any bytes are valid.
            unsafe impl bytemuck::Zeroable for $total {}
            // SAFETY: as above.
            unsafe impl bytemuck::Pod for $total {}
            impl PartialEq for $total {
                fn eq(&self, other: &$total) -> bool {
                    self.0.to_bits() == other.0.to_bits()
                }
            }
            impl Eq for $total {}
            impl fmt::Debug for $total {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.0.fmt(f)
                }
            }
        )+
    };
}
floats! {
    f32, TotalF32, 0x7FC0_0000;
    f64, TotalF64, 0x7FF8_0000_0000_0000;
}
