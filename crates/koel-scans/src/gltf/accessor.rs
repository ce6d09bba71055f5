//! Numbers in buffers: accessors, dense and sparse.

use super::container::Buffers;
use super::document::{Accessor, Document};
use super::fault::{Fault, fault, get};
use std::ops::Range;

const BYTE: u32 = 5120;
const UNSIGNED_BYTE: u32 = 5121;
const SHORT: u32 = 5122;
const UNSIGNED_SHORT: u32 = 5123;
const UNSIGNED_INT: u32 = 5125;
const FLOAT: u32 = 5126;

/// Maximum number of zeros of accessors without a bufferView: those of 2^26 positions.
const MOST_ZEROS: u64 = 3 << 26;

/// Number of bytes of a component; `None` for types that glTF does not have.
fn size_of(component: u32) -> Option<usize> {
    match component {
        BYTE | UNSIGNED_BYTE => Some(1),
        SHORT | UNSIGNED_SHORT => Some(2),
        UNSIGNED_INT | FLOAT => Some(4),
        _ => None,
    }
}
/// Returns the value of a float, or of an integer, which is divided by its maximum if it is
/// normalized.
fn float(bytes: &[u8], component: u32, normalized: bool) -> f32 {
    let (value, most) = match (component, bytes) {
        (BYTE, &[b]) => (f32::from(b as i8), 127.0),
        (UNSIGNED_BYTE, &[b]) => (f32::from(b), 255.0),
        (SHORT, &[a, b]) => (f32::from(i16::from_le_bytes([a, b])), 32767.0),
        (UNSIGNED_SHORT, &[a, b]) => (f32::from(u16::from_le_bytes([a, b])), 65535.0),
        (_, &[a, b, c, d]) => return f32::from_le_bytes([a, b, c, d]),
        _ => return f32::NAN,
    };
    if normalized { (value / most).max(-1.0) } else { value }
}
/// Returns the value of an unsigned integer.
fn integer(bytes: &[u8]) -> u32 {
    match *bytes {
        [b] => b.into(),
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => u32::MAX,
    }
}

