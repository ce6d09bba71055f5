//! Memory that others own: see [`Foreign`].
#[cfg(feature = "cuda")]
use super::Users;
use super::{Device, Memory, Plain, Shared, View, check_address};
use crate::error::{Error, Result};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// An array of others, read-only, which keeps its owner alive: an Arrow buffer, a DLPack capsule, a
/// mapped file. Nothing is copied.
///
/// ```
/// use koel::device::Foreign;
/// use koel::{Device, MapBuilder, MapOptions};
///
/// let device = Device::cpu()?;
/// let (keys, values) = (vec![3u32, 5, 7], [30u32, 50, 70]);
/// let (keys, values) = (Foreign::new(&device, keys)?, Foreign::new(&device, values)?);
/// let mut builder = MapBuilder::new(&device, MapOptions::default())?;
/// let map = builder.build(&device.stream()?, keys.view(), values.view())?;
/// drop((keys, values)); // and their owners
/// assert_eq!(map.get(&[5, 6])?, [Some(50), None]);
/// let pairs = Foreign::<[u8; 2]>::of_bytes(&device, "koel".as_bytes())?;
/// assert_eq!(pairs.view().download()?, [*b"ko", *b"el"]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # When the owner is dropped
/// Once, when all work that was put on streams with the array has run: on a GPU, dropping the array
/// waits for it. If the GPU fails meanwhile, or if a stream of that work is recording a graph, the
/// owner is never dropped. A function that returns an error has dropped it.
pub struct Foreign<T> {
    shared: Arc<Shared>,
    address: u64,
    len: usize,
    of: PhantomData<T>,
}
/// What owns the memory.
pub(in crate::device) struct Owner(
    #[allow(dead_code, reason = "held until it is dropped")] Option<Box<dyn Send + Sync>>,
);
impl Owner {
    /// Waits for all users of the memory. If one fails, the owner stays for ever: the device may
    /// still read.
    #[cfg(feature = "cuda")]
    pub(super) fn outlive(&mut self, users: &Users) {
        if !users.last().all(|stream| stream.synchronize().is_ok()) {
            std::mem::forget(self.0.take());
        }
    }
}
impl<T: Plain> Foreign<T> {
    /// Takes a slice of host memory with its owner, for the CPU and the executor.
    ///
    /// Errors: a GPU, whose kernels cannot read it: [`upload`](Device::upload) copies.
    pub fn new(
        device: &Device,
        owner: impl AsRef<[T]> + Send + Sync + 'static,
    ) -> Result<Foreign<T>> {
        Foreign::of_owner(device, owner, |owner| Ok(owner.as_ref()))
    }
    /// Takes bytes of host memory with their owner, as elements in the order of this machine.
    ///
    /// Errors: as [`new`](Self::new); a length that is not a multiple of the size of `T`, an
    /// address that is not one of its alignment.
    pub fn of_bytes(
        device: &Device,
        owner: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Result<Foreign<T>> {
        Foreign::of_owner(device, owner, |owner| {
            let bytes: &[u8] = owner.as_ref();
            bytemuck::try_cast_slice(bytes).map_err(|_| Error::Setting {
                field: "bytes",
                found: format!("{} at {:#x}", bytes.len(), bytes.as_ptr().addr()),
                expected: format!(
                    "a multiple of {} at a multiple of {}",
                    size_of::<T>(),
                    align_of::<T>()
                ),
            })
        })
    }
    fn of_owner<O: Send + Sync + 'static>(
        device: &Device,
        owner: O,
        slice: impl FnOnce(&O) -> Result<&[T]>,
    ) -> Result<Foreign<T>> {
        if !device.is_host() {
            let (found, expected) = (device.name(), "a CPU: upload copies host memory".into());
            return Err(Error::Setting { field: "device", found, expected });
        }
        // Where it stays, and may be borrowed while it moves with others: not in a `Box`.
        let owner = Arc::new(owner);
        let slice = slice(&owner)?;
        let (address, len) = (slice.as_ptr() as u64, slice.len());
        // SAFETY: `owner`, which nobody else has, counts as borrowed until it is dropped, and with
        // it the slice.
        unsafe { Foreign::from_raw(device, address, len, owner) }
    }
    /// Takes `len` elements at an address, with their owner: a GPU address, or a host address on
    /// other devices.
    ///
    /// Errors: as [`View::from_raw`].
    ///
    /// # Safety
    /// Until the owner is dropped, wherever it is moved:
    /// * the memory is valid, belongs to the device, and holds `len` elements;
    /// * nobody writes it, and earlier writes have completed, or are earlier on streams that
    ///   synchronize with the legacy default stream.
    pub unsafe fn from_raw(
        device: &Device,
        address: u64,
        len: usize,
        owner: impl Send + Sync + 'static,
    ) -> Result<Foreign<T>> {
        let address = check_address::<T>(address, len)?;
        let owner = Owner(Some(Box::new(owner)));
        let bytes = len.saturating_mul(size_of::<T>());
        let shared = Shared::new(device, Memory::Foreign(owner), bytes, None);
        Ok(Foreign { shared, address, len, of: PhantomData })
    }
    /// Returns a view of all elements.
    pub fn view(&self) -> View<'_, T> {
        View::of(&self.shared, self.address, self.len)
    }
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the device that the memory belongs to.
    pub fn device(&self) -> &Device {
        self.view().device()
    }
}
impl<T: Plain> fmt::Debug for Foreign<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of, device) = (std::any::type_name::<T>(), self.device().name());
        write!(f, "Foreign<{of}>[{}] on {device}", self.len)
    }
}
