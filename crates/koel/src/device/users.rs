//! The streams that use a piece of memory, so that each use waits for conflicting uses only.
use super::{Stream, StreamHandle, StreamInner};
use crate::error::Result;
use std::sync::{Arc, Weak};

/// The streams that use memory: the one that wrote it last, and those that have read it since.
///
/// A stream is followed by an event recorded on it when it is followed, which comes after all that
/// was put on it before. So the last writer's own reads need no entry while no other stream reads,
/// and most launches enter nothing.
///
/// A reader waits for the writer; a writer waits for all of them. A use is entered before its work
/// is put on the stream. That is not a race: a reader borrows the memory until the work is on the
/// stream, and a writer, or an owner that frees it, has exclusive access.
pub(super) struct Users {
    writer: Writer,
    /// Each follows the writer.
    readers: Vec<User>,
}
/// The last writer of the memory.
enum Writer {
    /// Work outside the capture. Launching the graph waits for it.
    BeforeCapture,
    /// The host or, on a GPU, the legacy default stream.
    Host,
    Stream(User),
}

/// How memory is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Usage {
    Read,
    Write,
}

/// Number of readers that are always tracked separately. Beyond it, a new reader absorbs those
/// whose streams can get no more work.
const FEW: usize = 8;

impl Users {
    /// Creates an empty list; `stream` wrote the memory, if given.
    pub(super) fn new(stream: Option<&Stream>) -> Users {
        Users {
            writer: stream.map_or(Writer::Host, |stream| Writer::Stream(User::new(stream))),
            readers: vec![],
        }
    }
    /// Creates the list of a buffer that a capture has not used yet.
    pub(super) fn in_capture() -> Users {
        Users { writer: Writer::BeforeCapture, readers: vec![] }
    }
    /// Enters a use: later work on `stream` runs after the uses that conflict with it.
    pub(super) fn enter(&mut self, stream: &Stream, usage: Usage) -> Result<()> {
        match usage {
            Usage::Read => self.read(stream),
            Usage::Write => self.write(stream),
        }
    }
    fn read(&mut self, stream: &Stream) -> Result<()> {
        if self.is_only(stream) || self.readers.iter().any(|reader| reader.is(stream)) {
            return Ok(());
        }
        self.follow_writer(stream)?;
        if self.readers.len() >= FEW {
            self.join_ended(stream)?;
        }
        self.readers.push(User::new(stream));
        Ok(())
    }
    fn write(&mut self, stream: &Stream) -> Result<()> {
        if self.is_only(stream) {
            return Ok(());
        }
        if self.readers.is_empty() {
            self.follow_writer(stream)?;
        }
        for reader in self.readers.iter().filter(|reader| !reader.is(stream)) {
            stream.0.follow(Some(&reader.stream))?;
        }
        // Keeps the vector's memory: a launch allocates nothing.
        self.readers.clear();
        self.writer = Writer::Stream(User::new(stream));
        Ok(())
    }
    /// Returns whether `stream` wrote the memory last and no stream has entered a read since.
    fn is_only(&self, stream: &Stream) -> bool {
        let wrote = matches!(&self.writer, Writer::Stream(writer) if writer.is(stream));
        wrote && self.readers.is_empty()
    }
    fn follow_writer(&self, stream: &Stream) -> Result<()> {
        match &self.writer {
            Writer::BeforeCapture => Ok(()),
            Writer::Host => stream.0.follow(None),
            Writer::Stream(writer) if writer.is(stream) => Ok(()),
            Writer::Stream(writer) => stream.0.follow(Some(&writer.stream)),
        }
    }
    /// Makes `stream`, a new reader, absorb the readers whose streams can get no more work.
    fn join_ended(&mut self, stream: &Stream) -> Result<()> {
        // Each is asked once: one that ends meanwhile stays.
        for reader in self.readers.extract_if(.., |reader| reader.is_ended()) {
            stream.0.follow(Some(&reader.stream))?;
        }
        Ok(())
    }
    /// Returns the stream that wrote it last.
    #[cfg(feature = "cuda")]
    pub(super) fn writer(&self) -> Option<&Arc<StreamInner>> {
        match &self.writer {
            Writer::Stream(writer) => Some(&writer.stream),
            _ => None,
        }
    }
    /// Returns the streams after which every use has run.
    #[cfg(feature = "cuda")]
    pub(super) fn last(&self) -> impl Iterator<Item = &Arc<StreamInner>> {
        let writer = self.writer().filter(|_| self.readers.is_empty());
        self.readers.iter().map(|reader| &reader.stream).chain(writer)
    }
}

/// A stream that uses memory. It lives until its last use is known to precede all later ones.
struct User {
    stream: Arc<StreamInner>,
    handle: Weak<StreamHandle>,
}
impl User {
    fn new(stream: &Stream) -> User {
        User { stream: stream.0.inner.clone(), handle: Arc::downgrade(&stream.0) }
    }
    fn is(&self, stream: &Stream) -> bool {
        Arc::ptr_eq(&self.stream, &stream.0.inner)
    }
    /// Returns whether no more work can be put on the stream, which is then final.
    fn is_ended(&self) -> bool {
        self.handle.strong_count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    fn count(users: &Users) -> usize {
        users.readers.len()
    }
    #[test]
    fn readers_do_not_end_each_other() {
        let device = Device::cpu().unwrap();
        let streams = (0..20).map(|_| device.stream().unwrap()).collect::<Vec<_>>();
        let mut users = Users::new(None);
        for _ in 0..2 {
            streams.iter().for_each(|stream| users.enter(stream, Usage::Read).unwrap());
            assert_eq!(count(&users), 20, "streams that can get more work are kept apart");
        }
        users.enter(&streams[3], Usage::Write).unwrap();
        assert_eq!(count(&users), 0);
        assert!(matches!(&users.writer, Writer::Stream(writer) if writer.is(&streams[3])));
    }
    #[test]
    fn reads_of_the_writer_are_entered_once_others_read() {
        let device = Device::cpu().unwrap();
        let (writer, other) = (device.stream().unwrap(), device.stream().unwrap());
        let mut users = Users::new(Some(&writer));
        users.enter(&writer, Usage::Read).unwrap();
        users.enter(&writer, Usage::Write).unwrap();
        assert_eq!(count(&users), 0);
        users.enter(&other, Usage::Read).unwrap();
        assert_eq!(count(&users), 1);
        // The next writer follows the readers only, of which `other` has followed what was before.
        users.enter(&writer, Usage::Read).unwrap();
        assert_eq!(count(&users), 2);
        users.enter(&writer, Usage::Write).unwrap();
        assert_eq!(count(&users), 0);
    }
    #[test]
    fn ended_streams_are_joined() {
        let device = Device::cpu().unwrap();
        let kept = device.stream().unwrap();
        let (mut users, mut other) = (Users::new(None), Users::new(None));
        users.enter(&kept, Usage::Read).unwrap();
        for _ in 0..1000 {
            let stream = device.stream().unwrap();
            users.enter(&stream, Usage::Read).unwrap();
            other.enter(&stream, Usage::Read).unwrap();
        }
        assert!(
            count(&users) <= FEW + 1 && count(&other) <= FEW + 1,
            "{} {}",
            count(&users),
            count(&other)
        );
        assert!(users.readers.iter().any(|reader| reader.is(&kept)));
    }
}
