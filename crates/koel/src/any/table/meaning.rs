//! Columns as the bits that tables store, and back. Types are matched once per column.
use crate::any::column::{Column, ColumnVec, made};
use crate::any::data_type::{DataType, DataVec, Typed, Values, with_data, with_type};
use crate::device::Device;
use crate::error::Result;
use crate::file::Width;
use crate::types::{BitsOf, Key, Value, key_bits, ordered_bits, value_bits};
use crate::verbs::row_keys::RowKeys;

/// How keys become bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Packed, in canonical form.
    Packed,
    /// As [numbers that compare](Key::ordered) as the keys do.
    Ordered,
}

/// Returns keys as bits of their own width, or as bytes. Errors: too many, out of memory.
pub(super) fn of_keys<'a>(device: &Device, keys: &Column<'a>, form: Form) -> Result<RowKeys<'a>> {
    fn of<'a, K: Key>(device: &Device, keys: &'a [K], form: Form) -> Result<RowKeys<'a>> {
        Ok(RowKeys::of_bits(match form {
            Form::Packed => key_bits::<K, BitsOf<K>>(device, keys)?,
            Form::Ordered => ordered_bits(device, keys)?,
        }))
    }
    with_data!(
        keys.data,
        keys => of(device, keys, form),
        bytes => Ok(RowKeys::Bytes(bytes.0))
    )
}
/// Returns values as bits of their own width, or as bytes. Errors: as [`of_keys`].
pub(super) fn of_values<'a>(device: &Device, values: &Column<'a>) -> Result<RowKeys<'a>> {
    with_data!(
        values.data,
        values => Ok(RowKeys::of_bits(value_bits(device, values)?)),
        bytes => Ok(RowKeys::Bytes(bytes.0))
    )
}
/// Returns the width of the bits of a type; `None` for strings.
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
pub(super) fn meant(
    device: &Device,
    bits: ColumnVec,
    to: DataType,
    form: Form,
) -> Result<ColumnVec> {
    let (data, valid) = bits.into_parts();
    let is_valid = valid.as_deref();
    let data = with_type!(
        to,
        T => unpacked::<T>(device, data, is_valid, form)?,
        bytes => data
    );
    Ok(ColumnVec::new(data, valid))
}
fn unpacked<T: Typed>(
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
        Form::Packed => T::unpack(bits[i].into()),
        Form::Ordered => T::of_ordered(bits[i].into()),
    };
    Ok(T::wrap_vec(made(device, bits.len(), value)?).0)
}
