//! Files written in parts.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use parking_lot::Mutex;

use super::durable::{DurableStore, blocking};
use super::failure::STORE;
use super::publish::{Staged, Taken};

/// An upload into one hidden file, published as a whole: all parts or nothing. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct DurableUpload {
    store: DurableStore,
    target: PathBuf,
    /// Bytes handed to `put_part` so far: where the next part goes and how long the file must be in the end.
    length: u64,
    /// `None` once completed, aborted, or failed by a part.
    staged: Arc<Mutex<Option<Staged>>>,
}

impl DurableUpload {
    pub(super) fn new(store: DurableStore, staged: Staged, target: PathBuf) -> Self {
        DurableUpload { store, target, length: 0, staged: Arc::new(Mutex::new(Some(staged))) }
    }
}

#[async_trait]
impl MultipartUpload for DurableUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let mut offset = self.length;
        self.length += data.content_length() as u64;
        let (store, slot) = (self.store.clone(), Arc::clone(&self.staged));
        blocking(move || {
            let mut slot = slot.lock();
            let staged = slot.as_mut().ok_or_else(ended)?;
            for chunk in &data {
                if let Err(error) = staged.write_at(store.publisher(), offset, chunk) {
                    *slot = None;
                    return Err(error);
                }
                offset += chunk.len() as u64;
            }
            Ok(())
        })
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (store, slot, target, length) = (self.store.clone(), Arc::clone(&self.staged), self.target.clone(), self.length);
        blocking(move || {
            let staged = slot.lock().take().ok_or_else(ended)?;
            if staged.written() != length {
                let source = format!("{} of {length} bytes of {} were written", staged.written(), target.display()).into();
                return Err(object_store::Error::Generic { store: STORE, source });
            }
            store.publisher().publish(staged, &target, Taken::Replace)
        })
        .await
    }

    async fn abort(&mut self) -> Result<()> {
        let slot = Arc::clone(&self.staged);
        blocking(move || slot.lock().take().map(drop).ok_or_else(ended)).await
    }
}

fn ended() -> object_store::Error {
    object_store::Error::Generic { store: STORE, source: "the upload was completed or aborted, or a part of it failed".into() }
}
