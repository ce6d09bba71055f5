//! Numbers as the bits that tables store, and back. Types are matched once per column.
use super::column::{Column, ColumnVec, made};
use super::data_type::{DataType, DataVec, Typed, Values, with_data, with_type};
use crate::device::Device;
use crate::error::Result;
use crate::file::Width;
use crate::types::{BitsOf, Key, Value, key_bits, ordered_bits, value_bits};
use crate::verbs::row_keys::RowKeys;

/// How numbers become bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Packed, in canonical form. Of several columns, the first has the lowest bits.
    Packed,
    /// As [numbers that compare](Key::ordered) as the keys do. Of several columns, the first has
    /// the highest bits.
    Ordered,
}
impl Form {
    /// Returns a key as a number.
    #[inline(always)]
    pub(super) fn number<K: Key>(self, key: K) -> u128 {
        match self {
            Form::Packed => key.canonical().pack(),
            Form::Ordered => key.ordered(),
        }
    }
    /// Returns the key of such a number. Ignores higher bits.
    #[inline(always)]
    pub(super) fn key<K: Key>(self, number: u128) -> K {
        match self {
            Form::Packed => K::unpack(number),
            Form::Ordered => K::of_ordered(number),
        }
    }
}

/// Returns keys as bits of their own width. Errors: too many, out of memory.
pub(super) fn of_keys<'a, K: Key>(
    device: &Device,
    keys: &'a [K],
    form: Form,
) -> Result<RowKeys<'a>> {
    Ok(RowKeys::of_bits(match form {
        Form::Packed => key_bits::<K, BitsOf<K>>(device, keys)?,
        Form::Ordered => ordered_bits(device, keys)?,
    }))
}
/// Returns values as bits of their own width, or as bytes. Errors: as [`of_keys`].
pub(super) fn of_values<'a>(device: &Device, values: &Column<'a>) -> Result<RowKeys<'a>> {
    with_data!(
        values.data,
        values => Ok(RowKeys::of_bits(value_bits(device, values)?)),
        bytes => Ok(RowKeys::Bytes(bytes.0))
    )
}
/// Returns the width of the bits of values of a type; `None` for strings.
pub(super) fn width(of: DataType) -> Option<Width> {
    fn width<V: Value>() -> Width {
        Width::of::<BitsOf<V>>()
    }
    with_type!(of, T => Some(width::<T>()), bytes => None)
}
/// Returns the bits of a key in canonical form, packed, of those that compare as keys do.
pub(super) fn packed(of: DataType, ordered: u128) -> u128 {
    with_type!(of, K => K::of_ordered(ordered).canonical().pack(), bytes => ordered)
}

/// Returns a column of bits as what they mean; nulls are 0. Errors: out of memory.
pub(super) fn unpacked(
    device: &Device,
    bits: ColumnVec,
    to: DataType,
    form: Form,
) -> Result<ColumnVec> {
    let (data, valid) = bits.into_parts();
    let is_valid = valid.as_deref();
    let data = with_type!(
        to,
        T => values::<T>(device, data, is_valid, form)?,
        bytes => data
    );
    Ok(ColumnVec::new(data, valid))
}
fn values<T: Typed>(
    device: &Device,
    bits: DataVec,
    is_valid: Option<&[bool]>,
    form: Form,
) -> Result<DataVec>
where
    BitsOf<T>: Typed,
{
    let Some(mut bits) = BitsOf::<T>::unwrap_vec(Values(bits)) else {
        unreachable!("the table has bits of its types")
    };
    if T::TYPE == BitsOf::<T>::TYPE {
        let rows = bits.iter_mut().zip(is_valid.unwrap_or(&[]));
        rows.filter(|(_, is_valid)| !**is_valid).for_each(|(bits, _)| *bits = Default::default());
        return Ok(Typed::wrap_vec(bits).0);
    }
    let value = |i: usize| match form {
        _ if is_valid.is_some_and(|is_valid| !is_valid[i]) => T::default(),
        form => form.key(bits[i].into()),
    };
    Ok(T::wrap_vec(made(device, bits.len(), value)?).0)
}