/// What an accessor must hold.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    /// Name of the type, and its components.
    pub shape: (&'static str, usize),
    /// Number of elements, if it is known.
    pub count: Option<usize>,
}
pub(super) const SCALAR: (&str, usize) = ("SCALAR", 1);
pub(super) const VEC3: (&str, usize) = ("VEC3", 3);
pub(super) const VEC4: (&str, usize) = ("VEC4", 4);
pub(super) const MAT4: (&str, usize) = ("MAT4", 16);
pub(super) fn any(shape: (&'static str, usize)) -> Expected {
    Expected { shape, count: None }
}

/// Reads accessors.
pub(super) struct Reader<'d, 'a, 'f> {
    pub document: &'d Document,
    pub buffers: Buffers<'a, 'f>,
    /// Numbers so far that are zero because the file has no bytes for them.
    pub zeros: u64,
}
impl<'d> Reader<'d, '_, '_> {
    /// Returns the number of elements of an accessor, as declared.
    pub(super) fn count(&self, index: usize, at: &str) -> Result<u64, Fault> {
        Ok(get(&self.document.accessors, "accessors", index, at)?.count)
    }
    /// Reads floats and normalized or plain integers of up to 16 bits. All are finite. `at` names
    /// the field that refers to the accessor.
    pub(super) fn floats(
        &mut self,
        index: usize,
        at: &str,
        expected: Expected,
    ) -> Result<Vec<f32>, Fault> {
        let (accessor, at) = self.accessor(index, at, expected)?;
        if accessor.component_type == UNSIGNED_INT {
            let reason = "componentType is 5125, expected floats or integers of up to 16 bits";
            return Err(fault(at, reason.into()));
        }
        let (component, normalized) = (accessor.component_type, accessor.normalized);
        let values =
            self.values(accessor, &at, expected, |bytes| float(bytes, component, normalized))?;
        match values.iter().position(|v| !v.is_finite()) {
            None => Ok(values),
            Some(i) => {
                let (element, part) = (i / expected.shape.1, i % expected.shape.1);
                let value = values[i];
                let what = format!("element {element}, component {part} is {value}");
                Err(fault(at, format!("{what}, expected a finite number")))
            }
        }
    }
    /// Reads unsigned integers.
    pub(super) fn integers(
        &mut self,
        index: usize,
        at: &str,
        expected: Expected,
    ) -> Result<Vec<u32>, Fault> {
        let (accessor, at) = self.accessor(index, at, expected)?;
        let component = accessor.component_type;
        if ![UNSIGNED_BYTE, UNSIGNED_SHORT, UNSIGNED_INT].contains(&component) {
            let what = format!("componentType is {component}");
            return Err(fault(at, format!("{what}, expected 5121, 5123 or 5125 (unsigned)")));
        }
        self.values(accessor, &at, expected, integer)
    }
    /// Checks an accessor's type and count. Also returns its name for errors.
    fn accessor(
        &self,
        index: usize,
        at: &str,
        expected: Expected,
    ) -> Result<(&'d Accessor, String), Fault> {
        let document: &'d Document = self.document;
        let accessor = get(&document.accessors, "accessors", index, at)?;
        let at = format!("{at}, accessors[{index}]");
        if accessor.shape != expected.shape.0 {
            let (found, shape) = (&accessor.shape, expected.shape.0);
            return Err(fault(at, format!("type is {found:?}, expected {shape:?}")));
        }
        if let Some(count) = expected.count
            && accessor.count != count as u64
        {
            let found = accessor.count;
            return Err(fault(at, format!("count is {found}, expected {count}")));
        }
        if size_of(accessor.component_type).is_none() {
            let found = accessor.component_type;
            return Err(fault(at, format!("componentType is {found}, expected 5120 to 5126")));
        }
        Ok((accessor, at))
    }
    /// Reads all components of an accessor, element by element. Without a bufferView all are zero
    /// but the sparse ones. If there are none of these either, the count must be expected: vertices
    /// that are all at the origin are missing, or in an extension.
    fn values<T: Copy + Default>(
        &mut self,
        accessor: &Accessor,
        at: &str,
        expected: Expected,
        of: impl Fn(&[u8]) -> T,
    ) -> Result<Vec<T>, Fault> {
        let width = expected.shape.1;
        let size = size_of(accessor.component_type).unwrap_or(1);
        let mut values = match (accessor.buffer_view, expected.count) {
            (Some(view), _) => {
                let layout = Layout { offset: accessor.byte_offset, count: accessor.count };
                let (bytes, stride) = self.elements(view, layout, width * size, true, at)?;
                let elements = bytes.chunks(stride).map(|e| &e[..width * size]);
                elements.flat_map(|e| e.chunks_exact(size).map(&of)).collect::<Vec<T>>()
            }
            (None, None) if accessor.sparse.is_none() => {
                let reason = "has no bufferView and is not sparse: its data are missing";
                return Err(fault(at.into(), reason.into()));
            }
            (None, _) => {
                // Elements without bytes in the file: a few words can claim any number.
                let components = accessor.count.saturating_mul(width as u64);
                self.zeros = self.zeros.saturating_add(components);
                if self.zeros > MOST_ZEROS {
                    let n = self.zeros;
                    let what = format!("{n} numbers without bytes in the file up to here");
                    return Err(fault(at.into(), format!("{what}, expected at most {MOST_ZEROS}")));
                }
                vec![T::default(); components as usize]
            }
        };
        let Some(sparse) = &accessor.sparse else { return Ok(values) };
        let at = format!("{at}, sparse");
        let component = sparse.indices.component_type;
        let index_size = match component {
            UNSIGNED_BYTE => 1,
            UNSIGNED_SHORT => 2,
            UNSIGNED_INT => 4,
            _ => {
                let what = format!("indices.componentType is {component}");
                return Err(fault(at, format!("{what}, expected 5121, 5123 or 5125")));
            }
        };
        let layout = Layout { offset: sparse.indices.byte_offset, count: sparse.count };
        let (bytes, _) =
            self.elements(sparse.indices.buffer_view, layout, index_size, false, &at)?;
        let indices = bytes.chunks_exact(index_size).map(integer).collect::<Vec<u32>>();
        let layout = Layout { offset: sparse.values.byte_offset, count: sparse.count };
        let (bytes, _) =
            self.elements(sparse.values.buffer_view, layout, width * size, false, &at)?;
        for (i, element) in indices.into_iter().zip(bytes.chunks_exact(width * size)) {
            let place = i as usize * width;
            let Some(to) = values.get_mut(place..place + width) else {
                let count = accessor.count;
                return Err(fault(at, format!("index {i}, but there are {count} elements")));
            };
            to.iter_mut().zip(element.chunks_exact(size)).for_each(|(to, c)| *to = of(c));
        }
        Ok(values)
    }
    /// Returns the bytes of elements of `size` bytes in a view, and their distance.
    fn elements(
        &mut self,
        view: usize,
        Layout { offset, count }: Layout,
        size: usize,
        may_stride: bool,
        at: &str,
    ) -> Result<(&[u8], usize), Fault> {
        let document = self.document;
        let declared = get(&document.buffer_views, "bufferViews", view, at)?;
        let at = format!("{at}, bufferViews[{view}]");
        let stride = declared.byte_stride.filter(|_| may_stride).unwrap_or(size as u64);
        if stride < size as u64 || stride > 252.max(size as u64) {
            let reason = format!("byteStride is {stride}, expected {size} to 252");
            return Err(fault(at, reason));
        }
        // In 128 bits nothing overflows.
        let wide = u128::from;
        let length = match count {
            0 => 0,
            n => wide(n - 1) * wide(stride) + size as u128,
        };
        let end = wide(offset) + length;
        if end > wide(declared.byte_length) {
            let (found, what) = (declared.byte_length, format!("{count} elements of {size} bytes"));
            let reason = format!("has {found} bytes, but {what} at {offset} end at {end}");
            return Err(fault(at, reason));
        }
        let buffer = self.buffers.get(&document.buffers, declared.buffer)?;
        let first = wide(declared.byte_offset) + wide(offset);
        if wide(declared.byte_offset) + wide(declared.byte_length) > buffer.len() as u128 {
            let (start, length) = (declared.byte_offset, declared.byte_length);
            let what = format!("{length} bytes at {start}");
            let reason = format!("has {what} of a buffer of {} bytes", buffer.len());
            return Err(fault(at, reason));
        }
        let range: Range<usize> = first as usize..(first + length) as usize;
        Ok((&buffer[range], stride as usize))
    }
}

/// Place of elements in a view.
struct Layout {
    offset: u64,
    count: u64,
}
